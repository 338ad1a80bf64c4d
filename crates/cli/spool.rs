//! Making a stream readable twice.

use crate::fifo::Fifo;
use crate::recording::Input;
use anyhow::Context;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// A copy of a stream, without a name in any folder; gone when dropped.
pub(crate) struct Spooled {
    /// How to open it, as often as needed.
    pub(crate) input: Input,
    _file: Option<File>,
}

/// `None` if the input can be opened again as it is.
pub(crate) fn twice_readable(input: &Input) -> anyhow::Result<Option<Spooled>> {
    let is_stdin = input.path == Path::new("-");
    let is_pipe = !is_stdin && is_fifo(&input.path);
    if !is_stdin && !is_pipe {
        return Ok(None);
    }
    if is_stdin && is_file(Path::new(STDIN)) {
        return Ok(Some(opened_as(PathBuf::from(STDIN), None)));
    }
    let mut from: Box<dyn io::Read> = if is_stdin {
        Box::new(io::stdin().lock())
    } else {
        Box::new(Fifo::open(&input.path).with_context(|| format!("cannot open {}", input.name()))?)
    };
    let folder = std::env::temp_dir();
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_TMPFILE)
        .mode(0o600)
        .open(&folder)
        .with_context(|| format!("cannot keep a copy of the stream in {}", folder.display()))?;
    io::copy(&mut from, &mut file)
        .with_context(|| format!("cannot copy the stream to {}", folder.display()))?;
    let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
    Ok(Some(opened_as(path, Some(file))))
}

const STDIN: &str = "/proc/self/fd/0";

fn opened_as(path: PathBuf, file: Option<File>) -> Spooled {
    // Whoever hands us a stream vouches for it.
    let input = Input::of_file(path);
    Spooled { input, _file: file }
}

fn is_file(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|about| about.is_file())
}

fn is_fifo(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    std::fs::metadata(path).is_ok_and(|about| about.file_type().is_fifo())
}

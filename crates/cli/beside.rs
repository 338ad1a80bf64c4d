//! Files that are there whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Writes a file beside the target and gives it the name when it is whole. A
/// link that stands there is replaced, not followed: as root, others may have
/// put it there.
pub(crate) fn replace(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut beside = Beside::new(path)?;
    beside.file.write_all(content)?;
    beside.named()
}

/// A file that gets its name when it is whole; else it goes when dropped.
pub(crate) struct Beside {
    /// What is written to.
    pub(crate) file: File,
    target: PathBuf,
    /// Its name until then; `None` where the target is no file: /dev/stdout, a
    /// pipe, with nothing to replace.
    name: Option<PathBuf>,
}

impl Beside {
    /// Opens it, beside the target.
    pub(crate) fn new(target: &Path) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.write(true);
        let (name, file) = if fs::metadata(target).is_ok_and(|it| !it.is_file()) {
            (None, options.open(target)?)
        } else {
            let mut name = target.file_name().unwrap_or_default().to_os_string();
            name.push(format!(".{}.tmp", std::process::id()));
            let name = target.with_file_name(name);
            let file = options.create_new(true).open(&name)?;
            (Some(name), file)
        };
        Ok(Self {
            file,
            target: target.to_owned(),
            name,
        })
    }

    /// Gives it the target's name.
    pub(crate) fn named(mut self) -> io::Result<()> {
        if let Some(name) = &self.name {
            fs::rename(name, &self.target)?;
        }
        self.name = None;
        Ok(())
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            // The error that matters is the one because of which it goes.
            let _ = fs::remove_file(name);
        }
    }
}

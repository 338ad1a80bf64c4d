//! The bytes of files that others may have made or may be changing.
//!
//! Small files are read into memory. Large ones are mapped, because copying
//! hundreds of megabytes to look at a few pages of them is what makes other
//! tools slow; a mapped file that is truncated by someone else raises SIGBUS,
//! which the binary turns into a message (`prof_sys::shrunk`).

use memmap2::{Advice, UncheckedAdvice};
use std::fs::{File, Metadata, OpenOptions};
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// Files up to this many bytes are read rather than mapped.
const READ_MAX: u64 = 64 << 10;

/// The contents of a file; clones share them.
#[derive(Debug, Clone)]
pub(crate) enum Contents {
    Owned(Arc<Vec<u8>>),
    Mapped(Arc<memmap2::Mmap>),
}

impl Contents {
    pub(crate) fn from_vec(bytes: Vec<u8>) -> Self {
        Self::Owned(Arc::new(bytes))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Owned(bytes) => bytes,
            Self::Mapped(map) => map,
        }
    }

    /// Has the file system read these bytes of a mapping, while others are looked at.
    pub(crate) fn read_ahead(&self, range: Range<usize>) {
        if let Self::Mapped(map) = self
            && range.end <= map.len()
        {
            // Without it they are read when they are looked at.
            let _ = map.advise_range(Advice::WillNeed, range.start, range.len());
        }
    }

    /// Gives the memory back that a mapping's pages take; they are read from
    /// the file again when needed.
    pub(crate) fn release_pages(&self) {
        let Self::Mapped(map) = self else { return };
        #[expect(unsafe_code, reason = "the one place that handles mappings")]
        // SAFETY: nothing writes to this private mapping, so that its pages
        // hold what the file has and come back with the same bytes, also for
        // threads that read them meanwhile. What another process does to the
        // file shows no more than it does anyway, see `map`.
        let released = unsafe { map.unchecked_advise(UncheckedAdvice::DontNeed) };
        // Without it they take memory a little longer.
        let _ = released;
    }
}

/// What the file system said of a file when it was opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileStamp {
    device: u64,
    pub(crate) inode: u64,
    /// Bytes.
    length: u64,
    pub(crate) modified: SystemTime,
    pub(crate) changed: SystemTime,
}

/// A change within this time of another may show the same time.
const CLOCK_GRAIN: Duration = Duration::from_secs(1);

impl FileStamp {
    fn of(metadata: &Metadata) -> io::Result<Self> {
        Ok(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            length: metadata.len(),
            modified: metadata.modified()?,
            changed: unix_time(metadata.ctime(), metadata.ctime_nsec()),
        })
    }

    /// Whether a change of the file from now on shows in its stamp.
    pub(crate) fn is_settled(&self) -> bool {
        let age = SystemTime::now().duration_since(self.changed);
        age.is_ok_and(|age| age > CLOCK_GRAIN)
    }

    /// Whether this is what stands at `path` now.
    pub(crate) fn is_of(&self, path: &Path) -> bool {
        let now = std::fs::metadata(path);
        now.and_then(|it| Self::of(&it)).ok().as_ref() == Some(self)
    }
}

/// Opens a regular file for reading without waiting for anything: a FIFO, a
/// device or a directory is refused instead of blocking or never ending.
pub(crate) fn open_regular(path: &Path, follow: Links) -> io::Result<File> {
    let mut flags = libc::O_NONBLOCK | libc::O_CLOEXEC | libc::O_NOCTTY;
    if follow == Links::Refuse {
        flags |= libc::O_NOFOLLOW;
    }
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "not a regular file",
        ));
    }
    Ok(file)
}

/// Whether the last part of a path may be a symbolic link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Links {
    Follow,
    /// Do not follow it: for names in places where anyone can plant a link,
    /// such as `/tmp`.
    Refuse,
}

/// Reads or maps a whole file.
pub(crate) fn load(path: &Path) -> io::Result<(Contents, FileStamp)> {
    let file = open_regular(path, Links::Follow)?;
    let metadata = file.metadata()?;
    let stamp = FileStamp::of(&metadata)?;
    let contents = if metadata.len() <= READ_MAX {
        Contents::from_vec(read_at_most(&file, READ_MAX)?)
    } else {
        Contents::Mapped(Arc::new(map(&file)?))
    };
    Ok((contents, stamp))
}

/// Reads a file that must not be longer than `most` bytes.
pub(crate) fn read_at_most(file: &File, most: u64) -> io::Result<Vec<u8>> {
    let claimed = file.metadata()?.len().min(most);
    let mut bytes = Vec::with_capacity(usize::try_from(claimed).unwrap_or(0).saturating_add(1));
    file.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("longer than {most} bytes"),
        ));
    }
    Ok(bytes)
}

fn map(file: &File) -> io::Result<memmap2::Mmap> {
    let before = file.metadata()?.len();
    #[expect(unsafe_code, reason = "the one place that maps a file")]
    // SAFETY: the mapping is private and read-only, and nothing in this
    // process writes to files it symbolises from. Another process may still
    // change or truncate the file: changed bytes only change what the parsers
    // see, which they treat as untrusted anyway and read without keeping
    // references across checks of the same byte; a truncated file raises
    // SIGBUS, which ends the program with a message, not in undefined
    // behaviour. The length is checked again below.
    let map = unsafe { memmap2::Mmap::map(file)? };
    let after = file.metadata()?.len();
    if after != before || map.len() as u64 != after {
        return Err(io::Error::other(format!(
            "its size changed from {before} to {after} bytes while it was opened"
        )));
    }
    Ok(map)
}

fn unix_time(seconds: i64, nanos: i64) -> SystemTime {
    let nanos = Duration::from_nanos(u64::try_from(nanos).unwrap_or(0));
    let time = match u64::try_from(seconds) {
        Ok(after) => SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(after)),
        Err(_) => SystemTime::UNIX_EPOCH.checked_sub(Duration::from_secs(seconds.unsigned_abs())),
    };
    time.and_then(|time| time.checked_add(nanos))
        .unwrap_or(SystemTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::{Links, load, open_regular, read_at_most};
    use std::io::{ErrorKind, Write};
    use std::path::Path;

    #[test]
    fn released_pages_read_the_same_again() {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        let large: Vec<u8> = (0..super::READ_MAX as usize + 7)
            .map(|at| (at % 251) as u8)
            .collect();
        file.write_all(&large).expect("written");
        let (contents, _) = load(file.path()).expect("readable");
        assert!(matches!(contents, super::Contents::Mapped(_)));
        assert_eq!(contents.bytes(), large);
        contents.release_pages();
        assert_eq!(contents.bytes(), large);
        for range in [
            0..7,
            5..large.len(),
            0..0,
            9..large.len() + 1,
            3..usize::MAX,
        ] {
            contents.read_ahead(range);
        }
        assert_eq!(contents.bytes(), large);
    }

    #[test]
    fn devices_and_directories_are_refused_at_once() {
        for path in ["/dev/zero", "/tmp", "/dev/tty"] {
            assert!(load(Path::new(path)).is_err(), "{path}");
        }
    }

    #[test]
    fn a_link_is_followed_only_where_allowed() {
        let dir = tempfile::tempdir().expect("a directory");
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        std::fs::write(&file, b"abc").expect("written");
        std::os::unix::fs::symlink(&file, &link).expect("linked");
        assert_eq!(load(&link).expect("followed").0.bytes(), b"abc");
        assert!(open_regular(&link, Links::Refuse).is_err());
    }

    #[test]
    fn a_file_longer_than_the_cap_is_an_error_not_a_cut() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("file");
        std::fs::write(&path, b"12345").expect("written");
        let file = open_regular(&path, Links::Refuse).expect("opened");
        let error = read_at_most(&file, 4).expect_err("too long");
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
    }
}

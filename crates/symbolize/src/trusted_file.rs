//! Files that runtimes write in places where anyone may put one.
//!
//! What names a process's code must come from that process, from root or from
//! who looks: someone else's text would be shown as the program's functions.

use crate::contents::{self, Links};
use prof_profile::{JitFileFault, UnnamedReason};
use std::fs::{self, File, FileType, Metadata};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

/// A map or dump of more than this many bytes is not read.
const LENGTH_MAX: u64 = 256 << 20;

/// Permission bits of others than the owner to write.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Why a perf map or jitdump was not used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JitFileError {
    /// It cannot be opened or read; among others, there is none.
    #[error("cannot read it: {0}")]
    Io(#[from] io::Error),
    /// Its type, owner or mode does not allow it to be trusted.
    #[error("{}", .0.words())]
    Refused(JitFileFault),
    /// Its contents make no sense.
    #[error("{0}")]
    Damaged(String),
}

impl JitFileError {
    /// The reason why addresses that this file would have named have no name.
    pub fn reason(&self) -> UnnamedReason {
        let fault = match self {
            Self::Io(error) => match error.kind() {
                io::ErrorKind::NotFound => return UnnamedReason::NoPerfMap,
                io::ErrorKind::PermissionDenied => JitFileFault::Denied,
                _ => JitFileFault::Unreadable,
            },
            Self::Refused(fault) => *fault,
            Self::Damaged(_) => JitFileFault::Damaged,
        };
        UnnamedReason::PerfMapRefused(fault)
    }
}

/// Reads a file that root or one of `owners` wrote and nobody else can write
/// to. Nothing but a regular file is opened: opening a device may act on it.
pub(crate) fn read_trusted(path: &Path, owners: &[u32]) -> Result<Vec<u8>, JitFileError> {
    check_kind(fs::symlink_metadata(path)?.file_type())?;
    // Another file may stand there by now: what counts is the one opened.
    let file = contents::open_regular(path, Links::Refuse)?;
    let metadata = file.metadata()?;
    check_kind(metadata.file_type())?;
    check_writers(&metadata, owners)?;
    read(&file)
}

fn read(file: &File) -> Result<Vec<u8>, JitFileError> {
    contents::read_at_most(file, LENGTH_MAX).map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => JitFileError::Refused(JitFileFault::TooLarge),
        _ => JitFileError::Io(error),
    })
}

fn check_kind(kind: FileType) -> Result<(), JitFileError> {
    let fault = if kind.is_file() {
        return Ok(());
    } else if kind.is_symlink() {
        JitFileFault::SymbolicLink
    } else if kind.is_dir() {
        JitFileFault::Directory
    } else if kind.is_fifo() {
        JitFileFault::Fifo
    } else if kind.is_socket() {
        JitFileFault::Socket
    } else {
        JitFileFault::Device
    };
    Err(JitFileError::Refused(fault))
}

fn check_writers(metadata: &Metadata, owners: &[u32]) -> Result<(), JitFileError> {
    let owner = metadata.uid();
    let fault = if owner != 0 && !owners.contains(&owner) {
        JitFileFault::OtherOwner
    } else if metadata.mode() & WRITABLE_BY_OTHERS != 0 {
        JitFileFault::Writable
    } else if metadata.nlink() > 1 {
        // Anyone may link to a file that another owns.
        JitFileFault::HardLinks
    } else {
        return Ok(());
    };
    Err(JitFileError::Refused(fault))
}

#[cfg(test)]
mod tests {
    use super::{JitFileError, LENGTH_MAX, read_trusted};
    use prof_profile::{JitFileFault, UnnamedReason};
    use std::fs::{self, File, Permissions};
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    use std::os::unix::net::UnixListener;
    use std::path::Path;

    fn fault(path: &Path, owners: &[u32]) -> Option<JitFileFault> {
        match read_trusted(path, owners) {
            Err(JitFileError::Refused(fault)) => Some(fault),
            _ => None,
        }
    }

    #[test]
    fn a_file_that_others_wrote_or_can_write_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("perf-1.map");
        fs::write(&path, "1000 10 f\n").expect("written");
        let set = |mode| fs::set_permissions(&path, Permissions::from_mode(mode)).expect("set");
        set(0o644);
        let uid = fs::metadata(&path).expect("there").uid();
        assert_eq!(
            read_trusted(&path, &[uid]).expect("trusted"),
            b"1000 10 f\n"
        );
        for mode in [0o664, 0o646, 0o666] {
            set(mode);
            assert_eq!(fault(&path, &[uid]), Some(JitFileFault::Writable));
        }
        set(0o600);
        // Root may give it to anybody, or it is ours.
        let is_given = std::os::unix::fs::chown(&path, Some(12_345), None).is_ok();
        let owner = if is_given { 12_345 } else { uid };
        assert_eq!(fault(&path, &[owner + 1]), Some(JitFileFault::OtherOwner));
        assert!(read_trusted(&path, &[owner + 1, owner]).is_ok());
        fs::hard_link(&path, dir.path().join("second")).expect("linked");
        assert_eq!(fault(&path, &[owner]), Some(JitFileFault::HardLinks));
    }

    #[test]
    fn what_is_no_file_is_told_by_its_kind() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        let uid = fs::metadata(dir.path()).expect("there").uid();
        fs::write(at("file"), "1000 10 f\n").expect("written");
        symlink(at("file"), at("link")).expect("linked");
        let fifo = std::process::Command::new("mkfifo")
            .arg(at("fifo"))
            .status();
        assert!(fifo.expect("mkfifo starts").success());
        let _socket = UnixListener::bind(at("socket")).expect("bound");
        let large = File::create(at("large")).expect("created");
        large.set_len(LENGTH_MAX + 1).expect("set");
        for (path, expected) in [
            (at("link"), JitFileFault::SymbolicLink),
            (at("fifo"), JitFileFault::Fifo),
            (at("socket"), JitFileFault::Socket),
            (at("large"), JitFileFault::TooLarge),
            (dir.path().to_owned(), JitFileFault::Directory),
            ("/dev/zero".into(), JitFileFault::Device),
        ] {
            assert_eq!(fault(&path, &[uid]), Some(expected), "{path:?}");
        }
        let missing = read_trusted(&at("none"), &[uid]).expect_err("missing");
        assert_eq!(missing.reason(), UnnamedReason::NoPerfMap);
    }
}

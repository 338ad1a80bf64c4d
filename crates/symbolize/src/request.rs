//! Which dso is meant, and why no file of it was found.

use prof_abi::BuildId;
use prof_profile::{DsoKind, UnnamedReason};
use std::fmt::Display;
use std::io;
use std::path::Path;
use std::time::SystemTime;

/// The properties of a dso by which its file is found.
#[derive(Debug, Clone, Copy)]
pub struct DsoRequest<'a> {
    /// A file or the vDSO; kernels and JIT code have their own types.
    pub kind: DsoKind,
    /// As recorded: absolute, or a name in brackets; bytes that are not UTF-8 as
    /// `prof_profile::visible` has them.
    pub path: &'a str,
    /// Its identity as recorded. Without it, the next three decide.
    pub build_id: Option<BuildId>,
    /// The root directory of the process (`/proc/PID/root`), if it lives.
    pub root: Option<&'a Path>,
    /// Inode number as recorded.
    pub inode: Option<u64>,
    /// When the recording ended, if it was made on this machine: files newer
    /// than this are not what was mapped.
    pub recorded_at: Option<SystemTime>,
}

impl<'a> DsoRequest<'a> {
    /// A request for a file of which only path and build-id are known.
    pub fn for_file(path: &'a str, build_id: Option<BuildId>) -> Self {
        Self {
            kind: DsoKind::File,
            path,
            build_id,
            root: None,
            inode: None,
            recorded_at: None,
        }
    }
}

/// Why no file was found that can name a dso's addresses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot take symbols from {path}: {detail}")]
pub struct OpenError {
    /// The path as recorded.
    pub path: String,
    /// The reason, as its unnamed functions will have it.
    pub reason: UnnamedReason,
    /// What exactly was wrong, with the values that disagree.
    pub detail: String,
}

impl OpenError {
    pub(crate) fn new(
        request: &DsoRequest<'_>,
        reason: UnnamedReason,
        detail: impl Display,
    ) -> Self {
        Self {
            path: request.path.to_owned(),
            reason,
            detail: detail.to_string(),
        }
    }

    pub(crate) fn of_io(request: &DsoRequest<'_>, error: &io::Error) -> Self {
        let reason = match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => UnnamedReason::FileMissing,
            io::ErrorKind::PermissionDenied => UnnamedReason::FileDenied,
            _ => UnnamedReason::FileDamaged,
        };
        Self::new(request, reason, error)
    }
}

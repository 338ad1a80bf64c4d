//! Where names may come from.

use crate::Demangle;
use prof_abi::BuildId;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

/// Where names may come from.
#[derive(Debug, Clone)]
pub struct Sources {
    /// Recorded paths are looked up below this directory (`--symfs`).
    pub symfs: Option<PathBuf>,
    /// Directories of separate debug files; `/usr/lib/debug`.
    pub debug_dirs: Vec<PathBuf>,
    /// perf's build-id cache; `~/.debug`.
    pub build_id_cache: Option<PathBuf>,
    /// The kernel's file (`--vmlinux`); without it, the usual places.
    pub vmlinux: Option<PathBuf>,
    /// Whether the usual places are tried (not with `--ignore-vmlinux`).
    pub finds_vmlinux: bool,
    /// A copy of `/proc/kallsyms` (`--kallsyms`).
    pub kallsyms: Option<PathBuf>,
    /// `/proc/kallsyms` of this machine, if it was opened with rights that are
    /// gone.
    pub own_kallsyms: Option<Arc<File>>,
    /// Files without a build-id that their recorded paths do not lead to.
    pub at_hand: Vec<FileAtHand>,
    /// Whether names are shown as in the source.
    pub demangle: Demangle,
    /// Fetches files of programs that are nowhere else, such as from a
    /// debuginfod server.
    pub fetch: Option<Arc<dyn FetchFile>>,
}

/// A file that somebody holds open.
#[derive(Debug, Clone)]
pub struct FileAtHand {
    /// The path that is recorded.
    pub path: PathBuf,
    /// Its number in its file system, as recorded.
    pub inode: u64,
    /// Itself.
    pub file: Arc<File>,
}

/// A source of files by build-id that is asked last, such as a debuginfod
/// client.
pub trait FetchFile: std::fmt::Debug + Send + Sync {
    /// A file of a build that was at `path`: what was executed, or its symbols
    /// and debug information. `None` if it cannot be had. May take long; other
    /// threads may ask meanwhile.
    fn fetch(&self, id: &BuildId, what: FileOfBuild, path: &str) -> Option<PathBuf>;
}

/// Which file of a build.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileOfBuild {
    /// What was executed.
    Program,
    /// Its symbols and debug information.
    DebugInfo,
}

impl Default for Sources {
    fn default() -> Self {
        Self {
            symfs: None,
            debug_dirs: vec![PathBuf::from("/usr/lib/debug")],
            build_id_cache: std::env::var_os("HOME")
                .map(PathBuf::from)
                .filter(|home| home.is_absolute())
                .map(|home| home.join(".debug")),
            vmlinux: None,
            finds_vmlinux: true,
            kallsyms: None,
            own_kallsyms: None,
            at_hand: Vec::new(),
            demangle: Demangle::Yes,
            fetch: None,
        }
    }
}

//! Opening dsos, each once.

use crate::{Demangle, KernelRequest, KernelSymbols, SymbolFile, kernel, search};
use prof_abi::BuildId;
use prof_profile::{Avma, DsoKind, UnnamedReason};
use std::collections::HashMap;
use std::fmt::Display;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::SystemTime;

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
    /// Whether names are shown as in the source.
    pub demangle: Demangle,
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
            demangle: Demangle::Yes,
        }
    }
}

/// What is known of a dso whose file is wanted.
#[derive(Debug, Clone, Copy)]
pub struct DsoRequest<'a> {
    /// A file or the vDSO; kernels and JIT code have their own types.
    pub kind: DsoKind,
    /// As recorded: absolute, or a name in brackets.
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

/// Why no file gives names for a dso.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot take symbols from {path}: {detail}")]
pub struct OpenError {
    /// The path as recorded.
    pub path: String,
    /// The reason that its addresses get.
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

type Opened<T> = Result<Arc<T>, OpenError>;
/// Filled by the thread that asks first, while others wait.
type Slot<T> = Arc<OnceLock<Opened<T>>>;

/// Opens the files behind dsos and keeps them. Shared between threads.
#[derive(Debug, Default)]
pub struct Symbolizer {
    sources: Sources,
    files: Mutex<HashMap<FileKey, Slot<SymbolFile>>>,
    kernels: Mutex<HashMap<KernelKey, Slot<KernelSymbols>>>,
}

/// What makes two requests ask for the same file.
#[derive(Debug, PartialEq, Eq, Hash)]
struct FileKey {
    path: String,
    build_id: Option<BuildId>,
    /// Only where no build-id says which file it is.
    root: Option<PathBuf>,
    inode: Option<u64>,
}

/// What makes two requests ask for the same kernel.
#[derive(Debug, PartialEq, Eq, Hash)]
struct KernelKey {
    build_id: Option<BuildId>,
    release: Option<String>,
    reference: Option<(String, Avma)>,
}

impl Symbolizer {
    /// A symbolizer that looks into these places.
    pub fn new(sources: Sources) -> Self {
        Self {
            sources,
            files: Mutex::default(),
            kernels: Mutex::default(),
        }
    }

    /// Where this one looks.
    pub fn sources(&self) -> &Sources {
        &self.sources
    }

    /// The file behind a dso: as it was mapped, with symbols and debug
    /// information from a separate file where there is one.
    ///
    /// The same request gives the same answer without looking again; other
    /// threads that ask meanwhile wait for it.
    ///
    /// # Errors
    ///
    /// When no file of the recorded build can be read.
    pub fn open(&self, request: &DsoRequest<'_>) -> Opened<SymbolFile> {
        let is_known = request.build_id.is_some();
        let key = FileKey {
            path: request.path.to_owned(),
            build_id: request.build_id,
            root: request.root.filter(|_| !is_known).map(Path::to_owned),
            inode: request.inode.filter(|_| !is_known),
        };
        let slot = {
            let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(files.entry(key).or_default())
        };
        slot.get_or_init(|| {
            let located = search::locate(&self.sources, request)?;
            Ok(Arc::new(SymbolFile::new(located, self.sources.demangle)))
        })
        .clone()
    }

    /// The kernel's code from an address of the recording on, up to `length`
    /// bytes; `None` without a `vmlinux` of its build.
    pub fn kernel_code(
        &self,
        request: &KernelRequest<'_>,
        start: Avma,
        length: u64,
    ) -> Option<Vec<u8>> {
        kernel::code(&self.sources, request, start, length)
    }

    /// The symbols of a recording's kernel, opened once.
    ///
    /// # Errors
    ///
    /// When there are no symbols of that kernel, or they are hidden.
    pub fn open_kernel(&self, request: &KernelRequest<'_>) -> Opened<KernelSymbols> {
        let key = KernelKey {
            build_id: request.build_id,
            release: request.release.map(str::to_owned),
            reference: request.reference.map(|(name, at)| (name.to_owned(), at)),
        };
        let slot = {
            let mut kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(kernels.entry(key).or_default())
        };
        slot.get_or_init(|| KernelSymbols::open(&self.sources, request).map(Arc::new))
            .clone()
    }
}

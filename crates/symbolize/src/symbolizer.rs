//! Opening dsos, each once.

use crate::embedded::{Part, PartKey, PartNotes};
use crate::file::FileOnDisk;
use crate::perf_map::{LineFault, RefusedLines};
use crate::{
    DsoRequest, Embedded, KernelRequest, KernelSymbols, LineRow, Lookup, Notes, OpenError, Sources,
    SymbolFile, kernel, search,
};
use prof_abi::BuildId;
use prof_profile::{Avma, DsoKind, UnnamedReason};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

type Opened<T> = Result<Arc<T>, OpenError>;
/// Filled by the thread that asks first, while others wait.
type Slot<T> = Arc<OnceLock<Opened<T>>>;

/// Opens the files behind dsos and keeps them. Shared between threads.
#[derive(Debug, Default)]
pub struct Symbolizer {
    sources: Sources,
    files: Mutex<HashMap<FileKey, Kept>>,
    kernels: Mutex<HashMap<KernelKey, Slot<KernelSymbols>>>,
    embedded: OnceLock<Arc<Embedded>>,
    notes: Option<Arc<Notes>>,
    /// Bytes of tables that outlive a recording.
    kept_tables: Option<u64>,
}

/// How many times files that nobody asked for are not closed where tables are kept.
const UNUSED_MAX: u32 = 6;

/// A file that was asked for.
#[derive(Debug, Default)]
struct Kept {
    slot: Slot<SymbolFile>,
    /// How many times unused files were closed since it was asked for.
    unused: u32,
}

impl Kept {
    /// See [`SymbolFile::is_in_place`].
    fn is_in_place(&self) -> Option<bool> {
        self.slot.get()?.as_ref().ok()?.is_in_place()
    }
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
            embedded: OnceLock::new(),
            notes: None,
            kept_tables: None,
        }
    }

    /// Keeps what was read of files from recording to recording, up to so many
    /// bytes after each [`Symbolizer::close_unused`]. For programs that read many
    /// recordings of one machine.
    #[must_use]
    pub fn keeping_tables(self, bytes: u64) -> Self {
        Self {
            kept_tables: Some(bytes),
            ..self
        }
    }

    /// Whether tables are to stay when a recording has its names.
    pub fn keeps_tables(&self) -> bool {
        self.kept_tables.is_some()
    }

    /// Records in `notes` every look-up from now on, with its answer.
    #[must_use]
    pub fn noting(self, notes: Arc<Notes>) -> Self {
        Self {
            notes: Some(notes),
            ..self
        }
    }

    /// The notes in which look-ups are recorded, if there are any.
    pub fn notes(&self) -> Option<&Notes> {
        self.notes.as_deref()
    }

    /// Also answers from the names that a recording carries. Call it once,
    /// before the first file is opened; later calls are ignored.
    pub fn embed(&self, embedded: Arc<Embedded>) {
        let _ = self.embedded.set(embedded);
    }

    /// The names that the recording carries, if any.
    pub fn embedded(&self) -> Option<&Embedded> {
        self.embedded.get().map(Arc::as_ref)
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
            let kept = files.entry(key).or_default();
            // One that is kept from another recording may be another by now.
            if kept.unused > 0 && !is_known && kept.is_in_place() != Some(true) {
                *kept = Kept::default();
            }
            kept.unused = 0;
            Arc::clone(&kept.slot)
        };
        slot.get_or_init(|| self.open_sides(request).map(Arc::new))
            .clone()
    }

    /// Closes files that were not used since the last call (where tables are kept:
    /// since some calls), and those of unknown build, since another file may have
    /// taken their place (where tables are kept: only if that cannot be told, or
    /// when it has), and forgets files that could not be opened; and tables
    /// over the bytes that may be kept, those longest unused first. For programs
    /// that read many recordings of one machine.
    pub fn close_unused(&self) {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let most = self.kept_tables.map_or(0, |_| UNUSED_MAX);
        files.retain(|key, kept| {
            let is_open = kept.slot.get().is_some_and(Result::is_ok);
            kept.unused += 1;
            let is_sure =
                key.build_id.is_some() || (self.keeps_tables() && kept.is_in_place() == Some(true));
            is_open && is_sure && kept.unused <= most + 1
        });
        if let Some(bytes) = self.kept_tables {
            forget_tables_over(bytes, files.values());
        }
    }

    /// The files of a dso, what the recording carries of it, or both.
    fn open_sides(&self, request: &DsoRequest<'_>) -> Result<SymbolFile, OpenError> {
        let key = || {
            let (path, id) = (request.path.to_owned(), request.build_id);
            match request.kind {
                DsoKind::Vdso => PartKey::Vdso(path, id),
                _ => PartKey::File(path, id),
            }
        };
        let part = self.embedded().and_then(|embedded| embedded.part(&key()));
        let notes = self.notes().map(|notes| notes.part(key()));
        let located = search::locate(&self.sources, request);
        let (disk, error) = match located {
            Ok(located) => (Some(FileOnDisk::new(located, self.sources.demangle)), None),
            Err(error) => (None, Some(error)),
        };
        let is_sure = request.build_id.is_some();
        let recorded = part.as_ref().and_then(|part| part.error(request.path));
        let opened = SymbolFile::new(disk, part, is_sure, notes.clone());
        opened.ok_or_else(|| {
            let missing = || OpenError::new(request, UnnamedReason::FileMissing, "no file");
            let error = recorded.or(error).unwrap_or_else(missing);
            if let Some(notes) = notes {
                notes.refusal(&error);
            }
            error
        })
    }

    /// The kernel's code from an address of the recording on, up to `length`
    /// bytes; `None` without a `vmlinux` of its build.
    pub fn kernel_code(
        &self,
        request: &KernelRequest<'_>,
        start: Avma,
        length: u64,
    ) -> Option<Vec<u8>> {
        let here = kernel::code(&self.sources, request, start, length);
        let code = here.or_else(|| {
            let part = self.kernel_part(request)?;
            Some(part.text_bytes(start.0, length)?.to_vec())
        });
        if let Some(notes) = self.kernel_notes(request) {
            notes.code(start.0, code.as_deref());
        }
        code
    }

    fn kernel_part(&self, request: &KernelRequest<'_>) -> Option<Arc<Part>> {
        self.embedded()?.kernel(request.release, request.build_id)
    }

    fn kernel_notes(&self, request: &KernelRequest<'_>) -> Option<PartNotes> {
        let release = request.release.unwrap_or_default().to_owned();
        let key = PartKey::Kernel(release, request.build_id);
        Some(self.notes()?.part(key))
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
        slot.get_or_init(|| {
            let here = KernelSymbols::open(&self.sources, request);
            let notes = self.kernel_notes(request);
            let opened = KernelSymbols::with_part(here, self.kernel_part(request), &self.sources);
            match (opened, notes) {
                (Ok(opened), notes) => Ok(Arc::new(opened.noting(notes))),
                (Err(error), Some(notes)) => {
                    notes.refusal(&error);
                    Err(error)
                }
                (Err(error), None) => Err(error),
            }
        })
        .clone()
    }

    /// Names of a process's run-time code that the recording carries.
    pub fn run_time_code(&self, pid: i32) -> Option<RunTimeCode> {
        let part = self.embedded()?.part(&PartKey::RunTime(pid))?;
        Some(RunTimeCode(part))
    }

    /// The same, found by the jitdump that named the code.
    pub fn run_time_code_of(&self, dump: &str) -> Option<RunTimeCode> {
        self.embedded()?.run_time_code(dump).map(RunTimeCode)
    }
}

/// Forgets the tables of files until the others take no more than so many bytes:
/// those longest unused go first, of these the largest.
fn forget_tables_over<'a>(most: u64, files: impl Iterator<Item = &'a Kept>) {
    let open = files.filter_map(|kept| Some((kept.unused, kept.slot.get()?.as_ref().ok()?)));
    let sized = open.map(|(unused, file)| (unused, file.table_bytes(), file));
    let mut sized: Vec<_> = sized.collect();
    sized.sort_by_key(|&(unused, bytes, _)| (unused, bytes));
    let mut sum: u64 = 0;
    for (_, bytes, file) in sized {
        let with_it = sum.saturating_add(bytes);
        match with_it <= most && !file.is_worn() {
            true => sum = with_it,
            false => file.forget_tables(),
        }
    }
}

/// Names of code that a process made at run time, embedded in a recording.
#[derive(Debug, Clone)]
pub struct RunTimeCode(Arc<Part>);

impl RunTimeCode {
    /// Why there are none.
    pub fn refusal(&self) -> Option<UnnamedReason> {
        self.0.refusal.as_ref().map(|(reason, _)| *reason)
    }

    /// The jitdump that named it, if one did.
    pub fn dump_path(&self) -> Option<&Path> {
        self.0.from.as_deref().map(Path::new)
    }

    /// Lines of its perf map that were refused.
    pub fn refused(&self) -> &BTreeMap<LineFault, RefusedLines> {
        self.0.refused()
    }

    /// What stands at an address.
    pub fn lookup(&self, avma: Avma) -> Lookup {
        let found = self.0.lookup(avma.0, crate::Detail::Source);
        found.unwrap_or_else(|| Lookup::unnamed(UnnamedReason::NotInPerfMap))
    }

    /// Instructions from the start of a function on, and their lines.
    pub fn code(&self, start: Avma) -> Option<(&[u8], &[LineRow])> {
        let bytes = self.0.text_bytes(start.0, u64::MAX)?;
        Some((bytes, self.0.rows_from(start.0)))
    }
}

//! Machine code and source texts for the views of code, from the files that
//! also give the names.

use crate::rust_source;
use prof_profile::{Avma, DsoId, DsoKind, Function, Profile, Svma};
use prof_report::code::{Arch, CodeSource, FunctionCode, LineAt, NoCode};
use prof_symbolize::{
    Detail, DsoRequest, JitDump, KernelRequest, LineRow, Symbol, SymbolFile, Symbolizer,
};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Longer functions are shown up to here, bytes.
const LONGEST_FUNCTION: u64 = 1 << 20;
/// Longer sources are not read, bytes.
const LONGEST_SOURCE: u64 = 16 << 20;

/// Reads code through a symbolizer, and sources from their recorded paths.
pub struct FileCode {
    symbolizer: Arc<Symbolizer>,
    /// Where sources are instead, and how many leading parts of their paths
    /// are left out there.
    sources_below: Option<(PathBuf, usize)>,
}

impl FileCode {
    /// Sources are read from their recorded paths.
    pub fn new(symbolizer: Arc<Symbolizer>) -> Self {
        Self {
            symbolizer,
            sources_below: None,
        }
    }

    /// Sources are read below `dir`, if given, from their recorded paths
    /// without the first `strip` parts.
    pub fn with_sources_below(mut self, dir: Option<PathBuf>, strip: usize) -> Self {
        self.sources_below = dir.map(|dir| (dir, strip));
        self
    }

    /// Why a file, which may be known by the names that the recording carries of it, has
    /// no code of a function there.
    fn why_no_code(&self, profile: &Profile, function: &Function) -> NoCode {
        let here = Self::new(Arc::new(Symbolizer::new(self.symbolizer.sources().clone())));
        match here.open(profile, function.dso) {
            Err(NoCode(why)) => NoCode(format!(
                "{why}; the recording has names of it, but not its code"
            )),
            Ok(_) => {
                let path = profile.name(profile.dso(function.dso).path);
                NoCode(format!("{path} holds no code at {:#x}", function.start))
            }
        }
    }

    fn open(&self, profile: &Profile, dso: DsoId) -> Result<Arc<SymbolFile>, NoCode> {
        let about = profile.dso(dso);
        let path = profile.name(about.path);
        let reason = match about.kind {
            DsoKind::File | DsoKind::Vdso => {
                let request = DsoRequest {
                    kind: about.kind,
                    ..DsoRequest::for_file(path, about.build_id)
                };
                return self
                    .symbolizer
                    .open(&request)
                    .map_err(|error| NoCode(without_number(&error.to_string())));
            }
            DsoKind::Unknown => "no file was mapped there",
            _ => "it is no file",
        };
        Err(NoCode(format!("{path}: {reason}")))
    }

    /// Code that was made at run time, from the jitdump that also names it.
    fn jit_code(&self, profile: &Profile, function: &Function) -> Result<FunctionCode, NoCode> {
        let dso = profile.dso(function.dso);
        let is_python = profile.name(dso.short_name) == "[python]";
        let dump = dso.symbols_from.ok_or_else(|| {
            if is_python {
                return NoCode(
                    "it is Python code, which the interpreter ran: there are no instructions of it"
                        .into(),
                );
            }
            NoCode(
                "code made at run time is gone with its process; a jitdump would keep it: \
                 node --perf-prof, java -agentpath:libperf-jvmti.so, then prof record -k mono --call-graph fp"
                    .into(),
            )
        })?;
        let path = profile.name(dump);
        if let Some(code) = self.embedded_jit_code(profile, function, path)? {
            return Ok(code);
        }
        // Names were taken from it, so its owner is one who may give them.
        let owner = std::fs::symlink_metadata(path).map_or(0, |dump| dump.uid());
        let dump = JitDump::open(Path::new(path), &[owner])
            .map_err(|error| NoCode(format!("{path}: {error}")))?;
        let at = Avma(function.start.0);
        let (start, bytes) = dump
            .code_bytes(at, None)
            .ok_or_else(|| NoCode(format!("{path} holds no code at {at:#x}")))?;
        let rows: Vec<LineRow> = dump
            .line_rows(at)
            .into_iter()
            .map(|(address, file, line)| LineRow {
                address: Svma(address.0),
                line,
                file: Some(file.into()),
            })
            .collect();
        if let Some(notes) = self.symbolizer.notes() {
            notes.note_jitdump_code(path, (start, bytes), &rows);
        }
        Ok(FunctionCode {
            arch: arch_of(profile)?,
            start: Svma(start.0),
            bytes: bytes.to_vec(),
            lines: lines_of(rows),
        })
    }

    /// The same from what the recording carries of the jitdump at `path`.
    fn embedded_jit_code(
        &self,
        profile: &Profile,
        function: &Function,
        path: &str,
    ) -> Result<Option<FunctionCode>, NoCode> {
        let Some(code) = self.symbolizer.run_time_code_of(path) else {
            return Ok(None);
        };
        let start = Avma(function.start.0);
        let Some((bytes, rows)) = code.code(start) else {
            return Ok(None);
        };
        if let Some(notes) = self.symbolizer.notes() {
            notes.note_jitdump_code(path, (start, bytes), rows);
        }
        Ok(Some(FunctionCode {
            arch: arch_of(profile)?,
            start: function.start,
            bytes: bytes.to_vec(),
            lines: lines_of(rows.to_vec()),
        }))
    }

    /// The kernel's code, from a `vmlinux` of the recorded build. What is
    /// added to its addresses at boot follows from where the function is.
    fn kernel_code(&self, profile: &Profile, function: &Function) -> Result<FunctionCode, NoCode> {
        let size = function.size.min(LONGEST_FUNCTION);
        let start = Avma(function.start.0);
        let request = KernelRequest {
            build_id: profile.origin.kernel_build_id,
            release: Some(&profile.origin.os_release),
            reference: Some((profile.name(function.name), start)),
        };
        let missing = || {
            NoCode(
                "the kernel's code is not in its list of symbols; install the kernel's debug \
                 package, or name the file: -k vmlinux"
                    .into(),
            )
        };
        let code = self.symbolizer.kernel_code(&request, start, size);
        let bytes = code.filter(|code| !code.is_empty()).ok_or_else(missing)?;
        Ok(FunctionCode {
            arch: arch_of(profile)?,
            start: function.start,
            bytes,
            lines: Vec::new(),
        })
    }
}

impl CodeSource for FileCode {
    fn function(&self, profile: &Profile, function: &Function) -> Result<FunctionCode, NoCode> {
        let arch = arch_of(profile)?;
        match profile.dso(function.dso).kind {
            DsoKind::Jit => return self.jit_code(profile, function),
            DsoKind::Kernel => return self.kernel_code(profile, function),
            _ => {}
        }
        let file = self.open(profile, function.dso)?;
        let size = function.size.min(LONGEST_FUNCTION);
        let missing = || self.why_no_code(profile, function);
        let bytes = file.text_bytes(function.start, size).ok_or_else(missing)?;
        if bytes.is_empty() {
            return Err(missing());
        }
        let rows = file.line_rows(function.start, function.start.plus(size));
        Ok(FunctionCode {
            arch,
            start: function.start,
            bytes: bytes.to_vec(),
            lines: lines_of(rows),
        })
    }

    fn source(&self, file: &str) -> Option<String> {
        if let Some((dir, strip)) = &self.sources_below {
            let parts = file.split('/').filter(|part| !part.is_empty());
            let below: PathBuf = parts.skip(*strip).collect();
            return read_source(Some(dir), below.to_str()?);
        }
        let embedded = self.symbolizer.embedded();
        // What was embedded is what was recorded; the file may be newer.
        let text = match embedded.and_then(|embedded| embedded.source(file)) {
            Some(text) => text.to_owned(),
            None => read_source(self.symbolizer.sources().symfs.as_deref(), file)?,
        };
        if let Some(notes) = self.symbolizer.notes() {
            notes.note_source(file, &text);
        }
        Some(text)
    }

    fn is_newer(&self, profile: &Profile, dso: DsoId, source: &str) -> bool {
        let embedded = self.symbolizer.embedded();
        if self.sources_below.is_some() || embedded.is_some_and(|it| it.source(source).is_some()) {
            return false;
        }
        let symfs = self.symbolizer.sources().symfs.as_deref();
        let written = |path: &str| {
            let path = source_path(symfs, path);
            std::fs::metadata(path)
                .and_then(|about| about.modified())
                .ok()
        };
        let program = profile.dso(dso);
        let both = (written(source), written(profile.name(program.path)));
        let is_file = program.kind == DsoKind::File;
        is_file && matches!(both, (Some(source), Some(program)) if source > program)
    }

    fn name_at(&self, profile: &Profile, dso: DsoId, address: Svma) -> Option<String> {
        let file = self.open(profile, dso).ok()?;
        let found = file.lookup(address, Detail::Symbol);
        Some(symbol_and_offset(&found.symbol?, address))
    }

    fn data_at(&self, profile: &Profile, dso: DsoId, address: Svma) -> Option<String> {
        let file = self.open(profile, dso).ok()?;
        Some(symbol_and_offset(&file.symbol_before(address)?, address))
    }
}

fn symbol_and_offset(symbol: &Symbol, address: Svma) -> String {
    match address.0.wrapping_sub(symbol.start.0) {
        0 => symbol.name.to_string(),
        offset => format!("{}+{offset:#x}", symbol.name),
    }
}

/// Rows of a line table as views take them.
fn lines_of(rows: Vec<LineRow>) -> Vec<LineAt> {
    let line = |row: LineRow| LineAt {
        address: row.address,
        line: if row.file.is_some() { row.line } else { 0 },
        file: row.file.unwrap_or_default(),
    };
    rows.into_iter().map(line).collect()
}

/// The text of a source file as it is now, below `symfs` if given, or where
/// Rust's own sources are installed; `None` if it cannot be read.
pub(crate) fn read_source(symfs: Option<&Path>, file: &str) -> Option<String> {
    let path = source_path(symfs, file);
    read_regular(&path).or_else(|| read_regular(&rust_source::find(file)?))
}

/// Where a file of the recording is looked for.
fn source_path(symfs: Option<&Path>, file: &str) -> PathBuf {
    match symfs {
        Some(root) => root.join(file.trim_start_matches('/')),
        None => PathBuf::from(file),
    }
}

/// The text of a regular file.
fn read_regular(path: &Path) -> Option<String> {
    // A recording may name anything: only regular files are read, and
    // opening never waits.
    let source = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)
        .ok()?;
    let metadata = source.metadata().ok()?;
    if !metadata.is_file() || metadata.len() > LONGEST_SOURCE {
        return None;
    }
    let mut bytes = Vec::new();
    source.take(LONGEST_SOURCE).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// An error's words without the number that the system has for it.
fn without_number(error: &str) -> String {
    match error.rsplit_once(" (os error ") {
        Some((words, _)) => words.to_string(),
        None => error.to_string(),
    }
}

fn arch_of(profile: &Profile) -> Result<Arch, NoCode> {
    match profile.origin.arch.as_str() {
        "x86_64" | "" => Ok(Arch::X86_64),
        "i386" | "i486" | "i586" | "i686" | "x86" => Ok(Arch::X86),
        "aarch64" | "arm64" => Ok(Arch::Aarch64),
        other => Err(NoCode(format!(
            "instructions of {other} are not decoded; x86 and arm64 are"
        ))),
    }
}

//! Names for code that a JIT compiler made.

use prof_live::{MappedDsos, jitdump_pid};
use prof_profile::{Avma, DroppedCount, UnnamedReason};
use prof_symbolize::{Demangle, JitDump, LineFault, Lookup, PerfMap, RunTimeCode, Symbolizer};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What a process's compiler wrote down of its code.
///
/// A jitdump knows more than a perf map (lines, instructions, times), so it
/// is asked first. Runtimes map a page of the dump as executable so that its
/// path is in the recording.
pub(crate) struct JitNames {
    /// What the recording carries; nothing is read then, since another
    /// process may have the same number now.
    embedded: Option<RunTimeCode>,
    dump: Option<JitDump>,
    /// Where the dump is.
    path: Option<PathBuf>,
    map: Result<PerfMap, UnnamedReason>,
    map_path: String,
    pid: i32,
}

impl JitNames {
    /// What the recording carries of a process, or what there is for it now;
    /// only root or one of `owners` may have written that.
    ///
    /// # Errors
    ///
    /// The reason that its code stays without names.
    pub(crate) fn open(
        (dsos, symbolizer): (&MappedDsos, &Symbolizer),
        pid: i32,
        owners: &[u32],
    ) -> Result<Self, UnnamedReason> {
        let opened = match symbolizer.run_time_code(pid) {
            Some(code) => match code.refusal() {
                // Someone may have brought the file.
                Some(reason) => Self::read(dsos, pid, owners).map_err(|_| reason),
                None => Ok(Self::embedded(code, pid)),
            },
            None => Self::read(dsos, pid, owners),
        };
        if let Some(notes) = symbolizer.notes() {
            let refused = BTreeMap::new();
            let noted = opened.as_ref().map_err(|reason| *reason);
            let noted = noted.map(|names| (names.dump_path(), names.refused().unwrap_or(&refused)));
            notes.note_run_time_code(pid, noted);
        }
        opened
    }

    fn embedded(code: RunTimeCode, pid: i32) -> Self {
        Self {
            path: code.dump_path().map(Path::to_path_buf),
            embedded: Some(code),
            dump: None,
            map: Err(UnnamedReason::NoPerfMap),
            map_path: map_path(pid),
            pid,
        }
    }

    fn read(dsos: &MappedDsos, pid: i32, owners: &[u32]) -> Result<Self, UnnamedReason> {
        let path = dump_path(dsos, pid);
        let dump = path.map(|path| JitDump::open(path, owners).map_err(|error| error.reason()));
        let map_path = map_path(pid);
        let map = PerfMap::open(Path::new(&map_path), owners).map_err(|error| error.reason());
        let (dump, path) = match (dump, &map) {
            (Some(Ok(dump)), _) => (Some(dump), path.map(Path::to_path_buf)),
            (_, Ok(_)) => (None, None),
            // The dump is there, and that is why it was not used.
            (Some(Err(reason)), Err(UnnamedReason::NoPerfMap)) => return Err(reason),
            (_, Err(reason)) => return Err(*reason),
        };
        Ok(Self {
            embedded: None,
            dump,
            path,
            map,
            map_path,
            pid,
        })
    }

    /// The lines of the perf map that were refused, if there is one.
    fn refused(&self) -> Option<&BTreeMap<LineFault, prof_symbolize::RefusedLines>> {
        match &self.embedded {
            Some(code) => Some(code.refused()),
            None => self.map.as_ref().ok().map(PerfMap::refused),
        }
    }

    /// Adds the lines of the perf map that were refused.
    pub(crate) fn add_refused(&self, refused: &mut RefusedLines) {
        for (&fault, lines) in self.refused().into_iter().flatten() {
            let first = || (0, format!("{}:{}", self.map_path, lines.first));
            refused.0.entry(fault).or_insert_with(first).0 += lines.count;
        }
    }

    /// The jitdump that names come from.
    pub(crate) fn dump_path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// What stands at an address.
    pub(crate) fn lookup(&self, avma: Avma, symbolizer: &Symbolizer) -> Lookup {
        let found = match &self.embedded {
            Some(code) => code.lookup(avma),
            None => self.lookup_in_files(avma, symbolizer.sources().demangle),
        };
        if let Some(notes) = symbolizer.notes() {
            notes.note_run_time_name(self.pid, avma, &found);
        }
        found
    }

    fn lookup_in_files(&self, avma: Avma, demangle: Demangle) -> Lookup {
        let in_dump = self
            .dump
            .as_ref()
            .map(|dump| dump.lookup(avma, None, demangle))
            .filter(|found| found.symbol.is_some());
        match (in_dump, &self.map) {
            (Some(found), _) => found,
            (None, Ok(map)) => map.lookup(avma, demangle),
            (None, Err(_)) => Lookup::unnamed(UnnamedReason::NotInPerfMap),
        }
    }
}

/// Where a process's perf map is.
fn map_path(pid: i32) -> String {
    format!("/tmp/perf-{pid}.map")
}

/// Lines of perf maps that were refused: by fault how many, and where the
/// first of them is.
#[derive(Debug, Default)]
pub(crate) struct RefusedLines(BTreeMap<LineFault, (u64, String)>);

impl RefusedLines {
    /// As notes, one for each fault.
    pub(crate) fn into_notes(self) -> Vec<DroppedCount> {
        let note = |(fault, (count, first)): (LineFault, (u64, String))| DroppedCount {
            what: format!(
                "a line of a perf map was refused: {} ({first})",
                fault.words()
            ),
            count,
            clock: None,
        };
        self.0.into_iter().map(note).collect()
    }
}

/// The dump that the process mapped.
fn dump_path(dsos: &MappedDsos, pid: i32) -> Option<&Path> {
    let mut dumps = dsos
        .iter()
        .filter(|(_, dso)| jitdump_pid(&dso.path) == Some(pid))
        .map(|(_, dso)| Path::new(OsStr::from_bytes(&dso.path)));
    dumps.find(|path| path.is_absolute())
}

#[cfg(test)]
mod tests {
    use super::JitNames;
    use prof_live::{MappedDso, MappedDsos};
    use prof_profile::{Avma, DsoKind, JitFileFault, UnnamedReason};
    use prof_symbolize::Symbolizer;
    use std::os::unix::ffi::OsStrExt;
    use std::os::unix::fs::MetadataExt;

    /// A jitdump with one function of four bytes at 0x1000.
    fn dump() -> Vec<u8> {
        let mut bytes = Vec::new();
        for word in [0x4a69_5444_u32, 1, 40, 62, 0, 7, 0, 0, 0, 0] {
            bytes.extend(word.to_le_bytes());
        }
        // CODE_LOAD of 62 bytes at time 5, by pid and tid 7.
        for word in [0_u32, 62, 5, 0, 7, 7] {
            bytes.extend(word.to_le_bytes());
        }
        for long in [0x1000_u64, 0x1000, 4, 1] {
            bytes.extend(long.to_le_bytes());
        }
        bytes.extend(b"f\0\x90\x90\x90\x90");
        bytes
    }

    #[test]
    fn code_is_named_by_the_dump_that_the_process_mapped() {
        // No process has this id, so no perf map is in the way.
        let pid = i32::MAX - 7;
        let dir = tempfile::tempdir().expect("a directory");
        // As Bun names it.
        let path = dir.path().join(format!("jit-{}-{pid}.dump", pid - 1));
        std::fs::write(&path, dump()).expect("written");
        let uid = std::fs::metadata(&path).expect("there").uid();
        let mut dsos = MappedDsos::default();
        let symbolizer = Symbolizer::default();
        let missing = JitNames::open((&dsos, &symbolizer), pid, &[uid]).map(|_| ());
        assert_eq!(missing, Err(UnnamedReason::NoPerfMap));
        dsos.intern(MappedDso {
            kind: DsoKind::File,
            path: path.as_os_str().as_bytes().to_vec(),
            build_id: None,
            inode: None,
            pid: None,
        });
        let names = JitNames::open((&dsos, &symbolizer), pid, &[uid]).expect("a dump");
        assert_eq!(names.dump_path(), Some(path.as_path()));
        let found = names.lookup(Avma(0x1003), &symbolizer);
        assert_eq!(
            found.symbol.map(|it| it.name.to_string()).as_deref(),
            Some("f")
        );
        let missing = names.lookup(Avma(0x1004), &symbolizer);
        assert_eq!(missing.reason, Some(UnnamedReason::NotInPerfMap));
        // Others could write to it now: it is there, so that is the reason.
        let open_to_all = std::os::unix::fs::PermissionsExt::from_mode(0o666);
        std::fs::set_permissions(&path, open_to_all).expect("set");
        let refused = JitNames::open((&dsos, &symbolizer), pid, &[uid]).map(|_| ());
        let reason = UnnamedReason::PerfMapRefused(JitFileFault::Writable);
        assert_eq!(refused, Err(reason));
    }
}

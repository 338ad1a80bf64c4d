//! Names for code that a JIT compiler made.

use prof_live::Modules;
use prof_profile::{Avma, DroppedCount, UnnamedReason};
use prof_symbolize::{Demangle, JitDump, LineFault, Lookup, PerfMap};
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
    dump: Option<JitDump>,
    /// Where the dump is.
    path: Option<PathBuf>,
    map: Result<PerfMap, UnnamedReason>,
    map_path: String,
}

impl JitNames {
    /// Reads what there is for a process; only root or one of `owners` may
    /// have written it.
    ///
    /// # Errors
    ///
    /// The reason that its code stays without names.
    pub(crate) fn open(modules: &Modules, pid: i32, owners: &[u32]) -> Result<Self, UnnamedReason> {
        let path = dump_path(modules, pid);
        let dump = path.map(|path| JitDump::open(path, owners).map_err(|error| error.reason()));
        let map_path = format!("/tmp/perf-{pid}.map");
        let map = PerfMap::open(Path::new(&map_path), owners).map_err(|error| error.reason());
        match (dump, &map) {
            (Some(Ok(dump)), _) => Ok(Self {
                dump: Some(dump),
                path: path.map(Path::to_path_buf),
                map,
                map_path,
            }),
            (_, Ok(_)) => Ok(Self {
                dump: None,
                path: None,
                map,
                map_path,
            }),
            // The dump is there, and that is why it was not used.
            (Some(Err(reason)), Err(UnnamedReason::NoPerfMap)) => Err(reason),
            (_, Err(reason)) => Err(*reason),
        }
    }

    /// Adds the lines of the perf map that were refused.
    pub(crate) fn add_refused(&self, refused: &mut RefusedLines) {
        for (&fault, lines) in self.map.iter().flat_map(PerfMap::refused) {
            let first = || (0, format!("{}:{}", self.map_path, lines.first));
            refused.0.entry(fault).or_insert_with(first).0 += lines.count;
        }
    }

    /// The jitdump that names come from.
    pub(crate) fn dump_path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// What stands at an address.
    pub(crate) fn lookup(&self, avma: Avma, demangle: Demangle) -> Lookup {
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
        };
        self.0.into_iter().map(note).collect()
    }
}

/// The dump that the process mapped: a file `jit-PID.dump`.
fn dump_path(modules: &Modules, pid: i32) -> Option<&Path> {
    let name = format!("jit-{pid}.dump");
    let mut paths = modules
        .iter()
        .map(|(_, module)| Path::new(OsStr::from_bytes(&module.path)));
    paths.find(|path| path.is_absolute() && path.file_name() == Some(OsStr::new(&name)))
}

#[cfg(test)]
mod tests {
    use super::JitNames;
    use prof_live::{Module, Modules};
    use prof_profile::{Avma, DsoKind, JitFileFault, UnnamedReason};
    use prof_symbolize::Demangle;
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
        let path = dir.path().join(format!("jit-{pid}.dump"));
        std::fs::write(&path, dump()).expect("written");
        let uid = std::fs::metadata(&path).expect("there").uid();
        let mut modules = Modules::default();
        let missing = JitNames::open(&modules, pid, &[uid]).map(|_| ());
        assert_eq!(missing, Err(UnnamedReason::NoPerfMap));
        modules.intern(Module {
            kind: DsoKind::File,
            path: path.as_os_str().as_bytes().to_vec(),
            build_id: None,
            inode: None,
            pid: None,
        });
        let names = JitNames::open(&modules, pid, &[uid]).expect("a dump");
        assert_eq!(names.dump_path(), Some(path.as_path()));
        let found = names.lookup(Avma(0x1003), Demangle::Yes);
        assert_eq!(
            found.symbol.map(|it| it.name.to_string()).as_deref(),
            Some("f")
        );
        let missing = names.lookup(Avma(0x1004), Demangle::Yes);
        assert_eq!(missing.reason, Some(UnnamedReason::NotInPerfMap));
        // Others could write to it now: it is there, so that is the reason.
        let open_to_all = std::os::unix::fs::PermissionsExt::from_mode(0o666);
        std::fs::set_permissions(&path, open_to_all).expect("set");
        let refused = JitNames::open(&modules, pid, &[uid]).map(|_| ());
        let reason = UnnamedReason::PerfMapRefused(JitFileFault::Writable);
        assert_eq!(refused, Err(reason));
    }
}

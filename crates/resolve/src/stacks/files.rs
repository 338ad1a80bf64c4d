//! Finding the files of a recording for their unwind information.

use crate::modules::Module;
use prof_abi::BuildId;
use prof_profile::DsoKind;
use prof_symbolize::Sources;
use prof_unwind::Source;
use rustc_hash::FxHashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Opens the file behind a module.
pub trait OpenFile {
    /// The file, if it can be opened and is the one that was mapped; `pid` is
    /// a process that maps it.
    fn open(&mut self, module: &Module, pid: i32) -> Option<prof_unwind::Module>;
}

/// Files of a recording made earlier, possibly elsewhere: by path, then by
/// build-id in perf's cache. A file of another build is not used.
#[derive(Debug, Clone)]
pub struct RecordedFiles {
    /// perf's build-id cache, `~/.debug`.
    cache: Option<PathBuf>,
    /// Recorded paths are looked up below this directory (`--symfs`).
    symfs: Option<PathBuf>,
    /// Build-ids that the recording tells by path.
    build_ids: FxHashMap<Vec<u8>, BuildId>,
}

impl Default for RecordedFiles {
    fn default() -> Self {
        Self {
            cache: std::env::var_os("HOME").map(|home| Path::new(&home).join(".debug")),
            symfs: None,
            build_ids: FxHashMap::default(),
        }
    }
}

impl RecordedFiles {
    /// Files where names are looked for too; `build_ids` are those that the
    /// recording tells by path.
    pub fn of(sources: &Sources, build_ids: FxHashMap<Vec<u8>, BuildId>) -> Self {
        Self {
            cache: sources.build_id_cache.clone(),
            symfs: sources.symfs.clone(),
            build_ids,
        }
    }
}

impl OpenFile for RecordedFiles {
    fn open(&mut self, module: &Module, _pid: i32) -> Option<prof_unwind::Module> {
        let by_path = || self.build_ids.get(&module.path).copied();
        let wanted = module.build_id.or_else(by_path);
        if module.kind == DsoKind::Vdso {
            return self
                .cached(wanted?, "vdso")
                .or_else(|| own_vdso().filter(|own| is_build(own, wanted)));
        }
        let path = Path::new(OsStr::from_bytes(&module.path));
        let below = self.symfs.as_ref().map(|root| {
            let inside = path.strip_prefix("/").unwrap_or(path);
            root.join(inside)
        });
        open_elf(below.as_deref().unwrap_or(path))
            .filter(|file| is_build(file, wanted))
            .or_else(|| self.cached(wanted?, "elf"))
    }
}

impl RecordedFiles {
    /// `~/.debug/.build-id/ab/cdef…/elf`.
    fn cached(&self, build_id: BuildId, name: &str) -> Option<prof_unwind::Module> {
        let hex = build_id.to_string();
        let (first, rest) = hex.split_at_checked(2)?;
        let path = self
            .cache
            .as_ref()?
            .join(".build-id")
            .join(first)
            .join(rest)
            .join(name);
        open_elf(&path).filter(|file| is_build(file, Some(build_id)))
    }
}

/// Whether a file is the build that was recorded; true if none was.
pub(crate) fn is_build(file: &prof_unwind::Module, wanted: Option<BuildId>) -> bool {
    wanted.is_none_or(|wanted| file.build_id().is_some_and(|own| own.matches(&wanted)))
}

/// Opens a regular file as ELF.
pub(crate) fn open_elf(path: &Path) -> Option<prof_unwind::Module> {
    // A recording may name a pipe or a device: opening those can block.
    if !std::fs::metadata(path).ok()?.is_file() {
        return None;
    }
    from_file(File::open(path).ok()?)
}

/// An open file as ELF.
pub(crate) fn from_file(file: File) -> Option<prof_unwind::Module> {
    prof_unwind::Module::open(Source::file(file).ok()?).ok()
}

/// This process's vDSO, which is that of every process of the machine with
/// the same word size.
pub(crate) fn own_vdso() -> Option<prof_unwind::Module> {
    const LARGEST: u64 = 1 << 16;
    let maps = BufReader::new(File::open("/proc/self/maps").ok()?);
    let line = maps
        .lines()
        .map_while(Result::ok)
        .find(|line| line.ends_with("[vdso]"))?;
    let (start, end) = line.split_once(' ')?.0.split_once('-')?;
    let start = u64::from_str_radix(start, 16).ok()?;
    let len = u64::from_str_radix(end, 16).ok()?.checked_sub(start)?;
    let mut bytes = vec![0; usize::try_from(len.min(LARGEST)).ok()?];
    let memory = File::open("/proc/self/mem").ok()?;
    memory.read_exact_at(&mut bytes, start).ok()?;
    prof_unwind::Module::open(Source::Bytes(bytes.into())).ok()
}

#[cfg(test)]
mod tests {
    use super::{OpenFile, RecordedFiles, own_vdso};
    use crate::modules::Module;
    use prof_abi::BuildId;
    use prof_profile::DsoKind;

    #[test]
    fn a_file_of_another_build_is_not_used() {
        let path = std::env::current_exe().expect("a path");
        let mut module = Module {
            kind: DsoKind::File,
            path: path.as_os_str().as_encoded_bytes().to_vec(),
            build_id: None,
            inode: None,
            pid: None,
        };
        let mut files = RecordedFiles::default();
        assert!(files.open(&module, 1).is_some());
        module.build_id = BuildId::new(&[7; 20]);
        assert!(files.open(&module, 1).is_none());
        module.path = b"/dev/null".to_vec();
        module.build_id = None;
        assert!(files.open(&module, 1).is_none());
    }

    #[test]
    fn the_own_vdso_is_an_elf_file_with_a_build_id() {
        let vdso = own_vdso().expect("a vDSO");
        assert!(vdso.build_id().is_some());
    }
}

//! Finding the files of a recording for their unwind information.

use prof_abi::BuildId;
use prof_live::{MappedDso, OpenFile, is_build, open_elf, own_vdso};
use prof_profile::DsoKind;
use prof_symbolize::Sources;
use rustc_hash::FxHashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

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
    fn open(&mut self, dso: &MappedDso, _pid: i32) -> Option<prof_unwind::UnwindDso> {
        let by_path = || self.build_ids.get(&dso.path).copied();
        let wanted = dso.build_id.or_else(by_path);
        if dso.kind == DsoKind::Vdso {
            return self
                .cached(wanted?, "vdso")
                .or_else(|| own_vdso().filter(|own| is_build(own, wanted)));
        }
        let path = Path::new(OsStr::from_bytes(&dso.path));
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
    fn cached(&self, build_id: BuildId, name: &str) -> Option<prof_unwind::UnwindDso> {
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

#[cfg(test)]
mod tests {
    use super::RecordedFiles;
    use prof_abi::BuildId;
    use prof_live::{MappedDso, OpenFile};
    use prof_profile::DsoKind;

    #[test]
    fn a_file_of_another_build_is_not_used() {
        let path = std::env::current_exe().expect("a path");
        let mut dso = MappedDso {
            kind: DsoKind::File,
            path: path.as_os_str().as_encoded_bytes().to_vec(),
            build_id: None,
            inode: None,
            pid: None,
        };
        let mut files = RecordedFiles::default();
        assert!(files.open(&dso, 1).is_some());
        dso.build_id = BuildId::new(&[7; 20]);
        assert!(files.open(&dso, 1).is_none());
        dso.path = b"/dev/null".to_vec();
        dso.build_id = None;
        assert!(files.open(&dso, 1).is_none());
    }
}

//! Finding the files of running processes, in whatever mount namespace and
//! even if deleted.

use crate::mapped_dsos::{Inode, MappedDso};
use crate::stacks::{OpenFile, from_file, is_build, own_vdso};
use prof_profile::DsoKind;
use std::cell::Cell;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// `O_NONBLOCK`, so that opening a pipe in a file's place cannot block; the
/// same on x86 and Arm.
const O_NONBLOCK: i32 = 0o4000;

/// `EMFILE` and `ENFILE`, the same on all of Linux.
const NO_DESCRIPTORS: [i32; 2] = [24, 23];

/// Opens files at the moment they are mapped.
#[derive(Debug, Default)]
pub struct LiveFiles {
    /// Files that were not opened because no descriptor was left.
    without_descriptor: u64,
}

impl LiveFiles {
    /// How many files were not opened because no descriptor was left.
    pub(crate) fn without_descriptor(&self) -> u64 {
        self.without_descriptor
    }
}

impl OpenFile for LiveFiles {
    fn open(&mut self, dso: &MappedDso, pid: i32) -> Option<prof_unwind::UnwindDso> {
        if dso.kind == DsoKind::Vdso {
            return own_vdso();
        }
        let path = Path::new(OsStr::from_bytes(&dso.path));
        let process = PathBuf::from(format!("/proc/{pid}"));
        let is_full = Cell::new(false);
        let same = |path: &Path| {
            let opened = open_regular(path);
            let errno = opened.as_ref().err().and_then(std::io::Error::raw_os_error);
            is_full.set(is_full.get() || errno.is_some_and(|it| NO_DESCRIPTORS.contains(&it)));
            let file = from_file(same_as(opened.ok()?, dso.inode)?)?;
            is_build(&file, dso.build_id).then_some(file)
        };
        let found = same(&under(&process.join("root"), path))
            .or_else(|| same(path))
            // Nothing but its identity says that this is the file.
            .or_else(|| {
                let has_identity = dso.build_id.is_some() || dso.inode.is_some();
                has_identity.then(|| same(&process.join("exe")))?
            })
            .or_else(|| same(&mapped(dso, pid)?));
        self.without_descriptor += u64::from(found.is_none() && is_full.get());
        found
    }

    fn open_file(&mut self, dso: &MappedDso, pid: i32) -> Option<File> {
        let path = Path::new(OsStr::from_bytes(&dso.path));
        let root = PathBuf::from(format!("/proc/{pid}/root"));
        open_same(&under(&root, path), dso.inode).or_else(|| open_same(path, dso.inode))
    }
}

/// `path` below `root`, also when it is absolute.
fn under(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// Opens a regular file if it is the one that was mapped.
fn open_same(path: &Path, wanted: Option<Inode>) -> Option<File> {
    same_as(open_regular(path).ok()?, wanted)
}

/// Opens a file; if it turns out to be a pipe, without waiting.
fn open_regular(path: &Path) -> std::io::Result<File> {
    let mut options = File::options();
    options.read(true).custom_flags(O_NONBLOCK).open(path)
}

/// The file if it is a regular one and the one that was mapped. Devices are not
/// compared: overlays and btrfs tell the mapping another one than `stat`.
fn same_as(file: File, wanted: Option<Inode>) -> Option<File> {
    let found = file.metadata().ok()?;
    let is_same = wanted.is_none_or(|wanted| wanted.inode == 0 || wanted.inode == found.ino());
    (found.is_file() && is_same).then_some(file)
}

/// A way to a deleted, replaced or nameless file (memfd) through one of its
/// mappings. To follow it needs CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE.
fn mapped(dso: &MappedDso, pid: i32) -> Option<PathBuf> {
    let maps = BufReader::new(File::open(format!("/proc/{pid}/maps")).ok()?);
    let range = maps
        .split(b'\n')
        .map_while(Result::ok)
        .find_map(|line| range_of(&line, dso))?;
    Some(PathBuf::from(format!("/proc/{pid}/map_files/{range}")))
}

/// The address range of a line of `/proc/PID/maps`, if it maps this file:
/// `start-end perms offset major:minor inode path`. Of a file that was deleted
/// since its mapping was recorded, the name has become another.
fn range_of(line: &[u8], dso: &MappedDso) -> Option<String> {
    let text = String::from_utf8_lossy(line);
    let mut fields = text.split_ascii_whitespace();
    let range = fields.next()?;
    let inode: u64 = fields.nth(3)?.parse().ok()?;
    let is_it = match dso.inode {
        Some(wanted) if wanted.inode != 0 => wanted.inode == inode,
        _ => {
            let path = String::from_utf8_lossy(&dso.path);
            let name = text.get(text.find(['/', '['])?..)?;
            name == path || name.strip_suffix(" (deleted)") == Some(&path)
        }
    };
    is_it.then(|| range.to_owned())
}

#[cfg(test)]
mod tests {
    use super::{LiveFiles, open_same, range_of};
    use crate::mapped_dsos::{Inode, MappedDso};
    use crate::stacks::OpenFile;
    use prof_profile::DsoKind;

    #[test]
    fn a_replaced_file_is_not_taken_for_the_mapped_one() {
        let path = std::env::current_exe().expect("a path");
        let own = Inode {
            inode: std::os::unix::fs::MetadataExt::ino(&path.metadata().expect("metadata")),
            ..Inode::default()
        };
        let other = Inode {
            inode: own.inode + 1,
            ..own
        };
        assert!(open_same(&path, Some(own)).is_some());
        assert!(open_same(&path, Some(other)).is_none());
        assert!(open_same("/dev/null".as_ref(), None).is_none());
        let dso = MappedDso {
            kind: DsoKind::File,
            path: path.as_os_str().as_encoded_bytes().to_vec(),
            build_id: None,
            inode: Some(own),
            pid: None,
        };
        assert!(
            LiveFiles::default()
                .open(&dso, std::process::id() as i32)
                .is_some()
        );
    }

    #[test]
    fn a_line_of_maps_gives_its_range() {
        let line = b"7f00-7f10 r-xp 00001000 fe:01 4711 /memfd:x y (deleted)";
        let mut dso = MappedDso {
            kind: DsoKind::File,
            path: b"/memfd:x y (deleted)".to_vec(),
            build_id: None,
            inode: None,
            pid: None,
        };
        // Records with a build-id have no inode.
        assert_eq!(range_of(line, &dso).as_deref(), Some("7f00-7f10"));
        dso.path = b"/memfd:x y".to_vec();
        assert_eq!(range_of(line, &dso).as_deref(), Some("7f00-7f10"));
        dso.path = b"/memfd:x".to_vec();
        assert_eq!(range_of(line, &dso), None);
        for (inode, found) in [(4711, Some("7f00-7f10")), (4712, None)] {
            dso.inode = Some(Inode {
                inode,
                ..Inode::default()
            });
            assert_eq!(range_of(line, &dso).as_deref(), found);
        }
        assert_eq!(range_of(b"", &dso), None);
    }
}

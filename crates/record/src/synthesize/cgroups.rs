//! Paths of cgroups by the ids that samples carry.

use prof_abi::Misc;
use prof_perfdata::body::{Body, Cgroup, Name};
use prof_perfdata::write::{Trailer, append_short};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Appends a `CGROUP` record for each cgroup of the hierarchy that perf_event
/// uses; nothing where none is mounted.
pub fn cgroups(trailer: &Trailer, out: &mut Vec<u8>) {
    let Ok(mounts) = fs::read_to_string("/proc/self/mounts") else {
        return;
    };
    let Some(root) = hierarchy(&mounts) else {
        return;
    };
    // Far deeper than any hierarchy that the kernel allows by default.
    const DEEPEST: usize = 64;
    let mut pending = vec![(root.clone(), 0)];
    while let Some((directory, depth)) = pending.pop() {
        let Ok(metadata) = fs::metadata(&directory) else {
            continue; // removed meanwhile
        };
        let below = directory.strip_prefix(&root).unwrap_or(Path::new(""));
        let path = [b"/", below.as_os_str().as_bytes()].concat();
        // A cgroup's id is its inode number on 64-bit kernels.
        let cgroup = Body::Cgroup(Cgroup {
            id: metadata.ino(),
            path: Name::new(&path),
        });
        append_short(&cgroup, Misc(0), trailer, out);
        if depth < DEEPEST {
            let entries = fs::read_dir(&directory).into_iter().flatten().flatten();
            let children =
                entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            pending.extend(children.map(|entry| (entry.path(), depth + 1)));
        }
    }
}

/// Mount point of the hierarchy with the perf_event controller: version 1 if
/// mounted, else version 2, which has it always.
fn hierarchy(mounts: &str) -> Option<PathBuf> {
    let mut unified = None;
    for line in mounts.lines() {
        let mut fields = line.split(' ');
        let point = fields.nth(1)?;
        let kind = fields.next()?;
        let options = fields.next()?;
        match kind {
            "cgroup" if options.split(',').any(|option| option == "perf_event") => {
                return Some(PathBuf::from(point));
            }
            "cgroup2" => unified = unified.or(Some(PathBuf::from(point))),
            _ => {}
        }
    }
    unified
}

#[cfg(test)]
mod tests {
    use super::{cgroups, hierarchy};
    use prof_perfdata::write::Trailer;
    use std::path::PathBuf;

    #[test]
    fn version_one_wins_where_it_has_the_controller() {
        let unified = "none /sys/fs/cgroup cgroup2 rw 0 0\n";
        let first = "none /sys/fs/cgroup/perf_event cgroup rw,perf_event 0 0\n";
        let other = "none /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n";
        assert_eq!(
            hierarchy(&[unified, other].concat()),
            Some(PathBuf::from("/sys/fs/cgroup"))
        );
        let both = hierarchy(&[unified, other, first].concat());
        assert_eq!(both, Some(PathBuf::from("/sys/fs/cgroup/perf_event")));
        assert_eq!(hierarchy("proc /proc proc rw 0 0\n"), None);
    }

    #[test]
    fn the_root_comes_first_if_there_is_one() {
        let mut out = Vec::new();
        cgroups(&Trailer::NONE, &mut out);
        if out.is_empty() {
            println!("skipped: no cgroup hierarchy is mounted here");
            return;
        }
        assert_eq!(out[0], 19);
        assert_eq!(out[16..24], *b"/\0\0\0\0\0\0\0");
    }
}

//! The directories of cgroups, which the kernel takes in place of a process.

use crate::events::EventSpec;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// A cgroup cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NoCgroup {
    /// It is not there, or may not be read.
    #[error("cannot open cgroup {name}: {why}\n  name it by its path below /sys/fs/cgroup")]
    NotOpened {
        /// As asked for.
        name: String,
        /// Why not.
        why: io::Error,
    },
    /// It is of a hierarchy of version 1 that knows no events.
    #[error(
        "cgroup {name} is of a hierarchy (of version 1) by which no events are counted\n  \
         name one of the unified hierarchy: the line that begins with 0:: in /proc/PID/cgroup \
         tells that of a process"
    )]
    KnowsNoEvents {
        /// As asked for.
        name: String,
    },
}

/// Where the hierarchy may be that knows events: that of version 1, or the unified one.
const MOUNTS: [&str; 3] = [OF_EVENTS, "/sys/fs/cgroup/unified", "/sys/fs/cgroup"];
/// The hierarchy of version 1 that is of events alone.
const OF_EVENTS: &str = "/sys/fs/cgroup/perf_event";
/// Cgroups that are listed at most: each costs events of its own.
const MOST_LISTED: usize = 1 << 16;

/// The names of all cgroups by which events can be counted, as paths below their
/// hierarchy, in order; that of everything is the empty one.
pub fn names() -> Vec<String> {
    let is_cgroup = |path: &Path| path.join("cgroup.procs").exists();
    let mut mounts = MOUNTS.iter().map(Path::new);
    let Some(root) = mounts.find(|mount| is_cgroup(mount)) else {
        return Vec::new();
    };
    let (mut names, mut open) = (Vec::new(), vec![root.to_owned()]);
    while let Some(folder) = open.pop() {
        let name = folder.strip_prefix(root).ok().and_then(Path::to_str);
        names.extend(name.map(str::to_owned));
        // One that has just gone has no entries.
        let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        open.extend(folders.map(|entry| entry.path()));
        if names.len() >= MOST_LISTED {
            break;
        }
    }
    names.sort();
    names
}

/// The directory of a cgroup.
fn open(name: &str) -> Result<Arc<File>, NoCgroup> {
    let mut why = io::Error::from_raw_os_error(libc::ENOENT);
    let mut knows_no_events = false;
    for mount in MOUNTS {
        let directory = Path::new(mount).join(name.trim_start_matches('/'));
        // The files of a cgroup tell it from any other directory.
        if !directory.join("cgroup.procs").exists() {
            continue;
        }
        // Below a mount for several hierarchies are those of memory, CPUs and so on.
        if mount != OF_EVENTS && !directory.join("cgroup.controllers").exists() {
            knows_no_events = true;
            continue;
        }
        match File::open(&directory) {
            Ok(directory) => return Ok(Arc::new(directory)),
            Err(error) => why = error,
        }
    }
    let name = name.to_owned();
    Err(match knows_no_events {
        true => NoCgroup::KnowsNoEvents { name },
        false => NoCgroup::NotOpened { name, why },
    })
}

/// The directory for each event, `None` where it is of everything.
pub(crate) fn of_events(specs: &[EventSpec]) -> Result<Vec<Option<Arc<File>>>, NoCgroup> {
    let directories = specs
        .iter()
        .map(|spec| spec.cgroup.as_deref().map(open).transpose());
    directories.collect()
}

/// Why the values of `-G` cannot be matched with the events.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unfit {
    /// No event was named before the first `-G`.
    NoEvents,
    /// There are more cgroup names than events before them.
    TooMany,
}

/// Assigns cgroups to events (`-G`), as perf does. Each element of `lists` is
/// one `-G`: its value, and how many events were named before it. All names of
/// all values, split at commas, are one list that goes to the events in order;
/// an empty name leaves its event without a cgroup. If there is only one name,
/// every event named so far gets it.
pub fn assign(lists: &[(usize, &str)], specs: &mut [EventSpec]) -> Result<(), Unfit> {
    let mut place = 0;
    for &(named, list) in lists {
        let specs = specs.get_mut(..named).unwrap_or_default();
        if specs.is_empty() {
            return Err(Unfit::NoEvents);
        }
        for name in list.split(',') {
            if !name.is_empty() {
                let spec = specs.get_mut(place).ok_or(Unfit::TooMany)?;
                spec.cgroup = Some(name.to_owned());
            }
            place += 1;
        }
        if let ([first, others @ ..], 1) = (specs, place) {
            others
                .iter_mut()
                .for_each(|spec| spec.cgroup.clone_from(&first.cgroup));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{Unfit, assign};
    use crate::events::parse;

    /// covers unit: CALL-14
    #[test]
    fn cgroups_go_to_the_events_before_them() {
        let cgroups = |lists: &[(usize, &str)]| {
            let mut specs = parse("cs,faults,cpu-clock", 0).expect("events");
            assign(lists, &mut specs)?;
            let names = specs
                .into_iter()
                .map(|spec| spec.cgroup.unwrap_or_default());
            Ok(names.collect::<Vec<_>>().join(" "))
        };
        let is = |lists: &[(usize, &str)], names: &str| {
            assert_eq!(cgroups(lists), Ok(names.to_owned()), "{lists:?}");
        };
        is(&[(3, "a")], "a a a");
        is(&[(2, "a")], "a a ");
        is(&[(3, "a,b")], "a b ");
        is(&[(3, "a,,b")], "a  b");
        is(&[(3, ",b")], " b ");
        // A second one goes on behind the first.
        is(&[(3, "a"), (3, "b")], "a b a");
        is(&[(1, "a"), (3, "b")], "a b ");
        assert_eq!(cgroups(&[(3, "a,b,c,d")]), Err(Unfit::TooMany));
        assert_eq!(cgroups(&[(1, "a,b")]), Err(Unfit::TooMany));
        assert_eq!(cgroups(&[(0, "a")]), Err(Unfit::NoEvents));
    }
}

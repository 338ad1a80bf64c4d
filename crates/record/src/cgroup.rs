//! The directories of cgroups, which the kernel takes in place of a process.

use crate::events::EventSpec;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// A cgroup cannot be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot open cgroup {name}: {why}\n  name it by its path below /sys/fs/cgroup")]
pub struct NoCgroup {
    /// As asked for.
    name: String,
    /// Why not.
    why: io::Error,
}

/// The directory of a cgroup, in the hierarchy that knows events: that of
/// version 1, or the unified one.
fn open(name: &str) -> Result<Arc<File>, NoCgroup> {
    const MOUNTS: [&str; 3] = [
        "/sys/fs/cgroup/perf_event",
        "/sys/fs/cgroup/unified",
        "/sys/fs/cgroup",
    ];
    let mut why = io::Error::from_raw_os_error(libc::ENOENT);
    for mount in MOUNTS {
        let directory = Path::new(mount).join(name.trim_start_matches('/'));
        // The files of a cgroup tell it from any other directory.
        if !directory.join("cgroup.procs").exists() {
            continue;
        }
        match File::open(&directory) {
            Ok(directory) => return Ok(Arc::new(directory)),
            Err(error) => why = error,
        }
    }
    Err(NoCgroup {
        name: name.to_owned(),
        why,
    })
}

/// The directory for each event, `None` where it is of everything.
pub(crate) fn of_events(specs: &[EventSpec]) -> Result<Vec<Option<Arc<File>>>, NoCgroup> {
    let directories = specs
        .iter()
        .map(|spec| spec.cgroup.as_deref().map(open).transpose());
    directories.collect()
}

/// All cgroups in order, where `-G` was given several times; `None` without.
pub fn list(given: &[String]) -> Option<String> {
    (!given.is_empty()).then(|| given.join(","))
}

/// Gives events their cgroups (`-G`): one of a list each, in order, none where
/// a name is empty; or all the same one. `false` if there are more cgroups than
/// events.
pub fn assign(list: &str, specs: &mut [EventSpec]) -> bool {
    let names: Vec<&str> = list.split(',').collect();
    let name = |name: &str| (!name.is_empty()).then(|| name.to_owned());
    if let [only] = names.as_slice() {
        specs.iter_mut().for_each(|spec| spec.cgroup = name(only));
        return true;
    }
    for (spec, one) in specs.iter_mut().zip(&names) {
        spec.cgroup = name(one);
    }
    names.len() <= specs.len()
}

#[cfg(test)]
mod tests {
    use super::assign;
    use crate::events::parse;

    /// covers unit: CALL-14
    #[test]
    fn cgroups_go_to_events_in_order_or_one_to_all() {
        let cgroups = |list: &str| {
            let mut specs = parse("cs,faults,cpu-clock", 0).expect("events");
            let fits = assign(list, &mut specs);
            let names = specs
                .into_iter()
                .map(|spec| spec.cgroup.unwrap_or_default());
            (fits, names.collect::<Vec<_>>().join(" "))
        };
        assert_eq!(cgroups("a"), (true, "a a a".to_owned()));
        assert_eq!(cgroups("a,b"), (true, "a b ".to_owned()));
        assert_eq!(cgroups("a,,b"), (true, "a  b".to_owned()));
        assert!(!cgroups("a,b,c,d").0);
    }
}

//! On which CPUs the thread runs that empties the rings (`--affinity`).

use crate::cpu_list::parse_cpu_list;
use crate::options::Affinity;
use prof_sys::prompt::run_on_any;
use std::collections::HashMap;
use std::fs;
use std::path::Path;

/// Moves the calling thread to the rings that it empties.
#[derive(Debug)]
pub(crate) struct Mover {
    /// By CPU: where to run for its ring.
    places: HashMap<u32, Vec<u32>>,
    /// The CPUs that the thread was last moved to.
    at: Option<Vec<u32>>,
}

impl Mover {
    /// For rings of these CPUs; `None` if the thread stays where it is.
    pub(crate) fn new(affinity: Affinity, cpus: impl Iterator<Item = u32>) -> Option<Self> {
        let nodes = match affinity {
            Affinity::System => return None,
            Affinity::Cpu => Vec::new(),
            Affinity::Node => nodes_in(Path::new("/sys/devices/system/node")),
        };
        let place = |cpu| {
            let node = nodes.iter().find(|node| node.contains(&cpu));
            (cpu, node.cloned().unwrap_or_else(|| vec![cpu]))
        };
        Some(Self {
            places: cpus.map(place).collect(),
            at: None,
        })
    }

    /// Goes to where the ring of a CPU is to be emptied. A ring of no CPU is
    /// emptied anywhere, and so is one of a CPU that refuses the thread.
    pub(crate) fn go_to(&mut self, cpu: Option<u32>) {
        let place = cpu.and_then(|cpu| self.places.get(&cpu));
        if let Some(place) = place
            && self.at.as_ref() != Some(place)
        {
            let _ = run_on_any(place);
            self.at = Some(place.clone());
        }
    }
}

/// The CPUs of each NUMA node; none where the directory is not there.
fn nodes_in(directory: &Path) -> Vec<Vec<u32>> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let nodes = entries.filter(|entry| {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("node"));
        number.is_some_and(|number| number.parse::<u32>().is_ok())
    });
    let cpus = nodes.filter_map(|node| {
        let list = fs::read_to_string(node.path().join("cpulist")).ok()?;
        parse_cpu_list(list.trim())
    });
    cpus.collect()
}

#[cfg(test)]
mod tests {
    use super::{Affinity, Mover, nodes_in};
    use std::fs;

    #[test]
    fn a_ring_is_emptied_on_its_cpu_or_its_node() {
        assert!(Mover::new(Affinity::System, [0, 1].into_iter()).is_none());
        let mover = Mover::new(Affinity::Cpu, [0, 5].into_iter()).expect("places");
        assert_eq!(mover.places[&5], [5]);
        let mover = Mover::new(Affinity::Node, [0, 1].into_iter()).expect("places");
        assert!(mover.places[&1].contains(&1));
    }

    #[test]
    fn nodes_are_told_by_their_lists_of_cpus() {
        let directory = tempfile::tempdir().expect("a directory");
        for (name, list) in [("node0", "0-2,5\n"), ("node12", "3\n"), ("nodes", "9\n")] {
            let node = directory.path().join(name);
            fs::create_dir(&node).expect("made");
            fs::write(node.join("cpulist"), list).expect("written");
        }
        let mut nodes = nodes_in(directory.path());
        nodes.sort();
        assert_eq!(nodes, [vec![0, 1, 2, 5], vec![3]]);
        assert!(nodes_in(&directory.path().join("none")).is_empty());
    }
}

//! Where counts are taken, and how CPUs lie in cores, dies, sockets and nodes.

use prof_perfdata::{CpuCache, Feature, FeatureBit, Features};
use prof_record::counting::Reading;
use prof_record::cpu_list::parse_cpu_list;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// What was counted, for each event and place.
pub(crate) type Readings = Vec<Vec<Option<Reading>>>;

/// Whose a count is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CountedIn {
    /// Everything on this CPU.
    Cpu(u32),
    /// A thread.
    Thread(ThreadName),
    /// The command, with its children.
    Command,
}

/// A thread, as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ThreadName {
    /// Thread id; -1 for none in particular.
    pub(crate) tid: i64,
    /// Its name.
    pub(crate) comm: String,
}

impl ThreadName {
    /// A thread that runs, with the name it has now.
    pub(crate) fn of(tid: u32) -> Self {
        let comm = fs::read_to_string(format!("/proc/{tid}/comm")).unwrap_or_default();
        Self {
            tid: i64::from(tid),
            comm: comm.trim_end().to_owned(),
        }
    }
}

/// Where a CPU is. A socket or core that the machine does not tell is −1, as
/// perf has it: 0 is that of other CPUs. A machine without dies, clusters or
/// nodes has one, 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CpuPlace {
    /// Socket (package).
    pub(crate) socket: i32,
    /// Die in its socket.
    pub(crate) die: i32,
    /// Cluster in its die.
    pub(crate) cluster: i32,
    /// Core in its die.
    pub(crate) core: i32,
    /// NUMA node.
    pub(crate) node: i32,
    /// Level and first CPU of the caches that it uses.
    pub(crate) caches: Vec<(u8, i32)>,
}

impl Default for CpuPlace {
    fn default() -> Self {
        Self {
            socket: -1,
            die: 0,
            cluster: 0,
            core: -1,
            node: 0,
            caches: Vec::new(),
        }
    }
}

/// Where the CPUs of a machine are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Topology {
    cpus: BTreeMap<u32, CpuPlace>,
}

impl Topology {
    /// Of the machine whose /sys is this folder.
    pub(crate) fn of_machine(sys: &Path) -> Self {
        let mut cpus = BTreeMap::new();
        for (cpu, directory) in numbered(&sys.join("devices/system/cpu"), "cpu") {
            let number = |name: &str| {
                let text = fs::read_to_string(directory.join("topology").join(name)).ok()?;
                text.trim().parse::<i32>().ok()
            };
            let place = CpuPlace {
                socket: number("physical_package_id").unwrap_or(-1),
                die: number("die_id").unwrap_or(0).max(0),
                cluster: number("cluster_id").unwrap_or(0).max(0),
                core: number("core_id").unwrap_or(-1),
                caches: caches(&directory),
                ..CpuPlace::default()
            };
            cpus.insert(cpu, place);
        }
        for (node, directory) in numbered(&sys.join("devices/system/node"), "node") {
            let list = fs::read_to_string(directory.join("cpulist")).unwrap_or_default();
            set_node(&mut cpus, &list, node as i32);
        }
        Self { cpus }
    }

    /// Of the machine on which a recording was made.
    pub(crate) fn of_recording(features: &Features) -> Self {
        let mut cpus = BTreeMap::new();
        let topology = features.cpu_topology();
        for (cpu, at) in topology
            .into_iter()
            .flat_map(|it| it.cpus.iter().enumerate())
        {
            let place = CpuPlace {
                socket: at.socket.cast_signed(),
                die: at.die.unwrap_or(0).cast_signed(),
                core: at.core.cast_signed(),
                ..CpuPlace::default()
            };
            cpus.insert(cpu as u32, place);
        }
        if let Some(Feature::NumaTopology(nodes)) = features.get(FeatureBit::NUMA_TOPOLOGY) {
            for node in nodes {
                set_node(&mut cpus, &node.cpus.to_string_lossy(), node.node as i32);
            }
        }
        if let Some(Feature::Caches(caches)) = features.get(FeatureBit::CACHE) {
            let is_of_data = |cache: &&CpuCache| cache.kind.as_bytes() != b"Instruction";
            for cache in caches.iter().filter(is_of_data) {
                set_cache(&mut cpus, cache);
            }
        }
        Self { cpus }
    }

    pub(crate) fn at(&self, cpu: u32) -> CpuPlace {
        self.cpus.get(&cpu).cloned().unwrap_or_default()
    }

    /// The level of the largest cache that any CPU uses.
    pub(crate) fn last_cache(&self) -> u8 {
        let levels = self.cpus.values().flat_map(|cpu| &cpu.caches);
        levels.map(|&(level, _)| level).max().unwrap_or(0)
    }
}

fn set_node(cpus: &mut BTreeMap<u32, CpuPlace>, list: &str, node: i32) {
    let listed = parse_cpu_list(list.trim()).unwrap_or_default();
    for cpu in listed {
        if let Some(place) = cpus.get_mut(&cpu) {
            place.node = node;
        }
    }
}

fn set_cache(cpus: &mut BTreeMap<u32, CpuPlace>, cache: &CpuCache) {
    let listed = parse_cpu_list(&cache.cpus.to_string_lossy()).unwrap_or_default();
    let first = listed.first().copied().unwrap_or(0) as i32;
    for cpu in listed {
        if let Some(place) = cpus.get_mut(&cpu) {
            place.caches.push((cache.level as u8, first));
        }
    }
}

/// The folders `cpu0`, `cpu1` …, by number.
fn numbered(directory: &Path, prefix: &str) -> Vec<(u32, PathBuf)> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut found: Vec<_> = entries
        .filter_map(|entry| {
            let name = entry.file_name();
            let number = name.to_str()?.strip_prefix(prefix)?.parse().ok()?;
            Some((number, entry.path()))
        })
        .collect();
    found.sort();
    found
}

/// The caches of a CPU; of two of one level the one for data or for both.
fn caches(directory: &Path) -> Vec<(u8, i32)> {
    let mut found: Vec<(u8, i32)> = Vec::new();
    for (_, cache) in numbered(&directory.join("cache"), "index") {
        let text = |name: &str| fs::read_to_string(cache.join(name)).unwrap_or_default();
        let shared = parse_cpu_list(text("shared_cpu_list").trim());
        let first = shared.and_then(|cpus| cpus.first().copied());
        if let (Ok(level), Some(first)) = (text("level").trim().parse(), first)
            && !found.iter().any(|&(other, _)| other == level)
        {
            found.push((level, first as i32));
        }
    }
    found
}

#[cfg(test)]
pub(crate) mod tests {
    use super::Topology;
    use std::fs;
    use std::path::Path;

    fn write(file: &Path, text: &str) {
        fs::create_dir_all(file.parent().expect("a folder")).expect("made");
        fs::write(file, text).expect("written");
    }

    /// Two sockets of two dies of two cores of two threads, and a node a
    /// socket: 16 CPUs.
    pub(crate) fn two_sockets(sys: &Path) {
        for cpu in 0..16_u32 {
            let at = sys.join(format!("devices/system/cpu/cpu{cpu}"));
            let (socket, die, core) = (cpu / 8, cpu / 4 % 2, cpu / 2 % 2);
            for (name, value) in [
                ("physical_package_id", socket),
                ("die_id", die),
                ("cluster_id", core),
                ("core_id", core),
            ] {
                write(&at.join("topology").join(name), &format!("{value}\n"));
            }
            for (index, level, first, last) in [
                (0, 1, cpu / 2 * 2, cpu / 2 * 2 + 1),
                (3, 3, cpu / 4 * 4, cpu / 4 * 4 + 3),
            ] {
                let cache = at.join(format!("cache/index{index}"));
                write(&cache.join("level"), &format!("{level}\n"));
                write(&cache.join("shared_cpu_list"), &format!("{first}-{last}\n"));
            }
        }
        for (node, cpus) in [(0, "0-7"), (1, "8-15")] {
            let file = sys.join(format!("devices/system/node/node{node}/cpulist"));
            write(&file, &format!("{cpus}\n"));
        }
    }

    #[test]
    fn a_cpu_has_a_socket_die_cluster_core_node_and_caches() {
        let sys = tempfile::tempdir().expect("a folder");
        two_sockets(sys.path());
        let topology = Topology::of_machine(sys.path());
        let last = topology.at(15);
        assert_eq!(
            (last.socket, last.die, last.cluster, last.core),
            (1, 1, 1, 1)
        );
        assert_eq!((last.node, last.caches), (1, vec![(1, 14), (3, 12)]));
        assert_eq!(topology.last_cache(), 3);
        let unknown = topology.at(99);
        assert_eq!((unknown.socket, unknown.core), (-1, -1), "not CPU 0's");
    }
}

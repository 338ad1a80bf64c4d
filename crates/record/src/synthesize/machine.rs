//! What /proc and /sys say about the machine, as feature sections.

use prof_perfdata::write::{EventDescription, Features};
use prof_perfdata::{CpuCache, CpuPlace, CpuTopology, MemNode, NumaNode, Text};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// What the caller knows and /proc does not.
#[derive(Debug, Clone, Copy)]
pub struct MachineFacts<'a> {
    /// Version of the recorder.
    pub version: &'a str,
    /// Its command line.
    pub command_line: &'a [Vec<u8>],
    /// The events as written.
    pub events: &'a [EventDescription],
}

/// Every section that can be filled before the first sample: host, kernel,
/// CPUs, memory, topology, PMUs, command line and events.
pub fn machine_features(facts: &MachineFacts<'_>) -> Features {
    let mut features = Features::default();
    host(&mut features);
    features.version(facts.version);
    features.command_line(facts.command_line);
    features.event_descriptions(facts.events);
    cpus(&mut features);
    let available = listed_cpus("/sys/devices/system/cpu/present");
    features.cpu_topology(&cpu_topology(&available));
    let caches = caches(&available);
    if !caches.is_empty() {
        features.caches(caches);
    }
    memory(&mut features);
    features.pmu_mappings(pmus());
    features
}

/// The online CPUs, ascending; CPU 0 if /sys does not tell.
pub fn online_cpus() -> Vec<u32> {
    let online = listed_cpus("/sys/devices/system/cpu/online");
    if !online.is_empty() {
        return online;
    }
    // Some containers hide /sys.
    let counted = counted_cpus(&fs::read_to_string("/proc/stat").unwrap_or_default());
    if counted.is_empty() { vec![0] } else { counted }
}

/// The CPUs that /proc/stat has a line for, which are those online.
fn counted_cpus(stat: &str) -> Vec<u32> {
    let lines = stat.lines().filter_map(|line| line.strip_prefix("cpu"));
    let numbers = lines.filter_map(|line| line.split(' ').next()?.parse().ok());
    numbers.collect()
}

/// The first line of a file, `None` if it cannot be read.
fn line(path: impl AsRef<Path>) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    Some(text.lines().next().unwrap_or_default().trim().to_owned())
}

fn number(path: impl AsRef<Path>) -> Option<u64> {
    line(path)?.parse().ok()
}

fn listed_cpus(path: &str) -> Vec<u32> {
    line(path).map_or_else(Vec::new, |list| parse_list(&list))
}

/// `0-3,8` as numbers. The kernel's lists are short; a range is cut at 64 Ki.
fn parse_list(list: &str) -> Vec<u32> {
    const LONGEST: u32 = 1 << 16;
    let mut numbers = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.trim().parse::<u32>(), last.trim().parse::<u32>()) {
            numbers.extend(first..=last.min(first.saturating_add(LONGEST)));
        }
    }
    numbers
}

fn host(features: &mut Features) {
    // Without a host name perf takes the file's byte order for unknown.
    let name = line("/proc/sys/kernel/hostname");
    features.hostname(name.as_deref().unwrap_or("localhost"));
    if let Some(release) = line("/proc/sys/kernel/osrelease") {
        features.os_release(&release);
    }
    let machine = line("/proc/sys/kernel/arch");
    features.arch(machine.as_deref().unwrap_or(std::env::consts::ARCH));
}

fn cpus(features: &mut Features) {
    let online = online_cpus().len() as u32;
    let available = listed_cpus("/sys/devices/system/cpu/present").len() as u32;
    features.cpu_counts(available.max(online), online);
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    if let Some(model) = cpu_info(&info, "model name") {
        features.cpu_description(model);
    }
    if let Some(id) = cpu_id(&info) {
        features.cpu_id(&id);
    }
}

/// A value of the first CPU in /proc/cpuinfo.
fn cpu_info<'a>(info: &'a str, key: &str) -> Option<&'a str> {
    info.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(name, _)| name.trim() == key)
        .map(|(_, value)| value.trim())
}

/// `vendor,family,model,stepping` on x86, the main id register on arm64.
fn cpu_id(info: &str) -> Option<String> {
    if let Some(midr) = line("/sys/devices/system/cpu/cpu0/regs/identification/midr_el1") {
        return Some(midr);
    }
    let field = |key| cpu_info(info, key);
    Some(format!(
        "{},{},{},{}",
        field("vendor_id")?,
        field("cpu family")?,
        field("model")?,
        field("stepping")?
    ))
}

fn cpu_topology(available: &[u32]) -> CpuTopology {
    let mut topology = CpuTopology::default();
    let mut lists = [const { BTreeSet::new() }; 3];
    for cpu in available {
        let at = format!("/sys/devices/system/cpu/cpu{cpu}/topology");
        let names = ["package_cpus_list", "thread_siblings_list", "die_cpus_list"];
        for (list, name) in lists.iter_mut().zip(names) {
            list.extend(line(format!("{at}/{name}")));
        }
        // An offline CPU has no topology; perf writes −1 for it.
        let id = |name| number(format!("{at}/{name}")).map_or(u32::MAX, |id| id as u32);
        topology.cpus.push(CpuPlace {
            core: id("core_id"),
            socket: id("physical_package_id"),
            die: Some(id("die_id")),
        });
    }
    let [cores, threads, dies] = lists.map(|list| list.into_iter().map(Text::from).collect());
    topology.cores = cores;
    topology.threads = threads;
    topology.dies = dies;
    topology
}

/// Distinct caches, ordered by level and first CPU.
fn caches(available: &[u32]) -> Vec<CpuCache> {
    const MOST_INDEXES: u32 = 16;
    let mut caches: Vec<CpuCache> = Vec::new();
    for cpu in available {
        for index in 0..MOST_INDEXES {
            let at = format!("/sys/devices/system/cpu/cpu{cpu}/cache/index{index}");
            let Some(level) = number(format!("{at}/level")) else {
                break;
            };
            let count = |name| number(format!("{at}/{name}")).unwrap_or(0) as u32;
            let text = |name| Text::from(line(format!("{at}/{name}")).unwrap_or_default());
            let cache = CpuCache {
                level: level as u32,
                line_size: count("coherency_line_size"),
                sets: count("number_of_sets"),
                ways: count("ways_of_associativity"),
                kind: text("type"),
                size: text("size"),
                cpus: text("shared_cpu_list"),
            };
            if !caches.contains(&cache) {
                caches.push(cache);
            }
        }
    }
    caches.sort_by_key(|cache| cache.level);
    caches
}

fn memory(features: &mut Features) {
    let info = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let (total, free) = (meminfo(&info, "MemTotal"), meminfo(&info, "MemFree"));
    if let Some(total) = total {
        features.total_memory_kb(total);
    }
    let nodes = numa_nodes();
    if nodes.is_empty() {
        // A kernel without NUMA is one node.
        let cpus = line("/sys/devices/system/cpu/online").unwrap_or_default();
        features.numa_topology(vec![NumaNode {
            node: 0,
            total: total.unwrap_or(0),
            free: free.unwrap_or(0),
            cpus: cpus.into(),
        }]);
    } else {
        memory_blocks(features, &nodes);
        features.numa_topology(nodes);
    }
}

/// Kilobytes behind `MemTotal:`, with or without `Node 0` before it.
fn meminfo(info: &str, key: &str) -> Option<u64> {
    let wanted = format!("{key}:");
    info.lines()
        .map(str::split_ascii_whitespace)
        .find_map(|mut fields| {
            fields.find(|field| *field == wanted)?;
            fields.next()?.parse().ok()
        })
}

fn numa_nodes() -> Vec<NumaNode> {
    let online = line("/sys/devices/system/node/online").unwrap_or_default();
    parse_list(&online)
        .into_iter()
        .map(|node| {
            let at = format!("/sys/devices/system/node/node{node}");
            let info = fs::read_to_string(format!("{at}/meminfo")).unwrap_or_default();
            NumaNode {
                node,
                total: meminfo(&info, "MemTotal").unwrap_or(0),
                free: meminfo(&info, "MemFree").unwrap_or(0),
                cpus: line(format!("{at}/cpulist")).unwrap_or_default().into(),
            }
        })
        .collect()
}

fn memory_blocks(features: &mut Features, nodes: &[NumaNode]) {
    let block_size = line("/sys/devices/system/memory/block_size_bytes")
        .and_then(|digits| u64::from_str_radix(&digits, 16).ok());
    let Some(block_size) = block_size else {
        return; // a kernel without memory hotplug
    };
    let blocks_of = |node: &NumaNode| {
        let at = format!("/sys/devices/system/node/node{}", node.node);
        let entries = fs::read_dir(at).into_iter().flatten().flatten();
        let mut blocks: Vec<u64> = entries
            .filter_map(|entry| {
                let name = entry.file_name();
                name.to_str()?.strip_prefix("memory")?.parse().ok()
            })
            .collect();
        blocks.sort_unstable();
        MemNode::of_blocks(node.node.into(), &blocks)
    };
    let nodes: Vec<_> = nodes.iter().map(blocks_of).collect();
    features.memory_topology(block_size, nodes);
}

/// Type and name of each PMU, by type.
fn pmus() -> Vec<(u32, Text)> {
    let entries = fs::read_dir("/sys/bus/event_source/devices");
    let mut pmus: Vec<(u32, Text)> = entries
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let kind = number(entry.path().join("type"))?;
            let kind = u32::try_from(kind).ok()?;
            Some((kind, entry.file_name().into_string().ok()?.into()))
        })
        .collect();
    pmus.sort();
    pmus
}

#[cfg(test)]
mod tests {
    use super::{MachineFacts, cpu_id, cpu_info, machine_features, meminfo, parse_list};
    use prof_perfdata::FeatureBit;

    #[test]
    fn cpus_are_counted_where_sysfs_is_hidden() {
        let stat = "cpu  5 0 5\ncpu0 3 0 3\ncpu2 2 0 2\nintr 7\n";
        assert_eq!(super::counted_cpus(stat), [0, 2]);
        assert_eq!(super::counted_cpus(""), [0; 0]);
    }

    #[test]
    fn lists_are_ranges_and_numbers() {
        assert_eq!(parse_list("0-2,5"), [0, 1, 2, 5]);
        assert_eq!(parse_list(""), [0; 0]);
        assert_eq!(parse_list("3-1,x"), [0; 0]);
        assert_eq!(parse_list("0-4294967295").len(), 65537);
    }

    #[test]
    fn cpuinfo_gives_the_first_processor() {
        let info = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\n\
            model\t\t: 1\nmodel name\t: AMD EPYC\nstepping\t: 2\n\nprocessor\t: 1\n";
        assert_eq!(cpu_info(info, "model name"), Some("AMD EPYC"));
        if cfg!(target_arch = "x86_64") {
            assert_eq!(cpu_id(info).as_deref(), Some("AuthenticAMD,25,1,2"));
        }
    }

    #[test]
    fn meminfo_of_the_machine_and_of_a_node() {
        assert_eq!(
            meminfo("MemTotal:  5 kB\nMemFree: 3 kB", "MemFree"),
            Some(3)
        );
        assert_eq!(meminfo("Node 0 MemTotal:  7 kB", "MemTotal"), Some(7));
        assert_eq!(meminfo("", "MemTotal"), None);
    }

    #[test]
    fn the_sections_that_perf_warns_without_are_always_there() {
        let features = machine_features(&MachineFacts {
            version: "prof",
            command_line: &[b"prof".to_vec()],
            events: &[],
        });
        let bits: Vec<_> = features.iter().map(|(bit, _)| bit).collect();
        for needed in [
            FeatureBit::HOSTNAME,
            FeatureBit::ARCH,
            FeatureBit::VERSION,
            FeatureBit::NRCPUS,
            FeatureBit::CMDLINE,
            FeatureBit::EVENT_DESC,
            FeatureBit::CPU_TOPOLOGY,
            FeatureBit::NUMA_TOPOLOGY,
            FeatureBit::PMU_MAPPINGS,
        ] {
            assert!(bits.contains(&needed), "{needed:?}");
        }
    }
}

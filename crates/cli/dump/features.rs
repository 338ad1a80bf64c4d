//! Feature sections as text, in perf's words, and as JSON.

use super::values::visible;
use prof_perfdata::{
    CpuCache, CpuTopology, Feature, FeatureSection, MemTopology, SampleTime, Text,
};
use serde_json::{Value as Json, json};
use std::io::{self, Write};

/// Writes the lines of a section.
pub(super) fn write_text(section: &FeatureSection, out: &mut impl Write) -> io::Result<()> {
    let Some(feature) = &section.content else {
        return writeln!(out, "# {} : cannot be read", name(section));
    };
    for line in lines(section, feature) {
        writeln!(out, "# {line}")?;
    }
    Ok(())
}

/// The section as an object.
pub(super) fn json(section: &FeatureSection) -> Json {
    let lines = section
        .content
        .as_ref()
        .map(|feature| lines(section, feature));
    json!({
        "name": name(section),
        "bit": section.bit.0,
        "offset": section.place.offset,
        "size": section.place.size,
        "content": lines,
    })
}

fn name(section: &FeatureSection) -> String {
    let name = section.bit.name();
    name.map_or_else(|| format!("feature {}", section.bit.0), str::to_owned)
}

/// perf's label of the sections that are one string.
fn label(section: &FeatureSection) -> String {
    let known = match section.bit.name() {
        Some("HOSTNAME") => "hostname",
        Some("OSRELEASE") => "os release",
        Some("VERSION") => "perf version",
        Some("ARCH") => "arch",
        Some("CPUDESC") => "cpudesc",
        Some("CPUID") => "cpuid",
        _ => return name(section).to_lowercase(),
    };
    known.to_owned()
}

fn text(text: &Text) -> String {
    visible(text.as_bytes())
}

fn pairs(list: &[(Text, Text)]) -> String {
    let parts: Vec<String> = list
        .iter()
        .map(|(name, value)| format!("{}={}", text(name), text(value)))
        .collect();
    parts.join(", ")
}

/// ns as perf prints times: seconds with six digits.
fn seconds(ns: u64) -> String {
    format!("{}.{:06}", ns / 1_000_000_000, ns / 1000 % 1_000_000)
}

fn lines(section: &FeatureSection, feature: &Feature) -> Vec<String> {
    match feature {
        Feature::Text(content) => vec![format!("{} : {}", label(section), text(content))],
        Feature::Trust(content) => vec![format!("quality of the recording : {}", text(content))],
        Feature::NrCpus(cpus) => vec![
            format!("nrcpus online : {}", cpus.online),
            format!("nrcpus avail : {}", cpus.available),
        ],
        Feature::TotalMem(kb) => vec![format!("total memory : {kb} kB")],
        Feature::Cmdline(words) => {
            let words: Vec<String> = words.iter().map(text).collect();
            vec![format!("cmdline : {}", words.join(" "))]
        }
        Feature::EventDesc(events) => {
            let names: Vec<String> = events.iter().map(|event| text(&event.name)).collect();
            vec![format!("event names : {}", names.join(", "))]
        }
        Feature::PmuMappings(pmus) => {
            let parts: Vec<String> = pmus
                .iter()
                .map(|(kind, name)| format!("{} = {kind}", text(name)))
                .collect();
            vec![format!("pmu mappings: {}", parts.join(", "))]
        }
        Feature::SampleTime(time) => sample_time(time),
        Feature::TracingData(bytes) => vec![format!(
            "contains tracepoint formats, {} bytes",
            bytes.len()
        )],
        Feature::Present => vec![format!("contains {}", name(section))],
        Feature::ClockResolution(ns) => vec![format!("clock resolution : {ns} ns")],
        Feature::ClockData(clock) => vec![
            format!("clockid : {}", clock.clockid),
            format!(
                "reference time : wall clock {} ns is clock {} ns",
                clock.wall_clock, clock.clock
            ),
        ],
        Feature::DirFormat(version) => vec![format!("directory data version : {version}")],
        Feature::Compressed(how) => vec![format!(
            "compressed : {}, level = {}, ratio = {}",
            if how.kind == 1 { "Zstd" } else { "Unknown" },
            how.level,
            how.ratio
        )],
        Feature::CpuPmuCaps(caps) => vec![format!("cpu pmu capabilities: {}", pairs(caps))],
        Feature::PmuCaps(pmus) => pmus
            .iter()
            .map(|(pmu, caps)| format!("{} pmu capabilities: {}", text(pmu), pairs(caps)))
            .collect(),
        Feature::EMachine(machine, flags) => {
            vec![
                format!("e_machine : {machine}"),
                format!("  e_flags : {flags}"),
            ]
        }
        Feature::CacheLineSize(bytes) => vec![format!("cacheline size: {bytes}")],
        Feature::MetaInfo(list) => list
            .iter()
            .map(|(key, value)| format!("{} : {}", text(key), text(value)))
            .collect(),
        other => tables(section, other),
    }
}

fn sample_time(time: &SampleTime) -> Vec<String> {
    let duration = time.last.saturating_sub(time.first);
    vec![
        format!("time of first sample : {}", seconds(time.first)),
        format!("time of last sample : {}", seconds(time.last)),
        format!(
            "sample duration : {:>10}.{:03} ms",
            duration / 1_000_000,
            duration / 1000 % 1000
        ),
    ]
}

/// Sections with a line for each of several things.
fn tables(section: &FeatureSection, feature: &Feature) -> Vec<String> {
    match feature {
        Feature::BuildIds(ids) => ids
            .iter()
            .map(|entry| {
                let id = entry
                    .build_id
                    .map_or("none".to_owned(), |id| id.to_string());
                format!("build-id : {id} {}", text(&entry.path))
            })
            .collect(),
        Feature::CpuTopology(topology) => cpu_topology(topology),
        Feature::NumaTopology(nodes) => nodes
            .iter()
            .flat_map(|node| {
                [
                    format!(
                        "node{} meminfo  : total = {} kB, free = {} kB",
                        node.node, node.total, node.free
                    ),
                    format!("node{} cpu list : {}", node.node, text(&node.cpus)),
                ]
            })
            .collect(),
        Feature::Groups(groups) => groups
            .iter()
            .map(|group| {
                format!(
                    "group: {} (leader {}, {} events)",
                    text(&group.name),
                    group.leader,
                    group.members
                )
            })
            .collect(),
        Feature::Auxtrace(index) => vec![format!("contains AUX area data, {} pieces", index.len())],
        Feature::Caches(caches) => caches_info(caches),
        Feature::MemTopology(memory) => mem_topology(memory),
        Feature::HybridTopology(pmus) => pmus
            .iter()
            .map(|(pmu, cpus)| format!("{} cpu list : {}", text(pmu), text(cpus)))
            .collect(),
        Feature::CpuDomains(domains) => domains
            .cpus
            .iter()
            .map(|(cpu, list)| format!("cpu {cpu} : {} scheduling domains", list.len()))
            .collect(),
        Feature::BpfPrograms(programs) => vec![format!("bpf programs : {}", programs.len())],
        Feature::BpfTypes(list) => vec![format!("btf infos : {}", list.len())],
        Feature::SimpleperfFiles(files) => files
            .iter()
            .map(|file| {
                format!(
                    "file : {} ({} symbols)",
                    text(&file.path),
                    file.symbols.len()
                )
            })
            .collect(),
        Feature::Raw(bytes) => vec![format!("{} : {} bytes", name(section), bytes.len())],
        _ => vec![name(section)],
    }
}

/// The numbers of the set bits, as `0-23,32-199`.
fn ranges(words: &[u64]) -> String {
    let bits = words
        .iter()
        .flat_map(|word| (0..64).map(move |bit| word >> bit & 1 == 1));
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for (number, _) in bits.enumerate().filter(|&(_, set)| set) {
        match parts.last_mut() {
            Some((_, end)) if *end + 1 == number => *end = number,
            _ => parts.push((number, number)),
        }
    }
    let part = |(start, end): (usize, usize)| {
        if start == end {
            start.to_string()
        } else {
            format!("{start}-{end}")
        }
    };
    let parts: Vec<String> = parts.into_iter().map(part).collect();
    parts.join(",")
}

fn cpu_topology(topology: &CpuTopology) -> Vec<String> {
    let lists = [
        ("sibling sockets", &topology.cores),
        ("sibling dies   ", &topology.dies),
        ("sibling threads", &topology.threads),
    ];
    let mut lines = Vec::new();
    for (name, list) in lists {
        lines.extend(list.iter().map(|cpus| format!("{name} : {}", text(cpus))));
    }
    lines.extend(topology.cpus.iter().enumerate().map(|(cpu, place)| {
        let die = place
            .die
            .map_or(String::new(), |die| format!(", Die ID {die}"));
        format!(
            "CPU {cpu}: Core ID {}{die}, Socket ID {}",
            place.core as i32, place.socket as i32
        )
    }));
    lines
}

fn mem_topology(memory: &MemTopology) -> Vec<String> {
    let mut lines = vec![format!(
        "memory nodes (nr {}, block size {:#x}):",
        memory.nodes.len(),
        memory.block_size
    )];
    lines.extend(memory.nodes.iter().map(|node| {
        let bytes = node.size.saturating_mul(memory.block_size);
        format!(
            "   {} [{}G]: {}",
            node.node,
            bytes >> 30,
            ranges(&node.words)
        )
    }));
    lines
}

fn caches_info(caches: &[CpuCache]) -> Vec<String> {
    let mut lines = vec!["CPU cache info:".to_owned()];
    lines.extend(caches.iter().map(|cache| {
        format!(
            " L{} {:<15} {:>8} [{}]",
            cache.level,
            text(&cache.kind),
            text(&cache.size),
            text(&cache.cpus)
        )
    }));
    lines
}

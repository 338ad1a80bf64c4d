//! Feature sections as text, in perf's words, and as JSON.

use prof_perfdata::{
    BuildIdEntry, ClockData, Compression, CpuCache, CpuTopology, Feature, FeatureBit,
    FeatureSection, MemTopology, NumaNode, SampleTime, Text,
};
use prof_report::escape;
use prof_sys::clock::{self, local_time};
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

/// Whether perf reads the section without a word about it.
pub(super) fn is_perfs_secret(section: &FeatureSection) -> bool {
    section.bit == FeatureBit::BUILD_ID
        || section.bit == FeatureBit::TRACING_DATA
        || section.bit.0 > FeatureBit::CLN_SIZE.0
}

/// Whether perf shows it only when asked for all.
pub(super) fn is_long(section: &FeatureSection) -> bool {
    matches!(
        section.bit,
        FeatureBit::CPU_TOPOLOGY
            | FeatureBit::NUMA_TOPOLOGY
            | FeatureBit::CACHE
            | FeatureBit::MEM_TOPOLOGY
            | FeatureBit::HYBRID_TOPOLOGY
            | FeatureBit::CPU_DOMAIN_INFO
    )
}

pub(super) fn name(section: &FeatureSection) -> String {
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

/// A text of the file, safe for a terminal.
pub(super) fn text(text: &Text) -> String {
    escape::terminal(&text.to_string_lossy()).into_owned()
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
        Feature::Symbols(packed) => vec![format!(
            "names of what was sampled : {} bytes, packed",
            packed.len()
        )],
        Feature::NrCpus(cpus) => vec![
            format!("nrcpus online : {}", cpus.online),
            format!("nrcpus avail : {}", cpus.available),
        ],
        Feature::TotalMem(kb) => vec![format!("total memory : {kb} kB")],
        Feature::Cmdline(words) => {
            let words = words.iter();
            let words = words.map(|word| text(word).replace('\'', "\\'") + " ");
            vec![format!("cmdline : {}", words.collect::<String>())]
        }
        Feature::EventDesc(events) => {
            let names: Vec<String> = events.iter().map(|event| text(&event.name)).collect();
            vec![format!("event names : {}", names.join(", "))]
        }
        Feature::PmuMappings(pmus) => vec![pmu_mappings(pmus)],
        Feature::SampleTime(time) => sample_time(time),
        Feature::TracingData(bytes) => {
            let len = bytes.len();
            vec![format!("contains tracepoint formats, {len} bytes")]
        }
        Feature::Present => vec![format!("contains {}", content_name(section))],
        // perf's arithmetic, right for 1 ns.
        Feature::ClockResolution(ns) => vec![format!(
            "clockid frequency: {} MHz",
            ns.saturating_mul(1000)
        )],
        Feature::ClockData(clock) => clock_data(clock),
        Feature::DirFormat(version) => vec![format!("directory data version : {version}")],
        Feature::Compressed(how) => vec![compressed(how)],
        Feature::CpuPmuCaps(caps) if caps.is_empty() => {
            vec!["cpu pmu capabilities: not available".into()]
        }
        Feature::CpuPmuCaps(caps) => vec![format!("cpu pmu capabilities: {}", pairs(caps))],
        Feature::PmuCaps(pmus) => of_each(pmus, |pmu, caps| {
            format!("{} pmu capabilities: {}", text(pmu), pairs(caps))
        }),
        Feature::EMachine(machine, flags) => vec![
            format!("e_machine : {machine}"),
            format!("  e_flags : {flags}"),
        ],
        Feature::CacheLineSize(bytes) => vec![format!("cacheline size: {bytes}")],
        Feature::MetaInfo(list) => of_each(list, |key, value| {
            format!("{} : {}", text(key), text(value))
        }),
        other => tables(section, other),
    }
}

fn of_each<K, V>(list: &[(K, V)], line: impl Fn(&K, &V) -> String) -> Vec<String> {
    list.iter().map(|(key, value)| line(key, value)).collect()
}

fn compressed(how: &Compression) -> String {
    let (level, ratio) = (how.level, how.ratio);
    let kind = if how.kind == 1 { "Zstd" } else { "Unknown" };
    format!("compressed : {kind}, level = {level}, ratio = {ratio}")
}

/// What the presence of a section without content says.
fn content_name(section: &FeatureSection) -> String {
    match section.bit {
        FeatureBit::BRANCH_STACK => "samples with branch stack".into(),
        FeatureBit::STAT => "stat data".into(),
        _ => name(section),
    }
}

fn clock_data(data: &ClockData) -> Vec<String> {
    let name = match i32::try_from(data.clockid) {
        Ok(clock::REALTIME) => "realtime",
        Ok(clock::MONOTONIC) => "monotonic",
        Ok(clock::MONOTONIC_RAW) => "monotonic_raw",
        Ok(clock::BOOTTIME) => "boottime",
        Ok(clock::TAI) => "tai",
        _ => "not found",
    };
    const SECOND: u64 = 1_000_000_000;
    let (wall, rest) = (data.wall_clock / SECOND, data.wall_clock % SECOND / 1000);
    let date = i64::try_from(wall).ok().and_then(local_time);
    let date = date.map_or_else(|| "?".to_owned(), |time| time.as_date());
    vec![
        format!("clockid: {name} ({})", data.clockid),
        format!(
            "reference time: {date}.{rest:06} = {wall}.{rest:06} (TOD) = {}.{:09} ({name})",
            data.clock / SECOND,
            data.clock % SECOND
        ),
    ]
}

fn sample_time(time: &SampleTime) -> Vec<String> {
    let duration = time.last.saturating_sub(time.first);
    vec![
        format!("time of first sample : {}", seconds(time.first)),
        format!("time of last sample : {}", seconds(time.last)),
        format!("sample duration : {:10.3} ms", duration as f64 / 1e6),
    ]
}

/// Sections with a line for each of several things.
fn tables(section: &FeatureSection, feature: &Feature) -> Vec<String> {
    match feature {
        Feature::BuildIds(ids) => ids.iter().map(build_id).collect(),
        Feature::CpuTopology(topology) => cpu_topology(topology),
        Feature::NumaTopology(nodes) => nodes.iter().flat_map(numa_node).collect(),
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
        Feature::Auxtrace(_) => vec!["contains AUX area data (e.g. instruction trace)".into()],
        Feature::Caches(caches) => caches_info(caches),
        Feature::MemTopology(memory) => mem_topology(memory),
        Feature::HybridTopology(pmus) => {
            let pmus = pmus.iter();
            let lists = pmus.map(|(pmu, cpus)| format!("{} cpu list : {}", text(pmu), text(cpus)));
            std::iter::once("hybrid cpu system:".to_owned())
                .chain(lists)
                .collect()
        }
        Feature::CpuDomains(domains) => domains
            .cpus
            .iter()
            .map(|(cpu, list)| format!("cpu {cpu} : {} scheduling domains", list.len()))
            .collect(),
        Feature::BpfPrograms(programs) => {
            // `bpf_prog_info` begins with type and id.
            let id = |info: &[u8]| {
                let bytes = info.get(4..8)?.try_into().ok()?;
                Some(u32::from_le_bytes(bytes))
            };
            let ids = programs.iter().filter_map(|program| id(&program.info));
            ids.map(|id| format!("bpf_prog_info of id {id}")).collect()
        }
        Feature::BpfTypes(list) => list
            .iter()
            .map(|(id, _)| format!("btf info of id {id}"))
            .collect(),
        Feature::SimpleperfFiles(files) => {
            let line = |path: &Text, symbols| format!("file : {} ({symbols} symbols)", text(path));
            let files = files.iter();
            files.map(|it| line(&it.path, it.symbols.len())).collect()
        }
        Feature::Raw(bytes) => vec![format!("{} : {} bytes", name(section), bytes.len())],
        _ => vec![name(section)],
    }
}

fn pmu_mappings(pmus: &[(u32, Text)]) -> String {
    let parts = pmus.iter();
    let parts = parts.map(|(kind, name)| format!("{} = {kind}", text(name)));
    let parts: Vec<String> = parts.collect();
    format!("pmu mappings: {}", parts.join(", "))
}

fn build_id(entry: &BuildIdEntry) -> String {
    let id = entry.build_id.map(|id| id.to_string());
    let id = id.unwrap_or_else(|| "none".to_owned());
    format!("build-id : {id} {}", text(&entry.path))
}

fn numa_node(node: &NumaNode) -> [String; 2] {
    [
        format!(
            "node{} meminfo  : total = {} kB, free = {} kB",
            node.node, node.total, node.free
        ),
        format!("node{} cpu list : {}", node.node, text(&node.cpus)),
    ]
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
    if topology.cpus.is_empty() {
        lines.push("Core ID and Socket ID information is not available".into());
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
        let blocks: u32 = node.words.iter().map(|word| word.count_ones()).sum();
        let bytes = u64::from(blocks).saturating_mul(memory.block_size);
        format!(
            "{:4} [{}]: {}",
            node.node,
            short_size(bytes),
            ranges(&node.words)
        )
    }));
    lines
}

/// As perf shortens sizes: `24G`; 1 and 2 of a unit as 1024 and 2048 of the
/// one below.
fn short_size(bytes: u64) -> String {
    let (mut size, mut units) = (bytes, ['B', 'K', 'M', 'G'].into_iter());
    let mut unit = units.next();
    while size / 1024 > 1
        && let Some(next) = units.next()
    {
        size /= 1024;
        unit = Some(next);
    }
    format!("{size}{}", unit.unwrap_or('B'))
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

//! The feature sections of a header, encoded.

use super::event::{EventDescription, common_attr_size};
use crate::features::pieces::Piece;
use crate::features::{
    ClockData, Compression, CpuCache, CpuTopology, FeatureBit, GroupDescription, MemNode,
    MemTopology, NrCpus, NumaNode, SampleTime, Text,
};
use crate::fields::Encoder;
use prof_abi::{BuildId, ByteOrder, CpuMode};
use std::collections::BTreeMap;

/// How many bits a header has room for.
pub(super) const FEATURE_BITS: u32 = 256;

/// Whether a pipe may carry a feature as a record: perf 6.1 fails on bits
/// above 31, and reads neither tracing data, build-ids nor caches from one.
pub(super) fn fits_a_pipe(bit: FeatureBit) -> bool {
    bit.0 <= 31
        && !matches!(
            bit,
            FeatureBit::TRACING_DATA
                | FeatureBit::BUILD_ID
                | FeatureBit::BRANCH_STACK
                | FeatureBit::CACHE
        )
}

/// A file and its build-id, for [`Features::build_ids`] and as a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordedBuildId<'a> {
    /// Which build.
    pub build_id: BuildId,
    /// The file as mappings name it: a path, `[kernel.kallsyms]`, `[vdso]`.
    pub path: &'a [u8],
    /// Kernel (also for modules) or user.
    pub cpu_mode: CpuMode,
}

/// Feature sections by bit. A section set twice is the later one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Features {
    sections: BTreeMap<FeatureBit, Vec<u8>>,
}

impl Features {
    /// Sets a section to bytes that are encoded already. Bits from 256 on have
    /// no place in a header and are left out.
    pub fn set(&mut self, bit: FeatureBit, section: Vec<u8>) {
        if bit.0 < FEATURE_BITS {
            self.sections.insert(bit, section);
        }
    }

    /// Adds the sections of `other`, which win.
    pub fn merge(&mut self, other: Self) {
        self.sections.extend(other.sections);
    }

    /// The sections, lowest number first; those of our own come last.
    pub fn iter(&self) -> impl Iterator<Item = (FeatureBit, &[u8])> {
        self.sections
            .iter()
            .map(|(&bit, section)| (bit, section.as_slice()))
    }

    /// The sections that have a bit in the header.
    pub(super) fn of_header(&self) -> impl Iterator<Item = (FeatureBit, &[u8])> {
        self.iter().filter(|(bit, _)| !bit.is_own())
    }

    /// The sections of prof's own.
    pub(super) fn own(&self) -> impl Iterator<Item = (FeatureBit, &[u8])> {
        self.iter().filter(|(bit, _)| bit.is_own())
    }

    /// Sets a section to what `content` encodes to.
    fn put(&mut self, bit: FeatureBit, content: &impl Piece) {
        let mut section = Encoder::new(ByteOrder::NATIVE);
        content.put(&mut section);
        self.set(bit, section.finish());
    }

    fn set_str(&mut self, bit: FeatureBit, text: &str) {
        self.put(bit, &Text::from(text));
    }

    /// `uname -n`. perf tells a file's byte order by this bit, so every file
    /// should have it.
    pub fn hostname(&mut self, name: &str) {
        self.set_str(FeatureBit::HOSTNAME, name);
    }

    /// `uname -r`.
    pub fn os_release(&mut self, release: &str) {
        self.set_str(FeatureBit::OSRELEASE, release);
    }

    /// Version of the recorder.
    pub fn version(&mut self, version: &str) {
        self.set_str(FeatureBit::VERSION, version);
    }

    /// `uname -m`.
    pub fn arch(&mut self, machine: &str) {
        self.set_str(FeatureBit::ARCH, machine);
    }

    /// CPUs that could be there, and those that are online.
    pub fn cpu_counts(&mut self, available: u32, online: u32) {
        self.put(FeatureBit::NRCPUS, &NrCpus { available, online });
    }

    /// CPU model for people, as `model name` of /proc/cpuinfo.
    pub fn cpu_description(&mut self, model: &str) {
        self.set_str(FeatureBit::CPUDESC, model);
    }

    /// CPU model for programs: `vendor,family,model,stepping` on x86.
    pub fn cpu_id(&mut self, id: &str) {
        self.set_str(FeatureBit::CPUID, id);
    }

    /// Memory of the machine, kB.
    pub fn total_memory_kb(&mut self, kb: u64) {
        self.put(FeatureBit::TOTAL_MEM, &kb);
    }

    /// The command line of the recorder.
    pub fn command_line<S: AsRef<[u8]>>(&mut self, arguments: &[S]) {
        let arguments = arguments.iter().map(|one| Text::from(one.as_ref()));
        self.put(FeatureBit::CMDLINE, &arguments.collect::<Vec<_>>());
    }

    /// Attr, ids and name of each event: in a file the only place for names.
    pub fn event_descriptions(&mut self, events: &[EventDescription]) {
        let size = common_attr_size(events);
        let mut section = Encoder::new(ByteOrder::NATIVE);
        section.u32(events.len() as u32);
        section.u32(size);
        for event in events {
            section.bytes(&event.encoded_attr(size));
            section.u32(event.ids.len() as u32);
            Text::from(event.name.as_str()).put(&mut section);
            event.ids.iter().for_each(|&id| section.u64(id));
        }
        self.set(FeatureBit::EVENT_DESC, section.finish());
    }

    /// Who shares a core, a package and a die.
    pub fn cpu_topology(&mut self, topology: &CpuTopology) {
        self.put(FeatureBit::CPU_TOPOLOGY, topology);
    }

    /// NUMA nodes.
    pub fn numa_topology(&mut self, nodes: Vec<NumaNode>) {
        self.put(FeatureBit::NUMA_TOPOLOGY, &nodes);
    }

    /// Names of event types: `attr.type` and the PMU's name.
    pub fn pmu_mappings(&mut self, pmus: Vec<(u32, Text)>) {
        self.put(FeatureBit::PMU_MAPPINGS, &pmus);
    }

    /// Event groups.
    pub fn groups(&mut self, groups: Vec<GroupDescription>) {
        self.put(FeatureBit::GROUP_DESC, &groups);
    }

    /// CPU caches.
    pub fn caches(&mut self, caches: Vec<CpuCache>) {
        const VERSION: u32 = 1;
        self.put(FeatureBit::CACHE, &(VERSION, caches));
    }

    /// Memory blocks of `block_size` bytes by NUMA node.
    pub fn memory_topology(&mut self, block_size: u64, nodes: Vec<MemNode>) {
        const VERSION: u64 = 1;
        let topology = MemTopology {
            version: VERSION,
            block_size,
            nodes,
        };
        self.put(FeatureBit::MEM_TOPOLOGY, &topology);
    }

    /// Times of the first and last sample, ns.
    pub fn sample_time(&mut self, first: u64, last: u64) {
        self.put(FeatureBit::SAMPLE_TIME, &SampleTime { first, last });
    }

    /// Where the records of traces are in the file, and their bytes without what
    /// is behind them.
    pub(super) fn traces(&mut self, places: &[(u64, u64)]) {
        let count = places.len() as u64;
        let words = places.iter().flat_map(|&(place, bytes)| [place, bytes]);
        let words = std::iter::once(count).chain(words);
        let section = words.flat_map(|word| ByteOrder::NATIVE.bytes_u64(word));
        self.set(FeatureBit::AUXTRACE, section.collect());
    }

    /// Resolution of the chosen clock, ns.
    pub fn clock_resolution(&mut self, ns: u64) {
        self.put(FeatureBit::CLOCKID, &ns);
    }

    /// The chosen clock against the wall clock.
    pub fn clock_data(&mut self, data: &ClockData) {
        self.put(FeatureBit::CLOCK_DATA, data);
    }

    /// How the records are packed.
    pub(super) fn compression(&mut self, compression: &Compression) {
        self.put(FeatureBit::COMPRESSED, compression);
    }

    /// Build-ids of files, with the kernel's.
    pub fn build_ids(&mut self, ids: &[RecordedBuildId<'_>]) {
        let mut section = Vec::new();
        for id in ids {
            id.encode(&mut section);
        }
        self.set(FeatureBit::BUILD_ID, section);
    }

    /// What the recorder knows about the quality of the recording, as JSON.
    pub fn trust(&mut self, json: &str) {
        self.set(FeatureBit::PROF_TRUST, json.as_bytes().to_vec());
    }
}

#[cfg(test)]
mod tests {
    use super::{Features, RecordedBuildId};
    use crate::features::{
        ClockData, CpuCache, CpuPlace, CpuTopology, FeatureBit, GroupDescription, MemNode, NumaNode,
    };
    use crate::write::EventDescription;
    use prof_abi::{BuildId, CpuMode, EventAttr};

    fn section(bit: FeatureBit, fill: impl FnOnce(&mut Features)) -> Vec<u8> {
        let mut features = Features::default();
        fill(&mut features);
        let mut all = features.iter();
        let (found, section) = all.next().expect("one section");
        assert_eq!(found, bit);
        assert_eq!(all.next(), None);
        section.to_vec()
    }

    /// `text` as perf's *str* of one 64-byte unit.
    fn text(text: &str) -> Vec<u8> {
        let mut bytes = vec![64, 0, 0, 0];
        bytes.extend(text.as_bytes());
        bytes.resize(68, 0);
        bytes
    }

    fn u32s(values: &[u32]) -> Vec<u8> {
        values
            .iter()
            .flat_map(|value| value.to_ne_bytes())
            .collect()
    }

    fn u64s(values: &[u64]) -> Vec<u8> {
        values
            .iter()
            .flat_map(|value| value.to_ne_bytes())
            .collect()
    }

    #[test]
    fn a_text_is_padded_with_at_least_one_nul() {
        let host = section(FeatureBit::HOSTNAME, |all| all.hostname("box"));
        assert_eq!(host, text("box"));
        let long = "x".repeat(64);
        let version = section(FeatureBit::VERSION, |all| all.version(&long));
        assert_eq!(version.len(), 4 + 128);
        assert_eq!(version[..4], [128, 0, 0, 0]);
    }

    #[test]
    fn numbers_stand_as_they_are() {
        let counts = section(FeatureBit::NRCPUS, |all| all.cpu_counts(8, 4));
        assert_eq!(counts, u32s(&[8, 4]));
        let memory = section(FeatureBit::TOTAL_MEM, |all| all.total_memory_kb(5));
        assert_eq!(memory, u64s(&[5]));
        let time = section(FeatureBit::SAMPLE_TIME, |all| all.sample_time(1, 2));
        assert_eq!(time, u64s(&[1, 2]));
        let resolution = section(FeatureBit::CLOCKID, |all| all.clock_resolution(1));
        assert_eq!(resolution, u64s(&[1]));
        let data = ClockData {
            version: 1,
            clockid: 1,
            wall_clock: 5,
            clock: 6,
        };
        let clock = section(FeatureBit::CLOCK_DATA, |all| all.clock_data(&data));
        assert_eq!(clock, [u32s(&[1, 1]), u64s(&[5, 6])].concat());
    }

    #[test]
    fn command_line_groups_and_pmus_are_counted_lists() {
        let line = section(FeatureBit::CMDLINE, |all| {
            all.command_line(&["prof", "record"]);
        });
        assert_eq!(line, [u32s(&[2]), text("prof"), text("record")].concat());
        let groups = section(FeatureBit::GROUP_DESC, |all| {
            all.groups(vec![GroupDescription {
                name: "g".into(),
                leader: 1,
                members: 2,
            }]);
        });
        assert_eq!(groups, [u32s(&[1]), text("g"), u32s(&[1, 2])].concat());
        let pmus = section(FeatureBit::PMU_MAPPINGS, |all| {
            all.pmu_mappings(vec![(1, "software".into())]);
        });
        assert_eq!(pmus, [u32s(&[1, 1]), text("software")].concat());
    }

    #[test]
    fn event_descriptions_share_one_attr_size() {
        let small = EventDescription {
            attr: EventAttr::default(),
            ids: vec![5, 6],
            name: "a".into(),
        };
        let mut large = small.clone();
        large.attr.config2 = 1;
        large.ids.clear();
        let bytes = section(FeatureBit::EVENT_DESC, |all| {
            all.event_descriptions(&[small, large]);
        });
        assert_eq!(bytes[..8], u32s(&[2, 72]));
        assert_eq!(bytes[8 + 4..8 + 8], u32s(&[72]));
        assert_eq!(bytes[80..84], u32s(&[2]));
        assert_eq!(bytes[84..152], text("a"));
        assert_eq!(bytes[152..168], u64s(&[5, 6]));
        assert_eq!(bytes.len(), 168 + 72 + 4 + 68);
    }

    #[test]
    fn topologies_are_lists_then_numbers_per_cpu() {
        let cpu = |core| CpuPlace {
            core,
            socket: 0,
            die: Some(3),
        };
        let topology = CpuTopology {
            cores: vec!["0-1".into()],
            threads: vec!["0".into(), "1".into()],
            dies: vec!["0-1".into()],
            cpus: vec![cpu(0), cpu(1)],
        };
        let bytes = section(FeatureBit::CPU_TOPOLOGY, |all| all.cpu_topology(&topology));
        let expected = [
            u32s(&[1]),
            text("0-1"),
            u32s(&[2]),
            text("0"),
            text("1"),
            u32s(&[0, 0, 1, 0, 1]),
            text("0-1"),
            u32s(&[3, 3]),
        ];
        assert_eq!(bytes, expected.concat());

        let node = NumaNode {
            node: 1,
            total: 10,
            free: 5,
            cpus: "0-1".into(),
        };
        let bytes = section(FeatureBit::NUMA_TOPOLOGY, |all| {
            all.numa_topology(vec![node])
        });
        assert_eq!(bytes, [u32s(&[1, 1]), u64s(&[10, 5]), text("0-1")].concat());
    }

    #[test]
    fn caches_and_memory_blocks() {
        let cache = CpuCache {
            level: 1,
            line_size: 64,
            sets: 2,
            ways: 8,
            kind: "Data".into(),
            size: "32K".into(),
            cpus: "0".into(),
        };
        let bytes = section(FeatureBit::CACHE, |all| all.caches(vec![cache]));
        let expected = [
            u32s(&[1, 1, 1, 64, 2, 8]),
            text("Data"),
            text("32K"),
            text("0"),
        ];
        assert_eq!(bytes, expected.concat());

        let node = MemNode::of_blocks(0, &[0, 65]);
        let bytes = section(FeatureBit::MEM_TOPOLOGY, |all| {
            all.memory_topology(128, vec![node]);
        });
        assert_eq!(bytes, u64s(&[1, 128, 1, 0, 2, 66, 1, 2]));
    }

    #[test]
    fn build_ids_are_records_one_after_the_other() {
        let id = RecordedBuildId {
            build_id: BuildId::new(&[1; 20]).expect("20 bytes"),
            path: b"[kernel.kallsyms]",
            cpu_mode: CpuMode::Kernel,
        };
        let bytes = section(FeatureBit::BUILD_ID, |all| all.build_ids(&[id, id]));
        assert_eq!(bytes.len(), 2 * 104);
        assert_eq!(bytes[..104], bytes[104..]);
    }

    #[test]
    fn a_bit_without_a_place_in_the_header_is_left_out() {
        let mut features = Features::default();
        features.set(FeatureBit(256), vec![1]);
        assert_eq!(features.iter().next(), None);
    }
}

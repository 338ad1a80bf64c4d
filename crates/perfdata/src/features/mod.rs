//! The feature sections: what a recording says of its machine and itself.

mod complaint;
pub(crate) mod cpu_topology;
mod decode;
pub(crate) mod entries;
pub(crate) mod pieces;
pub(crate) mod text;

pub use cpu_topology::{CpuPlace, CpuTopology};
pub use entries::*;
pub use text::Text;

use crate::section::Section;
use prof_abi::ByteOrder;

/// The bit of a feature section in the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FeatureBit(pub u32);

macro_rules! feature_bits {
    ($($(#[$doc:meta])* $name:ident = $bit:expr,)*) => {
        impl FeatureBit {
            $($(#[$doc])* pub const $name: Self = Self($bit);)*

            /// The name as perf spells it, `None` if unknown.
            pub fn name(self) -> Option<&'static str> {
                match self {
                    $(Self::$name => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

feature_bits! {
    /// Tracepoint formats.
    TRACING_DATA = 1,
    /// Build-ids.
    BUILD_ID = 2,
    /// `uname -n`.
    HOSTNAME = 3,
    /// `uname -r`.
    OSRELEASE = 4,
    /// Version of the recorder.
    VERSION = 5,
    /// `uname -m`.
    ARCH = 6,
    /// CPUs.
    NRCPUS = 7,
    /// CPU model.
    CPUDESC = 8,
    /// CPU family, model, stepping.
    CPUID = 9,
    /// Memory, kB.
    TOTAL_MEM = 10,
    /// Command line of the recorder.
    CMDLINE = 11,
    /// Events with names.
    EVENT_DESC = 12,
    /// Cores and sockets.
    CPU_TOPOLOGY = 13,
    /// Memory nodes.
    NUMA_TOPOLOGY = 14,
    /// Samples have branch stacks.
    BRANCH_STACK = 15,
    /// Numbers of the PMUs.
    PMU_MAPPINGS = 16,
    /// Event groups.
    GROUP_DESC = 17,
    /// Where AUX data is.
    AUXTRACE = 18,
    /// Recorded by perf stat.
    STAT = 19,
    /// CPU caches.
    CACHE = 20,
    /// First and last time of a sample.
    SAMPLE_TIME = 21,
    /// Memory blocks of nodes.
    MEM_TOPOLOGY = 22,
    /// Resolution of the clock.
    CLOCKID = 23,
    /// Several data files.
    DIR_FORMAT = 24,
    /// BPF programs.
    BPF_PROG_INFO = 25,
    /// BPF type information.
    BPF_BTF = 26,
    /// Data is compressed.
    COMPRESSED = 27,
    /// Capabilities of the core PMU.
    CPU_PMU_CAPS = 28,
    /// Wall clock.
    CLOCK_DATA = 29,
    /// Core PMUs of a hybrid machine.
    HYBRID_TOPOLOGY = 30,
    /// Capabilities of all PMUs.
    PMU_CAPS = 31,
    /// Scheduling domains.
    CPU_DOMAIN_INFO = 32,
    /// ELF machine.
    E_MACHINE = 33,
    /// Cache line size.
    CLN_SIZE = 34,
    /// simpleperf: files and symbols.
    SIMPLEPERF_FILE = 128,
    /// simpleperf: keys and values.
    SIMPLEPERF_META_INFO = 129,
    /// simpleperf: how to debug unwinding.
    SIMPLEPERF_DEBUG_UNWIND = 130,
    /// simpleperf: files for that.
    SIMPLEPERF_DEBUG_UNWIND_FILE = 131,
    /// simpleperf: files and symbols.
    SIMPLEPERF_FILE2 = 132,
    /// simpleperf: ETM branch lists.
    SIMPLEPERF_ETM_BRANCH_LIST = 133,
    /// simpleperf: initial maps.
    SIMPLEPERF_INIT_MAP = 134,
    /// Ours: what the recorder knows about the quality of the recording, as
    /// JSON text.
    PROF_TRUST = 200,
    /// Ours: names, lines and code of what was sampled, so that they can be
    /// shown without its files; `prof_symbolize::Embedded` reads them.
    PROF_SYMBOLS = 201,
}

impl FeatureBit {
    /// Sections from this number on are prof's own: no bit of the header
    /// stands for them when prof writes (see `own.rs`), but one is believed
    /// when read.
    pub(crate) const FIRST_OWN: u32 = 200;

    /// Whether it is a section of prof's own.
    pub fn is_own(self) -> bool {
        self.0 >= Self::FIRST_OWN
    }
}

/// The content of a feature section.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Feature {
    /// TRACING_DATA, as it stands; see `crate::tracepoint`.
    TracingData(Vec<u8>),
    /// BUILD_ID.
    BuildIds(Vec<BuildIdEntry>),
    /// HOSTNAME, OSRELEASE, VERSION, ARCH, CPUDESC, CPUID.
    Text(Text),
    /// NRCPUS.
    NrCpus(NrCpus),
    /// TOTAL_MEM, kB.
    TotalMem(u64),
    /// CMDLINE.
    Cmdline(Vec<Text>),
    /// EVENT_DESC.
    EventDesc(Vec<DescribedEvent>),
    /// CPU_TOPOLOGY.
    CpuTopology(CpuTopology),
    /// NUMA_TOPOLOGY.
    NumaTopology(Vec<NumaNode>),
    /// BRANCH_STACK, STAT and others whose presence is all.
    Present,
    /// PMU_MAPPINGS: type number and name.
    PmuMappings(Vec<(u32, Text)>),
    /// GROUP_DESC.
    Groups(Vec<GroupDescription>),
    /// AUXTRACE: where the records with AUX data are.
    Auxtrace(Vec<Section>),
    /// CACHE.
    Caches(Vec<CpuCache>),
    /// SAMPLE_TIME.
    SampleTime(SampleTime),
    /// MEM_TOPOLOGY.
    MemTopology(MemTopology),
    /// CLOCKID: resolution in ns.
    ClockResolution(u64),
    /// DIR_FORMAT: its version.
    DirFormat(u64),
    /// BPF_PROG_INFO.
    BpfPrograms(Vec<BpfProgram>),
    /// BPF_BTF: id and content.
    BpfTypes(Vec<(u32, Vec<u8>)>),
    /// COMPRESSED.
    Compressed(Compression),
    /// CPU_PMU_CAPS: names and values.
    CpuPmuCaps(Vec<(Text, Text)>),
    /// CLOCK_DATA.
    ClockData(ClockData),
    /// HYBRID_TOPOLOGY: PMUs and their CPUs.
    HybridTopology(Vec<(Text, Text)>),
    /// PMU_CAPS: names of PMUs with names and values.
    PmuCaps(Vec<(Text, Vec<(Text, Text)>)>),
    /// CPU_DOMAIN_INFO.
    CpuDomains(CpuDomains),
    /// E_MACHINE: `e_machine` and `e_flags` of ELF.
    EMachine(u32, u32),
    /// CLN_SIZE: bytes.
    CacheLineSize(u32),
    /// simpleperf's META_INFO: keys and values.
    MetaInfo(Vec<(Text, Text)>),
    /// simpleperf's FILE and FILE2: files with their symbols.
    SimpleperfFiles(Vec<SimpleperfFile>),
    /// PROF_TRUST: JSON.
    Trust(Text),
    /// PROF_SYMBOLS: packed names, as they stand.
    Symbols(Vec<u8>),
    /// Anything else, as it stands.
    Raw(Vec<u8>),
}

/// A feature section that was read.
#[derive(Debug, Clone, PartialEq)]
pub struct FeatureSection {
    /// Its bit.
    pub bit: FeatureBit,
    /// Where it is in the file; of a HEADER_FEATURE record where its content is.
    pub place: Section,
    /// What it says; `None` if that cannot be read.
    pub content: Option<Feature>,
}

/// All feature sections of a recording, in the order they were found.
#[derive(Debug, Clone, Default)]
pub struct Features {
    sections: Vec<FeatureSection>,
}

macro_rules! getters {
    ($($(#[$doc:meta])* $name:ident: $bit:ident, $variant:ident -> $type:ty;)*) => {
        impl Features {
            $($(#[$doc])*
            pub fn $name(&self) -> Option<$type> {
                match self.get(FeatureBit::$bit)? {
                    Feature::$variant(content) => Some(content),
                    _ => None,
                }
            })*
        }
    };
}

getters! {
    /// `uname -n` of the recording machine.
    hostname: HOSTNAME, Text -> &Text;
    /// `uname -r` of the recording machine.
    os_release: OSRELEASE, Text -> &Text;
    /// Version of the recorder.
    version: VERSION, Text -> &Text;
    /// `uname -m` of the recording machine.
    arch: ARCH, Text -> &Text;
    /// CPU model.
    cpu_desc: CPUDESC, Text -> &Text;
    /// CPU family, model, stepping.
    cpu_id: CPUID, Text -> &Text;
    /// CPUs.
    nr_cpus: NRCPUS, NrCpus -> &NrCpus;
    /// Memory, kB.
    total_mem: TOTAL_MEM, TotalMem -> &u64;
    /// Command line of the recorder.
    cmdline: CMDLINE, Cmdline -> &[Text];
    /// Events with names.
    event_desc: EVENT_DESC, EventDesc -> &[DescribedEvent];
    /// Build-ids.
    build_ids: BUILD_ID, BuildIds -> &[BuildIdEntry];
    /// Numbers and names of the PMUs.
    pmu_mappings: PMU_MAPPINGS, PmuMappings -> &[(u32, Text)];
    /// Event groups.
    groups: GROUP_DESC, Groups -> &[GroupDescription];
    /// First and last time of a sample.
    sample_time: SAMPLE_TIME, SampleTime -> &SampleTime;
    /// Sockets, cores and threads of the CPUs.
    cpu_topology: CPU_TOPOLOGY, CpuTopology -> &CpuTopology;
    /// How the data is compressed.
    compression: COMPRESSED, Compressed -> &Compression;
    /// Wall clock.
    clock_data: CLOCK_DATA, ClockData -> &ClockData;
    /// simpleperf's keys and values.
    meta_info: SIMPLEPERF_META_INFO, MetaInfo -> &[(Text, Text)];
    /// What prof's recorder knows about the quality of the recording, JSON.
    trust: PROF_TRUST, Trust -> &Text;
    /// Names of what was sampled, packed, as prof embeds them.
    symbols: PROF_SYMBOLS, Symbols -> &[u8];
    /// Tracepoint formats, as they stand.
    tracing_data: TRACING_DATA, TracingData -> &[u8];
}

impl Features {
    /// The sections, in the order they were found.
    pub fn sections(&self) -> &[FeatureSection] {
        &self.sections
    }

    /// The content of the section with this bit; of several the last.
    pub fn get(&self, bit: FeatureBit) -> Option<&Feature> {
        let mut found = self
            .sections
            .iter()
            .rev()
            .filter(|section| section.bit == bit);
        found.find_map(|section| section.content.as_ref())
    }

    /// Whether there is a section with this bit, readable or not.
    pub fn has(&self, bit: FeatureBit) -> bool {
        self.sections.iter().any(|section| section.bit == bit)
    }

    /// simpleperf's files with their symbols: of FILE2, or of the older FILE.
    pub fn simpleperf_files(&self) -> Option<&[SimpleperfFile]> {
        let bits = [FeatureBit::SIMPLEPERF_FILE2, FeatureBit::SIMPLEPERF_FILE];
        bits.into_iter().find_map(|bit| match self.get(bit)? {
            Feature::SimpleperfFiles(files) => Some(files.as_slice()),
            _ => None,
        })
    }

    /// Reads a section; what is wrong with it is the error, and of the section
    /// what can be read is kept.
    pub(crate) fn add(
        &mut self,
        bit: FeatureBit,
        place: Section,
        bytes: &[u8],
        order: ByteOrder,
    ) -> Result<(), String> {
        let content = decode::feature(bit, bytes, order);
        let (content, result) = match content {
            Ok(content) => match complaint::of(&content, bytes, order) {
                None => (Some(content), Ok(())),
                Some(why) => (Some(content), Err(why)),
            },
            Err(why) => (None, Err(why)),
        };
        self.sections.push(FeatureSection {
            bit,
            place,
            content,
        });
        result
    }

    /// Adds a section whose bytes could not be read.
    pub(crate) fn add_unread(&mut self, bit: FeatureBit, place: Section) {
        self.sections.push(FeatureSection {
            bit,
            place,
            content: None,
        });
    }
}

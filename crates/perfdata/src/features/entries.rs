//! What the feature sections hold.

use super::pieces::{Piece, pieces};
use super::text::Text;
use crate::fields::{Encoder, Fields, Short};
use prof_abi::{BuildId, EventAttr, Misc};

pieces! {
    /// NRCPUS.
    #[derive(Copy)]
    NrCpus {
        /// CPUs that could be online.
        available: u32,
        /// CPUs that were.
        online: u32,
    }

    /// A node of NUMA_TOPOLOGY.
    NumaNode {
        /// Its number.
        node: u32,
        /// Memory, kB.
        total: u64,
        /// Free memory, kB.
        free: u64,
        /// Its CPUs, as a list (`0-3`).
        cpus: Text,
    }

    /// A group of events.
    GroupDescription {
        /// Its name.
        name: Text,
        /// Number of its first event.
        leader: u32,
        /// How many events.
        members: u32,
    }

    /// A cache of the CPUs.
    CpuCache {
        /// 1 is next to the CPU.
        level: u32,
        /// Bytes.
        line_size: u32,
        /// Sets.
        sets: u32,
        /// Ways.
        ways: u32,
        /// `Data`, `Instruction`, `Unified`.
        kind: Text,
        /// Size as text (`32K`).
        size: Text,
        /// Its CPUs, as a list.
        cpus: Text,
    }

    /// First and last time of a sample, ns.
    #[derive(Copy)]
    SampleTime {
        /// First.
        first: u64,
        /// Last.
        last: u64,
    }

    /// COMPRESSED.
    #[derive(Copy)]
    Compression {
        /// Version, 0.
        version: u32,
        /// 1 is zstd.
        kind: u32,
        /// Level.
        level: u32,
        /// What it achieved.
        ratio: u32,
        /// Size of a ring, bytes: a record does not unpack to more.
        mmap_len: u32,
    }

    /// CLOCK_DATA: one instant on two clocks.
    #[derive(Copy)]
    ClockData {
        /// Version, 1.
        version: u32,
        /// Number of the clock of the samples.
        clockid: u32,
        /// The instant as ns since 1970.
        wall_clock: u64,
        /// The instant on that clock, ns.
        clock: u64,
    }
}

/// A build-id of the BUILD_ID section.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BuildIdEntry {
    /// Its cpumode tells kernel from user and guest.
    pub misc: Misc,
    /// Process id; -1 for the host.
    pub pid: i32,
    /// The build-id; `None` if it is all zeros.
    pub build_id: Option<BuildId>,
    /// The file's name as in the maps.
    pub path: Text,
}

/// An event of EVENT_DESC, as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DescribedEvent {
    /// Its attr; `None` if it is too short.
    pub attr: Option<EventAttr>,
    /// Its name as the user gave it.
    pub name: Text,
    /// Its ids.
    pub ids: Vec<u64>,
}

/// MEM_TOPOLOGY: which memory blocks belong to which node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemTopology {
    /// Version, 1.
    pub version: u64,
    /// Size of a block, bytes.
    pub block_size: u64,
    /// The nodes: number, size in blocks, bits and words of the block map.
    pub nodes: Vec<MemNode>,
}

impl Piece for MemTopology {
    fn take(fields: &mut Fields<'_>) -> Result<Self, Short> {
        let (version, block_size, nr) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let nodes = (0..nr).map(|_| MemNode::take(fields));
        Ok(Self {
            version,
            block_size,
            nodes: nodes.collect::<Result<_, _>>()?,
        })
    }

    fn put(&self, out: &mut Encoder) {
        out.u64(self.version);
        out.u64(self.block_size);
        out.u64(self.nodes.len() as u64);
        self.nodes.iter().for_each(|node| node.put(out));
    }
}

impl MemNode {
    /// The node with these blocks, given by number.
    pub fn of_blocks(node: u64, blocks: &[u64]) -> Self {
        let bits = blocks.iter().max().map_or(0, |last| last + 1);
        let mut words = vec![0_u64; bits.div_ceil(64) as usize];
        for &block in blocks {
            if let Some(word) = words.get_mut((block / 64) as usize) {
                *word |= 1 << (block % 64);
            }
        }
        Self {
            node,
            size: blocks.len() as u64,
            bits,
            words,
        }
    }
}

impl Piece for MemNode {
    fn take(fields: &mut Fields<'_>) -> Result<Self, Short> {
        let (node, size, bits) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let order = fields.order();
        let mut words = Fields::new(fields.items(bits.div_ceil(64), 8)?, order);
        Ok(Self {
            node,
            size,
            bits,
            words: std::iter::from_fn(|| words.u64().ok()).collect(),
        })
    }

    fn put(&self, out: &mut Encoder) {
        out.u64(self.node);
        out.u64(self.size);
        out.u64(self.bits);
        self.words.iter().for_each(|&word| out.u64(word));
    }
}

/// A node of MEM_TOPOLOGY.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemNode {
    /// Number.
    pub node: u64,
    /// Blocks.
    pub size: u64,
    /// Bits in the map.
    pub bits: u64,
    /// The map.
    pub words: Vec<u64>,
}

/// A BPF program, as the kernel described it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BpfProgram {
    /// Which arrays `data` holds, a bit each.
    pub arrays: u64,
    /// `bpf_prog_info`.
    pub info: Vec<u8>,
    /// The arrays.
    pub data: Vec<u8>,
}

/// CPU_DOMAIN_INFO.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuDomains {
    /// Version of /proc/schedstat.
    pub schedstat_version: u32,
    /// Most domains of a CPU.
    pub max_domains: u32,
    /// The CPUs with their domains.
    pub cpus: Vec<(u32, Vec<CpuDomain>)>,
}

/// A scheduling domain of a CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CpuDomain {
    /// Number.
    pub domain: u32,
    /// Name, from schedstat version 17 on.
    pub name: Option<Text>,
    /// Its CPUs, as a mask.
    pub cpu_mask: Text,
    /// Its CPUs, as a list.
    pub cpu_list: Text,
}

/// A file of a simpleperf recording, with the symbols found in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SimpleperfFile {
    /// Path as in the maps.
    pub path: Text,
    /// 0 kernel, 1 kernel module, 2 ELF file, 3 DEX file, 4 symbol map file,
    /// 5 unknown.
    pub kind: u32,
    /// Lowest address of its executable segment (svma).
    pub min_vaddr: u64,
    /// File offset of that segment, bytes.
    pub file_offset_of_min_vaddr: Option<u64>,
    /// Address the kernel module was loaded at (avma).
    pub memory_offset_of_min_vaddr: Option<u64>,
    /// Offsets of DEX files in it, bytes.
    pub dex_file_offsets: Vec<u64>,
    /// Symbols, as they stand.
    pub symbols: Vec<SimpleperfSymbolEntry>,
}

/// A symbol of a [`SimpleperfFile`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SimpleperfSymbolEntry {
    /// Start (svma).
    pub vaddr: u64,
    /// Length, bytes.
    pub len: u32,
    /// Name, mangled.
    pub name: Text,
}

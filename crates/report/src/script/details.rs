//! What a printed sample has beside what a profile keeps of it.

use prof_profile::Sample;

/// An address with its name, for data addresses and branches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NamedAddress<'a> {
    /// The live address.
    pub address: u64,
    /// The symbol that holds it, and the distance from its start.
    pub symbol: Option<(&'a str, u64)>,
    /// The file that holds it.
    pub dso: Option<&'a str>,
    /// The same address in the file, bytes from its start.
    pub file_offset: u64,
}

/// One taken branch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Branch<'a> {
    /// The branch instruction.
    pub from: NamedAddress<'a>,
    /// Where it went.
    pub to: NamedAddress<'a>,
    /// `M` mispredicted, `P` predicted, `-` not told.
    pub prediction: char,
    /// In a transaction.
    pub in_transaction: bool,
    /// Ended a transaction.
    pub abort: bool,
    /// Cycles since the branch before.
    pub cycles: u16,
    /// What kind of branch; empty if not told.
    pub kind: &'static str,
}

/// The innermost frame of a recorded call chain. It may differ from the sampled
/// address: with precise events (PEBS) the chain is taken a little later.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Leaf<'a> {
    /// The sampled address.
    #[default]
    Sampled,
    /// Another address.
    Recorded(NamedAddress<'a>),
    /// The sampled address, if the chain that was recorded later was put to the
    /// sample; else none.
    Later,
    /// The chain begins with a caller, or has no frames.
    Missing,
}

/// One sample and the parts of its record that a profile does not keep.
#[derive(Debug, Clone, Copy)]
pub struct Details<'a> {
    /// The row of the profile.
    pub sample: Sample,
    /// The address the record tells, live.
    pub ip: u64,
    /// Whether the record has a call chain.
    pub has_chain: bool,
    /// Whether its user part was unwound from a copied stack. perf then shows
    /// callers at the last byte of the call instead of the return address.
    pub is_unwound: bool,
    /// The cookie of a user call chain that was recorded later. A chain that
    /// ends with this value has a cookie there, not an address.
    pub cookie: Option<u64>,
    /// How that chain begins.
    pub leaf: Leaf<'a>,
    /// `misc` of the record, as letters.
    pub misc: &'a str,
    /// The data address.
    pub addr: Option<NamedAddress<'a>>,
    /// Whether perf prints the data address with a symbol, as it does for page
    /// faults.
    pub addr_has_name: bool,
    /// The payload of a tracepoint, printed.
    pub trace: Option<&'a [u8]>,
    /// Whether the payload is text of a BPF program.
    pub bpf_output: Option<&'a [u8]>,
    /// Where data came from, in perf's words, after the raw value.
    pub data_src: Option<(u64, &'a str)>,
    /// Weight.
    pub weight: Option<u64>,
    /// Latency of the instruction, cycles.
    pub instruction_latency: Option<u16>,
    /// Physical address.
    pub phys_addr: Option<u64>,
    /// Page size of the data address, bytes.
    pub data_page_size: Option<u64>,
    /// Page size of the code address, bytes.
    pub code_page_size: Option<u64>,
    /// Path of the cgroup.
    pub cgroup: Option<&'a str>,
    /// Registers at the interrupt: ABI, name and value of each.
    pub interrupt_registers: Option<(u64, &'a [(&'static str, u64)])>,
    /// User registers, likewise.
    pub user_registers: Option<(u64, &'a [(&'static str, u64)])>,
    /// The bytes of the sampled instruction; empty where they cannot be read.
    pub instruction: &'a [u8],
    /// The instructions between branches, printed by [`push_blocks`].
    ///
    /// [`push_blocks`]: super::push_blocks
    pub blocks: &'a [u8],
    /// The source line to print: its number and text.
    pub source_line: Option<(u32, &'a str)>,
    /// Branches, newest first.
    pub branches: Option<&'a [Branch<'a>]>,
}

impl<'a> Details<'a> {
    /// A sample without details.
    pub fn of(sample: Sample) -> Self {
        Self {
            sample,
            ip: 0,
            has_chain: false,
            is_unwound: false,
            cookie: None,
            leaf: Leaf::Sampled,
            misc: "",
            addr: None,
            addr_has_name: false,
            trace: None,
            bpf_output: None,
            data_src: None,
            weight: None,
            instruction_latency: None,
            phys_addr: None,
            data_page_size: None,
            code_page_size: None,
            cgroup: None,
            interrupt_registers: None,
            user_registers: None,
            instruction: &[],
            blocks: &[],
            source_line: None,
            branches: None,
        }
    }
}

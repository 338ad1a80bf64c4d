//! What samples tell beyond who, where and when.

use crate::{LocationId, NameId};
use prof_abi::CpuMode;

/// What a sample tells beyond who, where and when. Kept only where a view
/// asks for it: it is several times as large as the sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Detail {
    /// Weight as recorded, usually a latency in cycles; 0 without one.
    pub weight: u64,
    /// Latency of the instruction, cycles (`var2` of WEIGHT_STRUCT).
    pub instruction_latency: u16,
    /// Cycles in a stage of the pipeline, or until retirement, as the
    /// machine has it (`var3` of WEIGHT_STRUCT).
    pub stage_latency: u16,
    /// Why a transaction ended, as recorded; 0 for none.
    pub transaction: u64,
    /// Where data came from; see `prof_abi::DataSource`.
    pub data_src: u64,
    /// The data address (avma); 0 without one.
    pub address: u64,
    /// The same with its name, where it was looked up.
    pub data: Option<LocationId>,
    /// The mode it was taken in.
    pub mode: CpuMode,
    /// Address of the instruction (avma).
    pub ip: u64,
    /// Physical data address.
    pub physical_address: u64,
    /// Page size of the data address, bytes.
    pub data_page_size: u64,
    /// Page size of the code address, bytes.
    pub code_page_size: u64,
    /// Id of the cgroup; 0 without one.
    pub cgroup: u64,
    /// Path of the cgroup, if a record tells it.
    pub cgroup_path: Option<NameId>,
    /// Device and inode of the process's cgroup namespace; zeros without one.
    pub cgroup_namespace: (u64, u64),
    /// The CPU's socket; -1 if not told.
    pub socket: i32,
    /// Threads of the recording that ran at the time, from 1 to the number of
    /// CPUs; 1 if context switches were not recorded.
    pub parallelism: u32,
    /// The payload of a tracepoint, printed.
    pub trace: Option<NameId>,
    /// The branch that it is of, in a profile of branches.
    pub branch: Option<TakenBranch>,
}

/// A branch that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TakenBranch {
    /// Address of the branch instruction (avma).
    pub from_address: u64,
    /// The same with its name.
    pub from: LocationId,
    /// Where it went (avma).
    pub to_address: u64,
    /// The same with its name.
    pub to: LocationId,
    /// Whether it was predicted wrongly; `None` if not told.
    pub is_mispredicted: Option<bool>,
    /// Whether it was in a transaction.
    pub in_transaction: bool,
    /// Whether it ended a transaction.
    pub is_abort: bool,
    /// Cycles since the branch before; 0 if not told.
    pub cycles: u16,
    /// Its place in the branch stack of its sample: 0 for the newest, which
    /// comes first.
    pub place: u32,
}

/// What the rows of `Profile::samples` are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Counting {
    /// Samples by their periods.
    #[default]
    Samples,
    /// The branches of their branch stacks, one row each, of period 1; the
    /// stack is where the branch went.
    Branches,
    /// Samples by their weights, at least 1: memory accesses by their cost.
    Memory,
}

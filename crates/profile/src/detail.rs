//! What samples tell beyond who, where and when.

use crate::{LocationId, NameId, PayloadId};
use prof_abi::CpuMode;

/// Fields of a sample beyond thread, time, CPU and stack. Kept only where a
/// view needs them, since they are several times as large as the sample.
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
    /// The data address with its symbol, if it was looked up.
    pub address: u64,
    /// The same with its name, where it was looked up.
    pub data: Option<LocationId>,
    /// CPU mode (kernel or user) of the instruction.
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
    /// What a tracepoint told; see `Samples::payloads`.
    pub payload: Option<PayloadId>,
    /// The branch that the row stands for, in a profile of branches.
    pub branch: Option<TakenBranch>,
}

/// A branch that was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TakenBranch {
    /// Address of the branch instruction (avma).
    pub from_address: u64,
    /// The instruction's symbol.
    pub from: LocationId,
    /// Address of the target (avma).
    pub to_address: u64,
    /// The target's symbol.
    pub to: LocationId,
    /// Whether it was predicted wrongly; `None` if not told.
    pub is_mispredicted: Option<bool>,
    /// Whether it was in a transaction.
    pub in_transaction: bool,
    /// Whether it ended a transaction.
    pub is_abort: bool,
    /// Cycles since the branch before; 0 if not told.
    pub cycles: u16,
    /// Index in the branch stack of its sample: 0 is the newest, which comes
    /// first.
    pub place: u32,
}

/// What a row of `Profile::samples` stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Counting {
    /// A sample, weighted by its period.
    #[default]
    Samples,
    /// A branch of a sample's branch stack, of period 1; its stack is the
    /// branch target.
    Branches,
    /// A memory access, weighted by the sample's weight, at least 1.
    Memory,
}

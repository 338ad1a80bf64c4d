//! What is counted while samples are read.

use crate::known_chains::Interned;
use prof_perfdata::Losses;
use prof_profile::{ChainEnd, StackId};
use rustc_hash::FxHashMap;

/// The kernel's default limit of a chain, frames (`perf_event_max_stack`).
pub(crate) const KERNEL_MAX_STACK: u32 = 127;

/// What was counted beside the samples.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) losses: Losses,
    pub(crate) throttled: u64,
    /// Bytes of traces.
    pub(crate) traced: u64,
    pub(crate) stacks: StackTally,
    /// Of the samples whose stacks were unwound here.
    pub(crate) chain_ends: FxHashMap<(StackId, ChainEnd), u64>,
}

/// What was counted beside the stacks.
#[derive(Debug, Default)]
pub(crate) struct StackTally {
    /// Frames whose address in no mapping was not kept.
    pub(crate) merged: u64,
    /// Those of them that are not in the stacks.
    pub(crate) left_out: u64,
    /// Samples with as many frames as the kernel records, by stack.
    pub(crate) at_limit: FxHashMap<StackId, u32>,
}

impl StackTally {
    /// Counts a stack; gives its id.
    pub(crate) fn count(&mut self, interned: Interned) -> StackId {
        self.merged += u64::from(interned.merged);
        self.left_out += u64::from(interned.left_out);
        if interned.depth >= KERNEL_MAX_STACK {
            *self.at_limit.entry(interned.stack).or_default() += 1;
        }
        interned.stack
    }
}

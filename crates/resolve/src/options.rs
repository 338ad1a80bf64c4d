//! How recordings are resolved.

use crate::branch_history::BranchHistory;
use crate::progress::Progress;
use prof_profile::Counting;
use prof_symbolize::{Detail, Symbolizer};
use std::time::{Duration, SystemTime};

/// How a recording is to be resolved.
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// Whether inlined functions and source lines are wanted.
    pub detail: Detail,
    /// Who looks: perf maps of JIT code may be this user's, root's or that
    /// of the process's own user.
    pub looking_uid: u32,
    /// Whether a function without a name is one function, where unwind
    /// information tells its extent. Else its addresses are shown each, as
    /// perf does.
    pub whole_functions: bool,
    /// Whether who looks or root made the recording: what it says of the
    /// users of processes is believed.
    pub is_own: bool,
    /// What the samples of the profile are; `None` for what perf shows of the
    /// recording: branches, if it says that it has some.
    pub counting: Option<Counting>,
    /// Whether what samples tell beyond who, where and when is kept; always,
    /// if they are not counted by their periods.
    pub details: bool,
    /// Whether user call chains that were recorded after their samples are
    /// joined to them.
    pub merges_callchains: bool,
    /// Whether branch stacks are put into call chains, and how those are
    /// read; not, where samples are not what is counted.
    pub branch_history: Option<BranchHistory>,
    /// Longest user stack unwound from a sample's dump, frames.
    pub max_stack: usize,
    /// Callers in no mapping that are told apart; the others are shown as one
    /// `[unknown]`, which is noted. Bounds what broken stacks cost.
    pub unmapped_limit: usize,
    /// When the recording ended, if known. On the machine that made it, files
    /// without a build-id that are newer than this give no names.
    pub recorded_at: Option<SystemTime>,
    /// Reads no longer than this: a first look at a large recording. `None`
    /// reads all.
    pub reading_time: Option<Duration>,
}

impl Default for LoadOptions {
    fn default() -> Self {
        Self {
            detail: Detail::Source,
            looking_uid: 0,
            whole_functions: true,
            is_own: false,
            counting: Some(Counting::Samples),
            details: false,
            merges_callchains: true,
            branch_history: None,
            max_stack: 1024,
            unmapped_limit: 1 << 14,
            recorded_at: None,
            reading_time: None,
        }
    }
}

/// With what a recording is resolved.
#[derive(Clone, Copy)]
pub(crate) struct How<'a> {
    pub(crate) symbolizer: &'a Symbolizer,
    pub(crate) options: &'a LoadOptions,
    pub(crate) progress: &'a dyn Progress,
}

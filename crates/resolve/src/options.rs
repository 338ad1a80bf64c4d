//! How recordings are resolved.

use crate::branch_history::BranchHistory;
use crate::progress::Progress;
use prof_profile::{Counting, TraceField};
use prof_symbolize::{Detail, Symbolizer};
use std::time::{Duration, SystemTime};

/// How a recording is to be resolved.
#[derive(Debug, Clone)]
pub struct LoadOptions {
    /// Whether inlined functions and source lines are wanted.
    pub detail: Detail,
    /// The user who reads the recording. Perf maps of JIT code are used if they
    /// belong to this user, to root or to the process's own user.
    pub looking_uid: u32,
    /// Whether a function without a name is shown as one function where unwind
    /// information tells its extent. Otherwise each of its addresses stands
    /// alone, as in perf.
    pub whole_functions: bool,
    /// Whether the recording was made by root or by the user who reads it. Only
    /// then are the owners of processes that it names believed.
    pub is_own: bool,
    /// What a row of the profile is: a sample, a branch or a memory access.
    /// `None` decides as `perf report` does: branches if the recording has
    /// branch stacks.
    pub counting: Option<Counting>,
    /// Whether fields of samples beyond thread, time, CPU and stack are kept.
    /// Always the case unless samples count by their periods.
    pub details: bool,
    /// Fields of tracepoints whose values are kept with the details.
    pub trace_fields: Vec<TraceField>,
    /// Whether user call chains that were recorded after their samples
    /// (deferred) are joined to them.
    pub merges_callchains: bool,
    /// Whether branch stacks are merged into call chains, and in which order
    /// those are read. Ignored if the profile does not count samples.
    pub branch_history: Option<BranchHistory>,
    /// Longest user stack unwound from a sample's dump, frames.
    pub max_stack: usize,
    /// At most so many different callers outside all mappings are kept; further
    /// ones become a single `[unknown]`, and the profile's notes say so. Bounds
    /// the cost of broken stacks.
    pub unmapped_limit: usize,
    /// When the recording ended, if known. On the machine that made it, files
    /// without a build-id that are newer than this give no names.
    pub recorded_at: Option<SystemTime>,
    /// Whether what was read of a file, symbols and debug information, is dropped
    /// when its addresses have their names, and read again if a symbolizer is
    /// asked for more. For programs that read one recording: those tables are
    /// larger than the profile.
    pub forgets_tables: bool,
    /// Stops reading after this time, for a first look at a large recording.
    /// `None` reads all of it. Symbols of all addresses are then looked up before
    /// lines and inlined functions of any, should they be asked for: who gives so
    /// little time to reading may not wait for those.
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
            trace_fields: Vec::new(),
            merges_callchains: true,
            branch_history: None,
            max_stack: 1024,
            unmapped_limit: 1 << 14,
            recorded_at: None,
            forgets_tables: false,
            reading_time: None,
        }
    }
}

impl LoadOptions {
    /// Whether symbols are looked up before anything else is.
    pub(crate) fn symbols_first(&self) -> bool {
        self.reading_time.is_some() && self.detail != Detail::Symbol
    }
}

/// With what a recording is resolved.
#[derive(Clone, Copy)]
pub(crate) struct How<'a> {
    pub(crate) symbolizer: &'a Symbolizer,
    pub(crate) options: &'a LoadOptions,
    pub(crate) progress: &'a dyn Progress,
}

//! Samples to stacks: recorded call chains, and dumps that are unwound here.

use crate::branch_history::{self, BranchHistory};
use crate::options::LoadOptions;
use crate::raw_locations::{ProcessNow, RawChain};
use crate::recorded_files::RecordedFiles;
use crate::stack_builder::{ChainHash, StackBuilder};
use crate::tally::StackTally;
use prof_abi::SampleType;
use prof_abi::{CallchainContext, CpuMode};
use prof_live::{MappedDsoId, Processes, StackUnwinder, UserState};
use prof_perfdata::{Event, Sample, call_chain_of_branches};
use prof_profile::{Avma, ChainEnd, StackId};
use prof_unwind::Machine;

/// A sample, and what was found out before it is its turn.
#[derive(Clone, Copy)]
pub(crate) struct Seen<'a, 'r> {
    pub(crate) sample: &'a Sample<'r>,
    pub(crate) mode: CpuMode,
    /// See [`SampleStacks::hash`].
    pub(crate) hash: Option<ChainHash>,
}

/// Finds the stack of each sample.
pub(crate) struct SampleStacks {
    pub(crate) builder: StackBuilder,
    pub(crate) tally: StackTally,
    unwinder: StackUnwinder<RecordedFiles>,
    machine: Machine,
    /// Longest user stack that is unwound, frames.
    max_stack: usize,
    branch_history: Option<BranchHistory>,
    /// Reused for chains that are not as recorded.
    chain: Vec<u64>,
}

impl SampleStacks {
    /// For samples of processes on this machine, whose files are looked for in
    /// `files`.
    pub(crate) fn new(
        builder: StackBuilder,
        machine: Machine,
        files: RecordedFiles,
        options: &LoadOptions,
    ) -> Self {
        Self {
            builder,
            tally: StackTally::default(),
            unwinder: StackUnwinder::new(files),
            machine,
            max_stack: options.max_stack,
            branch_history: options.branch_history,
            chain: Vec::new(),
        }
    }

    /// Opens the file behind a dso for its unwind information; `pid` is a
    /// process that has it mapped.
    pub(crate) fn prepare(&mut self, processes: &Processes, dso: MappedDsoId, pid: i32) {
        self.unwinder.prepare(processes, dso, pid);
    }

    /// The hash of the call chain of a sample of `event`, if its stack will be
    /// just that.
    #[inline]
    pub(crate) fn hash(
        &self,
        event: &Event,
        sample: &Sample<'_>,
        mode: CpuMode,
    ) -> Option<ChainHash> {
        let other = [SampleType::STACK_USER, SampleType::BRANCH_STACK];
        if other.iter().any(|&it| event.attr.sample_type.has(it)) {
            return None;
        }
        Some(self.builder.hash(RawChain {
            pid: sample.pid().unwrap_or(-1),
            mode,
            ip: sample.ip().map(Avma),
            entries: sample.callchain()?,
        }))
    }

    /// The stack of a sample of `event`, taken in this mode; and if it was
    /// unwound here, how that ended.
    pub(crate) fn of(
        &mut self,
        processes: &Processes,
        event: &Event,
        Seen { sample, mode, hash }: Seen<'_, '_>,
    ) -> (StackId, Option<ChainEnd>) {
        let (pid, ip) = (sample.pid().unwrap_or(-1), sample.ip().map(Avma));
        let end = match UserState::of(sample, pid, self.machine) {
            Some(state) => Some(self.unwind(processes, sample, &state)),
            None if call_chain_of_branches(event, sample, &mut self.chain) => None,
            None if let Some(order) = self.branch_history => {
                let ip = ip.unwrap_or_default();
                return (
                    self.with_branches(processes, order, (sample, mode, ip)),
                    None,
                );
            }
            None => {
                let recorded = RawChain {
                    pid,
                    mode,
                    ip,
                    entries: sample.callchain().unwrap_or_default(),
                };
                let hash = hash.unwrap_or_else(|| self.builder.hash(recorded.clone()));
                let interned = self.builder.intern(processes, recorded, hash);
                return (self.tally.count(interned), None);
            }
        };
        let made = RawChain {
            pid,
            mode,
            ip,
            entries: self.chain.iter().copied(),
        };
        let hash = self.builder.hash(made.clone());
        let interned = self.builder.intern(processes, made, hash);
        (self.tally.count(interned), end)
    }

    /// The stack of a sample with its branches in it.
    fn with_branches(
        &mut self,
        processes: &Processes,
        order: BranchHistory,
        (sample, mode, ip): (&Sample<'_>, CpuMode, Avma),
    ) -> StackId {
        let pid = sample.pid().unwrap_or(-1);
        let process = ProcessNow { processes, pid };
        let entries = branch_history::entries(sample, order, self.max_stack);
        let entries = entries.iter();
        let builder = &mut self.builder;
        match order {
            BranchHistory::CalleesFirst => {
                builder.build_history(process, entries.rev(), (mode, ip))
            }
            BranchHistory::CallersFirst => builder.build_history(process, entries, (mode, ip)),
        }
    }

    /// The stack of a chain in the processes as they are now.
    pub(crate) fn intern<C>(&mut self, processes: &Processes, chain: RawChain<C>) -> StackId
    where
        C: Iterator<Item = u64> + Clone,
    {
        let hash = self.builder.hash(chain.clone());
        let interned = self.builder.intern(processes, chain, hash);
        self.tally.count(interned)
    }

    /// Puts the recorded chain of the kernel and the user stack from the
    /// sample's dump into `chain`.
    fn unwind(
        &mut self,
        processes: &Processes,
        sample: &Sample<'_>,
        state: &UserState<'_>,
    ) -> ChainEnd {
        let is_user = CallchainContext::USER.0;
        let recorded = sample.callchain().into_iter().flatten();
        let (chain, most) = (&mut self.chain, self.max_stack);
        chain.clear();
        chain.extend(recorded.take_while(|&entry| entry != is_user));
        chain.push(is_user);
        self.unwinder.unwind(processes, state, &mut (), most, chain)
    }
}

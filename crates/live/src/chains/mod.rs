//! A sample's user chain, with the live process for what was not copied.

mod agreed;
mod javascript;
mod named;
mod proof;
mod python;
mod revival;
#[cfg(test)]
mod tests;
mod walk;

use crate::known_frame::Known;
use crate::links::{Call, Link, Links};
use crate::memory::{SparePieces, TargetMemory, WantedMemory};
use crate::nearby::Lines;
use crate::outbox::{Trial, Verdict};
use crate::stack_starts::{StackStarts, Told};
use crate::stacks::{OpenFile, StackUnwinder};
use crate::thread_sample::ThreadSample;
use crate::threads::{Threads, Whose};
use crate::told;
use crate::user_chain::{SharedFrames, UserChain};
use crate::wanted::Wanted;
pub(super) use named::NamedRange;
use named::{FrameAt, Names};
use prof_profile::{Avma, ChainEnd};
use prof_unwind::Cursor;
use std::ops::Range;
use std::sync::Arc;
use walk::{Walk, straight_slots};

/// How a chain ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Decided {
    pub(super) end: ChainEnd,
    /// Set if it rests on memory that was read later than the sample.
    pub(super) trial: Option<Trial>,
}
/// Unwinds samples of running threads.
pub(super) struct Chains<F, M> {
    pub(super) stacks: StackUnwinder<F>,
    memory: M,
    threads: Threads,
    /// For whoever copies samples.
    pub(super) starts: Arc<StackStarts>,
    links: Links,
    /// Number of the current drain; what is read now was not yet there in
    /// the samples of this one.
    drain: u64,
    scratch: Vec<Known>,
    spare: SparePieces,
    /// The last drain in which a chain went beyond its copied piece.
    last_beyond: u64,
    /// Samples wait: nothing beyond their copied pieces.
    is_pressed: bool,
    /// What lay beyond the copied pieces of threads lately.
    wanted: Wanted,
    /// And beyond that of the latest sample.
    reached: Vec<Range<u64>>,
    /// The part of it that would do.
    part: Option<Range<u64>>,
    names: Names,
    /// Objects of runtimes, as they are in this drain.
    lines: Lines,
    found: Found,
}

/// The frames of a chain that was walked, innermost first.
#[derive(Debug, Default)]
struct Found {
    frames: Vec<FrameAt>,
    /// Outside of those, frames whose return addresses other chains have, too.
    shared: Vec<SharedFrames>,
    /// Whether there may be such: nobody wants to see each frame.
    may_share: bool,
}

/// Whether it depends on what memory was at hand that a chain ends so: where a file
/// tells nothing, more memory helps nobody.
fn depends_on_memory(end: ChainEnd) -> bool {
    use ChainEnd::{RecorderLate, Root, StackCut, Unproven};
    matches!(end, Root | StackCut | RecorderLate | Unproven)
}

impl<F: OpenFile, M: TargetMemory> Chains<F, M> {
    pub(super) fn new(open: F, memory: M) -> Self {
        Self {
            stacks: StackUnwinder::new(open),
            memory,
            threads: Threads::default(),
            starts: Arc::default(),
            links: Links::default(),
            drain: 1,
            last_beyond: 0,
            scratch: Vec::new(),
            spare: SparePieces::default(),
            is_pressed: false,
            wanted: Wanted::default(),
            reached: Vec::new(),
            part: None,
            names: Names::default(),
            lines: Lines::default(),
            found: Found::default(),
        }
    }

    /// What opens files.
    pub(super) fn files(&self) -> &F {
        self.stacks.files()
    }

    /// Whether samples come faster than they are unwound.
    pub(super) fn pressed(&mut self, is_pressed: bool) {
        self.is_pressed = is_pressed;
    }

    /// The samples that follow were drained together, after the ones before.
    pub(super) fn begin_drain(&mut self) {
        self.drain += 1;
        self.stacks.made_code.begin_drain();
        self.stacks.told_rules.begin_drain();
    }

    /// A thread ended, or runs another program.
    pub(super) fn forget(&mut self, tid: i32) {
        self.threads.forget(tid);
        self.wanted.forget(tid);
    }

    /// A thread or a program began.
    pub(super) fn begins(&mut self) {
        self.wanted.begins(self.drain);
    }

    /// Threads and processes of which something is known.
    #[cfg(test)]
    pub(super) fn known(&self) -> usize {
        self.threads.len() + self.stacks.known_processes()
    }

    /// A process ended with its last thread.
    pub(super) fn forget_process(&mut self, pid: i32) {
        self.stacks.forget(pid);
        self.stacks.made_code.forget(pid);
        self.names.forget(pid);
    }

    /// The user chain of a sample; `out` is overwritten.
    pub(super) fn chain(&mut self, sample: &ThreadSample<'_>, out: &mut UserChain) -> Decided {
        let mut memory = named::Now {
            memory: &self.memory,
            pid: sample.state.pid,
        };
        let process = (sample.processes, sample.state.pid);
        self.stacks.runtimes.look_for(process, &mut memory);
        self.stacks.look_for_rules(process, &mut memory);
        let told = told::words(&mut self.stacks, sample);
        let sample = &ThreadSample {
            told: &told,
            ..*sample
        };
        let mut found = std::mem::take(&mut self.found);
        found.frames.clear();
        found.may_share = !self.names_frames(sample.state.pid);
        let mut decided = self.walk(sample, &mut found);
        let has_pieces = !sample.pieces.is_empty();
        if depends_on_memory(decided.end) {
            self.note_reached(sample.tid, decided.end == ChainEnd::Root, has_pieces);
        }
        self.tell_other_stack(sample, &found.frames, &mut decided);
        let ids = (sample.state.pid, sample.tid);
        let is_cut = matches!(decided.end, ChainEnd::StackCut | ChainEnd::Unproven);
        self.want_erlang(ids, (&found.frames, is_cut));
        out.clear();
        self.name(sample, &found.frames, &mut out.inner);
        out.outer.append(&mut found.shared);
        let proven = decided.trial.as_ref().map_or(0, |trial| trial.proven);
        if !found.may_share {
            let proven = self.put_python(sample, (&found.frames, proven), &mut out.inner);
            if let Some(trial) = &mut decided.trial {
                trial.proven = proven;
            }
        }
        self.found = found;
        decided
    }

    /// Tells of a chain that ends, or may have to, in a function that has left its
    /// callers' stack that this is why.
    fn tell_other_stack(
        &mut self,
        sample: &ThreadSample<'_>,
        frames: &[FrameAt],
        decided: &mut Decided,
    ) {
        let (end, kept) = match &mut decided.trial {
            Some(trial) => (&mut trial.otherwise, trial.proven),
            None => (&mut decided.end, frames.len()),
        };
        if !matches!(end, ChainEnd::StackCut | ChainEnd::Unproven) {
            return;
        }
        let Some(last) = kept.checked_sub(1).and_then(|last| frames.get(last)) else {
            return;
        };
        let (machine, at) = (
            sample.state.registers.machine(),
            Avma(last.pc.saturating_sub(1)),
        );
        let mut nothing = ();
        let (unwinder, mut process) = self
            .stacks
            .at(sample.processes, &sample.state, &mut nothing);
        if kept > 1 && unwinder.switches_go_stacks(machine, at, &mut process) {
            *end = ChainEnd::OtherStack;
        }
    }

    /// Whether frames of a process have names that their runtime knows.
    fn names_frames(&self, pid: i32) -> bool {
        let told = &self.stacks.told_rules;
        let is_told = told.names_functions(pid) || told.is_erlang(pid);
        self.stacks.runtimes.has_any(pid) || is_told
    }

    /// Unwinds a sample into `found`, and takes down what lay beyond its
    /// copied pieces.
    fn walk(&mut self, sample: &ThreadSample<'_>, found: &mut Found) -> Decided {
        let outer = self.threads.of(Whose::of(sample));
        let word = sample.state.registers.machine().word();
        outer.settle(&sample.copied(), word, self.drain);
        // Under pressure what lies beyond the copy is not looked at.
        if !self.is_pressed {
            outer.look(self.drain);
        }
        let mut walk = Walk {
            stacks: &mut self.stacks,
            memory: &self.memory,
            links: &mut self.links,
            spare: &mut self.spare,
            drain: self.drain,
            sample,
            outer,
            inner: std::mem::take(&mut self.scratch),
            is_unreadable: false,
            revivals: 0,
            is_unsettled_only: false,
            is_pressed: self.is_pressed,
            cursor: Cursor::innermost(sample.state.registers),
            lost_fp: None,
            calls: Vec::new(),
            straight: straight_slots(sample),
        };
        let decided = walk.run(found);
        self.part = walk.reach(&decided, &mut self.reached);
        if decided.end == ChainEnd::Root {
            match walk.outer.is_whole() {
                Told::Is(start) => self.starts.tell(sample.tid, start),
                Told::IsNot => self.starts.forget(sample.tid),
                Told::Nothing => {}
            }
        }
        self.scratch = walk.inner;
        self.scratch.clear();
        self.threads.count(Whose::of(sample), self.drain);
        decided
    }

    /// Later samples of the thread should bring along what its last chain
    /// reached beyond the copied pieces.
    fn note_reached(&mut self, tid: i32, is_whole: bool, has_pieces: bool) {
        if self.reached.iter().any(|range| !range.is_empty()) {
            self.last_beyond = self.drain;
            let now = (tid, self.drain);
            self.wanted.first(now, !is_whole || has_pieces);
            self.wanted.note(tid, &self.reached, is_whole, self.drain);
            if has_pieces {
                self.wanted.had_some(now, is_whole);
            }
            self.wanted.part(now, self.part.take());
        }
    }

    /// Ranges of addresses that the chains so far have names for.
    pub(super) fn named(&mut self) -> Vec<NamedRange> {
        self.names.take()
    }

    /// The memory that samples of these threads should bring along.
    pub(super) fn wanted(&mut self) -> impl Iterator<Item = (i32, WantedMemory)> {
        self.wanted.now(self.drain)
    }

    /// Whether the whole stacks of threads that are new should come along, too.
    pub(super) fn wants_new_threads(&self) -> bool {
        self.wanted.are_new_wanted(self.drain)
    }

    /// The last drain in which a chain went beyond its copied piece.
    pub(super) fn last_beyond(&self) -> u64 {
        self.last_beyond
    }

    /// The number of the current drain.
    pub(super) fn drain(&self) -> u64 {
        self.drain
    }

    /// These links and calls were part of a chain that turned out to be sure.
    pub(super) fn confirm(&mut self, links: &[Link], calls: &[Call]) {
        self.links.confirm(links, calls);
    }

    /// Whether anything is known of a thread's stack.
    pub(super) fn know(&self, tid: i32) -> bool {
        self.threads.know(tid)
    }

    /// Whether a slot of a thread was seen to hold this return address often enough.
    pub(super) fn is_sure(&self, whose: Whose, (slot, pc): (u64, u64)) -> bool {
        let outer = self.threads.get(whose);
        outer.is_some_and(|outer| outer.is_sure(slot, pc))
    }

    /// How a chain stands that rests on memory which was read later.
    pub(super) fn judge(&self, trial: &Trial) -> Verdict {
        if let Some(verdict) = trial.ended {
            return verdict;
        }
        let Some(outer) = self.threads.get(trial.whose) else {
            // It was given up for others. What was sure before stays so.
            return match trial.unsure.as_slice() {
                [] => Verdict::Sure,
                _ => Verdict::Failed,
            };
        };
        if outer.is_doubtful(&trial.slots, &trial.copied) {
            return Verdict::Failed;
        }
        if outer.may_be_doubtful(&trial.slots, &trial.copied) {
            return Verdict::Unsure;
        }
        let mut unsure = trial.unsure.iter();
        match unsure.all(|&(slot, pc)| outer.is_sure(slot, pc)) {
            true => Verdict::Sure,
            false => Verdict::Unsure,
        }
    }
}

//! A sample's user chain, with the live process for what was not copied.

use super::links::{Around, Links, Proof};
use super::memory::{Copied, CopiedAndCode, LivePieces, SparePieces, TargetMemory};
use super::outbox::{Trial, Verdict};
use super::outer::{Known, OuterFrames};
use super::told;
use super::wanted::Wanted;
use crate::processes::Processes;
use crate::stacks::{Beyond, OpenFile, StackUnwinder, UserState};
use prof_profile::ChainEnd;
use prof_unwind::{Base, Cursor, FpFrom};
use rustc_hash::{FxHashMap, FxHashSet};
use std::ops::Range;

/// Bytes at the end of a copied piece that must still be as copied for what
/// lies beyond to be believed at first sight.
const SEAM: u64 = 1024;
/// Slots of known frames that are read again for each sample.
const VERIFIED: usize = 16;
/// Longest walk, frames; far beyond what a record can hold.
const MAX_FRAMES: usize = 1 << 16;
/// A hole of more than this between slots means another stack, bytes.
const SAME_STACK: u64 = 512 << 10;
/// Most stacks of a thread that are read with its samples.
const MAX_STACKS: usize = 4;
/// Read above the outermost slot that is known while more is to be found,
/// bytes.
const FURTHER: u64 = 2 << 20;
/// Most slots of one chain that may yet have to be seen more often.
const MAX_UNSURE: usize = 256;
/// Threads that are remembered.
const MAX_THREADS: usize = 1 << 14;

/// A sample of a thread, and what the same drain tells of it besides.
#[derive(Debug, Clone, Copy)]
pub(super) struct ThreadSample<'a> {
    pub(super) tid: i32,
    pub(super) state: UserState<'a>,
    /// What was read of its memory before it went on.
    pub(super) pieces: &'a [(u64, Vec<u8>)],
    /// The pc and the return addresses that the kernel found by following
    /// frame pointers, whether or not the code keeps them.
    pub(super) frames: &'a [u64],
    /// Words that follow from them, by address.
    pub(super) told: &'a [(u64, u64)],
    /// Highest stack pointer among the thread's later samples of this drain,
    /// 0 if there are none: how much of the stack may have gone since.
    pub(super) later_sp: u64,
}

impl<'a> ThreadSample<'a> {
    pub(super) fn copied(&self) -> Copied<'a> {
        Copied {
            dump: self.state.dump,
            pieces: self.pieces,
            told: self.told,
        }
    }
}

/// How a chain ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Decided {
    pub(super) end: ChainEnd,
    /// Set if it rests on memory that was read later than the sample.
    pub(super) trial: Option<Trial>,
}

/// Of so many frames it is cheap to remember what each slot held, also where
/// snapshots prove them.
const FEW_FRAMES: usize = 512;

/// Unwinds samples of running threads.
pub(super) struct Chains<F, M> {
    pub(super) stacks: StackUnwinder<F>,
    memory: M,
    threads: FxHashMap<i32, OuterFrames>,
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
}

impl<F: OpenFile, M: TargetMemory> Chains<F, M> {
    pub(super) fn new(open: F, memory: M) -> Self {
        Self {
            stacks: StackUnwinder::new(open),
            memory,
            threads: FxHashMap::default(),
            links: Links::default(),
            drain: 1,
            last_beyond: 0,
            scratch: Vec::new(),
            spare: SparePieces::default(),
            is_pressed: false,
            wanted: Wanted::default(),
            reached: Vec::new(),
        }
    }

    /// Whether samples come faster than they are unwound.
    pub(super) fn pressed(&mut self, is_pressed: bool) {
        self.is_pressed = is_pressed;
    }

    /// The samples that follow were drained together, after the ones before.
    pub(super) fn begin_drain(&mut self) {
        self.drain += 1;
    }

    /// A thread ended, or runs another program.
    pub(super) fn forget(&mut self, tid: i32) {
        self.threads.remove(&tid);
        self.wanted.forget(tid);
    }

    /// The user chain of a sample; `out` is overwritten.
    pub(super) fn chain(
        &mut self,
        processes: &Processes,
        sample: &ThreadSample<'_>,
        out: &mut Vec<u64>,
    ) -> Decided {
        if self.threads.len() >= MAX_THREADS {
            self.threads.clear();
        }
        let told = told::words(&mut self.stacks, processes, sample);
        let sample = &ThreadSample {
            told: &told,
            ..*sample
        };
        let outer = self.threads.entry(sample.tid).or_default();
        let word = sample.state.registers.machine().word();
        outer.settle(&sample.copied(), word);
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
            processes,
            sample,
            outer,
            inner: std::mem::take(&mut self.scratch),
            is_unreadable: false,
            is_pressed: self.is_pressed,
            cursor: Cursor::innermost(sample.state.registers),
            straight: straight_slots(sample),
        };
        out.clear();
        let decided = walk.run(out);
        walk.reach(&decided, &mut self.reached);
        self.scratch = walk.inner;
        self.scratch.clear();
        if self.reached.iter().any(|range| !range.is_empty()) {
            self.last_beyond = self.drain;
            let is_whole = decided.end == ChainEnd::Root;
            self.wanted
                .note(sample.tid, &self.reached, is_whole, self.drain);
        }
        decided
    }

    /// The memory that samples of these threads should bring along: by
    /// thread address ranges, that of the stack itself first.
    pub(super) fn wanted(&mut self) -> impl Iterator<Item = (i32, &[Range<u64>])> {
        self.wanted.now(self.drain)
    }

    /// The last drain in which a chain went beyond its copied piece.
    pub(super) fn last_beyond(&self) -> u64 {
        self.last_beyond
    }

    /// The number of the current drain.
    pub(super) fn drain(&self) -> u64 {
        self.drain
    }

    /// How a chain stands that rests on memory which was read later.
    pub(super) fn judge(&self, trial: &Trial) -> Verdict {
        let Some(outer) = self.threads.get(&trial.tid) else {
            // It has ended. What was sure before stays so.
            return match trial.unsure.as_slice() {
                [] => Verdict::Sure,
                _ => Verdict::Failed,
            };
        };
        if outer.is_doubtful(&trial.slots) {
            return Verdict::Failed;
        }
        let mut unsure = trial.unsure.iter();
        match unsure.all(|&(slot, pc)| outer.is_sure(slot, pc)) {
            true => Verdict::Sure,
            false => Verdict::Unsure,
        }
    }
}

/// Where a walk reads the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// In the sample's copy: as it was then.
    Copied,
    /// In the process: as it is now.
    Live,
}

/// How a walk over memory of one kind stopped.
#[derive(Debug, Clone, Copy)]
enum Stop {
    /// At a frame that is known: its position in the outer frames.
    Joined(usize),
    /// For a reason.
    Ended(ChainEnd),
}

/// One sample's walk.
struct Walk<'a, F, M> {
    stacks: &'a mut StackUnwinder<F>,
    memory: &'a M,
    links: &'a mut Links,
    spare: &'a mut SparePieces,
    drain: u64,
    processes: &'a Processes,
    sample: &'a ThreadSample<'a>,
    outer: &'a mut OuterFrames,
    /// Frames of this sample, innermost first. If the walk joined a known
    /// frame, that is the last one.
    inner: Vec<Known>,
    /// Known slots could not be read again: the process is gone.
    is_unreadable: bool,
    /// There is no time for what was not copied.
    is_pressed: bool,
    cursor: Cursor,
    /// Slots that were copied, as far as there is no hole between them.
    straight: Range<u64>,
}

/// The addresses around the stack pointer at which a whole word was copied.
fn straight_slots(sample: &ThreadSample<'_>) -> Range<u64> {
    let straight = sample.copied().straight();
    let word = u64::from(sample.state.registers.machine().word());
    straight.start..straight.end.saturating_sub(word - 1)
}

impl<F: OpenFile, M: TargetMemory> Walk<'_, F, M> {
    /// Walks to the thread's start and puts what is believed into `out`.
    fn run(&mut self, out: &mut Vec<u64>) -> Decided {
        self.note((None, FpFrom::Callee), self.drain, Proof::Shown);
        let mut stop = self.copied_part();
        let proven = self.inner.len();
        if self.is_pressed && self.leaves_copy(stop) {
            // What is known of the outer frames stays so.
            out.extend(self.inner.iter().map(|frame| frame.pc));
            if let Stop::Joined(at) = stop {
                let known = self.outer.until(at).iter().rev();
                let copied = known.take_while(|frame| !self.is_beyond(frame.slot));
                out.extend(copied.map(|frame| frame.pc));
            }
            let end = ChainEnd::StackCut;
            return Decided { end, trial: None };
        }
        let goes_beyond = match stop {
            Stop::Joined(at) => !self.verify(at),
            Stop::Ended(end) => end == ChainEnd::StackCut,
        };
        if goes_beyond {
            self.outer.is_deep();
            stop = self.live_part();
        }
        let seen = self.inner.get(1..).unwrap_or_default();
        match self.sample.pieces {
            [] => self.outer.observe(seen, self.drain),
            // Later samples may come without: what each slot held proves them.
            _ if seen.len() <= FEW_FRAMES => self.outer.observe(seen, self.drain),
            _ => self.outer.observe_any(seen, self.drain),
        }
        let joined = match stop {
            Stop::Joined(at) => at,
            Stop::Ended(ChainEnd::Root) => 0,
            Stop::Ended(end) => {
                self.outer.left_behind();
                let end = match end {
                    end if !goes_beyond => end,
                    ChainEnd::StackCut => ChainEnd::StackCut,
                    _ => ChainEnd::Unproven,
                };
                if goes_beyond {
                    self.inner.truncate(proven);
                }
                out.extend(self.inner.iter().map(|frame| frame.pc));
                return Decided { end, trial: None };
            }
        };
        self.root(proven, joined, out)
    }

    /// Whether the rest of the chain lies where nothing was copied.
    fn leaves_copy(&self, stop: Stop) -> bool {
        match stop {
            Stop::Ended(end) => end == ChainEnd::StackCut,
            Stop::Joined(at) => {
                let mut known = self.outer.until(at).iter();
                known.any(|frame| self.is_beyond(frame.slot))
            }
        }
    }

    /// The walk came to the thread's start, through frame `joined` of the
    /// known ones.
    fn root(&mut self, proven: usize, joined: usize, out: &mut Vec<u64>) -> Decided {
        let mut trial = self.trial(proven, joined);
        let is_believed = match &mut trial {
            None => true,
            Some(trial) => match self.unsure_slots(proven, joined) {
                Some(unsure) => {
                    trial.unsure = unsure;
                    true
                }
                None => false,
            },
        };
        out.extend(self.inner.iter().map(|frame| frame.pc));
        out.extend(self.outer.until(joined).iter().rev().map(|frame| frame.pc));
        // Believed or not: the next sample will ask whether it stayed.
        let seen = self.inner.get(1..).unwrap_or_default();
        self.outer.replace_inner(joined, seen);
        if is_believed {
            return Decided {
                end: ChainEnd::Root,
                trial,
            };
        }
        out.truncate(trial.map_or(proven, |trial| trial.proven));
        Decided {
            end: ChainEnd::Unproven,
            trial: None,
        }
    }

    /// The slots that the chain rests on beyond the copy, if any.
    fn trial(&self, proven: usize, joined: usize) -> Option<Trial> {
        let walked = self.inner.get(proven..).unwrap_or_default();
        let mut slots: Option<(u64, u64)> = None;
        for frame in walked.iter().chain(self.outer.until(joined)) {
            if self.is_beyond(frame.slot) {
                let (low, high) = slots.unwrap_or((frame.slot, frame.slot));
                slots = Some((low.min(frame.slot), high.max(frame.slot)));
            }
        }
        // A joined chain may have copied frames behind the walked ones.
        let copied = self.outer.until(joined).iter().rev();
        let copied = copied
            .take_while(|frame| !self.is_beyond(frame.slot))
            .count();
        let proven = match walked.is_empty() {
            true => proven + copied,
            false => proven,
        };
        slots.map(|(low, high)| Trial {
            tid: self.sample.tid,
            slots: low..=high,
            proven,
            unsure: Vec::new(),
        })
    }

    /// Walks through the copied piece.
    fn copied_part(&mut self) -> Stop {
        let mut code = CopiedAndCode {
            copied: self.sample.copied(),
            memory: self.memory,
            pid: self.sample.state.pid,
        };
        self.walk(&mut code, Source::Copied)
    }

    /// Walks on through the live process, from where the copy ended.
    fn live_part(&mut self) -> Stop {
        let mut spare = std::mem::take(self.spare);
        let stop = self.live_walk(&mut spare);
        *self.spare = spare;
        stop
    }

    fn live_walk(&mut self, spare: &mut SparePieces) -> Stop {
        let mut pieces = LivePieces::new(self.memory, self.sample.state.pid, spare);
        loop {
            match self.walk(&mut pieces, Source::Live) {
                // A failed check forgets that frame, so this comes to an end.
                Stop::Joined(at) if !self.verify(at) => {}
                stop => return stop,
            }
        }
    }

    /// Steps until a known frame or the end.
    fn walk(&mut self, beyond: &mut impl Beyond, source: Source) -> Stop {
        while self.inner.len() < MAX_FRAMES {
            let sp = self.cursor.registers().sp();
            if let Some(at) = self.outer.find(sp, self.cursor.key()) {
                self.leads(self.outer.base(at));
                return Stop::Joined(at);
            }
            let callee = self.cursor;
            let step =
                self.stacks
                    .step(self.processes, &self.sample.state, beyond, &mut self.cursor);
            let step = match step {
                Ok(step) => step,
                Err(end) => return Stop::Ended(end),
            };
            self.leads(step.base);
            let mut around = Around {
                stacks: &mut *self.stacks,
                processes: self.processes,
                state: &self.sample.state,
            };
            match source {
                Source::Copied => {
                    self.links.learn(&mut around, &callee, &self.cursor);
                    self.note((step.slot, step.fp), self.drain - 1, Proof::Shown);
                }
                Source::Live => {
                    let links = &mut *self.links;
                    let proof = links.judge(&mut around, &callee, &self.cursor, beyond);
                    if proof == Proof::Refuted {
                        return Stop::Ended(ChainEnd::Unproven);
                    }
                    self.note((step.slot, step.fp), self.drain, proof);
                }
            }
        }
        Stop::Ended(ChainEnd::DepthLimit)
    }

    /// Says by what the caller of the frame that was noted last is found.
    fn leads(&mut self, base: Base) {
        if let Some(last) = self.inner.last_mut() {
            last.base = base;
        }
    }

    /// Adds the frame that the walk is at, whose return address and frame
    /// pointer were found there.
    fn note(&mut self, (slot, fp_from): (Option<u64>, FpFrom), since: u64, proof: Proof) {
        let (pc, slot) = (self.cursor.pc(), slot.unwrap_or(0));
        let known = self.outer.known(slot, pc).copied();
        self.inner.push(Known {
            slot,
            pc,
            sp: self.cursor.registers().sp(),
            fp: self.cursor.registers().fp().unwrap_or(0),
            fp_from,
            needs_fp: false,
            key: self.cursor.key(),
            since: known.map_or(since, |known| known.since),
            looks: known.map_or(self.outer.looks(), |known| known.looks),
            proof,
            base: Base::Other,
        });
    }

    /// Whether a slot was not copied with this sample.
    fn is_beyond(&self, slot: u64) -> bool {
        if self.straight.contains(&slot) {
            return false;
        }
        let word = self.sample.state.registers.machine().word();
        self.sample.copied().word(slot, word).is_none()
    }

    /// The memory beyond the copied piece that this chain went through, or
    /// ended in; only empty ranges if it did not leave the piece.
    fn reach(&self, decided: &Decided, ranges: &mut Vec<Range<u64>>) {
        ranges.clear();
        let dump = &self.sample.state.dump;
        let (start, end) = (dump.start, dump.end());
        // On one stack the outermost slot says it all.
        let known = match self.outer.is_one_stack() {
            true => self.outer.until(1),
            false => self.outer.until(usize::MAX),
        };
        let slots = self.inner.iter().chain(known.iter().rev());
        let beyond = slots
            .map(|frame| frame.slot)
            .filter(|slot| *slot != 0 && !(start..end).contains(slot));
        let mut stack = end..end;
        for slot in beyond {
            let near = stack.start.saturating_sub(SAME_STACK)..stack.end.saturating_add(SAME_STACK);
            let is_own = ranges.is_empty() && known.len() == 1;
            if !near.contains(&slot) && !is_own && ranges.len() < MAX_STACKS {
                ranges.push(std::mem::replace(&mut stack, slot..slot));
            }
            stack = stack.start.min(slot)..stack.end.max(slot + 8);
        }
        let is_cut = matches!(decided.end, ChainEnd::StackCut | ChainEnd::Unproven);
        if is_cut {
            let further = (stack.end - stack.start).max(FURTHER);
            stack.end = stack.end.saturating_add(further);
        }
        ranges.push(stack);
    }

    /// Reads slots of the known frames outside of `at` again: the nearest,
    /// the outermost, and some between, others each time. On a difference
    /// what was known is dropped there.
    fn verify(&mut self, at: usize) -> bool {
        let known = self.outer.until(at);
        // Copied slots were compared, and they are the innermost.
        let beyond = known.iter().rposition(|frame| self.is_beyond(frame.slot));
        let Some(count) = beyond.map(|last| last + 1) else {
            return true;
        };
        if self.outer.is_verified(count, self.drain) {
            return true;
        }
        let all = count;
        let mut chosen = [0_usize; VERIFIED];
        let chosen = choose(count, self.drain as usize, &mut chosen);
        // Of each the return address and, where it matters, the frame pointer.
        let expected = chosen.iter().flat_map(|&index| {
            let frame = known.get(index);
            let slot = frame.map(|frame| (index, frame.slot, frame.pc));
            let fp = frame.and_then(|frame| Some((index, frame.fp_slot()?, frame.fp)));
            slot.into_iter().chain(fp)
        });
        let mut compared = [(0, 0, 0); 2 * VERIFIED];
        let mut addresses = [0; 2 * VERIFIED];
        let mut words = [0; 2 * VERIFIED];
        let mut count = 0;
        for ((place, address), word) in compared.iter_mut().zip(&mut addresses).zip(expected) {
            (*place, *address) = (word, word.1);
            count += 1;
        }
        let addresses = addresses.get(..count).unwrap_or_default();
        let pid = self.sample.state.pid;
        let got = self.memory.read_words(pid, addresses, &mut words);
        self.is_unreadable |= got < addresses.len();
        let mask = match self.sample.state.registers.machine().word() {
            4 => u64::from(u32::MAX),
            _ => u64::MAX,
        };
        let words = words.get(..got).unwrap_or_default();
        let differs = compared.iter().zip(words);
        let differs = differs.filter(|((_, _, expected), word)| *expected != **word & mask);
        // The outermost difference: what is inside of it may have followed.
        match differs.map(|((index, ..), _)| *index).min() {
            Some(index) => {
                self.outer.changed(index);
                false
            }
            None => {
                if got == addresses.len() {
                    self.outer.verified(all, self.drain);
                }
                true
            }
        }
    }

    /// If the frames behind the first `proven` may have been there when the
    /// sample was taken, those of their slots that have yet to be seen more
    /// often to be sure, with what they hold. They may if each was seen before
    /// this drain and again now, or goes on with a recursion that was copied,
    /// or the thread seems not to have moved since.
    fn unsure_slots(&mut self, proven: usize, joined: usize) -> Option<Vec<(u64, u64)>> {
        let walked = self.inner.get(proven..).unwrap_or_default();
        let known = self.outer.until(joined);
        let repeats = Repeats::of(self.inner.get(..proven).unwrap_or_default());
        let (mut is_open, mut is_bracketed, mut is_settled) = (false, true, true);
        let mut unsure = Vec::new();
        let mut callee = proven.checked_sub(1).and_then(|at| self.inner.get(at));
        for frame in walked.iter().chain(known.iter().rev()) {
            let inside = callee.replace(frame);
            if !self.is_beyond(frame.slot) {
                continue;
            }
            is_settled &= self.outer.is_calm(frame.slot, self.drain);
            if inside.is_some_and(|inside| repeats.has(inside, frame)) {
                continue;
            }
            if !self.outer.is_sure(frame.slot, frame.pc) {
                unsure.push((frame.slot, frame.pc));
            }
            if frame.since >= self.drain {
                is_bracketed = false;
                // One look at a call through a pointer is not enough.
                is_open |= frame.proof == Proof::Open;
            }
        }
        if !self.outer.is_trusted() {
            let beyond = walked
                .iter()
                .chain(known)
                .filter(|frame| self.is_beyond(frame.slot));
            let slots: Vec<u64> = beyond.map(|frame| frame.slot).collect();
            for slot in slots {
                is_settled &= self.outer.is_settled(slot);
            }
        }
        let is_believable = match self.is_unreadable {
            true => is_settled && self.outer.is_trusted(),
            false => is_settled && (is_bracketed || (!is_open && self.is_still(proven))),
        };
        (is_believable && unsure.len() <= MAX_UNSURE).then_some(unsure)
    }

    /// Whether the thread is still in the outermost copied frame, as far as
    /// can be seen: the end of what was copied of it is as it was, and no
    /// later sample of this drain is above it.
    fn is_still(&self, proven: usize) -> bool {
        let dump = &self.sample.state.dump;
        let outermost = proven.checked_sub(1).and_then(|at| self.inner.get(at));
        let end = outermost.map_or(dump.start, |frame| frame.sp.clamp(dump.start, dump.end()));
        let start = end.saturating_sub(SEAM).max(dump.start);
        let copied = usize::try_from(start - dump.start)
            .ok()
            .and_then(|from| dump.bytes.get(from..from + (end - start) as usize))
            .unwrap_or_default();
        if copied.is_empty() || self.sample.later_sp >= start {
            return false;
        }
        let mut now = [0; SEAM as usize];
        let now = now.get_mut(..copied.len()).unwrap_or_default();
        let got = self.memory.read(self.sample.state.pid, start, now);
        got == copied.len() && now == copied
    }
}

/// Pairs of caller and callee that occur in a copied stack, by return
/// addresses: a recursion repeats them.
struct Repeats(FxHashSet<(u64, u64)>);

impl Repeats {
    fn of(copied: &[Known]) -> Self {
        let pairs = copied.iter().zip(copied.get(1..).unwrap_or_default());
        Self(
            pairs
                .map(|(callee, caller)| (callee.pc, caller.pc))
                .collect(),
        )
    }

    fn has(&self, callee: &Known, caller: &Known) -> bool {
        self.0.contains(&(callee.pc, caller.pc))
    }
}

/// Chooses up to `out.len()` of `count` positions: the ends, and between
/// them others for each `round`.
fn choose(count: usize, round: usize, out: &mut [usize; VERIFIED]) -> &[usize] {
    const AT_ENDS: usize = VERIFIED / 4;
    const BETWEEN: usize = VERIFIED - 2 * AT_ENDS;
    let used = count.min(VERIFIED);
    for (position, slot) in out.iter_mut().enumerate() {
        *slot = if count <= VERIFIED || position < AT_ENDS {
            position
        } else if position < 2 * AT_ENDS {
            count - 1 - (position - AT_ENDS)
        } else {
            let part = position - 2 * AT_ENDS;
            (part * count / BETWEEN + round) % count
        };
    }
    out.get(..used).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::super::memory::TargetMemory;
    use super::super::outbox::Verdict;
    use super::{Chains, Decided, ThreadSample};
    use crate::address_space::Access;
    use crate::modules::Module;
    use crate::processes::{MapEvent, Processes};
    use crate::stacks::{OpenFile, UserState};
    use prof_abi::CpuMode;
    use prof_profile::{Avma, ChainEnd, FileOffset};
    use prof_unwind::{Machine, Registers, StackDump};
    use std::cell::{Cell, RefCell};
    use std::rc::Rc;

    /// Run-time code has no file.
    struct NoFiles;

    impl OpenFile for NoFiles {
        fn open(&mut self, _: &Module, _: i32) -> Option<prof_unwind::Module> {
            None
        }
    }

    const CODE: u64 = 0x1_0000;
    const STACK: u64 = 0x7000_0000;
    /// Frames of the stack.
    const FRAMES: u64 = 40;

    /// A process whose code is nothing but calls through a register, and its
    /// stack.
    #[derive(Default)]
    struct Process {
        stack: RefCell<Vec<u8>>,
        is_gone: Cell<bool>,
        /// How often its stack was read.
        reads: Cell<u32>,
    }

    impl TargetMemory for Rc<Process> {
        fn read(&self, _: i32, address: u64, out: &mut [u8]) -> usize {
            let call = [0xff, 0xd0];
            if (CODE..CODE + 0x1000).contains(&address) {
                let at = |index| call[(address as usize + index) % 2];
                (0..out.len()).for_each(|index| out[index] = at(index));
                return out.len();
            }
            // Looking for a call before what may be its return address is no
            // reading of the stack.
            let is_piece = out.len() > 64;
            self.reads.set(self.reads.get() + u32::from(is_piece));
            let stack = self.stack.borrow();
            // What is below the stack reads as nothing.
            let byte = |at: u64| {
                let at = at.checked_sub(STACK).map(|at| at as usize);
                at.map_or(Some(0), |at| stack.get(at).copied())
            };
            if self.is_gone.get() {
                return 0;
            }
            let there = (address..).map_while(byte);
            out.iter_mut()
                .zip(there)
                .map(|(to, byte)| *to = byte)
                .count()
        }

        fn read_words(&self, pid: i32, addresses: &[u64], out: &mut [u64]) -> usize {
            self.reads.set(self.reads.get() + 1);
            let mut word = [0; 8];
            let mut read = |&address: &u64| {
                let is_whole = self.read(pid, address, &mut word) == 8;
                is_whole.then(|| u64::from_le_bytes(word))
            };
            let words = addresses.iter().map_while(&mut read);
            out.iter_mut()
                .zip(words)
                .map(|(to, word)| *to = word)
                .count()
        }
    }

    /// The return address in frame `number`, counted from the innermost one.
    fn caller(number: u64) -> u64 {
        match number + 1 {
            FRAMES => 0,
            next => CODE + 0x100 + 0x10 * next,
        }
    }

    /// Frame records, each with its return address.
    fn stack() -> Vec<u8> {
        let record = |number| {
            let next = STACK + 16 * (number + 1);
            [next, caller(number)].map(u64::to_le_bytes).concat()
        };
        (0..FRAMES).flat_map(record).collect()
    }

    /// The addresses of all frames.
    fn whole() -> Vec<u64> {
        let callers = (0..FRAMES - 1).map(caller);
        [CODE + 0x100].into_iter().chain(callers).collect()
    }

    struct Fixture {
        process: Rc<Process>,
        processes: Processes,
        chains: Chains<NoFiles, Rc<Process>>,
    }

    impl Fixture {
        fn new() -> Self {
            let process = Rc::new(Process {
                stack: RefCell::new(stack()),
                ..Process::default()
            });
            let mut processes = Processes::for_unwinding();
            processes.map(&MapEvent {
                pid: 7,
                mode: CpuMode::User,
                start: Avma(CODE),
                length: 0x1000,
                offset: FileOffset(0),
                inode: None,
                build_id: None,
                access: Access::EXECUTE,
                path: b"//anon",
            });
            Self {
                chains: Chains::new(NoFiles, Rc::clone(&process)),
                process,
                processes,
            }
        }

        /// A sample of one drain, with `copied` bytes of the stack as it is.
        fn sample(&mut self, copied: usize) -> (Vec<u64>, Decided) {
            // Frame pointer, stack pointer and program counter.
            let values = [STACK, STACK, CODE + 0x100];
            let registers = Registers::from_perf(Machine::X86_64, 0b111 << 6, values.into_iter());
            let bytes = self.process.stack.borrow()[..copied].to_vec();
            let sample = ThreadSample {
                tid: 7,
                state: UserState {
                    pid: 7,
                    registers: registers.expect("pc and sp"),
                    dump: StackDump {
                        start: STACK,
                        bytes: &bytes,
                    },
                },
                pieces: &[],
                frames: &[],
                told: &[],
                later_sp: 0,
            };
            self.chains.begin_drain();
            let mut chain = Vec::new();
            let decided = self.chains.chain(&self.processes, &sample, &mut chain);
            (chain, decided)
        }
    }

    #[test]
    fn what_was_copied_whole_needs_nothing_of_the_process() {
        let mut fixture = Fixture::new();
        let (chain, decided) = fixture.sample(stack().len());
        assert_eq!(chain, whole());
        let proven = Decided {
            end: ChainEnd::Root,
            trial: None,
        };
        assert_eq!((decided, fixture.process.reads.get()), (proven, 0));
    }

    #[test]
    fn what_lies_beyond_the_copy_is_believed_when_it_was_seen_to_stay() {
        let mut fixture = Fixture::new();
        let (first, decided) = fixture.sample(16 * 8);
        assert!(whole().starts_with(&first) && fixture.process.reads.get() > 0);
        assert_ne!(
            (decided.end, decided.trial),
            (ChainEnd::Root, None),
            "at once"
        );
        // The same again and again.
        let mut last = (first, None);
        for _ in 0..64 {
            let (chain, decided) = fixture.sample(16 * 8);
            assert!(whole().starts_with(&chain));
            last = (chain, decided.trial);
        }
        let (chain, trial) = last;
        assert_eq!(chain, whole());
        let trial = trial.expect("it rests on what was read later");
        assert_eq!(fixture.chains.judge(&trial), Verdict::Sure);
        assert!(whole().len() > trial.proven && trial.proven >= 8);
    }

    #[test]
    fn without_the_process_a_chain_ends_where_its_copy_does() {
        let mut fixture = Fixture::new();
        fixture.process.is_gone.set(true);
        for _ in 0..64 {
            let (chain, decided) = fixture.sample(16 * 8);
            assert_eq!(chain, whole()[..9]);
            assert_eq!((decided.end, decided.trial), (ChainEnd::StackCut, None));
        }
    }

    #[test]
    fn under_pressure_the_stack_of_the_process_is_not_read() {
        let mut fixture = Fixture::new();
        fixture.chains.pressed(true);
        let (chain, decided) = fixture.sample(16 * 8);
        assert_eq!(
            (chain, decided.end),
            (whole()[..9].to_vec(), ChainEnd::StackCut)
        );
        assert_eq!(fixture.process.reads.get(), 0);
    }
}

//! One sample's way to the start of its thread.

use super::agreed;
use super::named::FrameAt;
use super::{Decided, Found};
use crate::known_frame::Known;
use crate::links::{Around, Call, Link, Links, Proof};
use crate::memory::{CopiedAndCode, CopiedAndLive, LivePieces, SparePieces, TargetMemory};
use crate::outbox::Trial;
use crate::outer::{NO_CALLER, OuterFrames};
use crate::popped::Revived;
use crate::stacks::{Beyond, OpenFile, StackUnwinder};
use crate::thread_sample::ThreadSample;
use crate::threads::Whose;
use prof_profile::ChainEnd;
use prof_unwind::{Base, Cursor, FpFrom, Step, Zero};
use std::ops::Range;

/// Longest walk, frames; far beyond what a record can hold: 8 MiB of stack, as
/// much as is usual, in frames of 64 bytes.
const MAX_FRAMES: usize = 1 << 17;
/// A hole of more than this between slots means another stack, bytes.
const SAME_STACK: u64 = 512 << 10;
/// Most stacks of a thread that are read with its samples.
const MAX_STACKS: usize = 4;
/// Read above the outermost slot that is known while more is to be found,
/// bytes.
const FURTHER: u64 = 2 << 20;
/// Of longer stacks only what changes is read with samples, if that is enough,
/// bytes.
const PART_OF: u64 = 64 << 10;
/// Of so many frames it is cheap to ask which of them the kernel saw: it follows 127.
const MAY_BE_TOLD: usize = 512;
/// Of a walk through more frames it is looked at which of the frames stand no more
/// that stood in their places.
const FEW_FRAMES: usize = 512;

/// A frame as the chain has it.
fn in_chain(frame: &Known) -> Option<FrameAt> {
    (frame.pc != NO_CALLER).then(|| FrameAt::of(frame))
}

/// Where a walk reads the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    /// In the sample's copy: as it was then.
    Copied,
    /// In the process: as it is now.
    Live,
}

/// How a frame was found.
#[derive(Debug, Clone, Copy)]
struct Seen {
    /// Where its return address stands; 0 for the innermost frame.
    slot: u64,
    fp_from: FpFrom,
    /// The drain in which that was there, if it was not seen before.
    since: u64,
    link: Option<Link>,
    is_only: bool,
}

impl Seen {
    fn innermost(since: u64) -> Self {
        Self {
            slot: 0,
            fp_from: FpFrom::Callee,
            since,
            link: None,
            is_only: false,
        }
    }

    fn new(step: &Step, since: u64) -> Self {
        Self {
            slot: step.slot.unwrap_or(0),
            fp_from: step.fp,
            ..Self::innermost(since)
        }
    }
}

/// How a walk over memory of one kind stopped.
#[derive(Debug, Clone, Copy)]
enum Stop {
    /// At a frame that is known: its position in the outer frames.
    Joined(usize),
    /// For a reason.
    Ended(ChainEnd),
}

/// How many of the known frames, from the outermost on, a walk that stopped so left as
/// they are.
fn joined_at(stop: Stop) -> usize {
    match stop {
        Stop::Joined(at) => at,
        Stop::Ended(_) => 0,
    }
}

/// One sample's walk.
pub(super) struct Walk<'a, F, M> {
    pub(super) stacks: &'a mut StackUnwinder<F>,
    pub(super) memory: &'a M,
    pub(super) links: &'a mut Links,
    pub(super) spare: &'a mut SparePieces,
    pub(super) drain: u64,
    pub(super) sample: &'a ThreadSample<'a>,
    pub(super) outer: &'a mut OuterFrames,
    /// Frames of this sample, innermost first. If the walk joined a known
    /// frame, that is the last one.
    pub(super) inner: Vec<Known>,
    /// Known slots could not be read again: the process is gone.
    pub(super) is_unreadable: bool,
    /// How often popped frames were compared with the stack.
    pub(super) revivals: u32,
    /// All that speaks against the chain is that slots have changed lately.
    pub(super) is_unsettled_only: bool,
    /// There is no time for what was not copied.
    pub(super) is_pressed: bool,
    pub(super) cursor: Cursor,
    /// Where the frame pointer of the frame at the cursor was saved, if that was not
    /// copied.
    pub(super) lost_fp: Option<u64>,
    /// Who called whom beyond the copy, as far as the walk went on there.
    pub(super) calls: Vec<Call>,
    /// Slots that were copied, as far as there is no hole between them.
    pub(super) straight: Range<u64>,
}

/// The addresses around the stack pointer at which a whole word was copied.
pub(super) fn straight_slots(sample: &ThreadSample<'_>) -> Range<u64> {
    let straight = sample.copied().straight();
    let word = u64::from(sample.state.registers.machine().word());
    straight.start..straight.end.saturating_sub(word - 1)
}

impl<F: OpenFile, M: TargetMemory> Walk<'_, F, M> {
    /// Walks to the thread's start and puts what is believed into `out`.
    pub(super) fn run(&mut self, found: &mut Found) -> Decided {
        let out = &mut found.frames;
        self.note(Seen::innermost(self.drain));
        let mut stop = self.copied_part();
        let proven = self.inner.len();
        if self.is_pressed && self.leaves_copy(stop) && !self.is_joined_told(stop) {
            // What is known of the outer frames stays so.
            out.extend(self.inner.iter().filter_map(in_chain));
            if let Stop::Joined(at) = stop {
                let known = self.outer.until(at).iter().rev();
                let copied = known.take_while(|frame| !self.is_beyond(frame.slot));
                out.extend(copied.filter_map(in_chain));
            }
            let end = ChainEnd::RecorderLate;
            return Decided { end, trial: None };
        }
        let goes_beyond = match stop {
            Stop::Joined(at) => self.leaves_copy(stop) && !self.is_told(at) && !self.verify(at),
            Stop::Ended(end) => self.is_cut(end),
        };
        if goes_beyond {
            self.outer.is_deep();
            stop = self.live_part();
        }
        let seen = self.inner.get(1..).unwrap_or_default();
        // Later samples may come without pieces: what each slot held proves them.
        match (self.sample.pieces, seen.len()) {
            ([], _) | (_, ..=FEW_FRAMES) => self.outer.observe(seen, self.drain),
            _ => {
                self.outer.is_deep();
                self.outer.observe_long(seen, joined_at(stop), self.drain);
            }
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
                out.extend(self.inner.iter().filter_map(in_chain));
                return Decided { end, trial: None };
            }
        };
        self.root(proven, joined, found)
    }

    /// Whether the copied part ended so because not all was copied.
    fn is_cut(&self, end: ChainEnd) -> bool {
        end == ChainEnd::StackCut || end == ChainEnd::Unproven && self.lost_fp.is_some()
    }

    /// Whether the rest of the chain lies where nothing was copied.
    fn leaves_copy(&self, stop: Stop) -> bool {
        match stop {
            Stop::Ended(end) => self.is_cut(end),
            Stop::Joined(at) => {
                let outside = self.outer.outside(at, &self.straight);
                let mut known = self.outer.until(outside).iter();
                known.any(|frame| self.is_beyond(frame.slot))
            }
        }
    }

    /// The walk came to the thread's start, through frame `joined` of the
    /// known ones.
    fn root(&mut self, proven: usize, joined: usize, found: &mut Found) -> Decided {
        let trial = self.trial(proven, joined);
        let mut trial = trial.filter(|_| !self.is_told(joined));
        let is_believed = match &mut trial {
            None => true,
            Some(trial) => match self.unsure_slots(proven, joined) {
                Some(unsure) => {
                    trial.unsure = unsure;
                    let beyond = self.inner.get(proven..).unwrap_or_default().iter();
                    trial.links = beyond.filter_map(|frame| frame.link).collect();
                    trial.calls = std::mem::take(&mut self.calls);
                    true
                }
                None => false,
            },
        };
        let kept = match (is_believed, &trial) {
            (true, _) => usize::MAX,
            (false, Some(trial)) => trial.proven,
            (false, None) => proven,
        };
        let shared = match found.may_share && is_believed {
            true => self.outer.share(joined, &mut found.shared),
            false => 0,
        };
        let known = self.outer.until(joined).get(shared..).unwrap_or_default();
        let frames = self.inner.iter().chain(known.iter().rev());
        found.frames.extend(frames.filter_map(in_chain).take(kept));
        // Believed or not: the next sample will ask whether it stayed.
        let seen = self.inner.get(1..).unwrap_or_default();
        self.outer.replace_inner(joined, seen);
        if is_believed {
            return Decided {
                end: ChainEnd::Root,
                trial,
            };
        }
        Decided {
            end: ChainEnd::Unproven,
            trial: None,
        }
    }

    /// Whether the walk joined frames that the kernel saw.
    fn is_joined_told(&self, stop: Stop) -> bool {
        matches!(stop, Stop::Joined(at) if self.is_told(at))
    }

    /// Whether the kernel saw the frames beyond the copy as it took the sample; the
    /// walk joined the known ones at position `joined`. That nothing called the
    /// outermost it does not tell: a word that says so must have been copied.
    fn is_told(&self, joined: usize) -> bool {
        let known = self.outer.until(joined);
        if self.inner.len() + known.len() > MAY_BE_TOLD {
            return false;
        }
        let frames = self.inner.iter().chain(known.iter().rev());
        let frames = frames.map(|frame| (frame.pc, frame.slot != 0 && self.is_beyond(frame.slot)));
        let frames = frames.filter(|&(pc, is_beyond)| pc != NO_CALLER || is_beyond);
        agreed::is_told(frames, self.sample.frames.iter().copied())
    }

    /// The slots that the chain rests on beyond the copy, if any.
    fn trial(&self, proven: usize, joined: usize) -> Option<Trial> {
        let walked = self.inner.get(proven..).unwrap_or_default();
        let outside = self.outer.outside(joined, &self.straight);
        let known = self.outer.until(outside);
        // Of frames in order the ends of what is beyond tell the rest.
        let is_beyond = |frame: &&Known| !frame.is_only && self.is_beyond(frame.slot);
        let ends = [known.iter().find(is_beyond), known.iter().rfind(is_beyond)];
        let between = match self.outer.are_in_order(joined) {
            true => &[],
            false => known,
        };
        let mut slots: Option<(u64, u64)> = None;
        let ends = ends.into_iter().flatten();
        for frame in walked.iter().chain(between).filter(is_beyond).chain(ends) {
            let (low, high) = slots.unwrap_or((frame.slot, frame.slot));
            slots = Some((low.min(frame.slot), high.max(frame.slot)));
        }
        // A joined chain may have copied frames behind the walked ones.
        let inside = self.outer.until(joined).len() - outside;
        let copied = known.iter().rev();
        let copied = copied.take_while(|frame| !self.is_beyond(frame.slot));
        let copied = inside + copied.count();
        let proven = match walked.is_empty() {
            true => proven + copied,
            false => proven,
        };
        let mut copied = self.outer.doubtful();
        copied.retain(|&slot| !self.is_beyond(slot) || !self.is_of_chain(slot, joined));
        slots.map(|(low, high)| Trial {
            whose: Whose::of(self.sample),
            slots: low..=high,
            copied,
            proven,
            unsure: Vec::new(),
            links: Vec::new(),
            calls: Vec::new(),
            otherwise: ChainEnd::Unproven,
            ended: None,
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
        let mut memory = CopiedAndLive {
            copied: self.sample.copied(),
            live: LivePieces::new(self.memory, self.sample.state.pid, spare),
        };
        self.find_lost_fp(&mut memory);
        loop {
            match self.walk(&mut memory, Source::Live) {
                // A failed check forgets that frame, so this comes to an end.
                Stop::Joined(at) if !self.verify(at) => {}
                stop => return stop,
            }
        }
    }

    /// Reads the frame pointer that was not copied.
    fn find_lost_fp(&mut self, memory: &mut impl Beyond) {
        let word = self.sample.state.registers.machine().word();
        if let Some(at) = self.lost_fp.take()
            && let Some(fp) = memory.word(at, word)
            && let Some(last) = self.inner.last_mut()
        {
            self.cursor.found_fp(fp);
            (last.fp, last.key) = (fp, self.cursor.key());
        }
    }

    /// Steps until a known frame or the end.
    fn walk(&mut self, beyond: &mut impl Beyond, source: Source) -> Stop {
        while self.inner.len() < MAX_FRAMES {
            // The frame that was noted last is where the walk is.
            let (sp, key) = match self.inner.last() {
                Some(last) => (last.sp, last.key),
                None => (self.cursor.registers().sp(), self.cursor.key()),
            };
            let known = self.outer.find(sp, key);
            let known = known.map_or_else(|| self.revived(sp, key), Revived::At);
            if let Revived::Other = known {
                return Stop::Ended(ChainEnd::Unproven);
            }
            if let Revived::At(at) = known {
                self.leads(self.outer.base(at));
                return Stop::Joined(at);
            }
            let callee = self.cursor;
            let step = self.stacks.step(
                self.sample.processes,
                &self.sample.state,
                beyond,
                &mut self.cursor,
            );
            let step = match step {
                Ok(step) => step,
                Err(end) => return Stop::Ended(self.ended(end, source)),
            };
            self.leads(step.base);
            self.lost_fp = match step.fp {
                FpFrom::Memory(at) => self.cursor.registers().fp().is_none().then_some(at),
                FpFrom::Callee => self.lost_fp,
                FpFrom::Other => None,
            };
            match self.seen(&callee, &step, (beyond, source)) {
                Some(seen) => self.note(seen),
                None => return Stop::Ended(ChainEnd::Unproven),
            }
        }
        Stop::Ended(ChainEnd::DepthLimit)
    }

    /// What is known of the frame that a step led to; `None` where what was read of the
    /// process cannot be its caller.
    fn seen(
        &mut self,
        callee: &Cursor,
        step: &Step,
        (beyond, source): (&mut impl Beyond, Source),
    ) -> Option<Seen> {
        let mut around = Around {
            stacks: &mut *self.stacks,
            processes: self.sample.processes,
            state: &self.sample.state,
        };
        match source {
            Source::Copied => {
                self.links.learn(&mut around, callee, &self.cursor);
                Some(Seen::new(step, self.drain - 1))
            }
            Source::Live => {
                let links = &mut *self.links;
                let judged = links.judge(&mut around, callee, &self.cursor, beyond);
                if judged.proof == Proof::Refuted {
                    return None;
                }
                self.calls.extend(judged.call);
                Some(Seen {
                    link: judged.link,
                    is_only: judged.is_only,
                    ..Seen::new(step, self.drain)
                })
            }
        }
    }

    /// Takes down what tells that the frame that was noted last has no caller.
    /// A 0 on the stack is one more thing that the chain rests on, as a return
    /// address is: read late, it may be another's.
    fn ended(&mut self, end: ChainEnd, source: Source) -> ChainEnd {
        let zero = self.cursor.zero().filter(|_| end == ChainEnd::Root);
        match (zero, source) {
            (Some(Zero { slot: None, .. }), Source::Live) => return ChainEnd::Unproven,
            (Some(zero), _) => self.note_zero(zero, source),
            (None, _) => {}
        }
        end
    }

    fn note_zero(&mut self, zero: Zero, source: Source) {
        let Some(slot) = zero.slot else {
            return;
        };
        self.leads(zero.base);
        let known = self.outer.known(slot, NO_CALLER).copied();
        let since = self.drain - u64::from(source == Source::Copied);
        let word = self.sample.state.registers.machine().word();
        self.inner.push(Known {
            slot,
            pc: NO_CALLER,
            sp: slot.wrapping_add(u64::from(word)),
            fp: 0,
            fp_from: FpFrom::Other,
            needs_fp: false,
            key: 0,
            since: known.map_or(since, |known| known.since),
            looks: known.map_or(self.outer.looks(), |known| known.looks),
            link: None,
            is_only: false,
            base: Base::Other,
        });
    }

    /// Says by what the caller of the frame that was noted last is found.
    fn leads(&mut self, base: Base) {
        if let Some(last) = self.inner.last_mut() {
            last.base = base;
        }
    }

    /// Adds the frame that the walk is at.
    fn note(&mut self, seen: Seen) {
        let (pc, slot) = (self.cursor.pc(), seen.slot);
        let known = self.outer.known(slot, pc).copied();
        self.inner.push(Known {
            slot,
            pc,
            sp: self.cursor.registers().sp(),
            fp: self.cursor.registers().fp().unwrap_or(0),
            fp_from: seen.fp_from,
            needs_fp: false,
            key: self.cursor.key(),
            since: known.map_or(seen.since, |known| known.since),
            looks: known.map_or(self.outer.looks(), |known| known.looks),
            link: seen.link,
            is_only: seen.is_only,
            base: Base::Other,
        });
    }

    /// Whether a slot was not copied with this sample.
    pub(super) fn is_beyond(&self, slot: u64) -> bool {
        if self.straight.contains(&slot) {
            return false;
        }
        let word = self.sample.state.registers.machine().word();
        self.sample.copied().word(slot, word).is_none()
    }

    /// Whether a slot is of a frame of this sample, or of a known one outside of
    /// position `joined`.
    pub(super) fn is_of_chain(&self, slot: u64, joined: usize) -> bool {
        let of_known = self.outer.position(slot).is_some_and(|at| at < joined);
        of_known || self.inner.iter().any(|frame| frame.slot == slot)
    }

    /// The memory beyond the copied piece that this chain went through, or
    /// ended in; only empty ranges if it did not leave the piece. If a part of it
    /// would do to believe the chain, that part; an empty one if it is believed
    /// without.
    pub(super) fn reach(
        &mut self,
        decided: &Decided,
        ranges: &mut Vec<Range<u64>>,
    ) -> Option<Range<u64>> {
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
        let is_cut = matches!(
            decided.end,
            ChainEnd::StackCut | ChainEnd::RecorderLate | ChainEnd::Unproven
        );
        if is_cut {
            let further = (stack.end - stack.start).max(FURTHER);
            stack.end = stack.end.saturating_add(further);
        }
        let is_long = ranges.is_empty() && stack.end - stack.start > PART_OF;
        let is_root = decided.end == ChainEnd::Root;
        // Slots of other frames say nothing of this chain.
        let mut doubtful = self.outer.doubtful();
        doubtful.retain(|&slot| stack.contains(&slot) && self.outer.position(slot).is_some());
        if is_long && is_root && doubtful.is_empty() && self.needs_nothing(decided) {
            ranges.push(stack);
            return Some(0..0);
        }
        let uncalm = self.outer.uncalm(stack.clone(), self.drain);
        ranges.push(stack);
        let part = doubtful.iter().fold(uncalm, |part, &slot| match part {
            Some(part) => Some(part.start.min(slot)..part.end.max(slot + 1)),
            None => Some(slot..slot + 1),
        });
        let part = part.filter(|_| is_long && (is_root || self.is_unsettled_only));
        part.map(|part| part.start..part.end.saturating_add(8))
    }

    /// Whether nothing that is known beyond the dump needs more proof, or it was
    /// believed without any.
    fn needs_nothing(&mut self, decided: &Decided) -> bool {
        let trial = decided.trial.as_ref();
        if self.sample.pieces.is_empty() && trial.is_some_and(|it| it.unsure.is_empty()) {
            return true;
        }
        let dump = &self.sample.state.dump;
        let beyond = self.outer.outside(usize::MAX, &(dump.start..dump.end()));
        self.outer.is_settled_until(beyond, self.drain)
    }
}

//! What is known of a thread's outer frames from its earlier samples.
//!
//! A frame's return address stays where it is until its callee returns, that
//! is while the stack pointer is below it. So a sample says of every frame
//! seen before whether it is gone (its slot is below the stack pointer),
//! still there or replaced (its slot is in the copied piece); of those beyond
//! the piece it says nothing, and they must be read again.
//!
//! ```text
//!   high   ┌──────────────┐ thread start
//!          │ slot of main │  beyond: as seen before, to be verified
//!          ├──────────────┤ end of the copied piece
//!          │ slot of f    │  compared with the copy
//!          ├──────────────┤ stack pointer
//!   low    │ slot of g    │  gone
//!          └──────────────┘
//! ```

use super::frames::Frames;
use super::known_frame::Known;
use super::memory::Copied;
use super::popped::Popped;
use super::slot_history::{SIGHTINGS, SlotHistory};
use super::user_chain::SharedFrames;
use prof_unwind::{Base, FpFrom, StackDump};
use rustc_hash::FxHashMap;
use std::ops::{Range, RangeInclusive};

/// Farther than this below the stack pointer is another stack, bytes.
const SAME_STACK: u64 = 64 << 20;
/// A slot whose content changed unseen must then stay this many times.
const PROBATION: u16 = 64;
/// Of so many frames that are known again it is cheap to take down that their
/// slots were seen.
const FEW_POPPED: usize = 4096;
/// Frames whose return addresses chains share at a time.
pub(super) const SHARED: usize = 512;
/// So many pairs of callee and caller are few.
const MOST_PAIRS: usize = 8;
/// Most slots under probation for one thread.
const MAX_DOUBTFUL: usize = 4096;

/// In place of the outermost frame's return address. Where that stands is known
/// and compared as other frames are, and no part of the chain.
pub(super) const NO_CALLER: u64 = 0;

/// The outer frames of a thread, as last seen.
#[derive(Debug, Default)]
pub(super) struct OuterFrames {
    frames: Frames,
    /// How many of them lie on one stack, each slot below the one before: on
    /// those a binary search works. The rest is on other stacks.
    in_order: usize,
    /// How many of them, from the outermost on, have callers that only
    /// compared words decide on. Frames whose size hangs on other registers
    /// are walked anew each time: their return addresses may be leftovers.
    rigid: usize,
    /// The thread was seen to have left them: they count again only where
    /// they are all found in a copy.
    is_left: bool,
    /// Slots that were seen to change while all inside of them stayed the
    /// same, with how often they stayed since.
    doubtful: FxHashMap<u64, u16>,
    /// What slots held.
    history: SlotHistory,
    /// Drains in which the known frames were compared with the stack.
    looks: u32,
    /// The last of these drains.
    looked: u64,
    /// Their return addresses, [`SHARED`] frames each.
    shared: Vec<Shared>,
    /// Frames that were known lately.
    popped: Popped,
    /// The drain in which so many of the frames were last found unchanged.
    verified: (u64, usize),
    /// How many frames in order, from the outermost on, were found to be sure,
    /// calm and there in an earlier drain. As long as they are known they
    /// stay so, and need not be looked at again.
    steady: usize,
}

/// [`SHARED`] frames.
#[derive(Debug)]
struct Shared {
    /// Their return addresses, as chains have them.
    frames: SharedFrames,
    /// The pairs of callee and caller among them, by return addresses; `None`
    /// if there are many.
    pairs: Option<Vec<(u64, u64)>>,
}

impl Shared {
    /// Of known frames, outermost first.
    fn of(frames: &[Known]) -> Self {
        let mut pairs = Some(Vec::new());
        for (caller, callee) in frames.iter().zip(frames.get(1..).unwrap_or_default()) {
            let pair = (callee.pc, caller.pc);
            pairs = match pairs {
                Some(all) if all.contains(&pair) => Some(all),
                Some(mut all) if all.len() < MOST_PAIRS => {
                    all.push(pair);
                    Some(all)
                }
                _ => None,
            };
        }
        let pcs = frames.iter().rev().map(|frame| frame.pc);
        Self {
            frames: SharedFrames::new(pcs.filter(|&pc| pc != NO_CALLER)),
            pairs,
        }
    }
}

impl OuterFrames {
    /// The frames outside of position `end`, outermost first.
    pub(super) fn until(&self, end: usize) -> &[Known] {
        self.frames.get(..end).unwrap_or(&self.frames)
    }

    /// Whether the frames outside of position `end` lie each below its caller,
    /// as on a single stack.
    pub(super) fn are_in_order(&self, end: usize) -> bool {
        end.min(self.frames.len()) <= self.in_order
    }

    /// How many of the frames outside of position `end`, from the outermost on,
    /// need no more proof in drain `now`.
    pub(super) fn steady(&mut self, end: usize, now: u64) -> usize {
        let end = end.min(self.in_order);
        let calm_above = self.calm_above(now);
        // What the frame itself tells is looked at first: of many thousands,
        // memory of slots is not at hand.
        let is_sure = |it: &Self, frame: &Known| {
            it.looks - frame.looks >= SIGHTINGS || it.is_sure(frame.slot, frame.pc)
        };
        while let Some(frame) = self.frames.get(..end).and_then(|all| all.get(self.steady))
            && frame.since < now
            && is_sure(self, frame)
            && (frame.slot > calm_above || self.is_calm(frame.slot, now))
        {
            self.steady += 1;
        }
        self.steady.min(end)
    }

    /// The slots up to this one may have changed.
    fn unsettle(&mut self, slot: u64) {
        let steady = self.frames.get(..self.steady).unwrap_or_default();
        self.steady = steady.partition_point(|frame| frame.slot > slot);
    }

    /// Whether each frame lies below its caller, as on a single stack.
    pub(super) fn is_one_stack(&self) -> bool {
        self.in_order == self.frames.len()
    }

    /// How many of the frames outside of position `end`, from the outermost on,
    /// may have slots that are not among these.
    pub(super) fn outside(&self, end: usize, slots: &Range<u64>) -> usize {
        let known = self.until(end);
        let is_above = known.last().is_some_and(|frame| frame.slot >= slots.start);
        match self.are_in_order(end) && is_above {
            true => known.partition_point(|frame| frame.slot >= slots.end),
            false => known.len(),
        }
    }

    /// Keeps the frames outside of position `end` and adds these, which come
    /// innermost first.
    pub(super) fn replace_inner(&mut self, end: usize, inner: &[Known]) {
        self.truncate(end);
        let mut caller = self.frames.last().copied();
        for frame in inner.iter().rev() {
            let is_passed_on = caller.is_some_and(|it| it.needs_fp && it.fp_from == FpFrom::Callee);
            let mut frame = *frame;
            frame.needs_fp = frame.base == Base::Frame || is_passed_on;
            if !self.frames.fits(&frame) {
                self.put_left_aside();
            }
            self.frames.push(frame);
            caller = Some(frame);
        }
        self.popped.known_are(self.frames.len());
        self.extend_prefixes();
    }

    /// Another frame will stand where one was left.
    fn put_left_aside(&mut self) {
        let known = self.frames.len();
        self.popped.take_over(self.frames.take_left(), known);
        self.shared.truncate(known / SHARED);
    }

    /// Frames were added.
    fn extend_prefixes(&mut self) {
        let mut last = match self.in_order.checked_sub(1) {
            Some(at) => self.frames.get(at).map_or(0, |frame| frame.slot),
            None => u64::MAX,
        };
        while let Some(frame) = self.frames.get(self.in_order)
            && frame.slot < last
        {
            last = frame.slot;
            self.in_order += 1;
        }
        // The outermost has no caller.
        while let Some(frame) = self.frames.get(self.rigid)
            && (self.rigid == 0 || frame.is_rigid())
        {
            self.rigid += 1;
        }
    }

    /// Has shares of the frames outside of position `end`.
    fn prepare(&mut self, end: usize) {
        let count = end.min(self.frames.len()) / SHARED;
        while self.shared.len() < count
            && let from = self.shared.len() * SHARED
            && let Some(frames) = self.frames.get(from..from + SHARED)
        {
            self.shared.push(Shared::of(frames));
        }
    }

    /// Adds to `out`, innermost first, the return addresses of outer frames among
    /// those outside of position `end`; how many frames that are.
    pub(super) fn share(&mut self, end: usize, out: &mut Vec<SharedFrames>) -> usize {
        self.prepare(end);
        let shared = self.shared.get(..end / SHARED).unwrap_or(&self.shared);
        out.extend(shared.iter().rev().map(|shared| shared.frames.clone()));
        shared.len() * SHARED
    }

    /// If all slots of a share of frames, whose last is at position `end - 1`,
    /// are calm in drain `now`, and their pairs of callee and caller are few:
    /// these pairs.
    pub(super) fn pairs(&mut self, end: usize, now: u64) -> Option<&[(u64, u64)]> {
        let is_share = end.is_multiple_of(SHARED) && end <= self.in_order;
        let innermost = self.frames.get(end.checked_sub(1)?)?;
        let outermost = self.frames.get(end.checked_sub(SHARED)?)?;
        let slots = innermost.slot..outermost.slot.saturating_add(1);
        if !is_share || self.uncalm(slots, now).is_some() {
            return None;
        }
        self.prepare(end);
        let shared = self.shared.get((end / SHARED).checked_sub(1)?)?;
        shared.pairs.as_deref()
    }

    /// The position among popped frames of one that a walk has reached.
    pub(super) fn find_popped(&self, sp: u64, key: u64) -> Option<usize> {
        let left = self.frames.left();
        if left.is_empty() {
            return self.popped.find(sp, key);
        }
        let at = left.partition_point(|frame| frame.sp > sp);
        let found = left.get(at)?;
        (found.sp == sp && found.key == key).then_some(at)
    }

    /// Popped frames from a position on, innermost first.
    pub(super) fn popped_from(&self, at: usize) -> impl Iterator<Item = &Known> {
        let left = self.frames.left().get(..=at).unwrap_or_default();
        left.iter().rev().chain(self.popped.from(at))
    }

    /// The outermost popped frame.
    pub(super) fn outermost_popped(&self) -> Option<&Known> {
        let left = self.frames.left().first();
        left.or_else(|| self.popped.from(0).last())
    }

    /// How many popped frames there are.
    #[cfg(test)]
    pub(super) fn popped(&self) -> usize {
        self.frames.left().len() + self.popped.from(0).len()
    }

    /// Of popped frames a word has changed of the one so many further out than that
    /// at a position. False if it is not given up yet.
    pub(super) fn popped_changed(&mut self, at: usize, outward: usize) -> bool {
        let left = self.frames.left().len();
        if !self.popped.missed(left + self.popped.from(0).len()) {
            return false;
        }
        match left {
            0 => self.popped.changed(at + outward),
            _ => self.keep_left(at.saturating_sub(outward)),
        }
        true
    }

    /// Of the frames that were left only so many are as they were.
    fn keep_left(&mut self, count: usize) {
        self.frames.keep_left(count);
        self.shared.truncate(self.frames.in_all() / SHARED);
    }

    /// The words of popped frames from a position on were found unchanged in
    /// drain `now`: they are known again, as if they had been found by a walk.
    /// The position of the innermost of them.
    pub(super) fn revive(&mut self, at: usize, now: u64) -> usize {
        let base = match self.frames.left() {
            [] => self.revive_others(at, now),
            _ => {
                let base = self.frames.len();
                self.frames.come_back(at + 1, (now, self.looks));
                // They were when they were left.
                (self.in_order, self.rigid) = (self.frames.len(), self.frames.len());
                base
            }
        };
        self.popped.hit();
        let revived = self.frames.get(base..).unwrap_or_default();
        let low = revived.last().map_or(0, |frame| frame.slot);
        let high = revived.first().map_or(0, |frame| frame.slot);
        // Where others were seen meanwhile, slots have changed, and again now.
        let others = self.popped.take_others(low..high.saturating_add(1));
        let again: Vec<Known> = match revived.len() {
            ..=FEW_POPPED => revived.to_vec(),
            _ => {
                let at = others.iter().filter_map(|&slot| self.position(slot));
                at.filter_map(|at| self.frames.get(at).copied()).collect()
            }
        };
        self.observe(&again, now);
        self.frames.len().saturating_sub(1)
    }

    /// The same of frames in whose places others stood.
    fn revive_others(&mut self, at: usize, now: u64) -> usize {
        let base = self.popped.base();
        self.drop_behind(base);
        let looks = self.looks;
        let revived = self.popped.take(at).map(|frame| Known {
            since: now,
            looks,
            ..frame
        });
        self.frames.extend(revived);
        self.extend_prefixes();
        base
    }

    /// A chain ended elsewhere.
    pub(super) fn left_behind(&mut self) {
        self.is_left = true;
    }

    fn truncate(&mut self, len: usize) {
        if len < self.frames.len() {
            let fit = self.in_order.min(self.rigid);
            if self.popped.has_any() {
                self.popped.cut(&self.frames, len, fit);
                self.frames.truncate(len);
            } else {
                if self.frames.left().is_empty() {
                    self.popped.begin();
                }
                self.frames.leave(len, fit);
            }
        }
        self.known_until(len);
    }

    /// Keeps the first frames only.
    fn drop_behind(&mut self, len: usize) {
        self.frames.truncate(len);
        self.known_until(len);
    }

    /// Only the first frames are known.
    fn known_until(&mut self, len: usize) {
        self.shared.truncate(self.frames.in_all() / SHARED);
        self.steady = self.steady.min(len);
        self.in_order = self.in_order.min(len);
        self.rigid = self.rigid.min(len);
        self.verified.1 = self.verified.1.min(len);
    }

    /// Bytes that it takes, about.
    pub(super) fn held_bytes(&self) -> usize {
        let shared = self.shared.len() * SHARED * size_of::<u64>();
        let frames = self.frames.capacity() * size_of::<Known>();
        frames + shared + self.popped.held_bytes() + self.history.held_bytes()
    }

    /// The last drain in which the known frames were compared with the stack.
    pub(super) fn looked(&self) -> u64 {
        self.looked
    }

    /// Forgets the frames that the thread has left.
    pub(super) fn give_up_popped(&mut self) {
        self.popped = Popped::default();
        self.frames.give_up_left();
        self.shared.truncate(self.frames.len() / SHARED);
    }

    /// Forgets all frames, in drain `now`; not what speaks against slots.
    pub(super) fn give_up(&mut self, now: u64) {
        self.give_up_popped();
        self.drop_behind(0);
        (self.frames, self.shared) = (Frames::default(), Vec::new());
        self.history.give_up(now);
    }

    /// Whether just the first `count` frames were found unchanged in drain
    /// `now`: later samples of it were taken before that, too.
    pub(super) fn is_verified(&self, count: usize, now: u64) -> bool {
        self.verified == (now, count)
    }

    /// The first `count` frames are unchanged in drain `now`.
    pub(super) fn verified(&mut self, count: usize, now: u64) {
        self.verified = (now, count);
    }

    /// Drops what a sample with this copied piece shows to be gone.
    pub(super) fn settle(&mut self, copied: &Copied<'_>, word: u8) {
        let dump = &copied.dump;
        if std::mem::take(&mut self.is_left) {
            let is_there = |frame: &Known| {
                copied.word(frame.slot, word) == Some(frame.pc) && !frame.is_repointed(copied, word)
            };
            let there = self.frames.iter().take_while(|frame| is_there(frame));
            self.truncate(there.count());
            return;
        }
        let is_popped =
            |frame: &Known| frame.slot < dump.start && dump.start - frame.slot < SAME_STACK;
        let gone = |frame: &Known| {
            let is_replaced = copied
                .word(frame.slot, word)
                .is_some_and(|value| value != frame.pc);
            is_popped(frame) || is_replaced || frame.is_repointed(copied, word)
        };
        // Of frames in order, those above the copy are not touched by it, but
        // for what the callee of the innermost of them has saved.
        let ordered = self.frames.get(..self.in_order).unwrap_or_default();
        let above = |address: u64| ordered.partition_point(|frame| frame.slot >= address);
        let pieces = copied.pieces.iter().map(|(start, bytes)| {
            let piece = StackDump {
                start: *start,
                bytes,
            };
            let frames = above(piece.end()).saturating_sub(1)..above(*start);
            (frames, piece)
        });
        let dump = (
            above(dump.end()).saturating_sub(1)..self.frames.len(),
            *dump,
        );
        // A frame that is gone takes all inside of it along.
        let first = |(range, piece): (Range<usize>, StackDump<'_>)| {
            let is_gone = |frame: &Known| match piece.word(frame.slot, word) {
                Some(pc) if pc == frame.pc && !is_popped(frame) => frame.is_repointed(copied, word),
                _ => gone(frame),
            };
            let suspects = self.frames.get(range.clone()).unwrap_or_default();
            suspects
                .iter()
                .position(is_gone)
                .map(|first| range.start + first)
        };
        let first = pieces.chain([dump]).filter_map(first).min();
        if let Some(first) = first {
            self.truncate(first);
        }
    }

    /// The position of a frame that a walk has reached, if all outside of it
    /// follows.
    pub(super) fn find(&self, sp: u64, key: u64) -> Option<usize> {
        self.find_any(sp, key).filter(|&at| at <= self.rigid)
    }

    /// What the caller of the frame at a position was found by.
    pub(super) fn base(&self, at: usize) -> Base {
        self.frames.get(at).map_or(Base::Other, |frame| frame.base)
    }

    fn find_any(&self, sp: u64, key: u64) -> Option<usize> {
        let ordered = self.frames.get(..self.in_order).unwrap_or_default();
        let at = ordered.partition_point(|frame| frame.sp > sp);
        let is_it = |frame: &Known| frame.sp == sp && frame.key == key;
        if ordered.get(at).is_some_and(is_it) {
            return Some(at);
        }
        let others = self.frames.get(self.in_order..)?;
        others.iter().rposition(is_it).map(|at| at + self.in_order)
    }

    /// The frame that is known to have this return address in this slot.
    pub(super) fn known(&self, slot: u64, pc: u64) -> Option<&Known> {
        let at = self.position(slot)?;
        self.frames.get(at).filter(|known| known.pc == pc)
    }

    /// The position of the frame whose return address is in this slot.
    pub(super) fn position(&self, slot: u64) -> Option<usize> {
        let ordered = self.frames.get(..self.in_order).unwrap_or_default();
        let at = ordered.partition_point(|frame| frame.slot > slot);
        let is_it = |frame: &Known| frame.slot == slot;
        if ordered.get(at).is_some_and(is_it) {
            return Some(at);
        }
        let others = self.frames.get(self.in_order..)?;
        others.iter().rposition(is_it).map(|at| at + self.in_order)
    }

    /// In drain `now` the frames are compared with the stack.
    pub(super) fn look(&mut self, now: u64) {
        self.looks += u32::from(self.looked != now);
        self.looked = now;
    }

    /// How often that was done so far.
    pub(super) fn looks(&self) -> u32 {
        self.looks
    }

    /// Whether the slot was seen to hold this return address so often that
    /// another would have been seen, too.
    pub(super) fn is_sure(&self, slot: u64, pc: u64) -> bool {
        if self.history.is_sure(slot, pc) {
            return true;
        }
        let known = self.known(slot, pc);
        known.is_some_and(|known| self.looks - known.looks >= SIGHTINGS)
    }

    /// From now on remembers what slots hold: the thread's stack is deeper
    /// than the copies.
    pub(super) fn is_deep(&mut self) {
        self.history.begin();
    }

    /// Remembers what the slots of these frames hold in drain `now`.
    pub(super) fn observe(&mut self, frames: &[Known], now: u64) {
        self.saw(frames);
        let slots = frames.iter().map(|frame| (frame.slot, frame.pc));
        if let Some(changed) = self.history.observe(slots, now) {
            self.unsettle(changed);
        }
    }

    /// These frames were seen.
    fn saw(&mut self, frames: &[Known]) {
        let has_popped = self.popped.has_any() || !self.frames.left().is_empty();
        if has_popped && !self.popped.saw(frames) {
            self.keep_left(0);
        }
    }

    /// Between which slots among these lie all that are not calm in drain `now`.
    pub(super) fn uncalm(&self, slots: Range<u64>, now: u64) -> Option<Range<u64>> {
        self.history.uncalm(slots, now)
    }

    /// The same as [`OuterFrames::observe`], for less: says that these slots, and all inside of them, may
    /// have changed in drain `now`.
    pub(super) fn observe_any(&mut self, frames: &[Known], now: u64) {
        self.saw(frames);
        let Some(highest) = frames.iter().map(|frame| frame.slot).max() else {
            return;
        };
        self.history.observe_any(highest, now);
        self.unsettle(highest);
    }

    /// Whether the slot has held the same for so long that it will have held
    /// it in the short time between two looks at it.
    pub(super) fn is_calm(&self, slot: u64, now: u64) -> bool {
        self.history.is_calm(slot, now)
    }

    /// Slots above this one are calm in drain `now`; it need not be the lowest
    /// of which that holds.
    pub(super) fn calm_above(&self, now: u64) -> u64 {
        self.history.calm_above(now)
    }

    /// The content of the slot of frame `at` turned out to be another.
    pub(super) fn changed(&mut self, at: usize) {
        if let Some(frame) = self.frames.get(at) {
            if self.doubtful.len() >= MAX_DOUBTFUL {
                self.doubtful.clear();
            }
            self.doubtful.insert(frame.slot, 0);
        }
        self.truncate(at);
    }

    /// Whether a read content of this slot can be believed. Each asking
    /// counts as one time that the slot has stayed as it was.
    pub(super) fn is_settled(&mut self, slot: u64) -> bool {
        let Some(stayed) = self.doubtful.get_mut(&slot) else {
            return true;
        };
        *stayed = stayed.saturating_add(1);
        if *stayed < PROBATION {
            return false;
        }
        self.doubtful.remove(&slot);
        true
    }

    /// Whether one of the slots in this range has changed unseen, but for these.
    pub(super) fn is_doubtful(&self, slots: &RangeInclusive<u64>, except: &[u64]) -> bool {
        let mut doubtful = self.doubtful.keys();
        doubtful.any(|slot| slots.contains(slot) && !except.contains(slot))
    }

    /// Whether nothing about this thread's stack is in doubt.
    pub(super) fn is_trusted(&self) -> bool {
        self.doubtful.is_empty()
    }

    /// The slots under probation.
    pub(super) fn doubtful(&self) -> Vec<u64> {
        self.doubtful.keys().copied().collect()
    }
}

#[cfg(test)]
pub(super) mod tests;

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

mod left;
mod returned;
mod seen;
mod settled;
mod shares;

use super::frames::{Frames, Return};
use super::known_frame::Known;
use super::popped::Popped;
use super::slot_history::SlotHistory;
use super::stack_starts::{SeenStart, Told};
use prof_unwind::{Base, FpFrom};
use returned::Returned;
use rustc_hash::FxHashMap;
use shares::Shared;
use std::ops::Range;

pub(super) use shares::SHARED;

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
    /// Slots that were found to hold something else in these drains, of which it is
    /// not known yet whether the thread had left their frames by then.
    unexplained: Vec<(u64, u64)>,
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
    /// The same of frames that the thread left, as long as they stay in their places.
    returned: Returned,
    /// Where whole chains end.
    start: SeenStart,
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

    /// The chain of all frames is whole: says what that tells of the stack's start.
    pub(super) fn is_whole(&mut self) -> Told {
        match self.frames.first() {
            Some(outermost) => self.start.ended_at(outermost.sp),
            None => Told::Nothing,
        }
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
                self.returned.leave(self.frames.len(), len, self.steady);
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
        self.returned.shorten(self.frames.in_all());
        self.in_order = self.in_order.min(len);
        self.rigid = self.rigid.min(len);
        self.verified.1 = self.verified.1.min(len);
    }

    /// Bytes that it takes, about.
    pub(super) fn held_bytes(&self) -> usize {
        let shared = self.shared.len() * SHARED * size_of::<u64>();
        let each = size_of::<Known>() + size_of::<Return>();
        let frames = self.frames.capacity() * each;
        frames + shared + self.popped.held_bytes() + self.history.held_bytes()
    }

    /// Forgets all frames, in drain `now`; not what speaks against slots.
    pub(super) fn give_up(&mut self, now: u64) {
        self.give_up_popped();
        self.drop_behind(0);
        (self.frames, self.shared) = (Frames::default(), Vec::new());
        self.history.give_up(now);
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
}

#[cfg(test)]
pub(super) mod tests;

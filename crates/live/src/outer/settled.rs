//! What a sample shows to be gone, and slots that are not believed at once since
//! they changed unseen.

use super::OuterFrames;
use crate::frames::Return;
use crate::known_frame::Known;
use crate::memory::Copied;
use prof_unwind::StackDump;
use std::ops::{Range, RangeInclusive};

/// Farther than this below the stack pointer is another stack, bytes.
const SAME_STACK: u64 = 64 << 20;
/// A slot whose content changed unseen must then stay this many times.
pub(super) const PROBATION: u16 = 64;
/// Most slots under probation for one thread.
const MAX_DOUBTFUL: usize = 4096;

impl OuterFrames {
    /// Drops what a sample with this copied piece, of drain `now`, shows to be gone.
    pub(crate) fn settle(&mut self, copied: &Copied<'_>, word: u8, now: u64) {
        let dump = &copied.dump;
        self.explain(dump.start, now);
        if std::mem::take(&mut self.is_left) {
            let is_there = |frame: &Known| {
                copied.word(frame.slot, word) == Some(frame.pc) && !frame.is_repointed(copied, word)
            };
            let there = self.frames.iter().take_while(|frame| is_there(frame));
            self.truncate(there.count());
            return;
        }
        let is_popped = |frame: &Known| is_popped(frame.slot, dump.start);
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
            let is_as_it_was = |it: &Return| {
                it.slot >= copied.dump.start && piece.word(it.slot, word) == Some(it.pc)
            };
            let is_gone = |at: &usize| self.frames.get(*at).is_some_and(is_gone);
            let returns = self.frames.returns().get(range.clone());
            let numbered = range.clone().zip(returns.unwrap_or_default());
            let suspects = numbered.filter(|(_, it)| !is_as_it_was(it));
            let suspect = suspects.map(|(at, _)| at).find(is_gone);
            let pointed = self.frames.pointed(&range).iter().copied().find(is_gone);
            suspect.into_iter().chain(pointed).min()
        };
        let first = pieces.chain([dump]).filter_map(first).min();
        if let Some(first) = first {
            self.truncate(first);
        }
    }

    /// The content of the slot of frame `at` turned out to be another in drain `now`.
    pub(crate) fn changed(&mut self, at: usize, now: u64) {
        if let Some(frame) = self.frames.get(at)
            && self.unexplained.len() < MAX_DOUBTFUL
        {
            self.unexplained.push((frame.slot, now));
        }
        self.truncate(at);
    }

    /// A sample of drain `now` has the stack pointer here. Slots below it have changed
    /// because the thread left their frames. Those above it have changed while it did
    /// not, if they were read before the sample was taken: one of the drain after the
    /// reading may be older.
    pub(super) fn explain(&mut self, sp: u64, now: u64) {
        let Self {
            unexplained,
            doubtful,
            ..
        } = self;
        unexplained.retain(|&(slot, drain)| {
            if is_popped(slot, sp) || now <= drain + 1 {
                return !is_popped(slot, sp);
            }
            if doubtful.len() >= MAX_DOUBTFUL {
                doubtful.clear();
            }
            doubtful.insert(slot, 0);
            false
        });
    }

    /// Whether one of the slots in this range, but for these, has changed, and it is
    /// open whether unseen.
    pub(crate) fn may_be_doubtful(&self, slots: &RangeInclusive<u64>, except: &[u64]) -> bool {
        let mut open = self.unexplained.iter().map(|(slot, _)| slot);
        open.any(|slot| slots.contains(slot) && !except.contains(slot))
    }

    /// Whether a read content of this slot can be believed. Each asking
    /// counts as one time that the slot has stayed as it was.
    pub(crate) fn is_settled(&mut self, slot: u64) -> bool {
        if self.unexplained.iter().any(|&(it, _)| it == slot) {
            return false;
        }
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
    pub(crate) fn is_doubtful(&self, slots: &RangeInclusive<u64>, except: &[u64]) -> bool {
        let mut doubtful = self.doubtful.keys();
        doubtful.any(|slot| slots.contains(slot) && !except.contains(slot))
    }

    /// Whether nothing about this thread's stack is in doubt.
    pub(crate) fn is_trusted(&self) -> bool {
        self.doubtful.is_empty() && self.unexplained.is_empty()
    }

    /// The slots under probation, and those that may come to be.
    pub(crate) fn doubtful(&self) -> Vec<u64> {
        let open = self.unexplained.iter().map(|(slot, _)| slot);
        let open = open.filter(|slot| !self.doubtful.contains_key(slot));
        self.doubtful.keys().chain(open).copied().collect()
    }
}

/// Whether the frame with this slot is left where the stack pointer is here.
fn is_popped(slot: u64, sp: u64) -> bool {
    slot < sp && sp - slot < SAME_STACK
}

//! The frames of a thread and, behind them, those that it has left, in their
//! places: it may come back before others stand there. To move some ten thousand
//! of them away and back takes longer than to compare what they were found by.
//!
//! ```text
//!   outermost …  known  │  left …  innermost
//! ```

use super::known_frame::Known;
use super::popped::FEWEST;
use std::ops::{Deref, Range};

/// Frames, outermost first; as a slice those that are known.
#[derive(Debug, Default)]
pub(super) struct Frames {
    all: Vec<Known>,
    known: usize,
    /// Of each of them what is compared with each sample: the rest of many thousands
    /// is not at hand.
    returns: Vec<Return>,
    /// Which of them hang on a frame pointer in memory, too.
    pointed: Vec<usize>,
}

/// A return address, and where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Return {
    pub(super) slot: u64,
    pub(super) pc: u64,
}

impl Deref for Frames {
    type Target = [Known];

    fn deref(&self) -> &[Known] {
        self.all.get(..self.known).unwrap_or(&self.all)
    }
}

impl Frames {
    /// Those that the thread has left.
    pub(super) fn left(&self) -> &[Known] {
        self.all.get(self.known..).unwrap_or_default()
    }

    /// The return addresses of those that are known.
    pub(super) fn returns(&self) -> &[Return] {
        self.returns.get(..self.known).unwrap_or(&self.returns)
    }

    /// The return addresses of all behind the first `known`, left ones too.
    pub(super) fn returns_behind(&self, known: usize) -> &[Return] {
        self.returns.get(known..).unwrap_or_default()
    }

    /// Those of these frames, left ones too, that hang on a frame pointer in memory, by
    /// position.
    pub(super) fn pointed(&self, range: &Range<usize>) -> &[usize] {
        let until = |end: usize| self.pointed.partition_point(|&at| at < end);
        let pointed = self.pointed.get(until(range.start)..until(range.end));
        pointed.unwrap_or_default()
    }

    /// The return addresses of the first `count` that the thread has left, if none of
    /// these hangs on a frame pointer in memory.
    pub(super) fn left_returns(&self, count: usize) -> Option<&[Return]> {
        let range = self.known..self.known + count;
        let returns = self.returns.get(range.clone())?;
        self.pointed(&range).is_empty().then_some(returns)
    }

    fn add(&mut self, frame: Known) {
        if frame.fp_slot().is_some() {
            self.pointed.push(self.all.len());
        }
        let (slot, pc) = (frame.slot, frame.pc);
        self.returns.push(Return { slot, pc });
        self.all.push(frame);
    }

    fn keep(&mut self, len: usize) {
        self.all.truncate(len);
        self.returns.truncate(len);
        let pointed = self.pointed.partition_point(|&at| at < len);
        self.pointed.truncate(pointed);
    }

    /// How many there are, left ones too.
    pub(super) fn in_all(&self) -> usize {
        self.all.len()
    }

    /// How many of the first `count` frames, left ones too, have slots above this one.
    pub(super) fn above(&self, slot: u64, count: usize) -> usize {
        let frames = self.all.get(..count).unwrap_or(&self.all);
        frames.partition_point(|frame| frame.slot > slot)
    }

    pub(super) fn capacity(&self) -> usize {
        self.all.capacity()
    }

    /// Whether a frame stands where one was left, or none.
    pub(super) fn fits(&self, frame: &Known) -> bool {
        let left = self.left().first();
        left.is_none_or(|left| frame.stands_as(left))
    }

    /// One more is known, which [`Frames::fits`].
    pub(super) fn push(&mut self, frame: Known) {
        match self.all.get_mut(self.known) {
            // Its return address and frame pointer are the same.
            Some(left) => *left = frame,
            None => self.add(frame),
        }
        self.known += 1;
    }

    /// The known ones behind the first `len` were left. Of those the first `fit` may
    /// be kept, and what was left before fits behind all that were known.
    pub(super) fn leave(&mut self, len: usize, fit: usize) {
        if fit < self.known {
            self.keep(fit.max(len));
        }
        self.known = len.min(self.all.len());
        self.drop_few_left();
    }

    /// Of those that were left only so many are as they were.
    pub(super) fn keep_left(&mut self, count: usize) {
        self.keep(self.known.saturating_add(count));
        self.drop_few_left();
    }

    fn drop_few_left(&mut self) {
        if self.left().len() < FEWEST {
            self.keep(self.known);
        }
    }

    /// Takes those that were left, innermost first.
    pub(super) fn take_left(&mut self) -> impl Iterator<Item = Known> {
        let left = self.all.split_off(self.known.min(self.all.len()));
        self.keep(self.known);
        left.into_iter().rev()
    }

    /// So many of those that were left are known again, as seen first in drain
    /// `since` with so many looks.
    pub(super) fn come_back(&mut self, count: usize, (since, looks): (u64, u32)) {
        let end = self.known.saturating_add(count).min(self.all.len());
        let back = self.all.get_mut(self.known..end).unwrap_or_default();
        for frame in back {
            (frame.since, frame.looks) = (since, looks);
        }
        self.known = end;
    }

    /// Keeps the first frames only.
    pub(super) fn truncate(&mut self, len: usize) {
        self.keep(len);
        self.known = self.known.min(len);
    }

    /// Adds some behind all that there are.
    pub(super) fn extend(&mut self, frames: impl Iterator<Item = Known>) {
        self.keep(self.known);
        frames.for_each(|frame| self.add(frame));
        self.known = self.all.len();
    }

    /// Frees the room of those that were left.
    pub(super) fn give_up_left(&mut self) {
        self.keep(self.known);
        self.all.shrink_to_fit();
        self.returns.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::{FEWEST, Frames};
    use crate::outer::tests::frame;
    use prof_unwind::FpFrom;

    /// So many, of which all but `len` were left.
    fn left(count: usize, len: usize, fit: usize) -> Frames {
        let mut frames = Frames::default();
        let at = |number: usize| frame(0x10_0000 - 16 * number as u64, 7);
        (0..count).for_each(|number| frames.push(at(number)));
        frames.leave(len, fit);
        frames
    }

    #[test]
    fn what_is_left_stays_in_its_place_until_another_stands_there() {
        let mut frames = left(500, 300, 500);
        assert_eq!((frames.len(), frames.left().len()), (300, 200));
        let next = frames.left()[0];
        assert!(frames.fits(&next));
        frames.push(next);
        assert_eq!((frames.len(), frames.left().len()), (301, 199));
        // Another return address, place, way to the caller.
        let mut next = frames.left()[0];
        for other in [frame(next.slot, 9), frame(next.slot + 16, 7)] {
            assert!(!frames.fits(&other));
        }
        next.base = prof_unwind::Base::Other;
        assert!(!frames.fits(&next));
        let taken: Vec<_> = frames.take_left().map(|frame| frame.slot).collect();
        assert!(taken.is_sorted() && taken.len() == 199);
        assert_eq!((frames.len(), frames.in_all()), (301, 301));
    }

    #[test]
    fn what_is_compared_is_that_of_the_frames() {
        let mut frames = left(500, 300, 500);
        let same = |frames: &Frames| {
            let all = frames.returns.iter().map(|it| (it.slot, it.pc));
            assert!(all.eq(frames.all.iter().map(|it| (it.slot, it.pc))));
            let pointed = |at: &usize| frames.all[*at].fp_slot().is_some();
            let pointed: Vec<_> = (0..frames.all.len()).filter(pointed).collect();
            assert_eq!(frames.pointed, pointed);
        };
        same(&frames);
        assert_eq!(frames.left_returns(200).map(<[_]>::len), Some(200));
        assert_eq!(frames.left_returns(201), None);
        frames.come_back(100, (7, 3));
        same(&frames);
        assert_eq!(frames.returns().len(), 400);
        let mut other = frame(0x100, 9);
        (other.needs_fp, other.fp_from) = (true, FpFrom::Memory(0xf8));
        frames.extend([frame(0x200, 8), other, frame(0x80, 9)].into_iter());
        same(&frames);
        assert_eq!(frames.pointed(&(0..402)), &[401]);
        assert_eq!(frames.pointed(&(402..403)), &[0_usize; 0]);
        frames.leave(300, 403);
        same(&frames);
        assert_eq!(frames.left_returns(101).map(<[_]>::len), Some(101));
        assert_eq!(frames.left_returns(102), None, "one hangs on memory");
        assert_eq!(frames.take_left().count(), 103);
        same(&frames);
        frames.truncate(9);
        same(&frames);
    }

    #[test]
    fn what_comes_back_counts_as_seen_anew() {
        let mut frames = left(500, 300, 500);
        frames.leave(200, 300);
        assert_eq!(frames.left().len(), 300, "what was left before fits still");
        frames.come_back(250, (7, 3));
        assert_eq!((frames.len(), frames.left().len()), (450, 50));
        let seen = |at: usize| (frames[at].since, frames[at].looks);
        assert_eq!((seen(199), seen(200), seen(449)), ((0, 0), (7, 3), (7, 3)));
        assert_eq!(frames.left()[0].since, 0);
    }

    #[test]
    fn what_does_not_fit_or_is_not_worth_it_is_given_up() {
        assert_eq!(left(500, 300, 400).left().len(), 100);
        assert_eq!(left(500, 300, 200).left().len(), 0);
        assert_eq!(left(500, 501 - FEWEST, 500).left().len(), 0);
        let mut frames = left(500, 300, 500);
        frames.keep_left(FEWEST);
        assert_eq!(frames.left().len(), FEWEST);
        frames.keep_left(FEWEST - 1);
        assert_eq!(frames.in_all(), 300);
    }
}

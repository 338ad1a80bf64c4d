//! Frames that a thread has left, as they were last seen: it may come back.
//!
//! A recursion that goes down again finds most of its frames where they were
//! before. To compare what stands in their places takes a fraction of the time
//! that a walk takes, and shows as much: as long as all words by which frames
//! are found are the same, so are the frames.

use super::known_frame::Known;
use rustc_hash::FxHashSet;
use std::ops::Range;

/// Of fewer frames a walk is as cheap.
pub(super) const FEWEST: usize = 64;
/// Of so many frames a walk takes milliseconds: they are not given up at once.
const MANY: usize = 4096;
const MOST_MISSES: u32 = 2;
/// When so many other frames were seen since, they are given up.
const MOST_OTHERS: usize = 1024;

/// What became of popped frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Revived {
    /// They are known again, the innermost at this position.
    At(usize),
    /// There are none here, or they are no longer what they were.
    Not,
    /// Of very many one is another at the moment.
    Other,
}

/// Frames of one thread.
#[derive(Debug, Default)]
pub(super) struct Popped {
    /// Innermost first, each below its caller; none while they are kept in their
    /// places.
    frames: Vec<Known>,
    /// How many known frames were outside of them. While those stay, these
    /// fit.
    base: usize,
    /// How often one of very many was another since all were as they are.
    misses: u32,
    /// Slots of other frames that were seen since.
    others: FxHashSet<u64>,
}

impl Popped {
    /// Known frames, outermost first, will be cut behind the first `len`; those
    /// up to `fit` may be kept.
    pub(super) fn cut(&mut self, known: &[Known], len: usize, fit: usize) {
        if self.frames.is_empty() || fit < self.base {
            self.frames.clear();
            self.others.clear();
            self.base = fit;
        }
        let Some(gone) = known.get(len..self.base) else {
            return;
        };
        self.base = len;
        self.frames.extend(gone.iter().rev());
        if self.frames.len() < FEWEST {
            self.frames.clear();
        }
    }

    /// Whether some are here.
    pub(super) fn has_any(&self) -> bool {
        !self.frames.is_empty()
    }

    /// Frames were left, and are kept in their places.
    pub(super) fn begin(&mut self) {
        self.others.clear();
    }

    /// Others stand in the places of these, which come innermost first and were
    /// left when so many were known.
    pub(super) fn take_over(&mut self, left: impl Iterator<Item = Known>, base: usize) {
        self.base = base;
        self.frames.clear();
        self.frames.extend(left);
    }

    /// So many frames are known now.
    pub(super) fn known_are(&mut self, count: usize) {
        let other = count.saturating_sub(self.base);
        if other > self.frames.len().min(MOST_OTHERS) {
            self.frames.clear();
        }
    }

    /// Other frames were seen, with their return addresses in these slots. False
    /// if they are too many by now.
    pub(super) fn saw(&mut self, frames: &[Known]) -> bool {
        let slots = frames.iter().map(|frame| frame.slot);
        self.others.extend(slots.take(MOST_OTHERS + 1));
        let is_worth_it = self.others.len() <= MOST_OTHERS;
        if !is_worth_it {
            self.frames.clear();
        }
        is_worth_it
    }

    /// Bytes that they take, about.
    pub(super) fn held_bytes(&self) -> usize {
        let others = self.others.capacity() * (size_of::<u64>() + 1);
        self.frames.capacity() * size_of::<Known>() + others
    }

    /// The position of a frame that a walk has reached.
    pub(super) fn find(&self, sp: u64, key: u64) -> Option<usize> {
        let at = self.frames.partition_point(|frame| frame.sp < sp);
        let found = self.frames.get(at)?;
        (found.sp == sp && found.key == key).then_some(at)
    }

    /// The frames from position `at` on, innermost first.
    pub(super) fn from(&self, at: usize) -> &[Known] {
        self.frames.get(at..).unwrap_or_default()
    }

    /// One of `count` was another: false if they are kept for once.
    pub(super) fn missed(&mut self, count: usize) -> bool {
        if count >= MANY && self.misses < MOST_MISSES {
            self.misses += 1;
            return false;
        }
        self.misses = 0;
        true
    }

    /// All were as they are.
    pub(super) fn hit(&mut self) {
        self.misses = 0;
    }

    /// The frame at a position has changed: what is inside of it went with it.
    pub(super) fn changed(&mut self, at: usize) {
        let inside = self.frames.len().min(at + 1);
        self.frames.drain(..inside);
        if self.frames.len() < FEWEST {
            self.frames.clear();
        }
    }

    /// How many known frames they fit behind.
    pub(super) fn base(&self) -> usize {
        self.base
    }

    /// Takes the frames from position `at` on, outermost first, to be known
    /// again behind these.
    pub(super) fn take(&mut self, at: usize) -> impl Iterator<Item = Known> {
        let at = at.min(self.frames.len());
        self.base += self.frames.len() - at;
        self.frames.drain(at..).rev()
    }

    /// Takes the slots among these in which other frames were seen.
    pub(super) fn take_others(&mut self, slots: Range<u64>) -> Vec<u64> {
        self.others
            .extract_if(|slot| slots.contains(slot))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::{FEWEST, MOST_OTHERS, Popped};
    use crate::outer::tests::frame;

    /// So many known frames, outermost first.
    fn known(count: usize) -> Vec<crate::known_frame::Known> {
        let at = |number: usize| frame(0x10_0000 - 16 * number as u64, 7);
        (0..count).map(at).collect()
    }

    fn slots(frames: &[crate::known_frame::Known]) -> Vec<u64> {
        frames.iter().map(|frame| frame.slot).collect()
    }

    #[test]
    fn what_is_cut_piece_by_piece_comes_back_as_it_was() {
        let known = known(500);
        let mut popped = Popped::default();
        popped.cut(&known, 400, 500);
        // Some others are there instead, and go.
        popped.known_are(403);
        popped.cut(&known[..403], 401, 403);
        popped.cut(&known[..401], 300, 401);
        assert_eq!(popped.from(0).len(), 200);
        let inner = &known[450];
        let at = popped.find(inner.sp, inner.key).expect("cut");
        assert_eq!(popped.find(inner.sp, 9), None);
        assert_eq!(popped.find(inner.sp + 8, inner.key), None);
        assert_eq!(popped.base(), 300);
        let taken: Vec<_> = popped.take(at).collect();
        assert_eq!(slots(&taken), slots(&known[300..=450]));
        // Those inside of it still fit.
        assert_eq!(popped.base(), 451);
        let taken: Vec<_> = popped.take(0).collect();
        assert_eq!(slots(&taken), slots(&known[451..]));
    }

    #[test]
    fn what_does_not_fit_or_is_not_worth_it_is_given_up() {
        let known = known(3000);
        let mut popped = Popped::default();
        popped.cut(&known, 2999 - FEWEST, 2990);
        assert_eq!(popped.from(0).len(), 0, "too few that fit");
        popped.cut(&known, 1000, 2990);
        assert_eq!(popped.from(0).len(), 1990);
        // One has changed: those inside of it are gone.
        popped.changed(9);
        assert_eq!(slots(popped.from(0))[0], known[2979].slot);
        popped.known_are(1000 + MOST_OTHERS);
        assert_eq!(popped.from(0).len(), 1980);
        popped.known_are(1001 + MOST_OTHERS);
        assert_eq!(popped.from(0).len(), 0);
        popped.changed(0);
        // Others that were seen, one after the other.
        popped.cut(&known, 1000, 3000);
        for number in 0..=MOST_OTHERS {
            assert_eq!(popped.from(0).len(), 2000);
            popped.saw(&[frame(number as u64, 1)]);
        }
        assert_eq!(popped.from(0).len(), 0);
    }

    #[test]
    fn slots_of_others_are_told_once() {
        let known = known(500);
        let mut popped = Popped::default();
        popped.saw(&known);
        popped.cut(&known, 100, 500);
        popped.saw(&known[200..203]);
        let (high, low) = (known[200].slot, known[202].slot);
        let mut told = popped.take_others(low..high);
        told.sort_unstable();
        assert_eq!(told, [low, known[201].slot]);
        assert_eq!(popped.take_others(0..u64::MAX), [high]);
    }
}

//! Frames that the thread has left: it may come back to them.

use super::{OuterFrames, SHARED};
use crate::frames::Return;
use crate::known_frame::Known;
use crate::popped::Popped;

/// Of so many frames that are known again it is cheap to take down that their
/// slots were seen.
const FEW_POPPED: usize = 4096;

impl OuterFrames {
    /// Another frame will stand where one was left.
    pub(super) fn put_left_aside(&mut self) {
        let known = self.frames.len();
        self.popped.take_over(self.frames.take_left(), known);
        self.returned.shorten(known);
        self.shared.truncate(known / SHARED);
    }

    /// The position among popped frames of one that a walk has reached.
    pub(crate) fn find_popped(&self, sp: u64, key: u64) -> Option<usize> {
        let left = self.frames.left();
        if left.is_empty() {
            return self.popped.find(sp, key);
        }
        let at = left.partition_point(|frame| frame.sp > sp);
        let found = left.get(at)?;
        (found.sp == sp && found.key == key).then_some(at)
    }

    /// Popped frames from a position on, innermost first.
    pub(crate) fn popped_from(&self, at: usize) -> impl Iterator<Item = &Known> {
        let left = self.frames.left().get(..=at).unwrap_or_default();
        left.iter().rev().chain(self.popped.from(at))
    }

    /// The return addresses of the frames that [`OuterFrames::popped_from`] gives, the
    /// outermost first, where they are at hand and all that is to be compared.
    pub(crate) fn returns_popped_from(&self, at: usize) -> Option<&[Return]> {
        self.frames.left_returns(at.checked_add(1)?)
    }

    /// The outermost popped frame.
    pub(crate) fn outermost_popped(&self) -> Option<&Known> {
        let left = self.frames.left().first();
        left.or_else(|| self.popped.from(0).last())
    }

    /// How many popped frames there are.
    #[cfg(test)]
    pub(crate) fn popped(&self) -> usize {
        self.frames.left().len() + self.popped.from(0).len()
    }

    /// Of popped frames a word has changed of the one so many further out than that
    /// at a position. False if it is not given up yet.
    pub(crate) fn popped_changed(&mut self, at: usize, outward: usize) -> bool {
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
        self.returned.shorten(self.frames.in_all());
        self.shared.truncate(self.frames.in_all() / SHARED);
    }

    /// The words of popped frames from a position on were found unchanged in
    /// drain `now`: they are known again, as if they had been found by a walk.
    /// The position of the innermost of them.
    pub(crate) fn revive(&mut self, at: usize, now: u64) -> usize {
        let base = match self.frames.left() {
            [] => self.revive_others(at, now),
            _ => {
                let base = self.frames.len();
                self.frames.come_back(at + 1, (now, self.looks));
                // They were when they were left.
                (self.in_order, self.rigid) = (self.frames.len(), self.frames.len());
                self.returned.come_back(base, self.frames.len(), now);
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
        // They are no others than those that were left inside of them.
        self.remember(&again, now);
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
    pub(crate) fn left_behind(&mut self) {
        self.is_left = true;
    }

    /// Forgets the frames that the thread has left.
    pub(crate) fn give_up_popped(&mut self) {
        self.popped = Popped::default();
        self.frames.give_up_left();
        self.returned.shorten(self.frames.len());
        self.shared.truncate(self.frames.len() / SHARED);
    }

    /// These frames were seen.
    pub(super) fn saw(&mut self, frames: &[Known]) {
        let has_popped = self.popped.has_any() || !self.frames.left().is_empty();
        if has_popped && !self.popped.saw(frames) {
            self.keep_left(0);
        }
    }
}

//! How often and for how long slots were seen to hold the same.

use super::OuterFrames;
use crate::frames::Return;
use crate::known_frame::Known;
use crate::slot_history::SIGHTINGS;
use rustc_hash::FxHashSet;
use std::ops::Range;

impl OuterFrames {
    /// How many of the frames outside of position `end`, from the outermost on,
    /// need no more proof in drain `now`.
    pub(crate) fn steady(&mut self, end: usize, now: u64) -> usize {
        let end = end.min(self.in_order);
        let uncalm = self.uncalm_slots(now);
        // What the frame itself tells is looked at first: of many thousands,
        // memory of slots is not at hand.
        let is_sure = |it: &Self, frame: &Known| {
            it.looks - frame.looks >= SIGHTINGS || it.is_sure(frame.slot, frame.pc)
        };
        loop {
            self.steady = self.returned.pass(self.steady, now);
            let frame = self.frames.get(..end).and_then(|all| all.get(self.steady));
            let is_steady = frame.is_some_and(|frame| {
                frame.since < now
                    && is_sure(self, frame)
                    && (!uncalm.contains(&frame.slot) || self.is_calm(frame.slot, now))
            });
            if !is_steady {
                return self.steady.min(end);
            }
            self.steady += 1;
        }
    }

    /// Whether the first `count` frames need no more proof in the drain after `now`,
    /// as far as that is known.
    pub(crate) fn is_settled_until(&mut self, count: usize, now: u64) -> bool {
        let steady = self.steady(count, now);
        self.returned.pass(steady, u64::MAX) >= count
    }

    /// The slots up to this one may have changed.
    fn unsettle(&mut self, slot: u64) {
        let steady = self.frames.get(..self.steady).unwrap_or_default();
        self.steady = steady.partition_point(|frame| frame.slot > slot);
        let calm = self.frames.above(slot, self.returned.settled());
        self.returned.shorten(calm);
    }

    /// In drain `now` the frames are compared with the stack.
    pub(crate) fn look(&mut self, now: u64) {
        self.looks += u32::from(self.looked != now);
        self.looked = now;
    }

    /// How often that was done so far.
    pub(crate) fn looks(&self) -> u32 {
        self.looks
    }

    /// The last drain in which the known frames were compared with the stack.
    pub(crate) fn looked(&self) -> u64 {
        self.looked
    }

    /// Whether just the first `count` frames were found unchanged in drain
    /// `now`: later samples of it were taken before that, too.
    pub(crate) fn is_verified(&self, count: usize, now: u64) -> bool {
        self.verified == (now, count)
    }

    /// The first `count` frames are unchanged in drain `now`.
    pub(crate) fn verified(&mut self, count: usize, now: u64) {
        self.verified = (now, count);
    }

    /// Whether the slot was seen to hold this return address so often that
    /// another would have been seen, too.
    pub(crate) fn is_sure(&self, slot: u64, pc: u64) -> bool {
        if self.history.is_sure(slot, pc) {
            return true;
        }
        let known = self.known(slot, pc);
        known.is_some_and(|known| self.looks - known.looks >= SIGHTINGS)
    }

    /// From now on remembers what slots hold: the thread's stack is deeper
    /// than the copies.
    pub(crate) fn is_deep(&mut self) {
        self.history.begin();
    }

    /// Remembers what the slots of these frames hold in drain `now`.
    pub(crate) fn observe(&mut self, frames: &[Known], now: u64) {
        self.saw(frames);
        self.remember(frames, now);
    }

    /// The same of frames in whose places no others stood.
    pub(super) fn remember(&mut self, frames: &[Known], now: u64) {
        let slots = frames.iter().map(|frame| (frame.slot, frame.pc));
        if let Some(changed) = self.history.observe(slots, now) {
            self.unsettle(changed);
        }
    }

    /// Between which slots among these lie all that are not calm in drain `now`.
    pub(crate) fn uncalm(&self, slots: Range<u64>, now: u64) -> Option<Range<u64>> {
        self.history.uncalm(slots, now)
    }

    /// The same as [`OuterFrames::observe`] of many frames that come innermost first
    /// and stand behind the first `joined` known ones. Where others stood between them,
    /// slots have changed, too, that now hold something else than return addresses.
    pub(crate) fn observe_long(&mut self, frames: &[Known], joined: usize, now: u64) {
        let before = self.frames.returns_behind(joined);
        let is_same = |(it, frame): &(&Return, &Known)| (it.slot, it.pc) == (frame.slot, frame.pc);
        let same = before.iter().zip(frames.iter().rev());
        let same = same.take_while(is_same).count();
        let slots = frames.iter().map(|frame| frame.slot);
        let among = slots.clone().min().unwrap_or(0)..=slots.clone().max().unwrap_or(0);
        let stood = before.get(same..).unwrap_or_default().iter();
        let stood = stood.map(|it| it.slot).filter(|slot| among.contains(slot));
        let stood: Vec<u64> = stood.collect();
        let stand: FxHashSet<u64> = match stood.as_slice() {
            [] => FxHashSet::default(),
            _ => slots.collect(),
        };
        let gone = stood.into_iter().filter(|slot| !stand.contains(slot));
        if let Some(changed) = self.history.gone(gone, now) {
            self.unsettle(changed);
        }
        self.observe(frames, now);
    }

    /// Whether the slot has held the same for so long that it will have held
    /// it in the short time between two looks at it.
    pub(crate) fn is_calm(&self, slot: u64, now: u64) -> bool {
        self.history.is_calm(slot, now)
    }

    /// Slots that are not among these are calm in drain `now`.
    pub(crate) fn uncalm_slots(&self, now: u64) -> Range<u64> {
        let above = self.history.calm_above(now);
        let uncalm = match above {
            0 => None,
            _ => self.uncalm(0..above.saturating_add(1), now),
        };
        uncalm.unwrap_or_default()
    }
}

//! What the slots of a thread's return addresses have held, and when they
//! changed.
//!
//! A slot that is read later than its sample may hold another's return address.
//! How sure it is that it held the same then hangs on how often it was seen so,
//! and on how long ago it was seen to change.

use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::ops::Range;

/// Most slots whose content is remembered for one thread.
const MAX_HISTORY: usize = 1 << 17;
/// Looks at a slot after which what it was never seen to hold counts as
/// unlikely. A program that alternates between two callers shows both within
/// a few; a look that fell just between them would else be believed.
pub(super) const SIGHTINGS: u32 = 6;
/// Drains without a change after which a slot that has changed counts as calm.
pub(super) const CALM: u64 = 128;
/// So many drains with changes are noted before those are dropped that are too
/// long ago to matter; more only if they are all recent.
const MOST_CHANGES: usize = 256;
/// The same of slots; if more changed lately, all below them counts as changed.
const MOST_CHANGED: usize = 1024;

/// What slots have held.
#[derive(Debug, Default)]
pub(super) struct SlotHistory {
    /// What slots held when they were last seen, popped ones too; kept for
    /// threads whose stacks are deeper than the copies.
    slots: Option<FxHashMap<u64, Held>>,
    /// Slots up to these may have changed in these drains: from high slots to
    /// low ones, from early drains to late ones.
    unsteady: Vec<(u64, u64)>,
    /// The same of slots that are known to have changed: up to the highest of each
    /// drain.
    changes: Vec<(u64, u64)>,
    /// These slots, each with the last such drain; those of long ago may be missing.
    changed: BTreeMap<u64, u64>,
}

/// What a slot has held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Held {
    pc: u64,
    /// Drains in which it was seen as it is, and the last of them.
    sightings: u32,
    seen: u64,
}

/// Takes down that slots up to this one may have changed in drain `now`, the
/// latest so far; from high slots to low ones.
fn note_up_to(list: &mut Vec<(u64, u64)>, highest: u64, now: u64) {
    while list.pop_if(|last| last.0 <= highest).is_some() {}
    list.push((highest, now));
    if list.len() > MOST_CHANGES {
        list.retain(|&(_, drain)| now.saturating_sub(drain) <= CALM);
    }
}

impl SlotHistory {
    /// From now on remembers what slots hold.
    pub(super) fn begin(&mut self) {
        self.slots.get_or_insert_default();
    }

    /// Bytes that it takes, about.
    pub(super) fn held_bytes(&self) -> usize {
        let slots = self.slots.as_ref().map_or(0, FxHashMap::capacity);
        slots * (size_of::<(u64, Held)>() + 1)
    }

    /// Forgets what slots held; all of them may have changed in drain `now`.
    pub(super) fn give_up(&mut self, now: u64) {
        *self = Self::default();
        self.observe_any(u64::MAX, now);
    }

    fn held(&self, slot: u64) -> Option<&Held> {
        self.slots.as_ref()?.get(&slot)
    }

    /// Whether the slot was seen to hold this return address so often that
    /// another would have been seen, too.
    pub(super) fn is_sure(&self, slot: u64, pc: u64) -> bool {
        let held = self.held(slot).filter(|held| held.pc == pc);
        held.is_some_and(|held| held.sightings >= SIGHTINGS)
    }

    /// Remembers what these slots hold in drain `now`; the highest that held
    /// something else before.
    pub(super) fn observe(
        &mut self,
        frames: impl Iterator<Item = (u64, u64)>,
        now: u64,
    ) -> Option<u64> {
        let slots = self.slots.as_mut()?;
        if slots.len() >= MAX_HISTORY {
            slots.clear();
        }
        let mut changed = 0;
        for (slot, pc) in frames {
            let held = slots.entry(slot).or_insert(Held {
                pc,
                sightings: 0,
                seen: 0,
            });
            if held.pc != pc {
                *held = Held {
                    pc,
                    sightings: 0,
                    seen: 0,
                };
                changed = slot.max(changed);
                self.changed.insert(slot, now);
            }
            held.sightings += u32::from(held.seen != now);
            held.seen = now;
        }
        self.note_changes(changed, now)
    }

    /// Takes down that these slots hold no return address in drain `now`; the highest
    /// that held one before.
    pub(super) fn gone(&mut self, slots: impl Iterator<Item = u64>, now: u64) -> Option<u64> {
        let held = self.slots.as_mut()?;
        let mut changed = 0;
        for slot in slots {
            // What it held stays known: the next may be another.
            if let Some(held) = held.get_mut(&slot) {
                (held.sightings, held.seen) = (0, 0);
                changed = slot.max(changed);
                self.changed.insert(slot, now);
            }
        }
        self.note_changes(changed, now)
    }

    /// Some changed in drain `now`, the highest of which is given, 0 if none.
    fn note_changes(&mut self, highest: u64, now: u64) -> Option<u64> {
        if highest == 0 {
            return None;
        }
        note_up_to(&mut self.changes, highest, now);
        if self.changed.len() > MOST_CHANGED {
            self.forget_changes(now);
        }
        Some(highest)
    }

    /// Slots up to this one may have changed in drain `now`.
    pub(super) fn observe_any(&mut self, highest: u64, now: u64) {
        note_up_to(&mut self.unsteady, highest, now);
    }

    /// Forgets which slots have changed long ago.
    fn forget_changes(&mut self, now: u64) {
        let is_recent = |drain: u64| now.saturating_sub(drain) <= CALM;
        self.changed.retain(|_, drain| is_recent(*drain));
        if self.changed.len() > MOST_CHANGED / 2
            && let Some((highest, _)) = self.changed.pop_last()
        {
            note_up_to(&mut self.unsteady, highest, now);
            self.changed.clear();
        }
    }

    /// Between which slots among these lie all that are not calm in drain `now`.
    pub(super) fn uncalm(&self, slots: Range<u64>, now: u64) -> Option<Range<u64>> {
        let is_recent = |drain: u64| now.saturating_sub(drain) <= CALM;
        let old = self
            .unsteady
            .partition_point(|&(_, drain)| !is_recent(drain));
        let unsteady = self.unsteady.get(old).map(|&(up_to, _)| up_to);
        let unsteady = unsteady.filter(|&up_to| up_to >= slots.start);
        let mut changed = self.changed.range(slots.clone());
        let lowest = changed.find(|(_, drain)| is_recent(**drain));
        let highest = changed.rfind(|(_, drain)| is_recent(**drain)).or(lowest);
        let highest = highest.map(|(slot, _)| *slot);
        match (unsteady, lowest) {
            (Some(up_to), _) => {
                let last = up_to.min(slots.end).max(highest.unwrap_or(0));
                Some(slots.start..last.saturating_add(1))
            }
            (None, Some((lowest, _))) => Some(*lowest..highest?.saturating_add(1)),
            (None, None) => None,
        }
    }

    /// Whether the slot has held the same for so long that it will have held
    /// it in the short time between two looks at it.
    pub(super) fn is_calm(&self, slot: u64, now: u64) -> bool {
        // Of thousands of slots few have changed: what each has held is not at hand.
        let changed = self.changed.get(&slot).copied();
        let reach = self.unsteady.partition_point(|&(up_to, _)| up_to >= slot);
        let unsteady = reach.checked_sub(1).and_then(|at| self.unsteady.get(at));
        let changed = changed.max(unsteady.map(|&(_, drain)| drain));
        changed.is_none_or(|changed| now.saturating_sub(changed) > CALM)
    }

    /// Slots above this one are calm in drain `now`; it need not be the lowest
    /// of which that holds.
    pub(super) fn calm_above(&self, now: u64) -> u64 {
        let highest = |list: &[(u64, u64)]| {
            let old = list.partition_point(|&(_, drain)| now.saturating_sub(drain) > CALM);
            list.get(old).map_or(0, |&(up_to, _)| up_to)
        };
        highest(&self.unsteady).max(highest(&self.changes))
    }

    /// How many places are noted up to which slots may have changed.
    #[cfg(test)]
    pub(super) fn noted(&self) -> usize {
        self.unsteady.len()
    }

    /// The most of them that are noted however old.
    #[cfg(test)]
    pub(super) const MOST_NOTED: usize = MOST_CHANGES;
}

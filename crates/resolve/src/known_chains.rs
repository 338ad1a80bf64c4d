//! The stacks of chains that were seen lately.

use prof_profile::StackId;

/// The stacks of chains seen lately. A chain that is not here is interned anew
/// and gets the stack it had before.
///
/// A chain has one set in which it may be, of two places that are a line of the
/// cache: a look-up waits for memory once. In a set what was used last stands
/// first, and what is new takes the place of the other: what is met once does
/// not drive out what comes often.
pub(crate) struct Known {
    /// A power of two.
    sets: Vec<Set>,
    /// Chains put in since the sets became so many.
    put: usize,
}

#[derive(Clone, Copy)]
#[repr(align(64))]
struct Set([Slot<(u64, u64), Interned>; 2]);

/// A place in a table, and what is there.
#[derive(Clone, Copy)]
pub(crate) struct Slot<K, V> {
    pub(crate) key: K,
    pub(crate) value: V,
}

impl Set {
    const EMPTY: Self = Self(
        [Slot {
            // Keys are random: none is 0.
            key: (0, 0),
            value: Interned {
                stack: StackId::EMPTY,
                merged: 0,
                left_out: 0,
                depth: 0,
            },
        }; 2],
    );
}

impl Known {
    const FEWEST: usize = 1 << 6;
    /// 4 MB: chains that come again do so soon. Four times as many spared a
    /// fiftieth of the chains that are interned anew, and cost more than that.
    const MOST: usize = 1 << 16;

    /// With room for so many chains.
    pub(crate) fn with_room(chains: usize) -> Self {
        let sets = (chains / 2).clamp(Self::FEWEST, Self::MOST);
        Self {
            sets: vec![Set::EMPTY; sets.next_power_of_two()],
            put: 0,
        }
    }

    /// In which set a chain may be.
    #[inline]
    fn place(&self, key: (u64, u64)) -> usize {
        key.1 as usize & (self.sets.len() - 1)
    }

    /// Begins to read a set.
    #[inline]
    pub(crate) fn touch(&self, key: (u64, u64)) {
        let set = self.sets.get(self.place(key));
        std::hint::black_box(set.map(|Set([first, _])| first.key.0));
    }

    #[inline]
    pub(crate) fn get(&mut self, key: (u64, u64)) -> Option<Interned> {
        let place = self.place(key);
        let Set([first, second]) = self.sets.get_mut(place)?;
        if first.key == key {
            return Some(first.value);
        }
        if second.key != key {
            return None;
        }
        std::mem::swap(first, second);
        Some(first.value)
    }

    /// Puts in what [`Known::get`] does not find.
    pub(crate) fn put(&mut self, key: (u64, u64), value: Interned) {
        if self.put >= 2 * self.sets.len() && self.sets.len() < Self::MOST {
            self.grow();
        }
        self.put += 1;
        let place = self.place(key);
        if let Some(Set([first, second])) = self.sets.get_mut(place) {
            let old = if first.key == (0, 0) { first } else { second };
            *old = Slot { key, value };
        }
    }

    /// Makes the sets twice as many.
    fn grow(&mut self) {
        let twice = vec![Set::EMPTY; 2 * self.sets.len()];
        let old = std::mem::replace(&mut self.sets, twice);
        self.put = 0;
        for Slot { key, value } in old.into_iter().flat_map(|Set(slots)| slots) {
            if key != (0, 0) {
                self.put(key, value);
            }
        }
    }
}

/// The stack of a chain.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Interned {
    pub(crate) stack: StackId,
    /// Callers in no mapping whose address is not kept.
    pub(crate) merged: u32,
    /// Those of them that are left out of the stack, because the one
    /// above or below them in it stands for them, too.
    pub(crate) left_out: u32,
    /// Frames, those left out included.
    pub(crate) depth: u32,
}

#[cfg(test)]
mod tests {
    use super::{Interned, Known};
    use crate::chain_key::ChainKeys;
    use prof_profile::StackId;

    #[test]
    fn known_chains_are_bounded_and_those_in_use_stay() {
        let mut known = Known::with_room(0);
        let one = |stack| Interned {
            stack: StackId(stack),
            merged: 0,
            left_out: 0,
            depth: 1,
        };
        let keys = ChainKeys::new();
        let key = |number: u32| keys.key([u64::from(number)].into_iter());
        for number in 0..3 * Known::MOST as u32 {
            known.put(key(number), one(number));
            let in_use = known.get(key(0)).map(|known| known.stack);
            assert_eq!(in_use, Some(StackId(0)));
        }
        assert_eq!(known.sets.len(), Known::MOST);
        let kept = (1..3 * Known::MOST as u32).filter(|&it| known.get(key(it)).is_some());
        assert!((Known::MOST..2 * Known::MOST).contains(&kept.count()));
    }

    #[test]
    fn chains_stay_known_when_their_table_grows() {
        let (mut known, keys) = (Known::with_room(0), ChainKeys::new());
        let few = (Known::FEWEST * 64) as u32;
        for number in 0..few {
            let one = Interned {
                stack: StackId(number),
                merged: 0,
                left_out: 0,
                depth: 1,
            };
            known.put(keys.key([u64::from(number)].into_iter()), one);
        }
        assert!(known.sets.len() >= Known::FEWEST * 32);
        let found = |number: u32| {
            let found = known.get(keys.key([u64::from(number)].into_iter()))?;
            assert_eq!(found.stack, StackId(number));
            Some(found)
        };
        let kept = (0..few).filter_map(found).count();
        assert!(kept > few as usize / 2, "{kept} of {few}");
    }
}

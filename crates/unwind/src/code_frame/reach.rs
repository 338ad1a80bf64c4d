//! Where the ways through functions lead.
//!
//! A stack is full of calls, and each function that one of them goes to is asked
//! whether it leads to the place at hand. Most do not, and are asked again for the
//! next place.

use super::Wanted;
use rustc_hash::FxHashMap;

/// Places kept of all functions together; 8 bytes each.
const MAX_KEPT: usize = 1 << 18;
/// What a function takes beside its places: as many as would be kept in its room.
const OF_FUNCTION: usize = (size_of::<(u64, Reached)>() + 1).div_ceil(8);

/// What was met on all ways through a function.
#[derive(Debug, Default)]
pub(crate) struct Reached {
    /// Addresses of instructions.
    pub(super) places: Vec<u64>,
    /// Addresses behind calls.
    pub(super) returns: Vec<u64>,
    /// A way leaves by a jump through a pointer, with the return address on top of the
    /// stack.
    pub(super) leaves: bool,
}

impl Reached {
    /// What it takes of [`MAX_KEPT`].
    fn count(&self) -> usize {
        OF_FUNCTION + self.places.len() + self.returns.len()
    }

    /// Both lists in order, each address once.
    fn sorted(mut self) -> Self {
        for list in [&mut self.places, &mut self.returns] {
            list.sort_unstable();
            list.dedup();
            list.shrink_to_fit();
        }
        self
    }

    /// Whether a way leads there; of sorted lists.
    fn leads_to(&self, wanted: Wanted) -> bool {
        let (list, at) = match wanted {
            Wanted::Exact(at) => (&self.places, at),
            Wanted::Return(at) => (&self.returns, at),
        };
        list.binary_search(&at).is_ok()
    }
}

/// What functions reach that were followed to their ends, by where they begin.
#[derive(Debug, Default)]
pub(crate) struct Reaches {
    by_entry: FxHashMap<u64, Reached>,
    kept: usize,
}

impl Reaches {
    /// Memory it takes, in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        let free = self.by_entry.capacity() - self.by_entry.len();
        (self.kept + free * OF_FUNCTION) * size_of::<u64>()
    }

    /// Whether it is known that no way through the function at `entry` leads to the
    /// place that is wanted.
    pub(crate) fn rules_out(&self, entry: u64, wanted: Wanted) -> bool {
        let reached = self.by_entry.get(&entry);
        reached.is_some_and(|reached| !reached.leads_to(wanted))
    }

    /// Whether a way leaves the function at `entry` through a pointer, to return from
    /// there to who called it; `None` if it was not followed to its end.
    pub(crate) fn leaves(&self, entry: u64) -> Option<bool> {
        self.by_entry.get(&entry).map(|reached| reached.leaves)
    }

    /// Keeps what was met in the function at `entry`, which was followed to its end.
    pub(crate) fn keep(&mut self, entry: u64, reached: Reached) {
        let reached = reached.sorted();
        if self.kept + reached.count() > MAX_KEPT {
            *self = Self::default();
        }
        self.kept += reached.count();
        if let Some(before) = self.by_entry.insert(entry, reached) {
            self.kept -= before.count();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MAX_KEPT, OF_FUNCTION, Reached, Reaches, Wanted};

    fn reached(places: &[u64], returns: &[u64]) -> Reached {
        Reached {
            places: places.to_vec(),
            returns: returns.to_vec(),
            leaves: false,
        }
    }

    #[test]
    fn only_what_was_followed_to_its_end_rules_out() {
        let mut reaches = Reaches::default();
        assert!(!reaches.rules_out(1, Wanted::Exact(9)));
        reaches.keep(1, reached(&[7, 1, 3, 3], &[7]));
        assert!(reaches.rules_out(1, Wanted::Exact(9)));
        assert!(!reaches.rules_out(1, Wanted::Exact(3)));
        // A place is not behind a call for that it is reached.
        assert!(reaches.rules_out(1, Wanted::Return(3)));
        assert!(!reaches.rules_out(1, Wanted::Return(7)));
        assert!(!reaches.rules_out(2, Wanted::Exact(9)));
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut reaches = Reaches::default();
        let long: Vec<u64> = (0..4096).collect();
        for entry in 0..200 {
            reaches.keep(entry % 150, reached(&long, &[]));
            assert!(reaches.kept <= MAX_KEPT);
            assert!(reaches.held_bytes() >= reaches.kept * 8);
            let held: usize = reaches.by_entry.values().map(Reached::count).sum();
            assert_eq!(held, reaches.kept);
        }
    }

    #[test]
    fn functions_that_reach_next_to_nothing_are_bounded_too() {
        let mut reaches = Reaches::default();
        for entry in 0..MAX_KEPT as u64 {
            reaches.keep(entry, reached(&[entry], &[]));
        }
        assert!(reaches.by_entry.len() <= MAX_KEPT / OF_FUNCTION);
    }
}

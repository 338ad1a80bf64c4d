//! The chains that were built last: the next one of a thread shares most of its
//! outer frames with the one before, and these need no look-ups.
//!
//! An entry of a chain means the same in both if what processes have mapped is
//! the same, and if it is read in the same way: the mode it is in and whether
//! it is a return address depend on the markers and entries before it.

use prof_abi::CpuMode;
use prof_profile::StackId;

/// Chains kept, a power of two.
const SLOTS: usize = 64;
/// Entries kept of each, the outermost ones.
const MOST: usize = 512;

/// The versions of what a chain's addresses refer to; see
/// [`prof_live::Processes::versions`].
pub(crate) type Versions = (u64, u64);

/// What a chain is from an entry outwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Outer {
    pub(crate) stack: StackId,
    /// Callers in no mapping whose address is not kept.
    pub(crate) merged: u32,
    /// Those of them that are not in the stack.
    pub(crate) left_out: u32,
    /// Frames of the stack.
    pub(crate) frames: u32,
}

impl Outer {
    /// Nothing.
    pub(crate) const NONE: Self = Self {
        stack: StackId::EMPTY,
        merged: 0,
        left_out: 0,
        frames: 0,
    };
}

/// An entry and what the chain is from there outwards.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Link {
    /// As recorded.
    pub(crate) entry: u64,
    /// The mode in which it is a return address with a frame of its own; else
    /// `None`: a marker, what comes first behind one, or a caller that is not
    /// told apart, which is one frame with those before it.
    pub(crate) caller_in: Option<CpuMode>,
    pub(crate) outer: Outer,
}

/// One chain, the outermost entry first.
#[derive(Debug, Default)]
pub(crate) struct LastChain {
    versions: Versions,
    links: Vec<Link>,
}

impl LastChain {
    /// How many of its outermost entries `entries` (innermost first) has, where
    /// the same is mapped.
    pub(crate) fn shared(&self, versions: Versions, entries: &[u64]) -> usize {
        if self.versions != versions {
            return 0;
        }
        let pairs = self.links.iter().zip(entries.iter().rev());
        pairs
            .take_while(|(link, entry)| link.entry == **entry)
            .count()
    }

    /// What is known of the entry that so many others are outwards of, if it is
    /// read as a caller in this mode.
    pub(crate) fn outer(&self, index: usize, mode: CpuMode) -> Option<Outer> {
        let link = self.links.get(index)?;
        (link.caller_in == Some(mode)).then_some(link.outer)
    }

    /// Keeps so many of the outermost entries, for a chain that goes on
    /// otherwise.
    pub(crate) fn restart(&mut self, versions: Versions, kept: usize) {
        self.versions = versions;
        self.links.truncate(kept);
    }

    /// Adds the next entry inwards.
    pub(crate) fn push(&mut self, link: Link) {
        if self.links.len() < MOST {
            self.links.push(link);
        }
    }
}

/// The last chains of threads.
#[derive(Debug, Default)]
pub(crate) struct LastChains(Vec<LastChain>);

impl LastChains {
    pub(crate) fn new() -> Self {
        let mut slots = Vec::new();
        slots.resize_with(SLOTS, LastChain::default);
        Self(slots)
    }

    /// The chain that stands where one of this thread does; of another thread
    /// it may be, too.
    pub(crate) fn of(&mut self, tid: i32) -> Option<&mut LastChain> {
        self.0.get_mut(tid as usize % SLOTS)
    }
}

#[cfg(test)]
mod tests {
    use super::{LastChain, Link, MOST, Outer};
    use prof_abi::CpuMode;

    fn link(entry: u64, caller_in: Option<CpuMode>) -> Link {
        Link {
            entry,
            caller_in,
            outer: Outer::NONE,
        }
    }

    #[test]
    fn what_is_shared_is_counted_from_the_outermost_entry_in_one_state_of_mappings() {
        let mut last = LastChain::default();
        last.restart((1, 2), 0);
        for entry in [10, 20, 30] {
            last.push(link(entry, Some(CpuMode::User)));
        }
        assert_eq!(last.shared((1, 2), &[40, 20, 10]), 2);
        assert_eq!(last.shared((1, 2), &[30, 20, 11]), 0);
        assert_eq!(last.shared((1, 3), &[40, 20, 10]), 0);
        assert_eq!(last.outer(1, CpuMode::User), Some(Outer::NONE));
        assert_eq!(last.outer(1, CpuMode::Kernel), None);
        last.restart((1, 2), 1);
        assert_eq!(last.shared((1, 2), &[20, 10]), 1);
        for entry in 0..2 * MOST as u64 {
            last.push(link(entry, None));
        }
        assert_eq!(last.links.len(), MOST);
        assert_eq!(last.outer(1, CpuMode::User), None);
    }
}

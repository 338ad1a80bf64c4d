//! Whether all stacks are so shallow that less of each may be copied.
//!
//! Above some kHz what a sample costs the program is felt, and half of what it costs
//! more than without its stack is for room in the ring that the stack does not fill
//! (4.6 us without, 7.3 with 13 KiB, 6.0 with 4; 2 CPUs, Linux 6.18). So there the event is opened twice,
//! with a small piece and with the usual one, and one of both is on: the small one
//! while stacks fit into it as a whole, which no chain is cut by.

use crate::plan::HIGHEST_RATE;
use crate::planned::{OnCpus, Planned};
use std::cell::Cell;

/// Bytes of stack that are copied while all are shallow.
const SHALLOW_PIECE: u32 = 4096;
/// So many stacks in turn must be shallow at first.
const STREAK: u32 = 2048;
/// And so many times as many each time that they were not after all.
const LONGER: u32 = 4;
/// Up to so many.
const LONGEST_STREAK: u32 = STREAK << 14;
/// So many of these make it worth to copy more again.
const FEW_DEEP: u32 = 4;
/// Behind so many shallow ones, those before do not count.
const FORGOTTEN: u32 = 1024;

/// Says of events how much of shallow stacks is to be copied, where that is less; whether
/// it is.
pub(crate) fn plan(planned: &mut [Planned]) -> bool {
    let [only] = planned else {
        return false;
    };
    let attr = &only.attr;
    let is_fast = attr.is_freq() && attr.sample_period > HIGHEST_RATE;
    // Records of tasks come with descriptors of their own there.
    let is_of_tasks = only.on_cpus == OnCpus::WhenNeeded;
    if is_fast && is_of_tasks && attr.sample_stack_user > SHALLOW_PIECE {
        only.shallow_piece = Some(SHALLOW_PIECE);
    }
    only.shallow_piece.is_some()
}

/// What is told of it.
pub(crate) fn told(is_shallow: bool) -> String {
    match is_shallow {
        true => {
            format!("stacks are shallow: {SHALLOW_PIECE} bytes of each are copied from here on")
        }
        false => "stacks are deeper: as much is copied as before".to_owned(),
    }
}

/// Looks at stacks on their way out of the rings.
#[derive(Debug, Clone)]
pub(crate) struct Depths {
    /// Bytes of stack of a sample that is shallow.
    piece: usize,
    /// Shallow ones in turn, and deep ones between.
    shallow: Cell<u32>,
    deep: Cell<u32>,
    /// How many must be shallow.
    streak: u32,
    is_shallow: bool,
    /// It changed when it was last asked.
    is_new: bool,
}

impl Depths {
    pub(crate) fn new(piece: u32) -> Self {
        Self {
            piece: piece as usize,
            shallow: Cell::new(0),
            deep: Cell::new(0),
            streak: STREAK,
            is_shallow: false,
            is_new: false,
        }
    }

    /// A chain may need so many bytes of a sample's stack.
    pub(crate) fn note(&self, bytes: usize) {
        if bytes > self.piece {
            self.deep.set(self.deep.get().saturating_add(1));
            self.shallow.set(0);
            return;
        }
        let shallow = self.shallow.get().saturating_add(1);
        self.shallow.set(shallow);
        if shallow == FORGOTTEN {
            self.deep.set(0);
        }
    }

    /// Whether less is to be copied, or as much as before; `None`: it stays. It is said
    /// twice, the second time for threads that began during the first: these may have
    /// inherited what was on before.
    pub(crate) fn change(&mut self) -> Option<bool> {
        match self.is_shallow {
            false if self.shallow.get() >= self.streak => self.is_shallow = true,
            true if self.deep.get() > FEW_DEEP => {
                self.is_shallow = false;
                self.streak = self.streak.saturating_mul(LONGER).min(LONGEST_STREAK);
            }
            _ => return std::mem::take(&mut self.is_new).then_some(self.is_shallow),
        }
        self.is_new = true;
        (self.shallow, self.deep) = (Cell::new(0), Cell::new(0));
        Some(self.is_shallow)
    }
}

#[cfg(test)]
mod tests {
    use super::{Depths, FEW_DEEP, FORGOTTEN, LONGER, STREAK};

    fn note(depths: &Depths, bytes: usize, times: u32) {
        (0..times).for_each(|_| depths.note(bytes));
    }

    #[test]
    fn less_is_copied_when_all_stacks_are_shallow_and_more_when_some_are_not() {
        let mut depths = Depths::new(4096);
        note(&depths, 4096, STREAK - 1);
        assert_eq!(depths.change(), None);
        note(&depths, 4104, 1);
        note(&depths, 100, STREAK - 1);
        assert_eq!(depths.change(), None, "in turn");
        note(&depths, 100, 1);
        assert_eq!(depths.change(), Some(true));
        assert_eq!(depths.change(), Some(true), "again");
        assert_eq!(depths.change(), None);
        // A few deep ones far from each other.
        for _ in 0..4 * FEW_DEEP {
            note(&depths, 5000, 1);
            note(&depths, 100, FORGOTTEN);
            assert_eq!(depths.change(), None);
        }
        note(&depths, 5000, FEW_DEEP);
        assert_eq!(depths.change(), None);
        note(&depths, 5000, 1);
        assert_eq!(depths.change(), Some(false));
        assert_eq!(depths.change(), Some(false), "again");
        // Then it takes longer.
        note(&depths, 100, STREAK * LONGER - 1);
        assert_eq!(depths.change(), None);
        note(&depths, 100, 1);
        assert_eq!(depths.change(), Some(true));
    }
}

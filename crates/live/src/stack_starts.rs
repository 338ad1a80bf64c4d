//! Where the stacks of threads start, for whoever copies samples.
//!
//! The kernel copies what lies above a stack's start, too: of a main thread
//! arguments, environment and up to 8 KiB of nothing, of others thread-local
//! storage. No chain needs it, and copying it on costs more than unwinding.

use std::sync::atomic::{AtomicU64, Ordering};

/// Threads that fit. Which of two that share a place is known is of no matter.
const PLACES: usize = 1 << 12;
/// Bits of a thread's number (`PID_MAX_LIMIT`) and of a start in units of
/// [`UNIT`].
const TID_BITS: u32 = 22;
const START_BITS: u32 = 64 - TID_BITS;
/// Starts are rounded up to so many bytes.
const UNIT: u64 = 32;
/// What is copied above a start, bytes: the word that ends a chain stands there.
const MARGIN: u64 = 256;
/// Chains in turn that end at the same place, before that counts: threads that
/// run tasks on stacks of their own have many.
pub(crate) const ALIKE: u32 = 64;

/// The starts of stacks, by thread; told by the unwinder, and read by another
/// thread while that goes on.
#[derive(Debug)]
pub struct StackStarts {
    /// Thread and start in one word; 0 if there is none.
    places: Box<[AtomicU64]>,
}

impl Default for StackStarts {
    fn default() -> Self {
        Self {
            places: (0..PLACES).map(|_| AtomicU64::new(0)).collect(),
        }
    }
}

impl StackStarts {
    fn place(&self, tid: i32) -> Option<(&AtomicU64, u64)> {
        let tid = u64::try_from(tid).ok()?;
        let is_small = tid >> TID_BITS == 0;
        let place = self.places.get(tid as usize % PLACES)?;
        is_small.then_some((place, tid << START_BITS))
    }

    /// Bytes that a chain may need of the stack of thread `tid`, from its stack
    /// pointer `sp` on, a multiple of 8; `None` if that is not known.
    pub fn needed(&self, tid: i32, sp: u64) -> Option<u64> {
        let below = self.below(tid, sp)?;
        below.checked_add(MARGIN)?.checked_next_multiple_of(8)
    }

    /// Bytes from `sp` to where the stack of thread `tid` starts, rounded up; `None` if
    /// that is not known.
    pub fn below(&self, tid: i32, sp: u64) -> Option<u64> {
        let (place, thread) = self.place(tid)?;
        // ORDERING: Relaxed; the word is all that is told.
        let word = place.load(Ordering::Relaxed);
        let start = (word ^ thread).checked_mul(UNIT)?;
        let is_known = word != 0 && word >> START_BITS == thread >> START_BITS;
        start.checked_sub(sp).filter(|_| is_known)
    }

    /// A thread began, ended, or runs another program: nothing is known of it.
    pub fn forget(&self, tid: i32) {
        if let Some((place, thread)) = self.place(tid) {
            // ORDERING: Relaxed, as in `needed`.
            let word = place.load(Ordering::Relaxed);
            if word >> START_BITS == thread >> START_BITS {
                place.store(0, Ordering::Relaxed);
            }
        }
    }

    /// The stack of thread `tid` starts at this address.
    pub fn tell(&self, tid: i32, start: u64) {
        let units = start.div_ceil(UNIT);
        if let Some((place, thread)) = self.place(tid).filter(|_| units >> START_BITS == 0) {
            // ORDERING: Relaxed, as in `needed`.
            place.store(thread | units, Ordering::Relaxed);
        }
    }
}

/// Where the chains of a thread ended lately.
#[derive(Debug, Default)]
pub(crate) struct SeenStart {
    at: u64,
    /// How many in turn did.
    times: u32,
}

/// What is to be told of a thread's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Told {
    Nothing,
    Is(u64),
    /// It is not where it was said to be.
    IsNot,
}

impl SeenStart {
    /// A chain was whole, and its outermost word stands at this address.
    pub(crate) fn ended_at(&mut self, at: u64) -> Told {
        if self.at != at {
            let was_told = self.times >= ALIKE;
            *self = Self { at, times: 1 };
            return match was_told {
                true => Told::IsNot,
                false => Told::Nothing,
            };
        }
        if self.times >= ALIKE {
            return Told::Nothing;
        }
        self.times += 1;
        match self.times == ALIKE {
            true => Told::Is(at),
            false => Told::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{ALIKE, MARGIN, PLACES, SeenStart, StackStarts, Told};

    #[test]
    fn what_lies_above_the_start_is_not_needed() {
        let starts = StackStarts::default();
        assert_eq!(starts.needed(7, 0x1000), None);
        starts.tell(7, 0x7fff_ffff_f008);
        // Rounded up.
        assert_eq!(starts.needed(7, 0x7fff_ffff_e000), Some(0x1020 + MARGIN));
        assert_eq!(starts.needed(7, 0x7fff_ffff_f020), Some(MARGIN));
        assert_eq!(starts.needed(7, 0x7fff_ffff_f021), None, "another stack");
        assert_eq!(starts.needed(8, 0x7fff_ffff_e000), None, "another thread");
        let other = 7 + PLACES as i32;
        assert_eq!(starts.needed(other, 0x7fff_ffff_e000), None, "same place");
        starts.forget(other);
        assert!(starts.needed(7, 0x1000).is_some());
        starts.forget(7);
        assert_eq!(starts.needed(7, 0x1000), None);
    }

    #[test]
    fn numbers_that_do_not_fit_are_not_known() {
        let starts = StackStarts::default();
        for (tid, start) in [(-1, 0x1000), (1 << 22, 0x1000), (7, 1 << 47)] {
            starts.tell(tid, start);
            assert_eq!(starts.needed(tid, 0x100), None);
        }
        starts.tell(0, 0x1000);
        starts.tell((1 << 22) - 1, (1 << 47) - 1024);
        assert_eq!(starts.needed(0, 0x1000), Some(MARGIN));
        assert_eq!(starts.needed((1 << 22) - 1, (1 << 47) - 1024), Some(MARGIN));
    }

    #[test]
    fn a_start_counts_that_all_chains_come_to() {
        let mut seen = SeenStart::default();
        let mut told = |at| seen.ended_at(at);
        for time in 1..3 * ALIKE {
            let expected = match time == ALIKE {
                true => Told::Is(0x1000),
                false => Told::Nothing,
            };
            assert_eq!(told(0x1000), expected);
        }
        assert_eq!(told(0x2000), Told::IsNot);
        assert_eq!(told(0x1000), Told::Nothing);
        for _ in 0..3 * ALIKE {
            assert_eq!(told(0x2000), Told::Nothing);
            assert_eq!(told(0x1000), Told::Nothing, "two stacks in turns");
        }
    }
}

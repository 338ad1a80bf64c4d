//! How much work and memory a file's debug information may cost.
//!
//! DWARF can say much with few bytes: thousands of units that share one
//! table, millions of entries that share one list of ranges. Real files read
//! each byte a few times; files made to hurt run out of budget, and then
//! simply have no further debug information.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

/// Steps that any file may take, whatever its size.
const STEPS_MIN: u64 = 4 << 20;
/// Entries (rows, ranges; 16 to 32 bytes each) that any file may have kept.
const KEPT_MIN: u64 = 4 << 20;

/// What a thread takes from the shared budget at a time.
const PURSE: u64 = 4096;

/// What is left of a file's budget; shared between threads.
#[derive(Debug)]
pub(super) struct Budget {
    steps: AtomicU64,
    kept: AtomicU64,
    /// What there was at first, of both.
    first: (u64, u64),
}

/// One thread's part of a budget; what is left of it goes back at the end.
#[derive(Debug)]
pub(super) struct Purse<'a> {
    budget: &'a Budget,
    steps: Cell<u64>,
    kept: Cell<u64>,
}

/// The budget is used up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exhausted;

impl Budget {
    /// A budget for debug sections of `unpacked` bytes in a file of `packed`.
    pub(super) fn new(unpacked: u64, packed: u64) -> Self {
        let steps = unpacked.saturating_mul(3).saturating_add(STEPS_MIN);
        let kept = (packed / 4).saturating_add(KEPT_MIN);
        Self {
            steps: AtomicU64::new(steps),
            kept: AtomicU64::new(kept),
            first: (steps, kept),
        }
    }

    /// How many entries are kept.
    pub(super) fn kept(&self) -> u64 {
        // ORDERING: Relaxed, because only the count matters.
        self.first.1 - self.kept.load(Ordering::Relaxed).min(self.first.1)
    }

    /// Whether half of one or the other is used up.
    pub(super) fn is_worn(&self) -> bool {
        // ORDERING: Relaxed, because only the counts matter.
        let relaxed = Ordering::Relaxed;
        let (steps, kept) = (self.steps.load(relaxed), self.kept.load(relaxed));
        steps < self.first.0 / 2 || kept < self.first.1 / 2
    }
}

impl<'a> Purse<'a> {
    pub(super) fn new(budget: &'a Budget) -> Self {
        Self {
            budget,
            steps: Cell::new(0),
            kept: Cell::new(0),
        }
    }

    /// Pays for reading entries or bytes.
    #[inline]
    pub(super) fn step(&self, count: u64) -> Result<(), Exhausted> {
        pay(&self.steps, &self.budget.steps, count)
    }

    /// Pays for entries that stay in memory.
    #[inline]
    pub(super) fn keep(&self, count: u64) -> Result<(), Exhausted> {
        pay(&self.kept, &self.budget.kept, count)
    }
}

impl Drop for Purse<'_> {
    fn drop(&mut self) {
        // ORDERING: Relaxed, because only the sum matters.
        let relaxed = Ordering::Relaxed;
        self.budget.steps.fetch_add(self.steps.get(), relaxed);
        self.budget.kept.fetch_add(self.kept.get(), relaxed);
    }
}

#[inline]
fn pay(own: &Cell<u64>, shared: &AtomicU64, count: u64) -> Result<(), Exhausted> {
    let have = own.get();
    if let Some(rest) = have.checked_sub(count) {
        own.set(rest);
        return Ok(());
    }
    let missing = count - have;
    let wanted = missing.saturating_add(PURSE);
    own.set(0);
    match take(shared, wanted) {
        Ok(()) => own.set(wanted - missing),
        // Who cannot pay leaves nothing: what comes next would cost as much.
        Err(Exhausted) => take(shared, missing).inspect_err(|_| {
            // ORDERING: Relaxed, because only the sum matters.
            shared.store(0, Ordering::Relaxed);
        })?,
    }
    Ok(())
}

fn take(left: &AtomicU64, count: u64) -> Result<(), Exhausted> {
    // ORDERING: Relaxed, because only the sum matters.
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
        left.checked_sub(count)
    })
    .map(|_| ())
    .map_err(|_| Exhausted)
}

#[cfg(test)]
mod tests {
    use super::{Budget, Exhausted, KEPT_MIN, Purse, STEPS_MIN};

    #[test]
    fn all_threads_together_take_no_more_than_there_is() {
        let budget = Budget::new(0, 0);
        let (left, right) = (Purse::new(&budget), Purse::new(&budget));
        assert_eq!(left.step(STEPS_MIN - 1), Ok(()));
        assert_eq!(right.step(1), Ok(()));
        assert_eq!(left.step(1), Err(Exhausted));
        assert_eq!(left.keep(KEPT_MIN), Ok(()));
        assert_eq!(right.keep(1), Err(Exhausted));
    }

    #[test]
    fn a_budget_is_worn_when_half_of_it_is_used() {
        let budget = Budget::new(0, 0);
        assert_eq!(Purse::new(&budget).step(STEPS_MIN / 2), Ok(()));
        assert_eq!(Purse::new(&budget).keep(9), Ok(()));
        assert!(!budget.is_worn());
        assert_eq!(budget.kept(), 9);
        assert_eq!(Purse::new(&budget).step(1), Ok(()));
        assert!(budget.is_worn());
    }

    #[test]
    fn who_cannot_pay_ends_it_for_all() {
        let budget = Budget::new(0, 0);
        assert_eq!(Purse::new(&budget).step(STEPS_MIN + 1), Err(Exhausted));
        assert_eq!(Purse::new(&budget).step(1), Err(Exhausted));
    }

    #[test]
    fn what_a_thread_does_not_use_goes_back() {
        let budget = Budget::new(0, 0);
        for _ in 0..10_000 {
            assert_eq!(Purse::new(&budget).step(1), Ok(()));
        }
        assert_eq!(Purse::new(&budget).step(STEPS_MIN - 10_000), Ok(()));
        assert_eq!(Purse::new(&budget).step(1), Err(Exhausted));
    }
}

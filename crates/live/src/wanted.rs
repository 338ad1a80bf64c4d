//! Which memory should be read with the samples of which threads.

use rustc_hash::FxHashMap;
use std::collections::VecDeque;
use std::ops::Range;

/// Drains for which a thread's stack counts as deep after it was.
const WANTED: u64 = 64;
/// A sample whose outer frames could not be proved counts like so many that
/// could, at first; twice as much each time it turns out that it was needed.
const NEED: u32 = 64;
const MOST_NEED: u32 = 1 << 12;
/// The balance at which memory is wanted, and its most.
const NEEDED: u32 = 4 * NEED;
const MOST_NEEDED: u32 = 1 << 15;
/// Places of a thread that are wanted at a time.
const MOST_PLACES: usize = 8;

/// Memory beyond the copied pieces, by thread.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    threads: FxHashMap<i32, Of>,
    /// What is needed of threads besides their stacks.
    also: FxHashMap<i32, Also>,
}

/// Memory besides the stack that tells what a thread runs.
#[derive(Debug, Default)]
struct Also {
    ranges: Vec<Range<u64>>,
    /// Places that were missing lately.
    places: VecDeque<Range<u64>>,
    until: u64,
}

/// That of one thread.
#[derive(Debug)]
struct Of {
    ranges: Vec<Range<u64>>,
    /// The last drain for which that is of interest.
    until: u64,
    need: Need,
}

impl Wanted {
    /// In drain `now` a chain went through these ranges beyond its copied
    /// piece, up to the thread's start or not: then what was known of where
    /// the stack begins stays, if it is as much.
    pub(super) fn note(&mut self, tid: i32, ranges: &[Range<u64>], is_whole: bool, now: u64) {
        let of = self.threads.entry(tid).or_insert(Of {
            ranges: Vec::new(),
            until: 0,
            need: Need::NONE,
        });
        if is_whole || of.ranges.len() < ranges.len() {
            of.ranges.clear();
            of.ranges.extend_from_slice(ranges);
        }
        of.until = now + WANTED;
        of.need.count(is_whole);
    }

    /// Whether it was said in this drain already what else is of use of a
    /// thread.
    pub(super) fn knows_also(&self, (tid, now): (i32, u64)) -> bool {
        let also = self.also.get(&tid);
        also.is_some_and(|also| also.until == now + WANTED)
    }

    /// From a drain on, these ranges of a thread are of use besides its stack.
    pub(super) fn also(&mut self, (tid, now): (i32, u64), ranges: Vec<Range<u64>>) {
        let also = self.also.entry(tid).or_default();
        also.ranges = ranges;
        also.until = now + WANTED;
    }

    /// These places of a thread were missing.
    pub(super) fn missing(&mut self, tid: i32, places: Vec<Range<u64>>) {
        let Some(also) = self.also.get_mut(&tid) else {
            return;
        };
        for place in places {
            if !also.places.contains(&place) {
                also.places.push_back(place);
            }
        }
        let surplus = also.places.len().saturating_sub(MOST_PLACES);
        also.places.drain(..surplus);
    }

    /// What is to be read from drain `now` on.
    pub(super) fn now(&mut self, now: u64) -> impl Iterator<Item = (i32, Vec<Range<u64>>)> {
        self.threads.retain(|_, of| of.until >= now);
        self.also.retain(|_, also| also.until >= now);
        let pressing = self.threads.iter().filter(|(_, of)| of.need.is_pressing);
        let mut wanted: FxHashMap<i32, Vec<Range<u64>>> = pressing
            .map(|(&tid, of)| (tid, of.ranges.clone()))
            .collect();
        for (&tid, also) in &self.also {
            // The first range is that of the stack.
            let ranges = wanted.entry(tid).or_default();
            if ranges.is_empty() {
                ranges.push(0..0);
            }
            ranges.extend(also.ranges.iter().chain(&also.places).cloned());
        }
        wanted.into_iter()
    }

    /// The thread ended, or runs another program.
    pub(super) fn forget(&mut self, tid: i32) {
        self.threads.remove(&tid);
        self.also.remove(&tid);
    }
}

/// Whether a thread's chains are incomplete so often that its memory is to be
/// read with its samples: that delays the thread.
#[derive(Debug, Clone, Copy)]
struct Need {
    balance: u32,
    weight: u32,
    is_pressing: bool,
}

impl Need {
    const NONE: Self = Self {
        balance: 0,
        weight: NEED,
        is_pressing: false,
    };

    /// A sample went beyond the copied piece: to the thread's start or not.
    fn count(&mut self, is_whole: bool) {
        if is_whole {
            self.balance = self.balance.saturating_sub(1);
            self.is_pressing &= self.balance > 0;
            return;
        }
        self.balance = (self.balance + self.weight).min(MOST_NEEDED);
        if self.balance >= NEEDED && !self.is_pressing {
            self.is_pressing = true;
            self.weight = (2 * self.weight).min(MOST_NEED);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MOST_NEED, NEED, Need};

    #[test]
    fn memory_is_wanted_where_chains_stay_incomplete() {
        // One of 100: not worth it.
        let mut need = Need::NONE;
        for sample in 0..10_000 {
            need.count(sample % 100 != 0);
            assert!(!need.is_pressing);
        }
        // Again and again: each time for longer.
        let mut lasted = Vec::new();
        for _ in 0..4 {
            while !need.is_pressing {
                need.count(false);
            }
            let mut whole = 0;
            while need.is_pressing {
                need.count(true);
                whole += 1;
            }
            lasted.push(whole);
        }
        assert!(lasted.is_sorted() && lasted[0] >= NEED, "{lasted:?}");
        assert!(need.weight <= MOST_NEED);
    }
}

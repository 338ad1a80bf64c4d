//! What is known of the outer frames of all threads, within bounds.

use super::outer::OuterFrames;
use super::thread_sample::ThreadSample;
use rustc_hash::FxHashMap;

/// Threads that are remembered.
const MAX_THREADS: usize = 1 << 14;
/// Bytes that are held of all of them together. A thread as deep as its usual
/// stack allows takes up to 60 MB, one of a hundred frames some 20 KB.
const MOST_HELD: usize = 192 << 20;

/// Whose outer frames they are, and of which samples: frames are known again by all
/// registers that calls preserve, and of a thread that was read while it slept only the
/// stack pointer and the program counter are known. One set for both kinds would be
/// replaced with each change from one to the other, and a deep stack walked anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Whose {
    pub(super) tid: i32,
    pub(super) has_fp: bool,
}

impl Whose {
    pub(super) fn of(sample: &ThreadSample<'_>) -> Self {
        Self {
            tid: sample.tid,
            has_fp: sample.state.registers.fp().is_some(),
        }
    }
}

/// The outer frames of threads.
#[derive(Debug)]
pub(super) struct Threads {
    known: FxHashMap<Whose, Of>,
    /// Bytes that are held of them, and the most.
    held: usize,
    most: usize,
}

/// Those of one thread, and what they took when it was counted last, bytes.
#[derive(Debug, Default)]
struct Of {
    outer: OuterFrames,
    held: usize,
}

impl Default for Threads {
    fn default() -> Self {
        Self {
            known: FxHashMap::default(),
            held: 0,
            most: MOST_HELD,
        }
    }
}

impl Threads {
    /// Threads that are remembered.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.known.len()
    }

    /// What is known of a thread.
    pub(super) fn get(&self, whose: Whose) -> Option<&OuterFrames> {
        self.known.get(&whose).map(|of| &of.outer)
    }

    /// Whether anything is known of a thread.
    pub(super) fn know(&self, tid: i32) -> bool {
        let kinds = [true, false].map(|has_fp| Whose { tid, has_fp });
        kinds.iter().any(|whose| self.known.contains_key(whose))
    }

    /// The same, to be changed; nothing at first.
    pub(super) fn of(&mut self, whose: Whose) -> &mut OuterFrames {
        if self.known.len() >= MAX_THREADS && !self.known.contains_key(&whose) {
            self.known.clear();
            self.held = 0;
        }
        &mut self.known.entry(whose).or_default().outer
    }

    /// A thread ended, or runs another program.
    pub(super) fn forget(&mut self, tid: i32) {
        for has_fp in [true, false] {
            let of = self.known.remove(&Whose { tid, has_fp });
            self.held = self.held.saturating_sub(of.map_or(0, |of| of.held));
        }
    }

    /// More may be held of a thread in drain `now`. If that is too much together,
    /// others give up what they have.
    pub(super) fn count(&mut self, whose: Whose, now: u64) {
        if let Some(of) = self.known.get_mut(&whose) {
            of.count(&mut self.held);
        }
        if self.held > self.most {
            self.free(whose, now);
        }
    }

    /// Frees half of it: first frames that threads have left, then all that is
    /// known of those that were not looked at for long.
    fn free(&mut self, whose: Whose, now: u64) {
        let mut others: Vec<_> = self.known.iter_mut().collect();
        others.retain(|(other, _)| **other != whose);
        others.sort_unstable_by_key(|(other, of)| (of.outer.looked(), **other));
        for (_, of) in &mut others {
            of.outer.give_up_popped();
            of.count(&mut self.held);
        }
        for (_, of) in others {
            if self.held <= self.most / 2 {
                break;
            }
            of.outer.give_up(now);
            of.count(&mut self.held);
        }
    }
}

impl Of {
    /// Counts anew what is held, as part of `all`.
    fn count(&mut self, all: &mut usize) {
        let held = self.outer.held_bytes();
        *all = all.saturating_sub(self.held) + held;
        self.held = held;
    }
}

#[cfg(test)]
mod tests {
    use super::{Threads, Whose};
    use crate::outer::tests::frame;

    const FRAMES: u64 = 1000;

    fn whose(tid: i32) -> Whose {
        Whose { tid, has_fp: true }
    }

    /// Threads that were looked at one after the other, each with so many frames,
    /// of which it has left 400.
    fn threads(count: i32, most: usize) -> Threads {
        let mut threads = Threads {
            most,
            ..Threads::default()
        };
        for tid in 1..=count {
            let frames: Vec<_> = (1..=FRAMES).map(|at| frame(16 * at, 7)).collect();
            let outer = threads.of(whose(tid));
            outer.look(tid as u64);
            outer.replace_inner(0, &frames);
            outer.is_deep();
            outer.replace_inner(600, &[]);
            threads.count(whose(tid), tid as u64);
        }
        threads
    }

    /// Frames that are known of a thread, and popped ones.
    fn known(threads: &Threads, tid: i32) -> (usize, usize) {
        let outer = threads.get(whose(tid)).expect("known");
        let popped = outer.popped();
        (outer.until(usize::MAX).len(), popped)
    }

    #[test]
    fn what_is_held_of_all_threads_is_bounded() {
        let one = threads(1, usize::MAX).held;
        assert!(one > 80_000, "{one} bytes");
        let all = threads(10, usize::MAX);
        assert_eq!(all.held, 10 * one);
        assert_eq!(known(&all, 1), (600, 400));
        // As many as fit.
        let threads = threads(100, 10 * one);
        assert!(threads.held <= 10 * one, "{} bytes", threads.held);
        let counted: usize = threads.known.values().map(|of| of.outer.held_bytes()).sum();
        assert_eq!(counted, threads.held);
        // The newest has all, the oldest nothing.
        assert_eq!(known(&threads, 100), (600, 400));
        assert_eq!(known(&threads, 1), (0, 0));
    }

    #[test]
    fn frames_that_were_left_go_first() {
        let one = threads(1, usize::MAX).held;
        // Without those of the other three it is less than half.
        let threads = threads(4, 4 * one - 1);
        let left: Vec<_> = (1..=4).map(|tid| known(&threads, tid)).collect();
        assert!(left[..3].iter().all(|it| it.1 == 0), "{left:?}");
        assert_eq!(left[3], (600, 400));
        assert!(left[2].0 == 600, "{left:?}");
    }

    #[test]
    fn what_is_given_up_is_not_taken_for_calm() {
        let mut threads = threads(1, usize::MAX);
        let slot = 16 * FRAMES;
        assert!(threads.of(whose(1)).is_calm(slot, 5));
        threads.of(whose(1)).give_up(5);
        threads.count(whose(1), 5);
        assert!(!threads.of(whose(1)).is_calm(slot, 5));
        assert!(threads.held < 1000, "{} bytes", threads.held);
        let asleep = Whose {
            has_fp: false,
            ..whose(1)
        };
        threads.of(asleep).replace_inner(0, &[frame(16, 7)]);
        threads.count(asleep, 5);
        threads.forget(1);
        assert_eq!((threads.held, threads.len()), (0, 0));
    }
}

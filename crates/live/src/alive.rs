//! Which tasks live, so that nothing is kept of those that ended.
//!
//! What is known of a task outlives its EXIT record by some drains: samples
//! may be held back that long. A task runs on for a little behind its EXIT, and
//! where it has to wait for its CPU its last samples come when nothing is kept of
//! it any more: what they make known again goes once more.

use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::VecDeque;

/// Drains for which an ended task is kept; samples wait for one.
const KEPT: u64 = 4;
/// Of so many threads that are not kept any more it is remembered that they
/// ended, and of as many before.
const MOST_GONE: usize = 2048;

/// Threads of processes, as records tell of them.
#[derive(Debug, Default)]
pub(super) struct Alive {
    threads: FxHashMap<i32, FxHashSet<i32>>,
    /// Those that ended, the first one first.
    ended: VecDeque<Ended>,
    /// Those of which nothing is kept: the last ones, and those before.
    gone: [FxHashSet<i32>; 2],
}

#[derive(Debug, Clone, Copy)]
struct Ended {
    drain: u64,
    pid: i32,
    tid: i32,
}

/// A thread of which nothing need be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Gone {
    pub(super) tid: i32,
    /// Its process, if it was the last thread.
    pub(super) process: Option<i32>,
}

impl Alive {
    /// A record tells of a thread.
    pub(super) fn is(&mut self, pid: i32, tid: i32) {
        if self.threads.entry(pid).or_default().insert(tid) {
            // The number of one that ended just now, if it was one.
            self.ended.retain(|ended| ended.tid != tid);
            self.is_again(tid);
        }
    }

    /// A sample of a thread came in drain `drain`: it may be one of which nothing
    /// was kept any more.
    pub(super) fn sampled(&mut self, pid: i32, tid: i32, drain: u64) {
        if self.is_again(tid) {
            self.ended.push_back(Ended { drain, pid, tid });
        }
    }

    /// Something is known of a thread again; true if nothing was kept of it.
    fn is_again(&mut self, tid: i32) -> bool {
        self.gone.iter_mut().any(|gone| gone.remove(&tid))
    }

    /// A process runs a new program: of its threads one is left, whatever its
    /// number was before.
    pub(super) fn exec(&mut self, pid: i32, drain: u64) {
        let before = self.threads.remove(&pid).unwrap_or_default();
        self.is(pid, pid);
        for tid in before.into_iter().filter(|&tid| tid != pid) {
            self.ended.push_back(Ended { drain, pid, tid });
        }
    }

    /// A thread ended in drain `drain`.
    pub(super) fn ended(&mut self, pid: i32, tid: i32, drain: u64) {
        if let Some(threads) = self.threads.get_mut(&pid) {
            threads.remove(&tid);
        }
        self.ended.push_back(Ended { drain, pid, tid });
    }

    /// The next thread that need not be kept in drain `now`.
    pub(super) fn next_gone(&mut self, now: u64) -> Option<Gone> {
        let ended = self.ended.front()?;
        if ended.drain.saturating_add(KEPT) > now {
            return None;
        }
        let Ended { pid, tid, .. } = self.ended.pop_front()?;
        let is_last = self.threads.get(&pid).is_none_or(FxHashSet::is_empty);
        if is_last {
            self.threads.remove(&pid);
        }
        let process = is_last.then_some(pid);
        let [lately, before] = &mut self.gone;
        if lately.len() >= MOST_GONE {
            std::mem::swap(lately, before);
            lately.clear();
        }
        lately.insert(tid);
        Some(Gone { tid, process })
    }

    /// Processes and threads that are kept.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        let alive = self.threads.values().map(FxHashSet::len);
        self.threads.len() + alive.sum::<usize>() + self.ended.len()
    }
}

/// The effective user of a process that lives.
pub fn user_of(pid: i32) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{Alive, Gone, KEPT, MOST_GONE};

    fn gone(alive: &mut Alive, now: u64) -> Vec<Gone> {
        std::iter::from_fn(|| alive.next_gone(now)).collect()
    }

    #[test]
    fn a_process_goes_with_its_last_thread_and_not_at_once() {
        let mut alive = Alive::default();
        alive.is(10, 10);
        alive.is(10, 11);
        alive.ended(10, 10, 1);
        let thread = |tid, process| Gone { tid, process };
        assert_eq!(gone(&mut alive, KEPT), []);
        assert_eq!(gone(&mut alive, 1 + KEPT), [thread(10, None)]);
        alive.ended(10, 11, 7);
        assert_eq!(gone(&mut alive, 7 + KEPT), [thread(11, Some(10))]);
        assert_eq!(alive.len(), 0);
    }

    #[test]
    fn an_exec_ends_the_other_threads_and_keeps_the_process() {
        let mut alive = Alive::default();
        for tid in [10, 11, 12] {
            alive.is(10, tid);
        }
        // The leader ends, and the thread that called exec takes its number.
        alive.ended(10, 10, 1);
        alive.ended(10, 12, 1);
        alive.exec(10, 1);
        let left: Vec<i32> = gone(&mut alive, 9).iter().map(|gone| gone.tid).collect();
        assert_eq!(left, [12, 11]);
        alive.ended(10, 10, 20);
        let last = gone(&mut alive, 30);
        assert_eq!(
            last,
            [Gone {
                tid: 10,
                process: Some(10)
            }]
        );
        assert_eq!(alive.len(), 0);
    }

    #[test]
    fn a_late_sample_makes_a_thread_go_once_more() {
        let mut alive = Alive::default();
        alive.is(10, 10);
        alive.ended(10, 10, 1);
        // While it is kept, and of a thread that lives, nothing changes.
        alive.sampled(10, 10, 2);
        alive.sampled(77, 77, 2);
        let thread = Gone {
            tid: 10,
            process: Some(10),
        };
        assert_eq!(gone(&mut alive, 1 + KEPT), [thread]);
        for drain in [50, 90] {
            alive.sampled(10, 10, drain);
            alive.sampled(10, 10, drain);
            assert_eq!(gone(&mut alive, drain + KEPT - 1), []);
            assert_eq!(gone(&mut alive, drain + KEPT), [thread]);
        }
        // Another one has the number now.
        alive.is(10, 10);
        alive.sampled(10, 10, 100);
        assert_eq!(gone(&mut alive, 1000), []);
    }

    #[test]
    fn what_is_remembered_of_the_ended_is_bounded() {
        let mut alive = Alive::default();
        for tid in 1..=10 * MOST_GONE as i32 {
            alive.is(tid, tid);
            alive.ended(tid, tid, 1);
        }
        assert_eq!(gone(&mut alive, 100).len(), 10 * MOST_GONE);
        let remembered: usize = alive.gone.iter().map(|gone| gone.len()).sum();
        assert!(remembered <= 2 * MOST_GONE && remembered > MOST_GONE);
        // The last ones.
        let last = 10 * MOST_GONE as i32;
        alive.sampled(last, last, 200);
        alive.sampled(1, 1, 200);
        assert_eq!(gone(&mut alive, 300).len(), 1);
    }

    #[test]
    fn a_number_that_is_used_again_is_kept() {
        let mut alive = Alive::default();
        alive.is(10, 10);
        alive.ended(10, 10, 1);
        alive.is(10, 10);
        assert_eq!(gone(&mut alive, 100), []);
        assert_eq!(alive.len(), 2);
    }
}

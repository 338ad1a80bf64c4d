//! The life of each thread: when it did not run, and who ended that.

use super::off::{Off, count};
use prof_profile::{Profile, Wait, WaitState};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// The waits of all threads, by thread and in the order of time.
#[derive(Debug, Default)]
pub struct Lives {
    threads: BTreeMap<i32, Vec<Off>>,
}

impl Lives {
    /// Of a profile with waits.
    pub fn of(profile: &Profile) -> Self {
        let mut wakes: FxHashMap<i32, Vec<usize>> = FxHashMap::default();
        for (index, wake) in profile.wakes.iter().enumerate() {
            wakes.entry(wake.woken).or_default().push(index);
        }
        let mut lives = Self::default();
        for (row, sample) in profile.samples.iter().enumerate() {
            let Some(wait) = profile.samples.wait_at(row) else {
                continue;
            };
            let tid = profile.task(sample.task).tid;
            let length = profile.samples.wait_length(row).unwrap_or(0);
            if length == 0 {
                continue;
            }
            let begin = sample.time.saturating_sub(length);
            let candidates = wakes.get(&tid).map_or(&[][..], Vec::as_slice);
            let off = Off {
                begin,
                end: sample.time,
                row,
                state: wait.state,
                wake: waker(profile, candidates, wait, (begin, sample.time)),
                ticks: 0,
                since: begin,
            };
            lives.threads.entry(tid).or_default().push(off);
        }
        for offs in lives.threads.values_mut() {
            offs.sort_by_key(|off| (off.begin, off.end));
            count(profile, offs);
        }
        lives
    }

    /// Each thread with its waits.
    pub fn threads(&self) -> impl Iterator<Item = (i32, &[Off])> {
        let threads = self.threads.iter();
        threads.map(|(&tid, offs)| (tid, offs.as_slice()))
    }

    /// The waits of a thread.
    pub fn thread(&self, tid: i32) -> &[Off] {
        self.threads.get(&tid).map_or(&[], Vec::as_slice)
    }
}

/// The first wake of a blocked thread after it left: later ones found it awake.
fn waker(
    profile: &Profile,
    wakes: &[usize],
    wait: &Wait,
    (begin, end): (u64, u64),
) -> Option<usize> {
    if wait.state != WaitState::Blocked {
        return None;
    }
    let time = |&index: &usize| profile.wakes.get(index).map_or(0, |wake| wake.time);
    let first = wakes.partition_point(|index| time(index) <= begin);
    wakes.get(first).copied().filter(|index| time(index) <= end)
}

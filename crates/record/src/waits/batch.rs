//! For how many others a wait stands that was chosen by chance (`thinning.rs`).
//!
//! One that was chosen as one in 2^k stands for 2^k:
//! sums of that are unbiased, whatever the lengths. So that all periods of a
//! thread and state sum up to the time that it waited, what a batch told too
//! little or too much by chance is made up for by the next: its waits stand
//! for so much more or less, in proportion. That leaves sums unbiased, since the
//! choices of one batch know nothing of those of another. Only where that would
//! tell more time than there was so far, and of the last two batches, waits are
//! made to fit by a factor of their own (a ratio estimator, whose bias is of the
//! order of 1 in the number chosen). Time of which nothing is known, since none
//! of its waits was chosen, is told without a stack.

use super::pairing::{Thread, Waited};
use prof_profile::{Wait, WaitState};
use std::collections::BTreeMap;

/// From the first wait of a batch to that which ends it, ns; and chosen waits
/// in it.
const BATCH: u64 = 500_000_000;
const MOST_HELD: usize = 4096;
/// For so many times more than by its chance a wait stands at most.
const MOST_FACTOR: f64 = 1.5;
/// What is left of a thread is told when it had no wait for so many batches.
const MOST_IDLE: u32 = 16;

/// Waits of which some were chosen by chance, until it is known for how many
/// others each stands.
#[derive(Debug, Default)]
pub(super) struct Batch {
    groups: BTreeMap<(i32, WaitState), Group>,
    /// When the first wait of the batch before ended; of this one the first and
    /// the last, ns.
    before: Option<u64>,
    times: Option<(u64, u64)>,
    held: usize,
}

/// Those of a thread in one state.
#[derive(Debug, Default)]
struct Group {
    thread: Thread,
    /// The batch before, and this one.
    before: Part,
    now: Part,
    /// How much more time was there than was told, of batches before both, ns.
    missing: i64,
    /// Batches without any.
    idle: u32,
}

/// Those of them in a batch.
#[derive(Debug, Default)]
struct Part {
    /// With their halvings.
    chosen: Vec<(Waited, u32)>,
    /// The time of all, chosen or not, ns.
    time: i64,
}

/// What is told of waits.
#[derive(Debug, Default)]
pub(super) struct Told {
    /// Each chosen wait, with how many it stands for, in 64ths.
    pub(super) chosen: Vec<(Waited, u32)>,
    pub(super) rest: Vec<Rest>,
}

/// Time of a thread that nothing stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rest {
    pub(super) thread: Thread,
    pub(super) state: WaitState,
    /// ns.
    pub(super) time: u64,
    /// When the last of it was, ns.
    pub(super) until: u64,
}

/// Whether other batches follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Follows {
    More,
    Nothing,
}

impl Batch {
    /// Adds a wait that was not chosen.
    pub(super) fn pass(&mut self, wait: &Waited) {
        self.group(wait);
    }

    /// Adds a wait that was chosen as one in `2^halvings`.
    pub(super) fn choose(&mut self, wait: Waited, halvings: u32) {
        self.held += 1;
        self.group(&wait).chosen.push((wait, halvings));
    }

    fn group(&mut self, wait: &Waited) -> &mut Part {
        let times = self.times.get_or_insert((wait.end, wait.end));
        *times = (times.0.min(wait.end), times.1.max(wait.end));
        let key = (wait.thread.tid, wait.state);
        let group = self.groups.entry(key).or_default();
        group.thread = wait.thread;
        group.idle = 0;
        group.now.time += length(wait);
        &mut group.now
    }

    /// The earliest end of a wait that is held, ns, or one before it.
    pub(super) fn earliest(&self) -> Option<u64> {
        let now = self.times.map(|times| times.0);
        self.before.into_iter().chain(now).min()
    }

    /// Whether it is time to end the batch.
    pub(super) fn is_due(&self) -> bool {
        let is_long = |(first, last): (u64, u64)| last - first >= BATCH;
        self.held >= MOST_HELD || self.times.is_some_and(is_long)
    }

    /// Ends the batch: tells the one before, and this one, too, if nothing
    /// follows.
    pub(super) fn end(&mut self, follows: Follows) -> Told {
        let mut told = Told::default();
        let times = self.times.take();
        let until = times.map_or(0, |times| times.1);
        self.before = times.map(|times| times.0);
        self.held = 0;
        self.groups.retain(|&(_, state), group| {
            let now = std::mem::take(&mut group.now);
            match follows {
                Follows::More => {
                    let before = std::mem::replace(&mut group.before, now);
                    group.tell(before, group.missing, &mut told.chosen);
                }
                Follows::Nothing => {
                    let mut last = std::mem::take(&mut group.before);
                    last.time += now.time;
                    last.chosen.extend(now.chosen);
                    let missing = group.missing + last.time - last.estimated();
                    group.tell(last, missing, &mut told.chosen);
                }
            }
            group.idle += 1;
            let ends = follows == Follows::Nothing || group.idle > MOST_IDLE;
            if let (true, Ok(time @ 1..)) = (ends, u64::try_from(group.missing)) {
                told.rest.push(Rest {
                    thread: group.thread,
                    state,
                    time,
                    until,
                });
            }
            !ends
        });
        told.chosen.sort_by_key(|(wait, _)| wait.end);
        told
    }
}

impl Group {
    /// Tells of a part, and of so much more time, ns, as far as that is no more
    /// than half of what is told anyway; never of more time than there was so
    /// far, with the part that is told next.
    fn tell(&mut self, part: Part, more: i64, told: &mut Vec<(Waited, u32)>) {
        let sum = part.estimated();
        let known = self.missing + part.time + self.before.time;
        let of_sum = |time: i64| time.max(0) as f64 / sum as f64;
        let factor = match sum {
            1.. => of_sum(sum + more).min(of_sum(known)).min(MOST_FACTOR),
            _ => 0.0,
        };
        self.missing += part.time;
        for (wait, halvings) in part.chosen {
            let times = f64::from(Wait::ITSELF) * f64::from(1_u32 << halvings) * factor;
            // At least 1: 0 would be for itself.
            let times = (times as u32).max(1);
            self.missing -= i64::try_from(period(&wait, times)).unwrap_or(i64::MAX);
            told.push((wait, times));
        }
    }
}

impl Part {
    /// The time of all by that of those chosen, ns.
    fn estimated(&self) -> i64 {
        let chosen = self.chosen.iter();
        let weighted = chosen.map(|(wait, halvings)| length(wait).saturating_mul(1 << halvings));
        weighted.fold(0, i64::saturating_add)
    }
}

/// Of a wait, ns: of some minutes at most, so that sums have room.
fn length(wait: &Waited) -> i64 {
    let length = wait.end.saturating_sub(wait.begin);
    i64::try_from(length).unwrap_or(i64::MAX).min(1 << 40)
}

/// The period of a wait that stands for so many 64ths, ns.
pub(super) fn period(wait: &Waited, times: u32) -> u64 {
    let length = u128::from(wait.end.saturating_sub(wait.begin));
    let period = length * u128::from(times) / u128::from(Wait::ITSELF);
    u64::try_from(period).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;

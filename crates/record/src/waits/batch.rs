//! For how many others a wait stands that was chosen by chance (`thinning.rs`).
//!
//! One that was chosen as one in 2^k stands for 2^k (Horvitz and Thompson 1952): sums
//! of that are unbiased, whatever the lengths and whichever thread has which `k`. So that
//! all periods of a thread and state sum up to the time that it waited, what a batch told
//! too little or too much by chance is made up for by the next: its waits stand
//! for so much more or less, in proportion. That leaves sums unbiased, since the
//! choices of one batch know nothing of those of another. Only where that would
//! tell more time than there was so far, and of a thread's last two batches, waits are
//! made to fit by factors of their own (Beale's ratio estimator, whose bias is of the
//! order of 1 in the square of the number chosen).
//!
//! Threads that lived for less than two batches and of which few waits were to be
//! expected among the chosen ones are taken together (`Pool`): of a program that waits
//! five times none may be chosen, and one of another stands for those, too. Each by
//! itself would have that one stand for its own thread's only, and long waits of few for
//! less than they were. Whether a thread is one of these hangs on how many waits
//! it had, and never on which were chosen. Their time is exact for all of them together,
//! and estimated for each.
//!
//! Time of which nothing is known, since too little was chosen, is told without a stack.

use super::pairing::{Thread, Waited};
use prof_profile::{Wait, WaitState};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// From the first wait of a batch to that which ends it, ns; and chosen waits
/// in it.
const BATCH: u64 = 500_000_000;
const MOST_HELD: usize = 4096;
/// So many bytes of samples at most come with a batch. Readers keep what comes while it
/// is held, and the next, to put it in order; they do not keep any amount.
const MOST_BYTES: usize = 4 << 20;
/// For so many times more than by its chance a wait stands at most.
const MOST_FACTOR: f64 = 1.5;
/// What is left of a thread is told when it had no wait for so many batches.
const MOST_IDLE: u32 = 16;
/// A thread of which so many waits were to be expected among those chosen stands for
/// itself, however short it lived.
const ENOUGH: f64 = 64.0;

/// Waits of which some were chosen by chance, until it is known for how many
/// others each stands.
#[derive(Debug, Default)]
pub(super) struct Batch {
    groups: BTreeMap<(i32, WaitState), Group>,
    pools: BTreeMap<WaitState, Pool>,
    /// When the first wait of the batch before ended; of this one the first and
    /// the last, ns.
    before: Option<u64>,
    times: Option<(u64, u64)>,
    /// When the last of all ended, ns.
    last: u64,
    held: usize,
    /// Of samples that came since the batch before was ended.
    bytes: usize,
}

/// Those of a thread in one state.
#[derive(Debug, Default)]
struct Group {
    thread: Thread,
    weighed: Weighed,
    /// Batches without any.
    idle: u32,
    /// The thread has ended.
    is_over: bool,
}

/// Those in one state of threads that lived shortly.
#[derive(Debug, Default)]
struct Pool {
    weighed: Weighed,
    /// Whose they are, with the time of each, ns: of the last batch before with any, and
    /// of this one.
    before: Vec<(Thread, i64)>,
    now: Vec<(Thread, i64)>,
}

/// Waits that sum up to a known time.
#[derive(Debug, Default)]
struct Weighed {
    /// The batch before, and this one.
    before: Part,
    now: Part,
    /// How much more time was there than was told, of batches before both, ns.
    missing: i64,
    /// Whether there were batches before both.
    is_told: bool,
}

/// Those of them in a batch.
#[derive(Debug, Default)]
struct Part {
    /// With their halvings.
    chosen: Vec<(Waited, u32)>,
    /// The time of all, chosen or not, ns.
    time: i64,
    /// How many of them were to be expected among the chosen ones.
    expected: f64,
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
    /// Adds a wait that was not chosen where one in `2^halvings` is.
    pub(super) fn pass(&mut self, wait: &Waited, halvings: u32) {
        self.part_of(wait, halvings);
    }

    /// Adds a wait that was chosen as one in `2^halvings`.
    pub(super) fn choose(&mut self, wait: Waited, halvings: u32) {
        self.held += 1;
        self.part_of(&wait, halvings).chosen.push((wait, halvings));
    }

    /// A sample of so many bytes came, of whatever event.
    pub(super) fn passes(&mut self, bytes: usize) {
        self.bytes += bytes;
    }

    /// The part that a wait belongs to, which is counted in it.
    fn part_of(&mut self, wait: &Waited, halvings: u32) -> &mut Part {
        let times = self.times.get_or_insert((wait.end, wait.end));
        *times = (times.0.min(wait.end), times.1.max(wait.end));
        self.last = self.last.max(wait.end);
        let key = (wait.thread.tid, wait.state);
        let group = self.groups.entry(key).or_default();
        group.thread = wait.thread;
        group.idle = 0;
        let part = &mut group.weighed.now;
        part.time += length(wait);
        part.expected += (-f64::from(halvings)).exp2();
        part
    }

    /// A thread has ended: no wait of it comes any more.
    pub(super) fn over(&mut self, tid: i32) {
        for state in [WaitState::Blocked, WaitState::Preempted] {
            if let Entry::Occupied(mut group) = self.groups.entry((tid, state)) {
                match group.get().is_brief() {
                    true => self.pools.entry(state).or_default().take(group.remove()),
                    false => group.get_mut().is_over = true,
                }
            }
        }
    }

    /// The earliest end of a wait that is held, ns, or one before it.
    pub(super) fn earliest(&self) -> Option<u64> {
        let now = self.times.map(|times| times.0);
        self.before.into_iter().chain(now).min()
    }

    /// Whether it is time to end the batch.
    pub(super) fn is_due(&self) -> bool {
        let is_long = |(first, last): (u64, u64)| last - first >= BATCH;
        let is_much = self.held >= MOST_HELD || self.bytes >= MOST_BYTES;
        self.times.is_some_and(|times| is_much || is_long(times))
    }

    /// Ends the batch: tells the one before, and this one, too, if nothing
    /// follows.
    pub(super) fn end(&mut self, follows: Follows) -> Told {
        let mut told = Told::default();
        let until = self.last;
        self.before = self.times.take().map(|times| times.0);
        (self.held, self.bytes) = (0, 0);
        if follows == Follows::Nothing {
            let groups = std::mem::take(&mut self.groups);
            for ((tid, state), group) in groups {
                match group.is_brief() {
                    true => self.pools.entry(state).or_default().take(group),
                    false => _ = self.groups.insert((tid, state), group),
                }
            }
        }
        self.groups.retain(|&(_, state), group| {
            let is_last = follows == Follows::Nothing || group.is_over;
            match is_last {
                true => group.weighed.tell_last(&mut told.chosen),
                false => group.weighed.tell(&mut told.chosen),
            }
            group.idle += 1;
            let ends = is_last || group.idle > MOST_IDLE;
            if ends {
                let time = group.weighed.missing;
                told.rest
                    .extend(Rest::of(group.thread, state, (time, until)));
            }
            !ends
        });
        for (&state, pool) in &mut self.pools {
            match follows {
                Follows::More => pool.tell(&mut told.chosen),
                Follows::Nothing => pool.tell_last((state, until), &mut told),
            }
        }
        told.chosen.sort_by_key(|(wait, _)| wait.end);
        told
    }
}

impl Rest {
    /// Of so much time, until then, ns; if it is any.
    fn of(thread: Thread, state: WaitState, (time, until): (i64, u64)) -> Option<Self> {
        let time = u64::try_from(time).ok().filter(|&time| time > 0)?;
        Some(Self {
            thread,
            state,
            time,
            until,
        })
    }
}

impl Group {
    /// Whether its thread, if it has ended, lived too shortly to stand for itself.
    fn is_brief(&self) -> bool {
        let Weighed { before, now, .. } = &self.weighed;
        !self.weighed.is_told && before.expected + now.expected < ENOUGH
    }
}

impl Pool {
    /// Takes the waits of a thread that lived shortly.
    fn take(&mut self, group: Group) {
        let Weighed { before, now, .. } = group.weighed;
        self.before.push((group.thread, before.time));
        self.now.push((group.thread, now.time));
        self.weighed.before.join(before);
        self.weighed.now.join(now);
    }

    /// Tells of the batch before.
    fn tell(&mut self, told: &mut Vec<(Waited, u32)>) {
        self.weighed.tell(told);
        if !self.now.is_empty() {
            self.before = std::mem::take(&mut self.now);
        }
    }

    /// Tells of all; time that nothing stands for is of its last threads, in
    /// proportion to theirs.
    fn tell_last(&mut self, (state, until): (WaitState, u64), told: &mut Told) {
        self.weighed.tell_last(&mut told.chosen);
        let last = self.before.drain(..).chain(self.now.drain(..));
        let last: Vec<(Thread, i64)> = last.filter(|(_, time)| *time > 0).collect();
        let mut all: i64 = last.iter().map(|(_, time)| time).sum();
        let mut missing = std::mem::take(&mut self.weighed.missing).max(0);
        for (thread, time) in last {
            let own = (i128::from(missing) * i128::from(time) / i128::from(all)) as i64;
            (missing, all) = (missing - own, all - time);
            told.rest.extend(Rest::of(thread, state, (own, until)));
        }
    }
}

impl Weighed {
    /// Tells of the batch before, and of so much more time as is missing, as far as
    /// that is no more than half of what is told anyway; never of more time than there
    /// was so far, with the part that is told next.
    fn tell(&mut self, told: &mut Vec<(Waited, u32)>) {
        let part = std::mem::replace(&mut self.before, std::mem::take(&mut self.now));
        let sum = part.estimated();
        let known = self.missing + part.time + self.before.time;
        let of_sum = |time: i64| time.max(0) as f64 / sum as f64;
        let factor = match sum {
            1.. => of_sum(sum + self.missing)
                .min(of_sum(known))
                .min(MOST_FACTOR),
            _ => 0.0,
        };
        self.is_told |= part.time > 0;
        self.missing += part.time;
        self.missing -= stand_for(part.chosen, |_, times| times * factor, told);
    }

    /// Tells of all that is held and missing, as far as that is no more than half of what
    /// the chosen waits would tell by their chances.
    fn tell_last(&mut self, told: &mut Vec<(Waited, u32)>) {
        let mut last = std::mem::take(&mut self.before);
        last.join(std::mem::take(&mut self.now));
        let sum = last.estimated().max(1) as f64;
        self.missing += last.time;
        let factor = (self.missing.max(0) as f64 / sum).min(MOST_FACTOR);
        // Where by chance more long waits were chosen the sum is high, and the factor low:
        // these would stand for too little on average (Beale 1962).
        let of_sum = |length: f64, times: f64| (times - 1.0) * length / sum;
        let with = |(wait, halvings): &(Waited, u32)| {
            let (length, times) = (length(wait) as f64, f64::from(1_u32 << halvings));
            times * length / sum * of_sum(length, times)
        };
        let variance: f64 = last.chosen.iter().map(with).sum();
        let fitted = |length: f64, times: f64| {
            times * factor * (1.0 + of_sum(length, times)) / (1.0 + variance)
        };
        self.missing -= stand_for(last.chosen, fitted, told);
    }
}

/// Tells of chosen waits, each standing for what `fitted` makes of its length, ns, and
/// of how many it stands for by its chance. Gives the time that they stand for together,
/// ns: what is lost of one by rounding is told with the next.
fn stand_for(
    chosen: Vec<(Waited, u32)>,
    fitted: impl Fn(f64, f64) -> f64,
    told: &mut Vec<(Waited, u32)>,
) -> i64 {
    let (mut wanted, mut sum) = (0.0, 0);
    for (wait, halvings) in chosen {
        let length = length(&wait) as f64;
        wanted += length * fitted(length, f64::from(1_u32 << halvings));
        // One of no length stands for no time, whatever is left of the others.
        let times = (wanted - sum as f64) / length.max(1.0) * f64::from(Wait::ITSELF);
        // At least 1: 0 would be for itself.
        let times = (times as u32).max(1);
        sum += i64::try_from(period(&wait, times)).unwrap_or(i64::MAX);
        told.push((wait, times));
    }
    sum
}

impl Part {
    fn join(&mut self, other: Self) {
        self.chosen.extend(other.chosen);
        self.time += other.time;
        self.expected += other.expected;
    }

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

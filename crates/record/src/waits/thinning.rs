//! Which short waits have a stack where there are very many, and for how many
//! others each of them stands.
//!
//! A leaving of a CPU costs the program some 2 µs where only records tell of
//! it, and many times that where its stack is taken. So beyond some thousand
//! leavings a second the kernel takes the stack of each with the same
//! probability 2^-k, whatever came before and however long the wait will be
//! (`RandomChoice`). The records still tell of all waits.
//!
//! ```text
//!   all waits ─┬─ begun while all stacks were taken, or long ──► as they are
//!              └─ the others, of a thread and state, half a second:
//!                    chosen      period = length × weight, stack
//!                    not chosen  period = 0, length in the word
//! ```
//!
//! Which of the two a wait is in hangs on when it began, on its state and
//! length, on whether its stack could be read if it was long, and on the how-manieth of
//! its thread it is, and never on whether it was chosen. The first waits of a thread are
//! likelier to be chosen, with a probability of their own that is known
//! (`RandomChoice::halvings_of`): else nothing would be known of most tasks that live
//! for some milliseconds, as those of a build. How their sums are made: `batch.rs`.

use super::pairing::Waited;
use prof_profile::WaitState;
use prof_sys::{RandomChoice, clock};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// A thread that was blocked for so long, ns, is no matter of chance if its stack was read
/// while it slept, which is tried whether its leaving was chosen or not. On a busy machine
/// it may be woken before, and wait for a CPU.
const LONG: u64 = 20_000_000;
/// How often the rate of leavings is looked at, ns.
const LOOK_EVERY: u64 = 20_000_000;
/// A burst is seen at once, but not before, ns: rings tell of each CPU's leavings one after
/// the other, and a rate of few is chance.
const LEAST_LOOK: u64 = 2_000_000;
/// After so many looks that found the rate lower, more stacks are taken.
const CALM_LOOKS: u32 = 25;
/// As many stacks above the rate as belong to such a part of a second are taken before
/// fewer are: a program that only starts or ends quickly is no load.
const BURST: u64 = 8;
/// At most so few are taken: one in 2^16.
const MOST_HALVINGS: u32 = 16;

/// Makes the kernel choose.
#[derive(Debug)]
pub(crate) struct Thinner {
    chosen: Arc<Chosen>,
    pace: Pace,
}

/// The choice that the kernel makes, as two threads change it: the one that writes by the
/// rate of leavings, and the one that drains where it finds a flood ([`FloodGate`]).
#[derive(Debug)]
struct Chosen {
    choice: Arc<RandomChoice>,
    clock: i32,
    most: u32,
    /// The halvings in force, and changes that the writing thread has not seen: since when,
    /// ns, and how many.
    changes: Mutex<(u32, Vec<(u64, u32)>)>,
}

impl Chosen {
    /// From now on takes one in `2^halvings`, as `halvings` makes them of those in force,
    /// if it gives any. What cannot be changed holds on.
    fn change(&self, until: u64, halvings: impl FnOnce(u32) -> Option<u32>) {
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(halvings) = halvings(changes.0) else {
            return;
        };
        let before = clock::now(self.clock).ok();
        if self.choice.one_in(halvings).is_ok() {
            let after = clock::now(self.clock).ok();
            let at = before.zip(after);
            let at = at.map_or(until, |(before, after)| before.midpoint(after));
            changes.0 = halvings;
            changes.1.push((at, halvings));
        }
    }

    /// The changes since this was last asked, in the order of time.
    fn take_changes(&self) -> Vec<(u64, u32)> {
        let mut changes = self.changes.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut changes.1)
    }
}

/// Has fewer stacks taken at once where rings fill with more of them than can be copied
/// out: until what they hold is read, and the rate of leavings known from it, they would
/// be full.
#[derive(Debug)]
pub(crate) struct FloodGate {
    chosen: Arc<Chosen>,
    /// Of a sample in a ring, bytes.
    sample: u64,
}

impl FloodGate {
    /// Rings are about to be emptied, which hold so many bytes of so long.
    pub(crate) fn pass(&self, bytes: u64, lasted: Duration) {
        let (most, samples) = (u64::from(self.chosen.most), bytes / self.sample.max(1));
        let more = flood(most, samples, lasted);
        if more > 0 {
            let all = |in_force: u32| (in_force + more).min(MOST_HALVINGS);
            self.chosen.change(0, |in_force| Some(all(in_force)));
        }
    }
}

/// How many halvings more are needed for at most `most` samples a second, where there were
/// so many of so long; 0 if they are no more than a burst.
fn flood(most: u64, samples: u64, lasted: Duration) -> u32 {
    let micros = u64::try_from(lasted.as_micros()).unwrap_or(u64::MAX);
    let usual = most.saturating_mul(micros) / 1_000_000;
    if samples <= usual.saturating_add(most / BURST) {
        return 0;
    }
    let times = samples / usual.max(1);
    times.max(1).ilog2() + 1
}

impl Thinner {
    /// For what chooses samples of the event of waits, which begins with all of them;
    /// about `most` stacks a second stay.
    pub(crate) fn new(most: u32, clock: i32, choice: Arc<RandomChoice>) -> Self {
        let chosen = Chosen {
            choice,
            clock,
            most,
            changes: Mutex::default(),
        };
        Self {
            chosen: Arc::new(chosen),
            pace: Pace::new(most),
        }
    }

    /// For the thread that drains rings in which a sample has so many bytes.
    pub(crate) fn gate(&self, sample: u64) -> FloodGate {
        FloodGate {
            chosen: Arc::clone(&self.chosen),
            sample,
        }
    }

    /// Whether some samples are not taken now.
    pub(super) fn is_on(&self) -> bool {
        self.pace.is_on()
    }

    /// For how many halvings a wait is one of those of which some are chosen;
    /// 0 if it is none of them.
    pub(super) fn thinned(&self, wait: &Waited) -> u32 {
        let choice = &self.chosen.choice;
        choice.halvings_of(wait.nth, self.pace.thinned(wait))
    }

    /// So many threads left their CPUs since the last time, until then, ns.
    pub(super) fn left(&mut self, until: u64, count: u64) {
        self.take_changes();
        let seen = self.pace.halvings();
        if let Some(halvings) = self.pace.left(until, count) {
            // A flood since then says more.
            let still = |in_force| (in_force == seen).then_some(halvings);
            self.chosen.change(until, still);
            self.take_changes();
        }
    }

    fn take_changes(&mut self) {
        for (at, halvings) in self.chosen.take_changes() {
            self.pace.changed(at, halvings);
        }
    }
}

/// Which share of leavings is sampled, and since when: one in `2^halvings`.
#[derive(Debug)]
pub(crate) struct Pace {
    /// Samples a second.
    most: u64,
    /// Since when, ns, and how many halvings; the first since ever.
    changes: VecDeque<(u64, u32)>,
    /// Leavings since this time, ns.
    counted: u64,
    since: Option<u64>,
    /// So many samples more than `most` were taken lately.
    above: u64,
    /// Looks in a row that found fewer leavings, and the halvings that would
    /// have done for all of them.
    calm: u32,
    needed: u32,
}

impl Pace {
    pub(super) fn new(most: u32) -> Self {
        Self {
            most: u64::from(most.max(1)),
            changes: VecDeque::from([(0, 0)]),
            counted: 0,
            since: None,
            above: 0,
            calm: 0,
            needed: 0,
        }
    }

    /// Whether some samples are not taken now.
    fn is_on(&self) -> bool {
        self.halvings() > 0
    }

    fn halvings(&self) -> u32 {
        self.changes.back().map_or(0, |change| change.1)
    }

    /// What held at a time, ns.
    pub(super) fn in_force(&self, time: u64) -> u32 {
        let mut changes = self.changes.iter().rev();
        let found = changes.find(|(since, _)| *since <= time);
        found.or(self.changes.front()).map_or(0, |change| change.1)
    }

    /// Counts those until a time, ns; tells what should hold from now on if that is
    /// something else.
    fn left(&mut self, now: u64, count: u64) -> Option<u32> {
        let Some(since) = self.since else {
            self.since = Some(now);
            return None;
        };
        self.counted += count;
        let elapsed = now.saturating_sub(since);
        let burst = self.most / BURST;
        let is_flood = self.counted >> self.halvings() > burst && elapsed >= LEAST_LOOK;
        if elapsed < LOOK_EVERY && !is_flood {
            return None;
        }
        let rate = u128::from(self.counted) * 1_000_000_000 / u128::from(elapsed);
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        let old = self.halvings();
        let usual = self.most.saturating_mul(elapsed) / 1_000_000_000;
        let above = (self.above + (self.counted >> old)).saturating_sub(usual);
        self.above = above.min(2 * burst);
        (self.counted, self.since) = (0, Some(now));
        let fits = |halvings: &u32| rate >> halvings <= self.most;
        let wanted = (0..MOST_HALVINGS).find(fits).unwrap_or(MOST_HALVINGS);
        // Few are counted in one look: a little more is chance.
        if rate >> old > self.most + self.most / 4 {
            self.calm = 0;
            return (above > burst).then_some(wanted);
        }
        if wanted >= old {
            self.calm = 0;
            return None;
        }
        self.needed = match self.calm {
            0 => wanted,
            _ => self.needed.max(wanted),
        };
        self.calm += 1;
        if self.calm < CALM_LOOKS {
            return None;
        }
        self.calm = 0;
        Some(self.needed)
    }

    fn changed(&mut self, time: u64, halvings: u32) {
        self.changes.push_back((time, halvings));
    }

    /// With what halvings waits were chosen among which this one is, if the first of
    /// a thread were no likelier; 0 if it is none of them.
    fn thinned(&self, wait: &Waited) -> u32 {
        let length = wait.end.saturating_sub(wait.begin);
        let may_be = match wait.state {
            WaitState::Blocked => !(wait.began_before || length >= LONG && wait.was_read),
            WaitState::Preempted => true,
            // These begin with no leaving.
            WaitState::Woken | WaitState::Started | WaitState::Unknown => false,
        };
        match may_be {
            true => self.in_force(wait.begin),
            false => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{LONG, Pace, flood};
    use crate::waits::pairing::{Thread, Waited};
    use prof_profile::WaitState;
    use std::time::Duration;

    const MS: u64 = 1_000_000;

    fn waited(begin: u64, end: u64, state: WaitState) -> Waited {
        let thread = Thread {
            pid: 1,
            tid: 7,
            cpu: 0,
        };
        Waited {
            nth: 1,
            ..Waited::bare(thread, state, (begin, end))
        }
    }

    /// Counts so many leavings a second for so long from `from` on, ns, every 5 ms;
    /// what holds then.
    fn kept_up(pace: &mut Pace, from: u64, lasts: u64, rate: u64) -> u32 {
        for at in (0..lasts).step_by(5 * MS as usize) {
            if let Some(halvings) = pace.left(from + at, rate / 200) {
                pace.changed(from + at, halvings);
            }
        }
        pace.halvings()
    }

    #[test]
    fn the_more_leavings_a_second_the_fewer_are_sampled() {
        for (rate, expected) in [
            (1_000, 0),
            (2_400, 0),
            (4_000, 1),
            (20_000, 4),
            (100_000, 6),
        ] {
            let mut pace = Pace::new(2_000);
            assert_eq!(kept_up(&mut pace, 0, 200 * MS, rate), expected, "{rate}");
            assert_eq!(pace.is_on(), expected > 0);
        }
    }

    #[test]
    fn more_than_a_burst_in_a_ring_is_a_flood() {
        let of = |samples, ms| flood(2_000, samples, Duration::from_millis(ms));
        assert_eq!(
            [of(0, 0), of(250, 0), of(290, 20), of(2_200, 1_000)],
            [0; 4]
        );
        // 100 000, 400 000 and 13 000 a second.
        assert_eq!([of(600, 6), of(2_400, 6), of(300, 23)], [6, 8, 3]);
        assert_eq!(of(u64::MAX, 0), 64);
    }

    #[test]
    fn a_flood_is_not_waited_for() {
        let mut pace = Pace::new(2_000);
        assert_eq!(pace.left(MS, 40), None);
        // As many as a burst may have, but rings tell of them one after the other.
        assert_eq!(pace.left(2 * MS, 400), None);
        assert_eq!(pace.left(3 * MS, 0), Some(7));
    }

    #[test]
    fn a_short_burst_is_no_rate() {
        let mut pace = Pace::new(2_000);
        // 160 in 20 ms, then few; 40 ms of it are too much, and so is one after another.
        assert_eq!(kept_up(&mut pace, 0, 30 * MS, 8_000), 0);
        assert_eq!(kept_up(&mut pace, 30 * MS, 300 * MS, 200), 0);
        assert_eq!(kept_up(&mut pace, 330 * MS, 30 * MS, 8_000), 0);
        assert_eq!(kept_up(&mut pace, 360 * MS, 40 * MS, 400), 0);
        assert_eq!(kept_up(&mut pace, 400 * MS, 40 * MS, 9_000), 3);
    }

    #[test]
    fn more_are_sampled_again_when_there_are_few_for_half_a_second() {
        let mut pace = Pace::new(2_000);
        assert_eq!(kept_up(&mut pace, 0, 100 * MS, 20_000), 4);
        assert_eq!(kept_up(&mut pace, 100 * MS, 400 * MS, 3_000), 4);
        // First as many as for both rates, then as for this one.
        assert_eq!(kept_up(&mut pace, 500 * MS, 1_200 * MS, 1_000), 0);
        // What held then still does for the waits that began then.
        let held: Vec<u32> = [0, 99, 400, 1_800].map(|ms| pace.in_force(ms * MS)).into();
        assert_eq!(held, [0, 4, 4, 0]);
    }

    #[test]
    fn state_and_length_say_which_waits_are_thinned() {
        let mut pace = Pace::new(2_000);
        pace.changed(100 * MS, 3);
        let at = 200 * MS;
        let thinned = |begin, lasts, state| pace.thinned(&waited(begin, begin + lasts, state));
        assert_eq!(thinned(at, MS, WaitState::Blocked), 3);
        assert_eq!(thinned(at, LONG - 1, WaitState::Blocked), 3);
        assert_eq!(thinned(at, LONG, WaitState::Blocked), 3);
        let read = |lasts| Waited {
            was_read: true,
            ..waited(at, at + lasts, WaitState::Blocked)
        };
        assert_eq!(pace.thinned(&read(LONG)), 0);
        assert_eq!(pace.thinned(&read(LONG - 1)), 3);
        // Who can run cannot be read.
        assert_eq!(thinned(at, LONG, WaitState::Preempted), 3);
        assert_eq!(thinned(at, MS, WaitState::Started), 0);
        assert_eq!(thinned(99 * MS, 10 * MS, WaitState::Blocked), 0);
        let mut before = waited(at, at + MS, WaitState::Blocked);
        before.began_before = true;
        assert_eq!(pace.thinned(&before), 0);
    }
}

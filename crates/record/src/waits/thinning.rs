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
//! length, and on the how-manieth of its thread it is, and never on whether it has a
//! stack. The first waits of a thread are likelier to be chosen, with a probability
//! of their own that is known (`RandomChoice::halvings_of`): else nothing would be
//! known of most tasks that live for some milliseconds, as those of a build. A chosen
//! wait stands for 2^k:
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
use prof_sys::{RandomChoice, clock};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// A thread that was blocked for so long, ns, is no matter of chance: where its
/// leaving was not chosen its stack is read while it sleeps.
const LONG: u64 = 20_000_000;
/// How often the rate of leavings is looked at, ns.
const LOOK_EVERY: u64 = 20_000_000;
/// After so many looks that found the rate lower, more stacks are taken.
const CALM_LOOKS: u32 = 25;
/// At most so few are taken: one in 2^16.
const MOST_HALVINGS: u32 = 16;
/// From the first wait of a batch to that which ends it, ns; and chosen waits
/// in it.
const BATCH: u64 = 500_000_000;
const MOST_HELD: usize = 4096;
/// For so many times more than by its chance a wait stands at most.
const MOST_FACTOR: f64 = 1.5;
/// What is left of a thread is told when it had no wait for so many batches.
const MOST_IDLE: u32 = 16;

/// Makes the kernel choose.
#[derive(Debug)]
pub(crate) struct Thinner {
    choice: Arc<RandomChoice>,
    clock: i32,
    pace: Pace,
}

impl Thinner {
    /// For what chooses samples of the event of waits, which begins with all of them;
    /// about `most` stacks a second stay.
    pub(crate) fn new(most: u32, clock: i32, choice: Arc<RandomChoice>) -> Self {
        Self {
            choice,
            clock,
            pace: Pace::new(most),
        }
    }

    /// Whether some samples are not taken now.
    pub(super) fn is_on(&self) -> bool {
        self.pace.is_on()
    }

    /// For how many halvings a wait is one of those of which some are chosen;
    /// 0 if it is none of them.
    pub(super) fn thinned(&self, wait: &Waited) -> u32 {
        self.choice.halvings_of(wait.nth, self.pace.thinned(wait))
    }

    /// So many threads left their CPUs since the last time, until then, ns.
    pub(super) fn left(&mut self, until: u64, count: u64) {
        let Some(halvings) = self.pace.left(until, count) else {
            return;
        };
        let before = clock::now(self.clock).ok();
        // What cannot be changed holds on.
        if self.choice.one_in(halvings).is_ok() {
            let after = clock::now(self.clock).ok();
            let at = before.zip(after);
            let at = at.map_or(until, |(before, after)| before.midpoint(after));
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
        if elapsed < LOOK_EVERY {
            return None;
        }
        let rate = u128::from(self.counted) * 1_000_000_000 / u128::from(elapsed);
        let rate = u64::try_from(rate).unwrap_or(u64::MAX);
        (self.counted, self.since) = (0, Some(now));
        let old = self.halvings();
        let fits = |halvings: &u32| rate >> halvings <= self.most;
        let wanted = (0..MOST_HALVINGS).find(fits).unwrap_or(MOST_HALVINGS);
        // Few are counted in one look: a little more is chance.
        if rate >> old > self.most + self.most / 4 {
            self.calm = 0;
            return Some(wanted);
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
            WaitState::Blocked => length < LONG && !wait.began_before,
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
mod tests {
    use super::{Batch, Follows, LONG, Pace, Told, length, period};
    use crate::waits::pairing::{Change, Mark, Pairing, Thread, Waited};
    use prof_profile::WaitState;
    use prof_sketch::Random;
    use prof_statistics::Chosen;

    const MS: u64 = 1_000_000;

    fn waited(begin: u64, end: u64, state: WaitState) -> Waited {
        Waited {
            thread: Thread {
                pid: 1,
                tid: 7,
                cpu: 0,
            },
            nth: 1,
            begin,
            end,
            state,
            sample: None,
            holder: None,
            began_before: false,
            is_open: false,
            is_unsure: false,
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
            assert_eq!(kept_up(&mut pace, 0, 50 * MS, rate), expected, "{rate}");
            assert_eq!(pace.is_on(), expected > 0);
        }
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
    fn state_and_length_alone_say_which_waits_are_thinned() {
        let mut pace = Pace::new(2_000);
        pace.changed(100 * MS, 3);
        let at = 200 * MS;
        let thinned = |begin, lasts, state| pace.thinned(&waited(begin, begin + lasts, state));
        assert_eq!(thinned(at, MS, WaitState::Blocked), 3);
        assert_eq!(thinned(at, LONG - 1, WaitState::Blocked), 3);
        assert_eq!(thinned(at, LONG, WaitState::Blocked), 0);
        // Who can run cannot be read.
        assert_eq!(thinned(at, LONG, WaitState::Preempted), 3);
        assert_eq!(thinned(at, MS, WaitState::Started), 0);
        assert_eq!(thinned(99 * MS, 10 * MS, WaitState::Blocked), 0);
        let mut before = waited(at, at + MS, WaitState::Blocked);
        before.began_before = true;
        assert_eq!(pace.thinned(&before), 0);
    }

    fn sum(told: &Told) -> u64 {
        let chosen = told.chosen.iter();
        let periods: u64 = chosen.map(|(wait, times)| period(wait, *times)).sum();
        periods + told.rest.iter().map(|rest| rest.time).sum::<u64>()
    }

    #[test]
    fn the_last_batches_are_made_to_fit() {
        let wait = |at: u64| waited(at * MS, at * MS + 1000, WaitState::Blocked);
        // Of 16 one in eight: three by chance, then one.
        for chosen in [vec![1, 2, 3], vec![9]] {
            let mut batch = Batch::default();
            for at in 0..16 {
                match chosen.contains(&at) {
                    true => batch.choose(wait(at), 3),
                    false => batch.pass(&wait(at)),
                }
            }
            assert_eq!(batch.earliest(), Some(1000));
            let told = batch.end(Follows::Nothing);
            assert_eq!(told.chosen.len(), chosen.len());
            assert!((15_990..=16_000).contains(&sum(&told)), "{told:?}");
        }
    }

    #[test]
    fn time_that_nothing_stands_for_is_told_when_it_is_over() {
        let mut batch = Batch::default();
        batch.pass(&waited(0, 700, WaitState::Blocked));
        batch.pass(&waited(900, 1000, WaitState::Preempted));
        assert!(batch.end(Follows::More).rest.is_empty());
        let rest = batch.end(Follows::Nothing).rest;
        let times: Vec<_> = rest.iter().map(|rest| (rest.state, rest.time)).collect();
        let expected = [(WaitState::Blocked, 700), (WaitState::Preempted, 100)];
        assert_eq!(times, expected);
        assert!(batch.end(Follows::Nothing).rest.is_empty());
    }

    #[test]
    fn what_is_held_is_told_one_batch_later_and_nothing_stays() {
        let mut batch = Batch::default();
        assert_eq!(batch.earliest(), None);
        batch.choose(waited(0, 10, WaitState::Blocked), 1);
        assert!(!batch.is_due());
        batch.pass(&waited(1, 500 * MS + 10, WaitState::Blocked));
        assert!(batch.is_due());
        assert!(batch.end(Follows::More).chosen.is_empty());
        assert_eq!(batch.earliest(), Some(10));
        let told = batch.end(Follows::More).chosen;
        assert_eq!(told.len(), 1);
        // What was missing before it: nothing.
        assert_eq!(told[0].1, 128);
        assert_eq!(batch.earliest(), None);
        for _ in 0..super::MOST_IDLE {
            batch.end(Follows::More);
        }
        assert!(batch.groups.is_empty());
    }

    #[test]
    fn a_thread_has_never_more_time_than_there_was() {
        // One wait in 500 is 200 times as long as the others, one in 64 chosen.
        let mut random = Random(5);
        for more in 0..50 {
            let (mut batch, mut all, mut told, mut now) = (Batch::default(), 0, 0, 0);
            for _ in 0..8_000 + 100 * more {
                let is_long = random.below_one() < 0.002;
                let lasts = if is_long { 10 * MS } else { 50_000 };
                let wait = waited(now, now + lasts, WaitState::Preempted);
                all += lasts;
                now += lasts + 100_000;
                match random.below_one() * 64.0 < 1.0 {
                    true => batch.choose(wait, 6),
                    false => batch.pass(&wait),
                }
                if batch.is_due() {
                    told += sum(&batch.end(Follows::More));
                    assert!(told <= all, "{told} of {all} ns");
                }
            }
            told += sum(&batch.end(Follows::Nothing));
            assert!(all.abs_diff(told) < 1_000, "{told} of {all} ns");
        }
    }

    /// What one try told: of the second stack the sum and its truth, ns, and whether
    /// the truth lies in the interval; of all how much less or more than there was.
    struct Tried {
        told: f64,
        truth: f64,
        is_in: bool,
        off: u64,
    }

    /// A thread whose every `period`th wait is at the second of two stacks, and
    /// longer there; one leaving in `2^halvings` is sampled.
    fn tried(random: &mut Random, of_second: u64, halvings: u32, waits: u64) -> Tried {
        let thread = Thread {
            pid: 1,
            tid: 7,
            cpu: 0,
        };
        let mut pairing = Pairing::default();
        let mut add = |time, change| {
            pairing.add(Mark {
                time,
                thread,
                change,
            });
        };
        add(0, Change::Begin);
        let (mut now, mut truth) = (1_000, 0);
        for at in 0..waits {
            let is_second = at % of_second == 0;
            let mean = if is_second { 120_000.0 } else { 30_000.0 };
            let lasts = 5_000 + (-mean * random.below_one().max(1e-9).ln()) as u64;
            if random.below_one() * f64::from(1_u32 << halvings) < 1.0 {
                add(now - 1, Change::Sampled([u8::from(is_second)].into()));
            }
            add(now, Change::Leaves { preempted: false });
            add(now + lasts, Change::Runs);
            truth += if is_second { lasts } else { 0 };
            now += lasts + 20_000;
        }
        let (mut batch, mut all) = (Batch::default(), 0_i64);
        let (mut second, mut sum) = (Chosen::default(), 0);
        let mut take = |told: Told| {
            sum += self::sum(&told);
            for (wait, times) in &told.chosen {
                if wait.sample.as_deref() == Some(&[1]) {
                    second.add(period(wait, *times) as f64, f64::from(*times) / 64.0);
                }
            }
        };
        pairing.pair(u64::MAX, &mut |wait| {
            all += length(&wait);
            match wait.sample {
                Some(_) => batch.choose(wait, halvings),
                None => batch.pass(&wait),
            }
            if batch.is_due() {
                take(batch.end(Follows::More));
            }
        });
        take(batch.end(Follows::Nothing));
        Tried {
            told: second.sum(),
            truth: truth as f64,
            is_in: second.interval(0.95).contains(truth as f64),
            off: all.cast_unsigned().abs_diff(sum),
        }
    }

    /// Tries of which the truth is to lie in the interval in 93 of 100.
    const TRIES: u32 = 300;

    #[test]
    fn stacks_that_alternate_have_their_time_and_threads_all_of_theirs() {
        let check = |(of_second, halvings, waits): (u64, u32, u64)| {
            let mut random = Random(77 + of_second);
            let (mut inside, mut told, mut truth) = (0, 0.0, 0.0);
            for _ in 0..TRIES {
                let tried = tried(&mut random, of_second, halvings, waits);
                inside += u32::from(tried.is_in);
                told += tried.told;
                truth += tried.truth;
                // Rounding of what chosen waits stand for.
                assert!(tried.off < 1_000, "{of_second}: off by {} ns", tried.off);
            }
            println!("{of_second}: {inside} of {TRIES}, mean {:.5}", told / truth);
            assert!(
                inside * 100 >= TRIES * 93,
                "{of_second}: {inside} of {TRIES}"
            );
            assert!(
                (told / truth - 1.0).abs() < 0.01,
                "{of_second}: {}",
                told / truth
            );
        };
        let cases = [
            (2, 3, 12_000),
            (3, 3, 12_000),
            (5, 3, 20_000),
            (100, 2, 60_000),
        ];
        std::thread::scope(|scope| {
            for case in cases {
                scope.spawn(move || check(case));
            }
        });
    }
}

use super::{Batch, Follows, Told, length, period};
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

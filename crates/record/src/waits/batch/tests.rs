use super::{Batch, Follows, Told, length, period};
use crate::waits::pairing::{Change, Mark, Pairing, Thread, Waited};
use prof_profile::WaitState;
use prof_sketch::Random;
use prof_statistics::Chosen;
use prof_sys::RandomChoice;

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
                false => batch.pass(&wait(at), 3),
            }
        }
        assert_eq!(batch.earliest(), Some(1000));
        let told = batch.end(Follows::Nothing);
        assert_eq!(told.chosen.len(), chosen.len());
        assert!((15_990..=16_000).contains(&sum(&told)), "{told:?}");
    }
}

#[test]
fn a_wait_of_no_length_stands_for_few() {
    let mut batch = Batch::default();
    batch.choose(waited(0, 1001, WaitState::Blocked), 3);
    batch.choose(waited(2000, 2000, WaitState::Blocked), 3);
    batch.pass(&waited(3000, 4003, WaitState::Blocked), 3);
    let told = batch.end(Follows::Nothing);
    let times: Vec<u32> = told.chosen.iter().map(|(_, times)| *times).collect();
    assert!(times.iter().all(|&times| times < 16 * 64), "{times:?}");
}

#[test]
fn threads_that_lived_shortly_are_told_together() {
    let of = |tid, at: u64| {
        let mut wait = waited(at * MS, at * MS + 1000, WaitState::Blocked);
        wait.thread.tid = tid;
        wait
    };
    let mut batch = Batch::default();
    // One wait each, of which one is chosen: it stands for the others'.
    for tid in 1..=8 {
        match tid {
            3 => batch.choose(of(tid, 3), 3),
            _ => batch.pass(&of(tid, 4), 3),
        }
        batch.over(tid);
    }
    assert!(batch.groups.is_empty());
    let told = batch.end(Follows::Nothing);
    let times: Vec<u32> = told.chosen.iter().map(|(_, times)| *times).collect();
    assert_eq!((times, told.rest.len()), (vec![8 * 64], 0));
    // Nothing is: each has its own time without a stack.
    for tid in 1..=3 {
        batch.pass(&of(tid, 10), 3);
        batch.over(tid);
    }
    batch.end(Follows::More);
    batch.end(Follows::More);
    let rest = batch.end(Follows::Nothing).rest;
    let rest: Vec<_> = rest.iter().map(|it| (it.thread.tid, it.time)).collect();
    assert_eq!(rest, [(1, 1000), (2, 1000), (3, 1000)]);
}

#[test]
fn a_thread_that_has_ended_is_told_when_its_last_batch_ends() {
    let mut batch = Batch::default();
    let wait = |at: u64| waited(at, at + 100, WaitState::Blocked);
    // Long enough to stand for itself; by chance few are chosen.
    for at in 0..1000 {
        match at % 10 {
            0 => batch.choose(wait(at * 1000), 3),
            _ => batch.pass(&wait(at * 1000), 3),
        }
    }
    batch.over(7);
    let told = batch.end(Follows::More);
    assert!(batch.groups.is_empty());
    assert_eq!((told.chosen.len(), told.rest.len()), (100, 0));
    assert!((99_990..=100_000).contains(&sum(&told)), "{}", sum(&told));
}

#[test]
fn time_that_nothing_stands_for_is_told_when_it_is_over() {
    let mut batch = Batch::default();
    batch.pass(&waited(0, 700, WaitState::Blocked), 3);
    batch.pass(&waited(900, 1000, WaitState::Preempted), 3);
    assert!(batch.end(Follows::More).rest.is_empty());
    let rest = batch.end(Follows::Nothing).rest;
    let times: Vec<_> = rest.iter().map(|rest| (rest.state, rest.time)).collect();
    let expected = [(WaitState::Blocked, 700), (WaitState::Preempted, 100)];
    assert_eq!(times, expected);
    assert!(batch.end(Follows::Nothing).rest.is_empty());
}

#[test]
fn a_batch_ends_before_readers_must_keep_too_much_for_it() {
    let mut batch = Batch::default();
    batch.passes(super::MOST_BYTES);
    assert!(!batch.is_due(), "nothing is held");
    batch.choose(waited(0, 10, WaitState::Blocked), 1);
    assert!(batch.is_due());
    batch.end(Follows::More);
    batch.choose(waited(10, 20, WaitState::Blocked), 1);
    batch.passes(super::MOST_BYTES - 1);
    assert!(!batch.is_due());
    batch.passes(1);
    assert!(batch.is_due());
}

#[test]
fn what_is_held_is_told_one_batch_later_and_nothing_stays() {
    let mut batch = Batch::default();
    assert_eq!(batch.earliest(), None);
    batch.choose(waited(0, 10, WaitState::Blocked), 1);
    assert!(!batch.is_due());
    batch.pass(&waited(1, 500 * MS + 10, WaitState::Blocked), 1);
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
                false => batch.pass(&wait, 6),
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
            None => batch.pass(&wait, halvings),
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

/// What threads that live for a moment are: how many waits each has, and which of all
/// are at the second stack, by the waits of the thread, and the how-manieth it is of all.
#[derive(Clone, Copy)]
struct Moments {
    name: &'static str,
    threads: u64,
    waits: fn(u64) -> u64,
    is_second: fn(u64, u64) -> bool,
}

/// A run of such threads beside one that lives on; one leaving in 64 is sampled, and
/// the first of each thread are likelier.
fn tried_moments(random: &mut Random, of: Moments) -> (Tried, f64) {
    const HALVINGS: u32 = 6;
    let (mut batch, mut all, mut rest) = (Batch::default(), 0_i64, 0);
    let (mut second, mut sum, mut truth) = (Chosen::default(), 0, 0);
    let mut take = |told: Told| {
        sum += self::sum(&told);
        rest += told.rest.iter().map(|rest| rest.time).sum::<u64>();
        for (wait, times) in &told.chosen {
            if wait.sample.as_deref() == Some(&[1]) {
                second.add(period(wait, *times) as f64, f64::from(*times) / 64.0);
            }
        }
    };
    let (mut now, mut nth_of_all, mut nth_of_long) = (1_000, 0, 0);
    for thread in 0..of.threads {
        let waits = (of.waits)(thread);
        // In turns with the long one.
        for nth in (1..=waits).flat_map(|nth| [Some(nth), None]) {
            let is_second = nth.is_some() && (of.is_second)(waits, nth_of_all);
            nth_of_all += u64::from(nth.is_some());
            nth_of_long += u64::from(nth.is_none());
            let mean = if is_second { 120_000.0 } else { 30_000.0 };
            let lasts = 5_000 + (-mean * random.below_one().max(1e-9).ln()) as u64;
            let mut wait = waited(now, now + lasts, WaitState::Blocked);
            wait.thread.tid = nth.map_or(1, |_| 100 + thread as i32);
            truth += if is_second { lasts } else { 0 };
            all += lasts as i64;
            let halvings = RandomChoice::likelier(nth.unwrap_or(nth_of_long), HALVINGS);
            match random.below_one() * f64::from(1_u32 << halvings) < 1.0 {
                true => {
                    wait.sample = Some([u8::from(is_second)].into());
                    batch.choose(wait, halvings);
                }
                false => batch.pass(&wait, halvings),
            }
            now += lasts + 20_000;
        }
        batch.over(100 + thread as i32);
        if batch.is_due() {
            take(batch.end(Follows::More));
        }
    }
    take(batch.end(Follows::Nothing));
    let tried = Tried {
        told: second.sum(),
        truth: truth as f64,
        is_in: second.interval(0.95).contains(truth as f64),
        off: all.cast_unsigned().abs_diff(sum),
    };
    (tried, rest as f64 / all as f64)
}

#[test]
fn threads_that_live_for_a_moment_have_their_time_together() {
    let cases = [
        Moments {
            name: "every second",
            threads: 600,
            waits: |thread| 1 + thread % 24,
            is_second: |_, at| at % 2 == 0,
        },
        Moments {
            name: "every third",
            threads: 600,
            waits: |thread| 1 + thread % 24,
            is_second: |_, at| at % 3 == 0,
        },
        Moments {
            name: "every fifth",
            threads: 600,
            waits: |thread| 1 + thread % 24,
            is_second: |_, at| at % 5 == 0,
        },
        Moments {
            name: "every hundredth",
            threads: 5_000,
            waits: |thread| 1 + thread % 24,
            is_second: |_, at| at % 100 == 0,
        },
        // Of each of those one in eight is chosen, and stands for seven of other threads.
        Moments {
            name: "threads of one wait",
            threads: 1_600,
            waits: |thread| [1, 20][usize::from(thread % 4 == 0)],
            is_second: |waits, _| waits == 1,
        },
        // Some stand for themselves.
        Moments {
            name: "threads of some hundred",
            threads: 60,
            waits: |thread| 200 + 17 * (thread % 40),
            is_second: |_, at| at % 7 == 0,
        },
    ];
    let check = |of: Moments| {
        let mut random = Random(4711 + of.threads + of.name.len() as u64);
        let (mut inside, mut told, mut truth, mut rest) = (0, 0.0, 0.0, 0.0);
        for _ in 0..TRIES {
            let (tried, without) = tried_moments(&mut random, of);
            inside += u32::from(tried.is_in);
            told += tried.told;
            truth += tried.truth;
            rest += without;
            assert!(tried.off < 2_000, "{}: off by {} ns", of.name, tried.off);
        }
        let (name, mean, rest) = (of.name, told / truth, rest / f64::from(TRIES));
        println!("{name}: {inside} of {TRIES}, mean {mean:.5}, rest {rest:.5}");
        assert!(inside * 100 >= TRIES * 93, "{name}: {inside} of {TRIES}");
        assert!((mean - 1.0).abs() < 0.01, "{name}: {mean}");
        assert!(rest < 0.005, "{name}: {rest} without a stack");
    };
    std::thread::scope(|scope| {
        for case in cases {
            scope.spawn(move || check(case));
        }
    });
}

use super::{Change, Mark, Pairing, Thread, Waited};
use prof_profile::WaitState;

const LEAVES: Change = Change::Leaves { preempted: false };

fn mark(time: u64, tid: i32, change: Change) -> Mark {
    let thread = Thread {
        pid: 1,
        tid,
        cpu: 0,
    };
    Mark {
        time,
        thread,
        change,
    }
}

fn sampled(what: u8) -> Change {
    Change::Sampled(vec![what].into())
}

/// What comes of drains, each with the horizon behind it.
fn waits(drains: Vec<(Vec<Mark>, u64)>) -> (Vec<Waited>, Pairing) {
    let mut pairing = Pairing::default();
    let mut waits = Vec::new();
    pairing.add(mark(0, 0, Change::Begin));
    for (marks, horizon) in drains {
        marks.into_iter().for_each(|mark| pairing.add(mark));
        pairing.pair(horizon, &mut |wait| waits.push(wait));
    }
    (waits, pairing)
}

/// Begin, end, the sample's byte.
fn told(waits: &[Waited]) -> Vec<(u64, u64, Option<u8>)> {
    let sample = |wait: &Waited| wait.sample.as_ref().and_then(|it| it.first().copied());
    waits
        .iter()
        .map(|wait| (wait.begin, wait.end, sample(wait)))
        .collect()
}

#[test]
fn a_wait_lasts_from_leaving_to_coming_back() {
    let marks = vec![
        mark(9, 7, sampled(1)),
        mark(10, 7, LEAVES),
        mark(25, 7, Change::Runs),
        mark(29, 7, sampled(2)),
        mark(30, 7, Change::Leaves { preempted: true }),
        mark(31, 7, Change::Runs),
    ];
    let (waits, pairing) = waits(vec![(marks, 100)]);
    assert_eq!(told(&waits), [(10, 25, Some(1)), (30, 31, Some(2))]);
    let states: Vec<WaitState> = waits.iter().map(|wait| wait.state).collect();
    assert_eq!(states, [WaitState::Blocked, WaitState::Preempted]);
    assert_eq!((pairing.waiting(), pairing.broken), (0, 0));
}

#[test]
fn who_was_woken_waits_for_a_cpu_from_then_on() {
    let marks = vec![
        mark(9, 7, sampled(1)),
        mark(10, 7, LEAVES),
        mark(20, 7, Change::Woken),
        // Of another that came later.
        mark(21, 7, Change::Woken),
        mark(25, 7, Change::Runs),
        // It runs.
        mark(26, 7, Change::Woken),
        mark(30, 7, Change::Leaves { preempted: true }),
        mark(31, 7, Change::Woken),
        mark(32, 7, Change::Runs),
    ];
    let (waits, _) = waits(vec![(marks, 100)]);
    let expected = [(10, 20, Some(1)), (20, 25, Some(1)), (30, 32, None)];
    assert_eq!(told(&waits), expected);
    let states: Vec<WaitState> = waits.iter().map(|wait| wait.state).collect();
    let (blocked, woken) = (WaitState::Blocked, WaitState::Woken);
    assert_eq!(states, [blocked, woken, WaitState::Preempted]);
}

#[test]
fn rings_that_are_drained_one_after_the_other_do_not_mix_waits_up() {
    // On CPU 1 at 2, 3 and 6, on CPU 0 at 1, 4 and 5, drained too early.
    let of_one = vec![
        mark(2, 7, Change::Runs),
        mark(3, 7, LEAVES),
        mark(6, 7, Change::Runs),
    ];
    let of_zero = vec![
        mark(1, 7, LEAVES),
        mark(4, 7, Change::Runs),
        mark(5, 7, LEAVES),
    ];
    let (waits, pairing) = waits(vec![(of_one, 0), (of_zero, 6)]);
    let expected = [(1, 2, None), (3, 4, None), (5, 6, None)];
    assert_eq!(told(&waits), expected);
    assert_eq!(pairing.broken, 0);
}

#[test]
fn a_sample_of_an_earlier_leaving_is_not_taken() {
    let marks = vec![
        mark(1, 7, LEAVES),
        mark(2, 7, Change::Runs),
        mark(3, 7, sampled(1)),
        mark(4, 7, LEAVES),
        mark(5, 7, Change::Runs),
        // Its own sample was lost.
        mark(6, 7, LEAVES),
        mark(7, 7, Change::Runs),
    ];
    let (waits, _) = waits(vec![(marks, 100)]);
    assert_eq!(told(&waits), [(1, 2, None), (4, 5, Some(1)), (6, 7, None)]);
}

#[test]
fn what_began_before_or_is_not_over_is_told_as_such() {
    let marks = vec![
        mark(5, 7, Change::Runs),
        mark(8, 7, LEAVES),
        mark(9, 8, LEAVES),
        mark(10, 8, Change::Ends),
        mark(20, 0, Change::End),
    ];
    let (waits, pairing) = waits(vec![(marks, 100)]);
    assert_eq!(told(&waits), [(0, 5, None), (8, 20, None)]);
    let edges: Vec<_> = waits
        .iter()
        .map(|wait| (wait.began_before, wait.is_open))
        .collect();
    assert_eq!(edges, [(true, false), (false, true)]);
    assert_eq!(pairing.waiting(), 0);
}

#[test]
fn a_preempted_thread_has_the_stack_of_its_last_sample_since_it_ran() {
    let passed = |what: u8| Change::Passed(vec![what].into());
    let preempted = || Change::Leaves { preempted: true };
    let marks = vec![
        mark(1, 7, passed(1)),
        mark(2, 7, passed(2)),
        mark(3, 7, preempted()),
        mark(4, 7, Change::Runs),
        mark(5, 7, preempted()),
        mark(6, 7, Change::Runs),
        mark(7, 7, passed(3)),
        mark(8, 7, LEAVES),
        mark(9, 7, Change::Runs),
    ];
    let (waits, _) = waits(vec![(marks, 100)]);
    assert_eq!(told(&waits), [(3, 4, Some(2)), (5, 6, None), (8, 9, None)]);
}

fn read(until: u64, what: u8) -> Change {
    let record = vec![what].into();
    Change::Read { until, record }
}

#[test]
fn a_stack_that_was_read_is_of_the_wait_that_holds_the_whole_reading() {
    let marks = vec![
        // Slept before the recording.
        mark(1, 6, read(3, 1)),
        mark(5, 6, Change::Runs),
        // Woke while it was read.
        mark(10, 7, LEAVES),
        mark(15, 7, read(21, 2)),
        mark(20, 7, Change::Runs),
        // Read in time.
        mark(30, 7, LEAVES),
        mark(31, 7, read(33, 3)),
        mark(35, 7, Change::Runs),
        // The reading is older than the wait.
        mark(36, 7, read(37, 4)),
        mark(40, 7, LEAVES),
        mark(45, 7, Change::Runs),
        // Slept all the time.
        mark(50, 8, read(55, 5)),
        mark(60, 0, Change::End),
    ];
    let (waits, _) = waits(vec![(marks, 100)]);
    let expected = [
        (0, 5, Some(1)),
        (10, 20, None),
        (30, 35, Some(3)),
        (40, 45, None),
        (0, 60, Some(5)),
    ];
    assert_eq!(told(&waits), expected);
    assert!(waits.iter().all(|wait| wait.state == WaitState::Blocked));
    let was_read: Vec<bool> = waits.iter().map(|wait| wait.was_read).collect();
    assert_eq!(was_read, [true, false, true, false, true]);
}

#[test]
fn a_sample_of_leaving_counts_more_than_what_was_read_and_that_it_was_is_known() {
    let marks = vec![
        mark(9, 7, sampled(1)),
        mark(10, 7, LEAVES),
        mark(12, 7, read(14, 2)),
        mark(20, 7, Change::Runs),
        mark(29, 7, sampled(3)),
        mark(30, 7, LEAVES),
        mark(32, 7, read(41, 4)),
        mark(40, 7, Change::Runs),
    ];
    let (waits, _) = waits(vec![(marks, 100)]);
    assert_eq!(told(&waits), [(10, 20, Some(1)), (30, 40, Some(3))]);
    assert_eq!([waits[0].was_read, waits[1].was_read], [true, false]);
}

#[test]
fn of_whole_cpus_a_thread_that_was_seen_to_sleep_counts_once_it_has_run() {
    let mut pairing = Pairing::new(true);
    let marks = [
        mark(0, 0, Change::Begin),
        mark(1, 7, read(3, 1)),
        mark(1, 8, read(3, 2)),
        mark(5, 7, Change::Runs),
        mark(9, 0, Change::End),
    ];
    marks.into_iter().for_each(|mark| pairing.add(mark));
    let mut waits = Vec::new();
    pairing.pair(100, &mut |wait| waits.push(wait));
    assert_eq!(told(&waits), [(0, 5, Some(1))]);
    assert_eq!(waits[0].state, WaitState::Blocked);
}

#[test]
fn a_holder_is_of_the_blocked_wait_that_holds_the_whole_look() {
    let held = |until, by| Change::Held { until, by };
    let marks = vec![
        mark(10, 7, LEAVES),
        mark(12, 7, held(13, 1)),
        mark(20, 7, Change::Woken),
        mark(25, 7, Change::Runs),
        // It woke while that was looked at.
        mark(30, 7, LEAVES),
        mark(34, 7, held(36, 2)),
        mark(35, 7, Change::Runs),
        // The look is older than the wait.
        mark(37, 7, held(38, 3)),
        mark(40, 7, LEAVES),
        mark(45, 7, Change::Runs),
        mark(50, 7, LEAVES),
        mark(51, 7, held(52, 4)),
        mark(60, 0, Change::End),
    ];
    let (waits, _) = waits(vec![(marks, 100)]);
    let holders: Vec<_> = waits.iter().map(|wait| (wait.end, wait.holder)).collect();
    let expected = [
        (20, Some(1)),
        (25, None),
        (35, None),
        (45, None),
        (60, Some(4)),
    ];
    assert_eq!(holders, expected);
}

#[test]
fn a_pause_belongs_to_no_wait() {
    let marks = vec![
        mark(1, 7, LEAVES),
        mark(10, 0, Change::End),
        mark(12, 7, Change::Runs),
        mark(13, 7, LEAVES),
        mark(20, 0, Change::Begin),
        mark(24, 7, Change::Runs),
    ];
    let (waits, _) = waits(vec![(marks, 100)]);
    assert_eq!(told(&waits), [(1, 10, None), (20, 24, None)]);
}

#[test]
fn a_thread_that_has_ended_waits_for_nothing() {
    let mut pairing = Pairing::new(true);
    let marks = [
        mark(0, 0, Change::Begin),
        mark(1, 7, Change::Made),
        mark(2, 7, Change::Ends),
        mark(3, 7, Change::Leaves { preempted: true }),
        mark(4, 7, Change::Runs),
        mark(5, 7, LEAVES),
        mark(9, 0, Change::End),
    ];
    marks.into_iter().for_each(|mark| pairing.add(mark));
    pairing.pair(100, &mut |wait| panic!("{wait:?}"));
    assert!(pairing.threads.is_empty());
}

#[test]
fn a_new_thread_waits_for_its_first_cpu() {
    let marks = vec![mark(3, 7, Change::Made), mark(5, 7, Change::Runs)];
    let (waits, _) = waits(vec![(marks, 100)]);
    assert_eq!(told(&waits), [(3, 5, None)]);
    assert_eq!(waits[0].state, WaitState::Started);
}

#[test]
fn lost_records_make_waits_unsure_and_doubled_ones_are_counted() {
    let marks = vec![
        mark(1, 7, LEAVES),
        mark(2, 8, LEAVES),
        mark(3, 8, Change::Runs),
        mark(4, 0, Change::Lost),
        mark(5, 7, Change::Runs),
        mark(6, 8, LEAVES),
        mark(7, 8, LEAVES),
        mark(8, 8, Change::Runs),
    ];
    let (waits, pairing) = waits(vec![(marks, 100)]);
    assert_eq!(told(&waits), [(2, 3, None), (1, 5, None), (7, 8, None)]);
    let unsure: Vec<bool> = waits.iter().map(|wait| wait.is_unsure).collect();
    assert_eq!(unsure, [false, true, false]);
    assert_eq!(pairing.broken, 1);
}

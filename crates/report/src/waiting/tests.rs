//! Runs drawn by hand whose critical paths are known.

use super::Kept;
use super::path_text::{Change, Critical, critical};
use prof_profile::{
    Event, EventId, Profile, Sample, StackId, TaskId, Thread, Wait, WaitKind, WaitState, Wake,
};
use prof_sketch::Sketch;
use std::collections::BTreeMap;

const MS: u64 = 1_000_000;

/// A run: times in ms.
pub(super) struct Run {
    sketch: Sketch,
    stacks: BTreeMap<String, StackId>,
}

impl Run {
    /// With these threads of one process; the first one made the others.
    pub(super) fn new(threads: &[(i32, &str)]) -> Self {
        let mut sketch = Sketch::new();
        sketch.profile.events[0].weight_is_ns = true;
        sketch.profile.events.push(Event {
            name: "offcpu-time".to_owned(),
            weight_is_ns: true,
            is_off_cpu: true,
            ..Event::default()
        });
        for &(tid, comm) in threads {
            sketch.task(1, tid, comm);
            let comm = sketch.profile.names.intern(comm);
            let parent = (tid != threads[0].0).then_some(threads[0].0);
            sketch.profile.threads.push(Thread {
                tid,
                pid: 1,
                parent,
                comm,
            });
        }
        let stacks = BTreeMap::new();
        Self { sketch, stacks }
    }

    fn task(&self, tid: i32) -> TaskId {
        let mut tasks = self.sketch.profile.tasks.iter();
        TaskId(tasks.position(|task| task.tid == tid).expect("drawn") as u32)
    }

    fn stack(&mut self, text: &str) -> StackId {
        if let Some(&known) = self.stacks.get(text) {
            return known;
        }
        let stack = self.sketch.stack(text);
        self.stacks.insert(text.to_owned(), stack);
        stack
    }

    fn push(
        &mut self,
        (tid, event): (i32, u16),
        text: &str,
        (from, to): (u64, u64),
        wait: Option<Wait>,
    ) {
        let (task, stack) = (self.task(tid), self.stack(text));
        let samples = &mut self.sketch.profile.samples;
        let wait = wait.map(|wait| samples.wait_id(wait));
        samples.push(Sample {
            time: to,
            period: to - from,
            task,
            stack,
            cpu: Some(if tid > 90 { 0 } else { tid as u32 }),
            event: EventId(event),
            wait,
        });
    }

    /// A thread runs: a sample each ms.
    fn runs(&mut self, tid: i32, function: &str, (from, to): (u64, u64)) {
        for ms in from..to {
            let times = (ms * MS, ms * MS + MS / 2);
            self.push((tid, 0), &format!("app:start;app:{function}"), times, None);
        }
    }

    pub(super) fn waits(
        &mut self,
        tid: i32,
        state: WaitState,
        kind: WaitKind,
        (from, to): (u64, u64),
    ) {
        let wait = Wait {
            state,
            kind,
            ..Wait::default()
        };
        let times = (from * MS, to * MS);
        self.push((tid, 1), "app:start;app:wait", times, Some(wait));
    }

    fn blocked(&mut self, tid: i32, times: (u64, u64)) {
        self.waits(tid, WaitState::Blocked, WaitKind::Futex, times);
    }

    fn made(&mut self, tid: i32, at: u64) {
        let (state, kind) = (WaitState::Started, WaitKind::Cpu);
        let wait = Wait {
            state,
            kind,
            ..Wait::default()
        };
        let times = (at * MS, at * MS + 1000);
        self.push((tid, 1), "app:start", times, Some(wait));
    }

    fn wakes(&mut self, at: u64, by: i32, woken: i32) {
        let (task, stack) = (self.task(by), self.stack("app:start;app:wake"));
        self.sketch.profile.wakes.push(Wake {
            time: at * MS,
            woken,
            task,
            stack,
            in_interrupt: false,
        });
    }

    /// The main thread is seen to run from 0 to `end`.
    pub(super) fn profile(mut self, end: u64) -> Profile {
        let main = self.sketch.profile.threads[0].tid;
        self.wakes(0, main, 999);
        self.wakes(end, main, 999);
        self.sketch.profile.threads.sort_by_key(|thread| thread.tid);
        self.sketch.profile.wakes.sort_by_key(|wake| wake.time);
        self.sketch.profile
    }
}

/// What is left of a critical path: functions that ran, in their order, with
/// ms.
fn functions(critical: &Critical) -> Vec<(i32, String, u64)> {
    let running = critical.parts.iter().filter(|part| part.doing == "running");
    running
        .map(|part| {
            let name = part.functions.first().cloned().unwrap_or_default();
            (part.tid, name, (part.ns + MS / 2) / MS)
        })
        .collect()
}

/// That these functions are on the path, in this order: thread, name, ms.
fn ran(critical: &Critical, expected: &[(i32, &str, u64)]) {
    let expected = expected.iter();
    let expected = expected.map(|&(tid, name, ms)| (tid, name.to_owned(), ms));
    assert_eq!(functions(critical), expected.collect::<Vec<_>>());
}

fn less(function: &str, factor: f64) -> Change {
    Change {
        text: function.to_owned(),
        function: function.to_owned(),
        factor,
    }
}

/// The path, and the estimate in ms of what `heavy` with a fifth less gives.
fn told(profile: &Profile) -> (Critical, u64) {
    let critical = critical(profile, &Kept::default(), Some(&less("heavy", 0.8))).expect("a path");
    assert!(
        critical.on_path_ns * 100 >= critical.elapsed_ns * 98,
        "{critical:?}"
    );
    let what_if = critical.what_if.clone().expect("asked for");
    let width = what_if.high_ns - what_if.low_ns;
    assert!(width * 10 <= critical.elapsed_ns, "{what_if:?}");
    (critical, (what_if.estimate_ns + MS / 2) / MS)
}

/// The main thread makes two, waits for both and runs 20 ms more.
fn fork(heavy: u64, light: u64) -> Profile {
    let mut run = Run::new(&[(1, "main"), (2, "heavy"), (3, "light")]);
    run.runs(1, "begin", (0, 10));
    let ends = [10 + heavy, 10 + light];
    for (tid, function, end) in [(2, "heavy", ends[0]), (3, "light", ends[1])] {
        run.made(tid, 10);
        run.runs(tid, function, (10, end));
    }
    run.blocked(1, (10, ends[0]));
    run.wakes(ends[0], 2, 1);
    if ends[0] < ends[1] {
        run.blocked(1, (ends[0], ends[1]));
        run.wakes(ends[1], 3, 1);
    }
    let joined = ends[0].max(ends[1]);
    run.runs(1, "last", (joined, joined + 20));
    run.profile(joined + 20)
}

#[test]
fn a_function_is_told_apart_by_who_called_it() {
    let mut run = Run::new(&[(1, "app")]);
    run.blocked(1, (0, 1));
    run.runs(1, "small;app:work", (1, 10));
    run.runs(1, "large;app:work", (10, 90));
    // The same but for what is far out.
    run.runs(1, "one;app:c;app:b;app:a;app:leaf", (90, 95));
    run.runs(1, "two;app:c;app:b;app:a;app:leaf", (95, 100));
    let critical = critical(&run.profile(100), &Kept::default(), None).expect("a path");
    let parts = critical.parts.iter().filter(|part| part.doing == "running");
    let parts: Vec<(String, u64, bool)> = parts
        .map(|part| {
            let ms = (part.ns + MS / 2) / MS;
            (part.functions.join(" < "), ms, part.callers_differ)
        })
        .collect();
    let expected = [
        ("work < small < start".to_owned(), 9, false),
        ("work < large < start".to_owned(), 80, false),
        ("leaf < a < b < c".to_owned(), 10, true),
    ];
    assert_eq!(parts, expected);
}

#[test]
fn the_longer_of_two_branches_is_the_path() {
    let (critical, estimate) = told(&fork(200, 100));
    ran(
        &critical,
        &[(1, "begin", 10), (2, "heavy", 200), (1, "last", 20)],
    );
    assert_eq!((critical.near.len(), estimate), (0, 190));
    // A thread that waits for its first CPU is in no function yet.
    let mut parts = critical.parts.iter();
    let begin = parts.find(|part| part.doing.ends_with("to begin"));
    let begin = begin.expect("a thread began");
    assert_eq!((begin.tid, begin.ns), (2, 1000));
    assert!(begin.functions.is_empty(), "{begin:?}");
}

#[test]
fn a_second_path_that_is_nearly_as_long_is_said_to_be_a_tie_and_bounds_what_is_won() {
    let profile = fork(200, 207);
    let (critical, estimate) = told(&profile);
    let names: Vec<String> = functions(&critical).into_iter().map(|it| it.1).collect();
    assert_eq!(names, ["begin", "light", "last"]);
    assert_eq!(critical.near.len(), 1, "{critical:?}");
    assert_eq!(critical.near[0].tid, 2);
    // Nothing is won with the branch that is not the path.
    assert_eq!(estimate, 237);
    // The other one had ended before it was waited for.
    let (critical, estimate) = told(&fork(200, 195));
    assert_eq!((critical.near.len(), critical.near[0].tid), (1, 3));
    assert_eq!(estimate, 225);
    let (critical, estimate) = told(&fork(200, 170));
    assert_eq!((critical.near.len(), estimate), (0, 200));
}

#[test]
fn of_two_stages_the_slower_one_is_the_path_after_its_first_item() {
    let mut run = Run::new(&[(1, "producer"), (2, "consumer")]);
    run.made(2, 0);
    run.blocked(2, (0, 2));
    run.wakes(2, 1, 2);
    for item in 0..10 {
        run.runs(1, "light", (2 * item, 2 * item + 2));
        run.runs(2, "heavy", (2 + 6 * item, 8 + 6 * item));
    }
    run.blocked(1, (20, 62));
    run.wakes(62, 2, 1);
    run.runs(1, "last", (62, 82));
    let (critical, estimate) = told(&run.profile(82));
    ran(
        &critical,
        &[(1, "light", 2), (2, "heavy", 60), (1, "last", 20)],
    );
    assert_eq!(estimate, 70);
}

#[test]
fn wakes_for_nothing_change_no_path() {
    let mut run = Run::new(&[(1, "main"), (2, "worker")]);
    run.made(2, 0);
    for nag in 0..10 {
        run.runs(2, "heavy", (10 * nag, 10 * nag + 10));
        run.blocked(1, (10 * nag, 10 * nag + 10));
        run.wakes(10 * nag + 10, 2, 1);
    }
    run.runs(1, "last", (100, 120));
    let (critical, estimate) = told(&run.profile(120));
    ran(&critical, &[(2, "heavy", 100), (1, "last", 20)]);
    assert_eq!(estimate, 100);
}

#[test]
fn a_wait_for_a_cpu_is_as_long_as_what_runs_there() {
    // All on one CPU: one runs 50 ms, the other waits for that.
    let mut run = Run::new(&[(91, "main"), (92, "heavy"), (93, "light")]);
    let wait = |run: &mut Run, tid, state, times| run.waits(tid, state, WaitKind::Cpu, times);
    wait(&mut run, 92, WaitState::Started, (0, 1));
    wait(&mut run, 93, WaitState::Started, (0, 51));
    run.blocked(91, (1, 101));
    run.runs(92, "heavy", (1, 51));
    run.runs(93, "light", (51, 101));
    run.wakes(101, 93, 91);
    run.runs(91, "last", (101, 121));
    let (critical, estimate) = told(&run.profile(121));
    assert_eq!(estimate, 111);
    // In another run the other may have the CPU first: 50 of 170 ms are such a wait,
    // a fifth of which is more than an interval may have.
    let what_if = critical.what_if.expect("asked for");
    let turns = 49 * 121 * MS / 1000;
    assert!(
        what_if.high_ns - what_if.estimate_ns >= turns,
        "{what_if:?}"
    );
}

#[test]
fn the_interval_holds_what_another_branch_would_leave() {
    let margin = |light| {
        let (critical, _) = told(&fork(100, light));
        let what_if = critical.what_if.expect("asked for");
        (what_if.high_ns - what_if.estimate_ns) / 100_000
    };
    // The shorter one may be as long as the other, or a tenth shorter than that.
    let (near, far) = (margin(96), margin(20));
    assert!(near >= 48, "{near}");
    assert!(far < 48, "{far}");
}

#[test]
fn other_programs_take_the_cpu_for_as_long_as_the_thread_needs_it() {
    let preempted = |run: &mut Run, times| run.waits(1, WaitState::Preempted, WaitKind::Cpu, times);
    let mut run = Run::new(&[(1, "main")]);
    run.runs(1, "light", (0, 40));
    preempted(&mut run, (40, 80));
    run.runs(1, "heavy", (80, 130));
    preempted(&mut run, (130, 230));
    run.runs(1, "heavy", (230, 280));
    let (critical, estimate) = told(&run.profile(280));
    // 20 ms of running and 20 ms of waiting less.
    assert_eq!(estimate, 240);
    let what_if = critical.what_if.expect("asked for");
    // What others take is not the same each time.
    assert!(what_if.low_ns <= 231 * MS, "{what_if:?}");
    assert!(what_if.high_ns >= 249 * MS, "{what_if:?}");
}

#[test]
fn a_thread_that_only_waited_for_the_path_is_no_tie() {
    // It was made early, waited, and ended just before the path went on.
    let mut run = Run::new(&[(1, "main"), (2, "heavy"), (3, "watcher")]);
    run.runs(1, "begin", (0, 10));
    run.made(2, 10);
    run.made(3, 10);
    run.runs(2, "heavy", (10, 210));
    run.blocked(3, (11, 205));
    run.wakes(205, 2, 3);
    run.runs(3, "light", (205, 207));
    run.blocked(1, (10, 210));
    run.wakes(210, 2, 1);
    run.runs(1, "last", (210, 230));
    let (critical, _) = told(&run.profile(230));
    assert_eq!(critical.near, []);
}

#[test]
fn a_branch_that_waited_for_a_cpu_as_long_as_the_path_is_a_tie() {
    // On a busy machine, both ran for little of their time.
    let mut run = Run::new(&[(1, "main"), (2, "heavy"), (3, "light")]);
    for (tid, end) in [(2, 210), (3, 205)] {
        run.made(tid, 0);
        run.runs(tid, "heavy", (1, 11));
        run.waits(tid, WaitState::Preempted, WaitKind::Cpu, (11, end - 5));
        run.runs(tid, "heavy", (end - 5, end));
    }
    run.blocked(1, (0, 210));
    run.wakes(210, 2, 1);
    run.runs(1, "last", (210, 230));
    let (critical, _) = told(&run.profile(230));
    assert_eq!(critical.near.len(), 1, "{critical:?}");
    assert_eq!(critical.near[0].tid, 3);
}

#[test]
fn what_a_timer_ends_stays_as_long() {
    let mut run = Run::new(&[(1, "main")]);
    run.runs(1, "heavy", (0, 50));
    run.waits(1, WaitState::Blocked, WaitKind::Sleep, (50, 90));
    run.runs(1, "heavy", (90, 140));
    let (critical, estimate) = told(&run.profile(140));
    assert_eq!(functions(&critical), [(1, "heavy".to_owned(), 100)]);
    assert!(
        critical
            .parts
            .iter()
            .any(|part| part.doing == "blocked: sleep")
    );
    assert_eq!(estimate, 120);
}

/// The second thread looks every 10 ms whether it is to end, from 1 to `end`.
fn looks(run: &mut Run, tid: i32, end: u64) {
    for from in (1..end).step_by(10) {
        let times = (from, (from + 10).min(end));
        run.waits(tid, WaitState::Blocked, WaitKind::Sleep, times);
    }
}

#[test]
fn a_thread_that_looks_whether_it_is_to_end_is_not_what_is_waited_for() {
    let mut run = Run::new(&[(1, "main"), (2, "ticker")]);
    run.made(2, 0);
    run.runs(1, "heavy", (0, 95));
    looks(&mut run, 2, 101);
    // A variable told it to end, and it is waited for.
    run.blocked(1, (95, 101));
    run.wakes(101, 2, 1);
    run.runs(1, "last", (101, 121));
    let (critical, estimate) = told(&run.profile(121));
    ran(&critical, &[(1, "heavy", 95), (1, "last", 20)]);
    assert_eq!((estimate, critical.near.len()), (102, 0));
    assert_eq!(critical.what_if.expect("asked for").functions, ["heavy"]);
}

#[test]
fn a_thread_that_sleeps_as_often_as_it_has_to_is_waited_for() {
    let mut run = Run::new(&[(1, "main"), (2, "sleeper")]);
    run.made(2, 0);
    run.runs(1, "heavy", (0, 50));
    looks(&mut run, 2, 101);
    // It had been waited for long before its last sleep.
    run.blocked(1, (50, 101));
    run.wakes(101, 2, 1);
    run.runs(1, "last", (101, 121));
    let (critical, estimate) = told(&run.profile(121));
    assert_eq!(
        functions(&critical).last(),
        Some(&(1, "last".to_owned(), 20))
    );
    let slept = critical
        .parts
        .iter()
        .any(|part| part.doing == "blocked: sleep");
    assert!(slept, "{critical:?}");
    assert_eq!(estimate, 121);
}

#[test]
fn a_thread_that_makes_something_each_time_it_wakes_is_waited_for() {
    let mut run = Run::new(&[(1, "main"), (2, "producer")]);
    run.made(2, 0);
    looks(&mut run, 2, 101);
    run.blocked(1, (0, 11));
    for at in (11..=101).step_by(10) {
        run.wakes(at, 2, 1);
        run.runs(1, "heavy", (at, at + 5));
        if at < 101 {
            run.blocked(1, (at + 5, at + 10));
        }
    }
    let (critical, estimate) = told(&run.profile(106));
    assert_eq!(
        functions(&critical).last(),
        Some(&(1, "heavy".to_owned(), 5))
    );
    // Of ten times only the last is not done before there is something again.
    assert_eq!(estimate, 105);
}

#[test]
fn who_looks_whether_another_is_done_waits_for_it() {
    let mut run = Run::new(&[(1, "main"), (2, "worker")]);
    run.made(2, 0);
    run.runs(2, "heavy", (0, 95));
    run.wakes(95, 2, 998);
    looks(&mut run, 1, 101);
    run.runs(1, "last", (101, 121));
    let (critical, estimate) = told(&run.profile(121));
    ran(&critical, &[(2, "heavy", 95), (1, "last", 20)]);
    // From its end until main looks it stays as long.
    assert_eq!(estimate, 102);
}

#[test]
fn a_lock_that_is_tried_again_and_again_is_one_wait() {
    let mut run = Run::new(&[(1, "main"), (2, "holder")]);
    run.made(2, 0);
    run.runs(2, "heavy", (0, 100));
    // It waits for 30 ms each time, and is woken in the last.
    for from in [1, 31, 61, 91] {
        run.blocked(1, (from, (from + 30).min(100)));
    }
    run.wakes(100, 2, 1);
    run.runs(1, "last", (100, 120));
    let (critical, estimate) = told(&run.profile(120));
    ran(&critical, &[(2, "heavy", 100), (1, "last", 20)]);
    assert_eq!(estimate, 100);
}

#[test]
fn who_is_asleep_when_the_process_ends_was_not_the_last_to_do_something() {
    let mut run = Run::new(&[(1, "main"), (2, "timer")]);
    run.made(2, 0);
    run.runs(1, "begin", (0, 1));
    run.blocked(1, (1, 2));
    run.runs(1, "heavy", (2, 300));
    // It did not come to its end, and who ended it is not known.
    run.blocked(2, (1, 301));
    run.wakes(301, 2, 998);
    let (critical, estimate) = told(&run.profile(300));
    assert_eq!(functions(&critical)[1..], [(1, "heavy".to_owned(), 298)]);
    assert_eq!(estimate, 241);
}

#[test]
fn hostile_times_end() {
    let mut run = Run::new(&[(1, "main"), (2, "other")]);
    // Each woke the other at once, again and again.
    for at in 0..5 {
        run.blocked(1, (3, 5));
        run.blocked(2, (3, 5));
        run.wakes(5, 1, 2);
        run.wakes(5, 2, 1);
        run.waits(1, WaitState::Preempted, WaitKind::Cpu, (at, at + 7));
    }
    let critical = critical(&run.profile(12), &Kept::default(), Some(&less("wait", 0.0)));
    assert!(critical.is_some());
}

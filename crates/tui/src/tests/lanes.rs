//! Lanes of threads on the timeline.

use super::Bench;
use crossterm::event::KeyCode;
use prof_profile::{
    Avma, Event, EventId, Futex, FutexId, Lifetime, Profile, Sample, TaskId, Wait, WaitKind,
    WaitState,
};
use prof_sketch::Sketch;

const MS: u64 = 1_000_000;

/// One thread that runs for 20 ms, waits for 60 ms and runs again; one that is
/// made at 40 ms and lives for 20 ms.
pub(super) fn profile() -> Profile {
    let mut sketch = Sketch::new();
    // Times are told from there on.
    sketch.profile.origin.time_range = Some((0, 100 * MS));
    sketch.profile.events[0].weight_is_ns = true;
    sketch.profile.events.push(Event {
        name: "offcpu-time".to_owned(),
        weight_is_ns: true,
        is_off_cpu: true,
        has_callchain: true,
        samples: 2,
        period: 63 * MS,
        ..Event::default()
    });
    let main = sketch.task(7, 7, "main");
    let worker = sketch.task(7, 8, "worker");
    sketch.sample(main, "app:main;app:parse", 10 * MS, 10 * MS);
    let mut wait = |task: TaskId, place: &str, (from, to): (u64, u64), (state, kind)| {
        let stack = sketch.stack(place);
        let samples = &mut sketch.profile.samples;
        let wait = samples.wait_id(Wait {
            state,
            kind,
            ..Wait::default()
        });
        samples.push(Sample {
            time: to * MS,
            period: (to - from) * MS,
            task,
            stack,
            cpu: Some(0),
            event: EventId(1),
            wait: Some(wait),
        });
    };
    wait(
        worker,
        "app:start",
        (40, 43),
        (WaitState::Started, WaitKind::Cpu),
    );
    wait(
        main,
        "app:main;app:get_lock",
        (20, 80),
        (WaitState::Blocked, WaitKind::Futex),
    );
    sketch.sample(main, "app:main;app:parse", 99 * MS, 10 * MS);
    for (tid, began, ended) in [(7, 0, 100), (8, 40, 60)] {
        sketch.profile.lifetimes.insert(
            tid,
            Lifetime {
                began: Some(began * MS),
                ended: Some(ended * MS),
            },
        );
    }
    sketch.profile
}

/// The signs of a lane.
fn signs(screen: &str, label: &str) -> String {
    let line = screen.lines().find(|line| line.starts_with(label));
    line.expect("a lane").chars().skip(18).collect()
}

#[test]
fn each_thread_has_a_lane_and_its_time_is_the_sum_of_what_it_did() {
    let mut bench = Bench::new(profile(), 118, 20);
    let screen = bench.keys("7").screen();
    assert!(screen.contains("lanes (o)"), "{screen}");
    let main = signs(&screen, "7 main");
    let count = |lane: &str, sign: char| lane.chars().filter(|&it| it == sign).count();
    assert_eq!((count(&main, '█'), count(&main, 'f')), (40, 60), "{screen}");
    let worker = signs(&screen, "8 worker");
    assert_eq!(
        (count(&worker, 'r'), count(&worker, '█')),
        (4, 17),
        "{screen}"
    );
    let lived = "7 main lived 100.0 ms: futex 60.0 ms, running 40.0 ms";
    assert!(screen.contains(lived), "{screen}");
    assert!(
        screen.contains("█ running  r for a CPU  f futex"),
        "{screen}"
    );
    let screen = bench.keys("j").screen();
    assert!(
        screen.contains("0 ns: the thread did not live then"),
        "{screen}"
    );
    assert!(screen.contains("8 worker lived 20.0 ms"), "{screen}");
}

#[test]
fn what_is_before_the_first_sample_has_a_sign() {
    let mut profile = profile();
    profile.origin.time_range = Some((5 * MS, 100 * MS));
    let screen = Bench::new(profile, 118, 20).keys("7j").screen();
    assert!(screen.contains("│-5.0 ms "), "{screen}");
    assert!(
        screen.contains("\n-5.0 ms: the thread did not live then"),
        "{screen}"
    );
}

#[test]
fn choosing_a_span_shows_its_stacks() {
    let mut bench = Bench::new(profile(), 118, 20);
    let screen = bench.keys("7\n").screen();
    // What it ran: the tree of one sample.
    assert!(
        screen.contains("parse") && !screen.contains("get_lock"),
        "{screen}"
    );
    assert!(screen.contains(" tid=7 main"), "{screen}");
    // Back, and to the wait: by the end of time ten samples before.
    let screen = bench.keys("u7").screen();
    assert!(screen.contains("8 worker"), "{screen}");
    for _ in 0..30 {
        bench.press(KeyCode::Right);
    }
    let screen = bench.screen();
    let told = "20.0 ms .. 80.0 ms (60.0 ms): futex, in get_lock < main; Enter shows";
    assert!(screen.contains(told), "{screen}");
    let screen = bench.keys("\n").screen();
    assert!(
        screen.contains("get_lock") && !screen.contains("parse"),
        "{screen}"
    );
    // A time in which it ran without being sampled.
    let screen = bench.keys("u7jj").press(KeyCode::Home).screen();
    assert!(screen.contains("did not live"), "{screen}");
    for _ in 0..50 {
        bench.press(KeyCode::Right);
    }
    let screen = bench.keys("\n").screen();
    assert!(
        screen.contains("no sample of it fell into that time"),
        "{screen}"
    );
}

#[test]
fn a_key_shows_the_locks_that_were_waited_for() {
    let mut profile = profile();
    profile.futexes.push(Futex {
        pid: 7,
        address: Avma(0x1230),
        variable: None,
    });
    let wait = (0..profile.samples.len()).find_map(|row| {
        let wait = profile.samples.wait_at(row).copied()?;
        (wait.kind == WaitKind::Futex).then_some((row, wait))
    });
    let (row, wait) = wait.expect("one");
    let futex = Some(FutexId(0));
    profile.samples.set_wait(row, Wait { futex, ..wait });
    let mut bench = Bench::new(profile, 100, 20);
    let screen = bench.keys("X").screen();
    assert!(
        screen.contains("60.0 ms waited in 1 wait for 1 futex"),
        "{screen}"
    );
    assert!(screen.contains("futex at 0x1230 (pid 7)"), "{screen}");
    assert!(screen.contains("100.0 % in get_lock < main"), "{screen}");
    let screen = bench.keys("^").screen();
    assert!(!screen.contains("0x1230"), "{screen}");
    // CPU time alone has none.
    let screen = bench.keys("WX").screen();
    assert!(screen.contains("W shows them"), "{screen}");
}

#[test]
fn the_mouse_chooses_a_span_by_two_clicks_and_drags_a_range() {
    let mut bench = Bench::new(profile(), 118, 20);
    let screen = bench.keys("7").screen();
    let row = screen.lines().position(|line| line.starts_with("7 main"));
    let row = u16::try_from(row.expect("a lane")).expect("small");
    bench.click(18 + 50, row);
    let screen = bench.screen();
    assert!(screen.contains("(60.0 ms): futex"), "{screen}");
    bench.click(18 + 50, row);
    let screen = bench.screen();
    assert!(
        screen.contains("get_lock") && !screen.contains("parse"),
        "{screen}"
    );
    // Samples by CPU are behind, without a cursor's lane.
    let screen = bench.keys("u7o").screen();
    assert!(screen.contains("by CPU (o)"), "{screen}");
    let screen = bench.keys("ooo").screen();
    assert!(screen.contains("lanes (o)"), "{screen}");
}

#[test]
fn two_recordings_have_no_lanes() {
    // Their threads have nothing to do with each other, whatever their ids.
    let mut bench = Bench::new(profile(), 118, 20);
    bench.app.compare(prof_report::model::RunsOfSides::ONE);
    let screen = bench.keys("7").screen();
    assert!(
        screen.contains("(o)") && !screen.contains("lanes (o)"),
        "{screen}"
    );
    let screen = bench.keys("oo").screen();
    assert!(!screen.contains("lanes (o)"), "{screen}");
}

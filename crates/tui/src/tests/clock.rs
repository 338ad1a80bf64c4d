//! The key of the clock.

use super::{Bench, sketch};
use prof_profile::{Event, EventId, Sample, Wait, WaitState};

/// The sketch with a wait in a function of its own.
pub(super) fn with_waits() -> Bench {
    let mut sketch = sketch();
    sketch.profile.events[0].weight_is_ns = true;
    sketch.profile.events.push(Event {
        name: "offcpu-time".to_owned(),
        weight_is_ns: true,
        is_off_cpu: true,
        has_callchain: true,
        samples: 1,
        period: 300,
        ..Event::default()
    });
    let task = sketch.task(100, 100, "server");
    let stack = sketch.stack("/bin/app:main;/bin/app:wait_for_input");
    let wait = sketch.profile.samples.wait_id(Wait {
        state: WaitState::Blocked,
        ..Wait::default()
    });
    sketch.profile.samples.push(Sample {
        time: 9_000_000,
        period: 300,
        task,
        stack,
        cpu: Some(0),
        event: EventId(1),
        wait: Some(wait),
    });
    Bench::new(sketch.profile, 100, 20)
}

#[test]
fn a_key_goes_from_cpu_time_to_waits_to_both_and_back() {
    let mut bench = with_waits();
    let mut shows = |keys: &str| {
        let screen = bench.keys(keys).screen();
        ["next_token", "wait_for_input"].map(|name| screen.contains(name))
    };
    assert_eq!(shows(""), [true, false]);
    assert_eq!(shows("W"), [true, false]);
    assert_eq!(shows("W"), [false, true]);
    assert_eq!(shows("W"), [true, true]);
    assert_eq!(shows("W"), [true, false]);
    assert_eq!(
        bench.app.shared.profile.as_ref().expect("one").events.len(),
        2
    );
}

#[test]
fn of_two_recordings_clock_and_locks_are_told_how_to_be_had() {
    for (key, told) in [
        ("W", "--diff BEFORE AFTER --clock"),
        ("X", "-i FILE --locks"),
    ] {
        let mut bench = with_waits();
        bench.app.shared.sides = Some(prof_report::model::RunsOfSides::ONE);
        let screen = bench.keys(key).screen();
        assert!(screen.contains(told), "{screen}");
        assert!(bench.app.shared.asks.is_empty());
    }
}

#[test]
fn a_recording_without_waits_says_so() {
    let mut bench = Bench::new(sketch().profile, 100, 20);
    let screen = bench.keys("W").screen();
    assert!(screen.contains("no waits"), "{screen}");
}

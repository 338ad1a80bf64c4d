//! What samples of a timer cost the program at very high rates.
//!
//! The kernel lowers the rate of counters whose samples take too much time
//! (kernel.perf_cpu_time_max_percent), and never that of the timers behind `cpu-clock` and
//! `task-clock`: where a sample costs as much as the period, a program hardly
//! goes on. What a sample costs is tried before, for some milliseconds, with a loop of our
//! own; at a rate that leaves this thread its time, or it would not come back.

use crate::planned::is_clock;
use prof_abi::{AttrFlags, EventAttr};
use prof_sys::{Event, Ring, Target};
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Below this rate it need not be tried, Hz.
const FAST: u64 = 25_000;
/// The rate of the tries, Hz.
const TRIED: u64 = 10_000;
/// So long is each try, and so often is it made: the best one counts.
const LASTS: Duration = Duration::from_millis(2);
const TRIES: usize = 3;
/// Pages of the ring that samples of the tries go to.
const PAGES: usize = 16;
/// Sampling that takes this part of a CPU is worth a word.
const MUCH: f64 = 0.5;
/// The part of a CPU that sampling shall take at the rate that is advised.
const ADVISED: f64 = 0.1;

/// A line for the user, if a program that is sampled so hardly goes on.
pub(crate) fn told(attr: &EventAttr) -> Option<String> {
    let is_fast = is_clock(attr) && attr.is_freq() && attr.sample_period >= FAST;
    let slower = is_fast.then(|| slower(attr)).flatten()?;
    line(attr.sample_period, (1.0 - 1.0 / slower) / TRIED as f64)
}

/// The line for a rate, Hz, where a sample takes so long, s.
fn line(hz: u64, sample: f64) -> Option<String> {
    let taken = sample * hz as f64;
    (taken >= MUCH).then(|| {
        let advised = ADVISED / sample;
        // Of its digits the first.
        let step = 10_f64.powf(advised.max(1.0).log10().floor());
        let advised = (advised / step).floor() * step;
        format!(
            "a sample takes {:.0} us of a CPU here, at {hz} Hz {:.0} % of it: the program hardly \
             goes on\n  try: -F {advised:.0}",
            1e6 * sample,
            100.0 * taken.min(1.0)
        )
    })
}

/// How many times slower this thread is when it is sampled like this [`TRIED`] times a
/// second; `None` if that cannot be tried.
fn slower(attr: &EventAttr) -> Option<f64> {
    let of_others = AttrFlags::INHERIT | AttrFlags::ENABLE_ON_EXEC;
    let attr = EventAttr {
        sample_period: TRIED,
        flags: attr.flags.without(of_others).with(AttrFlags::DISABLED),
        ..attr.clone()
    };
    let event = Event::open(&attr, Target::THIS, None).ok()?;
    // Without one a sample costs less, and something is known.
    let ring = Ring::map_overwriting(&event, PAGES);
    let (mut alone, mut sampled) = (0, 0);
    for _ in 0..TRIES {
        alone = steps().max(alone);
        event.enable().ok()?;
        sampled = steps().max(sampled);
        event.disable().ok()?;
    }
    drop(ring);
    Some(alone as f64 / sampled.max(1) as f64)
}

/// Steps of a loop in [`LASTS`].
fn steps() -> u64 {
    let began = Instant::now();
    let mut steps = 0_u64;
    while began.elapsed() < LASTS {
        for _ in 0..64 {
            steps = black_box(steps + 1);
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::{line, slower, told};
    use prof_abi::{AttrFlags, EventAttr, SampleType, Software, event_kind};

    fn clock(hz: u64) -> EventAttr {
        EventAttr {
            kind: event_kind::SOFTWARE,
            config: Software::CPU_CLOCK.0,
            sample_period: hz,
            sample_type: SampleType::IP | SampleType::TID,
            flags: AttrFlags::FREQ | AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV,
            ..EventAttr::default()
        }
    }

    #[test]
    fn a_rate_that_leaves_a_program_its_time_is_advised() {
        let told = line(100_000, 9.7e-6).expect("nearly all of it");
        assert!(told.contains("a sample takes 10 us"), "{told}");
        assert!(told.contains("at 100000 Hz 97 % of it"), "{told}");
        assert!(told.ends_with("try: -F 10000"), "{told}");
        let more = line(100_000, 40e-6).expect("more than there is");
        assert!(
            more.contains("100 % of it") && more.ends_with("-F 2000"),
            "{more}"
        );
        assert_eq!(line(25_000, 9.7e-6), None);
        assert_eq!(line(100_000, -1e-6), None);
        assert_eq!(line(100_000, 0.0), None);
    }

    #[test]
    fn usual_rates_are_not_tried() {
        assert_eq!(told(&clock(4000)), None);
        match slower(&clock(1000)) {
            Some(slower) => assert!((0.2..20.0).contains(&slower), "{slower}"),
            None => println!("skipped: a clock of this thread cannot be opened"),
        }
    }
}

//! From readings to what is shown: means over runs, scaled units, and the
//! figures that perf derives beside the counts.

use prof_abi::event_kind;
use std::time::Duration;

/// Mean and spread of one quantity over runs (Welford's method).
#[derive(Debug, Clone, Copy, Default)]
pub struct Series {
    runs: u64,
    mean: f64,
    squares: f64,
}

impl Series {
    /// Adds the value of a run.
    pub fn push(&mut self, value: f64) {
        self.runs += 1;
        let delta = value - self.mean;
        self.mean += delta / self.runs as f64;
        self.squares += delta * (value - self.mean);
    }

    /// The mean, 0 without runs.
    pub fn mean(&self) -> f64 {
        self.mean
    }

    /// The standard error of the mean, 0 with fewer than two runs.
    pub fn error(&self) -> f64 {
        if self.runs < 2 {
            return 0.0;
        }
        let variance = self.squares / (self.runs - 1) as f64;
        (variance / self.runs as f64).sqrt()
    }

    /// The same in percent of the mean.
    pub fn error_percent(&self) -> f64 {
        if self.mean == 0.0 {
            0.0
        } else {
            100.0 * self.error() / self.mean
        }
    }
}

/// What stands in the column of counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Amount {
    /// A whole number from one run.
    Exact(u64),
    /// A mean over runs, or a value with a unit, and its decimals.
    Number(f64, usize),
    /// Never on the hardware, or not visible to this user.
    NotCounted,
    /// This machine lacks the event.
    NotSupported,
}

/// A figure derived from counts.
#[derive(Debug, Clone, PartialEq)]
pub struct Metric {
    /// Its value.
    pub value: f64,
    /// What it is, or its unit.
    pub unit: String,
    /// How it is written.
    pub style: MetricStyle,
}

/// How a figure is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricStyle {
    /// Three decimals.
    Plain,
    /// Two decimals.
    Ratio,
    /// Two decimals and a percent sign.
    Percent,
}

/// An event's line.
#[derive(Debug, Clone, PartialEq)]
pub struct CountRow {
    /// The event.
    pub name: String,
    /// `msec` for clocks, the PMU's unit, or nothing.
    pub unit: String,
    /// The count.
    pub amount: Amount,
    /// Spread over runs, percent of the mean; 0 for one run.
    pub noise: f64,
    /// ns on the hardware, mean over runs.
    pub running: u64,
    /// Share of the enabled time, percent.
    pub running_percent: f64,
    /// What follows from it.
    pub metric: Option<Metric>,
}

/// An event that is counted.
#[derive(Debug, Clone, Default)]
pub struct CountedEvent {
    /// Its name, as shown.
    pub name: String,
    /// `type` of its attr.
    pub kind: u32,
    /// `config` of its attr.
    pub config: u64,
    /// Whether this machine has it.
    pub supported: bool,
    /// Whether this user may not see where it occurs.
    pub blind: bool,
    /// Factor and unit by which the PMU wants it shown.
    pub scale: Option<(f64, String)>,
}

/// What an event counted in one run or one interval.
#[derive(Debug, Clone, Copy, Default)]
pub struct Count {
    /// Events, scaled to the time it was enabled; `None` if it never was on
    /// the hardware.
    pub events: Option<u64>,
    /// ns for which it was enabled.
    pub enabled: u64,
    /// ns for which it was on the hardware.
    pub running: u64,
}

/// The counts of one event over runs.
#[derive(Debug, Clone)]
pub struct EventFigures {
    event: CountedEvent,
    counts: Series,
    enabled: Series,
    running: Series,
    last: Option<u64>,
}

impl EventFigures {
    /// Of an event, before it is counted.
    pub fn new(event: CountedEvent) -> Self {
        Self {
            event,
            counts: Series::default(),
            enabled: Series::default(),
            running: Series::default(),
            last: None,
        }
    }

    /// Adds a run, or replaces nothing: an interval has figures of its own.
    pub fn push(&mut self, count: Count) {
        self.last = count.events;
        self.counts.push(self.last.unwrap_or(0) as f64);
        self.enabled.push(count.enabled as f64);
        self.running.push(count.running as f64);
    }

    fn is(&self, kind: u32, config: u64) -> bool {
        self.event.kind == kind && self.event.config == config && self.event.supported
    }

    fn is_clock(&self) -> bool {
        self.event.kind == event_kind::SOFTWARE && self.event.config <= 1
    }

    fn is_counted(&self) -> bool {
        self.event.supported && !self.event.blind && self.running.mean() > 0.0
    }

    fn amount(&self) -> Amount {
        const NS_PER_MS: f64 = 1e6;
        if !self.event.supported {
            Amount::NotSupported
        } else if !self.is_counted() {
            Amount::NotCounted
        } else if self.is_clock() {
            Amount::Number(self.counts.mean() / NS_PER_MS, 2)
        } else if let Some((factor, _)) = self.event.scale.as_ref().filter(|(by, _)| *by != 1.0) {
            Amount::Number(self.counts.mean() * factor, 2)
        } else if let (1, Some(exact)) = (self.counts.runs, self.last) {
            Amount::Exact(exact)
        } else {
            Amount::Number(self.counts.mean(), 0)
        }
    }
}

/// The lines of all events; `elapsed` is the time they were counted, in ns,
/// mean over runs.
pub fn rows(events: &[EventFigures], elapsed: f64) -> Vec<CountRow> {
    let row = |event: &EventFigures| {
        let unit = match (&event.event.scale, event.is_clock()) {
            (_, true) => "msec",
            (Some((_, unit)), false) => unit,
            (None, false) => "",
        };
        let enabled = event.enabled.mean();
        CountRow {
            name: event.event.name.clone(),
            unit: unit.to_owned(),
            amount: event.amount(),
            noise: event.counts.error_percent(),
            running: event.running.mean() as u64,
            running_percent: if enabled > 0.0 {
                (100.0 * event.running.mean() / enabled).min(100.0)
            } else {
                100.0
            },
            metric: if event.is_counted() {
                metric(event, events, elapsed)
            } else {
                None
            },
        }
    };
    events.iter().map(row).collect()
}

const HARDWARE: u32 = event_kind::HARDWARE;
const CYCLES: u64 = 0;
const INSTRUCTIONS: u64 = 1;
const CACHE_REFERENCES: u64 = 2;
const CACHE_MISSES: u64 = 3;
const BRANCHES: u64 = 4;
const BRANCH_MISSES: u64 = 5;
const STALLED_FRONTEND: u64 = 7;
const STALLED_BACKEND: u64 = 8;

fn metric(event: &EventFigures, events: &[EventFigures], elapsed: f64) -> Option<Metric> {
    let count = event.counts.mean();
    if event.is_clock() {
        let value = if elapsed > 0.0 { count / elapsed } else { 0.0 };
        return Some(Metric {
            value,
            unit: "CPUs utilized".to_owned(),
            style: MetricStyle::Plain,
        });
    }
    let other = |kind, config| {
        let found = events.iter().find(|other| other.is(kind, config));
        found
            .map(|other| other.counts.mean())
            .filter(|&mean| mean > 0.0)
    };
    let share = |of: u64, what: &str| {
        Some(Metric {
            value: 100.0 * count / other(HARDWARE, of)?,
            unit: format!("of all {what}"),
            style: MetricStyle::Percent,
        })
    };
    let particular = match (event.event.kind, event.event.config) {
        (HARDWARE, INSTRUCTIONS) => other(HARDWARE, CYCLES).map(|cycles| Metric {
            value: count / cycles,
            unit: "insn per cycle".to_owned(),
            style: MetricStyle::Ratio,
        }),
        (HARDWARE, BRANCH_MISSES) => share(BRANCHES, "branches"),
        (HARDWARE, CACHE_MISSES) => share(CACHE_REFERENCES, "cache refs"),
        (HARDWARE, STALLED_FRONTEND) => idle(count, other(HARDWARE, CYCLES), "frontend"),
        (HARDWARE, STALLED_BACKEND) => idle(count, other(HARDWARE, CYCLES), "backend"),
        (event_kind::CACHE, config) => cache_misses(count, config, &other),
        _ => None,
    };
    particular.or_else(|| rate(event, events))
}

fn idle(count: f64, cycles: Option<f64>, side: &str) -> Option<Metric> {
    Some(Metric {
        value: 100.0 * count / cycles?,
        unit: format!("{side} cycles idle"),
        style: MetricStyle::Percent,
    })
}

/// Misses of a cache against its accesses by the same operation.
fn cache_misses(
    count: f64,
    config: u64,
    other: &impl Fn(u32, u64) -> Option<f64>,
) -> Option<Metric> {
    const MISS: u64 = 1 << 16;
    const NAMES: [&str; 6] = [
        "L1-dcache",
        "L1-icache",
        "LL-cache",
        "dTLB cache",
        "iTLB cache",
        "branches",
    ];
    if config & MISS == 0 {
        return None;
    }
    let accesses = other(event_kind::CACHE, config & !MISS)?;
    let name = NAMES.get((config & 0xff) as usize)?;
    Some(Metric {
        value: 100.0 * count / accesses,
        unit: format!("of all {name} accesses"),
        style: MetricStyle::Percent,
    })
}

/// Events per second of CPU time, if a clock is counted too; GHz for cycles.
fn rate(event: &EventFigures, events: &[EventFigures]) -> Option<Metric> {
    let clock = events
        .iter()
        .find(|other| other.is_clock() && other.is_counted())?;
    let per_ns = event.counts.mean() / clock.counts.mean();
    let (value, unit) = if event.is(HARDWARE, CYCLES) {
        (per_ns, "GHz")
    } else {
        let per_second = per_ns * 1e9;
        match per_second {
            rate if rate >= 1e9 => (rate / 1e9, "G/sec"),
            rate if rate >= 1e6 => (rate / 1e6, "M/sec"),
            rate if rate >= 1e3 => (rate / 1e3, "K/sec"),
            rate => (rate, "/sec"),
        }
    };
    Some(Metric {
        value,
        unit: unit.to_owned(),
        style: MetricStyle::Plain,
    })
}

/// Times of all runs.
#[derive(Debug, Clone, Copy, Default)]
pub struct Times {
    /// From start to end, ns.
    pub elapsed: Series,
    /// CPU time of the command in user mode, ns.
    pub user: Series,
    /// The same in the kernel.
    pub system: Series,
}

impl Times {
    /// Adds a run.
    pub fn push(&mut self, elapsed: Duration, user: Duration, system: Duration) {
        self.elapsed.push(elapsed.as_nanos() as f64);
        self.user.push(user.as_nanos() as f64);
        self.system.push(system.as_nanos() as f64);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{Amount, Count, CountedEvent, EventFigures, MetricStyle, Series, rows};

    /// Figures of an event with one count per run, on the hardware all the
    /// time.
    pub(crate) fn figures(name: &str, kind: u32, config: u64, counts: &[u64]) -> EventFigures {
        let mut figures = EventFigures::new(CountedEvent {
            name: name.to_owned(),
            kind,
            config,
            supported: !counts.is_empty(),
            ..CountedEvent::default()
        });
        for &value in counts {
            figures.push(Count {
                events: Some(value),
                enabled: 1000,
                running: 1000,
            });
        }
        figures
    }

    #[test]
    fn the_spread_is_the_standard_error_of_the_mean() {
        let mut series = Series::default();
        for value in [2.0, 4.0, 4.0, 6.0] {
            series.push(value);
        }
        assert_eq!(series.mean(), 4.0);
        // Variance 8/3, over 4 runs 2/3.
        assert!((series.error() - (2.0_f64 / 3.0).sqrt()).abs() < 1e-12);
        assert_eq!(Series::default().error_percent(), 0.0);
    }

    #[test]
    fn counts_of_one_run_are_exact_and_means_are_not() {
        let large = (1 << 53) + 1;
        let one = rows(&[figures("instructions", 0, 1, &[large])], 1.0);
        assert_eq!(one[0].amount, Amount::Exact(large));
        let two = rows(&[figures("instructions", 0, 1, &[1, 2])], 1.0);
        assert_eq!(two[0].amount, Amount::Number(1.5, 0));
        let none = rows(&[figures("cycles", 0, 0, &[])], 1.0);
        assert_eq!(none[0].amount, Amount::NotSupported);
    }

    #[test]
    fn figures_are_those_of_perf() {
        let events = [
            figures("task-clock", 1, 1, &[2_000_000]),
            figures("page-faults", 1, 2, &[50]),
            figures("cycles", 0, 0, &[6_000_000]),
            figures("instructions", 0, 1, &[12_000_000]),
            figures("branches", 0, 4, &[1000]),
            figures("branch-misses", 0, 5, &[10]),
        ];
        let shown: Vec<_> = rows(&events, 4_000_000.0)
            .into_iter()
            .map(|row| {
                row.metric
                    .map(|metric| (metric.value, metric.unit, metric.style))
            })
            .collect();
        let metric = |value, unit: &str, style| Some((value, unit.to_owned(), style));
        let plain = MetricStyle::Plain;
        assert_eq!(shown[0], metric(0.5, "CPUs utilized", plain));
        assert_eq!(shown[1], metric(25.0, "K/sec", plain));
        assert_eq!(shown[2], metric(3.0, "GHz", plain));
        assert_eq!(shown[3], metric(2.0, "insn per cycle", MetricStyle::Ratio));
        assert_eq!(shown[4], metric(500.0, "K/sec", plain));
        assert_eq!(
            shown[5],
            metric(1.0, "of all branches", MetricStyle::Percent)
        );
    }

    #[test]
    fn what_was_never_on_the_hardware_is_not_counted() {
        let mut event = figures("cycles", 0, 0, &[]);
        event.event.supported = true;
        event.push(Count {
            events: None,
            enabled: 10,
            running: 0,
        });
        let row = rows(&[event], 1.0).remove(0);
        assert_eq!((row.amount, row.metric), (Amount::NotCounted, None));
        assert_eq!(row.running_percent, 0.0);
    }
}

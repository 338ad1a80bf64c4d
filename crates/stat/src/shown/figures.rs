//! From readings to what is shown: means over runs and scaled units.

use super::label::Label;
use crate::aggregate::{Grouped, Id};
use crate::metric::Metric;
use crate::metrics::Metrics;
use prof_abi::event_kind;
use std::collections::BTreeMap;
use std::time::Duration;

/// Mean and spread of one quantity over runs (Welford's method).
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Series {
    runs: u64,
    mean: f64,
    squares: f64,
}

impl Series {
    /// Adds the value of a run.
    pub(crate) fn push(&mut self, value: f64) {
        self.runs += 1;
        let delta = value - self.mean;
        self.mean += delta / self.runs as f64;
        self.squares += delta * (value - self.mean);
    }

    /// The mean, 0 without runs.
    pub(crate) fn mean(&self) -> f64 {
        self.mean
    }

    /// The standard error of the mean, 0 with fewer than two runs.
    pub(crate) fn error(&self) -> f64 {
        if self.runs < 2 {
            return 0.0;
        }
        let variance = self.squares / (self.runs - 1) as f64;
        (variance / self.runs as f64).sqrt()
    }

    /// The same in percent of the mean.
    pub(crate) fn error_percent(&self) -> f64 {
        if self.mean == 0.0 {
            0.0
        } else {
            100.0 * self.error() / self.mean
        }
    }
}

/// What stands in the column of counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Amount {
    /// A whole number from one run.
    Exact(u64),
    /// A mean over runs, or a value with a unit, and its decimals.
    Number(f64, usize),
    /// Never on the hardware, or not visible to this user.
    NotCounted,
    /// This machine lacks the event.
    NotSupported,
}

/// An event's line.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CountRow {
    /// Whose counts.
    pub(crate) label: Label,
    /// The cgroup whose tasks alone were counted, if some event has one.
    pub(crate) cgroup: Option<String>,
    /// The event.
    pub(crate) name: String,
    /// `msec` for clocks, the PMU's unit, or nothing.
    pub(crate) unit: String,
    /// The count.
    pub(crate) amount: Amount,
    /// Spread over runs, percent of the mean; 0 for one run.
    pub(crate) noise: f64,
    /// ns on the hardware, mean over runs.
    pub(crate) running: u64,
    /// Share of the enabled time, percent.
    pub(crate) running_percent: f64,
    /// What follows from it; each but the first has a line of its own.
    pub(crate) metrics: Vec<Metric>,
}

/// An event that is counted.
#[derive(Debug, Clone)]
pub(crate) struct CountedEvent {
    /// Its name, as shown.
    pub(crate) name: String,
    /// `type` of its attr.
    pub(crate) kind: u32,
    /// `config` of its attr.
    pub(crate) config: u64,
    /// Whether this machine has it.
    pub(crate) supported: bool,
    /// Whether this user may not see where it occurs.
    pub(crate) blind: bool,
    /// Unit in which it is shown.
    pub(crate) unit: String,
    /// Factor to that unit.
    pub(crate) scale: f64,
    /// The cgroup whose tasks alone are counted.
    pub(crate) cgroup: Option<String>,
}

impl CountedEvent {
    /// An event without a unit, unless it is a clock: ns are shown as msec.
    pub(crate) fn new(name: &str, kind: u32, config: u64) -> Self {
        let is_clock = is_clock(kind, config);
        Self {
            name: name.to_owned(),
            kind,
            config,
            supported: true,
            blind: false,
            unit: if is_clock { "msec" } else { "" }.to_owned(),
            scale: if is_clock { 1e-6 } else { 1.0 },
            cgroup: None,
        }
    }
}

fn is_clock(kind: u32, config: u64) -> bool {
    kind == event_kind::SOFTWARE && config <= 1
}

/// The counts of one event by those of one [`Id`], over runs.
#[derive(Debug, Clone, Default)]
pub(crate) struct GroupFigures {
    members: usize,
    pub(super) counts: Series,
    enabled: Series,
    running: Series,
    last: Option<u64>,
}

impl GroupFigures {
    pub(super) fn label(&self, id: &Id) -> Label {
        Label {
            id: id.clone(),
            members: self.members,
        }
    }
}

/// The counts of one event over runs.
#[derive(Debug, Clone)]
pub(crate) struct EventFigures {
    pub(crate) event: CountedEvent,
    pub(crate) groups: BTreeMap<Id, GroupFigures>,
}

impl EventFigures {
    /// Of an event, before it is counted.
    pub(crate) fn new(event: CountedEvent) -> Self {
        Self {
            event,
            groups: BTreeMap::new(),
        }
    }

    /// Adds a run; an interval has figures of its own.
    pub(crate) fn push(&mut self, groups: Vec<Grouped>) {
        for group in groups {
            let figures = self.groups.entry(group.id).or_default();
            figures.members = group.members;
            figures.last = group.events;
            figures.counts.push(group.events.unwrap_or(0) as f64);
            figures.enabled.push(group.enabled as f64);
            figures.running.push(group.running as f64);
        }
    }

    /// Its mean by those of `id`, if it was counted.
    pub(crate) fn mean(&self, id: &Id) -> Option<f64> {
        let group = self.groups.get(id)?;
        self.is_counted(group).then(|| group.counts.mean())
    }

    pub(crate) fn is(&self, kind: u32, config: u64) -> bool {
        self.event.kind == kind && self.event.config == config && self.event.supported
    }

    pub(crate) fn is_clock(&self) -> bool {
        is_clock(self.event.kind, self.event.config)
    }

    pub(super) fn is_counted(&self, group: &GroupFigures) -> bool {
        let counted = group.running.mean() > 0.0 && group.last.is_some();
        self.event.supported && !self.event.blind && counted
    }

    /// The same with a count of 1 by all, if it can be counted.
    pub(super) fn as_if_counted(&self) -> Self {
        let mut counted = Self::new(self.event.clone());
        let one = Grouped {
            id: Id::All,
            members: 1,
            events: Some(1),
            enabled: 1,
            running: 1,
        };
        counted.push(vec![one]);
        counted
    }

    fn amount(&self, group: &GroupFigures) -> Amount {
        let scale = self.event.scale;
        // As perf: a factor that is no whole number shows two decimals.
        let decimals = if scale.fract() == 0.0 { 0 } else { 2 };
        if !self.event.supported {
            Amount::NotSupported
        } else if !self.is_counted(group) {
            Amount::NotCounted
        } else if let (1, Some(exact), true) = (group.counts.runs, group.last, scale == 1.0) {
            Amount::Exact(exact)
        } else {
            Amount::Number(group.counts.mean() * scale, decimals)
        }
    }

    pub(super) fn row(&self, id: &Id, group: &GroupFigures, metrics: Vec<Metric>) -> CountRow {
        let enabled = group.enabled.mean();
        CountRow {
            label: group.label(id),
            cgroup: self.event.cgroup.clone(),
            name: self.event.name.clone(),
            unit: self.event.unit.clone(),
            amount: self.amount(group),
            noise: group.counts.error_percent(),
            running: group.running.mean() as u64,
            running_percent: if enabled > 0.0 {
                (100.0 * group.running.mean() / enabled).min(100.0)
            } else {
                100.0
            },
            metrics,
        }
    }
}

/// How counts become lines.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Layout<'a> {
    /// The time they were counted, ns, mean over runs; 0 if that is not known.
    pub(crate) elapsed: f64,
    /// All events of a group before the next group.
    pub(crate) by_group: bool,
    /// No lines for threads that did nothing.
    pub(crate) without_zeros: bool,
    /// What the user wants to see derived.
    pub(crate) metrics: &'a Metrics,
}

/// Times of all runs.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Times {
    /// From start to end, ns.
    pub(crate) elapsed: Series,
    /// CPU time of the command in user mode, ns.
    pub(crate) user: Series,
    /// The same in the kernel.
    pub(crate) system: Series,
}

impl Times {
    /// Adds a run.
    pub(crate) fn push(&mut self, elapsed: Duration, user: Duration, system: Duration) {
        self.elapsed.push(elapsed.as_nanos() as f64);
        self.user.push(user.as_nanos() as f64);
        self.system.push(system.as_nanos() as f64);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{Amount, CountRow, CountedEvent, EventFigures, Layout, Series};
    use crate::aggregate::{Grouped, Id};
    use crate::metrics::Metrics;

    fn group(id: Id, events: Option<u64>) -> Grouped {
        Grouped {
            id,
            members: 1,
            events,
            enabled: 1000,
            running: if events.is_some() { 1000 } else { 0 },
        }
    }

    /// Figures of an event with one count per run, on the hardware all the
    /// time.
    pub(crate) fn figures(name: &str, kind: u32, config: u64, counts: &[u64]) -> EventFigures {
        let mut event = CountedEvent::new(name, kind, config);
        event.supported = !counts.is_empty();
        let mut figures = EventFigures::new(event);
        for &value in counts {
            figures.push(vec![group(Id::All, Some(value))]);
        }
        if counts.is_empty() {
            let none = Grouped {
                enabled: 0,
                members: 0,
                ..group(Id::All, None)
            };
            figures.push(vec![none]);
        }
        figures
    }

    /// Their lines after so many ns.
    pub(crate) fn rows(events: &[EventFigures], elapsed: f64) -> Vec<CountRow> {
        let layout = Layout {
            elapsed,
            by_group: false,
            without_zeros: false,
            metrics: &Metrics::default(),
        };
        crate::shown::rows::rows(events, &layout)
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
    fn what_was_never_on_the_hardware_is_not_counted() {
        let mut event = EventFigures::new(CountedEvent::new("cycles", 0, 0));
        event.push(vec![group(Id::All, None)]);
        let row = rows(&[event], 1.0).remove(0);
        assert_eq!((row.amount, row.metrics.len()), (Amount::NotCounted, 0));
        assert_eq!(row.running_percent, 0.0);
    }

    #[test]
    fn lines_go_by_event_or_by_group_as_perfs() {
        let event = |name| {
            let mut event = EventFigures::new(CountedEvent::new(name, 1, 2));
            event.push(vec![
                group(Id::Socket(0), Some(1)),
                group(Id::Socket(1), Some(2)),
            ]);
            event
        };
        let names = |by_group| {
            let layout = Layout {
                elapsed: 0.0,
                by_group,
                without_zeros: false,
                metrics: &Metrics::default(),
            };
            let rows = crate::shown::rows::rows(&[event("a"), event("b")], &layout);
            let names = rows
                .iter()
                .map(|row| format!("{}{:?}", row.name, row.label.id));
            names.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names(false), "aSocket(0) aSocket(1) bSocket(0) bSocket(1)");
        assert_eq!(names(true), "aSocket(0) bSocket(0) aSocket(1) bSocket(1)");
    }

    #[test]
    fn a_unit_has_decimals_only_where_its_factor_has() {
        let mut event = CountedEvent::new("power/energy-pkg/", 9, 2);
        (event.scale, event.unit) = (0.5, "Joules".to_owned());
        let mut figures = EventFigures::new(event);
        figures.push(vec![group(Id::All, Some(3))]);
        let shown = rows(&[figures], 1.0).remove(0);
        assert_eq!(
            (shown.amount, shown.unit.as_str()),
            (Amount::Number(1.5, 2), "Joules")
        );
        let mut event = CountedEvent::new("data_reads", 9, 2);
        event.scale = 64.0;
        let mut figures = EventFigures::new(event);
        figures.push(vec![group(Id::All, Some(3))]);
        assert_eq!(
            rows(&[figures], 1.0).remove(0).amount,
            Amount::Number(192.0, 0)
        );
    }
}

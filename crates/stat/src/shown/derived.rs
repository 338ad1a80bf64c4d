//! The figures that perf derives beside the counts (perf 6.1, stat-shadow).

use super::figures::{EventFigures, Layout};
use crate::aggregate::Id;
use crate::metric::{Metric, MetricStyle};
use prof_abi::event_kind;

const HARDWARE: u32 = event_kind::HARDWARE;
const CYCLES: u64 = 0;
const INSTRUCTIONS: u64 = 1;
const CACHE_REFERENCES: u64 = 2;
const CACHE_MISSES: u64 = 3;
const BRANCHES: u64 = 4;
const BRANCH_MISSES: u64 = 5;
const STALLED_FRONTEND: u64 = 7;
const STALLED_BACKEND: u64 = 8;

/// A count, and those beside it from which something follows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Related<'a> {
    /// All events.
    pub(crate) events: &'a [EventFigures],
    /// The place of the one that the line is of.
    pub(crate) index: usize,
    /// Whose counts.
    pub(crate) id: &'a Id,
    /// For the time and the metrics asked for.
    pub(crate) layout: &'a Layout<'a>,
}

impl Related<'_> {
    /// What follows from the count of the line.
    fn metrics(&self) -> Vec<Metric> {
        let asked = self.layout.metrics;
        if !asked.is_empty() {
            let mean = |event: usize| self.events.get(event)?.mean(self.id);
            return asked.at(self.index, self.layout.elapsed / 1e9, mean);
        }
        let (Some(event), Some(count)) = (self.events.get(self.index), self.count()) else {
            return Vec::new();
        };
        if event.is_clock() {
            let elapsed = self.layout.elapsed;
            let used = Metric {
                value: count / elapsed,
                unit: "CPUs utilized".to_owned(),
                style: MetricStyle::Plain,
            };
            return Vec::from_iter((elapsed > 0.0).then_some(used));
        }
        let particular = self.particular(event, count);
        if particular.is_empty() {
            Vec::from_iter(self.rate(event, count))
        } else {
            particular
        }
    }

    /// The names of what follows, in a table of nothing else.
    pub(crate) fn column_names(&self) -> Vec<String> {
        let Some(event) = self.events.get(self.index) else {
            return Vec::new();
        };
        let metrics = self.metrics_if_counted().into_iter();
        metrics.map(|it| it.alone(&event.event.name).unit).collect()
    }

    /// What follows, under this name.
    pub(crate) fn column(&self, name: &str) -> Option<Metric> {
        let event = &self.events.get(self.index)?.event;
        let metrics = self.metrics_if_counted().into_iter();
        metrics
            .map(|metric| metric.alone(&event.name))
            .find(|metric| metric.unit == name)
    }

    /// What follows from the count of the line, if there is one.
    pub(crate) fn metrics_if_counted(&self) -> Vec<Metric> {
        match self.count() {
            Some(_) => self.metrics(),
            None => Vec::new(),
        }
    }

    fn count(&self) -> Option<f64> {
        self.events.get(self.index)?.mean(self.id)
    }

    /// The mean of another event with the same tasks, unless it is 0.
    fn other(&self, kind: u32, config: u64) -> Option<f64> {
        let cgroup = &self.events.get(self.index)?.event.cgroup;
        let is_it = |other: &&EventFigures| other.is(kind, config) && other.event.cgroup == *cgroup;
        let mean = self.events.iter().find(is_it)?.mean(self.id)?;
        (mean > 0.0).then_some(mean)
    }

    fn particular(&self, event: &EventFigures, count: f64) -> Vec<Metric> {
        let share = |of: u64, what: &str| {
            percent(count, self.other(HARDWARE, of), &format!("of all {what}"))
        };
        let cycles = self.other(HARDWARE, CYCLES);
        let metric = match (event.event.kind, event.event.config) {
            (HARDWARE, INSTRUCTIONS) => return self.of_instructions(count),
            (HARDWARE, BRANCH_MISSES) => share(BRANCHES, "branches"),
            (HARDWARE, CACHE_MISSES) => share(CACHE_REFERENCES, "cache refs"),
            (HARDWARE, STALLED_FRONTEND) => percent(count, cycles, "frontend cycles idle"),
            (HARDWARE, STALLED_BACKEND) => percent(count, cycles, "backend cycles idle"),
            (event_kind::CACHE, config) => self.cache_misses(count, config),
            _ => None,
        };
        Vec::from_iter(metric)
    }

    /// Instructions per cycle and, where stalls are counted, those per
    /// instruction.
    fn of_instructions(&self, count: f64) -> Vec<Metric> {
        let ratio = |value, unit: &str| Metric {
            value,
            unit: unit.to_owned(),
            style: MetricStyle::Ratio,
        };
        let cycles = self.other(HARDWARE, CYCLES);
        let mut metrics =
            Vec::from_iter(cycles.map(|cycles| ratio(count / cycles, "insn per cycle")));
        let stalls = [STALLED_FRONTEND, STALLED_BACKEND];
        let most = stalls
            .into_iter()
            .filter_map(|config| self.other(HARDWARE, config));
        let most = most.fold(0.0, f64::max);
        if most > 0.0 && count > 0.0 && !metrics.is_empty() {
            metrics.push(ratio(most / count, "stalled cycles per insn"));
        }
        metrics
    }

    /// Misses of a cache against its accesses by the same operation.
    fn cache_misses(&self, count: f64, config: u64) -> Option<Metric> {
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
        let accesses = self.other(event_kind::CACHE, config & !MISS)?;
        let name = NAMES.get((config & 0xff) as usize)?;
        percent(count, Some(accesses), &format!("of all {name} accesses"))
    }

    /// Events per second of CPU time, if a clock is counted too; GHz for
    /// cycles.
    fn rate(&self, event: &EventFigures, count: f64) -> Option<Metric> {
        let mut clocks = self
            .events
            .iter()
            .filter(|other| other.is_clock() && other.event.cgroup == event.event.cgroup);
        let clock = clocks.find_map(|clock| clock.mean(self.id))?;
        if clock <= 0.0 {
            return None;
        }
        let per_ns = count / clock;
        let (value, unit) = if event.is(HARDWARE, CYCLES) {
            (per_ns, "GHz")
        } else {
            match per_ns * 1e9 {
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
}

fn percent(count: f64, of: Option<f64>, what: &str) -> Option<Metric> {
    Some(Metric {
        value: 100.0 * count / of?,
        unit: what.to_owned(),
        style: MetricStyle::Percent,
    })
}

#[cfg(test)]
mod tests {
    use super::MetricStyle;
    use crate::shown::figures::tests::{figures, rows};

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
                row.metrics
                    .into_iter()
                    .next()
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
    fn stalls_have_a_line_of_their_own() {
        let events = [
            figures("cycles", 0, 0, &[200]),
            figures("instructions", 0, 1, &[100]),
            figures("stalled-cycles-frontend", 0, 7, &[50]),
            figures("stalled-cycles-backend", 0, 8, &[20]),
        ];
        let shown = rows(&events, 1.0).remove(1).metrics;
        let shown: Vec<_> = shown
            .iter()
            .map(|it| (it.value, it.unit.as_str()))
            .collect();
        assert_eq!(
            shown,
            [(0.5, "insn per cycle"), (0.5, "stalled cycles per insn")]
        );
    }
}

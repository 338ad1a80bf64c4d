//! Metrics: what follows from counts by a formula of perf's JSON files.
//!
//! None are bundled: the kernel publishes no metrics, and the tables of a CPU
//! come with perf's sources (`tools/perf/pmu-events/arch`) or its vendor.

mod expression;
mod files;

use crate::metric::{Metric, MetricStyle};
use expression::{Expression, Value};
use files::Definition;
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Metrics cannot be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MetricsError {
    /// There is nowhere to read them from.
    #[error(
        "-M {0}: the kernel publishes no metrics, and prof has no tables of CPUs\n  \
         try: --metrics-dir DIR with perf's JSON files of this CPU\n  \
         (a folder of tools/perf/pmu-events/arch in the kernel's sources)"
    )]
    NoDirectory(String),
    /// A folder or file cannot be read.
    #[error("cannot read metrics of {path}: {why}")]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        why: io::Error,
    },
    /// A file is no list of JSON objects.
    #[error("{path} is no file of metrics: {why}")]
    Json {
        /// Which.
        path: PathBuf,
        /// Why.
        why: serde_json::Error,
    },
    /// No metric or group of metrics is called so.
    #[error("no metric or group is called {name} in {path}\n  it has: {some}")]
    Unknown {
        /// What was asked for.
        name: String,
        /// Where.
        path: PathBuf,
        /// Some names.
        some: String,
    },
    /// A formula cannot be read.
    #[error("metric {name}: {why}\n  in {formula}")]
    Formula {
        /// The metric.
        name: String,
        /// What is wrong, and where.
        why: String,
        /// The formula.
        formula: String,
    },
}

/// A metric that was asked for.
#[derive(Debug, Clone)]
struct Asked {
    name: String,
    unit: String,
    scale: f64,
    formula: Expression,
    /// Names in the formula, and the places of their events.
    events: BTreeMap<String, usize>,
}

impl<'a> Wanted<'a> {
    fn new(
        definition: &'a Definition,
        tables: &files::Tables,
        literals: &BTreeMap<&'static str, f64>,
    ) -> Result<Self, MetricsError> {
        let wrong = |why| MetricsError::Formula {
            name: definition.name.clone(),
            why,
            formula: definition.formula.clone(),
        };
        let mut formula = Expression::parse(&definition.formula).map_err(wrong)?;
        formula
            .expand(&|name| tables.formula(name))
            .map_err(wrong)?;
        let mut names = formula.names(literals);
        if names.len() > 1 {
            names.remove(DURATION);
        }
        let events = names.into_iter().map(|name| {
            let event = tables.event(&name);
            (name, event)
        });
        Ok(Self {
            definition,
            events: events.collect(),
            formula,
        })
    }
}

/// The metrics that were asked for.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    asked: Vec<Asked>,
    events: Vec<Needed>,
    /// The places of events that were added together.
    sets: Vec<Range<usize>>,
    /// After so many events come the same for another cgroup, unless it is 0.
    round: usize,
    literals: BTreeMap<&'static str, f64>,
}

/// An event that metrics need.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Needed {
    /// As `-e` takes it.
    pub event: String,
    /// The number of its group, if it has one.
    pub group: Option<u32>,
}

/// Which events of metrics are counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Grouping {
    /// Those of a metric are on the hardware at the same time.
    pub groups: bool,
    /// Metrics share events: with groups, where one metric needs no other
    /// events than another.
    pub merges: bool,
}

/// What metrics are made for.
#[derive(Debug, Clone, Copy)]
pub struct Counted {
    /// How many events stand before theirs.
    pub first: usize,
    /// Which of them are counted together.
    pub grouping: Grouping,
    /// CPUs are counted, not tasks.
    pub cpus: bool,
}

/// A metric whose events have no places yet.
struct Wanted<'a> {
    definition: &'a Definition,
    formula: Expression,
    /// Names in the formula, and their events as `-e` takes them.
    events: BTreeMap<String, String>,
}

impl Metrics {
    /// Those of a list of names or groups, from the files of a folder.
    ///
    /// # Errors
    /// When a file, a name or a formula is wrong.
    pub fn read(directory: &Path, list: &str, counted: &Counted) -> Result<Self, MetricsError> {
        let tables = files::read(directory)?;
        let mut metrics = Self {
            literals: machine(counted.cpus),
            ..Self::default()
        };
        let mut wanted = Vec::new();
        for name in list.split(',').filter(|name| !name.is_empty()) {
            let found = tables.find(name);
            if found.is_empty() {
                return Err(MetricsError::Unknown {
                    name: name.to_owned(),
                    path: directory.to_owned(),
                    some: tables.some_names(),
                });
            }
            for definition in found {
                wanted.push(Wanted::new(definition, &tables, &metrics.literals)?);
            }
        }
        // As perf: those with many events come first, and others find theirs
        // among them.
        wanted.sort_by_key(|it| std::cmp::Reverse(it.events.len()));
        for metric in wanted {
            metrics.add(metric, counted);
        }
        Ok(metrics)
    }

    fn add(&mut self, wanted: Wanted<'_>, counted: &Counted) {
        let begin = self.events.len();
        let shared = self.shared(&wanted.events, counted.grouping);
        let is_group = counted.grouping.groups && wanted.events.len() > 1;
        let group = is_group.then_some(self.sets.len() as u32);
        let mut events = BTreeMap::new();
        for (name, event) in wanted.events {
            let mut places = shared.clone().chain(begin..self.events.len());
            let known = places.find(|&place| self.events[place].event == event);
            let place = known.unwrap_or(self.events.len());
            if known.is_none() {
                self.events.push(Needed { event, group });
            }
            events.insert(name, counted.first + place);
        }
        if self.events.len() > begin {
            self.sets.push(begin..self.events.len());
        }
        let (scale, unit) = files::scale_and_unit(&wanted.definition.scale_unit);
        self.asked.push(Asked {
            name: wanted.definition.name.clone(),
            unit,
            scale,
            formula: wanted.formula,
            events,
        });
    }

    /// The places of earlier events that a metric may share.
    fn shared(&self, needed: &BTreeMap<String, String>, grouping: Grouping) -> Range<usize> {
        let all = self.events.len();
        match (grouping.merges, grouping.groups) {
            (false, _) => all..all,
            (true, false) => 0..all,
            (true, true) => {
                let has_all = |set: &&Range<usize>| {
                    let has = |event: &String| {
                        self.events[(*set).clone()]
                            .iter()
                            .any(|it| it.event == *event)
                    };
                    needed.values().all(has)
                };
                self.sets.iter().find(has_all).cloned().unwrap_or(all..all)
            }
        }
    }
    /// All events, those before theirs too, are repeated for each of several
    /// cgroups; one round has so many.
    pub fn repeat_each(&mut self, events: usize) {
        self.round = events;
    }

    /// Whether none were asked for.
    pub fn is_empty(&self) -> bool {
        self.asked.is_empty()
    }

    /// The events they need, in the order of their places.
    pub fn events(&self) -> &[Needed] {
        &self.events
    }

    /// Those that are shown beside the event at `place`: perf shows a metric
    /// beside the first of its events. `mean` gives the count of an event,
    /// `seconds` is how long they were counted.
    pub(crate) fn at(
        &self,
        place: usize,
        seconds: f64,
        mean: impl Fn(usize) -> Option<f64>,
    ) -> Vec<Metric> {
        let behind = place.checked_div(self.round).unwrap_or(0) * self.round;
        let beside = |asked: &&Asked| {
            let first = asked.events.values().min();
            first.is_some_and(|first| behind + first == place)
        };
        let value_of = |asked: &Asked| {
            asked.formula.evaluate(&|name| match name {
                Value::Literal(name) => self.literals.get(name).copied(),
                Value::Event(DURATION) => Some(seconds),
                Value::Event(name) => asked
                    .events
                    .get(name)
                    .and_then(|&place| mean(behind + place)),
            })
        };
        let metric = |asked: &Asked| Metric {
            value: value_of(asked) * asked.scale,
            unit: if asked.unit.is_empty() {
                asked.name.clone()
            } else {
                format!("{}  {}", asked.unit, asked.name)
            },
            style: if asked.unit.is_empty() {
                MetricStyle::TwoDecimals
            } else {
                MetricStyle::OneDecimal
            },
        };
        self.asked.iter().filter(beside).map(metric).collect()
    }
}

/// The time counted in seconds, which is no event of the kernel.
const DURATION: &str = "duration_time";

/// What formulas ask of the machine.
fn machine(counts_cpus: bool) -> BTreeMap<&'static str, f64> {
    let online = prof_record::synthesize::online_cpus().len() as f64;
    let smt = std::fs::read_to_string("/sys/devices/system/cpu/smt/active");
    let smt = smt.is_ok_and(|text| text.trim() == "1");
    BTreeMap::from([
        ("smt_on", f64::from(u8::from(smt))),
        ("num_cpus", online),
        ("num_cpus_online", online),
        ("core_wide", 0.0),
        ("target_cpu", f64::from(u8::from(counts_cpus))),
    ])
}

#[cfg(test)]
mod tests {
    use super::{Counted, Grouping, Metrics, MetricsError};
    use std::fs;

    const MERGED: Counted = Counted {
        first: 0,
        grouping: Grouping {
            groups: true,
            merges: true,
        },
        cpus: false,
    };

    fn needed(metrics: &Metrics) -> Vec<(&str, Option<u32>)> {
        let events = metrics.events().iter();
        events.map(|it| (it.event.as_str(), it.group)).collect()
    }

    const TABLE: &str = r#"[
        {"MetricName": "ipc", "MetricGroup": "Pipeline;Summary", "MetricExpr": "instructions / cycles"},
        {"MetricName": "miss_rate", "MetricGroup": "Cache", "ScaleUnit": "100%",
         "MetricExpr": "d_ratio(MEM.MISS, MEM.MISS + MEM.HIT)"},
        {"MetricName": "twice", "MetricGroup": "Summary", "MetricExpr": "2 * ipc"}
    ]"#;
    const EVENTS: &str = r#"[
        {"EventName": "MEM.MISS", "EventCode": "0xd1", "UMask": "0x20"},
        {"EventName": "MEM.HIT", "EventCode": "0xd1", "UMask": "0x02", "CounterMask": "1"}
    ]"#;

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join("metrics.json"), TABLE).expect("written");
        fs::write(folder.path().join("memory.json"), EVENTS).expect("written");
        folder
    }

    #[test]
    fn a_metric_names_its_events_and_follows_from_their_counts() {
        let folder = folder();
        let counted = Counted { first: 1, ..MERGED };
        let metrics = Metrics::read(folder.path(), "ipc,miss_rate", &counted).expect("read");
        let events = [
            ("cycles", Some(0)),
            ("instructions", Some(0)),
            ("cpu/event=0xd1,umask=0x02,cmask=1/", Some(1)),
            ("cpu/event=0xd1,umask=0x20/", Some(1)),
        ];
        assert_eq!(needed(&metrics), events);
        let counts = [0.0, 200.0, 300.0, 75.0, 25.0];
        let shown = |place| {
            let shown = metrics.at(place, 1.0, |event| counts.get(event).copied());
            shown
                .into_iter()
                .map(|it| (it.number(), it.unit))
                .collect::<Vec<_>>()
        };
        assert_eq!(shown(1), [("    1.50".to_owned(), "ipc".to_owned())]);
        assert_eq!(
            shown(3),
            [("    25.0".to_owned(), "%  miss_rate".to_owned())]
        );
        assert_eq!((shown(0), shown(2), shown(4)), (vec![], vec![], vec![]));
    }

    #[test]
    fn a_group_is_all_its_metrics_and_a_metric_may_be_made_of_another() {
        let folder = folder();
        let metrics = Metrics::read(folder.path(), "Summary", &MERGED).expect("read");
        let shown = metrics.at(0, 1.0, |event| Some([100.0, 50.0][event]));
        let values: Vec<_> = shown
            .iter()
            .map(|it| (it.unit.as_str(), it.value))
            .collect();
        assert_eq!(values, [("ipc", 0.5), ("twice", 1.0)]);
    }

    #[test]
    fn events_are_shared_or_counted_with_their_metric_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let table = r#"[{"MetricName":"one","MetricExpr":"a"},
            {"MetricName":"two","MetricExpr":"b / c"},
            {"MetricName":"three","MetricExpr":"a + b + d"}]"#;
        fs::write(folder.path().join("m.json"), table).expect("written");
        let read = |groups, merges| {
            let grouping = Grouping { groups, merges };
            let counted = Counted { grouping, ..MERGED };
            let metrics = Metrics::read(folder.path(), "one,two,three", &counted).expect("read");
            let events = needed(&metrics)
                .into_iter()
                .map(|(event, group)| match group {
                    Some(group) => format!("{event}{group}"),
                    None => event.to_owned(),
                });
            let events = events.collect::<Vec<_>>().join(" ");
            let counts = metrics.events().iter().map(|it| match it.event.as_str() {
                "a" => 1.0,
                "b" => 10.0,
                _ => 5.0,
            });
            let counts: Vec<f64> = counts.collect();
            let shown =
                (0..counts.len()).flat_map(|place| metrics.at(place, 1.0, |it| Some(counts[it])));
            let mut shown: Vec<_> = shown.map(|it| (it.unit, it.value)).collect();
            shown.sort_by(|a, b| a.0.cmp(&b.0));
            let expected = [("one", 1.0), ("three", 16.0), ("two", 2.0)];
            assert_eq!(
                shown,
                expected.map(|(name, value)| (name.to_owned(), value))
            );
            events
        };
        assert_eq!(read(true, true), "a0 b0 d0 b1 c1");
        assert_eq!(read(true, false), "a0 b0 d0 b1 c1 a");
        assert_eq!(read(false, true), "a b d c");
        assert_eq!(read(false, false), "a b d b c a");
    }

    #[test]
    fn the_time_counted_is_no_event_but_where_it_stands_alone() {
        let folder = tempfile::tempdir().expect("a folder");
        let table = r#"[{"MetricName":"rate","MetricExpr":"cs / duration_time"},
            {"MetricName":"time","MetricExpr":"duration_time if #target_cpu else a"}]"#;
        fs::write(folder.path().join("m.json"), table).expect("written");
        let counted = Counted {
            cpus: true,
            ..MERGED
        };
        let metrics = Metrics::read(folder.path(), "rate,time", &counted).expect("read");
        assert_eq!(needed(&metrics), [("cs", None), ("duration_time", None)]);
        let shown = |place| metrics.at(place, 0.5, |_| Some(10.0)).remove(0).value;
        assert_eq!((shown(0), shown(1)), (20.0, 0.5));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let folder = folder();
        let error = Metrics::read(folder.path(), "ipx", &MERGED).expect_err("unknown");
        assert!(matches!(error, MetricsError::Unknown { .. }), "{error}");
        assert!(error.to_string().contains("miss_rate"), "{error}");
        let file = folder.path().join("metrics.json");
        fs::write(&file, r#"[{"MetricName":"a","MetricExpr":"1 + "}]"#).expect("written");
        let error = Metrics::read(folder.path(), "a", &MERGED).expect_err("half a sum");
        assert!(matches!(error, MetricsError::Formula { .. }), "{error}");
        fs::write(&file, "{").expect("written");
        let error = Metrics::read(folder.path(), "a", &MERGED).expect_err("no JSON");
        assert!(matches!(error, MetricsError::Json { .. }), "{error}");
        let error =
            Metrics::read(&folder.path().join("none"), "a", &MERGED).expect_err("no folder");
        assert!(matches!(error, MetricsError::Read { .. }), "{error}");
    }

    #[test]
    fn metrics_that_are_made_of_each_other_are_no_endless_loop() {
        let folder = tempfile::tempdir().expect("a folder");
        let table = r#"[{"MetricName":"a","MetricExpr":"b"},{"MetricName":"b","MetricExpr":"a"}]"#;
        fs::write(folder.path().join("m.json"), table).expect("written");
        let error = Metrics::read(folder.path(), "a", &MERGED).expect_err("a loop");
        assert!(error.to_string().contains("made of itself"), "{error}");
    }
}

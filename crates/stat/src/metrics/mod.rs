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

/// The metrics that were asked for.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    asked: Vec<Asked>,
    /// The events they need, as `-e` takes them, each once.
    events: Vec<String>,
    literals: BTreeMap<&'static str, f64>,
}

impl Metrics {
    /// Those of a list of names or groups, from the files of a folder.
    /// `first` events stand before theirs.
    ///
    /// # Errors
    /// When a file, a name or a formula is wrong.
    pub fn read(directory: &Path, list: &str, first: usize) -> Result<Self, MetricsError> {
        let tables = files::read(directory)?;
        let mut metrics = Self {
            literals: machine(),
            ..Self::default()
        };
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
                metrics.add(definition, &tables, first)?;
            }
        }
        Ok(metrics)
    }

    fn add(
        &mut self,
        definition: &Definition,
        tables: &files::Tables,
        first: usize,
    ) -> Result<(), MetricsError> {
        let wrong = |why| MetricsError::Formula {
            name: definition.name.clone(),
            why,
            formula: definition.formula.clone(),
        };
        let mut formula = Expression::parse(&definition.formula).map_err(wrong)?;
        formula
            .expand(&|name| tables.formula(name))
            .map_err(wrong)?;
        let mut events = BTreeMap::new();
        for name in formula.names().into_iter().filter(|name| name != DURATION) {
            let event = tables.event(&name);
            let known = self.events.iter().position(|other| *other == event);
            let place = known.unwrap_or_else(|| {
                self.events.push(event);
                self.events.len() - 1
            });
            events.insert(name, first + place);
        }
        let (scale, unit) = files::scale_and_unit(&definition.scale_unit);
        self.asked.push(Asked {
            name: definition.name.clone(),
            unit,
            scale,
            formula,
            events,
        });
        Ok(())
    }

    /// Whether none were asked for.
    pub fn is_empty(&self) -> bool {
        self.asked.is_empty()
    }

    /// The events they need, as `-e` takes them, in the order of their places.
    pub fn events(&self) -> &[String] {
        &self.events
    }

    /// Those that are shown beside the event at `place`: perf shows a metric
    /// beside the first of its events. `mean` gives the count of an event.
    pub(crate) fn at(&self, place: usize, mean: impl Fn(usize) -> Option<f64>) -> Vec<Metric> {
        let beside = |asked: &&Asked| asked.events.values().min() == Some(&place);
        let value_of = |asked: &Asked| {
            asked.formula.evaluate(&|name| match name {
                Value::Literal(name) => self.literals.get(name).copied(),
                Value::Event(name) => asked.events.get(name).and_then(|&place| mean(place)),
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
fn machine() -> BTreeMap<&'static str, f64> {
    let online = prof_record::synthesize::online_cpus().len() as f64;
    let smt = std::fs::read_to_string("/sys/devices/system/cpu/smt/active");
    let smt = smt.is_ok_and(|text| text.trim() == "1");
    BTreeMap::from([
        ("smt_on", f64::from(u8::from(smt))),
        ("num_cpus", online),
        ("num_cpus_online", online),
        ("core_wide", 0.0),
    ])
}

#[cfg(test)]
mod tests {
    use super::{Metrics, MetricsError};
    use std::fs;

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
        let metrics = Metrics::read(folder.path(), "ipc,miss_rate", 1).expect("read");
        let events = [
            "cycles",
            "instructions",
            "cpu/event=0xd1,umask=0x02,cmask=1/",
            "cpu/event=0xd1,umask=0x20/",
        ];
        assert_eq!(metrics.events(), events);
        let counts = [0.0, 200.0, 300.0, 75.0, 25.0];
        let shown = |place| {
            let shown = metrics.at(place, |event| counts.get(event).copied());
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
        let metrics = Metrics::read(folder.path(), "Summary", 0).expect("read");
        let shown = metrics.at(0, |event| Some([100.0, 50.0][event]));
        let values: Vec<_> = shown
            .iter()
            .map(|it| (it.unit.as_str(), it.value))
            .collect();
        assert_eq!(values, [("ipc", 0.5), ("twice", 1.0)]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let folder = folder();
        let error = Metrics::read(folder.path(), "ipx", 0).expect_err("unknown");
        assert!(matches!(error, MetricsError::Unknown { .. }), "{error}");
        assert!(error.to_string().contains("miss_rate"), "{error}");
        let file = folder.path().join("metrics.json");
        fs::write(&file, r#"[{"MetricName":"a","MetricExpr":"1 + "}]"#).expect("written");
        let error = Metrics::read(folder.path(), "a", 0).expect_err("half a sum");
        assert!(matches!(error, MetricsError::Formula { .. }), "{error}");
        fs::write(&file, "{").expect("written");
        let error = Metrics::read(folder.path(), "a", 0).expect_err("no JSON");
        assert!(matches!(error, MetricsError::Json { .. }), "{error}");
        let error = Metrics::read(&folder.path().join("none"), "a", 0).expect_err("no folder");
        assert!(matches!(error, MetricsError::Read { .. }), "{error}");
    }

    #[test]
    fn metrics_that_are_made_of_each_other_are_no_endless_loop() {
        let folder = tempfile::tempdir().expect("a folder");
        let table = r#"[{"MetricName":"a","MetricExpr":"b"},{"MetricName":"b","MetricExpr":"a"}]"#;
        fs::write(folder.path().join("m.json"), table).expect("written");
        let error = Metrics::read(folder.path(), "a", 0).expect_err("a loop");
        assert!(error.to_string().contains("made of itself"), "{error}");
    }
}

//! A comparison as JSON.

use crate::Trial;
use crate::comparison::{By, ComparedRow, Comparison, OneSide, Origin, Total};
use crate::measure::MeasureRow;
use crate::moved::{Move, Moved};
use prof_report::harmless_json;
use prof_statistics::{Change, Interval, Kind, Pairing, Verdict};
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use std::collections::BTreeMap;
use std::io;

/// Writes comparisons, one of each event, as one object, with a newline at the
/// end. What is not known is null.
///
/// # Errors
/// If `out` cannot be written to.
pub fn json(comparisons: &[Comparison], out: &mut impl io::Write) -> io::Result<()> {
    #[derive(Serialize)]
    struct Diff<'a> {
        schema: &'a str,
        events: Vec<Event<'a>>,
    }
    let diff = Diff {
        schema: "prof-diff-1",
        events: comparisons.iter().map(Event).collect(),
    };
    harmless_json::write(&diff, out)?;
    out.write_all(b"\n")
}

/// Writes a trial and what came out of it, one comparison of each event, as one
/// object; `is_decided` says whether all has a verdict.
///
/// # Errors
/// If `out` cannot be written to.
pub fn trial_json(
    (trial, is_decided): (&Trial, bool),
    comparisons: &[Comparison],
    out: &mut impl io::Write,
) -> io::Result<()> {
    #[derive(Serialize)]
    struct Ab<'a> {
        schema: &'a str,
        commands: &'a [String],
        pairs: u64,
        decided: bool,
        notes: &'a [String],
        comparisons: Vec<Event<'a>>,
    }
    let ab = Ab {
        schema: "prof-ab-1",
        commands: &trial.commands,
        pairs: trial.pairs,
        decided: is_decided,
        notes: &trial.notes,
        comparisons: comparisons.iter().map(Event).collect(),
    };
    harmless_json::write(&ab, out)?;
    out.write_all(b"\n")
}

/// A figure, if it is one.
fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

/// The verdict's name in JSON and CSV.
pub(crate) fn name_of(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Faster => "faster",
        Verdict::Slower => "slower",
        Verdict::Same => "same",
        Verdict::Undecided { .. } => "undecided",
    }
}

/// The name of a row's verdict: cost that moved has one of its own.
pub(crate) fn name_of_row(row: &ComparedRow) -> &'static str {
    match row.moved {
        Some(_) => "moved",
        None => name_of(row.verdict),
    }
}

/// How much more has to be measured for a verdict.
pub(crate) fn needs_of(verdict: Verdict) -> Option<u64> {
    match verdict {
        Verdict::Undecided { needs } => needs,
        _ => None,
    }
}

struct Event<'a>(&'a Comparison);

impl Serialize for Event<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let comparison = self.0;
        fn recordings(side: &[Origin]) -> Vec<Recording<'_>> {
            side.iter().map(Recording::of).collect()
        }
        let mut map = out.serialize_map(None)?;
        map.serialize_entry("name", &comparison.event)?;
        map.serialize_entry("unit", comparison.unit.name())?;
        map.serialize_entry(
            "kind",
            match comparison.kind {
                Kind::TheseRuns => "these recordings",
                Kind::AnotherRun => "other runs",
            },
        )?;
        let is_paired = comparison.options.pairing == Pairing::Paired;
        map.serialize_entry("paired", &is_paired)?;
        map.serialize_entry(
            "by",
            match comparison.options.by {
                By::Cost => "cost",
                By::Share => "share",
            },
        )?;
        map.serialize_entry("bound_percent", &finite(comparison.options.bound))?;
        map.serialize_entry("false_discoveries", &finite(comparison.options.level))?;
        map.serialize_entry("detectable_percent", &finite(comparison.detectable))?;
        map.serialize_entry(
            "detectable_by_share_percent",
            &comparison.detectable_by_share.and_then(finite),
        )?;
        map.serialize_entry("needs_for_bound", &comparison.needs_for_bound)?;
        map.serialize_entry("before", &recordings(&comparison.before))?;
        map.serialize_entry("after", &recordings(&comparison.after))?;
        map.serialize_entry("notes", &comparison.notes)?;
        map.serialize_entry("total", &TotalOf(&comparison.total))?;
        if !comparison.measures.is_empty() {
            let measures = comparison.measures.iter().map(OneMeasure);
            map.serialize_entry("measures", &measures.collect::<Vec<_>>())?;
        }
        let moves = comparison.moves.iter().map(OneMove);
        map.serialize_entry("moves", &moves.collect::<Vec<_>>())?;
        let rows = comparison.rows.iter().map(|row| OneRow(comparison, row));
        map.serialize_entry("rows", &rows.collect::<Vec<_>>())?;
        map.end()
    }
}

#[derive(Serialize)]
struct Recording<'a> {
    name: &'a str,
    samples: u64,
    total: Option<f64>,
}

impl<'a> Recording<'a> {
    fn of(origin: &'a Origin) -> Self {
        Self {
            name: &origin.name,
            samples: origin.samples,
            total: finite(origin.total),
        }
    }
}

#[derive(Serialize)]
struct Changed {
    percent: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
}

impl Changed {
    fn of(change: &Change, Interval { low, high }: Interval) -> Self {
        Self {
            percent: finite(change.value),
            low: finite(low),
            high: finite(high),
        }
    }
}

struct TotalOf<'a>(&'a Total);

impl Serialize for TotalOf<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let total = self.0;
        let mut change = Changed::of(&total.change, total.interval);
        if total.verdict.is_none() {
            // The scatter of runs is not known.
            (change.low, change.high) = (None, None);
        }
        let mut map = out.serialize_map(None)?;
        map.serialize_entry("before", &finite(total.before))?;
        map.serialize_entry("after", &finite(total.after))?;
        map.serialize_entry("change", &change)?;
        map.serialize_entry("verdict", &total.verdict.map(name_of))?;
        map.serialize_entry("needs", &total.verdict.and_then(needs_of))?;
        map.end()
    }
}

#[derive(Serialize)]
struct SideOf {
    cost: Option<f64>,
    share: Option<f64>,
    share_low: Option<f64>,
    share_high: Option<f64>,
    samples: u64,
}

impl SideOf {
    fn of(side: &OneSide) -> Self {
        Self {
            cost: finite(side.cost),
            share: finite(side.share),
            share_low: finite(side.interval.low),
            share_high: finite(side.interval.high),
            samples: side.samples,
        }
    }
}

struct OneMeasure<'a>(&'a MeasureRow);

impl Serialize for OneMeasure<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let row = self.0;
        let mut map = out.serialize_map(None)?;
        map.serialize_entry("name", row.name)?;
        map.serialize_entry("unit", row.unit.name())?;
        map.serialize_entry("before", &finite(row.before))?;
        map.serialize_entry("after", &finite(row.after))?;
        map.serialize_entry("change", &Changed::of(&row.change, row.interval))?;
        map.serialize_entry("verdict", name_of(row.verdict))?;
        map.serialize_entry("needs", &needs_of(row.verdict))?;
        map.end()
    }
}

struct OneRow<'a>(&'a Comparison, &'a ComparedRow);

impl Serialize for OneRow<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let Self(comparison, row) = self;
        let mut map = out.serialize_map(None)?;
        for (key, name) in comparison.keys.iter().zip(&row.names) {
            map.serialize_entry(key.name(), name)?;
        }
        let was = row.was.as_ref().map(|was| {
            let keys = comparison.keys.iter().map(|key| key.name());
            keys.zip(was).collect::<BTreeMap<_, _>>()
        });
        map.serialize_entry("was", &was)?;
        map.serialize_entry("before", &SideOf::of(&row.before))?;
        map.serialize_entry("after", &SideOf::of(&row.after))?;
        map.serialize_entry("change", &Changed::of(&row.change, row.interval))?;
        map.serialize_entry("verdict", name_of_row(row))?;
        map.serialize_entry("needs", &needs_of(row.verdict))?;
        map.serialize_entry("detectable_percent", &finite(row.detectable))?;
        map.serialize_entry("needs_for_bound", &row.needs_for_bound)?;
        map.serialize_entry("move", &row.moved.map(Moved::place))?;
        map.end()
    }
}

struct OneMove<'a>(&'a Move);

impl Serialize for OneMove<'_> {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let Self(it) = self;
        let [before, after] = it.costs.map(finite);
        let mut map = out.serialize_map(None)?;
        map.serialize_entry("inlined", &it.is_inlined)?;
        map.serialize_entry("from", &it.from)?;
        map.serialize_entry("into", &it.into)?;
        map.serialize_entry("before", &before)?;
        map.serialize_entry("after", &after)?;
        map.serialize_entry("change", &Changed::of(&it.change, it.interval))?;
        map.serialize_entry("verdict", name_of(it.verdict))?;
        map.serialize_entry("needs", &needs_of(it.verdict))?;
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::json;
    use crate::comparison::tests::{run, sides};
    use crate::{Comparison, ComparisonOptions};

    #[test]
    fn cost_that_moved_has_a_verdict_of_its_own_and_its_sum() {
        let before = [run("a", &[("app:main", 100), ("app:main;app:f", 300)])];
        let after = [run("b", &[("app:main", 400)])];
        let comparison = Comparison::new(&before, &after, &ComparisonOptions::default()).unwrap();
        let mut out = Vec::new();
        json(&[comparison], &mut out).unwrap();
        let value: serde_json::Value = serde_json::from_slice(&out).unwrap();
        let event = &value["events"][0];
        for row in event["rows"].as_array().unwrap() {
            assert_eq!(
                (&row["verdict"], &row["move"]),
                (&"moved".into(), &0.into())
            );
        }
        let one = &event["moves"][0];
        assert_eq!(
            (&one["from"][0], &one["into"][0]),
            (&"f".into(), &"main".into())
        );
        assert_eq!(
            (&one["verdict"], &one["before"]),
            (&"same".into(), &4e8.into())
        );
        assert_eq!(one["change"]["percent"], 0.0);
    }

    #[test]
    fn rows_have_their_keys_intervals_and_verdicts() {
        let (before, after) = sides(130);
        let comparison = Comparison::new(&before, &after, &ComparisonOptions::default()).unwrap();
        let mut out = Vec::new();
        json(&[comparison], &mut out).unwrap();
        let value: serde_json::Value = serde_json::from_slice(&out).unwrap();
        let event = &value["events"][0];
        let row = &event["rows"][0];
        assert_eq!(
            (&row["symbol"], &row["verdict"]),
            (&"g".into(), &"slower".into())
        );
        let at = |name: &str| row["change"][name].as_f64().unwrap();
        assert!(at("low") < at("percent") && at("percent") < at("high"));
        assert_eq!(event["before"].as_array().unwrap().len(), 5);
        assert_eq!(event["kind"], "other runs");
        // What holds for all rows holds for each.
        let most = |name: &str| {
            let rows = event["rows"].as_array().unwrap().iter();
            rows.map(|row| row[name].as_f64().unwrap())
                .fold(0.0, f64::max)
        };
        for name in ["detectable_percent", "needs_for_bound"] {
            assert_eq!(event[name].as_f64().unwrap(), most(name), "{name}");
            assert!(most(name) > 0.0);
        }
    }
}

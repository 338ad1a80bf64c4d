//! Whether sides can be compared at all, and what to know where they can.

use crate::Run;
use prof_profile::{several, were};
use thiserror::Error;

/// Why recordings cannot be compared, and what would work.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Incomparable {
    /// A side without a recording.
    #[error("there is no recording {0}; give one at least")]
    NoRun(&'static str),
    /// No event is in all recordings.
    #[error(
        "no event is in all recordings: {first} has {of_first}, {other} has {of_other}\n  \
         record both sides with the same -e, such as -e cpu-clock"
    )]
    Event {
        /// A recording.
        first: String,
        /// Its events.
        of_first: String,
        /// Another one.
        other: String,
        /// Its events.
        of_other: String,
    },
    /// A recording without samples of the event.
    #[error(
        "{name} has no samples of {event} to compare\n  \
         record longer, or at a higher rate (-F)"
    )]
    NoSamples {
        /// The recording.
        name: String,
        /// The event.
        event: String,
    },
    /// Weights in units that cannot be compared.
    #[error(
        "--per: {name} counts no {event}\n  record it beside: -e {beside},{}",
        counted_each(event)
    )]
    NoWork {
        /// The recording.
        name: String,
        /// What costs should be divided by.
        event: String,
        /// What was sampled.
        beside: String,
    },
    /// Instructions of one are not those of the other.
    #[error(
        "{first} was recorded on {of_first} and {other} on {of_other}: functions of two \
         architectures are not compared by cost\n  \
         try: --by share, which compares what part each function has"
    )]
    Architecture {
        /// A recording.
        first: String,
        /// Its machine.
        of_first: String,
        /// Another one.
        other: String,
        /// Its machine.
        of_other: String,
    },
}

/// Refuses what cannot be compared; `by_share` compares parts only.
pub(crate) fn check(before: &[Run], after: &[Run], by_share: bool) -> Result<(), Incomparable> {
    for (side, name) in [(before, "before"), (after, "after")] {
        if side.is_empty() {
            return Err(Incomparable::NoRun(name));
        }
    }
    for run in before.iter().chain(after) {
        if run.samples() == 0 || run.measured.whole.period == 0 {
            return Err(Incomparable::NoSamples {
                name: run.name.clone(),
                event: run.event.clone(),
            });
        }
    }
    let Some(first) = before.first() else {
        return Ok(());
    };
    let of = |run: &Run| run.machine[0].clone();
    let differs = |run: &&Run| !of(run).is_empty() && !of(first).is_empty() && of(run) != of(first);
    match before.iter().chain(after).find(differs) {
        Some(other) if !by_share => Err(Incomparable::Architecture {
            first: first.name.clone(),
            of_first: of(first),
            other: other.name.clone(),
            of_other: of(other),
        }),
        _ => Ok(()),
    }
}

/// What differs between recordings that can be compared, as sentences.
pub(crate) fn notes(before: &[Run], after: &[Run]) -> Vec<String> {
    let mut notes = Vec::new();
    let all = || before.iter().chain(after);
    let distinct = |of: &dyn Fn(&Run) -> String| {
        let mut list: Vec<String> = all().map(of).filter(|text| !text.is_empty()).collect();
        list.sort();
        list.dedup();
        list
    };
    for (what, place) in [("machines", 1), ("CPUs", 2)] {
        let list = distinct(&|run| run.machine[place].clone());
        if list.len() > 1 {
            notes.push(format!(
                "recorded on different {what}: {}; a change may be theirs",
                list.join(", ")
            ));
        }
    }
    let rates = distinct(&|run| match run.asked {
        (rate, true) => format!("{rate} Hz"),
        (period, false) => format!("period {period}"),
    });
    if rates.len() > 1 {
        notes.push(format!(
            "recorded at different rates: {}; weights are periods, so costs still compare",
            rates.join(", ")
        ));
    }
    let walls = [before, after].map(mean_wall);
    if let [Some(before), Some(after)] = walls
        && before.max(after) > 1.25 * before.min(after)
    {
        notes.push(format!(
            "recordings before took {before:.3} s, those after {after:.3} s; if they did not do \
             the same work, compare them with prof diff --by share or --per"
        ));
    }
    let damaged = distinct(&|run| match run.is_damaged {
        true => run.name.clone(),
        false => String::new(),
    });
    if !damaged.is_empty() {
        notes.push(format!(
            "damaged: {}; what could not be read is not counted, so costs are too low: compare \
             with --by share, or record again",
            damaged.join(", ")
        ));
    }
    let lost: u64 = all().map(|run| run.lost).sum();
    let samples: u64 = all().map(Run::samples).sum();
    if lost > 0 {
        let percent = 100.0 * lost as f64 / (lost + samples) as f64;
        notes.push(format!(
            "{} {} lost ({percent:.1} %); costs are too low by as much",
            several(lost, "sample"),
            were(lost)
        ));
    }
    notes
}

/// From the first sample to the last, s, of an average run.
/// The software events that are rare: of few the kernel never finds the period for a
/// rate, and what it counted then is far from what happened.
const RARE: [&str; 12] = [
    "page-faults",
    "faults",
    "minor-faults",
    "major-faults",
    "context-switches",
    "cs",
    "cpu-migrations",
    "migrations",
    "alignment-faults",
    "emulation-faults",
    "cgroup-switches",
    "bpf-output",
];

/// The event as `-e` takes it to count each time that it happens, where it is one that
/// sampling at a rate counts wrong; else as it is. Modifiers stay.
pub(crate) fn counted_each(event: &str) -> String {
    let (name, modifiers) = event.split_once(':').unwrap_or((event, ""));
    match RARE.contains(&name) {
        true => format!("{name}/period=1/{modifiers}"),
        false => event.to_owned(),
    }
}

fn mean_wall(runs: &[Run]) -> Option<f64> {
    let walls: Vec<f64> = runs
        .iter()
        .filter_map(|run| run.wall_ns.map(|wall| wall as f64 / 1e9))
        .collect();
    (!walls.is_empty()).then(|| walls.iter().sum::<f64>() / walls.len() as f64)
}

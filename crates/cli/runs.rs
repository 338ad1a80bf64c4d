//! Recordings as the tables of functions that are compared.

use crate::outcome::{Outcome, UsageError};
use crate::recording::Input;
use crate::report::emptiness::check_cause;
use prof_compare::{By, Run};
use prof_profile::{Counting, EventId, Profile};
use prof_report::keys::{DSO, Field, SYMBOL};
use prof_report::text::TextOptions;
use prof_symbolize::{Detail, Symbolizer};
use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// What `--by` of comparisons takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Compared {
    Cost,
    Share,
}

impl From<Compared> for By {
    fn from(compared: Compared) -> Self {
        match compared {
            Compared::Cost => Self::Cost,
            Compared::Share => Self::Share,
        }
    }
}

/// A recording that is read for its samples.
pub(crate) fn input(path: &Path, force: bool) -> Input {
    Input {
        path: path.to_owned(),
        force,
        shows_addresses: false,
        counting: Some(Counting::Samples),
        separate_callchains: false,
        details: true,
        trace_fields: Vec::new(),
        branch_history: None,
        clock: None,
        folds_idle: false,
        max_stack: None,
    }
}

/// The files of a side: one, or several with commas between them.
pub(crate) fn files(text: &Path) -> Vec<PathBuf> {
    let whole = vec![text.to_owned()];
    match text.to_str() {
        Some(list) if !text.exists() => list.split(',').map(PathBuf::from).collect(),
        _ => whole,
    }
}

/// Refuses a side on which a recording stands twice: it would pass for runs that
/// do not scatter.
pub(crate) fn check_distinct(side: &[PathBuf]) -> anyhow::Result<()> {
    let mut known = HashMap::new();
    for path in side {
        // What cannot be looked at is told when it is read.
        let Ok(about) = std::fs::metadata(path) else {
            continue;
        };
        if let Some(first) = known.insert((about.dev(), about.ino()), path) {
            let (first, path) = (first.display(), path.display());
            return Err(UsageError(format!(
                "{first} and {path} are one recording: runs of one side are recordings of their own"
            ))
            .into());
        }
    }
    Ok(())
}

/// The events of a recording that have samples, or all if none has: a table of
/// functions of each.
pub(crate) fn functions_of(
    input: &Input,
    name: &str,
    symbolizer: &Symbolizer,
) -> anyhow::Result<(Vec<Run>, Outcome)> {
    let (profile, outcome) = input.load_with(Detail::Symbol, symbolizer)?;
    check_cause(&profile, name)?;
    let options = TextOptions {
        sort: Some(vec![Field::Key(DSO), Field::Key(SYMBOL)]),
        children: false,
        ..TextOptions::default()
    };
    let runs = shown_events(&profile).map(|event| Run::new(name, &profile, &options, event));
    Ok((runs.collect(), outcome))
}

/// The events with samples, or all if none has.
pub(crate) fn shown_events(profile: &Profile) -> impl Iterator<Item = EventId> {
    let any = profile.events.iter().any(|event| event.samples > 0);
    let events = profile.events.iter().enumerate();
    let shown = events.filter(move |(_, event)| event.samples > 0 || !any);
    shown.filter_map(|(index, _)| u16::try_from(index).ok().map(EventId))
}

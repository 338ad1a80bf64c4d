//! Terms of events that change how their records come: `overwrite`, by which
//! they come when a file is wanted and at the end, and `time=0`, by which nobody can put them in order.

use crate::error::RecordError;
use crate::events::EventSpec;
use crate::options::{Options, Stacks};

/// What needs records in order, as they come; why, and what works instead.
type Need = (&'static str, &'static str, &'static str);

const UNWINDING: Need = (
    "-g",
    "which unwinds stacks in the order of times, while their memory is there",
    "--call-graph fp",
);
const WAITS: Need = (
    "--off-cpu",
    "which makes waits of records in the order of their times",
    "the event without the term",
);
const FILES: Need = (
    "--switch-output and --timestamp-filename",
    "which say by its time in which file a record is",
    "one file",
);
const FLIGHT: Need = (
    "--overwrite",
    "which keeps the newest records of all events by their times",
    "the event without the term",
);

/// Whether the event has such a term.
pub(crate) fn are_unusual(spec: &EventSpec) -> bool {
    term(spec).is_some()
}

fn term(spec: &EventSpec) -> Option<&'static str> {
    match (spec.keeps_newest(), spec.without_times) {
        (true, _) => Some("overwrite"),
        (_, true) => Some("time=0"),
        (false, false) => None,
    }
}

/// Refuses what cannot be done without records in order.
pub(crate) fn check(options: &Options) -> Result<(), RecordError> {
    let mut specs = options.events.iter();
    let is_needless = |term: &str| term == "overwrite" && options.overwrites_all();
    let Some((spec, term)) =
        specs.find_map(|spec| Some((spec, term(spec).filter(|term| !is_needless(term))?)))
    else {
        return Ok(());
    };
    let has_files = options.switching.is_some() || options.timestamp_name;
    let is_timeless = term == "time=0";
    let needs = [
        (options.waits.is_some(), WAITS),
        (matches!(options.stacks, Stacks::Unwound(_)), UNWINDING),
        (options.flight.is_some(), FLIGHT),
        (has_files && is_timeless, FILES),
    ];
    match needs.into_iter().find(|(is_asked, _)| *is_asked) {
        None => Ok(()),
        Some((_, (option, why, cure))) => Err(RecordError::Term {
            event: spec.name.clone(),
            term,
            option,
            why,
            cure,
        }),
    }
}

//! The terms between an event's slashes that every event has.

use super::error::EventError;
use super::pmu::{parse_number, split_term};
use super::spec::{ChainTerm, EventSpec, Rate};
use crate::branches::parse_branches;
use crate::cpu_list::parse_cpu_list;
use prof_abi::AttrFlags;

/// Terms that say which event it is.
const IDENTITY: &[&str] = &[
    "config",
    "config1",
    "config2",
    "config3",
    "config4",
    "name",
    "cpu",
    "metric-id",
];

/// Terms of all events, tracepoints included.
pub(super) const OF_ALL: &[&str] = &[
    "period",
    "freq",
    "call-graph",
    "stack-size",
    "max-stack",
    "inherit",
    "no-inherit",
    "time",
    "overwrite",
    "no-overwrite",
    "nr",
    "branch_type",
    "percore",
    "aux-output",
    "aux-sample-size",
    "aux-action",
];

/// Those that say how to sample, which `prof stat` does not.
const OF_SAMPLES: &[&str] = &[
    "freq",
    "call-graph",
    "stack-size",
    "max-stack",
    "inherit",
    "no-inherit",
    "time",
    "overwrite",
    "no-overwrite",
    "nr",
    "branch_type",
    "aux-output",
    "aux-sample-size",
    "aux-action",
];

/// What an event other than a tracepoint takes.
pub(super) fn of_events() -> impl Iterator<Item = &'static str> {
    IDENTITY.iter().chain(OF_ALL).copied()
}

/// What a probe takes: what a tracepoint does, and a shorter name.
pub(super) fn of_probes() -> impl Iterator<Item = &'static str> {
    OF_ALL.iter().copied().chain(["name"])
}

/// The terms of a list, `name` or `name=value`; a value without its quotes,
/// between which it may hold a comma.
pub(super) fn split(terms: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    let mut quote = None;
    let pieces = terms.split(move |letter| {
        match (letter, quote) {
            ('\'' | '"', None) => quote = Some(letter),
            _ if quote == Some(letter) => quote = None,
            _ => {}
        }
        letter == ',' && quote.is_none()
    });
    let terms = pieces
        .filter(|term| !term.trim().is_empty())
        .map(split_term);
    terms.map(|(name, value)| (name, value.map(unquoted)))
}

/// Applies a term that every event has; `false` if it is not one of those.
pub(super) fn apply(
    name: &str,
    value: Option<&str>,
    spec: &mut EventSpec,
) -> Result<bool, EventError> {
    let known = of_events().find(|known| *known == name);
    let Some(known) = known else {
        return Ok(false);
    };
    if OF_SAMPLES.contains(&known) {
        spec.sampling_term.get_or_insert(known);
    }
    let term = Term { name, value };
    match name {
        "config" => spec.attr.config = term.number(spec)?,
        "config1" => spec.attr.config1 = term.number(spec)?,
        "config2" => spec.attr.config2 = term.number(spec)?,
        "config3" => spec.attr.config3 = term.number(spec)?,
        "config4" => spec.attr.config4 = term.number(spec)?,
        "name" => match value {
            Some(name) if !name.is_empty() => name.clone_into(&mut spec.name),
            _ => {
                return Err(EventError::UnusableTerm {
                    event: spec.name.clone(),
                    term: name.to_owned(),
                    why: "write name=NAME",
                });
            }
        },
        "cpu" => {
            let cpus = parse_cpu_list(value.unwrap_or_default());
            spec.cpus = Some(cpus.ok_or_else(|| term.wrong(spec))?);
            spec.has_own_cpus = true;
        }
        "percore" => spec.percore = true,
        // By it perf finds the events of its metrics again; it opens nothing else.
        "metric-id" if value.is_none() => return Err(term.wrong(spec)),
        "metric-id" => {}
        _ => term.apply_to_samples(spec)?,
    }
    Ok(true)
}

/// Terms whose values are no numbers, and what to write.
const WORDS: [(&str, &str); 5] = [
    (
        "aux-action",
        "write aux-action=start-paused, pause or resume",
    ),
    (
        "branch_type",
        "write branch_type=FILTER, one of those that -j takes (any, any_call, u)",
    ),
    ("call-graph", "write call-graph=fp, dwarf, lbr or no"),
    ("cpu", "write cpu=CPU, or a range as 0-3"),
    ("metric-id", "write metric-id=NAME"),
];

/// A value without the quotes around it.
fn unquoted(value: &str) -> &str {
    let inner = |quote| value.strip_prefix(quote)?.strip_suffix(quote);
    inner('\'').or_else(|| inner('"')).unwrap_or(value)
}

struct Term<'a> {
    name: &'a str,
    value: Option<&'a str>,
}

impl Term<'_> {
    fn wrong(&self, spec: &EventSpec) -> EventError {
        let words = WORDS.iter().find(|(term, _)| *term == self.name);
        if let Some(&(_, why)) = words {
            return EventError::UnusableTerm {
                event: spec.name.clone(),
                term: self.name.to_owned(),
                why,
            };
        }
        EventError::Number {
            event: spec.name.clone(),
            value: self.value.unwrap_or_default().to_owned(),
            place: self.name.to_owned(),
        }
    }

    /// A term without a value is 1, as in perf.
    fn number(&self, spec: &EventSpec) -> Result<u64, EventError> {
        match self.value {
            None => Ok(1),
            Some(text) => parse_number(text).ok_or_else(|| self.wrong(spec)),
        }
    }

    fn fitting<T: TryFrom<u64>>(&self, spec: &EventSpec) -> Result<T, EventError> {
        T::try_from(self.number(spec)?).map_err(|_| self.wrong(spec))
    }

    fn apply_to_samples(&self, spec: &mut EventSpec) -> Result<(), EventError> {
        match self.name {
            "period" => spec.rate = Some(Rate::Period(self.number(spec)?)),
            "freq" => spec.rate = Some(Rate::Frequency(self.number(spec)?)),
            "stack-size" => spec.stack_size = Some(self.fitting(spec)?),
            "max-stack" => spec.attr.sample_max_stack = self.fitting(spec)?,
            "inherit" => spec.inherit = Some(true),
            "no-inherit" => spec.inherit = Some(false),
            "call-graph" => spec.chains = Some(self.chains(spec)?),
            "time" => {
                spec.without_times = match self.number(spec)? {
                    0 => true,
                    1 => false,
                    _ => return Err(self.wrong(spec)),
                };
            }
            "overwrite" => self.set_backward(spec, true)?,
            "no-overwrite" => self.set_backward(spec, false)?,
            "branch_type" => {
                let filters = parse_branches(self.value.unwrap_or("any"));
                spec.branches = Some(filters.map_err(|_| self.wrong(spec))?);
            }
            "aux-output" => spec.attr.flags = spec.attr.flags.with(AttrFlags::AUX_OUTPUT),
            "aux-sample-size" => spec.attr.aux_sample_size = self.fitting(spec)?,
            "aux-action" => spec.attr.aux_action = self.aux_action(spec)?,
            // Of perf's commands only `trace` ends by it.
            "nr" => drop(self.number(spec)?),
            _ => {}
        }
        Ok(())
    }

    /// Whether the ring always holds the newest records; perf takes a number
    /// behind either word and heeds it as little.
    fn set_backward(&self, spec: &mut EventSpec, is_backward: bool) -> Result<(), EventError> {
        self.number(spec)?;
        let flags = spec.attr.flags.without(AttrFlags::WRITE_BACKWARD);
        spec.attr.flags = match is_backward {
            true => flags.with(AttrFlags::WRITE_BACKWARD),
            false => flags,
        };
        Ok(())
    }

    fn chains(&self, spec: &EventSpec) -> Result<ChainTerm, EventError> {
        match self.value {
            Some("no") => Ok(ChainTerm::No),
            Some("dwarf") => Ok(ChainTerm::Dump),
            Some("fp") => Ok(ChainTerm::FramePointers),
            Some("lbr") => Ok(ChainTerm::LastBranch),
            _ => Err(self.wrong(spec)),
        }
    }

    fn aux_action(&self, spec: &EventSpec) -> Result<u32, EventError> {
        match self.value {
            Some("start-paused") => Ok(1),
            Some("pause") => Ok(2),
            Some("resume") => Ok(4),
            _ => Err(self.wrong(spec)),
        }
    }
}

//! Sort keys: what the rows of a table are told apart by.

use super::DetailKey;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// A part of a row's identity, with perf's name for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SortKey {
    /// Thread name.
    Comm,
    /// Thread name, whatever digits are in it; shows `<N>` for each number.
    CommNodigit,
    /// Thread, under the name perf has for it; shows thread id and name.
    Pid,
    /// Thread, by its proper name.
    Tid,
    /// Process (thread group).
    Tgid,
    /// Module.
    Dso,
    /// Function.
    Symbol,
    /// Source file and line of the executing code.
    Srcline,
    /// Source file of the executing code.
    Srcfile,
    /// CPU.
    Cpu,
    /// The caller that matches `--parent`.
    Parent,
    /// Slice of time.
    Time,
    /// Length of the function, bytes.
    SymbolSize,
    /// The event.
    Event,
    /// What the record of a sample tells.
    Detail(DetailKey),
}

impl SortKey {
    /// All keys but those that only records tell, which [`DetailKey::all`]
    /// lists.
    pub const ALL: [Self; 14] = [
        Self::Comm,
        Self::CommNodigit,
        Self::Pid,
        Self::Tid,
        Self::Tgid,
        Self::Dso,
        Self::Symbol,
        Self::Srcline,
        Self::Srcfile,
        Self::Cpu,
        Self::Parent,
        Self::Time,
        Self::SymbolSize,
        Self::Event,
    ];

    /// As typed after `--sort`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Comm => "comm",
            Self::CommNodigit => "comm_nodigit",
            Self::Pid => "pid",
            Self::Tid => "tid",
            Self::Tgid => "tgid",
            Self::Dso => "dso",
            Self::Symbol => "symbol",
            Self::Srcline => "srcline",
            Self::Srcfile => "srcfile",
            Self::Cpu => "cpu",
            Self::Parent => "parent",
            Self::Time => "time",
            Self::SymbolSize => "symbol_size",
            Self::Event => "event",
            Self::Detail(key) => key.name(),
        }
    }

    /// The column's heading, as perf writes it.
    pub fn heading(self) -> &'static str {
        match self {
            Self::Comm => "Command",
            Self::CommNodigit => "CommandNoDigit",
            Self::Pid => "    Pid:Command",
            Self::Tid => "    Tid:Command",
            Self::Tgid => "   Tgid:Command",
            Self::Dso => "Shared Object",
            Self::Symbol => "Symbol",
            Self::Srcline => "Source:Line",
            Self::Srcfile => "Source File",
            Self::Cpu => "CPU",
            Self::Parent => "Parent symbol",
            Self::Time => "Time",
            Self::SymbolSize => "Symbol size",
            Self::Event => "Event",
            Self::Detail(key) => key.heading(),
        }
    }

    /// Whether it is a property of a frame, not of the whole sample.
    pub fn is_of_frame(self) -> bool {
        matches!(
            self,
            Self::Dso | Self::Symbol | Self::SymbolSize | Self::Srcline | Self::Srcfile
        )
    }
}

/// What [`SortKey::CommNodigit`] tells thread names apart by.
pub(crate) fn without_digits(name: &str) -> impl Iterator<Item = char> + '_ {
    name.chars().filter(|letter| !letter.is_ascii_digit())
}

/// A thread's name with `<N>` for each number in it, as perf shows it.
pub(crate) fn comm_without_numbers(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    let mut is_in_number = false;
    for letter in name.chars() {
        let is_digit = letter.is_ascii_digit();
        match is_digit {
            true if !is_in_number => text.push_str("<N>"),
            true => {}
            false => text.push(letter),
        }
        is_in_number = is_digit;
    }
    text
}

impl fmt::Display for SortKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

const NO_TYPES: &str = "types of data are not looked for";
const NO_BLOCKS: &str = "code is not divided into the blocks between branches";
const IN_CHAINS: &str = "it is of the branches in call chains, which are shown without";
const NO_COLUMN: &str = "it is no column here; sort by local_weight, local_ins_lat or mem instead";
const NO_LATENCY: &str = "wall-clock time is not divided among threads; use record --switch-events, and the timeline \
     of the terminal UI";
const NO_GUESTS: &str = "guests have no shares of their own; record inside them";

/// perf's sort keys that are not here, and why.
#[rustfmt::skip] // a table
const REFUSED: [(&str, &str); 24] = [
    ("latency", NO_LATENCY),
    ("latency_children", NO_LATENCY),
    ("overhead_guest_sys", NO_GUESTS),
    ("overhead_guest_us", NO_GUESTS),
    ("weight1", NO_COLUMN),
    ("weight2", NO_COLUMN),
    ("weight3", NO_COLUMN),
    ("op", NO_COLUMN),
    ("cache", NO_COLUMN),
    ("memory", NO_COLUMN),
    ("dtlb", NO_COLUMN),
    ("dso_size", "mappings of one file are not told apart; prof report --mmaps shows them"),
    ("ipc_null", NO_BLOCKS),
    ("ipc_lbr", NO_BLOCKS),
    ("type", NO_TYPES),
    ("typeoff", NO_TYPES),
    ("symoff", NO_TYPES),
    ("typecln", NO_TYPES),
    ("callchain_branch_predicted", IN_CHAINS),
    ("callchain_branch_abort", IN_CHAINS),
    ("callchain_branch_cycles", IN_CHAINS),
    ("dcacheline", "cache lines are not told apart; sort by symbol_daddr"),
    ("trace_fields", "fields of tracepoints are no columns; sort by trace"),
    ("ipc", NO_BLOCKS),
];

/// Why a sort key of perf's is not here.
pub fn refused_key(name: &str) -> Option<&'static str> {
    let mut refused = REFUSED.iter();
    refused
        .find(|(refused, _)| *refused == name)
        .map(|(_, why)| *why)
}

/// A word that is no sort key.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("unknown sort key {given:?}; known are {known}")]
pub struct KeyError {
    /// What was given.
    pub given: String,
    /// All keys, separated by commas.
    pub known: String,
}

impl FromStr for SortKey {
    type Err = KeyError;

    /// Like perf, takes any beginning of a key's name (`sym` for `symbol`),
    /// whatever the case.
    fn from_str(text: &str) -> Result<Self, KeyError> {
        let lower = text.to_lowercase();
        let all = || {
            let details = DetailKey::all().map(Self::Detail);
            Self::ALL.into_iter().chain(details)
        };
        let exact = all().find(|key| key.name() == lower);
        let prefixed = || all().find(|key| !lower.is_empty() && key.name().starts_with(&lower));
        exact.or_else(prefixed).ok_or_else(|| KeyError {
            given: text.to_owned(),
            known: all().map(Self::name).collect::<Vec<_>>().join(", "),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{SortKey, comm_without_numbers};

    #[test]
    fn numbers_in_a_name_are_one_mark_each() {
        assert_eq!(comm_without_numbers("kworker/12:3H"), "kworker/<N>:<N>H");
        assert_eq!(comm_without_numbers("7"), "<N>");
        assert_eq!(comm_without_numbers("sh"), "sh");
    }

    #[test]
    fn a_beginning_of_a_name_is_enough() {
        assert_eq!("sym".parse(), Ok(SortKey::Symbol));
        assert_eq!("pid".parse(), Ok(SortKey::Pid));
        assert_eq!("com".parse(), Ok(SortKey::Comm));
        assert_eq!("comm_".parse(), Ok(SortKey::CommNodigit));
        assert_eq!("DSO".parse(), Ok(SortKey::Dso));
        let error = "nonsense".parse::<SortKey>().unwrap_err();
        assert!(error.to_string().contains("srcline"));
        assert!("".parse::<SortKey>().is_err());
    }
}

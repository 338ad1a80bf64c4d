//! Sort keys: what the rows of a table are told apart by.

mod cells;
mod rank;
mod recorded;

pub use cells::{CellLook, Cells, Field, FieldError, FieldList};
pub(crate) use cells::{char_count, srcline};
pub(crate) use rank::Ranks;
pub use recorded::DetailKey;
pub(crate) use recorded::Shown;

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
    /// Dso.
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

/// What is fixed of a key; its cells are those of
/// [`Cells`].
struct Spec {
    key: SortKey,
    name: &'static str,
    heading: &'static str,
    /// Least width, characters.
    width: usize,
    /// Whether perf fills the column even where it is the last.
    pads: bool,
    /// Whether it is a property of a frame, not of the whole sample.
    of_frame: bool,
}

const fn spec(
    key: SortKey,
    name: &'static str,
    heading: &'static str,
    (width, pads, of_frame): (usize, bool, bool),
) -> Spec {
    Spec {
        key,
        name,
        heading,
        width,
        pads,
        of_frame,
    }
}

/// All keys but those that only records tell, which [`DetailKey::all`] lists.
#[rustfmt::skip] // a table
const SPECS: [Spec; 14] = {
    use SortKey as Key;
    [
        spec(Key::Comm, "comm", "Command", (7, true, false)),
        spec(Key::CommNodigit, "comm_nodigit", "CommandNoDigit", (14, true, false)),
        spec(Key::Pid, "pid", "    Pid:Command", (15, true, false)),
        spec(Key::Tid, "tid", "    Tid:Command", (15, true, false)),
        spec(Key::Tgid, "tgid", "   Tgid:Command", (15, true, false)),
        spec(Key::Dso, "dso", "Shared Object", (13, true, true)),
        spec(Key::Symbol, "symbol", "Symbol", (6, false, true)),
        spec(Key::Srcline, "srcline", "Source:Line", (11, false, true)),
        spec(Key::Srcfile, "srcfile", "Source File", (11, false, true)),
        spec(Key::Cpu, "cpu", "CPU", (3, false, false)),
        spec(Key::Parent, "parent", "Parent symbol", (13, true, false)),
        spec(Key::Time, "time", "Time", (12, false, false)),
        spec(Key::SymbolSize, "symbol_size", "Symbol size", (11, false, true)),
        spec(Key::Event, "event", "Event", (5, true, false)),
    ]
};

impl SortKey {
    /// All keys, in the order in which a beginning of a name is looked for.
    pub fn all() -> impl Iterator<Item = Self> {
        let details = DetailKey::all().map(Self::Detail);
        SPECS.iter().map(|spec| spec.key).chain(details)
    }

    /// `Err` of a key that only records tell.
    fn spec(self) -> Result<&'static Spec, DetailKey> {
        if let Self::Detail(key) = self {
            return Err(key);
        }
        let found = SPECS.iter().find(|spec| spec.key == self);
        Ok(found.expect("each key has its line"))
    }

    /// As typed after `--sort`.
    pub fn name(self) -> &'static str {
        self.spec().map_or_else(DetailKey::name, |spec| spec.name)
    }

    /// The column's heading, as perf writes it.
    pub fn heading(self) -> &'static str {
        self.spec()
            .map_or_else(DetailKey::heading, |spec| spec.heading)
    }

    /// Least width of its column, characters.
    pub(crate) fn least_width(self) -> usize {
        self.spec()
            .map_or_else(DetailKey::least_width, |spec| spec.width)
    }

    /// Whether perf fills its column even where it is the last.
    pub(crate) fn pads_itself(self) -> bool {
        self.spec()
            .map_or_else(DetailKey::pads_itself, |spec| spec.pads)
    }

    /// Whether it is a property of a frame, not of the whole sample.
    pub fn is_of_frame(self) -> bool {
        self.spec().is_ok_and(|spec| spec.of_frame)
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
        let exact = Self::all().find(|key| key.name() == lower);
        let prefixed =
            || Self::all().find(|key| !lower.is_empty() && key.name().starts_with(&lower));
        exact.or_else(prefixed).ok_or_else(|| KeyError {
            given: text.to_owned(),
            known: Self::all().map(Self::name).collect::<Vec<_>>().join(", "),
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
    fn a_heading_fits_its_column() {
        for key in SortKey::all() {
            let width = key.heading().chars().count();
            assert!(key.least_width() >= width, "{key}");
            assert_eq!(key.name().parse(), Ok(key));
        }
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

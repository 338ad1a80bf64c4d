//! Sort keys: what the rows of a table are told apart by.

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
    /// The event.
    Event,
}

impl SortKey {
    /// All keys.
    pub const ALL: [Self; 13] = [
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
            Self::Event => "event",
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
            Self::Event => "Event",
        }
    }

    /// Whether it is a property of a frame, not of the whole sample.
    pub fn is_of_frame(self) -> bool {
        matches!(
            self,
            Self::Dso | Self::Symbol | Self::Srcline | Self::Srcfile
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
        let exact = Self::ALL.into_iter().find(|key| key.name() == lower);
        let prefixed = || {
            Self::ALL
                .into_iter()
                .find(|key| !lower.is_empty() && key.name().starts_with(&lower))
        };
        exact.or_else(prefixed).ok_or_else(|| KeyError {
            given: text.to_owned(),
            known: Self::ALL.map(Self::name).join(", "),
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

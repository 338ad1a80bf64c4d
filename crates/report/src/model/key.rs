//! Sort keys: what the rows of a table are told apart by.

use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// A part of a row's identity, with perf's name for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum SortKey {
    /// Thread name.
    Comm,
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
    pub const ALL: [Self; 12] = [
        Self::Comm,
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
    use super::SortKey;

    #[test]
    fn a_beginning_of_a_name_is_enough() {
        assert_eq!("sym".parse(), Ok(SortKey::Symbol));
        assert_eq!("pid".parse(), Ok(SortKey::Pid));
        assert_eq!("DSO".parse(), Ok(SortKey::Dso));
        let error = "nonsense".parse::<SortKey>().unwrap_err();
        assert!(error.to_string().contains("srcline"));
        assert!("".parse::<SortKey>().is_err());
    }
}

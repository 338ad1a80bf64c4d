//! What to count, whose, and how it is shown.

use crate::aggregate::Mode;
use crate::metrics::Metrics;
use crate::selection::Selection;
use crate::shown::text::Numbers;
use prof_record::commands::Channel;
use prof_record::events::EventSpec;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// When counting begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Delay {
    /// With the program.
    #[default]
    None,
    /// So long after its start.
    For(Duration),
    /// When [`Options::control`] says so.
    UntilTold,
}

/// How counts are written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Form {
    /// As text.
    Text {
        /// Digits in groups of three (`-B`).
        grouped: bool,
    },
    /// Fields with this between them.
    Separated(String),
    /// A JSON object a line.
    Json,
}

impl Form {
    pub(crate) fn numbers(&self) -> Numbers {
        match self {
            Self::Text { grouped: true } => Numbers::Grouped,
            _ => Numbers::Plain,
        }
    }
}

/// What is shown.
#[derive(Debug, Clone)]
pub struct Showing {
    /// How.
    pub form: Form,
    /// What counts are put together.
    pub mode: Mode,
    /// Counts as they were read, also where events shared a counter.
    pub raw: bool,
    /// The whole behind the intervals.
    pub summary: bool,
    /// Separated lines of the summary are marked as such.
    pub marks_summary: bool,
    /// The times of single runs.
    pub table: bool,
    /// Clear the screen before each interval.
    pub clears: bool,
    /// What is derived, instead of perf's choice.
    pub metrics: Metrics,
    /// Each reading, and events that are not supported, on stderr.
    pub verbose: bool,
}

/// A whole session of counting.
#[derive(Debug)]
pub struct Options {
    /// The events.
    pub events: Vec<EventSpec>,
    /// Whose.
    pub selection: Selection,
    /// What to run, empty for nothing.
    pub command: Vec<OsString>,
    /// Count children and new threads.
    pub inherit: bool,
    /// Write counts at this distance.
    pub interval: Option<Duration>,
    /// Stop after so many intervals.
    pub interval_count: Option<u64>,
    /// Stop after this time.
    pub timeout: Option<Duration>,
    /// When counting begins.
    pub delay: Delay,
    /// Enabling and disabling from outside.
    pub control: Option<Channel>,
    /// How often the command is run; 0 for until it is interrupted.
    pub repeat: u64,
    /// Shell commands to run before and behind each run.
    pub around: [Option<OsString>; 2],
    /// Write what is in memory to disk before each run (sync(2)).
    pub sync: bool,
    /// The file to store the counts in, and the command line to store.
    pub store: Option<(PathBuf, Vec<Vec<u8>>)>,
    /// What is shown.
    pub showing: Showing,
}

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
    /// When a command on [`Options::control`] says so, or never.
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

/// What is shown, and how.
#[derive(Debug, Clone)]
pub struct Showing {
    /// The format.
    pub form: Form,
    /// How counts are added up.
    pub mode: Mode,
    /// Counts are not scaled, even where events shared a hardware counter.
    pub raw: bool,
    /// A summary of the whole run after the intervals.
    pub summary: bool,
    /// Lines of the summary are marked as such in separated output.
    pub marks_summary: bool,
    /// A table of the run times of repeated runs.
    pub table: bool,
    /// Clear the screen before each interval.
    pub clears: bool,
    /// What follows from the counts, without them.
    pub metric_only: bool,
    /// The metrics to compute, instead of perf's default ones.
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
    /// Counts are written each time this has passed.
    pub interval: Option<Duration>,
    /// Stop after so many intervals.
    pub interval_count: Option<u64>,
    /// Stop after this time.
    pub timeout: Option<Duration>,
    /// When counting begins.
    pub delay: Delay,
    /// Where commands to enable and disable events come from.
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

//! Why a recording could not be made.

use crate::cgroup::NoCgroup;
use crate::events::EventError;
use crate::hints::Refusal;
use crate::no_thread::NoThread;
use crate::output_error::OutputError;
use prof_sys::ExecError;
use prof_sys::limits::{Limit, Resource};
use std::ffi::OsString;
use std::io;

/// A recording could not be made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// An event is wrong.
    #[error(transparent)]
    Event(#[from] EventError),
    /// The kernel refused.
    #[error(transparent)]
    Refused(Box<Refusal>),
    /// The command cannot run.
    #[error("cannot run {}: {source}", program.to_string_lossy())]
    Command {
        /// Its name.
        program: OsString,
        /// Why not.
        source: ExecError,
    },
    /// None of the tasks asked for is there.
    #[error("cannot attach: there is no {kind} {number}: it has ended, or its number is wrong")]
    NoTask {
        /// Process or thread.
        kind: &'static str,
        /// Its number.
        number: u32,
    },
    /// A CPU asked for is not there.
    #[error("CPU {cpu} is not online\n  online are: {online}")]
    NoCpu {
        /// Its number.
        cpu: u32,
        /// Those that are.
        online: String,
    },
    /// The event is only on other CPUs.
    #[error(
        "{event} is only on CPU {cpus}, of those that there are\n  try: without -C and cpu=, or with a CPU that is online"
    )]
    NotOnTheseCpus {
        /// Its name.
        event: String,
        /// Its CPUs.
        cpus: String,
    },
    /// A time that is counted, not sampled.
    #[error(
        "{event} has no samples: it is a time that prof stat takes\n  try: prof stat -e {event}"
    )]
    NoSamples {
        /// Its name.
        event: String,
    },
    /// An event for `--switch-output-event` that always occurs.
    #[error(
        "--switch-output-event {event}: it occurs all the time, say how often a file ends\n  \
         try: {event} with period=1000000000 between slashes, or --switch-output=1s"
    )]
    TooOften {
        /// Its name.
        event: String,
    },
    /// A term of the event cannot go with an option.
    #[error("{event}: {term} cannot go with {option}, {why}\n  try: {cure}")]
    Term {
        /// The event's name.
        event: String,
        /// The term.
        term: &'static str,
        /// The option.
        option: &'static str,
        /// What the option needs.
        why: &'static str,
        /// What works.
        cure: &'static str,
    },
    /// A trace cannot be recorded so.
    #[error("{what}\n  try: {cure}")]
    Trace {
        /// What is wrong.
        what: String,
        /// What works.
        cure: &'static str,
    },
    /// The cgroup cannot be opened.
    #[error(transparent)]
    Cgroup(NoCgroup),
    /// The frequency is above the limit and was not to be lowered.
    #[error(
        "{asked} Hz is above kernel.perf_event_max_sample_rate, which is {highest} Hz\n  try: a frequency of at most that, or without --strict-freq"
    )]
    Frequency {
        /// What was asked for.
        asked: u64,
        /// The limit.
        highest: u64,
    },
    /// Commands cannot be heard.
    #[error("cannot take commands (--control): {0}")]
    Commands(io::Error),
    /// The recording cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
    /// This signal came before anything was recorded.
    #[error("{doing}")]
    Interrupted {
        /// What was waited for.
        doing: OutputError,
        /// The signal.
        signal: i32,
    },
    /// No descriptors are left for files and threads of our own.
    #[error(
        "{}, only {limit} are allowed\n  try: sudo prlimit --pid $$ --nofile={}   (for this shell)",
        met_limit(.met), .limit.saturating_mul(2).max(64)
    )]
    Descriptors {
        /// The limit.
        limit: u64,
        /// Where it was met.
        met: Box<RecordError>,
    },
    /// The recorder's threads cannot get the priority that was asked for.
    #[error(
        "cannot record at real-time priority {priority}: {source}\n  it needs CAP_SYS_NICE or a limit that allows it (ulimit -r)\n  try: with sudo, or without -r"
    )]
    RealTime {
        /// The priority.
        priority: u8,
        /// Why not.
        source: io::Error,
    },
    /// The system has no thread for us.
    #[error("cannot start a thread: {0}")]
    Thread(NoThread),
    /// A system call that should not fail did.
    #[error("cannot {doing}")]
    System {
        /// What was tried.
        doing: &'static str,
        /// Why not.
        source: io::Error,
    },
}

impl RecordError {
    /// Names the limit of open files where that is what was met.
    pub(crate) fn with_limit(self) -> Self {
        let errno = match &self {
            Self::System { source, .. } | Self::Output(OutputError::Io { source, .. }) => source,
            Self::Command {
                source: ExecError::Fork(source),
                ..
            } => source,
            _ => return self,
        };
        match (errno.raw_os_error(), Limit::get(Resource::OpenFiles)) {
            (Some(libc::EMFILE), Ok(limit)) => Self::Descriptors {
                limit: limit.soft,
                met: Box::new(self),
            },
            _ => self,
        }
    }

    /// The exit code for it: 126 and 127 where the command cannot run, 128 and
    /// the signal's number where one came, else 1.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Command { source, .. } => source.exit_code(),
            Self::Interrupted { signal, .. } => u8::try_from(128 + signal).unwrap_or(1),
            _ => 1,
        }
    }
}

/// What was tried, and that there were too many open files.
fn met_limit(met: &RecordError) -> String {
    let tried = met.to_string();
    match tried.contains("Too many open files") {
        true => tried,
        false => format!("{tried}: too many open files (EMFILE)"),
    }
}

pub(crate) fn no_thread(source: io::Error) -> RecordError {
    RecordError::Thread(NoThread::new(source))
}

pub(crate) fn system(doing: &'static str) -> impl FnOnce(io::Error) -> RecordError {
    move |source| RecordError::System { doing, source }
}

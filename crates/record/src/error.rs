//! Why a recording could not be made.

use crate::cgroup::NoCgroup;
use crate::events::EventError;
use crate::hints::Refusal;
use prof_sys::ExecError;
use prof_sys::limits::{Limit, Resource};
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

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
        "{event} is only on CPU {cpus}, of those that there are\n  try: without -C, or -C {cpus}"
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

/// The recording could not be written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OutputError {
    /// The name is a directory's.
    #[error("cannot write the recording to {}: it is a directory\n  try: -o {}/perf.data", .0.display(), .0.display())]
    Directory(PathBuf),
    /// Its folder is not for this user to enter.
    #[error(
        "cannot write the recording to {}: this user may not enter the folder\n  try: -o /tmp/perf.data", .0.display()
    )]
    Folder(PathBuf),
    /// Somebody else made the link, so following it might overwrite what they
    /// could not.
    #[error(
        "cannot write the recording to {}: it is a symbolic link made by user {owner}\n  try: -o another name, or remove the link",
        link.display()
    )]
    ForeignLink {
        /// The link.
        link: PathBuf,
        /// Who made it.
        owner: u32,
    },
    /// Links led on for too long.
    #[error("cannot write the recording to {}: too many symbolic links", .0.display())]
    LinkLoop(PathBuf),
    /// A recording is not text.
    #[error(
        "cannot write the recording to a terminal\n  try: prof record -o - … | prof report -i -"
    )]
    Terminal,
    /// It was given up before anybody opened the FIFO for reading.
    #[error("nobody has opened {} for reading; nothing is recorded", .0.display())]
    NoReader(PathBuf),
    /// Whoever read the stream does so no more.
    #[error("cannot write the recording to {}: its reader has gone away (EPIPE)", .0.display())]
    ReaderGone(PathBuf),
    /// Whoever should read the stream takes nothing, and was given up.
    #[error("cannot write the recording to {}: its reader takes no more, and was given up", .0.display())]
    ReaderStuck(PathBuf),
    /// Only files are packed.
    #[error(
        "cannot compress what goes to {}: it is no file\n  try: without -z, through zstd(1)", .0.display()
    )]
    Packed(PathBuf),
    /// There can be no file after it.
    #[error(
        "cannot write several recordings to {}: it is no file\n  try: -o a file, without --switch-output, --timestamp-filename and --overwrite", .0.display()
    )]
    NoFile(PathBuf),
    /// The system refused.
    #[error("cannot {doing} {}", path.display())]
    Io {
        /// What was tried.
        doing: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

/// Why no thread can be started.
#[derive(Debug)]
pub struct NoThread {
    source: io::Error,
    /// Bytes of address space and number of threads that are allowed.
    address_space: Option<u64>,
    threads: Option<u64>,
}

impl NoThread {
    pub(crate) fn new(source: io::Error) -> Self {
        let limit = |resource| Limit::get(resource).ok().map(|limit| limit.soft);
        let finite = |limit: Option<u64>| limit.filter(|&limit| limit != u64::MAX);
        Self {
            source,
            address_space: finite(limit(Resource::AddressSpace)),
            threads: finite(limit(Resource::Processes)),
        }
    }
}

impl fmt::Display for NoThread {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = self.source.to_string().to_lowercase();
        write!(
            out,
            "{}",
            why.split(" (os error").next().unwrap_or_default()
        )?;
        match (self.address_space, self.threads) {
            (Some(bytes), _) => {
                let kib = bytes / 1024;
                write!(
                    out,
                    "\n  the address space is limited to {kib} KiB (ulimit -v)\n  \
                     try: a larger ulimit -v"
                )
            }
            (None, Some(threads)) => write!(
                out,
                "\n  this user may have {threads} processes and threads (ulimit -u)\n  \
                 try: a larger ulimit -u, or when others have ended"
            ),
            (None, None) => write!(
                out,
                "\n  its cgroup (pids.max) or the system (kernel.threads-max) has no more\n  \
                 try: when other processes have ended"
            ),
        }
    }
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

/// Makes an error of what failed with a file or a pipe.
pub(crate) fn io_error<'a>(
    doing: &'static str,
    path: &'a Path,
) -> impl FnOnce(io::Error) -> OutputError + use<'a> {
    move |source| match source.kind() {
        io::ErrorKind::BrokenPipe => OutputError::ReaderGone(path.to_owned()),
        io::ErrorKind::TimedOut => OutputError::ReaderStuck(path.to_owned()),
        _ => OutputError::Io {
            doing,
            path: path.to_owned(),
            source,
        },
    }
}

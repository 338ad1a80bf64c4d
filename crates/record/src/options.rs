//! What to record, as the command line or a caller says it.

use crate::commands::Channel;
use crate::events::{EventSpec, Rate};
use crate::output::{Destination, Making};
use prof_abi::BranchSampleType;
use prof_perfdata::write::Packing;
use prof_sys::{Identity, Surroundings};
use std::collections::VecDeque;
use std::ffi::OsString;
use std::time::Duration;

/// Whose events are recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A program that we launch, with all that it starts.
    Command(Vec<OsString>),
    /// Running processes with all their threads.
    Processes(Vec<u32>),
    /// Running threads.
    Threads(Vec<u32>),
    /// Everything on all CPUs or on those of [`Options::cpus`].
    System,
}

impl Target {
    /// What is recorded until somebody ends it; `None` for a command.
    pub(crate) fn endless(&self) -> Option<&'static str> {
        match self {
            Self::Command(_) => None,
            Self::Processes(_) => Some("the processes until they end"),
            Self::Threads(_) => Some("the threads until they end"),
            Self::System => Some("all that runs"),
        }
    }
}

/// How children and new threads of the target are followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Follow {
    /// Per-task events first; when many tasks turn out to be too short to be
    /// sampled, per-CPU events, if this user may open them and there are at
    /// most [`Follow::MOST_CPUS`] CPUs. Probes stay per task.
    #[default]
    Auto,
    /// Per-CPU events: samples of other tasks are taken too, and dropped when
    /// they are read. Tasks that live shorter than a sampling period get their
    /// share.
    Cpus,
    /// Per-task events that the kernel inherits from task to task, as perf
    /// does.
    Tasks,
}

impl Follow {
    /// With more CPUs than this, [`Follow::Auto`] does not switch to per-CPU
    /// events.
    pub const MOST_CPUS: usize = 32;
}

/// Which CPUs the thread that empties the rings may run on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Affinity {
    /// Any: the scheduler decides.
    #[default]
    System,
    /// Those of the NUMA node of the ring that it empties.
    Node,
    /// The CPU of the ring that it empties.
    Cpu,
}

/// How often to sample events that do not say it themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sampling {
    /// So many times a second.
    Frequency(u64),
    /// As often as the kernel allows.
    HighestFrequency,
    /// Every so many events.
    Period(u64),
}

impl Sampling {
    /// Like perf's default, in Hz.
    pub const DEFAULT: Self = Self::Frequency(4000);

    pub(crate) fn rate(self, highest: u64) -> Rate {
        match self {
            Self::Frequency(hz) => Rate::Frequency(hz),
            Self::HighestFrequency => Rate::Frequency(highest),
            Self::Period(events) => Rate::Period(events),
        }
    }
}

/// Call stacks of samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Stacks {
    /// None.
    #[default]
    None,
    /// The kernel follows frame pointers.
    FramePointers,
    /// The same, of user space when the task goes back there: once for all samples of
    /// one way through the kernel, and with memory that was not there (Linux 6.19).
    /// An older kernel follows them at once.
    Deferred,
    /// Registers and so many bytes of the user stack go to the file.
    Dump(u32),
    /// Registers and so many bytes of the user stack are unwound while
    /// recording; the file gets a call chain. See [`Stacks::auto`].
    Unwound(u32),
    /// The CPU's own record of calls.
    LastBranch,
}

/// Bytes of stack that each CPU may copy in a second, beyond [`LEAST_COPIED`] of each
/// sample.
const COPIED_PER_SECOND: u64 = 66_000_000;
/// The least bytes of stack in a sample: some dozen frames of a kilobyte, and at 10 kHz
/// what a ring of 16 MiB holds of an eighth of a second. Where a stack is shorter the
/// kernel leaves the rest of it in the ring as it is.
pub(crate) const LEAST_COPIED: u32 = 13 << 10;

/// Bytes of stack in a sample unless told otherwise, as perf does.
pub const DEFAULT_DUMP: u32 = 8192;

/// The largest stack dump, bytes: what a sample record can hold.
pub const MOST_DUMP: u32 = 65_528;

impl Stacks {
    /// What `-g` means at this sampling rate: stacks unwound while recording.
    /// Stack memory beyond the piece that the kernel copies is read later from
    /// the running process, and where it has changed by then the stack stays
    /// incomplete. So the copied piece is as large as 66 MB a second for each
    /// CPU allows, and at a frequency 13 KiB where rings have room for it.
    pub fn auto(sampling: Sampling) -> Self {
        let (hz, least) = match sampling {
            Sampling::Frequency(hz) => (hz, LEAST_COPIED),
            // Samples may come all at once.
            Sampling::HighestFrequency | Sampling::Period(_) => (10_000, 0),
        };
        let bytes = (COPIED_PER_SECOND / hz.max(1)) & !7;
        let bytes = bytes.clamp(least.into(), MOST_DUMP.into());
        Self::Unwound(u32::try_from(bytes).unwrap_or(MOST_DUMP))
    }

    /// Bytes of user stack in each sample.
    pub(crate) fn dump_bytes(self) -> Option<u32> {
        match self {
            Self::Dump(bytes) | Self::Unwound(bytes) => Some(bytes),
            _ => None,
        }
    }
}

/// The modes of the CPU that all events see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ModeFilter {
    /// As each event says.
    #[default]
    AsEvents,
    /// User space only.
    User,
    /// The kernel only.
    Kernel,
}

/// Which part of call chains to keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ChainFilter {
    /// Both.
    #[default]
    Both,
    /// User space.
    User,
    /// The kernel.
    Kernel,
}

/// When events begin to count.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Start {
    /// With the program, or at once.
    #[default]
    AtOnce,
    /// So much later.
    After(Duration),
    /// During these times only, from when until when; ascending.
    Windows(Vec<(Duration, Duration)>),
    /// When a command says so; see [`Options::commands`].
    OnCommand,
}

impl Start {
    /// When events are switched on and off after the start.
    pub(crate) fn changes(&self) -> VecDeque<(Duration, bool)> {
        match self {
            Self::AtOnce | Self::OnCommand => VecDeque::new(),
            Self::After(delay) => [(*delay, true)].into(),
            Self::Windows(windows) => {
                let windows = windows.iter();
                let changes = windows.flat_map(|&(from, to)| [(from, true), (to, false)]);
                changes.collect()
            }
        }
    }
}

/// When a recording goes on in another file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Switching {
    /// When SIGUSR2 comes.
    pub on_signal: bool,
    /// When the file has so many bytes.
    pub at_size: Option<u64>,
    /// After so long.
    pub every: Option<Duration>,
    /// Only so many of the newest files stay.
    pub most_files: Option<usize>,
    /// Whether nobody is told of files as they are finished.
    pub is_silent: bool,
}

/// How much of a recording stays in memory; see [`Options::flight`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flight {
    /// The last so long.
    Time(Duration),
    /// The newest so many bytes.
    Bytes(u64),
    /// What the kernel's rings hold, which it overwrites meanwhile. Not with what
    /// needs records as they come: [`Stacks::Unwound`] and [`Options::waits`].
    Rings,
}

/// What is kept of the traces of PMUs that write AUX areas.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Traces {
    /// Bytes of each area, `None` to choose.
    pub area_bytes: Option<u64>,
    /// Only snapshots of the newest; `None` keeps all.
    pub snapshots: Option<Snapshots>,
    /// The newest with each sample of the events in a group that a tracing event
    /// leads, and no other trace.
    pub samples: Option<TraceSamples>,
}

/// Snapshots of a trace, made when SIGUSR2 comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Snapshots {
    /// The most bytes of each, `None` for as many as an area has.
    pub bytes: Option<u64>,
    /// One more at the end of the recording.
    pub at_end: bool,
}

/// Pieces of a trace in samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TraceSamples {
    /// The most bytes of each, `None` for 4096; 61440 at most.
    pub bytes: Option<u32>,
}

/// What samples and the stream carry beyond the usual.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Extras {
    /// Data addresses and data mappings (`-d`).
    pub data: bool,
    /// Data mappings, without addresses.
    pub data_mappings: bool,
    /// Data sources, without addresses.
    pub data_sources: bool,
    /// Physical addresses.
    pub physical_addresses: bool,
    /// Page sizes of data addresses.
    pub data_page_size: bool,
    /// Page sizes of code addresses.
    pub code_page_size: bool,
    /// Periods of samples of a fixed period too (`-P`), where that does not
    /// make the kernel ignore it.
    pub period: bool,
    /// Weights (`-W`).
    pub weight: bool,
    /// Payloads of tracepoints (`-R`); tracepoints have them anyway.
    pub raw: bool,
    /// Counts of each thread when it ends (`-s`).
    pub thread_counts: bool,
    /// Context switches.
    pub switches: bool,
    /// How long events were enabled and ran, where samples have counts.
    pub running_times: bool,
    /// No records of BPF programs.
    pub no_bpf: bool,
    /// With [`Stacks::Unwound`]: stacks deeper than a sample copies are read
    /// before their threads go on.
    pub deep_stacks: bool,
    /// Most frames of a user chain (`--max-stack`); otherwise as many as a
    /// record holds, or as the kernel follows by frame pointers.
    pub most_frames: Option<u16>,
    /// Namespaces of tasks.
    pub namespaces: bool,
    /// Cgroups of samples, and their paths.
    pub cgroups: bool,
    /// Why transactions were given up (`--transaction`).
    pub transactions: bool,
    /// Registers at the interrupt, as a mask.
    pub interrupt_registers: u64,
    /// User registers, as a mask.
    pub user_registers: u64,
    /// Event id at a fixed place even for a single event.
    pub identifier: bool,
}

/// What a recording tells of what ran before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Told {
    /// Tasks, with their names.
    pub tasks: bool,
    /// Their mappings, and with these the tasks.
    pub mappings: bool,
    /// Cgroups, where they are recorded ([`Extras::cgroups`]).
    pub cgroups: bool,
}

impl Default for Told {
    fn default() -> Self {
        Self {
            tasks: true,
            mappings: true,
            cgroups: true,
        }
    }
}

/// Which waits are recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitOptions {
    /// Record nothing but waits.
    pub only: bool,
    /// Waits shorter than this are counted, but not recorded.
    pub at_least: Duration,
    /// About how many stacks a second are taken of short waits, chosen at
    /// random; `None` takes the stack of every wait.
    pub stacks: Option<u32>,
}

impl Default for WaitOptions {
    fn default() -> Self {
        Self {
            only: false,
            at_least: Duration::ZERO,
            stacks: Some(USUAL_STACKS),
        }
    }
}

/// Stacks of short waits a second, if nothing else is asked for: what they cost
/// is then a few hundredths of a CPU.
const USUAL_STACKS: u32 = 2000;

/// A clock for timestamps, by number and name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    /// For `perf_event_attr.clockid`.
    pub id: i32,
    /// As `-k` takes it.
    pub name: &'static str,
}

/// The clocks that perf_event_open(2) takes, with all names `-k` knows.
pub const CLOCKS: &[(&str, Clock)] = {
    use prof_sys::clock;
    const fn named(id: i32, name: &'static str) -> Clock {
        Clock { id, name }
    }
    &[
        ("CLOCK_MONOTONIC", named(clock::MONOTONIC, "monotonic")),
        ("monotonic", named(clock::MONOTONIC, "monotonic")),
        ("mono", named(clock::MONOTONIC, "monotonic")),
        (
            "CLOCK_MONOTONIC_RAW",
            named(clock::MONOTONIC_RAW, "monotonic_raw"),
        ),
        (
            "monotonic_raw",
            named(clock::MONOTONIC_RAW, "monotonic_raw"),
        ),
        ("raw", named(clock::MONOTONIC_RAW, "monotonic_raw")),
        ("CLOCK_BOOTTIME", named(clock::BOOTTIME, "boottime")),
        ("boottime", named(clock::BOOTTIME, "boottime")),
        ("boot", named(clock::BOOTTIME, "boottime")),
        ("CLOCK_REALTIME", named(clock::REALTIME, "realtime")),
        ("realtime", named(clock::REALTIME, "realtime")),
        ("real", named(clock::REALTIME, "realtime")),
        ("CLOCK_TAI", named(clock::TAI, "tai")),
        ("tai", named(clock::TAI, "tai")),
    ]
};

/// A recording to be made.
#[derive(Debug, Clone)]
pub struct Options {
    /// Whose.
    pub target: Target,
    /// What; empty means the default event.
    pub events: Vec<EventSpec>,
    /// How often.
    pub sampling: Sampling,
    /// A frequency above the kernel's limit is an error, not lowered.
    pub strict_frequency: bool,
    /// Events that do not say how often count, and give no samples: what is
    /// recorded are tasks, mappings and [`Extras::thread_counts`].
    pub no_samples: bool,
    /// Call stacks.
    pub stacks: Stacks,
    /// Which part of them.
    pub chains: ChainFilter,
    /// Which modes of the CPU.
    pub modes: ModeFilter,
    /// Only these CPUs; empty means all.
    pub cpus: Vec<u32>,
    /// Which branches each sample tells (`-b`, `-j`).
    pub branches: Option<BranchSampleType>,
    /// Only the tasks of this cgroup, by its path below the mount.
    pub cgroup: Option<String>,
    /// Tell how each event was opened.
    pub verbose: bool,
    /// Real-time priority of the recorder's threads (`SCHED_FIFO`, 1 to 99).
    /// `None`: ordinary ones that take no CPU from the target that they could
    /// share.
    pub realtime: Option<u8>,
    /// On which CPUs rings are emptied (`--affinity`).
    pub affinity: Affinity,
    /// One ring per thread instead of one per CPU; without children.
    pub per_thread: bool,
    /// Children of the target too.
    pub inherit: bool,
    /// How they are followed.
    pub follow: Follow,
    /// Bytes of each ring, `None` to choose.
    pub ring_bytes: Option<u64>,
    /// Traces.
    pub traces: Traces,
    /// When to begin.
    pub start: Start,
    /// Which records are packed with zstd.
    pub packing: Packing,
    /// The user as whom a launched command runs, and who owns the files. Where
    /// the process is root's, all its threads become that user once the recording
    /// has begun, for good; not with [`Target::System`], nor where the user may
    /// not write beside the file.
    pub user: Option<Identity>,
    /// Working directory, environment and standard streams of a launched
    /// command, where they differ from ours.
    pub around: Surroundings,
    /// Of [`Target::Processes`] some may have ended.
    pub may_have_ended: bool,
    /// Where commands come from while the recording runs.
    pub commands: Option<Channel>,
    /// A program, with its arguments, that runs beside the recorded target; the
    /// recording ends when it ends. Not with [`Target::Command`].
    pub beside: Option<Vec<OsString>>,
    /// When to end, if before the target.
    pub duration: Option<Duration>,
    /// End when the file has so many bytes.
    pub max_size: Option<u64>,
    /// When to go on in another file; each has the time in its name.
    pub switching: Option<Switching>,
    /// Events that ask for another file when they occur, as a signal does.
    pub switch_events: Vec<EventSpec>,
    /// Only the newest records stay, in memory, until a signal, a command, one
    /// of the times of [`Options::switching`] or the end makes a file of them.
    pub flight: Option<Flight>,
    /// The file has the time of its end in its name.
    pub timestamp_name: bool,
    /// Record waits too: times when threads do not run (`--off-cpu`). Needs
    /// call stacks.
    pub waits: Option<WaitOptions>,
    /// What is told of the time before.
    pub told: Told,
    /// The clock of times, `None` for the scheduler's, or with waits the
    /// monotonic one.
    pub clock: Option<Clock>,
    /// What else.
    pub extras: Extras,
    /// Build-ids with each mapping.
    pub build_ids: bool,
    /// Whether files that only processes of other roots see are kept, as
    /// copies in the build-id cache (not with `-N`).
    pub keeps_files: bool,
    /// Where to.
    pub destination: Destination,
    /// Our own command line, for the file.
    pub command_line: Vec<Vec<u8>>,
    /// Our version, for the file.
    pub version: String,
}

impl Options {
    /// The defaults for a target.
    pub fn new(target: Target, destination: Destination) -> Self {
        Self {
            target,
            events: Vec::new(),
            sampling: Sampling::DEFAULT,
            strict_frequency: false,
            no_samples: false,
            stacks: Stacks::None,
            chains: ChainFilter::Both,
            modes: ModeFilter::AsEvents,
            cpus: Vec::new(),
            branches: None,
            cgroup: None,
            verbose: false,
            realtime: None,
            affinity: Affinity::default(),
            per_thread: false,
            inherit: true,
            follow: Follow::Auto,
            ring_bytes: None,
            traces: Traces::default(),
            start: Start::AtOnce,
            packing: Packing::DeepChains,
            user: None,
            around: Surroundings::default(),
            may_have_ended: false,
            commands: None,
            beside: None,
            duration: None,
            max_size: None,
            switching: None,
            switch_events: Vec::new(),
            flight: None,
            timestamp_name: false,
            waits: None,
            told: Told::default(),
            clock: None,
            extras: Extras {
                deep_stacks: true,
                ..Extras::default()
            },
            build_ids: true,
            keeps_files: true,
            destination,
            command_line: Vec::new(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

impl Options {
    /// How files are made.
    pub(crate) fn making(&self) -> Making {
        Making {
            owner: self.user.as_ref().map(|user| (user.uid, user.gid)),
            packing: match (self.packing, self.stacks) {
                // What makes those samples long are copies of stacks.
                (Packing::DeepChains, Stacks::Dump(_)) => Packing::Never,
                (packing, _) => packing,
            },
        }
    }

    /// The clock of times. That of waits is one that the recorder can read, too:
    /// a wait that is not over ends with the recording.
    pub(crate) fn used_clock(&self) -> Option<Clock> {
        let monotonic = || CLOCKS.iter().find(|(name, _)| *name == "monotonic");
        let of_waits = self.waits.and_then(|_| monotonic());
        self.clock.or(of_waits.map(|&(_, clock)| clock))
    }

    /// Whether a signal asks for another file, or a snapshot of a trace.
    pub(crate) fn takes_another_on_signal(&self) -> bool {
        self.parting().on_signal || self.traces.snapshots.is_some()
    }

    /// When files are made, if there are several.
    pub(crate) fn parting(&self) -> Switching {
        let on_signal = self.flight.is_some();
        let none = Switching {
            on_signal,
            ..Switching::default()
        };
        self.switching.unwrap_or(none)
    }

    /// Whether all events overwrite their rings.
    pub(crate) fn overwrites_all(&self) -> bool {
        self.flight == Some(Flight::Rings)
    }

    /// Whether an event overwrites its rings.
    pub(crate) fn overwrites(&self) -> bool {
        self.overwrites_all() || self.events.iter().any(EventSpec::keeps_newest)
    }

    /// Whether an event leaves its rate to [`Options::sampling`].
    pub(crate) fn uses_sampling(&self) -> bool {
        self.events.is_empty() || self.events.iter().any(|spec| spec.rate.is_none())
    }
}

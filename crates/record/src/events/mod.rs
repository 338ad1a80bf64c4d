//! From what the user writes after `-e` to event attributes.

mod breakpoint;
mod grammar;
mod modifiers;
pub(crate) mod names;
pub(crate) mod pmu;
mod probe;
mod programs;
mod terms;
mod tool;
mod tracepoint;

use prof_abi::{AttrFlags, BranchSampleType, EventAttr, Software, event_kind};
use std::ffi::CString;

pub use grammar::{parse, parse_for};
pub use names::distance;
pub use probe::Why as NoProbe;
pub use programs::Programs;
pub use tool::Tool;

/// How exact the addresses of samples shall be (`precise_ip`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precision {
    /// What was asked for, 0 to 3.
    #[default]
    Any,
    /// This, or it is an error.
    Exactly(u8),
    /// The best that the event can.
    Highest,
}

/// How often an event samples, where it says so itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rate {
    /// Times a second (Hz).
    Frequency(u64),
    /// Every so many events.
    Period(u64),
}

/// Call chains of one event, where it says so itself (`call-graph=`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChainTerm {
    /// None.
    No,
    /// By frame pointers.
    FramePointers,
    /// A piece of the stack with it.
    Dump,
    /// The CPU's own record of calls.
    LastBranch,
}

/// The modes of the CPU that an event is asked to see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Modes {
    /// `:u`, `:k` or `:h` was given, so the flags are the user's wish.
    pub given: bool,
    /// `:G` or `:H` was given, so guests are recorded as the flags say.
    pub guests: bool,
}

/// An event as asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EventSpec {
    /// As the user wrote it, its own modifiers included, those of its group
    /// not.
    pub name: String,
    /// What is counted: `kind`, `config*`, breakpoint fields and the flags
    /// that modifiers set. Nothing about sampling.
    pub attr: EventAttr,
    /// A tracepoint that occurs in the kernel only, so never where that is left
    /// out.
    pub in_kernel_only: bool,
    /// What a probe is on, if not on a mere address: the path of a file, or the
    /// name of a function of the kernel. The kernel gets a pointer to it.
    pub probe: Option<CString>,
    /// Modes by modifiers.
    pub modes: Modes,
    /// `:p…` and `:P`.
    pub precision: Precision,
    /// `period=` or `freq=`.
    pub rate: Option<Rate>,
    /// `call-graph=`.
    pub chains: Option<ChainTerm>,
    /// `stack-size=`, bytes.
    pub stack_size: Option<u32>,
    /// `inherit` or `no-inherit`.
    pub inherit: Option<bool>,
    /// Its group: events with the same number belong together, the first is
    /// the leader.
    pub group: Option<u32>,
    /// What its group is called, if it has a name: `name{a,b}`.
    pub group_name: Option<String>,
    /// `:S`: samples of the leader read the whole group.
    pub leader_samples: bool,
    /// `:W`: the group may be broken up.
    pub weak: bool,
    /// `:R`: samples tell latencies of retirement.
    pub latencies: bool,
    /// The only CPUs on which it is opened for all tasks: those of its PMU
    /// (`cpumask`, `cpus`), or of `cpu=`.
    pub cpus: Option<Vec<u32>>,
    /// Its cgroup (`-G`), by its path below the mount; only for all tasks.
    pub cgroup: Option<String>,
    /// What occurrences are kept (`--filter`): ftrace's syntax for tracepoints.
    pub filter: Option<CString>,
    /// `percore`: counts of a core's threads belong together.
    pub percore: bool,
    /// `time=0`: samples do not tell when they were taken, nor those of other
    /// events beside it.
    pub without_times: bool,
    /// `branch_type=`.
    pub branches: Option<BranchSampleType>,
    /// The term or modifier of it that sets how it is sampled, if there is one.
    pub sampling_term: Option<&'static str>,
    /// What `prof stat` measures instead of having the kernel count.
    pub tool: Option<Tool>,
}

impl EventSpec {
    /// An event without modifiers.
    pub fn new(name: impl Into<String>, attr: EventAttr) -> Self {
        Self {
            name: name.into(),
            attr,
            ..Self::default()
        }
    }

    /// Whether each occurrence is sampled unless told otherwise: tracepoints,
    /// breakpoints and what BPF programs write, as perf does.
    pub(crate) fn samples_each(&self) -> bool {
        self.is_bpf_output()
            || self.probe.is_some()
            || matches!(
                self.attr.kind,
                event_kind::TRACEPOINT | event_kind::BREAKPOINT
            )
    }

    /// Adds a filter to those it has, all of which hold. Fails where the event
    /// can have none.
    pub fn add_filter(&mut self, filter: &str) -> Result<(), NoFilter> {
        let is_tracing = self.attr.kind == event_kind::TRACEPOINT || self.probe.is_some();
        if !is_tracing && !pmu::filters_addresses(self.attr.kind) {
            return Err(NoFilter {
                event: self.name.clone(),
            });
        }
        let both = match self
            .filter
            .take()
            .and_then(|before| before.into_string().ok())
        {
            Some(before) if is_tracing => format!("({before}) && ({filter})"),
            Some(before) => format!("{before},{filter}"),
            None => filter.to_owned(),
        };
        // A NUL ends it for the kernel as well.
        self.filter = CString::new(both.split('\0').next().unwrap_or_default()).ok();
        Ok(())
    }

    /// Whether new threads and children can have it too; see
    /// [`prof_sys::Event::open_probe`].
    pub(crate) fn may_be_inherited(&self) -> bool {
        self.probe.is_none()
    }

    /// `overwrite`: its rings hold the newest records, and are read when a file is
    /// wanted and at the end.
    pub(crate) fn keeps_newest(&self) -> bool {
        self.attr.flags.has(AttrFlags::WRITE_BACKWARD)
    }

    /// Whether it is what BPF programs write, which is its payload.
    pub(crate) fn is_bpf_output(&self) -> bool {
        self.attr.kind == event_kind::SOFTWARE && self.attr.config == Software::BPF_OUTPUT.0
    }

    /// Whether it may be narrowed to user space when the kernel refuses more.
    pub(crate) fn may_drop_kernel(&self) -> bool {
        let asked_for = self.modes.given || breaks_into_kernel(&self.attr);
        !asked_for && !self.attr.flags.has(AttrFlags::EXCLUDE_KERNEL)
    }
}

/// Whether it is a breakpoint at an address of the kernel, which has the upper
/// half.
pub(crate) fn breaks_into_kernel(attr: &EventAttr) -> bool {
    attr.kind == event_kind::BREAKPOINT && attr.config1 >> 63 == 1
}

/// The name of an event of which only the user part could be had: `u` with its
/// letters, as perf puts it.
pub(crate) fn narrowed(name: &str) -> String {
    user_space(name).unwrap_or_else(|| format!("{name}:u"))
}

/// The event for user space only, as `-e` takes it; `None` for a name that was
/// given to it (`name=`), which says nothing.
pub(crate) fn user_space(name: &str) -> Option<String> {
    let (event, letters) = grammar::split_letters(name);
    let others: String = letters
        .chars()
        .filter(|letter| !"ukh".contains(*letter))
        .collect();
    let narrowed = match event {
        event if event.ends_with('/') => format!("{event}{others}u"),
        event => format!("{event}:{others}u"),
    };
    let specs = parse(&narrowed, 0).ok()?;
    let is_of_user = |spec: &EventSpec| spec.attr.flags.has(AttrFlags::EXCLUDE_KERNEL);
    specs.iter().all(is_of_user).then_some(narrowed)
}

/// The message that tells the user that a probe covers only the given tasks, not
/// their children.
pub fn of_known_threads(event: &str) -> String {
    format!(
        "{event}: only of threads that are there at its start, since the kernel hands no probe \
         on to threads and children that start later\n  try: -a, for all that runs this code"
    )
}

/// What users should know of a probe that follows children by whole CPUs.
pub(crate) fn of_all_that_runs(event: &str) -> String {
    format!(
        "{event}: set in every process that has this code, since the kernel hands no probe on to \
         threads and children; what others hit is dropped, and costs them time (programs that hit \
         probes of libc were seen to crash on Linux 6.18)\n  \
         try: without --follow cpus, for threads that are there at the start only"
    )
}

/// Takes weak groups (`:W`) apart; `false` if there are none.
pub(crate) fn break_up(specs: &mut [EventSpec]) -> bool {
    let mut any = false;
    let is_weak = |spec: &&mut EventSpec| spec.weak && spec.group.is_some();
    for spec in specs.iter_mut().filter(is_weak) {
        spec.group = None;
        spec.group_name = None;
        spec.leader_samples = false;
        any = true;
    }
    any
}

/// Whether this refusal of a member may come from its group, as perf sees it.
pub(crate) fn is_of_a_group(errno: i32) -> bool {
    matches!(errno, libc::EINVAL | libc::EBADF)
}

/// The fields that a filter of a tracepoint may name, for messages; empty for
/// other events.
pub(crate) fn fields_of(attr: &EventAttr) -> String {
    match attr.kind {
        event_kind::TRACEPOINT => tracepoint::fields(attr.config).join(", "),
        _ => String::new(),
    }
}

/// Whether an event never occurs where it looks: in the kernel, which it leaves
/// out.
pub(crate) fn is_blind(attr: &EventAttr, in_kernel_only: bool) -> bool {
    const KERNEL_ONLY: [Software; 3] = [
        Software::CONTEXT_SWITCHES,
        Software::CPU_MIGRATIONS,
        Software::CGROUP_SWITCHES,
    ];
    let is_software =
        attr.kind == event_kind::SOFTWARE && KERNEL_ONLY.contains(&Software(attr.config));
    (is_software || in_kernel_only) && attr.flags.has(AttrFlags::EXCLUDE_KERNEL)
}

/// The message that tells the user that events are never counted, because they
/// occur in the kernel only. `lack` is what they are not (`not sampled`);
/// `asked` says whether the user excluded the kernel.
pub fn of_the_kernel_only(names: &[String], lack: &str, asked: bool) -> String {
    let cure = match asked {
        true => "without :u and --all-user",
        false => "with sudo, or: sudo sysctl kernel.perf_event_paranoid=1",
    };
    let (occurs, are) = match names.len() {
        1 => ("it occurs", "is"),
        _ => ("they occur", "are"),
    };
    let names = names.join(", ");
    format!("{names} {are} {lack}: {occurs} in the kernel only, which is left out\n  try: {cure}")
}

/// An event of which nothing can be filtered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "--filter is for tracepoints and probes, and for PMUs that trace instructions, not for {event}\n  \
     try: --filter behind -e SUBSYSTEM:TRACEPOINT, or prof script with filters of its own"
)]
pub struct NoFilter {
    event: String,
}

/// An event that cannot be understood or does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EventError {
    /// No such name.
    #[error("there is no event {name}{}", suggestion(.nearest.as_deref()))]
    Unknown {
        /// As written.
        name: String,
        /// What may have been meant.
        nearest: Option<String>,
    },
    /// A modifier that is not one.
    #[error(
        "event {name}: there is no modifier {modifier:?}\n  modifiers are u k h (modes), p P (precision), G H (guest, host), I D e S W X b R"
    )]
    Modifier {
        /// The event.
        name: String,
        /// The letter.
        modifier: char,
    },
    /// A modifier that prof does not take.
    #[error("event {name}: modifier {modifier:?}: {why}")]
    RefusedModifier {
        /// The event.
        name: String,
        /// The letter.
        modifier: char,
        /// Why not.
        why: &'static str,
    },
    /// A term between slashes that is not known.
    #[error("event {event}: there is no term {term}{}", known_terms(.known))]
    Term {
        /// The event.
        event: String,
        /// The term.
        term: String,
        /// The terms of its PMU.
        known: Vec<String>,
    },
    /// A term of perf's that prof does not have.
    #[error("event {event}: there is no term {term}: {why}")]
    Refused {
        /// The event.
        event: String,
        /// The term.
        term: String,
        /// Why not, or what to use.
        why: &'static str,
    },
    /// A number that is none, or is too large for its place.
    #[error("event {event}: {value} is not a number that fits {place}")]
    Number {
        /// The event.
        event: String,
        /// As written.
        value: String,
        /// What it is for.
        place: String,
    },
    /// No such PMU.
    #[error("event {event}: this machine has no PMU {pmu}\n  it has: {}", .known.join(", "))]
    Pmu {
        /// The event.
        event: String,
        /// The PMU.
        pmu: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// The tracepoint cannot be looked up.
    #[error("tracepoint {name}: cannot read {path}: {why}\n  {hint}")]
    Tracepoint {
        /// `system:name`.
        name: String,
        /// The file looked for.
        path: String,
        /// Why not.
        why: String,
        /// What to do.
        hint: &'static str,
    },
    /// A probe that cannot be made.
    #[error("probe {event}: {why}")]
    Probe {
        /// As written.
        event: String,
        /// Why not.
        why: NoProbe,
    },
    /// A breakpoint that the CPU cannot have.
    #[error(
        "breakpoint {event}: {why}\n  write mem:ADDRESS[/LENGTH][:rwx] or mem:NAME[+OFFSET]…, length 1, 2, 4 or 8, for example mem:0x404040/4:w"
    )]
    Breakpoint {
        /// As written.
        event: String,
        /// What is wrong.
        why: String,
    },
    /// Braces or slashes that do not match, or nothing where an event should
    /// be.
    #[error("events {text:?}: {why} at character {at}")]
    Syntax {
        /// The whole text.
        text: String,
        /// What is wrong.
        why: &'static str,
        /// Where, from 1.
        at: usize,
    },
}

fn suggestion(nearest: Option<&str>) -> String {
    match nearest {
        Some(nearest) => format!("\n  did you mean {nearest}? (prof list shows all)"),
        None => "\n  prof list shows those that there are".to_owned(),
    }
}

fn known_terms(known: &[String]) -> String {
    format!("\n  its terms are: {}", known.join(", "))
}

#[cfg(test)]
mod tests {
    use super::{narrowed, user_space};

    #[test]
    fn the_part_in_user_space_can_be_asked_for() {
        for (event, expected) in [
            ("cycles", "cycles:u"),
            ("cpu-clock:k", "cpu-clock:u"),
            ("cycles:ukpp", "cycles:ppu"),
            ("cpu-clock/freq=99/", "cpu-clock/freq=99/u"),
            ("cpu-clock/freq=99/Hk", "cpu-clock/freq=99/Hu"),
            ("mem:0x1000", "mem:0x1000:u"),
            ("mem:0x1000/4:w", "mem:0x1000/4:w:u"),
            ("mem:0x1000/4:w:k", "mem:0x1000/4:w:u"),
        ] {
            assert_eq!(user_space(event).as_deref(), Some(expected));
            assert_eq!(narrowed(event), expected);
        }
        assert_eq!(user_space("my-own-name"), None);
        assert_eq!(narrowed("my-own-name"), "my-own-name:u");
    }
}

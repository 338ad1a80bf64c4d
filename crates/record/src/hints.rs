//! Why the kernel refuses an event, and what helps: a table of errno and
//! situation.

use crate::events;
use crate::kernel::Unknown;
use crate::rings::{Lockable, RingMemory, Size};
use std::fmt;

/// What was being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// perf_event_open(2).
    Open,
    /// mmap(2) of a ring.
    Map,
    /// `IOC_SET_FILTER`.
    Filter,
}

/// Whose event it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose {
    /// Of everything on a CPU.
    System,
    /// Of a process that was running.
    Attached,
    /// Of a program that we launched.
    Launched,
}

/// All that is known of a refusal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What was being done.
    pub step: Step,
    /// Why not.
    pub errno: i32,
    /// The event's name.
    pub event: String,
    /// Its type in perf_event_attr.
    pub kind: u32,
    /// Whose.
    pub whose: Whose,
    /// On which CPU, `None` for any.
    pub cpu: Option<u32>,
    /// Of which thread, `None` for all.
    pub tid: Option<u32>,
    /// It asks for branch records.
    pub branches: bool,
    /// These are its call chains (`--call-graph lbr`).
    pub branch_chains: bool,
    /// It asks for the trace of an AUX area (`aux-*`).
    pub aux: bool,
    /// It asks for exact addresses.
    pub precise: bool,
    /// It asks for NAMESPACES records.
    pub namespaces: bool,
    /// It asks for physical addresses.
    pub physical: bool,
    /// It is a member of a group.
    pub grouped: bool,
    /// It asks for the kernel too.
    pub kernel: bool,
    /// `--all-kernel` was given.
    pub all_kernel: bool,
    /// How to ask for the event in user space only, where that can be opened.
    pub narrowed: Option<String>,
    /// It is a probe (of the PMU `kprobe` or `uprobe`).
    pub probe: bool,
    /// It is a breakpoint at an address of the kernel.
    pub in_kernel: bool,
    /// It can be counted, but not sampled.
    pub counts: bool,
    /// What this kernel does not know of what was asked for.
    pub(crate) unknown: Option<Unknown>,
    /// It was to be counted, not sampled.
    pub counting: bool,
    /// The recorder runs as root, who has no more to gain by sudo: what it
    /// lacks is the container's or the user namespace's.
    pub root: bool,
    /// The number of its clock, if it is none that events can have (`-k`).
    pub clock: Option<i32>,
    /// It asks for a chain longer than `kernel.perf_event_max_stack`.
    pub long_chain: bool,
    /// Its filter, and the fields that a filter of it may name; empty without.
    pub filter: String,
    /// See there.
    pub fields: String,
    /// The frequency, if it has one, in Hz.
    pub frequency: Option<u64>,
    /// `kernel.perf_event_max_sample_rate`, Hz.
    pub highest_frequency: u64,
    /// `kernel.perf_event_paranoid`, `None` if it cannot be read.
    pub paranoid: Option<i32>,
    /// Descriptors needed in all.
    pub descriptors: u64,
    /// The rings, of which one was refused.
    pub(crate) memory: RingMemory,
    /// Whether the size of rings is the user's wish.
    pub(crate) ring_is_asked: bool,
    /// What rings may lock.
    pub(crate) lockable: Lockable,
}

/// One row: when it applies, and the cause with the cure.
struct Row {
    step: Step,
    errno: i32,
    applies: fn(&Refusal) -> bool,
    text: &'static str,
}

const fn open(errno: i32, applies: fn(&Refusal) -> bool, text: &'static str) -> Row {
    Row {
        step: Step::Open,
        errno,
        applies,
        text,
    }
}

const fn map(errno: i32, applies: fn(&Refusal) -> bool, text: &'static str) -> Row {
    Row {
        step: Step::Map,
        errno,
        applies,
        text,
    }
}

const fn filter(errno: i32, applies: fn(&Refusal) -> bool, text: &'static str) -> Row {
    Row {
        step: Step::Filter,
        errno,
        applies,
        text,
    }
}

const COUNTS_ONLY: &str =
    "it can be counted here, not sampled\n  try: prof stat{system} -e '{event}' ./app";
const UNKNOWN: &str = "{why}\n  try: without {option}";
const NO_TRACE: &str = "aux terms are for groups that a tracing PMU leads (intel_pt, arm_spe, cs_etm)\n  try: without them";
const KERNEL_BREAKPOINT: &str =
    "to watch an address of the kernel takes CAP_SYS_ADMIN\n  try: {sudo}";
const HIDDEN_KERNEL: &str = "kernel.perf_event_paranoid is {paranoid}, which hides the kernel from users without CAP_PERFMON, and this PMU has nothing else\n  try: {sudo}\n   or: {sysctl} kernel.perf_event_paranoid=1   (until reboot)";
const ALWAYS: fn(&Refusal) -> bool = |_| true;
/// Types from here on are given to PMUs as they come.
pub(crate) const FIRST_OWN_PMU: u32 = 6;
const NO_KERNEL_SUPPORT: fn(&Refusal) -> bool = |refusal| refusal.paranoid.is_none();

/// The first row that applies is the answer.
const ROWS: &[Row] = &[
    open(
        libc::ENOSYS,
        NO_KERNEL_SUPPORT,
        "this kernel is built without perf_event_open (CONFIG_PERF_EVENTS), or a sandbox hides it",
    ),
    open(
        libc::ENOSYS,
        ALWAYS,
        "the system call is blocked, as Docker's default seccomp profile does\n  try: docker run --cap-add PERFMON (or --security-opt seccomp=unconfined)",
    ),
    open(
        libc::EACCES,
        |r| r.namespaces && r.whose != Whose::System,
        "--namespaces takes CAP_PERFMON\n  try: without --namespaces, or {sudo}",
    ),
    open(
        libc::EACCES,
        |r| r.physical,
        "physical addresses take CAP_PERFMON\n  try: without --phys-data, or {sudo}\n   or: {sysctl} kernel.perf_event_paranoid=1   (until reboot)",
    ),
    open(
        libc::EACCES,
        |r| r.probe,
        "probes take CAP_SYS_ADMIN (of the kernel's functions CAP_PERFMON)\n  try: {sudo}",
    ),
    open(libc::EACCES, |r| r.in_kernel, KERNEL_BREAKPOINT),
    open(
        libc::EACCES,
        |r| r.whose == Whose::System,
        "kernel.perf_event_paranoid is {paranoid} and this process lacks CAP_PERFMON\n  try: prof {command} ./app            (own processes, user space only)\n   or: {sysctl} kernel.perf_event_paranoid=0   (until reboot)",
    ),
    open(
        libc::EACCES,
        |r| r.all_kernel && r.narrowed.is_some(),
        "kernel.perf_event_paranoid is {paranoid}, which hides the kernel from users without CAP_PERFMON\n  try: without --all-kernel (user space only)\n   or: {sysctl} kernel.perf_event_paranoid=1   (until reboot)",
    ),
    open(
        libc::EACCES,
        |r| r.narrowed.is_some(),
        "kernel.perf_event_paranoid is {paranoid}, which hides the kernel from users without CAP_PERFMON\n  try: {narrowed} (user space only)\n   or: {sysctl} kernel.perf_event_paranoid=1   (until reboot)",
    ),
    open(
        libc::EACCES,
        |r| r.whose == Whose::Attached,
        "{thread} belongs to another user or may not be traced\n  try: {sudo}, or attach to a process of your own",
    ),
    open(
        libc::EACCES,
        |r| r.paranoid.is_some_and(|level| level > 2),
        "kernel.perf_event_paranoid is {paranoid}, which allows nothing to users without CAP_PERFMON\n  try: {sysctl} kernel.perf_event_paranoid=2   (until reboot)",
    ),
    open(
        libc::EACCES,
        |r| r.kernel && r.kind >= FIRST_OWN_PMU && r.paranoid.is_some_and(|level| level > 1),
        HIDDEN_KERNEL,
    ),
    open(
        libc::EACCES,
        ALWAYS,
        "a security policy forbids it (seccomp, SELinux, AppArmor)\n  try: {sudo}",
    ),
    open(libc::EPERM, |r| r.in_kernel, KERNEL_BREAKPOINT),
    open(
        libc::EPERM,
        |r| r.kind == 2,
        "the payload of this tracepoint takes CAP_PERFMON\n  try: {sudo}\n   or: {sysctl} kernel.perf_event_paranoid=-1   (until reboot)",
    ),
    open(
        libc::EPERM,
        ALWAYS,
        "a security policy forbids it (seccomp, SELinux, kernel.perf_event_paranoid is {paranoid})\n  try: {sudo}; in a container of Docker: docker run --cap-add PERFMON",
    ),
    open(
        libc::ENOENT,
        |r| matches!(r.kind, 0 | 3 | 4),
        "this machine has no hardware counters for it (a virtual machine without a PMU?)\n  try: -e cpu-clock",
    ),
    open(
        libc::ENOENT,
        ALWAYS,
        "this kernel has no such event\n  try: prof list",
    ),
    open(
        libc::EINTR,
        |r| r.probe,
        "another tool has a probe of ftrace at the same place\n  try: sudo perf probe --list   (and --del what is not needed)",
    ),
    open(
        libc::EFAULT,
        |r| r.probe,
        "this PMU takes a pointer into memory, which no command line has\n  try: -e uprobe:PATH:FUNCTION or kprobe:FUNCTION",
    ),
    open(
        libc::ENODEV,
        ALWAYS,
        "the CPU cannot count it\n  try: -e cpu-clock",
    ),
    open(
        libc::EOPNOTSUPP,
        |r| r.branches && r.branch_chains,
        "this machine records no branches\n  try: --call-graph fp",
    ),
    open(
        libc::EOPNOTSUPP,
        |r| r.branches,
        "this machine records no branches (a virtual machine, or an event that is not of the CPU's counters)\n  try: without -b, -j and branch_type",
    ),
    open(libc::EOPNOTSUPP, |r| r.aux, NO_TRACE),
    open(
        libc::EOPNOTSUPP,
        |r| r.precise,
        "this event has no exact addresses here\n  try: without :p",
    ),
    open(libc::EOPNOTSUPP, |r| r.counts, COUNTS_ONLY),
    open(
        libc::EOPNOTSUPP,
        ALWAYS,
        "the CPU cannot sample it\n  try: -e cpu-clock",
    ),
    open(
        libc::EINVAL,
        |r| r.clock.is_some(),
        "events cannot have their times from clock {clock}: they can from monotonic, monotonic_raw, boottime, realtime and tai\n  try: -k monotonic",
    ),
    open(libc::EINVAL, |r| r.unknown.is_some(), UNKNOWN),
    open(libc::E2BIG, |r| r.unknown.is_some(), UNKNOWN),
    open(libc::EINVAL, |r| r.aux, NO_TRACE),
    open(
        libc::EINVAL,
        |r| r.frequency.is_some_and(|hz| hz > r.highest_frequency),
        "{frequency} Hz is above kernel.perf_event_max_sample_rate, which is {highest}\n  try: a frequency of at most that, or without --strict-freq",
    ),
    open(
        libc::EINVAL,
        |r| r.in_kernel && !r.kernel,
        "the address is the kernel's, which :u leaves out\n  try: the event without :u",
    ),
    open(
        libc::EINVAL,
        |r| r.in_kernel,
        "the kernel lets nobody break into this code, where it has no kprobes into none of its own\n  try: prof list tracepoint",
    ),
    open(
        libc::EINVAL,
        |r| r.kind == 5,
        "the CPU has no such breakpoint: it takes writes (w), reads and writes (rw) or execution (x)",
    ),
    open(
        libc::EINVAL,
        |r| r.grouped,
        "the events of this group cannot be counted together\n  try: them apart, or :W after the group",
    ),
    open(libc::EINVAL, |r| r.counts, COUNTS_ONLY),
    open(
        libc::EINVAL,
        |r| r.counting && r.kind >= FIRST_OWN_PMU && !r.kernel,
        "this PMU cannot leave the kernel out, as :u asks, or the rights of this user\n  try: the event without :u{, sudo}",
    ),
    open(
        libc::EINVAL,
        |r| r.counting && r.kind < FIRST_OWN_PMU,
        "the kernel refuses the event as it is written\n  try: without its modifiers and terms",
    ),
    open(
        libc::EINVAL,
        |r| r.kind >= FIRST_OWN_PMU,
        "this PMU may only count, or only everything on a CPU\n  try: prof stat -a -e '{event}' sleep 1{, sudo}",
    ),
    open(
        libc::EINVAL,
        ALWAYS,
        "the kernel refuses this combination of options\n  try: fewer of them",
    ),
    open(
        libc::EOVERFLOW,
        |r| r.long_chain,
        "max-stack is above kernel.perf_event_max_stack\n  try: a smaller max-stack",
    ),
    open(
        libc::EBUSY,
        ALWAYS,
        "another tool uses the counter for itself (NMI watchdog, another profiler, a virtual machine)\n  try: {sysctl} kernel.nmi_watchdog=0   (until reboot)",
    ),
    open(
        libc::ENOSPC,
        |r| r.kind == 5,
        "all breakpoints of the CPU are in use (x86 has 4)\n  try: fewer mem: events, or end debuggers",
    ),
    open(
        libc::ENOSPC,
        ALWAYS,
        "the counters of the CPU are all in use\n  try: fewer events",
    ),
    open(
        libc::EMFILE,
        |r| r.whose == Whose::System,
        "{descriptors} descriptors are needed (events × CPUs), more than the hard limit of open files\n  try: sudo prlimit --pid $$ --nofile={descriptors}   (for this shell)\n   or: fewer events, or fewer CPUs with -C",
    ),
    open(
        libc::EMFILE,
        ALWAYS,
        "{descriptors} descriptors are needed (events × CPUs × threads), more than the hard limit of open files\n  try: sudo prlimit --pid $$ --nofile={descriptors}   (for this shell)\n   or: -a, which needs only events × CPUs",
    ),
    open(
        libc::ENFILE,
        ALWAYS,
        "the system has no descriptors left\n  try: {sysctl} fs.file-max={file_max}   (until reboot)",
    ),
    open(libc::ENOMEM, ALWAYS, "the kernel has no memory for it"),
    open(
        libc::ESRCH,
        ALWAYS,
        "there is no {thread}: it has ended, or its number is wrong",
    ),
    open(
        libc::E2BIG,
        ALWAYS,
        "this kernel is too old for one of the options asked for",
    ),
    map(
        libc::EPERM,
        |r| r.lockable.allows(r.locked()),
        "other recorders of this user hold what may be locked: {rings}, with a page for each {locked}, are refused, though {user} (kernel.perf_event_mlock_kb for each CPU, all recorders together) and {process} for each process (ulimit -l) are allowed\n  try: when those have ended\n   or: {sysctl} kernel.perf_event_mlock_kb={enough}   (until reboot)",
    ),
    map(
        libc::EPERM,
        |r| r.ring_is_asked,
        "{rings}, with a page for each, are {locked}; this user may lock {user} (kernel.perf_event_mlock_kb for each CPU, all recorders together) and each process {process} more (ulimit -l)\n  try: without -m\n   or: {sysctl} kernel.perf_event_mlock_kb={enough}   (until reboot)",
    ),
    map(
        libc::EPERM,
        ALWAYS,
        "even {rings}, with a page for each, are {locked}; this user may lock {user} (kernel.perf_event_mlock_kb for each CPU, all recorders together) and each process {process} more (ulimit -l)\n  try: {sysctl} kernel.perf_event_mlock_kb={enough}   (until reboot)",
    ),
    map(
        libc::ENOMEM,
        ALWAYS,
        "there is no memory for {rings}\n  try: a larger ulimit -v, if there is one, or fewer threads and CPUs",
    ),
    map(
        libc::EINVAL,
        ALWAYS,
        "a ring of {ring} is not a power of two of pages\n  try: -m with another size",
    ),
    filter(
        libc::EINVAL,
        |r| !r.fields.is_empty(),
        "the filter is {filter}: it names a field that there is not, or is no condition\n  its fields are: {fields}\n  try: --filter 'FIELD == NUMBER', with && and ||, ~ for patterns of texts",
    ),
    filter(
        libc::EINVAL,
        ALWAYS,
        "the filter is {filter}: the kernel takes none like it for this event",
    ),
    filter(
        libc::EACCES,
        ALWAYS,
        "to filter takes CAP_PERFMON\n  try: {sudo}",
    ),
    filter(libc::ENOMEM, ALWAYS, "the kernel has no memory for it"),
];

/// Why an event is not offered by a list, where it was tried: by errno, and by
/// whether the machine has counters of a CPU (`None`: either way).
const OFFERS: &[(i32, Option<bool>, &str)] = &[
    (libc::ENOENT, Some(false), NO_PMU),
    (libc::EOPNOTSUPP, Some(false), NO_PMU),
    (libc::ENODEV, Some(false), NO_PMU),
    (libc::ENXIO, Some(false), NO_PMU),
    (libc::EINVAL, Some(false), NO_PMU),
    (libc::ENOENT, Some(true), NOT_OF_THIS_CPU),
    (libc::EOPNOTSUPP, Some(true), NOT_OF_THIS_CPU),
    (libc::ENODEV, Some(true), NOT_OF_THIS_CPU),
    (libc::ENXIO, Some(true), NOT_OF_THIS_CPU),
    (libc::EINVAL, Some(true), NOT_OF_THIS_CPU),
    (libc::EACCES, None, "not permitted, see prof doctor"),
    (libc::EPERM, None, "not permitted, see prof doctor"),
    (
        libc::ENOSYS,
        None,
        "this kernel has no perf events, or a sandbox hides them",
    ),
    (
        libc::EMFILE,
        None,
        "no descriptor was left to try it (ulimit -n)",
    ),
];
const NO_PMU: &str = "this machine has no PMU";
const NOT_OF_THIS_CPU: &str = "this CPU does not have it";

/// The reason of the table.
pub(crate) fn why_not_offered(errno: i32, has_pmu: bool) -> Option<&'static str> {
    let mut rows = OFFERS.iter();
    let row = rows.find(|(row, pmu, _)| *row == errno && pmu.is_none_or(|pmu| pmu == has_pmu));
    row.map(|(_, _, text)| *text)
}

/// The name of an errno, as C has it.
pub(crate) fn errno_name(errno: i32) -> &'static str {
    const NAMES: &[(i32, &str)] = &[
        (libc::EPERM, "EPERM"),
        (libc::ENOENT, "ENOENT"),
        (libc::ESRCH, "ESRCH"),
        (libc::EINTR, "EINTR"),
        (libc::E2BIG, "E2BIG"),
        (libc::EBADF, "EBADF"),
        (libc::EAGAIN, "EAGAIN"),
        (libc::ENOMEM, "ENOMEM"),
        (libc::EACCES, "EACCES"),
        (libc::EFAULT, "EFAULT"),
        (libc::EBUSY, "EBUSY"),
        (libc::ENODEV, "ENODEV"),
        (libc::EINVAL, "EINVAL"),
        (libc::ENFILE, "ENFILE"),
        (libc::EMFILE, "EMFILE"),
        (libc::ENOSPC, "ENOSPC"),
        (libc::EOPNOTSUPP, "EOPNOTSUPP"),
        (libc::EOVERFLOW, "EOVERFLOW"),
        (libc::ENOSYS, "ENOSYS"),
    ];
    NAMES
        .iter()
        .find(|(number, _)| *number == errno)
        .map_or("errno", |(_, name)| name)
}

impl Refusal {
    /// Whether weak groups may be what is refused.
    pub(crate) fn breaks_weak_groups(&self) -> bool {
        self.grouped && events::is_of_a_group(self.errno)
    }

    /// The row's text with its places filled in.
    fn hint(&self) -> Option<String> {
        let row = ROWS
            .iter()
            .find(|row| row.step == self.step && row.errno == self.errno && (row.applies)(self))?;
        let paranoid = self
            .paranoid
            .map_or("unreadable".to_owned(), |level| level.to_string());
        let unknown = self.unknown;
        let unknown = unknown.map(|unknown| (unknown.sentence(), unknown.option));
        let (why, option) = unknown.unwrap_or_default();
        let text = row
            .text
            .replace("{why}", &why)
            .replace("{option}", option)
            .replace("{command}", if self.counting { "stat" } else { "record" })
            .replace("{sudo}", self.privilege())
            .replace("{, sudo}", if self.root { "" } else { ", with sudo" })
            .replace("{sysctl}", self.sysctl())
            .replace(
                "{system}",
                if self.whose == Whose::System {
                    " -a"
                } else {
                    ""
                },
            )
            .replace("{file_max}", &twice_the_files())
            .replace("{narrowed}", self.narrowed.as_deref().unwrap_or_default())
            .replace("{paranoid}", &paranoid)
            .replace("{event}", &self.event)
            .replace("{thread}", &self.thread())
            .replace("{clock}", &self.clock.unwrap_or(0).to_string())
            .replace("{highest}", &format!("{} Hz", self.highest_frequency))
            .replace("{frequency}", &self.frequency.unwrap_or(0).to_string())
            .replace("{descriptors}", &self.descriptors.to_string())
            .replace("{ring}", &Size(self.memory.bytes).to_string())
            .replace("{rings}", &self.asked_rings())
            .replace("{locked}", &Size(self.locked()).to_string())
            .replace("{user}", &Size(self.lockable.user).to_string())
            .replace("{process}", &Size(self.lockable.process).to_string())
            .replace("{enough}", &self.enough().to_string())
            .replace("{filter}", &self.filter)
            .replace("{fields}", &self.fields);
        Some(text)
    }

    /// Bytes that all rings lock.
    fn locked(&self) -> u64 {
        let RingMemory { rings, bytes, .. } = self.memory;
        self.lockable.locked_by(rings, bytes)
    }

    /// The KiB for each CPU that are enough for these rings as large as they
    /// should be, beside other recorders that hold all they may.
    fn enough(&self) -> u64 {
        let RingMemory { rings, wanted, .. } = self.memory;
        let cpus = self.lockable.cpus.max(1);
        let more = self.lockable.locked_by(rings, wanted);
        (self.lockable.user / cpus + more.div_ceil(cpus)).div_ceil(1024)
    }

    fn asked_rings(&self) -> String {
        let RingMemory { rings, bytes, .. } = self.memory;
        match rings {
            1 => format!("one ring of {}", Size(bytes)),
            rings => format!("{rings} rings of {}", Size(bytes)),
        }
    }

    /// How to get the privileges that are lacking.
    fn privilege(&self) -> &'static str {
        if self.root {
            "as root outside of this container or user namespace, whose root may not"
        } else {
            "with sudo"
        }
    }

    /// How to change a setting of the machine.
    fn sysctl(&self) -> &'static str {
        if self.root {
            "outside of this container or user namespace: sysctl"
        } else {
            "sudo sysctl"
        }
    }

    fn thread(&self) -> String {
        self.tid.map_or("all processes".to_owned(), |tid| {
            format!("process or thread {tid}")
        })
    }
}

/// Twice as many files as the system may have open.
fn twice_the_files() -> String {
    let now = std::fs::read_to_string("/proc/sys/fs/file-max");
    let now: u64 = now
        .ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(500_000);
    now.saturating_mul(2).min(i64::MAX as u64).to_string()
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.step {
            Step::Open if self.counting => "cannot count",
            Step::Open => "cannot open",
            Step::Map => "cannot map the ring of",
            Step::Filter => "cannot filter",
        };
        write!(out, "{what} {}", self.event)?;
        if let Some(cpu) = self.cpu {
            write!(out, " on CPU {cpu}")?;
        }
        match self.whose {
            Whose::Launched => {}
            Whose::System | Whose::Attached => write!(out, " for {}", self.thread())?,
        }
        let why = std::io::Error::from_raw_os_error(self.errno).to_string();
        let why = why
            .split(" (os error")
            .next()
            .unwrap_or_default()
            .to_lowercase();
        write!(out, ": {why} ({})", errno_name(self.errno))?;
        match self.hint() {
            Some(hint) => write!(out, "\n  {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Refusal {}

#[cfg(test)]
mod tests;

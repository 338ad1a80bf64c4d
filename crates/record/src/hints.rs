//! Why the kernel refuses an event, and what helps: a table of errno and
//! situation.

use crate::events;
use crate::rings::{Lockable, RingMemory, Size};
use std::fmt;

/// What was being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// perf_event_open(2).
    Open,
    /// mmap(2) of a ring.
    Map,
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
    /// It asks for a chain longer than `kernel.perf_event_max_stack`.
    pub long_chain: bool,
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

const ALWAYS: fn(&Refusal) -> bool = |_| true;
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
        "--namespaces takes CAP_PERFMON\n  try: without --namespaces, or with sudo",
    ),
    open(
        libc::EACCES,
        |r| r.physical,
        "physical addresses take CAP_PERFMON\n  try: without --phys-data, or with sudo",
    ),
    open(
        libc::EACCES,
        |r| r.whose == Whose::System,
        "kernel.perf_event_paranoid is {paranoid} and this process lacks CAP_PERFMON\n  try: prof record ./app            (own processes, user space only)\n   or: sudo sysctl kernel.perf_event_paranoid=0   (until reboot)",
    ),
    open(
        libc::EACCES,
        |r| r.whose == Whose::Attached,
        "{thread} belongs to another user or may not be traced\n  try: with sudo, or attach to a process of your own",
    ),
    open(
        libc::EACCES,
        |r| r.kernel,
        "kernel.perf_event_paranoid is {paranoid}, which hides the kernel from users without CAP_PERFMON\n  try: -e {event}:u (user space only)\n   or: sudo sysctl kernel.perf_event_paranoid=1   (until reboot)",
    ),
    open(
        libc::EACCES,
        ALWAYS,
        "kernel.perf_event_paranoid is {paranoid} and this process lacks CAP_PERFMON\n  try: sudo sysctl kernel.perf_event_paranoid=1   (until reboot)",
    ),
    open(
        libc::EPERM,
        |r| r.kind == 2,
        "the payload of this tracepoint takes CAP_PERFMON\n  try: with sudo",
    ),
    open(
        libc::EPERM,
        ALWAYS,
        "a security policy forbids it (seccomp, SELinux, kernel.perf_event_paranoid is {paranoid})\n  try: with sudo; in a container: --cap-add PERFMON",
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
        libc::ENODEV,
        ALWAYS,
        "the CPU cannot count it\n  try: -e cpu-clock",
    ),
    open(
        libc::EOPNOTSUPP,
        |r| r.branches,
        "this machine records no branches\n  try: --call-graph fp",
    ),
    open(
        libc::EOPNOTSUPP,
        |r| r.precise,
        "this event has no exact addresses here\n  try: without :p",
    ),
    open(
        libc::EOPNOTSUPP,
        ALWAYS,
        "the CPU cannot sample it, only count it\n  try: -e cpu-clock",
    ),
    open(
        libc::EINVAL,
        |r| r.frequency.is_some_and(|hz| hz > r.highest_frequency),
        "{frequency} Hz is above kernel.perf_event_max_sample_rate, which is {highest}\n  try: -F max",
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
        "another tool uses the counter for itself (NMI watchdog, another profiler, a virtual machine)\n  try: sudo sysctl kernel.nmi_watchdog=0   (until reboot)",
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
        ALWAYS,
        "{descriptors} descriptors are needed (events × CPUs × threads), more than the limit of open files\n  try: ulimit -n {descriptors}, or -a, which needs only events × CPUs",
    ),
    open(
        libc::ENFILE,
        ALWAYS,
        "the system has no descriptors left\n  try: sudo sysctl fs.file-max=1000000   (until reboot)",
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
        "other recorders of this user hold what may be locked: {rings}, with a page for each {locked}, are refused, though {user} (kernel.perf_event_mlock_kb for each CPU, all recorders together) and {process} for each process (ulimit -l) are allowed\n  try: when those have ended\n   or: sudo sysctl kernel.perf_event_mlock_kb={enough}   (until reboot)",
    ),
    map(
        libc::EPERM,
        |r| r.ring_is_asked,
        "{rings}, with a page for each, are {locked}; this user may lock {user} (kernel.perf_event_mlock_kb for each CPU, all recorders together) and each process {process} more (ulimit -l)\n  try: without -m\n   or: sudo sysctl kernel.perf_event_mlock_kb={enough}   (until reboot)",
    ),
    map(
        libc::EPERM,
        ALWAYS,
        "even {rings}, with a page for each, are {locked}; this user may lock {user} (kernel.perf_event_mlock_kb for each CPU, all recorders together) and each process {process} more (ulimit -l)\n  try: sudo sysctl kernel.perf_event_mlock_kb={enough}   (until reboot)",
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
];

/// The name of an errno, as C has it.
pub fn errno_name(errno: i32) -> &'static str {
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
        let text = row
            .text
            .replace("{paranoid}", &paranoid)
            .replace("{event}", &self.event)
            .replace("{thread}", &self.thread())
            .replace("{highest}", &format!("{} Hz", self.highest_frequency))
            .replace("{frequency}", &self.frequency.unwrap_or(0).to_string())
            .replace("{descriptors}", &self.descriptors.to_string())
            .replace("{ring}", &Size(self.memory.bytes).to_string())
            .replace("{rings}", &self.asked_rings())
            .replace("{locked}", &Size(self.locked()).to_string())
            .replace("{user}", &Size(self.lockable.user).to_string())
            .replace("{process}", &Size(self.lockable.process).to_string())
            .replace("{enough}", &self.enough().to_string());
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

    fn thread(&self) -> String {
        self.tid.map_or("all processes".to_owned(), |tid| {
            format!("process or thread {tid}")
        })
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.step {
            Step::Open => "cannot open",
            Step::Map => "cannot map the ring of",
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
mod tests {
    use super::{ROWS, Refusal, Step, Whose};
    use crate::rings::{Lockable, RingMemory};

    fn plain(step: Step, errno: i32) -> Refusal {
        Refusal {
            step,
            errno,
            event: "cycles".into(),
            kind: 1,
            whose: Whose::Launched,
            cpu: Some(3),
            tid: Some(42),
            branches: false,
            precise: false,
            namespaces: false,
            physical: false,
            grouped: false,
            kernel: false,
            long_chain: false,
            frequency: Some(999),
            highest_frequency: 100_000,
            paranoid: Some(2),
            descriptors: 4096,
            memory: RingMemory {
                rings: 3,
                bytes: 4096,
                wanted: 8 << 20,
                piece: None,
            },
            ring_is_asked: false,
            lockable: lockable(0),
        }
    }

    /// What two CPUs may lock.
    fn lockable(user: u64) -> Lockable {
        Lockable {
            user,
            cpus: 2,
            process: 16384,
            page: 4096,
        }
    }

    /// A refusal for each row, in the order of the table, and words of its
    /// answer.
    #[expect(clippy::too_many_lines, reason = "a table, one case after the other")]
    fn cases() -> Vec<(Refusal, &'static str)> {
        let open = |errno| plain(Step::Open, errno);
        let map = |errno| plain(Step::Map, errno);
        vec![
            (
                Refusal {
                    paranoid: None,
                    ..open(libc::ENOSYS)
                },
                "CONFIG_PERF_EVENTS",
            ),
            (open(libc::ENOSYS), "seccomp=unconfined"),
            (
                Refusal {
                    namespaces: true,
                    ..open(libc::EACCES)
                },
                "without --namespaces",
            ),
            (
                Refusal {
                    physical: true,
                    ..open(libc::EACCES)
                },
                "--phys-data",
            ),
            (
                Refusal {
                    whose: Whose::System,
                    tid: None,
                    ..open(libc::EACCES)
                },
                "paranoid=0",
            ),
            (
                Refusal {
                    whose: Whose::Attached,
                    ..open(libc::EACCES)
                },
                "thread 42 belongs to another",
            ),
            (
                Refusal {
                    kernel: true,
                    ..open(libc::EACCES)
                },
                "-e cycles:u",
            ),
            (open(libc::EACCES), "paranoid is 2"),
            (
                Refusal {
                    kind: 2,
                    ..open(libc::EPERM)
                },
                "tracepoint",
            ),
            (open(libc::EPERM), "security policy"),
            (
                Refusal {
                    kind: 0,
                    ..open(libc::ENOENT)
                },
                "-e cpu-clock",
            ),
            (open(libc::ENOENT), "prof list"),
            (open(libc::ENODEV), "cannot count"),
            (
                Refusal {
                    branches: true,
                    ..open(libc::EOPNOTSUPP)
                },
                "--call-graph fp",
            ),
            (
                Refusal {
                    precise: true,
                    ..open(libc::EOPNOTSUPP)
                },
                "without :p",
            ),
            (open(libc::EOPNOTSUPP), "only count"),
            (
                Refusal {
                    frequency: Some(200_000),
                    ..open(libc::EINVAL)
                },
                "200000 Hz is above",
            ),
            (
                Refusal {
                    kind: 5,
                    ..open(libc::EINVAL)
                },
                "breakpoint",
            ),
            (
                Refusal {
                    grouped: true,
                    ..open(libc::EINVAL)
                },
                ":W after the group",
            ),
            (open(libc::EINVAL), "combination"),
            (
                Refusal {
                    long_chain: true,
                    ..open(libc::EOVERFLOW)
                },
                "max-stack",
            ),
            (open(libc::EBUSY), "watchdog"),
            (
                Refusal {
                    kind: 5,
                    ..open(libc::ENOSPC)
                },
                "x86 has 4",
            ),
            (open(libc::ENOSPC), "fewer events"),
            (open(libc::EMFILE), "ulimit -n 4096"),
            (open(libc::ENFILE), "fs.file-max"),
            (open(libc::ENOMEM), "no memory"),
            (open(libc::ESRCH), "no process or thread 42"),
            (open(libc::E2BIG), "too old"),
            (
                Refusal {
                    lockable: lockable(8192),
                    ..map(libc::EPERM)
                },
                "when those have ended\n   or: sudo sysctl kernel.perf_event_mlock_kb=12298 ",
            ),
            (
                Refusal {
                    ring_is_asked: true,
                    ..map(libc::EPERM)
                },
                "try: without -m",
            ),
            (
                map(libc::EPERM),
                "even 3 rings of 4 KiB, with a page for each, are 24 KiB; this user may lock 0 KiB",
            ),
            (map(libc::ENOMEM), "no memory for 3 rings"),
            (map(libc::EINVAL), "ring of 4 KiB is not a power of two"),
        ]
    }

    #[test]
    fn each_row_answers_its_own_case() {
        let cases = cases();
        assert_eq!(cases.len(), ROWS.len(), "one case per row");
        for (row, (refusal, words)) in cases.iter().enumerate() {
            let text = refusal.to_string();
            assert!(text.contains(words), "row {row}: {text}");
            assert!(!text.contains('{'), "row {row}: {text}");
            let first = ROWS.iter().position(|row| {
                row.step == refusal.step && row.errno == refusal.errno && (row.applies)(refusal)
            });
            assert_eq!(first, Some(row), "{text}");
        }
    }

    #[test]
    fn a_message_says_what_where_why_and_what_to_do() {
        let refusal = Refusal {
            whose: Whose::System,
            tid: None,
            ..plain(Step::Open, libc::EACCES)
        };
        let text = refusal.to_string();
        let first = text.lines().next().expect("a line");
        assert_eq!(
            first,
            "cannot open cycles on CPU 3 for all processes: permission denied (EACCES)"
        );
        assert!(text.contains("try: prof record ./app"), "{text}");
    }

    #[test]
    fn an_unknown_errno_still_has_its_name() {
        let text = plain(Step::Open, libc::EFAULT).to_string();
        assert!(text.contains("(EFAULT)"), "{text}");
    }
}

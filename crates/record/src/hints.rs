//! Why the kernel refuses an event, and what helps: a refusal is what is known
//! of it, its words are those of one table of errno, call and situation.

mod table;

use crate::doctor::{Environment, sampling_of_own_works};
use crate::events;
use crate::kernel::Unknown;
use crate::rings::{Lockable, RingMemory, Size};
use std::fmt;
use std::sync::OnceLock;
use table::ROWS;
pub(crate) use table::why_not_offered;

/// Types from here on are given to PMUs as they come.
pub(crate) const FIRST_OWN_PMU: u32 = 6;

/// How to change a setting of the machine; root lacks what a container or user
/// namespace takes.
pub(crate) fn sysctl(is_root: bool) -> &'static str {
    match is_root {
        true => "outside of this container or user namespace: sysctl",
        false => "sudo sysctl",
    }
}

/// What was being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// perf_event_open(2).
    Open,
    /// mmap(2) of a ring.
    Map,
    /// mmap(2) of the area beside it, for a trace.
    Trace,
    /// `IOC_SET_OUTPUT`: into the ring of another event.
    Share,
    /// `IOC_ID`.
    Identify,
    /// `IOC_SET_FILTER`.
    Filter,
    /// process_vm_readv(2), for stacks that are deeper than what samples copy.
    ReadMemory,
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
    /// It is of a cgroup, and could be opened without.
    pub cgroup: bool,
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
    /// What is around the process.
    pub around: Around,
}

/// What is around a process that is refused something, beside the settings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Around {
    /// A seccomp filter looks at its system calls.
    pub seccomp: bool,
    /// It is in a user namespace of its own, whose capabilities do not count.
    pub user_namespace: bool,
    /// The CPU says that it is virtual, and has no PMU.
    pub no_virtual_pmu: bool,
    /// What every setting allows was tried, and refused too.
    pub sandboxed: bool,
    /// It was tried and works: kernel.perf_event_paranoid above 2 means no more than 2, as
    /// in kernels without Debian's or Android's change.
    pub allows_own: bool,
    /// `kernel.yama.ptrace_scope`; 0 without it.
    pub ptrace_scope: i64,
}

impl Around {
    /// What is around this process, but for what had to be tried.
    pub(crate) fn this_process() -> Self {
        static AROUND: OnceLock<Around> = OnceLock::new();
        *AROUND.get_or_init(|| {
            let environment = Environment::settings();
            let is_above_all = environment.paranoid.is_some_and(|level| level > 2);
            Self {
                allows_own: is_above_all && sampling_of_own_works(),
                ..Self::of(&environment)
            }
        })
    }

    /// What of the environment says why things are refused.
    pub(crate) fn of(environment: &Environment) -> Self {
        Self {
            seccomp: environment.seccomp,
            user_namespace: environment.user_namespace,
            no_virtual_pmu: environment.virtual_machine && environment.cpu_pmus().next().is_none(),
            sandboxed: false,
            allows_own: environment.attempts.own_user == Some(Ok(())),
            ptrace_scope: environment.ptrace_scope.unwrap_or(0),
        }
    }
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
        (libc::ENOTTY, "ENOTTY"),
        (libc::EILSEQ, "EILSEQ"),
        (libc::ENXIO, "ENXIO"),
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
    /// Of an event with this name and type to be opened, of which nothing more
    /// is known: whatever it may ask for, it does not.
    pub(crate) fn to_open(event: String, kind: u32, whose: Whose, errno: i32) -> Self {
        Self {
            step: Step::Open,
            errno,
            event,
            kind,
            whose,
            cpu: None,
            tid: None,
            branches: false,
            branch_chains: false,
            aux: false,
            precise: false,
            namespaces: false,
            physical: false,
            grouped: false,
            cgroup: false,
            kernel: false,
            all_kernel: false,
            narrowed: None,
            probe: false,
            in_kernel: false,
            counts: false,
            unknown: None,
            counting: false,
            root: false,
            clock: None,
            long_chain: false,
            filter: String::new(),
            fields: String::new(),
            frequency: None,
            highest_frequency: 0,
            paranoid: None,
            descriptors: 0,
            memory: RingMemory::NONE,
            ring_is_asked: false,
            lockable: Lockable::NONE,
            around: Around::default(),
        }
    }

    /// Of memory of recorded processes, by this kernel to this process.
    pub(crate) fn to_read_memory(errno: i32) -> Self {
        Self {
            step: Step::ReadMemory,
            root: prof_sys::process::effective_user() == 0,
            around: Around::this_process(),
            ..Self::to_open("memory of processes".to_owned(), 0, Whose::Launched, errno)
        }
    }

    /// Whether weak groups may be what is refused.
    pub(crate) fn breaks_weak_groups(&self) -> bool {
        self.grouped && events::is_of_a_group(self.errno)
    }

    /// Whether `kernel.perf_event_paranoid` is above `level`, or unknown.
    fn is_paranoid_above(&self, level: i32) -> bool {
        self.paranoid.is_none_or(|paranoid| paranoid > level)
    }

    /// Why, without what helps; `None` for what the table does not have.
    pub(crate) fn cause(&self) -> Option<String> {
        let hint = self.hint()?;
        let lines = hint.lines().take_while(|line| cure(line).is_none());
        Some(lines.collect::<Vec<_>>().join("\n"))
    }

    /// The command that would allow it, if one does.
    pub(crate) fn command(&self) -> Option<String> {
        let hint = self.hint()?;
        let cures = hint.lines().filter_map(cure);
        let mut commands = cures.filter_map(|cure| cure.split("   (").next());
        let command = commands.find(|cure| cure.starts_with("sudo "));
        command.map(|command| command.trim_end().to_owned())
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
            .replace("{lacks}", self.lack())
            .replace("{sudo}", self.privilege())
            .replace("{, sudo}", if self.root { "" } else { ", with sudo" })
            .replace("{sysctl}", sysctl(self.root))
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
            .replace("{scope}", &self.around.ptrace_scope.to_string())
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
        self.lockable.enough_kb(rings, wanted)
    }

    fn asked_rings(&self) -> String {
        let RingMemory { rings, bytes, .. } = self.memory;
        match rings {
            1 => format!("one ring of {}", Size(bytes)),
            rings => format!("{rings} rings of {}", Size(bytes)),
        }
    }

    /// Which privilege is lacking.
    fn lack(&self) -> &'static str {
        if self.around.user_namespace {
            "capabilities of a user namespace (rootless container) do not count"
        } else {
            "this process lacks CAP_PERFMON"
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

    fn thread(&self) -> String {
        self.tid.map_or("all processes".to_owned(), |tid| {
            format!("process or thread {tid}")
        })
    }
}

/// What a line of a hint tells to try, if it does.
fn cure(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("try: ")
        .or_else(|| line.strip_prefix("or: "))
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
            Step::Trace => "cannot map the area for the trace of",
            Step::Share => "cannot share a ring with",
            Step::Identify => "cannot get the number of",
            Step::Filter => "cannot filter",
            Step::ReadMemory => "cannot read",
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

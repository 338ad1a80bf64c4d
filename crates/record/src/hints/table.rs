//! The table itself: errno, call and situation in, cause and cures out. What
//! `record`, `stat`, `list` and `doctor` say of refusals is said here.

use super::{FIRST_OWN_PMU, Refusal, Step, Whose};
use crate::doctor::NO_ATTACH;

/// One row: when it applies, and the cause with the cure.
pub(super) struct HintRow {
    pub(super) step: Step,
    pub(super) errno: i32,
    pub(super) applies: fn(&Refusal) -> bool,
    pub(super) text: &'static str,
}

const fn open(errno: i32, applies: fn(&Refusal) -> bool, text: &'static str) -> HintRow {
    HintRow {
        step: Step::Open,
        errno,
        applies,
        text,
    }
}

const fn call(step: Step, errno: i32, text: &'static str) -> HintRow {
    HintRow {
        step,
        errno,
        applies: ALWAYS,
        text,
    }
}

const fn map(errno: i32, applies: fn(&Refusal) -> bool, text: &'static str) -> HintRow {
    HintRow {
        step: Step::Map,
        errno,
        applies,
        text,
    }
}

const fn filter(errno: i32, applies: fn(&Refusal) -> bool, text: &'static str) -> HintRow {
    HintRow {
        step: Step::Filter,
        errno,
        applies,
        text,
    }
}

const fn read_memory(applies: fn(&Refusal) -> bool, text: &'static str) -> HintRow {
    HintRow {
        step: Step::ReadMemory,
        errno: libc::EPERM,
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
const FILTERED: fn(&Refusal) -> bool = |r| r.around.sandboxed && r.around.seccomp;
const SECCOMP: &str = "a seccomp filter refuses it: whoever started this container or service has to allow perf_event_open\n  try: docker run --cap-add PERFMON (or --security-opt seccomp=unconfined)";
const POLICY: &str = "a security policy refuses it (SELinux, AppArmor or the like)";
const SANDBOX: &str = "every kernel since 3.12 takes this ioctl(2): a seccomp filter or another sandbox refuses it\n  try: outside of the sandbox";
const NAMESPACE: &str =
    "capabilities of a user namespace (rootless container) do not allow it\n  try: {sudo}";
const NO_DESCRIPTORS: &str = "{descriptors} descriptors are needed (events × CPUs × threads), more than the hard limit of open files\n  try: sudo prlimit --pid $$ --nofile={descriptors}   (for this shell)";
const ALL_NEEDS_LESS: &str = "{descriptors} descriptors are needed (events × CPUs × threads), more than the hard limit of open files\n  try: sudo prlimit --pid $$ --nofile={descriptors}   (for this shell)\n   or: -a, which needs only events × CPUs";
/// Whole CPUs may be sampled.
const MAY_SEE_ALL: fn(&Refusal) -> bool =
    |r| r.paranoid.is_some_and(|level| level < 1) || r.root && !r.around.user_namespace;
const ALWAYS: fn(&Refusal) -> bool = |_| true;
const NO_KERNEL_SUPPORT: fn(&Refusal) -> bool = |refusal| refusal.paranoid.is_none();

/// The first row that applies is the answer.
pub(super) const ROWS: &[HintRow] = &[
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
    open(libc::EACCES, FILTERED, SECCOMP),
    open(libc::EPERM, FILTERED, SECCOMP),
    open(libc::EACCES, |r| r.around.sandboxed, POLICY),
    open(libc::EPERM, |r| r.around.sandboxed, POLICY),
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
        |r| r.probe && r.around.user_namespace,
        NAMESPACE,
    ),
    open(
        libc::EACCES,
        |r| r.probe,
        "probes take CAP_SYS_ADMIN (of the kernel's functions CAP_PERFMON)\n  try: {sudo}",
    ),
    open(libc::EACCES, |r| r.in_kernel, KERNEL_BREAKPOINT),
    open(
        libc::EACCES,
        |r| r.whose == Whose::System && r.is_paranoid_above(0),
        "kernel.perf_event_paranoid is {paranoid} and {lacks}\n  try: prof {command} ./app            (own processes, user space only)\n   or: {sysctl} kernel.perf_event_paranoid=0   (until reboot)",
    ),
    open(
        libc::EACCES,
        |r| {
            r.whose == Whose::Launched
                && r.cpu.is_some()
                && r.tid.is_none()
                && r.is_paranoid_above(0)
        },
        "kernel.perf_event_paranoid is {paranoid} and {lacks}, and the event is of whole CPUs\n  try: without --follow cpus\n   or: {sysctl} kernel.perf_event_paranoid=0   (until reboot)",
    ),
    open(
        libc::EACCES,
        |r| r.all_kernel && r.narrowed.is_some() && r.is_paranoid_above(1),
        "kernel.perf_event_paranoid is {paranoid}, which hides the kernel from users without CAP_PERFMON\n  try: without --all-kernel (user space only)\n   or: {sysctl} kernel.perf_event_paranoid=1   (until reboot)",
    ),
    open(
        libc::EACCES,
        |r| r.narrowed.is_some() && r.is_paranoid_above(1),
        "kernel.perf_event_paranoid is {paranoid}, which hides the kernel from users without CAP_PERFMON\n  try: {narrowed} (user space only)\n   or: {sysctl} kernel.perf_event_paranoid=1   (until reboot)",
    ),
    open(
        libc::EACCES,
        |r| r.paranoid.is_some_and(|level| level > 2) && !r.around.allows_own,
        "kernel.perf_event_paranoid is {paranoid}, which allows nothing to users without CAP_PERFMON\n  try: {sysctl} kernel.perf_event_paranoid=2   (until reboot)",
    ),
    open(
        libc::EACCES,
        |r| r.whose == Whose::Attached && r.tid.is_none(),
        "processes of other users take CAP_PERFMON or CAP_SYS_PTRACE\n  try: {sudo}",
    ),
    open(
        libc::EACCES,
        |r| r.whose == Whose::Attached,
        "{thread} belongs to another user or may not be traced\n  try: {sudo}, or attach to a process of your own",
    ),
    open(
        libc::EACCES,
        |r| r.kernel && r.kind >= FIRST_OWN_PMU && r.paranoid.is_some_and(|level| level > 1),
        HIDDEN_KERNEL,
    ),
    open(libc::EACCES, |r| r.around.user_namespace, NAMESPACE),
    open(libc::EACCES, |r| r.around.seccomp, SECCOMP),
    open(
        libc::EACCES,
        ALWAYS,
        "a security policy forbids it (SELinux, AppArmor or the like)\n  try: {sudo}",
    ),
    open(libc::EPERM, |r| r.in_kernel, KERNEL_BREAKPOINT),
    open(
        libc::EPERM,
        |r| r.kind == 2 && r.root && !r.around.user_namespace,
        "the kernel refuses this tracepoint to everybody who asks for it in this way\n  try: another one (prof list tracepoint)",
    ),
    open(
        libc::EPERM,
        |r| r.kind == 2 && r.is_paranoid_above(-1),
        "the payload of this tracepoint takes CAP_PERFMON\n  try: {sudo}\n   or: {sysctl} kernel.perf_event_paranoid=-1   (until reboot)",
    ),
    open(libc::EPERM, |r| r.around.user_namespace, NAMESPACE),
    open(libc::EPERM, |r| r.around.seccomp, SECCOMP),
    open(
        libc::EPERM,
        ALWAYS,
        "a security policy forbids it (SELinux, kernel.perf_event_paranoid is {paranoid})\n  try: {sudo}; in a container of Docker: docker run --cap-add PERFMON",
    ),
    open(
        libc::ENOENT,
        |r| matches!(r.kind, 0 | 3 | 4) && r.around.no_virtual_pmu,
        "no PMU: the virtual machine was started without one (QEMU: -cpu host,pmu=on; clouds: a metal or larger instance)\n  try: -e cpu-clock",
    ),
    open(
        libc::ENOENT,
        |r| matches!(r.kind, 0 | 3 | 4),
        "this machine has no hardware counters for it, or no driver for them\n  try: -e cpu-clock",
    ),
    open(
        libc::ENOENT,
        |r| r.probe,
        "the kernel finds no function, or file, of this name\n  try: sudo grep -i PART_OF_THE_NAME /proc/kallsyms",
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
        libc::EILSEQ,
        |r| r.probe,
        "no instruction begins there\n  try: without +OFFSET, which is the function's start",
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
    // An event that is none of a tracing PMU is refused by every kernel.
    open(libc::EINVAL, |r| r.aux && r.kind < FIRST_OWN_PMU, NO_TRACE),
    open(libc::EINVAL, |r| r.unknown.is_some(), UNKNOWN),
    open(libc::E2BIG, |r| r.unknown.is_some(), UNKNOWN),
    open(
        libc::EINVAL,
        |r| r.cgroup,
        "this kernel does not tell cgroups apart (CONFIG_CGROUP_PERF)\n  try: without -G",
    ),
    open(libc::EINVAL, |r| r.aux, NO_TRACE),
    open(
        libc::EINVAL,
        |r| r.probe,
        "no probe can be set there: it is no code, or code that the kernel lets nobody probe (entry from user space, exceptions, the probes' own)\n  try: a function that calls it",
    ),
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
        |r| r.kind == 5 && r.event.contains('/') && r.event.contains(":x"),
        "where code runs is watched with the length of an address\n  try: without /LENGTH",
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
        |r| r.counting && r.kind >= FIRST_OWN_PMU && r.whose == Whose::System,
        "the PMU has no event of these numbers, or does not count it here\n  try: prof list pmu",
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
    // A command is one task at first, for which no less is needed.
    open(
        libc::EMFILE,
        |r| r.whose == Whose::Attached && MAY_SEE_ALL(r),
        ALL_NEEDS_LESS,
    ),
    open(libc::EMFILE, ALWAYS, NO_DESCRIPTORS),
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
    call(
        Step::Trace,
        libc::EPERM,
        "the area counts as rings do, and with {rings} it is more than this user may lock: {user} (kernel.perf_event_mlock_kb for each CPU, all recorders together) and {process} for each process (ulimit -l)\n  try: -m ,64K",
    ),
    call(
        Step::Trace,
        libc::ENOMEM,
        "there is no memory for it\n  try: -m ,64K",
    ),
    call(
        Step::Trace,
        libc::EOPNOTSUPP,
        "its PMU does not trace\n  try: prof stat -e {event} ./app",
    ),
    call(
        Step::Trace,
        libc::EINVAL,
        "its PMU takes no area of this size\n  try: -m ,1M",
    ),
    call(Step::Share, libc::ENOTTY, SANDBOX),
    call(Step::Share, libc::EPERM, SANDBOX),
    call(Step::Share, libc::EACCES, SANDBOX),
    call(
        Step::Share,
        libc::EINVAL,
        "events of one ring have one clock and one CPU\n  try: without clockid and -k",
    ),
    call(Step::Identify, libc::ENOTTY, SANDBOX),
    call(Step::Identify, libc::EPERM, SANDBOX),
    call(Step::Identify, libc::EACCES, SANDBOX),
    call(Step::Filter, libc::ENOTTY, SANDBOX),
    map(
        libc::EINVAL,
        ALWAYS,
        "a ring of {ring} is not a power of two of pages\n  try: -m with another size",
    ),
    filter(libc::EINVAL, |r| !r.fields.is_empty(), NO_CONDITION),
    // Parentheses and quotes that do not match: the kernel's parser has numbers of its
    // own for these.
    filter(libc::ENOENT, |r| !r.fields.is_empty(), NO_CONDITION),
    filter(libc::EPERM, |r| !r.fields.is_empty(), NO_CONDITION),
    filter(libc::ESRCH, |r| !r.fields.is_empty(), NO_CONDITION),
    filter(libc::EINVAL, ALWAYS, NO_FILTER),
    filter(libc::ENOENT, ALWAYS, NO_FILTER),
    filter(libc::EPERM, ALWAYS, NO_FILTER),
    filter(libc::ESRCH, ALWAYS, NO_FILTER),
    filter(
        libc::EACCES,
        ALWAYS,
        "to filter takes CAP_PERFMON\n  try: {sudo}",
    ),
    filter(libc::ENOMEM, ALWAYS, "the kernel has no memory for it"),
    read_memory(
        |r| r.around.ptrace_scope >= NO_ATTACH,
        "kernel.yama.ptrace_scope is {scope}: until the next boot nobody may, so stacks deeper than what samples copy are cut",
    ),
    read_memory(
        |r| r.around.ptrace_scope > 0,
        "kernel.yama.ptrace_scope is {scope} and this process lacks CAP_SYS_PTRACE, so stacks deeper than what samples copy are cut\n  try: {sudo}\n   or: {sysctl} kernel.yama.ptrace_scope=0   (until reboot)",
    ),
    read_memory(
        ALWAYS,
        "they are another user's, or may not be traced (setuid, capabilities, PR_SET_DUMPABLE), or a sandbox refuses it: stacks deeper than what samples copy are cut\n  try: {sudo}",
    ),
];

/// Why an event is not offered by a list, where it was tried: by errno, and by
/// whether the machine has counters of a CPU (`None`: either way).
pub(super) const OFFERS: &[(i32, Option<bool>, &str)] = &[
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
const NO_FILTER: &str = "the filter is {filter}: the kernel takes none like it for this event\n  try: --filter 'common_pid == NUMBER', if it is a probe or a tracepoint";
const NO_CONDITION: &str = "the filter is {filter}: it names a field that there is not, or is no condition\n  its fields are: {fields}\n  try: --filter 'FIELD == NUMBER', with && and ||, ~ for patterns of texts";
const NO_PMU: &str = "this machine has no PMU";
const NOT_OF_THIS_CPU: &str = "this CPU does not have it";

/// The reason of the table.
pub(crate) fn why_not_offered(errno: i32, has_pmu: bool) -> Option<&'static str> {
    let mut rows = OFFERS.iter();
    let row = rows.find(|(row, pmu, _)| *row == errno && pmu.is_none_or(|pmu| pmu == has_pmu));
    row.map(|(_, _, text)| *text)
}

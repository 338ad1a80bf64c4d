//! What threads waited for, told by the functions of the kernel in which they
//! did.
//!
//! The innermost function that says anything decides: a page fault in the
//! middle of `read` is a page fault. Where the kernel's part of the stack is not
//! to be seen, the system call's number decides, if it is known.

use prof_abi::CpuMode;
use prof_profile::{
    Clock, Counted, DroppedCount, Profile, StackId, StackSource, Wait, WaitKind, WaitState,
};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Whole names of functions, or how they begin, before what compilers put
/// behind them. Of several that fit, the first.
const FUNCTIONS: &[(&str, Fit, WaitKind)] = {
    use Fit::{Begins, Whole};
    &[
        ("futex_", Begins, WaitKind::Futex),
        ("__futex_", Begins, WaitKind::Futex),
        ("do_futex", Whole, WaitKind::Futex),
        ("rt_mutex_wait_proxy_lock", Whole, WaitKind::Futex),
        ("exc_page_fault", Whole, WaitKind::PageFault),
        ("asm_exc_page_fault", Whole, WaitKind::PageFault),
        ("do_user_addr_fault", Whole, WaitKind::PageFault),
        ("handle_mm_fault", Whole, WaitKind::PageFault),
        ("do_page_fault", Whole, WaitKind::PageFault),
        ("userfaultfd_", Begins, WaitKind::PageFault),
        ("handle_userfault", Whole, WaitKind::PageFault),
        ("rwsem_down_", Begins, WaitKind::KernelLock),
        ("__mutex_lock", Begins, WaitKind::KernelLock),
        ("__down_", Begins, WaitKind::KernelLock),
        ("down_read", Begins, WaitKind::KernelLock),
        ("down_write", Begins, WaitKind::KernelLock),
        ("percpu_rwsem_wait", Whole, WaitKind::KernelLock),
        ("ep_poll", Whole, WaitKind::Poll),
        ("do_epoll_", Begins, WaitKind::Poll),
        ("do_select", Whole, WaitKind::Poll),
        ("do_poll", Begins, WaitKind::Poll),
        ("do_sys_poll", Whole, WaitKind::Poll),
        ("poll_schedule_timeout", Begins, WaitKind::Poll),
        ("do_nanosleep", Whole, WaitKind::Sleep),
        ("hrtimer_nanosleep", Whole, WaitKind::Sleep),
        ("alarm_timer_nsleep", Whole, WaitKind::Sleep),
        // Not `do_wait_intr`, by which any wait queue is waited for.
        ("do_wait", Whole, WaitKind::Child),
        ("__do_wait", Whole, WaitKind::Child),
        ("do_wait_pid", Whole, WaitKind::Child),
        ("do_wait_thread", Whole, WaitKind::Child),
        ("kernel_wait", Begins, WaitKind::Child),
        ("wait_for_vfork_done", Whole, WaitKind::Vfork),
        // Compilers put it into this one, which waits for nothing else.
        ("kernel_clone", Whole, WaitKind::Vfork),
        ("anon_pipe_", Begins, WaitKind::Pipe),
        ("pipe_", Begins, WaitKind::Pipe),
        ("fifo_open", Whole, WaitKind::Pipe),
        ("wait_for_partner", Whole, WaitKind::Pipe),
        ("splice_from_pipe", Begins, WaitKind::Pipe),
        ("eventfd_", Begins, WaitKind::Descriptor),
        ("timerfd_", Begins, WaitKind::Descriptor),
        ("signalfd_", Begins, WaitKind::Descriptor),
        ("inotify_", Begins, WaitKind::Descriptor),
        ("fanotify_", Begins, WaitKind::Descriptor),
        ("perf_read", Whole, WaitKind::Descriptor),
        ("n_tty_", Begins, WaitKind::Terminal),
        ("tty_", Begins, WaitKind::Terminal),
        ("io_cqring_wait", Begins, WaitKind::AsyncIo),
        ("__do_sys_io_uring_", Begins, WaitKind::AsyncIo),
        ("__se_sys_io_uring_", Begins, WaitKind::AsyncIo),
        ("io_wq", Begins, WaitKind::KernelThread),
        ("read_events", Whole, WaitKind::AsyncIo),
        ("do_io_getevents", Whole, WaitKind::AsyncIo),
        ("sigsuspend", Whole, WaitKind::Signal),
        ("do_sigtimedwait", Whole, WaitKind::Signal),
        ("do_signal_stop", Whole, WaitKind::Signal),
        ("ptrace_stop", Whole, WaitKind::Signal),
        ("locks_lock_", Begins, WaitKind::FileLock),
        ("flock_lock_", Begins, WaitKind::FileLock),
        ("posix_lock_", Begins, WaitKind::FileLock),
        ("fcntl_setlk", Begins, WaitKind::FileLock),
        ("do_msgrcv", Whole, WaitKind::Ipc),
        ("do_msgsnd", Whole, WaitKind::Ipc),
        ("do_semtimedop", Whole, WaitKind::Ipc),
        ("__do_semtimedop", Whole, WaitKind::Ipc),
        ("wq_sleep", Whole, WaitKind::Ipc),
        ("do_mq_timed", Begins, WaitKind::Ipc),
        ("sk_wait_data", Whole, WaitKind::Socket),
        ("sk_stream_wait_", Begins, WaitKind::Socket),
        ("unix_", Begins, WaitKind::Socket),
        ("tcp_", Begins, WaitKind::Socket),
        ("udp_", Begins, WaitKind::Socket),
        ("inet_", Begins, WaitKind::Socket),
        ("netlink_", Begins, WaitKind::Socket),
        ("packet_", Begins, WaitKind::Socket),
        ("vsock_", Begins, WaitKind::Socket),
        ("__skb_wait_", Begins, WaitKind::Socket),
        ("__skb_recv_", Begins, WaitKind::Socket),
        ("sock_", Begins, WaitKind::Socket),
        ("__sys_accept", Begins, WaitKind::Socket),
        ("__sys_connect", Begins, WaitKind::Socket),
        ("__sys_recv", Begins, WaitKind::Socket),
        ("__sys_send", Begins, WaitKind::Socket),
        ("vfs_fsync_range", Whole, WaitKind::FileSync),
        ("do_fsync", Whole, WaitKind::FileSync),
        ("ksys_sync", Begins, WaitKind::FileSync),
        ("sync_filesystem", Whole, WaitKind::FileSync),
        ("vfs_read", Begins, WaitKind::FileRead),
        ("vfs_iter_read", Whole, WaitKind::FileRead),
        ("ksys_read", Begins, WaitKind::FileRead),
        ("filemap_read", Whole, WaitKind::FileRead),
        ("ksys_readahead", Whole, WaitKind::FileRead),
        ("iterate_dir", Whole, WaitKind::FileRead),
        // Names are looked up in folders, programs read by their heads.
        ("do_filp_open", Whole, WaitKind::FileRead),
        ("filename_lookup", Whole, WaitKind::FileRead),
        ("vfs_statx", Whole, WaitKind::FileRead),
        ("bprm_execve", Whole, WaitKind::FileRead),
        ("vfs_write", Begins, WaitKind::FileWrite),
        ("vfs_iter_write", Whole, WaitKind::FileWrite),
        ("ksys_write", Begins, WaitKind::FileWrite),
        ("do_truncate", Whole, WaitKind::FileWrite),
        ("vfs_fallocate", Whole, WaitKind::FileWrite),
        ("do_unlinkat", Whole, WaitKind::FileWrite),
        ("filename_unlinkat", Whole, WaitKind::FileWrite),
        ("do_rmdir", Whole, WaitKind::FileWrite),
        ("filename_rmdir", Whole, WaitKind::FileWrite),
        ("do_mkdirat", Whole, WaitKind::FileWrite),
        ("filename_mkdirat", Whole, WaitKind::FileWrite),
        ("do_renameat2", Whole, WaitKind::FileWrite),
        ("filename_renameat2", Whole, WaitKind::FileWrite),
        ("do_linkat", Whole, WaitKind::FileWrite),
        ("do_symlinkat", Whole, WaitKind::FileWrite),
        ("worker_thread", Whole, WaitKind::KernelThread),
        ("kthread", Whole, WaitKind::KernelThread),
        ("__x64_sys_pause", Whole, WaitKind::Signal),
        ("__arm64_sys_pause", Whole, WaitKind::Signal),
        ("do_syscall_64", Whole, WaitKind::SystemCall),
        ("el0_svc", Begins, WaitKind::SystemCall),
        ("invoke_syscall", Whole, WaitKind::SystemCall),
    ]
};

/// How much of a name must be the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fit {
    Whole,
    Begins,
}

/// The kind that a function of the kernel tells.
fn of_function(name: &str) -> Option<WaitKind> {
    let name = name.split('.').next().unwrap_or(name);
    let fits = |text: &str, fit| match fit {
        Fit::Whole => name == text,
        Fit::Begins => name.starts_with(text),
    };
    let rule = FUNCTIONS.iter().find(|&&(text, fit, _)| fits(text, fit));
    rule.map(|rule| rule.2)
}

/// Says of each wait that does not say it itself what it was for.
pub(crate) fn classify(profile: &mut Profile) {
    if !profile.samples.has_waits() {
        return;
    }
    let mut known: FxHashMap<StackId, Option<WaitKind>> = FxHashMap::default();
    let mut found: Vec<(usize, Wait)> = Vec::new();
    for (row, &stack) in profile.samples.stacks().iter().enumerate() {
        let Some(wait) = profile.samples.wait_at(row) else {
            continue;
        };
        if wait.kind != WaitKind::Unknown {
            continue;
        }
        let kind = known.entry(stack).or_insert_with(|| of(profile, stack));
        if let Some(kind) = *kind {
            found.push((row, Wait { kind, ..*wait }));
        }
    }
    for (row, wait) in found {
        profile.samples.set_wait(row, wait);
    }
}

/// What is to be known of the waits of a profile.
pub(crate) fn notes(profile: &Profile) -> impl Iterator<Item = DroppedCount> + use<> {
    let has_waits = profile.samples.has_waits();
    let notes = has_waits.then(|| [without_stack(profile), not_chosen(profile)]);
    notes.into_iter().flatten().flatten()
}

/// Of threads that were preempted, in a recording with samples of CPU time, which
/// stand for them, and in one without.
const PREEMPTED: [&str; 2] = [
    "of threads that were preempted before a sample of theirs",
    "of threads that were preempted: samples of CPU time would stand for these, and --off-cpu \
     takes them, not --off-cpu=only",
];

/// Of waits of less than [`SHORT`], where all stacks are read while threads sleep.
const TOO_SHORT: &str = "of waits below 5 ms: for this user stacks are read while threads sleep, and \
                         these waits were over by then";
/// ns.
const SHORT: u64 = 5_000_000;

/// Why a wait has no stack, of all such waits of a recording each time one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Cause {
    Preempted,
    NotRunYet,
    KernelThread,
    NotMadeUpFor,
    RecordsLost,
    BegunBefore,
    TooShort,
    NotRead,
    NotSampled,
}

impl Cause {
    /// Of a wait of this period, ns, without a stack; of one of a recording in which the
    /// kernel samples leavings, or of another.
    fn of(wait: &Wait, period: u64, has_switches: bool) -> Self {
        match (wait.state, wait.kind) {
            _ if wait.counted == Counted::ForOthers => Self::NotMadeUpFor,
            (WaitState::Started, _) => Self::NotRunYet,
            (WaitState::Preempted, _) if !has_switches => Self::Preempted,
            (_, WaitKind::KernelThread) => Self::KernelThread,
            _ if wait.is_unsure => Self::RecordsLost,
            _ if wait.began_before => Self::BegunBefore,
            _ if has_switches => Self::NotSampled,
            _ if wait.length(period) < SHORT => Self::TooShort,
            _ => Self::NotRead,
        }
    }

    fn text(self, has_cpu_samples: bool) -> &'static str {
        match self {
            Self::Preempted => PREEMPTED[usize::from(!has_cpu_samples)],
            Self::NotRunYet => "of threads that had not run yet",
            Self::KernelThread => "of kernel threads",
            Self::NotMadeUpFor => {
                "of waits that were not chosen and for which the chosen ones do not make up"
            }
            Self::RecordsLost => "while records were lost",
            Self::BegunBefore => "of waits that had begun before the recording",
            Self::TooShort => TOO_SHORT,
            Self::NotRead => "of longer ones, whose stacks could not be read meanwhile",
            Self::NotSampled => "of which the kernel gave no sample",
        }
    }
}

/// How many waits have no stack, with their share of the time waited, and why.
fn without_stack(profile: &Profile) -> Option<DroppedCount> {
    let waits = || {
        let samples = profile.samples.iter();
        samples.filter_map(|sample| {
            let wait = profile.samples.wait(sample.wait?)?;
            Some((*wait, sample.period))
        })
    };
    let has_switches = waits().any(|(wait, _)| wait.source == StackSource::Switch);
    let (mut count, mut all) = (0_u64, 0_u64);
    let mut causes: BTreeMap<Cause, u64> = BTreeMap::new();
    for (wait, period) in waits() {
        all = all.saturating_add(period);
        if wait.source == StackSource::None && wait.counted != Counted::ByOthers {
            count += 1;
            let of = causes.entry(Cause::of(&wait, period, has_switches));
            let sum = of.or_default();
            *sum = sum.saturating_add(period);
        }
    }
    let share = |ns: u64| 100.0 * ns as f64 / all.max(1) as f64;
    let ns = causes
        .values()
        .fold(0, |sum: u64, &ns| sum.saturating_add(ns));
    let mut what = format!("a wait has no stack ({:.1} % of the time waited", share(ns));
    let has_cpu_samples = profile.events.iter().any(|event| !event.is_off_cpu);
    for (cause, ns) in causes.into_iter().filter(|&(_, ns)| share(ns) >= 0.05) {
        _ = write!(what, "; {:.1} % {}", share(ns), cause.text(has_cpu_samples));
    }
    what.push(')');
    (count > 0).then_some(DroppedCount {
        what,
        count,
        clock: Some(Clock::Off),
    })
}

/// How many waits have no stack since others, chosen by chance, stand for them.
fn not_chosen(profile: &Profile) -> Option<DroppedCount> {
    let (mut count, mut chosen) = (0_u64, 0_u64);
    for sample in profile.samples.iter() {
        let Some(wait) = sample.wait.and_then(|id| profile.samples.wait(id)) else {
            continue;
        };
        match wait.counted {
            Counted::ByOthers => count += 1,
            Counted::ByItself => chosen += u64::from(wait.stands_for > 0),
            Counted::ForOthers => {}
        }
    }
    let times = (count + chosen) as f64 / chosen.max(1) as f64;
    (count > 0).then(|| DroppedCount {
        what: format!(
            "a short wait has no stack, and others stand for it: one in {times:.1} was chosen by \
             chance (record --off-cpu-stacks)"
        ),
        count,
        clock: Some(Clock::Off),
    })
}

/// What the kernel's part of a stack tells.
fn of(profile: &Profile, stack: StackId) -> Option<WaitKind> {
    let locations = profile.stacks.locations(stack);
    let in_kernel =
        locations.take_while(|&location| profile.location(location).mode == CpuMode::Kernel);
    let mut frames = in_kernel.flat_map(|location| profile.frames_at(location));
    frames.find_map(|frame| of_function(profile.name(profile.function(frame.function).name)))
}

#[cfg(test)]
mod tests {
    use super::{Cause, FUNCTIONS, Fit, of_function};
    use prof_profile::{Counted, Wait, WaitKind, WaitState};

    #[test]
    fn a_wait_without_a_stack_has_one_cause() {
        let of = |state| Wait {
            state,
            ..Wait::default()
        };
        let rest = Wait {
            counted: Counted::ForOthers,
            ..of(WaitState::Preempted)
        };
        let before = Wait {
            began_before: true,
            ..of(WaitState::Unknown)
        };
        let unsure = Wait {
            is_unsure: true,
            ..before
        };
        let blocked = of(WaitState::Blocked);
        let cases = [
            (rest, 1, true, Cause::NotMadeUpFor),
            (of(WaitState::Started), 1, false, Cause::NotRunYet),
            (of(WaitState::Preempted), 1, false, Cause::Preempted),
            (of(WaitState::Preempted), 1, true, Cause::NotSampled),
            (before, 1, true, Cause::BegunBefore),
            (unsure, 1, true, Cause::RecordsLost),
            (blocked, 1, true, Cause::NotSampled),
            (blocked, 1, false, Cause::TooShort),
            (blocked, super::SHORT, false, Cause::NotRead),
        ];
        for (wait, ns, has_switches, expected) in cases {
            assert_eq!(Cause::of(&wait, ns, has_switches), expected, "{wait:?}");
        }
    }

    #[test]
    fn a_function_tells_what_is_waited_for() {
        let cases = [
            ("futex_wait_queue", Some(WaitKind::Futex)),
            ("futex_do_wait", Some(WaitKind::Futex)),
            ("pipe_read.constprop.0", Some(WaitKind::Pipe)),
            ("do_wait", Some(WaitKind::Child)),
            ("__do_wait.part.0", Some(WaitKind::Child)),
            // In `eventfd_read`, as in others.
            ("do_wait_intr_irq", None),
            ("unix_stream_read_generic", Some(WaitKind::Socket)),
            ("vfs_fsync_range", Some(WaitKind::FileSync)),
            ("kernel_clone", Some(WaitKind::Vfork)),
            ("do_unlinkat", Some(WaitKind::FileWrite)),
            ("do_filp_open", Some(WaitKind::FileRead)),
            ("schedule", None),
            ("__schedule", None),
            ("io_schedule", None),
            ("schedule_hrtimeout_range", None),
        ];
        for (name, kind) in cases {
            assert_eq!(of_function(name), kind, "{name}");
        }
    }

    #[test]
    fn no_rule_is_hidden_by_one_before_it() {
        for (at, &(name, _, kind)) in FUNCTIONS.iter().enumerate() {
            let before = &FUNCTIONS[..at];
            let hiding = before.iter().find(|&&(text, fit, other)| {
                other != kind && fit == Fit::Begins && name.starts_with(text)
            });
            assert_eq!(hiding, None, "{name}");
        }
    }
}

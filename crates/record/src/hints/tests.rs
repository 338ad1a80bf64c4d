//! A refusal for each row, and what its message says.

use super::table::{OFFERS, ROWS};
use super::{Around, FIRST_OWN_PMU, Refusal, Step, Whose, why_not_offered};
use crate::kernel::{Unknown, Why};
use crate::rings::{Lockable, RingMemory};

const UNKNOWN: Unknown = Unknown {
    option: "--all-cgroups",
    why: Why::Since("5.7"),
};

const NAMESPACE: Around = Around {
    seccomp: false,
    user_namespace: true,
    no_virtual_pmu: false,
    sandboxed: false,
    allows_own: false,
    ptrace_scope: 0,
};
const FILTERED: Around = Around {
    seccomp: true,
    user_namespace: false,
    no_virtual_pmu: false,
    sandboxed: false,
    allows_own: false,
    ptrace_scope: 0,
};

/// Where even what every setting allows was refused.
fn sandboxed(around: Around, errno: i32) -> Refusal {
    Refusal {
        around: Around {
            sandboxed: true,
            ..around
        },
        ..plain(Step::Open, errno)
    }
}

fn plain(step: Step, errno: i32) -> Refusal {
    Refusal {
        step,
        cpu: Some(3),
        tid: Some(42),
        frequency: Some(999),
        highest_frequency: 100_000,
        paranoid: Some(2),
        descriptors: 4096,
        memory: RingMemory {
            rings: 3,
            bytes: 4096,
            wanted: 8 << 20,
            limit: None,
            piece: None,
        },
        lockable: lockable(0),
        ..Refusal::to_open("cycles".into(), 1, Whose::Launched, errno)
    }
}

/// Memory of processes, at a scope of yama.
fn memory(ptrace_scope: i64) -> Refusal {
    Refusal {
        around: Around {
            ptrace_scope,
            ..Around::default()
        },
        ..plain(Step::ReadMemory, libc::EPERM)
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
        (sandboxed(FILTERED, libc::EACCES), "seccomp filter"),
        (sandboxed(FILTERED, libc::EPERM), "seccomp filter"),
        (sandboxed(Around::default(), libc::EACCES), "SELinux"),
        (sandboxed(Around::default(), libc::EPERM), "SELinux"),
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
                around: NAMESPACE,
                probe: true,
                ..open(libc::EACCES)
            },
            "user namespace",
        ),
        (
            Refusal {
                probe: true,
                ..open(libc::EACCES)
            },
            "CAP_SYS_ADMIN",
        ),
        (
            Refusal {
                in_kernel: true,
                ..open(libc::EACCES)
            },
            "CAP_SYS_ADMIN",
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
                tid: None,
                ..open(libc::EACCES)
            },
            "without --follow cpus",
        ),
        (
            Refusal {
                all_kernel: true,
                narrowed: Some("-e 'cycles:u'".into()),
                ..open(libc::EACCES)
            },
            "without --all-kernel",
        ),
        (
            Refusal {
                narrowed: Some("-e 'cycles:u'".into()),
                ..open(libc::EACCES)
            },
            "-e 'cycles:u'",
        ),
        (
            Refusal {
                whose: Whose::Attached,
                paranoid: Some(4),
                ..open(libc::EACCES)
            },
            "paranoid=2",
        ),
        (
            Refusal {
                whose: Whose::Attached,
                tid: None,
                ..open(libc::EACCES)
            },
            "other users take",
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
                kind: FIRST_OWN_PMU,
                kernel: true,
                paranoid: Some(2),
                ..open(libc::EACCES)
            },
            "this PMU has nothing else",
        ),
        (
            Refusal {
                around: NAMESPACE,
                ..open(libc::EACCES)
            },
            "user namespace",
        ),
        (
            Refusal {
                around: FILTERED,
                ..open(libc::EACCES)
            },
            "seccomp filter",
        ),
        (open(libc::EACCES), "security policy"),
        (
            Refusal {
                in_kernel: true,
                ..open(libc::EPERM)
            },
            "CAP_SYS_ADMIN",
        ),
        (
            Refusal {
                kind: 2,
                root: true,
                ..open(libc::EPERM)
            },
            "refuses this tracepoint to everybody",
        ),
        (
            Refusal {
                kind: 2,
                ..open(libc::EPERM)
            },
            "tracepoint",
        ),
        (
            Refusal {
                around: NAMESPACE,
                ..open(libc::EPERM)
            },
            "user namespace",
        ),
        (
            Refusal {
                around: FILTERED,
                ..open(libc::EPERM)
            },
            "seccomp filter",
        ),
        (open(libc::EPERM), "security policy"),
        (
            Refusal {
                kind: 0,
                around: Around {
                    no_virtual_pmu: true,
                    ..Around::default()
                },
                ..open(libc::ENOENT)
            },
            "pmu=on",
        ),
        (
            Refusal {
                kind: 0,
                ..open(libc::ENOENT)
            },
            "-e cpu-clock",
        ),
        (
            Refusal {
                probe: true,
                ..open(libc::ENOENT)
            },
            "/proc/kallsyms",
        ),
        (open(libc::ENOENT), "prof list"),
        (
            Refusal {
                probe: true,
                ..open(libc::EINTR)
            },
            "perf probe --list",
        ),
        (
            Refusal {
                probe: true,
                ..open(libc::EFAULT)
            },
            "-e uprobe:PATH:FUNCTION",
        ),
        (
            Refusal {
                probe: true,
                ..open(libc::EILSEQ)
            },
            "without +OFFSET",
        ),
        (open(libc::ENODEV), "cannot count"),
        (
            Refusal {
                branches: true,
                branch_chains: true,
                ..open(libc::EOPNOTSUPP)
            },
            "--call-graph fp",
        ),
        (
            Refusal {
                branches: true,
                ..open(libc::EOPNOTSUPP)
            },
            "without -b, -j",
        ),
        (
            Refusal {
                aux: true,
                ..open(libc::EOPNOTSUPP)
            },
            "tracing PMU",
        ),
        (
            Refusal {
                precise: true,
                ..open(libc::EOPNOTSUPP)
            },
            "without :p",
        ),
        (
            Refusal {
                counts: true,
                ..open(libc::EOPNOTSUPP)
            },
            "prof stat -e 'cycles' ./app",
        ),
        (open(libc::EOPNOTSUPP), "cannot sample"),
        (
            Refusal {
                clock: Some(77),
                ..open(libc::EINVAL)
            },
            "-k monotonic",
        ),
        (
            Refusal {
                aux: true,
                unknown: Some(UNKNOWN),
                ..open(libc::EINVAL)
            },
            "tracing PMU",
        ),
        (
            Refusal {
                unknown: Some(UNKNOWN),
                ..open(libc::EINVAL)
            },
            "is since Linux 5.7\n  try: without --all-cgroups",
        ),
        (
            Refusal {
                unknown: Some(UNKNOWN),
                ..open(libc::E2BIG)
            },
            "try: without --all-cgroups",
        ),
        (
            Refusal {
                cgroup: true,
                ..open(libc::EINVAL)
            },
            "without -G",
        ),
        (
            Refusal {
                aux: true,
                kind: 9,
                ..open(libc::EINVAL)
            },
            "tracing PMU",
        ),
        (
            Refusal {
                probe: true,
                ..open(libc::EINVAL)
            },
            "a function that calls it",
        ),
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
                in_kernel: true,
                ..open(libc::EINVAL)
            },
            "without :u",
        ),
        (
            Refusal {
                kind: 5,
                in_kernel: true,
                kernel: true,
                ..open(libc::EINVAL)
            },
            "list tracepoint",
        ),
        (
            Refusal {
                kind: 5,
                event: "mem:0x1000/4:x".into(),
                ..open(libc::EINVAL)
            },
            "without /LENGTH",
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
        (
            Refusal {
                counts: true,
                ..open(libc::EINVAL)
            },
            "prof stat -e 'cycles' ./app",
        ),
        (
            Refusal {
                kind: 9,
                counting: true,
                ..open(libc::EINVAL)
            },
            "cannot leave the kernel out",
        ),
        (
            Refusal {
                counting: true,
                ..open(libc::EINVAL)
            },
            "without its modifiers",
        ),
        (
            Refusal {
                kind: 9,
                counting: true,
                kernel: true,
                whose: Whose::System,
                tid: None,
                ..open(libc::EINVAL)
            },
            "no event of these numbers",
        ),
        (
            Refusal {
                kind: 9,
                ..open(libc::EINVAL)
            },
            "prof stat -a -e 'cycles' sleep 1",
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
        (
            Refusal {
                whose: Whose::System,
                tid: None,
                ..open(libc::EMFILE)
            },
            "fewer CPUs",
        ),
        (
            Refusal {
                paranoid: Some(0),
                whose: Whose::Attached,
                ..open(libc::EMFILE)
            },
            "or: -a, which needs only",
        ),
        (open(libc::EMFILE), "--nofile=4096   (for this shell)"),
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
        (
            plain(Step::Trace, libc::EPERM),
            "more than this user may lock",
        ),
        (plain(Step::Trace, libc::ENOMEM), "no memory for it"),
        (plain(Step::Trace, libc::EOPNOTSUPP), "does not trace"),
        (plain(Step::Trace, libc::EINVAL), "no area of this size"),
        (plain(Step::Share, libc::ENOTTY), "outside of the sandbox"),
        (plain(Step::Share, libc::EPERM), "outside of the sandbox"),
        (plain(Step::Share, libc::EACCES), "outside of the sandbox"),
        (plain(Step::Share, libc::EINVAL), "without clockid"),
        (
            plain(Step::Identify, libc::ENOTTY),
            "outside of the sandbox",
        ),
        (plain(Step::Identify, libc::EPERM), "outside of the sandbox"),
        (
            plain(Step::Identify, libc::EACCES),
            "outside of the sandbox",
        ),
        (plain(Step::Filter, libc::ENOTTY), "outside of the sandbox"),
        (map(libc::EINVAL), "ring of 4 KiB is not a power of two"),
        (
            Refusal {
                filter: "nothing == 1".into(),
                fields: "prev_comm, prev_pid".into(),
                ..plain(Step::Filter, libc::EINVAL)
            },
            "its fields are: prev_comm, prev_pid",
        ),
        (
            Refusal {
                filter: "prev_pid((".into(),
                fields: "prev_comm, prev_pid".into(),
                ..plain(Step::Filter, libc::ENOENT)
            },
            "is no condition\n  its fields are: prev_comm, prev_pid",
        ),
        (
            Refusal {
                filter: "prev_pid == 1 )".into(),
                fields: "prev_comm, prev_pid".into(),
                ..plain(Step::Filter, libc::EPERM)
            },
            "is no condition\n  its fields are: prev_comm, prev_pid",
        ),
        (
            Refusal {
                filter: "prev_comm == \"x".into(),
                fields: "prev_comm, prev_pid".into(),
                ..plain(Step::Filter, libc::ESRCH)
            },
            "is no condition\n  its fields are: prev_comm, prev_pid",
        ),
        (
            Refusal {
                filter: "start 0x10".into(),
                ..plain(Step::Filter, libc::EINVAL)
            },
            "the filter is start 0x10",
        ),
        (plain(Step::Filter, libc::ENOENT), "common_pid == NUMBER"),
        (plain(Step::Filter, libc::EPERM), "common_pid == NUMBER"),
        (plain(Step::Filter, libc::ESRCH), "common_pid == NUMBER"),
        (plain(Step::Filter, libc::EACCES), "CAP_PERFMON"),
        (plain(Step::Filter, libc::ENOMEM), "no memory"),
        (memory(3), "until the next boot nobody may"),
        (memory(1), "sudo sysctl kernel.yama.ptrace_scope=0"),
        (memory(0), "another user's"),
    ]
}

#[test]
fn each_row_answers_its_own_case() {
    // covers unit: ERR-04, ERR-06, ERR-07, ERR-09, ERR-10, ERR-11, ERR-12, ERR-13, ERR-14, ERR-15, ERR-16, ERR-17, BUG-02, CAP-04
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
fn each_offer_that_is_refused_has_one_reason() {
    for (index, (errno, pmu, text)) in OFFERS.iter().enumerate() {
        let has_pmu = pmu.unwrap_or(true);
        assert_eq!(why_not_offered(*errno, has_pmu), Some(*text), "row {index}");
    }
    assert_eq!(why_not_offered(libc::EFAULT, true), None);
}

#[test]
fn an_unknown_errno_still_has_its_name() {
    // covers unit: ERR-19
    let text = plain(Step::Open, libc::EFAULT).to_string();
    assert!(text.contains("(EFAULT)"), "{text}");
}

#[test]
fn a_level_that_allows_own_programs_is_no_reason_for_those_of_others() {
    let of_others = |allows_own| Refusal {
        paranoid: Some(3),
        whose: Whose::Attached,
        around: Around {
            allows_own,
            ..Around::default()
        },
        ..plain(Step::Open, libc::EACCES)
    };
    let text = of_others(false).to_string();
    assert!(text.contains("perf_event_paranoid=2"), "{text}");
    let text = of_others(true).to_string();
    assert!(text.contains("belongs to another user"), "{text}");
}

#[test]
fn all_cpus_are_no_cure_for_who_may_not_see_them() {
    let text = plain(Step::Open, libc::EMFILE).to_string();
    assert!(!text.contains("-a"), "{text}");
    // Nor of a command, which is a single task.
    let of_command = Refusal {
        paranoid: Some(0),
        ..plain(Step::Open, libc::EMFILE)
    };
    let text = of_command.to_string();
    assert!(!text.contains("-a"), "{text}");
}

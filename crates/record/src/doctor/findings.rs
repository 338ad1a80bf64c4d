//! What follows from the environment, one finding per thing a user wants.

use super::attempts::Tried;
use super::environment::{Capability, Environment};
use super::refused::{self, Answer, Wish};
use crate::hints::errno_name;

/// Whether a thing is possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Yes.
    Yes,
    /// With a limit that the finding names.
    Partly,
    /// No.
    No,
}

/// One thing that a user may want, whether it is possible, and what would
/// make it so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// A short name for programs; never changes.
    pub id: &'static str,
    /// The thing, in words.
    pub what: &'static str,
    /// Whether it is possible.
    pub state: State,
    /// Why, with the setting that decides.
    pub why: String,
    /// The one command that enables it; `None` if nothing is missing or no
    /// command would help.
    pub fix: Option<String>,
}

impl Finding {
    fn yes(id: &'static str, what: &'static str, why: impl Into<String>) -> Self {
        Self {
            id,
            what,
            state: State::Yes,
            why: why.into(),
            fix: None,
        }
    }

    fn lacks(
        (id, what): (&'static str, &'static str),
        state: State,
        why: impl Into<String>,
        fix: Option<String>,
    ) -> Self {
        Self {
            id,
            what,
            state,
            why: why.into(),
            fix,
        }
    }
}

/// Everything, in the order in which it matters to most.
pub fn findings(environment: &Environment) -> Vec<Finding> {
    let mut findings = vec![
        own_user_code(environment),
        own_kernel_code(environment),
        waits(environment),
        wakers(environment),
        whole_system(environment),
        other_users(environment),
        kernel_names(environment),
        hardware_events(environment),
        tracepoints(environment),
        uprobes(environment),
        running_stacks(environment),
        ring_memory(environment),
        open_files(environment),
        sample_rate(environment),
        stack_depth(environment),
    ];
    let fixed = findings.iter_mut().filter(|found| found.fix.is_some());
    for found in fixed.filter(|_| environment.user_namespace) {
        // Its root may neither set nor mount anything of the machine's.
        found
            .why
            .push_str("; the command is for outside of this container");
    }
    findings
}

fn sysctl(name: &str, value: i64) -> Option<String> {
    Some(format!("sudo sysctl kernel.{name}={value}"))
}

/// What `perf_event_paranoid` decides: allowed up to `highest`, unless the
/// attempt says otherwise.
fn by_paranoid(
    environment: &Environment,
    thing: (&'static str, &'static str),
    (wish, highest): (Wish, i64),
    tried: Option<Tried>,
) -> Finding {
    let setting = environment
        .paranoid
        .map(|level| format!("kernel.perf_event_paranoid is {level}"));
    let is_low = environment.paranoid.is_some_and(|level| level <= highest);
    let is_privileged = environment.may_use_all_events() && !environment.user_namespace;
    let no = |Answer { why, fix }| Finding::lacks(thing, State::No, why, fix);
    let why = match (tried, setting) {
        (Some(Err(errno)), _) => return no(refused::tried(environment, wish, errno)),
        (None, None) => return no(refused::expected(environment, wish, libc::ENOSYS)),
        (_, Some(setting)) if is_low && !is_privileged => setting,
        _ if is_privileged => "by privilege (CAP_PERFMON or CAP_SYS_ADMIN)".to_owned(),
        (None, Some(_)) => return no(refused::expected(environment, wish, libc::EACCES)),
        (Some(Ok(())), _) => TRIED.to_owned(),
    };
    Finding::yes(thing.0, thing.1, why)
}

/// Why something is possible where no setting says so.
const TRIED: &str = "it was tried, and works";
/// What helps where only privileges do.
const AS_ROOT: &str = "sudo prof record …";

fn own_user_code(environment: &Environment) -> Finding {
    let thing = ("own-user", "your programs, user code");
    by_paranoid(
        environment,
        thing,
        (Wish::OwnUser, 2),
        environment.attempts.own_user,
    )
}

fn own_kernel_code(environment: &Environment) -> Finding {
    let thing = ("own-kernel", "your programs, kernel code");
    by_paranoid(
        environment,
        thing,
        (Wish::OwnKernel, 1),
        environment.attempts.own_kernel,
    )
}

/// Of waits the kernel shows the stacks to whom it shows kernel code, and the
/// times to everybody.
fn waits(environment: &Environment) -> Finding {
    let thing = ("waits", "what your programs wait for (--off-cpu)");
    let kernel = own_kernel_code(environment);
    if kernel.state == State::Yes {
        let why = match environment.attempts.choosing {
            Some(Err(_)) => {
                "each wait with its stack, however many there are: to take those of some, chosen \
                 by chance, takes CAP_BPF"
            }
            _ => {
                "each wait with its stack; beyond 2000 a second those of some, chosen by chance \
                 (--off-cpu-stacks)"
            }
        };
        return Finding::yes(thing.0, thing.1, why);
    }
    match own_user_code(environment).state {
        State::No => Finding::lacks(thing, State::No, kernel.why, kernel.fix),
        _ => {
            let why = "exact times; stacks only of waits that last some ms, read while threads \
                       sleep: kernel.perf_event_paranoid hides the kernel's";
            Finding::lacks(thing, State::Partly, why, kernel.fix)
        }
    }
}

/// The tracepoint of waking is sampled with the stacks of whoever wakes.
fn wakers(environment: &Environment) -> Finding {
    let thing = ("wakers", "who ends their waits (--wakers)");
    let tracepoints = tracepoints(environment);
    match tracepoints.state {
        State::Yes => Finding::yes(thing.0, thing.1, "sched:sched_waking with its stacks"),
        _ => {
            let why = tracepoints.why.replace("; counting works", "");
            Finding::lacks(thing, State::No, why, tracepoints.fix)
        }
    }
}

fn whole_system(environment: &Environment) -> Finding {
    let thing = ("system", "the whole system (-a, -C)");
    by_paranoid(
        environment,
        thing,
        (Wish::System, 0),
        environment.attempts.system,
    )
}

fn other_users(environment: &Environment) -> Finding {
    let thing = ("other-users", "processes of other users (-p)");
    let by_privilege = environment.may_use_all_events() || environment.has(Capability::SYS_PTRACE);
    let errno = match (
        environment.attempts.other_users,
        environment.attempts.own_user,
    ) {
        (Some(Err(errno)), _) => Some(errno),
        // There was none to try it with.
        (None, Some(Err(errno))) => Some(errno),
        (None, _) if environment.user_namespace => Some(libc::EACCES),
        _ => None,
    };
    let Some(errno) = errno else {
        return match environment.attempts.other_users {
            _ if by_privilege => Finding::yes(thing.0, thing.1, "by privilege"),
            Some(_) => Finding::yes(thing.0, thing.1, TRIED),
            None => with_sudo(
                thing,
                refused::expected(environment, Wish::OtherUsers, libc::EACCES),
            ),
        };
    };
    let answer = refused::tried(environment, Wish::OtherUsers, errno);
    if by_privilege || errno == libc::ENOSYS || environment.is_sandboxed() {
        return Finding::lacks(thing, State::No, answer.why, answer.fix);
    }
    with_sudo(thing, answer)
}

/// What only privileges allow.
fn with_sudo(thing: (&'static str, &'static str), answer: Answer) -> Finding {
    Finding::lacks(thing, State::No, answer.why, Some(AS_ROOT.to_owned()))
}

fn kernel_names(environment: &Environment) -> Finding {
    let thing = ("kernel-names", "names of kernel functions");
    if environment.kernel_symbols {
        return Finding::yes(thing.0, thing.1, "/proc/kallsyms shows addresses");
    }
    let restrict = environment.kptr_restrict.unwrap_or(0);
    // With kptr_restrict 0 the kernel still hides them above paranoid 1.
    let (why, fix) = if restrict > 0 {
        let why = format!("kernel.kptr_restrict is {restrict}: addresses read as 0");
        (why, sysctl("kptr_restrict", 0))
    } else {
        let why = "kernel.perf_event_paranoid above 1 hides addresses without CAP_SYSLOG";
        (why.to_owned(), sysctl("perf_event_paranoid", 1))
    };
    Finding::lacks(thing, State::No, why, fix)
}

fn hardware_events(environment: &Environment) -> Finding {
    let thing = ("hardware", "hardware events (cycles, cache misses)");
    let pmus: Vec<_> = environment.cpu_pmus().collect();
    let list = || format!("PMU: {}", pmus.join(", "));
    match environment.attempts.hardware {
        Some(Err(errno @ (libc::EACCES | libc::EPERM | libc::ENOSYS))) => {
            let Answer { why, fix } = refused::tried(environment, Wish::Hardware, errno);
            return Finding::lacks(thing, State::No, why, fix);
        }
        Some(Ok(())) => return Finding::yes(thing.0, thing.1, list()),
        None if !pmus.is_empty() => return Finding::yes(thing.0, thing.1, list()),
        None | Some(Err(_)) => {}
    }
    let Answer { why, fix } = refused::expected(environment, Wish::Hardware, libc::ENOENT);
    let why = format!("{why}; prof samples by cpu-clock instead");
    Finding::lacks(thing, State::No, why, fix)
}

fn tracepoints(environment: &Environment) -> Finding {
    let thing = ("tracepoints", "tracepoints (-e sched:sched_switch)");
    let at = environment.tracefs.as_deref().unwrap_or_default();
    if let Some(why) = environment.no_tracefs() {
        let fix = match (at, environment.tracefs_hidden) {
            ("", _) => Some("sudo mount -t tracefs tracefs /sys/kernel/tracing".to_owned()),
            (_, true) => None,
            (at, false) => {
                let remount = format!("sudo mount -o remount,mode=750,gid=$(id -g) {at}");
                // Who may read their numbers gets their data no sooner.
                Some(
                    match environment.paranoid.is_some_and(|level| level <= -1) {
                        true => remount,
                        false => format!("{remount} && sudo sysctl kernel.perf_event_paranoid=-1"),
                    },
                )
            }
        };
        return Finding::lacks(thing, State::No, why, fix);
    }
    let by_setting =
        environment.may_use_all_events() || environment.paranoid.is_some_and(|level| level <= -1);
    let tried = environment.attempts.tracepoint;
    let errno = match tried.unwrap_or(by_setting.then_some(()).ok_or(libc::EPERM)) {
        Ok(()) => return Finding::yes(thing.0, thing.1, format!("{at} is readable")),
        Err(errno) => errno,
    };
    let is_by_policy = by_setting && !environment.user_namespace || environment.is_sandboxed();
    if is_by_policy {
        let Answer { why, fix } = refused::tried(environment, Wish::Tracepoint, errno);
        return Finding::lacks(thing, State::No, why, fix);
    }
    // Whatever stands before it: of this thing the payload is what is lacking.
    let Answer { why, fix } = refused::expected(environment, Wish::Tracepoint, libc::EPERM);
    // What occurs in the kernel is not for everybody to count.
    match environment.paranoid {
        Some(..=1) => Finding::lacks(thing, State::Partly, format!("{why}; counting works"), fix),
        _ => Finding::lacks(thing, State::No, why, fix),
    }
}

fn uprobes(environment: &Environment) -> Finding {
    let thing = ("uprobes", "probes in programs (uprobe)");
    if !environment.pmus.iter().any(|name| name == "uprobe") {
        let why = "this kernel has no uprobe PMU (it is older than Linux 4.17, or without CONFIG_UPROBES)";
        return Finding::lacks(thing, State::No, why, None);
    }
    let tried = environment.attempts.uprobe;
    let by_privilege = environment.has(Capability::SYS_ADMIN);
    if by_privilege && tried.is_none_or(|tried| tried.is_ok()) {
        Finding::yes(thing.0, thing.1, "by privilege (CAP_SYS_ADMIN)")
    } else if let (true, Some(Err(errno))) = (by_privilege, tried) {
        let Answer { why, fix } = refused::tried(environment, Wish::Probe, errno);
        Finding::lacks(thing, State::No, why, fix)
    } else {
        with_sudo(
            thing,
            refused::expected(environment, Wish::Probe, libc::EACCES),
        )
    }
}

fn running_stacks(environment: &Environment) -> Finding {
    let thing = (
        "deep-stacks",
        "deep stacks of processes that already run (-p -g)",
    );
    let scope = environment.ptrace_scope.unwrap_or(0);
    let by_setting = match scope {
        ..=0 => true,
        NO_ATTACH.. => false,
        _ => environment.has(Capability::SYS_PTRACE),
    };
    let lost = "frames beyond the copied stack cannot be read";
    match environment.attempts.memory {
        Some(Err(errno)) if by_setting => {
            let name = errno_name(errno);
            let why = format!("memory of other processes is refused ({name}): {lost}");
            Finding::lacks(thing, State::Partly, why, None)
        }
        None if by_setting => Finding::yes(thing.0, thing.1, "their memory may be read"),
        Some(Ok(())) => Finding::yes(thing.0, thing.1, "their memory may be read"),
        None | Some(Err(_)) => yama(thing, scope, lost),
    }
}

/// The value of `kernel.yama.ptrace_scope` at which nobody attaches, root neither,
/// and which stays (Documentation/admin-guide/LSM/Yama.rst).
pub(crate) const NO_ATTACH: i64 = 3;

fn yama(thing: (&'static str, &'static str), scope: i64, lost: &str) -> Finding {
    let why = format!("kernel.yama.ptrace_scope is {scope}: {lost}");
    if scope >= NO_ATTACH {
        let why = format!("{why}, by nobody; it cannot be lowered before the next boot");
        return Finding::lacks(thing, State::Partly, why, None);
    }
    Finding::lacks(thing, State::Partly, why, sysctl("yama.ptrace_scope", 0))
}

fn ring_memory(environment: &Environment) -> Finding {
    let thing = ("ring-memory", "ring buffers of 2 MiB per CPU");
    const WANTED_KB: i64 = 2048 + 4;
    // In a user namespace it does not count.
    if environment.has(Capability::IPC_LOCK) && !environment.user_namespace {
        return Finding::yes(thing.0, thing.1, "no limit (CAP_IPC_LOCK)");
    }
    let per_cpu = environment.mlock_kb.unwrap_or(0);
    let cpus = i64::try_from(environment.cpus.max(1)).unwrap_or(i64::MAX);
    let locked = match environment.memlock_limit {
        None => return Finding::yes(thing.0, thing.1, "no limit (ulimit -l)"),
        Some(bytes) => i64::try_from(bytes / 1024).unwrap_or(i64::MAX),
    };
    let room = per_cpu.saturating_add(locked / cpus);
    let why = format!(
        "{room} KiB per CPU: kernel.perf_event_mlock_kb {per_cpu}, and ulimit -l {locked} KiB \
         shared by {cpus} CPUs"
    );
    if room >= WANTED_KB {
        Finding::yes(thing.0, thing.1, why)
    } else {
        let why = format!("{why}; prof takes smaller ones");
        Finding::lacks(
            thing,
            State::Partly,
            why,
            sysctl("perf_event_mlock_kb", WANTED_KB),
        )
    }
}

fn open_files(environment: &Environment) -> Finding {
    let thing = ("open-files", "many events, threads and CPUs at once");
    const COMFORTABLE: u64 = 4096;
    match environment.file_limit {
        Some(limit) if limit < COMFORTABLE => {
            let cpus = environment.cpus.max(1);
            let why = format!(
                "hard limit of {limit} open files: one is needed per event, thread and CPU \
                 ({cpus} here)"
            );
            let fix = Some("sudo prlimit --nofile=65536 --pid $$".to_owned());
            Finding::lacks(thing, State::Partly, why, fix)
        }
        Some(limit) => Finding::yes(thing.0, thing.1, format!("{limit} open files (ulimit -Hn)")),
        None => Finding::yes(thing.0, thing.1, "no limit of open files"),
    }
}

fn sample_rate(environment: &Environment) -> Finding {
    let thing = ("sample-rate", "sampling at 10 000 Hz");
    const WANTED: i64 = 10_000;
    match environment.max_sample_rate {
        Some(rate) if rate < WANTED => {
            let why = format!(
                "kernel.perf_event_max_sample_rate is {rate} Hz; the kernel lowers it when \
                 sampling took {}",
                too_long(environment)
            );
            Finding::lacks(
                thing,
                State::Partly,
                why,
                sysctl("perf_event_max_sample_rate", 100_000),
            )
        }
        Some(rate) => {
            let why = format!(
                "up to {rate} Hz, which the kernel lowers if sampling takes {}",
                too_long(environment)
            );
            Finding::yes(thing.0, thing.1, why)
        }
        None => Finding::yes(thing.0, thing.1, "no limit known"),
    }
}

/// What makes the kernel lower the highest rate.
fn too_long(environment: &Environment) -> String {
    match environment.cpu_time_percent {
        Some(percent @ 1..=99) => {
            format!("more than {percent} % of a CPU (kernel.perf_cpu_time_max_percent)")
        }
        _ => "too long".to_owned(),
    }
}

fn stack_depth(environment: &Environment) -> Finding {
    let thing = ("stack-depth", "call chains by frame pointers");
    let depth = environment.max_stack.unwrap_or(127);
    let why = format!("up to {depth} frames (kernel.perf_event_max_stack); -g has no such limit");
    Finding::yes(thing.0, thing.1, why)
}

#[cfg(test)]
mod tests {
    use super::{Finding, State, findings};
    use crate::doctor::{Attempts, Environment, Tried};

    /// A desktop of a user without privileges.
    fn user(paranoid: i64) -> Environment {
        Environment {
            uid: Some(1000),
            paranoid: Some(paranoid),
            kptr_restrict: Some(0),
            mlock_kb: Some(516),
            memlock_limit: Some(8 << 20),
            file_limit: Some(524_288),
            max_sample_rate: Some(100_000),
            cpus: 2,
            pmus: vec!["cpu".into(), "uprobe".into()],
            tracefs: Some("/sys/kernel/tracing".into()),
            ..Environment::default()
        }
    }

    fn finding(environment: &Environment, id: &str) -> Finding {
        let found = findings(environment)
            .into_iter()
            .find(|found| found.id == id);
        found.expect("a finding of that name")
    }

    fn states(environment: &Environment, ids: &[&str]) -> Vec<State> {
        ids.iter()
            .map(|id| finding(environment, id).state)
            .collect()
    }

    #[test]
    fn each_level_of_paranoid_takes_one_thing_away() {
        use State::{No, Yes};
        let ids = ["system", "own-kernel", "own-user"];
        for (paranoid, expected) in [
            (-1, [Yes, Yes, Yes]),
            (0, [Yes, Yes, Yes]),
            (1, [No, Yes, Yes]),
            (2, [No, No, Yes]),
            (3, [No, No, No]),
        ] {
            assert_eq!(states(&user(paranoid), &ids), expected, "{paranoid}");
        }
        let waits = [-1, 1, 2, 3].map(|paranoid| finding(&user(paranoid), "waits").state);
        assert_eq!(waits, [Yes, Yes, State::Partly, No]);
        let fix = finding(&user(2), "system").fix;
        let expected = "sudo sysctl kernel.perf_event_paranoid=0";
        assert_eq!(fix.as_deref(), Some(expected));
    }

    #[test]
    fn wakers_need_a_tracepoint_s_data_and_say_what_gives_them() {
        let readable = |paranoid| Environment {
            tracefs_readable: true,
            ..user(paranoid)
        };
        assert_eq!(finding(&readable(-1), "wakers").state, State::Yes);
        let refused = finding(&readable(2), "wakers");
        assert_eq!(refused.state, State::No);
        let fix = "sudo sysctl kernel.perf_event_paranoid=-1";
        assert_eq!(refused.fix.as_deref(), Some(fix));
        assert!(!refused.why.contains("counting"), "{}", refused.why);
        // Where even its number cannot be read, that is first.
        let hidden = finding(&user(2), "wakers");
        let mounted = hidden.fix.is_some_and(|fix| fix.contains("mount"));
        assert!(hidden.state == State::No && mounted, "{}", hidden.why);
    }

    #[test]
    fn cap_perfmon_is_enough_for_all_but_probes_names_and_rings() {
        // covers unit: CAP-01
        let perfmon = Environment {
            capabilities: 1 << 38,
            ..user(2)
        };
        let ids = ["system", "own-kernel", "own-user", "other-users"];
        assert_eq!(states(&perfmon, &ids), [State::Yes; 4]);
        let ids = ["uprobes", "kernel-names", "tracepoints"];
        assert_eq!(states(&perfmon, &ids), [State::No; 3]);
    }

    /// Root, as far as capabilities tell.
    fn root(attempts: Attempts) -> Environment {
        Environment {
            uid: Some(0),
            capabilities: u64::MAX,
            attempts,
            ..user(2)
        }
    }

    fn all(tried: Tried) -> Attempts {
        Attempts {
            own_user: Some(tried),
            own_kernel: Some(tried),
            system: Some(tried),
            other_users: Some(tried),
            hardware: Some(tried),
            tracepoint: Some(tried),
            uprobe: Some(tried),
            memory: Some(tried),
            choosing: Some(tried),
        }
    }

    #[test]
    fn whether_stacks_of_many_waits_are_thinned_out_is_told() {
        let told = |choosing| {
            let root = root(Attempts {
                choosing,
                ..all(Ok(()))
            });
            let waits = finding(&root, "waits");
            assert_eq!(waits.state, State::Yes);
            waits.why
        };
        assert!(told(Some(Ok(()))).contains("--off-cpu-stacks"));
        assert!(told(Some(Err(libc::EPERM))).contains("takes CAP_BPF"));
    }

    #[test]
    fn privileges_of_a_user_namespace_do_not_count() {
        let rootless = Environment {
            user_namespace: true,
            tracefs_readable: true,
            ..root(Attempts {
                own_user: Some(Ok(())),
                ..all(Err(libc::EACCES))
            })
        };
        let ids = ["own-user", "own-kernel", "system", "other-users", "uprobes"];
        use State::{No, Yes};
        assert_eq!(states(&rootless, &ids), [Yes, No, No, No, No]);
        let system = finding(&rootless, "system");
        assert!(system.why.contains("user namespace"), "{}", system.why);
        assert!(
            system.why.contains("perf_event_paranoid is 2"),
            "{}",
            system.why
        );
        let tracepoints = finding(&rootless, "tracepoints").state;
        assert_ne!(tracepoints, Yes);
        let rings = finding(&rootless, "ring-memory").why;
        assert!(!rings.contains("CAP_IPC_LOCK"), "{rings}");
    }

    #[test]
    fn a_sandbox_that_refuses_is_named_and_no_setting_is_blamed() {
        let sandboxed = Environment {
            seccomp: true,
            tracefs_readable: true,
            ..root(all(Err(libc::EPERM)))
        };
        let ids = [
            "own-user",
            "own-kernel",
            "system",
            "other-users",
            "hardware",
            "tracepoints",
            "uprobes",
        ];
        for id in ids {
            let found = finding(&sandboxed, id);
            assert_eq!(found.state, State::No, "{found:?}");
            assert!(
                found.why.contains("seccomp filter refuses it") && found.why.ends_with("(EPERM)"),
                "{found:?}"
            );
            assert_eq!(found.fix, None);
        }
    }

    #[test]
    fn what_works_is_possible_whatever_the_settings_hide() {
        let hidden = Environment {
            paranoid: None,
            ..root(all(Ok(())))
        };
        let ids = ["own-user", "own-kernel", "system", "other-users"];
        assert_eq!(states(&hidden, &ids), [State::Yes; 4]);
        let plain = Environment {
            paranoid: None,
            attempts: all(Ok(())),
            ..user(2)
        };
        let ids = ["own-user", "own-kernel", "system"];
        assert_eq!(states(&plain, &ids), [State::Yes; 3]);
        assert!(finding(&plain, "system").why.contains("tried"));
    }

    #[test]
    fn hidden_names_name_the_setting_that_hides_them() {
        // covers unit: CAP-03, SYS-08
        let fix = |environment: &Environment| finding(environment, "kernel-names").fix;
        let paranoid = "sudo sysctl kernel.perf_event_paranoid=1";
        assert_eq!(fix(&user(2)).as_deref(), Some(paranoid));
        let restricted = Environment {
            kptr_restrict: Some(2),
            ..user(2)
        };
        let kptr = "sudo sysctl kernel.kptr_restrict=0";
        assert_eq!(fix(&restricted).as_deref(), Some(kptr));
    }

    #[test]
    fn tracefs_is_mounted_then_readable_then_allowed() {
        let unmounted = Environment {
            tracefs: None,
            ..user(2)
        };
        let readable = Environment {
            tracefs_readable: true,
            ..user(2)
        };
        let fixes = [unmounted, user(2), readable]
            .map(|environment| finding(&environment, "tracepoints").fix.expect("a command"));
        assert_eq!(
            fixes,
            [
                "sudo mount -t tracefs tracefs /sys/kernel/tracing",
                "sudo mount -o remount,mode=750,gid=$(id -g) /sys/kernel/tracing \
                 && sudo sysctl kernel.perf_event_paranoid=-1",
                "sudo sysctl kernel.perf_event_paranoid=-1",
            ]
        );
    }

    #[test]
    fn rings_share_the_locked_memory_of_the_user() {
        assert_eq!(finding(&user(2), "ring-memory").state, State::Yes);
        let many = Environment {
            cpus: 64,
            ..user(2)
        };
        assert_eq!(finding(&many, "ring-memory").state, State::Partly);
    }

    #[test]
    fn a_virtual_machine_without_pmu_is_told_what_to_do() {
        let machine = Environment {
            pmus: vec!["software".into()],
            virtual_machine: true,
            ..user(2)
        };
        let found = finding(&machine, "hardware");
        assert_eq!(found.state, State::No);
        assert!(found.why.contains("pmu=on"), "{}", found.why);
    }

    #[test]
    fn every_finding_that_lacks_something_says_why() {
        for found in findings(&Environment::default()) {
            assert!(!found.why.is_empty(), "{}", found.id);
            assert!(
                found.state != State::Yes || found.fix.is_none(),
                "{}",
                found.id
            );
        }
    }

    /// Below 3 root may; opening events of a process asks for less and is allowed.
    #[test]
    fn each_scope_of_yama_says_who_may_read_memory_and_what_helps() {
        // covers unit: SYS-08
        let lowered = Some("sudo sysctl kernel.yama.ptrace_scope=0");
        for (scope, of_user, of_root, fix) in [
            (0, State::Yes, State::Yes, None),
            (1, State::Partly, State::Yes, lowered),
            (2, State::Partly, State::Yes, lowered),
            (3, State::Partly, State::Partly, None),
        ] {
            let user = Environment {
                ptrace_scope: Some(scope),
                ..user(1)
            };
            let root = Environment {
                capabilities: 1 << 19,
                ..user.clone()
            };
            let found = finding(&user, "deep-stacks");
            assert_eq!(
                (found.state, found.fix.as_deref()),
                (of_user, fix),
                "{scope}"
            );
            assert_eq!(finding(&root, "deep-stacks").state, of_root, "{scope}");
            let is_final = found.why.contains("before the next boot");
            assert_eq!(is_final, scope == 3, "{}", found.why);
            assert_eq!(states(&user, &["own-user"]), [State::Yes]);
        }
    }
}

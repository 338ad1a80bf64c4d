//! What follows from the environment, one finding per thing a user wants.

use super::environment::{Capability, Environment};

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
    vec![
        own_user_code(environment),
        own_kernel_code(environment),
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
    ]
}

fn sysctl(name: &str, value: i64) -> Option<String> {
    Some(format!("sudo sysctl kernel.{name}={value}"))
}

/// What `perf_event_paranoid` decides: allowed up to `highest`.
fn by_paranoid(
    environment: &Environment,
    thing: (&'static str, &'static str),
    highest: i64,
) -> Finding {
    let (id, what) = thing;
    let Some(paranoid) = environment.paranoid else {
        let why = "this kernel has no perf events (CONFIG_PERF_EVENTS)";
        return Finding::lacks(thing, State::No, why, None);
    };
    if environment.may_use_all_events() {
        return Finding::yes(id, what, "by privilege (CAP_PERFMON or CAP_SYS_ADMIN)");
    }
    let setting = format!("kernel.perf_event_paranoid is {paranoid}");
    if paranoid <= highest {
        Finding::yes(id, what, setting)
    } else {
        let why = format!("{setting}, at most {highest} allows it");
        Finding::lacks(
            thing,
            State::No,
            why,
            sysctl("perf_event_paranoid", highest),
        )
    }
}

fn own_user_code(environment: &Environment) -> Finding {
    by_paranoid(environment, ("own-user", "your programs, user code"), 2)
}

fn own_kernel_code(environment: &Environment) -> Finding {
    by_paranoid(environment, ("own-kernel", "your programs, kernel code"), 1)
}

fn whole_system(environment: &Environment) -> Finding {
    by_paranoid(environment, ("system", "the whole system (-a, -C)"), 0)
}

fn other_users(environment: &Environment) -> Finding {
    let thing = ("other-users", "processes of other users (-p)");
    if environment.may_use_all_events() || environment.has(Capability::SYS_PTRACE) {
        Finding::yes(thing.0, thing.1, "by privilege")
    } else {
        let why = "needs CAP_PERFMON or CAP_SYS_PTRACE; run the same command with sudo";
        Finding::lacks(thing, State::No, why, Some("sudo prof record …".to_owned()))
    }
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
    if !pmus.is_empty() {
        return Finding::yes(thing.0, thing.1, format!("PMU: {}", pmus.join(", ")));
    }
    let why = if environment.virtual_machine {
        "no PMU: the virtual machine was started without one (QEMU: -cpu host,pmu=on; \
         clouds: a metal or larger instance); prof samples by cpu-clock instead"
    } else {
        "no PMU driver for this CPU; prof samples by cpu-clock instead"
    };
    Finding::lacks(thing, State::No, why, None)
}

fn tracepoints(environment: &Environment) -> Finding {
    let thing = ("tracepoints", "tracepoints (-e sched:sched_switch)");
    let Some(at) = &environment.tracefs else {
        let mount = "sudo mount -t tracefs tracefs /sys/kernel/tracing";
        let why = "tracefs is not mounted";
        return Finding::lacks(thing, State::No, why, Some(mount.to_owned()));
    };
    if !environment.tracefs_readable {
        let why = format!("{at} is not readable for this user");
        let fix = format!("sudo mount -o remount,mode=750,gid=$(id -g) {at}");
        return Finding::lacks(thing, State::No, why, Some(fix));
    }
    if environment.may_use_all_events() || environment.paranoid.is_some_and(|level| level <= -1) {
        return Finding::yes(thing.0, thing.1, format!("{at} is readable"));
    }
    let why = "their data needs kernel.perf_event_paranoid -1; counting works";
    Finding::lacks(thing, State::Partly, why, sysctl("perf_event_paranoid", -1))
}

fn uprobes(environment: &Environment) -> Finding {
    let thing = ("uprobes", "probes in programs (uprobe)");
    if !environment.pmus.iter().any(|name| name == "uprobe") {
        let why = "this kernel has no uprobe PMU (CONFIG_UPROBES)";
        return Finding::lacks(thing, State::No, why, None);
    }
    if environment.has(Capability::SYS_ADMIN) {
        Finding::yes(thing.0, thing.1, "by privilege (CAP_SYS_ADMIN)")
    } else {
        let fix = Some("sudo prof record …".to_owned());
        Finding::lacks(
            thing,
            State::No,
            "needs CAP_SYS_ADMIN, not only CAP_PERFMON",
            fix,
        )
    }
}

fn running_stacks(environment: &Environment) -> Finding {
    let thing = (
        "deep-stacks",
        "deep stacks of processes that already run (-p -g)",
    );
    let scope = environment.ptrace_scope.unwrap_or(0);
    if scope == 0 || environment.has(Capability::SYS_PTRACE) {
        return Finding::yes(thing.0, thing.1, "their memory may be read");
    }
    let why = format!(
        "kernel.yama.ptrace_scope is {scope}: frames beyond the copied stack cannot be read"
    );
    Finding::lacks(thing, State::Partly, why, sysctl("yama.ptrace_scope", 0))
}

fn ring_memory(environment: &Environment) -> Finding {
    let thing = ("ring-memory", "ring buffers of 2 MiB per CPU");
    const WANTED_KB: i64 = 2048 + 4;
    if environment.has(Capability::IPC_LOCK) {
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
                 sampling took too long"
            );
            Finding::lacks(
                thing,
                State::Partly,
                why,
                sysctl("perf_event_max_sample_rate", 100_000),
            )
        }
        Some(rate) => Finding::yes(thing.0, thing.1, format!("up to {rate} Hz")),
        None => Finding::yes(thing.0, thing.1, "no limit known"),
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
    use crate::doctor::Environment;

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
        let fix = finding(&user(2), "system").fix;
        let expected = "sudo sysctl kernel.perf_event_paranoid=0";
        assert_eq!(fix.as_deref(), Some(expected));
    }

    #[test]
    fn cap_perfmon_is_enough_for_all_but_probes_names_and_rings() {
        let perfmon = Environment {
            capabilities: 1 << 38,
            ..user(2)
        };
        let ids = ["system", "own-kernel", "own-user", "other-users"];
        assert_eq!(states(&perfmon, &ids), [State::Yes; 4]);
        let ids = ["uprobes", "kernel-names", "tracepoints"];
        assert_eq!(states(&perfmon, &ids), [State::No; 3]);
    }

    #[test]
    fn hidden_names_name_the_setting_that_hides_them() {
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
                "sudo mount -o remount,mode=750,gid=$(id -g) /sys/kernel/tracing",
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
}

//! What the table of refusals says of a thing that was tried, or that the
//! settings do not allow: the recorder's own words.

use super::environment::{Capability, Environment};
use crate::hints::{Around, FIRST_OWN_PMU, Refusal, Whose, errno_name};
use prof_abi::event_kind;

/// What somebody may want of perf_event_open(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Wish {
    /// Sampling his own programs in user space.
    OwnUser,
    /// Sampling them in the kernel, too.
    OwnKernel,
    /// Sampling everything on a CPU.
    System,
    /// Sampling a process of another user.
    OtherUsers,
    /// Counting by hardware.
    Hardware,
    /// Sampling a tracepoint with its payload.
    Tracepoint,
    /// Probing a program.
    Probe,
}

/// Why not, and the command that changes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) why: String,
    pub(super) fix: Option<String>,
}

/// Where an attempt was refused.
pub(super) fn tried(environment: &Environment, wish: Wish, errno: i32) -> Answer {
    let answer = answer(environment, wish, errno);
    Answer {
        why: format!("{} ({})", answer.why, errno_name(errno)),
        ..answer
    }
}

/// Where nothing could be tried, and settings say that it would be refused.
pub(super) fn expected(environment: &Environment, wish: Wish, errno: i32) -> Answer {
    answer(environment, wish, errno)
}

fn answer(environment: &Environment, wish: Wish, errno: i32) -> Answer {
    let refusal = refusal(environment, wish, errno);
    Answer {
        why: refusal.cause().unwrap_or_else(|| "refused".to_owned()),
        fix: refusal.command(),
    }
}

fn refusal(environment: &Environment, wish: Wish, errno: i32) -> Refusal {
    let is_privileged = environment.may_use_all_events() && !environment.user_namespace;
    // Of a setting that does not apply nothing can be the matter.
    let level = environment
        .paranoid
        .and_then(|level| i32::try_from(level).ok());
    let paranoid = if is_privileged { Some(-1) } else { level };
    let kind = match wish {
        Wish::Hardware => event_kind::HARDWARE,
        Wish::Tracepoint => event_kind::TRACEPOINT,
        Wish::Probe => FIRST_OWN_PMU,
        _ => event_kind::SOFTWARE,
    };
    let whose = match wish {
        Wish::System => Whose::System,
        Wish::OtherUsers if !environment.may_use_all_events() => Whose::Attached,
        _ => Whose::Launched,
    };
    // Commands are for whoever may run them, outside of a container: not root.
    Refusal {
        kernel: wish == Wish::OwnKernel,
        narrowed: (wish == Wish::OwnKernel).then(|| "-e cpu-clock:u".to_owned()),
        probe: wish == Wish::Probe
            && (environment.user_namespace || !environment.has(Capability::SYS_ADMIN)),
        // Without the setting there are no perf events; hidden, it is unknown.
        paranoid,
        around: Around {
            sandboxed: environment.is_sandboxed(),
            ..Around::of(environment)
        },
        ..Refusal::to_open("cpu-clock".to_owned(), kind, whose, errno)
    }
}

#[cfg(test)]
mod tests {
    use super::{Wish, expected, tried};
    use crate::doctor::{Attempts, Environment};

    fn user(paranoid: i64) -> Environment {
        Environment {
            paranoid: Some(paranoid),
            ..Environment::default()
        }
    }

    #[test]
    fn each_wish_is_refused_in_the_recorder_s_words_with_its_command() {
        let paranoid = |level| format!("sudo sysctl kernel.perf_event_paranoid={level}");
        for (wish, level, errno, words, fix) in [
            (Wish::OwnUser, 3, libc::EACCES, "allows nothing", Some(2)),
            (
                Wish::OwnKernel,
                2,
                libc::EACCES,
                "hides the kernel",
                Some(1),
            ),
            (Wish::System, 1, libc::EACCES, "lacks CAP_PERFMON", Some(0)),
            (Wish::Tracepoint, 0, libc::EPERM, "payload", Some(-1)),
            (Wish::OtherUsers, 2, libc::EACCES, "of other users", None),
            (Wish::Probe, 2, libc::EACCES, "CAP_SYS_ADMIN", None),
            (
                Wish::Hardware,
                2,
                libc::ENOENT,
                "no hardware counters",
                None,
            ),
        ] {
            let answer = expected(&user(level), wish, errno);
            assert!(answer.why.contains(words), "{wish:?}: {}", answer.why);
            assert_eq!(answer.fix, fix.map(paranoid), "{wish:?}");
        }
    }

    #[test]
    fn who_may_all_is_told_of_no_setting() {
        let root = |seccomp| Environment {
            capabilities: u64::MAX,
            seccomp,
            ..user(2)
        };
        for wish in [
            Wish::OwnUser,
            Wish::OwnKernel,
            Wish::System,
            Wish::Tracepoint,
        ] {
            for (seccomp, words) in [(true, "seccomp filter"), (false, "security policy")] {
                let answer = tried(&root(seccomp), wish, libc::EPERM);
                assert!(answer.why.contains(words), "{wish:?}: {}", answer.why);
                assert!(answer.why.ends_with("(EPERM)"), "{}", answer.why);
                assert_eq!(answer.fix, None, "{wish:?}");
            }
        }
    }

    #[test]
    fn a_sandbox_is_known_by_what_every_setting_allows() {
        let sandboxed = Environment {
            seccomp: true,
            attempts: Attempts {
                own_user: Some(Err(libc::EACCES)),
                ..Attempts::default()
            },
            ..user(2)
        };
        let answer = tried(&sandboxed, Wish::System, libc::EACCES);
        assert!(answer.why.starts_with("a seccomp filter"), "{}", answer.why);
        assert_eq!(answer.fix, None);
    }

    #[test]
    fn capabilities_of_a_user_namespace_are_told_beside_the_setting() {
        let rootless = Environment {
            capabilities: u64::MAX,
            user_namespace: true,
            ..user(2)
        };
        let system = tried(&rootless, Wish::System, libc::EACCES);
        assert!(system.why.contains("paranoid is 2"), "{}", system.why);
        assert!(system.why.contains("user namespace"), "{}", system.why);
        let probe = tried(&rootless, Wish::Probe, libc::EACCES);
        assert!(probe.why.contains("user namespace"), "{}", probe.why);
    }
}

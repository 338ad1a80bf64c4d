//! Whose events are asked for, where several options say it: perf's order
//! decides, and what is left out is told in perf's words.

/// The options that say it, of `prof record` and `prof stat`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Given {
    /// `-p`.
    pub(crate) processes: bool,
    /// `-t`.
    pub(crate) threads: bool,
    /// `-a`.
    pub(crate) system: bool,
    /// `-C`.
    pub(crate) cpus: bool,
    /// `--per-thread`.
    pub(crate) per_thread: bool,
}

/// Whose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whose {
    /// Those of the processes of `-p`.
    Processes,
    /// Those of the threads of `-t`.
    Threads,
    /// Those of everything on all or some CPUs.
    System,
    /// Those of the command.
    Command,
}

impl Given {
    /// Whose it is.
    pub(crate) fn whose(self) -> Whose {
        match self {
            Self {
                processes: true, ..
            } => Whose::Processes,
            Self { threads: true, .. } => Whose::Threads,
            Self { system: true, .. } | Self { cpus: true, .. } => Whose::System,
            _ => Whose::Command,
        }
    }

    /// A line for each option that is left out.
    pub(crate) fn left_out(self) -> impl Iterator<Item = &'static str> {
        let tasks = self.processes || self.threads;
        let cases = [
            (
                self.processes && self.threads,
                "PID switch overriding TID: -t is left out",
            ),
            (
                tasks && self.system,
                "PID/TID switch overriding SYSTEM: -a is left out",
            ),
            (
                tasks && self.cpus,
                "PID/TID switch overriding CPU: -C is left out",
            ),
            (
                self.per_thread && self.whose() == Whose::System,
                "SYSTEM/CPU switch overriding PER-THREAD: --per-thread is left out",
            ),
        ];
        let said = cases.into_iter().filter(|(applies, _)| *applies);
        said.map(|(_, words)| words)
    }
}

#[cfg(test)]
mod tests {
    use super::{Given, Whose};

    #[test]
    fn what_overrides_what_is_perfs() {
        let nothing = Given::default();
        let all = Given {
            processes: true,
            threads: true,
            system: true,
            cpus: true,
            per_thread: true,
        };
        let without_tasks = Given {
            processes: false,
            threads: false,
            ..all
        };
        assert_eq!(nothing.whose(), Whose::Command);
        assert_eq!(nothing.left_out().count(), 0);
        assert_eq!(all.whose(), Whose::Processes);
        let said: Vec<&str> = all.left_out().collect();
        assert_eq!(said.len(), 3, "{said:?}");
        assert_eq!(without_tasks.whose(), Whose::System);
        let said: Vec<&str> = without_tasks.left_out().collect();
        assert_eq!(said.len(), 1, "{said:?}");
        assert!(said[0].starts_with("SYSTEM/CPU switch overriding PER-THREAD"));
    }
}

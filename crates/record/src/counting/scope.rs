//! Whose events are counted and how, and why that failed.

use crate::cgroup::NoCgroup;
use crate::hints::Refusal;
use prof_sys::Target;
use std::fs::File;
use std::os::fd::AsFd;

/// Whose events are counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CountingScope {
    /// A process that has not executed its program yet; counting begins when
    /// it does.
    Launched(u32),
    /// Threads that run, by tid.
    Threads(Vec<u32>),
    /// Everything on these CPUs.
    Cpus(Vec<u32>),
}

impl CountingScope {
    pub(super) fn targets<'a>(&self, cgroup: Option<&'a File>) -> Vec<Target<'a>> {
        let task = |&tid: &u32| Target::Task { tid, cpu: None };
        match self {
            Self::Launched(pid) => vec![task(pid)],
            Self::Threads(tids) => tids.iter().map(task).collect(),
            Self::Cpus(cpus) => {
                let targets = cpus.iter().map(|&cpu| match cgroup {
                    None => Target::Cpu(cpu),
                    Some(directory) => Target::Cgroup {
                        directory: directory.as_fd(),
                        cpu,
                    },
                });
                targets.collect()
            }
        }
    }
}

/// How events are counted.
#[derive(Debug, Clone)]
pub struct Counting {
    /// Whose.
    pub scope: CountingScope,
    /// Children and new threads too.
    pub inherit: bool,
    /// Counting begins with [`Counters::enable`](super::Counters::enable), also of a launched process.
    pub by_hand: bool,
}

impl Counting {
    /// Counts events of this scope from the start, without children.
    pub fn of(scope: CountingScope) -> Self {
        Self {
            scope,
            inherit: false,
            by_hand: false,
        }
    }
}

/// An event could not be counted, for another reason than that this machine
/// lacks it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CountError {
    /// The kernel refused it.
    #[error(transparent)]
    Refused(Box<Refusal>),
    /// The event is only on other CPUs.
    #[error(
        "{event} is only on CPU {cpus}, of those that there are\n  try: without -C and cpu=, or with a CPU that is online"
    )]
    NotOnTheseCpus {
        /// The event's name.
        event: String,
        /// Its CPUs.
        cpus: String,
    },
    /// `cpu=` names several CPUs, and tasks are counted.
    #[error(
        "cannot count {event}: of tasks one event counts on one CPU\n  try: an event with cpu= for each CPU, or -a"
    )]
    SeveralCpus {
        /// The event's name.
        event: String,
    },
    /// There is no such cgroup.
    #[error(transparent)]
    Cgroup(NoCgroup),
    /// None of the threads is there any more.
    #[error(
        "cannot count {event}: there is no such process or thread: it has ended, or its number is wrong"
    )]
    NoSuchTask {
        /// The event's name.
        event: String,
    },
}

//! Whose events are counted.

use crate::places::{CountedIn, ThreadName};
use prof_record::counting::CountingScope;
use prof_record::synthesize::{online_cpus, processes, threads_of};
use std::path::Path;

/// A list of processes, threads or CPUs that cannot be read.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{option}: {list} is not a list of numbers")]
pub struct SelectionError {
    /// The option.
    option: String,
    /// Its value.
    list: String,
}

/// A CPU asked for is not there.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("CPU {cpu} is not online\n  online are: {online}")]
pub(crate) struct NoCpu {
    cpu: u32,
    online: String,
}

/// What is counted, with or without a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// The command only.
    Command,
    /// Processes with all their threads.
    Processes(Vec<u32>),
    /// Threads.
    Threads(Vec<u32>),
    /// All CPUs.
    System,
    /// All threads there are at the start.
    AllThreads,
    /// These CPUs.
    Cpus(Vec<u32>),
}

impl Selection {
    /// Those of `-p`.
    pub fn processes(list: &str) -> Result<Self, SelectionError> {
        numbers(list, "-p").map(Self::Processes)
    }

    /// Those of `-t`.
    pub fn threads(list: &str) -> Result<Self, SelectionError> {
        numbers(list, "-t").map(Self::Threads)
    }

    /// Those of `-C`.
    pub fn cpus(list: &str) -> Result<Self, SelectionError> {
        numbers(list, "-C").map(Self::Cpus)
    }

    /// That the CPUs asked for are there.
    pub(crate) fn check_cpus(&self) -> Result<(), NoCpu> {
        let Self::Cpus(cpus) = self else {
            return Ok(());
        };
        let online = online_cpus();
        match cpus.iter().find(|cpu| !online.contains(cpu)) {
            None => Ok(()),
            Some(&cpu) => Err(NoCpu {
                cpu,
                online: list(&online),
            }),
        }
    }

    /// The threads or CPUs now; `launched` is the command's process.
    pub(crate) fn scope(&self, launched: Option<u32>) -> CountingScope {
        match self {
            // Without a command there is nobody; opening says so.
            Self::Command => {
                launched.map_or(CountingScope::Threads(Vec::new()), CountingScope::Launched)
            }
            Self::Processes(pids) => {
                let threads = pids.iter().flat_map(|&pid| match threads_of(pid) {
                    none if none.is_empty() => vec![pid],
                    threads => threads,
                });
                CountingScope::Threads(threads.collect())
            }
            Self::Threads(tids) => CountingScope::Threads(tids.clone()),
            Self::System => CountingScope::Cpus(online_cpus()),
            Self::AllThreads => {
                CountingScope::Threads(processes().into_iter().flat_map(threads_of).collect())
            }
            Self::Cpus(cpus) => CountingScope::Cpus(cpus.clone()),
        }
    }

    /// The processes whose functions may be named in event specifications.
    pub fn processes_counted(&self) -> &[u32] {
        match self {
            Self::Processes(ids) | Self::Threads(ids) => ids,
            _ => &[],
        }
    }

    /// Whether it counts CPUs, not tasks.
    pub fn is_cpus(&self) -> bool {
        matches!(self, Self::System | Self::Cpus(_))
    }

    /// Whether there is anybody left to count.
    pub(crate) fn is_alive(&self) -> bool {
        let exists = |id: &u32| Path::new(&format!("/proc/{id}")).exists();
        match self {
            Self::Processes(ids) | Self::Threads(ids) => ids.iter().any(exists),
            _ => true,
        }
    }

    /// For the heading, as perf writes it.
    pub(crate) fn title(&self, command: &str) -> String {
        match self {
            Self::Command => format!("'{command}'"),
            Self::Processes(pids) => format!("process id '{}'", list(pids)),
            Self::Threads(tids) => format!("thread id '{}'", list(tids)),
            Self::System | Self::AllThreads => "'system wide'".to_owned(),
            Self::Cpus(cpus) => format!("'CPU(s) {}'", list(cpus)),
        }
    }
}

fn list(numbers: &[u32]) -> String {
    let texts: Vec<_> = numbers.iter().map(ToString::to_string).collect();
    texts.join(",")
}

/// The places that readings of a scope are of, in their order.
pub(crate) fn places(scope: &CountingScope) -> Vec<CountedIn> {
    match scope {
        CountingScope::Launched(_) => vec![CountedIn::Command],
        CountingScope::Threads(tids) => {
            let threads = tids
                .iter()
                .map(|&tid| CountedIn::Thread(ThreadName::of(tid)));
            threads.collect()
        }
        CountingScope::Cpus(cpus) => cpus.iter().copied().map(CountedIn::Cpu).collect(),
    }
}

/// `1,4` and, for CPUs, `0-3`.
fn numbers(list: &str, option: &str) -> Result<Vec<u32>, SelectionError> {
    const MOST: usize = 1 << 16;
    let wrong = || SelectionError {
        option: option.to_owned(),
        list: list.to_owned(),
    };
    let mut numbers = Vec::new();
    for part in list.split(',') {
        let (first, last) = match part.split_once('-') {
            Some(range) if option == "-C" => range,
            _ => (part, part),
        };
        let number = |text: &str| text.trim().parse::<u32>().map_err(|_| wrong());
        let range = number(first)?..=number(last)?;
        if range.is_empty() || numbers.len().saturating_add(range.size_hint().0) > MOST {
            return Err(wrong());
        }
        numbers.extend(range);
    }
    numbers.sort_unstable();
    numbers.dedup();
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::{Selection, numbers};

    #[test]
    fn lists_are_numbers_and_for_cpus_ranges() {
        assert_eq!(numbers("3,1,1", "-p").expect("a list"), [1, 3]);
        assert_eq!(numbers("0-2,5", "-C").expect("a list"), [0, 1, 2, 5]);
        for (list, option) in [
            ("", "-p"),
            ("1-2", "-p"),
            ("2-1", "-C"),
            ("0-4294967295", "-C"),
        ] {
            let error = numbers(list, option).expect_err(list);
            assert!(error.to_string().starts_with(option), "{error}");
        }
    }

    #[test]
    fn titles_are_perfs() {
        let title = |selection: Selection| selection.title("true");
        assert_eq!(title(Selection::Command), "'true'");
        assert_eq!(title(Selection::Processes(vec![1, 2])), "process id '1,2'");
        assert_eq!(title(Selection::System), "'system wide'");
        assert_eq!(title(Selection::Cpus(vec![0])), "'CPU(s) 0'");
    }
}

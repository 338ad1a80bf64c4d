//! Counts of threads and CPUs put together: by core, die, socket, node.

use crate::places::{CountedIn, ThreadName, Topology};
use prof_record::counting::Reading;
use std::collections::BTreeMap;

/// How counts of CPUs or threads are added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Mode {
    /// All together.
    #[default]
    Global,
    /// Each CPU by itself (`-A`).
    Cpu,
    /// Those of the CPUs of a core.
    Core,
    /// Those of the CPUs of a cluster.
    Cluster,
    /// Those of the CPUs that share a cache of this level; 0 for the last.
    Cache(u8),
    /// Those of the CPUs of a die.
    Die,
    /// Those of the CPUs of a socket.
    Socket,
    /// Those of the CPUs of a NUMA node.
    Node,
    /// Each thread by itself.
    Thread,
}

impl Mode {
    /// The number by which perf's files name it (`enum aggr_mode` up to perf
    /// 6.1; the later cluster and cache have none that all perfs know).
    pub(crate) fn number(self) -> u64 {
        match self {
            Self::Cpu => 0,
            Self::Global | Self::Cluster | Self::Cache(_) => 1,
            Self::Socket => 2,
            Self::Die => 3,
            Self::Core => 4,
            Self::Thread => 5,
            Self::Node => 7,
        }
    }

    /// From the number in a file of a perf of this version, or of ours. perf 6.5
    /// put the cache and 6.9 the cluster before the core.
    pub(crate) fn of_number(number: u64, version: Option<&str>) -> Self {
        let inserted: &[Self] = match version.and_then(major_and_minor) {
            Some(version) if version >= (6, 9) => &[Self::Cluster, Self::Cache(0)],
            Some(version) if version >= (6, 5) => &[Self::Cache(0)],
            _ => &[],
        };
        let before = [Self::Cpu, Self::Global, Self::Socket, Self::Die];
        // A number for none stands before the node.
        let behind = [Self::Core, Self::Thread, Self::Global, Self::Node];
        let mut modes = before.iter().chain(inserted).chain(&behind);
        let place = usize::try_from(number).unwrap_or(usize::MAX);
        modes.nth(place).copied().unwrap_or_default()
    }

    /// Whether CPUs must be counted separately for it.
    pub fn is_of_cpus(self) -> bool {
        !matches!(self, Self::Global | Self::Thread)
    }

    /// Whether perf writes all events of a group before the next group.
    pub(crate) fn is_by_group(self) -> bool {
        self.is_of_cpus() && self != Self::Cpu
    }
}

/// `(6, 1)` of `6.1.192`.
fn major_and_minor(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split('.').map(|number| number.parse().ok());
    numbers.next()?.zip(numbers.next()?)
}

/// Whose counts a line is of.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Id {
    /// Everybody's.
    All,
    /// A CPU's.
    Cpu(u32),
    /// A core's: socket, die, core.
    Core(i32, i32, i32),
    /// A cluster's: socket, die, cluster.
    Cluster(i32, i32, i32),
    /// A cache's: socket, die, level, first CPU.
    Cache(i32, i32, u8, i32),
    /// A die's: socket, die.
    Die(i32, i32),
    /// A socket's.
    Socket(i32),
    /// A node's.
    Node(i32),
    /// A thread's.
    Thread(ThreadName),
}

/// What was counted in one run or interval by those of one [`Id`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Grouped {
    /// Whose.
    pub(crate) id: Id,
    /// How many counts it is made of.
    pub(crate) members: usize,
    /// Events, scaled to the time they were enabled; `None` if one of the
    /// members never was on the hardware.
    pub(crate) events: Option<u64>,
    /// ns for which they were enabled, sum.
    pub(crate) enabled: u64,
    /// ns for which they were on the hardware, sum.
    pub(crate) running: u64,
}

/// How counts are put together.
#[derive(Debug, Clone, Default)]
pub(crate) struct Aggregation {
    /// By what.
    pub(crate) mode: Mode,
    /// The machine's.
    pub(crate) topology: Topology,
    /// Do not scale counts of events that shared a counter.
    pub(crate) raw: bool,
}

impl Aggregation {
    fn id(&self, place: &CountedIn) -> Id {
        let cpu = match place {
            CountedIn::Cpu(cpu) => *cpu,
            CountedIn::Thread(thread) if self.mode == Mode::Thread => {
                return Id::Thread(thread.clone());
            }
            CountedIn::Thread(_) | CountedIn::Command => return Id::All,
        };
        let at = self.topology.at(cpu);
        match self.mode {
            Mode::Global | Mode::Thread => Id::All,
            Mode::Cpu => Id::Cpu(cpu),
            Mode::Core => Id::Core(at.socket, at.die, at.core),
            Mode::Cluster => Id::Cluster(at.socket, at.die, at.cluster),
            Mode::Die => Id::Die(at.socket, at.die),
            Mode::Socket => Id::Socket(at.socket),
            Mode::Node => Id::Node(at.node),
            Mode::Cache(level) => {
                let level = if level == 0 {
                    self.topology.last_cache()
                } else {
                    level
                };
                let found = at.caches.iter().find(|&&(other, _)| other == level);
                Id::Cache(
                    at.socket,
                    at.die,
                    level,
                    found.map_or(-1, |&(_, first)| first),
                )
            }
        }
    }

    /// The counts of an event by group, in the groups' order. An event that is
    /// not supported has no counts, and groups with nothing in them.
    pub(crate) fn group(&self, places: &[CountedIn], counts: &[Option<Reading>]) -> Vec<Grouped> {
        let mut groups: BTreeMap<Id, Vec<Option<Reading>>> = BTreeMap::new();
        for (index, place) in places.iter().enumerate() {
            let count = counts.get(index).copied().flatten();
            // Its PMU is of other CPUs, or the thread was gone.
            if count.is_none() && !counts.is_empty() && self.mode != Mode::Global {
                continue;
            }
            groups.entry(self.id(place)).or_default().push(count);
        }
        let sum = |(id, counts): (Id, Vec<Option<Reading>>)| {
            if self.mode == Mode::Global {
                self.together(id, &counts)
            } else {
                self.each(id, &counts)
            }
        };
        groups.into_iter().map(sum).collect()
    }

    /// Scales the sum, as perf does where it tells nobody apart.
    fn together(&self, id: Id, counts: &[Option<Reading>]) -> Grouped {
        let mut total = Reading::default();
        counts.iter().flatten().for_each(|count| total.add(count));
        Grouped {
            id,
            members: counts.iter().flatten().count(),
            events: self.scaled(&total),
            enabled: total.enabled,
            running: total.running,
        }
    }

    /// Scales each and adds. One that was never counted spoils the sum, and
    /// perf then counts the members only up to it.
    fn each(&self, id: Id, counts: &[Option<Reading>]) -> Grouped {
        let mut sum = Grouped {
            id,
            members: 0,
            events: Some(0),
            enabled: 0,
            running: 0,
        };
        for count in counts {
            sum.members += 1;
            let count = count.unwrap_or_default();
            let Some(events) = self.scaled(&count).filter(|_| count.enabled > 0) else {
                return Grouped {
                    events: None,
                    enabled: 0,
                    running: 0,
                    ..sum
                };
            };
            sum.events = sum.events.map(|total| total.saturating_add(events));
            sum.enabled = sum.enabled.saturating_add(count.enabled);
            sum.running = sum.running.saturating_add(count.running);
        }
        sum
    }

    fn scaled(&self, count: &Reading) -> Option<u64> {
        if self.raw {
            (count.running > 0).then_some(count.value)
        } else {
            count.scaled()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Aggregation, Id, Mode};
    use crate::places::tests::two_sockets;
    use crate::places::{CountedIn, Topology};
    use prof_record::counting::Reading;

    fn counted(value: u64) -> Option<Reading> {
        Some(Reading {
            value,
            enabled: 100,
            running: 50,
        })
    }

    #[test]
    fn the_number_of_a_mode_depends_on_which_perf_wrote_it() {
        let of = |number, version| Mode::of_number(number, Some(version));
        assert_eq!(of(4, "6.1.192"), Mode::Core);
        assert_eq!(of(5, "6.1.192"), Mode::Thread);
        assert_eq!(of(7, "5.10.0"), Mode::Node);
        assert_eq!(of(4, "6.8.12"), Mode::Cache(0));
        assert_eq!(of(6, "6.8.12"), Mode::Thread);
        assert_eq!(of(4, "7.2.13"), Mode::Cluster);
        assert_eq!(of(5, "7.2.13"), Mode::Cache(0));
        assert_eq!(of(6, "6.12"), Mode::Core);
        assert_eq!(of(7, "7.2.13"), Mode::Thread);
        assert_eq!(of(9, "7.2.13"), Mode::Node);
        assert_eq!(of(u64::MAX, "7.2.13"), Mode::Global);
        assert_eq!(Mode::of_number(4, None), Mode::Core);
        let own = [Mode::Cpu, Mode::Global, Mode::Socket, Mode::Die, Mode::Core];
        for mode in own.into_iter().chain([Mode::Thread, Mode::Node]) {
            assert_eq!(of(mode.number(), env!("CARGO_PKG_VERSION")), mode);
        }
    }

    #[test]
    fn sixteen_cpus_are_put_together_by_every_part_of_the_machine() {
        let sys = tempfile::tempdir().expect("a folder");
        two_sockets(sys.path());
        let topology = Topology::of_machine(sys.path());
        let places: Vec<CountedIn> = (0..16).map(CountedIn::Cpu).collect();
        let counts: Vec<_> = (0..16).map(|cpu| counted(1 << cpu)).collect();
        let groups = |mode| {
            let aggregation = Aggregation {
                mode,
                topology: topology.clone(),
                raw: false,
            };
            aggregation.group(&places, &counts)
        };
        for (mode, parts) in [
            (Mode::Global, 1),
            (Mode::Cpu, 16),
            (Mode::Core, 8),
            (Mode::Cluster, 8),
            (Mode::Cache(1), 8),
            (Mode::Cache(0), 4),
            (Mode::Die, 4),
            (Mode::Socket, 2),
            (Mode::Node, 2),
        ] {
            let groups = groups(mode);
            assert_eq!(groups.len(), parts, "{mode:?}");
            let sum: u64 = groups.iter().filter_map(|group| group.events).sum();
            // Counted half of the time.
            assert_eq!(sum, 2 * 0xffff, "{mode:?}");
            assert_eq!(groups[0].members, 16 / parts, "{mode:?}");
        }
        assert_eq!(groups(Mode::Die)[3].id, Id::Die(1, 1));
        assert_eq!(groups(Mode::Die)[3].events, Some(2 * 0xf000));
        assert_eq!(groups(Mode::Cache(0))[1].id, Id::Cache(0, 1, 3, 4));
    }

    #[test]
    fn one_that_was_not_counted_spoils_its_group_only() {
        let aggregation = Aggregation {
            mode: Mode::Cpu,
            ..Aggregation::default()
        };
        let places = [CountedIn::Cpu(0), CountedIn::Cpu(1)];
        let counts = [counted(5), Some(Reading::default())];
        let groups = aggregation.group(&places, &counts);
        assert_eq!((groups[0].events, groups[1].events), (Some(10), None));
        let socket = Aggregation {
            mode: Mode::Socket,
            ..Aggregation::default()
        };
        let groups = socket.group(&places, &counts);
        assert_eq!((groups[0].events, groups[0].members), (None, 2));
        // Nothing was opened: not supported.
        let none = socket.group(&places, &[]);
        assert_eq!((none[0].events, none[0].members), (None, 1));
    }

    #[test]
    fn without_scaling_counts_are_as_they_were_read() {
        let aggregation = Aggregation {
            raw: true,
            ..Aggregation::default()
        };
        let groups = aggregation.group(&[CountedIn::Command], &[counted(7)]);
        assert_eq!(groups[0].events, Some(7));
    }
}

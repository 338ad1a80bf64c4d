//! Counting events instead of sampling them.
//!
//! You give events and whose they are, and get a reading per event and thread
//! or CPU whenever you ask. Inherited counts of children are in the readings.

mod counter;
mod opening;
mod reading;
mod scope;

pub use counter::Counter;
pub use reading::Reading;
pub use scope::{CountError, Counting, CountingScope};

use crate::cgroup;
use crate::events::{EventSpec, break_up, is_beside_probe, is_of_a_group};
use crate::late_tasks::LateTasks;
use opening::{
    GROUP_FORMAT, Verdict, attr_for, beginning, completed, is_elsewhere, nowhere, on_its_cpu,
    open_narrowing, set_filter, verdict,
};
use prof_abi::{AttrFlags, ReadFormat};
use prof_sys::Event;
use std::fs::File;
use std::io;

/// Events that count.
#[derive(Debug)]
pub struct Counters {
    counters: Vec<Counter>,
    /// Where some event misses tasks that start later.
    late: Option<LateTasks>,
}

impl Counters {
    /// Opens every event for every thread or CPU. An event that the machine
    /// lacks becomes an unsupported counter. Weak groups that cannot be
    /// counted together are broken up.
    ///
    /// # Errors
    /// When an event is refused for another reason.
    pub fn open(specs: &[EventSpec], how: &Counting) -> Result<Self, CountError> {
        let opened = Self::open_once(specs, how).map_err(|error| match error {
            CountError::Refused(mut refusal) => {
                // Our own files beside them.
                let targets = how.scope.targets(None).len();
                refusal.descriptors = (specs.len() * targets + 32) as u64;
                CountError::Refused(refusal)
            }
            other => other,
        })?;
        let breaks = |(counter, spec): (&Counter, &EventSpec)| spec.weak && counter.is_misgrouped;
        let mut apart = specs.to_vec();
        if opened.counters.iter().zip(specs).any(breaks) && break_up(&mut apart) {
            return Self::open_once(&apart, how);
        }
        Ok(opened)
    }

    fn open_once(specs: &[EventSpec], how: &Counting) -> Result<Self, CountError> {
        let mut opened = Self {
            counters: Vec::new(),
            late: None,
        };
        let cgroups = cgroup::of_events(specs).map_err(CountError::Cgroup)?;
        // No event of the kernel's stands for a tool's, so it is beside the group.
        let group_of = |spec: &EventSpec| spec.group.filter(|_| spec.tool.is_none());
        for (index, spec) in specs.iter().enumerate() {
            let leader = group_of(spec).and_then(|group| {
                let mut before = specs.iter().take(index);
                before.position(|other| group_of(other) == Some(group))
            });
            let mut counter = Counter {
                name: spec.name.clone(),
                attr: attr_for(spec, how, leader.is_some()),
                is_beside_probe: is_beside_probe(specs, spec),
                in_kernel_only: spec.in_kernel_only,
                probe: spec.probe.clone(),
                tool: spec.tool,
                members: Vec::new(),
                supported: true,
                leader,
                is_misgrouped: false,
                is_forbidden: false,
            };
            if counter.is_beside_probe {
                counter.attr.flags = counter.attr.flags.without(AttrFlags::INHERIT);
            }
            let group = group_of(spec);
            let of_group = |other: &&EventSpec| group.is_some() && group_of(other) == group;
            if leader.is_none() && specs.iter().filter(of_group).count() > 1 {
                counter.attr.read_format = GROUP_FORMAT;
            }
            let cgroup = cgroups.get(index).and_then(Option::as_deref);
            opened.open_one(spec, (&how.scope, cgroup), &mut counter)?;
            opened.counters.push(counter);
        }
        let is_of_tasks = !matches!(how.scope, CountingScope::Cpus(_));
        if how.inherit && is_of_tasks && LateTasks::are_missed(specs) {
            let flags = beginning(how);
            opened.late = LateTasks::open(&how.scope.targets(None), flags);
        }
        Ok(opened)
    }

    /// Whether threads or children that started later ran, where there are events
    /// that miss them ([`Counter::is_of_known_threads`]). `true` where that cannot
    /// be known.
    pub fn has_missed_tasks(&self) -> bool {
        let ran = |late: &LateTasks| late.have_run().unwrap_or(true);
        self.late.as_ref().is_none_or(ran)
    }

    fn open_one(
        &self,
        spec: &EventSpec,
        (scope, cgroup): (&CountingScope, Option<&File>),
        counter: &mut Counter,
    ) -> Result<(), CountError> {
        let leader = counter.leader.and_then(|index| self.counters.get(index));
        if let Some(leader) = leader {
            counter.supported = leader.supported;
            counter.attr.read_format = leader.attr.read_format;
        }
        if !counter.supported || spec.tool.is_some() {
            return Ok(());
        }
        let targets = scope.targets(cgroup);
        for (place, &target) in targets.iter().enumerate() {
            if is_elsewhere(spec, target) {
                counter.members.push(None);
                continue;
            }
            let target = on_its_cpu(spec, target)?;
            let group = leader.map(|leader| leader.members.get(place).and_then(Option::as_ref));
            let group = match group {
                // The leader's thread was gone.
                Some(None) => {
                    counter.members.push(None);
                    continue;
                }
                Some(event) => event,
                None => None,
            };
            match open_narrowing(counter, spec, target, group) {
                Ok(event) => counter.members.push(Some(event)),
                Err(error) => match verdict(error.errno(), counter, spec) {
                    kind @ (Verdict::Unsupported | Verdict::Forbidden) => {
                        counter.supported = false;
                        counter.is_forbidden = matches!(kind, Verdict::Forbidden);
                        counter.is_misgrouped = !counter.leads() && is_of_a_group(error.errno());
                        counter.members.clear();
                        return Ok(());
                    }
                    Verdict::Gone => counter.members.push(None),
                    Verdict::Failed => {
                        let errno = error.errno();
                        let refused = completed(errno, counter, (scope, target));
                        return Err(CountError::Refused(Box::new(refused)));
                    }
                },
            }
        }
        if let Some(target) = targets.first() {
            set_filter(spec, counter, (scope, *target))?;
        }
        if counter.members.iter().all(Option::is_none) {
            return Err(nowhere(spec, counter, scope));
        }
        Ok(())
    }

    /// Begins counting, unless a launched program begins it by its exec.
    pub fn enable(&self) -> io::Result<()> {
        self.leaders().try_for_each(Event::enable_group)?;
        let mut late = self.late.iter().flat_map(LateTasks::events);
        late.try_for_each(Event::enable)
    }

    /// Stops counting.
    pub fn disable(&self) -> io::Result<()> {
        self.leaders().try_for_each(Event::disable_group)
    }

    /// Starts or stops all events, or those of a name; false if there are none.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn switch(&self, name: Option<&str>, on: bool) -> io::Result<bool> {
        let Some(name) = name else {
            let all = if on { self.enable() } else { self.disable() };
            return all.map(|()| true);
        };
        let mut named = self.counters.iter().filter(|counter| counter.name == name);
        let is_there = named.clone().next().is_some();
        named.try_for_each(|counter| {
            let mut events = counter.members.iter().flatten();
            events.try_for_each(|event| if on { event.enable() } else { event.disable() })
        })?;
        Ok(is_there)
    }

    fn leaders(&self) -> impl Iterator<Item = &Event> {
        let leading = self.counters.iter().filter(|counter| counter.leads());
        leading.flat_map(|counter| counter.members.iter().flatten())
    }

    /// The events, in the order in which they were asked for.
    pub fn iter(&self) -> impl Iterator<Item = &Counter> {
        self.counters.iter()
    }

    /// What each has counted so far; unsupported ones read as nothing.
    ///
    /// # Errors
    /// When reading fails.
    pub fn read(&self) -> io::Result<Vec<Reading>> {
        let sum = |places: Vec<Option<Reading>>| {
            let mut total = Reading::default();
            places.iter().flatten().for_each(|one| total.add(one));
            total
        };
        Ok(self.read_each()?.into_iter().map(sum).collect())
    }

    /// What each event has counted so far, one value per thread or CPU: `None`
    /// where the thread has ended or the event is not open on that CPU; no
    /// values at all for unsupported events. The members of a group are read at
    /// one moment.
    ///
    /// # Errors
    /// When reading fails.
    pub fn read_each(&self) -> io::Result<Vec<Vec<Option<Reading>>>> {
        let mut read: Vec<Vec<Option<Reading>>> = self
            .counters
            .iter()
            .map(|counter| vec![None; counter.members.len()])
            .collect();
        for (index, counter) in self.counters.iter().enumerate() {
            if counter.leads() || !counter.attr.read_format.has(ReadFormat::GROUP) {
                self.read_group(index, counter, &mut read)?;
            }
        }
        Ok(read)
    }

    /// Reads a counter with those that it leads.
    fn read_group(
        &self,
        index: usize,
        leader: &Counter,
        read: &mut [Vec<Option<Reading>>],
    ) -> io::Result<()> {
        let is_group = leader.attr.read_format.has(ReadFormat::GROUP);
        for place in 0..leader.members.len() {
            let mut values = leader.read_at(place)?.into_iter();
            let is_of_it = |&(other, counter): &(usize, &Counter)| {
                other == index || is_group && counter.leader == Some(index)
            };
            // The kernel lists them in the order in which they were opened.
            let group = self.counters.iter().enumerate().filter(is_of_it);
            for (member, counter) in group {
                let is_open = matches!(counter.members.get(place), Some(Some(_)));
                // What is not open is not in the kernel's list.
                if is_open
                    && let Some(value) = values.next()
                    && let Some(slot) = read.get_mut(member).and_then(|all| all.get_mut(place))
                {
                    *slot = Some(value);
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{CountError, Counters, Counting, CountingScope};
    use crate::events::parse;

    fn of_this_thread(events: &str) -> Result<Counters, CountError> {
        // The main thread's id is the process's; tests run in others.
        let tid = std::fs::read_link("/proc/thread-self").expect("a link");
        let tid = tid.file_name().and_then(|name| name.to_str()?.parse().ok());
        let scope = CountingScope::Threads(vec![tid.expect("a number")]);
        Counters::open(&parse(events, 0).expect("events"), &Counting::of(scope))
    }

    #[test]
    fn page_faults_are_counted_only_while_enabled() {
        let counters = match of_this_thread("page-faults:u") {
            Ok(counters) => counters,
            Err(error) => {
                println!("skipped: {error}");
                return;
            }
        };
        // The allocator never reuses memory above 32 MiB, so each is new.
        let touch = || {
            let mut pages = vec![0_u8; 40 << 20];
            pages
                .iter_mut()
                .step_by(64 * 4096)
                .for_each(|byte| *byte = 1);
            std::hint::black_box(pages);
        };
        touch();
        assert_eq!(counters.read().expect("read")[0].value, 0);
        counters.enable().expect("enabled");
        touch();
        counters.disable().expect("disabled");
        let counted = counters.read().expect("read")[0];
        assert!(counted.value > 0 && counted.running > 0, "{counted:?}");
        touch();
        assert_eq!(counters.read().expect("read")[0].value, counted.value);
    }

    #[test]
    fn what_the_machine_lacks_is_no_error() {
        // Software event 4095 does not exist.
        let mut specs = parse("page-faults:u", 0).expect("an event");
        specs[0].attr.config = 4095;
        let scope = CountingScope::Threads(vec![std::process::id()]);
        match Counters::open(&specs, &Counting::of(scope)) {
            Ok(counters) => assert!(counters.iter().all(|counter| !counter.is_supported())),
            Err(error) => println!("skipped: {error}"),
        }
    }

    #[test]
    fn a_process_that_has_ended_is_named() {
        let mut child = std::process::Command::new("true").spawn().expect("runs");
        child.wait().expect("ends");
        let scope = CountingScope::Threads(vec![child.id()]);
        let specs = parse("page-faults:u", 0).expect("an event");
        match Counters::open(&specs, &Counting::of(scope)) {
            Err(CountError::NoSuchTask { event }) => assert_eq!(event, "page-faults:u"),
            other => println!("skipped: perf_event_open is not permitted: {other:?}"),
        }
    }

    #[test]
    fn switches_without_the_kernel_are_blind() {
        // covers live: EV-14
        match of_this_thread("context-switches:u,page-faults:u") {
            Ok(counters) => {
                let blind: Vec<_> = counters.iter().map(super::Counter::is_blind).collect();
                assert_eq!(blind, [true, false]);
            }
            Err(error) => println!("skipped: {error}"),
        }
    }
}

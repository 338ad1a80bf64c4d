//! Counting events instead of sampling them.
//!
//! You give events and whose they are, and get a reading per event whenever
//! you ask. Inherited counts of children are in the readings.

use crate::cgroup::{self, NoCgroup};
use crate::events::{self, EventSpec, Tool, break_up, is_of_a_group};
use crate::hints::{FIRST_OWN_PMU, Refusal, Step, Whose};
use crate::open::{Trial, filter_text, is_probe, open_event};
use crate::rings::{Lockable, RingMemory};
use prof_abi::{AttrFlags, EventAttr, ReadFormat, event_kind};
use prof_sys::process::effective_user;
use prof_sys::{Event, OpenError, Target};
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;

/// Whose events are counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// A process that has not executed its program yet; counting begins when
    /// it does.
    Launched(u32),
    /// Threads that run, by tid.
    Threads(Vec<u32>),
    /// Everything on these CPUs.
    Cpus(Vec<u32>),
}

impl Scope {
    fn targets<'a>(&self, cgroup: Option<&'a File>) -> Vec<Target<'a>> {
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
        "{event} is only on CPU {cpus}, of those that there are\n  try: without -C, or -C {cpus}"
    )]
    NotOnTheseCpus {
        /// The event's name.
        event: String,
        /// Its CPUs.
        cpus: String,
    },
    /// There is no such cgroup.
    #[error(transparent)]
    Cgroup(NoCgroup),
    /// None of the threads is there any more.
    #[error("cannot count {event}: no such process or thread")]
    NoSuchTask {
        /// The event's name.
        event: String,
    },
}

/// What one event has counted, over all its threads or CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Reading {
    /// Events, unscaled.
    pub value: u64,
    /// ns for which the event was enabled.
    pub enabled: u64,
    /// ns for which it was on the hardware.
    pub running: u64,
}

impl Reading {
    /// Events as if it had been on the hardware all the time, to the nearest
    /// whole one; `None` if it never was.
    pub fn scaled(&self) -> Option<u64> {
        prof_sys::scaled(self.value, self.enabled, self.running)
    }

    /// A time that was measured, not counted, while `elapsed` passed; both in
    /// ns.
    pub fn of_time(time: u64, elapsed: u64) -> Self {
        Self {
            value: time,
            enabled: elapsed,
            running: elapsed,
        }
    }

    /// What came since an earlier reading of the same event.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            value: self.value.saturating_sub(earlier.value),
            enabled: self.enabled.saturating_sub(earlier.enabled),
            running: self.running.saturating_sub(earlier.running),
        }
    }

    fn add(&mut self, other: &Self) {
        self.value = self.value.saturating_add(other.value);
        self.enabled = self.enabled.saturating_add(other.enabled);
        self.running = self.running.saturating_add(other.running);
    }
}

/// One event, open or not supported here.
#[derive(Debug)]
pub struct Counter {
    name: String,
    attr: EventAttr,
    /// See [`EventSpec::probe`].
    probe: Option<CString>,
    tool: Option<Tool>,
    /// One per thread or CPU; `None` where the thread was gone.
    members: Vec<Option<Event>>,
    supported: bool,
    leads: bool,
    /// Its group may be why it is not supported.
    is_misgrouped: bool,
    /// This user may not watch the kernel, and it has nothing else.
    is_forbidden: bool,
}

impl Counter {
    /// Its name, with `:u` where the kernel allows no more.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What is counted.
    pub fn attr(&self) -> &EventAttr {
        &self.attr
    }

    /// Whether this machine has it.
    pub fn is_supported(&self) -> bool {
        self.supported
    }

    /// Whether it reads 0 whatever happens: its events occur in the kernel,
    /// which is excluded.
    pub fn is_blind(&self) -> bool {
        events::is_blind(&self.attr)
    }

    /// Whether it cannot leave the kernel out, which this user may not watch;
    /// it is then not supported.
    pub fn is_forbidden(&self) -> bool {
        self.is_forbidden
    }

    /// Whether threads and processes that start later are not in it, as they
    /// are where the kernel can hand an event on.
    pub fn is_of_known_threads(&self) -> bool {
        self.probe.is_some()
    }

    /// What is to be measured where the kernel counts nothing.
    pub fn tool(&self) -> Option<Tool> {
        self.tool
    }

    /// Reads all of it.
    fn read(&self) -> io::Result<Reading> {
        let mut total = Reading::default();
        for event in self.members.iter().flatten() {
            match event.read_counts(FORMAT) {
                Ok(counts) => total.add(&Reading {
                    value: counts.values.first().map_or(0, |count| count.value),
                    enabled: counts.enabled.unwrap_or(0),
                    running: counts.running.unwrap_or(0),
                }),
                // A pinned event that never got its place: not counted.
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
                Err(error) => return Err(error),
            }
        }
        Ok(total)
    }
}

const FORMAT: ReadFormat =
    ReadFormat(ReadFormat::TOTAL_TIME_ENABLED.0 | ReadFormat::TOTAL_TIME_RUNNING.0);

/// Events that count.
#[derive(Debug)]
pub struct Counters {
    counters: Vec<Counter>,
}

impl Counters {
    /// Opens every event for every thread or CPU of `scope`. An event that
    /// the machine lacks becomes an unsupported counter. Weak groups that
    /// cannot be counted together are broken up. `inherit` counts children
    /// and new threads too.
    pub fn open(specs: &[EventSpec], scope: &Scope, inherit: bool) -> Result<Self, CountError> {
        let opened = Self::open_once(specs, scope, inherit).map_err(|error| match error {
            CountError::Refused(mut refusal) => {
                // Our own files beside them.
                refusal.descriptors = (specs.len() * scope.targets(None).len() + 32) as u64;
                CountError::Refused(refusal)
            }
            other => other,
        })?;
        let breaks = |(counter, spec): (&Counter, &EventSpec)| spec.weak && counter.is_misgrouped;
        let mut apart = specs.to_vec();
        if opened.counters.iter().zip(specs).any(breaks) && break_up(&mut apart) {
            return Self::open_once(&apart, scope, inherit);
        }
        Ok(opened)
    }

    fn open_once(specs: &[EventSpec], scope: &Scope, inherit: bool) -> Result<Self, CountError> {
        let mut opened = Self {
            counters: Vec::new(),
        };
        let cgroups = cgroup::of_events(specs).map_err(CountError::Cgroup)?;
        for (index, spec) in specs.iter().enumerate() {
            let leader = spec.group.and_then(|group| {
                let mut before = specs.iter().take(index);
                before.position(|other| other.group == Some(group))
            });
            let place = (scope, cgroups.get(index).and_then(Option::as_deref));
            let counter = opened.open_one(spec, place, inherit, leader)?;
            opened.counters.push(counter);
        }
        Ok(opened)
    }

    fn open_one(
        &self,
        spec: &EventSpec,
        (scope, cgroup): (&Scope, Option<&File>),
        inherit: bool,
        leader: Option<usize>,
    ) -> Result<Counter, CountError> {
        let leader = leader.and_then(|index| self.counters.get(index));
        let mut counter = Counter {
            name: spec.name.clone(),
            attr: attr_for(spec, scope, inherit, leader.is_some()),
            probe: spec.probe.clone(),
            tool: spec.tool,
            members: Vec::new(),
            supported: leader.is_none_or(|leader| leader.supported),
            leads: leader.is_none(),
            is_misgrouped: false,
            is_forbidden: false,
        };
        if !counter.supported {
            return Ok(counter);
        }
        let targets = scope.targets(cgroup);
        if spec.tool.is_some() {
            return Ok(counter);
        }
        for (place, &target) in targets.iter().enumerate() {
            if is_elsewhere(spec, target) {
                counter.members.push(None);
                continue;
            }
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
            match open_narrowing(&mut counter, spec, target, group) {
                Ok(event) => counter.members.push(Some(event)),
                Err(error) => match verdict(error.errno(), &counter, spec) {
                    kind @ (Verdict::Unsupported | Verdict::Forbidden) => {
                        counter.supported = false;
                        counter.is_forbidden = matches!(kind, Verdict::Forbidden);
                        counter.is_misgrouped = !counter.leads && is_of_a_group(error.errno());
                        counter.members.clear();
                        return Ok(counter);
                    }
                    Verdict::Gone => counter.members.push(None),
                    Verdict::Failed => {
                        let errno = error.errno();
                        let refused = completed(errno, &counter, (scope, target));
                        return Err(CountError::Refused(Box::new(refused)));
                    }
                },
            }
        }
        if let Some(filter) = &spec.filter {
            for event in counter.members.iter().flatten() {
                if let Err(error) = event.set_filter(filter) {
                    let errno = error.raw_os_error().unwrap_or(0);
                    let mut refusal = refusal(errno, &counter, (scope, targets[0]));
                    refusal.step = Step::Filter;
                    refusal.filter = filter_text(Some(filter));
                    refusal.fields = events::fields_of(&counter.attr);
                    return Err(CountError::Refused(Box::new(refusal)));
                }
            }
        }
        if counter.members.iter().all(Option::is_none) {
            let event = counter.name;
            return Err(match &spec.cpus {
                Some(cpus) if matches!(scope, Scope::Cpus(_)) => CountError::NotOnTheseCpus {
                    event,
                    cpus: cpus
                        .iter()
                        .map(u32::to_string)
                        .collect::<Vec<_>>()
                        .join(","),
                },
                _ => CountError::NoSuchTask { event },
            });
        }
        Ok(counter)
    }

    /// Begins counting, unless a launched program begins it by its exec.
    pub fn enable(&self) -> io::Result<()> {
        self.leaders().try_for_each(Event::enable_group)
    }

    /// Stops counting.
    pub fn disable(&self) -> io::Result<()> {
        self.leaders().try_for_each(Event::disable_group)
    }

    fn leaders(&self) -> impl Iterator<Item = &Event> {
        let leading = self.counters.iter().filter(|counter| counter.leads);
        leading.flat_map(|counter| counter.members.iter().flatten())
    }

    /// The events, in the order in which they were asked for.
    pub fn iter(&self) -> impl Iterator<Item = &Counter> {
        self.counters.iter()
    }

    /// What each has counted so far; unsupported ones read as nothing.
    pub fn read(&self) -> io::Result<Vec<Reading>> {
        self.counters.iter().map(Counter::read).collect()
    }
}

/// Whether the event's PMU is not of the CPU that is counted.
fn is_elsewhere(spec: &EventSpec, target: Target<'_>) -> bool {
    match (&spec.cpus, target) {
        (Some(cpus), Target::Cpu(cpu) | Target::Cgroup { cpu, .. }) => !cpus.contains(&cpu),
        _ => false,
    }
}

fn attr_for(spec: &EventSpec, scope: &Scope, inherit: bool, is_member: bool) -> EventAttr {
    let mut attr = spec.attr.clone();
    attr.read_format = FORMAT;
    let mut flags = attr.flags;
    if inherit && spec.may_be_inherited() && !matches!(scope, Scope::Cpus(_)) {
        flags = flags.with(AttrFlags::INHERIT);
    }
    if !is_member {
        // Members follow their leader.
        flags = flags.with(AttrFlags::DISABLED);
        if matches!(scope, Scope::Launched(_)) {
            flags = flags.with(AttrFlags::ENABLE_ON_EXEC);
        }
    }
    attr.flags = flags;
    attr
}

/// Opens the event; if the kernel's part is forbidden, without it, as perf
/// does, with `:u` behind the name.
fn open_narrowing(
    counter: &mut Counter,
    spec: &EventSpec,
    target: Target<'_>,
    group: Option<&Event>,
) -> Result<Event, OpenError> {
    let forbidden = |error: &OpenError| matches!(error.errno(), libc::EACCES | libc::EPERM);
    let probe = spec.probe.as_deref();
    let first = open_event(&counter.attr, probe, target, group);
    let already = counter.attr.flags.has(AttrFlags::EXCLUDE_KERNEL);
    match first {
        Err(error) if forbidden(&error) && spec.may_drop_kernel() && !already => {
            let mut narrower = counter.attr.clone();
            narrower.flags = narrower
                .flags
                .with(AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV);
            let event = open_event(&narrower, probe, target, group);
            // A process of somebody else stays forbidden; then the first
            // refusal is the one to tell.
            if event.as_ref().is_err_and(forbidden) {
                return Err(error);
            }
            counter.attr = narrower;
            counter.name = events::narrowed(&counter.name);
            event
        }
        other => other,
    }
}

/// What a refusal means for the whole.
enum Verdict {
    /// This machine lacks the event.
    Unsupported,
    /// Its PMU has nothing for this user, who may not watch the kernel.
    Forbidden,
    /// The thread has ended.
    Gone,
    /// The user should know.
    Failed,
}

fn verdict(errno: i32, counter: &Counter, spec: &EventSpec) -> Verdict {
    // Of generalized events it means that this CPU has nothing of the kind.
    let is_general = matches!(spec.attr.kind, event_kind::HARDWARE | event_kind::CACHE);
    // Software PMUs such as msr cannot tell the kernel from the rest.
    let excludes = |attr: &EventAttr| attr.flags.has(AttrFlags::EXCLUDE_KERNEL);
    let is_narrowed = excludes(&counter.attr) && !excludes(&spec.attr);
    match errno {
        libc::ENOENT | libc::EOPNOTSUPP | libc::ENXIO | libc::ENODEV => Verdict::Unsupported,
        libc::EINVAL if counter.leads && is_general => Verdict::Unsupported,
        _ if !counter.leads && spec.weak && is_of_a_group(errno) => Verdict::Unsupported,
        libc::ESRCH => Verdict::Gone,
        libc::EINVAL if is_narrowed && spec.attr.kind >= FIRST_OWN_PMU => Verdict::Forbidden,
        _ => Verdict::Failed,
    }
}

/// All that is known of why the kernel refused an event.
fn refusal(errno: i32, counter: &Counter, (scope, target): (&Scope, Target<'_>)) -> Refusal {
    let attr = &counter.attr;
    let (cpu, tid) = match target {
        Target::Cpu(cpu) | Target::Cgroup { cpu, .. } => (Some(cpu), None),
        Target::Task { tid, .. } => (None, Some(tid)),
    };
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    Refusal {
        step: Step::Open,
        errno,
        event: counter.name.clone(),
        kind: attr.kind,
        whose: match scope {
            Scope::Launched(_) => Whose::Launched,
            Scope::Threads(_) => Whose::Attached,
            Scope::Cpus(_) => Whose::System,
        },
        cpu,
        tid,
        branches: false,
        branch_chains: false,
        aux: false,
        precise: attr.precise_ip() > 0,
        namespaces: false,
        physical: false,
        grouped: !counter.leads,
        kernel: !attr.flags.has(AttrFlags::EXCLUDE_KERNEL),
        all_kernel: false,
        narrowed: None,
        probe: counter.probe.is_some() || is_probe(attr.kind),
        in_kernel: events::breaks_into_kernel(attr),
        counts: false,
        unknown: None,
        counting: true,
        root: effective_user() == 0,
        long_chain: false,
        filter: String::new(),
        fields: String::new(),
        frequency: None,
        highest_frequency: 0,
        paranoid: paranoid.ok().and_then(|level| level.trim().parse().ok()),
        descriptors: 0,
        memory: RingMemory::NONE,
        ring_is_asked: false,
        lockable: Lockable::NONE,
    }
}

/// The same, with what else could be opened.
fn completed(errno: i32, counter: &Counter, (scope, target): (&Scope, Target<'_>)) -> Refusal {
    let mut refusal = refusal(errno, counter, (scope, target));
    let trial = Trial {
        name: &counter.name,
        attr: &counter.attr,
        probe: counter.probe.as_deref(),
        target,
    };
    trial.complete(&mut refusal);
    refusal
}

#[cfg(test)]
mod tests {
    use super::{CountError, Counters, Reading, Scope};
    use crate::events::parse;

    fn reading(value: u64, enabled: u64, running: u64) -> Reading {
        Reading {
            value,
            enabled,
            running,
        }
    }

    #[test]
    fn scaling_is_exact_and_never_down() {
        assert_eq!(reading(10, 100, 100).scaled(), Some(10));
        assert_eq!(reading(10, 300, 100).scaled(), Some(30));
        assert_eq!(reading(1, 3, 2).scaled(), Some(2), "1.5 is nearest to 2");
        assert_eq!(reading(10, 0, 0).scaled(), None);
        // Clocks of several CPUs may differ by some ns.
        assert_eq!(reading(10, 99, 100).scaled(), Some(10));
        // Past what a double holds.
        let large = (1 << 60) + 1;
        assert_eq!(reading(large, 1 << 62, 1 << 61).scaled(), Some(2 * large));
        assert_eq!(reading(u64::MAX, 2, 1).scaled(), Some(u64::MAX));
    }

    #[test]
    fn an_interval_is_the_difference_of_two_readings() {
        let interval = reading(30, 20, 10).since(&reading(10, 10, 5));
        assert_eq!(interval, reading(20, 10, 5));
        assert_eq!(reading(1, 1, 1).since(&reading(2, 2, 2)), reading(0, 0, 0));
    }

    fn of_this_thread(events: &str) -> Result<Counters, CountError> {
        // The main thread's id is the process's; tests run in others.
        let tid = std::fs::read_link("/proc/thread-self").expect("a link");
        let tid = tid.file_name().and_then(|name| name.to_str()?.parse().ok());
        let scope = Scope::Threads(vec![tid.expect("a number")]);
        Counters::open(&parse(events, 0).expect("events"), &scope, false)
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
        let scope = Scope::Threads(vec![std::process::id()]);
        match Counters::open(&specs, &scope, false) {
            Ok(counters) => assert!(counters.iter().all(|counter| !counter.is_supported())),
            Err(error) => println!("skipped: {error}"),
        }
    }

    #[test]
    fn a_process_that_has_ended_is_named() {
        let mut child = std::process::Command::new("true").spawn().expect("runs");
        child.wait().expect("ends");
        let scope = Scope::Threads(vec![child.id()]);
        let specs = parse("page-faults:u", 0).expect("an event");
        match Counters::open(&specs, &scope, false) {
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

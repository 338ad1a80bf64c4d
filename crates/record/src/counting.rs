//! Counting events instead of sampling them.
//!
//! You give events and whose they are, and get a reading per event and thread
//! or CPU whenever you ask. Inherited counts of children are in the readings.

use crate::cgroup::{self, NoCgroup};
use crate::events::{self, EventSpec, Tool, break_up, is_of_a_group};
use crate::hints::{Around, FIRST_OWN_PMU, Refusal, Step, Whose};
use crate::late_tasks::LateTasks;
use crate::open::{Trial, filter_text, is_probe, open_event};
use prof_abi::{AttrFlags, EventAttr, ReadFormat, SampleType, event_kind};
use prof_sys::process::effective_user;
use prof_sys::{Event, OpenError, Target};
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
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

/// How events are counted.
#[derive(Debug, Clone)]
pub struct Counting {
    /// Whose.
    pub scope: CountingScope,
    /// Children and new threads too.
    pub inherit: bool,
    /// Counting begins with [`Counters::enable`], also of a launched process.
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

    /// Adds what another counted.
    pub fn add(&mut self, other: &Self) {
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
    /// See [`EventSpec::in_kernel_only`].
    in_kernel_only: bool,
    /// See [`EventSpec::probe`].
    probe: Option<CString>,
    tool: Option<Tool>,
    /// One per thread or CPU; `None` where the thread was gone.
    members: Vec<Option<Event>>,
    supported: bool,
    /// The place of its leader among the counters, if that is another.
    leader: Option<usize>,
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

    /// Whether it always reads 0: its events occur only in the kernel, which is
    /// excluded.
    pub fn is_blind(&self) -> bool {
        events::is_blind(&self.attr, self.in_kernel_only)
    }

    /// Whether its PMU cannot exclude the kernel, which this user may not
    /// observe; the counter then counts as unsupported.
    pub fn is_forbidden(&self) -> bool {
        self.is_forbidden
    }

    /// Whether it covers only the threads that existed at the start, because
    /// the kernel cannot inherit this event.
    pub fn is_of_known_threads(&self) -> bool {
        self.probe.is_some()
    }

    /// What `prof stat` must measure itself, because the kernel has no such
    /// event.
    pub fn tool(&self) -> Option<Tool> {
        self.tool
    }

    fn leads(&self) -> bool {
        self.leader.is_none()
    }

    /// The id of the event of each thread or CPU, as READ records and perf's
    /// files name it.
    ///
    /// # Errors
    /// When the kernel does not tell it.
    pub fn ids(&self) -> io::Result<Vec<Option<u64>>> {
        let id = |event: &Option<Event>| event.as_ref().map(Event::id).transpose();
        self.members.iter().map(id).collect()
    }

    /// What a read of one of its events gives, of a leader with its members.
    fn read_at(&self, place: usize) -> io::Result<Vec<Reading>> {
        let Some(event) = self.members.get(place).and_then(Option::as_ref) else {
            return Ok(Vec::new());
        };
        match event.read_counts(self.attr.read_format) {
            Ok(counts) => {
                let (enabled, running) = (counts.enabled, counts.running);
                let reading = |value| Reading {
                    value,
                    enabled: enabled.unwrap_or(0),
                    running: running.unwrap_or(0),
                };
                let values = counts.values.iter();
                Ok(values.map(|count| reading(count.value)).collect())
            }
            // A pinned event that never got its place: not counted.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Ok(vec![Reading::default()])
            }
            Err(error) => Err(error),
        }
    }
}

const FORMAT: ReadFormat =
    ReadFormat(ReadFormat::TOTAL_TIME_ENABLED.0 | ReadFormat::TOTAL_TIME_RUNNING.0);
/// That of events that are read together.
const GROUP_FORMAT: ReadFormat = ReadFormat(FORMAT.0 | ReadFormat::ID.0 | ReadFormat::GROUP.0);

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
        for (index, spec) in specs.iter().enumerate() {
            let leader = spec.group.and_then(|group| {
                let mut before = specs.iter().take(index);
                before.position(|other| other.group == Some(group))
            });
            let mut counter = Counter {
                name: spec.name.clone(),
                attr: attr_for(spec, how, leader.is_some()),
                in_kernel_only: spec.in_kernel_only,
                probe: spec.probe.clone(),
                tool: spec.tool,
                members: Vec::new(),
                supported: true,
                leader,
                is_misgrouped: false,
                is_forbidden: false,
            };
            let of_group = |other: &&EventSpec| spec.group.is_some() && other.group == spec.group;
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
                if let (true, Some(value)) = (is_open, values.next())
                    && let Some(slot) = read.get_mut(member).and_then(|all| all.get_mut(place))
                {
                    *slot = Some(value);
                }
            }
        }
        Ok(())
    }
}

fn set_filter(
    spec: &EventSpec,
    counter: &Counter,
    place: (&CountingScope, Target<'_>),
) -> Result<(), CountError> {
    let Some(filter) = &spec.filter else {
        return Ok(());
    };
    for event in counter.members.iter().flatten() {
        if let Err(error) = event.set_filter(filter) {
            let errno = error.raw_os_error().unwrap_or(0);
            let mut refusal = refusal(errno, counter, place);
            refusal.step = Step::Filter;
            refusal.filter = filter_text(Some(filter));
            refusal.fields = events::fields_of(&counter.attr);
            return Err(CountError::Refused(Box::new(refusal)));
        }
    }
    Ok(())
}

/// Why an event counts nobody.
fn nowhere(spec: &EventSpec, counter: &Counter, scope: &CountingScope) -> CountError {
    let event = counter.name.clone();
    match &spec.cpus {
        Some(cpus) if matches!(scope, CountingScope::Cpus(_)) => {
            let cpus: Vec<_> = cpus.iter().map(u32::to_string).collect();
            CountError::NotOnTheseCpus {
                event,
                cpus: cpus.join(","),
            }
        }
        _ => CountError::NoSuchTask { event },
    }
}

/// Whether the event's PMU is not of the CPU that is counted.
fn is_elsewhere(spec: &EventSpec, target: Target<'_>) -> bool {
    match (&spec.cpus, target) {
        (Some(cpus), Target::Cpu(cpu) | Target::Cgroup { cpu, .. }) => !cpus.contains(&cpu),
        _ => false,
    }
}

/// As perf's attr of the event.
fn attr_for(spec: &EventSpec, how: &Counting, is_member: bool) -> EventAttr {
    let mut attr = spec.attr.clone();
    attr.read_format = FORMAT;
    attr.sample_type = SampleType::IDENTIFIER;
    let mut flags = attr.flags;
    if !spec.modes.guests {
        flags = flags.with(AttrFlags::EXCLUDE_GUEST);
    }
    if how.inherit && spec.inherit != Some(false) && spec.may_be_inherited() {
        flags = flags.with(AttrFlags::INHERIT);
    }
    if !is_member {
        // Members follow their leader.
        flags = flags.with(beginning(how));
    }
    attr.flags = flags;
    attr
}

/// When counting begins.
fn beginning(how: &Counting) -> AttrFlags {
    match how.scope {
        CountingScope::Launched(_) if !how.by_hand => {
            AttrFlags::DISABLED | AttrFlags::ENABLE_ON_EXEC
        }
        _ => AttrFlags::DISABLED,
    }
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
    let first = open_older(counter, probe, target, group);
    let already = counter.attr.flags.has(AttrFlags::EXCLUDE_KERNEL);
    match first {
        Err(error) if forbidden(&error) && spec.may_drop_kernel() && !already => {
            let mut narrower = counter.attr.clone();
            narrower.flags = narrower
                .flags
                .with(AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV);
            let wider = std::mem::replace(&mut counter.attr, narrower);
            let event = open_older(counter, probe, target, group);
            // A process of somebody else stays forbidden; then the first
            // refusal is the one to tell.
            if event.as_ref().is_err_and(forbidden) {
                counter.attr = wider;
                return Err(error);
            }
            counter.name = events::narrowed(&counter.name);
            event
        }
        other => other,
    }
}

/// Opens the event; if it is invalid, without what not every kernel and PMU
/// knows. Of two refusals the first is told.
fn open_older(
    counter: &mut Counter,
    probe: Option<&CStr>,
    target: Target<'_>,
    group: Option<&Event>,
) -> Result<Event, OpenError> {
    let first = match open_event(&counter.attr, probe, target, group) {
        Err(error) if error.errno() == libc::EINVAL => error,
        other => return other,
    };
    let mut older = counter.attr.clone();
    let guests_apart = |attr: &mut EventAttr| {
        attr.flags = attr.flags.without(AttrFlags::EXCLUDE_GUEST);
    };
    // Kernels before 4.13 read no group with its children.
    let read_alone = |attr: &mut EventAttr| attr.read_format = FORMAT;
    let steps: [&dyn Fn(&mut EventAttr); 2] = [&guests_apart, &read_alone];
    let most = if counter.leads() { steps.len() } else { 1 };
    for step in steps.into_iter().take(most) {
        let before = older.clone();
        step(&mut older);
        if older == before {
            continue;
        }
        if let Ok(event) = open_event(&older, probe, target, group) {
            counter.attr = older;
            return Ok(event);
        }
    }
    Err(first)
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
        // The machine has probes; there is no such place.
        libc::ENOENT if counter.probe.is_some() => Verdict::Failed,
        libc::ENOENT | libc::EOPNOTSUPP | libc::ENXIO | libc::ENODEV => Verdict::Unsupported,
        libc::EINVAL if counter.leads() && is_general => Verdict::Unsupported,
        _ if !counter.leads() && spec.weak && is_of_a_group(errno) => Verdict::Unsupported,
        libc::ESRCH => Verdict::Gone,
        libc::EINVAL if is_narrowed && spec.attr.kind >= FIRST_OWN_PMU => Verdict::Forbidden,
        _ => Verdict::Failed,
    }
}

/// All that is known of why the kernel refused an event.
fn refusal(
    errno: i32,
    counter: &Counter,
    (scope, target): (&CountingScope, Target<'_>),
) -> Refusal {
    let attr = &counter.attr;
    let (cpu, tid) = match target {
        Target::Cpu(cpu) | Target::Cgroup { cpu, .. } => (Some(cpu), None),
        Target::Task { tid, .. } => (None, Some(tid)),
    };
    let whose = match scope {
        CountingScope::Launched(_) => Whose::Launched,
        CountingScope::Threads(_) => Whose::Attached,
        CountingScope::Cpus(_) => Whose::System,
    };
    Refusal {
        cpu,
        tid,
        precise: attr.precise_ip() > 0,
        grouped: !counter.leads(),
        kernel: !attr.flags.has(AttrFlags::EXCLUDE_KERNEL),
        probe: counter.probe.is_some() || is_probe(attr.kind),
        in_kernel: events::breaks_into_kernel(attr),
        counting: true,
        root: effective_user() == 0,
        paranoid: crate::setup::read_number("/proc/sys/kernel/perf_event_paranoid"),
        around: Around::this_process(),
        ..Refusal::to_open(counter.name.clone(), attr.kind, whose, errno)
    }
}

/// The same, with what else could be opened.
fn completed(
    errno: i32,
    counter: &Counter,
    (scope, target): (&CountingScope, Target<'_>),
) -> Refusal {
    let mut refusal = refusal(errno, counter, (scope, target));
    Trial {
        name: &counter.name,
        attr: &counter.attr,
        probe: counter.probe.as_deref(),
        target,
    }
    .complete(&mut refusal);
    refusal
}

#[cfg(test)]
mod tests {
    use super::{CountError, Counters, Counting, CountingScope, Reading};
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

//! Opening the planned events for every CPU and task, and their rings.

mod running;
mod trial;

pub(crate) use trial::{Trial, is_probe, open_event};

use crate::cgroup::NoCgroup;
use crate::events;
use crate::hints::{Around, Refusal, Step, Whose, sysctl};
use crate::kernel;
use crate::options::CLOCKS;
use crate::own_threads::without_own_threads;
use crate::planned::{self, OnCpus, Planned, Role};
use crate::rings::{Lockable, RingMemory};
use crate::traces::{Area, AreaPlan};
use crate::tree::Shares;
use prof_abi::{AttrFlags, BranchSampleType, EventAttr, ReadFormat, SampleType};
use prof_sys::process::effective_user;
use prof_sys::{AuxArea, AuxError, Event, OpenError, RandomChoice, Ring, Target, page_size};
use std::ffi::{CStr, CString};
use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// An open descriptor of an event.
#[derive(Debug)]
pub(crate) struct Descriptor {
    pub(crate) event: Event,
    pub(crate) id: u64,
    pub(crate) cpu: Option<u32>,
    pub(crate) tid: Option<u32>,
    /// The place of its ring.
    pub(crate) ring: usize,
    pub(crate) part: DescriptorRole,
}

/// What a descriptor is opened for.
#[derive(Debug, Clone, Copy)]
struct Purpose {
    /// The place of its event.
    event: usize,
    part: DescriptorRole,
    /// `None`: of all tasks.
    tid: Option<u32>,
    /// `None`: on any CPU.
    cpu: Option<u32>,
}

/// What a descriptor does for its event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DescriptorRole {
    /// All.
    Whole,
    /// Of an event on whole CPUs ([`Planned::on_cpus`]): samples of a CPU.
    OfCpu,
    /// Of the same: samples of tasks, for as long as that is enough.
    InTasks,
    /// Of the same: these samples with less of each stack ([`Planned::shallow_piece`]),
    /// while that is enough.
    Shallow,
    /// Of the same: counts of the target's tasks, and records about them.
    OfTasks,
    /// Of an event that [chooses](Planned::chooses): all but its samples.
    Choosing,
    /// Of the same: its samples, on a CPU.
    Taking,
}

/// An event with all its descriptors.
#[derive(Debug)]
pub(crate) struct OpenEvent {
    /// As it was opened: what the kernel refused is gone from the attr.
    pub(crate) planned: Planned,
    pub(crate) descriptors: Vec<Descriptor>,
}

impl OpenEvent {
    pub(crate) fn ids(&self) -> Vec<u64> {
        self.descriptors.iter().map(|open| open.id).collect()
    }

    /// What a read of a descriptor gives.
    fn read_format(&self, part: DescriptorRole) -> ReadFormat {
        match part {
            DescriptorRole::OfTasks => planned::of_tasks(&self.planned.attr).read_format,
            _ => self.planned.attr.read_format,
        }
    }

    /// Whether its descriptor brings what an event with this role does.
    fn serves(&self, open: &Descriptor, role: Role) -> bool {
        match open.part {
            DescriptorRole::OfTasks => role == Role::Tracks,
            _ => self.planned.role == role,
        }
    }

    /// By descriptor with this role its id and the records it lost; 0 where
    /// that cannot be read. Of whole CPUs, what `shares` says is the target's.
    fn lost_by_id(&self, role: Role, shares: &Shares) -> Vec<(u64, u64)> {
        let lost = |open: &Descriptor| {
            let format = self.read_format(open.part);
            // A group's leader tells for its members.
            let counts = open.event.read_counts(format).ok()?;
            let own = counts.values.iter().find(|count| count.id == Some(open.id));
            let lost = own?.lost?;
            Some(match open.part {
                DescriptorRole::OfCpu => shares.part_of(open.ring, lost),
                _ => lost,
            })
        };
        let each = self.descriptors.iter();
        each.filter(|open| self.serves(open, role))
            .map(|open| (open.id, lost(open).unwrap_or(0)))
            .collect()
    }
}

/// A ring and whose records are in it.
#[derive(Debug)]
pub(crate) struct RingSlot {
    pub(crate) ring: Ring,
    /// The CPU that its events are on; `None` for any.
    pub(crate) cpu: Option<u32>,
    pub(crate) tid: Option<u32>,
    /// It always holds the newest records (`overwrite`), and is read when a
    /// file is wanted and at the end.
    pub(crate) is_newest: bool,
    /// Event and descriptor of each member, the owner first.
    pub(crate) members: Vec<(usize, usize)>,
    /// The area beside it, if one of the members traces.
    pub(crate) trace: Option<Area>,
}

/// Where events are opened, and what is known for messages.
#[derive(Debug, Clone)]
pub(crate) struct Scope {
    pub(crate) whose: Whose,
    /// The CPUs of sampling events; empty: one descriptor for any CPU.
    pub(crate) cpus: Vec<u32>,
    /// The CPUs of the tracking event.
    pub(crate) all_cpus: Vec<u32>,
    /// Descriptors needed in all, for messages.
    pub(crate) descriptors: u64,
    pub(crate) highest_frequency: u64,
    pub(crate) paranoid: Option<i32>,
    /// What each ring gets.
    pub(crate) memory: RingMemory,
    /// Whether the size of rings is the user's wish.
    pub(crate) ring_is_asked: bool,
    /// What rings may lock, for messages.
    pub(crate) lockable: Lockable,
    /// The areas of an event that traces.
    pub(crate) area: Option<AreaPlan>,
    /// The roles whose events are switched on as soon as their ring is there,
    /// so that FORK records tell of every thread that inherits them.
    pub(crate) enabled: Vec<Role>,
    /// Every event is of the kernel only (`--all-kernel`).
    pub(crate) all_kernel: bool,
}

impl Scope {
    fn enables_at_once(&self, role: Role) -> bool {
        self.enabled.contains(&role)
    }
}

/// All that is open.
#[derive(Debug)]
pub(crate) struct OpenSet {
    pub(crate) events: Vec<OpenEvent>,
    pub(crate) rings: Vec<RingSlot>,
    pub(crate) notices: Vec<String>,
    /// For snapshots of deep stacks; `None` where that is not possible.
    pub(crate) witness: Option<Witness>,
    /// What part of each ring's samples is the target's.
    pub(crate) shares: Shares,
    /// What chooses the samples of an event that does.
    pub(crate) choice: Option<Arc<RandomChoice>>,
    /// Events on whole CPUs when needed are so now.
    by_cpus: AtomicBool,
    /// Less is copied of each stack now.
    is_shallow: AtomicBool,
    /// What decoders must know of a trace, as a record.
    pub(crate) trace_info: Option<Vec<u8>>,
    scope: Scope,
}

/// The event of context switches with its descriptors; see
/// [`crate::snapshots`]. Its records share the rings and never get into the
/// file.
#[derive(Debug)]
pub(crate) struct Witness {
    pub(crate) attr: EventAttr,
    pub(crate) descriptors: Vec<Descriptor>,
}

impl Witness {
    /// Whether it tells with which registers threads leave, or only when: a
    /// switch happens in the kernel, which is not for everybody to sample.
    pub(crate) fn tells_registers(&self) -> bool {
        !self.attr.flags.has(AttrFlags::EXCLUDE_KERNEL)
    }

    pub(crate) fn ids(&self) -> Vec<u64> {
        self.descriptors.iter().map(|open| open.id).collect()
    }
}

/// Why nothing more could be opened.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The task has ended.
    Gone,
    /// There is no such cgroup.
    Cgroup(NoCgroup),
    Refused(Box<Refusal>),
}

impl Stop {
    /// Whether smaller rings might have been mapped.
    pub(crate) fn is_for_room(&self) -> bool {
        matches!(self, Self::Refused(refusal)
            if matches!(refusal.step, Step::Map | Step::Trace) && matches!(refusal.errno, libc::EPERM | libc::ENOMEM))
    }
}

impl OpenSet {
    pub(crate) fn new(planned: Vec<Planned>, witness: Option<EventAttr>, scope: Scope) -> Self {
        let events = planned
            .into_iter()
            .map(|planned| OpenEvent {
                planned,
                descriptors: Vec::new(),
            })
            .collect();
        Self {
            events,
            rings: Vec::new(),
            notices: Vec::new(),
            shares: Shares::default(),
            choice: None,
            by_cpus: AtomicBool::new(false),
            is_shallow: AtomicBool::new(false),
            trace_info: None,
            witness: witness.map(|attr| Witness {
                attr,
                descriptors: Vec::new(),
            }),
            scope,
        }
    }

    /// Opens all events for one task, or for all with `None`, on every CPU.
    pub(crate) fn open_for(&mut self, tid: Option<u32>) -> Result<(), Stop> {
        if self.scope.all_cpus.is_empty() {
            return self.open_on(tid, None);
        }
        for cpu in self.scope.all_cpus.clone() {
            self.open_on(tid, Some(cpu))?;
        }
        Ok(())
    }

    fn open_on(&mut self, tid: Option<u32>, cpu: Option<u32>) -> Result<(), Stop> {
        let samples_here = cpu.is_none_or(|cpu| self.scope.cpus.contains(&cpu));
        for event in 0..self.events.len() {
            let planned = &self.events[event].planned;
            let is_elsewhere = |cpus: &Vec<u32>| cpu.is_some_and(|cpu| !cpus.contains(&cpu));
            if !samples_here && planned.role == Role::Samples
                || planned.cpus.as_ref().is_some_and(is_elsewhere)
            {
                continue;
            }
            let on_cpus = planned.on_cpus;
            let has_shallow = planned.shallow_piece.is_some();
            let with_part = |part| Purpose {
                event,
                part,
                tid,
                cpu,
            };
            if planned.chooses && cpu.is_some() {
                self.open_one(with_part(DescriptorRole::Choosing))?;
                self.open_of_cpu((event, DescriptorRole::Taking), cpu)?;
                continue;
            }
            if on_cpus == OnCpus::Never {
                self.open_one(with_part(DescriptorRole::Whole))?;
                continue;
            }
            if event == 0 && planned.probe.is_none() {
                // The first carries the records of tasks, too.
                self.open_one(with_part(DescriptorRole::OfTasks))?;
            }
            if on_cpus == OnCpus::WhenNeeded {
                self.open_one(with_part(DescriptorRole::InTasks))?;
                if has_shallow {
                    self.open_one(with_part(DescriptorRole::Shallow))?;
                }
            }
        }
        for event in 0..self.events.len() {
            if self.events[event].planned.on_cpus != OnCpus::Never {
                self.open_of_cpu((event, DescriptorRole::OfCpu), cpu)?;
            }
        }
        if let Some(mut witness) = self.witness.take() {
            let opened = self.open_witness(&witness.attr, tid, cpu).or_else(|| {
                // Without the right to see the kernel there are records of
                // switches, but no samples of them.
                let is_first = witness.descriptors.is_empty() && witness.tells_registers();
                witness.attr.flags = witness.attr.flags.with(AttrFlags::EXCLUDE_KERNEL);
                is_first.then(|| self.open_witness(&witness.attr, tid, cpu))?
            });
            if let Some(descriptor) = opened {
                witness.descriptors.push(descriptor);
                self.witness = Some(witness);
            }
        }
        Ok(())
    }

    /// Opens the part of an event that is of the whole CPU, if it is not open yet.
    fn open_of_cpu(
        &mut self,
        (event, part): (usize, DescriptorRole),
        cpu: Option<u32>,
    ) -> Result<(), Stop> {
        let is_it = |open: &Descriptor| open.part == part && open.cpu == cpu;
        if self.events[event].descriptors.iter().any(is_it) {
            return Ok(());
        }
        self.open_one(Purpose {
            event,
            part,
            tid: None,
            cpu,
        })
    }

    fn open_witness(
        &self,
        attr: &EventAttr,
        tid: Option<u32>,
        cpu: Option<u32>,
    ) -> Option<Descriptor> {
        let place = self.rings.iter().rposition(|slot| slot.cpu == cpu)?;
        let &(owner, descriptor) = self.rings.get(place)?.members.first()?;
        let owner = &self.events.get(owner)?.descriptors.get(descriptor)?.event;
        let target = target_of(tid, cpu, self.events.first()?.planned.cgroup.as_deref())?;
        let event = Event::open(attr, target, None).ok()?;
        event.set_output(Some(owner)).ok()?;
        Some(Descriptor {
            id: event.id().ok()?,
            event,
            cpu,
            tid,
            ring: place,
            part: DescriptorRole::Whole,
        })
    }

    fn open_one(&mut self, purpose: Purpose) -> Result<(), Stop> {
        let Purpose {
            event: index,
            part,
            tid,
            cpu,
        } = purpose;
        let event = match self.open_with_fallbacks(purpose) {
            Ok(event) => event,
            // The CPU went offline since it was listed.
            Err(error) if error.errno() == libc::ENODEV && !self.rings.is_empty() => return Ok(()),
            Err(error) => return Err(self.stop(purpose, error.errno())),
        };
        self.filter(&event, purpose)?;
        let ring = self.ring_for(&event, purpose)?;
        self.map_area(&event, ring, purpose)?;
        let joined = self.join_choice(&event, part, cpu);
        joined.map_err(|error| self.refused(Step::Open, &error, purpose))?;
        let id = match event.id() {
            Ok(id) => id,
            Err(error) if is_gone(&error) => 0,
            // Samples of several events could not be told apart.
            Err(error) => return Err(self.refused(Step::Identify, &error, purpose)),
        };
        let is_used = self.uses(&self.events[index], part);
        if is_used && self.scope.enables_at_once(self.events[index].planned.role) {
            // Fails only for a task that has just ended.
            let _ = event.enable();
        }
        let open = &mut self.events[index].descriptors;
        open.push(Descriptor {
            event,
            id,
            cpu,
            tid,
            ring,
            part,
        });
        let member = (index, open.len() - 1);
        let members = &mut self.rings[ring].members;
        // An event of a CPU never ends: who waits for the end of all tasks
        // waits on the others.
        let is_of_cpu = matches!(part, DescriptorRole::OfCpu | DescriptorRole::Taking);
        if !is_of_cpu || members.is_empty() {
            members.push(member);
        }
        Ok(())
    }

    /// Has an event leave out what is not wanted of it.
    fn filter(&mut self, event: &Event, purpose: Purpose) -> Result<(), Stop> {
        let planned = &self.events[purpose.event].planned;
        let is_first = self.events[purpose.event].descriptors.is_empty();
        let Some(filter) = used_filter(planned) else {
            return Ok(());
        };
        let filtered = match self.excludes_later(planned) {
            false => event.set_filter(&filter),
            // It is said now if the kernel does not take it.
            true if is_first => {
                let trial = self.open_with_fallbacks(purpose);
                let trial = trial.map_err(|error| self.stop(purpose, error.errno()))?;
                trial.set_filter(&filter)
            }
            true => Ok(()),
        };
        filtered.map_err(|error| self.refused(Step::Filter, &error, purpose))
    }

    /// Whether an event gets its filter when all threads of ours are there: it
    /// cannot have another one after that. What is of other processes needs none of
    /// these, and may be on already.
    fn excludes_later(&self, planned: &Planned) -> bool {
        planned.excludes_recorder && self.scope.whose != Whose::Attached
    }

    /// Leaves the threads that this process has now out of the events that are
    /// to be without them.
    pub(crate) fn exclude_threads(&self) -> std::io::Result<()> {
        let events = self.events.iter();
        for event in events.filter(|event| self.excludes_later(&event.planned)) {
            let Some(filter) = used_filter(&event.planned) else {
                continue;
            };
            for open in &event.descriptors {
                open.event.set_filter(&filter)?;
            }
        }
        Ok(())
    }

    /// Has an event choose, or take what is chosen.
    fn join_choice(
        &self,
        event: &Event,
        part: DescriptorRole,
        cpu: Option<u32>,
    ) -> std::io::Result<()> {
        match (&self.choice, part, cpu) {
            (Some(choice), DescriptorRole::Choosing, _) => choice.attach(event),
            (Some(choice), DescriptorRole::Taking, Some(cpu)) => choice.hand_to(cpu, event),
            _ => Ok(()),
        }
    }

    /// Why a descriptor could not be opened, and what could be instead.
    fn stop(&self, purpose: Purpose, errno: i32) -> Stop {
        if errno == libc::ESRCH && self.scope.whose == Whose::Attached {
            return Stop::Gone;
        }
        let mut refusal = self.refusal(Step::Open, errno, purpose);
        let planned = &self.events[purpose.event].planned;
        if let Some(target) = target_of(purpose.tid, purpose.cpu, planned.cgroup.as_deref()) {
            let trial = Trial {
                name: &planned.name,
                attr: &planned.attr,
                probe: planned.probe.as_deref(),
                target,
            };
            trial.complete(&mut refusal);
        }
        Stop::Refused(Box::new(refusal))
    }

    /// Opens, and if this is the event's first descriptor tries with less.
    fn open_with_fallbacks(&mut self, purpose: Purpose) -> Result<Event, OpenError> {
        let Purpose {
            event: index,
            part,
            tid,
            cpu,
        } = purpose;
        // Apart from `self`, of which the result becomes a part.
        let cgroup = self.events[index].planned.cgroup.clone();
        let Some(target) = target_of(tid, cpu, cgroup.as_deref()) else {
            return Err(OpenError {
                source: std::io::Error::from_raw_os_error(libc::EINVAL),
                kernel_attr_size: None,
            });
        };
        let leader = self.leader_of(purpose);
        let planned = &self.events[index].planned;
        let probe = planned.probe.as_deref();
        let open = |attr: &EventAttr| match part {
            DescriptorRole::Whole => open_event(attr, probe, target, leader),
            DescriptorRole::OfCpu => open_event(&planned::of_cpu(attr), probe, target, leader),
            DescriptorRole::InTasks => open_event(&planned::in_tasks(attr), probe, target, leader),
            DescriptorRole::OfTasks => open_event(&planned::of_tasks(attr), probe, target, leader),
            DescriptorRole::Shallow => {
                let piece = planned.shallow_piece.unwrap_or(attr.sample_stack_user);
                open_event(&planned::shallow(attr, piece), probe, target, leader)
            }
            DescriptorRole::Choosing => open_event(&planned::choosing(attr), probe, target, leader),
            DescriptorRole::Taking => open_event(&planned::taking(attr), probe, target, leader),
        };
        if !self.events[index].descriptors.is_empty() {
            return open(&planned.attr);
        }
        let opened = kernel::open_best(planned, open)?;
        self.notices.extend(opened.notices);
        self.events[index].planned = opened.planned;
        Ok(opened.event)
    }

    /// The leader's descriptor for the same task and CPU.
    fn leader_of(&self, purpose: Purpose) -> Option<&Event> {
        let leader = self.events[purpose.event]
            .planned
            .leader
            .filter(|&leader| leader != purpose.event)?;
        let same = |open: &&Descriptor| open.tid == purpose.tid && open.cpu == purpose.cpu;
        self.events[leader]
            .descriptors
            .iter()
            .rev()
            .find(same)
            .map(|open| &open.event)
    }

    /// The ring of the CPU, or of the task where events are on any CPU; mapped
    /// if this is the first event there.
    fn ring_for(&mut self, event: &Event, purpose: Purpose) -> Result<usize, Stop> {
        let Purpose { tid, cpu, .. } = purpose;
        let flags = self.events[purpose.event].planned.attr.flags;
        let is_newest = flags.has(AttrFlags::WRITE_BACKWARD);
        let found = self.rings.iter().rposition(|slot| {
            slot.is_newest == is_newest && slot.cpu == cpu && (cpu.is_some() || slot.tid == tid)
        });
        if let Some(place) = found {
            let (owner, descriptor) = self.rings[place].members[0];
            let owner = &self.events[owner].descriptors[descriptor].event;
            let shared = event.set_output(Some(owner));
            shared.map_err(|error| self.refused(Step::Share, &error, purpose))?;
            return Ok(place);
        }
        let pages = self.scope.memory.bytes / page_size() as u64;
        let pages = usize::try_from(pages).unwrap_or(usize::MAX);
        let ring = match is_newest {
            true => Ring::map_overwriting(event, pages),
            false => Ring::map(event, pages),
        };
        let ring = ring.map_err(|error| self.refused(Step::Map, &error, purpose))?;
        self.rings.push(RingSlot {
            ring,
            cpu,
            tid,
            is_newest,
            members: Vec::new(),
            trace: None,
        });
        Ok(self.rings.len() - 1)
    }

    /// Maps the area of an event that traces, if there is none beside its ring.
    fn map_area(&mut self, event: &Event, ring: usize, purpose: Purpose) -> Result<(), Stop> {
        let traces = self.events[purpose.event].planned.tracer.is_some();
        let slot = &mut self.rings[ring];
        let (Some(plan), true) = (self.scope.area, traces && slot.trace.is_none()) else {
            return Ok(());
        };
        match AuxArea::map(event, &slot.ring, plan.bytes, plan.mode()) {
            Ok(area) => {
                let event = purpose.event;
                slot.trace = Some(Area { area, event });
                Ok(())
            }
            Err(AuxError::Refused(error)) => Err(self.refused(Step::Trace, &error, purpose)),
            Err(_) => {
                let wrong = std::io::Error::from_raw_os_error(libc::EINVAL);
                Err(self.refused(Step::Trace, &wrong, purpose))
            }
        }
    }

    /// What each ring got.
    pub(crate) fn memory(&self) -> RingMemory {
        self.scope.memory
    }

    /// See [`RingMemory::more_room`].
    pub(crate) fn more_room(&self) -> String {
        let Scope {
            memory, lockable, ..
        } = &self.scope;
        memory.more_room(lockable, sysctl(effective_user() == 0))
    }

    pub(crate) fn scope(&self) -> &Scope {
        &self.scope
    }

    fn refused(&self, step: Step, error: &std::io::Error, purpose: Purpose) -> Stop {
        let errno = error.raw_os_error().unwrap_or(0);
        Stop::Refused(Box::new(self.refusal(step, errno, purpose)))
    }

    fn refusal(&self, step: Step, errno: i32, purpose: Purpose) -> Refusal {
        let planned = &self.events[purpose.event].planned;
        let attr = &planned.attr;
        let is_member = |leader| leader != purpose.event;
        Refusal {
            step,
            cpu: purpose.cpu,
            tid: purpose.tid,
            branches: attr.sample_type.has(SampleType::BRANCH_STACK),
            branch_chains: attr.branch_sample_type.has(BranchSampleType::CALL_STACK),
            aux: asks_for_trace(attr),
            precise: attr.precise_ip() > 0,
            namespaces: attr.flags.has(AttrFlags::NAMESPACES),
            physical: attr.sample_type.has(SampleType::PHYS_ADDR),
            grouped: planned.leader.is_some_and(is_member),
            kernel: !attr.flags.has(AttrFlags::EXCLUDE_KERNEL),
            all_kernel: self.scope.all_kernel,
            probe: planned.probe.is_some() || is_probe(attr.kind),
            in_kernel: events::breaks_into_kernel(attr),
            root: effective_user() == 0,
            clock: unknown_clock(attr),
            long_chain: attr.sample_max_stack > 0,
            frequency: attr.is_freq().then_some(attr.sample_period),
            filter: filter_text(planned.filter.as_deref()),
            fields: events::fields_of(attr),
            highest_frequency: self.scope.highest_frequency,
            paranoid: self.scope.paranoid,
            descriptors: self.scope.descriptors,
            memory: self.scope.memory,
            ring_is_asked: self.scope.ring_is_asked,
            lockable: self.scope.lockable,
            around: Around::this_process(),
            ..Refusal::to_open(planned.name.clone(), attr.kind, self.scope.whose, errno)
        }
    }
}

/// The filter that the kernel gets.
fn used_filter(planned: &Planned) -> Option<CString> {
    match planned.excludes_recorder {
        true => without_own_threads(planned.filter.as_deref()),
        false => planned.filter.clone(),
    }
}

fn target_of(tid: Option<u32>, cpu: Option<u32>, cgroup: Option<&File>) -> Option<Target<'_>> {
    match (tid, cpu, cgroup) {
        (Some(tid), cpu, _) => Some(Target::Task { tid, cpu }),
        (None, Some(cpu), None) => Some(Target::Cpu(cpu)),
        (None, Some(cpu), Some(cgroup)) => Some(Target::Cgroup {
            directory: cgroup.as_fd(),
            cpu,
        }),
        (None, None, _) => None,
    }
}

/// Whether it says that the task has ended or the CPU went offline.
fn is_gone(error: &std::io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ESRCH | libc::ENODEV))
}

/// The number of the event's clock, if that is none that events can have.
fn unknown_clock(attr: &EventAttr) -> Option<i32> {
    let is_known = CLOCKS.iter().any(|(_, clock)| clock.id == attr.clockid);
    let is_asked = attr.flags.has(AttrFlags::USE_CLOCKID);
    (is_asked && !is_known).then_some(attr.clockid)
}

/// Whether the event is about the trace of another one.
fn asks_for_trace(attr: &EventAttr) -> bool {
    attr.aux_action != 0 || attr.aux_sample_size != 0 || attr.flags.has(AttrFlags::AUX_OUTPUT)
}

/// The filter, for messages; empty without one.
pub(crate) fn filter_text(filter: Option<&CStr>) -> String {
    filter.map_or(String::new(), |filter| {
        filter.to_string_lossy().into_owned()
    })
}

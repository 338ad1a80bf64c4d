//! From options to open events: the CPUs, the default event, the size of the
//! rings.

use crate::attach;
use crate::cgroup;
use crate::error::RecordError;
use crate::events::{self, EventSpec, Rate, break_up, is_blind, of_the_kernel_only};
use crate::hints::Whose;
use crate::kernel::is_lacking;
use crate::open::{OpenEvent, OpenSet, Scope, Stop};
use crate::options::{Follow, ModeFilter, Options, Sampling, Stacks, Start, Target};
use crate::plan;
use crate::planned::{Limits, OnCpus, Planned, Role, choosing, taking};
use crate::ring_terms;
use crate::rings::{self, Lockable, RingLimit, RingMemory, Size};
use crate::sampling_cost;
use crate::shallow;
use crate::synthesize::online_cpus;
use crate::traces::{self, AreaPlan};
use crate::waits;
use prof_abi::{AttrFlags, ByteOrder, EventAttr, Software, event_kind};
use prof_sys::limits::{self, Limit, Resource};
use prof_sys::{Event, RandomChoice};
use std::io;
use std::sync::Arc;

/// Threads of more processes that already run are not watched for deep stacks:
/// that takes another descriptor for each thread and CPU.
const MOST_WITNESSED: usize = 256;

/// Opens the events for the tasks. With it come records that were read while
/// attaching.
pub(crate) fn open(
    options: &Options,
    tasks: &[Option<u32>],
    notices: &mut dyn FnMut(&str),
) -> Result<(OpenSet, Vec<Vec<u8>>), RecordError> {
    let limits = Limits {
        cpus: online_cpus().len(),
        highest_frequency: read_number("/proc/sys/kernel/perf_event_max_sample_rate")
            .unwrap_or(100_000),
        whole_cpus: follows_by_cpus(options),
        may_choose: options.waits.is_some() && RandomChoice::new().is_ok(),
    };
    check_frequency(options, limits, notices)?;
    if let Some(tool) = options.events.iter().find(|spec| spec.tool.is_some()) {
        return Err(RecordError::NoSamples {
            event: tool.name.clone(),
        });
    }
    ring_terms::check(options)?;
    traces::check(options)?;
    let mut opening = Opening {
        options,
        limits,
        cpus: cpus(options)?,
        tasks,
        lockable: Lockable::of_this_process(limits.cpus),
    };
    let opened = opening.with_fallbacks(notices);
    let (set, early) = opened.map_err(|stop| stop_error(stop, tasks))?;
    check_cpus(&set)?;
    for notice in &set.notices {
        notices(notice);
    }
    tell_of_events(options, &set, notices);
    tell_of_stacks(options, &set, notices);
    Ok((set, early))
}

/// Whether to follow the target by events of whole CPUs.
fn follows_by_cpus(options: &Options) -> OnCpus {
    if !plan::may_follow_by_cpus(options) {
        return OnCpus::Never;
    }
    match options.follow {
        Follow::Cpus => OnCpus::Always,
        Follow::Tasks => OnCpus::Never,
        Follow::Auto => {
            let cpus = online_cpus();
            let attr = EventAttr {
                kind: event_kind::SOFTWARE,
                config: Software::DUMMY.0,
                flags: AttrFlags::DISABLED,
                ..EventAttr::default()
            };
            let may = |&cpu: &u32| Event::open(&attr, prof_sys::Target::Cpu(cpu), None).is_ok();
            match cpus.len() <= Follow::MOST_CPUS && cpus.first().is_some_and(may) {
                true => OnCpus::WhenNeeded,
                false => OnCpus::Never,
            }
        }
    }
}

/// Says if stacks are copied less far than was asked.
fn tell_of_stacks(options: &Options, set: &OpenSet, notices: &mut dyn FnMut(&str)) {
    let is_asked = matches!(options.stacks, Stacks::Dump(_));
    if let Some((given, asked)) = set.memory().piece
        && (is_asked || options.verbose)
    {
        let limit = set.memory().limit.map(|limit| format!("{limit}, "));
        notices(&format!(
            "stacks are copied up to {given} bytes instead of {asked}: rings of {} have no room \
             for more ({}-m)",
            Size(set.memory().bytes),
            limit.unwrap_or_default()
        ));
    }
}

/// The default events, of the cgroup that was asked for.
fn in_cgroup(options: &Options, mut specs: Vec<EventSpec>) -> Vec<EventSpec> {
    for spec in &mut specs {
        spec.cgroup.clone_from(&options.cgroup);
    }
    specs
}

/// An event of a PMU of some CPUs is on one of them.
fn check_cpus(set: &OpenSet) -> Result<(), RecordError> {
    let nowhere = |event: &&OpenEvent| event.descriptors.is_empty();
    for event in set.events.iter().filter(nowhere) {
        if let Some(cpus) = &event.planned.cpus {
            return Err(RecordError::NotOnTheseCpus {
                event: event.planned.name.clone(),
                cpus: list_of(cpus),
            });
        }
    }
    Ok(())
}

/// CPUs with commas between.
pub(crate) fn list_of(cpus: &[u32]) -> String {
    let cpus: Vec<String> = cpus.iter().map(u32::to_string).collect();
    cpus.join(",")
}

fn stop_error(stop: Stop, tasks: &[Option<u32>]) -> RecordError {
    match stop {
        Stop::Refused(refusal) => RecordError::Refused(refusal),
        Stop::Cgroup(error) => RecordError::Cgroup(error),
        Stop::Gone => RecordError::NoTask {
            kind: "process or thread",
            number: tasks.iter().copied().flatten().next().unwrap_or(0),
        },
    }
}

/// The CPUs of sampling events, and of tracking ones.
struct Cpus {
    sampling: Vec<u32>,
    tracking: Vec<u32>,
}

fn cpus(options: &Options) -> Result<Cpus, RecordError> {
    let online = online_cpus();
    for &cpu in &options.cpus {
        if !online.contains(&cpu) {
            return Err(RecordError::NoCpu {
                cpu,
                online: list_of(&online),
            });
        }
    }
    if options.per_thread {
        return Ok(Cpus {
            sampling: Vec::new(),
            tracking: Vec::new(),
        });
    }
    let sampling = if options.cpus.is_empty() {
        online.clone()
    } else {
        options.cpus.clone()
    };
    Ok(Cpus {
        sampling,
        tracking: online,
    })
}

/// Frequencies above the kernel's limit are lowered with a word, or refused.
fn check_frequency(
    options: &Options,
    limits: Limits,
    notices: &mut dyn FnMut(&str),
) -> Result<(), RecordError> {
    let highest = limits.highest_frequency;
    let of_events = options.events.iter().filter_map(|spec| match spec.rate {
        Some(Rate::Frequency(asked)) => Some((spec.name.as_str(), asked)),
        _ => None,
    });
    let of_all = match options.sampling {
        Sampling::Frequency(asked) if options.uses_sampling() => Some(("-F", asked)),
        _ => None,
    };
    let asked: Vec<(&str, u64)> = of_all.into_iter().chain(of_events).collect();
    for (by, asked) in asked.into_iter().filter(|&(_, asked)| asked > highest) {
        if options.strict_frequency {
            return Err(RecordError::Frequency { asked, highest });
        }
        notices(&format!(
            "{by}: sampling at {highest} Hz, since {asked} Hz is above \
             kernel.perf_event_max_sample_rate"
        ));
    }
    Ok(())
}

/// What a user should know of the events as they were opened.
fn tell_of_events(options: &Options, set: &OpenSet, notices: &mut dyn FnMut(&str)) {
    for event in &set.events {
        let planned = &event.planned;
        let is_asked = planned.role == Role::Samples;
        if options.verbose && (is_asked || planned.role == Role::Tracks) {
            notices(&as_perf_shows(planned, event.descriptors.len()));
        }
        if !is_asked {
            continue;
        }
        sampling_cost::told(&planned.attr)
            .iter()
            .for_each(|line| notices(line));
        if planned.on_cpus != OnCpus::Never && planned.probe.is_some() {
            notices(&events::of_all_that_runs(&planned.name));
        }
        if is_blind(&planned.attr, planned.in_kernel_only) && !waits::is_of_waits(&planned.name) {
            // It was narrowed if the user did not say so.
            let is_asked = options.events.iter().any(|spec| spec.name == planned.name);
            let name = std::slice::from_ref(&planned.name);
            notices(&of_the_kernel_only(name, "not sampled", is_asked));
        }
    }
}

/// An event's attr as `perf record -vv` shows it.
fn as_perf_shows(planned: &Planned, descriptors: usize) -> String {
    const LINE: &str = "------------------------------------------------------------";
    let size = planned.attr.encode(ByteOrder::NATIVE).len();
    let mut attr = planned.attr.clone();
    attr.size = u32::try_from(size).unwrap_or(0);
    let mut text = format!("{}: {descriptors} descriptors\n{LINE}\n", planned.name);
    text.push_str("perf_event_attr:\n");
    for (name, value) in attr.set_fields() {
        text.push_str(&format!("  {name:<32} {value}\n"));
    }
    text.push_str(LINE);
    text
}

/// What each try to open has in common.
struct Opening<'a> {
    options: &'a Options,
    limits: Limits,
    cpus: Cpus,
    tasks: &'a [Option<u32>],
    lockable: Lockable,
}

type Opened = Result<(OpenSet, Vec<Vec<u8>>), Stop>;

impl Opening<'_> {
    /// Opens the events, with less where the machine has less. With it come
    /// records that were read while attaching.
    fn with_fallbacks(&mut self, notices: &mut dyn FnMut(&str)) -> Opened {
        let mut specs = self.options.events.clone();
        let is_default = specs.is_empty() && !self.options.waits.is_some_and(|waits| waits.only);
        if is_default {
            specs = in_cgroup(self.options, plan::default_events("cycles"));
        }
        let mut opened = self.of(&specs);
        if matches!(&opened, Err(Stop::Refused(refusal)) if refusal.errno == libc::EMFILE)
            && self.limits.whole_cpus == OnCpus::WhenNeeded
        {
            // It takes twice as many.
            self.limits.whole_cpus = OnCpus::Never;
            opened = self.of(&specs);
        }
        if matches!(&opened, Err(Stop::Refused(refusal)) if refusal.breaks_weak_groups())
            && break_up(&mut specs)
        {
            notices("a weak group (:W) is broken up, since its events cannot be counted together");
            opened = self.of(&specs);
        }
        match opened {
            Err(Stop::Refused(refusal)) if is_default && is_lacking(refusal.errno) => {
                specs = in_cgroup(self.options, plan::default_events("cpu-clock"));
                let opened = self.of(&specs);
                if opened.is_ok() {
                    notices(&format!(
                        "sampling cpu-clock, since this machine has no hardware counter for cycles ({})",
                        crate::hints::errno_name(refusal.errno)
                    ));
                }
                opened
            }
            other => other,
        }
    }

    /// Opens the events, with rings as large as they may be.
    fn of(&self, specs: &[EventSpec]) -> Opened {
        let mut planned = plan::plan(self.options, specs, self.limits);
        let cgroups = cgroup::of_events(specs).map_err(Stop::Cgroup)?;
        for (planned, cgroup) in planned.iter_mut().zip(&cgroups) {
            planned.cgroup.clone_from(cgroup);
        }
        // Records of tasks and mappings are of the cgroup if all samples are.
        let is_one = specs.iter().all(|spec| spec.cgroup == specs[0].cgroup);
        if let (true, Some(more)) = (is_one, planned.get_mut(specs.len()..)) {
            let cgroup = cgroups.into_iter().next().flatten();
            more.iter_mut()
                .for_each(|event| event.cgroup.clone_from(&cgroup));
        }
        // One per CPU, or per thread where events are on any CPU.
        let rings = match self.all_cpus().len() {
            0 => self.tasks.len() as u64,
            cpus => cpus as u64,
        };
        let rings = rings * (1 + u64::from(self.options.overwrites()));
        let asked = self.options.ring_bytes;
        let most = match self.options.target {
            Target::System => rings::Most::OF_SYSTEM,
            _ => rings::Most::OF_TARGET,
        };
        let most = match self.options.stacks {
            Stacks::Unwound(_) => most.for_pieces(&planned),
            _ => most,
        };
        let wanted_of = |most| match self.options.overwrites_all() {
            // How long they last is how much a file has.
            true => rings::most_bytes(rings, most),
            false => rings::wanted_bytes(&planned, rings, most),
        };
        let wanted = asked.unwrap_or_else(|| wanted_of(most));
        let left = limits::address_space_left();
        let fitting = wanted_of(most.within(left));
        let sizes: Vec<u64> = match asked {
            // A size that was asked for is the only one.
            Some(asked) => vec![asked],
            None => self.lockable.sizes(rings, fitting).collect(),
        };
        let mut limit = match sizes.first() {
            Some(&first) if asked.is_none() && first < fitting => Some(RingLimit::Locked),
            _ => (fitting < wanted).then_some(RingLimit::AddressSpace),
        };
        rings::share_out(sizes, Stop::is_for_room, |bytes| {
            let memory = RingMemory {
                rings,
                bytes,
                wanted,
                limit,
                piece: None,
            };
            let opened = self.with_rings(planned.clone(), memory);
            if let Err(Stop::Refused(refusal)) = &opened {
                limit = Some(RingLimit::of_refusal(refusal.errno, left));
            }
            opened
        })
    }

    /// The CPUs on which any event is.
    fn all_cpus(&self) -> &[u32] {
        match plan::needs_tracking(self.options) {
            true => &self.cpus.tracking,
            false => &self.cpus.sampling,
        }
    }

    fn with_rings(&self, mut planned: Vec<Planned>, mut memory: RingMemory) -> Opened {
        let options = self.options;
        let is_auto = matches!(options.stacks, Stacks::Unwound(_));
        memory.piece = rings::fit_pieces(&mut planned, memory.bytes, is_auto);
        wake_at(&mut planned, memory.bytes / 4);
        let witness = match self.tasks.len() <= MOST_WITNESSED {
            true => plan::witness(options, &planned, self.limits),
            false => None,
        };
        let choice = self.choice(&mut planned);
        let each = planned.len() + usize::from(witness.is_some());
        let is_on = |planned: &&Planned, on: OnCpus| planned.on_cpus == on;
        let always = planned.iter().filter(|it| is_on(it, OnCpus::Always));
        let when_needed = planned.iter().filter(|it| is_on(it, OnCpus::WhenNeeded));
        let (always, when_needed) = (always.count(), when_needed.count());
        let of_cpus = always + when_needed;
        let of_tasks = each - always + usize::from(of_cpus > 0);
        let cpus = self.all_cpus().len().max(1) as u64;
        let of_cpus = of_cpus + usize::from(choice.is_some());
        let tasks = self.tasks.len() as u64;
        let descriptors = cpus * (of_tasks as u64 * tasks + of_cpus as u64);
        let with_shallow = descriptors + cpus * tasks;
        let descriptors = match with_shallow <= spare_descriptors() {
            true if shallow::plan(&mut planned) => with_shallow,
            _ => descriptors,
        };
        let whose = match options.target {
            Target::Command(_) => Whose::Launched,
            Target::System => Whose::System,
            Target::Processes(_) | Target::Threads(_) => Whose::Attached,
        };
        let enabled = match (whose, &options.start) {
            (Whose::Attached, Start::AtOnce) => vec![Role::Samples, Role::Tracks],
            // Before /proc is read, or what begins meanwhile would have no names.
            (Whose::Attached | Whose::System, _) => vec![Role::Tracks],
            (Whose::Launched, _) => Vec::new(),
        };
        let scope = Scope {
            whose,
            cpus: self.cpus.sampling.clone(),
            all_cpus: self.all_cpus().to_vec(),
            // The recorder's own and those of files that it reads.
            descriptors: descriptors + 32,
            area: AreaPlan::of(options),
            highest_frequency: self.limits.highest_frequency,
            paranoid: read_number("/proc/sys/kernel/perf_event_paranoid"),
            memory,
            ring_is_asked: options.ring_bytes.is_some(),
            lockable: self.lockable,
            enabled,
            all_kernel: options.modes == ModeFilter::Kernel,
        };
        let mut set = OpenSet::new(planned, witness, scope);
        set.choice = choice;
        let early = attach::open_tasks(options, &mut set, self.tasks)?;
        Ok((set, early))
    }

    /// What chooses samples, if an event does. Where there cannot be one the event
    /// takes its samples itself.
    fn choice(&self, planned: &mut [Planned]) -> Option<Arc<RandomChoice>> {
        let chooses = planned.iter().find(|event| event.chooses)?;
        let choice = handing_over(&chooses.attr, self.all_cpus()).ok();
        if choice.is_none() {
            planned.iter_mut().for_each(|event| event.chooses = false);
        }
        choice.map(Arc::new)
    }
}

/// A choice for events of these CPUs, which was tried.
fn handing_over(attr: &EventAttr, cpus: &[u32]) -> io::Result<RandomChoice> {
    let (&first, &last) = cpus
        .iter()
        .min()
        .zip(cpus.iter().max())
        .ok_or(io::ErrorKind::NotFound)?;
    let choice = RandomChoice::handing_over(last + 1)?;
    let opened = |attr: &EventAttr, target| {
        let opened = Event::open(attr, target, None);
        opened.map_err(|error| error.source)
    };
    let takes = opened(&taking(attr), prof_sys::Target::Cpu(first))?;
    choice.hand_to(first, &takes)?;
    choice.attach(&opened(&choosing(attr), prof_sys::Target::THIS)?)?;
    Ok(choice)
}

/// Descriptors that events may take, where those of files that are read are left.
fn spare_descriptors() -> u64 {
    const OF_FILES: u64 = 128;
    let limit = Limit::get(Resource::OpenFiles).map_or(0, |limit| limit.soft);
    limit.saturating_sub(OF_FILES)
}

fn wake_at(planned: &mut [Planned], bytes: u64) {
    for event in planned {
        event.attr.flags = event.attr.flags.with(AttrFlags::WATERMARK);
        event.attr.wakeup = u32::try_from(bytes).unwrap_or(u32::MAX);
    }
}

pub(crate) fn read_number<T: std::str::FromStr>(path: &str) -> Option<T> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// Switches on what is to run from the start, but not what an exec switches
/// on.
///
/// # Errors
/// When the kernel refuses.
pub(crate) fn enable(options: &Options, set: &OpenSet) -> io::Result<()> {
    let launched = matches!(options.target, Target::Command(_));
    match options.start {
        Start::AtOnce if launched => set.enable_on_cpus(),
        _ if launched => Ok(()),
        Start::AtOnce => set.enable(None),
        _ => set.enable(Some(Role::Tracks)),
    }
}

//! From options to the attributes that the kernel gets.

use crate::events::{self, EventSpec, Precision, is_beside_probe};
use crate::options::{ModeFilter, Options, Stacks, Start, Target};
use crate::planned::{Limits, OnCpus, Planned, Role, is_clock, samples_due};
use crate::ring_terms;
use crate::sampling_attr::{UNWIND_REGISTERS, has_times, is_system, sampling_attr, set_clock};
use crate::traces::{self, tracer_of};
use crate::waits;
use crate::witness::shares_samples;
use prof_abi::{AttrFlags, EventAttr, ReadFormat, SampleType, Software, event_kind};

/// What is recorded by default: the first that can be opened is taken. On a
/// machine with several kinds of cores `cycles` are an event for each.
pub(crate) fn default_events(name: &str) -> Vec<EventSpec> {
    let mut specs = events::parse(name, 0).expect("the defaults are in the table");
    for spec in &mut specs {
        if spec.attr.kind == event_kind::HARDWARE {
            spec.precision = Precision::Highest;
        }
    }
    specs
}

/// Whether side-band records need an event of their own: the sampling ones
/// are off at first or for a while, or not on all CPUs. And where everything is recorded, as
/// perf does: the kernel counts what each event lost, so that samples are told
/// apart from records of mappings and tasks.
///
/// Of commands and tasks they are not: the kernel counts by event only
/// (`event->lost_samples`), and one more event that children inherit on each
/// CPU takes 2 µs for each fork and CPU (measured on Linux 6.18: 147 µs for a
/// fork and its end alone, 152 with one event on 2 CPUs, 156 with two), and as
/// many descriptors again for each thread that is attached to. Nothing of that
/// is needed while nothing is lost.
///
/// And beside a trace, whose decoder wants all of it whatever the event leaves out;
/// and where a ring is overwritten: names of what it still holds would be lost
/// with the mappings that it does not.
pub(crate) fn needs_tracking(options: &Options) -> bool {
    let delayed = options.start != Start::AtOnce || options.commands.is_some();
    let some_cpus = !options.cpus.is_empty();
    options.overwrites()
        || tracer_of(&options.events).is_some()
        || (delayed || some_cpus || is_system(options)) && !options.per_thread
}

/// Whether the file has records of context switches.
pub(crate) fn keeps_switches(options: &Options) -> bool {
    options.extras.switches || traces::tells_switches(options)
}

/// The attributes of all events, in the order of the file.
pub(crate) fn plan(options: &Options, specs: &[EventSpec], limits: Limits) -> Vec<Planned> {
    let mut planned: Vec<Planned> = specs
        .iter()
        .map(|spec| Planned {
            name: spec.name.clone(),
            attr: sampling_attr(options, spec, limits),
            in_kernel_only: spec.in_kernel_only,
            probe: spec.probe.clone(),
            cpus: spec.cpus.clone(),
            cgroup: None,
            filter: spec.filter.clone(),
            excludes_recorder: spec.excludes_recorder,
            is_beside_probe: is_beside_probe(specs, spec),
            role: Role::Samples,
            precision: spec.precision,
            may_drop_kernel: spec.may_drop_kernel() && options.modes == ModeFilter::AsEvents,
            leader: leader_of(specs, spec),
            group_name: spec.group_name.clone(),
            on_cpus: OnCpus::Never,
            chooses: false,
            tracer: spec.tracer,
            shallow_piece: None,
        })
        .collect();
    join_groups(specs, &mut planned);
    for (planned, spec) in planned.iter_mut().zip(specs) {
        if gains_by_cpus(options, spec, &planned.attr) {
            let is_judged = specs.len() == 1 && can_be_judged(options, &planned.attr);
            planned.on_cpus = match limits.whole_cpus {
                // A probe of a library on whole CPUs is in all that runs, and
                // Linux 6.18 was seen to crash programs that hit it.
                OnCpus::WhenNeeded if !is_judged || spec.probe.is_some() => OnCpus::Never,
                wanted => wanted,
            };
        }
    }
    planned.extend(waits::planned(options, limits));
    // A probe cannot be passed on to tell of children.
    let is_mute = |first: &Planned| first.on_cpus != OnCpus::Never && first.probe.is_some();
    let is_mute = planned.first().is_some_and(is_mute);
    if needs_tracking(options) || is_mute {
        planned.push(tracking(options));
    }
    let side_band = planned.len() - 1;
    let side_band = if planned[side_band].role == Role::Tracks {
        side_band
    } else {
        0
    };
    let dumps = writes_dumps(options, &planned);
    set_side_band(options, dumps, &mut planned[side_band].attr);
    let has_witness = wants_snapshots(options, &planned, limits.cpus);
    if planned.len() > 1 || options.extras.identifier || has_witness || options.waits.is_some() {
        let ids = ids(&planned);
        for event in &mut planned {
            event.attr.sample_type = event.attr.sample_type.with(ids);
        }
    }
    planned
}

/// What tells whose a record is. Of several events that one occurrence makes
/// overflow, the kernel fills in of each sample only what those before did not
/// ask for (`do_perf_sw_event`, `perf_prepare_sample`), ids too: beside another
/// recorder's event with `IDENTIFIER`, which has no `ID`, both make it ours.
fn ids(planned: &[Planned]) -> SampleType {
    match planned.len() > 1 && planned.iter().any(|event| shares_samples(&event.attr)) {
        true => SampleType::IDENTIFIER | SampleType::ID,
        false => SampleType::IDENTIFIER,
    }
}

/// Whether nothing but the target and its size speaks against events of whole
/// CPUs.
pub(crate) fn may_follow_by_cpus(options: &Options) -> bool {
    matches!(options.target, Target::Command(_) | Target::Processes(_))
        && options.inherit
        && !options.per_thread
        && options.cpus.is_empty()
        && options.cgroup.is_none()
        // Waits have their own events of tasks.
        && options.waits.is_none()
        && !options.overwrites_all()
        && !options.events.iter().any(ring_terms::are_unusual)
        && tracer_of(&options.events).is_none()
}

/// Whether an event sees more of a process tree when it is of whole CPUs:
/// what samples after a period, which begins anew with each task, and probes,
/// which the kernel passes on to nobody. What occurs is counted exactly as it
/// is. Groups and branches would be those of all that runs.
pub(crate) fn gains_by_cpus(options: &Options, spec: &EventSpec, attr: &EventAttr) -> bool {
    let mixes = spec.group.is_some()
        || spec.cgroup.is_some()
        || spec.cpus.is_some()
        || attr.aux_sample_size > 0
        || attr.sample_type.has(SampleType::BRANCH_STACK);
    if !may_follow_by_cpus(options) || mixes {
        return false;
    }
    if spec.probe.is_some() {
        return spec.inherit != Some(false);
    }
    let is_clock = is_clock(attr);
    let has_period = matches!(
        attr.kind,
        event_kind::HARDWARE | event_kind::CACHE | event_kind::RAW
    );
    attr.flags.has(AttrFlags::INHERIT) && attr.sample_period > 1 && (is_clock || has_period)
}

/// Whether its samples can be compared with the CPU time that tasks used.
fn can_be_judged(options: &Options, attr: &EventAttr) -> bool {
    let is_always_on = options.start == Start::AtOnce && options.commands.is_none();
    is_always_on && samples_due(attr, 1_000_000_000).is_some()
}

/// The leader of the event's group, itself included; `None` without a group.
fn leader_of(specs: &[EventSpec], spec: &EventSpec) -> Option<usize> {
    let group = spec.group?;
    specs.iter().position(|other| other.group == Some(group))
}

/// Members follow their leader; with `:S` samples tell counts, and of a group
/// only the leader samples, for all.
fn join_groups(specs: &[EventSpec], planned: &mut [Planned]) {
    for index in 0..planned.len() {
        let leader = planned[index].leader.unwrap_or(index);
        let of_leader = planned[leader].attr.sample_type;
        let event = &mut planned[index];
        let attr = &mut event.attr;
        if event.is_beside_probe {
            let handed_on = AttrFlags::INHERIT | AttrFlags::INHERIT_STAT;
            attr.flags = attr.flags.without(handed_on);
        }
        if specs[index].leader_samples || specs[leader].leader_samples {
            attr.sample_type = attr.sample_type.with(SampleType::READ | SampleType::ID);
            let members = specs
                .iter()
                .filter(|other| other.group == specs[leader].group);
            if event.leader.is_some() && members.count() > 1 {
                attr.read_format = attr.read_format.with(ReadFormat::GROUP);
            }
        }
        if index != leader {
            attr.flags = attr
                .flags
                .without(AttrFlags::DISABLED | AttrFlags::ENABLE_ON_EXEC);
            if specs[leader].leader_samples {
                attr.sample_period = 0;
                attr.flags = attr.flags.without(AttrFlags::FREQ);
                // Readers take the leader's samples for its own.
                attr.sample_type = of_leader;
            }
        }
    }
}

/// An event that counts nothing and is on from the start.
fn tracking(options: &Options) -> Planned {
    let mut attr = EventAttr {
        kind: event_kind::SOFTWARE,
        config: Software::DUMMY.0,
        sample_period: 1,
        sample_type: SampleType::IP | SampleType::TID | SampleType::TIME | SampleType::CPU,
        read_format: ReadFormat::ID | ReadFormat::LOST,
        flags: AttrFlags::SAMPLE_ID_ALL
            | AttrFlags::DISABLED
            | AttrFlags::EXCLUDE_KERNEL
            | AttrFlags::EXCLUDE_HV,
        ..EventAttr::default()
    };
    if !has_times(options) {
        attr.sample_type = attr.sample_type.without(SampleType::TIME);
    }
    if !is_system(options) && !options.per_thread {
        attr.flags = attr.flags.with(AttrFlags::INHERIT);
    }
    if matches!(options.target, Target::Command(_)) {
        attr.flags = attr.flags.with(AttrFlags::ENABLE_ON_EXEC);
    }
    set_clock(options, &mut attr);
    Planned::of_our_own("dummy:u", attr, Role::Tracks)
}

/// Above this rate for each CPU, being woken by every sample costs more than
/// deep stacks are worth, Hz.
pub(crate) const HIGHEST_RATE: u64 = 5000;
/// With more CPUs, looking through all rings takes too long.
const MOST_CPUS: usize = 32;

/// Whether memory is to be read with samples, with a witness of its own.
fn wants_snapshots(options: &Options, planned: &[Planned], cpus: usize) -> bool {
    planned
        .first()
        .is_some_and(|first| may_read_stacks(options, &first.attr, cpus))
        && !planned.iter().any(|planned| counts_switches(&planned.attr))
}

/// Whether memory may be read with samples, where `first` is the first event:
/// not with each sample at high rates. Waits are read without being woken.
pub(crate) fn may_read_stacks(options: &Options, first: &EventAttr, cpus: usize) -> bool {
    options.extras.deep_stacks
        && !options.per_thread
        && matches!(options.stacks, Stacks::Unwound(_))
        && (snapshots_are_possible(first, cpus)
            || options.waits.is_some_and(|waits| waits.only) && (1..=MOST_CPUS).contains(&cpus))
}

/// Whether events like this one allow for snapshots; they then tell of
/// context switches.
fn snapshots_are_possible(attr: &EventAttr, cpus: usize) -> bool {
    let needed = SampleType::TID | SampleType::TIME | SampleType::REGS_USER;
    let is_slow = attr.is_freq() && (1..=HIGHEST_RATE).contains(&attr.sample_period);
    is_slow && attr.sample_type.has(needed) && (1..=MOST_CPUS).contains(&cpus)
}

/// Whether the event is the witness's own: samples of one would come with the
/// id of the other.
fn counts_switches(attr: &EventAttr) -> bool {
    attr.kind == event_kind::SOFTWARE && attr.config == Software::CONTEXT_SWITCHES.0
}

/// The event that tells when threads come and leave and with which registers,
/// where that is needed to believe memory read with samples. Its records are
/// not for the file.
pub(crate) fn witness(options: &Options, planned: &[Planned], limits: Limits) -> Option<EventAttr> {
    let first = &planned.first()?.attr;
    wants_snapshots(options, planned, limits.cpus).then(|| {
        let mut attr = EventAttr {
            kind: event_kind::SOFTWARE,
            config: Software::CONTEXT_SWITCHES.0,
            sample_period: 1,
            sample_regs_user: UNWIND_REGISTERS,
            read_format: ReadFormat::ID,
            flags: AttrFlags::SAMPLE_ID_ALL | AttrFlags::DISABLED | AttrFlags::CONTEXT_SWITCH,
            ..EventAttr::default()
        };
        attr.flags.0 |= first.flags.0 & AttrFlags::INHERIT.0;
        // What stands behind every record must be the same for all events.
        let shared = SampleType::IP
            | SampleType::TID
            | SampleType::TIME
            | SampleType::ID
            | SampleType::STREAM_ID
            | SampleType::CPU;
        attr.sample_type = SampleType(first.sample_type.0 & shared.0)
            .with(SampleType::IDENTIFIER | SampleType::REGS_USER);
        set_clock(options, &mut attr);
        attr
    })
}

/// Whether pieces of user stacks go to the file.
fn writes_dumps(options: &Options, planned: &[Planned]) -> bool {
    let takes_dump = |planned: &Planned| planned.attr.sample_type.has(SampleType::STACK_USER);
    !matches!(options.stacks, Stacks::Unwound(_)) && planned.iter().any(takes_dump)
}

/// Records of tasks and mappings come with one event only, or there would be
/// one of each per event. Who unwinds what was dumped (`dumps`) looks for
/// `.eh_frame_hdr` where it was mapped, which is not with the code.
fn set_side_band(options: &Options, dumps: bool, attr: &mut EventAttr) {
    let extras = &options.extras;
    let mut flags = attr.flags
        | AttrFlags::MMAP
        | AttrFlags::MMAP2
        | AttrFlags::COMM
        | AttrFlags::COMM_EXEC
        | AttrFlags::TASK
        | AttrFlags::KSYMBOL;
    let wanted = [
        (!extras.no_bpf, AttrFlags::BPF_EVENT),
        (options.build_ids, AttrFlags::BUILD_ID),
        (
            extras.data || extras.data_mappings || dumps,
            AttrFlags::MMAP_DATA,
        ),
        // That of waits has its own.
        (
            keeps_switches(options) && options.waits.is_none(),
            AttrFlags::CONTEXT_SWITCH,
        ),
        (extras.namespaces, AttrFlags::NAMESPACES),
        (extras.cgroups, AttrFlags::CGROUP),
        (options.stacks == Stacks::Deferred, AttrFlags::DEFER_OUTPUT),
    ];
    for (wanted, flag) in wanted {
        if wanted {
            flags = flags.with(flag);
        }
    }
    attr.flags = flags;
}

#[cfg(test)]
mod tests;

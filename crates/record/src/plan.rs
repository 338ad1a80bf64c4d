//! From options to the attributes that the kernel gets.

use crate::events::{self, ChainTerm, EventSpec, Precision, Rate};
use crate::options::{ChainFilter, ModeFilter, Options, Stacks, Start, Target};
use crate::ring_terms;
use crate::snapshots;
use crate::waits;
use prof_abi::{
    AttrFlags, BranchSampleType, EventAttr, ReadFormat, SampleType, Software, event_kind,
};
use std::ffi::CString;
use std::fs::File;
use std::sync::Arc;

/// What each event is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Asked for.
    Samples,
    /// Carries the side-band records of all CPUs from the start.
    Tracks,
}

/// An event ready to be opened.
#[derive(Debug, Clone)]
pub(crate) struct Planned {
    pub(crate) name: String,
    pub(crate) attr: EventAttr,
    /// See [`EventSpec::in_kernel_only`].
    pub(crate) in_kernel_only: bool,
    /// See [`EventSpec::probe`].
    pub(crate) probe: Option<CString>,
    /// See [`EventSpec::cpus`].
    pub(crate) cpus: Option<Vec<u32>>,
    /// The directory of its cgroup, if it is of one.
    pub(crate) cgroup: Option<Arc<File>>,
    /// See [`EventSpec::filter`].
    pub(crate) filter: Option<CString>,
    pub(crate) role: Role,
    pub(crate) precision: Precision,
    pub(crate) may_drop_kernel: bool,
    /// The place of its group's leader among the events.
    pub(crate) leader: Option<usize>,
    /// What its group is called, if it has a name.
    pub(crate) group_name: Option<String>,
    /// Whether it samples whole CPUs, of which only the target's samples are
    /// kept; see [`crate::tree`]. The attr is that of the target's tasks, as
    /// files have it.
    pub(crate) on_cpus: OnCpus,
}

/// Whether events of a process tree are of whole CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnCpus {
    /// They are of tasks.
    Never,
    /// They are of tasks until many of these are too short to be sampled.
    WhenNeeded,
    /// From the start.
    Always,
}

/// What the machine allows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Hz (`kernel.perf_event_max_sample_rate`).
    pub(crate) highest_frequency: u64,
    /// Online.
    pub(crate) cpus: usize,
    /// Whether events may be of whole CPUs to follow a process tree.
    pub(crate) whole_cpus: OnCpus,
    /// Whether this user may have the kernel choose which samples it takes.
    pub(crate) may_choose: bool,
}

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
/// And where a ring is overwritten: names of what it still holds would be lost
/// with the mappings that it does not.
pub(crate) fn needs_tracking(options: &Options) -> bool {
    let delayed = options.start != Start::AtOnce || options.commands.is_some();
    let some_cpus = !options.cpus.is_empty();
    let overwritten = options.events.iter().any(EventSpec::keeps_newest);
    overwritten || (delayed || some_cpus || is_system(options)) && !options.per_thread
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
            role: Role::Samples,
            precision: spec.precision,
            may_drop_kernel: spec.may_drop_kernel() && options.modes == ModeFilter::AsEvents,
            leader: leader_of(specs, spec),
            group_name: spec.group_name.clone(),
            on_cpus: OnCpus::Never,
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
        for event in &mut planned {
            event.attr.sample_type = event.attr.sample_type.with(SampleType::IDENTIFIER);
        }
    }
    planned
}

/// Whether records have times: `time=0` of one event is for all. Readers take
/// what has no time at once and what has one later, so that samples of the one
/// kind would come before their mappings, or those of the other after the end
/// of their process.
fn has_times(options: &Options) -> bool {
    !options.events.iter().any(|spec| spec.without_times)
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
        && !options.events.iter().any(ring_terms::are_unusual)
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

/// The samples that are due for `ns` of CPU time, if that depends on nothing
/// else.
pub(crate) fn samples_due(attr: &EventAttr, ns: u64) -> Option<u64> {
    let ns = u128::from(ns);
    let due = match (attr.is_freq(), is_clock(attr)) {
        (true, _) => ns * u128::from(attr.sample_period) / 1_000_000_000,
        (false, true) => ns / u128::from(attr.sample_period.max(1)),
        (false, false) => return None,
    };
    u64::try_from(due).ok()
}

/// Whether it counts the time that tasks run.
pub(crate) fn is_clock(attr: &EventAttr) -> bool {
    attr.kind == event_kind::SOFTWARE
        && [Software::CPU_CLOCK.0, Software::TASK_CLOCK.0].contains(&attr.config)
}

/// Of an event that is on whole CPUs ([`Planned::on_cpus`]): what samples
/// there.
pub(crate) fn of_cpu(attr: &EventAttr) -> EventAttr {
    let of_tasks = AttrFlags::INHERIT | AttrFlags::INHERIT_STAT | AttrFlags::ENABLE_ON_EXEC;
    let mut attr = in_tasks(attr);
    attr.flags = attr.flags.without(of_tasks);
    if is_clock(&attr) {
        attr.flags = attr.flags.with(AttrFlags::EXCLUDE_IDLE);
    }
    attr
}

/// Of the same: what samples tasks, while they are sampled. All that tells of
/// tasks is left to [`of_tasks`].
pub(crate) fn in_tasks(attr: &EventAttr) -> EventAttr {
    let told = AttrFlags::MMAP
        | AttrFlags::MMAP2
        | AttrFlags::MMAP_DATA
        | AttrFlags::BUILD_ID
        | AttrFlags::COMM
        | AttrFlags::COMM_EXEC
        | AttrFlags::TASK
        | AttrFlags::NAMESPACES
        | AttrFlags::KSYMBOL
        | AttrFlags::BPF_EVENT
        | AttrFlags::CGROUP
        | AttrFlags::CONTEXT_SWITCH;
    let mut attr = attr.clone();
    attr.flags = attr.flags.without(told);
    attr
}

/// Of the same: what counts the target's tasks and tells of them, without
/// samples.
pub(crate) fn of_tasks(attr: &EventAttr) -> EventAttr {
    let mut attr = attr.clone();
    attr.sample_period = 0;
    attr.read_format = attr
        .read_format
        .with(ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING);
    attr.flags = attr
        .flags
        .without(AttrFlags::FREQ | AttrFlags::PRECISE_LOW | AttrFlags::PRECISE_HIGH);
    attr
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

/// The attr of an event that samples.
pub(crate) fn sampling_attr(options: &Options, spec: &EventSpec, limits: Limits) -> EventAttr {
    let mut attr = spec.attr.clone();
    attr.sample_type = sample_type(options, spec);
    attr.read_format = ReadFormat::ID | ReadFormat::LOST;
    attr.flags = attr
        .flags
        .with(AttrFlags::DISABLED | AttrFlags::SAMPLE_ID_ALL);
    if !spec.modes.guests && !spec.modes.given {
        attr.flags = attr.flags.with(AttrFlags::EXCLUDE_GUEST);
    }
    set_rate(options, spec, limits, &mut attr);
    set_stacks(options, spec, &mut attr);
    set_branches(options, spec, &mut attr);
    set_modes(options, &mut attr);
    attr.sample_regs_intr = options.extras.interrupt_registers;
    attr.sample_regs_user |= options.extras.user_registers;
    if records_periods(options, spec, &attr) || spec.is_bpf_output() {
        attr.sample_type = attr.sample_type.with(SampleType::PERIOD);
    }
    if let Precision::Exactly(level) = spec.precision {
        attr.flags.0 |= u64::from(level & 3) << 15;
    }
    // Of threads that were named no others are meant, as for perf.
    let inherits = options.inherit && !matches!(options.target, Target::Threads(_));
    let inherits = spec.inherit.unwrap_or(inherits) && spec.may_be_inherited();
    if inherits && !options.per_thread && !is_system(options) {
        attr.flags = attr.flags.with(AttrFlags::INHERIT);
    }
    if options.extras.thread_counts && attr.flags.has(AttrFlags::INHERIT) {
        attr.flags = attr.flags.with(AttrFlags::INHERIT_STAT);
        attr.read_format = attr
            .read_format
            .with(ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING);
    }
    if matches!(options.target, Target::Command(_)) && options.start == Start::AtOnce {
        attr.flags = attr.flags.with(AttrFlags::ENABLE_ON_EXEC);
    }
    set_clock(options, &mut attr);
    attr
}

fn is_system(options: &Options) -> bool {
    matches!(options.target, Target::System)
}

fn sample_type(options: &Options, spec: &EventSpec) -> SampleType {
    let extras = &options.extras;
    let mut bits = SampleType::IP | SampleType::TID | SampleType::CPU;
    let wanted = [
        (has_times(options), SampleType::TIME),
        (extras.data, SampleType::ADDR | SampleType::DATA_SRC),
        (extras.weight || spec.latencies, SampleType::WEIGHT_STRUCT),
        (extras.physical_addresses, SampleType::PHYS_ADDR),
        (extras.data_page_size, SampleType::DATA_PAGE_SIZE),
        (extras.data_page_size, SampleType::ADDR),
        (extras.code_page_size, SampleType::CODE_PAGE_SIZE),
        (extras.cgroups, SampleType::CGROUP),
        (extras.transactions, SampleType::TRANSACTION),
        (spec.attr.aux_sample_size > 0, SampleType::AUX),
        (extras.interrupt_registers != 0, SampleType::REGS_INTR),
        (extras.user_registers != 0, SampleType::REGS_USER),
        (
            extras.raw || spec.attr.kind == event_kind::TRACEPOINT || spec.is_bpf_output(),
            SampleType::RAW,
        ),
        (spec.attr.kind == event_kind::BREAKPOINT, SampleType::ADDR),
    ];
    for (wanted, bit) in wanted {
        if wanted {
            bits = bits.with(bit);
        }
    }
    bits
}

fn set_rate(options: &Options, spec: &EventSpec, limits: Limits, attr: &mut EventAttr) {
    let asked = options.sampling != crate::options::Sampling::DEFAULT;
    let rate = match spec.rate {
        Some(rate) => rate,
        None if spec.samples_each() && !asked => Rate::Period(1),
        None => options.sampling.rate(limits.highest_frequency),
    };
    match rate {
        Rate::Period(events) => attr.sample_period = events,
        Rate::Frequency(hz) => {
            attr.sample_period = if options.strict_frequency {
                hz
            } else {
                hz.min(limits.highest_frequency)
            };
            attr.flags = attr.flags.with(AttrFlags::FREQ);
        }
    }
}

/// Whether each sample says what it counts; otherwise it counts the event's
/// period.
///
/// The kernel ignores a fixed period of software events, tracepoints and
/// breakpoints whose samples are to have theirs (`perf_swevent_event`): it
/// then samples every event, with what that one counts as the period. Of
/// tracepoints this is wanted where each is to be a sample, as
/// `sched:sched_stat_runtime` counts ns.
fn records_periods(options: &Options, spec: &EventSpec, attr: &EventAttr) -> bool {
    let is_clock = is_clock(attr);
    let every = attr.sample_period <= 1;
    match attr.kind {
        _ if attr.is_freq() => true,
        _ if spec.probe.is_some() => every,
        event_kind::TRACEPOINT => every,
        event_kind::SOFTWARE | event_kind::BREAKPOINT if !is_clock => {
            options.extras.period && every
        }
        _ => options.extras.period,
    }
}

/// User registers that unwinding needs: all general ones.
#[cfg(target_arch = "x86_64")]
const UNWIND_REGISTERS: u64 = 0xff_0fff;
/// User registers that unwinding needs: all general ones.
#[cfg(not(target_arch = "x86_64"))]
const UNWIND_REGISTERS: u64 = (1 << 33) - 1;

fn set_stacks(options: &Options, spec: &EventSpec, attr: &mut EventAttr) {
    let mut stacks = match (spec.chains, options.stacks) {
        // A limit of chains asks for chains.
        (None, Stacks::None) if attr.sample_max_stack > 0 => Stacks::FramePointers,
        (None, stacks) => stacks,
        (Some(ChainTerm::No), _) => Stacks::None,
        (Some(ChainTerm::FramePointers), _) => Stacks::FramePointers,
        (Some(ChainTerm::LastBranch), _) => Stacks::LastBranch,
        (Some(ChainTerm::Dump), Stacks::Dump(bytes)) => Stacks::Dump(bytes),
        (Some(ChainTerm::Dump), _) => Stacks::Dump(DEFAULT_DUMP),
    };
    if let (Some(bytes), Stacks::Dump(_)) = (spec.stack_size, stacks) {
        stacks = Stacks::Dump(bytes);
    }
    if stacks == Stacks::None {
        return;
    }
    attr.sample_type = attr.sample_type.with(SampleType::CALLCHAIN);
    if stacks == Stacks::FramePointers && attr.sample_max_stack == 0 {
        attr.sample_max_stack = options.extras.most_frames.unwrap_or(0);
    }
    if let Some(bytes) = stacks.dump_bytes()
        && options.chains != ChainFilter::Kernel
    {
        attr.sample_type = attr
            .sample_type
            .with(SampleType::REGS_USER | SampleType::STACK_USER);
        attr.sample_regs_user |= UNWIND_REGISTERS;
        attr.sample_stack_user = bytes;
        // What frame pointers say costs little and proves what is not in the
        // piece of stack; who reads dumps has no use for it.
        if matches!(stacks, Stacks::Dump(_)) {
            attr.flags = attr.flags.with(AttrFlags::EXCLUDE_CALLCHAIN_USER);
        }
    }
    if stacks == Stacks::LastBranch {
        attr.sample_type = attr.sample_type.with(SampleType::BRANCH_STACK);
        attr.branch_sample_type = BranchSampleType::USER
            | BranchSampleType::CALL_STACK
            | BranchSampleType::NO_CYCLES
            | BranchSampleType::NO_FLAGS
            | BranchSampleType::HW_INDEX;
        attr.flags = attr.flags.with(AttrFlags::EXCLUDE_CALLCHAIN_USER);
    }
    match options.chains {
        ChainFilter::Both => {}
        ChainFilter::User => {
            attr.flags = attr.flags.with(AttrFlags::EXCLUDE_CALLCHAIN_KERNEL);
        }
        ChainFilter::Kernel => {
            attr.flags = attr.flags.with(AttrFlags::EXCLUDE_CALLCHAIN_USER);
        }
    }
}

/// Branches of each sample (`-b`, `-j`, `branch_type=`), unless they are its
/// stack already.
fn set_branches(options: &Options, spec: &EventSpec, attr: &mut EventAttr) {
    let Some(filter) = spec.branches.or(options.branches) else {
        return;
    };
    if !attr.sample_type.has(SampleType::BRANCH_STACK) {
        attr.sample_type = attr.sample_type.with(SampleType::BRANCH_STACK);
        attr.branch_sample_type = filter;
    }
}

/// Bytes of stack in a sample unless told otherwise, as perf does.
pub const DEFAULT_DUMP: u32 = 8192;

fn set_modes(options: &Options, attr: &mut EventAttr) {
    // Of an event of the other mode nothing would be left.
    let (exclude, keep) = match options.modes {
        ModeFilter::AsEvents => return,
        ModeFilter::User => (
            AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV,
            AttrFlags::EXCLUDE_USER,
        ),
        ModeFilter::Kernel => (AttrFlags::EXCLUDE_USER, AttrFlags::EXCLUDE_KERNEL),
    };
    attr.flags = attr.flags.without(keep).with(exclude);
}

fn set_clock(options: &Options, attr: &mut EventAttr) {
    if let Some(clock) = options.used_clock() {
        attr.flags = attr.flags.with(AttrFlags::USE_CLOCKID);
        attr.clockid = clock.id;
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
    Planned {
        name: "dummy:u".to_owned(),
        attr,
        in_kernel_only: false,
        probe: None,
        cpus: None,
        cgroup: None,
        filter: None,
        role: Role::Tracks,
        precision: Precision::Any,
        may_drop_kernel: false,
        leader: None,
        group_name: None,
        on_cpus: OnCpus::Never,
    }
}

/// Whether memory is to be read with samples.
fn wants_snapshots(options: &Options, planned: &[Planned], cpus: usize) -> bool {
    options.extras.deep_stacks
        && !options.per_thread
        && matches!(options.stacks, Stacks::Unwound(_))
        && planned
            .first()
            .is_some_and(|first| snapshots::are_possible(&first.attr, cpus))
        && !planned.iter().any(|planned| counts_switches(&planned.attr))
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
        | AttrFlags::KSYMBOL
        | AttrFlags::BPF_EVENT;
    let wanted = [
        (options.build_ids, AttrFlags::BUILD_ID),
        (extras.data || dumps, AttrFlags::MMAP_DATA),
        // That of waits has its own.
        (
            extras.switches && options.waits.is_none(),
            AttrFlags::CONTEXT_SWITCH,
        ),
        (extras.namespaces, AttrFlags::NAMESPACES),
        (extras.cgroups, AttrFlags::CGROUP),
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

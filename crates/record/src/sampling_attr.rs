//! The attr of an event that samples, from what was asked of it and of the
//! recording.

use crate::events::{ChainTerm, EventSpec, Precision, Rate, Tracer};
use crate::options::{
    ChainFilter, DEFAULT_DUMP, ModeFilter, Options, Sampling, Stacks, Start, Target,
};
use crate::planned::{Limits, is_clock};
use crate::traces;
use prof_abi::{AttrFlags, BranchSampleType, EventAttr, ReadFormat, SampleType, event_kind};

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
    if options.no_samples && spec.rate.is_none() {
        // As perf: the flag of a frequency stays.
        attr.sample_period = 0;
    }
    if let Precision::Exactly(level) = spec.precision {
        attr.set_precise_ip(level);
    }
    // Of threads that were named no others are meant, as for perf.
    let inherits = options.inherit && !matches!(options.target, Target::Threads(_));
    let inherits = spec.inherit.unwrap_or(inherits) && spec.may_be_inherited();
    if inherits && !options.per_thread && !is_system(options) {
        attr.flags = attr.flags.with(AttrFlags::INHERIT);
    }
    if options.extras.thread_counts && attr.flags.has(AttrFlags::INHERIT) {
        attr.flags = attr.flags.with(AttrFlags::INHERIT_STAT);
    }
    if attr.flags.has(AttrFlags::INHERIT_STAT) || options.extras.running_times {
        attr.read_format = attr
            .read_format
            .with(ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::TOTAL_TIME_RUNNING);
    }
    if matches!(options.target, Target::Command(_)) && options.start == Start::AtOnce {
        attr.flags = attr.flags.with(AttrFlags::ENABLE_ON_EXEC);
    }
    if options.overwrites_all() {
        attr.flags = attr.flags.with(AttrFlags::WRITE_BACKWARD);
    }
    set_clock(options, &mut attr);
    attr.aux_sample_size = traces::sample_bytes(options, spec);
    if spec.tracer.is_some() {
        bare_of_samples(spec.tracer, &mut attr);
        attr.aux_watermark = traces::watermark(options);
    }
    attr
}

/// Leaves of an event that traces what its records have; samples it has none.
fn bare_of_samples(tracer: Option<Tracer>, attr: &mut EventAttr) {
    let kept = SampleType::IP | SampleType::TID | SampleType::TIME | SampleType::CPU;
    attr.sample_type = attr.sample_type.without(SampleType(!kept.0));
    if tracer == Some(Tracer::IntelPt) {
        // As perf has it: guests are left out by the PMU's own settings.
        attr.flags = attr.flags.without(AttrFlags::EXCLUDE_GUEST);
    }
    if tracer == Some(Tracer::ArmSpe) {
        // By it perf's readers know what they can make of the trace.
        attr.sample_type = attr.sample_type.with(SampleType::DATA_SRC);
    }
    if attr.is_freq() {
        attr.sample_period = 1;
    }
    let of_samples =
        AttrFlags::FREQ | AttrFlags::EXCLUDE_CALLCHAIN_USER | AttrFlags::EXCLUDE_CALLCHAIN_KERNEL;
    attr.flags = attr.flags.without(of_samples);
    attr.sample_max_stack = 0;
    attr.sample_stack_user = 0;
    attr.sample_regs_user = 0;
    attr.sample_regs_intr = 0;
    attr.branch_sample_type = prof_abi::BranchSampleType(0);
}

fn sample_type(options: &Options, spec: &EventSpec) -> SampleType {
    let extras = &options.extras;
    let mut bits = SampleType::IP | SampleType::TID | SampleType::CPU;
    let wanted = [
        (has_times(options), SampleType::TIME),
        (extras.data, SampleType::ADDR | SampleType::DATA_SRC),
        (extras.data_sources, SampleType::DATA_SRC),
        (extras.weight || spec.latencies, SampleType::WEIGHT_STRUCT),
        (extras.physical_addresses, SampleType::PHYS_ADDR),
        (extras.data_page_size, SampleType::DATA_PAGE_SIZE),
        (extras.data_page_size, SampleType::ADDR),
        (extras.code_page_size, SampleType::CODE_PAGE_SIZE),
        (extras.cgroups, SampleType::CGROUP),
        (extras.transactions, SampleType::TRANSACTION),
        (traces::sample_bytes(options, spec) > 0, SampleType::AUX),
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

/// Whether records have times: `time=0` of one event is for all. Readers take
/// what has no time at once and what has one later, so that samples of the one
/// kind would come before their mappings, or those of the other after the end
/// of their process.
pub(crate) fn has_times(options: &Options) -> bool {
    !options.events.iter().any(|spec| spec.without_times)
}

fn set_rate(options: &Options, spec: &EventSpec, limits: Limits, attr: &mut EventAttr) {
    let asked = options.sampling != Sampling::DEFAULT;
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
pub(crate) const UNWIND_REGISTERS: u64 = 0xff_0fff;
/// User registers that unwinding needs: all general ones.
#[cfg(not(target_arch = "x86_64"))]
pub(crate) const UNWIND_REGISTERS: u64 = (1 << 33) - 1;

/// How an event gets its stacks, by its own terms or as all do.
fn stacks_of(options: &Options, spec: &EventSpec, attr: &EventAttr) -> Stacks {
    let stacks = match (spec.chains, options.stacks) {
        // A limit of chains asks for chains.
        (None, Stacks::None) if attr.sample_max_stack > 0 => Stacks::FramePointers,
        (None, stacks) => stacks,
        (Some(ChainTerm::No), _) => Stacks::None,
        (Some(ChainTerm::FramePointers), _) => Stacks::FramePointers,
        (Some(ChainTerm::LastBranch), _) => Stacks::LastBranch,
        (Some(ChainTerm::Dump), Stacks::Dump(bytes)) => Stacks::Dump(bytes),
        (Some(ChainTerm::Dump), _) => Stacks::Dump(DEFAULT_DUMP),
    };
    match (spec.stack_size, stacks) {
        (_, Stacks::None) => Stacks::None,
        _ if spec.traces_functions() => Stacks::FramePointers,
        (Some(bytes), Stacks::Dump(_)) => Stacks::Dump(bytes),
        _ => stacks,
    }
}

fn set_stacks(options: &Options, spec: &EventSpec, attr: &mut EventAttr) {
    let stacks = stacks_of(options, spec, attr);
    if spec.traces_functions() {
        attr.flags = attr.flags.with(AttrFlags::EXCLUDE_CALLCHAIN_USER);
    }
    if stacks == Stacks::None {
        return;
    }
    attr.sample_type = attr.sample_type.with(SampleType::CALLCHAIN);
    let follows = matches!(stacks, Stacks::FramePointers | Stacks::Deferred);
    if follows && attr.sample_max_stack == 0 {
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
    let has_user = !attr.flags.has(AttrFlags::EXCLUDE_CALLCHAIN_USER);
    if stacks == Stacks::Deferred && has_user {
        attr.flags = attr.flags.with(AttrFlags::DEFER_CALLCHAIN);
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

pub(crate) fn set_clock(options: &Options, attr: &mut EventAttr) {
    if let Some(clock) = options.used_clock() {
        attr.flags = attr.flags.with(AttrFlags::USE_CLOCKID);
        attr.clockid = clock.id;
    }
}

pub(crate) fn is_system(options: &Options) -> bool {
    matches!(options.target, Target::System)
}

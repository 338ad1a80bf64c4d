//! The event of waits: as it is opened, and as its samples are written.

use crate::events::{EventSpec, Rate};
use crate::options::{ChainFilter, Options, Stacks};
use crate::planned::{Limits, Planned, Role};
use crate::sampling_attr::sampling_attr;
use prof_abi::{AttrFlags, EventAttr, SampleType, Software, event_kind};
use prof_perfdata::OFF_CPU_EVENT;

/// Most bytes of stack that are copied when a thread leaves its CPU. While it
/// sleeps the rest does not change and can be read, but most waits are over by
/// then. An event loop's list of what is ready takes 12 KiB (libuv): with 16 KiB the
/// callers of its short waits were cut.
const MOST_COPIED: u32 = 24 << 10;

/// Whether an event of this name is that of waits.
pub(crate) fn is_of_waits(name: &str) -> bool {
    name == OFF_CPU_EVENT
}

/// The event to be opened, if waits are to be recorded: each leaving of a CPU
/// with its stack, and records of leaving and coming.
pub(crate) fn planned(options: &Options, limits: Limits) -> Option<Planned> {
    options.waits?;
    let mut spec = EventSpec::new(
        OFF_CPU_EVENT,
        EventAttr {
            kind: event_kind::SOFTWARE,
            config: Software::CONTEXT_SWITCHES.0,
            ..EventAttr::default()
        },
    );
    spec.rate = Some(Rate::Period(1));
    let mut attr = sampling_attr(options, &spec, limits);
    // Threads leave their CPUs in the kernel, whichever part of their stacks
    // is wanted.
    attr.flags = attr
        .flags
        .without(AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_USER | AttrFlags::EXCLUDE_HV)
        .with(AttrFlags::CONTEXT_SWITCH);
    attr.sample_type = attr.sample_type
        | SampleType::IDENTIFIER
        | SampleType::ADDR
        | SampleType::PERIOD
        | SampleType::TRANSACTION;
    attr.sample_stack_user = attr.sample_stack_user.min(MOST_COPIED);
    let is_thinned = wants_thinned(options) && limits.may_choose;
    if is_thinned {
        // Following frame pointers is dear where code has none: 5 µs a switch. The
        // unwinder follows them itself where code has no tables.
        attr.flags = attr.flags.with(AttrFlags::EXCLUDE_CALLCHAIN_USER);
    }
    Some(Planned {
        may_drop_kernel: true,
        chooses: is_thinned,
        ..Planned::of_our_own(OFF_CPU_EVENT, attr, Role::Samples)
    })
}

/// Whether the kernel is to choose which leavings it samples where there are many:
/// stacks of long waits can then be read without, and no path of who woke whom
/// needs each.
pub(crate) fn wants_thinned(options: &Options) -> bool {
    let follows_wakes = options.events.iter().any(|spec| spec.name == super::WAKING);
    let is_unwound = matches!(options.stacks, Stacks::Unwound(_) | Stacks::Dump(_));
    let stacks = options.waits.and_then(|waits| waits.stacks);
    stacks.is_some() && is_unwound && !follows_wakes && options.chains != ChainFilter::Kernel
}

/// The event where switches are not for the user to see: only the records
/// tell of them. What is lost by that is returned, for the user.
pub(crate) fn dropped_kernel(planned: &mut Planned) -> String {
    let attr = &mut planned.attr;
    attr.config = Software::DUMMY.0;
    attr.flags = attr
        .flags
        .with(AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV);
    planned.may_drop_kernel = false;
    "waits have the stacks that can be read while threads sleep, none if they are short, since the \
     kernel's context switches are not for this user to see (kernel.perf_event_paranoid); prof \
     doctor says what would change that"
        .to_owned()
}

/// Whether the kernel samples switches for this event, as it was opened.
pub(crate) fn has_stacks(opened: &EventAttr) -> bool {
    opened.config == Software::CONTEXT_SWITCHES.0
}

/// Whether its stacks, as it was opened, have the kernel's functions.
pub(crate) fn has_kernel(opened: &EventAttr) -> bool {
    opened.sample_type.has(SampleType::CALLCHAIN)
        && !opened.flags.has(AttrFlags::EXCLUDE_CALLCHAIN_KERNEL)
}

/// The event as the file's header has it: what its samples are then.
pub(crate) fn written(attr: &EventAttr) -> EventAttr {
    EventAttr {
        kind: event_kind::SOFTWARE,
        config: Software::BPF_OUTPUT.0,
        ..attr.clone()
    }
}

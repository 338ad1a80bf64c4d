//! What the kernel is asked for.

use super::{Limits, Role, default_events, plan};
use crate::events::{EventSpec, parse};
use crate::options::{ModeFilter, Options, Sampling, Stacks, Start, Target};
use crate::output::Destination;
use prof_abi::{AttrFlags, EventAttr, ReadFormat, SampleType, event_kind};
use std::time::Duration;

const LIMITS: Limits = Limits {
    highest_frequency: 100_000,
    cpus: 2,
    whole_cpus: crate::planned::OnCpus::Never,
    may_choose: true,
};

fn options() -> Options {
    Options::new(Target::Command(vec!["true".into()]), Destination::Stdout)
}

fn events(text: &str) -> Vec<EventSpec> {
    parse(text, 0).expect("valid")
}

#[test]
fn a_command_is_sampled_from_its_exec_on() {
    let planned = plan(&options(), &default_events("cpu-clock"), LIMITS);
    let attr = &planned[0].attr;
    assert!(attr.flags.has(
        AttrFlags::DISABLED | AttrFlags::ENABLE_ON_EXEC | AttrFlags::INHERIT | AttrFlags::MMAP2
    ));
    assert!(!attr.sample_type.has(SampleType::IDENTIFIER));
    assert_eq!((attr.sample_period, attr.is_freq()), (4000, true));
}

#[test]
fn a_delay_leaves_the_tracking_on() {
    // covers unit: EV-17, ATTR-20
    let mut options = options();
    options.start = Start::After(Duration::from_millis(5));
    let planned = plan(&options, &default_events("cpu-clock"), LIMITS);
    assert_eq!(planned.len(), 2);
    assert!(!planned[0].attr.flags.has(AttrFlags::ENABLE_ON_EXEC));
    assert!(!planned[0].attr.flags.has(AttrFlags::MMAP));
    assert_eq!(planned[1].role, Role::Tracks);
    assert!(
        planned[1]
            .attr
            .flags
            .has(AttrFlags::ENABLE_ON_EXEC | AttrFlags::MMAP)
    );
    assert!(
        planned
            .iter()
            .all(|event| event.attr.sample_type.has(SampleType::IDENTIFIER))
    );
}

#[test]
fn attr_24_of_a_group_with_s_only_the_leader_samples() {
    // covers unit: ATTR-24
    let planned = plan(&options(), &events("{cpu-clock,page-faults}:S"), LIMITS);
    assert_eq!(planned[1].leader, Some(0));
    assert_eq!(
        (planned[0].attr.sample_period, planned[1].attr.sample_period),
        (4000, 0)
    );
    assert!(
        planned[0]
            .attr
            .read_format
            .has(ReadFormat::GROUP | ReadFormat::ID)
    );
    assert!(planned[0].attr.sample_type.has(SampleType::READ));
    assert!(!planned[1].attr.flags.has(AttrFlags::DISABLED));
    // A member without samples of its own has no payload either.
    let mut specs = events("{cpu-clock,page-faults}:S");
    specs[1].attr.kind = event_kind::TRACEPOINT;
    let planned = plan(&options(), &specs, LIMITS);
    assert_eq!(planned[1].attr.sample_type, planned[0].attr.sample_type);
}

#[test]
fn samples_tell_the_count_of_an_event_alone() {
    let planned = plan(&options(), &events("cpu-clock:S,cs"), LIMITS);
    let attr = &planned[0].attr;
    assert!(attr.sample_type.has(SampleType::READ | SampleType::ID));
    assert!(!attr.read_format.has(ReadFormat::GROUP));
    assert!(!planned[1].attr.sample_type.has(SampleType::READ));
}

#[test]
fn each_breakpoint_hit_is_a_sample_unless_a_rate_is_asked_for() {
    let specs = events("mem:0x1000/4:w");
    assert_eq!(plan(&options(), &specs, LIMITS)[0].attr.sample_period, 1);
    let mut options = options();
    options.sampling = Sampling::Period(7);
    assert_eq!(plan(&options, &specs, LIMITS)[0].attr.sample_period, 7);
}

#[test]
fn a_fixed_period_is_not_undone_by_samples_that_tell_theirs() {
    let mut options = options();
    let has_period = |options: &Options, text: &str| {
        let attr = &plan(options, &events(text), LIMITS)[0].attr;
        attr.sample_type.has(SampleType::PERIOD)
    };
    for text in ["page-faults", "cpu-clock", "cycles", "mem:0x1000/4:w"] {
        options.sampling = Sampling::Frequency(99);
        assert!(has_period(&options, text), "{text} at a frequency");
        options.sampling = Sampling::Period(10);
        assert!(!has_period(&options, text), "{text}: every tenth");
    }
    assert!(!has_period(&options, "page-faults/period=10/"));
    assert!(has_period(&options, "page-faults/freq=10/"));
    // Asked for, where the kernel still takes the period.
    options.extras.period = true;
    assert!(has_period(&options, "cpu-clock") && has_period(&options, "cycles"));
    assert!(!has_period(&options, "page-faults") && !has_period(&options, "mem:0x1000/4:w"));
    options.sampling = Sampling::Period(1);
    assert!(has_period(&options, "page-faults"));
}

#[test]
fn threads_that_were_named_bring_no_others() {
    let inherits = |target, text: &str| {
        let options = Options::new(target, Destination::Stdout);
        let attr = &plan(&options, &events(text), LIMITS)[0].attr;
        attr.flags.has(AttrFlags::INHERIT)
    };
    assert!(!inherits(Target::Threads(vec![1]), "cs"));
    assert!(inherits(Target::Threads(vec![1]), "cs/inherit/"));
    assert!(inherits(Target::Processes(vec![1]), "cs"));
}

#[test]
fn a_mode_for_all_events_goes_before_their_own() {
    let mut options = options();
    let excluded = |options: &Options, text: &str| {
        let flags = plan(options, &events(text), LIMITS)[0].attr.flags;
        (
            flags.has(AttrFlags::EXCLUDE_USER),
            flags.has(AttrFlags::EXCLUDE_KERNEL),
        )
    };
    options.modes = ModeFilter::User;
    assert_eq!(excluded(&options, "cs:k"), (false, true));
    options.modes = ModeFilter::Kernel;
    assert_eq!(excluded(&options, "cs:u"), (true, false));
}

#[test]
fn guests_are_left_out_unless_asked_for() {
    let leaves_out = |text: &str| {
        let attr = &plan(&options(), &events(text), LIMITS)[0].attr;
        attr.flags.has(AttrFlags::EXCLUDE_GUEST)
    };
    assert!(leaves_out("cs") && leaves_out("cs:H"));
    assert!(!leaves_out("cs:G") && !leaves_out("cs:GH"));
}

#[test]
fn tracepoints_tell_their_counts_unless_thinned_out() {
    let mut options = options();
    let attr = EventAttr {
        kind: event_kind::TRACEPOINT,
        ..EventAttr::default()
    };
    let spec = [EventSpec::new("sched:sched_stat_runtime", attr)];
    let has_period = |options: &Options| {
        let attr = &plan(options, &spec, LIMITS)[0].attr;
        attr.sample_type.has(SampleType::PERIOD)
    };
    assert!(has_period(&options));
    options.sampling = Sampling::Period(100);
    assert!(!has_period(&options));
}

#[test]
fn waits_have_no_kernel_s_user_chain_where_the_kernel_may_choose_among_them() {
    let of_waits = |stacks, may_choose| {
        let mut options = options();
        options.stacks = Stacks::Unwound(8192);
        options.waits = Some(crate::WaitOptions {
            stacks,
            ..crate::WaitOptions::default()
        });
        let limits = Limits {
            may_choose,
            ..LIMITS
        };
        let planned = plan(&options, &default_events("cpu-clock"), limits);
        let is_it = |planned: &&super::Planned| crate::waits::is_of_waits(&planned.name);
        let planned = planned.iter().find(is_it).expect("planned");
        let has_none = planned.attr.flags.has(AttrFlags::EXCLUDE_CALLCHAIN_USER);
        assert_eq!(planned.chooses, has_none);
        has_none
    };
    assert!(of_waits(Some(2000), true));
    // Nothing is won where it may not: then frame pointers are a help.
    assert!(!of_waits(Some(2000), false));
    assert!(!of_waits(None, true));
}

#[test]
fn what_chooses_samples_has_nothing_dear_and_what_takes_them_tells_of_no_task() {
    use crate::planned::{choosing, taking};
    let mut options = options();
    options.stacks = Stacks::Unwound(8192);
    let attr = &plan(&options, &default_events("cpu-clock"), LIMITS)[0].attr;
    assert!(attr.flags.has(AttrFlags::MMAP2 | AttrFlags::INHERIT));
    let (chooses, takes) = (choosing(attr), taking(attr));
    let dear = SampleType::CALLCHAIN | SampleType::REGS_USER | SampleType::STACK_USER;
    assert!(takes.sample_type.has(dear));
    assert_eq!(chooses.sample_type.without(dear), chooses.sample_type);
    // What stands behind records is the same for both, as they share rings.
    let behind = SampleType::TID | SampleType::TIME | SampleType::IDENTIFIER;
    assert!(chooses.sample_type.has(behind) && takes.sample_type.has(behind));
    assert_eq!(chooses.flags, attr.flags);
    let of_tasks = AttrFlags::MMAP2 | AttrFlags::INHERIT | AttrFlags::CONTEXT_SWITCH;
    assert_eq!(takes.flags.without(of_tasks), takes.flags);
}

#[test]
fn a_limit_of_chains_asks_for_chains() {
    let specs = events("cs/max-stack=7/");
    let attr = &plan(&options(), &specs, LIMITS)[0].attr;
    assert!(attr.sample_type.has(SampleType::CALLCHAIN));
    assert!(!attr.sample_type.has(SampleType::STACK_USER));
}

#[test]
fn samples_that_the_kernel_shares_have_both_ids() {
    let both = SampleType::ID | SampleType::IDENTIFIER;
    let ids = |events: &str| {
        let planned = plan(&options(), &self::events(events), LIMITS);
        let ids = planned
            .iter()
            .map(|event| event.attr.sample_type.0 & both.0);
        SampleType(ids.reduce(|one, other| one & other).unwrap_or(0))
    };
    assert_eq!(ids("page-faults,cs"), both);
    assert_eq!(ids("cpu-clock,cs"), both);
    assert_eq!(ids("cpu-clock,task-clock"), SampleType::IDENTIFIER);
    assert_eq!(ids("cs"), SampleType(0));
}

#[test]
fn mappings_of_data_and_sources_of_data_come_without_addresses() {
    let mut options = options();
    options.extras.data_mappings = true;
    let attr = &plan(&options, &default_events("cpu-clock"), LIMITS)[0].attr;
    assert!(attr.flags.has(AttrFlags::MMAP_DATA));
    assert!(!attr.sample_type.has(SampleType::ADDR) && !attr.sample_type.has(SampleType::DATA_SRC));
    options.extras.data_sources = true;
    let attr = &plan(&options, &default_events("cpu-clock"), LIMITS)[0].attr;
    assert!(!attr.sample_type.has(SampleType::ADDR) && attr.sample_type.has(SampleType::DATA_SRC));
}

#[test]
fn a_dump_brings_registers_and_leaves_the_user_chain_out() {
    let mut options = options();
    options.stacks = Stacks::Dump(4096);
    let attr = &plan(&options, &default_events("cpu-clock"), LIMITS)[0].attr;
    assert!(
        attr.sample_type
            .has(SampleType::CALLCHAIN | SampleType::STACK_USER)
    );
    assert!(attr.flags.has(AttrFlags::EXCLUDE_CALLCHAIN_USER));
    assert_eq!(attr.sample_stack_user, 4096);
    assert_ne!(attr.sample_regs_user, 0);
    assert!(attr.flags.has(AttrFlags::MMAP_DATA));
    options.stacks = Stacks::Unwound(4096);
    let attr = &plan(&options, &default_events("cpu-clock"), LIMITS)[0].attr;
    assert!(!attr.flags.has(AttrFlags::EXCLUDE_CALLCHAIN_USER));
}

#[test]
fn a_frequency_above_the_limit_is_lowered_unless_strict() {
    // covers unit: SYS-03, ATTR-16
    let mut options = options();
    options.sampling = Sampling::Frequency(200_000);
    let event = default_events("cpu-clock");
    assert_eq!(
        plan(&options, &event, LIMITS)[0].attr.sample_period,
        100_000
    );
    options.strict_frequency = true;
    assert_eq!(
        plan(&options, &event, LIMITS)[0].attr.sample_period,
        200_000
    );
}

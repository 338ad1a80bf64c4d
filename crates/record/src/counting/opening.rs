//! How the kernel is asked for an event that counts, and what its refusals mean.

use super::counter::Counter;
use super::scope::{CountError, Counting, CountingScope};
use crate::events::{self, EventSpec, Precision, is_of_a_group};
use crate::hints::{Around, FIRST_OWN_PMU, Refusal, Step, Whose};
use crate::open::{Trial, filter_text, is_probe, open_event};
use crate::setup::list_of;
use crate::synthesize::online_cpus;
use prof_abi::{AttrFlags, EventAttr, ReadFormat, SampleType, event_kind};
use prof_sys::process::effective_user;
use prof_sys::{Event, OpenError, Target};
use std::ffi::CStr;

const FORMAT: ReadFormat =
    ReadFormat(ReadFormat::TOTAL_TIME_ENABLED.0 | ReadFormat::TOTAL_TIME_RUNNING.0);
/// That of events that are read together.
pub(super) const GROUP_FORMAT: ReadFormat =
    ReadFormat(FORMAT.0 | ReadFormat::ID.0 | ReadFormat::GROUP.0);

pub(super) fn set_filter(
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
pub(super) fn nowhere(spec: &EventSpec, counter: &Counter, scope: &CountingScope) -> CountError {
    let event = counter.name.clone();
    match &spec.cpus {
        Some(cpus) if matches!(scope, CountingScope::Cpus(_)) => not_on_these(event, cpus),
        _ => CountError::NoSuchTask { event },
    }
}

/// The task on the one CPU of `cpu=`; fails where that is not online, and for several
/// CPUs but all, since each would need an event of its own.
pub(super) fn on_its_cpu<'a>(
    spec: &EventSpec,
    target: Target<'a>,
) -> Result<Target<'a>, CountError> {
    let (Some(cpus), Target::Task { tid, cpu: None }) = (&spec.cpus, target) else {
        return Ok(target);
    };
    if !spec.has_own_cpus {
        return Ok(target);
    }
    let online = online_cpus();
    if !cpus.iter().any(|cpu| online.contains(cpu)) {
        return Err(not_on_these(spec.name.clone(), cpus));
    }
    match cpus[..] {
        [cpu] => Ok(Target::Task {
            tid,
            cpu: Some(cpu),
        }),
        _ if online.iter().all(|cpu| cpus.contains(cpu)) => Ok(target),
        _ => Err(CountError::SeveralCpus {
            event: spec.name.clone(),
        }),
    }
}

fn not_on_these(event: String, cpus: &[u32]) -> CountError {
    CountError::NotOnTheseCpus {
        event,
        cpus: list_of(cpus),
    }
}

/// Whether the event's PMU is not of the CPU that is counted.
pub(super) fn is_elsewhere(spec: &EventSpec, target: Target<'_>) -> bool {
    match (&spec.cpus, target) {
        (Some(cpus), Target::Cpu(cpu) | Target::Cgroup { cpu, .. }) => !cpus.contains(&cpu),
        _ => false,
    }
}

/// As perf's attr of the event.
pub(super) fn attr_for(spec: &EventSpec, how: &Counting, is_member: bool) -> EventAttr {
    let mut attr = spec.attr.clone();
    attr.read_format = FORMAT;
    attr.sample_type = SampleType::IDENTIFIER;
    let mut flags = attr.flags;
    if !spec.modes.guests && !spec.modes.given {
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
    if let Precision::Exactly(level) = spec.precision {
        attr.set_precise_ip(level);
    }
    attr
}

/// When counting begins.
pub(super) fn beginning(how: &Counting) -> AttrFlags {
    match how.scope {
        CountingScope::Launched(_) if !how.by_hand => {
            AttrFlags::DISABLED | AttrFlags::ENABLE_ON_EXEC
        }
        _ => AttrFlags::DISABLED,
    }
}

/// Opens the event; if the kernel's part is forbidden, without it, as perf
/// does, with `:u` behind the name.
pub(super) fn open_narrowing(
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
pub(super) enum Verdict {
    /// This machine lacks the event.
    Unsupported,
    /// Its PMU has nothing for this user, who may not watch the kernel.
    Forbidden,
    /// The thread has ended.
    Gone,
    /// The user should know.
    Failed,
}

pub(super) fn verdict(errno: i32, counter: &Counter, spec: &EventSpec) -> Verdict {
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
pub(super) fn completed(
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

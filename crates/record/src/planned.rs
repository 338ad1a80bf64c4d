//! An event ready to be opened, and what its attr becomes where it is of whole
//! CPUs.

use crate::events::{Precision, Tracer};
use prof_abi::{AttrFlags, EventAttr, ReadFormat, SampleType, Software, event_kind};
use std::ffi::CString;
use std::fs::File;
use std::sync::Arc;

/// An event ready to be opened.
#[derive(Debug, Clone)]
pub(crate) struct Planned {
    pub(crate) name: String,
    pub(crate) attr: EventAttr,
    /// See [`EventSpec::in_kernel_only`](crate::events::EventSpec::in_kernel_only).
    pub(crate) in_kernel_only: bool,
    /// See [`EventSpec::probe`](crate::events::EventSpec::probe).
    pub(crate) probe: Option<CString>,
    /// See [`is_beside_probe`](crate::events::is_beside_probe).
    pub(crate) is_beside_probe: bool,
    /// See [`EventSpec::cpus`](crate::events::EventSpec::cpus).
    pub(crate) cpus: Option<Vec<u32>>,
    /// The directory of its cgroup, if it is of one.
    pub(crate) cgroup: Option<Arc<File>>,
    /// See [`EventSpec::filter`](crate::events::EventSpec::filter).
    pub(crate) filter: Option<CString>,
    /// See [`EventSpec::excludes_recorder`](crate::events::EventSpec::excludes_recorder).
    pub(crate) excludes_recorder: bool,
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
    /// Whether its descriptors of tasks only choose which samples there are, and one
    /// of each CPU takes them ([`choosing`], [`taking`]).
    pub(crate) chooses: bool,
    /// See [`EventSpec::tracer`](crate::events::EventSpec::tracer).
    pub(crate) tracer: Option<Tracer>,
    /// Bytes of stack that are enough while all stacks are shallow, if that makes samples
    /// cheaper; see [`crate::shallow`].
    pub(crate) shallow_piece: Option<u32>,
}

impl Planned {
    /// An event that was not asked for: in no group, without a filter, of tasks.
    pub(crate) fn of_our_own(name: &str, attr: EventAttr, role: Role) -> Self {
        Self {
            name: name.to_owned(),
            attr,
            in_kernel_only: false,
            probe: None,
            is_beside_probe: false,
            cpus: None,
            cgroup: None,
            filter: None,
            excludes_recorder: false,
            role,
            precision: Precision::Any,
            may_drop_kernel: false,
            leader: None,
            group_name: None,
            on_cpus: OnCpus::Never,
            chooses: false,
            tracer: None,
            shallow_piece: None,
        }
    }
}

impl Planned {
    /// Whether it is of the threads alone that there are at the start.
    pub(crate) fn misses_tasks(&self) -> bool {
        (self.probe.is_some() || self.is_beside_probe) && self.on_cpus == OnCpus::Never
    }
}

/// What each event is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Asked for.
    Samples,
    /// Carries the side-band records of all CPUs from the start.
    Tracks,
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

/// Of an event that [chooses](Planned::chooses): what does, and tells of tasks. The
/// kernel makes a sample before it asks whether it is to be taken, so that this one
/// has nothing in it that is dear.
pub(crate) fn choosing(attr: &EventAttr) -> EventAttr {
    // What stands behind other records, too.
    let kept = SampleType::TID
        | SampleType::TIME
        | SampleType::ID
        | SampleType::STREAM_ID
        | SampleType::CPU
        | SampleType::IDENTIFIER;
    EventAttr {
        sample_type: attr.sample_type.without(SampleType(!kept.0)),
        sample_regs_user: 0,
        sample_stack_user: 0,
        ..attr.clone()
    }
}

/// Of the same: what takes samples on a CPU, when they were chosen. It counts
/// nothing, so that it is switched on all the time.
pub(crate) fn taking(attr: &EventAttr) -> EventAttr {
    let attr = of_cpu(attr);
    EventAttr {
        kind: event_kind::SOFTWARE,
        config: Software::BPF_OUTPUT.0,
        flags: attr.flags.without(AttrFlags::DISABLED),
        ..attr
    }
}

/// Of the same: what samples tasks while their stacks are shallow. No exec starts it.
pub(crate) fn shallow(attr: &EventAttr, piece: u32) -> EventAttr {
    let mut attr = in_tasks(attr);
    attr.flags = attr.flags.without(AttrFlags::ENABLE_ON_EXEC);
    EventAttr {
        sample_stack_user: piece,
        ..attr
    }
}

/// Of an event on whole CPUs: what samples tasks, while they are sampled. All that tells of
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
        | AttrFlags::DEFER_OUTPUT
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

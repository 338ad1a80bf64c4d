//! An event as asked for.

use super::tool::Tool;
use super::tracer::Tracer;
use prof_abi::{AttrFlags, BranchSampleType, EventAttr, Software, event_kind};
use std::ffi::CString;

/// How exact the addresses of samples shall be (`precise_ip`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precision {
    /// What was asked for, 0 to 3.
    #[default]
    Any,
    /// This, or it is an error.
    Exactly(u8),
    /// The best that the event can.
    Highest,
}

/// How often an event samples, where it says so itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rate {
    /// Times a second (Hz).
    Frequency(u64),
    /// Every so many events.
    Period(u64),
}

/// Call chains of one event, where it says so itself (`call-graph=`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChainTerm {
    /// None.
    No,
    /// By frame pointers.
    FramePointers,
    /// A piece of the stack with it.
    Dump,
    /// The CPU's own record of calls.
    LastBranch,
}

/// The modes of the CPU that an event is asked to see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Modes {
    /// `:u`, `:k` or `:h` was given, so the flags are the user's wish.
    pub given: bool,
    /// `:G` or `:H` was given, so guests are recorded as the flags say.
    pub guests: bool,
}

/// An event as asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EventSpec {
    /// As the user wrote it, its own modifiers included, those of its group
    /// not.
    pub name: String,
    /// What is counted: `kind`, `config*`, breakpoint fields and the flags
    /// that modifiers set. Nothing about sampling.
    pub attr: EventAttr,
    /// A tracepoint that occurs in the kernel only, so never where that is left
    /// out.
    pub in_kernel_only: bool,
    /// What a probe is on, if not on a mere address: the path of a file, or the
    /// name of a function of the kernel. The kernel gets a pointer to it.
    pub probe: Option<CString>,
    /// Modes by modifiers.
    pub modes: Modes,
    /// `:p…` and `:P`.
    pub precision: Precision,
    /// `period=` or `freq=`.
    pub rate: Option<Rate>,
    /// `call-graph=`.
    pub chains: Option<ChainTerm>,
    /// `stack-size=`, bytes.
    pub stack_size: Option<u32>,
    /// `inherit` or `no-inherit`.
    pub inherit: Option<bool>,
    /// Its group: events with the same number belong together, the first is
    /// the leader.
    pub group: Option<u32>,
    /// What its group is called, if it has a name: `name{a,b}`.
    pub group_name: Option<String>,
    /// `:S`: samples of the leader read the whole group.
    pub leader_samples: bool,
    /// `:W`: the group may be broken up.
    pub weak: bool,
    /// `:R`: samples tell latencies of retirement.
    pub latencies: bool,
    /// The only CPUs on which it is opened for all tasks: those of its PMU
    /// (`cpumask`, `cpus`), or of `cpu=`.
    pub cpus: Option<Vec<u32>>,
    /// `cpu=` named those CPUs: tasks are seen on these alone.
    pub has_own_cpus: bool,
    /// Its cgroup (`-G`), by its path below the mount; only for all tasks.
    pub cgroup: Option<String>,
    /// What occurrences are kept (`--filter`): ftrace's syntax for tracepoints.
    pub filter: Option<CString>,
    /// Occurrences in the recorder's threads are left out (`--exclude-perf`).
    pub excludes_recorder: bool,
    /// `percore`: counts of a core's threads belong together.
    pub percore: bool,
    /// `time=0`: samples do not tell when they were taken, nor those of other
    /// events beside it.
    pub without_times: bool,
    /// `branch_type=`.
    pub branches: Option<BranchSampleType>,
    /// The term or modifier of it that sets how it is sampled, if there is one.
    pub sampling_term: Option<&'static str>,
    /// What `prof stat` measures instead of having the kernel count.
    pub tool: Option<Tool>,
    /// What its PMU traces into an AUX area, if it does.
    pub tracer: Option<Tracer>,
}

impl EventSpec {
    /// An event without modifiers.
    pub fn new(name: impl Into<String>, attr: EventAttr) -> Self {
        Self {
            name: name.into(),
            attr,
            ..Self::default()
        }
    }

    /// An event that `prof stat` measures; its attr counts nothing, as in perf.
    pub(super) fn of_tool(name: &str, tool: Tool) -> Self {
        let attr = EventAttr {
            kind: event_kind::SOFTWARE,
            config: Software::DUMMY.0,
            flags: AttrFlags::default(),
            ..EventAttr::default()
        };
        let mut spec = Self::new(name, attr);
        spec.tool = Some(tool);
        spec
    }

    /// Whether each occurrence is sampled unless told otherwise: tracepoints,
    /// breakpoints and what BPF programs write, as perf does.
    pub(crate) fn samples_each(&self) -> bool {
        self.is_bpf_output()
            || self.probe.is_some()
            || matches!(
                self.attr.kind,
                event_kind::TRACEPOINT | event_kind::BREAKPOINT
            )
    }

    /// Whether it is each call of a function of the kernel, of which no stack of user
    /// space can be had (`perf_trace_event_perm`).
    pub(crate) fn traces_functions(&self) -> bool {
        self.attr.kind == event_kind::TRACEPOINT && self.name.starts_with("ftrace:function")
    }

    /// Whether new threads and children can have it too; see
    /// [`prof_sys::Event::open_probe`].
    pub(crate) fn may_be_inherited(&self) -> bool {
        self.probe.is_none()
    }

    /// `overwrite`: its rings hold the newest records, and are read when a file is
    /// wanted and at the end.
    pub(crate) fn keeps_newest(&self) -> bool {
        self.attr.flags.has(AttrFlags::WRITE_BACKWARD)
    }

    /// Whether it is what BPF programs write, which is its payload.
    pub(crate) fn is_bpf_output(&self) -> bool {
        self.attr.kind == event_kind::SOFTWARE && self.attr.config == Software::BPF_OUTPUT.0
    }

    /// Whether it may be narrowed to user space when the kernel refuses more.
    pub(crate) fn may_drop_kernel(&self) -> bool {
        let asked_for = self.modes.given || breaks_into_kernel(&self.attr);
        !asked_for && !self.attr.flags.has(AttrFlags::EXCLUDE_KERNEL)
    }
}

/// Whether it is a breakpoint at an address of the kernel, which has the upper
/// half.
pub(crate) fn breaks_into_kernel(attr: &EventAttr) -> bool {
    attr.kind == event_kind::BREAKPOINT && attr.config1 >> 63 == 1
}

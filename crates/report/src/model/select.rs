//! Which samples a view shows.

use super::TimeRange;
use prof_profile::{Detail, DsoId, EventId, FunctionId};
use regex::Regex;

/// What a view is made from; the default is all samples of the first event.
#[derive(Debug, Clone)]
pub struct Selection {
    /// The event; every view shows one.
    pub event: EventId,
    /// Samples outside do not exist for the view: its 100 % is what is inside.
    pub scope: Scope,
    /// Samples that do not pass are hidden; `Scene::scope_total`
    /// still counts them, as `perf report --percentage absolute` does.
    pub filter: Filter,
    /// Changes to the stacks, applied in order.
    pub transforms: Vec<Transform>,
    /// Whether inlined functions are frames of their own.
    pub inlines: bool,
    /// Which function gets the self weight of a sample in inlined code.
    pub self_of: SelfOf,
    /// How finely frames are told apart.
    pub granularity: Granularity,
    /// The pattern of the sort key [`PARENT`](crate::keys::PARENT).
    pub parent: ParentPattern,
    /// Where stacks are cut, if they are.
    pub cut: Option<Cut>,
}

impl Default for Selection {
    fn default() -> Self {
        Self {
            event: EventId(0),
            scope: Scope::default(),
            filter: Filter::default(),
            transforms: Vec::new(),
            inlines: true,
            self_of: SelfOf::Innermost,
            granularity: Granularity::Function,
            parent: ParentPattern::default(),
            cut: None,
        }
    }
}

/// How finely frames are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Granularity {
    /// By function.
    #[default]
    Function,
    /// By function and source line.
    Line,
    /// By address.
    Address,
}

/// A change to the stacks of a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transform {
    /// Only stacks with this function, and of these what it calls: they start
    /// at its outermost call.
    Focus(FunctionId),
    /// Leaves out samples with this function somewhere in the stack.
    Drop(FunctionId),
    /// Removes the function's frames; its own weight goes to its caller.
    Merge(FunctionId),
    /// Consecutive frames of a dso become one frame with its name.
    MergeDso(DsoId),
    /// A call back to something already in the stack returns to it.
    CollapseRecursion(Recursion),
}

/// What counts as recursion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recursion {
    /// A function that calls itself.
    Direct,
    /// A function that is anywhere among its callers.
    Any,
}

/// Cuts stacks at functions with matching names. The samples of a stack that
/// was cut belong to the function it was cut at.
#[derive(Debug, Clone)]
pub struct Cut {
    /// The names of functions to cut at.
    pub pattern: Regex,
    /// Which part is kept: from the thread's start to the outermost match, or
    /// from the innermost match to the leaf.
    pub keeps: StackEnd,
}

/// The caller by which the sort key `parent` groups samples.
#[derive(Debug, Clone)]
pub struct ParentPattern {
    /// The names of callers.
    pub pattern: Regex,
    /// From which end of the stack the first match is taken.
    pub from: StackEnd,
}

impl Default for ParentPattern {
    /// perf's: the system call, or the page fault.
    fn default() -> Self {
        Self {
            pattern: Regex::new("^sys_|^do_page_fault").expect("a pattern"),
            from: StackEnd::Leaf,
        }
    }
}

/// An end of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StackEnd {
    /// The thread's start.
    Outermost,
    /// Where the sample was taken.
    Leaf,
}

/// To which function a sample in inlined code belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SelfOf {
    /// The innermost inlined function.
    #[default]
    Innermost,
    /// The function that has a symbol in the file, as in perf's `Self` column.
    Host,
    /// The same, at the line of the innermost inlined function, as in perf's
    /// columns of symbols and lines. Needs [`Granularity::Line`] or finer.
    HostAtLine,
}

/// Samples outside of it do not exist.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    /// CPUs; empty for all.
    pub cpus: Vec<u32>,
    /// Time ranges; empty for all.
    pub times: Vec<TimeRange>,
    /// Leaves out samples whose leaf has no name (`perf report -U`).
    pub named_only: bool,
}

impl Scope {
    /// Whether a time is in one of the ranges.
    pub(crate) fn holds_time(&self, time: u64) -> bool {
        self.times.is_empty() || self.times.iter().any(|range| range.holds(time))
    }
}

/// Samples that do not pass are hidden. Each list passes all if empty.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Thread names.
    pub comms: Vec<String>,
    /// Dso of the leaf: short name or path.
    pub dsos: Vec<String>,
    /// Function of the leaf.
    pub symbols: Vec<String>,
    /// Thread-group ids.
    pub pids: Vec<i32>,
    /// Thread ids.
    pub tids: Vec<i32>,
    /// Numbers of threads that ran at the time; only where samples have that.
    pub parallelism: Vec<u32>,
    /// Some frame of the stack has a name that matches.
    pub frame: Option<Regex>,
    /// Mode of the leaf.
    pub mode: Option<ModeFilter>,
}

impl Filter {
    /// Whether it lets everything pass.
    pub fn is_empty(&self) -> bool {
        self.comms.is_empty()
            && self.dsos.is_empty()
            && self.symbols.is_empty()
            && self.pids.is_empty()
            && self.tids.is_empty()
            && self.parallelism.is_empty()
            && self.frame.is_none()
            && self.mode.is_none()
    }
}

impl Filter {
    /// Whether it lets pass what the record of a sample tells.
    pub(crate) fn takes(&self, detail: Option<&Detail>) -> bool {
        let wanted = &self.parallelism;
        wanted.is_empty() || detail.is_none_or(|detail| wanted.contains(&detail.parallelism))
    }
}

/// Kernel or user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ModeFilter {
    /// Samples taken in a kernel or hypervisor.
    Kernel,
    /// Samples taken in user space.
    User,
}

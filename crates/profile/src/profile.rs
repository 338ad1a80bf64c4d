//! The whole model.

use crate::{
    BranchFrame, Counting, Dso, DsoId, EventId, Frame, Function, FunctionId, Futex, Lifetime,
    Location, LocationId, NameId, Names, Samples, StackId, StackTree, Task, TaskId, Thread, Trust,
    Wake,
};
use prof_abi::BuildId;
use rustc_hash::FxHashMap;

/// What an event counted while a thread ran, as `record -s` keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadCount {
    /// Thread-group id.
    pub pid: i32,
    /// Thread id.
    pub tid: i32,
    /// The event.
    pub event: EventId,
    /// The count, in the event's unit.
    pub value: u64,
}

/// An event that was sampled.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Event {
    /// As perf writes it: `cycles:u`, `cpu-clock`.
    pub name: String,
    /// Samples in the file.
    pub samples: u64,
    /// Sum of their periods, events.
    pub period: u64,
    /// Samples the kernel dropped; an upper bound where the recording only
    /// counts lost records of any kind.
    pub lost: u64,
    /// The rate asked for: frequency in Hz (`is_freq`) or period in events.
    pub asked: u64,
    /// Whether `asked` is a frequency.
    pub is_freq: bool,
    /// Whether the weight is time in ns (cpu-clock, task-clock, offcpu-time).
    pub weight_is_ns: bool,
    /// Whether its samples are waits: times when threads did not run. Each row
    /// then has a [`crate::Wait`]; the row's time is the end of the wait.
    pub is_off_cpu: bool,
    /// Whether its samples carry call chains.
    pub has_callchain: bool,
    /// Whether the kernel overwrote its rings, of which the recording has the newest.
    pub is_overwritten: bool,
    /// Of a tracepoint, its number (`config` of its attr).
    pub tracepoint: Option<u64>,
}

/// Events that were counted together (`-e '{a,b}'`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventGroup {
    /// Its name, if it was given one.
    pub name: Option<String>,
    /// The first of them; the others follow it.
    pub leader: EventId,
    /// How many they are, at least two.
    pub members: u16,
}

/// Where the recording comes from; empty texts if not told.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Origin {
    /// Host name.
    pub hostname: String,
    /// Kernel release (`uname -r`).
    pub os_release: String,
    /// Version of the tool that recorded.
    pub tool_version: String,
    /// Machine (`uname -m`).
    pub arch: String,
    /// CPU model.
    pub cpu_description: String,
    /// CPU model as numbers, in the kernel's spelling.
    pub cpu_id: String,
    /// CPUs online and available.
    pub cpus: Option<(u32, u32)>,
    /// Memory in kB.
    pub total_memory_kb: Option<u64>,
    /// The recorder's command line.
    pub command_line: Vec<String>,
    /// The kernel's build-id.
    pub kernel_build_id: Option<BuildId>,
    /// First and last sample time, ns.
    pub time_range: Option<(u64, u64)>,
    /// An instant on the wall clock (ns since 1970) and the same instant on the
    /// recording's clock (ns).
    pub wall_clock: Option<(u64, u64)>,
}

/// A recording, resolved. Immutable once made; views derive from it.
#[derive(Debug, Clone, Default)]
pub struct Profile {
    /// All texts.
    pub names: Names,
    /// Events in the order of their attrs.
    pub events: Vec<Event>,
    /// Groups of events, in the order of their leaders; they do not overlap.
    pub groups: Vec<EventGroup>,
    /// Mapped files.
    pub dsos: Vec<Dso>,
    /// Sampled threads, one entry for each name that a thread had.
    pub tasks: Vec<Task>,
    /// All threads that records mention, sorted by id.
    pub threads: Vec<Thread>,
    /// When each thread lived, by thread id. For an id that was used several
    /// times, from the first thread's start to the last one's end.
    pub lifetimes: FxHashMap<i32, Lifetime>,
    /// Counts by thread and event, in the order threads ended.
    pub thread_counts: Vec<ThreadCount>,
    /// Functions and unnamed addresses.
    pub functions: Vec<Function>,
    /// Frames of all locations, see `Location::frames`.
    pub frames: Vec<Frame>,
    /// Distinct addresses.
    pub locations: Vec<Location>,
    /// In a profile of two recordings: for locations in another build of their
    /// function's file, the dso of that build. Otherwise empty.
    pub other_builds: FxHashMap<LocationId, DsoId>,
    /// Frames merged into call chains from branch stacks; empty unless that was
    /// asked for.
    pub branch_frames: Vec<BranchFrame>,
    /// Distinct stacks.
    pub stacks: StackTree,
    /// The samples in time order.
    pub samples: Samples,
    /// Futexes that threads waited for; see [`crate::Wait::futex`].
    pub futexes: Vec<Futex>,
    /// Wake-ups in the order of time; empty if they were not recorded.
    pub wakes: Vec<Wake>,
    /// What a row of `samples` stands for.
    pub counting: Counting,
    /// How reliable the profile is: losses, unwinding, names, damage.
    pub trust: Trust,
    /// Where it comes from.
    pub origin: Origin,
}

impl Profile {
    /// First and last sample time, ns: as the recording tells, else those of the
    /// samples; `None` if these have no times.
    pub fn time_span(&self) -> Option<(u64, u64)> {
        let time_of = |row| self.samples.get(row).map(|sample| sample.time);
        let of_samples = || {
            let last = time_of(self.samples.len().checked_sub(1)?)?;
            Some((time_of(0)?, last)).filter(|_| last > 0)
        };
        self.origin.time_range.or_else(of_samples)
    }

    /// Cuts each stack to its innermost `most` addresses, at least to the
    /// sampled one.
    pub fn limit_stacks(&mut self, most: usize) {
        let (stacks, of) = self.stacks.limited(most.max(1));
        self.stacks = stacks;
        let other = |old: StackId| of.get(old.0 as usize).copied();
        for wake in &mut self.wakes {
            wake.stack = other(wake.stack).unwrap_or(StackId::EMPTY);
        }
        self.samples
            .map_stacks(|old| other(old).unwrap_or(StackId::EMPTY));
    }

    /// The location of a handle.
    ///
    /// # Panics
    /// If the handle is of another profile; so do the methods below.
    pub fn location(&self, id: LocationId) -> &Location {
        self.locations
            .get(id.0 as usize)
            .expect("a location of this profile")
    }

    /// The frames of a location, innermost first.
    pub fn frames_at(&self, id: LocationId) -> &[Frame] {
        self.frames
            .get(self.location(id).frames.range())
            .unwrap_or_default()
    }

    /// Whether a location's address is in the build of the file that its
    /// outermost function refers to, and not in another build (see
    /// `other_builds`).
    pub fn is_of_known_build(&self, id: LocationId) -> bool {
        let known = self.frames_at(id).last();
        let known = known.map(|frame| self.function(frame.function).dso);
        let location = self.location(id);
        let own = *self.other_builds.get(&id).unwrap_or(&location.dso);
        self.other_builds.is_empty() || known == Some(own)
    }

    /// The function of a handle.
    pub fn function(&self, id: FunctionId) -> &Function {
        self.functions
            .get(id.0 as usize)
            .expect("a function of this profile")
    }

    /// The dso of a handle.
    pub fn dso(&self, id: DsoId) -> &Dso {
        self.dsos.get(id.0 as usize).expect("a dso of this profile")
    }

    /// The task of a handle.
    pub fn task(&self, id: TaskId) -> &Task {
        self.tasks
            .get(id.0 as usize)
            .expect("a task of this profile")
    }

    /// The thread with this id, the last one that had it.
    pub fn thread(&self, tid: i32) -> Option<&Thread> {
        let at = self.threads.binary_search_by_key(&tid, |thread| thread.tid);
        self.threads.get(at.ok()?)
    }

    /// A thread under its last name: a program's name is set when it is
    /// executed, and the thread may have samples under another name before
    /// that.
    pub fn last_task(&self, tid: i32) -> Option<TaskId> {
        let named = self.thread(tid).map(|thread| thread.comm);
        let is_it = |task: &Task| task.tid == tid;
        let is_last = |task: &Task| is_it(task) && Some(task.comm) == named;
        let tasks = || self.tasks.iter();
        let at = tasks().rposition(is_last);
        let at = at.or_else(|| tasks().rposition(is_it))?;
        u32::try_from(at).ok().map(TaskId)
    }

    /// The last name of a thread, also of one without samples: programs often have
    /// a first thread that only waits.
    pub fn last_name(&self, tid: i32) -> Option<NameId> {
        let sampled = self.last_task(tid).map(|id| self.task(id).comm);
        let told = || self.thread(tid).map(|thread| thread.comm);
        sampled
            .or_else(told)
            .filter(|&name| !self.name(name).is_empty())
    }

    /// [`Profile::last_task`] of each thread id.
    pub fn last_tasks(&self) -> FxHashMap<i32, TaskId> {
        let all = (0..).map(TaskId).zip(&self.tasks);
        let named = |task: &Task| self.thread(task.tid).map(|thread| thread.comm);
        let last = all
            .clone()
            .filter(|(_, task)| named(task) == Some(task.comm));
        let by_id = all.chain(last).map(|(id, task)| (task.tid, id));
        by_id.collect()
    }

    /// The text of a handle.
    pub fn name(&self, id: NameId) -> &str {
        self.names.get(id)
    }
}

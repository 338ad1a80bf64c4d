//! A profile put together from names.
//!
//! Texts are interned once, by who reads them, and named by their handles: a
//! file in which a million places share one long name costs that name once.

use crate::{ImportError, MOST_ROWS, MOST_SAMPLES};
use prof_abi::CpuMode;
use prof_profile::{
    Dso, DsoId, DsoKind, Event, EventId, FileOffset, Frame, FrameRange, Function, FunctionId,
    Location, LocationId, NameId, Profile, Sample, StackId, Svma, Task, TaskId, Thread,
    UnnamedReason, Wait, WaitId,
};
use rustc_hash::FxHashMap;

/// A function with the line that runs in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Call {
    /// `None` if it has no name.
    pub(crate) name: Option<NameId>,
    /// Source file, if told.
    pub(crate) file: Option<NameId>,
    pub(crate) line: u32,
}

/// Where something ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct DsoAddress {
    pub(crate) dso: DsoId,
    pub(crate) address: u64,
}

/// A profile under construction.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    pub(crate) profile: Profile,
    dsos: FxHashMap<NameId, DsoId>,
    tasks: FxHashMap<Task, TaskId>,
    functions: FxHashMap<(NameId, DsoId), FunctionId>,
    locations: FxHashMap<(DsoAddress, Box<[Call]>), LocationId>,
    events: FxHashMap<String, EventId>,
    /// Whether there were more samples than are read.
    rows_refused: bool,
}

/// Samples taken together.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sum {
    /// What they weigh together.
    pub(crate) period: u64,
    /// How many they are.
    pub(crate) count: u64,
}

/// Frames of a stack that are read at most, inlined ones counted in: four times
/// as many as a recording has room for. A few bytes can name millions.
const DEEPEST: u32 = 32 << 10;

/// What waits are an event of, as recordings have it.
const OFF_CPU_EVENT: &str = "offcpu-time";

impl Builder {
    /// The handle of a text; none of an empty one.
    pub(crate) fn name(&mut self, text: &str) -> Option<NameId> {
        (!text.is_empty()).then(|| self.profile.names.intern(text))
    }

    /// The event of a name, made if there is none; `is_time` if its weight is ns.
    pub(crate) fn event(&mut self, name: &str, is_time: bool) -> EventId {
        if let Some(&known) = self.events.get(name) {
            return known;
        }
        let id = EventId(u16::try_from(self.profile.events.len()).unwrap_or(u16::MAX));
        self.profile.events.push(Event {
            name: name.into(),
            weight_is_ns: is_time,
            is_off_cpu: is_time && name == OFF_CPU_EVENT,
            has_callchain: true,
            asked: 0,
            ..Event::default()
        });
        self.events.insert(name.into(), id);
        id
    }

    /// The dso of a path or of a name in brackets; `None` for none.
    pub(crate) fn dso(&mut self, path: Option<NameId>) -> DsoId {
        let long = path.unwrap_or_else(|| self.profile.names.intern("[unknown]"));
        if let Some(&known) = self.dsos.get(&long) {
            return known;
        }
        let path = self.profile.name(long).to_owned();
        let path = &*path;
        let kind = match path {
            "[unknown]" => DsoKind::Unknown,
            "[vdso]" => DsoKind::Vdso,
            "[guest.kernel.kallsyms]" => DsoKind::GuestKernel,
            _ if path.starts_with("[kernel") => DsoKind::Kernel,
            _ if path.starts_with("[bpf") => DsoKind::KernelSymbol,
            "//anon" | "[anon]" | "[JIT]" => DsoKind::Jit,
            _ if path.starts_with("/tmp/perf-") => DsoKind::Jit,
            _ if path.starts_with('[') => DsoKind::KernelModule,
            _ if path.ends_with(".ko") || path.contains(".ko.") => DsoKind::KernelModule,
            _ => DsoKind::File,
        };
        let short = match kind {
            DsoKind::File => path.rsplit('/').next().unwrap_or(path),
            _ => path,
        };
        let dso = Dso {
            kind,
            path: long,
            short_name: self.profile.names.intern(short),
            beside_address: long,
            build_id: None,
            symbols_from: None,
        };
        self.profile.dsos.push(dso);
        let id = DsoId(self.profile.dsos.len() as u32 - 1);
        self.dsos.insert(long, id);
        id
    }

    /// A thread under one name.
    pub(crate) fn task(&mut self, pid: i32, tid: i32, comm: Option<NameId>) -> TaskId {
        let comm = comm.unwrap_or_else(|| self.profile.names.intern(""));
        let task = Task { pid, tid, comm };
        let tasks = &mut self.profile.tasks;
        *self.tasks.entry(task).or_insert_with(|| {
            tasks.push(task);
            TaskId(tasks.len() as u32 - 1)
        })
    }

    /// Drops all threads: no sample may name one any more.
    pub(crate) fn forget_tasks(&mut self) {
        self.profile.tasks.clear();
        self.tasks.clear();
    }

    fn mode(&self, dso: DsoId) -> CpuMode {
        match self.profile.dso(dso).kind {
            DsoKind::Kernel | DsoKind::KernelModule | DsoKind::KernelSymbol => CpuMode::Kernel,
            DsoKind::GuestKernel => CpuMode::GuestKernel,
            _ => CpuMode::User,
        }
    }

    fn function(&mut self, name: Option<NameId>, place: DsoAddress) -> FunctionId {
        let unnamed = name.is_none();
        let name = name.unwrap_or_else(|| {
            let dso = self.profile.name(self.profile.dso(place.dso).short_name);
            let name = format!("{dso}+{:#x}", place.address);
            self.profile.names.intern(&name)
        });
        let key = (name, place.dso);
        if let Some(&known) = self.functions.get(&key) {
            return known;
        }
        let function = Function {
            name,
            dso: place.dso,
            start: Svma(place.address),
            size: 0,
            mode: self.mode(place.dso),
            unnamed: unnamed.then_some(UnnamedReason::NoSymbolThere),
            defined_at: None,
        };
        self.profile.functions.push(function);
        let id = FunctionId(self.profile.functions.len() as u32 - 1);
        self.functions.insert(key, id);
        id
    }

    /// A location of calls, the innermost first: all but the last are inlined.
    pub(crate) fn location(&mut self, place: DsoAddress, calls: &[Call]) -> LocationId {
        let calls = if calls.is_empty() {
            &[Call::default()]
        } else {
            calls
        };
        let key = (place, Box::from(calls));
        if let Some(&known) = self.locations.get(&key) {
            return known;
        }
        let start = self.profile.frames.len() as u32;
        for (depth, call) in calls.iter().enumerate() {
            let function = self.function(call.name, place);
            self.profile.frames.push(Frame {
                function,
                file: call.file,
                line: call.line,
                is_inline: depth + 1 < calls.len(),
            });
        }
        self.profile.locations.push(Location {
            mode: self.mode(place.dso),
            dso: place.dso,
            address: Svma(place.address),
            file_offset: FileOffset(place.address),
            is_return: false,
            branch: None,
            frames: FrameRange {
                start,
                len: calls.len() as u32,
            },
        });
        let id = LocationId(self.profile.locations.len() as u32 - 1);
        self.locations.insert(key, id);
        id
    }

    /// The stack of locations that come outermost first.
    pub(crate) fn stack(&mut self, locations: impl Iterator<Item = LocationId>) -> StackId {
        let stacks = &mut self.profile.stacks;
        locations.fold(StackId::EMPTY, |caller, id| stacks.push(caller, id))
    }

    /// Adds `count` samples that weigh `sample.period` together; as one, where
    /// there are too many.
    pub(crate) fn samples(&mut self, sample: Sample, count: u64) {
        let made = self.profile.samples.len() as u64;
        self.rows_refused |= made >= MOST_ROWS;
        if self.rows_refused {
            return;
        }
        let count = match count.max(1) {
            count if made.saturating_add(count) <= MOST_SAMPLES => count,
            _ => 1,
        };
        let wait = self.wait_of(sample.event);
        let sample = Sample { wait, ..sample };
        let (share, rest) = (sample.period / count, sample.period % count);
        for index in 0..count {
            let period = share + u64::from(index < rest);
            self.profile.samples.push(Sample { period, ..sample });
        }
        if let Some(event) = self.profile.events.get_mut(usize::from(sample.event.0)) {
            event.samples += count;
            event.period = event.period.saturating_add(sample.period);
        }
        self.profile.trust.samples += count;
    }

    /// [`Builder::samples`] of which no time is told.
    pub(crate) fn untimed(&mut self, event: EventId, task: TaskId, stack: StackId, sum: Sum) {
        let sample = Sample {
            time: 0,
            period: sum.period,
            task,
            stack,
            cpu: None,
            event,
            wait: None,
        };
        self.samples(sample, sum.count);
    }

    /// What is known of a wait, where an event is of those: nothing.
    fn wait_of(&mut self, event: EventId) -> Option<WaitId> {
        let event = self.profile.events.get(usize::from(event.0))?;
        let wait = Wait {
            stands_for: Wait::ITSELF,
            ..Wait::default()
        };
        let is_wait = event.is_off_cpu;
        is_wait.then(|| self.profile.samples.wait_id(wait))
    }

    /// Frames of the deepest stack, inlined ones counted in.
    fn deepest(&self) -> u32 {
        let stacks = &self.profile.stacks;
        let mut depths = vec![0_u32; stacks.len()];
        // Callers stand before their callees.
        for id in 0..stacks.len() {
            let Some((caller, location)) = stacks.get(StackId(id as u32)) else {
                continue;
            };
            let above = depths.get(caller.0 as usize).copied().unwrap_or(0);
            let frames = self.profile.frames_at(location).len() as u32;
            if let Some(depth) = depths.get_mut(id) {
                *depth = above.saturating_add(frames);
            }
        }
        depths.into_iter().max().unwrap_or(0)
    }

    /// The profile, whole.
    pub(crate) fn finish(mut self, format: &'static str) -> Result<Profile, ImportError> {
        if self.rows_refused {
            return Err(ImportError::TooMany { format });
        }
        if self.profile.samples.is_empty() {
            return Err(ImportError::Empty { format });
        }
        if self.deepest() > DEEPEST {
            return Err(ImportError::TooMany { format });
        }
        self.profile.stacks.freeze();
        let tasks = self.profile.tasks.iter();
        let mut threads: Vec<Thread> = tasks
            .map(|task| Thread {
                tid: task.tid,
                pid: task.pid,
                parent: None,
                comm: task.comm,
            })
            .collect();
        threads.sort_by_key(|thread| thread.tid);
        threads.dedup_by_key(|thread| thread.tid);
        self.profile.threads = threads;
        let times = self.profile.samples.times();
        let range = times.fold(None, |range: Option<(u64, u64)>, time| {
            let (first, last) = range.unwrap_or((time, time));
            Some((first.min(time), last.max(time)))
        });
        self.profile.origin.time_range = range.filter(|&(_, last)| last > 0);
        Ok(self.profile)
    }
}

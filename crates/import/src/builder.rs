//! A profile put together from names.

use crate::{ImportError, MOST_SAMPLES};
use prof_abi::CpuMode;
use prof_profile::{
    Dso, DsoId, DsoKind, Event, EventId, FileOffset, Frame, FrameRange, Function, FunctionId,
    Location, LocationId, Profile, Sample, StackId, Svma, Task, TaskId, Thread, UnnamedReason,
};
use rustc_hash::FxHashMap;

/// A function with the line that runs in it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call<'t> {
    /// Empty if it has no name.
    pub(crate) name: &'t str,
    /// Source file; empty if not told.
    pub(crate) file: &'t str,
    pub(crate) line: u32,
}

/// Where something ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Place {
    pub(crate) dso: DsoId,
    pub(crate) address: u64,
}

/// A profile under construction.
#[derive(Debug, Default)]
pub(crate) struct Builder {
    pub(crate) profile: Profile,
    dsos: FxHashMap<String, DsoId>,
    tasks: FxHashMap<(i32, i32, String), TaskId>,
    functions: FxHashMap<(String, DsoId), FunctionId>,
    locations: FxHashMap<(Place, String), LocationId>,
    events: FxHashMap<String, EventId>,
}

impl Builder {
    pub(crate) fn event(&mut self, name: &str, is_time: bool) -> EventId {
        if let Some(&known) = self.events.get(name) {
            return known;
        }
        let id = EventId(u16::try_from(self.profile.events.len()).unwrap_or(u16::MAX));
        self.profile.events.push(Event {
            name: name.into(),
            weight_is_ns: is_time,
            has_callchain: true,
            asked: 0,
            ..Event::default()
        });
        self.events.insert(name.into(), id);
        id
    }

    /// The dso of a path or of a name in brackets.
    pub(crate) fn dso(&mut self, path: &str) -> DsoId {
        let path = if path.is_empty() { "[unknown]" } else { path };
        if let Some(&known) = self.dsos.get(path) {
            return known;
        }
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
        let names = &mut self.profile.names;
        let long = names.intern(path);
        let dso = Dso {
            kind,
            path: long,
            short_name: names.intern(short),
            beside_address: long,
            build_id: None,
            symbols_from: None,
        };
        self.profile.dsos.push(dso);
        let id = DsoId(self.profile.dsos.len() as u32 - 1);
        self.dsos.insert(path.into(), id);
        id
    }

    pub(crate) fn task(&mut self, pid: i32, tid: i32, comm: &str) -> TaskId {
        let key = (pid, tid, comm.to_owned());
        if let Some(&known) = self.tasks.get(&key) {
            return known;
        }
        let comm = self.profile.names.intern(comm);
        self.profile.tasks.push(Task { pid, tid, comm });
        let id = TaskId(self.profile.tasks.len() as u32 - 1);
        self.tasks.insert(key, id);
        id
    }

    fn mode(&self, dso: DsoId) -> CpuMode {
        match self.profile.dso(dso).kind {
            DsoKind::Kernel | DsoKind::KernelModule | DsoKind::KernelSymbol => CpuMode::Kernel,
            DsoKind::GuestKernel => CpuMode::GuestKernel,
            _ => CpuMode::User,
        }
    }

    fn function(&mut self, name: &str, place: Place) -> FunctionId {
        let unnamed = name.is_empty();
        let name = match unnamed {
            true => {
                let dso = self.profile.name(self.profile.dso(place.dso).short_name);
                format!("{dso}+{:#x}", place.address)
            }
            false => name.to_owned(),
        };
        let key = (name, place.dso);
        if let Some(&known) = self.functions.get(&key) {
            return known;
        }
        let function = Function {
            name: self.profile.names.intern(&key.0),
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
    pub(crate) fn location(&mut self, place: Place, calls: &[Call<'_>]) -> LocationId {
        let mut key = String::new();
        for call in calls {
            key += &format!("{}\0{}\0{}\0", call.name, call.file, call.line);
        }
        let key = (place, key);
        if let Some(&known) = self.locations.get(&key) {
            return known;
        }
        let none = [Call {
            name: "",
            file: "",
            line: 0,
        }];
        let calls = if calls.is_empty() { &none } else { calls };
        let start = self.profile.frames.len() as u32;
        for (depth, call) in calls.iter().enumerate() {
            let function = self.function(call.name, place);
            let names = &mut self.profile.names;
            let file = (!call.file.is_empty()).then(|| names.intern(call.file));
            self.profile.frames.push(Frame {
                function,
                file,
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
        let count = match count.max(1) {
            count if made.saturating_add(count) <= MOST_SAMPLES => count,
            _ => 1,
        };
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

    /// The profile, whole.
    pub(crate) fn finish(mut self, format: &'static str) -> Result<Profile, ImportError> {
        if self.profile.samples.is_empty() {
            return Err(ImportError::Empty { format });
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

//! Profiles drawn by hand, for the tests of the views.
//!
//! You give stacks as text, or bytes that proptest made up; you get a
//! [`Profile`]. Tests that try something many times have [`Random`]. Nothing that
//! is shipped depends on this crate.
//!
//! ```
//! let mut sketch = prof_sketch::Sketch::new();
//! let app = sketch.task(7, 7, "app");
//! sketch.sample(app, "main;libc.so:malloc", 0, 1);
//! assert_eq!(sketch.profile.samples.len(), 1);
//! ```

mod chance;

pub use chance::Random;
use prof_abi::CpuMode;
use prof_profile::{
    Dso, DsoId, DsoKind, Event, EventId, FileOffset, Frame, FrameRange, Function, FunctionId,
    Location, LocationId, Profile, Sample, StackId, Svma, Task, TaskId,
};
use proptest::prelude::*;

/// A profile under construction.
#[derive(Debug, Default)]
pub struct Sketch {
    /// What is drawn so far.
    pub profile: Profile,
}

impl Sketch {
    /// One event, `cpu-clock`.
    pub fn new() -> Self {
        let mut sketch = Self::default();
        sketch.profile.events.push(Event {
            name: "cpu-clock".into(),
            has_callchain: true,
            ..Event::default()
        });
        sketch
    }

    /// The dso of this path, added if it is not there yet.
    pub fn dso(&mut self, path: &str, kind: DsoKind) -> DsoId {
        let short = path.rsplit('/').next().unwrap_or(path);
        let dso = Dso {
            kind,
            path: self.profile.names.intern(path),
            short_name: self.profile.names.intern(short),
            beside_address: self.profile.names.intern(path),
            build_id: None,
            symbols_from: None,
        };
        let found = self.profile.dsos.iter().position(|other| *other == dso);
        DsoId(found.unwrap_or_else(|| {
            self.profile.dsos.push(dso);
            self.profile.dsos.len() - 1
        }) as u32)
    }

    /// The thread of these numbers and this name, added if it is not there yet.
    pub fn task(&mut self, pid: i32, tid: i32, comm: &str) -> TaskId {
        let comm = self.profile.names.intern(comm);
        let task = Task { pid, tid, comm };
        let found = self.profile.tasks.iter().position(|other| *other == task);
        TaskId(found.unwrap_or_else(|| {
            self.profile.tasks.push(task);
            self.profile.tasks.len() - 1
        }) as u32)
    }

    fn function(&mut self, dso: DsoId, name: &str) -> FunctionId {
        let text = self.profile.names.intern(name);
        let kernel = matches!(
            self.profile.dso(dso).kind,
            DsoKind::Kernel | DsoKind::KernelModule
        );
        let found = self
            .profile
            .functions
            .iter()
            .position(|function| function.name == text && function.dso == dso);
        FunctionId(found.unwrap_or_else(|| {
            let start = 0x1000 + 0x100 * self.profile.functions.len() as u64;
            self.profile.functions.push(Function {
                name: text,
                dso,
                start: Svma(start),
                size: 0x100,
                mode: if kernel {
                    CpuMode::Kernel
                } else {
                    CpuMode::User
                },
                unnamed: None,
                defined_at: None,
            });
            self.profile.functions.len() - 1
        }) as u32)
    }

    /// A location with the functions `names`, outermost first; all but the
    /// first are inlined.
    pub fn location(&mut self, dso: DsoId, names: &[&str]) -> LocationId {
        let start = self.profile.frames.len() as u32;
        let mut host = None;
        let mut frames: Vec<Frame> = Vec::new();
        for (index, name) in names.iter().enumerate() {
            let function = self.function(dso, name);
            host.get_or_insert(function);
            frames.push(Frame {
                function,
                file: None,
                line: 0,
                is_inline: index > 0,
            });
        }
        self.profile.frames.extend(frames.into_iter().rev());
        let host = host.expect("a location has a frame");
        let function = *self.profile.function(host);
        self.profile.locations.push(Location {
            mode: function.mode,
            dso,
            address: function.start,
            file_offset: FileOffset(function.start.0),
            is_return: false,
            frames: FrameRange {
                start,
                len: names.len() as u32,
            },
            branch: None,
        });
        LocationId(self.profile.locations.len() as u32 - 1)
    }

    /// A stack written as `dso:outer;dso:inner`; `a>b` is `b` inlined in `a`;
    /// a dso `[kernel.kallsyms]` is the kernel.
    pub fn stack(&mut self, text: &str) -> StackId {
        let mut stack = StackId::EMPTY;
        for part in text.split(';').filter(|part| !part.is_empty()) {
            let (dso, names) = part.split_once(':').unwrap_or(("app", part));
            let kind = if dso == "[kernel.kallsyms]" {
                DsoKind::Kernel
            } else {
                DsoKind::File
            };
            let dso = self.dso(dso, kind);
            let names: Vec<&str> = names.split('>').collect();
            let location = self.location(dso, &names);
            stack = self.profile.stacks.push(stack, location);
        }
        stack
    }

    /// Adds a sample of `stack` (see [`Self::stack`]) at `time`, in ns, that
    /// stands for `period` events.
    pub fn sample(&mut self, task: TaskId, stack: &str, time: u64, period: u64) {
        let stack = self.stack(stack);
        self.profile.samples.push(Sample {
            time,
            period,
            task,
            stack,
            cpu: Some((time % 2) as u32),
            event: EventId(0),
            wait: None,
        });
        let event = self.profile.events.first_mut().expect("made by new");
        event.samples += 1;
        event.period = event.period.saturating_add(period);
        self.profile.trust.samples += 1;
    }
}

/// A sample made of bytes: its thread, its frames from the outermost, its
/// period.
pub type Drawn = (u8, Vec<u8>, u8);

/// Up to 23 samples of up to five frames.
pub fn samples() -> impl Strategy<Value = Vec<Drawn>> {
    let stack = prop::collection::vec(any::<u8>(), 1..6);
    prop::collection::vec((any::<u8>(), stack, 1_u8..), 0..24)
}

/// The profile of `samples`: three threads of two processes, user and kernel
/// frames of a few functions, some of them inlined.
pub fn profile(samples: &[Drawn]) -> Profile {
    let mut sketch = Sketch::new();
    for (time, (task, stack, period)) in samples.iter().enumerate() {
        let tid = 10 + i32::from(task % 3);
        let comm = ["sh", "app"][usize::from(task % 2)];
        let pid = if tid < 12 { 10 } else { 12 };
        let task = sketch.task(pid, tid, comm);
        let frames: Vec<String> = stack.iter().map(|&byte| frame(byte)).collect();
        sketch.sample(task, &frames.join(";"), time as u64 + 1, u64::from(*period));
    }
    sketch.profile
}

fn frame(byte: u8) -> String {
    let name = (b'a' + byte % 6) as char;
    match byte % 11 {
        0 => format!("lib.so:{name}"),
        1 => format!("app:{name}>x"),
        2 => format!("[kernel.kallsyms]:{name}"),
        _ => format!("app:{name}"),
    }
}

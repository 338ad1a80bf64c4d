//! Times when threads did not run: what they waited for, and how that is known.

use crate::{Avma, DsoId, NameId, StackId, TaskId};

/// What kept a thread from running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum WaitState {
    /// Not known.
    #[default]
    Unknown,
    /// It waited for something. If wake-ups were not recorded, this includes
    /// the wait for a CPU after being woken.
    Blocked,
    /// It was ready to run, but another thread got its CPU.
    Preempted,
    /// It was woken and waited for a CPU.
    Woken,
    /// It was created and waited for its first CPU.
    Started,
}

impl WaitState {
    const ALL: [(u8, Self, &'static str); 5] = [
        (0, Self::Unknown, "unknown"),
        (1, Self::Blocked, "blocked"),
        (2, Self::Preempted, "preempted"),
        (3, Self::Woken, "woken"),
        (4, Self::Started, "started"),
    ];

    /// Whether it was ready to run and waited for a CPU.
    pub fn is_runnable(self) -> bool {
        matches!(self, Self::Preempted | Self::Woken | Self::Started)
    }

    /// Its number in recordings.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// By its number in recordings; [`WaitState::Unknown`] if there is none.
    pub fn from_code(code: u8) -> Self {
        let found = Self::ALL.iter().find(|state| state.0 == code);
        found.map_or(Self::Unknown, |state| state.1)
    }

    /// In lower case.
    pub fn text(self) -> &'static str {
        let found = Self::ALL.iter().find(|state| state.1 == self);
        found.map_or("unknown", |state| state.2)
    }
}

/// Where the stack of a wait is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum StackSource {
    /// There is none.
    #[default]
    None,
    /// The kernel took it when the thread left its CPU.
    Switch,
    /// The recorder read it while the thread slept; switch records confirm that
    /// it did not run meanwhile.
    Sleeping,
    /// The kernel took it when the thread entered the system call in which it
    /// then waited.
    SystemCall,
    /// That of the thread's nearest CPU sample, which is only near the place.
    NearestSample,
    /// None was taken, but the thread had not run yet: it is the function with
    /// which the kernel has each begin.
    NotRunYet,
}

impl StackSource {
    const ALL: [(u8, Self, &'static str); 6] = [
        (0, Self::None, "none"),
        (1, Self::Switch, "switch"),
        (2, Self::Sleeping, "sleeping"),
        (3, Self::SystemCall, "system call"),
        (4, Self::NearestSample, "nearest sample"),
        (5, Self::NotRunYet, "not run yet"),
    ];

    /// Its number in recordings.
    pub fn code(self) -> u8 {
        self as u8
    }

    /// By its number in recordings; [`StackSource::None`] if there is none.
    pub fn from_code(code: u8) -> Self {
        let found = Self::ALL.iter().find(|source| source.0 == code);
        found.map_or(Self::None, |source| source.1)
    }

    /// In lower case.
    pub fn text(self) -> &'static str {
        let found = Self::ALL.iter().find(|source| source.1 == self);
        found.map_or("none", |source| source.2)
    }
}

/// Declares the kinds: number in recordings, variant, text.
macro_rules! kinds {
    ($($(#[$doc:meta])* $code:literal $kind:ident $text:literal;)*) => {
        /// What kind of thing a thread waited for.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
        #[repr(u8)]
        pub enum WaitKind {
            $($(#[$doc])* $kind = $code,)*
        }

        impl WaitKind {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$kind,)*];

            /// Its number in recordings.
            pub fn code(self) -> u8 {
                self as u8
            }

            /// In lower case.
            pub fn text(self) -> &'static str {
                match self {
                    $(Self::$kind => $text,)*
                }
            }
        }
    };
}

kinds! {
    /// Nothing tells.
    #[default]
    0 Unknown "unknown";
    /// A CPU: nothing else kept it from running.
    1 Cpu "CPU";
    /// A futex: mutexes, condition variables, joins.
    2 Futex "futex";
    /// poll, select, epoll.
    3 Poll "poll";
    /// A time.
    4 Sleep "sleep";
    /// The end of a child.
    5 Child "child";
    /// A pipe or FIFO.
    6 Pipe "pipe";
    /// A socket.
    7 Socket "socket";
    /// Reading a file.
    8 FileRead "file read";
    /// Writing a file.
    9 FileWrite "file write";
    /// fsync and its like.
    10 FileSync "file sync";
    /// A terminal.
    11 Terminal "terminal";
    /// Memory: a page fault.
    12 PageFault "page fault";
    /// io_uring, or asynchronous I/O.
    13 AsyncIo "async I/O";
    /// A signal.
    14 Signal "signal";
    /// A lock inside the kernel.
    15 KernelLock "kernel lock";
    /// A lock on a file.
    16 FileLock "file lock";
    /// eventfd, timerfd, inotify and other descriptors.
    17 Descriptor "descriptor";
    /// System V or POSIX messages and semaphores.
    18 Ipc "ipc";
    /// A child of vfork that has not started its program yet.
    19 Vfork "vfork";
    /// A kernel thread's work.
    20 KernelThread "kernel thread";
    /// A system call that is none of these.
    21 SystemCall "system call";
}

impl WaitKind {
    /// By its number in recordings; [`WaitKind::Unknown`] if there is none.
    pub fn from_code(code: u8) -> Self {
        let known = Self::ALL.get(usize::from(code)).copied();
        known.unwrap_or_default()
    }
}

/// Which waits the period of a wait's sample covers, where waits are sampled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Counted {
    /// Its own time, and that of the waits it stands for.
    #[default]
    ByItself,
    /// Nothing: waits chosen at random stand for it. It has no stack, and its
    /// length is kept apart ([`crate::Samples::wait_length`]).
    ByOthers,
    /// The time of waits for which no chosen one stands; the row itself is no
    /// wait.
    ForOthers,
}

/// The properties of a wait besides thread, time, length and stack. Equal ones
/// are stored once: see [`crate::Sample::wait`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Wait {
    /// What kept the thread from running.
    pub state: WaitState,
    /// What it waited for.
    pub kind: WaitKind,
    /// Where its stack is from.
    pub source: StackSource,
    /// It began before the recording; only the part within it is counted.
    pub began_before: bool,
    /// It was not over when the recording ended.
    pub is_open: bool,
    /// The kernel dropped records meanwhile: the thread may have run.
    pub is_unsure: bool,
    /// The number of the system call, where it is known.
    pub syscall: Option<u16>,
    /// How many waits of its kind and stack it stands for, in 64ths: its
    /// sample's period is its length times this.
    pub stands_for: u32,
    /// Which waits its period covers.
    pub counted: Counted,
    /// Of a wait for a futex: which one, where that is known.
    pub futex: Option<FutexId>,
    /// For a wait for a mutex: the tid of the thread seen to hold it, looked up
    /// once during the wait. The stack must prove that the futex is a mutex.
    pub holder: Option<i32>,
}

/// Index in `Profile::futexes`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FutexId(pub u32);

/// A word in memory that threads waited at: (part of) a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Futex {
    /// The process.
    pub pid: i32,
    /// Where in its memory.
    pub address: Avma,
    /// The variable that contains it; `None` on heaps and stacks, where none
    /// has a name.
    pub variable: Option<Variable>,
}

/// A variable of a file's symbol table, and an offset in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variable {
    /// The file.
    pub dso: DsoId,
    /// The variable.
    pub name: NameId,
    /// Bytes from its beginning.
    pub offset: u64,
}

/// A wake-up: one thread made another one runnable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wake {
    /// When, ns on the recording's clock.
    pub time: u64,
    /// The thread that had waited.
    pub woken: i32,
    /// The task that was running there.
    pub task: TaskId,
    /// Where.
    pub stack: StackId,
    /// It was done by an interrupt (timer, disk, network), so the task that ran
    /// there is not its cause.
    pub in_interrupt: bool,
}

impl Wait {
    /// Value of `stands_for` of a wait that stands for itself only.
    pub const ITSELF: u32 = 64;

    /// Its state and kind: `blocked: futex`, `for a CPU: preempted`.
    pub fn words(&self) -> String {
        match (self.state, self.kind) {
            (state, _) if state.is_runnable() => format!("for a CPU: {}", state.text()),
            (state, WaitKind::Unknown) => state.text().to_owned(),
            (WaitState::Unknown, kind) => kind.text().to_owned(),
            (_, kind) => format!("blocked: {}", kind.text()),
        }
    }

    /// How many waits its period covers, in 64ths; see [`Wait::counted`].
    pub fn times(&self) -> u64 {
        match self.stands_for {
            0 => u64::from(Self::ITSELF),
            times => u64::from(times),
        }
    }

    /// Its length in ns, computed from the period of its sample; 0 if others
    /// count it, since only [`crate::Samples::wait_length`] knows it then.
    pub fn length(&self, period: u64) -> u64 {
        match (self.counted, self.stands_for) {
            (Counted::ByOthers | Counted::ForOthers, _) => 0,
            (Counted::ByItself, 0 | Self::ITSELF) => period,
            (Counted::ByItself, times) => {
                let length = u128::from(period) * u128::from(Self::ITSELF) / u128::from(times);
                u64::try_from(length).unwrap_or(u64::MAX)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{StackSource, Wait, WaitKind, WaitState};

    #[test]
    fn numbers_of_recordings_lead_back() {
        for (code, state, _) in WaitState::ALL {
            assert_eq!((state.code(), WaitState::from_code(code)), (code, state));
        }
        for (code, source, _) in StackSource::ALL {
            let found = StackSource::from_code(code);
            assert_eq!((source.code(), found), (code, source));
        }
        for &kind in WaitKind::ALL {
            assert_eq!(WaitKind::from_code(kind.code()), kind);
        }
        assert_eq!(WaitKind::from_code(200), WaitKind::Unknown);
    }

    #[test]
    fn a_period_is_the_length_of_all_it_stands_for() {
        let wait = Wait {
            stands_for: 10 * Wait::ITSELF,
            ..Wait::default()
        };
        assert_eq!(wait.length(5000), 500);
        assert_eq!(Wait::default().length(5000), 5000);
    }
}

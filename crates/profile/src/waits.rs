//! Times when threads did not run: what they waited for, and how that is known.

use crate::{Avma, DsoId, NameId, StackId, TaskId};

/// What kept a thread from running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum WaitState {
    /// Not known.
    #[default]
    Unknown,
    /// It waited for something. Where wake-ups were not recorded, the time
    /// that it waited for a CPU after that is part of it.
    Blocked,
    /// It could have gone on, but another thread got its CPU.
    Preempted,
    /// It was woken and waited for a CPU.
    Woken,
    /// It was made and waited for its first CPU.
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

    /// Whether it only needed a CPU.
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
    /// It was read while the thread slept, and no switch record tells that it
    /// ran meanwhile.
    Sleeping,
    /// The kernel took it when the thread entered the system call in which it
    /// then waited.
    SystemCall,
    /// That of the thread's nearest CPU sample: about where it was.
    NearestSample,
}

impl StackSource {
    const ALL: [(u8, Self, &'static str); 5] = [
        (0, Self::None, "none"),
        (1, Self::Switch, "switch"),
        (2, Self::Sleeping, "sleeping"),
        (3, Self::SystemCall, "system call"),
        (4, Self::NearestSample, "nearest sample"),
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

/// Whose time the period of a wait's sample is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum Counted {
    /// Its own, and that of those it stands for.
    #[default]
    ByItself,
    /// Nobody's: others, chosen by chance, stand for it. It has no stack, and
    /// its length is told apart ([`crate::Samples::wait_length`]).
    ByOthers,
    /// That of waits that no other stands for; it is none itself.
    ForOthers,
}

/// What is known of a wait beside its thread, time, length and stack. Equal
/// ones are kept once: see [`crate::Sample::wait`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Wait {
    /// What kept the thread from running.
    pub state: WaitState,
    /// What it waited for.
    pub kind: WaitKind,
    /// Where its stack is from.
    pub source: StackSource,
    /// It had begun before the recording, which tells of its later part.
    pub began_before: bool,
    /// It was not over when the recording ended.
    pub is_open: bool,
    /// The kernel dropped records meanwhile: the thread may have run.
    pub is_unsure: bool,
    /// The number of the system call, where it is known.
    pub syscall: Option<u16>,
    /// For how many waits of its kind and stack it stands, in 64ths: the
    /// period of its sample is its length times this.
    pub stands_for: u32,
    /// Whose time its period is.
    pub counted: Counted,
    /// Of a wait for a futex: which one, where that is known.
    pub futex: Option<FutexId>,
    /// The thread that held the mutex that it waited for, by its tid, when that
    /// was looked at once while it waited. That it is a mutex is for the stack
    /// to prove.
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
    /// The variable that it is part of; `None` where none has a name: on
    /// heaps and stacks.
    pub variable: Option<Variable>,
}

/// A place in a variable that a file names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Variable {
    /// The file.
    pub dso: DsoId,
    /// The variable.
    pub name: NameId,
    /// Bytes from its beginning.
    pub offset: u64,
}

/// That a thread was made to go on by another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wake {
    /// When, ns on the recording's clock.
    pub time: u64,
    /// The thread that had waited.
    pub woken: i32,
    /// Who ran there and then.
    pub task: TaskId,
    /// Where.
    pub stack: StackId,
    /// It was done in an interrupt (a timer, a disk, the network): whoever ran
    /// there has nothing to do with it.
    pub in_interrupt: bool,
}

impl Wait {
    /// `stands_for` of a wait that stands for itself.
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

    /// For how many waits it stands, in 64ths; see [`Wait::counted`].
    pub fn times(&self) -> u64 {
        match self.stands_for {
            0 => u64::from(Self::ITSELF),
            times => u64::from(times),
        }
    }

    /// Its length, ns, by the period of its sample; 0 if others count it:
    /// [`crate::Samples::wait_length`] knows that, too.
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

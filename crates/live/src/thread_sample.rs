//! A sample that is to be unwound.

use crate::memory::Copied;
use crate::processes::Processes;
use crate::stacks::UserState;

/// A sample of a thread, and what the same drain tells of it besides.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ThreadSample<'a> {
    pub(crate) tid: i32,
    pub(crate) state: UserState<'a>,
    /// Who had what mapped at its time.
    pub(crate) processes: &'a Processes,
    /// What was read of its memory before it went on.
    pub(crate) pieces: &'a [(u64, Vec<u8>)],
    /// The pc and the return addresses that the kernel found by following
    /// frame pointers, whether or not the code keeps them.
    pub(crate) frames: &'a [u64],
    /// Words that follow from them, by address.
    pub(crate) told: &'a [(u64, u64)],
    /// Highest stack pointer among the thread's later samples of this drain,
    /// 0 if there are none: how much of the stack may have gone since.
    pub(crate) later_sp: u64,
    /// Whether its thread stood still from then on for some time.
    pub(crate) names: Naming,
}

/// What names are given to functions whose code was not seen before: its memory
/// may have been used again since the sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Naming {
    /// None: they are unknown.
    Proved,
    /// Those that are there now, in addresses that tell it: whoever takes the
    /// sample knows how long its thread stood still
    /// ([`provisional`](crate::provisional)).
    Provisional,
}

impl<'a> ThreadSample<'a> {
    /// What was copied of its memory.
    pub(crate) fn copied(&self) -> Copied<'a> {
        Copied {
            dump: self.state.dump,
            pieces: self.pieces,
            told: self.told,
        }
    }
}

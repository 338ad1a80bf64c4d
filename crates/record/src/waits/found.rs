//! What is known of a wait beside when it was, as its sample tells it.

use super::pairing::Waited;
use prof_perfdata::{Sample, WaitWord};
use prof_profile::{StackSource, WaitKind, WaitState};

/// What is known of a wait beside when it was.
pub(super) enum Found<'a> {
    Nothing,
    /// The kernel's sample of leaving.
    Switch(Sample<'a>),
    /// What was read of the sleeping thread.
    Read(Sample<'a>, WaitWord),
    /// The same where that gave no stack.
    Told {
        word: WaitWord,
        address: u64,
    },
    /// A sample of shortly before, of another event.
    Nearest(Sample<'a>),
    /// No sample, but where the kernel has tasks begin.
    NotRunYet(u64),
}

impl Found<'_> {
    /// The first argument of the system call; of none where it is in no call.
    pub(super) fn address(&self) -> u64 {
        match self {
            Self::Switch(sample) | Self::Read(sample, _) => sample.addr().unwrap_or(0),
            Self::Told { address, .. } => *address,
            Self::Nothing | Self::Nearest(_) | Self::NotRunYet(_) => 0,
        }
    }
}

/// The word of a wait.
pub(super) fn word(wait: &Waited, found: &Found<'_>) -> WaitWord {
    let (source, told) = match found {
        Found::Nothing => (StackSource::None, None),
        Found::Switch(_) => (StackSource::Switch, None),
        Found::Read(_, told) => (StackSource::Sleeping, Some(told)),
        Found::Told { word, .. } => (StackSource::None, Some(word)),
        Found::Nearest(_) => (StackSource::NearestSample, None),
        Found::NotRunYet(_) => (StackSource::NotRunYet, None),
    };
    let kind = match (wait.state.is_runnable(), told) {
        (true, _) => WaitKind::Cpu.code(),
        (false, told) => told.map_or(WaitKind::Unknown.code(), |told| told.kind),
    };
    WaitWord {
        state: wait.state.code(),
        source: source.code(),
        began_before: wait.began_before,
        is_open: wait.is_open,
        is_unsure: wait.is_unsure,
        kind,
        syscall: told.and_then(|told| told.syscall),
        stands_for: 0,
        length: None,
        holder: match wait.state {
            WaitState::Blocked => wait.holder,
            _ => None,
        },
    }
}

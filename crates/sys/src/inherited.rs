//! What this process was started with and Rust's start-up or we ourselves
//! change: a program that we launch gets it back.

use crate::limits::{Limit, Resource};
use crate::signal::SignalSet;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The state to hand on to a launched program, so that it cannot tell that we
/// stand between it and the shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inherited {
    /// Signals that were blocked.
    pub blocked: SignalSet,
    /// Signals that were ignored. Rust's start-up ignores SIGPIPE.
    pub ignored: SignalSet,
    /// Which of the descriptors 0, 1, 2 were closed. Rust's start-up opens
    /// `/dev/null` in their place.
    pub closed: [bool; 3],
    /// The limit of open files, which we raise.
    pub open_files: Option<Limit>,
}

/// A descriptor that this process was started with, by its number; a duplicate
/// that no program of ours inherits. `EBADF` if it is not open.
pub fn descriptor(number: i32) -> io::Result<OwnedFd> {
    /// Below it are the standard ones.
    const LOWEST: libc::c_int = 3;
    // SAFETY: takes numbers only, and refuses one that is not open.
    let duplicate = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, LOWEST) };
    let duplicate = crate::checked(duplicate)?;
    // SAFETY: the call succeeded, so nobody else owns the descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(duplicate) })
}

static CAPTURED: AtomicBool = AtomicBool::new(false);
static BLOCKED: AtomicU64 = AtomicU64::new(0);
static IGNORED: AtomicU64 = AtomicU64::new(0);
static CLOSED: AtomicU64 = AtomicU64::new(0);
static FILES_SOFT: AtomicU64 = AtomicU64::new(0);
static FILES_HARD: AtomicU64 = AtomicU64::new(0);

/// Runs before `main` and before Rust's own start-up.
// SAFETY: an entry of .init_array is a pointer to a function that the loader
// calls once, in the only thread; `capture` needs no Rust runtime: it makes
// system calls and stores to atomics.
#[used]
#[unsafe(link_section = ".init_array")]
static AT_START: extern "C" fn() = capture;

extern "C" fn capture() {
    let mut ignored = 0_u64;
    let mut closed = 0_u64;
    for signal in 1..32 {
        let action = crate::action::current(signal).ok();
        let action = action.map(|action| action.sa_sigaction);
        if action == Some(libc::SIG_IGN) {
            ignored |= SignalSet::of(&[signal]).0;
        }
    }
    for fd in 0..3 {
        // SAFETY: takes numbers only.
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } == -1 {
            closed |= 1 << fd;
        }
    }
    if let Ok(limit) = Limit::get(Resource::OpenFiles) {
        FILES_SOFT.store(limit.soft, Ordering::Relaxed);
        FILES_HARD.store(limit.hard, Ordering::Relaxed);
    }
    BLOCKED.store(crate::signal::blocked().0, Ordering::Relaxed);
    IGNORED.store(ignored, Ordering::Relaxed);
    CLOSED.store(closed, Ordering::Relaxed);
    // ORDERING: Release, partner is the Acquire in `Inherited::at_start`.
    CAPTURED.store(true, Ordering::Release);
}

impl Inherited {
    /// What this process was started with.
    pub fn at_start() -> Self {
        // ORDERING: Acquire, so that the values stored before are seen.
        if !CAPTURED.load(Ordering::Acquire) {
            // A loader without .init_array: what holds now is the best guess.
            capture();
        }
        let limit = Limit {
            soft: FILES_SOFT.load(Ordering::Relaxed),
            hard: FILES_HARD.load(Ordering::Relaxed),
        };
        let closed = CLOSED.load(Ordering::Relaxed);
        Self {
            blocked: SignalSet(BLOCKED.load(Ordering::Relaxed)),
            ignored: SignalSet(IGNORED.load(Ordering::Relaxed)),
            closed: [0, 1, 2].map(|fd| closed >> fd & 1 == 1),
            open_files: (limit.hard != 0).then_some(limit),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Inherited;

    #[test]
    fn the_state_is_that_before_rusts_start_up() {
        let state = Inherited::at_start();
        // The test runner of a shell has SIGPIPE at its default; std ignores
        // it only afterwards, and would be seen here if we came too late.
        if state.ignored.has(libc::SIGPIPE) {
            println!("skipped: the tests were started with SIGPIPE ignored");
        }
        assert!(state.open_files.is_some_and(|limit| limit.soft > 2));
        assert_eq!(state, Inherited::at_start());
    }
}

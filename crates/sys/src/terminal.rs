//! The user's terminal, given back when a fault ends the process.
//!
//! A program that draws on the whole terminal restores it when it ends, also
//! by a panic or a signal it handles. A fault (a file that shrank under its
//! mapping, an overflowing stack) leaves it no time for that: only a signal
//! handler of this module does, with async-signal-safe calls alone.

use crate::{action, checked};
use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Signals of faults.
const FAULTS: [libc::c_int; 5] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGILL,
    libc::SIGFPE,
    libc::SIGABRT,
];

/// Mouse reports off, main screen, cursor shown: xterm's names for them are
/// understood by every terminal that has them.
const RESTORE: &[u8] =
    b"\x1b[?1006l\x1b[?1015l\x1b[?1003l\x1b[?1002l\x1b[?1000l\x1b[?1049l\x1b[?25h\r\n";

/// What a handler restores.
struct Saved {
    modes: libc::termios,
    /// What was done on each fault before.
    actions: [(libc::c_int, libc::sigaction); FAULTS.len()],
}

static SAVED: OnceLock<Saved> = OnceLock::new();
static IS_ARMED: AtomicBool = AtomicBool::new(false);

/// While it lives, a fault restores the modes that the terminal on standard
/// output had when the first guard was made, leaves the alternate screen, and
/// then ends the process as it would have otherwise.
#[derive(Debug)]
pub struct FaultGuard(());

impl FaultGuard {
    /// Remembers the terminal's modes and installs the handlers.
    ///
    /// # Errors
    /// If standard output is no terminal, or the kernel refuses a handler.
    pub fn install() -> io::Result<Self> {
        if SAVED.get().is_none() {
            let saved = Saved {
                modes: modes_of_stdout()?,
                actions: current_actions()?,
            };
            // Another thread may have been faster with the same values.
            if SAVED.set(saved).is_ok() {
                for signal in FAULTS {
                    action::on_fault(signal, on_fault)?;
                }
            }
        }
        // ORDERING: Relaxed: the handler reads nothing else through it.
        IS_ARMED.store(true, Ordering::Relaxed);
        Ok(Self(()))
    }
}

impl Drop for FaultGuard {
    fn drop(&mut self) {
        IS_ARMED.store(false, Ordering::Relaxed);
    }
}

fn modes_of_stdout() -> io::Result<libc::termios> {
    let mut modes = MaybeUninit::<libc::termios>::uninit();
    // SAFETY: the pointer is to a termios of ours, which the call fills.
    checked(unsafe { libc::tcgetattr(libc::STDOUT_FILENO, modes.as_mut_ptr()) })?;
    // SAFETY: the call succeeded, so it was filled.
    Ok(unsafe { modes.assume_init() })
}

fn current_actions() -> io::Result<[(libc::c_int, libc::sigaction); FAULTS.len()]> {
    let mut actions = FAULTS.map(|signal| (signal, action::nothing()));
    for (signal, action) in &mut actions {
        *action = action::current(*signal)?;
    }
    Ok(actions)
}

/// Restores the terminal once, then lets the fault take its course.
extern "C" fn on_fault(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // A OnceLock that is set is read with one atomic load: no lock here.
    let Some(saved) = SAVED.get() else { return };
    if IS_ARMED.swap(false, Ordering::Relaxed) {
        // SAFETY: write and tcsetattr are async-signal-safe; buffer and modes
        // are static. Nothing can be done about a failure.
        unsafe {
            libc::write(libc::STDOUT_FILENO, RESTORE.as_ptr().cast(), RESTORE.len());
            libc::tcsetattr(libc::STDOUT_FILENO, libc::TCSANOW, &saved.modes);
        }
    }
    // SAFETY: with SA_SIGINFO the kernel passes a valid siginfo.
    let is_of_kernel = unsafe { (*info).si_code } > 0;
    let before = saved.actions.iter().find(|(number, _)| *number == signal);
    match before {
        // The instruction is run again and faults again: std's handler then
        // tells a full stack from other faults.
        // SAFETY: sigaction is async-signal-safe, and the action is one that
        // the kernel gave us.
        Some((_, action)) if is_of_kernel => unsafe {
            libc::sigaction(signal, action, ptr::null_mut());
        },
        // Sent by kill or abort: nothing would happen again by itself.
        _ => action::by_default(signal),
    }
}

#[cfg(test)]
mod tests {
    use super::FaultGuard;
    use std::io::IsTerminal;

    #[test]
    fn a_guard_needs_a_terminal() {
        if !std::io::stdout().is_terminal() {
            assert!(FaultGuard::install().is_err());
        }
    }
}

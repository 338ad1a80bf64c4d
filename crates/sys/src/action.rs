//! What is done on a signal that is a fault.

use crate::checked;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;

/// What the kernel calls with the signal, what is known of it, and the state of
/// the thread. It may make async-signal-safe calls only.
pub(crate) type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);

/// The default action, without flags.
pub(crate) fn nothing() -> libc::sigaction {
    // SAFETY: all zero is a valid sigaction.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

/// What is done on a signal now.
pub(crate) fn current(signal: libc::c_int) -> io::Result<libc::sigaction> {
    let mut action = nothing();
    // SAFETY: a null new action only asks; the old one goes to a sigaction of
    // ours.
    checked(unsafe { libc::sigaction(signal, ptr::null(), &mut action) })?;
    Ok(action)
}

/// Has `handler` called on a fault, on the alternate stack that std gives each
/// thread: the fault may be that the stack is full.
pub(crate) fn on_fault(signal: libc::c_int, handler: Handler) -> io::Result<()> {
    let mut action = nothing();
    action.sa_sigaction = handler as libc::sighandler_t;
    action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
    // SAFETY: the action is complete, and handlers make only async-signal-safe
    // calls.
    checked(unsafe { libc::sigaction(signal, &action, ptr::null_mut()) })?;
    Ok(())
}

/// Lets a signal end the process as if there were no handler. For handlers:
/// both calls are async-signal-safe.
pub(crate) fn by_default(signal: libc::c_int) {
    // SAFETY: neither takes anything but the number of a signal.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        libc::raise(signal);
    }
}

#[cfg(test)]
mod tests {
    use super::{current, nothing};

    #[test]
    fn the_default_action_has_no_handler_and_no_signal_has_number_0() {
        assert_eq!(nothing().sa_sigaction, libc::SIG_DFL);
        assert!(current(0).is_err());
        assert!(current(libc::SIGBUS).is_ok());
    }
}

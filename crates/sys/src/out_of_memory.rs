//! Memory that cannot be had.
//!
//! A Rust program that gets no memory aborts, which looks like a crash. Where
//! the address space is limited that is nobody's fault, and is said instead.

use crate::action;
use crate::limits::{Limit, Resource};
use std::io;

const MESSAGE: &[u8] = b"prof: out of memory: the address space is limited (ulimit -v)\n  \
try: a larger ulimit -v\n";
/// The exit code of a command that failed.
const FAILED: libc::c_int = 1;

/// Where the address space of this process is limited, an abort from now on
/// ends it with a message on standard error and exit code 1, and threads
/// share the allocator's memory: glibc would reserve 64 MiB for each.
///
/// # Errors
/// If the kernel refuses the handler.
pub fn explain() -> io::Result<()> {
    if !is_near() {
        return Ok(());
    }
    #[cfg(target_env = "gnu")]
    // SAFETY: sets a number of the allocator, which it checks; a refusal
    // changes nothing.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
    action::on_fault(libc::SIGABRT, on_abort)
}

/// Whether memory may be had no more although the machine has it: the address
/// space is limited.
pub fn is_near() -> bool {
    Limit::get(Resource::AddressSpace).is_ok_and(|limit| limit.soft != u64::MAX)
}

/// The message of a process that got no memory.
pub fn message() -> &'static str {
    std::str::from_utf8(MESSAGE).unwrap_or_default()
}

extern "C" fn on_abort(_: libc::c_int, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: write and _exit are async-signal-safe, and the message is
    // static. Nothing can be done about a failure.
    unsafe {
        libc::write(libc::STDERR_FILENO, MESSAGE.as_ptr().cast(), MESSAGE.len());
        libc::_exit(FAILED);
    }
}

#[cfg(test)]
mod tests {
    use super::{FAILED, MESSAGE};
    use crate::limits::{Limit, Resource};
    use std::process::Command;

    #[test]
    fn memory_that_cannot_be_had_ends_with_a_message() {
        let this = std::env::current_exe().expect("this program");
        let output = Command::new(this)
            .args(["--ignored", "--exact", "--nocapture"])
            .arg("out_of_memory::tests::ask_for_too_much")
            .env("RUST_BACKTRACE", "0")
            .output()
            .expect("it starts");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(FAILED), "{told}");
        assert!(told.ends_with(&*String::from_utf8_lossy(MESSAGE)), "{told}");
    }

    #[test]
    #[ignore = "ends its process; run by the test above"]
    fn ask_for_too_much() {
        let limit = Limit {
            soft: 1 << 30,
            hard: 1 << 30,
        };
        limit.set(Resource::AddressSpace).expect("a lower limit");
        super::explain().expect("a handler");
        let much = vec![1_u8; 2 << 30];
        panic!("got {} bytes", much.len());
    }
}

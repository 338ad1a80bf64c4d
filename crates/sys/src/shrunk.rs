//! Files that get shorter while they are mapped.
//!
//! A program that is built anew may be written over in place while its symbols
//! are read. A page of the mapping that the file no longer has raises SIGBUS,
//! which ends a process without a word. Here it ends with one.

use crate::action;
use std::io;

const MESSAGE: &[u8] = b"prof: a file became shorter while it was being read, such as a program \
that is just being built anew; the recording is as it was: run the command again\n";
/// The exit code of a command that failed.
const FAILED: libc::c_int = 1;

/// From now on a fault in a mapping of a file that was cut short ends the
/// process with a message on standard error and exit code 1. Where SIGBUS is
/// ignored it stays so: programs that are started inherit that.
///
/// # Errors
/// If the kernel refuses the handler.
pub fn explain() -> io::Result<()> {
    if action::current(libc::SIGBUS)?.sa_sigaction == libc::SIG_IGN {
        return Ok(());
    }
    action::on_fault(libc::SIGBUS, on_bus_error)
}

extern "C" fn on_bus_error(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: with SA_SIGINFO the kernel passes a valid siginfo.
    let is_beyond_file = unsafe { (*info).si_code } == libc::BUS_ADRERR;
    if is_beyond_file {
        // SAFETY: write and _exit are async-signal-safe, and the message is
        // static. Nothing can be done about a failure.
        unsafe {
            libc::write(libc::STDERR_FILENO, MESSAGE.as_ptr().cast(), MESSAGE.len());
            libc::_exit(FAILED);
        }
    }
    action::by_default(signal);
}

#[cfg(test)]
mod tests {
    use super::{FAILED, MESSAGE};
    use crate::page_size;
    use std::os::fd::AsRawFd;
    use std::process::Command;
    use std::ptr;

    #[test]
    fn reading_behind_the_new_end_of_a_file_ends_with_a_message() {
        let this = std::env::current_exe().expect("this program");
        let output = Command::new(this)
            .args(["--ignored", "--exact", "--nocapture"])
            .arg("shrunk::tests::read_behind_the_end")
            .output()
            .expect("it starts");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(FAILED), "{told}");
        assert!(told.contains(&*String::from_utf8_lossy(MESSAGE)), "{told}");
    }

    #[test]
    #[ignore = "ends its process; run by the test above"]
    fn read_behind_the_end() {
        super::explain().expect("a handler");
        let file = tempfile::tempfile().expect("a file");
        let length = 2 * page_size();
        file.set_len(length as u64).expect("room");
        // SAFETY: a new private mapping of a file that stays open.
        let map = unsafe {
            let (read, private) = (libc::PROT_READ, libc::MAP_PRIVATE);
            libc::mmap(ptr::null_mut(), length, read, private, file.as_raw_fd(), 0)
        };
        assert_ne!(map, libc::MAP_FAILED);
        file.set_len(0).expect("a shorter file");
        // SAFETY: within the mapping; what is behind the file's end faults,
        // which is what is tested.
        let byte = unsafe { map.cast::<u8>().read_volatile() };
        panic!("read {byte}");
    }
}

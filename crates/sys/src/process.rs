//! Other processes: their end, their memory, and a handle that cannot mean
//! another one later.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// How a child ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// With this exit code.
    Exited(i32),
    /// By this signal.
    Signaled(i32),
}

impl Ended {
    /// `SIGSEGV (segmentation fault)`, of a child that a signal ended.
    pub fn by_signal(self) -> Option<String> {
        let Self::Signaled(signal) = self else {
            return None;
        };
        let (name, what) = match signal {
            libc::SIGHUP => ("SIGHUP", "hangup"),
            libc::SIGINT => ("SIGINT", "interrupt"),
            libc::SIGQUIT => ("SIGQUIT", "quit"),
            libc::SIGILL => ("SIGILL", "illegal instruction"),
            libc::SIGTRAP => ("SIGTRAP", "trap"),
            libc::SIGABRT => ("SIGABRT", "aborted"),
            libc::SIGBUS => ("SIGBUS", "bus error"),
            libc::SIGFPE => ("SIGFPE", "arithmetic fault"),
            libc::SIGKILL => ("SIGKILL", "killed"),
            libc::SIGUSR1 => ("SIGUSR1", "user signal 1"),
            libc::SIGSEGV => ("SIGSEGV", "segmentation fault"),
            libc::SIGUSR2 => ("SIGUSR2", "user signal 2"),
            libc::SIGPIPE => ("SIGPIPE", "broken pipe"),
            libc::SIGALRM => ("SIGALRM", "alarm clock"),
            libc::SIGTERM => ("SIGTERM", "terminated"),
            libc::SIGXCPU => ("SIGXCPU", "CPU time limit"),
            libc::SIGXFSZ => ("SIGXFSZ", "file size limit"),
            libc::SIGVTALRM => ("SIGVTALRM", "virtual timer"),
            libc::SIGPROF => ("SIGPROF", "profiling timer"),
            libc::SIGSYS => ("SIGSYS", "bad system call"),
            other => return Some(format!("signal {other}")),
        };
        Some(format!("{name} ({what})"))
    }
}

/// Whether to wait for what has not happened yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// Until the child ends.
    ForEnd,
    /// Not at all.
    No,
}

/// What a child used until its end, with what it waited for itself
/// (getrusage(2)).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// CPU time in user mode.
    pub user: Duration,
    /// CPU time in the kernel.
    pub system: Duration,
    /// Most memory that one process of it had at a time, bytes. A process that
    /// was forked begins with what its parent had.
    pub peak_memory: u64,
    /// Page faults, with and without reading from a disk.
    pub page_faults: u64,
}

impl Usage {
    fn of(usage: &libc::rusage) -> Self {
        let count = |value: libc::c_long| u64::try_from(value).unwrap_or(0);
        Self {
            user: duration(usage.ru_utime),
            system: duration(usage.ru_stime),
            // The kernel tells kB.
            peak_memory: count(usage.ru_maxrss).saturating_mul(1024),
            page_faults: count(usage.ru_minflt).saturating_add(count(usage.ru_majflt)),
        }
    }
}

fn duration(time: libc::timeval) -> Duration {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let micros = u64::try_from(time.tv_usec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_micros(micros)
}

/// Most memory that a process that lives has had at a time, bytes.
///
/// Source: `VmHWM` of proc_pid_status(5).
pub(crate) fn peak_memory(pid: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let told = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kilobytes: u64 = told.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes.saturating_mul(1024))
}

/// How the child `pid` ended, `None` if it has not. `ECHILD` if it is not our
/// child.
pub fn reap(pid: u32, wait: Wait) -> io::Result<Option<Ended>> {
    Ok(reap_with_usage(pid, wait)?.map(|(ended, _)| ended))
}

/// The same, and what it used.
pub fn reap_with_usage(pid: u32, wait: Wait) -> io::Result<Option<(Ended, Usage)>> {
    let pid = libc::pid_t::try_from(pid)
        .ok()
        .filter(|&pid| pid > 0)
        .ok_or_else(|| io::Error::from_raw_os_error(libc::ECHILD))?;
    let options = match wait {
        Wait::ForEnd => 0,
        Wait::No => libc::WNOHANG,
    };
    // A status that is not fetched is lost: a refusal may be one of a moment.
    let mut tries = 0;
    loop {
        let mut status = 0;
        // SAFETY: zeros are a valid rusage.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel writes an int and a rusage to live local values.
        let reaped = unsafe { libc::wait4(pid, &raw mut status, options, &raw mut usage) };
        match crate::checked(reaped) {
            Ok(0) => return Ok(None),
            Ok(_) => {
                let ended = match libc::WIFEXITED(status) {
                    true => Ended::Exited(libc::WEXITSTATUS(status)),
                    false => Ended::Signaled(libc::WTERMSIG(status)),
                };
                return Ok(Some((ended, Usage::of(&usage))));
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) if tries < MOST_TRIES => tries += 1,
            Err(error) => return Err(error),
        }
    }
}

/// How often a wait that fails is tried again.
const MOST_TRIES: u32 = 3;

/// A process, whatever becomes of its number (pidfd_open(2)). Readable in a
/// [`PollSet`](crate::PollSet) when the process has ended.
#[derive(Debug)]
pub struct PidFd {
    fd: OwnedFd,
}

impl PidFd {
    /// `ESRCH` if there is none, `ENOSYS` before Linux 5.3.
    pub fn open(pid: u32) -> io::Result<Self> {
        // SAFETY: takes numbers only.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, libc::c_ulong::from(pid), 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        let fd = libc::c_int::try_from(fd).map_err(|_| io::ErrorKind::Other)?;
        // SAFETY: the call succeeded, so nobody else owns the descriptor.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { fd })
    }

    /// Sends it a signal; `ESRCH` if it has ended.
    pub fn send(&self, signal: i32) -> io::Result<()> {
        // SAFETY: numbers, and a null pointer for "as kill(2) would".
        let result = unsafe {
            libc::syscall(
                libc::SYS_pidfd_send_signal,
                self.fd.as_raw_fd(),
                signal,
                std::ptr::null::<libc::siginfo_t>(),
                0,
            )
        };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }
}

impl AsFd for PidFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Copies memory of another process from the address `avma` on, and says how
/// many bytes there were: fewer where the mapping ends. `EFAULT` if there are
/// none, `ESRCH` if the process is gone, `EPERM` if it may not be traced.
pub fn read_memory(pid: u32, avma: u64, bytes: &mut [u8]) -> io::Result<usize> {
    // SAFETY: so many bytes are borrowed exclusively.
    unsafe { read_into(pid, avma, bytes.as_mut_ptr(), bytes.len()) }
}

/// The same, behind what is in `bytes`, where room for `length` bytes is made:
/// nothing is written there before.
pub fn append_memory(pid: u32, avma: u64, length: usize, bytes: &mut Vec<u8>) -> io::Result<usize> {
    bytes.reserve(length);
    let room = bytes.spare_capacity_mut().as_mut_ptr();
    // SAFETY: so much was reserved, and is borrowed exclusively.
    let got = unsafe { read_into(pid, avma, room.cast(), length) }?;
    // SAFETY: the kernel has written so many bytes there, `length` at most.
    unsafe { bytes.set_len(bytes.len() + got.min(length)) };
    Ok(got)
}

/// Has the kernel write up to `length` bytes of another process to `room`.
///
/// # Safety
/// So many bytes may be written there.
unsafe fn read_into(pid: u32, avma: u64, room: *mut u8, length: usize) -> io::Result<usize> {
    let pid = libc::pid_t::try_from(pid).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))?;
    let start = usize::try_from(avma).map_err(|_| io::Error::from_raw_os_error(libc::EFAULT))?;
    let local = libc::iovec {
        iov_base: room.cast(),
        iov_len: length,
    };
    let remote = libc::iovec {
        iov_base: start as *mut libc::c_void,
        iov_len: length,
    };
    // SAFETY: the kernel writes at most `length` bytes to `room`, as the caller
    // allows; the other address is only meaningful in the other process, where
    // the kernel checks it.
    let got = unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) };
    usize::try_from(got).map_err(|_| io::Error::last_os_error())
}

/// CPU time in user mode and in the kernel of all children that were reaped,
/// and of theirs.
pub fn children_cpu_time() -> (Duration, Duration) {
    // SAFETY: zeros are a valid rusage; the kernel writes one to a live local
    // value. RUSAGE_CHILDREN is always accepted, and if not, zeros stay.
    let usage = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        libc::getrusage(libc::RUSAGE_CHILDREN, &raw mut usage);
        usage
    };
    (duration(usage.ru_utime), duration(usage.ru_stime))
}

/// Reads the 8 bytes at each of `addresses` of another process into `words`,
/// which is at least as long, and says how many came before the first that
/// cannot be read. Errors as [`read_memory`]'s.
pub fn read_words(pid: u32, addresses: &[u64], words: &mut [u64]) -> io::Result<usize> {
    /// What one call takes (`UIO_MAXIOV`).
    const MOST_PIECES: usize = 1024;
    let pid = libc::pid_t::try_from(pid).map_err(|_| io::Error::from_raw_os_error(libc::ESRCH))?;
    let count = addresses.len().min(words.len()).min(MOST_PIECES);
    let local = libc::iovec {
        iov_base: words.as_mut_ptr().cast(),
        iov_len: count * size_of::<u64>(),
    };
    let remote: Vec<libc::iovec> = addresses
        .iter()
        .take(count)
        .map(|&address| libc::iovec {
            // An address that is too wide for this machine is not readable.
            iov_base: usize::try_from(address).unwrap_or(usize::MAX) as *mut libc::c_void,
            iov_len: size_of::<u64>(),
        })
        .collect();
    // SAFETY: the kernel writes at most `count` words to `words`, which has as
    // many and is borrowed exclusively; `remote` has `count` entries, whose
    // addresses only the kernel follows, in the other process.
    let length = unsafe {
        libc::process_vm_readv(
            pid,
            &raw const local,
            1,
            remote.as_ptr(),
            count as libc::c_ulong,
            0,
        )
    };
    let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
    Ok(length / size_of::<u64>())
}

/// The effective user id of this process.
pub fn effective_user() -> u32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::geteuid() }
}

#[cfg(test)]
mod tests {
    use super::{PidFd, Wait, append_memory, read_memory, reap};
    use crate::PollSet;
    use std::os::fd::AsFd;
    use std::time::Duration;

    #[test]
    fn our_own_memory_reads_and_address_zero_does_not() {
        let value = *b"sixteen letters.";
        let mut copy = [0; 16];
        match read_memory(std::process::id(), value.as_ptr() as u64, &mut copy) {
            Ok(length) => assert_eq!((length, copy), (16, value)),
            Err(error) => println!("skipped: process_vm_readv is not permitted: {error}"),
        }
        let mut behind = b"fifteen ".to_vec();
        let from = &raw const value[8] as u64;
        match append_memory(std::process::id(), from, 8, &mut behind) {
            Ok(length) => assert_eq!((length, &behind[..]), (8, &b"fifteen letters."[..])),
            Err(error) => println!("skipped: process_vm_readv is not permitted: {error}"),
        }
        append_memory(std::process::id(), 0, 8, &mut behind).expect_err("nothing there");
        assert!(behind.len() <= 16);
        let error = read_memory(std::process::id(), 0, &mut copy).expect_err("nothing there");
        assert!([Some(libc::EFAULT), Some(libc::EPERM)].contains(&error.raw_os_error()));
        let error = read_memory(u32::MAX, 0, &mut copy).expect_err("nobody");
        assert_eq!(error.raw_os_error(), Some(libc::ESRCH));
    }

    #[test]
    fn scattered_words_are_read_up_to_the_first_that_is_not_there() {
        let values = [11_u64, 22, 33];
        let address = |index: usize| &raw const values[index] as u64;
        let mut words = [0; 4];
        let addresses = [address(2), address(0), 0, address(1)];
        match super::read_words(std::process::id(), &addresses, &mut words) {
            Ok(count) => assert_eq!((count, &words[..2]), (2, &[33, 11][..])),
            Err(error) => println!("skipped: process_vm_readv is not permitted: {error}"),
        }
        let error = super::read_words(u32::MAX, &[0], &mut words).expect_err("nobody");
        assert_eq!(error.raw_os_error(), Some(libc::ESRCH));
    }

    #[test]
    fn a_process_handle_becomes_readable_at_its_end() {
        let mut child = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .expect("sleep");
        let handle = PidFd::open(child.id()).expect("pidfd");
        let mut set = PollSet::default();
        set.add(handle.as_fd());
        assert_eq!(set.wait(Some(Duration::ZERO)).expect("poll"), 0);
        handle.send(libc::SIGTERM).expect("send");
        assert_eq!(set.wait(Some(Duration::from_secs(20))).expect("poll"), 1);
        child.wait().expect("wait");
        assert_eq!(
            handle.send(0).expect_err("ended").raw_os_error(),
            Some(libc::ESRCH)
        );
        assert!(PidFd::open(u32::MAX).is_err());
    }

    #[test]
    fn the_time_of_a_reaped_child_is_known() {
        let (user, system) = super::children_cpu_time();
        let script = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
        let status = std::process::Command::new("sh")
            .args(["-c", script])
            .status();
        assert!(status.expect("sh").success());
        let (later_user, later_system) = super::children_cpu_time();
        assert!(later_user + later_system > user + system);
    }

    #[test]
    fn what_a_child_used_is_told_with_its_end() {
        let script = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; exit 3";
        let child = std::process::Command::new("sh")
            .args(["-c", script])
            .spawn();
        let pid = child.expect("sh").id();
        let (ended, usage) = super::reap_with_usage(pid, Wait::ForEnd)
            .expect("ours")
            .expect("end");
        assert_eq!(ended, super::Ended::Exited(3));
        assert!(usage.user + usage.system > Duration::ZERO, "{usage:?}");
        assert!(
            usage.peak_memory > 100_000 && usage.page_faults > 10,
            "{usage:?}"
        );
    }

    #[test]
    fn a_strange_process_cannot_be_reaped() {
        for pid in [1, 0, u32::MAX] {
            let error = reap(pid, Wait::No).expect_err("not a child");
            assert_eq!(error.raw_os_error(), Some(libc::ECHILD));
        }
    }
}

//! Signals as something to read, never as an interruption.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// A set of signals by number, 1 to 64; signal n is bit n-1, as in
/// `/proc/PID/status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SignalSet(pub u64);

impl SignalSet {
    /// These signals.
    pub fn of(signals: &[i32]) -> Self {
        Self(signals.iter().fold(0, |bits, &signal| bits | bit(signal)))
    }

    /// Whether `signal` is in it.
    pub fn has(self, signal: i32) -> bool {
        self.0 & bit(signal) != 0
    }

    /// The signals in it, lowest first.
    pub fn iter(self) -> impl Iterator<Item = i32> {
        (1..=64).filter(move |&signal| self.has(signal))
    }

    pub(crate) fn to_sigset(self) -> libc::sigset_t {
        // SAFETY: sigset_t is plain bits; sigemptyset initialises it, and
        // sigaddset checks the number.
        unsafe {
            let mut set = std::mem::zeroed();
            libc::sigemptyset(&raw mut set);
            for signal in self.iter() {
                libc::sigaddset(&raw mut set, signal);
            }
            set
        }
    }

    pub(crate) fn from_sigset(set: &libc::sigset_t) -> Self {
        // SAFETY: reads an initialised set; sigismember checks the number.
        let is_member = |&signal: &i32| unsafe { libc::sigismember(set, signal) } == 1;
        Self(
            (1..=64)
                .filter(is_member)
                .fold(0, |bits, signal| bits | bit(signal)),
        )
    }
}

fn bit(signal: i32) -> u64 {
    u32::try_from(signal - 1)
        .ok()
        .and_then(|shift| 1_u64.checked_shl(shift))
        .unwrap_or(0)
}

/// What a signal does when nobody handles it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disposition {
    /// What signal(7) lists.
    Default,
    /// Nothing.
    Ignore,
}

/// From now on a write beyond the limit of file sizes is an error of that write
/// (`EFBIG`), which can be told, and not the end of the process.
///
/// # Errors
/// None that a kernel was seen to give.
pub fn outlive_size_limits() -> io::Result<()> {
    set_disposition(libc::SIGXFSZ, Disposition::Ignore).map(drop)
}

/// Sets what `signal` does in this process, and says what it did before, `None`
/// where that was a function; `EINVAL` for KILL and STOP.
pub fn set_disposition(signal: i32, disposition: Disposition) -> io::Result<Option<Disposition>> {
    let handler = match disposition {
        Disposition::Default => libc::SIG_DFL,
        Disposition::Ignore => libc::SIG_IGN,
    };
    // SAFETY: neither value is a function, so no code of ours will run in a
    // signal's context.
    let previous = unsafe { libc::signal(signal, handler) };
    if previous == libc::SIG_ERR {
        return Err(io::Error::last_os_error());
    }
    Ok(match previous {
        libc::SIG_DFL => Some(Disposition::Default),
        libc::SIG_IGN => Some(Disposition::Ignore),
        _ => None,
    })
}

/// Blocks `signals` in this thread and those that it starts.
pub fn block(signals: SignalSet) {
    change_mask(libc::SIG_BLOCK, signals);
}

/// Makes `signals` the blocked ones of this thread.
pub fn set_mask(signals: SignalSet) {
    change_mask(libc::SIG_SETMASK, signals);
}

fn change_mask(how: libc::c_int, signals: SignalSet) {
    let set = signals.to_sigset();
    // SAFETY: reads an initialised set. It fails only for a wrong `how`.
    unsafe { libc::pthread_sigmask(how, &raw const set, std::ptr::null_mut()) };
}

/// The signals that this thread blocks.
pub fn blocked() -> SignalSet {
    let mut set = SignalSet::default().to_sigset();
    // SAFETY: only asks; the kernel writes one set to a live local value.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), &raw mut set) };
    SignalSet::from_sigset(&set)
}

/// Sends `signal` to a process; `ESRCH` if it is gone, `EPERM` if it is
/// another user's, `EINVAL` if there is no such signal.
pub fn send(pid: u32, signal: i32) -> io::Result<()> {
    let pid = libc::pid_t::try_from(pid)
        .ok()
        .filter(|&pid| pid > 0) // 0 and below are process groups
        .ok_or_else(|| io::Error::from_raw_os_error(libc::ESRCH))?;
    // SAFETY: takes numbers only.
    crate::checked(unsafe { libc::kill(pid, signal) }).map(drop)
}

/// A thread of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thread(pub(crate) libc::pid_t);

impl Thread {
    /// The calling one.
    pub fn current() -> Self {
        // SAFETY: takes nothing and cannot fail.
        Self(unsafe { libc::gettid() })
    }

    /// Sends `signal` to it alone; `ESRCH` if it has ended.
    pub fn send(self, signal: i32) -> io::Result<()> {
        // SAFETY: takes numbers only.
        let sent = unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), self.0, signal) };
        match sent {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Ends this process by `signal`, as if it had never been blocked or handled,
/// and without a core dump of ours. Comes back if the signal does not end
/// processes.
pub fn die_by(signal: i32) {
    let no_core = crate::limits::Limit { soft: 0, hard: 0 };
    // Neither may stop us from ending: the caller exits then.
    let _ = no_core.set(crate::limits::Resource::CoreDump);
    let _ = set_disposition(signal, Disposition::Default);
    let set = SignalSet::of(&[signal]).to_sigset();
    // SAFETY: reads an initialised set; raise takes a number.
    unsafe {
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
        libc::raise(signal);
    }
}

/// A signal that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrived {
    /// Its number.
    pub signal: i32,
    /// Sent by the kernel, as Ctrl-C on a terminal is: then our child got it
    /// too.
    pub from_kernel: bool,
    /// Who sent it, 0 if the kernel did.
    pub sender: u32,
    /// `si_code`: for a signal of [`Event::signal_overflows`](
    /// crate::Event::signal_overflows) 1 (`POLL_IN`) or, with the last overflow
    /// of [`Event::refresh`](crate::Event::refresh), 6 (`POLL_HUP`).
    pub code: i32,
    /// The descriptor that it is about, if it is about one.
    pub fd: i32,
}

/// A descriptor to read signals from (signalfd(2)). Closing it leaves them
/// blocked.
#[derive(Debug)]
pub struct SignalFd {
    fd: OwnedFd,
    signals: SignalSet,
}

impl SignalFd {
    /// Blocks `signals` in this thread, for it and threads that it starts
    /// later, and reads them instead. `EMFILE` if no descriptor is left.
    pub fn new(signals: SignalSet) -> io::Result<Self> {
        block(signals);
        let set = signals.to_sigset();
        // SAFETY: reads an initialised set.
        let fd =
            unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) };
        let fd = crate::checked(fd)?;
        // SAFETY: the call succeeded, so nobody else owns the descriptor.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { fd, signals })
    }

    /// The next signal, `None` if there is none now.
    pub fn next(&self) -> Option<Arrived> {
        // SAFETY: plain numbers, for which zeros are values.
        let mut info: libc::signalfd_siginfo = unsafe { std::mem::zeroed() };
        let size = size_of::<libc::signalfd_siginfo>();
        // SAFETY: the kernel writes at most `size` bytes to a live local value.
        let length = unsafe { libc::read(self.fd.as_raw_fd(), (&raw mut info).cast(), size) };
        if usize::try_from(length) != Ok(size) {
            return None;
        }
        Some(Arrived {
            signal: i32::try_from(info.ssi_signo).ok()?,
            from_kernel: info.ssi_code > 0,
            sender: info.ssi_pid,
            code: info.ssi_code,
            fd: info.ssi_fd,
        })
    }
}

impl SignalFd {
    /// Waits for the next signal; `None` if there was none for so long, or the
    /// wait was interrupted. `None` for a time waits for ever.
    ///
    /// Whoever waits for the descriptor instead is woken, if only for a moment,
    /// by every signal of every thread.
    pub fn wait(&self, timeout: Option<Duration>) -> Option<Arrived> {
        let set = self.signals.to_sigset();
        let timeout = timeout.map(|time| libc::timespec {
            tv_sec: libc::time_t::try_from(time.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_nsec: time.subsec_nanos().into(),
        });
        let limit = timeout.as_ref().map_or(std::ptr::null(), |time| time);
        // SAFETY: plain numbers, for which zeros are values.
        let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
        // SAFETY: reads an initialised set and a time that lives as long as
        // the call, or none; the kernel writes to a live local value.
        let signal = unsafe { libc::sigtimedwait(&raw const set, &raw mut info, limit) };
        if signal <= 0 {
            return None;
        }
        // SAFETY: all fields were set to zeros, so whichever of them the
        // signal has not is a number, too.
        let sender = unsafe { info.si_pid() };
        Some(Arrived {
            signal,
            from_kernel: info.si_code > 0,
            sender: u32::try_from(sender).unwrap_or(0),
            code: info.si_code,
            fd: descriptor_of(&info),
        })
    }
}

/// `si_fd`, which follows the word `si_band`.
fn descriptor_of(info: &libc::siginfo_t) -> i32 {
    const AT: usize = std::mem::offset_of!(Polled, fd);
    // SAFETY: all of `info` is initialised, and the place is inside it.
    unsafe { (&raw const *info).byte_add(AT).cast::<i32>().read() }
}

/// `siginfo_t` of SIGIO and its kin. Source: `asm-generic/siginfo.h`.
#[repr(C)]
struct Polled {
    front: Front,
    band: libc::c_long,
    fd: libc::c_int,
}

/// What every `siginfo_t` begins with; the rest is aligned as a pointer.
#[repr(C)]
struct Front {
    signo_errno_code: [libc::c_int; 3],
    padding: [usize; 0],
}

const _: () = assert!(size_of::<Polled>() <= size_of::<libc::siginfo_t>());

impl AsFd for SignalFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::{Disposition, SignalFd, SignalSet, Thread, blocked, send, set_disposition};
    use std::time::Duration;

    #[test]
    fn signals_are_read_in_the_thread_that_blocks_them() {
        let signals = SignalSet::of(&[libc::SIGRTMAX() - 1]);
        let reader = SignalFd::new(signals).expect("signalfd");
        assert!(blocked().has(libc::SIGRTMAX() - 1));
        assert_eq!(reader.next(), None);
        // SAFETY: sends a signal to this very thread, where it is blocked.
        unsafe { libc::pthread_kill(libc::pthread_self(), libc::SIGRTMAX() - 1) };
        let arrived = reader.next().expect("arrived");
        assert_eq!(arrived.signal, libc::SIGRTMAX() - 1);
        assert!(!arrived.from_kernel);
        assert_eq!(arrived.sender, std::process::id());
    }

    #[test]
    fn a_signal_that_another_thread_sends_ends_the_wait() {
        let signal = libc::SIGRTMAX() - 2;
        let reader = SignalFd::new(SignalSet::of(&[signal])).expect("signalfd");
        assert_eq!(reader.wait(Some(Duration::ZERO)), None);
        let here = Thread::current();
        let sent = std::thread::spawn(move || here.send(signal)).join();
        sent.expect("no panic").expect("sent");
        let arrived = reader.wait(None).expect("arrived");
        assert_eq!((arrived.signal, arrived.from_kernel), (signal, false));
        assert_eq!(arrived.sender, std::process::id());
        assert_eq!(reader.next(), None, "it was taken");
    }

    #[test]
    fn sets_keep_their_members() {
        let set = SignalSet::of(&[1, 15, 64, 0, -3, 99]);
        assert_eq!(set.iter().collect::<Vec<_>>(), [1, 15, 64]);
        assert_eq!(
            SignalSet::from_sigset(&SignalSet::of(&[1, 15]).to_sigset()),
            SignalSet::of(&[1, 15])
        );
    }

    #[test]
    fn what_cannot_be_sent_or_ignored_is_refused() {
        let errno = |result: std::io::Result<()>| result.expect_err("refused").raw_os_error();
        assert_eq!(errno(send(0, 0)), Some(libc::ESRCH));
        assert_eq!(errno(send(std::process::id(), 999)), Some(libc::EINVAL));
        assert_eq!(
            errno(set_disposition(libc::SIGKILL, Disposition::Ignore).map(drop)),
            Some(libc::EINVAL)
        );
    }
}

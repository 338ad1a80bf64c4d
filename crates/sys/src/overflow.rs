//! Being told of an event's overflows by signals.

use crate::event::Event;
use crate::signal::Thread;
use std::io;
use std::os::fd::{AsFd, AsRawFd};

/// `F_SETSIG`, `F_SETOWN_EX` and `F_OWNER_TID`, which not every libc crate
/// has. Source: `asm-generic/fcntl.h`.
const F_SETSIG: libc::c_int = 10;
const F_SETOWN_EX: libc::c_int = 15;
const F_OWNER_TID: libc::c_int = 0;

/// `struct f_owner_ex`.
#[repr(C)]
struct Owner {
    kind: libc::c_int,
    pid: libc::pid_t,
}

impl Event {
    /// From now on sends `signal` to `to` with each overflow. There is one
    /// signal per overflow, also where `wakeup` asks for a wake-up only after
    /// several or after so many bytes: that is for poll(2) alone (seen on
    /// Linux 3.2 and 6.18).
    ///
    /// Take a real-time signal (`SIGRTMIN()` and up), which is queued; of
    /// others one at a time is pending. [`SignalFd`](crate::signal::SignalFd)
    /// reads it, with the event's descriptor and whether this was the last
    /// overflow of [`Event::refresh`]. The owner is a thread, since Linux would
    /// give a process's signal to any of its threads.
    ///
    /// Fails with `InvalidInput` for an event that counts only: it has no
    /// overflows, and the kernel would accept it and never send a signal;
    /// `EINVAL` for a signal that does not exist.
    pub fn signal_overflows(&self, signal: i32, to: Thread) -> io::Result<()> {
        if !self.samples() {
            let why = "the event only counts, so it has no overflows to tell of";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        // SAFETY: takes numbers only.
        let set = unsafe { libc::fcntl(self.as_fd().as_raw_fd(), F_SETSIG, signal) };
        crate::checked(set)?;
        set_owner(self, to.0)?;
        set_async(self, true)
    }

    /// Sends no signals any more; those that are pending stay.
    pub fn end_signals(&self) -> io::Result<()> {
        set_async(self, false)
    }
}

/// Makes a thread the one that signals go to.
pub(crate) fn set_owner(event: &Event, tid: libc::pid_t) -> io::Result<()> {
    let owner = Owner {
        kind: F_OWNER_TID,
        pid: tid,
    };
    let fd = event.as_fd().as_raw_fd();
    // SAFETY: the kernel reads a live local structure of the layout that it
    // defines for this command.
    crate::checked(unsafe { libc::fcntl(fd, F_SETOWN_EX, &raw const owner) }).map(drop)
}

/// Has signals sent, or no longer.
pub(crate) fn set_async(event: &Event, on: bool) -> io::Result<()> {
    let flags = libc::O_RDWR | if on { libc::O_ASYNC } else { 0 };
    let fd = event.as_fd().as_raw_fd();
    // SAFETY: takes numbers only.
    crate::checked(unsafe { libc::fcntl(fd, libc::F_SETFL, flags) }).map(drop)
}

#[cfg(test)]
mod tests {
    use crate::event::{Event, Target};
    use crate::ring::Ring;
    use crate::signal::{Arrived, SignalFd, SignalSet, Thread};
    use crate::testing::{page_faults, permitted, touch};
    use prof_abi::EventAttr;
    use std::os::fd::{AsFd, AsRawFd};

    const POLL_IN: i32 = 1;
    const POLL_HUP: i32 = 6;

    fn each_fault(wakeup: u32) -> EventAttr {
        EventAttr {
            sample_period: 1,
            wakeup,
            flags: page_faults().flags | prof_abi::AttrFlags::DISABLED,
            ..page_faults()
        }
    }

    /// All signals that arrived for the event.
    fn arrived(signals: &SignalFd, event: &Event) -> Vec<Arrived> {
        let own = event.as_fd().as_raw_fd();
        std::iter::from_fn(|| signals.next())
            .filter(|arrived| arrived.fd == own)
            .collect()
    }

    #[test]
    fn each_overflow_is_a_signal_to_the_thread_that_was_named() {
        // covers live: OVF-03, OVF-04, OVF-05, BUG-01
        if !permitted() {
            return;
        }
        let signal = libc::SIGRTMAX() - 3;
        let signals = SignalFd::new(SignalSet::of(&[signal])).expect("signalfd");
        // A wake-up only with every fifth sample, but a signal with each.
        let event = Event::open(&each_fault(5), Target::THIS, None).expect("an event");
        let _ring = Ring::map(&event, 1).expect("a ring");
        event
            .signal_overflows(signal, Thread::current())
            .expect("told");
        event.enable().expect("enable");
        touch(51);
        event.disable().expect("disable");
        let told = arrived(&signals, &event);
        assert_eq!(told.len(), 51, "one for each");
        assert!(
            told.iter()
                .all(|one| one.signal == signal && one.code == POLL_IN)
        );
        event.end_signals().expect("ended");
        event.enable().expect("enable");
        touch(10);
        event.disable().expect("disable");
        assert_eq!(arrived(&signals, &event), []);
    }

    #[test]
    fn the_last_overflow_of_a_countdown_hangs_up_and_stops_the_event() {
        // covers live: OVF-07, IOC-04
        if !permitted() {
            return;
        }
        let signal = libc::SIGRTMAX() - 4;
        let signals = SignalFd::new(SignalSet::of(&[signal])).expect("signalfd");
        let event = Event::open(&each_fault(1), Target::THIS, None).expect("an event");
        let _ring = Ring::map(&event, 1).expect("a ring");
        event
            .signal_overflows(signal, Thread::current())
            .expect("told");
        event.refresh(3).expect("refresh");
        touch(20);
        let told = arrived(&signals, &event);
        let codes: Vec<i32> = told.iter().map(|one| one.code).collect();
        assert_eq!(codes, [POLL_IN, POLL_IN, POLL_HUP]);
        let counts = event.read_counts(prof_abi::ReadFormat(0)).expect("read");
        assert_eq!(counts.values[0].value, 3, "it stopped there");
    }

    #[test]
    fn an_event_that_only_counts_has_no_overflows_to_tell_of() {
        // covers live: OVF-06
        if !permitted() {
            return;
        }
        let event = Event::open(&page_faults(), Target::THIS, None).expect("an event");
        let refused = event
            .signal_overflows(libc::SIGRTMAX() - 5, Thread::current())
            .expect_err("it counts");
        assert_eq!(refused.kind(), std::io::ErrorKind::InvalidInput);
        let sampling = Event::open(&each_fault(1), Target::THIS, None).expect("an event");
        let refused = sampling.signal_overflows(999, Thread::current());
        assert_eq!(crate::testing::errno(refused), libc::EINVAL);
    }
}

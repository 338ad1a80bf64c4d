//! Waiting for descriptors, and waking somebody who waits.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

/// Descriptors to wait for. The descriptors must stay open while they are in
/// the set; a closed one is reported as hung up, never more than that.
#[derive(Debug, Default)]
pub struct PollSet {
    entries: Vec<libc::pollfd>,
}

impl PollSet {
    /// Adds a descriptor to read from; the answer is its place in the set.
    pub fn add(&mut self, fd: BorrowedFd<'_>) -> usize {
        self.entries.push(libc::pollfd {
            fd: fd.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        });
        self.entries.len() - 1
    }

    /// Adds a descriptor of which only the end is waited for: that its other
    /// side is gone.
    pub fn add_end(&mut self, fd: BorrowedFd<'_>) -> usize {
        self.entries.push(libc::pollfd {
            fd: fd.as_raw_fd(),
            events: 0,
            revents: 0,
        });
        self.entries.len() - 1
    }

    /// Waits for another descriptor at this place, or for none.
    pub fn replace(&mut self, place: usize, fd: Option<BorrowedFd<'_>>) {
        if let Some(entry) = self.entries.get_mut(place) {
            // poll(2) skips negative descriptors.
            entry.fd = fd.map_or(-1, |fd| fd.as_raw_fd());
            entry.revents = 0;
        }
    }

    /// Waits until one is ready, a signal arrives or `timeout` is over, and
    /// says how many are ready. `None` waits for ever.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<usize> {
        let timeout = timeout.map_or(-1, |time| {
            // Rounded up, or a wait of 0.4 ms would be a busy loop.
            let ms = time.as_nanos().div_ceil(1_000_000);
            libc::c_int::try_from(ms).unwrap_or(libc::c_int::MAX)
        });
        // SAFETY: the kernel reads and writes the entries of a vector that is
        // borrowed exclusively for the call, and their number is its length.
        let ready = unsafe {
            libc::poll(
                self.entries.as_mut_ptr(),
                self.entries.len() as libc::nfds_t,
                timeout,
            )
        };
        match crate::checked(ready) {
            Ok(ready) => Ok(usize::try_from(ready).unwrap_or(0)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                for entry in &mut self.entries {
                    entry.revents = 0;
                }
                Ok(0)
            }
            Err(error) => Err(error),
        }
    }

    /// Whether there is something to read.
    pub fn is_readable(&self, place: usize) -> bool {
        self.has(place, libc::POLLIN)
    }

    /// Whether the other side is gone: of an event, its task and the task's
    /// children.
    pub fn is_hung_up(&self, place: usize) -> bool {
        self.has(place, libc::POLLHUP | libc::POLLERR | libc::POLLNVAL)
    }

    fn has(&self, place: usize, bits: libc::c_short) -> bool {
        self.entries
            .get(place)
            .is_some_and(|entry| entry.revents & bits != 0)
    }
}

/// Whether the descriptor can be written to, or never will be, within
/// `timeout`. A signal ends the wait as well.
pub fn wait_writable(fd: BorrowedFd<'_>, timeout: Duration) -> io::Result<bool> {
    let mut set = PollSet::default();
    set.entries.push(libc::pollfd {
        fd: fd.as_raw_fd(),
        events: libc::POLLOUT,
        revents: 0,
    });
    set.wait(Some(timeout)).map(|ready| ready > 0)
}

/// Wakes a thread that waits in [`PollSet::wait`]: an eventfd.
#[derive(Debug)]
pub struct Waker {
    fd: OwnedFd,
}

impl Waker {
    /// A new one; `EMFILE` if no descriptor is left.
    pub fn new() -> io::Result<Self> {
        // SAFETY: takes numbers only.
        let fd =
            crate::checked(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
        // SAFETY: the call succeeded, so nobody else owns the descriptor.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { fd })
    }

    /// Makes the descriptor readable, until [`Waker::clear`].
    pub fn wake(&self) {
        let one = 1_u64.to_ne_bytes();
        // SAFETY: writes the 8 bytes of a live local value. It fails only if
        // the counter is full, and then the reader is awake anyway.
        unsafe { libc::write(self.fd.as_raw_fd(), one.as_ptr().cast(), one.len()) };
    }

    /// Takes back all wakes so far.
    pub fn clear(&self) {
        let mut count = [0_u8; 8];
        // SAFETY: reads at most 8 bytes into a live local value. It fails only
        // if there is nothing to take back.
        unsafe { libc::read(self.fd.as_raw_fd(), count.as_mut_ptr().cast(), count.len()) };
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::{PollSet, Waker};
    use crate::event::{Event, Target};
    use crate::ring::Ring;
    use std::os::fd::AsFd;
    use std::time::Duration;

    const NOW: Option<Duration> = Some(Duration::ZERO);

    #[test]
    fn a_waker_is_readable_until_cleared() {
        let waker = Waker::new().expect("eventfd");
        let mut set = PollSet::default();
        let place = set.add(waker.as_fd());
        assert_eq!(set.wait(NOW).expect("poll"), 0);
        waker.wake();
        waker.wake();
        assert_eq!(set.wait(None).expect("poll"), 1);
        assert!(set.is_readable(place) && !set.is_hung_up(place));
        waker.clear();
        assert_eq!(set.wait(NOW).expect("poll"), 0);
        waker.wake();
        set.replace(place, None);
        assert_eq!(set.wait(NOW).expect("poll"), 0);
    }

    #[test]
    fn the_end_of_a_pipe_hangs_up() {
        let (reader, writer) = std::io::pipe().expect("pipe");
        let mut set = PollSet::default();
        let place = set.add(reader.as_fd());
        drop(writer);
        assert_eq!(set.wait(NOW).expect("poll"), 1);
        assert!(set.is_hung_up(place));
    }

    #[test]
    fn more_descriptors_than_the_limit_are_refused() {
        let waker = Waker::new().expect("eventfd");
        let limit = crate::limits::Limit::get(crate::limits::Resource::OpenFiles).expect("limit");
        let Ok(many) = usize::try_from(limit.soft) else {
            return;
        };
        if many > 1 << 21 {
            println!("skipped: the limit of open files is too high to be exceeded");
            return;
        }
        let mut set = PollSet::default();
        for _ in 0..=many {
            set.add(waker.as_fd());
        }
        let error = set.wait(NOW).expect_err("too many");
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
    }

    fn sampling(wakeup: u32, flags: prof_abi::AttrFlags) -> prof_abi::EventAttr {
        let faults = crate::testing::page_faults();
        prof_abi::EventAttr {
            sample_period: 1,
            sample_type: prof_abi::SampleType::IP | prof_abi::SampleType::ADDR,
            wakeup,
            flags: faults.flags | prof_abi::AttrFlags::DISABLED | flags,
            ..faults
        }
    }

    /// After how many pages the event is readable.
    fn readable_after(attr: &prof_abi::EventAttr) -> usize {
        let event = Event::open(attr, Target::THIS, None).expect("an event");
        let _ring = Ring::map(&event, 8).expect("a ring");
        let mut set = PollSet::default();
        let place = set.add(event.as_fd());
        for pages in 1..1000 {
            event.enable().expect("enable");
            crate::testing::touch(1);
            event.disable().expect("disable");
            set.wait(NOW).expect("poll");
            if set.is_readable(place) {
                return pages;
            }
        }
        panic!("never");
    }

    #[test]
    fn a_ring_is_readable_after_so_many_samples_or_bytes() {
        // covers live: OVF-01, OVF-02, ATTR-35, ATTR-61, ATTR-62
        if !crate::testing::permitted() {
            return;
        }
        let none = prof_abi::AttrFlags(0);
        assert_eq!(readable_after(&sampling(1, none)), 1);
        assert_eq!(readable_after(&sampling(5, none)), 5);
        // A sample has 24 bytes.
        let bytes = prof_abi::AttrFlags::WATERMARK;
        assert_eq!(readable_after(&sampling(240, bytes)), 11, "more than 240");
        assert_eq!(readable_after(&sampling(1, bytes)), 1);
    }

    #[test]
    fn an_event_hangs_up_with_its_task_or_without_a_ring() {
        // covers live: OVF-09, OVF-10
        if !crate::testing::permitted() {
            return;
        }
        let mut child = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::null())
            .spawn()
            .expect("cat");
        let target = Target::Task {
            tid: child.id(),
            cpu: None,
        };
        let event = Event::open(&sampling(1, prof_abi::AttrFlags(0)), target, None).expect("ours");
        let mut set = PollSet::default();
        let place = set.add(event.as_fd());
        set.wait(NOW).expect("poll");
        assert!(set.is_hung_up(place), "no ring to wait for");
        let _ring = Ring::map(&event, 1).expect("a ring");
        set.wait(NOW).expect("poll");
        assert!(!set.is_hung_up(place));
        drop(child.stdin.take());
        child.wait().expect("it ends");
        set.wait(None).expect("poll");
        assert!(set.is_hung_up(place), "its task has ended");
    }
}

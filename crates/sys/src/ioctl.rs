//! The ioctls of an event, as the UAPI header numbers them.

use crate::event::Event;
use prof_abi::{ByteOrder, EventAttr};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

/// `PERF_IOC_FLAG_GROUP`: for all members of the group.
pub(crate) const FLAG_GROUP: libc::c_ulong = 1;

/// How an ioctl passes its argument, in the two or three top bits.
#[derive(Clone, Copy)]
enum Direction {
    None,
    Write,
    Read,
    Both,
}

/// An ioctl number of the letter `$`: direction, size of the argument, letter
/// and number. mips, powerpc and sparc have other direction bits and 13 bits
/// for the size.
const fn request(direction: Direction, number: u32, size: usize) -> libc::c_ulong {
    let odd = cfg!(any(
        target_arch = "mips",
        target_arch = "mips64",
        target_arch = "powerpc",
        target_arch = "powerpc64",
        target_arch = "sparc",
        target_arch = "sparc64"
    ));
    let (bits, shift) = match (direction, odd) {
        (Direction::None, false) => (0, 30),
        (Direction::Write, false) => (1, 30),
        (Direction::Read, false) => (2, 30),
        (Direction::Both, false) => (3, 30),
        (Direction::None, true) => (1, 29),
        (Direction::Read, true) => (2, 29),
        (Direction::Write, true) => (4, 29),
        (Direction::Both, true) => (6, 29),
    };
    (bits << shift | (size as u32) << 16 | (b'$' as u32) << 8 | number) as libc::c_ulong
}

const POINTER: usize = size_of::<*const u8>();
pub(crate) const ENABLE: libc::c_ulong = request(Direction::None, 0, 0);
pub(crate) const DISABLE: libc::c_ulong = request(Direction::None, 1, 0);
pub(crate) const REFRESH: libc::c_ulong = request(Direction::None, 2, 0);
pub(crate) const RESET: libc::c_ulong = request(Direction::None, 3, 0);
pub(crate) const PERIOD: libc::c_ulong = request(Direction::Write, 4, 8);
pub(crate) const SET_OUTPUT: libc::c_ulong = request(Direction::None, 5, 0);
pub(crate) const SET_FILTER: libc::c_ulong = request(Direction::Write, 6, POINTER);
pub(crate) const ID: libc::c_ulong = request(Direction::Read, 7, POINTER);
pub(crate) const SET_BPF: libc::c_ulong = request(Direction::Write, 8, 4);
pub(crate) const PAUSE_OUTPUT: libc::c_ulong = request(Direction::Write, 9, 4);
pub(crate) const QUERY_BPF: libc::c_ulong = request(Direction::Both, 10, POINTER);
pub(crate) const MODIFY_ATTRIBUTES: libc::c_ulong = request(Direction::Write, 11, POINTER);

/// The BPF programs attached to a tracepoint.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BpfPrograms {
    /// Their ids, as many as were asked for.
    pub ids: Vec<u32>,
    /// How many there are.
    pub attached: u32,
}

/// Whether an ioctl is for one event or for its whole group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum IoctlScope {
    Event,
    Group,
}

impl Event {
    /// Starts counting (`IOC_ENABLE`), inherited copies included.
    pub fn enable(&self) -> io::Result<()> {
        self.control(ENABLE, IoctlScope::Event)
    }

    /// Starts the leader and its members.
    pub fn enable_group(&self) -> io::Result<()> {
        self.control(ENABLE, IoctlScope::Group)
    }

    /// Stops counting (`IOC_DISABLE`); a stopped leader stops its group.
    pub fn disable(&self) -> io::Result<()> {
        self.control(DISABLE, IoctlScope::Event)
    }

    /// Stops the leader and its members.
    pub fn disable_group(&self) -> io::Result<()> {
        self.control(DISABLE, IoctlScope::Group)
    }

    /// Sets the count to 0 (`IOC_RESET`); times go on, as do counts of children
    /// that ended.
    pub fn reset(&self) -> io::Result<()> {
        self.control(RESET, IoctlScope::Event)
    }

    /// Sets the counts of the leader and its members to 0.
    pub fn reset_group(&self) -> io::Result<()> {
        self.control(RESET, IoctlScope::Group)
    }

    /// Counts until `overflows` more overflows happened, then stops
    /// (`IOC_REFRESH`). 0, which the kernel takes for "for ever", is refused
    /// with `EINVAL`, as is an inherited event.
    pub fn refresh(&self, overflows: u32) -> io::Result<()> {
        if overflows == 0 {
            return Err(io::Error::from_raw_os_error(libc::EINVAL));
        }
        self.ioctl(REFRESH, libc::c_ulong::from(overflows))
    }

    /// Sets the period in events, or the frequency in Hz (`IOC_PERIOD`).
    /// `EINVAL` for 0, above 2⁶³, or an event that does not sample.
    pub fn set_period(&self, period: u64) -> io::Result<()> {
        self.ioctl(PERIOD, (&raw const period) as libc::c_ulong)
    }

    /// Writes records to the ring of `other` (`IOC_SET_OUTPUT`); `None` ends
    /// that. `EINVAL` where CPU (or task), clock or direction of writing differ,
    /// or this event has a ring of its own.
    pub fn set_output(&self, other: Option<&Event>) -> io::Result<()> {
        // -1 must arrive with all its 64 bits.
        let fd = other.map_or(-1, |event| libc::c_long::from(event.as_fd().as_raw_fd()));
        self.ioctl(SET_OUTPUT, fd as libc::c_ulong)
    }

    /// Keeps what matches `filter` (`IOC_SET_FILTER`): tracepoints take
    /// ftrace's syntax, once (`EEXIST`), PMUs with address filters theirs;
    /// others answer `EINVAL`, as does a filter that is none.
    pub fn set_filter(&self, filter: &CStr) -> io::Result<()> {
        self.ioctl(SET_FILTER, filter.as_ptr() as libc::c_ulong)
    }

    /// The event's id, as records carry it (`IOC_ID`).
    pub fn id(&self) -> io::Result<u64> {
        let mut id = 0_u64;
        self.ioctl(ID, (&raw mut id) as libc::c_ulong)?;
        Ok(id)
    }

    /// Attaches a BPF program (`IOC_SET_BPF`), by its descriptor, to a tracepoint
    /// or probe. `EINVAL` for other events and programs of another type, `E2BIG`
    /// above 64 programs; takes the rights to load one.
    pub fn set_bpf(&self, program: BorrowedFd<'_>) -> io::Result<()> {
        self.ioctl(SET_BPF, program.as_raw_fd() as libc::c_ulong)
    }

    /// Stops (`true`) or resumes writing to the ring (`IOC_PAUSE_OUTPUT`).
    /// What is discarded meanwhile is counted as lost.
    pub fn pause_output(&self, pause: bool) -> io::Result<()> {
        self.ioctl(PAUSE_OUTPUT, libc::c_ulong::from(pause))
    }

    /// Up to `most` BPF programs of this tracepoint (`IOC_QUERY_BPF`).
    pub fn query_bpf(&self, most: u32) -> io::Result<BpfPrograms> {
        // struct perf_event_query_bpf: ids_len, prog_cnt, ids[ids_len].
        let mut words = vec![0_u32; most as usize + 2];
        words[0] = most;
        match self.ioctl(QUERY_BPF, words.as_mut_ptr() as libc::c_ulong) {
            // More programs than room: those that fit are there.
            Err(error) if error.raw_os_error() != Some(libc::ENOSPC) => return Err(error),
            _ => {}
        }
        let attached = words[1];
        let ids = words[2..].iter().take(attached as usize).copied().collect();
        Ok(BpfPrograms { ids, attached })
    }

    /// Moves a breakpoint or changes its kind (`IOC_MODIFY_ATTRIBUTES`); other
    /// events answer `EOPNOTSUPP` or `EINVAL`.
    pub fn modify_attributes(&self, attr: &EventAttr) -> io::Result<()> {
        let mut bytes = attr.encode(ByteOrder::NATIVE);
        let size = u32::try_from(bytes.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        bytes[4..8].copy_from_slice(&size.to_ne_bytes());
        self.ioctl(MODIFY_ATTRIBUTES, bytes.as_ptr() as libc::c_ulong)
    }

    fn control(&self, request: libc::c_ulong, scope: IoctlScope) -> io::Result<()> {
        let flag = match scope {
            IoctlScope::Event => 0,
            IoctlScope::Group => FLAG_GROUP,
        };
        self.ioctl(request, flag)
    }

    /// `argument` is a number or the address of what the request reads or
    /// writes; only the functions above call this.
    fn ioctl(&self, request: libc::c_ulong, argument: libc::c_ulong) -> io::Result<()> {
        // SAFETY: each caller passes either a plain number or the address of a
        // live local value of the size that the request encodes or, for
        // SET_FILTER a NUL-terminated string, for QUERY_BPF a block whose
        // first word is its length, for MODIFY_ATTRIBUTES one whose size field
        // is its length.
        let result = unsafe { libc::ioctl(self.as_fd().as_raw_fd(), request as _, argument) };
        crate::checked(result).map(drop)
    }
}

#[cfg(test)]
mod tests;

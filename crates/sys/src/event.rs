//! One event: a descriptor of perf_event_open(2).

use crate::counts::Counts;
use prof_abi::{AttrFlags, ByteOrder, EventAttr, ReadFormat};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// `flags` of the system call. [`Event::open`] sets those that are needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OpenFlags(pub libc::c_ulong);

impl OpenFlags {
    /// `PERF_FLAG_FD_NO_GROUP`: of the group's descriptor only the ring is
    /// meant, with [`FD_OUTPUT`](Self::FD_OUTPUT). Of no use otherwise.
    pub const FD_NO_GROUP: Self = Self(1);
    /// `PERF_FLAG_FD_OUTPUT`: records go to the ring of the group's
    /// descriptor. Broken since 2.6.35: use [`Event::set_output`].
    pub const FD_OUTPUT: Self = Self(1 << 1);
    /// `PERF_FLAG_PID_CGROUP`: the pid is the descriptor of a cgroup. Set by
    /// [`Target::Cgroup`].
    pub const PID_CGROUP: Self = Self(1 << 2);
    /// `PERF_FLAG_FD_CLOEXEC`: closed by exec. Always set.
    pub const FD_CLOEXEC: Self = Self(1 << 3);

    /// These and those of `other`.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// Whose events are counted. All tasks on all CPUs at once does not exist.
#[derive(Debug, Clone, Copy)]
pub enum Target<'a> {
    /// One task, on one CPU or on any.
    Task {
        /// Its tid; 0 is the caller.
        tid: u32,
        /// The CPU, `None` for any.
        cpu: Option<u32>,
    },
    /// Everything on one CPU.
    Cpu(u32),
    /// The tasks of a cgroup on one CPU.
    Cgroup {
        /// The cgroup's directory.
        directory: BorrowedFd<'a>,
        /// The CPU.
        cpu: u32,
    },
}

impl Target<'_> {
    /// The calling thread on any CPU.
    pub const THIS: Self = Self::Task { tid: 0, cpu: None };

    /// `pid`, `cpu` and `flags` of the system call.
    fn arguments(self) -> io::Result<(libc::pid_t, libc::c_int, OpenFlags)> {
        let number = |value: u32| {
            libc::c_int::try_from(value).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
        };
        Ok(match self {
            Self::Task { tid, cpu } => {
                let cpu = cpu.map_or(Ok(-1), number)?;
                (number(tid)?, cpu, OpenFlags::FD_CLOEXEC)
            }
            Self::Cpu(cpu) => (-1, number(cpu)?, OpenFlags::FD_CLOEXEC),
            Self::Cgroup { directory, cpu } => (
                directory.as_raw_fd(),
                number(cpu)?,
                OpenFlags::FD_CLOEXEC.with(OpenFlags::PID_CGROUP),
            ),
        })
    }
}

/// The kernel refused an event.
#[derive(Debug, thiserror::Error)]
#[error("{source}")]
pub struct OpenError {
    /// Why.
    pub source: io::Error,
    /// With `E2BIG`, the size of the kernel's own attr in bytes: a field
    /// behind it is not 0.
    pub kernel_attr_size: Option<u32>,
}

impl OpenError {
    /// The `errno`, 0 if there is none.
    pub fn errno(&self) -> i32 {
        self.source.raw_os_error().unwrap_or(0)
    }
}

impl From<io::Error> for OpenError {
    fn from(source: io::Error) -> Self {
        Self {
            source,
            kernel_attr_size: None,
        }
    }
}

impl From<OpenError> for io::Error {
    fn from(error: OpenError) -> Self {
        error.source
    }
}

/// An open event; closing it ends it. Never inherited by a program that is
/// executed.
#[derive(Debug)]
pub struct Event {
    fd: OwnedFd,
    /// Whether it has overflows to tell of.
    samples: bool,
}

impl Event {
    /// Opens an event, as a member of `group` if that is given. Fails as
    /// perf_event_open(2) lists, at length.
    pub fn open(
        attr: &EventAttr,
        target: Target<'_>,
        group: Option<&Event>,
    ) -> Result<Self, OpenError> {
        Self::open_with(attr, target, group, OpenFlags::default())
    }

    /// As [`Event::open`], with more flags than the target needs.
    pub fn open_with(
        attr: &EventAttr,
        target: Target<'_>,
        group: Option<&Event>,
        flags: OpenFlags,
    ) -> Result<Self, OpenError> {
        let (pid, cpu, needed) = target.arguments()?;
        let flags = flags.with(needed);
        let mut bytes = attr.encode(ByteOrder::NATIVE);
        let invalid = |_| io::Error::from(io::ErrorKind::InvalidInput);
        let size = u32::try_from(bytes.len()).map_err(invalid)?;
        // A size of 0 means 64 to the kernel; saying it makes E2BIG readable.
        bytes[4..8].copy_from_slice(&size.to_ne_bytes());
        let group = group.map_or(-1, |event| event.fd.as_raw_fd());
        open_raw(&mut bytes, pid, cpu, group, flags)
            .map(|fd| Self {
                fd,
                samples: attr.sample_period != 0,
            })
            .map_err(|source| {
                let too_big = source.raw_os_error() == Some(libc::E2BIG);
                OpenError {
                    source,
                    kernel_attr_size: too_big.then(|| ByteOrder::NATIVE.u32(&bytes, 4)).flatten(),
                }
            })
    }

    /// Opens a probe of the PMUs `kprobe` or `uprobe`, whose `config1` is the
    /// address of `place`: a function of the kernel (`kprobe_func`) or the path
    /// of a file (`uprobe_path`). Fails as [`Event::open`] does; `ENOENT` if
    /// there is no such place, `EINVAL` if there is no instruction or if the
    /// event is to be inherited. The last close removes the probe.
    ///
    /// To inherit it the kernel reads the text again, at the same address of
    /// whoever forks: where nothing is there, their fork(2) fails with `EFAULT`.
    ///
    /// Source: perf_event_open(2), `kprobe_func`, `uprobe_path`; what becomes of
    /// forks was seen on Linux 6.18.
    pub fn open_probe(
        attr: &EventAttr,
        place: &CStr,
        target: Target<'_>,
        group: Option<&Event>,
    ) -> Result<Self, OpenError> {
        if attr.flags.has(AttrFlags::INHERIT) {
            return Err(OpenError {
                source: io::Error::from_raw_os_error(libc::EINVAL),
                kernel_attr_size: None,
            });
        }
        // The kernel copies the text during the call, for which it is borrowed.
        let attr = EventAttr {
            config1: place.as_ptr() as u64,
            ..attr.clone()
        };
        Self::open(&attr, target, group)
    }

    /// Whether it samples, and so has overflows to tell of.
    pub(crate) fn samples(&self) -> bool {
        self.samples
    }

    /// Reads the counter, or those of its group, laid out by `format`, which
    /// must be the attr's. A pinned event that could not be scheduled gives
    /// `UnexpectedEof`.
    pub fn read_counts(&self, format: ReadFormat) -> io::Result<Counts> {
        let mut bytes = [0_u8; 1024];
        let length = self.read_raw(&mut bytes)?;
        let bytes = bytes.get(..length).unwrap_or_default();
        Counts::decode(bytes, format).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// read(2): the counter's bytes. Fails with `ENOSPC` if `bytes` is too
    /// short for the format.
    pub(crate) fn read_raw(&self, bytes: &mut [u8]) -> io::Result<usize> {
        // SAFETY: the kernel writes at most `bytes.len()` bytes to `bytes`,
        // which is borrowed exclusively for the call.
        let length =
            unsafe { libc::read(self.fd.as_raw_fd(), bytes.as_mut_ptr().cast(), bytes.len()) };
        usize::try_from(length).map_err(|_| io::Error::last_os_error())
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The system call; on `E2BIG` the kernel writes its own size to bytes 4 to 7.
fn open_raw(
    attr: &mut [u8],
    pid: libc::pid_t,
    cpu: libc::c_int,
    group: libc::c_int,
    flags: OpenFlags,
) -> io::Result<OwnedFd> {
    assert!(attr.len() >= 64, "an attr has at least 64 bytes");
    // SAFETY: the kernel reads as many bytes as the attr's size field says,
    // which `Event::open` and `kernel_attr_size` set to the slice's length,
    // and writes at most to that field. The other arguments are numbers.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            attr.as_mut_ptr(),
            pid,
            cpu,
            group,
            flags.0,
        )
    };
    let fd = checked_fd(fd)?;
    // SAFETY: the call succeeded, so the number is a descriptor that nobody
    // else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn checked_fd(result: libc::c_long) -> io::Result<libc::c_int> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    libc::c_int::try_from(result).map_err(|_| io::ErrorKind::Other.into())
}

/// The size of the running kernel's `perf_event_attr` in bytes, `None` where
/// the system call is missing or forbidden. The kernel tells it when it finds
/// something behind the last field that it knows.
pub fn kernel_attr_size() -> Option<u32> {
    const PROBE: u32 = 4096;
    let mut bytes = [0_u8; PROBE as usize];
    bytes[4..8].copy_from_slice(&PROBE.to_ne_bytes());
    bytes[PROBE as usize - 1] = 1;
    let error = open_raw(&mut bytes, 0, -1, -1, OpenFlags::FD_CLOEXEC).err()?;
    (error.raw_os_error() == Some(libc::E2BIG))
        .then(|| ByteOrder::NATIVE.u32(&bytes, 4))
        .flatten()
}

#[cfg(test)]
mod tests;

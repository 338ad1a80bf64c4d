//! One event: a descriptor of perf_event_open(2).

use crate::counts::Counts;
use prof_abi::{AttrFlags, ByteOrder, EventAttr, ReadFormat};
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// `PERF_FLAG_FD_CLOEXEC`.
const FLAG_CLOEXEC: libc::c_ulong = 1 << 3;
/// `PERF_FLAG_PID_CGROUP`.
const FLAG_CGROUP: libc::c_ulong = 1 << 2;

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
    fn arguments(self) -> io::Result<(libc::pid_t, libc::c_int, libc::c_ulong)> {
        let number = |value: u32| {
            libc::c_int::try_from(value).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))
        };
        Ok(match self {
            Self::Task { tid, cpu } => {
                let cpu = cpu.map_or(Ok(-1), number)?;
                (number(tid)?, cpu, FLAG_CLOEXEC)
            }
            Self::Cpu(cpu) => (-1, number(cpu)?, FLAG_CLOEXEC),
            Self::Cgroup { directory, cpu } => (
                directory.as_raw_fd(),
                number(cpu)?,
                FLAG_CLOEXEC | FLAG_CGROUP,
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
}

impl Event {
    /// Opens an event, as a member of `group` if that is given. Fails as
    /// perf_event_open(2) lists, at length.
    pub fn open(
        attr: &EventAttr,
        target: Target<'_>,
        group: Option<&Event>,
    ) -> Result<Self, OpenError> {
        let plain = |source| OpenError {
            source,
            kernel_attr_size: None,
        };
        let (pid, cpu, flags) = target.arguments().map_err(plain)?;
        let mut bytes = attr.encode(ByteOrder::NATIVE);
        let size =
            u32::try_from(bytes.len()).map_err(|_| plain(io::ErrorKind::InvalidInput.into()))?;
        // A size of 0 means 64 to the kernel; saying it makes E2BIG readable.
        bytes[4..8].copy_from_slice(&size.to_ne_bytes());
        let group = group.map_or(-1, |event| event.fd.as_raw_fd());
        open_raw(&mut bytes, pid, cpu, group, flags)
            .map(|fd| Self { fd })
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
    flags: libc::c_ulong,
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
            flags,
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
    let error = open_raw(&mut bytes, 0, -1, -1, FLAG_CLOEXEC).err()?;
    (error.raw_os_error() == Some(libc::E2BIG))
        .then(|| ByteOrder::NATIVE.u32(&bytes, 4))
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::{Event, Target, kernel_attr_size};
    use prof_abi::{AttrFlags, EventAttr, ReadFormat};

    /// page-faults of this thread in user space: what every user may count.
    pub(crate) fn page_faults() -> EventAttr {
        EventAttr {
            kind: 1,
            config: 2,
            flags: AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV,
            ..EventAttr::default()
        }
    }

    #[test]
    fn an_event_counts_the_pages_that_are_touched() {
        let Ok(event) = Event::open(&page_faults(), Target::THIS, None) else {
            println!("skipped: perf_event_open is not permitted here");
            return;
        };
        let pages = 64;
        let memory = vec![1_u8; pages * crate::page_size()];
        assert_eq!(
            std::hint::black_box(&memory).len(),
            pages * crate::page_size()
        );
        let counts = event.read_counts(ReadFormat(0)).expect("counts");
        assert!(counts.values[0].value > 0, "{counts:?}");
    }

    #[test]
    fn an_unknown_software_event_and_a_missing_task_are_refused() {
        let attr = EventAttr {
            config: 1 << 20,
            ..page_faults()
        };
        let error = Event::open(&attr, Target::THIS, None).expect_err("no such event");
        assert!(
            [
                libc::ENOENT,
                libc::EINVAL,
                libc::EACCES,
                libc::EPERM,
                libc::ENOSYS
            ]
            .contains(&error.errno()),
            "{error}"
        );
        let nobody = Target::Task {
            tid: u32::MAX,
            cpu: None,
        };
        let error = Event::open(&page_faults(), nobody, None).expect_err("no such task");
        assert_eq!(error.errno(), libc::EINVAL);
    }

    #[test]
    fn a_field_that_the_kernel_does_not_know_tells_its_size() {
        let Some(size) = kernel_attr_size() else {
            println!("skipped: perf_event_open is not permitted here");
            return;
        };
        assert!(size >= 64 && size.is_multiple_of(8), "{size}");
        let attr = EventAttr {
            tail: vec![1; 64],
            ..page_faults()
        };
        let error = Event::open(&attr, Target::THIS, None).expect_err("a tail");
        assert_eq!(error.errno(), libc::E2BIG);
        assert_eq!(error.kernel_attr_size, Some(size));
    }

    #[test]
    fn a_probe_is_never_inherited() {
        let attr = EventAttr {
            flags: AttrFlags::INHERIT,
            ..page_faults()
        };
        let error = Event::open_probe(&attr, c"/bin/true", Target::THIS, None);
        assert_eq!(error.expect_err("refused").errno(), libc::EINVAL);
    }

    #[test]
    fn too_short_a_buffer_is_refused() {
        let Ok(event) = Event::open(&page_faults(), Target::THIS, None) else {
            println!("skipped: perf_event_open is not permitted here");
            return;
        };
        let error = event.read_raw(&mut [0; 4]).expect_err("4 bytes");
        assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
    }
}

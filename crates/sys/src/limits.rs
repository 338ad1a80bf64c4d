//! Resource limits of this process.

use std::io;

/// What is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// Descriptors (`RLIMIT_NOFILE`).
    OpenFiles,
    /// Locked memory in bytes (`RLIMIT_MEMLOCK`).
    LockedMemory,
    /// Size of a file in bytes (`RLIMIT_FSIZE`).
    FileSize,
    /// Size of a core dump in bytes (`RLIMIT_CORE`).
    CoreDump,
    /// Address space in bytes (`RLIMIT_AS`).
    AddressSpace,
    /// Processes and threads of the user (`RLIMIT_NPROC`).
    Processes,
    /// The first thread's stack in bytes (`RLIMIT_STACK`).
    Stack,
}

/// How the C library numbers resources.
#[cfg(target_env = "gnu")]
type ResourceNumber = libc::__rlimit_resource_t;
#[cfg(not(target_env = "gnu"))]
type ResourceNumber = libc::c_int;

impl Resource {
    fn number(self) -> ResourceNumber {
        match self {
            Self::OpenFiles => libc::RLIMIT_NOFILE,
            Self::LockedMemory => libc::RLIMIT_MEMLOCK,
            Self::FileSize => libc::RLIMIT_FSIZE,
            Self::CoreDump => libc::RLIMIT_CORE,
            Self::AddressSpace => libc::RLIMIT_AS,
            Self::Processes => libc::RLIMIT_NPROC,
            Self::Stack => libc::RLIMIT_STACK,
        }
    }
}

/// A limit; `u64::MAX` is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// What is enforced.
    pub soft: u64,
    /// How far it may be raised.
    pub hard: u64,
}

impl Limit {
    /// The limit of this process.
    pub fn get(resource: Resource) -> io::Result<Self> {
        let mut limit = libc::rlimit {
            rlim_cur: 0,
            rlim_max: 0,
        };
        // SAFETY: the kernel writes one rlimit to a live local value.
        crate::checked(unsafe { libc::getrlimit(resource.number(), &raw mut limit) })?;
        Ok(Self {
            soft: limit.rlim_cur,
            hard: limit.rlim_max,
        })
    }

    /// Makes this the limit of this process. `EINVAL` if soft is above hard,
    /// `EPERM` if hard is raised without the right to.
    pub fn set(self, resource: Resource) -> io::Result<()> {
        let limit = libc::rlimit {
            rlim_cur: self.soft,
            rlim_max: self.hard,
        };
        // SAFETY: the kernel reads one rlimit from a live local value.
        crate::checked(unsafe { libc::setrlimit(resource.number(), &raw const limit) }).map(drop)
    }

    /// Raises the soft limit to the hard one and returns what holds then.
    pub fn raise(resource: Resource) -> io::Result<Self> {
        let limit = Self::get(resource)?;
        let raised = Self {
            soft: limit.hard,
            hard: limit.hard,
        };
        if raised != limit {
            raised.set(resource)?;
        }
        Ok(raised)
    }
}

/// Makes freed buffers of `large` bytes and more go back to the system at once.
/// glibc's malloc would keep blocks as large as the largest that was ever freed,
/// for good. For programs that have large buffers for moments only.
pub fn give_freed_memory_back(large: usize) {
    let large = libc::c_int::try_from(large).unwrap_or(libc::c_int::MAX / 2);
    #[cfg(target_env = "gnu")]
    // SAFETY: sets two numbers of the allocator, which it checks; a refusal
    // changes nothing.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, large);
        libc::mallopt(libc::M_TRIM_THRESHOLD, large.saturating_mul(2));
    }
    let _ = large;
}

/// Gives memory back to the system that is free in the allocator: what is
/// between blocks that are in use, too. For the end of work that took much more
/// than what follows will.
pub fn give_free_memory_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: only touches what the allocator holds as free, under its locks.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Bytes of address space that this process may yet take; `None` if it is not
/// limited.
pub fn address_space_left() -> Option<u64> {
    let limit = Limit::get(Resource::AddressSpace).ok()?.soft;
    let size = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = size.split_ascii_whitespace().next()?.parse().ok()?;
    let taken = pages.saturating_mul(crate::page_size() as u64);
    (limit != u64::MAX).then(|| limit.saturating_sub(taken))
}

#[cfg(test)]
mod tests {
    use super::{Limit, Resource};

    #[test]
    fn soft_above_hard_is_refused() {
        let limit = Limit::get(Resource::CoreDump).expect("limit");
        assert!(limit.soft <= limit.hard);
        let wrong = Limit { soft: 2, hard: 1 };
        let error = wrong.set(Resource::CoreDump).expect_err("2 > 1");
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
        assert_eq!(
            Limit::raise(Resource::CoreDump).expect("raise").soft,
            limit.hard
        );
    }
}

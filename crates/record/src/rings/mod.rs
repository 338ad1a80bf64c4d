//! How large rings are: by what arrives in them, within what may be locked.
//!
//! The kernel counts each ring and its control page to the user first, up to
//! `kernel.perf_event_mlock_kb` for each CPU and for all recorders of that
//! user together; what goes beyond is counted to the process, up to
//! `RLIMIT_MEMLOCK` (`perf_mmap()` in `kernel/events/core.c`). So all rings
//! are shared out before the first is mapped, or the first would take what
//! the last needs. How much the user's other recorders hold the kernel tells
//! nobody: a refusal unmaps all rings, and all are tried again with half.

mod need;
#[cfg(test)]
mod tests;

pub(crate) use need::{Most, fit_pieces, most_bytes, wanted_bytes};

use prof_profile::several;
use prof_sys::limits::{Limit, Resource};
use prof_sys::{namespaces, page_size};
use std::fmt;

/// With rings of this size nothing is amiss; another recorder of the user is
/// left as much, bytes.
const ENOUGH: u64 = 128 << 10;

/// What rings may lock, bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lockable {
    /// All recorders of the user together.
    pub(crate) user: u64,
    /// Online CPUs, for which that is.
    pub(crate) cpus: u64,
    /// This process beyond that; `u64::MAX` is no limit.
    pub(crate) process: u64,
    /// A page, which each ring has in front.
    pub(crate) page: u64,
}

impl Lockable {
    /// What this process may lock on a machine with so many CPUs; its soft
    /// limit is raised as far as it may be.
    pub(crate) fn of_this_process(cpus: usize) -> Self {
        let limit = Limit::raise(Resource::LockedMemory)
            .or_else(|_| Limit::get(Resource::LockedMemory))
            .map_or(0, |limit| limit.soft);
        let kib: u64 = read_number("/proc/sys/kernel/perf_event_mlock_kb").unwrap_or(0);
        let paranoid: Option<i32> = read_number("/proc/sys/kernel/perf_event_paranoid");
        let is_unlimited = paranoid.is_some_and(|level| level < 0) || may_lock_all();
        Self {
            cpus: cpus as u64,
            user: kib.saturating_mul(1024).saturating_mul(cpus as u64),
            process: if is_unlimited { u64::MAX } else { limit },
            page: page_size() as u64,
        }
    }

    /// Bytes that so many rings of `bytes` lock.
    pub(crate) fn locked_by(&self, rings: u64, bytes: u64) -> u64 {
        bytes.saturating_add(self.page).saturating_mul(rings)
    }

    /// Whether these rings are less than the limits, if nobody else has any.
    pub(crate) fn allows(&self, locked: u64) -> bool {
        locked <= self.user.saturating_add(self.process)
    }

    /// The KiB for each CPU (`kernel.perf_event_mlock_kb`) that are enough for
    /// so many rings of `bytes`, beside other recorders that hold all they may.
    pub(crate) fn enough_kb(&self, rings: u64, bytes: u64) -> u64 {
        let cpus = self.cpus.max(1);
        let more = self.locked_by(rings, bytes);
        (self.user / cpus + more.div_ceil(cpus)).div_ceil(1024)
    }

    /// What another recorder of this user may lock beside so much.
    fn beside(&self, locked: u64) -> Self {
        Self {
            user: self.user.saturating_sub(locked),
            ..*self
        }
    }

    /// The sizes to try for each of `rings` rings, in bytes, the largest
    /// first: powers of two down to a page. The first leaves enough for
    /// another recorder of this user.
    pub(crate) fn sizes(&self, rings: u64, wanted: u64) -> impl Iterator<Item = u64> + use<> {
        let page = self.page;
        let halves = move |from: u64| {
            std::iter::successors(Some(from.max(page)), move |size| {
                (size / 2 >= page).then_some(size / 2)
            })
        };
        let suits = |&size: &u64| {
            let locked = self.locked_by(rings, size);
            let other = (size / 2).min(ENOUGH);
            let beside = self.beside(locked);
            self.allows(locked) && (size == page || beside.allows(self.locked_by(rings, other)))
        };
        // If not even pages are allowed the kernel has the last word.
        let first = halves(wanted).find(suits).unwrap_or(page);
        halves(first)
    }
}

/// Tries sizes one after the other until all rings could be mapped. `map`
/// maps them all or none; what is not `for_room` ends it.
pub(crate) fn share_out<T, E>(
    sizes: impl IntoIterator<Item = u64>,
    for_room: impl Fn(&E) -> bool,
    mut map: impl FnMut(u64) -> Result<T, E>,
) -> Result<T, E> {
    let mut sizes = sizes.into_iter();
    let mut size = sizes.next().unwrap_or(0);
    loop {
        match map(size) {
            Err(refused) if for_room(&refused) => match sizes.next() {
                Some(smaller) => size = smaller,
                None => return Err(refused),
            },
            done => return done,
        }
    }
}

/// What rings a recording got.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingMemory {
    /// How many.
    pub rings: u64,
    /// Bytes of each.
    pub bytes: u64,
    /// Bytes of each that rate and samples ask for.
    pub wanted: u64,
    /// What made them smaller, if anything did.
    pub limit: Option<RingLimit>,
    /// Bytes of user stack in each sample, given and wanted, if fewer.
    pub piece: Option<(u32, u32)>,
}

/// Why rings are smaller than rate and samples ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RingLimit {
    /// What may be locked.
    Locked,
    /// The address space.
    AddressSpace,
    /// The machine had no more.
    Memory,
}

impl RingLimit {
    /// What refused a larger ring: the kernel tells what may be locked from
    /// what there is, and `left` is the address space that was left, in bytes,
    /// where that is limited.
    pub(crate) fn of_refusal(errno: i32, left: Option<u64>) -> Self {
        match (errno, left) {
            (libc::ENOMEM, Some(_)) => Self::AddressSpace,
            (libc::ENOMEM, None) => Self::Memory,
            _ => Self::Locked,
        }
    }
}

impl fmt::Display for RingLimit {
    /// What the user can change.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Locked => "ulimit -l",
            Self::AddressSpace => "ulimit -v",
            Self::Memory => "no more memory",
        })
    }
}

impl Lockable {
    /// Where nothing is locked.
    pub(crate) const NONE: Self = Self {
        user: 0,
        cpus: 1,
        process: 0,
        page: 4096,
    };
}

impl RingMemory {
    /// Where nothing is sampled.
    pub(crate) const NONE: Self = Self {
        rings: 0,
        bytes: 0,
        wanted: 0,
        limit: None,
        piece: None,
    };
}

/// With rings this large few recordings lose anything, bytes.
const AMPLE: u64 = 16 << 20;

impl RingMemory {
    /// What to change for rings with more room, as words of a command line.
    pub(crate) fn more_room(&self, lockable: &Lockable, sysctl: &str) -> String {
        let Self { rings, wanted, .. } = *self;
        let limit = self.limit.filter(|_| self.bytes < wanted);
        let larger = match limit {
            None => AMPLE.max(self.bytes.saturating_mul(2)),
            Some(RingLimit::Locked) => wanted,
            Some(_) => return "a lower -F".to_owned(),
        };
        if limit.is_none() && lockable.allows(lockable.locked_by(rings, larger)) {
            return format!("-m {}M", larger >> 20);
        }
        let enough = lockable.enough_kb(rings, larger);
        let ask = if limit.is_none() {
            format!(" and -m {}M", larger >> 20)
        } else {
            String::new()
        };
        format!("{sysctl} kernel.perf_event_mlock_kb={enough}{ask}, or a lower -F")
    }
}

impl fmt::Display for RingMemory {
    /// As `2 rings of 512 KiB`, and what was wanted if that is more.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { rings, bytes, .. } = *self;
        let rings = several(rings, "ring");
        write!(out, "{rings} of {}", Size(bytes))?;
        if let Some(limit) = self.limit.filter(|_| bytes < self.wanted) {
            write!(out, " instead of {} ({limit})", Size(self.wanted))?;
        }
        Ok(())
    }
}

/// Bytes in the largest unit that needs no fraction.
pub(crate) struct Size(pub(crate) u64);

impl fmt::Display for Size {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes >= 1 << 20 && bytes % (1 << 20) == 0 => {
                write!(out, "{} MiB", bytes >> 20)
            }
            bytes if bytes % 1024 == 0 => write!(out, "{} KiB", bytes >> 10),
            bytes => write!(out, "{bytes} bytes"),
        }
    }
}

/// Whether this process has `CAP_IPC_LOCK`, and not of a user namespace of its
/// own, where that does not count.
fn may_lock_all() -> bool {
    const IPC_LOCK: u32 = 14;
    let uid_map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    if namespaces::maps_users(&uid_map) {
        return false;
    }
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    effective.is_some_and(|bits| bits & 1 << IPC_LOCK != 0)
}

fn read_number<T: std::str::FromStr>(path: &str) -> Option<T> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

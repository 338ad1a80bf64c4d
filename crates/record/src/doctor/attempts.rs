//! What the kernel really allows, by trying it. Settings do not tell all:
//! privileges of a user namespace do not count, a sandbox refuses the system
//! call, and /proc may hide the settings themselves.

use crate::synthesize::{online_cpus, processes};
use prof_abi::{AttrFlags, EventAttr, SampleType, Software, event_kind};
use prof_sys::{Event, RandomChoice, Target, process};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// How an attempt went: the errno if it was refused.
pub type Tried = Result<(), i32>;

/// One attempt per thing; `None` where it could not be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Attempts {
    /// Sampling this process in user space.
    pub own_user: Option<Tried>,
    /// Sampling this process in the kernel too.
    pub own_kernel: Option<Tried>,
    /// Sampling everything on a CPU.
    pub system: Option<Tried>,
    /// Sampling a process of another user.
    pub other_users: Option<Tried>,
    /// Counting cycles by hardware.
    pub hardware: Option<Tried>,
    /// Sampling a tracepoint with its payload.
    pub tracepoint: Option<Tried>,
    /// Opening a uprobe event; no probe is placed.
    pub uprobe: Option<Tried>,
    /// Reading the memory of a process of this user that is no child.
    pub memory: Option<Tried>,
    /// Having the kernel choose by chance which samples it takes (BPF).
    pub choosing: Option<Tried>,
}

impl Attempts {
    /// Tries everything on this machine, with `tracefs` where that is mounted.
    /// Events are opened, never switched on, and closed at once.
    pub(super) fn make(tracefs: Option<&Path>) -> Self {
        let clock = clock();
        let cpu = online_cpus().first().copied().unwrap_or(0);
        let user_only = user_only();
        let cycles = EventAttr {
            kind: event_kind::HARDWARE,
            ..user_only.clone()
        };
        Self {
            own_user: Some(open(&user_only, Target::THIS)),
            own_kernel: Some(open(&clock, Target::THIS)),
            system: Some(open(&clock, Target::Cpu(cpu))),
            other_users: other_users(&user_only),
            hardware: Some(open(&cycles, Target::THIS)),
            tracepoint: tracefs.and_then(tracepoint),
            uprobe: uprobe(),
            memory: memory(),
            choosing: Some(choosing()),
        }
    }
}

/// Whether this process may sample itself in user space.
pub(crate) fn sampling_of_own_works() -> bool {
    open(&user_only(), Target::THIS).is_ok()
}

/// cpu-clock in user space, off.
fn user_only() -> EventAttr {
    let clock = clock();
    EventAttr {
        flags: clock.flags | AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV,
        ..clock
    }
}

/// cpu-clock in all modes, off.
fn clock() -> EventAttr {
    EventAttr {
        kind: event_kind::SOFTWARE,
        config: Software::CPU_CLOCK.0,
        sample_period: 1_000_000,
        sample_type: SampleType::IP | SampleType::TID | SampleType::TIME,
        flags: AttrFlags::DISABLED | AttrFlags::EXCLUDE_GUEST,
        ..EventAttr::default()
    }
}

fn open(attr: &EventAttr, target: Target<'_>) -> Tried {
    match Event::open(attr, target, None) {
        Ok(_) => Ok(()),
        Err(error) => Err(error.errno()),
    }
}

/// Our effective user, and whom a process belongs to.
fn owner(process: &str) -> Option<u32> {
    let directory = fs::metadata(Path::new("/proc").join(process));
    directory.ok().map(|directory| directory.uid())
}

fn other_users(attr: &EventAttr) -> Option<Tried> {
    let own = owner("self")?;
    let is_other = |pid: &u32| owner(&pid.to_string()).is_some_and(|uid| uid != own);
    let tried = processes()
        .into_iter()
        .filter(is_other)
        .map(|tid| open(attr, Target::Task { tid, cpu: None }));
    // One that has just ended says nothing.
    tried.into_iter().find(|tried| *tried != Err(libc::ESRCH))
}

/// A tracepoint that every kernel with tracepoints has, by its place among the
/// events of tracefs.
pub(super) const EVERY_KERNEL_HAS: &str = "sched/sched_switch";

fn tracepoint(tracefs: &Path) -> Option<Tried> {
    let event = tracefs.join("events").join(EVERY_KERNEL_HAS);
    let id = fs::read_to_string(event.join("id")).ok()?;
    let attr = EventAttr {
        kind: event_kind::TRACEPOINT,
        config: id.trim().parse().ok()?,
        sample_period: 1,
        sample_type: SampleType::TID | SampleType::TIME | SampleType::RAW,
        ..clock()
    };
    Some(open(&attr, Target::THIS))
}

/// The kernel looks at privileges first, then finds no path.
fn uprobe() -> Option<Tried> {
    let kind = fs::read_to_string("/sys/bus/event_source/devices/uprobe/type").ok()?;
    let attr = EventAttr {
        kind: kind.trim().parse().ok()?,
        config: 0,
        ..clock()
    };
    Some(match open(&attr, Target::THIS) {
        Err(libc::EINVAL | libc::EFAULT | libc::ENOENT) => Ok(()),
        other => other,
    })
}

/// A program that chooses is loaded, and attached to nothing.
fn choosing() -> Tried {
    let refused = |error: io::Error| error.raw_os_error().unwrap_or(libc::EPERM);
    RandomChoice::new().map(|_| ()).map_err(refused)
}

/// Who started us is no child of ours; nothing is mapped at its address 0.
fn memory() -> Option<Tried> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:"))?;
    let parent = parent.trim();
    if owner(parent)? != owner("self")? {
        return None;
    }
    let read = process::read_memory(parent.parse().ok()?, 0, &mut [0]);
    match read.map_err(|error| error.raw_os_error()) {
        Ok(_) | Err(Some(libc::EFAULT)) => Some(Ok(())),
        Err(Some(libc::ESRCH) | None) => None,
        Err(Some(errno)) => Some(Err(errno)),
    }
}

#[cfg(test)]
mod tests {
    use super::Attempts;

    #[test]
    fn more_is_never_allowed_than_less() {
        let tried = Attempts::make(None);
        let is_allowed = |tried: Option<super::Tried>| tried.is_some_and(|tried| tried.is_ok());
        for (more, less) in [
            (tried.own_kernel, tried.own_user),
            (tried.system, tried.own_kernel),
        ] {
            assert!(!is_allowed(more) || is_allowed(less), "{tried:?}");
        }
        assert_eq!(tried.tracepoint, None);
    }
}

//! Events that interrupt their own thread with SIGTRAP (Linux 5.13).

use crate::action::{self, Handler};
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// `si_code` of SIGTRAP by an event.
const TRAP_PERF: libc::c_int = 6;

/// What the kernel tells with the signal of an event that has
/// [`SIGTRAP`](prof_abi::AttrFlags::SIGTRAP).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trap {
    /// `si_addr`: of a breakpoint on data the address that was accessed.
    pub address: u64,
    /// `si_perf_data`: the event's `sig_data`, which says which event it was.
    pub data: u64,
    /// `si_perf_type`: the event's type.
    pub kind: u32,
}

/// How many traps are kept until they are taken.
const KEPT: usize = 256;

/// A slot; its number is written last.
struct Slot {
    address: AtomicU64,
    data: AtomicU64,
    kind: AtomicU64,
    /// 1 plus the number of the trap that is here.
    number: AtomicUsize,
}

static SLOTS: [Slot; KEPT] = [const {
    Slot {
        address: AtomicU64::new(0),
        data: AtomicU64::new(0),
        kind: AtomicU64::new(0),
        number: AtomicUsize::new(0),
    }
}; KEPT];
static ARRIVED: AtomicUsize = AtomicUsize::new(0);

/// The traps of this process since they were looked for.
///
/// The signal is synchronous: it arrives before the thread executes another
/// instruction of the section that is watched, which no ring and no poll can
/// do. An event with `SIGTRAP` needs
/// [`REMOVE_ON_EXEC`](prof_abi::AttrFlags::REMOVE_ON_EXEC) and a task as its
/// target (`EINVAL` otherwise); its `sig_data` tells it from others.
#[derive(Debug)]
pub struct Traps {
    taken: usize,
}

impl Traps {
    /// Handles SIGTRAP in this process from now on; a debugger's breakpoints
    /// and others' uses of the signal end the process as ever. Fails if the
    /// kernel refuses the handler.
    pub fn watch() -> io::Result<Self> {
        let handler: Handler = on_trap;
        action::on_fault(libc::SIGTRAP, handler)?;
        Ok(Self {
            taken: ARRIVED.load(Ordering::Acquire),
        })
    }

    /// The oldest trap that was not taken; `None` if there is none. Of more
    /// than 256 only the newest are kept; [`Traps::arrived`] counts all.
    pub fn take(&mut self) -> Option<Trap> {
        // ORDERING: Acquire; the partner is the handler's Release.
        let arrived = ARRIVED.load(Ordering::Acquire);
        self.taken = self.taken.max(arrived.saturating_sub(KEPT));
        while self.taken < arrived {
            let number = self.taken;
            self.taken += 1;
            let slot = &SLOTS[number % KEPT];
            // ORDERING: Acquire; the partner is the Release of `number`.
            if slot.number.load(Ordering::Acquire) != number + 1 {
                continue; // written over, or by a thread that is just at it
            }
            return Some(Trap {
                address: slot.address.load(Ordering::Relaxed),
                data: slot.data.load(Ordering::Relaxed),
                kind: slot.kind.load(Ordering::Relaxed) as u32,
            });
        }
        None
    }

    /// How many arrived in this process in all, in any thread.
    pub fn arrived() -> usize {
        ARRIVED.load(Ordering::Acquire)
    }
}

/// `siginfo_t` of such a signal. Source: `asm-generic/siginfo.h` of Linux 5.13
/// and later; fields behind `address` are aligned as a pointer.
#[repr(C)]
pub(crate) struct TrapInfo {
    signal: libc::c_int,
    errno: libc::c_int,
    code: libc::c_int,
    pub(crate) address: *const u8,
    pub(crate) data: libc::c_ulong,
    kind: u32,
    flags: u32,
}

const _: () = assert!(size_of::<TrapInfo>() <= size_of::<libc::siginfo_t>());
#[cfg(target_pointer_width = "64")]
const _: () = {
    assert!(std::mem::offset_of!(TrapInfo, address) == 16);
    assert!(std::mem::offset_of!(TrapInfo, data) == 24);
    assert!(std::mem::offset_of!(TrapInfo, kind) == 32);
};

extern "C" fn on_trap(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: with SA_SIGINFO the kernel passes a valid siginfo, which is
    // larger than `TrapInfo` and aligned as it.
    let info = unsafe { &*info.cast::<TrapInfo>() };
    if info.code != TRAP_PERF {
        action::by_default(signal);
        return;
    }
    // Only atomics are touched: another trap may come in the middle.
    let number = ARRIVED.fetch_add(1, Ordering::AcqRel);
    let slot = &SLOTS[number % KEPT];
    slot.number.store(0, Ordering::Relaxed);
    slot.address.store(info.address as u64, Ordering::Relaxed);
    // Wider than `c_ulong` on 32-bit machines, whose upper half is lost.
    #[allow(
        clippy::unnecessary_cast,
        clippy::useless_conversion,
        reason = "u32 there"
    )]
    slot.data.store(info.data as u64, Ordering::Relaxed);
    slot.kind.store(info.kind.into(), Ordering::Relaxed);
    // ORDERING: Release, so that who sees the number sees the fields.
    slot.number.store(number + 1, Ordering::Release);
}

#[cfg(test)]
mod tests {
    use super::{Trap, Traps};
    use crate::breakpoint::{self, Access};
    use crate::event::{Event, Target};
    use crate::testing::permitted;
    use prof_abi::{AttrFlags, EventAttr, event_kind};
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    static WATCHED: AtomicU64 = AtomicU64::new(0);

    #[test]
    fn a_write_interrupts_the_thread_that_wrote() {
        // covers live: ATTR-56, ATTR-57, OVF-11
        if !permitted() {
            return;
        }
        let watch = breakpoint::on(&WATCHED, Access::Write).expect("8 bytes");
        let attr = EventAttr {
            sample_period: 1,
            sig_data: 0xfeed_face_cafe,
            flags: watch.flags | AttrFlags::SIGTRAP | AttrFlags::REMOVE_ON_EXEC,
            ..watch
        };
        let mut traps = Traps::watch().expect("a handler");
        let event = match Event::open(&attr, Target::THIS, None) {
            Ok(event) => event,
            Err(error) => {
                println!("skipped: no breakpoints or an old kernel: {error}");
                return;
            }
        };
        let expected = Trap {
            address: (&raw const WATCHED) as u64,
            data: 0xfeed_face_cafe,
            kind: event_kind::BREAKPOINT,
        };
        for _ in 0..3 {
            let before = Traps::arrived();
            WATCHED.store(7, Relaxed);
            assert_eq!(Traps::arrived(), before + 1, "at once");
            assert_eq!(traps.take(), Some(expected));
        }
        event.disable().expect("disable");
        WATCHED.store(8, Relaxed);
        assert_eq!(traps.take(), None);
    }

    #[test]
    fn the_signal_needs_a_task_and_removal_on_exec() {
        // covers live: ATTR-56, ATTR-57
        if !permitted() {
            return;
        }
        let errno = |flags| {
            let watch = breakpoint::on(&WATCHED, Access::Write).expect("8 bytes");
            let flags = watch.flags | AttrFlags::DISABLED | flags;
            let attr = EventAttr {
                sample_period: 1,
                flags,
                ..watch
            };
            let opened = Event::open(&attr, Target::THIS, None);
            opened.err().map(|error| error.errno())
        };
        assert_eq!(errno(AttrFlags::SIGTRAP), Some(libc::EINVAL));
        let both = AttrFlags::REMOVE_ON_EXEC | AttrFlags::ENABLE_ON_EXEC;
        assert_eq!(errno(both), Some(libc::EINVAL));
    }
}

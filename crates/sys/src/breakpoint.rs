//! Breakpoints of the CPU on variables and functions.

use prof_abi::{AttrFlags, EventAttr, event_kind};

/// Which accesses are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Writes.
    Write,
    /// Reads and writes. x86 has nothing for reads alone (`EINVAL`).
    ReadWrite,
}

/// An event for accesses to `variable`, from user space: 1, 2, 4 or 8 bytes,
/// aligned to their length; `None` for another size. The address is that of
/// this process; a variable that moves is not followed.
///
/// A CPU has few breakpoints, 4 on x86; the next event is refused with
/// `ENOSPC`. Every access interrupts the thread, some µs each, whatever the
/// period. Counts are exact.
pub fn on<T>(variable: &T, access: Access) -> Option<EventAttr> {
    const READ: u32 = 1;
    const WRITE: u32 = 2;
    let bp_type = match access {
        Access::Write => WRITE,
        Access::ReadWrite => READ | WRITE,
    };
    let length = size_of::<T>() as u64;
    let address = (&raw const *variable) as u64;
    let fits = matches!(length, 1 | 2 | 4 | 8) && address.is_multiple_of(length);
    fits.then(|| attr(bp_type, address, length))
}

/// An event for calls of the function at `address` in this process: each
/// execution of its first instruction.
pub fn at_function(address: usize) -> EventAttr {
    const EXECUTE: u32 = 4;
    // The kernel wants the size of a word.
    attr(EXECUTE, address as u64, size_of::<libc::c_long>() as u64)
}

fn attr(bp_type: u32, address: u64, length: u64) -> EventAttr {
    EventAttr {
        kind: event_kind::BREAKPOINT,
        bp_type,
        config1: address,
        config2: length,
        flags: AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV,
        ..EventAttr::default()
    }
}

#[cfg(test)]
mod tests {
    use super::{Access, at_function, on};
    use crate::event::{Event, Target};
    use crate::testing::{permitted, until_spared};
    use prof_abi::{EventAttr, ReadFormat};
    use std::hint::black_box;
    use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

    fn open(attr: &EventAttr) -> Option<Event> {
        match Event::open(attr, Target::THIS, None) {
            Ok(event) => Some(event),
            Err(error) if [libc::ENOENT, libc::EOPNOTSUPP].contains(&error.errno()) => {
                println!("skipped: this machine has no breakpoints");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    fn value(event: &Event) -> u64 {
        event.read_counts(ReadFormat(0)).expect("read").values[0].value
    }

    #[inline(never)]
    extern "C" fn called(number: u64) -> u64 {
        black_box(number) + 1
    }

    #[test]
    fn accesses_are_counted_exactly() {
        // covers live: ATTR-63, ATTR-64, ATTR-65, EV-26
        until_spared("breakpoint::tests::accesses_are_counted_exactly", counted);
    }

    fn counted() {
        if !permitted() {
            return;
        }
        let variable = AtomicU32::new(0);
        let Some(writes) = open(&on(&variable, Access::Write).expect("4 bytes")) else {
            return;
        };
        let both = open(&on(&variable, Access::ReadWrite).expect("4 bytes")).expect("a second");
        let calls =
            open(&at_function(called as extern "C" fn(u64) -> u64 as usize)).expect("a third");
        for number in 0..100 {
            variable.store(number, Relaxed);
            black_box(variable.load(Relaxed));
            black_box(called(black_box(number.into())));
        }
        assert_eq!(value(&writes), 100);
        assert_eq!(value(&both), 200);
        assert_eq!(value(&calls), 100);
    }

    #[test]
    fn an_open_breakpoint_moves_to_another_variable() {
        // covers live: IOC-13
        let name = "breakpoint::tests::an_open_breakpoint_moves_to_another_variable";
        until_spared(name, moved);
    }

    fn moved() {
        if !permitted() {
            return;
        }
        let (first, second) = (AtomicU64::new(0), AtomicU64::new(0));
        let attr = on(&first, Access::Write).expect("8 bytes");
        let Some(event) = open(&attr) else { return };
        first.store(1, Relaxed);
        assert_eq!(value(&event), 1);
        let other = on(&second, Access::Write).expect("8 bytes");
        event.modify_attributes(&other).expect("modified");
        first.store(2, Relaxed);
        second.store(2, Relaxed);
        second.store(3, Relaxed);
        assert_eq!(value(&event), 3);
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn what_the_cpu_cannot_watch_is_refused() {
        use super::attr;
        use prof_abi::AttrFlags;
        // covers live: ATTR-63, ATTR-65, EV-26, ERR-12
        if !permitted() {
            return;
        }
        let variable = [0_u64; 2];
        let address = (&raw const variable) as u64;
        let Some(_) = open(&attr(2, address, 8)) else {
            return;
        };
        let refused = |bp_type, address, length| {
            let opened = Event::open(&attr(bp_type, address, length), Target::THIS, None);
            opened.err().map(|error| error.errno())
        };
        // Reads alone, nothing, and reads of code.
        for bp_type in [0, 1, 5] {
            assert_eq!(
                refused(bp_type, address, 8),
                Some(libc::EINVAL),
                "{bp_type}"
            );
        }
        assert_eq!(refused(2, address, 3), Some(libc::EINVAL));
        assert_eq!(refused(2, address + 2, 4), Some(libc::EINVAL), "misaligned");
        assert_eq!(on(&[0_u8; 3], Access::Write), None);
        // In a thread of its own: other tests have breakpoints in theirs.
        let of_one_thread = move || {
            let mut open = Vec::new();
            loop {
                let mut one = attr(2, address, 8);
                one.flags = one.flags | AttrFlags::DISABLED;
                match Event::open(&one, Target::THIS, None) {
                    Ok(event) => open.push(event),
                    Err(error) => return (open.len(), error.errno()),
                }
            }
        };
        let (slots, errno) = std::thread::spawn(of_one_thread).join().expect("no panic");
        assert_eq!(errno, libc::ENOSPC);
        assert!((1..=4).contains(&slots), "{slots}");
    }
}

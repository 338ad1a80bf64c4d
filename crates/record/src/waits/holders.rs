//! Who holds the mutex that a thread waits for, read while it waits.
//!
//! glibc's `pthread_mutex_t` begins, on all 64-bit machines, with
//!
//! | offset | size | field                                                    |
//! |-------:|-----:|----------------------------------------------------------|
//! |      0 |    4 | `__lock`: the futex; 2 if threads wait                   |
//! |      4 |    4 | `__count`                                                |
//! |      8 |    4 | `__owner`: the thread that holds it, 0 while none does   |
//!
//! Robust and priority-inheriting mutexes have the holder's tid in `__lock`
//! too. `__owner` is set behind `__lock` and cleared before it, so one that is
//! not 0 holds the mutex. Source: glibc, `sysdeps/nptl/bits/struct_mutex.h`,
//! `nptl/pthread_mutex_lock.c`.
//!
//! Other futexes have something else there. So a holder counts only where the
//! words fit, its number is that of a living thread of the process, the thread
//! waited all the time ([`super::pairing`]), and, told when a report is made,
//! the functions that wait are those of a mutex.

use super::pairing::Thread;
use crate::runtime_code::own_number;
use prof_sys::process;
use std::path::Path;

/// That a thread waited for what another held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Held {
    /// Who waited.
    pub(super) thread: Thread,
    /// When that was looked at, ns.
    pub(super) from: u64,
    /// ns.
    pub(super) until: u64,
    /// Tid of who held it.
    pub(super) by: u32,
}

/// Bytes up to the end of `__owner`.
const HEAD: usize = 12;
/// `__lock` while threads wait.
const WAITED_FOR: u32 = 2;
/// The bits of a futex that hold a tid (`FUTEX_TID_MASK`).
const TID: u32 = 0x3fff_ffff;

/// Whether a futex call with this operation waits as for a mutex.
pub(super) fn may_be_for_mutex(operation: u64) -> bool {
    /// `FUTEX_WAIT`, `FUTEX_LOCK_PI`, `FUTEX_WAIT_BITSET` and `FUTEX_LOCK_PI2`
    /// without the flags for private futexes and the clock.
    const WAITING: [u64; 4] = [0, 6, 9, 13];
    WAITING.contains(&(operation & 0x7f))
}

/// Whether these may be the first two arguments of such a call: descriptors,
/// clocks, buffers and lengths, which other calls have there, are not.
pub(super) fn may_be_arguments(futex: u64, operation: u64) -> bool {
    /// Nothing is mapped below (`vm.mmap_min_addr` is seldom less).
    const LEAST_ADDRESS: u64 = 4096;
    /// The kernel reads the operation as 32 bits; its flags end below this.
    const PAST_FLAGS: u64 = 0x200;
    let operation = operation & 0xffff_ffff;
    futex >= LEAST_ADDRESS
        && futex.is_multiple_of(4)
        && operation < PAST_FLAGS
        && may_be_for_mutex(operation)
}

/// The holder of the mutex whose futex is at `futex` (avma), for which a thread
/// of a process waits; `None` if that is no mutex or not held now.
pub(super) fn holder(thread: Thread, futex: u64) -> Option<u32> {
    let tid = u32::try_from(thread.tid).ok()?;
    let mut head = [0; HEAD];
    let read = process::read_memory(tid, futex, &mut head).ok()?;
    let owner = owner(head.get(..read)?)?;
    lives(thread.pid, owner).then_some(owner)
}

/// The owner that a mutex of these bytes has.
fn owner(head: &[u8]) -> Option<u32> {
    let word = |at: usize| {
        let bytes = head.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_ne_bytes(bytes))
    };
    let (lock, owner) = (word(0)?, word(8)?);
    let fits = lock == WAITED_FOR || lock & TID == owner;
    (fits && owner != 0 && owner & TID == owner).then_some(owner)
}

/// Whether a process has a thread of this number, which it has for itself too:
/// of a container it would be that of another one.
fn lives(pid: i32, tid: u32) -> bool {
    let number = i32::try_from(tid).ok();
    Path::new(&format!("/proc/{pid}/task/{tid}")).exists() && number.and_then(own_number) == number
}

#[cfg(test)]
mod tests {
    use super::{lives, may_be_arguments, may_be_for_mutex, owner};

    fn head(words: [u32; 3]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_ne_bytes()).collect()
    }

    #[test]
    fn a_mutex_that_is_waited_for_tells_its_owner() {
        assert_eq!(owner(&head([2, 0, 77])), Some(77));
        // One that is robust or inherits priorities, with waiters.
        assert_eq!(owner(&head([0x8000_0000 | 77, 0, 77])), Some(77));
    }

    #[test]
    fn what_is_no_held_mutex_has_no_owner() {
        let others = [
            // On its way from one thread to the next.
            [2, 0, 0],
            // A condition variable, a semaphore, musl's mutex.
            [5, 0, 77],
            [1, 0, 77],
            [0x8000_0010, 1, 77],
            // The address of a thread's control block (stdio's locks).
            [2, 1, 0xf7a4_2740],
            [0, 0, 0],
        ];
        for words in others {
            assert_eq!(owner(&head(words)), None, "{words:x?}");
        }
        assert_eq!(owner(&head([2, 0, 77])[..11]), None);
    }

    #[test]
    fn only_calls_that_wait_for_a_lock_are_looked_at() {
        // Private; with the clock of the system; wake.
        assert!(may_be_for_mutex(0x80));
        assert!(may_be_for_mutex(0x189));
        assert!(!may_be_for_mutex(0x81));
    }

    #[test]
    fn arguments_of_other_calls_are_not_taken_for_those_of_a_lock() {
        let futex = 0x7f32_e72d_f2a8;
        assert!(may_be_arguments(futex, 0x80));
        assert!(may_be_arguments(futex, 0x189));
        assert!(may_be_arguments(futex, 0xffff_ffff_0000_0080));
        // poll of one descriptor and of 512; clock_nanosleep; read.
        assert!(!may_be_arguments(futex, 1));
        assert!(!may_be_arguments(futex, 512));
        assert!(!may_be_arguments(1, 0));
        assert!(!may_be_arguments(3, 0x7f32_e72d_f000));
        assert!(!may_be_arguments(futex + 2, 0x80));
    }

    #[test]
    fn a_holder_is_a_thread_of_that_process() {
        let own = std::process::id();
        let pid = i32::try_from(own).expect("a pid");
        assert!(lives(pid, own));
        assert!(!lives(pid, 1));
        assert!(!lives(pid, 0x3fff_fff0));
    }
}

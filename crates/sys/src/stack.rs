//! Stacks of threads: the first one's is as large as `ulimit -s` says, others are
//! as large as they are asked for.

use crate::limits::{Limit, Resource};
use crate::signal::{self, SignalSet};
use std::panic::resume_unwind;
use std::thread;

/// What the first thread needs at the most, bytes: with 200 KiB the options of a
/// command were not even read.
const ENOUGH: u64 = 2 << 20;
/// What another thread gets instead, bytes, of which only what is used takes memory.
const INSTEAD: usize = 8 << 20;

/// Runs `main` where it has enough stack: in this thread, which is the first, or,
/// if `ulimit -s` leaves it little, in another. Commands that it starts have the
/// limit all the same.
pub fn with_enough<T: Send + 'static>(main: fn() -> T) -> T {
    let is_short = Limit::get(Resource::Stack).is_ok_and(|limit| limit.soft < ENOUGH);
    if !is_short {
        return main();
    }
    // Signals are for the thread that does the work, with the mask that we began with.
    let before = signal::blocked();
    let there = thread::Builder::new().stack_size(INSTEAD);
    signal::block(SignalSet(u64::MAX));
    let started = there.spawn(move || {
        signal::set_mask(before);
        main()
    });
    match started.map(thread::JoinHandle::join) {
        Ok(Ok(done)) => done,
        Ok(Err(panic)) => resume_unwind(panic),
        Err(_) => {
            signal::set_mask(before);
            main()
        }
    }
}

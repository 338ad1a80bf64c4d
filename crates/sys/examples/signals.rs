//! A signal with each overflow, and an event that stops after so many.
//!
//! `cargo run -p prof-sys --example signals`
#![expect(clippy::print_stdout, reason = "a program")]

use memmap2::{Advice, MmapMut};
use prof_abi::{AttrFlags, EventAttr, event_by_name};
use prof_sys::signal::{SignalFd, SignalSet, Thread};
use prof_sys::{Event, Target};
use std::error::Error;

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let (kind, config) = event_by_name("page-faults").ok_or("it is in the table")?;
    let attr = EventAttr {
        kind,
        config,
        sample_period: 1,
        flags: AttrFlags::DISABLED | AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV,
        ..EventAttr::default()
    };
    let event = Event::open(&attr, Target::THIS, None)?;
    let _ring = prof_sys::Ring::map(&event, 1)?;
    // Real-time signals are queued; blocked here, and read as from a file.
    let signal = libc::SIGRTMIN() + 3;
    let signals = SignalFd::new(SignalSet::of(&[signal]))?;
    event.signal_overflows(signal, Thread::current())?;

    event.refresh(3)?; // on for three more overflows
    fault(100)?;

    let codes: Vec<i32> = std::iter::from_fn(|| signals.next())
        .map(|arrived| arrived.code)
        .collect();
    println!("si_code of each signal: {codes:?} (1 is POLL_IN, 6 POLL_HUP: stopped)");
    assert_eq!(codes, [1, 1, 6]);
    Ok(())
}

/// Touches so many pages for the first time.
fn fault(pages: usize) -> std::io::Result<()> {
    let page = prof_sys::page_size();
    let mut memory = MmapMut::map_anon(pages * page)?;
    memory.advise(Advice::NoHugePage)?;
    memory.iter_mut().step_by(page).for_each(|byte| *byte = 1);
    Ok(())
}

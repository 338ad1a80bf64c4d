//! Leaves a section out of everything that this thread counts.
//!
//! `cargo run -p prof-sys --example own_events`
#![expect(clippy::print_stdout, reason = "a program")]

use memmap2::{Advice, MmapMut};
use prof_abi::{AttrFlags, EventAttr, ReadFormat, event_by_name};
use prof_sys::{Event, Target, disable_own_events, enable_own_events};
use std::error::Error;

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let (kind, config) = event_by_name("page-faults").ok_or("it is in the table")?;
    let attr = EventAttr {
        kind,
        config,
        flags: AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV,
        ..EventAttr::default()
    };
    let event = Event::open(&attr, Target::THIS, None)?;
    let value = || Ok::<_, std::io::Error>(event.read_counts(ReadFormat(0))?.values[0].value);
    fault(1000)?;
    disable_own_events()?;
    let before = value()?;
    fault(1000)?;
    let during = value()? - before;
    enable_own_events()?;
    println!("{before} faults before, {during} in the section left out");
    assert!(before >= 1000);
    assert_eq!(during, 0);
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

//! Counts a section of its own code: page faults, exact to the last one.
//!
//! `cargo run -p prof-sys --example count_section`
#![expect(clippy::print_stdout, reason = "a program")]

use memmap2::{Advice, MmapMut};
use prof_abi::{AttrFlags, EventAttr, ReadFormat, event_by_name};
use prof_sys::{Event, Target};
use std::error::Error;

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let (kind, config) = event_by_name("page-faults").ok_or("it is in the table")?;
    let attr = EventAttr {
        kind,
        config,
        // Without the kernel's part every user may count.
        flags: AttrFlags::DISABLED | AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV,
        ..EventAttr::default()
    };
    let event = Event::open(&attr, Target::THIS, None)?;
    let pages = 1024;
    let mut memory = MmapMut::map_anon(pages * prof_sys::page_size())?;
    memory.advise(Advice::NoHugePage)?;

    event.enable()?;
    for page in 0..pages {
        memory[page * prof_sys::page_size()] = 1; // the first touch of a page faults
    }
    event.disable()?;

    let faults = event.read_counts(ReadFormat(0))?.values[0].value;
    println!("{faults} page faults for {pages} pages");
    assert_eq!(faults, pages as u64);
    Ok(())
}

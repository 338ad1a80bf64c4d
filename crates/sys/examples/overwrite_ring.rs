//! A flight recorder: the newest records stay, and are read when something
//! has happened.
//!
//! `cargo run -p prof-sys --example overwrite_ring`
#![expect(clippy::print_stdout, reason = "a program")]

use memmap2::{Advice, MmapMut};
use prof_abi::{AttrFlags, ByteOrder, EventAttr, SampleType, event_by_name};
use prof_sys::{Event, Records, Ring, Target};
use std::error::Error;

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let (kind, config) = event_by_name("page-faults").ok_or("it is in the table")?;
    let attr = EventAttr {
        kind,
        config,
        sample_period: 1,
        sample_type: SampleType::IP | SampleType::TIME,
        flags: AttrFlags::WRITE_BACKWARD | AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV,
        ..EventAttr::default()
    };
    let event = Event::open(&attr, Target::THIS, None)?;
    // Read-only: the kernel never waits, and so never loses a new record.
    let ring = Ring::map_overwriting(&event, 1)?;

    fault(2000)?;

    // Pauses the output, reads from the newest record to older ones, resumes.
    let mut bytes = Vec::new();
    let count = ring.dump(&event, &mut bytes)?;
    let times: Option<Vec<u64>> = Records::of(&bytes)
        .map(|record| ByteOrder::NATIVE.u64(record, 16))
        .collect();
    let times = times.ok_or("a short sample")?;
    println!("the last {count} of the records, {} bytes", bytes.len());
    assert!(count > 0 && times.is_sorted_by(|newer, older| newer >= older));
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

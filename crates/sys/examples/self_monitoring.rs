//! Counts its own instructions by an instruction where the CPU allows it, and
//! by read(2) where not.
//!
//! `cargo run -p prof-sys --example self_monitoring`
#![expect(clippy::print_stdout, reason = "a program")]

use memmap2::{Advice, MmapMut};
use prof_abi::{AttrFlags, EventAttr, event_by_name};
use prof_sys::{SelfCounter, Source};
use std::error::Error;

fn open() -> Result<(SelfCounter, &'static str), Box<dyn Error>> {
    for name in ["instructions", "page-faults"] {
        let (kind, config) = event_by_name(name).ok_or("it is in the table")?;
        let attr = EventAttr {
            kind,
            config,
            flags: AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV,
            ..EventAttr::default()
        };
        if let Ok(counter) = SelfCounter::open(&attr) {
            return Ok((counter, name));
        }
    }
    Err("this user may not count at all".into())
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let (counter, name) = open()?;
    let before = counter.read()?;
    fault(1000)?;
    let after = counter.read()?;
    let how = match after.source {
        Source::Instruction => "rdpmc",
        Source::SystemCall => "read(2)",
    };
    println!("{} {name}, by {how}", after.value - before.value);
    let page = counter.page().ok_or("the page changed all the time")?;
    println!("{:?}", page.capabilities);
    assert!(after.value > before.value && after.running > 0);
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

//! Changes events while they are open: a count from 0 again, another period,
//! another variable, a ring for two, a ring that rests, a filter.
//!
//! `cargo run -p prof-sys --example open_event`
#![expect(clippy::print_stdout, reason = "a program")]

use memmap2::{Advice, MmapMut};
use prof_abi::{
    AttrFlags, ByteOrder, EventAttr, ReadFormat, RecordType, event_by_name, event_kind,
};
use prof_sys::breakpoint::{self, Access};
use prof_sys::{Event, Records, Ring, Target};
use std::error::Error;
use std::hint::black_box;
use std::io;
use std::sync::atomic::{AtomicU32, Ordering};

/// An event for page faults of this thread, which samples each `period`th.
fn page_faults(period: u64) -> Result<Event, Box<dyn Error>> {
    let (kind, config) = event_by_name("page-faults").ok_or("it is in the table")?;
    let attr = EventAttr {
        kind,
        config,
        sample_period: period,
        flags: AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV,
        ..EventAttr::default()
    };
    Ok(Event::open(&attr, Target::THIS, None)?)
}

fn count(event: &Event) -> io::Result<u64> {
    Ok(event.read_counts(ReadFormat(0))?.values[0].value)
}

/// Touches so many pages for the first time.
fn fault(pages: usize) -> io::Result<()> {
    let page = prof_sys::page_size();
    let mut memory = MmapMut::map_anon(pages * page)?;
    memory.advise(Advice::NoHugePage)?;
    memory.iter_mut().step_by(page).for_each(|byte| *byte = 1);
    Ok(())
}

/// How many samples the ring holds; it is empty then.
fn samples(ring: &mut Ring) -> usize {
    let mut bytes = Vec::new();
    ring.take(&mut bytes);
    let kinds = Records::of(&bytes).filter_map(|record| ByteOrder::NATIVE.u32(record, 0));
    kinds
        .filter(|&kind| RecordType(kind) == RecordType::SAMPLE)
        .count()
}

fn rings() -> Result<(), Box<dyn Error>> {
    let event = page_faults(1)?;
    let mut ring = Ring::map(&event, 8)?;
    fault(100)?;
    let each = samples(&mut ring);
    event.set_period(10)?; // counts on from where it is
    fault(100)?;
    let tenth = samples(&mut ring);
    event.pause_output(true)?;
    fault(100)?;
    let paused = samples(&mut ring);
    event.pause_output(false)?;

    let other = page_faults(10)?;
    other.set_output(Some(&event))?; // of the same CPU and clock
    fault(100)?;
    let of_two = samples(&mut ring);
    other.set_output(None)?;
    println!("samples: {each}, of each tenth {tenth}, paused {paused}, of two {of_two}");
    // Other memory may fault, too: of the allocator, of a page of code.
    assert!(each >= 100 && (9..20).contains(&tenth));
    assert!(paused == 0 && of_two >= 19);

    event.reset()?;
    let reset = count(&event)?;
    println!("faults after a reset: {reset}");
    assert!(reset < 100);
    Ok(())
}

fn another_variable() -> Result<(), Box<dyn Error>> {
    let variables = [AtomicU32::new(0), AtomicU32::new(0)];
    let on = |variable| breakpoint::on(variable, Access::Write).ok_or("4 bytes, aligned");
    let [first, second] = [on(&variables[0])?, on(&variables[1])?];
    let event = match Event::open(&first, Target::THIS, None) {
        Ok(event) => event,
        Err(error) if error.errno() == libc::ENOENT || error.errno() == libc::EOPNOTSUPP => {
            println!("this machine has no breakpoints");
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    let write = || {
        for variable in black_box(&variables) {
            variable.fetch_add(1, Ordering::Relaxed);
        }
    };
    write();
    event.modify_attributes(&second)?; // the count goes on
    write();
    black_box(&variables)[0].store(9, Ordering::Relaxed);
    println!("writes: {}", count(&event)?);
    assert_eq!(count(&event)?, 2);
    Ok(())
}

fn filtered() -> Result<(), Box<dyn Error>> {
    let path = "/sys/kernel/tracing/events/syscalls/sys_enter_ftruncate/id";
    let Ok(id) = std::fs::read_to_string(path) else {
        println!("filters: tracepoints need root and tracefs");
        return Ok(());
    };
    let attr = EventAttr {
        kind: event_kind::TRACEPOINT,
        config: id.trim().parse()?,
        sample_period: 1,
        ..EventAttr::default()
    };
    let event = Event::open(&attr, Target::THIS, None)?;
    event.set_filter(c"length >= 90")?; // as ftrace writes conditions
    let file = tempfile::tempfile()?;
    for length in 0..100 {
        file.set_len(length)?;
    }
    println!("calls with length >= 90: {}", count(&event)?);
    assert_eq!(count(&event)?, 10);
    Ok(())
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    rings()?;
    another_variable()?;
    filtered()
}

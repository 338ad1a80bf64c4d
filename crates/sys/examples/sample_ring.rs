//! Samples itself into a ring and takes the records out.
//!
//! `cargo run -p prof-sys --example sample_ring`
#![expect(clippy::print_stdout, reason = "a program")]

use prof_abi::{AttrFlags, ByteOrder, EventAttr, RecordType, SampleType, event_by_name};
use prof_sys::{Event, Records, Ring, Target};
use std::collections::BTreeMap;
use std::error::Error;
use std::hint::black_box;

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let (kind, config) = event_by_name("task-clock").ok_or("it is in the table")?;
    let attr = EventAttr {
        kind,
        config,
        sample_period: 1_000_000, // ns
        sample_type: SampleType::IP | SampleType::TIME,
        flags: AttrFlags::DISABLED | AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV,
        ..EventAttr::default()
    };
    let event = Event::open(&attr, Target::THIS, None)?;
    // Pages of records, a power of two; one more is the control page.
    let mut ring = Ring::map(&event, 8)?;

    event.enable()?;
    let mut bytes = Vec::new();
    while bytes.len() < 24 * 10 {
        black_box((0..100_000_u64).fold(0, |sum, number| sum ^ black_box(number)));
        ring.take(&mut bytes); // appends whole records
    }
    event.disable()?;

    let mut hits = BTreeMap::new();
    for record in Records::of(&bytes) {
        let kind = ByteOrder::NATIVE.u32(record, 0).map(RecordType);
        if kind == Some(RecordType::SAMPLE) {
            // What a sample holds, and in which order, is the attr's choice.
            let address = ByteOrder::NATIVE.u64(record, 8).ok_or("a short sample")?;
            *hits.entry(address).or_insert(0_u32) += 1;
        }
    }
    for (address, count) in &hits {
        println!("{address:#18x} {count}");
    }
    assert!(hits.values().sum::<u32>() >= 10);
    Ok(())
}

//! Counts several things of the same time, by one system call, and scales
//! where events take turns on the hardware.
//!
//! `cargo run -p prof-sys --example group`
#![expect(clippy::print_stdout, reason = "a program")]

use prof_abi::{AttrFlags, EventAttr, event_by_name};
use prof_sys::{Group, Target};
use std::error::Error;
use std::hint::black_box;

fn named(name: &str) -> Result<EventAttr, String> {
    let (kind, config) = event_by_name(name).ok_or(format!("no event {name}"))?;
    Ok(EventAttr {
        kind,
        config,
        flags: AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV,
        ..EventAttr::default()
    })
}

/// The first of these groups that this machine has.
fn open() -> Result<(Group, [&'static str; 2]), Box<dyn Error>> {
    // A virtual machine mostly has no hardware events: ENOENT.
    for names in [["cycles", "instructions"], ["task-clock", "page-faults"]] {
        let attrs = [named(names[0])?, named(names[1])?];
        if let Ok(group) = Group::open(&attrs, Target::THIS) {
            return Ok((group, names));
        }
    }
    Err("this user may not count at all".into())
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let (group, names) = open()?;
    group.enable()?;
    let sum = (0..1_000_000_u64).fold(0, |sum, number| sum ^ black_box(number));
    group.disable()?;
    black_box(sum);

    let read = group.read()?;
    for (member, name) in names.iter().enumerate() {
        match read.scaled(member) {
            Some(events) => println!("{events:>12} {name}"),
            // Pinned, or more members than counters.
            None => println!("{:>12} {name}", "not counted"),
        }
    }
    let share = 100.0 * read.running as f64 / read.enabled as f64;
    println!("on the hardware {share:.0} % of {} ns", read.enabled);
    assert!(read.running > 0 && read.values[0] > 0);
    Ok(())
}

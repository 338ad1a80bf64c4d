//! Sleeps until a ring holds enough to be worth waking up for, or the watched
//! program has ended.
//!
//! `cargo run -p prof-sys --example poll_watermark`
#![expect(clippy::print_stdout, reason = "a program")]

use prof_abi::{AttrFlags, EventAttr, SampleType, event_by_name};
use prof_sys::{Event, PollSet, Records, Ring, Target};
use std::error::Error;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let mut child = Command::new("sh")
        .args([
            "-c",
            "read go; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done",
        ])
        .stdin(Stdio::piped())
        .spawn()?;
    let (kind, config) = event_by_name("task-clock").ok_or("it is in the table")?;
    let attr = EventAttr {
        kind,
        config,
        sample_period: 200_000, // ns
        sample_type: SampleType::IP,
        wakeup: 512, // bytes, because of WATERMARK; otherwise samples
        flags: AttrFlags::WATERMARK | AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV,
        ..EventAttr::default()
    };
    let target = Target::Task {
        tid: child.id(),
        cpu: None,
    };
    let event = Event::open(&attr, target, None)?;
    // Without a ring poll(2) says at once that the other side is gone.
    let mut ring = Ring::map(&event, 8)?;
    drop(child.stdin.take()); // now it goes

    let mut set = PollSet::default();
    let place = set.add(event.as_fd());
    let (mut wakes, mut bytes) = (0, Vec::new());
    while !set.is_hung_up(place) {
        set.wait(None)?;
        wakes += 1;
        ring.take(&mut bytes);
    }
    ring.take(&mut bytes); // what came last
    child.wait()?;
    println!("{} samples, {wakes} wakes", Records::of(&bytes).count());
    assert!(wakes >= 1 && wakes <= 2 + bytes.len() / 512);
    Ok(())
}

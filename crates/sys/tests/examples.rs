//! Runs every example as its user would: each asserts what it promises.
#![expect(clippy::print_stdout, reason = "a test that cannot run here says why")]

use prof_abi::{AttrFlags, EventAttr};
use prof_sys::{Event, Target};
use std::error::Error;
use support::spared::until_spared;

mod support {
    pub(crate) mod spared;
}
#[path = "../examples/aux_area.rs"]
mod aux_area;
#[path = "../examples/bpf_attach.rs"]
mod bpf_attach;
#[path = "../examples/breakpoint.rs"]
mod breakpoint;
#[path = "../examples/count_section.rs"]
mod count_section;
#[path = "../examples/group.rs"]
mod group;
#[path = "../examples/machine.rs"]
mod machine;
#[path = "../examples/open_event.rs"]
mod open_event;
#[path = "../examples/overwrite_ring.rs"]
mod overwrite_ring;
#[path = "../examples/own_events.rs"]
mod own_events;
#[path = "../examples/poll_watermark.rs"]
mod poll_watermark;
#[path = "../examples/sample_ring.rs"]
mod sample_ring;
#[path = "../examples/self_monitoring.rs"]
mod self_monitoring;
#[path = "../examples/signals.rs"]
mod signals;
#[path = "../examples/sigtrap.rs"]
mod sigtrap;

/// Runs an example in a thread of its own, whose signals and events are its
/// own, too.
fn run(example: fn() -> Result<(), Box<dyn Error>>) {
    let attr = EventAttr {
        kind: 1,
        config: 1,
        flags: AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV,
        ..EventAttr::default()
    };
    if Event::open(&attr, Target::THIS, None).is_err() {
        println!("skipped: perf_event_open is not permitted here");
        return;
    }
    let text = move || example().map_err(|error| error.to_string());
    let ended = std::thread::spawn(text).join().expect("it asserts");
    ended.expect("no error");
}

#[test]
fn an_area_is_mapped_or_the_refusal_is_told() {
    run(aux_area::main);
}

#[test]
fn a_bpf_program_filters() {
    // covers live: IOC-10, IOC-12
    run(bpf_attach::main);
}

#[test]
fn accesses_and_calls_are_counted() {
    // covers live: EV-26, ATTR-63
    until_spared("accesses_and_calls_are_counted", || run(breakpoint::main));
}

#[test]
fn a_section_is_counted() {
    // covers live: EV-01, EV-13
    run(count_section::main);
}

#[test]
fn a_group_is_read_at_once() {
    // covers live: RF-04
    run(group::main);
}

#[test]
fn the_machine_is_described() {
    // covers live: SFS-02
    run(machine::main);
}

#[test]
fn events_change_while_they_are_open() {
    // covers live: IOC-05, IOC-06, IOC-07, IOC-08, IOC-11, IOC-13
    run(open_event::main);
}

#[test]
fn the_newest_records_are_dumped() {
    // covers live: ATTR-47, RING-08
    run(overwrite_ring::main);
}

#[test]
fn a_section_is_left_out() {
    // covers live: PRC-01
    run(own_events::main);
}

#[test]
fn a_watermark_wakes() {
    // covers live: OVF-01, ATTR-62
    run(poll_watermark::main);
}

#[test]
fn samples_are_taken() {
    // covers live: EV-02, EV-12
    run(sample_ring::main);
}

#[test]
fn a_thread_counts_itself() {
    // covers live: RDP-01
    run(self_monitoring::main);
}

#[test]
fn signals_tell_of_overflows() {
    // covers live: OVF-03
    run(signals::main);
}

#[test]
fn a_write_traps() {
    // covers live: ATTR-57
    run(sigtrap::main);
}

#[test]
fn every_example_is_run() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");
    let entries = std::fs::read_dir(folder).expect("a folder");
    let mut found: Vec<String> = entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .collect();
    found.sort();
    let run = [
        "aux_area.rs",
        "bpf_attach.rs",
        "breakpoint.rs",
        "count_section.rs",
        "group.rs",
        "machine.rs",
        "open_event.rs",
        "overwrite_ring.rs",
        "own_events.rs",
        "poll_watermark.rs",
        "sample_ring.rs",
        "self_monitoring.rs",
        "signals.rs",
        "sigtrap.rs",
    ];
    assert_eq!(found, run);
}

use super::{OfRecording, Parts, Waits};
use prof_abi::{AttrFlags, EventAttr, Misc, SampleType};
use prof_perfdata::body::Task;
use prof_perfdata::write::{EventDescription, Trailer, append};
use prof_perfdata::{Body, OFF_CPU_EVENT};
use prof_sys::clock;

/// The event of waits, as it is written.
fn event() -> EventDescription {
    let attr = EventAttr {
        sample_type: SampleType::IDENTIFIER
            | SampleType::TID
            | SampleType::TIME
            | SampleType::CPU
            | SampleType::PERIOD
            | SampleType::ADDR
            | SampleType::TRANSACTION,
        flags: AttrFlags::SAMPLE_ID_ALL,
        ..EventAttr::default()
    };
    EventDescription {
        attr,
        ids: vec![9],
        name: OFF_CPU_EVENT.to_owned(),
    }
}

fn waits<'a>(parts: &'a Parts, event: &EventDescription) -> Waits<'a> {
    let of = OfRecording {
        options: crate::options::WaitOptions::default(),
        keeps_switches: false,
        whole_cpus: false,
        has_stacks: false,
        has_kernel: false,
        thinner: None,
        threads: vec![(7, 7), (7, 8)],
        clock: clock::MONOTONIC,
        parts,
    };
    Waits::new(of, std::slice::from_ref(event)).expect("an event of waits")
}

#[test]
fn who_has_ended_did_not_sleep_all_the_time() {
    let parts = Parts {
        clock: Some(clock::MONOTONIC),
        ..Parts::default()
    };
    let event = event();
    let mut waits = waits(&parts, &event);
    parts.note(true);
    let mut out = Vec::new();
    let mut records = Vec::new();
    let task = Task {
        pid: 7,
        parent_pid: 1,
        tid: 7,
        parent_tid: 1,
        time: parts.now().expect("a clock"),
    };
    let trailer = Trailer {
        pid: 7,
        tid: 7,
        time: task.time,
        ..Trailer::of(&event.attr)
    };
    append(&Body::Exit(task), Misc(0), &trailer, &mut records).expect("short");
    waits.pass(&records, &mut |_| {});
    waits.pair(u64::MAX, &mut |piece| out.extend_from_slice(piece));
    parts.note(false);
    // Its number is still there, of a task that is being taken apart, or of another.
    let asleep = std::cell::RefCell::new(Vec::new());
    let is_asleep = |tid| {
        asleep.borrow_mut().push(tid);
        true
    };
    waits.finish(is_asleep, &mut |piece| out.extend_from_slice(piece));
    assert_eq!(*asleep.borrow(), [8]);
    assert_eq!(waits.account().written, 1);
    assert!(!out.is_empty());
}

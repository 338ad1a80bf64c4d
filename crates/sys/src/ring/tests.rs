//! Rings of a real event.

use super::{Records, Ring};
use crate::event::{Event, Target};
use crate::testing::{errno, permitted, touch};
use prof_abi::{AttrFlags, ByteOrder, EventAttr, ReadFormat, SampleType};

#[test]
fn records_one_by_one_are_those_taken_together() {
    // covers live: RING-05, HDR-01, HDR-02
    let Some(event) = faults(AttrFlags(0)) else {
        return;
    };
    let mut ring = Ring::map(&event, 1).expect("one page");
    let mut all = 0;
    // A page holds 170 records of 24 bytes and a part of one.
    for _ in 0..20 {
        touch(100);
        let waiting = ring.waiting();
        let (mut bytes, mut records) = (0, 0);
        ring.take_each(|record| {
            assert_eq!(ByteOrder::NATIVE.u16(record, 6), Some(record.len() as u16));
            bytes += record.len();
            records += 1;
        });
        assert!(bytes >= waiting);
        all += records;
    }
    assert!(all >= 2000, "{all} records");
}

/// A sample of 24 bytes for each page that this thread touches.
fn faults(flags: AttrFlags) -> Option<Event> {
    if !permitted() {
        return None;
    }
    Some(Event::open(&faults_attr(flags), Target::THIS, None).expect("an event"))
}

fn faults_attr(flags: AttrFlags) -> EventAttr {
    EventAttr {
        kind: 1,
        config: 2,
        sample_period: 1,
        sample_type: SampleType::IP | SampleType::ADDR,
        flags: AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV | flags,
        wakeup: 1,
        ..EventAttr::default()
    }
}

/// Walks records; panics if one is not whole.
fn kinds(mut records: &[u8]) -> Vec<u32> {
    let mut kinds = Vec::new();
    while !records.is_empty() {
        let size = ByteOrder::NATIVE.u16(records, 6).expect("header") as usize;
        assert!(size >= 8 && size <= records.len(), "whole records");
        kinds.push(ByteOrder::NATIVE.u32(records, 0).expect("header"));
        records = &records[size..];
    }
    kinds
}

#[test]
fn a_view_sees_records_until_they_are_written_over() {
    let Some(event) = faults(AttrFlags(0)) else {
        return;
    };
    let mut ring = Ring::map(&event, 1).expect("a page");
    let beside = ring.view();
    touch(20);
    let (mut seen, mut taken) = (Vec::new(), Vec::new());
    let (tail, head) = (beside.tail(), beside.head());
    assert!(beside.peek(tail, (head - tail) as usize, &mut seen));
    assert!(!beside.peek(tail, usize::MAX, &mut Vec::new()));
    assert!(!beside.peek(beside.head(), 8, &mut Vec::new()));
    ring.take(&mut taken);
    assert_eq!(seen[..], taken[..seen.len()]);
    assert!(kinds(&seen).len() >= 20);
    let mut again = Vec::new();
    assert!(beside.peek(tail, seen.len(), &mut again), "still there");
    assert_eq!(again, seen);
    // More than half of the ring's 4096 bytes.
    touch(100);
    assert!(!beside.peek(tail, 24, &mut Vec::new()), "taken long ago");
    // What was not taken is never written over.
    touch(100);
    assert!(beside.peek(beside.tail(), 24, &mut again));
}

#[test]
fn records_come_out_whole_over_many_wraps() {
    // covers live: RING-02, RING-03, RING-04, RING-05, RING-06, MP-18, MP-19, EV-02, REC-08, ATTR-15, ST-03, ST-06
    let Some(event) = faults(AttrFlags(0)) else {
        return;
    };
    let mut ring = Ring::map(&event, 1).expect("a page");
    let mut samples = 0;
    let mut out = Vec::new();
    for _ in 0..50 {
        touch(100);
        out.clear();
        assert_eq!(ring.waiting(), ring.take(&mut out));
        samples += kinds(&out).iter().filter(|&&kind| kind == 9).count();
    }
    assert!(samples >= 5000, "{samples}");
}

#[test]
fn a_full_ring_says_how_much_it_lost() {
    // covers live: RING-10, REC-02
    let Some(event) = faults(AttrFlags(0)) else {
        return;
    };
    let mut ring = Ring::map(&event, 1).expect("a page");
    touch(1000);
    let mut out = Vec::new();
    ring.take(&mut out);
    // The LOST record is written with the next record that finds room.
    touch(1);
    ring.take(&mut out);
    assert!(kinds(&out).contains(&2), "a LOST record");
    assert!(out.len() <= 2 * ring.size());
}

#[test]
fn an_overwriting_ring_holds_the_newest_first() {
    // covers live: ATTR-47, RING-07, RING-08, RING-09
    let Some(event) = faults(AttrFlags::WRITE_BACKWARD) else {
        return;
    };
    let ring = Ring::map_overwriting(&event, 1).expect("a page");
    touch(1000);
    event.pause_output(true).expect("pause");
    let mut out = Vec::new();
    ring.read_newest(&mut out);
    assert_eq!(out.len(), ring.size());
    let whole = out.len() / 24 * 24;
    assert!(kinds(&out[..whole]).iter().all(|&kind| kind == 9));
}

#[test]
fn three_pages_are_refused() {
    // covers live: RING-01
    let Some(event) = faults(AttrFlags(0)) else {
        return;
    };
    let error = Ring::map(&event, 3).expect_err("not a power of two");
    assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
    let error = Ring::map(&event, usize::MAX).expect_err("too many");
    assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
}

/// The number that stands behind the header and the IP: the address touched.
fn address(record: &[u8]) -> u64 {
    ByteOrder::NATIVE.u64(record, 16).expect("an address")
}

#[test]
fn a_dump_is_the_newest_records_and_the_ring_goes_on() {
    // covers live: ATTR-47, RING-07, RING-08, RING-09, RING-11, IOC-11
    let Some(event) = faults(AttrFlags::WRITE_BACKWARD) else {
        return;
    };
    let mut ring = Ring::map_overwriting(&event, 1).expect("a page");
    assert_eq!(ring.take(&mut Vec::new()), 0, "nothing to give back");
    ring.take_each(|_| panic!("none"));
    touch(10);
    let mut out = b"before".to_vec();
    // Code of this test may fault as well, so at least.
    let count = ring.dump(&event, &mut out).expect("a dump");
    assert!((10..100).contains(&count), "{count}");
    assert_eq!(out.len(), 6 + 24 * count, "zeros are left out");
    touch(1000);
    out.clear();
    let count = ring.dump(&event, &mut out).expect("a dump");
    assert_eq!(count, ring.size() / 24, "full, but for a cut record");
    let addresses: Vec<u64> = Records::of(&out).map(address).collect();
    let page = crate::page_size() as u64;
    let falling = addresses.windows(2).filter(|two| two[0] == two[1] + page);
    assert!(falling.count() >= count - 20, "newest first");
    // It goes on.
    let newest = addresses[0];
    touch(3);
    out.clear();
    ring.dump(&event, &mut out).expect("a dump");
    let next = Records::of(&out).map(address).take(10);
    assert!(next.into_iter().any(|address| address != newest));
}

#[test]
fn what_is_taken_of_the_newest_comes_once_and_nothing_is_missing() {
    // covers live: RING-07, RING-08
    let Some(event) = faults(AttrFlags::WRITE_BACKWARD) else {
        return;
    };
    // More than may be in flight, so that it is read without a pause.
    let pages = (1 << 20) / crate::page_size();
    let mut ring = Ring::map_overwriting(&event, pages).expect("a MiB");
    let mut taken = Vec::new();
    for _ in 0..20 {
        touch(100);
        let mut newest = Vec::new();
        let bytes = ring
            .take_newest(Some(&event), &mut newest)
            .expect("no pause");
        assert_eq!(bytes, newest.len());
        assert!(bytes >= 100 * 24);
        taken.push(newest);
    }
    let records: usize = taken.iter().map(|part| Records::of(part).count()).sum();
    // Faults of the copies that came behind the last time.
    let mut rest = Vec::new();
    ring.take_newest(Some(&event), &mut rest).expect("no pause");
    let records = records + Records::of(&rest).count();
    event.disable().expect("ours");
    let mut last = Vec::new();
    ring.take_newest(None, &mut last).expect("no pause");
    let records = records + Records::of(&last).count();
    assert_eq!(
        records as u64,
        event.read_counts(ReadFormat(0)).expect("a count").values[0].value
    );
    last.clear();
    assert_eq!(ring.take_newest(None, &mut last).expect("no pause"), 0);
}

#[test]
fn of_a_ring_that_was_overwritten_the_newest_are_taken() {
    // covers live: RING-11, IOC-11
    let Some(event) = faults(AttrFlags::WRITE_BACKWARD) else {
        return;
    };
    let mut ring = Ring::map_overwriting(&event, 1).expect("a page");
    let mut out = b"before".to_vec();
    for _ in 0..3 {
        touch(1000);
        out.truncate(6);
        let bytes = ring.take_newest(Some(&event), &mut out).expect("a pause");
        assert_eq!((bytes, out.len()), (ring.size() / 24 * 24, 6 + bytes));
        let addresses: Vec<u64> = Records::of(&out[6..]).map(address).collect();
        let page = crate::page_size() as u64;
        let falling = addresses.windows(2).filter(|two| two[0] == two[1] + page);
        assert!(falling.count() >= addresses.len() - 20, "newest first");
    }
}

#[test]
fn what_is_discarded_in_a_pause_counts_as_lost() {
    // covers live: RING-11, RF-05, IOC-11
    if !permitted() {
        return;
    }
    let attr = EventAttr {
        read_format: ReadFormat::LOST,
        ..faults_attr(AttrFlags(0))
    };
    let event = match Event::open(&attr, Target::THIS, None) {
        Ok(event) => event,
        // Before Linux 6.0.
        Err(error) => {
            assert_eq!(error.errno(), libc::EINVAL);
            return;
        }
    };
    let mut ring = Ring::map(&event, 8).expect("pages");
    let lost = || event.read_counts(ReadFormat::LOST).expect("read").values[0].lost;
    assert_eq!(lost(), Some(0));
    event.pause_output(true).expect("pause");
    touch(100);
    let discarded = lost().expect("asked for");
    assert!(discarded >= 100, "{discarded}");
    event.pause_output(false).expect("resume");
    touch(1);
    let mut out = Vec::new();
    ring.take(&mut out);
    let told: u64 = Records::of(&out)
        .filter(|record| ByteOrder::NATIVE.u32(record, 0) == Some(2))
        .map(|record| ByteOrder::NATIVE.u64(record, 16).expect("a number"))
        .sum();
    assert!(told >= discarded, "{told} of {discarded}");
    assert_eq!(lost(), Some(told), "the record and the count agree");
}

#[test]
fn rings_are_shared_by_events_of_one_task_and_clock() {
    // covers live: RING-13, RING-14, IOC-07, ATTR-44, ERR-04
    let (Some(owner), Some(guest)) = (faults(AttrFlags(0)), faults(AttrFlags(0))) else {
        return;
    };
    let mut ring = Ring::map(&owner, 8).expect("pages");
    guest.set_output(Some(&owner)).expect("shared");
    touch(20);
    let mut out = Vec::new();
    ring.take(&mut out);
    assert!(Records::of(&out).count() >= 40, "two of each");
    let refused = Ring::map(&guest, 8);
    assert_eq!(errno(refused), libc::EBUSY, "it writes to another");
    let backward = faults(AttrFlags::WRITE_BACKWARD).expect("as the others");
    assert_eq!(errno(backward.set_output(Some(&owner))), libc::EINVAL);
    let other_clock = EventAttr {
        clockid: libc::CLOCK_MONOTONIC,
        ..faults_attr(AttrFlags::USE_CLOCKID)
    };
    let other_clock = Event::open(&other_clock, Target::THIS, None).expect("a clock");
    assert_eq!(errno(other_clock.set_output(Some(&owner))), libc::EINVAL);
    let on_a_cpu = Target::Task {
        tid: 0,
        cpu: Some(0),
    };
    let other_cpu = Event::open(&faults_attr(AttrFlags(0)), on_a_cpu, None).expect("CPU 0");
    assert_eq!(errno(other_cpu.set_output(Some(&owner))), libc::EINVAL);
    guest.set_output(None).expect("its own again");
    Ring::map(&guest, 1).expect("a ring of its own");
}

#[test]
fn an_inherited_event_has_no_ring_for_all_cpus() {
    // covers live: ATTR-22, ATTR-25, RING-15
    let Some(event) = faults(AttrFlags::INHERIT) else {
        return;
    };
    assert_eq!(errno(Ring::map(&event, 1)), libc::EINVAL);
    let alone = faults(AttrFlags(0)).expect("as before");
    Ring::map(&alone, 1).expect("its own ring");
}

#[test]
fn records_end_where_they_are_no_longer_whole() {
    // covers unit: RING-08, RING-17, HDR-02
    let record = |size: u16| {
        let mut bytes = vec![0; usize::from(size.max(8))];
        bytes[6..8].copy_from_slice(&size.to_ne_bytes());
        bytes
    };
    let whole = [record(24), record(8)].concat();
    for rest in [
        vec![],
        vec![0; 8],
        vec![0; 5],
        record(4),
        record(40)[..16].to_vec(),
    ] {
        let bytes = [whole.clone(), rest.clone()].concat();
        let mut records = Records::of(&bytes);
        let sizes: Vec<usize> = records.by_ref().map(<[u8]>::len).collect();
        assert_eq!(sizes, [24, 8], "{rest:?}");
        assert_eq!(records.rest(), rest);
    }
}

#[test]
fn positions_go_on_behind_2_to_the_64() {
    // covers unit: RING-02, RING-03, RING-04
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;
    use std::sync::atomic::Ordering::Relaxed;
    let page = crate::page_size() as u64;
    let file = tempfile::tempfile().expect("a file");
    file.set_len(2 * page).expect("room");
    for (at, value) in [(1040, page), (1048, page)] {
        file.write_all_at(&value.to_ne_bytes(), at)
            .expect("written");
    }
    let mut ring = Ring::map_file(file.as_fd(), 1).expect("a ring");
    let control = ring.mapping().control();
    control.data_tail.store(0_u64.wrapping_sub(3), Relaxed);
    control.data_head.store(5, Relaxed);
    file.write_all_at(b"abc", 2 * page - 3).expect("written");
    file.write_all_at(b"defgh", page).expect("written");
    let mut out = Vec::new();
    assert_eq!(ring.take(&mut out), 8);
    assert_eq!(out, b"abcdefgh");
    assert_eq!(ring.mapping().control().data_tail.load(Relaxed), 5);
}

#[test]
fn so_much_as_may_be_locked_is_given() {
    // covers live: RING-16, SYS-06, SYS-09, ERR-16
    let Some(event) = faults(AttrFlags(0)) else {
        return;
    };
    match Ring::map(&event, 1 << 20) {
        // With CAP_IPC_LOCK there is no limit but memory.
        Ok(ring) => assert_eq!(ring.size(), crate::page_size() << 20),
        Err(error) => {
            let errno = error.raw_os_error();
            assert!(
                [Some(libc::EPERM), Some(libc::ENOMEM)].contains(&errno),
                "{error}"
            );
        }
    }
}

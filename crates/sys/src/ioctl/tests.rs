//! Each ioctl at work and refused.

use super::*;
use crate::event::Target;
use prof_abi::AttrFlags;

#[test]
fn ioc_14_numbers_are_those_of_the_header() {
    // covers unit: IOC-14
    assert_eq!(ENABLE, 0x2400);
    assert_eq!(PERIOD, 0x4008_2404);
    assert_eq!(SET_OUTPUT, 0x2405);
    assert_eq!(SET_FILTER, 0x4008_2406);
    assert_eq!(ID, 0x8008_2407);
    assert_eq!(SET_BPF, 0x4004_2408);
    assert_eq!(PAUSE_OUTPUT, 0x4004_2409);
    assert_eq!(QUERY_BPF, 0xc008_240a);
    assert_eq!(MODIFY_ATTRIBUTES, 0x4008_240b);
}

/// task-clock of this thread, sampling each second if `period`.
fn event(period: u64) -> Option<Event> {
    let attr = EventAttr {
        kind: 1,
        config: 1,
        sample_period: period,
        flags: AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV | AttrFlags::DISABLED,
        ..EventAttr::default()
    };
    let event = Event::open(&attr, Target::THIS, None).ok();
    if event.is_none() {
        println!("skipped: perf_event_open is not permitted here");
    }
    event
}

fn errno<T: std::fmt::Debug>(result: io::Result<T>) -> i32 {
    result.expect_err("refused").raw_os_error().unwrap_or(0)
}

#[test]
fn ioc_01_02_05_an_event_counts_only_while_enabled() {
    // covers live: IOC-01, IOC-02, IOC-03, IOC-05, EV-12
    let Some(event) = event(0) else { return };
    let value = || {
        event
            .read_counts(prof_abi::ReadFormat(0))
            .expect("read")
            .values[0]
            .value
    };
    assert_eq!(value(), 0);
    event.enable().expect("enable");
    event.disable().expect("disable");
    let counted = value();
    assert!(counted > 0);
    assert_eq!(value(), counted);
    event.reset().expect("reset");
    assert_eq!(value(), 0);
    event.enable_group().expect("enable group");
    event.disable_group().expect("disable group");
    assert!(value() > 0);
}

#[test]
fn ioc_04_06_refused_periods_and_refreshes() {
    // covers live: IOC-04, IOC-06, OVF-07
    let Some(counting) = event(0) else { return };
    let sampling = event(1_000_000_000).expect("like the first");
    assert_eq!(errno(sampling.refresh(0)), libc::EINVAL);
    sampling.refresh(1).expect("refresh");
    sampling.set_period(500_000_000).expect("period");
    assert_eq!(errno(sampling.set_period(0)), libc::EINVAL);
    assert_eq!(errno(counting.set_period(1000)), libc::EINVAL);
}

#[test]
fn ioc_07_08_09_10_11_12_13_refusals() {
    // covers live: IOC-07, IOC-08, IOC-09, IOC-10, IOC-11, IOC-12, IOC-13
    let Some(event) = event(0) else { return };
    assert_ne!(event.id().expect("id"), 0);
    event.set_output(None).expect("-1 in 64 bits");
    assert_eq!(errno(event.set_output(Some(&event))), libc::EINVAL);
    assert_eq!(errno(event.set_filter(c"x == 1")), libc::EINVAL);
    let not_a_program = std::fs::File::open("/dev/null").expect("null");
    // A program descriptor is looked at before or after the event's kind.
    assert!([libc::EINVAL, libc::EBADF].contains(&errno(event.set_bpf(not_a_program.as_fd()))));
    assert_eq!(errno(event.pause_output(true)), libc::EINVAL, "no ring");
    assert!([libc::EINVAL, libc::EPERM].contains(&errno(event.query_bpf(4))));
    let attr = EventAttr::default();
    assert!([libc::EINVAL, libc::EOPNOTSUPP].contains(&errno(event.modify_attributes(&attr))));
}

#[test]
fn ioc_15_an_unknown_request_is_enotty() {
    // covers live: IOC-15, ERR-18
    let Some(event) = event(0) else { return };
    assert_eq!(
        errno(event.ioctl(request(Direction::None, 99, 0), 0)),
        libc::ENOTTY
    );
}

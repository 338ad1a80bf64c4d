//! Opening, reading, refusals.

use super::{Event, OpenFlags, Target, kernel_attr_size, open_raw};
use crate::testing::{page_faults, permitted, touch};
use prof_abi::{AttrFlags, EventAttr, ReadFormat, SampleType, attr_size};
use std::os::fd::{AsFd, AsRawFd, FromRawFd};

#[test]
fn an_event_counts_the_pages_that_are_touched() {
    let Ok(event) = Event::open(&page_faults(), Target::THIS, None) else {
        println!("skipped: perf_event_open is not permitted here");
        return;
    };
    let pages = 64;
    let memory = vec![1_u8; pages * crate::page_size()];
    assert_eq!(
        std::hint::black_box(&memory).len(),
        pages * crate::page_size()
    );
    let counts = event.read_counts(ReadFormat(0)).expect("counts");
    assert!(counts.values[0].value > 0, "{counts:?}");
}

#[test]
fn an_unknown_software_event_and_a_missing_task_are_refused() {
    // covers live: ERR-11
    let attr = EventAttr {
        config: 1 << 20,
        ..page_faults()
    };
    let error = Event::open(&attr, Target::THIS, None).expect_err("no such event");
    assert!(
        [
            libc::ENOENT,
            libc::EINVAL,
            libc::EACCES,
            libc::EPERM,
            libc::ENOSYS
        ]
        .contains(&error.errno()),
        "{error}"
    );
    let nobody = Target::Task {
        tid: u32::MAX,
        cpu: None,
    };
    let error = Event::open(&page_faults(), nobody, None).expect_err("no such task");
    assert_eq!(error.errno(), libc::EINVAL);
}

#[test]
fn a_field_that_the_kernel_does_not_know_tells_its_size() {
    // covers live: ATTR-12, ATTR-13, ERR-01
    let Some(size) = kernel_attr_size() else {
        println!("skipped: perf_event_open is not permitted here");
        return;
    };
    assert!(size >= 64 && size.is_multiple_of(8), "{size}");
    let attr = EventAttr {
        tail: vec![1; 64],
        ..page_faults()
    };
    let error = Event::open(&attr, Target::THIS, None).expect_err("a tail");
    assert_eq!(error.errno(), libc::E2BIG);
    assert_eq!(error.kernel_attr_size, Some(size));
}

#[test]
fn too_short_a_buffer_is_refused() {
    // covers live: RF-07
    let Ok(event) = Event::open(&page_faults(), Target::THIS, None) else {
        println!("skipped: perf_event_open is not permitted here");
        return;
    };
    let error = event.read_raw(&mut [0; 4]).expect_err("4 bytes");
    assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
}

fn errno(attr: &EventAttr, target: Target<'_>) -> Option<i32> {
    let opened = Event::open(attr, target, None);
    opened.err().map(|error| error.errno())
}

fn is_root() -> bool {
    crate::process::effective_user() == 0
}

#[test]
fn faults_of_four_mebibytes_are_1024() {
    // covers live: CALL-01, CALL-02, EV-01, EV-13, BUG-13, ATTR-01, ATTR-14, ATTR-28
    if !permitted() {
        return;
    }
    let event = Event::open(&page_faults(), Target::THIS, None).expect("an event");
    let value = |event: &Event| event.read_counts(ReadFormat(0)).expect("read").values[0].value;
    let before = value(&event);
    touch((4 << 20) / crate::page_size());
    assert_eq!(
        value(&event) - before,
        (4 << 20) / crate::page_size() as u64
    );
    // Of one CPU: at most as much, and on all CPUs together as much.
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let each: Vec<Event> = (0..u32::try_from(cpus).expect("CPUs"))
        .filter_map(|cpu| {
            let target = Target::Task {
                tid: 0,
                cpu: Some(cpu),
            };
            Event::open(&page_faults(), target, None).ok()
        })
        .collect();
    if each.len() < cpus {
        return; // CPUs are not numbered from 0 without a gap
    }
    let sum = || each.iter().map(value).sum::<u64>();
    let before = sum();
    touch(100);
    assert!(sum() - before >= 100);
}

#[test]
fn everything_on_every_cpu_cannot_be_asked_for() {
    // covers live: CALL-06, CALL-15, CALL-16
    if !permitted() {
        return;
    }
    let mut bytes = page_faults().encode(prof_abi::ByteOrder::NATIVE);
    bytes[4..8].copy_from_slice(&64_u32.to_ne_bytes());
    let mut call = |pid, flags| {
        let opened = open_raw(&mut bytes, pid, -1, -1, OpenFlags(flags));
        opened.err().and_then(|error| error.raw_os_error())
    };
    assert_eq!(call(0, 8), None, "as `Event::open` does");
    assert!([Some(libc::EINVAL), Some(libc::EACCES)].contains(&call(-1, 8)));
    assert_eq!(call(0, 1 << 20), Some(libc::EINVAL), "no such flag");
}

#[test]
fn one_cpu_and_other_tasks_are_for_those_who_may() {
    // covers live: CALL-03, CALL-05, CALL-07, ERR-02, ERR-17
    if !permitted() {
        return;
    }
    let kernel = EventAttr {
        flags: AttrFlags(0),
        ..page_faults()
    };
    let init = Target::Task { tid: 1, cpu: None };
    if is_root() && errno(&page_faults(), Target::Cpu(0)).is_none() {
        assert_eq!(errno(&kernel, Target::THIS), None);
        assert_eq!(errno(&page_faults(), init), None);
    } else {
        let refused = [Some(libc::EACCES), Some(libc::EPERM)];
        assert!(refused.contains(&errno(&page_faults(), init)));
    }
    let mut child = std::process::Command::new("true").spawn().expect("a child");
    child.wait().expect("it ends");
    let gone = Target::Task {
        tid: child.id(),
        cpu: None,
    };
    assert_eq!(errno(&page_faults(), gone), Some(libc::ESRCH));
}

#[test]
fn descriptors_are_closed_by_exec_and_at_the_end() {
    // covers live: CALL-11, CALL-17
    if !permitted() {
        return;
    }
    let event = Event::open(&page_faults(), Target::THIS, None).expect("an event");
    let fd = event.as_fd().as_raw_fd();
    // SAFETY: takes numbers only.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFD) };
    assert_eq!(flags & libc::FD_CLOEXEC, libc::FD_CLOEXEC);
    let is_event = |fd| {
        let name = std::fs::read_link(format!("/proc/self/fd/{fd}"));
        name.is_ok_and(|name| name.to_string_lossy().contains("perf_event"))
    };
    assert!(is_event(fd));
    // SAFETY: a descriptor of our own from here on.
    let copy = unsafe { std::os::fd::OwnedFd::from_raw_fd(libc::dup(fd)) };
    drop(event);
    let copied = copy.as_raw_fd();
    assert!(is_event(copied), "the last one ends it");
}

#[test]
fn flags_for_output_are_accepted_and_do_nothing() {
    // covers live: CALL-12, CALL-13, BUG-12
    if !permitted() {
        return;
    }
    for flags in [OpenFlags::FD_NO_GROUP, OpenFlags::FD_OUTPUT] {
        let event = Event::open_with(&page_faults(), Target::THIS, None, flags);
        event.expect("accepted without a group");
    }
}

#[test]
fn a_size_between_the_published_ones_is_taken_if_its_tail_is_zero() {
    // covers live: ATTR-02, ATTR-03, ATTR-04, ATTR-05, ATTR-06, ATTR-07, ATTR-08, ATTR-09, ATTR-10, ATTR-11
    if !permitted() {
        return;
    }
    let sizes = [
        attr_size::VER0,
        attr_size::VER1,
        attr_size::VER2,
        attr_size::VER3,
        attr_size::VER4,
        attr_size::VER5,
        attr_size::VER6,
        attr_size::VER7,
        attr_size::VER8,
        attr_size::VER9,
    ];
    for size in sizes {
        let attr = EventAttr {
            size,
            ..page_faults()
        };
        assert_eq!(errno(&attr, Target::THIS), None, "{size}");
    }
    // What this kernel lacks is refused with its size.
    let known = kernel_attr_size().expect("permitted");
    let attr = EventAttr {
        config4: 1,
        ..page_faults()
    };
    let expected = (known < attr_size::VER9).then_some(libc::E2BIG);
    assert_eq!(errno(&attr, Target::THIS), expected);
    assert_eq!(
        errno(
            &EventAttr {
                config3: 1,
                ..page_faults()
            },
            Target::THIS
        ),
        (known < attr_size::VER8).then_some(libc::E2BIG)
    );
}

#[test]
fn bits_that_no_kernel_has_are_refused() {
    // covers live: ATTR-60, RF-10, ST-27
    if !permitted() {
        return;
    }
    let mut flags = page_faults();
    flags.flags.0 |= 1 << 63;
    let format = EventAttr {
        read_format: ReadFormat(1 << 40),
        ..page_faults()
    };
    let sample = EventAttr {
        sample_type: SampleType(1 << 40),
        ..page_faults()
    };
    let reserved = EventAttr {
        reserved_2: 1,
        ..page_faults()
    };
    for attr in [flags, format, sample, reserved] {
        assert_eq!(errno(&attr, Target::THIS), Some(libc::EINVAL), "{attr:?}");
    }
}

#[test]
fn every_flag_of_an_attr_is_taken_or_refused_as_the_manual_says() {
    // covers live: ATTR-22, ATTR-30, ATTR-31, ATTR-32, ATTR-33, ATTR-34, ATTR-36, ATTR-37, ATTR-38
    // covers live: ATTR-39, ATTR-42, ATTR-43, ATTR-46, ATTR-53, ATTR-54, ATTR-55, ATTR-56, ATTR-61, ATTR-62, ATTR-66, ATTR-67
    if !permitted() {
        return;
    }
    let known = kernel_attr_size().expect("permitted");
    let with = |flags| EventAttr {
        sample_period: 1000,
        flags: page_faults().flags | AttrFlags::DISABLED | flags,
        ..page_faults()
    };
    // Since long before 4.9, and whatever the user's rights.
    for flags in [
        AttrFlags::INHERIT,
        AttrFlags::MMAP,
        AttrFlags::COMM,
        AttrFlags::INHERIT | AttrFlags::INHERIT_STAT,
        AttrFlags::ENABLE_ON_EXEC,
        AttrFlags::TASK,
        AttrFlags::WATERMARK,
        AttrFlags::PRECISE_LOW,
        AttrFlags::MMAP | AttrFlags::MMAP_DATA,
        AttrFlags::SAMPLE_ID_ALL,
        AttrFlags::EXCLUDE_HOST,
        AttrFlags::EXCLUDE_GUEST,
        AttrFlags::MMAP | AttrFlags::MMAP2,
        AttrFlags::COMM | AttrFlags::COMM_EXEC,
        AttrFlags::CONTEXT_SWITCH,
    ] {
        assert_eq!(errno(&with(flags), Target::THIS), None, "{flags:?}");
    }
    let words = EventAttr {
        config1: 1,
        config2: 2,
        wakeup: 7,
        ..with(AttrFlags(0))
    };
    assert_eq!(errno(&words, Target::THIS), None);
    // Of 5.12 and 5.13, by the size of the attr.
    if known >= attr_size::VER7 {
        for flags in [
            AttrFlags::MMAP | AttrFlags::MMAP2 | AttrFlags::BUILD_ID,
            AttrFlags::INHERIT | AttrFlags::INHERIT_THREAD,
            AttrFlags::REMOVE_ON_EXEC,
        ] {
            assert_eq!(errno(&with(flags), Target::THIS), None, "{flags:?}");
        }
        for flags in [
            AttrFlags::INHERIT_THREAD,
            AttrFlags::REMOVE_ON_EXEC | AttrFlags::ENABLE_ON_EXEC,
        ] {
            let refused = errno(&with(flags), Target::THIS);
            assert_eq!(refused, Some(libc::EINVAL), "{flags:?}");
        }
    }
    // Text that the kernel changes is the kernel's to show.
    let poke = errno(&with(AttrFlags::TEXT_POKE), Target::THIS);
    assert!([None, Some(libc::EACCES), Some(libc::EINVAL)].contains(&poke));
}

#[test]
fn what_this_kernel_is_too_old_for_is_refused() {
    // covers refusal: ATTR-58, ATTR-59
    // covers unit: ATTR-58, ATTR-59
    assert_eq!(AttrFlags::DEFER_CALLCHAIN.0, 1 << 38);
    assert_eq!(AttrFlags::DEFER_OUTPUT.0, 1 << 39);
    let Some(known) = kernel_attr_size() else {
        println!("skipped: perf_event_open is not permitted here");
        return;
    };
    for flag in [AttrFlags::DEFER_CALLCHAIN, AttrFlags::DEFER_OUTPUT] {
        let attr = EventAttr {
            sample_period: 1,
            sample_type: SampleType::CALLCHAIN,
            flags: page_faults().flags | flag,
            ..page_faults()
        };
        // 6.19 has both, and attrs of VER9.
        if known < attr_size::VER9 {
            assert_eq!(errno(&attr, Target::THIS), Some(libc::EINVAL));
        }
    }
}

#[test]
fn clocks_are_those_that_the_manual_lists() {
    // covers live: ATTR-44
    if !permitted() {
        return;
    }
    let with = |clockid| EventAttr {
        clockid,
        flags: page_faults().flags | AttrFlags::USE_CLOCKID,
        ..page_faults()
    };
    use crate::clock::{BOOTTIME, MONOTONIC, MONOTONIC_RAW, REALTIME, TAI};
    for clock in [REALTIME, MONOTONIC, MONOTONIC_RAW, BOOTTIME, TAI] {
        assert_eq!(errno(&with(clock), Target::THIS), None, "{clock}");
    }
    for clock in [2, 3, 99, -1] {
        assert_eq!(
            errno(&with(clock), Target::THIS),
            Some(libc::EINVAL),
            "{clock}"
        );
    }
}

#[test]
fn generalized_events_are_there_or_refused_with_enoent() {
    // covers live: ERR-11
    // covers refusal: EV-03, EV-04, EV-05, EV-06, EV-07, EV-08, EV-09, EV-23, EV-24
    if !permitted() {
        return;
    }
    let cache = prof_abi::cache_events().map(|(_, config)| (3, config));
    let hardware = prof_abi::HARDWARE_EVENTS.map(|event| (0, event.config));
    let raw = [(4, 0x1a8), (4, 0xc0)];
    for (kind, config) in hardware.into_iter().chain(cache).chain(raw) {
        let attr = EventAttr {
            kind,
            config,
            ..page_faults()
        };
        let refused = errno(&attr, Target::THIS);
        // A CPU has some of them or none.
        let lacking = [
            None,
            Some(libc::ENOENT),
            Some(libc::EINVAL),
            Some(libc::EOPNOTSUPP),
        ];
        assert!(lacking.contains(&refused), "{kind} {config:x}: {refused:?}");
    }
}

#[test]
fn branch_stacks_of_software_events_are_refused() {
    // covers live: BR-22, ERR-14
    // covers refusal: ATTR-72, ST-14, BR-01, BR-02, BR-03, BR-04, BR-05, BR-06, BR-07, BR-08, BR-09, BR-10, BR-11, BR-12
    if !permitted() {
        return;
    }
    use prof_abi::BranchSampleType as Branches;
    for &(filter, name) in Branches::NAMES {
        let attr = EventAttr {
            sample_period: 1,
            sample_type: SampleType::BRANCH_STACK,
            branch_sample_type: filter | Branches::USER | Branches::ANY,
            ..page_faults()
        };
        let refused = errno(&attr, Target::THIS);
        let expected = [
            Some(libc::EOPNOTSUPP),
            Some(libc::EINVAL),
            Some(libc::EACCES),
        ];
        assert!(expected.contains(&refused), "{name}: {refused:?}");
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn registers_and_stacks_have_the_kernels_limits() {
    // covers live: ATTR-73, ATTR-74, ATTR-75, REG-04, REG-05, ST-15, ST-16, ST-20
    if !permitted() {
        return;
    }
    let user = |mask| EventAttr {
        sample_period: 1,
        sample_type: SampleType::REGS_USER,
        sample_regs_user: mask,
        ..page_faults()
    };
    let interrupted = |mask| EventAttr {
        sample_period: 1,
        sample_type: SampleType::REGS_INTR,
        sample_regs_intr: mask,
        ..page_faults()
    };
    let general = 0xff_0fff;
    assert_eq!(errno(&user(general), Target::THIS), None);
    assert_eq!(errno(&interrupted(general), Target::THIS), None);
    for segment in 12..16 {
        let refused = errno(&user(1 << segment), Target::THIS);
        assert_eq!(refused, Some(libc::EINVAL), "ds, es, fs, gs");
    }
    for attr in [user(1 << 32), interrupted(1 << 32)] {
        let refused = errno(&attr, Target::THIS);
        assert!(
            [Some(libc::EOPNOTSUPP), Some(libc::EINVAL)].contains(&refused),
            "xmm0"
        );
    }
    let stack = |bytes| EventAttr {
        sample_period: 1,
        sample_type: SampleType::STACK_USER,
        sample_stack_user: bytes,
        ..page_faults()
    };
    assert_eq!(errno(&stack(8), Target::THIS), None);
    assert_eq!(errno(&stack(65528), Target::THIS), None);
    for bytes in [12, 65536] {
        assert_eq!(errno(&stack(bytes), Target::THIS), Some(libc::EINVAL));
    }
}

#[test]
fn a_descriptor_of_something_else_and_a_bad_address_are_refused() {
    // covers live: ERR-03, ERR-05, CALL-14
    if !permitted() {
        return;
    }
    let null = std::fs::File::open("/dev/null").expect("null");
    let directory = Target::Cgroup {
        directory: null.as_fd(),
        cpu: 0,
    };
    let refused = errno(&page_faults(), directory);
    // Who may not watch a CPU is told that first.
    assert!([Some(libc::EBADF), Some(libc::EACCES)].contains(&refused));
    let mut bytes = page_faults().encode(prof_abi::ByteOrder::NATIVE);
    bytes[4..8].copy_from_slice(&64_u32.to_ne_bytes());
    let group = null.as_fd().as_raw_fd();
    let refused = open_raw(&mut bytes, 0, -1, group, OpenFlags::FD_CLOEXEC);
    assert_eq!(crate::testing::errno(refused), libc::EBADF);
    // SAFETY: the kernel checks the address, which nobody has mapped.
    let result = unsafe { libc::syscall(libc::SYS_perf_event_open, 8, 0, -1, -1, 0) };
    assert_eq!(result, -1);
    assert_eq!(
        std::io::Error::last_os_error().raw_os_error(),
        Some(libc::EFAULT)
    );
}

#[test]
fn a_probe_is_never_inherited() {
    let attr = EventAttr {
        flags: AttrFlags::INHERIT,
        ..page_faults()
    };
    let error = Event::open_probe(&attr, c"/bin/true", Target::THIS, None);
    assert_eq!(error.expect_err("refused").errno(), libc::EINVAL);
}

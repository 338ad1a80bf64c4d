//! What software events, tracepoints and PMUs give to whom: each test as the
//! user who runs it, and where that is root as nobody and with CAP_PERFMON.
#![expect(unsafe_code, reason = "threads that give rights away")]
#![expect(clippy::print_stdout, reason = "a test that cannot run here says why")]

use prof_abi::{AttrFlags, EventAttr, ReadFormat, SampleType, attr_size, event_kind};
use prof_sys::{Event, Target, kernel_attr_size};

const USER_ONLY: AttrFlags = AttrFlags(AttrFlags::EXCLUDE_KERNEL.0 | AttrFlags::EXCLUDE_HV.0);

fn software(config: u64, flags: AttrFlags) -> EventAttr {
    EventAttr {
        kind: event_kind::SOFTWARE,
        config,
        flags,
        ..EventAttr::default()
    }
}

fn permitted() -> bool {
    let is_permitted = errno(&software(1, USER_ONLY), Target::THIS).is_none();
    if !is_permitted {
        println!("skipped: perf_event_open is not permitted here");
    }
    is_permitted
}

fn errno(attr: &EventAttr, target: Target<'_>) -> Option<i32> {
    let opened = Event::open(attr, target, None);
    opened.err().map(|error| error.errno())
}

fn is_root() -> bool {
    let is_root = prof_sys::process::effective_user() == 0;
    let sees_kernel = errno(&software(1, AttrFlags(0)), Target::Cpu(0)).is_none();
    if !is_root || !sees_kernel {
        println!("skipped: not root, or root of a user namespace");
    }
    is_root && sees_kernel
}

fn value(event: &Event) -> u64 {
    event.read_counts(ReadFormat(0)).expect("read").values[0].value
}

/// What a thread keeps when it becomes nobody.
#[derive(Clone, Copy)]
enum Keep {
    Nothing,
    Perfmon,
}

/// Runs `what` in a thread that has become nobody.
fn as_nobody<T: Send>(keep: Keep, what: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            become_nobody(keep);
            what()
        });
        thread.join().expect("no panic")
    })
}

/// The calling thread alone: the C library's functions would change all.
fn become_nobody(keep: Keep) {
    const NOBODY: libc::c_long = 65534;
    const PERFMON: u32 = 38;
    /// `_LINUX_CAPABILITY_VERSION_3`.
    const VERSION: u32 = 0x2008_0522;
    // SAFETY: takes numbers only.
    unsafe {
        libc::prctl(libc::PR_SET_KEEPCAPS, 1, 0, 0, 0);
        assert_eq!(
            libc::syscall(libc::SYS_setresuid, NOBODY, NOBODY, NOBODY),
            0
        );
    }
    let bit = match keep {
        Keep::Nothing => 0,
        Keep::Perfmon => 1_u32 << (PERFMON - 32),
    };
    let header = [VERSION, 0];
    // Effective, permitted, inheritable; the lower halves first.
    let data = [0, 0, 0, bit, bit, 0];
    // SAFETY: the kernel reads two live arrays of the layout of this version.
    let set = unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), data.as_ptr()) };
    assert_eq!(set, 0);
}

#[test]
fn switches_and_migrations_are_seen_in_the_kernel_only() {
    // covers live: EV-14, EV-15
    if !permitted() {
        return;
    }
    let switch = || std::thread::sleep(std::time::Duration::from_micros(50));
    for (config, name) in [(3, "context-switches"), (4, "cpu-migrations")] {
        let blind = Event::open(&software(config, USER_ONLY), Target::THIS, None).expect(name);
        (0..5).for_each(|_| switch());
        assert_eq!(value(&blind), 0, "{name} happen in the kernel");
    }
    if !is_root() {
        return;
    }
    std::thread::spawn(move || {
        let open = |config| {
            let attr = software(config, AttrFlags(0));
            Event::open(&attr, Target::THIS, None).expect("root")
        };
        let (switches, migrations) = (open(3), open(4));
        (0..5).for_each(|_| switch());
        assert!(value(&switches) >= 5);
        let cpus = (0..64).filter(|&cpu| prof_sys::prompt::run_on(cpu).is_ok());
        let moved = cpus.count() as u64 - 1;
        assert!(value(&migrations) >= moved, "{moved}");
    })
    .join()
    .expect("no panic");
}

#[test]
fn every_software_event_opens() {
    // covers live: EV-11, EV-12, EV-13, EV-16, EV-17, EV-18, EV-19, ERR-11
    if !permitted() {
        return;
    }
    // cgroup-switches came with 5.13, as attrs of VER7.
    let last = if kernel_attr_size() >= Some(attr_size::VER7) {
        11
    } else {
        10
    };
    for config in 0..=last {
        let event = Event::open(&software(config, USER_ONLY), Target::THIS, None);
        let event = event.unwrap_or_else(|error| panic!("{config}: {error}"));
        std::hint::black_box((0..1000).sum::<u64>());
        let counts = value(&event) > 0;
        match config {
            0 | 1 => assert!(counts, "a clock"),
            // Faults that the kernel fixes, which x86 has not, and dummy.
            7 | 9 => assert!(!counts, "{config}"),
            _ => {}
        }
    }
    assert_eq!(
        errno(&software(99, USER_ONLY), Target::THIS),
        Some(libc::ENOENT)
    );
}

/// The id of a tracepoint, for those who may read it.
fn id_of(name: &str) -> Option<u64> {
    let roots = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];
    let texts = roots.map(|root| std::fs::read_to_string(format!("{root}/events/{name}/id")));
    let id = texts
        .into_iter()
        .find_map(|text| text.ok()?.trim().parse().ok());
    if id.is_none() {
        println!("skipped: no tracefs, or not for this user");
    }
    id
}

fn tracepoint(id: u64, flags: AttrFlags) -> EventAttr {
    EventAttr {
        kind: event_kind::TRACEPOINT,
        config: id,
        sample_period: 1,
        flags,
        ..EventAttr::default()
    }
}

fn ask_priority(who: i32) {
    // SAFETY: takes numbers only; there is no such process, which is no harm.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, who.unsigned_abs()) };
}

#[test]
fn tracepoints_count_each_hit_that_a_filter_lets_pass() {
    // covers live: EV-20, EV-21, IOC-08, SFS-11
    let Some(id) = id_of("syscalls/sys_enter_getpriority") else {
        return;
    };
    let event = match Event::open(&tracepoint(id, AttrFlags(0)), Target::THIS, None) {
        Ok(event) => event,
        Err(error) => return println!("skipped: {error}"),
    };
    (0..100).for_each(ask_priority);
    assert_eq!(value(&event), 100);
    event.set_filter(c"who >= 90").expect("a filter");
    (0..100).for_each(ask_priority);
    assert_eq!(value(&event), 110, "ten of them pass");
    let set = |event: &Event, filter| {
        let set = event.set_filter(filter);
        set.err().and_then(|error| error.raw_os_error())
    };
    assert_eq!(set(&event, c"who >= 95"), Some(libc::EEXIST), "it has one");
    let other = Event::open(&tracepoint(id, AttrFlags(0)), Target::THIS, None);
    let other = other.expect("as the first");
    assert_eq!(set(&other, c"no_such_field == 1"), Some(libc::EINVAL));
}

#[test]
fn system_calls_are_for_everybody_but_payloads_are_not() {
    // covers live: EV-22, CAP-04
    let (Some(call), Some(other)) = (
        id_of("syscalls/sys_enter_getpriority"),
        id_of("sched/sched_switch"),
    ) else {
        return;
    };
    if !is_root() || prof_sys::settings::Settings::read().paranoid != Some(2) {
        println!("skipped: kernel.perf_event_paranoid is not 2");
        return;
    }
    let raw = |id| EventAttr {
        sample_type: SampleType::RAW,
        ..tracepoint(id, USER_ONLY)
    };
    let of_nobody = as_nobody(Keep::Nothing, || {
        let event = Event::open(&raw(call), Target::THIS, None).expect("one's own calls");
        (0..10).for_each(ask_priority);
        let with_kernel = errno(&tracepoint(other, AttrFlags(0)), Target::THIS);
        (value(&event), errno(&raw(other), Target::THIS), with_kernel)
    });
    assert_eq!(of_nobody.0, 10);
    assert_eq!(of_nobody.1, Some(libc::EPERM), "the payload");
    assert_eq!(of_nobody.2, Some(libc::EACCES), "the kernel");
    let with_perfmon = as_nobody(Keep::Perfmon, || errno(&raw(other), Target::THIS));
    assert_eq!(with_perfmon, None);
}

#[test]
fn cap_perfmon_opens_cpus_and_the_kernel_but_no_uprobes() {
    // covers live: CAP-01, CAP-02, CALL-05, CALL-07, ERR-02
    if !is_root() {
        return;
    }
    let cpu = || errno(&software(0, AttrFlags(0)), Target::Cpu(0));
    let init = || errno(&software(1, USER_ONLY), Target::Task { tid: 1, cpu: None });
    let own = || errno(&software(1, USER_ONLY), Target::THIS);
    let refused = as_nobody(Keep::Nothing, || (cpu(), init(), own()));
    assert_eq!(refused, (Some(libc::EACCES), Some(libc::EACCES), None));
    let granted = as_nobody(Keep::Perfmon, || (cpu(), init(), own()));
    assert_eq!(granted, (None, None, None));
    let uprobe = prof_sys::pmu::Pmu::at(format!("{}/uprobe", prof_sys::pmu::ROOT).into());
    let Some(kind) = uprobe.kind() else {
        println!("skipped: no uprobes");
        return;
    };
    let probe = EventAttr {
        kind,
        ..EventAttr::default()
    };
    let open = || {
        let opened = Event::open_probe(&probe, c"/bin/true", Target::THIS, None);
        opened.err().map(|error| error.errno())
    };
    assert_eq!(as_nobody(Keep::Perfmon, open), Some(libc::EACCES));
}

#[test]
fn cgroups_are_watched_by_cpu() {
    // covers live: CALL-14, ERR-03
    use std::os::fd::AsFd;
    if !is_root() {
        return;
    }
    let mounts = std::fs::read_to_string("/proc/self/mounts").expect("mounts");
    let mounts = mounts
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>());
    let mut roots = mounts.filter(|words| {
        words.get(2) == Some(&"cgroup2") || words.get(3).is_some_and(|o| o.contains("perf_event"))
    });
    let Some(root) = roots.next() else {
        println!("skipped: no cgroups with events");
        return;
    };
    let directory = std::fs::File::open(root[1]).expect("a folder");
    let target = Target::Cgroup {
        directory: directory.as_fd(),
        cpu: 0,
    };
    let event = Event::open(&software(0, AttrFlags(0)), target, None).expect("the root's tasks");
    assert!(value(&event) < u64::MAX);
    let other = std::fs::File::open("/proc").expect("a folder");
    let target = Target::Cgroup {
        directory: other.as_fd(),
        cpu: 0,
    };
    assert_eq!(errno(&software(0, AttrFlags(0)), target), Some(libc::EBADF));
}

#[test]
fn a_cpu_that_is_not_there_is_refused() {
    // covers live: RING-19, ERR-10
    if !permitted() {
        return;
    }
    for cpu in [4095, 1 << 20] {
        let target = Target::Task {
            tid: 0,
            cpu: Some(cpu),
        };
        let refused = errno(&software(1, USER_ONLY), target);
        assert!(
            [Some(libc::ENODEV), Some(libc::EINVAL)].contains(&refused),
            "{refused:?}"
        );
    }
}

#[test]
fn counts_of_a_pmu_come_by_its_type_and_the_event_of_sysfs() {
    // covers live: EV-27, SFS-02, SFS-04, SFS-05
    if !is_root() {
        return;
    }
    let root = format!("{}/msr", prof_sys::pmu::ROOT);
    let Some(kind) = prof_sys::pmu::Pmu::at(root.clone().into()).kind() else {
        println!("skipped: no PMU msr");
        return;
    };
    let text = |file: &str| std::fs::read_to_string(format!("{root}/{file}")).expect("sysfs");
    assert_eq!(text("format/event").trim(), "config:0-63");
    let event = text("events/tsc");
    let config = event.trim().strip_prefix("event=0x").expect("a number");
    let attr = EventAttr {
        kind,
        config: u64::from_str_radix(config, 16).expect("a number"),
        ..EventAttr::default()
    };
    let event = Event::open(&attr, Target::THIS, None).expect("the TSC");
    let before = value(&event);
    std::hint::black_box((0..10_000).sum::<u64>());
    assert!(value(&event) > before);
    let kernel = AttrFlags::EXCLUDE_KERNEL;
    let narrowed = EventAttr {
        flags: kernel,
        ..attr
    };
    assert_eq!(errno(&narrowed, Target::THIS), Some(libc::EINVAL));
}

#[test]
fn inherited_counters_in_samples_need_the_thread() {
    // covers live: ATTR-24, ATTR-22
    if !permitted() {
        return;
    }
    let attr = |sample_type| EventAttr {
        sample_period: 1000,
        sample_type,
        read_format: ReadFormat::GROUP | ReadFormat::ID,
        ..software(2, USER_ONLY | AttrFlags::INHERIT)
    };
    let without = errno(&attr(SampleType::READ), Target::THIS);
    assert_eq!(without, Some(libc::EINVAL));
    // Linux 6.13, and only with the thread: older ones refuse both.
    let with = errno(&attr(SampleType::READ | SampleType::TID), Target::THIS);
    assert!([None, Some(libc::EINVAL)].contains(&with));
}

#[test]
fn what_needs_hardware_is_asked_for_and_refused() {
    // covers unit: TXN-03, ATTR-36, ATTR-68
    // covers refusal: TXN-03, ATTR-68
    let aborts = EventAttr {
        kind: event_kind::RAW,
        config: 0x4c9, // RTM_RETIRED.ABORTED
        sample_period: 1000,
        sample_type: SampleType::TRANSACTION,
        flags: USER_ONLY | AttrFlags::PRECISE_LOW,
        ..EventAttr::default()
    };
    assert_eq!(aborts.precise_ip(), 1, "an abort is exact or says nothing");
    let newest = EventAttr {
        config4: 7,
        ..software(1, USER_ONLY)
    };
    assert_eq!(newest.encode(prof_abi::ByteOrder::NATIVE).len(), 144);
    if !permitted() {
        return;
    }
    let refused = errno(&aborts, Target::THIS);
    let lacking = [libc::ENOENT, libc::EOPNOTSUPP, libc::EINVAL];
    assert!(
        refused.is_none_or(|errno| lacking.contains(&errno)),
        "{refused:?}"
    );
    if kernel_attr_size() < Some(attr_size::VER9) {
        assert_eq!(errno(&newest, Target::THIS), Some(libc::E2BIG));
    }
}

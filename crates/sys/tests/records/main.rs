//! What the running kernel writes into a ring, record by record: each part of a
//! sample by itself, and each record of what tasks do.
#![expect(unsafe_code, reason = "system calls that make the kernel write")]
#![expect(clippy::print_stdout, reason = "a test that cannot run here says why")]

use prof_abi::{
    AttrFlags, ByteOrder, CallchainContext, CpuMode, EventAttr, Misc, ReadFormat, RecordType,
    SampleType,
};
use prof_sys::{Event, OpenError, Records, Ring, Target};
use std::os::fd::OwnedFd;

#[path = "../../examples/bpf_attach.rs"]
#[expect(dead_code, reason = "only its program is used")]
mod bpf_attach;
mod tasks;

/// A record with its numbers.
struct Record(Vec<u8>);

impl Record {
    fn kind(&self) -> RecordType {
        RecordType(self.u32(0))
    }

    fn misc(&self) -> Misc {
        Misc(ByteOrder::NATIVE.u16(&self.0, 4).expect("a header"))
    }

    fn u16(&self, at: usize) -> u16 {
        ByteOrder::NATIVE.u16(&self.0, at).expect("long enough")
    }

    fn u32(&self, at: usize) -> u32 {
        ByteOrder::NATIVE.u32(&self.0, at).expect("long enough")
    }

    fn u64(&self, at: usize) -> u64 {
        ByteOrder::NATIVE.u64(&self.0, at).expect("long enough")
    }

    /// The text from `at` to its NUL.
    fn text(&self, at: usize) -> String {
        let bytes = self.0[at..].iter().take_while(|&&byte| byte != 0);
        String::from_utf8(bytes.copied().collect()).expect("a name of ours")
    }
}

/// page-faults of user space, each a sample, off at first.
fn faults() -> EventAttr {
    EventAttr {
        kind: 1,
        config: 2,
        sample_period: 1,
        sample_type: SampleType::IP,
        flags: AttrFlags::DISABLED | AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV,
        ..EventAttr::default()
    }
}

/// Counts nothing; carries records of what tasks do.
fn dummy(flags: AttrFlags) -> EventAttr {
    EventAttr {
        config: 9,
        sample_type: SampleType::default(),
        flags: faults().flags | flags,
        ..faults()
    }
}

fn permitted() -> bool {
    let is_permitted = Event::open(&faults(), Target::THIS, None).is_ok();
    if !is_permitted {
        println!("skipped: perf_event_open is not permitted here");
    }
    is_permitted
}

/// Whether events of a whole CPU are allowed, which needs root or such.
fn may_watch_cpus() -> bool {
    let is_allowed = Event::open(&dummy(AttrFlags(0)), Target::Cpu(0), None).is_ok();
    if !is_allowed {
        println!("skipped: no events of a whole CPU for this user");
    }
    is_allowed
}

/// What is recorded of `target` while `work` runs.
fn recorded(attr: &EventAttr, target: Target<'_>, work: impl FnOnce()) -> Vec<Record> {
    try_recorded(attr, target, work).expect("an event")
}

fn try_recorded(
    attr: &EventAttr,
    target: Target<'_>,
    work: impl FnOnce(),
) -> Result<Vec<Record>, OpenError> {
    let event = Event::open(attr, target, None)?;
    let mut ring = Ring::map(&event, 32)?;
    event.enable()?;
    work();
    event.disable()?;
    let mut bytes = Vec::new();
    ring.take(&mut bytes);
    Ok(Records::of(&bytes)
        .map(|bytes| Record(bytes.to_vec()))
        .collect())
}

/// Touches so many fresh pages.
fn touch(pages: usize) {
    let page = prof_sys::page_size();
    let mut memory = memmap2::MmapMut::map_anon(pages * page).expect("memory");
    memory.advise(memmap2::Advice::NoHugePage).expect("advice");
    memory.iter_mut().step_by(page).for_each(|byte| *byte = 1);
}

fn tid() -> u32 {
    // SAFETY: takes nothing and cannot fail.
    unsafe { libc::gettid() }.unsigned_abs()
}

/// A sample of a page fault with this part alone behind its header.
fn sample(part: SampleType) -> Record {
    let attr = EventAttr {
        sample_type: part,
        ..faults()
    };
    sample_of(&attr)
}

fn sample_of(attr: &EventAttr) -> Record {
    let samples = recorded(attr, Target::THIS, || touch(8));
    let mut samples = samples
        .into_iter()
        .filter(|record| record.kind() == RecordType::SAMPLE);
    samples.next().expect("a sample")
}

/// A CPU that this thread may run on.
fn first_cpu() -> u32 {
    // SAFETY: takes nothing; the caller may be moved, any answer will do.
    u32::try_from(unsafe { libc::sched_getcpu() }).expect("a CPU")
}

#[test]
fn each_part_of_a_sample_is_there_by_itself() {
    // covers live: ST-03, ST-04, ST-06, ST-08, ST-10, ST-11, ST-13, ST-17, ST-18, ST-19, ST-23, ST-24, ST-25, ST-26
    // covers live: ATTR-18, HDR-01, HDR-02, HDR-03
    if !permitted() {
        return;
    }
    let pid = std::process::id();
    let tids = sample(SampleType::TID);
    assert_eq!((tids.u32(8), tids.u32(12), tids.0.len()), (pid, tid(), 16));
    assert_eq!(tids.misc().cpu_mode(), CpuMode::User);
    assert_eq!(tids.u16(6), 16, "the size in the header");
    assert_ne!(sample(SampleType::IP).u64(8), 0);
    assert_ne!(sample(SampleType::ADDR).u64(8), 0);
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    assert!((sample(SampleType::CPU).u32(8) as usize) < cpus.max(4096));
    assert_eq!(sample(SampleType::PERIOD).u64(8), 1);
    // Not of hardware: "not available", or nothing.
    for part in [
        SampleType::WEIGHT,
        SampleType::WEIGHT_STRUCT,
        SampleType::TRANSACTION,
    ] {
        let record = sample(part);
        assert_eq!((record.u64(8), record.0.len()), (0, 16), "{part:?}");
    }
    assert_eq!(sample(SampleType::DATA_SRC).0.len(), 16);
    assert!(sample(SampleType::CGROUP).u64(8) > 0);
    assert_eq!(sample(SampleType::DATA_PAGE_SIZE).0.len(), 16);
    let code = sample(SampleType::CODE_PAGE_SIZE).u64(8);
    assert!(code.is_power_of_two() && code >= prof_sys::page_size() as u64);
    // Raw data of what has none: four zeros, which its size counts.
    let raw = sample(SampleType::RAW);
    assert_eq!((raw.u32(8), raw.u32(12), raw.0.len()), (4, 0, 16));
    let chain = sample(SampleType::CALLCHAIN);
    assert_eq!(chain.0.len() as u64, 16 + 8 * chain.u64(8));
}

#[test]
fn two_weights_at_once_are_refused() {
    // covers live: ST-26
    if !permitted() {
        return;
    }
    let attr = EventAttr {
        sample_type: SampleType::WEIGHT | SampleType::WEIGHT_STRUCT,
        ..faults()
    };
    let refused = Event::open(&attr, Target::THIS, None).expect_err("one or the other");
    assert_eq!(refused.errno(), libc::EINVAL);
}

#[test]
fn ids_and_times_are_the_events() {
    // covers live: ST-02, ST-05, ST-07, ST-09, ST-12, SID-01, ATTR-44, RF-06, IOC-09
    if !permitted() {
        return;
    }
    let parts = SampleType::IDENTIFIER
        | SampleType::TIME
        | SampleType::ID
        | SampleType::STREAM_ID
        | SampleType::READ;
    let attr = EventAttr {
        sample_type: parts,
        read_format: ReadFormat::ID | ReadFormat::TOTAL_TIME_ENABLED,
        clockid: prof_sys::clock::MONOTONIC,
        flags: faults().flags | AttrFlags::USE_CLOCKID | AttrFlags::SAMPLE_ID_ALL,
        ..faults()
    };
    let event = Event::open(&attr, Target::THIS, None).expect("an event");
    let id = event.id().expect("an id");
    let mut ring = Ring::map(&event, 8).expect("a ring");
    let now = || prof_sys::clock::now(prof_sys::clock::MONOTONIC).expect("a clock");
    let before = now();
    event.enable().expect("enable");
    touch(3);
    event.disable().expect("disable");
    let after = now();
    let mut bytes = Vec::new();
    ring.take(&mut bytes);
    let samples: Vec<Record> = Records::of(&bytes)
        .map(|bytes| Record(bytes.to_vec()))
        .collect();
    assert!(samples.len() >= 3);
    let mut last = before;
    for (number, sample) in samples.iter().enumerate() {
        // IDENTIFIER, TIME, ID, STREAM_ID, then READ: value, enabled, id.
        assert_eq!([8, 24, 32].map(|at| sample.u64(at)), [id; 3]);
        assert!((last..=after).contains(&sample.u64(16)));
        last = sample.u64(16);
        assert_eq!(sample.u64(40), number as u64 + 1, "counted so far");
        assert!(sample.u64(48) > 0);
        assert_eq!((sample.u64(56), sample.0.len()), (id, 64));
    }
}

#[test]
fn registers_and_stack_are_those_of_the_thread() {
    // covers live: ST-15, ST-16, ST-20, ST-29, REG-01, REG-02, REG-03, ATTR-73, ATTR-74, ATTR-75
    if !permitted() || !cfg!(target_arch = "x86_64") {
        return;
    }
    const GENERAL: u64 = 0xff_0fff;
    const SP: usize = 7;
    const IP: usize = 8;
    let attr = |bytes| EventAttr {
        sample_type: SampleType::IP
            | SampleType::REGS_USER
            | SampleType::STACK_USER
            | SampleType::REGS_INTR,
        sample_regs_user: GENERAL,
        sample_regs_intr: 1 << IP,
        sample_stack_user: bytes,
        ..faults()
    };
    let sample = sample_of(&attr(512));
    let ip = sample.u64(8);
    assert_eq!(sample.u64(16), 2, "64 bits");
    let register = |number: usize| sample.u64(24 + 8 * number);
    assert_eq!(register(IP), ip);
    let here = 0_u64;
    let stack = (&raw const here) as u64;
    assert!(register(SP).abs_diff(stack) < 1 << 16, "this stack");
    // 20 of them are in the mask: size, bytes, and how many are valid.
    let at = 24 + 8 * GENERAL.count_ones() as usize;
    assert_eq!(sample.u64(at), 512);
    let valid = sample.u64(at + 8 + 512);
    assert!((8..=512).contains(&valid), "{valid}");
    let interrupted = at + 16 + 512;
    assert_eq!(
        (sample.u64(interrupted), sample.u64(interrupted + 8)),
        (2, ip)
    );
    // A record has at most 65535 bytes: the kernel takes less stack.
    // (What stands behind the stack, as REGS_INTR, is forgotten in that sum
    // by Linux 6.18: then the size wraps.)
    let long = sample_of(&EventAttr {
        sample_type: SampleType::IP | SampleType::REGS_USER | SampleType::STACK_USER,
        ..attr(65528)
    });
    assert!(long.0.len() <= 65535 && long.0.len().is_multiple_of(8));
    assert!(long.u64(at) < 65528, "{}", long.u64(at));
}

#[test]
fn physical_addresses_are_for_root() {
    // covers live: ST-21
    if !permitted() {
        return;
    }
    let attr = EventAttr {
        sample_type: SampleType::PHYS_ADDR,
        ..faults()
    };
    match try_recorded(&attr, Target::THIS, || touch(4)) {
        Ok(samples) => assert_eq!(samples[0].0.len(), 16),
        Err(error) => assert_eq!(error.errno(), libc::EACCES),
    }
}

/// Calls itself, so that a fault below has a deep stack.
#[inline(never)]
fn recurse(depth: u32) -> u32 {
    if depth == 0 {
        touch(4);
        return 0;
    }
    std::hint::black_box(recurse(depth - 1)) + 1
}

#[test]
fn chains_have_markers_and_at_most_as_many_frames_as_allowed() {
    // covers live: CTX-01, CTX-04, CTX-05, ST-08, ATTR-40, ATTR-41, ATTR-77
    if !permitted() {
        return;
    }
    let chain = |flags: AttrFlags, most: u16| {
        let attr = EventAttr {
            sample_type: SampleType::CALLCHAIN,
            sample_max_stack: most,
            flags: faults().flags | flags,
            ..faults()
        };
        let records = recorded(&attr, Target::THIS, || {
            recurse(300);
        });
        let sample = records.last().expect("a sample");
        let entries = (0..sample.u64(8)).map(|entry| sample.u64(16 + 8 * entry as usize));
        entries.collect::<Vec<u64>>()
    };
    let user = chain(AttrFlags::EXCLUDE_CALLCHAIN_KERNEL, 0);
    assert_eq!(user.first(), Some(&CallchainContext::USER.0), "{user:x?}");
    let frames = |chain: &[u64]| {
        let is_frame = |&&entry: &&u64| CallchainContext::from_entry(entry).is_none();
        chain.iter().filter(is_frame).count()
    };
    let most = prof_sys::settings::Settings::read()
        .max_stack
        .unwrap_or(127);
    assert!(frames(&user) as u64 <= most);
    for most in [1, 2] {
        assert!(frames(&chain(AttrFlags(0), most)) <= usize::from(most));
    }
    assert_eq!(frames(&chain(AttrFlags(0), 1)), 1);
    let kernel = chain(AttrFlags::EXCLUDE_CALLCHAIN_USER, 0);
    assert!(!kernel.contains(&CallchainContext::USER.0), "{kernel:x?}");
}

#[test]
fn programs_of_the_kernel_are_told_as_they_come_and_go() {
    // covers live: REC-20, REC-22, ATTR-49, ATTR-50
    if !permitted() || !may_watch_cpus() {
        return;
    }
    let cpu = first_cpu();
    let attr = dummy(AttrFlags::KSYMBOL | AttrFlags::BPF_EVENT);
    let watched = move || {
        prof_sys::prompt::run_on(cpu).expect("a CPU");
        let mut loaded: Option<OwnedFd> = None;
        let event = Event::open(&attr, Target::Cpu(cpu), None).expect("an event");
        let mut ring = Ring::map(&event, 32).expect("a ring");
        event.enable().expect("enable");
        loaded = loaded.or(bpf_attach::load(1).ok());
        let is_loaded = loaded.is_some();
        let mut bytes = Vec::new();
        ring.take(&mut bytes);
        (is_loaded, bytes)
    };
    let (is_loaded, bytes) = std::thread::spawn(watched).join().expect("no panic");
    if !is_loaded {
        println!("skipped: bpf(2) is not permitted");
        return;
    }
    let records: Vec<Record> = Records::of(&bytes)
        .map(|bytes| Record(bytes.to_vec()))
        .collect();
    // address, length, type 1 (BPF), flags 0 (it came), name.
    let symbol = records.iter().find(|record| {
        record.kind() == RecordType::KSYMBOL && record.text(24).starts_with("bpf_prog_")
    });
    let symbol = symbol.expect("a symbol");
    assert_eq!((symbol.u16(20), symbol.u16(22)), (1, 0));
    assert!(symbol.u64(8) > 0 && symbol.u32(16) > 0);
    // type 1 (loaded), flags, id, tag of 8 bytes.
    let load = records
        .iter()
        .find(|record| record.kind() == RecordType::BPF_EVENT && record.u16(8) == 1);
    assert!(load.expect("a load").u32(12) > 0);
}

#[test]
fn a_new_cgroup_is_told_with_its_path() {
    // covers live: REC-23, ATTR-52, ST-23
    if !permitted() || !may_watch_cpus() {
        return;
    }
    let mounts = std::fs::read_to_string("/proc/self/mounts").expect("mounts");
    let of_cgroups = mounts.lines().find_map(|line| {
        let mut words = line.split(' ');
        let (_, place, kind) = (words.next()?, words.next()?, words.next()?);
        (kind == "cgroup2").then(|| place.to_owned())
    });
    let Some(root) = of_cgroups else {
        println!("skipped: no cgroup2 here");
        return;
    };
    let name = format!("prof-test-{}", std::process::id());
    let folder = std::path::Path::new(&root).join(&name);
    let cpu = first_cpu();
    let attr = dummy(AttrFlags::CGROUP | AttrFlags::COMM);
    let watched = move || {
        prof_sys::prompt::run_on(cpu).expect("a CPU");
        let mut made = Ok(());
        let records = recorded(&attr, Target::Cpu(cpu), || {
            made = std::fs::create_dir(&folder);
        });
        let _ = std::fs::remove_dir(&folder);
        made.map(|()| records)
    };
    match std::thread::spawn(watched).join().expect("no panic") {
        // id, path
        Ok(records) => assert!(records.iter().any(|record| {
            let path = record.text(16);
            record.kind() == RecordType::CGROUP && path.ends_with(&name) && record.u64(8) > 0
        })),
        Err(error) => println!("skipped: no cgroup can be made: {error}"),
    }
}

#[test]
fn idle_time_is_left_out_where_that_is_asked_for() {
    // covers live: ATTR-29, EV-11, ATTR-16
    if !permitted() || !may_watch_cpus() {
        return;
    }
    let attr = |flags: AttrFlags| EventAttr {
        config: 0, // cpu-clock
        sample_period: 10_000,
        sample_type: SampleType::TID,
        flags: AttrFlags::DISABLED | AttrFlags::FREQ | flags,
        ..faults()
    };
    let rest = || std::thread::sleep(std::time::Duration::from_millis(50));
    let idle = |flags| {
        let records = recorded(&attr(flags), Target::Cpu(first_cpu()), rest);
        let samples = records
            .iter()
            .filter(|record| record.kind() == RecordType::SAMPLE);
        samples.filter(|record| record.u32(8) == 0).count()
    };
    assert_eq!(idle(AttrFlags::EXCLUDE_IDLE), 0);
}

#[test]
fn a_clock_is_sampled_as_often_as_asked() {
    // covers live: ATTR-16, EV-11, EV-12, EV-02
    if !permitted() {
        return;
    }
    let attr = EventAttr {
        config: 1, // task-clock
        sample_period: 4000,
        flags: faults().flags | AttrFlags::FREQ,
        ..faults()
    };
    let cpu_time = || prof_sys::clock::own_thread_cpu_time();
    let mut used = cpu_time();
    let records = recorded(&attr, Target::THIS, || {
        let start = cpu_time();
        while cpu_time() < start + std::time::Duration::from_millis(100) {
            std::hint::black_box((0..1000).sum::<u64>());
        }
        used = cpu_time() - start;
    });
    let samples = records
        .iter()
        .filter(|record| record.kind() == RecordType::SAMPLE);
    let (found, expected) = (
        samples.count() as u128,
        used.as_nanos() * 4000 / 1_000_000_000,
    );
    // In user space only: the clock's system calls are left out.
    assert!(
        found <= expected + 2 && found >= expected / 4,
        "{found} of {expected}"
    );
}

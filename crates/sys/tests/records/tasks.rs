//! Records of what tasks do: names, mappings, beginnings, ends, switches.

use super::*;

#[test]
fn a_new_name_is_told_with_its_trailer() {
    // covers live: REC-03, REC-12, SID-01, SID-03, ATTR-31, ATTR-38
    if !permitted() {
        return;
    }
    let attr = EventAttr {
        sample_type: SampleType::TID | SampleType::CPU | SampleType::IDENTIFIER,
        ..dummy(AttrFlags::COMM | AttrFlags::SAMPLE_ID_ALL)
    };
    let rename = || {
        let name = c"its-name";
        // SAFETY: reads a live string.
        unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr()) };
    };
    let in_thread = move || (recorded(&attr, Target::THIS, rename), tid());
    let (records, tid) = std::thread::spawn(in_thread).join().expect("no panic");
    let [record] = &records[..] else {
        panic!("one record");
    };
    assert_eq!(record.kind(), RecordType::COMM);
    assert!(!record.misc().has(Misc::COMM_EXEC));
    assert_eq!((record.u32(8), record.u32(12)), (std::process::id(), tid));
    assert_eq!(record.text(16), "its-name");
    // Eight letters and a NUL are padded to 16; TID, CPU, IDENTIFIER follow.
    assert_eq!(record.0.len(), 16 + 16 + 24);
    assert_eq!((record.u32(32), record.u32(36)), (std::process::id(), tid));
}

/// Maps this program's file, executable.
fn map_own_file() {
    let file = std::fs::File::open("/proc/self/exe").expect("this program");
    // SAFETY: nobody writes a program that runs (ETXTBSY), and nothing is read.
    let map = unsafe { memmap2::MmapOptions::new().len(8192).map_exec(&file) };
    drop(map.expect("a mapping"));
}

#[test]
fn mappings_are_told_in_the_form_that_was_asked_for() {
    // covers live: REC-01, REC-09, REC-10, REC-11, REC-12, HDR-05, HDR-11, ATTR-30, ATTR-37, ATTR-42, ATTR-54
    if !permitted() {
        return;
    }
    let own = std::env::current_exe().expect("a path");
    let own = own.to_str().expect("UTF-8");
    let mapped = |flags, path_at| {
        let attr = dummy(AttrFlags::MMAP | flags);
        let records = recorded(&attr, Target::THIS, map_own_file);
        let mut records = records.into_iter();
        let mut is_it = |record: &Record| record.text(path_at) == own;
        records.find(&mut is_it).expect("our mapping")
    };
    let old = mapped(AttrFlags(0), 40);
    assert_eq!(old.kind(), RecordType::MMAP);
    assert_eq!((old.u64(24), old.u64(32)), (8192, 0), "length, place");
    let inode = mapped(AttrFlags::MMAP2, 72);
    assert_eq!(inode.kind(), RecordType::MMAP2);
    assert!(!inode.misc().has(Misc::MMAP_BUILD_ID));
    let file = std::fs::metadata(own).expect("a file");
    assert_eq!(inode.u64(48), std::os::unix::fs::MetadataExt::ino(&file));
    let read_and_execute = (libc::PROT_READ | libc::PROT_EXEC).unsigned_abs();
    assert_eq!(inode.u32(64), read_and_execute);
    assert_eq!(inode.0.len() % 8, 0, "padded");
    let data = AttrFlags::MMAP_DATA | AttrFlags::MMAP2;
    let records = recorded(&dummy(AttrFlags::MMAP | data), Target::THIS, || touch(1));
    let anonymous = records.iter().find(|record| record.text(72) == "//anon");
    let anonymous = anonymous.expect("memory without a file");
    assert!(anonymous.misc().has(Misc::MMAP_DATA));
    if prof_sys::kernel_attr_size() >= Some(prof_abi::attr_size::VER7) {
        let named = mapped(AttrFlags::MMAP2 | AttrFlags::BUILD_ID, 72);
        // A program that was linked without a build-id has its inode here.
        if named.misc().has(Misc::MMAP_BUILD_ID) {
            assert!((1..=20).contains(&named.0[40]), "bytes of the build-id");
        }
    }
}

#[test]
fn beginnings_and_ends_of_tasks_are_told() {
    // covers live: REC-04, REC-06, ATTR-34, ATTR-23
    if !permitted() {
        return;
    }
    let attr = dummy(AttrFlags::TASK);
    let mut begun = 0;
    let records = recorded(&attr, Target::THIS, || {
        begun = std::thread::spawn(tid).join().expect("no panic");
    });
    let forks: Vec<&Record> = records
        .iter()
        .filter(|record| record.kind() == RecordType::FORK)
        .collect();
    // pid, parent's pid, tid, parent's tid, time.
    let [fork] = forks[..] else {
        panic!("one thread began");
    };
    let pid = std::process::id();
    assert_eq!(
        [8, 12, 16, 20].map(|at| fork.u32(at)),
        [pid, pid, begun, tid()]
    );
    let mut child = std::process::Command::new("cat")
        .stdin(std::process::Stdio::piped())
        .spawn()
        .expect("cat");
    let target = Target::Task {
        tid: child.id(),
        cpu: None,
    };
    let exits = recorded(&attr, target, || {
        drop(child.stdin.take());
        child.wait().expect("it ends");
    });
    let exit = exits.last().expect("a record");
    assert_eq!(exit.kind(), RecordType::EXIT);
    assert_eq!((exit.u32(8), exit.u32(16)), (child.id(), child.id()));
}

#[test]
fn an_exec_gives_its_name_with_a_mark() {
    // covers live: REC-03, HDR-06, ATTR-33, ATTR-43, CALL-03
    if !permitted() {
        return;
    }
    use std::io::Write;
    let mut child = std::process::Command::new("sh")
        .args(["-c", "read go; exec cat"])
        .stdin(std::process::Stdio::piped())
        .spawn()
        .expect("sh");
    let attr = EventAttr {
        flags: dummy(AttrFlags::COMM | AttrFlags::COMM_EXEC).flags | AttrFlags::ENABLE_ON_EXEC,
        ..dummy(AttrFlags(0))
    };
    let target = Target::Task {
        tid: child.id(),
        cpu: None,
    };
    // Its exec of `sh` may be yet to come: the pipe of std is closed by it.
    let event = Event::open(&attr, target, None).expect("ours");
    let mut ring = Ring::map(&event, 8).expect("a ring");
    let mut input = child.stdin.take().expect("a pipe");
    writeln!(input, "go").expect("it reads");
    drop(input);
    child.wait().expect("it ends");
    let mut bytes = Vec::new();
    ring.take(&mut bytes);
    let records: Vec<Record> = Records::of(&bytes)
        .map(|bytes| Record(bytes.to_vec()))
        .collect();
    // The end of the task comes as well.
    let is_name = |record: &&Record| record.kind() == RecordType::COMM;
    let name = records.iter().find(is_name).expect("enabled by the exec");
    assert_eq!(name.text(16), "cat");
    assert!(name.misc().has(Misc::COMM_EXEC));
}

#[test]
fn leaving_a_cpu_is_told_apart_from_being_made_to() {
    // covers live: REC-16, HDR-08, ATTR-46
    if !permitted() {
        return;
    }
    let records = recorded(&dummy(AttrFlags::CONTEXT_SWITCH), Target::THIS, || {
        for _ in 0..20 {
            std::thread::sleep(std::time::Duration::from_micros(50));
        }
    });
    let is_switch = |record: &&Record| record.kind() == RecordType::SWITCH;
    let (out, back): (Vec<&Record>, Vec<&Record>) = records
        .iter()
        .filter(is_switch)
        .partition(|record| record.misc().has(Misc::SWITCH_OUT));
    assert!(
        out.len() >= 20 && back.len() >= 20,
        "{} {}",
        out.len(),
        back.len()
    );
    let is_sleep = |record: &&&Record| !record.misc().has(Misc::SWITCH_OUT_PREEMPT);
    assert!(
        out.iter().filter(is_sleep).count() >= 20,
        "slept of its own will"
    );
}

#[test]
fn a_thread_that_must_share_its_cpu_is_preempted() {
    // covers live: HDR-10
    if !permitted() {
        return;
    }
    let spin_on_first = |until: &dyn Fn() -> bool| {
        prof_sys::prompt::run_on(first_cpu()).expect("a CPU");
        while !until() {
            std::hint::spin_loop();
        }
    };
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        use std::sync::atomic::Ordering::Relaxed;
        scope.spawn(|| spin_on_first(&|| done.load(Relaxed)));
        let watched = scope.spawn(|| {
            let event = Event::open(&dummy(AttrFlags::CONTEXT_SWITCH), Target::THIS, None);
            let event = event.expect("an event");
            let ring = Ring::map(&event, 8).expect("a ring");
            event.enable().expect("enable");
            // Two records of each turn.
            spin_on_first(&|| ring.waiting() >= 64);
            event.disable().expect("disable");
            done.store(true, Relaxed);
            let (mut ring, mut bytes) = (ring, Vec::new());
            ring.take(&mut bytes);
            bytes
        });
        let bytes = watched.join().expect("no panic");
        let preempted = Records::of(&bytes).any(|record| {
            let misc = Misc(ByteOrder::NATIVE.u16(record, 4).expect("a header"));
            misc.has(Misc::SWITCH_OUT) && misc.has(Misc::SWITCH_OUT_PREEMPT)
        });
        assert!(preempted);
    });
}

#[test]
fn counts_of_ended_threads_are_told() {
    // covers live: REC-07, RF-11, ATTR-22, ATTR-32, CALL-02, CALL-04
    if !permitted() {
        return;
    }
    let cpu = first_cpu();
    let attr = EventAttr {
        read_format: ReadFormat::TOTAL_TIME_ENABLED | ReadFormat::ID,
        sample_type: SampleType::TID,
        sample_period: 1 << 40,
        flags: faults().flags | AttrFlags::INHERIT | AttrFlags::INHERIT_STAT,
        ..faults()
    };
    let watched = move || {
        prof_sys::prompt::run_on(cpu).expect("a CPU");
        let target = Target::Task {
            tid: 0,
            cpu: Some(cpu),
        };
        let event = Event::open(&attr, target, None).expect("an event");
        let mut ring = Ring::map(&event, 8).expect("a ring");
        event.enable().expect("enable");
        // A thread that takes over the counters of the one that waits for it,
        // as the kernel does to save time, ends without a record.
        for _ in 0..1000 {
            let child = std::thread::spawn(|| {
                touch(100);
                tid()
            });
            let ended = child.join().expect("no panic");
            // join(3) may return before the kernel is done with it.
            let task = format!("/proc/self/task/{ended}");
            while std::path::Path::new(&task).exists() {
                std::thread::yield_now();
            }
            let mut bytes = Vec::new();
            ring.take(&mut bytes);
            let mut records = Records::of(&bytes).map(|bytes| Record(bytes.to_vec()));
            let is_it =
                |record: &Record| record.kind() == RecordType::READ && record.u32(12) == ended;
            if let Some(read) = records.find(is_it) {
                return read;
            }
        }
        panic!("no READ record of 1000 threads");
    };
    let read = std::thread::spawn(watched).join().expect("no panic");
    // pid, tid, value, enabled, id.
    assert!(read.u64(16) >= 100, "{}", read.u64(16));
    assert!(read.u64(24) > 0 && read.u64(32) > 0);
}

#[test]
fn of_a_whole_cpu_switches_name_both_tasks() {
    // covers live: REC-17, CALL-05
    if !permitted() || !may_watch_cpus() {
        return;
    }
    let cpu = first_cpu();
    let attr = EventAttr {
        sample_type: SampleType::TID,
        ..dummy(AttrFlags::CONTEXT_SWITCH | AttrFlags::SAMPLE_ID_ALL)
    };
    let watched = move || {
        prof_sys::prompt::run_on(cpu).expect("a CPU");
        let records = recorded(&attr, Target::Cpu(cpu), || {
            std::thread::sleep(std::time::Duration::from_micros(100));
        });
        (records, tid())
    };
    let (records, tid) = std::thread::spawn(watched).join().expect("no panic");
    // pid and tid of the other one, then the trailer's pid and tid.
    let left = records.iter().any(|record| {
        record.kind() == RecordType::SWITCH_CPU_WIDE
            && record.misc().has(Misc::SWITCH_OUT)
            && record.u32(20) == tid
            && record.u32(12) != tid
    });
    assert!(left, "{} records", records.len());
}

#[test]
fn namespaces_are_told_to_those_who_may() {
    // covers live: REC-18, ATTR-48
    if !permitted() {
        return;
    }
    let attr = dummy(AttrFlags::NAMESPACES);
    let watched = move || {
        // SAFETY: takes a number; only this thread leaves the namespace.
        let leave = || assert!(unsafe { libc::unshare(libc::CLONE_NEWUTS) } <= 0);
        try_recorded(&attr, Target::THIS, leave)
    };
    let records = match std::thread::spawn(watched).join().expect("no panic") {
        Ok(records) => records,
        Err(error) => return assert_eq!(error.errno(), libc::EACCES),
    };
    if records.is_empty() {
        println!("skipped: unshare(2) is not permitted");
        return;
    }
    let record = &records[0];
    assert_eq!(record.kind(), RecordType::NAMESPACES);
    assert_eq!(record.u64(16), 7, "seven pairs of device and inode");
    assert_eq!(record.0.len(), 24 + 7 * 16);
    // The second is of the host's name; its inode is that of /proc.
    let linked = std::fs::read_link("/proc/self/ns/uts").expect("a link");
    let old = linked.to_string_lossy().into_owned();
    assert!(
        !old.contains(&record.u64(24 + 16 + 8).to_string()),
        "a new one"
    );
}

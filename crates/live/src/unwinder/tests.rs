//! What live unwinding keeps, and for how long.

use super::{LiveUnwinder, Switches};
use crate::TargetMemory;
use prof_abi::{AttrFlags, CpuMode, EventAttr, Misc, SampleType};
use prof_perfdata::body::{Body, Comm, FileIdentity, Mmap2, Name, Task};
use prof_perfdata::write::{SampleEncoder, SampleFields, Trailer, append_short};
use prof_unwind::Machine;

/// A target whose memory cannot be read.
struct NoMemory;

impl TargetMemory for NoMemory {
    fn read(&self, _pid: i32, _address: u64, _out: &mut [u8]) -> usize {
        0
    }

    fn read_words(&self, _pid: i32, _addresses: &[u64], _out: &mut [u64]) -> usize {
        0
    }
}

/// What a shell leaves that starts a program `pid` at `time`: a fork, an
/// exec with a file and run-time code, a thread, and both ends.
fn short_process(pid: i32, time: u64, sample_type: SampleType) -> Vec<u8> {
    let trailer = Trailer {
        sample_type,
        time,
        ..Trailer::default().for_thread(pid.cast_unsigned(), pid.cast_unsigned())
    };
    let task = |tid: i32, parent: i32| Task {
        pid,
        parent_pid: parent,
        tid,
        parent_tid: parent,
        time,
    };
    let map = |start, path| {
        Body::Mmap2(Mmap2 {
            pid,
            tid: pid,
            start,
            len: 0x1000,
            file_offset: 0,
            file: FileIdentity::NONE,
            prot: 5,
            flags: 2,
            path: Name::new(path),
        })
    };
    let name = Name::of_thread(b"short");
    let comm = Body::Comm(Comm {
        pid,
        tid: pid,
        name,
    });
    let user = Misc::of_mode(CpuMode::User);
    let records = [
        (Body::Fork(task(pid, 1)), Misc(0)),
        (comm, Misc::COMM_EXEC),
        (map(0x1000, b"/no/such/program".as_slice()), user),
        (map(0x9000, b"//anon".as_slice()), user),
        (Body::Fork(task(pid + 1, pid)), Misc(0)),
        (Body::Exit(task(pid + 1, 1)), Misc(0)),
        (Body::Exit(task(pid, 1)), Misc(0)),
    ];
    let mut out = Vec::new();
    for (body, misc) in &records {
        append_short(body, *misc, &trailer, &mut out);
    }
    out
}

/// A sample of a thread in user space, with a register and a piece of stack.
fn user_sample(attr: &EventAttr, tid: i32, time: u64) -> Vec<u8> {
    let registers = [0x1010; 3];
    let fields = SampleFields {
        ip: 0x1010,
        pid: tid.cast_unsigned(),
        tid: tid.cast_unsigned(),
        time,
        regs_user: (2, &registers),
        stack_user: &[0; 64],
        ..SampleFields::default()
    };
    let mut out = Vec::new();
    let encoder = SampleEncoder::new(attr);
    encoder.encode(&fields, &mut out).expect("short");
    out
}

#[test]
fn nothing_is_kept_of_the_ended_when_their_last_samples_come_late() {
    let sample_type = SampleType::TID | SampleType::TIME | SampleType::IP;
    let attr = EventAttr {
        sample_type: sample_type | SampleType::REGS_USER | SampleType::STACK_USER,
        // bp, sp, ip.
        sample_regs_user: 1 << 6 | 1 << 7 | 1 << 8,
        sample_stack_user: 64,
        flags: AttrFlags::SAMPLE_ID_ALL,
        ..EventAttr::default()
    };
    let events = vec![(attr.clone(), vec![1])];
    let mut unwinder = LiveUnwinder::new(events, Machine::X86_64, Switches::Drop, NoMemory);
    let wait = |unwinder: &mut LiveUnwinder| {
        (0..10).for_each(|_| unwinder.round(&[], &mut |_| ()));
    };
    for pid in (10..=1000).step_by(10) {
        unwinder.round(&short_process(pid, 1, sample_type), &mut |_| ());
    }
    wait(&mut unwinder);
    assert_eq!(unwinder.chains.known(), 0);
    for pid in (10..=1000).step_by(10) {
        unwinder.round(&user_sample(&attr, pid, 2), &mut |_| ());
    }
    assert!(unwinder.chains.known() > 0);
    wait(&mut unwinder);
    assert_eq!(unwinder.chains.known(), 0);
    assert_eq!(unwinder.counts.malformed, 0);
}

#[test]
fn nothing_is_kept_of_processes_that_ended() {
    let sample_type = SampleType::TID | SampleType::TIME | SampleType::IP;
    let attr = EventAttr {
        sample_type,
        flags: AttrFlags::SAMPLE_ID_ALL,
        ..EventAttr::default()
    };
    let events = vec![(attr, vec![1])];
    let mut unwinder = LiveUnwinder::new(events, Machine::X86_64, Switches::Drop, NoMemory);
    let size = |unwinder: &LiveUnwinder| unwinder.processes.len() + unwinder.alive.len();
    let mut most = 0;
    for number in 1..=5000 {
        let records = short_process(number * 10, number as u64, sample_type);
        unwinder.round(&records, &mut |_| ());
        most = most.max(size(&unwinder));
    }
    // Some drains' worth of processes, of seven things each.
    assert!(most < 60, "{most} things known at once");
    for _ in 0..10 {
        unwinder.round(&[], &mut |_| ());
    }
    // The two dsos.
    assert_eq!(size(&unwinder), 2);
}

#[test]
fn stacks_of_new_threads_are_wanted_where_one_or_a_program_begins() {
    let sample_type = SampleType::TID | SampleType::TIME | SampleType::IP;
    let attr = EventAttr {
        sample_type,
        flags: AttrFlags::SAMPLE_ID_ALL,
        ..EventAttr::default()
    };
    let events = vec![(attr, vec![1])];
    let mut unwinder = LiveUnwinder::new(events, Machine::X86_64, Switches::Drop, NoMemory);
    let mut wanted_after = |records: &[u8]| {
        unwinder.round(records, &mut |_| ());
        let at_once = unwinder.wants_new_threads();
        (0..100).for_each(|_| unwinder.round(&[], &mut |_| ()));
        (at_once, unwinder.wants_new_threads())
    };
    assert_eq!(wanted_after(&[]), (true, false), "a recording begins");
    let (pid, tid, time) = (7, 8, 1);
    let trailer = Trailer {
        sample_type,
        time,
        ..Trailer::default().for_thread(7, 8)
    };
    let fork = Body::Fork(Task {
        pid,
        parent_pid: pid,
        tid,
        parent_tid: pid,
        time,
    });
    let name = Name::of_thread(b"other");
    let comm = || Body::Comm(Comm { pid, tid, name });
    let records = [
        (comm(), Misc(0), false),
        (fork, Misc(0), true),
        (comm(), Misc::COMM_EXEC, true),
    ];
    for (body, misc, begins) in &records {
        let mut record = Vec::new();
        append_short(body, *misc, &trailer, &mut record);
        assert_eq!(wanted_after(&record), (*begins, false), "{body:?}");
    }
}

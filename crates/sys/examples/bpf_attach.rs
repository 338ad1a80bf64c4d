//! Lets a BPF program decide which hits of a tracepoint count. Needs root.
//!
//! `cargo run -p prof-sys --example bpf_attach`
#![expect(clippy::print_stdout, reason = "a program")]
#![expect(
    unsafe_code,
    reason = "bpf(2), which has no wrapper, loads the program"
)]

use prof_abi::{AttrFlags, EventAttr, ReadFormat, event_kind};
use prof_sys::{Event, Target};
use std::error::Error;
use std::io;
use std::os::fd::{AsFd, FromRawFd, OwnedFd};

/// The start of `union bpf_attr` for BPF_PROG_LOAD.
#[repr(C)]
#[derive(Default)]
struct Load {
    kind: u32,
    instructions: u32,
    code: u64,
    license: u64,
    log: [u64; 2],
    rest: [u64; 6],
}

/// Loads `r0 = result; exit` for tracepoints: 0 drops a hit, 1 keeps it.
pub(crate) fn load(result: u8) -> io::Result<OwnedFd> {
    const PROG_LOAD: libc::c_int = 5;
    const TRACEPOINT: u32 = 5;
    // Operation, registers, offset, immediate.
    let code: [[u8; 8]; 2] = [
        [0xb7, 0, 0, 0, result, 0, 0, 0],
        [0x95, 0, 0, 0, 0, 0, 0, 0],
    ];
    let load = Load {
        kind: TRACEPOINT,
        instructions: 2,
        code: code.as_ptr() as u64,
        license: c"GPL".as_ptr() as u64,
        ..Load::default()
    };
    // SAFETY: the kernel reads a live structure of the size that it is told,
    // and the code and license that it points to.
    let fd = unsafe { libc::syscall(libc::SYS_bpf, PROG_LOAD, &raw const load, size_of::<Load>()) };
    match i32::try_from(fd) {
        // SAFETY: the call succeeded, so nobody else owns the descriptor.
        Ok(fd) if fd >= 0 => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(io::Error::last_os_error()),
    }
}

/// An event for calls of getpriority(2) in this thread.
pub(crate) fn tracepoint() -> Result<Event, Box<dyn Error>> {
    let path = "events/syscalls/sys_enter_getpriority/id";
    let id = std::fs::read_to_string(format!("/sys/kernel/tracing/{path}"))
        .or_else(|_| std::fs::read_to_string(format!("/sys/kernel/debug/tracing/{path}")))?;
    let attr = EventAttr {
        kind: event_kind::TRACEPOINT,
        config: id.trim().parse()?,
        sample_period: 1,
        flags: AttrFlags(0),
        ..EventAttr::default()
    };
    Ok(Event::open(&attr, Target::THIS, None)?)
}

fn call(times: u32) {
    for _ in 0..times {
        // SAFETY: takes numbers only.
        unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
    }
}

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let (event, drops) = match (tracepoint(), load(0)) {
        (Ok(event), Ok(program)) => (event, program),
        (event, program) => {
            let why = event.err().or(program.err().map(Into::into));
            println!("needs root: {}", why.ok_or("one of them failed")?);
            return Ok(());
        }
    };
    let value = || Ok::<_, io::Error>(event.read_counts(ReadFormat(0))?.values[0].value);
    call(100);
    let without = value()?;
    event.set_bpf(drops.as_fd())?;
    call(100);
    let with = value()? - without;
    let programs = event.query_bpf(8)?;
    println!("{without} hits, {with} with the program; programs: {programs:?}");
    assert_eq!((without, with, programs.attached), (100, 0, 1));
    Ok(())
}

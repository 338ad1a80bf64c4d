//! A choice by chance which samples an event takes, made in the kernel.

use crate::checked;
use crate::event::Event;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// Lets an event take each of its samples with the same probability, whatever
/// came before: a program of eight BPF instructions that compares a random
/// number with a limit in a map. What it refuses costs neither call chain nor
/// room in the ring.
///
/// Needs Linux 5.2, and `CAP_BPF` with `CAP_PERFMON`, or `CAP_SYS_ADMIN`.
///
/// Source: bpf(2); `linux/bpf.h`, `struct bpf_insn` and `union bpf_attr`.
#[derive(Debug)]
pub struct RandomChoice {
    limit: OwnedFd,
    program: OwnedFd,
}

/// The limit that no random number of 32 bits reaches.
const ALL: u64 = 1 << 32;

impl RandomChoice {
    /// A choice that takes all samples. Fails as bpf(2): `EPERM` for most
    /// users.
    pub fn new() -> io::Result<Self> {
        const PERF_EVENT: u32 = 7;
        let limit = new_map()?;
        let code = program(limit.as_raw_fd());
        let license = c"GPL";
        // prog_type, insn_cnt; insns, license; the rest 0: no log.
        let mut attr = [0_u64; ATTR_WORDS];
        attr[0] = words(PERF_EVENT, code.len() as u32);
        attr[1] = code.as_ptr() as u64;
        attr[2] = license.as_ptr() as u64;
        let program = descriptor_of(PROG_LOAD, &mut attr)?;
        let choice = Self { limit, program };
        choice.one_in(0)?;
        Ok(choice)
    }

    /// From now on takes one sample in `2^halvings` on average; at most one in
    /// `2^32`.
    pub fn one_in(&self, halvings: u32) -> io::Result<()> {
        let (key, value) = (0_u32, ALL >> halvings.min(32));
        let mut attr = [0_u64; ATTR_WORDS];
        attr[0] = words(self.limit.as_raw_fd().cast_unsigned(), 0);
        attr[1] = (&raw const key) as u64;
        attr[2] = (&raw const value) as u64;
        bpf(MAP_UPDATE_ELEM, &mut attr).map(drop)
    }

    /// Attaches the choice to an event, which must be a sampling one without a
    /// BPF program.
    pub fn attach(&self, event: &Event) -> io::Result<()> {
        event.set_bpf(self.program.as_fd())
    }
}

const MAP_CREATE: libc::c_int = 0;
const MAP_UPDATE_ELEM: libc::c_int = 2;
const PROG_LOAD: libc::c_int = 5;
/// Words of an attr: those of the calls used here end before.
const ATTR_WORDS: usize = 9;

/// An array of one value of 8 bytes.
fn new_map() -> io::Result<OwnedFd> {
    const ARRAY: u32 = 2;
    let mut attr = [0_u64; ATTR_WORDS];
    // map_type, key_size; value_size, max_entries.
    attr[0] = words(ARRAY, 4);
    attr[1] = words(8, 1);
    descriptor_of(MAP_CREATE, &mut attr)
}

/// The program: whether a random number is below the map's value.
fn program(map: i32) -> [u64; 9] {
    const GET_PRANDOM_U32: i32 = 7;
    const MAP_VALUE: u8 = 2;
    [
        instruction(0x85, 0, 0, 0, GET_PRANDOM_U32),
        // r6 = the lower half of r0
        instruction(0xbc, 6, 0, 0, 0),
        // r1 = address of the map's value, in two slots
        instruction(0x18, 1, MAP_VALUE, 0, map),
        0,
        // r1 = *r1
        instruction(0x79, 1, 1, 0, 0),
        // r0 = 0; if r6 >= r1, end
        instruction(0xb7, 0, 0, 0, 0),
        instruction(0x3d, 6, 1, 1, 0),
        instruction(0xb7, 0, 0, 0, 1),
        instruction(0x95, 0, 0, 0, 0),
    ]
}

/// `struct bpf_insn` in a word: code, registers, offset, immediate.
fn instruction(code: u8, to: u8, from: u8, offset: i16, value: i32) -> u64 {
    let registers = if cfg!(target_endian = "little") {
        from << 4 | to
    } else {
        to << 4 | from
    };
    let [low, high] = offset.to_ne_bytes();
    let [a, b, c, d] = value.to_ne_bytes();
    u64::from_ne_bytes([code, registers, low, high, a, b, c, d])
}

/// Two neighbouring fields of 32 bits.
fn words(first: u32, second: u32) -> u64 {
    let ([a, b, c, d], [e, f, g, h]) = (first.to_ne_bytes(), second.to_ne_bytes());
    u64::from_ne_bytes([a, b, c, d, e, f, g, h])
}

fn descriptor_of(command: libc::c_int, attr: &mut [u64; ATTR_WORDS]) -> io::Result<OwnedFd> {
    let fd = bpf(command, attr)?;
    // SAFETY: the call succeeded and gave a descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn bpf(command: libc::c_int, attr: &mut [u64; ATTR_WORDS]) -> io::Result<libc::c_int> {
    // SAFETY: the kernel reads the attr, whose size is given, and what its
    // pointers name, which the callers keep alive; the commands used here write
    // to none of it.
    let result = unsafe {
        let size = size_of_val(attr);
        libc::syscall(libc::SYS_bpf, command, attr.as_mut_ptr(), size)
    };
    checked(result as libc::c_int)
}

#[cfg(test)]
mod tests {
    use super::RandomChoice;
    use crate::event::{Event, Target};
    use crate::ring::Ring;
    use prof_abi::{AttrFlags, EventAttr};

    /// Samples of 4 000 page faults that an event with this choice takes.
    fn taken(choice: &RandomChoice) -> Option<usize> {
        let attr = EventAttr {
            kind: 1,
            config: 2,
            sample_period: 1,
            flags: AttrFlags::DISABLED,
            ..EventAttr::default()
        };
        let event = Event::open(&attr, Target::THIS, None).ok()?;
        let mut ring = Ring::map(&event, 64).ok()?;
        choice.attach(&event).ok()?;
        // Before, each page fault would be taken.
        event.enable().ok()?;
        for _ in 0..4_000 {
            // SAFETY: a fresh mapping of one page, written once, and unmapped.
            unsafe {
                let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
                let both = libc::PROT_READ | libc::PROT_WRITE;
                let page = libc::mmap(std::ptr::null_mut(), 4096, both, flags, -1, 0);
                assert_ne!(page, libc::MAP_FAILED);
                page.cast::<u8>().write_volatile(1);
                libc::munmap(page, 4096);
            }
        }
        let mut count = 0;
        ring.take_each(|record| count += usize::from(record.first() == Some(&9)));
        Some(count)
    }

    #[test]
    fn one_sample_in_so_many_is_taken() {
        let Ok(choice) = RandomChoice::new() else {
            println!("skipped: bpf(2) is not permitted here");
            return;
        };
        choice.one_in(2).expect("a limit");
        let Some(count) = taken(&choice) else {
            println!("skipped: perf_event_open is not permitted here");
            return;
        };
        // One in four of 4000, and 8 standard deviations; the allocator's own
        // page faults are few.
        assert!((780..1220).contains(&count), "{count}");
        choice.one_in(32).expect("a limit");
        assert_eq!(taken(&choice), Some(0));
    }
}

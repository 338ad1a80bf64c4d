//! A choice by chance which samples an event takes, made in the kernel.

use crate::checked;
use crate::event::Event;
use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

/// Lets an event take each of its samples with the same probability, whatever
/// came before: a program of a few BPF instructions that compares a random
/// number with a limit in a map. What it refuses has no room in the ring, but costs
/// the walk of its call chain: the kernel makes a sample before it asks.
///
/// A choice that [hands over](Self::handing_over) has that made by another event,
/// after it has chosen: the one that chooses then samples nothing itself, and may
/// do without call chain, registers and stack.
///
/// Needs Linux 5.2, and `CAP_BPF` with `CAP_PERFMON`, or `CAP_SYS_ADMIN`.
///
/// Source: bpf(2); `linux/bpf.h`, `struct bpf_insn` and `union bpf_attr`.
#[derive(Debug)]
pub struct RandomChoice {
    limit: OwnedFd,
    program: OwnedFd,
    /// A `BPF_MAP_TYPE_PERF_EVENT_ARRAY`: by CPU the event that takes samples.
    takers: Option<OwnedFd>,
}

/// The limit that no random number of 32 bits reaches.
const ALL: u64 = 1 << 32;

impl RandomChoice {
    /// A choice that takes all samples. Fails as bpf(2): `EPERM` for most
    /// users.
    pub fn new() -> io::Result<Self> {
        Self::with(None)
    }

    /// A choice that has what is chosen sampled by other events, which take all
    /// samples, with the registers of the event that chooses: one for each CPU below
    /// `cpus`, none until [`Self::hand_to`]. Fails as [`Self::new`].
    pub fn handing_over(cpus: u32) -> io::Result<Self> {
        const PERF_EVENT_ARRAY: u32 = 4;
        Self::with(Some(new_map(PERF_EVENT_ARRAY, 4, cpus)?))
    }

    /// What is chosen on a CPU is sampled by this event from now on: one of kind
    /// `PERF_COUNT_SW_BPF_OUTPUT` that counts all tasks on that CPU.
    pub fn hand_to(&self, cpu: u32, event: &Event) -> io::Result<()> {
        let Some(takers) = &self.takers else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let descriptor = event.as_fd().as_raw_fd();
        update(takers, cpu, (&raw const descriptor) as u64)
    }

    fn with(takers: Option<OwnedFd>) -> io::Result<Self> {
        const PERF_EVENT: u32 = 7;
        const ARRAY: u32 = 2;
        let limit = new_map(ARRAY, 8, 1)?;
        let code = program(limit.as_raw_fd(), takers.as_ref().map(AsRawFd::as_raw_fd));
        let license = c"GPL";
        // prog_type, insn_cnt; insns, license; the rest 0: no log.
        let mut attr = [0_u64; ATTR_WORDS];
        attr[0] = words(PERF_EVENT, code.len() as u32);
        attr[1] = code.as_ptr() as u64;
        attr[2] = license.as_ptr() as u64;
        let program = descriptor_of(PROG_LOAD, &mut attr)?;
        let choice = Self {
            limit,
            program,
            takers,
        };
        choice.one_in(0)?;
        Ok(choice)
    }

    /// From now on takes one sample in `2^halvings` on average; at most one in
    /// `2^32`.
    pub fn one_in(&self, halvings: u32) -> io::Result<()> {
        let value = ALL >> halvings.min(32);
        update(&self.limit, 0, (&raw const value) as u64)
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

/// An array map of this kind, with values of so many bytes.
fn new_map(kind: u32, value_size: u32, entries: u32) -> io::Result<OwnedFd> {
    let mut attr = [0_u64; ATTR_WORDS];
    // map_type, key_size; value_size, max_entries.
    attr[0] = words(kind, 4);
    attr[1] = words(value_size, entries);
    descriptor_of(MAP_CREATE, &mut attr)
}

/// Sets an entry of a map to what is at the address `value`.
fn update(map: &OwnedFd, key: u32, value: u64) -> io::Result<()> {
    let mut attr = [0_u64; ATTR_WORDS];
    attr[0] = words(map.as_raw_fd().cast_unsigned(), 0);
    attr[1] = (&raw const key) as u64;
    attr[2] = value;
    bpf(MAP_UPDATE_ELEM, &mut attr).map(drop)
}

/// The program: whether a random number is below the value of the map `limit`; with
/// `takers`, a sample by the event of the CPU in that map if it is.
fn program(limit: i32, takers: Option<i32>) -> Vec<u64> {
    const GET_PRANDOM_U32: i32 = 7;
    const PERF_EVENT_OUTPUT: i32 = 25;
    const MAP: u8 = 1;
    const MAP_VALUE: u8 = 2;
    /// `BPF_F_CURRENT_CPU`, as 32 bits that are not sign-extended.
    const CURRENT_CPU: i32 = -1;
    let taken = match takers {
        None => vec![instruction(0xb7, 0, 0, 0, 1)],
        Some(takers) => vec![
            // r1 = the context; r2 = the map, in two slots; r3 = this CPU's
            instruction(0xbf, 1, 7, 0, 0),
            instruction(0x18, 2, MAP, 0, takers),
            0,
            instruction(0xb4, 3, 0, 0, CURRENT_CPU),
            // r4 = address of 8 bytes of nothing, since there must be some; r5 = 8
            instruction(0x7a, 10, 0, -8, 0),
            instruction(0xbf, 4, 10, 0, 0),
            instruction(0x07, 4, 0, 0, -8),
            instruction(0xb7, 5, 0, 0, 8),
            instruction(0x85, 0, 0, 0, PERF_EVENT_OUTPUT),
            instruction(0xb7, 0, 0, 0, 0),
        ],
    };
    let past = i16::try_from(taken.len()).expect("it is short");
    let mut code = vec![
        // r7 = the context
        instruction(0xbf, 7, 1, 0, 0),
        instruction(0x85, 0, 0, 0, GET_PRANDOM_U32),
        // r6 = the lower half of r0
        instruction(0xbc, 6, 0, 0, 0),
        // r1 = address of the map's value, in two slots
        instruction(0x18, 1, MAP_VALUE, 0, limit),
        0,
        // r1 = *r1
        instruction(0x79, 1, 1, 0, 0),
        // r0 = 0; if r6 >= r1, end
        instruction(0xb7, 0, 0, 0, 0),
        instruction(0x3d, 6, 1, past, 0),
    ];
    code.extend(taken);
    code.push(instruction(0x95, 0, 0, 0, 0));
    code
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

    fn page_faults() -> EventAttr {
        EventAttr {
            kind: 1,
            config: 2,
            sample_period: 1,
            flags: AttrFlags::DISABLED,
            ..EventAttr::default()
        }
    }

    /// Samples of 4 000 page faults that an event with this choice takes.
    fn taken(choice: &RandomChoice) -> Option<usize> {
        let event = Event::open(&page_faults(), Target::THIS, None).ok()?;
        let mut ring = Ring::map(&event, 64).ok()?;
        choice.attach(&event).ok()?;
        // Before, each page fault would be taken.
        event.enable().ok()?;
        fault(4_000);
        Some(samples(&mut ring))
    }

    fn fault(times: u32) {
        for _ in 0..times {
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
    }

    fn samples(ring: &mut Ring) -> usize {
        let mut count = 0;
        ring.take_each(|record| count += usize::from(record.first() == Some(&9)));
        count
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

    #[test]
    fn what_is_handed_over_is_sampled_by_the_event_of_the_cpu_alone() {
        let Ok(choice) = RandomChoice::handing_over(1024) else {
            println!("skipped: bpf(2) is not permitted here");
            return;
        };
        let taker = EventAttr {
            kind: 1,
            config: 10,
            sample_period: 1,
            ..EventAttr::default()
        };
        let cpus = 0..1024;
        let takers =
            cpus.map_while(|cpu| Some((cpu, Event::open(&taker, Target::Cpu(cpu), None).ok()?)));
        let takers: Vec<(u32, Event)> = takers.collect();
        let Ok(event) = Event::open(&page_faults(), Target::THIS, None) else {
            println!("skipped: perf_event_open is not permitted here");
            return;
        };
        let mut own = Ring::map(&event, 64).expect("a ring");
        let mut rings: Vec<Ring> = Vec::new();
        for (cpu, taker) in &takers {
            rings.push(Ring::map(taker, 64).expect("a ring"));
            choice.hand_to(*cpu, taker).expect("an entry");
        }
        choice.attach(&event).expect("attached");
        choice.one_in(2).expect("a limit");
        event.enable().expect("enabled");
        fault(4_000);
        event.disable().expect("disabled");
        let taken: usize = rings.iter_mut().map(samples).sum();
        assert!((780..1220).contains(&taken), "{taken}");
        assert_eq!(samples(&mut own), 0);
        let filter = RandomChoice::new().expect("as above");
        assert!(filter.hand_to(0, &event).is_err());
    }
}

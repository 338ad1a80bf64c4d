//! A choice by chance which samples an event takes, made in the kernel.

use crate::checked;
use crate::event::Event;
use std::collections::HashMap;
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
/// The first samples of each thread are likelier ([`Self::halvings_of`]), so that
/// threads that live for a moment have some.
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
    /// A `BPF_MAP_TYPE_ARRAY` of one value, a table of slots: by the lower bits of the tid
    /// who was asked for last, and how often. `None` where the kernel had no memory for
    /// it.
    threads: Option<OwnedFd>,
}

/// How often a [`RandomChoice`] was asked for each thread, as it counts itself: told again
/// from records of what was asked, in the order of time.
#[derive(Debug, Default)]
pub struct AskedFor {
    /// By slot who was asked for last, and how often.
    slots: HashMap<u32, (u32, u64)>,
    /// How many slots there are; `None` where the kernel knows threads by other numbers.
    count: Option<u32>,
}

impl AskedFor {
    /// As the kernel counts them for this process: by the slots of a [`RandomChoice`]
    /// where it knows threads by the same numbers, else each by itself.
    pub fn new() -> Self {
        // The first namespace of processes: `PROC_PID_INIT_INO`.
        let own = std::fs::read_link("/proc/self/ns/pid").ok();
        let is_first = own.is_some_and(|own| own.as_os_str() == "pid:[4026531836]");
        Self::among(is_first.then_some(SLOTS))
    }

    fn among(count: Option<u32>) -> Self {
        Self {
            slots: HashMap::new(),
            count,
        }
    }

    /// It was asked for this thread: the how-manieth time that was, the first being 1.
    /// One whose slot another had meanwhile counts as new; one that has the number of
    /// an ended one counts on.
    pub fn next(&mut self, tid: u32) -> u64 {
        let slot = self.count.map_or(tid, |count| tid % count);
        let (last, times) = self.slots.entry(slot).or_default();
        match *last == tid {
            true => *times += 1,
            false => (*last, *times) = (tid, 1),
        }
        *times
    }

    /// A thread has ended. Who gets its number next has, to the kernel, another one in
    /// all namespaces but the first.
    pub fn ended(&mut self, tid: u32) {
        if self.count.is_none() {
            self.slots.remove(&tid);
        }
    }
}

/// So many samples of a thread come at first with probability 1, then of as many
/// each second, of twice as many one in four, and so on.
const FIRST: u32 = 16;
/// But none more than `2^LIKELIER` times as likely as the others.
const LIKELIER: u32 = 3;
/// Threads of which it is known how often they were asked for. Numbers of threads follow
/// each other, so that two whose lower bits are equal hardly live at the same time; they
/// count as new in turns ([`AskedFor`]).
const SLOTS: u32 = 1 << 15;

/// The limit that no random number of 32 bits reaches.
const ALL: u64 = 1 << 32;

impl RandomChoice {
    /// A choice that takes all samples. Fails as bpf(2): `EPERM` for most
    /// users.
    pub fn new() -> io::Result<Self> {
        Self::with(None, SLOTS)
    }

    /// A choice that has what is chosen sampled by other events, which take all
    /// samples, with the registers of the event that chooses: one for each CPU below
    /// `cpus`, none until [`Self::hand_to`]. Fails as [`Self::new`].
    pub fn handing_over(cpus: u32) -> io::Result<Self> {
        const PERF_EVENT_ARRAY: u32 = 4;
        Self::with(Some(new_map(PERF_EVENT_ARRAY, 4, cpus)?), SLOTS)
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

    fn with(takers: Option<OwnedFd>, slots: u32) -> io::Result<Self> {
        const PERF_EVENT: u32 = 7;
        const ARRAY: u32 = 2;
        let limit = new_map(ARRAY, 8, 1)?;
        let threads = new_map(ARRAY, slots * SLOT, 1).ok();
        let of = |map: &Option<OwnedFd>| map.as_ref().map(AsRawFd::as_raw_fd);
        let threads_of = of(&threads).map(|threads| (threads, slots));
        let code = program(limit.as_raw_fd(), threads_of, of(&takers));
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
            threads,
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

    /// With what halvings the `nth` sample of a thread is chosen, the first being 1,
    /// while others are [one in](Self::one_in) `2^halvings`.
    pub fn halvings_of(&self, nth: u64, halvings: u32) -> u32 {
        match self.threads {
            Some(_) => Self::likelier(nth, halvings),
            None => halvings,
        }
    }

    /// What [`Self::halvings_of`] is where threads are counted.
    pub fn likelier(nth: u64, halvings: u32) -> u32 {
        let of_thread = nth.max(u64::from(FIRST)).next_power_of_two().ilog2() - FIRST.ilog2();
        halvings.min(of_thread.max(halvings.saturating_sub(LIKELIER)))
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

/// The program: whether a random number is below the value of the map `limit`, or
/// that of the thread; with `takers`, a sample by the event of the CPU in that map if
/// it is.
fn program(limit: i32, threads: Option<(i32, u32)>, takers: Option<i32>) -> Vec<u64> {
    const GET_PRANDOM_U32: i32 = 7;
    let taken = match takers {
        None => vec![instruction(0xb7, 0, 0, 0, 1)],
        Some(takers) => hand_over(takers),
    };
    let mut code = vec![
        // r7 = the context
        instruction(0xbf, 7, 1, 0, 0),
        // r1 = address of the map's value, in two slots; r8 = the limit
        instruction(0x18, 1, MAP_VALUE, 0, limit),
        0,
        instruction(0x79, 8, 1, 0, 0),
    ];
    code.extend(threads.map(limit_of_thread).unwrap_or_default());
    code.extend([
        instruction(0x85, 0, 0, 0, GET_PRANDOM_U32),
        // r6 = the lower half of r0
        instruction(0xbc, 6, 0, 0, 0),
        // r0 = 0; if r6 >= r8, end
        instruction(0xb7, 0, 0, 0, 0),
        instruction(0x3d, 6, 8, past(taken.len()), 0),
    ]);
    code.extend(taken);
    code.push(instruction(0x95, 0, 0, 0, 0));
    code
}

/// Which map is meant by a descriptor in an instruction: it, or its value.
const MAP: u8 = 1;
const MAP_VALUE: u8 = 2;

/// Has the event of this CPU in the map `takers` sample with the context in r7;
/// leaves 0 in r0.
fn hand_over(takers: i32) -> Vec<u64> {
    const PERF_EVENT_OUTPUT: i32 = 25;
    /// `BPF_F_CURRENT_CPU`, as 32 bits that are not sign-extended.
    const CURRENT_CPU: i32 = -1;
    vec![
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
    ]
}

/// Bytes of a thread's slot: tid, how often it was asked for, up to how often its
/// halvings hold, its halvings; each 32 bits.
const SLOT: u32 = 16;

/// Counts the thread in its slot, one of so many, of the only value of the map `threads`,
/// and makes the thread's limit that in r8 if it is higher, as far as it may be. Ends the
/// program if no thread ran: nothing is to be known of idle CPUs.
fn limit_of_thread((threads, slots): (i32, u32)) -> Vec<u64> {
    const GET_CURRENT_PID_TGID: i32 = 14;
    let known = counts_on();
    let new = counts_from_one(past(known.len()));
    let mut code = vec![
        // w0 = the tid; r2 = where its slot is
        instruction(0x85, 0, 0, 0, GET_CURRENT_PID_TGID),
        instruction(0xbc, 0, 0, 0, 0),
        // if r0 == 0, end
        instruction(0x55, 0, 0, 1, 0),
        instruction(0x95, 0, 0, 0, 0),
        instruction(0xbf, 2, 0, 0, 0),
        instruction(0x57, 2, 0, 0, number(slots - 1)),
        instruction(0x27, 2, 0, 0, number(SLOT)),
        // r1 = the slot; w3 = whose it is; if it is this thread's, past `new`
        instruction(0x18, 1, MAP_VALUE, 0, threads),
        0,
        instruction(0x0f, 1, 2, 0, 0),
        instruction(0x61, 3, 1, 0, 0),
        instruction(0x1d, 3, 0, past(new.len()), 0),
    ];
    code.extend(new);
    code.extend(known);
    code.extend([
        // r3 = 2^32 >> halvings; r1 = what it may be at most
        instruction(0xb7, 3, 0, 0, 1),
        instruction(0x67, 3, 0, 0, 32),
        instruction(0x7f, 3, 5, 0, 0),
        instruction(0xbf, 1, 8, 0, 0),
        instruction(0x67, 1, 0, 0, number(LIKELIER)),
        // r3 = min(r3, r1); r8 = max(r8, r3)
        instruction(0xbd, 3, 1, 1, 0),
        instruction(0xbf, 3, 1, 0, 0),
        instruction(0xbd, 3, 8, 1, 0),
        instruction(0xbf, 8, 3, 0, 0),
    ]);
    code
}

fn number(value: u32) -> i32 {
    i32::try_from(value).expect("it is small")
}

/// Counts a leaving of the thread that the slot at r1 is of; w5 = its halvings.
fn counts_on() -> [u64; 11] {
    /// More would be no other limit.
    const MOST_HALVINGS: i32 = 24;
    [
        // w4 = how often, now; w3 = up to; w5 = halvings
        instruction(0x61, 4, 1, 4, 0),
        instruction(0x04, 4, 0, 0, 1),
        instruction(0x63, 1, 4, 4, 0),
        instruction(0x61, 3, 1, 8, 0),
        instruction(0x61, 5, 1, 12, 0),
        // if r4 <= r3 or r5 >= MOST_HALVINGS, past what follows
        instruction(0xbd, 4, 3, 5, 0),
        instruction(0x35, 5, 0, 4, MOST_HALVINGS),
        // w3 *= 2; w5 += 1
        instruction(0x64, 3, 0, 0, 1),
        instruction(0x63, 1, 3, 8, 0),
        instruction(0x04, 5, 0, 0, 1),
        instruction(0x63, 1, 5, 12, 0),
    ]
}

/// Gives the slot at r1 to the thread w0 and counts its first leaving; w5 = 0. Goes on
/// `known` instructions later.
fn counts_from_one(known: i16) -> [u64; 6] {
    [
        // Once, up to FIRST, none.
        instruction(0x63, 1, 0, 0, 0),
        instruction(0x62, 1, 0, 4, 1),
        instruction(0x62, 1, 0, 8, number(FIRST)),
        instruction(0x62, 1, 0, 12, 0),
        instruction(0xb7, 5, 0, 0, 0),
        instruction(0x05, 0, 0, known, 0),
    ]
}

/// The offset that passes over so many instructions.
fn past(instructions: usize) -> i16 {
    i16::try_from(instructions).expect("a program is short")
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
    use super::{AskedFor, RandomChoice};
    use crate::event::{Event, Target};
    use crate::ring::Ring;
    use prof_abi::{AttrFlags, EventAttr};
    use std::sync::Barrier;

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
    fn the_first_samples_of_a_thread_are_likelier_as_told() {
        let Ok(choice) = RandomChoice::new() else {
            println!("skipped: bpf(2) is not permitted here");
            return;
        };
        if choice.threads.is_none() {
            println!("skipped: no memory for the map of threads");
            return;
        }
        for halvings in [3, 6] {
            choice.one_in(halvings).expect("a limit");
            let in_thread = || std::thread::scope(|scope| scope.spawn(|| taken(&choice)).join());
            let Ok(Some(count)) = in_thread() else {
                println!("skipped: perf_event_open is not permitted here");
                return;
            };
            let each = (1..=4_000).map(|nth| choice.halvings_of(nth, halvings));
            let chances: Vec<f64> = each.map(|halvings| 0.5_f64.powi(halvings as i32)).collect();
            let expected: f64 = chances.iter().sum();
            let variance: f64 = chances.iter().map(|chance| chance * (1.0 - chance)).sum();
            // 8 standard deviations, and page faults of the allocator.
            let off = (count as f64 - expected).abs();
            assert!(off < 8.0 * variance.sqrt() + 20.0, "{count} of {expected}");
        }
    }

    #[test]
    fn threads_that_share_a_slot_are_counted_as_the_kernel_does() {
        const TURNS: u32 = 50;
        let Ok(choice) = RandomChoice::with(None, 1) else {
            println!("skipped: bpf(2) is not permitted here");
            return;
        };
        choice.one_in(3).expect("a limit");
        let turn = Barrier::new(2);
        // Page faults in turns, forty each; the waiting for turns has none.
        let in_turns = |is_first: bool| {
            let event = Event::open(&page_faults(), Target::THIS, None).ok();
            let ring = event.as_ref().and_then(|event| Ring::map(event, 64).ok());
            for at in 0..2 * TURNS {
                turn.wait();
                let is_own = (at % 2 == 0) == is_first;
                if let (Some(event), true) = (&event, is_own) {
                    if at < 2 {
                        choice.attach(event).ok()?;
                    }
                    event.enable().ok()?;
                    fault(40);
                    event.disable().ok()?;
                }
            }
            ring.map(|mut ring| samples(&mut ring))
        };
        let counts = std::thread::scope(|scope| {
            let other = scope.spawn(|| in_turns(false));
            let own = in_turns(true);
            Some(own? + other.join().expect("it does not panic")?)
        });
        let Some(count) = counts.filter(|_| choice.threads.is_some()) else {
            println!("skipped: perf_event_open is not permitted here");
            return;
        };
        let (mut expected, mut variance) = (0.0, 0.0);
        let mut asked = AskedFor::among(Some(1));
        for turn in 0..2 * TURNS {
            for _ in 0..40 {
                let halvings = choice.halvings_of(asked.next(turn % 2), 3);
                let chance = 0.5_f64.powi(halvings as i32);
                expected += chance;
                variance += chance * (1.0 - chance);
            }
        }
        assert_eq!(expected, 2.0 * f64::from(TURNS) * (16.0 + 8.0 + 2.0));
        // 8 standard deviations, and page faults of the allocator.
        let off = (count as f64 - expected).abs();
        assert!(off < 8.0 * variance.sqrt() + 20.0, "{count} of {expected}");
    }

    #[test]
    fn numbers_of_threads_count_on_where_the_kernel_knows_them() {
        let both = [7, 7 + super::SLOTS, 7, 7];
        let nth = |mut asked: AskedFor| {
            let before: Vec<u64> = both.map(|tid| asked.next(tid)).into();
            asked.ended(7);
            (before, asked.next(7))
        };
        assert_eq!(
            nth(AskedFor::among(Some(super::SLOTS))),
            (vec![1, 1, 1, 2], 3)
        );
        assert_eq!(nth(AskedFor::among(None)), (vec![1, 1, 2, 3], 1));
    }

    #[test]
    fn no_sample_is_more_than_eight_times_as_likely_as_others() {
        let of = |nth| [0, 1, 3, 6].map(|halvings| RandomChoice::likelier(nth, halvings));
        assert_eq!(of(1), [0, 0, 0, 3]);
        assert_eq!(of(16), [0, 0, 0, 3]);
        assert_eq!(of(17), [0, 1, 1, 3]);
        assert_eq!(of(64), [0, 1, 2, 3]);
        assert_eq!(of(513), [0, 1, 3, 6]);
        assert_eq!(of(u64::from(u32::MAX)), [0, 1, 3, 6]);
    }

    #[test]
    fn of_a_new_thread_whose_samples_are_few_all_are_taken() {
        let Ok(choice) = RandomChoice::new() else {
            println!("skipped: bpf(2) is not permitted here");
            return;
        };
        choice.one_in(3).expect("a limit");
        let counts: Vec<Option<usize>> = (0..20)
            .map(|_| {
                let few = || {
                    let event = Event::open(&page_faults(), Target::THIS, None).ok()?;
                    let mut ring = Ring::map(&event, 8).ok()?;
                    choice.attach(&event).ok()?;
                    event.enable().ok()?;
                    fault(10);
                    Some(samples(&mut ring))
                };
                std::thread::scope(|scope| scope.spawn(few).join().expect("it does not panic"))
            })
            .collect();
        // Others' may be among the first 16: the allocator's.
        let is_whole = |count: &Option<usize>| count.is_none_or(|count| count >= 10);
        assert!(
            choice.threads.is_none() || counts.iter().all(is_whole),
            "{counts:?}"
        );
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

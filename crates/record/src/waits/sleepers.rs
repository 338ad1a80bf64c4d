//! Stacks of threads that sleep, read from outside.
//!
//! A user to whom the kernel shows no switch with its stack may still read, of
//! a thread of its own that is asleep in a system call, the call's number, its
//! arguments, stack pointer and program counter (`/proc/TID/syscall`), and the
//! memory of its stack. That takes a while, and the thread may wake meanwhile:
//! so a reading is made a sample with both times, which counts only if one wait
//! holds the whole of it.
//!
//! ```text
//! leaves ├──────────── the wait ────────────┤ runs
//!               ├ read ┤
//! ```
//!
//! Registers other than the two are not known. Where unwinding needs one, the
//! stack ends.
//!
//! Where the kernel does sample switches, only those are read that may wait for
//! a mutex, to see who holds it: the registers of the sample tell which. Where it
//! samples but some, chosen by chance, the others are read, too, if they sleep for
//! long: what they wait for is then no matter of chance.

use super::blocked::Blocked;
use super::holders::{Held, may_be_arguments};
use super::pairing::Thread;
use crate::rounds;
use prof_abi::{ByteOrder, CpuMode, EventAttr, Misc, RecordType};
use prof_perfdata::write::{EventDescription, SampleEncoder, SampleFields};
use prof_perfdata::{Event, Events, Record, WaitWord};
use prof_profile::{StackSource, WaitState};
use prof_sys::{clock, process};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::VecDeque;
use std::fs;
use std::time::Duration;

/// A thread that sleeps is read when it has slept for so long, ns, where shorter
/// waits are many: each reading takes some 20 µs.
const SOON: u64 = 1_000_000;
/// It is read as soon as it is seen where no more than so many are read in so long,
/// ns: on a busy machine even who was woken at once may get a CPU after many
/// milliseconds, but its stack can be read only before.
const FEW: u32 = 64;
const FEW_WITHIN: u64 = 64_000_000;
/// The same where it is only for long waits whose leaving was not chosen to be
/// sampled.
const LATER: u64 = 8_000_000;
/// How often is then to be looked for them.
const LOOK_LATER_EVERY: Duration = Duration::from_millis(4);
/// How often is to be looked for threads that have slept that long.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(1);
/// How long records may wait in their rings while threads are seen to wait for a
/// mutex, or long waits.
const PATIENCE_FOR_LONG: Duration = Duration::from_millis(8);
const PATIENCE_FOR_HOLDERS: Duration = Duration::from_millis(4);
/// For so long, ns, after a held mutex was seen records are read early: waits of
/// a few milliseconds are over by the usual time, and where none are they cost
/// nothing.
const MUTEX_LASTS: u64 = 1_000_000_000;
/// Most bytes of a stack that are read; the rest is read where unwinding
/// needs it.
const MOST_STACK: usize = 32 << 10;
/// Threads that are read in one go.
const MOST_AT_ONCE: usize = 128;

/// Which threads are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whom {
    /// All that sleep.
    All,
    /// Those that slept at the start: the kernel tells of the others, but not who
    /// holds what they wait for. Those that may wait for a mutex are looked at, and
    /// those that leave without a sample while it takes but some.
    AtStart,
}

/// Reads stacks of threads that sleep.
pub(crate) struct Sleepers {
    whom: Whom,
    clock: i32,
    events: Events,
    encoder: SampleEncoder,
    /// The event of waits, and an id of it.
    event: usize,
    id: u64,
    /// The registers in samples, by bit.
    registers: u64,
    /// When the threads that sleep left their CPUs, ns.
    asleep: FxHashMap<i32, Slept>,
    /// Times and threads of leaving, in order.
    due: VecDeque<(u64, i32)>,
    /// The same of those that are read later while the kernel samples but some leavings,
    /// whether it chose theirs or not: waits are told apart by whether they could be read.
    due_later: VecDeque<(u64, i32)>,
    /// Whether the kernel samples but some leavings now.
    is_thinned: bool,
    /// Threads whose leaving is sampled.
    sampled: FxHashSet<i32>,
    /// Threads that leave their CPUs as if to wait for a mutex, by the kernel's
    /// sample of it.
    for_mutex: FxHashSet<i32>,
    /// When a mutex was last seen to be held, and when a thread to switch, ns.
    mutex_seen: Option<u64>,
    switch_seen: u64,
    stack: Vec<u8>,
    rate: Rate,
    /// Reads what else is of use of a thread that sleeps.
    read_also: Option<ReadAlso>,
}

/// Reads memory of a process and thread for the sample at a time, ns, with the
/// stack below an address.
pub(crate) type ReadAlso = Box<dyn Fn((i32, i32), u64, u64) + Send>;

#[derive(Debug, Clone, Copy)]
struct Slept {
    since: u64,
    pid: i32,
    cpu: u32,
    /// The kernel did not sample it leave.
    is_unsampled: bool,
}

impl Sleepers {
    /// For the events as they are opened, with the clock of their records;
    /// `threads` are there at the start: process and thread.
    pub(crate) fn new(
        whom: Whom,
        clock: i32,
        opened: &[EventDescription],
        threads: &[(i32, i32)],
    ) -> Option<Self> {
        let event = opened
            .iter()
            .position(|event| super::is_of_waits(&event.name))?;
        let own = opened.get(event)?;
        let mut events = Events::new(ByteOrder::NATIVE);
        for event in opened {
            events.push(Event::new(event.attr.clone(), event.ids.clone()));
        }
        let slept = |&(pid, tid): &(i32, i32)| {
            let (since, cpu) = (0, 0);
            let is_unsampled = true;
            (
                tid,
                Slept {
                    since,
                    pid,
                    cpu,
                    is_unsampled,
                },
            )
        };
        Some(Self {
            whom,
            clock,
            events,
            encoder: SampleEncoder::new(&own.attr),
            event,
            id: own.ids.first().copied()?,
            registers: registers(&own.attr)?,
            asleep: threads.iter().map(slept).collect(),
            due: threads.iter().map(|&(_, tid)| (0, tid)).collect(),
            due_later: VecDeque::new(),
            is_thinned: false,
            sampled: FxHashSet::default(),
            for_mutex: FxHashSet::default(),
            mutex_seen: None,
            switch_seen: 0,
            stack: vec![0; MOST_STACK],
            rate: Rate::default(),
            read_also: None,
        })
    }

    /// Whose stacks it reads.
    pub(crate) fn whom(&self) -> Whom {
        self.whom
    }

    /// Reads more of each thread whose stack is read.
    pub(crate) fn reading_also(mut self, read_also: Option<ReadAlso>) -> Self {
        self.read_also = read_also;
        self
    }

    /// How long until threads that sleep are to be looked for; `None` if none are.
    pub(crate) fn look_in(&self) -> Option<Duration> {
        match self.due.is_empty() {
            false => Some(LOOK_EVERY),
            true => (!self.due_later.is_empty()).then_some(LOOK_LATER_EVERY),
        }
    }

    /// How long records may wait in their rings; `None` if it is all the same.
    pub(crate) fn patience(&self) -> Option<Duration> {
        let seen = self.mutex_seen;
        let is_soon = |seen: u64| self.switch_seen < seen.saturating_add(MUTEX_LASTS);
        match seen.is_some_and(is_soon) {
            true => Some(PATIENCE_FOR_HOLDERS),
            false => self.is_thinned.then_some(PATIENCE_FOR_LONG),
        }
    }

    /// Says whether the kernel samples but some leavings from now on: stacks of
    /// the others are read, if they sleep for long.
    pub(crate) fn thins(&mut self, is_thinned: bool) {
        self.is_thinned = is_thinned;
    }

    /// Takes down who sleeps and who does not any more, by whole records.
    pub(crate) fn note(&mut self, records: &[u8]) {
        rounds::each(records, |kind, record| match kind {
            RecordType::SAMPLE if self.whom == Whom::AtStart => _ = self.note_sample(record),
            _ => self.note_task(kind, record),
        });
    }

    /// Takes down who sleeps and who does not any more, by a record of a switch or
    /// the end of a thread; others tell nothing.
    pub(super) fn note_task(&mut self, kind: RecordType, record: &[u8]) {
        use RecordType as Type;
        if matches!(kind, Type::SWITCH | Type::SWITCH_CPU_WIDE | Type::EXIT) {
            self.note_switch(kind, record);
        }
    }

    /// Takes down whether a thread leaves its CPU as if to wait for a mutex. The
    /// kernel samples that just before it tells of the leaving.
    fn note_sample(&mut self, record: &[u8]) -> Option<()> {
        let view = Record::new(record, 0, &self.events)?;
        let event = view.event_index()?;
        if event != self.event {
            return None;
        }
        let sample = view.sample_of(self.events.get(event)?).ok()?;
        let tid = sample.tid()?;
        self.sampled.insert(tid);
        let registers = sample.regs_user()?;
        let arguments = registers
            .get(FIRST_ARGUMENT)
            .zip(registers.get(SECOND_ARGUMENT));
        let may_be = arguments.is_none_or(|(first, second)| may_be_arguments(first, second));
        match may_be {
            true => self.for_mutex.insert(tid),
            false => self.for_mutex.remove(&tid),
        };
        Some(())
    }

    fn note_switch(&mut self, kind: RecordType, record: &[u8]) -> Option<()> {
        let view = Record::new(record, 0, &self.events)?;
        let of = view.sample_id();
        let (tid, time) = (of.tid?, view.time()?);
        self.switch_seen = self.switch_seen.max(time);
        let is_for_mutex = self.for_mutex.remove(&tid);
        let is_unsampled = !self.sampled.remove(&tid);
        let is_later = self.is_thinned && self.whom == Whom::AtStart;
        let known = self.asleep.get(&tid).map_or(0, |slept| slept.since);
        if time < known {
            return None;
        }
        let sleeps = kind != RecordType::EXIT
            && view.misc.has(Misc::SWITCH_OUT)
            && !view.misc.has(Misc::SWITCH_OUT_PREEMPT);
        if !sleeps || (self.whom == Whom::AtStart && !is_for_mutex && !is_later) {
            self.asleep.remove(&tid);
            return None;
        }
        let slept = Slept {
            since: time,
            pid: of.pid.unwrap_or(-1),
            cpu: of.cpu.unwrap_or(0),
            is_unsampled,
        };
        self.asleep.insert(tid, slept);
        if is_later {
            self.due_later.push_back((time, tid));
        }
        if is_for_mutex || !is_later {
            self.due.push_back((time, tid));
        }
        Some(())
    }

    /// Reads the threads that have slept for long enough: each whose stack is
    /// wanted becomes a sample in `out`, each that waits for a mutex is told in
    /// `held`.
    pub(crate) fn read(&mut self, out: &mut Vec<u8>, held: &mut Vec<Held>) {
        let Ok(now) = clock::now(self.clock) else {
            return;
        };
        let soon = match self.whom == Whom::All && self.rate.is_low(now) {
            true => 0,
            false => SOON,
        };
        let mut due = std::mem::take(&mut self.due);
        self.read_due(&mut due, (now.saturating_sub(soon), false), (out, held));
        self.due = due;
        let mut due = std::mem::take(&mut self.due_later);
        self.read_due(&mut due, (now.saturating_sub(LATER), true), (out, held));
        self.due_later = due;
    }

    /// Reads those of `due` that sleep since `before`, ns, or longer; with the stacks of
    /// those of which the kernel gave them, too, if they were to be read later.
    fn read_due(
        &mut self,
        due: &mut VecDeque<(u64, i32)>,
        (before, is_later): (u64, bool),
        (out, held): (&mut Vec<u8>, &mut Vec<Held>),
    ) {
        let mut left = MOST_AT_ONCE;
        while let Some(&(since, tid)) = due.front() {
            let slept = self.asleep.get(&tid).copied();
            let slept = slept.filter(|slept| slept.since == since);
            if slept.is_some() && (since > before || left == 0) {
                return;
            }
            due.pop_front();
            if let Some(slept) = slept {
                left -= 1;
                self.rate.count += 1;
                let has_stack = self.whom == Whom::AtStart && !slept.is_unsampled;
                self.read_one((tid, is_later || !has_stack), slept, (out, held));
            }
        }
    }

    fn read_one(
        &mut self,
        (tid, wants_stack): (i32, bool),
        slept: Slept,
        (out, held): (&mut Vec<u8>, &mut Vec<Held>),
    ) -> Option<()> {
        let thread = u32::try_from(tid).ok()?;
        let began = clock::now(self.clock).ok()?;
        let told = fs::read_to_string(format!("/proc/{tid}/syscall")).ok()?;
        let blocked = Blocked::parse(&told)?;
        let asleep = Thread {
            pid: slept.pid,
            tid,
            cpu: slept.cpu,
        };
        if let Some(holder) = blocked.holder(asleep) {
            self.mutex_seen = Some(began);
            held.push(Held {
                from: began,
                until: clock::now(self.clock).ok()?,
                ..holder
            });
        }
        // Of others the kernel gave the stack.
        if !wants_stack {
            return None;
        }
        let read = process::read_memory(thread, blocked.sp, &mut self.stack).unwrap_or(0);
        if let Some(read_also) = &self.read_also {
            let end = blocked.sp.saturating_add((read & !7) as u64);
            read_also((slept.pid, tid), began, end);
        }
        let kind = blocked.kind(tid);
        let ended = clock::now(self.clock).ok()?;
        let word = WaitWord {
            state: WaitState::Blocked.code(),
            source: StackSource::Sleeping.code(),
            kind: kind.code(),
            syscall: blocked.syscall,
            ..WaitWord::default()
        };
        let values = self.values(&blocked);
        let fields = SampleFields {
            cpu_mode: CpuMode::User,
            id: self.id,
            ip: blocked.pc,
            pid: slept.pid.cast_unsigned(),
            tid: thread,
            time: began,
            addr: blocked.arguments[0],
            cpu: slept.cpu,
            // Until when it was read; the wait's own comes in its place.
            period: ended,
            regs_user: (REGISTERS_OF_64_BITS, &values),
            stack_user: self.stack.get(..read & !7)?,
            transaction: word.encode(),
            ..SampleFields::default()
        };
        self.encoder.encode(&fields, out).ok()
    }

    /// The registers as a sample has them: those that are not known are 0,
    /// where no stack is.
    fn values(&self, blocked: &Blocked) -> Vec<u64> {
        let bits = (0..64).filter(|bit| self.registers >> bit & 1 == 1);
        bits.map(|bit| match bit {
            STACK_POINTER => blocked.sp,
            PROGRAM_COUNTER => blocked.pc,
            FIRST_ARGUMENT => blocked.arguments[0],
            _ => 0,
        })
        .collect()
    }
}

/// How many are read.
#[derive(Debug, Default)]
struct Rate {
    /// When this began to be counted, ns.
    began: u64,
    count: u32,
    was_high: bool,
}

impl Rate {
    /// Whether few are read: in the time before this one, and so far in this.
    fn is_low(&mut self, now: u64) -> bool {
        let is_high = self.count > FEW;
        if now.saturating_sub(self.began) >= FEW_WITHIN {
            *self = Self {
                began: now,
                count: 0,
                was_high: is_high,
            };
        }
        !(is_high || self.was_high)
    }
}

/// `PERF_SAMPLE_REGS_ABI_64`.
const REGISTERS_OF_64_BITS: u64 = 2;
/// The kernel's numbers of registers in samples (`asm/perf_regs.h`).
#[cfg(target_arch = "aarch64")]
const STACK_POINTER: u32 = 31;
#[cfg(target_arch = "aarch64")]
const PROGRAM_COUNTER: u32 = 32;
/// That of the first argument of system calls, which they do not change.
#[cfg(target_arch = "aarch64")]
pub(crate) const FIRST_ARGUMENT: u32 = 0;
#[cfg(target_arch = "aarch64")]
const SECOND_ARGUMENT: u32 = 1;
#[cfg(not(target_arch = "aarch64"))]
const STACK_POINTER: u32 = 7;
#[cfg(not(target_arch = "aarch64"))]
const PROGRAM_COUNTER: u32 = 8;
/// That of the first argument of system calls, which they do not change.
#[cfg(not(target_arch = "aarch64"))]
pub(crate) const FIRST_ARGUMENT: u32 = 5;
#[cfg(not(target_arch = "aarch64"))]
const SECOND_ARGUMENT: u32 = 4;

/// The registers of the event's samples; `None` if they are not for unwinding.
fn registers(attr: &EventAttr) -> Option<u64> {
    let needed = 1 << STACK_POINTER | 1 << PROGRAM_COUNTER;
    let has_stack = attr.sample_stack_user > 0 && attr.sample_regs_user & needed == needed;
    has_stack.then_some(attr.sample_regs_user)
}

#[cfg(test)]
mod tests {
    use super::{FIRST_ARGUMENT, REGISTERS_OF_64_BITS, SECOND_ARGUMENT};
    use super::{Sleepers, Whom};
    use crate::registers::all_registers;
    use prof_abi::{AttrFlags, EventAttr, SampleType};
    use prof_perfdata::OFF_CPU_EVENT;
    use prof_perfdata::write::{EventDescription, SampleEncoder, SampleFields};

    fn description() -> EventDescription {
        let attr = EventAttr {
            sample_type: SampleType::IDENTIFIER
                | SampleType::TID
                | SampleType::TIME
                | SampleType::REGS_USER
                | SampleType::STACK_USER,
            sample_regs_user: all_registers(),
            sample_stack_user: 8,
            flags: AttrFlags::default().with(AttrFlags::SAMPLE_ID_ALL),
            ..EventAttr::default()
        };
        let (ids, name) = (vec![5], OFF_CPU_EVENT.to_owned());
        EventDescription { attr, ids, name }
    }

    /// A thread leaves its CPU at `time` within a call with these arguments: the
    /// sample of it, then the switch record.
    fn leaving(tid: u32, time: u64, arguments: (u64, u64)) -> Vec<u8> {
        let bits = (0..64).filter(|bit| all_registers() >> bit & 1 == 1);
        let values: Vec<u64> = bits
            .map(|bit| match bit {
                FIRST_ARGUMENT => arguments.0,
                SECOND_ARGUMENT => arguments.1,
                _ => 0,
            })
            .collect();
        let fields = SampleFields {
            id: 5,
            pid: 7,
            tid,
            time: time - 1,
            regs_user: (REGISTERS_OF_64_BITS, &values),
            ..SampleFields::default()
        };
        let mut records = Vec::new();
        let encoder = SampleEncoder::new(&description().attr);
        encoder.encode(&fields, &mut records).expect("it fits");
        // PERF_RECORD_SWITCH, out, 32 bytes; then pid, tid, time, id.
        records.extend(14_u32.to_ne_bytes());
        records.extend((1_u16 << 13).to_ne_bytes());
        records.extend(32_u16.to_ne_bytes());
        records.extend(7_u32.to_ne_bytes());
        records.extend(tid.to_ne_bytes());
        records.extend(time.to_ne_bytes());
        records.extend(5_u64.to_ne_bytes());
        records
    }

    #[test]
    fn of_threads_that_the_kernel_samples_those_that_may_want_a_mutex_are_read() {
        let new = |whom| Sleepers::new(whom, 1, &[description()], &[]).expect("sleepers");
        let records: Vec<u8> = [
            leaving(10, 100, (0x7f01_0000, 0x80)),
            leaving(11, 110, (3, 0x7f02_0000)),
            leaving(12, 120, (0x7f01_0000, 0x80)),
            // It runs into another wait before the first was read.
            leaving(12, 130, (1, 0)),
        ]
        .concat();
        let mut some = new(Whom::AtStart);
        assert_eq!(some.look_in(), None);
        some.note(&records);
        assert_eq!(some.due, [(100, 10), (120, 12)]);
        let asleep: Vec<i32> = some.asleep.keys().copied().collect();
        assert_eq!(asleep, [10]);
        assert!(some.for_mutex.is_empty());
        let mut all = new(Whom::All);
        all.note(&records);
        assert_eq!(all.due.len(), 4);
    }

    #[test]
    fn where_some_leavings_are_sampled_all_threads_that_sleep_for_long_are_read() {
        let mut sleepers =
            Sleepers::new(Whom::AtStart, 1, &[description()], &[]).expect("sleepers");
        // Without the samples, which come before the switch records.
        let unsampled = |tid, time| {
            let records = leaving(tid, time, (3, 0));
            records[records.len() - 32..].to_vec()
        };
        sleepers.note(&unsampled(10, 100));
        assert!(sleepers.due_later.is_empty());
        sleepers.thins(true);
        assert_eq!(sleepers.patience(), Some(super::PATIENCE_FOR_LONG));
        sleepers.note(&unsampled(11, 110));
        sleepers.note(&leaving(12, 120, (3, 0)));
        // Whether it could be read is known of those whose leaving was chosen, too.
        assert_eq!(sleepers.due_later, [(110, 11), (120, 12)]);
        assert!(sleepers.due.is_empty() && sleepers.sampled.is_empty());
        assert_eq!(sleepers.look_in(), Some(super::LOOK_LATER_EVERY));
        let is_unsampled = |tid: i32| sleepers.asleep.get(&tid).map(|it| it.is_unsampled);
        assert_eq!([11, 12].map(is_unsampled), [Some(true), Some(false)]);
        // One that may want a mutex is looked at soon as well.
        sleepers.note(&leaving(13, 130, (0x7f01_0000, 0x80)));
        assert_eq!(sleepers.due, [(130, 13)]);
        assert_eq!(sleepers.due_later.len(), 3);
    }

    #[test]
    fn records_are_read_early_for_a_second_after_a_mutex_was_held() {
        let sleepers = Sleepers::new(Whom::AtStart, 1, &[description()], &[]);
        let mut sleepers = sleepers.expect("sleepers");
        assert_eq!(sleepers.patience(), None);
        sleepers.mutex_seen = Some(50);
        sleepers.note(&leaving(10, 1_000_000_049, (3, 0)));
        assert_eq!(sleepers.patience(), Some(super::PATIENCE_FOR_HOLDERS));
        sleepers.note(&leaving(10, 1_000_000_050, (3, 0)));
        assert_eq!(sleepers.patience(), None);
    }
}

//! The threads that read what lies above the copied pieces.

use super::leavers::{found, tid_at};
use super::left::{Found, Left, Promptness, Switch};
use super::pieces::{RESULT, STACK_POINTER, copied_until, read_pieces};
use super::{AT_FIRST, CLOCK_SKEW, DeepStacks, LONGEST_IDLE, LOOK_UP, MOST_OF_NEW, is_stack_only};
use crate::allowance::Allowance;
use crate::drain::Shared;
use crate::peeking::each_record;
use prof_abi::{ByteOrder, RecordType};
use prof_live::{MemorySnapshot, WantedMemory};
use prof_perfdata::{Record, Registers, Sample};
use prof_sys::prompt::{SampleSignals, run_on};
use prof_sys::{Event, PollSet, RingView, Waker, clock, process};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Registers, by perf's numbers, and where a copied piece of stack ends.
type Leaving = (Vec<(u32, u64)>, Option<u64>);

/// Reads for the samples of one CPU.
pub(crate) struct Reader<'a> {
    pub(super) deep: &'a DeepStacks<'a>,
    pub(super) waker: Arc<Waker>,
    pub(super) cpu: u32,
    /// The sampling events of this CPU.
    pub(super) events: Vec<&'a Event>,
    pub(super) shared: &'a Shared,
    /// All rings; `own` is that of this CPU.
    pub(super) rings: &'a [RingView],
    pub(super) own: usize,
    /// How far each ring was looked through.
    pub(super) at: Vec<u64>,
    pub(super) scratch: Vec<u8>,
    /// What is in place of a copied piece.
    pub(super) now: Vec<u8>,
    /// How soon threads leave after their samples.
    pub(super) promptness: Promptness,
    pub(super) allowance: Allowance,
    /// What of it may go to threads of which stacks alone are wanted, and what
    /// went to them.
    pub(super) of_stacks: Allowance,
    pub(super) on_stacks: Duration,
}

impl Reader<'_> {
    /// Runs until `stop` is up and the waker is woken.
    pub(crate) fn run(mut self, stop: &AtomicBool) {
        let Ok(signals) = SampleSignals::new() else {
            return;
        };
        if run_on(self.cpu).is_err() {
            return;
        }
        let mut idle = PollSet::default();
        idle.add(self.waker.as_fd());
        // ORDERING: Acquire, partner is the Release that raises the flag.
        while !stop.load(Ordering::Acquire) {
            let pause = match self.deep.orders.is_active() {
                true => self.read_while_allowed(&signals, stop),
                // The end is not missed even if nothing wakes us.
                false => Some(LONGEST_IDLE),
            };
            if let Some(pause) = pause {
                if idle.wait(Some(pause)).is_err() {
                    return;
                }
                self.waker.clear();
            }
        }
    }

    /// Reads until there is nothing to read, or for as long as it may; then
    /// says for how long not to: to be woken by each sample costs as much as
    /// reading.
    fn read_while_allowed(
        &mut self,
        signals: &SampleSignals,
        stop: &AtomicBool,
    ) -> Option<Duration> {
        self.deep.begin();
        for event in &self.events {
            // Fails only for a task that has ended.
            let _ = signals.begin(event);
        }
        self.skip_to_heads();
        let mut pause = None;
        while self.deep.orders.is_active() && !stop.load(Ordering::Acquire) && pause.is_none() {
            if signals.wait(LOOK_UP) {
                self.deep.orders.begin();
                self.read_for_newest();
                self.deep.orders.done();
                // While this thread slept in the reading, samples came to
                // which it could not come in time.
                while signals.wait(Duration::ZERO) {}
                self.skip_to_heads();
            }
            let used = clock::own_thread_cpu_time();
            self.allowance.set_share(self.deep.share_now());
            pause = self.allowance.pause(Instant::now(), used);
        }
        for event in &self.events {
            let _ = signals.end(event);
        }
        self.deep.end();
        // Up to 64 KiB each, and there is such a thread for each CPU.
        (self.scratch, self.now) = (Vec::new(), Vec::new());
        pause
    }

    fn skip_to_heads(&mut self) {
        for (at, ring) in self.at.iter_mut().zip(self.rings) {
            *at = ring.head();
        }
    }

    /// Reads for the newest sample of this CPU, if its thread is wanted.
    fn read_for_newest(&mut self) {
        if self.is_pressed() || !self.deep.orders.has_room() {
            self.skip_to_heads();
            return;
        }
        if let Some(snapshot) = self.snapshot()
            && self.deep.orders.add(snapshot)
        {
            self.shared.drainer.wake();
        }
    }

    /// Whether whoever takes the records comes late: what is read makes it
    /// later still, and samples may get lost.
    fn is_pressed(&self) -> bool {
        let own = self.rings.get(self.own);
        let is_filling = own.is_some_and(|ring| ring.waiting() > ring.size() / 2);
        is_filling || self.shared.is_pressed()
    }

    fn snapshot(&mut self) -> Option<MemorySnapshot> {
        for (at, ring) in self.at.iter_mut().zip(self.rings) {
            // What was drained long ago tells of what was before the sample.
            if !ring.remembers(*at) {
                *at = ring.tail();
            }
        }
        let (sample, left) = self.newest_sample()?;
        let wanted = self.deep.orders.wanted_of_any(sample.tid)?;
        if !is_stack_only(&wanted) {
            return self.read(&sample, &left, &wanted);
        }
        let pause = self.of_stacks.pause(Instant::now(), self.on_stacks);
        pause.is_none().then_some(())?;
        let before = clock::own_thread_cpu_time();
        let snapshot = self.read(&sample, &left, &wanted);
        self.on_stacks += clock::own_thread_cpu_time().saturating_sub(before);
        snapshot
    }

    /// Reads this memory for a sample, or the stack above the copied piece if there
    /// is none, if its thread left so and stays away.
    fn read(
        &mut self,
        sample: &Found,
        left: &Left,
        wanted: &WantedMemory,
    ) -> Option<MemorySnapshot> {
        let Some((copied_until, left_until)) = self.unmoved_until(sample, left) else {
            if wanted.ranges.is_empty() {
                self.make_present(sample);
            }
            return None;
        };
        let deep = self.deep;
        let grown = |old, length| deep.orders.grown(old, length);
        let stack = 0..copied_until.saturating_add(MOST_OF_NEW);
        let of_new = WantedMemory {
            ranges: [stack].into(),
            ..WantedMemory::default()
        };
        let wanted = match wanted.ranges.is_empty() {
            true => &of_new,
            false => wanted,
        };
        let now = std::mem::take(&mut self.now);
        let copied_from = copied_until.saturating_sub(now.len() as u64);
        let mut stays = || self.stayed_away(sample.tid, left.time);
        let pieces = read_pieces(sample.pid, (copied_from, &now), wanted, grown, &mut stays);
        let has_stayed = stays();
        let [mut pieces, unsure] = pieces.if_stayed(has_stayed);
        deep.orders.give_back([unsure]);
        self.now = now;
        let is_good = !pieces.is_empty();
        if is_good && let Some(until) = left_until {
            pieces.splice(..0, self.copied_from(until, copied_until));
        }
        let left_at = left_until.map(|_| left.time);
        deep.orders.snapshot(sample, pieces, (is_good, left_at))
    }

    /// Reads what lies above the copied piece of a new thread's stack, for nothing but to
    /// have it read: the kernel copies no further than to a page that was never touched,
    /// as large frames have them (HotSpot's `Threads::create_vm`), and such pages are
    /// present from then on.
    fn make_present(&mut self, sample: &Found) -> Option<()> {
        let ring = self.rings.get(self.own)?;
        if !ring.peek(sample.at, sample.size, &mut self.scratch) {
            return None;
        }
        let record = Record::new(&self.scratch, 0, &self.deep.layouts)?;
        let event = record.event()?;
        let view = Sample::new(record.bytes, &event.layout, ByteOrder::NATIVE).ok()?;
        let sp = view.regs_user()?.get(STACK_POINTER)?;
        let copied = view.stack_user()?.len() as u64;
        // Else nothing kept it from copying more.
        (copied < event.attr.sample_stack_user.into()).then_some(())?;
        let end = sp.checked_add(copied)?;
        self.now.resize(AT_FIRST, 0);
        let pid = u32::try_from(sample.pid).ok()?;
        process::read_memory(pid, end, &mut self.now).ok()?;
        Some(())
    }

    /// What was copied with the sample, from an address on.
    fn copied_from(&self, from: u64, copied_until: u64) -> Option<(u64, Vec<u8>)> {
        let length = usize::try_from(copied_until.checked_sub(from)?).ok()?;
        let bytes = self.now.get(self.now.len().checked_sub(length)?..)?;
        (length > 0).then(|| {
            let mut buffer = self.deep.orders.grown(None, length);
            buffer.extend_from_slice(bytes);
            (from, buffer)
        })
    }

    /// The newest sample of the CPU, and what the witness told when its thread
    /// then left.
    fn newest_sample(&mut self) -> Option<(Found, Left)> {
        let deep = self.deep;
        let tid_at = tid_at(&deep.layouts.list().first()?.attr);
        let waits = deep.waits.as_ref();
        let tells_registers = match deep.witness {
            Some(witness) => witness.tells_registers(),
            None => waits.is_some(),
        };
        let mut newest: Option<Found> = None;
        let mut left: Option<Left> = None;
        let saw_all = self.look_through(self.own, |at, size, record| {
            let order = ByteOrder::NATIVE;
            if RecordType(order.u32(record, 0).unwrap_or(0)) == RecordType::SAMPLE {
                let is_leaving = deep.witness_samples.is(size, record)
                    || waits.is_some_and(|waits| waits.is(record));
                match (is_leaving, found((at, size), record, tid_at), newest) {
                    (false, found, _) => (newest, left) = (found, None),
                    (true, Some(found), Some(sample)) if sample.tid == found.tid => {
                        left = Some(Left {
                            time: found.time,
                            registers: Some((found.at, found.size)),
                        });
                    }
                    _ => {}
                }
            } else if let (Some(switch), Some(sample)) = (Switch::of(record), newest)
                && switch.tid == sample.tid
            {
                match (switch.is_out, tells_registers) {
                    // Of waits the kernel may sample some.
                    (true, true) if waits.is_some() => left = left.or_else(|| switch.left()),
                    (true, true) => {}
                    (true, false) => left = switch.left(),
                    // It ran again.
                    (false, true) => left = None,
                    (false, false) => (newest, left) = (None, None),
                }
            }
        });
        saw_all.then_some((newest?, left?))
    }

    /// Hands position, size and the first bytes of each new record to `each`.
    /// False if not all could be seen: the draining thread was faster.
    fn look_through(&mut self, ring: usize, mut each: impl FnMut(u64, usize, &[u8])) -> bool {
        let (Some(at), Some(ring)) = (self.at.get_mut(ring), self.rings.get(ring)) else {
            return false;
        };
        each_record(ring, at, &mut self.scratch, &mut each)
    }

    /// Where the copied piece of the stack ends, and that of the sample of a wait
    /// that begins there; `None` unless the thread left the CPU as the sample found
    /// it: with the same registers or at once, and what was copied with the sample is
    /// what is there.
    fn unmoved_until(&mut self, sample: &Found, left: &Left) -> Option<(u64, Option<u64>)> {
        let mut left_until = None;
        let then = match left.registers {
            Some(place) => {
                let (registers, until) = self.leaving_at(place)?;
                left_until = until;
                Some(registers)
            }
            None => {
                let after = left.time.checked_sub(sample.time)?;
                self.promptness.is_at_once(after).then_some(())?;
                None
            }
        };
        let ring = self.rings.get(self.own)?;
        if !ring.peek(sample.at, sample.size, &mut self.scratch) {
            return None;
        }
        let record = Record::new(&self.scratch, 0, &self.deep.layouts)?;
        let is_same = |registers: &Registers<'_>, &(number, value): &(u32, u64)| {
            // A system call that was sampled has returned since.
            number == RESULT || registers.get(number) == Some(value)
        };
        let is_as_then = |registers: &Registers<'_>| {
            then.as_ref().is_none_or(|then| {
                !then.is_empty() && then.iter().all(|one| is_same(registers, one))
            })
        };
        let copied_until = copied_until(&record, &self.deep.starts, is_as_then, &mut self.now)?;
        Some((copied_until, left_until))
    }

    /// The registers, by perf's numbers, of a sample of leaving, and where the piece
    /// of the stack ends that was copied with it, if it is that of a wait.
    fn leaving_at(&mut self, (at, size): (u64, usize)) -> Option<Leaving> {
        if !self.rings.get(self.own)?.peek(at, size, &mut self.scratch) {
            return None;
        }
        let layout = &self.deep.layouts.list().get(self.deep.leaving)?.layout;
        let view = Sample::new(&self.scratch, layout, ByteOrder::NATIVE).ok()?;
        let registers = view.regs_user()?;
        let copied = view.stack_user().filter(|_| self.deep.waits.is_some());
        let until = copied.zip(registers.get(STACK_POINTER));
        let until = until.map(|(bytes, sp)| sp.saturating_add(bytes.len() as u64));
        Some((registers.iter().collect(), until))
    }

    /// Whether no ring tells that the thread ran again since `left_at`.
    fn stayed_away(&mut self, tid: i32, left_at: u64) -> bool {
        (0..self.rings.len()).all(|ring| {
            let mut is_away = true;
            let saw_all = self.look_through(ring, |_, _, record| {
                if let Some(switch) = Switch::of(record) {
                    let is_before = switch.time < left_at.saturating_sub(CLOCK_SKEW);
                    is_away &= switch.is_out || switch.tid != tid || is_before;
                }
            });
            saw_all && is_away
        })
    }
}

//! Stacks deeper than a sample can copy, read while the thread stands still.
//!
//! One thread per CPU is woken by each sample there, before the sampled
//! thread goes on, and reads what the unwinder wants of that thread's memory
//! beyond the copied piece. What it read is of the time of the sample if the
//! thread did not run in between, and that is shown: an event of its own, the
//! witness, tells with which registers the thread left the CPU, and they are
//! those of the sample; the piece that was copied with the sample is still
//! there; and at the end of the reading no ring tells that it came back.
//!
//! Who may not see the kernel gets no registers with a switch, only its time.
//! Then the thread must have left about as soon after the sample as it can: as
//! it does where the interrupt that sampled it ends in the switch (see
//! [`Promptness`]).
//!
//! Where waits are recorded, their event is the witness: it samples each leaving
//! with its registers, or some of them, chosen by the kernel; after others only
//! the time is told. A thread that waits stands still, too, so that nobody has to
//! be woken to read its memory (see [`WaitReader`]).
//!
//! Nobody is woken, and the witness is off, while the unwinder wants nothing.

mod leavers;
mod left;
mod newcomers;
mod pieces;
mod reader;
mod waiting;

use self::leavers::OfWaits;
use self::left::{Found, Promptness};
use self::newcomers::Newcomers;
use self::pieces::read_pieces;
pub(crate) use self::reader::Reader;
pub(crate) use self::waiting::WaitReader;
use crate::allowance::Allowance;
use crate::drain::Shared;
use crate::open::{Descriptor, OpenEvent, Witness};
use crate::waits;
use crate::witness::WitnessSamples;
use prof_abi::ByteOrder;
use prof_live::{MemorySnapshot, Spares, StackStarts, WantedMemory};
use prof_perfdata::write::EventDescription;
use prof_perfdata::{Event as EventLayout, Events};
use prof_sys::{Event, RingView, Waker};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// An idle reader looks whether all has ended at least this often.
const LONGEST_IDLE: Duration = Duration::from_secs(1);

/// Most bytes read for one sample: a whole stack of usual size.
const MOST_BYTES: u64 = 8 << 20;
/// Most of them of a new thread, of which nothing is known.
const MOST_OF_NEW: u64 = 1 << 20;
/// So many of a range are read first; more, by and by, while all of it is there.
const AT_FIRST: usize = 64 << 10;
/// Most bytes of snapshots that are with the unwinder or wait for it, and of
/// buffers kept for reuse.
const MOST_OUT: usize = 16 << 20;
/// Buffers of fewer bytes are made anew: those that are kept are for stacks.
const SMALL: usize = 1024;
/// At so many bytes the unwinder is to look at them soon.
const MANY_OUT: usize = MOST_OUT / 4;
/// The clocks of two CPUs differ by less, ns.
const CLOCK_SKEW: u64 = 1_000_000;
/// Share of the time that a reader may take: one in so many.
pub(crate) const SHARE_OF_TARGET: u32 = 5;
/// The same where all that runs is recorded, each thread with a deep stack: on
/// a busy machine there is no end of them, and reading takes CPUs from them.
pub(crate) const SHARE_OF_SYSTEM: u32 = 400;
/// The same while the functions of a runtime are wanted: those of Python are a
/// few hundred bytes a sample, and without them it shows its interpreter only.
const SHARE_OF_RUNTIMES: u32 = 25;
/// How long the unwinder waits at most for what is just being read, and how long
/// at a time.
const LONGEST_WAIT: Duration = Duration::from_millis(3);
const SHORT_WAIT: Duration = Duration::from_micros(50);
/// How long a reader waits for a sample before it looks at its orders.
const LOOK_UP: Duration = Duration::from_millis(20);

/// Between the unwinder, which says what it wants, and the readers.
#[derive(Debug, Default)]
pub(crate) struct Snapshots {
    /// By thread.
    wanted: Mutex<HashMap<i32, WantedMemory>>,
    newcomers: Mutex<Newcomers>,
    is_active: AtomicBool,
    /// Whether anything but stacks is wanted.
    wants_more: AtomicBool,
    /// Readers that are at it.
    busy: AtomicUsize,
    taken: Mutex<Taken>,
    wakers: Mutex<Vec<Arc<Waker>>>,
}

#[derive(Debug)]
struct Taken {
    list: Vec<MemorySnapshot>,
    /// Bytes that were handed out as buffers and did not come back.
    out: usize,
    /// Buffers to be used again: fresh memory costs as much as reading.
    spare: Spares,
}

impl Default for Taken {
    fn default() -> Self {
        Self {
            list: Vec::new(),
            out: 0,
            spare: Spares::new(usize::MAX, MOST_OUT),
        }
    }
}

/// Whether this memory of a thread is of its stack alone.
fn is_stack_only(wanted: &WantedMemory) -> bool {
    wanted.ranges.len() <= 1
}

/// A lock that a panic elsewhere does not take along.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Snapshots {
    /// From now on reads this memory of these threads with each sample, if
    /// it can; of the first range only what is above the copied piece. Of other
    /// threads it reads the stacks of their first samples, if new ones are wanted.
    pub(crate) fn want(&self, wanted: HashMap<i32, WantedMemory>, are_new_wanted: bool) {
        let is_active = !wanted.is_empty() || are_new_wanted;
        let wants_more = wanted.values().any(|it| !is_stack_only(it));
        // ORDERING: Relaxed; it only says how much time reading may take.
        self.wants_more.store(wants_more, Ordering::Relaxed);
        *locked(&self.wanted) = wanted;
        locked(&self.newcomers).want(are_new_wanted);
        // ORDERING: Release, partner is the Acquire in `is_active`.
        if self.is_active.swap(is_active, Ordering::Release) != is_active {
            self.wake_all();
        }
    }

    /// What was read since the last call. Waits for those that are just being
    /// read: their samples may have come already.
    pub(crate) fn take(&self) -> Vec<MemorySnapshot> {
        let began = Instant::now();
        // ORDERING: Acquire, partner is the Release in `done`.
        while self.busy.load(Ordering::Acquire) > 0 && began.elapsed() < LONGEST_WAIT {
            std::thread::sleep(SHORT_WAIT);
        }
        std::mem::take(&mut locked(&self.taken).list)
    }

    /// Takes pieces back that are no longer needed.
    pub(crate) fn give_back(&self, pieces: impl IntoIterator<Item = Vec<(u64, Vec<u8>)>>) {
        let mut taken = locked(&self.taken);
        for (_, buffer) in pieces.into_iter().flatten() {
            let size = buffer.capacity();
            taken.out = taken.out.saturating_sub(size);
            if size >= SMALL && taken.out + taken.spare.bytes() + size <= MOST_OUT {
                taken.spare.give_back(buffer);
            }
        }
    }

    /// Frees the buffers that wait for use.
    pub(crate) fn give_up_spares(&self) {
        locked(&self.taken).spare.give_up();
    }

    /// An empty buffer with room for so much, or a buffer that is out already
    /// with room for so much in all.
    fn grown(&self, buffer: Option<Vec<u8>>, length: usize) -> Vec<u8> {
        let counted = buffer.as_ref().map_or(0, Vec::capacity);
        let spare = || match length < SMALL {
            true => Vec::new(),
            false => locked(&self.taken).spare.take(),
        };
        let mut buffer = buffer.unwrap_or_else(spare);
        buffer.reserve_exact(length.saturating_sub(buffer.len()));
        locked(&self.taken).out += buffer.capacity().saturating_sub(counted);
        buffer
    }

    /// Lets readers that wait look at their orders.
    pub(crate) fn wake_all(&self) {
        for waker in locked(&self.wakers).iter() {
            waker.wake();
        }
    }

    /// Whether anything is wanted.
    pub(crate) fn is_active(&self) -> bool {
        // ORDERING: Acquire, partner is the Release in `want`.
        self.is_active.load(Ordering::Acquire)
    }

    /// A reader begins to read.
    fn begin(&self) {
        // ORDERING: Relaxed; whoever misses it misses one snapshot.
        self.busy.fetch_add(1, Ordering::Relaxed);
    }

    /// It has added what it read.
    fn done(&self) {
        // ORDERING: Release, partner is the Acquire in `take`.
        self.busy.fetch_sub(1, Ordering::Release);
    }

    fn wanted_of(&self, tid: i32) -> Option<WantedMemory> {
        locked(&self.wanted).get(&tid).cloned()
    }

    /// The same; nothing if the thread is new, and its stack is wanted therefore.
    fn wanted_of_any(&self, tid: i32) -> Option<WantedMemory> {
        let is_wanted = || locked(&self.newcomers).wants(tid);
        let of_new = || is_wanted().then(WantedMemory::default);
        self.wanted_of(tid).or_else(of_new)
    }

    /// What was read for a sample, and for that of its leaving at a time if one is
    /// given, if it is good; else the buffers are taken back.
    fn snapshot(
        &self,
        sample: &Found,
        pieces: Vec<(u64, Vec<u8>)>,
        (is_good, left_at): (bool, Option<u64>),
    ) -> Option<MemorySnapshot> {
        if !is_good {
            self.give_back([pieces]);
            return None;
        }
        Some(MemorySnapshot {
            tid: sample.tid,
            time: sample.time,
            left_at,
            pieces,
        })
    }

    /// Reads what is wanted of a thread that sleeps, for the sample of it at
    /// `time`, ns, with the stack below `copied_until`. It is of the time of the
    /// sample if the thread sleeps until this is done.
    pub(crate) fn read_asleep(&self, (pid, tid): (i32, i32), time: u64, copied_until: u64) {
        let Some(wanted) = self.wanted_of(tid).filter(|_| self.has_room()) else {
            return;
        };
        let grown = |old, length| self.grown(old, length);
        let pieces = read_pieces(pid, (copied_until, &[]), &wanted, grown, || true);
        self.add(MemorySnapshot {
            tid,
            time,
            left_at: None,
            pieces: pieces.read,
        });
    }

    fn has_room(&self) -> bool {
        locked(&self.taken).out < MOST_OUT
    }

    /// Adds one; whether there are many now.
    fn add(&self, snapshot: MemorySnapshot) -> bool {
        let mut taken = locked(&self.taken);
        taken.list.push(snapshot);
        taken.out >= MANY_OUT
    }
}

/// The reading of deep stacks: what is wanted, and the witness, which is on
/// while any reader reads.
pub(crate) struct DeepStacks<'a> {
    /// `None` where the event of waits serves.
    witness: Option<&'a Witness>,
    witness_samples: WitnessSamples,
    /// The event of waits, where the kernel samples leavings for it.
    waits: Option<OfWaits>,
    /// Which of `layouts` tells with which registers threads leave.
    leaving: usize,
    /// The sampled events, then the witness.
    layouts: Events,
    orders: Arc<Snapshots>,
    /// Where stacks start, as the unwinder tells.
    starts: Arc<StackStarts>,
    readers: Mutex<usize>,
    /// Share of the time that each of them may take: one in so many.
    share: u32,
}

impl<'a> DeepStacks<'a> {
    /// For samples of these events, as they were opened; without a witness of
    /// its own where one of them is that of waits.
    pub(crate) fn new(
        witness: Option<&'a Witness>,
        opened: &[EventDescription],
        share: u32,
    ) -> Self {
        let mut layouts = Events::new(ByteOrder::NATIVE);
        for event in opened {
            layouts.push(EventLayout::new(event.attr.clone(), event.ids.clone()));
        }
        let samples_leaving = |event: &&EventDescription| {
            waits::is_of_waits(&event.name) && waits::has_stacks(&event.attr)
        };
        let of_waits = opened.iter().find(samples_leaving);
        let mut leaving = opened.iter().position(|event| samples_leaving(&event));
        if let Some(witness) = witness {
            layouts.push(EventLayout::new(witness.attr.clone(), witness.ids()));
            leaving = Some(opened.len());
        }
        let samples = |it: &Witness| WitnessSamples::new(&it.attr, it.ids(), opened);
        Self {
            witness_samples: witness.map(samples).unwrap_or_default(),
            witness,
            waits: of_waits.map(|event| OfWaits::new(&event.attr, event.ids.clone())),
            leaving: leaving.unwrap_or(usize::MAX),
            layouts,
            orders: Arc::default(),
            starts: Arc::default(),
            share,
            readers: Mutex::new(0),
        }
    }

    /// Of threads of which these starts are known, what lies above may change.
    pub(crate) fn with_starts(mut self, starts: Arc<StackStarts>) -> Self {
        self.starts = starts;
        self
    }

    /// Whether the event of waits is the witness.
    pub(crate) fn is_of_waits(&self) -> bool {
        self.witness.is_none()
    }

    /// Where the unwinder orders memory and gets it.
    pub(crate) fn orders(&self) -> Arc<Snapshots> {
        self.orders.clone()
    }

    /// One reader for each ring, that is for each CPU; none where rings belong
    /// to threads.
    pub(crate) fn readers<'b>(
        &'b self,
        rings: &'b [RingView],
        events: &'b [OpenEvent],
        shared: &'b Shared,
    ) -> Vec<Reader<'b>> {
        let one = |own: usize| {
            let of_ring = |open: &&Descriptor| open.ring == own;
            let mut of_cpu = events.iter().flat_map(|event| &event.descriptors);
            let cpu = of_cpu.find(of_ring)?.cpu?;
            // Waits are many, and who waits stays where it is.
            let sampled = events
                .iter()
                .filter(|event| !waits::is_of_waits(&event.planned.name));
            let sampled = sampled.flat_map(|event| &event.descriptors).filter(of_ring);
            let waker = Arc::new(Waker::new().ok()?);
            locked(&self.orders.wakers).push(waker.clone());
            Some(Reader {
                deep: self,
                waker,
                cpu,
                events: sampled.map(|open| &open.event).collect(),
                shared,
                rings,
                own,
                at: vec![0; rings.len()],
                scratch: Vec::new(),
                now: Vec::new(),
                promptness: Promptness::default(),
                allowance: Allowance::new(self.share, Instant::now()),
                of_stacks: Allowance::new(self.share, Instant::now()),
                on_stacks: Duration::ZERO,
            })
        };
        (0..rings.len()).filter_map(one).collect()
    }

    /// Lets readers that wait look whether all has ended.
    pub(crate) fn wake_all(&self) {
        self.orders.wake_all();
    }

    /// Share of the time that each reader may take now: one in so many.
    fn share_now(&self) -> u32 {
        // ORDERING: Relaxed, as where it is stored.
        match self.orders.wants_more.load(Ordering::Relaxed) {
            true => self.share.min(SHARE_OF_RUNTIMES),
            false => self.share,
        }
    }

    /// A reader begins: from now on all switches are told of.
    fn begin(&self) {
        let mut readers = locked(&self.readers);
        *readers += 1;
        if *readers == 1 {
            self.each(Event::enable);
        }
    }

    fn end(&self) {
        let mut readers = locked(&self.readers);
        *readers -= 1;
        if *readers == 0 {
            self.each(Event::disable);
        }
    }

    fn each(&self, what: fn(&Event) -> std::io::Result<()>) {
        for open in self.witness.iter().flat_map(|it| &it.descriptors) {
            // Fails only for a task that has ended.
            let _ = what(&open.event);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{MemorySnapshot, Snapshots, WantedMemory, locked, read_pieces};
    use prof_live::LinkedList;
    use std::collections::HashMap;
    use std::ops::Range;

    fn of_stack(range: Range<u64>) -> WantedMemory {
        WantedMemory {
            ranges: vec![range],
            ..WantedMemory::default()
        }
    }

    fn read_all(pid: i32, copied: (u64, &[u8]), wanted: &WantedMemory) -> Vec<(u64, Vec<u8>)> {
        let new = |old: Option<Vec<u8>>, _| old.unwrap_or_default();
        read_pieces(pid, copied, wanted, new, || true).read
    }

    #[test]
    fn what_lies_above_the_copied_piece_is_read() {
        let values = [1_u64, 2, 3, 4];
        let start = values.as_ptr() as u64;
        let pid = std::process::id() as i32;
        let wanted = WantedMemory {
            ranges: vec![start..start + 32, start..start + 8],
            ..WantedMemory::default()
        };
        let pieces = read_all(pid, (start + 8, &[]), &wanted);
        if pieces.is_empty() {
            println!("skipped: process_vm_readv is not permitted");
            return;
        }
        let bytes = |values: &[u64]| -> Vec<u8> {
            values
                .iter()
                .flat_map(|value| value.to_ne_bytes())
                .collect()
        };
        assert_eq!(
            pieces,
            [(start + 8, bytes(&[2, 3, 4])), (start, bytes(&[1]))]
        );
        assert!(read_all(-1, (0, &[]), &of_stack(0..8)).is_empty());
        // Longer than what is read first, and nearly as long as a stack may usually be.
        for length in [300_000, 8_300_000_u32] {
            let long: Vec<u8> = (0..length).map(|at| (at / 7) as u8).collect();
            let start = long.as_ptr() as u64;
            let range = start..start + long.len() as u64;
            let read = read_all(pid, (start, &[]), &of_stack(range));
            assert!(read == [(start, long)], "{length}");
        }
    }

    #[test]
    fn what_a_word_points_to_is_read_unless_it_was() {
        let (there, elsewhere) = ([5_u64, 6], [7_u64, 8]);
        let pointers = [there.as_ptr() as u64, elsewhere.as_ptr() as u64];
        let pid = std::process::id() as i32;
        for (index, pointer) in pointers.into_iter().enumerate() {
            let at = pointers.as_ptr() as u64;
            let pointed = at + 8 * index as u64;
            let wanted = WantedMemory {
                ranges: vec![0..0, at..at + 16, pointers[0]..pointers[0] + 16],
                pointed: Some((pointed, 16)),
                list: None,
            };
            let pieces = read_all(pid, (0, &[]), &wanted);
            if pieces.is_empty() {
                println!("skipped: process_vm_readv is not permitted");
                return;
            }
            let read: Vec<u64> = pieces.iter().map(|(at, _)| *at).collect();
            let also = (index == 1).then_some(pointer);
            let expected = [at, pointers[0]].into_iter().chain(also);
            assert_eq!(read, expected.collect::<Vec<_>>());
            let last = pieces.last().map(|(_, bytes)| bytes.as_slice());
            let expected = [there, elsewhere][index].map(u64::to_ne_bytes);
            assert_eq!(last, Some(expected.as_flattened()));
        }
        let nowhere = WantedMemory {
            ranges: Vec::new(),
            pointed: Some((8, 16)),
            list: None,
        };
        assert!(read_all(pid, (0, &[]), &nowhere).is_empty());
    }

    #[test]
    fn objects_that_lead_to_each_other_are_read() {
        // Each has the address of the next behind a word.
        let last = [3_u64, 0];
        let second = [2, last.as_ptr() as u64];
        let first = [1, second.as_ptr() as u64];
        let head = [first.as_ptr() as u64];
        let pid = std::process::id() as i32;
        let list = LinkedList {
            head: head.as_ptr() as u64,
            via: None,
            size: 16,
            next: Some(8),
        };
        let wanted = |list: LinkedList| WantedMemory {
            ranges: vec![0..0, list.head..list.head + 8],
            pointed: None,
            list: Some(list),
        };
        // The second was copied with the sample.
        let bytes: Vec<u8> = second.iter().flat_map(|it| it.to_ne_bytes()).collect();
        let copied = (second.as_ptr() as u64, bytes.as_slice());
        let pieces = read_all(pid, copied, &wanted(list));
        if pieces.is_empty() {
            println!("skipped: process_vm_readv is not permitted");
            return;
        }
        let read: Vec<u64> = pieces.iter().map(|(at, _)| *at).collect();
        assert_eq!(read, [list.head, head[0], last.as_ptr() as u64]);
        // By what the head points to.
        let through = [0, head[0]];
        let at = [through.as_ptr() as u64];
        let by_another = LinkedList {
            head: at.as_ptr() as u64,
            via: Some(8),
            ..list
        };
        let pieces = read_all(pid, copied, &wanted(by_another));
        assert_eq!(pieces.len(), 4);
        // One that leads to itself, and one that leads nowhere.
        let mut circle = [0_u64; 2];
        circle[1] = circle.as_ptr() as u64;
        let head = [circle[1]];
        let list = LinkedList {
            head: head.as_ptr() as u64,
            ..list
        };
        assert_eq!(read_all(pid, (0, &[]), &wanted(list)).len(), 2);
        let nowhere = [0_u64, 8];
        let head = [nowhere.as_ptr() as u64];
        let list = LinkedList {
            head: head.as_ptr() as u64,
            ..list
        };
        assert_eq!(read_all(pid, (0, &[]), &wanted(list)).len(), 3);
    }

    #[test]
    fn room_is_made_for_what_is_there_and_all_of_it_is_counted() {
        let snapshots = Snapshots::default();
        let pid = std::process::id() as i32;
        // The top of the first thread's stack, behind which nothing is.
        let maps = std::fs::read_to_string("/proc/self/maps").expect("proc");
        let stack = maps.lines().find(|line| line.ends_with("[stack]"));
        let end = stack.and_then(|line| line.split(['-', ' ']).nth(1));
        let end = end.and_then(|end| u64::from_str_radix(end, 16).ok());
        let start = end.expect("a stack") - 4096;
        let range = start..start + (4 << 20);
        let grown = |old, length| snapshots.grown(old, length);
        let pieces = read_pieces(pid, (start, &[]), &of_stack(range), grown, || true).read;
        let bytes = pieces.first().map_or(0, |(_, bytes)| bytes.capacity());
        assert!(bytes > 0 && bytes < 4 << 20, "{bytes} bytes");
        assert_eq!(locked(&snapshots.taken).out, bytes);
        snapshots.give_back([pieces]);
        assert_eq!(locked(&snapshots.taken).out, 0);
    }

    #[test]
    fn what_was_read_is_handed_over_once() {
        let snapshots = Snapshots::default();
        snapshots.want(HashMap::from([(5, of_stack(0..8))]), false);
        assert!(snapshots.is_active());
        assert_eq!(snapshots.wanted_of(5), Some(of_stack(0..8)));
        let snapshot = MemorySnapshot {
            tid: 5,
            time: 1,
            left_at: None,
            pieces: vec![(0, vec![0; 8])],
        };
        snapshots.add(snapshot.clone());
        assert_eq!(snapshots.take(), [snapshot]);
        assert_eq!(snapshots.take(), []);
        snapshots.want(HashMap::new(), false);
        assert!(!snapshots.is_active());
        // Of threads that nobody knows.
        assert_eq!(snapshots.wanted_of_any(6), None);
        snapshots.want(HashMap::new(), true);
        assert!(snapshots.is_active());
        assert_eq!(snapshots.wanted_of_any(6), Some(WantedMemory::default()));
        assert_eq!(snapshots.wanted_of(6), None);
    }
}

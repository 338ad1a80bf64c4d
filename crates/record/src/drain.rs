//! The thread that empties the rings, so that the kernel always has room.

use crate::affinity::Mover;
use crate::filter::Filter;
use crate::follower::Follower;
use crate::open::{OpenEvent, OpenSet, RingSlot};
use crate::options::Affinity;
use crate::planned::Role;
use crate::queue::{Piece, Sender};
use crate::shallow;
use crate::stream::Reader;
use crate::traces::{AreaPlan, Areas};
use crate::tree::Tree;
use crate::trim::Trim;
use crate::waits::{FloodGate, Parts, Readings};
use prof_abi::AttrFlags;
use prof_perfdata::write::Trailer;
use prof_perfdata::{KernelFaults, Sampler};
use prof_sys::signal::Thread;
use prof_sys::{Event, PollSet, Records, Waker};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// How long records stay in their rings while these are looked through, and how
/// often that is done.
const PATIENCE_FOR_LOOKS: Duration = Duration::from_millis(20);
const LOOK_EVERY: Duration = Duration::from_millis(1);
/// Bytes that may wait for the writing thread. Beyond, records stay in the
/// rings, and when those are full the kernel drops and counts.
const MOST_QUEUED: usize = 32 << 20;
/// From so many on stacks get shorter: of 64 KiB each, two CPUs give as much in
/// 64 ms at 999 Hz.
const MANY_QUEUED: usize = 8 << 20;
/// With each so many more they get shorter still.
const MORE_QUEUED: usize = 2 << 20;
/// How long to leave a full queue alone.
const FULL_PAUSE: Duration = Duration::from_millis(2);

/// Bytes of stack to take along with a sample while so many bytes wait, a
/// multiple of 8. The unwinder walks less of a shorter piece, and the queue has
/// room for the samples of seconds where nothing but registers is left.
fn most_stack(waiting: usize) -> usize {
    let more = waiting.checked_sub(MANY_QUEUED);
    match more.map(|more| more / MORE_QUEUED) {
        None => usize::MAX,
        Some(0) => 16 << 10,
        Some(1) => 4 << 10,
        Some(2) => 1 << 10,
        Some(_) => 0,
    }
}

/// What the threads of a recording tell each other. It belongs to the main
/// thread.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Wakes the draining thread.
    pub(crate) drainer: Waker,
    /// Wakes the main thread where it waits for descriptors.
    pub(crate) main: Waker,
    /// The main thread; it waits for signals where there is no stream.
    main_thread: Thread,
    /// Drain once more, then end.
    pub(crate) stop: AtomicBool,
    /// All tasks that were attached to have ended.
    pub(crate) all_gone: AtomicBool,
    /// What was there before the recording is written.
    pub(crate) begun: AtomicBool,
    /// Nothing more can be written, or the file is large enough.
    pub(crate) writer_ended: AtomicBool,
    /// The writing thread, once it runs.
    writer: OnceLock<Thread>,
    /// The writing thread is done.
    pub(crate) written: AtomicBool,
    /// Another file is wanted.
    another: AtomicBool,
    /// What overwritten rings hold is wanted.
    newest: AtomicBool,
    /// A snapshot of traces is wanted.
    snapshot: AtomicBool,
    /// Whether events are on.
    on: Mutex<bool>,
    /// Lines for the user.
    told: Mutex<Vec<String>>,
    /// Whoever reads what is written, if it is a stream.
    pub(crate) reader: Option<Reader>,
    /// Bytes in the queue.
    queued: AtomicUsize,
    /// How long records may wait in a ring, µs.
    patience: AtomicU64,
    /// When what is recorded begins and ends.
    pub(crate) parts: Parts,
    /// What was read of threads that sleep.
    pub(crate) readings: Readings,
}

impl Shared {
    /// Records may wait for `patience` in a ring, at first; `reader` is whoever
    /// reads what is written, if it is a stream.
    pub(crate) fn new(patience: Duration, reader: Option<Reader>) -> std::io::Result<Self> {
        let shared = Self {
            drainer: Waker::new()?,
            main: Waker::new()?,
            main_thread: Thread::current(),
            stop: AtomicBool::new(false),
            all_gone: AtomicBool::new(false),
            begun: AtomicBool::new(false),
            writer_ended: AtomicBool::new(false),
            writer: OnceLock::new(),
            written: AtomicBool::new(false),
            another: AtomicBool::new(false),
            newest: AtomicBool::new(false),
            snapshot: AtomicBool::new(false),
            on: Mutex::new(false),
            told: Mutex::default(),
            reader,
            queued: AtomicUsize::new(0),
            patience: AtomicU64::new(0),
            parts: Parts::default(),
            readings: Readings::default(),
        };
        shared.be_patient(patience);
        Ok(shared)
    }

    /// Records may wait so long in a ring from now on.
    pub(crate) fn be_patient(&self, patience: Duration) {
        let micros = u64::try_from(patience.as_micros()).unwrap_or(u64::MAX);
        // ORDERING: Relaxed; it is soon enough if the next wait is as long.
        self.patience.store(micros, Ordering::Relaxed);
    }

    fn patience(&self) -> Duration {
        // ORDERING: Relaxed, as in `be_patient`.
        Duration::from_micros(self.patience.load(Ordering::Relaxed))
    }

    /// The calling thread writes.
    pub(crate) fn writes(&self) {
        let _ = self.writer.set(Thread::current());
    }

    /// The writing thread is done with so many bytes.
    pub(crate) fn taken(&self, bytes: usize) {
        // ORDERING: Relaxed; a bound on memory, nothing is published by it.
        self.queued.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Whether the queue is over its high-water mark: nothing that is not
    /// needed should be added.
    pub(crate) fn is_pressed(&self) -> bool {
        self.is_pressed_behind(0)
    }

    /// The same of what waits behind so many bytes, which are being written: a
    /// piece that is long by itself is not late.
    pub(crate) fn is_pressed_behind(&self, bytes: usize) -> bool {
        // ORDERING: Relaxed, as in `taken`.
        let queued = self.queued.load(Ordering::Relaxed);
        queued.saturating_sub(bytes) >= MANY_QUEUED
    }

    /// Lets the draining thread drain once more and end.
    pub(crate) fn stop_draining(&self) {
        // ORDERING: Release, partner is the Acquire in `is_set`.
        self.stop.store(true, Ordering::Release);
        self.drainer.wake();
    }

    /// Bytes that were queued by another than the draining thread.
    pub(crate) fn queued(&self, bytes: usize) {
        // ORDERING: Relaxed, as in `taken`.
        self.queued.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Events are switched on from here on, or off.
    pub(crate) fn switch(&self, is_on: bool) {
        *self.on.lock().unwrap_or_else(PoisonError::into_inner) = is_on;
    }

    /// Does what needs to know whether events are on, and keeps that from changing.
    pub(crate) fn while_on<T>(&self, what: impl FnOnce(bool) -> T) -> T {
        what(*self.on.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Another file is wanted, with what has happened so far in this one, or a
    /// snapshot of traces.
    pub(crate) fn want_another(&self) {
        // ORDERING: Relaxed; nothing is published by it, and soon is enough.
        self.another.store(true, Ordering::Relaxed);
        self.snapshot.store(true, Ordering::Relaxed);
        self.drainer.wake();
    }

    /// Whether another file is wanted since the last time this was asked.
    pub(crate) fn is_another_wanted(&self) -> bool {
        // ORDERING: Relaxed, as in `want_another`.
        self.another.load(Ordering::Relaxed) && self.another.swap(false, Ordering::Relaxed)
    }

    /// Whether a snapshot is wanted since the last time this was asked.
    pub(crate) fn is_snapshot_wanted(&self) -> bool {
        // ORDERING: Relaxed, as in `want_another`.
        self.snapshot.load(Ordering::Relaxed) && self.snapshot.swap(false, Ordering::Relaxed)
    }

    /// What overwritten rings hold is wanted, in the queue.
    pub(crate) fn want_newest(&self) {
        // ORDERING: Relaxed, as in `want_another`.
        self.newest.store(true, Ordering::Relaxed);
        self.drainer.wake();
    }

    /// Whether that is wanted since the last time this was asked.
    fn is_newest_wanted(&self) -> bool {
        // ORDERING: Relaxed, as in `want_another`.
        self.newest.load(Ordering::Relaxed) && self.newest.swap(false, Ordering::Relaxed)
    }

    /// Leaves a line for the user.
    pub(crate) fn tell(&self, line: String) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.push(line);
        drop(told);
        self.wake_main();
    }

    /// The lines for the user since the last time this was asked.
    pub(crate) fn told(&self) -> Vec<String> {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *told)
    }

    /// Tells a flag to the main thread.
    pub(crate) fn tell_main(&self, flag: &AtomicBool) {
        // ORDERING: Release, partner is the Acquire in `is_set`.
        flag.store(true, Ordering::Release);
        self.wake_main();
    }

    fn wake_main(&self) {
        self.main.wake();
        // One that it looks for anyway. It does not fail: the main thread
        // outlives all others.
        let _ = self.main_thread.send(libc::SIGCHLD);
    }
}

/// Whether a flag of [`Shared`] is up.
pub(crate) fn is_set(flag: &AtomicBool) -> bool {
    // ORDERING: Acquire, partner is the Release in `tell_main` and
    // `stop_draining`.
    flag.load(Ordering::Acquire)
}

/// Empties rings until told to stop.
pub(crate) struct Drainer<'a> {
    rings: Vec<RingSlot>,
    /// Those that are overwritten: read when a file is wanted, and at the end.
    newest: Vec<RingSlot>,
    /// The areas beside them, if an event traces.
    areas: Option<Areas<'a>>,
    events: &'a [OpenEvent],
    shared: &'a Shared,
    queue: Sender,
    /// The waker and the rings.
    poll: PollSet,
    /// The waker alone.
    by_time: Option<PollSet>,
    /// What is done before each draining, and every millisecond, for as long as it
    /// says so: only then it is by time.
    before: Option<Box<dyn FnMut() -> bool + Send + 'a>>,
    /// Whether a ring was a quarter full, or more, when it was last drained.
    is_filling: bool,
    /// Has fewer stacks of waits taken, where these are chosen by chance.
    gate: Option<FloodGate>,
    /// When the rings were last emptied, or found empty.
    emptied: Instant,
    /// Shortens samples where that loses nothing.
    trim: Option<Trim>,
    /// Whose samples are kept, if not all are.
    filter: Option<Filter<'a>>,
    /// What is open, if less may be copied of shallow stacks, and whether it is told when.
    shallow: Option<(&'a OpenSet, bool)>,
    /// Of each ring: the member that is waited on.
    waiting: Vec<usize>,
    /// Goes to each ring that is emptied, if the thread is to do so.
    mover: Option<Mover>,
    /// Where the writing thread runs, if it is to be near.
    follower: Option<Follower>,
    faults: KernelFaults,
}

impl<'a> Drainer<'a> {
    pub(crate) fn new(
        mut rings: Vec<RingSlot>,
        (events, area): (&'a [OpenEvent], Option<AreaPlan>),
        shared: &'a Shared,
        queue: Sender,
    ) -> Self {
        let areas = Areas::of(&mut rings, events, shared, area);
        let (newest, rings): (Vec<_>, Vec<_>) = rings.into_iter().partition(|it| it.is_newest);
        let mut poll = PollSet::default();
        poll.add(shared.drainer.as_fd());
        for ring in &rings {
            if let Some(fd) = member_fd(events, ring, 0) {
                poll.add(fd);
            }
        }
        Self {
            waiting: vec![0; rings.len()],
            rings,
            newest,
            areas,
            events,
            shared,
            queue,
            poll,
            by_time: None,
            before: None,
            is_filling: false,
            gate: None,
            emptied: Instant::now(),
            trim: None,
            filter: None,
            shallow: None,
            mover: None,
            follower: None,
            faults: faults_of(events),
        }
    }

    /// Empties each ring on CPUs that are near it.
    pub(crate) fn near_rings(mut self, affinity: Affinity) -> Self {
        let cpus = self.rings.iter().filter_map(|slot| slot.cpu);
        self.mover = Mover::new(affinity, cpus);
        self.follower = Follower::new(affinity);
        self
    }

    /// Says how much rings hold before it is copied.
    pub(crate) fn gated(self, gate: Option<FloodGate>) -> Self {
        Self { gate, ..self }
    }

    /// Of whole CPUs keeps samples of these processes only.
    pub(crate) fn keeping(mut self, tree: Option<Tree>, set: &'a OpenSet) -> Self {
        let witness = || self.trim.as_ref().map(Trim::witness).cloned();
        self.filter = tree.map(|tree| {
            let witness = witness().unwrap_or_default();
            Filter::new(tree, set, (self.rings.len(), witness))
        });
        self
    }

    /// Looks at the rings when their time has come, and is not woken by them:
    /// where each sample sends a signal, the kernel also wakes whoever waits
    /// for a ring, thousands of times a second for nothing.
    pub(crate) fn by_time(mut self) -> Self {
        let mut waker = PollSet::default();
        waker.add(self.shared.drainer.as_fd());
        self.by_time = Some(waker);
        self
    }

    /// The same while `look` says that it is to be called again: every
    /// millisecond, and before each draining. Records stay in their rings for as
    /// long as that needs, and no longer, since waits may be many.
    pub(crate) fn looking(mut self, look: impl FnMut() -> bool + Send + 'a) -> Self {
        self = self.by_time();
        self.before = Some(Box::new(look));
        self
    }

    /// Shortens samples on their way out of the rings.
    pub(crate) fn trimming(self, trim: Option<Trim>) -> Self {
        Self { trim, ..self }
    }

    /// Has less copied of stacks while all are shallow, if that is planned.
    pub(crate) fn copying_shallow(mut self, set: &'a OpenSet, is_told: bool) -> Self {
        let piece = set.may_be_shallow();
        self.trim = self.trim.map(|trim| trim.looking_for_shallow(piece));
        self.shallow = piece.map(|_| (set, is_told));
        self
    }

    /// Goes to the event that copies what stacks need.
    fn follow_depths(&mut self) {
        if let (Some((set, is_told)), Some(trim)) = (self.shallow, &mut self.trim)
            && let Some(is_shallow) = trim.change_of_depths()
        {
            // Not when they are off for good.
            let is_changed = self
                .shared
                .while_on(|is_on| is_on && set.copy_shallow(is_shallow));
            if is_changed && is_told {
                self.shared.tell(shallow::told(is_shallow));
            }
        }
    }

    /// Runs until [`Shared::stop`] is up.
    pub(crate) fn run(mut self) {
        loop {
            // Asked before draining, so that what was written before the stop
            // is drained after it.
            let stop = is_set(&self.shared.stop);
            let full = self.shared.queued.load(Ordering::Relaxed) >= MOST_QUEUED;
            if stop || !full {
                self.drain_all();
                self.follow_depths();
                self.take_traces(stop);
                if stop || self.shared.is_newest_wanted() {
                    self.take_newest(stop);
                }
            }
            if stop {
                // Nobody moves it any more, wherever it waits for a CPU.
                self.move_writer(false);
                return;
            }
            let filter = self.filter.as_ref();
            let patience = match (full, filter.and_then(Filter::patience)) {
                (true, _) => FULL_PAUSE,
                (false, Some(shorter)) => self.shared.patience().min(shorter),
                (false, None) => self.shared.patience(),
            };
            if self.wait(patience).is_err() {
                // Without poll, look again after a while.
                std::thread::sleep(FULL_PAUSE);
            }
            self.shared.drainer.clear();
            self.pass_over_the_ended();
        }
    }

    /// Waits until rings should be drained.
    fn wait(&mut self, patience: Duration) -> io::Result<()> {
        let Some(waker) = &mut self.by_time else {
            return self.poll.wait(Some(patience)).map(drop);
        };
        // What filled a quarter of a ring in one wait may fill all of it
        // in the next.
        let share = if self.is_filling { 8 } else { 1 };
        let Some(look) = &mut self.before else {
            waker.wait(Some(patience / share))?;
            return self.poll.wait(Some(Duration::ZERO)).map(drop);
        };
        if !look() {
            return self.poll.wait(Some(patience)).map(drop);
        }
        let until = Instant::now() + patience.min(PATIENCE_FOR_LOOKS) / share;
        loop {
            let is_woken = waker.wait(Some(LOOK_EVERY))? > 0;
            // Stacks of waits come all at once where many threads begin to wait.
            let is_filling = self.rings.iter().any(|slot| is_filled(slot, 8));
            if !look() || is_woken || is_filling || Instant::now() >= until {
                break;
            }
        }
        self.poll.wait(Some(Duration::ZERO)).map(drop)
    }

    /// Takes what all rings hold, as one piece.
    fn drain_all(&mut self) {
        let began = self.shared.parts.now().unwrap_or(0);
        let lasted = std::mem::replace(&mut self.emptied, Instant::now()).elapsed();
        if self.rings.iter().all(|slot| slot.ring.waiting() == 0) {
            self.is_filling = false;
            // Nothing that was read waits for records that come later.
            if self.shared.readings.earliest().is_some() {
                let records = self.queue.buffer();
                self.queue.send(Piece { records, began });
            }
            return;
        }
        self.is_filling = self.rings.iter().any(|slot| is_filled(slot, 4));
        if let Some(gate) = &self.gate {
            let waiting = self.rings.iter().map(|slot| slot.ring.waiting() as u64);
            gate.pass(waiting.sum(), lasted);
        }
        let mut records = self.queue.buffer();
        let queued = self.shared.queued.load(Ordering::Relaxed);
        let trim = self.trim.as_ref();
        let mut append = |record: &[u8]| match trim {
            Some(trim) => {
                let most = most_stack(queued.saturating_add(records.len()));
                trim.append(record, most, &mut records);
            }
            None => records.extend_from_slice(record),
        };
        let mover = &mut self.mover;
        let mut reach = |slot: &RingSlot| {
            if let Some(mover) = mover.as_mut().filter(|_| slot.ring.waiting() > 0) {
                mover.go_to(slot.cpu);
            }
        };
        match &mut self.filter {
            Some(filter) => filter.take(&mut self.rings, &mut reach, &mut append),
            None if trim.is_some() => {
                for slot in &mut self.rings {
                    reach(slot);
                    slot.ring.take_each(&mut append);
                }
            }
            None => {
                for slot in &mut self.rings {
                    reach(slot);
                    slot.ring.take(&mut records);
                }
            }
        }
        if records.is_empty() {
            self.queue.reuse(records);
            return;
        }
        self.faults.mend(&mut records);
        self.move_writer(queued == 0);
        self.shared.queued(records.len());
        self.queue.send(Piece { records, began });
    }

    /// Lets the writing thread run here if it keeps up, else anywhere.
    fn move_writer(&mut self, is_idle: bool) {
        if let (Some(follower), Some(&writer)) = (&mut self.follower, self.shared.writer.get()) {
            follower.before_sending(writer, is_idle);
        }
    }

    /// Takes what traces have for the recording.
    fn take_traces(&mut self, is_stopped: bool) {
        let Some(areas) = &mut self.areas else {
            return;
        };
        let (shared, queue) = (self.shared, &self.queue);
        areas.take(is_stopped, |piece| {
            shared.queued(piece.trace.len());
            queue.send_trace(piece);
        });
    }

    /// Takes what overwritten rings got since the last time; their events go on
    /// but where they were stopped.
    fn take_newest(&mut self, is_stopped: bool) {
        for slot in &mut self.newest {
            let running = owner(self.events, slot).filter(|_| !is_stopped);
            let mut ring = Vec::new();
            // Where it cannot be paused, what may be overwritten is left out.
            let _ = slot.ring.take_newest(running, &mut ring);
            let newest_first: Vec<&[u8]> = Records::of(&ring).collect();
            let mut records = self.queue.buffer();
            newest_first
                .iter()
                .rev()
                .for_each(|record| records.extend_from_slice(record));
            self.faults.mend(&mut records);
            self.shared.queued(records.len());
            self.queue.send(Piece { records, began: 0 });
        }
        self.queue.end_newest();
    }

    /// Where a task has ended, waits on the next member of the ring instead,
    /// or poll would come back at once for ever.
    fn pass_over_the_ended(&mut self) {
        let mut left = self.rings.len();
        for (place, slot) in self.rings.iter().enumerate() {
            if self.poll.is_hung_up(place + 1) {
                self.waiting[place] += 1;
                let next = member_fd(self.events, slot, self.waiting[place]);
                self.poll.replace(place + 1, next);
            }
            if self.waiting[place] >= slot.members.len() {
                left -= 1;
            }
        }
        if left == 0 && !is_set(&self.shared.all_gone) {
            self.shared.tell_main(&self.shared.all_gone);
        }
    }
}

/// What the kernel's records are to be mended of, by what the events ask for.
fn faults_of(events: &[OpenEvent]) -> KernelFaults {
    let attrs = || events.iter().map(|event| &event.planned.attr);
    KernelFaults {
        trailer: attrs().next().map_or(0, |attr| Trailer::of(attr).size()),
        has_build_ids: attrs().any(|attr| attr.flags.has(AttrFlags::BUILD_ID)),
        sampler: only_sampler(events),
    }
}

/// The event of all samples, where there is one only.
fn only_sampler(events: &[OpenEvent]) -> Option<Sampler> {
    let mut sampling = events
        .iter()
        .filter(|event| event.planned.role == Role::Samples);
    let (only, another) = (sampling.next()?, sampling.next());
    match another {
        None => Sampler::new(&only.planned.attr, only.ids()),
        Some(_) => None,
    }
}

/// Whether a ring holds such a part of what it can, or more.
fn is_filled(slot: &RingSlot, part: usize) -> bool {
    slot.ring.waiting() >= slot.ring.size() / part
}

/// The event whose ring it is.
fn owner<'a>(events: &'a [OpenEvent], slot: &RingSlot) -> Option<&'a Event> {
    let &(event, descriptor) = slot.members.first()?;
    Some(&events.get(event)?.descriptors.get(descriptor)?.event)
}

fn member_fd<'a>(events: &'a [OpenEvent], slot: &RingSlot, from: usize) -> Option<BorrowedFd<'a>> {
    let &(event, descriptor) = slot.members.get(from)?;
    Some(events[event].descriptors[descriptor].event.as_fd())
}

#[cfg(test)]
mod tests {
    use super::{MANY_QUEUED, MOST_QUEUED, Shared, most_stack};
    use std::time::Duration;

    #[test]
    fn a_few_whole_stacks_do_not_make_the_recorder_late() {
        // 30 ms of two CPUs at 999 Hz.
        assert_eq!(most_stack(60 * 65_528), usize::MAX);
        let shared = Shared::new(Duration::ZERO, None).expect("descriptors");
        shared.queued(2 * MANY_QUEUED);
        assert!(shared.is_pressed());
        // What is being written is not late by being long.
        assert!(shared.is_pressed_behind(MANY_QUEUED));
        assert!(!shared.is_pressed_behind(MANY_QUEUED + 8));
    }

    #[test]
    fn stacks_get_shorter_long_before_the_queue_is_full() {
        assert_eq!(most_stack(0), usize::MAX);
        let sizes: Vec<usize> = (0..=MOST_QUEUED).step_by(1 << 16).map(most_stack).collect();
        assert!(sizes.is_sorted_by(|more, less| more >= less));
        assert!(
            sizes
                .iter()
                .all(|&size| size == usize::MAX || size % 8 == 0)
        );
        // What is left holds nine seconds of two CPUs at 999 Hz, 1 KB each.
        let bare = sizes.iter().filter(|&&size| size == 0).count() << 16;
        assert!(bare / 1000 >= 9 * 2 * 999, "{bare}");
    }
}

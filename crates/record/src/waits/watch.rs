//! The threads that read stacks of threads that sleep, where the kernel shows none.
//!
//! They do nothing else: what drains rings and what writes is late on a busy machine,
//! one behind the other, and who sleeps for a few milliseconds has gone on by then.
//! They look at the switch records in the rings before these are drained.
//!
//! ```text
//!         ┌─► drain ──────────────► write
//!  rings ─┤                           ▲
//!         └─► who sleeps? ─► read ─► Readings
//! ```
//!
//! One of them looks each millisecond. Where all CPUs are busy, one wake-up in ten
//! waits for a CPU until the next tick of the scheduler; that this happens on two CPUs
//! at once is rare. So while the first is late others look, too, each on its own CPU.

use super::Parts;
use super::readings::{OpenReadings, Readings};
use super::sleepers::{LOOK_EVERY, Sleepers};
use crate::peeking::each_record;
use prof_abi::{ByteOrder, RecordType};
use prof_sys::RingView;
use prof_sys::prompt::run_on;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, TryLockError};
use std::time::{Duration, Instant};

/// Most that look beside the first.
const MOST_BESIDE: usize = 2;
/// So much behind its time the first is late.
const LATE: Duration = Duration::from_micros(500);
/// For so long, ms, after it was late others look, too.
const LATE_FOR: u64 = 1_000;
/// How often the others ask whether it was.
const IDLE: Duration = Duration::from_millis(20);
/// Behind a look the next has nothing to do for so long.
const REST: Duration = Duration::from_micros(400);

/// Reads threads that sleep, until the recording ends.
pub(crate) struct Watch<'a> {
    looking: Mutex<Looking<'a>>,
    parts: &'a Parts,
    began: Instant,
    /// When the first was last late, in ms since it began; 0 if never.
    late: AtomicU64,
}

/// What one look needs, and one thread at a time has.
struct Looking<'a> {
    sleepers: Sleepers,
    rings: &'a [RingView],
    /// How far each ring was looked through.
    at: Vec<u64>,
    scratch: Vec<u8>,
    readings: OpenReadings<'a>,
    /// When the last look ended.
    looked: Instant,
}

/// One of the threads.
pub(crate) struct Watcher<'a> {
    watch: Arc<Watch<'a>>,
    role: Role,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    First,
    /// On this CPU, while the first is late.
    Beside(u32),
}

impl<'a> Watch<'a> {
    /// Of threads whose switch records are in these rings; what is read before the
    /// first part of the recording begins is of none.
    pub(crate) fn new(
        sleepers: Sleepers,
        rings: &'a [RingView],
        (parts, readings): (&'a Parts, &'a Readings),
    ) -> Self {
        let began = Instant::now();
        Self {
            looking: Mutex::new(Looking {
                sleepers,
                rings,
                at: vec![0; rings.len()],
                scratch: Vec::new(),
                readings: readings.open(),
                looked: began,
            }),
            parts,
            began,
            late: AtomicU64::new(0),
        }
    }

    /// The threads, where the rings are of these CPUs.
    pub(crate) fn watchers(self, cpus: &[u32]) -> Vec<Watcher<'a>> {
        let beside = cpus.iter().take(MOST_BESIDE).map(|&cpu| Role::Beside(cpu));
        let beside = beside.filter(|_| cpus.len() > 1);
        let roles = std::iter::once(Role::First).chain(beside);
        let watch = Arc::new(self);
        roles
            .map(|role| Watcher {
                watch: watch.clone(),
                role,
            })
            .collect()
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn is_late(&self) -> bool {
        // ORDERING: Relaxed; whoever misses it looks a little later.
        let late = self.late.load(Ordering::Relaxed);
        late > 0 && self.now().saturating_sub(late) < LATE_FOR
    }

    /// Looks who sleeps, if no other thread does.
    fn look(&self) {
        let mut looking = match self.looking.try_lock() {
            Ok(looking) => looking,
            Err(TryLockError::Poisoned(looking)) => looking.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        if looking.looked.elapsed() < REST {
            return;
        }
        looking.look_through();
        if self.parts.has_begun() {
            looking.read(self.parts);
        }
        looking.looked = Instant::now();
    }
}

impl Looking<'_> {
    /// Takes down from the new records of all rings who left and who came. Where some
    /// were missed, threads may be read that do not sleep any more: such readings are
    /// of no wait.
    fn look_through(&mut self) {
        let sleepers = &mut self.sleepers;
        for (at, ring) in self.at.iter_mut().zip(self.rings) {
            each_record(ring, at, &mut self.scratch, &mut |_, size, front| {
                let kind = RecordType(ByteOrder::NATIVE.u32(front, 0).unwrap_or(0));
                if let Some(record) = front.get(..size) {
                    sleepers.note_task(kind, record);
                }
            });
        }
    }

    fn read(&mut self, parts: &Parts) {
        let Some(now) = parts.now() else {
            return;
        };
        let sleepers = &mut self.sleepers;
        let read = |records: &mut _, held: &mut _| sleepers.read(records, held);
        self.readings.add(now, read, || parts.now());
    }
}

impl Watcher<'_> {
    /// Runs until `stop` is up.
    pub(crate) fn run(self, stop: &AtomicBool) {
        if let Role::Beside(cpu) = self.role
            && run_on(cpu).is_err()
        {
            return;
        }
        // ORDERING: Acquire, partner is the Release that raises the flag.
        while !stop.load(Ordering::Acquire) {
            let pause = match self.role == Role::First || self.watch.is_late() {
                true => {
                    self.watch.look();
                    LOOK_EVERY
                }
                false => IDLE,
            };
            let began = Instant::now();
            std::thread::sleep(pause);
            if self.role == Role::First && began.elapsed() > pause + LATE {
                // ORDERING: Relaxed, as in `is_late`.
                self.watch
                    .late
                    .store(self.watch.now().max(1), Ordering::Relaxed);
            }
        }
    }
}

//! Memory of threads that wait, read while they do.

use super::DeepStacks;
use super::leavers::Leavers;
use super::left::Found;
use super::pieces::{copied_until, read_pieces};
use crate::allowance::Allowance;
use crate::drain::Shared;
use crate::peeking::each_record;
use prof_live::MemorySnapshot;
use prof_perfdata::Record;
use prof_sys::{RingView, clock};
use std::time::{Duration, Instant};

/// Threads that are read in one look.
const MOST_IN_A_LOOK: usize = 32;

/// Reads what the unwinder wants of threads that left their CPUs with a sample of
/// it and are still away, where waits are recorded. It is of the time of the
/// sample if no ring tells, once it is read, that the thread came back.
///
/// It belongs to the thread that drains, and looks before each draining: what is
/// drained is unwound at once.
pub(crate) struct WaitReader<'a> {
    deep: &'a DeepStacks<'a>,
    rings: &'a [RingView],
    shared: &'a Shared,
    /// How far each ring was looked through.
    at: Vec<u64>,
    leavers: Leavers,
    scratch: Vec<u8>,
    /// What is in place of a copied piece.
    now: Vec<u8>,
    /// Whether anything was wanted when it last looked.
    was_active: bool,
    /// What it may take of the time, what it has taken, and until when it is to
    /// rest.
    allowance: Allowance,
    used: Duration,
    rests_until: Option<Instant>,
}

impl<'a> WaitReader<'a> {
    pub(crate) fn new(deep: &'a DeepStacks<'a>, rings: &'a [RingView], shared: &'a Shared) -> Self {
        Self {
            deep,
            rings,
            shared,
            at: vec![0; rings.len()],
            leavers: Leavers::default(),
            scratch: Vec::new(),
            now: Vec::new(),
            was_active: false,
            allowance: Allowance::new(deep.share, Instant::now()),
            used: Duration::ZERO,
            rests_until: None,
        }
    }

    /// Reads who is away now; whether to look again soon, since memory is wanted
    /// with samples.
    pub(crate) fn look(&mut self) -> bool {
        let is_wanted = self.deep.orders.is_active();
        let is_resting = self.rests_until.is_some_and(|until| Instant::now() < until);
        // Without samples of leaving who sleeps is read by others.
        let is_active = is_wanted && self.deep.waits.is_some() && !is_resting;
        if is_active && !self.was_active {
            for (at, ring) in self.at.iter_mut().zip(self.rings) {
                *at = ring.head();
            }
            self.leavers.forget();
        }
        self.was_active = is_active;
        if is_active {
            let before = clock::own_thread_cpu_time();
            self.look_through();
            self.read();
            // Draining is no part of it.
            self.used += clock::own_thread_cpu_time().saturating_sub(before);
            self.allowance.set_share(self.deep.share_now());
            let pause = self.allowance.pause(Instant::now(), self.used);
            self.rests_until = pause.map(|pause| Instant::now() + pause);
        }
        is_wanted
    }

    fn read(&mut self) {
        for _ in 0..MOST_IN_A_LOOK {
            if self.shared.is_pressed() || !self.deep.orders.has_room() {
                return;
            }
            let Some((ring, sample)) = self.leavers.newest() else {
                return;
            };
            if let Some(snapshot) = self.snapshot(ring, &sample) {
                self.deep.orders.add(snapshot);
            }
            self.leavers.done(sample.tid);
        }
    }

    fn snapshot(&mut self, ring: usize, sample: &Found) -> Option<MemorySnapshot> {
        let wanted = self.deep.orders.wanted_of(sample.tid)?;
        let view = self.rings.get(ring)?;
        if !view.peek(sample.at, sample.size, &mut self.scratch) {
            return None;
        }
        let record = Record::new(&self.scratch, 0, &self.deep.layouts)?;
        let copied_until = copied_until(&record, &self.deep.starts, |_| true, &mut self.now)?;
        let grown = |old, length| self.deep.orders.grown(old, length);
        let copied_from = copied_until.saturating_sub(self.now.len() as u64);
        let copied = (copied_from, self.now.as_slice());
        let pieces = read_pieces(sample.pid, copied, &wanted, grown, || true).read;
        self.look_through();
        let is_good = !pieces.is_empty() && self.leavers.is_away((ring, sample));
        self.deep.orders.snapshot(sample, pieces, (is_good, None))
    }

    /// Takes down from the new records of all rings who left and who came.
    fn look_through(&mut self) {
        let Some(waits) = &self.deep.waits else {
            return;
        };
        let leavers = &mut self.leavers;
        leavers.begin_look();
        for (index, (at, ring)) in self.at.iter_mut().zip(self.rings).enumerate() {
            let mut note = |at, size, front: &[u8]| leavers.note(waits, index, (at, size), front);
            if !each_record(ring, at, &mut self.scratch, &mut note) {
                leavers.forget();
            }
        }
    }
}

//! Threads that left their CPU with a sample of it and are still away.
//!
//! Where waits are recorded, the kernel samples threads that leave their CPUs,
//! with their registers: what is read of such a thread's memory is of the time
//! of that sample for as long as it did not come back. If it comes back to the
//! same CPU, a later record of the same ring tells it; if to another, a record of
//! another ring, which may have been looked through before: so it is remembered
//! when each thread last came, and where.

use super::CLOCK_SKEW;
use super::left::{Found, Switch};
use prof_abi::{ByteOrder, EventAttr, RecordType, SampleType};
use rustc_hash::FxHashMap;
use std::collections::VecDeque;

/// Most threads that are remembered as away.
const MOST_AWAY: usize = 64;
/// Most threads of which is remembered when they came.
const MOST_CAME: usize = 1 << 12;

/// The event of waits: how its samples are told.
#[derive(Debug)]
pub(super) struct OfWaits {
    /// In order.
    ids: Vec<u64>,
    /// Where pid and tid stand in its samples, bytes; the time follows.
    tid_at: usize,
}

/// Who is away.
#[derive(Debug, Default)]
pub(super) struct Leavers {
    /// Rings and samples of leaving, those seen last at the end.
    away: VecDeque<(usize, Found)>,
    /// By thread: to which ring's CPU it last came, and when, ns.
    came: FxHashMap<i32, (usize, u64)>,
    /// The same of threads that came before those.
    came_before: FxHashMap<i32, (usize, u64)>,
    /// How often `came` was full in this look through all rings.
    turns: u32,
    /// So many looks begin before anybody is known to be away.
    blind: u8,
}

/// Looks for which nobody is known to be away where something was missed: a
/// thread that is seen to leave in the one behind may have been missed coming,
/// since one ring is looked through after the other.
const BLIND: u8 = 2;

/// Reads pid, tid and time of a sample, by the position of the first.
pub(super) fn found(place: (u64, usize), front: &[u8], tid_at: usize) -> Option<Found> {
    let order = ByteOrder::NATIVE;
    let field = |at| order.u32(front, at).map(u32::cast_signed);
    Some(Found {
        at: place.0,
        size: place.1,
        pid: field(tid_at)?,
        tid: field(tid_at + 4)?,
        time: order.u64(front, tid_at + 8)?,
    })
}

/// Where pid and tid stand in samples of an event, bytes.
pub(super) fn tid_at(attr: &EventAttr) -> usize {
    let before = SampleType::IDENTIFIER | SampleType::IP;
    8 + 8 * (attr.sample_type.0 & before.0).count_ones() as usize
}

impl OfWaits {
    pub(super) fn new(attr: &EventAttr, mut ids: Vec<u64>) -> Self {
        ids.sort_unstable();
        let tid_at = tid_at(attr);
        Self { ids, tid_at }
    }

    /// Whether a record with these first bytes is one of its samples.
    pub(super) fn is(&self, front: &[u8]) -> bool {
        let order = ByteOrder::NATIVE;
        RecordType(order.u32(front, 0).unwrap_or(0)) == RecordType::SAMPLE
            && order
                .u64(front, 8)
                .is_some_and(|id| self.ids.binary_search(&id).is_ok())
    }
}

impl Leavers {
    /// Takes down what a record of a ring tells of who is away: its position and
    /// size, and its first bytes.
    pub(super) fn note(&mut self, of: &OfWaits, ring: usize, place: (u64, usize), front: &[u8]) {
        if of.is(front) {
            if let Some(sample) = found(place, front, of.tid_at) {
                self.left(ring, sample);
            }
        } else if let Some(switch) = Switch::of(front).filter(|switch| !switch.is_out) {
            self.came(ring, switch.tid, switch.time);
        }
    }

    fn left(&mut self, ring: usize, sample: Found) {
        self.done(sample.tid);
        // What came in the same ring came before.
        let came = [&self.came, &self.came_before].map(|list| list.get(&sample.tid));
        let mut elsewhere = came.into_iter().flatten().filter(|came| came.0 != ring);
        if self.blind > 0 || elsewhere.any(|&(_, time)| may_be_later(time, &sample)) {
            return;
        }
        if self.away.len() >= MOST_AWAY {
            self.away.pop_front();
        }
        self.away.push_back((ring, sample));
    }

    fn came(&mut self, ring: usize, tid: i32, time: u64) {
        self.away
            .retain(|(of, sample)| sample.tid != tid || *of != ring && !may_be_later(time, sample));
        if self.came.len() >= MOST_CAME {
            let came = std::mem::take(&mut self.came);
            self.came_before = came;
            self.turns += 1;
            if self.turns > 1 {
                // In one look: some may have left before and are seen later.
                self.forget();
            }
        }
        let last = self.came.entry(tid).or_default();
        if time >= last.1 {
            *last = (ring, time);
        }
    }

    /// All rings are looked through once more.
    pub(super) fn begin_look(&mut self) {
        self.turns = 0;
        self.blind = self.blind.saturating_sub(1);
    }

    /// The one that was seen to leave last.
    pub(super) fn newest(&self) -> Option<(usize, Found)> {
        self.away.back().copied()
    }

    /// Whether the thread is still away since this sample.
    pub(super) fn is_away(&self, (ring, sample): (usize, &Found)) -> bool {
        let is_it = |(of, it): &(usize, Found)| *of == ring && it.at == sample.at;
        self.away.iter().any(is_it)
    }

    /// The thread is of no interest any more, or not away.
    pub(super) fn done(&mut self, tid: i32) {
        self.away.retain(|(_, sample)| sample.tid != tid);
    }

    /// Records were missed: nobody is known to be away.
    pub(super) fn forget(&mut self) {
        self.away.clear();
        self.came.clear();
        self.came_before.clear();
        self.blind = BLIND;
    }
}

/// Whether a thread that came to another CPU at this time may have come after it
/// left with a sample: clocks differ.
fn may_be_later(time: u64, sample: &Found) -> bool {
    time >= sample.time.saturating_sub(CLOCK_SKEW)
}

#[cfg(test)]
mod tests {
    use super::{CLOCK_SKEW, Leavers, MOST_AWAY, MOST_CAME, OfWaits};
    use prof_abi::{EventAttr, SampleType};

    fn of_waits() -> OfWaits {
        let attr = EventAttr {
            sample_type: SampleType::IDENTIFIER
                | SampleType::IP
                | SampleType::TID
                | SampleType::TIME,
            ..EventAttr::default()
        };
        OfWaits::new(&attr, vec![9, 7])
    }

    fn sample(id: u64, tid: i32, time: u64) -> Vec<u8> {
        let mut bytes = [9_u32.to_ne_bytes(), [2, 0, 40, 0]].concat();
        bytes.extend([id, 0x1000].map(u64::to_ne_bytes).concat());
        bytes.extend([1, tid].map(i32::to_ne_bytes).concat());
        bytes.extend(time.to_ne_bytes());
        bytes
    }

    fn switch_in(tid: i32, time: u64) -> Vec<u8> {
        let mut bytes = [14_u32.to_ne_bytes(), [0, 0, 24, 0]].concat();
        bytes.extend([1, tid].map(i32::to_ne_bytes).concat());
        bytes.extend(time.to_ne_bytes());
        bytes
    }

    /// Who is away after records of these rings, the newest first.
    fn away(records: &[(usize, Vec<u8>)]) -> Vec<i32> {
        let (of, mut leavers) = (of_waits(), Leavers::default());
        for ((ring, record), at) in records.iter().zip(0..) {
            leavers.note(&of, *ring, (at, record.len()), record);
        }
        let mut found = Vec::new();
        while let Some((ring, sample)) = leavers.newest() {
            assert!(leavers.is_away((ring, &sample)));
            leavers.done(sample.tid);
            assert!(!leavers.is_away((ring, &sample)));
            found.push(sample.tid);
        }
        found
    }

    #[test]
    fn who_came_back_is_not_away() {
        const MS: u64 = 1_000_000;
        // Samples of other events are no leaving.
        let left = [(0, sample(7, 4, 90 * MS)), (0, sample(9, 5, 91 * MS))];
        let all = [&left[..], &[(0, sample(8, 6, 91 * MS))]].concat();
        assert_eq!(away(&all), [5, 4]);
        // In the same ring the order tells.
        let back = [(0, switch_in(4, 89 * MS))];
        assert_eq!(away(&[&left[..], &back].concat()), [5]);
        assert_eq!(away(&[&back[..], &left].concat()), [5, 4]);
        // In another the time does, in whichever order the rings are seen, and
        // clocks may differ.
        for time in [92 * MS, 90 * MS - CLOCK_SKEW] {
            let back = [(1, switch_in(4, time))];
            assert_eq!(away(&[&left[..], &back].concat()), [5]);
            assert_eq!(away(&[&back[..], &left].concat()), [5]);
        }
        let earlier = [(1, switch_in(4, 90 * MS - CLOCK_SKEW - 1))];
        assert_eq!(away(&[&left[..], &earlier].concat()), [5, 4]);
        assert_eq!(away(&[&earlier[..], &left].concat()), [5, 4]);
        // It left again.
        let again = [(1, sample(7, 4, 93 * MS))];
        assert_eq!(away(&[&left[..], &again].concat()), [4, 5]);
    }

    #[test]
    fn where_records_were_missed_nobody_is_away() {
        let (of, mut leavers) = (of_waits(), Leavers::default());
        let note = |leavers: &mut Leavers, record: &[u8], ring| {
            leavers.note(&of, ring, (0, record.len()), record);
        };
        note(&mut leavers, &sample(7, 4, 5), 0);
        leavers.forget();
        assert!(leavers.newest().is_none());
        for is_known in [false, true] {
            note(&mut leavers, &sample(7, 4, 6), 0);
            assert!(leavers.newest().is_none());
            leavers.begin_look();
            note(&mut leavers, &sample(7, 4, 7), 0);
            assert_eq!(leavers.newest().is_some(), is_known);
        }
        // What is remembered has a bound: that of one look, too.
        let came = |leavers: &mut Leavers, count: usize| {
            for tid in 0..count as i32 {
                note(leavers, &switch_in(1000 + tid, 8), 1);
            }
        };
        came(&mut leavers, MOST_CAME + 1);
        assert!(leavers.newest().is_some());
        note(&mut leavers, &sample(7, 1000, 5), 0);
        assert_eq!(leavers.newest().map(|(_, sample)| sample.tid), Some(4));
        came(&mut leavers, 2 * MOST_CAME);
        assert!(leavers.newest().is_none());
        leavers.begin_look();
        leavers.begin_look();
        for tid in 0..2 * MOST_AWAY as i32 {
            note(&mut leavers, &sample(7, tid, 9_000_000), 0);
        }
        assert_eq!(leavers.away.len(), MOST_AWAY);
    }
}

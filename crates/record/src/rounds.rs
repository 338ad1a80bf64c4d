//! When the mark `FINISHED_ROUND` may be written.
//!
//! A reader sorts what lies between marks: at a mark it delivers all records
//! that are not younger than the youngest before the mark before it, and what
//! comes later and is older is out of order. So the mark promises that no
//! record behind it is older than the youngest before the last one:
//!
//! ```text
//!   1 4 2 | 3 6 5 | ...        at the second mark 1 to 4 are delivered:
//!         ^       ^            nothing below 4 may follow it
//! ```
//!
//! Records come late in three ways. The ring that was drained first gets more
//! while the others are drained: what follows a drain is younger than all that
//! was known before that drain, but no more. The unwinder holds records back for
//! several drains. And the kernel takes a record's time before it publishes
//! it, and may be kept from the latter, in a virtual machine by the host.

use prof_abi::{AttrFlags, ByteOrder, EventAttr, RecordType, SampleType};
use prof_perfdata::write::EventDescription;

/// How much later than its time a record may be published, ns. A mark is
/// written that seldom at the most.
const PUBLISHED_WITHIN: u64 = 100_000_000;

/// Watches the times of what was drained.
#[derive(Debug)]
pub(crate) struct Rounds {
    times: Times,
    /// Of all records so far, ns, and of those before the last drain.
    youngest: u64,
    before: u64,
    /// The youngest when the last mark was written.
    marked: u64,
    /// Old records come whenever rings are read, so that there is nothing to promise.
    is_silent: bool,
}

impl Rounds {
    /// For records of events that agree with `attr` in the fields up to the
    /// time and in the trailer.
    pub(crate) fn new(attr: &EventAttr) -> Self {
        Self {
            times: Times::of(attr),
            youngest: 0,
            before: 0,
            marked: 0,
            is_silent: false,
        }
    }

    /// No mark may ever be written: readers sort all at the end.
    pub(crate) fn without_marks(self) -> Self {
        let is_silent = true;
        Self { is_silent, ..self }
    }

    /// A drain of all rings in the order in which readers are to have it, if
    /// that is not the order of times: records of samples that have none. A
    /// mapping may stand in the ring of another CPU than the samples in it.
    pub(crate) fn in_place_of_times(&self, records: &[u8]) -> Option<Vec<u8>> {
        self.times.in_sample.is_none().then(|| {
            let (mut first, mut samples, mut ends) = (Vec::new(), Vec::new(), Vec::new());
            each(records, |kind, record| {
                let part = match kind {
                    RecordType::SAMPLE => &mut samples,
                    RecordType::EXIT => &mut ends,
                    _ => &mut first,
                };
                part.extend_from_slice(record);
            });
            first.append(&mut samples);
            first.append(&mut ends);
            first
        })
    }

    /// All rings were drained once more and gave these whole records.
    pub(crate) fn drained(&mut self, records: &[u8]) {
        self.before = self.youngest;
        let youngest = self.times.youngest(records);
        self.youngest = self.youngest.max(youngest);
    }

    /// The time of the youngest record so far, ns.
    pub(crate) fn youngest(&self) -> u64 {
        self.youngest
    }

    /// Nothing older than this, ns, stands in a ring that was drained; 0 before
    /// the second drain.
    pub(crate) fn horizon(&self) -> u64 {
        self.before
    }

    /// Whether a mark may be written behind all that was drained but what is
    /// held back, whose earliest time is `held`. If so, it is counted as
    /// written.
    pub(crate) fn may_mark(&mut self, held: Option<u64>) -> bool {
        let is_first = self.marked == 0;
        let due = self.marked.saturating_add(PUBLISHED_WITHIN);
        let may = !self.is_silent
            && (is_first || self.before >= due)
            && held.is_none_or(|held| held >= self.marked);
        if may {
            self.marked = self.youngest;
        }
        may
    }
}

/// Where records have their time.
#[derive(Debug)]
pub(crate) struct Times {
    /// In a sample, bytes from its start.
    in_sample: Option<usize>,
    /// In other records, bytes from their end.
    in_trailer: Option<usize>,
}

impl Times {
    /// For records of events that agree with `attr` in the fields up to the
    /// time and in the trailer.
    pub(crate) fn of(attr: &EventAttr) -> Self {
        let words = |fields: SampleType| (attr.sample_type.0 & fields.0).count_ones() as usize;
        let before = SampleType::IDENTIFIER | SampleType::IP | SampleType::TID;
        let behind =
            SampleType::ID | SampleType::STREAM_ID | SampleType::CPU | SampleType::IDENTIFIER;
        let is_there = attr.sample_type.has(SampleType::TIME);
        let has_trailer = is_there && attr.flags.has(AttrFlags::SAMPLE_ID_ALL);
        Self {
            in_sample: is_there.then(|| 8 + 8 * words(before)),
            in_trailer: has_trailer.then(|| 8 + 8 * words(behind)),
        }
    }

    /// The time of a whole record, ns; `None` if it has none.
    pub(crate) fn of_record(&self, kind: RecordType, record: &[u8]) -> Option<u64> {
        let at = match kind {
            RecordType::SAMPLE => self.in_sample,
            // perf's own records have no trailer.
            kind if kind.0 >= FIRST_OF_USER_SPACE => None,
            _ => self.in_trailer.and_then(|at| record.len().checked_sub(at)),
        };
        at.and_then(|at| ByteOrder::NATIVE.u64(record, at))
    }

    /// The latest time of the records; 0 if none has one.
    fn youngest(&self, records: &[u8]) -> u64 {
        let mut youngest = 0;
        each(records, |kind, record| {
            youngest = youngest.max(self.of_record(kind, record).unwrap_or(0));
        });
        youngest
    }
}

/// The first type that is not the kernel's (`PERF_RECORD_USER_TYPE_START`).
const FIRST_OF_USER_SPACE: u32 = 64;

/// Hands each whole record to `see`, with its type.
pub(crate) fn each(mut records: &[u8], mut see: impl FnMut(RecordType, &[u8])) {
    let order = ByteOrder::NATIVE;
    while let (Some(kind), Some(size)) = (order.u32(records, 0), order.u16(records, 6)) {
        let Some((record, rest)) = records.split_at_checked(usize::from(size).max(8)) else {
            break;
        };
        records = rest;
        see(RecordType(kind), record);
    }
}

/// Whether rings of any event are overwritten.
pub(crate) fn is_overwritten(events: &[EventDescription]) -> bool {
    let is_backward = |it: &EventDescription| it.attr.flags.has(AttrFlags::WRITE_BACKWARD);
    events.iter().any(is_backward)
}

#[cfg(test)]
mod tests {
    use super::{PUBLISHED_WITHIN, Rounds};
    use crate::tally;
    use prof_abi::{AttrFlags, EventAttr, SampleType};
    use prof_perfdata::write::{EventDescription, PipeWriter, finished_round};
    use prof_perfdata::{Reader, TimeOrder};
    use prof_sketch::Random;
    use std::collections::VecDeque;
    use std::io::Cursor;

    const MS: u64 = 1_000_000;

    fn attr() -> EventAttr {
        EventAttr {
            sample_type: SampleType::IP | SampleType::TIME | SampleType::ID,
            flags: AttrFlags::SAMPLE_ID_ALL,
            ..EventAttr::default()
        }
    }

    /// A sample: ip, time, id; or a COMM: pid, tid, name, time, id.
    fn record(is_sample: bool, time: u64) -> Vec<u8> {
        match is_sample {
            true => tally::tests::record(9, &[7, time, 1]),
            false => tally::tests::record(3, &[0, 0x61, time, 1]),
        }
    }

    #[test]
    fn the_time_of_every_record_counts() {
        let mut rounds = Rounds::new(&attr());
        rounds.drained(&[record(true, 5), record(false, 9), record(true, 7)].concat());
        assert_eq!((rounds.before, rounds.youngest), (0, 9));
        rounds.drained(&record(true, 8));
        assert_eq!((rounds.before, rounds.youngest), (9, 9));
    }

    #[test]
    fn a_mark_waits_for_what_is_held_back_and_for_its_time() {
        let mut rounds = Rounds::new(&attr());
        rounds.drained(&record(true, 10));
        assert!(rounds.may_mark(None), "nothing was promised yet");
        rounds.drained(&record(true, 10 + PUBLISHED_WITHIN));
        assert!(!rounds.may_mark(None), "older ones may be in other rings");
        rounds.drained(&[]);
        assert!(!rounds.may_mark(Some(9)));
        assert!(rounds.may_mark(Some(10)));
        assert!(!rounds.may_mark(None), "only once");
    }

    /// What a recorder of two CPUs writes in four seconds, and how many
    /// records a reader finds out of order in it. The rings are drained one
    /// after the other, an unwinder holds drains back, and records are published
    /// late.
    fn late_records(seed: u64, mut may_mark: impl FnMut(&mut Rounds, Option<u64>) -> bool) -> u64 {
        let event = EventDescription {
            attr: attr(),
            ids: vec![1],
            name: "cpu-clock".into(),
        };
        let writer = PipeWriter::new(Vec::new(), &[event], &Default::default());
        let mut writer = writer.expect("memory");
        let mut random = Random(seed);
        let mut rounds = Rounds::new(&attr());
        // Published at, time.
        let mut rings = [VecDeque::new(), VecDeque::new()];
        let mut held: VecDeque<(u64, Vec<u64>)> = VecDeque::new();
        let (mut now, mut drain) = (0, 0);
        while now < 4000 * MS {
            let mut drained = Vec::new();
            for cpu in 0..rings.len() {
                // The other CPU goes on while this one is drained.
                for step in 0..random.below(12) {
                    now += MS;
                    let late = (random.below(50) == 0) as u64 * random.below(90) * MS;
                    let ring = &mut rings[(step as usize + cpu) % 2];
                    let published = ring.back().map_or(0, |&(published, _)| published);
                    ring.push_back((published.max(now + late), now));
                }
                while rings[cpu]
                    .front()
                    .is_some_and(|&(published, _)| published <= now)
                {
                    drained.extend(rings[cpu].pop_front().map(|(_, time)| time));
                }
            }
            drain += 1;
            let records: Vec<Vec<u8>> = drained.iter().map(|&time| record(true, time)).collect();
            rounds.drained(&records.concat());
            drained.sort_unstable();
            held.push_back((drain + random.below(2) * random.below(24), drained));
            while held.front().is_some_and(|&(until, _)| until <= drain) {
                let (_, times) = held.pop_front().expect("just seen");
                for time in times {
                    writer.write(&record(true, time)).expect("memory");
                }
            }
            let earliest = held.iter().flat_map(|(_, times)| times).min().copied();
            if may_mark(&mut rounds, earliest) {
                let mut mark = Vec::new();
                finished_round(&mut mark);
                writer.write(&mark).expect("memory");
            }
        }
        let stream = writer.finish(&Default::default()).expect("memory");
        let reader = Reader::open_stream(Box::new(Cursor::new(stream))).expect("a stream");
        let mut records = TimeOrder::new(reader);
        let mut most = 0;
        while records.next().expect("memory").is_some() {
            most = most.max(records.waiting_bytes());
        }
        // Of 128 000 that were written.
        assert!(most < 50_000, "{most} bytes waited: there are marks");
        records.late()
    }

    #[test]
    fn nothing_is_out_of_order_however_late_it_comes() {
        for seed in 1..60 {
            assert_eq!(late_records(seed, Rounds::may_mark), 0, "seed {seed}");
        }
        // The same with a mark after each drain.
        assert!(late_records(1, |_, _| true) > 0);
        // And with one that does not look at what is held back.
        let blind = |seed| late_records(seed, |rounds, _| rounds.may_mark(None));
        assert!((1..60).map(blind).sum::<u64>() > 0);
    }
}

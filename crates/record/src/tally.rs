//! Counting what goes by: samples, losses, throttling, times.

use prof_abi::{AuxFlags, ByteOrder, EventAttr, RecordType, SampleType};
use prof_perfdata::SampleLayout;
use prof_perfdata::write::EventDescription;

/// What was seen in the records of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// `SAMPLE` records.
    pub samples: u64,
    /// Samples among these whose id is another recorder's: of which event they are is
    /// not known.
    pub strangers: u64,
    /// Records of all kinds that the kernel dropped, by its `LOST` records.
    pub lost: u64,
    /// Times that the kernel stopped an event for being too frequent.
    pub throttled: u64,
    /// Tasks that ended.
    pub ended_tasks: u64,
    /// Bytes of traces.
    pub traced: u64,
    /// Times that part of a trace is missing, by `AUX` records.
    pub trace_gaps: u64,
    /// Time of the first sample, ns; `u64::MAX` before any.
    pub first: u64,
    /// Time of the last sample, ns.
    pub last: u64,
}

/// Where an `AUX` record has its flags, bytes, and those by which something is
/// missing.
const AUX_FLAGS_AT: usize = 24;
const AUX_GAPS: u64 = AuxFlags::TRUNCATED.0 | AuxFlags::PARTIAL.0 | AuxFlags::COLLISION.0;

/// Walks records and keeps the tally.
#[derive(Debug, Clone)]
pub(crate) struct Counter {
    tally: Tally,
    /// Offset of the time in a sample, bytes.
    time_at: Option<usize>,
    /// The ids of the events in order, where samples begin with theirs.
    ids: Option<Vec<u64>>,
}

/// Where a sample has its id if it is to be found without knowing the event, bytes.
const IDENTIFIER_AT: usize = 8;

impl Counter {
    /// For records of events that agree in the fields up to the time.
    pub(crate) fn new(attr: &EventAttr) -> Self {
        Self {
            tally: Tally {
                first: u64::MAX,
                ..Tally::default()
            },
            time_at: SampleLayout::new(attr).time_at(),
            ids: None,
        }
    }

    /// Tells samples of these events from those with other ids.
    pub(crate) fn knowing(mut self, events: &[EventDescription]) -> Self {
        let has_ids = |event: &EventDescription| {
            event.attr.sample_type.has(SampleType::IDENTIFIER) && !event.ids.contains(&0)
        };
        if events.iter().all(has_ids) {
            let ids = events.iter().flat_map(|event| &event.ids);
            let mut ids: Vec<u64> = ids.copied().collect();
            ids.sort_unstable();
            self.ids = Some(ids);
        }
        self
    }

    pub(crate) fn tally(&self) -> Tally {
        self.tally
    }

    /// Counts what was counted elsewhere.
    pub(crate) fn add(&mut self, other: Tally) {
        let tally = &mut self.tally;
        tally.samples += other.samples;
        tally.strangers += other.strangers;
        tally.lost = tally.lost.saturating_add(other.lost);
        tally.throttled += other.throttled;
        tally.ended_tasks += other.ended_tasks;
        tally.traced += other.traced;
        tally.trace_gaps += other.trace_gaps;
        tally.first = tally.first.min(other.first);
        tally.last = tally.last.max(other.last);
    }

    /// Counts a piece of a trace.
    pub(crate) fn trace(&mut self, bytes: u64) {
        self.tally.traced += bytes;
    }

    /// Counts whole records; `told` sees each of a mapping and of a task that begins
    /// or ends (`MMAP2`, `FORK`, `EXIT`).
    pub(crate) fn count(&mut self, mut records: &[u8], told: &mut dyn FnMut(RecordType, &[u8])) {
        let order = ByteOrder::NATIVE;
        while let (Some(kind), Some(size)) = (order.u32(records, 0), order.u16(records, 6)) {
            let Some((record, rest)) = records.split_at_checked(usize::from(size).max(8)) else {
                return;
            };
            records = rest;
            match RecordType(kind) {
                RecordType::SAMPLE => self.sample(record),
                RecordType::LOST => {
                    let lost = order.u64(record, 16).unwrap_or(0);
                    self.tally.lost = self.tally.lost.saturating_add(lost);
                }
                RecordType::EXIT => {
                    self.tally.ended_tasks += 1;
                    told(RecordType::EXIT, record);
                }
                RecordType::THROTTLE => self.tally.throttled += 1,
                RecordType::AUX => {
                    let flags = order.u64(record, AUX_FLAGS_AT).unwrap_or(0);
                    self.tally.trace_gaps += u64::from(flags & AUX_GAPS != 0);
                }
                kind @ (RecordType::MMAP2 | RecordType::FORK) => told(kind, record),
                _ => {}
            }
        }
    }

    fn sample(&mut self, record: &[u8]) {
        self.tally.samples += 1;
        if let (Some(ids), Some(id)) = (&self.ids, ByteOrder::NATIVE.u64(record, IDENTIFIER_AT)) {
            self.tally.strangers += u64::from(ids.binary_search(&id).is_err());
        }
        let time = self
            .time_at
            .and_then(|at| ByteOrder::NATIVE.u64(record, at));
        if let Some(time) = time {
            self.tally.first = self.tally.first.min(time);
            self.tally.last = self.tally.last.max(time);
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{Counter, EventDescription, Tally};
    use prof_abi::{EventAttr, RecordType, SampleType};

    /// A record of these words.
    pub(crate) fn record(kind: u32, words: &[u64]) -> Vec<u8> {
        let mut record = kind.to_ne_bytes().to_vec();
        record.extend(0_u16.to_ne_bytes());
        record.extend((8 + 8 * words.len() as u16).to_ne_bytes());
        record.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        record
    }

    #[test]
    fn samples_with_ids_of_other_recorders_are_counted() {
        let event = |ids: &[u64], sample_type| EventDescription {
            attr: EventAttr {
                sample_type,
                ..EventAttr::default()
            },
            ids: ids.to_vec(),
            name: "cs".to_owned(),
        };
        let strangers = |events: &[EventDescription]| {
            let mut counter = Counter::new(&events[0].attr).knowing(events);
            for id in [7, 9, 8, 3] {
                counter.count(&record(9, &[id, 0]), &mut |_, _| {});
            }
            counter.tally().strangers
        };
        let known = SampleType::IDENTIFIER;
        let two = [event(&[9, 7], known), event(&[3], known)];
        assert_eq!(strangers(&two), 1);
        assert_eq!(strangers(&[event(&[9], SampleType::IP)]), 0, "no ids");
        // An id of 0 is of a task that had ended.
        assert_eq!(strangers(&[event(&[9, 0], known)]), 0);
    }

    #[test]
    fn samples_losses_and_throttling_are_counted() {
        let attr = EventAttr {
            sample_type: SampleType::IP | SampleType::TID | SampleType::TIME,
            ..EventAttr::default()
        };
        let mut counter = Counter::new(&attr);
        let mut records = record(9, &[1, 2, 500]);
        records.extend(record(9, &[1, 2, 300]));
        records.extend(record(2, &[77, 11]));
        records.extend(record(5, &[0, 0, 0]));
        records.extend(record(4, &[0, 0, 0]));
        records.extend(record(10, &[9]));
        // Truncated; of a snapshot; partial and of a snapshot.
        for flags in [1, 2, 6] {
            records.extend(record(11, &[0, 64, flags]));
        }
        counter.trace(40);
        let mut mappings = 0;
        let mut mapping = |kind, _: &[u8]| mappings += u32::from(kind == RecordType::MMAP2);
        counter.count(&records, &mut mapping);
        counter.count(&records[..20], &mut mapping);
        assert_eq!(mappings, 1);
        assert_eq!(
            counter.tally(),
            Tally {
                samples: 2,
                strangers: 0,
                lost: 11,
                throttled: 1,
                ended_tasks: 1,
                traced: 40,
                trace_gaps: 2,
                first: 300,
                last: 500
            }
        );
    }
}

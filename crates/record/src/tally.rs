//! Counting what goes by: samples, losses, throttling, times.

use prof_abi::{AuxFlags, ByteOrder, EventAttr, RecordType};
use prof_perfdata::SampleLayout;

/// What was seen in the records of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// `SAMPLE` records.
    pub samples: u64,
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
}

impl Counter {
    /// For records of events that agree in the fields up to the time.
    pub(crate) fn new(attr: &EventAttr) -> Self {
        Self {
            tally: Tally {
                first: u64::MAX,
                ..Tally::default()
            },
            time_at: SampleLayout::new(attr).time_at(),
        }
    }

    pub(crate) fn tally(&self) -> Tally {
        self.tally
    }

    /// Counts what was counted elsewhere.
    pub(crate) fn add(&mut self, other: Tally) {
        let tally = &mut self.tally;
        tally.samples += other.samples;
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

    /// Counts whole records; `mapping` sees each `MMAP2`.
    pub(crate) fn count(&mut self, mut records: &[u8], mapping: &mut dyn FnMut(&[u8])) {
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
                RecordType::EXIT => self.tally.ended_tasks += 1,
                RecordType::THROTTLE => self.tally.throttled += 1,
                RecordType::AUX => {
                    let flags = order.u64(record, AUX_FLAGS_AT).unwrap_or(0);
                    self.tally.trace_gaps += u64::from(flags & AUX_GAPS != 0);
                }
                RecordType::MMAP2 => mapping(record),
                _ => {}
            }
        }
    }

    fn sample(&mut self, record: &[u8]) {
        self.tally.samples += 1;
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
    use super::{Counter, Tally};
    use prof_abi::{EventAttr, SampleType};

    /// A record of these words.
    pub(crate) fn record(kind: u32, words: &[u64]) -> Vec<u8> {
        let mut record = kind.to_ne_bytes().to_vec();
        record.extend(0_u16.to_ne_bytes());
        record.extend((8 + 8 * words.len() as u16).to_ne_bytes());
        record.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        record
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
        let mut mapping = |_: &[u8]| mappings += 1;
        counter.count(&records, &mut mapping);
        counter.count(&records[..20], &mut mapping);
        assert_eq!(mappings, 1);
        assert_eq!(
            counter.tally(),
            Tally {
                samples: 2,
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

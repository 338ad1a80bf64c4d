//! Which samples are the witness's.
//!
//! Records tell by an id whose they are, and the kernel gives some a wrong
//! one: of several events that one switch of context makes overflow, it
//! prepares the sample of the first and leaves its id in those of the others
//! (`do_perf_sw_event`, seen on Linux 6.18). Two recorders with a witness each
//! are enough. Such a sample also grows by what the one before it had of
//! variable size; behind its own content is what the ring held before.
//!
//! Clocks, counters and tracepoints prepare each sample anew. Where all events
//! are such ones, an id that none of ours has is the witness's; beside other
//! software events the shape of the sample decides.

use prof_abi::{ByteOrder, EventAttr, RecordType, SampleType, Software, event_kind};
use prof_perfdata::write::EventDescription;

/// Tells samples of the witness from those of the events.
#[derive(Debug, Clone, Default)]
pub(crate) struct WitnessSamples {
    /// Ids in order.
    witness: Vec<u64>,
    events: Vec<u64>,
    /// Where the registers' ABI stands, bytes; they end the sample.
    abi_at: usize,
    /// Bytes of a sample with registers.
    full: usize,
    /// Whether samples of the events have wrong ids, too.
    is_alone: bool,
}

impl WitnessSamples {
    /// For a witness with these ids, beside these events.
    pub(crate) fn new(
        attr: &EventAttr,
        mut witness: Vec<u64>,
        opened: &[EventDescription],
    ) -> Self {
        witness.sort_unstable();
        let mut events: Vec<u64> = opened
            .iter()
            .flat_map(|event| &event.ids)
            .copied()
            .collect();
        events.sort_unstable();
        let before = attr.sample_type.without(SampleType::REGS_USER);
        let abi_at = 8 + 8 * before.0.count_ones() as usize;
        let registers = attr.sample_regs_user.count_ones() as usize;
        Self {
            witness,
            events,
            abi_at,
            full: abi_at + 8 + 8 * registers,
            is_alone: !opened.iter().any(|event| shares_samples(&event.attr)),
        }
    }

    /// Whether a record of `size` bytes that begins with `front`, 64 bytes or
    /// all, is a sample of the witness.
    pub(crate) fn is(&self, size: usize, front: &[u8]) -> bool {
        let order = ByteOrder::NATIVE;
        if RecordType(order.u32(front, 0).unwrap_or(0)) != RecordType::SAMPLE {
            return false;
        }
        match order.u64(front, 8) {
            Some(id) if self.is_witness(id) => true,
            Some(id) if self.is_foreign(id) && self.is_alone => true,
            Some(id) if self.is_foreign(id) => match order.u64(front, self.abi_at) {
                // Samples of threads of the kernel have no registers.
                Some(0) => size == self.abi_at + 8,
                Some(1 | 2) => size == self.full,
                _ => false,
            },
            _ => false,
        }
    }

    /// Whether the id is one of the witness's.
    pub(crate) fn is_witness(&self, id: u64) -> bool {
        self.witness.binary_search(&id).is_ok()
    }

    /// Whether the id is none of ours.
    fn is_foreign(&self, id: u64) -> bool {
        !self.is_witness(id) && self.events.binary_search(&id).is_err()
    }

    /// Whether there is no witness.
    pub(crate) fn is_empty(&self) -> bool {
        self.witness.is_empty()
    }
}

/// Whether the kernel prepares one sample for all events of this kind.
pub(crate) fn shares_samples(attr: &EventAttr) -> bool {
    // A dummy never occurs.
    let apart = [Software::CPU_CLOCK, Software::TASK_CLOCK, Software::DUMMY];
    attr.kind == event_kind::SOFTWARE && !apart.contains(&Software(attr.config))
}

#[cfg(test)]
mod tests {
    use super::WitnessSamples;
    use prof_abi::{EventAttr, RecordType, SampleType, Software, event_kind};
    use prof_perfdata::write::EventDescription;

    fn sample(words: &[u64]) -> Vec<u8> {
        let size = 8 + 8 * words.len() as u16;
        let mut record = RecordType::SAMPLE.0.to_ne_bytes().to_vec();
        record.extend([0_u16, size].iter().flat_map(|half| half.to_ne_bytes()));
        record.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        record
    }

    #[test]
    fn a_sample_with_the_id_of_a_strangers_event_is_known_by_its_shape() {
        let attr = EventAttr {
            sample_type: SampleType::IDENTIFIER
                | SampleType::TID
                | SampleType::TIME
                | SampleType::REGS_USER,
            sample_regs_user: 0b11,
            ..EventAttr::default()
        };
        let beside = |event: Software| {
            let opened = EventDescription {
                attr: EventAttr {
                    kind: event_kind::SOFTWARE,
                    config: event.0,
                    ..EventAttr::default()
                },
                ids: vec![1, 2],
                name: String::new(),
            };
            WitnessSamples::new(&attr, vec![9, 7], &[opened])
        };
        let (witness, alone) = (
            beside(Software::CPU_MIGRATIONS),
            beside(Software::CPU_CLOCK),
        );
        // Id, tid, time, ABI, registers.
        for (words, is_it) in [
            (&[7, 0, 0, 2, 5, 6][..], true),
            (&[1, 0, 0, 2, 5, 6], false),
            (&[555, 0, 0, 2, 5, 6], true),
            (&[555, 0, 0, 0], true),
            // A longer one of some event, and one whose next word is no ABI.
            (&[555, 0, 0, 2, 5, 6, 7], false),
            (&[555, 0, 0, 22, 5, 6], false),
            (&[555, 0, 0, 0, 8], false),
        ] {
            let record = sample(words);
            let front = &record[..record.len().min(64)];
            assert_eq!(witness.is(record.len(), front), is_it, "{words:?}");
            // A clock's samples have its id.
            assert_eq!(alone.is(record.len(), front), words[0] != 1, "{words:?}");
        }
    }
}

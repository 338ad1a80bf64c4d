//! The sample_id trailer of records that are not samples.

use crate::order::SamplePart;
use prof_abi::{AttrFlags, EventAttr, SampleType};

/// What stands behind the body of a kernel record when the event has
/// `sample_id_all`; fields that `sample_type` does not ask for are left out.
///
/// pid and tid · time in ns · event id · stream id · cpu and 0 · event id again.
///
/// Source: perf_event_open(2), `struct sample_id`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Trailer {
    /// The `sample_type` of the event; no bits: no trailer.
    pub sample_type: SampleType,
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// Time in ns on the event's clock; 0 for what was so before recording.
    pub time: u64,
    /// Event id, for `ID` and `IDENTIFIER`; 0 means the first event.
    pub id: u64,
    /// Stream id.
    pub stream_id: u64,
    /// CPU number.
    pub cpu: u32,
}

impl Trailer {
    /// No trailer, for events without `sample_id_all`.
    pub const NONE: Self = Self {
        sample_type: SampleType(0),
        pid: 0,
        tid: 0,
        time: 0,
        id: 0,
        stream_id: 0,
        cpu: 0,
    };

    /// The trailer of synthesised records of this event: time 0, which sorts
    /// them first. Empty if the event has no `sample_id_all`.
    pub fn of(attr: &EventAttr) -> Self {
        if attr.flags.has(AttrFlags::SAMPLE_ID_ALL) {
            Self {
                sample_type: attr.sample_type,
                ..Self::NONE
            }
        } else {
            Self::NONE
        }
    }

    /// The same for another thread.
    #[must_use]
    pub fn for_thread(self, pid: u32, tid: u32) -> Self {
        Self { pid, tid, ..self }
    }

    /// Its size in bytes.
    pub fn size(&self) -> usize {
        8 * SamplePart::of(SamplePart::TRAILER, self.sample_type).count()
    }
}

#[cfg(test)]
mod tests {
    use super::Trailer;
    use crate::write::record::RecordBuilder;
    use prof_abi::{AttrFlags, EventAttr, Misc, RecordType, SampleType};

    #[test]
    fn only_asked_fields_in_the_order_of_the_manual() {
        let attr = EventAttr {
            sample_type: SampleType::IP
                | SampleType::TID
                | SampleType::TIME
                | SampleType::CPU
                | SampleType::IDENTIFIER,
            flags: AttrFlags::SAMPLE_ID_ALL,
            ..EventAttr::default()
        };
        let trailer = Trailer {
            time: 9,
            id: 7,
            cpu: 3,
            ..Trailer::of(&attr).for_thread(1, 2)
        };
        let mut out = Vec::new();
        let mut record = RecordBuilder::begin(&mut out, RecordType::SWITCH, Misc(0));
        trailer.append(&mut record);
        record.end_short();
        let words: Vec<u64> = out[8..]
            .chunks_exact(8)
            .map(|word| u64::from_ne_bytes(word.try_into().expect("8 bytes")))
            .collect();
        assert_eq!(words, [2 << 32 | 1, 9, 3, 7]);
        assert_eq!(trailer.size(), 32);
    }

    #[test]
    fn without_sample_id_all_there_is_none() {
        let attr = EventAttr {
            sample_type: SampleType::TID,
            ..EventAttr::default()
        };
        assert_eq!(Trailer::of(&attr).size(), 0);
    }
}

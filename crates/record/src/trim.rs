//! Samples without the part of their stack dump that holds nothing.
//!
//! The kernel reserves the whole dump in the ring, however little of the
//! stack there was to copy. Where the dump only goes to the stage, what is
//! not valid need not be copied out of the ring.

use prof_abi::{ByteOrder, RecordType};
use prof_perfdata::write::EventDescription;
use prof_perfdata::{Event, Events, Record, Sample};

/// Shortens samples of the events it was made for.
#[derive(Debug)]
pub(crate) struct Trim {
    events: Events,
}

impl Trim {
    pub(crate) fn new(opened: &[EventDescription]) -> Self {
        let mut events = Events::new(ByteOrder::NATIVE);
        for event in opened {
            events.push(Event::new(event.attr.clone(), event.ids.clone()));
        }
        Self { events }
    }

    /// Appends the record, trimmed if it has a stack dump.
    pub(crate) fn append(&self, record: &[u8], out: &mut Vec<u8>) {
        if self.append_trimmed(record, out).is_none() {
            out.extend_from_slice(record);
        }
    }

    /// Appends the record with its dump shortened to what is valid; `None`,
    /// and nothing appended, if there is nothing to shorten.
    fn append_trimmed(&self, record: &[u8], out: &mut Vec<u8>) -> Option<()> {
        let view = Record::new(record, 0, &self.events)?;
        if view.kind != RecordType::SAMPLE {
            return None;
        }
        let sample = Sample::new(record, &view.event()?.layout, ByteOrder::NATIVE).ok()?;
        let dump = sample.stack_user_dumped().filter(|dump| !dump.is_empty())?;
        let valid = sample.stack_user_valid()?;
        let kept = usize::try_from(valid).ok()?.checked_next_multiple_of(8)?;
        if kept >= dump.len() {
            return None;
        }
        // `dump` is a part of `record`: its size stands before it, and how
        // much of it is valid behind.
        let at = dump.as_ptr() as usize - record.as_ptr() as usize;
        let behind = at + dump.len() + 8;
        let validity = if kept == 0 { 0 } else { 8 };
        let size = at + kept + validity + (record.len() - behind);
        out.extend_from_slice(record.get(..6)?);
        out.extend_from_slice(&ByteOrder::NATIVE.bytes_u16(size as u16));
        out.extend_from_slice(record.get(8..at - 8)?);
        out.extend_from_slice(&ByteOrder::NATIVE.bytes_u64(kept as u64));
        out.extend_from_slice(dump.get(..kept)?);
        if kept > 0 {
            out.extend_from_slice(&ByteOrder::NATIVE.bytes_u64(valid));
        }
        out.extend_from_slice(record.get(behind..)?);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::Trim;
    use prof_abi::{ByteOrder, EventAttr, SampleType};
    use prof_perfdata::write::{EventDescription, SampleEncoder, SampleFields};
    use prof_perfdata::{Event, Events, Record, Sample};

    fn attr() -> EventAttr {
        EventAttr {
            sample_type: SampleType::IP
                | SampleType::REGS_USER
                | SampleType::STACK_USER
                | SampleType::DATA_SRC,
            sample_regs_user: 0b11,
            ..EventAttr::default()
        }
    }

    /// A sample with 64 bytes of dump, of which the first `valid` are.
    fn sample(valid: u64) -> Vec<u8> {
        let fields = SampleFields {
            ip: 7,
            regs_user: (2, &[8, 9]),
            stack_user: &[5; 64],
            data_src: 11,
            ..SampleFields::default()
        };
        let mut record = Vec::new();
        SampleEncoder::new(&attr())
            .encode(&fields, &mut record)
            .expect("short");
        let behind = record.len() - 16;
        record[behind..behind + 8].copy_from_slice(&ByteOrder::NATIVE.bytes_u64(valid));
        record
    }

    #[test]
    fn only_the_valid_part_of_a_dump_is_kept() {
        let opened = EventDescription {
            attr: attr(),
            ids: vec![1],
            name: String::new(),
        };
        let trim = Trim::new(&[opened]);
        let mut events = Events::new(ByteOrder::NATIVE);
        events.push(Event::new(attr(), vec![1]));
        for (valid, kept) in [(0, 0), (3, 8), (16, 16), (64, 64)] {
            let mut out = Vec::new();
            trim.append(&sample(valid), &mut out);
            let view = Record::new(&out, 0, &events).expect("a record");
            let layout = &view.event().expect("its event").layout;
            let trimmed = Sample::new(&out, layout, ByteOrder::NATIVE).expect("whole");
            assert_eq!(ByteOrder::NATIVE.u16(&out, 6), Some(out.len() as u16));
            assert_eq!(trimmed.stack_user_dumped().map(<[u8]>::len), Some(kept));
            let stack = trimmed.stack_user().map(<[u8]>::len);
            assert_eq!(stack, Some(valid as usize));
            assert_eq!(trimmed.data_src(), Some(11));
            assert_eq!(trimmed.regs_user().and_then(|regs| regs.get(1)), Some(9));
        }
    }
}

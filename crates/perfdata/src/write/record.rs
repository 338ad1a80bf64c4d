//! The frame of every record: header, body, padding.

use super::trailer::Trailer;
use crate::body::Body;
use crate::fields::Encoder;
use crate::order::SamplePart;
use prof_abi::{ByteOrder, Misc, RecordType};

/// The longest record, in bytes: `size` is a u16 and sizes are multiples of 8.
pub const MAX_RECORD_SIZE: usize = 65528;

/// A record would have been longer than [`MAX_RECORD_SIZE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a record of {bytes} bytes does not fit into the 65528 that perf.data allows")]
pub struct RecordTooLong {
    /// What it would have needed.
    pub bytes: usize,
}

/// Appends to `out` a record with this body; `misc` needs no bits that the
/// body itself tells, as MMAP_BUILD_ID. perf's own records have no trailer:
/// [`Trailer::NONE`]. A body of a type that is not known is left out.
///
/// # Errors
/// If the record passes [`MAX_RECORD_SIZE`]; `out` is then as it was.
pub fn append(
    body: &Body<'_>,
    misc: Misc,
    trailer: &Trailer,
    out: &mut Vec<u8>,
) -> Result<(), RecordTooLong> {
    let Some(kind) = body.kind() else {
        return Ok(());
    };
    let mut record = RecordBuilder::begin(out, kind, misc.with(body.layout_bits()));
    record.body(body);
    trailer.append(&mut record);
    record.end()
}

/// [`append`] for records whose fields bound their size far below the limit:
/// all but those with a list.
pub fn append_short(body: &Body<'_>, misc: Misc, trailer: &Trailer, out: &mut Vec<u8>) {
    let fits = append(body, misc, trailer, out).is_ok();
    debug_assert!(fits, "only for records that are short by construction");
}

/// Appends one record to a buffer, field by field.
///
/// ```text
/// u32 type | u16 misc | u16 size | body … padded to 8
/// ```
pub(super) struct RecordBuilder<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
    /// Bytes of it that are put in later.
    missing: usize,
}

impl<'a> RecordBuilder<'a> {
    /// Writes the header; its size follows at the end.
    pub(super) fn begin(out: &'a mut Vec<u8>, kind: RecordType, misc: Misc) -> Self {
        let start = out.len();
        let mut record = Self {
            out,
            start,
            missing: 0,
        };
        record.u32(kind.0);
        record.u16(misc.0);
        record.u16(0);
        record
    }

    pub(super) fn u16(&mut self, value: u16) {
        self.bytes(&ByteOrder::NATIVE.bytes_u16(value));
    }

    pub(super) fn u32(&mut self, value: u32) {
        self.bytes(&ByteOrder::NATIVE.bytes_u32(value));
    }

    pub(super) fn u64(&mut self, value: u64) {
        self.bytes(&ByteOrder::NATIVE.bytes_u64(value));
    }

    /// Many at once: chains have thousands.
    pub(super) fn u64s(&mut self, values: &[u64]) {
        let start = self.out.len();
        self.out.resize(start + 8 * values.len(), 0);
        let room = self.out.get_mut(start..).unwrap_or_default();
        for (room, &value) in room.chunks_exact_mut(8).zip(values) {
            room.copy_from_slice(&ByteOrder::NATIVE.bytes_u64(value));
        }
    }

    /// Counts so many words that are to be put in here later; where that is in
    /// the buffer.
    pub(super) fn leave_out(&mut self, words: usize) -> usize {
        self.missing += 8 * words;
        self.out.len()
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// All fields of a body.
    pub(super) fn body(&mut self, body: &Body<'_>) {
        let out = std::mem::take(self.out);
        let mut fields = Encoder::behind(out, self.start, ByteOrder::NATIVE);
        body.encode(&mut fields);
        *self.out = fields.finish();
    }

    /// Zeros up to a multiple of `unit`, counted from the record's start.
    pub(super) fn pad(&mut self, unit: usize) {
        let len = (self.out.len() - self.start).next_multiple_of(unit);
        self.out.resize(self.start + len, 0);
    }

    /// Pads, patches the size; takes the whole record back if it is too long.
    pub(super) fn end(mut self) -> Result<(), RecordTooLong> {
        self.pad(8);
        let bytes = self.out.len() - self.start + self.missing;
        if bytes > MAX_RECORD_SIZE {
            self.out.truncate(self.start);
            return Err(RecordTooLong { bytes });
        }
        let size = ByteOrder::NATIVE.bytes_u16(bytes as u16);
        if let Some(field) = self.out.get_mut(self.start + 6..self.start + 8) {
            field.copy_from_slice(&size);
        }
        Ok(())
    }

    /// [`RecordBuilder::end`] for records whose fields bound their size far
    /// below the limit.
    pub(super) fn end_short(self) {
        let fits = self.end().is_ok();
        debug_assert!(fits, "only for records that are short by construction");
    }
}

impl Trailer {
    /// Appends its fields.
    pub(super) fn append(&self, record: &mut RecordBuilder<'_>) {
        for part in SamplePart::of(SamplePart::TRAILER, self.sample_type) {
            match part {
                SamplePart::Tid => {
                    record.u32(self.pid);
                    record.u32(self.tid);
                }
                SamplePart::Time => record.u64(self.time),
                SamplePart::StreamId => record.u64(self.stream_id),
                SamplePart::Cpu => {
                    record.u32(self.cpu);
                    record.u32(0);
                }
                // Id and identifier: there are no others.
                _ => record.u64(self.id),
            }
        }
    }
}

/// What stands at the start of some bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct WholeRecords {
    /// Bytes of whole records.
    pub(super) bytes: u64,
    /// Samples among them.
    pub(super) samples: u64,
    /// Bytes of those of at least [`LONG_SAMPLE`] bytes.
    pub(super) long: u64,
    /// Records of packed ones among them.
    pub(super) packed: u64,
}

/// A chain of some 500 frames, bytes.
pub(super) const LONG_SAMPLE: u16 = 4096;

/// The whole records at the start of these.
pub(super) fn whole_records(records: &[u8]) -> WholeRecords {
    let order = ByteOrder::NATIVE;
    let mut whole = WholeRecords::default();
    while let Some(rest) = records.get(whole.bytes as usize..)
        && let (Some(kind), Some(size)) = (order.u32(rest, 0), order.u16(rest, 6))
        && size >= 8
        && usize::from(size) <= rest.len()
    {
        if RecordType(kind) == RecordType::SAMPLE {
            whole.samples += 1;
            whole.long += u64::from(size) * u64::from(size >= LONG_SAMPLE);
        }
        whole.packed += u64::from(RecordType(kind) == RecordType::COMPRESSED);
        whole.bytes += u64::from(size);
    }
    whole
}

#[cfg(test)]
mod tests {
    use super::{RecordBuilder, RecordTooLong};
    use prof_abi::{Misc, RecordType};

    #[test]
    fn a_record_is_header_and_body_padded_to_eight() {
        let mut out = vec![0xee; 3]; // what stands before is left alone
        let mut record = RecordBuilder::begin(&mut out, RecordType::COMM, Misc(0x2000));
        record.u32(5);
        record.end_short();
        let expected = [3, 0, 0, 0, 0, 0x20, 16, 0, 5, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(out[3..], expected);
    }

    #[test]
    fn a_record_that_does_not_fit_leaves_nothing_behind() {
        let mut out = vec![1];
        let mut record = RecordBuilder::begin(&mut out, RecordType::SAMPLE, Misc(0));
        record.bytes(&[0; 65528]);
        assert_eq!(record.end(), Err(RecordTooLong { bytes: 65536 }));
        assert_eq!(out, [1]);
    }
}

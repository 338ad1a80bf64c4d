//! The frame of every record: header, body, padding.

use prof_abi::{ByteOrder, CpuMode, Misc, RecordType};

/// The longest record, in bytes: `size` is a u16 and sizes are multiples of 8.
pub const MAX_RECORD_SIZE: usize = 65528;

/// The longest name in a record, in bytes without its NUL; the kernel's
/// `PATH_MAX` less one.
const MAX_NAME: usize = 4095;

/// A record would have been longer than [`MAX_RECORD_SIZE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a record of {bytes} bytes does not fit into the 65528 that perf.data allows")]
pub struct RecordTooLong {
    /// What it would have needed.
    pub bytes: usize,
}

/// The value of `misc` for a CPU mode.
pub(super) const fn misc_of(mode: CpuMode) -> u16 {
    match mode {
        CpuMode::Unknown => 0,
        CpuMode::Kernel => 1,
        CpuMode::User => 2,
        CpuMode::Hypervisor => 3,
        CpuMode::GuestKernel => 4,
        CpuMode::GuestUser => 5,
    }
}

/// Appends one record to a buffer, field by field.
///
/// ```text
/// u32 type | u16 misc | u16 size | body … padded to 8
/// ```
pub(super) struct RecordBuilder<'a> {
    out: &'a mut Vec<u8>,
    start: usize,
}

impl<'a> RecordBuilder<'a> {
    /// Writes the header; its size follows at the end.
    pub(super) fn begin(out: &'a mut Vec<u8>, kind: RecordType, misc: Misc) -> Self {
        let start = out.len();
        let mut record = Self { out, start };
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

    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// A name up to its first NUL, with a NUL, padded to 8; cut at 4095 bytes.
    pub(super) fn name(&mut self, name: &[u8]) {
        let end = name.iter().position(|&byte| byte == 0);
        let end = end.unwrap_or(name.len()).min(MAX_NAME);
        self.bytes(name.get(..end).unwrap_or_default());
        self.out.push(0);
        self.pad(8);
    }

    /// Zeros up to a multiple of `unit`, counted from the record's start.
    pub(super) fn pad(&mut self, unit: usize) {
        let len = (self.out.len() - self.start).next_multiple_of(unit);
        self.out.resize(self.start + len, 0);
    }

    /// Pads, patches the size; takes the whole record back if it is too long.
    pub(super) fn end(mut self) -> Result<(), RecordTooLong> {
        self.pad(8);
        let bytes = self.out.len() - self.start;
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

    #[test]
    fn a_name_ends_at_its_first_nul_and_at_path_max() {
        let mut out = Vec::new();
        let mut record = RecordBuilder::begin(&mut out, RecordType::COMM, Misc(0));
        record.name(b"ab\0cd");
        record.end_short();
        assert_eq!(out[8..], *b"ab\0\0\0\0\0\0");
        let mut out = Vec::new();
        let mut record = RecordBuilder::begin(&mut out, RecordType::COMM, Misc(0));
        record.name(&[b'x'; 9999]);
        record.end_short();
        assert_eq!(out.len(), 8 + 4096);
    }
}

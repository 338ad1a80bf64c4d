//! How long the next record is: mostly what its header says.

use crate::layout::RECORD_HEADER;
use prof_abi::{ByteOrder, RecordType};

/// Bytes needed to tell a record's length.
pub(super) const LONGEST_HEAD: usize = COMPRESSED2_HEAD;
/// Header and `data_size` of a COMPRESSED2 record.
pub(super) const COMPRESSED2_HEAD: usize = RECORD_HEADER + 8;
/// The most zstd bytes perf puts into one record.
const MOST_PACKED: u64 = 65_519;
/// The most bytes of one ring's pass that perf compresses at once; above it
/// `data_size` is nonsense.
const MOST_AT_ONCE: u64 = 1 << 30;
/// The largest record of simpleperf accepted, bytes.
const MOST_SIMPLEPERF: usize = 16 << 20;

/// Type and length of a record.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    pub(super) kind: RecordType,
    /// Bytes, header included.
    pub(super) len: usize,
}

/// Inside the output of perf 6.16 and newer whose compressed pass did not fit
/// into a record.
///
/// perf writes the length of the whole pass into the first record, where
/// `header.size` wraps at 65536 and the padding is missing:
///
/// ```text
/// | size: wrapped | data_size: all | 65519 zstd bytes | size | ? | zstd bytes | ...
///   first record, 65535 bytes                          records with a right size
/// ```
///
/// Source: reports about `record__pushfn` of perf; the sizes are its constants.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Oversized {
    /// Bytes of the pass behind the record at hand.
    left: u64,
    /// The record at hand is part of such a pass: it is zstd to its end.
    pub(super) here: bool,
}

impl Frame {
    /// From the first bytes of a record; `None` if there is no whole header.
    #[inline]
    pub(super) fn read(head: &[u8], order: ByteOrder, oversized: &mut Oversized) -> Option<Self> {
        let kind = RecordType(order.u32(head, 0)?);
        let size = order.u16(head, 6)?;
        let len = usize::from(size);
        let len = match kind {
            RecordType::COMPRESSED2 => oversized.len(len, order.u64(head, RECORD_HEADER)),
            _ if kind.0 >= RecordType::SIMPLEPERF_KERNEL_SYMBOL.0 => {
                // simpleperf has the high half of the size in `misc`.
                let long = usize::from(order.u16(head, 4)?) << 16 | len;
                if long <= MOST_SIMPLEPERF { long } else { len }
            }
            _ => len,
        };
        Some(Self { kind, len })
    }
}

impl Oversized {
    /// The length of a COMPRESSED2 record that says `size`.
    fn len(&mut self, size: usize, data_size: Option<u64>) -> usize {
        self.here = false;
        if self.left > 0 {
            self.left = self.left.saturating_sub(size as u64);
            self.here = true;
            return size;
        }
        let Some(data_size) = data_size.filter(|&size| size <= MOST_AT_ONCE) else {
            return size;
        };
        let whole = COMPRESSED2_HEAD as u64 + data_size;
        if whole.next_multiple_of(8) <= size as u64 {
            return size;
        }
        let first = COMPRESSED2_HEAD as u64 + data_size.min(MOST_PACKED);
        self.left = whole - first;
        self.here = true;
        first as usize
    }
}

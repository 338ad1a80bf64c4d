//! Records of simpleperf that are larger than a record's size can say. They
//! stand in the file in parts:
//!
//! ```text
//!   SPLIT bytes | SPLIT bytes | ... | SPLIT_END        the bytes are a record
//! ```
//!
//! Source: simpleperf's `RecordFileWriter::WriteRecord`.

use super::frame::{Frame, Oversized};
use super::{Current, Origin, Reader};
use crate::damage::DamageKind;
use crate::layout::RECORD_HEADER;
use prof_abi::RecordType;

/// The parts seen so far.
#[derive(Debug, Default)]
pub(super) struct Parts {
    bytes: Vec<u8>,
    /// Where the first of them is.
    offset: u64,
    /// Their end mark was seen.
    is_whole: bool,
}

impl Parts {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Whether a record may stand behind a part.
pub(super) fn may_follow_part(kind: RecordType) -> bool {
    matches!(
        kind,
        RecordType::SIMPLEPERF_SPLIT | RecordType::SIMPLEPERF_SPLIT_END
    )
}

impl Reader {
    /// The current record is a part.
    pub(super) fn absorb_part(&mut self) {
        let Some(record) = self.current() else { return };
        let bytes = record
            .bytes
            .get(RECORD_HEADER..)
            .unwrap_or_default()
            .to_vec();
        let offset = record.offset;
        if !self.budget.take(bytes.len() as u64) {
            return;
        }
        if self.parts.bytes.is_empty() {
            self.parts.offset = offset;
        }
        self.parts.bytes.extend(bytes);
    }

    /// The current record ends the parts.
    pub(super) fn join_parts(&mut self) {
        let order = self.header.order;
        let left = self.parts.bytes.len() as u64;
        let frame = Frame::read(&self.parts.bytes, order, &mut Oversized::default());
        let said = frame.map_or(0, |frame| frame.len as u64);
        let kind = frame.map(|frame| frame.kind);
        let is_part = kind.is_none_or(may_follow_part);
        if said == left && !is_part {
            self.parts.is_whole = true;
            return;
        }
        let Parts { offset, .. } = std::mem::take(&mut self.parts);
        let kind = kind.unwrap_or(RecordType::SIMPLEPERF_SPLIT);
        let damage = DamageKind::PartsSize { size: said, left };
        self.damage(offset, Some(kind), damage, left);
    }

    /// The record whose last part was read.
    pub(super) fn next_joined(&mut self) -> Option<Current> {
        self.parts.is_whole.then_some(Current {
            origin: Origin::Parts,
            place: 0,
            len: self.parts.bytes.len(),
            offset: self.parts.offset,
        })
    }

    /// Something else follows: the parts are none of a whole.
    pub(super) fn give_up_parts(&mut self) {
        if self.parts.bytes.is_empty() {
            return;
        }
        let Parts { bytes, offset, .. } = std::mem::take(&mut self.parts);
        let left = bytes.len() as u64;
        let kind = DamageKind::PartsNotEnded { left };
        self.damage(offset, Some(RecordType::SIMPLEPERF_SPLIT), kind, left);
    }
}

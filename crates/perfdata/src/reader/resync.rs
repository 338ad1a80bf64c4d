//! Finds the way back to whole records after bytes that are none.
//!
//! One rule: the next place, in steps of 8 bytes, where a record of a known
//! type and a possible size stands whose fields fit, and behind it another
//! one or the end. If the bad record claims to pass the end, the file was
//! probably cut inside it and its bytes may look like anything (a stack dump):
//! then what is found must lead to the end exactly.

use super::Reader;
use super::frame::{Frame, Oversized};
use crate::damage::{DamageKind, Error};
use crate::layout::RECORD_HEADER;
use crate::record::Record;
use prof_abi::RecordType;

/// Bytes looked at beyond a candidate: two of the largest records.
const AHEAD: usize = 2 << 16;
/// Bytes searched at a time.
const STEP: usize = 256 << 10;

/// Whether this number is a record type known here.
#[inline]
pub(crate) fn is_known(kind: RecordType) -> bool {
    matches!(kind.0, 1..=22 | 64..=86 | 32769..=32778)
}

/// Whether a type not known here may yet be a newer one: next to the known.
fn may_be_new(kind: RecordType) -> bool {
    matches!(kind.0, 23..=63 | 87..=255 | 32779..=32831)
}

/// How far a row of records must lead to be believed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Proof {
    /// Two records, or one and the end.
    Two,
    /// To the end.
    End,
}

impl Reader {
    /// A header with an unknown type or a size below 8: accepted if it looks
    /// like a newer record, else reported and stepped over to the next record.
    pub(super) fn accept_odd(&mut self, kind: RecordType, len: usize) -> Result<bool, Error> {
        if len >= RECORD_HEADER {
            self.streams.input.ensure(len + AHEAD)?;
            let bytes = self.streams.input.bytes();
            let follows = bytes.get(len..).unwrap_or_default();
            let at_end = bytes.len() == len;
            let whole = bytes.len() >= len;
            if whole && (at_end || may_be_new(kind) || self.candidate(follows).is_some()) {
                return Ok(true);
            }
        }
        let damage = if len < RECORD_HEADER && is_known(kind) {
            DamageKind::RecordSize {
                size: len as u16,
                least: RECORD_HEADER as u16,
            }
        } else {
            DamageKind::NotARecord { kind: kind.0 }
        };
        let offset = self.streams.input.offset();
        let skipped = self.resync(Proof::Two)?;
        let record = is_known(kind).then_some(kind);
        self.damage(offset, record, damage, skipped);
        Ok(false)
    }

    /// A sample with bytes behind its last field: if these are records, its
    /// size is wrong and hides them. Then the
    /// sample is reported and only its fields are stepped over.
    pub(super) fn size_is_right(&mut self) -> Result<bool, Error> {
        let Some((fields_end, mut current)) = self.doubtful.take().zip(self.current) else {
            return Ok(true);
        };
        let size = current.len;
        self.streams.input.ensure(size + AHEAD)?;
        // Asking for more bytes moved those that are there.
        current.place = self.streams.input.place();
        self.current = Some(current);
        let bytes = self.streams.input.bytes();
        let behind = bytes.get(fields_end..).unwrap_or_default();
        if !self.proves(behind, Proof::Two) {
            return Ok(true);
        }
        let kind = DamageKind::RecordSize {
            size: size as u16,
            least: fields_end as u16,
        };
        current.len = fields_end;
        self.current = Some(current);
        let skipped = fields_end as u64;
        self.damage(current.offset, Some(RecordType::SAMPLE), kind, skipped);
        Ok(false)
    }

    /// A record that passes the end of the data.
    pub(super) fn past_end(&mut self, kind: RecordType, size: u64, left: u64) -> Result<(), Error> {
        let offset = self.streams.input.offset();
        let skipped = self.resync(Proof::End)?;
        let damage = DamageKind::RecordPastEnd { size, left };
        self.damage(offset, Some(kind), damage, skipped);
        Ok(())
    }

    /// Steps to the next place that proves itself, or to the end; says how far.
    fn resync(&mut self, proof: Proof) -> Result<u64, Error> {
        let from = self.streams.input.offset();
        self.streams.input.consume(8);
        loop {
            let wanted = STEP + AHEAD;
            let bytes = self.streams.input.ensure(wanted)?;
            let ends = bytes.len() < wanted;
            let len = bytes.len();
            let searched = if ends { len } else { STEP };
            let bytes = self.streams.input.bytes();
            let found = (0..searched)
                .step_by(8)
                .find(|&at| self.proves(bytes.get(at..).unwrap_or_default(), proof));
            let step = found.unwrap_or(searched);
            self.streams.input.consume(step);
            if found.is_some() || ends {
                return Ok(self.streams.input.offset() - from);
            }
        }
    }

    fn proves(&self, bytes: &[u8], proof: Proof) -> bool {
        let Some(mut rest) = self.candidate(bytes) else {
            return false;
        };
        if proof == Proof::Two {
            return rest.is_empty() || self.candidate(rest).is_some();
        }
        while let Some(next) = self.candidate(rest) {
            rest = next;
        }
        rest.is_empty()
    }

    /// If a record of known type whose fields fit stands at the start of
    /// `bytes`: what is behind it.
    fn candidate<'a>(&self, bytes: &'a [u8]) -> Option<&'a [u8]> {
        let order = self.header.order;
        let frame = Frame::read(bytes, order, &mut Oversized::default())?;
        let len = frame.len;
        let possible = is_known(frame.kind) && len >= RECORD_HEADER && len.is_multiple_of(8);
        let (record, rest) = bytes.split_at_checked(len).filter(|_| possible)?;
        let record = Record::new(record, 0, &self.events)?;
        record.try_decode().ok()?;
        Some(rest)
    }
}

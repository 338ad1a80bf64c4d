//! Sections of prof's own, encoded; the layout is described in
//! `perfdata::own`.

use super::features::Features;
use super::record::{MAX_RECORD_SIZE, RecordBuilder};
use crate::own::{HEAD, LEAST_RECORD, MARK};
use prof_abi::{ByteOrder, Misc, RecordType};
use std::io::{self, Write};

/// Bytes of a part before its content: record header, mark, number, size,
/// offset.
const PART_HEAD: usize = 8 + 8 + 3 * 8;

/// Writes them to a file whose last section ends at `end`; nothing if there
/// are none.
pub(super) fn write_behind(features: &Features, end: u64, out: &mut impl Write) -> io::Result<()> {
    let sizes = features
        .own()
        .map(|(_, section)| HEAD + (section.len() as u64).next_multiple_of(8));
    let size: u64 = sizes.sum();
    if size == 0 {
        return Ok(());
    }
    let zeros = |bytes: u64| vec![0; (bytes.next_multiple_of(8) - bytes) as usize];
    let word = |value: u64| ByteOrder::NATIVE.bytes_u64(value);
    out.write_all(&zeros(end))?;
    out.write_all(MARK)?;
    out.write_all(&word(size))?;
    for (number, section) in features.own() {
        let len = section.len() as u64;
        out.write_all(&word(number.0.into()))?;
        out.write_all(&word(len))?;
        out.write_all(section)?;
        out.write_all(&zeros(len))?;
    }
    Ok(())
}

/// Appends them as records.
pub(super) fn encode_records(features: &Features, out: &mut Vec<u8>) {
    for (number, section) in features.own() {
        let whole = section.len() as u64;
        let mut at = 0;
        for part in section.chunks(MAX_RECORD_SIZE - PART_HEAD) {
            let mut record = RecordBuilder::begin(out, RecordType::EVENT_TYPE, Misc(0));
            record.bytes(MARK);
            record.u64(number.0.into());
            record.u64(whole);
            record.u64(at);
            record.bytes(part);
            let missing = LEAST_RECORD.saturating_sub(PART_HEAD + part.len());
            record.bytes(&vec![0; missing]);
            record.end_short();
            at += part.len() as u64;
        }
    }
}

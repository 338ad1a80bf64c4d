//! Sections of prof's own, encoded; the layout is described in
//! `perfdata::own`.

use super::features::Features;
use super::record::{MAX_RECORD_SIZE, RecordBuilder};
use crate::own::{HEAD, LEAST_RECORD, MARK};
use crate::{FeatureBit, Reader};
use prof_abi::{ByteOrder, Misc, RecordType};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;

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

/// Why no section can be appended to a recording.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AppendError {
    /// It is a stream or a directory, was not finished, or has bytes at its
    /// end that belong to nothing.
    #[error("it is no finished file, or something else stands at its end")]
    NoRoom,
    /// Writing failed; the recording is what it was.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Appends a section of prof's own to a finished recording, in the place of
/// the last one if that has the same number. `reader` is of this file, which is
/// open for writing.
///
/// The file is a valid recording at each moment: what is new counts when all
/// of it is there.
///
/// # Errors
/// See [`AppendError`].
pub fn append_section(
    file: &File,
    reader: &Reader,
    (bit, section): (FeatureBit, &[u8]),
) -> Result<(), AppendError> {
    let (end, file_end) = reader.own_room().ok_or(AppendError::NoRoom)?;
    let order = reader.header().order;
    let block = end.next_multiple_of(8);
    let first = block + HEAD;
    let sections = reader.features().sections().iter();
    let own = sections.filter(|one| one.bit.is_own() && one.place.offset >= first);
    let start = match own.max_by_key(|one| one.place.offset) {
        Some(last) if last.bit == bit => last.place.offset - HEAD,
        Some(last) => last.place.end().next_multiple_of(8),
        None => first,
    };
    let is_new = file_end <= first;
    if is_new {
        // Neither mark nor size yet.
        file.set_len(block)?;
    } else {
        file.write_all_at(&order.bytes_u64(start - first), block + 8)?;
        file.set_len(start)?;
    }
    let mut bytes = Vec::new();
    bytes.extend(order.bytes_u64(bit.0.into()));
    bytes.extend(order.bytes_u64(section.len() as u64));
    bytes.extend_from_slice(section);
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    let size = start - first + bytes.len() as u64;
    let undo = |error: io::Error| {
        // The disk is full: back to what was there before.
        let _ = file.set_len(if is_new { end } else { start });
        AppendError::Io(error)
    };
    file.write_all_at(&bytes, start).map_err(undo)?;
    let mut head = MARK.to_vec();
    head.extend(order.bytes_u64(size));
    file.write_all_at(&head, block).map_err(undo)?;
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

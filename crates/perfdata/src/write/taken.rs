//! What a destination has taken of records, whole ones only.

use super::record::{WholeRecords, whole_records};
use std::io::{self, Write};

/// What a recording holds whose writing failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    /// Bytes of whole records.
    pub bytes: u64,
    /// Samples among them.
    pub samples: u64,
}

/// Whole records that a destination has.
#[derive(Debug, Default)]
pub(super) struct Taken {
    pub(super) bytes: u64,
    /// Samples and records of packed ones among them.
    pub(super) samples: u64,
    pub(super) packed: u64,
}

impl Taken {
    /// Hands records to the destination; of those that it takes in part only,
    /// the whole ones count.
    ///
    /// # Errors
    /// If it does not take all.
    pub(super) fn put(&mut self, records: &[u8], out: &mut impl Write) -> io::Result<()> {
        let mut taken = 0;
        while let Some(rest) = records.get(taken..).filter(|rest| !rest.is_empty()) {
            match out.write(rest) {
                Ok(count) if count > 0 => taken += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                failed => {
                    self.count(whole_records(records.get(..taken).unwrap_or_default()));
                    return Err(failed.err().unwrap_or(io::ErrorKind::WriteZero.into()));
                }
            }
        }
        self.count(WholeRecords {
            bytes: records.len() as u64,
            ..whole_records(records)
        });
        Ok(())
    }

    fn count(&mut self, whole: WholeRecords) {
        self.bytes += whole.bytes;
        self.samples += whole.samples;
        self.packed += whole.packed;
    }
}

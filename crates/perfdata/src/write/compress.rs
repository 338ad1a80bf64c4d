//! Records packed with zstd into `COMPRESSED` records.
//!
//! All of a file is one zstd stream, flushed behind each record: a reader needs
//! the records in order, and none behind those that it has.

use super::record::whole_records;
use crate::features::Compression;
use prof_abi::{ByteOrder, RecordType};
use std::io;
use zstd::stream::raw::{Encoder, InBuffer, Operation, OutBuffer};

/// Bytes that one record unpacks to, at most. Packed they are a little longer
/// at worst, and must fit a record.
const CHUNK: usize = 60 << 10;
/// Bytes that a record has room for behind its header.
const ROOM: usize = 65_535 - HEADER;
const HEADER: usize = 8;
/// zstd, as the header's COMPRESSED section calls it.
const ZSTD: u32 = 1;

/// Packs whole records.
pub(super) struct Compressor {
    encoder: Encoder<'static>,
    level: u32,
    pending: Vec<u8>,
    /// Bytes before and after packing.
    taken: u64,
    given: u64,
    /// Samples among what was taken.
    samples: u64,
}

impl std::fmt::Debug for Compressor {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Compressor({} of {} bytes)", self.given, self.taken)
    }
}

impl Compressor {
    /// With a level of zstd, 1 (fast) to 22.
    pub(super) fn new(level: u32) -> io::Result<Self> {
        let signed = i32::try_from(level).unwrap_or(i32::MAX);
        Ok(Self {
            encoder: Encoder::new(signed)?,
            level,
            pending: Vec::new(),
            taken: 0,
            given: 0,
            samples: 0,
        })
    }

    /// Takes whole records; `out` gets what is packed.
    pub(super) fn append(&mut self, records: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        self.samples += whole_records(records).1;
        self.pending.extend_from_slice(records);
        while self.pending.len() >= CHUNK {
            self.pack(CHUNK, out)?;
        }
        Ok(())
    }

    /// Appends all that was taken to `out`.
    pub(super) fn flush(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        match self.pending.len() {
            0 => Ok(()),
            rest => self.pack(rest, out),
        }
    }

    /// Appends records with the first `length` bytes that wait.
    fn pack(&mut self, length: usize, out: &mut Vec<u8>) -> io::Result<()> {
        let chunk: Vec<u8> = self.pending.drain(..length).collect();
        self.taken += chunk.len() as u64;
        let mut input = InBuffer::around(&chunk);
        let mut room = vec![0; ROOM];
        let mut is_flushed = false;
        while !is_flushed {
            let mut packed = OutBuffer::around(&mut room[..]);
            while input.pos() < chunk.len() && packed.pos() < ROOM {
                self.encoder.run(&mut input, &mut packed)?;
            }
            if input.pos() == chunk.len() && packed.pos() < ROOM {
                is_flushed = self.encoder.flush(&mut packed)? == 0;
            }
            let packed = packed.as_slice();
            let size = u16::try_from(HEADER + packed.len()).unwrap_or(u16::MAX);
            out.extend(ByteOrder::NATIVE.bytes_u32(RecordType::COMPRESSED.0));
            out.extend(ByteOrder::NATIVE.bytes_u16(0));
            out.extend(ByteOrder::NATIVE.bytes_u16(size));
            out.extend_from_slice(packed);
            self.given += u64::from(size);
        }
        Ok(())
    }

    /// Samples among all that was taken.
    pub(super) fn samples(&self) -> u64 {
        self.samples
    }

    /// For the header.
    pub(super) fn section(&self) -> Compression {
        let ratio = self.taken.checked_div(self.given).unwrap_or(0);
        Compression {
            version: 0,
            kind: ZSTD,
            level: self.level,
            ratio: u32::try_from(ratio).unwrap_or(u32::MAX),
            mmap_len: CHUNK as u32,
        }
    }
}

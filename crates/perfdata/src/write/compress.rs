//! Records packed with zstd into `COMPRESSED` records.
//!
//! All of a file is one zstd stream, flushed behind each record: a reader needs
//! the records in order, and none behind those that it has. Records that are
//! not packed may stand between. A `HEADER_FEATURE` before the first says how
//! large a piece becomes, for perf, which otherwise has it from the header's
//! section only, and a recorder that is killed writes none.

use super::features::Features;
use super::record::whole_records;
use super::session;
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

/// Bytes for each sample from which records are packed by
/// [`Packing::DeepChains`]: a chain of some 500 frames.
const LONG: u64 = 4096;
/// The level at which they are.
const DEEP_LEVEL: u32 = 1;

/// Which records are packed with zstd.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Packing {
    /// None.
    #[default]
    Never,
    /// Those of which a sample takes more than 4 KiB: chains of thousands of
    /// frames, most of which the sample before had, too.
    DeepChains,
    /// All, at a level of zstd from 1 (fast) to 22 (small).
    All(u32),
}

/// Packs the records that [`Packing::DeepChains`] means.
#[derive(Debug, Default)]
pub(super) struct DeepChains {
    compressor: Option<Compressor>,
    packed: Vec<u8>,
}

impl DeepChains {
    /// These whole records packed, and how many samples they have, if their
    /// samples are long.
    pub(super) fn pack(&mut self, records: &[u8]) -> io::Result<Option<(&[u8], u64)>> {
        let (bytes, samples) = whole_records(records);
        if samples == 0 || bytes / samples < LONG {
            return Ok(None);
        }
        let compressor = match &mut self.compressor {
            Some(compressor) => compressor,
            none => none.insert(Compressor::new(DEEP_LEVEL)?),
        };
        self.packed.clear();
        compressor.append(records, &mut self.packed)?;
        compressor.flush(&mut self.packed)?;
        Ok(Some((&self.packed, samples)))
    }

    /// For the header, if anything was packed.
    pub(super) fn section(&self) -> Option<Compression> {
        self.compressor.as_ref().map(Compressor::section)
    }
}

/// Packs whole records.
pub(super) struct Compressor {
    encoder: Encoder<'static>,
    level: u32,
    is_announced: bool,
    pending: Vec<u8>,
    /// For one record.
    room: Vec<u8>,
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
            is_announced: false,
            pending: Vec::new(),
            room: Vec::new(),
            taken: 0,
            given: 0,
            samples: 0,
        })
    }

    /// Takes whole records; `out` gets what is packed.
    pub(super) fn append(&mut self, records: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        self.samples += whole_records(records).1;
        let missing = match self.pending.len() {
            0 => 0,
            some => CHUNK.saturating_sub(some).min(records.len()),
        };
        let (first, rest) = records.split_at(missing);
        self.pending.extend_from_slice(first);
        if self.pending.len() >= CHUNK {
            self.flush(out)?;
        }
        let chunks = rest.chunks_exact(CHUNK);
        self.pending.extend_from_slice(chunks.remainder());
        chunks
            .into_iter()
            .try_for_each(|chunk| self.pack(chunk, out))
    }

    /// Appends all that was taken to `out`.
    pub(super) fn flush(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        let mut pending = std::mem::take(&mut self.pending);
        let packed = match pending.is_empty() {
            true => Ok(()),
            false => self.pack(&pending, out),
        };
        pending.clear();
        self.pending = pending;
        packed
    }

    /// Appends records with these bytes.
    fn pack(&mut self, chunk: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        if !std::mem::replace(&mut self.is_announced, true) {
            self.announce(out);
        }
        self.taken += chunk.len() as u64;
        self.room.resize(ROOM, 0);
        let mut input = InBuffer::around(chunk);
        let mut is_flushed = false;
        while !is_flushed {
            let mut packed = OutBuffer::around(&mut self.room[..]);
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

    /// Appends the feature, as a record.
    fn announce(&self, out: &mut Vec<u8>) {
        let mut features = Features::default();
        features.compression(&self.section());
        for (bit, section) in features.iter() {
            let fits = session::feature(bit, section, out).is_ok();
            debug_assert!(fits, "five numbers");
        }
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

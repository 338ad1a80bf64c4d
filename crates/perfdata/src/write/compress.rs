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

/// The level at which they are.
const DEEP_LEVEL: u32 = 1;

/// Which records are packed with zstd.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Packing {
    /// None.
    #[default]
    Never,
    /// Those of which samples of 4 KiB and more take half: chains of hundreds or
    /// thousands of frames, most of which the sample before had, too.
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
    /// These whole records packed, if long samples take half of them.
    pub(super) fn pack(&mut self, records: &[u8]) -> io::Result<Option<&[u8]>> {
        let whole = whole_records(records);
        if whole.long == 0 || whole.long < whole.bytes / 2 {
            return Ok(None);
        }
        let compressor = match &mut self.compressor {
            Some(compressor) => compressor,
            none => none.insert(Compressor::new(DEEP_LEVEL)?),
        };
        self.packed.clear();
        compressor.append(records, &mut self.packed)?;
        compressor.flush(&mut self.packed)?;
        Ok(Some(&self.packed))
    }

    /// For the header, if anything was packed.
    pub(super) fn section(&self) -> Option<Compression> {
        self.compressor.as_ref().map(Compressor::section)
    }

    /// See [`Compressor::samples_in`].
    pub(super) fn samples_in(&self, records: u64) -> u64 {
        let compressor = self.compressor.as_ref();
        compressor.map_or(0, |compressor| compressor.samples_in(records))
    }
}

/// Counts samples in whole records that come in pieces of any size.
#[derive(Debug, Default)]
struct SampleCount {
    /// That have come whole.
    samples: u64,
    /// Bytes of the last record that are still to come, and whether it is a
    /// sample.
    missing: usize,
    is_sample: bool,
}

impl SampleCount {
    /// The next piece; records and pieces begin at multiples of 8 bytes, so
    /// that no header is cut.
    fn add(&mut self, piece: &[u8]) {
        let order = ByteOrder::NATIVE;
        let mut at = 0;
        while let Some(rest) = piece.get(at..).filter(|rest| !rest.is_empty()) {
            if self.missing == 0 {
                let (Some(kind), Some(size)) = (order.u32(rest, 0), order.u16(rest, 6)) else {
                    return;
                };
                self.is_sample = RecordType(kind) == RecordType::SAMPLE;
                self.missing = usize::from(size).max(8);
            }
            let here = self.missing.min(rest.len());
            self.missing -= here;
            at += here;
            self.samples += u64::from(self.missing == 0 && self.is_sample);
        }
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
    count: SampleCount,
    /// For each record given, the samples in it and in all before.
    samples_until: Vec<u64>,
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
            count: SampleCount::default(),
            samples_until: Vec::new(),
        })
    }

    /// Takes whole records; `out` gets what is packed.
    pub(super) fn append(&mut self, records: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
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
        let before = self.count.samples;
        self.count.add(chunk);
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
            // What is not flushed does not come out.
            let samples = if is_flushed {
                self.count.samples
            } else {
                before
            };
            self.samples_until.push(samples);
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

    /// Whole samples in the first so many of the records given.
    pub(super) fn samples_in(&self, records: u64) -> u64 {
        let last = records.checked_sub(1).map(|last| last as usize);
        last.and_then(|last| self.samples_until.get(last))
            .copied()
            .unwrap_or(0)
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

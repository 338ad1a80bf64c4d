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
}

impl DeepChains {
    /// Takes pieces of whole records, and appends to `out` what there is to be
    /// written: packed, if long samples take half of them. The end of that may
    /// come with a [`DeepChains::flush`] only.
    pub(super) fn pack(&mut self, pieces: [&[u8]; 2], out: &mut Vec<u8>) -> io::Result<()> {
        let whole = pieces.map(whole_records);
        let long: u64 = whole.iter().map(|whole| whole.long).sum();
        let bytes: u64 = whole.iter().map(|whole| whole.bytes).sum();
        if long == 0 || long < bytes / 2 {
            self.flush(out)?;
            pieces.iter().for_each(|piece| out.extend_from_slice(piece));
            return Ok(());
        }
        let compressor = match &mut self.compressor {
            Some(compressor) => compressor,
            none => none.insert(Compressor::new(DEEP_LEVEL)?),
        };
        let mut pieces = pieces.iter();
        pieces.try_for_each(|piece| compressor.append(piece, out))
    }

    /// Appends the rest of what was taken.
    pub(super) fn flush(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        let compressor = self.compressor.as_mut();
        compressor.map_or(Ok(()), |compressor| compressor.flush(out))
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
    /// Bytes taken since the last flush.
    open: usize,
    /// The next record, without its header, and how much there is of it.
    room: Vec<u8>,
    filled: usize,
    /// Bytes before and after packing.
    taken: u64,
    given: u64,
    count: SampleCount,
    /// Samples that had come whole at the last flush.
    flushed: u64,
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
            open: 0,
            room: vec![0; ROOM],
            filled: 0,
            taken: 0,
            given: 0,
            count: SampleCount::default(),
            flushed: 0,
            samples_until: Vec::new(),
        })
    }

    /// Takes whole records; `out` gets what is packed, the last of it with a
    /// [`Compressor::flush`].
    pub(super) fn append(&mut self, records: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        let mut rest = records;
        while !rest.is_empty() {
            let size = rest.len().min(CHUNK - self.open);
            let (chunk, behind) = rest.split_at(size);
            self.take(chunk, out)?;
            if self.open == CHUNK {
                self.flush(out)?;
            }
            rest = behind;
        }
        Ok(())
    }

    /// Takes bytes that are flushed together.
    fn take(&mut self, chunk: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        if !std::mem::replace(&mut self.is_announced, true) {
            self.announce(out);
        }
        self.taken += chunk.len() as u64;
        self.open += chunk.len();
        self.count.add(chunk);
        let mut input = InBuffer::around(chunk);
        while input.pos() < chunk.len() {
            let mut packed = OutBuffer::around_pos(&mut self.room[..], self.filled);
            self.encoder.run(&mut input, &mut packed)?;
            self.filled = packed.pos();
            if self.filled == ROOM {
                // What is not flushed does not come out.
                self.give(self.flushed, out);
            }
        }
        Ok(())
    }

    /// Appends all that was taken to `out`.
    pub(super) fn flush(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        if self.open == 0 {
            return Ok(());
        }
        let mut left = 1;
        while left > 0 {
            let mut packed = OutBuffer::around_pos(&mut self.room[..], self.filled);
            left = self.encoder.flush(&mut packed)?;
            self.filled = packed.pos();
            if left == 0 {
                self.flushed = self.count.samples;
            }
            self.give(self.flushed, out);
        }
        self.open = 0;
        Ok(())
    }

    /// Appends the record that was filled, with which so many samples can be
    /// read.
    fn give(&mut self, samples: u64, out: &mut Vec<u8>) {
        let size = u16::try_from(HEADER + self.filled).unwrap_or(u16::MAX);
        out.extend(ByteOrder::NATIVE.bytes_u32(RecordType::COMPRESSED.0));
        out.extend(ByteOrder::NATIVE.bytes_u16(0));
        out.extend(ByteOrder::NATIVE.bytes_u16(size));
        out.extend_from_slice(self.room.get(..self.filled).unwrap_or_default());
        self.given += u64::from(size);
        self.samples_until.push(samples);
        self.filled = 0;
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

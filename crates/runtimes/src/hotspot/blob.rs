//! Code blobs: what is in front of a piece of code.
//!
//! From JDK 9 to 22 a blob has the addresses of its parts. In JDK 8 and since 23 it has how
//! far they are from it, in 4 bytes each. Where its whole frame is there has 2 bytes since
//! 23.

use super::tables::Tables;
use crate::memory::{Memory, slice};

/// What may be read of a blob, bytes.
const MAX_LENGTH: u64 = 1024;

/// Offsets of a blob's fields, bytes.
#[derive(Debug)]
pub(super) struct Fields {
    name: u64,
    frame_complete: u64,
    frame_size: u64,
    code: u64,
    end: u64,
    /// Not in each version.
    deopt: Option<u64>,
    method: u64,
    /// Places are told by how far they are from the blob.
    is_relative: bool,
    /// [`Self::frame_complete`] has 2 bytes.
    is_short: bool,
    /// How much of a blob holds all of these.
    length: usize,
    /// From a block's start: the blob, and the byte that is 1 where the block is used.
    header: u64,
    used: u64,
}

/// A blob, of a method or of something else.
#[derive(Debug, Clone, Copy)]
pub(super) struct Blob {
    pub(super) is_used: bool,
    /// The address of its name.
    pub(super) name: u64,
    /// Its code, from the first up to the second address.
    pub(super) start: u64,
    pub(super) end: u64,
    /// How far into its code the whole frame is there, bytes; less than 0 if never.
    pub(super) frame_complete: i32,
    /// Words of its frame, with the return address.
    pub(super) frame_size: i32,
    /// Only of methods: where callees return to once assumptions failed, and the method.
    pub(super) deopt: u64,
    pub(super) method: u64,
}

impl Fields {
    pub(super) fn of(tables: &Tables) -> Option<Self> {
        let blob = |name: &str| tables.field(&format!("CodeBlob::{name}"));
        let method = |name: &str| {
            let of = |class: &str| tables.field(&format!("{class}::{name}"));
            of("CompiledMethod").or_else(|| of("nmethod"))
        };
        let relative = blob("_code_offset");
        let is_relative = relative.is_some();
        let (code, end, deopt) = match relative {
            Some(code) => (
                code,
                blob("_data_offset")?,
                method("_deopt_handler_offset").or_else(|| method("_deoptimize_offset")),
            ),
            None => (
                blob("_code_begin")?,
                blob("_code_end")?,
                method("_deopt_handler_begin"),
            ),
        };
        let header = tables.field("HeapBlock::_header")?;
        let mut fields = Self {
            name: blob("_name")?,
            frame_complete: blob("_frame_complete_offset")?,
            frame_size: blob("_frame_size")?,
            code,
            end,
            deopt,
            method: method("_method")?,
            is_relative,
            is_short: tables.is_short("CodeBlob::_frame_complete_offset"),
            length: 0,
            header: tables.size("HeapBlock")?,
            used: header.checked_add(tables.field("HeapBlock::Header::_used")?)?,
        };
        let last = [
            fields.name,
            fields.frame_complete,
            fields.frame_size,
            code,
            end,
            deopt.unwrap_or(0),
            fields.method,
        ];
        let length = last.into_iter().max()?.checked_add(8)?;
        fields.length = usize::try_from(length)
            .ok()
            .filter(|_| length <= MAX_LENGTH)?;
        Some(fields)
    }

    /// The blob in the block at an address.
    pub(super) fn read(&self, block: u64, memory: &mut impl Memory) -> Option<Blob> {
        let at = block.checked_add(self.header)?;
        let header = usize::try_from(self.header).ok()?;
        let bytes = slice(memory, block, header.checked_add(self.length)?)?;
        let is_used = bytes.get(usize::try_from(self.used).ok()?) == Some(&1);
        let bytes = bytes.get(header..)?;
        let field = |field: u64| bytes.get(usize::try_from(field).ok()?..);
        let word = |at: u64| field(at)?.first_chunk().map(|it| u64::from_le_bytes(*it));
        let int = |at: u64| field(at)?.first_chunk().map(|it| i32::from_le_bytes(*it));
        let short = |at: u64| field(at)?.first_chunk().map(|it| i16::from_le_bytes(*it));
        let place = |field: u64| match self.is_relative {
            true => Some(at.wrapping_add_signed(int(field)?.into())),
            false => word(field),
        };
        let blob = Blob {
            is_used,
            name: word(self.name)?,
            start: place(self.code)?,
            end: place(self.end)?,
            frame_complete: match self.is_short {
                true => short(self.frame_complete)?.into(),
                false => int(self.frame_complete)?,
            },
            frame_size: int(self.frame_size)?,
            deopt: self.deopt.and_then(place).unwrap_or(0),
            method: word(self.method)?,
        };
        (blob.start > at).then_some(blob)
    }
}

impl Blob {
    /// Whether an address is in its code.
    pub(super) fn has(&self, pc: u64) -> bool {
        (self.start..self.end).contains(&pc)
    }
}

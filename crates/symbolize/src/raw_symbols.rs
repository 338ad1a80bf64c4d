//! The entries of symbol tables, as files have them.

use crate::elf::{Image, Section};
use crate::words::{u16_at, u32_at, u64_at};
use object::{Endianness, elf};
use std::ops::Range;

/// A symbol table entry, widened to 64 bits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawSymbol {
    pub(crate) name: u32,
    pub(crate) info: u8,
    pub(crate) other: u8,
    pub(crate) section: u16,
    pub(crate) value: u64,
    pub(crate) size: u64,
}

/// A symbol table section that makes sense, and the range of its strings.
pub(crate) fn symbols_and_strings<'a>(
    image: &'a Image,
    name: &str,
) -> Option<(&'a Section, Range<usize>)> {
    let section = image.section(name)?;
    if section.kind != elf::SHT_SYMTAB && section.kind != elf::SHT_DYNSYM {
        return None;
    }
    let strings = image.sections.get(section.link as usize)?;
    Some((section, image.range_of(strings)?))
}

/// The entries of a symbol table section.
pub(crate) fn raw_symbols<'a>(
    image: &'a Image,
    section: &Section,
) -> impl Iterator<Item = RawSymbol> + 'a {
    let (data, endian) = (image.data(section), image.endian);
    let (longs, words) = if image.is_64 {
        (data.as_chunks().0, [].as_slice())
    } else {
        ([].as_slice(), data.as_chunks().0)
    };
    let longs = longs
        .iter()
        .filter_map(move |it| RawSymbol::of_64(it, endian));
    longs.chain(
        words
            .iter()
            .filter_map(move |it| RawSymbol::of_32(it, endian)),
    )
}

impl RawSymbol {
    /// Bytes of an entry.
    pub(crate) fn size(image: &Image) -> usize {
        if image.is_64 { 24 } else { 16 }
    }

    /// Decodes an `Elf64_Sym`: u32 name, u8 info, u8 other, u16 section, u64
    /// value, u64 size.
    #[inline]
    fn of_64(bytes: &[u8; 24], endian: Endianness) -> Option<Self> {
        Some(Self {
            name: u32_at(bytes, 0, endian)?,
            info: bytes[4],
            other: bytes[5],
            section: u16_at(bytes, 6, endian)?,
            value: u64_at(bytes, 8, endian)?,
            size: u64_at(bytes, 16, endian)?,
        })
    }

    /// Decodes an `Elf32_Sym`: u32 name, u32 value, u32 size, u8 info, u8
    /// other, u16 section.
    #[inline]
    fn of_32(bytes: &[u8; 16], endian: Endianness) -> Option<Self> {
        Some(Self {
            name: u32_at(bytes, 0, endian)?,
            info: bytes[12],
            other: bytes[13],
            section: u16_at(bytes, 14, endian)?,
            value: u32_at(bytes, 4, endian)?.into(),
            size: u32_at(bytes, 8, endian)?.into(),
        })
    }

    /// Its type.
    pub(crate) fn kind(&self) -> elf::SymbolType {
        elf::SymbolType(self.info & 0xf)
    }

    /// Whether its visibility is hidden or internal.
    pub(crate) fn is_hidden(&self) -> bool {
        matches!(self.other & 3, 1 | 2)
    }
}

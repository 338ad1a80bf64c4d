//! An ELF file of any class and byte order, read in place.
//!
//! [`Image`] keeps the file's bytes and an index of its sections and segments;
//! it borrows nothing, so that everything built on it can be cached and shared
//! between threads. Section data is looked up by range on each use, which is
//! two comparisons.

use crate::contents::Contents;
use crate::unpack;
use crate::words::u32_at;
use object::Endianness;
use object::elf;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};
use prof_abi::BuildId;
use prof_profile::{FileOffset, Svma};
use std::borrow::Cow;
use std::ops::Range;

/// More sections than any linker makes for a program or library; object files
/// of huge C++ programs have some hundred thousand and are not profiled.
const SECTIONS_MAX: usize = 1 << 16;

/// A parsed ELF file and its bytes.
#[derive(Debug)]
pub(crate) struct Image {
    contents: Contents,
    pub(crate) endian: Endianness,
    pub(crate) is_64: bool,
    pub(crate) machine: elf::Machine,
    pub(crate) sections: Vec<Section>,
    pub(crate) segments: Vec<Segment>,
    section_names: Range<usize>,
}

/// A section header, widened to 64 bits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Section {
    /// Offset of the name in the section name table.
    name: u32,
    pub(crate) kind: elf::SectionType,
    pub(crate) flags: u64,
    pub(crate) address: u64,
    pub(crate) offset: u64,
    pub(crate) size: u64,
    pub(crate) link: u32,
    pub(crate) entry_size: u64,
}

/// A program header, widened to 64 bits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Segment {
    pub(crate) kind: elf::ProgramType,
    pub(crate) is_executable: bool,
    pub(crate) offset: u64,
    pub(crate) address: u64,
    pub(crate) file_size: u64,
}

impl Image {
    /// Reads the headers. Sections or segments whose tables lie outside the
    /// file are left out; only a bad ELF header is an error.
    pub(crate) fn parse(contents: Contents) -> Result<Self, String> {
        let class = contents.bytes().get(4).copied();
        match class {
            Some(2) => Self::parse_class::<elf::FileHeader64<Endianness>>(contents, true),
            Some(1) => Self::parse_class::<elf::FileHeader32<Endianness>>(contents, false),
            _ => Err("neither a 32-bit nor a 64-bit ELF file".to_owned()),
        }
    }

    fn parse_class<Elf>(contents: Contents, is_64: bool) -> Result<Self, String>
    where
        Elf: FileHeader<Endian = Endianness>,
    {
        let data = contents.bytes();
        let header = Elf::parse(data).map_err(|error| error.to_string())?;
        let endian = header.endian().map_err(|error| error.to_string())?;
        let segments = header
            .program_headers(endian, data)
            .unwrap_or_default()
            .iter()
            .map(|segment| Segment::widen::<Elf>(segment, endian))
            .collect();
        let headers = header.section_headers(endian, data).unwrap_or_default();
        let sections: Vec<Section> = headers
            .iter()
            .take(SECTIONS_MAX)
            .map(|section| Section::widen::<Elf>(section, endian))
            .collect();
        let section_names = header
            .shstrndx(endian, data)
            .ok()
            .and_then(|index| sections.get(usize::try_from(index).ok()?))
            .and_then(|section| section.file_range(data.len()))
            .unwrap_or(0..0);
        let machine = header.e_machine(endian);
        Ok(Self {
            contents,
            endian,
            is_64,
            machine,
            sections,
            segments,
            section_names,
        })
    }

    /// See [`Contents::release_pages`].
    pub(crate) fn release_pages(&self) {
        self.contents.release_pages();
    }

    /// See [`Contents::read_ahead`].
    pub(crate) fn read_ahead(&self, range: Range<usize>) {
        self.contents.read_ahead(range);
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.contents.bytes()
    }

    /// A section's name, without its NUL; empty if it lies outside the table.
    pub(crate) fn name_of(&self, section: &Section) -> &[u8] {
        self.bytes()
            .get(self.section_names.clone())
            .and_then(|names| names.get(section.name as usize..))
            .map(until_nul)
            .unwrap_or_default()
    }

    pub(crate) fn section(&self, name: &str) -> Option<&Section> {
        self.sections
            .iter()
            .find(|section| self.name_of(section) == name.as_bytes())
    }

    /// A section's bytes as they stand in the file; empty if it has none or
    /// if they lie outside the file.
    pub(crate) fn data(&self, section: &Section) -> &[u8] {
        self.range_of(section)
            .and_then(|range| self.bytes().get(range))
            .unwrap_or_default()
    }

    pub(crate) fn range_of(&self, section: &Section) -> Option<Range<usize>> {
        section.file_range(self.bytes().len())
    }

    /// A section's bytes, decompressed where needed.
    pub(crate) fn unpacked(&self, section: &Section) -> Result<Cow<'_, [u8]>, String> {
        let data = self.data(section);
        if section.flags & elf::SHF_COMPRESSED.0 != 0 {
            unpack::elf_section(data, self.endian, self.is_64).map(Cow::Owned)
        } else if self.name_of(section).starts_with(b".zdebug_") {
            unpack::gnu_section(data).map(Cow::Owned)
        } else {
            Ok(Cow::Borrowed(data))
        }
    }

    /// The `NT_GNU_BUILD_ID` note, from note sections or else note segments.
    pub(crate) fn build_id(&self) -> Option<BuildId> {
        let sections = self.sections.iter().filter(|it| it.kind == elf::SHT_NOTE);
        let segments = self.segments.iter().filter(|it| it.kind == elf::PT_NOTE);
        sections
            .map(|section| self.data(section))
            .chain(segments.map(|segment| {
                file_range(segment.offset, segment.file_size, self.bytes().len())
                    .and_then(|range| self.bytes().get(range))
                    .unwrap_or_default()
            }))
            .find_map(|notes| build_id_in_notes(notes, self.endian))
    }

    /// The name and the CRC of the separate debug file, from
    /// `.gnu_debuglink`: name, NUL, padding to four bytes, CRC-32.
    pub(crate) fn debug_link(&self) -> Option<(&[u8], u32)> {
        let data = self.data(self.section(".gnu_debuglink")?);
        let name = until_nul(data);
        let crc_at = (name.len() + 1).next_multiple_of(4);
        Some((name, u32_at(data, crc_at, self.endian)?))
    }

    /// The name and build-id of the supplementary file that `dwz` made, from
    /// `.gnu_debugaltlink`: name, NUL, build-id.
    pub(crate) fn supplementary_link(&self) -> Option<(&[u8], BuildId)> {
        let data = self.data(self.section(".gnu_debugaltlink")?);
        let name = until_nul(data);
        let id = BuildId::new(data.get(name.len() + 1..)?)?;
        Some((name, id))
    }

    /// Where the byte at a file offset is in the file's address space.
    /// Executable segments win where segments share a page of the file.
    pub(crate) fn svma_of(&self, offset: FileOffset) -> Option<Svma> {
        let in_segment = |segment: &&Segment| {
            segment.kind == elf::PT_LOAD
                && offset
                    .0
                    .checked_sub(segment.offset)
                    .is_some_and(|into| into < segment.file_size)
        };
        let segments = || self.segments.iter().filter(in_segment);
        let segment = segments()
            .find(|segment| segment.is_executable)
            .or_else(|| segments().next())?;
        Some(Svma(
            segment.address.wrapping_add(offset.0 - segment.offset),
        ))
    }

    /// Bytes of the file that are mapped at `svma`, up to `length` of them.
    pub(crate) fn bytes_at(&self, svma: Svma, length: u64) -> Option<&[u8]> {
        let segment = self.segments.iter().find(|segment| {
            segment.kind == elf::PT_LOAD
                && svma
                    .0
                    .checked_sub(segment.address)
                    .is_some_and(|into| into < segment.file_size)
        })?;
        let into = svma.0 - segment.address;
        let length = length.min(segment.file_size - into);
        let range = file_range(
            segment.offset.checked_add(into)?,
            length,
            self.bytes().len(),
        )?;
        self.bytes().get(range)
    }

    /// Whether the file has the section and bytes for it.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.section(name)
            .is_some_and(|section| section.size > 0 && section.kind != elf::SHT_NOBITS)
    }
}

impl Section {
    fn widen<Elf: FileHeader>(section: &Elf::SectionHeader, endian: Elf::Endian) -> Self {
        Self {
            name: section.sh_name(endian),
            kind: section.sh_type(endian),
            flags: section.sh_flags(endian).0,
            address: section.sh_addr(endian).into(),
            offset: section.sh_offset(endian).into(),
            size: section.sh_size(endian).into(),
            link: section.sh_link(endian),
            entry_size: section.sh_entsize(endian).into(),
        }
    }

    fn file_range(&self, file_length: usize) -> Option<Range<usize>> {
        if self.kind == elf::SHT_NOBITS || self.kind == elf::SHT_NULL {
            return None;
        }
        file_range(self.offset, self.size, file_length)
    }
}

impl Segment {
    fn widen<Elf: FileHeader>(segment: &Elf::ProgramHeader, endian: Elf::Endian) -> Self {
        Self {
            kind: segment.p_type(endian),
            is_executable: segment.p_flags(endian).0 & elf::PF_X.0 != 0,
            offset: segment.p_offset(endian).into(),
            address: segment.p_vaddr(endian).into(),
            file_size: segment.p_filesz(endian).into(),
        }
    }
}

/// `offset..offset + size` if it lies within the file.
fn file_range(offset: u64, size: u64, file_length: usize) -> Option<Range<usize>> {
    let start = usize::try_from(offset).ok()?;
    let end = start.checked_add(usize::try_from(size).ok()?)?;
    (end <= file_length).then_some(start..end)
}

/// The bytes before the first NUL, or all of them.
pub(crate) fn until_nul(bytes: &[u8]) -> &[u8] {
    let end = memchr::memchr(0, bytes);
    bytes.get(..end.unwrap_or(bytes.len())).unwrap_or(bytes)
}

/// Finds the build-id among ELF notes. Each note: u32 name size, u32
/// descriptor size, u32 type, name and descriptor, both padded to four bytes.
pub(crate) fn build_id_in_notes(mut notes: &[u8], endian: Endianness) -> Option<BuildId> {
    const NT_GNU_BUILD_ID: u32 = 3;
    while let Some((header, rest)) = notes.split_first_chunk::<12>() {
        let word = |at: usize| u32_at(header, at, endian);
        let (name_size, size, kind) = (word(0)? as usize, word(4)? as usize, word(8)?);
        let start = name_size.checked_next_multiple_of(4)?;
        let name = rest.get(..name_size)?;
        let descriptor = rest.get(start..start.checked_add(size)?)?;
        if kind == NT_GNU_BUILD_ID && name == b"GNU\0" {
            return BuildId::new(descriptor);
        }
        notes = rest.get(start.checked_add(size.checked_next_multiple_of(4)?)?..)?;
    }
    None
}

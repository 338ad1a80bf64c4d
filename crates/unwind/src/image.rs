//! What unwinding needs of an ELF file: segments, unwind sections, PLTs.

use crate::Source;
use object::elf;
use object::read::ReadCache;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};
use object::{Endianness, ReadRef};
use prof_abi::BuildId;
use prof_profile::{FileOffset, Svma};
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::sync::Arc;

/// More program or section headers than any real file has.
const MAX_HEADERS: usize = 1 << 16;
/// The longest part of the notes that is searched, in bytes.
const MAX_NOTES: u64 = 1 << 16;
/// The longest `.debug_frame` or unindexed `.eh_frame` read, in bytes.
const MAX_SCANNED: u64 = 128 << 20;

/// Why a file gives no unwind information.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// The file could not be read.
    #[error("cannot read the file for its unwind sections: {0}")]
    Io(#[from] io::Error),
    /// Not an ELF file, or its headers are damaged.
    #[error("cannot read ELF headers for unwind sections: {0}")]
    Elf(#[from] object::Error),
    /// More headers than any real file has.
    #[error("the ELF file says it has {found} headers, more than {MAX_HEADERS}")]
    TooManyHeaders {
        /// How many it says.
        found: usize,
    },
}

/// A `PT_LOAD` segment.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Segment {
    /// Addresses that are backed by the file.
    svma: Range<u64>,
    /// Where in the file the first is.
    offset: u64,
    executable: bool,
}

/// The program headers of an ELF file: which parts are loaded at which
/// addresses.
#[derive(Debug, Clone)]
pub struct Layout(Arc<[Segment]>);

impl Layout {
    /// The address (svma) at which an executable mapping of `len` bytes from
    /// file offset `offset` starts. The offset is a page's, so the segment
    /// itself may begin behind it.
    pub fn svma_of_mapping(&self, offset: FileOffset, len: u64) -> Option<Svma> {
        let end = offset.0.saturating_add(len.max(1));
        let segment = self.0.iter().find(|segment| {
            let size = segment.svma.end - segment.svma.start;
            segment.executable
                && segment.offset < end
                && segment.offset.saturating_add(size) > offset.0
        })?;
        let delta = segment.svma.start.wrapping_sub(segment.offset);
        Some(Svma(offset.0.wrapping_add(delta)))
    }
}

/// A section by its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Section {
    /// Addresses, for those that are loaded.
    pub(crate) svma: Range<u64>,
    /// Bytes of the file.
    pub(crate) file: Range<u64>,
    compressed: bool,
    /// The section's position in the header table.
    number: usize,
}

/// An ELF file as unwinding sees it.
#[derive(Debug)]
pub(crate) struct Image {
    source: Source,
    is_64: bool,
    segments: Vec<Segment>,
    /// Address range of the `.eh_frame_hdr`, from `PT_GNU_EH_FRAME`.
    pub(crate) eh_frame_hdr: Option<Range<u64>>,
    pub(crate) eh_frame: Option<Section>,
    pub(crate) debug_frame: Option<Section>,
    pub(crate) text: Option<Section>,
    pub(crate) got: Option<Section>,
    /// Symbol tables.
    pub(crate) symbols: Vec<Section>,
    /// The table of all symbols, and their names.
    pub(crate) all_symbols: Option<Section>,
    pub(crate) names: Option<Section>,
    /// The same of the symbols that the dynamic linker knows.
    pub(crate) dynamic: Option<Section>,
    pub(crate) dynamic_names: Option<Section>,
    /// Address of a Go program's function table, if a section tells it.
    pub(crate) go_table: Option<u64>,
    /// There are section headers, and none of them is of a Go program.
    is_not_go: bool,
    /// Address ranges of procedure linkage tables.
    pub(crate) plts: Vec<Range<u64>>,
    /// Parts of the file with notes.
    notes: Vec<Range<u64>>,
    /// Where execution begins; 0 in files that are not programs.
    pub(crate) entry: u64,
}

impl Image {
    /// Reads the headers.
    pub(crate) fn parse(source: Source) -> Result<Self, ImageError> {
        let mut ident = [0; 5];
        source.read_exact(0, &mut ident);
        let is_64 = ident.last() == Some(&elf::ELFCLASS64.0);
        let mut image = Self::empty(source, is_64);
        if is_64 {
            image.read_headers::<elf::FileHeader64<Endianness>>()?;
        } else {
            image.read_headers::<elf::FileHeader32<Endianness>>()?;
        }
        Ok(image)
    }

    /// An `.eh_frame` of 64 bits without a file, which counts as standing at
    /// an address; addresses in it may be relative to `text`.
    pub(crate) fn of_eh_frame(start: u64, bytes: Vec<u8>, text: u64) -> Self {
        let len = bytes.len() as u64;
        let mut image = Self::empty(Source::Bytes(bytes.into()), true);
        image.eh_frame = Some(Section {
            svma: start..start.saturating_add(len),
            file: 0..len,
            compressed: false,
            number: 0,
        });
        image.text = Some(Section {
            svma: text..text,
            file: 0..0,
            compressed: false,
            number: 0,
        });
        image.is_not_go = true;
        image
    }

    /// A `.debug_frame` of 64 bits without a file.
    pub(crate) fn of_debug_frame(bytes: Vec<u8>) -> Self {
        let len = bytes.len() as u64;
        let mut image = Self::empty(Source::Bytes(bytes.into()), true);
        image.debug_frame = Some(Section {
            svma: 0..len,
            file: 0..len,
            compressed: false,
            number: 0,
        });
        image.is_not_go = true;
        image
    }

    fn empty(source: Source, is_64: bool) -> Self {
        Self {
            source,
            is_64,
            segments: Vec::new(),
            eh_frame_hdr: None,
            eh_frame: None,
            debug_frame: None,
            text: None,
            got: None,
            symbols: Vec::new(),
            all_symbols: None,
            names: None,
            dynamic: None,
            dynamic_names: None,
            go_table: None,
            is_not_go: false,
            plts: Vec::new(),
            notes: Vec::new(),
            entry: 0,
        }
    }

    fn read_headers<Elf: FileHeader<Endian = Endianness>>(&mut self) -> Result<(), ImageError> {
        let source = std::mem::replace(&mut self.source, Source::Bytes([].into()));
        let cache = ReadCache::new(SourceReader {
            source: &source,
            position: 0,
        });
        let outcome = self.read_headers_of::<Elf, _>(&cache);
        self.source = source;
        outcome
    }

    fn read_headers_of<'data, Elf, R>(&mut self, data: R) -> Result<(), ImageError>
    where
        Elf: FileHeader<Endian = Endianness>,
        R: ReadRef<'data>,
    {
        let header = Elf::parse(data)?;
        let endian = header.endian()?;
        self.entry = header.e_entry(endian).into();
        for found in [
            header.phnum(endian, data)?,
            header.shnum(endian, data).unwrap_or(0),
        ] {
            if found as usize > MAX_HEADERS {
                return Err(ImageError::TooManyHeaders {
                    found: found as usize,
                });
            }
        }
        for segment in header.program_headers(endian, data)? {
            let svma: u64 = segment.p_vaddr(endian).into();
            let size: u64 = segment.p_filesz(endian).into();
            self.add_segment(
                segment.p_type(endian),
                Segment {
                    svma: svma..svma.saturating_add(size),
                    offset: segment.p_offset(endian).into(),
                    executable: segment.p_flags(endian).0 & elf::PF_X.0 != 0,
                },
                size,
            );
        }
        // A file without section headers still has its segments.
        let Ok(sections) = header.sections(endian, data) else {
            return Ok(());
        };
        self.is_not_go = !sections.is_empty();
        for (number, section) in sections.enumerate() {
            let number = number.0;
            if section.sh_type(endian) == elf::SHT_NOBITS {
                continue;
            }
            let name = sections.section_name(endian, section).unwrap_or_default();
            let svma: u64 = section.sh_addr(endian).into();
            let offset: u64 = section.sh_offset(endian).into();
            let size: u64 = section.sh_size(endian).into();
            let compressed = section.sh_flags(endian).contains(elf::SHF_COMPRESSED);
            self.add_section(
                name,
                Section {
                    svma: svma..svma.saturating_add(size),
                    file: offset..offset.saturating_add(size),
                    compressed,
                    number,
                },
            );
        }
        Ok(())
    }

    /// Takes in a segment of this kind that has so many bytes in the file.
    fn add_segment(&mut self, kind: elf::ProgramType, segment: Segment, size: u64) {
        let offset = segment.offset;
        match kind {
            elf::PT_LOAD => self.segments.push(segment),
            elf::PT_GNU_EH_FRAME => self.eh_frame_hdr = Some(segment.svma),
            elf::PT_NOTE => self.notes.push(offset..offset.saturating_add(size)),
            _ => {}
        }
    }

    fn add_section(&mut self, name: &[u8], section: Section) {
        match name {
            b".eh_frame" => self.eh_frame = Some(section),
            b".debug_frame" | b".zdebug_frame" => self.debug_frame = Some(section),
            b".text" => self.text = Some(section),
            b".got" => self.got = Some(section),
            b".gopclntab" | b".data.rel.ro.gopclntab" => self.go_table = Some(section.svma.start),
            b".symtab" => {
                self.all_symbols = Some(section.clone());
                self.symbols.push(section);
            }
            b".dynsym" => {
                self.dynamic = Some(section.clone());
                self.symbols.push(section);
            }
            b".dynstr" => self.dynamic_names = Some(section),
            b".strtab" => self.names = Some(section),
            b".go.buildinfo" | b".note.go.buildid" => self.is_not_go = false,
            b".plt" | b".plt.got" | b".plt.sec" | b".iplt" => self.plts.push(section.svma),
            _ => {}
        }
    }

    /// The file's `NT_GNU_BUILD_ID` note, if it has one.
    pub(crate) fn build_id(&self) -> Option<BuildId> {
        self.notes.iter().find_map(|range| {
            let len = range.end - range.start;
            let bytes = self.source.read_vec(range.start, len.min(MAX_NOTES))?;
            build_id_in(&bytes)
        })
    }

    /// Bytes of memory that it takes, about.
    pub(crate) fn held_bytes(&self) -> usize {
        size_of::<Self>() + self.source.held_bytes()
    }

    /// Forgets what can be read from the file again.
    pub(crate) fn forget_read(&mut self) {
        self.source.forget_read();
    }

    /// Bytes in an address of this file.
    pub(crate) fn address_size(&self) -> u8 {
        if self.is_64 { 8 } else { 4 }
    }

    /// Where the file's parts are loaded.
    pub(crate) fn layout(&self) -> Layout {
        Layout(self.segments.as_slice().into())
    }

    /// Fills `out` with what is loaded at `svma`.
    pub(crate) fn read_svma(&self, svma: u64, out: &mut [u8]) -> bool {
        let end = svma.saturating_add(out.len() as u64);
        self.segments
            .iter()
            .find(|segment| segment.svma.start <= svma && end <= segment.svma.end)
            .and_then(|segment| segment.offset.checked_add(svma - segment.svma.start))
            .is_some_and(|offset| self.source.read_exact(offset, out))
    }

    /// `len` bytes of what is loaded at `svma`, none of which is kept for
    /// reading again; `None` if they are not there.
    pub(crate) fn read_svma_once(&self, svma: u64, len: u64) -> Option<Vec<u8>> {
        let end = svma.checked_add(len)?;
        let mut segments = self.segments.iter();
        let segment = segments.find(|s| s.svma.start <= svma && end <= s.svma.end)?;
        let offset = segment.offset.checked_add(svma - segment.svma.start)?;
        self.source.read_vec(offset, len)
    }

    /// As much as is loaded from `svma` on, at most `out`; how much.
    pub(crate) fn read_svma_up_to(&self, svma: u64, out: &mut [u8]) -> usize {
        let there = self
            .segments
            .iter()
            .find(|segment| segment.svma.contains(&svma))
            .map_or(0, |segment| segment.svma.end - svma);
        let len = out.len().min(usize::try_from(there).unwrap_or(usize::MAX));
        let part = out.get_mut(..len).unwrap_or_default();
        if self.read_svma(svma, part) { len } else { 0 }
    }

    /// Whether the file may have a Go program's function table in a place
    /// that no section header tells.
    pub(crate) fn may_hide_go_table(&self) -> bool {
        self.go_table.is_none() && !self.is_not_go
    }

    /// Address ranges that are loaded from the file.
    pub(crate) fn loaded(&self) -> impl Iterator<Item = (u64, u64)> {
        let ranges = self.segments.iter().map(|segment| &segment.svma);
        ranges.map(|range| (range.start, range.end))
    }

    /// The start of the segment that `svma` is in.
    pub(crate) fn segment_start(&self, svma: u64) -> Option<u64> {
        let segment = self.segments.iter().find(|s| s.svma.contains(&svma))?;
        Some(segment.svma.start)
    }

    /// The end of the segment that `svma` is in.
    pub(crate) fn segment_end(&self, svma: u64) -> Option<u64> {
        let segment = self.segments.iter().find(|s| s.svma.contains(&svma))?;
        Some(segment.svma.end)
    }

    /// Whether code of this file can be at `svma`.
    pub(crate) fn is_code(&self, svma: u64) -> bool {
        self.segments
            .iter()
            .any(|segment| segment.executable && segment.svma.contains(&svma))
    }

    /// A section's bytes, decompressed; `None` if they are not there, too
    /// many or damaged.
    pub(crate) fn section_bytes(&self, section: &Section) -> Option<Vec<u8>> {
        let len = section.file.end - section.file.start;
        if len > MAX_SCANNED {
            return None;
        }
        if !section.compressed {
            return self.source.read_vec(section.file.start, len);
        }
        let raw = self.source.read_vec(section.file.start, len)?;
        decompress(&raw, self.is_64)
    }
}

/// Finds the build-id in notes: name size, content size, kind (4 bytes
/// each), then name and content, each padded to 4 bytes.
fn build_id_in(notes: &[u8]) -> Option<BuildId> {
    let mut rest = notes;
    loop {
        let word = |at: usize| Some(u32::from_le_bytes(*rest.get(at..)?.first_chunk()?) as usize);
        let (name, content, kind) = (word(0)?, word(4)?, word(8)?);
        let content_at = 12_usize.checked_add(name.checked_next_multiple_of(4)?)?;
        let end = content_at.checked_add(content)?;
        if kind == elf::NT_GNU_BUILD_ID.0 as usize && rest.get(12..)?.starts_with(b"GNU\0") {
            return BuildId::new(rest.get(content_at..end)?);
        }
        rest = rest.get(end.checked_next_multiple_of(4)?..)?;
    }
}

/// Undoes `SHF_COMPRESSED`: a compression header, then a zlib or zstd stream.
fn decompress(raw: &[u8], is_64: bool) -> Option<Vec<u8>> {
    let u32_at = |at: usize| Some(u32::from_le_bytes(raw.get(at..at + 4)?.try_into().ok()?));
    let kind = u32_at(0)?;
    let (size, header) = if is_64 {
        (u64::from_le_bytes(raw.get(8..16)?.try_into().ok()?), 24)
    } else {
        (u64::from(u32_at(4)?), 12)
    };
    // Deflate makes at most 1032 bytes of one.
    if size > MAX_SCANNED || size > (raw.len() as u64).saturating_mul(1032) {
        return None;
    }
    let packed = raw.get(header..)?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(usize::try_from(size).ok()?).ok()?;
    match elf::CompressionType(kind) {
        elf::ELFCOMPRESS_ZLIB => {
            flate2::Decompress::new(true)
                .decompress_vec(packed, &mut bytes, flate2::FlushDecompress::Finish)
                .ok()?;
        }
        elf::ELFCOMPRESS_ZSTD => {
            let decoder = zstd::stream::read::Decoder::new(packed).ok()?;
            decoder.take(size).read_to_end(&mut bytes).ok()?;
        }
        _ => return None,
    }
    (bytes.len() as u64 == size).then_some(bytes)
}

/// `Read` and `Seek` over a [`Source`], as `object` wants them.
struct SourceReader<'a> {
    source: &'a Source,
    position: u64,
}

impl Read for SourceReader<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let there = self.source.len().saturating_sub(self.position);
        let len = out.len().min(usize::try_from(there).unwrap_or(usize::MAX));
        let part = out.get_mut(..len).unwrap_or_default();
        if !self.source.read_exact(self.position, part) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.position += len as u64;
        Ok(len)
    }
}

impl Seek for SourceReader<'_> {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let target = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::End(by) => self.source.len().checked_add_signed(by),
            SeekFrom::Current(by) => self.position.checked_add_signed(by),
        };
        self.position = target.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.position)
    }
}

#[cfg(test)]
mod tests {
    use super::decompress;
    use std::io::Write as _;

    const ZLIB: u32 = 1;
    const ZSTD: u32 = 2;

    /// Unwind information in kind: it repeats itself.
    fn plain() -> Vec<u8> {
        (0..100_000_u32).map(|at| (at % 251) as u8).collect()
    }

    fn packed(kind: u32, plain: &[u8]) -> Vec<u8> {
        match kind {
            ZLIB => {
                let mut encoder =
                    flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
                encoder.write_all(plain).expect("packed");
                encoder.finish().expect("packed")
            }
            _ => zstd::encode_all(plain, 3).expect("packed"),
        }
    }

    /// A compression header of ELF64 (kind, 4 bytes unused, size, alignment) or
    /// ELF32 (kind, size, alignment), then what is packed.
    fn section(is_64: bool, kind: u32, size: u64, packed: &[u8]) -> Vec<u8> {
        let mut raw = kind.to_le_bytes().to_vec();
        if is_64 {
            raw.extend([0; 4]);
            raw.extend(size.to_le_bytes());
            raw.extend([1, 0, 0, 0, 0, 0, 0, 0]);
        } else {
            raw.extend(u32::try_from(size).expect("a size of ELF32").to_le_bytes());
            raw.extend([1, 0, 0, 0]);
        }
        raw.extend(packed);
        raw
    }

    #[test]
    fn a_packed_section_is_as_it_was_in_both_classes_and_formats() {
        let plain = plain();
        for kind in [ZLIB, ZSTD] {
            let packed = packed(kind, &plain);
            for is_64 in [true, false] {
                let raw = section(is_64, kind, plain.len() as u64, &packed);
                assert_eq!(
                    decompress(&raw, is_64).as_deref(),
                    Some(&plain[..]),
                    "{kind} {is_64}"
                );
            }
        }
    }

    #[test]
    fn a_section_that_unpacks_to_another_length_is_none() {
        let plain = plain();
        for kind in [ZLIB, ZSTD] {
            let packed = packed(kind, &plain);
            for size in [0, plain.len() as u64 - 1, plain.len() as u64 + 1, u64::MAX] {
                let raw = section(true, kind, size, &packed);
                // What is longer than it says is cut there.
                let cut = decompress(&raw, true);
                assert!(
                    cut.is_none_or(|bytes| bytes.len() as u64 == size && plain.starts_with(&bytes)),
                    "{kind} {size}"
                );
            }
            let half = section(true, kind, plain.len() as u64, &packed[..packed.len() / 2]);
            assert_eq!(decompress(&half, true), None, "{kind}");
        }
        assert_eq!(decompress(&section(true, 3, 4, b"what"), true), None);
    }
}

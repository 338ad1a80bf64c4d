//! Finding the row of unwind rules for an address in a file's sections.

use crate::image::{Image, Section};
use crate::row::{Bytes, Row};
use gimli::{
    BaseAddresses, CieOrFde, CommonInformationEntry, DebugFrame, EhFrame, FrameDescriptionEntry,
    LittleEndian, UnwindContext, UnwindOffset, UnwindSection,
};
use std::ops::Range;

/// The longest single CIE or FDE, in bytes; real ones have some hundreds.
const MAX_ENTRY: u32 = 1 << 20;

/// What a file's tables say about an address.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// The rules, and where the function (or the part of one that has an
    /// entry of its own) starts.
    Row { row: Row, function: u64 },
    /// No table covers it.
    Nothing,
    /// A table covers it, but cannot be read.
    Damaged,
}

/// The unwind sections of one file, each opened when first needed.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    opened: bool,
    sorted: Option<SortedTable>,
    eh_frame: Option<ScannedSection>,
    debug_frame: Option<Option<ScannedSection>>,
    /// Made when first needed: of code made at run time most is never asked for.
    context: Option<Box<Context>>,
}

/// gimli's scratch space, with a `Debug` of its own.
#[derive(Default)]
struct Context(UnwindContext<usize>);

impl std::fmt::Debug for Context {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Context")
    }
}

impl Tables {
    /// Bytes of memory that they take, about.
    pub(crate) fn held_bytes(&self) -> usize {
        let debug_frame = self.debug_frame.as_ref().and_then(Option::as_ref);
        let scanned = self.eh_frame.iter().chain(debug_frame);
        let bytes = scanned.map(|section| {
            section.bytes.len() + section.fdes.capacity() * size_of::<(u64, u64, u32)>()
        });
        let firsts = self
            .sorted
            .as_ref()
            .map_or(0, |table| 8 * table.firsts.len());
        size_of::<Self>() + firsts + bytes.sum::<usize>()
    }

    /// The rules at `svma`: `.eh_frame` first, then `.debug_frame`.
    pub(crate) fn find(&mut self, image: &Image, svma: u64) -> Found {
        if !self.opened {
            self.opened = true;
            self.sorted = SortedTable::open(image);
            if self.sorted.is_none() {
                self.eh_frame = image
                    .eh_frame
                    .as_ref()
                    .and_then(|section| ScannedSection::eh_frame(image, section));
            }
        }
        let context = &mut self.context.get_or_insert_default().0;
        let found = match (&self.sorted, &self.eh_frame) {
            (Some(table), _) => table.find(image, svma, context),
            (None, Some(section)) => section.find(image, svma, context),
            (None, None) => Found::Nothing,
        };
        if found != Found::Nothing {
            return found;
        }
        let debug_frame = self.debug_frame.get_or_insert_with(|| {
            let section = image.debug_frame.as_ref()?;
            ScannedSection::debug_frame(image, section)
        });
        debug_frame
            .as_ref()
            .map_or(Found::Nothing, |section| section.find(image, svma, context))
    }
}

/// Bases for pointers relative to the text or the global offset table.
fn bases(image: &Image, eh_frame: u64) -> BaseAddresses {
    let start = |section: &Option<Section>| section.as_ref().map_or(0, |s| s.svma.start);
    BaseAddresses::default()
        .set_eh_frame(eh_frame)
        .set_text(start(&image.text))
        .set_got(start(&image.got))
}

/// `.eh_frame_hdr`: a table of (code address, FDE address), sorted, searched
/// in the file without reading all of it.
///
/// | offset | size | field |
/// |---:|---:|---|
/// | 0 | 1 | version 1 |
/// | 1 | 1+1+1 | encodings of the next two fields and the table |
/// | 4 | 4 | address of `.eh_frame`, relative to this field |
/// | 8 | 4 | number of entries |
/// | 12 | 8 each | code and FDE address, relative to offset 0 |
///
/// Source: Linux Standard Base, Core, "Exception Frames". Only the encodings
/// that linkers write are taken; others go the slow way.
#[derive(Debug)]
struct SortedTable {
    /// Address of the header itself.
    start: u64,
    entries: u64,
    /// The code address of the first entry of each block, where there are
    /// several: a search then reads one block only.
    firsts: Vec<u64>,
}

/// Entries that are read at once.
const BLOCK: usize = 64;
/// Bytes of an entry.
const ENTRY: usize = 8;

impl SortedTable {
    /// pc-relative and signed, 4 bytes; unsigned, 4 bytes; relative to the
    /// header and signed, 4 bytes.
    const ENCODINGS: [u8; 4] = [1, 0x1b, 0x03, 0x3b];

    fn open(image: &Image) -> Option<Self> {
        let Range { start, end } = image.eh_frame_hdr.clone()?;
        let mut header = [0; 12];
        if !image.read_svma(start, &mut header) || !header.starts_with(&Self::ENCODINGS) {
            return None;
        }
        let count = u32::from_le_bytes(*header.last_chunk()?);
        let room = end.checked_sub(start)?.checked_sub(12)? / ENTRY as u64;
        let mut table = Self {
            start,
            entries: u64::from(count).min(room),
            firsts: Vec::new(),
        };
        if table.entries > BLOCK as u64 {
            let bytes = image.read_svma_once(table.entry_at(0), table.entries * ENTRY as u64)?;
            let blocks = bytes.chunks(BLOCK * ENTRY);
            table.firsts = blocks
                .filter_map(|block| Some(table.entry(block, 0)?.0))
                .collect();
        }
        (table.entries > 0).then_some(table)
    }

    /// Where an entry stands. The table lies in a segment, so nothing wraps.
    fn entry_at(&self, index: u64) -> u64 {
        self.start + 12 + index * ENTRY as u64
    }

    /// Code and FDE address of an entry of a block.
    fn entry(&self, block: &[u8], index: usize) -> Option<(u64, u64)> {
        let raw = block.get(index * ENTRY..)?;
        let relative = |bytes: &[u8; 4]| {
            self.start
                .wrapping_add_signed(i64::from(i32::from_le_bytes(*bytes)))
        };
        Some((
            relative(raw.first_chunk()?),
            relative(raw.get(4..)?.first_chunk()?),
        ))
    }

    fn find(&self, image: &Image, svma: u64, context: &mut UnwindContext<usize>) -> Found {
        let block = self.firsts.partition_point(|&first| first <= svma);
        let first = block.saturating_sub(1) as u64 * BLOCK as u64;
        let count = (self.entries - first).min(BLOCK as u64) as usize;
        let mut bytes = [0; BLOCK * ENTRY];
        let bytes = bytes.get_mut(..count * ENTRY).unwrap_or_default();
        if !image.read_svma(self.entry_at(first), bytes) {
            return Found::Damaged;
        }
        let (mut low, mut high) = (0, count);
        while low < high {
            let middle = low + (high - low) / 2;
            match self.entry(bytes, middle) {
                Some((code, _)) if code <= svma => low = middle + 1,
                _ => high = middle,
            }
        }
        let fde = low
            .checked_sub(1)
            .and_then(|index| self.entry(bytes, index));
        match fde {
            Some((_, fde)) => find_in_fde(image, fde, svma, context),
            None => Found::Nothing,
        }
    }
}

/// Reads a length-prefixed entry; `None` if too long, 64-bit or not there.
fn read_entry(image: &Image, svma: u64, out: &mut Vec<u8>) -> Option<usize> {
    let mut raw = [0; 4];
    if !image.read_svma(svma, &mut raw) {
        return None;
    }
    let len = u32::from_le_bytes(raw);
    if !(4..=MAX_ENTRY).contains(&len) || image.segment_end(svma)? - svma < u64::from(len) + 4 {
        return None;
    }
    let from = out.len();
    let len = len as usize + 4;
    out.resize(from + len, 0);
    image.read_svma(svma, out.get_mut(from..)?).then_some(len)
}

/// Reads the FDE at `fde` with its CIE and evaluates it at `svma`.
fn find_in_fde(image: &Image, fde: u64, svma: u64, context: &mut UnwindContext<usize>) -> Found {
    let Some((section, cie_len)) = join_cie_and_fde(image, fde) else {
        return Found::Damaged;
    };
    let mut eh_frame = EhFrame::new(&section, LittleEndian);
    eh_frame.set_address_size(image.address_size());
    // The FDE's own pointers are relative to where it really stands.
    let bases = bases(image, fde.wrapping_sub(cie_len as u64));
    evaluate(&eh_frame, &bases, cie_len, svma, context)
}

/// A little section of its own: the CIE, and behind it the FDE, whose CIE
/// pointer now says so.
fn join_cie_and_fde(image: &Image, fde: u64) -> Option<(Vec<u8>, usize)> {
    let pointer_at = fde.checked_add(4)?;
    let mut raw = [0; 4];
    if !image.read_svma(pointer_at, &mut raw) {
        return None;
    }
    let cie = pointer_at.checked_sub(u64::from(u32::from_le_bytes(raw)))?;
    let mut section = Vec::with_capacity(256);
    let cie_len = read_entry(image, cie, &mut section)?;
    read_entry(image, fde, &mut section)?;
    let distance = u32::try_from(cie_len).ok()? + 4;
    section
        .get_mut(cie_len + 4..cie_len + 8)?
        .copy_from_slice(&distance.to_le_bytes());
    Some((section, cie_len))
}

/// Evaluates the FDE at `offset` of a section for `svma`.
fn evaluate<'a, S>(
    section: &S,
    bases: &BaseAddresses,
    offset: usize,
    svma: u64,
    context: &mut UnwindContext<usize>,
) -> Found
where
    S: UnwindSection<Bytes<'a>>,
    S::Offset: UnwindOffset<usize>,
{
    let fde: Result<FrameDescriptionEntry<Bytes<'a>>, _> =
        section.fde_from_offset(bases, S::Offset::from(offset), S::cie_from_offset);
    let Ok(fde) = fde else {
        return Found::Damaged;
    };
    if !fde.contains(svma) {
        return Found::Nothing;
    }
    let cie: &CommonInformationEntry<_> = fde.cie();
    let register = cie.return_address_register().0;
    fde.unwind_info_for_address(section, bases, context, svma)
        .ok()
        .and_then(|row| Row::new(row, section, register, fde.is_signal_trampoline()))
        .map_or(Found::Damaged, |row| Found::Row {
            row,
            function: fde.initial_address(),
        })
}

/// Which of the two formats.
#[derive(Debug, Clone, Copy)]
enum Format {
    EhFrame,
    DebugFrame,
}

/// A section without a table of its own: read and indexed once.
#[derive(Debug)]
struct ScannedSection {
    format: Format,
    bytes: Vec<u8>,
    svma: u64,
    /// Code range and offset of each FDE, by start.
    fdes: Vec<(u64, u64, u32)>,
}

impl ScannedSection {
    fn eh_frame(image: &Image, section: &Section) -> Option<Self> {
        Self::open(image, section, Format::EhFrame)
    }

    fn debug_frame(image: &Image, section: &Section) -> Option<Self> {
        Self::open(image, section, Format::DebugFrame)
    }

    fn open(image: &Image, section: &Section, format: Format) -> Option<Self> {
        let mut scanned = Self {
            format,
            bytes: image.section_bytes(section)?,
            svma: section.svma.start,
            fdes: Vec::new(),
        };
        let bases = bases(image, scanned.svma);
        let mut fdes = match format {
            Format::EhFrame => scan(&scanned.as_eh_frame(image), &bases),
            Format::DebugFrame => scan(&scanned.as_debug_frame(image), &bases),
        };
        fdes.sort_unstable();
        scanned.fdes = fdes;
        Some(scanned)
    }

    fn as_eh_frame(&self, image: &Image) -> EhFrame<Bytes<'_>> {
        let mut section = EhFrame::new(&self.bytes, LittleEndian);
        section.set_address_size(image.address_size());
        section
    }

    fn as_debug_frame(&self, image: &Image) -> DebugFrame<Bytes<'_>> {
        let mut section = DebugFrame::new(&self.bytes, LittleEndian);
        section.set_address_size(image.address_size());
        section
    }

    fn find(&self, image: &Image, svma: u64, context: &mut UnwindContext<usize>) -> Found {
        let behind = self.fdes.partition_point(|&(start, _, _)| start <= svma);
        let nearest = behind.checked_sub(1).and_then(|at| self.fdes.get(at));
        let Some(&(_, _, offset)) = nearest.filter(|&&(_, end, _)| svma < end) else {
            return Found::Nothing;
        };
        let bases = bases(image, self.svma);
        let offset = offset as usize;
        match self.format {
            Format::EhFrame => evaluate(&self.as_eh_frame(image), &bases, offset, svma, context),
            Format::DebugFrame => {
                evaluate(&self.as_debug_frame(image), &bases, offset, svma, context)
            }
        }
    }
}

/// The code range and offset of every FDE up to the first that is damaged.
fn scan<'a, S>(section: &S, bases: &BaseAddresses) -> Vec<(u64, u64, u32)>
where
    S: UnwindSection<Bytes<'a>>,
{
    let mut fdes = Vec::new();
    let mut entries = section.entries(bases);
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else {
            continue;
        };
        let Ok(fde) = partial.parse(S::cie_from_offset) else {
            continue;
        };
        let Ok(offset) = u32::try_from(fde.offset()) else {
            break;
        };
        // Linkers leave FDEs of dropped functions at address 0.
        if fde.initial_address() != 0 && fde.len() > 0 {
            fdes.push((fde.initial_address(), fde.end_address(), offset));
        }
    }
    fdes
}

//! The debug sections of a file, decompressed where needed.

use crate::elf::Image;
use gimli::{EndianSlice, RunTimeEndian, SectionId};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// Bytes of a section, as gimli reads them.
pub(super) type Slice<'a> = EndianSlice<'a, RunTimeEndian>;

/// What lookups need; macros, types and locations are not among it.
const NEEDED: [SectionId; 9] = [
    SectionId::DebugInfo,
    SectionId::DebugAbbrev,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
    SectionId::DebugAddr,
    SectionId::DebugRanges,
    SectionId::DebugRngLists,
];

/// Bytes of a unit that tell what it covers.
const HEAD: usize = 512;
/// Heads read ahead.
const MOST_HEADS: usize = 1 << 16;

/// Where the debug sections of one file are.
#[derive(Debug)]
pub(super) struct Sections {
    image: Arc<Image>,
    found: Vec<(SectionId, Bytes)>,
}

/// What a package has beside those: its indices, and sections of which they
/// say which part is whose.
const OF_PACKAGES: [SectionId; 7] = [
    SectionId::DebugCuIndex,
    SectionId::DebugTuIndex,
    SectionId::DebugLoc,
    SectionId::DebugLocLists,
    SectionId::DebugMacinfo,
    SectionId::DebugMacro,
    SectionId::DebugTypes,
];

#[derive(Debug)]
enum Bytes {
    InFile(Range<usize>),
    Unpacked(Vec<u8>),
}

impl Sections {
    /// Finds and unpacks the sections. One that cannot be unpacked is left
    /// out; what needs it then finds nothing.
    pub(super) fn load(image: &Arc<Image>) -> Self {
        let found = NEEDED
            .into_iter()
            .filter_map(|id| Some((id, find(image, id.name())?)))
            .collect();
        Self {
            image: Arc::clone(image),
            found,
        }
    }

    /// The same of a `.dwo` or `.dwp`, whose sections have names of their own.
    pub(super) fn load_split(image: &Arc<Image>) -> Self {
        let wanted = NEEDED.into_iter().chain(OF_PACKAGES);
        let found = wanted
            .filter_map(|id| Some((id, find(image, id.dwo_name()?)?)))
            .collect();
        Self {
            image: Arc::clone(image),
            found,
        }
    }

    /// The sections of one unit in a package; `None` if it does not hold it.
    pub(super) fn of_package<'a>(
        &'a self,
        id: gimli::DwoId,
        parent: &gimli::Dwarf<Slice<'a>>,
    ) -> gimli::Result<Option<gimli::Dwarf<Slice<'a>>>> {
        let endian = self.endian();
        let section = |id| Ok::<_, gimli::Error>(EndianSlice::new(self.bytes(id), endian));
        let package = gimli::DwarfPackage::load(section, EndianSlice::new(&[], endian))?;
        package.find_cu(id, parent)
    }

    fn endian(&self) -> RunTimeEndian {
        match self.image.endian {
            object::Endianness::Little => RunTimeEndian::Little,
            object::Endianness::Big => RunTimeEndian::Big,
        }
    }

    /// Sum of the sections' lengths, in bytes.
    pub(super) fn unpacked_length(&self) -> u64 {
        let lengths = self
            .found
            .iter()
            .map(|(id, _)| self.bytes(*id).len() as u64);
        lengths.sum()
    }

    /// Bytes of memory that unpacked sections take.
    pub(super) fn held(&self) -> u64 {
        let held = self.found.iter().map(|(_, bytes)| match bytes {
            Bytes::InFile(_) => 0,
            Bytes::Unpacked(bytes) => bytes.len() as u64,
        });
        held.sum()
    }

    /// Length of the file they are in, in bytes.
    pub(super) fn packed_length(&self) -> u64 {
        self.image.bytes().len() as u64
    }

    /// The sections as gimli wants them; cheap, nothing is read.
    pub(super) fn dwarf<'a>(&'a self, supplementary: Option<&'a Self>) -> gimli::Dwarf<Slice<'a>> {
        self.borrow(supplementary.map(|it| Arc::new(it.borrow(None))))
    }

    fn borrow<'a>(
        &'a self,
        supplementary: Option<Arc<gimli::Dwarf<Slice<'a>>>>,
    ) -> gimli::Dwarf<Slice<'a>> {
        let endian = self.endian();
        let section = |id| Ok(EndianSlice::new(self.bytes(id), endian));
        let loaded: Result<_, std::convert::Infallible> = gimli::Dwarf::load(section);
        let Ok(mut dwarf) = loaded;
        dwarf.sup = supplementary;
        dwarf
    }

    /// Length of `.debug_info`, in bytes.
    pub(super) fn info_length(&self) -> usize {
        self.bytes(SectionId::DebugInfo).len()
    }

    /// Has the file system read this part of `.debug_info`, if it is not packed.
    pub(super) fn read_info_ahead(&self, part: Range<usize>) {
        let found = self
            .found
            .iter()
            .find(|(id, _)| *id == SectionId::DebugInfo);
        if let Some((_, Bytes::InFile(range))) = found {
            let start = range.start.saturating_add(part.start);
            let end = range.start.saturating_add(part.end).min(range.end);
            if start < end {
                self.image.read_ahead(start..end);
            }
        }
    }

    /// Has the file system read the heads of all units that a table of address ranges
    /// names: where a unit begins is known once the head before it was read, and a
    /// disk that serves many requests at once would serve these one by one.
    pub(super) fn read_heads_ahead(&self) {
        // Where one of them is packed, both are, and nothing is left in the file.
        let is_packed = |(id, bytes): &(SectionId, Bytes)| {
            *id == SectionId::DebugInfo && matches!(bytes, Bytes::Unpacked(_))
        };
        if self.found.iter().any(is_packed) {
            return;
        }
        let name = SectionId::DebugAranges.name();
        let Some(Bytes::InFile(ranges)) = find(&self.image, name) else {
            return;
        };
        let table = self.image.bytes().get(ranges).unwrap_or_default();
        let mut heads = gimli::DebugAranges::new(table, self.endian()).headers();
        let mut left = MOST_HEADS;
        while let (Ok(Some(head)), true) = (heads.next(), left > 0) {
            let at = head.debug_info_offset().0;
            self.read_info_ahead(at..at.saturating_add(HEAD));
            left -= 1;
        }
    }

    /// Gives the memory back that the file's mapped pages take.
    pub(super) fn release_pages(&self) {
        self.image.release_pages();
    }

    fn bytes(&self, id: SectionId) -> &[u8] {
        let found = self.found.iter().find(|(found, _)| *found == id);
        match found {
            Some((_, Bytes::InFile(range))) => {
                self.image.bytes().get(range.clone()).unwrap_or_default()
            }
            Some((_, Bytes::Unpacked(bytes))) => bytes,
            None => &[],
        }
    }
}

fn find(image: &Image, name: &str) -> Option<Bytes> {
    let section = image
        .section(name)
        .or_else(|| image.section(&format!(".z{}", name.strip_prefix('.')?)))?;
    match image.unpacked(section).ok()? {
        Cow::Borrowed(_) => image.range_of(section).map(Bytes::InFile),
        Cow::Owned(bytes) => Some(Bytes::Unpacked(bytes)),
    }
}

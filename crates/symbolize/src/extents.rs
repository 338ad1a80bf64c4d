//! Where functions begin and end, from `.eh_frame`: a stripped file still has
//! it, since exceptions need it.

use crate::elf::Image;
use gimli::{BaseAddresses, CieOrFde, EhFrame, EndianSlice, RunTimeEndian, UnwindSection};
use object::Endianness;
use prof_profile::Svma;

/// The code ranges of a file that have unwind information: functions, and
/// parts of functions that stand elsewhere.
#[derive(Debug, Default)]
pub(crate) struct Extents {
    /// First address and the one behind the last, by the first.
    ranges: Vec<(u64, u64)>,
}

impl Extents {
    /// Reads the section up to what is damaged in it.
    pub(crate) fn load(image: &Image) -> Self {
        let mut ranges = read(image).unwrap_or_default();
        ranges.sort_unstable();
        ranges.dedup_by_key(|range| range.0);
        Self { ranges }
    }

    /// Bytes of memory that this takes.
    pub(crate) fn bytes(&self) -> u64 {
        (self.ranges.capacity() * size_of::<(u64, u64)>()) as u64
    }

    /// The function at an address: its start and its length in bytes.
    pub(crate) fn find(&self, at: Svma) -> Option<(Svma, u64)> {
        let behind = self.ranges.partition_point(|&(start, _)| start <= at.0);
        let &(start, end) = self.ranges.get(behind.checked_sub(1)?)?;
        (at.0 < end).then_some((Svma(start), end - start))
    }
}

fn read(image: &Image) -> Option<Vec<(u64, u64)>> {
    let section = image.section(".eh_frame")?;
    let endian = match image.endian {
        Endianness::Little => RunTimeEndian::Little,
        Endianness::Big => RunTimeEndian::Big,
    };
    let mut frames = EhFrame::from(EndianSlice::new(image.data(section), endian));
    frames.set_address_size(if image.is_64 { 8 } else { 4 });
    let start_of = |name| image.section(name).map_or(0, |section| section.address);
    let bases = BaseAddresses::default()
        .set_eh_frame(section.address)
        .set_text(start_of(".text"))
        .set_got(start_of(".got"));
    let mut ranges = Vec::new();
    let mut entries = frames.entries(&bases);
    while let Ok(Some(entry)) = entries.next() {
        let CieOrFde::Fde(partial) = entry else {
            continue;
        };
        let Ok(fde) = partial.parse(EhFrame::cie_from_offset) else {
            continue;
        };
        let (start, end) = (fde.initial_address(), fde.end_address());
        // Linkers leave entries of dropped functions at address 0.
        if start != 0 && start < end {
            ranges.push((start, end));
        }
    }
    Some(ranges)
}

#[cfg(test)]
mod tests {
    use super::Extents;
    use prof_profile::Svma;

    #[test]
    fn an_address_is_in_the_range_that_begins_before_it_and_ends_behind() {
        let extents = Extents {
            ranges: vec![(0x1000, 0x1010), (0x1010, 0x1018), (0x2000, 0x2001)],
        };
        let found = |at| extents.find(Svma(at)).map(|(start, size)| (start.0, size));
        assert_eq!(found(0xfff), None);
        assert_eq!(found(0x100f), Some((0x1000, 0x10)));
        assert_eq!(found(0x1010), Some((0x1010, 8)));
        assert_eq!(found(0x1018), None);
        assert_eq!(found(0x2000), Some((0x2000, 1)));
        assert_eq!(Extents::default().find(Svma(1)), None);
    }
}

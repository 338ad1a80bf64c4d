//! Which compilation unit covers an address.

use super::session::Session;
use super::{Fault, Slice};
use gimli::DebugInfoOffset;
use prof_profile::Svma;
use rayon::prelude::*;

/// Units that are tried for one address; more than one covers it only where
/// a linker folded or dropped code without correcting the ranges.
const OVERLAPS_MAX: usize = 8;
/// How many ranges before an address are looked at for one that covers it.
const RANGES_BACK: usize = 64;
/// Units indexed by one thread at a time.
const CHUNK: usize = 32;

/// The addresses that the units of a file cover.
#[derive(Debug, Default)]
pub(super) struct UnitIndex {
    /// Sorted by begin.
    ranges: Vec<UnitRange>,
}

#[derive(Debug, Clone, Copy)]
struct UnitRange {
    begin: u64,
    end: u64,
    unit: u32,
}

impl UnitIndex {
    /// Reads all unit headers. What follows a header that makes no sense is
    /// left out.
    pub(super) fn read_offsets(dwarf: &gimli::Dwarf<Slice<'_>>) -> Vec<usize> {
        let mut offsets = Vec::new();
        let mut headers = dwarf.units();
        while let Ok(Some(header)) = headers.next() {
            offsets.extend(header.debug_info_offset().map(|offset| offset.0));
        }
        offsets
    }

    /// Reads the address ranges of the units at these offsets.
    pub(super) fn read<'a>(offsets: &[usize], session: impl Fn() -> Session<'a> + Sync) -> Self {
        let numbers: Vec<u32> = (0..).take(offsets.len()).collect();
        let mut ranges: Vec<UnitRange> = numbers
            .par_chunks(CHUNK)
            .map(|units| {
                let session = session();
                let mut ranges = Vec::new();
                for &unit in units {
                    // A unit that makes no sense covers nothing.
                    let _ = add_ranges(&session, unit, &mut ranges);
                }
                ranges
            })
            .flatten()
            .collect();
        ranges.sort_by_key(|range| range.begin);
        Self { ranges }
    }

    /// The units that cover an address, the nearest begin first.
    pub(super) fn covering(&self, svma: Svma) -> impl Iterator<Item = u32> {
        let end = self.ranges.partition_point(|range| range.begin <= svma.0);
        let before = self.ranges.get(..end).unwrap_or_default();
        before
            .iter()
            .rev()
            .take(RANGES_BACK)
            .filter(move |range| svma.0 < range.end)
            .map(|range| range.unit)
            .take(OVERLAPS_MAX)
    }

    /// The units that have code in `start..end`.
    pub(super) fn overlapping(&self, start: Svma, end: Svma) -> Vec<u32> {
        let mut units: Vec<u32> = self
            .ranges
            .iter()
            .filter(|range| range.begin < end.0 && range.end > start.0)
            .map(|range| range.unit)
            .collect();
        units.sort_unstable();
        units.dedup();
        units
    }
}

/// Among units that start at these offsets of `.debug_info`, the number of
/// the one that holds the entry at `offset`.
pub(super) fn holding(offsets: &[usize], offset: DebugInfoOffset) -> Option<u32> {
    let after = offsets.partition_point(|&start| start <= offset.0);
    u32::try_from(after.checked_sub(1)?).ok()
}

fn add_ranges(
    session: &Session<'_>,
    number: u32,
    ranges: &mut Vec<UnitRange>,
) -> Result<(), Fault> {
    let unit = session.root(number)?;
    let mut covered = session.dwarf.unit_ranges(&unit)?;
    while let Some(range) = covered.next()? {
        session.budget.step(1)?;
        if range.begin < range.end {
            session.budget.keep(1)?;
            ranges.push(UnitRange {
                begin: range.begin,
                end: range.end,
                unit: number,
            });
        }
    }
    Ok(())
}

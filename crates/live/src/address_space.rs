//! What is mapped where in one process, cheap to copy at fork.
//!
//! A space is a stack of layers, each a sorted list of ranges that do not
//! overlap; a newer layer hides what lies under its ranges. A fork freezes the
//! newest layer and shares all of them. Layers of similar size are merged, so
//! that there are at most log2(n) of them and n mappings spread over a chain
//! of forks cost O(n log n) memory instead of O(n²):
//!
//! ```text
//!   own      [        B        ]          after the fork, private
//!   frozen   [ a ][ b ]      [ c ]        shared with the parent
//!   seen     [ a ][        B        ]     (c and b are hidden where B is)
//! ```

use crate::mapped_dsos::MappedDsoId;
use prof_profile::{Avma, FileOffset};
use rustc_hash::FxHashSet;
use std::sync::Arc;

/// What may be done with a mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Access(u8);

impl Access {
    /// Its memory can be read.
    pub const READ: Self = Self(1);
    /// It can be written to.
    pub const WRITE: Self = Self(2);
    /// It can be executed.
    pub const EXECUTE: Self = Self(4);
    /// What is written to it reaches the file and other processes.
    pub const SHARED: Self = Self(8);

    /// From the `prot` and `flags` of a MMAP2 record: `PROT_*` and
    /// `MAP_SHARED` bits.
    pub fn of(prot: u32, flags: u32) -> Self {
        Self((prot & 7) as u8 | ((flags & 1) as u8 * Self::SHARED.0))
    }

    /// Whether all of `other` is in it.
    pub fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// A range of a process and what is mapped there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mapping {
    /// First address.
    pub start: Avma,
    /// First address behind it; greater than `start`.
    pub end: Avma,
    /// Offset in the file, in bytes, of what is at `start`.
    pub offset: FileOffset,
    /// What is mapped.
    pub dso: MappedDsoId,
    /// What may be done with it.
    pub access: Access,
}

impl Mapping {
    /// Where in the file the content of `address` is, in bytes.
    pub fn file_offset(&self, address: Avma) -> FileOffset {
        self.offset.plus(address.0.wrapping_sub(self.start.0))
    }

    /// The same mapping, beginning at `start` instead.
    fn from(self, start: Avma) -> Self {
        Self {
            start,
            offset: self.file_offset(start),
            ..self
        }
    }

    /// The same mapping, ending at `end` instead.
    fn until(self, end: Avma) -> Self {
        Self { end, ..self }
    }
}

/// Inserting moves what lies behind, so a private layer stays this short.
const LONGEST_OWN: usize = 1024;

/// Sorted ranges without overlap.
type Layer = Vec<Mapping>;

/// The mappings of one process.
#[derive(Debug, Clone, Default)]
pub struct AddressSpace {
    own: Layer,
    /// Oldest first; sizes at least halve towards the newest.
    frozen: Vec<Arc<Layer>>,
    version: u64,
    /// What was mapped before an exec that is not over.
    before: Option<Box<AddressSpace>>,
}

impl AddressSpace {
    /// A number that is the same only for spaces with the same mappings. The
    /// caller hands out new ones, see `insert`.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Maps a range over whatever was there. `version` must be a number not
    /// used before for any space.
    pub(crate) fn insert(&mut self, mapping: Mapping, version: u64) {
        self.version = version;
        overlay(&mut self.own, mapping);
        if self.own.len() >= LONGEST_OWN {
            self.freeze();
        }
    }

    /// The mapping that holds `address`; during an exec that may be one of
    /// the old program.
    pub fn find(&self, address: Avma) -> Option<Mapping> {
        let own = self.find_own(address);
        own.or_else(|| self.before.as_ref()?.find_own(address))
    }

    /// The mapping that holds `address`, else the last one before it. For
    /// executables of which only the code's mapping was recorded: their data
    /// follows it.
    pub fn at_or_before(&self, address: Avma) -> Option<Mapping> {
        let before = |layer: &Layer| {
            let behind = layer.partition_point(|mapping| mapping.start <= address);
            layer.get(behind.checked_sub(1)?).copied()
        };
        let frozen = self.frozen.iter().map(|layer| before(layer));
        let nearest = || frozen.chain([before(&self.own)]).flatten();
        self.find(address)
            .or_else(|| nearest().max_by_key(|mapping| mapping.start))
    }

    /// The mapping that holds `address` now.
    pub(crate) fn find_own(&self, address: Avma) -> Option<Mapping> {
        find_in(&self.own, address).or_else(|| {
            self.frozen
                .iter()
                .rev()
                .find_map(|layer| find_in(layer, address))
        })
    }

    /// The space of a new program: empty, with the old one behind it.
    #[must_use]
    pub fn exec(mut self, version: u64) -> Self {
        // Of two in a row the second found nothing of the first one running.
        self.before = None;
        Self {
            version,
            before: Some(Box::new(self)),
            ..Self::default()
        }
    }

    /// Whether an exec is not over.
    pub(crate) fn is_in_exec(&self) -> bool {
        self.before.is_some()
    }

    /// Forgets the old program; `false` if there is none.
    pub(crate) fn end_exec(&mut self, version: u64) -> bool {
        let ended = self.before.take().is_some();
        if ended {
            self.version = version;
        }
        ended
    }

    /// A copy for a child process; shares what is there.
    pub fn fork(&mut self) -> Self {
        self.freeze();
        Self {
            own: Layer::new(),
            frozen: self.frozen.clone(),
            version: self.version,
            before: None,
        }
    }

    /// All mappings in address order, none overlapping.
    pub fn iter(&self) -> impl Iterator<Item = Mapping> {
        self.flattened().into_iter()
    }

    /// Hands all that is mapped, hidden ranges too, to `each`; layers that are
    /// in `seen` are passed over.
    pub(crate) fn each_dso(&self, seen: &mut FxHashSet<usize>, each: &mut impl FnMut(MappedDsoId)) {
        let mut is_new = |layer: &&Arc<Layer>| seen.insert(Arc::as_ptr(layer).addr());
        let frozen = self.frozen.iter().filter(&mut is_new);
        let mappings = self.own.iter().chain(frozen.flat_map(|layer| layer.iter()));
        mappings.for_each(|mapping| each(mapping.dso));
        if let Some(before) = &self.before {
            before.each_dso(seen, each);
        }
    }

    fn flattened(&self) -> Layer {
        let mut newest = self.own.clone();
        for layer in self.frozen.iter().rev() {
            newest = merged(layer, &newest);
        }
        newest
    }

    fn freeze(&mut self) {
        if self.own.is_empty() {
            return;
        }
        let mut newest = std::mem::take(&mut self.own);
        while let Some(below) = self.frozen.pop_if(|below| below.len() <= newest.len() * 2) {
            newest = merged(&below, &newest);
        }
        self.frozen.push(Arc::new(newest));
    }
}

fn find_in(layer: &[Mapping], address: Avma) -> Option<Mapping> {
    let behind = layer.partition_point(|mapping| mapping.start <= address);
    let candidate = layer.get(behind.checked_sub(1)?)?;
    (address < candidate.end).then_some(*candidate)
}

/// Puts `new` into `layer`; what it overlaps is trimmed, split or dropped.
fn overlay(layer: &mut Layer, new: Mapping) {
    let first = layer.partition_point(|mapping| mapping.end <= new.start);
    let behind = layer.partition_point(|mapping| mapping.start < new.end);
    let left = layer
        .get(first)
        .filter(|old| first < behind && old.start < new.start);
    let left = left.map(|old| old.until(new.start));
    let right = behind
        .checked_sub(1)
        .filter(|&last| last >= first)
        .and_then(|last| layer.get(last));
    let right = right
        .filter(|old| new.end < old.end)
        .map(|old| old.from(new.end));
    layer.splice(
        first..behind.max(first),
        left.into_iter().chain([new]).chain(right),
    );
}

/// `above` laid over `below`, in one pass over both.
fn merged(below: &[Mapping], above: &[Mapping]) -> Layer {
    let mut out = Layer::with_capacity(below.len() + above.len());
    let mut rest = below.iter().copied();
    let mut under = rest.next();
    for &top in above {
        while let Some(low) = under.filter(|low| low.start < top.end) {
            if low.start < top.start {
                out.push(low.until(top.start.min(low.end)));
            }
            if low.end > top.end {
                under = Some(low.from(top.end));
                break;
            }
            under = rest.next();
        }
        out.push(top);
    }
    out.extend(under.into_iter().chain(rest));
    out
}

#[cfg(test)]
mod tests {
    use super::{Access, AddressSpace, Mapping};
    use crate::mapped_dsos::MappedDsoId;
    use prof_profile::{Avma, FileOffset};

    fn mapping(start: u64, end: u64, dso: u32) -> Mapping {
        Mapping {
            start: Avma(start),
            end: Avma(end),
            offset: FileOffset(start * 10),
            dso: MappedDsoId(dso),
            access: Access::default(),
        }
    }

    fn seen(space: &AddressSpace) -> Vec<(u64, u64, u64, u32)> {
        space
            .iter()
            .map(|m| (m.start.0, m.end.0, m.offset.0, m.dso.0))
            .collect()
    }

    #[test]
    fn a_new_mapping_trims_splits_and_drops_what_it_covers() {
        let mut space = AddressSpace::default();
        space.insert(mapping(100, 200, 1), 1);
        space.insert(mapping(300, 400, 2), 2);
        space.insert(mapping(120, 140, 3), 3);
        assert_eq!(
            seen(&space),
            [
                (100, 120, 1000, 1),
                (120, 140, 1200, 3),
                (140, 200, 1040, 1),
                (300, 400, 3000, 2)
            ]
        );
        space.insert(mapping(130, 350, 4), 4);
        assert_eq!(
            seen(&space),
            [
                (100, 120, 1000, 1),
                (120, 130, 1200, 3),
                (130, 350, 1300, 4),
                (350, 400, 3050, 2)
            ]
        );
        assert_eq!(space.find(Avma(99)), None);
        assert_eq!(space.find(Avma(400)), None);
        assert_eq!(
            space.find(Avma(399)).map(|m| m.file_offset(Avma(399))),
            Some(FileOffset(3099))
        );
    }

    #[test]
    fn a_fork_shares_and_then_parts() {
        let mut parent = AddressSpace::default();
        parent.insert(mapping(0, 100, 1), 1);
        let mut child = parent.fork();
        assert_eq!(child.version(), parent.version());
        child.insert(mapping(50, 60, 2), 2);
        parent.insert(mapping(90, 110, 3), 3);
        assert_eq!(
            seen(&child),
            [(0, 50, 0, 1), (50, 60, 500, 2), (60, 100, 60, 1)]
        );
        assert_eq!(seen(&parent), [(0, 90, 0, 1), (90, 110, 900, 3)]);
        assert_eq!(child.find(Avma(55)).map(|m| m.dso), Some(MappedDsoId(2)));
        assert_eq!(child.find(Avma(61)).map(|m| m.dso), Some(MappedDsoId(1)));
    }

    #[test]
    fn merging_layers_equals_inserting_one_by_one() {
        // A fixed walk of overlapping ranges, against a map of single addresses.
        let mut space = AddressSpace::default();
        let mut bytes = std::collections::BTreeMap::new();
        let mut seed = 1_u64;
        for step in 0..600_u32 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (start, len) = (seed >> 54, (seed >> 40 & 63) + 1);
            space.insert(mapping(start, start + len, step), u64::from(step));
            (start..start + len).for_each(|address| _ = bytes.insert(address, step));
            if step % 7 == 0 {
                space = space.fork();
            }
        }
        for address in 0..1200 {
            let found = space.find(Avma(address)).map(|mapping| mapping.dso.0);
            assert_eq!(found, bytes.get(&address).copied(), "address {address}");
            let listed = space
                .iter()
                .find(|m| (m.start.0..m.end.0).contains(&address));
            assert_eq!(listed.map(|mapping| mapping.dso.0), found);
        }
    }

    #[test]
    fn a_chain_of_forks_with_a_mapping_each_stays_near_linear() {
        let mut space = AddressSpace::default();
        let mut all = Vec::new();
        for step in 0..4096 {
            space.insert(mapping(step * 10, step * 10 + 10, 1), step + 1);
            let child = space.fork();
            all.push(std::mem::replace(&mut space, child));
        }
        let mut layers: Vec<_> = all.iter().flat_map(|space| &space.frozen).collect();
        layers.sort_by_key(|layer| std::sync::Arc::as_ptr(layer));
        layers.dedup_by_key(|layer| std::sync::Arc::as_ptr(layer));
        let total: usize = layers.iter().map(|layer| layer.len()).sum();
        assert!(total <= 4096 * 14, "{total} mappings kept for 4096");
        assert!(space.frozen.len() <= 13);
        assert_eq!(space.iter().count(), 4096);
    }
}

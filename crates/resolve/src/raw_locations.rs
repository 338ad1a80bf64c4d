//! Addresses before they have names, each in the dso that held it.

use hashbrown::HashTable;
use prof_abi::CpuMode;
use prof_live::{AddressSpace, MappedDsoId, Processes};
use prof_profile::{Avma, BranchFrameId, LocationId};

/// A process as it is at the moment.
#[derive(Clone, Copy)]
pub(crate) struct ProcessNow<'a> {
    pub(crate) processes: &'a Processes,
    pub(crate) pid: i32,
}

impl<'a> ProcessNow<'a> {
    /// What addresses of this mode refer to in it.
    #[inline]
    pub(crate) fn side(self, mode: CpuMode) -> Side<'a> {
        Side {
            mode,
            space: self.processes.space(self.pid, mode),
        }
    }
}

/// The user's or the kernel's side of a process: what addresses of a mode
/// refer to.
#[derive(Clone, Copy)]
pub(crate) struct Side<'a> {
    pub(crate) mode: CpuMode,
    /// `None` if nothing is known to be mapped.
    pub(crate) space: Option<&'a AddressSpace>,
}

/// An address before it has a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct RawLocation {
    pub(crate) mode: CpuMode,
    /// `None` if no mapping holds the address.
    pub(crate) dso: Option<MappedDsoId>,
    /// File offset in files, else the live address.
    pub(crate) address: u64,
    pub(crate) is_return: bool,
    /// See [`prof_profile::Location::branch`].
    pub(crate) branch: Option<BranchFrameId>,
}

impl RawLocation {
    /// A hash in one multiplication.
    #[inline]
    pub(crate) fn hash(&self) -> u64 {
        let dso = self.dso.map_or(u32::MAX, |dso| dso.0);
        let rest = u64::from(dso) << 8 | (self.mode as u64) << 1 | u64::from(self.is_return);
        let branch = self.branch.map_or(0, |branch| u64::from(branch.0) + 1);
        let mixed = (self.address ^ rest.rotate_left(29) ^ branch.rotate_left(48))
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        mixed ^ mixed >> 32
    }
}

/// Where a sample was: what its record says.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawChain<C> {
    pub(crate) pid: i32,
    /// The mode of the sample itself.
    pub(crate) mode: CpuMode,
    pub(crate) ip: Option<Avma>,
    /// Entries as recorded, context markers among them.
    pub(crate) entries: C,
}

pub(crate) fn find(
    index: &HashTable<u32>,
    list: &[RawLocation],
    raw: &RawLocation,
) -> Option<LocationId> {
    let same = |&index: &u32| list.get(index as usize) == Some(raw);
    index.find(raw.hash(), same).map(|&index| LocationId(index))
}

/// The id of `raw` in `list`, where it is put if it is new.
pub(crate) fn intern(
    index: &mut HashTable<u32>,
    list: &mut Vec<RawLocation>,
    raw: RawLocation,
) -> LocationId {
    if let Some(known) = find(index, list, &raw) {
        return known;
    }
    let id = u32::try_from(list.len()).expect("fewer than 2^32 locations");
    let hash_of = |&id: &u32| list.get(id as usize).map_or(0, RawLocation::hash);
    index.insert_unique(raw.hash(), id, hash_of);
    list.push(raw);
    LocationId(id)
}

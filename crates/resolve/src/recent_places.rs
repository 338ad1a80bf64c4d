//! The locations of places that were met lately.

use crate::known_chains::Slot;
use crate::raw_locations::{ProcessNow, RawChain, Side};
use prof_abi::{CallchainContext, CpuMode};
use prof_live::AddressSpace;
use prof_profile::{Avma, LocationId};

/// An address in one state of an address space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    address: u64,
    /// The number of the address space's state, which is the same only while its
    /// mappings are; the mode; and whether it is a return address.
    rest: u64,
}

impl Place {
    #[inline]
    pub(crate) fn new(side: Side<'_>, address: Avma, is_return: bool) -> Self {
        let version = side.space.map_or(0, AddressSpace::version);
        Self {
            address: address.0,
            rest: version << 4 | (side.mode as u64) << 1 | u64::from(is_return),
        }
    }

    #[inline]
    fn hash(&self) -> usize {
        let mixed = self.address ^ self.rest.rotate_left(40);
        (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize
    }
}

/// The locations of places met lately, each in the one slot it may have.
pub(crate) struct Recent {
    mapped: Vec<Slot<Place, LocationId>>,
    /// Of callers in no mapping: apart, since most come once and would drive out
    /// what comes often. Those that come again do so soon: 7 of 10 are here.
    unmapped: Vec<Slot<Place, LocationId>>,
}

impl Recent {
    /// Powers of two: 393 KB and 49 KB.
    const MAPPED: usize = 1 << 14;
    const UNMAPPED: usize = 1 << 11;

    pub(crate) fn new() -> Self {
        // No place is so: no mode has all bits.
        let key = Place {
            address: 0,
            rest: u64::MAX,
        };
        let value = LocationId(0);
        Self {
            mapped: vec![Slot { key, value }; Self::MAPPED],
            unmapped: vec![Slot { key, value }; Self::UNMAPPED],
        }
    }

    #[inline]
    pub(crate) fn get(&self, place: &Place) -> Option<LocationId> {
        let hash = place.hash();
        let held = |slot: &&Slot<Place, LocationId>| slot.key == *place;
        // The small table first: most of what is there waits for no memory.
        let unmapped = self.unmapped.get(hash & (Self::UNMAPPED - 1)).filter(held);
        let mapped = || self.mapped.get(hash & (Self::MAPPED - 1)).filter(held);
        unmapped.or_else(mapped).map(|slot| slot.value)
    }

    pub(crate) fn put(&mut self, key: Place, value: LocationId) {
        let place = key.hash() & (Self::MAPPED - 1);
        if let Some(slot) = self.mapped.get_mut(place) {
            *slot = Slot { key, value };
        }
    }

    pub(crate) fn put_unmapped(&mut self, key: Place, value: LocationId) {
        let place = key.hash() & (Self::UNMAPPED - 1);
        if let Some(slot) = self.unmapped.get_mut(place) {
            *slot = Slot { key, value };
        }
    }

    /// The entries of a chain, each with its location if that was met lately.
    /// Nothing else is done meanwhile, so that the memory of many slots is waited
    /// for at once.
    pub(crate) fn look_up<C>(
        &self,
        process: ProcessNow<'_>,
        chain: RawChain<C>,
        out: &mut Vec<ChainEntry>,
    ) where
        C: Iterator<Item = u64>,
    {
        out.clear();
        let own = process.side(chain.mode);
        let mut add = |side: Side<'_>, address: Avma, is_return: bool| {
            out.push(ChainEntry {
                location: self.get(&Place::new(side, address, is_return)),
                address,
                mode: side.mode,
                is_return,
            });
        };
        let (mut side, mut is_return) = (own, false);
        // What stands in the place of a user chain that comes later, and is no address.
        let mut is_cookie = false;
        let mut leaf = chain.ip;
        for entry in chain.entries {
            if let Some(context) = CallchainContext::from_entry(entry) {
                side = process.side(context.cpu_mode());
                is_cookie = context == CallchainContext::USER_DEFERRED;
                is_return = false;
                continue;
            }
            let mut address = Avma(entry);
            if let Some(ip) = leaf.take() {
                if side.mode == chain.mode && !is_cookie {
                    // The sample's own address is the more exact one (PEBS).
                    address = ip;
                } else {
                    add(own, ip, false);
                }
            }
            add(side, address, is_return);
            is_return = true;
        }
        if let Some(ip) = leaf {
            add(own, ip, false);
        }
    }
}

/// An address of a chain.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChainEntry {
    /// If it was met lately.
    pub(crate) location: Option<LocationId>,
    pub(crate) address: Avma,
    pub(crate) mode: CpuMode,
    pub(crate) is_return: bool,
}

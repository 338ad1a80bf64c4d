//! Raw call chains to interned stacks of locations.

use crate::chain_key::ChainKeys;
use crate::modules::ModuleId;
use crate::processes::Processes;
use hashbrown::HashTable;
use prof_abi::{CallchainContext, CpuMode};
use prof_profile::{Avma, LocationId, StackId, StackTree};
use std::hash::{BuildHasherDefault, Hasher};

/// An address before it has a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct RawLocation {
    pub(crate) mode: CpuMode,
    /// `None` if no mapping holds the address.
    pub(crate) module: Option<ModuleId>,
    /// File offset in files, else the live address.
    pub(crate) address: u64,
    pub(crate) is_return: bool,
}

impl RawLocation {
    /// A hash in one multiplication.
    #[inline]
    fn hash(&self) -> u64 {
        let module = self.module.map_or(u32::MAX, |module| module.0);
        let rest = u64::from(module) << 8 | (self.mode as u64) << 1 | u64::from(self.is_return);
        let mixed = (self.address ^ rest.rotate_left(29)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
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

/// Keys are random already.
#[derive(Default)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }
    fn write_u128(&mut self, key: u128) {
        self.0 = key as u64;
    }
}

/// Interns stacks and locations; a chain seen before in the same address
/// space costs one hash.
pub(crate) struct StackBuilder {
    keys: ChainKeys,
    known: FxHashMap128<StackId>,
    /// Indices into `list`.
    locations: HashTable<u32>,
    list: Vec<RawLocation>,
    stacks: StackTree,
    scratch: Vec<LocationId>,
    /// Callers in no mapping that may still be told apart.
    unmapped_left: usize,
    /// Frames that were not.
    merged: u64,
}

/// Stands for the address of callers that are not told apart.
const MERGED: u64 = u64::MAX;

type FxHashMap128<V> = std::collections::HashMap<u128, V, BuildHasherDefault<KeyHasher>>;

impl StackBuilder {
    /// A builder that tells at most `unmapped_limit` callers in no mapping
    /// apart. Where frame pointers are broken nearly every stack holds some,
    /// all different, and each would be a stack of its own.
    pub(crate) fn new(unmapped_limit: usize) -> Self {
        Self {
            unmapped_left: unmapped_limit,
            merged: 0,
            keys: ChainKeys::new(),
            known: FxHashMap128::default(),
            locations: HashTable::new(),
            list: Vec::new(),
            stacks: StackTree::default(),
            scratch: Vec::new(),
        }
    }

    /// Frames whose address in no mapping was not kept.
    pub(crate) fn merged(&self) -> u64 {
        self.merged
    }

    /// All locations by their ids, and all stacks.
    pub(crate) fn into_parts(self) -> (Vec<RawLocation>, StackTree) {
        (self.list, self.stacks)
    }

    /// The stack of a chain in the processes as they are now.
    pub(crate) fn intern<C>(&mut self, processes: &Processes, chain: RawChain<C>) -> StackId
    where
        C: Iterator<Item = u64> + Clone,
    {
        let (kernel, user) = processes.versions(chain.pid);
        // A pid with mappings of its own is told apart by their version; one
        // without any sees nothing but the kernel, as all such pids do.
        let head = [
            kernel,
            user,
            chain.mode as u64,
            chain.ip.map_or(u64::MAX, |ip| ip.0),
        ];
        let key = self.keys.key(head.into_iter().chain(chain.entries.clone()));
        if let Some(&known) = self.known.get(&key) {
            return known;
        }
        let stack = self.build(processes, chain);
        self.known.insert(key, stack);
        stack
    }

    fn build<C>(&mut self, processes: &Processes, chain: RawChain<C>) -> StackId
    where
        C: Iterator<Item = u64>,
    {
        let mut frames = std::mem::take(&mut self.scratch);
        frames.clear();
        let (mut mode, mut is_return) = (chain.mode, false);
        let mut leaf = chain.ip;
        for entry in chain.entries {
            if let Some(context) = CallchainContext::from_entry(entry) {
                mode = context.cpu_mode();
                is_return = false;
                continue;
            }
            let mut address = Avma(entry);
            if let Some(ip) = leaf.take() {
                if mode == chain.mode {
                    // The sample's own address is the more exact one (PEBS).
                    address = ip;
                } else {
                    frames.push(self.locate(processes, chain.pid, chain.mode, ip, false));
                }
            }
            frames.push(self.locate(processes, chain.pid, mode, address, is_return));
            is_return = true;
        }
        if let Some(ip) = leaf {
            frames.push(self.locate(processes, chain.pid, chain.mode, ip, false));
        }
        let stack = frames
            .iter()
            .rev()
            .fold(StackId::EMPTY, |caller, &location| {
                self.stacks.push(caller, location)
            });
        self.scratch = frames;
        stack
    }

    fn locate(
        &mut self,
        processes: &Processes,
        pid: i32,
        mode: CpuMode,
        address: Avma,
        is_return: bool,
    ) -> LocationId {
        // A call may be the last instruction of a mapping.
        let probe = if is_return { address.minus(1) } else { address };
        let raw = match processes.find(pid, mode, probe) {
            Some(mapping) => RawLocation {
                mode,
                module: Some(mapping.module),
                address: mapping.file_offset(address).0,
                is_return,
            },
            None => RawLocation {
                mode,
                module: None,
                address: address.0,
                is_return,
            },
        };
        self.intern_location(raw)
    }

    fn intern_location(&mut self, mut raw: RawLocation) -> LocationId {
        if let Some(known) = self.known_location(&raw) {
            return known;
        }
        if raw.module.is_none() && raw.is_return && raw.address != MERGED {
            if self.unmapped_left == 0 {
                self.merged += 1;
                raw.address = MERGED;
                return self.intern_location(raw);
            }
            self.unmapped_left -= 1;
        }
        let list = &self.list;
        let index = u32::try_from(list.len()).expect("fewer than 2^32 locations");
        let hash_of = |&index: &u32| list.get(index as usize).map_or(0, RawLocation::hash);
        self.locations.insert_unique(raw.hash(), index, hash_of);
        self.list.push(raw);
        LocationId(index)
    }

    fn known_location(&self, raw: &RawLocation) -> Option<LocationId> {
        let same = |&index: &u32| self.list.get(index as usize) == Some(raw);
        self.locations
            .find(raw.hash(), same)
            .map(|&index| LocationId(index))
    }
}

#[cfg(test)]
mod tests {
    use super::{RawChain, StackBuilder};
    use crate::processes::{MapEvent, Processes};
    use prof_abi::{CallchainContext, CpuMode};
    use prof_profile::{Avma, FileOffset};

    fn processes() -> Processes {
        let mut processes = Processes::default();
        processes.map(&MapEvent {
            pid: 7,
            mode: CpuMode::User,
            start: Avma(0x1000),
            length: 0x1000,
            offset: FileOffset(0x200),
            inode: None,
            build_id: None,
            access: crate::Access::EXECUTE,
            path: b"/bin/x",
        });
        processes
    }

    fn frames(chain: &[u64], mode: CpuMode, ip: u64) -> Vec<(CpuMode, u64, bool)> {
        let mut builder = StackBuilder::new(usize::MAX);
        let raw = RawChain {
            pid: 7,
            mode,
            ip: Some(Avma(ip)),
            entries: chain.iter().copied(),
        };
        let stack = builder.intern(&processes(), raw.clone());
        assert_eq!(builder.intern(&processes(), raw), stack);
        let at = |id: prof_profile::LocationId| builder.list[id.0 as usize];
        builder
            .stacks
            .locations(stack)
            .map(at)
            .map(|raw| (raw.mode, raw.address, raw.is_return))
            .collect()
    }

    #[test]
    fn a_chain_without_entries_is_the_sampled_address() {
        assert_eq!(
            frames(&[], CpuMode::User, 0x1010),
            [(CpuMode::User, 0x210, false)]
        );
    }

    #[test]
    fn callers_in_no_mapping_share_a_place_beyond_the_limit() {
        let mut builder = StackBuilder::new(2);
        let processes = processes();
        let mut stack_of = |leaf: u64, caller: u64| {
            let entries = [leaf, caller].into_iter();
            let ip = Some(Avma(leaf));
            builder.intern(
                &processes,
                RawChain {
                    pid: 7,
                    mode: CpuMode::User,
                    ip,
                    entries,
                },
            )
        };
        let (first, second) = (stack_of(0x1010, 0xa0), stack_of(0x1010, 0xb0));
        let (third, fourth) = (stack_of(0x1010, 0xc0), stack_of(0x1010, 0xd0));
        assert_ne!(first, second);
        assert_ne!(second, third);
        assert_eq!(third, fourth);
        assert_eq!(stack_of(0x1010, 0xa0), first);
        // Where a sample itself was is always told apart.
        assert_ne!(stack_of(0xe0, 0x1010), stack_of(0xf0, 0x1010));
        assert_eq!(builder.merged(), 2);
    }

    #[test]
    fn only_callers_are_return_addresses() {
        let user = CallchainContext::USER.0;
        let kernel = CallchainContext::KERNEL.0;
        let seen = frames(
            &[kernel, 0xf0, 0xf1, user, 0x1010, 0x1020],
            CpuMode::Kernel,
            0xf0,
        );
        let expected = [
            (CpuMode::Kernel, 0xf0, false),
            (CpuMode::Kernel, 0xf1, true),
            (CpuMode::User, 0x210, false),
            (CpuMode::User, 0x220, true),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_kernel_sample_with_a_user_chain_keeps_its_own_address() {
        let seen = frames(&[CallchainContext::USER.0, 0x1010], CpuMode::Kernel, 0xf0);
        assert_eq!(
            seen,
            [
                (CpuMode::Kernel, 0xf0, false),
                (CpuMode::User, 0x210, false)
            ]
        );
    }
}

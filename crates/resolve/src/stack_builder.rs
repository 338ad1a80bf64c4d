//! Raw call chains to interned stacks of locations.

use crate::branch_history::Entry;
use crate::chain_key::ChainKeys;
use crate::known_chains::{Interned, Known};
use crate::raw_locations::{ProcessNow, RawChain, RawLocation, Side, find, intern};
use crate::recent_places::{ChainEntry, Place, Recent};
use hashbrown::{HashMap, HashTable};
use prof_abi::CpuMode;
use prof_live::{MappedDsoId, Processes};
use prof_profile::{Avma, BranchFrame, BranchFrameId, LocationId, StackId, StackTree};

/// What tells a chain from others, but for the process it is of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChainHash([u64; 2]);

/// Interns stacks and locations; a chain seen before in the same address
/// space costs one hash.
pub(crate) struct StackBuilder {
    keys: ChainKeys,
    known: Known,
    recent: Recent,
    list: Vec<RawLocation>,
    /// Indices into `list`.
    locations: HashTable<u32>,
    /// Indices into `list` of callers in no mapping: a table of its own,
    /// because most look-ups in it find nothing and should stay in the cache.
    unmapped: HashTable<u32>,
    /// Callers in no mapping that may still be told apart.
    unmapped_left: usize,
    stacks: StackTree,
    /// Reused: the entries of a chain, and its frames.
    entries: Vec<ChainEntry>,
    scratch: Vec<LocationId>,
    /// By `MappedDsoId`: whether a location is in it.
    has_location: Vec<bool>,
    new_dsos: Vec<MappedDsoId>,
    /// Which `LocationId` stands for callers in no mapping that are not told
    /// apart, by mode.
    merged_ids: [Option<LocationId>; MODES],
    /// See [`prof_profile::Profile::branch_frames`].
    branch_frames: Vec<BranchFrame>,
    branch_ids: HashMap<BranchFrame, BranchFrameId>,
}

/// Modes of a processor, see [`CpuMode`].
const MODES: usize = 8;

/// Where the ends of branches are looked for: they cross from user to kernel.
pub(crate) const BRANCH_MODES: [CpuMode; 3] =
    [CpuMode::User, CpuMode::Kernel, CpuMode::GuestKernel];

/// Stands for the address of callers that are not told apart.
const MERGED: u64 = u64::MAX;

impl StackBuilder {
    /// A builder that tells at most `unmapped_limit` callers in no mapping
    /// apart. Where frame pointers are broken nearly every stack holds some,
    /// all different, and each would be a stack of its own. Beyond the limit,
    /// a run of them in a stack is one frame. About `chains` different ones
    /// are expected.
    pub(crate) fn new(unmapped_limit: usize, chains: usize) -> Self {
        Self {
            keys: ChainKeys::new(),
            known: Known::with_room(chains),
            recent: Recent::new(),
            list: Vec::new(),
            locations: HashTable::new(),
            unmapped: HashTable::new(),
            unmapped_left: unmapped_limit,
            stacks: StackTree::default(),
            entries: Vec::new(),
            scratch: Vec::new(),
            has_location: Vec::new(),
            new_dsos: Vec::new(),
            merged_ids: [None; MODES],
            branch_frames: Vec::new(),
            branch_ids: HashMap::default(),
        }
    }

    /// The dsos that got their first location since the last call.
    pub(crate) fn new_dsos(&mut self) -> impl Iterator<Item = MappedDsoId> + use<> {
        std::mem::take(&mut self.new_dsos).into_iter()
    }

    fn note_dso(&mut self, dso: MappedDsoId) {
        let index = dso.0 as usize;
        if self.has_location.len() <= index {
            self.has_location.resize(index + 1, false);
        }
        if let Some(slot) = self.has_location.get_mut(index)
            && !std::mem::replace(slot, true)
        {
            self.new_dsos.push(dso);
        }
    }

    /// The locations so far, by their ids.
    pub(crate) fn locations(&self) -> &[RawLocation] {
        &self.list
    }

    /// All locations by their ids, all stacks, and the ends of branches.
    pub(crate) fn into_parts(self) -> (Vec<RawLocation>, StackTree, Vec<BranchFrame>) {
        (self.list, self.stacks, self.branch_frames)
    }

    /// What tells a chain from others, in whatever process.
    #[inline]
    pub(crate) fn hash<C>(&self, chain: RawChain<C>) -> ChainHash
    where
        C: Iterator<Item = u64>,
    {
        let head = [chain.mode as u64, chain.ip.map_or(u64::MAX, |ip| ip.0)];
        let (left, right) = self.keys.key(head.into_iter().chain(chain.entries));
        ChainHash([left, right])
    }

    #[inline]
    fn key(&self, processes: &Processes, pid: i32, hash: ChainHash) -> (u64, u64) {
        let (kernel, user) = processes.versions(pid);
        // A pid with mappings of its own is told apart by their version; one
        // without any sees nothing but the kernel, as all such pids do.
        let [left, right] = hash.0;
        self.keys.key([kernel, user, left, right].into_iter())
    }

    /// Begins to read where the stack of a chain is looked for, so that it is at
    /// hand when [`StackBuilder::intern`] is called.
    #[inline]
    pub(crate) fn expect(&self, processes: &Processes, pid: i32, hash: ChainHash) {
        self.known.touch(self.key(processes, pid, hash));
    }

    /// The stack of a chain, of which this is the hash, in the processes as they
    /// are now.
    pub(crate) fn intern<C>(
        &mut self,
        processes: &Processes,
        chain: RawChain<C>,
        hash: ChainHash,
    ) -> Interned
    where
        C: Iterator<Item = u64>,
    {
        let key = self.key(processes, chain.pid, hash);
        if let Some(known) = self.known.get(key) {
            return known;
        }
        let stack = self.build(processes, chain);
        self.known.put(key, stack);
        stack
    }

    fn build<C>(&mut self, processes: &Processes, chain: RawChain<C>) -> Interned
    where
        C: Iterator<Item = u64>,
    {
        let mut entries = std::mem::take(&mut self.entries);
        let process = ProcessNow {
            processes,
            pid: chain.pid,
        };
        self.recent.look_up(process, chain, &mut entries);
        let mut frames = std::mem::take(&mut self.scratch);
        frames.clear();
        let mut side = process.side(CpuMode::Kernel);
        let (mut merged, mut left_out) = (0, 0);
        for entry in &entries {
            let location = entry.location.unwrap_or_else(|| {
                if side.mode != entry.mode {
                    side = process.side(entry.mode);
                }
                self.locate(side, entry.address, entry.is_return)
            });
            let is_merged = self.is_merged(entry.mode, location);
            merged += u32::from(is_merged);
            if is_merged && frames.last() == Some(&location) {
                left_out += 1;
            } else {
                frames.push(location);
            }
        }
        let stack = frames
            .iter()
            .rev()
            .fold(StackId::EMPTY, |caller, &location| {
                self.stacks.push(caller, location)
            });
        let depth = frames.len() as u32 + left_out;
        self.scratch = frames;
        self.entries = entries;
        Interned {
            stack,
            merged,
            left_out,
            depth,
        }
    }

    /// The stack of a chain that branches were put into, outermost first; the
    /// sample's own address stands beside it.
    pub(crate) fn build_history<'e>(
        &mut self,
        process: ProcessNow<'_>,
        entries: impl Iterator<Item = &'e Entry>,
        (mode, ip): (CpuMode, Avma),
    ) -> StackId {
        let mut stack = StackId::EMPTY;
        for entry in entries {
            let location = match *entry {
                Entry::Chain(address, mode) => self.locate(process.side(mode), Avma(address), true),
                Entry::Branch(end) => {
                    let address = end.address().unwrap_or_default();
                    let found = BRANCH_MODES.into_iter().find_map(|mode| {
                        let side = process.side(mode);
                        side.space?.find(address).map(|_| side)
                    });
                    // As in perf, what is not the kernel's is the process's.
                    let side = found.unwrap_or(Side {
                        mode: CpuMode::User,
                        space: None,
                    });
                    self.locate_end(side, address, end)
                }
            };
            stack = self.stacks.push(stack, location);
        }
        let own = self.locate_end(process.side(mode), ip, BranchFrame::Sampled);
        self.stacks.push(stack, own)
    }

    /// The location of an end of a branch.
    fn locate_end(&mut self, side: Side<'_>, address: Avma, end: BranchFrame) -> LocationId {
        let Side { mode, space } = side;
        let found = space.and_then(|space| space.find(address));
        let next = BranchFrameId(self.branch_frames.len() as u32);
        let branch = *self.branch_ids.entry(end).or_insert(next);
        if branch == next {
            self.branch_frames.push(end);
        }
        let raw = RawLocation {
            mode,
            dso: found.map(|mapping| mapping.dso),
            address: found.map_or(address.0, |mapping| mapping.file_offset(address).0),
            is_return: false,
            branch: Some(branch),
        };
        if let Some(dso) = raw.dso {
            self.note_dso(dso);
        }
        intern(&mut self.locations, &mut self.list, raw)
    }

    /// What holds an address of a process, which need not be code; the first
    /// of `modes` that maps it. `None` if nothing does.
    pub(crate) fn place(
        &mut self,
        process: ProcessNow<'_>,
        modes: &[CpuMode],
        address: Avma,
    ) -> Option<LocationId> {
        modes.iter().find_map(|&mode| {
            let side = process.side(mode);
            side.space?.find(address)?;
            Some(self.locate(side, address, false))
        })
    }

    /// The location of an address that nothing holds, in perf's mode for it.
    pub(crate) fn nowhere(&mut self, address: Avma) -> LocationId {
        let side = Side {
            mode: CpuMode::Hypervisor,
            space: None,
        };
        self.locate(side, address, false)
    }

    /// The stack of one frame.
    pub(crate) fn stack_of(&mut self, location: LocationId) -> StackId {
        self.stacks.push(StackId::EMPTY, location)
    }

    fn locate(&mut self, side: Side<'_>, address: Avma, is_return: bool) -> LocationId {
        let Side { mode, space } = side;
        let place = Place::new(side, address, is_return);
        if let Some(known) = self.recent.get(&place) {
            return known;
        }
        // A call may be the last instruction of a mapping.
        let probe = if is_return { address.minus(1) } else { address };
        let found = space.and_then(|space| space.find(probe));
        let raw = RawLocation {
            mode,
            dso: found.map(|mapping| mapping.dso),
            address: found.map_or(address.0, |mapping| mapping.file_offset(address).0),
            is_return,
            branch: None,
        };
        if found.is_none() && is_return {
            let location = self.intern_unmapped(raw);
            self.recent.put_unmapped(place, location);
            return location;
        }
        if let Some(dso) = raw.dso {
            self.note_dso(dso);
        }
        let location = intern(&mut self.locations, &mut self.list, raw);
        self.recent.put(place, location);
        location
    }

    /// Whether this is the location of callers that are not told apart.
    fn is_merged(&self, mode: CpuMode, location: LocationId) -> bool {
        self.merged_ids.get(mode as usize).copied().flatten() == Some(location)
    }

    /// The location of a caller in no mapping.
    fn intern_unmapped(&mut self, mut raw: RawLocation) -> LocationId {
        if let Some(known) = find(&self.unmapped, &self.list, &raw) {
            return known;
        }
        if self.unmapped_left > 0 {
            self.unmapped_left -= 1;
            return intern(&mut self.unmapped, &mut self.list, raw);
        }
        let known = self.merged_ids.get(raw.mode as usize).copied().flatten();
        known.unwrap_or_else(|| {
            let mode = raw.mode;
            raw.address = MERGED;
            let made = intern(&mut self.unmapped, &mut self.list, raw);
            if let Some(slot) = self.merged_ids.get_mut(mode as usize) {
                *slot = Some(made);
            }
            made
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{RawChain, StackBuilder};
    use prof_abi::{CallchainContext, CpuMode};
    use prof_live::{MapEvent, Processes};
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
            access: prof_live::Access::EXECUTE,
            path: b"/bin/x",
        });
        processes
    }

    fn frames(chain: &[u64], mode: CpuMode, ip: u64) -> Vec<(CpuMode, u64, bool)> {
        let mut builder = StackBuilder::new(usize::MAX, 0);
        let raw = RawChain {
            pid: 7,
            mode,
            ip: Some(Avma(ip)),
            entries: chain.iter().copied(),
        };
        let hash = builder.hash(raw.clone());
        let stack = builder.intern(&processes(), raw.clone(), hash).stack;
        assert_eq!(builder.intern(&processes(), raw, hash).stack, stack);
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
        let mut builder = StackBuilder::new(2, 0);
        let processes = processes();
        let mut intern = |entries: &[u64]| {
            let chain = RawChain {
                pid: 7,
                mode: CpuMode::User,
                ip: entries.first().copied().map(Avma),
                entries: entries.iter().copied(),
            };
            let hash = builder.hash(chain.clone());
            builder.intern(&processes, chain, hash)
        };
        let (first, second) = (intern(&[0x1010, 0xa0]), intern(&[0x1010, 0xb0]));
        let (third, fourth) = (intern(&[0x1010, 0xc0]), intern(&[0x1010, 0xd0]));
        assert_ne!(first.stack, second.stack);
        assert_ne!(second.stack, third.stack);
        assert_eq!(third.stack, fourth.stack);
        assert_eq!(intern(&[0x1010, 0xa0]).stack, first.stack);
        assert_eq!((second.merged, third.merged, third.left_out), (0, 1, 0));
        // Where a sample itself was is always told apart.
        assert_ne!(intern(&[0xe0, 0x1010]).stack, intern(&[0xf0, 0x1010]).stack);
        // A run of them is one frame, and still counts.
        let run = intern(&[0x1010, 0xe1, 0xe2, 0xe3, 0x1020, 0xe4]);
        assert_eq!((run.merged, run.left_out, run.depth), (4, 2, 6));
        assert_eq!(builder.stacks.locations(run.stack).count(), 4);
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

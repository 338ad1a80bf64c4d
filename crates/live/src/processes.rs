//! Process state at a moment of the recording: who is called what, and what
//! is mapped where.

use crate::address_space::{Access, AddressSpace, Mapping};
use crate::mapped_dsos::{
    Inode, MappedDso, MappedDsoId, MappedDsos, guest_path, kernel_kind, runtime_function, user_kind,
};
use prof_abi::{BuildId, CpuMode};
use prof_profile::{Avma, DsoKind, FileOffset, NameId, Names};
use rustc_hash::{FxHashMap, FxHashSet};

/// Bytes behind the kernel's text in which its first code may be: read-only
/// data and variables come before it.
const INIT_CODE_WITHIN: u64 = 64 << 20;

/// A mapping as MMAP and MMAP2 records tell it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MapEvent<'a> {
    /// Thread-group id; -1 for the kernel's own maps.
    pub pid: i32,
    /// Kernel or user, from the record's `misc`.
    pub mode: CpuMode,
    /// First address.
    pub start: Avma,
    /// Length in bytes.
    pub length: u64,
    /// Offset in the file in bytes.
    pub offset: FileOffset,
    /// The file, if told.
    pub inode: Option<Inode>,
    /// Its identity, if told.
    pub build_id: Option<BuildId>,
    /// What may be done with it.
    pub access: Access,
    /// Path or pseudo name.
    pub path: &'a [u8],
}

/// A new thread or process, from a FORK record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForkEvent {
    /// The new thread's thread-group.
    pub pid: i32,
    /// The parent's thread-group.
    pub parent_pid: i32,
    /// The new thread.
    pub tid: i32,
    /// The parent thread.
    pub parent_tid: i32,
    /// Synthesised for a task whose mappings follow, so nothing is copied.
    pub has_own_maps: bool,
}

#[derive(Debug, Clone, Copy)]
struct Thread {
    pid: i32,
    parent: Option<i32>,
    comm: Option<NameId>,
}

/// The names, threads and mappings of all processes, as of the last record
/// applied.
#[derive(Debug, Default)]
pub struct Processes {
    /// Names of threads.
    pub names: Names,
    dsos: MappedDsos,
    kernel: AddressSpace,
    /// What kernels of virtual machines have mapped, all in one: samples do
    /// not tell of which machine they are.
    guest_kernel: AddressSpace,
    /// Where the kernel's text is, by the first kernel mapping.
    kernel_range: Option<(Avma, Avma)>,
    /// A kernel symbol and its address, as the kernel's mapping tells them.
    kernel_reference: Option<(Vec<u8>, Avma)>,
    kernel_build_id: Option<BuildId>,
    spaces: FxHashMap<i32, AddressSpace>,
    /// So many of them are between exec and the new program's first code.
    in_exec: usize,
    threads: FxHashMap<i32, Thread>,
    last_version: u64,
    /// Counts changes of what any process has mapped.
    changes: u64,
    /// Run-time code of all processes is one dso.
    shares_jit: bool,
}

impl Processes {
    /// For unwinding only, which takes no names: run-time code of each process
    /// need not be told apart.
    pub(crate) fn for_unwinding() -> Self {
        Self {
            shares_jit: true,
            ..Self::default()
        }
    }

    /// A thread ended, and with it `process` if it was the last one: what is
    /// known of them is dropped.
    pub(crate) fn forget(&mut self, tid: i32, process: Option<i32>) {
        self.threads.remove(&tid);
        self.changes += 1;
        let space = process.and_then(|pid| self.spaces.remove(&pid));
        let ended = space.is_some_and(|space| space.is_in_exec());
        self.in_exec -= usize::from(ended);
    }

    /// Threads and address spaces that are known.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.threads.len() + self.spaces.len() + self.dsos.len()
    }

    /// What processes have mapped now.
    pub(crate) fn in_use(&self) -> FxHashSet<MappedDsoId> {
        let (mut in_use, mut seen) = (FxHashSet::default(), FxHashSet::default());
        for space in self.spaces.values() {
            space.each_dso(&mut seen, &mut |dso| {
                in_use.insert(dso);
            });
        }
        in_use
    }

    /// Everything that was mapped so far.
    pub fn dsos(&self) -> &MappedDsos {
        &self.dsos
    }

    /// A symbol of the kernel and where it was, which tells how the kernel
    /// was relocated.
    pub fn kernel_reference(&self) -> Option<(Vec<u8>, Avma)> {
        self.kernel_reference.clone()
    }

    /// The kernel's identity, if its mapping tells.
    pub fn kernel_build_id(&self) -> Option<BuildId> {
        self.kernel_build_id
    }

    /// A range was mapped. Empty ranges and those that wrap are ignored.
    pub fn map(&mut self, event: &MapEvent<'_>) -> Option<MappedDsoId> {
        // One that ends at the last address has no first one behind it.
        let last = event.start.0.checked_add(event.length.checked_sub(1)?)?;
        let end = Avma(last.saturating_add(1));
        if event.mode == CpuMode::GuestUser {
            // The process id is one of the guest's.
            return None;
        }
        let is_kernel = matches!(event.mode, CpuMode::Kernel | CpuMode::GuestKernel);
        let dso = if is_kernel {
            Self::kernel_module(event)
        } else {
            self.user_dso(event)
        };
        let is_first_kernel = dso.kind == DsoKind::Kernel && self.kernel_range.is_none();
        if is_first_kernel {
            self.note_kernel(event, end);
        }
        // The kernel's own offset names its reference symbol, not a place;
        // that of memory without a file says nothing.
        let offset = if is_kernel || dso.kind == DsoKind::Jit {
            FileOffset(event.start.0)
        } else {
            event.offset
        };
        let is_kernel_module = dso.kind == DsoKind::KernelModule;
        let dso = self.dsos.intern(dso);
        if is_kernel_module {
            self.dsos.note_load(dso, event.start);
        } else if !is_kernel && event.access.has(Access::EXECUTE) {
            self.dsos.note_code(dso, event.offset);
        }
        let mapping = Mapping {
            start: event.start,
            end,
            offset,
            dso,
            access: event.access,
        };
        let version = self.next_version();
        let space = match event.mode {
            CpuMode::Kernel => &mut self.kernel,
            CpuMode::GuestKernel => &mut self.guest_kernel,
            _ => self.spaces.entry(event.pid).or_default(),
        };
        space.insert(mapping, version);
        if is_first_kernel {
            self.map_behind_kernel(mapping);
        }
        Some(dso)
    }

    /// Keeps what the kernel's mapping, which ends before `end`, tells of it.
    fn note_kernel(&mut self, event: &MapEvent<'_>, end: Avma) {
        self.kernel_range = Some((event.start, end));
        self.kernel_build_id = event.build_id;
        // `[kernel.kallsyms]_text`: the offset is that symbol's address.
        let symbol = event
            .path
            .rsplit(|&byte| byte == b']')
            .next()
            .unwrap_or_default();
        if !symbol.is_empty() && event.offset.0 != 0 {
            self.kernel_reference = Some((symbol.to_vec(), Avma(event.offset.0)));
        }
    }

    /// Code that runs while the kernel starts is behind its text, which is all
    /// that the mapping of the kernel tells; the idle task of the first CPU
    /// has it in its chains for ever. What is mapped there later is on top.
    fn map_behind_kernel(&mut self, kernel: Mapping) {
        let (start, end) = (
            kernel.end,
            Avma(kernel.end.0.saturating_add(INIT_CODE_WITHIN)),
        );
        let is_free = |at: Avma| self.kernel.find(at).is_none();
        if start < end && is_free(start) && is_free(Avma(end.0 - 1)) {
            let behind = Mapping {
                start,
                end,
                offset: kernel.file_offset(start),
                ..kernel
            };
            let version = self.next_version();
            self.kernel.insert(behind, version);
        }
    }

    fn kernel_module(event: &MapEvent<'_>) -> MappedDso {
        let (kind, path) = match event.mode {
            // Its symbols are not those of the host, whatever it is called.
            CpuMode::GuestKernel => (DsoKind::GuestKernel, guest_path(event.path)),
            _ => kernel_kind(event.path),
        };
        MappedDso {
            kind,
            path,
            build_id: event.build_id,
            inode: None,
            pid: None,
        }
    }

    fn user_dso(&self, event: &MapEvent<'_>) -> MappedDso {
        let is_data = !event.access.has(Access::EXECUTE);
        let kind = match user_kind(event.path) {
            DsoKind::Jit if is_data && runtime_function(event.path).is_none() => DsoKind::Data,
            kind => kind,
        };
        let is_shared = self.shares_jit || runtime_function(event.path).is_some();
        MappedDso {
            kind,
            path: event.path.to_vec(),
            build_id: event.build_id,
            inode: event.inode.filter(|_| kind == DsoKind::File),
            pid: (kind == DsoKind::Jit && !is_shared).then_some(event.pid),
        }
    }

    /// Code appeared in the kernel: a KSYMBOL record of `length` bytes.
    pub(crate) fn kernel_symbol(&mut self, start: Avma, length: u32, name: &[u8]) {
        let Some(end) = start
            .0
            .checked_add(u64::from(length))
            .filter(|&end| end != start.0)
        else {
            return;
        };
        let dso = self.dsos.intern(MappedDso {
            kind: DsoKind::KernelSymbol,
            path: name.to_vec(),
            build_id: None,
            inode: None,
            pid: None,
        });
        let version = self.next_version();
        let offset = FileOffset(start.0);
        self.kernel.insert(
            Mapping {
                start,
                end: Avma(end),
                offset,
                dso,
                access: Access::EXECUTE,
            },
            version,
        );
    }

    /// A thread's name was set; by exec it also lost all its mappings. They
    /// are kept aside until [`Processes::runs_user_code`]: until then the
    /// user part of its chains is that of the old program, which called exec.
    pub fn comm(&mut self, pid: i32, tid: i32, comm: &[u8], is_exec: bool) {
        let comm = self.names.intern_bytes(comm);
        let parent = self.threads.get(&tid).and_then(|thread| thread.parent);
        self.threads.insert(
            tid,
            Thread {
                pid,
                parent,
                comm: Some(comm),
            },
        );
        if is_exec {
            let version = self.next_version();
            let space = self.spaces.remove(&pid).unwrap_or_default();
            self.in_exec += usize::from(!space.is_in_exec());
            self.spaces.insert(pid, space.exec(version));
        }
    }

    /// A process was seen in user mode: its last exec is complete, so the
    /// mappings of the program before are dropped.
    #[inline]
    pub fn runs_user_code(&mut self, pid: i32) {
        if self.in_exec > 0 {
            self.end_exec(pid);
        }
    }

    /// Whether the registers with which a process entered the kernel are of a
    /// program that is gone: it is in exec, and `pc` is not the new program's.
    pub(crate) fn is_of_old_program(&self, pid: i32, pc: Avma) -> bool {
        self.in_exec > 0
            && self
                .spaces
                .get(&pid)
                .is_some_and(|space| space.is_in_exec() && space.find_own(pc).is_none())
    }

    fn end_exec(&mut self, pid: i32) {
        let version = self.last_version + 1;
        let ended = self
            .spaces
            .get_mut(&pid)
            .is_some_and(|space| space.end_exec(version));
        if ended {
            self.last_version = version;
            self.changes += 1;
            self.in_exec -= 1;
        }
    }

    /// A thread or process began.
    pub fn fork(&mut self, event: &ForkEvent) {
        let comm = self
            .threads
            .get(&event.parent_tid)
            .and_then(|parent| parent.comm);
        // The idle thread's name is known without a record.
        let comm = match event.parent_tid {
            0 => comm.or_else(|| Some(self.names.intern("swapper"))),
            _ => comm,
        };
        self.threads.insert(
            event.tid,
            Thread {
                pid: event.pid,
                parent: Some(event.parent_tid),
                comm,
            },
        );
        if event.pid == event.parent_pid {
            return;
        }
        self.changes += 1;
        let parent = self
            .spaces
            .get_mut(&event.parent_pid)
            .filter(|_| !event.has_own_maps);
        let replaced = match parent.map(AddressSpace::fork) {
            Some(copy) => self.spaces.insert(event.pid, copy),
            None => self.spaces.remove(&event.pid),
        };
        let ended = replaced.is_some_and(|space| space.is_in_exec());
        self.in_exec -= usize::from(ended);
    }

    /// All threads that records tell of, sorted by id. Those whose name no
    /// record tells are called `:` and their id, as in perf.
    pub fn threads(&mut self) -> Vec<prof_profile::Thread> {
        let mut known = std::mem::take(&mut self.threads);
        let unnamed = |pid| Thread {
            pid,
            parent: None,
            comm: None,
        };
        for &pid in self.spaces.keys() {
            known.entry(pid).or_insert_with(|| unnamed(pid));
        }
        let name = |(&tid, thread): (&i32, &Thread)| prof_profile::Thread {
            tid,
            pid: thread.pid,
            parent: thread.parent,
            comm: thread
                .comm
                .unwrap_or_else(|| self.names.intern(&format!(":{tid}"))),
        };
        let mut threads: Vec<_> = known.iter().map(name).collect();
        threads.sort_by_key(|thread| thread.tid);
        self.threads = known;
        threads
    }

    /// A thread's name; `None` if no record told it.
    pub fn comm_of(&self, tid: i32) -> Option<NameId> {
        self.threads.get(&tid)?.comm
    }

    /// What holds `address` in a process, or in the kernel.
    #[inline]
    pub fn find(&self, pid: i32, mode: CpuMode, address: Avma) -> Option<Mapping> {
        self.space(pid, mode)?.find(address)
    }

    /// The mappings that addresses of this mode refer to.
    pub fn space(&self, pid: i32, mode: CpuMode) -> Option<&AddressSpace> {
        match mode {
            CpuMode::Kernel => Some(&self.kernel),
            CpuMode::GuestKernel => Some(&self.guest_kernel),
            CpuMode::User | CpuMode::Unknown => self.spaces.get(&pid),
            CpuMode::Hypervisor | CpuMode::GuestUser => None,
        }
    }

    /// Two numbers that stay the same as long as the mappings of the kernels
    /// and of this process do, and differ between different mappings.
    pub fn versions(&self, pid: i32) -> (u64, u64) {
        (
            // Every change has a number of its own, higher than all before.
            self.kernel.version().max(self.guest_kernel.version()),
            self.spaces.get(&pid).map_or(0, AddressSpace::version),
        )
    }

    /// A number that stays the same while no process maps, forks, ends or
    /// executes another program.
    #[inline]
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    fn next_version(&mut self) -> u64 {
        self.changes += 1;
        self.last_version += 1;
        self.last_version
    }
}

#[cfg(test)]
mod tests {
    use super::{ForkEvent, MapEvent, Processes};
    use crate::address_space::Access;
    use prof_abi::CpuMode;
    use prof_profile::{Avma, DsoKind, FileOffset};

    fn map(pid: i32, start: u64, path: &[u8]) -> MapEvent<'_> {
        MapEvent {
            pid,
            mode: CpuMode::User,
            start: Avma(start),
            length: 0x1000,
            offset: FileOffset(0),
            inode: None,
            build_id: None,
            access: Access::EXECUTE,
            path,
        }
    }

    fn path_at(processes: &Processes, pid: i32, address: u64) -> Option<String> {
        let mapping = processes.find(pid, CpuMode::User, Avma(address))?;
        let path = &processes.dsos().get(mapping.dso).path;
        Some(String::from_utf8_lossy(path).into_owned())
    }

    #[test]
    fn memory_that_runs_no_code_is_of_no_run_time() {
        let mut processes = Processes::default();
        let mut mapped = |path, access| {
            let event = MapEvent {
                access,
                offset: FileOffset(7),
                ..map(10, 0x1000, path)
            };
            let id = processes.map(&event).expect("not empty");
            let dso = processes.dsos().get(id);
            let found = (dso.kind, dso.pid);
            let mapping = processes.find(10, CpuMode::User, Avma(0x1000));
            (found, mapping.expect("just mapped").offset)
        };
        let write = Access::of(3, 2);
        for path in [&b"//anon"[..], b"[heap]", b"[stack]"] {
            assert_eq!(mapped(path, write), ((DsoKind::Data, None), FileOffset(7)));
            let code = mapped(path, Access::EXECUTE);
            assert_eq!(code, ((DsoKind::Jit, Some(10)), FileOffset(0x1000)));
        }
        assert_eq!(mapped(b"/bin/sh", write).0, (DsoKind::File, None));
        assert_eq!(mapped(b"[java] A.run", write).0.0, DsoKind::Jit);
    }

    #[test]
    fn a_child_sees_its_parents_maps_until_it_execs() {
        let mut processes = Processes::default();
        processes.comm(10, 10, b"sh", false);
        processes.map(&map(10, 0x1000, b"/bin/sh"));
        let fork = ForkEvent {
            pid: 11,
            parent_pid: 10,
            tid: 11,
            parent_tid: 10,
            has_own_maps: false,
        };
        processes.fork(&fork);
        assert_eq!(path_at(&processes, 11, 0x1800).as_deref(), Some("/bin/sh"));
        assert_eq!(processes.versions(11), processes.versions(10));
        assert_eq!(processes.comm_of(11), processes.comm_of(10));
        processes.comm(11, 11, b"ls", true);
        processes.runs_user_code(11);
        assert_eq!(path_at(&processes, 11, 0x1800), None);
        assert_eq!(path_at(&processes, 10, 0x1800).as_deref(), Some("/bin/sh"));
        assert_ne!(processes.versions(11), processes.versions(10));
    }

    #[test]
    fn a_guests_kernel_does_not_take_the_hosts_samples() {
        let mut processes = Processes::default();
        let kernel = |mode, path| MapEvent {
            mode,
            ..map(-1, 0xffff_0000, path)
        };
        processes.map(&kernel(CpuMode::Kernel, b"[kernel.kallsyms]_text"));
        let before = processes.versions(10);
        let range = processes.kernel_range;
        let guest: &[u8] = b"[guest.kernel.kallsyms]_text";
        for path in [guest, b"[kernel.kallsyms]_text"] {
            processes.map(&kernel(CpuMode::GuestKernel, path));
            for (mode, expected) in [
                (CpuMode::Kernel, (DsoKind::Kernel, "[kernel.kallsyms]")),
                (
                    CpuMode::GuestKernel,
                    (DsoKind::GuestKernel, "[guest.kernel.kallsyms]"),
                ),
            ] {
                let found = processes.find(10, mode, Avma(0xffff_0800));
                let dso = processes.dsos().get(found.expect("mapped").dso);
                let path = String::from_utf8_lossy(&dso.path);
                assert_eq!((dso.kind, path.as_ref()), expected);
            }
        }
        assert_ne!(processes.versions(10), before);
        assert_eq!(processes.kernel_range, range);
        // Process 10 of the guest is not ours.
        let guest_user = MapEvent {
            mode: CpuMode::GuestUser,
            ..map(10, 0x1000, b"/bin/guest")
        };
        assert_eq!(processes.map(&guest_user), None);
        assert_eq!(path_at(&processes, 10, 0x1800), None);
    }

    #[test]
    fn the_old_program_is_seen_until_the_new_one_runs() {
        let mut processes = Processes::default();
        processes.map(&map(10, 0x1000, b"/bin/sh"));
        processes.map(&map(10, 0x8000, b"/lib/libc.so"));
        let before = processes.versions(10);
        processes.comm(10, 10, b"ls", true);
        assert_ne!(processes.versions(10), before);
        processes.map(&map(10, 0x1000, b"/bin/ls"));
        assert_eq!(path_at(&processes, 10, 0x1800).as_deref(), Some("/bin/ls"));
        let libc = path_at(&processes, 10, 0x8800);
        assert_eq!(libc.as_deref(), Some("/lib/libc.so"));
        assert!(processes.is_of_old_program(10, Avma(0x8800)));
        assert!(!processes.is_of_old_program(10, Avma(0x1800)));
        assert!(!processes.is_of_old_program(11, Avma(0x8800)));
        let before = processes.versions(10);
        processes.runs_user_code(11);
        assert_eq!(processes.versions(10), before);
        processes.runs_user_code(10);
        assert_ne!(processes.versions(10), before);
        assert_eq!(path_at(&processes, 10, 0x1800).as_deref(), Some("/bin/ls"));
        assert_eq!(path_at(&processes, 10, 0x8800), None);
    }

    #[test]
    fn memory_without_a_file_has_live_addresses() {
        let mut processes = Processes::default();
        processes.map(&map(1, 0x1000, b"//anon"));
        let mapping = processes.find(1, CpuMode::User, Avma(0x1800));
        let offset = mapping.map(|mapping| mapping.file_offset(Avma(0x1800)));
        assert_eq!(offset, Some(FileOffset(0x1800)));
    }

    #[test]
    fn code_behind_the_kernels_text_is_the_kernels_but_under_dsos() {
        let text = 0xffff_ffff_8100_0000;
        let kernel = |start, path| MapEvent {
            mode: CpuMode::Kernel,
            offset: FileOffset(start),
            ..map(-1, start, path)
        };
        let path_at = |processes: &Processes, address: u64| {
            let mapping = processes.find(0, CpuMode::Kernel, Avma(address))?;
            assert_eq!(mapping.file_offset(Avma(address)), FileOffset(address));
            let path = &processes.dsos().get(mapping.dso).path;
            Some(String::from_utf8_lossy(path).into_owned())
        };
        let mut processes = Processes::default();
        processes.map(&kernel(text, b"[kernel.kallsyms]_text"));
        processes.map(&kernel(text + 0x20_0000, b"[ext4]"));
        let own = Some("[kernel.kallsyms]".to_owned());
        assert_eq!(path_at(&processes, text + 0xfff), own);
        assert_eq!(path_at(&processes, text + 0x10_0000), own);
        assert_eq!(
            path_at(&processes, text + 0x20_0800).as_deref(),
            Some("[ext4]")
        );
        assert_eq!(path_at(&processes, text + (64 << 20) + 0x1000), None);
        assert_eq!(path_at(&processes, text - 1), None);
        let range = (Avma(text), Avma(text + 0x1000));
        assert_eq!(processes.kernel_range, Some(range));
        // A dso that was told of first keeps its place.
        let mut processes = Processes::default();
        processes.map(&kernel(text + 0x1000, b"[ext4]"));
        processes.map(&kernel(text, b"[kernel.kallsyms]_text"));
        assert_eq!(
            path_at(&processes, text + 0x1800).as_deref(),
            Some("[ext4]")
        );
    }

    #[test]
    fn ranges_that_wrap_or_are_empty_map_nothing() {
        let mut processes = Processes::default();
        let wraps = MapEvent {
            length: u64::MAX,
            ..map(1, 0x1000, b"/x")
        };
        let empty = MapEvent {
            length: 0,
            ..map(1, 0x1000, b"/x")
        };
        assert_eq!(processes.map(&wraps), None);
        assert_eq!(processes.map(&empty), None);
        assert_eq!(path_at(&processes, 1, 0x1000), None);
    }
}

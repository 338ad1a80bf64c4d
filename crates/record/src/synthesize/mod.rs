//! What was there before recording: existing tasks, the kernel, its modules
//! and the machine, told in the records that the kernel would have written.
//!
//! Everything is read from /proc and /sys and may vanish or be forbidden while
//! it is read. That is normal: what cannot be read is left out and, where it
//! matters, counted in [`Synthesized`].

mod build_ids;
mod cgroups;
mod kernel;
mod machine;
mod procfs;

use build_ids::BuildIdCache;
pub(crate) use build_ids::read_build_id;
use procfs::MapsLine;
pub(crate) use procfs::maps;
use prof_abi::{BuildId, ByteOrder, CpuMode, EventAttr, Misc, RecordType};
use prof_perfdata::body::{Body, Comm, FileIdentity, Mmap2, Name, Namespaces, Pairs, Task};
use prof_perfdata::write::{Features, RecordedBuildId, Trailer, append_short};
use std::collections::BTreeMap;

pub use cgroups::cgroups;
pub use kernel::{KernelImage, first_of_tasks, images as kernel_images, kernel_build_id};
pub use machine::{MachineFacts, machine_features, online_cpus};
pub use procfs::{processes, threads_of};

const PROT_EXEC: u32 = 4;

/// The process of the kernel's mappings.
const KERNEL: i32 = -1;

/// What to synthesize for each existing task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Put build-ids into MMAP2 where a file has one, instead of its inode.
    pub build_ids: bool,
    /// Data mappings too, not only executable ones.
    pub data_mappings: bool,
    /// Namespaces of each task.
    pub namespaces: bool,
    /// Mappings of each process; those of the kernel are told anyway.
    pub mappings: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            build_ids: true,
            data_mappings: false,
            namespaces: false,
            mappings: true,
        }
    }
}

/// How many records were synthesized, by kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Synthesized {
    /// Processes.
    pub processes: u64,
    /// Threads, main threads included.
    pub threads: u64,
    /// Mappings.
    pub mappings: u64,
    /// Processes whose mappings this user may not read.
    pub forbidden: u64,
}

/// Writes the records of existing tasks, kernel and modules.
#[derive(Debug)]
pub struct Synthesizer {
    trailer: Trailer,
    options: Options,
    cache: BuildIdCache,
    /// Files and modules that were told with a build-id, once each.
    told: BTreeMap<(Vec<u8>, CpuMode), BuildId>,
    count: Synthesized,
}

impl Synthesizer {
    /// For a recording whose first event is `attr`, as it is written: it says
    /// what trailer every record has.
    pub fn new(attr: &EventAttr, options: Options) -> Self {
        Self {
            trailer: Trailer::of(attr),
            options,
            cache: BuildIdCache::default(),
            told: BTreeMap::new(),
            count: Synthesized::default(),
        }
    }

    /// How much was told so far.
    pub fn count(&self) -> Synthesized {
        self.count
    }

    /// Appends the mappings of the kernel and its modules; nothing where
    /// kernel addresses are hidden from this user.
    pub fn kernel(&mut self, out: &mut Vec<u8>) {
        for image in kernel::images() {
            let mapping = Mmap2 {
                pid: KERNEL,
                tid: 0,
                start: image.start,
                len: image.len,
                file_offset: image.file_offset,
                file: FileIdentity::NONE,
                prot: 0,
                flags: 0,
                path: Name::new(&image.path),
            };
            self.mapping(mapping, CpuMode::Kernel, image.build_id, out);
        }
        if let Some(id) = kernel::kernel_build_id() {
            // Tools look the kernel up by this name, whatever its mapping's.
            self.told
                .insert((b"[kernel.kallsyms]".to_vec(), CpuMode::Kernel), id);
        }
    }

    /// Appends what there is to know of these processes: parents, names,
    /// mappings and threads.
    pub fn processes(&mut self, pids: impl IntoIterator<Item = u32>, out: &mut Vec<u8>) {
        for pid in pids {
            self.process(pid, out);
        }
    }

    fn process(&mut self, pid: u32, out: &mut Vec<u8>) {
        let Some(status) = procfs::status(pid) else {
            return; // it has ended
        };
        let parent = status.parent.cast_signed();
        let main = pid.cast_signed();
        self.task((main, main), (parent, parent), &status.comm, out);
        if self.options.mappings {
            self.mappings_of(pid, out);
        }
        for tid in threads_of(pid) {
            if tid == pid {
                continue;
            }
            let Some(comm) = procfs::thread_comm(pid, tid) else {
                continue;
            };
            self.task((main, tid.cast_signed()), (main, main), &comm, out);
        }
        self.count.processes += 1;
    }

    /// Tells a thread, given as process and thread id, and its parent.
    fn task(
        &mut self,
        (pid, tid): (i32, i32),
        (parent_pid, parent_tid): (i32, i32),
        comm: &[u8],
        out: &mut Vec<u8>,
    ) {
        let trailer = self.trailer_of(pid, tid);
        append_fork((pid, tid), (parent_pid, parent_tid), &trailer, out);
        if self.options.namespaces {
            let links = procfs::namespaces(pid.cast_unsigned(), tid.cast_unsigned());
            let namespaces = Body::Namespaces(Namespaces {
                pid,
                tid,
                namespaces: Pairs::new(&links),
            });
            append_short(&namespaces, Misc(0), &trailer, out);
        }
        let name = Name::of_thread(comm);
        let comm = Body::Comm(Comm { pid, tid, name });
        append_short(&comm, Misc(0), &trailer, out);
        self.count.threads += 1;
    }

    fn trailer_of(&self, pid: i32, tid: i32) -> Trailer {
        self.trailer
            .for_thread(pid.cast_unsigned(), tid.cast_unsigned())
    }

    fn mappings_of(&mut self, pid: u32, out: &mut Vec<u8>) {
        let text = match procfs::maps(pid) {
            Ok(text) => text,
            Err(error) => {
                let forbidden = error.kind() == std::io::ErrorKind::PermissionDenied;
                self.count.forbidden += u64::from(forbidden);
                return;
            }
        };
        for line in text.split(|&byte| byte == b'\n') {
            let Some(line) = procfs::parse_maps_line(line) else {
                continue;
            };
            if line.prot & PROT_EXEC != 0 || self.options.data_mappings {
                self.user_mapping(pid, &line, out);
            }
        }
    }

    fn user_mapping(&mut self, pid: u32, line: &MapsLine, out: &mut Vec<u8>) {
        let build_id = if self.options.build_ids {
            self.cache.of_mapping(pid, line)
        } else {
            None
        };
        let mapping = Mmap2 {
            pid: pid.cast_signed(),
            tid: pid.cast_signed(),
            start: line.start,
            len: line.end.saturating_sub(line.start),
            file_offset: line.file_offset,
            file: FileIdentity::Inode {
                major: line.major,
                minor: line.minor,
                inode: line.inode,
                generation: 0,
            },
            prot: line.prot,
            flags: line.flags,
            path: Name::new(&line.path),
        };
        self.mapping(mapping, CpuMode::User, build_id, out);
    }

    /// Tells a mapping, by build-id where there is one and they are wanted.
    fn mapping(
        &mut self,
        mut mapping: Mmap2<'_>,
        mode: CpuMode,
        build_id: Option<BuildId>,
        out: &mut Vec<u8>,
    ) {
        if let Some(id) = build_id.filter(|_| self.options.build_ids) {
            mapping.file = FileIdentity::of_build_id(&id);
            let path = mapping.path.bytes();
            if !path.starts_with(b"[kernel.kallsyms]") {
                self.told.entry((path.to_vec(), mode)).or_insert(id);
            }
        }
        let is_data = mode != CpuMode::Kernel && mapping.prot & PROT_EXEC == 0;
        let data = if is_data { Misc::MMAP_DATA } else { Misc(0) };
        let trailer = self.trailer_of(mapping.pid, mapping.tid);
        let misc = Misc::of_mode(mode).with(data);
        append_short(&Body::Mmap2(mapping), misc, &trailer, out);
        self.count.mappings += 1;
    }

    /// Keeps the build-id that an `MMAP2` record of the kernel tells, so that
    /// the feature section has it too; other records teach nothing.
    pub fn learn(&mut self, record: &[u8]) {
        const ID_AT: usize = 40;
        const PATH_AT: usize = 72;
        let order = ByteOrder::NATIVE;
        let misc = Misc(order.u16(record, 4).unwrap_or(0));
        if order.u32(record, 0) != Some(RecordType::MMAP2.0) || !misc.has(Misc::MMAP_BUILD_ID) {
            return;
        }
        let (Some(&len), Some(path)) = (record.get(ID_AT), record.get(PATH_AT..)) else {
            return;
        };
        let id_at = ID_AT + 4;
        let id = record.get(id_at..id_at + usize::from(len).min(BuildId::RECORDED_MAX));
        let path = path.split(|&byte| byte == 0).next().unwrap_or_default();
        if let Some(id) = id.and_then(BuildId::new)
            && !path.is_empty()
        {
            self.told
                .entry((path.to_vec(), misc.cpu_mode()))
                .or_insert(id);
        }
    }

    /// Sets the feature section with the build-ids of everything told.
    pub fn build_ids(&self, features: &mut Features) {
        let ids: Vec<_> = self
            .told
            .iter()
            .map(|((path, cpu_mode), &build_id)| RecordedBuildId {
                build_id,
                path,
                cpu_mode: *cpu_mode,
            })
            .collect();
        if !ids.is_empty() {
            features.build_ids(&ids);
        }
    }
}

/// The record of a thread's start, by process and thread id, as it is told later.
pub(crate) fn append_fork(
    (pid, tid): (i32, i32),
    (parent_pid, parent_tid): (i32, i32),
    trailer: &Trailer,
    out: &mut Vec<u8>,
) {
    let fork = Body::Fork(Task {
        pid,
        parent_pid,
        tid,
        parent_tid,
        time: 0,
    });
    // Its mappings follow in records of their own: a reader must not copy the
    // parent's.
    append_short(&fork, Misc::FORK_EXEC, trailer, out);
}

#[cfg(test)]
mod tests {
    use super::{Options, Synthesizer, processes};
    use prof_abi::{
        AttrFlags, BuildId, ByteOrder, CpuMode, EventAttr, Misc, RecordType, SampleType,
    };
    use prof_perfdata::body::{Body, FileIdentity, Mmap2, Name};
    use prof_perfdata::write::{Trailer, append_short};

    fn attr() -> EventAttr {
        EventAttr {
            sample_type: SampleType::TID | SampleType::TIME,
            flags: AttrFlags::SAMPLE_ID_ALL,
            ..EventAttr::default()
        }
    }

    /// Kind and bytes of each record.
    fn records(mut bytes: &[u8]) -> Vec<(RecordType, &[u8])> {
        let mut found = Vec::new();
        while let Some(kind) = ByteOrder::NATIVE.u32(bytes, 0) {
            let size = usize::from(ByteOrder::NATIVE.u16(bytes, 6).expect("a header"));
            let (record, rest) = bytes.split_at(size);
            found.push((RecordType(kind), record));
            bytes = rest;
        }
        found
    }

    #[test]
    fn this_process_is_told_with_its_threads_and_mappings() {
        // covers live: REC-29, REC-11
        let (stop, wait) = std::sync::mpsc::channel::<()>();
        let (named, is_named) = std::sync::mpsc::channel();
        let thread = std::thread::Builder::new().name("told".into());
        let thread = thread
            .spawn(move || {
                named.send(()).expect("somebody waits");
                let _ = wait.recv();
            })
            .expect("spawned");
        is_named.recv().expect("the thread runs");
        let mut synthesizer = Synthesizer::new(&attr(), Options::default());
        let mut out = Vec::new();
        synthesizer.processes([std::process::id()], &mut out);
        drop(stop);
        thread.join().expect("ended");

        let records = records(&out);
        assert_eq!(records[0].0, RecordType::FORK);
        assert_eq!(records[1].0, RecordType::COMM);
        let told = records.iter().filter(|(kind, bytes)| {
            *kind == RecordType::COMM && bytes[16..].starts_with(b"told\0")
        });
        assert_eq!(told.count(), 1);
        let own = std::env::current_exe().expect("a path");
        let own = own.as_os_str().as_encoded_bytes();
        let mapping = |(kind, bytes): &&(RecordType, &[u8])| {
            *kind == RecordType::MMAP2 && bytes[72..].starts_with(own)
        };
        assert!(records.iter().filter(mapping).count() >= 1);
        let count = synthesizer.count();
        assert_eq!(count.processes, 1);
        assert!(count.threads >= 2);
    }

    #[test]
    fn build_ids_are_learnt_from_the_kernels_records() {
        let id = BuildId::new(&[7; 20]).expect("20 bytes");
        let mapping = Body::Mmap2(Mmap2 {
            pid: 1,
            tid: 1,
            start: 0,
            len: 1,
            file_offset: 0,
            file: FileIdentity::of_build_id(&id),
            prot: 5,
            flags: 2,
            path: Name::new(b"/bin/learnt"),
        });
        let mut record = Vec::new();
        let misc = Misc::of_mode(CpuMode::User);
        append_short(&mapping, misc, &Trailer::NONE, &mut record);
        let mut synthesizer = Synthesizer::new(&attr(), Options::default());
        for len in 0..record.len() {
            synthesizer.learn(&record[..len.min(72)]);
        }
        assert!(synthesizer.told.is_empty(), "cut records teach nothing");
        synthesizer.learn(&record);
        let key = (b"/bin/learnt".to_vec(), CpuMode::User);
        assert_eq!(synthesizer.told.get(&key), Some(&id));
    }

    #[test]
    fn a_process_that_has_ended_is_nothing() {
        let mut child = std::process::Command::new("true").spawn().expect("runs");
        child.wait().expect("ends");
        let mut synthesizer = Synthesizer::new(&attr(), Options::default());
        let mut out = Vec::new();
        synthesizer.processes([child.id()], &mut out);
        assert_eq!(out, [0; 0]);
        assert_eq!(synthesizer.count().processes, 0);
    }

    #[test]
    fn every_process_can_be_asked_for() {
        let own = std::process::id();
        assert!(processes().contains(&own));
        let options = Options {
            data_mappings: true,
            namespaces: true,
            ..Options::default()
        };
        let mut synthesizer = Synthesizer::new(&attr(), options);
        let mut out = Vec::new();
        synthesizer.kernel(&mut out);
        synthesizer.processes(processes(), &mut out);
        assert!(synthesizer.count().processes >= 1);
        assert!(!records(&out).is_empty());
    }
}

//! What happens to tasks: names, forks, exits, mappings.

use super::Trailer;
use super::record::{RecordBuilder, misc_of};
use prof_abi::{BuildId, CpuMode, Misc, RecordType};

/// `PERF_RECORD_COMM`: a thread's name. Body: u32 pid, u32 tid, name (at most
/// 15 bytes and a NUL).
///
/// Source: perf_event_open(2).
#[derive(Debug, Clone, Copy)]
pub struct Comm<'a> {
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// The name, cut at 15 bytes as the kernel's.
    pub name: &'a [u8],
    /// Whether an exec gave it.
    pub by_exec: bool,
}

impl Comm<'_> {
    /// Appends the record to `out`.
    pub fn encode(&self, trailer: &Trailer, out: &mut Vec<u8>) {
        let misc = if self.by_exec {
            Misc::COMM_EXEC
        } else {
            Misc(0)
        };
        let mut record = RecordBuilder::begin(out, RecordType::COMM, misc);
        record.u32(self.pid);
        record.u32(self.tid);
        record.name(self.name.get(..15).unwrap_or(self.name));
        trailer.append(&mut record);
        record.end_short();
    }
}

/// Who begins or ends, and of whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Task {
    /// Process id.
    pub pid: u32,
    /// Process id of the parent; equal to `pid` for a new thread.
    pub parent_pid: u32,
    /// Thread id.
    pub tid: u32,
    /// Thread id of the parent.
    pub parent_tid: u32,
}

impl Task {
    fn encode(
        self,
        (kind, misc): (RecordType, Misc),
        time: u64,
        trailer: &Trailer,
        out: &mut Vec<u8>,
    ) {
        let mut record = RecordBuilder::begin(out, kind, misc);
        record.u32(self.pid);
        record.u32(self.parent_pid);
        record.u32(self.tid);
        record.u32(self.parent_tid);
        record.u64(time);
        trailer.append(&mut record);
        record.end_short();
    }
}

/// `PERF_RECORD_FORK`: a thread began. Body: u32 pid, ppid, tid, ptid, u64
/// time in ns.
///
/// Source: perf_event_open(2).
#[derive(Debug, Clone, Copy)]
pub struct Fork {
    /// The new thread and its parent.
    pub task: Task,
    /// Time in ns; 0 for tasks that were there before recording.
    pub time: u64,
    /// Whether its mappings follow in records of their own, so that a reader
    /// must not copy the parent's: set for what is synthesised, as perf does
    /// with `MISC_FORK_EXEC`.
    pub has_own_mappings: bool,
}

impl Fork {
    /// Appends the record to `out`.
    pub fn encode(&self, trailer: &Trailer, out: &mut Vec<u8>) {
        let misc = if self.has_own_mappings {
            Misc::FORK_EXEC
        } else {
            Misc(0)
        };
        self.task
            .encode((RecordType::FORK, misc), self.time, trailer, out);
    }
}

/// `PERF_RECORD_EXIT`: a thread ended. Body as [`Fork`].
#[derive(Debug, Clone, Copy)]
pub struct Exit {
    /// The thread and its parent.
    pub task: Task,
    /// Time in ns.
    pub time: u64,
}

impl Exit {
    /// Appends the record to `out`.
    pub fn encode(&self, trailer: &Trailer, out: &mut Vec<u8>) {
        let kind = (RecordType::EXIT, Misc(0));
        self.task.encode(kind, self.time, trailer, out);
    }
}

/// `PERF_RECORD_MMAP`: a range was mapped. Body: u32 pid, u32 tid, u64 start
/// (avma), u64 length in bytes, u64 file offset in bytes, path.
///
/// Source: perf_event_open(2).
#[derive(Debug, Clone, Copy)]
pub struct Mmap<'a> {
    /// Process id; `u32::MAX` for the kernel and its modules.
    pub pid: u32,
    /// Thread id; 0 for the kernel.
    pub tid: u32,
    /// First address.
    pub start: u64,
    /// Length in bytes.
    pub len: u64,
    /// File offset in bytes; for the kernel the address of the symbol that
    /// the path names behind its bracket.
    pub file_offset: u64,
    /// Kernel or user.
    pub cpu_mode: CpuMode,
    /// The file, or a name in brackets.
    pub path: &'a [u8],
}

impl Mmap<'_> {
    /// Appends the record to `out`.
    pub fn encode(&self, trailer: &Trailer, out: &mut Vec<u8>) {
        let misc = Misc(misc_of(self.cpu_mode));
        let mut record = RecordBuilder::begin(out, RecordType::MMAP, misc);
        record.u32(self.pid);
        record.u32(self.tid);
        record.u64(self.start);
        record.u64(self.len);
        record.u64(self.file_offset);
        record.name(self.path);
        trailer.append(&mut record);
        record.end_short();
    }
}

/// Which file a mapping is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileIdentity {
    /// By inode, as the kernel tells it without `build_id`.
    Inode {
        /// Major number of the device.
        major: u32,
        /// Minor number of the device.
        minor: u32,
        /// Inode number.
        inode: u64,
        /// Inode generation.
        generation: u64,
    },
    /// By build-id, of which 20 bytes are kept.
    BuildId(BuildId),
}

impl FileIdentity {
    /// No file: anonymous memory, the kernel without a build-id.
    pub const NONE: Self = Self::Inode {
        major: 0,
        minor: 0,
        inode: 0,
        generation: 0,
    };
}

/// `PERF_RECORD_MMAP2`: a range was mapped. Body, after the 8-byte header:
///
/// | offset | size | field |
/// |-------:|-----:|---|
/// |      0 |  4+4 | pid, tid |
/// |      8 |  8+8 | start (avma), length in bytes |
/// |     24 |    8 | file offset in bytes |
/// |     32 |   24 | u32 maj, min, u64 ino, u64 generation; or, with `MMAP_BUILD_ID`, u8 size, 3 zeros, 20 bytes of build-id |
/// |     56 |  4+4 | prot, flags, as of mmap(2) |
/// |     64 |    n | path, padded to 8 |
///
/// Source: perf_event_open(2).
#[derive(Debug, Clone, Copy)]
pub struct Mmap2<'a> {
    /// Where, as for the older record.
    pub mapping: Mmap<'a>,
    /// Which file.
    pub identity: FileIdentity,
    /// `PROT_*` of mmap(2).
    pub prot: u32,
    /// `MAP_*` of mmap(2).
    pub flags: u32,
    /// Whether the mapping holds data rather than code.
    pub is_data: bool,
}

impl Mmap2<'_> {
    /// Appends the record to `out`.
    pub fn encode(&self, trailer: &Trailer, out: &mut Vec<u8>) {
        let mapping = &self.mapping;
        let mut misc = misc_of(mapping.cpu_mode);
        if matches!(self.identity, FileIdentity::BuildId(_)) {
            misc |= Misc::MMAP_BUILD_ID.0;
        }
        if self.is_data {
            misc |= Misc::MMAP_DATA.0;
        }
        let mut record = RecordBuilder::begin(out, RecordType::MMAP2, Misc(misc));
        record.u32(mapping.pid);
        record.u32(mapping.tid);
        record.u64(mapping.start);
        record.u64(mapping.len);
        record.u64(mapping.file_offset);
        match self.identity {
            FileIdentity::Inode {
                major,
                minor,
                inode,
                generation,
            } => {
                record.u32(major);
                record.u32(minor);
                record.u64(inode);
                record.u64(generation);
            }
            FileIdentity::BuildId(id) => {
                let (bytes, len) = recorded_build_id(&id);
                record.bytes(&[len, 0, 0, 0]);
                record.bytes(&bytes);
            }
        }
        record.u32(self.prot);
        record.u32(self.flags);
        record.name(mapping.path);
        trailer.append(&mut record);
        record.end_short();
    }
}

/// The 20 bytes that a record has room for, and how many of them are in use.
pub(super) fn recorded_build_id(id: &BuildId) -> ([u8; BuildId::RECORDED_MAX], u8) {
    let mut bytes = [0; BuildId::RECORDED_MAX];
    let mut len = 0;
    for (to, &from) in bytes.iter_mut().zip(id.as_bytes()) {
        *to = from;
        len += 1;
    }
    (bytes, len)
}

/// `PERF_RECORD_NAMESPACES`: a task's namespaces. Body: u32 pid, u32 tid, u64
/// count, then u64 device and u64 inode each, in the order net, uts, ipc,
/// pid, user, mnt, cgroup.
///
/// Source: perf_event_open(2).
#[derive(Debug, Clone, Copy)]
pub struct Namespaces<'a> {
    /// Process id.
    pub pid: u32,
    /// Thread id.
    pub tid: u32,
    /// Device and inode of each; zeros for one that is not known.
    pub links: &'a [(u64, u64); 7],
}

impl Namespaces<'_> {
    /// Appends the record to `out`.
    pub fn encode(&self, trailer: &Trailer, out: &mut Vec<u8>) {
        let mut record = RecordBuilder::begin(out, RecordType::NAMESPACES, Misc(0));
        record.u32(self.pid);
        record.u32(self.tid);
        record.u64(self.links.len() as u64);
        for &(device, inode) in self.links {
            record.u64(device);
            record.u64(inode);
        }
        trailer.append(&mut record);
        record.end_short();
    }
}

/// `PERF_RECORD_CGROUP`: a cgroup's path. Body: u64 id, path.
///
/// Source: perf_event_open(2).
#[derive(Debug, Clone, Copy)]
pub struct Cgroup<'a> {
    /// The id that samples carry.
    pub id: u64,
    /// The path below the mount point, with its leading `/`.
    pub path: &'a [u8],
}

impl Cgroup<'_> {
    /// Appends the record to `out`.
    pub fn encode(&self, trailer: &Trailer, out: &mut Vec<u8>) {
        let mut record = RecordBuilder::begin(out, RecordType::CGROUP, Misc(0));
        record.u64(self.id);
        record.name(self.path);
        trailer.append(&mut record);
        record.end_short();
    }
}

/// `PERF_RECORD_KSYMBOL`: kernel code came or went. Body: u64 address, u32
/// length in bytes, u16 kind (1 BPF, 2 out of line), u16 flags (1 gone), name.
///
/// Source: perf_event_open(2).
#[derive(Debug, Clone, Copy)]
pub struct Ksymbol<'a> {
    /// First address.
    pub start: u64,
    /// Length in bytes.
    pub len: u32,
    /// 1 BPF, 2 out-of-line code.
    pub kind: u16,
    /// Whether it went rather than came.
    pub unregistered: bool,
    /// The symbol.
    pub name: &'a [u8],
}

impl Ksymbol<'_> {
    /// Appends the record to `out`.
    pub fn encode(&self, trailer: &Trailer, out: &mut Vec<u8>) {
        let mut record = RecordBuilder::begin(out, RecordType::KSYMBOL, Misc(0));
        record.u64(self.start);
        record.u32(self.len);
        record.u16(self.kind);
        record.u16(u16::from(self.unregistered));
        record.name(self.name);
        trailer.append(&mut record);
        record.end_short();
    }
}

#[cfg(test)]
mod tests {
    use super::{Cgroup, Comm, Exit, FileIdentity, Fork, Ksymbol, Mmap, Mmap2, Namespaces, Task};
    use crate::write::Trailer;
    use prof_abi::{BuildId, CpuMode, SampleType};

    fn encoded(encode: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        encode(&mut out);
        out
    }

    #[test]
    fn comm_is_pid_tid_and_a_name_of_at_most_fifteen_bytes() {
        let comm = Comm {
            pid: 1,
            tid: 2,
            name: b"0123456789abcdefgh",
            by_exec: true,
        };
        let mut expected = vec![3, 0, 0, 0, 0, 0x20, 32, 0, 1, 0, 0, 0, 2, 0, 0, 0];
        expected.extend(b"0123456789abcde\0");
        assert_eq!(encoded(|out| comm.encode(&Trailer::NONE, out)), expected);
    }

    #[test]
    fn fork_and_exit_are_four_ids_and_a_time() {
        let task = Task {
            pid: 1,
            parent_pid: 2,
            tid: 3,
            parent_tid: 4,
        };
        let fork = Fork {
            task,
            time: 5,
            has_own_mappings: true,
        };
        let fork = encoded(|out| fork.encode(&Trailer::NONE, out));
        let mut expected = vec![7, 0, 0, 0, 0, 0x20, 32, 0];
        expected.extend([1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0]);
        expected.extend([5, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(fork, expected);
        expected[0] = 4;
        expected[5] = 0;
        let exit = encoded(|out| Exit { task, time: 5 }.encode(&Trailer::NONE, out));
        assert_eq!(exit, expected);
    }

    const MAPPING: Mmap<'_> = Mmap {
        pid: 1,
        tid: 2,
        start: 0x1000,
        len: 0x2000,
        file_offset: 0x3000,
        cpu_mode: CpuMode::User,
        path: b"/bin/sh",
    };

    #[test]
    fn mmap_has_a_path_and_then_the_trailer() {
        let trailer = Trailer {
            sample_type: SampleType::TIME,
            time: 6,
            ..Trailer::NONE
        };
        let mut expected = vec![1, 0, 0, 0, 2, 0, 56, 0, 1, 0, 0, 0, 2, 0, 0, 0];
        expected.extend([0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0x20, 0, 0, 0, 0, 0, 0]);
        expected.extend([0, 0x30, 0, 0, 0, 0, 0, 0]);
        expected.extend(b"/bin/sh\0");
        expected.extend([6, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(encoded(|out| MAPPING.encode(&trailer, out)), expected);
    }

    #[test]
    fn mmap2_holds_an_inode_or_a_build_id_in_the_same_place() {
        let inode = FileIdentity::Inode {
            major: 8,
            minor: 1,
            inode: 77,
            generation: 3,
        };
        let record = |identity| Mmap2 {
            mapping: MAPPING,
            identity,
            prot: 5,
            flags: 2,
            is_data: false,
        };
        let by_inode = encoded(|out| record(inode).encode(&Trailer::NONE, out));
        assert_eq!(by_inode[4..8], [2, 0, 80, 0]);
        assert_eq!(by_inode[40..48], [8, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(by_inode[48..56], [77, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(by_inode[56..64], [3, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(by_inode[64..72], [5, 0, 0, 0, 2, 0, 0, 0]);
        assert_eq!(by_inode[72..], *b"/bin/sh\0");

        // A 32-byte note is cut to the 20 bytes that fit.
        let id = FileIdentity::BuildId(BuildId::new(&[9; 32]).expect("32 bytes"));
        let by_id = encoded(|out| record(id).encode(&Trailer::NONE, out));
        assert_eq!(by_id[4..8], [2, 0x40, 80, 0]);
        assert_eq!(by_id[40..44], [20, 0, 0, 0]);
        assert_eq!(by_id[44..64], [9; 20]);
        assert_eq!(by_id[64..], by_inode[64..]);
    }

    #[test]
    fn namespaces_are_seven_pairs_behind_their_count() {
        let links = [(4, 1), (4, 2), (4, 3), (4, 4), (4, 5), (4, 6), (4, 7)];
        let record = Namespaces {
            pid: 1,
            tid: 2,
            links: &links,
        };
        let bytes = encoded(|out| record.encode(&Trailer::NONE, out));
        assert_eq!(bytes[..8], [16, 0, 0, 0, 0, 0, 136, 0]);
        assert_eq!(bytes[16..24], [7, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(
            bytes[120..],
            [4, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]
        );
    }

    #[test]
    fn cgroup_is_id_and_path_and_ksymbol_an_address_range() {
        let cgroup = Cgroup {
            id: 300,
            path: b"/a",
        };
        let bytes = encoded(|out| cgroup.encode(&Trailer::NONE, out));
        assert_eq!(bytes[..8], [19, 0, 0, 0, 0, 0, 24, 0]);
        assert_eq!(bytes[8..], *b"\x2c\x01\0\0\0\0\0\0/a\0\0\0\0\0\0");

        let symbol = Ksymbol {
            start: 0x10,
            len: 32,
            kind: 1,
            unregistered: true,
            name: b"bpf_prog",
        };
        let bytes = encoded(|out| symbol.encode(&Trailer::NONE, out));
        assert_eq!(bytes[..8], [17, 0, 0, 0, 0, 0, 40, 0]);
        assert_eq!(bytes[16..24], [32, 0, 0, 0, 1, 0, 1, 0]);
        assert_eq!(bytes[24..], *b"bpf_prog\0\0\0\0\0\0\0\0");
    }
}

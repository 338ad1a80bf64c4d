//! Records the kernel writes (types 1 to 63).
//!
//! Every one is followed by the sample_id trailer where the event asks for
//! `sample_id_all`. Source: perf_event_open(2), "MMAP layout".

use super::bodies;
use super::pieces::{CountedWords, FileIdentity, Name, Namespace, Pairs};
use crate::read_values::ReadValues;

bodies! {
    /// A range was mapped, without the file's identity.
    Mmap<'a> {
        /// Process id; -1 for the kernel and its modules.
        pid: i32,
        /// Thread id.
        tid: i32,
        /// Start (avma).
        start ("addr"): u64 [hex],
        /// Length in bytes.
        len: u64 [hex],
        /// File offset in bytes; of the kernel's map the address of the
        /// symbol its name ends in.
        file_offset ("pgoff"): u64 [hex],
        /// Path, or a name such as `[vdso]` or `//anon`.
        path: Name<'a>,
    }

    /// Records were lost because a ring was full.
    Lost {
        /// Event id.
        id: u64,
        /// How many records.
        lost: u64,
    }

    /// A thread's name; an exec if `misc` has COMM_EXEC.
    Comm<'a> {
        /// Process id.
        pid: i32,
        /// Thread id.
        tid: i32,
        /// The name.
        name ("comm"): Name<'a>,
    }

    /// FORK and EXIT.
    Task {
        /// Process id.
        pid: i32,
        /// Parent process id; equal to `pid` for a new thread.
        parent_pid ("ppid"): i32,
        /// Thread id.
        tid: i32,
        /// Parent thread id.
        parent_tid ("ptid"): i32,
        /// When, in ns.
        time: u64,
    }

    /// THROTTLE and UNTHROTTLE.
    Throttle {
        /// When, in ns.
        time: u64,
        /// Event id.
        id: u64,
        /// Id of the event itself.
        stream_id: u64,
    }

    /// Counts of a task that ended (`inherit_stat`).
    Read<'a> {
        /// Process id.
        pid: i32,
        /// Thread id.
        tid: i32,
        /// The values.
        values: ReadValues<'a>,
    }

    /// A range was mapped.
    Mmap2<'a> {
        /// Process id; -1 for the kernel and its modules.
        pid: i32,
        /// Thread id.
        tid: i32,
        /// Start (avma).
        start ("addr"): u64 [hex],
        /// Length in bytes.
        len: u64 [hex],
        /// File offset in bytes; see [`Mmap::file_offset`].
        file_offset ("pgoff"): u64 [hex],
        /// Inode, or build-id if `misc` has MMAP_BUILD_ID.
        file: FileIdentity,
        /// `PROT_*` bits: 1 read, 2 write, 4 execute.
        prot: u32 [hex],
        /// `MAP_*` bits: 1 shared, 2 private.
        flags: u32 [hex],
        /// Path, or a name such as `[vdso]` or `//anon`.
        path: Name<'a>,
    }

    /// New bytes in the AUX area.
    Aux {
        /// Where they start.
        aux_offset: u64 [hex],
        /// How many bytes.
        aux_size: u64 [hex],
        /// Bits: 0 truncated, 1 overwrite, 2 partial, 3 collision; 8-15 format.
        flags: u64 [hex],
    }

    /// Instruction tracing began.
    ItraceStart {
        /// Process id.
        pid: i32,
        /// Thread id.
        tid: i32,
    }

    /// Samples were lost, by the hardware or by a filter.
    LostSamples {
        /// How many.
        lost: u64,
    }

    /// Context switch of the task in the trailer; out if `misc` has SWITCH_OUT.
    Switch {}

    /// Context switch on a CPU.
    SwitchCpuWide {
        /// Process that comes (if switching out) or went.
        next_prev_pid: i32,
        /// Its thread.
        next_prev_tid: i32,
    }

    /// A task's namespaces: net, uts, ipc, pid, user, mnt, cgroup.
    Namespaces<'a> {
        /// Process id.
        pid: i32,
        /// Thread id.
        tid: i32,
        /// Device and inode of each.
        namespaces: Pairs<'a, Namespace>,
    }

    /// Kernel symbol added or removed.
    Ksymbol<'a> {
        /// Start (avma).
        start ("addr"): u64 [hex],
        /// Length in bytes.
        len: u32,
        /// 1 BPF, 2 out-of-line code.
        kind ("ksym_type"): u16,
        /// Bit 0: removed.
        flags: u16,
        /// Its name.
        name: Name<'a>,
    }

    /// BPF program loaded or unloaded.
    BpfEvent {
        /// 1 loaded, 2 unloaded.
        kind ("event_type"): u16,
        /// Always 0 so far.
        flags: u16,
        /// Program id.
        id: u32,
        /// Program tag.
        tag: [u8; 8],
    }

    /// A cgroup's path.
    Cgroup<'a> {
        /// The id that samples carry.
        id: u64,
        /// The path below the mount.
        path: Name<'a>,
    }

    /// Kernel text changed: `bytes` are the old then the new ones, padded.
    TextPoke<'a> {
        /// Where (avma).
        start ("addr"): u64 [hex],
        /// Bytes before.
        old_len: u16,
        /// Bytes after.
        new_len: u16,
        /// Old bytes, new bytes, padding.
        bytes: &'a [u8],
    }

    /// Hardware id of an AUX event.
    AuxOutputHwId {
        /// The id.
        hw_id: u64 [hex],
    }

    /// The user chain of earlier samples of this thread, by cookie.
    CallchainDeferred<'a> {
        /// What the samples have after their USER_DEFERRED marker.
        cookie: u64,
        /// The chain.
        ips: CountedWords<'a>,
    }
}

impl<'a> TextPoke<'a> {
    /// The bytes that were there; `None` if the record is too short.
    pub fn old(&self) -> Option<&'a [u8]> {
        self.bytes.get(..self.old_len.into())
    }

    /// The bytes that are there now.
    pub fn new_bytes(&self) -> Option<&'a [u8]> {
        let start = usize::from(self.old_len);
        self.bytes.get(start..start + usize::from(self.new_len))
    }
}

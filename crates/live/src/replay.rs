//! Records of a recording, applied to process state.

use crate::address_space::Access;
use crate::mapped_dsos::{Inode, MappedDsoId};
use crate::processes::{ForkEvent, MapEvent, Processes};
use prof_abi::Misc;
use prof_perfdata::body::FileIdentity;
use prof_perfdata::{Body, Record};
use prof_profile::{Avma, FileOffset};

impl Processes {
    /// Applies a record that changes names or mappings and ignores all others.
    /// Returns the dso if something was mapped.
    pub fn apply(&mut self, record: &Record<'_>, body: &Body<'_>) -> Option<MappedDsoId> {
        match body {
            Body::Mmap(map) => {
                return self.map(&MapEvent {
                    pid: map.pid,
                    mode: record.misc.cpu_mode(),
                    start: Avma(map.start),
                    length: map.len,
                    offset: FileOffset(map.file_offset),
                    inode: None,
                    build_id: None,
                    access: match record.misc.has(Misc::MMAP_DATA) {
                        true => Access::READ,
                        false => Access::EXECUTE,
                    },
                    path: map.path.bytes(),
                });
            }
            Body::Mmap2(map) => {
                let (inode, build_id) = identity(&map.file);
                return self.map(&MapEvent {
                    pid: map.pid,
                    mode: record.misc.cpu_mode(),
                    start: Avma(map.start),
                    length: map.len,
                    offset: FileOffset(map.file_offset),
                    inode,
                    build_id,
                    access: Access::of(map.prot, map.flags),
                    path: map.path.bytes(),
                });
            }
            Body::Comm(comm) => {
                let is_exec = record.misc.has(Misc::COMM_EXEC);
                self.comm(comm.pid, comm.tid, comm.name.bytes(), is_exec);
            }
            Body::Fork(task) => self.fork(&ForkEvent {
                pid: task.pid,
                parent_pid: task.parent_pid,
                tid: task.tid,
                parent_tid: task.parent_tid,
                has_own_maps: record.misc.has(Misc::FORK_EXEC),
            }),
            Body::Ksymbol(symbol) if symbol.flags & KSYMBOL_REMOVED == 0 => {
                self.kernel_symbol(Avma(symbol.start), symbol.len, symbol.name.bytes());
            }
            _ => {}
        }
        None
    }
}

/// `PERF_RECORD_KSYMBOL_FLAGS_UNREGISTER`.
const KSYMBOL_REMOVED: u16 = 1;

fn identity(file: &FileIdentity) -> (Option<Inode>, Option<prof_abi::BuildId>) {
    match *file {
        FileIdentity::Inode {
            major,
            minor,
            inode,
            generation,
        } => {
            let known = Inode {
                major,
                minor,
                inode,
                generation,
            };
            ((known != Inode::default()).then_some(known), None)
        }
        FileIdentity::BuildId { .. } => (None, file.build_id()),
    }
}

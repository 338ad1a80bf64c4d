//! Code of JIT compilers: for each piece that a jitdump tells of an ELF file,
//! and a mapping of it at the time at which the code came there.

use crate::InjectError;
use crate::image;
use prof_abi::{AttrFlags, CpuMode, EventAttr, Misc};
use prof_live::jitdump_pid;
use prof_perfdata::body::{Body, FileIdentity, Mmap2, Name};
use prof_perfdata::write::{Trailer, append_short};
use prof_perfdata::{Events, Reader, Record};
use prof_symbolize::JitDump;
use rustc_hash::{FxHashMap, FxHashSet};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The clock that compilers write times of, `CLOCK_MONOTONIC`.
const MONOTONIC: i32 = 1;
const READ_AND_EXECUTE: u32 = 5;
const SHARED: u32 = 1;

/// A jitdump that a process of the recording mapped.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MappedDump {
    /// The process.
    pub pid: i32,
    /// The file, where it was.
    pub path: PathBuf,
}

/// The jitdumps of a recording, in the order in which they were mapped.
///
/// # Errors
/// When reading fails; times of events are on another clock than a compiler's.
pub fn mapped_dumps(mut reader: Reader) -> Result<Vec<MappedDump>, InjectError> {
    let mut dumps = Vec::new();
    while let Some(record) = reader.next()? {
        let (pid, path) = match record.decode() {
            Body::Mmap2(mapping) => (mapping.pid, mapping.path),
            Body::Mmap(mapping) => (mapping.pid, mapping.path),
            _ => continue,
        };
        if jitdump_pid(path.bytes()) == Some(pid) {
            let path = PathBuf::from(OsStr::from_bytes(path.bytes()));
            let dump = MappedDump { pid, path };
            if !dumps.contains(&dump) {
                dumps.push(dump);
            }
        }
    }
    if dumps.is_empty() {
        return Err(InjectError::NoDumps);
    }
    let is_monotonic =
        |attr: &EventAttr| attr.flags.has(AttrFlags::USE_CLOCKID) && attr.clockid == MONOTONIC;
    if !reader
        .events()
        .list()
        .iter()
        .all(|event| is_monotonic(&event.attr))
    {
        return Err(InjectError::OtherClock);
    }
    Ok(dumps)
}

/// Whether a mapping is memory without a file, where compilers put code.
fn is_anonymous(path: &[u8]) -> bool {
    let names: [&[u8]; 3] = [b"//anon", b"/memfd:", b"[anon:"];
    names.iter().any(|name| path.starts_with(name))
}

/// What is mapped when.
#[derive(Debug, Clone)]
struct Mapping {
    /// ns.
    time: u64,
    pid: i32,
    tid: i32,
    start: u64,
    len: u64,
    path: Arc<Path>,
    file: FileIdentity,
}

/// The code of all jitdumps of a recording.
#[derive(Debug, Clone, Default)]
pub struct JitFiles {
    mappings: Vec<Mapping>,
    pids: FxHashSet<i32>,
}

impl JitFiles {
    /// Adds the code of one jitdump: makes an ELF file of each piece and gives
    /// it to `store` with a name; `store` returns device and inode of the file.
    ///
    /// # Errors
    /// That of `store`.
    pub fn add(
        &mut self,
        mapped: &MappedDump,
        dump: &JitDump,
        mut store: impl FnMut(&Path, &[u8]) -> io::Result<FileIdentity>,
    ) -> io::Result<()> {
        self.pids.insert(mapped.pid);
        let folder = mapped.path.parent().unwrap_or(Path::new("."));
        let mut files: FxHashMap<u64, (Arc<Path>, FileIdentity)> = FxHashMap::default();
        for code in dump.codes().filter(|code| !code.bytes.is_empty()) {
            let known = files.get(&code.index).filter(|_| code.moved).cloned();
            let (path, file) = match known {
                Some(known) => known,
                None => {
                    let name = format!("jitted-{}-{}.so", mapped.pid, code.index);
                    let path: Arc<Path> = folder.join(name).into();
                    let file = store(&path, &image::image(&code, dump.machine()))?;
                    files.insert(code.index, (path.clone(), file));
                    (path, file)
                }
            };
            let is_own = i32::try_from(code.pid) == Ok(mapped.pid);
            self.mappings.push(Mapping {
                time: code.time,
                pid: mapped.pid,
                tid: if is_own {
                    code.tid.cast_signed()
                } else {
                    mapped.pid
                },
                start: code.start.0,
                len: image::mapped_size(&code),
                path,
                file,
            });
        }
        self.mappings.sort_by_key(|mapping| mapping.time);
        Ok(())
    }

    /// How many pieces of code there are; a moved piece counts for each place.
    pub fn len(&self) -> usize {
        self.mappings.len()
    }

    /// Whether there is no code.
    pub fn is_empty(&self) -> bool {
        self.mappings.is_empty()
    }
}

/// Mappings of code on their way between the records.
pub(crate) struct Placing {
    files: Arc<JitFiles>,
    next: usize,
    trailer: Trailer,
}

impl Placing {
    pub(crate) fn new(files: Arc<JitFiles>, events: &Events) -> Self {
        let first = events.list().first();
        let trailer = first.map_or(Trailer::NONE, |event| Trailer {
            id: event.ids.first().copied().unwrap_or(0),
            ..Trailer::of(&event.attr)
        });
        Self {
            files,
            next: 0,
            trailer,
        }
    }

    /// Whether a record tells of memory that is now told of by files of code.
    pub(crate) fn replaces(&self, record: &Record<'_>) -> bool {
        let (pid, path) = match record.decode() {
            Body::Mmap2(mapping) => (mapping.pid, mapping.path),
            Body::Mmap(mapping) => (mapping.pid, mapping.path),
            _ => return false,
        };
        let path = path.bytes();
        self.files.pids.contains(&pid) && (jitdump_pid(path) == Some(pid) || is_anonymous(path))
    }

    /// Appends the mappings up to a time, all without; how many they are.
    pub(crate) fn up_to(&mut self, time: Option<u64>, out: &mut Vec<u8>) -> u64 {
        let rest = self.files.mappings.get(self.next..).unwrap_or_default();
        let due = rest
            .iter()
            .take_while(|mapping| time.is_none_or(|time| mapping.time <= time));
        let before = self.next;
        for mapping in due {
            let body = Body::Mmap2(Mmap2 {
                pid: mapping.pid,
                tid: mapping.tid,
                start: mapping.start,
                len: mapping.len,
                file_offset: image::TEXT,
                file: mapping.file,
                prot: READ_AND_EXECUTE,
                flags: SHARED,
                path: Name::new(mapping.path.as_os_str().as_bytes()),
            });
            let trailer = Trailer {
                time: mapping.time,
                pid: mapping.pid.cast_unsigned(),
                tid: mapping.tid.cast_unsigned(),
                ..self.trailer
            };
            append_short(&body, Misc::of_mode(CpuMode::User), &trailer, out);
            self.next += 1;
        }
        (self.next - before) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::is_anonymous;

    #[test]
    fn code_is_in_memory_without_a_file() {
        assert!(is_anonymous(b"//anon") && is_anonymous(b"/memfd:doublemapper (deleted)"));
        assert!(!is_anonymous(b"/usr/bin/node") && !is_anonymous(b"[heap]"));
    }
}

//! Processes that make code at run time: whose they are, and the perf maps of
//! those that see another `/tmp`.
//!
//! What names their code is a file that anyone might have written, so its
//! owner must be the process's user; a process tells that only while it
//! lives. In a container the map lies in the container's `/tmp`, under the
//! number that the process has there, and is gone with it: its directory is
//! held open, and the map copied in the end to where all tools look for it.

use crate::foreign::has_other_root;
use prof_abi::{ByteOrder, CpuMode, Misc, RecordType};
use prof_sys::process::effective_user;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Most processes that are remembered.
const MAX_PROCESSES: usize = 1 << 14;
/// Most directories that are held open.
const MAX_OPEN: usize = 64;
/// Longer maps are not read by anyone, bytes.
const LONGEST: u64 = 256 << 20;
/// Permission bits of others than the owner to write.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Remembers them.
#[derive(Debug, Default)]
pub(crate) struct RuntimeCode {
    /// Perf maps are to be copied.
    copies: bool,
    users: BTreeMap<u32, u32>,
    elsewhere: Vec<Elsewhere>,
}

/// A process that sees another `/tmp`.
#[derive(Debug)]
struct Elsewhere {
    /// As we count processes, and as it does itself.
    pid: u32,
    inner_pid: u32,
    uid: u32,
    directory: File,
}

impl RuntimeCode {
    /// Copies perf maps in the end if `copies`.
    pub(crate) fn new(copies: bool) -> Self {
        Self {
            copies,
            ..Self::default()
        }
    }

    /// Looks at a record: whether a process makes code.
    pub(crate) fn note(&mut self, record: &[u8]) {
        let Some(pid) = maker_of_code(record) else {
            return;
        };
        if self.users.contains_key(&pid) || self.users.len() >= MAX_PROCESSES {
            return;
        }
        let Some((uid, inner_pid)) = identity(pid) else {
            return;
        };
        self.users.insert(pid, uid);
        let is_elsewhere =
            self.copies && self.elsewhere.len() < MAX_OPEN && has_other_root(pid) == Some(true);
        if is_elsewhere && let Ok(directory) = open_tmp(pid) {
            self.elsewhere.push(Elsewhere {
                pid,
                inner_pid,
                uid,
                directory,
            });
        }
    }

    /// Users whose perf maps the file must vouch for, as JSON for the file:
    /// those whom a reader would not believe anyway.
    pub(crate) fn users(&self) -> Option<String> {
        let own = effective_user();
        let told = |&(_, &uid): &(&u32, &u32)| uid != 0 && uid != own;
        let users: Vec<String> = self
            .users
            .iter()
            .filter(told)
            .map(|(pid, uid)| format!("\"{pid}\":{uid}"))
            .collect();
        // The chains are the kernel's.
        (!users.is_empty())
            .then(|| format!("{{\"by_kernel\":true,\"uids\":{{{}}}}}", users.join(",")))
    }

    /// Copies the perf maps that are elsewhere; how many, and why the first
    /// that failed did.
    pub(crate) fn store(&mut self) -> (usize, Option<String>) {
        let (mut copied, mut failed) = (0, None);
        for process in self.elsewhere.drain(..) {
            let to = PathBuf::from(format!("/tmp/perf-{}.map", process.pid));
            match process.copy(&to) {
                Ok(()) => copied += 1,
                // It has written none.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    failed.get_or_insert(format!("{}: {error}", to.display()));
                }
            }
        }
        (copied, failed)
    }
}

impl Elsewhere {
    fn copy(&self, to: &Path) -> io::Result<()> {
        let mut map = self.open()?;
        match fs::symlink_metadata(to) {
            // Left by an earlier process of this number.
            Ok(old) if old.is_file() && old.uid() == effective_user() => fs::remove_file(to)?,
            _ => {}
        }
        let mut out = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o644)
            .open(to)?;
        io::copy(&mut map, &mut out).map(|_| ())
    }

    /// The map, if it is the process's own.
    fn open(&self) -> io::Result<File> {
        let directory = self.directory.as_raw_fd();
        let path = format!("/proc/self/fd/{directory}/perf-{}.map", self.inner_pid);
        let map = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY)
            .open(path)?;
        let about = map.metadata()?;
        let is_own = about.is_file()
            && (about.uid() == self.uid || about.uid() == 0)
            && about.mode() & WRITABLE_BY_OTHERS == 0
            && about.nlink() == 1
            && about.len() <= LONGEST;
        match is_own {
            true => Ok(map),
            false => Err(io::Error::other("the map is not the process's own file")),
        }
    }
}

/// The process that an `MMAP2` record of executable memory without a file
/// tells of. Offsets as in `prof_perfdata::body::Mmap2`.
fn maker_of_code(record: &[u8]) -> Option<u32> {
    const EXECUTABLE: u32 = 4;
    const WITHOUT_FILE: [&[u8]; 6] = [
        b"//anon",
        b"[anon:",
        b"/memfd:",
        b"/dev/zero",
        b"/anon_hugepage",
        b"/SYSV",
    ];
    let order = ByteOrder::NATIVE;
    let is_it = order.u32(record, 0)? == RecordType::MMAP2.0
        && Misc(order.u16(record, 4)?).cpu_mode() == CpuMode::User
        && order.u32(record, 64)? & EXECUTABLE != 0;
    let path = record.get(72..)?;
    let has_file = !WITHOUT_FILE.iter().any(|start| path.starts_with(start));
    (is_it && !has_file).then(|| order.u32(record, 8)).flatten()
}

/// The effective user of a process that lives, and its own number for itself.
fn identity(pid: u32) -> Option<(u32, u32)> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    let uid = line("Uid:")?.split_whitespace().nth(1)?.parse().ok()?;
    let inner = line("NSpid:").and_then(|pids| pids.split_whitespace().last());
    Some((uid, inner.map_or(Some(pid), |inner| inner.parse().ok())?))
}

/// The number that a thread which lives has for itself.
pub(crate) fn own_number(tid: i32) -> Option<i32> {
    let (_, own) = identity(tid.try_into().ok()?)?;
    own.try_into().ok()
}

/// Whether there is a perf map of a process that lives, in its root or ours.
pub(crate) fn has_perf_map(pid: u32) -> bool {
    let own = identity(pid).map_or(pid, |(_, own)| own);
    let is_in_its = open_tmp(pid).is_ok_and(|tmp| {
        let map = format!("/proc/self/fd/{}/perf-{own}.map", tmp.as_raw_fd());
        Path::new(&map).exists()
    });
    is_in_its || Path::new(&format!("/tmp/perf-{pid}.map")).exists()
}

fn open_tmp(pid: u32) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_DIRECTORY | libc::O_PATH)
        .open(format!("/proc/{pid}/root/tmp"))
}

#[cfg(test)]
mod tests {
    use super::{Elsewhere, RuntimeCode, identity, maker_of_code};
    use std::fs::{self, File, Permissions};
    use std::os::unix::fs::PermissionsExt;

    /// An `MMAP2` record; its fields as the kernel has them.
    fn mmap2(pid: u32, access: u32, path: &[u8]) -> Vec<u8> {
        let mut record = vec![0; 72];
        record[0] = 10;
        record[4] = 2;
        record[8..12].copy_from_slice(&pid.to_le_bytes());
        record[64..68].copy_from_slice(&access.to_le_bytes());
        record.extend_from_slice(path);
        record.push(0);
        record
    }

    #[test]
    fn only_executable_memory_without_a_file_is_code_made_at_run_time() {
        assert_eq!(maker_of_code(&mmap2(7, 7, b"//anon")), Some(7));
        assert_eq!(
            maker_of_code(&mmap2(7, 5, b"/memfd:jit (deleted)")),
            Some(7)
        );
        assert_eq!(maker_of_code(&mmap2(7, 3, b"//anon")), None);
        assert_eq!(maker_of_code(&mmap2(7, 5, b"/usr/lib/libc.so.6")), None);
        assert_eq!(maker_of_code(&[0; 10]), None);
    }

    #[test]
    fn readers_are_told_of_users_whom_they_would_not_believe() {
        let mut code = RuntimeCode::new(false);
        code.note(&mmap2(std::process::id(), 7, b"//anon"));
        assert_eq!(code.users.len(), 1);
        assert_eq!(code.users(), None, "who records is believed");
        code.users.insert(4711, 12_345);
        code.users.insert(4712, 0);
        let told = code.users().expect("one");
        assert_eq!(told, r#"{"by_kernel":true,"uids":{"4711":12345}}"#);
        assert_eq!(identity(u32::MAX), None);
    }

    #[test]
    fn a_map_is_copied_from_where_its_process_wrote_it() {
        let dir = tempfile::tempdir().expect("a directory");
        let map = dir.path().join("perf-5.map");
        fs::write(&map, "1000 10 f\n").expect("written");
        let (uid, _) = identity(std::process::id()).expect("we live");
        let process = || Elsewhere {
            pid: 7,
            inner_pid: 5,
            uid,
            directory: File::open(dir.path()).expect("opened"),
        };
        let to = dir.path().join("copy");
        for _ in 0..2 {
            process().copy(&to).expect("copied");
        }
        assert_eq!(fs::read(&to).expect("there"), b"1000 10 f\n");
        fs::set_permissions(&map, Permissions::from_mode(0o666)).expect("set");
        assert!(process().copy(&to).is_err());
        fs::remove_file(&map).expect("removed");
        std::os::unix::fs::symlink(&to, &map).expect("linked");
        assert!(process().copy(&to).is_err());
    }
}

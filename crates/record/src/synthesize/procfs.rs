//! The parts of /proc/PID that records are made of.

use prof_perfdata::body::Namespace;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Name and parent of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Status {
    pub(super) comm: Vec<u8>,
    pub(super) parent: u32,
}

/// One line of /proc/PID/maps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MapsLine {
    pub(super) start: u64,
    pub(super) end: u64,
    /// `PROT_*` of mmap(2).
    pub(super) prot: u32,
    /// `MAP_SHARED` (1) or `MAP_PRIVATE` (2).
    pub(super) flags: u32,
    pub(super) file_offset: u64,
    pub(super) major: u32,
    pub(super) minor: u32,
    pub(super) inode: u64,
    /// As a kernel record has it: `//anon` without a file.
    pub(super) path: Vec<u8>,
}

/// Numbers among the names of a directory, ascending; empty if unreadable.
fn numbered(directory: impl AsRef<Path>) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Vec::new();
    };
    let mut numbers: Vec<u32> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    numbers.sort_unstable();
    numbers
}

/// Ids of all processes that we can see.
pub fn processes() -> Vec<u32> {
    numbered("/proc")
}

/// Thread ids of a process, its main thread included; empty if it has ended.
pub fn threads_of(pid: u32) -> Vec<u32> {
    numbered(format!("/proc/{pid}/task"))
}

/// Name and parent of a process, `None` if it has ended.
pub(super) fn status(pid: u32) -> Option<Status> {
    parse_stat(&fs::read(format!("/proc/{pid}/stat")).ok()?)
}

/// `pid (comm) state ppid …`; the name may hold parentheses and spaces.
fn parse_stat(text: &[u8]) -> Option<Status> {
    let open = text.iter().position(|&byte| byte == b'(')?;
    let close = text.iter().rposition(|&byte| byte == b')')?;
    let comm = text.get(open + 1..close)?.to_vec();
    let rest = std::str::from_utf8(text.get(close + 1..)?).ok()?;
    let parent = rest.split_ascii_whitespace().nth(1)?.parse().ok()?;
    Some(Status { comm, parent })
}

/// A thread's name, `None` if it has ended.
pub(super) fn thread_comm(pid: u32, tid: u32) -> Option<Vec<u8>> {
    let mut comm = fs::read(format!("/proc/{pid}/task/{tid}/comm")).ok()?;
    if comm.last() == Some(&b'\n') {
        comm.pop();
    }
    Some(comm)
}

/// Device and inode of a thread's namespaces in the order of the record:
/// net, uts, ipc, pid, user, mnt, cgroup; zeros for what cannot be read.
pub(super) fn namespaces(pid: u32, tid: u32) -> [Namespace; 7] {
    ["net", "uts", "ipc", "pid", "user", "mnt", "cgroup"].map(|name| {
        let link = format!("/proc/{pid}/task/{tid}/ns/{name}");
        let (device, inode) = fs::metadata(link).map_or((0, 0), |link| (link.dev(), link.ino()));
        Namespace { device, inode }
    })
}

/// The text of /proc/PID/maps. Of a process whose first thread has ended that is empty:
/// then of another thread.
pub(crate) fn maps(pid: u32) -> io::Result<Vec<u8>> {
    let own = fs::read(format!("/proc/{pid}/maps"))?;
    if !own.is_empty() {
        return Ok(own);
    }
    let threads = fs::read_dir(format!("/proc/{pid}/task"))?.flatten();
    let mut of_threads = threads.filter_map(|thread| fs::read(thread.path().join("maps")).ok());
    Ok(of_threads.find(|maps| !maps.is_empty()).unwrap_or(own))
}

/// `start-end rwxp offset major:minor inode   path`, hex but for the inode.
pub(super) fn parse_maps_line(line: &[u8]) -> Option<MapsLine> {
    let mut fields = line.splitn(6, |&byte| byte == b' ');
    let mut text = || std::str::from_utf8(fields.next()?).ok();
    let (start, end) = text()?.split_once('-')?;
    let permissions = text()?.as_bytes();
    let file_offset = text()?;
    let (major, minor) = text()?.split_once(':')?;
    let inode = text()?;
    let path = fields.next().unwrap_or_default().trim_ascii_start();
    let hex = |digits| u64::from_str_radix(digits, 16).ok();
    let prot = permissions
        .iter()
        .take(3)
        .zip([(b'r', 1), (b'w', 2), (b'x', 4)])
        .filter(|&(&found, (letter, _))| found == letter)
        .fold(0, |prot, (_, (_, bit))| prot | bit);
    Some(MapsLine {
        start: hex(start)?,
        end: hex(end)?,
        prot,
        flags: if permissions.get(3) == Some(&b's') {
            1
        } else {
            2
        },
        file_offset: hex(file_offset)?,
        major: hex(major)? as u32,
        minor: hex(minor)? as u32,
        inode: inode.parse().ok()?,
        path: if path.is_empty() {
            b"//anon".to_vec()
        } else {
            unescape_newlines(path)
        },
    })
}

/// The kernel writes a newline in a path as `\012` and nothing else so.
fn unescape_newlines(path: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((&first, after)) = rest.split_first() {
        if let Some(after) = rest.strip_prefix(br"\012") {
            plain.push(b'\n');
            rest = after;
        } else {
            plain.push(first);
            rest = after;
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::{Status, parse_maps_line, parse_stat};

    #[test]
    fn a_name_with_parentheses_and_spaces() {
        let status = parse_stat(b"12 (a) (b) S 1) S 7 12 12 0");
        let expected = Status {
            comm: b"a) (b) S 1".to_vec(),
            parent: 7,
        };
        assert_eq!(status, Some(expected));
        assert_eq!(parse_stat(b"12 (a"), None);
        assert_eq!(parse_stat(b"12 )a( 3"), None);
    }

    #[test]
    fn a_maps_line_with_a_path_of_spaces_and_newlines() {
        let line = br"7fb0-7fc0 r-xs 00026000 fe:1a 326279             /a b\012c (deleted)";
        let line = parse_maps_line(line).expect("a line");
        assert_eq!((line.start, line.end), (0x7fb0, 0x7fc0));
        assert_eq!((line.prot, line.flags), (5, 1));
        assert_eq!((line.major, line.minor), (0xfe, 0x1a));
        assert_eq!((line.file_offset, line.inode), (0x26000, 326_279));
        assert_eq!(line.path, b"/a b\nc (deleted)");
    }

    #[test]
    fn memory_without_a_file_is_anon() {
        let line = parse_maps_line(b"1000-2000 rwxp 00000000 00:00 0 ").expect("a line");
        assert_eq!(line.path, b"//anon");
        assert_eq!((line.prot, line.flags), (7, 2));
        for broken in [
            "",
            "1000",
            "1000-2000",
            "1000-x r-xp 0 0:0 0",
            "1-2 r-xp 0 00 0",
        ] {
            assert_eq!(parse_maps_line(broken.as_bytes()), None, "{broken}");
        }
    }
}

//! Build-ids of mapped files: only the notes are read, once per file.

use super::procfs::MapsLine;
use crate::reading::open_regular;
use prof_abi::{BuildId, ByteOrder};
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;

/// Build-ids by the device and inode of a mapping; `None` for a file that has
/// none or cannot be read.
#[derive(Debug, Default)]
pub(super) struct BuildIdCache {
    known: HashMap<(u32, u32, u64), Option<BuildId>>,
}

impl BuildIdCache {
    /// The build-id of what process `pid` has mapped there.
    pub(super) fn of_mapping(&mut self, pid: u32, line: &MapsLine) -> Option<BuildId> {
        if line.inode == 0 || !line.path.starts_with(b"/") {
            return None;
        }
        let key = (line.major, line.minor, line.inode);
        *self
            .known
            .entry(key)
            .or_insert_with(|| read_build_id(&open_mapped(pid, line)?))
    }
}

/// Opens the mapped file itself: by its path in the process's root if that
/// still leads to the same inode, else by /proc/PID/map_files, which needs
/// more rights but also finds deleted files, else as the program of the process.
fn open_mapped(pid: u32, line: &MapsLine) -> Option<File> {
    use std::os::unix::ffi::OsStrExt;
    let mut by_name = PathBuf::from(format!("/proc/{pid}/root")).into_os_string();
    by_name.push(std::ffi::OsStr::from_bytes(&line.path));
    let (start, end) = (line.start, line.end);
    let mapping = format!("/proc/{pid}/map_files/{start:x}-{end:x}");
    let program = format!("/proc/{pid}/exe");
    let is_it = |file: &File| {
        let about = file.metadata();
        about.is_ok_and(|about| about.ino() == line.inode)
    };
    let places = [
        by_name.into(),
        PathBuf::from(mapping),
        PathBuf::from(program),
    ];
    let mut files = places.iter().filter_map(|path| open_regular(path));
    files.find(is_it)
}

/// Where an ELF file's program headers stand.
struct ProgramHeaders {
    order: ByteOrder,
    is_64: bool,
    at: u64,
    entry_size: u64,
    count: u64,
}

impl ProgramHeaders {
    fn parse(head: &[u8]) -> Option<Self> {
        if !head.starts_with(b"\x7fELF") {
            return None;
        }
        let is_64 = match head.get(4)? {
            1 => false,
            2 => true,
            _ => return None,
        };
        let order = match head.get(5)? {
            1 => ByteOrder::Little,
            2 => ByteOrder::Big,
            _ => return None,
        };
        let (at, sizes_at) = if is_64 {
            (order.u64(head, 32)?, 54)
        } else {
            (u64::from(order.u32(head, 28)?), 42)
        };
        Some(Self {
            order,
            is_64,
            at,
            entry_size: u64::from(order.u16(head, sizes_at)?),
            count: u64::from(order.u16(head, sizes_at + 2)?),
        })
    }

    /// File offset, size in bytes and alignment, if this entry is of notes.
    fn notes(&self, entry: &[u8]) -> Option<(u64, u64, u64)> {
        const PT_NOTE: u32 = 4;
        if self.order.u32(entry, 0)? != PT_NOTE {
            return None;
        }
        let word = |at| self.order.u32(entry, at).map(u64::from);
        Some(if self.is_64 {
            let long = |at| self.order.u64(entry, at);
            (long(8)?, long(32)?, long(48)?)
        } else {
            (word(4)?, word(16)?, word(28)?)
        })
    }
}

/// The build-id in a file's program headers' notes.
pub(crate) fn read_build_id(file: &File) -> Option<BuildId> {
    // Header, program headers and notes of nearly every file stand here.
    const FIRST: u64 = 4096;
    const MOST_NOTES: u64 = 64 * 1024;
    let first = read_at(file, 0, FIRST)?;
    let headers = ProgramHeaders::parse(&first)?;
    let table_size = headers.entry_size.checked_mul(headers.count)?;
    let table = part(file, &first, headers.at, table_size)?;
    for entry in table.chunks_exact((headers.entry_size as usize).max(1)) {
        let Some((at, size, align)) = headers.notes(entry) else {
            continue;
        };
        let notes = part(file, &first, at, size.min(MOST_NOTES));
        let id = notes.and_then(|notes| find_build_id(&notes, headers.order, align));
        if id.is_some() {
            return id;
        }
    }
    None
}

/// Up to `len` bytes at `at`.
fn read_at(file: &File, at: u64, len: u64) -> Option<Vec<u8>> {
    let mut bytes = vec![0; usize::try_from(len).ok()?];
    let mut filled = 0;
    while let Some(rest) = bytes.get_mut(filled..).filter(|rest| !rest.is_empty()) {
        match file.read_at(rest, at.checked_add(filled as u64)?) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
    bytes.truncate(filled);
    Some(bytes)
}

/// A part of the file, out of what was read first if it is there. Tables are
/// at most 64 Ki entries of 64 Ki bytes by their field widths; real ones are
/// far below this bound.
fn part(file: &File, first: &[u8], at: u64, len: u64) -> Option<Vec<u8>> {
    const LONGEST: u64 = 1 << 20;
    if len > LONGEST {
        return None;
    }
    let start = usize::try_from(at).ok()?;
    let end = start.checked_add(usize::try_from(len).ok()?)?;
    match first.get(start..end) {
        Some(bytes) => Some(bytes.to_vec()),
        None => read_at(file, at, len),
    }
}

/// The build-id among ELF notes, each: u32 name size, u32 value size, u32
/// type, then name and value, both padded to `align` (4, or 8 if so said).
pub(super) fn find_build_id(notes: &[u8], order: ByteOrder, align: u64) -> Option<BuildId> {
    const NT_GNU_BUILD_ID: u32 = 3;
    let align = if align == 8 { 8 } else { 4 };
    let mut at = 0_usize;
    loop {
        let name_size = order.u32(notes, at)? as usize;
        let value_size = order.u32(notes, at.checked_add(4)?)? as usize;
        let kind = order.u32(notes, at.checked_add(8)?)?;
        let name_at = at.checked_add(12)?;
        let name_end = name_at.checked_add(name_size)?;
        let value_at = name_end.checked_next_multiple_of(align)?;
        let value_end = value_at.checked_add(value_size)?;
        if kind == NT_GNU_BUILD_ID && notes.get(name_at..name_end)? == b"GNU\0" {
            return BuildId::new(notes.get(value_at..value_end)?);
        }
        at = value_end.checked_next_multiple_of(align)?;
    }
}

#[cfg(test)]
mod tests {
    use super::{find_build_id, read_build_id};
    use prof_abi::{BuildId, ByteOrder};
    use std::fs::File;
    use std::io::Write;

    /// A note of `kind` by "GNU".
    fn note(kind: u32, value: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(4_u32.to_le_bytes());
        bytes.extend((value.len() as u32).to_le_bytes());
        bytes.extend(kind.to_le_bytes());
        bytes.extend(b"GNU\0");
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn the_build_id_is_found_behind_other_notes() {
        let notes = [note(1, &[0; 5]), note(3, &[7; 20])].concat();
        let found = find_build_id(&notes, ByteOrder::Little, 4);
        assert_eq!(found, BuildId::new(&[7; 20]));
        assert_eq!(find_build_id(&note(1, b"x"), ByteOrder::Little, 4), None);
    }

    #[test]
    fn notes_cut_anywhere_give_nothing() {
        let notes = note(3, &[7; 20]);
        for len in 0..notes.len() {
            assert_eq!(find_build_id(&notes[..len], ByteOrder::Little, 4), None);
        }
        let huge = [0xff_u8; 64];
        assert_eq!(find_build_id(&huge, ByteOrder::Little, 4), None);
    }

    #[test]
    fn a_file_with_its_notes_far_behind_the_first_page() {
        let mut elf = vec![0; 64];
        elf[..6].copy_from_slice(b"\x7fELF\x02\x01");
        elf[32..40].copy_from_slice(&64_u64.to_le_bytes()); // e_phoff
        elf[54..58].copy_from_slice(&[56, 0, 1, 0]); // e_phentsize, e_phnum
        let notes = note(3, &[9; 16]);
        let mut header = vec![0; 56];
        header[0] = 4; // PT_NOTE
        header[8..16].copy_from_slice(&9000_u64.to_le_bytes());
        header[32..40].copy_from_slice(&(notes.len() as u64).to_le_bytes());
        elf.extend(header);
        elf.resize(9000, 0);
        elf.extend(notes);
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&elf).expect("written");
        assert_eq!(read_build_id(&file), BuildId::new(&[9; 16]));
    }

    #[test]
    fn what_is_no_elf_file_has_none() {
        for bytes in [&b""[..], b"#!/bin/sh\n", b"\x7fELF\x09\x01"] {
            let mut file = tempfile::tempfile().expect("a file");
            file.write_all(bytes).expect("written");
            assert_eq!(read_build_id(&file), None);
        }
        let directory = File::open("/").expect("opens");
        assert_eq!(read_build_id(&directory), None);
    }
}

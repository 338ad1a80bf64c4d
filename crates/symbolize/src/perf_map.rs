//! Perf maps: what a JIT compiler tells about its code, as text.
//!
//! Lines `START SIZE NAME`, numbers in hex; the name goes to the end of the
//! line. A later line wins where it overlaps an earlier one, because code is
//! thrown away and its memory used again.

use crate::contents::{self, Links};
use crate::demangle::{self, Demangle};
use crate::kallsyms::parse_hex;
use crate::{Lookup, Symbol};
use prof_profile::{Avma, Svma, UnnamedReason};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A map or dump of more than this many bytes is not read.
const LENGTH_MAX: u64 = 256 << 20;

/// The code that a perf map names, by live address.
#[derive(Debug, Default)]
pub struct PerfMap {
    text: Vec<u8>,
    /// Sorted, without overlap.
    pieces: Vec<Piece>,
    /// Line starts and symbol ranges in file order.
    lines: Vec<Line>,
}

/// A range of addresses and the line that names it.
#[derive(Debug, Clone, Copy)]
struct Piece {
    start: u64,
    end: u64,
    line: u32,
}

#[derive(Debug, Clone, Copy)]
struct Line {
    start: u64,
    end: u64,
    /// Where the name is in the text.
    name_at: u32,
    name_end: u32,
}

/// Why a perf map or jitdump was not used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JitFileError {
    /// It cannot be opened or read; among others, there is none.
    #[error("cannot read it: {0}")]
    Io(#[from] io::Error),
    /// Someone else could have planted it.
    #[error("it belongs to uid {owner}, not to root or the process's uid {wanted}")]
    OtherOwner {
        /// The file's owner.
        owner: u32,
        /// The owner of the process that it tells about.
        wanted: u32,
    },
    /// A hard link may lead to a file that the linker does not own.
    #[error("it has {0} links; a map has one")]
    Linked(u64),
    /// Its contents make no sense.
    #[error("{0}")]
    Damaged(String),
}

impl JitFileError {
    /// The reason that addresses get which this file would have named.
    pub fn reason(&self) -> UnnamedReason {
        match self {
            Self::Io(error) if error.kind() == io::ErrorKind::NotFound => UnnamedReason::NoPerfMap,
            Self::Io(_) | Self::OtherOwner { .. } | Self::Linked(_) => {
                UnnamedReason::PerfMapNotTrusted
            }
            Self::Damaged(_) => UnnamedReason::FileDamaged,
        }
    }
}

impl PerfMap {
    /// Reads a perf map that only `uid` (the owner of the process) or root
    /// may have written. Links, FIFOs and devices are refused at once.
    ///
    /// # Errors
    ///
    /// See [`JitFileError`].
    pub fn open(path: &Path, uid: u32) -> Result<Self, JitFileError> {
        Ok(Self::parse(read_trusted(path, uid)?))
    }

    /// Reads the text of a perf map; lines that make no sense are passed over.
    pub fn parse(text: Vec<u8>) -> Self {
        let mut lines = Vec::new();
        let mut at = 0;
        for line in text.split(|&byte| byte == b'\n') {
            lines.extend(Line::parse(line, at));
            at += line.len() + 1;
        }
        let pieces = last_wins(&lines);
        Self {
            text,
            pieces,
            lines,
        }
    }

    /// What the map says of an address.
    pub fn lookup(&self, avma: Avma, demangle: Demangle) -> Lookup {
        let found = self.piece(avma).and_then(|piece| {
            let line = self.lines.get(piece.line as usize)?;
            let name = self
                .text
                .get(line.name_at as usize..line.name_end as usize)?;
            Some(Symbol {
                name: demangle::name(name, demangle).into(),
                start: Svma(line.start),
                size: line.end - line.start,
            })
        });
        found.map_or_else(
            || Lookup::unnamed(UnnamedReason::NoSymbolThere),
            Lookup::of_symbol,
        )
    }

    /// How many ranges have a name.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    /// Whether the map names nothing.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    fn piece(&self, avma: Avma) -> Option<&Piece> {
        let after = self.pieces.partition_point(|piece| piece.start <= avma.0);
        self.pieces
            .get(after.checked_sub(1)?)
            .filter(|piece| avma.0 < piece.end)
    }
}

impl Line {
    fn parse(line: &[u8], at: usize) -> Option<Self> {
        let digits = |bytes: &[u8]| {
            bytes
                .iter()
                .take_while(|byte| byte.is_ascii_hexdigit())
                .count()
        };
        let prefix = if line.starts_with(b"0x") { 2 } else { 0 };
        let start_end = prefix + digits(line.get(prefix..)?);
        let start = parse_hex(line.get(prefix..start_end)?)?;
        let rest = line.get(start_end..)?.strip_prefix(b" ")?;
        let size_length = digits(rest);
        let size = parse_hex(rest.get(..size_length)?)?;
        let name = rest.get(size_length..)?.strip_prefix(b" ")?;
        let name = name.strip_suffix(b"\r").unwrap_or(name);
        if name.is_empty() || size == 0 {
            return None;
        }
        let name_at = at + start_end + 1 + size_length + 1;
        Some(Self {
            start,
            end: start.checked_add(size)?,
            name_at: u32::try_from(name_at).ok()?,
            name_end: u32::try_from(name_at + name.len()).ok()?,
        })
    }
}

/// Cuts overlapping ranges so that the later line keeps what both cover.
///
/// Sweeps over all ends and starts by address with the lines that cover the
/// current point in a heap, the latest on top: n log n for any input.
fn last_wins(lines: &[Line]) -> Vec<Piece> {
    let mut order: Vec<u32> = (0..).take(lines.len()).collect();
    let line_at = |index: u32| lines.get(index as usize).copied();
    order.sort_by_key(|&index| line_at(index).map_or(0, |line| line.start));
    let mut points: Vec<u64> = lines.iter().flat_map(|it| [it.start, it.end]).collect();
    points.sort_unstable();
    points.dedup();
    let mut starting = order.into_iter().peekable();
    let mut covering = std::collections::BinaryHeap::new();
    let mut pieces: Vec<Piece> = Vec::new();
    for (&start, &end) in points.iter().zip(points.iter().skip(1)) {
        while let Some(index) =
            starting.next_if(|&index| line_at(index).is_some_and(|line| line.start <= start))
        {
            covering.push(index);
        }
        while covering
            .peek()
            .is_some_and(|&index| line_at(index).is_none_or(|line| line.end <= start))
        {
            covering.pop();
        }
        let Some(&line) = covering.peek() else {
            continue;
        };
        match pieces.last_mut() {
            Some(last) if last.line == line && last.end == start => last.end = end,
            _ => pieces.push(Piece { start, end, line }),
        }
    }
    pieces
}

/// Reads a file in a place where anyone may put one, if its owner is `uid`
/// or root.
pub(crate) fn read_trusted(path: &Path, uid: u32) -> Result<Vec<u8>, JitFileError> {
    let file = contents::open_regular(path, Links::Refuse)?;
    check_owner(&file, uid)?;
    Ok(contents::read_at_most(&file, LENGTH_MAX)?)
}

fn check_owner(file: &File, uid: u32) -> Result<(), JitFileError> {
    let metadata = file.metadata()?;
    let owner = metadata.uid();
    if owner != uid && owner != 0 {
        return Err(JitFileError::OtherOwner { owner, wanted: uid });
    }
    match metadata.nlink() {
        // A file that was removed while open has none.
        0 | 1 => Ok(()),
        links => Err(JitFileError::Linked(links)),
    }
}

#[cfg(test)]
mod tests {
    use super::{JitFileError, PerfMap};
    use crate::Demangle;
    use prof_profile::{Avma, UnnamedReason};
    use std::os::unix::fs::MetadataExt;
    use std::path::Path;

    fn name(map: &PerfMap, address: u64) -> Option<String> {
        let lookup = map.lookup(Avma(address), Demangle::Yes);
        lookup.symbol.map(|symbol| symbol.name.to_string())
    }

    #[test]
    fn a_later_line_wins_where_it_overlaps() {
        let text = "1000 100 old code\n1040 20 LazyCompile:~new /a b.js:1\n2000 10 far\n";
        let map = PerfMap::parse(text.into());
        assert_eq!(name(&map, 0x0fff), None);
        assert_eq!(name(&map, 0x103f).as_deref(), Some("old code"));
        assert_eq!(
            name(&map, 0x1040).as_deref(),
            Some("LazyCompile:~new /a b.js:1")
        );
        assert_eq!(name(&map, 0x1060).as_deref(), Some("old code"));
        assert_eq!(name(&map, 0x1100), None);
        assert_eq!(name(&map, 0x2000).as_deref(), Some("far"));
        let symbol = map
            .lookup(Avma(0x1070), Demangle::Yes)
            .symbol
            .expect("a symbol");
        assert_eq!((symbol.start.0, symbol.size), (0x1000, 0x100));
    }

    #[test]
    fn lines_without_sense_are_passed_over() {
        let text = "\n1000\n1000 0 empty\nxyz 10 bad\n1000 10\nffffffffffffffff 10 wraps\n\
            0x3000 10 with prefix\n11111111111111111 1 too long\n4000 10 last";
        let map = PerfMap::parse(text.into());
        assert_eq!(map.len(), 2);
        assert_eq!(name(&map, 0x3001).as_deref(), Some("with prefix"));
        assert_eq!(name(&map, 0x4001).as_deref(), Some("last"));
    }

    #[test]
    fn many_overlapping_lines_end_soon() {
        let text: String = (0..50_000)
            .map(|line| format!("{:x} ffffff f{line}\n", 0x1000 + line))
            .collect();
        let map = PerfMap::parse(text.into());
        assert_eq!(name(&map, 0x1000 + 60_000).as_deref(), Some("f49999"));
    }

    #[test]
    fn only_the_owner_of_the_process_or_root_may_name_its_code() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("perf-1.map");
        std::fs::write(&path, "1000 10 f\n").expect("written");
        let uid = std::fs::metadata(&path).expect("there").uid();
        assert_eq!(PerfMap::open(&path, uid).expect("trusted").len(), 1);
        if uid != 0 {
            let error = PerfMap::open(&path, uid + 1).expect_err("not trusted");
            assert!(matches!(error, JitFileError::OtherOwner { .. }), "{error}");
            assert_eq!(error.reason(), UnnamedReason::PerfMapNotTrusted);
        }
        let second = dir.path().join("perf-2.map");
        std::fs::hard_link(&path, &second).expect("linked");
        assert!(matches!(
            PerfMap::open(&path, uid),
            Err(JitFileError::Linked(2))
        ));
        let link = dir.path().join("perf-3.map");
        std::os::unix::fs::symlink(&path, &link).expect("linked");
        assert!(PerfMap::open(&link, uid).is_err());
        assert!(PerfMap::open(Path::new("/dev/zero"), uid).is_err());
        let missing = PerfMap::open(&dir.path().join("none"), uid).expect_err("missing");
        assert_eq!(missing.reason(), UnnamedReason::NoPerfMap);
    }
}

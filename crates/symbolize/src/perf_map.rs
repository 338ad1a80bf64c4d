//! Perf maps: what a JIT compiler tells about its code, as text.
//!
//! Lines `START SIZE NAME`, numbers in hex, with or without `0x`; the name
//! goes to the end of the line. A later line wins where it overlaps an earlier
//! one, because code is thrown away and its memory used again.

use crate::demangle::{self, Demangle};
use crate::kallsyms::parse_hex;
use crate::trusted_file::{JitFileError, read_trusted};
use crate::{Lookup, Symbol};
use prof_profile::{Avma, Svma, UnnamedReason};
use std::collections::BTreeMap;
use std::path::Path;

/// The code that a perf map names, by live address.
#[derive(Debug, Default)]
pub struct PerfMap {
    text: Vec<u8>,
    /// Sorted, without overlap.
    pieces: Vec<Piece>,
    /// Line starts and symbol ranges in file order.
    lines: Vec<Line>,
    refused: BTreeMap<LineFault, RefusedLines>,
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

/// What is wrong with a line of a perf map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum LineFault {
    /// It does not begin with a hexadecimal number of up to 64 bits.
    NoStart,
    /// No such number follows the start.
    NoSize,
    /// Its size is 0.
    Empty,
    /// Nothing follows the size.
    NoName,
    /// Its code would end past the last address.
    PastEnd,
}

impl LineFault {
    /// The fault in words that follow "a line was refused:".
    pub fn words(self) -> &'static str {
        match self {
            Self::NoStart => "it does not begin with a hexadecimal address",
            Self::NoSize => "no hexadecimal size follows the address",
            Self::Empty => "its size is 0",
            Self::NoName => "no name follows the size",
            Self::PastEnd => "its code would end past the last address",
        }
    }
}

/// How many lines were refused for one reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RefusedLines {
    /// How many.
    pub count: u64,
    /// The number of the first of them, from 1.
    pub first: u64,
}

impl PerfMap {
    /// Reads a perf map that root or one of `owners` wrote, and that nobody
    /// else can write to. Links, FIFOs and devices are refused at once.
    ///
    /// # Errors
    ///
    /// See [`JitFileError`].
    pub fn open(path: &Path, owners: &[u32]) -> Result<Self, JitFileError> {
        Ok(Self::parse(read_trusted(path, owners)?))
    }

    /// Reads the text of a perf map; lines that make no sense are counted and
    /// passed over ([`PerfMap::refused`]).
    pub fn parse(text: Vec<u8>) -> Self {
        let mut lines = Vec::new();
        let mut refused = BTreeMap::new();
        let mut at = 0;
        for (number, line) in (1..).zip(text.split(|&byte| byte == b'\n')) {
            match Line::parse(line, at) {
                Ok(found) => lines.push(found),
                Err(_) if line.trim_ascii().is_empty() => {}
                Err(fault) => {
                    let first = RefusedLines {
                        count: 0,
                        first: number,
                    };
                    refused.entry(fault).or_insert(first).count += 1;
                }
            }
            at += line.len() + 1;
        }
        let pieces = last_wins(&lines);
        Self {
            text,
            pieces,
            lines,
            refused,
        }
    }

    /// The lines that name nothing, by what they lack.
    pub fn refused(&self) -> &BTreeMap<LineFault, RefusedLines> {
        &self.refused
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
            || Lookup::unnamed(UnnamedReason::NotInPerfMap),
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
    fn parse(line: &[u8], at: usize) -> Result<Self, LineFault> {
        let (start, behind_start) = number_at(line, 0).ok_or(LineFault::NoStart)?;
        let blanks = blanks_at(line, behind_start);
        let size = number_at(line, behind_start + blanks).filter(|_| blanks > 0);
        let (size, behind_size) = size.ok_or(LineFault::NoSize)?;
        if size == 0 {
            return Err(LineFault::Empty);
        }
        // One blank: a name may begin with another.
        let name = match line.get(behind_size..) {
            Some([b' ' | b'\t', name @ ..]) => name.strip_suffix(b"\r").unwrap_or(name),
            Some([]) => return Err(LineFault::NoName),
            _ => return Err(LineFault::NoSize),
        };
        if name.is_empty() {
            return Err(LineFault::NoName);
        }
        let name_at = at + behind_size + 1;
        // A map is never so long that these do not fit.
        let place = |at: usize| u32::try_from(at).map_err(|_| LineFault::NoName);
        Ok(Self {
            start,
            end: start.checked_add(size).ok_or(LineFault::PastEnd)?,
            name_at: place(name_at)?,
            name_end: place(name_at + name.len())?,
        })
    }
}

/// The hexadecimal number at `from`, with or without `0x` and zeros in front,
/// and where it ends.
fn number_at(line: &[u8], from: usize) -> Option<(u64, usize)> {
    let rest = line.get(from..)?;
    let digits = match rest {
        [b'0', b'x' | b'X', digits @ ..] => digits,
        digits => digits,
    };
    let count = |of: &dyn Fn(&u8) -> bool| digits.iter().take_while(|byte| of(byte)).count();
    let length = count(&u8::is_ascii_hexdigit);
    let zeros = count(&|byte| *byte == b'0').min(length.saturating_sub(1));
    let value = parse_hex(digits.get(zeros..length)?)?;
    Some((value, from + (rest.len() - digits.len()) + length))
}

fn blanks_at(line: &[u8], from: usize) -> usize {
    let rest = line.get(from..).unwrap_or_default();
    let is_blank = |byte: &&u8| matches!(byte, b' ' | b'\t');
    rest.iter().take_while(is_blank).count()
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

#[cfg(test)]
mod tests {
    use super::{LineFault, PerfMap};
    use crate::Demangle;
    use prof_profile::{Avma, UnnamedReason};

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
    fn lines_as_the_jdk_writes_them_are_read() {
        let text = "0x00007f9d94ec71c0 0x0000000000000270 java.lang.Object::hash\n\
            0X2000 0X10  two blanks\n3000\t10\ttabs\r\n000000000000000004000 0x10 zeros\n";
        let map = PerfMap::parse(text.into());
        assert!(map.refused().is_empty(), "{:?}", map.refused());
        let hash = "java.lang.Object::hash";
        assert_eq!(name(&map, 0x7f9d_94ec_71c0).as_deref(), Some(hash));
        assert_eq!(name(&map, 0x7f9d_94ec_742f).as_deref(), Some(hash));
        assert_eq!(name(&map, 0x7f9d_94ec_7430), None);
        assert_eq!(name(&map, 0x2001).as_deref(), Some(" two blanks"));
        assert_eq!(name(&map, 0x3001).as_deref(), Some("tabs"));
        assert_eq!(name(&map, 0x4001).as_deref(), Some("zeros"));
    }

    #[test]
    fn lines_without_sense_are_counted_by_what_they_lack() {
        let text = "\n1000\n1000 0 empty\nxyz 10 bad\n1000 10\nffffffffffffffff 10 wraps\n\
            0x3000 10 with prefix\n11111111111111111 1 too long\n1000 1g name\n4000 10 last";
        let map = PerfMap::parse(text.into());
        assert_eq!(map.len(), 2);
        assert_eq!(name(&map, 0x3001).as_deref(), Some("with prefix"));
        assert_eq!(name(&map, 0x4001).as_deref(), Some("last"));
        let refused = |fault| map.refused().get(&fault).map(|it| (it.count, it.first));
        assert_eq!(refused(LineFault::NoStart), Some((2, 4)));
        assert_eq!(refused(LineFault::NoSize), Some((2, 2)));
        assert_eq!(refused(LineFault::Empty), Some((1, 3)));
        assert_eq!(refused(LineFault::NoName), Some((1, 5)));
        assert_eq!(refused(LineFault::PastEnd), Some((1, 6)));
        let missing = map.lookup(Avma(0x9000), Demangle::Yes);
        assert_eq!(missing.reason, Some(UnnamedReason::NotInPerfMap));
    }

    #[test]
    fn many_overlapping_lines_end_soon() {
        let text: String = (0..50_000)
            .map(|line| format!("{:x} ffffff f{line}\n", 0x1000 + line))
            .collect();
        let map = PerfMap::parse(text.into());
        assert_eq!(name(&map, 0x1000 + 60_000).as_deref(), Some("f49999"));
    }
}

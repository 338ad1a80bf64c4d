//! Answers that travel with a recording: what a symbolizer was asked about
//! dsos, kept so that the same questions can be answered without their files.
//!
//! A [`Symbolizer`](crate::Symbolizer) that takes notes ([`Notes`]) writes
//! down each question and its answer; [`Notes::encode`] packs them into bytes
//! that [`Embedded`] answers from.
//!
//! The bytes: `PROFSYM1`, the unpacked size in bytes as u64 (little-endian),
//! then a zstd frame. Unpacked, all integers are LEB128, `text` is a number
//! in the list of texts, an optional one is one more than it, or 0:
//!
//! | part | content |
//! |---|---|
//! | texts | count; of each its length and UTF-8 bytes |
//! | functions | count; of each: text of its name, optional text and line of its definition |
//! | sources | count; of each: text of the path, length, bytes |
//! | dsos | count; of each what follows |
//! | key | kind (0 file, 1 vDSO, 2 kernel, 3 run-time code), text of the path (kernel: release; run-time code: pid), length and bytes of the build-id |
//! | refusal | reason, 0 for none; if there is one: text of its details |
//! | facts | flags (1: 64-bit, 2: has lines, 4: names are from a file), text of that file |
//! | segments | count; of each: file offset, svma, length |
//! | symbols | count; of each: text, start, length |
//! | frames | count; of each: function, optional text of the file, line, caller: 0 for none, or how many frames before |
//! | answers | count; of each: address less the one before; 0 and reason, optional extent, or symbol + 1 and frame |
//! | names | count; of each: address less the one before; 0 and reason, or symbol + 1 |
//! | code | count; of each: start, length, bytes |
//! | rows | count; of each: start, end, rows: count, address less the one before, optional text, line |
//! | refused | of perf maps: count; of each: fault, how many, first line |

mod decode;
mod encode;
mod notes;
mod reasons;
mod wire;

pub(crate) use notes::PartNotes;
pub use notes::{Extent, Notes, Packed};

use crate::perf_map::{LineFault, RefusedLines};
use crate::{Detail, LineRow, Lookup, OpenError, SourceFrame, Symbol};
use prof_abi::BuildId;
use prof_profile::{FileOffset, Svma, UnnamedReason};
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// Frames that all answers together may have: bounds what a hostile recording
/// costs.
const FRAMES_MAX: u64 = 1 << 23;

/// Which dso a part is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum PartKey {
    /// A file, by the path as recorded.
    File(String, Option<BuildId>),
    Vdso(String, Option<BuildId>),
    /// The kernel, by release.
    Kernel(String, Option<BuildId>),
    /// Code that process made at run time.
    RunTime(i32),
}

/// Names embedded in a recording: look-ups that were made when it was recorded,
/// and their answers. Decoded when first needed. Shared between threads.
#[derive(Debug)]
pub struct Embedded {
    packed: Vec<u8>,
    parts: OnceLock<Result<Parts, String>>,
}

/// All that was read.
#[derive(Debug, Default)]
struct Parts {
    by_key: BTreeMap<PartKey, Arc<Part>>,
    sources: BTreeMap<String, String>,
}

impl Embedded {
    /// From the bytes of [`Notes::encode`].
    pub fn new(packed: Vec<u8>) -> Self {
        Self {
            packed,
            parts: OnceLock::new(),
        }
    }

    /// Why the bytes cannot be decoded, in words; nothing is known then.
    /// Decodes them if that was not done yet.
    pub fn fault(&self) -> Option<&str> {
        self.parts().err()
    }

    /// As [`Embedded::fault`], but `None` if the bytes have not been needed so
    /// far.
    pub fn known_fault(&self) -> Option<&str> {
        self.parts.get()?.as_ref().err().map(String::as_str)
    }

    /// The text of a source file as it was when it was embedded.
    pub fn source(&self, path: &str) -> Option<&str> {
        self.parts().ok()?.sources.get(path).map(String::as_str)
    }

    pub(crate) fn part(&self, key: &PartKey) -> Option<Arc<Part>> {
        self.parts().ok()?.by_key.get(key).cloned()
    }

    /// The part on a kernel: of that build, or, where that is not known, of
    /// that release.
    pub(crate) fn kernel(&self, release: Option<&str>, id: Option<BuildId>) -> Option<Arc<Part>> {
        let parts = self.parts().ok()?;
        let mut kernels = parts.by_key.iter().filter(|(key, _)| match key {
            PartKey::Kernel(known, known_id) => match (id, known_id) {
                (Some(id), Some(known)) => known.matches(&id),
                _ => release == Some(known.as_str()),
            },
            _ => false,
        });
        kernels.next().map(|(_, part)| Arc::clone(part))
    }

    /// Code that was made at run time, by the jitdump that names it.
    pub(crate) fn run_time_code(&self, dump: &str) -> Option<Arc<Part>> {
        let parts = self.parts().ok()?;
        let mut found = parts.by_key.iter().filter(|(key, part)| {
            matches!(key, PartKey::RunTime(_)) && part.from.as_deref() == Some(dump)
        });
        found.next().map(|(_, part)| Arc::clone(part))
    }

    fn parts(&self) -> Result<&Parts, &str> {
        let read = self.parts.get_or_init(|| decode::decode(&self.packed));
        read.as_ref().map_err(String::as_str)
    }
}

/// A piece of a file's address space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Piece {
    pub(crate) offset: u64,
    pub(crate) svma: u64,
    pub(crate) size: u64,
}

/// A function symbol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PartSymbol {
    name: Arc<str>,
    start: u64,
    size: u64,
}

/// A frame, and the one that it was inlined into.
#[derive(Debug, Clone)]
struct PartFrame {
    name: Arc<str>,
    defined_at: Option<(Arc<str>, u32)>,
    file: Option<Arc<str>>,
    line: u32,
    caller: Option<u32>,
    depth: u32,
}

/// What is known of an address.
#[derive(Debug, Clone, Copy)]
enum Answer {
    /// Numbers of a symbol and of the innermost frame.
    Named(u32, u32),
    Unnamed(UnnamedReason, Option<(Svma, u64)>),
}

/// Source lines of a range.
#[derive(Debug)]
struct PartRows {
    start: u64,
    end: u64,
    rows: Vec<LineRow>,
}

/// What is known of one dso.
#[derive(Debug, Default)]
pub(crate) struct Part {
    /// Why it has no names at all, and the details in words.
    pub(crate) refusal: Option<(UnnamedReason, String)>,
    /// The file that the names came from.
    pub(crate) from: Option<String>,
    pub(crate) is_64_bit: bool,
    /// Whether there was debug information.
    pub(crate) has_lines: bool,
    pieces: Vec<Piece>,
    symbols: Vec<PartSymbol>,
    frames: Vec<PartFrame>,
    /// By address.
    answers: Vec<(u64, Answer)>,
    /// By address, where only the symbol was asked for.
    names: Vec<(u64, Answer)>,
    /// By start.
    code: Vec<(u64, Vec<u8>)>,
    rows: Vec<PartRows>,
    refused: BTreeMap<LineFault, RefusedLines>,
}

impl Part {
    pub(crate) fn svma_of(&self, offset: FileOffset) -> Option<Svma> {
        self.pieces.iter().find_map(|piece| {
            let into = offset.0.checked_sub(piece.offset)?;
            (into < piece.size).then(|| Svma(piece.svma.wrapping_add(into)))
        })
    }

    /// What stands at an address; `None` if nobody asked.
    pub(crate) fn lookup(&self, address: u64, detail: Detail) -> Option<Lookup> {
        let known = |list: &[(u64, Answer)]| {
            let at = list.binary_search_by_key(&address, |&(at, _)| at).ok()?;
            list.get(at).map(|&(_, answer)| answer)
        };
        let exact = known(&self.answers);
        let by_name = || known(&self.names);
        match detail {
            Detail::Symbol => Some(self.symbol_of(by_name().or(exact)?)),
            _ => match exact {
                Some(answer) => Some(self.frames_of(answer, detail)),
                None => by_name().map(|answer| self.symbol_of(answer)),
            },
        }
    }

    fn symbol(&self, number: u32) -> Option<Symbol> {
        let symbol = self.symbols.get(number as usize)?;
        Some(Symbol {
            name: Arc::clone(&symbol.name),
            start: Svma(symbol.start),
            size: symbol.size,
        })
    }

    fn symbol_of(&self, answer: Answer) -> Lookup {
        match answer {
            Answer::Named(symbol, _) => self.symbol(symbol).map_or_else(
                || Lookup::unnamed(UnnamedReason::NoSymbolThere),
                Lookup::of_symbol,
            ),
            Answer::Unnamed(reason, extent) => Lookup {
                extent,
                ..Lookup::unnamed(reason)
            },
        }
    }

    fn frames_of(&self, answer: Answer, detail: Detail) -> Lookup {
        let Answer::Named(symbol, innermost) = answer else {
            return self.symbol_of(answer);
        };
        let with_lines = detail == Detail::Source;
        let mut frames = Vec::new();
        let mut next = Some(innermost);
        while let Some(frame) = next.and_then(|at| self.frames.get(at as usize)) {
            frames.push(SourceFrame {
                name: Arc::clone(&frame.name),
                file: frame.file.clone().filter(|_| with_lines),
                line: if with_lines { frame.line } else { 0 },
                is_inline: frame.caller.is_some(),
                defined_at: frame.defined_at.clone(),
            });
            next = frame.caller;
        }
        Lookup {
            symbol: self.symbol(symbol),
            frames,
            reason: None,
            extent: None,
        }
    }

    /// Instruction bytes from an address on, up to `length` of them.
    pub(crate) fn text_bytes(&self, start: u64, length: u64) -> Option<&[u8]> {
        let behind = self.code.partition_point(|(at, _)| *at <= start);
        let (at, bytes) = self.code.get(behind.checked_sub(1)?)?;
        let rest = bytes.get(usize::try_from(start - at).ok()?..)?;
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        let bytes = rest.get(..length).unwrap_or(rest);
        (!bytes.is_empty()).then_some(bytes)
    }

    /// The rows of a range that was asked for; `None` if it was not.
    pub(crate) fn line_rows(&self, start: Svma, end: Svma) -> Option<Vec<LineRow>> {
        let mut same = self.rows.iter();
        let found = same.find(|rows| (rows.start, rows.end) == (start.0, end.0));
        found.map(|rows| rows.rows.clone())
    }

    /// The rows of the code that starts there.
    pub(crate) fn rows_from(&self, start: u64) -> &[LineRow] {
        let found = self.rows.iter().find(|rows| rows.start == start);
        found.map_or(&[], |found| &found.rows)
    }

    /// Lines of a perf map that were refused.
    pub(crate) fn refused(&self) -> &BTreeMap<LineFault, RefusedLines> {
        &self.refused
    }

    /// The error that opening the dso gave.
    pub(crate) fn error(&self, path: &str) -> Option<OpenError> {
        let (reason, detail) = self.refusal.as_ref()?;
        Some(OpenError {
            path: path.to_owned(),
            reason: *reason,
            detail: detail.clone(),
        })
    }
}

#[cfg(test)]
mod tests;

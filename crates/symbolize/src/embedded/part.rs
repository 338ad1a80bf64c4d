//! What a recording's own names say of one dso.

use crate::perf_map::{LineFault, RefusedLines};
use crate::{Detail, LineRow, Lookup, OpenError, SourceFrame, Symbol};
use prof_abi::BuildId;
use prof_profile::{FileOffset, Svma, UnnamedReason};
use std::collections::BTreeMap;
use std::sync::Arc;

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
    pub(super) name: Arc<str>,
    pub(super) start: u64,
    pub(super) size: u64,
}

/// A frame, and the one that it was inlined into.
#[derive(Debug, Clone)]
pub(super) struct PartFrame {
    pub(super) name: Arc<str>,
    pub(super) defined_at: Option<(Arc<str>, u32)>,
    pub(super) file: Option<Arc<str>>,
    pub(super) line: u32,
    pub(super) caller: Option<u32>,
    pub(super) depth: u32,
}

/// What is known of an address.
#[derive(Debug, Clone, Copy)]
pub(super) enum Answer {
    /// Numbers of a symbol and of the innermost frame.
    Named(u32, u32),
    Unnamed(UnnamedReason, Option<(Svma, u64)>),
}

/// Source lines of a range.
#[derive(Debug)]
pub(super) struct PartRows {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) rows: Vec<LineRow>,
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
    pub(super) pieces: Vec<Piece>,
    pub(super) symbols: Vec<PartSymbol>,
    pub(super) frames: Vec<PartFrame>,
    /// By address.
    pub(super) answers: Vec<(u64, Answer)>,
    /// By address, where only the symbol was asked for.
    pub(super) names: Vec<(u64, Answer)>,
    /// By start.
    pub(super) code: Vec<(u64, Vec<u8>)>,
    pub(super) rows: Vec<PartRows>,
    pub(super) refused: BTreeMap<LineFault, RefusedLines>,
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

/// All that was read.
#[derive(Debug, Default)]
pub(super) struct Parts {
    pub(super) by_key: BTreeMap<PartKey, Arc<Part>>,
    pub(super) sources: BTreeMap<String, String>,
}

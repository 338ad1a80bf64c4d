//! Functions that were inlined into others.

use crate::table::{Version, pointer_at};
use crate::values::{Kind, value_at};
use crate::{Function, Loaded, Table, u32_at};

/// Inlined calls within each other; real ones are some ten.
const DEEPEST: usize = 128;
/// Number of a function's table of which inlined call an address is in.
const CALL_BY_ADDRESS: u32 = 2;
/// Number of a function's data with its inlined calls.
const CALLS: u8 = 3;
/// Bytes of the module's description that are searched for at once.
const PIECE: usize = 1 << 16;

/// One function at an address, inlined or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceFrame {
    /// Name with package.
    pub name: String,
    /// The source file, if it is known.
    pub file: Option<String>,
    /// The line in it, from 1; 0 if unknown.
    pub line: u32,
}

/// The trees of inlined calls of a Go program; offsets in the function table
/// count from this address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InlineTrees(u64);

impl InlineTrees {
    /// Searches parts of the file for Go's `moduledata`, which begins with the
    /// addresses of the table and of its names. A part is its first address and
    /// the address behind its last byte.
    pub fn find(
        table: &Table,
        file: &impl Loaded,
        parts: impl Iterator<Item = (u64, u64)>,
    ) -> Option<Self> {
        // `runtime.moduledata.gofunc`, words from its start on.
        let word = match table.version {
            Version::Go118 => 38,
            Version::Go120 => 40,
        };
        let module = parts
            .into_iter()
            .find_map(|part| module_in(table, file, part))?;
        let base = pointer_at(file, module, table.pointer, word)?;
        u32_at(file, base).map(|_| Self(base))
    }
}

/// A function of a Go program, with the table and the file it is in.
#[derive(Debug)]
pub struct FunctionIn<'a, F> {
    /// The table that tells of the function.
    pub table: &'a Table,
    /// What the table is read from.
    pub file: &'a F,
    /// The function, as the table has it.
    pub function: &'a Function,
}

impl<F: Loaded> FunctionIn<'_, F> {
    /// The functions at an address, innermost first; the last one is the
    /// function itself. Without `trees`, there is no other.
    pub fn frames(&self, trees: Option<InlineTrees>, at: u64) -> Option<Vec<SourceFrame>> {
        let Self {
            table,
            file,
            function,
        } = *self;
        let mut frames = Vec::new();
        let mut at = at;
        let name = table.name(file, function)?;
        let frame = |name: String, at: u64| {
            let (path, line) = table.line(file, function, at).unwrap_or((None, 0));
            let file = path;
            SourceFrame { name, file, line }
        };
        while let Some((name, caller)) = trees.and_then(|trees| self.inlined_call(trees, at)) {
            if frames.len() == DEEPEST {
                return None;
            }
            frames.push(frame(name, at));
            at = caller;
        }
        frames.push(frame(name, at));
        Some(frames)
    }

    /// The innermost inlined function at an address, and the address of an
    /// instruction that belongs to the call it replaces.
    fn inlined_call(&self, trees: InlineTrees, at: u64) -> Option<(String, u64)> {
        let Self {
            table,
            file,
            function,
        } = *self;
        let list = table.by_address(file, function, CALL_BY_ADDRESS)?;
        let number = value_at(file, table.list(function, Kind::Inlined(list))?, at)?;
        let number = u64::try_from(number).ok()?;
        // Bytes of a call, and where in it name and caller are.
        let (size, name, caller) = match table.version {
            Version::Go118 => (20, 12, 16),
            Version::Go120 => (16, 4, 8),
        };
        let calls = u64::from(table.other(file, function, CALLS)?);
        let call = trees.0.checked_add(calls)?.checked_add(number * size)?;
        let name = table.name_at(file, u32_at(file, call.checked_add(name)?)?)?;
        let caller = u64::from(u32_at(file, call.checked_add(caller)?)?);
        let caller = function.start.checked_add(caller)?;
        (caller < function.end).then_some((name, caller))
    }
}

/// The address of the module's description within a part of the file.
fn module_in(table: &Table, file: &impl Loaded, (start, end): (u64, u64)) -> Option<u64> {
    let pointer = usize::from(table.pointer);
    let [header, names] = table.parts();
    let (header, names) = (header.to_le_bytes(), names.to_le_bytes());
    let (header, names) = (header.get(..pointer)?, names.get(..pointer)?);
    let mut at = start.checked_next_multiple_of(pointer as u64)?;
    let mut piece = vec![0; PIECE + pointer];
    while at < end {
        let got = file.read(at, &mut piece);
        // What the headers say may be longer than the file.
        if got == 0 {
            return None;
        }
        let words = piece.get(..got)?.windows(pointer * 2).step_by(pointer);
        for (number, words) in words.enumerate() {
            if words.starts_with(header) && words.ends_with(names) {
                return at.checked_add((number * pointer) as u64);
            }
        }
        at = at.checked_add(PIECE as u64)?;
    }
    None
}

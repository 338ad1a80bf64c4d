//! The line table of one unit: which source line an address belongs to.

use super::session::Session;
use super::{Fault, Slice};
use crate::answers::LineRow;
use gimli::{LineProgramHeader, Unit};
use prof_profile::Svma;
use std::sync::Arc;

/// A path is cut after this many bytes.
const PATH_MAX: usize = 4096;
/// How many sequences before an address are looked at for one that covers it.
const SEQUENCES_BACK: usize = 16;

/// Rows of a line program, in runs of ascending addresses.
#[derive(Debug, Default)]
pub(super) struct LineTable {
    rows: Vec<LineStart>,
    /// Sorted by start.
    sequences: Vec<Sequence>,
    /// Paths by the unit's file numbers; `None` where nothing refers to it.
    files: Vec<Option<Arc<str>>>,
}

/// From here on, up to the next row.
#[derive(Debug, Clone, Copy)]
struct LineStart {
    address: u64,
    file: u32,
    /// 0 if the code belongs to no line.
    line: u32,
}

/// A run of rows without gaps.
#[derive(Debug, Clone, Copy)]
struct Sequence {
    start: u64,
    end: u64,
    /// Rows `first..last`.
    first: usize,
    last: usize,
}

/// A place in source.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct SourceLine {
    pub(super) file: Option<Arc<str>>,
    /// From 1; 0 if unknown.
    pub(super) line: u32,
}

impl LineTable {
    /// Runs a unit's line program. What comes before a fault is kept.
    pub(super) fn read<'a>(session: &Session<'a>, unit: &Unit<Slice<'a>>) -> Self {
        let mut table = Self::default();
        // The rows up to the fault are in the table.
        let _ = table.run(session, unit);
        table.sequences.sort_by_key(|sequence| sequence.start);
        table
    }

    fn run<'a>(&mut self, session: &Session<'a>, unit: &Unit<Slice<'a>>) -> Result<(), Fault> {
        let Some(program) = unit.line_program.clone() else {
            return Ok(());
        };
        let mut rows = program.rows();
        let mut first = 0;
        while let Some((header, row)) = rows.next_row()? {
            session.budget.step(1)?;
            if row.end_sequence() {
                self.end_sequence(first, row.address());
                first = self.rows.len();
                continue;
            }
            let row = LineStart {
                address: row.address(),
                file: u32::try_from(row.file_index()).unwrap_or(u32::MAX),
                line: row
                    .line()
                    .map_or(0, |line| u32::try_from(line.get()).unwrap_or(0)),
            };
            self.note_file(session, unit, header, row.file)?;
            match self.rows.get_mut(first..).and_then(<[LineStart]>::last_mut) {
                Some(last) if last.address == row.address => *last = row,
                Some(last) if (last.file, last.line) == (row.file, row.line) => {}
                _ => {
                    session.budget.keep(1)?;
                    self.rows.push(row);
                }
            }
        }
        Ok(())
    }

    fn end_sequence(&mut self, first: usize, end: u64) {
        let rows = self.rows.get_mut(first..).unwrap_or_default();
        // Addresses only go up within a sequence, except in broken files.
        if !rows.is_sorted_by_key(|row| row.address) {
            rows.sort_by_key(|row| row.address);
        }
        let start = rows.first().map(|row| row.address);
        match start {
            Some(start) if start < end => self.sequences.push(Sequence {
                start,
                end,
                first,
                last: self.rows.len(),
            }),
            _ => self.rows.truncate(first),
        }
    }

    /// Makes the path of a file when a row first refers to it.
    fn note_file<'a>(
        &mut self,
        session: &Session<'a>,
        unit: &Unit<Slice<'a>>,
        header: &LineProgramHeader<Slice<'a>>,
        number: u32,
    ) -> Result<(), Fault> {
        let index = number as usize;
        if matches!(self.files.get(index), Some(Some(_))) {
            return Ok(());
        }
        let Some(path) = file_path(session, unit, header, u64::from(number)) else {
            return Ok(());
        };
        session.budget.step(path.len() as u64)?;
        if self.files.len() <= index {
            // A file exists, so there are at least this many in the header.
            self.files.resize(index + 1, None);
        }
        if let Some(file) = self.files.get_mut(index) {
            *file = Some(path.into());
        }
        Ok(())
    }

    /// The line at an address.
    pub(super) fn find(&self, svma: Svma) -> Option<SourceLine> {
        let end = self
            .sequences
            .partition_point(|sequence| sequence.start <= svma.0);
        let sequence = self
            .sequences
            .get(..end)?
            .iter()
            .rev()
            .take(SEQUENCES_BACK)
            .find(|sequence| svma.0 < sequence.end)?;
        let rows = self.rows.get(sequence.first..sequence.last)?;
        let after = rows.partition_point(|row| row.address <= svma.0);
        let row = rows.get(after.checked_sub(1)?)?;
        Some(SourceLine {
            file: self.file(row.file),
            line: row.line,
        })
    }

    /// The rows that cover `start..end`, each with its first address.
    pub(super) fn rows(&self, start: Svma, end: Svma) -> Vec<LineRow> {
        let mut found = Vec::new();
        for sequence in &self.sequences {
            if sequence.start >= end.0 || sequence.end <= start.0 {
                continue;
            }
            let rows = self
                .rows
                .get(sequence.first..sequence.last)
                .unwrap_or_default();
            let first = rows.partition_point(|row| row.address <= start.0);
            for row in rows.iter().skip(first.saturating_sub(1)) {
                if row.address >= end.0 {
                    break;
                }
                found.push(LineRow {
                    address: Svma(row.address.max(start.0)),
                    file: self.file(row.file),
                    line: row.line,
                });
            }
        }
        found
    }

    /// The path of a file that a row refers to.
    pub(super) fn file(&self, number: u32) -> Option<Arc<str>> {
        self.files.get(number as usize)?.clone()
    }
}

/// The full path of a file of a unit: compilation directory, include
/// directory and name, as far as each is relative.
pub(super) fn file_path<'a>(
    session: &Session<'a>,
    unit: &Unit<Slice<'a>>,
    header: &LineProgramHeader<Slice<'a>>,
    number: u64,
) -> Option<String> {
    let file = header.file(number)?;
    let text = |value| {
        let bytes = session.dwarf.attr_string(unit, value).ok()?.slice();
        let bytes = bytes.get(..PATH_MAX).unwrap_or(bytes);
        Some(String::from_utf8_lossy(bytes).into_owned())
    };
    let mut path = String::new();
    if let Some(directory) = unit.comp_dir {
        let bytes = directory.slice();
        path.push_str(&String::from_utf8_lossy(
            bytes.get(..PATH_MAX).unwrap_or(bytes),
        ));
    }
    // Before version 5, directory 0 is the compilation directory itself.
    if unit.header.version() >= 5 || file.directory_index() != 0 {
        let directory = file.directory(header).and_then(text);
        append(&mut path, directory.as_deref().unwrap_or_default());
    }
    append(&mut path, &text(file.path_name())?);
    while path.len() > PATH_MAX {
        path.pop();
    }
    Some(path)
}

/// Adds a part to a path, or starts anew where the part is absolute.
fn append(path: &mut String, part: &str) {
    if part.starts_with('/') {
        path.clear();
    } else if !path.is_empty() && !path.ends_with('/') && !part.is_empty() {
        path.push('/');
    }
    path.push_str(part);
}

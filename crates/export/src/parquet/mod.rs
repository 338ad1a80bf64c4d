//! Apache Parquet: a table for SQL, a row for each stack, thread and event.
//!
//! Written here and not by the crate `parquet`, which takes a minute of CPU to
//! compile: what is needed of the format is columns, a page each in a group of
//! rows, packed with zstd.
//!
//! Source: `parquet.thrift` and README of apache/parquet-format. Numbers of
//! fields stand beside their use.

mod column;
mod thrift;

use crate::ExportError;
use crate::choice::{Cell, Chosen};
use crate::pprof::unit_of;
use crate::protobuf::signed;
use column::{Column, Encoding, Paths, Words};
use prof_profile::{Event, FunctionId, NameId, Profile, StackId};
use prof_report::escape;
use std::borrow::Cow;
use std::io::{self, Write};
use thrift::{BINARY, Compact, I32, LIST};

const MAGIC: &[u8; 4] = b"PAR1";
/// Bytes of a group of rows, as readers have them, from which on it is written.
const GROUP: usize = 32 << 20;
/// As the tool's default.
const LEVEL: i32 = 3;

/// Bytes of a row without its stack, about.
const ROW: usize = 128;
/// Bytes of one stack at most: lengths are signed in some readers.
const LONGEST: usize = i32::MAX as usize;

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Int32,
    Int64,
    /// Texts of which there are few.
    Word,
    /// Functions with `;` between them.
    Stack,
}

impl Kind {
    /// The number of its type in the format.
    fn number(self) -> i64 {
        match self {
            Self::Int32 => 1,
            Self::Int64 => 2,
            Self::Word | Self::Stack => 6,
        }
    }

    fn column(self) -> Column {
        match self {
            Self::Int32 | Self::Int64 => Column::Numbers(Vec::new()),
            Self::Word => Column::Words(Words::default()),
            Self::Stack => Column::Paths(Paths::default()),
        }
    }
}

/// The columns; `docs/exports.md` describes them.
const COLUMNS: [(&str, Kind); 13] = [
    ("host", Kind::Word),
    ("recorded_at", Kind::Int64),
    ("event", Kind::Word),
    ("unit", Kind::Word),
    ("pid", Kind::Int32),
    ("tid", Kind::Int32),
    ("comm", Kind::Word),
    ("samples", Kind::Int64),
    ("weight", Kind::Int64),
    ("function", Kind::Word),
    ("module", Kind::Word),
    ("build_id", Kind::Word),
    ("stack", Kind::Stack),
];

/// Writes the chosen samples.
///
/// # Errors
/// If `out` cannot be written to.
pub(crate) fn write(chosen: &Chosen<'_>, out: &mut dyn Write) -> Result<Vec<String>, ExportError> {
    let (first, _) = chosen.span().unwrap_or_default();
    let mut table = Table {
        out,
        at: 0,
        columns: COLUMNS.map(|(_, kind)| kind.column()),
        rows: 0,
        bytes: 0,
        packer: zstd::bulk::Compressor::new(LEVEL)?,
        path: Path::default(),
        names: vec![None; chosen.profile.functions.len()],
        groups: Vec::new(),
        // Microseconds.
        recorded_at: chosen.wall_clock(first).unwrap_or(0) / 1000,
    };
    table.raw(MAGIC)?;
    let written: io::Result<()> = chosen.by_stack(|stack, cells| {
        table.stack(chosen, stack, cells);
        match table.bytes > GROUP {
            true => table.group(),
            false => Ok(()),
        }
    });
    written?;
    table.group()?;
    table.footer()?;
    Ok(Vec::new())
}

/// A group of rows that is written.
struct Group {
    rows: i64,
    chunks: Vec<Chunk>,
}

/// Where a column of a group is.
struct Chunk {
    /// Of its first page.
    begins: i64,
    /// Of the page with the values, which may be the first.
    values: i64,
    encoding: Encoding,
    packed: i64,
    unpacked: i64,
}

struct Table<'o, 'p> {
    out: &'o mut dyn Write,
    /// Bytes written.
    at: i64,
    /// Values of the rows that are not written yet.
    columns: [Column; COLUMNS.len()],
    rows: usize,
    /// Bytes of them, as readers have them.
    bytes: usize,
    packer: zstd::bulk::Compressor<'static>,
    path: Path,
    /// By `FunctionId`: its name as in folded stacks, once it was needed.
    names: Vec<Option<Cow<'p, str>>>,
    groups: Vec<Group>,
    recorded_at: u64,
}

/// A stack as text.
#[derive(Default)]
struct Path {
    /// The outermost first.
    functions: Vec<FunctionId>,
    /// Bytes of the text up to the end of each of the first functions: those
    /// that the column has.
    ends: Vec<usize>,
    /// Reused: the next one's functions.
    next: Vec<FunctionId>,
}

impl Path {
    /// Steps to the next stack; the ends of what both share stay.
    fn step(&mut self, profile: &Profile, stack: StackId) {
        let frames = profile.stacks.locations(stack);
        let frames = frames.flat_map(|id| profile.frames_at(id));
        self.next.clear();
        self.next.extend(frames.map(|frame| frame.function));
        self.next.reverse();
        let pairs = self.functions.iter().zip(&self.next);
        let shared = pairs.take_while(|(one, other)| one == other).count();
        std::mem::swap(&mut self.functions, &mut self.next);
        self.ends.truncate(shared);
    }

    fn length(&self) -> usize {
        self.ends.last().copied().unwrap_or(0)
    }
}

impl<'p> Table<'_, 'p> {
    fn raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.at += bytes.len() as i64;
        self.out.write_all(bytes)
    }

    /// Adds the rows of a stack.
    fn stack(&mut self, chosen: &Chosen<'p>, stack: StackId, cells: &[Cell]) {
        let profile = chosen.profile;
        self.path.step(profile, stack);
        for cell in cells {
            let id = chosen.events.get(cell.slot);
            if let Some(event) = id.and_then(|id| profile.events.get(usize::from(id.0))) {
                self.row(profile, (cell, event));
                self.put_path(profile);
            }
        }
    }

    /// Adds a row, but for the stack's text.
    fn row(&mut self, profile: &Profile, (cell, event): (&Cell, &Event)) {
        let (task, slot) = (profile.task(cell.task), cell.slot as u32);
        let leaf = self.path.functions.last();
        let leaf = leaf.map(|&function| profile.function(function));
        let dso = leaf.map(|function| profile.dso(function.dso));
        let build_id = || dso.and_then(|dso| dso.build_id.as_ref().map(ToString::to_string));
        let [
            host,
            at,
            name,
            unit,
            pid,
            tid,
            comm,
            samples,
            weight,
            function,
            module,
            id,
            _,
        ] = &mut self.columns;
        let word = |column: &mut Column, name: Option<NameId>| {
            // Without a stack they are empty.
            let key = name.map_or(u32::MAX, |name| name.0);
            column.word(key, || name.map_or("", |name| profile.name(name)));
        };
        host.word(0, || profile.origin.hostname.as_str());
        at.number(&self.recorded_at.to_le_bytes());
        name.word(slot, || event.name.as_str());
        unit.word(slot, || unit_of(event));
        pid.number(&task.pid.to_le_bytes());
        tid.number(&task.tid.to_le_bytes());
        word(comm, Some(task.comm));
        samples.number(&signed(cell.samples).to_le_bytes());
        weight.number(&signed(cell.period).to_le_bytes());
        word(function, leaf.map(|leaf| leaf.name));
        word(module, dso.map(|dso| dso.short_name));
        let key = leaf.map_or(u32::MAX, |leaf| leaf.dso.0);
        id.word(key, || build_id().unwrap_or_default());
        self.rows += 1;
        self.bytes += ROW;
    }

    /// Adds the text of the row's stack.
    fn put_path(&mut self, profile: &'p Profile) {
        let Some(Column::Paths(paths)) = self.columns.last_mut() else {
            return;
        };
        let Path {
            functions, ends, ..
        } = &mut self.path;
        if paths.is_empty() {
            // No row stands before it in the page.
            ends.clear();
        }
        let names = &mut self.names;
        let shared = ends.last().copied().unwrap_or(0);
        paths.add(shared as u32, |out| {
            for &function in functions.iter().skip(ends.len()) {
                let Some(name) = names.get_mut(function.0 as usize) else {
                    return;
                };
                let name = name.get_or_insert_with(|| {
                    escape::folded(profile.name(profile.function(function).name))
                });
                let separator = if ends.is_empty() { "" } else { ";" };
                let end = ends.last().copied().unwrap_or(0) + separator.len() + name.len();
                if end > LONGEST {
                    return;
                }
                out.extend_from_slice(separator.as_bytes());
                out.extend_from_slice(name.as_bytes());
                ends.push(end);
            }
        });
        self.bytes += self.path.length();
    }

    /// Writes the rows that there are: a page of each column, behind one of its
    /// words, if it has such.
    fn group(&mut self) -> io::Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let fresh = COLUMNS.map(|(_, kind)| kind.column());
        let columns = std::mem::replace(&mut self.columns, fresh);
        let mut chunks = Vec::new();
        for column in columns {
            let (begins, mut unpacked) = (self.at, 0);
            if let Some((words, count)) = column.dictionary() {
                // PageHeader: 1 type (2: dictionary), 2 and 3 sizes, 7
                // dictionary_page_header: 1 num_values, 2 encoding (0: plain)
                unpacked += self.page(2, words, |head| {
                    head.structure(7, |page| {
                        page.int(1, count as i64);
                        page.int(2, 0);
                    });
                })?;
            }
            let (values, rows) = (self.at, self.rows as i64);
            let (bytes, encoding) = column.page();
            unpacked += self.page(0, &bytes, |head| {
                // 5 data_page_header: 1 num_values, 2 encoding, 3 and 4 of
                // levels (3: RLE)
                head.structure(5, |page| {
                    page.int(1, rows);
                    page.int(2, encoding as i64);
                    page.int(3, 3);
                    page.int(4, 3);
                });
            })?;
            chunks.push(Chunk {
                begins,
                values,
                encoding,
                packed: self.at - begins,
                unpacked,
            });
        }
        let rows = self.rows as i64;
        self.groups.push(Group { rows, chunks });
        (self.rows, self.bytes) = (0, 0);
        Ok(())
    }

    /// Writes a page of a type with what `about` adds to its header; its size,
    /// unpacked.
    fn page(
        &mut self,
        kind: i64,
        bytes: &[u8],
        about: impl FnOnce(&mut Compact),
    ) -> io::Result<i64> {
        let packed = self.packer.compress(bytes)?;
        let mut head = Compact::default();
        head.int(1, kind);
        head.int(2, bytes.len() as i64);
        head.int(3, packed.len() as i64);
        about(&mut head);
        head.end();
        self.raw(&head.bytes)?;
        self.raw(&packed)?;
        Ok((head.bytes.len() + bytes.len()) as i64)
    }

    /// FileMetaData, its length, and the mark.
    fn footer(&mut self) -> io::Result<()> {
        let mut footer = Compact::default();
        // 1 version, 2 schema, 3 num_rows, 4 row_groups, 6 created_by
        footer.int(1, 2);
        footer.list(2, COLUMNS.len() + 1, |list| {
            // SchemaElement: 4 name, 5 num_children
            list.text(4, "profile");
            list.int(5, COLUMNS.len() as i64);
            list.end();
            for (name, kind) in COLUMNS {
                list.column(name, kind);
            }
        });
        footer.long(3, self.groups.iter().map(|group| group.rows).sum());
        footer.list(4, self.groups.len(), |list| {
            for group in &self.groups {
                list.group(group);
            }
        });
        footer.text(6, concat!("prof ", env!("CARGO_PKG_VERSION")));
        footer.end();
        let length = u32::try_from(footer.bytes.len()).unwrap_or(u32::MAX);
        self.raw(&footer.bytes)?;
        self.raw(&length.to_le_bytes())?;
        self.raw(MAGIC)
    }
}

/// What stands in the footer.
impl Compact {
    /// SchemaElement: 1 type, 3 repetition_type (0: required), 4 name, 6
    /// converted_type (0: UTF8, 10: microseconds since 1970).
    fn column(&mut self, name: &str, kind: Kind) {
        self.int(1, kind.number());
        self.int(3, 0);
        self.text(4, name);
        match (name, kind) {
            ("recorded_at", _) => self.int(6, 10),
            (_, Kind::Word | Kind::Stack) => self.int(6, 0),
            _ => {}
        }
        self.end();
    }

    /// RowGroup: 1 columns, 2 total_byte_size, 3 num_rows.
    fn group(&mut self, group: &Group) {
        self.list(1, group.chunks.len(), |list| {
            for (chunk, (name, kind)) in group.chunks.iter().zip(COLUMNS) {
                // ColumnChunk: 2 file_offset, 3 meta_data
                list.long(2, chunk.begins);
                list.structure(3, |data| data.chunk(chunk, (name, kind), group.rows));
                list.end();
            }
        });
        self.long(2, group.chunks.iter().map(|chunk| chunk.unpacked).sum());
        self.long(3, group.rows);
        self.end();
    }

    /// ColumnMetaData: 1 type, 2 encodings, 3 path_in_schema, 4 codec (6:
    /// zstd), 5 num_values, 6 and 7 sizes, 9 data_page_offset, 11
    /// dictionary_page_offset.
    fn chunk(&mut self, chunk: &Chunk, (name, kind): (&str, Kind), rows: i64) {
        self.int(1, kind.number());
        self.field(2, LIST);
        let has_words = chunk.values > chunk.begins;
        let words = has_words.then_some(Encoding::Plain);
        self.list_head(1 + usize::from(has_words), I32);
        for encoding in words.into_iter().chain([chunk.encoding]) {
            self.zigzag(encoding as i64);
        }
        self.field(3, LIST);
        self.list_head(1, BINARY);
        self.plain_text(name);
        self.int(4, 6);
        self.long(5, rows);
        self.long(6, chunk.unpacked);
        self.long(7, chunk.packed);
        self.long(9, chunk.values);
        if has_words {
            self.long(11, chunk.begins);
        }
    }
}

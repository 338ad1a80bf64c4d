//! Apache Parquet: a table for SQL, a row for each stack, thread and event.
//!
//! Written here and not by the crate `parquet`, which takes a minute of CPU to
//! compile: what is needed of the format is plain columns, a page each in a
//! group of rows, packed with zstd.
//!
//! Source: `parquet.thrift` and README of apache/parquet-format; Thrift's
//! "compact protocol" for its headers. Numbers of fields stand beside their
//! use.

use crate::ExportError;
use crate::choice::{Cell, Chosen};
use crate::pprof::unit_of;
use crate::protobuf::signed;
use prof_profile::StackId;
use prof_report::escape;
use std::io::{self, Write};

const MAGIC: &[u8; 4] = b"PAR1";
/// Bytes of a group of rows, unpacked, from which on it is written.
const GROUP: usize = 32 << 20;
/// As the tool's default.
const LEVEL: i32 = 3;

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Int32 = 1,
    Int64 = 2,
    Text = 6,
}

/// The columns; `docs/exports.md` describes them.
const COLUMNS: [(&str, Kind); 13] = [
    ("host", Kind::Text),
    ("recorded_at", Kind::Int64),
    ("event", Kind::Text),
    ("unit", Kind::Text),
    ("pid", Kind::Int32),
    ("tid", Kind::Int32),
    ("comm", Kind::Text),
    ("samples", Kind::Int64),
    ("weight", Kind::Int64),
    ("function", Kind::Text),
    ("module", Kind::Text),
    ("build_id", Kind::Text),
    ("stack", Kind::Text),
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
        columns: COLUMNS.map(|_| Vec::new()),
        rows: 0,
        groups: Vec::new(),
        // Microseconds.
        recorded_at: chosen.wall_clock(first).unwrap_or(0) / 1000,
    };
    table.raw(MAGIC)?;
    let written: io::Result<()> = chosen.by_stack(|stack, cells| {
        table.stack(chosen, stack, cells);
        match table.columns.iter().map(Vec::len).sum::<usize>() > GROUP {
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
    offset: i64,
    packed: i64,
    unpacked: i64,
}

struct Table<'o> {
    out: &'o mut dyn Write,
    /// Bytes written.
    at: i64,
    /// Values of the rows that are not written yet, as the format has them.
    columns: [Vec<u8>; COLUMNS.len()],
    rows: i64,
    groups: Vec<Group>,
    recorded_at: u64,
}

/// A value of a column.
enum Value<'t> {
    Int32(i32),
    Int64(u64),
    Text(&'t str),
}

impl Table<'_> {
    fn raw(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.at += bytes.len() as i64;
        self.out.write_all(bytes)
    }

    /// Adds the rows of a stack.
    fn stack(&mut self, chosen: &Chosen<'_>, stack: StackId, cells: &[Cell]) {
        let profile = chosen.profile;
        let locations: Vec<_> = profile.stacks.locations(stack).collect();
        let frames = locations.iter().flat_map(|&id| profile.frames_at(id));
        let functions: Vec<_> = frames
            .map(|frame| profile.function(frame.function))
            .collect();
        let names = functions
            .iter()
            .rev()
            .map(|it| escape::folded(profile.name(it.name)));
        let names: Vec<_> = names.collect();
        let folded = names.join(";");
        let leaf = functions.first();
        let dso = leaf.map(|function| profile.dso(function.dso));
        let build_id = dso.and_then(|dso| dso.build_id.as_ref().map(ToString::to_string));
        for cell in cells {
            let id = chosen.events.get(cell.slot);
            let Some(event) = id.and_then(|id| profile.events.get(usize::from(id.0))) else {
                continue;
            };
            let task = profile.task(cell.task);
            self.row([
                Value::Text(&profile.origin.hostname),
                Value::Int64(self.recorded_at),
                Value::Text(&event.name),
                Value::Text(unit_of(event)),
                Value::Int32(task.pid),
                Value::Int32(task.tid),
                Value::Text(profile.name(task.comm)),
                Value::Int64(cell.samples),
                Value::Int64(cell.period),
                Value::Text(leaf.map_or("", |leaf| profile.name(leaf.name))),
                Value::Text(dso.map_or("", |dso| profile.name(dso.short_name))),
                Value::Text(build_id.as_deref().unwrap_or_default()),
                Value::Text(&folded),
            ]);
        }
    }

    /// Adds a row: numbers of little-endian bytes, texts behind their length.
    fn row(&mut self, values: [Value<'_>; COLUMNS.len()]) {
        for (column, value) in self.columns.iter_mut().zip(values) {
            match value {
                Value::Int32(number) => column.extend(number.to_le_bytes()),
                Value::Int64(number) => column.extend(signed(number).to_le_bytes()),
                Value::Text(text) => {
                    let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
                    column.extend(length.to_le_bytes());
                    column.extend(text.bytes().take(length as usize));
                }
            }
        }
        self.rows += 1;
    }

    /// Writes the rows that there are: a page of each column.
    fn group(&mut self) -> io::Result<()> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut chunks = Vec::new();
        for column in std::mem::replace(&mut self.columns, COLUMNS.map(|_| Vec::new())) {
            let packed = zstd::bulk::compress(&column, LEVEL)?;
            let mut head = Compact::default();
            // PageHeader: 1 type (0: data), 2 and 3 sizes, 5 data_page_header
            head.int(1, 0);
            head.int(2, column.len() as i64);
            head.int(3, packed.len() as i64);
            let rows = self.rows;
            head.structure(5, |page| {
                // 1 num_values, 2 encoding (0: plain), 3 and 4 of levels (3: RLE)
                page.int(1, rows);
                page.int(2, 0);
                page.int(3, 3);
                page.int(4, 3);
            });
            head.end();
            chunks.push(Chunk {
                offset: self.at,
                packed: (head.bytes.len() + packed.len()) as i64,
                unpacked: (head.bytes.len() + column.len()) as i64,
            });
            self.raw(&head.bytes)?;
            self.raw(&packed)?;
        }
        self.groups.push(Group {
            rows: self.rows,
            chunks,
        });
        self.rows = 0;
        Ok(())
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

/// Thrift's compact protocol.
#[derive(Default)]
struct Compact {
    bytes: Vec<u8>,
    /// The number of the last field of the structure that is open.
    last: u8,
}

/// Types of fields.
const I32: u8 = 5;
const I64: u8 = 6;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const STRUCT: u8 = 12;

impl Compact {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    fn zigzag(&mut self, value: i64) {
        self.varint((value << 1 ^ value >> 63) as u64);
    }

    /// The head of a field; fields come in the order of their numbers.
    fn field(&mut self, number: u8, kind: u8) {
        self.bytes.push((number - self.last) << 4 | kind);
        self.last = number;
    }

    fn int(&mut self, number: u8, value: i64) {
        self.field(number, I32);
        self.zigzag(value);
    }

    fn long(&mut self, number: u8, value: i64) {
        self.field(number, I64);
        self.zigzag(value);
    }

    fn plain_text(&mut self, text: &str) {
        self.varint(text.len() as u64);
        self.bytes.extend_from_slice(text.as_bytes());
    }

    fn text(&mut self, number: u8, text: &str) {
        self.field(number, BINARY);
        self.plain_text(text);
    }

    fn end(&mut self) {
        self.bytes.push(0);
        self.last = 0;
    }

    fn structure(&mut self, number: u8, fill: impl FnOnce(&mut Self)) {
        self.field(number, STRUCT);
        self.last = 0;
        fill(self);
        self.end();
        self.last = number;
    }

    /// A list of structures, each of which `fill` ends.
    fn list(&mut self, number: u8, length: usize, fill: impl FnOnce(&mut Self)) {
        self.field(number, LIST);
        self.list_head(length, STRUCT);
        self.last = 0;
        fill(self);
        self.last = number;
    }

    fn list_head(&mut self, length: usize, kind: u8) {
        if length < 15 {
            self.bytes.push((length as u8) << 4 | kind);
        } else {
            self.bytes.push(0xf0 | kind);
            self.varint(length as u64);
        }
    }

    /// SchemaElement: 1 type, 3 repetition_type (0: required), 4 name, 6
    /// converted_type (0: UTF8, 10: microseconds since 1970).
    fn column(&mut self, name: &str, kind: Kind) {
        self.int(1, kind as i64);
        self.int(3, 0);
        self.text(4, name);
        match (name, kind) {
            ("recorded_at", _) => self.int(6, 10),
            (_, Kind::Text) => self.int(6, 0),
            _ => {}
        }
        self.end();
    }

    /// RowGroup: 1 columns, 2 total_byte_size, 3 num_rows.
    fn group(&mut self, group: &Group) {
        self.list(1, group.chunks.len(), |list| {
            for (chunk, (name, kind)) in group.chunks.iter().zip(COLUMNS) {
                // ColumnChunk: 2 file_offset, 3 meta_data
                list.long(2, chunk.offset);
                list.structure(3, |data| data.chunk(chunk, name, kind, group.rows));
                list.end();
            }
        });
        self.long(2, group.chunks.iter().map(|chunk| chunk.unpacked).sum());
        self.long(3, group.rows);
        self.end();
    }

    /// ColumnMetaData: 1 type, 2 encodings, 3 path_in_schema, 4 codec (6:
    /// zstd), 5 num_values, 6 and 7 sizes, 9 data_page_offset.
    fn chunk(&mut self, chunk: &Chunk, name: &str, kind: Kind, rows: i64) {
        self.int(1, kind as i64);
        self.field(2, LIST);
        self.list_head(1, I32);
        self.zigzag(0);
        self.field(3, LIST);
        self.list_head(1, BINARY);
        self.plain_text(name);
        self.int(4, 6);
        self.long(5, rows);
        self.long(6, chunk.unpacked);
        self.long(7, chunk.packed);
        self.long(9, chunk.offset);
    }
}

#[cfg(test)]
mod tests {
    use super::Compact;

    #[test]
    fn fields_are_laid_out_as_thrift_does() {
        let mut message = Compact::default();
        message.int(1, -2);
        message.structure(4, |inner| inner.long(1, 300));
        message.text(6, "ab");
        message.end();
        assert_eq!(message.bytes, b"\x15\x03\x3c\x16\xd8\x04\x00\x28\x02ab\x00");
    }
}

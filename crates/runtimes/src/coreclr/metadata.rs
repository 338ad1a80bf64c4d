//! Names of methods, from the metadata of the module that they are in.
//!
//! Rows of a table are all of one size, which depends on how many rows the tables have
//! that its columns lead to. Source: ECMA-335, II.22 to II.25.

use crate::memory::{Memory, bytes, int, text, word};

const TYPE_DEF: usize = 2;
const METHOD_DEF: usize = 6;
const NESTED_CLASS: usize = 41;
/// Tables up to the last one that is needed.
const TABLES: usize = NESTED_CLASS + 1;
/// Sections of an image, and streams of metadata, that are looked at.
const MAX_SECTIONS: u64 = 96;
const MAX_STREAMS: u64 = 16;
/// Types within types.
const MAX_NESTED: usize = 16;
const SIGNATURE: u32 = 0x424a_5342;
/// Bytes of a section's header.
const SECTION: u64 = 40;

/// A column.
#[derive(Debug, Clone, Copy)]
enum Column {
    Bytes(u64),
    /// Offsets into the heaps.
    Text,
    Guid,
    Blob,
    /// A row of one table.
    Row(usize),
    /// A row of one of several, which so many bits tell.
    OneOf(u32, &'static [usize]),
}

use Column::{Blob, Bytes, Guid, OneOf, Row, Text};

const TYPE: Column = OneOf(2, &[2, 1, 27]);
const CONSTANT: Column = OneOf(2, &[4, 8, 23]);
const ATTRIBUTED: Column = OneOf(
    5,
    &[
        6, 4, 1, 2, 8, 9, 10, 0, 14, 23, 20, 17, 26, 27, 32, 35, 38, 39, 40, 42, 44, 43,
    ],
);
const FIELD_OR_PARAM: Column = OneOf(1, &[4, 8]);
const SECURED: Column = OneOf(2, &[2, 6, 32]);
const MEMBER_OF: Column = OneOf(3, &[2, 1, 26, 6, 27]);
const SEMANTICS: Column = OneOf(1, &[20, 23]);
const METHOD: Column = OneOf(1, &[6, 10]);
const FORWARDED: Column = OneOf(1, &[4, 6]);
const IMPLEMENTATION: Column = OneOf(2, &[38, 35, 39]);
const CONSTRUCTOR: Column = OneOf(3, &[6, 10]);
const SCOPE: Column = OneOf(2, &[0, 26, 35, 1]);

/// The columns of each table.
const COLUMNS: [&[Column]; TABLES] = [
    &[Bytes(2), Text, Guid, Guid, Guid],
    &[SCOPE, Text, Text],
    &[Bytes(4), Text, Text, TYPE, Row(4), Row(6)],
    &[Row(4)],
    &[Bytes(2), Text, Blob],
    &[Row(6)],
    &[Bytes(8), Text, Blob, Row(8)],
    &[Row(8)],
    &[Bytes(4), Text],
    &[Row(2), TYPE],
    &[MEMBER_OF, Text, Blob],
    &[Bytes(2), CONSTANT, Blob],
    &[ATTRIBUTED, CONSTRUCTOR, Blob],
    &[FIELD_OR_PARAM, Blob],
    &[Bytes(2), SECURED, Blob],
    &[Bytes(6), Row(2)],
    &[Bytes(4), Row(4)],
    &[Blob],
    &[Row(2), Row(20)],
    &[Row(20)],
    &[Bytes(2), Text, TYPE],
    &[Row(2), Row(23)],
    &[Row(23)],
    &[Bytes(2), Text, Blob],
    &[Bytes(2), Row(6), SEMANTICS],
    &[Row(2), METHOD, METHOD],
    &[Text],
    &[Blob],
    &[Bytes(2), FORWARDED, Text, Row(26)],
    &[Bytes(4), Row(4)],
    &[Bytes(8)],
    &[Bytes(4)],
    &[Bytes(16), Blob, Text, Text],
    &[Bytes(4)],
    &[Bytes(12)],
    &[Bytes(12), Blob, Text, Text, Blob],
    &[Bytes(4), Row(35)],
    &[Bytes(12), Row(35)],
    &[Bytes(4), Text, Blob],
    &[Bytes(8), Text, Text, IMPLEMENTATION],
    &[Bytes(8), Text, IMPLEMENTATION],
    &[Row(2), Row(2)],
];

/// The tables of one module, and where they are in the process.
#[derive(Debug)]
pub(super) struct Metadata {
    texts: u64,
    /// Rows of all tables that there may be.
    rows: [u32; 64],
    /// What tells how wide offsets into the heaps are.
    heaps: u8,
    /// Where each table begins, and the size of its rows.
    tables: [(u64, u64); TABLES],
}

impl Metadata {
    /// Of the image at `base`, as its sections are laid out when it runs or, if not
    /// `is_mapped`, in its file.
    pub(super) fn read(base: u64, is_mapped: bool, memory: &mut impl Memory) -> Option<Self> {
        let head = base.checked_add(int(memory, base.checked_add(0x3c)?)?.into())?;
        let options = head.checked_add(24)?;
        let sections = short(memory, head.checked_add(6)?)?;
        let length = short(memory, head.checked_add(20)?)?;
        let place = |rva: u64, memory: &mut _| match is_mapped {
            true => base.checked_add(rva),
            false => {
                let first = options.checked_add(length.into())?;
                in_file(rva, (first, sections.into()), memory).and_then(|at| base.checked_add(at))
            }
        };
        // Images of 32 bits are those that run everywhere.
        let directories = match short(memory, options)? {
            0x10b => 96,
            _ => 112,
        };
        let about = options.checked_add(directories + 14 * 8)?;
        let about = place(int(memory, about)?.into(), memory)?;
        let root = int(memory, about.checked_add(8)?)?;
        let root = place(root.into(), memory)?;
        if int(memory, root)? != SIGNATURE {
            return None;
        }
        let (tables, texts) = streams(root, memory)?;
        Self::of(tables, texts, memory)
    }

    pub(super) fn of(tables: u64, texts: u64, memory: &mut impl Memory) -> Option<Self> {
        let [heaps] = bytes(memory, tables.checked_add(6)?)?;
        let valid = word(memory, tables.checked_add(8)?)?;
        let mut at = tables.checked_add(24)?;
        let mut rows = [0; 64];
        for (number, rows) in rows.iter_mut().enumerate() {
            if valid >> number & 1 == 1 {
                *rows = int(memory, at)?;
                at = at.checked_add(4)?;
            }
        }
        let mut found = Self {
            texts,
            rows,
            heaps,
            tables: [(0, 0); TABLES],
        };
        for (number, columns) in COLUMNS.iter().enumerate() {
            let size = columns.iter().map(|&column| found.width(column)).sum();
            *found.tables.get_mut(number)? = (at, size);
            at = at.checked_add(u64::from(found.count(number)).checked_mul(size)?)?;
        }
        Some(found)
    }

    fn count(&self, table: usize) -> u32 {
        self.rows.get(table).copied().unwrap_or(0)
    }

    /// Bytes of a column.
    fn width(&self, column: Column) -> u64 {
        let wide = |is_wide: bool| if is_wide { 4 } else { 2 };
        match column {
            Bytes(count) => count,
            Text => wide(self.heaps & 1 != 0),
            Guid => wide(self.heaps & 2 != 0),
            Blob => wide(self.heaps & 4 != 0),
            Row(table) => wide(self.count(table) > 0xffff),
            OneOf(bits, tables) => {
                let most = tables.iter().map(|&table| self.count(table)).max();
                wide(most.unwrap_or(0) > 0xffff >> bits)
            }
        }
    }

    /// What a row of a table has in a column; rows count from 1.
    fn value(
        &self,
        (table, row): (usize, u32),
        column: usize,
        memory: &mut impl Memory,
    ) -> Option<u32> {
        let &(start, size) = self.tables.get(table)?;
        let columns = COLUMNS.get(table)?;
        let before = columns.get(..column)?.iter();
        let offset: u64 = before.map(|&column| self.width(column)).sum();
        let index = u64::from(row.checked_sub(1)?);
        if row > self.count(table) {
            return None;
        }
        let at = start.checked_add(index * size)?.checked_add(offset)?;
        match self.width(*columns.get(column)?) {
            4 => int(memory, at),
            _ => short(memory, at).map(u32::from),
        }
    }

    fn text(&self, at: u32, memory: &mut impl Memory) -> Option<String> {
        text(memory, self.texts.checked_add(at.into())?)
    }

    /// Type and name of a method, by its row.
    pub(super) fn method(&self, row: u32, memory: &mut impl Memory) -> Option<String> {
        let name = self.value((METHOD_DEF, row), 1, memory)?;
        let name = self.text(name, memory)?;
        // The last type whose methods begin at it or before.
        let after = self.first(
            TYPE_DEF,
            |it, memory| Some(self.value((TYPE_DEF, it), 5, memory)? > row),
            memory,
        )?;
        let mut kind = after.checked_sub(1).filter(|&kind| kind > 0)?;
        let mut full = String::new();
        for _ in 0..MAX_NESTED {
            let of = self.value((TYPE_DEF, kind), 1, memory)?;
            let of = self.text(of, memory)?;
            let space = self.value((TYPE_DEF, kind), 2, memory)?;
            let space = self.text(space, memory)?;
            let within = if full.is_empty() { "" } else { "+" };
            let dot = if space.is_empty() { "" } else { "." };
            full = format!("{space}{dot}{of}{within}{full}");
            match self.outer(kind, memory) {
                Some(outer) => kind = outer,
                None => return Some(format!("{full}.{name}")),
            }
        }
        None
    }

    /// The type that a type is declared in.
    fn outer(&self, kind: u32, memory: &mut impl Memory) -> Option<u32> {
        let row = self.first(
            NESTED_CLASS,
            |it, memory| Some(self.value((NESTED_CLASS, it), 0, memory)? >= kind),
            memory,
        )?;
        let found = self.value((NESTED_CLASS, row), 0, memory)?;
        (found == kind).then(|| self.value((NESTED_CLASS, row), 1, memory))?
    }

    /// The first row of a table for which `is_behind`, as it is for all after that; one
    /// more than there are if it is for none.
    fn first<M: Memory>(
        &self,
        table: usize,
        is_behind: impl Fn(u32, &mut M) -> Option<bool>,
        memory: &mut M,
    ) -> Option<u32> {
        let (mut low, mut high) = (1, self.count(table).checked_add(1)?);
        while low < high {
            let middle = low + (high - low) / 2;
            match is_behind(middle, memory)? {
                true => high = middle,
                false => low = middle + 1,
            }
        }
        Some(low)
    }
}

/// Where the streams of tables and of texts begin.
fn streams(root: u64, memory: &mut impl Memory) -> Option<(u64, u64)> {
    let version = int(memory, root.checked_add(12)?)?;
    let mut at = root.checked_add(16)?.checked_add(version.into())?;
    let count = short(memory, at.checked_add(2)?)?;
    at = at.checked_add(4)?;
    let (mut tables, mut texts) = (None, None);
    for _ in 0..u64::from(count).min(MAX_STREAMS) {
        let start = root.checked_add(int(memory, at)?.into())?;
        let name = text(memory, at.checked_add(8)?)?;
        match name.as_str() {
            "#~" => tables = Some(start),
            "#Strings" => texts = Some(start),
            _ => {}
        }
        // The name ends with a NUL, and is padded to words.
        let length = (name.len() as u64 + 1).next_multiple_of(4);
        at = at.checked_add(8 + length)?;
    }
    Some((tables?, texts?))
}

/// Where a file has what is `rva` bytes behind the image's start when it runs.
fn in_file(rva: u64, (first, count): (u64, u64), memory: &mut impl Memory) -> Option<u64> {
    for number in 0..count.min(MAX_SECTIONS) {
        let at = first.checked_add(number * SECTION)?;
        let mut field = |offset: u64| Some(u64::from(int(memory, at.checked_add(offset)?)?));
        let (size, start, in_file, from) = (field(8)?, field(12)?, field(16)?, field(20)?);
        if let Some(offset) = rva.checked_sub(start).filter(|&it| it < size.max(in_file)) {
            return Some(from + offset);
        }
    }
    None
}

fn short(memory: &mut impl Memory, at: u64) -> Option<u16> {
    bytes(memory, at).map(u16::from_le_bytes)
}

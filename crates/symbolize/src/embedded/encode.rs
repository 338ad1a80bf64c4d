//! Notes to bytes; the layout is described in the parent.

use super::notes::{Extent, Noted, Notes, Packed, PartNotes, TimeLimit};
use super::part::PartKey;
use super::reasons;
use super::wire::{put, put_bytes};
use crate::{LineRow, Lookup, SourceFrame, Symbol};
use prof_abi::BuildId;
use prof_profile::{Redaction, UnnamedReason};
use std::collections::{BTreeMap, HashMap};
use std::sync::PoisonError;
use std::time::Instant;

/// What the bytes begin with.
pub(super) const MARK: &[u8; 8] = b"PROFSYM1";
/// Fast, and names pack well at any.
const LEVEL: i32 = 6;
/// Where somebody waits: 4 times as fast, some 15 % more bytes.
const FAST: i32 = 1;

/// Texts and functions, each once.
#[derive(Default)]
struct Tables<'r> {
    redaction: Option<&'r Redaction>,
    texts: HashMap<String, u64>,
    text_bytes: Vec<u8>,
    functions: HashMap<(u64, u64, u32), u64>,
    function_bytes: Vec<u8>,
}

impl Tables<'_> {
    fn text(&mut self, text: &str) -> u64 {
        if let Some(&known) = self.texts.get(text) {
            return known;
        }
        let number = self.texts.len() as u64;
        self.texts.insert(text.to_owned(), number);
        put_bytes(&mut self.text_bytes, text.as_bytes());
        number
    }

    /// A text that may hold paths.
    fn words(&mut self, text: &str) -> u64 {
        match self.redaction {
            Some(redaction) => self.text(&redaction.words(text)),
            None => self.text(text),
        }
    }

    fn path(&mut self, path: &str) -> u64 {
        match self.redaction {
            Some(redaction) => self.text(&redaction.path(path)),
            None => self.text(path),
        }
    }

    fn optional_path(&mut self, path: Option<&str>) -> u64 {
        path.map_or(0, |path| self.path(path) + 1)
    }

    fn function(&mut self, frame: &SourceFrame) -> u64 {
        let name = self.words(&frame.name);
        let (file, line) = match &frame.defined_at {
            Some((file, line)) => (self.path(file) + 1, *line),
            None => (0, 0),
        };
        let next = self.functions.len() as u64;
        if let Some(&known) = self.functions.get(&(name, file, line)) {
            return known;
        }
        self.functions.insert((name, file, line), next);
        let out = &mut self.function_bytes;
        put(out, name);
        put(out, file);
        put(out, line.into());
        next
    }
}

impl Notes {
    /// Packs the notes into at most `most` bytes: all of them, else without
    /// code, else without lines, else nothing. `until` is when packing is to
    /// end: what is not packed by then is left out.
    pub fn encode(&self, most: u64, until: Option<Instant>) -> Option<Packed> {
        let parts: Vec<(PartKey, PartNotes)> = {
            let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
            let shared = parts.iter();
            shared
                .map(|(key, part)| (key.clone(), part.clone()))
                .collect()
        };
        let sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        let extents = [Extent::All, Extent::WithoutCode, Extent::Names];
        extents.into_iter().find_map(|extent| {
            // Where all is too large, the next try has time, too.
            let limit = TimeLimit::half_of(until);
            let notes = (parts.as_slice(), &*sources);
            let packed = encode(notes, extent, self.redaction.as_deref(), limit)?;
            (packed.bytes.len() as u64 <= most).then_some(packed)
        })
    }
}

/// Packs the notes on parts and the texts of sources until the time is over;
/// `None` if that fails for want of memory.
fn encode(
    (parts, sources): (&[(PartKey, PartNotes)], &BTreeMap<String, String>),
    extent: Extent,
    redaction: Option<&Redaction>,
    mut limit: TimeLimit,
) -> Option<Packed> {
    let mut tables = Tables {
        redaction,
        ..Tables::default()
    };
    let mut source_bytes = Vec::new();
    let sources: Vec<_> = match extent {
        Extent::All => sources.iter().collect(),
        _ => Vec::new(),
    };
    put(&mut source_bytes, sources.len() as u64);
    for (path, text) in sources {
        put(&mut source_bytes, tables.path(path));
        put_bytes(&mut source_bytes, text.as_bytes());
    }
    let (mut body, mut count) = (Vec::new(), 0);
    for (key, part) in parts {
        if limit.is_over() {
            break;
        }
        // Who looks on while this is packed waits for a moment.
        let noted = part.lock();
        put_part(&mut body, &mut tables, (key, &noted), (extent, &mut limit));
        count += 1;
    }
    let mut whole = Vec::new();
    put(&mut whole, tables.texts.len() as u64);
    whole.append(&mut tables.text_bytes);
    put(&mut whole, tables.functions.len() as u64);
    whole.append(&mut tables.function_bytes);
    whole.append(&mut source_bytes);
    put(&mut whole, count);
    whole.append(&mut body);
    let level = if limit.is_set() { FAST } else { LEVEL };
    let packed = zstd::bulk::compress(&whole, level).ok()?;
    let mut bytes = MARK.to_vec();
    bytes.extend((whole.len() as u64).to_le_bytes());
    bytes.extend(packed);
    Some(Packed {
        bytes,
        extent,
        is_whole: !limit.was_over(),
    })
}

/// Instructions, and the lines that they are of.
fn put_code(out: &mut Vec<u8>, tables: &mut Tables, noted: &Noted) {
    put(out, noted.code.len() as u64);
    for (&start, bytes) in &noted.code {
        put(out, start);
        put_bytes(out, bytes);
    }
    put(out, noted.rows.len() as u64);
    for (&(start, end), rows) in &noted.rows {
        put(out, start);
        put(out, end);
        put_rows(out, tables, start, rows);
    }
}

fn put_part(
    out: &mut Vec<u8>,
    tables: &mut Tables<'_>,
    (key, noted): (&PartKey, &Noted),
    (extent, limit): (Extent, &mut TimeLimit),
) {
    put_key(out, tables, key);
    match &noted.refusal {
        Some((reason, detail)) => {
            put(out, reasons::number_of(*reason));
            put(out, tables.words(detail));
        }
        None => put(out, 0),
    }
    let flags = u64::from(noted.is_64_bit)
        | u64::from(noted.has_lines) << 1
        | u64::from(noted.from.is_some()) << 2;
    put(out, flags);
    put(out, tables.path(noted.from.as_deref().unwrap_or_default()));
    put(out, noted.pieces.len() as u64);
    for piece in &noted.pieces {
        put(out, piece.offset);
        put(out, piece.svma);
        put(out, piece.size);
    }
    let mut answers = PartAnswers::default();
    answers.add_all(tables, noted, (extent, limit));
    answers.put(out);
    match extent {
        Extent::All if !limit.is_over() => put_code(out, tables, noted),
        // No code and no rows of lines.
        _ => (0..2).for_each(|_| put(out, 0)),
    }
    put(out, noted.refused.len() as u64);
    for (&fault, lines) in &noted.refused {
        put(out, reasons::number_of_fault(fault));
        put(out, lines.count);
        put(out, lines.first);
    }
}

fn put_key(out: &mut Vec<u8>, tables: &mut Tables<'_>, key: &PartKey) {
    let (kind, name, id) = match key {
        PartKey::File(path, id) => (0, path.clone(), *id),
        PartKey::Vdso(path, id) => (1, path.clone(), *id),
        PartKey::Kernel(release, id) => (2, release.clone(), *id),
        PartKey::RunTime(pid) => (3, pid.to_string(), None),
    };
    put(out, kind);
    put(out, tables.path(&name));
    put_bytes(out, id.as_ref().map_or(&[], BuildId::as_bytes));
}

fn put_rows(out: &mut Vec<u8>, tables: &mut Tables<'_>, start: u64, rows: &[LineRow]) {
    put(out, rows.len() as u64);
    let mut before = start;
    for row in rows {
        put(out, row.address.0.wrapping_sub(before));
        before = row.address.0;
        put(out, tables.optional_path(row.file.as_deref()));
        put(out, row.line.into());
    }
}

/// A frame in numbers: function, file, line, and the caller's number + 1.
type FrameKey = (u64, u64, u32, u64);

/// The answers of one part, its symbols and frames each once.
#[derive(Default)]
struct PartAnswers {
    symbols: HashMap<(u64, u64, u64), u64>,
    symbol_bytes: Vec<u8>,
    frames: HashMap<FrameKey, u64>,
    frame_bytes: Vec<u8>,
    answers: Vec<u8>,
    answer_count: u64,
    names: Vec<u8>,
    name_count: u64,
}

impl PartAnswers {
    /// Adds answers until the time is over.
    fn add_all(
        &mut self,
        tables: &mut Tables<'_>,
        noted: &Noted,
        (extent, limit): (Extent, &mut TimeLimit),
    ) {
        let sorted = |answers: &HashMap<u64, Lookup>| {
            let mut addresses: Vec<u64> = answers.keys().copied().collect();
            addresses.sort_unstable();
            addresses
        };
        let with_lines = extent != Extent::Names;
        let mut before = 0;
        for address in sorted(&noted.answers) {
            if limit.is_over() {
                return;
            }
            let Some(lookup) = noted.answers.get(&address) else {
                continue;
            };
            let mut out = std::mem::take(&mut self.answers);
            put(&mut out, address - before);
            match &lookup.symbol {
                Some(symbol) => {
                    put(&mut out, self.symbol(tables, symbol) + 1);
                    put(&mut out, self.frame(tables, &lookup.frames, with_lines));
                }
                None => put_unnamed(&mut out, lookup),
            }
            self.answers = out;
            self.answer_count += 1;
            before = address;
        }
        before = 0;
        for address in sorted(&noted.names) {
            if limit.is_over() {
                return;
            }
            // What is known with lines is known.
            let (Some(lookup), None) = (noted.names.get(&address), noted.answers.get(&address))
            else {
                continue;
            };
            let mut out = std::mem::take(&mut self.names);
            put(&mut out, address - before);
            match &lookup.symbol {
                Some(symbol) => put(&mut out, self.symbol(tables, symbol) + 1),
                None => put_unnamed(&mut out, lookup),
            }
            self.names = out;
            self.name_count += 1;
            before = address;
        }
    }

    fn symbol(&mut self, tables: &mut Tables<'_>, symbol: &Symbol) -> u64 {
        let key = (tables.words(&symbol.name), symbol.start.0, symbol.size);
        let next = self.symbols.len() as u64;
        if let Some(&known) = self.symbols.get(&key) {
            return known;
        }
        self.symbols.insert(key, next);
        put(&mut self.symbol_bytes, key.0);
        put(&mut self.symbol_bytes, key.1);
        put(&mut self.symbol_bytes, key.2);
        next
    }

    /// The number of the innermost of these frames.
    fn frame(&mut self, tables: &mut Tables<'_>, frames: &[SourceFrame], with_lines: bool) -> u64 {
        let mut caller = 0;
        let outermost = frames.len().saturating_sub(1);
        let skipped = if with_lines { 0 } else { outermost };
        for frame in frames.get(skipped..).unwrap_or_default().iter().rev() {
            let function = tables.function(frame);
            let file = frame.file.as_deref().filter(|_| with_lines);
            let file = tables.optional_path(file);
            let line = if with_lines { frame.line } else { 0 };
            let key = (function, file, line, caller);
            let next = self.frames.len() as u64;
            let number = *self.frames.entry(key).or_insert(next);
            if number == next {
                let out = &mut self.frame_bytes;
                put(out, function);
                put(out, file);
                put(out, line.into());
                // How far before this one, so that it is a small number.
                put(out, if caller == 0 { 0 } else { next - (caller - 1) });
            }
            caller = number + 1;
        }
        caller.saturating_sub(1)
    }

    fn put(&self, out: &mut Vec<u8>) {
        let lists = [
            (self.symbols.len() as u64, &self.symbol_bytes),
            (self.frames.len() as u64, &self.frame_bytes),
            (self.answer_count, &self.answers),
            (self.name_count, &self.names),
        ];
        for (count, bytes) in lists {
            put(out, count);
            out.extend_from_slice(bytes);
        }
    }
}

fn put_unnamed(out: &mut Vec<u8>, lookup: &Lookup) {
    put(out, 0);
    let reason = lookup.reason.unwrap_or(UnnamedReason::NoSymbolThere);
    put(out, reasons::number_of(reason));
    match lookup.extent {
        Some((start, size)) => {
            put(out, 1);
            put(out, start.0);
            put(out, size);
        }
        None => put(out, 0),
    }
}

//! An ELF file of one piece of code, laid out as perf inject -j does:
//!
//! ```text
//! 0x00  ELF header, one program header (PT_LOAD of what is mapped)
//! 0x80  .text: the code, padded to 8; .eh_frame, .eh_frame_hdr
//!       .symtab, .strtab, .shstrtab, .note.gnu.build-id
//!       section headers
//! ```
//!
//! Source: `tools/perf/util/genelf.c` of Linux.

use prof_symbolize::JitCode;
use std::hash::Hasher;

/// Where the code begins, bytes from the start of the file, and its address.
pub(crate) const TEXT: u64 = 0x80;
const SHT_PROGBITS: u32 = 1;
const SHT_SYMTAB: u32 = 2;
const SHT_STRTAB: u32 = 3;
const SHT_NOTE: u32 = 7;
const ALLOC: u64 = 2;
const EXECUTED: u64 = 4;

/// Bytes that are mapped from [`TEXT`] on: the code, and behind it, from the
/// next multiple of 8, what of its unwind information is in memory, too. V8
/// has none there where the information tells of no frames.
pub(crate) fn mapped_size(code: &JitCode<'_>) -> u64 {
    let size = code.bytes.len() as u64;
    match code.unwinding {
        Some(how) if how.mapped_size > 0 => size.next_multiple_of(8) + how.mapped_size,
        _ => size,
    }
}

/// One section: its name, type, flags, where it starts and how long it is.
struct Section {
    name: &'static str,
    kind: u32,
    flags: u64,
    at: usize,
    size: usize,
    /// For a symbol table: its strings' section and its first global symbol.
    link: (u32, u32),
    /// Bytes of an entry, 0 for none.
    entry: u64,
}

struct Image {
    bytes: Vec<u8>,
    sections: Vec<Section>,
}

impl Image {
    fn u16(&mut self, value: u16) {
        self.bytes.extend(value.to_ne_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.bytes.extend(value.to_ne_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.bytes.extend(value.to_ne_bytes());
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
    }

    /// Appends a section's contents.
    fn section(&mut self, (name, kind, flags): (&'static str, u32, u64), contents: &[u8]) {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(contents);
        self.sections.push(Section {
            name,
            kind,
            flags,
            at,
            size: contents.len(),
            link: (0, 0),
            entry: 0,
        });
    }
}

/// The file's bytes. `machine` is `e_machine` of the code.
pub(crate) fn image(code: &JitCode<'_>, machine: u16) -> Vec<u8> {
    let mut image = Image {
        bytes: vec![0; TEXT as usize],
        sections: Vec::new(),
    };
    image.section((".text", SHT_PROGBITS, ALLOC | EXECUTED), code.bytes);
    if let Some(how) = code.unwinding {
        image.align();
        image.section((".eh_frame", SHT_PROGBITS, ALLOC), how.eh_frame);
        image.section((".eh_frame_hdr", SHT_PROGBITS, ALLOC), how.eh_frame_hdr);
    }
    symbols(&mut image, code);
    image.align();
    let note = note(code);
    image.section((".note.gnu.build-id", SHT_NOTE, ALLOC), &note);
    let (table, count) = section_headers(&mut image);
    headers(&mut image, code, (machine, table, count));
    image.bytes
}

/// `.symtab` of the one function, and its strings.
fn symbols(image: &mut Image, code: &JitCode<'_>) {
    image.align();
    let mut table = vec![0; 24];
    table.extend(1_u32.to_ne_bytes());
    // Global, a function, in section 1.
    table.extend([0x12, 0]);
    table.extend(1_u16.to_ne_bytes());
    table.extend(TEXT.to_ne_bytes());
    table.extend((code.bytes.len() as u64).to_ne_bytes());
    let strings = image.sections.len() as u32 + 2;
    image.section((".symtab", SHT_SYMTAB, 0), &table);
    if let Some(section) = image.sections.last_mut() {
        section.link = (strings, 1);
        section.entry = 24;
    }
    let mut names = vec![0];
    names.extend_from_slice(code.name);
    names.push(0);
    image.section((".strtab", SHT_STRTAB, 0), &names);
}

/// u32 sizes of name and contents, type 3; `GNU`; 20 bytes that differ where
/// code, name or the way of unwinding do.
fn note(code: &JitCode<'_>) -> Vec<u8> {
    let mut note = Vec::new();
    for word in [4_u32, 20, 3] {
        note.extend(word.to_ne_bytes());
    }
    note.extend(b"GNU\0");
    let mut id = Vec::new();
    for seed in 1..=3_u64 {
        let mut hasher = rustc_hash::FxHasher::default();
        hasher.write_u64(seed);
        hasher.write(code.name);
        hasher.write_u64(code.start.0);
        hasher.write(code.bytes);
        if let Some(how) = code.unwinding {
            hasher.write(how.eh_frame);
        }
        hasher.write_u64(seed.rotate_left(17));
        id.extend(hasher.finish().to_be_bytes());
    }
    note.extend(id.get(..20).unwrap_or_default());
    note
}

/// Appends `.shstrtab` and the headers of all sections; where these begin and
/// how many they are.
fn section_headers(image: &mut Image) -> (u64, u16) {
    let mut names = vec![0];
    let mut places = Vec::new();
    for name in image.sections.iter().map(|section| section.name) {
        places.push(names.len() as u32);
        names.extend_from_slice(name.as_bytes());
        names.push(0);
    }
    places.push(names.len() as u32);
    names.extend_from_slice(b".shstrtab\0");
    image.section((".shstrtab", SHT_STRTAB, 0), &names);
    image.align();
    let table = image.bytes.len() as u64;
    image.bytes.resize(image.bytes.len() + 64, 0);
    let sections = std::mem::take(&mut image.sections);
    for (section, name) in sections.iter().zip(places) {
        let is_mapped = section.flags & ALLOC != 0;
        image.u32(name);
        image.u32(section.kind);
        image.u64(section.flags);
        image.u64(if is_mapped { section.at as u64 } else { 0 });
        image.u64(section.at as u64);
        image.u64(section.size as u64);
        image.u32(section.link.0);
        image.u32(section.link.1);
        image.u64(match section.kind {
            SHT_STRTAB => 1,
            SHT_NOTE => 4,
            _ => 8,
        });
        image.u64(section.entry);
    }
    (table, sections.len() as u16 + 1)
}

/// Fills in the ELF header and the program header.
fn headers(image: &mut Image, code: &JitCode<'_>, (machine, table, count): (u16, u64, u16)) {
    let size = mapped_size(code);
    let rest = std::mem::take(&mut image.bytes);
    let order = if cfg!(target_endian = "big") { 2 } else { 1 };
    image.bytes.extend(b"\x7fELF");
    image.bytes.extend([2, order, 1, 0]);
    image.u64(0);
    // A shared object.
    image.u16(3);
    image.u16(machine);
    image.u32(1);
    image.u64(TEXT);
    image.u64(64);
    image.u64(table);
    image.u32(0);
    for half in [64, 56, 1, 64, count, count - 1] {
        image.u16(half);
    }
    // PT_LOAD, readable and executable.
    image.u32(1);
    image.u32(5);
    for word in [TEXT, TEXT, TEXT, size, size, 8] {
        image.u64(word);
    }
    image.bytes.resize(TEXT as usize, 0);
    image
        .bytes
        .extend_from_slice(rest.get(TEXT as usize..).unwrap_or_default());
}

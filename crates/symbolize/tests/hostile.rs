//! Files made to hurt: whatever their bytes, a lookup ends soon, in bounded
//! memory and without a panic.
//!
//! The files are compiled here with `cc`, which Rust itself needs to link,
//! and then damaged with a fixed seed.

mod built;

use built::{Built, addresses_of, look_up, open};
use prof_profile::Svma;
use prof_symbolize::Detail;
use std::path::Path;
use std::time::{Duration, Instant};

/// More than any lookup in a small file takes on a busy machine; alone, the
/// slowest here takes 0.1 s.
const PATIENCE: Duration = Duration::from_secs(20);

/// xorshift64: the same mutants in each run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % below.max(1) as u64) as usize
    }

    /// Damages a few places: bits, whole words, or the length.
    fn damage(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.roll(4) {
            let at = self.roll(bytes.len());
            match self.roll(8) {
                0..=2 => bytes[at] ^= 1 << self.roll(8),
                3..=4 => bytes[at] = [0, 0xff, 0x7f, 0x80][self.roll(4)],
                5 => overwrite(bytes, at, &u64::MAX.to_le_bytes()),
                6 => overwrite(bytes, at, &(self.roll(1 << 20) as u32).to_le_bytes()),
                _ => bytes.truncate(at.max(64)),
            }
        }
    }

    /// Damages one header: where sections are and how long is in the last
    /// part of a file, and mutants of the rest rarely reach it.
    fn damage_section_table(&mut self, bytes: &mut [u8]) {
        let start = u64::from_le_bytes(bytes[40..48].try_into().expect("8 bytes")) as usize;
        let at = start + self.roll(bytes.len() - start);
        bytes[at] = self.roll(256) as u8;
    }
}

fn overwrite(bytes: &mut [u8], at: usize, with: &[u8]) {
    for (old, new) in bytes[at..].iter_mut().zip(with) {
        *old = *new;
    }
}

/// Opens a file and asks everything that can be asked of it.
fn ask_all(path: &Path, addresses: &[Svma]) {
    let Ok(file) = open(path) else {
        return;
    };
    let _ = file.lookup_many(addresses, Detail::Source);
    let _ = file.symbols().take(10_000).count();
    for &svma in addresses.iter().take(4) {
        let _ = file.lookup(svma, Detail::Source);
        let _ = file.line_rows(svma, svma.plus(64));
        let _ = file.text_bytes(svma, 64);
        let _ = file.svma_of_file_offset(prof_profile::FileOffset(svma.0));
    }
}

#[test]
fn no_mutant_of_a_file_makes_a_lookup_panic_or_hang() {
    let built = Built::new();
    let originals = [
        built.program("dwarf5", &["-gdwarf-5"]),
        built.program("dwarf4z", &["-gdwarf-4", "-gz=zlib"]),
        built.program("stripped", &["-s"]),
    ];
    let mut dice = Dice(0x5eed_cafe_f00d_1234);
    let path = built.path("mutant");
    for original in &originals {
        let whole = std::fs::read(original).expect("read");
        let addresses = addresses_of(original);
        for round in 0..400 {
            let mut bytes = whole.clone();
            if round % 3 == 0 {
                dice.damage_section_table(&mut bytes);
            } else {
                dice.damage(&mut bytes);
            }
            std::fs::write(&path, &bytes).expect("written");
            let start = Instant::now();
            ask_all(&path, &addresses);
            let took = start.elapsed();
            assert!(took < PATIENCE, "{original:?}, round {round}: {took:?}");
        }
    }
}

#[test]
fn a_file_cut_anywhere_gives_an_error_or_fewer_answers() {
    let built = Built::new();
    let original = built.program("whole", &["-gdwarf-5"]);
    let whole = std::fs::read(&original).expect("read");
    let addresses = addresses_of(&original);
    let path = built.path("cut");
    for length in (0..whole.len()).step_by(whole.len() / 150) {
        std::fs::write(&path, &whole[..length]).expect("written");
        ask_all(&path, &addresses);
    }
}

/// `.debug_abbrev` with a unit (1), a function with name, start and length
/// (2), an inlined call with origin, start and length (3), and a function
/// without code that refers to another (4).
const ABBREVIATIONS: &str = "
.section .debug_abbrev
.uleb128 1, 0x11; .byte 1
.uleb128 0x11, 0x01, 0x12, 0x07, 0x10, 0x17, 0, 0
.uleb128 2, 0x2e; .byte 1
.uleb128 0x03, 0x08, 0x11, 0x01, 0x12, 0x07, 0, 0
.uleb128 3, 0x1d; .byte 1
.uleb128 0x31, 0x13, 0x11, 0x01, 0x12, 0x07, 0, 0
.uleb128 4, 0x2e; .byte 0
.uleb128 0x31, 0x13, 0, 0
.byte 0
";

/// A program whose only unit, of DWARF 4, holds these entries; `f` is its
/// code of 64 bytes.
fn with_entries(entries: &str) -> String {
    format!(
        ".text
.globl f
.type f, @function
f: .fill 64, 1, 0x90
.size f, 64
{ABBREVIATIONS}
.section .debug_info
unit: .4byte unit_end - unit_start
unit_start: .2byte 4
.4byte .debug_abbrev
.byte 8
.uleb128 1; .8byte f; .8byte 64; .4byte line_start
{entries}
.byte 0
unit_end:
"
    )
}

/// An empty line program.
const NO_LINES: &str = "
.section .debug_line
line_start: .4byte line_end - line_first
line_first: .2byte 4
.4byte header_end - header_start
header_start: .byte 1, 1, 1, -5, 14, 13
.byte 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1
.byte 0
.asciz \"f.c\"
.uleb128 0, 0, 0
.byte 0
header_end:
";

/// Looks up `f` in the assembled file; returns how long that took.
fn assemble_and_ask(built: &Built, name: &str, source: &str) -> Duration {
    let path = built.assembled(name, source);
    let address = addresses_of(&path);
    let start = Instant::now();
    let found = look_up(&path, address[0]);
    let took = start.elapsed();
    assert_eq!(&*found.symbol.expect("a symbol").name, "f", "{name}");
    assert!(took < PATIENCE, "{name}: {took:?}");
    took
}

#[test]
fn entries_that_refer_to_each_other_in_a_circle_end() {
    let built = Built::new();
    let circle = "
.uleb128 2; .asciz \"f\"; .8byte f; .8byte 64
.uleb128 3; .4byte one - unit; .8byte f; .8byte 64
.byte 0
.byte 0
one: .uleb128 4; .4byte two - unit
two: .uleb128 4; .4byte one - unit
";
    let source = with_entries(circle) + NO_LINES + "line_end:\n";
    assemble_and_ask(&built, "circle", &source);
}

#[test]
fn calls_inlined_a_hundred_thousand_deep_are_cut_not_followed() {
    let built = Built::new();
    let deep = "
.uleb128 2; .asciz \"f\"; .8byte f; .8byte 64
.rept 100000
.uleb128 3; .4byte one - unit; .8byte f; .8byte 64
.endr
.fill 100001, 1, 0
one: .uleb128 2; .asciz \"inlined\"; .8byte 0; .8byte 0; .byte 0
";
    let source = with_entries(deep) + NO_LINES + "line_end:\n";
    let path = built.assembled("deep", &source);
    let found = look_up(&path, addresses_of(&path)[0]);
    assert!(found.frames.len() <= 513, "{}", found.frames.len());
    assert!(found.frames.iter().any(|frame| frame.is_inline));
    assemble_and_ask(&built, "deep", &source);
}

#[test]
fn sixty_million_line_rows_in_a_small_file_are_not_all_kept() {
    let built = Built::new();
    let entries = "
.uleb128 2; .asciz \"f\"; .8byte f; .8byte 64
.byte 0
";
    // Each byte advances the line and the address and so makes a row.
    let rows = "
.byte 0, 9, 2
.8byte f
.fill 60000000, 1, 0x40
.byte 0, 1, 1
line_end:
";
    let source = with_entries(entries) + NO_LINES + rows;
    let path = built.assembled("rows", &source);
    let packed = std::fs::metadata(&path).expect("there").len();
    assert!(packed < 1 << 20, "the assembler did not compress: {packed}");
    let before = resident_bytes();
    assemble_and_ask(&built, "rows", &source);
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 512 << 20, "{grown} bytes more");
}

#[test]
fn ten_thousand_units_that_share_one_big_table_are_cut_short() {
    let built = Built::new();
    // Each unit names another place of the table, so none is read yet.
    let units = "
.set place, 0
.rept 10000
.4byte 8
.2byte 4
.4byte table + place
.byte 8, 0
.set place, place + 8
.endr
";
    let table = "
.section .debug_abbrev
table:
.set code, 16384
.rept 200000
.uleb128 code; .byte 0x2e, 0, 3, 8, 0, 0
.set code, code + 1
.endr
.byte 0
";
    let source = with_entries("") + units + NO_LINES + "line_end:\n" + table;
    assemble_and_ask(&built, "units", &source);
}

#[test]
fn a_section_that_claims_a_terabyte_costs_nothing() {
    let built = Built::new();
    let path = built.program("claim", &["-gdwarf-5", "-gz=zlib"]);
    let mut bytes = std::fs::read(&path).expect("read");
    // An Elf64_Chdr: u32 type 1 (zlib), u32 reserved, u64 size, u64 align;
    // then a zlib stream, which starts with 0x78.
    let mut claims = 0;
    for at in 0..bytes.len() - 25 {
        if bytes[at..at + 8] == [1, 0, 0, 0, 0, 0, 0, 0] && bytes[at + 24] == 0x78 {
            overwrite(&mut bytes, at + 8, &(1u64 << 40).to_le_bytes());
            claims += 1;
        }
    }
    assert!(claims > 2, "the compiler did not compress");
    let addresses = addresses_of(&path);
    std::fs::write(&path, &bytes).expect("written");
    let start = Instant::now();
    let found = look_up(&path, addresses[0]);
    assert!(found.symbol.is_some() && start.elapsed() < PATIENCE);
}

/// Memory of this process, from `/proc/self/statm` (pages).
fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("read");
    let pages = statm.split_whitespace().nth(1).expect("a second number");
    pages.parse::<u64>().expect("a number") * 4096
}

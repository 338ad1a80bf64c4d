//! A table made by hand, in both layouts, and damaged ones.

use prof_pclntab::{FunctionIn, InlineTrees, Loaded, Table, find};

const BASE: u64 = 0x5000;
const TEXT: u64 = 0x1000;
/// Where inlined calls are counted from.
const CALLS: u64 = BASE + 0x400;
const MODULE: u64 = BASE + 0x480;

/// Bytes that are loaded at [`BASE`].
struct File(Vec<u8>);

impl Loaded for File {
    fn read(&self, svma: u64, out: &mut [u8]) -> usize {
        let at = svma.checked_sub(BASE).map(|at| at as usize);
        let rest = at.and_then(|at| self.0.get(at..)).unwrap_or_default();
        let len = rest.len().min(out.len());
        out[..len].copy_from_slice(&rest[..len]);
        len
    }
}

impl File {
    fn put(&mut self, at: usize, bytes: &[u8]) {
        let end = self.0.len().max(at + bytes.len());
        self.0.resize(end, 0);
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn words(&mut self, at: usize, words: &[u32]) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.put(at, &bytes);
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Layout {
    Go118,
    Go120,
}

/// Two functions: `main.outer` of 0x40 bytes, into which `main.inner` was
/// inlined at 0x10 to 0x20, and `runtime.goexit` of 0x10 bytes.
fn file(layout: Layout) -> File {
    let mut file = File(Vec::new());
    let magic = if layout == Layout::Go118 { 0xf0 } else { 0xf1 };
    file.put(0, &[magic, 0xff, 0xff, 0xff, 0, 0, 1, 8]);
    // Functions, files, text, then where the parts are.
    let header = [2, 1, TEXT, 0x80, 0xc0, 0xd0, 0xe0, 0x200];
    let bytes: Vec<u8> = header
        .iter()
        .flat_map(|word: &u64| word.to_le_bytes())
        .collect();
    file.put(8, &bytes);
    file.put(0x80, b"\0main.outer\0main.inner\0runtime.goexit\0");
    file.words(0xc0, &[0]);
    file.put(0xd0, b"/src/main.go\0");
    // Differences (zigzag) and lengths. Frame: 0 for 4 bytes, 24 for 0x38,
    // 0 for 4.
    file.put(0xe1, &[2, 4, 48, 0x38, 47, 4, 0]);
    // File: the first of the unit, everywhere.
    file.put(0xf0, &[2, 0x40, 0]);
    // Lines: 10 for 0x10 bytes, 3 for 0x10, 300 for 0x20.
    file.put(0x100, &[22, 0x10, 13, 0x10, 0xd2, 0x04, 0x20, 0]);
    // Inlined calls: none for 0x10 bytes, number 0 for 0x10, none for 0x20.
    file.put(0x110, &[0, 0x10, 2, 0x10, 1, 0x20, 0]);
    // The second function: no frame, 0x10 bytes.
    file.put(0x120, &[2, 0x10, 0]);
    file.words(0x200, &[0, 0x40, 0x40, 0xa0, 0x50]);
    let first = [0, 1, 0, 0, 1, 0x10, 0x20, 3, 0];
    let second = [0x40, 23, 0, 0, 0x40, 0, 0, 0, 0];
    let kinds = if layout == Layout::Go118 { 36 } else { 40 };
    file.words(0x240, &first);
    file.put(0x240 + kinds, &[0, 0, 0, 4]);
    file.words(0x240 + kinds + 4, &[0, 0, 0x30, !0, !0, !0, 0x20]);
    file.words(0x2a0, &second);
    file.put(0x2a0 + kinds, &[7, 1, 0, 0]);
    // The call of `main.inner` (name at 12) stands at 0x8.
    match layout {
        Layout::Go118 => file.words(0x420, &[0, 0, 0, 12, 8]),
        Layout::Go120 => file.words(0x420, &[0, 12, 8, 1]),
    }
    let module = (MODULE - BASE) as usize;
    file.put(module, &BASE.to_le_bytes());
    file.put(module + 8, &(BASE + 0x80).to_le_bytes());
    let calls = if layout == Layout::Go118 { 38 } else { 40 };
    file.put(module + calls * 8, &CALLS.to_le_bytes());
    file
}

fn all(file: &File) -> [(u64, u64); 1] {
    [(BASE, BASE + file.0.len() as u64)]
}

#[test]
fn functions_have_frames_names_lines_and_inlined_calls() {
    for layout in [Layout::Go118, Layout::Go120] {
        let file = file(layout);
        let table = Table::open(&file, BASE, None).expect("a table");
        let function = |at| table.function(&file, at);
        assert_eq!((function(TEXT - 1), function(TEXT + 0x50)), (None, None));
        let outer = function(TEXT + 0x3f).expect("in the first");
        assert_eq!((outer.start, outer.end), (TEXT, TEXT + 0x40));
        assert!(!outer.is_outermost() && !outer.switches_stacks());
        let sizes = [0, 3, 4, 0x3b, 0x3c].map(|at| table.frame_size(&file, &outer, TEXT + at));
        assert_eq!(sizes, [0, 0, 24, 24, 0].map(Some));
        let goexit = function(TEXT + 0x40).expect("in the second");
        assert!(goexit.is_outermost());
        assert_eq!(
            table.name(&file, &goexit).as_deref(),
            Some("runtime.goexit")
        );

        let trees = InlineTrees::find(&table, &file, all(&file).into_iter());
        assert!(trees.is_some());
        let frames = |at| -> Vec<(String, u32)> {
            let found = FunctionIn {
                table: &table,
                file: &file,
                function: &outer,
            }
            .frames(trees, TEXT + at);
            let found = found.expect("a name").into_iter();
            found.map(|frame| (frame.name, frame.line)).collect()
        };
        assert_eq!(frames(0), [("main.outer".to_owned(), 10)]);
        assert_eq!(frames(0x20), [("main.outer".to_owned(), 300)]);
        let inlined = [("main.inner".to_owned(), 3), ("main.outer".to_owned(), 10)];
        assert_eq!(frames(0x1f), inlined);
        let (path, _) = table.line(&file, &outer, TEXT).expect("a line");
        assert_eq!(path.as_deref(), Some("/src/main.go"));
    }
}

#[test]
fn a_function_is_found_by_its_whole_name_if_it_is_the_only_one() {
    for layout in [Layout::Go118, Layout::Go120] {
        let mut file = file(layout);
        let table = Table::open(&file, BASE, None).expect("a table");
        let start = |file: &File, name| table.named(file, name).map(|function| function.start);
        assert_eq!(start(&file, "main.outer"), Some(TEXT));
        assert_eq!(start(&file, "runtime.goexit"), Some(TEXT + 0x40));
        // Inlined only, the beginning and the end of a name, more than one.
        for name in ["main.inner", "main.oute", "goexit", ""] {
            assert_eq!(start(&file, name), None, "{name}");
        }
        // Both have the name of the first now.
        file.words(0x2a0 + 4, &[1]);
        assert_eq!(start(&file, "main.outer"), None);
    }
}

#[test]
fn a_table_is_found_without_being_told_where() {
    let mut before = vec![0xf1; 0x10_0020];
    before.extend(file(Layout::Go120).0);
    struct Moved(Vec<u8>);
    impl Loaded for Moved {
        fn read(&self, svma: u64, out: &mut [u8]) -> usize {
            let shifted = svma.wrapping_sub(BASE).wrapping_add(0x10_0020);
            let rest = self.0.get(shifted as usize..).unwrap_or_default();
            let len = rest.len().min(out.len());
            out[..len].copy_from_slice(&rest[..len]);
            len
        }
    }
    let moved = Moved(before);
    let parts = [(BASE - 0x2000, BASE), (BASE - 0x20, BASE + 0x100)];
    let found = find(&moved, parts, None);
    assert_eq!(found, Table::open(&file(Layout::Go120), BASE, None));
    assert!(found.is_some());
    // A part that is longer than the file ends with it.
    assert_eq!(find(&moved, [(BASE + (1 << 40), u64::MAX)], None), None);
}

/// xorshift64: the same mutants in each run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % below as u64) as usize
    }
}

#[test]
fn damaged_tables_end_every_question() {
    let mut dice = Dice(0x5eed_6001);
    let mut answers = 0;
    for round in 0..4000 {
        let layout = [Layout::Go118, Layout::Go120][round % 2];
        let mut file = file(layout);
        for _ in 0..=dice.roll(6) {
            let at = dice.roll(file.0.len());
            match dice.roll(4) {
                0 => file.0[at] ^= 1 << dice.roll(8),
                1 => file.0[at] = [0, 0xff, 0x7f, 0x80][dice.roll(4)],
                2 => file.words(at & !3, &[[u32::MAX, 1 << 31, 3][dice.roll(3)]]),
                _ => file.0.truncate(at.max(0x60)),
            }
        }
        let Some(table) = find(&file, all(&file), Some(TEXT)) else {
            continue;
        };
        let trees = InlineTrees::find(&table, &file, all(&file).into_iter());
        for name in ["main.outer", "runtime.goexit"] {
            let function = table.named(&file, name);
            assert!(function.is_none_or(|function| function.start < function.end));
        }
        for at in TEXT - 1..TEXT + 0x52 {
            let Some(function) = table.function(&file, at) else {
                continue;
            };
            assert!((function.start..function.end).contains(&at));
            let _ = table.frame_size(&file, &function, at);
            let _ = FunctionIn {
                table: &table,
                file: &file,
                function: &function,
            }
            .frames(trees, at);
            answers += 1;
        }
    }
    assert!(answers > 4000, "most mutants are still tables: {answers}");
}

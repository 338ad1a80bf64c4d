//! A runtime of which the memory was kept that was read, and made-up tables.

use super::metadata::Metadata;
use super::{CoreClr, ManagedCode};
use crate::Memory;
use crate::memory::tests::Image;
use std::collections::BTreeMap;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// What was read of a process with .NET 10: where its library is loaded, addresses of
/// code with where it begins, ends, and of which method it is; then words of memory.
const FIXTURE: &str = "fixtures/runtimes/dotnet10.txt";

fn fixture() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("../..")
        .join(FIXTURE)
}

/// Memory of which some bytes are known; the others of their pages are zero.
#[derive(Default)]
struct Kept(BTreeMap<u64, Vec<u8>>);

const PAGE: u64 = 4096;
/// Pieces that were read at once are no longer.
const LONGEST: u64 = 1 << 16;

impl Memory for Kept {
    fn read(&mut self, address: u64, out: &mut [u8]) -> usize {
        out.fill(0);
        let end = address.saturating_add(out.len() as u64);
        let (from, to) = (address & !(PAGE - 1), end.next_multiple_of(PAGE));
        let mut is_there = false;
        for (&start, bytes) in self.0.range(from.saturating_sub(LONGEST)..to) {
            is_there |= start.saturating_add(bytes.len() as u64) > from;
            for (at, &byte) in (start..).zip(bytes) {
                let to = at
                    .checked_sub(address)
                    .and_then(|at| out.get_mut(at as usize));
                if let Some(to) = to {
                    *to = byte;
                }
            }
        }
        if is_there { out.len() } else { 0 }
    }
}

/// The memory of a process, of which it is kept what is read.
struct Keeping {
    memory: std::fs::File,
    kept: Kept,
}

impl Memory for Keeping {
    fn read(&mut self, address: u64, out: &mut [u8]) -> usize {
        let got = self.memory.read_at(out, address).unwrap_or(0);
        let longest = self.kept.0.entry(address).or_default();
        if longest.len() < got {
            *longest = out[..got].to_vec();
        }
        got
    }
}

/// One line of the fixture for each address of code.
fn told(pc: u64, clr: &mut CoreClr, memory: &mut impl Memory) -> String {
    let ManagedCode { code, method, .. } = clr.ranges.code_at(pc, memory).expect("code");
    let found = clr.name(method, memory).expect("a name");
    let kind = if found.is_dynamic { "dynamic " } else { "" };
    format!(
        "{pc:x} {:x} {:x} {kind}{}",
        code.start, code.end, found.name
    )
}

/// Makes the fixture anew: `PROF_CLR=PID:BASE:PC,PC,...` of a process that runs, in
/// base 16 but for the first.
#[test]
#[ignore = "needs a process with .NET 10"]
fn keeps_what_is_read_of_a_process() {
    let wanted = std::env::var("PROF_CLR").expect("PROF_CLR");
    let mut parts = wanted.split(':');
    let mut next = || parts.next().expect("PID:BASE:PCS");
    let memory = std::fs::File::open(format!("/proc/{}/mem", next())).expect("a process");
    let number = |text: &str| u64::from_str_radix(text, 16).expect("a number");
    let (base, places) = (number(next()), next());
    let kept = Kept::default();
    let mut memory = Keeping { memory, kept };
    let mut clr = CoreClr::open(base, &mut memory).expect("a runtime");
    let mut text = format!("{base:x}\n");
    for pc in places.split(',') {
        text += &told(number(pc), &mut clr, &mut memory);
        text.push('\n');
    }
    text.push('\n');
    for (at, bytes) in memory.kept.0 {
        let bytes: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        text += &format!("{at:x} {bytes}\n");
    }
    std::fs::write(fixture(), text).expect("written");
}

/// The fixture: base, lines, memory.
fn kept() -> (u64, Vec<String>, Kept) {
    let text = std::fs::read_to_string(fixture()).expect("the fixture");
    let (head, memory) = text.split_once("\n\n").expect("two parts");
    let number = |text: &str| u64::from_str_radix(text, 16).expect("a number");
    let mut head = head.lines();
    let base = number(head.next().expect("a base"));
    let pieces = memory.lines().map(|line| {
        let (at, bytes) = line.split_once(' ').expect("a piece");
        let bytes = (0..bytes.len() / 2).map(|at| number(&bytes[2 * at..][..2]) as u8);
        (number(at), bytes.collect())
    });
    let memory = Kept(pieces.collect());
    (base, head.map(str::to_owned).collect(), memory)
}

#[test]
fn code_of_a_runtime_has_its_methods_names() {
    let (base, lines, mut memory) = kept();
    let mut clr = CoreClr::open(base, &mut memory).expect("a runtime");
    assert!(lines.len() > 8, "{lines:#?}");
    for line in lines {
        let pc = line.split(' ').next().expect("an address");
        let pc = u64::from_str_radix(pc, 16).expect("an address");
        // By pages and byte for byte.
        assert_eq!(told(pc, &mut clr, &mut memory), line);
        let found = clr.code_at(pc, &mut memory).expect("code");
        let name = clr.method_name(found.method, &mut memory).expect("a name");
        assert!(line.ends_with(&name.name), "{line}");
        assert!(clr.is_still(&found, &mut memory));
        clr.ask_again();
        // Another method has come there: the word before the code leads elsewhere.
        if found.header != 0 {
            let header = found.code.start - 8;
            let before = memory.0.insert(header, vec![0; 8]).expect("a header");
            assert!(!clr.is_still(&found, &mut memory));
            memory.0.insert(header, before);
        }
    }
    // Not of the runtime.
    assert_eq!(clr.code_at(base, &mut memory), None);
    assert_eq!(clr.method_name(base, &mut memory), None);
    assert!(CoreClr::open(base + 4096, &mut memory).is_none());
}

#[test]
fn columns_are_as_wide_as_their_tables_ask_for() {
    // Heaps of two-byte offsets; types 1 and 2, 70 000 fields, methods 1 to 3; type 2 is
    // in type 1.
    let mut tables = vec![0; 8];
    let valid: u64 = 1 << 2 | 1 << 4 | 1 << 6 | 1 << 41;
    tables.extend([valid, 0].map(u64::to_le_bytes).as_flattened());
    tables.extend([2_u32, 70_000, 3, 1].map(u32::to_le_bytes).as_flattened());
    let texts = b"\0Outer\0Space\0Inner\0first\0second\0third\0";
    let at = |name: &str| {
        let name = [b"\0", name.as_bytes(), b"\0"].concat();
        let found = texts.windows(name.len()).position(|it| it == name);
        found.expect("a text") as u16 + 1
    };
    let mut kind = |name: &str, space: u16, fields: u32, methods: u16| {
        tables.extend(0_u32.to_le_bytes());
        tables.extend([at(name), space, 0].map(u16::to_le_bytes).as_flattened());
        tables.extend(fields.to_le_bytes());
        tables.extend(methods.to_le_bytes());
    };
    kind("Outer", at("Space"), 1, 1);
    kind("Inner", 0, 60_000, 3);
    tables.extend(vec![0; 70_000 * 6]);
    for name in ["first", "second", "third"] {
        tables.extend([0; 8]);
        tables.extend([at(name), 0, 1].map(u16::to_le_bytes).as_flattened());
    }
    tables.extend([2_u16, 1].map(u16::to_le_bytes).as_flattened());
    let mut memory = Image(vec![(0x100_0000, tables), (0x9000, texts.to_vec())]);
    let metadata = Metadata::of(0x100_0000, 0x9000, &mut memory).expect("tables");
    let names = [0, 1, 2, 3, 4].map(|row| metadata.method(row, &mut memory));
    let of = |name: &str| Some(name.to_owned());
    assert_eq!(
        names,
        [
            None,
            of("Space.Outer.first"),
            of("Space.Outer.second"),
            of("Space.Outer+Inner.third"),
            None,
        ]
    );
}

/// Memory of which some words are others'.
struct Lying<'a> {
    kept: &'a mut Kept,
    seed: u64,
    /// One in so many words lies.
    one_in: u64,
    reads: usize,
}

impl Memory for Lying<'_> {
    fn read(&mut self, address: u64, out: &mut [u8]) -> usize {
        self.reads += 1;
        let got = self.kept.read(address, out);
        for (at, byte) in (address..).zip(out.iter_mut()) {
            let number = ((at / 8) ^ self.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            if (number >> 40).is_multiple_of(self.one_in) {
                *byte = match number >> 61 {
                    // An address that is there, and another number.
                    0..4 => (address & !0xfff).to_le_bytes()[(at % 8) as usize],
                    _ => (number >> 8).to_le_bytes()[(at % 8) as usize],
                };
            }
        }
        got
    }
}

#[test]
fn a_process_that_lies_is_asked_a_bounded_number_of_times() {
    let (base, lines, mut kept) = kept();
    let pcs = lines.iter().map(|line| {
        let pc = line.split(' ').next().expect("an address");
        u64::from_str_radix(pc, 16).expect("an address")
    });
    let pcs: Vec<u64> = pcs.collect();
    let mut named = 0;
    for seed in 0..300 {
        // What the runtime tells of itself is as it was.
        let mut clr = CoreClr::open(base, &mut kept).expect("a runtime");
        let mut memory = Lying {
            kept: &mut kept,
            seed,
            one_in: 4 << (seed % 8),
            reads: 0,
        };
        for &pc in &pcs {
            let code = clr.code_at(pc, &mut memory);
            named += code
                .and_then(|code| clr.method_name(code.method, &mut memory))
                .map_or(0, |_| 1);
            let odd = clr.method_name(pc ^ seed, &mut memory);
            assert!(odd.is_none_or(|odd| !odd.name.is_empty()));
        }
        assert!(memory.reads < 200_000, "{} reads", memory.reads);
        let _ = CoreClr::open(base, &mut memory);
    }
    assert!(named > 300, "{named}");
}

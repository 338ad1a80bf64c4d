//! The instructions that ran between the branches of a sample: `brstackinsn`.

use crate::code::Arch;
use crate::escape;
use iced_x86::{Decoder, DecoderOptions, FlowControl};
use std::io::Write as _;

/// Longest run of code between two branches that is shown, bytes.
const LONGEST_BLOCK: u64 = 16_384 - LONGEST_INSTRUCTION;
/// Longest instruction, bytes.
pub const LONGEST_INSTRUCTION: u64 = 15;
/// How far the next branch is searched where one is missing, bytes.
const SEARCHED: u64 = 128;

/// Reads the code of the sampled process.
pub trait CodeAt {
    /// Up to `length` bytes from a live address on, and what they mean.
    fn code(&mut self, address: u64, length: u64) -> Option<(Arch, Vec<u8>)>;

    /// The function at a live address, and how far into it that is.
    fn symbol(&mut self, address: u64) -> Option<(String, u64)>;

    /// The source line of a live address: its number and text; `None` also if
    /// it was shown last.
    fn new_source_line(&mut self, address: u64) -> Option<(u32, String)>;
}

/// A branch as blocks show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TakenBranch {
    /// The branch instruction, live.
    pub from: u64,
    /// Where it went, live.
    pub to: u64,
    /// Predicted rightly.
    pub predicted: bool,
    /// Predicted wrongly.
    pub mispredicted: bool,
    /// In a transaction.
    pub in_transaction: bool,
    /// Ended a transaction.
    pub abort: bool,
    /// Cycles since the branch before.
    pub cycles: u16,
}

/// The branches that led to a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct WayHere<'a> {
    /// Newest first.
    pub branches: &'a [TakenBranch],
    /// The sampled instruction, live.
    pub ip: u64,
}

/// Instructions of a machine.
#[derive(Clone, Copy)]
struct Code<'a> {
    arch: Arch,
    bytes: &'a [u8],
}

/// What is printed beside the instructions of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BlockOptions {
    /// Their lengths.
    pub lengths: bool,
    /// Their source lines.
    pub sources: bool,
}

/// The length of the first instruction of `code`, bytes; 0 if it is none.
pub fn instruction_length(arch: Arch, code: &[u8]) -> usize {
    let bits = match arch {
        Arch::X86_64 => 64,
        Arch::X86 => 32,
        Arch::Aarch64 => return if code.len() >= 4 { 4 } else { 0 },
    };
    let instruction = Decoder::new(bits, code, DecoderOptions::NONE).decode();
    if instruction.is_invalid() {
        return 0;
    }
    instruction.len()
}

/// Whether the first instruction of `code` can lead elsewhere than to the next.
fn is_branch(code: Code<'_>) -> bool {
    let bits = match code.arch {
        Arch::X86_64 => 64,
        Arch::X86 => 32,
        Arch::Aarch64 => return false,
    };
    let instruction = Decoder::new(bits, code.bytes, DecoderOptions::NONE).decode();
    !matches!(
        instruction.flow_control(),
        FlowControl::Next | FlowControl::Exception
    )
}

/// Appends the code from the oldest of the branches to the sample, as perf
/// prints it: a line end, then a line for each instruction.
pub fn push_blocks(
    WayHere { branches, ip }: WayHere<'_>,
    options: BlockOptions,
    code: &mut dyn CodeAt,
    out: &mut Vec<u8>,
) {
    let (Some(newest), Some(oldest)) = (branches.first(), branches.last()) else {
        return;
    };
    out.push(b'\n');
    let mut blocks = Blocks {
        options,
        code,
        out,
        symbol: None,
        cycles: 0,
    };
    // Where the code before the oldest branch began is not known.
    if let Some((arch, bytes)) = blocks.code(oldest.from, oldest.from) {
        blocks.symbol(oldest.from);
        let bytes = &bytes;
        blocks.branch(Code { arch, bytes }, oldest, 0);
        blocks.source(oldest.from);
    }
    let mut index = branches.len() - 1;
    while index > 0 {
        let start = branches.get(index).map_or(0, |branch| branch.to);
        index -= 1;
        let mut ends_with = branches.get(index).copied().unwrap_or_default();
        // Entries to the kernel may be filtered out while its exits are not.
        if is_kernel(start) != is_kernel(ends_with.from)
            && start != 0
            && ends_with.from != 0
            && index > 0
        {
            index -= 1;
            ends_with = branches.get(index).copied().unwrap_or_default();
        }
        blocks.between(start, &ends_with);
    }
    if newest.from != ip && !newest.abort {
        blocks.last(newest.to, ip);
    }
}

fn is_kernel(address: u64) -> bool {
    address >> 63 != 0
}

struct Blocks<'a> {
    options: BlockOptions,
    code: &'a mut dyn CodeAt,
    out: &'a mut Vec<u8>,
    /// The function named last, and where it starts.
    symbol: Option<(String, u64)>,
    cycles: u64,
}

impl Blocks<'_> {
    fn put(&mut self, text: std::fmt::Arguments<'_>) {
        self.out.write_fmt(text).expect("writing to memory");
    }

    /// The code of `start..=end`, with the rest of the last instruction.
    fn code(&mut self, start: u64, end: u64) -> Option<(Arch, Vec<u8>)> {
        if start == 0 || end == 0 || is_kernel(start) != is_kernel(end) {
            return None;
        }
        let length = end.wrapping_sub(start);
        if length > LONGEST_BLOCK {
            return None;
        }
        let found = self.code.code(start, length + LONGEST_INSTRUCTION);
        found.filter(|(_, bytes)| !bytes.is_empty())
    }

    /// The line of the function that holds `address`, if it is another one
    /// than before.
    fn symbol(&mut self, address: u64) {
        let Some((name, offset)) = self.code.symbol(address) else {
            return;
        };
        let symbol = (name, address.wrapping_sub(offset));
        if self.symbol.as_ref() == Some(&symbol) {
            return;
        }
        let name = escape::terminal(&symbol.0).into_owned();
        if offset == 0 {
            self.put(format_args!("\t{name}:\n"));
        } else {
            self.put(format_args!("\t{name}+{offset}:\n"));
        }
        self.symbol = Some(symbol);
    }

    fn source(&mut self, address: u64) {
        if !self.options.sources {
            return;
        }
        if let Some((line, text)) = self.code.new_source_line(address) {
            push_source(line, &text, self.out);
        }
    }

    /// An instruction that is no taken branch; its length.
    fn instruction(&mut self, address: u64, code: Code<'_>) -> usize {
        let (text, length) = bytes_of_instruction(code);
        self.put(format_args!("\t{address:016x}\t{text}"));
        if self.options.lengths {
            self.put(format_args!("\tilen: {length}"));
        }
        self.out.push(b'\n');
        length
    }

    /// A taken branch, the `count`th instruction since the one before.
    fn branch(&mut self, code: Code<'_>, branch: &TakenBranch, count: u32) {
        let (text, length) = bytes_of_instruction(code);
        self.put(format_args!("\t{:016x}\t{text:<30}\t", branch.from));
        if self.options.lengths {
            self.put(format_args!("ilen: {length}\t"));
        }
        let flag = |on: bool, text: &'static str| if on { text } else { "" };
        self.put(format_args!(
            "#{}{}{}{}",
            flag(branch.predicted, " PRED"),
            flag(branch.mispredicted, " MISPRED"),
            flag(branch.in_transaction, " INTX"),
            flag(branch.abort, " ABORT"),
        ));
        if branch.cycles != 0 {
            self.cycles += u64::from(branch.cycles);
            let (cycles, total) = (branch.cycles, self.cycles);
            self.put(format_args!(" {cycles} cycles [{total}]"));
            if count > 0 {
                let per_cycle = count as f32 / f32::from(cycles);
                self.put(format_args!(" {per_cycle:.2} IPC"));
            }
        }
        self.out.push(b'\n');
    }

    /// From where a branch went to the next branch.
    fn between(&mut self, start: u64, ends_with: &TakenBranch) {
        let end = ends_with.from;
        let Some((arch, bytes)) = self.code(start, end) else {
            return;
        };
        let (mut offset, mut count) = (0, 0);
        while let Some(rest) = bytes.get(offset..).filter(|rest| !rest.is_empty()) {
            let address = start.wrapping_add(offset as u64);
            let code = Code { arch, bytes: rest };
            self.symbol(address);
            if address == end {
                self.branch(code, ends_with, count + 1);
                self.source(address);
                break;
            }
            let length = self.instruction(address, code);
            if length == 0 {
                break;
            }
            self.source(address);
            offset += length;
            count += 1;
        }
        if offset as u64 != end.wrapping_sub(start) {
            self.put(format_args!("\tmismatch of LBR data and executable\n"));
        }
    }

    /// From where the newest branch went to the sampled instruction. A branch
    /// or two may be missing between them.
    fn last(&mut self, start: u64, ip: u64) {
        let end = if ip < start {
            start.wrapping_add(SEARCHED)
        } else {
            ip
        };
        let block = self.code(start, end);
        self.symbol(start);
        let Some((arch, bytes)) = block else {
            if let Some((arch, bytes)) = self.code(ip, ip) {
                let bytes = &bytes;
                self.instruction(ip, Code { arch, bytes });
                self.source(ip);
            }
            return;
        };
        let mut offset = 0;
        while offset as u64 <= end.wrapping_sub(start) {
            let address = start.wrapping_add(offset as u64);
            let rest = bytes.get(offset..).unwrap_or_default();
            let code = Code { arch, bytes: rest };
            let length = self.instruction(address, code);
            if length == 0 {
                break;
            }
            if address != ip && is_branch(code) {
                self.put(format_args!("\t... not reaching sample ...\n"));
                break;
            }
            self.source(address);
            offset += length;
        }
    }
}

/// A source line as perf shows it, with a line end.
pub(super) fn push_source(line: u32, text: &str, out: &mut Vec<u8>) {
    write!(out, "|{line:<8} ").expect("writing to memory");
    // Indentation stays.
    for (index, piece) in text.split('\t').enumerate() {
        if index > 0 {
            out.push(b'\t');
        }
        out.extend(escape::terminal(piece).as_bytes());
    }
    out.push(b'\n');
}

/// The bytes of the first instruction as text, and its length.
fn bytes_of_instruction(Code { arch, bytes }: Code<'_>) -> (String, usize) {
    let length = instruction_length(arch, bytes);
    let Some(bytes) = bytes.get(..length).filter(|_| length > 0) else {
        return ("<bad>".to_owned(), 0);
    };
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x} ")).collect();
    (format!("insn: {hex}"), length)
}

//! Where functions begin, by a file's own symbols: what assembly and libraries
//! without unwind information export tells it; and by the code at which a
//! program is entered, which gives the address of `main` away.

use crate::image::{Image, Section};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Mnemonic};

/// The kind of a symbol that is a function.
const FUNCTION: u8 = 2;

/// First addresses of a file's functions, read when first needed.
#[derive(Debug, Default)]
pub(crate) struct Symbols {
    starts: Option<Vec<u64>>,
}

impl Symbols {
    /// The start of the last function that begins at or before `svma`.
    pub(crate) fn start_before(&mut self, image: &Image, svma: u64) -> Option<u64> {
        let starts = self.starts.get_or_insert_with(|| read(image));
        let behind = starts.partition_point(|&start| start <= svma);
        starts.get(behind.checked_sub(1)?).copied()
    }
}

fn read(image: &Image) -> Vec<u64> {
    let mut starts = Vec::new();
    for section in image.symbols.iter() {
        add(image, section, &mut starts);
    }
    starts.extend(given_away(image));
    starts.sort_unstable();
    starts.dedup();
    starts
}

/// The functions whose addresses are loaded before the first call from where
/// the file is entered.
fn given_away(image: &Image) -> Vec<u64> {
    let mut code = [0; 64];
    let got = image.read_svma_up_to(image.entry, &mut code);
    if image.entry == 0 || image.address_size() != 8 {
        return Vec::new();
    }
    let code = code.get(..got).unwrap_or_default();
    let mut functions = Vec::new();
    for instruction in Decoder::with_ip(64, code, image.entry, DecoderOptions::NONE) {
        if instruction.flow_control() != FlowControl::Next {
            break;
        }
        let loaded = match instruction.mnemonic() {
            Mnemonic::Lea if instruction.is_ip_rel_memory_operand() => {
                instruction.ip_rel_memory_address()
            }
            Mnemonic::Mov if instruction.op_kinds().any(is_immediate) => instruction.immediate(1),
            _ => continue,
        };
        functions.extend(image.is_code(loaded).then_some(loaded));
    }
    functions
}

fn is_immediate(kind: iced_x86::OpKind) -> bool {
    use iced_x86::OpKind::{Immediate32, Immediate32to64, Immediate64};
    matches!(kind, Immediate32 | Immediate32to64 | Immediate64)
}

/// Adds the functions of a table. An entry of 64 bits: name (4 bytes), info,
/// other (1 each), section (2), value, size (8 each); of 32 bits: name, value,
/// size (4 each), info, other (1 each), section (2).
fn add(image: &Image, section: &Section, starts: &mut Vec<u64>) {
    let is_64 = image.address_size() == 8;
    let (entry, info, value) = if is_64 { (24, 4, 8) } else { (16, 12, 4) };
    let bytes = image.section_bytes(section).unwrap_or_default();
    for symbol in bytes.chunks_exact(entry) {
        let start = symbol.get(value..).and_then(|rest| match is_64 {
            true => rest.first_chunk().map(|word| u64::from_le_bytes(*word)),
            false => rest
                .first_chunk()
                .map(|word| u32::from_le_bytes(*word).into()),
        });
        let is_function = symbol.get(info).is_some_and(|info| info & 15 == FUNCTION);
        if let Some(start) = start.filter(|&start| is_function && image.is_code(start)) {
            starts.push(start);
        }
    }
}

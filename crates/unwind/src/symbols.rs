//! Where functions begin, by a file's own symbols: what assembly and libraries
//! without unwind information export tells it; and by the code at which a
//! program is entered, which gives the address of `main` away. By their names
//! those of V8's own code are known (`Builtins_*`), which keeps frame pointers.

use crate::image::{Image, Section};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Mnemonic};
use memchr::memmem;
use std::ops::Range;

/// The kind of a symbol that is a function.
const FUNCTION: u8 = 2;

/// First addresses of a file's functions, read when first needed.
#[derive(Debug, Default)]
pub(crate) struct Symbols {
    starts: Option<Vec<u64>>,
    builtins: Option<Builtins>,
}

/// V8's own code in a file.
#[derive(Debug, Default)]
struct Builtins {
    functions: Vec<Range<u64>>,
    /// The start of that which makes its caller's frame.
    makes_frame: Option<u64>,
}

impl Symbols {
    /// The start of the last function that begins at or before `svma`.
    pub(crate) fn start_before(&mut self, image: &Image, svma: u64) -> Option<u64> {
        let starts = self.starts.get_or_insert_with(|| read(image));
        let behind = starts.partition_point(|&start| start <= svma);
        starts.get(behind.checked_sub(1)?).copied()
    }

    /// The start of the function of V8's own code at `svma`.
    pub(crate) fn builtin(&mut self, image: &Image, svma: u64) -> Option<u64> {
        let read = || Builtins::read(image).unwrap_or_default();
        self.builtins.get_or_insert_with(read).start_of(svma)
    }

    /// The same, if that was asked for before.
    pub(crate) fn known_builtin(&self, svma: u64) -> Option<u64> {
        self.builtins.as_ref()?.start_of(svma)
    }

    /// Whether the function of V8's own code at `svma` is called before its
    /// caller has a frame, which it makes.
    pub(crate) fn makes_frame(&self, svma: u64) -> bool {
        let start = self.known_builtin(svma);
        let makes_frame = self.builtins.as_ref().and_then(|it| it.makes_frame);
        start.is_some() && start == makes_frame
    }
}

impl Builtins {
    /// The start of the function at `svma`.
    fn start_of(&self, svma: u64) -> Option<u64> {
        let behind = self.functions.partition_point(|range| range.start <= svma);
        let range = self.functions.get(behind.checked_sub(1)?)?;
        range.contains(&svma).then_some(range.start)
    }

    /// An entry of the table of symbols: name (4 bytes), info, other (1 each),
    /// section (2), value, size (8 each).
    fn read(image: &Image) -> Option<Self> {
        const PREFIX: &[u8] = b"Builtins_";
        const MAKES_FRAME: &[u8] = b"Builtins_BaselineOutOfLinePrologue\0";
        if image.address_size() != 8 {
            return None;
        }
        let names = image.section_bytes(image.names.as_ref()?)?;
        let table = image.section_bytes(image.all_symbols.as_ref()?)?;
        let mut found = Self::default();
        for symbol in table.chunks_exact(24) {
            let (name, rest) = symbol.split_first_chunk()?;
            let name = names.get(u32::from_le_bytes(*name) as usize..)?;
            if !name.starts_with(PREFIX) {
                continue;
            }
            let word = |at: usize| rest.get(at..)?.first_chunk();
            let start = u64::from_le_bytes(*word(4)?);
            let end = start.checked_add(u64::from_le_bytes(*word(12)?))?;
            if image.is_code(start) {
                found.functions.push(start..end);
                if name.starts_with(MAKES_FRAME) {
                    found.makes_frame = Some(start);
                }
            }
        }
        found.functions.sort_unstable_by_key(|range| range.start);
        Some(found)
    }
}

/// The address that a file's symbols tell for a name, which ends with a NUL.
/// Those of the dynamic linker, which are fewer, are asked first.
pub(crate) fn value_of(image: &Image, name: &[u8]) -> Option<u64> {
    let all = || value_in(image, (&image.all_symbols, &image.names), name);
    dynamic_value_of(image, name).or_else(all)
}

/// The same of a symbol that the dynamic linker knows, whose names are fewer.
pub(crate) fn dynamic_value_of(image: &Image, name: &[u8]) -> Option<u64> {
    value_in(image, (&image.dynamic, &image.dynamic_names), name)
}

fn value_in(
    image: &Image,
    (table, names): (&Option<Section>, &Option<Section>),
    name: &[u8],
) -> Option<u64> {
    if image.address_size() != 8 {
        return None;
    }
    let names = image.section_bytes(names.as_ref()?)?;
    let at = u32::try_from(memmem::find(&names, name)?).ok()?;
    let table = image.section_bytes(table.as_ref()?)?;
    let is_it = |symbol: &&[u8]| symbol.starts_with(&at.to_le_bytes());
    let symbol = table.chunks_exact(24).find(is_it)?;
    let value = u64::from_le_bytes(*symbol.get(8..)?.first_chunk()?);
    (value != 0).then_some(value)
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

//! Names for the stubs of the procedure linkage table, which no symbol table
//! has: `printf@plt`.
//!
//! On x86 each stub jumps through a slot of the global offset table, and a
//! relocation says whose address that slot gets; this holds for `.plt`,
//! `.plt.sec` and `.plt.got` alike, with any linker and any padding. On other
//! machines the stubs stand in the order of the relocations.

use crate::demangle::PLT;
use crate::elf::{Image, Section, until_nul};
use crate::symtab::{RawSymbol, raw_symbols, symbols_and_strings};
use crate::words::{u32_at, u64_at};
use object::elf;
use std::collections::HashMap;

/// A named stub.
pub(crate) struct PltEntry {
    pub(crate) start: u64,
    pub(crate) size: u64,
    pub(crate) name: Vec<u8>,
}

/// A relocation that fills a slot with a function's address.
struct Slot {
    /// Where the slot is (svma).
    address: u64,
    target: Target,
}

/// The function whose address a slot gets.
#[derive(Clone, Copy)]
enum Target {
    /// The one with this number in `.dynsym`.
    Symbol(u32),
    /// The one that the code at this address of the file chooses (IFUNC).
    Resolver(u64),
}

/// The longest symbol name that is given a `@plt`, in bytes.
const NAME_MAX: usize = 1 << 12;

/// All stubs that can be named. Functions that are chosen at start-up have
/// the name that `symbol_at` gives for the code that chooses.
pub(crate) fn entries(image: &Image, symbol_at: impl Fn(u64) -> Option<Vec<u8>>) -> Vec<PltEntry> {
    let Some((section, strings)) = symbols_and_strings(image, ".dynsym") else {
        return Vec::new();
    };
    let names = image.bytes().get(strings).unwrap_or_default();
    let symbols: Vec<RawSymbol> = raw_symbols(image, section).collect();
    let name_of = |slot: &Slot| {
        let mut name = match slot.target {
            Target::Symbol(number) => {
                let symbol = symbols.get(number as usize)?;
                until_nul(names.get(symbol.name as usize..)?).to_vec()
            }
            Target::Resolver(address) => {
                symbol_at(address).unwrap_or_else(|| format!("*ABS*+{address:#x}").into_bytes())
            }
        };
        name.truncate(NAME_MAX);
        if name.is_empty() {
            return None;
        }
        name.extend_from_slice(PLT.as_bytes());
        Some(name)
    };
    let lazy = slots(image, &[".rela.plt", ".rel.plt"]);
    match image.machine {
        elf::EM_X86_64 => {
            let bound = slots(image, &[".rela.dyn"]);
            let by_address: HashMap<u64, &Slot> = bound
                .iter()
                .chain(&lazy)
                .map(|slot| (slot.address, slot))
                .collect();
            jumping_stubs(image, |slot| name_of(by_address.get(&slot)?))
        }
        _ => stubs_in_order(image, &lazy, name_of),
    }
}

/// Decodes the stubs of an x86-64 file.
fn jumping_stubs(image: &Image, name_of: impl Fn(u64) -> Option<Vec<u8>>) -> Vec<PltEntry> {
    let mut entries = Vec::new();
    for name in [".plt", ".plt.sec", ".plt.got", ".iplt"] {
        let Some(section) = image.section(name) else {
            continue;
        };
        let size = stub_size(section);
        for (index, code) in image.data(section).chunks_exact(size).enumerate() {
            let start = section.address.wrapping_add((index * size) as u64);
            if let Some(name) = jump_target(code, start).and_then(&name_of) {
                entries.push(PltEntry {
                    start,
                    size: size as u64,
                    name,
                });
            }
        }
    }
    entries
}

/// Bytes per stub: 16, or 8 in `.plt.got`; lld leaves the entry size 0.
fn stub_size(section: &Section) -> usize {
    match section.entry_size {
        8 => 8,
        _ => 16,
    }
}

/// The slot that a stub jumps through: `jmp *offset(%rip)` (`ff 25`, i32
/// offset from its end), after an optional `endbr64` or `bnd` prefix.
fn jump_target(code: &[u8], start: u64) -> Option<u64> {
    const ENDBR64: &[u8] = &[0xf3, 0x0f, 0x1e, 0xfa];
    let skipped = if code.starts_with(ENDBR64) { 4 } else { 0 };
    let skipped = skipped + usize::from(code.get(skipped) == Some(&0xf2));
    let offset = code.get(skipped..)?.strip_prefix(&[0xff, 0x25])?;
    let offset = i32::from_le_bytes(*offset.first_chunk()?);
    let end = start.wrapping_add(skipped as u64 + 6);
    Some(end.wrapping_add_signed(offset.into()))
}

/// Gives the stubs after the header of `.plt` the names of the relocations,
/// one after the other.
fn stubs_in_order(
    image: &Image,
    slots: &[Slot],
    name_of: impl Fn(&Slot) -> Option<Vec<u8>>,
) -> Vec<PltEntry> {
    let Some(section) = image.section(".plt") else {
        return Vec::new();
    };
    let (header, size) = match image.machine {
        elf::EM_ARM => (20, 12),
        elf::EM_AARCH64 | elf::EM_RISCV => (32, 16),
        elf::EM_386 | elf::EM_S390 => (section.entry_size, section.entry_size),
        _ => return Vec::new(),
    };
    let end = section.address.saturating_add(section.size);
    let starts = (0..).map_while(|index: u64| {
        let start = section
            .address
            .checked_add(header)?
            .checked_add(index.checked_mul(size)?)?;
        (size > 0 && start < end).then_some(start)
    });
    slots
        .iter()
        .zip(starts)
        .filter_map(|(slot, start)| {
            let name = name_of(slot)?;
            Some(PltEntry { start, size, name })
        })
        .collect()
}

/// The slots that relocations of these sections fill. An entry is: offset,
/// info (symbol and type) and, in `.rela`, an addend; each 8 bytes, or 4 in
/// a 32-bit file.
fn slots(image: &Image, sections: &[&str]) -> Vec<Slot> {
    let mut slots = Vec::new();
    for section in sections.iter().filter_map(|name| image.section(name)) {
        let words = if section.kind == elf::SHT_RELA { 3 } else { 2 };
        let word = if image.is_64 { 8 } else { 4 };
        for entry in image.data(section).chunks_exact(words * word) {
            let field = |index: usize| -> Option<u64> {
                if image.is_64 {
                    u64_at(entry, index * word, image.endian)
                } else {
                    u32_at(entry, index * word, image.endian).map(u64::from)
                }
            };
            let (Some(address), Some(info)) = (field(0), field(1)) else {
                continue;
            };
            let symbol = if image.is_64 { info >> 32 } else { info >> 8 };
            let target = match u32::try_from(symbol) {
                Ok(0) if words == 3 => field(2).map(Target::Resolver),
                Ok(0) | Err(_) => None,
                Ok(number) => Some(Target::Symbol(number)),
            };
            slots.extend(target.map(|target| Slot { address, target }));
        }
    }
    slots
}

#[cfg(test)]
mod tests {
    use super::jump_target;

    #[test]
    fn a_stub_jumps_through_its_slot_with_or_without_prefixes() {
        let plain = [
            0xff, 0x25, 0x10, 0, 0, 0, 0x68, 0, 0, 0, 0, 0xe9, 0, 0, 0, 0,
        ];
        assert_eq!(jump_target(&plain, 0x1000), Some(0x1016));
        let marked = [
            0xf3, 0x0f, 0x1e, 0xfa, 0xf2, 0xff, 0x25, 0xf0, 0xff, 0xff, 0xff,
        ];
        assert_eq!(jump_target(&marked, 0x1000), Some(0x0ffb));
        assert_eq!(jump_target(&[0xff, 0x25, 0], 0x1000), None);
        assert_eq!(jump_target(&[0xff, 0x35, 0, 0, 0, 0], 0x1000), None);
    }
}

//! Names for the stubs of the procedure linkage table, which no symbol table
//! has: `printf@plt`.
//!
//! On x86 each stub jumps through a slot of the global offset table, and a
//! relocation says whose address that slot gets; this holds for `.plt`,
//! `.plt.sec` and `.plt.got` alike, with any linker and any padding. On other
//! machines the stubs stand in the order of the relocations.

use crate::demangle::PLT;
use crate::elf::{Image, Section, until_nul};
use crate::raw_symbols::{RawSymbol, raw_symbols, symbols_and_strings};
use crate::words::{u32_at, u64_at};
use object::elf;
use rustc_hash::FxHashMap;

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

/// A stub that jumps through a slot.
struct Stub {
    start: u64,
    size: u64,
    /// Address of the slot (svma).
    slot: u64,
}

/// The function whose address a slot gets.
#[derive(Clone, Copy)]
enum Target {
    /// The symbol with this index in `.dynsym`.
    Symbol(u32),
    /// The symbol that the resolver at this address chooses at run time
    /// (IFUNC).
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
    let name_of = |target: Target| {
        let mut name = match target {
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
    match image.machine {
        elf::EM_X86_64 => {
            let stubs = jumping_stubs(image);
            let targets = targets_of(&stubs, image);
            let named = |stub: &Stub| {
                let (start, size) = (stub.start, stub.size);
                let name = name_of((*targets.get(&stub.slot)?)?)?;
                Some(PltEntry { start, size, name })
            };
            stubs.iter().filter_map(named).collect()
        }
        _ => stubs_in_order(image, slots(image, LAZY), name_of),
    }
}

/// The relocations that are made when a function is first called.
const LAZY: &[&str] = &[".rela.plt", ".rel.plt"];

/// By slot what it gets, for the slots of `stubs`: few of the relocations of
/// a large library fill one.
fn targets_of(stubs: &[Stub], image: &Image) -> FxHashMap<u64, Option<Target>> {
    let mut targets: FxHashMap<u64, Option<Target>> =
        stubs.iter().map(|stub| (stub.slot, None)).collect();
    if targets.is_empty() {
        return targets;
    }
    let (first, last) = stubs.iter().fold((u64::MAX, 0), |(first, last), stub| {
        (first.min(stub.slot), last.max(stub.slot))
    });
    for slot in slots(image, &[".rela.dyn"]).chain(slots(image, LAZY)) {
        if (first..=last).contains(&slot.address)
            && let Some(target) = targets.get_mut(&slot.address)
        {
            *target = Some(slot.target);
        }
    }
    targets
}

/// Decodes the stubs of an x86-64 file.
fn jumping_stubs(image: &Image) -> Vec<Stub> {
    let mut stubs = Vec::new();
    for name in [".plt", ".plt.sec", ".plt.got", ".iplt"] {
        let Some(section) = image.section(name) else {
            continue;
        };
        let size = stub_size(section);
        for (index, code) in image.data(section).chunks_exact(size).enumerate() {
            let start = section.address.wrapping_add((index * size) as u64);
            stubs.extend(jump_target(code, start).map(|slot| Stub {
                start,
                size: size as u64,
                slot,
            }));
        }
    }
    stubs
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
    slots: impl Iterator<Item = Slot>,
    name_of: impl Fn(Target) -> Option<Vec<u8>>,
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
        .zip(starts)
        .filter_map(|(slot, start)| {
            let name = name_of(slot.target)?;
            Some(PltEntry { start, size, name })
        })
        .collect()
}

/// The slots that relocations of these sections fill. An entry is: offset,
/// info (symbol and type) and, in `.rela`, an addend; each 8 bytes, or 4 in
/// a 32-bit file.
fn slots(image: &Image, sections: &'static [&'static str]) -> impl Iterator<Item = Slot> {
    let sections = sections.iter().filter_map(|name| image.section(name));
    sections.flat_map(move |section| {
        let words = if section.kind == elf::SHT_RELA { 3 } else { 2 };
        let word = if image.is_64 { 8 } else { 4 };
        let entries = image.data(section).chunks_exact(words * word);
        entries.filter_map(move |entry| slot(image, entry, words, word))
    })
}

/// The slot that a relocation of so many words fills.
fn slot(image: &Image, entry: &[u8], words: usize, word: usize) -> Option<Slot> {
    let field = |index: usize| -> Option<u64> {
        if image.is_64 {
            u64_at(entry, index * word, image.endian)
        } else {
            u32_at(entry, index * word, image.endian).map(u64::from)
        }
    };
    let (address, info) = (field(0)?, field(1)?);
    let symbol = if image.is_64 { info >> 32 } else { info >> 8 };
    let target = match u32::try_from(symbol) {
        Ok(0) if words == 3 => Target::Resolver(field(2)?),
        Ok(0) | Err(_) => return None,
        Ok(number) => Target::Symbol(number),
    };
    Some(Slot { address, target })
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

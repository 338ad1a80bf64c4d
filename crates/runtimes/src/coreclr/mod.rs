//! Code of the common language runtime (.NET) and the methods that it is of.
//!
//! ```text
//!  pc ─► map of ranges (5 levels of 256) ─► range ─► heap of compiled code
//!                                             │        map of nibbles ─► start of the code
//!                                             │        word before it ─► header ─► method
//!                                             └────► precompiled image
//!                                                      table of functions ─► start
//!                                                      hash table ─► method
//!  method ─► chunk ─► type ─► module ─► metadata ─► names
//! ```
//!
//! Offsets are those that the runtime tells ([`contract`]), since .NET 10. Source:
//! `docs/design/datacontracts/ExecutionManager.md`, `RuntimeTypeSystem.md` and `Loader.md`
//! of dotnet/runtime; its `vm/hash.cpp` for the hash table.

mod contract;
mod metadata;
mod ranges;
#[cfg(test)]
mod tests;

use crate::memory::{Memory, Pages, bytes, int, text, word};
use contract::Contract;
use metadata::Metadata;
use ranges::Ranges;
use rustc_hash::FxHashMap;
use std::ops::Range;

/// Most modules whose metadata is remembered.
const MAX_MODULES: usize = 1 << 12;
/// Kind of a method that was made without metadata.
const DYNAMIC: u16 = 7;
/// What stands for the type of such a method, as in the runtime's own lists.
const OF_DYNAMIC: &str = "dynamicClass.";
/// Bits of its flags that tell the kind of a method, and of its chunk's that are a part
/// of its number.
const KIND: u16 = 7;
const NUMBER: u16 = 0xfff;
/// The image's sections are laid out as it runs.
const IS_MAPPED: u32 = 1;

/// Code of a method.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManagedCode {
    /// Its addresses, or those of the part that was asked for.
    pub code: Range<u64>,
    /// The method.
    pub method: u64,
    /// What the word before its first address leads to; 0 in an image that was compiled
    /// before.
    header: u64,
}

impl ManagedCode {
    /// Whether it is of an image that was compiled before: the perf map that the runtime
    /// writes, if it is asked to, has none of that.
    pub fn is_precompiled(&self) -> bool {
        self.header == 0
    }
}

/// The name of a method.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManagedName {
    /// With namespace and type, but for what was made without them.
    pub name: String,
    /// Whether the method was made without metadata: it goes when it is no longer used,
    /// and others come where it was.
    pub is_dynamic: bool,
}

/// A common language runtime in a process.
#[derive(Debug)]
pub struct CoreClr {
    ranges: Ranges,
    fields: Fields,
    /// By module.
    modules: FxHashMap<u64, Option<Metadata>>,
}

/// Offsets of the fields that lead to a name, and sizes, bytes.
#[derive(Debug)]
struct Fields {
    flags: u64,
    chunk_index: u64,
    number: u64,
    dynamic_name: u64,
    chunk_size: u64,
    chunk_type: u64,
    chunk_number: u64,
    type_module: u64,
    assembly: u64,
    image: u64,
    layout: u64,
    base: u64,
    layout_flags: u64,
    /// Methods stand at multiples of it.
    alignment: u64,
    /// How many bits of a method's number it has itself.
    number_bits: u64,
}

impl Fields {
    fn of(contract: &Contract) -> Option<Self> {
        let field = |kind: &str, name: &str| contract.field(kind, name);
        Some(Self {
            flags: field("MethodDesc", "Flags")?,
            chunk_index: field("MethodDesc", "ChunkIndex")?,
            number: field("MethodDesc", "Flags3AndTokenRemainder")?,
            dynamic_name: field("DynamicMethodDesc", "MethodName")?,
            chunk_size: contract.size("MethodDescChunk")?,
            chunk_type: field("MethodDescChunk", "MethodTable")?,
            chunk_number: field("MethodDescChunk", "FlagsAndTokenRange")?,
            type_module: field("MethodTable", "Module")?,
            assembly: field("Module", "PEAssembly")?,
            image: field("PEAssembly", "PEImage")?,
            layout: field("PEImage", "LoadedImageLayout")?,
            base: field("PEImageLayout", "Base")?,
            layout_flags: field("PEImageLayout", "Flags")?,
            alignment: contract.value("MethodDescAlignment")?,
            number_bits: contract
                .value("MethodDescTokenRemainderBitCount")
                .filter(|&bits| bits < 16)?,
        })
    }
}

impl CoreClr {
    /// The runtime whose libcoreclr is loaded at `base`; `None` if it is none, does not
    /// tell of its code (before .NET 10), or cannot be read.
    pub fn open(base: u64, memory: &mut impl Memory) -> Option<Self> {
        let contract = Contract::read(base, memory)?;
        Some(Self {
            ranges: Ranges::of(&contract, memory)?,
            fields: Fields::of(&contract)?,
            modules: FxHashMap::default(),
        })
    }

    /// The code of a method at an address.
    pub fn code_at(&self, pc: u64, memory: &mut impl Memory) -> Option<ManagedCode> {
        self.ranges.code_at(pc, &mut Pages::new(memory))
    }

    /// Whether code is still there and of the same method.
    pub fn is_still(&self, code: &ManagedCode, memory: &mut impl Memory) -> bool {
        self.ranges.is_still(code, memory)
    }

    /// The name of a method.
    pub fn method_name(&mut self, method: u64, memory: &mut impl Memory) -> Option<ManagedName> {
        let mut memory = Pages::new(memory);
        let found = self.name(method, &mut memory)?;
        let is_odd = |it: char| it.is_control() || it == ' ';
        let is_name = !found.name.is_empty() && !found.name.chars().any(is_odd);
        is_name.then_some(found)
    }

    fn name(&mut self, method: u64, memory: &mut impl Memory) -> Option<ManagedName> {
        let fields = &self.fields;
        let at = |offset: u64| method.checked_add(offset);
        let flags = u16::from_le_bytes(bytes(memory, at(fields.flags)?)?);
        if flags & KIND == DYNAMIC {
            let name = word(memory, at(fields.dynamic_name)?)?;
            return Some(ManagedName {
                name: format!("{OF_DYNAMIC}{}", text(memory, name)?),
                is_dynamic: true,
            });
        }
        let [index] = bytes(memory, at(fields.chunk_index)?)?;
        let before = u64::from(index).checked_mul(fields.alignment)?;
        let chunk = method.checked_sub(before)?.checked_sub(fields.chunk_size)?;
        let of_chunk = chunk.checked_add(fields.chunk_number)?;
        let of_chunk = u16::from_le_bytes(bytes(memory, of_chunk)?) & NUMBER;
        let own = u16::from_le_bytes(bytes(memory, at(fields.number)?)?);
        let own = u32::from(own) & ((1 << fields.number_bits) - 1);
        let row = u32::from(of_chunk) << fields.number_bits | own;
        let kind = word(memory, chunk.checked_add(fields.chunk_type)?)?;
        let module = word(memory, kind.checked_add(fields.type_module)?)?;
        if self.modules.len() >= MAX_MODULES {
            self.modules.clear();
        }
        let metadata = || metadata_of(fields, module, memory);
        let metadata = self.modules.entry(module).or_insert_with(metadata);
        Some(ManagedName {
            name: metadata.as_ref()?.method(row, memory)?,
            is_dynamic: false,
        })
    }

    /// Modules may have been unloaded, and others be where they were.
    pub fn ask_again(&mut self) {
        self.modules.clear();
    }
}

/// The metadata of a module, in the image that was loaded for it.
fn metadata_of(fields: &Fields, module: u64, memory: &mut impl Memory) -> Option<Metadata> {
    let mut follow = |from: u64, offset: u64| word(memory, from.checked_add(offset)?);
    let assembly = follow(module, fields.assembly)?;
    let image = follow(assembly, fields.image)?;
    let layout = follow(image, fields.layout)?;
    let base = follow(layout, fields.base)?;
    let flags = int(memory, layout.checked_add(fields.layout_flags)?)?;
    Metadata::read(base, flags & IS_MAPPED != 0, memory)
}

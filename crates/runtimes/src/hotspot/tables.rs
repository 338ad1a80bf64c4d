//! The tables that libjvm exports for debuggers: where fields are.

use crate::elf::Exports;
use crate::memory::{Memory, Pages, int, text, word};
use rustc_hash::{FxHashMap, FxHashSet};

/// More entries than any version has.
const MAX_ENTRIES: u64 = 1 << 14;

/// Fields by `Type::name`, and sizes of types.
#[derive(Debug, Default)]
pub(super) struct Tables {
    /// An offset, or the address of a static field.
    fields: FxHashMap<String, u64>,
    /// Fields of `CodeBlob` that have 2 bytes.
    shorts: FxHashSet<String>,
    sizes: FxHashMap<String, u64>,
}

/// Where an entry's parts are.
struct Entries {
    first: u64,
    stride: u64,
    type_name: u64,
}

impl Tables {
    /// Of the libjvm that is loaded at `base`.
    pub(super) fn read(base: u64, memory: &mut impl Memory) -> Option<Self> {
        let mut pages = Pages::new(memory);
        let memory = &mut pages;
        let exports = Exports::open(base, memory)?;
        let mut tables = Self::default();
        tables.read_fields(&exports, memory)?;
        tables.read_sizes(&exports, memory)?;
        Some(tables)
    }

    fn read_fields(&mut self, exports: &Exports, memory: &mut impl Memory) -> Option<()> {
        let entries = Entries::find("Struct", exports, memory)?;
        let mut part = |name: &str| {
            let name = format!("gHotSpotVMStructEntry{name}Offset");
            let at = exports.find(&name, memory)?;
            word(memory, at)
        };
        let field_name = part("FieldName")?;
        let is_static = part("IsStatic")?;
        let offset = part("Offset")?;
        let address = part("Address")?;
        let kind = part("TypeString")?;
        for number in 0..MAX_ENTRIES {
            let Some((at, name)) = entries.at(number, memory)? else {
                return Some(());
            };
            let field = word(memory, at.checked_add(field_name)?)?;
            let field = text(memory, field)?;
            let value = match int(memory, at.checked_add(is_static)?)? {
                0 => offset,
                _ => address,
            };
            let value = word(memory, at.checked_add(value)?)?;
            if name == "CodeBlob" {
                let kind = word(memory, at.checked_add(kind)?)?;
                if text(memory, kind).is_some_and(|kind| kind == "int16_t") {
                    self.shorts.insert(format!("{name}::{field}"));
                }
            }
            self.fields.insert(format!("{name}::{field}"), value);
        }
        None
    }

    fn read_sizes(&mut self, exports: &Exports, memory: &mut impl Memory) -> Option<()> {
        let entries = Entries::find("Type", exports, memory)?;
        let size = exports.find("gHotSpotVMTypeEntrySizeOffset", memory)?;
        let size = word(memory, size)?;
        for number in 0..MAX_ENTRIES {
            let Some((at, name)) = entries.at(number, memory)? else {
                return Some(());
            };
            let size = word(memory, at.checked_add(size)?)?;
            self.sizes.insert(name, size);
        }
        None
    }

    /// The offset of a field, or the address of a static one.
    pub(super) fn field(&self, name: &str) -> Option<u64> {
        self.fields.get(name).copied()
    }

    /// Whether a field of `CodeBlob` has 2 bytes.
    pub(super) fn is_short(&self, name: &str) -> bool {
        self.shorts.contains(name)
    }

    /// The size of a type, bytes.
    pub(super) fn size(&self, name: &str) -> Option<u64> {
        self.sizes.get(name).copied()
    }
}

impl Entries {
    fn find(kind: &str, exports: &Exports, memory: &mut impl Memory) -> Option<Self> {
        let mut value = |name: String| {
            let at = exports.find(&name, memory)?;
            word(memory, at)
        };
        Some(Self {
            first: value(format!("gHotSpotVM{kind}s"))?,
            stride: value(format!("gHotSpotVM{kind}EntryArrayStride"))?,
            type_name: value(format!("gHotSpotVM{kind}EntryTypeNameOffset"))?,
        })
    }

    /// An entry's address and type; `Some(None)` behind the last.
    #[expect(clippy::option_option, reason = "damaged, at the end, or there")]
    fn at(&self, number: u64, memory: &mut impl Memory) -> Option<Option<(u64, String)>> {
        let at = self.first.checked_add(number.checked_mul(self.stride)?)?;
        match word(memory, at.checked_add(self.type_name)?)? {
            0 => Some(None),
            name => Some(Some((at, text(memory, name)?))),
        }
    }
}

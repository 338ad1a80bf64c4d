//! What the runtime says of its own structures: the data descriptor.
//!
//! ```text
//!  DotNetRuntimeContractDescriptor   magic, flags, size of the text, text,
//!                                    number of pointers, 0, pointers
//!  text (JSON)   types:     name -> field -> offset | [offset, type], "!" -> size
//!                globals:   name -> value | [value, type] | [[number of pointer], type]
//!                contracts: name -> version
//! ```
//!
//! Source: `docs/design/datacontracts/contract-descriptor.md` and `data_descriptor.md` of
//! dotnet/runtime.

use crate::elf::Exports;
use crate::memory::{Memory, int, word};
use serde_json::Value;

/// `DNCCDAC\0`.
const MAGIC: u64 = 0x0043_4144_4343_4e44;
const SYMBOL: &str = "DotNetRuntimeContractDescriptor";
/// Most bytes of the text: .NET 10 has 10 563.
const LONGEST: usize = 1 << 20;

/// A descriptor as it was read.
#[derive(Debug)]
pub(super) struct Contract {
    text: Value,
    /// Where the pointers stand, and how many there are.
    pointers: (u64, u64),
}

impl Contract {
    /// That of the runtime whose library is loaded at `base`.
    pub(super) fn read(base: u64, memory: &mut impl Memory) -> Option<Self> {
        let exports = Exports::open(base, memory)?;
        let at = exports.find(SYMBOL, memory)?;
        if word(memory, at)? != MAGIC {
            return None;
        }
        let length = int(memory, at.checked_add(12)?)? as usize;
        let text_at = word(memory, at.checked_add(16)?)?;
        let count = int(memory, at.checked_add(24)?)?;
        let pointers = word(memory, at.checked_add(32)?)?;
        if length > LONGEST {
            return None;
        }
        let mut text = vec![0; length];
        let is_whole = memory.read(text_at, &mut text) == length;
        Some(Self {
            text: is_whole.then(|| serde_json::from_slice(&text).ok())??,
            pointers: (pointers, count.into()),
        })
    }

    /// The version of a contract.
    pub(super) fn version(&self, name: &str) -> Option<u64> {
        self.text.get("contracts")?.get(name)?.as_u64()
    }

    /// The offset of a field, bytes.
    pub(super) fn field(&self, kind: &str, name: &str) -> Option<u64> {
        number(self.text.get("types")?.get(kind)?.get(name)?)
    }

    /// The size of a type, bytes.
    pub(super) fn size(&self, kind: &str) -> Option<u64> {
        self.field(kind, "!")
    }

    /// A number that is the same for all of the runtime.
    pub(super) fn value(&self, name: &str) -> Option<u64> {
        number(self.text.get("globals")?.get(name)?)
    }

    /// The address that stands in the table of pointers for a name.
    pub(super) fn pointer(&self, name: &str, memory: &mut impl Memory) -> Option<u64> {
        let place = self.text.get("globals")?.get(name)?.get(0)?;
        let index = place.get(0).unwrap_or(place).as_u64()?;
        let (at, count) = self.pointers;
        (index < count).then_some(())?;
        word(memory, at.checked_add(index.checked_mul(8)?)?)
    }
}

/// A number, by itself or before its type, as JSON's or as text in base 16 or 10.
fn number(value: &Value) -> Option<u64> {
    let value = value.get(0).unwrap_or(value);
    let of_text = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    value.as_u64().or_else(|| value.as_str().and_then(of_text))
}

#[cfg(test)]
impl Contract {
    /// Of this text.
    pub(super) fn of(text: &str, pointers: (u64, u64)) -> Self {
        Self {
            text: serde_json::from_str(text).expect("JSON"),
            pointers,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Contract;
    use crate::memory::tests::Image;

    #[test]
    fn offsets_and_values_are_given_with_their_types_or_without() {
        let text = r#"{"types": {"A": {"!": 24, "X": 8, "Y": [16, "uint32"]}},
            "globals": {"M": ["0xfff", "uint16"], "N": 7, "P": [[1], "pointer"], "Q": [0]},
            "contracts": {"C": 2}}"#;
        let pointers = [0x1000_u64, 0x2000].map(u64::to_le_bytes).concat();
        let mut memory = Image(vec![(0x50, pointers)]);
        let contract = Contract::of(text, (0x50, 2));
        let fields = ["X", "Y", "Z"].map(|name| contract.field("A", name));
        assert_eq!(fields, [Some(8), Some(16), None]);
        assert_eq!((contract.size("A"), contract.size("B")), (Some(24), None));
        let values = ["M", "N", "O"].map(|name| contract.value(name));
        assert_eq!(values, [Some(0xfff), Some(7), None]);
        assert_eq!(contract.pointer("P", &mut memory), Some(0x2000));
        assert_eq!(contract.pointer("Q", &mut memory), Some(0x1000));
        assert_eq!(contract.version("C"), Some(2));
        let none = Contract::of(text, (0x50, 1));
        assert_eq!(none.pointer("P", &mut memory), None);
    }
}

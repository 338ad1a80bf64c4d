//! Symbols that a loaded file exports, from its dynamic section in memory.

use crate::cold::UnwindIndex;
use crate::memory::{Memory, bytes, int, text, word};

/// Most program headers and dynamic entries that are looked at.
const MAX_HEADERS: u64 = 64;
const MAX_ENTRIES: u64 = 256;
/// Most symbols in one chain of the hash table.
const MAX_CHAIN: u32 = 4096;

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_GNU_EH_FRAME: u32 = 0x6474_e550;
const DT_HASH: u64 = 4;
const DT_STRTAB: u64 = 5;
const DT_SYMTAB: u64 = 6;
const DT_GNU_HASH: u64 = 0x6fff_fef5;

/// Pages that a file's code may be further behind its first byte in memory than in the
/// file: linkers keep segments apart (`lld`).
const MOST_APART: u64 = 16;
const PAGE: u64 = 4096;

/// Where the first byte of an ELF file is loaded of which what stands at `offset` is
/// mapped at `start`.
pub fn loaded_at((start, offset): (u64, u64), memory: &mut impl Memory) -> Option<u64> {
    let nearest = start.checked_sub(offset)?;
    let is_it = |base: u64, memory: &mut _| {
        let head = Header::read(base, memory)?;
        let (mut first, mut begins_segment) = (None, false);
        for number in 0..head.count.min(MAX_HEADERS) {
            let at = head.segment(number)?;
            if int(memory, at)? != PT_LOAD {
                continue;
            }
            let in_file = word(memory, at.checked_add(8)?)? & !(PAGE - 1);
            let svma = word(memory, at.checked_add(16)?)? & !(PAGE - 1);
            let first = *first.get_or_insert(svma);
            if in_file == offset && base.wrapping_add(svma.wrapping_sub(first)) == start {
                return Some(true);
            }
            begins_segment |= in_file == offset;
        }
        // Or it is a part of one.
        Some(base == nearest && !begins_segment)
    };
    (0..=MOST_APART).find_map(|pages| {
        let base = nearest.checked_sub(pages * PAGE)?;
        is_it(base, memory)?.then_some(base)
    })
}

/// What the beginning of an ELF file of 64 bits tells of its segments.
struct Header {
    table: u64,
    count: u64,
}

impl Header {
    fn read(base: u64, memory: &mut impl Memory) -> Option<Self> {
        let head: [u8; 64] = bytes(memory, base)?;
        if head.get(..5)? != b"\x7fELF\x02" {
            return None;
        }
        let table = u64::from_le_bytes(*head.get(32..)?.first_chunk()?);
        let count = u16::from_le_bytes(*head.get(56..)?.first_chunk()?);
        Some(Self {
            table: base.checked_add(table)?,
            count: count.into(),
        })
    }

    /// Where the header of a segment is.
    fn segment(&self, number: u64) -> Option<u64> {
        self.table.checked_add(number * 56)
    }
}

/// The tables that symbols are found by, as addresses in the process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Exports {
    bias: u64,
    names: u64,
    symbols: u64,
    /// Tables of hashes of names, 0 for none: GNU's, and the older kind, which alone
    /// libraries have that were linked for old systems.
    gnu_hash: u64,
    old_hash: u64,
    unwind_index: Option<UnwindIndex>,
}

impl Exports {
    /// Of the ELF file whose first byte is loaded at `base`.
    pub(crate) fn open(base: u64, memory: &mut impl Memory) -> Option<Self> {
        let head = Header::read(base, memory)?;
        let (mut first, mut dynamic, mut index) = (None, None, None);
        for number in 0..head.count.min(MAX_HEADERS) {
            let at = head.segment(number)?;
            let svma = word(memory, at.checked_add(16)?)?;
            match int(memory, at)? {
                PT_LOAD => first = first.or(Some(svma)),
                PT_DYNAMIC => dynamic = Some(svma),
                PT_GNU_EH_FRAME => index = Some(svma),
                _ => {}
            }
        }
        let bias = base.wrapping_sub(first? & !0xfff);
        let mut found = Self {
            bias,
            names: 0,
            symbols: 0,
            gnu_hash: 0,
            old_hash: 0,
            unwind_index: index.map(|svma| UnwindIndex(bias.wrapping_add(svma))),
        };
        let dynamic = bias.wrapping_add(dynamic?);
        for number in 0..MAX_ENTRIES {
            let at = dynamic.checked_add(number * 16)?;
            // The dynamic linker has made addresses of them, but not of all.
            let value = word(memory, at.checked_add(8)?)?;
            let value = match value < bias {
                true => value.wrapping_add(bias),
                false => value,
            };
            match word(memory, at)? {
                0 => break,
                DT_STRTAB => found.names = value,
                DT_SYMTAB => found.symbols = value,
                DT_GNU_HASH => found.gnu_hash = value,
                DT_HASH => found.old_hash = value,
                _ => {}
            }
        }
        let has_hash = found.gnu_hash != 0 || found.old_hash != 0;
        (found.names != 0 && found.symbols != 0 && has_hash).then_some(found)
    }

    /// The index of the file's unwind information.
    pub(crate) fn unwind_index(&self) -> Option<UnwindIndex> {
        self.unwind_index
    }

    /// Where the symbol of this name is.
    pub(crate) fn find(&self, name: &str, memory: &mut impl Memory) -> Option<u64> {
        Some(self.find_sized(name, memory)?.0)
    }

    /// The same, and how many bytes it has.
    pub(crate) fn find_sized(&self, name: &str, memory: &mut impl Memory) -> Option<(u64, u64)> {
        match self.gnu_hash {
            0 => self.find_old(name, memory),
            _ => self.find_gnu(name, memory),
        }
    }

    /// The hash table: number of buckets, first symbol in it, words and shift
    /// of the filter (4 bytes each), the filter, the buckets, the hashes of the
    /// symbols, the last of a chain odd.
    fn find_gnu(&self, name: &str, memory: &mut impl Memory) -> Option<(u64, u64)> {
        let table = self.gnu_hash;
        let hash = name.bytes().fold(5381_u32, |hash, byte| {
            hash.wrapping_mul(33).wrapping_add(byte.into())
        });
        let head = |at: u64| table.checked_add(at);
        let buckets = int(memory, table)?;
        let first = int(memory, head(4)?)?;
        let filter = u64::from(int(memory, head(8)?)?);
        let buckets_at = head(16)?.checked_add(filter * 8)?;
        let hashes_at = buckets_at.checked_add(u64::from(buckets) * 4)?;
        let bucket = u64::from(hash.checked_rem(buckets)?);
        let start = int(memory, buckets_at.checked_add(bucket * 4)?)?;
        for number in start..start.checked_add(MAX_CHAIN)? {
            let place = u64::from(number.checked_sub(first)?);
            let found = int(memory, hashes_at.checked_add(place * 4)?)?;
            if found | 1 == hash | 1
                && let Some(symbol) = self.symbol(number, name, memory)?
            {
                return Some(symbol);
            }
            if found & 1 == 1 {
                return None;
            }
        }
        None
    }

    /// The hash table: numbers of buckets and of symbols (4 bytes each), by bucket the
    /// first symbol, by symbol the next one of its bucket, 0 for none.
    fn find_old(&self, name: &str, memory: &mut impl Memory) -> Option<(u64, u64)> {
        let table = self.old_hash;
        let hash = name.bytes().fold(0_u32, |hash, byte| {
            let sum = (hash << 4).wrapping_add(byte.into());
            let high = sum & 0xf000_0000;
            (sum ^ (high >> 24)) & !high
        });
        let buckets = int(memory, table)?;
        let at = |word: u64| table.checked_add(8)?.checked_add(word * 4);
        let bucket = u64::from(hash.checked_rem(buckets)?);
        let mut number = int(memory, at(bucket)?)?;
        for _ in 0..MAX_CHAIN {
            if number == 0 {
                return None;
            }
            if let Some(symbol) = self.symbol(number, name, memory)? {
                return Some(symbol);
            }
            number = int(memory, at(u64::from(buckets) + u64::from(number))?)?;
        }
        None
    }

    /// Address and size of a symbol by its number, if it has this name.
    #[expect(clippy::option_option, reason = "damaged, another, or it")]
    fn symbol(
        &self,
        number: u32,
        name: &str,
        memory: &mut impl Memory,
    ) -> Option<Option<(u64, u64)>> {
        let symbol = self.symbols.checked_add(u64::from(number) * 24)?;
        let at = self.names.checked_add(int(memory, symbol)?.into())?;
        if text(memory, at).as_deref() != Some(name) {
            return Some(None);
        }
        let value = word(memory, symbol.checked_add(8)?)?;
        let size = word(memory, symbol.checked_add(16)?)?;
        Some(Some((self.bias.wrapping_add(value), size)))
    }
}

#[cfg(test)]
mod tests {
    use super::{Exports, loaded_at};
    use crate::Memory;

    impl Exports {
        /// Tables at addresses that the memory itself tells.
        pub(crate) fn anywhere(seed: u64, memory: &mut impl Memory) -> Option<Self> {
            let mut at = |at: u64| crate::memory::word(memory, at.wrapping_mul(seed));
            Some(Self {
                bias: at(8)?,
                names: at(16)?,
                symbols: at(24)?,
                gnu_hash: at(32)?,
                old_hash: at(40)?,
                unwind_index: None,
            })
        }
    }

    /// The memory of the test itself.
    struct Own(std::fs::File);

    impl Memory for Own {
        fn read(&mut self, address: u64, out: &mut [u8]) -> usize {
            use std::os::unix::fs::FileExt;
            self.0.read_at(out, address).unwrap_or(0)
        }
    }

    #[test]
    fn a_symbol_of_the_c_library_is_found_in_memory() {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("maps");
        let base = |line: &str| u64::from_str_radix(line.split('-').next()?, 16).ok();
        let line = maps.lines().find(|line| line.contains("libc.so"));
        let Some(base) = line.and_then(base) else {
            println!("skipped: no C library is loaded from a file of that name");
            return;
        };
        let mut memory = Own(std::fs::File::open("/proc/self/mem").expect("memory"));
        let exports = Exports::open(base, &mut memory).expect("an ELF file");
        assert!(
            exports
                .find("getpid", &mut memory)
                .is_some_and(|at| at > base)
        );
        assert_eq!(exports.find("no_such_symbol_", &mut memory), None);
        // By the older table the same are found, if there is one.
        let old = Exports {
            gnu_hash: 0,
            ..exports
        };
        if old.old_hash != 0 {
            for name in ["getpid", "malloc", "environ", "qsort", "no_such_symbol_"] {
                let by_gnu = exports.find_sized(name, &mut memory);
                assert_eq!(old.find_sized(name, &mut memory), by_gnu, "{name}");
            }
        }
        assert!(Exports::open(base + 1, &mut memory).is_none());
        // By any of its mappings.
        let mappings = maps.lines().filter(|line| line.contains("libc.so"));
        for line in mappings {
            let (start, rest) = line.split_once('-').expect("a mapping");
            let (start, offset) = (Some(start), rest.split(' ').nth(2));
            let number = |text: Option<&str>| u64::from_str_radix(text?, 16).ok();
            let place = number(start).zip(number(offset)).expect("a mapping");
            assert_eq!(loaded_at(place, &mut memory), Some(base), "{line}");
        }
    }
}

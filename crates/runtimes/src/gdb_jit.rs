//! Code that a process tells debuggers of by the JIT interface of GDB.
//!
//! A loaded file has a variable `__jit_debug_descriptor`, which leads to a list
//! of ELF files in memory, one for each piece of code or several:
//!
//! | descriptor | size | field |
//! |---:|---:|---|
//! | 0 | 4+4 | version 1, what was done last |
//! | 8 | 8+8 | the entry that it was done to, the first entry |
//!
//! | entry | size | field |
//! |---:|---:|---|
//! | 0 | 8+8 | next, previous |
//! | 16 | 8+8 | address and bytes of the ELF file |
//!
//! Erlang's machine has what it knows itself in place of ELF files: [`erlang`].
//!
//! Source: "JIT Compilation Interface" of GDB's manual. Nothing in the list is
//! believed: each look at it reads a bounded part, and goes on the next time.

use crate::erlang::{self, ErlangTold};
use crate::memory::{Memory, bytes};
use object::LittleEndian;
use object::elf::{self, FileHeader64, SectionHeader64, Sym64};
use object::read::elf::{FileHeader as _, SectionHeader as _, Sym as _};
use rustc_hash::{FxHashMap, FxHashSet};
use std::ops::Range;

/// Most entries that one look reads, and most ELF files.
const MAX_ENTRIES: usize = 256;
const MAX_FILES: usize = 64;
/// A look that has read so many bytes of files reads no further file.
const MAX_BYTES: usize = 1 << 20;
/// The largest file that is read, bytes.
const MAX_FILE: u64 = 8 << 20;
/// Most entries of one process that are remembered.
const MAX_KNOWN: usize = 1 << 15;
/// Most sections and functions of one file, and the longest name, bytes.
const MAX_SECTIONS: usize = 256;
const MAX_FUNCTIONS: usize = 4096;
const MAX_SYMBOLS: usize = 1 << 16;
const LONGEST_NAME: usize = 512;

/// A JIT object of GDB's interface: what its in-memory ELF file says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JitObject {
    /// Where its code is.
    pub code: Vec<Range<u64>>,
    /// Its `.eh_frame`: load address and bytes.
    pub eh_frame: Option<(u64, Vec<u8>)>,
    /// Its `.debug_frame`, where addresses in that are those of the process.
    pub debug_frame: Option<Vec<u8>>,
    /// Its functions in the order of their addresses.
    pub functions: Vec<(Range<u64>, String)>,
    /// What code of Erlang's machine it is, if that tells of it.
    pub erlang: Option<ErlangTold>,
}

/// What changed in the list since the last look.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct JitChanges {
    /// Addresses of entries that are no longer in the list.
    pub gone: Vec<u64>,
    /// New ones.
    pub new: Vec<(u64, JitObject)>,
}

/// The list of JIT objects of one `__jit_debug_descriptor`.
#[derive(Debug)]
pub struct GdbJit {
    descriptor: u64,
    /// What the descriptor held when a walk was begun: what was done last, to
    /// which entry, and the first entry.
    latest: Option<[u64; 3]>,
    /// The entry at which the walk goes on, and those it has seen.
    next: u64,
    seen: FxHashSet<u64>,
    /// By entry: address and size of its file.
    known: FxHashMap<u64, (u64, u64)>,
}

impl GdbJit {
    /// The list of the descriptor at this address.
    pub fn new(descriptor: u64) -> Self {
        Self {
            descriptor,
            latest: None,
            next: 0,
            seen: FxHashSet::default(),
            known: FxHashMap::default(),
        }
    }

    /// Reads the list if it has changed, and the objects that are new.
    pub fn look(&mut self, memory: &mut impl Memory) -> JitChanges {
        let mut changes = JitChanges::default();
        let Some(now) = self.state(memory) else {
            return changes;
        };
        if self.latest != Some(now) {
            self.latest = Some(now);
            self.next = now[2];
            self.seen.clear();
        } else if self.next == 0 {
            return changes;
        }
        let mut room = MAX_BYTES;
        for _ in 0..MAX_ENTRIES {
            if self.next == 0 || !self.seen.insert(self.next) || self.seen.len() > MAX_KNOWN {
                self.next = 0;
                break;
            }
            if changes.new.len() >= MAX_FILES || room == 0 {
                // It is read the next time.
                self.seen.remove(&self.next);
                return changes;
            }
            let (at, Some(entry)) = (self.next, bytes::<32>(memory, self.next)) else {
                self.next = 0;
                return changes;
            };
            self.next = u64_at(&entry, 0).unwrap_or(0);
            let file = (
                u64_at(&entry, 16).unwrap_or(0),
                u64_at(&entry, 24).unwrap_or(0),
            );
            if self.known.insert(at, file) != Some(file) {
                let object = JitObject::read(file, &mut room, memory);
                changes.new.push((at, object.unwrap_or_default()));
            }
        }
        if self.next == 0 {
            let seen = &self.seen;
            changes.gone = self
                .known
                .keys()
                .filter(|at| !seen.contains(at))
                .copied()
                .collect();
            self.known.retain(|at, _| seen.contains(at));
        }
        changes
    }

    fn state(&self, memory: &mut impl Memory) -> Option<[u64; 3]> {
        let descriptor: [u8; 24] = bytes(memory, self.descriptor)?;
        let word = |at: usize| u64_at(&descriptor, at);
        // The version, which is 1, stands in the lower half.
        let version = word(0)? & u64::from(u32::MAX);
        (version == 1).then_some([word(0)?, word(8)?, word(16)?])
    }
}

impl JitObject {
    /// Reads the file at an address, which takes from `room`; `None` if it is
    /// not all there, too large, or neither an ELF file of 64 bits nor of Erlang's
    /// machine.
    fn read((at, size): (u64, u64), room: &mut usize, memory: &mut impl Memory) -> Option<Self> {
        if !(24..=MAX_FILE).contains(&size) {
            return None;
        }
        let mut file = vec![0; size as usize];
        *room = room.saturating_sub(file.len());
        if memory.read(at, &mut file) != file.len() {
            return None;
        }
        Self::parse(&file, memory)
    }

    fn parse(file: &[u8], memory: &mut impl Memory) -> Option<Self> {
        if !file.starts_with(&elf::ELFMAG) {
            return Self::of_erlang(file, memory);
        }
        let header = FileHeader64::<LittleEndian>::parse(file).ok()?;
        let order = header.endian().ok()?;
        let sections = header.section_headers(order, file).ok()?;
        let names = header.section_strings_index(order, file).ok()?;
        let file = ElfFile {
            bytes: file,
            sections: sections.get(..MAX_SECTIONS).unwrap_or(sections),
            is_relocatable: header.e_type(order) == elf::ET_REL,
        };
        let names = file.content(file.sections.get(names.0)?);
        let mut object = Self::default();
        for section in file.sections {
            let is_code = |flag: object::elf::SectionFlags| section.sh_flags(order).contains(flag);
            let start = section.sh_addr(order);
            let end = start.saturating_add(section.sh_size(order));
            if is_code(elf::SHF_ALLOC) && is_code(elf::SHF_EXECINSTR) && start != 0 && start < end {
                object.code.push(start..end);
            }
        }
        // By names of bounded length: those of a file of lies have no end.
        let by_name = |name: &[u8]| {
            let mut sections = file.sections.iter();
            sections.find(|it| text_at(names, it.sh_name(order)) == Some(name))
        };
        let rules = by_name(b".eh_frame");
        object.eh_frame = rules.and_then(|section| file.loaded(section, memory));
        // QEMU tells by it of all that it translates.
        let rules = by_name(b".debug_frame").filter(|_| !file.is_relocatable);
        let rules = rules.map(|section| file.content(section).to_vec());
        object.debug_frame = rules.filter(|bytes| !bytes.is_empty());
        object.add_functions(&file);
        object.functions.sort_by_key(|(range, _)| range.start);
        Some(object)
    }

    /// The same of what Erlang's machine tells.
    fn of_erlang(file: &[u8], memory: &mut impl Memory) -> Option<Self> {
        let (told, code, mut functions) = erlang::parse(file, MAX_FUNCTIONS, memory)?;
        functions.sort_by_key(|(range, _)| range.start);
        Some(Self {
            code: if code.is_empty() {
                Vec::new()
            } else {
                vec![code]
            },
            functions,
            erlang: Some(told),
            ..Self::default()
        })
    }

    /// Adds the functions of the symbol table.
    fn add_functions(&mut self, file: &ElfFile<'_>) {
        let mut tables = file.sections.iter();
        let Some(table) = tables.find(|it| it.sh_type(LittleEndian) == elf::SHT_SYMTAB) else {
            return;
        };
        let symbols = table.data_as_array::<Sym64<LittleEndian>, _>(LittleEndian, file.bytes);
        let strings = file.sections.get(table.sh_link(LittleEndian) as usize);
        let strings = strings.map_or(&[][..], |strings| file.content(strings));
        for symbol in symbols.unwrap_or_default().iter().take(MAX_SYMBOLS) {
            if self.functions.len() >= MAX_FUNCTIONS {
                return;
            }
            let Some(range) = file.function(symbol) else {
                continue;
            };
            let is_in = |code: &Range<u64>| code.contains(&range.start) && range.end <= code.end;
            let name = text_at(strings, symbol.st_name(LittleEndian)).unwrap_or_default();
            if self.code.iter().any(is_in) && !name.is_empty() {
                let name = String::from_utf8_lossy(name).into_owned();
                self.functions.push((range, name));
            }
        }
    }
}

/// A file in memory, of little endian.
struct ElfFile<'a> {
    bytes: &'a [u8],
    sections: &'a [SectionHeader64<LittleEndian>],
    is_relocatable: bool,
}

impl<'a> ElfFile<'a> {
    /// What the file has of a section; nothing if it is not all there.
    fn content(&self, section: &SectionHeader64<LittleEndian>) -> &'a [u8] {
        section.data(LittleEndian, self.bytes).unwrap_or_default()
    }

    /// A section as it was loaded, where its address tells that, and where
    /// it counts as standing: in the file, compilers may have left it as it
    /// was before it was relocated.
    fn loaded(
        &self,
        section: &SectionHeader64<LittleEndian>,
        memory: &mut impl Memory,
    ) -> Option<(u64, Vec<u8>)> {
        let address = section.sh_addr(LittleEndian);
        let mut bytes = self.content(section).to_vec();
        let is_there = address != 0 && memory.read(address, &mut bytes) == bytes.len();
        if !is_there {
            bytes.copy_from_slice(self.content(section));
        }
        (!bytes.is_empty()).then_some((address, bytes))
    }

    /// Where the function of a symbol is; in relocatable files values count
    /// from their section.
    fn function(&self, symbol: &Sym64<LittleEndian>) -> Option<Range<u64>> {
        if symbol.st_type() != elf::STT_FUNC {
            return None;
        }
        let base = match self.is_relocatable {
            true => {
                let number = symbol.st_shndx(LittleEndian).index()?;
                self.sections
                    .get(usize::from(number))?
                    .sh_addr(LittleEndian)
            }
            false => 0,
        };
        let start = base.checked_add(symbol.st_value(LittleEndian))?;
        let end = start.checked_add(symbol.st_size(LittleEndian))?;
        (start < end).then_some(start..end)
    }
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// A text of a table of texts, up to its NUL or as long as names may be.
fn text_at(table: &[u8], at: u32) -> Option<&[u8]> {
    let rest = table.get(at as usize..)?;
    let most = rest.get(..rest.len().min(LONGEST_NAME))?;
    most.split(|&byte| byte == 0).next()
}

#[cfg(test)]
mod tests {
    use super::{GdbJit, JitChanges, JitObject, MAX_ENTRIES, MAX_FILE, MAX_FILES, MAX_KNOWN};
    use crate::Memory;
    use crate::memory::tests::Image;
    use object::elf;

    const DESCRIPTOR: u64 = 0x1000;
    const ENTRIES: u64 = 0x10_0000;
    const FILES: u64 = 0x4000_0000;
    const CODE: u64 = 0x7000_0000;

    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    /// Memory of which reads and bytes are counted.
    struct Counted(Image, usize, usize);

    impl Memory for Counted {
        fn read(&mut self, address: u64, out: &mut [u8]) -> usize {
            self.1 += 1;
            self.2 += out.len();
            self.0.read(address, out)
        }
    }

    /// A relocatable file: code at `CODE`, unwind information, a function `f`.
    fn file() -> Vec<u8> {
        file_of(b".eh_frame", elf::ET_REL)
    }

    /// The same of this kind, whose unwind information is in the section of this name.
    fn file_of(rules: &[u8], kind: elf::FileType) -> Vec<u8> {
        let names = [b"\0f\0", rules, b"\0"].concat();
        let mut symbols = vec![0; 24];
        symbols.extend([1, 0, 0, 0, 0x12, 0, 1, 0]);
        symbols.extend(words(&[4, 12]));
        let contents = [vec![], vec![0x90; 32], b"RULES".to_vec(), symbols, names];
        let kinds: [(u32, u64, u64, u32); 5] = [
            (0, 0, 0, 0),
            (1, 6, CODE, 0),
            (1, 2, 0, 0),
            (2, 0, 0, 4),
            (3, 0, 0, 0),
        ];
        let mut file = b"\x7fELF\x02\x01\x01".to_vec();
        file.resize(16, 0);
        file.extend(kind.0.to_le_bytes());
        file.extend([62, 0]);
        file.resize(64, 0);
        let mut headers = Vec::new();
        for (number, (content, (kind, flags, address, link))) in
            contents.iter().zip(kinds).enumerate()
        {
            headers.extend((if number == 2 { 3_u32 } else { 0 }).to_le_bytes());
            headers.extend(kind.to_le_bytes());
            headers.extend(words(&[
                flags,
                address,
                file.len() as u64,
                content.len() as u64,
            ]));
            headers.extend(u64::from(link).to_le_bytes());
            headers.extend([0; 16]);
            file.extend(content);
        }
        let table = file.len() as u64;
        file[40..48].copy_from_slice(&table.to_le_bytes());
        file[58..64].copy_from_slice(&[64, 0, 5, 0, 4, 0]);
        file.extend(headers);
        file
    }

    /// A list of entries of these files, each at the next place.
    fn list(entries: &[(u64, u64, u64)]) -> Counted {
        let first = ENTRIES;
        let mut image = Image(vec![(DESCRIPTOR, words(&[1 | 1 << 32, first, first]))]);
        let mut table = Vec::new();
        for &(next, file, size) in entries {
            table.extend(words(&[next, 0, file, size]));
        }
        image.0.push((ENTRIES, table));
        image.0.push((FILES, file()));
        Counted(image, 0, 0)
    }

    #[test]
    fn a_file_in_memory_tells_its_code_rules_and_functions() {
        let size = file().len() as u64;
        let mut memory = list(&[(0, FILES, size)]);
        let mut jit = GdbJit::new(DESCRIPTOR);
        let JitChanges { gone, new } = jit.look(&mut memory);
        let [(ENTRIES, object)] = new.as_slice() else {
            panic!("{new:?}");
        };
        assert!(gone.is_empty(), "{gone:?}");
        assert_eq!(object.code, std::slice::from_ref(&(CODE..CODE + 32)));
        assert_eq!(object.eh_frame, Some((0, b"RULES".to_vec())));
        assert_eq!(object.functions, [(CODE + 4..CODE + 16, "f".to_owned())]);
        // Nothing changed: the descriptor alone is read.
        memory.1 = 0;
        assert_eq!(jit.look(&mut memory), JitChanges::default());
        assert_eq!(memory.1, 1);
        // It is taken out.
        memory.0.0[0].1 = words(&[1 | 2 << 32, ENTRIES, 0]);
        assert_eq!(jit.look(&mut memory).gone, [ENTRIES]);
    }

    #[test]
    fn unwind_information_of_debuggers_counts_where_its_addresses_do() {
        for (kind, is_there) in [(elf::ET_EXEC, true), (elf::ET_REL, false)] {
            let file = file_of(b".debug_frame", kind);
            let object = JitObject::parse(&file, &mut Image(Vec::new())).expect("a file");
            assert_eq!(object.eh_frame, None);
            let rules = is_there.then(|| b"RULES".to_vec());
            assert_eq!(object.debug_frame, rules, "{kind:?}");
        }
    }

    #[test]
    fn a_cycle_and_sizes_that_lie_cost_bounded_reads() {
        let whole = file().len() as u64;
        let sizes = [whole, u64::MAX, MAX_FILE, 63, 0];
        // Each leads to the next, and the last to the first.
        let count = 1000_u64;
        let at = |number: u64| ENTRIES + number % count * 32;
        let entries =
            (0..count).map(|number| (at(number + 1), FILES, sizes[number as usize % sizes.len()]));
        let mut memory = list(&entries.collect::<Vec<_>>());
        let mut jit = GdbJit::new(DESCRIPTOR);
        let mut found = 0;
        for _ in 0..count {
            (memory.1, memory.2) = (0, 0);
            let changes = jit.look(&mut memory);
            assert!(changes.new.len() <= MAX_FILES && memory.1 <= 1 + MAX_ENTRIES + MAX_FILES);
            assert!(memory.2 <= 2 * MAX_FILE as usize, "{} bytes", memory.2);
            found += changes.new.len();
            assert!(changes.gone.is_empty(), "{:?}", changes.gone);
        }
        assert_eq!(
            (found, memory.1),
            (count as usize, 1),
            "each once, then none"
        );
        assert!(jit.known.len() <= MAX_KNOWN);
    }

    #[test]
    fn files_with_any_byte_changed_are_read_without_harm() {
        let whole = file();
        for at in 0..whole.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut memory = list(&[(0, FILES, whole.len() as u64)]);
                memory.0.0[2].1[at] = value;
                let changes = GdbJit::new(DESCRIPTOR).look(&mut memory);
                assert_eq!(changes.new.len(), 1);
                memory.0.0[2].1.truncate(at);
                let changes = GdbJit::new(DESCRIPTOR).look(&mut memory);
                assert_eq!(changes.new[0].1, super::JitObject::default());
            }
        }
    }
}

//! `/proc/kallsyms`: the running kernel's symbols, and copies of it.
//!
//! One line per symbol: address in hex, a blank, one letter for its type, a
//! blank, its name, and for modules a tab and `[module]`. An unprivileged
//! reader gets zeros for all addresses.

use crate::{Lookup, Symbol};
use memchr::{memchr, memchr_iter, memrchr};
use prof_profile::{Avma, Svma, UnnamedReason};
use rustc_hash::FxHashMap;
use std::io::{self, Read};

/// How much a last symbol reaches into the next page, and what ends of
/// modules are rounded to, in bytes; as in perf.
const PAGE: u64 = 4096;
/// The text is read in pieces of so many bytes; a longer line ends it.
const PIECE: usize = 64 << 10;

/// The symbols of a kernel and its modules, by live address.
#[derive(Debug)]
pub struct Kallsyms {
    /// Sorted by start; those with equal start in file order.
    entries: Vec<Entry>,
    /// All names, one behind the other.
    names: Vec<u8>,
    /// Names of modules; the first is the kernel's own, which is empty.
    modules: Vec<Box<[u8]>>,
    /// What to subtract from an address of the recording to get one of
    /// `entries`.
    relocation: u64,
    /// Whether only the kernel's own symbols are valid.
    is_without_modules: bool,
}

/// A symbol. Symbols have no size here: see [`Kallsyms::end_of`].
#[derive(Debug, Clone, Copy)]
struct Entry {
    start: u64,
    /// Where in `Kallsyms::names` its name begins.
    name: u32,
    name_length: u16,
    /// Index into `Kallsyms::modules`.
    module: u16,
}

/// A kernel symbol that covers an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelSymbol<'a> {
    /// Its name as it stands.
    pub name: &'a [u8],
    /// The module it is in, without brackets.
    pub module: Option<&'a [u8]>,
    /// Its first address, as in the recording.
    pub start: Avma,
    /// Bytes up to the next symbol.
    pub size: u64,
}

/// What a line says.
struct Line<'a> {
    start: u64,
    name: &'a [u8],
    /// Without brackets; empty for the kernel itself.
    module: &'a [u8],
}

impl Kallsyms {
    /// Reads the text of `/proc/kallsyms` to its end. Lines that make no sense
    /// are passed over.
    ///
    /// # Errors
    ///
    /// Those of `source`. Inside: [`UnnamedReason::KernelHidden`] if all
    /// addresses are zero, [`UnnamedReason::FileDamaged`] if there is no
    /// symbol at all.
    pub fn read(mut source: impl Read) -> io::Result<Result<Self, UnnamedReason>> {
        let mut collected = Collector::new();
        let mut piece = vec![0; PIECE];
        let mut filled = 0;
        loop {
            let free = piece.get_mut(filled..).unwrap_or_default();
            let count = match source.read(free) {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            filled += count;
            let text = piece.get(..filled).unwrap_or_default();
            let whole = match memrchr(b'\n', text) {
                Some(last) if count > 0 => last + 1,
                _ if count == 0 || filled == PIECE => filled,
                _ => continue,
            };
            collected.add(text.get(..whole).unwrap_or_default());
            piece.copy_within(whole..filled, 0);
            filled -= whole;
            if count == 0 {
                return Ok(collected.finish());
            }
        }
    }

    /// Adapts to a kernel that was loaded elsewhere: there, the symbol
    /// `reference` was at `recorded`. Returns whether that symbol exists.
    /// Modules move on their own, so those of another boot lose their names.
    pub(crate) fn relocate(&mut self, reference: &[u8], recorded: Avma) -> bool {
        let here = self
            .entries
            .iter()
            .find(|entry| self.name(entry) == reference)
            .map(|entry| entry.start);
        if let Some(here) = here {
            self.relocation = recorded.0.wrapping_sub(here);
            self.is_without_modules = self.relocation != 0;
        }
        here.is_some()
    }

    /// The symbol that covers an address of the recording.
    pub fn find(&self, avma: Avma) -> Option<KernelSymbol<'_>> {
        let address = avma.0.wrapping_sub(self.relocation);
        let after = self.entries.partition_point(|entry| entry.start <= address);
        let index = after.checked_sub(1)?;
        let entry = self.entries.get(index)?;
        let end = self.end_of(index, entry);
        let is_of_module = entry.module != 0;
        if address >= end || is_of_module && self.is_without_modules {
            return None;
        }
        let module = self.modules.get(usize::from(entry.module));
        Some(KernelSymbol {
            name: self.name(entry),
            module: module.filter(|_| is_of_module).map(|name| &**name),
            start: Avma(entry.start.wrapping_add(self.relocation)),
            size: end - entry.start,
        })
    }

    /// [`Kallsyms::find`] in the form of a file's answers; the address space
    /// of a kernel is that of the recording.
    pub fn lookup(&self, avma: Avma) -> Lookup {
        match self.find(avma) {
            Some(found) => Lookup::of_symbol(Symbol {
                name: String::from_utf8_lossy(found.name).into(),
                start: Svma(found.start.0),
                size: found.size,
            }),
            None => Lookup::unnamed(UnnamedReason::NoSymbolThere),
        }
    }

    /// How many symbols there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none; never so after [`Kallsyms::read`].
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Where the symbol with this index ends: it reaches to the next, but not
    /// from the kernel into a module or from one module into another. Of
    /// several at one address only the last gets a size, which is why perf
    /// shows that.
    fn end_of(&self, index: usize, entry: &Entry) -> u64 {
        match self.entries.get(index + 1) {
            Some(next) if entry.module == next.module => next.start,
            _ => entry
                .start
                .saturating_add(PAGE)
                .checked_next_multiple_of(PAGE)
                .unwrap_or(u64::MAX),
        }
    }

    fn name(&self, entry: &Entry) -> &[u8] {
        let start = entry.name as usize;
        let end = start + usize::from(entry.name_length);
        self.names.get(start..end).unwrap_or_default()
    }
}

/// Collects symbols line by line.
struct Collector {
    entries: Vec<Entry>,
    names: Vec<u8>,
    modules: Vec<Box<[u8]>>,
    module_ids: FxHashMap<Box<[u8]>, u16>,
    /// The module of the line before: most lines are of the same.
    last_module: u16,
}

impl Collector {
    fn new() -> Self {
        Self {
            entries: Vec::new(),
            names: Vec::new(),
            modules: vec![Box::default()],
            module_ids: FxHashMap::default(),
            last_module: 0,
        }
    }

    /// Adds whole lines.
    fn add(&mut self, text: &[u8]) {
        let mut start = 0;
        for end in memchr_iter(b'\n', text).chain([text.len()]) {
            let line = text.get(start..end).unwrap_or_default();
            start = end + 1;
            if let Some(line) = Line::parse(line) {
                // More than 2^32 bytes of names, or 2^16 modules: no kernel's.
                let _ = self.add_line(&line);
            }
        }
    }

    fn add_line(&mut self, line: &Line<'_>) -> Option<()> {
        let module = self.module(line.module)?;
        self.entries.push(Entry {
            start: line.start,
            name: u32::try_from(self.names.len()).ok()?,
            name_length: u16::try_from(line.name.len()).ok()?,
            module,
        });
        self.names.extend_from_slice(line.name);
        Some(())
    }

    fn module(&mut self, name: &[u8]) -> Option<u16> {
        if name.is_empty() {
            return Some(0);
        }
        let last = self.modules.get(usize::from(self.last_module));
        if last.is_some_and(|last| **last == *name) {
            return Some(self.last_module);
        }
        let id = match self.module_ids.get(name) {
            Some(&id) => id,
            None => {
                let id = u16::try_from(self.modules.len()).ok()?;
                self.modules.push(name.into());
                self.module_ids.insert(name.into(), id);
                id
            }
        };
        self.last_module = id;
        Some(id)
    }

    fn finish(mut self) -> Result<Kallsyms, UnnamedReason> {
        if self.entries.is_empty() {
            return Err(UnnamedReason::FileDamaged);
        }
        if self.entries.iter().all(|entry| entry.start == 0) {
            return Err(UnnamedReason::KernelHidden);
        }
        self.entries.sort_by_key(|entry| entry.start);
        Ok(Kallsyms {
            entries: self.entries,
            names: self.names,
            modules: self.modules,
            relocation: 0,
            is_without_modules: false,
        })
    }
}

impl<'a> Line<'a> {
    /// Parses a line; functions and data only, without ARM's mapping symbols.
    fn parse(line: &'a [u8]) -> Option<Self> {
        let digits = memchr(b' ', line)?;
        let (kind, rest) = match line.get(digits..)? {
            [b' ', kind, b' ', rest @ ..] => (kind, rest),
            _ => return None,
        };
        if !matches!(kind.to_ascii_uppercase(), b'T' | b'W' | b'D' | b'B') {
            return None;
        }
        let start = parse_hex(line.get(..digits)?)?;
        let name_length = memchr(b'\t', rest).unwrap_or(rest.len());
        let (name, behind) = rest.split_at(name_length);
        if name.is_empty() || name.starts_with(b"$") {
            return None;
        }
        let module = behind
            .strip_prefix(b"\t[")
            .and_then(|rest| rest.strip_suffix(b"]"))
            .unwrap_or_default();
        Some(Self {
            start,
            name,
            module,
        })
    }
}

/// A number of 1 to 16 hex digits.
pub(crate) fn parse_hex(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 16 {
        return None;
    }
    digits.iter().try_fold(0u64, |value, &digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            b'A'..=b'F' => digit - b'A' + 10,
            _ => return None,
        };
        Some(value << 4 | u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::Kallsyms;
    use prof_profile::{Avma, UnnamedReason};

    const TEXT: &str = "ffffffff81000000 T _stext\n\
        ffffffff81000000 T _text\n\
        ffffffff81000100 t do_one\n\
        ffffffff81000180 r not_code\n\
        ffffffff81000200 W weak_two\n\
        ffffffffc0000000 t init\t[ext4]\n\
        ffffffffc0000040 t exit\t[ext4]\n\
        ffffffffc0009000 t init\t[loop]\n\
        nonsense\n\
        ffffffffc0009000 t \n";

    fn parse(text: &str) -> Result<Kallsyms, UnnamedReason> {
        Kallsyms::read(text.as_bytes()).expect("reads from memory")
    }

    fn name(kallsyms: &Kallsyms, address: u64) -> Option<(String, Option<String>)> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        kallsyms
            .find(Avma(address))
            .map(|found| (text(found.name), found.module.map(text)))
    }

    #[test]
    fn the_last_of_several_names_wins_and_modules_end_after_a_page() {
        let kallsyms = parse(TEXT).expect("symbols");
        let kernel = |name: &str| Some((name.to_owned(), None));
        let ext4 = |name: &str| Some((name.to_owned(), Some("ext4".to_owned())));
        assert_eq!(name(&kallsyms, 0xffff_ffff_8100_00ff), kernel("_text"));
        assert_eq!(name(&kallsyms, 0xffff_ffff_8100_0190), kernel("do_one"));
        assert_eq!(name(&kallsyms, 0xffff_ffff_8100_0fff), kernel("weak_two"));
        assert_eq!(name(&kallsyms, 0xffff_ffff_8100_2000), None);
        assert_eq!(name(&kallsyms, 0xffff_ffff_c000_0010), ext4("init"));
        assert_eq!(name(&kallsyms, 0xffff_ffff_c000_0050), ext4("exit"));
        assert_eq!(name(&kallsyms, 0xffff_ffff_c000_5000), None);
        assert_eq!(name(&kallsyms, 0), None);
    }

    #[test]
    fn a_kernel_loaded_elsewhere_gives_the_same_names() {
        let mut kallsyms = parse(TEXT).expect("symbols");
        assert!(kallsyms.relocate(b"_text", Avma(0xffff_ffff_9100_0000)));
        let found = kallsyms.find(Avma(0xffff_ffff_9100_0110)).expect("found");
        assert_eq!(found.name, b"do_one");
        assert_eq!(found.start, Avma(0xffff_ffff_9100_0100));
        assert!(!kallsyms.relocate(b"no_such_symbol", Avma(0)));
    }

    #[test]
    fn lines_across_pieces_are_read_whole() {
        let line = |at: u64| {
            let module = if at.is_multiple_of(7) { "\t[odd]" } else { "" };
            format!("{:016x} t name_{at}{module}\n", 0x1000 * (at + 1))
        };
        let text: String = (0..9000).map(line).collect();
        assert!(text.len() > 4 * super::PIECE);
        let kallsyms = parse(text.trim_end()).expect("symbols");
        assert_eq!(kallsyms.len(), 9000);
        for at in 0..9000_u64 {
            let module = at.is_multiple_of(7).then(|| "odd".to_owned());
            let expected = Some((format!("name_{at}"), module));
            assert_eq!(name(&kallsyms, 0x1000 * (at + 1) + 5), expected);
        }
    }

    #[test]
    fn hidden_and_empty_texts_are_told_apart() {
        let hidden = "0000000000000000 T _text\n0000000000000000 t do_one\n";
        let error = parse(hidden).expect_err("hidden");
        assert_eq!(error, UnnamedReason::KernelHidden);
        let error = parse("hello\n").expect_err("empty");
        assert_eq!(error, UnnamedReason::FileDamaged);
    }
}

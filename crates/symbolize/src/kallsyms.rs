//! `/proc/kallsyms`: the running kernel's symbols, and copies of it.
//!
//! One line per symbol: address in hex, a blank, one letter for its type, a
//! blank, its name, and for modules a tab and `[module]`. An unprivileged
//! reader gets zeros for all addresses.

use crate::{Lookup, Symbol};
use prof_profile::{Avma, Svma, UnnamedReason};
use std::ops::Range;

/// How much a last symbol reaches into the next page, and what ends of
/// modules are rounded to, in bytes; as in perf.
const PAGE: u64 = 4096;

/// The symbols of a kernel and its modules, by live address.
#[derive(Debug)]
pub struct Kallsyms {
    text: Vec<u8>,
    /// Sorted by start; those with equal start in file order.
    entries: Vec<Entry>,
    /// What to subtract from an address of the recording to get one of
    /// `entries`.
    relocation: u64,
}

#[derive(Debug, Clone)]
struct Entry {
    start: u64,
    end: u64,
    name: Range<u32>,
    /// Empty for the kernel itself.
    module: Range<u32>,
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

impl Kallsyms {
    /// Reads the text of `/proc/kallsyms`. Lines that make no sense are
    /// passed over.
    ///
    /// # Errors
    ///
    /// [`UnnamedReason::KernelHidden`] if all addresses are zero,
    /// [`UnnamedReason::FileDamaged`] if there is no symbol at all.
    pub fn parse(text: Vec<u8>) -> Result<Self, UnnamedReason> {
        if u32::try_from(text.len()).is_err() {
            return Err(UnnamedReason::FileDamaged);
        }
        let mut entries = Vec::new();
        let mut at = 0;
        for line in text.split(|&byte| byte == b'\n') {
            entries.extend(Entry::parse(line, at));
            at += line.len() + 1;
        }
        if entries.is_empty() {
            return Err(UnnamedReason::FileDamaged);
        }
        if entries.iter().all(|entry| entry.start == 0) {
            return Err(UnnamedReason::KernelHidden);
        }
        entries.sort_by_key(|entry| entry.start);
        let mut kallsyms = Self {
            text,
            entries,
            relocation: 0,
        };
        kallsyms.set_ends();
        Ok(kallsyms)
    }

    /// Adapts to a kernel that was loaded elsewhere: there, the symbol
    /// `reference` was at `recorded`. Returns whether that symbol exists.
    /// Modules move on their own, so those of another boot lose their names.
    pub fn relocate(&mut self, reference: &[u8], recorded: Avma) -> bool {
        let here = self
            .entries
            .iter()
            .find(|entry| self.slice(&entry.name) == reference)
            .map(|entry| entry.start);
        if let Some(here) = here {
            self.relocation = recorded.0.wrapping_sub(here);
            if self.relocation != 0 {
                self.entries.retain(|entry| entry.module.is_empty());
            }
        }
        here.is_some()
    }

    /// The symbol that covers an address of the recording.
    pub fn find(&self, avma: Avma) -> Option<KernelSymbol<'_>> {
        let address = avma.0.wrapping_sub(self.relocation);
        let after = self.entries.partition_point(|entry| entry.start <= address);
        let entry = self.entries.get(after.checked_sub(1)?)?;
        if address >= entry.end {
            return None;
        }
        let module = self.slice(&entry.module);
        Some(KernelSymbol {
            name: self.slice(&entry.name),
            module: (!module.is_empty()).then_some(module),
            start: Avma(entry.start.wrapping_add(self.relocation)),
            size: entry.end - entry.start,
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

    /// Whether there are none; never so after [`Kallsyms::parse`].
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Symbols have no size here: each reaches to the next, but not from the
    /// kernel into a module or from one module into another. Of several at
    /// one address only the last gets a size, which is why perf shows that.
    fn set_ends(&mut self) {
        let nexts = self.entries.iter().skip(1).map(Some).chain([None]);
        let end_of = |(entry, next): (&Entry, Option<&Entry>)| match next {
            Some(next) if self.slice(&entry.module) == self.slice(&next.module) => next.start,
            _ => entry
                .start
                .saturating_add(PAGE)
                .checked_next_multiple_of(PAGE)
                .unwrap_or(u64::MAX),
        };
        let ends: Vec<u64> = self.entries.iter().zip(nexts).map(end_of).collect();
        for (entry, end) in self.entries.iter_mut().zip(ends) {
            entry.end = end;
        }
    }

    fn slice(&self, range: &Range<u32>) -> &[u8] {
        let range = range.start as usize..range.end as usize;
        self.text.get(range).unwrap_or_default()
    }
}

impl Entry {
    /// Parses a line that starts at byte `at` of the text; functions and
    /// data only, without ARM's mapping symbols.
    fn parse(line: &[u8], at: usize) -> Option<Self> {
        let digits = line
            .iter()
            .take_while(|byte| byte.is_ascii_hexdigit())
            .count();
        let start = parse_hex(line.get(..digits)?)?;
        let (kind, rest) = match line.get(digits..)? {
            [b' ', kind, b' ', rest @ ..] => (kind, rest),
            _ => return None,
        };
        if !matches!(kind.to_ascii_uppercase(), b'T' | b'W' | b'D' | b'B') {
            return None;
        }
        let name_at = at + digits + 3;
        let name_length = rest.iter().take_while(|&&byte| byte != b'\t').count();
        if name_length == 0 || rest.starts_with(b"$") {
            return None;
        }
        let module = rest
            .get(name_length..)
            .and_then(|rest| rest.strip_prefix(b"\t["))
            .and_then(|rest| rest.strip_suffix(b"]"))
            .unwrap_or_default();
        let module_at = name_at + name_length + 2;
        let range = |at: usize, length: usize| -> Option<Range<u32>> {
            Some(u32::try_from(at).ok()?..u32::try_from(at.checked_add(length)?).ok()?)
        };
        Some(Self {
            start,
            end: start,
            name: range(name_at, name_length)?,
            module: range(module_at, module.len())?,
        })
    }
}

/// A number of 1 to 16 hex digits.
pub(crate) fn parse_hex(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 16 {
        return None;
    }
    digits.iter().try_fold(0u64, |value, &digit| {
        Some(value << 4 | u64::from(char::from(digit).to_digit(16)?))
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

    fn name(kallsyms: &Kallsyms, address: u64) -> Option<(String, Option<String>)> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        kallsyms
            .find(Avma(address))
            .map(|found| (text(found.name), found.module.map(text)))
    }

    #[test]
    fn the_last_of_several_names_wins_and_modules_end_after_a_page() {
        let kallsyms = Kallsyms::parse(TEXT.into()).expect("symbols");
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
        let mut kallsyms = Kallsyms::parse(TEXT.into()).expect("symbols");
        assert!(kallsyms.relocate(b"_text", Avma(0xffff_ffff_9100_0000)));
        let found = kallsyms.find(Avma(0xffff_ffff_9100_0110)).expect("found");
        assert_eq!(found.name, b"do_one");
        assert_eq!(found.start, Avma(0xffff_ffff_9100_0100));
        assert!(!kallsyms.relocate(b"no_such_symbol", Avma(0)));
    }

    #[test]
    fn hidden_and_empty_texts_are_told_apart() {
        let hidden = "0000000000000000 T _text\n0000000000000000 t do_one\n";
        let error = Kallsyms::parse(hidden.into()).expect_err("hidden");
        assert_eq!(error, UnnamedReason::KernelHidden);
        let error = Kallsyms::parse(b"hello\n".to_vec()).expect_err("empty");
        assert_eq!(error, UnnamedReason::FileDamaged);
    }
}

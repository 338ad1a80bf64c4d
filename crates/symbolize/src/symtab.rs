//! The symbol tables of a file: which name covers an address.
//!
//! The choice is perf's, so that a report of the same recording shows the
//! same names: functions, data objects and labels in text or data sections
//! of `.symtab` and `.dynsym`; a symbol without size reaches to the next;
//! among several at one address `Candidate::is_better_than` decides.

use crate::by_address;
use crate::demangle::{self, Demangle};
use crate::elf::{Image, Section, until_nul};
use crate::plt;
use crate::raw_symbols::{RawSymbol, raw_symbols, symbols_and_strings};
use object::elf;
use prof_profile::Svma;
use rustc_hash::FxHashMap;
use std::cell::OnceCell;
use std::cmp::Ordering;
use std::ops::Range;
use std::sync::{Arc, PoisonError, RwLock};

/// How many symbols that end before an address are passed on the way back to
/// one that encloses it. Nested symbols are few; crafted tables are not.
const ENCLOSING_STEPS: usize = 64;

/// What a name that was asked for takes beside its text: counts, place in the table.
const NAME_BYTES: usize = 64;
/// What a choice among symbols takes.
const GROUP_BYTES: usize = 32;

/// All symbols of a file, sorted by address; names stay where they are.
#[derive(Debug, Default)]
pub(crate) struct SymbolTable {
    /// Sorted by start; those with equal start in table order.
    entries: Vec<Entry>,
    long_sizes: LongSizes,
    strings: Vec<Strings>,
    known: RwLock<Known>,
}

/// What was found out about symbols, each once.
#[derive(Debug, Default)]
struct Known {
    /// The choice among the symbols of a group, by the group's first index:
    /// to choose, every name is demangled, and linkers that fold identical
    /// code make groups of hundreds.
    chosen: FxHashMap<usize, usize>,
    /// Names as shown, by index; of a large library few are asked for.
    names: FxHashMap<usize, Arc<str>>,
}

/// One symbol as it stands in a table. Large programs have millions of them, so
/// they are packed: 18 bytes instead of 24 or 32.
#[derive(Debug, Clone, Copy)]
#[repr(C, packed(2))]
struct Entry {
    start: u64,
    /// Bytes; `LongSizes::LONG` for what is there.
    size: u32,
    /// Offset of the name in its string table.
    name: u32,
    /// Index into `SymbolTable::strings`.
    strings: u8,
    binding: elf::SymbolBind,
}

/// The sizes of symbols that do not fit in an [`Entry`], by its other parts.
#[derive(Debug, Default)]
struct LongSizes(FxHashMap<(u64, u32, u8), u64>);

impl LongSizes {
    const LONG: u32 = u32::MAX;

    fn key(entry: &Entry) -> (u64, u32, u8) {
        (entry.start, entry.name, entry.strings)
    }

    /// The size of an entry, bytes.
    #[inline]
    fn of(&self, entry: &Entry) -> u64 {
        match entry.size {
            Self::LONG => self.0.get(&Self::key(entry)).copied().unwrap_or_default(),
            size => size.into(),
        }
    }

    /// Sets the size of an entry.
    fn set(&mut self, entry: &mut Entry, size: u64) {
        let short = u32::try_from(size).ok().filter(|&it| it != Self::LONG);
        entry.size = short.unwrap_or_else(|| {
            self.0.insert(Self::key(entry), size);
            Self::LONG
        });
    }
}

/// Where names are.
#[derive(Debug)]
enum Strings {
    /// A string table section of a file.
    InFile(Arc<Image>, Range<usize>),
    /// Names that were made up, each ended by a NUL.
    Made(Vec<u8>),
}

/// A symbol that covers an address.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found {
    /// Identifies the symbol within its table.
    index: usize,
    pub(crate) start: Svma,
    pub(crate) size: u64,
}

impl SymbolTable {
    /// The tables of `symbols`, the file that has `.symtab`, and of
    /// `runtime`, the file that was mapped; both may be the same.
    pub(crate) fn load(symbols: &Arc<Image>, runtime: &Arc<Image>) -> Self {
        let mut table = Self::default();
        table.add_section(symbols, runtime, ".symtab");
        table.add_section(runtime, runtime, ".dynsym");
        table.sort_and_end();
        table.add_plt(runtime);
        table
    }

    /// Bytes of memory that this takes, roughly.
    pub(crate) fn bytes(&self) -> u64 {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let names = known.names.values().map(|name| NAME_BYTES + name.len());
        let groups = known.chosen.len() * GROUP_BYTES;
        let entries = self.entries.len() * size_of::<Entry>();
        (entries + groups + names.sum::<usize>()) as u64
    }

    /// Whether there is no symbol at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The symbol that covers `svma`.
    pub(crate) fn find(&self, svma: Svma, demangle: Demangle) -> Option<Found> {
        self.find_from(&mut 0, svma, demangle)
    }

    /// [`SymbolTable::find`] for addresses that ascend: `place` is 0 before
    /// the first one, and where to go on after each.
    pub(crate) fn find_from(
        &self,
        place: &mut usize,
        svma: Svma,
        demangle: Demangle,
    ) -> Option<Found> {
        let mut end = self.behind(*place, svma);
        *place = end;
        for _ in 0..ENCLOSING_STEPS {
            let last = end.checked_sub(1)?;
            let start = self.entries.get(last)?.start;
            let before = self.entries.get(..last)?;
            // Most symbols are alone at their address.
            let group = match before.last() {
                Some(entry) if entry.start == start => {
                    before.partition_point(|entry| entry.start < start)
                }
                _ => last,
            };
            let best = self.best_of(group..end, demangle)?;
            let entry = self.entries.get(best)?;
            let (size, into) = (self.long_sizes.of(entry), svma.0.wrapping_sub(start));
            if into < size || (size, into) == (0, 0) {
                return Some(self.found(best, entry));
            }
            end = group;
        }
        None
    }

    /// The last symbol that does not start behind `svma`, wherever it ends.
    pub(crate) fn before(&self, svma: Svma, demangle: Demangle) -> Option<Found> {
        let end = self.behind(0, svma);
        let start = self.entries.get(end.checked_sub(1)?)?.start;
        let before = self.entries.get(..end)?;
        let group = before.partition_point(|entry| entry.start < start);
        let best = self.best_of(group..end, demangle)?;
        Some(self.found(best, self.entries.get(best)?))
    }

    /// How many entries do not start behind `svma`; those before `place` do
    /// not. Looks twice as far with each step, so that what is near is found
    /// without touching the middle of a large table.
    fn behind(&self, place: usize, svma: Svma) -> usize {
        let rest = self.entries.get(place..).unwrap_or_default();
        let starts_before = |entry: &Entry| entry.start <= svma.0;
        let mut reach = 16;
        while rest.get(reach).is_some_and(starts_before) {
            reach *= 2;
        }
        let near = rest.get(..reach).unwrap_or(rest);
        place + near.partition_point(starts_before)
    }

    /// The name of a symbol as it is shown, the same for each who asks.
    pub(crate) fn name(&self, found: &Found, demangle: Demangle) -> Arc<str> {
        let known = || self.known.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(name) = known().names.get(&found.index) {
            return Arc::clone(name);
        }
        let shown = demangle::name(self.raw_name_at(found.index), demangle).into();
        self.keep_name(found.index, shown)
    }

    /// Keeps a name, unless another thread was first; the one that is kept.
    fn keep_name(&self, index: usize, name: Arc<str>) -> Arc<str> {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(known.names.entry(index).or_insert(name))
    }

    /// The address of the first symbol with this name.
    pub(crate) fn address_of(&self, name: &[u8]) -> Option<Svma> {
        let mut entries = self.entries.iter();
        let found = entries.find(|entry| self.raw_name(entry) == name)?;
        Some(Svma(found.start))
    }

    /// Every symbol that can be found, by address: `place` is 0 before the first
    /// one, and where the next one is after each.
    pub(crate) fn next_from(&self, place: &mut usize, demangle: Demangle) -> Option<Found> {
        let rest = self.entries.get(*place..)?;
        let start = rest.first()?.start;
        let same = rest.partition_point(|entry| entry.start == start);
        let best = self.best_of(*place..*place + same, demangle)?;
        *place += same;
        Some(self.found(best, self.entries.get(best)?))
    }

    /// The symbol with this index.
    fn found(&self, index: usize, entry: &Entry) -> Found {
        Found {
            index,
            start: Svma(entry.start),
            size: self.long_sizes.of(entry),
        }
    }

    fn raw_name_at(&self, index: usize) -> &[u8] {
        let entry = self.entries.get(index);
        entry.map_or(&[], |entry| self.raw_name(entry))
    }

    fn raw_name(&self, entry: &Entry) -> &[u8] {
        let strings = match self.strings.get(usize::from(entry.strings)) {
            Some(Strings::InFile(image, range)) => image.bytes().get(range.clone()),
            Some(Strings::Made(bytes)) => Some(&bytes[..]),
            None => None,
        };
        strings
            .and_then(|strings| strings.get(entry.name as usize..))
            .map(until_nul)
            .unwrap_or_default()
    }

    /// Among symbols at one address, the index of the one to show: each in
    /// turn meets the best so far, as in perf.
    fn best_of(&self, group: Range<usize>, demangle: Demangle) -> Option<usize> {
        let mut indices = group;
        let first = indices.next()?;
        if indices.is_empty() {
            return Some(first);
        }
        let known = || self.known.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(&best) = known().chosen.get(&first) {
            return Some(best);
        }
        let mut best = self.candidate(first, demangle)?;
        for index in indices {
            let next = self.candidate(index, demangle)?;
            if !best.is_better_than(&next) {
                best = next;
            }
        }
        let index = best.index;
        if let Some(name) = best.name.into_inner() {
            self.keep_name(index, name.into());
        }
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.chosen.insert(first, index);
        Some(index)
    }

    fn candidate(&self, index: usize, demangle: Demangle) -> Option<Candidate<'_>> {
        let entry = self.entries.get(index)?;
        Some(Candidate {
            index,
            has_size: entry.size > 0,
            binding: entry.binding,
            raw_name: self.raw_name(entry),
            demangle,
            name: OnceCell::new(),
        })
    }

    /// Adds what perf takes from a symbol table section of `image`.
    fn add_section(&mut self, image: &Arc<Image>, runtime: &Arc<Image>, name: &str) {
        let Some((section, strings)) = symbols_and_strings(image, name) else {
            return;
        };
        let Ok(strings_index) = u8::try_from(self.strings.len()) else {
            return;
        };
        let names = image.bytes().get(strings.clone()).unwrap_or_default();
        let wanted: Vec<SectionUse> = image
            .sections
            .iter()
            .enumerate()
            .map(|(index, section)| SectionUse::of(image, runtime, section, index))
            .collect();
        // Most are wanted; what is not written to takes no memory.
        let size = RawSymbol::size(image);
        self.entries.reserve_exact(image.data(section).len() / size);
        for symbol in raw_symbols(image, section) {
            if let Some((entry, size)) = wanted_entry(image, &wanted, names, symbol) {
                let mut entry = Entry {
                    strings: strings_index,
                    ..entry
                };
                self.long_sizes.set(&mut entry, size);
                self.entries.push(entry);
            }
        }
        self.strings
            .push(Strings::InFile(Arc::clone(image), strings));
    }

    /// Sorts and lets symbols without size reach to the next one.
    fn sort_and_end(&mut self) {
        by_address::sort(&mut self.entries, |entry| entry.start);
        let mut next = self.entries.last().map_or(0, |last| {
            last.start.next_multiple_of(4096).wrapping_add(4096)
        });
        for entry in self.entries.iter_mut().rev() {
            if entry.size == 0 {
                let size = next.saturating_sub(entry.start);
                self.long_sizes.set(entry, size);
            }
            next = entry.start;
        }
    }

    /// Adds entries; those of equal address come after the ones there are.
    fn insert_sorted(&mut self, mut new: Vec<Entry>) {
        new.sort_by_key(|entry| entry.start);
        let (Some(first), Some(last)) = (new.first(), new.last()) else {
            return;
        };
        // Few are added to many.
        self.entries.reserve_exact(new.len());
        let at = |start| self.entries.partition_point(|entry| entry.start <= start);
        let place = at(first.start);
        // Stubs have a section of their own, where mostly nothing else is.
        if place == at(last.start) {
            self.entries.splice(place..place, new);
        } else {
            self.entries.append(&mut new);
            self.entries.sort_by_key(|entry| entry.start);
        }
    }

    fn add_plt(&mut self, runtime: &Image) {
        let Ok(strings) = u8::try_from(self.strings.len()) else {
            return;
        };
        let mut names = Vec::new();
        let symbol_at = |address| {
            let found = self.find(Svma(address), Demangle::No)?;
            (found.start.0 == address).then(|| self.raw_name_at(found.index).to_vec())
        };
        let mut stubs: Vec<(Entry, u64)> = Vec::new();
        for entry in plt::entries(runtime, symbol_at) {
            let Ok(name) = u32::try_from(names.len()) else {
                break;
            };
            names.extend_from_slice(&entry.name);
            names.push(0);
            let stub = Entry {
                start: entry.start,
                size: 0,
                name,
                strings,
                binding: elf::STB_GLOBAL,
            };
            let size = entry.start.saturating_add(entry.size) - entry.start;
            stubs.push((stub, size));
        }
        let sized = |(mut stub, size)| {
            self.long_sizes.set(&mut stub, size);
            stub
        };
        let stubs = stubs.into_iter().map(sized).collect();
        self.strings.push(Strings::Made(names));
        self.insert_sorted(stubs);
        // Naming the stubs has chosen among symbols that stood elsewhere.
        self.known = RwLock::default();
    }
}

/// What decides between symbols at one address.
struct Candidate<'a> {
    index: usize,
    has_size: bool,
    binding: elf::SymbolBind,
    raw_name: &'a [u8],
    demangle: Demangle,
    /// As shown, when that was needed.
    name: OnceCell<String>,
}

impl Candidate<'_> {
    fn name(&self) -> &str {
        self.name
            .get_or_init(|| demangle::name(self.raw_name, self.demangle))
    }

    /// perf's order: with a size, not weak, global, fewer leading
    /// underscores, longer name; else the one that came first, unless it is
    /// a `SyS` alias of a system call.
    fn is_better_than(&self, next: &Self) -> bool {
        let by_entry = |one: &Self| {
            (
                one.has_size,
                one.binding != elf::STB_WEAK,
                one.binding == elf::STB_GLOBAL,
            )
        };
        let by_name = |one: &Self| {
            let name = one.name();
            let underscores = name.len() - name.trim_start_matches('_').len();
            (std::cmp::Reverse(underscores), name.len())
        };
        // `.symtab` and `.dynsym` both have what a library exports.
        if self.raw_name == next.raw_name {
            return by_entry(self) >= by_entry(next);
        }
        let order = by_entry(self).cmp(&by_entry(next)).then_with(|| {
            if are_variants(self.raw_name, next.raw_name) {
                // They read the same.
                Ordering::Equal
            } else {
                by_name(self).cmp(&by_name(next))
            }
        });
        match order {
            Ordering::Greater => true,
            Ordering::Equal => {
                let may_be_alias = memchr::memmem::find(self.raw_name, b"SyS").is_some();
                let is_alias =
                    |name: &str| name.starts_with("SyS") || name.starts_with("compat_SyS");
                !(may_be_alias && is_alias(self.name()))
            }
            Ordering::Less => false,
        }
    }
}

/// Whether two names differ only in which variant of a constructor or
/// destructor they are: `..C1..` and `..C2..`. Most C++ symbols at one address
/// do, and demangling is what choosing among them costs.
fn are_variants(one: &[u8], other: &[u8]) -> bool {
    let mut different = (0..one.len()).filter(|&at| one.get(at) != other.get(at));
    let (Some(at), None) = (different.next(), different.next()) else {
        return false;
    };
    let is_variant = |name: &[u8]| {
        let end = name.get(at.saturating_sub(1)..);
        matches!(end, Some([b'C' | b'D', b'0'..=b'5', b'E', ..]))
    };
    one.len() == other.len() && is_variant(one) && is_variant(other)
}

/// What symbols in a section are good for.
#[derive(Debug, Clone, Copy)]
struct SectionUse {
    /// It is in memory when the program runs.
    is_loaded: bool,
    /// Labels in it count as symbols.
    has_labels: bool,
}

impl SectionUse {
    fn of(image: &Image, runtime: &Image, section: &Section, index: usize) -> Self {
        // A debug file keeps the headers of sections it has no bytes for; the
        // names are then the runtime file's, whose numbering is the same.
        let named = if section.kind == elf::SHT_NOBITS {
            runtime.sections.get(index).map(|it| runtime.name_of(it))
        } else {
            Some(image.name_of(section))
        };
        let name = named.unwrap_or_default();
        let contains = |part: &[u8]| name.windows(part.len()).any(|window| window == part);
        Self {
            is_loaded: section.flags & elf::SHF_ALLOC.0 != 0,
            has_labels: contains(b"text") || contains(b"data"),
        }
    }
}

/// A symbol's entry and its size in bytes if perf would take it; size and
/// `strings` are filled in later.
fn wanted_entry(
    image: &Image,
    sections: &[SectionUse],
    names: &[u8],
    symbol: RawSymbol,
) -> Option<(Entry, u64)> {
    let kind = symbol.kind();
    let named = symbol.name != 0 && (symbol.name as usize) < names.len();
    if !named || symbol.section == elf::SHN_UNDEF.0 {
        return None;
    }
    let section = sections.get(usize::from(symbol.section))?;
    let is_label = kind == elf::STT_NOTYPE && !symbol.is_hidden();
    let is_wanted = match kind {
        elf::STT_FUNC | elf::STT_GNU_IFUNC | elf::STT_OBJECT => true,
        _ => is_label && section.has_labels,
    };
    if !is_wanted || !section.is_loaded {
        return None;
    }
    let is_arm = image.machine == elf::EM_ARM;
    if (is_arm || image.machine == elf::EM_AARCH64) && is_label {
        let name = names.get(symbol.name as usize..).unwrap_or_default();
        if is_mapping_symbol(name) {
            return None;
        }
    }
    // On ARM the lowest bit of a function says that it is Thumb code.
    let is_thumb = is_arm && kind == elf::STT_FUNC && symbol.value & 1 == 1;
    let start = symbol.value - u64::from(is_thumb);
    let entry = Entry {
        start,
        size: 0,
        name: symbol.name,
        strings: 0,
        binding: elf::SymbolBind(symbol.info >> 4),
    };
    // It ends at the last address at most.
    Some((entry, start.saturating_add(symbol.size) - start))
}

/// Whether this is one of the marks `$a`, `$d`, `$t`, `$x` (with anything
/// after a dot) by which ARM tells code from data.
fn is_mapping_symbol(name: &[u8]) -> bool {
    matches!(name, [b'$', b'a' | b'd' | b't' | b'x', 0 | b'.', ..])
}

#[cfg(test)]
mod tests {
    use super::{Entry, LongSizes};
    use object::elf;

    #[test]
    fn symbols_take_18_bytes_and_keep_sizes_that_are_longer_than_four() {
        assert_eq!(size_of::<Entry>(), 18);
        let mut sizes = LongSizes::default();
        let large = [0, 1, 0xffff_fffe, 0xffff_ffff, 0x1_0000_0000, u64::MAX];
        let entries = (0..).zip(large).map(|(name, size)| {
            let mut entry = Entry {
                start: 0xffff_ffff_8000_0000,
                size: 0,
                name,
                strings: 1,
                binding: elf::STB_GLOBAL,
            };
            sizes.set(&mut entry, size);
            entry
        });
        let entries: Vec<Entry> = entries.collect();
        let kept: Vec<u64> = entries.iter().map(|entry| sizes.of(entry)).collect();
        assert_eq!(kept, large);
        assert_eq!(sizes.0.len(), 3);
    }
}

//! Where a function begins in an ELF file.

use super::super::no_probe::NoProbe;
use super::unwind_table;
use iced_x86::{Decoder, DecoderOptions};
use object::elf::STT_GNU_IFUNC;
use object::read::elf::ElfFile64;
use object::{
    Object, ObjectKind, ObjectSegment, ObjectSymbol, ReadCache, ReadRef, SymbolFlags, SymbolKind,
};
use std::fs::File;
use std::path::{Path, PathBuf};

/// Bytes from the start of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct At(pub(super) u64);

/// Where a variable is, and its size in bytes, 0 if that is not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::events) struct Variable {
    pub(in crate::events) address: u64,
    pub(in crate::events) size: u64,
}

/// An ELF file that is read where it is looked at.
pub(in crate::events) struct Binary {
    path: PathBuf,
    cache: ReadCache<File>,
}

impl Binary {
    pub(in crate::events) fn open(path: &Path) -> Result<Self, NoProbe> {
        let file =
            File::open(path).map_err(|error| NoProbe::Unreadable(path.to_owned(), error.kind()))?;
        Ok(Self {
            path: path.to_owned(),
            cache: ReadCache::new(file),
        })
    }

    pub(super) fn elf(
        &self,
    ) -> Result<ElfFile64<'_, object::Endianness, &ReadCache<File>>, NoProbe> {
        ElfFile64::parse(&self.cache).map_err(|_| NoProbe::NotElf(self.path.clone()))
    }

    /// The places of the function of this name, ascending; the file's own
    /// symbols first, then those of its debug file.
    pub(super) fn function(&self, name: &str) -> Result<Vec<At>, NoProbe> {
        let elf = self.elf()?;
        let mut addresses = addresses_of(&elf, name)?;
        if addresses.is_empty()
            && let Some(debug) = debug_file(&elf)
        {
            addresses = addresses_of(&debug.elf()?, name)?;
        }
        if addresses.is_empty() {
            return Err(NoProbe::NoFunction {
                path: self.path.clone(),
                function: name.to_owned(),
                nearest: nearest(&elf, name),
            });
        }
        let places = addresses.into_iter().map(|svma| self.place(&elf, svma));
        places.collect()
    }

    /// Where the instruction begins and ends, in bytes from the function's start,
    /// in the middle of which `offset` is; `None` if an instruction begins there,
    /// and where that is not checked: in code of other machines than x86-64, where
    /// the code ends before, and more than 16 MiB behind the start.
    pub(super) fn instruction_around(&self, At(start): At, offset: u64) -> Option<(u64, u64)> {
        const FARTHEST: u64 = 16 << 20;
        let of_x86 = self.elf().ok()?.architecture() == object::Architecture::X86_64;
        if !of_x86 || offset == 0 || offset > FARTHEST {
            return None;
        }
        // Instructions that begin before it end in these bytes.
        let code = (&self.cache).read_bytes_at(start, offset).ok()?;
        let behind = (0..16)
            .rev()
            .find_map(|more| (&self.cache).read_bytes_at(start, offset + more).ok());
        let mut decoder = Decoder::new(64, behind.unwrap_or(code), DecoderOptions::NONE);
        let mut before = 0;
        while decoder.can_decode() {
            let at = decoder.ip();
            if at >= offset {
                return (at > offset).then_some((before, at));
            }
            before = at;
            let _ = decoder.decode();
        }
        None
    }

    /// The size in bytes of the function that begins there; `None` if the file
    /// does not tell.
    pub(super) fn size_of(&self, start: At) -> Option<u64> {
        let elf = self.elf().ok()?;
        let all = elf.symbols().chain(elf.dynamic_symbols());
        let here = all.filter(|it| file_offset(&elf, it.address()) == Some(start.0));
        here.map(|it| it.size()).max().filter(|&size| size > 0)
    }

    /// The place of an address as the file has it (`nm` shows those).
    pub(super) fn address(&self, svma: u64) -> Result<At, NoProbe> {
        self.place(&self.elf()?, svma)
    }

    /// The name and address of the function that this address is in; of one
    /// without a symbol the address as its name, from the table of unwind
    /// information.
    pub(super) fn function_around(&self, svma: u64) -> Option<(String, u64)> {
        let elf = self.elf().ok()?;
        let all = elf.symbols().chain(elf.dynamic_symbols());
        let mut around = all.filter(|it| {
            let within = svma.checked_sub(it.address());
            it.kind() == SymbolKind::Text && within.is_some_and(|within| within < it.size())
        });
        if let Some(function) = around.next() {
            return Some((function.name().ok()?.to_owned(), function.address()));
        }
        let start = unwind_table::function_around(&elf, svma)?;
        Some((format!("{start:#x}"), start))
    }

    /// The first symbol of this name that is a variable or a function.
    pub(in crate::events) fn variable(&self, name: &str) -> Option<Variable> {
        let elf = self.elf().ok()?;
        let mut all = elf.symbols().chain(elf.dynamic_symbols());
        let found = all.find(|symbol| {
            let has_place = matches!(symbol.kind(), SymbolKind::Data | SymbolKind::Text);
            let is_it =
                |other: &str| other == name || name.contains("::") && is_written_as(other, name);
            has_place && !symbol.is_undefined() && symbol.name().is_ok_and(is_it)
        })?;
        Some(Variable {
            address: found.address(),
            size: found.size(),
        })
    }

    /// Whether the kernel chooses where it is loaded.
    pub(in crate::events) fn is_moved(&self) -> bool {
        self.elf()
            .is_ok_and(|elf| elf.kind() == ObjectKind::Dynamic)
    }

    /// The address of what stands at the start of the file.
    pub(in crate::events) fn first_address(&self) -> Option<u64> {
        let elf = self.elf().ok()?;
        let mut segments = elf.segments();
        let first = segments.find(|segment| segment.file_range().0 == 0)?;
        Some(first.address())
    }

    fn place<'a, R: ReadRef<'a>>(
        &self,
        elf: &ElfFile64<'a, object::Endianness, R>,
        svma: u64,
    ) -> Result<At, NoProbe> {
        file_offset(elf, svma)
            .map(At)
            .ok_or_else(|| NoProbe::NoCode {
                path: self.path.clone(),
                address: svma,
            })
    }
}

/// Where in the file an address is, by the segments that are loaded.
pub(super) fn file_offset<'a, R: ReadRef<'a>>(
    elf: &ElfFile64<'a, object::Endianness, R>,
    svma: u64,
) -> Option<u64> {
    elf.segments().find_map(|segment| {
        let (offset, size) = segment.file_range();
        let within = svma.checked_sub(segment.address())?;
        (within < size)
            .then(|| offset.checked_add(within))
            .flatten()
    })
}

type Symbols<'a, R> = ElfFile64<'a, object::Endianness, R>;

/// Every function's name and symbol; of the dynamic table too.
fn functions<'data, 'a, R: ReadRef<'data>>(
    elf: &'a Symbols<'data, R>,
) -> impl Iterator<Item = (&'data str, u64, bool)> + 'a {
    let all = elf.symbols().chain(elf.dynamic_symbols());
    all.filter_map(|symbol| {
        let SymbolFlags::Elf { st_info, .. } = symbol.flags() else {
            return None;
        };
        // Chosen when a program starts.
        let indirect = st_info.st_type() == STT_GNU_IFUNC;
        let is_code = symbol.kind() == SymbolKind::Text || indirect;
        (is_code && !symbol.is_undefined())
            .then(|| Some((symbol.name().ok()?, symbol.address(), indirect)))
            .flatten()
    })
}

/// The addresses of a function: by its name in the table or, for names with
/// `::`, as it is written in C++ and Rust.
fn addresses_of<'data, R: ReadRef<'data>>(
    elf: &Symbols<'data, R>,
    name: &str,
) -> Result<Vec<u64>, NoProbe> {
    let found = |is_it: &dyn Fn(&str) -> bool| -> Vec<(u64, bool)> {
        let all = functions(elf).filter(|(other, ..)| is_it(other));
        all.map(|(_, address, indirect)| (address, indirect))
            .collect()
    };
    let mut all = found(&|other| other == name);
    if all.is_empty() && name.contains("::") {
        all = found(&|other| is_written_as(other, name));
    }
    if all.iter().any(|&(_, indirect)| indirect) {
        return Err(NoProbe::Indirect(name.to_owned()));
    }
    let mut all: Vec<u64> = all.into_iter().map(|(address, _)| address).collect();
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

/// Whether a symbol is the function that a source calls `name`.
fn is_written_as(symbol: &str, name: &str) -> bool {
    if let Ok(rust) = rustc_demangle::try_demangle(symbol) {
        return format!("{rust:#}") == name;
    }
    if !symbol.starts_with("_Z") {
        return false;
    }
    let options = cpp_demangle::DemangleOptions::new().no_params();
    cpp_demangle::Symbol::new(symbol)
        .ok()
        .and_then(|symbol| symbol.demangle_with_options(&options).ok())
        .is_some_and(|cpp| cpp == name)
}

/// The separate debug file that the build-id names, if it is installed.
fn debug_file<'a, R: ReadRef<'a>>(elf: &Symbols<'a, R>) -> Option<Binary> {
    let id = elf.build_id().ok()??;
    let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
    let (first, rest) = hex.split_at_checked(2)?;
    Binary::open(Path::new(&format!(
        "/usr/lib/debug/.build-id/{first}/{rest}.debug"
    )))
    .ok()
}

/// A function whose name is near to one that is not there.
fn nearest<'data, R: ReadRef<'data>>(elf: &Symbols<'data, R>, name: &str) -> Option<String> {
    let near =
        |other: &&str| other.len().abs_diff(name.len()) <= 3 && other.get(..1) == name.get(..1);
    let contains = functions(elf)
        .map(|(other, ..)| other)
        .find(|other| name.len() >= 4 && other.contains(name));
    functions(elf)
        .map(|(other, ..)| other)
        .filter(near)
        .map(|other| (super::super::names::distance(name, other), other))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, other)| *distance <= 1 + other.len() / 4)
        .map(|(_, other)| other)
        .or(contains)
        .map(str::to_owned)
}

//! One file's answers: which function, which inlined frames, which line.

use crate::answers::{Detail, LineRow, Lookup, Symbol};
use crate::contents::FileStamp;
use crate::demangle::Demangle;
use crate::dwarf::{Asked, DebugInfo, Source, SplitPlaces};
use crate::elf::{Image, Segment};
use crate::embedded::Piece;
use crate::extents::Extents;
use crate::go::GoNames;
use crate::search::Located;
use crate::symtab::{Found, SymbolTable};
use prof_abi::BuildId;
use prof_profile::{FileOffset, Svma, UnnamedReason};
use rayon::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

/// The files of one dso, read as far as was asked. Shared between threads.
#[derive(Debug)]
pub(crate) struct FileOnDisk {
    runtime: Arc<Image>,
    symbols_from: Arc<Image>,
    symbols_path: PathBuf,
    debug_from: Option<Arc<Image>>,
    supplementary: Option<Arc<Image>>,
    split_places: SplitPlaces,
    demangle: Demangle,
    seen: Option<(PathBuf, FileStamp)>,
    /// Replaced by empty ones when they are to be forgotten.
    tables: RwLock<Arc<Tables>>,
}

/// What was read of the files so far.
#[derive(Debug, Default)]
struct Tables {
    symbols: OnceLock<SymbolTable>,
    debug: OnceLock<DebugInfo>,
    /// Needed where there are no symbols.
    extents: OnceLock<Extents>,
    /// Needed where there is no debug information.
    go: OnceLock<Option<GoNames>>,
}

impl FileOnDisk {
    pub(crate) fn new(located: Located, demangle: Demangle) -> Self {
        Self {
            runtime: located.runtime,
            symbols_from: located.symbols,
            symbols_path: located.symbols_path,
            debug_from: located.debug,
            supplementary: located.supplementary,
            split_places: located.split_places,
            demangle,
            seen: located.seen,
            tables: RwLock::default(),
        }
    }

    fn tables(&self) -> Arc<Tables> {
        let tables = self.tables.read();
        Arc::clone(&tables.unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether the mapped file is still what stands at its path; `None` if that
    /// cannot be told.
    pub(crate) fn is_in_place(&self) -> Option<bool> {
        let (path, stamp) = self.seen.as_ref()?;
        Some(stamp.is_of(path))
    }

    /// Whether symbols or debug information are in memory.
    pub(crate) fn holds_tables(&self) -> bool {
        let tables = self.tables();
        tables.symbols.get().is_some() || tables.debug.get().is_some()
    }

    /// Bytes of memory that the tables take, roughly.
    pub(crate) fn table_bytes(&self) -> u64 {
        let tables = self.tables();
        let symbols = tables.symbols.get().map_or(0, SymbolTable::bytes);
        let extents = tables.extents.get().map_or(0, Extents::bytes);
        symbols + extents + tables.debug.get().map_or(0, DebugInfo::bytes)
    }

    /// Whether look-ups have used up much of what the debug information may cost.
    pub(crate) fn is_worn(&self) -> bool {
        let tables = self.tables();
        tables.debug.get().is_some_and(DebugInfo::is_worn)
    }

    /// Drops what was read of the files; it is read again when needed.
    pub(crate) fn forget_tables(&self) {
        let tables = self.tables.write();
        *tables.unwrap_or_else(PoisonError::into_inner) = Arc::default();
        self.release_pages();
    }

    /// The file that the names come from.
    pub(crate) fn symbols_path(&self) -> &Path {
        &self.symbols_path
    }

    /// The build-id of the mapped file.
    pub(crate) fn build_id(&self) -> Option<BuildId> {
        self.runtime.build_id()
    }

    /// Where the byte at a file offset is in the file's address space, by
    /// its program headers; `None` if no segment loads it.
    pub(crate) fn svma_of_file_offset(&self, offset: FileOffset) -> Option<Svma> {
        self.runtime.svma_of(offset)
    }

    /// Reads what look-ups of this detail need of the file, so that they do
    /// not wait for it.
    pub(crate) fn prepare(&self, detail: Detail) {
        let tables = self.tables();
        self.symbols_of(&tables);
        // What follows reads other parts of the files.
        self.release_pages();
        if let Some(info) = self.debug_info(&tables, detail) {
            info.prepare();
        }
        self.release_pages();
    }

    /// Gives back the memory that pages of the files take. They are read
    /// again when needed: call it when much was looked up and little will be.
    pub(crate) fn release_pages(&self) {
        let images = [&self.runtime, &self.symbols_from];
        let more = [&self.debug_from, &self.supplementary];
        for image in images.into_iter().chain(more.into_iter().flatten()) {
            image.release_pages();
        }
    }

    /// The pieces of the file that are loaded, those of code first.
    pub(crate) fn pieces(&self) -> Vec<Piece> {
        let loaded = |it: &&Segment| it.kind == object::elf::PT_LOAD;
        let mut segments: Vec<&Segment> = self.runtime.segments.iter().filter(loaded).collect();
        segments.sort_by_key(|segment| !segment.is_executable);
        let piece = |segment: &Segment| Piece {
            offset: segment.offset,
            svma: segment.address,
            size: segment.file_size,
        };
        segments.into_iter().map(piece).collect()
    }

    /// Whether there is debug information.
    pub(crate) fn has_lines(&self) -> bool {
        self.debug_from.is_some()
    }

    /// What stands at an address. For a return address, ask for the address
    /// one byte before it.
    pub(crate) fn lookup(&self, svma: Svma, detail: Detail) -> Lookup {
        let tables = &self.tables();
        let symbol = self.symbols_of(tables).find(svma, self.demangle);
        let asked = Asked {
            svma,
            detail,
            has_symbol: symbol.is_some(),
        };
        let source = self
            .debug_info(tables, detail)
            .and_then(|info| info.find(asked))
            .or_else(|| self.by_go(tables, svma, detail));
        self.joined(tables, svma, (symbol, source))
    }

    /// [`FileOnDisk::lookup`] for many addresses, in the order given; each
    /// distinct one is looked up once, in parallel.
    pub(crate) fn lookup_many(&self, addresses: &[Svma], detail: Detail) -> Vec<Lookup> {
        let mut order: Vec<u32> = (0..).take(addresses.len()).collect();
        let address = |&index: &u32| addresses.get(index as usize).copied();
        order.sort_unstable_by_key(address);
        let mut distinct: Vec<Svma> = order.iter().filter_map(address).collect();
        distinct.dedup();
        let tables = &self.tables();
        let symbols = self.symbols_of(tables);
        let symbols: Vec<Option<Found>> = distinct
            .par_iter()
            .with_min_len(512)
            .map_with(0, |place, &svma| {
                symbols.find_from(place, svma, self.demangle)
            })
            .collect();
        let sources = match self.debug_info(tables, detail) {
            Some(info) => {
                let asked = distinct.iter().zip(&symbols);
                let asked = asked.map(|(&svma, symbol)| Asked {
                    svma,
                    detail,
                    has_symbol: symbol.is_some(),
                });
                info.find_many(&asked.collect::<Vec<_>>())
            }
            None => vec![None; distinct.len()],
        };
        let found: Vec<Lookup> = distinct
            .par_iter()
            .zip(symbols.into_par_iter().zip(sources))
            .with_min_len(512)
            .map(|(&svma, (symbol, source))| {
                let source = source.or_else(|| self.by_go(tables, svma, detail));
                self.joined(tables, svma, (symbol, source))
            })
            .collect();
        let mut answers: Vec<Lookup> = Vec::new();
        answers.resize_with(addresses.len(), Lookup::default);
        let mut put = |&index: &u32, answer| {
            if let Some(slot) = answers.get_mut(index as usize) {
                *slot = answer;
            }
        };
        let askers = order.chunk_by(|left, right| address(left) == address(right));
        for (same, found) in askers.zip(found) {
            // The last who asks gets the answer itself, others a copy.
            let Some((last, others)) = same.split_last() else {
                continue;
            };
            others.iter().for_each(|asker| put(asker, found.clone()));
            put(last, found);
        }
        answers
    }

    /// The source lines of `start..end`, by address; none without debug
    /// information and Go's own table.
    pub(crate) fn line_rows(&self, start: Svma, end: Svma) -> Vec<LineRow> {
        let tables = self.tables();
        let info = self.debug_info(&tables, Detail::Source);
        let rows = info.map(|info| info.lines(start, end)).unwrap_or_default();
        match rows.is_empty() {
            true => self.rows_by_go(&tables, start, end),
            false => rows,
        }
    }

    /// The same of Go's own table, which is asked for each address.
    fn rows_by_go(&self, tables: &Tables, start: Svma, end: Svma) -> Vec<LineRow> {
        /// Longer functions have lines up to here, bytes.
        const LONGEST: u64 = 64 << 10;
        let mut rows: Vec<LineRow> = Vec::new();
        // Most files have none, and are not asked a thousand times for it.
        if self.go_names(tables).is_none() {
            return rows;
        }
        let end = end.0.min(start.0.saturating_add(LONGEST));
        for address in start.0..end {
            let Some(source) = self.by_go(tables, Svma(address), Detail::Source) else {
                continue;
            };
            let Some(frame) = source.frames.into_iter().next() else {
                continue;
            };
            let last = rows.last();
            if last.is_none_or(|last| (&last.file, last.line) != (&frame.file, frame.line)) {
                rows.push(LineRow {
                    address: Svma(address),
                    file: frame.file,
                    line: frame.line,
                });
            }
        }
        rows
    }

    /// Puts together what the symbol table and the debug information say.
    /// The name of the function that stands in the file is the symbol's.
    fn joined(
        &self,
        tables: &Tables,
        svma: Svma,
        (found, source): (Option<Found>, Option<Source>),
    ) -> Lookup {
        let symbol = found.map(|found| self.symbol(tables, &found));
        let Some(Source {
            mut frames,
            function,
        }) = source
        else {
            return match symbol {
                Some(symbol) => Lookup::of_symbol(symbol),
                None => self.unnamed(tables, svma),
            };
        };
        let symbol = symbol.or_else(|| {
            let (start, size) = function?;
            let name = Arc::clone(&frames.last()?.name);
            (!name.is_empty()).then_some(Symbol { name, start, size })
        });
        let Some(symbol) = symbol else {
            return self.unnamed(tables, svma);
        };
        if let Some(outer) = frames.last_mut() {
            outer.name = Arc::clone(&symbol.name);
        }
        Lookup {
            symbol: Some(symbol),
            frames,
            reason: None,
            extent: None,
        }
    }

    /// What the function table of a Go program says of an address.
    fn by_go(&self, tables: &Tables, svma: Svma, detail: Detail) -> Option<Source> {
        let go = self.go_names(tables)?;
        go.find(&self.runtime, svma, detail)
    }

    fn go_names<'t>(&self, tables: &'t Tables) -> Option<&'t GoNames> {
        let go = tables.go.get_or_init(|| GoNames::load(&self.runtime));
        go.as_ref()
    }

    /// An address without a name, with the function that it is in.
    fn unnamed(&self, tables: &Tables, svma: Svma) -> Lookup {
        let extents = || {
            let extents = Extents::load(&self.runtime);
            // All of a section was read, which is not needed again.
            self.runtime.release_pages();
            extents
        };
        Lookup {
            extent: tables.extents.get_or_init(extents).find(svma),
            ..Lookup::unnamed(self.reason(tables))
        }
    }

    fn debug_info<'t>(&self, tables: &'t Tables, detail: Detail) -> Option<&'t DebugInfo> {
        let image = self.debug_from.as_ref()?;
        (detail != Detail::Symbol).then(|| {
            tables.debug.get_or_init(|| {
                let how = (self.demangle, self.split_places.clone());
                DebugInfo::load(image, self.supplementary.as_ref(), how)
            })
        })
    }

    /// All symbols by address, as perf would show them.
    pub(crate) fn symbols(&self) -> impl Iterator<Item = Symbol> {
        let (tables, mut place) = (self.tables(), 0);
        std::iter::from_fn(move || {
            let found = self
                .symbols_of(&tables)
                .next_from(&mut place, self.demangle)?;
            Some(self.symbol(&tables, &found))
        })
    }

    /// The last symbol that does not start behind an address, which may be
    /// long behind that symbol's end.
    pub(crate) fn symbol_before(&self, svma: Svma) -> Option<Symbol> {
        let tables = self.tables();
        let found = self.symbols_of(&tables).before(svma, self.demangle)?;
        Some(self.symbol(&tables, &found))
    }

    /// The address of the symbol with this name, as in the symbol table.
    pub(crate) fn address_of(&self, name: &str) -> Option<Svma> {
        let tables = self.tables();
        self.symbols_of(&tables).address_of(name.as_bytes())
    }

    /// Instruction bytes from an address on, up to `length` of them; `None`
    /// if the file does not load that address.
    pub(crate) fn text_bytes(&self, start: Svma, length: u64) -> Option<&[u8]> {
        self.runtime.bytes_at(start, length)
    }

    /// Whether the file is for 64-bit processes.
    pub(crate) fn is_64_bit(&self) -> bool {
        self.runtime.is_64
    }

    fn symbols_of<'t>(&self, tables: &'t Tables) -> &'t SymbolTable {
        tables
            .symbols
            .get_or_init(|| SymbolTable::load(&self.symbols_from, &self.runtime))
    }

    fn symbol(&self, tables: &Tables, found: &Found) -> Symbol {
        Symbol {
            name: self.symbols_of(tables).name(found, self.demangle),
            start: found.start,
            size: found.size,
        }
    }

    fn reason(&self, tables: &Tables) -> UnnamedReason {
        if self.symbols_of(tables).is_empty() {
            UnnamedReason::Stripped
        } else {
            UnnamedReason::NoSymbolThere
        }
    }
}

//! Debug information: inlined functions and source lines.
//!
//! Read with gimli, straight from the file's bytes. Nothing here borrows, so
//! what was read once is shared between threads: the index of units when the
//! file is first asked, a unit's functions and lines when an address in it
//! is, the calls inlined into a function likewise.
//!
//! `addr2line` is not used because it follows nested entries by recursion
//! without a bound and cannot be shared between threads.

mod budget;
mod functions;
mod lines;
mod names;
mod sections;
mod session;
mod split;
mod units;
mod walk;

use crate::answers::{Detail, LineRow, SourceFrame};
use crate::demangle::Demangle;
use crate::elf::Image;
use budget::{Budget, Exhausted};
use functions::{Functions, InlinedCall};
use gimli::{Abbreviations, Unit};
use lines::{LineTable, SourceLine, file_path};
use names::{EntryRef, FunctionName, Wanted, name_of};
use prof_profile::Svma;
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use sections::{Sections, Slice};
use session::Session;
use split::SplitOf;
pub(crate) use split::SplitPlaces;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use units::UnitIndex;

/// When so many bytes of units were read, the file's mapped pages go: of most of
/// them nothing is needed again.
const RELEASE_AFTER: u64 = 32 << 20;

/// What an entry that the budget counts takes.
const ENTRY_BYTES: u64 = 32;
/// What a known name takes beside its text.
const NAME_BYTES: u64 = 160;

/// The debug information of one file. Shared between threads.
#[derive(Debug)]
pub(crate) struct DebugInfo {
    sections: Arc<Sections>,
    supplementary: Option<Box<DebugInfo>>,
    demangle: Demangle,
    budget: Budget,
    /// Where units start in `.debug_info`.
    offsets: Vec<usize>,
    index: OnceLock<UnitIndex>,
    units: Vec<OnceLock<UnitTables>>,
    /// Bytes of the units that were read.
    read: AtomicU64,
    abbreviations: Mutex<FxHashMap<usize, Arc<Abbreviations>>>,
    names: Mutex<FxHashMap<(usize, Wanted), FunctionName>>,
    /// Names as they are shown, by where they stand in the file's bytes.
    shown: Mutex<FxHashMap<(usize, Demangle), Arc<str>>>,
    /// Where units are that stand apart.
    places: SplitPlaces,
    package: OnceLock<Option<Arc<Sections>>>,
    /// By the number of a skeleton: what it stands for, and the number of the
    /// unit in there.
    splits: Vec<OnceLock<split::Opened>>,
    /// What this is a part of, if it stands apart itself.
    split_of: Option<SplitOf>,
}

/// What was read of one unit.
#[derive(Debug, Default)]
struct UnitTables {
    functions: Functions,
    /// Read when a line is first asked for.
    lines: OnceLock<LineTable>,
}

/// Debug information that makes no sense or costs too much; what was read
/// before is still used.
#[derive(Debug, Clone, Copy)]
struct Fault;

impl From<gimli::Error> for Fault {
    fn from(_: gimli::Error) -> Self {
        Self
    }
}

impl From<Exhausted> for Fault {
    fn from(_: Exhausted) -> Self {
        Self
    }
}

/// An address that is looked up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) svma: Svma,
    pub(crate) detail: Detail,
    /// Whether the symbol table names what stands there: the function around
    /// all inlined ones needs no name then.
    pub(crate) has_symbol: bool,
}

/// What the debug information says of one address.
#[derive(Debug, Clone, Default)]
pub(crate) struct Source {
    /// Innermost first. The last one is the function that stands in the
    /// file; its name is empty if only lines are known, or if the symbol table
    /// has it.
    pub(crate) frames: Vec<SourceFrame>,
    /// First address and length of that function's piece of code.
    pub(crate) function: Option<(Svma, u64)>,
}

impl DebugInfo {
    /// Finds the debug sections and the units in them.
    pub(crate) fn load(
        image: &Arc<Image>,
        supplementary: Option<&Arc<Image>>,
        (demangle, places): (Demangle, SplitPlaces),
    ) -> Self {
        let sections = Arc::new(Sections::load(image));
        let supplementary = supplementary.map(|image| {
            let how = (demangle, SplitPlaces::default());
            Box::new(Self::load(image, None, how))
        });
        let mut info = Self::of_sections(sections, supplementary, (demangle, places));
        info.sections.read_heads_ahead();
        info.offsets = UnitIndex::read_offsets(&info.sections.dwarf(None));
        info.units.resize_with(info.offsets.len(), OnceLock::new);
        info.splits.resize_with(info.offsets.len(), OnceLock::new);
        info
    }

    /// Of these sections, whose units are not known yet.
    fn of_sections(
        sections: Arc<Sections>,
        supplementary: Option<Box<Self>>,
        (demangle, places): (Demangle, SplitPlaces),
    ) -> Self {
        let budget = Budget::new(sections.unpacked_length(), sections.packed_length());
        Self {
            sections,
            supplementary,
            demangle,
            budget,
            offsets: Vec::new(),
            index: OnceLock::new(),
            units: Vec::new(),
            read: AtomicU64::new(0),
            abbreviations: Mutex::default(),
            names: Mutex::default(),
            shown: Mutex::default(),
            places,
            package: OnceLock::new(),
            splits: Vec::new(),
            split_of: None,
        }
    }

    /// Bytes of memory that this takes, roughly.
    pub(crate) fn bytes(&self) -> u64 {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let texts = shown.values().map(|name| name.len() as u64);
        let units = self.units.len() * size_of::<OnceLock<UnitTables>>();
        let more = self.supplementary.as_deref().map_or(0, Self::bytes);
        let entries = self.budget.kept() * ENTRY_BYTES + (names.len() as u64) * NAME_BYTES;
        self.sections.held() + entries + texts.sum::<u64>() + units as u64 + more
    }

    /// Whether much of what may be done and kept for the file's sake was.
    pub(crate) fn is_worn(&self) -> bool {
        let more = self.supplementary.as_deref();
        self.budget.is_worn() || more.is_some_and(Self::is_worn)
    }

    /// Finds out which unit covers which address.
    pub(crate) fn prepare(&self) {
        self.index();
    }

    /// What is known of each address; they must be sorted.
    pub(crate) fn find_many(&self, addresses: &[Asked]) -> Vec<Option<Source>> {
        let index = self.index();
        let first_unit = |asked: &Asked| index.covering(asked.svma).next();
        let runs: Vec<&[Asked]> = addresses
            .chunk_by(|left, right| first_unit(left) == first_unit(right))
            .collect();
        runs.par_iter()
            .enumerate()
            .map_init(
                || Session::new(self),
                |session, (place, run)| {
                    let next = runs.get(place + 1).and_then(|run| run.first());
                    self.read_ahead(next.and_then(first_unit));
                    let found = run.iter().map(|&asked| self.find_in(session, asked));
                    found.collect::<Vec<_>>()
                },
            )
            .flatten()
            .collect()
    }

    /// What is known of an address.
    pub(crate) fn find(&self, asked: Asked) -> Option<Source> {
        self.find_in(&Session::new(self), asked)
    }

    /// The source lines of `start..end`: each row's first address, file and
    /// line, by address.
    pub(crate) fn lines(&self, start: Svma, end: Svma) -> Vec<LineRow> {
        let session = Session::new(self);
        let mut rows = Vec::new();
        for number in self.index().overlapping(start, end) {
            if let Some(tables) = self.tables(&session, number)
                && let Ok(unit) = session.unit(number)
            {
                rows.extend(tables.lines(&session, &unit).rows(start, end));
            }
        }
        rows.sort_by_key(|row: &LineRow| row.address);
        rows
    }

    fn find_in(&self, session: &Session<'_>, asked: Asked) -> Option<Source> {
        self.index().covering(asked.svma).find_map(|number| {
            let tables = self.tables(session, number)?;
            let unit = session.unit(number).ok()?;
            let line = || tables.lines(session, &unit).find(asked.svma);
            let split = session.split(number, &unit).and_then(|(inner, number)| {
                let tables = inner.info.tables(&inner, number)?;
                let unit = inner.unit(number).ok()?;
                tables.find((&inner, &unit), asked, line)
            });
            split.or_else(|| tables.find((session, &unit), asked, line))
        })
    }

    fn dwarf(&self) -> gimli::Dwarf<Slice<'_>> {
        let supplementary = self.supplementary.as_deref();
        self.sections.dwarf(supplementary.map(|it| &*it.sections))
    }

    /// The units by address. Two threads that ask first both build it, rather
    /// than wait in a pool whose threads the building needs.
    fn index(&self) -> &UnitIndex {
        if let Some(index) = self.index.get() {
            return index;
        }
        let index = UnitIndex::read(&self.offsets, || Session::new(self));
        self.index.get_or_init(|| index)
    }

    fn tables(&self, session: &Session<'_>, number: u32) -> Option<&UnitTables> {
        let slot = self.units.get(number as usize)?;
        Some(slot.get_or_init(|| {
            let tables = session.unit(number).map_or_else(
                |_| UnitTables::default(),
                |unit| UnitTables::read(session, &unit),
            );
            self.release_pages(number);
            tables
        }))
    }

    /// Where a unit is in `.debug_info`.
    fn extent(&self, number: u32) -> Option<Range<usize>> {
        let start = *self.offsets.get(number as usize)?;
        let next = self.offsets.get(number as usize + 1).copied();
        Some(start..next.unwrap_or_else(|| self.sections.info_length()))
    }

    /// Has a unit that is looked at next read from the file meanwhile.
    fn read_ahead(&self, unit: Option<u32>) {
        let Some(number) = unit else { return };
        let is_read = |tables: &OnceLock<_>| tables.get().is_some();
        if !self.units.get(number as usize).is_none_or(is_read)
            && let Some(extent) = self.extent(number)
        {
            self.sections.read_info_ahead(extent);
        }
    }

    /// Gives the memory of mapped pages back from time to time, now that a unit
    /// was read.
    fn release_pages(&self, number: u32) {
        let length = self.extent(number).map_or(0, |extent| extent.len());
        // ORDERING: Relaxed, because only the sum matters.
        let before = self.read.fetch_add(length as u64, Ordering::Relaxed);
        if before / RELEASE_AFTER != before.saturating_add(length as u64) / RELEASE_AFTER {
            self.sections.release_pages();
        }
    }
}

impl UnitTables {
    fn read<'a>(session: &Session<'a>, unit: &Unit<Slice<'a>>) -> Self {
        Self {
            functions: Functions::read(session, unit),
            lines: OnceLock::new(),
        }
    }

    fn lines<'a>(&self, session: &Session<'a>, unit: &Unit<Slice<'a>>) -> &LineTable {
        self.lines.get_or_init(|| LineTable::read(session, unit))
    }

    /// The frames at an address: the line table tells where the innermost
    /// function is, and each inlined call where the one around it is.
    fn find<'a>(
        &self,
        (session, unit): (&Session<'a>, &Unit<Slice<'a>>),
        asked: Asked,
        line: impl FnOnce() -> Option<SourceLine>,
    ) -> Option<Source> {
        let found = self.functions.find(asked.svma);
        let with_lines = asked.detail == Detail::Source;
        // Without a function, only a line tells whether the address is of
        // this unit.
        let line = (with_lines || found.is_none()).then(line).flatten();
        if found.is_none() && line.is_none() {
            return None;
        }
        let mut place = line.unwrap_or_default();
        let mut frames = Vec::new();
        if let Some((_, function)) = found {
            for call in function.inlines(session, unit).at(asked.svma).iter().rev() {
                let name = call
                    .origin
                    .map(|origin| name_of(session, origin, Wanted::All));
                let caller = with_lines.then(|| self.place_of_call(session, unit, call));
                if let Some(FunctionName {
                    name: Some(name),
                    defined_at,
                }) = name
                {
                    frames.push(place.into_frame(name, true, defined_at));
                }
                place = caller.unwrap_or_default();
            }
        }
        let wanted = match asked.has_symbol {
            true => Wanted::Place,
            false => Wanted::All,
        };
        let outer = found
            .and_then(|(_, function)| function.entry.to_debug_info_offset(&unit.header))
            .map(|entry| name_of(session, EntryRef::Here(entry.0), wanted))
            .unwrap_or_default();
        let name = outer.name.unwrap_or_else(|| "".into());
        frames.push(place.into_frame(name, false, outer.defined_at));
        Some(Source {
            frames,
            function: found.map(|((start, size), _)| (start, size)),
        })
    }

    fn place_of_call<'a>(
        &self,
        session: &Session<'a>,
        unit: &Unit<Slice<'a>>,
        call: &InlinedCall,
    ) -> SourceLine {
        let number = call.call_file;
        let file = number.and_then(|number| {
            let known = u32::try_from(number).ok();
            known
                .and_then(|number| self.lines(session, unit).file(number))
                .or_else(|| {
                    let header = unit.line_program.as_ref()?.header();
                    Some(file_path(session, unit, header, number)?.into())
                })
        });
        SourceLine {
            file,
            line: call.call_line,
        }
    }
}

impl SourceLine {
    fn into_frame(
        self,
        name: Arc<str>,
        is_inline: bool,
        defined_at: Option<(Arc<str>, u32)>,
    ) -> SourceFrame {
        SourceFrame {
            name,
            file: self.file,
            line: self.line,
            is_inline,
            defined_at,
        }
    }
}

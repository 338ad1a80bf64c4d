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

use crate::answers::{Detail, LineRow, SourceFrame};
use crate::demangle::Demangle;
use crate::elf::Image;
use budget::{Budget, Exhausted};
use functions::{Functions, InlinedCall};
use gimli::{Abbreviations, Unit};
use lines::{LineTable, SourceLine, file_path};
use names::{EntryRef, FunctionName, name_of};
use prof_profile::Svma;
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use sections::{Sections, Slice};
use session::Session;
use split::SplitOf;
pub(crate) use split::SplitPlaces;
use std::sync::{Arc, Mutex, OnceLock};
use units::UnitIndex;

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
    abbreviations: Mutex<FxHashMap<usize, Arc<Abbreviations>>>,
    names: Mutex<FxHashMap<usize, FunctionName>>,
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

/// What the debug information says of one address.
#[derive(Debug, Clone, Default)]
pub(crate) struct Source {
    /// Innermost first. The last one is the function that stands in the
    /// file; its name is empty if only lines are known.
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
            abbreviations: Mutex::default(),
            names: Mutex::default(),
            shown: Mutex::default(),
            places,
            package: OnceLock::new(),
            splits: Vec::new(),
            split_of: None,
        }
    }

    /// Finds out which unit covers which address.
    pub(crate) fn prepare(&self) {
        self.index();
    }

    /// What is known of each address; they must be sorted.
    pub(crate) fn find_many(&self, addresses: &[Svma], detail: Detail) -> Vec<Option<Source>> {
        let index = self.index();
        let first_unit = |svma: &Svma| index.covering(*svma).next();
        let runs: Vec<&[Svma]> = addresses
            .chunk_by(|left, right| first_unit(left) == first_unit(right))
            .collect();
        runs.into_par_iter()
            .map_init(
                || Session::new(self),
                |session, run| {
                    let found = run.iter().map(|&svma| self.find_in(session, svma, detail));
                    found.collect::<Vec<_>>()
                },
            )
            .flatten()
            .collect()
    }

    /// What is known of an address.
    pub(crate) fn find(&self, svma: Svma, detail: Detail) -> Option<Source> {
        self.find_in(&Session::new(self), svma, detail)
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

    fn find_in(&self, session: &Session<'_>, svma: Svma, detail: Detail) -> Option<Source> {
        self.index().covering(svma).find_map(|number| {
            let tables = self.tables(session, number)?;
            let unit = session.unit(number).ok()?;
            let line = || tables.lines(session, &unit).find(svma);
            let split = session.split(number, &unit).and_then(|(inner, number)| {
                let tables = inner.info.tables(&inner, number)?;
                let unit = inner.unit(number).ok()?;
                tables.find((&inner, &unit), (svma, detail), line)
            });
            split.or_else(|| tables.find((session, &unit), (svma, detail), line))
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
            session.unit(number).map_or_else(
                |_| UnitTables::default(),
                |unit| UnitTables::read(session, &unit),
            )
        }))
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
        (svma, detail): (Svma, Detail),
        line: impl FnOnce() -> Option<SourceLine>,
    ) -> Option<Source> {
        let found = self.functions.find(svma);
        let with_lines = detail == Detail::Source;
        // Without a function, only a line tells whether the address is of
        // this unit.
        let line = (with_lines || found.is_none()).then(line).flatten();
        if found.is_none() && line.is_none() {
            return None;
        }
        let mut place = line.unwrap_or_default();
        let mut frames = Vec::new();
        if let Some((_, function)) = found {
            for call in function.inlines(session, unit).at(svma).iter().rev() {
                let name = call.origin.map(|origin| name_of(session, origin));
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
        let outer = found
            .and_then(|(_, function)| function.entry.to_debug_info_offset(&unit.header))
            .map(|entry| name_of(session, EntryRef::Here(entry.0)))
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

//! One thread's view of a file's debug information, for one batch of work.

use super::budget::{Exhausted, Purse};
use super::{DebugInfo, Fault, Slice};
use gimli::{Abbreviations, DebugInfoOffset, Reader, Section, Unit};
use rustc_hash::FxHashMap;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, PoisonError};

/// An abbreviation takes as much memory as this many kept entries.
const KEPT_PER_ABBREVIATION: u64 = 4;
/// Units that a session keeps at hand.
const UNITS_KEPT: usize = 256;

/// Borrows a file's sections and keeps the units it has opened.
pub(super) struct Session<'a> {
    pub(super) info: &'a DebugInfo,
    pub(super) dwarf: gimli::Dwarf<Slice<'a>>,
    pub(super) budget: Purse<'a>,
    units: RefCell<FxHashMap<u32, Rc<Unit<Slice<'a>>>>>,
    /// Sessions on what skeletons stand for, by the skeleton's number.
    pub(super) splits: RefCell<FxHashMap<u32, Opened<'a>>>,
    /// Whose place these units take, if they stand apart from their file.
    skeleton: Option<Rc<Unit<Slice<'a>>>>,
}

/// A session on the unit that a skeleton stands for, and its number there.
type Opened<'a> = Option<(Rc<Session<'a>>, u32)>;

impl<'a> Session<'a> {
    pub(super) fn new(info: &'a DebugInfo) -> Self {
        Self {
            info,
            dwarf: info.dwarf(),
            budget: Purse::new(&info.budget),
            units: RefCell::default(),
            splits: RefCell::default(),
            skeleton: None,
        }
    }

    /// A session on units that stand apart from `parent`'s file.
    pub(super) fn of_split(
        info: &'a DebugInfo,
        parent: &gimli::Dwarf<Slice<'a>>,
        skeleton: Rc<Unit<Slice<'a>>>,
    ) -> Result<Self, Fault> {
        Ok(Self {
            info,
            dwarf: info.split_dwarf(parent)?,
            budget: Purse::new(&info.budget),
            units: RefCell::default(),
            splits: RefCell::default(),
            skeleton: Some(skeleton),
        })
    }

    /// The unit with this number: its header, abbreviations and root entry.
    pub(super) fn unit(&self, number: u32) -> Result<Rc<Unit<Slice<'a>>>, Fault> {
        if let Some(unit) = self.units.borrow().get(&number) {
            return Ok(Rc::clone(unit));
        }
        let offset = self.info.offsets.get(number as usize).ok_or(Fault)?;
        let header = self.dwarf.unit_header(DebugInfoOffset(*offset))?;
        let abbreviations = self.abbreviations(header.debug_abbrev_offset())?;
        let mut unit = Unit::new_with_abbreviations(&self.dwarf, header, abbreviations)?;
        self.pay_for(&unit)?;
        if let Some(skeleton) = &self.skeleton {
            unit.copy_relocated_attributes(skeleton);
            unit.comp_dir = unit.comp_dir.or(skeleton.comp_dir);
            // Of gcc's split files of version 4 nothing points to their one table
            // of files; clang's and rustc's have none, and mean the skeleton's.
            if unit.line_program.is_none() {
                let (start, size) = (gimli::DebugLineOffset(0), unit.header.address_size());
                let (directory, name) = (unit.comp_dir, unit.name);
                let program = self.dwarf.debug_line.program(start, size, directory, name);
                unit.line_program = program.ok().or_else(|| skeleton.line_program.clone());
            }
        }
        let unit = Rc::new(unit);
        let mut units = self.units.borrow_mut();
        if units.len() >= UNITS_KEPT {
            units.clear();
        }
        units.insert(number, Rc::clone(&unit));
        Ok(unit)
    }

    /// The unit with this number, of which only the root entry may be looked
    /// at: of its abbreviations no other is read.
    pub(super) fn root(&self, number: u32) -> Result<Unit<Slice<'a>>, Fault> {
        let offset = self.info.offsets.get(number as usize).ok_or(Fault)?;
        let header = self.dwarf.unit_header(DebugInfoOffset(*offset))?;
        let code = header.range_from(header.root_offset()..)?.read_uleb128()?;
        let mut table = *self.dwarf.debug_abbrev.reader();
        table.skip(header.debug_abbrev_offset().0)?;
        let only = loop {
            let start = table;
            let found = skip_abbreviation(&mut table)?.ok_or(Fault)?;
            let length = start.len() - table.len();
            self.budget.step(length as u64)?;
            if found == code {
                break start.slice().get(..length).ok_or(Fault)?;
            }
        };
        let only = [only, &[0]].concat();
        let abbreviations = gimli::DebugAbbrev::new(&only, gimli::LittleEndian)
            .abbreviations(gimli::DebugAbbrevOffset(0))?;
        let unit = Unit::new_with_abbreviations(&self.dwarf, header, Arc::new(abbreviations))?;
        self.pay_for(&unit)?;
        Ok(unit)
    }

    /// Pays for what opening a unit has read and other units may share.
    fn pay_for(&self, unit: &Unit<Slice<'a>>) -> Result<(), Exhausted> {
        let program = unit.line_program.as_ref();
        let header = program.map_or(0, |program| program.header().header_length());
        let strings = [unit.name, unit.comp_dir]
            .into_iter()
            .flatten()
            .map(|text| text.len())
            .sum::<usize>();
        self.budget.step((header + strings) as u64 + 1)
    }

    /// The table of abbreviations at an offset, read once per file.
    fn abbreviations(&self, offset: gimli::DebugAbbrevOffset) -> Result<Arc<Abbreviations>, Fault> {
        let known = || {
            let tables = self.info.abbreviations.lock();
            tables.unwrap_or_else(PoisonError::into_inner)
        };
        if let Some(table) = known().get(&offset.0) {
            return Ok(Arc::clone(table));
        }
        let mut bytes = *self.dwarf.debug_abbrev.reader();
        bytes.skip(offset.0)?;
        let extent = Extent::of_abbreviations(bytes, |length| self.budget.step(length))?;
        self.budget
            .keep(extent.count.saturating_mul(KEPT_PER_ABBREVIATION))?;
        let table = Arc::new(self.dwarf.debug_abbrev.abbreviations(offset)?);
        known().insert(offset.0, Arc::clone(&table));
        Ok(table)
    }
}

/// How many abbreviations a table has.
struct Extent {
    count: u64,
}

impl Extent {
    /// Walks over a table and pays for its bytes, before anything of it is
    /// kept.
    fn of_abbreviations(
        mut bytes: Slice<'_>,
        pay: impl Fn(u64) -> Result<(), Exhausted>,
    ) -> Result<Self, Fault> {
        let mut count = 0;
        loop {
            let before = bytes.len();
            if skip_abbreviation(&mut bytes)?.is_none() {
                return Ok(Self { count });
            }
            count += 1;
            pay((before - bytes.len()) as u64)?;
        }
    }
}

/// Passes over an abbreviation and returns its code; `None` at the end of the
/// table. Each one: code (0 ends the table), tag, whether it has children;
/// then pairs of name and form up to 0, 0.
fn skip_abbreviation(bytes: &mut Slice<'_>) -> Result<Option<u64>, Fault> {
    let code = if bytes.is_empty() {
        0
    } else {
        bytes.read_uleb128()?
    };
    if code == 0 {
        return Ok(None);
    }
    bytes.read_uleb128()?;
    bytes.read_u8()?;
    loop {
        let (name, form) = (bytes.read_uleb128()?, bytes.read_uleb128()?);
        if form == u64::from(gimli::DW_FORM_implicit_const.0) {
            bytes.read_sleb128()?;
        }
        if (name, form) == (0, 0) {
            return Ok(Some(code));
        }
    }
}

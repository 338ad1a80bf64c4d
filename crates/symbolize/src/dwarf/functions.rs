//! The functions of one unit, and what was inlined into each.

use super::names::{EntryRef, reference};
use super::session::Session;
use super::walk::Walk;
use super::{Fault, Slice};
use gimli::{Abbreviation, AttributeValue, EntriesRaw, Range, RangeListsOffset, Unit, UnitOffset};
use prof_profile::Svma;
use std::sync::OnceLock;

/// Functions inlined into each other more deeply than this are left out.
const INLINE_DEPTH_MAX: usize = 512;
/// How many ranges before an address are looked at for one that covers it;
/// ranges overlap only in broken files and where identical code was folded.
const RANGES_BACK: usize = 16;

/// The functions of a unit by address.
#[derive(Debug, Default)]
pub(super) struct Functions {
    /// Sorted by begin.
    ranges: Vec<FunctionRange>,
    functions: Vec<Function>,
}

#[derive(Debug, Clone, Copy)]
struct FunctionRange {
    begin: u64,
    end: u64,
    function: u32,
}

/// A function that has code in the unit.
#[derive(Debug)]
pub(super) struct Function {
    /// Its entry.
    pub(super) entry: UnitOffset,
    /// Read when an address in it is first asked for: of few functions.
    inlines: OnceLock<Box<Inlines>>,
}

/// What was inlined into a function.
#[derive(Debug, Default)]
pub(super) struct Inlines {
    /// Sorted by depth, then begin.
    ranges: Vec<InlineRange>,
    calls: Vec<InlinedCall>,
}

#[derive(Debug, Clone, Copy)]
struct InlineRange {
    depth: u32,
    begin: u64,
    end: u64,
    call: u32,
}

/// A function that was inlined at one place.
#[derive(Debug, Clone, Copy)]
pub(super) struct InlinedCall {
    /// The call that this one is directly inside of.
    parent: Option<u32>,
    /// What was inlined.
    pub(super) origin: Option<EntryRef>,
    /// The unit's number of the file with the call.
    pub(super) call_file: Option<u64>,
    /// The line of the call, 0 if unknown.
    pub(super) call_line: u32,
}

impl Functions {
    /// Reads which functions a unit has and where. What comes before a fault
    /// is kept.
    pub(super) fn read<'a>(session: &Session<'a>, unit: &Unit<Slice<'a>>) -> Self {
        let mut functions = Self::default();
        // The functions up to the fault are in the table.
        let _ = functions.scan(session, unit);
        functions.ranges.sort_by_key(|range| range.begin);
        functions.ranges.shrink_to_fit();
        functions.functions.shrink_to_fit();
        functions
    }

    fn scan<'a>(&mut self, session: &Session<'a>, unit: &Unit<Slice<'a>>) -> Result<(), Fault> {
        // Without code it is a declaration, or what calls of it have in common
        // that were inlined.
        let mut walk = Walk::new(unit, |abbreviation| {
            abbreviation.tag() == gimli::DW_TAG_subprogram && has_code(abbreviation)
        })?;
        while let Some(entry) = walk.next(session)? {
            let mut entries = unit.entries_raw(Some(entry))?;
            let abbreviation = entries.read_abbreviation()?.ok_or(Fault)?;
            let place = CodeAttributes::read(session, unit, &mut entries, abbreviation)?;
            walk.go_on_at(&entries)?;
            self.add(session, unit, (entry, place))?;
        }
        Ok(())
    }

    fn add<'a>(
        &mut self,
        session: &Session<'a>,
        unit: &Unit<Slice<'a>>,
        (entry, place): (UnitOffset, CodeAttributes),
    ) -> Result<(), Fault> {
        let function = u32::try_from(self.functions.len()).map_err(|_| Fault)?;
        let before = self.ranges.len();
        place.for_each_range(session, unit, |range| {
            self.ranges.push(FunctionRange {
                begin: range.begin,
                end: range.end,
                function,
            });
        })?;
        if self.ranges.len() > before {
            self.functions.push(Function {
                entry,
                inlines: OnceLock::new(),
            });
        }
        Ok(())
    }

    /// The function that covers an address, and the start and length of the
    /// piece of its code that does.
    pub(super) fn find(&self, svma: Svma) -> Option<((Svma, u64), &Function)> {
        let end = self.ranges.partition_point(|range| range.begin <= svma.0);
        let range = self
            .ranges
            .get(..end)?
            .iter()
            .rev()
            .take(RANGES_BACK)
            .find(|range| svma.0 < range.end)?;
        let function = self.functions.get(range.function as usize)?;
        Some(((Svma(range.begin), range.end - range.begin), function))
    }
}

impl Function {
    /// What was inlined into the function, read once.
    pub(super) fn inlines<'a>(&self, session: &Session<'a>, unit: &Unit<Slice<'a>>) -> &Inlines {
        self.inlines.get_or_init(|| {
            let mut inlines = Inlines::default();
            // The calls up to a fault are in the table.
            let _ = inlines.scan(session, unit, self.entry);
            inlines
                .ranges
                .sort_by_key(|range| (range.depth, range.begin));
            inlines.ranges.shrink_to_fit();
            inlines.calls.shrink_to_fit();
            Box::new(inlines)
        })
    }
}

impl Inlines {
    /// Reads the subtree of a function's entry, without functions in it.
    fn scan<'a>(
        &mut self,
        session: &Session<'a>,
        unit: &Unit<Slice<'a>>,
        function: UnitOffset,
    ) -> Result<(), Fault> {
        let mut entries = unit.entries_raw(Some(function))?;
        let top = entries.next_depth();
        let abbreviation = entries.read_abbreviation()?.ok_or(Fault)?;
        entries.skip_attributes(abbreviation.attributes())?;
        // Inlined calls around the current entry: depth and number.
        let mut around: Vec<(isize, u32)> = Vec::new();
        // Entries below this depth are inside a function of their own.
        let mut skipped_below = isize::MAX;
        while !entries.is_empty() {
            session.budget.step(1)?;
            let depth = entries.next_depth();
            if depth <= top {
                break;
            }
            while around.pop_if(|(outer, _)| *outer >= depth).is_some() {}
            if depth <= skipped_below {
                skipped_below = isize::MAX;
            }
            let Some(abbreviation) = entries.read_abbreviation()? else {
                continue;
            };
            let is_inlined = abbreviation.tag() == gimli::DW_TAG_inlined_subroutine;
            if skipped_below == isize::MAX && abbreviation.tag() == gimli::DW_TAG_subprogram {
                skipped_below = depth;
            }
            if !is_inlined || skipped_below != isize::MAX || around.len() >= INLINE_DEPTH_MAX {
                entries.skip_attributes(abbreviation.attributes())?;
                continue;
            }
            let place = CodeAttributes::read(session, unit, &mut entries, abbreviation)?;
            let call = self.add(session, unit, &place, &around)?;
            around.push((depth, call));
        }
        Ok(())
    }

    fn add<'a>(
        &mut self,
        session: &Session<'a>,
        unit: &Unit<Slice<'a>>,
        place: &CodeAttributes,
        around: &[(isize, u32)],
    ) -> Result<u32, Fault> {
        session.budget.keep(1)?;
        let call = u32::try_from(self.calls.len()).map_err(|_| Fault)?;
        let depth = u32::try_from(around.len()).map_err(|_| Fault)?;
        self.calls.push(InlinedCall {
            parent: around.last().map(|&(_, call)| call),
            origin: place.origin,
            call_file: place.call_file,
            call_line: place.call_line,
        });
        place.for_each_range(session, unit, |range| {
            self.ranges.push(InlineRange {
                depth,
                begin: range.begin,
                end: range.end,
                call,
            });
        })?;
        Ok(call)
    }

    /// The calls that cover an address, outermost first.
    pub(super) fn at(&self, svma: Svma) -> Vec<InlinedCall> {
        let mut chain = Vec::new();
        let mut parent = None;
        for depth in 0.. {
            let end = self
                .ranges
                .partition_point(|range| (range.depth, range.begin) <= (depth, svma.0));
            let found = self
                .ranges
                .get(..end)
                .unwrap_or_default()
                .iter()
                .rev()
                .take(RANGES_BACK)
                .take_while(|range| range.depth == depth)
                .filter(|range| svma.0 < range.end)
                .find_map(|range| {
                    let call = self.calls.get(range.call as usize)?;
                    (call.parent == parent).then_some((range.call, *call))
                });
            let Some((number, call)) = found else {
                break;
            };
            parent = Some(number);
            chain.push(call);
        }
        chain
    }
}

fn has_code(abbreviation: &Abbreviation) -> bool {
    let places = [gimli::DW_AT_low_pc, gimli::DW_AT_ranges];
    let mut attributes = abbreviation.attributes().iter();
    attributes.any(|attribute| places.contains(&attribute.name()))
}

/// The attributes of a function or an inlined call that say where it is.
#[derive(Default)]
struct CodeAttributes {
    low: Option<u64>,
    high: Option<High>,
    ranges: Option<RangeListsOffset>,
    origin: Option<EntryRef>,
    call_file: Option<u64>,
    call_line: u32,
}

/// `DW_AT_high_pc`: an address, or a length from `DW_AT_low_pc` on.
enum High {
    Address(u64),
    Length(u64),
}

impl CodeAttributes {
    fn read<'a>(
        session: &Session<'a>,
        unit: &Unit<Slice<'a>>,
        entries: &mut EntriesRaw<'_, Slice<'a>>,
        abbreviation: &Abbreviation,
    ) -> Result<Self, Fault> {
        let mut place = Self::default();
        for specification in abbreviation.attributes() {
            let attribute = entries.read_attribute(*specification)?;
            let value = attribute.value();
            match attribute.name() {
                gimli::DW_AT_low_pc => place.low = session.dwarf.attr_address(unit, value)?,
                gimli::DW_AT_high_pc => {
                    place.high = match value {
                        AttributeValue::Udata(length) => Some(High::Length(length)),
                        value => session.dwarf.attr_address(unit, value)?.map(High::Address),
                    }
                }
                gimli::DW_AT_ranges => {
                    place.ranges = session.dwarf.attr_ranges_offset(unit, value)?;
                }
                gimli::DW_AT_abstract_origin => place.origin = reference(unit, &value),
                gimli::DW_AT_call_file => {
                    place.call_file = match value {
                        AttributeValue::FileIndex(index) => Some(index),
                        value => value.udata_value(),
                    }
                }
                gimli::DW_AT_call_line => {
                    let line = attribute.udata_value().unwrap_or(0);
                    place.call_line = u32::try_from(line).unwrap_or(0);
                }
                _ => {}
            }
        }
        Ok(place)
    }

    /// Calls `each` with the ranges that are not empty, and pays for them.
    fn for_each_range<'a>(
        &self,
        session: &Session<'a>,
        unit: &Unit<Slice<'a>>,
        mut each: impl FnMut(Range),
    ) -> Result<(), Fault> {
        let mut add = |range: Range| {
            session.budget.step(1)?;
            if range.begin < range.end {
                session.budget.keep(1)?;
                each(range);
            }
            Ok::<_, Fault>(())
        };
        if let Some(offset) = self.ranges {
            let mut list = session.dwarf.ranges(unit, offset)?;
            while let Some(range) = list.next()? {
                add(range)?;
            }
            return Ok(());
        }
        let (Some(begin), Some(high)) = (self.low, &self.high) else {
            return Ok(());
        };
        let end = match *high {
            High::Address(end) => end,
            High::Length(length) => begin.saturating_add(length),
        };
        add(Range { begin, end })
    }
}

//! Names of functions by their entries, through declarations and origins.

use super::lines::file_path;
use super::session::Session;
use super::{DebugInfo, Fault, Slice, units};
use crate::demangle::{self, Demangle};
use gimli::{AttributeValue, DebugInfoOffset, Reader, Unit};
use std::sync::{Arc, PoisonError};

/// References followed from an entry to the one with its name.
const HOPS_MAX: usize = 16;

/// Another entry, as an attribute refers to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum EntryRef {
    /// At this offset of the file's `.debug_info`.
    Here(usize),
    /// At this offset in the supplementary file.
    Supplementary(usize),
}

/// What is asked of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Wanted {
    All,
    /// Where it is defined: its name, which would have to be demangled, is known.
    Place,
}

/// What an entry says of its function.
#[derive(Debug, Clone, Default)]
pub(crate) struct FunctionName {
    /// As shown, if it has a name and that was asked.
    pub(crate) name: Option<Arc<str>>,
    /// Where it is defined: file and line.
    pub(crate) defined_at: Option<(Arc<str>, u32)>,
}

/// The entry that an attribute refers to.
pub(super) fn reference(
    unit: &Unit<Slice<'_>>,
    value: &AttributeValue<Slice<'_>>,
) -> Option<EntryRef> {
    match *value {
        AttributeValue::UnitRef(offset) => {
            Some(EntryRef::Here(offset.to_debug_info_offset(&unit.header)?.0))
        }
        AttributeValue::DebugInfoRef(offset) => Some(EntryRef::Here(offset.0)),
        AttributeValue::DebugInfoRefSup(offset) => Some(EntryRef::Supplementary(offset.0)),
        _ => None,
    }
}

/// The name of the function whose entry this is; looked up once per file.
pub(super) fn name_of(session: &Session<'_>, entry: EntryRef, wanted: Wanted) -> FunctionName {
    match entry {
        EntryRef::Here(offset) => name_here(session, offset, wanted),
        EntryRef::Supplementary(offset) => match session.info.supplementary.as_deref() {
            Some(other) => name_here(&Session::new(other), offset, wanted),
            None => FunctionName::default(),
        },
    }
}

fn name_here(session: &Session<'_>, offset: usize, wanted: Wanted) -> FunctionName {
    let known = |info: &DebugInfo| {
        let names = info.names.lock().unwrap_or_else(PoisonError::into_inner);
        names.get(&(offset, wanted)).cloned()
    };
    if let Some(name) = known(session.info) {
        return name;
    }
    let mut found = Search::default();
    // An entry that makes no sense has no name.
    let elsewhere = found.follow(session, offset).unwrap_or(None);
    let is_named = found.linkage.is_some() || found.plain.is_some();
    let mut name = found.finish(session, wanted);
    if let (false, Some(entry)) = (is_named, elsewhere) {
        let other = name_of(session, entry, wanted);
        name.name = other.name;
        name.defined_at = name.defined_at.or(other.defined_at);
    }
    let mut names = session
        .info
        .names
        .lock()
        .unwrap_or_else(PoisonError::into_inner);
    names.insert((offset, wanted), name.clone());
    name
}

/// What was found so far on the way from entry to entry.
#[derive(Default)]
struct Search<'a> {
    linkage: Option<Slice<'a>>,
    plain: Option<Slice<'a>>,
    defined_at: Option<(Arc<str>, u32)>,
}

impl<'a> Search<'a> {
    /// Follows references until there is a linkage name. Returns the entry
    /// in the supplementary file at which the way leaves this one.
    fn follow(&mut self, session: &Session<'a>, start: usize) -> Result<Option<EntryRef>, Fault> {
        let mut next = Some(EntryRef::Here(start));
        for _ in 0..HOPS_MAX {
            let Some(EntryRef::Here(offset)) = next else {
                break;
            };
            session.budget.step(1)?;
            next = self.visit(session, DebugInfoOffset(offset))?;
            if self.linkage.is_some() {
                return Ok(None);
            }
        }
        Ok(next.filter(|entry| matches!(entry, EntryRef::Supplementary(_))))
    }

    /// Reads one entry; returns the one it refers to.
    fn visit(
        &mut self,
        session: &Session<'a>,
        offset: DebugInfoOffset,
    ) -> Result<Option<EntryRef>, Fault> {
        let number = units::holding(&session.info.offsets, offset).ok_or(Fault)?;
        let unit = session.unit(number)?;
        let place = offset.to_unit_offset(&unit.header).ok_or(Fault)?;
        let mut entries = unit.entries_raw(Some(place))?;
        let abbreviation = entries.read_abbreviation()?.ok_or(Fault)?;
        let (mut next, mut file, mut line) = (None, None, 0);
        for specification in abbreviation.attributes() {
            let attribute = entries.read_attribute(*specification)?;
            let value = attribute.value();
            match attribute.name() {
                gimli::DW_AT_linkage_name | gimli::DW_AT_MIPS_linkage_name => {
                    self.linkage = text(session, &unit, value);
                }
                gimli::DW_AT_name if self.plain.is_none() => {
                    self.plain = text(session, &unit, value);
                }
                gimli::DW_AT_abstract_origin | gimli::DW_AT_specification => {
                    next = reference(&unit, &value);
                }
                gimli::DW_AT_decl_file => {
                    file = match value {
                        AttributeValue::FileIndex(index) => Some(index),
                        value => value.udata_value(),
                    };
                }
                gimli::DW_AT_decl_line => line = attribute.udata_value().unwrap_or(0),
                _ => {}
            }
        }
        if self.defined_at.is_none() {
            self.defined_at = definition(session, &unit, file, line);
        }
        Ok(next)
    }

    fn finish(self, session: &Session<'a>, wanted: Wanted) -> FunctionName {
        let name = match (wanted, self.linkage, self.plain) {
            (Wanted::Place, ..) | (_, None, None) => None,
            (_, Some(linkage), _) => Some(shown(session, linkage, session.info.demangle)),
            (_, None, Some(plain)) => Some(shown(session, plain, Demangle::No)),
        };
        FunctionName {
            name,
            defined_at: self.defined_at,
        }
    }
}

/// A name as it is shown. Linkers store equal strings once, and what is inlined
/// in many units has one name: it is demangled once.
fn shown(session: &Session<'_>, name: Slice<'_>, demangle: Demangle) -> Arc<str> {
    let names = || {
        let names = session.info.shown.lock();
        names.unwrap_or_else(PoisonError::into_inner)
    };
    // Where it stands in the file's bytes, which stay where they are.
    let place = (name.slice().as_ptr() as usize, demangle);
    if let Some(known) = names().get(&place) {
        return Arc::clone(known);
    }
    let shown: Arc<str> = demangle::name(name.slice(), demangle).into();
    Arc::clone(names().entry(place).or_insert(shown))
}

fn text<'a>(
    session: &Session<'a>,
    unit: &Unit<Slice<'a>>,
    value: AttributeValue<Slice<'a>>,
) -> Option<Slice<'a>> {
    let mut text = session.dwarf.attr_string(unit, value).ok()?;
    if text.len() > demangle::NAME_MAX {
        text.truncate(demangle::NAME_MAX).ok()?;
    }
    session.budget.step(text.len() as u64).ok()?;
    (!text.is_empty()).then_some(text)
}

fn definition<'a>(
    session: &Session<'a>,
    unit: &Unit<Slice<'a>>,
    file: Option<u64>,
    line: u64,
) -> Option<(Arc<str>, u32)> {
    let line = u32::try_from(line).ok().filter(|&line| line > 0)?;
    let header = unit.line_program.as_ref()?.header();
    let path = file_path(session, unit, header, file?)?;
    session.budget.step(path.len() as u64).ok()?;
    Some((path.into(), line))
}

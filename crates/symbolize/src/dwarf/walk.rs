//! Going over all entries of a unit to the few that are looked for.
//!
//! Most entries have attributes of one length altogether, by their
//! abbreviation: one addition passes over them, where asking each attribute
//! takes ten times as long. In a debug build that is a gigabyte.

use super::session::Session;
use super::{Fault, Slice};
use gimli::{Abbreviation, EntriesRaw, Reader, Unit, UnitOffset};

/// Abbreviations with a code above are looked at anew for each entry.
const CODES_MAX: u64 = 1 << 12;

/// The entries of one unit whose abbreviation is wanted, in their order.
pub(super) struct Walk<'u, 'a> {
    unit: &'u Unit<Slice<'a>>,
    is_wanted: fn(&Abbreviation) -> bool,
    /// What follows.
    rest: Slice<'a>,
    /// Where in the unit all of it ends.
    end: usize,
    /// By code.
    known: Vec<Known>,
}

/// What was found out about an abbreviation.
#[derive(Debug, Clone, Copy)]
enum Known {
    Nothing,
    Wanted,
    /// Passed over; all attributes are so many bytes.
    Fixed(usize),
    /// Passed over attribute by attribute.
    Variable,
}

impl<'u, 'a> Walk<'u, 'a> {
    /// From the unit's first entry on.
    pub(super) fn new(
        unit: &'u Unit<Slice<'a>>,
        is_wanted: fn(&Abbreviation) -> bool,
    ) -> Result<Self, Fault> {
        let root = unit.header.root_offset();
        let rest = unit.header.range_from(root..)?;
        Ok(Self {
            unit,
            is_wanted,
            rest,
            end: root.0 + rest.len(),
            known: Vec::new(),
        })
    }

    /// The next one; go on behind it with [`Walk::go_on_at`].
    pub(super) fn next(&mut self, session: &Session<'_>) -> Result<Option<UnitOffset>, Fault> {
        while !self.rest.is_empty() {
            session.budget.step(1)?;
            let entry = UnitOffset(self.end - self.rest.len());
            let code = self.rest.read_uleb128()?;
            if code == 0 {
                continue;
            }
            match self.known(code)? {
                Known::Fixed(length) => self.rest.skip(length)?,
                Known::Wanted => return Ok(Some(entry)),
                Known::Nothing | Known::Variable => {
                    let mut entries = self.unit.entries_raw(Some(entry))?;
                    let abbreviation = entries.read_abbreviation()?.ok_or(Fault)?;
                    entries.skip_attributes(abbreviation.attributes())?;
                    self.go_on_at(&entries)?;
                }
            }
        }
        Ok(None)
    }

    /// Goes on where these entries are.
    pub(super) fn go_on_at(&mut self, entries: &EntriesRaw<'_, Slice<'a>>) -> Result<(), Fault> {
        let passed = entries
            .next_offset()
            .0
            .checked_sub(self.end - self.rest.len());
        Ok(self.rest.skip(passed.ok_or(Fault)?)?)
    }

    fn known(&mut self, code: u64) -> Result<Known, Fault> {
        let index = usize::try_from(code).unwrap_or(usize::MAX);
        match self.known.get(index) {
            None | Some(Known::Nothing) => {}
            Some(known) => return Ok(*known),
        }
        let abbreviation = self.unit.abbreviations.get(code).ok_or(Fault)?;
        let sizes = abbreviation.attributes().iter();
        let size: Option<usize> = sizes.map(|it| it.size(&self.unit.header)).sum();
        let known = match size {
            _ if (self.is_wanted)(abbreviation) => Known::Wanted,
            Some(size) => Known::Fixed(size),
            None => Known::Variable,
        };
        if code <= CODES_MAX {
            if self.known.len() <= index {
                self.known.resize(index + 1, Known::Nothing);
            }
            if let Some(slot) = self.known.get_mut(index) {
                *slot = known;
            }
        }
        Ok(known)
    }
}

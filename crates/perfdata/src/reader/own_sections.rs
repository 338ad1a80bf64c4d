//! Sections of prof's own; where they stand is described in `crate::own`.

use super::open::at;
use super::{Current, Origin, Reader};
use crate::damage::{DamageKind, Error};
use crate::features::FeatureBit;
use crate::fields::Fields;
use crate::input::read_part;
use crate::layout::RECORD_HEADER;
use crate::own::{HEAD, MARK, Part};
use crate::section::Section;
use prof_abi::RecordType;
use std::fs::File;

/// What messages call them.
const NAME: &str = "prof-own";

impl Reader {
    /// Reads those of a file whose last feature section ends at `end`; says
    /// where they end.
    pub(super) fn read_own(&mut self, file: &File, end: u64, len: u64) -> Result<u64, Error> {
        let start = end.checked_next_multiple_of(8).unwrap_or(u64::MAX);
        if start >= len {
            return Ok(end);
        }
        let head = read_part(file, start, HEAD).map_err(at(start))?;
        let mut fields = Fields::new(&head, self.header.order);
        let mark = fields.take(MARK.len());
        let (Ok(true), Ok(size)) = (mark.map(|mark| mark == MARK), fields.u64()) else {
            return Ok(end);
        };
        let all = Section {
            offset: start + HEAD,
            size,
        };
        if all.end() > len {
            let kind = DamageKind::SectionPastEnd {
                section: NAME,
                end: all.end(),
                limit: len,
            };
            self.damage(start, None, kind, len - all.offset.min(len));
        }
        let there = size.min(len.saturating_sub(all.offset));
        if !self.budget.take(there) {
            let why = "the sections together are larger than the file justifies".to_owned();
            self.section_damage(start, NAME, why, there);
            return Ok(all.offset + there);
        }
        let bytes = read_part(file, all.offset, there).map_err(at(all.offset))?;
        self.take_own(&bytes, all.offset);
        Ok(all.offset + there)
    }

    /// The sections in `bytes`, which stand at `offset`, one after the other.
    fn take_own(&mut self, bytes: &[u8], offset: u64) {
        let total = bytes.len();
        let mut fields = Fields::new(bytes, self.header.order);
        while fields.left() > 0 {
            let here = offset + (total - fields.left()) as u64;
            let (number, size) = (fields.u64(), fields.u64());
            let content = size.and_then(|size| Ok((size, fields.items(size, 1)?)));
            let number = number.ok().and_then(|number| u32::try_from(number).ok());
            let (Some(number), Ok((size, content))) = (number, content) else {
                let why = format!("what stands at {here:#x} is no section");
                let lost = offset + total as u64 - here;
                self.section_damage(here, NAME, why, lost);
                return;
            };
            let place = Section {
                offset: here + HEAD,
                size,
            };
            self.add_feature(FeatureBit(number), place, content);
            // The last one's padding may be cut without harm.
            let padding = size.next_multiple_of(8) - size;
            let _ = fields.take(fields.left().min(padding as usize));
        }
    }

    /// EVENT_TYPE: dead, but for the parts of these sections.
    pub(super) fn absorb_own(&mut self, current: Current) {
        let Some(record) = self.current() else { return };
        let body = record.bytes.get(RECORD_HEADER..).unwrap_or_default();
        let Some(part) = Part::decode(body, record.order()) else {
            return;
        };
        let bytes = part.bytes.to_vec();
        let part = Part {
            bytes: &bytes,
            ..part
        };
        let len = bytes.len() as u64;
        // What stands in the file itself takes no more than the file.
        if current.origin != Origin::File && !self.budget.take(len) {
            return;
        }
        match self.own_parts.add(part) {
            Ok(None) => {}
            Ok(Some(section)) => {
                let place = Section {
                    offset: current.offset,
                    size: section.len() as u64,
                };
                self.add_feature(FeatureBit(part.number), place, &section);
            }
            Err(why) => {
                let section = NAME;
                let kind = DamageKind::Section { section, why };
                self.damage(current.offset, Some(RecordType::EVENT_TYPE), kind, len);
            }
        }
    }
}

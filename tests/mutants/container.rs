//! A recording taken apart, so that a change in its middle leaves the rest
//! where the header says it is. Little-endian ones only.

use std::ops::Range;

const FILE_HEADER: usize = 104;
const PIPE_HEADER: usize = 16;
/// What sections of our own begin with (`crates/perfdata/src/own.rs`).
const OWN_MARK: &[u8] = b"prof-own";

/// The parts of a recording.
pub(super) struct Container {
    pub(super) bytes: Vec<u8>,
    is_file: bool,
    /// Where the records are.
    pub(super) data: Range<usize>,
}

impl Container {
    /// `None` if the bytes are no recording that can be taken apart.
    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
        if !bytes.starts_with(b"PERFILE2") {
            return None;
        }
        let is_file = match word(bytes, 8)? {
            104 => true,
            16 => false,
            _ => return None,
        };
        let data = match is_file {
            true => {
                let start = usize::try_from(word(bytes, 40)?).ok()?;
                let size = usize::try_from(word(bytes, 48)?).ok()?;
                let end = start.checked_add(size).filter(|&end| end <= bytes.len())?;
                start.max(FILE_HEADER)..end
            }
            false => PIPE_HEADER..bytes.len(),
        };
        (!data.is_empty()).then(|| Self {
            bytes: bytes.to_vec(),
            is_file,
            data,
        })
    }

    /// Where each record is, and its type, as far as their sizes lead.
    pub(super) fn records(&self) -> Vec<(Range<usize>, u32)> {
        let mut records = Vec::new();
        let mut at = self.data.start;
        while let (Some(kind), Some(size)) = (half(&self.bytes, at), short(&self.bytes, at + 6)) {
            let end = at + usize::from(size);
            if size < 8 || end > self.data.end {
                break;
            }
            records.push((at..end, kind));
            at = end;
        }
        records
    }

    /// Where each attr is: in the header's section, or in a record.
    pub(super) fn attrs(&self) -> Vec<Range<usize>> {
        const HEADER_ATTR: u32 = 64;
        if !self.is_file {
            let records = self.records().into_iter();
            let attrs = records.filter(|(_, kind)| *kind == HEADER_ATTR);
            return attrs.map(|(place, _)| place.start + 8..place.end).collect();
        }
        let [entry, start, size] =
            [16, 24, 32].map(|at| word(&self.bytes, at).unwrap_or(0) as usize);
        let end = start.saturating_add(size).min(self.bytes.len());
        (start..end)
            .step_by(entry.max(80))
            .map(|at| at..(at + entry).min(end))
            .collect()
    }

    /// Where the feature table has an entry, and the section that it names.
    pub(super) fn features(&self) -> Vec<(usize, Range<usize>)> {
        if !self.is_file {
            return Vec::new();
        }
        let words = [72, 80, 88, 96].map(|at| word(&self.bytes, at).unwrap_or(0));
        let count: u32 = words.iter().map(|word| word.count_ones()).sum();
        let entries = (0..count as usize).map(|index| self.data.end + 16 * index);
        let section = |at: usize| {
            let start = usize::try_from(word(&self.bytes, at)?).ok()?;
            let size = usize::try_from(word(&self.bytes, at + 8)?).ok()?;
            let end = start
                .checked_add(size)
                .filter(|&end| end <= self.bytes.len())?;
            Some((at, start..end))
        };
        entries.filter_map(section).collect()
    }

    /// Puts `new` in place of a range of the data; what points behind it is
    /// moved along.
    pub(super) fn splice(&mut self, old: Range<usize>, new: &[u8]) {
        let features = self.features();
        let change = new.len() as i64 - old.len() as i64;
        let moved = |place: usize| (place as i64 + change) as usize;
        self.bytes.splice(old, new.iter().copied());
        self.data.end = moved(self.data.end);
        if self.is_file {
            let size = self.data.len() as u64;
            self.put(48, &size.to_le_bytes());
            for (entry, section) in features {
                let start = moved(section.start) as u64;
                self.put(moved(entry), &start.to_le_bytes());
            }
        }
    }

    /// Puts `new` in place of a section, behind all others.
    pub(super) fn replace_section(&mut self, entry: usize, new: &[u8]) {
        let own = self.own_sections();
        if !own.is_empty() {
            self.bytes.truncate(self.own_start());
        }
        let place = [self.bytes.len() as u64, new.len() as u64];
        self.put(entry, &place.map(u64::to_le_bytes).concat());
        self.bytes.extend(new);
        self.replace_own(&own);
    }

    /// Where sections of our own begin, or would.
    fn own_start(&self) -> usize {
        let features = self.features().into_iter();
        let end = features.map(|(_, section)| section.end).max();
        let end = end.unwrap_or(self.bytes.len());
        end.next_multiple_of(8).min(self.bytes.len())
    }

    /// Numbers and bytes of the sections of our own; of files.
    pub(super) fn own_sections(&self) -> Vec<(u64, Vec<u8>)> {
        let mut sections = Vec::new();
        let mut at = self.own_start();
        if !self.bytes[at..].starts_with(OWN_MARK) {
            return sections;
        }
        at += 16;
        while let (Some(number), Some(size)) = (word(&self.bytes, at), word(&self.bytes, at + 8)) {
            let end = (size as usize).saturating_add(at + 16);
            let Some(section) = self.bytes.get(at + 16..end) else {
                break;
            };
            sections.push((number, section.to_vec()));
            at = end.next_multiple_of(8);
        }
        sections
    }

    /// Puts sections of our own where they stand, in place of those there.
    pub(super) fn replace_own(&mut self, sections: &[(u64, Vec<u8>)]) {
        if sections.is_empty() {
            return;
        }
        let mut body = Vec::new();
        for (number, section) in sections {
            body.extend(
                [*number, section.len() as u64]
                    .map(u64::to_le_bytes)
                    .concat(),
            );
            body.extend(section);
            body.resize(body.len().next_multiple_of(8), 0);
        }
        self.bytes.truncate(self.own_start());
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        self.bytes.extend(OWN_MARK);
        self.bytes.extend((body.len() as u64).to_le_bytes());
        self.bytes.extend(body);
    }

    /// Overwrites bytes, as far as they are there.
    pub(super) fn put(&mut self, at: usize, new: &[u8]) {
        for (byte, new) in self.bytes.iter_mut().skip(at).zip(new) {
            *byte = *new;
        }
    }
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at.checked_add(N)?)?.try_into().ok()
}

pub(super) fn word(bytes: &[u8], at: usize) -> Option<u64> {
    field(bytes, at).map(u64::from_le_bytes)
}

fn half(bytes: &[u8], at: usize) -> Option<u32> {
    field(bytes, at).map(u32::from_le_bytes)
}

fn short(bytes: &[u8], at: usize) -> Option<u16> {
    field(bytes, at).map(u16::from_le_bytes)
}

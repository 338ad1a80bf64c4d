//! Opening a recording: header, attrs, feature sections.

use super::absorb::odd_attr_size;
use super::frame::Oversized;
use super::{Budget, Parts, Reader, Streams, own};
use crate::damage::{DamageKind, Damages, Error, Notes};
use crate::event::{Event, Events};
use crate::features::{FeatureBit, Features};
use crate::fields::Fields;
use crate::header::{FILE_HEADER, Header, Mode, PIPE_HEADER};
use crate::inflate::Inflater;
use crate::input::{FilePart, Input, read_part};
use crate::section::Section;
use prof_abi::{EventAttr, RecordType, attr_size};
use std::fs::File;
use std::io::Read;
use std::sync::Arc;

/// Bytes of an attr entry behind the attr: offset and size of its ids.
const ATTR_IDS: u64 = 16;

/// A recording in a regular file.
#[derive(Clone, Copy)]
struct WholeFile<'a> {
    file: &'a File,
    /// Its length, bytes.
    len: u64,
}

impl Reader {
    /// Opens a recording in a regular file, of either mode: which one is told
    /// by the header, not by how it is stored.
    ///
    /// # Errors
    /// If it cannot be read, or its first bytes are not perf.data's.
    pub fn open_file(file: File) -> Result<Self, Error> {
        let len = file.metadata().map_err(at(0))?.len();
        let start = read_part(&file, 0, FILE_HEADER as u64).map_err(at(0))?;
        let mut header = Header::start(&start)?;
        if header.mode == Mode::Pipe {
            let records = FilePart::new(file, PIPE_HEADER as u64, u64::MAX);
            let input = Input::new(Box::new(records), PIPE_HEADER as u64);
            return Ok(Self::new(header, input, Some(len)));
        }
        header.finish(&start)?;
        let is_empty = holds_no_data(&file, &header, len);
        let data = match is_empty {
            true => header.data,
            false => data_section(&file, &header, len),
        };
        let records = FilePart::new(file.try_clone().map_err(at(0))?, data.offset, data.end());
        let input = Input::new(Box::new(records), data.offset);
        let mut reader = Self::new(header, input, Some(data.size));
        reader.budget = Budget::new(Some(len));
        let whole = WholeFile { file: &file, len };
        let ids = reader.read_attrs(whole)?;
        if !is_empty {
            reader.check_data(len);
        }
        if is_empty || reader.header.data.size > 0 {
            reader.read_features(whole)?;
        }
        reader.check_end(whole, &ids)?;
        Ok(reader)
    }

    /// Opens a recording that comes through a pipe.
    ///
    /// # Errors
    /// If it cannot be read, its first bytes are not perf.data's, or it is in
    /// file mode, whose index is at the end.
    pub fn open_stream(mut input: Box<dyn Read + Send>) -> Result<Self, Error> {
        let mut start = Vec::new();
        let limit = PIPE_HEADER as u64;
        input
            .by_ref()
            .take(limit)
            .read_to_end(&mut start)
            .map_err(at(0))?;
        let header = Header::start(&start)?;
        if header.mode == Mode::File {
            return Err(Error::FileModeInPipe);
        }
        Ok(Self::new(header, Input::new(input, limit), None))
    }

    /// Opens a recording in directory mode (`perf record --threads`): `data`
    /// is the file of that name, `streams` are `data.0`, `data.1`, ... in this
    /// order. Offsets count from the start of each.
    ///
    /// # Errors
    /// As [`Reader::open_file`] for `data`.
    pub fn open_directory(data: File, streams: Vec<File>) -> Result<Self, Error> {
        let mut reader = Self::open_file(data)?;
        let mut total = reader.streams.total;
        for file in &streams {
            let len = file.metadata().map_err(at(0))?.len();
            total = total.and_then(|total| total.checked_add(len));
        }
        reader.streams.total = total;
        reader.streams.is_directory = !streams.is_empty();
        reader.streams.unopened = streams;
        Ok(reader)
    }

    fn new(header: Header, input: Input, total: Option<u64>) -> Self {
        Self {
            features: Features::default(),
            events: Arc::new(Events::new(header.order)),
            damages: Damages::default(),
            notes: Notes::default(),
            streams: Streams {
                first_offset: input.offset(),
                input,
                inflater: Inflater::new(),
                oversized: Oversized::default(),
                time: 0,
                unopened: Vec::new(),
                others: Vec::new(),
                earliest_other: u64::MAX,
                is_directory: false,
                read_before: 0,
                total,
            },
            current: None,
            is_ahead: false,
            payload: None,
            doubtful: None,
            has_sampled: false,
            parts: Parts::default(),
            own_parts: own::Parts::default(),
            own_room: None,
            budget: Budget::new(total),
            header,
        }
    }

    pub(super) fn section_damage(
        &mut self,
        offset: u64,
        section: &'static str,
        why: String,
        bytes: u64,
    ) {
        let kind = DamageKind::Section { section, why };
        self.damage(offset, None, kind, bytes);
    }

    /// Says what is wrong with the data section, if anything is.
    fn check_data(&mut self, len: u64) {
        let data = self.header.data;
        // Where it names no features either, that it is unfinished is a note:
        // how much of the data its header tells of is a matter of moments.
        let has_features = self.header.feature_bits().next().is_some();
        if data.offset < len && data.size == 0 && has_features {
            self.damage(48, None, DamageKind::Unfinished, 0);
        } else if data.end() > len {
            let kind = DamageKind::SectionPastEnd {
                section: "data",
                end: data.end(),
                limit: len,
            };
            self.damage(40, None, kind, data.end() - len.max(data.offset));
        } else if data.offset < self.header.size && data.size > 0 {
            let why = format!(
                "starts at {:#x}, inside the header of {} bytes",
                data.offset, self.header.size
            );
            self.section_damage(40, "data", why, 0);
        }
    }

    /// Where the attrs are, as far as the file has them: not beyond the data
    /// behind them.
    fn attrs_section(&mut self, len: u64) -> Section {
        let Header { attrs, data, .. } = self.header;
        let limit = if data.offset > attrs.offset {
            data.offset.min(len)
        } else {
            len
        };
        if attrs.end() <= limit {
            return attrs;
        }
        let kind = DamageKind::SectionPastEnd {
            section: "attrs",
            end: attrs.end(),
            limit,
        };
        self.damage(24, None, kind, attrs.end() - limit);
        Section {
            offset: attrs.offset,
            size: limit.saturating_sub(attrs.offset),
        }
    }

    /// Bytes of an attr entry: as the header says, or if that cannot be, what
    /// the first attr says of itself.
    fn attr_entry(&mut self, attrs: &[u8]) -> Option<usize> {
        let said = self.header.attr_entry;
        let possible = |entry: u64| {
            entry >= u64::from(attr_size::VER0) + ATTR_IDS && entry <= attrs.len() as u64
        };
        if possible(said) {
            return usize::try_from(said).ok();
        }
        let why = format!(
            "an entry of {said} bytes in a section of {} (an attr has at least 64)",
            attrs.len()
        );
        self.section_damage(16, "attrs", why, 0);
        let own = self.header.order.u32(attrs, 4).unwrap_or(0);
        let own = u64::from(own.max(attr_size::VER0)) + ATTR_IDS;
        let divides = (attrs.len() as u64).is_multiple_of(own);
        (possible(own) && divides).then_some(own as usize)
    }

    /// Reads the attrs; tells where their ids are.
    fn read_attrs(&mut self, whole: WholeFile<'_>) -> Result<Vec<Section>, Error> {
        let WholeFile { file, len } = whole;
        let attrs = self.attrs_section(len);
        let mut ids = Vec::new();
        if !self.budget.take(attrs.size) {
            return Ok(ids);
        }
        let bytes = read_part(file, attrs.offset, attrs.size).map_err(at(attrs.offset))?;
        let Some(size) = self.attr_entry(&bytes) else {
            return Ok(ids);
        };
        for (index, entry) in bytes.chunks_exact(size).enumerate() {
            let offset = attrs.offset + (index * size) as u64;
            ids.extend(self.read_attr(whole, offset, entry)?);
        }
        Ok(ids)
    }

    /// The attr of an entry; if it says a size that no attr has, it is taken
    /// to be as long as its entry.
    fn decode_attr(&mut self, offset: u64, attr: &[u8]) -> Option<EventAttr> {
        let order = self.header.order;
        let decoded = EventAttr::decode(attr, order);
        let said = order.u32(attr, 4)?;
        if decoded.is_some() {
            self.check_attr_size(offset, attr, said);
            return decoded;
        }
        let why = format!("an attr says it has {said} bytes, the least is 64");
        self.section_damage(offset, "attrs", why, 0);
        let mut patched = attr.to_vec();
        let size = order.bytes_u32(attr.len() as u32);
        patched.get_mut(4..8)?.copy_from_slice(&size);
        EventAttr::decode(&patched, order)
    }

    /// Tells if the size that an attr says of itself is none, or leaves out
    /// some of it.
    fn check_attr_size(&mut self, offset: u64, attr: &[u8], said: u32) {
        let rest = attr.get(said.max(attr_size::VER0) as usize..);
        let is_cut = rest.is_some_and(|rest| rest.iter().any(|&byte| byte != 0));
        let cut = || format!("an attr says it has {said} bytes, but more follow");
        let why = odd_attr_size(said, attr.len() as u64).or_else(|| is_cut.then(cut));
        if let Some(why) = why {
            self.section_damage(offset, "attrs", why, 0);
        }
    }

    fn read_attr(
        &mut self,
        whole: WholeFile<'_>,
        offset: u64,
        entry: &[u8],
    ) -> Result<Option<Section>, Error> {
        let WholeFile { file, len } = whole;
        let order = self.header.order;
        let split = entry.len().saturating_sub(ATTR_IDS as usize);
        let (attr, ids) = entry.split_at_checked(split).unwrap_or_default();
        let Some(attr) = self.decode_attr(offset, attr) else {
            return Ok(None);
        };
        let mut fields = Fields::new(ids, order);
        let place = Section {
            offset: fields.u64().unwrap_or(0),
            size: fields.u64().unwrap_or(0),
        };
        let end = place.end();
        if end > len {
            let kind = DamageKind::SectionPastEnd {
                section: "ids",
                end,
                limit: len,
            };
            self.damage(offset + split as u64, None, kind, place.size);
        }
        let mut ids = Vec::new();
        if end <= len && self.budget.take(place.size.saturating_mul(4)) {
            let bytes = read_part(file, place.offset, place.size).map_err(at(place.offset))?;
            ids = crate::sample::Words::new(&bytes, order).collect();
        }
        self.add_event(Event::new(attr, ids));
        Ok(Some(place))
    }

    /// Reads our own sections behind the last of perf's and notes which bytes
    /// behind them belong to nothing. Between the sections perf leaves room of
    /// its own: for features it did not write.
    fn check_end(&mut self, whole: WholeFile<'_>, ids: &[Section]) -> Result<(), Error> {
        let WholeFile { file, len } = whole;
        let Header { attrs, data, .. } = self.header;
        self.notes.unfinished = self.header.feature_bits().next().is_none();
        if data.size == 0 {
            return Ok(());
        }
        if self.streams.total.is_some_and(|total| total > data.size) {
            // All that is behind was taken for records.
            return Ok(());
        }
        let table = Section {
            offset: data.end(),
            size: self.header.feature_bits().count() as u64 * 16,
        };
        let sections = self.features.sections().iter();
        let sections = sections.map(|section| section.place);
        let others = [table, attrs, self.header.event_types];
        let all = sections.chain(others).chain(ids.iter().copied());
        let end = all.map(|section| section.end()).max().unwrap_or(0);
        let perf_end = end;
        let end = self.read_own(file, perf_end, len)?;
        self.own_room = (end == len && !self.notes.unfinished).then_some((perf_end, end));
        self.notes.ownerless = (end < len).then(|| Section {
            offset: end,
            size: len - end,
        });
        Ok(())
    }

    /// The feature table stands behind the data; each entry says where its
    /// section is. Not for an unfinished recording, which has none, whatever
    /// its bits say.
    fn read_features(&mut self, whole: WholeFile<'_>) -> Result<(), Error> {
        let file = whole.file;
        let data = self.header.data;
        let bits: Vec<u32> = self.header.feature_bits().collect();
        let table = Section {
            offset: data.end(),
            size: bits.len() as u64 * 16,
        };
        let bytes = read_part(file, table.offset, table.size).map_err(at(table.offset))?;
        if (bytes.len() as u64) < table.size {
            let why = format!("needs {} bytes, but {} are left", table.size, bytes.len());
            let missing = table.size - bytes.len() as u64;
            self.section_damage(table.offset, "feature table", why, missing);
        }
        let mut fields = Fields::new(&bytes, self.header.order);
        for bit in bits.into_iter().map(FeatureBit) {
            let (Ok(offset), Ok(size)) = (fields.u64(), fields.u64()) else {
                break;
            };
            self.read_feature(whole, bit, Section { offset, size })?;
        }
        Ok(())
    }

    fn read_feature(
        &mut self,
        whole: WholeFile<'_>,
        bit: FeatureBit,
        place: Section,
    ) -> Result<(), Error> {
        let WholeFile { file, len } = whole;
        let section = bit.name().unwrap_or("unknown");
        if place.end() > len {
            let kind = DamageKind::SectionPastEnd {
                section,
                end: place.end(),
                limit: len,
            };
            self.features.add_unread(bit, place);
            self.damage(place.offset, None, kind, place.size);
            return Ok(());
        }
        if !self.budget.take(place.size) {
            self.features.add_unread(bit, place);
            let why = "the sections together are larger than the file justifies".to_owned();
            self.section_damage(place.offset, section, why, place.size);
            return Ok(());
        }
        let bytes = read_part(file, place.offset, place.size).map_err(at(place.offset))?;
        self.add_feature(bit, place, &bytes);
        Ok(())
    }
}

/// Whether nothing was recorded, which is not the same as an unfinished
/// recording: no data, but a feature table whose sections are in the file. A
/// record in its place would say an offset past any end.
fn holds_no_data(file: &File, header: &Header, len: u64) -> bool {
    let count = header.feature_bits().count() as u64;
    let end = header.data.offset.saturating_add(count * 16);
    if header.data.size > 0 || end > len || (count == 0 && end < len) {
        return false;
    }
    let Ok(table) = read_part(file, header.data.offset, count * 16) else {
        return false;
    };
    let mut fields = Fields::new(&table, header.order);
    (0..count).all(|_| match (fields.u64(), fields.u64()) {
        (Ok(offset), Ok(size)) => {
            (end..=len).contains(&offset) && Section { offset, size }.end() <= len
        }
        _ => false,
    })
}

/// Where the records are: to the end of the file if the header says 0 bytes,
/// or if records follow and there is no feature section, because then the
/// recorder did not finish.
fn data_section(file: &File, header: &Header, len: u64) -> Section {
    let data = header.data;
    let there = len.saturating_sub(data.offset);
    let is_unfinished = data.size == 0
        || data.size < there
            && header.feature_bits().next().is_none()
            && record_follows(file, header, len);
    Section {
        offset: data.offset,
        size: if is_unfinished {
            there
        } else {
            data.size.min(there)
        },
    }
}

/// Whether what stands behind the data section looks like a record of it that
/// the header does not tell of yet.
fn record_follows(file: &File, header: &Header, len: u64) -> bool {
    let at = header.data.end();
    let Ok(start) = read_part(file, at, 8) else {
        return false;
    };
    let order = header.order;
    let kind = order.u32(&start, 0).map(RecordType);
    let size = order.u16(&start, 6).map_or(0, u64::from);
    let is_whole = size >= 8 && size.is_multiple_of(8) && size <= len.saturating_sub(at);
    is_whole && kind.is_some_and(|kind| kind.name().is_some())
}

pub(super) fn at(offset: u64) -> impl Fn(std::io::Error) -> Error {
    move |source| Error::Io { offset, source }
}

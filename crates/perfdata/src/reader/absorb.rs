//! What the reader itself needs of the records that pass: events, names,
//! features, compressed data, payloads that stand behind a record.

use super::frame::COMPRESSED2_HEAD;
use super::{Current, Origin, Reader, parts};
use crate::body::{Body, EventUpdate};
use crate::damage::{DamageKind, Error};
use crate::event::Event;
use crate::features::FeatureBit;
use crate::fields::until_nul;
use crate::layout::RECORD_HEADER;
use crate::section::Section;
use prof_abi::{ByteOrder, EventAttr, RecordType, attr_size};
use std::sync::Arc;

/// What stands behind a record in the stream and belongs to it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Payload {
    kind: RecordType,
    /// Where the record is.
    record: u64,
    /// Bytes, as the record says.
    size: u64,
}

impl Reader {
    /// Checks the current record and takes in what it says; `false` if it is
    /// not to be handed out.
    pub(super) fn absorb(&mut self) -> bool {
        let Some((current, record)) = self.current.zip(self.current()) else {
            return false;
        };
        let kind = record.kind;
        if current.origin != Origin::Parts && !parts::may_follow_part(kind) {
            self.give_up_parts();
        }
        if kind == RecordType::SAMPLE {
            return self.check_sample(current);
        }
        let Some(record) = self.current() else {
            return false;
        };
        let body = match record.try_decode() {
            Ok(body) => body,
            Err(error) => {
                let (offset, len) = (record.offset, current.len as u64);
                self.damage(offset, Some(kind), DamageKind::Body(error), len);
                return false;
            }
        };
        match body {
            Body::Unknown(bytes) => {
                if let Some(formats) = tracing_data_of_simpleperf(kind, bytes, record.order()) {
                    let place = Section {
                        offset: record.offset + RECORD_HEADER as u64 + 4,
                        size: formats.len() as u64,
                    };
                    let formats = formats.to_vec();
                    if self.budget.take(place.size) {
                        self.add_feature(FeatureBit::TRACING_DATA, place, &formats);
                    }
                } else if matches!(
                    kind,
                    RecordType::SIMPLEPERF_SPLIT | RecordType::SIMPLEPERF_SPLIT_END
                ) {
                    return self.absorb_user(current, kind);
                } else if kind.name().is_none() {
                    self.notes.unknown_record(kind);
                }
            }
            body => {
                if let Some(misuse) = body.misuse(record.misc) {
                    self.damage(record.offset, Some(kind), misuse, 0);
                }
                if !kind.is_kernel() {
                    return self.absorb_user(current, kind);
                }
            }
        }
        true
    }

    /// Checks the current record, a sample: there are more of them than of all
    /// others together.
    fn check_sample(&mut self, current: Current) -> bool {
        let Some(record) = self.current() else {
            return false;
        };
        let Some(event) = record.event() else {
            // Nothing can be said of it: all views leave it out alike.
            self.notes.unknown_ids += 1;
            return false;
        };
        match record.sample_of(event) {
            Ok(sample) => {
                let all_known = event.attr.sample_type.unknown() == 0;
                if all_known && !sample.extra().is_empty() && current.origin == Origin::File {
                    self.doubtful = Some(current.len - sample.extra().len());
                }
                self.has_sampled = true;
                true
            }
            Err(error) => {
                let (offset, len) = (record.offset, current.len as u64);
                let kind = Some(RecordType::SAMPLE);
                self.damage(offset, kind, DamageKind::Body(error), len);
                false
            }
        }
    }

    /// Records from 64 on.
    fn absorb_user(&mut self, current: Current, kind: RecordType) -> bool {
        match kind {
            RecordType::HEADER_ATTR => self.absorb_attr(),
            RecordType::EVENT_UPDATE => self.absorb_update(),
            RecordType::HEADER_FEATURE => self.absorb_feature(current),
            RecordType::EVENT_TYPE => self.absorb_own(current),
            RecordType::TRACING_DATA if self.absorb_tracing_data(current) => {}
            RecordType::TRACING_DATA | RecordType::AUXTRACE => {
                self.expect_payload(current, kind);
            }
            RecordType::COMPRESSED | RecordType::COMPRESSED2 => {
                return self.absorb_compressed(current);
            }
            RecordType::SIMPLEPERF_SPLIT => self.absorb_part(),
            RecordType::SIMPLEPERF_SPLIT_END => self.join_parts(),
            _ => {}
        }
        true
    }

    /// HEADER_ATTR: the attr has the size it says, the ids come behind it.
    fn absorb_attr(&mut self) {
        let Some(record) = self.current() else { return };
        let Body::HeaderAttr(body) = record.decode() else {
            return;
        };
        let order = record.order();
        let said = order.u32(body.bytes, 4).unwrap_or(0);
        let size = if said == 0 { attr_size::VER0 } else { said };
        let (attr, ids) = match body.bytes.split_at_checked(size as usize) {
            Some((attr, ids)) => (EventAttr::decode(attr, order), ids),
            None => (None, [].as_slice()),
        };
        let (offset, len) = (record.offset, record.bytes.len() as u64);
        let ids = crate::sample::Words::new(ids, order).collect();
        let why = match attr {
            // Records may wait to be put in order of time and be looked at
            // only then: what came before must not depend on it.
            Some(_) if self.has_sampled => "an event that comes after samples".to_owned(),
            Some(attr) if self.budget.take(len) => {
                self.add_event(Event::new(attr, ids));
                let Some(why) = odd_attr_size(said, size.into()) else {
                    return;
                };
                why
            }
            _ => format!("an attr of {size} bytes in a record of {len}"),
        };
        let kind = DamageKind::Section {
            section: "attrs",
            why,
        };
        self.damage(offset, Some(RecordType::HEADER_ATTR), kind, len);
    }

    pub(super) fn add_event(&mut self, event: Event) {
        let told_apart = !self.events.cannot_be_told_apart();
        Arc::make_mut(&mut self.events).push(event);
        if told_apart && self.events.cannot_be_told_apart() {
            let offset = self.streams.input.offset();
            self.damage(offset, None, DamageKind::EventsAlike, 0);
        }
    }

    /// EVENT_UPDATE: 0 unit, 1 scale, 2 name; the CPUs of 3 stay in the record.
    fn absorb_update(&mut self) {
        let Some(record) = self.current() else { return };
        let Body::EventUpdate(update) = record.decode() else {
            return;
        };
        let EventUpdate { what, id, content } = update;
        let text = String::from_utf8_lossy(until_nul(content)).into_owned();
        let number = record.order().u64(content, 0).map(f64::from_bits);
        let index = self.events.index_of_id(id);
        let len = record.bytes.len() as u64;
        let Some(event) = index.and_then(|index| Arc::make_mut(&mut self.events).get_mut(index))
        else {
            return;
        };
        match what {
            0 if self.budget.take(len) => event.unit = Some(text),
            1 => event.scale = number,
            2 if self.budget.take(len) => event.recorded_name = Some(text),
            _ => {}
        }
    }

    /// HEADER_FEATURE; without content it is the mark behind the last one.
    fn absorb_feature(&mut self, current: Current) {
        let Some(record) = self.current() else { return };
        let Body::HeaderFeature(feature) = record.decode() else {
            return;
        };
        let len = record.bytes.len() as u64;
        if feature.content.is_empty() || feature.feature > 255 {
            return;
        }
        let bit = FeatureBit(feature.feature as u32);
        let content = feature.content.to_vec();
        let place = Section {
            offset: current.offset + 16,
            size: content.len() as u64,
        };
        if self.budget.take(len) {
            self.add_feature(bit, place, &content);
        }
    }

    pub(super) fn add_feature(&mut self, bit: FeatureBit, place: Section, bytes: &[u8]) {
        let order = self.header.order;
        if let Err(why) = self.features.add(bit, place, bytes, order) {
            let section = bit.name().unwrap_or("unknown");
            let kind = DamageKind::Section { section, why };
            self.damage(place.offset, None, kind, place.size);
        }
        match bit {
            FeatureBit::EVENT_DESC => self.name_events(),
            FeatureBit::SIMPLEPERF_META_INFO => self.name_events_by_meta_info(),
            _ => {}
        }
    }

    /// Names of EVENT_DESC go to the events with their ids; without ids to
    /// the event at the same place.
    fn name_events(&mut self) {
        for (index, described) in self
            .features
            .event_desc()
            .unwrap_or_default()
            .iter()
            .enumerate()
        {
            let by_id = described
                .ids
                .first()
                .and_then(|&id| self.events.index_of_id(id));
            let index = match by_id {
                Some(index) => index,
                None if described.ids.is_empty() => index,
                None => continue,
            };
            if let Some(event) = Arc::make_mut(&mut self.events).get_mut(index) {
                event.recorded_name = Some(described.name.to_string_lossy().into_owned());
            }
        }
    }

    /// simpleperf's META_INFO has lines `name,type,config`.
    fn name_events_by_meta_info(&mut self) {
        let info = self.features.meta_info().unwrap_or_default();
        let is_types =
            |(key, _): &&(crate::features::Text, _)| key.as_bytes() == b"event_type_info";
        let Some((_, lines)) = info.iter().find(is_types) else {
            return;
        };
        let lines = lines.to_string_lossy().into_owned();
        for line in lines.lines() {
            let mut parts = line.rsplitn(3, ',');
            let config = parts.next().and_then(|part| part.parse::<u64>().ok());
            let kind = parts.next().and_then(|part| part.parse::<u32>().ok());
            let (Some(config), Some(kind), Some(name)) = (config, kind, parts.next()) else {
                continue;
            };
            for index in 0..self.events.list().len() {
                let Some(event) = Arc::make_mut(&mut self.events).get_mut(index) else {
                    continue;
                };
                if event.attr.kind == kind && event.attr.config == config {
                    event.recorded_name = Some(name.to_owned());
                }
            }
        }
    }

    /// TRACING_DATA of simpleperf has the formats inside the record, where
    /// perf's has them behind it; whether this one has.
    fn absorb_tracing_data(&mut self, current: Current) -> bool {
        let Some(Body::TracingData(body)) = self.current().map(|record| record.decode()) else {
            return false;
        };
        // perf's own has four bytes of padding there, or none.
        let inside = body.pad.get(..body.size as usize);
        let Some(formats) = inside.filter(|_| body.pad.len() > 4) else {
            return false;
        };
        let place = Section {
            offset: current.offset + RECORD_HEADER as u64 + 4,
            size: formats.len() as u64,
        };
        let formats = formats.to_vec();
        if self.budget.take(place.size) {
            self.add_feature(FeatureBit::TRACING_DATA, place, &formats);
        }
        true
    }

    /// TRACING_DATA and AUXTRACE: the payload stands behind the record, and is
    /// read when the record has been used.
    fn expect_payload(&mut self, current: Current, kind: RecordType) {
        if current.origin != Origin::File {
            return;
        }
        let size = match self.current().map(|record| record.decode()) {
            Some(Body::TracingData(body)) => body.size.into(),
            Some(Body::Auxtrace(body)) => body.size,
            _ => return,
        };
        self.payload = Some(Payload {
            kind,
            record: current.offset,
            size,
        });
    }

    /// Reads what stands behind a TRACING_DATA record (padded to 8) or steps
    /// over what stands behind an AUXTRACE record.
    pub(super) fn absorb_payload(&mut self) -> Result<(), Error> {
        let Some(Payload { kind, record, size }) = self.payload.take() else {
            return Ok(());
        };
        let offset = self.streams.input.offset();
        let mut there = 0;
        if kind == RecordType::TRACING_DATA {
            let allowed = size.min(self.budget.left);
            let content = self.streams.input.take(allowed)?;
            there = content.len() as u64;
            self.budget.take(there);
            let place = Section {
                offset,
                size: there,
            };
            self.add_feature(FeatureBit::TRACING_DATA, place, &content);
            there += self.streams.input.skip(size.next_multiple_of(8) - there)?;
        } else {
            there += self.streams.input.skip(size)?;
        }
        if there < size {
            let damage = DamageKind::PayloadPastEnd { size, left: there };
            self.damage(record, Some(kind), damage, there);
        }
        Ok(())
    }

    /// zstd bytes go to the inflater; their records come next.
    fn absorb_compressed(&mut self, current: Current) -> bool {
        if current.origin == Origin::Unpacked {
            let kind = DamageKind::Compressed("it is inside compressed data".to_owned());
            let len = current.len as u64;
            self.damage(current.offset, Some(RecordType::COMPRESSED), kind, len);
            return false;
        }
        let bytes = self.streams.input.at_place(current.place, current.len);
        let order = self.header.order;
        let content = if order.u32(bytes, 0) == Some(RecordType::COMPRESSED2.0) {
            let content = bytes.get(COMPRESSED2_HEAD..).unwrap_or_default();
            let size = order.u64(bytes, RECORD_HEADER).unwrap_or(0);
            let size = usize::try_from(size).unwrap_or(usize::MAX);
            let padded = content.get(..size).filter(|_| !self.streams.oversized.here);
            padded.unwrap_or(content)
        } else {
            bytes.get(RECORD_HEADER..).unwrap_or_default()
        };
        self.streams.inflater.push(content, current.offset);
        true
    }
}

/// What is wrong with the size that an attr says of itself where `room` bytes
/// are its own.
pub(super) fn odd_attr_size(said: u32, room: u64) -> Option<String> {
    let published = [
        attr_size::VER0,
        attr_size::VER1,
        attr_size::VER2,
        attr_size::VER3,
        attr_size::VER4,
        attr_size::VER5,
        attr_size::VER6,
        attr_size::VER7,
        attr_size::VER8,
        attr_size::VER9,
    ];
    let is_newer = said > attr_size::VER9 && said.is_multiple_of(8);
    if u64::from(said) > room {
        return Some(format!(
            "an attr says it has {said} bytes, but there are {room}"
        ));
    }
    // Files of 2009 leave it 0.
    let is_known = said == 0 || is_newer || published.contains(&said);
    (!is_known).then(|| format!("an attr says it has {said} bytes, as no version of it"))
}

/// simpleperf has its tracepoint formats in a record, with their size in
/// front.
fn tracing_data_of_simpleperf(kind: RecordType, body: &[u8], order: ByteOrder) -> Option<&[u8]> {
    const MAGIC: &[u8] = b"\x17\x08\x44tracing";
    if kind != RecordType::SIMPLEPERF_TRACING_DATA {
        return None;
    }
    let size = order.u32(body, 0)?;
    let formats = body.get(4..)?.get(..size as usize)?;
    formats.starts_with(MAGIC).then_some(formats)
}

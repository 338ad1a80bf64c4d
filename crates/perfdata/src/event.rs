//! The events of a recording and which of them a record belongs to.

use crate::kernel_faults;
use crate::layout::{RECORD_HEADER, SampleLayout};
use crate::order::SamplePart;
use prof_abi::{AttrFlags, ByteOrder, EventAttr, Misc, RecordType, SampleType};
use rustc_hash::FxHashMap;
use std::borrow::Cow;

/// An event: what was sampled, under which ids.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    /// What was asked of the kernel.
    pub attr: EventAttr,
    /// One id for each opened descriptor (CPU and thread).
    pub ids: Vec<u64>,
    /// The name the recorder gave it, if the file tells.
    pub recorded_name: Option<String>,
    /// Unit of its counts, from EVENT_UPDATE.
    pub unit: Option<String>,
    /// Factor of its counts, from EVENT_UPDATE.
    pub scale: Option<f64>,
    /// Layout of its records.
    pub layout: SampleLayout,
}

impl Event {
    /// An event with this attr and these ids.
    pub fn new(attr: EventAttr, ids: Vec<u64>) -> Self {
        let layout = SampleLayout::new(&attr);
        Self {
            attr,
            ids,
            recorded_name: None,
            unit: None,
            scale: None,
            layout,
        }
    }

    /// The recorded name, or one made from the attr.
    pub fn name(&self) -> Cow<'_, str> {
        match &self.recorded_name {
            Some(name) => Cow::Borrowed(name),
            None => Cow::Owned(prof_abi::event_name(&self.attr)),
        }
    }

    /// Of a tracepoint, its number.
    pub fn tracepoint(&self) -> Option<u64> {
        (self.attr.kind == prof_abi::event_kind::TRACEPOINT).then_some(self.attr.config)
    }

    /// The period that a sample of this event counts with: the sample's own,
    /// else the event's fixed period, else 1 (the event has a frequency, which
    /// says nothing about a single sample).
    #[inline]
    pub fn period_of(&self, recorded: Option<u64>) -> u64 {
        recorded.unwrap_or(if self.attr.is_freq() {
            1
        } else {
            self.attr.sample_period
        })
    }
}

/// How records tell their event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Addressing {
    /// There is at most one event, or nothing to tell them apart by.
    #[default]
    First,
    /// IDENTIFIER: the event id is the first u64 of a sample's body and the
    /// last u64 of other records.
    Identifier,
    /// ID: the event id is at the same place in the records of all events.
    Id { in_sample: u16, from_end: u16 },
    /// Several layouts and nothing to tell them apart by.
    Unknowable,
}

/// The numbers of events by id. It is asked for every record, and recordings
/// of few CPUs have so few ids that looking through them is faster than a hash.
#[derive(Debug, Clone, Default)]
struct Ids {
    /// The first ones.
    few: Vec<(u64, u32)>,
    /// The others.
    more: FxHashMap<u64, u32>,
}

impl Ids {
    const FEW: usize = 8;

    #[inline]
    fn get(&self, id: u64) -> Option<u32> {
        let found = self.few.iter().find(|(known, _)| *known == id);
        match found {
            Some(&(_, index)) => Some(index),
            None if self.more.is_empty() => None,
            None => self.more.get(&id).copied(),
        }
    }

    /// Of ids that come twice the first counts.
    fn insert(&mut self, id: u64, index: u32) {
        if self.get(id).is_some() {
            return;
        }
        if self.few.len() < Self::FEW {
            self.few.push((id, index));
        } else {
            self.more.insert(id, index);
        }
    }
}

/// All events of a recording, in the order of its attrs.
#[derive(Debug, Clone, Default)]
pub struct Events {
    order: ByteOrder,
    list: Vec<Event>,
    by_id: Ids,
    addressing: Addressing,
    sample_id_all: bool,
    /// Whether an event asked for build-ids of mappings.
    has_build_ids: bool,
}

impl Events {
    /// No events yet.
    pub fn new(order: ByteOrder) -> Self {
        Self {
            order,
            ..Self::default()
        }
    }

    /// The byte order of the records.
    pub fn order(&self) -> ByteOrder {
        self.order
    }

    /// Adds an event. If an id is already another event's, that event keeps it.
    pub fn push(&mut self, event: Event) {
        let index = self.list.len() as u32;
        for &id in &event.ids {
            self.by_id.insert(id, index);
        }
        self.list.push(event);
        self.addressing = self.how_addressed();
        self.sample_id_all = self.list.iter().all(has_sample_id_all);
        let asks = |event: &Event| event.attr.flags.has(AttrFlags::BUILD_ID);
        self.has_build_ids = self.list.iter().any(asks);
    }

    fn how_addressed(&self) -> Addressing {
        let all_have = |bit| {
            self.list
                .iter()
                .all(|event| event.attr.sample_type.has(bit))
        };
        let Some((first, rest)) = self.list.split_first() else {
            return Addressing::First;
        };
        let same = rest.iter().all(|event| event.layout == first.layout);
        if rest.is_empty() {
            return Addressing::First;
        }
        if all_have(SampleType::IDENTIFIER) {
            return Addressing::Identifier;
        }
        let same_type = |event: &Event| event.attr.sample_type == first.attr.sample_type;
        if all_have(SampleType::ID) && rest.iter().all(same_type) {
            return Addressing::Id {
                in_sample: first.layout.at(SamplePart::Id).unwrap_or(0) as u16,
                from_end: first.layout.trailer.back(SamplePart::Id).unwrap_or(0) as u16,
            };
        }
        if same {
            Addressing::First
        } else {
            Addressing::Unknowable
        }
    }

    /// The events in the order of their attrs.
    pub fn list(&self) -> &[Event] {
        &self.list
    }

    /// The event with this number.
    pub fn get(&self, index: usize) -> Option<&Event> {
        self.list.get(index)
    }

    /// The number of the event that has `id`.
    #[inline]
    pub(crate) fn index_of_id(&self, id: u64) -> Option<usize> {
        self.by_id.get(id).map(|index| index as usize)
    }

    /// Whether several events cannot be told apart, so that no sample can be
    /// read ("non matching sample_type").
    pub(crate) fn cannot_be_told_apart(&self) -> bool {
        self.addressing == Addressing::Unknowable
    }

    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut Event> {
        self.list.get_mut(index)
    }

    /// The index of the event that a record (header included) belongs to.
    /// `None` for an unknown id. Id 0, which synthesised records carry, means
    /// the first event.
    #[inline]
    pub fn index_of(&self, kind: RecordType, record: &[u8]) -> Option<usize> {
        let at = match (self.addressing, kind) {
            (Addressing::First, _) => return (!self.list.is_empty()).then_some(0),
            (Addressing::Unknowable, RecordType::SAMPLE) => return None,
            (Addressing::Identifier, RecordType::SAMPLE) => RECORD_HEADER,
            (Addressing::Id { in_sample, .. }, RecordType::SAMPLE) => in_sample.into(),
            (Addressing::Identifier, _) if self.sample_id_all => {
                self.trailer_end(kind, record).checked_sub(8)?
            }
            (Addressing::Id { from_end, .. }, _) if self.sample_id_all => {
                let end = self.trailer_end(kind, record);
                end.checked_sub(from_end.into())?
            }
            _ => return Some(0),
        };
        match self.order.u64(record, at)? {
            0 => Some(0),
            id => self.index_of_id(id),
        }
    }

    /// Where the trailer of a record ends that is not a sample, in bytes from the
    /// record's start: at its end, unless the kernel made it too long.
    #[inline]
    pub fn trailer_end(&self, kind: RecordType, record: &[u8]) -> usize {
        // All events of a recording have the same fields in it.
        let trailer = self.list.first();
        let trailer = trailer.map_or(0, |event| event.layout.trailer_len());
        kernel_faults::trailer_end(kind, record, trailer, self.order)
    }

    /// The `misc` of a record as it is meant.
    #[inline]
    pub(crate) fn misc_of(&self, kind: RecordType, misc: Misc, record: &[u8]) -> Misc {
        let is_told = kind == RecordType::MMAP2 && misc.has(Misc::MMAP_BUILD_ID);
        if is_told && !self.has_build_ids && kernel_faults::is_inode(record, self.order) {
            return misc.without(Misc::MMAP_BUILD_ID);
        }
        misc
    }
}

fn has_sample_id_all(event: &Event) -> bool {
    event.attr.flags.has(AttrFlags::SAMPLE_ID_ALL)
}

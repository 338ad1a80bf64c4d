//! What a recording lost, of records that tell the same losses twice.

use crate::body::Body;
use crate::event::{Event, Events};
use crate::record::Record;
use prof_abi::{AttrFlags, Misc, ReadFormat, RecordType, Software, event_kind};

/// Counts of lost samples and records, of one event or of all events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Lost {
    /// Lost samples. If the event also carries records of mappings and tasks,
    /// those may be counted among them, unless the recorder told them apart:
    /// see [`Lost::may_be_side_band`].
    pub samples: u64,
    /// Lost records of any kind, where nothing tells how many of them were
    /// samples: an upper bound for further lost samples.
    pub records: u64,
    /// Records of mappings, names and tasks.
    pub side_band: u64,
    /// Whether records of mappings, names and tasks may be among `samples`.
    pub may_be_side_band: bool,
}

impl Lost {
    /// The sum of both.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            samples: self.samples.saturating_add(other.samples),
            records: self.records.saturating_add(other.records),
            side_band: self.side_band.saturating_add(other.side_band),
            may_be_side_band: self.may_be_side_band || other.may_be_side_band,
        }
    }

    /// Upper bound for the samples that are missing.
    pub fn most_samples(&self) -> u64 {
        self.samples.saturating_add(self.records)
    }
}

/// Adds up the records that report losses. Which record means what, by who
/// wrote it:
///
/// | record | by | tells |
/// |---|---|---|
/// | `LOST` | kernel | records that found no room in a ring, of all its events together, under the id of whichever wrote next |
/// | `LOST_SAMPLES` | kernel | samples that the hardware dropped before there was a record (PEBS) |
/// | `LOST_SAMPLES`, time 0 | recorder, at the end | the event's own count (`PERF_FORMAT_LOST`, Linux 6.0): what `LOST` told, by event |
/// | the same, misc bit 15 | recorder | samples that a BPF filter dropped, as it was told to: no loss |
/// | `LOST`, time 0 | this recorder, at the end | the same of descriptors that bring mappings, names and tasks alone: an event's without samples, or such ones beside those that sample; 0 says that there are some and that they lost nothing |
///
/// So where a recorder wrote its counts, `LOST` of events that have such a
/// count is told already; the others are an upper bound.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Losses {
    events: Vec<Told>,
    /// Whether the recorder wrote the events' own counts.
    has_counts: bool,
}

/// What was told of one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Told {
    ring: u64,
    hardware: u64,
    counted: u64,
    /// Of descriptors without samples, if the event has some.
    side_band: Option<u64>,
}

impl Losses {
    /// Counts a `LOST` or `LOST_SAMPLES` record; ignores all others.
    pub fn add(&mut self, record: &Record<'_>) {
        if !matches!(record.kind, RecordType::LOST | RecordType::LOST_SAMPLES) {
            return;
        }
        let is_of_recorder = is_of_recorder(record);
        let (lost, what): (u64, fn(&mut Told) -> &mut u64) = match record.decode() {
            Body::Lost(_) | Body::LostSamples(_) if record.misc.has(Misc::LOST_SAMPLES_BPF) => {
                return;
            }
            Body::Lost(lost) if is_of_recorder => {
                (lost.lost, |told| told.side_band.get_or_insert_default())
            }
            Body::Lost(lost) => (lost.lost, |told| &mut told.ring),
            Body::LostSamples(lost) if is_of_recorder => (lost.lost, |told| &mut told.counted),
            Body::LostSamples(lost) => (lost.lost, |told| &mut told.hardware),
            _ => return,
        };
        self.has_counts |= is_of_recorder;
        // A record of no known event counts for the first.
        let index = record.event_index().unwrap_or(0);
        if index >= self.events.len() {
            self.events.resize(index + 1, Told::default());
        }
        if let Some(told) = self.events.get_mut(index) {
            let sum = what(told);
            *sum = sum.saturating_add(lost);
        }
    }

    /// What event `index` of the recording lost.
    pub fn of(&self, index: usize, events: &Events) -> Lost {
        let (Some(told), event) = (self.events.get(index), events.get(index)) else {
            return Lost::default();
        };
        let is_counted = self.has_counts && event.is_some_and(has_count);
        let records = if is_counted { 0 } else { told.ring };
        let counted = told.counted.saturating_add(told.hardware);
        let side_band = told.side_band.unwrap_or(0);
        match event.is_some_and(has_no_samples) {
            true => Lost {
                records,
                side_band: side_band.saturating_add(counted),
                ..Lost::default()
            },
            false => Lost {
                samples: counted,
                records,
                side_band,
                may_be_side_band: told.counted > 0
                    && told.side_band.is_none()
                    && event.is_some_and(tells_of_tasks),
            },
        }
    }

    /// What all events lost.
    pub fn total(&self, events: &Events) -> Lost {
        (0..self.events.len())
            .map(|index| self.of(index, events))
            .fold(Lost::default(), Lost::plus)
    }
}

/// Records that a recorder writes at the end have no time and no thread; those
/// of the kernel have both, if the event tells them. Only an event with a count
/// of its own lets a recorder know.
fn is_of_recorder(record: &Record<'_>) -> bool {
    let id = record.sample_id();
    let tells_nobody = id.pid.unwrap_or(0) == 0 && id.tid.unwrap_or(0) == 0;
    // Without times, a LOST may as well be the kernel's.
    let is_timeless = match id.time {
        Some(time) => time == 0,
        None => record.kind == RecordType::LOST_SAMPLES,
    };
    is_timeless && tells_nobody && record.event().is_some_and(has_count)
}

/// Whether the kernel counts its losses apart.
fn has_count(event: &Event) -> bool {
    event.attr.read_format.has(ReadFormat::LOST)
}

/// Whether all its records are of mappings, names and tasks.
fn has_no_samples(event: &Event) -> bool {
    event.attr.kind == event_kind::SOFTWARE && event.attr.config == Software::DUMMY.0
}

/// Whether its records are of mappings, names and tasks as well.
fn tells_of_tasks(event: &Event) -> bool {
    let side_band = AttrFlags::MMAP.0 | AttrFlags::MMAP2.0 | AttrFlags::COMM.0 | AttrFlags::TASK.0;
    event.attr.flags.0 & side_band != 0
}

#[cfg(test)]
mod tests {
    use super::{Losses, Lost};
    use crate::body::{Body, Lost as LostRecord, LostSamples};
    use crate::event::{Event, Events};
    use crate::record::Record;
    use crate::write::{Trailer, append_short};
    use prof_abi::{AttrFlags, ByteOrder, EventAttr, Misc, ReadFormat, SampleType, Software};

    const IDS: [u64; 3] = [11, 12, 13];

    /// Two sampling events and one of mappings and tasks.
    fn events(read_format: ReadFormat) -> Events {
        let mut events = Events::new(ByteOrder::NATIVE);
        let configs = [Software::CPU_CLOCK, Software::TASK_CLOCK, Software::DUMMY];
        for (id, config) in IDS.into_iter().zip(configs) {
            let attr = EventAttr {
                kind: 1,
                config: config.0,
                read_format,
                sample_type: SampleType::TID | SampleType::TIME | SampleType::IDENTIFIER,
                flags: AttrFlags::SAMPLE_ID_ALL,
                ..EventAttr::default()
            };
            events.push(Event::new(attr, vec![id]));
        }
        events
    }

    fn trailer(events: &Events, event: usize, time: u64) -> Trailer {
        let attr = &events.get(event).expect("an event").attr;
        Trailer {
            id: IDS[event],
            time,
            pid: u32::from(time > 0),
            tid: u32::from(time > 0),
            ..Trailer::of(attr)
        }
    }

    /// A `LOST` of the kernel's, under the id of this event.
    fn ring(losses: &mut Losses, events: &Events, event: usize, lost: u64) {
        let mut bytes = Vec::new();
        let id = IDS[event];
        let body = Body::Lost(LostRecord { id, lost });
        append_short(&body, Misc(0), &trailer(events, event, 5), &mut bytes);
        losses.add(&Record::new(&bytes, 0, events).expect("a record"));
    }

    fn samples(losses: &mut Losses, events: &Events, event: usize, (time, lost): (u64, u64)) {
        let mut bytes = Vec::new();
        let body = Body::LostSamples(LostSamples { lost });
        append_short(&body, Misc(0), &trailer(events, event, time), &mut bytes);
        losses.add(&Record::new(&bytes, 0, events).expect("a record"));
    }

    #[test]
    fn what_both_kinds_tell_counts_once_and_for_its_event() {
        let events = events(ReadFormat::ID | ReadFormat::LOST);
        let mut losses = Losses::default();
        // The ring lost 90 of the first event, 7 of the second and 3 of the
        // third; the second wrote next.
        ring(&mut losses, &events, 1, 100);
        assert_eq!(losses.total(&events).records, 100, "no counts yet");
        samples(&mut losses, &events, 0, (0, 90));
        samples(&mut losses, &events, 1, (0, 7));
        samples(&mut losses, &events, 2, (0, 3));
        let of = |index| losses.of(index, &events);
        assert_eq!((of(0).samples, of(1).samples), (90, 7));
        let total = Lost {
            samples: 97,
            side_band: 3,
            ..Lost::default()
        };
        assert_eq!(losses.total(&events), total);
    }

    #[test]
    fn a_count_of_zero_says_that_no_sample_was_among_the_lost_records() {
        let events = events(ReadFormat::ID | ReadFormat::LOST);
        let mut losses = Losses::default();
        ring(&mut losses, &events, 0, 100);
        samples(&mut losses, &events, 0, (0, 0));
        assert_eq!(losses.total(&events), Lost::default());
    }

    #[test]
    fn without_counts_lost_records_are_an_upper_bound() {
        let events = events(ReadFormat::ID);
        let mut losses = Losses::default();
        ring(&mut losses, &events, 0, 100);
        ring(&mut losses, &events, 1, 10);
        let total = losses.total(&events);
        assert_eq!((total.samples, total.records), (0, 110));
    }

    #[test]
    fn what_the_hardware_dropped_is_lost_besides() {
        let events = events(ReadFormat::ID | ReadFormat::LOST);
        let mut losses = Losses::default();
        ring(&mut losses, &events, 0, 90);
        samples(&mut losses, &events, 0, (77, 4));
        assert_eq!(losses.total(&events).records, 90, "of the kernel: no count");
        samples(&mut losses, &events, 0, (0, 90));
        let total = losses.total(&events);
        assert_eq!((total.samples, total.records), (94, 0));
    }

    #[test]
    fn what_a_filter_dropped_is_no_loss() {
        let events = events(ReadFormat::ID | ReadFormat::LOST);
        let mut losses = Losses::default();
        let mut bytes = Vec::new();
        let body = Body::LostSamples(LostSamples { lost: 50 });
        append_short(&body, Misc(0), &trailer(&events, 0, 0), &mut bytes);
        bytes[4..6].copy_from_slice(&Misc::LOST_SAMPLES_BPF.0.to_ne_bytes());
        losses.add(&Record::new(&bytes, 0, &events).expect("a record"));
        assert_eq!(losses, Losses::default());
    }

    /// A `LOST` of the recorder's, of descriptors that have no samples.
    fn side_band(losses: &mut Losses, events: &Events, event: usize, lost: u64) {
        let mut bytes = Vec::new();
        let body = Body::Lost(LostRecord {
            id: IDS[event],
            lost,
        });
        append_short(&body, Misc(0), &trailer(events, event, 0), &mut bytes);
        losses.add(&Record::new(&bytes, 0, events).expect("a record"));
    }

    /// One event that samples and tells of mappings.
    fn one_for_both() -> Events {
        let mut all = Events::new(ByteOrder::NATIVE);
        let mut event = events(ReadFormat::LOST).get(0).expect("an event").clone();
        event.attr.flags = event.attr.flags.with(AttrFlags::MMAP2);
        all.push(event);
        all
    }

    #[test]
    fn side_band_may_be_among_the_losses_of_an_event_that_tells_of_it() {
        let all = one_for_both();
        let mut losses = Losses::default();
        assert!(!losses.total(&all).may_be_side_band);
        samples(&mut losses, &all, 0, (0, 2));
        assert!(losses.total(&all).may_be_side_band);
    }

    #[test]
    fn side_band_of_descriptors_of_its_own_is_no_sample() {
        let all = one_for_both();
        for lost in [0, 1] {
            let mut losses = Losses::default();
            ring(&mut losses, &all, 0, 5);
            samples(&mut losses, &all, 0, (0, 4));
            side_band(&mut losses, &all, 0, lost);
            let expected = Lost {
                samples: 4,
                side_band: lost,
                ..Lost::default()
            };
            assert_eq!(losses.total(&all), expected);
        }
    }

    #[test]
    fn what_an_event_without_samples_lost_is_side_band() {
        let all = events(ReadFormat::LOST);
        let mut losses = Losses::default();
        side_band(&mut losses, &all, 2, 3);
        let expected = Lost {
            side_band: 3,
            ..Lost::default()
        };
        assert_eq!(losses.total(&all), expected);
    }
}

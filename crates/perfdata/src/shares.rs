//! What a sample says of several events: counters read along with it.

use crate::event::{Event, Events};
use crate::sample::Sample;
use prof_abi::{AttrFlags, SampleType};
use rustc_hash::FxHashMap;

/// The part of a sample that belongs to one event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// The event's number in [`crate::Events::list`].
    pub event: usize,
    /// The period that the sample adds to this event.
    pub period: u64,
}

/// Divides samples among events, as perf does.
///
/// Of a group `{a,b}:S` only `a` takes samples, and each tells what all have
/// counted so far. It stands for a sample of every member that counted
/// something since the sample before, with the difference as its period:
///
/// ```text
///   sample   a    b        a's period   b's period
///   1        100  3        100          3
///   2        250  3        150          -
/// ```
///
/// Samples must come in the order of their times.
#[derive(Debug, Default)]
pub struct Shares {
    /// What was counted under an id, in one thread or in all, up to the last
    /// sample.
    counted: FxHashMap<(u64, Option<i32>), u64>,
}

impl Shares {
    /// Appends to `out` how `sample`, one of the event with index `own`,
    /// divides among events: its own event alone if it carries no counters;
    /// nothing if no counter advanced or the event is unknown.
    pub fn of(&mut self, events: &Events, own: usize, sample: &Sample<'_>, out: &mut Vec<Share>) {
        let Some(event) = events.get(own) else {
            return;
        };
        let before = out.len();
        let mut is_known = false;
        if let Some(values) = sample.read() {
            let thread = counts_by_thread(event).then(|| sample.tid()).flatten();
            for counter in values.values() {
                let of_event = |id| Some((id, events.index_of_id(id)?));
                let Some((id, event)) = counter.id.and_then(of_event) else {
                    continue;
                };
                is_known = true;
                let last = self.counted.insert((id, thread), counter.value);
                let period = counter.value.wrapping_sub(last.unwrap_or(0));
                if period > 0 {
                    out.push(Share { event, period });
                }
            }
        }
        if out.len() == before && !is_known {
            let period = event.period_of(sample.period());
            out.push(Share { event: own, period });
        }
    }
}

/// Whether the counters of an event are those of a thread: of inherited ones
/// the kernel tells (since 6.12) what the sampled thread counted.
fn counts_by_thread(event: &Event) -> bool {
    event.attr.flags.has(AttrFlags::INHERIT) && event.attr.sample_type.has(SampleType::TID)
}

#[cfg(test)]
mod tests {
    use super::{Share, Shares};
    use crate::event::{Event, Events};
    use crate::{Body, Record};
    use prof_abi::{AttrFlags, ByteOrder, EventAttr, ReadFormat, RecordType, SampleType};

    fn events(flags: AttrFlags) -> Events {
        let attr = EventAttr {
            sample_type: SampleType::IDENTIFIER | SampleType::TID | SampleType::READ,
            read_format: ReadFormat::ID | ReadFormat::GROUP,
            sample_period: 9,
            flags,
            ..EventAttr::default()
        };
        let mut events = Events::new(ByteOrder::Little);
        events.push(Event::new(attr.clone(), vec![10]));
        events.push(Event::new(attr, vec![20]));
        events
    }

    fn sample(tid: u32, counters: &[(u64, u64)]) -> Vec<u8> {
        let size = 8 + 8 + 8 + 8 + counters.len() * 16;
        let mut bytes = Vec::new();
        bytes.extend(RecordType::SAMPLE.0.to_le_bytes());
        bytes.extend([0, 0]);
        bytes.extend((size as u16).to_le_bytes());
        bytes.extend(10_u64.to_le_bytes());
        bytes.extend(1_u32.to_le_bytes());
        bytes.extend(tid.to_le_bytes());
        bytes.extend((counters.len() as u64).to_le_bytes());
        for (value, id) in counters {
            bytes.extend(value.to_le_bytes());
            bytes.extend(id.to_le_bytes());
        }
        bytes
    }

    fn shares(events: &Events, samples: &[Vec<u8>]) -> Vec<Vec<(usize, u64)>> {
        let mut shares = Shares::default();
        let one = |bytes: &Vec<u8>| {
            let record = Record::new(bytes, 0, events).expect("a record");
            let Body::Sample(sample) = record.decode() else {
                panic!("a sample");
            };
            let mut out = Vec::new();
            let own = record.event_index().expect("an event");
            shares.of(events, own, &sample, &mut out);
            let pair = |share: &Share| (share.event, share.period);
            out.iter().map(pair).collect()
        };
        samples.iter().map(one).collect()
    }

    #[test]
    fn each_member_has_what_it_counted_since_the_sample_before() {
        // covers unit: ST-07, RF-04
        let samples = [
            sample(1, &[(100, 10), (3, 20)]),
            sample(1, &[(250, 10), (3, 20)]),
            sample(2, &[(250, 10), (3, 20)]),
            sample(2, &[(251, 10), (7, 20), (5, 99)]),
        ];
        assert_eq!(
            shares(&events(AttrFlags::default()), &samples),
            [
                vec![(0, 100), (1, 3)],
                vec![(0, 150)],
                vec![],
                vec![(0, 1), (1, 4)]
            ]
        );
    }

    #[test]
    fn inherited_counters_are_told_apart_by_thread() {
        // covers unit: ATTR-24
        let samples = [
            sample(1, &[(100, 10)]),
            sample(2, &[(70, 10)]),
            sample(1, &[(150, 10)]),
        ];
        assert_eq!(
            shares(&events(AttrFlags::INHERIT), &samples),
            [[(0, 100)], [(0, 70)], [(0, 50)]]
        );
    }

    #[test]
    fn a_sample_with_counters_of_nobody_stands_for_itself() {
        let samples = [sample(1, &[(100, 99)]), sample(1, &[])];
        assert_eq!(
            shares(&events(AttrFlags::default()), &samples),
            [[(0, 9)], [(0, 9)]]
        );
    }
}

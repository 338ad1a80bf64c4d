//! The records that all rings gave in one drain, each taken apart once.

use crate::stacks::UserState;
use prof_abi::{ByteOrder, RecordType, SampleType};
use prof_perfdata::{Events, Record, Sample};
use prof_unwind::Machine;
use rustc_hash::FxHashMap;

/// A record of a drain.
#[derive(Debug)]
pub(super) struct Drained<'a> {
    pub(super) record: Record<'a>,
    /// Its time, ns; 0 if it tells none.
    pub(super) time: u64,
    /// It was held back by the drain before.
    pub(super) was_held: bool,
    pub(super) content: Content,
}

/// What is to be done with a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Content {
    /// Not a sample: it changes the state of processes, or means nothing here.
    Other,
    /// A sample without user registers, which stays as it is.
    Plain,
    /// A sample of no known event, or one that cannot be read.
    Malformed,
    /// A sample whose user stack becomes a call chain, by its place among these.
    Unwound(usize),
}

/// A sample with user registers.
#[derive(Debug)]
pub(super) struct ToUnwind<'a> {
    /// The number of its event.
    pub(super) event: usize,
    pub(super) sample: Sample<'a>,
    /// What to unwind from; `None` of kernel threads.
    pub(super) user: Option<UserState<'a>>,
    /// Highest stack pointer among the thread's later samples of this drain,
    /// 0 if there are none.
    pub(super) later_sp: u64,
}

/// The records of a drain.
#[derive(Debug)]
pub(super) struct Drain<'a> {
    records: Vec<Drained<'a>>,
    /// Apart from the records: of a hundred thousand switches a second few have one, and
    /// it is several times as large as a record.
    unwound: Vec<ToUnwind<'a>>,
    /// Times, ns, and indices in the order of time; of the same time, that of the rings.
    order: Vec<(u64, usize)>,
}

impl<'a> Drain<'a> {
    /// Those of whole records that were held back, and of the `incoming` ones.
    pub(super) fn new(
        held: &'a [u8],
        incoming: &'a [u8],
        events: &'a Events,
        machine: Machine,
    ) -> Self {
        let count = Whole(held).count() + Whole(incoming).count();
        let mut records = Vec::with_capacity(count);
        let mut unwound = Vec::new();
        for (bytes, was_held) in [(held, true), (incoming, false)] {
            let each = Whole(bytes);
            records.extend(each.filter_map(|record| {
                let record = Record::new(record, 0, events)?;
                Some(Drained::new(record, was_held, machine, &mut unwound))
            }));
        }
        let times = records.iter().map(|it| it.time).enumerate();
        let mut order: Vec<(u64, usize)> = times.map(|(index, time)| (time, index)).collect();
        order.sort_by_key(|&(time, _)| time);
        let mut drain = Self {
            records,
            unwound,
            order,
        };
        drain.look_ahead();
        drain
    }

    /// All of them, in the order of time.
    pub(super) fn records(&self) -> impl Iterator<Item = &Drained<'a>> {
        let order = self.order.iter();
        order.filter_map(|&(_, index)| self.records.get(index))
    }

    /// What is to be unwound of a sample with user registers.
    pub(super) fn unwound(&self, place: usize) -> Option<&ToUnwind<'a>> {
        self.unwound.get(place)
    }

    /// Tells each sample of the thread's later ones.
    fn look_ahead(&mut self) {
        let mut highest = FxHashMap::<i32, u64>::default();
        for &(_, index) in self.order.iter().rev() {
            let Some(Content::Unwound(place)) = self.records.get(index).map(|it| it.content) else {
                continue;
            };
            let Some(it) = self.unwound.get_mut(place) else {
                continue;
            };
            if let (Some(user), Some(tid)) = (&it.user, it.sample.tid()) {
                let known = highest.entry(tid).or_default();
                it.later_sp = *known;
                *known = it.later_sp.max(user.registers.sp());
            }
        }
    }
}

impl<'a> Drained<'a> {
    /// What is to be unwound of it goes behind the `unwound` ones.
    fn new(
        record: Record<'a>,
        was_held: bool,
        machine: Machine,
        unwound: &mut Vec<ToUnwind<'a>>,
    ) -> Self {
        let content = match record.kind {
            RecordType::SAMPLE => Content::of_sample(&record, machine, unwound),
            _ => Content::Other,
        };
        let time = match content {
            Content::Unwound(_) => unwound.last().and_then(|it| it.sample.time()),
            _ => record.time(),
        };
        Self {
            record,
            time: time.unwrap_or(0),
            was_held,
            content,
        }
    }
}

impl Content {
    fn of_sample<'a>(
        record: &Record<'a>,
        machine: Machine,
        unwound: &mut Vec<ToUnwind<'a>>,
    ) -> Self {
        let known = record.event_index();
        let Some((index, event)) = known.and_then(|at| Some((at, record.events().get(at)?))) else {
            return Self::Malformed;
        };
        if !event.attr.sample_type.has(SampleType::REGS_USER) {
            return Self::Plain;
        }
        let Ok(sample) = record.sample_of(event) else {
            return Self::Malformed;
        };
        let pid = sample.pid();
        unwound.push(ToUnwind {
            event: index,
            user: pid.and_then(|pid| UserState::of(&sample, pid, machine)),
            sample,
            later_sp: 0,
        });
        Self::Unwound(unwound.len() - 1)
    }
}

/// Whole records, one after the other; what follows the last one is left.
struct Whole<'a>(&'a [u8]);

impl<'a> Iterator for Whole<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let size = usize::from(ByteOrder::NATIVE.u16(self.0, 6)?);
        let (record, rest) = self.0.split_at_checked(size).filter(|_| size >= 8)?;
        self.0 = rest;
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::{Content, Drain};
    use prof_abi::{ByteOrder, EventAttr, SampleType};
    use prof_perfdata::write::{SampleEncoder, SampleFields};
    use prof_perfdata::{Event, Events};
    use prof_unwind::Machine;

    fn attr(has_registers: bool) -> EventAttr {
        let fields = SampleType::IDENTIFIER | SampleType::TID | SampleType::TIME;
        let user = SampleType::REGS_USER | SampleType::STACK_USER;
        EventAttr {
            sample_type: match has_registers {
                true => fields.with(user),
                false => fields,
            },
            // Stack pointer and program counter.
            sample_regs_user: 0b11 << 7,
            ..EventAttr::default()
        }
    }

    /// Event 1 has user registers, event 2 has not.
    fn events() -> Events {
        let mut events = Events::new(ByteOrder::NATIVE);
        events.push(Event::new(attr(true), vec![1]));
        events.push(Event::new(attr(false), vec![2]));
        events
    }

    fn sample(id: u64, tid: u32, time: u64, sp: u64) -> Vec<u8> {
        let fields = SampleFields {
            id,
            pid: tid,
            tid,
            time,
            regs_user: (2, &[sp, 0x1000]),
            stack_user: &[0; 16],
            ..SampleFields::default()
        };
        let mut out = Vec::new();
        let encoded = SampleEncoder::new(&attr(id == 1)).encode(&fields, &mut out);
        encoded.expect("short");
        out
    }

    #[test]
    fn records_of_rings_are_ordered_and_samples_know_the_later_ones() {
        // covers unit: RING-12
        let held = sample(1, 7, 20, 0x500);
        let first_ring = [sample(1, 7, 10, 0x100), sample(1, 7, 40, 0x300)].concat();
        let second_ring = [sample(1, 8, 30, 0x900), sample(2, 7, 20, 0)].concat();
        let incoming = [first_ring, second_ring].concat();
        let events = events();
        let drain = Drain::new(&held, &incoming, &events, Machine::X86_64);
        let seen: Vec<_> = drain
            .records()
            .map(|it| {
                let sample = match it.content {
                    Content::Unwound(place) => drain.unwound(place),
                    _ => None,
                };
                (it.time, it.was_held, sample.map(|sample| sample.later_sp))
            })
            .collect();
        let expected = [
            (10, false, Some(0x500)),
            // Of the same time what was held comes first.
            (20, true, Some(0x300)),
            (20, false, None),
            // Of another thread.
            (30, false, Some(0)),
            (40, false, Some(0)),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn what_cannot_be_read_is_told_apart_from_what_stays() {
        let plain = sample(2, 7, 1, 0);
        let nobodys = sample(9, 7, 2, 0);
        let mut cut = sample(1, 7, 3, 0);
        // The stack claims more than the record has.
        let at = cut.len() - 8 - 16 - 8;
        cut[at..at + 8].copy_from_slice(&4096_u64.to_ne_bytes());
        let incoming = [plain, nobodys, cut].concat();
        let events = events();
        // The last record is not whole.
        let incoming = [incoming, sample(2, 7, 4, 0)[..12].to_vec()].concat();
        let drain = Drain::new(&[], &incoming, &events, Machine::X86_64);
        let mut plain = 0;
        let mut malformed = 0;
        for it in drain.records() {
            match it.content {
                Content::Plain => plain += 1,
                Content::Malformed => malformed += 1,
                Content::Other | Content::Unwound(_) => panic!("{it:?}"),
            }
        }
        assert_eq!((plain, malformed), (1, 2));
    }
}

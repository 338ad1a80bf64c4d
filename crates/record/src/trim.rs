//! Samples without the part of their stack dump that holds nothing, or that
//! there is no room for, and without what is behind their fields.
//!
//! The kernel reserves the whole dump in the ring, however little of the
//! stack there was to copy. Where the dump only goes to the unwinder, what is
//! not valid or lies above the stack's start need not be copied out of the
//! ring. And where the unwinder cannot keep up, a sample with less of its
//! stack is better than none.
//!
//! Of a software event that several recorders count the kernel makes one
//! sample for all of them (`do_perf_sw_event`), as long as what each asked for
//! together: behind the fields of ours then stands what was in the ring before.

use crate::registers::MACHINE;
use crate::shallow::Depths;
use crate::witness::{WitnessSamples, shares_samples};
use prof_abi::{ByteOrder, Misc, RecordType};
use prof_live::StackStarts;
use prof_perfdata::write::{EventDescription, shorten_user_stack};
use prof_perfdata::{Event, Events, Record, Sample};
use std::sync::Arc;

/// Shortens samples of the events it was made for.
#[derive(Debug)]
pub(crate) struct Trim {
    events: Events,
    /// The event whose records are left out.
    witness: WitnessSamples,
    dumps: Dumps,
    /// Told how deep stacks are, where that matters.
    depths: Option<Depths>,
}

/// What becomes of stack dumps.
#[derive(Debug)]
enum Dumps {
    /// To what is valid and may be needed, by where stacks start.
    Shortened(Arc<StackStarts>),
    Kept,
}

impl Trim {
    /// Of samples that are unwound. Records of `witness` only served to read stacks.
    /// What lies above the start of a stack is left out, too.
    pub(crate) fn new(
        opened: &[EventDescription],
        witness: WitnessSamples,
        starts: Arc<StackStarts>,
    ) -> Self {
        Self::of((opened, witness), Dumps::Shortened(starts))
    }

    /// Of samples that are written as they are; `None` where none can have anything
    /// behind its fields.
    pub(crate) fn of_shared(opened: &[EventDescription]) -> Option<Self> {
        let may_be = opened.iter().any(|event| shares_samples(&event.attr));
        may_be.then(|| Self::of((opened, WitnessSamples::default()), Dumps::Kept))
    }

    fn of((opened, witness): (&[EventDescription], WitnessSamples), dumps: Dumps) -> Self {
        let mut events = Events::new(ByteOrder::NATIVE);
        for event in opened {
            events.push(Event::new(event.attr.clone(), event.ids.clone()));
        }
        Self {
            events,
            witness,
            dumps,
            depths: None,
        }
    }

    /// Looks how deep stacks are, if `piece` is enough of shallow ones.
    pub(crate) fn looking_for_shallow(self, piece: Option<u32>) -> Self {
        Self {
            depths: piece.map(Depths::new),
            ..self
        }
    }

    /// See [`Depths::change`].
    pub(crate) fn change_of_depths(&mut self) -> Option<bool> {
        self.depths.as_mut()?.change()
    }

    /// The event whose records are left out.
    pub(crate) fn witness(&self) -> &WitnessSamples {
        &self.witness
    }

    /// Appends the record without what is behind its fields; if it is unwound and has a
    /// stack dump with what is valid of it and at most `most` bytes, a multiple of 8.
    pub(crate) fn append(&self, record: &[u8], most: usize, out: &mut Vec<u8>) {
        if let Dumps::Shortened(starts) = &self.dumps {
            forget_starts(record, starts);
        }
        if !self.witness.is_empty() && self.append_of_witness(record, out) {
            return;
        }
        if self.append_trimmed(record, most, out).is_none() {
            out.extend_from_slice(record);
        }
    }

    /// Leaves the record out if it is the witness's; true if it was. What it
    /// alone tells, as of losses, is appended as told by the first event.
    fn append_of_witness(&self, record: &[u8], out: &mut Vec<u8>) -> bool {
        let order = ByteOrder::NATIVE;
        let kind = RecordType(order.u32(record, 0).unwrap_or(0));
        if kind == RecordType::SAMPLE {
            return self.witness.is(record.len(), record);
        }
        let end = self.events.trailer_end(kind, record);
        let id_at = end.saturating_sub(8);
        let id = order.u64(record, id_at);
        if id.is_none_or(|id| !self.witness.is_witness(id)) {
            return false;
        }
        let is_dropped = matches!(
            kind,
            RecordType::SWITCH
                | RecordType::SWITCH_CPU_WIDE
                | RecordType::THROTTLE
                | RecordType::UNTHROTTLE
        );
        let first = self.events.list().first();
        if let Some(&id) = first.and_then(|event| event.ids.first())
            && !is_dropped
        {
            out.extend_from_slice(record.get(..id_at).unwrap_or_default());
            out.extend_from_slice(&order.bytes_u64(id));
            out.extend_from_slice(record.get(end..).unwrap_or_default());
        }
        true
    }

    /// Appends the record shortened; `None`, and nothing appended, if there is
    /// nothing to shorten.
    fn append_trimmed(&self, record: &[u8], most: usize, out: &mut Vec<u8>) -> Option<()> {
        let view = Record::new(record, 0, &self.events)?;
        if view.kind != RecordType::SAMPLE {
            return None;
        }
        let sample = view.sample_of(view.event()?).ok()?;
        let behind = sample.extra().len();
        if behind > 0 {
            let fields = record.get(..record.len() - behind)?;
            let mut fields = fields.to_vec();
            let size = u16::try_from(fields.len()).ok()?;
            let place = fields.get_mut(6..8)?;
            place.copy_from_slice(&size.to_ne_bytes());
            if self.append_trimmed(&fields, most, out).is_none() {
                out.extend_from_slice(&fields);
            }
            return Some(());
        }
        let Dumps::Shortened(starts) = &self.dumps else {
            return None;
        };
        let needed = needed(&sample, starts);
        if let (Some(depths), Some(stack)) = (&self.depths, sample.stack_user()) {
            // Where it is not known, more may be behind what was copied.
            depths.note(needed.unwrap_or(stack.len() + 8));
        }
        let most = needed.map_or(most, |needed| most.min(needed));
        shorten_user_stack(&sample, most, out).then_some(())
    }
}

/// Bytes that may be needed of a sample's stack, a multiple of 8, where that is known.
fn needed(sample: &Sample<'_>, starts: &StackStarts) -> Option<usize> {
    let sp = sample.regs_user()?.get(MACHINE.sp_of_perf())?;
    usize::try_from(starts.needed(sample.tid()?, sp)?).ok()
}

/// A thread that begins, ends or runs another program has another stack from then on.
fn forget_starts(record: &[u8], starts: &StackStarts) {
    let order = ByteOrder::NATIVE;
    let misc = || Misc(order.u16(record, 4).unwrap_or(0));
    // struct perf_event_header, then pid, ppid, tid of a task, pid, tid of a name.
    let tid_at = match order.u32(record, 0).map(RecordType) {
        Some(RecordType::FORK | RecordType::EXIT) => 16,
        Some(RecordType::COMM) if misc().has(Misc::COMM_EXEC) => 12,
        _ => return,
    };
    if let Some(tid) = order.u32(record, tid_at) {
        starts.forget(tid.cast_signed());
    }
}

#[cfg(test)]
mod tests {
    use super::Trim;
    use crate::registers::MACHINE;
    use crate::witness::WitnessSamples;
    use prof_abi::{ByteOrder, EventAttr, Misc, RecordType, SampleType};
    use prof_live::StackStarts;
    use prof_perfdata::write::{EventDescription, SampleEncoder, SampleFields};
    use prof_perfdata::{Event, Events, Record, Sample};
    use std::sync::Arc;

    fn attr() -> EventAttr {
        EventAttr {
            sample_type: SampleType::IP
                | SampleType::REGS_USER
                | SampleType::STACK_USER
                | SampleType::DATA_SRC,
            sample_regs_user: 0b11,
            ..EventAttr::default()
        }
    }

    /// A sample with 64 bytes of dump, of which the first `valid` are.
    fn sample(valid: u64) -> Vec<u8> {
        let fields = SampleFields {
            ip: 7,
            regs_user: (2, &[8, 9]),
            stack_user: &[5; 64],
            data_src: 11,
            ..SampleFields::default()
        };
        let mut record = Vec::new();
        SampleEncoder::new(&attr())
            .encode(&fields, &mut record)
            .expect("short");
        let behind = record.len() - 16;
        record[behind..behind + 8].copy_from_slice(&ByteOrder::NATIVE.bytes_u64(valid));
        record
    }

    #[test]
    fn records_of_the_witness_are_left_out() {
        let opened = EventDescription {
            attr: attr(),
            ids: vec![1],
            name: String::new(),
        };
        let of_witness = EventAttr {
            sample_type: SampleType::IDENTIFIER | SampleType::REGS_USER,
            sample_regs_user: 1,
            ..EventAttr::default()
        };
        let witness = WitnessSamples::new(&of_witness, vec![9, 7], std::slice::from_ref(&opened));
        let trim = Trim::new(&[opened], witness, Arc::default());
        let record = |kind: RecordType, words: &[u64]| -> Vec<u8> {
            let size = 8 + 8 * words.len() as u16;
            let mut record = kind.0.to_ne_bytes().to_vec();
            record.extend([0_u16, size].iter().flat_map(|half| half.to_ne_bytes()));
            record.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
            record
        };
        let cases = [
            // A sample's id stands first, that of others last.
            (RecordType::SAMPLE, [7, 0, 0], None),
            (RecordType::SAMPLE, [1, 0, 7], Some([1, 0, 7])),
            // Of another recorder's event, says the id, whatever its length.
            (RecordType::SAMPLE, [555, 2, 0], None),
            (RecordType::SAMPLE, [555, 3, 0], None),
            (RecordType::SWITCH, [0, 0, 9], None),
            (RecordType::SWITCH, [7, 0, 1], Some([7, 0, 1])),
            (RecordType::THROTTLE, [0, 7, 7], None),
            (RecordType::LOST, [7, 3, 7], Some([7, 3, 1])),
        ];
        for (kind, words, kept) in cases {
            let mut out = Vec::new();
            trim.append(&record(kind, &words), usize::MAX, &mut out);
            let expected = kept.map(|words| record(kind, &words));
            assert_eq!(out, expected.unwrap_or_default(), "{kind:?} {words:?}");
        }
    }

    #[test]
    fn only_the_valid_part_of_a_dump_is_kept() {
        let opened = EventDescription {
            attr: attr(),
            ids: vec![1],
            name: String::new(),
        };
        let trim = Trim::new(&[opened], WitnessSamples::default(), Arc::default());
        let mut events = Events::new(ByteOrder::NATIVE);
        events.push(Event::new(attr(), vec![1]));
        const ALL: usize = usize::MAX;
        let cases = [(0, ALL, 0), (3, ALL, 8), (16, ALL, 16), (64, ALL, 64)];
        for (valid, most, kept) in cases
            .into_iter()
            .chain([(64, 16, 16), (3, 0, 0), (16, 24, 16)])
        {
            let mut out = Vec::new();
            trim.append(&sample(valid), most, &mut out);
            let view = Record::new(&out, 0, &events).expect("a record");
            let layout = &view.event().expect("its event").layout;
            let trimmed = Sample::new(&out, layout, ByteOrder::NATIVE).expect("whole");
            assert_eq!(ByteOrder::NATIVE.u16(&out, 6), Some(out.len() as u16));
            assert_eq!(trimmed.stack_user_dumped().map(<[u8]>::len), Some(kept));
            let stack = trimmed.stack_user().map(<[u8]>::len);
            assert_eq!(stack, Some(most.min(valid as usize)));
            assert_eq!(trimmed.data_src(), Some(11));
            assert_eq!(trimmed.regs_user().and_then(|regs| regs.get(1)), Some(9));
        }
    }

    #[test]
    fn what_lies_above_the_start_of_a_stack_is_left_out() {
        const SP: u64 = 0x7f00_0000_0000;
        let attr = EventAttr {
            sample_type: SampleType::TID | attr().sample_type,
            sample_regs_user: 1 << MACHINE.sp_of_perf(),
            ..attr()
        };
        let opened = EventDescription {
            attr: attr.clone(),
            ids: vec![1],
            name: String::new(),
        };
        let fields = SampleFields {
            pid: 7,
            tid: 8,
            regs_user: (2, &[SP]),
            stack_user: &[5; 4096],
            ..SampleFields::default()
        };
        let mut record = Vec::new();
        SampleEncoder::new(&attr)
            .encode(&fields, &mut record)
            .expect("short");
        let starts = Arc::new(StackStarts::default());
        let trim = Trim::new(
            std::slice::from_ref(&opened),
            WitnessSamples::default(),
            starts.clone(),
        );
        let kept = || {
            let mut out = Vec::new();
            trim.append(&record, usize::MAX, &mut out);
            record.len() - out.len()
        };
        assert_eq!(kept(), 0);
        starts.tell(8, SP + 1024);
        let needed = starts.needed(8, SP).expect("known");
        assert_eq!(kept() as u64, 4096 - needed);
        // Of another stack all is kept.
        starts.tell(8, SP - 1024);
        assert_eq!(kept(), 0);
        let record_of = |kind: RecordType, misc: u16, words: &[u32]| -> Vec<u8> {
            let mut record = kind.0.to_ne_bytes().to_vec();
            let size = 8 + 4 * words.len() as u16;
            record.extend([misc, size].iter().flat_map(|half| half.to_ne_bytes()));
            record.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
            record
        };
        // pid, ppid, tid, ptid, time of a task; pid, tid of a name.
        let task = [7, 1, 8, 1, 0, 0];
        let cases = [
            (RecordType::FORK, 0, &task[..], true),
            (RecordType::EXIT, 0, &task[..], true),
            (RecordType::COMM, Misc::COMM_EXEC.0, &[7, 8, 0, 0], true),
            (RecordType::COMM, 0, &[7, 8, 0, 0], false),
            (RecordType::EXIT, 0, &[8, 8, 9, 8, 0, 0], false),
        ];
        for (kind, misc, words, is_forgotten) in cases {
            starts.tell(8, SP + 1024);
            trim.append(&record_of(kind, misc, words), usize::MAX, &mut Vec::new());
            assert_eq!(starts.needed(8, SP).is_none(), is_forgotten, "{kind:?}");
        }
    }

    #[test]
    fn what_is_behind_the_fields_is_left_out() {
        let opened = EventDescription {
            attr: attr(),
            ids: vec![1],
            name: String::new(),
        };
        // The kernel made room for what another recorder's event asked for.
        let mut grown = sample(16);
        grown.extend([0xee; 24]);
        let size = grown.len() as u16;
        grown[6..8].copy_from_slice(&size.to_ne_bytes());
        let opened = std::slice::from_ref(&opened);
        let unwound = Trim::new(opened, WitnessSamples::default(), Arc::default());
        let as_it_is = Trim::of((opened, WitnessSamples::default()), super::Dumps::Kept);
        let mut shorter = Vec::new();
        unwound.append(&sample(16), usize::MAX, &mut shorter);
        for (trim, expected) in [(unwound, shorter), (as_it_is, sample(16))] {
            let mut out = Vec::new();
            trim.append(&grown, usize::MAX, &mut out);
            assert_eq!(out, expected, "{:?}", trim.dumps);
        }
    }

    #[test]
    fn only_events_that_several_recorders_share_are_looked_at() {
        let of = |kind, config| {
            let attr = EventAttr {
                kind,
                config,
                ..attr()
            };
            let name = String::new();
            Trim::of_shared(&[EventDescription {
                attr,
                ids: vec![1],
                name,
            }])
            .is_some()
        };
        use prof_abi::{Software, event_kind};
        assert!(of(event_kind::SOFTWARE, Software::CONTEXT_SWITCHES.0));
        assert!(!of(event_kind::SOFTWARE, Software::CPU_CLOCK.0));
        assert!(!of(event_kind::HARDWARE, 0));
    }
}

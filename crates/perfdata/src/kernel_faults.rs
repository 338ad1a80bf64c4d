//! Records that the kernel fills in once and gives several events, one after
//! the other, without undoing what it did for the one before. So where two
//! recorders run at the same time, the second has records that are not as
//! perf_event_open(2) says:
//!
//! * KSYMBOL, BPF_EVENT and TEXT_POKE grow by the length of a trailer for each
//!   event that had them before. The trailer still follows the content; behind it
//!   is what the ring held before.
//! * MMAP2 keeps MMAP_BUILD_ID of an event that asked for build-ids, although
//!   this one did not and has device and inode.
//! * A sample of a software event has the id of the other recorder's event that
//!   occurred with it. What writes into a recorder's rings are its own events: where
//!   one of them samples, it is that one's.
//!
//! Source: `perf_event_ksymbol_output` and its like, and
//! `perf_event_mmap_output`, of kernel/events/core.c up to Linux 6.18.

use crate::layout::RECORD_HEADER;
use prof_abi::{BuildId, ByteOrder, EventAttr, Misc, RecordType, SampleType};
use std::ops::Range;

/// Where an MMAP2 has the identity of its file.
const IDENTITY: Range<usize> = 40..64;

/// Where the trailer of a record ends that is not a sample, in bytes from the
/// record's start; `trailer` is its length.
#[inline]
pub(crate) fn trailer_end(
    kind: RecordType,
    record: &[u8],
    trailer: usize,
    order: ByteOrder,
) -> usize {
    if !matches!(
        kind,
        RecordType::KSYMBOL | RecordType::BPF_EVENT | RecordType::TEXT_POKE
    ) {
        return record.len();
    }
    let end = content_end(kind, record, order).map(|end| end + trailer);
    end.map_or(record.len(), |end| end.min(record.len()))
}

/// Where the content of one of the three ends, padding included.
#[cold]
fn content_end(kind: RecordType, record: &[u8], order: ByteOrder) -> Option<usize> {
    /// Of the fields before the name, and of all of a BPF_EVENT.
    const FIXED: usize = RECORD_HEADER + 16;
    let end = match kind {
        RecordType::KSYMBOL => {
            let name = record.get(FIXED..)?;
            FIXED + name.iter().position(|&byte| byte == 0)? + 1
        }
        RecordType::TEXT_POKE => {
            let old = order.u16(record, RECORD_HEADER + 8)?;
            let new = order.u16(record, RECORD_HEADER + 10)?;
            RECORD_HEADER + 12 + usize::from(old) + usize::from(new)
        }
        _ => FIXED,
    };
    Some(end.next_multiple_of(8))
}

/// Whether an MMAP2 whose event did not ask for build-ids has device and inode,
/// although it says otherwise. Writers of files may put a build-id there without
/// that the event says so.
#[cold]
pub(crate) fn is_inode(record: &[u8], order: ByteOrder) -> bool {
    let (Some(&[size, r0, r1, r2, ref id @ ..]), Some(minor)) =
        (record.get(IDENTITY), order.u32(record, IDENTITY.start + 4))
    else {
        return false;
    };
    let size = usize::from(size);
    let is_possible = (1..=BuildId::RECORDED_MAX).contains(&size)
        && [r0, r1, r2] == [0; 3]
        && id.iter().skip(size).all(|&byte| byte == 0);
    // Disks and loop devices have numbers that may be lengths; but a build-id
    // of another length than these two is rare, and does not begin with a
    // number below 65 536.
    let is_usual = matches!(size, 16 | 20);
    !is_possible || (!is_usual && minor < 1 << 16)
}

/// Mends records of this machine's kernel before others read them.
#[derive(Debug, Clone)]
pub struct KernelFaults {
    /// Bytes of the events' trailers.
    pub trailer: usize,
    /// Whether an event asked for build-ids of mappings.
    pub has_build_ids: bool,
    /// The event that samples, if there is one only and its samples have ids.
    pub sampler: Option<Sampler>,
}

/// The only event of a recording that samples, by what its samples have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sampler {
    /// Its ids, ascending.
    ids: Vec<u64>,
    /// Where a sample has them, bytes.
    places: [Option<usize>; 2],
}

impl Sampler {
    /// Of an event with these ids; `None` if samples do not begin with theirs, or
    /// one of its ids is not known.
    pub fn new(attr: &EventAttr, mut ids: Vec<u64>) -> Option<Self> {
        let fields = attr.sample_type;
        if !fields.has(SampleType::IDENTIFIER) || ids.is_empty() || ids.contains(&0) {
            return None;
        }
        ids.sort_unstable();
        let before = SampleType::IDENTIFIER.0
            | SampleType::IP.0
            | SampleType::TID.0
            | SampleType::TIME.0
            | SampleType::ADDR.0;
        let words = (fields.0 & before).count_ones() as usize;
        let of_id = RECORD_HEADER + 8 * words;
        let second = fields.has(SampleType::ID).then_some(of_id);
        Some(Self {
            ids,
            places: [Some(RECORD_HEADER), second],
        })
    }

    /// Gives a sample an id of this event, if what it has is none.
    #[inline]
    fn mend(&self, sample: &mut [u8]) {
        let is_own = |id| self.ids.binary_search(&id).is_ok();
        let told = |at: &usize| ByteOrder::NATIVE.u64(sample, *at);
        let all = self.places.iter().flatten().map(told);
        // The first that is ours, as either may be.
        let own = all.flatten().find(|id| is_own(*id));
        let own = own.or_else(|| self.ids.first().copied()).unwrap_or(0);
        for &at in self.places.iter().flatten() {
            if let Some(place) = sample.get_mut(at..at + 8) {
                place.copy_from_slice(&own.to_ne_bytes());
            }
        }
    }
}

impl KernelFaults {
    /// Of whole records: cuts what stands behind trailers, and takes back what
    /// mappings say that they do not have.
    pub fn mend(&self, records: &mut Vec<u8>) {
        let (mut read, mut written) = (0, 0);
        while let Some((kind, size)) = kind_and_size(records.get(read..).unwrap_or_default())
            && let Some(record) = records.get_mut(read..read + size)
        {
            let left = self.mend_record(kind, record);
            if read != written {
                records.copy_within(read..read + left, written);
            }
            read += size;
            written += left;
        }
        if read != written {
            let rest = records.len() - read;
            records.copy_within(read.., written);
            records.truncate(written + rest);
        }
    }

    /// The length of the record from now on, bytes.
    #[inline]
    fn mend_record(&self, kind: RecordType, record: &mut [u8]) -> usize {
        if kind == RecordType::MMAP2 && !self.has_build_ids {
            take_back_build_id(record);
        }
        if let (RecordType::SAMPLE, Some(sampler)) = (kind, &self.sampler) {
            sampler.mend(record);
        }
        let end = trailer_end(kind, record, self.trailer, ByteOrder::NATIVE);
        if end < record.len()
            && let (Ok(size), Some(place)) = (u16::try_from(end), record.get_mut(6..8))
        {
            place.copy_from_slice(&size.to_ne_bytes());
        }
        end
    }
}

fn take_back_build_id(record: &mut [u8]) {
    let misc = ByteOrder::NATIVE.u16(record, 4).map(Misc);
    let Some(misc) = misc.filter(|misc| misc.has(Misc::MMAP_BUILD_ID)) else {
        return;
    };
    let misc = misc.without(Misc::MMAP_BUILD_ID);
    if is_inode(record, ByteOrder::NATIVE)
        && let Some(place) = record.get_mut(4..6)
    {
        place.copy_from_slice(&misc.0.to_ne_bytes());
    }
}

fn kind_and_size(records: &[u8]) -> Option<(RecordType, usize)> {
    let order = ByteOrder::NATIVE;
    let size = usize::from(order.u16(records, 6)?);
    (size >= RECORD_HEADER).then_some((RecordType(order.u32(records, 0)?), size))
}

#[cfg(test)]
mod tests {
    use super::{KernelFaults, Sampler};
    use crate::body::{Body, BpfEvent, FileIdentity, Ksymbol, Mmap2, Name, TextPoke};
    use crate::write::{Trailer, append_short};
    use crate::{Event, Events, Record};
    use prof_abi::{
        AttrFlags, BuildId, ByteOrder, CpuMode, EventAttr, Misc, RecordType, SampleType,
    };

    const IDS: [u64; 2] = [7, 8];

    fn attr(flags: AttrFlags) -> EventAttr {
        EventAttr {
            sample_type: SampleType::TID
                .with(SampleType::TIME)
                .with(SampleType::CPU)
                .with(SampleType::IDENTIFIER),
            flags: AttrFlags::SAMPLE_ID_ALL.with(flags),
            ..EventAttr::default()
        }
    }

    /// Two events, so that a record's event is told by its trailer.
    fn events(flags: AttrFlags) -> Events {
        let mut events = Events::new(ByteOrder::NATIVE);
        for id in IDS {
            events.push(Event::new(attr(flags), vec![id]));
        }
        events
    }

    fn trailer() -> Trailer {
        let of_attr = Trailer::of(&attr(AttrFlags(0)));
        Trailer {
            time: 1234,
            id: IDS[1],
            ..of_attr.for_thread(40, 41)
        }
    }

    fn whole(body: &Body<'_>) -> Vec<u8> {
        let mut record = Vec::new();
        append_short(body, Misc(0), &trailer(), &mut record);
        record
    }

    /// As the second of several recorders gets it: `more` bytes of its ring behind
    /// the trailer.
    fn grown(body: &Body<'_>, more: usize) -> Vec<u8> {
        let mut record = whole(body);
        record.resize(record.len() + more, 0xa5);
        let size = u16::try_from(record.len()).expect("a short record");
        record[6..8].copy_from_slice(&size.to_ne_bytes());
        record
    }

    fn bodies() -> [Body<'static>; 3] {
        [
            Body::Ksymbol(Ksymbol {
                start: 0xffff_ffff_c000_0000,
                len: 53,
                kind: 1,
                flags: 0,
                name: Name::new(b"bpf_prog_6f3b37d2f943f8d2"),
            }),
            Body::BpfEvent(BpfEvent {
                kind: 1,
                flags: 0,
                id: 286,
                tag: *b"12345678",
            }),
            Body::TextPoke(TextPoke {
                start: 0xffff_ffff_8100_0000,
                old_len: 5,
                new_len: 5,
                bytes: b"0123456789\0\0",
            }),
        ]
    }

    #[test]
    fn a_record_that_grew_is_read_and_mended_as_it_was() {
        let events = events(AttrFlags(0));
        let faults = KernelFaults {
            trailer: trailer().size(),
            has_build_ids: false,
            sampler: None,
        };
        for body in bodies() {
            for more in [0, 24, 32, 56, 96] {
                let record = grown(&body, more);
                let view = Record::new(&record, 0, &events).expect("a record");
                assert_eq!(view.time(), Some(1234), "{body:?} {more}");
                assert_eq!(view.event_index(), Some(1), "{body:?} {more}");
                assert_eq!(view.sample_id().tid, Some(41), "{body:?} {more}");

                let mut records = [whole(&body), record, whole(&body), vec![1, 2]].concat();
                faults.mend(&mut records);
                let wanted = [whole(&body), whole(&body), whole(&body), vec![1, 2]].concat();
                assert_eq!(records, wanted, "{body:?} {more}");
            }
        }
    }

    fn mapping(file: FileIdentity) -> Vec<u8> {
        let body = Body::Mmap2(Mmap2 {
            pid: 40,
            tid: 41,
            start: 0x1000,
            len: 0x1000,
            file_offset: 0,
            file,
            prot: 5,
            flags: 2,
            path: Name::new(b"/usr/bin/app"),
        });
        let mut record = Vec::new();
        let misc = Misc::of_mode(CpuMode::User);
        append_short(&body, misc, &trailer(), &mut record);
        record
    }

    /// With the bit that the kernel left from another event.
    fn marked(mut record: Vec<u8>) -> Vec<u8> {
        record[5] |= 1 << 6;
        record
    }

    fn file_of(record: &[u8], events: &Events) -> FileIdentity {
        let view = Record::new(record, 0, events).expect("a record");
        match view.decode() {
            Body::Mmap2(map) => map.file,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_mapping_has_a_build_id_only_where_one_can_be() {
        let faults = KernelFaults {
            trailer: trailer().size(),
            has_build_ids: false,
            sampler: None,
        };
        let (unasked, asked) = (events(AttrFlags(0)), events(AttrFlags::BUILD_ID));
        // Disks: virtio, sd, loop, md, nvme; anonymous devices.
        for (major, minor) in [(254, 0), (8, 1), (7, 3), (9, 127), (259, 5), (0, 48)] {
            let file = FileIdentity::Inode {
                major,
                minor,
                inode: 5_315_106,
                generation: 0,
            };
            let record = mapping(file);
            let mut mended = marked(record.clone());
            assert_eq!(file_of(&mended, &unasked), file, "{major}");
            faults.mend(&mut mended);
            assert_eq!(mended, record, "{major}");
        }
        for len in [8, 16, 20] {
            let id = BuildId::new(&[0xc3; 20][..len]).expect("a build-id");
            let file = FileIdentity::of_build_id(&id);
            let mut record = mapping(file);
            assert_eq!(record[5] >> 6 & 1, 1, "the bit is of the body");
            assert_eq!(file_of(&record, &unasked), file, "{len}");
            assert_eq!(file_of(&record, &asked), file, "{len}");
            let before = record.clone();
            faults.mend(&mut record);
            assert_eq!(record, before, "{len}");
        }
    }

    /// A sample with these words, first its identifier.
    fn sample(words: &[u64]) -> Vec<u8> {
        let mut sample = RecordType::SAMPLE.0.to_ne_bytes().to_vec();
        sample.extend(0_u16.to_ne_bytes());
        let size = u16::try_from(8 + 8 * words.len()).expect("short");
        sample.extend(size.to_ne_bytes());
        sample.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        sample
    }

    #[test]
    fn a_sample_of_the_only_event_that_samples_is_its_own() {
        // identifier, tid, time, id, cpu
        let attr = EventAttr {
            sample_type: attr(AttrFlags(0)).sample_type.with(SampleType::ID),
            ..EventAttr::default()
        };
        let faults = KernelFaults {
            trailer: 0,
            has_build_ids: false,
            sampler: Sampler::new(&attr, vec![9, 7]),
        };
        for (told, mended) in [((9, 9), 9), ((7, 3), 7), ((3, 9), 9), ((3, 4), 7)] {
            let mut records = sample(&[told.0, 40, 1234, told.1, 0]);
            faults.mend(&mut records);
            let wanted = sample(&[mended, 40, 1234, mended, 0]);
            assert_eq!(records, wanted, "{told:?}");
        }
        assert_eq!(
            Sampler::new(&attr, vec![9, 0]),
            None,
            "of a task that had ended"
        );
        assert_eq!(Sampler::new(&EventAttr::default(), vec![9]), None, "no ids");
        // One that is cut short.
        let mut short = sample(&[3, 40]);
        faults.mend(&mut short);
        assert_eq!(short, sample(&[7, 40]));
    }
}

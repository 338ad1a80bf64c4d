//! Records about the recording itself: what is in it, how it is ordered.

use super::event::EventDescription;
use super::record::{MAX_RECORD_SIZE, RecordTooLong, append, append_short};
use super::{RecordedBuildId, Trailer};
use crate::body::{
    Body, BuildIdRecord, Empty, EventUpdate, HeaderAttr, HeaderFeature, IdEntry, IdIndex, Name,
    Pairs, ThreadMap, ThreadMapEntry, recorded_build_id,
};
use crate::features::FeatureBit;
use prof_abi::{ByteOrder, Misc, RecordType, attr_size};

/// Appends `FINISHED_ROUND`: every ring was drained once since the last one.
/// Without it a reader has to hold everything before it can sort.
pub fn finished_round(out: &mut Vec<u8>) {
    own(&Body::FinishedRound(Empty {}), out);
}

/// Appends `FINISHED_INIT`: the synthesised records end here.
pub fn finished_init(out: &mut Vec<u8>) {
    own(&Body::FinishedInit(Empty {}), out);
}

/// Appends tracepoint formats (the section `TRACING_DATA` of a file) to a stream: a
/// record with u32 size and u32 0, and behind it, outside of the record, the section
/// padded to 8 bytes.
pub fn tracing_data(section: &[u8], out: &mut Vec<u8>) {
    const RECORD_SIZE: u16 = 16;
    let order = ByteOrder::NATIVE;
    let padded = section.len().next_multiple_of(8);
    out.extend(order.bytes_u32(RecordType::TRACING_DATA.0));
    out.extend(order.bytes_u16(0));
    out.extend(order.bytes_u16(RECORD_SIZE));
    out.extend(order.bytes_u32(u32::try_from(padded).unwrap_or(u32::MAX)));
    out.extend(order.bytes_u32(0));
    out.extend(section);
    out.resize(out.len() + padded - section.len(), 0);
}

/// Appends a record of perf's own that is short by construction.
fn own(body: &Body<'_>, out: &mut Vec<u8>) {
    append_short(body, Misc(0), &Trailer::NONE, out);
}

/// Appends `HEADER_ATTR`, an event in a pipe, and `EVENT_UPDATE` with its
/// name, which perf takes from there only, by one of the event's ids.
///
/// perfs before 6.7 look for the ids behind an attr of their own size (128
/// bytes since 5.13), whatever the record says: it has at least as many.
///
/// # Errors
/// With more than about 8000 ids.
pub(super) fn event(event: &EventDescription, out: &mut Vec<u8>) -> Result<(), RecordTooLong> {
    let size = event.attr.smallest_size().max(attr_size::VER7);
    let mut bytes = event.encoded_attr(size);
    let ids = event.ids.iter();
    bytes.extend(ids.flat_map(|&id| ByteOrder::NATIVE.bytes_u64(id)));
    let attr = HeaderAttr { bytes: &bytes };
    append(&Body::HeaderAttr(attr), Misc(0), &Trailer::NONE, out)?;
    if let Some(&id) = event.ids.first() {
        let mut name = Name::new(event.name.as_bytes()).bytes().to_vec();
        name.resize((name.len() + 1).next_multiple_of(8), 0);
        let update = EventUpdate {
            what: EventUpdate::NAME,
            id,
            content: &name,
        };
        own(&Body::EventUpdate(update), out);
    }
    Ok(())
}

/// Appends `HEADER_FEATURE`: a feature section, in a pipe.
///
/// # Errors
/// When the section passes 65 512 bytes.
pub(super) fn feature(
    bit: FeatureBit,
    content: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), RecordTooLong> {
    let feature = bit.0.into();
    let body = Body::HeaderFeature(HeaderFeature { feature, content });
    append(&body, Misc(0), &Trailer::NONE, out)
}

/// Appends `ID_INDEX`: which id counts where; several records when one cannot
/// hold all.
pub fn id_index(entries: &[IdEntry], out: &mut Vec<u8>) {
    const ENTRY: usize = 32;
    for some in entries.chunks((MAX_RECORD_SIZE - 16) / ENTRY) {
        let entries = Pairs::new(some);
        let index = IdIndex {
            entries,
            guests: &[],
        };
        own(&Body::IdIndex(index), out);
    }
}

/// Appends `THREAD_MAP`: the threads that were asked for. Readers take one
/// such record, so what does not fit (more than 2729 threads) is left out.
pub fn thread_map(threads: &[ThreadMapEntry], out: &mut Vec<u8>) {
    const ENTRY: usize = 24;
    let most = (MAX_RECORD_SIZE - 16) / ENTRY;
    let threads = Pairs::new(threads.get(..most).unwrap_or(threads));
    own(&Body::ThreadMap(ThreadMap { threads }), out);
}

impl RecordedBuildId<'_> {
    /// Appends the record `BUILD_ID` to `out`, which is also an entry of the
    /// feature section; its path is NUL-terminated and padded to 64 as perf
    /// does.
    pub fn encode(&self, out: &mut Vec<u8>) {
        const PATH_UNIT: usize = 64;
        const HOST: i32 = -1;
        let (build_id, size) = recorded_build_id(&self.build_id);
        let mut path = Name::new(self.path).bytes().to_vec();
        path.resize((path.len() + 1).next_multiple_of(PATH_UNIT), 0);
        let body = Body::BuildId(BuildIdRecord {
            pid: HOST,
            build_id,
            size,
            pad: [0; 3],
            path: Name::field(&path),
        });
        let misc = Misc::of_mode(self.cpu_mode);
        append_short(&body, misc, &Trailer::NONE, out);
    }
}

#[cfg(test)]
mod tests {
    use super::{event, feature, finished_init, finished_round, id_index, thread_map};
    use crate::body::{
        Body, CpuMap, CpuMapRecord, FixedText, IdEntry, LostSamples, ThreadMapEntry,
    };
    use crate::features::FeatureBit;
    use crate::write::{EventDescription, RecordedBuildId, Trailer, append, append_short};
    use prof_abi::{BuildId, CpuMode, EventAttr, Misc, SampleType};

    fn words(bytes: &[u8]) -> Vec<u64> {
        bytes
            .chunks_exact(8)
            .map(|word| u64::from_ne_bytes(word.try_into().expect("8 bytes")))
            .collect()
    }

    #[test]
    fn marks_are_headers_only() {
        let mut out = Vec::new();
        finished_round(&mut out);
        finished_init(&mut out);
        assert_eq!(out, [68, 0, 0, 0, 0, 0, 8, 0, 82, 0, 0, 0, 0, 0, 8, 0]);
    }

    #[test]
    fn header_attr_has_an_attr_of_perf_6_1_and_the_ids_behind_it() {
        let mut described = EventDescription {
            attr: EventAttr {
                size: 144,
                config2: 4,
                ..EventAttr::default()
            },
            ids: vec![11, 12],
            name: "cycles:u".into(),
        };
        let mut out = Vec::new();
        event(&described, &mut out).expect("short");
        assert_eq!(out[..8], [64, 0, 0, 0, 0, 0, 152, 0]);
        assert_eq!(out[12..16], [128, 0, 0, 0]);
        assert_eq!(words(&out[8 + 128..152]), [11, 12]);
        // And its name, by one of its ids.
        let update = out.split_off(152);
        assert_eq!(update[..8], [78, 0, 0, 0, 0, 0, 40, 0]);
        assert_eq!(words(&update[8..24]), [2, 11]);
        assert_eq!(update[24..], *b"cycles:u\0\0\0\0\0\0\0\0");

        described.ids = vec![1; 9000];
        assert!(event(&described, &mut out).is_err());
        assert_eq!(out.len(), 152);
    }

    #[test]
    fn header_feature_is_the_bit_and_the_section() {
        let mut out = Vec::new();
        let section = [2, 0, 0, 0, 2, 0, 0, 0];
        feature(FeatureBit::NRCPUS, &section, &mut out).expect("short");
        assert_eq!(out[..8], [80, 0, 0, 0, 0, 0, 24, 0]);
        assert_eq!(words(&out[8..]), [7, 2 << 32 | 2]);
    }

    #[test]
    fn id_index_splits_where_a_record_is_full() {
        let entry = IdEntry {
            id: 9,
            ring: 1,
            cpu: 3,
            tid: -1,
        };
        let mut out = Vec::new();
        id_index(&[entry], &mut out);
        assert_eq!(out[..8], [69, 0, 0, 0, 0, 0, 48, 0]);
        assert_eq!(words(&out[8..]), [1, 9, 1, 3, u64::MAX]);
        let mut out = Vec::new();
        id_index(&[entry; 2048], &mut out);
        assert_eq!(out.len(), 2 * 16 + 2048 * 32);
        assert_eq!(words(&out[8..16]), [2047]);
    }

    #[test]
    fn thread_and_cpu_map_list_what_was_asked_for() {
        let mut out = Vec::new();
        let thread = |pid, name: &[u8]| ThreadMapEntry {
            pid,
            comm: FixedText::new(name),
        };
        thread_map(&[thread(4, b"sh"), thread(-1, b"")], &mut out);
        assert_eq!(out[..8], [73, 0, 0, 0, 0, 0, 64, 0]);
        assert_eq!(words(&out[8..24]), [2, 4]);
        assert_eq!(out[24..40], *b"sh\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
        assert_eq!(words(&out[40..48]), [u64::MAX]);

        let mut out = Vec::new();
        let cpus = CpuMap::of(&[0, 5]);
        let map = Body::CpuMap(CpuMapRecord { cpus });
        append(&map, Misc(0), &Trailer::NONE, &mut out).expect("short");
        assert_eq!(
            out,
            [74, 0, 0, 0, 0, 0, 16, 0, 0, 0, 2, 0, 0, 0, 5, 0],
            "kind, count, CPUs"
        );
        assert_eq!(CpuMap::of(&[]).cpus(), [-1]);
    }

    #[test]
    fn lost_samples_names_its_event_in_the_trailer() {
        let trailer = Trailer {
            sample_type: SampleType::IDENTIFIER,
            id: 8,
            ..Trailer::NONE
        };
        let mut out = Vec::new();
        let lost = Body::LostSamples(LostSamples { lost: 3 });
        append_short(&lost, Misc(0), &trailer, &mut out);
        assert_eq!(out[..8], [13, 0, 0, 0, 0, 0, 24, 0]);
        assert_eq!(words(&out[8..]), [3, 8]);
    }

    #[test]
    fn a_build_id_record_says_how_many_bytes_are_in_use() {
        let record = RecordedBuildId {
            build_id: BuildId::new(&[7; 8]).expect("8 bytes"),
            path: b"[vdso]",
            cpu_mode: CpuMode::User,
        };
        let mut out = Vec::new();
        record.encode(&mut out);
        assert_eq!(out.len(), 8 + 4 + 20 + 4 + 64 + 4);
        assert_eq!(
            out[..12],
            [67, 0, 0, 0, 2, 0x80, 104, 0, 255, 255, 255, 255]
        );
        assert_eq!(out[12..20], [7; 8]);
        assert_eq!(out[20..32], [0; 12]);
        assert_eq!(out[32..36], [8, 0, 0, 0]);
        assert_eq!(out[36..43], *b"[vdso]\0");
    }
}

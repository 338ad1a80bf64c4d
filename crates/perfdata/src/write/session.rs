//! Records about the recording itself: what is in it, how it is ordered.

use super::record::{MAX_RECORD_SIZE, RecordBuilder, RecordTooLong, misc_of};
use super::task::recorded_build_id;
use super::{RecordedBuildId, Trailer};
use prof_abi::{ByteOrder, EventAttr, Misc, RecordType, attr_size};

/// Appends `FINISHED_ROUND`: every ring was drained once since the last one.
/// Without it a reader has to hold everything before it can sort.
pub fn finished_round(out: &mut Vec<u8>) {
    RecordBuilder::begin(out, RecordType::FINISHED_ROUND, Misc(0)).end_short();
}

/// Appends `FINISHED_INIT`: the synthesised records end here.
pub fn finished_init(out: &mut Vec<u8>) {
    RecordBuilder::begin(out, RecordType::FINISHED_INIT, Misc(0)).end_short();
}

/// `HEADER_ATTR`: an event, in a pipe. Body: the attr in `attr.size` bytes,
/// then u64 ids to the end of the record.
///
/// perfs before 6.7 look for the ids behind an attr of their own size (128
/// bytes since 5.13), whatever the record says: it has at least as many.
#[derive(Debug, Clone, Copy)]
pub struct HeaderAttr<'a> {
    /// The event as its samples are written.
    pub attr: &'a EventAttr,
    /// One id per descriptor that was opened for it.
    pub ids: &'a [u64],
}

impl HeaderAttr<'_> {
    /// Appends the record to `out`; fails with more than about 8000 ids.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), RecordTooLong> {
        let mut attr = self.attr.clone();
        attr.size = attr.smallest_size().max(attr_size::VER7);
        let mut record = RecordBuilder::begin(out, RecordType::HEADER_ATTR, Misc(0));
        record.bytes(&attr.encode(ByteOrder::NATIVE));
        for &id in self.ids {
            record.u64(id);
        }
        record.end()
    }
}

/// `HEADER_FEATURE`: a feature section, in a pipe. Body: u64 feature bit, then
/// the section's bytes, padded to 8.
#[derive(Debug, Clone, Copy)]
pub struct HeaderFeature<'a> {
    /// The bit it would have in a file's header.
    pub bit: u32,
    /// What the section would hold.
    pub section: &'a [u8],
}

impl HeaderFeature<'_> {
    /// Appends the record to `out`; fails when the section passes 65 512 bytes.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), RecordTooLong> {
        let mut record = RecordBuilder::begin(out, RecordType::HEADER_FEATURE, Misc(0));
        record.u64(u64::from(self.bit));
        record.bytes(self.section);
        record.end()
    }
}

/// `EVENT_UPDATE`: something about the event with an id. Body: u64 what (0
/// unit, 1 scale, 2 name, 3 CPUs), u64 id, then text, double or CPU map.
#[derive(Debug, Clone, Copy)]
pub struct EventUpdate<'a> {
    /// An id of the event.
    pub id: u64,
    /// Its name, as the user wrote it.
    pub name: &'a str,
}

impl EventUpdate<'_> {
    /// Appends the record to `out`.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut record = RecordBuilder::begin(out, RecordType::EVENT_UPDATE, Misc(0));
        record.u64(2);
        record.u64(self.id);
        record.name(self.name.as_bytes());
        record.end_short();
    }
}

/// Where one descriptor counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IdIndexEntry {
    /// The event's id.
    pub id: u64,
    /// Number of its ring.
    pub ring: u64,
    /// Its CPU, `None` for any.
    pub cpu: Option<u32>,
    /// Its thread, `None` for all.
    pub tid: Option<u32>,
}

/// Appends `ID_INDEX`: u64 count, then u64 id, ring, cpu, tid each (−1: any);
/// several records when one cannot hold all.
pub fn id_index(entries: &[IdIndexEntry], out: &mut Vec<u8>) {
    const ENTRY: usize = 32;
    let any = |value: Option<u32>| value.map_or(u64::MAX, u64::from);
    for some in entries.chunks((MAX_RECORD_SIZE - 16) / ENTRY) {
        let mut record = RecordBuilder::begin(out, RecordType::ID_INDEX, Misc(0));
        record.u64(some.len() as u64);
        for entry in some {
            record.u64(entry.id);
            record.u64(entry.ring);
            record.u64(any(entry.cpu));
            record.u64(any(entry.tid));
        }
        record.end_short();
    }
}

/// Appends `THREAD_MAP`: u64 count, then u64 pid and a 16-byte name each, of
/// the threads that were asked for (pid −1: all). Readers take one such
/// record, so what does not fit (more than 2729 threads) is left out.
pub fn thread_map<'a>(
    threads: impl IntoIterator<Item = (Option<u32>, &'a [u8])>,
    out: &mut Vec<u8>,
) {
    const ENTRY: usize = 24;
    let threads: Vec<_> = threads
        .into_iter()
        .take((MAX_RECORD_SIZE - 16) / ENTRY)
        .collect();
    let mut record = RecordBuilder::begin(out, RecordType::THREAD_MAP, Misc(0));
    record.u64(threads.len() as u64);
    for (pid, comm) in threads {
        record.u64(pid.map_or(u64::MAX, u64::from));
        let mut name = [0; 16];
        for (to, &from) in name.iter_mut().take(15).zip(comm) {
            *to = from;
        }
        record.bytes(&name);
    }
    record.end_short();
}

/// `CPU_MAP`: the CPUs that were asked for. Body: u16 kind 0, u16 count, u16
/// numbers. Kinds 1 (mask) and 2 (range) are shorter but newer; this one is
/// read by every perf that knows the record.
#[derive(Debug, Clone, Copy)]
pub struct CpuMap<'a> {
    /// CPU numbers; empty means any.
    pub cpus: &'a [u16],
}

impl CpuMap<'_> {
    /// Appends the record to `out`; fails beyond 32 758 CPUs.
    pub fn encode(&self, out: &mut Vec<u8>) -> Result<(), RecordTooLong> {
        const ANY: u16 = u16::MAX; // −1
        let cpus = if self.cpus.is_empty() {
            &[ANY]
        } else {
            self.cpus
        };
        let mut record = RecordBuilder::begin(out, RecordType::CPU_MAP, Misc(0));
        record.u16(0);
        record.u16(cpus.len() as u16);
        for &cpu in cpus {
            record.u16(cpu);
        }
        record.end()
    }
}

/// `PERF_RECORD_LOST_SAMPLES`: samples that the kernel dropped. Body: u64
/// count, trailer with the event's id.
///
/// Source: perf_event_open(2); perf writes it at the end from the counts of
/// `PERF_FORMAT_LOST`.
#[derive(Debug, Clone, Copy)]
pub struct LostSamples {
    /// How many.
    pub lost: u64,
}

impl LostSamples {
    /// Appends the record to `out`.
    pub fn encode(&self, trailer: &Trailer, out: &mut Vec<u8>) {
        let mut record = RecordBuilder::begin(out, RecordType::LOST_SAMPLES, Misc(0));
        record.u64(self.lost);
        trailer.append(&mut record);
        record.end_short();
    }
}

/// `PERF_RECORD_LOST`: records that found no room. Body: u64 id of the event,
/// u64 count, trailer. With time 0 it is the recorder's own, written at the end
/// for an event without samples; see [`crate::Losses`].
///
/// Source: perf_event_open(2), PERF_RECORD_LOST.
#[derive(Debug, Clone, Copy)]
pub struct LostRecords {
    /// The event's id.
    pub id: u64,
    /// How many.
    pub lost: u64,
}

impl LostRecords {
    /// Appends the record to `out`.
    pub fn encode(&self, trailer: &Trailer, out: &mut Vec<u8>) {
        let mut record = RecordBuilder::begin(out, RecordType::LOST, Misc(0));
        record.u64(self.id);
        record.u64(self.lost);
        trailer.append(&mut record);
        record.end_short();
    }
}

impl RecordedBuildId<'_> {
    /// Appends the record `BUILD_ID` to `out`, which is also an entry of the
    /// feature section: s32 pid −1, 20 bytes of build-id, u8 size, 3 zeros,
    /// then the path, NUL-terminated and padded to 64 as perf does.
    pub fn encode(&self, out: &mut Vec<u8>) {
        const PATH_UNIT: usize = 64;
        let (bytes, len) = recorded_build_id(&self.build_id);
        let misc = Misc(misc_of(self.cpu_mode) | Misc::BUILD_ID_SIZE.0);
        let mut record = RecordBuilder::begin(out, RecordType::BUILD_ID, misc);
        record.u32(u32::MAX);
        record.bytes(&bytes);
        record.bytes(&[len, 0, 0, 0]);
        let mut path = Vec::new();
        let wanted = self.path.get(..4095).unwrap_or(self.path);
        path.extend_from_slice(wanted);
        path.resize((wanted.len() + 1).next_multiple_of(PATH_UNIT), 0);
        record.bytes(&path);
        record.end_short();
    }
}

#[cfg(test)]
mod tests {
    use super::{
        CpuMap, EventUpdate, HeaderAttr, HeaderFeature, IdIndexEntry, LostSamples, finished_init,
        finished_round, id_index, thread_map,
    };
    use crate::write::{RecordedBuildId, Trailer};
    use prof_abi::{BuildId, CpuMode, EventAttr, SampleType};

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
        let attr = EventAttr {
            size: 144,
            config2: 4,
            ..EventAttr::default()
        };
        let mut out = Vec::new();
        let record = HeaderAttr {
            attr: &attr,
            ids: &[11, 12],
        };
        record.encode(&mut out).expect("short");
        assert_eq!(out[..8], [64, 0, 0, 0, 0, 0, 152, 0]);
        assert_eq!(out[12..16], [128, 0, 0, 0]);
        assert_eq!(words(&out[8 + 128..]), [11, 12]);
        let ids = vec![1; 9000];
        let too_many = HeaderAttr {
            attr: &attr,
            ids: &ids,
        };
        assert!(too_many.encode(&mut out).is_err());
        assert_eq!(out.len(), 152);
    }

    #[test]
    fn header_feature_is_the_bit_and_the_section() {
        let mut out = Vec::new();
        let record = HeaderFeature {
            bit: 7,
            section: &[2, 0, 0, 0, 2, 0, 0, 0],
        };
        record.encode(&mut out).expect("short");
        assert_eq!(out[..8], [80, 0, 0, 0, 0, 0, 24, 0]);
        assert_eq!(words(&out[8..]), [7, 2 << 32 | 2]);
    }

    #[test]
    fn event_update_names_the_event_of_an_id() {
        let mut out = Vec::new();
        EventUpdate {
            id: 5,
            name: "cycles:u",
        }
        .encode(&mut out);
        assert_eq!(out[..8], [78, 0, 0, 0, 0, 0, 40, 0]);
        assert_eq!(words(&out[8..24]), [2, 5]);
        assert_eq!(out[24..], *b"cycles:u\0\0\0\0\0\0\0\0");
    }

    #[test]
    fn id_index_splits_where_a_record_is_full() {
        let entry = IdIndexEntry {
            id: 9,
            ring: 1,
            cpu: Some(3),
            tid: None,
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
        thread_map([(Some(4), b"sh".as_slice()), (None, b"")], &mut out);
        assert_eq!(out[..8], [73, 0, 0, 0, 0, 0, 64, 0]);
        assert_eq!(words(&out[8..24]), [2, 4]);
        assert_eq!(out[24..40], *b"sh\0\0\0\0\0\0\0\0\0\0\0\0\0\0");
        assert_eq!(words(&out[40..48]), [u64::MAX]);

        let mut out = Vec::new();
        CpuMap { cpus: &[0, 5] }.encode(&mut out).expect("short");
        assert_eq!(
            out,
            [74, 0, 0, 0, 0, 0, 16, 0, 0, 0, 2, 0, 0, 0, 5, 0],
            "kind, count, CPUs"
        );
    }

    #[test]
    fn lost_samples_names_its_event_in_the_trailer() {
        let trailer = Trailer {
            sample_type: SampleType::IDENTIFIER,
            id: 8,
            ..Trailer::NONE
        };
        let mut out = Vec::new();
        LostSamples { lost: 3 }.encode(&trailer, &mut out);
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

//! What the header, the attrs and the feature table say of a file, wound by
//! wound: each is told, and costs no more than what it hides.

use prof_abi::{AttrFlags, ByteOrder, EventAttr, RecordType, SampleType};
use prof_perfdata::write::{EventDescription, Features, FileWriter};
use prof_perfdata::{Body, Encoder, Reader};
use std::fs::File;
use std::io::{Cursor, Seek, Write};

/// Where the header has what is changed, bytes.
const ATTR_ENTRY: usize = 16;
const ATTRS_SIZE: usize = 32;
const DATA_OFFSET: usize = 40;
const DATA_SIZE: usize = 48;
const FEATURES: std::ops::Range<usize> = 72..104;

/// Samples of the file, of times 1 to this.
const SAMPLES: u64 = 3;

fn sample(time: u64) -> Vec<u8> {
    let mut out = Encoder::new(ByteOrder::Little);
    out.u32(RecordType::SAMPLE.0);
    out.u16(2);
    out.u16(8 + 3 * 8);
    for word in [0x1000, 7 << 32 | 7, time] {
        out.u64(word);
    }
    out.finish()
}

/// A whole file: an event with two ids, so many samples, a host's name.
fn file(samples: u64) -> Vec<u8> {
    let event = EventDescription {
        attr: EventAttr {
            kind: 1,
            sample_type: SampleType::IP | SampleType::TID | SampleType::TIME,
            flags: AttrFlags::SAMPLE_ID_ALL,
            sample_period: 100,
            ..EventAttr::default()
        },
        ids: vec![11, 12],
        name: "cpu-clock".into(),
    };
    let mut writer = FileWriter::new(Cursor::new(Vec::new()), &[event]).expect("memory");
    for time in 1..=samples {
        writer.write(&sample(time)).expect("memory");
    }
    let mut features = Features::default();
    features.hostname("box");
    writer.finish(&features).expect("memory").into_inner()
}

fn whole() -> Vec<u8> {
    file(SAMPLES)
}

fn word(bytes: &[u8], at: usize) -> u64 {
    ByteOrder::Little.u64(bytes, at).expect("inside")
}

fn put(bytes: &mut [u8], at: usize, word: u64) {
    bytes[at..at + 8].copy_from_slice(&word.to_le_bytes());
}

/// What is found in a file.
#[derive(Debug, PartialEq)]
struct Found {
    /// Times of the samples.
    times: Vec<u64>,
    /// Ids of the events.
    ids: Vec<Vec<u64>>,
    host: Option<String>,
    damages: Vec<String>,
}

fn open(bytes: &[u8]) -> Found {
    let mut file: File = tempfile::tempfile().expect("a temporary file");
    file.write_all(bytes).expect("room");
    file.rewind().expect("a file");
    let mut reader = Reader::open_file(file).expect("a recording");
    let mut times = Vec::new();
    while let Some(record) = reader.next().expect("readable") {
        if let Body::Sample(sample) = record.decode() {
            times.extend(sample.time());
        }
    }
    let host = reader.features().hostname();
    Found {
        times,
        ids: reader
            .events()
            .list()
            .iter()
            .map(|event| event.ids.clone())
            .collect(),
        host: host.map(|name| name.to_string_lossy().into_owned()),
        damages: reader.damages().iter().map(ToString::to_string).collect(),
    }
}

/// The whole file, with one thing changed.
fn wounded(wound: impl FnOnce(&mut Vec<u8>)) -> Found {
    let mut bytes = whole();
    wound(&mut bytes);
    open(&bytes)
}

#[test]
fn a_whole_file_has_nothing_to_tell() {
    let found = open(&whole());
    assert_eq!(found.times, [1, 2, 3]);
    assert_eq!(found.ids, [[11, 12]]);
    assert_eq!(found.host.as_deref(), Some("box"));
    assert_eq!(found.damages, [""; 0]);
}

#[test]
fn an_entry_of_a_size_that_no_attr_has_is_measured_by_the_first_attr() {
    for said in [0, 16, 79, u64::MAX] {
        let found = wounded(|bytes| put(bytes, ATTR_ENTRY, said));
        assert_eq!(found.ids, [[11, 12]], "{said}");
        assert_eq!(found.times, [1, 2, 3], "{said}");
        assert!(found.damages[0].contains(&format!("an entry of {said} bytes")));
    }
}

#[test]
fn an_attr_of_a_size_that_none_has_is_as_long_as_its_entry() {
    let found = wounded(|bytes| {
        let attrs = word(bytes, ATTRS_SIZE - 8) as usize;
        bytes[attrs + 4..attrs + 8].copy_from_slice(&1_u32.to_le_bytes());
    });
    assert_eq!(found.times, [1, 2, 3]);
    assert_eq!(found.ids, [[11, 12]]);
    assert!(found.damages[0].contains("an attr says it has 1 bytes, the least is 64"));
}

#[test]
fn ids_past_the_end_are_none() {
    let found = wounded(|bytes| {
        let attrs = word(bytes, ATTRS_SIZE - 8) as usize;
        let ids = attrs + word(bytes, ATTR_ENTRY) as usize - 16;
        put(bytes, ids, u64::MAX - 4);
    });
    assert_eq!(found.ids, [[0_u64; 0]]);
    assert_eq!(found.times, [1, 2, 3]);
    assert!(found.damages[0].contains("ids"), "{:?}", found.damages);
}

#[test]
fn attrs_that_reach_into_the_data_end_before_it() {
    let found = wounded(|bytes| put(bytes, ATTRS_SIZE, 1 << 40));
    assert_eq!(found.ids, [[11, 12]]);
    assert_eq!(found.times, [1, 2, 3]);
    assert!(found.damages[0].contains("attrs"), "{:?}", found.damages);
}

#[test]
fn data_of_no_bytes_goes_on_to_the_end_of_an_unfinished_file() {
    let found = wounded(|bytes| {
        let (start, size) = (word(bytes, DATA_OFFSET), word(bytes, DATA_SIZE));
        bytes.truncate((start + size) as usize);
        put(bytes, DATA_SIZE, 0);
    });
    assert_eq!(found.times, [1, 2, 3]);
    assert_eq!(found.host, None);
    assert!(
        found.damages[0].contains("ended early"),
        "{:?}",
        found.damages
    );
    // Nor does a recorder have to name its features before it has them.
    let found = wounded(|bytes| {
        let (start, size) = (word(bytes, DATA_OFFSET), word(bytes, DATA_SIZE));
        bytes.truncate((start + size) as usize);
        put(bytes, DATA_SIZE, 0);
        bytes[FEATURES].fill(0);
    });
    assert_eq!(found.times, [1, 2, 3]);
}

#[test]
fn data_past_the_end_of_the_file_is_read_as_far_as_it_is() {
    let found = wounded(|bytes| {
        let end = word(bytes, DATA_OFFSET) + word(bytes, DATA_SIZE);
        bytes.truncate(end as usize - 8);
    });
    assert_eq!(found.times, [1, 2]);
    assert!(found.damages[0].contains("data"), "{:?}", found.damages);
}

#[test]
fn nothing_recorded_is_not_an_unfinished_recording() {
    let found = open(&file(0));
    assert_eq!(found.times, [0; 0]);
    assert_eq!(found.ids, [[11, 12]]);
    assert_eq!(found.damages, [""; 0]);
    assert_eq!(found.host.as_deref(), Some("box"));
}

#[test]
fn a_feature_past_the_end_is_told_and_the_records_are_not_harmed() {
    let table = |bytes: &[u8]| (word(bytes, DATA_OFFSET) + word(bytes, DATA_SIZE)) as usize;
    let found = wounded(|bytes| {
        let at = table(bytes);
        put(bytes, at, 1 << 50);
    });
    assert_eq!((found.times.len(), found.host), (3, None));
    assert_eq!(found.damages.len(), 1, "{:?}", found.damages);
    // The table itself is cut.
    let found = wounded(|bytes| {
        let at = table(bytes);
        bytes.truncate(at + 8);
    });
    assert_eq!((found.times.len(), found.host), (3, None));
    assert!(
        found.damages[0].contains("feature table"),
        "{:?}",
        found.damages
    );
}

//! Every recording of the corpus holds what its description says: events,
//! samples, periods, records, features.
//!
//! The corpus is the folder named by `PROF_CORPUS`; `expected.json` in it says
//! what two versions of perf and an independent parser found. Without it the
//! recordings of `fixtures/` stand in.

use prof_abi::RecordType;
use prof_perfdata::{Body, Error, Mode, Reader, Record};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Folder and description: the corpus, or the recordings kept here.
pub(crate) fn corpus() -> (PathBuf, Value) {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/recordings");
    let folder = std::env::var_os("PROF_CORPUS").map_or(own, PathBuf::from);
    let path = folder.join("expected.json");
    let text = std::fs::read_to_string(&path)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let expected = serde_json::from_str(&text).expect("expected.json is JSON");
    (folder, expected)
}

/// What was read of a recording.
#[derive(Debug, Default, PartialEq)]
struct Counted {
    /// (samples, sum of periods) of each event.
    events: Vec<(u64, u128)>,
    records: BTreeMap<String, u64>,
}

fn count(reader: &mut Reader) -> Counted {
    let mut counted = Counted::default();
    while let Some(record) = reader.next().expect("a file that can be read") {
        let name = record.kind.name().map(ToOwned::to_owned);
        let name = name.unwrap_or_else(|| record.kind.0.to_string());
        *counted.records.entry(name).or_default() += 1;
        check_round_trip(&record);
        let Body::Sample(sample) = record.decode() else {
            continue;
        };
        let index = record.event_index().expect("a sample has an event");
        let event = record.event().expect("a sample has an event");
        let wanted = counted.events.len().max(index + 1);
        counted.events.resize(wanted, (0, 0));
        counted.events[index].0 += 1;
        counted.events[index].1 += u128::from(event.period_of(sample.period()));
    }
    counted.events.resize(reader.events().list().len(), (0, 0));
    counted
}

/// Taken apart and put together again, a record has the same bytes.
fn check_round_trip(record: &Record<'_>) {
    let parsed = record.parse().expect("the reader hands out nothing else");
    let again = parsed.encode(record.order());
    assert!(again == record.bytes, "{record:?}\nbecame {again:?}");
}

/// Recordings that are damaged, or hold less than their description counts,
/// with the reason; what is whole in them must still be found.
const KNOWN: [(&str, &str); 3] = [
    (
        "quipper/perf.data.piped.corrupted.zero_size_sample-3.2",
        "the description stops at the bad record; we find the samples behind it",
    ),
    (
        "linux-perf-data/sleep.compressed2.pipe.data",
        "perf's last message stands behind the stream",
    ),
    (
        "local/perf7.2-killed.data",
        "the recorder was killed: the features its header promises are not there",
    ),
];

/// The record types of simpleperf by the names that the description gives
/// them, from 32768 on: those of their successors.
const SIMPLEPERF: [&str; 9] = [
    "SP_KERNEL_SYMBOL",
    "SP_DSO",
    "SP_SYMBOL",
    "SP_SPLIT",
    "SP_SPLIT_END",
    "SP_EVENT_ID",
    "SP_CALLCHAIN",
    "SP_UNWINDING_RESULT",
    "SP_TRACING_DATA",
];

/// The description's name for a record type as ours.
fn own_record_name(name: &str) -> String {
    let simpleperf = SIMPLEPERF.iter().position(|&it| it == name);
    let number = match simpleperf {
        Some(index) => Some(32768 + index as u32),
        None => name.strip_prefix("type").and_then(|it| it.parse().ok()),
    };
    let Some(number) = number else {
        return name.to_owned();
    };
    let own = RecordType(number).name();
    own.map_or_else(|| number.to_string(), ToOwned::to_owned)
}

/// The description's name for a feature as ours.
fn own_name(name: &str) -> String {
    name.replace("SP_", "SIMPLEPERF_")
}

/// Records that are not in the file as such: joined from parts, which the
/// description counts alone.
const JOINED: [(&str, &str, u64); 1] = [(
    "simpleperf/perf_with_big_trace_data.data",
    "SIMPLEPERF_TRACING_DATA",
    1,
)];

/// Collects what differs from the description of one recording.
#[derive(Default)]
struct Comparison(Vec<String>);

impl Comparison {
    fn check(&mut self, what: &str, expected: &str, found: &str) {
        if expected != found {
            self.0
                .push(format!("{what}: expected {expected}, found {found}"));
        }
    }

    fn events(&mut self, file: &Value, counted: &Counted) {
        let attrs = file["attrs"].as_array().cloned().unwrap_or_default();
        let expected: Vec<(u64, u128)> = attrs
            .iter()
            .map(|attr| {
                let number = |name| attr["samples"][name].as_u64().unwrap_or(0);
                (number("n"), number("period").into())
            })
            .collect();
        self.check(
            "samples and periods",
            &format!("{expected:?}"),
            &format!("{:?}", counted.events),
        );
    }

    fn records(&mut self, file: &Value, counted: &Counted) {
        let records = file["records"].as_object().cloned().unwrap_or_default();
        let number = |count: &Value| count.as_u64().unwrap_or(0);
        let mut expected: BTreeMap<String, u64> = records
            .iter()
            .map(|(name, count)| (own_record_name(name), number(count)))
            .collect();
        let joined = JOINED.iter().filter(|(name, ..)| file["file"] == *name);
        for (_, record, count) in joined {
            *expected.entry((*record).to_owned()).or_default() += count;
        }
        self.check(
            "records",
            &format!("{expected:?}"),
            &format!("{:?}", counted.records),
        );
    }

    fn features(&mut self, file: &Value, reader: &Reader) {
        let sections = reader.features().sections();
        let readable: Vec<String> = sections
            .iter()
            .filter(|section| section.content.is_some())
            .map(|section| {
                let name = section.bit.name();
                name.map_or_else(|| section.bit.0.to_string(), ToOwned::to_owned)
            })
            .collect();
        for name in file["features"].as_array().into_iter().flatten() {
            let name = own_name(name.as_str().unwrap_or_default());
            // The last feature of a stream is a mark and says nothing.
            let is_mark = reader.header().mode == Mode::Pipe
                && matches!(name.as_str(), "CPU_DOMAIN_INFO" | "35");
            if !is_mark && !readable.contains(&name) {
                self.0.push(format!("feature {name} was not read"));
            }
        }
    }
}

fn differences(folder: &Path, file: &Value) -> Vec<String> {
    let path = folder.join(file["file"].as_str().expect("file"));
    let opened = Reader::open_file(File::open(&path).expect("file of the corpus"));
    let mut comparison = Comparison::default();
    let mut reader = match opened {
        Ok(reader) => reader,
        // Files with another magic are described without a mode.
        Err(Error::NotPerfData { .. }) if file["mode"].is_null() => return Vec::new(),
        Err(error) => return vec![format!("cannot be opened: {error}")],
    };
    let counted = count(&mut reader);
    let mode = match reader.header().mode {
        Mode::Pipe => "pipe",
        Mode::File => "file",
    };
    comparison.check("mode", file["mode"].as_str().unwrap_or("none"), mode);
    comparison.events(file, &counted);
    comparison.records(file, &counted);
    comparison.features(file, &reader);
    for damage in reader.damages().iter().take(3) {
        comparison.0.push(format!("damage: {damage}"));
    }
    comparison.0
}

#[test]
fn every_sound_recording_holds_what_its_description_says() {
    // covers fixture: ST-30, SID-02, BR-02, BR-05, BR-09, HDR-03, HDR-11, REC-08, REC-10, ATTR-17,
    // ATTR-38
    let (folder, expected) = corpus();
    let mut failed = Vec::new();
    for file in expected["files"].as_array().expect("files") {
        let name = file["file"].as_str().expect("file");
        if file["hostile"].as_bool() == Some(true) {
            continue;
        }
        let wrong = differences(&folder, file);
        match KNOWN.iter().find(|(known, _)| *known == name) {
            Some((_, reason)) if wrong.is_empty() => {
                failed.push(format!("{name}: should differ, because {reason}"));
            }
            None if !wrong.is_empty() => failed.push(format!("{name}:\n  {}", wrong.join("\n  "))),
            _ => {}
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

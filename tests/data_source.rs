//! Names of memory accesses are those of the installed perf (6.1).
//!
//! perf 7 words some of them in another way: it says only "N/A" where the level
//! is not known, and leaves a space behind a level without hit or miss.

use crate::oracle;
use prof_abi::{AttrFlags, CpuMode, DataSource, EventAttr, SampleType};
use prof_perfdata::write::{EventDescription, Features, FileWriter, SampleEncoder, SampleFields};
use std::fs::File;
use std::path::Path;

/// Values with every field at work.
fn values() -> Vec<u64> {
    let mut values = vec![0, 0x68100142, 0x6a100141, 0x5080144, 0x1e05080021];
    values.extend((0..51).map(|bit| 1 << bit));
    values.extend((0..16).map(|number| number << 33 | 0x2_0000_0042));
    values.extend((1..5).map(|hops| hops << 43 | 1 << 37 | 0xb << 33 | 0x42));
    values.extend((0..8).map(|snoop| snoop << 38 | 0x14 << 19 | 2));
    values
}

/// A recording with a sample for each value.
fn write(path: &Path, values: &[u64]) {
    let sample_type = SampleType::IP | SampleType::TID | SampleType::TIME | SampleType::DATA_SRC;
    let attr = EventAttr {
        kind: 1,
        sample_period: 1,
        sample_type,
        flags: AttrFlags::SAMPLE_ID_ALL,
        ..EventAttr::default()
    };
    let encoder = SampleEncoder::new(&attr);
    let event = EventDescription {
        attr,
        ids: vec![1],
        name: "cpu-clock".to_owned(),
    };
    let file = File::create(path).expect("created");
    let mut writer = FileWriter::new(file, &[event]).expect("written");
    let mut records = Vec::new();
    for (time, &data_src) in (1_u64..).zip(values) {
        let fields = SampleFields {
            cpu_mode: CpuMode::User,
            ip: 0x1000,
            pid: 1,
            tid: 1,
            time,
            data_src,
            ..SampleFields::default()
        };
        encoder.encode(&fields, &mut records).expect("short");
    }
    writer.write(&records).expect("written");
    let mut features = Features::default();
    features.hostname("here");
    features.arch("x86_64");
    features.cpu_counts(1, 1);
    writer.finish(&features).expect("written");
}

#[test]
fn data_sources_are_named_as_perf_names_them() {
    // covers fixture: MEM-01, MEM-02, MEM-03, MEM-04, MEM-05, MEM-06, MEM-11, MEM-12, MEM-13, MEM-14
    if !oracle::have("data_sources_are_named_as_perf_names_them", "perf") {
        return;
    }
    let folder = tempfile::tempdir().expect("temporary folder");
    let path = folder.path().join("perf.data");
    let values = values();
    write(&path, &values);
    let arguments = [
        "script",
        "-F",
        "data_src",
        "-i",
        path.to_str().expect("UTF-8"),
    ];
    let finished = oracle::perf(&arguments);
    let stdout = String::from_utf8_lossy(&finished.stdout).into_owned();
    let lines: Vec<&str> = stdout.lines().collect();
    assert_eq!(lines.len(), values.len(), "{:?}", finished.stderr);
    let mut wrong = Vec::new();
    for (line, &value) in lines.iter().zip(&values) {
        let perfs = line.split_once('|').map_or("", |(_, text)| text.trim_end());
        let ours = DataSource(value).to_string();
        let ours = ours.trim_start_matches('|').trim_end();
        // perf 6.1 does not know these levels and prints their numbers.
        let newer = [5, 7, 8].contains(&DataSource(value).level_number());
        // Long ones are cut by perf.
        if !newer && !ours.starts_with(perfs) {
            wrong.push(format!("{value:#x}: perf {perfs:?}, prof {ours:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

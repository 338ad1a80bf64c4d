//! `prof dump`: what it writes, and its exit codes.

use crate::oracle::prof;
use std::path::PathBuf;
use std::process::{Command, Output};

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures/recordings")
        .join(name)
}

fn dump(options: &[&str], file: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_prof"))
        .arg("dump")
        .args(options)
        .arg("-i")
        .arg(fixture(file))
        .output()
        .expect("prof starts")
}

fn text(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

#[test]
fn a_record_is_one_line_with_offset_type_size_and_fields() {
    let output = dump(&[], "local/perf6.1-cgroup.data");
    assert_eq!(output.status.code(), Some(0));
    let text = text(&output);
    let cgroup: Vec<&str> = text
        .lines()
        .filter(|line| line.contains(" CGROUP "))
        .collect();
    assert_eq!(cgroup.len(), 1, "{text}");
    assert!(
        cgroup[0].contains("size=40 misc=0x0 id=1 path=\"/\""),
        "{}",
        cgroup[0]
    );
    assert_eq!(
        text.lines()
            .filter(|line| line.contains(" SAMPLE "))
            .count(),
        182
    );
}

#[test]
fn json_has_the_same_records_as_text() {
    for file in [
        "local/perf6.1-group.data",
        "local/bigendian-perf6.1-intrregs.data",
    ] {
        let lines = text(&dump(&[], file));
        let objects = text(&dump(&["--json"], file));
        assert_eq!(lines.lines().count(), objects.lines().count());
        for (line, object) in lines.lines().zip(objects.lines()) {
            let object: serde_json::Value = serde_json::from_str(object).expect("JSON");
            let offset = object["offset"].as_u64().expect("offset");
            let start = format!("{offset:#x} {} ", object["type"].as_str().expect("type"));
            assert!(line.starts_with(&start), "{line}");
        }
    }
}

#[test]
fn stats_have_the_promised_form() {
    let output = dump(&["--stats", "--json"], "hostile/h25-record-size-0.data");
    assert_eq!(output.status.code(), Some(3), "damaged");
    let stats: serde_json::Value = serde_json::from_str(&text(&output)).expect("JSON");
    assert_eq!(stats["events"][0]["name"], "cpu-clock");
    assert!(stats["events"][0]["samples"].as_u64() > Some(30), "{stats}");
    assert!(stats["events"][0]["period"].is_u64());
    assert_eq!(stats["records"]["SAMPLE"], stats["events"][0]["samples"]);
    assert_eq!(stats["lost"], 0);
    assert_eq!(stats["damage"][0]["offset"], 0x530);
    assert!(stats["damage"][0]["bytes"].is_u64());
    let what = stats["damage"][0]["what"].as_str().expect("what");
    assert!(what.contains("0 bytes, the least is 8"), "{what}");
}

#[test]
fn the_header_tells_the_machine_and_the_events() {
    let text = text(&dump(&["--header"], "local/perf7.2-user.data"));
    for line in [
        "# hostname : example",
        "# arch : x86_64",
        "# perf version : 7.2.13",
    ] {
        assert!(text.contains(line), "{text}");
    }
    assert!(text.contains("# event : name = cpu-clock"), "{text}");
}

#[test]
fn what_is_no_recording_is_said_with_what_it_is() {
    for (file, why) in [
        ("hostile/h01-empty.data", "the file is empty"),
        (
            "hostile/h03-header-cut-at-100.data",
            "needs 104 bytes, but the file ends after 100",
        ),
        ("simpleperf/etm_perf_inject.data", "it looks like text"),
        ("simpleperf/missing.data", "No such file"),
        ("simpleperf", "without a file `data`"),
    ] {
        let output = dump(&[], file);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{file}: {errors}");
        assert!(errors.contains(why), "{file}: {errors}");
    }
}

#[test]
fn script_shows_the_header_before_the_samples() {
    let recording = fixture("local/perf6.1-named.data");
    let path = recording.to_str().expect("a UTF-8 path");
    let header = prof(&["report", "--header-only", "-f", "-i", path]).succeeded("prof report");
    let only = prof(&["script", "--header-only", "-f", "-i", path]).succeeded("prof script");
    assert_eq!(only.text(), header.text());
    let samples = prof(&["script", "-f", "-i", path]).succeeded("prof script");
    let both = prof(&["script", "--header", "-f", "-i", path]).succeeded("prof script");
    assert_eq!(both.text(), header.text() + &samples.text());
    // What dump shows is all that the others do, and more.
    let full = prof(&["script", "--header-only", "-I", "-f", "-i", path]).succeeded("prof script");
    let dump = prof(&["dump", "--header", "-f", "-i", path]).succeeded("prof dump");
    let dump = dump.text();
    let dump: Vec<&str> = dump.lines().collect();
    assert!(full.text().lines().all(|line| dump.contains(&line)));
    assert!(
        dump.contains(&"# byte order     : little-endian"),
        "{dump:?}"
    );
}

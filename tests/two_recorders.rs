//! Recorders beside each other: what the kernel tells the one is not to spoil
//! the recording of the other.

use crate::oracle::{
    compiled, excerpt, have, is_root, may_record_all, perf_at, perfs, prof, prof_command, scratch,
};
use std::collections::HashSet;

/// The number behind `field` in a line of `dump`.
fn number(line: &str, field: &str) -> Option<u64> {
    let text = line.split(field).nth(1)?;
    let end = text.find(|c: char| !c.is_ascii_digit());
    text.get(..end.unwrap_or(text.len()))?.parse().ok()
}

/// The ids of an event's line of `dump --header`.
fn ids(line: &str) -> impl Iterator<Item = u64> {
    let listed = line
        .split_once("id = { ")
        .and_then(|(_, ids)| ids.split_once(" }"));
    let listed = listed.map_or("", |(ids, _)| ids).split(", ");
    listed.filter_map(|id| id.parse().ok())
}

#[test]
fn what_the_kernel_tells_two_recorders_is_right_in_both() {
    let test = "two recorders";
    if !may_record_all(test) {
        return;
    }
    let Some(program) = compiled(test, "loads-programs.c", &["-O1"]) else {
        return;
    };
    let path = |name: &str| scratch().join(name).to_str().expect("plain").to_owned();
    let (outer, inner) = (path("outer-recorder.data"), path("inner-recorder.data"));
    // The kernel tells the younger recorder first, and the older one what it
    // left behind.
    let recorded = prof_command()
        .args(["record", "-q", "-B", "-a", "-F", "999", "-o", &outer, "--"])
        .arg(env!("CARGO_BIN_EXE_prof"))
        .args(["record", "-q", "-a", "-F", "999", "-o", &inner, "--"])
        .arg(program)
        .output()
        .expect("prof starts");
    assert!(recorded.status.success(), "{}", excerpt(&recorded));
    for recording in [&outer, &inner] {
        let dumped = prof(&["dump", "-i", recording]).succeeded("dump");
        assert_eq!(dumped.stderr, "", "no damage");
        let text = dumped.text();
        let time = |line: &str| number(line, ",time=").or_else(|| number(line, " time="));
        let of = |kind: &str| -> Vec<u64> {
            let is_it = |line: &&str| line.split(' ').nth(1) == Some(kind);
            text.lines().filter(is_it).filter_map(time).collect()
        };
        let samples = of("SAMPLE");
        let (first, last) = (samples.iter().min(), samples.iter().max());
        let (first, last) = first.zip(last).expect("samples");
        for kind in ["KSYMBOL", "BPF_EVENT"] {
            let times = of(kind);
            let told: Vec<_> = times.iter().filter(|&&time| time != 0).collect();
            assert!(told.len() >= 10, "{kind}: 5 loaded, 5 unloaded: {told:?}");
            let (from, to) = (first.saturating_sub(1 << 30), last + (1 << 30));
            let is_then = |time: &&u64| (from..to).contains(*time);
            assert!(told.iter().all(is_then), "{kind}: {told:?}");
        }
        let report = prof(&["report", "--stdio", "-i", recording]).succeeded("report");
        let report = report.text();
        for wrong in ["damaged", "too late"] {
            assert!(!report.contains(wrong), "{}", excerpt(&report));
        }
        assert!(
            report.contains("works_between_loads"),
            "{}",
            excerpt(&report)
        );
        for perf in perfs(test) {
            let shown = perf_at(&perf, &["report", "--stdio", "-i", recording]);
            let shown = shown.succeeded("perf report").text();
            assert!(shown.contains("works_between_loads"), "{}", excerpt(&shown));
        }
    }
}

/// Two recorders of the same software event: where it is the only one that samples,
/// what is in a recorder's rings is of it, whatever id the kernel gave.
#[test]
fn samples_of_one_software_event_are_known_beside_another_recorder() {
    let folder = tempfile::tempdir_in(scratch()).expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("plain").to_owned();
    let (outer, inner) = (path("outer.data"), path("inner.data"));
    // Who is not root may lock less, and other tests' recorders take of that.
    let size: &[&str] = match is_root() {
        true => &["-m", "8M"],
        false => &[],
    };
    let count = ["-B", "-c", "1", "-e", "page-faults:u", "-o"];
    // Delayed, as an event of its own then tells of tasks, and samples have ids.
    let recorded = prof_command()
        .args([&["record", "-D", "1"], size, &count, &[&outer, "--"]].concat())
        .arg(env!("CARGO_BIN_EXE_prof"))
        .args([&["record", "-D", "1"], size, &count, &[&inner, "--"]].concat())
        .args([
            "sh",
            "-c",
            "sleep 0.1; i=0; while [ $i -lt 20 ]; do /bin/true; i=$((i+1)); done",
        ])
        .output()
        .expect("prof starts");
    assert!(recorded.status.success(), "{}", excerpt(&recorded));
    let told = String::from_utf8_lossy(&recorded.stderr);
    assert!(!told.contains("another recorder"), "{told}");
    for recording in [&outer, &inner] {
        let listed = prof(&["script", "-F", "event", "-i", recording]);
        let faults = listed
            .text()
            .lines()
            .filter(|line| line.contains("page-faults"))
            .count();
        assert!(faults > 100, "{faults}: {}", listed.stderr);
        assert!(!listed.stderr.contains("an event id"), "{}", listed.stderr);
    }
}

/// Of several events that a switch of context makes overflow, the kernel fills
/// in ids only as far as those before did not have them.
#[test]
fn samples_of_several_software_events_are_known_beside_another_recorder() {
    let test = "samples_of_several_software_events_are_known_beside_another_recorder";
    if !have(test, "perf") || !may_record_all(test) {
        return;
    }
    let folder = tempfile::tempdir_in(scratch()).expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("plain").to_owned();
    let (outer, inner) = (path("outer.data"), path("inner.data"));
    let record = || {
        prof_command()
            .args(["record", "-q", "-B", "-a", "-m", "8M", "-c", "1"])
            .args(["-e", "page-faults,cs", "-o", &outer, "--"])
            .args(["perf", "record", "-q", "-a", "-c", "1", "-e", "cs", "-g"])
            .args(["--sample-identifier", "-o", &inner, "--", "sleep", "0.5"])
            .output()
            .expect("prof starts")
    };
    // perf 6.1 aborts behind its recording where another test's recorder has the kernel
    // send build-ids, which it did not ask for.
    let is_aborted =
        |run: &std::process::Output| String::from_utf8_lossy(&run.stderr).contains("build-id.c");
    let mut recorded = record();
    for _ in 0..4 {
        if !is_aborted(&recorded) {
            break;
        }
        recorded = record();
    }
    let is_known = recorded.status.success() || is_aborted(&recorded);
    assert!(is_known, "{}", excerpt(&recorded));
    // Recorders of our kind, which other tests run, have both ids, too, and take some
    // samples away: those are not this test's. Without both, nothing is known while
    // perf records, and these have an id of perf's.
    let header = prof(&["dump", "--header", "-i", &inner]).succeeded("dump --header");
    let theirs: HashSet<u64> = header.text().lines().flat_map(ids).collect();
    assert!(!theirs.is_empty(), "{}", header.text());
    let dumped = prof(&["dump", "-i", &outer]).succeeded("dump");
    let text = dumped.text();
    let samples = text.lines().filter(|line| line.contains(" SAMPLE "));
    let samples: Vec<_> = samples
        .filter_map(|line| number(line, " identifier=").map(|id| (id, line)))
        .collect();
    let switches = samples
        .iter()
        .filter(|(_, line)| line.contains("event=\"cs\""));
    let switches = switches.count();
    assert!(switches > 100, "{switches} of {}", samples.len());
    let taken = samples.iter().find(|(id, _)| theirs.contains(id));
    assert_eq!(taken, None, "of {}", samples.len());
}

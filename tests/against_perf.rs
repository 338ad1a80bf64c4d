//! Recordings by perf and by prof, read by both: the same samples, addresses,
//! symbols, offsets and shares.
//!
//! Every line must be the same, but for frames with a known [`Cause`]; the
//! shares are compared without those frames, and then are the same to the
//! byte.
//!
//! [`Cause`]: crate::chosen::Cause

use crate::chosen::{Keep, cause, chosen};
use crate::oracle::{self, compiled, have, perf, prof, skipped};
use std::path::Path;

/// Fails at the first line that differs for no known cause.
fn assert_same_samples(test: &str, recording: &Path) {
    let recording = recording.to_str().expect("a UTF-8 path");
    let args = ["script", "--no-inline", "-f", "-i", recording];
    let perfs = perf(&args).succeeded("perf script").text();
    let ours = prof(&args).succeeded("prof script").text();
    let mut is_caller = false;
    for (number, (perfs, ours)) in (1..).zip(perfs.lines().zip(ours.lines())) {
        let is_frame = perfs.starts_with('\t');
        assert!(
            perfs == ours || (is_frame && cause(perfs, ours, is_caller).is_some()),
            "{test}: {recording} line {number}\nperf: {perfs}\nprof: {ours}"
        );
        is_caller = is_frame;
    }
    let lines = perfs.lines().count();
    assert_eq!(
        lines,
        ours.lines().count(),
        "{test}: {recording}: number of lines"
    );
    assert!(lines > 50, "{test}: {recording} has only {lines} lines");
}

/// Compares the rows of all symbols, without the comment lines.
fn assert_same_shares(test: &str, recording: &Path) {
    let recording = chosen(recording, Keep::Unnamed);
    let recording = recording.to_str().expect("a UTF-8 path");
    let args = [
        "report",
        "--stdio",
        "--no-children",
        "-q",
        "-g",
        "none",
        "-s",
        "dso,sym",
        "-f",
        "-i",
        recording,
    ];
    let perfs = perf(&args).succeeded("perf report").text();
    let ours = prof(&args).succeeded("prof report").text();
    assert!(perfs.lines().count() > 3, "{test}: perf shows {perfs}");
    assert_eq!(perfs, ours, "{test}: {recording}");
}

/// Records `command` with perf and with prof and compares what both say of
/// each recording.
fn compare(test: &str, command: &[&str]) {
    if !have(test, "perf") {
        return;
    }
    for recorder in ["perf", "prof"] {
        let path = oracle::scratch().join(format!("{test}-{recorder}.data"));
        let path_text = path.to_str().expect("a UTF-8 path");
        let mut args = vec![
            "record", "-q", "-N", "-F", "999", "-g", "-o", path_text, "--",
        ];
        args.extend(command);
        let made = match recorder {
            "perf" => perf(&args),
            _ => prof(&args),
        };
        made.succeeded(recorder);
        assert_same_samples(test, &path);
        assert_same_shares(test, &path);
    }
}

fn path_text(path: &Path) -> &str {
    path.to_str().expect("a UTF-8 path")
}

#[test]
fn a_c_program_without_frame_pointers() {
    let test = "a_c_program_without_frame_pointers";
    let flags = ["-O2", "-g", "-fomit-frame-pointer"];
    if let Some(program) = compiled(test, "no-frame-pointers.c", &flags) {
        compare(test, &[path_text(&program)]);
    }
}

#[test]
fn cpp_threads() {
    let test = "cpp_threads";
    if let Some(program) = compiled(test, "threads.cc", &["-O2", "-g", "-pthread"]) {
        compare(test, &[path_text(&program)]);
    }
}

#[test]
fn rust_with_inlining() {
    let test = "rust_with_inlining";
    if let Some(program) = compiled(test, "inlining.rs", &["-O", "-g"]) {
        compare(test, &[path_text(&program)]);
    }
}

#[test]
fn a_shell_pipeline() {
    let script = "for turn in 1 2 3; do seq 1 200000 | sort -r | tail -n 3 | wc -c; done";
    compare("a_shell_pipeline", &["sh", "-c", script]);
}

/// The rows of a report, sorted, spaces squeezed.
fn rows(text: &str) -> Vec<String> {
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    let squeezed = rows.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    let mut rows: Vec<String> = squeezed.filter(|line| !line.is_empty()).collect();
    rows.sort();
    rows
}

#[test]
fn groups_that_sample_by_their_leader() {
    // covers fixture: ST-07, EV-31
    let test = "groups_that_sample_by_their_leader";
    let flags = ["-O1", "-g", "-fno-omit-frame-pointer"];
    let program = compiled(test, "report-calls.c", &flags);
    let Some(program) = program.filter(|_| have(test, "perf")) else {
        return;
    };
    let path = oracle::scratch().join(format!("{test}.data"));
    let group = "{cpu-clock,page-faults,context-switches}:S";
    let words = ["record", "-q", "-F", "999", "-e", group, "-o"];
    let rest = [path_text(&path), "--", path_text(&program)];
    perf(&[&words[..], &rest[..]].concat()).succeeded("perf record");
    let path = path_text(&path);
    // Names of functions are for other tests: here it is about the periods.
    let fields = "comm,tid,time,event,period,ip,dso";
    let script = ["script", "-F", fields, "-i", path];
    let perfs = perf(&script).succeeded("perf script").text();
    let ours = prof(&script).succeeded("prof script").text();
    assert_eq!(perfs, ours);
    let report = ["report", "--stdio", "-n", "-s", "comm,dso", "-i", path];
    for options in [&[][..], &["--no-group"]] {
        let report = [&report[..], options].concat();
        let perfs = rows(&perf(&report).succeeded("perf report").text());
        let ours = rows(&prof(&report).succeeded("prof report").text());
        assert_eq!(perfs, ours, "{options:?}");
    }
    // Starting a program faults pages in, before any clock could tick.
    let report = prof(&["report", "--json", "-i", path]).succeeded("prof report");
    let report: serde_json::Value = serde_json::from_slice(&report.stdout).expect("JSON");
    let events = report["events"].as_array().expect("events");
    // Of a plain user it has `:u` behind it.
    let is_faults = |event: &&serde_json::Value| {
        let name = event["name"].as_str();
        name.is_some_and(|name| name.starts_with("page-faults"))
    };
    let faults = events.iter().find(is_faults);
    let samples = faults.and_then(|event| event["samples"].as_u64());
    assert!(samples.is_some_and(|samples| samples > 0), "{events:?}");
}

#[test]
fn a_directory_of_data_files() {
    let test = "a_directory_of_data_files";
    let program = compiled(test, "threads.cc", &["-O2", "-g", "-pthread"]);
    let Some(program) = program.filter(|_| have(test, "perf")) else {
        return;
    };
    let path = oracle::scratch().join(format!("{test}.data"));
    let _ = std::fs::remove_dir_all(&path);
    let words = ["record", "-q", "--threads", "-F", "999", "-o"];
    let rest = [path_text(&path), "--", path_text(&program)];
    perf(&[&words[..], &rest[..]].concat()).succeeded("perf record");
    assert!(path.join("data.0").is_file(), "perf made a directory");
    let fields = "comm,tid,time,event,period,ip,dso";
    let script = ["script", "--ns", "-F", fields, "-i", path_text(&path)];
    let perfs = perf(&script).succeeded("perf script").text();
    let ours = prof(&script).succeeded("prof script").text();
    let time = |line: &str| -> Option<u64> {
        let mut words = line.split_whitespace();
        let word = words.find(|word| word.ends_with(':'))?;
        let digits: String = word.chars().filter(char::is_ascii_digit).collect();
        digits.parse().ok()
    };
    let own: Vec<u64> = ours.lines().filter_map(time).collect();
    assert_eq!(own.len(), perfs.lines().count());
    assert!(own.is_sorted(), "in order of time");
    // Samples of two CPUs in the same nanosecond may stand either way.
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text.lines().map(ToOwned::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&perfs), sorted(&ours));
}

/// The system calls that [`tracepoint_payloads`]' command makes: each event
/// that is opened costs time, and there are 720.
const SYSTEM_CALLS: &str = "access brk clock_nanosleep clone close connect dup2 execve \
    exit_group fadvise64 futex getdents64 getpid getrandom getuid getxattr ioctl lseek mmap \
    mprotect munmap newfstatat openat pipe2 pread64 prlimit64 read readlink rt_sigaction \
    rt_sigprocmask sched_getaffinity set_robust_list socket statfs statx vfork wait4 write";

#[test]
fn tracepoint_payloads() {
    let test = "tracepoint_payloads";
    if !have(test, "perf") || !oracle::may_record_all(test) {
        return;
    }
    if !Path::new("/sys/kernel/tracing/events/sched").is_dir() {
        skipped(test, "tracefs is not mounted");
        return;
    }
    let path = oracle::scratch().join(format!("{test}.data"));
    let path = path.to_str().expect("a UTF-8 path");
    let calls = SYSTEM_CALLS.split_whitespace();
    let calls: String = calls
        .map(|call| format!(",syscalls:sys_*_{call}"))
        .collect();
    let events = format!("sched:*,signal:*,task:*{calls}");
    let script = "ls -l / | sort | tail -n 1; sleep 0.05";
    perf(&[
        "record", "-q", "-N", "-e", &events, "-a", "-o", path, "--", "sh", "-c", script,
    ])
    .succeeded("perf record");
    let args = [
        "script",
        "-F",
        "comm,tid,cpu,time,event,trace",
        "-f",
        "-i",
        path,
    ];
    let perfs = perf(&args).succeeded("perf script").text();
    let ours = prof(&args).succeeded("prof script").text();
    assert!(
        perfs.lines().count() > 100,
        "only {} lines",
        perfs.lines().count()
    );
    for (perfs, ours) in perfs.lines().zip(ours.lines()) {
        assert_eq!(perfs, ours);
    }
    assert_eq!(perfs.lines().count(), ours.lines().count());
}

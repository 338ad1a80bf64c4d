//! Recordings by perf and by prof, read by both: the same samples, addresses,
//! symbols, offsets and shares.
//!
//! Known differences, each with its reason (see [`Difference`]):
//! - A return address is looked up one byte earlier, in the call. perf 6.1
//!   looks up the address itself, and names the next function, or none, where
//!   a call is the last instruction of one.
//! - Once a program ran after an exec the mappings of the old one are gone.
//!   perf keeps them and still names addresses of the old program.
//! - Entries of the PLT: perf 6.1 shows those of versioned functions as
//!   `@plt`, without the function's name.

use crate::oracle::{self, compiled, have, perf, prof, skipped};
use std::path::Path;

/// Why a line of ours may differ from perf's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Difference {
    /// A return address at the end of a function.
    CallAtTheEnd,
    /// An address of the program before an exec.
    BeforeExec,
    /// A PLT entry that perf cannot name.
    Plt,
}

/// Address, symbol (with offset) and dso of a frame's line.
fn frame(line: &str) -> Option<(&str, &str, &str)> {
    let (address, rest) = line.strip_prefix('\t')?.trim_start().split_once(' ')?;
    let (symbol, dso) = rest.rsplit_once(" (")?;
    Some((address, symbol, dso))
}

/// The known difference between two lines, if that is what it is.
fn known(perf: &str, ours: &str) -> Option<Difference> {
    let (perf_address, perf_symbol, perf_dso) = frame(perf)?;
    let (address, symbol, dso) = frame(ours)?;
    let same_place = perf_address == address && perf_dso == dso;
    let next = perf_symbol.ends_with("+0x0") || perf_symbol == "[unknown]";
    if same_place && next && symbol != "[unknown]" {
        return Some(Difference::CallAtTheEnd);
    }
    if same_place && perf_symbol.starts_with("@plt") && symbol.contains("@plt") {
        return Some(Difference::Plt);
    }
    let unknown = symbol == "[unknown]" && dso == "[unknown])";
    (unknown && perf_dso.starts_with('/')).then_some(Difference::BeforeExec)
}

/// Fails at the first line that differs for no known reason, or if known
/// reasons explain more than one line in fifty.
fn assert_same_samples(test: &str, recording: &Path) {
    let recording = recording.to_str().expect("a UTF-8 path");
    let args = ["script", "--no-inline", "-f", "-i", recording];
    let perfs = perf(&args).succeeded("perf script").text();
    let ours = prof(&args).succeeded("prof script").text();
    let mut differences = 0;
    let mut pairs = perfs.lines().zip(ours.lines());
    for (number, (perfs, ours)) in (1..).zip(&mut pairs) {
        if perfs == ours {
            continue;
        }
        let reason = known(perfs, ours);
        assert!(
            reason.is_some(),
            "{test}: {recording} line {number}\nperf: {perfs}\nprof: {ours}"
        );
        differences += 1;
    }
    let lines = perfs.lines().count();
    assert_eq!(
        lines,
        ours.lines().count(),
        "{test}: {recording}: number of lines"
    );
    assert!(lines > 50, "{test}: {recording} has only {lines} lines");
    assert!(
        differences * 50 <= lines,
        "{test}: {recording}: {differences} of {lines} lines differ for known reasons"
    );
}

/// The shares of symbols, sorted, spaces squeezed, PLT entries without names.
fn shares(text: &str) -> Vec<String> {
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    let squeezed = rows.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    let without_plt_name = |line: String| match line.rsplit_once(' ') {
        Some((head, name)) if name.ends_with("@plt") => format!("{head} @plt"),
        _ => line,
    };
    let squeezed = squeezed.filter(|line| !line.is_empty());
    let mut rows: Vec<String> = squeezed.map(without_plt_name).collect();
    rows.sort();
    rows
}

fn assert_same_shares(test: &str, recording: &Path) {
    let recording = recording.to_str().expect("a UTF-8 path");
    let args = [
        "report",
        "--stdio",
        "--no-children",
        "-g",
        "none",
        "-s",
        "sym",
        "--percent-limit",
        "0",
        "-f",
        "-i",
        recording,
    ];
    let perfs = shares(&perf(&args).succeeded("perf report").text());
    let ours = shares(&prof(&args).succeeded("prof report").text());
    assert!(perfs.len() > 3, "{test}: perf shows {perfs:?}");
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
        let mut args = vec!["record", "-q", "-F", "999", "-g", "-o", path_text, "--"];
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
    let events = "sched:*,syscalls:*,signal:*,task:*";
    let script = "ls -l / | sort | tail -n 1; sleep 0.05";
    perf(&[
        "record", "-q", "-e", events, "-a", "-o", path, "--", "sh", "-c", script,
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
    let perfs = perf(&args).text();
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

//! Call chains of thousands of frames take little room, and every perf reads
//! them: also of a recorder that was killed, and from a stream.

use crate::oracle::{
    Finished, compiled, have, may_record_all, perf_at, perfs, prof, prof_command, skipped,
};
use crate::patience::wait_until;
use crate::waiting::folder;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// 14 000 frames deep; `None` without a compiler.
fn program(test: &str) -> Option<PathBuf> {
    let flags = ["-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls"];
    let program = compiled(test, "deep-recursion.c", &flags)?;
    have(test, "perf").then_some(program)
}

/// `prof record -g` of some seconds at the innermost level, which the program does
/// not leave: also who comes late to read its stack reads all of it.
fn record(program: &Path, seconds: &str, options: &[&str]) -> Command {
    let mut command = prof_command();
    command
        .args(["record", "-q", "-g", "-e", "cpu-clock:u", "-F", "499"])
        .args(options)
        .arg("--")
        .arg(program)
        .args(["stay", seconds]);
    command
}

/// Samples in the innermost function, and how many of them have a chain of
/// more than 1000 frames, as `tool script` has them from a file or stream.
fn deep_samples(tool: &Path, input: &Path) -> (usize, usize) {
    let input = input.to_str().expect("a path of ours");
    let arguments = ["script", "--max-stack", "9000", "-F", "ip,sym", "-i", input];
    let script = perf_at(tool, &arguments);
    let script = script.succeeded("script");
    let (mut samples, mut deep) = (0, 0);
    for sample in script.text().split("\n\n") {
        let frames = sample.lines().filter(|line| !line.trim().is_empty());
        let mut frames = frames.peekable();
        let innermost = frames.peek().is_some_and(|line| line.ends_with(" work"));
        samples += usize::from(innermost);
        deep += usize::from(innermost && frames.count() > 1000);
    }
    (samples, deep)
}

/// Bytes of a file.
fn size(file: &Path) -> usize {
    std::fs::metadata(file).expect("there").len() as usize
}

/// What each perf and `prof` find in a recording: the same, and deep chains
/// that take less than a kilobyte each. Whether it could be recorded.
fn is_read_by_all(test: &str, input: &Path) {
    let own = deep_samples(Path::new(prof_command().get_program()), input);
    assert!(own.1 >= 5, "{own:?}");
    for perf in perfs(test) {
        assert_eq!(deep_samples(&perf, input), own, "{perf:?}");
    }
    let bytes = size(input);
    assert!(bytes < 100_000 + own.1 * 1000, "{bytes} for {own:?}");
}

#[test]
fn deep_chains_are_packed_unless_that_is_unwanted() {
    let test = "deep_chains_are_packed_unless_that_is_unwanted";
    let Some(program) = program(test) else {
        return;
    };
    let folder = folder("deep-chains-packed");
    let file = folder.join("perf.data");
    let name = file.to_str().expect("a path of ours");
    let header = |name: &str| {
        let header = prof(&["dump", "--header", "-i", name]).succeeded("prof dump");
        header.text()
    };
    let ended = record(&program, "0.2", &["-o", name]).output();
    let ended = Finished::from(ended.expect("prof starts"));
    if ended.stderr.contains("EACCES") {
        return skipped(test, &ended.stderr);
    }
    is_read_by_all(test, &file);
    assert!(header(name).contains("Zstd, level = 1"));
    let parts = ["--switch-output=80ms", "-o", name];
    let ended = record(&program, "0.2", &parts).output();
    Finished::from(ended.expect("prof starts")).succeeded("prof record");
    let files = std::fs::read_dir(&folder).expect("there");
    let files = files.map(|entry| entry.expect("an entry").path());
    let files: Vec<PathBuf> = files.filter(|path| *path != file).collect();
    assert!(files.len() > 1, "{files:?}");
    for part in &files {
        assert!(size(part) < 300_000, "{}", size(part));
        let own = deep_samples(Path::new(prof_command().get_program()), part);
        for perf in perfs(test) {
            assert_eq!(deep_samples(&perf, part), own, "{part:?}");
        }
    }
    for off in ["--no-compression-level", "-z=0"] {
        let ended = record(&program, "0.1", &[off, "-o", name]).output();
        Finished::from(ended.expect("prof starts")).succeeded("prof record");
        assert!(!header(name).contains("Zstd"));
        assert!(size(&file) > 150_000, "{off}: {}", size(&file));
    }
    std::fs::remove_dir_all(folder).expect("ours");
}

/// The size of a recording's data, bytes: as the header says, and as there are.
fn data_sizes(file: &Path) -> Option<(u64, u64)> {
    let bytes = std::fs::read(file).ok()?;
    let word = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    Some((word(48)?, (bytes.len() as u64).saturating_sub(word(40)?)))
}

#[test]
fn packed_records_of_a_killed_recorder_are_read() {
    let test = "packed_records_of_a_killed_recorder_are_read";
    let Some(program) = program(test) else {
        return;
    };
    let folder = folder("deep-chains-killed");
    for options in [&[][..], &["-z"]] {
        let file = folder.join("perf.data");
        let name = file.to_str().expect("a path of ours");
        for attempt in 0.. {
            let mut command = record(&program, "3", &[options, &["-o", name]].concat());
            let mut child = command.stderr(Stdio::piped()).spawn().expect("prof starts");
            let is_valid = || data_sizes(&file).is_some_and(|(told, _)| told > 12_000);
            wait_until("records", || {
                is_valid() || child.try_wait().expect("ours").is_some()
            });
            if child.try_wait().expect("ours").is_some() {
                let ended = Finished::from(child.wait_with_output().expect("ended"));
                return skipped(test, &ended.stderr);
            }
            child.kill().expect("it runs");
            child.wait().expect("ours");
            // Not killed between writing records and saying so in the header:
            // perf leaves out what that does not know of.
            let sizes = data_sizes(&file).expect("a header");
            if sizes.0 == sizes.1 {
                break;
            }
            assert!(attempt < 10, "always killed between two writes: {sizes:?}");
        }
        is_read_by_all(test, &file);
        let _ = std::fs::remove_file(&file);
    }
    std::fs::remove_dir_all(folder).expect("ours");
}

#[test]
fn a_stream_of_deep_chains_is_small_and_read_by_all() {
    let test = "a_stream_of_deep_chains_is_small_and_read_by_all";
    let Some(program) = program(test) else {
        return;
    };
    let folder = folder("deep-chains-stream");
    let ended = record(&program, "0.2", &["-o", "-"]).output();
    let ended = ended.expect("prof starts");
    if ended.stdout.is_empty() {
        return skipped(test, &String::from_utf8_lossy(&ended.stderr));
    }
    let file = folder.join("stream");
    std::fs::write(&file, &ended.stdout).expect("written");
    is_read_by_all(test, &file);
    std::fs::remove_dir_all(folder).expect("ours");
}

/// Of each event's samples, how many there are and how many have a chain of more than
/// 1000 frames.
fn deep_by_event(input: &str) -> BTreeMap<String, (usize, usize)> {
    let fields = [
        "script",
        "--max-stack",
        "9000",
        "-F",
        "event,ip",
        "-i",
        input,
    ];
    let script = prof(&fields).succeeded("script").text();
    let mut events: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for sample in script.split("\n\n").filter(|it| !it.trim().is_empty()) {
        let mut lines = sample.lines();
        let event = lines.next().expect("an event").trim().trim_end_matches(':');
        let (samples, deep) = events.entry(event.to_string()).or_default();
        *samples += 1;
        *deep += usize::from(lines.count() > 1000);
    }
    events
}

#[test]
fn waits_while_deep_stacks_are_read_have_theirs_too() {
    let test = "waits_while_deep_stacks_are_read_have_theirs_too";
    let Some(program) = program(test).filter(|_| may_record_all(test)) else {
        return;
    };
    let folder = folder("deep-chains-waits");
    let file = folder.join("perf.data");
    let name = file.to_str().expect("a path of ours");
    let mut command = prof_command();
    command.args(["record", "-q", "-g", "--off-cpu", "-F", "499", "-o", name]);
    command.arg("--").arg(program).args(["stay", "1"]);
    let ended = Finished::from(command.output().expect("prof starts"));
    ended.succeeded("prof record");
    let events = deep_by_event(name);
    // The reading itself makes the thread wait: nearly all such waits were cut. Those
    // that other programs make it wait come without a reading, up to one in seven
    // beside other tests.
    let (waits, deep) = events["offcpu-time"];
    assert!(waits >= 40 && deep * 2 >= waits, "{events:?}");
    std::fs::remove_dir_all(folder).expect("ours");
}

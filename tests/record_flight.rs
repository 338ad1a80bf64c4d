//! `prof record --overwrite`: of a long recording what came last, with the
//! names and stacks of the whole.

use crate::oracle::{Finished, compiled, have, perf, prof, prof_command, skipped};
use crate::patience::wait_until;
use crate::waiting::{end, folder, is_ready, send, with_pipes};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Child;

/// The dumps of a folder, oldest first.
fn dumps(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("there");
    let files = entries.map(|entry| entry.expect("an entry").path());
    let is_dump = |file: &PathBuf| {
        let name = file.file_name().expect("a name").to_string_lossy();
        name.strip_prefix("flight.")
            .is_some_and(|stamp| stamp.len() == 16)
    };
    let mut dumps: Vec<PathBuf> = files.filter(is_dump).collect();
    dumps.sort();
    dumps
}

/// A sample as perf shows it: its time in µs, and thread name and symbols.
struct Shown {
    micros: u64,
    text: String,
}

/// What perf shows of the program's samples.
fn shown(file: &Path, comms: &[&str]) -> Vec<Shown> {
    let file = file.to_str().expect("a path of ours");
    let script = perf(&[
        "script",
        "-i",
        file,
        "-F",
        "comm,time,ip,sym",
        "--no-inline",
    ]);
    let text = script.succeeded("perf script").text();
    let mut samples = Vec::new();
    for block in text.split("\n\n").flat_map(|block| {
        // Without stacks each line is a sample, with them each block.
        let lines: Vec<&str> = block.lines().collect();
        let has_stack = lines.iter().skip(1).any(|line| line.starts_with('\t'));
        match has_stack {
            true => vec![lines],
            false => lines.into_iter().map(|line| vec![line]).collect(),
        }
    }) {
        let Some((comm, rest)) = block[0].trim().split_once(' ') else {
            continue;
        };
        let (time, first) = rest.trim().split_once(':').expect("a time");
        let (seconds, micros) = time.split_once('.').expect("a fraction");
        let number = |text: &str| text.parse::<u64>().expect("a number");
        let symbol = |line: &str| {
            let words = line.split_whitespace().skip(1);
            words.collect::<Vec<_>>().join(" ")
        };
        let stack = std::iter::once(first).chain(block[1..].iter().copied());
        let stack: Vec<String> = stack.map(symbol).filter(|it| !it.is_empty()).collect();
        if comms.contains(&comm) {
            samples.push(Shown {
                micros: number(seconds) * 1_000_000 + number(micros),
                text: format!("{comm};{}", stack.join(";")),
            });
        }
    }
    samples
}

/// How often each text is among the samples from one time on.
fn counted(samples: &[Shown], from: u64, to: u64) -> BTreeMap<&str, i64> {
    let mut counts = BTreeMap::new();
    let within = samples
        .iter()
        .filter(|sample| (from..=to).contains(&sample.micros));
    for sample in within {
        *counts.entry(sample.text.as_str()).or_default() += 1;
    }
    counts
}

#[test]
fn the_last_part_is_that_of_a_whole_recording() {
    let test = "the_last_part_is_that_of_a_whole_recording";
    let Some(program) = compiled(test, "pages_of_children.c", &["-O1"]) else {
        return;
    };
    if !have(test, "perf") {
        return;
    }
    let program = program.to_str().expect("a path of ours");
    let name = Path::new(program)
        .file_name()
        .expect("a name")
        .to_string_lossy();
    let comms = [&name[..15], "exe", "program"];
    const WINDOW: u64 = 500_000;
    for mode in [&[][..], &["-g"], &["--call-graph", "fp", "-z"]] {
        let folder = folder("record-flight-whole");
        let (whole, flight) = (folder.join("whole"), folder.join("flight"));
        let (whole, flight) = (whole.as_path(), flight.as_path());
        let record = |file: &Path| {
            let mut command = prof_command();
            command.args(["record", "-e", "page-faults", "-c", "1", "-o"]);
            command.arg(file).args(mode);
            command
        };
        let mut inner = record(flight);
        inner.args(["--overwrite=500ms", program, "2000"]);
        let mut outer = record(whole);
        outer.arg(inner.get_program()).args(inner.get_args());
        let mut recorded = || {
            let ended = Finished::from(outer.output().expect("prof starts"));
            if ended.stderr.contains("EACCES") {
                return (ended, Vec::new(), Vec::new(), 0);
            }
            assert_eq!(ended.code, 0, "{}", ended.stderr);
            let (whole, part) = (shown(whole, &comms), shown(flight, &comms));
            let end = part.iter().map(|sample| sample.micros).max();
            let end = end.expect("samples");
            (ended, whole, part, end)
        };
        let mut of_program = recorded();
        for _ in 0..4 {
            let (_, whole, _, end) = &of_program;
            // On a busy machine the program may end long before its recorder sees it.
            if whole.is_empty() || counted(whole, end - WINDOW, *end).values().sum::<i64>() > 1000 {
                break;
            }
            of_program = recorded();
        }
        let (ended, whole, part, end) = of_program;
        if ended.stderr.contains("EACCES") {
            return skipped(test, &ended.stderr);
        }
        // What is kept is as long as that, up to the end of the recording: on a busy machine
        // the program, once it ends, goes on for a while without a page fault.
        let first = part.iter().map(|sample| sample.micros).min();
        let first = first.expect("samples").max(end - WINDOW);
        assert!(
            first <= end - WINDOW * 4 / 5,
            "{} us before the end",
            end - first
        );
        let (all, last) = (counted(&whole, first, end), counted(&part, 0, end));
        let (of_all, of_last) = (all.values().sum::<i64>(), last.values().sum::<i64>());
        assert!(of_all > 1000, "{}", ended.stderr);
        let texts = all
            .keys()
            .chain(last.keys())
            .collect::<std::collections::BTreeSet<_>>();
        let differ = |text: &&&str| {
            let of = |counts: &BTreeMap<&str, i64>| counts.get(**text).copied().unwrap_or(0);
            of(&all).abs_diff(of(&last))
        };
        let differing: u64 = texts.iter().map(differ).sum();
        // A plain user's two recorders share little memory for their rings.
        let lost = lost(&ended.stderr);
        assert!(
            (differing as i64 - lost) * 50 <= of_all,
            "{mode:?}: {of_last} of {of_all}, {differing} differ\n{all:#?}\n{last:#?}"
        );
        std::fs::remove_dir_all(folder).expect("ours");
    }
}

/// The lost samples that the summaries of recorders tell, all together.
fn lost(stderr: &str) -> i64 {
    let counts = stderr.split("; ").filter_map(|part| {
        let (count, rest) = part.split_once(' ')?;
        rest.starts_with("lost")
            .then(|| count.parse::<i64>().ok())?
    });
    counts.sum()
}

/// A flight recorder of a shell that waits for its input to end.
fn start(folder: &Path, args: &[&str]) -> Child {
    let mut command = prof_command();
    command
        .args(["record", "-e", "page-faults", "-c", "1", "-o"])
        .arg(folder.join("flight"))
        .args(args)
        .args(["sh", "-c", "echo ready; read line; /bin/true; exit 7"]);
    with_pipes(&mut command)
}

#[test]
fn a_signal_dumps_and_the_recording_goes_on() {
    let test = "a_signal_dumps_and_the_recording_goes_on";
    for mode in [
        &["--overwrite"][..],
        &["--overwrite=1h", "-g"],
        &["--overwrite=1K"],
    ] {
        let folder = folder("record-flight-dumps");
        let mut child = start(&folder, mode);
        if !is_ready(&mut child) {
            return skipped(test, &end(child).stderr);
        }
        for count in 1..4 {
            send(&child, "USR2");
            wait_until("another dump", || dumps(&folder).len() == count);
        }
        assert!(!folder.join("flight").exists());
        let ended = end(child);
        assert_eq!(ended.code, 7, "{}", ended.stderr);
        for file in dumps(&folder).into_iter().chain([folder.join("flight")]) {
            let file = file.to_str().expect("a path of ours").to_owned();
            let dump = prof(&["dump", "-i", &file]).succeeded("prof dump").text();
            assert!(
                dump.contains("sh"),
                "{file} does not know the shell: {dump}"
            );
        }
        let last = folder.join("flight");
        let last = prof(&["dump", "-i", last.to_str().expect("ours")]);
        assert!(last.text().contains("true"), "the end is missing");
    }
}

#[test]
fn where_no_file_can_be_nothing_is_recorded() {
    let refused = prof(&["record", "--overwrite", "-o", "/no/such/folder/x", "true"]);
    assert_eq!(refused.code, 1);
    assert!(
        refused.stderr.contains("/no/such/folder/x"),
        "{}",
        refused.stderr
    );
    let refused = prof(&["record", "--overwrite=1s", "-o", "-", "true"]);
    assert_eq!(refused.code, 1);
    assert!(
        refused.stderr.contains("it is no file"),
        "{}",
        refused.stderr
    );
}

#[test]
fn files_of_a_size_do_not_repeat_what_is_in_memory() {
    let folder = folder("record-flight-sizes");
    let run = |name: &str, more: &[&str]| {
        let file = folder.join(name);
        let file = file.to_str().expect("a path of ours");
        let first = ["record", "-e", "page-faults:u", "-c", "1", "-o", file];
        let loops = "i=0; while [ $i -lt 150 ]; do /bin/true; i=$((i+1)); done";
        prof(&[&first[..], more, &["sh", "-c", loops]].concat()).succeeded("prof record")
    };
    run("whole", &[]);
    let whole = std::fs::metadata(folder.join("whole")).expect("made").len();
    const SIZE: u64 = 64 << 10;
    run("flight", &["--overwrite=64K", "--switch-output=64K"]);
    let files = dumps(&folder).len() as u64;
    assert!(
        (1..=whole / SIZE + 2).contains(&files),
        "{files} files of {SIZE} bytes, where all is {whole}"
    );
}

/// Without a time or size samples stay in rings that the kernel overwrites: what a file
/// has are the newest, with the names of a whole recording.
/// covers live: RING-07, RING-09
#[test]
fn rings_that_the_kernel_overwrites_hold_the_newest() {
    let test = "rings_that_the_kernel_overwrites_hold_the_newest";
    let Some(program) = compiled(test, "pages_of_children.c", &["-O1"]) else {
        return;
    };
    if !have(test, "perf") || !have(test, "taskset") {
        return;
    }
    let program = program.to_str().expect("a path of ours");
    let name = Path::new(program)
        .file_name()
        .expect("a name")
        .to_string_lossy();
    let comms = [&name[..15], "exe", "program"];
    for mode in [&[][..], &["--call-graph", "fp"]] {
        let folder = folder("record-flight-rings");
        let (whole, flight) = (folder.join("whole"), folder.join("flight"));
        let record = |file: &Path| {
            let mut command = prof_command();
            command.args(["record", "-e", "page-faults:u", "-c", "1", "-o"]);
            command.arg(file).args(mode);
            command
        };
        let mut inner = record(&flight);
        // One CPU: each has its own ring, which reaches back as far as it does.
        inner.args(["--overwrite", "-m", "64K", "taskset", "-c", "0"]);
        inner.args([program, "2000"]);
        let mut outer = record(&whole);
        outer.arg(inner.get_program()).args(inner.get_args());
        let ended = Finished::from(outer.output().expect("prof starts"));
        if ended.stderr.contains("EACCES") {
            return skipped(test, &ended.stderr);
        }
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        let (whole, part) = (shown(&whole, &comms), shown(&flight, &comms));
        let times = || part.iter().map(|sample| sample.micros);
        let first = times().min().expect("samples");
        // The same fault is a sample of both recorders, in one microsecond or the next.
        let (all, last) = (
            counted(&whole, first + 2, u64::MAX),
            counted(&part, first + 2, u64::MAX),
        );
        let (of_all, of_last) = (all.values().sum::<i64>(), last.values().sum::<i64>());
        let differ = |(text, count): (&&str, &i64)| all.get(*text).unwrap_or(&0).abs_diff(*count);
        let differ: u64 = last.iter().map(differ).sum::<u64>() + of_all.abs_diff(of_last);
        assert!(of_last > 100, "{of_last}: {}", ended.stderr);
        assert!(differ <= 4, "{differ} of {of_last}:\n{all:?}\n{last:?}");
        assert!(whole.len() > part.len() + 100, "nothing was overwritten");
    }
}

/// What one file has of rings that the kernel overwrites no other has.
#[test]
fn of_overwritten_rings_files_have_what_is_new() {
    let test = "of_overwritten_rings_files_have_what_is_new";
    let folder = folder("record-flight-new");
    let mut command = prof_command();
    command
        .args([
            "record",
            "-e",
            "page-faults:u",
            "-c",
            "1",
            "--overwrite",
            "-o",
        ])
        .arg(folder.join("flight"));
    let script = "echo ready; while read line; do /bin/true; done; /bin/true";
    let mut child = with_pipes(command.args(["sh", "-c", script]));
    if !is_ready(&mut child) {
        return skipped(test, &end(child).stderr);
    }
    for count in 1..4 {
        let input = child.stdin.as_mut().expect("piped");
        std::io::Write::write_all(input, b"go\n").expect("it reads");
        // Whether the one or the next has what it does is all the same.
        send(&child, "USR2");
        wait_until("another dump", || dumps(&folder).len() == count);
    }
    let ended = end(child);
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let mut times = Vec::new();
    for file in dumps(&folder).into_iter().chain([folder.join("flight")]) {
        let file = file.to_str().expect("a path of ours");
        let fields = ["script", "--ns", "-F", "time,cpu", "-i", file];
        let script = prof(&fields).succeeded("prof script").text();
        times.extend(script.lines().map(str::to_owned));
    }
    // Four processes and the shell: hundreds of faults.
    assert!(times.len() > 200, "{}: {}", times.len(), ended.stderr);
    let once: std::collections::BTreeSet<&String> = times.iter().collect();
    assert_eq!(once.len(), times.len(), "some are in two files");
}

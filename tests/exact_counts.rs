//! Options chosen at random: whatever they are, samples and losses told are as
//! many as occurred.
//!
//! More of them, and others:
//! `PROF_SETS=500 PROF_SEED=7 cargo test --test prof random_options -- --nocapture`

use crate::mutation::Random;
use crate::oracle::{Finished, compiled, may_record_all, prof, prof_command, scratch, skipped};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Calls of the probed function.
const CALLS: u64 = 1000;
/// More than the program has mappings, names and tasks; records of these may be
/// among those that were lost.
const SIDE_BAND: u64 = 60;

const RINGS: &[&str] = &["-m 1", "-m 2", "-m 4", "-m 16", "-m 8K", "-m 1,1", ""];
const STACKS: &[&str] = &[
    "",
    "-g",
    "--call-graph fp",
    "--call-graph dwarf,8192",
    "--call-graph dwarf,8192 --no-deep-stacks",
    "--call-graph dwarf,2048",
];
const FILES: &[&str] = &[
    "",
    "--switch-output=100ms",
    "--switch-output=8K",
    "--switch-output=100K",
    "--max-size=100M",
    "--timestamp-filename",
    "--overwrite=100M",
];
const WHOSE: &[&str] = &[
    "",
    "-a",
    "-C 0",
    "--per-thread",
    "-p",
    "-t",
    "--follow cpus",
    "-i",
];
const OTHERS: &[&str] = &[
    "",
    "-z",
    "-d",
    "-W",
    "-s",
    "-B",
    "-N",
    "-T",
    "--sample-identifier",
    "--switch-events",
    "--namespaces",
    "--all-cgroups",
    "-k mono",
    "--affinity cpu",
    "--tail-synthesize",
    "--intr-regs=ax",
];
/// `U` is the probe.
const EVENTS: &[&str] = &[
    "U",
    "{U,dummy}",
    "U,dummy",
    "dummy,U",
    "U,cpu-clock/period=1000000/",
    "{U,cs}",
];

fn chosen<'a>(of: &[&'a str], random: &mut Random) -> &'a str {
    of[random.below(of.len())]
}

/// The recorder with these options while the program runs, and how it ended.
fn recorded(options: &[&str], whose: &str, program: &Path) -> Finished {
    let mut record = prof_command();
    record.args(["record", "-c", "1"]).args(options);
    if !matches!(whose, "-p" | "-t") {
        record.args(whose.split_whitespace()).arg("--");
        if whose == "-C 0" {
            record.args(["taskset", "-c", "0"]);
        }
        return record.arg(program).output().expect("prof starts").into();
    }
    let mut waiting = Command::new("sh")
        .args(["-c", "read go; exec \"$0\""])
        .arg(program)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("sh starts");
    let mut run = record
        .args([whose, &waiting.id().to_string()])
        .stderr(Stdio::piped())
        .spawn()
        .expect("prof starts");
    let mut told = BufReader::new(run.stderr.take().expect("piped"));
    let mut text = String::new();
    while !text.contains("until they end") && told.read_line(&mut text).expect("read") > 0 {}
    let mut go = waiting.stdin.take().expect("piped");
    go.write_all(b"go\n").expect("it waits");
    assert!(waiting.wait().expect("it ends").success());
    told.read_to_string(&mut text).expect("read");
    let code = run.wait().expect("it ends").code().unwrap_or(-1);
    Finished {
        stdout: Vec::new(),
        stderr: text,
        code,
    }
}

/// All files of a recording: others have the time behind its name.
fn files_of(file: &Path) -> Vec<PathBuf> {
    let name = file.file_name().expect("a file").to_string_lossy();
    let entries = std::fs::read_dir(scratch()).expect("a folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let is_part = |path: &PathBuf| {
        let other = path.file_name().expect("a file").to_string_lossy();
        other.starts_with(&*name)
    };
    paths.filter(is_part).collect()
}

/// Samples of the probe, and what was lost of all events.
fn counted(file: &Path) -> (u64, u64) {
    let path = file.to_str().expect("UTF-8");
    let stats = prof(&["dump", "--stats", "--json", "-i", path]).succeeded("dump");
    let json: serde_json::Value = serde_json::from_slice(&stats.stdout).expect("JSON");
    let number = |value: &serde_json::Value| value.as_u64().expect("a number");
    let is_probe = |event: &&serde_json::Value| {
        let name = event["name"].as_str().expect("a name");
        name.contains("uprobe")
    };
    let events = json["events"].as_array().expect("events").iter();
    let samples = events
        .filter(is_probe)
        .map(|event| number(&event["samples"]));
    let lost = number(&json["lost"]) + number(&json["lost_records_at_most"]);
    (samples.sum(), lost)
}

/// One set of options; what it lost.
fn one_set(program: &Path, random: &mut Random) -> u64 {
    let file = scratch().join("exact-counts.data");
    for earlier in files_of(&file) {
        std::fs::remove_file(earlier).expect("ours");
    }
    let event = chosen(EVENTS, random);
    let events = event.replace('U', &format!("uprobe:{}:work", program.display()));
    let lists = [RINGS, STACKS, FILES, OTHERS, OTHERS];
    let options = lists.map(|list| chosen(list, random)).join(" ");
    let whose = chosen(WHOSE, random);
    let path = file.to_str().expect("UTF-8");
    let mut words = vec!["-o", path, "-e", &events];
    words.extend(options.split_whitespace());
    let run = recorded(&words, whose, program);
    let what = format!("{event} {options} {whose}: {}", run.stderr);
    assert_eq!(run.code, 0, "{what}");
    let (mut samples, mut lost) = (0, 0);
    for part in files_of(&file) {
        let of_part = counted(&part);
        samples += of_part.0;
        lost += of_part.1;
    }
    assert!(samples <= CALLS, "{samples} samples, {what}");
    // Of what whole CPUs lost the share of the program is not known.
    if run.stderr.contains("; about ") {
        assert!(lost > 0, "{what}");
        return lost;
    }
    assert!(samples + lost >= CALLS, "{samples} and {lost} lost, {what}");
    // Samples of events beside it may be lost, and records of other programs.
    let is_alone = matches!(event, "U" | "{U,dummy}" | "U,dummy" | "dummy,U");
    let is_alone = is_alone && !matches!(whose, "-a" | "-C 0");
    let most = CALLS + SIDE_BAND * u64::from(lost > 0);
    assert!(
        !is_alone || samples + lost <= most,
        "{samples} and {lost} lost, {what}"
    );
    lost
}

#[test]
fn random_options_lose_nothing_untold() {
    let test = "random_options_lose_nothing_untold";
    if !Path::new("/sys/bus/event_source/devices/uprobe").exists() {
        return skipped(test, "this kernel has no uprobes");
    }
    if !may_record_all(test) {
        return;
    }
    // With a function of its own that nobody else probes.
    let Some(program) = compiled(test, "probed.c", &["-O1", "-DEXACT"]) else {
        return;
    };
    let number = |name| std::env::var(name).ok().and_then(|it| it.parse().ok());
    let sets: u64 = number("PROF_SETS").unwrap_or(24);
    let mut random = Random(number("PROF_SEED").unwrap_or(0x5eed));
    let lost = (0..sets)
        .filter(|_| one_set(&program, &mut random) > 0)
        .count();
    eprintln!("{sets} sets of options, {lost} with losses");
}

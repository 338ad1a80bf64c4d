//! What was lost: counted once, samples apart from other records, and as perf
//! counts it. And at what price nothing is.

use crate::oracle::{
    Finished, copy_program, have, may_record_all, perf_at, perfs, prof, prof_command, scratch,
    skipped,
};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures/losses")
        .join(name)
}

fn json(command: &[&str], file: &Path) -> Value {
    let file = file.to_str().expect("UTF-8");
    let run = prof(&[command, &["-i", file]].concat()).succeeded("prof");
    serde_json::from_slice(&run.stdout).expect("JSON")
}

/// (samples, records at most, side-band records) lost, as `dump` has it; the
/// report says the same.
fn lost(file: &Path) -> (u64, u64, u64) {
    let number = |value: &Value| value.as_u64().expect("a number");
    let all = |told: &Value| {
        let [samples, records, side_band] =
            ["lost", "lost_records_at_most", "lost_side_band"].map(|key| number(&told[key]));
        (samples, records, side_band)
    };
    let dumped = all(&json(&["dump", "--stats", "--json"], file));
    let reported = json(&["report", "--json"], file);
    assert_eq!(all(&reported["trust"]), dumped);
    dumped
}

/// "Total Lost Samples" of perf's report.
fn perfs_total(perf: &Path, file: &Path) -> u64 {
    let file = file.to_str().expect("UTF-8");
    let report = perf_at(perf, &["report", "--stdio", "-f", "-i", file]);
    let text = report.text();
    let line = text
        .lines()
        .find(|line| line.contains("Total Lost Samples"));
    let number = line.and_then(|line| line.split_whitespace().last());
    let number = number.and_then(|number| number.parse().ok());
    number.unwrap_or_else(|| panic!("{text}{}", report.stderr))
}

#[test]
fn what_two_kinds_of_records_tell_is_counted_once() {
    let test = "what_two_kinds_of_records_tell_is_counted_once";
    // What perf before 6.1 wrote tells it of records only.
    let cases = [
        ("both-kinds", (303, 0, 0), [303, 303]),
        ("ring-only", (0, 303, 0), [0, 0]),
        ("hardware", (307, 0, 0), [307, 307]),
        // perf 6.1 does not know the bit.
        ("filtered", (303, 0, 0), [803, 303]),
    ];
    let perfs = if have(test, "perf") {
        perfs(test)
    } else {
        Vec::new()
    };
    for (name, expected, of_perf) in cases {
        let file = fixture(&format!("{name}.data"));
        assert_eq!(lost(&file), expected, "{name}");
        for (perf, expected) in perfs.iter().zip(of_perf) {
            assert_eq!(perfs_total(perf, &file), expected, "{name}");
        }
    }
}

#[test]
fn a_bound_is_not_shown_as_a_count() {
    let file = fixture("ring-only.data");
    let file = file.to_str().expect("UTF-8");
    let text = prof(&["report", "--stdio", "-i", file])
        .succeeded("report")
        .text();
    assert!(text.contains("up to 303 records lost"), "{text}");
    assert!(text.contains("up to 303 records were lost"), "{text}");
    assert!(!text.contains("303 (20."), "{text}");
}

/// Stops the recorder while `work` runs, so that what fits into a page is all
/// that it gets.
fn record_stopped(name: &str, options: &[&str], work: &str) -> (PathBuf, Finished) {
    let file = scratch().join(format!("losses-{name}.data"));
    let script = format!("kill -STOP $PPID; {work}; kill -CONT $PPID");
    let path = file.to_str().expect("UTF-8");
    let fixed = ["record", "-e", "cpu-clock", "-m", "1", "-o", path];
    let command = ["--", "sh", "-c", &script];
    let run = prof(&[&fixed[..], options, &command].concat());
    (file, run.succeeded("prof record"))
}

/// The number before " lost" in what the recorder says at its end.
fn told(stderr: &str) -> u64 {
    let words: Vec<&str> = stderr.split_whitespace().collect();
    let at = words.iter().position(|word| word.starts_with("lost"));
    let number = at.and_then(|at| words.get(at.checked_sub(1)?)?.parse().ok());
    number.unwrap_or_else(|| panic!("no number of lost samples in {stderr}"))
}

#[test]
fn perf_finds_the_lost_samples_of_our_recordings() {
    let test = "perf_finds_the_lost_samples_of_our_recordings";
    if !have(test, "perf") {
        return;
    }
    let work = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
    let (file, run) = record_stopped("command", &["-F", "9999"], work);
    let samples = told(&run.stderr);
    assert!(samples > 0, "{}", run.stderr);
    let (of_file, records, side_band) = lost(&file);
    // The shell may find no room for a mapping.
    assert!(records == 0 && side_band <= 1, "{records}, {side_band}");
    assert_eq!(of_file, samples, "{}", run.stderr);
    for perf in perfs(test) {
        assert_eq!(perfs_total(&perf, &file), of_file, "{perf:?}");
    }
}

/// The kernel tells of losses before the next record of a ring. Behind these
/// there is none: nothing runs on that CPU any more.
#[test]
fn a_flight_recorder_tells_what_was_lost_last() {
    let test = "a_flight_recorder_tells_what_was_lost_last";
    let busy = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done";
    let script = format!("kill -STOP $PPID; taskset -c 0 sh -c '{busy}'; kill -CONT $PPID");
    let file = scratch().join("losses-flight.data");
    let run = Command::new("taskset")
        .args(["-c", "1"])
        .arg(prof_command().get_program())
        .args(["record", "-F", "9999", "-e", "cpu-clock", "-m", "1"])
        .args(["--overwrite=100M", "-o"])
        .arg(&file)
        .args(["--", "sh", "-c", &script])
        .output();
    let run: Finished = run.expect("taskset starts").into();
    if run.stderr.contains("set pid") {
        return skipped(test, "there is one CPU");
    }
    let samples = told(&run.stderr);
    assert!(samples > 0, "{}", run.stderr);
    let (exact, at_most, _) = lost(&file);
    let of_tasks = run
        .stderr
        .lines()
        .find(|line| line.contains(" of mappings, names and tasks"));
    // A plain user is told that they may be among the lost, without a number.
    let number = of_tasks.and_then(|line| line.split_whitespace().nth(1));
    let of_tasks: u64 = number.and_then(|it| it.parse().ok()).unwrap_or(0);
    assert_eq!((exact, at_most), (0, samples + of_tasks), "{}", run.stderr);
}

#[test]
fn lost_names_and_mappings_are_told_apart_from_samples() {
    let test = "lost_names_and_mappings_are_told_apart_from_samples";
    if !have(test, "perf") || !may_record_all(test) {
        return;
    }
    let work = "i=0; while [ $i -lt 100 ]; do i=$((i+1)); /bin/true; done";
    for stacks in [&[][..], &["-g"]] {
        let options = [&["-a", "-F", "999"], stacks].concat();
        let (file, run) = record_stopped("system", &options, work);
        let samples = told(&run.stderr);
        let (lost_samples, records, side_band) = lost(&file);
        assert_eq!((lost_samples, records), (samples, 0), "{}", run.stderr);
        assert!(side_band > 100, "{side_band}");
        let line = format!("{side_band} records of mappings, names and tasks were lost");
        assert!(run.stderr.contains(&line), "{}", run.stderr);
        for perf in perfs(test) {
            assert_eq!(perfs_total(&perf, &file), samples, "{perf:?}");
        }
    }
}

/// The scheduling policies of the command and of the recorder's threads.
const POLICIES: &str = "chrt -p $$; for t in /proc/$PPID/task/*; do chrt -p ${t##*/}; done";

/// (of the command, of the recorder's threads).
fn policies(options: &[&str]) -> (String, Vec<String>) {
    let file = scratch().join("losses-policy.data");
    let path = file.to_str().expect("UTF-8");
    let fixed = ["record", "-g", "-q", "-o", path];
    let command = ["--", "sh", "-c", POLICIES];
    let run = prof(&[&fixed[..], options, &command].concat()).succeeded("prof record");
    let text = run.text();
    let lines = text.lines().filter(|line| line.contains("policy"));
    let mut policies = lines.filter_map(|line| Some(line.split(": ").nth(1)?.to_owned()));
    let command = policies.next().expect("the command's");
    (command, policies.collect())
}

#[test]
fn the_recorder_takes_cpus_from_nobody_unless_told_to() {
    let test = "the_recorder_takes_cpus_from_nobody_unless_told_to";
    if !have(test, "chrt") || !may_record_all(test) {
        return;
    }
    let (command, threads) = policies(&[]);
    assert_eq!(command, "SCHED_OTHER");
    assert!(threads.len() >= 3, "{threads:?}");
    assert!(
        threads.iter().all(|policy| policy == "SCHED_OTHER"),
        "{threads:?}"
    );
    let (command, threads) = policies(&["-r", "5"]);
    assert_eq!(command, "SCHED_OTHER");
    assert!(
        threads.iter().all(|policy| policy == "SCHED_FIFO"),
        "{threads:?}"
    );
}

/// A thread that was moved, "0" where it was by itself, and the CPUs that it was moved to,
/// by lines of strace such as `12 sched_setaffinity(0, 128, [0 1]) = 0`.
fn moves(test: &str, affinity: &str) -> Option<Vec<(String, String)>> {
    let trace = scratch().join("losses-affinity.trace");
    let output = Command::new("strace")
        .args(["-f", "-qq", "-e", "trace=sched_setaffinity", "-o"])
        .arg(&trace)
        .arg(prof_command().get_program())
        .args(["record", "-a", "-q", "-F", "199", affinity, "-o"])
        .arg(scratch().join("losses-affinity.data"))
        .args(["sleep", "0.3"])
        .output();
    let finished: Finished = output.expect("strace starts").into();
    if finished.stderr.contains("ptrace") {
        skipped(test, &finished.stderr);
        return None;
    }
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    let traced = std::fs::read_to_string(&trace).expect("strace writes it");
    let moved = |line: &str| {
        let (thread, rest) = line.split_once('(')?.1.split_once(',')?;
        let (cpus, _) = rest.split_once('[')?.1.split_once(']')?;
        Some((thread.to_owned(), cpus.to_owned()))
    };
    Some(traced.lines().filter_map(moved).collect())
}

#[test]
fn rings_are_emptied_where_affinity_says() {
    let test = "rings_are_emptied_where_affinity_says";
    if !have(test, "strace") || !may_record_all(test) {
        return;
    }
    let Some(anywhere) = moves(test, "--affinity=sys") else {
        return;
    };
    // The thread that empties rings runs anywhere, and lets the one that writes run
    // where it does itself, if there is a choice.
    let writers: BTreeSet<_> = anywhere.iter().map(|(thread, _)| thread).collect();
    let may_choose = std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1);
    assert_eq!(writers.len(), usize::from(may_choose), "{anywhere:?}");
    assert!(!writers.contains(&"0".to_owned()), "{anywhere:?}");
    let is_one = |cpus: &str| cpus.parse::<u32>().is_ok();
    let first = anywhere.first();
    assert!(first.is_none_or(|(_, cpus)| is_one(cpus)), "{anywhere:?}");
    let by_itself = |(thread, cpus): (String, String)| {
        assert_eq!(thread, "0", "{cpus}");
        cpus
    };
    let by_cpu = moves(test, "--affinity=cpu").expect("as before");
    let by_cpu: Vec<_> = by_cpu.into_iter().map(by_itself).collect();
    assert!(!by_cpu.is_empty());
    assert!(by_cpu.iter().all(|cpus| is_one(cpus)), "{by_cpu:?}");
    // Between nodes there is something to move, on one only at the start.
    let by_node = moves(test, "--affinity=node").expect("as before");
    let by_node: Vec<_> = by_node.into_iter().map(by_itself).collect();
    assert!(!by_node.is_empty());
    let nodes: BTreeSet<_> = by_node.iter().collect();
    assert!(nodes.len() > 1 || by_node.len() == 1, "{by_node:?}");
}

#[test]
fn a_priority_that_may_not_be_had_is_an_error() {
    let test = "a_priority_that_may_not_be_had_is_an_error";
    if !have(test, "setpriv") || !may_record_all(test) {
        return;
    }
    let copy = std::env::temp_dir().join(format!("prof-priority-{}", std::process::id()));
    copy_program(Path::new(prof_command().get_program()), &copy);
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    command
        .arg(&copy)
        .args(["record", "-r", "5", "-o", "-", "true"]);
    let run: Finished = command.output().expect("setpriv starts").into();
    std::fs::remove_file(&copy).expect("it is there");
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(
        run.stderr.contains("real-time priority 5"),
        "{}",
        run.stderr
    );
    assert!(run.stderr.contains("without -r"), "{}", run.stderr);
}

//! `prof report --critical-path`, `--what-if` and `--wakers` on programs whose
//! paths are known (`fixtures/programs/pipelines.c`).

use crate::oracle::{Finished, compiled, may_record_all, prof, prof_command, scratch};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

/// Records one shape; tells of the file and how long the program took, ns.
fn recorded(name: &str, shape: &str) -> Option<(PathBuf, u64)> {
    if !may_record_all(name) {
        return None;
    }
    let flags = ["-O2", "-g", "-pthread", "-fno-optimize-sibling-calls"];
    let program = compiled(name, "pipelines.c", &flags)?;
    let file = scratch().join(format!("wait-paths-{shape}.data"));
    let output = prof_command()
        .args(["record", "-q", "--off-cpu", "--wakers", "-o"])
        .arg(&file)
        .arg(program)
        .arg(shape)
        .output()
        .expect("prof starts");
    assert!(output.status.success(), "{output:?}");
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let elapsed = told.trim().strip_prefix("elapsed ").expect("elapsed");
    Some((file, elapsed.parse().expect("a number")))
}

fn report(file: &Path, options: &[&str]) -> Finished {
    let mut arguments = vec!["report", "-f", "-i", file.to_str().expect("UTF-8")];
    arguments.extend(options);
    prof(&arguments)
}

fn json(file: &Path, options: &[&str]) -> Value {
    let shown = report(file, &[options, &["--json"]].concat()).succeeded("prof report");
    serde_json::from_str(&shown.text()).expect("JSON")
}

/// Where the path ran: thread and own function, in the order in which it came
/// there, of parts that are not small.
fn ran(path: &Value) -> Vec<(String, String)> {
    let parts = path["parts"].as_array().expect("parts").iter();
    let mut seen = Vec::new();
    for part in parts.filter(|part| part["doing"] == "running") {
        let own = ["heavy", "light", "last"];
        let names = part["functions"].as_array().expect("functions").iter();
        let mut names = names.filter_map(Value::as_str);
        let Some(name) = names.find(|name| own.contains(name)) else {
            continue;
        };
        let comm = part["comm"].as_str().expect("a name");
        let comm = if comm.starts_with("pipelines") {
            "main"
        } else {
            comm
        };
        let place = (comm.to_owned(), name.to_owned());
        if part["ns"].as_u64() > Some(400_000) && !seen.contains(&place) {
            seen.push(place);
        }
    }
    seen
}

/// Checks the path of a shape, and where it ran.
/// False where it cannot be recorded.
fn check(name: &str, shape: &str, expected: &[(&str, &str)]) -> bool {
    let Some(path) = checked(name, shape) else {
        return false;
    };
    assert_eq!(ran(&path), owned(expected), "{path:#}");
    true
}

fn owned(places: &[(&str, &str)]) -> Vec<(String, String)> {
    let places = places.iter();
    let places = places.map(|&(comm, function)| (comm.to_owned(), function.to_owned()));
    places.collect()
}

/// The path of a shape, whose sums were checked.
fn checked(name: &str, shape: &str) -> Option<Value> {
    let (file, elapsed) = recorded(name, shape)?;
    let path = json(&file, &["--what-if", "heavy=-20%"]);
    let number = |value: &Value| value.as_u64().expect("a number");
    let (told, whole) = (number(&path["on_path_ns"]), number(&path["elapsed_ns"]));
    assert!(told * 100 >= whole * 98, "{told} of {whole}");
    assert!(whole * 100 >= elapsed * 98, "{whole} of {elapsed}");
    let what_if = &path["what_if"];
    let (low, high) = (number(&what_if["low_ns"]), number(&what_if["high_ns"]));
    assert!((high - low) * 10 <= whole, "{what_if}");
    // It is no longer, and cannot win more than a fifth: where others took the
    // CPU, more than a fifth of what the function ran.
    let estimate = number(&what_if["estimate_ns"]);
    assert!(estimate <= whole + whole / 100, "{what_if}");
    assert!(estimate + whole / 5 + whole / 50 >= whole, "{what_if}");
    let text = report(&file, &["--critical-path"])
        .succeeded("prof report")
        .text();
    assert!(
        text.lines().all(|line| line.chars().count() <= 240),
        "{text}"
    );
    Some(path)
}

#[test]
fn the_slower_of_two_stages_is_the_critical_path() {
    let expected = [
        ("producer", "light"),
        ("consumer", "heavy"),
        ("main", "last"),
    ];
    check("wait-paths-stages", "stages", &expected);
}

#[test]
fn wakes_without_a_reason_are_no_part_of_the_critical_path() {
    let expected = [("nagger", "heavy"), ("main", "last")];
    check("wait-paths-spurious", "spurious", &expected);
}

/// A fifth of what sets the elapsed time less is won.
fn wins(path: &Value) {
    let number = |value: &Value| value.as_f64().expect("a number");
    let (whole, what_if) = (number(&path["elapsed_ns"]), &path["what_if"]);
    let won = (whole - number(&what_if["estimate_ns"])) / whole;
    assert!(won > 0.1, "{won}: {path:#}");
}

#[test]
fn who_looks_every_so_often_does_not_set_the_elapsed_time() {
    let shapes = [
        ("ticker", [("main", "heavy"), ("main", "last")]),
        ("looks", [("works", "heavy"), ("main", "last")]),
    ];
    for (shape, expected) in shapes {
        let Some(path) = checked(&format!("wait-paths-{shape}"), shape) else {
            return;
        };
        assert_eq!(ran(&path), owned(&expected), "{shape}: {path:#}");
        wins(&path);
    }
    if let Some(path) = checked("wait-paths-tries", "tries") {
        wins(&path);
    }
}

#[test]
fn who_sends_through_the_loopback_device_wakes_who_receives() {
    let Some(path) = checked("wait-paths-socket", "socket") else {
        return;
    };
    // The first two take turns: neither comes first.
    let mut ran = ran(&path);
    ran.sort();
    let expected = [("answers", "heavy"), ("main", "last"), ("main", "light")];
    assert_eq!(ran, owned(&expected), "{path:#}");
    let file = scratch().join("wait-paths-socket.data");
    let chains = json(&file, &["--wakers"]);
    let is_of_device = |chain: &&Value| chain["links"][0]["ended_by"] == "interrupt";
    let chains = chains["chains"].as_array().expect("chains");
    let ns = |chain: &Value| chain["wait_ns"].as_u64().expect("a number");
    let of_devices: u64 = chains.iter().filter(is_of_device).map(ns).sum();
    let all: u64 = chains.iter().map(ns).sum();
    assert!(of_devices * 20 < all, "{of_devices} of {all}: {chains:#?}");
}

#[test]
fn a_chain_of_threads_is_the_critical_path_with_its_sleep() {
    let expected = [("light", "light"), ("heavy", "heavy"), ("main", "last")];
    if !check("wait-paths-chain", "chain", &expected) {
        return;
    }
    let file = scratch().join("wait-paths-chain.data");
    let path = json(&file, &["--critical-path"]);
    let parts = path["parts"].as_array().expect("parts");
    let sleep = parts.iter().find(|part| part["doing"] == "blocked: sleep");
    let slept = sleep.and_then(|part| part["ns"].as_u64());
    assert!(slept >= Some(39_000_000), "{path:#}");
    let text = report(&file, &["--wakers"]).succeeded("prof report").text();
    assert!(text.contains("ended by the end of heavy"), "{text}");
    let chains = json(&file, &["--wakers"]);
    assert_eq!(chains["schema"], "prof-wakers-1");
    let refused = report(&file, &["--what-if", "nothing=-20%"]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
}

#[test]
fn a_path_without_wakes_is_refused_with_what_helps() {
    const NAME: &str = "wait-paths-refused";
    let Some(program) = compiled(NAME, "pipelines.c", &["-O2", "-g", "-pthread"]) else {
        return;
    };
    let file = scratch().join("wait-paths-refused.data");
    let output = prof_command()
        .args(["record", "-q", "--off-cpu=only", "-o"])
        .arg(&file)
        .arg(program)
        .arg("fork")
        .output()
        .expect("prof starts");
    assert!(output.status.success(), "{output:?}");
    for view in [
        &["--wakers"][..],
        &["--critical-path"],
        &["--what-if", "heavy=-20%"],
    ] {
        let refused = report(&file, view);
        assert_eq!(refused.code, 2, "{}", refused.stderr);
        assert!(
            refused.stderr.contains("--off-cpu --wakers"),
            "{}",
            refused.stderr
        );
        assert!(refused.stderr.contains("root"), "{}", refused.stderr);
    }
    // By clock, samples are those of the clock.
    let script = |clock: &str| {
        let file = file.to_str().expect("UTF-8");
        prof(&["script", "--clock", clock, "-F", "event", "-i", file])
    };
    let waits = script("off").succeeded("prof script").text();
    assert!(
        waits.lines().all(|line| line.contains("offcpu-time")),
        "{waits}"
    );
    assert!(!waits.is_empty());
    assert_eq!(script("cpu").code, 2);
}

/// Records one shape; tells of the file and of the recorder's threads.
fn recorded_by(name: &str, shape: &str) -> Option<(PathBuf, BTreeSet<String>)> {
    let flags = ["-O2", "-g", "-pthread", "-fno-optimize-sibling-calls"];
    let program = compiled(name, "pipelines.c", &flags)?;
    let file = scratch().join(format!("{name}.data"));
    let mut recorder = prof_command()
        .args(["record", "-q", "--wakers", "-o"])
        .arg(&file)
        .args([program.as_os_str(), shape.as_ref()])
        .stdout(Stdio::null())
        .spawn()
        .expect("prof starts");
    let tasks = PathBuf::from(format!("/proc/{}/task", recorder.id()));
    let mut threads = BTreeSet::from([recorder.id().to_string()]);
    let ended = loop {
        let names = tasks.read_dir().into_iter().flatten().flatten();
        threads.extend(names.map(|task| task.file_name().to_string_lossy().into_owned()));
        if let Some(ended) = recorder.try_wait().expect("prof ends") {
            break ended;
        }
        sleep(Duration::from_millis(5));
    };
    assert!(ended.success());
    Some((file, threads))
}

#[test]
fn threads_of_the_recorder_are_not_among_the_woken() {
    const NAME: &str = "wait-paths-own";
    if !may_record_all(NAME) {
        return;
    }
    // The recorder waits for the program's end, at which that wakes it.
    let Some((file, own)) = recorded_by(NAME, "fork") else {
        return;
    };
    assert!(own.len() > 1, "{own:?}");
    let file = file.to_str().expect("UTF-8");
    let shown = prof(&["script", "-f", "-F", "event,trace", "-i", file]);
    let text = shown.succeeded("prof script").text();
    let woken = |line: &str| {
        let pid = line.split(" pid=").nth(1)?;
        Some(pid.split(' ').next()?.to_owned())
    };
    let woken: BTreeSet<String> = text.lines().filter_map(woken).collect();
    assert!(woken.len() > 1, "{text}");
    assert!(woken.is_disjoint(&own), "{woken:?} {own:?}");
}

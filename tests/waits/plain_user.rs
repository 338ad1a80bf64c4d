//! Waits of programs of a user without rights.

use super::truth::{SHOWN, Shown, Truth, shown_of};
use crate::oracle::{compiled, excerpt, have, may_record_all, prof_command, taken_by_host};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Records a program of `waits.c` as a user without rights, into a folder that
/// lives as long as what comes back.
fn recorded_by_nobody(
    name: &str,
    flags: &[&str],
    arguments: &[&str],
) -> Option<(tempfile::TempDir, PathBuf, Truth)> {
    let usual = ["-O2", "-g", "-pthread", "-fno-optimize-sibling-calls"];
    let program = compiled(name, "waits.c", &[&usual, flags].concat())?;
    let folder = tempfile::tempdir().expect("a folder");
    let everyone = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(folder.path(), everyone).expect("it is ours");
    let prof = Path::new(env!("CARGO_BIN_EXE_prof"));
    for (from, to) in [(prof, "prof"), (&program, "waits")] {
        crate::oracle::copy_program(from, &folder.path().join(to));
    }
    let file = folder.path().join("plain.data");
    let before = taken_by_host();
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(folder.path().join("prof"))
        .args(["record", "--off-cpu=only", "-o"])
        .arg(&file)
        .arg(folder.path().join("waits"))
        .args(arguments)
        .output()
        .expect("setpriv starts");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    let mut truth = Truth::parse(&String::from_utf8_lossy(&output.stdout));
    truth.taken = taken_by_host() - before;
    Some((folder, file, truth))
}

/// Of 100 waits over 5 ms of a plain user's program so many have a stack.
const LEAST_READ: usize = 95;

/// Waits over 5 ms, and those of them with a stack; without those for a thread's
/// first CPU, where it has none yet.
fn long_and_read(waits: &[Shown]) -> (Vec<&Shown>, Vec<&Shown>) {
    let mut seen = BTreeSet::new();
    let is_later = |wait: &&Shown| !seen.insert(wait.tid);
    let long = waits.iter().filter(is_later);
    let long: Vec<&Shown> = long.filter(|wait| wait.ns > 5_000_000).collect();
    let read = long.iter().filter(|wait| wait.stack.len() > 1);
    (long.clone(), read.copied().collect())
}

/// The first thread whose waits and CPU time are not its life within 1 %. What a
/// host took from its CPU meanwhile is neither.
fn unlike_lives(truth: &Truth, waits: &[Shown]) -> Option<String> {
    let is_unlike = |(tid, (elapsed, ran)): (&i32, &(u64, u64))| {
        let of_thread = waits.iter().filter(|wait| wait.tid == *tid);
        let seen: u64 = of_thread.map(|wait| wait.ns).sum();
        // With the wait for its first CPU, which it cannot measure itself.
        let (least, most) = (elapsed - elapsed / 100, elapsed + elapsed / 100);
        let is_life =
            ran + seen + truth.taken + 1_000_000 >= least && ran + seen <= most + 60_000_000;
        (!is_life).then(|| format!("{tid}: {elapsed} {ran} {seen}"))
    };
    truth.lives.iter().find_map(is_unlike)
}

#[test]
fn a_plain_user_gets_the_times_of_waits_and_stacks_of_long_ones() {
    const NAME: &str = "waits-plain";
    if !may_record_all(NAME) || !have(NAME, "setpriv") {
        return;
    }
    let Some((_folder, file, truth)) = recorded_by_nobody(NAME, &[], &["all"]) else {
        return;
    };
    let waits = shown_of(&file);
    let mut unlike = vec![unlike_lives(&truth, &waits)];
    while unlike.iter().all(Option::is_some) {
        // A host may take more than a per cent of a short life; each time it may not.
        assert!(unlike.len() < 3, "{unlike:?}");
        let (_, file, truth) = recorded_by_nobody(NAME, &[], &["all"]).expect("as before");
        unlike.push(unlike_lives(&truth, &shown_of(&file)));
    }
    let (long, read) = long_and_read(&waits);
    let mut told = vec![(read.len(), long.len())];
    // On a busy machine some were woken too soon and wait for a CPU.
    while told
        .iter()
        .all(|(read, long)| read * 100 < long * LEAST_READ)
    {
        assert!(told.len() < 3, "{told:?}");
        let again = recorded_by_nobody(NAME, &[], &["all"]).expect("as before");
        let waits = shown_of(&again.1);
        let (long, read) = long_and_read(&waits);
        told.push((read.len(), long.len()));
    }
    let rooted = read.iter().filter(|wait| wait.is_rooted()).count();
    assert!(
        rooted * 100 >= read.len() * 99,
        "{rooted} of {}",
        read.len()
    );
    // What was read is of the place where the thread waited.
    for ((name, tid), told) in &truth.sites {
        let is_there = |wait: &&Shown| wait.tid == *tid && wait.stack.contains(name);
        let seen: u64 = waits.iter().filter(is_there).map(|wait| wait.ns).sum();
        assert!(
            seen <= told + told / 100 + 400_000,
            "{name} told {told}, seen {seen}"
        );
    }
    let kinds = prof_command()
        .args([
            "report",
            "-f",
            "--stdio",
            "--no-children",
            "-g",
            "none",
            "-s",
            "wait",
            "-i",
        ])
        .arg(&file)
        .output()
        .expect("prof starts");
    let kinds = String::from_utf8_lossy(&kinds.stdout).into_owned();
    for kind in ["sleep", "poll", "pipe", "socket", "futex", "child"] {
        assert!(
            kinds.contains(&format!("blocked: {kind}")),
            "{kind}: {kinds}"
        );
    }
}

/// What is said of waits without a stack in the recording of a user without rights.
fn told_of_nobody(name: &str, arguments: &[&str]) -> Option<String> {
    let (_folder, file, _) = recorded_by_nobody(name, &[], arguments)?;
    let report = ["report", "-f", "--stdio", "-i"];
    let output = prof_command().args(report).arg(&file).output();
    let text = String::from_utf8_lossy(&output.expect("prof starts").stdout).into_owned();
    let mut lines = text.lines();
    let line = lines.find(|line| line.contains("a wait has no stack"));
    Some(line.unwrap_or(&text).to_owned())
}

#[test]
fn a_plain_user_is_told_why_preempted_threads_and_short_waits_have_no_stack() {
    const NAME: &str = "waits-plain-told";
    if !may_record_all(NAME) || !have(NAME, "setpriv") {
        return;
    }
    let threads = std::thread::available_parallelism().map_or(4, |cpus| 3 * cpus.get());
    let Some(line) = told_of_nobody(NAME, &["pool", &threads.to_string(), "40"]) else {
        return;
    };
    assert!(
        line.contains("% of threads that were preempted: ") && line.contains("--off-cpu=only"),
        "{line}"
    );
    let line = told_of_nobody(NAME, &["short", "2000", "20"]).expect("as before");
    assert!(line.contains("% of waits below 5 ms: "), "{line}");
}

#[test]
fn a_plain_user_gets_whole_stacks_of_programs_with_frame_pointers() {
    const NAME: &str = "waits-plain-fp";
    if !may_record_all(NAME) || !have(NAME, "setpriv") {
        return;
    }
    // Where unwind information goes by the frame pointer, which is not told of a
    // thread that sleeps.
    let flags = ["-fno-omit-frame-pointer"];
    let Some((_folder, file, _)) = recorded_by_nobody(NAME, &flags, &["all"]) else {
        return;
    };
    let waits = shown_of(&file);
    let read: Vec<&Shown> = waits.iter().filter(|wait| wait.stack.len() > 1).collect();
    let rooted = read.iter().filter(|wait| wait.is_rooted()).count();
    assert!(read.len() > 20, "{} of {}", read.len(), waits.len());
    let cut: Vec<_> = read
        .iter()
        .filter(|wait| !wait.is_rooted())
        .take(SHOWN)
        .collect();
    assert!(
        rooted * 100 >= read.len() * 95,
        "{rooted} of {}: {}",
        read.len(),
        excerpt(&cut)
    );
    // Callers are the program's, none is passed over.
    let whole = |wait: &&&Shown| {
        let at = |name: &str| wait.stack.iter().position(|it| it == name);
        at("wait_sleep").is_some_and(|inner| at("measured") == Some(inner + 1))
    };
    let first = read.get(..SHOWN);
    assert!(read.iter().filter(whole).count() > 10, "{}", excerpt(first));
}

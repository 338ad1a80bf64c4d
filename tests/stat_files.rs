//! Files of counts: what `perf stat record` wrote, and what perf reads of ours.

use crate::oracle::{Finished, have, may_record_all, perf, perf_at, perfs, prof, skipped};
use std::path::{Path, PathBuf};
use std::process::Command;

/// How counts are put together, each as an option of perf's stat report.
const MODES: [&str; 6] = [
    "",
    "-A",
    "--per-core",
    "--per-socket",
    "--per-node",
    "--per-die",
];

fn with_mode<'a>(file: &'a str, mode: &'a str) -> Vec<&'a str> {
    let mut args = vec!["stat", "report", "-i", file];
    args.extend(Some(mode).filter(|mode| !mode.is_empty()));
    args
}

/// Lines without the spaces that perf pads them with.
fn lines(text: &str) -> Vec<String> {
    let lines = text.lines().map(|line| line.trim_end().to_owned());
    let mut lines: Vec<_> = lines.collect();
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
    lines
}

/// Without what is derived. Between rounds perf takes the mean of the clock
/// over all rounds so far for that of the round, and with it wrong rates.
fn without_derived(lines: &[String]) -> Vec<&str> {
    let counts = lines.iter().map(|line| match line.strip_prefix('#') {
        Some(_) => line.as_str(),
        None => line.split(" # ").next().unwrap_or_default().trim_end(),
    });
    counts.collect()
}

struct Recorded {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl Recorded {
    fn by(tool: impl Fn(&[&str]) -> Finished, options: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("counts.data");
        let file = path.to_str().expect("a plain name");
        let args = [&["stat", "record", "-o", file], options].concat();
        tool(&args).succeeded("stat record");
        Self {
            path,
            _folder: folder,
        }
    }

    fn file(&self) -> &str {
        self.path.to_str().expect("a plain name")
    }
}

const EVENTS: &str = "page-faults,cpu-clock,context-switches,cycles";

#[test]
fn perfs_files_are_shown_as_perf_shows_them_in_every_mode() {
    let test = "perfs_files_are_shown_as_perf_shows_them_in_every_mode";
    if !have(test, "perf") || !may_record_all(test) {
        return;
    }
    for tool in [|args: &[&str]| perf(args), |args: &[&str]| prof(args)] {
        let file = Recorded::by(tool, &["-a", "-e", EVENTS, "sleep", "0.05"]);
        for mode in MODES {
            let args = with_mode(file.file(), mode);
            let ours = prof(&args).succeeded("stat report");
            let theirs = perf(&args).succeeded("stat report");
            assert_eq!(lines(&ours.text()), lines(&theirs.stderr), "{mode}");
            assert!(ours.text().contains("<not supported>"), "{}", ours.text());
        }
    }
}

#[test]
fn counts_of_a_command_need_no_rights_and_have_no_cpus() {
    let test = "counts_of_a_command_need_no_rights_and_have_no_cpus";
    if !have(test, "perf") {
        return;
    }
    for tool in [|args: &[&str]| perf(args), |args: &[&str]| prof(args)] {
        let file = Recorded::by(tool, &["-e", "page-faults:u,task-clock:u", "true"]);
        let args = with_mode(file.file(), "");
        let ours = prof(&args).succeeded("stat report");
        let theirs = perf(&args).succeeded("stat report");
        assert_eq!(lines(&ours.text()), lines(&theirs.stderr));
        let apart = prof(&with_mode(file.file(), "-A")).succeeded("stat report -A");
        assert_eq!(apart.stdout, ours.stdout);
        assert!(apart.stderr.contains("not CPUs"), "{}", apart.stderr);
    }
}

#[test]
fn rounds_of_intervals_are_differences() {
    let test = "rounds_of_intervals_are_differences";
    if !have(test, "perf") {
        return;
    }
    let script = "i=0; while [ $i -lt 60 ]; do /bin/true; i=$((i+1)); done";
    let options = [
        "-I",
        "20",
        "-e",
        "page-faults:u,task-clock:u",
        "sh",
        "-c",
        script,
    ];
    for tool in [|args: &[&str]| perf(args), |args: &[&str]| prof(args)] {
        let file = Recorded::by(tool, &options);
        let args = with_mode(file.file(), "");
        let ours = lines(&prof(&args).succeeded("stat report").text());
        let theirs = lines(&perf(&args).succeeded("stat report").stderr);
        assert_eq!(without_derived(&ours), without_derived(&theirs));
        assert!(ours.len() > 4, "more than one round: {ours:?}");
    }
}

/// Value, unit and name of each line with a count.
fn counts(text: &str) -> Vec<String> {
    let of_events = text
        .lines()
        .filter(|line| line.contains("page-faults") || line.contains("clock"));
    let shown = of_events.filter(|line| !line.contains("Performance"));
    let words = shown.map(|line| line.split(" # ").next().unwrap_or_default());
    words
        .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect()
}

#[test]
fn every_perf_reads_our_files() {
    let test = "every_perf_reads_our_files";
    if !have(test, "perf") {
        return;
    }
    let file = Recorded::by(
        |args| prof(args),
        &["-e", "page-faults:u,task-clock:u", "true"],
    );
    let args = with_mode(file.file(), "");
    let ours = counts(&prof(&args).succeeded("stat report").text());
    assert_eq!(ours.len(), 2, "{ours:?}");
    for perf in perfs(test) {
        let theirs = perf_at(&perf, &args).succeeded("stat report");
        assert_eq!(ours, counts(&theirs.stderr), "{}", perf.display());
    }
}

/// Counts the threads of a process.
fn of_threads(pid: &str) -> [&str; 7] {
    [
        "--per-thread",
        "-p",
        pid,
        "-e",
        "page-faults:u",
        "sleep",
        "0.05",
    ]
}

#[test]
fn threads_have_their_names_in_files() {
    let test = "threads_have_their_names_in_files";
    if !have(test, "perf") {
        return;
    }
    let own = std::process::id().to_string();
    let options = of_threads(&own);
    let file = Recorded::by(|args| prof(args), &options);
    let args = with_mode(file.file(), "");
    let ours = prof(&args).succeeded("stat report").text();
    let theirs = perf(&args).succeeded("stat report").stderr;
    // perf orders threads of equal counts by chance.
    let sorted = |text: &str| {
        let mut lines = lines(text);
        lines.sort();
        lines
    };
    assert_eq!(sorted(&ours), sorted(&theirs));
    assert!(ours.contains(&own), "the main thread is there: {ours}");
    let asked_for = prof(&with_mode(file.file(), "--per-thread")).succeeded("stat report");
    assert_eq!(asked_for.text(), ours);
    assert!(asked_for.stderr.is_empty(), "{}", asked_for.stderr);
    if !may_record_all(test) {
        return;
    }
    let of_cpus = ["-a", "-e", "page-faults:u", "sleep", "0.05"];
    let of_cpus = Recorded::by(|args| prof(args), &of_cpus);
    let apart = prof(&with_mode(of_cpus.file(), "--per-thread")).succeeded("stat report");
    let plain = prof(&with_mode(of_cpus.file(), "")).succeeded("stat report");
    assert_eq!(apart.text(), plain.text());
    assert!(apart.stderr.contains("put together"), "{}", apart.stderr);
}

/// perf numbers modes anew from time to time; 7.2 cannot read its own files.
#[test]
fn files_of_the_newest_perf_are_shown_in_their_mode() {
    let test = "files_of_the_newest_perf_are_shown_in_their_mode";
    let Some(newest) = std::env::var_os("PROF_NEWEST_PERF") else {
        return skipped(test, "PROF_NEWEST_PERF names no newer perf");
    };
    if !may_record_all(test) {
        return;
    }
    // perf gives up where a thread ends while it opens its events, as those of tests do.
    let mut steady = Command::new("sleep")
        .arg("60")
        .spawn()
        .expect("sleep starts");
    let own = steady.id().to_string();
    let threads = of_threads(&own);
    let cores = ["-a", "--per-core", "-e", "page-faults", "sleep", "0.05"];
    let newest = Path::new(&newest);
    let by = |options: &[&str]| Recorded::by(|args| perf_at(newest, args), options);
    let shown = |file: &Recorded, mode| {
        let shown = prof(&with_mode(file.file(), mode)).succeeded("stat report");
        shown.text()
    };
    let file = by(&threads);
    steady.kill().and_then(|()| steady.wait()).expect("it ends");
    assert!(
        shown(&file, "").contains(&format!("-{own} ")),
        "{}",
        shown(&file, "")
    );
    assert_eq!(shown(&file, ""), shown(&file, "--per-thread"));
    let file = by(&cores);
    assert_eq!(shown(&file, ""), shown(&file, "--per-core"));
    assert!(
        shown(&file, "").contains("S0-D0-C0"),
        "{}",
        shown(&file, "")
    );
}

#[test]
fn what_holds_no_counts_says_so() {
    let nothing = prof(&["stat", "report", "-i", "/dev/null"]);
    assert_eq!(nothing.code, 1, "{}", nothing.stderr);
    let runs = prof(&["stat", "-r", "2", "record", "true"]);
    assert_eq!(runs.code, 2, "{}", runs.stderr);
    assert!(runs.stderr.contains("one run"), "{}", runs.stderr);
    let Some(corpus) = crate::oracle::corpus("what_holds_no_counts_says_so") else {
        return;
    };
    let samples = corpus.join("local/perf6.1-fp.data");
    if !Path::new(&samples).exists() {
        return skipped("what_holds_no_counts_says_so", "no such recording");
    }
    let name = samples.to_str().expect("a plain name");
    let refused = prof(&["stat", "report", "-f", "-i", name]);
    assert_eq!(refused.code, 1);
    assert!(
        refused.stderr.contains("holds no counts"),
        "{}",
        refused.stderr
    );
}

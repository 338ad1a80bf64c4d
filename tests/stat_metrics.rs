//! `prof stat --metric-only`: figures without their counts.

use crate::oracle::{Finished, may_record_all, perf_at, prof, skipped};
use std::path::PathBuf;
use tempfile::TempDir;

/// Metrics of software events as perf 7.2 has them built in.
const METRICS: &str = r#"[
    {"MetricName": "cs_per_second", "ScaleUnit": "1cs/sec",
     "MetricExpr": "(software@context\\-switches\\,name\\=context\\-switches@ * 1e9) / (software@cpu\\-clock\\,name\\=cpu\\-clock@ if #target_cpu else software@task\\-clock\\,name\\=task\\-clock@)"},
    {"MetricName": "page_faults_per_second", "ScaleUnit": "1faults/sec",
     "MetricExpr": "(software@page\\-faults\\,name\\=page\\-faults@ * 1e9) / (software@cpu\\-clock\\,name\\=cpu\\-clock@ if #target_cpu else software@task\\-clock\\,name\\=task\\-clock@)"}
]"#;

fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("m.json"), METRICS).expect("written");
    folder
}

/// Our lines of metrics of that folder.
fn ours(folder: &TempDir, options: &[&str]) -> Finished {
    let directory = folder.path().to_str().expect("a plain name");
    let metrics = ["--metric-only", "--metrics-dir", directory];
    let args = [&["stat"][..], &metrics, options].concat();
    prof(&args).succeeded("prof stat --metric-only")
}

/// Words and fields of lines, each number replaced. perf 7.2 writes the time of
/// separated lines without the spaces of 6.1, counts CPUs as counters, and puts
/// the names of columns to the right of their figures.
fn shape(run: &Finished) -> Vec<String> {
    let counts = run.stderr.lines().filter(|line| {
        let is_time = ["seconds time elapsed", "seconds user", "seconds sys"];
        !line.is_empty() && !is_time.iter().any(|time| line.ends_with(time))
    });
    let word = |word: &str| {
        let bare = word.trim_matches(['"', '{', '}']);
        let known = match bare {
            "ctrs" => "cpus",
            "CPU" => "cpu",
            "counters" => "aggregate-number",
            "none" => "N",
            _ if bare.parse::<f64>().is_ok() => "N",
            _ => bare,
        };
        known.to_owned()
    };
    let line = |line: &str| {
        let words = line.split([',', ' ']).filter(|word| !word.is_empty());
        words.map(word).collect::<Vec<_>>().join(" ")
    };
    let mut shape: Vec<String> = counts.map(line).collect();
    // How many intervals there are depends on the machine's load.
    shape.truncate(3);
    shape
}

#[test]
fn figures_alone_are_laid_out_as_by_perf() {
    let test = "figures_alone_are_laid_out_as_by_perf";
    let Some(newest) = std::env::var_os("PROF_NEWEST_PERF").map(PathBuf::from) else {
        return skipped(test, "PROF_NEWEST_PERF names no second perf");
    };
    if !may_record_all(test) {
        return;
    }
    let folder = folder();
    for whose in [
        &[][..],
        &["-a"],
        &["-a", "-A"],
        &["-a", "--per-core"],
        &["-a", "--per-socket"],
        &["-a", "--per-die"],
        &["-a", "--per-node"],
    ] {
        for form in [&[][..], &["-x,"], &["-j"]] {
            for times in [&[][..], &["-I", "60"]] {
                // perf 7.2 names the counters of a node in no heading of -x.
                if whose.contains(&"--per-node") && form.contains(&"-x,") {
                    continue;
                }
                let metrics = ["-M", "cs_per_second,page_faults_per_second"];
                let command = ["--", "sleep", "0.1"];
                let options = [whose, form, times, &metrics, &command].concat();
                let theirs = [&["stat", "--metric-only"], &options[..]].concat();
                let theirs = perf_at(&newest, &theirs).succeeded("perf stat");
                let mut shapes = [shape(&ours(&folder, &options)), shape(&theirs)];
                if !times.is_empty() {
                    // One of them may have met an interval more.
                    let both = shapes.iter().map(Vec::len).min().unwrap_or(0);
                    assert!(both > 1, "{options:?}: {shapes:?}");
                    shapes.iter_mut().for_each(|shape| shape.truncate(both));
                }
                let [ours, theirs_shape] = shapes;
                assert_eq!(ours, theirs_shape, "{options:?}:\n{}", theirs.stderr);
            }
        }
    }
}

#[test]
fn figures_stand_below_their_names_and_follow_from_the_counts() {
    let folder = folder();
    let run = ours(&folder, &["-M", "page_faults_per_second", "true"]);
    // Before it a plain user is told that the kernel is not counted.
    let heading = " Performance counter stats for";
    let lines = run.stderr.lines();
    let lines: Vec<&str> = lines
        .skip_while(|line| !line.starts_with(heading))
        .collect();
    assert_eq!(lines[2], " faults/sec  page_faults_per_second");
    assert_eq!(lines[3].len(), lines[2].len(), "{}", run.stderr);
    assert!(lines[3].trim().parse::<f64>().is_ok(), "{}", run.stderr);
    assert!(!run.stderr.contains("page-faults"), "{}", run.stderr);

    // Without files: what perf 6.1 shows beside counts, rates without a prefix.
    let run = prof(&[
        "stat",
        "--metric-only",
        "-x,",
        "-e",
        "task-clock:u,page-faults:u",
        "true",
    ]);
    let lines: Vec<&str> = run.stderr.lines().collect();
    assert_eq!(lines[0], "CPUs utilized,page-faults:u/sec,");
    let figures: Vec<_> = lines[1].split(',').map(str::parse::<f64>).collect();
    assert!(
        figures[1].as_ref().is_ok_and(|&rate| rate > 100.0),
        "{lines:?}"
    );
}

#[test]
fn a_figure_that_nothing_follows_from_is_said_to_be_none() {
    let run = prof(&["stat", "--metric-only", "-e", "page-faults:u", "true"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(
        run.stderr.contains("nothing follows from these events"),
        "{}",
        run.stderr
    );
    for (options, words) in [
        (&["--metric-only", "-r", "2", "true"][..], "one run"),
        (
            &["--metric-only", "-p", "1", "--per-thread"],
            "--per-thread",
        ),
    ] {
        let refused = prof(&[&["stat"], options].concat());
        assert_eq!(refused.code, 2, "{}", refused.stderr);
        assert!(refused.stderr.contains(words), "{}", refused.stderr);
    }
}

#[test]
fn each_cgroup_has_figures_of_its_own() {
    let test = "each_cgroup_has_figures_of_its_own";
    if !may_record_all(test) {
        return;
    }
    let options = ["-a", "--for-each-cgroup", "/,/", "-M", "cs_per_second"];
    let command = ["-j", "--", "sleep", "0.05"];
    let run = ours(&folder(), &[&options[..], &command].concat());
    let lines: Vec<serde_json::Value> = run
        .stderr
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let is_rate = |line: &serde_json::Value| {
        let rate = line["cs/sec  cs_per_second"].as_str();
        rate.is_some_and(|rate| rate.parse::<f64>().is_ok_and(|rate| rate > 0.0))
    };
    assert!(!lines.is_empty() && lines.iter().all(is_rate), "{lines:?}");
    assert!(lines.iter().all(|line| line["cgroup"] == "/"), "{lines:?}");
}

//! `prof diff`: perf's figures against both perfs, verdicts on programs whose
//! change is known, and what cannot be compared.

use crate::oracle::{
    Finished, compiled, fixture, have, perf_at, perfs, prof, prof_command, scratch,
};
use std::path::{Path, PathBuf};

/// Records the program doing so many units of each of its two functions.
fn recorded(test: &str, program: &Path, name: &str, units: [u32; 2]) -> PathBuf {
    let path = scratch().join(format!("diff-{test}-{name}.data"));
    record_user_time(program, &units.map(|count| count.to_string()), &path);
    path
}

/// Records the user part of a program by the clock that every machine has.
pub(crate) fn record_user_time(program: &Path, arguments: &[String], path: &Path) {
    let record = ["record", "-q", "-F", "4000", "-e", "cpu-clock:u", "-o"];
    prof_command()
        .args(record)
        .arg(path)
        .arg("--")
        .arg(program)
        .args(arguments)
        .output()
        .map(Finished::from)
        .expect("prof starts")
        .succeeded("record");
}

/// Paths as arguments.
pub(crate) fn texts(paths: &[PathBuf]) -> Vec<&str> {
    paths
        .iter()
        .map(|path| path.to_str().expect("UTF-8"))
        .collect()
}

/// Both sides of five runs, of which one may be an odd one; one function does three times as much after.
fn sides(test: &str) -> Option<(Vec<PathBuf>, Vec<PathBuf>)> {
    let program = compiled(test, "two_costs.c", &["-O1", "-g"])?;
    let record = |name: &str, units| recorded(test, &program, name, units);
    let pairs: Vec<(PathBuf, PathBuf)> = (0..5)
        .map(|run| {
            let before = record(&format!("before{run}"), [300, 300]);
            (before, record(&format!("after{run}"), [900, 300]))
        })
        .collect();
    Some(pairs.into_iter().unzip())
}

/// The total and the interval of `first_cost` of both sides, percent.
fn of_first_cost(options: &[&str], before: &[PathBuf], after: &[PathBuf]) -> (String, f64, f64) {
    let sides = [
        &["diff", "--json"],
        options,
        &["--before"],
        &texts(before),
        &["--after"],
        &texts(after),
    ];
    let out = prof(&sides.concat()).succeeded("diff");
    let value: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let event = &value["events"][0];
    assert_eq!(event["paired"], !options.is_empty());
    let rows = event["rows"].as_array().expect("rows");
    let row = rows.iter().find(|row| row["symbol"] == "first_cost");
    let row = row.expect("a row");
    let percent = |name: &str| row["change"][name].as_f64().expect("a number");
    let verdict = row["verdict"].as_str().expect("a verdict").to_owned();
    (verdict, percent("low"), percent("high"))
}

#[test]
fn what_pairs_of_runs_share_is_no_scatter_if_they_are_compared_as_pairs() {
    let Some(program) = compiled("paired", "two_costs.c", &["-O1", "-g"]) else {
        return;
    };
    // What both runs of a pair do more of than those of the pair before is nothing but load
    // to them; after, each does a fifth more.
    let (before, after): (Vec<_>, Vec<_>) = [600, 1200, 1800, 2400]
        .map(|units| {
            let record = |name: &str, units| {
                recorded("paired", &program, &format!("{name}{units}"), [units, 100])
            };
            (record("before", units), record("after", units + units / 5))
        })
        .into_iter()
        .unzip();
    let alone = of_first_cost(&[], &before, &after);
    let paired = of_first_cost(&["--paired"], &before, &after);
    assert!(
        paired.2 - paired.1 < (alone.2 - alone.1) / 1.5,
        "{alone:?} {paired:?}"
    );
    assert!(alone.0.starts_with("undecided"), "{alone:?}");
    let uneven = texts(&before[..2]);
    let after = texts(&after);
    let sides = [
        &["diff", "--paired", "--before"],
        &uneven[..],
        &["--after"],
        &after,
    ];
    let refused = prof(&sides.concat());
    assert_eq!(refused.code, 2);
    assert!(
        refused.stderr.contains("2 recordings before and 4 after"),
        "{}",
        refused.stderr
    );
}

#[test]
fn what_does_three_times_as_much_is_slower() {
    let Some((before, after)) = sides("planted") else {
        return;
    };
    let args = [
        &["diff", "--json", "--before"][..],
        &texts(&before),
        &["--after"],
        &texts(&after),
    ];
    let out = prof(&args.concat()).succeeded("diff");
    // JSON has no NaN and no infinity: with one it could not be read.
    let value: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let event = &value["events"][0];
    assert_eq!(event["kind"], "other runs");
    let rows = event["rows"].as_array().expect("rows");
    let row = |name: &str| {
        rows.iter()
            .find(|row| row["symbol"] == name)
            .expect("a row")
    };
    let planted = row("first_cost");
    assert_eq!(planted["verdict"], "slower", "{planted}");
    let ratio = planted["after"]["cost"]
        .as_f64()
        .zip(planted["before"]["cost"].as_f64());
    let (after, before) = ratio.expect("costs");
    assert!(after > before, "{planted}");
}

#[test]
fn one_a_side_is_said_to_be_these_two() {
    let Some((before, after)) = sides("two") else {
        return;
    };
    let out = prof(&["diff", texts(&before)[0], texts(&after)[0]]).succeeded("diff");
    assert!(
        out.text().contains("between these two recordings"),
        "{}",
        out.text()
    );
    let row = out.text();
    let row = row
        .lines()
        .find(|line| line.ends_with("first_cost"))
        .expect("a row");
    assert!(row.contains("slower"), "{row}");
    let csv = prof(&["diff", "--csv", texts(&before)[0], texts(&after)[0]]).succeeded("diff");
    assert!(
        csv.text().starts_with("event,before_percent,before_cost,"),
        "{}",
        csv.text()
    );
    assert!(csv.text().contains(",slower,"));
}

/// Lines without comments, names and figures only, in the order of names: where
/// figures are equal, perf's order is by chance.
fn sorted(text: &str) -> Vec<String> {
    let lines = text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty());
    let mut lines: Vec<String> = lines.map(|line| line.trim_end().to_owned()).collect();
    lines.sort();
    lines
}

#[test]
fn computations_are_perf_s_to_the_digit() {
    let test = "computations_are_perf_s_to_the_digit";
    let Some((before, after)) = sides("perf") else {
        return;
    };
    let both = [texts(&before)[0], texts(&after)[0]];
    let options: [&[&str]; 7] = [
        &["-c", "delta"],
        &["-c", "delta-abs"],
        &["-c", "ratio"],
        &["-c", "wdiff:1,2"],
        &["-c", "delta", "-b"],
        &["-c", "delta", "-s", "sym"],
        &["-c", "delta", "-s", "comm,dso"],
    ];
    for program in perfs(test) {
        for options in options {
            let args = [&["diff"][..], options, &both].concat();
            let theirs = perf_at(&program, &args).succeeded("perf diff").text();
            let ours = prof(&args).succeeded("prof diff").text();
            let heads = |text: &str| -> Vec<String> {
                let lines = text.lines().filter(|line| line.starts_with('#'));
                lines.map(|line| line.trim_end().to_owned()).collect()
            };
            assert_eq!(heads(&ours), heads(&theirs), "{options:?}");
            assert_eq!(sorted(&ours), sorted(&theirs), "{options:?}");
        }
    }
}

#[test]
fn what_cannot_be_compared_is_refused_with_a_cure() {
    let test = "what_cannot_be_compared_is_refused_with_a_cure";
    let Some(program) = compiled(test, "two_costs.c", &["-O1", "-g"]) else {
        return;
    };
    let clock = recorded("refused", &program, "clock", [50, 50]);
    let other = scratch().join("diff-refused-faults.data");
    let (clock, other) = (
        clock.to_str().expect("UTF-8"),
        other.to_str().expect("UTF-8"),
    );
    let program = program.to_str().expect("UTF-8");
    let record = [
        "record",
        "-q",
        "-c",
        "1",
        "-e",
        "page-faults:u",
        "-o",
        other,
        "--",
    ];
    prof(&[&record[..], &[program, "1", "1"]].concat()).succeeded("record");
    let refused = |args: &[&str], code: i32, words: &str| {
        let ended = prof(args);
        assert_eq!(ended.code, code, "{args:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(words), "{args:?}: {}", ended.stderr);
        assert!(ended.stdout.is_empty(), "{args:?}");
    };
    refused(&["diff", clock, other], 1, "no event is in all recordings");
    refused(&["diff", clock, "/nonexistent"], 1, "cannot open");
    refused(
        &["diff", clock, clock, clock],
        2,
        "--before A1 A2 --after B1 B2",
    );
    refused(&["diff", "--per", "cycles", clock, clock], 1, "--per");
    for per in ["0", "1e308,1e-300", "NaN"] {
        refused(&["diff", "--per", per, clock, clock], 2, "above 0");
    }
    let check = [
        "check",
        "-b",
        "total <= 2x",
        "--baseline",
        other,
        "--",
        clock,
    ];
    refused(
        &check,
        2,
        "refused-faults.data has page-faults:u\n  record all",
    );
    refused(&["diff", "-c", "cycles", clock, clock], 2, "basic blocks");
    refused(&["diff", "--period", clock, clock], 2, "--csv");
}

#[test]
fn a_damaged_side_is_told_with_what_would_work() {
    let test = "a_damaged_side_is_told_with_what_would_work";
    let Some(program) = compiled(test, "two_costs.c", &["-O1", "-g"]) else {
        return;
    };
    let whole = recorded("damaged", &program, "whole", [50, 50]);
    let cut = scratch().join("diff-damaged-cut.data");
    let bytes = std::fs::read(&whole).expect("a recording");
    std::fs::write(&cut, &bytes[..bytes.len() / 2]).expect("written");
    let both = [&whole, &cut].map(|path| path.to_str().expect("UTF-8"));
    let out = prof(&["diff", "--json", both[0], both[1]]);
    assert_eq!(out.code, 3, "{}", out.stderr);
    let value: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let notes = value["events"][0]["notes"].as_array().expect("notes");
    let is_told = |note: &serde_json::Value| {
        let note = note.as_str().expect("text");
        note.contains("damaged: ") && note.contains("cut.data") && note.contains("--by share")
    };
    assert!(notes.iter().any(is_told), "{notes:?}");
    // A budget that only several runs decide is not decided by half a one.
    let args = [
        "check",
        "-b",
        "first* <= 0.1x",
        "--baseline",
        both[0],
        "--",
        both[1],
    ];
    assert_eq!(prof(&args).code, 5);
}

#[test]
fn a_recording_is_the_same_as_itself() {
    let recordings = std::fs::read_dir(fixture("recordings")).expect("a folder");
    for entry in recordings.flatten() {
        let path = entry.path();
        let path = path.to_str().expect("UTF-8");
        let ended = prof(&["diff", "-f", "--json", path, path]);
        if ended.code != 0 && ended.code != 3 {
            assert!(ended.stderr.contains(path), "{path}: {}", ended.stderr);
            continue;
        }
        let text = ended.text();
        assert!(!text.contains("NaN") && !text.contains("inf"), "{path}");
        assert!(
            !text.contains("\"slower\"") && !text.contains("\"faster\""),
            "{path}"
        );
    }
}

#[test]
fn without_arguments_it_is_the_old_and_the_new_recording() {
    let test = "without_arguments_it_is_the_old_and_the_new_recording";
    if !have(test, "gcc") {
        return;
    }
    let folder = scratch().join("diff-default");
    std::fs::create_dir_all(&folder).expect("the target folder is writable");
    let ended = crate::oracle::prof_command()
        .arg("diff")
        .current_dir(&folder)
        .output()
        .expect("prof starts");
    let message = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(message.contains("perf.data.old"), "{message}");
}

#[test]
fn a_differential_flame_graph_colours_what_changed() {
    let Some((before, after)) = sides("picture") else {
        return;
    };
    let joined = |paths: &[PathBuf]| texts(paths).join(",");
    let page = scratch().join("diff-picture.html");
    let page = page.to_str().expect("UTF-8");
    let sides = ["flamegraph", "--diff", &joined(&before), &joined(&after)];
    let svg = prof(&sides).succeeded("flamegraph").text();
    // Three times as much: the darkest orange.
    let frame = svg
        .split("<title>")
        .find(|part| part.starts_with("first_cost ("));
    let frame = frame.expect("the function is drawn");
    assert!(frame.contains("fill=\"rgb(179,88,6)\""), "{frame:.300}");
    assert!(frame.contains(", more)</title>"), "{frame:.300}");
    assert!(!svg.contains("NaN"));
    prof(&[&sides[..], &["-o", page]].concat()).succeeded("flamegraph");
    assert!(
        std::fs::read_to_string(page)
            .expect("written")
            .contains("<!DOCTYPE html>")
    );
    let folded = prof(&[&sides[..], &["--format", "folded"]].concat());
    assert!(folded.code == 2 && folded.stderr.contains("--diff draws svg or html"));
}

#[test]
fn waits_are_compared_by_what_they_are_for_unless_functions_are_asked_for() {
    let recorded = |name: &str| {
        let path = scratch().join(format!("diff-waits-{name}.data"));
        let mut record = prof_command();
        record
            .args(["record", "-q", "--off-cpu=only", "-o"])
            .arg(&path);
        let ended = record.args(["--", "sleep", "0.05"]).output();
        ended
            .map(Finished::from)
            .expect("prof starts")
            .succeeded("record");
        path
    };
    let paths = [recorded("before"), recorded("after")];
    let of = |options: &[&str]| {
        let sides = texts(&paths);
        prof(&[&["diff", "--percent-limit", "0"], options, &sides].concat())
            .succeeded("diff")
            .text()
    };
    let usual = of(&[]);
    assert!(
        usual.contains("blocked: sleep") && !usual.contains("Symbol"),
        "{usual}"
    );
    for options in [&["--children"][..], &["-s", "dso,symbol"]] {
        let functions = of(options);
        assert!(
            functions.contains("Symbol") && !functions.contains("blocked: sleep"),
            "{functions}"
        );
    }
}

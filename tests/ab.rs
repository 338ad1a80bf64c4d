//! `prof ab`: two commands run in turns, and what is said of them.

use crate::oracle::{compiled, have, prof, scratch};
use std::path::PathBuf;

/// A program whose two functions do as much as they are told, and the words
/// that come before the commands: its own code only, at a high rate.
fn program(test: &str) -> Option<PathBuf> {
    compiled(test, "two_costs.c", &["-O1", "-g"])
}

const AB: [&str; 5] = ["ab", "-e", "cpu-clock:u", "-F", "4000"];

fn json(arguments: &[&str]) -> serde_json::Value {
    let out = prof(&[&AB[..], &["--json"], arguments].concat()).succeeded("ab");
    assert!(!out.text().contains("NaN"), "{}", out.text());
    serde_json::from_slice(&out.stdout).expect("JSON")
}

#[test]
fn what_does_three_times_as_much_is_named() {
    let Some(program) = program("ab-planted") else {
        return;
    };
    let program = program.to_str().expect("UTF-8");
    let kept = scratch().join("ab-kept");
    let _ = std::fs::remove_dir_all(&kept);
    let keep = ["-n", "8", "--keep", kept.to_str().expect("UTF-8"), "--"];
    let value = json(
        &[
            &keep[..],
            &[program, "300", "300", "--", program, "900", "300"],
        ]
        .concat(),
    );
    assert_eq!(
        (&value["schema"], &value["pairs"]),
        (&"prof-ab-1".into(), &8.into())
    );
    let compared = &value["comparisons"][0];
    let rows = compared["rows"].as_array().expect("rows");
    let of = |name: &str| {
        rows.iter()
            .find(|row| row["symbol"] == name)
            .expect("a row")
    };
    assert_eq!(of("first_cost")["verdict"], "slower", "{compared}");
    let measures = compared["measures"].as_array().expect("measures");
    let cpu = measures
        .iter()
        .find(|one| one["name"] == "CPU time")
        .expect("CPU time");
    assert_eq!(cpu["verdict"], "slower", "{cpu}");
    // A program of one megabyte begins with the recorder's pages.
    assert!(measures.iter().all(|one| one["name"] != "peak memory"));
    let notes = value["notes"].to_string();
    assert!(notes.contains("peak memory is not known"), "{notes}");
    // What was kept is what any view opens.
    let report = prof(&[
        "report",
        "--stdio",
        "-i",
        kept.join("after-008.data").to_str().expect("UTF-8"),
    ]);
    assert!(report.succeeded("report").text().contains("first_cost"));
}

#[test]
fn what_cannot_be_kept_or_drawn_is_refused_before_anything_runs() {
    let kept = scratch().join("ab-kept-before");
    std::fs::create_dir_all(&kept).expect("a folder");
    std::fs::write(kept.join("after-003.data"), "of another trial").expect("written");
    let kept = kept.to_str().expect("UTF-8");
    for (options, told) in [
        (["--keep", kept], "another trial (after-003.data)"),
        (["--flamegraph", "x.folded"], "try: --flamegraph x.svg"),
        (["--flamegraph", "x.png"], "try: --flamegraph x.svg"),
        (["--flamegraph", "/nosuch/x.svg"], "no folder /nosuch"),
    ] {
        let words = [
            &["ab", "-n", "2"][..],
            &options,
            &["--", "false", "--", "false"],
        ]
        .concat();
        let out = prof(&words);
        assert!(out.stderr.contains(told), "{}", out.stderr);
        assert_eq!(out.code, 2, "{}", out.stderr);
    }
    let out = prof(&["ab", "-n", "2", "--dir", "/", "/nosuch", "--", "false"]);
    assert!(out.stderr.contains("no folder /nosuch"), "{}", out.stderr);
}

#[test]
fn parts_of_the_total_are_compared_where_that_is_asked() {
    let Some(program) = program("ab-by-share") else {
        return;
    };
    let program = program.to_str().expect("UTF-8");
    let (before, after) = ([program, "100", "300"], [program, "300", "300"]);
    let words = [
        &["--by", "share", "-n", "6", "--"][..],
        &before,
        &["--"],
        &after,
    ]
    .concat();
    let compared = json(&words)["comparisons"][0].take();
    assert_eq!(compared["by"], "share");
    let verdict_of = |name: &str| {
        let mut rows = compared["rows"].as_array().expect("rows").iter();
        let row = rows.find(|row| row["symbol"] == name).expect("a row");
        row["verdict"].clone()
    };
    // The second does what it did, as a smaller part.
    assert_eq!(verdict_of("first_cost"), "slower", "{compared}");
    assert_eq!(verdict_of("second_cost"), "faster", "{compared}");
    assert!(compared["detectable_by_share_percent"].is_null());
}

#[test]
fn a_setting_tells_the_sides_apart() {
    let Some(program) = program("ab-env") else {
        return;
    };
    let script = format!("exec {} ${{COST:-1}} 300", program.display());
    let env = ["-n", "8", "--env", "COST=300", "COST=900", "--"];
    let value = json(&[&env[..], &["sh", "-c", &script]].concat());
    let rows = value["comparisons"][0]["rows"].as_array().expect("rows");
    let planted = rows
        .iter()
        .find(|row| row["symbol"] == "first_cost")
        .expect("a row");
    assert_eq!(planted["verdict"], "slower", "{planted}");
    assert!(
        value["commands"][1]
            .as_str()
            .expect("text")
            .starts_with("COST=900 ")
    );
}

#[test]
fn until_sure_ends_when_it_is_and_says_when_it_is_not() {
    let Some(program) = program("ab-sure") else {
        return;
    };
    let program = program.to_str().expect("UTF-8");
    let sides = ["--", program, "100", "1000", "--", program, "1000", "100"];
    // What else runs may make the equal total scatter by tens of per cent.
    let sure = ["--until-sure", "--bound", "30"];
    let out = prof(&[&AB[..], &sure, &sides].concat());
    let text = out.succeeded("ab").text();
    let row = |name: &str| {
        text.lines()
            .find(|line| line.ends_with(name))
            .expect("a row")
            .to_owned()
    };
    assert!(row("first_cost").contains("slower"), "{text}");
    assert!(row("second_cost").contains("faster"), "{text}");
    // No time for a verdict of two equal sides.
    let limited = ["--until-sure", "--time-limit", "0.01", "--warmup", "0"];
    let equal = ["--", program, "300", "1", "--", program, "300", "1"];
    let out = prof(&[&AB[..], &limited, &equal].concat());
    assert_eq!(out.code, 5, "{}", out.stderr);
    assert!(out.text().contains("the limit came before all was sure"));
}

#[test]
fn commands_that_fail_are_told() {
    if !have("ab-fails", "sh") {
        return;
    }
    let fails = ["ab", "-n", "2", "--", "true", "--", "sh", "-c", "exit 7"];
    let out = prof(&fails);
    assert_eq!(out.code, 1);
    assert!(
        out.stderr
            .contains("the command after failed in a warm-up: exit code 7"),
        "{}",
        out.stderr
    );
    for (arguments, said) in [
        (&["ab", "--", "true"][..], "both sides are one command"),
        (&["ab", "--", "true", "--"], "a command is missing"),
        (&["ab", "--", "a", "--", "b", "--", "c"], "more than one --"),
        (&["ab", "--env", "A", "B=1", "--", "true"], "NAME=VALUE"),
    ] {
        let out = prof(arguments);
        assert_eq!(out.code, 2, "{arguments:?}");
        assert!(out.stderr.contains(said), "{}", out.stderr);
    }
}

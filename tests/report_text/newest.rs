//! What perf 6.1 does not have or has wrong: the newest perf is the oracle.

use super::{
    compare_with_newest, difference, is_of, lines_of_ours, lines_of_perf, record, recordings, words,
};
use crate::chosen::{Keep, chosen};
use crate::oracle::{compiled, have, perf_at, perfs, prof};

/// Lines of C++ code; see the notes on top.
const LINES: &[&str] = &[
    "-s srcline",
    "-s srcfile,srcline,sym -n",
    "-s dso,srcline",
    "-s srcline -t ;",
    "-s comm,srcline --percent-limit 1",
];

#[test]
fn lines_of_cpp_equal_the_newest_perfs() {
    let test = "lines_of_cpp_equal_the_newest_perfs";
    let Some(files) = recordings(test) else {
        return;
    };
    let file = files.iter().find(|file| is_of(file, "threads"));
    let file = chosen(file.expect("recorded above"), Keep::Named);
    compare_with_newest(test, &[file], LINES);
}

/// Thread names without their digits; 6.1 does not have the key.
const NAMES_WITHOUT_DIGITS: &[&str] = &[
    "-s comm_nodigit -n",
    "-s comm_nodigit,sym",
    "-s comm,comm_nodigit,dso",
    "-s comm_nodigit,comm -c w1",
    "-s comm_nodigit -q -c w1",
    "-s comm_nodigit -t ;",
    "--hierarchy -s comm_nodigit,comm",
];

#[test]
fn thread_names_without_digits_equal_the_newest_perfs() {
    let test = "thread_names_without_digits_equal_the_newest_perfs";
    let Some(files) = recordings(test) else {
        return;
    };
    let file = files.iter().find(|file| is_of(file, "threads"));
    let file = chosen(file.expect("recorded above"), Keep::Named);
    let path = file.to_str().expect("a path of ours");
    let args = ["report", "--stdio", "-s", "comm_nodigit", "-i", path];
    let text = prof(&args).succeeded("prof report").text();
    assert!(text.contains("w<N>"), "{text}");
    compare_with_newest(test, &[file], NAMES_WITHOUT_DIGITS);
}

/// With inlined frames.
const INLINED: &[&str] = &[
    "--no-children",
    "--no-children -g caller",
    "--no-children -s sym",
    "--no-children -g fractal",
    "--no-children -g folded",
    "--no-children -g flat",
    "--no-children -G",
    "--no-children --max-stack 3",
    "--no-children --percent-limit 5",
    "--no-children -S outer",
    "--no-children -s srcline -g none",
    "--no-children -s sym,srcline -g none",
    "--no-children -s srcline,sym,dso -g none",
    "--no-children -s sym,srcfile -g none",
    "-g none",
    "-g none -n",
    "-g none -s dso",
    "-g none -s comm",
    "-g none --percent-limit 20",
    "-g none -s sym,srcline",
    "-g none -s dso,sym,srcline -n",
];

/// Whether a row's line is in a function of `report-inlined.c` that is never
/// inlined; they stand below the others.
fn is_in_code_of_its_own(row: &str) -> bool {
    let line = row.rsplit_once("report-inlined.c:");
    let line = line.and_then(|(_, line)| line.trim_end().parse::<u32>().ok());
    line.is_some_and(|line| line > 25)
}

/// The newest perf is the oracle: 6.1 knows inlined frames only if it was
/// built with a library that distributions do not give it. Left out, by what
/// that perf does:
///
/// - Chains with `--children`, and of `--hierarchy`: it writes addresses in
///   the process for some inlined frames.
/// - `--children -s sym` without the thread's name: it loses samples of
///   callers with inlined frames (98 % of `main`).
/// - `-s sym,srcline` with callers: a caller's line is the one after the call,
///   and a sample in code that is not inlined counts twice in `Children` of
///   its own row (0.97 % for 0.48 %). Compared are the lines of inlined code.
/// - Files of callers (`-s srcfile` without `--no-children`): it has none.
/// - `-g address` and `-g srcline`: it takes the line after the call.
/// - C++: it names inlined functions with their arguments, others without.
#[test]
fn inlined_frames_equal_perfs() {
    let test = "inlined_frames_equal_perfs";
    if !have(test, "perf") {
        return;
    }
    let flags = [
        "-O2",
        "-g",
        "-fno-omit-frame-pointer",
        "-fno-optimize-sibling-calls",
    ];
    let Some(program) = compiled(test, "report-inlined.c", &flags) else {
        return;
    };
    let program = program.to_str().expect("a path of ours").to_owned();
    let options = ["-F", "499", "-g", "-e", "cpu-clock:u"];
    let recording = record("inlined", &options, &[program]);
    // Not the loader, whose inlined functions other packages bring along.
    let recording = chosen(&recording, Keep::NamedIn("report-inlined-"));
    let path = recording.to_str().expect("a path of ours");
    for newest in perfs(test).iter().skip(1) {
        let mut wrong = Vec::new();
        for combination in INLINED {
            let mut args = ["report", "--stdio", "--inline", "-i", path]
                .map(String::from)
                .to_vec();
            args.extend(words(combination));
            let theirs = perf_at(newest, &args).succeeded("perf report").text();
            let ours = prof(&args).succeeded("prof report").text();
            let (mut theirs, mut ours) = (lines_of_perf(&theirs), lines_of_ours(&ours));
            if combination.contains("line") && !combination.contains("--no-children") {
                for lines in [&mut theirs, &mut ours] {
                    lines.retain(|line| !is_in_code_of_its_own(line));
                }
                assert!(ours.len() > 12, "{ours:?}");
            }
            if theirs != ours {
                wrong.push(difference("inlined", combination, &theirs, &ours));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
    let args = ["report", "--stdio", "--no-children", "-i", path];
    let text = prof(&args).succeeded("prof report").text();
    assert!(text.contains("middle (inlined)"), "{text}");
    let without = prof(&[&args[..], &["--no-inline"]].concat()).text();
    assert!(!without.contains("(inlined)"), "{without}");
}

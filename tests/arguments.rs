//! Arguments that are no options: recordings, functions, and programs where a
//! command should be.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn recording() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/recordings/local/perf6.1-zstd.data")
}

/// Runs `prof` in an empty directory, where no perf.data is.
fn prof(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_prof"))
        .args(arguments)
        .current_dir(std::env::temp_dir())
        .output()
        .expect("prof starts")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn what_is_typed_otherwise_is_told_as_it_has_to_be() {
    let file = recording();
    let file = file.to_str().expect("UTF-8");
    let other = file.replace("perf6.1-zstd", "perf6.1-cgroup");
    let cases: [(&[&str], &str); 6] = [
        (
            &["ab", "-n", "4", "./a", "1", "--", "./b"],
            "try: prof ab -n 4 -- ./a 1 -- ./b",
        ),
        (&["ab", "./a"], "try: prof ab -- ./a "),
        (
            &["ab", "-r", "4", "--", "./a", "--", "./b"],
            "try: prof ab -n 10 -- ",
        ),
        (
            &["report", file, &other],
            &format!("try: prof diff {file} {other}"),
        ),
        (&["export", "collapsed"], "try: prof export --format folded"),
        (&["export", "pprof"], "try: prof export --format pprof"),
    ];
    for (typed, cure) in cases {
        let told = prof(typed);
        assert_eq!(told.status.code(), Some(2), "{typed:?}");
        assert!(stderr(&told).contains(cure), "{typed:?}: {}", stderr(&told));
    }
}

#[test]
fn a_program_in_place_of_a_command_is_told_with_what_to_type() {
    let program = std::env::current_exe().expect("this test");
    let program = program.to_str().expect("UTF-8");
    let told = prof(&[program, "an", "argument"]);
    assert_eq!(told.status.code(), Some(2));
    let typed = format!("prof record -g -- {program} an argument");
    assert!(stderr(&told).contains(&typed), "{}", stderr(&told));
    let told = prof(&["flamegraph", program, "an"]);
    assert_eq!(told.status.code(), Some(2));
    let typed = format!("prof flamegraph -- {program} an");
    assert!(stderr(&told).contains(&typed), "{}", stderr(&told));
    let file = recording();
    let told = prof(&[file.to_str().expect("UTF-8")]);
    assert_eq!(told.status.code(), Some(2));
    assert!(
        stderr(&told).contains("try: prof report "),
        "{}",
        stderr(&told)
    );
    // Words that are no files stay clap's to correct.
    let told = prof(&["reprot"]);
    assert_eq!(told.status.code(), Some(2));
    assert!(stderr(&told).contains("report"), "{}", stderr(&told));
}

#[test]
fn an_argument_that_is_a_recording_is_read() {
    let file = recording();
    let file = file.to_str().expect("UTF-8");
    let named = prof(&["report", "--stdio", "-i", file]);
    assert_eq!(named.status.code(), Some(0), "{}", stderr(&named));
    assert_eq!(stdout(&prof(&["report", "--stdio", file])), stdout(&named));
    let folded = prof(&["flamegraph", "--format", "folded", "-i", file]);
    assert_eq!(
        stdout(&prof(&["flamegraph", "--format", "folded", file])),
        stdout(&folded)
    );
    let annotated = prof(&["annotate", "--stdio", file, "no_such_function"]);
    assert_eq!(annotated.status.code(), Some(1));
    assert!(stderr(&annotated).contains("no_such_function"));
    assert!(!stderr(&annotated).contains("cannot open perf.data"));
}

#[test]
fn any_other_argument_of_report_is_a_part_of_names_as_for_perf() {
    let file = recording();
    let file = file.to_str().expect("UTF-8");
    let rows = |arguments: &[&str]| {
        let shown = stdout(&prof(arguments));
        let rows: Vec<String> = shown
            .lines()
            .filter(|line| !line.starts_with('#') && line.contains('%'))
            .map(str::to_owned)
            .collect();
        rows
    };
    let all = rows(&["report", "--stdio", "-g", "none", "-i", file]);
    let some = rows(&["report", "--stdio", "-g", "none", "-i", file, "start"]);
    assert_eq!(
        some,
        rows(&[
            "report",
            "--stdio",
            "-g",
            "none",
            "--symbol-filter",
            "start",
            file
        ])
    );
    assert!(some.len() < all.len(), "{some:?} {all:?}");
}

#[test]
fn the_help_has_every_name_of_the_json_report() {
    let help = stdout(&prof(&["report", "--help"]));
    let file = recording();
    let shown = prof(&["report", "--json", file.to_str().expect("UTF-8")]);
    let report: serde_json::Value = serde_json::from_slice(&shown.stdout).expect("JSON");
    let readme = include_str!("../README.md");
    let mut open = vec![&report];
    let mut names = 0;
    while let Some(value) = open.pop() {
        match value {
            serde_json::Value::Object(fields) => {
                for (name, value) in fields {
                    // Names of what ends stacks and of sort keys are data.
                    if name == "ends" {
                        continue;
                    }
                    let is_key = ["comm", "symbol"].contains(&name.as_str());
                    let is_told = |text: &str| text.contains(name.as_str());
                    assert!(is_key || (is_told(&help) && is_told(readme)), "{name}");
                    names += 1;
                    open.push(value);
                }
            }
            serde_json::Value::Array(list) => open.extend(list.first()),
            _ => {}
        }
    }
    assert!(names > 40, "{names}");
}

#[test]
fn with_a_command_the_picture_is_in_a_file_and_a_line_says_so() {
    let folder = std::env::temp_dir().join(format!("prof-picture-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a directory");
    let run = |arguments: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_prof"))
            .args(arguments)
            .current_dir(&folder)
            .output()
            .expect("prof starts")
    };
    // At the highest rate (100 kHz) a virtual machine may do nothing but take samples.
    let script = "i=0; while [ $i -lt 90000 ]; do i=$((i+1)); done; echo its own";
    let drawn = run(&["flamegraph", "-F", "9999", "--", "sh", "-c", script]);
    assert_eq!(stdout(&drawn), "its own\n");
    assert!(
        stderr(&drawn).contains("wrote flamegraph.svg; standard output is the command's"),
        "{}",
        stderr(&drawn)
    );
    let picture = std::fs::read_to_string(folder.join("flamegraph.svg")).expect("the picture");
    assert!(picture.contains("<svg"));
    let mixed = run(&["flamegraph", "-o", "-", "--", "echo", "its own"]);
    assert_eq!(mixed.status.code(), Some(2));
    assert_eq!(stdout(&mixed), "");
    std::fs::remove_dir_all(&folder).expect("removed");
}

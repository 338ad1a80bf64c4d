//! Text on terminals: no line is wider, whatever was recorded.

use crate::oracle::{compiled, have, prof, prof_command, scratch};
use crate::tui::terminal::written;
use std::path::PathBuf;

/// A recording of chains that branch at each of 40 levels, of functions with
/// long names.
fn recorded(test: &str) -> Option<PathBuf> {
    if !have(test, "setsid") {
        return None;
    }
    let program = compiled(test, "deep_branches.cc", &["-O1", "-g"])?;
    let path = scratch().join(format!("narrow-{test}.data"));
    let out = path.to_str().expect("UTF-8");
    let program = program.to_str().expect("UTF-8");
    let record = ["record", "-q", "-g", "-F", "2000", "-e", "cpu-clock:u"];
    prof(&[&record[..], &["-o", out, "--", program]].concat()).succeeded("record");
    Some(path)
}

/// What a command writes, and its lines that are too wide.
fn wide(args: &[&str], columns: u16) -> (String, Vec<String>) {
    let mut command = prof_command();
    command.args(args);
    let text = written(command, columns);
    let lines = text.lines();
    let wide = lines.filter(|line| line.chars().count() > usize::from(columns));
    let wide = wide.map(str::to_owned).collect();
    (text, wide)
}

#[test]
fn no_line_is_wider_than_the_terminal() {
    let Some(path) = recorded("no_line_is_wider_than_the_terminal") else {
        return;
    };
    let path = path.to_str().expect("UTF-8");
    let commands: [&[&str]; 7] = [
        &["report", "--stdio", "-i", path],
        &["report", "--stdio", "--no-children", "-i", path],
        &["report", "--stdio", "-s", "dso,sym", "-i", path],
        &["report", "--stdio", "-H", "-i", path],
        &["report", "--missing", "-i", path],
        &["diff", path, path],
        &["diff", "-c", "delta", path, path],
    ];
    for args in commands {
        let (text, wide) = wide(args, 80);
        assert!(text.len() > 100, "{args:?}: {text}");
        assert!(wide.is_empty(), "{args:?}: {wide:#?}");
    }
}

#[test]
fn deep_chains_have_names_on_a_terminal_and_whole_ones_on_demand() {
    let test = "deep_chains_have_names_on_a_terminal_and_whole_ones_on_demand";
    let Some(path) = recorded(test) else {
        return;
    };
    let path = path.to_str().expect("UTF-8");
    let (text, _) = wide(&["report", "--stdio", "-i", path], 80);
    // Frames of the deepest level are drawn with their names, and how many
    // levels are left of them is told.
    let deep = text.lines().filter(|line| line.starts_with('+'));
    let named = deep.filter(|line| line.contains("descend_into")).count();
    assert!(named > 10, "{text}");
    let (text, _) = wide(&["report", "--stdio", "--full-names", "-i", path], 80);
    let name = "Storage<std::__cxx11::basic_string<char, std::char_traits<char>";
    assert!(text.contains(name), "{text}");
}

#[test]
fn a_terminal_that_cannot_be_drawn_on_gets_text() {
    let test = "a_terminal_that_cannot_be_drawn_on_gets_text";
    let Some(path) = recorded(test) else {
        return;
    };
    for term in ["dumb", ""] {
        let mut command = prof_command();
        command.arg("report").arg("-i").arg(&path).env("TERM", term);
        let text = written(command, 100);
        assert!(text.contains("Shared Object"), "{term:?}: {text}");
        // Nor lines of progress that would be drawn over.
        assert!(!text.contains("\x1b["), "{term:?}: {text:?}");
    }
}

#[test]
fn a_recording_of_counts_is_for_another_command() {
    let path = scratch().join("counts-for-report.data");
    let path = path.to_str().expect("UTF-8");
    prof(&[
        "stat",
        "record",
        "-o",
        path,
        "-e",
        "page-faults:u",
        "--",
        "true",
    ])
    .succeeded("stat record");
    for command in ["report", "script", "annotate"] {
        let run = prof(&[command, "-i", path]);
        assert!(
            run.stderr.contains("try: prof stat report"),
            "{command}: {}",
            run.stderr
        );
    }
}

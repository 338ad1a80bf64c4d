//! The frame around all commands: help, versions, refusals, exit codes.

use crate::oracle::{prof, prof_command};
use std::fs::File;

#[test]
fn help_and_version_go_to_stdout_and_exit_0() {
    let help = prof(&["--help"]).succeeded("prof --help");
    assert!(help.text().contains("Usage: prof"), "{}", help.text());
    let version = prof(&["--version"]).succeeded("prof --version");
    assert!(version.text().starts_with("prof "), "{}", version.text());
}

#[test]
fn help_that_cannot_be_written_exits_1() {
    for args in [
        &["--help"][..],
        &["--version"],
        &["record", "--help"],
        &["stat", "-h"],
    ] {
        let full = File::options().write(true).open("/dev/full");
        let refused = prof_command()
            .args(args)
            .stdout(full.expect("the device of Linux"))
            .output()
            .expect("prof starts");
        assert_eq!(refused.status.code(), Some(1), "{args:?}: {refused:?}");
        let told = String::from_utf8_lossy(&refused.stderr);
        assert!(told.contains("cannot write to standard output"), "{told}");
    }
}

#[test]
fn an_unknown_command_or_option_exits_2_and_is_named() {
    for args in [&["frobnicate"][..], &["--frobnicate"][..]] {
        let refused = prof(args);
        assert_eq!(refused.code, 2, "{}", refused.stderr);
        assert!(refused.stderr.contains("frobnicate"), "{}", refused.stderr);
        assert!(refused.stdout.is_empty());
    }
}

#[test]
fn a_program_in_the_wrong_place_is_answered_with_the_line_to_type() {
    for (args, line) in [
        (vec!["/bin/true", "-x"], "prof record -g -- /bin/true -x"),
        (vec!["ab", "/bin/true"], "prof ab -- /bin/true"),
        (vec!["top"], "prof record -a -g --duration 10"),
    ] {
        let refused = prof(&args);
        assert_eq!(refused.code, 2, "{args:?}: {}", refused.stderr);
        let told = refused.stderr.contains(&format!("try: {line}"));
        assert!(told, "{args:?}: {}", refused.stderr);
    }
    // An option that is none is named as elsewhere.
    let refused = prof(&["ab", "--no-such", "--", "true"]);
    let named = refused.stderr.contains("unexpected argument '--no-such'");
    assert!(named, "{}", refused.stderr);
}

#[test]
fn views_that_exclude_each_other_are_refused_by_name() {
    let instead = [
        "--missing",
        "--locks",
        "--wakers",
        "--critical-path",
        "--what-if=a=-1%",
    ];
    let other = ["--total-cycles", "--stats", "--tasks", "--mmaps"];
    for view in instead.iter().chain(&other) {
        for page in [&["--web"][..], &["--firefox"], &["--diff", "a", "b"]] {
            let refused = prof(&[&["report", view], page].concat());
            assert_eq!(refused.code, 2, "{view} {page:?}: {}", refused.stderr);
            let is_told = refused.stderr.contains("cannot be used with");
            assert!(is_told, "{view} {page:?}: {}", refused.stderr);
        }
    }
}

/// What would choose from the tables of one recording is not ignored where two
/// are compared.
#[test]
fn what_is_of_one_recording_is_refused_beside_diff() {
    let of_one = [
        &["-i", "c"][..],
        &["c"],
        &["-H"],
        &["-s", "dso"],
        &["-F", "sample"],
        &["-g", "caller"],
        &["-b"],
        &["--comms", "a"],
        &["--tid", "1"],
        &["--time", "0,1"],
        &["--percent-limit", "1"],
    ];
    for other in of_one {
        let refused = prof(&[&["report", "--diff", "a", "b"], other].concat());
        assert_eq!(refused.code, 2, "{other:?}: {}", refused.stderr);
        let is_told = refused.stderr.contains("cannot be used with");
        assert!(is_told, "{other:?}: {}", refused.stderr);
    }
}

//! Each option of perf's commands is either ours too or refused by name with a
//! reason: never a bare usage error, never ignored. perf's own `-h` is the list.

use crate::oracle::{have, perf_at, perfs, prof};
use std::collections::BTreeSet;

const COMMANDS: &[&str] = &[
    "annotate",
    "buildid-list",
    "evlist",
    "inject",
    "list",
    "record",
    "report",
    "script",
    "stat",
];

/// `-x` and `--name` of each line of perf's help that tells an option.
fn options_in(help: &str) -> BTreeSet<String> {
    let mut options = BTreeSet::new();
    for line in help.lines() {
        let words = line.split_whitespace();
        for word in words.take_while(|word| word.starts_with('-')) {
            let name = word.trim_end_matches(',');
            let end = name.find(['[', '=', '<']).unwrap_or(name.len());
            options.extend(name.get(..end).map(str::to_owned));
        }
    }
    options
}

#[test]
fn every_option_of_perfs_is_known_or_refused_with_a_reason() {
    let test = "every_option_of_perfs_is_known_or_refused_with_a_reason";
    if !have(test, "perf") {
        return;
    }
    let mut unknown = Vec::new();
    for command in COMMANDS {
        let mut options = BTreeSet::new();
        for perf in perfs(test) {
            let help = perf_at(&perf, &[command, "-h"]);
            options.extend(options_in(&help.text()));
            options.extend(options_in(&help.stderr));
        }
        assert!(options.len() >= 5, "{command} -h lists {options:?}");
        for option in options {
            // Behind a known option, help ends what is read.
            let told = prof(&[*command, &option, "--help"]);
            if told.stderr.contains("unexpected argument") {
                unknown.push(format!("{command} {option}"));
            }
        }
    }
    assert!(unknown.is_empty(), "not known: {}", unknown.join(", "));
}

#[test]
fn options_are_read_off_perfs_help() {
    let help = "\n Usage: perf x [<options>]\n\n    -a, --all-cpus        all -b CPUs\n        \
        --call-trace[=...]\n    -e, --event <event>   selector\n";
    let options = options_in(help);
    let expected = ["--all-cpus", "--call-trace", "--event", "-a", "-e"];
    assert!(options.iter().eq(expected), "{options:?}");
}

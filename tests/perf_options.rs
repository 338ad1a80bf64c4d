//! Each option of perf's commands is either ours too or refused by name with a
//! reason: never a bare usage error, never ignored. perf's own `-h` is the list.

use crate::oracle::{have, perf_at, perfs, prof, scratch};
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

/// Options that perf takes and we take for perf's sake, which is said.
const TAKEN: [&str; 7] = [
    "--aio=2",
    "--mmap-flush=1M",
    "--no-buffering",
    "--num-thread-synthesize=2",
    "--off-cpu-thresh=10",
    "--proc-map-timeout=1000",
    "--threads=cpu",
];

#[test]
fn what_changes_nothing_is_taken_and_said() {
    let folder = tempfile::tempdir_in(scratch()).expect("a folder");
    let output = folder.path().join("perf.data");
    let output = output.to_str().expect("a plain name");
    let args = [
        &["record", "-e", "task-clock:u", "-o", output],
        &TAKEN[..],
        &["true"],
    ]
    .concat();
    // User space of one's own program may be sampled by everybody.
    let recorded = prof(&args).succeeded("record");
    for option in TAKEN {
        let name = option.split('=').next().unwrap_or_default();
        let told = format!("{name} changes nothing: ");
        assert!(
            recorded.stderr.contains(&told),
            "{name}: {}",
            recorded.stderr
        );
    }
    let quiet = prof(&[&args[..1], &["-q"], &args[1..]].concat()).succeeded("record -q");
    assert!(quiet.stderr.is_empty(), "{}", quiet.stderr);
}

#[test]
fn a_dry_run_writes_nothing_and_refuses_what_is_wrong() {
    let folder = tempfile::tempdir_in(scratch()).expect("a folder");
    let output = folder.path().join("perf.data");
    let name = output.to_str().expect("a plain name");
    let made = folder.path().join("made");
    let made_name = made.to_str().expect("a plain name");
    let dry = ["record", "--dry-run", "-o", name, "-e"];
    prof(&[&dry[..], &["cpu-clock", "touch", made_name]].concat()).succeeded("a dry run");
    // perf takes what begins no other of its options; --every is ours.
    for short in ["--ev", "--eve"] {
        let args = ["record", "--dry-run", short, "cpu-clock", "true"];
        prof(&args).succeeded(short);
    }
    assert!(!output.exists() && !made.exists());
    let wrong = prof(&[&dry[..], &["no-such-event", "true"]].concat());
    assert_eq!(wrong.code, 2, "{}", wrong.stderr);
}

#[test]
fn what_perf_lets_take_back_can_be_taken_back() {
    let test = "what_perf_lets_take_back_can_be_taken_back";
    if !have(test, "perf") {
        return;
    }
    let mut unknown = Vec::new();
    let mut asked = 0;
    for command in COMMANDS {
        for perf in perfs(test) {
            let help = perf_at(&perf, &[command, "-h"]);
            for option in flags_in(&format!("{}{}", help.text(), help.stderr)) {
                let other = match option.strip_prefix("--no-") {
                    Some(positive) => format!("--{positive}"),
                    None => format!("--no-{}", option.trim_start_matches("--")),
                };
                let theirs = perf_at(&perf, &[*command, &other, "-h"]);
                let theirs = format!("{}{}", theirs.text(), theirs.stderr);
                if theirs.contains("unknown option") || theirs.contains("isn't available") {
                    continue;
                }
                asked += 1;
                let told = prof(&[*command, &other, "--help"]);
                if told.stderr.contains("unexpected argument") {
                    unknown.push(format!("{command} {other}"));
                }
            }
        }
    }
    assert!(asked > 100, "{asked}");
    assert!(unknown.is_empty(), "not known: {}", unknown.join(", "));
}

/// The long names of options of perf's help that take no value.
fn flags_in(help: &str) -> BTreeSet<String> {
    let is_flag = |line: &&str| {
        let line = line.trim_start();
        let described = line.find("  ").unwrap_or(line.len());
        let named = line.get(..described).unwrap_or_default();
        line.starts_with('-') && !named.contains(['<', '['])
    };
    let names = help.lines().filter(is_flag).map(options_in);
    let long = |name: &String| name.starts_with("--");
    names.flatten().filter(long).collect()
}

#[test]
fn options_are_read_off_perfs_help() {
    let help = "\n Usage: perf x [<options>]\n\n    -a, --all-cpus        all -b CPUs\n        \
        --call-trace[=...]\n    -e, --event <event>   selector\n";
    let options = options_in(help);
    let expected = ["--all-cpus", "--call-trace", "--event", "-a", "-e"];
    assert!(options.iter().eq(expected), "{options:?}");
}

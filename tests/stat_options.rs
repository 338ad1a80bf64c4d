//! Options of `prof stat` beside those of perf stat.

use crate::oracle::{Finished, have, may_record_all, perf, prof, prof_command, skipped};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Fields of each separated line, with each number replaced, and without what
/// depends on its size: the unit of a rate.
fn shape(run: &Finished) -> Vec<String> {
    let field = |field: &str| {
        let is_number = field.trim().trim_end_matches('%').parse::<f64>().is_ok();
        let is_rate = field.ends_with("/sec");
        let shown = if is_number { "N" } else { field.trim() };
        if is_rate {
            "RATE".to_owned()
        } else {
            shown.to_owned()
        }
    };
    let lines = run.stderr.lines().filter(|line| line.contains(','));
    lines
        .map(|line| line.split(',').map(field).collect::<Vec<_>>().join(","))
        .collect()
}

#[test]
fn separated_lines_are_perfs_in_every_mode() {
    let test = "separated_lines_are_perfs_in_every_mode";
    if !have(test, "perf") || !may_record_all(test) {
        return;
    }
    for options in [
        &["-a"][..],
        &["-a", "-A"],
        &["-C", "0"],
        &["-a", "--per-core"],
        &["-a", "--per-die"],
        &["-a", "--per-socket"],
        &["-a", "--per-node"],
        &["-a", "--for-each-cgroup", "/"],
        &["-a", "-G", "/"],
        &["-r", "3"],
        &["-d", "-d", "-d"],
        &["--all-user"],
        &["--all-kernel"],
        &["-i"],
    ] {
        let has_events = !options.contains(&"-d");
        // What only the kernel sees has no count in user space, where perf has 0.
        let events = match options {
            ["--all-user"] => ["-e", "cpu-clock,page-faults,cycles,instructions"],
            _ => ["-e", "cpu-clock,page-faults,cs,cycles,instructions"],
        };
        let events = if has_events { &events[..] } else { &[] };
        // -G is for the events before it.
        let args = [&["stat", "-x,"], events, options, &["sleep", "0.05"]].concat();
        let (ours, theirs) = (prof(&args), perf(&args));
        assert_eq!(shape(&ours), shape(&theirs), "{options:?}");
        assert!(!shape(&ours).is_empty(), "{options:?}: {}", ours.stderr);
    }
}

/// The keys of each object, in their order.
fn keys(run: &Finished) -> Vec<Vec<String>> {
    let lines = run.stderr.lines().filter(|line| line.starts_with('{'));
    let keys = lines.map(|line| {
        // In perf's order, which an object does not keep.
        let parts = line
            .split(" : ")
            .map(|part| part.rsplit('"').nth(1).unwrap_or_default());
        let mut keys: Vec<_> = parts.map(str::to_owned).collect();
        keys.pop();
        assert!(
            serde_json::from_str::<serde_json::Value>(line).is_ok(),
            "{line}"
        );
        keys
    });
    keys.collect()
}

#[test]
fn json_has_perfs_keys_in_perfs_order() {
    let test = "json_has_perfs_keys_in_perfs_order";
    if !have(test, "perf") || !may_record_all(test) {
        return;
    }
    for options in [
        &["-a", "-A"][..],
        &["-a", "--per-core"],
        &["-a", "--per-socket"],
        &["-a", "--for-each-cgroup", "/"],
        &["-a", "-I", "20", "--interval-count", "1"],
        &["-r", "2"],
    ] {
        let events = ["-e", "cpu-clock,page-faults,cycles"];
        let args = [&["stat", "-j"], &events[..], options, &["sleep", "0.1"]].concat();
        let (ours, theirs) = (prof(&args), perf(&args));
        assert_eq!(keys(&ours), keys(&theirs), "{options:?}");
    }
}

#[test]
fn headings_of_intervals_are_perfs() {
    let test = "headings_of_intervals_are_perfs";
    if !have(test, "perf") || !may_record_all(test) {
        return;
    }
    for mode in [
        "-a",
        "-A",
        "--per-core",
        "--per-die",
        "--per-socket",
        "--per-node",
    ] {
        let args = ["stat", "-a", mode, "-I", "20", "--interval-count", "1"];
        let args = [&args[..], &["-e", "page-faults", "sleep", "1"]].concat();
        let first = |run: &Finished| run.stderr.lines().next().unwrap_or_default().to_owned();
        assert_eq!(first(&prof(&args)), first(&perf(&args)), "{mode}");
    }
}

/// Options of which each asks the kernel for something else, for every user.
const ASKED: [&str; 5] = [
    "-e page-faults:u,cycles:u",
    "-e {page-faults:u,cpu-clock:u}",
    "-i -e page-faults:u",
    "--all-user -e page-faults",
    "-D 1 -e page-faults:u",
];

/// Options of which each asks the kernel for something else, for root.
const ASKED_BY_ROOT: [&str; 24] = [
    "-e cpu-clock,page-faults,cs",
    "-e cpu-clock:k,cs",
    "-e page-faults:D,task-clock",
    "-e page-faults:u",
    "-e cpu-clock:k --all-user",
    "-e page-faults:u --all-kernel",
    "-e cs,page-faults:k --all-kernel -a",
    "-e page-faults:uk --all-user",
    "-e cpu-clock:G,cs:H",
    "-e {page-faults,cs}",
    "-e {cs,page-faults}:e -a",
    "-e page-faults,cs -g",
    "-e page-faults,cs -g -i",
    "-e cs/name=x/,dummy",
    "-e page-faults/period=3/",
    "-e mem:0x1000:w,page-faults -i",
    "-e sched:sched_switch,cs -a",
    "-e raw_syscalls:sys_enter --all-user",
    "-e cpu-clock -a -A -I 20",
    "-e cpu-clock,cs -C 0 --no-scale",
    "-e cpu-clock --per-core -a",
    "-e cs -D 1",
    "-e {task-clock,page-faults:u} --timeout 20",
    "-d",
];

/// Modifiers with which one of perf 6.1 and `prof stat` takes guests out and the
/// other does not: 6.1 does with `:u`, unlike newer ones; no perf does with `:D`.
const OF_GUESTS: [&str; 3] = [":u", ":uk", ":D"];

/// The attrs that are asked for; `None` where nobody may look.
fn asked(program: &str, options: &str) -> Option<BTreeSet<String>> {
    // A file for each process: in one, lines of several are mixed.
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("trace");
    let run = Command::new("strace")
        .args(["-ff", "-v", "-e", "trace=perf_event_open", "-o"])
        .arg(&trace)
        .args([program, "stat", "-o", "/dev/null"])
        .args(options.split(' '))
        .args(["sleep", "0.02"])
        .output()
        .expect("strace starts");
    if String::from_utf8_lossy(&run.stderr).contains("ptrace(PTRACE_TRACEME") {
        return None;
    }
    let files = std::fs::read_dir(folder.path()).expect("ours").flatten();
    let texts = files.map(|file| std::fs::read_to_string(file.path()).expect("text"));
    let traced: String = texts.collect();
    let calls = traced
        .lines()
        .filter_map(|line| line.split_once("perf_event_open({"));
    let attrs = calls.filter_map(|(_, call)| call.split_once('}'));
    let is_of_guests = |word: &str| {
        OF_GUESTS
            .iter()
            .any(|it| word.trim_end_matches('}').ends_with(it))
    };
    let leaves_guests = options.split([' ', ',']).any(is_of_guests);
    // Zeros are the same whatever the size of the attr.
    let attrs = attrs.map(|(attr, _)| {
        let set = attr.split(", ").filter(|field| {
            let is_left_out = leaves_guests && *field == "exclude_guest=1";
            !field.contains("=0") && !field.starts_with("size=") && !is_left_out
        });
        set.collect::<Vec<_>>().join(", ")
    });
    // perf tries what the kernel has before it opens an event.
    Some(attrs.filter(|attr| attr.contains("TOTAL_TIME")).collect())
}

#[test]
fn the_kernel_is_asked_for_what_perf_asks() {
    let test = "the_kernel_is_asked_for_what_perf_asks";
    if !have(test, "perf") || !have(test, "strace") {
        return;
    }
    let is_root = may_record_all(test);
    let by_root = ASKED_BY_ROOT.iter().filter(|_| is_root);
    for options in ASKED.iter().chain(by_root) {
        let ours = asked(env!("CARGO_BIN_EXE_prof"), options);
        let theirs = asked("perf", options);
        if ours.is_none() {
            return skipped(test, "ptrace is not permitted");
        }
        assert!(
            ours.as_ref().is_some_and(|attrs| !attrs.is_empty()),
            "{options}"
        );
        assert_eq!(ours, theirs, "{options}");
    }
}

#[test]
fn intervals_and_the_summary_add_up_exactly() {
    let script = "i=0; while [ $i -lt 60 ]; do /bin/true; i=$((i+1)); done";
    let args = [
        "stat",
        "-x,",
        "-I",
        "20",
        "--summary",
        "-e",
        "page-faults:u",
        "sh",
        "-c",
        script,
    ];
    let run = prof(&args);
    // The command may not get a CPU within an interval.
    let count = |fields: &[&str]| match fields[1] {
        "<not counted>" => 0,
        counted => counted.parse::<u64>().expect("a count"),
    };
    let lines: Vec<Vec<&str>> = run
        .stderr
        .lines()
        .map(|line| line.split(',').collect())
        .collect();
    let (summary, intervals) = lines.split_last().expect("lines");
    assert_eq!(summary[0].trim(), "summary");
    assert!(intervals.len() >= 2, "{lines:?}");
    let sum: u64 = intervals.iter().map(|fields| count(fields)).sum();
    assert_eq!(sum, count(summary), "{lines:?}");
    let args = [&["stat", "--no-csv-summary"], &args[1..]].concat();
    assert!(!prof(&args).stderr.contains("summary"));
}

#[test]
fn counting_waits_for_a_word_and_answers_it() {
    let test = "counting_waits_for_a_word_and_answers_it";
    if !have(test, "mkfifo") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (orders, answers) = (folder.path().join("ctl"), folder.path().join("ack"));
    let made = Command::new("mkfifo").args([&orders, &answers]).status();
    assert!(made.expect("mkfifo starts").success());
    let both = |path| {
        std::fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
    };
    let mut orders_end = both(&orders).expect("a FIFO");
    let mut answers_end = BufReader::new(both(&answers).expect("a FIFO"));
    let control = format!("fifo:{},{}", orders.display(), answers.display());
    for is_enabled in [true, false] {
        let mut stat = prof_command()
            .args(["stat", "-x,", "-D", "-1", "--control", &control])
            .args([
                "-e",
                "page-faults:u",
                "sh",
                "-c",
                "read line; exec /bin/true",
            ])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("prof starts");
        let order = if is_enabled { "enable\n" } else { "ping\n" };
        orders_end.write_all(order.as_bytes()).expect("written");
        let mut answer = Vec::new();
        answers_end.read_until(0, &mut answer).expect("read");
        assert_eq!(answer, b"ack\n\0");
        drop(stat.stdin.take());
        let run = Finished::from(stat.wait_with_output().expect("ends"));
        if run.stderr.contains("not permitted") {
            return skipped(test, &run.stderr);
        }
        let is_said = run.stderr.contains("Events enabled\n");
        assert_eq!(is_said, is_enabled, "{}", run.stderr);
        let counts = run.stderr.lines().find(|line| line.contains(','));
        let first = counts
            .and_then(|line| line.split(',').next())
            .unwrap_or_default();
        let counted = first.parse::<u64>().is_ok_and(|count| count > 0);
        assert_eq!(counted, is_enabled, "{}", run.stderr);
        assert!(is_enabled || first == "<not counted>", "{}", run.stderr);
    }
}

#[test]
fn cgroups_are_named_by_patterns_as_for_perf() {
    let test = "cgroups_are_named_by_patterns_as_for_perf";
    let none = prof(&["stat", "-a", "--for-each-cgroup", "no.such[0-9]", "true"]);
    assert_eq!(none.code, 2, "{}", none.stderr);
    assert!(
        none.stderr.contains("no cgroup is named so"),
        "{}",
        none.stderr
    );
    let mounts = ["perf_event", "unified", ""].map(|it| Path::new("/sys/fs/cgroup").join(it));
    let is_cgroup = |mount: &&PathBuf| mount.join("cgroup.procs").exists();
    let Some(mount) = mounts.iter().find(is_cgroup) else {
        return skipped(test, "there are no cgroups");
    };
    let names = ["prof-pattern-a", "prof-pattern-b"];
    let folders = names.map(|name| mount.join(name));
    if let Some(error) = folders.iter().find_map(|it| std::fs::create_dir(it).err()) {
        return skipped(test, &error.to_string());
    }
    let arguments = ["stat", "-x,", "-a", "-e", "cpu-clock", "--for-each-cgroup"];
    let run = |pattern: &str| {
        let arguments = [&arguments[..], &[pattern, "true"]].concat();
        [prof(&arguments), perf(&arguments)].map(|run| {
            let lines = run.stderr.lines();
            let named = lines.filter_map(|line| line.split(',').nth(3).map(str::to_owned));
            named.collect::<Vec<_>>()
        })
    };
    let runs = ["^prof-pattern", "pattern-b$,pattern-a"].map(run);
    folders
        .iter()
        .for_each(|it| std::fs::remove_dir(it).expect("ours"));
    assert_eq!(runs[0][0], names);
    assert_eq!(runs[1][0], [names[1], names[0]]);
    if have(test, "perf") {
        for [mut ours, mut theirs] in runs {
            // perf takes them as directories have them.
            ours.sort();
            theirs.sort();
            assert_eq!(ours, theirs);
        }
    }
}

#[test]
fn descriptors_that_nobody_writes_to_hold_nobody() {
    let test = "descriptors_that_nobody_writes_to_hold_nobody";
    let prof = prof_command();
    let script = r#"set -e; cd "$1"; mkfifo c a; exec 8<>c 9<>a
        timeout -s KILL 20 "$0" stat -x, -e page-faults:u --control fd:8,9 -- true"#;
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new("sh");
    command.args(["-c", script]).arg(prof.get_program());
    command.arg(folder.path());
    let run = Finished::from(command.output().expect("sh starts"));
    if run.stderr.contains("not permitted") {
        return skipped(test, &run.stderr);
    }
    let counted = run
        .stderr
        .lines()
        .any(|line| line.contains("page-faults:u"));
    assert!(run.code == 0 && counted, "{}", run.stderr);
}

#[test]
fn metrics_follow_from_the_counts_beside_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let table = r#"[{"MetricName": "share", "ScaleUnit": "2halves",
        "MetricExpr": "page\\-faults:u / (minor\\-faults:u + 1)", "MetricGroup": "Mine"}]"#;
    std::fs::write(folder.path().join("m.json"), table).expect("written");
    let directory = folder.path().to_str().expect("a plain name");
    let args = [
        "stat",
        "-x,",
        "-M",
        "Mine",
        "--metrics-dir",
        directory,
        "true",
    ];
    let run = prof(&args).succeeded("prof stat -M");
    let lines: Vec<Vec<&str>> = run
        .stderr
        .lines()
        .map(|line| line.split(',').collect())
        .collect();
    let count = |name: &str| {
        let line = lines.iter().find(|fields| fields[2] == name);
        let line = line.unwrap_or_else(|| panic!("{name} in {lines:?}"));
        line[0].parse::<f64>().expect("a count")
    };
    let expected = 2.0 * count("page-faults:u") / (count("minor-faults:u") + 1.0);
    let shown = lines.iter().find(|fields| fields[6].contains("share"));
    let shown = shown.unwrap_or_else(|| panic!("{lines:?}"));
    assert_eq!(shown[5], format!("{expected:.1}"), "{lines:?}");
    let none = prof(&["stat", "-M", "Mine", "true"]);
    assert_eq!(none.code, 2);
    for words in ["publishes no metrics", "--metrics-dir"] {
        assert!(none.stderr.contains(words), "{}", none.stderr);
    }
    let unknown = prof(&["stat", "-M", "Ours", "--metrics-dir", directory, "true"]);
    assert_eq!(unknown.code, 1);
    assert!(unknown.stderr.contains("share"), "{}", unknown.stderr);
}

#[test]
fn what_fits_no_selection_says_what_does() {
    for (args, words) in [
        (&["stat", "-A", "true"][..], "with -a"),
        (&["stat", "--per-core", "-p", "1", "true"], "with -a"),
        (&["stat", "--for-each-cgroup", "/", "true"], "with -a"),
        (&["stat", "--per-thread", "true"], "-p, -t or -a"),
        (&["stat", "--table", "true"], "-r 5"),
        (&["stat", "--append", "true"], "-o FILE"),
        (
            &["stat", "-a", "--per-core", "--per-socket", "true"],
            "one --per",
        ),
    ] {
        let refused = prof(args);
        assert_eq!(refused.code, 2, "{args:?}: {}", refused.stderr);
        assert!(
            refused.stderr.contains(words),
            "{args:?}: {}",
            refused.stderr
        );
    }
}

#[test]
fn commands_around_each_run_are_run_and_their_failure_is_told() {
    let args = [
        "stat",
        "-n",
        "-r",
        "2",
        "--pre",
        "echo before",
        "--post",
        "echo behind",
        "echo run",
    ];
    let run = prof(&[&args[..8], &["echo", "run"]].concat()).succeeded("prof stat --pre");
    assert_eq!(run.text(), "before\nrun\nbehind\n".repeat(2));
    let failed = prof(&["stat", "-n", "--pre", "false", "true"]);
    assert_eq!(failed.code, 1);
    assert!(failed.stderr.contains("false failed"), "{}", failed.stderr);
    let behind = prof(&["stat", "-r", "3", "-e", "cs:u", "--post", "false", "true"]);
    assert_eq!(behind.code, 1);
    for words in ["false failed", "cs:u", "seconds time elapsed"] {
        assert!(behind.stderr.contains(words), "{}", behind.stderr);
    }
    assert_eq!(prof(&["stat", "--quiet", "-e", "cs:u", "true"]).stderr, "");
}

#[test]
fn a_cpu_that_is_not_there_is_named() {
    let run = prof(&["stat", "-C", "0,4095", "-e", "cpu-clock", "true"]);
    assert_eq!(run.code, 1, "{}", run.stderr);
    for words in ["CPU 4095 is not online", "online are: 0"] {
        assert!(run.stderr.contains(words), "{}", run.stderr);
    }
}

/// perf runs the command as often, but shows intervals of its first run only.
#[test]
fn each_run_has_intervals() {
    let command = ["sh", "-c", "echo run; sleep 0.1"];
    let options = ["stat", "-r", "2", "-I", "40", "-e", "page-faults:u", "-x,"];
    let run = prof(&[&options[..], &command].concat()).succeeded("prof stat -r -I");
    assert_eq!(run.text(), "run\nrun\n");
    let lines: Vec<Vec<&str>> = run
        .stderr
        .lines()
        .map(|line| line.split(',').collect())
        .collect();
    let times = lines
        .iter()
        .map(|line| line[0].trim().parse::<f64>().expect("a time"));
    let times: Vec<f64> = times.collect();
    let starts = times.windows(2).filter(|pair| pair[1] < pair[0]).count();
    assert_eq!(starts, 1, "{times:?}");
    // The field of the spread, as perf's.
    assert!(lines.iter().all(|line| line[4] == "0.00%"), "{lines:?}");
    let some = [&options[..], &["--interval-count", "1"], &command].concat();
    let some = prof(&some);
    assert_eq!(some.stderr.lines().count(), 2, "{}", some.stderr);
}

#[test]
fn what_perf_takes_together_is_taken() {
    let counts = |options: &[&str]| {
        let run = prof(&[&["stat"], options, &["-e", "page-faults:u", "true"]].concat());
        run.succeeded(&options.join(" ")).stderr
    };
    // Shells hand these two characters on.
    let tabs = counts(&["-x", r"\t"]);
    assert!(tabs.contains("\t\tpage-faults:u\t"), "{tabs}");
    assert!(counts(&["-j", "-x,"]).starts_with('{'));
    assert!(counts(&["-n"]).contains("page-faults:u"));
    assert!(counts(&["-I", "0"]).contains("Performance counter stats"));
    assert!(counts(&["--affinity", "--no-affinity", "-x,"]).contains(",,page-faults:u,"));
}

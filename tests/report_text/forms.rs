//! Other forms than rows, and what is said where nothing can be shown.

use super::{compare, recordings};
use crate::oracle::{have, prof};
use std::path::PathBuf;

/// What is shown instead of rows.
const INSTEAD: &[&str] = &["--stats", "--tasks", "--mmaps"];

#[test]
fn what_is_shown_instead_of_rows_equals_perfs() {
    let test = "what_is_shown_instead_of_rows_equals_perfs";
    let Some(files) = recordings(test) else {
        return;
    };
    // After an exec perf still lists what the old program had mapped.
    let without_exec = |file: &&PathBuf| !file.to_string_lossy().contains("report-shell");
    let mapped: Vec<PathBuf> = files.iter().filter(without_exec).cloned().collect();
    compare(files, &INSTEAD[..2]);
    compare(&mapped, &INSTEAD[2..]);
    // What is known of the machine comes before either.
    let path = files[0].to_str().expect("a path of ours");
    let said = |options: &[&str]| {
        let args = [&["report", "-i", path], options].concat();
        prof(&args).succeeded("prof report").text()
    };
    for instead in INSTEAD {
        let both = [said(&["--header-only"]), said(&[instead])].concat();
        assert_eq!(said(&[instead, "--header"]), both);
    }
}

#[test]
fn every_form_holds_the_same_numbers_and_the_trust_line() {
    let test = "every_form_holds_the_same_numbers_and_the_trust_line";
    let Some(files) = recordings(test) else {
        return;
    };
    let path = files[0].to_str().expect("a path of ours");
    let json = prof(&["report", "--json", "-i", path])
        .succeeded("--json")
        .text();
    let json: serde_json::Value = serde_json::from_str(&json).expect("valid JSON");
    let event = &json["events"][0];
    let whole = event["total"]["period"].as_u64().expect("a number");
    let own = |list: &serde_json::Value| -> u64 {
        let list = list.as_array().expect("a list").iter();
        list.map(|node| node["self"]["period"].as_u64().expect("a number"))
            .sum()
    };
    assert_eq!(own(&event["rows"]), whole);
    assert_eq!(own(&event["tree"]), whole);
    let folded = prof(&["flamegraph", "--format", "folded", "-i", path])
        .succeeded("folded")
        .text();
    let folded: u64 = folded
        .lines()
        .map(|line| {
            line.rsplit(' ')
                .next()
                .expect("a weight")
                .parse::<u64>()
                .expect("a number")
        })
        .sum();
    assert_eq!(folded, whole);
    let summary = json["trust"]["summary"].as_str().expect("a text");
    let text = prof(&["report", "--stdio", "-i", path])
        .succeeded("--stdio")
        .text();
    assert!(text.starts_with(&format!("# {summary}\n")), "{text:.300}");
    let svg = prof(&["flamegraph", "-i", path])
        .succeeded("flamegraph")
        .text();
    assert!(svg.starts_with("<?xml") && svg.contains("lost, "));
}

#[test]
fn output_is_the_same_for_any_number_of_threads() {
    let test = "output_is_the_same_for_any_number_of_threads";
    let Some(files) = recordings(test) else {
        return;
    };
    let path = files[1].to_str().expect("a path of ours");
    for args in [
        ["report", "--stdio"],
        ["report", "--json"],
        ["flamegraph", "--format=svg"],
    ] {
        let run = |threads: &str| {
            let mut command = crate::oracle::prof_command();
            command
                .args(args)
                .args(["-i", path])
                .env("RAYON_NUM_THREADS", threads);
            command.output().expect("prof starts").stdout
        };
        let one = run("1");
        assert!(!one.is_empty());
        assert!(one == run("3"), "{args:?}");
    }
}

#[test]
fn what_cannot_be_shown_is_told_with_what_would_work() {
    let test = "what_cannot_be_shown_is_told_with_what_would_work";
    let Some(files) = recordings(test) else {
        return;
    };
    let path = files[0].to_str().expect("a path of ours");
    let said = |args: &[&str]| {
        let mut command = crate::oracle::prof_command();
        let output = command
            .args(args)
            .args(["-i", path])
            .output()
            .expect("prof starts");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), errors)
    };
    let (code, errors) = said(&["report", "-s", "nonsense"]);
    assert_eq!(code, Some(2), "{errors}");
    assert!(
        errors.contains("nonsense") && errors.contains("srcline"),
        "{errors}"
    );
    let (code, errors) = said(&["report", "--time", "later"]);
    assert_eq!(code, Some(2), "{errors}");
    assert!(errors.contains("START,STOP"), "{errors}");
    let (code, errors) = said(&["report", "-S", "lea"]);
    assert_eq!(code, Some(0), "{errors}");
    assert!(
        errors.contains("no function") && errors.contains("leaf"),
        "{errors}"
    );
    for (filter, told) in [
        (&["-c", "nobody"][..], "there are: calls"),
        (&["-d", "libc"], "libc.so.6"),
        (&["--pid", "1"], "process --pid 1; there are: "),
        (&["--tid", "1,2"], "thread --tid 1, 2; there are: "),
        (&["-C", "0"], "record with --sample-cpu"),
        (&["--time", "1,2"], "they are from "),
        (&["-d", "libc.so.6", "-S", "leaf"], "leave one of them out"),
        (&["-p", "("], "unclosed group"),
        (&["-x"], "say which with -p"),
        (&["--symbol-filter", "nowhere"], "in its name; there are: "),
        (&["--kallsyms", "/nowhere"], "a copy of /proc/kallsyms"),
        (&["-k", "/nowhere"], "give the vmlinux of"),
        (&["--symfs", "/nowhere"], "stands for the /"),
        (&["-w", "8,wide"], "such as 8,20,30"),
        (&["--max-stack", "all"], "such as 16"),
        (&["-D"], "use prof dump"),
        (&["--parallelism", "2"], "record with --switch-events"),
        (&["--ignore-callees=("], "unclosed group"),
        (&["-F", "nonsense"], "overhead_children"),
        (&["-g", "nonsense"], "fractal"),
        (&["--percent-limit", "200"], "from 0 to 100"),
    ] {
        let (_, errors) = said(&[&["report", "--stdio"], filter].concat());
        assert!(errors.contains(told), "{filter:?}: {errors}");
    }
    let (code, errors) = said(&["annotate", "lea"]);
    assert_ne!(code, Some(0), "{errors}");
    assert!(errors.contains("leaf"), "{errors}");
    let (code, errors) = said(&["flamegraph", "-c", "nobody"]);
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("nothing to draw"), "{errors}");
}

#[test]
fn unnamed_places_in_kernel_modules_are_those_of_the_file() {
    let test = "unnamed_places_in_kernel_modules_are_those_of_the_file";
    let Some(corpus) = crate::oracle::corpus(test) else {
        return;
    };
    // Loaded at other places than any module of this machine.
    let file = corpus.join("perfparser/contentsize.data");
    let path = file.to_str().expect("a path of ours");
    let options = ["--stdio", "-q", "--no-children", "-g", "none", "-t;"];
    let args = [&["report", "-s", "sym,dso", "-i", path], &options[..]].concat();
    let text = prof(&args).succeeded("prof report").text();
    let in_module = text.lines().filter(|line| line.contains(";[kvm]"));
    let symbols: Vec<&str> = in_module.filter_map(|it| it.split(';').nth(1)).collect();
    let wanted = ["[k] 0x0000000000013463", "[k] 0x0000000000013455"];
    assert_eq!(
        symbols.iter().map(|it| it.trim()).collect::<Vec<_>>(),
        wanted
    );
    let args = [&["report", "-s", "srcline", "-i", path], &options[..]].concat();
    let text = prof(&args).succeeded("prof report").text();
    for line in ["[kvm][13463]", "[kvm][13455]"] {
        assert!(text.contains(line), "{line}: {text}");
    }
}

#[test]
fn given_widths_hold_for_each_of_several_events() {
    let test = "given_widths_hold_for_each_of_several_events";
    let Some(corpus) = crate::oracle::corpus(test).filter(|_| have(test, "perf")) else {
        return;
    };
    let names = ["local/perf6.1-named.data", "local/perf6.1-group.data"];
    let files = names.map(|name| corpus.join(name));
    // The second was made with the vDSO that some machines still run: they
    // have its names from their own, perf from its cache alone.
    let combinations = [
        "--symfs /dev/null -w 10,20,30 --no-children -g none",
        "--symfs /dev/null -w 30 -s dso,sym --no-children -g none",
        "--symfs /dev/null -w 0,10,20,5 -n --no-children -g none",
        "--symfs /dev/null -w 12,9,6 -s comm,dso --group --no-children -g none",
        "--symfs /dev/null -w 10,20,30 --no-group --no-children -g none",
    ];
    compare(&files, &combinations);
}

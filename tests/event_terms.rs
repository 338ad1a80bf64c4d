//! Terms of `-e` by which records come otherwise than those of other events.

use crate::oracle::{compiled, have, perf_at, perfs, prof};

/// Touches 1024 pages, one after another, on one CPU.
const TOUCHES: &str = "touch_pages.c";

/// Event, address and symbol of each sample, as perf shows them.
fn samples(perf: &std::path::Path, file: &str) -> Vec<(String, String, String)> {
    let script = perf_at(perf, &["script", "-i", file, "-F", "event,addr,ip,sym"]);
    let text = script.succeeded("perf script").text();
    let sample = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (event, rest) = words.split_first()?;
        let (address, rest) = rest.split_first()?;
        let symbol = rest.last()?;
        Some((
            event.trim_end_matches(':').to_owned(),
            (*address).to_owned(),
            (*symbol).to_owned(),
        ))
    };
    text.lines().filter_map(sample).collect()
}

/// A ring of one page holds the last samples of an event, while each of
/// another event is kept.
#[test]
fn an_event_that_is_overwritten_has_its_last_samples() {
    let test = "an_event_that_is_overwritten_has_its_last_samples";
    let Some(program) = compiled(test, TOUCHES, &["-O1"]) else {
        return;
    };
    if !have(test, "perf") {
        return;
    }
    let file = tempfile::NamedTempFile::new().expect("a file");
    let path = file.path().to_str().expect("a path of ours");
    // Not twice the same event: Linux 6.18 gives both samples the id of the last.
    let events = "minor-faults/name=last,overwrite/u,page-faults/name=all/u";
    let program = program.to_str().expect("a path of ours");
    let page = prof_sys::page_size().to_string() + "B";
    prof(&[
        "record", "-d", "-c", "1", "-m", &page, "-o", path, "-e", events, program,
    ])
    .succeeded("prof record");
    for perf in perfs(test) {
        let samples = samples(&perf, path);
        let of = |event: &str| -> Vec<&(String, String, String)> {
            samples
                .iter()
                .filter(|it| it.0.starts_with(event))
                .collect()
        };
        let (last, all) = (of("last"), of("all"));
        let touched = |of: &[&(String, String, String)]| -> Vec<u64> {
            let of = of.iter().filter(|it| it.2 == "touch");
            of.map(|it| u64::from_str_radix(&it.1, 16).expect("an address") >> 12)
                .collect()
        };
        let (last, all) = (touched(&last), touched(&all));
        assert!((20..200).contains(&last.len()), "{} kept", last.len());
        let is_next = |two: &[u64]| two[1] == two[0] + 1;
        assert!(last.windows(2).all(is_next), "oldest first: {last:x?}");
        // A page may be full before it is drained, but then its end is missing.
        assert!(all.last() <= last.last(), "{all:x?} {last:x?}");
    }
}

/// Samples without times have names all the same, and so have those of
/// events beside them, which have none either.
#[test]
fn samples_without_times_have_names() {
    let test = "samples_without_times_have_names";
    let Some(program) = compiled(test, TOUCHES, &["-O1"]) else {
        return;
    };
    if !have(test, "perf") {
        return;
    }
    let program = program.to_str().expect("a path of ours");
    for events in [
        "page-faults/time=0,name=bare/u",
        "page-faults/name=other/u,minor-faults/time=0,name=bare/u",
    ] {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let path = file.path().to_str().expect("a path of ours");
        prof(&[
            "record", "-d", "-c", "1", "-m", "1M", "-o", path, "-e", events, program,
        ])
        .succeeded("prof record");
        for perf in perfs(test) {
            let list = perf_at(&perf, &["evlist", "-v", "-i", path]);
            let list = list.succeeded("perf evlist").text();
            for line in list.lines().filter(|line| !line.is_empty()) {
                let has_fields = line.contains("IP|TID") && line.contains("ADDR");
                assert!(has_fields && !line.contains("|TIME"), "{line}");
            }
            let samples = samples(&perf, path);
            for event in ["bare", "other"]
                .iter()
                .take(events.matches("name").count())
            {
                let touched = samples
                    .iter()
                    .filter(|it| it.0.starts_with(event) && it.2 == "touch");
                assert_eq!(touched.count(), 1024, "{event} of {events}");
            }
        }
        let report = prof(&["report", "--stdio", "-s", "sym", "-i", path]);
        let report = report.succeeded("prof report").text();
        assert!(report.contains("touch"), "{report}");
    }
}

/// What needs records in order says so, and the cure works.
#[test]
fn what_needs_records_in_order_refuses_such_events() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let path = file.path().to_str().expect("a path of ours");
    for term in ["overwrite", "time=0"] {
        let event = format!("page-faults/{term}/u");
        for (option, why) in [
            ("-g", "try: --call-graph fp"),
            ("--overwrite=1M", "try: the event without the term"),
            ("--switch-output=1s", "try: one file"),
            ("--off-cpu", "try: the event without the term"),
        ] {
            if option.starts_with("--switch") && term == "overwrite" {
                continue; // Its rings are read when a file is wanted.
            }
            let refused = prof(&["record", option, "-o", path, "-e", &event, "true"]);
            assert_ne!(refused.code, 0, "{option}");
            let message = refused.stderr;
            assert!(message.contains(why) && message.contains(term), "{message}");
        }
        let cured = [
            "record",
            "--call-graph",
            "fp",
            "-o",
            path,
            "-e",
            &event,
            "true",
        ];
        prof(&cured).succeeded("the cure");
    }
}

#[test]
fn what_is_no_value_or_no_count_is_told_with_what_to_write() {
    for (event, told) in [
        ("cs/call-graph=foo/", "call-graph=fp, dwarf, lbr or no"),
        ("cs/branch_type=foo/", "branch_type=FILTER"),
        ("cs/aux-action=foo/", "start-paused, pause or resume"),
        ("cs/cpu=x/", "a range as 0-3"),
        ("software/nosuch/", "its PMU has none"),
        ("cs:pppp", ":ppp at most"),
        ("num_cpus", "try: lscpu"),
        ("tool/smt_on/", "try: lscpu"),
    ] {
        let refused = prof(&["stat", "-e", event, "true"]);
        assert_ne!(refused.code, 0, "{event}");
        assert!(refused.stderr.contains(told), "{event}: {}", refused.stderr);
    }
    let counted = prof(&["stat", "-x,", "-e", "tool/duration_time/", "true"]);
    let counted = counted.succeeded("stat").stderr;
    assert!(counted.contains("ns,tool/duration_time/"), "{counted}");
}

#[test]
fn what_perf_has_and_prof_has_not_is_refused_by_name() {
    for (line, told) in [
        ("stat --bpf-counters true", "leave it out"),
        ("stat -b 1 true", "bpftool prog profile"),
        ("list --raw-dump", "use --json"),
        ("list metricgroup", "publishes no metrics"),
        ("kmem stat", "-e 'kmem:*'"),
        ("daemon start", "SIGUSR2"),
        ("test", "prof doctor"),
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        let refused = prof(&words);
        assert_ne!(refused.code, 0, "{line}");
        assert!(refused.stderr.contains(told), "{line}: {}", refused.stderr);
    }
}

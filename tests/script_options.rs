//! Options of `prof script` against `perf script` on the same file.

use crate::oracle::{compiled, have, perf, perf_within, prof, scratch};
use std::path::{Path, PathBuf};

/// Samples of a clock with call chains, page faults among them, and what
/// threads do; recorded by perf. `None`, with the reason printed, without the
/// tools.
fn recording(test: &str) -> Option<PathBuf> {
    let flags = ["-g", "-O1", "-fno-omit-frame-pointer"];
    let program = compiled(test, "steady-calls.c", &flags)?;
    if !have(test, "perf") {
        return None;
    }
    let recording = scratch().join(format!("{test}.data"));
    let path = recording.to_str().expect("a plain name");
    let events = ["-e", "cpu-clock:u", "-e", "page-faults:u"];
    // Without build-ids: perf 6.1 sometimes dies as it looks for them.
    let mut args = vec!["record", "-q", "-B", "-F", "999", "--switch-events", "-g"];
    args.extend(events);
    args.extend(["-o", path, "--"]);
    args.extend([program.to_str().expect("a plain name"), "20"]);
    perf(&args).succeeded("perf record");
    Some(recording)
}

fn texts(recording: &Path, options: &str) -> (String, String) {
    let input = ["script", "-i", recording.to_str().expect("a plain name")];
    let args: Vec<&str> = input
        .into_iter()
        .chain(options.split_whitespace())
        .collect();
    let perfs = perf(&args).succeeded("perf script").text();
    let ours = prof(&args).succeeded("prof script").text();
    (perfs, ours)
}

#[test]
fn options_of_script_print_what_perf_prints() {
    let Some(recording) = recording("options_of_script_print_what_perf_prints") else {
        return;
    };
    let page_faults = "--switch-on page-faults:u";
    let to_clock = "--switch-off cpu-clock:u";
    for options in [
        "--no-inline -S mix -F comm,time,ip,sym --stop-bt main",
        "--no-inline -S mix -F comm,time,ip,sym --stop-bt nested,_start",
        "--no-inline -S mix -F comm,time,ip,sym -a -v",
        "--no-inline -S mix -F ip,sym,dso --show-kernel-path",
        "--no-inline -S mix -G -F ip,sym,srcline --full-source-path",
        "-F comm,misc,time --show-task-events --show-mmap-events --show-switch-events",
        &format!("-F comm,time,event {page_faults}"),
        &format!("-F comm,time,event {page_faults} {to_clock}"),
        &format!("-F comm,time,event {page_faults} {to_clock} --show-on-off-events"),
    ] {
        let (perfs, ours) = texts(&recording, options);
        let mut lines = perfs.lines().zip(ours.lines());
        let first = lines.find(|(perfs, ours)| perfs != ours);
        assert!(perfs == ours, "{options}: {first:#?}");
        // The threads' names are cut to 15 letters: none is called so.
        assert!(
            perfs.lines().count() > 2 || options.starts_with("-c"),
            "{options}"
        );
    }
}

/// perf 6.1 goes on after `--switch-off` if there is no `--switch-on`, against
/// what it says of it; here that ends what is printed.
#[test]
fn nothing_is_printed_after_the_event_that_switches_off() {
    let Some(recording) = recording("nothing_is_printed_after_the_event_that_switches_off") else {
        return;
    };
    let (all, _) = texts(&recording, "-F comm,time,event");
    let before_clock = all.lines().take_while(|line| !line.contains("cpu-clock:u"));
    let before_clock: Vec<_> = before_clock.collect();
    assert!(!before_clock.is_empty(), "{all}");
    let path = recording.to_str().expect("a plain name");
    let switch = ["--switch-off", "cpu-clock:u", "-F", "comm,time,event"];
    let args: Vec<&str> = ["script", "-i", path].into_iter().chain(switch).collect();
    let ours = prof(&args).succeeded("prof script").text();
    assert_eq!(ours.lines().collect::<Vec<_>>(), before_clock);
}

#[test]
fn each_event_is_dumped_into_a_file_of_its_own() {
    let Some(recording) = recording("each_event_is_dumped_into_a_file_of_its_own") else {
        return;
    };
    let dirs = [(); 2].map(|()| tempfile::tempdir_in(scratch()).expect("a directory"));
    let programs = [Path::new("perf"), Path::new(env!("CARGO_BIN_EXE_prof"))];
    for (program, dir) in programs.iter().zip(&dirs) {
        std::fs::copy(&recording, dir.path().join("perf.data")).expect("copied");
        let args = ["script", "--per-event-dump", "-G", "-F"];
        let args = [&args[..], &["comm,time,event,ip"]].concat();
        perf_within(dir.path(), program, &args).succeeded("script");
    }
    let files = |dir: &tempfile::TempDir| {
        let entries = std::fs::read_dir(dir.path()).expect("a directory");
        let mut files: Vec<_> = entries
            .map(|entry| {
                let path = entry.expect("an entry").path();
                let name = path.file_name().expect("a name").to_owned();
                (name, std::fs::read(path).expect("read"))
            })
            .collect();
        files.sort();
        files
    };
    let [perfs, ours] = [files(&dirs[0]), files(&dirs[1])];
    assert_eq!(
        perfs.len(),
        3,
        "{:?}",
        perfs.iter().map(|(name, _)| name).collect::<Vec<_>>()
    );
    assert!(perfs == ours, "the files differ");
}

/// Counts and rows of a report, without what each says of itself.
fn rows(text: &str) -> Vec<&str> {
    let is_row = |line: &&str| !line.starts_with('#') || line.starts_with("# Samples:");
    text.lines()
        .filter(is_row)
        .filter(|line| !line.trim().is_empty())
        .collect()
}

#[test]
fn a_report_counts_between_the_events_that_switch() {
    let Some(recording) = recording("a_report_counts_between_the_events_that_switch") else {
        return;
    };
    let path = recording.to_str().expect("a plain name");
    for switch in [
        "--switch-on page-faults:u",
        "--switch-on page-faults:u --switch-off cpu-clock:u",
        "--switch-on page-faults:u --switch-off cpu-clock:u --show-on-off-events",
    ] {
        // The loader's stubs have no symbol, and other names in perf.
        let args = [
            "report", "--stdio", "-i", path, "-s", "comm,dso", "-g", "none",
        ];
        let args: Vec<&str> = args.into_iter().chain(switch.split(' ')).collect();
        let theirs = perf(&args).succeeded("perf report").text();
        let ours = prof(&args).succeeded("prof report").text();
        assert!(!rows(&theirs).is_empty(), "{theirs}");
        assert_eq!(rows(&theirs), rows(&ours), "{switch}");
    }
}

#[test]
fn cpus_that_samples_do_not_tell_are_no_filter() {
    let test = "cpus_that_samples_do_not_tell_are_no_filter";
    if !have(test, "perf") {
        return;
    }
    let path = scratch().join("no-cpus.data");
    let path = path.to_str().expect("a path of ours");
    // prof's own tell them always.
    let recorded = perf(&[
        "record",
        "-q",
        "-e",
        "page-faults:u",
        "-c",
        "1",
        "-o",
        path,
        "true",
    ]);
    recorded.succeeded("perf record");
    for command in [&["script"][..], &["report", "--stdio"], &["annotate"]] {
        let run = prof(&[command, &["-C", "0", "-i", path]].concat());
        assert_eq!(run.code, 2, "{command:?}: {}", run.stderr);
        assert!(
            run.stderr.contains("do not tell their CPU"),
            "{}",
            run.stderr
        );
    }
}

//! `prof list` and `prof doctor`: what this machine has.

use crate::oracle::{
    Finished, copy_program, have, may_record_all, perf, prof, prof_command, skipped,
};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

fn json(run: &Finished) -> Value {
    serde_json::from_slice(&run.stdout).expect("JSON")
}

/// The names in a text list.
fn names(list: &str) -> BTreeSet<&str> {
    list.lines()
        .filter(|line| line.contains(" event]"))
        .filter_map(|line| line.split_ascii_whitespace().next())
        .collect()
}

#[test]
fn the_list_has_what_perf_lists() {
    let test = "the_list_has_what_perf_lists";
    if !have(test, "perf") || !may_record_all(test) {
        return;
    }
    for kind in ["sw", "pmu", "tracepoint"] {
        let (ours, theirs) = (prof(&["list", kind]).text(), perf(&["list", kind]).text());
        let lines = |text: &str| {
            // perf adds events of its own, which no kernel counts.
            let kernels = text.lines().filter(|line| !line.contains("[Tool event]"));
            kernels.map(|line| format!("{line}\n")).collect::<String>()
        };
        let (ours, theirs) = (lines(&ours), lines(&theirs));
        let (ours, theirs) = (names(&ours), names(&theirs));
        let different: Vec<_> = ours.symmetric_difference(&theirs).collect();
        assert!(different.is_empty(), "{kind}: {different:?}");
        assert!(!ours.is_empty(), "{kind}");
    }
}

#[test]
fn every_generalized_event_is_there_with_a_reason_if_lacking() {
    let events = json(&prof(&["list", "hw", "cache", "--json"]).succeeded("prof list"));
    let events = events.as_array().expect("a list");
    assert_eq!(events.len(), 10 + 32);
    for event in events {
        let available = event["available"].as_bool().expect("a boolean");
        assert_eq!(event["reason"].is_null(), available, "{event}");
    }
}

#[test]
fn a_filter_that_finds_nothing_fails_and_says_so() {
    let run = prof(&["list", "no-such-event"]);
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("no-such-event"), "{}", run.stderr);
    assert_eq!(run.text(), "");
}

#[test]
fn each_missing_part_has_a_reason() {
    let report = json(&prof(&["doctor", "--json"]).succeeded("prof doctor"));
    let findings = report["findings"].as_array().expect("a list");
    assert!(findings.len() >= 10);
    for finding in findings {
        assert!(finding["why"].as_str().is_some_and(|why| !why.is_empty()));
        let possible = finding["possible"].as_str().expect("a word");
        assert!(["yes", "partly", "no"].contains(&possible), "{finding}");
    }
    let text = prof(&["doctor"]).succeeded("prof doctor").text();
    assert!(text.contains("your programs, user code"), "{text}");
}

/// What the doctor says is what opening an event says.
#[test]
fn the_doctor_agrees_with_the_kernel() {
    // covers live: CAP-01, SYS-01, SYS-08
    let test = "the_doctor_agrees_with_the_kernel";
    if !may_record_all(test) || !have(test, "setpriv") {
        return;
    }
    let copy = std::env::temp_dir().join(format!("prof-doctor-{}", std::process::id()));
    copy_program(Path::new(prof_command().get_program()), &copy);
    let capabilities = ["--inh-caps=+perfmon", "--ambient-caps=+perfmon"];
    for privileges in [&[][..], &capabilities] {
        let run = |args: &[&str]| -> Finished {
            let mut command = Command::new("setpriv");
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
            command.args(privileges).arg(&copy).args(args);
            let output = command.current_dir("/").output();
            output.expect("setpriv starts").into()
        };
        let report = json(&run(&["doctor", "--json"]));
        let possible = |id: &str| {
            let findings = report["findings"].as_array().expect("a list");
            let found = findings.iter().find(|finding| finding["id"] == id);
            found.is_some_and(|finding| finding["possible"] == "yes")
        };
        let counts = |args: &[&str]| {
            let options = ["stat", "-x,", "--timeout", "50"];
            run(&[&options[..], args].concat()).code == 0
        };
        assert_eq!(counts(&["-a", "-e", "cpu-clock"]), possible("system"));
        let own = |event| counts(&["-e", event, "true"]);
        assert_eq!(own("cpu-clock:k"), possible("own-kernel"));
        assert_eq!(own("cpu-clock:u"), possible("own-user"));
        let others = counts(&["-e", "cpu-clock:u", "-p", "1"]);
        assert_eq!(others, possible("other-users"));
    }
    std::fs::remove_file(&copy).expect("it is there");
}

/// The findings of `prof doctor` where a shell line has `PROF` in its place.
fn findings_in(test: &str, line: &str) -> Option<(Value, Finished)> {
    let prof = env!("CARGO_BIN_EXE_prof");
    let run = |command: &str| -> Finished {
        let script = line.replace("PROF", &format!("{prof} {command}"));
        let output = Command::new("sh").args(["-c", &script]).output();
        output.expect("sh starts").into()
    };
    let doctor = run("doctor --json");
    if doctor.stdout.is_empty() {
        skipped(test, &doctor.stderr);
        return None;
    }
    Some((json(&doctor), run("record -q -a -o /dev/null true")))
}

fn finding<'a>(report: &'a Value, id: &str) -> (&'a str, &'a str, &'a Value) {
    let findings = report["findings"].as_array().expect("a list");
    let found = findings.iter().find(|finding| finding["id"] == id);
    let found = found.unwrap_or_else(|| panic!("no finding {id}"));
    let text = |key: &str| found[key].as_str().expect("a text");
    (text("possible"), text("why"), &found["fix"])
}

#[test]
fn the_doctor_does_not_believe_a_user_namespaces_root() {
    let test = "the_doctor_does_not_believe_a_user_namespaces_root";
    if !have(test, "unshare") {
        return;
    }
    let Some((report, recorded)) = findings_in(test, "unshare -Ur PROF") else {
        return;
    };
    let (possible, why, _) = finding(&report, "system");
    assert_eq!(possible == "yes", recorded.code == 0, "{}", recorded.stderr);
    if possible != "yes" {
        assert!(why.contains("user namespace"), "{why}");
        // In the recorder's words.
        let cause = why.split(" (E").next().expect("a cause");
        assert!(recorded.stderr.contains(cause), "{}", recorded.stderr);
    }
}

#[test]
fn the_doctor_names_a_seccomp_filter() {
    let test = "the_doctor_names_a_seccomp_filter";
    if !have(test, "python3") || !cfg!(target_arch = "x86_64") {
        return;
    }
    // A filter that answers EPERM (1) to system call 298, perf_event_open.
    let filter = "import ctypes, os, struct, sys
code = struct.pack('HBBI' * 4, 0x20, 0, 0, 0, 0x15, 0, 1, 298, 6, 0, 0, 0x50001, 6, 0, 0, 0x7fff0000)
buffer = ctypes.create_string_buffer(code)
program = struct.pack('HxxxxxxP', 4, ctypes.addressof(buffer))
libc = ctypes.CDLL(None, use_errno=True)
libc.prctl(38, 1, 0, 0, 0)
if libc.prctl(22, 2, program, 0, 0): sys.exit(9)
os.execv(sys.argv[1], sys.argv[1:])";
    let line = format!("python3 -c \"{filter}\" PROF");
    let Some((report, recorded)) = findings_in(test, &line) else {
        return;
    };
    assert_eq!(recorded.code, 1, "{}", recorded.stderr);
    let cause = "a seccomp filter refuses it: whoever started this container or service";
    assert!(recorded.stderr.contains(cause), "{}", recorded.stderr);
    for id in [
        "own-user",
        "own-kernel",
        "system",
        "other-users",
        "hardware",
    ] {
        let (possible, why, fix) = finding(&report, id);
        assert_eq!(possible, "no", "{id}: {why}");
        assert!(why.contains(cause), "{id}: {why}");
        assert!(fix.is_null(), "{id}: {fix}");
    }
}

#[test]
fn the_doctor_tries_where_settings_are_hidden() {
    let test = "the_doctor_tries_where_settings_are_hidden";
    if !may_record_all(test) || !have(test, "unshare") {
        return;
    }
    let line = "unshare -m sh -c 'mount -t tmpfs none /proc/sys/kernel || exit 9; PROF'";
    let Some((report, recorded)) = findings_in(test, line) else {
        return;
    };
    assert_eq!(recorded.code, 0, "{}", recorded.stderr);
    for id in ["own-user", "own-kernel", "system"] {
        let (possible, why, _) = finding(&report, id);
        assert_eq!(possible, "yes", "{id}: {why}");
    }
    assert_ne!(report["release"], "");
}

//! Which occurrences of an event become samples, and which events belong
//! together: by `prof`'s own account and by perf's, of files that `prof`
//! wrote.

use crate::oracle::{
    compiled, have, may_record_all, perf, perf_at, perfs, prof, prof_command, scratch, skipped,
};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};

/// Records `program` with `options`; `None`, with the reason printed, where
/// events are not permitted.
///
/// In virtual machines a watched address ends a program by SIGTRAP in some runs
/// of a hundred, with perf as well: such a run is told and made again.
fn recording(test: &str, options: &[&str], program: &Path) -> Option<PathBuf> {
    let file = scratch().join(format!("events-{test}.data"));
    let record = || {
        let run = prof_command()
            .args(["record", "-q", "-o"])
            .arg(&file)
            .args(options)
            .arg("--")
            .arg(program)
            .output()
            .expect("prof starts");
        let is_trapped = run.status.signal() == Some(libc::SIGTRAP);
        let is_told = String::from_utf8_lossy(&run.stderr).contains("was ended by SIGTRAP");
        assert_eq!(is_told, is_trapped, "{run:?}");
        (!is_trapped).then_some(run)
    };
    let run = (0..8)
        .find_map(|_| record())
        .expect("not trapped in 8 runs");
    let stderr = String::from_utf8_lossy(&run.stderr);
    if stderr.contains("(EACCES)") || stderr.contains("(EPERM)") {
        skipped(test, &stderr);
        return None;
    }
    assert!(run.status.success(), "{options:?}: {stderr}");
    Some(file)
}

/// Samples and sum of periods of the only event.
fn samples_and_sum(file: &Path) -> (u64, u64) {
    let stats = prof(&["dump", "--stats", "--json", "-i", path(file)]).succeeded("dump --stats");
    let json: serde_json::Value = serde_json::from_slice(&stats.stdout).expect("JSON");
    let event = &json["events"][0];
    let number = |name: &str| event[name].as_u64().expect(name);
    (number("samples"), number("period"))
}

fn path(file: &Path) -> &str {
    file.to_str().expect("UTF-8")
}

/// What stands behind `# Event count (approx.): ` in a report.
fn event_count(report: &str) -> u64 {
    let line = report
        .lines()
        .find_map(|line| line.strip_prefix("# Event count (approx.): "));
    let line = line.unwrap_or_else(|| panic!("no count in {report}"));
    line.trim().parse().expect("a number")
}

#[test]
fn every_tenth_page_fault_is_a_sample_where_that_is_asked_for() {
    let test = "every_tenth_page_fault_is_a_sample_where_that_is_asked_for";
    for (index, options) in [
        &["-e", "page-faults:u", "-c", "10"][..],
        &["-e", "page-faults/period=10/u"],
        &["-e", "page-faults:u", "-c", "10", "-P"],
        &["-e", "page-faults:u", "-c", "10", "-g"],
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("faults-{index}");
        let Some(file) = recording(&name, options, Path::new("true")) else {
            return;
        };
        let (samples, sum) = samples_and_sum(&file);
        assert!(samples > 0, "{options:?}");
        assert_eq!(sum, 10 * samples, "{options:?}");
        let ours = prof(&["report", "--stdio", "-i", path(&file)]).succeeded("report");
        assert_eq!(event_count(&ours.text()), sum, "{options:?}");
        if have(test, "perf") {
            let theirs = perf(&["report", "--stdio", "-i", path(&file)]).succeeded("perf report");
            assert_eq!(event_count(&theirs.text()), sum, "{options:?}");
        }
    }
}

#[test]
fn every_tenth_store_to_a_watched_address_is_a_sample() {
    let test = "every_tenth_store_to_a_watched_address_is_a_sample";
    let Some(program) = compiled(test, "stores.c", &["-O1", "-no-pie"]) else {
        return;
    };
    let run = std::process::Command::new(&program).output().expect("runs");
    let address = String::from_utf8(run.stdout).expect("text");
    let event = format!("mem:{}/4:w:u", address.trim());
    // On each CPU that the program comes to, counting begins anew.
    let options = ["-e", &event, "-c", "10", "--per-thread"];
    let Some(file) = recording("stores", &options, &program) else {
        return;
    };
    assert_eq!(samples_and_sum(&file), (42, 420));
    let Some(file) = recording("all-stores", &["-e", &event], &program) else {
        return;
    };
    assert_eq!(samples_and_sum(&file), (420, 420));
}

#[test]
fn touched_memory_is_called_as_perf_calls_it() {
    let test = "touched_memory_is_called_as_perf_calls_it";
    let Some(program) = compiled(test, "stores.c", &["-O1"]) else {
        return;
    };
    let options = ["-e", "page-faults:u", "-c", "1", "-d"];
    let Some(file) = recording("touched", &options, &program) else {
        return;
    };
    let words = [
        "report",
        "--stdio",
        "--mem-mode",
        "-s",
        "dso_daddr",
        "-i",
        path(&file),
    ];
    let rows = |report: &str| -> Vec<String> {
        let rows = report.lines().filter(|line| line.contains('%'));
        rows.map(|row| row.trim().to_owned()).collect()
    };
    let ours = rows(&prof(&words).succeeded("report").text());
    let ours: Vec<_> = ours
        .into_iter()
        .filter(|row| !row.starts_with('#'))
        .collect();
    assert!(ours.iter().any(|row| row.ends_with("[stack]")), "{ours:?}");
    assert!(!ours.iter().any(|row| row.contains("JIT")), "{ours:?}");
    if have(test, "perf") {
        assert_eq!(ours, rows(&perf(&words).succeeded("perf report").text()));
    }
}

#[test]
fn perf_knows_the_groups_of_a_recording() {
    // covers live: EV-31, EV-32
    let test = "perf_knows_the_groups_of_a_recording";
    if !have(test, "perf") {
        return;
    }
    for (name, events, list) in [
        (
            "plain",
            "{page-faults:u,minor-faults:u}",
            "{page-faults:u,minor-faults:u}\n",
        ),
        (
            "leader",
            "{page-faults,minor-faults}:uS",
            "{page-faults,minor-faults}\n",
        ),
        (
            "named",
            "faults{page-faults:u,minor-faults:u},cs:u,{cs:u}",
            "faults{page-faults:u,minor-faults:u}\ncs:u\ncs:u\n",
        ),
        (
            "pinned",
            "{page-faults:u,minor-faults:u}:D",
            "{page-faults:u,minor-faults:u}\n",
        ),
        (
            "exclusive",
            "{page-faults:u,minor-faults:u}:e",
            "{page-faults:u,minor-faults:u}\n",
        ),
        // A member cannot have the hardware for itself.
        (
            "weak",
            "{page-faults:u,minor-faults:ue}:W",
            "page-faults:u\nminor-faults:ue\n",
        ),
    ] {
        let Some(file) = recording(&format!("group-{name}"), &["-e", events], Path::new("true"))
        else {
            return;
        };
        for perf in perfs(test) {
            let evlist = perf_at(&perf, &["evlist", "-g", "-i", path(&file)]);
            assert_eq!(evlist.succeeded("perf evlist").text(), list, "{events}");
            if name != "leader" {
                continue;
            }
            let options = ["report", "--stdio", "--group", "-i", path(&file)];
            let title = "of events 'anon group { page-faults, minor-faults }'";
            let theirs = perf_at(&perf, &options).succeeded("perf report").text();
            assert!(theirs.contains(title), "{theirs}");
            let ours = prof(&options).succeeded("report").text();
            assert!(ours.contains(title), "{ours}");
            assert_eq!(event_count(&ours), event_count(&theirs));
        }
    }
}

#[test]
fn a_group_that_cannot_be_says_what_helps() {
    let events = "{page-faults:u,minor-faults:uD}";
    let run = prof(&["record", "-q", "-o", "/dev/null", "-e", events, "true"]);
    if run.stderr.contains("(EACCES)") {
        return skipped("a_group_that_cannot_be_says_what_helps", &run.stderr);
    }
    assert_eq!(run.code, 1);
    assert!(
        run.stderr.contains("or :W after the group"),
        "{}",
        run.stderr
    );
}

#[test]
fn stat_counts_the_members_of_pinned_exclusive_and_weak_groups() {
    // covers live: EV-32, ATTR-26, ATTR-27
    for events in [
        "{task-clock,page-faults:u}:D",
        "{task-clock,page-faults:u}:e",
        "{task-clock,page-faults:ue}:W",
    ] {
        let run = prof(&["stat", "-x,", "-e", events, "true"]);
        if run.stderr.contains("permission denied") {
            return skipped("stat_counts_the_members", &run.stderr);
        }
        let lines: Vec<_> = run
            .stderr
            .lines()
            .filter(|line| line.contains(','))
            .collect();
        assert_eq!(lines.len(), 2, "{events}: {}", run.stderr);
        for line in lines {
            let count = line.split(',').next().expect("a field");
            assert!(count.parse::<f64>().is_ok(), "{events}: {line}");
        }
    }
}

/// What perf says of each event of a file: its name, and what decides which
/// occurrences are sampled and what of them.
fn attrs(file: &Path) -> Vec<(String, Vec<(String, String)>)> {
    const DECIDE: [&str; 12] = [
        "type",
        "config",
        "{ sample_period, sample_freq }",
        "freq",
        "exclude_user",
        "exclude_kernel",
        "exclude_idle",
        "pinned",
        "exclusive",
        "precise_ip",
        "inherit",
        "sample_max_stack",
    ];
    let list = perf(&["evlist", "-v", "-i", path(file)]).succeeded("perf evlist");
    let list = list.text();
    let events = list.lines().filter_map(|line| line.split_once(": type: "));
    events
        .filter(|(name, _)| !name.starts_with("dummy"))
        .map(|(name, attr)| {
            // The only comma within a name.
            let attr = format!("type: {attr}").replace("period, sample", "period sample");
            let fields = attr.split(", ").filter_map(|field| field.split_once(": "));
            let mut kept = Vec::new();
            for (field, value) in fields {
                let field = field.replace("period sample", "period, sample");
                if field == "sample_type" {
                    let bits = value.split('|');
                    let bits = bits.filter(|bit| ["PERIOD", "READ", "CALLCHAIN"].contains(bit));
                    kept.push((field, bits.collect::<Vec<_>>().join("|")));
                } else if DECIDE.contains(&field.as_str()) {
                    kept.push((field, value.to_owned()));
                }
            }
            (name.to_owned(), kept)
        })
        .collect()
}

#[test]
fn what_is_sampled_of_an_event_is_decided_as_by_perf() {
    let test = "what_is_sampled_of_an_event_is_decided_as_by_perf";
    if !have(test, "perf") || !may_record_all(test) {
        return;
    }
    let events = [
        "cpu-clock,task-clock:u,page-faults:k,minor-faults:uk,cs:h",
        "cpu-clock:I,cpu-clock:D,cpu-clock:e,cpu-clock:pp,cpu-clock:S",
        "page-faults/period=10/,page-faults/freq=99/u,cpu-clock/period=100000,name=tick/",
        "cpu-clock/call-graph=fp/,cpu-clock/call-graph=no/,cs/max-stack=7/,cs/no-inherit/",
        "software/config=2,period=3/,mem:0x1000:rw,mem:0x1000:x",
        "{cpu-clock,page-faults}:D,{cs:u,page-faults}:k,{cpu-clock,cs:u}:e,{cs}:S",
    ];
    let events: Vec<&str> = events.iter().flat_map(|event| ["-e", event]).collect();
    for (name, options) in [
        ("plain", &[][..]),
        ("count", &["-c", "1000"]),
        ("frequency", &["-F", "99"]),
        ("user", &["--all-user"]),
        ("kernel", &["--all-kernel"]),
        ("chains", &["--call-graph", "fp", "-i"]),
    ] {
        let options = [&events[..], options].concat();
        let ours = recording(&format!("attrs-{name}"), &options, Path::new("true"));
        let theirs = scratch().join(format!("events-attrs-{name}-perf.data"));
        let of_perf = [
            &["record", "-q", "-o", path(&theirs)],
            &options[..],
            &["true"],
        ]
        .concat();
        perf(&of_perf).succeeded("perf record");
        let (ours, theirs) = (attrs(&ours.expect("may record")), attrs(&theirs));
        assert!(ours.len() > 20, "{ours:?}");
        assert_eq!(ours.len(), theirs.len());
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert_eq!(ours, theirs, "{options:?}");
        }
    }
}

//! `prof report` by fields of tracepoints, against `perf report`.
//!
//! Names with a blank are not compared (`next_comm`): perf ends them there, as it looks
//! for values in the printed text. Nor are values behind `NAME: ` (`flags`), which perf
//! leaves empty for the same reason.

use crate::oracle::{have, may_record_all, perf_at, perfs, prof, scratch, skipped};
use crate::sort_keys::table;
use std::path::Path;

const EVENTS: &str = "sched:sched_switch,sched:sched_process_exec,syscalls:sys_enter_openat";

/// What a shell and its commands do, as these events tell.
fn recorded(test: &str) -> Option<String> {
    if !have(test, "perf") || !may_record_all(test) {
        return None;
    }
    if !Path::new("/sys/kernel/tracing/events/sched").is_dir() {
        skipped(test, "tracefs is not mounted");
        return None;
    }
    let path = scratch().join(format!("{test}.data"));
    let path = path.to_str().expect("a plain name").to_owned();
    let script = "for i in 1 2 3 4; do sleep 0.002; done";
    let args = [
        "record", "-q", "-e", EVENTS, "-o", &path, "--", "sh", "-c", script,
    ];
    prof(&args).succeeded("prof record");
    Some(path)
}

#[test]
fn rows_by_fields_of_tracepoints_are_perfs() {
    // covers live: ST-13
    let test = "rows_by_fields_of_tracepoints_are_perfs";
    let Some(path) = recorded(test) else {
        return;
    };
    let keys = [
        "prev_comm",
        "prev_comm,prev_pid,prev_prio",
        "comm,sched:sched_switch.prev_state",
        "sched_switch.prev_state/raw,prev_pid/raw",
        "%2.*",
        "process_exec.filename,comm",
        "common_pid",
    ];
    let forms = ["", "-t ;", "-w 0,5", "--percentage relative"];
    let both = keys.iter().flat_map(|key| forms.map(|form| (key, form)));
    // perf takes a field that all events have for one column of each.
    let compared = both.filter(|(keys, form)| **keys != "common_pid" || !form.starts_with("-w"));
    for (keys, form) in compared {
        let options = format!("report --stdio -i {path} -s {keys} {form}");
        let args: Vec<&str> = options.split_whitespace().collect();
        let ours = table(&prof(&args).succeeded(&options).text());
        assert!(ours.len() > 6, "{options}: {ours:#?}");
        for perf in perfs(test) {
            let theirs = perf_at(&perf, &args).succeeded(&options);
            assert_eq!(ours, table(&theirs.text()), "{options}, {}", perf.display());
        }
    }
}

#[test]
fn values_are_whole_where_perf_cuts_them() {
    let Some(path) = recorded("values_are_whole_where_perf_cuts_them") else {
        return;
    };
    let rows = |keys: &str| {
        let text = prof(&["report", "--csv", "-i", &path, "-s", keys]).text();
        let lines = text
            .lines()
            .map(|line| line.split(',').map(str::to_owned).collect());
        lines.collect::<Vec<Vec<String>>>()
    };
    let flags = rows("openat.flags");
    assert_eq!(flags[0][2], "flags");
    assert!(
        flags.iter().all(|cells| cells.len() == flags[0].len()),
        "{flags:?}"
    );
    let told = flags.iter().filter(|cells| cells[0].ends_with("openat"));
    assert!(told.clone().count() > 0 && told.clone().all(|cells| cells[2].starts_with("0x")));
    // All fields of all of them: each is a column once.
    let all = rows("trace_fields").swap_remove(0);
    for name in ["prev_comm", "next_prio", "old_pid", "filename", "dfd"] {
        assert_eq!(
            all.iter().filter(|cell| *cell == name).count(),
            1,
            "{name}: {all:?}"
        );
    }
}

#[test]
fn what_is_no_field_is_told_apart() {
    let Some(path) = recorded("what_is_no_field_is_told_apart") else {
        return;
    };
    let cases = [
        ("nonsense", "unknown field \"nonsense\"; known are overhead"),
        (
            "sched_switch.nonsense",
            "sched:sched_switch has no field \"nonsense\"; it has prev_comm, prev_pid, ",
        ),
        (
            "sched.prev_pid",
            "is a part of sched:sched_switch and sched:sched_process_exec",
        ),
        (
            "irq.irq",
            "no tracepoint \"irq\" was recorded; there are sched:sched_switch, ",
        ),
        (
            "%9.irq",
            "%9 is no tracepoint; prof evlist lists the events",
        ),
    ];
    for (keys, told) in cases {
        let refused = prof(&["report", "-i", &path, "-s", keys]);
        assert_eq!(refused.code, 2, "{keys}: {}", refused.stderr);
        assert!(refused.stderr.contains(told), "{keys}: {}", refused.stderr);
    }
    let diff = prof(&["diff", "-s", "prev_comm", &path, "/dev/null"]);
    assert_eq!(diff.code, 2);
    assert!(
        diff.stderr.contains("unknown field \"prev_comm\""),
        "{}",
        diff.stderr
    );
}

//! What may stand behind `-e`: taken, refused and named as perf does.
//!
//! Each line of `fixtures/event-specs.txt` is given to `perf stat -vv`, by the
//! installed perf and by the newest one, and to the grammar of `prof`. What
//! `prof` makes of it is what one of the two makes of it, or stands below with
//! the reason.

use crate::oracle::{fixture, have, may_record_all, perfs, skipped};
use prof_record::events::{self, EventSpec, Precision};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// What decides which occurrences are counted, by perf's names.
type Attr = BTreeMap<&'static str, String>;

/// The fields that are compared. `exclude_guest` is not: perf 6.1 sets it by
/// itself and drops it when it is refused, 7.2 does not set it.
const FIELDS: [&str; 13] = [
    "type",
    "config",
    "{ bp_addr, config1 }",
    "{ bp_len, config2 }",
    "bp_type",
    "exclude_user",
    "exclude_kernel",
    "exclude_hv",
    "exclude_host",
    "exclude_idle",
    "pinned",
    "exclusive",
    "precise_ip",
];

/// Attrs in the order of the events, or that it was refused.
type Verdict = Option<Vec<Attr>>;

/// Where `prof` differs from both perfs, and why.
const DIFFERENCES: &[(&str, &str)] = &[
    ("{cpu-clock", "a brace that is missing is a mistake"),
    ("cpu-clock/name='my tick'/", "a name may hold a space"),
    (
        "mem:0x1000:rwx",
        "refused before the kernel does so with EINVAL",
    ),
    (
        "mem:0x1000/3",
        "refused before the kernel does so with EINVAL",
    ),
    (
        "mem:0x1000/16",
        "refused before the kernel does so with EOPNOTSUPP",
    ),
    (
        "mem:0x1001/4",
        "refused before the kernel does so with EINVAL",
    ),
    ("mem:0x1000/1", "the length stays in the name"),
    ("mem:0x1000/2:w", "the length stays in the name"),
    ("mem:0x1000/4:w", "the length stays in the name"),
    ("mem:0x1000/8:rw", "the length stays in the name"),
    ("mem:0x1000/4:w:k", "the length stays in the name"),
    (
        "sched:sched_switch/period=7/",
        "a tracepoint has a period too",
    ),
    (
        "'cpu-clock,task-clock'",
        "quotes around events are of the script",
    ),
    (
        "'sched:sched_switch'",
        "quotes around events are of the script",
    ),
    ("cpu-clock'", "a quote that has no partner is a mistake"),
    ("'cpu-clock", "a quote that has no partner is a mistake"),
    (
        "cpu-clock/name='tick/",
        "a quote that has no partner is a mistake",
    ),
    ("4294967296:0", "a type has 32 bits"),
    ("DURATION_TIME", "prof stat takes times itself, by no PMU"),
    (
        "user_time/name=x/",
        "prof stat takes times itself, by no PMU",
    ),
    ("cycles:ukhGHIpSDWeP", "perf 6.1 tries again without :p"),
];

/// What perf 6.1 does not know and 7.2 does: not judged where the installed perf
/// is the only one.
const OF_NEWER_PERFS: [&str; 22] = [
    "cpu-clock:X",
    "cpu-clock/config3=1/",
    "cpu-clock/config4=1/",
    "cpu-clock/cpu=0/",
    "software/cpu-clock/",
    "software/cpu-clock,period=7/",
    "software/cpu-clock/u",
    "mem:0x1000/8:w/name=x/",
    "mem:0x1000/name=watch/",
    "CPU-CLOCK",
    "Cycles",
    "'cpu-clock'",
    "'cpu-clock':u",
    "'cpu-clock',task-clock",
    "cpu-clock/name='1a'/",
    "Task-Clock:u",
    "CS",
    "*:*sched_switch",
    "m*r/tsc/",
    "software/CPU-CLOCK/",
    "software/'cpu-clock'/",
    "L1-DCACHE-LOADS",
];

/// The numbers of a field in one form; without what perf 7.2 says behind it.
fn number(text: &str) -> u64 {
    let word = text.split_whitespace().next().unwrap_or_default();
    match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).unwrap_or(0),
        None => word.parse().unwrap_or(0),
    }
}

/// What is opened with less than was asked for is not what was asked for: each
/// attr once.
fn push(attrs: &mut Vec<Attr>, attr: Attr) {
    if !attrs.contains(&attr) {
        attrs.push(attr);
    }
}

/// What perf opens, from `-vv`, and the names of what it counted.
fn by_perf(perf: &Path, spec: &str) -> (Verdict, Vec<String>) {
    let run = Command::new(perf)
        .args(["stat", "-vv", "-x;", "-e", spec, "true"])
        .env("LC_ALL", "C.UTF-8")
        .env("HOME", "/dev/null")
        .output()
        .expect("perf starts");
    let text = String::from_utf8_lossy(&run.stderr).into_owned();
    if run.status.code() == Some(129) {
        return (None, Vec::new());
    }
    let mut attrs = Vec::new();
    for block in text.split("perf_event_attr:\n").skip(1) {
        let block = block.split("-----").next().unwrap_or_default();
        let mut attr = Attr::new();
        for field in FIELDS {
            let line = block.lines().find_map(|line| {
                let rest = line.strip_prefix("  ")?.strip_prefix(field)?;
                rest.starts_with(' ').then(|| rest.trim())
            });
            let value = line.map_or(0, number);
            if value != 0 {
                attr.insert(field, value.to_string());
            }
        }
        push(&mut attrs, attr);
    }
    let names = text.lines().filter(|line| line.matches(';').count() >= 4);
    let names = names.filter_map(|line| line.split(';').nth(2));
    (Some(attrs), names.map(str::to_owned).collect())
}

/// Names without quotes and spaces: those that a script left are of perf's names,
/// not of ours.
fn plain(names: &[String]) -> Vec<String> {
    let is_of_name = |letter: &char| !matches!(letter, '\'' | '"' | '\\' | ' ');
    let names = names.iter();
    names
        .map(|name| name.chars().filter(is_of_name).collect())
        .collect()
}

/// The fields of what `prof` asks for, as perf would show them.
fn attr_of(spec: &EventSpec) -> Attr {
    let mut attr = Attr::new();
    let fields = spec.attr.set_fields().into_iter();
    for (name, value) in fields.chain([("type".to_owned(), spec.attr.kind.to_string())]) {
        let Some(field) = FIELDS.into_iter().find(|field| *field == name) else {
            continue;
        };
        if number(&value) != 0 {
            attr.insert(field, number(&value).to_string());
        }
    }
    if let Precision::Exactly(level) = spec.precision {
        attr.insert("precise_ip", level.to_string());
    }
    attr
}

fn by_prof(spec: &str) -> (Verdict, Vec<String>) {
    let Ok(specs) = events::parse(spec, 0) else {
        return (None, Vec::new());
    };
    // What says how to sample is not for counting.
    if specs.iter().any(|spec| spec.sampling_term.is_some()) {
        return (None, Vec::new());
    }
    let mut attrs = Vec::new();
    specs
        .iter()
        .for_each(|spec| push(&mut attrs, attr_of(spec)));
    (
        Some(attrs),
        specs.into_iter().map(|spec| spec.name).collect(),
    )
}

/// covers live: ATTR-01, ATTR-14, EV-32
#[test]
fn event_specs_are_taken_refused_and_named_as_by_perf() {
    let test = "event_specs_are_taken_refused_and_named_as_by_perf";
    if !have(test, "perf") || !may_record_all(test) {
        return;
    }
    if Path::new("/sys/bus/event_source/devices/cpu").exists() {
        return skipped(test, "the list was made for a machine without a PMU");
    }
    let list = std::fs::read_to_string(fixture("event-specs.txt")).expect("the list");
    let perfs = perfs(test);
    let mut wrong = Vec::new();
    let mut compared = 0;
    let is_judged = |spec: &&str| {
        let is_too_new = perfs.len() == 1 && OF_NEWER_PERFS.contains(spec);
        !spec.starts_with('#') && !is_too_new
    };
    for spec in list.lines().filter(is_judged) {
        compared += 1;
        let ours = by_prof(spec);
        // One that agrees is enough: the other is not asked then, since a start
        // of perf 7.2 takes long.
        let mut theirs = Vec::new();
        let is_same = perfs.iter().any(|perf| {
            let (verdict, names) = by_perf(perf, spec);
            let named = names.is_empty() || plain(&names) == plain(&ours.1);
            let is_same = verdict == ours.0 && named;
            theirs.push((verdict, names));
            is_same
        });
        let is_listed = DIFFERENCES.iter().any(|(listed, _)| *listed == spec);
        if is_same == is_listed {
            wrong.push(format!("{spec}\n  ours   {ours:?}\n  theirs {theirs:?}"));
        }
    }
    assert!(compared >= 330, "{compared}");
    assert!(
        wrong.is_empty(),
        "{} differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

//! What `prof record` asks the kernel for, option by option, is what perf asks
//! for: the attrs that both show with `-v` and `-vv`. Each difference stands in
//! a list with its reason, and each of the list is seen.

use crate::oracle::{have, may_record_all, scratch, skipped};
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

type Attr = BTreeMap<String, String>;

/// Options that work on every machine, each with an event that does.
const OPTIONS: [&str; 66] = [
    "-e cpu-clock",
    "-e cpu-clock -F 99",
    // By a timer of this rate hardly a program ends.
    "-e page-faults -F max",
    "-e cpu-clock -c 100000",
    "-e page-faults -c 1",
    "-e task-clock:u",
    "-e cpu-clock:pp",
    "-e cpu-clock:k",
    "-e cpu-clock,page-faults",
    "-e {cpu-clock,page-faults}",
    "-e {cpu-clock,page-faults}:S",
    "-e cpu-clock/period=100000,name=x/",
    "-e cpu-clock/max-stack=5/",
    "-e cpu-clock/no-inherit/",
    "-e cpu-clock/time=0/",
    "-e cpu-clock/time=0/,page-faults",
    "-e cpu-clock/time=1/",
    "-e cpu-clock/no-overwrite/",
    "-e cpu-clock/overwrite/",
    "-e mem:0x1000:w",
    "-e cpu-clock --call-graph fp",
    "-e cpu-clock --call-graph dwarf",
    "-e cpu-clock --call-graph fp --user-callchains",
    "-e cpu-clock --call-graph fp --kernel-callchains",
    "-e cpu-clock -a",
    "-e cpu-clock -C 0",
    "-e cpu-clock -i",
    "-e cpu-clock --per-thread",
    "-e cpu-clock -d",
    "-e cpu-clock --phys-data",
    "-e cpu-clock --data-page-size",
    "-e cpu-clock --code-page-size",
    "-e cpu-clock -W",
    "-e cpu-clock -R",
    "-e cpu-clock -s",
    "-e cpu-clock -P",
    "-e cpu-clock --sample-cpu",
    "-e cpu-clock --switch-events",
    "-e cpu-clock --namespaces",
    "-e cpu-clock --all-cgroups",
    "-e cpu-clock --intr-regs=ax,bx",
    "-e cpu-clock --user-regs=ax,bx",
    "-e cpu-clock -k mono",
    "-e cpu-clock --all-user",
    "-e cpu-clock --all-kernel",
    "-e cpu-clock --sample-identifier",
    "-e cpu-clock --buildid-mmap",
    "-e cpu-clock -D 1",
    "-e sched:sched_switch",
    "-e sched:sched_switch -c 1000",
    "-e cpu-clock -a -s",
    "-e {page-faults,cs}:S -F 99 --kernel-callchains --phys-data",
    "-e cpu-clock/call-graph=fp/,cs -c 1000000 -W --switch-output=5s",
    "-e cpu-clock:pp,cs:k -d --buildid-mmap -N -F 99",
    "-e cpu-clock/call-graph=fp/ -c 1000000 --overwrite",
    "-e cpu-clock -n",
    "-e cpu-clock,page-faults -n -s",
    "-e cpu-clock -n -c 1000000",
    "-e cpu-clock/period=1000000/ -n",
    "-e sched:sched_switch -n",
    "-e cpu-clock,cs --group",
    "-e {cpu-clock,cs} -e page-faults --group",
    "-e sched:sched_switch -a --synth=no --exclude-perf",
    "-e {cpu-clock,page-faults}:S --running-time",
    "-e cpu-clock --running-time",
    "-e cpu-clock --no-bpf-event",
];

/// Why an event whose ring is overwritten tells of no mappings.
const KEPT_APART: &str = "mappings have a ring that is not overwritten, or names would be lost";

/// A field, by how it differs, with the words of which the options hold one
/// (none: any options); and why.
const DIFFERENCES: &[(&str, &[&str], &str)] = &[
    (
        "sample_type +CPU",
        &[],
        "every view tells CPUs; perf asks for them with -a",
    ),
    (
        "watermark 1|",
        &[],
        "the reader wakes up by bytes, not by records",
    ),
    (
        "wakeup",
        &[],
        "the reader wakes up by bytes, not by records",
    ),
    (
        "build_id 1|",
        &[],
        "mappings carry build-ids where the kernel has them",
    ),
    (
        "inherit |1",
        &["-a", "-C"],
        "on a whole CPU there is nobody to inherit",
    ),
    (
        "inherit 1|",
        &[":S"],
        "Linux 6.13 reads inherited groups; perf 6.1 is older",
    ),
    (
        "sample_type +ADDR",
        &["mem:", "--data-page-size"],
        "the address is what it is about",
    ),
    (
        "sample_type -ADDR",
        &["dwarf"],
        "perf 6.1 asks for what --data does, without a use",
    ),
    (
        "sample_type -DATA_SRC",
        &["dwarf"],
        "perf 6.1 asks for what --data does, without a use",
    ),
    (
        "sample_type +TIME",
        &["--per-thread"],
        "samples are put into order by their times",
    ),
    (
        "sample_type +ID",
        &["/time=0/,", "call-graph=fp/,cs"],
        "with both ids the kernel fills in ours beside another recorder",
    ),
    (
        "sample_type +IDENTIFIER",
        &["page-faults", "/overwrite/", "--overwrite", ",cs"],
        "IDENTIFIER says the same at a fixed place",
    ),
    (
        "sample_type -TIME",
        &["/time=0/,"],
        "mappings have times if all samples do, or names would be wrong",
    ),
    ("mmap |1", &["/overwrite/", "--overwrite"], KEPT_APART),
    ("mmap2 |1", &["/overwrite/", "--overwrite"], KEPT_APART),
    ("comm |1", &["/overwrite/", "--overwrite"], KEPT_APART),
    ("comm_exec |1", &["/overwrite/", "--overwrite"], KEPT_APART),
    ("task |1", &["/overwrite/", "--overwrite"], KEPT_APART),
    ("ksymbol |1", &["/overwrite/", "--overwrite"], KEPT_APART),
    ("bpf_event |1", &["/overwrite/", "--overwrite"], KEPT_APART),
    (
        "sample_type -PERIOD",
        &["sched_switch -c"],
        "the kernel ignores a period where samples have theirs",
    ),
    (
        "inherit_stat |1",
        &["-a -s"],
        "on a whole CPU there is nobody to inherit",
    ),
    (
        "read_format -TOTAL_TIME_ENABLED",
        &["-a -s"],
        "on a whole CPU there is nobody to inherit",
    ),
    (
        "read_format -TOTAL_TIME_RUNNING",
        &["-a -s"],
        "on a whole CPU there is nobody to inherit",
    ),
    (
        "exclude_guest |1",
        &[":u", ":k"],
        "perf 6.1 adds it where modes are given; 7.2 does not",
    ),
    (
        "exclude_hv 1|",
        &["--all-user"],
        "user space alone is without a hypervisor",
    ),
    ("disabled 1|", &["-a", "-C"], SWITCHED_ON),
    ("exclude_kernel 1|", &["-a", "-C", "-D"], HEARS_ONLY),
    ("exclude_hv 1|", &["-a", "-C", "-D"], HEARS_ONLY),
];

/// Why the event that only hears of mappings and tasks on whole CPUs is disabled.
const SWITCHED_ON: &str = "it is switched on when its rings are there, before /proc is read";

/// Why that event leaves the kernel out.
const HEARS_ONLY: &str = "it counts nothing, so a plain user may have it, as in perf 7.2";

/// What only `prof` opens: the options have one of the words.
const ONLY_OURS: (&str, &[&str], &str) = ("0x9", &["/overwrite/", "--overwrite"], KEPT_APART);

fn attrs(program: &str, verbose: &str, options: &str) -> Vec<Attr> {
    let folder = tempfile::tempdir_in(scratch()).expect("a folder");
    let output = folder.path().join("perf.data");
    let run = Command::new(program)
        .args(["record", verbose, "-o"])
        .arg(&output)
        .args(options.split(' '))
        .args(["--", "true"])
        .env("LC_ALL", "C.UTF-8")
        .env("HOME", "/dev/null")
        .env("PROF_EMBED_MS", "0")
        .output()
        .expect("it starts");
    let text = String::from_utf8_lossy(&run.stderr).into_owned();
    let mut all: Vec<Attr> = Vec::new();
    for block in text.split("perf_event_attr:\n").skip(1) {
        let block = block.split("-----").next().unwrap_or_default();
        let mut attr = Attr::new();
        for line in block.lines().filter_map(|line| line.strip_prefix("  ")) {
            let end = match line.starts_with('{') {
                true => line.find('}').map_or(line.len(), |at| at + 1),
                false => line.find(' ').unwrap_or(line.len()),
            };
            let (name, value) = line.split_at(end);
            attr.insert(name.to_owned(), value.trim().to_owned());
        }
        if !all.contains(&attr) {
            all.push(attr);
        }
    }
    assert!(!all.is_empty(), "{program} {options}: {text}");
    all
}

/// What both ask the kernel for with each of the options. Both mostly wait for
/// the kernel to close events, so several are asked at once.
fn asked_by_both() -> Vec<(Vec<Attr>, Vec<Attr>)> {
    let both = |options| {
        let ours = attrs(env!("CARGO_BIN_EXE_prof"), "-v", options);
        (ours, attrs("perf", "-vv", options))
    };
    let mut asked = Vec::new();
    for some in OPTIONS.chunks(8) {
        std::thread::scope(|scope| {
            let running: Vec<_> = some
                .iter()
                .map(|options| scope.spawn(|| both(options)))
                .collect();
            let ended = running.into_iter().map(|thread| thread.join());
            asked.extend(ended.map(|both| both.expect("no panic")));
        });
    }
    asked
}

fn number(attr: &Attr, field: &str) -> u64 {
    let text = attr.get(field).map_or("0", String::as_str);
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).unwrap_or(0),
        None => text.parse().unwrap_or(0),
    }
}

/// Each difference in a form that the list has: bits of `sample_type` apart.
fn differences(ours: &Attr, theirs: &Attr) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    let fields: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
    // The attr of the newer tool is longer.
    for field in fields.into_iter().filter(|field| *field != "size") {
        let value = |attr: &Attr| attr.get(field).cloned().unwrap_or_default();
        let (one, other) = (value(ours), value(theirs));
        if one == other || ["type", "config"].contains(&field.as_str()) {
            continue;
        }
        if field.contains("wakeup") {
            all.insert("wakeup".to_owned());
        } else if field == "sample_type" || field == "read_format" {
            let bits =
                |text: &str| -> BTreeSet<String> { text.split('|').map(str::to_owned).collect() };
            let (one, other) = (bits(&one), bits(&other));
            all.extend(one.difference(&other).map(|bit| format!("{field} +{bit}")));
            all.extend(other.difference(&one).map(|bit| format!("{field} -{bit}")));
        } else {
            all.insert(format!("{field} {one}|{other}"));
        }
    }
    all
}

/// covers live: ATTR-15, ATTR-16, ATTR-18, ATTR-19, ATTR-20
#[test]
fn each_option_asks_the_kernel_for_what_perf_asks() {
    let test = "each_option_asks_the_kernel_for_what_perf_asks";
    if !have(test, "perf") || !may_record_all(test) {
        return;
    }
    let perf = Command::new("perf")
        .arg("version")
        .output()
        .expect("perf starts");
    if !String::from_utf8_lossy(&perf.stdout).contains(" 6.1") {
        return skipped(test, "the differences are listed for perf 6.1");
    }
    let mut wrong = Vec::new();
    let mut seen = BTreeSet::new();
    for (options, (ours, theirs)) in OPTIONS.into_iter().zip(asked_by_both()) {
        for attr in &ours {
            let same = |other: &&Attr| {
                ["type", "config"]
                    .iter()
                    .all(|field| number(attr, field) == number(other, field))
            };
            // The last is what was opened in the end. Without samples it is the one by
            // which perf hears of BPF programs.
            let takes_samples = |other: &&Attr| other.contains_key("sample_type");
            let mut others = theirs.iter().filter(takes_samples);
            let Some(other) = others.rfind(same) else {
                let (config, words, _) = ONLY_OURS;
                let is_listed = attr.get("config").is_some_and(|it| it == config)
                    && words.iter().any(|word| options.contains(word));
                if is_listed {
                    continue;
                }
                wrong.push(format!("{options}: only ours: {attr:?}"));
                continue;
            };
            for difference in differences(attr, other) {
                let listed = DIFFERENCES.iter().position(|(listed, words, _)| {
                    let applies = |word: &&str| options.contains(*word);
                    *listed == difference && (words.is_empty() || words.iter().any(applies))
                });
                match listed {
                    Some(place) => drop(seen.insert(place)),
                    None => wrong.push(format!("{options}: {difference}")),
                }
            }
        }
    }
    for (place, (difference, ..)) in DIFFERENCES.iter().enumerate() {
        if !seen.contains(&place) {
            wrong.push(format!("listed, but there is none: {difference}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// An option of the newest perf, the field of the attr that it changes, and
/// what stands in it then.
const OF_THE_NEWEST: [(&str, &str, &str); 3] = [
    ("--data-mmap", "mmap_data", "1"),
    ("--latency", "context_switch", "1"),
    ("--sample-mem-info", "sample_type", "DATA_SRC"),
];

#[test]
fn options_of_the_newest_perf_ask_the_kernel_for_the_same() {
    let test = "options_of_the_newest_perf_ask_the_kernel_for_the_same";
    let Some(newest) = std::env::var_os("PROF_NEWEST_PERF") else {
        return skipped(test, "PROF_NEWEST_PERF names no newer perf");
    };
    if !may_record_all(test) {
        return;
    }
    let newest = newest.to_str().expect("a plain name");
    for (option, field, expected) in OF_THE_NEWEST {
        let asked = |program, verbose, options: &str| {
            let all = attrs(program, verbose, options);
            let of_clock = |attr: &&Attr| {
                number(attr, "config") == 0
                    && !attr.get("config").is_some_and(|text| text.contains("0x9"))
            };
            let attr = all.iter().rfind(of_clock).expect("an attr");
            let text = attr.get(field).map_or("", String::as_str);
            text.split('|').any(|part| part == expected)
        };
        for (program, verbose) in [(env!("CARGO_BIN_EXE_prof"), "-v"), (newest, "-vv")] {
            assert!(!asked(program, verbose, "-e cpu-clock"), "{program}");
            let options = format!("-e cpu-clock {option}");
            assert!(asked(program, verbose, &options), "{program} {option}");
        }
    }
}

//! Probes by name: each hit is counted and sampled, whoever the function belongs
//! to, and nothing is left behind.

use crate::oracle::{
    Finished, compiled, copy_program, have, may_record_all, perf, prof, prof_command, scratch,
    skipped,
};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The ways a program may be linked.
const KINDS: [&[&str]; 3] = [
    &["-O1", "-no-pie"],
    &["-O1", "-pie", "-fPIE"],
    &["-O1", "-static"],
];

/// Whether the kernel here has the PMU and lets us use it.
fn may_probe(test: &str) -> bool {
    if !Path::new("/sys/bus/event_source/devices/uprobe").exists() {
        skipped(test, "this kernel has no uprobes");
        return false;
    }
    may_record_all(test)
}

/// What `prof stat -x,` counted, by event.
fn counts(run: &Finished) -> Vec<(String, String)> {
    let lines = run.stderr.lines().filter(|line| line.contains(",,"));
    lines
        .map(|line| {
            let mut fields = line.split(',');
            let count = fields.next().expect("a count").to_owned();
            (fields.nth(1).expect("a name").to_owned(), count)
        })
        .collect()
}

fn counted(event: &str, program: &Path) -> Finished {
    let program = program.to_str().expect("UTF-8");
    prof(&["stat", "-x,", "-e", event, program]).succeeded(event)
}

/// Samples of each event of a recording.
fn sampled(test: &str, event: &str, program: &Path) -> (PathBuf, Vec<u64>) {
    let file = scratch().join(format!("probes-{test}.data"));
    let run = prof_command()
        .args(["record", "-q", "-e", event, "-o"])
        .arg(&file)
        .arg(program)
        .output()
        .expect("prof starts");
    Finished::from(run).succeeded(event);
    let path = file.to_str().expect("UTF-8");
    let stats = prof(&["dump", "--stats", "--json", "-i", path]).succeeded("dump");
    let json: serde_json::Value = serde_json::from_slice(&stats.stdout).expect("JSON");
    let events = json["events"].as_array().expect("events");
    // What tells of children has no samples.
    let asked = events.iter().filter(|event| event["name"] != "dummy:u");
    let samples = asked.map(|event| event["samples"].as_u64().expect("a number"));
    let samples = samples.collect();
    (file, samples)
}

/// covers live: ATTR-70, ATTR-71, EV-30
#[test]
fn a_thousand_calls_are_a_thousand_hits_and_samples() {
    let test = "a_thousand_calls_are_a_thousand_hits_and_samples";
    if !may_probe(test) {
        return;
    }
    for flags in KINDS {
        let Some(program) = compiled(test, "probed.c", flags) else {
            return;
        };
        let path = program.to_str().expect("UTF-8");
        let mut events = vec![
            format!("uprobe:{path}:work"),
            format!("uretprobe:{path}:work"),
            format!("uprobe:{path}:work+0"),
            format!("usdt:{path}:demo:plain"),
            format!("sdt_demo:guarded@{path}:u"),
            format!("uprobe:{path}:work/name='one,two'/u,usdt:{path}:plain/percore/"),
            format!("{{usdt:{path}:plain,uprobe:{path}:work:u}}"),
        ];
        if !flags.contains(&"-static") {
            events.push("uprobe:libc.so.6:getppid".to_owned());
        }
        for event in events {
            let run = counted(&event, &program);
            for (name, count) in counts(&run) {
                assert_eq!(count, "1000", "{flags:?} {name}: {}", run.stderr);
            }
            // The marker that has a semaphore is passed while somebody looks.
            let passed = if event.contains("guarded") {
                "1000\n"
            } else {
                "0\n"
            };
            assert_eq!(run.text(), passed, "{flags:?} {event}");
            let (_, samples) = sampled("hits", &event, &program);
            assert!(
                samples.iter().all(|&one| one == 1000),
                "{event}: {samples:?}"
            );
        }
    }
}

/// The kernel hands no probe on to children, and takes no group of which it
/// hands on a part (`EINVAL`).
#[test]
fn a_probe_may_be_in_a_group_with_other_events() {
    let test = "a_probe_may_be_in_a_group_with_other_events";
    if !may_probe(test) {
        return;
    }
    let Some(program) = compiled(test, "probed.c", KINDS[0]) else {
        return;
    };
    let path = program.to_str().expect("UTF-8");
    for group in [
        format!("{{uprobe:{path}:work,page-faults:u}}"),
        format!("{{page-faults:u,uprobe:{path}:work}}"),
        format!("{{cs,uretprobe:{path}:work,task-clock}}"),
    ] {
        let run = counted(&group, &program);
        let counts = counts(&run);
        let probe = counts.iter().find(|(name, _)| name.contains("probe:"));
        let (_, count) = probe.expect("a probe");
        assert_eq!(count, "1000", "{group}: {}", run.stderr);
        let (_, samples) = sampled("grouped", &group, &program);
        assert!(samples.contains(&1000), "{group}: {samples:?}");
        // Of children nothing in the group is known, and that is said of each.
        let four = prof(&["stat", "-x,", "-e", &group, path, "4"]).succeeded("stat");
        let told = four.stderr.matches("children that started later").count();
        assert_eq!(told, group.split(',').count(), "{}", four.stderr);
        let record = ["record", "-o", "/dev/null", "-e", &group, path, "4"];
        let record = prof(&record).succeeded("record");
        let told_too = record.stderr.matches("children that started later").count();
        assert_eq!(told_too, told, "{}", record.stderr);
    }
}

#[test]
fn perf_reads_samples_of_probes() {
    let test = "perf_reads_samples_of_probes";
    if !may_probe(test) || !have(test, "perf") {
        return;
    }
    let Some(program) = compiled(test, "probed.c", KINDS[0]) else {
        return;
    };
    let event = format!("uprobe:{}:work", program.display());
    let (file, _) = sampled("perf", &event, &program);
    let script = perf(&[
        "script",
        "-F",
        "ip,sym",
        "-i",
        file.to_str().expect("UTF-8"),
    ]);
    let script = script.succeeded("perf script").text();
    assert_eq!(
        script
            .lines()
            .filter(|line| line.ends_with(" work"))
            .count(),
        1000
    );
}

/// covers live: CALL-17
#[test]
fn the_target_can_fork_and_no_probe_is_left() {
    let test = "the_target_can_fork_and_no_probe_is_left";
    if !may_probe(test) {
        return;
    }
    let Some(compiled) = compiled(test, "probed.c", KINDS[1]) else {
        return;
    };
    // A file of its own: -a counts in the programs of other tests, too.
    let program = scratch().join("probed-by-nobody-else");
    copy_program(&compiled, &program);
    let path = program.to_str().expect("UTF-8");
    let event = format!("uprobe:{path}:work");
    // Four children, which the kernel hands no probe on to; with -a they count.
    let one = prof(&["stat", "-x,", "-e", &event, path, "4"]).succeeded("stat");
    assert!(one.stderr.contains("try: -a"), "{}", one.stderr);
    assert_eq!(counts(&one)[0].1, "0");
    // Where there are none, nothing is said of them.
    let alone = counted(&event, &program);
    assert!(!alone.stderr.contains("children"), "{}", alone.stderr);
    for (children, is_told) in [("4", true), ("", false)] {
        let mut record = prof_command();
        record.args(["record", "-o", "/dev/null", "-e", &event, path]);
        record.args(Some(children).filter(|it| !it.is_empty()));
        let run = Finished::from(record.output().expect("prof starts")).succeeded("record");
        let told = run.stderr.contains("children that started later");
        assert_eq!(told, is_told, "{}", run.stderr);
    }
    let all = prof(&["stat", "-x,", "-a", "-e", &event, path, "4"]).succeeded("stat -a");
    assert_eq!(counts(&all)[0].1, "4000", "{}", all.stderr);
    let shell = [
        "stat",
        "-x,",
        "-e",
        &event,
        "--",
        "sh",
        "-c",
        "true | cat; echo forked",
    ];
    assert_eq!(prof(&shell).succeeded("sh").text(), "forked\n");
    // The text of the function is as it was: `int3` would stand there.
    let made = std::fs::read_to_string("/sys/kernel/tracing/uprobe_events").unwrap_or_default();
    assert!(!made.contains(path), "{made}");
    let after = std::process::Command::new(&program).output().expect("runs");
    assert_eq!(after.stdout, b"0\n", "nobody looks at the marker any more");
}

#[test]
fn what_cannot_be_probed_is_told_with_what_can() {
    let test = "what_cannot_be_probed_is_told_with_what_can";
    let Some(program) = compiled(test, "probed.c", KINDS[1]) else {
        return;
    };
    let path = program.display();
    for (event, words) in [
        (format!("uprobe:{path}:wrk"), "did you mean work?"),
        (format!("uprobe:{path}:0x99999999"), "nothing of"),
        (format!("uprobe:{path}"), "write uprobe:PATH:FUNCTION"),
        (
            format!("usdt:{path}:other"),
            "it has: demo:guarded, demo:plain",
        ),
        (
            format!("sdt_other:plain@{path}"),
            "it has: demo:guarded, demo:plain",
        ),
        ("uprobe:/etc/passwd:x".to_owned(), "not an ELF file"),
        ("uprobe:/no/such:x".to_owned(), "cannot read /no/such"),
        ("uprobe:no-such-program:x".to_owned(), "with its whole path"),
    ] {
        let run = prof(&["stat", "-e", &event, "true"]);
        assert_eq!(run.code, 2, "{event}: {}", run.stderr);
        assert!(run.stderr.contains(words), "{event}: {}", run.stderr);
    }
    // The target's code is changed at a whole instruction or not at all; the
    // first of this function has four bytes or more, endbr64 or a mov.
    if cfg!(target_arch = "x86_64") {
        for offset in 1..4 {
            let event = format!("uprobe:libc.so.6:getppid+{offset}");
            let run = prof(&["stat", "-e", &event, "true"]);
            assert_eq!(run.code, 2, "{event}: {}", run.stderr);
            let told = format!("getppid+{offset:#x} is within an instruction");
            assert!(run.stderr.contains(&told), "{event}: {}", run.stderr);
            let next = run.stderr.trim_end().rsplit_once("getppid+");
            let (_, next) = next.expect("the next instruction");
            let event = format!("uprobe:libc.so.6:getppid+{next}");
            let run = prof(&["stat", "-e", &event, "true"]);
            assert!(!run.stderr.contains("within"), "{event}: {}", run.stderr);
        }
    }
    no_program_crashes_by_a_probe(test);
    if Path::new("/sys/bus/event_source/devices/kprobe").exists() {
        return skipped(test, "this kernel has kprobes");
    }
    for event in [
        "kprobe:vfs_read",
        "kretprobe:vfs_read:k",
        "kprobe:0xffffffff81000000",
    ] {
        let run = prof(&["record", "-o", "/dev/null", "-e", event, "true"]);
        assert_eq!(run.code, 2, "{event}: {}", run.stderr);
        assert!(
            run.stderr.contains("CONFIG_KPROBES"),
            "{event}: {}",
            run.stderr
        );
    }
}

/// Probes at addresses within instructions are refused, of a stripped program
/// too, and those behind a function's end.
fn no_program_crashes_by_a_probe(test: &str) {
    if !cfg!(target_arch = "x86_64") || !have(test, "gcc") || !have(test, "objcopy") {
        return;
    }
    let folder = scratch();
    let source = folder.join("addressed.c");
    let text =
        "int add(int a) { return a * 1000001 + 7; }\nint main(void) { return add(0) - 7; }\n";
    std::fs::write(&source, text).expect("ours");
    let (whole, stripped) = (folder.join("addressed"), folder.join("stripped"));
    let mut compiler = Command::new("gcc");
    compiler
        .args(["-O0", "-no-pie", "-o"])
        .arg(&whole)
        .arg(&source);
    assert!(compiler.status().expect("gcc").success());
    let mut copying = Command::new("objcopy");
    let copying = copying.arg("-S").arg(&whole).arg(&stripped);
    assert!(copying.status().expect("objcopy").success());
    let symbols = Command::new("nm").arg(&whole).output().expect("nm");
    let symbols = String::from_utf8(symbols.stdout).expect("text");
    let add = symbols.lines().find(|line| line.ends_with(" T add"));
    let start = u64::from_str_radix(&add.expect("there")[..16], 16).expect("hexadecimal");
    for program in [&whole, &stripped] {
        let path = program.to_str().expect("UTF-8");
        let within = (1..16).filter(|offset| {
            let event = format!("uprobe:{path}:{:#x}", start + offset);
            let run = prof(&["stat", "-e", &event, path]);
            // 0, or 2 where the probe is refused; 1 where probes are.
            assert!(matches!(run.code, 0..=2), "{event}: {}", run.stderr);
            run.stderr.contains("is within an instruction")
        });
        assert!(within.count() >= 5, "{path}");
    }
    let event = format!("uprobe:{}:add+500", whole.display());
    let run = prof(&["stat", "-e", &event, "true"]);
    assert_eq!(run.code, 2, "{}", run.stderr);
    assert!(run.stderr.contains("is not in it"), "{}", run.stderr);
}

//! Events of PMUs that this machine does not have, from a made-up sysfs that
//! perf is shown as well (`SYSFS_PATH`): what both ask the kernel for, and on
//! which CPUs, is the same.

use crate::oracle::{Finished, have, may_record_all, prof_command, scratch, skipped};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Two kinds of cores, each of one CPU, and a memory controller.
const FILES: [(&str, &str); 21] = [
    ("cpu_core/type", "4"),
    ("cpu_core/cpus", "0"),
    ("cpu_core/format/event", "config:0-7"),
    ("cpu_core/format/umask", "config:8-15"),
    ("cpu_core/events/cpu-cycles", "event=0x3c"),
    ("cpu_atom/type", "10"),
    ("cpu_atom/cpus", "1"),
    ("cpu_atom/format/event", "config:0-7"),
    ("uncore_imc_0/type", "30"),
    ("uncore_imc_0/cpumask", "0"),
    ("uncore_imc_0/format/event", "config:0-7"),
    ("uncore_imc_0/format/swapped", "config:24-31,16-23"),
    ("uncore_imc_0/events/reads", "event=0x4"),
    ("uncore_imc_1/type", "31"),
    ("uncore_imc_1/cpumask", "0"),
    ("uncore_imc_1/format/event", "config:0-7"),
    ("uncore_imc_1/events/reads", "event=0x4"),
    ("tracer/type", "40"),
    ("tracer/nr_addr_filters", "2"),
    ("software/type", "1"),
    ("breakpoint/type", "5"),
];

fn tree(test: &str) -> PathBuf {
    let root = scratch().join(format!("pmus-{test}"));
    let devices = root.join("bus/event_source/devices");
    for (path, text) in FILES {
        let path = devices.join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(&path, format!("{text}\n")).expect("written");
    }
    for (link, place) in [("devices", "/sys/devices"), ("kernel", "/sys/kernel")] {
        let link = root.join(link);
        if !link.exists() {
            std::os::unix::fs::symlink(place, link).expect("linked");
        }
    }
    root
}

/// Type, config and CPU of each event of all tasks that is asked for.
fn asked(root: &Path, program: &Path, event: &str) -> Option<BTreeSet<String>> {
    let trace = scratch().join(format!("pmus-{}.strace", event.replace('/', "_")));
    let run: Finished = Command::new("strace")
        .args(["-f", "-qq", "-e", "trace=perf_event_open", "-o"])
        .arg(&trace)
        .arg(program)
        .args(["stat", "-a", "-e", event, "true"])
        .env("SYSFS_PATH", root)
        .env("HOME", "/dev/null")
        .output()
        .expect("strace starts")
        .into();
    if run.stderr.contains("ptrace") {
        skipped("pmus", &run.stderr);
        return None;
    }
    let text = std::fs::read_to_string(trace).expect("the trace");
    let calls = text
        .lines()
        .filter_map(|line| line.split_once("perf_event_open({"));
    let calls = calls.filter_map(|(_, call)| {
        let (attr, target) = call.split_once("}, ")?;
        let mut target = target.split(", ");
        let (pid, cpu) = (target.next()?, target.next()?);
        let field = |name: &str| {
            let mut fields = attr.split(", ");
            fields
                .find(|field| field.starts_with(name))
                .unwrap_or_default()
                .to_owned()
        };
        (pid == "-1").then(|| format!("{} {} cpu {cpu}", field("type="), field("config=")))
    });
    Some(calls.collect())
}

/// covers fixture: EV-10, EV-27, EV-28, SFS-01, SFS-02, SFS-07
#[test]
fn events_of_several_kinds_of_cores_and_of_uncore_are_opened_as_by_perf() {
    let test = "events_of_several_kinds_of_cores_and_of_uncore_are_opened_as_by_perf";
    if !have(test, "perf") || !have(test, "strace") || !may_record_all(test) {
        return;
    }
    if std::thread::available_parallelism().map_or(1, usize::from) < 2 {
        return skipped(test, "the made-up cores are on CPU 0 and 1");
    }
    let root = tree("opened");
    let prof = Path::new(env!("CARGO_BIN_EXE_prof"));
    for (event, count) in [
        ("cycles", 2),
        ("branch-misses", 2),
        ("r1a8", 2),
        ("cpu_core/cycles/", 1),
        ("cpu_core/event=0x3c,umask=2/", 1),
        ("cpu_atom/r1a8/", 1),
        ("cpu_atom/event=7/", 1),
        ("uncore_imc_0/reads/", 1),
        ("uncore_imc/reads/", 2),
        ("uncore_imc_1/event=9/", 1),
        ("uncore_imc_0/event=9,swapped=0x102/", 1),
    ] {
        let Some(ours) = asked(&root, prof, event) else {
            return;
        };
        let theirs = asked(&root, Path::new("perf"), event).expect("as before");
        assert_eq!(ours, theirs, "{event}");
        assert_eq!(ours.len(), count, "{event}: {ours:?}");
    }
}

#[test]
fn a_pmu_of_some_cpus_is_not_counted_on_others() {
    let root = tree("others");
    for command in ["stat", "record"] {
        let run: Finished = prof_command()
            .args([
                command,
                "-o",
                "/dev/null",
                "-C",
                "1",
                "-e",
                "uncore_imc_0/reads/",
                "true",
            ])
            .env("SYSFS_PATH", &root)
            .output()
            .expect("prof starts")
            .into();
        if run.stderr.contains("(EACCES)") || run.stderr.contains("not online") {
            return skipped("a_pmu_of_some_cpus_is_not_counted_on_others", &run.stderr);
        }
        assert_eq!(run.code, 1, "{}", run.stderr);
        assert!(run.stderr.contains("is only on CPU 0"), "{}", run.stderr);
    }
}

/// covers fixture: SFS-04
#[test]
fn formats_behind_the_last_bit_are_refused_with_their_file() {
    let root = tree("formats");
    let formats = root.join("bus/event_source/devices/uncore_imc_0/format");
    let many = format!("config:{}", ["0-63"; 40].join(","));
    for (term, text) in [("high", "config1:60-70"), ("wide", "config:0-79")] {
        std::fs::write(formats.join(term), text).expect("written");
    }
    std::fs::write(formats.join("many"), many).expect("written");
    for command in ["stat", "record"] {
        let run = |event: &str| -> Finished {
            let run = prof_command()
                .args([command, "-o", "/dev/null", "-a", "-e", event, "true"])
                .env("SYSFS_PATH", &root)
                .output();
            run.expect("prof starts").into()
        };
        for term in ["high", "wide"] {
            let run = run(&format!("uncore_imc_0/{term}=1/"));
            assert_eq!(run.code, 2, "{}", run.stderr);
            let file = format!("format/{term}: a word of an event has 64 bits, 0 to 63");
            assert!(run.stderr.contains(&file), "{}", run.stderr);
        }
        // The kernel has no such PMU and refuses it; the term itself is understood.
        let run = run("uncore_imc_0/many=0xffffffffffffffff/");
        assert!(!run.stderr.contains("not a number"), "{}", run.stderr);
        assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
    }
}

/// covers fixture: SFS-09
#[test]
fn filters_of_addresses_are_for_pmus_that_have_them() {
    let root = tree("addresses");
    let filtered = |event: &str| -> Finished {
        let run = prof_command()
            .args(["stat", "-e", event, "--filter", "filter 0x10/0x20", "true"])
            .env("SYSFS_PATH", &root)
            .output();
        run.expect("prof starts").into()
    };
    let run = filtered("cpu_core/event=1/");
    assert_eq!(run.code, 2, "{}", run.stderr);
    assert!(
        run.stderr.contains("for PMUs that trace instructions"),
        "{}",
        run.stderr
    );
    // It is taken; what is missing is the PMU itself.
    let run = filtered("tracer/config=1/");
    assert_ne!(run.code, 2, "{}", run.stderr);
}

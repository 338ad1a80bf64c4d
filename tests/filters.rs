//! Which occurrences of an event are kept: filters of tracepoints, and cgroups.

use crate::oracle::{Finished, have, may_record_all, perf, prof, prof_command, scratch, skipped};
use std::path::{Path, PathBuf};

/// Samples of each event of what `options` record of `dd` writing 500 times.
fn samples(name: &str, options: &[&str]) -> Result<Vec<u64>, Finished> {
    let file = scratch().join(format!("filters-{name}.data"));
    let run: Finished = prof_command()
        .args(["record", "-q", "-o"])
        .arg(&file)
        .args(options)
        .args([
            "--",
            "dd",
            "if=/dev/zero",
            "of=/dev/null",
            "bs=7",
            "count=500",
            "status=none",
        ])
        .output()
        .expect("prof starts")
        .into();
    if run.code != 0 {
        return Err(run);
    }
    let path = file.to_str().expect("UTF-8");
    let stats = prof(&["dump", "--stats", "--json", "-i", path]).succeeded("dump");
    let json: serde_json::Value = serde_json::from_slice(&stats.stdout).expect("JSON");
    let events = json["events"].as_array().expect("events");
    let samples = events
        .iter()
        .map(|event| event["samples"].as_u64().expect("a number"));
    Ok(samples.collect())
}

fn has_tracepoints(test: &str) -> bool {
    let readable = std::fs::read_dir("/sys/kernel/tracing/events/syscalls").is_ok();
    if !readable {
        skipped(test, "no tracepoints of system calls");
    }
    readable && may_record_all(test)
}

const WRITE: &str = "syscalls:sys_enter_write";
const READ: &str = "syscalls:sys_enter_read";

/// covers live: EV-21, IOC-08
#[test]
fn a_filter_keeps_exactly_what_it_says() {
    let test = "a_filter_keeps_exactly_what_it_says";
    if !has_tracepoints(test) {
        return;
    }
    let kept = |name: &str, options: &[&str]| match samples(name, options) {
        Ok(samples) => samples,
        Err(run) => panic!("{options:?}: {}", run.stderr),
    };
    assert_eq!(
        kept("count", &["-e", WRITE, "--filter", "count == 7"]),
        [500]
    );
    assert_eq!(kept("none", &["-e", WRITE, "--filter", "count == 8"]), [0]);
    // Several hold together, and for the events of the -e before them.
    let both = [
        "-e",
        WRITE,
        "--filter",
        "count < 8",
        "--filter",
        "count > 6",
        "-e",
        READ,
        "--filter",
        "count == 7",
    ];
    assert_eq!(kept("both", &both), [500, 500]);
    let listed = format!("{WRITE},{READ}");
    assert_eq!(
        kept("list", &["-e", &listed, "--filter", "count == 7"]),
        [500, 500]
    );
    let counted = prof(&[
        "stat",
        "-x,",
        "-e",
        WRITE,
        "--filter",
        "count == 7",
        "dd",
        "if=/dev/zero",
        "of=/dev/null",
        "bs=7",
        "count=500",
        "status=none",
    ]);
    let counted = counted.succeeded("stat").stderr;
    assert!(counted.starts_with("500,"), "{counted}");
}

#[test]
fn a_filter_that_cannot_be_is_refused_as_by_perf() {
    let test = "a_filter_that_cannot_be_is_refused_as_by_perf";
    if !has_tracepoints(test) || !have(test, "perf") {
        return;
    }
    for (options, code, words) in [
        (
            &["-e", WRITE, "--filter", "nothing == 1"][..],
            1,
            "its fields are: __syscall_nr, fd, buf, count",
        ),
        (&["-e", WRITE, "--filter", "count =="], 1, "its fields are"),
        (&["-e", WRITE, "--filter", "count(("], 1, "its fields are"),
        (
            &["-e", "cs", "--filter", "count == 1"],
            2,
            "is for tracepoints",
        ),
        (&["--filter", "count == 1", "-e", WRITE], 2, "should follow"),
    ] {
        let theirs = perf(&[&["record", "-o", "/dev/null"], options, &["true"]].concat());
        assert_ne!(theirs.code, 0, "{options:?}");
        let ours = samples("refused", options).expect_err("refused");
        assert_eq!(ours.code, code, "{options:?}: {}", ours.stderr);
        assert!(ours.stderr.contains(words), "{options:?}: {}", ours.stderr);
    }
}

/// A cgroup with this process's child in it; gone with the value.
struct Cgroup(PathBuf);

impl Cgroup {
    fn new(name: &str) -> Option<Self> {
        let mounts = [
            "/sys/fs/cgroup/perf_event",
            "/sys/fs/cgroup/unified",
            "/sys/fs/cgroup",
        ];
        let root = mounts
            .iter()
            .find(|mount| std::path::Path::new(mount).join("cgroup.procs").exists())?;
        let path = PathBuf::from(root).join(name);
        std::fs::create_dir_all(&path).ok()?;
        Some(Self(path))
    }
}

impl Drop for Cgroup {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// covers live: CALL-14
#[test]
fn each_event_counts_in_its_cgroup() {
    let test = "each_event_counts_in_its_cgroup";
    if !has_tracepoints(test) {
        return;
    }
    let name = format!("prof-filters-{}", std::process::id());
    let Some(cgroup) = Cgroup::new(&name) else {
        return skipped(test, "no cgroup can be made here");
    };
    // dd runs in the cgroup and is waited for.
    let procs = cgroup.0.join("cgroup.procs");
    let line = format!(
        "(echo 0 > {} && exec dd if=/dev/zero of=/dev/null bs=7 count=500 status=none); true",
        procs.display()
    );
    let count = format!("{WRITE},{WRITE}");
    let filter = ["--filter", "count == 7"];
    let stat = |list: &str| {
        let options = [
            "stat", "-x,", "-a", "-e", &count, filter[0], filter[1], "-G", list,
        ];
        let run = prof(&[&options[..], &["--", "sh", "-c", &line]].concat());
        let run = run.succeeded("stat -G");
        let counts = run
            .stderr
            .lines()
            .filter_map(|line| line.split(',').next()?.parse().ok());
        counts.collect::<Vec<u64>>()
    };
    // Others may write 7 bytes too, but not in there.
    assert_eq!(stat(&name), [500, 500]);
    let first = stat(&format!("{name},"));
    assert_eq!(first[0], 500);
    assert!(first[1] >= 500, "{first:?}");
    // One alone holds for the events before it.
    let events = ["-e", "cs", "-G", &name, "-e", "cs,faults"];
    let run = prof(&[&["stat", "-x,", "-a"][..], &events, &["true"]].concat());
    let run = run.succeeded("-G between -e");
    let lines = run.stderr.lines().filter(|line| line.contains(','));
    let has_cgroup: Vec<bool> = lines.map(|line| line.contains(&name)).collect();
    assert_eq!(has_cgroup, [true, false, false], "{}", run.stderr);
    let run = prof(&["stat", "-a", "-G", &name, "-e", "cs", "true"]);
    assert!(
        run.stderr.contains("should follow the -e"),
        "{}",
        run.stderr
    );
    let options = ["-a", "-e", WRITE, filter[0], filter[1], "-G", &name];
    let file = scratch().join("filters-cgroup.data");
    let run: Finished = prof_command()
        .args(["record", "-q", "-o"])
        .arg(&file)
        .args(options)
        .args(["--", "sh", "-c", &line])
        .output()
        .expect("prof starts")
        .into();
    run.succeeded("record -G");
    let stats = prof(&[
        "dump",
        "--stats",
        "--json",
        "-i",
        file.to_str().expect("UTF-8"),
    ]);
    let json: serde_json::Value = serde_json::from_slice(&stats.stdout).expect("JSON");
    assert_eq!(json["events"][0]["samples"], 500);
}

#[test]
fn a_cgroup_that_is_not_there_is_told() {
    if !has_tracepoints("a_cgroup_that_is_not_there_is_told") {
        return;
    }
    for (command, list, words) in [
        (
            "stat",
            "no-such-cgroup",
            "cannot open cgroup no-such-cgroup",
        ),
        (
            "record",
            "no-such-cgroup",
            "cannot open cgroup no-such-cgroup",
        ),
        ("stat", "a,b", "more cgroups than events"),
        ("record", "a,b", "more cgroups than events"),
        ("stat", "a -G b", "more cgroups than events"),
        ("stat", "a,b -e faults", "more cgroups than events"),
        ("record", "a,b -e faults", "more cgroups than events"),
        ("record", "a -G b", "more cgroups than events"),
    ] {
        let options = [command, "-o", "/dev/null", "-a", "-e", "cs", "-G"];
        let lists: Vec<&str> = list.split(' ').collect();
        let run = prof(&[&options[..], &lists, &["true"]].concat());
        assert_ne!(run.code, 0, "{command} {list}");
        assert!(
            run.stderr.contains(words),
            "{command} {list}: {}",
            run.stderr
        );
    }
}

/// covers live: EV-34
#[test]
fn times_are_counted_beside_events() {
    let spin = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
    let events = "duration_time,user_time,system_time,task-clock";
    let run = prof(&["stat", "-x,", "-e", events, "--", "sh", "-c", spin]);
    let run = run.succeeded("stat");
    let value = |name: &str| -> f64 {
        let mut lines = run.stderr.lines();
        let line = lines.find(|line| line.contains(name)).expect(name);
        line.split(',')
            .next()
            .and_then(|value| value.parse().ok())
            .expect(name)
    };
    assert!(run.stderr.contains(",ns,duration_time,"), "{}", run.stderr);
    let (user, system) = (value("user_time"), value("system_time"));
    let cpu = value("task-clock") * 1e6;
    // Both are of the same process; rusage counts what exec itself takes too.
    assert!(
        user > 0.0 && user + system <= value("duration_time"),
        "{}",
        run.stderr
    );
    assert!(user + system >= cpu * 0.9, "{}", run.stderr);
    // The kernel has no event for a tool's, so others lead the group.
    let group = "{duration_time,page-faults:u,user_time,minor-faults:u}";
    let run = prof(&["stat", "-x,", "-e", group, "true"]);
    let counted = |name: &str| {
        let line = run.stderr.lines().find(|line| line.contains(name));
        line.is_some_and(|line| !line.starts_with('<'))
    };
    let all = ["duration_time", "page-faults", "user_time", "minor-faults"];
    assert!(all.into_iter().all(counted), "{}", run.stderr);
    let unled = prof(&["stat", "--filter", "prev_pid == 0", "true"]);
    assert_eq!(unled.code, 2, "{}", unled.stderr);
    assert!(
        unled.stderr.contains("should follow the -e"),
        "{}",
        unled.stderr
    );
    let refused = prof(&["record", "-o", "/dev/null", "-e", "duration_time", "true"]);
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    assert!(
        refused.stderr.contains("try: prof stat -e duration_time"),
        "{}",
        refused.stderr
    );
}

/// Samples by process of a tracepoint of the whole machine, and the recorder's
/// process.
fn writers(name: &str, options: &[&str]) -> (Vec<u32>, u32) {
    let file = scratch().join(format!("filters-{name}.data"));
    for earlier in parts_of(&file) {
        std::fs::remove_file(earlier).expect("ours");
    }
    let mut run = prof_command()
        // Rings with room for all that the writer does on a loaded machine.
        .args(["record", "-q", "-a", "-m", "16M", "-e", WRITE])
        .args(options)
        .arg("-o")
        .arg(&file)
        // So many that the recorder writes them in several pieces.
        .args(["--", "dd", "if=/dev/zero", "of=/dev/null", "bs=1"])
        .args(["count=50000", "status=none"])
        .spawn()
        .expect("prof starts");
    assert!(run.wait().expect("it ends").success(), "{options:?}");
    let pids = parts_of(&file).into_iter().flat_map(|part| {
        let path = part.to_str().expect("UTF-8");
        let text = prof(&["script", "-i", path, "-F", "pid"]).succeeded("script");
        let pids: Vec<u32> = text
            .text()
            .lines()
            .filter_map(|line| line.trim().parse().ok())
            .collect();
        pids
    });
    (pids.collect(), run.id())
}

/// The file, and those with a time behind its name.
fn parts_of(file: &Path) -> Vec<PathBuf> {
    let name = file.file_name().expect("a file").to_string_lossy();
    let entries = std::fs::read_dir(scratch()).expect("a folder");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let is_part = |path: &PathBuf| {
        let other = path.file_name().expect("a file").to_string_lossy();
        other.starts_with(&*name) && !other.ends_with(".old")
    };
    paths.filter(is_part).collect()
}

#[test]
fn the_recorder_leaves_itself_out_of_tracepoints() {
    let test = "the_recorder_leaves_itself_out_of_tracepoints";
    if !has_tracepoints(test) {
        return;
    }
    let of_it = |(pids, recorder): &(Vec<u32>, u32)| {
        let theirs = pids.iter().filter(|pid| *pid == recorder);
        (theirs.count(), pids.len())
    };
    let (with, _) = of_it(&writers("with-us", &[]));
    assert!(with > 0, "the recorder writes");
    let without = ["--exclude-perf"];
    let (own, all) = of_it(&writers("without-us", &without));
    assert!(own == 0 && all >= 50_000, "{own} of {all}");
    let filtered = ["--filter", "count == 1", "--exclude-perf"];
    let (own, all) = of_it(&writers("filtered-without-us", &filtered));
    assert!(own == 0 && all >= 50_000, "{own} of {all}");
    // A flight recorder writes what it keeps by a thread of its own.
    let dumps = ["--exclude-perf", "--overwrite=1M", "--switch-output=200K"];
    let (own, all) = of_it(&writers("dumps-without-us", &dumps));
    assert!(own == 0 && all > 0, "{own} of {all}");
    // As perf: it is for what is before it, and there for tracepoints only.
    for wrong in [
        ["--exclude-perf", "-e", WRITE],
        ["-e", "cs", "--exclude-perf"],
    ] {
        let run = prof(&[&["record", "-a"], &wrong[..], &["true"]].concat());
        assert_eq!(run.code, 2, "{wrong:?}");
        assert!(run.stderr.contains("--exclude-perf"), "{}", run.stderr);
    }
}

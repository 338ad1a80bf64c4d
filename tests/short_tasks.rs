//! Tasks that live shorter than a sampling period get their share of samples,
//! and what others did meanwhile is not written; where that cannot be, every
//! view says what share was not seen.

use crate::oracle::{
    Finished, compiled, copy_program, have, may_record_all, perf, prof, prof_command, scratch,
    skipped, taken_by_host,
};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Samples a second and CPU.
const RATE: f64 = 4000.0;

/// A recording of a program.
struct Recorded {
    samples: u64,
    /// Samples that were due for the CPU time of the whole tree.
    due: f64,
    /// Those of what the host of a virtual machine took from all CPUs meanwhile: the
    /// clock that samples goes on, and CPU time does not.
    taken: f64,
    file: PathBuf,
}

/// Records the program with so many tasks.
fn recorded(name: &str, options: &[&str], program: &Path, tasks: &[&str]) -> Recorded {
    let file = scratch().join(format!("short-tasks-{name}.data"));
    let taken = taken_by_host();
    let run = prof_command()
        .args(["record", "-F", &RATE.to_string(), "-e", "cpu-clock", "-o"])
        .arg(&file)
        .args(options)
        .arg("--")
        .arg(program)
        .args(tasks)
        .output()
        .expect("prof starts");
    let run = Finished::from(run).succeeded("record");
    let ms: f64 = run.text().trim().parse().expect("ms");
    let stats = prof(&["dump", "--stats", "--json", "-i", path(&file)]).succeeded("dump");
    let json: serde_json::Value = serde_json::from_slice(&stats.stdout).expect("JSON");
    let samples = json["events"][0]["samples"].as_u64().expect("a number");
    Recorded {
        samples,
        due: ms / 1e3 * RATE,
        taken: (taken_by_host() - taken) as f64 / 1e9 * RATE,
        file,
    }
}

fn path(file: &Path) -> &str {
    file.to_str().expect("UTF-8")
}

/// A busy program of another user, until dropped.
struct Stranger(Child);

impl Stranger {
    fn start() -> Self {
        let program = Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .uid(65534)
            .stdout(Stdio::null())
            .spawn();
        Self(program.expect("sh starts"))
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether what is there is within 15 % of what is due.
fn is_share(samples: u64, due: f64, taken: f64) -> bool {
    (0.85 * due..1.15 * due + taken).contains(&(samples as f64))
}

#[test]
fn tasks_shorter_than_a_period_have_their_share_of_samples() {
    let test = "tasks_shorter_than_a_period_have_their_share_of_samples";
    if !may_record_all(test) {
        return;
    }
    let Some(program) = compiled(test, "short-tasks.c", &["-O1", "-pthread"]) else {
        return;
    };
    for tasks in [&["1500"][..], &["4000", "threads"]] {
        for options in [&[][..], &["-g"], &["--follow", "cpus"]] {
            let mut all = recorded("share", options, &program, tasks);
            // Which tasks are hit is chance: what one run leaves open, more decide.
            for _ in 0..2 {
                if !is_share(all.samples, all.due, all.taken) {
                    let more = recorded("share", options, &program, tasks);
                    all.samples += more.samples;
                    all.due += more.due;
                    all.taken += more.taken;
                }
            }
            let Recorded {
                samples,
                due,
                taken,
                file,
            } = all;
            assert!(
                is_share(samples, due, taken),
                "{tasks:?} {options:?}: {samples} of {due}, {taken} at most by the host"
            );
            // Threads that end have their numbers until their last sample.
            let tids = prof(&["script", "-F", "tid", "-G", "-i", path(&file)]).succeeded("script");
            assert!(!tids.text().contains("-1"), "{tasks:?} {options:?}");
        }
    }
}

#[test]
fn what_others_do_meanwhile_is_not_written() {
    let test = "what_others_do_meanwhile_is_not_written";
    if !may_record_all(test) || !have(test, "perf") {
        return;
    }
    let Some(program) = compiled(test, "short-tasks.c", &["-O1", "-pthread"]) else {
        return;
    };
    let strangers = [Stranger::start(), Stranger::start()];
    let others = recorded("others", &["--follow", "cpus"], &program, &["500"]);
    let (samples, file) = (others.samples, others.file);
    let pids = perf(&["script", "-F", "comm,pid", "-i", path(&file)]).succeeded("perf script");
    let pids = pids.text();
    assert_eq!(
        pids.lines().filter(|line| !line.is_empty()).count() as u64,
        samples
    );
    for Stranger(child) in &strangers {
        let pid = child.id().to_string();
        assert!(!pids.split_whitespace().any(|word| word == pid), "{pid}");
    }
    let stats = perf(&["report", "--stats", "-i", path(&file)]).succeeded("perf report");
    let stats = stats.text();
    assert!(!stats.contains("LOST"), "{stats}");
    // As a recording of tasks, which the kernel filters.
    let attr = |file: &Path| {
        perf(&["evlist", "-v", "-i", path(file)])
            .succeeded("evlist")
            .text()
    };
    let of_cpus = attr(&file);
    let file = recorded("tasks", &["--follow", "tasks"], &program, &["1"]).file;
    assert_eq!(of_cpus, attr(&file));
}

#[test]
fn probes_are_hit_in_children_and_new_threads() {
    let test = "probes_are_hit_in_children_and_new_threads";
    if !Path::new("/sys/bus/event_source/devices/uprobe").exists() {
        return skipped(test, "this kernel has no uprobes");
    }
    if !may_record_all(test) {
        return;
    }
    let Some(compiled) = compiled(test, "short-tasks.c", &["-O1", "-pthread"]) else {
        return;
    };
    let program = scratch().join("short-tasks-probed");
    copy_program(&compiled, &program);
    let event = format!("uprobe:{}:work", path(&program));
    // Another run of the same program hits it, too, and does not count.
    let mut stranger = Command::new(&program)
        .arg("4000")
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts");
    for tasks in [&["1000"][..], &["1000", "threads"]] {
        let file = scratch().join("short-tasks-probed.data");
        let mut args = vec!["record", "--follow", "cpus", "-e", &event];
        args.extend(["-o", path(&file), path(&program)]);
        args.extend(tasks);
        let run = prof(&args).succeeded("record");
        assert!(run.stderr.contains("1000 samples"), "{}", run.stderr);
    }
    stranger.kill().expect("it is ours");
    stranger.wait().expect("it ends");
}

#[test]
fn the_share_that_was_not_seen_is_told_in_every_view() {
    let test = "the_share_that_was_not_seen_is_told_in_every_view";
    let Some(program) = compiled(test, "short-tasks.c", &["-O1", "-pthread"]) else {
        return;
    };
    if std::fs::metadata("/proc/self").expect("there").uid() != 0 {
        return skipped(test, "needs root, to be nobody");
    }
    let folder = scratch().join("short-tasks-nobody");
    std::fs::create_dir_all(&folder).expect("writable");
    let open = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(&folder, open).expect("ours");
    let file = folder.join("perf.data");
    let run = prof_command()
        .args(["record", "-e", "cpu-clock:u", "-o"])
        .arg(&file)
        .arg(&program)
        .args(["1000", "threads"])
        .uid(65534)
        .gid(65534)
        .output()
        .expect("prof starts");
    let run = Finished::from(run).succeeded("record");
    let told = "of the CPU time was seen: the kernel's part is not, nor are tasks that live";
    assert!(run.stderr.contains(told), "{}", run.stderr);
    let report = |options: &[&str]| {
        let args = [&["report", "-f", "-i", path(&file)], options].concat();
        prof(&args).succeeded("report")
    };
    let text = report(&["--stdio"]);
    let text = text.text() + &text.stderr;
    assert!(text.contains("% of the CPU time seen"), "{text}");
    let told = "of the CPU time has no samples: the kernel's part was not sampled, nor were";
    assert!(text.contains(told), "{text}");
    // The same where it is drawn, as text in them or, where only stacks may be, beside.
    for view in [
        &["flamegraph"][..],
        &["flamegraph", "--format", "html"],
        &["flamegraph", "--format", "folded"],
        &["report", "--stdio", "-g", "caller"],
        &["report", "--csv"],
        &["report", "--html", "/dev/stdout"],
        &["export", "--format", "speedscope", "-o", "/dev/null"],
    ] {
        let drawn = prof(&[view, &["-f", "-i", path(&file)]].concat()).succeeded("a view");
        let text = drawn.text() + &drawn.stderr;
        assert!(
            text.contains("of the CPU time"),
            "{view:?}: {}",
            drawn.stderr
        );
    }
    let json: serde_json::Value =
        serde_json::from_slice(&report(&["--json"]).stdout).expect("JSON");
    let due = json["trust"]["due_for_cpu_time"]
        .as_u64()
        .expect("a number");
    let samples = json["trust"]["samples"].as_u64().expect("a number");
    assert!(samples < due / 2, "{samples} of {due}");
    assert_eq!(json["trust"]["due_has_kernel"], true);
    // All CPU time is there, whether it was sampled or not.
    assert!(due > 400, "{due}");
}

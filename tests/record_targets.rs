//! Whose events `prof record` takes where several options say it, what ends a
//! recording, and what interrupts do: scripts written for perf go on working.

use crate::oracle::{
    Finished, compiled, have, may_record_all, perf, prof, prof_command, scratch, skipped,
};
use crate::patience::wait_until;
use crate::waiting::{send, with_pipes};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// Burns CPU until it is ended.
const BUSY: &str = "while :; do :; done";
/// Burns some CPU and ends with 5.
const SOME_WORK: &str = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; exit 5";

fn recording(name: &str) -> PathBuf {
    scratch().join(format!("record-targets-{name}.data"))
}

/// A process that burns CPU until this is dropped.
struct Busy(Child);

impl Busy {
    fn start() -> Self {
        let child = Command::new("sh").args(["-c", BUSY]).spawn();
        Self(child.expect("sh starts"))
    }

    fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        self.0.wait().expect("ours");
    }
}

/// `prof record -o FILE ARGS`, with no signal ignored: tests may run below
/// `nohup` or in a shell's background.
fn record(file: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("env");
    command
        .arg("--default-signal")
        .arg(prof_command().get_program())
        .args(["record", "-F", "997", "-o"])
        .arg(file)
        .args(args);
    command
}

fn finish(mut command: Command) -> Finished {
    command.output().expect("starts").into()
}

/// The fields of all samples, as perf shows them.
fn fields(file: &Path, fields: &str) -> Vec<String> {
    let file = file.to_str().expect("a path of ours");
    let shown = perf(&["script", "-F", fields, "-i", file]).succeeded("perf script");
    let text = shown.text();
    text.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn a_command_beside_attached_tasks_is_a_clock() {
    let test = "a_command_beside_attached_tasks_is_a_clock";
    if !have(test, "perf") {
        return;
    }
    let busy = Busy::start();
    let pid = busy.pid();
    for (options, told) in [
        (&["-p", &pid][..], None),
        (&["-t", &pid], None),
        (
            &["-p", &pid, "-a"],
            Some("PID/TID switch overriding SYSTEM"),
        ),
        (
            &["-t", &pid, "-a"],
            Some("PID/TID switch overriding SYSTEM"),
        ),
    ] {
        let clock = ["--", "sh", "-c", SOME_WORK];
        let file = recording("clock");
        let ours = finish(record(&file, &[options, &clock].concat()));
        if ours.stderr.contains("EACCES") {
            return skipped(test, &ours.stderr);
        }
        assert_eq!(ours.code, 5, "{options:?}: {}", ours.stderr);
        let pids = fields(&file, "pid");
        assert!(!pids.is_empty(), "{options:?}: {}", ours.stderr);
        assert!(
            pids.iter().all(|sampled| *sampled == pid),
            "{options:?}: the command was sampled: {pids:?}"
        );
        let output = ["record", "-o", "/dev/null"];
        let theirs = perf(&[&output, options, &clock].concat());
        assert_eq!(ours.code, theirs.code, "{options:?}: {}", theirs.stderr);
        for stderr in [&ours.stderr, &theirs.stderr] {
            let warned = stderr.lines().any(|line| line.contains("overriding"));
            assert_eq!(warned, told.is_some(), "{options:?}: {stderr}");
            assert!(stderr.contains(told.unwrap_or_default()), "{stderr}");
        }
    }
}

#[test]
fn tasks_that_end_first_end_the_recording_and_the_clock() {
    let test = "tasks_that_end_first_end_the_recording_and_the_clock";
    let busy = Busy::start();
    let clock = "echo started $$; exec sleep 1000";
    let mut recorder = record(
        &recording("tasks-end"),
        &["-p", &busy.pid(), "--", "sh", "-c", clock],
    );
    let mut recorder = recorder
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("prof starts");
    let Some(line) = next_line(&mut recorder) else {
        return skipped(test, "the recording was refused");
    };
    let clock = line.trim_start_matches("started ").to_owned();
    drop(busy);
    let ended = Finished::from(recorder.wait_with_output().expect("ends"));
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(
        ended.stderr.contains("have ended before"),
        "{}",
        ended.stderr
    );
    assert!(!Path::new("/proc").join(clock).exists());
}

/// The next line of a child's output; `None` at its end.
fn next_line(child: &mut Child) -> Option<String> {
    let output = child.stdout.as_mut().expect("piped");
    line_of(&mut BufReader::new(output))
}

fn line_of<R: BufRead>(output: &mut R) -> Option<String> {
    let mut line = String::new();
    output.read_line(&mut line).expect("readable");
    let line = line.trim_end();
    (!line.is_empty()).then(|| line.to_owned())
}

#[test]
fn all_cpus_override_per_thread_with_perfs_warning() {
    let test = "all_cpus_override_per_thread_with_perfs_warning";
    if !have(test, "perf") || !may_record_all(test) {
        return;
    }
    for everything in [&["-a"][..], &["-C", "0"]] {
        let file = recording("per-thread");
        let options = [everything, &["--per-thread", "sh", "-c", SOME_WORK]].concat();
        let ours = finish(record(&file, &options));
        assert_eq!(ours.code, 5, "{}", ours.stderr);
        let output = ["record", "-o", "/dev/null"];
        let theirs = perf(&[&output, &options[..]].concat());
        for stderr in [&ours.stderr, &theirs.stderr] {
            let warning = "SYSTEM/CPU switch overriding PER-THREAD";
            assert!(stderr.contains(warning), "{stderr}");
        }
        // Events of the whole system do not begin with the command.
        let file = file.to_str().expect("a path of ours");
        let events = perf(&["evlist", "-v", "-i", file]).succeeded("perf evlist");
        let events = events.text();
        assert!(events.contains("disabled: 1"), "{events}");
        assert!(!events.contains("enable_on_exec"), "{events}");
    }
}

/// A recording of `script`, which tells lines; they are read from the second
/// value.
fn start(file: &Path, script: &str) -> (Child, BufReader<ChildStdout>) {
    let mut child = with_pipes(&mut record(file, &["sh", "-c", script]));
    let output = child.stdout.take().expect("piped");
    (child, BufReader::new(output))
}

#[test]
fn sigusr2_is_not_the_end_as_for_perf() {
    let test = "sigusr2_is_not_the_end_as_for_perf";
    let file = recording("usr2");
    let (child, mut lines) = start(&file, "echo ready; read line; exit 7");
    if line_of(&mut lines).is_none() {
        return skipped(test, "the recording was refused");
    }
    send(&child, "USR2");
    // Closes the command's input: it goes on and ends.
    let ended = Finished::from(child.wait_with_output().expect("ends"));
    assert_eq!(ended.code, 7, "{}", ended.stderr);
}

/// Whether the file has its feature sections, which come last.
pub(crate) fn is_finished(file: &Path) -> bool {
    let bytes = std::fs::read(file).expect("there from the start on");
    let features = bytes.get(72..104).expect("a header");
    features.iter().any(|&byte| byte != 0)
}

#[test]
fn interrupts_of_kill_climb_the_ladder_of_a_terminal() {
    let test = "interrupts_of_kill_climb_the_ladder_of_a_terminal";
    let file = recording("ladder");
    let _ = std::fs::remove_file(&file);
    let script = "trap 'echo int' INT; trap 'echo term' TERM; echo ready; while :; do :; done";
    let (child, mut lines) = start(&file, script);
    if line_of(&mut lines).is_none() {
        return skipped(test, "the recording was refused");
    }
    send(&child, "INT");
    assert_eq!(line_of(&mut lines).as_deref(), Some("int"));
    // The first finishes the file, while the command goes on.
    wait_until("the file to be finished", || is_finished(&file));
    send(&child, "INT");
    assert_eq!(line_of(&mut lines).as_deref(), Some("term"));
    send(&child, "INT");
    let ended = child.wait_with_output().expect("ends");
    let signal = std::os::unix::process::ExitStatusExt::signal(&ended.status);
    assert_eq!(signal, Some(9), "{:?}", ended.status);
    let file = file.to_str().expect("a path of ours");
    let stats = crate::oracle::prof(&["dump", "--stats", "-i", file]);
    stats.succeeded("prof dump");
}

/// `/proc/PID/maps` of it is empty: what is mapped is read from another thread.
#[test]
fn a_process_whose_first_thread_has_ended_has_names_and_whole_stacks() {
    let test = "a_process_whose_first_thread_has_ended_has_names_and_whole_stacks";
    let Some(program) = compiled(test, "leader-ends.c", &["-O2", "-pthread"]) else {
        return;
    };
    let mut child = Command::new(&program)
        .arg("2")
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut line = String::new();
    let output = child.stdout.take().expect("a pipe");
    BufReader::new(output).read_line(&mut line).expect("a line");
    let pid = child.id();
    let has_maps = || std::fs::read(format!("/proc/{pid}/maps")).is_ok_and(|maps| !maps.is_empty());
    wait_until("the first thread ends", || !has_maps());
    let file = recording("leader");
    let pid = pid.to_string();
    let args = ["-q", "-g", "-e", "cpu-clock:u", "-p", &pid];
    finish(record(&file, &args)).succeeded("record");
    child.wait().expect("ours");
    let file = file.to_str().expect("a path of ours");
    let script = prof(&["script", "-F", "ip,sym", "-i", file]).succeeded("script");
    let text = script.text();
    let stacks: Vec<&str> = text
        .split("\n\n")
        .filter(|it| !it.trim().is_empty())
        .collect();
    let is_whole = |stack: &&&str| {
        let has = |name: &str| stack.contains(name);
        has("middle") && has("work") && has("start_thread")
    };
    let whole = stacks.iter().filter(is_whole).count();
    assert!(stacks.len() >= 100, "{}", stacks.len());
    assert!(
        whole * 10 >= stacks.len() * 9,
        "{whole} of {}",
        stacks.len()
    );
}

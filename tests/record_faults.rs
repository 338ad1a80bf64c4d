//! `prof record` when things go wrong: signals, a full disk, missing
//! descriptors, missing rights. The file stays readable and the command lives.

use crate::oracle::{Finished, copy_program, have, perf, prof, prof_command, scratch, skipped};
use crate::patience::{children, has_ended, wait_for_command, wait_until};
use crate::waiting::send;
use prof_abi::RecordType;
use prof_perfdata::Reader;
use std::collections::HashMap;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Burns CPU until it is ended.
const BUSY: &str = "while :; do :; done";
/// Burns some CPU and ends with 4.
const SOME_WORK: &str = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; exit 4";

fn recording(name: &str) -> PathBuf {
    scratch().join(format!("record-faults-{name}.data"))
}

/// Starts `prof record -F 997 -o FILE sh -c SCRIPT`, with no signal ignored:
/// tests may run below `nohup` or in a shell's background.
fn start(file: &Path, script: &str) -> Child {
    Command::new("env")
        .arg("--default-signal")
        .arg(prof_command().get_program())
        .args(["record", "-F", "997", "-o"])
        .arg(file)
        .args(["sh", "-c", script])
        .stderr(Stdio::piped())
        .spawn()
        .expect("prof starts")
}

/// Samples that perf finds in the file, and what it has to say.
fn samples(file: &Path) -> (usize, String) {
    let finished = perf(&[
        "script".as_ref(),
        "-F".as_ref(),
        "pid,time".as_ref(),
        "-i".as_ref(),
        file.as_os_str(),
    ]);
    (finished.text().lines().count(), finished.stderr)
}

/// The number in front of " samples" of the summary.
fn told_samples(stderr: &str) -> usize {
    let words: Vec<&str> = stderr.split_whitespace().collect();
    let at = words.iter().position(|word| word.starts_with("samples"));
    let number = at.and_then(|at| words.get(at.checked_sub(1)?)?.parse().ok());
    number.unwrap_or_else(|| panic!("no summary in {stderr}"))
}

#[test]
fn r09_every_ending_signal_finishes_the_file() {
    if !have("r09", "perf") {
        return;
    }
    for signal in ["HUP", "QUIT", "TERM", "INT", "PIPE", "ALRM", "USR1"] {
        let file = recording(&format!("signal-{signal}"));
        let mut child = start(&file, BUSY);
        wait_for_command(&mut child, 10);
        send(&child, signal);
        let output = child.wait_with_output().expect("ends");
        let stderr = String::from_utf8_lossy(&output.stderr);
        if stderr.contains("cannot open") {
            return skipped("r09", &stderr);
        }
        // The command was told to end, and its fate is ours.
        assert!(
            output.status.signal().is_some(),
            "{signal}: {:?} {stderr}",
            output.status
        );
        let told = told_samples(&stderr);
        let (found, says) = samples(&file);
        assert!(told > 20, "{signal}: {stderr}");
        assert_eq!(found, told, "{signal}: {says}");
        assert_eq!(says, "", "{signal}");
    }
}

#[test]
fn r07_a_killed_recorder_leaves_a_readable_file() {
    if !have("r07", "perf") {
        return;
    }
    let file = recording("killed");
    let _ = std::fs::remove_file(&file);
    let mut child = start(&file, BUSY);
    // Samples come to the disk while the command goes on.
    wait_until("samples on the disk", || {
        has_ended(&mut child) || samples_on_disk(&file) > 100
    });
    // What is on the disk now must be there after the kill.
    let (before, _) = samples(&file);
    let left = children(child.id());
    send(&child, "KILL");
    child.wait().expect("ends");
    kill_all(&left);
    let (after, says) = samples(&file);
    if before == 0 && after == 0 && says.contains("no samples") {
        return skipped("r07", &says);
    }
    assert!(after >= before, "{after} after, {before} before");
    assert!(before > 100, "{before} samples");
    assert!(!says.contains("failed"), "{says}");
}

/// Samples in a recording that is being written.
fn samples_on_disk(file: &Path) -> usize {
    let Some(Ok(mut reader)) = File::open(file).ok().map(Reader::open_file) else {
        return 0;
    };
    let mut samples = 0;
    while let Ok(Some(record)) = reader.next() {
        samples += usize::from(record.kind == RecordType::SAMPLE);
    }
    samples
}

/// Ends what a killed recorder left running: nothing of ours harms it.
fn kill_all(pids: &[u32]) {
    for pid in pids {
        let killed = Command::new("kill").args(["-9", &pid.to_string()]).status();
        assert!(
            killed.expect("kill starts").success(),
            "the command lived on"
        );
    }
}

#[test]
fn r08_a_file_size_limit_ends_the_recording_not_the_command() {
    if !have("r08", "perf") {
        return;
    }
    for (limit, stacks) in [(40, "fp"), (40, "auto"), (60, "fp")] {
        let file = recording("fsize");
        let program = env!("CARGO_BIN_EXE_prof");
        let script = format!(
            "ulimit -f {limit}; \
             exec {program} record -F 20000 --call-graph {stacks} -o {} sh -c '{SOME_WORK}'",
            file.display()
        );
        let finished: Finished = Command::new("bash")
            .args(["-c", &script])
            .output()
            .expect("bash starts")
            .into();
        if finished.stderr.contains("cannot open") {
            return skipped("r08", &finished.stderr);
        }
        assert_eq!(finished.code, 1, "{}", finished.stderr);
        let lines: Vec<&str> = finished.stderr.lines().collect();
        assert!(
            lines.iter().any(|line| line.contains("File too large")),
            "{lines:?}"
        );
        // The summary tells what is in the file, and readers show all of it.
        let told = told_samples(&finished.stderr);
        let (found, says) = samples(&file);
        assert!(told > 0, "{lines:?}");
        assert_eq!(found, told, "{says}");
        assert!(
            !says.contains("failed") && !says.contains("unexpected"),
            "{says}"
        );
        let read = prof(&["dump", "--stats", "-i", file.to_str().expect("UTF-8")]);
        let kinds = read.text();
        assert!(kinds.contains(&format!("{told} SAMPLE")), "{told}: {kinds}");
        assert!(read.stderr.contains("ended early"), "{}", read.stderr);
        // What the end of the file would tell is not made up.
        let path = file.to_str().expect("UTF-8");
        let shown = prof(&["report", "--stdio", "-g", "none", "-i", path]);
        let shown = shown.text();
        assert!(
            !shown.contains("without frame pointers"),
            "{stacks}: {shown}"
        );
    }
}

#[test]
fn r08_names_that_a_file_has_no_room_for_end_nothing() {
    let test = "r08_names_that_a_file_has_no_room_for_end_nothing";
    let file = recording("fsize-names");
    let program = env!("CARGO_BIN_EXE_prof");
    // So many samples on any machine, and room for them, in KiB: the file has 8 without
    // what is known of them, and 30 with it.
    // However busy the machine is, names are looked up.
    let script = format!(
        "ulimit -f 14; \
         exec {program} record -g -e faults -c 4 --embed-time 20000 -o {} sh -c '{SOME_WORK}'",
        file.display()
    );
    let run = Command::new("bash").args(["-c", &script]).output();
    let run = Finished::from(run.expect("bash starts"));
    if run.stderr.contains("cannot open") {
        return skipped(test, &run.stderr);
    }
    assert_eq!(run.code, 4, "{}", run.stderr);
    assert!(run.stderr.contains("File too large"), "{}", run.stderr);
    let (found, says) = samples(&file);
    assert_eq!(found, told_samples(&run.stderr), "{says}");
    assert!(!says.contains("belong to nothing"), "{says}");
}

#[test]
fn r08_a_file_size_limit_is_an_error_of_every_command_that_writes() {
    let recording = crate::oracle::fixture("recordings/local/perf6.1-deleted.data");
    let folder = tempfile::tempdir().expect("a folder");
    for command in [
        "flamegraph -o x.svg",
        "export --format firefox -o x.json",
        "archive -o x.zst",
        "script > x.txt",
    ] {
        let program = env!("CARGO_BIN_EXE_prof");
        let (command, target) = command.split_once(" > ").unwrap_or((command, "/dev/null"));
        let recording = recording.display();
        let script = format!("ulimit -f 1; exec {program} {command} -i {recording} > {target}");
        let mut bash = Command::new("bash");
        let bash = bash.args(["-c", &script]).current_dir(folder.path());
        let finished: Finished = bash.output().expect("bash starts").into();
        assert_eq!(finished.code, 1, "{command}: {}", finished.stderr);
        let told = finished.stderr.contains("File too large");
        assert!(told, "{command}: {}", finished.stderr);
    }
    // Nothing half written, but what the shell had opened itself.
    let left = std::fs::read_dir(folder.path()).expect("it is there");
    let left: Vec<_> = left
        .map(|entry| entry.expect("a file").file_name())
        .collect();
    assert_eq!(left, ["x.txt"]);
}

#[test]
fn r08_a_closed_pipe_and_a_full_disk_end_the_recording_with_one_line() {
    let run = |line: &str| -> Finished {
        let prof = env!("CARGO_BIN_EXE_prof");
        let script = format!("{}; exit ${{PIPESTATUS[0]}}", line.replace("PROF", prof));
        Command::new("bash")
            .args(["-c", &script])
            .output()
            .expect("bash starts")
            .into()
    };
    let closed = run(&format!(
        "PROF record -q -F 9999 -o - sh -c '{SOME_WORK}' | head -c 100 >/dev/null"
    ));
    if closed.stderr.contains("cannot open") {
        return skipped("r08", &closed.stderr);
    }
    assert_eq!(closed.code, 1, "{}", closed.stderr);
    assert_eq!(closed.stderr.lines().count(), 1, "{}", closed.stderr);
    let full = run(&format!("PROF record -q -o /dev/full sh -c '{SOME_WORK}'"));
    assert_eq!(full.code, 1, "{}", full.stderr);
    assert!(full.stderr.contains("No space left"), "{}", full.stderr);
}

#[test]
fn a_stream_that_ends_early_is_told_as_far_as_it_was_written() {
    let folder = scratch().join("short-stream");
    std::fs::create_dir_all(&folder).expect("a folder");
    let (binary, file) = (env!("CARGO_BIN_EXE_prof"), folder.join("stream.data"));
    // The limit is the recorder's alone, and ends within its samples.
    let script = format!(
        "ulimit -f 40; exec {binary} record -F 9999 -e cpu-clock -o - sh -c '{SOME_WORK}' > {}",
        file.display()
    );
    let run: Finished = Command::new("bash")
        .args(["-c", &script])
        .output()
        .expect("bash starts")
        .into();
    if run.stderr.contains("cannot open") {
        return skipped("a_stream_that_ends_early", &run.stderr);
    }
    assert!(run.stderr.contains("ended early"), "{}", run.stderr);
    let line = run.stderr.lines().find(|line| line.contains(" samples, "));
    let line = line.unwrap_or_else(|| panic!("{}", run.stderr));
    let told = line.split_whitespace().nth(1).expect("a number");
    let shown = prof(&["report", "--stats", "-i", &file.display().to_string()]).text();
    let read = shown.lines().find(|line| line.contains("SAMPLE events:"));
    let read = read.and_then(|line| line.split_whitespace().nth(2));
    assert_eq!(read, Some(told), "{line}\n{shown}");
}

#[test]
fn a_full_disk_is_told_of_what_is_written_not_of_what_is_read() {
    let data = recording("injected-to-full");
    let file = data.display().to_string();
    let made = prof(&["record", "-q", "-o", &file, "true"]);
    if made.code != 0 {
        return skipped("a_full_disk_is_told_of_what_is_written", &made.stderr);
    }
    let binary = env!("CARGO_BIN_EXE_prof");
    let script = format!("{binary} inject -b -i {file} -o - > /dev/full");
    let run = Command::new("bash").args(["-c", &script]).output();
    let told = Finished::from(run.expect("bash starts")).stderr;
    assert!(
        told.contains("standard output: cannot write: No space"),
        "{told}"
    );
}

#[test]
fn r12_too_few_descriptors_never_hurt_the_command() {
    // covers live: ERR-08, SYS-09
    let file = recording("emfile");
    let old = file.with_extension("data.old");
    let mut recorded = 0;
    // Waits need more of them, and some when the file is there already.
    let waits = (10..16).map(|limit| (limit, "--off-cpu"));
    for (limit, option) in (6..20).map(|limit| (limit, "-g")).chain(waits) {
        std::fs::write(&file, "before").expect("written");
        let _ = std::fs::remove_file(&old);
        let prof = env!("CARGO_BIN_EXE_prof");
        let script = format!(
            "ulimit -n {limit}; exec {prof} record -q {option} -o {} sh -c 'exit 4'",
            file.display()
        );
        let finished: Finished = Command::new("bash")
            .args(["-c", &script])
            .output()
            .expect("bash starts")
            .into();
        let before = match finished.code {
            4 => &old,
            1 => &file,
            other => panic!("{limit}: {other}: {}", finished.stderr),
        };
        let is_told = finished.code == 4 || finished.stderr.contains("open files");
        assert!(is_told, "{limit}: {}", finished.stderr);
        assert_eq!(old.exists(), finished.code == 4, "{limit} {option}");
        let before = std::fs::read_to_string(before).expect("there");
        assert_eq!(before, "before", "{limit} {option}");
        recorded += usize::from(finished.code == 4);
    }
    println!("recorded with {recorded} of 20 limits");
}

/// Stacks that are cut since a file could not be opened are told, with the
/// limit that cuts none.
#[test]
fn files_that_no_descriptor_was_left_for_are_told() {
    let file = recording("emfile-files");
    let prof = env!("CARGO_BIN_EXE_prof");
    let record = |limit: u32| -> (Finished, u64) {
        let name = file.display();
        let script =
            format!("ulimit -n {limit}; exec {prof} record -g -o {name} sh -c '{SOME_WORK}'");
        let run = Command::new("bash").args(["-c", &script]).output();
        let run: Finished = run.expect("bash starts").into();
        if run.code != 4 {
            return (run, 0);
        }
        let name = file.to_str().expect("a path of ours");
        let report = crate::oracle::prof(&["report", "--json", "-i", name]).succeeded("report");
        let report: serde_json::Value = serde_json::from_slice(&report.stdout).expect("JSON");
        let cut = report["trust"]["stacks"]["ends"]["FileMissing"].as_u64();
        (run, cut.unwrap_or(0))
    };
    let runs: Vec<(Finished, u64)> = (14..26).map(record).collect();
    assert!(runs.iter().any(|&(_, cut)| cut > 0), "no limit was met");
    for (run, cut) in &runs {
        let is_told = run.stderr.contains("no descriptor was left");
        assert!(*cut == 0 || is_told, "{cut}: {}", run.stderr);
    }
    let (with_the_cure, cut) = record(64);
    assert_eq!(
        (with_the_cure.code, cut),
        (4, 0),
        "{}",
        with_the_cure.stderr
    );
}

/// Runs as nobody, without capabilities, or says why not.
fn as_nobody(test: &str, args: &[&str]) -> Option<Finished> {
    if !have(test, "setpriv") {
        return None;
    }
    let directory = scratch().join("nobody");
    std::fs::create_dir_all(&directory).expect("made");
    let mut open = std::fs::metadata(&directory).expect("there").permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut open, 0o777);
    std::fs::set_permissions(&directory, open).expect("ours");
    let file = directory.join(format!("{test}.data"));
    // The target folder may be closed to others: a copy is not.
    let program =
        std::env::temp_dir().join(format!("prof-as-nobody-{}-{test}", std::process::id()));
    copy_program(Path::new(env!("CARGO_BIN_EXE_prof")), &program);
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&program)
        .args(["record", "-o"])
        .arg(if args.contains(&"-a") {
            Path::new("/dev/null")
        } else {
            &file
        })
        .args(args)
        .current_dir("/")
        .output();
    let _ = std::fs::remove_file(&program);
    let finished: Finished = output.expect("setpriv starts").into();
    if finished.stderr.contains("setresuid failed")
        || finished.stderr.contains("Operation not permitted") && finished.code == 127
    {
        skipped(test, "only root can become nobody");
        return None;
    }
    Some(finished)
}

fn paranoid() -> i32 {
    let text = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    text.ok()
        .and_then(|text| text.trim().parse().ok())
        .unwrap_or(99)
}

#[test]
fn cap_02_nobody_records_own_programs_in_user_space_and_is_told_so() {
    // covers live: CAP-02, ATTR-28
    if paranoid() != 2 {
        return skipped("cap_02", "kernel.perf_event_paranoid is not 2");
    }
    let Some(finished) = as_nobody("own", &["-g", "sh", "-c", SOME_WORK]) else {
        return;
    };
    if finished.stderr.contains("cannot create") {
        return skipped("cap_02", &finished.stderr);
    }
    assert_eq!(finished.code, 4, "{}", finished.stderr);
    let told = finished
        .stderr
        .lines()
        .filter(|line| line.contains("user space only"))
        .count();
    assert_eq!(told, 1, "{}", finished.stderr);
    assert!(told_samples(&finished.stderr) > 0, "{}", finished.stderr);
}

#[test]
fn err_02_nobody_gets_cause_and_cure_for_the_whole_system() {
    // covers live: ERR-02, CALL-05
    if paranoid() < 1 {
        return skipped("err_02", "kernel.perf_event_paranoid allows it");
    }
    let Some(finished) = as_nobody("system", &["-a", "true"]) else {
        return;
    };
    assert_eq!(finished.code, 1, "{}", finished.stderr);
    for words in [
        "permission denied (EACCES)",
        "kernel.perf_event_paranoid is",
        "try:",
    ] {
        assert!(finished.stderr.contains(words), "{}", finished.stderr);
    }
}

/// The system calls of prof's main thread while it records, in order, by name
/// and how often that name came before: each line of strace's output is one.
fn calls_while_recording(traced: &str) -> Vec<(String, usize)> {
    // Before this one, the C library and std make themselves ready.
    const FIRST_OF_STD: &str = "poll";
    // On Linux these succeed, or end what they are about in any case.
    const CANNOT_FAIL: [&str; 9] = [
        "brk",
        "close",
        "exit_group",
        "futex",
        "getrandom",
        "munmap",
        "rt_sigaction",
        "rt_sigprocmask",
        "sigaltstack",
    ];
    let mut seen: HashMap<&str, usize> = HashMap::new();
    let mut has_begun = false;
    let mut calls = Vec::new();
    for line in traced.lines() {
        let Some((name, _)) = line.split_once('(') else {
            continue;
        };
        if !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            continue;
        }
        let count = seen.entry(name).or_default();
        *count += 1;
        has_begun |= name == FIRST_OF_STD;
        if has_begun && !CANNOT_FAIL.contains(&name) {
            calls.push((name.to_owned(), *count));
        }
    }
    calls
}

#[test]
fn without_its_threads_nothing_is_run_and_the_older_recording_stays() {
    let test = "without_its_threads_nothing_is_run_and_the_older_recording_stays";
    if !have(test, "strace") {
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let (file, ran) = (dir.path().join("f.data"), dir.path().join("ran"));
    let run = |inject: &str| {
        let mut command = Command::new("timeout");
        command.args(["-s", "KILL", "60", "strace", "-qq", "-o", "/dev/null"]);
        command.args(["-e", inject, env!("CARGO_BIN_EXE_prof"), "record"]);
        command.args(["-q", "-g", "-o"]).arg(&file);
        command.arg("touch").arg(&ran);
        Finished::from(command.output().expect("timeout starts"))
    };
    // The first is the draining thread, the second writes.
    for number in [1, 2] {
        std::fs::write(&file, "an old recording").expect("written");
        let failed = run(&format!("inject=clone3:error=EAGAIN:when={number}"));
        if failed.code == 0 || failed.stderr.contains("ptrace") {
            return skipped(test, "strace does not see threads begin");
        }
        assert_eq!(failed.code, 1, "{number}: {}", failed.stderr);
        for words in ["cannot start a thread", "try: "] {
            assert!(failed.stderr.contains(words), "{}", failed.stderr);
        }
        assert!(!ran.exists(), "{number}: the command was run");
        let old = std::fs::read(&file).expect("it is in its place");
        assert_eq!(old, b"an old recording", "{number}");
        let files = std::fs::read_dir(dir.path()).expect("a folder").count();
        assert_eq!(files, 1, "{number}: nothing stands beside it");
    }
}

/// A wait that fails once is made again; where it always fails nobody can know
/// how the command ended, and that is said.
#[test]
fn the_commands_status_is_passed_on_where_waiting_fails() {
    let test = "the_commands_status_is_passed_on_where_waiting_fails";
    if !have(test, "strace") {
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let (file, trace) = (dir.path().join("f.data"), dir.path().join("trace"));
    let file = file.to_str().expect("UTF-8");
    for args in [&["record", "-q", "-o", file][..], &["stat", "-e", "cs"]] {
        for (inject, code) in [
            ("wait4:error=EAGAIN:when=1", 7),
            ("wait4:error=ECHILD:when=1", 7),
            ("wait4:error=EPERM", 1),
        ] {
            let mut command = Command::new("timeout");
            command.args(["-s", "KILL", "60", "strace", "-qq", "-o"]);
            command
                .arg(&trace)
                .args(["-e", &format!("inject={inject}")]);
            command.arg(env!("CARGO_BIN_EXE_prof")).args(args);
            command.args(["sh", "-c", "exit 7"]);
            let ended = Finished::from(command.output().expect("timeout starts"));
            if ended.stderr.contains("ptrace") || ended.stderr.contains("EACCES") {
                return skipped(test, &ended.stderr);
            }
            let what = format!("{args:?} {inject}: {}", ended.stderr);
            assert_eq!(ended.code, code, "{what}");
            let is_told = ["not known: Operation", "cannot wait for"]
                .iter()
                .any(|words| ended.stderr.contains(words));
            assert_eq!(is_told, code == 1, "{what}");
        }
    }
}

/// A recording below strace, of a command that leaves a file.
struct Traced {
    dir: tempfile::TempDir,
    options: &'static [&'static str],
}

impl Traced {
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Runs it with this told to strace.
    fn run(&self, inject: Option<String>) -> Finished {
        for name in ["f.data", "ran"] {
            let _ = std::fs::remove_file(self.path(name));
        }
        let mut command = Command::new("timeout");
        command.args(["-s", "KILL", "60", "strace", "-qq", "-o"]);
        command.arg(self.path("trace"));
        if let Some(inject) = &inject {
            command.args(["-e", inject]);
        }
        command.arg(env!("CARGO_BIN_EXE_prof")).args(self.options);
        command.arg("-o").arg(self.path("f.data"));
        command.args(["sh", "-c", "echo > \"$0\""]);
        command.arg(self.path("ran")).env("RUST_BACKTRACE", "0");
        Finished::from(command.output().expect("timeout starts"))
    }

    /// Makes one call fail and looks at what comes of it.
    fn survives(&self, name: &str, count: usize) {
        let what = format!("{:?}: {name} number {count}", self.options);
        let ended = self.run(Some(format!("inject={name}:error=ENOMEM:when={count}")));
        let said = &ended.stderr;
        // std cannot go on without a thread's signal stack, and says so.
        let by_std = said.contains("sys/pal/unix/stack_overflow.rs");
        assert!(by_std || !said.contains("panicked"), "{what}: {said}");
        // 137 is what timeout leaves.
        let is_code = (0..=127).contains(&ended.code);
        assert!(by_std || is_code, "{what}: {}", ended.code);
        let did_run = self.path("ran").exists();
        assert!(did_run || ended.code != 0, "{what}: not run, exit 0");
        let is_told = did_run || !said.trim().is_empty();
        assert!(is_told, "{what}: not run, nothing said");
        let file = self.path("f.data");
        if file.exists() && self.options[0] == "record" {
            let read = prof(&["dump", "--stats", "-i", file.to_str().expect("UTF-8")]);
            assert!([0, 3].contains(&read.code), "{what}: {}", read.stderr);
        }
    }
}

/// Each system call is made to fail once: no crash, no hang, a file that can
/// be read or none, and a command that ran unless we say why not.
/// `PROF_TEST_ALL=1` tries every call; else the first and some later ones of
/// each name, in turns of what is recorded.
#[test]
fn r22_a_system_call_that_fails_is_told_or_survived() {
    let test = "r22_a_system_call_that_fails_is_told_or_survived";
    if !have(test, "strace") {
        return;
    }
    const OVERWRITTEN: &[&str] = &["record", "-q", "-m16K", "-c1", "-e", "faults/overwrite/"];
    const WAYS: [&[&str]; 6] = [
        &["record", "-q", "-F", "999", "-g"],
        &["record", "-q", "-F", "999", "--off-cpu"],
        &["record", "-q", "-F", "999", "-g", "--follow", "cpus"],
        OVERWRITTEN,
        &["stat", "-e", "cs,task-clock"],
        &["stat", "-I", "5", "-a", "-A", "-e", "cs"],
    ];
    let all = std::env::var_os("PROF_TEST_ALL").is_some();
    let mut tried = 0;
    for (way, options) in WAYS.into_iter().enumerate() {
        let dir = tempfile::tempdir().expect("a folder");
        let traced = Traced { dir, options };
        let unharmed = traced.run(None);
        if unharmed.stderr.contains("ptrace") || unharmed.stderr.contains("EACCES") {
            skipped(test, &unharmed.stderr);
            continue;
        }
        assert_eq!(unharmed.code, 0, "{options:?}: {}", unharmed.stderr);
        let calls = std::fs::read_to_string(traced.path("trace")).expect("strace writes it");
        let calls = calls_while_recording(&calls);
        assert!(calls.len() > 50, "{options:?}: {} calls", calls.len());
        for (index, (name, count)) in calls.iter().enumerate() {
            let is_first = calls.iter().position(|(other, _)| other == name) == Some(index);
            let is_ours = index % WAYS.len() == way;
            if all || is_ours && (is_first || index % 23 == 0) {
                tried += 1;
                traced.survives(name, *count);
            }
        }
    }
    assert!(tried == 0 || tried > 20, "{tried} calls");
}

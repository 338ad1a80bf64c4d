//! `prof record COMMAND`: the command cannot tell that it is recorded, and its
//! fate is passed on.

use crate::oracle::{
    Finished, compiled, copy_program, have, perf, prof, prof_command, scratch, skipped,
};
use crate::patience::{has_ended, wait_for_work, wait_until};
use crate::record_targets::is_finished;
use std::ffi::OsStr;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// A recording's path of its own.
fn recording(name: &str) -> PathBuf {
    scratch().join(format!("record-command-{name}.data"))
}

/// `prof record -q -o FILE` with more arguments.
fn record<A: AsRef<OsStr>>(name: &str, args: &[A]) -> Command {
    let mut command = prof_command();
    command
        .arg("record")
        .arg("-q")
        .arg("-o")
        .arg(recording(name))
        .args(args);
    command
}

fn finish(mut command: Command) -> Finished {
    command.output().expect("starts").into()
}

/// Prints all that a process inherits: descriptors, signals, ids, limits,
/// environment.
const SHOW: &str = "ls -l /proc/self/fd | sed 's/.* \\([0-9]* -> .*\\)/\\1/' | grep -v /proc/; \
    grep -E '^(Sig(Blk|Ign|Cgt)|[UG]id|Groups|CapEff|NoNewPrivs|Seccomp):' /proc/self/status; \
    cat /proc/self/limits /proc/self/oom_score_adj /proc/self/timerslack_ns; \
    env | grep -v '^_=' | sort; umask; nice; pwd";

#[test]
fn r11_the_command_inherits_what_it_would_without_us() {
    // What std's Command hands down is the same both times; `setup` changes it.
    for setup in [
        "",
        "trap '' HUP USR1 INT;",
        "ulimit -n 77;",
        "exec 7</dev/null;",
        "exec 0<&-;",
    ] {
        let file = recording("inherits");
        let prof = env!("CARGO_BIN_EXE_prof");
        let alone = format!("{setup} exec sh -c \"$SHOW\"");
        let recorded = format!(
            "{setup} exec {prof} record -q -o {} sh -c \"$SHOW\"",
            file.display()
        );
        let run = |script: &str| {
            let mut sh = Command::new("sh");
            sh.args(["-c", script])
                .env("SHOW", SHOW)
                .stdin(Stdio::null());
            let finished = finish(sh);
            // Pipe numbers differ from run to run.
            let text = finished.text();
            let lines = text
                .lines()
                .map(|line| line.split("pipe:").next().unwrap_or_default().to_owned());
            (lines.collect::<Vec<_>>(), finished)
        };
        let (expected, _) = run(&alone);
        let (found, finished) = run(&recorded);
        if finished.stderr.contains("cannot open") {
            return skipped("r11", &finished.stderr);
        }
        assert!(expected.len() > 20, "{expected:?}");
        assert_eq!(found, expected, "after {setup:?}: {}", finished.stderr);
    }
}

#[test]
fn r10_exit_codes_and_signals_are_passed_on() {
    let run = |script: &str| finish(record("exits", &["sh", "-c", script]));
    assert_eq!(run("exit 0").code, 0);
    assert_eq!(run("exit 7").code, 7);
    assert_eq!(run("exit 255").code, 255);
    let status = record("exits", &["sh", "-c", "kill -SEGV $$"])
        .status()
        .expect("starts");
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&status),
        Some(11)
    );
}

#[test]
fn a_command_that_cannot_run_leaves_the_old_recording_alone() {
    let file = recording("cannot-run");
    std::fs::write(&file, "an older recording").expect("written");
    let run = |program: &str| finish(record("cannot-run", &[program]));
    for (program, code) in [
        ("no-such-command-anywhere", 127),
        ("/no/such", 127),
        ("/etc/passwd", 126),
        ("/", 126),
    ] {
        let finished = run(program);
        assert_eq!(finished.code, code, "{program}: {}", finished.stderr);
        assert!(finished.stderr.contains(program), "{}", finished.stderr);
        assert_eq!(
            std::fs::read(&file).expect("still there"),
            b"an older recording"
        );
    }
}

#[test]
fn what_is_wrong_is_refused_by_name_with_exit_code_2() {
    for (args, words) in [
        (&["-e", "cycels", "true"][..], "did you mean cycles?"),
        (&["-e", "cpu-clock:x", "true"], "'x'"),
        (&["--affinity", "core", "true"], "not node, cpu or sys"),
        (&["--kcore", "true"], "--kcore"),
        (&["-z23", "true"], "--compression-level"),
        (&["-G", "some", "true"], "-a"),
        (&["-F", "0", "true"], "frequency"),
        (&["--call-graph", "magic", "true"], "dwarf"),
        (&[], "what shall be recorded?"),
        (&["--no-such-option", "true"], "--no-such-option"),
    ] {
        let finished = finish(record("refused", args));
        assert_eq!(finished.code, 2, "{args:?}: {}", finished.stderr);
        assert!(
            finished.stderr.contains(words),
            "{args:?}: {}",
            finished.stderr
        );
    }
}

#[test]
fn an_event_that_is_not_there_is_never_replaced() {
    let finished = finish(record("missing-event", &["-e", "cycles", "true"]));
    if finished.code == 0 {
        return skipped("missing event", "this machine has a counter for cycles");
    }
    assert_eq!(finished.code, 1);
    assert!(
        finished.stderr.contains("-e cpu-clock"),
        "{}",
        finished.stderr
    );
}

#[test]
fn a_tracing_pmu_that_is_not_there_is_told_with_those_that_are() {
    // covers live: AUX-14
    if Path::new("/sys/bus/event_source/devices/intel_pt").exists() {
        return skipped("intel_pt", "this machine has it");
    }
    let finished = finish(record("no-trace", &["-e", "intel_pt//u", "true"]));
    assert_eq!(finished.code, 2, "{}", finished.stderr);
    for words in ["intel_pt", "software"] {
        assert!(finished.stderr.contains(words), "{}", finished.stderr);
    }
}

/// A command that, on SIGINT, takes 0.2 s to end with 3; it tells when it is
/// ready.
const SLOW_TO_END: &str = "trap 'sleep 0.2; exit 3' INT; echo ready; while :; do :; done";
/// One that only SIGKILL ends; it tells what it was asked.
const STUBBORN: &str = "trap '' INT; trap 'echo term' TERM; echo ready; while :; do :; done";

/// What is seen of a Ctrl-C that the recorder has taken: two at once are one.
enum Seen {
    /// The recording is finished.
    Finished,
    /// The command's output has this.
    Text(&'static str),
    /// All has ended.
    End,
}

/// Runs under a terminal, types Ctrl-C until all this was seen in turn, and
/// gives what `sh` says of the exit.
fn with_ctrl_c(script: &str, steps: &[Seen]) -> String {
    let prof = env!("CARGO_BIN_EXE_prof");
    let file = recording("ctrl-c");
    let _ = std::fs::remove_file(&file);
    let line = format!(
        "{prof} record -q -o {} sh -c \"$SCRIPT\"; echo code=$?",
        file.display()
    );
    let mut terminal = Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .env("SCRIPT", script)
        .env("SHELL", "/bin/bash")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("script starts");
    let mut keys = terminal.stdin.take().expect("piped");
    let mut shown = terminal.stdout.take().expect("piped");
    let mut text = Vec::new();
    // The command says when its traps are set: before, Ctrl-C ends it.
    read_until(&mut shown, &mut text, "ready");
    for seen in steps {
        keys.write_all(b"\x03").expect("typed");
        keys.flush().expect("typed");
        match seen {
            Seen::Finished => wait_until("the file to be finished", || is_finished(&file)),
            Seen::Text(wanted) => read_until(&mut shown, &mut text, wanted),
            // An end of file on its input would make `script` type one.
            Seen::End => drop(shown.read_to_end(&mut text).expect("shown")),
        }
    }
    terminal.wait().expect("ends");
    drop(keys);
    String::from_utf8_lossy(&text).into_owned()
}

/// Reads until the text has `wanted`.
fn read_until(shown: &mut impl Read, text: &mut Vec<u8>, wanted: &str) {
    let mut some = [0; 256];
    while !String::from_utf8_lossy(text).contains(wanted) {
        let read = shown.read(&mut some).expect("shown");
        assert!(read > 0, "{}", String::from_utf8_lossy(text));
        text.extend_from_slice(&some[..read]);
    }
}

/// Whether Ctrl-C can be tried: what runs in the background of a shell
/// ignores it, and so does all that it starts.
fn may_type_ctrl_c(test: &str) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    let is_ignored = ignored.expect("a mask") & (1 << (2 - 1)) != 0;
    if is_ignored {
        skipped(test, "SIGINT is ignored here");
    }
    !is_ignored && have(test, "script")
}

#[test]
fn r10_ctrl_c_lets_the_command_shut_down() {
    if !may_type_ctrl_c("r10 ctrl-c") {
        return;
    }
    let text = with_ctrl_c(SLOW_TO_END, &[Seen::End]);
    assert!(text.contains("ready"), "{text}");
    assert!(text.contains("code=3"), "{text}");
}

#[test]
fn r10_the_third_ctrl_c_kills() {
    if !may_type_ctrl_c("r10 third ctrl-c") {
        return;
    }
    let text = with_ctrl_c(STUBBORN, &[Seen::Finished, Seen::Text("term"), Seen::End]);
    assert!(text.contains("code=137"), "{text}");
}

/// Samples that perf finds in a recording made with these options, which are
/// all that it may have to say.
fn samples_with(test: &str, args: &[&str]) -> Option<usize> {
    let finished = finish(record(test, args));
    if finished.code != 0 && finished.stderr.contains("EACCES") {
        skipped(test, &finished.stderr);
        return None;
    }
    assert_eq!(finished.code, 0, "{args:?}: {}", finished.stderr);
    let file = recording(test);
    let found = perf(&[
        "script".as_ref(),
        "-F".as_ref(),
        "time,event".as_ref(),
        "-i".as_ref(),
        file.as_os_str(),
    ]);
    assert_eq!((found.code, found.stderr.as_str()), (0, ""), "{args:?}");
    Some(found.text().lines().count())
}

#[test]
fn perf_reads_what_each_option_records() {
    if !have("options", "perf") {
        return;
    }
    let work = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
    let has_tracefs = Path::new("/sys/kernel/tracing/events/sched").is_dir();
    if !has_tracefs {
        skipped("options: tracepoint", "tracefs is not mounted");
    }
    for options in [
        &["-e", "page-faults", "-c", "1", "-d"][..],
        &["-e", "cpu-clock,page-faults"],
        &["-e", "{cpu-clock,page-faults}:S"],
        &["-e", "cpu-clock/freq=500,name=tick/"],
        &["-e", "sched:sched_process_exec"],
        &["-C", "0", "-a"],
        &["-D", "10"],
        &["--all-user", "-W", "-R", "-s"],
        &["-k", "mono", "--switch-events", "--namespaces"],
        &["-I", "--user-regs=ip,sp"],
        &["-Iax,sp"],
        &["--per-thread"],
        &["-i", "-m", "16"],
        &["--call-graph", "dwarf,1024"],
        &["--call-graph", "fp", "--user-callchains"],
        &["-g", "--kernel-callchains"],
        &["-G", "/", "-a", "--all-cgroups"],
    ] {
        if options == ["-e", "sched:sched_process_exec"] && !has_tracefs {
            continue;
        }
        // On a loaded machine the delay may take longer than the work.
        let late = format!("sleep 1; {work}");
        let work = if options[0] == "-D" { &late } else { work };
        let args = [options, &["-F", "4999", "sh", "-c", work][..]].concat();
        let args: Vec<&str> = match options.contains(&"-c") {
            true => args
                .into_iter()
                .filter(|&arg| arg != "-F" && arg != "4999")
                .collect(),
            false => args,
        };
        if let Some(samples) = samples_with("options", &args) {
            assert!(samples > 0, "{options:?}");
        }
    }
}

#[test]
fn call_08_a_running_process_is_recorded_with_all_its_threads() {
    // covers live: CALL-08, CALL-04
    if !have("call_08", "perf") {
        return;
    }
    let source = "import threading\ndef f():\n  while True: pass\nfor _ in range(3): threading.Thread(target=f).start()";
    if !have("call_08", "python3") {
        return;
    }
    let mut target = Command::new("python3")
        .args(["-c", source])
        .spawn()
        .expect("starts");
    let pid = target.id().to_string();
    let tasks = format!("/proc/{pid}/task");
    wait_until("the threads", || {
        std::fs::read_dir(&tasks).is_ok_and(|tasks| tasks.count() == 4)
    });
    let file = recording("attach");
    let _ = std::fs::remove_file(&file);
    let mut recorder = record("attach", &["-F", "999", "-p", &pid])
        .stderr(Stdio::piped())
        .spawn()
        .expect("prof starts");
    wait_until("the recording", || {
        file.exists() || has_ended(&mut recorder)
    });
    wait_for_work("the threads to run", target.id(), 50);
    // The end of what is recorded ends the recording.
    target.kill().expect("ours");
    target.wait().expect("ours");
    let finished = Finished::from(recorder.wait_with_output().expect("ends"));
    if finished.stderr.contains("EACCES") {
        return skipped("call_08", &finished.stderr);
    }
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    let found = perf(&[
        "script".as_ref(),
        "-F".as_ref(),
        "tid".as_ref(),
        "-i".as_ref(),
        file.as_os_str(),
    ]);
    let text = found.text();
    let tids: std::collections::BTreeSet<&str> = text.split_whitespace().collect();
    assert!(tids.len() >= 3, "{tids:?}");
}

#[test]
fn r23_a_file_replaced_since_gives_no_names() {
    let flags = ["-O1", "-static", "-Wl,--build-id=none"];
    let test = "r23_a_file_replaced_since_gives_no_names";
    let Some(built) = compiled(test, "report-calls.c", &flags) else {
        return;
    };
    let program = scratch().join("replaced-since");
    copy_program(&built, &program);
    let finished = finish(record("r23", &[program.as_os_str()]));
    if finished.stderr.contains("EACCES") {
        return skipped(test, &finished.stderr);
    }
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    let file = recording("r23");
    let report = || {
        let args = ["report", "--stdio", "--sort", "sym", "-i"];
        let file = file.to_str().expect("a path of ours");
        let report = prof(&[&args[..], &[file, "--dsos", "replaced-since"]].concat());
        report.succeeded("prof report").text()
    };
    let before = report();
    assert!(before.contains("] leaf"), "{before}");
    // The same contents at the same path, but written after the recording.
    std::fs::remove_file(&program).expect("ours");
    copy_program(&built, &program);
    let later = std::time::SystemTime::now() + Duration::from_secs(5);
    let opened = std::fs::File::open(&program).expect("ours");
    opened.set_modified(later).expect("ours");
    let after = report();
    assert!(!after.contains("] leaf"), "{after}");
    assert!(after.contains("replaced by another build"), "{after}");
}

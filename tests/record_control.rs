//! `prof record --control` and `-D`: what is recorded when, as others say it.

use crate::oracle::{Finished, have, perf, perfs, prof_command, scratch, skipped};
use crate::patience::{PATIENCE, wait_until};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};

/// A folder of its own, empty.
fn folder(name: &str) -> PathBuf {
    let folder = scratch().join(format!("record-control-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("the target folder is writable");
    folder
}

/// The two FIFOs of a recorder.
struct Control {
    commands: File,
    answers: File,
}

impl Control {
    fn new(folder: &Path) -> Self {
        let open = |name: &str| {
            let path = folder.join(name);
            let made = Command::new("mkfifo").arg(&path).status();
            assert!(made.expect("mkfifo starts").success());
            // For both directions, so that it waits for nobody.
            let mut options = OpenOptions::new();
            options.read(true).write(true).custom_flags(libc_nonblock());
            options.open(path).expect("there")
        };
        Self {
            commands: open("ctl"),
            answers: open("ack"),
        }
    }

    fn option(folder: &Path) -> String {
        let folder = folder.display();
        format!("--control=fifo:{folder}/ctl,{folder}/ack")
    }

    fn send(&mut self, command: &str) {
        writeln!(self.commands, "{command}").expect("room");
    }

    /// Waits for the answer.
    fn wait(&mut self, command: &str) {
        let mut answer = Vec::new();
        wait_until(command, || {
            let mut bytes = [0; 16];
            let read = self.answers.read(&mut bytes).unwrap_or(0);
            answer.extend_from_slice(&bytes[..read]);
            answer.len() >= ANSWER.len()
        });
        assert_eq!(answer, ANSWER, "{command}");
    }

    fn ask(&mut self, command: &str) {
        self.send(command);
        self.wait(command);
    }

    /// Nothing was answered but what was waited for.
    fn is_quiet(&mut self) -> bool {
        self.answers.read(&mut [0; 16]).is_err()
    }
}

/// perf's answer.
const ANSWER: &[u8] = b"ack\n\0";

/// `O_NONBLOCK`.
fn libc_nonblock() -> i32 {
    0o4000
}

/// A shell that runs `true` for each line and says when it has.
const RUNS_TRUE: &str = "echo ready; while read line; do /bin/true; echo done; done";

fn start(mut recorder: Command) -> (Child, BufReader<ChildStdout>) {
    let mut child = recorder
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the recorder starts");
    let output = child.stdout.take().expect("piped");
    (child, BufReader::new(output))
}

fn line(lines: &mut BufReader<ChildStdout>) -> String {
    let mut line = String::new();
    lines.read_line(&mut line).expect("readable");
    line.trim_end().to_owned()
}

/// Lets the shell run `true` once.
fn run_true(child: &mut Child, lines: &mut BufReader<ChildStdout>) {
    let input = child.stdin.as_mut().expect("piped");
    input.write_all(b"go\n").expect("the shell reads");
    assert_eq!(line(lines), "done");
}

#[test]
fn events_are_on_between_enable_and_disable_only() {
    let test = "events_are_on_between_enable_and_disable_only";
    if !have(test, "perf") {
        return;
    }
    let folder = folder("window");
    let mut control = Control::new(&folder);
    let file = folder.join("perf.data");
    let mut recorder = prof_command();
    recorder
        .args(["record", "-e", "page-faults", "-c", "1", "-D", "-1"])
        .arg(Control::option(&folder))
        .arg("-o")
        .arg(&file)
        .args(["sh", "-c", RUNS_TRUE]);
    let (mut child, mut lines) = start(recorder);
    if line(&mut lines) != "ready" {
        let ended = Finished::from(child.wait_with_output().expect("ends"));
        return skipped(test, &ended.stderr);
    }
    control.ask("ping");
    run_true(&mut child, &mut lines);
    control.ask("enable");
    run_true(&mut child, &mut lines);
    run_true(&mut child, &mut lines);
    control.ask("disable");
    run_true(&mut child, &mut lines);
    control.ask("stop");
    let ended = Finished::from(child.wait_with_output().expect("ends"));
    assert!(ended.stderr.contains("Events enabled"), "{}", ended.stderr);
    let file = file.to_str().expect("a path of ours");
    let script = perf(&[
        "script",
        "-i",
        file,
        "--show-task-events",
        "-F",
        "comm,pid,event",
    ]);
    let text = script.succeeded("perf script").text();
    let of = |what: &str| {
        let lines = text.lines().filter(|line| line.contains(what));
        let pids = lines.filter(|line| line.trim_start().starts_with("true"));
        let pids = pids.filter_map(|line| line.split_whitespace().nth(1));
        pids.collect::<std::collections::BTreeSet<_>>()
    };
    assert_eq!(of("page-faults").len(), 2, "{text}");
    // Tasks are told of all the time, or there would be no names.
    assert_eq!(of("PERF_RECORD_COMM exec").len(), 4, "{text}");
}

/// What a recorder answers to these lines, and says.
fn conversation(mut recorder: Command, folder: &Path) -> Vec<String> {
    // And whether they are answered.
    const LINES: [(&str, bool); 14] = [
        ("ping", true),
        ("enable", true),
        ("disable", true),
        ("enable page-faults", true),
        ("disable page-faults", true),
        ("enable nosuch", true),
        ("evlist", true),
        ("evlist -F", true),
        ("evlist -x", true),
        ("snapshot", true),
        ("enablexyz", true),
        ("pingpong", true),
        ("bogus", false),
        ("", false),
    ];
    let mut control = Control::new(folder);
    recorder
        .args(["record", "-e", "cpu-clock:u,page-faults:u", "-D", "-1"])
        .arg(Control::option(folder))
        .arg("-o")
        .arg(folder.join("perf.data"))
        .args(["sleep", &PATIENCE.as_secs().to_string()]);
    let (child, _lines) = start(recorder);
    for (command, has_answer) in LINES {
        control.send(command);
        if has_answer {
            control.wait(command);
        } else {
            // The next answer is that of the next command.
            control.ask("ping");
        }
        assert!(control.is_quiet(), "{command}");
    }
    control.ask("stop");
    let ended = child.wait_with_output().expect("ends");
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    let said = said.lines().map(|line| line.trim_start_matches("prof: "));
    let is_told = |line: &&str| {
        let starts = ["Event", "failed:", "cpu-clock", "page-faults"];
        starts.iter().any(|start| line.starts_with(start))
    };
    let code = std::os::unix::process::ExitStatusExt::signal(&ended.status);
    let code = code.map_or(ended.status.code(), |signal| Some(128 + signal));
    let end = format!("exit {code:?}");
    let said = said.filter(is_told).map(str::to_owned).chain([end]);
    said.collect()
}

#[test]
fn commands_are_answered_as_perf_answers_them() {
    let test = "commands_are_answered_as_perf_answers_them";
    if !have(test, "perf") {
        return;
    }
    let ours_in = folder("ours");
    let ours = conversation(prof_command(), &ours_in);
    for (at, perf) in perfs(test).into_iter().enumerate() {
        // perf itself was seen to abort (SIGABRT is 6) at its end.
        let theirs = (0..3).map(|attempt| {
            let theirs_in = folder(&format!("theirs-{at}-{attempt}"));
            conversation(Command::new(&perf), &theirs_in)
        });
        let aborted = format!("exit {:?}", Some(128 + 6));
        let mut theirs = theirs.skip_while(|said| said.last() == Some(&aborted));
        assert_eq!(theirs.next().as_ref(), Some(&ours), "{}", perf.display());
    }
}

#[test]
fn a_control_that_is_not_there_is_refused() {
    for (control, why) in [
        ("fifo:/no/such", "No such file"),
        ("fifo:/etc/passwd", "it is no FIFO"),
        ("fd:999", "Bad file descriptor"),
    ] {
        let refused = crate::oracle::prof(&["record", "--control", control, "true"]);
        assert_eq!(refused.code, 1, "{control}: {}", refused.stderr);
        assert!(refused.stderr.contains("--control"), "{}", refused.stderr);
        let is_told = refused.stderr.contains(why) || control == "fifo:/etc/passwd";
        assert!(is_told, "{}", refused.stderr);
    }
    for wrong in ["fd:", "fd:x", "bogus:1", "fifo:a,"] {
        let refused = crate::oracle::prof(&["record", "--control", wrong, "true"]);
        assert_eq!(refused.code, 2, "{wrong}: {}", refused.stderr);
    }
}

/// The lines that say whether events were switched on, in their order.
fn switches_of(stderr: &str) -> Vec<bool> {
    let words = stderr.lines().filter_map(|line| {
        let line = line.strip_prefix("prof: ").unwrap_or(line);
        let is_on = line == "Events enabled";
        (is_on || line == "Events disabled").then_some(is_on)
    });
    words.collect()
}

#[test]
fn a_delayed_start_says_what_perf_says() {
    let test = "a_delayed_start_says_what_perf_says";
    let folder = folder("delayed");
    let file = folder.join("perf.data");
    let file = file.to_str().expect("a path of ours");
    let record = ["record", "-e", "cpu-clock:u", "-o", file];
    let stat = ["stat", "-e", "page-faults:u"];
    let cases = [
        (&record[..], "20", &[false, true][..]),
        (&record, "-1", &[false]),
        (&record, "5-15", &[false, true, false]),
        (&stat, "20", &[false, true]),
        (&stat, "-1", &[false]),
    ];
    for (command, delay, said) in cases {
        let args = [command, &["-D", delay, "sleep", "0.3"]].concat();
        let ours = crate::oracle::prof(&args);
        assert_eq!(ours.code, 0, "{args:?}: {}", ours.stderr);
        assert_eq!(switches_of(&ours.stderr), said, "{args:?}: {}", ours.stderr);
        let is_unheard = ours.stderr.contains("--control, and its command enable");
        assert_eq!(is_unheard, delay == "-1", "{args:?}: {}", ours.stderr);
        if have(test, "perf") {
            let theirs = perf(&args);
            assert_eq!(switches_of(&theirs.stderr), said, "{}", theirs.stderr);
        }
    }
    let quiet = ["record", "-q", "-D", "5", "-o", file, "sleep", "0.1"];
    assert_eq!(crate::oracle::prof(&quiet).stderr, "");
}

#[test]
fn windows_switch_events_on_and_off_in_turn() {
    let test = "windows_switch_events_on_and_off_in_turn";
    if !have(test, "strace") {
        return;
    }
    let folder = folder("windows");
    let calls = folder.join("calls");
    let file = folder.join("perf.data");
    let traced = Command::new("strace")
        .args(["-f", "-e", "trace=ioctl", "-o"])
        .arg(&calls)
        .arg(prof_command().get_program())
        .args(["record", "-D", "10-20,30-40", "-e", "cpu-clock:u", "-o"])
        .arg(&file)
        .args(["sleep", "60"])
        .output();
    let ended = Finished::from(traced.expect("strace starts"));
    // As with perf the last window ends the recording, and the command with it.
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let said = switches_of(&ended.stderr);
    const OFF_AND_ON: [bool; 5] = [false, true, false, true, false];
    assert_eq!(said, OFF_AND_ON, "{}", ended.stderr);
    let calls = std::fs::read_to_string(calls).expect("written");
    let switches = calls.lines().filter_map(|call| {
        let is_on = call.contains("PERF_EVENT_IOC_ENABLE");
        (is_on || call.contains("PERF_EVENT_IOC_DISABLE")).then_some(is_on)
    });
    let mut switches: Vec<bool> = switches.collect();
    switches.dedup();
    assert_eq!(switches, [true, false, true, false], "{calls}");
}

//! `prof record -o` with a FIFO, a socket or a device: a stream, whose reader
//! may be late, gone or never come.

use crate::oracle::{Finished, have, prof, prof_command, scratch, skipped};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Burns some CPU and ends with 4.
const SOME_WORK: &str = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; exit 4";

/// A path of its own where nothing is.
fn fresh(name: &str) -> PathBuf {
    let path = scratch().join(format!("record-streams-{}-{name}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    path
}

fn fifo(name: &str) -> PathBuf {
    let path = fresh(name);
    let made = Command::new("mkfifo").arg(&path).status();
    assert!(made.expect("mkfifo starts").success());
    path
}

/// Starts `prof record -o PATH ARGS` with no signal ignored.
fn record(path: &Path, args: &[&str]) -> Child {
    Command::new("env")
        .arg("--default-signal")
        .arg(prof_command().get_program())
        .args(["record", "-F", "997", "-o"])
        .arg(path)
        .args(args)
        .stderr(Stdio::piped())
        .spawn()
        .expect("prof starts")
}

fn end(child: Child) -> Finished {
    child.wait_with_output().expect("ends").into()
}

/// The samples that `prof dump` counts in a recording.
fn samples(path: &Path) -> u64 {
    let path = path.to_str().expect("a path of ours");
    let stats = prof(&["dump", "--stats", "--json", "-i", path]).succeeded("prof dump");
    let text = stats.text();
    let stats: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    stats["records"]["SAMPLE"]
        .as_u64()
        .unwrap_or_else(|| panic!("{text}"))
}

#[test]
fn a_fifo_waits_for_its_reader_until_a_signal() {
    for (signal, number) in [("INT", 2), ("TERM", 15), ("HUP", 1), ("QUIT", 3)] {
        let path = fifo("unread");
        let mut child = record(&path, &["sh", "-c", SOME_WORK]);
        let mut said = BufReader::new(child.stderr.take().expect("piped"));
        let mut line = String::new();
        said.read_line(&mut line).expect("readable");
        assert!(line.contains("waiting for a reader"), "{line}");
        let kill = Command::new("kill")
            .args([&format!("-{signal}"), &child.id().to_string()])
            .status();
        assert!(kill.expect("kill starts").success());
        let status = child.wait().expect("ends");
        assert_eq!(status.code(), Some(128 + number), "{signal}");
        line.clear();
        said.read_to_string(&mut line).expect("readable");
        assert!(line.contains("nobody has opened"), "{line}");
        std::fs::remove_file(path).expect("still there");
    }
}

#[test]
fn a_fifo_and_a_socket_get_a_stream_and_nothing_stands_beside_them() {
    let test = "a_fifo_and_a_socket_get_a_stream_and_nothing_stands_beside_them";
    for kind in ["fifo", "socket"] {
        let (path, copy) = (fresh(kind), fresh("copy"));
        let listener = (kind == "socket").then(|| UnixListener::bind(&path).expect("bound"));
        if listener.is_none() {
            fifo(kind);
        }
        let child = record(&path, &["sh", "-c", SOME_WORK]);
        let mut bytes = Vec::new();
        match listener {
            Some(listener) => {
                let (mut stream, _) = listener.accept().expect("prof connects");
                stream.read_to_end(&mut bytes).expect("read");
            }
            None => bytes = std::fs::read(&path).expect("read"),
        }
        let ended = end(child);
        if ended.stderr.contains("EACCES") {
            return skipped(test, &ended.stderr);
        }
        assert_eq!(ended.code, 4, "{}", ended.stderr);
        std::fs::write(&copy, &bytes).expect("written");
        let told = ended.stderr.split(" samples").next().expect("a first part");
        let told = told
            .rsplit(' ')
            .next()
            .and_then(|number| number.parse().ok());
        assert_eq!(Some(samples(&copy)), told, "{kind}: {}", ended.stderr);
        let beside = path.with_extension("old");
        assert!(!beside.exists() && path.exists());
        for path in [path, copy] {
            std::fs::remove_file(path).expect("there");
        }
    }
}

#[test]
fn a_reader_that_goes_away_ends_the_recording_of_what_idles() {
    let test = "a_reader_that_goes_away_ends_the_recording_of_what_idles";
    let mut idle = Command::new("sleep").arg("1000").spawn().expect("starts");
    let path = fifo("left");
    let child = record(&path, &["-p", &idle.id().to_string()]);
    let mut magic = [0; 8];
    let mut reader = std::fs::File::open(&path).expect("prof opens it");
    let read = reader.read_exact(&mut magic);
    drop(reader);
    let ended = end(child);
    idle.kill().expect("ours");
    idle.wait().expect("ours");
    std::fs::remove_file(path).expect("still there");
    if read.is_err() {
        return skipped(test, &ended.stderr);
    }
    assert_eq!(&magic, b"PERFILE2");
    assert_eq!(ended.code, 1, "{}", ended.stderr);
    assert!(
        ended.stderr.contains("its reader has gone away"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_terminal_gets_no_recording() {
    if !have("a_terminal_gets_no_recording", "script") {
        return;
    }
    let line = format!(
        "{} record -o /dev/tty true; echo code=$?",
        env!("CARGO_BIN_EXE_prof")
    );
    let run = Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .stdin(Stdio::null())
        .output();
    let text = Finished::from(run.expect("script starts")).text();
    assert!(text.contains("to a terminal"), "{text}");
    assert!(text.contains("code=1"), "{text}");
}

#[test]
fn a_picture_of_another_format_is_refused_before_anything_runs() {
    let mark = fresh("mark");
    let mark = mark.to_str().expect("a path of ours");
    for name in ["x.png", "x.pdf", "x.JSON"] {
        let run = prof(&["flamegraph", "-o", name, "--", "touch", mark]);
        assert_eq!(run.code, 2, "{}", run.stderr);
        for words in [".svg, .html and .folded", "try: -o x.svg"] {
            assert!(run.stderr.contains(words), "{}", run.stderr);
        }
        assert!(!Path::new(mark).exists() && !Path::new(name).exists());
    }
}

#[test]
fn what_the_command_prints_is_no_part_of_a_stream() {
    let script = "for i in 1 2 3; do echo printed by it; done";
    let run = prof(&["record", "-q", "-o", "-", "sh", "-c", script]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let printed = run.stderr.matches("printed by it\n").count();
    assert_eq!(printed, 3, "{}", run.stderr);
    let path = fresh("printed.data");
    std::fs::write(&path, &run.stdout).expect("written");
    let dump = prof(&["dump", "-i", path.to_str().expect("a path of ours")]);
    let dump = dump.succeeded("prof dump");
    assert_eq!(dump.stderr, "", "damage");
    assert!(dump.text().contains("COMM"), "{}", dump.text());
}

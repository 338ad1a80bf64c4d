//! FIFOs in place of files: read where that makes sense, never waited for
//! without end or word.

use crate::oracle::{fixture, prof, prof_command};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A FIFO in a folder of its own.
fn fifo(folder: &tempfile::TempDir) -> PathBuf {
    let path = folder.path().join("fifo");
    let made = Command::new("mkfifo").arg(&path).status();
    assert!(made.expect("mkfifo starts").success());
    path
}

#[test]
fn a_fifo_that_nobody_writes_to_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = fifo(&folder);
    let path = path.to_str().expect("a UTF-8 path");
    // All at once: each waits for five seconds.
    let commands = [&["report", "--stdio"][..], &["script"], &["dump"]];
    let started = commands.map(|command| {
        let mut prof = prof_command();
        prof.args(command).args(["-i", path]).stdin(Stdio::null());
        prof.stdout(Stdio::piped()).stderr(Stdio::piped());
        prof.spawn().expect("prof starts")
    });
    for child in started {
        let output = child.wait_with_output().expect("waited for");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{errors}");
        assert!(errors.contains("nobody writes to"), "{errors}");
    }
}

#[test]
fn a_fifo_is_read_when_its_writer_comes() {
    let recording = fixture("recordings/local/perf6.1-pipe.data");
    let file = recording.to_str().expect("a UTF-8 path");
    let folder = tempfile::tempdir().expect("a folder");
    let path = fifo(&folder);
    for command in [&["report", "--json"][..], &["script", "-F", "event,ip"]] {
        let from_file = prof(&[command, &["-i", file]].concat()).succeeded("prof");
        let reader = prof_command()
            .args(command)
            .arg("-i")
            .arg(&path)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("prof starts");
        // Opening it waits for the reader.
        std::fs::copy(&recording, &path).expect("somebody reads");
        let output = reader.wait_with_output().expect("waited for");
        assert_eq!(output.status.code(), Some(0), "{command:?}");
        assert_eq!(output.stdout.len(), from_file.stdout.len(), "{command:?}");
    }
}

#[test]
fn a_fifo_in_place_of_symbols_is_told_and_not_opened() {
    let recording = fixture("recordings/local/perf6.1-named.data");
    let recording = recording.to_str().expect("a UTF-8 path");
    let folder = tempfile::tempdir().expect("a folder");
    let path = fifo(&folder);
    let path = path.to_str().expect("a UTF-8 path");
    for option in ["--kallsyms", "-k"] {
        let args = ["report", "--stdio", option, path, "-f", "-i", recording];
        let ran = prof(&args).succeeded("prof report");
        assert!(
            ran.stderr.contains("it is no regular file"),
            "{}",
            ran.stderr
        );
    }
}

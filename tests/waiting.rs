//! Recordings of commands that wait, and are sent signals meanwhile.

use crate::oracle::{Finished, scratch};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// An empty folder for the files of one test.
pub(crate) fn folder(name: &str) -> PathBuf {
    let folder = scratch().join(format!("{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("the target folder is writable");
    folder
}

/// Starts it with pipes to all three of its streams.
pub(crate) fn with_pipes(command: &mut Command) -> Child {
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("prof starts")
}

/// Whether the command has begun: it says `ready`.
pub(crate) fn is_ready(child: &mut Child) -> bool {
    let mut line = String::new();
    let output = child.stdout.take().expect("piped");
    BufReader::new(output)
        .read_line(&mut line)
        .expect("readable");
    line == "ready\n"
}

/// Sends a signal by its name without SIG.
pub(crate) fn send(child: &Child, signal: &str) {
    let sent = Command::new("kill")
        .arg(format!("-{signal}"))
        .arg(child.id().to_string())
        .status();
    assert!(sent.expect("kill starts").success());
}

/// Closes its input, at which the command goes on, and waits for both ends.
pub(crate) fn end(child: Child) -> Finished {
    child.wait_with_output().expect("ends").into()
}

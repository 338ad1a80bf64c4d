//! A limited address space: a message or the whole answer, never a crash.

use crate::oracle::{fixture, have, prof_command, skipped};
use std::process::Command;

/// KiB that the process needs to be loaded at all, about: what its file maps.
fn least() -> u64 {
    let program = std::path::PathBuf::from(prof_command().get_program());
    let size = std::fs::metadata(&program).expect("the program").len();
    size / 1024 + 8 * 1024
}

#[test]
fn r21_with_little_address_space_all_commands_end_with_a_message() {
    if !have("r21", "bash") {
        return;
    }
    let program = std::path::PathBuf::from(prof_command().get_program());
    let folder = tempfile::tempdir().expect("a folder");
    let (recording, svg) = (
        fixture("recordings/local/perf6.1-deleted.data"),
        folder.path().join("out.svg"),
    );
    let commands = [
        format!("report --stdio -i {}", recording.display()),
        format!("script -i {}", recording.display()),
        format!("flamegraph -o {} -i {}", svg.display(), recording.display()),
        format!(
            "record -g -o {} true",
            folder.path().join("f.data").display()
        ),
    ];
    let (mut told, mut done) = (0, 0);
    for step in 0..8 {
        let limit = least() + step * step * 4096;
        for command in &commands {
            let output = Command::new("bash")
                .arg("-c")
                .arg(format!(
                    "ulimit -v {limit}; exec {} {command}",
                    program.display()
                ))
                .env("RUST_BACKTRACE", "0")
                .output()
                .expect("bash starts");
            let said = String::from_utf8_lossy(&output.stderr);
            match output.status.code() {
                Some(0 | 3) => done += 1,
                Some(1) => {
                    told += 1;
                    let why = ["ulimit -v", "annot allocate memory", "(EACCES)", "(ENOMEM)"];
                    assert!(
                        why.iter().any(|why| said.contains(why)),
                        "{limit} {command}: {said}"
                    );
                }
                // Not even the loader had room.
                Some(127) => assert!(said.contains("shared"), "{limit} {command}: {said}"),
                _ => panic!("{limit} {command}: {:?} {said}", output.status),
            }
        }
    }
    println!("{done} answers, {told} messages");
    assert!(done > 0);
}

/// Names are a gift: without room for them the recording is told as always and
/// the command's exit code passed on.
#[test]
fn r21_with_little_address_space_no_names_are_looked_up_unasked() {
    let test = "r21_with_little_address_space_no_names_are_looked_up_unasked";
    if !have(test, "bash") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = std::path::PathBuf::from(prof_command().get_program());
    let limit = least() + 128 * 1024;
    let script = format!(
        "ulimit -v {limit}; exec {} record -g -e cpu-clock -o f.data \
         sh -c 'i=0; while [ $i -lt 50000 ]; do i=$((i+1)); done; exit 4'",
        program.display()
    );
    let mut bash = Command::new("bash");
    let bash = bash.args(["-c", &script]).current_dir(folder.path());
    let output = bash.env_remove("PROF_EMBED_MS").output();
    let output = output.expect("bash starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(
        said.contains("no names are in the file: the address space"),
        "{said}"
    );
    assert!(said.contains(" samples, "), "{said}");
}

/// The options of a command alone take more stack than a login shell of a small
/// machine gives (`ulimit -s 128`), which the recorded command has all the same.
#[test]
fn a_short_stack_is_enough() {
    let test = "a_short_stack_is_enough";
    if !have(test, "bash") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = std::path::PathBuf::from(prof_command().get_program());
    let script = format!(
        "ulimit -s 128; exec {} record -e cpu-clock -o f.data bash -c 'ulimit -s; exit 5'",
        program.display()
    );
    let mut command = Command::new("bash");
    let ended = command
        .args(["-c", &script])
        .current_dir(folder.path())
        .output()
        .expect("bash starts");
    let told = String::from_utf8_lossy(&ended.stderr);
    if told.contains("EACCES") {
        return skipped(test, &told);
    }
    assert_eq!(ended.status.code(), Some(5), "{told}");
    assert_eq!(String::from_utf8_lossy(&ended.stdout), "128\n");
    // Signals reach it as always, whatever thread works.
    let script = format!(
        "ulimit -s 128; {} record -e cpu-clock -o g.data -p $$ & \
         until [ -s g.data ]; do sleep 0.1; done; kill -INT $!; wait $!; echo $?",
        program.display()
    );
    let mut command = Command::new("bash");
    let ended = command
        .args(["-c", &script])
        .current_dir(folder.path())
        .output()
        .expect("bash starts");
    let told = String::from_utf8_lossy(&ended.stderr);
    // 128 and the signal.
    assert_eq!(String::from_utf8_lossy(&ended.stdout), "130\n", "{told}");
    assert!(told.contains("in g.data"), "{told}");
}

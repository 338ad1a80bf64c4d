//! Stacks and names of Java without a flag: what the virtual machine tells of
//! its code, against a program that knows its own stack.

use crate::oracle::{have, prof, prof_command, scratch};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Compiles `Ring.java`; the folder of its class.
fn ring(test: &str) -> Option<PathBuf> {
    if !have(test, "javac") || !have(test, "java") {
        return None;
    }
    let folder = scratch().join(test);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/programs/Ring.java");
    let compiled = Command::new("javac")
        .arg("-d")
        .args([&folder, &source])
        .output()
        .expect("javac starts");
    assert!(compiled.status.success(), "{compiled:?}");
    Some(folder)
}

/// What a stack's methods of `Ring` show.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    /// Stacks with such methods, and those of them that reach the start.
    all: usize,
    whole: usize,
    /// Callers and callees of which the one does not call the other.
    wrong: Vec<(String, String)>,
}

/// Whether the first calls the second.
fn calls(caller: &str, callee: &str) -> bool {
    match (caller, callee) {
        ("main" | "lambda$main$0", "loop") | ("loop", "f0") => true,
        ("f4", "<init>") => true,
        (caller, "work") => caller.starts_with('f'),
        (caller, callee) => {
            let number = |name: &str| name.strip_prefix('f')?.parse::<u32>().ok();
            let pair = number(caller).zip(number(callee));
            pair.is_some_and(|(caller, callee)| callee == (caller + 1) % 6)
        }
    }
}

fn look(data: &str) -> Seen {
    let script = prof(&["script", "-F", "comm,ip,sym", "-i", data]).succeeded("script");
    // HotSpot tells no place for a method: an offset in it would be made up.
    let fields = ["script", "-F", "ip,sym,symoff", "-i", data];
    let offsets = prof(&fields).succeeded("script").text();
    assert!(!offsets.contains("Ring.f1+0x"), "{offsets}");
    let mut seen = Seen::default();
    for sample in script.text().split("\n\n") {
        let names = sample.lines().skip(1).filter_map(|line| {
            let name = line.trim().split_once(' ')?.1;
            Some(name.split("+0x").next().unwrap_or(name))
        });
        let mut names: Vec<&str> = names.collect();
        names.reverse();
        let methods = || names.iter().filter_map(|name| name.strip_prefix("Ring."));
        if methods().next().is_none() {
            continue;
        }
        seen.all += 1;
        let starts = [
            "__clone3",
            "clone3",
            "__clone",
            "start_thread",
            "__clone_internal",
        ];
        for (caller, callee) in methods().zip(methods().skip(1)) {
            if !calls(caller, callee) {
                seen.wrong.push((caller.into(), callee.into()));
            }
        }
        // The whole of it, down to the thread's own method, if it is whole.
        let is_whole = names.first().is_some_and(|name| starts.contains(name));
        seen.whole += usize::from(is_whole);
        let outermost = methods().next();
        if is_whole && !outermost.is_some_and(|name| matches!(name, "main" | "lambda$main$0")) {
            let first = outermost.unwrap_or_default();
            seen.wrong.push(("(start)".into(), first.into()));
        }
    }
    seen
}

fn check(test: &str, options: &[&str]) {
    let Some(folder) = ring(test) else {
        return;
    };
    let data = scratch().join(format!("{test}.data"));
    let recorded = prof_command()
        .args(["record", "-q", "-g", "-F", "999", "-e", "cpu-clock:u", "-o"])
        .arg(&data)
        .args(["--", "java"])
        .args(options)
        .arg("-cp")
        .arg(&folder)
        .args(["Ring", "2000"])
        .output()
        .expect("prof starts");
    assert!(recorded.status.success(), "{recorded:?}");
    let seen = look(data.to_str().expect("UTF-8"));
    assert!(seen.all > 50, "{seen:?}");
    assert_eq!(seen.wrong, [], "{options:?}");
    // On a quiet machine 99; in the whole suite a dozen were cut at once.
    assert!(seen.whole * 100 >= seen.all * 90, "{options:?}: {seen:?}");
}

#[test]
fn compiled_methods_without_frame_pointers_are_all_there_in_order() {
    check("java-compiled", &["-XX:-Inline"]);
}

#[test]
fn interpreted_methods_are_named_and_in_order() {
    check("java-interpreted", &["-Xint"]);
}

/// Recorded from outside, in the midst of it.
#[test]
fn a_java_process_that_runs_already_is_unwound_and_named() {
    let test = "java-attached";
    let Some(folder) = ring(test) else {
        return;
    };
    let mut java = Command::new("java")
        .args(["-XX:-Inline", "-cp"])
        .arg(&folder)
        .args(["Ring", "4000"])
        .stdout(Stdio::null())
        .spawn()
        .expect("java starts");
    std::thread::sleep(std::time::Duration::from_millis(1000));
    let data = scratch().join(format!("{test}.data"));
    let recorded = prof_command()
        .args(["record", "-q", "-g", "-F", "999", "-e", "cpu-clock:u", "-o"])
        .arg(&data)
        .args(["-p", &java.id().to_string(), "--", "sleep", "1"])
        .output()
        .expect("prof starts");
    java.wait().expect("waited");
    assert!(recorded.status.success(), "{recorded:?}");
    let seen = look(data.to_str().expect("UTF-8"));
    assert!(seen.all > 25, "{seen:?}");
    assert_eq!(seen.wrong, []);
    assert!(seen.whole * 100 >= seen.all * 99, "{seen:?}");
}

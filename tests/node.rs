//! Stacks of JavaScript in node: through its compiled code, its interpreter
//! and the engine's own functions, against a program whose functions know
//! their callers.

use crate::oracle::{have, prof, prof_command, scratch};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// The program that is recorded.
const PROGRAM: &str = "fixtures/programs/ring.js";

/// Whether the first function of `ring.js` calls the second.
fn calls(caller: &str, callee: &str) -> bool {
    let number = |name: &str| name.strip_prefix('f')?.parse::<u32>().ok();
    match (caller, callee) {
        ("loop", "f0" | "used") => true,
        (caller, "work") => caller.starts_with('f'),
        (caller, callee) => {
            let pair = number(caller).zip(number(callee));
            pair.is_some_and(|(caller, callee)| callee == (caller + 1) % 6)
        }
    }
}

/// Wrong pairs that a failure tells.
const MOST_WRONG: usize = 8;

/// What stacks show.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    /// Stacks, those of them that reach the thread's start, and those with
    /// functions of the program.
    all: usize,
    whole: usize,
    named: usize,
    /// Callers and callees of which the one does not call the other.
    wrong: Vec<(String, String)>,
}

/// The function of `ring.js` that a line of a stack names: `JS:*f0 FILE:8:12`,
/// the mark being how it was compiled; nothing for the file's own code.
fn function(line: &str) -> Option<&str> {
    let name = line.trim().split_once(" JS:")?.1;
    let (name, file) = name.split_once(' ')?;
    let name = name.trim_start_matches(['*', '^', '~', '+', '\'']);
    let has_name = !name.is_empty() && name != "(anonymous)";
    (file.contains("ring.js") && has_name).then_some(name)
}

fn look(data: &str) -> Seen {
    let fields = ["-F", "comm,ip,sym", "--max-stack", "2000", "-i", data];
    let script = prof(&[&["script"], &fields[..]].concat()).succeeded("script");
    let starts = ["_start", "__clone3", "clone3", "__clone", "start_thread"];
    let mut seen = Seen::default();
    for sample in script.text().split("\n\n") {
        let frames: Vec<&str> = sample.lines().skip(1).collect();
        let Some(outermost) = frames.last() else {
            continue;
        };
        seen.all += 1;
        let outermost = outermost.trim().split_once(' ').map_or("", |it| it.1);
        let outermost = outermost.split("+0x").next().unwrap_or_default();
        seen.whole += usize::from(starts.contains(&outermost));
        // Compiled code that has no name yet may be any of them.
        let functions = frames.iter().rev().filter_map(|line| {
            let found = function(line);
            (found.is_some() || line.contains("[unknown]")).then_some(found)
        });
        let functions: Vec<Option<&str>> = functions.collect();
        seen.named += usize::from(functions.iter().any(Option::is_some));
        for pair in functions.windows(2) {
            if let [Some(caller), Some(callee)] = pair
                && !calls(caller, callee)
                && seen.wrong.len() < MOST_WRONG
            {
                seen.wrong.push(((*caller).into(), (*callee).into()));
            }
        }
    }
    seen
}

/// Options by which each function has a frame and a name of its own; the engine
/// leaves a log of it in the working directory, too.
const NAMED: [&str; 3] = [
    "--perf-basic-prof",
    "--interpreted-frames-native-stack",
    "--no-turbo-inlining",
];

/// `prof record` of one thousand samples a second.
fn recorder(data: &Path) -> Command {
    let mut command = prof_command();
    command
        .args(["record", "-q", "-g", "-F", "999", "-e", "cpu-clock:u", "-o"])
        .arg(data);
    command
}

/// Removes the perf map that a process left.
fn forget_map(pid: u32) {
    let _ = fs::remove_file(format!("/tmp/perf-{pid}.map"));
}

fn check(test: &str, options: &[&str]) -> Option<Seen> {
    if !have(test, "node") {
        return None;
    }
    let data = scratch().join(format!("{test}.data"));
    // The shell tells which process it becomes.
    let recorded = recorder(&data)
        .current_dir(scratch())
        .args(["--", "sh", "-c", "echo $$; exec node \"$@\"", "sh"])
        .args(options)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(PROGRAM))
        .arg("1200")
        .output()
        .expect("prof starts");
    assert!(recorded.status.success(), "{recorded:?}");
    let seen = look(data.to_str().expect("UTF-8"));
    let said = String::from_utf8_lossy(&recorded.stdout);
    let pid = said.lines().next().and_then(|line| line.parse().ok());
    forget_map(pid.expect("the shell's pid"));
    assert!(seen.all > 50, "{seen:?}");
    // On a quiet machine more than 99.
    assert!(seen.whole * 100 >= seen.all * 95, "{options:?}: {seen:?}");
    Some(seen)
}

/// Where a function begins and ends it has no frame: of one that is small that is a
/// tenth to a fifth of its samples.
#[test]
fn compiled_functions_have_names_where_they_begin_and_end() {
    let test = "compiled_functions_have_names_where_they_begin_and_end";
    if !have(test, "node") {
        return;
    }
    let data = scratch().join(format!("{test}.data"));
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/programs/fib.js");
    let recorded = recorder(&data)
        .args(["--", "node"])
        .arg(program)
        .arg("1500")
        .output()
        .expect("prof starts");
    assert!(recorded.status.success(), "{recorded:?}");
    let data = data.to_str().expect("UTF-8");
    let script = prof(&["script", "-F", "comm,ip,sym", "-i", data]).succeeded("script");
    let text = script.text();
    // Of the function itself, and of what it calls.
    let leaves = text.split("\n\n").filter_map(|sample| {
        let mut frames = sample.lines().skip(1);
        let leaf = frames.next()?;
        frames.next()?.contains("JS:fib").then_some(leaf)
    });
    let leaves: Vec<&str> = leaves.collect();
    let unnamed = leaves.iter().filter(|leaf| leaf.contains("[unknown]"));
    let unnamed = unnamed.count();
    assert!(leaves.len() > 200, "{}", leaves.len());
    // 1 % on a quiet machine; 10 to 20 % before.
    assert!(
        unnamed * 100 <= leaves.len() * 4,
        "{unnamed} of {}",
        leaves.len()
    );
}

#[test]
fn functions_of_node_are_named_without_a_flag() {
    let Some(seen) = check("node-default", &[]) else {
        return;
    };
    // Some are inlined in others there. It starts for a tenth of a second or two.
    assert!(seen.named * 100 >= seen.all * 50, "{seen:?}");
}

/// Of functions that keep frames of their own, compiled and interpreted.
#[test]
fn functions_of_node_are_in_order_without_a_flag() {
    let ways: [&[&str]; 3] = [
        &["--no-turbo-inlining"],
        &["--no-opt", "--no-sparkplug"],
        &["--always-sparkplug", "--no-opt"],
    ];
    for (number, options) in ways.into_iter().enumerate() {
        let Some(seen) = check(&format!("node-order-{number}"), options) else {
            return;
        };
        assert!(seen.named * 100 >= seen.all * 50, "{options:?}: {seen:?}");
        assert_eq!(seen.wrong, [], "{options:?}");
    }
}

#[test]
fn functions_of_node_are_named_and_in_order() {
    if let Some(seen) = check("node-named", &NAMED) {
        assert!(seen.named > 25, "{seen:?}");
        assert_eq!(seen.wrong, []);
    }
}

/// Recorded from outside, in the midst of it.
#[test]
fn a_node_process_that_runs_already_is_unwound_and_named() {
    let test = "node-attached";
    if !have(test, "node") {
        return;
    }
    let mut node = Command::new("node")
        .current_dir(scratch())
        .args(NAMED)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join(PROGRAM))
        .arg("1500")
        .stdout(Stdio::piped())
        .spawn()
        .expect("node starts");
    let mut said = String::new();
    let stdout = node.stdout.take().expect("a pipe");
    // The engine's log comes first where it cannot be a file.
    let mut lines = BufReader::new(stdout);
    while !said.contains("running") {
        let read = lines.read_line(&mut said);
        assert!(read.is_ok_and(|bytes| bytes > 0), "{said:?}");
    }
    let data = scratch().join(format!("{test}.data"));
    let recorded = recorder(&data)
        .args(["-p", &node.id().to_string(), "--", "sleep", "0.8"])
        .output()
        .expect("prof starts");
    let seen = look(data.to_str().expect("UTF-8"));
    node.wait().expect("waited");
    forget_map(node.id());
    assert!(recorded.status.success(), "{recorded:?}");
    assert!(seen.named > 10, "{seen:?}");
    assert_eq!(seen.wrong, []);
    assert!(seen.whole * 100 >= seen.all * 95, "{seen:?}");
}

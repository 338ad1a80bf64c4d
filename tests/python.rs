//! Python functions without a flag: what the interpreter has of a thread,
//! against a program whose functions know their callers.

use crate::oracle::{
    copy_program, excerpt, fixture, have, may_record_all, prof, prof_command, scratch, skipped,
};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Whether the first function of `ring.py` calls the second.
fn calls(caller: &str, callee: &str) -> bool {
    const EDGES: [(&str, &str); 10] = [
        ("<module>", "loop"),
        ("loop", "f0"),
        ("f0", "f1"),
        ("f1", "f2"),
        ("f2", "f3"),
        ("f3", "f3.<locals>.<lambda>"),
        ("f3.<locals>.<lambda>", "f4"),
        ("f4", "f4.<locals>.<genexpr>"),
        ("f4.<locals>.<genexpr>", "f5"),
        ("f5", "f0"),
    ];
    EDGES.contains(&(caller, callee)) || (caller.starts_with('f') && callee == "work")
}

/// The functions of a stack, outermost first; `None` for one that was not
/// known when the sample came.
fn functions(sample: &str) -> Vec<Option<&str>> {
    let mut functions: Vec<Option<&str>> = sample
        .lines()
        .filter_map(|line| line.trim().split_once(" py::")?.1.into())
        .filter_map(|name| match name.split_once(':') {
            _ if name.starts_with("(unknown)") => Some(None),
            Some((function, file)) if file.contains("ring.py") => Some(Some(function)),
            _ => None,
        })
        .collect();
    functions.reverse();
    functions
}

/// `ring.py`.
fn program() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/programs/ring.py")
}

/// `prof record` of a thousand samples a second into this file.
fn recorder(data: &Path) -> Command {
    let mut command = prof_command();
    command
        .args(["record", "-q", "-g", "-F", "999", "-e", "cpu-clock:u", "-o"])
        .arg(data);
    command
}

/// The stacks of a recording.
fn stacks(data: &Path) -> String {
    stacks_with(data, &[])
}

/// Those that these options choose.
fn stacks_with(data: &Path, options: &[&str]) -> String {
    let data = data.to_str().expect("UTF-8");
    let fields = ["-F", "comm,ip,sym", "--max-stack", "2000", "-i", data];
    let script = prof(&[&["script"], &fields[..], options].concat()).succeeded("script");
    script.text()
}

/// The stacks of a recording of `ring.py`.
fn recorded(test: &str, options: &[&str]) -> String {
    let data = scratch().join(format!("{test}.data"));
    // The shell tells which process it becomes.
    let recorded = recorder(&data)
        .args(["--", "sh", "-c", "echo $$; exec python3 \"$@\"", "sh"])
        .args(options)
        .arg(program())
        .arg("1.5")
        .output()
        .expect("prof starts");
    assert!(recorded.status.success(), "{recorded:?}");
    let stacks = stacks(&data);
    let pid = String::from_utf8_lossy(&recorded.stdout);
    let _ = fs::remove_file(format!("/tmp/perf-{}.map", pid.trim()));
    stacks
}

/// How many stacks have all of their functions; fails where one is called by
/// another than its caller.
fn known(script: &str) -> usize {
    let (mut known, mut wrong) = (0, Vec::new());
    for sample in script.split("\n\n") {
        let functions = functions(sample);
        known += usize::from(functions.len() > 1 && functions.iter().all(Option::is_some));
        for pair in functions.windows(2) {
            if let [Some(caller), Some(callee)] = pair
                && !calls(caller, callee)
            {
                wrong.push(((*caller).to_owned(), (*callee).to_owned()));
            }
        }
    }
    assert_eq!(wrong, []);
    known
}

#[test]
fn python_functions_stand_between_the_interpreters_frames_in_order() {
    let test = "python-ring";
    if !have(test, "python3") {
        return;
    }
    let known = known(&recorded(test, &[]));
    println!("{known} stacks with all of their functions");
}

/// Frames of coroutines and generators stand in themselves, wherever those are, and are
/// other ones all the time.
#[test]
fn coroutines_and_generators_are_in_the_stacks() {
    let test = "coroutines_and_generators_are_in_the_stacks";
    if !have(test, "python3") {
        return;
    }
    let data = scratch().join("coroutines.data");
    let recorded = recorder(&data)
        .args(["--", "python3"])
        .arg(fixture("programs").join("coroutines.py"))
        .arg("2.5")
        .output()
        .expect("prof starts");
    assert!(recorded.status.success(), "{recorded:?}");
    let below = |callers: &[&str]| {
        let callers = callers.iter().map(|name| Some((*name).to_owned()));
        callers.collect::<Vec<_>>()
    };
    let ways = [
        below(&["work", "c0", "c1", "task"]),
        below(&["work", "inner", "outer", "c0", "c1", "task"]),
    ];
    let (mut all, mut known, mut whole) = (0, 0, [0, 0]);
    for stack in stacks(&data).split("\n\n") {
        let names = stack
            .lines()
            .filter_map(|line| line.trim().split_once(" py::"));
        let functions: Vec<Option<String>> = names
            .filter_map(|(_, name)| match name.split_once(':') {
                _ if name.starts_with("(unknown)") => Some(None),
                Some((function, file)) if file.contains("coroutines.py") => {
                    Some(Some(function.to_owned()))
                }
                _ => None,
            })
            .collect();
        if stack.contains("_PyEval_EvalFrameDefault") {
            all += 1;
            known += u32::from(stack.contains(" py::"));
        }
        if functions.iter().any(Option::is_none) || functions.first() != Some(&ways[0][0]) {
            continue;
        }
        let way = ways.iter().position(|way| functions.starts_with(way));
        let way = way.unwrap_or_else(|| panic!("{functions:?}: {stack}"));
        if let Some(whole) = whole.get_mut(way) {
            *whole += 1;
        }
    }
    let [awaiting, generating] = whole;
    // Of the time that the program had, which was shared with what ran beside it.
    assert!(all > 200, "{all}");
    assert!(
        awaiting * 8 > all && generating * 24 > all,
        "{whole:?} of {all}"
    );
    assert!(known > all * 9 / 10, "{known} of {all}");
}

/// With `-X perf` each function has a trampoline, which the perf map names.
#[test]
fn python_functions_that_a_perf_map_names_are_there_once() {
    let test = "python-map";
    if !have(test, "python3") {
        return;
    }
    let has_option = Command::new("python3")
        .args(["-c", "import sys; sys.exit(sys.version_info < (3, 12))"])
        .status();
    if !has_option.expect("python3 starts").success() {
        println!("{test}: skipped: python3 is older than 3.12");
        return;
    }
    assert!(known(&recorded(test, &["-X", "perf"])) > 10);
}

/// Threads have other numbers for themselves there.
#[test]
fn python_functions_of_a_container_are_known() {
    let test = "python-container";
    if !have(test, "python3") || !have(test, "unshare") || !may_record_all(test) {
        return;
    }
    let data = scratch().join(format!("{test}.data"));
    let recorded = recorder(&data)
        .args(["--", "unshare", "-pf", "python3"])
        .arg(program())
        .arg("1")
        .output()
        .expect("prof starts");
    let said = String::from_utf8_lossy(&recorded.stderr);
    if said.contains("unshare:") {
        return skipped(test, &said);
    }
    assert!(recorded.status.success(), "{recorded:?}");
    assert!(known(&stacks(&data)) > 0);
}

/// Recorded from outside, in the midst of it.
#[test]
fn python_functions_of_a_process_that_runs_already_are_known() {
    let test = "python-attached";
    if !have(test, "python3") || !may_record_all(test) {
        return;
    }
    let mut python = Command::new("python3")
        .arg(program())
        .arg("1.5")
        .spawn()
        .expect("python3 starts");
    let data = scratch().join(format!("{test}.data"));
    let recorded = recorder(&data)
        .args(["-p", &python.id().to_string()])
        .output()
        .expect("prof starts");
    python.wait().expect("waited");
    assert!(recorded.status.success(), "{recorded:?}");
    assert!(known(&stacks(&data)) > 0);
}

/// Reading takes a small share of the time where all that runs is recorded, but
/// enough of it for Python.
#[test]
fn python_functions_are_known_where_all_that_runs_is_recorded() {
    let test = "python-system";
    if !have(test, "python3") || !may_record_all(test) {
        return;
    }
    let data = scratch().join(format!("{test}.data"));
    // At so few samples a second the share is enough for all CPUs, also where other
    // tests run Python; the shell tells which process is this one's.
    let recorded = recorder(&data)
        .args([
            "-F",
            "199",
            "-a",
            "--",
            "sh",
            "-c",
            "echo $$; exec python3 \"$@\"",
            "sh",
        ])
        .arg(program())
        .arg("1.5")
        .output()
        .expect("prof starts");
    assert!(recorded.status.success(), "{recorded:?}");
    let printed = String::from_utf8_lossy(&recorded.stdout);
    let process = printed.lines().next().expect("its number");
    let stacks = stacks_with(&data, &["--pid", process]);
    let of_python = |stack: &&str| stack.contains("ring.py");
    let is_eval = |stack: &&str| stack.contains("_PyEval_EvalFrameDefault");
    let (named, all) = (
        stacks.split("\n\n").filter(of_python).count(),
        stacks.split("\n\n").filter(is_eval).count(),
    );
    println!("{named} of {all} stacks of the interpreter");
    // When stacks and these had one share, it was enough for a fifth of them.
    assert!(all > 50 && 2 * named > all, "{named} of {all}");
}

/// Two threads that wait in turns in two functions, each by a system call of its
/// own.
const WAITERS: &str = "
import time, threading, select
end = time.time() + 1.5
def napping(): time.sleep(0.006)
def selecting(): select.select([], [], [], 0.007)
def loop():
    while time.time() < end: napping(); selecting()
other = threading.Thread(target=loop)
other.start()
loop()
other.join()
";

/// Naps, and then one long wait in functions that were not called before.
const ONCE: &str = "
import time
def nap(): time.sleep(0.005)
def inner(): time.sleep(0.4)
def once(): inner()
for _ in range(30): nap()
once()
";

/// Most waits that are long are the first that their functions are seen in.
#[test]
fn the_first_wait_of_a_python_function_has_its_name() {
    let test = "python-once";
    if !have(test, "/usr/bin/python3") || !may_record_all(test) {
        return;
    }
    let data = scratch().join(format!("{test}.data"));
    let recorded = prof_command()
        .args(["record", "-q", "--off-cpu=only", "-o"])
        .arg(&data)
        .args(["--", "/usr/bin/python3", "-c", ONCE])
        .status();
    assert!(recorded.expect("it starts").success());
    let fields = ["script", "-F", "period,ip,sym", "-i"];
    let file = data.to_str().expect("UTF-8");
    let script = prof(&[&fields[..], &[file]].concat()).succeeded("script");
    let script = script.text();
    let long = |sample: &&str| {
        let period = sample.split_whitespace().next();
        period.is_some_and(|it| it.parse().is_ok_and(|ns: u64| ns > 300_000_000))
    };
    let waits: Vec<&str> = script.split("\n\n").filter(long).collect();
    let [wait] = waits.as_slice() else {
        panic!("{}", excerpt(&waits));
    };
    let functions = wait
        .lines()
        .filter_map(|line| line.trim().split_once(" py::"));
    let functions: Vec<&str> = functions.map(|it| it.1).collect();
    let begins = ["inner:", "once:", "<module>:"];
    let is_right = begins
        .iter()
        .zip(&functions)
        .all(|(begin, it)| it.starts_with(begin));
    assert!(functions.len() == 3 && is_right, "{}", excerpt(wait));
}

/// Twelve waits of 80 ms, each in functions that were not called before, and before each
/// a deep stack of which more is read than samples have.
const AFTER_DEEP: &str = "
import time
def deep(n, end):
    if n: return max([n], key=lambda _: deep(n - 1, end) or 0)
    while time.time() < end: sum(range(100))
for at in range(12):
    deep(25, time.time() + 0.03)
    space = {'time': time}
    exec(f'def inner{at}(): time.sleep(0.08)\\ndef once{at}(): inner{at}()', space)
    space[f'once{at}']()
";

/// Samples wait behind those of deep stacks until these have proved right; the names
/// were read before.
#[test]
fn first_waits_of_python_functions_have_their_names_behind_deep_stacks() {
    let test = "python-after-deep";
    if !have(test, "/usr/bin/python3") || !may_record_all(test) {
        return;
    }
    let data = scratch().join(format!("{test}.data"));
    let file = data.to_str().expect("UTF-8");
    let of_only: &[&str] = &["--off-cpu=only", "--wakers"];
    let mut all = Vec::new();
    for options in [of_only, &["--off-cpu"], of_only, &["--off-cpu"]] {
        let recorded = prof_command()
            .args(["record", "-q", "-o", file])
            .args(options)
            .args(["--", "/usr/bin/python3", "-c", AFTER_DEEP])
            .status();
        assert!(recorded.expect("it starts").success());
        let fields = [
            "script",
            "--clock",
            "off",
            "-F",
            "period,ip,sym",
            "-i",
            file,
        ];
        let script = prof(&fields).succeeded("script");
        let script = script.text();
        let is_in = |at: usize| script.contains(&format!(" py::inner{at}:"));
        all.push((0..12).filter(|&at| is_in(at)).count());
    }
    // Who is woken late by a busy machine may read some too late.
    assert!(all.iter().sum::<usize>() >= 44, "{all:?} of 12 each");
}

/// The function that a wait of `WAITERS` is in by its system call, and by Python's
/// functions, if those are there.
fn waiting(sample: &str) -> Option<(&str, Option<&str>)> {
    let (native, python) = match sample.split_once(" py::") {
        Some((native, python)) => (native, python.split(':').next()),
        None => (sample, None),
    };
    let by_call = match native {
        native if native.contains("nanosleep") => "napping",
        native if native.contains("select") => "selecting",
        _ => return None,
    };
    Some((by_call, python.filter(|name| !name.starts_with('('))))
}

#[test]
fn waits_of_python_are_in_the_functions_that_wait() {
    let test = "python-waits";
    if !have(test, "/usr/bin/python3") {
        return;
    }
    let copy = std::env::temp_dir().join(format!("prof-python-{}", std::process::id()));
    copy_program(Path::new(prof_command().get_program()), &copy);
    let as_nobody: &[&str] = match have(test, "setpriv") && may_record_all(test) {
        true => &[
            "setpriv",
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
        ],
        false => &[],
    };
    let data = scratch().join(format!("{test}.data"));
    for user in [&[], as_nobody] {
        for off_cpu in ["--off-cpu", "--off-cpu=only"] {
            let (mut named, mut all) = (0, 0);
            // What else runs takes the CPU when functions are to be read: the
            // best of three. None of them may have a wrong name.
            for _ in 0..3 {
                let record = ["record", "-q", "-g", off_cpu, "-o", "-", "--"];
                let python = ["/usr/bin/python3", "-c", WAITERS];
                let copy = [copy.to_str().expect("UTF-8")];
                let command = [user, &copy, &record, &python].concat();
                let recorded = Command::new(command[0]).args(&command[1..]).output();
                let recorded = recorded.expect("it starts");
                assert!(recorded.status.success(), "{recorded:?}");
                fs::write(&data, &recorded.stdout).expect("written");
                let file = data.to_str().expect("UTF-8");
                let fields = ["-F", "event,ip,sym", "--clock", "off", "-i", file];
                let script = prof(&[&["script"], &fields[..]].concat()).succeeded("script");
                let script = script.text();
                let waits: Vec<_> = script.split("\n\n").filter_map(waiting).collect();
                let told = waits.iter().filter_map(|&(is, told)| Some((is, told?)));
                let (right, wrong): (Vec<_>, Vec<_>) = told.partition(|(is, told)| is == told);
                assert_eq!(wrong, []);
                (named, all) = (right.len(), waits.len());
                println!("{user:?} {off_cpu}: {named} of {all} waits");
                if named > 50 && 3 * named > 2 * all {
                    break;
                }
            }
            // On a quiet machine nearly all.
            assert!(named > 50, "{named} of {all}");
            assert!(3 * named > 2 * all, "{named} of {all}");
        }
    }
    fs::remove_file(copy).expect("ours");
}

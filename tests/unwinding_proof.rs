//! `prof record -g`: a chain that is not proved ends, with its reason.
//!
//! The programs have functions with known callers, so that chains are checked
//! by their names: while exceptions are thrown, without unwind information,
//! on stacks that nothing called into, in exec.

use crate::oracle::{have, may_record_all, prof, prof_command, scratch, skipped};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A recording as it is read back.
struct Seen {
    /// User frames, by name and innermost first.
    chains: Vec<Vec<String>>,
    /// Samples by how their chain ended.
    ends: Value,
}

impl Seen {
    fn ended(&self, end: &str) -> usize {
        self.ends[end].as_u64().unwrap_or(0) as usize
    }

    fn with(&self, name: &str) -> usize {
        let has = |chain: &&Vec<String>| chain.iter().any(|frame| frame == name);
        self.chains.iter().filter(has).count()
    }

    /// Chains whose outermost function is one that nothing calls.
    fn rooted(&self) -> usize {
        let starts = ["_start", "_dl_start", "clone", "__clone", "__start_context"];
        let is_start = |name: &str| starts.iter().any(|start| name.starts_with(start));
        let outermost = |chain: &&Vec<String>| chain.last().is_some_and(|name| is_start(name));
        self.chains.iter().filter(outermost).count()
    }

    /// Pairs of callee and caller that cannot be.
    fn wrong(&self, can_call: fn(&str, &str) -> bool) -> Vec<String> {
        let pairs = self.chains.iter().flat_map(|chain| chain.windows(2));
        pairs
            .filter(|pair| !can_call(&pair[1], &pair[0]))
            .map(|pair| format!("{} called by {}", pair[0], pair[1]))
            .collect()
    }
}

/// Builds a program of `fixtures/programs`; `None` without the compiler.
fn build(compiler: &str, source: &str, name: &str, options: &[&str]) -> Option<PathBuf> {
    if !have(name, compiler) {
        return None;
    }
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/programs");
    let program = scratch().join(format!("proof-{name}"));
    let built = Command::new(compiler)
        .args(options)
        .args(["-fno-optimize-sibling-calls", "-o"])
        .arg(&program)
        .arg(sources.join(source))
        .status()
        .expect("the compiler starts");
    assert!(built.success(), "{source} compiles");
    Some(program)
}

/// The name without arguments, return type and the mark of a cold part.
fn plain(name: &str) -> String {
    let name = name.trim().trim_start_matches("void ");
    name.split(['(', ' ', '.'])
        .next()
        .unwrap_or_default()
        .to_owned()
}

/// Records a program and reads its user chains.
fn record(program: &Path, rate: &str) -> Seen {
    let data = program.with_extension("data");
    let output = prof_command()
        .args(["record", "-q", "-F", rate, "-e", "cpu-clock:u", "-g", "-o"])
        .arg(&data)
        .arg("--")
        .arg(program)
        .output()
        .expect("prof starts");
    assert!(output.status.success(), "{output:?}");
    let data = data.to_str().expect("UTF-8");
    let text = prof(&["script", "-F", "comm,ip,sym", "-i", data]).succeeded("script");
    let frame = |line: &str| line.trim().split_once(' ').map(|(_, name)| plain(name));
    let chain = |sample: &str| sample.lines().skip(1).filter_map(frame).collect();
    let report = prof(&["report", "--json", "-i", data]).succeeded("report");
    let report: Value = serde_json::from_slice(&report.stdout).expect("JSON");
    Seen {
        chains: text.text().split("\n\n").map(chain).collect(),
        ends: report["trust"]["stacks"]["ends"].clone(),
    }
}

/// Who can call whom in `exceptions.cc`; true where it does not say.
fn can_throw(caller: &str, callee: &str) -> bool {
    let level = |name: &str| -> Option<u32> {
        name.strip_prefix("level<")?.strip_suffix('>')?.parse().ok()
    };
    if let Some(level_of_callee) = level(callee) {
        return match level_of_callee.checked_sub(1) {
            Some(above) => level(caller) == Some(above),
            None => ["catch_all", "level_catching", "jump_back"].contains(&caller),
        };
    }
    match callee {
        "thrower" | "jumper" => caller == "level<7>",
        "level_catching" => caller == "catch_all",
        "catch_all" | "jump_back" => caller == "main",
        "_Unwind_RaiseException" => caller == "__cxa_throw",
        "_Unwind_Resume" => level(caller).is_some(),
        "__cxa_throw" => caller == "thrower",
        "__cxa_begin_catch" | "__cxa_end_catch" => {
            ["catch_all", "level_catching"].contains(&caller)
        }
        _ => true,
    }
}

#[test]
fn no_chain_is_wrong_while_exceptions_are_thrown() {
    // Where frames hang on the frame pointer, which a function on its way to
    // a landing pad has overwritten, the caller's code tells its frame's size.
    for (name, options, least) in [
        ("thrown", &["-O2", "-fomit-frame-pointer"][..], 97),
        ("thrown-by-frame-pointer", &["-O0"], 97),
    ] {
        let Some(program) = build("g++", "exceptions.cc", name, options) else {
            return;
        };
        let seen = record(&program, "4000");
        assert!(seen.chains.len() > 500, "{} samples", seen.chains.len());
        assert!(seen.with("_Unwind_RaiseException") > 100);
        assert_eq!(seen.wrong(can_throw), Vec::<String>::new(), "{name}");
        // Of no chain is said that it is complete when it is not.
        let rooted = seen.rooted();
        assert!(seen.ended("Root") <= rooted, "{name}: {}", seen.ends);
        assert!(
            rooted * 100 >= seen.chains.len() * least,
            "{name}: {rooted} of {} reach the start",
            seen.chains.len()
        );
    }
}

/// Who can call whom in `no-unwind-info.c`; true where it does not say.
fn can_call(caller: &str, callee: &str) -> bool {
    let callers: &[&str] = match callee {
        "top" => &["main"],
        "node0" => &["top"],
        "node1" => &["node0"],
        "node2" => &["node1"],
        "node3" => &["node2"],
        "node4" => &["node3"],
        "node5" => &["node4"],
        "sort" => &["node3"],
        "compare" => &["sort"],
        "leaf" => &["node5", "compare"],
        "spin" => &["leaf", "node1"],
        _ => return true,
    };
    callers.contains(&caller)
}

#[test]
fn no_chain_of_a_program_without_unwind_information_is_wrong() {
    let bare = ["-fno-asynchronous-unwind-tables", "-fno-unwind-tables"];
    for (name, compiler, options, least) in [
        ("bare", "gcc", &["-O2", "-fomit-frame-pointer"][..], 95),
        ("bare-o1", "gcc", &["-O1", "-fomit-frame-pointer"], 95),
        (
            "bare-frames",
            "gcc",
            &["-O2", "-fno-omit-frame-pointer"],
            95,
        ),
        ("bare-unoptimized", "gcc", &["-O0"], 95),
        // The library has none either, and the chain ends where it enters.
        ("bare-static", "musl-gcc", &["-O2", "-static"], 95),
    ] {
        let options: Vec<&str> = options.iter().chain(&bare).copied().collect();
        let Some(program) = build(compiler, "no-unwind-info.c", name, &options) else {
            continue;
        };
        let seen = record(&program, "4000");
        assert!(seen.chains.len() > 500, "{} samples", seen.chains.len());
        assert_eq!(seen.wrong(can_call), Vec::<String>::new(), "{name}");
        // Of no chain is said that it is complete when it is not.
        assert!(seen.ended("Root") <= seen.rooted(), "{name}: {}", seen.ends);
        let reached = seen.with("main").min(seen.ended("Root"));
        assert!(
            reached * 100 >= seen.chains.len() * least,
            "{name}: {reached} of {} reach main; {}",
            seen.chains.len(),
            seen.ends
        );
    }
}

/// Nothing tells where functions begin that are called through pointers, as the one of
/// larger frames than are looked through for a call.
#[test]
fn a_stripped_program_without_unwind_information_is_followed_to_its_start() {
    let options = [
        "-O2",
        "-fomit-frame-pointer",
        "-fno-asynchronous-unwind-tables",
        "-fno-unwind-tables",
        "-s",
    ];
    let Some(program) = build("gcc", "no-unwind-info.c", "bare-stripped", &options) else {
        return;
    };
    let seen = record(&program, "4000");
    let (all, whole) = (seen.chains.len(), seen.ended("Root"));
    assert!(
        all > 500 && whole * 100 >= all * 95,
        "{whole} of {all} reach the start; {}",
        seen.ends
    );
}

/// Who can call whom in `applets.c`; true where it does not say.
fn can_call_applets(caller: &str, callee: &str) -> bool {
    let callers: &[&str] = match callee {
        "run" => &["main"],
        "walk_main" => &["run"],
        "visit" => &["walk_main", "visit"],
        "add" => &["visit"],
        "spin" => &["add"],
        _ => return true,
    };
    callers.contains(&caller)
}

/// Their `main` never returns, and the file alone has its address; what it calls goes
/// on through a table of cases.
#[test]
fn mains_that_are_called_through_a_table_have_their_callers() {
    let bare = [
        "-O2",
        "-fomit-frame-pointer",
        "-fno-asynchronous-unwind-tables",
        "-fno-unwind-tables",
    ];
    for (name, options) in [
        ("applets", &["-pie"][..]),
        ("applets-fixed", &["-no-pie", "-fno-pie"]),
        ("applets-stripped", &["-pie", "-s"]),
        ("applets-fixed-stripped", &["-no-pie", "-fno-pie", "-s"]),
    ] {
        let options = [&bare, options].concat();
        let Some(program) = build("gcc", "applets.c", name, &options) else {
            return;
        };
        let seen = record(&program, "4000");
        assert_eq!(seen.wrong(can_call_applets), Vec::<String>::new(), "{name}");
        let (all, whole) = (seen.chains.len(), seen.ended("Root"));
        assert!(
            all > 500 && whole * 100 >= all * 98,
            "{name}: {whole} of {all} reach the start; {}",
            seen.ends
        );
        let is_stripped = options.contains(&"-s");
        let named = seen.with("walk_main").min(seen.with("visit"));
        assert!(is_stripped || named * 100 >= all * 80, "{name}: {named}");
    }
}

/// Who can call whom in `interpreters.c`.
fn can_interpret(caller: &str, callee: &str) -> bool {
    let callers: &[&str] = match callee {
        "outer" => &["main"],
        "middle" => &["outer"],
        "inner" => &["middle"],
        "last" => &["inner"],
        "work" => &["outer", "middle", "inner", "last"],
        _ => return true,
    };
    callers.contains(&caller)
}

/// No way leads from the start of such code to the calls in it, and none from
/// there to a return; that it keeps a frame pointer shows in what it does next.
#[test]
fn code_that_jumps_through_tables_and_keeps_frame_pointers_has_its_callers() {
    let frames = [
        "-O2",
        "-fno-omit-frame-pointer",
        "-fno-asynchronous-unwind-tables",
        "-fno-unwind-tables",
    ];
    let Some(program) = build("gcc", "interpreters.c", "interpreters", &frames) else {
        return;
    };
    let seen = record(&program, "4000");
    assert_eq!(seen.wrong(can_interpret), Vec::<String>::new());
    let all = seen.chains.iter().filter(|chain| !chain.is_empty()).count();
    assert!(all > 300, "{all} samples");
    let reached = seen.with("main").min(seen.ended("Root"));
    assert!(
        reached * 100 >= all * 95,
        "{reached} of {all}: {}",
        seen.ends
    );
    let bare = ["-fomit-frame-pointer"];
    let options = [&frames[..1], &bare, &frames[2..]].concat();
    let program = build("gcc", "interpreters.c", "interpreters-bare", &options);
    let seen = record(&program.expect("gcc"), "4000");
    assert_eq!(seen.wrong(can_interpret), Vec::<String>::new());
}

/// Nothing tells where such code begins; all ways from it to a return tell who
/// called it.
#[test]
fn assembly_without_symbols_that_is_called_through_pointers_has_its_callers() {
    let Some(program) = build("gcc", "kernels.c", "kernels", &["-O2"]) else {
        return;
    };
    let seen = record(&program, "999");
    // The names of the assembly's frames are those of what stands before it.
    let callers = |chain: &Vec<String>| {
        let at = chain.iter().position(|name| name == "run")?;
        Some((at, chain.get(at + 1).cloned()))
    };
    let called: Vec<_> = seen.chains.iter().filter_map(callers).collect();
    assert!(
        called
            .iter()
            .all(|(_, caller)| caller.as_deref() == Some("main"))
    );
    // In a kernel, and in what one of them calls.
    for depth in [1, 2] {
        let count = called.iter().filter(|(at, _)| *at == depth).count();
        assert!(count >= 20, "{count} with {depth} frames of assembly");
    }
    let all = seen.chains.iter().filter(|chain| !chain.is_empty()).count();
    assert!(
        called.len() + 20 >= all,
        "{} of {all}: {}",
        called.len(),
        seen.ends
    );
}

/// What is on a stack to be returned to first stands at a function's first
/// byte: it has that function's name, and the chain ends there.
#[test]
fn a_stack_that_was_made_ends_at_the_function_it_was_made_for() {
    let name = "made-stack";
    let Some(program) = build("gcc", "contexts.c", name, &["-O2"]) else {
        return;
    };
    let seen = record(&program, "2000");
    let on_it: Vec<_> = seen
        .chains
        .iter()
        .filter(|chain| chain.iter().any(|frame| frame == "on_context"))
        .collect();
    assert!(on_it.len() > 100, "{} samples", on_it.len());
    for chain in &on_it {
        let from = chain.iter().position(|frame| frame == "on_context");
        let callers = &chain[from.expect("it is there") + 1..];
        assert_eq!(callers, ["__start_context"], "{chain:?}");
    }
    assert!(seen.ended("Root") >= on_it.len(), "{}", seen.ends);
}

/// In exec the registers are those of the program that called it, and its
/// stack is gone.
#[test]
fn what_exec_left_behind_is_in_no_chain() {
    let test = "what_exec_left_behind_is_in_no_chain";
    if !may_record_all(test) {
        return;
    }
    let data = scratch().join("proof-exec.data");
    let script = "i=0; while [ $i -lt 400 ]; do /bin/true; i=$((i+1)); done";
    let output = prof_command()
        .args(["record", "-q", "-F", "10000", "-g", "-o"])
        .arg(&data)
        .args(["--", "sh", "-c", script])
        .output()
        .expect("prof starts");
    assert!(output.status.success(), "{output:?}");
    let data = data.to_str().expect("UTF-8");
    let text = prof(&["script", "-F", "comm,ip,sym,dso", "-i", data]).succeeded("script");
    let text = text.text();
    // The old address space is gone and the new program has not run.
    let loads = |sample: &&str| {
        let mut lines = sample.lines();
        lines.next().is_some_and(|first| first.starts_with("true"))
            && sample.contains(" load_elf_binary ")
    };
    let in_exec: Vec<&str> = text.split("\n\n").filter(loads).collect();
    if in_exec.is_empty() {
        skipped(
            test,
            "no sample fell into exec, or the kernel hides its symbols",
        );
        return;
    }
    for sample in in_exec {
        let is_user = |line: &&str| {
            !line.contains("[kernel") && !line.contains("([") && !line.contains("ld-linux")
        };
        let left: Vec<&str> = sample.lines().skip(1).filter(is_user).collect();
        assert_eq!(left, Vec::<&str>::new(), "{sample}");
    }
}

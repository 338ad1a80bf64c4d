//! Go programs, stripped ones too: names, lines and stacks come from the
//! function table that each has.

use crate::oracle::{have, prof, prof_command, scratch};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds `goroutines.go`; `None` without Go.
fn build(test: &str, options: &[&str]) -> Option<PathBuf> {
    if !have(test, "go") {
        return None;
    }
    let program = scratch().join(test);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/programs/goroutines.go");
    let built = Command::new("go")
        .args(["build", "-o"])
        .arg(&program)
        .args(options)
        .arg(source)
        .env("GO111MODULE", "off")
        .status()
        .expect("go starts");
    assert!(built.success(), "it compiles");
    Some(program)
}

/// Who can call whom in it; true where it does not say.
fn can_call(caller: &str, callee: &str) -> bool {
    match callee {
        "main.leaf" => caller == "main.middle",
        "main.middle" => ["main.deep", "main.inlined"].contains(&caller),
        "main.inlined" | "main.clocks" => caller == "main.worker",
        "main.deep" | "main.grow" => caller == callee || caller == "main.worker",
        barrier if is_barrier(barrier) => {
            caller.starts_with("main.") || caller.starts_with("runtime.")
        }
        "main.worker" => caller == "main.main.func1",
        "main.main.func1" => caller == "runtime.goexit",
        "runtime.gcBgMarkWorker.func2" => caller == "runtime.systemstack",
        "runtime.gcBgMarkWorker" => caller == "runtime.goexit",
        "runtime.goexit" | "runtime.mstart" | "runtime.rt0_go" => false,
        _ => true,
    }
}

#[test]
fn stripped_go_programs_have_names_lines_and_whole_stacks() {
    let test = "stripped_go_programs_have_names_lines_and_whole_stacks";
    let Some(program) = build(test, &["-ldflags=-s -w"]) else {
        return;
    };
    let data = program.with_extension("data");
    let recorded = prof_command()
        .args([
            "record",
            "-q",
            "-F",
            "1999",
            "-e",
            "cpu-clock:u",
            "-g",
            "-o",
        ])
        .arg(&data)
        .arg("--")
        .arg(&program)
        .status();
    assert!(recorded.expect("prof starts").success());
    let data = data.to_str().expect("UTF-8");
    let report = prof(&["report", "--json", "-i", data]).succeeded("report");
    let report: Value = serde_json::from_slice(&report.stdout).expect("JSON");
    let stacks = &report["trust"]["stacks"];
    let count = |name: &str| stacks[name].as_u64().unwrap_or(0);
    let (complete, judged) = (count("complete"), count("judged"));
    assert!(judged > 200, "{stacks}");
    assert!(complete * 100 >= judged * 98, "{stacks}");

    let fields = ["script", "-F", "ip,sym,srcline", "-i", data];
    let text = prof(&fields).succeeded("script").text();
    let mut inlined = 0;
    let (mut barriers, mut called) = (0, 0);
    let (mut marking, mut marked) = (0, 0);
    for sample in text.split("\n\n") {
        let names: Vec<&str> = sample.lines().filter_map(name).collect();
        for pair in names.windows(2) {
            assert!(can_call(pair[1], pair[0]), "{} called {}", pair[1], pair[0]);
        }
        inlined += usize::from(names.contains(&"main.inlined"));
        let barrier = names.iter().position(|name| is_barrier(name));
        barriers += usize::from(barrier.is_some());
        called += usize::from(barrier.is_some_and(|at| names.get(at + 1) == Some(&"main.grow")));
        let marks = names.contains(&"runtime.gcBgMarkWorker.func2");
        marking += usize::from(marks);
        marked += usize::from(marks && names.last() == Some(&"runtime.goexit"));
    }
    // Write barriers visit the system stack through code without a frame.
    assert!(called * 10 >= barriers * 9, "{called} of {barriers}");
    // Marking is done on the system stack of a goroutine that starts with who asks for it.
    assert!(marking > 0, "{text}");
    // A dozen samples or so: one of ten was whole when nothing told who that is.
    assert!(marked * 2 >= marking, "{marked} of {marking}");
    assert!(inlined > 0, "what was inlined is shown");
    assert!(text.contains("goroutines.go:"), "lines are known");
    assert!(!text.contains("[unknown]"), "all functions have names");
    let listing = prof(&["annotate", "--stdio", "-l", "-i", data, "main.leaf"]);
    let listing = listing.succeeded("annotate").text();
    let of_leaf = listing.contains("goroutines.go:") && listing.contains("func leaf(");
    assert!(of_leaf, "source lines beside the instructions: {listing}");
}

/// A write barrier that has no frame and so saves no frame pointer.
fn is_barrier(name: &str) -> bool {
    let register = name.strip_prefix("runtime.gcWriteBarrier");
    register.is_some_and(|register| register.len() == 2)
}

/// The function of a frame's first line: address, name, mark of inlining.
fn name(line: &str) -> Option<&str> {
    let mut words = line.split_whitespace();
    let address = words.next()?;
    u64::from_str_radix(address, 16).ok()?;
    words.next()
}

#[test]
fn c_code_with_frame_pointers_is_followed_to_the_goroutine_that_called_it() {
    let name = "c_code_with_frame_pointers_is_followed_to_the_goroutine_that_called_it";
    if !have(name, "go") || !have(name, "gcc") {
        return;
    }
    let text = shown_of_cgo("calls-c");
    let of_c = || {
        text.split("\n\n")
            .filter(|chain| chain.contains("_Cfunc_c"))
    };
    let count = of_c().count();
    assert!(count > 100, "{text}");
    for (called, caller) in [
        ("_Cfunc_cwork", "main.viaA"),
        ("_Cfunc_cother", "main.viaB"),
    ] {
        let calls = of_c().filter(|chain| chain.contains(called));
        let wrong = calls.filter(|chain| {
            let ends = chain.contains("main.main") && chain.contains("runtime.goexit");
            let is_in_c = chain.contains("runtime.asmcgocall");
            ends && (!chain.contains(caller) || is_in_c && !chain.contains("runtime.cgocall"))
        });
        assert_eq!(wrong.count(), 0, "{text}");
    }
    let whole = of_c().filter(|chain| chain.contains("main.main")).count();
    assert!(whole * 100 >= count * 97, "{whole} of {count}");
}

#[test]
fn go_code_that_c_code_calls_is_followed_through_it_to_its_goroutine() {
    let name = "go_code_that_c_code_calls_is_followed_through_it_to_its_goroutine";
    if !have(name, "go") || !have(name, "gcc") {
        return;
    }
    let text = shown_of_cgo("calls-back");
    let called_back = || text.split("\n\n").filter(|it| it.contains("main.middle"));
    let count = called_back().count();
    assert!(count > 100, "{text}");
    // Each function once, in this order.
    let way = [
        "main.middle",
        "runtime.cgocallbackg1",
        "runtime.cgocallback.abi0",
        "crosscall2",
        "goCallback",
        "down",
        "_Cfunc_cwork",
        "runtime.asmcgocall",
        "runtime.cgocall",
        "main.caller",
        "main.main",
        "runtime.goexit",
    ];
    let (mut whole, mut wrong) = (0, 0);
    for chain in called_back() {
        let names: Vec<&str> = chain.lines().filter_map(name_of).collect();
        let mut names = names.iter().skip_while(|it| **it != "main.middle");
        let is_whole = way.iter().all(|wanted| names.any(|it| it.contains(wanted)));
        whole += usize::from(is_whole);
        wrong += usize::from(!is_whole && chain.contains("runtime.goexit"));
    }
    assert_eq!(wrong, 0, "{text}");
    assert!(whole * 100 >= count * 97, "{whole} of {count}");
}

/// What `prof script` shows of the program of this name, whose C code keeps frame
/// pointers.
fn shown_of_cgo(name: &str) -> String {
    let program = scratch().join(name);
    let source = format!("fixtures/programs/{name}.go");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(source);
    let mut build = Command::new("go");
    let build = build.args(["build", "-o"]).arg(&program).arg(source);
    let build = build.env("CGO_CFLAGS", "-O2 -g -fno-omit-frame-pointer");
    let build = build.env("GO111MODULE", "off").output().expect("go starts");
    assert!(build.status.success(), "{build:?}");
    let file = scratch().join(format!("{name}.data"));
    let mut record = prof_command();
    record.args(["record", "-q", "-g", "-F", "999", "-o"]);
    let record = record.arg(&file).arg(&program).output();
    assert!(record.expect("prof starts").status.success());
    let file = file.to_str().expect("UTF-8");
    let shown = prof(&["script", "-f", "-i", file, "-F", "ip,sym"]);
    shown.succeeded("prof script").text()
}

/// The name in a line of a chain.
fn name_of(line: &str) -> Option<&str> {
    line.split_whitespace().nth(1)
}

//! Stacks through code that PyPy compiles, which keeps no frame pointer and has no
//! unwind information.

use crate::oracle::{compiled, fixture, have, prof, prof_command, scratch};

/// Levels of C functions, each called by Python and calling it again.
const LEVELS: usize = 6;

/// Python between them is compiled soon; each stack tells by the names of the levels
/// whether a caller is left out.
#[test]
fn stacks_go_through_code_that_pypy_compiles() {
    let test = "stacks_go_through_code_that_pypy_compiles";
    if !have(test, "pypy3") {
        return;
    }
    let flags = ["-O2", "-fno-optimize-sibling-calls", "-shared", "-fPIC"];
    let Some(library) = compiled(test, "pypy-levels.c", &flags) else {
        return;
    };
    for rate in ["999", "4000"] {
        let data = scratch().join(format!("pypy-{rate}.data"));
        let output = prof_command()
            .args(["record", "-q", "-g", "-F", rate, "-e", "cpu-clock:u", "-o"])
            .arg(&data)
            .args(["--", "pypy3"])
            .arg(fixture("programs").join("pypy-levels.py"))
            .arg(&library)
            .arg("2.5")
            .output()
            .expect("prof starts");
        assert!(output.status.success(), "{output:?}");
        let data = data.to_str().expect("UTF-8");
        let all_frames = [
            "script",
            "--max-stack",
            "1024",
            "-F",
            "ip,sym,dso",
            "-i",
            data,
        ];
        let script = prof(&all_frames).succeeded("script");
        let (mut most, mut whole, mut through_compiled) = (0, 0, 0);
        for stack in script.text().split("\n\n").filter(|it| !it.is_empty()) {
            let level = |line: &str| {
                let (_, behind) = line.split_once(" level_")?;
                behind.split(' ').next()?.parse::<usize>().ok()
            };
            let levels: Vec<usize> = stack.lines().filter_map(level).collect();
            // Its start has no name, that of its loader has.
            let is_start = |line: &str| line.contains("/pypy3") || line.contains(" _start ");
            let is_whole = stack.lines().last().is_some_and(is_start);
            let innermost = levels.first().copied().unwrap_or(LEVELS);
            let all: Vec<usize> = (innermost..LEVELS).collect();
            let expected = match is_whole {
                true => all.as_slice(),
                false => all.get(..levels.len()).unwrap_or_default(),
            };
            assert_eq!(levels, expected, "{stack}");
            most += 1;
            whole += usize::from(is_whole);
            // Told by the map of the process, or as code of no file.
            let is_compiled = |line: &str| line.contains("/perf-") || line.contains("[JIT]");
            through_compiled += usize::from(is_whole && stack.lines().any(is_compiled));
        }
        // 99.6 to 99.9 of 100 with nothing else running.
        assert!(most >= 300, "{most} samples at {rate} Hz");
        assert!(whole * 100 >= most * 95, "{whole} of {most} at {rate} Hz");
        // Compiling takes the longer the more runs beside it.
        assert!(through_compiled * 4 >= most, "{through_compiled} of {most}");
    }
}

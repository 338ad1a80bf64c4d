//! Stacks through code that LuaJIT compiles, which has no frame of its own.

use crate::oracle::{compiled, prof, prof_command, scratch, skipped};
use std::process::Command;

/// The exit status of the program where LuaJIT is not installed.
const NO_LUAJIT: i32 = 77;

/// The functions of each stack of `luajit-host.c`, innermost first, user mode
/// only; `None`, with the reason printed, where it cannot run.
fn stacks(test: &str, rate: &str) -> Option<Vec<Vec<String>>> {
    let flags = [
        "-O2",
        "-fomit-frame-pointer",
        "-fno-optimize-sibling-calls",
        "-rdynamic",
    ];
    let program = compiled(test, "luajit-host.c", &flags)?;
    let tried = Command::new(&program).arg("0").status();
    if tried.expect("it starts").code() == Some(NO_LUAJIT) {
        skipped(test, "libluajit-5.1.so.2 is not installed");
        return None;
    }
    let data = scratch().join(format!("luajit-{rate}.data"));
    let output = prof_command()
        .args(["record", "-q", "-g", "-F", rate, "-e", "cpu-clock:u", "-o"])
        .arg(&data)
        .arg("--")
        .arg(&program)
        .arg("1.5")
        .output()
        .expect("prof starts");
    assert!(output.status.success(), "{output:?}");
    let data = data.to_str().expect("UTF-8");
    let script = prof(&["script", "-F", "ip,sym", "-i", data]).succeeded("script");
    let name = |line: &str| Some(line.trim().split_once(' ')?.1.trim().to_owned());
    let stack = |text: &str| text.lines().filter_map(name).collect::<Vec<_>>();
    let stacks = script.text().split("\n\n").map(stack).collect::<Vec<_>>();
    Some(stacks.into_iter().filter(|it| !it.is_empty()).collect())
}

/// The levels of C functions in a stack, innermost first.
fn levels(stack: &[String]) -> Vec<u32> {
    let level = |name: &String| name.strip_prefix("level_")?.parse().ok();
    stack.iter().filter_map(level).collect()
}

/// Whatever the compiled code was entered from (a call, a protected one, a
/// coroutine that C or Lua resumes, a callback), and whether it runs, is left or
/// has called C: no level is left out, and nearly all stacks are whole.
#[test]
fn stacks_go_through_compiled_lua() {
    let test = "stacks_go_through_compiled_lua";
    for rate in ["999", "4000"] {
        let Some(stacks) = stacks(test, rate) else {
            return;
        };
        let mut whole = 0;
        let mut deepest = [0; 6];
        for stack in &stacks {
            let found = levels(stack);
            let innermost = found.first().copied().unwrap_or(0);
            let expected: Vec<u32> = (0..=innermost).rev().collect();
            let is_whole = stack.last().is_some_and(|name| name == "_start");
            let expected = match is_whole && !found.is_empty() {
                true => expected.as_slice(),
                false => expected.get(..found.len()).unwrap_or_default(),
            };
            assert_eq!(found, expected, "{stack:?}");
            whole += usize::from(is_whole);
            if let Some(count) = deepest.get_mut(innermost as usize) {
                *count += usize::from(is_whole && !found.is_empty());
            }
        }
        // 99.2 to 99.7 of 100 on a busy machine.
        let most = stacks.len();
        assert!(most >= 200, "{most} samples at {rate} Hz");
        assert!(whole * 100 >= most * 95, "{whole} of {most} at {rate} Hz");
        let each = deepest.iter().all(|count| count * 50 >= most);
        assert!(each, "{deepest:?} of {most}");
    }
}

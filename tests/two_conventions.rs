//! Stacks through code of another calling convention (SBCL's), which runs on a stack
//! of its own in a frame that its caller made.

use crate::oracle::{compiled, prof, prof_command, scratch};

#[test]
fn stacks_go_through_a_frame_that_the_caller_made() {
    let test = "stacks_go_through_a_frame_that_the_caller_made";
    if cfg!(not(target_arch = "x86_64")) {
        return;
    }
    let Some(program) = compiled(test, "two-conventions.c", &["-O2"]) else {
        return;
    };
    let data = scratch().join("two-conventions.data");
    let output = prof_command()
        .args(["record", "-q", "-g", "-F", "999", "-e", "cpu-clock:u", "-o"])
        .arg(&data)
        .arg("--")
        .arg(&program)
        .arg("2")
        .output()
        .expect("prof starts");
    assert!(output.status.success(), "{output:?}");
    let data = data.to_str().expect("UTF-8");
    let script = prof(&["script", "-F", "ip,sym", "-i", data]).succeeded("script");
    let name = |line: &str| Some(line.trim().split_once(' ')?.1.trim().to_owned());
    let text = script.text();
    let stacks = text
        .split("\n\n")
        .map(|text| text.lines().filter_map(name).collect::<Vec<_>>());
    let (mut in_callee, mut whole) = (0, 0);
    for stack in stacks.filter(|stack| stack.get(1).is_some_and(|name| name == "enter_")) {
        in_callee += 1;
        let is_whole = stack.last().is_some_and(|name| name == "_start");
        // Nothing else stands above it, and what is left out is left out at its end.
        let expected = ["[unknown]", "enter_", "outer", "main"];
        let known = stack.len().min(expected.len());
        assert_eq!(stack[..known], expected[..known], "{stack:?}");
        assert!(is_whole || known < expected.len(), "{stack:?}");
        whole += usize::from(is_whole);
    }
    // What was sampled before the stack of `main` was read has its caller only.
    assert!(in_callee >= 500, "{in_callee}");
    assert!(whole * 10 >= in_callee * 8, "{whole} of {in_callee}");
}

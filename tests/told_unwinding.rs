//! Stacks through code made at run time that keeps no frame pointer, whose
//! compiler tells how it unwinds: in a jitdump, or debuggers.

use crate::oracle::{compiled, prof, prof_command, scratch};

/// Records `told-jit.c` and gives the functions of each stack, innermost
/// first; `None` without a compiler.
fn stacks(how: &str) -> Option<Vec<Vec<String>>> {
    let program = compiled(&format!("told-{how}"), "told-jit.c", &["-O2"])?;
    let data = scratch().join(format!("told-{how}.data"));
    let output = prof_command()
        .args([
            "record",
            "-q",
            "-g",
            "-F",
            "999",
            "-k",
            "mono",
            "-e",
            "cpu-clock:u",
            "-o",
        ])
        .arg(&data)
        .arg("--")
        .arg(&program)
        .arg(how)
        .arg(scratch())
        .output()
        .expect("prof starts");
    assert!(output.status.success(), "{output:?}");
    let data = data.to_str().expect("UTF-8");
    let script = prof(&["script", "-F", "ip,sym", "-i", data]).succeeded("script");
    let name = |line: &str| {
        let (at, name) = line.trim().split_once(' ')?;
        Some(match name.trim() {
            "[unknown]" => unnamed(at).to_owned(),
            name => name.to_owned(),
        })
    };
    let stack = |text: &str| text.lines().filter_map(name).collect::<Vec<_>>();
    let text = script.text();
    Some(
        text.split("\n\n")
            .map(stack)
            .filter(|it| !it.is_empty())
            .collect(),
    )
}

/// Which function of the made code, which begins a page, an address is in.
fn unnamed(at: &str) -> &'static str {
    match u64::from_str_radix(at, 16).map(|at| at & 0xfff) {
        Ok(0..16) => "[outer]",
        Ok(16..48) => "[inner]",
        _ => "[unknown]",
    }
}

/// The part of a stack from the code that was made on, if it is there.
fn through_made<'a>(stack: &'a [String], names: [&str; 2]) -> Option<Vec<&'a str>> {
    let at = stack
        .iter()
        .position(|name| names.contains(&name.as_str()))?;
    Some(stack[at..].iter().map(String::as_str).collect())
}

/// A stack through the made code where nothing is told of it.
const UNTOLD: [&str; 4] = ["spin", "[inner]", "[outer]", "main"];

/// Requires that stacks with the made code, or called from there, are whole.
fn assert_whole(how: &str, stacks: &[Vec<String>]) {
    let of_program = |stack: &&Vec<String>| {
        let is_ours = |name: &String| ["spin", "inner", "outer"].contains(&name.as_str());
        stack.iter().any(is_ours)
    };
    let ours: Vec<_> = stacks.iter().filter(of_program).collect();
    assert!(ours.len() >= 200, "{how}: {} samples", ours.len());
    // Beside other tests the recorder may read too late what is told of code that
    // the first or last sample is in: that stack ends there, or is whole without
    // names where what the code still does proves it, and is not wrong.
    let is_unnamed = |stack: &[String]| stack[..4] == UNTOLD && stack.ends_with(&["_start".into()]);
    let is_cut = |stack: &&&Vec<String>| {
        stack.iter().all(|name| name == "inner") || stack.len() > 4 && is_unnamed(stack)
    };
    let cut = ours.iter().filter(is_cut).count();
    assert!(cut * 100 <= ours.len(), "{how}: {cut} of {}", ours.len());
    for stack in ours.iter().filter(|stack| !is_cut(stack)) {
        let part = through_made(stack, ["inner", "outer"]);
        let part = part.unwrap_or_else(|| panic!("{how}: {stack:?}"));
        let outer = part.iter().position(|name| *name == "outer");
        let outer = outer.unwrap_or_else(|| panic!("{how}: {stack:?}"));
        assert_eq!(part.get(outer + 1), Some(&"main"), "{how}: {stack:?}");
        assert_eq!(part.last(), Some(&"_start"), "{how}: {stack:?}");
    }
    let called = ours.iter().filter(|stack| stack[0] == "spin").count();
    let inside = ours.iter().filter(|stack| stack[0] == "inner").count();
    assert!(called >= 50 && inside >= 20, "{how}: {called}, {inside}");
}

#[test]
fn a_jitdump_tells_how_code_unwinds() {
    if let Some(stacks) = stacks("dump") {
        assert_whole("dump", &stacks);
    }
}

#[test]
fn what_debuggers_are_told_unwinds_and_names_code() {
    if let Some(stacks) = stacks("list") {
        assert_whole("list", &stacks);
    }
}

/// Without a word from its maker what is left to do in such code tells what called it,
/// also where that is a loop in which each way to its end is over a call. No frame is
/// left out or wrong.
#[test]
fn code_of_which_nothing_is_told_has_its_callers_by_the_ways_to_its_returns() {
    let Some(stacks) = stacks("none") else {
        return;
    };
    let (mut ended, mut called, mut inside) = (0, 0, 0);
    for stack in &stacks {
        let skipped = match stack[0].as_str() {
            "spin" => 0,
            "[inner]" => 1,
            "[outer]" => 2,
            _ => continue,
        };
        let frames = stack.iter().zip(&UNTOLD[skipped..]);
        frames.for_each(|(frame, truth)| assert_eq!(frame, truth, "{stack:?}"));
        called += usize::from(skipped == 0);
        inside += usize::from(skipped == 1);
        ended += usize::from(stack.len() < UNTOLD.len() - skipped);
    }
    assert!(called >= 50 && inside >= 20, "{called}, {inside}");
    assert!(ended * 20 <= called + inside, "{ended} are cut");
}

/// A list that is a circle, of files whose sizes lie, and that says at each
/// sample that it has changed.
#[test]
fn a_list_that_lies_does_not_hide_what_is_true_of_it() {
    let Some(stacks) = stacks("hostile") else {
        return;
    };
    assert_whole("hostile", &stacks);
}

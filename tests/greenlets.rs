//! Python functions of greenlets, each with a stack of its own, which gevent and others
//! run on: the interpreter has the functions of the stack that a thread is on.

use crate::oracle::{consumer, fixture, prof, prof_command, scratch};

/// Whether the first function of `greenlets.py` calls the second.
fn calls(caller: &str, callee: &str) -> bool {
    const EDGES: [(&str, &str); 14] = [
        ("<module>", "loop"),
        ("loop", "work"),
        ("ga", "a0"),
        ("a0", "a1"),
        ("a0", "leaf"),
        ("a1", "leaf"),
        ("a1", "a1.<locals>.<lambda>"),
        ("a1.<locals>.<lambda>", "a0"),
        ("gb", "b0"),
        ("b0", "b1"),
        ("b1", "b0"),
        ("b0", "leaf"),
        ("b1", "leaf"),
        ("leaf", "work"),
    ];
    EDGES.contains(&(caller, callee))
}

/// The functions of a stack, innermost first; `None` for one that was not known when
/// the sample came.
fn functions(stack: &str) -> Vec<Option<&str>> {
    let names = stack
        .lines()
        .filter_map(|line| Some(line.trim().split_once(" py::")?.1));
    names
        .filter_map(|name| match name.split_once(':') {
            _ if name.starts_with("(unknown)") => Some(None),
            Some((function, file)) if file.contains("greenlets.py") => Some(Some(function)),
            _ => None,
        })
        .collect()
}

#[test]
fn each_greenlet_has_the_functions_that_it_runs() {
    let test = "each_greenlet_has_the_functions_that_it_runs";
    let Some(python) = consumer(test, "python/bin/python") else {
        return;
    };
    let data = scratch().join("greenlets.data");
    let output = prof_command()
        .args([
            "record",
            "-q",
            "-g",
            "-F",
            "1999",
            "-e",
            "cpu-clock:u",
            "-o",
        ])
        .arg(&data)
        .arg("--")
        .arg(python)
        .arg(fixture("programs").join("greenlets.py"))
        .arg("2.5")
        .output()
        .expect("prof starts");
    assert!(output.status.success(), "{output:?}");
    let data = data.to_str().expect("UTF-8");
    let script = prof(&["script", "--max-stack", "1024", "-F", "ip,sym", "-i", data]);
    let script = script.succeeded("script").text();
    let (mut main, mut greenlets, mut whole, mut all) = (0, 0, 0, 0);
    for stack in script.split("\n\n") {
        // Before, it loads modules.
        if !stack.contains("greenlets.py") {
            continue;
        }
        let functions = functions(stack);
        for pair in functions.windows(2) {
            if let [Some(callee), Some(caller)] = pair {
                assert!(calls(caller, callee), "{callee} in {caller}: {stack}");
            }
        }
        all += 1;
        match functions.last() {
            Some(Some("ga" | "gb")) => greenlets += 1,
            Some(Some("<module>")) => main += 1,
            _ => {}
        }
        // A greenlet's stack begins where it began, not with those who began it.
        let outermost = stack.trim_end().lines().last().unwrap_or_default();
        let is_of_main = functions.last() == Some(&Some("<module>"));
        let is_whole = match is_of_main {
            true => outermost.contains("_start"),
            false => outermost.contains("inner_bootstrap"),
        };
        whole += usize::from(is_whole);
    }
    assert!(
        all > 500 && main > 50 && greenlets > 200,
        "{main} and {greenlets} of {all}"
    );
    assert!(
        main + greenlets > all * 95 / 100,
        "{main} and {greenlets} of {all}"
    );
    assert!(whole > all * 95 / 100, "{whole} of {all}");
}

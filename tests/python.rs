//! Python functions without a flag: what the interpreter has of a thread,
//! against a program whose functions know their callers.

use crate::oracle::{have, prof, prof_command, scratch};
use std::path::Path;

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

#[test]
fn python_functions_stand_between_the_interpreters_frames_in_order() {
    let test = "python-ring";
    if !have(test, "python3") {
        return;
    }
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/programs/ring.py");
    let data = scratch().join(format!("{test}.data"));
    let recorded = prof_command()
        .args(["record", "-q", "-g", "-F", "999", "-e", "cpu-clock:u", "-o"])
        .arg(&data)
        .args(["--", "python3"])
        .arg(&program)
        .arg("2")
        .output()
        .expect("prof starts");
    assert!(recorded.status.success(), "{recorded:?}");
    let data = data.to_str().expect("UTF-8");
    let fields = [
        "script",
        "--max-stack",
        "2000",
        "-F",
        "comm,ip,sym",
        "-i",
        data,
    ];
    let script = prof(&fields).succeeded("script");
    let (mut known, mut wrong) = (0, Vec::new());
    for sample in script.text().split("\n\n") {
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
    println!("{known} stacks with all of their functions");
}

//! `--ignore-callees`: chains that begin anew at certain functions.

use super::{difference, lines_of_ours, lines_of_perf, own_code, recordings, words};
use crate::oracle::{perf_at, perfs, prof};

/// From either end, with callers and without. Recursive functions are met
/// several times in a chain: from the leaf the outermost one counts, with
/// callers first the innermost. Not compared: `-p` that finds such a function,
/// which perf then takes for the parent alone, and cuts no chain there.
const CUTS: &[&str] = &[
    "-g caller --no-children",
    "-g callee --no-children",
    "--children",
    "-g callee --children",
    "-g none --children",
    "-g none --no-children",
    "--no-call-graph",
    "-g --no-call-graph --no-children",
    "-G --no-children -s sym",
    "-g caller,folded --no-children",
    "-g flat,caller --no-children",
    "-g fractal --children -s sym,dso",
    "-g caller --no-children -n -s sym -p odd",
    "--children -s comm --max-stack 60",
];

/// Functions of report-calls.c that call themselves, one by another.
const RECURSIVE: &str = "^(rec|even)$";

#[test]
fn chains_begin_anew_at_functions_as_perfs() {
    let test = "chains_begin_anew_at_functions_as_perfs";
    let Some(files) = recordings(test) else {
        return;
    };
    let file = own_code(files);
    let path = file.to_str().expect("a path of ours");
    let mut wrong = Vec::new();
    for options in CUTS {
        let mut args = ["report", "--stdio", "--no-inline", "-i", path].to_vec();
        args.extend(["--ignore-callees", RECURSIVE]);
        let options_apart = words(options);
        args.extend(options_apart.iter().map(String::as_str));
        let ours = lines_of_ours(&prof(&args).succeeded("prof report").text());
        for perf in perfs(test) {
            let theirs = perf_at(&perf, &args).succeeded("perf report").text();
            let theirs = lines_of_perf(&theirs);
            if theirs != ours {
                let name = perf.display().to_string();
                wrong.push(difference(&name, options, &theirs, &ours));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

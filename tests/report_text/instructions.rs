//! `prof annotate --stdio`: the share of each instruction.

use super::recordings;
use crate::chosen::{Keep, chosen};
use crate::oracle::{have, perf, prof};

/// Address and share of each instruction in an annotated function.
fn instructions(text: &str) -> Vec<(String, String)> {
    let parts = |line: &str| {
        let (share, rest) = line.split_once(" : ")?;
        let (address, _) = rest.trim_start().split_once(':')?;
        let is_address = address.bytes().all(|byte| byte.is_ascii_hexdigit());
        let share = share.trim();
        (is_address && !share.is_empty()).then(|| (address.to_owned(), share.to_owned()))
    };
    text.lines().filter_map(parts).collect()
}

/// The functions of a program that samples were taken in, as perf names
/// them; without templates, whose names perf does not take back.
fn functions_with_samples(recording: &str, program: &str) -> Vec<String> {
    let args = [
        "report",
        "--stdio",
        "-q",
        "--no-inline",
        "--no-children",
        "-g",
        "none",
        "-t;",
        "-F",
        "overhead,dso,sym",
        "-i",
        recording,
    ];
    let text = perf(&args).succeeded("perf report").text();
    let rows = text.lines().map(|line| line.split(';').collect::<Vec<_>>());
    let of_program = rows.filter(|row| row.len() == 3 && row[1] == program);
    let names = of_program.filter_map(|row| row[2].trim().strip_prefix("[.] ").map(str::to_owned));
    names.filter(|name| !name.contains('<')).collect()
}

#[test]
fn the_share_of_each_instruction_equals_perfs() {
    let test = "the_share_of_each_instruction_equals_perfs";
    let Some(files) = recordings(test) else {
        return;
    };
    if !have(test, "objdump") {
        return;
    }
    for (file, program) in [(&files[0], "report-calls-"), (&files[1], "report-threads-")] {
        // A sample in a stub is perf's of another function.
        let file = chosen(file, Keep::Unnamed);
        let path = file.to_str().expect("a path of ours");
        let script = perf(&["script", "--no-inline", "-F", "dso,ip", "-i", path]);
        let script = script.succeeded("perf script").text();
        let mut names = script
            .split(['/', ')'])
            .filter(|name| name.starts_with(program));
        let program = names.next().expect("a sample in the program");
        let functions = functions_with_samples(path, program);
        assert!(functions.len() > 1, "{functions:?}");
        for function in functions {
            let args = ["annotate", "--stdio", "-i", path, &function];
            let theirs = perf(&args).succeeded("perf annotate").text();
            // Of a function that was also inlined elsewhere we show that
            // place, too, with the weight it has there.
            let args = [&args[..], &["--no-inline"]].concat();
            let ours = prof(&args).succeeded("prof annotate").text();
            let (theirs, ours) = (instructions(&theirs), instructions(&ours));
            assert!(theirs.len() > 1, "{function}: {theirs:?}");
            assert_eq!(theirs, ours, "{function}");
        }
    }
}

//! Options of `prof annotate` against `perf annotate` on the same file: the
//! lines of instructions with what stands in front of them.
//!
//! Not compared: shares of everything (`--percent-type global-…`), for which
//! perf 6.1 prints the local ones or 0.00.

use crate::oracle::{compiled, have, perf, prof, scratch};

/// The lines of instructions in a listing, without trailing spaces, and
/// without the source line that perf sets behind some of them with `-l`: ours
/// stand between the instructions.
fn instructions(listing: &str) -> Vec<&str> {
    let is_instruction = |line: &&str| {
        let (figures, rest) = line.split_once(" :   ").unwrap_or_default();
        let is_figure = |c: char| c.is_ascii_digit() || c == '.' || c == ' ';
        let (address, _) = rest.split_once(':').unwrap_or_default();
        !figures.trim().is_empty()
            && figures.chars().all(is_figure)
            && !address.is_empty()
            && address.chars().all(|c| c.is_ascii_hexdigit())
    };
    let lines = listing.lines().filter(is_instruction);
    lines
        .map(|line| line.split(" // ").next().unwrap_or(line).trim_end())
        .collect()
}

#[test]
fn figures_in_front_of_instructions_equal_perfs() {
    let test = "figures_in_front_of_instructions_equal_perfs";
    let Some(program) = compiled(test, "steady-calls.c", &["-g", "-O1"]) else {
        return;
    };
    if !have(test, "perf") {
        return;
    }
    let program = program.to_str().expect("a plain name");
    let recordings = [
        ("apart", ["-e", "cpu-clock:u,task-clock:u"]),
        ("group", ["-e", "{cpu-clock:u,page-faults:u}"]),
    ];
    for (name, events) in recordings {
        let recording = scratch().join(format!("{test}-{name}.data"));
        let path = recording.to_str().expect("a plain name");
        let mut args = vec!["record", "-q", "-F", "999", "-o", path];
        args.extend(events);
        args.extend(["--", program, "20"]);
        perf(&args).succeeded("perf record");
        for options in [
            &[][..],
            &["-n"],
            &["--show-total-period"],
            &["--percent-type", "local-hits"],
            &["--asm-raw"],
            &["-q", "-l", "-P"],
            &["--group"],
        ] {
            let args = [&["annotate", "--stdio", "-i", path, "mix"][..], options].concat();
            let theirs = perf(&args).succeeded("perf annotate").text();
            let ours = prof(&args).succeeded("prof annotate").text();
            let (theirs, ours) = (instructions(&theirs), instructions(&ours));
            assert!(theirs.len() > 10, "{options:?}: {theirs:?}");
            assert_eq!(theirs, ours, "{name} {options:?}");
        }
    }
}

#[test]
fn source_lines_come_heaviest_first() {
    let test = "source_lines_come_heaviest_first";
    let Some(program) = compiled(test, "steady-calls.c", &["-g", "-O1"]) else {
        return;
    };
    if !have(test, "perf") {
        return;
    }
    let program = program.to_str().expect("a plain name");
    let recording = scratch().join(format!("{test}.data"));
    let path = recording.to_str().expect("a plain name");
    let args = ["record", "-q", "-e", "cpu-clock:u", "-F", "999", "-o", path];
    let args = [&args[..], &["--", program, "20"]].concat();
    perf(&args).succeeded("perf record");
    for paths in [&[][..], &["-P"]] {
        let args = [&["annotate", "--stdio", "-l", "-i", path, "mix"][..], paths].concat();
        let summary = |text: &str| -> Vec<String> {
            let lines = text.lines().skip_while(|line| !line.starts_with("Sorted"));
            let lines = lines.take_while(|line| !line.starts_with(" Percent"));
            lines.map(str::to_owned).collect()
        };
        let theirs = summary(&perf(&args).succeeded("perf annotate").text());
        let ours = summary(&prof(&args).succeeded("prof annotate").text());
        assert!(theirs.len() > 3, "{theirs:?}");
        assert_eq!(theirs, ours, "{paths:?}");
    }
}

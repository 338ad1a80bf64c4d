//! `prof report` of branch stacks as blocks of code, against `perf report`.
//!
//! The recording is written here, since no machine of a test has the hardware.
//! perf 6.1 crashes where code that has cycles has a name, so that blocks are
//! compared with a newer perf alone.

use crate::oracle::{compiled, have, perf_at, perfs, prof};
use crate::sort_keys::{PID, Taken, addresses, table, write_samples};
use prof_abi::CpuMode;
use prof_perfdata::write::SampleFields;

/// Stacks whose blocks are short and long, in one function and across two,
/// told once and often. A branch is from, to and cycles; newest first. The
/// code at these addresses is not looked at.
fn samples([first, second, third]: [u64; 3]) -> Vec<Taken> {
    let stacks: [(u64, Vec<[u64; 3]>); 7] = [
        // From the start of `second` to its call, and through `third`.
        (
            40,
            vec![
                [third + 5, second + 13, 3],
                [second + 8, third, 11],
                [first + 6, second, 900],
            ],
        ),
        // The loop, whose block is longer where it begins at the start.
        (
            7,
            vec![
                [second + 17, second, 30],
                [third + 5, second + 13, 4],
                [second + 8, third, 2],
                [second + 17, second, 31],
            ],
        ),
        (3, vec![[second + 17, second, 2100], [first + 6, second, 5]]),
        // The block before is in another function, or unknown.
        (2, vec![[second + 17, second, 7], [third + 5, first + 1, 6]]),
        (1, vec![[second + 17, first, 9], [0x10, 0x20, 5]]),
        // The newest one tells no cycles: none of the stack counts.
        (5, vec![[second + 17, second, 0], [first + 6, second, 77]]),
        // Backwards, as an interrupt leads.
        (2, vec![[third + 1, first, 13], [third + 5, third + 4, 2]]),
    ];
    let mut samples = Vec::new();
    for (index, (times, stack)) in (0_u64..).zip(stacks) {
        let branches: Vec<[u64; 3]> = stack
            .iter()
            .map(|&[from, to, cycles]| [from, to, 2 | cycles << 4])
            .collect();
        for time in 0..times {
            let fields = SampleFields {
                cpu_mode: CpuMode::User,
                ip: second,
                pid: PID,
                tid: PID,
                time: 1000 * (1 + index) + time,
                period: 100,
                ..SampleFields::default()
            };
            samples.push((branches.clone(), fields));
        }
    }
    samples
}

/// Functions of branches.c.
const FUNCTIONS: [&str; 3] = ["first", "second", "third"];

/// Fails unless the newest perf shows the same blocks as we.
fn compare(test: &str, (source, flags): (&str, &[&str]), functions: [&str; 3]) {
    let Some(program) = compiled(test, source, flags) else {
        return;
    };
    if !have(test, "perf") {
        return;
    }
    let samples = samples(addresses(&program, functions));
    let recording = write_samples(&format!("{test}.data"), &program, &samples);
    let input = recording.to_str().expect("a plain name");
    for options in [
        "",
        "-s symbol_from",
        "--percent-limit 5",
        "--time 0,0.000003",
    ] {
        let args = ["report", "--stdio", "-i", input, "--total-cycles"];
        let args: Vec<&str> = args.into_iter().chain(options.split_whitespace()).collect();
        let ours = table(&prof(&args).succeeded(options).text());
        assert!(ours.len() > 5, "{options}: {ours:#?}");
        for perf in perfs(test).into_iter().skip(1) {
            let theirs = table(&perf_at(&perf, &args).succeeded(options).text());
            assert_eq!(theirs, ours, "{} {options}", perf.display());
        }
    }
}

#[test]
fn blocks_between_branches_equal_perfs_by_line() {
    let test = "blocks_between_branches_equal_perfs_by_line";
    let program: (_, &[&str]) = ("steady-calls.c", &["-g", "-O1", "-no-pie"]);
    compare(test, program, ["mix", "nested", "main"]);
}

#[test]
fn blocks_between_branches_equal_perfs_without_lines() {
    let test = "blocks_between_branches_equal_perfs_without_lines";
    let program: (_, &[&str]) = ("branches.c", &["-O1", "-no-pie"]);
    compare(test, program, FUNCTIONS);
}

#[test]
fn samples_are_counted_once_whatever_their_branches() {
    let test = "samples_are_counted_once_whatever_their_branches";
    let Some(program) = compiled(test, "branches.c", &["-O1", "-no-pie"]) else {
        return;
    };
    let samples = samples(addresses(&program, FUNCTIONS));
    let recording = write_samples(&format!("{test}.data"), &program, &samples);
    let input = recording.to_str().expect("a plain name");
    for (options, count) in [
        ("-b", 60),
        ("--total-cycles", 60),
        ("--no-branch-stack", 60),
    ] {
        let text = prof(&["report", "--stdio", "-i", input, options])
            .succeeded(options)
            .text();
        assert!(text.starts_with(&format!("# {count} samples, ")), "{text}");
        assert!(
            text.contains(&format!("\n# Samples: {count}  of event")),
            "{text}"
        );
    }
    // As perf from 7 on.
    if let Some(newest) = perfs(test).get(1) {
        let told = perf_at(newest, &["report", "--stdio", "-i", input, "-b"]).succeeded("perf");
        assert!(
            told.text().contains("\n# Samples: 60  of event"),
            "{}",
            told.text()
        );
    }
}

#[test]
fn without_branches_the_option_says_so() {
    let test = "without_branches_the_option_says_so";
    let Some(program) = compiled(test, "steady-calls.c", &[]) else {
        return;
    };
    let recording = crate::oracle::scratch().join(format!("{test}.data"));
    let output = recording.to_str().expect("a plain name");
    let program = program.to_str().expect("a plain name");
    prof(&["record", "-o", output, "--", program]).succeeded("record");
    let told = prof(&["report", "--stdio", "-i", output, "--total-cycles"]);
    assert_eq!(told.code, 2);
    assert!(told.stderr.contains("record with -b"), "{}", told.stderr);
}

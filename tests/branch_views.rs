//! `prof report` of branch stacks as blocks of code, and in call chains,
//! against `perf report`.
//!
//! The recording is written here, since no machine of a test has the hardware.
//! perf 6.1 crashes where code that has cycles has a name, so that blocks are
//! compared with a newer perf alone; so are call chains, since 6.1 has other
//! columns beside them. What is not compared there: frames of the kernel in
//! call chains that branches precede, which perf then takes for user code.

use crate::corpus::corpus;
use crate::oracle::{compiled, have, perf_at, perfs, prof};
use crate::sort_keys::{PID, Taken, addresses, attr, table, write_samples, write_samples_of};
use prof_abi::{CallchainContext, CpuMode, SampleType};
use prof_perfdata::write::SampleFields;
use std::path::Path;

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

/// A recording without branches.
fn without_branches(test: &str) -> Option<String> {
    let program = compiled(test, "steady-calls.c", &[])?;
    let recording = crate::oracle::scratch().join(format!("{test}.data"));
    let output = recording.to_str().expect("a plain name").to_owned();
    let program = program.to_str().expect("a plain name");
    prof(&["record", "-o", &output, "--", program]).succeeded("record");
    Some(output)
}

#[test]
fn without_branches_the_option_says_so() {
    let test = "without_branches_the_option_says_so";
    let Some(recording) = without_branches(test) else {
        return;
    };
    let output = recording.as_str();
    let told = prof(&["report", "--stdio", "-i", output, "--total-cycles"]);
    assert_eq!(told.code, 2);
    assert!(told.stderr.contains("record with -b"), "{}", told.stderr);
}

/// Fails unless the newest perf shows the same with branches in call chains.
fn compare_history(test: &str, recording: &Path, options: &[&str]) {
    let input = recording.to_str().expect("a plain name");
    // Only an empty list keeps perf from naming any kernel by this one.
    let kernel = crate::oracle::scratch().join(format!("{test}.kallsyms"));
    std::fs::write(&kernel, "").expect("the target folder is writable");
    let kernel = kernel.to_str().expect("a plain name");
    for options in options {
        let args = ["report", "--stdio", "-i", input, "--branch-history"];
        let args: Vec<&str> = args.into_iter().chain(options.split_whitespace()).collect();
        let ours = table(&prof(&args).succeeded(options).text());
        assert!(ours.len() > 5, "{options}: {ours:#?}");
        for perf in perfs(test).into_iter().skip(1) {
            let own = ["--kallsyms", kernel, "--ignore-vmlinux"];
            let args: Vec<&str> = args.iter().copied().chain(own).collect();
            let theirs = table(&perf_at(&perf, &args).succeeded(options).text());
            // The samples of recordings by simpleperf are counted otherwise.
            let rows = |text: &[String]| -> Vec<String> {
                let rows = text
                    .iter()
                    .skip_while(|line| !line.contains("Overhead") && !line.contains("Self"));
                rows.cloned().collect()
            };
            assert_eq!(
                rows(&theirs),
                rows(&ours),
                "{} {input} {options}",
                perf.display()
            );
        }
    }
}

#[test]
fn branches_in_chains_of_other_machines_equal_perfs() {
    let test = "branches_in_chains_of_other_machines_equal_perfs";
    if !have(test, "perf") {
        return;
    }
    let (folder, _) = corpus();
    let recordings = [
        "quipper/perf.data.branch-4.14",
        "quipper/perf.data.branch_stack_hw_index",
        "autofdo/perf-kernel.data",
        "simpleperf/perf_b.data",
    ];
    let recordings = recordings.map(|name| folder.join(name));
    for recording in recordings.iter().filter(|path| path.exists()) {
        let options = [
            "",
            "-g callee",
            "--no-children",
            "-s symbol,dso",
            "-g caller,0.5,3,fractal",
            "-g folded",
            "-g flat,callee",
            "--max-stack 5",
        ];
        compare_history(test, recording, &options);
    }
}

/// The samples of [`samples`] with call chains, and some more.
fn samples_in_chains(places: [u64; 3]) -> Vec<(Taken, Vec<u64>)> {
    let [first, second, third] = places;
    let user = CallchainContext::USER.0;
    let chains = [
        vec![user, second, first + 6, first + 1],
        // Overlaps with what the newest branches tell.
        vec![user, third + 5, second + 13, first + 6, first + 1],
        // Longer than there are branches.
        vec![
            user,
            second,
            second + 13,
            second + 13,
            second + 13,
            first + 6,
            first + 1,
        ],
    ];
    let samples = samples(places).into_iter().enumerate();
    let samples = samples.map(|(index, (mut branches, fields))| {
        for (at, branch) in branches.iter_mut().enumerate() {
            // Missed, of several kinds, an abort.
            branch[2] = match (index + at) % 5 {
                0 => branch[2] & !2 | 1,
                1 => branch[2] | 1 << 20,
                2 => branch[2] | 4 << 20,
                3 => branch[2] | 15 << 20 | 2 << 26,
                _ => branch[2] | 8,
            };
        }
        let fields = SampleFields {
            // Each place has a weight of its own: no two rows are equal.
            ip: [second, second + 3, third, first][index % 4],
            period: 100 + 7 * (index % 4) as u64,
            ..fields
        };
        ((branches, fields), chains[index % 3].clone())
    });
    samples.collect()
}

#[test]
fn branches_in_recorded_chains_equal_perfs() {
    let test = "branches_in_recorded_chains_equal_perfs";
    let programs: [(&str, &[&str], [&str; 3]); 2] = [
        ("branches.c", &["-O1", "-no-pie"], FUNCTIONS),
        (
            "steady-calls.c",
            &["-g", "-O1", "-no-pie"],
            ["mix", "nested", "main"],
        ),
    ];
    if !have(test, "perf") {
        return;
    }
    for (source, flags, functions) in programs {
        let name = format!("{test}-{source}");
        let Some(program) = compiled(&name, source, flags) else {
            return;
        };
        let samples = samples_in_chains(addresses(&program, functions));
        let samples: Vec<Taken> = samples
            .iter()
            .map(|((branches, fields), chain)| {
                let fields = SampleFields {
                    callchain: Vec::leak(chain.clone()),
                    ..*fields
                };
                (branches.clone(), fields)
            })
            .collect();
        let attr = attr();
        let of_chains = prof_abi::EventAttr {
            sample_type: attr.sample_type | SampleType::CALLCHAIN,
            ..attr
        };
        let bare = write_samples(&format!("{name}.data"), &program, &samples);
        compare_history(test, &bare, &["", "-g callee", "-s symbol", "-s sym"]);
        if flags.contains(&"-g") {
            compare_history(
                test,
                &bare,
                &["-s srcline", "-s srcline,symbol,dso -g callee"],
            );
            // Not compared with call chains: perf adds up the addresses of a
            // line there (219.95 % for a caller), and loses names of chains
            // that it merges (`0x401215`).
            continue;
        }
        let chained = write_samples_of(&format!("{name}-g.data"), &program, (of_chains, &samples));
        // Rows of callers by line are called `+1` there by perf, where all
        // others are called `first+1`, as here all are: those are not
        // compared. Nor are chains with the first byte of a function, which is no return
        // address: perf takes it for that function's, and here it is that of
        // the call before.
        let options = [
            "--no-children",
            "-s symbol --no-children",
            "-s sym,dso --no-children -g callee",
            "-s symbol",
            "-s sym -g callee",
        ];
        compare_history(test, &chained, &options);
    }
}

#[test]
fn history_without_branches_says_so() {
    let test = "history_without_branches_says_so";
    let Some(recording) = without_branches(test) else {
        return;
    };
    let output = recording.as_str();
    let told = prof(&["report", "--stdio", "-i", output, "--branch-history"]);
    assert_eq!(told.code, 2);
    assert!(told.stderr.contains("record with -b"), "{}", told.stderr);
    let key = ["-s", "callchain_branch_cycles"];
    let told = prof(&[&["report", "--stdio", "-i", output], key.as_slice()].concat());
    assert_eq!(told.code, 2);
    assert!(told.stderr.contains("--branch-history"), "{}", told.stderr);
}

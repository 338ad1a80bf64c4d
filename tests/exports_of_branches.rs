//! `prof export --format profgen` and `bolt`: what profile-guided compilers
//! and BOLT read of recordings with branches.

use crate::oracle::{compiled, corpus, fixture, have, perf, prof, scratch};
use crate::script_code::{self, BASE, TEXT};
use prof_perfdata::{Body, Reader};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A program, and a recording of branches in it.
fn recording(test: &str) -> Option<(PathBuf, PathBuf)> {
    first_samples(test, usize::MAX)
}

/// The same with the first `most` samples; the first five have only branches
/// that the program can take.
fn first_samples(test: &str, most: usize) -> Option<(PathBuf, PathBuf)> {
    let program = compiled(test, "branches.c", &["-g", "-O1", "-no-pie"])?;
    let mut samples = script_code::samples(&script_code::opened(&program));
    samples.truncate(most);
    let data = script_code::write(&format!("{test}.data"), &program, &samples);
    Some((program, data))
}

/// From where, to where, and whether it was mispredicted.
type Taken = (u64, u64, bool);

/// The branch stacks of all samples, as the reader has them.
fn recorded(data: &Path) -> Vec<Vec<Taken>> {
    let file = std::fs::File::open(data).expect("it is there");
    let mut reader = Reader::open_file(file).expect("a recording");
    let mut stacks = Vec::new();
    while let Some(record) = reader.next().expect("readable") {
        if let Body::Sample(sample) = record.decode() {
            let stack = sample.branches().into_iter().flat_map(|all| all.iter());
            let taken = stack.map(|it| (it.from, it.to, it.flags.mispredicted()));
            stacks.push(taken.collect());
        }
    }
    stacks
}

/// What is exported, and what is said of it.
fn exported(data: &Path, format: &str) -> (String, String) {
    let data = data.to_str().expect("a plain name");
    let words = ["export", "-f", "-i", data, "--format", format];
    let done = prof(&words).succeeded("prof export");
    let told = format!("{format} does not hold ");
    assert!(done.stderr.contains(&told), "{}", done.stderr);
    (done.text(), done.stderr)
}

/// The branches in lines of `IP FROM/TO/M/…  FROM/TO/P/…`.
fn printed(text: &str) -> Vec<Taken> {
    let words = text
        .lines()
        .filter(|line| !line.starts_with("PERF_RECORD_"));
    let words = words.flat_map(str::split_whitespace);
    let number = |text: &str| u64::from_str_radix(text.strip_prefix("0x")?, 16).ok();
    let taken = words.filter_map(|word| {
        let mut parts = word.split('/');
        let from = number(parts.next()?)?;
        Some((from, number(parts.next()?)?, parts.next()? == "M"))
    });
    taken.collect()
}

const CORPUS: [&str; 3] = [
    "quipper/perf.data.branch-4.14",
    "simpleperf/perf_b.data",
    "quipper/perf.data.branch_stack_hw_index",
];

#[test]
fn profgens_text_is_perfs_and_has_all_branches() {
    const TEST: &str = "profgens_text_is_perfs_and_has_all_branches";
    let mut all: Vec<PathBuf> = recording(TEST).into_iter().map(|(_, data)| data).collect();
    if let Some(corpus) = corpus(TEST) {
        all.extend(CORPUS.map(|name| corpus.join(name)));
    }
    for data in &all {
        let (text, _) = exported(data, "profgen");
        let expected = recorded(data).concat();
        assert!(!expected.is_empty(), "{}", data.display());
        assert_eq!(printed(&text), expected, "{}", data.display());
        if have(TEST, "perf") {
            let path = data.to_str().expect("a plain name");
            let fields = ["--show-mmap-events", "-F", "ip,brstack"];
            let words = [&["script", "-f", "-i", path], &fields[..]].concat();
            let perfs = perf(&words).succeeded("perf script").text();
            assert!(perfs == text, "{}", data.display());
        }
    }
}

/// Installed under its name or only in a folder of its version, as by Debian.
fn llvm_profgen(test: &str) -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib")
        .into_iter()
        .flatten()
        .flatten();
    let programs = folders.filter_map(|folder| {
        let is_llvm = folder.file_name().to_str()?.starts_with("llvm-");
        let program = folder.path().join("bin/llvm-profgen");
        (is_llvm && program.is_file()).then_some(program)
    });
    let program = programs.max();
    program.or_else(|| have(test, "llvm-profgen").then(|| PathBuf::from("llvm-profgen")))
}

#[test]
fn llvm_profgen_takes_the_export() {
    const TEST: &str = "llvm_profgen_takes_the_export";
    let Some((program, data)) = first_samples(TEST, 5) else {
        return;
    };
    let Some(profgen) = llvm_profgen(TEST) else {
        return;
    };
    let out = scratch().join(format!("{TEST}.profgen"));
    std::fs::write(&out, exported(&data, "profgen").0).expect("written");
    let raw = scratch().join(format!("{TEST}.raw"));
    let done = Command::new(profgen)
        .arg(format!("--perfscript={}", out.display()))
        .arg(format!("--binary={}", program.display()))
        .arg(format!("--output={}", raw.display()))
        .arg("--skip-symbolization")
        .output()
        .expect("it starts");
    let told = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{told}");
    let raw = std::fs::read_to_string(&raw).expect("written");
    // FROM->TO:COUNT, without ranges of code.
    let counts = raw.lines().filter_map(|line| {
        let (branch, count) = line.trim().split_once(':')?;
        let (from, to) = branch.split_once("->")?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        Some(((number(from)?, number(to)?), count.parse::<u64>().ok()?))
    });
    let counts: BTreeMap<(u64, u64), u64> = counts.collect();
    // It counts from where the code begins.
    let mut expected: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    for (from, to, _) in recorded(&data).concat() {
        let begin = BASE + TEXT;
        *expected.entry((from - begin, to - begin)).or_default() += 1;
    }
    assert_eq!(counts, expected, "{raw}\n{told}");
}

/// Sums of what perf2bolt is to get: branches by where they are, and code that
/// ran between them, of stacks of branches, newest first.
fn aggregated(stacks: &[Vec<Taken>], is_code: impl Fn(u64) -> bool) -> BTreeMap<String, [u64; 2]> {
    let text = |address| match is_code(address) {
        true => format!("{address:x}"),
        false => "X:0".to_owned(),
    };
    let mut sums: BTreeMap<String, [u64; 2]> = BTreeMap::new();
    let mut add = |line: String, more: [u64; 2]| {
        let sum = sums.entry(line).or_default();
        *sum = [sum[0] + more[0], sum[1] + more[1]];
    };
    for stack in stacks {
        for (place, &(from, to, is_mispredicted)) in stack.iter().enumerate() {
            if is_code(from) || is_code(to) {
                let line = format!("B {} {}", text(from), text(to));
                add(line, [1, u64::from(is_mispredicted)]);
            }
            let next = place.checked_sub(1).map(|next| stack[next].0);
            let run = next.filter(|&next| is_code(next) && is_code(to) && to <= next);
            if let Some(end) = run {
                let letter = if is_code(from) { 'F' } else { 'f' };
                add(format!("{letter} {to:x} {end:x}"), [1, 0]);
            }
        }
    }
    sums
}

#[test]
fn bolt_gets_the_branches_of_the_reader() {
    const TEST: &str = "bolt_gets_the_branches_of_the_reader";
    let Some((program, data)) = recording(TEST) else {
        return;
    };
    let (text, told) = exported(&data, "bolt");
    let name = program.display().to_string();
    assert!(told.contains(&format!("branches of {name}, ")), "{told}");
    let file = script_code::opened(&program);
    let start = |name: &str| file.address_of(name).expect("a function").0;
    let code = start("first")..start("third") + 6;
    let expected = aggregated(&recorded(&data), |address| code.contains(&address));
    let mut sums = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.splitn(4, ' ');
        let mut word = || words.next().expect("four words");
        let what = [word(), word(), word()].join(" ");
        let mut counts = word().split(' ').map(|it| it.parse().expect("a count"));
        let counts = [counts.next().expect("a count"), counts.next().unwrap_or(0)];
        assert!(sums.insert(what, counts).is_none(), "twice: {line}");
    }
    let letters = expected.keys().filter_map(|line| line.chars().next());
    let letters: std::collections::BTreeSet<char> = letters.collect();
    assert_eq!(letters.len(), 3, "all kinds of lines: {expected:?}");
    assert_eq!(sums, expected, "{text}");
}

#[test]
fn what_has_no_branches_or_no_program_is_refused_with_the_reason() {
    const TEST: &str = "what_has_no_branches_or_no_program_is_refused_with_the_reason";
    let refused = |data: &Path, format: &str, why: &str| {
        let path = data.to_str().expect("a plain name");
        let done = prof(&["export", "-f", "-i", path, "--format", format]);
        assert_eq!(done.code, 1, "{}", done.stderr);
        assert!(
            done.stdout.is_empty() && done.stderr.contains(why),
            "{}",
            done.stderr
        );
    };
    let plain = fixture("recordings/local/perf6.1-named.data");
    for format in ["profgen", "bolt"] {
        refused(&plain, format, "was recorded without branches");
        refused(&plain, format, "try: prof record -b");
    }
    // Its program is not on this machine: which addresses in it would be a guess.
    if let Some(corpus) = corpus(TEST) {
        refused(
            &corpus.join(CORPUS[1]),
            "bolt",
            "cannot tell addresses in /elf",
        );
    }
}

#[test]
fn profgens_text_for_strangers_tells_no_folder() {
    const TEST: &str = "profgens_text_for_strangers_tells_no_folder";
    let Some((program, data)) = recording(TEST) else {
        return;
    };
    let folder = program.parent().expect("a folder").display().to_string();
    let (open, _) = exported(&data, "profgen");
    assert!(open.contains(&folder), "{open}");
    let data = data.to_str().expect("a plain name");
    let words = ["export", "-i", data, "--format", "profgen", "--redact"];
    let redacted = prof(&words).succeeded("prof export").text();
    assert!(!redacted.contains(&folder), "{redacted}");
    assert_eq!(redacted, open.replace(&folder, "/r1"));
}

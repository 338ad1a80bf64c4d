//! `prof inject -j` against perf's, of the same recording of node.

use crate::oracle::{Finished, have, perf, prof, skipped};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

const PROGRAM: &str = "function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2) }
let sum = 0;
for (let i = 0; i < 8; i++) sum += fib(29);
console.log(sum);";

/// What is mapped of code, as perf shows it, without inodes and generations,
/// which every file has of its own, and without rights, for which perf writes
/// the file's mode.
fn mappings(data: &str) -> Vec<String> {
    let text = perf(&["script", "-i", data, "--show-mmap-events"]).text();
    let lines = text
        .lines()
        .filter(|line| line.contains("MMAP2") && line.contains("/jitted-"));
    let plain = lines.map(|line| {
        let (before, rest) = line.split_once(" @ ").expect("a mapping");
        let (offset, rest) = rest.split_once(' ').expect("an offset");
        let path = &rest[rest.find('/').expect("a path")..];
        let before = before.split_whitespace().collect::<Vec<_>>().join(" ");
        format!("{before} {offset} {path}")
    });
    plain.collect()
}

/// What the files of code hold where code is mapped: from 0x80 on, as many
/// bytes as the mapping has.
fn code(folder: &Path, mappings: &[String]) -> BTreeMap<String, Vec<u8>> {
    let mut all = BTreeMap::new();
    for mapping in mappings {
        let name = mapping.rsplit('/').next().expect("a name");
        let size = mapping.split_once("(0x").expect("a size").1;
        let size = size.split(')').next().expect("a size");
        let size = usize::from_str_radix(size, 16).expect("a number");
        let bytes = fs::read(folder.join(name)).expect("it was written");
        all.insert(name.to_owned(), bytes[0x80..0x80 + size].to_vec());
    }
    all
}

#[test]
fn code_of_node_is_put_in_as_perf_puts_it_in() {
    let test = "code_of_node_is_put_in_as_perf_puts_it_in";
    if !have(test, "perf") || !have(test, "node") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("w.js"), PROGRAM).expect("written");
    let record = "perf record -q -k mono -e cpu-clock:u -F 999 -o from.data node --perf-prof w.js";
    let recorded: Finished = Command::new("sh")
        .args(["-c", record])
        .current_dir(folder.path())
        .output()
        .expect("sh starts")
        .into();
    if recorded.code != 0 {
        return skipped(test, &recorded.stderr);
    }
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (from, theirs, ours) = (path("from.data"), path("theirs.data"), path("ours.data"));
    perf(&["inject", "-j", "-i", &from, "-o", &theirs]).succeeded("perf inject -j");
    let names = |data: &str| perf(&["script", "-F", "time,ip,sym,dso", "-i", data]).text();
    let their_mappings = mappings(&theirs);
    let their_names = names(&theirs);
    let their_code = code(folder.path(), &their_mappings);
    assert!(their_mappings.len() > 100, "{}", their_mappings.len());
    assert!(their_names.contains("JS:"), "{their_names}");

    let run = prof(&["inject", "-v", "-j", "-i", &from, "-o", &ours]);
    let told = run.succeeded("prof inject -j").stderr;
    let our_mappings = mappings(&ours);
    assert_eq!(our_mappings, their_mappings);
    assert!(
        told.contains(&format!("{} mappings of code", our_mappings.len())),
        "{told}"
    );
    assert!(
        code(folder.path(), &our_mappings) == their_code,
        "bytes of code"
    );
    assert_eq!(names(&ours), their_names);
    // prof reads the files, too.
    let compiled = |text: &str| text.lines().filter(|line| line.contains("JS:*fib")).count();
    let read = prof(&["script", "-F", "ip,sym", "-i", &ours]).text();
    assert!(compiled(&read) > 0);
    assert_eq!(compiled(&read), compiled(&their_names));
    // A second run takes the place of the first one's files.
    prof(&["inject", "-j", "-i", &from, "-o", &ours]).succeeded("prof inject -j, again");
}

#[test]
fn code_without_a_jitdump_or_a_common_clock_is_refused() {
    let test = "code_without_a_jitdump_or_a_common_clock_is_refused";
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_string_lossy().into_owned();
    let (from, to) = (path("from.data"), path("to.data"));
    let recorded = prof(&["record", "-q", "-e", "page-faults:u", "-o", &from, "true"]);
    if recorded.code != 0 {
        return skipped(test, &recorded.stderr);
    }
    let refused = prof(&["inject", "-j", "-i", &from, "-o", &to]);
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    assert!(
        refused.stderr.contains("node --perf-prof"),
        "{}",
        refused.stderr
    );
    assert!(!Path::new(&to).exists());
    if !have(test, "node") {
        return;
    }
    let line = format!(
        "cd {} && exec {} record -q -e page-faults:u -o {from} node --perf-prof -e 1",
        folder.path().display(),
        env!("CARGO_BIN_EXE_prof")
    );
    let recorded: Finished = Command::new("sh")
        .args(["-c", &line])
        .output()
        .expect("sh starts")
        .into();
    recorded.succeeded("prof record");
    let refused = prof(&["inject", "-j", "-i", &from, "-o", &to]);
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    assert!(
        refused.stderr.contains("prof record -k mono"),
        "{}",
        refused.stderr
    );
    assert!(!Path::new(&to).exists());
}

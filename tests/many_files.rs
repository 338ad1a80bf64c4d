//! A program that uses more files than the recorder keeps open.

use crate::oracle::{compiled, have, prof_command};
use std::collections::HashSet;
use std::path::Path;

const FILES: usize = 2000;
/// Files that the recorder keeps (`Most::LIVE`), and what else it has open:
/// what a drain brings is opened before it is looked what can be closed, and on
/// a loaded machine drains are late.
const MOST_OPEN: u64 = 512 + 512;

/// What the program says of the recorder, and the files in which samples are.
fn record(program: &Path, files: &Path) -> (impl Fn(&str) -> u64 + use<>, HashSet<String>) {
    let recording = files.with_extension("data");
    let output = prof_command()
        .args(["record", "-q", "-g", "-F", "2500", "-o"])
        .args([&recording, Path::new("--"), program, files])
        .output()
        .expect("prof starts");
    assert!(output.status.success(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let number = move |name: &str| {
        let line = said.lines().find_map(|line| line.strip_prefix(name));
        let number = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
        number.unwrap_or_else(|| panic!("no {name} in {said}"))
    };
    let script = prof_command()
        .args(["script", "-F", "ip,sym,dso", "-i"])
        .arg(&recording)
        .output()
        .expect("prof starts");
    let text = String::from_utf8_lossy(&script.stdout).into_owned();
    // Chains are whole: from the file through the program's main.
    let whole = text.split("\n\n").filter(|chain| chain.contains(" main "));
    let used = whole.filter_map(|chain| {
        let at = chain.find(".so-")?;
        Some(chain.get(at..at + 8)?.to_owned())
    });
    let used = used.collect();
    (number, used)
}

#[test]
fn more_files_than_are_kept_open_cost_no_more() {
    let test = "more_files_than_are_kept_open_cost_no_more";
    if !have(test, "gcc") {
        return;
    }
    let library = [
        "-O2",
        "-fomit-frame-pointer",
        "-shared",
        "-fPIC",
        "-DLIBRARY",
    ];
    let library = compiled(test, "many-files.c", &library).expect("gcc is there");
    let program = compiled(test, "many-files.c", &["-O2", "-ldl"]).expect("gcc is there");
    let scratch = tempfile::tempdir().expect("a folder");
    let mut memory = Vec::new();
    for count in [FILES / 4, FILES] {
        let files = scratch.path().join(count.to_string());
        std::fs::create_dir(&files).expect("a folder");
        for number in 0..count {
            let copy = files.join(format!("file.so-{number:04}"));
            std::fs::copy(&library, copy).expect("room for 2000 small files");
        }
        let (number, used) = record(&program, &files);
        assert_eq!(number("used "), count as u64);
        let open = number("open ");
        assert!(
            open > 64,
            "{open} files open: they are not those of the program"
        );
        assert!(open <= MOST_OPEN, "{open} files open");
        // A sample each at 2500 Hz; fewer are whole for a plain user, for whom
        // deep stacks are not read while the thread stands still.
        assert!(used.len() >= count / 8, "{} of {count} files", used.len());
        memory.push(number("kib "));
    }
    // Four times as many files: what is known of each mapping, not the files.
    let most = memory[0] + 24 * 1024;
    assert!(memory[1] <= most, "{memory:?} KiB");
}

//! The coverage table lists the tests that carry each row's ID.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Tests by row ID.
type Tests = BTreeMap<String, Vec<String>>;

/// All Rust files below `folder`.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("folder of sources") {
        let path = entry.expect("entry").path();
        if path.is_dir() && !path.ends_with("target") {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Whether a word is a row's ID, as `REC-03`.
fn is_id(word: &str) -> bool {
    word.split_once('-').is_some_and(|(family, number)| {
        !family.is_empty()
            && family.bytes().all(|byte| byte.is_ascii_uppercase())
            && number.len() == 2
            && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// The name of the function that a line declares.
fn function(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("fn ")?;
    rest.split(['(', '<']).next()
}

/// Finds `covers:` comments: `//` inside a test, `///` above it; the IDs may go
/// on in the next comment lines.
fn collect(path: &Path, tests: &mut Tests) {
    let text = std::fs::read_to_string(path).expect("source");
    let (mut open, mut waiting) = (false, Vec::new());
    let mut current = String::new();
    for line in text.lines() {
        if let Some(name) = function(line) {
            current = name.to_owned();
            for id in waiting.drain(..) {
                tests.entry(id).or_default().push(current.clone());
            }
        }
        let comment = line.trim_start();
        let Some(comment_text) = comment.strip_prefix("//") else {
            open = false;
            continue;
        };
        let above = comment_text.starts_with('/');
        open |= comment_text.contains(concat!("covers", ": "));
        if !open {
            continue;
        }
        let words = comment_text
            .split([' ', ',', '/'])
            .filter(|word| is_id(word));
        for id in words.map(ToOwned::to_owned) {
            if above {
                waiting.push(id);
            } else {
                tests.entry(id).or_default().push(current.clone());
            }
        }
    }
}

#[test]
fn the_coverage_table_lists_the_tests_of_each_row() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    sources(&root.join("crates"), &mut files);
    sources(&root.join("tests"), &mut files);
    files.sort();
    let mut tests = Tests::new();
    for file in &files {
        collect(file, &mut tests);
    }
    let path = root.join("docs/coverage.md");
    let table = std::fs::read_to_string(&path).expect("the table");
    let mut expected = String::new();
    for line in table.lines() {
        let id = line
            .strip_prefix("| ")
            .and_then(|rest| rest.split(' ').next());
        let Some(id) = id.filter(|id| is_id(id)) else {
            writeln!(expected, "{line}").expect("memory");
            continue;
        };
        let (kept, _) = line
            .trim_end_matches(" |")
            .rsplit_once(" | ")
            .expect("three columns");
        let mut names = tests.remove(id).unwrap_or_default();
        names.dedup();
        writeln!(expected, "{kept} | {} |", names.join(", ")).expect("memory");
    }
    assert!(
        tests.is_empty(),
        "tests cover rows that do not exist: {tests:?}"
    );
    if std::env::var_os("UPDATE_COVERAGE").is_some() {
        std::fs::write(&path, &expected).expect("written");
    }
    assert!(
        table == expected || std::env::var_os("UPDATE_COVERAGE").is_some(),
        "the table is out of date: run this test with UPDATE_COVERAGE=1"
    );
}

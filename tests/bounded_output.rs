//! Recordings made to be wide, deep or heavy: every view shows them, in output
//! that the input justifies.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Every view of a recording; `script` and `dump` print each record as it is.
const VIEWS: &[&[&str]] = &[
    &["report", "--stdio"],
    &["report", "--stdio", "--hierarchy"],
    &["report", "--stdio", "--no-children"],
    &["report", "--stdio", "-G", "-v"],
    &["report", "--stdio", "-g", "flat"],
    &["report", "--stdio", "-g", "folded,count"],
    &["report", "--stdio", "-g", "fractal,0,callee", "-n"],
    &["report", "--stdio", "-s", "comm", "--show-total-period"],
    &["report", "--stdio", "-s", "dso"],
    &["report", "--stdio", "-s", "comm,pid,cpu,time,srcline"],
    &["report", "--stdio", "-T"],
    &["report", "--tasks"],
    &["report", "--mmaps"],
    &["report", "--json"],
    &["report", "--csv"],
    &["annotate", "--stdio"],
    &["flamegraph", "--format", "svg"],
    &["flamegraph", "--format", "html", "--reverse"],
    &["flamegraph", "--format", "folded"],
    &["script"],
    &["dump"],
];

fn recordings() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/views");
    let files = fs::read_dir(folder).expect("fixtures");
    let mut files: Vec<PathBuf> = files.map(|file| file.expect("entry").path()).collect();
    files.sort();
    assert_eq!(files.len(), 4);
    files
}

fn show(view: &[&str], file: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_prof"))
        .args(view)
        .arg("-i")
        .arg(file)
        .output()
        .expect("prof starts")
}

#[test]
fn wide_deep_and_heavy_recordings_are_shown_in_every_view() {
    for file in recordings() {
        for view in VIEWS {
            let shown = show(view, &file);
            let errors = String::from_utf8_lossy(&shown.stderr);
            let code = shown.status.code();
            // Annotate has nothing to show of frames without names.
            let is_done = matches!(code, Some(0 | 3))
                || (code == Some(1) && view.first() == Some(&"annotate"));
            assert!(is_done, "{view:?} of {}: {errors}", file.display());
            assert!(!errors.contains("panicked"), "{view:?}: {errors}");
            let raw = |byte: &u8| (*byte < b' ' && !b"\n\r\t".contains(byte)) || *byte == 0x7f;
            assert!(!shown.stdout.iter().any(raw), "{view:?}");
            let input = fs::metadata(&file).expect("fixture").len() as usize;
            let most = 50 * input + 10_000_000;
            assert!(shown.stdout.len() <= most, "{view:?} of {}", file.display());
        }
    }
}

/// Lines of a report that are call chains.
fn chain_lines(text: &str) -> usize {
    let is_chain = |line: &&str| line.starts_with("            ") && line.contains("0x");
    text.lines().filter(is_chain).count()
}

#[test]
fn chains_beyond_the_limit_are_counted_and_one_long_chain_is_whole() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/views/deep-chain.data");
    let text = |options: &[&str]| {
        let view = [&["report", "--stdio"], options].concat();
        String::from_utf8(show(&view, &file).stdout).expect("text")
    };
    let cut = text(&[]);
    let told = cut.lines().rev().find(|line| line.contains("left out"));
    let told = told.expect("the cut is told");
    let numbers: Vec<usize> = told
        .split(' ')
        .filter_map(|word| word.parse().ok())
        .collect();
    let [rows, frames] = numbers[..] else {
        panic!("{told}");
    };
    // Row n of 8000 has a chain of n frames, but the innermost, whose own
    // sample has the whole stack above it.
    let all = 8000 * 8001 / 2 + 7999;
    assert_eq!(frames + chain_lines(&cut), all, "{told}");
    assert!(rows > 7000, "{told}");
    assert!(cut.contains("--unlimited"), "{told}");
    // A chain as long as any, of one row, is drawn to its end.
    let one = text(&["-s", "comm", "-g", "caller"]);
    assert!(!one.contains("left out"));
    assert!(chain_lines(&one) >= 7999);
}

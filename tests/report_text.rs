//! `prof report --stdio` against `perf report --stdio` on the same files.
//!
//! Recordings are made by perf of programs in `fixtures/programs`; then each
//! combination of options is given to both. Compared is every line: comment
//! lines with counts and headings, rows in order of their weight, and the
//! lines of the call graphs below each row.
//!
//! Known differences, with reasons; [`normal`] takes them out:
//!
//! - We begin with comment lines that say how far to trust the numbers, and
//!   end without a tip.
//! - Rows and branches of equal weight: perf's order hangs on addresses of its
//!   own memory and on which thread was seen first; ours on names.
//! - The letter of a row without a name: perf leaves that of the frame before
//!   it in the chain; we show that of the frame itself.
//! - An address without a name inside a module: in callers' rows perf shows
//!   the live address, which differs from run to run; we always show the
//!   address in the file.
//! - Stubs of the procedure linkage table: perf 6.1 cannot name those of newer
//!   linkers: it makes all of them one (`@plt`), or takes the function before
//!   them (`_init`); we name each.
//! - A return address that is the first byte of a function: perf takes that
//!   function, we the one before, which made the call (`_start` of ld.so, not
//!   `_dl_start_user`).
//! - `-s sym` without the module: perf's comparison of named with unnamed rows
//!   is then no order, and it shows the same address in two rows. Rows without
//!   a name are not compared there.
//! - `[...] (inlined)`: perf 6.1 reads memory it has not set.
//! - With `--children` and a filter by module or symbol, perf shows or hides a
//!   caller as the first sample that met it was shown or hidden, and counts
//!   hidden samples in it; we count what the filter lets pass. Compared with
//!   `--no-children`.
//! - `--children -s time`: perf counts callers in the slice of another sample.
//!   Compared with `--no-children`.
//! - `--max-stack` with callers first: perf keeps the outermost frames and
//!   loses the leaf; we keep the innermost. Compared with `--no-children`.

use crate::oracle::{compiled, have, perf, prof, scratch};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Options given to both.
const COMBINATIONS: &[&str] = &[
    "",
    "-g none",
    "--no-children",
    "-g graph,0.5,callee",
    "-g caller --no-children",
    "-G --no-children -s sym",
    "-g fractal",
    "-g fractal,5,callee",
    "-g flat,0.1 --no-children",
    "-g folded",
    "-g folded,0.1,callee,period",
    "-g graph,2,3,count",
    "-s comm",
    "-s dso,sym -n",
    "-s sym",
    "-s pid",
    "-s comm,time -g none --no-children",
    "-s overhead,sym -g none",
    "-F overhead,sample,comm,sym -g none",
    "-F comm,overhead -g none",
    "-n --show-total-period --show-cpu-utilization -g none",
    "-w 8,20,30,40,50 -g none",
    "-t ; -g none",
    "--percent-limit 2",
    "--percentage relative -S leaf,compare --no-children -g none",
    "-d libc.so.6 --no-children",
    "-c report-calls",
    "-U --no-children",
    "--max-stack 3 --no-children",
    "--time 10%-60% -g none",
];

/// Makes the recordings once; `None`, with the reason printed, where a tool
/// is missing.
fn recordings(test: &str) -> Option<&'static [PathBuf]> {
    static MADE: OnceLock<Option<Vec<PathBuf>>> = OnceLock::new();
    if !have(test, "perf") {
        return None;
    }
    let made = MADE.get_or_init(|| {
        let pointers = ["-g", "-fno-omit-frame-pointer"];
        let calls = compiled(test, "report-calls.c", &[&pointers[..], &["-O1"]].concat())?;
        let threads = [&pointers[..], &["-O2", "-pthread"]].concat();
        let threads = compiled(test, "report-threads.cc", &threads)?;
        let rust = ["-O", "-g", "-C", "force-frame-pointers=yes"];
        let rust = compiled(test, "report-inline.rs", &rust)?;
        let pipeline = "for i in 1 2 3; do seq 1 90000 | sort -n | sed s/1/2/ | wc -l; done";
        let own = |program: &Path| vec![program.to_str().expect("a path of ours").to_owned()];
        let shell = ["sh", "-c", pipeline].map(String::from).to_vec();
        let chains = ["-F", "997", "-g"];
        Some(vec![
            record("calls", &chains, &own(&calls)),
            record("threads", &chains, &own(&threads)),
            record("rust", &chains, &own(&rust)),
            record("shell", &["-F", "997"], &shell),
            record(
                "two-events",
                &["-F", "499", "-g", "-e", "cpu-clock,task-clock"],
                &own(&calls),
            ),
            record(
                "period",
                &["-c", "2000000", "-e", "task-clock"],
                &own(&threads),
            ),
        ])
    });
    made.as_deref()
}

fn record(name: &str, options: &[&str], command: &[String]) -> PathBuf {
    let file = scratch().join(format!("report-{name}-{}.data", std::process::id()));
    let mut words: Vec<String> = vec!["record".into(), "-q".into(), "-o".into()];
    words.push(file.to_str().expect("a path of ours").into());
    words.extend(options.iter().map(|&option| option.into()));
    words.push("--".into());
    words.extend(command.iter().cloned());
    perf(&words).succeeded("perf record");
    file
}

/// A row and the lines below it, or a comment line.
struct Block {
    share: Option<f64>,
    head: String,
    below: Vec<String>,
}

/// Whether rows of addresses without a name are compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unnamed {
    Compared,
    Skipped,
}

/// The lines of a report without the known differences: rows of equal share
/// in the order of their text, lines of a call graph without its pipes and in
/// the order of their text.
fn normal(text: &str, unnamed: Unnamed) -> Vec<String> {
    let mut blocks: Vec<Block> = Vec::new();
    for line in text.lines().map(str::trim_end) {
        if line.starts_with("# (Tip") {
            continue;
        }
        let ours = line.contains(" samples, ") || line.contains(": ") && line.contains(" of ");
        let is_count = line.starts_with("# Samples:");
        let skipped = ["# To display", "# Total Lost"];
        let is_skipped = skipped.iter().any(|start| line.starts_with(start));
        if line.is_empty()
            || line == "#"
            || is_skipped
            || (line.starts_with("# ") && ours && !is_count)
        {
            continue;
        }
        let line = without_differences(line);
        if line.starts_with('#') {
            blocks.push(Block {
                share: None,
                head: line,
                below: Vec::new(),
            });
        } else if let Some(share) = share_of_row(&line) {
            blocks.push(Block {
                share: Some(share),
                head: line,
                below: Vec::new(),
            });
        } else if let Some(block) = blocks.last_mut() {
            let line = line.replace('|', " ");
            if !line.trim().is_empty() && !is_stub(&line) {
                block.below.push(line.trim_end().to_owned());
            }
        }
    }
    blocks.retain(|block| !is_stub(&block.head));
    if unnamed == Unnamed::Skipped {
        blocks.retain(|block| !block.head.contains("] ADDRESS"));
    }
    let mut lines = Vec::new();
    for several in blocks.chunk_by_mut(|a, b| a.share.is_some() && a.share == b.share) {
        several.sort_by(|a, b| a.head.cmp(&b.head));
        for block in several {
            block.below.sort();
            lines.push(block.head.clone());
            lines.append(&mut block.below);
        }
    }
    lines
}

/// Whether a line is about a stub of the procedure linkage table.
fn is_stub(line: &str) -> bool {
    line.contains("@plt") || line.split([' ', ';', '-']).any(|word| word == "_init")
}

/// The first percentage of a row; chains are indented deeper.
fn share_of_row(line: &str) -> Option<f64> {
    let text = line.trim_start();
    let indent = line.len() - text.len();
    let (number, _) = text.split_once('%')?;
    let has_decimals = number
        .split_once('.')
        .is_some_and(|(_, end)| end.len() == 2);
    (indent <= 6 && has_decimals)
        .then(|| number.parse().ok())
        .flatten()
}

fn without_differences(line: &str) -> String {
    let mut out = String::new();
    let mut rest = line;
    // Addresses: all one.
    while let Some(at) = rest.find("0x") {
        out.push_str(&rest[..at]);
        out.push_str("ADDRESS");
        rest = rest[at + 2..].trim_start_matches(|c: char| c.is_ascii_hexdigit());
    }
    out.push_str(rest);
    let out = out
        .replace(&"0".repeat(16), "ADDRESS")
        .replace("[k] ADDRESS", "[.] ADDRESS");
    let out = out.replace("[...] (inlined)", "[...]");
    out.replace("_dl_start_user", "_start")
}

fn words(combination: &str) -> Vec<String> {
    combination.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn the_text_equals_perfs_on_the_same_file() {
    let test = "the_text_equals_perfs_on_the_same_file";
    let Some(files) = recordings(test) else {
        return;
    };
    let mut wrong = Vec::new();
    for file in files {
        let path = file.to_str().expect("a path of ours").to_owned();
        let has_chains = !path.contains("report-shell") && !path.contains("report-period");
        for combination in COMBINATIONS {
            // perf refuses to draw chains where there are none.
            if !has_chains && combination.contains("-g ") && !combination.contains("-g none") {
                continue;
            }
            // Inlined frames are another test's: perf 6.1 asks addr2line for
            // each and takes minutes.
            let mut args = ["report", "--stdio", "--no-inline", "-i", &path]
                .map(String::from)
                .to_vec();
            args.extend(words(combination));
            let theirs = perf(&args).succeeded("perf report").text();
            let ours = prof(&args).succeeded("prof report").text();
            let by_symbol_alone =
                combination.contains("-s sym") || combination.contains("overhead,sym");
            let unnamed = if by_symbol_alone {
                Unnamed::Skipped
            } else {
                Unnamed::Compared
            };
            let (theirs, ours) = (normal(&theirs, unnamed), normal(&ours, unnamed));
            if !is_equal(&theirs, &ours) {
                let name = file
                    .file_stem()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned();
                wrong.push(difference(&name, combination, &theirs, &ours));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {} differ:\n{}",
        wrong.len(),
        files.len() * COMBINATIONS.len(),
        wrong.join("\n")
    );
}

/// Whether the lines are the same, but for a few: a sample that happens to
/// hit the first byte of a function or a stub puts another name into the lines
/// it is in, see the known differences. Figures that were wrong would be so in
/// most lines.
fn is_equal(theirs: &[String], ours: &[String]) -> bool {
    let mut left: Vec<&String> = ours.iter().collect();
    left.sort();
    let mut missing = 0;
    for line in theirs {
        match left.binary_search(&line) {
            Ok(at) => {
                left.remove(at);
            }
            Err(_) => missing += 1,
        }
    }
    missing.max(left.len()) <= 6.max(theirs.len() / 25)
}

fn difference(name: &str, combination: &str, theirs: &[String], ours: &[String]) -> String {
    let only = |these: &[String], those: &[String], mark: &str| -> Vec<String> {
        let lines = these.iter().filter(|line| !those.contains(line));
        lines
            .take(4)
            .map(|line| format!("  {mark} {line}"))
            .collect()
    };
    let mut lines = vec![format!("{name}: {combination}")];
    lines.extend(only(theirs, ours, "perf"));
    lines.extend(only(ours, theirs, "prof"));
    lines.join("\n")
}

#[test]
fn every_form_holds_the_same_numbers_and_the_trust_line() {
    let test = "every_form_holds_the_same_numbers_and_the_trust_line";
    let Some(files) = recordings(test) else {
        return;
    };
    let path = files[0].to_str().expect("a path of ours");
    let json = prof(&["report", "--json", "-i", path])
        .succeeded("--json")
        .text();
    let json: serde_json::Value = serde_json::from_str(&json).expect("valid JSON");
    let event = &json["events"][0];
    let whole = event["total"]["period"].as_u64().expect("a number");
    let own = |list: &serde_json::Value| -> u64 {
        let list = list.as_array().expect("a list").iter();
        list.map(|node| node["self"]["period"].as_u64().expect("a number"))
            .sum()
    };
    assert_eq!(own(&event["rows"]), whole);
    assert_eq!(own(&event["tree"]), whole);
    let folded = prof(&["flamegraph", "--format", "folded", "-i", path])
        .succeeded("folded")
        .text();
    let folded: u64 = folded
        .lines()
        .map(|line| {
            line.rsplit(' ')
                .next()
                .expect("a weight")
                .parse::<u64>()
                .expect("a number")
        })
        .sum();
    assert_eq!(folded, whole);
    let summary = json["trust"]["summary"].as_str().expect("a text");
    let text = prof(&["report", "--stdio", "-i", path])
        .succeeded("--stdio")
        .text();
    assert!(text.starts_with(&format!("# {summary}\n")), "{text:.300}");
    let svg = prof(&["flamegraph", "-i", path])
        .succeeded("flamegraph")
        .text();
    assert!(svg.starts_with("<?xml") && svg.contains("lost, "));
}

#[test]
fn output_is_the_same_for_any_number_of_threads() {
    let test = "output_is_the_same_for_any_number_of_threads";
    let Some(files) = recordings(test) else {
        return;
    };
    let path = files[1].to_str().expect("a path of ours");
    for args in [
        ["report", "--stdio"],
        ["report", "--json"],
        ["flamegraph", "--format=svg"],
    ] {
        let run = |threads: &str| {
            let mut command = crate::oracle::prof_command();
            command
                .args(args)
                .args(["-i", path])
                .env("RAYON_NUM_THREADS", threads);
            command.output().expect("prof starts").stdout
        };
        let one = run("1");
        assert!(!one.is_empty());
        assert!(one == run("3"), "{args:?}");
    }
}

#[test]
fn what_cannot_be_shown_is_told_with_what_would_work() {
    let test = "what_cannot_be_shown_is_told_with_what_would_work";
    let Some(files) = recordings(test) else {
        return;
    };
    let path = files[0].to_str().expect("a path of ours");
    let said = |args: &[&str]| {
        let mut command = crate::oracle::prof_command();
        let output = command
            .args(args)
            .args(["-i", path])
            .output()
            .expect("prof starts");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), errors)
    };
    let (code, errors) = said(&["report", "-s", "nonsense"]);
    assert_eq!(code, Some(2), "{errors}");
    assert!(
        errors.contains("nonsense") && errors.contains("srcline"),
        "{errors}"
    );
    let (code, errors) = said(&["report", "--time", "later"]);
    assert_eq!(code, Some(2), "{errors}");
    assert!(errors.contains("START,STOP"), "{errors}");
    let (code, errors) = said(&["report", "-S", "lea"]);
    assert_eq!(code, Some(0), "{errors}");
    assert!(
        errors.contains("no function") && errors.contains("leaf"),
        "{errors}"
    );
    let (code, errors) = said(&["flamegraph", "-c", "nobody"]);
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("nothing to draw"), "{errors}");
}

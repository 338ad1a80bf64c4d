//! `prof report --stdio` against `perf report --stdio` on the same files.
//!
//! Recordings are made by perf of programs in `fixtures/programs` and freed
//! of frames that perf 6.1 is known to name wrongly (see [`crate::chosen`]);
//! then each combination of options is given to both, and both must write the
//! same bytes. What is not compared, by reason:
//!
//! - The comment lines above the counts: we say there how far to trust the
//!   numbers, perf how to see the header. The line of lost samples and those
//!   of filters with one name are compared.
//! - perf's tip below the report.
//! - `[...] (inlined)`: perf 6.1 reads memory it has not set; compared is
//!   `[...]`.
//! - Frames without a name, as this test has it; the next one has them.
//! - With `--children` and a filter by module or symbol, perf shows or hides a
//!   caller as the first sample that met it was shown or hidden, and counts
//!   hidden samples in it; we count what the filter lets pass. Compared with
//!   `--no-children`.
//! - `--children -s time`: perf counts callers in the slice of another sample.
//!   Compared with `--no-children`.
//! - `--max-stack` with callers first: perf keeps the outermost frames and
//!   loses the leaf; we keep the innermost. Compared with `--no-children`.

use crate::chosen::{Keep, chosen};
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
    "-s parent",
    "-p main|ksys|rec|worker",
    "-s sym,parent -G -p rec|fib|sort --no-children",
    "-F overhead,parent,sym -p rec|sort -g none",
    "-T -g none",
];

/// What is shown instead of rows.
const INSTEAD: &[&str] = &["--stats", "--tasks", "--mmaps"];

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
            // -s: what each thread counted, for -T.
            record("threads", &["-F", "997", "-g", "-s"], &own(&threads)),
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

/// The lines of perf's report that are compared; see above.
fn lines_of_perf(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = text
        .lines()
        .map(|line| line.replace("[...] (inlined)", "[...]"))
        .collect();
    let tip = lines.iter().position(|line| line.starts_with("# (Tip: "));
    if let Some(tip) = tip {
        let around: Vec<String> = lines.drain(tip - 1..tip + 2).collect();
        assert_eq!([&*around[0], &*around[2]], ["#", "#"]);
    }
    without_preamble(lines)
}

/// The lines of our report that are compared.
fn lines_of_ours(text: &str) -> Vec<String> {
    without_preamble(text.lines().map(str::to_owned).collect())
}

/// Leaves of the comment lines above the counts those about filters.
fn without_preamble(lines: Vec<String>) -> Vec<String> {
    let counts = |line: &String| line.starts_with("# Total Lost Samples: ");
    let Some(start) = lines.iter().position(counts) else {
        return lines;
    };
    let of_filters = ["# comm: ", "# dso: ", "# symbol: "];
    let is_of_filter = |line: &str| of_filters.iter().any(|start| line.starts_with(start));
    let kept = |(index, line): &(usize, String)| *index >= start || is_of_filter(line);
    let lines = lines.into_iter().enumerate().filter(kept);
    lines.map(|(_, line)| line).collect()
}

fn words(combination: &str) -> Vec<String> {
    combination.split_whitespace().map(str::to_owned).collect()
}

/// Runs both tools with each combination over each file that it makes sense
/// for and compares what they write.
fn compare(files: &[PathBuf], combinations: &[&str]) {
    let mut wrong = Vec::new();
    for file in files {
        let path = file.to_str().expect("a path of ours").to_owned();
        let has_chains = !path.contains("report-shell") && !path.contains("report-period");
        for combination in combinations {
            // perf refuses to draw or search chains where there are none.
            let draws = combination.contains("-g ") && !combination.contains("-g none");
            let searches = combination.contains("parent") || combination.contains("-p ");
            if !has_chains && (draws || searches) {
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
            let (theirs, ours) = (lines_of_perf(&theirs), lines_of_ours(&ours));
            if theirs != ours {
                let name = file.file_stem().unwrap_or_default().to_string_lossy();
                wrong.push(difference(&name, combination, &theirs, &ours));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} of {} differ:\n{}",
        wrong.len(),
        files.len() * combinations.len(),
        wrong.join("\n")
    );
}

/// The first lines that differ.
fn difference(name: &str, combination: &str, theirs: &[String], ours: &[String]) -> String {
    let same = theirs.iter().zip(ours).take_while(|(a, b)| a == b).count();
    let mut lines = vec![format!("{name}: {combination}: from line {}", same + 1)];
    for (mark, all) in [("perf", theirs), ("prof", ours)] {
        let few = all.iter().skip(same).take(6);
        lines.extend(few.map(|line| format!("  {mark} {line}")));
    }
    lines.join("\n")
}

#[test]
fn the_text_equals_perfs_on_the_same_file() {
    let test = "the_text_equals_perfs_on_the_same_file";
    let Some(files) = recordings(test) else {
        return;
    };
    let named: Vec<PathBuf> = files.iter().map(|file| chosen(file, Keep::Named)).collect();
    compare(&named, COMBINATIONS);
}

#[test]
fn what_is_shown_instead_of_rows_equals_perfs() {
    let test = "what_is_shown_instead_of_rows_equals_perfs";
    let Some(files) = recordings(test) else {
        return;
    };
    // After an exec perf still lists what the old program had mapped.
    let without_exec = |file: &&PathBuf| !file.to_string_lossy().contains("report-shell");
    let mapped: Vec<PathBuf> = files.iter().filter(without_exec).cloned().collect();
    compare(files, &INSTEAD[..2]);
    compare(&mapped, &INSTEAD[2..]);
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

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
//! - What a tracepoint tells where it is the event's only row: perf cuts it to the
//!   twelve columns of its heading.
//! - `[...] (inlined)`: perf 6.1 reads memory it has not set; compared is
//!   `[...]`.
//! - The letter of a row without a name in no module: perf leaves that of the
//!   frame before it in the chain; we show that of the frame itself.
//! - `-s sym` without the module where there are rows without a name: perf's
//!   comparison of those with others is then no order, and it shows the same
//!   address in two rows. Compared where all have names.
//! - Shares in chains with `--percentage relative`: perf's stay absolute, so
//!   that a branch of 2 % stands below its row of 28 %. Compared with `-g none`.
//! - With `--children` and a filter by module or symbol, perf shows or hides a
//!   caller as the first sample that met it was shown or hidden, and counts
//!   hidden samples in it; we count what the filter lets pass. Compared with
//!   `--no-children`.
//! - `--children -s time`: perf counts callers in the slice of another sample.
//!   Compared with `--no-children`.
//! - `-s srcline` of a C++ program: perf 6.1 writes `??:0` for places in files
//!   without lines until it has failed to find 123 of them, then what we
//!   write: a name of C++ and a distance, for which the column is wide. The
//!   newest perf always does; compared with that one.
//! - Addresses of callers with `-v`: perf has those in the process, which
//!   differ from run to run, we have those in the file, as both do where a
//!   sample was taken. Compared with `--no-children`.
//! - Names of C++ with `-v`: perf's have their parameters then, ours have none.
//!   Compared with `--no-demangle`.
//! - The letter `B` of `-v`: perf takes names from the copy of a file in its
//!   cache even where the mapped file is there; we from the mapped file (`d`).
//! - Lines of code that one source file includes from another (in the C
//!   library): perf asks binutils, which takes the including file and the
//!   other's line; LLVM's symbolizer says what we say. Compared for a program
//!   of ours.
//! - `--symbol-filter` with `-s`: perf then filters nothing, unless `-s` has
//!   the usual keys.
//! - `--max-stack` with callers first: perf keeps the outermost frames and
//!   loses the leaf; we keep the innermost. Compared with `--no-children`.

mod cuts;
mod forms;
mod groups;
mod instructions;
mod newest;
mod options;
mod trees;

use crate::chosen::{Keep, chosen};
use crate::oracle::{
    compiled, have, kernel_symbols, may_record_all, perf, perf_at, perfs, prof, scratch, skipped,
};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

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
        // By names that fit into the column: perf makes it as wide as the
        // last names of the threads are, not as those that it shows.
        let own = |name: &str, program: &Path| {
            let folder = scratch().join(format!("report-{}", std::process::id()));
            std::fs::create_dir_all(&folder).expect("the target folder is writable");
            let link = folder.join(name);
            // Of an earlier run with the same process id.
            let _ = std::fs::remove_file(&link);
            std::os::unix::fs::symlink(program, &link).expect("a link of ours");
            vec![link.to_str().expect("a path of ours").to_owned()]
        };
        let shell = ["sh", "-c", pipeline].map(String::from).to_vec();
        let chains = ["-F", "997", "-g"];
        Some(vec![
            record("calls", &chains, &own("calls", &calls)),
            // -s: what each thread counted, for -T.
            record(
                "threads",
                &["-F", "997", "-g", "-s", "--sample-cpu"],
                &own("threads", &threads),
            ),
            record("rust", &chains, &own("inline", &rust)),
            record("shell", &["-F", "997"], &shell),
            record(
                "two-events",
                &["-F", "499", "-g", "-e", "cpu-clock,task-clock"],
                &own("twice", &calls),
            ),
            record(
                "period",
                &["-c", "2000000", "-e", "task-clock"],
                &own("period", &threads),
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
        .map(|line| {
            let line = line.replace("[...] (inlined)", "[...]");
            without_letter(&line.replace(" B [", " d ["))
        })
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
    without_preamble(text.lines().map(without_letter).collect())
}

/// The line of a row with the letter of an address that has no name made the
/// same.
fn without_letter(line: &str) -> String {
    line.replace("[k] 0x", "[.] 0x")
        .replace("[k] 0000", "[.] 0000")
}

/// Leaves of the comment lines above the counts those about filters.
fn without_preamble(lines: Vec<String>) -> Vec<String> {
    let counts = |line: &String| line.starts_with("# Total Lost Samples: ");
    let Some(start) = lines.iter().position(counts) else {
        // Nothing is left to be counted.
        return lines
            .into_iter()
            .filter(|line| !line.starts_with('#'))
            .collect();
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
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let mut running = Vec::new();
        for file in files {
            running.push(scope.spawn(|| differences(file, combinations)));
        }
        let ended = running.into_iter().map(|thread| thread.join());
        ended.flat_map(|lines| lines.expect("no panic")).collect()
    });
    assert!(
        wrong.is_empty(),
        "{} of {} differ:\n{}",
        wrong.len(),
        files.len() * combinations.len(),
        wrong.join("\n")
    );
}

/// What differs between the reports of a file.
fn differences(file: &Path, combinations: &[&str]) -> Vec<String> {
    let path = file.to_str().expect("a path of ours").to_owned();
    let has_chains = !path.contains("report-shell") && !path.contains("report-period");
    let mut wrong = Vec::new();
    for combination in combinations {
        // perf refuses to draw or search chains where there are none.
        let draws = combination.contains("-g ") && !combination.contains("-g none");
        let searches = combination.contains("parent") || combination.contains("-p ");
        if !has_chains && (draws || searches) {
            continue;
        }
        // Nor lines of a system's files; see the notes on top.
        if combination.contains("src") && !path.ends_with(".only.data") {
            continue;
        }
        // Nor does it look for CPUs that were not recorded.
        if !path.contains("report-threads") && combination.contains("-C ") {
            continue;
        }
        // Inlined frames are another test's: perf 6.1 asks addr2line for
        // each and takes minutes.
        let mut args = ["report", "--stdio", "--no-inline", "-i", &path]
            .map(String::from)
            .to_vec();
        args.extend(words(combination));
        // Without options, both find the kernel's symbols themselves.
        if !combination.is_empty() {
            args.extend_from_slice(kernel_symbols());
        }
        if let Some(cpu) = args.iter_mut().find(|word| *word == "CPU") {
            *cpu = first_cpu(&path);
        }
        let theirs = perf(&args).succeeded("perf report").text();
        let ours = prof(&args).succeeded("prof report").text();
        let (theirs, ours) = (lines_of_perf(&theirs), lines_of_ours(&ours));
        if theirs != ours {
            let name = file.file_stem().unwrap_or_default().to_string_lossy();
            wrong.push(difference(&name, combination, &theirs, &ours));
        }
    }
    wrong
}

/// The CPU of the first sample.
fn first_cpu(path: &str) -> String {
    let script = perf(&["script", "-F", "cpu", "-i", path]).succeeded("perf script");
    let text = script.text();
    let cpu = text.lines().next().unwrap_or_default();
    cpu.trim_matches(['[', ']', ' ', ':']).to_owned()
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

/// The recording of a C program without samples in other files.
fn own_code(files: &[PathBuf]) -> PathBuf {
    let calls = files.iter().find(|file| is_of(file, "calls"));
    chosen(
        calls.expect("recorded above"),
        Keep::NamedIn("report-calls-"),
    )
}

fn of_lines<'a>(combinations: &[&'a str]) -> Vec<&'a str> {
    let shows_lines = |it: &&str| it.contains("src");
    combinations.iter().copied().filter(shows_lines).collect()
}

/// Runs the newest perf and ours without callers.
fn compare_with_newest(test: &str, files: &[PathBuf], combinations: &[&str]) {
    // It writes names of C++ with their arguments, 6.1 and we without; and
    // addresses in the process in chains.
    let fixed = "--no-inline --no-children -g none --no-demangle";
    for newest in perfs(test).iter().skip(1) {
        let mut wrong = Vec::new();
        let pairs = files
            .iter()
            .flat_map(|file| combinations.iter().map(move |options| (file, options)));
        for (file, options) in pairs {
            let path = file.to_str().expect("a path of ours");
            let mut args = ["report", "--stdio", "-i", path].map(String::from).to_vec();
            args.extend(words(fixed));
            args.extend(words(options));
            args.extend_from_slice(kernel_symbols());
            let theirs = perf_at(newest, &args).succeeded("perf report").text();
            let ours = prof(&args).succeeded("prof report").text();
            let (theirs, ours) = (lines_of_perf(&theirs), lines_of_ours(&ours));
            if theirs != ours {
                let name = file.file_stem().unwrap_or_default().to_string_lossy();
                wrong.push(difference(&name, options, &theirs, &ours));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}

fn is_one_of_three(file: &Path) -> bool {
    let name = file.to_string_lossy();
    ["calls", "threads", "shell"]
        .iter()
        .any(|one| name.contains(&format!("report-{one}")))
}

fn is_of(file: &Path, name: &str) -> bool {
    file.to_string_lossy().contains(&format!("report-{name}-"))
}

#[test]
fn tracepoints_alone_have_rows_by_what_they_tell() {
    let test = "tracepoints_alone_have_rows_by_what_they_tell";
    if !have(test, "perf") || !may_record_all(test) {
        return;
    }
    let path = scratch().join("tracepoints-alone.data");
    let path = path.to_str().expect("a path of ours");
    for events in ["raw_syscalls:sys_enter", "raw_syscalls:sys_enter,cpu-clock"] {
        let recorded = perf(&["record", "-q", "-e", events, "-o", path, "--", "ls", "/"]);
        if recorded.code != 0 {
            return skipped(test, &recorded.stderr);
        }
        let words = ["report", "--stdio", "-q", "-i", path];
        let rows = |text: String| -> Vec<String> {
            text.lines()
                .map(|line| line.trim_end().to_owned())
                .collect()
        };
        let ours = rows(prof(&words).succeeded("report").text());
        assert_eq!(
            ours,
            rows(perf(&words).succeeded("perf report").text()),
            "{events}"
        );
        let has_fields = ours.iter().any(|row| row.contains("NR "));
        assert_eq!(has_fields, !events.contains("cpu-clock"), "{ours:#?}");
    }
}

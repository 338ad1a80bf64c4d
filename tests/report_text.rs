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
//! - `--ignore-callees` with callers first: perf drops the callers of the
//!   functions instead. Compared with `--no-children`.
//! - `--max-stack` with callers first: perf keeps the outermost frames and
//!   loses the leaf; we keep the innermost. Compared with `--no-children`.

use crate::chosen::{Keep, chosen};
use crate::oracle::{Finished, NO_HOME, compiled, have, perf, perf_at, perfs, prof, scratch};
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
    "-c calls",
    "-U --no-children",
    "--max-stack 3 --no-children",
    "--time 10%-60% -g none",
    "-s parent",
    "-p main|ksys|rec|worker",
    "-s sym,parent -G -p rec|fib|sort --no-children",
    "-F overhead,parent,sym -p rec|sort -g none",
    "-T -g none",
];

/// More of them, for three of the recordings.
const MORE_COMBINATIONS: &[&str] = &[
    "-g graph,0.5,caller,function,count",
    "-g graph,callee,period",
    "-g fractal,1,3,callee,count",
    "-g flat,0.5,caller,period",
    "-g flat,1,5,count",
    "-g folded,0.5,caller,count --no-children",
    "-G -g none",
    "-F overhead_children,overhead,sym -g none",
    "-F overhead_sys,overhead_us,overhead,comm -g none",
    "-F pid,sym -g none",
    "-F +sample -g none",
    "-s +cpu -g none",
    "-s dso,comm,sym,pid -g none",
    "-t , -g none -n",
    "-w 5,0,7,60 -n -g none",
    "-d libc.so.6 -s sym --no-children",
    "-d nosuch --no-children",
    "-d libc.so.6 --percentage relative --no-children -g none",
    "-S main,leaf --no-children -g none",
    "-C CPU -g none",
    "--tid 1 -g none",
    "--time 0%-30%,40%-100% -g none",
    "--max-stack 5 --no-children -g callee",
    "-U -s dso,sym -g none",
    "-q -t ,",
    "-x -p rec|sort -g none",
    "-x -s sym,parent -p main --no-children",
    "--ignore-callees ^(rec|fib|worker|main)$ --no-children",
    "--ignore-callees sort -s sym,dso --no-children",
    "--ignore-callees ^(rec|fib|worker|main)$ --no-children -g none",
    "--ignore-callees ^(rec|fib|worker|main)$ --no-children -g none -p sort",
    "--ignore-callees ^(rec|fib|worker|main)$ --no-children --max-stack 2",
    "--max-stack 2 --no-children -p ^(rec|fib|worker|main)$",
    "--max-stack 2 --no-children -g none -s sym,parent -p ^(rec|fib|worker|main)$",
    "-q -c calls -g none",
    "-q -c calls -d libc.so.6 -S main --no-children -g none",
    "--symbol-filter e --no-children",
    "--symbol-filter ma --no-children",
    "--ns -s time,sym -g none --no-children",
    "-s srcline -g none --no-children",
    "-s srcfile,srcline,sym -g none --no-children",
    "--full-source-path -s srcline -g none --no-children",
    "--full-source-path -s srcfile,sym -g none --no-children",
    "--demangle --skip-empty -g none",
    "-d libc.so.6 -w 8,6,7,20 --no-children -g none",
    "-d libc.so.6 -s sym,dso --no-children -g none",
    "-c calls -s pid,comm -g none",
    "-s pid,cpu -w 5,7,6 -g none --no-children",
    "-s pid,sym -w 9,12,10 -g none --no-children",
    "-v --no-demangle -g none --no-children",
    "-v --no-demangle --no-children -s sym",
    "-v --no-demangle --no-children -s dso,sym -t ;",
    "-v --no-demangle -g none -s dso,comm",
    "-v --no-demangle -g none --no-children -s srcline,pid,sym,dso",
];

/// With `--hierarchy`. Filters by name are compared with the newest perf (see
/// [`FILTERED_HIERARCHIES`]): in 6.1 rows above keep the weight of the rows
/// that a filter hides. Left out is a width for symbols: perf cuts only names
/// of several hundred letters then.
const HIERARCHIES: &[&str] = &[
    "",
    "--no-children",
    "-g none",
    "-s dso,sym",
    "-s sym,dso -g none",
    "-s pid,sym -g none",
    "-s comm -g none",
    "-s time,comm -g none --no-children",
    "-s comm,srcfile -g none --no-children",
    "-s dso,srcline -g none --no-children",
    "--percent-limit 5",
    "--percent-limit 20 -g none",
    "-n --show-total-period -s comm,sym -g none",
    "--show-cpu-utilization -g none",
    "-t , -n -g none",
    "-w 12,20,30 -g none",
    "-q -g none",
    "-g fractal,2 --no-children",
    "-g caller --no-children -s sym,comm",
    "-G -s dso,sym,comm",
    "--percentage relative -g none",
    "-U -g none",
];

/// With `--hierarchy`, filters by name and no callers (where the newest perf
/// writes 0.00 % of callers for 15 % of self, and addresses in the process in
/// chains). Left out are filters by what no level shows: perf shows nothing
/// then, we what passes; and `--symbol-filter`: perf leaves out all rows but
/// the symbols', so that nobody can tell where they belong.
const FILTERED_HIERARCHIES: &[&str] = &[
    "-S leaf,compare",
    "-S leaf",
    "-S leaf,compare --percentage relative -n",
    "-c calls,sort",
    "-d libc.so.6 -s sym,dso",
    "-d libc.so.6 --percentage relative",
    "-d libc.so.6,sort -c calls,sort,w1 --percent-limit 1",
    "-c calls,sort,w0 -s dso,comm,sym",
    "-d libc.so.6 -t ,",
    "-S leaf,compare -s pid,dso,sym",
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
        // By names that fit into the column: perf makes it as wide as the
        // last names of the threads are, not as those that it shows.
        let own = |name: &str, program: &Path| {
            let folder = scratch().join(format!("report-{}", std::process::id()));
            std::fs::create_dir_all(&folder).expect("the target folder is writable");
            let link = folder.join(name);
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
        if let Some(cpu) = args.iter_mut().find(|word| *word == "CPU") {
            *cpu = first_cpu(&path);
        }
        let theirs = perf(&args).succeeded("perf report").text();
        // With the same cache of files: -v tells what is from there.
        let mut command = crate::oracle::prof_command();
        let ours = command.args(&args).env("HOME", NO_HOME).output();
        let ours = Finished::from(ours.expect("prof starts"));
        let ours = ours.succeeded("prof report").text();
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

#[test]
fn the_text_equals_perfs_on_the_same_file() {
    let test = "the_text_equals_perfs_on_the_same_file";
    let Some(files) = recordings(test) else {
        return;
    };
    let named: Vec<PathBuf> = files.iter().map(|file| chosen(file, Keep::Named)).collect();
    compare(&named, COMBINATIONS);
    let few: Vec<PathBuf> = named
        .into_iter()
        .filter(|file| is_one_of_three(file))
        .collect();
    compare(&few, MORE_COMBINATIONS);
    compare(&[own_code(files)], &of_lines(MORE_COMBINATIONS));
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

#[test]
fn a_tree_of_sort_keys_equals_perfs() {
    let test = "a_tree_of_sort_keys_equals_perfs";
    let Some(files) = recordings(test) else {
        return;
    };
    let few = files.iter().filter(|file| is_one_of_three(file));
    let named: Vec<PathBuf> = few.map(|file| chosen(file, Keep::Named)).collect();
    let combinations: Vec<String> = HIERARCHIES
        .iter()
        .map(|options| format!("--hierarchy {options}"))
        .collect();
    let combinations: Vec<&str> = combinations.iter().map(String::as_str).collect();
    compare(&named, &combinations);
    compare(&[own_code(files)], &of_lines(&combinations));
    // What has columns of its own has no levels.
    let path = files[0].to_str().expect("a path of ours");
    for other in [&["-F", "comm,sym"][..], &["--json"], &["--csv"], &["--tui"]] {
        let args = [&["report", "--hierarchy", "-i", path], other].concat();
        let output = prof(&args);
        assert_eq!(output.code, 2, "{other:?}");
    }
}

#[test]
fn a_tree_of_what_a_filter_lets_pass_equals_the_newest_perfs() {
    let test = "a_tree_of_what_a_filter_lets_pass_equals_the_newest_perfs";
    let Some(files) = recordings(test) else {
        return;
    };
    let few = files.iter().filter(|file| is_one_of_three(file));
    let named: Vec<PathBuf> = few.map(|file| chosen(file, Keep::Named)).collect();
    let trees: Vec<String> = FILTERED_HIERARCHIES
        .iter()
        .map(|options| format!("--hierarchy {options}"))
        .collect();
    let trees: Vec<&str> = trees.iter().map(String::as_str).collect();
    compare_with_newest(test, &named, &trees);
}

/// Lines of C++ code; see the notes on top.
const LINES: &[&str] = &[
    "-s srcline",
    "-s srcfile,srcline,sym -n",
    "-s dso,srcline",
    "-s srcline -t ;",
    "-s comm,srcline --percent-limit 1",
];

#[test]
fn lines_of_cpp_equal_the_newest_perfs() {
    let test = "lines_of_cpp_equal_the_newest_perfs";
    let Some(files) = recordings(test) else {
        return;
    };
    let file = files.iter().find(|file| is_of(file, "threads"));
    let file = chosen(file.expect("recorded above"), Keep::Named);
    compare_with_newest(test, &[file], LINES);
}

/// Thread names without their digits; 6.1 does not have the key.
const NAMES_WITHOUT_DIGITS: &[&str] = &[
    "-s comm_nodigit -n",
    "-s comm_nodigit,sym",
    "-s comm,comm_nodigit,dso",
    "-s comm_nodigit,comm -c w1",
    "-s comm_nodigit -q -c w1",
    "-s comm_nodigit -t ;",
    "--hierarchy -s comm_nodigit,comm",
];

#[test]
fn thread_names_without_digits_equal_the_newest_perfs() {
    let test = "thread_names_without_digits_equal_the_newest_perfs";
    let Some(files) = recordings(test) else {
        return;
    };
    let file = files.iter().find(|file| is_of(file, "threads"));
    let file = chosen(file.expect("recorded above"), Keep::Named);
    let path = file.to_str().expect("a path of ours");
    let args = ["report", "--stdio", "-s", "comm_nodigit", "-i", path];
    let text = prof(&args).succeeded("prof report").text();
    assert!(text.contains("w<N>"), "{text}");
    compare_with_newest(test, &[file], NAMES_WITHOUT_DIGITS);
}

#[test]
fn events_without_samples_in_a_time_are_left_out_as_in_perf() {
    let test = "events_without_samples_in_a_time_are_left_out_as_in_perf";
    if !have(test, "perf") {
        return;
    }
    let Some(program) = compiled(test, "report-calls.c", &["-O1"]) else {
        return;
    };
    let command = [program.to_str().expect("a path of ours").to_owned()];
    // Pages are mapped while the program starts.
    let options = ["-F", "499", "-e", "cpu-clock", "-e", "page-faults:u"];
    let file = record("starting", &options, &command);
    let path = file.to_str().expect("a path of ours");
    let tables = |text: &str| text.matches("# Samples: ").count();
    let mut shown = Vec::new();
    for slice in ["0%-20%", "20%-40%", "40%-60%", "60%-80%", "0%-100%"] {
        let args = [
            "report", "--stdio", "-s", "comm", "--time", slice, "-i", path,
        ];
        let theirs = perf(&args).succeeded("perf report").text();
        let ours = prof(&args).succeeded("prof report").text();
        assert_eq!(lines_of_perf(&theirs), lines_of_ours(&ours), "{slice}");
        shown.push(tables(&ours));
    }
    assert!(shown.contains(&1) && shown.contains(&2), "{shown:?}");
}

#[test]
fn unnamed_places_in_kernel_modules_are_those_of_the_file() {
    let test = "unnamed_places_in_kernel_modules_are_those_of_the_file";
    let Some(corpus) = crate::oracle::corpus(test) else {
        return;
    };
    // Loaded at other places than any module of this machine.
    let file = corpus.join("perfparser/contentsize.data");
    let path = file.to_str().expect("a path of ours");
    let options = ["--stdio", "-q", "--no-children", "-g", "none", "-t;"];
    let args = [&["report", "-s", "sym,dso", "-i", path], &options[..]].concat();
    let text = prof(&args).succeeded("prof report").text();
    let in_module = text.lines().filter(|line| line.contains(";[kvm]"));
    let symbols: Vec<&str> = in_module.filter_map(|it| it.split(';').nth(1)).collect();
    let wanted = ["[k] 0x0000000000013463", "[k] 0x0000000000013455"];
    assert_eq!(
        symbols.iter().map(|it| it.trim()).collect::<Vec<_>>(),
        wanted
    );
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

#[test]
fn rows_without_a_name_equal_perfs() {
    let test = "rows_without_a_name_equal_perfs";
    let Some(files) = recordings(test) else {
        return;
    };
    let broken_or_stripped = |file: &&PathBuf| {
        let name = file.to_string_lossy();
        name.contains("report-calls") || name.contains("report-shell")
    };
    let files = files.iter().filter(broken_or_stripped);
    let files: Vec<PathBuf> = files.map(|file| chosen(file, Keep::Unnamed)).collect();
    let by_symbol_alone =
        |combination: &&str| combination.contains("sym") && !combination.contains("dso");
    let combinations = COMBINATIONS.iter().chain(MORE_COMBINATIONS).copied();
    let combinations: Vec<&str> = combinations.filter(|it| !by_symbol_alone(it)).collect();
    compare(&files, &combinations);
}

/// With inlined frames.
const INLINED: &[&str] = &[
    "--no-children",
    "--no-children -g caller",
    "--no-children -s sym",
    "--no-children -g fractal",
    "--no-children -g folded",
    "--no-children -g flat",
    "--no-children -G",
    "--no-children --max-stack 3",
    "--no-children --percent-limit 5",
    "--no-children -S outer",
    "--no-children -s srcline -g none",
    "--no-children -s sym,srcline -g none",
    "--no-children -s srcline,sym,dso -g none",
    "--no-children -s sym,srcfile -g none",
    "-g none",
    "-g none -n",
    "-g none -s dso",
    "-g none -s comm",
    "-g none --percent-limit 20",
    "-g none -s sym,srcline",
    "-g none -s dso,sym,srcline -n",
];

/// Whether a row's line is in a function of `report-inlined.c` that is never
/// inlined; they stand below the others.
fn is_in_code_of_its_own(row: &str) -> bool {
    let line = row.rsplit_once("report-inlined.c:");
    let line = line.and_then(|(_, line)| line.trim_end().parse::<u32>().ok());
    line.is_some_and(|line| line > 25)
}

/// The newest perf is the oracle: 6.1 knows inlined frames only if it was
/// built with a library that distributions do not give it. Left out, by what
/// that perf does:
///
/// - Chains with `--children`, and of `--hierarchy`: it writes addresses in
///   the process for some inlined frames.
/// - `--children -s sym` without the thread's name: it loses samples of
///   callers with inlined frames (98 % of `main`).
/// - `-s sym,srcline` with callers: a caller's line is the one after the call,
///   and a sample in code that is not inlined counts twice in `Children` of
///   its own row (0.97 % for 0.48 %). Compared are the lines of inlined code.
/// - Files of callers (`-s srcfile` without `--no-children`): it has none.
/// - `-g address` and `-g srcline`: it takes the line after the call.
/// - C++: it names inlined functions with their arguments, others without.
#[test]
fn inlined_frames_equal_perfs() {
    let test = "inlined_frames_equal_perfs";
    if !have(test, "perf") {
        return;
    }
    let flags = [
        "-O2",
        "-g",
        "-fno-omit-frame-pointer",
        "-fno-optimize-sibling-calls",
    ];
    let Some(program) = compiled(test, "report-inlined.c", &flags) else {
        return;
    };
    let program = program.to_str().expect("a path of ours").to_owned();
    let options = ["-F", "499", "-g", "-e", "cpu-clock:u"];
    let recording = record("inlined", &options, &[program]);
    // Not the loader, whose inlined functions other packages bring along.
    let recording = chosen(&recording, Keep::NamedIn("report-inlined-"));
    let path = recording.to_str().expect("a path of ours");
    for newest in perfs(test).iter().skip(1) {
        let mut wrong = Vec::new();
        for combination in INLINED {
            let mut args = ["report", "--stdio", "--inline", "-i", path]
                .map(String::from)
                .to_vec();
            args.extend(words(combination));
            let theirs = perf_at(newest, &args).succeeded("perf report").text();
            let ours = prof(&args).succeeded("prof report").text();
            let (mut theirs, mut ours) = (lines_of_perf(&theirs), lines_of_ours(&ours));
            if combination.contains("line") && !combination.contains("--no-children") {
                for lines in [&mut theirs, &mut ours] {
                    lines.retain(|line| !is_in_code_of_its_own(line));
                }
                assert!(ours.len() > 12, "{ours:?}");
            }
            if theirs != ours {
                wrong.push(difference("inlined", combination, &theirs, &ours));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
    let args = ["report", "--stdio", "--no-children", "-i", path];
    let text = prof(&args).succeeded("prof report").text();
    assert!(text.contains("middle (inlined)"), "{text}");
    let without = prof(&[&args[..], &["--no-inline"]].concat()).text();
    assert!(!without.contains("(inlined)"), "{without}");
}

#[test]
fn events_of_a_group_stand_side_by_side_as_in_perf() {
    let test = "events_of_a_group_stand_side_by_side_as_in_perf";
    let Some(files) = recordings(test) else {
        return;
    };
    let program = ["-g", "-fno-omit-frame-pointer", "-O1"];
    let Some(program) = compiled(test, "report-calls.c", &program) else {
        return;
    };
    let command = [program.to_str().expect("a path of ours").to_owned()];
    let options = ["-F", "499", "-g", "-e", "{cpu-clock,task-clock}"];
    let group = record("group", &options, &command);
    let group = chosen(&group, Keep::Named);
    compare(std::slice::from_ref(&group), GROUPED);
    // Without a group, only what is asked for is put together.
    let apart = files.iter().find(|file| is_of(file, "two-events"));
    let apart = chosen(apart.expect("recorded above"), Keep::Named);
    compare(&[apart], &["--no-group -g none", "--group -g none"]);
}

fn is_of(file: &Path, name: &str) -> bool {
    file.to_string_lossy().contains(&format!("report-{name}-"))
}

/// Options given to both for events that were recorded as a group.
const GROUPED: &[&str] = &[
    "",
    "-g none --no-children",
    "--no-children -s sym -n",
    "-s sym --show-total-period -g none",
    "-t , -g none -n --no-children",
    "--no-group -g none",
    "--group -s comm,dso -g none",
    "-s dso --percentage relative -d libc.so.6 -g none --no-children",
    "--percent-limit 1 -g caller",
    "-w 8,20,30,40,50 -g none",
    "-s comm,sym --no-children -g folded",
];

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
    // What is known of the machine comes before either.
    let path = files[0].to_str().expect("a path of ours");
    let said = |options: &[&str]| {
        let args = [&["report", "-i", path], options].concat();
        prof(&args).succeeded("prof report").text()
    };
    for instead in INSTEAD {
        let both = [said(&["--header-only"]), said(&[instead])].concat();
        assert_eq!(said(&[instead, "--header"]), both);
    }
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
    for (filter, told) in [
        (&["-c", "nobody"][..], "there are: calls"),
        (&["-d", "libc"], "libc.so.6"),
        (&["--pid", "1"], "process --pid 1; there are: "),
        (&["--tid", "1,2"], "thread --tid 1, 2; there are: "),
        (&["-C", "0"], "record with --sample-cpu"),
        (&["--time", "1,2"], "they are from "),
        (&["-d", "libc.so.6", "-S", "leaf"], "leave one of them out"),
        (&["-p", "("], "unclosed group"),
        (&["-x"], "say which with -p"),
        (&["--symbol-filter", "nowhere"], "in its name; there are: "),
        (&["--kallsyms", "/nowhere"], "a copy of /proc/kallsyms"),
        (&["-k", "/nowhere"], "give the vmlinux of"),
        (&["--symfs", "/nowhere"], "stands for the /"),
        (&["-w", "8,wide"], "such as 8,20,30"),
        (&["--max-stack", "all"], "such as 16"),
        (&["-D"], "use prof dump"),
        (&["--parallelism", "2"], "record with --switch-events"),
        (&["--ignore-callees=("], "unclosed group"),
        (&["-F", "nonsense"], "overhead_children"),
        (&["-g", "nonsense"], "fractal"),
        (&["--percent-limit", "200"], "between 0 and 100"),
    ] {
        let (_, errors) = said(&[&["report", "--stdio"], filter].concat());
        assert!(errors.contains(told), "{filter:?}: {errors}");
    }
    let (code, errors) = said(&["annotate", "lea"]);
    assert_ne!(code, Some(0), "{errors}");
    assert!(errors.contains("leaf"), "{errors}");
    let (code, errors) = said(&["flamegraph", "-c", "nobody"]);
    assert_eq!(code, Some(1), "{errors}");
    assert!(errors.contains("nothing to draw"), "{errors}");
}

/// Address and share of each instruction in an annotated function.
fn instructions(text: &str) -> Vec<(String, String)> {
    let parts = |line: &str| {
        let (share, rest) = line.split_once(" : ")?;
        let (address, _) = rest.trim_start().split_once(':')?;
        let is_address = address.bytes().all(|byte| byte.is_ascii_hexdigit());
        let share = share.trim();
        (is_address && !share.is_empty()).then(|| (address.to_owned(), share.to_owned()))
    };
    text.lines().filter_map(parts).collect()
}

/// The functions of a program that samples were taken in, as perf names
/// them; without templates, whose names perf does not take back.
fn functions_with_samples(recording: &str, program: &str) -> Vec<String> {
    let args = [
        "report",
        "--stdio",
        "-q",
        "--no-inline",
        "--no-children",
        "-g",
        "none",
        "-t;",
        "-F",
        "overhead,dso,sym",
        "-i",
        recording,
    ];
    let text = perf(&args).succeeded("perf report").text();
    let rows = text.lines().map(|line| line.split(';').collect::<Vec<_>>());
    let of_program = rows.filter(|row| row.len() == 3 && row[1] == program);
    let names = of_program.filter_map(|row| row[2].trim().strip_prefix("[.] ").map(str::to_owned));
    names.filter(|name| !name.contains('<')).collect()
}

#[test]
fn the_share_of_each_instruction_equals_perfs() {
    let test = "the_share_of_each_instruction_equals_perfs";
    let Some(files) = recordings(test) else {
        return;
    };
    if !have(test, "objdump") {
        return;
    }
    for (file, program) in [(&files[0], "report-calls-"), (&files[1], "report-threads-")] {
        // A sample in a stub is perf's of another function.
        let file = chosen(file, Keep::Unnamed);
        let path = file.to_str().expect("a path of ours");
        let script = perf(&["script", "--no-inline", "-F", "dso,ip", "-i", path]);
        let script = script.succeeded("perf script").text();
        let mut names = script
            .split(['/', ')'])
            .filter(|name| name.starts_with(program));
        let program = names.next().expect("a sample in the program");
        let functions = functions_with_samples(path, program);
        assert!(functions.len() > 1, "{functions:?}");
        for function in functions {
            let args = ["annotate", "--stdio", "-i", path, &function];
            let theirs = perf(&args).succeeded("perf annotate").text();
            // Of a function that was also inlined elsewhere we show that
            // place, too, with the weight it has there.
            let args = [&args[..], &["--no-inline"]].concat();
            let ours = prof(&args).succeeded("prof annotate").text();
            let (theirs, ours) = (instructions(&theirs), instructions(&ours));
            assert!(theirs.len() > 1, "{function}: {theirs:?}");
            assert_eq!(theirs, ours, "{function}");
        }
    }
}

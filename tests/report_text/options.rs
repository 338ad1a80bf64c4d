//! Options given to both tools, over all recordings.

use super::{compare, is_of, lines_of_ours, lines_of_perf, of_lines, own_code, record, recordings};
use crate::chosen::{Keep, chosen};
use crate::oracle::{compiled, have, perf, prof, scratch};
use std::path::{Path, PathBuf};

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
    "--percentage relative --symbol-filter lea --no-children -g none",
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

#[test]
fn a_time_without_samples_has_no_table_as_in_perf() {
    if !have("a_time_without_samples", "perf") {
        return;
    }
    let file = scratch().join("a-time-without-samples.data");
    let work = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
    let shell = format!("{work}; sleep 0.5; {work}");
    let file_name = file.display().to_string();
    let words = ["record", "-q", "-g", "-e", "cpu-clock:u", "-o", &file_name];
    let command = ["sh", "-c", &shell].map(str::to_owned);
    let words = words.map(str::to_owned).into_iter().chain(command);
    perf(&words.collect::<Vec<_>>()).succeeded("perf record");
    let middle = "--time 45%-55%";
    compare(std::slice::from_ref(&file), &[middle]);
    let ours = prof(&["report", "--stdio", "--time", "45%-55%", "-i", &file_name]);
    assert!(
        !ours.text().contains("Samples:") && ours.stderr.contains("no sample was taken in --time"),
        "{}{}",
        ours.text(),
        ours.stderr
    );
}

#[test]
fn the_text_equals_perfs_on_the_same_file() {
    let test = "the_text_equals_perfs_on_the_same_file";
    let Some(files) = recordings(test) else {
        return;
    };
    let named = |wanted: &dyn Fn(&Path) -> bool| -> Vec<PathBuf> {
        let files = files.iter().filter(|file| wanted(file));
        files.map(|file| chosen(file, Keep::Named)).collect()
    };
    let all: Vec<&str> = COMBINATIONS
        .iter()
        .chain(MORE_COMBINATIONS)
        .copied()
        .collect();
    let by_symbol = all.iter().copied().filter(|it| is_by_symbol_alone(it));
    // What else these show, they show with more rows in the next test.
    let unnamed = named(&has_rows_without_name);
    compare(&unnamed, &by_symbol.collect::<Vec<_>>());
    let threads = named(&|file| is_of(file, "threads"));
    compare(&threads, &all);
    let others = named(&|file| !has_rows_without_name(file) && !is_of(file, "threads"));
    compare(&others, COMBINATIONS);
    compare(&[own_code(files)], &of_lines(MORE_COMBINATIONS));
}

/// Whether rows without a name are compared of the recording, too: stacks that
/// break and stripped programs.
fn has_rows_without_name(file: &Path) -> bool {
    is_of(file, "calls") || is_of(file, "shell")
}

fn is_by_symbol_alone(combination: &str) -> bool {
    combination.contains("sym") && !combination.contains("dso")
}

#[test]
fn rows_without_a_name_equal_perfs() {
    let test = "rows_without_a_name_equal_perfs";
    let Some(files) = recordings(test) else {
        return;
    };
    let files = files.iter().filter(|file| has_rows_without_name(file));
    let files: Vec<PathBuf> = files.map(|file| chosen(file, Keep::Unnamed)).collect();
    let combinations = COMBINATIONS.iter().chain(MORE_COMBINATIONS).copied();
    let combinations = combinations.filter(|it| !is_by_symbol_alone(it));
    compare(&files, &combinations.collect::<Vec<_>>());
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

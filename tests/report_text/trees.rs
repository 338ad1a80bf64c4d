//! `--hierarchy`: a tree of the sort keys.

use super::{compare, compare_with_newest, is_one_of_three, of_lines, own_code, recordings};
use crate::chosen::{Keep, chosen};
use crate::oracle::prof;
use std::path::PathBuf;

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

//! Options of `prof annotate` against `perf annotate` on the same file: the
//! lines of instructions with what stands in front of them.
//!
//! Not compared: shares of everything (`--percent-type global-…`), for which
//! perf 6.1 prints the local ones or 0.00.

use crate::oracle::{compiled, have, perf, prof, prof_command, recorded_by_perf, scratch};
use std::fs;
use std::process::Command;

/// The lines of instructions in a listing, without trailing spaces, and
/// without the source line that perf sets behind some of them with `-l`: ours
/// stand between the instructions.
fn instructions(listing: &str) -> Vec<&str> {
    let is_instruction = |line: &&str| {
        let (figures, rest) = line.split_once(" :   ").unwrap_or_default();
        let is_figure = |c: char| c.is_ascii_digit() || c == '.' || c == ' ';
        let (address, _) = rest.split_once(':').unwrap_or_default();
        !figures.trim().is_empty()
            && figures.chars().all(is_figure)
            && !address.is_empty()
            && address.chars().all(|c| c.is_ascii_hexdigit())
    };
    let lines = listing.lines().filter(is_instruction);
    lines
        .map(|line| line.split(" // ").next().unwrap_or(line).trim_end())
        .collect()
}

#[test]
fn figures_in_front_of_instructions_equal_perfs() {
    let test = "figures_in_front_of_instructions_equal_perfs";
    let Some(program) = compiled(test, "steady-calls.c", &["-g", "-O1"]) else {
        return;
    };
    if !have(test, "perf") {
        return;
    }
    let program = program.to_str().expect("a plain name");
    let recordings = [
        ("apart", ["-e", "cpu-clock:u,task-clock:u"]),
        ("group", ["-e", "{cpu-clock:u,page-faults:u}"]),
    ];
    for (name, events) in recordings {
        let options = [&["-F", "999"][..], &events].concat();
        let path = &recorded_by_perf(&format!("{test}-{name}"), &options, &[program, "20"]);
        for options in [
            &[][..],
            &["-n"],
            &["--show-total-period"],
            &["--percent-type", "local-hits"],
            &["--asm-raw"],
            &["-q", "-l", "-P"],
            &["--group"],
        ] {
            let args = [&["annotate", "--stdio", "-i", path, "mix"][..], options].concat();
            let theirs = perf(&args).succeeded("perf annotate").text();
            let ours = prof(&args).succeeded("prof annotate").text();
            let (theirs, ours) = (instructions(&theirs), instructions(&ours));
            assert!(theirs.len() > 10, "{options:?}: {theirs:?}");
            assert_eq!(theirs, ours, "{name} {options:?}");
        }
    }
}

#[test]
fn source_lines_come_heaviest_first() {
    let test = "source_lines_come_heaviest_first";
    let Some(program) = compiled(test, "steady-calls.c", &["-g", "-O1"]) else {
        return;
    };
    if !have(test, "perf") {
        return;
    }
    let program = program.to_str().expect("a plain name");
    let options = ["-e", "cpu-clock:u", "-F", "999"];
    let path = &recorded_by_perf(test, &options, &[program, "20"]);
    for paths in [&[][..], &["-P"]] {
        let args = [&["annotate", "--stdio", "-l", "-i", path, "mix"][..], paths].concat();
        let summary = |text: &str| -> Vec<String> {
            let lines = text.lines().skip_while(|line| !line.starts_with("Sorted"));
            let lines = lines.take_while(|line| !line.starts_with(" Percent"));
            lines.map(str::to_owned).collect()
        };
        let theirs = summary(&perf(&args).succeeded("perf annotate").text());
        let ours = summary(&prof(&args).succeeded("prof annotate").text());
        assert!(theirs.len() > 3, "{theirs:?}");
        assert_eq!(theirs, ours, "{paths:?}");
    }
}

/// Code that reads and writes data before and behind it, shifts by one,
/// multiplies in place, and calls through a table.
const OPERANDS: &str = "
    #include <string.h>
    volatile int count; double factor = 1.5; static long table[100]; char bytes[4096];
    static long half(long x) { return x >> 1; }
    static long twice(long x) { return x << 1; }
    long (*const way[])(long) = {half, twice};
    __attribute__((noinline)) double work(long i) {
        count += i;
        table[i % 100] *= 0x51eb851f;
        factor *= 1.0000001;
        memset(bytes, i, 7);
        return factor + 2.25 + way[i & 1](i) + (long)work;
    }
    int main(void) {
        double sum = 0;
        for (long i = 0; i < 30000000; i++) sum += work(i);
        return sum == 0;
    }";

#[test]
fn whole_functions_read_as_perf_has_them_in_both_syntaxes() {
    let test = "whole_functions_read_as_perf_has_them_in_both_syntaxes";
    if !have(test, "perf") || !have(test, "gcc") {
        return;
    }
    let source = scratch().join(format!("{test}.c"));
    std::fs::write(&source, OPERANDS).expect("written");
    for flags in [["-O2", "-pie"], ["-O1", "-no-pie"], ["-O0", "-pie"]] {
        let program = scratch().join(format!("{test}{}{}", flags[0], flags[1]));
        let built = std::process::Command::new("gcc")
            .args(flags)
            .arg("-o")
            .args([&program, &source])
            .status();
        assert!(built.expect("gcc starts").success(), "it compiles");
        let program = program.to_str().expect("a plain name");
        let path = &recorded_by_perf(test, &["-F", "999"], &[program]);
        for syntax in ["intel", "att"] {
            let args = ["annotate", "--stdio", "-M", syntax, "-i", path, "work"];
            let theirs = perf(&args).succeeded("perf annotate").text();
            let ours = prof(&args).succeeded("prof annotate").text();
            // Without source lines, perf has another space there.
            let texts = |listing: &str| -> Vec<String> {
                let lines = listing.lines().filter_map(|line| line.split_once(" :   "));
                let texts = lines.filter(|(figure, _)| !figure.trim().is_empty());
                let words = texts.map(|(_, text)| text.split_whitespace().collect::<Vec<_>>());
                words.map(|words| words.join(" ")).collect()
            };
            let theirs = texts(&theirs);
            assert!(theirs.iter().any(|it| it.contains("# ")), "{theirs:#?}");
            assert_eq!(theirs, texts(&ours), "{flags:?} {syntax}");
        }
    }
}

#[test]
fn sources_of_rusts_library_are_those_that_rustup_installed() {
    let test = "sources_of_rusts_library_are_those_that_rustup_installed";
    let flags = ["-g", "-Copt-level=2", "--edition=2021"];
    let Some(program) = compiled(test, "report-inline.rs", &flags) else {
        return;
    };
    let recording = scratch().join(format!("{test}.data"));
    let path = recording.to_str().expect("a plain name");
    let command = program.to_str().expect("a plain name");
    let recorded = prof(&[
        "record",
        "-q",
        "-e",
        "cpu-clock:u",
        "-F",
        "999",
        "-o",
        path,
        "--",
        command,
    ]);
    recorded.succeeded("prof record");
    let version = Command::new("rustc").arg("-vV").output().expect("rustc");
    let version = String::from_utf8_lossy(&version.stdout).into_owned();
    let mut lines = version.lines();
    let commit = lines.find_map(|line| line.strip_prefix("commit-hash: "));
    let commit = commit.expect("rustc tells its commit");
    // A toolchain that has sources of this version: each line tells its number.
    let home = tempfile::tempdir().expect("a folder");
    let rustlib = home.path().join("toolchains/some/lib/rustlib");
    let sorting = "library/core/src/slice/sort";
    for file in ["shared/smallsort.rs", "stable/quicksort.rs"] {
        let file = rustlib.join("src/rust").join(sorting).join(file);
        fs::create_dir_all(file.parent().expect("one")).expect("writable");
        let text: String = (1..2000)
            .map(|line| format!("// source {line}\n"))
            .collect();
        fs::write(file, text).expect("writable");
    }
    let annotated = |manifest: &str| {
        let manifest = format!("[pkg.rust-src]\nversion = \"1.0.0 ({manifest} 2026-01-01)\"\n");
        fs::write(rustlib.join("multirust-channel-manifest.toml"), manifest).expect("writable");
        let mut command = prof_command();
        command.args(["annotate", "--stdio", "-i", path]);
        let shown = command
            .env("RUSTUP_HOME", home.path())
            .env("HOME", home.path());
        let shown = shown.output().expect("prof starts");
        assert!(shown.status.success(), "{shown:?}");
        String::from_utf8_lossy(&shown.stdout).into_owned()
    };
    let shown = annotated(&commit[..9]);
    // A line of the listing: number and text.
    let told: Vec<(&str, &str)> = shown
        .lines()
        .filter_map(|line| line.split_once("// source "))
        .filter_map(|(before, told)| Some((before.split_whitespace().last()?, told.trim())))
        .collect();
    assert!(told.len() > 5, "{shown}");
    for (number, told) in told {
        assert_eq!(number, told, "{shown}");
    }
    // Sources of another version are not shown.
    let shown = annotated("000000000");
    assert!(!shown.contains("// source "), "{shown}");
}

/// A source that is newer than its program, or gone, is told beside the listing.
#[test]
fn sources_that_may_be_others_are_told() {
    let test = "sources_that_may_be_others_are_told";
    if !have(test, "gcc") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (source, program) = (folder.path().join("hot.c"), folder.path().join("hot"));
    let text = "volatile int sink;\nint main(void)\n{\n\tfor (int i = 0; i < 100000000; i++)\n\t\tsink++;\n}\n";
    fs::write(&source, text).expect("writable");
    let built = Command::new("gcc")
        .args(["-O1", "-g", "-o"])
        .args([&program, &source])
        .status();
    assert!(built.expect("gcc starts").success());
    let data = folder.path().join("hot.data");
    let mut record = prof_command();
    record
        .args(["record", "-q", "-e", "cpu-clock:u", "--no-embed", "-o"])
        .arg(&data)
        .arg("--");
    let recorded = record.arg(&program).status();
    assert!(recorded.expect("prof starts").success());
    let said = || {
        let data = data.to_str().expect("UTF-8");
        let shown = prof(&["annotate", "--stdio", "-i", data, "main"]);
        assert_eq!(shown.code, 0, "{}", shown.stderr);
        shown.stderr
    };
    let written = |after: u64| {
        let about = fs::metadata(&program).and_then(|about| about.modified());
        let time = about.expect("a time") + std::time::Duration::from_secs(after);
        let file = fs::File::options()
            .append(true)
            .open(&source)
            .expect("there");
        file.set_modified(time).expect("ours");
    };
    written(0);
    assert!(!said().contains("hot.c"), "{}", said());
    written(5);
    assert!(
        said().contains("hot.c is newer than the program"),
        "{}",
        said()
    );
    fs::remove_file(&source).expect("there");
    assert!(said().contains("hot.c is not here"), "{}", said());
}

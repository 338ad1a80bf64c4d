//! Names inside the recording: every view says the same when the program, its
//! sources and all libraries are gone.

use crate::oracle::{compiled, copy_program, excerpt, have, is_root, prof, prof_command, scratch};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is shown of a recording.
const VIEWS: [&[&str]; 7] = [
    &["report", "--stdio"],
    &["report", "--json"],
    &["report", "--stdio", "--no-inline"],
    &["flamegraph"],
    &["script"],
    &["script", "-F", "ip,sym,symoff,dso,srcline"],
    &["annotate", "--stdio"],
];

/// Records a program, with names and sources in the file.
fn record(test: &str, program: &Path, options: &[&str]) -> PathBuf {
    let data = scratch().join(format!("{test}.data"));
    let mut command = prof_command();
    command.args(["record", "-q", "-g", "-e", "cpu-clock", "-F", "999"]);
    // A debug build beside other tests may take long.
    command.args(["--embed-time", "60000"]).args(options);
    let recorded = command.arg("-o").arg(&data).arg("--").arg(program);
    let recorded = recorded.output().expect("prof starts");
    assert!(recorded.status.success(), "{recorded:?}");
    data
}

/// A folder that holds nothing but `prof`, what that needs to run, and a
/// recording.
struct Empty {
    root: tempfile::TempDir,
}

impl Empty {
    fn new(data: &Path) -> Self {
        let root = tempfile::tempdir().expect("a folder");
        let put = |from: &Path, to: &Path| {
            let to = root.path().join(to.strip_prefix("/").unwrap_or(to));
            fs::create_dir_all(to.parent().expect("one")).expect("made");
            fs::copy(from, to).expect("copied");
        };
        let program = Path::new(env!("CARGO_BIN_EXE_prof"));
        put(program, Path::new("/prof"));
        let needs = Command::new("ldd").arg(program).output().expect("ldd");
        let needs = String::from_utf8_lossy(&needs.stdout).into_owned();
        let libraries = needs
            .split_whitespace()
            .filter(|word| word.starts_with('/'));
        libraries.for_each(|library| put(Path::new(library), Path::new(library)));
        put(data, data);
        Self { root }
    }

    fn run(&self, arguments: &[&str]) -> Vec<u8> {
        let mut command = Command::new("chroot");
        let command = command.arg(self.root.path()).arg("/prof").args(arguments);
        command.output().expect("chroot starts").stdout
    }
}

/// Shows the recording, hides these files, and shows it where nothing else is.
fn compare(data: &Path, gone: &[&Path]) {
    let path = data.to_str().expect("UTF-8");
    let with_input = |view: &[&'static str]| [view, &["-i", path]].concat();
    let shown = VIEWS.map(|view| prof(&with_input(view)).succeeded("a view").stdout);
    gone.iter()
        .for_each(|file| fs::remove_file(file).expect("removed"));
    let empty = Empty::new(data);
    for (view, before) in VIEWS.iter().zip(shown) {
        assert!(!before.is_empty(), "{view:?}");
        let after = empty.run(&with_input(view));
        if before != after {
            let lines = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
            let (before, after) = (lines(&before), lines(&after));
            let differs = before
                .lines()
                .zip(after.lines())
                .find(|(one, other)| one != other);
            panic!("{view:?} of {path}: {differs:?}");
        }
    }
}

#[test]
fn c_and_the_kernel_are_shown_alike_in_an_empty_root() {
    let test = "c_and_the_kernel_are_shown_alike_in_an_empty_root";
    if !is_root() {
        eprintln!("skipped {test}: chroot needs root");
        return;
    }
    let Some(program) = compiled(test, "report-inlined.c", &["-O2", "-g"]) else {
        return;
    };
    let data = record(test, &program, &["--embed=source"]);
    compare(&data, &[&program]);
}

#[test]
fn cpp_is_shown_alike_in_an_empty_root() {
    let test = "cpp_is_shown_alike_in_an_empty_root";
    if !is_root() {
        eprintln!("skipped {test}: chroot needs root");
        return;
    }
    let Some(program) = compiled(test, "report-threads.cc", &["-O2", "-g", "-pthread"]) else {
        return;
    };
    let data = record(test, &program, &["--embed=source"]);
    compare(&data, &[&program]);
}

#[test]
fn rust_is_shown_alike_in_an_empty_root() {
    let test = "rust_is_shown_alike_in_an_empty_root";
    if !is_root() || !have(test, "rustc") {
        return;
    }
    let program = scratch().join(test);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/programs/report-inline.rs");
    let mut build = Command::new("rustc");
    let built = build.args(["-O", "-g", "-o"]).arg(&program).arg(source);
    assert!(built.status().expect("rustc starts").success());
    let data = record(test, &program, &["--embed=source"]);
    compare(&data, &[&program]);
}

#[test]
fn go_is_shown_alike_in_an_empty_root() {
    let test = "go_is_shown_alike_in_an_empty_root";
    if !is_root() || !have(test, "go") {
        return;
    }
    let program = scratch().join(test);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/programs/goroutines.go");
    let mut build = Command::new("go");
    let build = build.args(["build", "-o"]).arg(&program).arg(source);
    assert!(
        build
            .env("GO111MODULE", "off")
            .status()
            .expect("go starts")
            .success()
    );
    let data = record(test, &program, &["--embed=source"]);
    compare(&data, &[&program]);
}

#[test]
fn run_time_code_is_shown_alike_when_its_map_is_gone() {
    let test = "run_time_code_is_shown_alike_when_its_map_is_gone";
    let Some(program) = compiled(test, "jit.c", &["-O2"]).filter(|_| is_root()) else {
        return;
    };
    let data = scratch().join(format!("{test}.data"));
    let mut command = prof_command();
    command.args(["record", "-q", "-F", "999", "--embed-time", "60000", "-o"]);
    let command = command.arg(&data).arg("--").arg(&program);
    let ran = command.args(["@0 10 first", "@1 10 second", "wrong"]);
    let ran = ran.output().expect("prof starts");
    assert!(ran.status.success(), "{ran:?}");
    let map = PathBuf::from(String::from_utf8_lossy(&ran.stdout).trim());
    compare(&data, &[&program, &map]);
    let path = data.to_str().expect("UTF-8");
    let text = prof(&["report", "--stdio", "-i", path])
        .succeeded("report")
        .text();
    assert!(text.contains("first") && text.contains("second"), "{text}");
    // Another process has the number now, and names of its own.
    fs::write(&map, "0 ffffffffffff other\n").expect("written");
    let again = prof(&["report", "--stdio", "-i", path])
        .succeeded("report")
        .text();
    fs::remove_file(&map).expect("removed");
    assert_eq!(text, again);
}

#[test]
fn a_program_that_was_built_anew_gives_no_wrong_name() {
    let test = "a_program_that_was_built_anew_gives_no_wrong_name";
    // Without a build-id nothing but the recording knows which build it was.
    for (number, id) in ["-Wl,--build-id=sha1", "-Wl,--build-id=none"]
        .iter()
        .enumerate()
    {
        let name = format!("{test}{number}");
        let Some(program) = compiled(&name, "report-calls.c", &["-O1", "-g", id]) else {
            return;
        };
        let data = record(&name, &program, &["--embed=source"]);
        let path = data.to_str().expect("UTF-8");
        let text = || {
            prof(&["report", "--stdio", "-i", path])
                .succeeded("report")
                .text()
        };
        let before = text();
        let other = compiled(
            &format!("{name}-other"),
            "report-inlined.c",
            &["-O1", "-g", id],
        );
        fs::copy(other.expect("a compiler"), &program).expect("replaced");
        assert_eq!(before, text(), "{id}");
    }
}

#[test]
fn what_is_returned_to_is_named_by_its_call_or_by_itself_if_there_is_none() {
    // covers live: CTX-06
    let test = "first-bytes";
    let keeps = [
        "-O1",
        "-fno-omit-frame-pointer",
        "-fno-optimize-sibling-calls",
    ];
    let Some(built) = compiled(test, "put-on-stack.c", &keeps) else {
        return;
    };
    for (mode, named, other) in [
        ("put", "put_there", "enter"),
        ("called", "ends_in_call", "is_next"),
    ] {
        let program = scratch().join(format!("{test}-{mode}"));
        copy_program(&built, &program);
        let data = program.with_extension("data");
        let recorded = prof_command()
            .args(["record", "-q", "--call-graph", "fp", "-e", "cpu-clock:u"])
            .args(["-F", "999", "--embed-time", "60000", "-o"])
            .args([&data, &program])
            .args([mode, "200"])
            .output();
        assert!(recorded.expect("prof starts").status.success());
        for state in ["there", "gone"] {
            let data = data.to_str().expect("a name");
            let text = prof(&["script", "-i", data, "-F", "ip,sym"]).succeeded("script");
            let text = text.text();
            let times = |name: &str| text.lines().filter(|line| line.ends_with(name)).count();
            assert!(times(named) > 50, "{mode}, {state}: {}", excerpt(&text));
            assert_eq!(times(other), 0, "{mode}, {state}");
            // The second time by what the recording carries.
            let _ = fs::remove_file(&program);
        }
    }
}

#[test]
fn what_is_missing_is_told_with_why_and_what_helps() {
    let test = "what_is_missing_is_told_with_why_and_what_helps";
    let Some(program) = compiled(test, "report-calls.c", &["-O1", "-g0"]) else {
        return;
    };
    let data = record(test, &program, &[]);
    let path = data.to_str().expect("UTF-8");
    let told = prof(&["report", "--missing", "-i", path]).succeeded("report --missing");
    let text = told.text();
    let at = text
        .find(program.to_str().expect("UTF-8"))
        .expect("its dso");
    let of_program: Vec<&str> = text[at..].lines().take(4).collect();
    assert!(of_program[1].contains("no debug information"), "{text}");
    assert!(
        of_program.iter().any(|line| line.contains("-g (gcc")),
        "{text}"
    );
}

#[test]
fn no_embed_leaves_names_out_and_an_archive_has_them() {
    let test = "no_embed_leaves_names_out_and_an_archive_has_them";
    let Some(program) = compiled(test, "report-calls.c", &["-O1", "-g"]) else {
        return;
    };
    let data = record(test, &program, &["--no-embed"]);
    let path = data.to_str().expect("UTF-8");
    let told = |path: &str| {
        let dump = prof(&["dump", "--header", "-i", path]);
        dump.text().contains("names of what was sampled")
    };
    assert!(!told(path));
    let shown = |path: &str| {
        prof(&["report", "--stdio", "-i", path])
            .succeeded("report")
            .stdout
    };
    let before = shown(path);
    let archive = format!("{path}.zst");
    prof(&["archive", path]).succeeded("archive");
    prof(&["archive", "--in-place", path]).succeeded("archive --in-place");
    let length = fs::metadata(&data).expect("there").len();
    prof(&["archive", "--in-place", path]).succeeded("once more");
    assert_eq!(
        fs::metadata(&data).expect("there").len(),
        length,
        "in its place"
    );
    assert!(told(path) && told(&archive));
    fs::remove_file(&program).expect("removed");
    assert_eq!(before, shown(path));
    assert_eq!(before, shown(&archive));
    // A file that is damaged where the names are says so once.
    let mut bytes = fs::read(&data).expect("read");
    let at = bytes.windows(8).rposition(|window| window == b"PROFSYM1");
    let at = at.expect("names");
    bytes[at + 8..at + 16].fill(0x7f);
    fs::write(&data, bytes).expect("written");
    let report = prof(&["report", "--stdio", "-i", path]);
    let told = report.stderr.matches("claim to unpack").count();
    assert_eq!(told, 1, "{}", report.stderr);
}

#[test]
fn what_time_leaves_out_is_told_and_an_archive_has_it() {
    let test = "what_time_leaves_out_is_told_and_an_archive_has_it";
    let Some(shared) = compiled(test, "report-calls.c", &["-O1", "-g", "-fno-common"]) else {
        return;
    };
    // Other tests have what is compiled alike.
    let program = scratch().join(format!("{test}-program"));
    copy_program(&shared, &program);
    let data = scratch().join(format!("{test}.data"));
    let mut command = prof_command();
    command.args(["record", "-g", "-e", "cpu-clock", "-F", "999"]);
    // No time at all: whatever the machine, it does not suffice.
    command.args(["--embed-time", "0", "-o"]).arg(&data);
    let recorded = command.arg("--").arg(&program).output();
    let recorded = recorded.expect("prof starts");
    let told = String::from_utf8_lossy(&recorded.stderr);
    assert!(recorded.status.success(), "{told}");
    assert!(
        told.contains("not all names and lines are in the file"),
        "{told}"
    );
    assert!(told.contains("prof archive adds the rest"), "{told}");
    let path = data.to_str().expect("UTF-8");
    let shown = || {
        prof(&["report", "--stdio", "-i", path])
            .succeeded("report")
            .stdout
    };
    let before = shown();
    prof(&["archive", "--in-place", path]).succeeded("archive --in-place");
    fs::remove_file(&program).expect("removed");
    assert_eq!(before, shown());
}

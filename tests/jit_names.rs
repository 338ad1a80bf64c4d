//! Names of code that was made at run time, from the files in which runtimes
//! write them down.

use crate::oracle::{compiled, have, perf, prof, prof_command, scratch};
use serde_json::Value;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::Command;

/// A recording of `fixtures/programs/jit.c` and the perf map that it left.
struct Recorded {
    data: PathBuf,
    map: PathBuf,
}

impl Drop for Recorded {
    fn drop(&mut self) {
        // It may have become a directory.
        let _ = fs::remove_file(&self.map).or_else(|_| fs::remove_dir(&self.map));
    }
}

/// Builds the program; `None` without a compiler.
fn program(test: &str) -> Option<PathBuf> {
    compiled(test, "jit.c", &["-O2"])
}

/// Records the program with these lines in its perf map.
fn record(test: &str, lines: &[&str]) -> Option<Recorded> {
    record_in(test, None, lines)
}

/// The same; its code is in a memory file of this name, if there is one.
fn record_in(test: &str, memfd: Option<&str>, lines: &[&str]) -> Option<Recorded> {
    let program = program(test)?;
    let data = scratch().join(format!("{test}.data"));
    let output = prof_command()
        .args(["record", "-q", "-F", "999", "-o"])
        .arg(&data)
        .arg("--")
        .arg(&program)
        .args(lines)
        .envs(memfd.map(|name| ("MEMFD", name)))
        .output()
        .expect("prof starts");
    assert!(output.status.success(), "{output:?}");
    let map = String::from_utf8_lossy(&output.stdout).trim().into();
    Some(Recorded { data, map })
}

fn report(recorded: &Recorded) -> Value {
    let data = recorded.data.to_str().expect("UTF-8");
    let output = prof(&["report", "--json", "-i", data]).succeeded("report");
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Causes of what the report does not name or left out.
fn causes(report: &Value) -> Vec<String> {
    let caveats = report["trust"]["caveats"].as_array().expect("a list");
    let text = |caveat: &Value| format!("{}: {}", caveat["what"], caveat["cause"]);
    caveats.iter().map(text).collect()
}

/// The rows of the report's text: share and symbol.
fn rows(recorded: &Recorded) -> Vec<(f64, String)> {
    let data = recorded.data.to_str().expect("UTF-8");
    let output = prof(&["report", "--stdio", "-s", "sym", "-i", data]).succeeded("report");
    let row = |line: &str| {
        let (share, symbol) = line.trim().split_once('%')?;
        Some((share.parse().ok()?, symbol.trim().to_owned()))
    };
    output.text().lines().filter_map(row).collect()
}

/// The JDK writes `0x` before the size, too; and one function whose code is
/// in two places is one row.
#[test]
fn a_map_as_the_jdk_writes_it_names_code_and_one_function_is_one_row() {
    let jdk = ["0x0000@0 0x000000000000000c java.lang.Object::hash"];
    let both = [jdk[0], "@1 c java.lang.Object::hash"];
    let Some(recorded) = record("jdk-map", &both) else {
        return;
    };
    let rows = rows(&recorded);
    let is_ours = |row: &&(f64, String)| row.1.ends_with("java.lang.Object::hash");
    let ours: Vec<_> = rows.iter().filter(is_ours).collect();
    assert_eq!(ours.len(), 1, "{rows:?}");
    assert!(ours[0].0 > 50.0, "{rows:?}");
    assert!(
        !causes(&report(&recorded))
            .iter()
            .any(|cause| cause.contains("perf map")),
        "nothing to complain of"
    );
    if have("jdk-map", "perf") {
        let data = recorded.data.to_str().expect("UTF-8");
        let theirs = perf(&["report", "--stdio", "-s", "sym", "-f", "-i", data]);
        assert!(
            theirs.text().contains("java.lang.Object::hash"),
            "{}",
            theirs.text()
        );
    }
}

/// .NET and Erlang write their code through a second mapping of a memory file.
#[test]
fn code_in_a_memory_file_of_a_runtime_is_named() {
    for memfd in ["doublemapper", "vmem"] {
        let lines = ["@0 c secret", "@1 c secret"];
        let Some(recorded) = record_in("code-memfd", Some(memfd), &lines) else {
            return;
        };
        assert!(is_named(&recorded), "{memfd}: {:?}", rows(&recorded));
        let causes = causes(&report(&recorded));
        let is_gone = |cause: &String| cause.contains("the file is gone");
        assert!(!causes.iter().any(is_gone), "{causes:#?}");
    }
}

#[test]
fn refused_lines_are_told_with_their_number_and_reason() {
    let lines = ["@0 c good", "@1 0 nothing", "@1 zz bad", "@1", "junk"];
    let Some(recorded) = record("refused-lines", &lines) else {
        return;
    };
    let causes = causes(&report(&recorded));
    let path = recorded.map.display();
    for wanted in [
        format!("\"once\": \"a line of a perf map was refused: its size is 0 ({path}:2)\""),
        format!(
            "\"2 times\": \"a line of a perf map was refused: no hexadecimal size follows the \
             address ({path}:3)\""
        ),
        format!(
            "\"once\": \"a line of a perf map was refused: it does not begin with a hexadecimal \
             address ({path}:5)\""
        ),
    ] {
        assert!(causes.contains(&wanted), "{wanted} in {causes:#?}");
    }
    let unnamed = "code made at run time that its perf map or jitdump does not name";
    assert!(
        causes.iter().any(|cause| cause.contains(unnamed)),
        "{causes:#?}"
    );
}

/// Whether a row has the name that the map gives.
fn is_named(recorded: &Recorded) -> bool {
    let rows = rows(recorded);
    rows.iter().any(|(_, symbol)| symbol.ends_with("secret"))
}

/// What is wrong with a perf map is told as what it is.
#[test]
fn a_map_that_may_not_be_believed_is_refused_for_its_own_reason() {
    let Some(recorded) = record("refused-map", &["@0 c secret", "@1 c secret"]) else {
        return;
    };
    let map = &recorded.map;
    let refused = |reason: &str| {
        let report = report(&recorded);
        let causes = causes(&report);
        assert!(
            causes.iter().any(|cause| cause.contains(reason)),
            "{reason} in {causes:#?}"
        );
        assert!(!is_named(&recorded), "{reason}");
    };
    let text = fs::read_to_string(map).expect("a map");
    for mode in [0o666, 0o664] {
        fs::set_permissions(map, Permissions::from_mode(mode)).expect("set");
        refused("others than its owner can write");
    }
    fs::set_permissions(map, Permissions::from_mode(0o644)).expect("set");
    assert!(is_named(&recorded));
    if fs::metadata(map).expect("there").uid() == 0 {
        std::os::unix::fs::chown(map, Some(12_345), None).expect("given away");
        refused("belongs to another user");
    }
    let again = || {
        let _ = fs::remove_file(map);
        map
    };
    // Beside the map: there are no hard links between file systems.
    let other = map.with_extension("other");
    fs::write(&other, &text).expect("written");
    symlink(&other, again()).expect("linked");
    refused("is a symbolic link");
    fs::hard_link(&other, again()).expect("linked");
    refused("more than one name");
    fs::remove_file(&other).expect("removed");
    let fifo = Command::new("mkfifo").arg(again()).status();
    assert!(fifo.expect("mkfifo starts").success());
    refused("is a FIFO");
    fs::create_dir(again()).expect("made");
    refused("is a directory");
    fs::remove_dir(map).expect("removed");
    let large = fs::File::create(map).expect("created");
    large.set_len((256 << 20) + 1).expect("set");
    refused("larger than 256 MiB");
    again();
    refused("no list of its functions was found");
}

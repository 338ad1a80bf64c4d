//! The header of a recording as text, against perf's to the byte.
//!
//! What is not compared, by reason:
//! - Features that perf 6.1 does not know yet: their lines, and their names
//!   among the missing ones.
//! - The cores of CPUs where perf 6.1 gives up: it takes the numbers of
//!   cores that no machine has for all CPUs' as broken.
//! - `perf script --header-only` of a stream: it ends before it has read any
//!   of the features.
//! - Registers at the interrupt in recordings of the other byte order: perf
//!   6.1 leaves the mask as it stands in the file.
//! - The events of recordings that do not have perf's list of them
//!   (EVENT_DESC): we show what the attrs tell, perf nothing.

use crate::corpus::corpus;
use crate::oracle::{have, perf, prof, scratch};
use std::path::Path;

/// Features of newer perfs, the last in the list of the missing.
const UNKNOWN_TO_PERF: &str = "CPU_DOMAIN_INFO E_MACHINE CLN_SIZE ";

/// What these features say.
const NEW_LINES: [&str; 3] = ["# e_machine : ", "#   e_flags : ", "# cacheline size: "];

const NO_CORES: &str = "# Core ID and Socket ID information is not available";

/// BPF programs, which other tests load meanwhile: perf tells their names and
/// addresses, prof their ids.
const BPF_PROGRAM: &str = "# bpf_prog_info";

fn compare(path: &Path) {
    let path = path.to_str().expect("a UTF-8 path");
    for command in ["report", "script"] {
        for detail in [&["--header-only"][..], &["--header-only", "-I"]] {
            let args = [&[command, "-f", "-i", path][..], detail].concat();
            let theirs = perf(&args).succeeded("perf").text();
            let ours = prof(&args).succeeded("prof").text();
            let ours = ours.replace(UNKNOWN_TO_PERF, "");
            if command == "script" && theirs.contains("# data offset    : 0\n") {
                continue;
            }
            let gives_up = theirs.contains(NO_CORES);
            let is_compared = |line: &&str| {
                let is_core = *line == NO_CORES || line.contains(": Core ID ");
                let is_new = NEW_LINES.iter().any(|start| line.starts_with(start));
                !(gives_up && is_core || is_new || line.starts_with(BPF_PROGRAM))
            };
            let (theirs, ours) = (theirs.split('\n'), ours.split('\n'));
            let theirs: Vec<&str> = theirs.filter(is_compared).collect();
            let ours: Vec<&str> = ours.filter(is_compared).collect();
            let differs = theirs.iter().zip(&ours).find(|(a, b)| a != b);
            assert_eq!(differs, None, "{args:?}");
            assert_eq!(theirs.len(), ours.len(), "{args:?}");
        }
    }
}

#[test]
fn the_header_of_a_recording_equals_perfs() {
    let test = "the_header_of_a_recording_equals_perfs";
    if !have(test, "perf") {
        return;
    }
    let folder = scratch().join(format!("header-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the target folder is writable");
    for (name, options) in [
        ("plain", &["-e", "cpu-clock"][..]),
        ("group", &["-g", "-e", "{cpu-clock:u,task-clock}"]),
        (
            "much",
            &[
                "-d",
                "-W",
                "--intr-regs=ax,sp",
                "-k",
                "CLOCK_MONOTONIC",
                "-s",
            ],
        ),
        ("packed", &["-z", "--call-graph", "dwarf,4096"]),
    ] {
        let file = folder.join(format!("{name}.data"));
        let path = file.to_str().expect("a path of ours");
        let args = [&["record", "-q", "-o", path][..], options, &["--", "true"]].concat();
        perf(&args).succeeded("perf record");
        compare(&file);
        let file = folder.join(format!("{name}-ours.data"));
        let path = file.to_str().expect("a path of ours");
        let unknown_to_us = ["-W", "-z"];
        let own = options.iter().copied();
        let own = own.filter(|option| !unknown_to_us.contains(option));
        let args: Vec<&str> = ["record", "-q", "-o", path]
            .into_iter()
            .chain(own)
            .chain(["--", "true"])
            .collect();
        prof(&args).succeeded("prof record");
        compare(&file);
    }
}

#[test]
fn the_headers_of_kept_recordings_equal_perfs() {
    let test = "the_headers_of_kept_recordings_equal_perfs";
    if !have(test, "perf") {
        return;
    }
    let (folder, expected) = corpus();
    let mut compared = 0;
    for file in expected["files"].as_array().expect("a list") {
        let path = folder.join(file["file"].as_str().expect("a name"));
        let name = path.to_str().expect("a UTF-8 path");
        let args = ["report", "--header-only", "-f", "-i", name];
        let (theirs, ours) = (perf(&args), prof(&args));
        let has_events = theirs.text().contains("# event : name = ");
        // perf 6.1 fails on what newer ones wrote, and reads on in damage.
        let is_swapped = name.contains("bigendian") && name.contains("intrregs");
        if theirs.code != 0 || ours.code != 0 || !has_events || is_swapped {
            continue;
        }
        compare(&path);
        compared += 1;
    }
    assert!(compared > 3, "only {compared} recordings compared");
}

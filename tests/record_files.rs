//! One recording in several files: each stands alone, and none of what was
//! recorded is missing or there twice.

use crate::oracle::{
    Finished, compiled, have, perf_at, perfs, prof, prof_command, scratch, skipped,
};
use crate::patience::wait_until;
use crate::waiting::{end, folder, is_ready, send, with_pipes};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};

/// The recordings of a folder with the time in their names, oldest first.
fn stamped(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("there");
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("an entry").path())
        .collect();
    let is_stamped = |path: &PathBuf| {
        let name = path.file_name().expect("a name").to_string_lossy();
        let stamp = name.strip_prefix("perf.data.").unwrap_or_default();
        stamp.len() == 16 && stamp.bytes().all(|byte| byte.is_ascii_digit())
    };
    files.retain(is_stamped);
    files.sort();
    files
}

/// `prof record` of page faults, each a sample, in a folder.
fn record(folder: &Path, args: &[&str]) -> Command {
    let mut command = prof_command();
    command
        .args(["record", "-e", "page-faults", "-c", "1", "-o"])
        .arg(folder.join("perf.data"))
        .args(args);
    command
}

/// Of each sample thread name and symbol, as perf reads the file alone.
fn samples(perf: &Path, file: &Path) -> Vec<(String, String)> {
    let file = file.to_str().expect("a path of ours");
    let script = perf_at(perf, &["script", "-i", file, "-G", "-F", "comm,ip,sym"]);
    let script = script.succeeded("perf script");
    let text = script.text();
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines
        .map(|line| {
            let mut words = line.split_whitespace();
            let comm = words.next().expect("a name").to_owned();
            let _address = words.next();
            (comm, words.collect::<Vec<_>>().join(" "))
        })
        .collect()
}

/// What the program says it did, and how many samples of it the kernel lost at
/// most, if it could be recorded.
fn touched(test: &str, ended: &Finished) -> Option<(usize, usize)> {
    if ended.stderr.contains("EACCES") {
        skipped(test, &ended.stderr);
        return None;
    }
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let before = ended.stderr.split(" lost").next().expect("a first part");
    let lost = before.rsplit(' ').next().and_then(|lost| lost.parse().ok());
    let lost = lost.unwrap_or_else(|| panic!("{}", ended.stderr));
    Some((ended.text().trim().parse().expect("a number"), lost))
}

#[test]
fn every_event_is_in_one_of_the_files_with_its_names() {
    let test = "every_event_is_in_one_of_the_files_with_its_names";
    let Some(program) = compiled(test, "pages_of_children.c", &["-O1"]) else {
        return;
    };
    if !have(test, "perf") {
        return;
    }
    let program = program.to_str().expect("a path of ours");
    let comm: String = Path::new(program)
        .file_name()
        .expect("a name")
        .to_string_lossy()[..15]
        .into();
    for mode in [
        &[][..],
        &["-g"],
        &["--call-graph", "fp"],
        &["-z"],
        &["-g", "-z=3"],
    ] {
        let folder = folder("record-files-whole");
        let mut args = vec!["--switch-output=100ms"];
        args.extend(mode);
        args.extend([program, "1000"]);
        let ended = Finished::from(record(&folder, &args).output().expect("prof starts"));
        let Some((touched, lost)) = touched(test, &ended) else {
            return;
        };
        let files = stamped(&folder);
        assert!(files.len() > 1 && !folder.join("perf.data").exists());
        for perf in perfs(test) {
            let mut found = 0;
            for (at, file) in files.iter().enumerate() {
                for (name, symbol) in samples(&perf, file) {
                    // In the first file there is what was before exec, too.
                    let is_named = [comm.as_str(), "exe", "program"].contains(&name.as_str());
                    assert!(is_named || at == 0 && name == "prof", "{name} in {file:?}");
                    found += usize::from(symbol == "touch_page");
                }
            }
            let expected = touched - lost.min(touched)..=touched;
            assert!(
                expected.contains(&found),
                "{mode:?}: {found} of {expected:?}"
            );
        }
        std::fs::remove_dir_all(folder).expect("ours");
    }
}

/// A program whose page faults fill rings that are overwritten; their files.
fn overwritten(test: &str, ring: &str) -> Option<(Vec<PathBuf>, usize, PathBuf)> {
    let program = compiled(test, "pages_of_children.c", &["-O1"])?;
    let folder = folder(&format!("record-files-overwritten-{ring}"));
    let mut command = prof_command();
    command
        .args(["record", "-e", "page-faults/overwrite/", "-c", "1", "-m"])
        .args([ring, "--switch-output=100ms", "-o"])
        .arg(folder.join("perf.data"))
        .arg(&program)
        .arg("1500");
    let ended = Finished::from(command.output().expect("prof starts"));
    if ["EACCES", "EPERM"]
        .iter()
        .any(|it| ended.stderr.contains(it))
    {
        skipped(test, &ended.stderr);
        return None;
    }
    let (touched, _) = touched(test, &ended)?;
    let files = stamped(&folder);
    assert!(files.len() > 2, "{}", ended.stderr);
    Some((files, touched, folder))
}

/// How many samples of files are of pages that were touched, with the names
/// of whoever touched them.
fn of_touching(perf: &Path, files: &[PathBuf]) -> usize {
    let samples = files.iter().flat_map(|file| samples(perf, file));
    let touching = samples.filter(|(_, symbol)| symbol == "touch_page");
    let names = touching.inspect(|(name, _)| {
        let is_of_program = name.starts_with("pages_of_child") || name == "exe";
        assert!(is_of_program || name == "program", "{name}");
    });
    names.count()
}

/// Rings that have room are read beside the kernel, which writes on.
#[test]
fn overwritten_rings_that_have_room_lose_nothing_between_files() {
    let test = "overwritten_rings_that_have_room_lose_nothing_between_files";
    if !have(test, "perf") {
        return;
    }
    let Some((files, touched, folder)) = overwritten(test, "8M") else {
        return;
    };
    for perf in perfs(test) {
        assert_eq!(of_touching(&perf, &files), touched, "{files:?}");
    }
    std::fs::remove_dir_all(folder).expect("ours");
}

/// Small ones are paused while they are read, and go on behind it.
#[test]
fn small_overwritten_rings_hold_the_newest_of_each_file() {
    let test = "small_overwritten_rings_hold_the_newest_of_each_file";
    if !have(test, "perf") {
        return;
    }
    let Some((files, touched, folder)) = overwritten(test, "16K") else {
        return;
    };
    // A sample has 48 bytes.
    let most = 16 * 1024 / 48;
    for perf in perfs(test) {
        for file in &files[..files.len() - 1] {
            let found = of_touching(&perf, std::slice::from_ref(file));
            assert!((most / 2..=most * cpus()).contains(&found), "{found}");
        }
        assert!(of_touching(&perf, &files) < touched);
    }
    std::fs::remove_dir_all(folder).expect("ours");
}

/// CPUs that may run the program, of which each has a ring.
fn cpus() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Starts a recording of a shell that waits for its input to end.
fn start(folder: &Path, args: &[&str]) -> Child {
    let args = [args, &["sh", "-c", "echo ready; read line; exit 7"]].concat();
    with_pipes(&mut record(folder, &args))
}

#[test]
fn a_signal_ends_a_file_also_where_nothing_happens() {
    let test = "a_signal_ends_a_file_also_where_nothing_happens";
    let overwritten = ["-e", "minor-faults/overwrite/", "--call-graph", "fp"];
    for stacks in [&[][..], &["-g"], &overwritten] {
        let folder = folder("record-files-signal");
        let mut child = start(&folder, &[&["--switch-output"], stacks].concat());
        if !is_ready(&mut child) {
            return skipped(test, &end(child).stderr);
        }
        for count in 1..4 {
            send(&child, "USR2");
            wait_until("another file", || stamped(&folder).len() == count);
        }
        let ended = end(child);
        assert_eq!(ended.code, 7, "{}", ended.stderr);
        let files = stamped(&folder);
        assert_eq!(files.len(), 4, "{}", ended.stderr);
        assert!(
            ended.stderr.contains("and 3 files before it"),
            "{}",
            ended.stderr
        );
        for file in files {
            let file = file.to_str().expect("a path of ours").to_owned();
            // Each knows the shell, though it was started in the first.
            let dump = prof(&["dump", "-i", &file]).succeeded("prof dump");
            let text = dump.text();
            assert!(
                text.contains("COMM") && text.contains("/sh") || text.contains("/dash"),
                "{text}"
            );
            prof(&["dump", "--header", "-i", &file]).succeeded("prof dump");
        }
    }
}

#[test]
fn only_the_newest_files_stay_where_that_is_asked_for() {
    let test = "only_the_newest_files_stay_where_that_is_asked_for";
    let folder = folder("record-files-newest");
    let mut child = start(&folder, &["--switch-output=signal", "--switch-max-files=2"]);
    if !is_ready(&mut child) {
        return skipped(test, &end(child).stderr);
    }
    let mut seen = Vec::new();
    for _ in 0..4 {
        send(&child, "USR2");
        let before = seen.clone();
        wait_until("another file", || {
            seen = stamped(&folder);
            seen.last() != before.last()
        });
        assert!(seen.len() <= 3, "{seen:?}");
    }
    let ended = end(child);
    assert_eq!(ended.code, 7);
    let told = "and 4 files before it (3 removed: --switch-max-files)";
    assert!(ended.stderr.contains(told), "{}", ended.stderr);
    let left = stamped(&folder);
    assert_eq!(left.len(), 2);
    assert_eq!(left.first(), seen.last());
}

#[test]
fn a_timestamp_is_part_of_the_name_as_perfs() {
    let test = "a_timestamp_is_part_of_the_name_as_perfs";
    let folder = folder("record-files-timestamp");
    let ended = record(&folder, &["--timestamp-filename", "true"]).output();
    let ended = Finished::from(ended.expect("prof starts"));
    if ended.stderr.contains("EACCES") {
        return skipped(test, &ended.stderr);
    }
    let files = stamped(&folder);
    assert_eq!(files.len(), 1, "{}", ended.stderr);
    assert!(ended.stderr.contains(&*files[0].to_string_lossy()));
    assert!(!folder.join("perf.data").exists());
}

#[test]
fn packed_files_are_smaller_and_have_the_same_samples() {
    let test = "packed_files_are_smaller_and_have_the_same_samples";
    let Some(program) = compiled(test, "pages_of_children.c", &["-O1"]) else {
        return;
    };
    if !have(test, "perf") {
        return;
    }
    let folder = folder("record-files-packed");
    let program = program.to_str().expect("a path of ours");
    let args = ["-z", "--call-graph", "fp", program, "500"];
    let ended = Finished::from(record(&folder, &args).output().expect("prof starts"));
    let Some((touched, lost)) = touched(test, &ended) else {
        return;
    };
    let file = folder.join("perf.data");
    let name = file.to_str().expect("a path of ours");
    let header = prof(&["dump", "--header", "-i", name]).succeeded("prof dump");
    assert!(
        header.text().contains("Zstd, level = 1"),
        "{}",
        header.text()
    );
    // A sample with its chain has 64 bytes and more.
    let size = std::fs::metadata(&file).expect("there").len() as usize;
    assert!(
        size < (touched - lost.min(touched)) * 32,
        "{size} for {touched}"
    );
    let own = prof(&["dump", "--stats", "--json", "-i", name]).succeeded("prof dump");
    let own: serde_json::Value = serde_json::from_str(&own.text()).expect("JSON");
    for perf in perfs(test) {
        let samples = samples(&perf, &file).len();
        assert_eq!(own["records"]["SAMPLE"].as_u64(), Some(samples as u64));
    }
    let refused = prof(&["record", "-z", "-o", "-", "true"]);
    assert_eq!(refused.code, 1);
    assert!(
        refused.stderr.contains("through zstd(1)"),
        "{}",
        refused.stderr
    );
}

#[test]
fn streams_have_no_second_file() {
    for option in ["--switch-output=1s", "--timestamp-filename"] {
        let refused = prof(&["record", option, "-o", "-", "true"]);
        assert_eq!(refused.code, 1, "{option}");
        assert!(
            refused.stderr.contains("it is no file"),
            "{}",
            refused.stderr
        );
        assert!(refused.stdout.is_empty());
    }
}

#[test]
fn the_largest_size_holds_within_one_drain() {
    let test = "the_largest_size_holds_within_one_drain";
    let Some(program) = compiled(test, "pages_of_children.c", &["-O1"]) else {
        return;
    };
    let folder = folder("record-files-largest");
    let program = program.to_str().expect("a path of ours");
    // Two rings of 64 KiB hold what one drain can give.
    let args = ["--max-size=1M", "-m", "16", "-C", "0", program, "3000"];
    let ended = Finished::from(record(&folder, &args).output().expect("prof starts"));
    if ended.stderr.contains("EACCES") {
        return skipped(test, &ended.stderr);
    }
    let size = std::fs::metadata(folder.join("perf.data"))
        .expect("there")
        .len();
    assert!(size > 1 << 20, "{size}: {}", ended.stderr);
    let cpus = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    assert!(
        size <= (1 << 20) + (cpus << 16) + (256 << 10),
        "{size}: {}",
        ended.stderr
    );
}

/// Loops so that something happens about every 0.3 s.
const EVENTFUL: &str = "for i in 1 2 3 4; do sleep 0.3; /bin/true; done";

/// The files of a recording with these options, if it was possible.
fn of_events(test: &str, options: &[&str]) -> Option<(tempfile::TempDir, usize, Finished)> {
    let folder = tempfile::tempdir_in(scratch()).expect("a folder");
    let ended: Finished = prof_command()
        .args(["record", "-e", "cpu-clock:u", "-o"])
        .arg(folder.path().join("perf.data"))
        .args(options)
        .args(["--", "sh", "-c", EVENTFUL])
        .output()
        .expect("prof starts")
        .into();
    if ended.stderr.contains("EACCES") {
        skipped(test, &ended.stderr);
        return None;
    }
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let files = stamped(folder.path()).len();
    Some((folder, files, ended))
}

#[test]
fn an_event_ends_a_file() {
    let test = "an_event_ends_a_file";
    // Of the command alone, where this user may watch no more.
    let often = ["--switch-output-event", "page-faults/period=20/u"];
    let Some((folder, files, _)) = of_events(test, &often) else {
        return;
    };
    assert!(files >= 3, "{files} files");
    for perf in perfs(test) {
        for file in stamped(folder.path()) {
            samples(&perf, &file);
        }
    }
    let never = ["--switch-output-event", "page-faults/period=100000000/u"];
    let Some((_folder, files, _)) = of_events(test, &never) else {
        return;
    };
    assert_eq!(files, 1, "it did not occur");
    let dumps = [&often[..], &["--overwrite"]].concat();
    let Some((folder, files, _)) = of_events(test, &dumps) else {
        return;
    };
    assert!(files >= 2, "{files} dumps");
    assert!(folder.path().join("perf.data").exists());
}

#[test]
fn an_event_of_each_exec_ends_a_file() {
    let test = "an_event_of_each_exec_ends_a_file";
    let is_there = Path::new("/sys/kernel/tracing/events/sched/sched_process_exec/id");
    if std::fs::read(is_there).is_err() {
        return skipped(test, "no tracepoints for this user");
    }
    let Some((_folder, files, ended)) =
        of_events(test, &["--switch-output-event", "sched:sched_process_exec"])
    else {
        return;
    };
    assert!(files >= 3, "{files}: {}", ended.stderr);
}

#[test]
fn what_always_occurs_ends_no_file() {
    for event in ["cpu-clock:u", "task-clock", "cycles"] {
        let run = prof(&["record", "--switch-output-event", event, "true"]);
        assert_eq!(run.code, 1, "{event}");
        assert!(
            run.stderr.contains("it occurs all the time"),
            "{}",
            run.stderr
        );
    }
}

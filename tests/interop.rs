//! What prof adds of its own to a recording is nothing to perf: every command
//! says and does the same with it and without it.
//!
//! What is not compared, by reason:
//! - `report --stats` and `-D` of a stream: they count and list every record,
//!   and in a stream there is nothing but records.
//! - The bytes of a stream that `inject` writes: it asks this machine for its
//!   free memory.
//! - The tip at the end of a report, which is chosen by chance: hence `-q`.

use crate::oracle::{compiled, have, perf, perfs, prof, scratch};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::SystemTime;

/// What sections of prof's own begin with, in files and in records.
const MARK: &[u8] = b"prof-own";
/// The record that carries them in a stream, and its size at the most.
const EVENT_TYPE: u32 = 65;
const LONGEST: usize = 65528;

/// perf's commands; `-i IN` is the recording, `OUT` what the command writes.
const COMMANDS: [&str; 24] = [
    "report -q --stdio -i IN",
    "report --stdio --header-only -I -i IN",
    "report -q --stdio --mem-mode -i IN",
    "script -i IN",
    "script --header -i IN",
    "annotate -q --stdio -i IN",
    "inject -b -i IN -o OUT",
    "inject -B -i IN -o OUT",
    "inject -b -i IN -o -",
    "evlist -v -i IN",
    "evlist -g -i IN",
    "buildid-list -i IN",
    "buildid-list -H -i IN",
    "lock -i IN report",
    "lock -i IN contention",
    "sched -i IN latency",
    "sched -i IN timehist",
    "mem -i IN report -q --stdio",
    "c2c report -q --stdio -i IN",
    "kvm --host -i IN report -q --stdio",
    "kvm -i IN stat report",
    "data convert --to-json OUT -i IN",
    "data convert --to-ctf OUT -i IN",
    "trace -i IN",
];

/// Commands that read files only.
const OF_FILES: [&str; 4] = [
    "report --stdio --stats -i IN",
    "script -D -i IN",
    "diff -q IN IN",
    "archive IN",
];

/// What a command left: exit status or signal, output, errors, and the file
/// that it wrote.
type Left = (String, Vec<u8>, String, Option<Vec<u8>>);

/// A folder for one perf: what it keeps in its home must not pass from one
/// run to the next.
struct Place {
    perf: PathBuf,
    folder: tempfile::TempDir,
}

impl Place {
    fn new(perf: PathBuf) -> Self {
        let folder = tempfile::tempdir_in(scratch()).expect("a folder");
        Self { perf, folder }
    }

    /// Runs `command` on a recording with these bytes, which always has the
    /// same name and time.
    fn run(&self, command: &str, recording: &[u8], from_stdin: bool) -> Left {
        let folder = self.folder.path();
        let input = folder.join("in.data");
        std::fs::write(&input, recording).expect("written");
        let file = std::fs::File::open(&input).expect("reopened");
        file.set_modified(SystemTime::UNIX_EPOCH).expect("own file");
        let words = command.split(' ').map(|word| match word {
            "IN" if from_stdin => "-",
            "IN" => "in.data",
            "OUT" => "out",
            other => other,
        });
        let stdin = if from_stdin {
            file.into()
        } else {
            Stdio::null()
        };
        let output = Command::new(&self.perf)
            .args(words)
            .current_dir(folder)
            .env("LC_ALL", "C.UTF-8")
            .env("HOME", folder)
            .env_remove("DEBUGINFOD_URLS")
            .stdin(stdin)
            .output()
            .expect("perf starts");
        let written = std::fs::read(folder.join("out")).ok();
        let is_stream = command.ends_with("-o -");
        let left = (
            output.status.to_string(),
            if is_stream { Vec::new() } else { output.stdout },
            String::from_utf8_lossy(&output.stderr).into_owned(),
            written,
        );
        for entry in std::fs::read_dir(folder).expect("the folder") {
            let path = entry.expect("an entry").path();
            let _ = std::fs::remove_dir_all(&path).or_else(|_| std::fs::remove_file(&path));
        }
        left
    }
}

/// A recording by `prof record -g`, to a file or to a stream.
fn recording(test: &str, destination: &str) -> Option<Vec<u8>> {
    let flags = ["-O1", "-g", "-fno-omit-frame-pointer"];
    let program = compiled(test, "report-calls.c", &flags)?;
    let program = program.to_str().expect("a UTF-8 path");
    let path = scratch().join(format!("{test}.data"));
    let path_text = path.to_str().expect("a UTF-8 path");
    let output = if destination == "-" { "-" } else { path_text };
    // perf takes its time to read the kernel's symbols.
    let event = ["record", "-q", "-e", "cpu-clock:u", "-g", "-o"];
    let names = ["--embed-time", "60000", "--", program];
    let args = [&event[..], &[output], &names].concat();
    let ran = prof(&args).succeeded("prof record");
    Some(match destination {
        "-" => ran.stdout,
        _ => std::fs::read(path).expect("recorded"),
    })
}

fn has_mark(bytes: &[u8]) -> bool {
    bytes.windows(MARK.len()).any(|window| window == MARK)
}

/// `section` with its number and size, as a file has it.
fn numbered(number: u64, section: &[u8]) -> Vec<u8> {
    let words = [number, section.len() as u64]
        .map(u64::to_ne_bytes)
        .concat();
    let mut bytes = [&words[..], section].concat();
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

/// The file without the sections of prof's own behind it, and with one more
/// that is a tenth as large as a large recording.
fn file_without_and_with_more(bytes: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let own = bytes.windows(MARK.len()).rposition(|window| window == MARK);
    let own = own.expect("sections of prof's own");
    let without = bytes[..own].to_vec();
    let sections = [&bytes[own + 16..], &numbered(255, &vec![7; 5 * LONGEST])].concat();
    let size = (sections.len() as u64).to_ne_bytes();
    let with = [&without, MARK, &size[..], &sections].concat();
    (without, with)
}

/// The records of a stream, its header first.
fn records(stream: &[u8]) -> Vec<&[u8]> {
    let (header, mut rest) = stream.split_at(16);
    let mut records = vec![header];
    while let Some(size) = rest.get(6..8) {
        let size = u16::from_ne_bytes(size.try_into().expect("2 bytes"));
        let (record, behind) = rest.split_at(size.into());
        records.push(record);
        rest = behind;
    }
    records
}

/// The stream without the records that carry sections of prof's own, and with
/// more of them.
fn stream_without_and_with_more(bytes: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let without = records(bytes)
        .into_iter()
        .filter(|record| record.get(..4) != Some(&EVENT_TYPE.to_ne_bytes()) && !has_mark(record));
    let without = without.collect::<Vec<_>>().concat();
    let (part, parts) = (LONGEST - 40, 5);
    let more = (0..parts).flat_map(|index| {
        let mut record = EVENT_TYPE.to_ne_bytes().to_vec();
        record.extend([0, LONGEST as u16].map(u16::to_ne_bytes).concat());
        record.extend(MARK);
        let words = [255, parts * part, index * part];
        record.extend(words.map(|word| (word as u64).to_ne_bytes()).concat());
        record.resize(LONGEST, 7);
        record
    });
    let with = [bytes, &more.collect::<Vec<u8>>()].concat();
    (without, with)
}

/// Runs all commands on both and compares.
fn compare(test: &str, commands: &[&str], from_stdin: bool, pair: &(Vec<u8>, Vec<u8>)) {
    let (without, with) = pair;
    assert!(!has_mark(without) && has_mark(with), "{test}");
    for perf in perfs(test) {
        let place = Place::new(perf);
        for command in commands {
            let expected = place.run(command, without, from_stdin);
            let found = place.run(command, with, from_stdin);
            assert_eq!(expected, found, "{test}: {:?} {command}", place.perf);
            let must_work = ["report -q", "script -i", "inject -b", "evlist -v"];
            if must_work.iter().any(|start| command.starts_with(start)) {
                assert_eq!(found.0, "exit status: 0", "{:?} {command}", place.perf);
            }
        }
    }
}

#[test]
fn every_command_of_perf_passes_over_what_a_file_has_of_ours() {
    let test = "every_command_of_perf_passes_over_what_a_file_has_of_ours";
    let recorded = recording(test, "file").filter(|_| have(test, "perf"));
    let Some(recorded) = recorded else { return };
    let names = recorded.windows(8).any(|window| window == b"PROFSYM1");
    assert!(names, "the recording carries names");
    let commands = [&COMMANDS[..], &OF_FILES].concat();
    compare(
        test,
        &commands,
        false,
        &file_without_and_with_more(&recorded),
    );
}

#[test]
fn every_command_of_perf_passes_over_what_a_stream_has_of_ours() {
    let test = "every_command_of_perf_passes_over_what_a_stream_has_of_ours";
    let recorded = recording(test, "-").filter(|_| have(test, "perf"));
    let Some(recorded) = recorded else { return };
    let pair = stream_without_and_with_more(&recorded);
    compare(test, &COMMANDS, true, &pair);
}

#[test]
fn a_stream_tells_at_its_end_what_became_of_the_stacks() {
    let test = "a_stream_tells_at_its_end_what_became_of_the_stacks";
    let Some(recorded) = recording(test, "-") else {
        return;
    };
    let stream = Box::new(std::io::Cursor::new(recorded));
    let mut reader = prof_perfdata::Reader::open_stream(stream).expect("a stream");
    while reader.next().expect("memory").is_some() {}
    assert_eq!(reader.damages(), []);
    let told = reader.features().trust().map(ToString::to_string);
    let told = told.unwrap_or_default();
    assert!(told.contains("\"chain_ends\""), "{told}");
}

/// Build-ids in the mappings of one recorder mark those of another that asked for
/// none, and perf 6.1 aborts by what it takes for one: see the README.
#[test]
fn perf_records_prof_without_build_ids() {
    let test = "perf_records_prof_without_build_ids";
    let folder = tempfile::tempdir_in(scratch()).expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    for perf in perfs(test) {
        let ours = [
            env!("CARGO_BIN_EXE_prof"),
            "record",
            "-q",
            "-B",
            "-o",
            &path("ours"),
        ];
        let record = || {
            Command::new(&perf)
                .args(["record", "-q", "-e", "cpu-clock:u", "-o", &path("theirs")])
                .args(ours)
                .args(["sh", "-c", "exec /bin/true"])
                .output()
                .expect("perf starts")
        };
        // Recorders of other tests ask for build-ids of all that runs, now and then; one
        // that did so here would be there in each try.
        let is_aborted = |run: &Output| String::from_utf8_lossy(&run.stderr).contains("build-id.c");
        let mut run = record();
        for _ in 0..4 {
            if !is_aborted(&run) {
                break;
            }
            run = record();
        }
        let said = String::from_utf8_lossy(&run.stderr);
        assert_eq!(run.status.code(), Some(0), "{}: {said}", perf.display());
        let script = Command::new(&perf)
            .args([
                "script",
                "-i",
                &path("theirs"),
                "--show-mmap-events",
                "-F",
                "comm",
            ])
            .output();
        let script = script.expect("perf starts");
        let mapped = String::from_utf8_lossy(&script.stdout);
        assert!(script.status.success() && mapped.contains("prof"), "{said}");
    }
}

/// What is stripped has no name where its threads start: their code tells it, also of
/// recordings whose account of stacks another tool left out.
#[test]
fn stacks_of_stripped_programs_are_whole_without_the_recorders_account() {
    let test = "stacks_of_stripped_programs_are_whole_without_the_recorders_account";
    let Some(program) = compiled(test, "threads.cc", &["-O2", "-s", "-pthread"]) else {
        return;
    };
    if !have(test, "perf") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let name = |file: &str| folder.path().join(file).to_string_lossy().into_owned();
    let (ours, theirs) = (name("ours.data"), name("theirs.data"));
    let program = program.to_str().expect("a plain name");
    prof(&[
        "record", "-q", "-g", "-F", "1999", "-o", &ours, "--", program,
    ])
    .succeeded("prof record");
    perf(&["inject", "-b", "-i", &ours, "-o", &theirs]).succeeded("perf inject");
    let whole = |file: &str| {
        let told = prof(&["report", "--json", "-i", file]).text();
        let told: serde_json::Value = serde_json::from_str(&told).expect("JSON");
        let stacks = &told["trust"]["stacks"];
        let number = |key: &str| stacks[key].as_u64().expect("a number");
        (number("complete"), number("judged"))
    };
    let (known, judged) = whole(&ours);
    assert!(
        judged > 50 && known * 100 >= judged * 95,
        "{known} of {judged}"
    );
    let (without, of) = whole(&theirs);
    assert_eq!(of, judged);
    // Who is just making a thread stands where threads start, too, and that its stack is
    // cut there only the account tells: of 140 runs at a load of 6 one had two more, and
    // one had one fewer.
    assert!(
        without.abs_diff(known) <= 3,
        "{without} without the account, {known} with it, of {judged}"
    );
}

/// Why stacks are cut is in the recorder's account, which stock `perf inject` leaves out.
#[test]
fn of_a_file_that_perf_wrote_anew_it_is_not_guessed_why_stacks_are_cut() {
    let test = "of_a_file_that_perf_wrote_anew_it_is_not_guessed_why_stacks_are_cut";
    let flags = ["-O2", "-fomit-frame-pointer"];
    let Some(program) = compiled(test, "shadow-stack.cc", &flags) else {
        return;
    };
    if !have(test, "perf") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let name = |file: &str| folder.path().join(file).to_string_lossy().into_owned();
    let (ours, theirs) = (name("ours.data"), name("theirs.data"));
    let program = program.to_str().expect("a plain name");
    // Without frame pointers the kernel leads to no start.
    let record = ["record", "-q", "--call-graph", "fp", "-F", "499"];
    prof(&[&record[..], &["-o", &ours, "--", program, "1"]].concat()).succeeded("prof record");
    perf(&["inject", "-b", "-i", &ours, "-o", &theirs]).succeeded("perf inject");
    let first = |file: &str| {
        let told = prof(&["report", "--stdio", "-i", file]).text();
        let lines = told.lines().take_while(|line| line.starts_with("# "));
        lines.collect::<Vec<_>>().join("\n")
    };
    let (known, injected) = (first(&ours), first(&theirs));
    assert!(known.contains("without frame pointers"), "{known}");
    assert!(injected.contains("perf inject leaves out"), "{injected}");
    assert!(!injected.contains("without frame pointers"), "{injected}");
}

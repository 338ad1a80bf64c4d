//! Mutants made with knowledge of the format, given to every command: sizes
//! and offsets are repaired, so that the wound is in what the records say.
//!
//! A few of each recording run with the other tests. Thousands, with a seed of
//! one's own and an optimised program that still checks itself:
//!
//! ```text
//! PROF_MUTANTS=20000 PROF_SEED=7 cargo test --profile mutants --test prof thousands -- --ignored --nocapture
//! ```
//!
//! `PROF_MUTANTS_PROGRAM` names another `prof` to try, `PROF_FIRST` the mutant
//! to begin with.

mod container;
mod wounds;

use crate::mutation::{Random, mutate, recordings};
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The seed of those that run always.
const SEED: u64 = 0x5eed_2027;
/// Address space of a command, KiB: 1 GiB, and what the program itself and its
/// threads map.
const ADDRESS_SPACE: u64 = (1024 + 512) * 1024;
/// Seconds of CPU that a command may take.
const MOST_CPU: u32 = 10;
/// What a view may write: so many times its input, and so much more.
const MOST_TIMES: u64 = 50;
const MOST_MORE: u64 = 10_000_000;

/// Commands whose output is bounded by their input.
const BOUNDED: [&[&str]; 17] = [
    &["report", "--stdio"],
    &["report", "--stdio", "--no-children", "-g", "caller"],
    &[
        "report",
        "--stdio",
        "-g",
        "flat,0,callee,count",
        "--no-inline",
    ],
    &["report", "--stdio", "-s", "comm,dso,sym,srcline", "-v"],
    &[
        "report",
        "--stdio",
        "--hierarchy",
        "-s",
        "pid,tid,comm,dso,sym",
    ],
    &[
        "report",
        "--stdio",
        "-s",
        "cpu,parent,time,weight,local_weight",
    ],
    &["report", "--stdio", "--tasks"],
    &["report", "--stdio", "--mmaps"],
    &["report", "--stdio", "-T", "-n", "--total-period"],
    &["report", "--csv"],
    &["report", "--header-only", "-I"],
    &["annotate", "--stdio"],
    &["flamegraph", "-o", "-"],
    &["flamegraph", "--format", "html", "-o", "-"],
    &["flamegraph", "--format", "folded", "-o", "-"],
    &["dump", "--header"],
    &["dump", "--header", "--json"],
];

/// Commands that print every record or sample.
const UNBOUNDED: [&[&str]; 4] = [
    &["dump"],
    &["dump", "--json"],
    &[
        "script",
        "-F",
        "+srcline,brstack,iregs,uregs,addr,weight,phys_addr",
    ],
    &[
        "script",
        "--show-mmap-events",
        "--show-task-events",
        "--header",
        "-I",
    ],
];

/// The program under test.
fn program() -> OsString {
    let other = std::env::var_os("PROF_MUTANTS_PROGRAM");
    other.unwrap_or_else(|| env!("CARGO_BIN_EXE_prof").into())
}

/// What a command did.
struct Ran {
    code: Option<i32>,
    stdout: Vec<u8>,
    stderr: String,
}

/// Runs `prof` with `args` on `path` within the bounds; reads `most` bytes of
/// its output and then closes the pipe.
fn run(args: &[&str], path: &Path, most: u64) -> Ran {
    let mut stderr = tempfile::tempfile().expect("temporary file");
    let limits = format!("ulimit -v {ADDRESS_SPACE}; ulimit -t {MOST_CPU}; exec \"$0\" \"$@\"");
    let mut child = Command::new("sh")
        .args(["-c", &limits])
        .arg(program())
        .args(args)
        .args(["-f", "-i"])
        .arg(path)
        .env("LC_ALL", "C.UTF-8")
        .env_remove("DEBUGINFOD_URLS")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(stderr.try_clone().expect("a descriptor"))
        .spawn()
        .expect("sh");
    let mut stdout = Vec::new();
    let pipe = child.stdout.take().expect("a pipe");
    pipe.take(most).read_to_end(&mut stdout).expect("readable");
    let status = child.wait().expect("waited for");
    let mut told = Vec::new();
    std::io::Seek::rewind(&mut stderr).expect("a file");
    stderr.read_to_end(&mut told).expect("a file");
    Ran {
        code: status.code(),
        stdout,
        stderr: String::from_utf8_lossy(&told).into_owned(),
    }
}

/// The first byte that a terminal would obey.
fn control(text: &[u8]) -> Option<char> {
    // CSV ends its lines with both.
    let text = String::from_utf8_lossy(text).replace("\r\n", "\n");
    let is_layout = |letter: &char| matches!(letter, '\n' | '\t');
    text.chars()
        .find(|letter| letter.is_control() && !is_layout(letter))
}

/// What is wrong with a run, if anything is.
fn fault(ran: &Ran, most: u64) -> Option<String> {
    let errors: String = ran.stderr.chars().take(2000).collect();
    if !matches!(ran.code, Some(0..=3)) || ran.stderr.contains("panicked") {
        return Some(format!("exit {:?}: {errors}", ran.code));
    }
    if ran.stdout.len() as u64 >= most {
        return Some(format!("more than {most} bytes"));
    }
    let control = control(&ran.stdout).or_else(|| control(ran.stderr.as_bytes()));
    control.map(|letter| format!("writes {letter:?}: {errors}"))
}

/// Samples by each view; `None` where a view does not show the recording.
fn counts(path: &Path) -> Result<Vec<(&'static str, Option<u64>)>, String> {
    let unlimited = 1 << 30;
    let ran = |args: &[&str]| {
        let ran = run(args, path, unlimited);
        match fault(&ran, unlimited) {
            Some(fault) => Err(format!("{args:?}: {fault}")),
            None => Ok(ran),
        }
    };
    let shown = |ran: &Ran| matches!(ran.code, Some(0 | 3));
    let json = |ran: &Ran| serde_json::from_slice::<serde_json::Value>(&ran.stdout).ok();
    let mut counts = Vec::new();

    let dump = ran(&["dump"])?;
    let lines = String::from_utf8_lossy(&dump.stdout).into_owned();
    let samples = lines.lines().filter(|line| is_dumped_sample(line)).count() as u64;
    counts.push(("dump", shown(&dump).then_some(samples)));

    let stats = ran(&["dump", "--stats", "--json"])?;
    let samples = json(&stats).map(|stats| stats["records"]["SAMPLE"].as_u64().unwrap_or(0));
    counts.push(("dump --stats", samples));

    let stats = ran(&["report", "--stats"])?;
    let text = String::from_utf8_lossy(&stats.stdout).into_owned();
    let total = text
        .lines()
        .find(|line| line.trim_start().starts_with("SAMPLE events:"));
    let total = total.and_then(|line| line.split_whitespace().nth(2)?.parse().ok());
    let total: u64 = total.unwrap_or(0);
    counts.push(("report --stats", shown(&stats).then_some(total)));

    let report = ran(&["report", "--json"])?;
    let events = json(&report).and_then(|report| report["events"].as_array().cloned());
    let samples = events.map(|events| events.iter().filter_map(|it| it["samples"].as_u64()).sum());
    counts.push(("report --json", samples));

    let script = ran(&["script", "-F", "event", "-G"])?;
    let text = String::from_utf8_lossy(&script.stdout).into_owned();
    let samples = text.lines().filter(|line| !line.trim().is_empty()).count() as u64;
    counts.push(("script", shown(&script).then_some(samples)));
    Ok(counts)
}

/// Whether a line of `prof dump` is about a sample.
fn is_dumped_sample(line: &str) -> bool {
    line.split_whitespace().nth(1) == Some("SAMPLE")
}

/// Where the counts differ.
fn disagreement(path: &Path) -> Option<String> {
    let counts = match counts(path) {
        Ok(counts) => counts,
        Err(fault) => return Some(fault),
    };
    let known: Vec<u64> = counts.iter().filter_map(|&(_, count)| count).collect();
    let is_equal = known.windows(2).all(|pair| pair[0] == pair[1]);
    (!is_equal).then(|| format!("{counts:?}"))
}

/// Whether samples count for other events, too: what `script` and `report`
/// show is then what each of them counted, not the records.
fn has_shared_samples(path: &Path) -> bool {
    const GROUP: u64 = 8;
    let reader = File::open(path).map(prof_perfdata::Reader::open_file);
    let Ok(Ok(mut reader)) = reader else {
        return false;
    };
    while let Ok(Some(_)) = reader.next() {}
    let attrs = reader.events().list().iter().map(|event| &event.attr);
    let mut reads = attrs.filter(|attr| attr.sample_type.has(prof_abi::SampleType::READ));
    reads.any(|attr| attr.read_format.0 & GROUP != 0)
}

/// What a mutant is given to.
#[derive(Clone, Copy)]
struct Trial {
    /// Whether the commands that count samples are compared.
    is_counted: bool,
    /// The first of the other commands, and how many.
    from: usize,
    commands: usize,
}

/// Gives one mutant to some commands.
fn try_out(mutant: &[u8], path: &Path, trial: Trial) -> Vec<String> {
    std::fs::write(path, mutant).expect("written");
    let input = mutant.len() as u64;
    let mut faults = Vec::new();
    if trial.is_counted && !has_shared_samples(path) {
        faults.extend(disagreement(path));
    }
    let all = BOUNDED.iter().map(|args| (args, true));
    let all = all.chain(UNBOUNDED.iter().map(|args| (args, false)));
    let all: Vec<_> = all.collect();
    for step in 0..trial.commands {
        let (args, is_bounded) = all[(trial.from + step) % all.len()];
        // What a mutant of zstd unpacks to is counted in.
        let most = if is_bounded {
            MOST_TIMES * input.max(unpacked(mutant)) + MOST_MORE
        } else {
            1 << 26
        };
        let ran = run(args, path, most);
        let fault = fault(&ran, if is_bounded { most } else { u64::MAX });
        faults.extend(fault.map(|fault| format!("{args:?}: {fault}")));
    }
    faults
}

/// Bytes of records, unpacked.
fn unpacked(mutant: &[u8]) -> u64 {
    let mut file = tempfile::tempfile().expect("temporary file");
    std::io::Write::write_all(&mut file, mutant).expect("written");
    let Ok(mut reader) = prof_perfdata::Reader::open_file(file) else {
        return 0;
    };
    let mut bytes = 0;
    while let Ok(Some(record)) = reader.next() {
        bytes += record.bytes.len() as u64;
    }
    bytes
}

/// A mutant of one of `recordings`; every fourth knows nothing of the format.
fn mutant(recordings: &[(PathBuf, Vec<u8>)], random: &mut Random) -> (PathBuf, Vec<u8>) {
    let (path, original) = &recordings[random.below(recordings.len())];
    let blind = random.below(4) == 0;
    let bytes = match (blind, container::Container::of(original)) {
        (false, Some(container)) => wounds::wounded(container, random),
        _ => mutate(original, random),
    };
    (path.clone(), bytes)
}

/// Which mutants are made, and what each is given to.
struct Hunt {
    seed: u64,
    /// Mutants before this one are made only.
    first: u64,
    mutants: u64,
    /// Commands that count samples are compared of one in so many.
    counted: u64,
    /// Other commands that each is given to.
    commands: usize,
}

/// Tries mutants and tells what was found; keeps those that failed.
fn hunt(hunt: &Hunt) -> Vec<String> {
    let seed = hunt.seed;
    let recordings: Vec<(PathBuf, Vec<u8>)> = recordings()
        .into_iter()
        .map(|path| (path.clone(), std::fs::read(path).expect("fixture")))
        .collect();
    let mut random = Random(seed);
    let folder = crate::oracle::scratch();
    let path = folder.join(format!("mutant-{seed:x}-{}.data", std::process::id()));
    let mut faults = Vec::new();
    for number in 0..hunt.first + hunt.mutants {
        let (origin, bytes) = mutant(&recordings, &mut random);
        let trial = Trial {
            is_counted: number % hunt.counted == 0,
            from: random.below(BOUNDED.len() + UNBOUNDED.len()),
            commands: hunt.commands,
        };
        if number < hunt.first {
            continue;
        }
        if number % 1000 == 999 {
            eprintln!(
                "{} mutants of seed {seed}, {} faults",
                number + 1,
                faults.len()
            );
        }
        for fault in try_out(&bytes, &path, trial) {
            let kept = folder.join(format!("failed-{seed:x}-{number}.data"));
            std::fs::write(&kept, &bytes).expect("written");
            let origin = origin.file_name().unwrap_or_default().to_string_lossy();
            let fault = format!("{} of {origin}: {fault}", kept.display());
            eprintln!("{fault}");
            faults.push(fault);
        }
    }
    let _ = std::fs::remove_file(&path);
    faults
}

#[test]
fn mutants_harm_no_command_and_all_views_count_alike() {
    let faults = hunt(&Hunt {
        seed: SEED,
        first: 0,
        mutants: 12,
        counted: 1,
        commands: 2,
    });
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
#[ignore = "takes hours: see above"]
fn thousands_of_mutants() {
    let number = |name: &str, otherwise| {
        let text = std::env::var(name).unwrap_or_default();
        text.parse().unwrap_or(otherwise)
    };
    let faults = hunt(&Hunt {
        seed: number("PROF_SEED", SEED ^ 1),
        first: number("PROF_FIRST", 0),
        mutants: number("PROF_MUTANTS", 20_000),
        counted: 4,
        commands: 2,
    });
    assert!(faults.is_empty(), "{} faults: {faults:#?}", faults.len());
}

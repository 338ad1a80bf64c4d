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

mod commands;
mod container;
mod foreign;
mod wounds;

use crate::mutation::{Random, mutate, recordings};
use crate::oracle::fixture;
use commands::{Given, Output};
use std::ffi::OsString;
use std::io::{Read, Seek, Write};
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

/// Words of a command that stand for files: the mutant, what it was made of,
/// and one that the command may write.
const SUBJECT: &str = "{mutant}";
const OTHER: &str = "{other}";
const WRITTEN: &str = "{written}";

/// The files that commands are given.
struct Files {
    mutant: PathBuf,
    other: PathBuf,
    written: PathBuf,
}

impl Files {
    /// In the folder for what tests make; `name` tells them apart.
    fn new(name: &str) -> Self {
        let folder = crate::oracle::scratch();
        let file = |what: &str| folder.join(format!("{what}-{name}-{}", std::process::id()));
        Self {
            mutant: file("mutant"),
            other: file("original"),
            written: file("written"),
        }
    }

    /// The words of a command with files in their places.
    fn words(&self, words: &[&str]) -> Vec<OsString> {
        let file = |word: &str| match word {
            SUBJECT => self.mutant.clone().into(),
            OTHER => self.other.clone().into(),
            WRITTEN => self.written.clone().into(),
            word => word.into(),
        };
        let mut given: Vec<OsString> = words.iter().map(|word| file(word)).collect();
        if !words.contains(&SUBJECT) {
            given.extend(["-f", "-i", SUBJECT].map(file));
        }
        given
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        for file in [&self.mutant, &self.other, &self.written] {
            let _ = std::fs::remove_file(file);
        }
    }
}

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

/// Runs `prof` with `words` on the files within the bounds; reads `most` bytes
/// of its output and then closes the pipe.
fn run(words: &[&str], files: &Files, most: u64) -> Ran {
    let mut stderr = tempfile::tempfile().expect("temporary file");
    let limits = format!("ulimit -v {ADDRESS_SPACE}; ulimit -t {MOST_CPU}; exec \"$0\" \"$@\"");
    let mut child = Command::new("sh")
        .args(["-c", &limits])
        .arg(program())
        .args(files.words(words))
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
fn fault(ran: &Ran, (words, output): Given, most: u64) -> Option<String> {
    let errors: String = ran.stderr.chars().take(2000).collect();
    // Budgets that are not kept, or of which that is not known.
    let is_known = |code: i32| (0..=3).contains(&code) || (words[0] == "check" && code <= 5);
    // A command that no file is given to, however whole.
    let is_misspelt = ran.stderr.contains("try '--help'");
    let is_panic = ran.stderr.contains("panicked");
    if !ran.code.is_some_and(is_known) || is_panic || is_misspelt {
        return Some(format!("exit {:?}: {errors}", ran.code));
    }
    if ran.stdout.len() as u64 >= most {
        return Some(format!("more than {most} bytes"));
    }
    if is_broken_json(ran, words) {
        return Some(format!("no JSON: {errors}"));
    }
    let of_output = match output {
        Output::File => None,
        Output::Text | Output::Lines => control(&ran.stdout),
    };
    let control = of_output.or_else(|| control(ran.stderr.as_bytes()));
    control.map(|letter| format!("writes {letter:?}: {errors}"))
}

/// Bytes, unpacked if they are packed whole.
fn unzipped(bytes: Vec<u8>) -> Vec<u8> {
    let mut unpacked = Vec::new();
    let unpacking = flate2::read::MultiGzDecoder::new(&bytes[..]).read_to_end(&mut unpacked);
    if unpacking.is_ok() { unpacked } else { bytes }
}

/// Whether what should be JSON is none.
fn is_broken_json(ran: &Ran, words: &[&str]) -> bool {
    let is_one = |word: &&str| ["--json", "firefox", "speedscope"].contains(word);
    let is_lines = words[0] == "dump";
    let is_whole = !is_lines && words.iter().any(is_one) && !ran.stdout.is_empty();
    is_whole && serde_json::from_slice::<serde_json::Value>(&ran.stdout).is_err()
}

/// Samples by each view; `None` where a view does not show the recording.
fn counts(files: &Files) -> Result<Vec<(&'static str, Option<u64>)>, String> {
    let unlimited = 1 << 30;
    let ran = |words: &'static [&'static str]| {
        let ran = run(words, files, unlimited);
        match fault(&ran, (words, Output::Lines), unlimited) {
            Some(fault) => Err(format!("{words:?}: {fault}")),
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

/// Views that show each sample for each event that it counts for; the others
/// count records.
const SHARING: [&str; 2] = ["report --json", "script"];

/// Where the counts differ.
fn disagreement(files: &Files) -> Option<String> {
    let counts = match counts(files) {
        Ok(counts) => counts,
        Err(fault) => return Some(fault),
    };
    let is_apart = has_shared_samples(&files.mutant);
    let (shares, records): (Vec<_>, Vec<_>) = counts
        .iter()
        .partition(|(view, _)| is_apart && SHARING.contains(view));
    let is_equal = [shares, records].iter().all(|views| {
        let known: Vec<u64> = views.iter().filter_map(|&(_, count)| count).collect();
        known.windows(2).all(|pair| pair[0] == pair[1])
    });
    (!is_equal).then(|| format!("{counts:?}"))
}

/// The mutant as `prof` opens it: unpacked, if it is packed whole.
fn opened(path: &Path) -> Option<prof_perfdata::Reader> {
    let bytes = std::fs::read(path).ok()?;
    let bytes = zstd::stream::decode_all(&bytes[..]).unwrap_or(bytes);
    let mut file = tempfile::tempfile().expect("a file of no name");
    file.write_all(&bytes).expect("written");
    file.rewind().expect("a file");
    prof_perfdata::Reader::open_file(file).ok()
}

/// Whether samples count for other events, too: what `script` and `report`
/// show is then what each of them counted, not the records.
fn has_shared_samples(path: &Path) -> bool {
    const GROUP: u64 = 8;
    let Some(mut reader) = opened(path) else {
        return false;
    };
    while let Ok(Some(_)) = reader.next() {}
    let attrs = reader.events().list().iter().map(|event| &event.attr);
    let mut reads = attrs.filter(|attr| attr.sample_type.has(prof_abi::SampleType::READ));
    reads.any(|attr| attr.read_format.0 & GROUP != 0)
}

/// What a mutant is made of.
struct Original {
    /// The name of its file, or its format.
    name: String,
    bytes: Vec<u8>,
    /// Of another tool's profile.
    profile: Option<foreign::Profile>,
    commands: Vec<Given>,
}

impl Original {
    fn recording(path: &Path, commands: &[&[Given]]) -> Self {
        let name = path.file_name().unwrap_or_default();
        Self {
            name: name.to_string_lossy().into_owned(),
            bytes: std::fs::read(path).expect("fixture"),
            profile: None,
            commands: commands.concat(),
        }
    }

    /// A recording as another tool's profile, written by a command.
    fn profile(of: &Path, words: &[&str]) -> Self {
        let ran = crate::oracle::prof_command()
            .args(words)
            .args(["-f", "-i"])
            .arg(of)
            .output()
            .expect("prof starts");
        assert!(ran.status.success(), "{words:?}: {ran:?}");
        let bytes = unzipped(ran.stdout);
        Self {
            name: words.join(" "),
            profile: Some(foreign::Profile::of(&bytes)),
            bytes,
            commands: commands::OF_ALL.to_vec(),
        }
    }

    /// A mutant and its bytes unpacked; every fourth knows nothing of the format.
    fn mutant(&self, random: &mut Random) -> (Vec<u8>, u64) {
        let is_blind = random.below(4) == 0;
        let bytes = match (&self.profile, container::Container::of(&self.bytes)) {
            _ if is_blind => mutate(&self.bytes, random),
            (Some(profile), _) => return profile.clone().wounded(random),
            (None, Some(container)) => wounds::wounded(container, random),
            (None, None) => mutate(&self.bytes, random),
        };
        let plain = unpacked(&bytes).max(bytes.len() as u64);
        match self.profile.is_none() && random.below(16) == 0 {
            true => (zstd::bulk::compress(&bytes, 1).expect("memory"), plain),
            false => (bytes, plain),
        }
    }
}

/// Recordings, those with waits, and profiles of other tools.
fn originals() -> [Vec<Original>; 3] {
    use commands::{OF_ALL, OF_RECORDINGS, OF_WAITS};
    let all = recordings();
    let all = all.iter();
    let waits = ["locks", "stream", "sched"].map(|name| fixture(&format!("waits/{name}.data")));
    let of = |words: &[&str]| Original::profile(&waits[0], words);
    let profiles = vec![
        of(&["export", "--format", "pprof", "-o", "-"]),
        of(&["export", "--format", "firefox", "-o", "-"]),
        of(&["export", "--format", "folded", "-o", "-"]),
        of(&["script"]),
    ];
    [
        all.map(|path| Original::recording(path, &[OF_RECORDINGS, OF_ALL]))
            .collect(),
        waits
            .iter()
            .map(|path| Original::recording(path, &[OF_RECORDINGS, OF_ALL, OF_WAITS, OF_WAITS]))
            .collect(),
        profiles,
    ]
}

/// Gives a mutant to one command; `plain` is its size unpacked.
fn try_command(given: Given, files: &Files, plain: u64) -> Option<String> {
    let (words, output) = given;
    let size = |path: &Path| std::fs::metadata(path).map_or(0, |file| file.len());
    let input = match words.contains(&OTHER) {
        true => plain + size(&files.other),
        false => plain,
    };
    let bound = MOST_TIMES * input + MOST_MORE;
    let (read, most) = match output {
        Output::Lines => (1 << 26, u64::MAX),
        Output::Text | Output::File => (bound, bound),
    };
    let mut ran = run(words, files, read);
    ran.stdout = unzipped(ran.stdout);
    let too_much = || (size(&files.written) > bound).then(|| "writes too large a file".to_owned());
    let fault = fault(&ran, given, most).or_else(too_much);
    let _ = std::fs::remove_file(&files.written);
    fault.map(|fault| format!("{words:?}: {fault}"))
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
    let kinds = originals();
    let files = Files::new(&format!("{seed:x}"));
    let mut random = Random(seed);
    let mut faults = Vec::new();
    for number in 0..hunt.first + hunt.mutants {
        // Of recordings, of waits, of other tools.
        let kind = &kinds[[0, 0, 0, 0, 1, 2, 2, 2][random.below(8)]];
        let original = &kind[random.below(kind.len())];
        let (bytes, plain) = original.mutant(&mut random);
        let from = random.below(original.commands.len());
        if number < hunt.first {
            continue;
        }
        std::fs::write(&files.mutant, &bytes).expect("written");
        std::fs::write(&files.other, &original.bytes).expect("written");
        let is_counted = number % hunt.counted == 0 && original.profile.is_none();
        let mut found = Vec::new();
        if is_counted {
            found.extend(disagreement(&files));
        }
        let commands = original.commands.iter().cycle().skip(from);
        let tried = commands.take(hunt.commands);
        found.extend(tried.filter_map(|&given| try_command(given, &files, plain)));
        for fault in found {
            let kept = crate::oracle::scratch().join(format!("failed-{seed:x}-{number}.data"));
            std::fs::write(&kept, &bytes).expect("written");
            let fault = format!("{} of {}: {fault}", kept.display(), original.name);
            eprintln!("{fault}");
            faults.push(fault);
        }
        if number % 1000 == 999 {
            eprintln!(
                "{} mutants of seed {seed}, {} faults",
                number + 1,
                faults.len()
            );
        }
    }
    faults
}

#[test]
fn mutants_harm_no_command_and_all_views_count_alike() {
    let faults = hunt(&Hunt {
        seed: SEED,
        first: 0,
        mutants: 18,
        counted: 1,
        commands: 2,
    });
    assert!(faults.is_empty(), "{faults:#?}");
}

/// Commands that no sound file is of use to: mutants would show nothing.
fn useless() -> Vec<String> {
    let files = Files::new("sound");
    let all = originals();
    let is_of_use = |given: &Given| {
        let mut of_it = all
            .iter()
            .flatten()
            .filter(|it| it.commands.contains(given));
        of_it.any(|original| {
            std::fs::write(&files.mutant, &original.bytes).expect("written");
            std::fs::write(&files.other, &original.bytes).expect("written");
            let ran = run(given.0, &files, 1 << 26);
            let _ = std::fs::remove_file(&files.written);
            matches!(ran.code, Some(0 | 3..))
        })
    };
    let all_commands = [
        commands::OF_RECORDINGS,
        commands::OF_WAITS,
        commands::OF_ALL,
    ]
    .concat();
    let useless = all_commands.iter().filter(|given| !is_of_use(given));
    useless.map(|given| format!("{given:?}")).collect()
}

#[test]
#[ignore = "takes hours: see above"]
fn thousands_of_mutants() {
    assert_eq!(useless(), [""; 0]);
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

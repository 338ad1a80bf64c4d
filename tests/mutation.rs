//! Damaged recordings: never a panic, never a hang, never memory out of
//! proportion, and everything that is whole is found.

use prof_abi::RecordType;
use prof_perfdata::{Body, Reader, TimeOrder};
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The seed of all mutants; another one makes others.
const SEED: u64 = 0x5eed_2026;
/// Mutants made of each recording, in this process.
const MUTANTS: u64 = 45;
/// Mutants of each recording given to the program itself.
const RUNS: u64 = 3;
/// What reading a mutant may take. They take milliseconds.
const PATIENCE: Duration = Duration::from_secs(5);
/// Address space of the program in KiB: 64 MiB for the records' data, and what
/// the program itself maps.
const ADDRESS_SPACE: u64 = 64 * 1024 + 192 * 1024;

/// xorshift64*: good enough to choose bytes, the same on every machine.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

/// The recordings kept in the repository.
pub(crate) fn recordings() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/recordings");
    let mut files = Vec::new();
    for group in std::fs::read_dir(folder).expect("fixtures") {
        let group = group.expect("entry").path();
        if !group.is_dir() {
            continue;
        }
        for file in std::fs::read_dir(group).expect("folder") {
            let file = file.expect("entry").path();
            if file.is_file() {
                files.push(file);
            }
        }
    }
    files.sort();
    assert!(files.len() > 60, "{} recordings", files.len());
    files
}

/// One to four wounds: a cut, flipped bits, a telling number in place of
/// another, bytes moved by inserting or removing some.
pub(crate) fn mutate(original: &[u8], random: &mut Random) -> Vec<u8> {
    const NUMBERS: [u64; 12] = [
        0,
        1,
        7,
        8,
        0xffff,
        0x1_0000,
        0x7fff_ffff,
        0xffff_ffff,
        1 << 40,
        1 << 61,
        1 << 63,
        u64::MAX - 7,
    ];
    let mut bytes = original.to_vec();
    for _ in 0..=random.below(4) {
        if bytes.is_empty() {
            break;
        }
        // Half of the wounds go to the header and what is next to it.
        let reach = if random.below(2) == 0 {
            512
        } else {
            bytes.len()
        };
        let at = random.below(reach.min(bytes.len()));
        match random.below(6) {
            0 => bytes.truncate(random.below(bytes.len())),
            1 => bytes[at] ^= 1 << random.below(8),
            2 | 3 => {
                let width = [2, 4, 8][random.below(3)];
                let number = NUMBERS[random.below(NUMBERS.len())].to_le_bytes();
                let at = at / width * width;
                for (byte, new) in bytes[at..].iter_mut().zip(&number[..width]) {
                    *byte = *new;
                }
            }
            4 => {
                let count = random.below(24);
                bytes.splice(at..at, std::iter::repeat_n(0x41, count));
            }
            _ => {
                let end = (at + random.below(64)).min(bytes.len());
                bytes.drain(at..end);
            }
        }
    }
    bytes
}

/// A file that is written anew for each mutant.
struct Scratch(tempfile::NamedTempFile);

impl Scratch {
    fn new() -> Self {
        Self(tempfile::NamedTempFile::new().expect("temporary file"))
    }

    fn fill(&mut self, bytes: &[u8]) -> File {
        let file = self.0.as_file();
        file.set_len(0).expect("shorter");
        file.write_all_at(bytes, 0).expect("written");
        File::open(self.0.path()).expect("reopened")
    }
}

/// Where and what: enough to tell whether two readings agree.
type Found = (u64, RecordType, usize);

/// Reads to the end, using everything of every record.
fn read(file: File) -> Option<Vec<Found>> {
    let mut reader = Reader::open_file(file).ok()?;
    let mut found = Vec::new();
    while let Some(record) = reader.next().expect("a regular file") {
        let body = record.decode();
        let _ = body.fields();
        if let Body::Sample(sample) = body {
            let _ = (
                sample.frames().count(),
                sample.regs_user().map(|regs| regs.get(7)),
            );
        }
        let _ = (record.sample_id(), record.time());
        found.push((record.offset, record.kind, record.bytes.len()));
    }
    assert!(reader.damages().len() <= 1000);
    Some(found)
}

fn count_in_time_order(file: File) -> usize {
    let Ok(reader) = Reader::open_file(file) else {
        return 0;
    };
    let mut ordered = TimeOrder::new(reader);
    let mut count = 0;
    while ordered.next().expect("a regular file").is_some() {
        count += 1;
    }
    count
}

#[test]
fn mutants_are_read_to_the_end_in_both_orders() {
    // covers fixture: RING-17, HDR-02
    let mut scratch = Scratch::new();
    let mut random = Random(SEED);
    let mut mutants = 0;
    for path in recordings() {
        let original = std::fs::read(&path).expect("fixture");
        for number in 0..MUTANTS {
            let mutant = mutate(&original, &mut random);
            let start = Instant::now();
            let found = read(scratch.fill(&mutant)).map_or(0, |found| found.len());
            let ordered = count_in_time_order(scratch.fill(&mutant));
            assert_eq!(
                found, ordered,
                "{path:?} mutant {number}: order loses records"
            );
            let took = start.elapsed();
            assert!(took < PATIENCE, "{path:?} mutant {number} took {took:?}");
            mutants += 1;
        }
    }
    assert!(mutants > 4000, "{mutants} mutants");
}

#[test]
fn the_program_ends_with_a_known_code_in_bounded_memory() {
    let mut scratch = Scratch::new();
    let mut random = Random(SEED ^ 1);
    for path in recordings() {
        let original = std::fs::read(&path).expect("fixture");
        for number in 0..RUNS {
            let mutant = match number {
                0 => original.clone(),
                _ => mutate(&original, &mut random),
            };
            drop(scratch.fill(&mutant));
            // 8 bytes may be used for each byte of the file.
            let limit = ADDRESS_SPACE + 8 * mutant.len() as u64 / 1024;
            let options = [
                ["--stats", "--json"],
                ["--header", "--json"],
                ["--json", "-f"],
            ];
            let run = Command::new("sh")
                .args(["-c", "ulimit -v \"$0\" && exec \"$@\""])
                .arg(limit.to_string())
                .arg(env!("CARGO_BIN_EXE_prof"))
                .arg("dump")
                .args(options[number as usize % options.len()])
                .arg("-i")
                .arg(scratch.0.path())
                .output()
                .expect("sh");
            let code = run.status.code();
            assert!(
                matches!(code, Some(0 | 1 | 3)),
                "{path:?} mutant {number}: {:?}: {}",
                run.status,
                String::from_utf8_lossy(&run.stderr)
            );
            let stdout = String::from_utf8(run.stdout).expect("UTF-8");
            for line in stdout.lines() {
                serde_json::from_str::<serde_json::Value>(line).expect("JSON");
            }
        }
    }
}

/// The places to cut a file of `len` bytes at: every one near the ends, and
/// some between.
fn cuts(len: usize, random: &mut Random) -> Vec<usize> {
    let mut cuts: Vec<usize> = (0..100).map(|_| random.below(len)).collect();
    cuts.extend(len.saturating_sub(20)..len);
    cuts
}

#[test]
fn a_cut_recording_shows_exactly_what_is_whole_before_the_cut() {
    let mut scratch = Scratch::new();
    let mut random = Random(SEED ^ 2);
    let mut compared = 0;
    for path in recordings() {
        let original = std::fs::read(&path).expect("fixture");
        let Some(all) = read(scratch.fill(&original)).filter(|_| is_sound(&path)) else {
            continue;
        };
        for cut in cuts(original.len(), &mut random) {
            let whole = |&&(offset, _, size): &&Found| offset as usize + size <= cut;
            let expected: Vec<Found> = all.iter().take_while(whole).copied().collect();
            let found = read(scratch.fill(&original[..cut])).unwrap_or_default();
            assert_eq!(found, expected, "{path:?} cut at {cut}");
            compared += 1;
        }
    }
    assert!(compared > 3000, "{compared} cuts");
}

/// Recordings whose records all stand in the file as they are: not damaged,
/// not compressed.
fn is_sound(path: &Path) -> bool {
    let text = path.to_string_lossy();
    let odd = [
        "hostile",
        "fuzz",
        "corrupted",
        "zstd",
        "pipez",
        "compressed",
    ];
    !odd.iter().any(|word| text.contains(word))
}

#[test]
fn one_bad_record_in_the_middle_costs_that_record_only() {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/recordings/local/perf6.1-cgroup.data");
    let original = std::fs::read(path).expect("fixture");
    let mut scratch = Scratch::new();
    let all = read(scratch.fill(&original)).expect("sound");
    let samples = all
        .iter()
        .filter(|(_, kind, _)| *kind == RecordType::SAMPLE);
    for &(offset, kind, size) in samples.step_by(7) {
        let size_of = |change: i32| (size as i32 + change) as u16;
        for bad_size in [
            0,
            7,
            0xffff,
            size_of(-8),
            size_of(-40),
            size_of(16),
            size_of(720),
        ] {
            let mut bytes = original.clone();
            let at = offset as usize + 6;
            bytes[at..at + 2].copy_from_slice(&bad_size.to_le_bytes());
            let found = read(scratch.fill(&bytes)).expect("readable");
            let mut expected = all.clone();
            expected.retain(|&record| record != (offset, kind, size));
            assert_eq!(found, expected, "size {bad_size} at {offset:#x}");
        }
    }
}

#[test]
fn garbage_behind_a_stream_is_told_and_changes_nothing() {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/recordings/local/perf6.1-pipe.data");
    let original = std::fs::read(path).expect("fixture");
    let mut scratch = Scratch::new();
    let all = read(scratch.fill(&original)).expect("sound");
    let mut bytes = original.clone();
    bytes
        .write_all(b"[ perf record: Woken up 1 times ]\n")
        .expect("memory");
    let mut reader = Reader::open_file(scratch.fill(&bytes)).expect("readable");
    let mut count = 0;
    while reader.next().expect("readable").is_some() {
        count += 1;
    }
    assert_eq!(count, all.len());
    let damage = reader.damages().first().expect("told");
    assert_eq!((damage.offset, damage.bytes), (original.len() as u64, 34));
}

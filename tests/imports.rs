//! Profiles of other tools in place of recordings.

use crate::exports::{export, recording};
use crate::oracle::{have, perfs, prof, prof_command, scratch};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Rows of a report by function and module: children and self, percent.
fn rows(file: &Path) -> BTreeMap<(String, String), (String, String)> {
    let file = file.display().to_string();
    let words = [
        "report",
        "--csv",
        "-i",
        &file,
        "-F",
        "overhead_children,overhead,dso,sym",
    ];
    let csv = prof(&words).succeeded("prof report").text();
    let rows = csv.lines().skip(1).map(|line| {
        let cells: Vec<&str> = line.split(',').collect();
        let key = (cells[0].to_owned(), cells[3..cells.len() - 2].join(","));
        (key, (cells[1].to_owned(), cells[2].to_owned()))
    });
    rows.collect()
}

/// Whether an export of this format is read back to the table of the recording.
fn is_read_back(test: &str, format: &str, end: &str) {
    let Some(data) = recording(test) else {
        return;
    };
    let file = export(&data, format, end);
    let (before, after) = (rows(&data), rows(&file));
    // A plain user does not see the kernel's functions.
    let least = if crate::oracle::is_root() { 20 } else { 5 };
    assert!(before.len() > least, "{before:?}");
    assert_eq!(before, after);
    // And the number of samples.
    let of = |file: &Path| {
        let file = file.display().to_string();
        let text = prof(&["report", "--stdio", "-i", &file])
            .succeeded("prof report")
            .text();
        let counts = text.lines().filter(|line| line.contains("of event"));
        counts.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(of(&data), of(&file));
}

#[test]
fn an_exported_pprof_is_read_back_to_the_same_table() {
    const TEST: &str = "an_exported_pprof_is_read_back_to_the_same_table";
    is_read_back(TEST, "pprof", ".imported.pb.gz");
}

#[test]
fn an_exported_firefox_profile_is_read_back_to_the_same_table() {
    const TEST: &str = "an_exported_firefox_profile_is_read_back_to_the_same_table";
    is_read_back(TEST, "firefox", ".imported.firefox.json.gz");
}

/// A profile of CPU time and waits, as `prof export --format firefox` writes it.
const WAITS: &str = r#"{"meta":{"preprocessedProfileVersion":55,
"extra":[{"label":"prof","entries":[{"label":"event","value":"cpu-clock"},{"label":"event","value":"offcpu-time"}]}]},
"libs":[],"threads":[{"name":"app cpu-clock","pid":"7","tid":"7 cpu-clock",
"samples":{"stack":[0],"time":[0],"weight":[3],"weightType":"tracing-ms"},
"stackTable":{"prefix":[null],"frame":[0]},"frameTable":{"address":[-1],"func":[0]},
"funcTable":{"name":[0],"resource":[-1]},"stringArray":["works"]},
{"name":"app offcpu-time","pid":"7","tid":"7 offcpu-time",
"samples":{"stack":[0],"time":[1],"weight":[9],"weightType":"tracing-ms"},
"stackTable":{"prefix":[null],"frame":[0]},"frameTable":{"address":[-1],"func":[0]},
"funcTable":{"name":[0],"resource":[-1]},"stringArray":["sleeps"]}]}"#;

#[test]
fn clocks_are_told_apart_in_profiles_of_other_tools() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("waits.json");
    fs::write(&file, WAITS).expect("written");
    let file = file.display().to_string();
    let report = |clock: &str| {
        let words = [
            "report", "--csv", "-s", "sym", "--clock", clock, "-i", &file,
        ];
        let csv = prof(&words).succeeded("prof report").text();
        ["works", "sleeps"].map(|name| csv.contains(name))
    };
    assert_eq!(report("cpu"), [true, false]);
    assert_eq!(report("off"), [false, true]);
    assert_eq!(report("wall"), [true, true]);
    // What has no waits says so, and not the table of something else.
    let plain = folder.path().join("plain.folded");
    fs::write(&plain, "app;main 3\n").expect("written");
    let plain = plain.display().to_string();
    let refused = prof(&["report", "--stdio", "--clock", "off", "-i", &plain]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(
        refused.stderr.contains("has no waits"),
        "{}",
        refused.stderr
    );
}

/// As py-spy 0.4.3 wrote it with `record -f raw -t`.
const PY_SPY: &str = "\
thread (9699): MainThread;<module> (work.py:10);work (work.py:7);leaf (work.py:3) 39
thread (9699): MainThread;<module> (work.py:9);Thread.start (threading.py:964) 2
thread (9753);Thread._bootstrap (threading.py:1002);Thread.run (threading.py:982);work (work.py:7);leaf (work.py:3) 46
";

/// As async-profiler writes it with `-o collapsed,ann,threads`.
const ASYNC_PROFILER: &str = "\
[main tid=41];Main.main_[0];Main.work_[j];java/util/HashMap.put_[i] 20
[main tid=41];Main.main_[0];Main.work_[j];__libc_write;entry_SYSCALL_64_[k] 5
[GC Thread#0 tid=42];start_thread;thread_native_entry 3
";

#[test]
fn folded_stacks_of_others_have_their_threads_and_functions() {
    let folder = tempfile::tempdir().expect("a folder");
    let shares = |text: &str, key: &str| {
        let file = folder.path().join("others.txt");
        fs::write(&file, text).expect("written");
        let file = file.display().to_string();
        let words = ["report", "--csv", "--no-children", "-s", key, "-i", &file];
        let csv = prof(&words).succeeded("prof report").text();
        let rows = csv.lines().skip(1).map(|line| {
            let cells: Vec<&str> = line.split(',').collect();
            (cells[2].trim().to_owned(), cells[1].to_owned())
        });
        rows.collect::<BTreeMap<_, _>>()
    };
    let expect = |rows: BTreeMap<String, String>, expected: &[(&str, &str)]| {
        let expected = expected.iter();
        let expected = expected.map(|(name, share)| ((*name).to_owned(), (*share).to_owned()));
        assert_eq!(rows, expected.collect());
    };
    expect(
        shares(PY_SPY, "sym"),
        &[
            ("leaf (work.py:3)", "97.70"),
            ("Thread.start (threading.py:964)", "2.30"),
        ],
    );
    expect(
        shares(PY_SPY, "tid"),
        &[("9699:MainThread", "47.13"), ("9753:", "52.87")],
    );
    expect(
        shares(ASYNC_PROFILER, "comm"),
        &[("main", "89.29"), ("GC Thread#0", "10.71")],
    );
    expect(
        shares(ASYNC_PROFILER, "sym"),
        &[
            ("java/util/HashMap.put", "71.43"),
            ("entry_SYSCALL_64", "17.86"),
            ("thread_native_entry", "10.71"),
        ],
    );
}

#[test]
fn folded_stacks_are_read_back_to_the_same_stacks() {
    let Some(data) = recording("folded_stacks_are_read_back_to_the_same_stacks") else {
        return;
    };
    let data = data.display().to_string();
    let words = [
        "export",
        "--format",
        "folded",
        "-e",
        "cpu-clock",
        "-i",
        &data,
    ];
    let first = prof(&words).succeeded("prof export").text();
    let file = scratch().join("read-back.folded");
    fs::write(&file, &first).expect("written");
    let file = file.display().to_string();
    let again = prof(&["flamegraph", "--format", "folded", "-i", &file]);
    // What was inlined is not told apart; the rest is the same.
    let plain = first.replace("_[i]", "");
    let mut expected: BTreeMap<&str, u64> = BTreeMap::new();
    for (stack, weight) in plain.lines().filter_map(|line| line.rsplit_once(' ')) {
        *expected.entry(stack).or_default() += weight.parse::<u64>().expect("a weight");
    }
    let again = again.succeeded("prof flamegraph").text();
    let found = again.lines().filter_map(|line| line.rsplit_once(' '));
    let found = found.map(|(stack, weight)| (stack, weight.parse().expect("a weight")));
    assert_eq!(found.collect::<BTreeMap<&str, u64>>(), expected);
}

#[test]
fn the_text_of_perf_script_is_read_from_a_pipe() {
    const TEST: &str = "the_text_of_perf_script_is_read_from_a_pipe";
    let Some(data) = recording(TEST).filter(|_| have(TEST, "perf")) else {
        return;
    };
    for perf in perfs(TEST) {
        let script = Command::new(perf)
            .args(["script", "--no-inline", "-i"])
            .arg(&data)
            .env("HOME", "/dev/null")
            .output()
            .expect("perf starts");
        let mut child = prof_command()
            .args(["report", "--csv", "--no-children", "-s", "sym", "-i", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("prof starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        stdin.write_all(&script.stdout).expect("prof reads");
        drop(stdin);
        let output = child.wait_with_output().expect("prof ends");
        let piped = String::from_utf8(output.stdout).expect("UTF-8");
        let data = data.display().to_string();
        let words = [
            "report",
            "--csv",
            "--no-children",
            "-s",
            "sym",
            "--no-inline",
            "-i",
            &data,
        ];
        let own = prof(&words).succeeded("prof report").text();
        let shares = |csv: &str| {
            let lines = csv.lines().filter(|line| line.contains("same_name"));
            let shares = lines.filter_map(|line| Some(line.split(',').nth(1)?.to_owned()));
            shares.collect::<Vec<_>>()
        };
        assert!(!shares(&own).is_empty(), "{own}");
        assert_eq!(shares(&piped), shares(&own), "{piped}");
    }
}

/// A program that writes its own CPU and heap profile.
const GO: &str = r#"package main

import (
	"os"
	"runtime"
	"runtime/pprof"
	"time"
)

var kept [][]byte
var sink int

//go:noinline
func allocates() {
	for i := 0; i < 64; i++ {
		kept = append(kept, make([]byte, 1<<20))
	}
}

//go:noinline
func burns() {
	for start := time.Now(); time.Since(start) < 300*time.Millisecond; {
		for i := 0; i < 1000000; i++ {
			sink += i
		}
	}
}

func main() {
	runtime.MemProfileRate = 1
	cpu, _ := os.Create(os.Args[1])
	pprof.StartCPUProfile(cpu)
	burns()
	pprof.StopCPUProfile()
	cpu.Close()
	allocates()
	// What the profile has is as of the last collection but one.
	runtime.GC()
	runtime.GC()
	heap, _ := os.Create(os.Args[2])
	pprof.WriteHeapProfile(heap)
	heap.Close()
	runtime.KeepAlive(kept)
}
"#;

#[test]
fn profiles_of_go_programs_are_read_heaps_too() {
    const TEST: &str = "profiles_of_go_programs_are_read_heaps_too";
    if !have(TEST, "go") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    fs::write(path("main.go"), GO).expect("written");
    let built = Command::new("go")
        .args(["build", "-o", &path("program"), &path("main.go")])
        .env("GO111MODULE", "off")
        .status();
    assert!(built.expect("go starts").success());
    let ran = Command::new(path("program"))
        .args([path("cpu"), path("heap")])
        .status();
    assert!(ran.expect("it starts").success());
    for (file, function) in [("cpu", "main.burns"), ("heap", "main.allocates")] {
        let text = prof(&["report", "--stdio", "-i", &path(file)])
            .succeeded("prof report")
            .text();
        assert!(text.contains(function), "{text}");
    }
    let csv = prof(&["report", "--csv", "-i", &path("heap"), "-s", "sym"])
        .succeeded("report")
        .text();
    // As go tool pprof, which takes the last one where the profile does not say.
    let first = csv.lines().nth(1).expect(&csv);
    assert!(first.starts_with("inuse_space"), "{csv}");
    let row = csv
        .lines()
        .find(|line| line.starts_with("inuse_space") && line.contains("allocates"));
    let share: f64 = row
        .expect(&csv)
        .split(',')
        .nth(2)
        .expect("a share")
        .parse()
        .expect("a number");
    assert!(share > 90.0, "{csv}");
    // And on to another tool, with equal sums.
    let words = [
        "export",
        "--format",
        "folded",
        "-e",
        "inuse_space",
        "-i",
        &path("heap"),
    ];
    let folded = prof(&words).succeeded("prof export").text();
    let weights = folded
        .lines()
        .filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok());
    assert!(weights.sum::<u64>() >= 64 << 20, "{folded}");
}

#[test]
fn hostile_profiles_end_with_one_message() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("hostile");
    let name = file.display().to_string();
    let mut bomb = Command::new("sh")
        .args(["-c", "head -c 300000000 /dev/zero | tr '\\0' a | gzip -1"])
        .stdout(fs::File::create(&file).expect("written"))
        .spawn()
        .expect("sh starts");
    assert!(bomb.wait().expect("it ends").success());
    let refuses = |words: &str| {
        let began = Instant::now();
        // Address space as a bound of memory: 512 MB and what a program maps.
        let limited = format!("ulimit -v 900000; exec \"$0\" report --stdio -i {name}");
        let program = prof_command();
        let output = Command::new("sh")
            .args(["-c", &limited])
            .arg(program.get_program())
            .env("HOME", "/dev/null")
            .output()
            .expect("sh starts");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(told.contains(words), "{told}");
        assert_eq!(told.matches("prof: ").count(), 1, "{told}");
        // Much more than the 2 s that it may take: machines that test are loaded.
        assert!(
            began.elapsed() < Duration::from_secs(30),
            "{:?}",
            began.elapsed()
        );
    };
    refuses("128 MB");
    // A length behind the end, and a number that does not end.
    fs::write(&file, b"\x0a\x04\x08\x01\x10\x02\x12\xff\xff\xff\xff\x0f").expect("written");
    refuses("a field ends behind its message");
    fs::write(
        &file,
        b"\x0a\x04\x08\x01\x10\x02\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
    )
    .expect("written");
    refuses("a number does not end");
    // More samples than are read, each of two bytes.
    let mut many = b"\x0a\x04\x08\x01\x10\x02".to_vec();
    many.extend(b"\x12\x00".repeat(13 << 20));
    fs::write(&file, many).expect("written");
    refuses("too many entries");
    // Stacks of the Firefox Profiler that lead in a circle.
    let circle = WAITS.replace("[null]", "[0]");
    fs::write(&file, circle).expect("written");
    refuses("does not stand behind its caller");
    fs::write(&file, b"just some words\n").expect("written");
    refuses("neither a recording nor a profile");
}

#[test]
fn a_long_name_that_much_shares_costs_its_length_once() {
    let number = |mut value: usize| {
        let mut out = Vec::new();
        while value >= 0x80 {
            out.push(value as u8 | 0x80);
            value >>= 7;
        }
        out.push(value as u8);
        out
    };
    let field = |key: u8, bytes: &[u8]| [&[key], &*number(bytes.len()), bytes].concat();
    let mut profile = field(0x0a, b"\x08\x01\x10\x01");
    for id in 1..=20_000 {
        let id = number(id);
        // A sample, and its place in the one function.
        profile.extend(field(
            0x12,
            &[&field(0x0a, &id)[..], b"\x12\x01\x01"].concat(),
        ));
        let place = [b"\x08", &id[..], b"\x18", &id[..], b"\x22\x02\x08\x01"].concat();
        profile.extend(field(0x22, &place));
    }
    profile.extend(field(0x2a, b"\x08\x01\x10\x02"));
    profile.extend([field(0x32, b""), field(0x32, b"hits")].concat());
    profile.extend(field(0x32, "long".repeat(1 << 20).as_bytes()));
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("long.pb");
    fs::write(&file, profile).expect("written");
    let began = Instant::now();
    let out = folder.path().join("long.folded").display().to_string();
    let words = [
        "export",
        "--format",
        "folded",
        "-o",
        &out,
        "-i",
        &file.display().to_string(),
    ];
    prof(&words).succeeded("prof export");
    // Read once for each place, the name would be 80 GB.
    assert!(began.elapsed() < Duration::from_secs(30));
}

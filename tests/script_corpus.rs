//! `prof script` prints what `perf script` prints, for every recording of the
//! corpus that perf can read.
//!
//! Both look for files and for the kernel's symbols where there are none, so
//! that what they print follows from the recording alone. [`KNOWN`] lists the
//! recordings in which they differ, and in what; every other line is equal.

use crate::oracle::{have, nowhere, perfs, prof_command};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A way in which our text differs from perf's, on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Difference {
    /// simpleperf's META_INFO names the event; perf makes a name of its attr.
    EventName(&'static str, &'static str),
    /// simpleperf's FILE sections name functions; perf does not read them.
    CarriedSymbols,
    /// perf unwinds a copied stack only through files that it finds. Without
    /// them we go on by frame pointers, so perf's frames begin ours.
    Unwinding,
    /// Of an empty branch stack perf reads the first branch, which is whatever
    /// stands behind it. We keep the recorded chain.
    EmptyBranchStack,
    /// The newest perf forgets the name of a thread when it ends, and prints
    /// the thread's id in the samples that come behind; 6.1 and we do not.
    EndedThread,
}

use Difference::{CarriedSymbols, EmptyBranchStack, EndedThread, EventName, Unwinding};

const SIMPLEPERF_CYCLES: Difference = EventName("cycles:HG", "cpu-cycles");

/// A recording whose text differs, and all ways in which it does.
type Known = (&'static str, &'static [Difference]);

/// The recordings in which perf 6.1 and we differ.
const KNOWN: [Known; 19] = [
    (
        "simpleperf/scripts_runtest_two_functions_arm64_perf.data",
        &[SIMPLEPERF_CYCLES, CarriedSymbols],
    ),
    (
        "simpleperf/perf_merge1.data",
        &[SIMPLEPERF_CYCLES, CarriedSymbols],
    ),
    (
        "simpleperf/perf_need_proguard_mapping.data",
        &[SIMPLEPERF_CYCLES, CarriedSymbols],
    ),
    (
        "simpleperf/perf_with_ip_zero_in_callchain.data",
        &[EventName("cache-misses:u", "cache-misses"), Unwinding],
    ),
    (
        "simpleperf/perf_with_kernel_symbols_available_false.data",
        &[SIMPLEPERF_CYCLES, CarriedSymbols],
    ),
    ("simpleperf/perf_with_meta_info.data", &[SIMPLEPERF_CYCLES]),
    (
        "simpleperf/perf_with_symbols_for_nonzero_minvaddr_dso.data",
        &[CarriedSymbols],
    ),
    ("simpleperf/wrong_ip_callchain_perf.data", &[CarriedSymbols]),
    (
        "simpleperf/perf_with_add_counter.data",
        &[
            SIMPLEPERF_CYCLES,
            EventName("instructions:HG", "instructions"),
            CarriedSymbols,
        ],
    ),
    (
        "simpleperf/scripts_perf_test_vmlinux.data",
        &[EventName("cycles", "cycles:HG"), CarriedSymbols],
    ),
    (
        "simpleperf/lbr_perf_lbr.data",
        &[EventName("cycles:u", "cpu-cycles"), CarriedSymbols],
    ),
    (
        "simpleperf/perf_with_failed_unwinding_debug_info.data",
        &[EventName("cycles", "cpu-cycles")],
    ),
    ("hotspot/perf.data.PerfFormatLost", &[Unwinding]),
    ("local/perf7.2-dwarf.data", &[Unwinding]),
    ("perfparser/contentsize.data", &[Unwinding]),
    ("perfparser/fork_static_gcc.perf.data.zstd", &[Unwinding]),
    ("perfparser/vector_static_clang.perf.data", &[Unwinding]),
    (
        "perfparser/vector_static_gcc.perf.lbr.data",
        &[EmptyBranchStack],
    ),
    ("local/perf6.1-zstdbig.data", &[Unwinding]),
];

const NEWEST_CYCLES: Difference = EventName("cycles", "cpu-cycles");
const NEWEST_CYCLES_HG: Difference = EventName("cycles", "cycles:HG");

/// The same for the newest perf, where it differs from perf 6.1: it makes
/// other names of attrs that no section names.
const KNOWN_OF_NEWEST: [Known; 18] = [
    (
        "simpleperf/scripts_runtest_two_functions_arm64_perf.data",
        &[NEWEST_CYCLES, CarriedSymbols],
    ),
    ("simpleperf/perf_b.data", &[NEWEST_CYCLES_HG]),
    (
        "simpleperf/perf_merge1.data",
        &[NEWEST_CYCLES, CarriedSymbols],
    ),
    (
        "simpleperf/perf_need_proguard_mapping.data",
        &[NEWEST_CYCLES, CarriedSymbols],
    ),
    (
        "simpleperf/perf_with_add_counter.data",
        &[NEWEST_CYCLES, CarriedSymbols],
    ),
    (
        "simpleperf/perf_with_kernel_symbols_available_false.data",
        &[NEWEST_CYCLES, CarriedSymbols],
    ),
    ("simpleperf/perf_with_meta_info.data", &[NEWEST_CYCLES]),
    (
        "simpleperf/perf_with_multiple_pids_and_tids.data",
        &[NEWEST_CYCLES_HG],
    ),
    (
        "simpleperf/perf_with_symbols_for_nonzero_minvaddr_dso.data",
        &[NEWEST_CYCLES_HG, CarriedSymbols],
    ),
    (
        "simpleperf/wrong_ip_callchain_perf.data",
        &[NEWEST_CYCLES_HG, CarriedSymbols],
    ),
    (
        "perfparser/contentsize.data",
        &[
            EventName("cache-references:H", "cache-references"),
            Unwinding,
        ],
    ),
    ("autofdo/perf-kernel.data", &[EndedThread]),
    ("quipper/perf.data.armv7-3.4", &[EndedThread]),
    ("quipper/perf.data.callgraph-3.4", &[EndedThread]),
    ("quipper/perf.data.hw_and_sw-3.4", &[EndedThread]),
    (
        "quipper/perf.data.piped.no_attr_ids-4.14",
        &[EventName("cycles:H", "cycles")],
    ),
    (
        "quipper/perf.data.piped.target-3.4",
        &[EventName("cycles:H", "cycles")],
    ),
    ("quipper/perf.data.systemwide.5-3.8", &[EndedThread]),
];

/// Recordings that the newest perf prints otherwise than perf 6.1, and why.
const NOT_AS_NEWEST: [(&str, &str); 4] = [
    (
        "quipper/perf.data.piped.intel_pt-4.14",
        "decodes the trace into samples of its own",
    ),
    (
        "perfparser/vector_static_gcc.perf.lbr.data",
        "takes the sampled address for the innermost frame of the branches",
    ),
    (
        "quipper/perf.data.piped.target.throttled-3.4",
        "prints CPU 0 for CPUs above the number that the header tells",
    ),
    (
        "quipper/perf.data.weight_struct",
        "has other words for data sources, and one more default field",
    ),
];

/// What is wrong with the text of one recording, in words.
type Wrong = String;

/// One sample: its first line, and the frames below it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Sample<'a> {
    head: &'a str,
    frames: Vec<&'a str>,
}

fn samples(text: &str) -> Vec<Sample<'_>> {
    let mut samples: Vec<Sample<'_>> = Vec::new();
    for line in text.lines().filter(|line| !line.is_empty()) {
        match (line.starts_with('\t'), samples.last_mut()) {
            (true, Some(sample)) => sample.frames.push(line),
            _ => samples.push(Sample {
                head: line,
                frames: Vec::new(),
            }),
        }
    }
    samples
}

/// The differences of one recording, and which of them were met.
struct Allowed {
    differences: &'static [Difference],
    met: Vec<bool>,
}

impl Allowed {
    fn of(name: &str, lists: &[&[Known]]) -> Self {
        let mut known = lists.iter().flat_map(|list| list.iter());
        let known = known.find(|(known, _)| *known == name);
        let differences = known.map_or(&[][..], |(_, differences)| differences);
        Self {
            differences,
            met: vec![false; differences.len()],
        }
    }

    /// Notes and tells whether a difference of this recording explains it.
    fn any(&mut self, explains: impl Fn(Difference) -> bool) -> bool {
        let found = self.differences.iter().position(|&it| explains(it));
        if let Some(met) = found.and_then(|index| self.met.get_mut(index)) {
            *met = true;
        }
        found.is_some()
    }

    fn head(&mut self, perfs: &str, ours: &str) -> bool {
        if perfs == ours {
            return true;
        }
        // A name of another length moves what stands beside it.
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let (plain, ours) = (words(perfs), words(ours));
        let renamed = |difference| match difference {
            EventName(perfs_name, our_name) => {
                let from = format!(" {perfs_name}:");
                let found = format!("{plain} ").contains(&format!("{from} "));
                found.then(|| plain.replacen(&from, &format!(" {our_name}:"), 1))
            }
            _ => None,
        };
        if is_of_ended_thread(&plain, &ours) {
            return self.any(|it| it == EndedThread);
        }
        let is_same = |perfs: &str| perfs == ours || is_named(perfs, &ours);
        let renames = |it| renamed(it).is_some_and(|perfs| is_same(&perfs));
        let perfs = self.differences.iter().find_map(|&it| renamed(it));
        let perfs = perfs
            .filter(|perfs| is_same(perfs))
            .unwrap_or(plain.clone());
        let is_renamed = perfs != plain && self.any(renames);
        let is_named = is_named(&perfs, &ours) && self.any(|it| it == CarriedSymbols);
        is_named || (is_renamed && perfs == ours)
    }

    fn frames(&mut self, perfs: &[&str], ours: &[&str]) -> bool {
        let same = |allowed: &mut Self, (perfs, ours): (&&str, &&str)| {
            perfs == ours || allowed.any(|it| it == CarriedSymbols && is_named(perfs, ours))
        };
        // All but perf's last frame, and something of ours in its place.
        let garbled = perfs != ours
            && perfs
                .split_last()
                .is_some_and(|(_, rest)| ours.len() > rest.len() && ours.starts_with(rest));
        if garbled && self.any(|it| it == EmptyBranchStack) {
            return true;
        }
        let counts = perfs.len() == ours.len()
            || (perfs.len() < ours.len() && self.any(|it| it == Unwinding));
        counts && perfs.iter().zip(ours).all(|pair| same(self, pair))
    }
}

/// Whether two lines differ in that ours names the thread: `:12 12 …` and
/// `name 12 …`.
fn is_of_ended_thread(perfs: &str, ours: &str) -> bool {
    let Some((unnamed, behind)) = perfs.split_once(' ') else {
        return false;
    };
    let tid = behind.split(' ').next().unwrap_or_default();
    let name = ours.strip_suffix(behind);
    unnamed.strip_prefix(':') == Some(tid) && name.is_some_and(|name| !name.starts_with(':'))
}

/// Whether two lines differ in that ours names the function.
fn is_named(perfs: &str, ours: &str) -> bool {
    let Some((before, behind)) = perfs.split_once(" [unknown] (") else {
        return false;
    };
    let symbol = ours
        .strip_prefix(before)
        .and_then(|rest| rest.strip_suffix(behind))
        .and_then(|rest| rest.strip_prefix(' ')?.strip_suffix(" ("));
    symbol.is_some_and(|symbol| symbol != "[unknown]")
}

/// A text without what differs between the layouts of perf 6.1 and 7.2: the
/// width of the thread's column, and frames of files by live address instead
/// of by the offset in the file.
fn without_layout(text: &str) -> String {
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = |line: &str| {
        let Some(frame) = line.strip_prefix('\t') else {
            return words(line);
        };
        let (address, rest) = frame.trim_start().split_once(' ').unwrap_or((frame, ""));
        let is_of_file = !address.starts_with("ffff") && !rest.ends_with("([unknown])");
        let address = if is_of_file { "ADDRESS" } else { address };
        format!("\t{address} {rest}")
    };
    text.lines().map(|it| line(it) + "\n").collect()
}

/// Compares the texts of one recording; the first list that has it tells the
/// known differences.
fn compare(name: &str, lists: &[&[Known]], perfs: &str, ours: &str) -> Result<(), Wrong> {
    let mut allowed = Allowed::of(name, lists);
    let (theirs, own) = (samples(perfs), samples(ours));
    for (number, (perfs, ours)) in (1..).zip(theirs.iter().zip(&own)) {
        let same =
            allowed.head(perfs.head, ours.head) && allowed.frames(&perfs.frames, &ours.frames);
        if !same {
            return Err(format!(
                "sample {number}\nperf: {perfs:#?}\nprof: {ours:#?}"
            ));
        }
    }
    if theirs.len() != own.len() {
        return Err(format!(
            "perf has {} samples, prof {}",
            theirs.len(),
            own.len()
        ));
    }
    if allowed.differences.is_empty() && perfs != ours {
        return Err("the lines between the samples differ".to_owned());
    }
    let unmet = allowed.differences.iter().zip(&allowed.met);
    let unmet: Vec<_> = unmet.filter(|(_, met)| !**met).collect();
    if unmet.is_empty() {
        Ok(())
    } else {
        Err(format!("known differences that are none: {unmet:?}"))
    }
}

/// What `perf script` prints of a recording; `None` if it cannot.
fn perf_script(perf: &Path, nowhere: &Path, recording: &Path, options: &[&str]) -> Option<String> {
    let output = Command::new(perf)
        .args(["script", "--no-inline", "--kallsyms", "/dev/null", "-f"])
        .args(options)
        .arg("--symfs")
        .arg(nowhere)
        .arg("-i")
        .arg(recording)
        .env("LC_ALL", "C.UTF-8")
        .env("HOME", nowhere)
        .output()
        .expect("perf starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (output.status.success() && !text.is_empty()).then_some(text)
}

fn prof_script(nowhere: &Path, recording: &Path, options: &[&str]) -> String {
    let output = prof_command()
        .args(["script", "--no-inline", "--kallsyms", "/dev/null", "-f"])
        .args(options)
        .arg("--symfs")
        .arg(nowhere)
        .arg("-i")
        .arg(recording)
        .env("HOME", nowhere)
        .output()
        .expect("prof starts");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The sound recordings of the corpus, or of those kept here.
fn recordings() -> (PathBuf, Vec<String>) {
    let (folder, expected) = crate::corpus::corpus();
    let files = expected["files"].as_array().expect("files");
    let sound = files.iter().filter(|file| file["hostile"] != true);
    let name = |file: &serde_json::Value| file["file"].as_str().expect("file").to_owned();
    // The description has no directories.
    let directory = "local/perf6.1-threads.data".to_owned();
    let names = sound.map(name).chain([directory]).collect();
    (folder, names)
}

#[test]
fn every_sample_is_printed_as_perf_prints_it() {
    let test = "every_sample_is_printed_as_perf_prints_it";
    if !have(test, "perf") {
        return;
    }
    let (perf, nowhere) = (Path::new("perf"), nowhere());
    let (folder, names) = recordings();
    let (mut compared, mut wrong) = (0, Vec::new());
    for name in &names {
        let recording = folder.join(name);
        let Some(perfs) = perf_script(perf, &nowhere, &recording, &[]) else {
            continue;
        };
        compared += 1;
        let ours = prof_script(&nowhere, &recording, &[]);
        if let Err(why) = compare(name, &[&KNOWN], &perfs, &ours) {
            wrong.push(format!("{name}: {why}"));
        }
    }
    eprintln!(
        "{test}: perf reads {compared} of {} recordings",
        names.len()
    );
    assert!(compared > 0, "perf reads none of {}", folder.display());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_sample_is_printed_as_the_newest_perf_prints_it() {
    let test = "every_sample_is_printed_as_the_newest_perf_prints_it";
    if !have(test, "perf") {
        return;
    }
    let perfs = perfs(test);
    let [_, newest] = perfs.as_slice() else {
        return;
    };
    let nowhere = nowhere();
    let (folder, names) = recordings();
    let (mut compared, mut wrong) = (0, Vec::new());
    for name in &names {
        if let Some((_, why)) = NOT_AS_NEWEST.iter().find(|(other, _)| other == name) {
            eprintln!("{test}: {name} is left out, perf {why}");
            continue;
        }
        let recording = folder.join(name);
        let Some(theirs) = perf_script(newest, &nowhere, &recording, &[]) else {
            continue;
        };
        compared += 1;
        let ours = prof_script(&nowhere, &recording, &[]);
        let (theirs, ours) = (without_layout(&theirs), without_layout(&ours));
        let lists: [&[Known]; 2] = [&KNOWN_OF_NEWEST, &KNOWN];
        if let Err(why) = compare(name, &lists, &theirs, &ours) {
            wrong.push(format!("{name}: {why}"));
        }
    }
    eprintln!(
        "{test}: perf reads {compared} of {} recordings",
        names.len()
    );
    assert!(compared > 0, "perf reads none of {}", folder.display());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Recordings that have what the fields show.
const RICH: [&str; 15] = [
    "autofdo/perf-kernel.data",
    "quipper/perf.data.branch-4.14",
    "quipper/perf.data.branch_stack_hw_index",
    "quipper/perf.data.hybrid_topology",
    "quipper/perf.data.lost_samples-4.4",
    "quipper/perf.data.raw-3.4",
    "quipper/perf.data.weight_struct",
    "local/perf6.1-cgroup.data",
    "local/perf6.1-group.data",
    "local/perf6.1-intrregs.data",
    "local/perf6.1-named.data",
    "local/perf6.1-pipe.data",
    "local/perf6.1-pipez.data",
    "local/perf7.2-pipetp.data",
    "local/perf6.1-switchns.data",
];

/// Options that change what is printed of a sample.
const OPTIONS: [&str; 35] = [
    "-F comm,pid,tid,cpu,time,event,ip,sym,symoff,dso,period",
    "-F ip,sym",
    "-F tid,time,event,ip",
    "-F ip,sym,brstack",
    "-F ip,sym,dso,brstack",
    "-F ip,sym,dso,brstacksym",
    "-F ip,brstackoff",
    "-F comm,ip,addr,sym,dso",
    "-F ip,iregs",
    "-F ip,uregs",
    "-F comm,data_src,weight",
    "-F comm,ins_lat",
    "-F time,phys_addr",
    "-F comm,misc",
    "-F comm,trace",
    "-F comm,tid,flags,ip",
    "-F comm,synth,ipc,callindent,machine_pid,vcpu,ip",
    "-F hw:comm,tid",
    "-F +pid,-comm",
    "-F +misc,-time",
    "-G",
    "--ns",
    "-G --show-task-events",
    "--show-mmap-events",
    "--show-switch-events --show-namespace-events",
    "--show-lost-events",
    "--max-stack 3",
    "-G --ns --show-task-events --show-mmap-events --show-namespace-events",
    // By the order in the file, where perf does not know later names and mappings yet.
    "-F tid,time,event,ip -G --show-round-events",
    "-F tid,time -G --show-round-events --show-task-events --show-mmap-events",
    "--show-cgroup-events --show-bpf-events --show-text-poke-events",
    "--reltime",
    "--deltatime --show-mmap-events --show-task-events",
    "-F -sym,-symoff",
    "--dsos [kernel.kallsyms],libc.so.6",
];

/// Branches in the kernel have no offset in a file: perf counts from where the
/// kernel is mapped, we show the address, as elsewhere.
const KERNEL_OFFSETS: (&str, [&str; 2]) = (
    "-F ip,brstackoff",
    ["autofdo/perf-kernel.data", "quipper/perf.data.branch-4.14"],
);

#[test]
fn every_field_is_printed_as_perf_prints_it() {
    let test = "every_field_is_printed_as_perf_prints_it";
    if !have(test, "perf") {
        return;
    }
    let (perf, nowhere) = (Path::new("perf"), nowhere());
    let (folder, names) = recordings();
    let (mut compared, mut wrong) = (0, Vec::new());
    for name in names.iter().filter(|name| RICH.contains(&name.as_str())) {
        let recording = folder.join(name);
        for options in OPTIONS {
            let words: Vec<&str> = options.split(' ').collect();
            // A field that the samples lack is refused by both.
            let Some(perfs) = perf_script(perf, &nowhere, &recording, &words) else {
                continue;
            };
            compared += 1;
            let ours = prof_script(&nowhere, &recording, &words);
            let (known, of) = KERNEL_OFFSETS;
            let is_known = options == known && of.contains(&name.as_str());
            if is_known && perfs == ours {
                wrong.push(format!("{name} {options}: a known difference that is none"));
            }
            if perfs != ours && !is_known {
                let mut lines = perfs.lines().zip(ours.lines());
                let first = lines.find(|(perfs, ours)| perfs != ours);
                wrong.push(format!("{name} {options}: {first:#?}"));
            }
        }
    }
    eprintln!("{test}: {compared} texts compared");
    assert!(compared > 100, "only {compared} texts");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

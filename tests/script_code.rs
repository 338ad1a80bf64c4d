//! Instructions and source lines in `prof script`, against `perf script`.

use crate::oracle::{compiled, have, perf, prof, recorded_by_perf, scratch};
use prof_abi::{AttrFlags, BranchSampleType, CpuMode, EventAttr, Misc, SampleType};
use prof_perfdata::body::{Body, Comm, FileIdentity, Mmap2, Name};
use prof_perfdata::write::{
    EventDescription, Features, FileWriter, SampleEncoder, SampleFields, Trailer, append_short,
};
use prof_profile::Svma;
use prof_symbolize::{DsoRequest, Sources, SymbolFile, Symbolizer};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Fails unless both print the same of `recording`.
fn assert_same_text(recording: &Path, options: &[&str]) {
    let input = ["script", "-i", recording.to_str().expect("a plain name")];
    let args: Vec<&str> = input.iter().chain(options).copied().collect();
    let perfs = perf(&args).succeeded("perf script").text();
    let ours = prof(&args).succeeded("prof script").text();
    assert!(!perfs.trim().is_empty(), "{options:?}: no text");
    let mut lines = perfs.lines().zip(ours.lines());
    let first = lines.find(|(perfs, ours)| perfs != ours);
    assert_eq!(perfs, ours, "{options:?}: {first:#?}");
}

#[test]
fn sampled_instructions_and_their_source_lines_equal_perfs() {
    let test = "sampled_instructions_and_their_source_lines_equal_perfs";
    let flags = ["-g", "-O1"];
    let Some(program) = compiled(test, "steady-calls.c", &flags) else {
        return;
    };
    if !have(test, "perf") {
        return;
    }
    let program = program.to_str().expect("a plain name");
    let path = &recorded_by_perf(test, &["-e", "cpu-clock:u", "-F", "999"], &[program]);
    for fields in [
        "insn",
        "comm,ip,insn,insnlen",
        "ip,srccode",
        "ip,srcline,srccode,insn",
    ] {
        assert_same_text(Path::new(path), &["-F", fields]);
    }
}

/// The frames of each sample in a text of `-F ip,sym,symoff,dso` that was
/// taken in `program` below `main`.
fn chains_in_main(text: &str, program: &str) -> Vec<Vec<String>> {
    let dso = format!(" ({program})");
    let chains = text.split("\n\n").map(|sample| -> Vec<String> {
        sample
            .lines()
            .filter(|line| line.starts_with('\t'))
            .map(str::to_owned)
            .collect()
    });
    let is_in_main = |chain: &Vec<String>| {
        let leaf = chain
            .first()
            .is_some_and(|leaf| leaf.ends_with(&dso) && !leaf.contains("@plt"));
        leaf && chain.iter().any(|frame| frame.contains(" main+"))
    };
    chains.filter(is_in_main).collect()
}

#[test]
fn callers_of_unwound_stacks_are_shown_by_their_call_as_in_perf() {
    // covers live: CTX-06
    let test = "callers_of_unwound_stacks_are_shown_by_their_call_as_in_perf";
    let Some(program) = compiled(test, "steady-calls.c", &["-g", "-O1"]) else {
        return;
    };
    if !have(test, "perf") {
        return;
    }
    let program = program.to_str().expect("a plain name");
    let stacks = ["--call-graph", "dwarf,4096"];
    let options = [&["-e", "cpu-clock:u", "-F", "199"][..], &stacks].concat();
    let path = &recorded_by_perf(test, &options, &[program]);
    let args = [
        "script",
        "--no-inline",
        "-F",
        "ip,sym,symoff,dso",
        "-i",
        path,
    ];
    let perfs = perf(&args).succeeded("perf script").text();
    let ours = prof(&args).succeeded("prof script").text();
    let (perfs, ours) = (
        chains_in_main(&perfs, program),
        chains_in_main(&ours, program),
    );
    assert!(
        perfs.len() > 10,
        "only {} samples in the program",
        perfs.len()
    );
    assert_eq!(perfs, ours);
}

/// Where the program begins in the recording: where it was linked to.
pub(crate) const BASE: u64 = 0x40_0000;
/// Where its code begins in it and in its file.
pub(crate) const TEXT: u64 = 0x1000;
const PID: u32 = 4_000_001;

fn attr() -> EventAttr {
    EventAttr {
        kind: 1,
        sample_period: 999,
        sample_type: SampleType::IDENTIFIER
            | SampleType::IP
            | SampleType::TID
            | SampleType::TIME
            | SampleType::BRANCH_STACK,
        flags: AttrFlags::MMAP | AttrFlags::MMAP2 | AttrFlags::COMM | AttrFlags::SAMPLE_ID_ALL,
        branch_sample_type: BranchSampleType::USER | BranchSampleType::ANY,
        ..EventAttr::default()
    }
}

/// A branch: where from, where to, and its flags as in the record.
pub(crate) type Taken = [u64; 3];

const PREDICTED: u64 = 2;
const MISPREDICTED: u64 = 1;
const IN_TRANSACTION: u64 = 4;
const ABORT: u64 = 8;

fn cycles(count: u64) -> u64 {
    count << 4
}

/// Samples with branches in a program that never ran.
pub(crate) fn write(name: &str, program: &Path, samples: &[(u64, Vec<Taken>)]) -> PathBuf {
    let attr = attr();
    let events = [EventDescription {
        attr,
        ids: vec![1],
        name: "cpu-clock".into(),
    }];
    let path = scratch().join(name);
    let mut writer = FileWriter::new(std::io::Cursor::new(Vec::new()), &events).expect("in memory");
    let mut records = Vec::new();
    let trailer = Trailer::of(&events[0].attr);
    let (pid, tid) = (PID.cast_signed(), PID.cast_signed());
    let name = Name::of_thread(b"branches");
    let comm = Body::Comm(Comm { pid, tid, name });
    append_short(&comm, Misc::COMM_EXEC, &trailer, &mut records);
    let mapping = Body::Mmap2(Mmap2 {
        pid,
        tid,
        start: BASE + TEXT,
        len: 0xf000,
        file_offset: TEXT,
        file: FileIdentity::NONE,
        prot: 5,
        flags: 2,
        path: Name::new(program.as_os_str().as_encoded_bytes()),
    });
    let misc = Misc::of_mode(CpuMode::User);
    append_short(&mapping, misc, &trailer, &mut records);
    for (index, (ip, branches)) in samples.iter().enumerate() {
        let fields = SampleFields {
            cpu_mode: CpuMode::User,
            id: 1,
            ip: *ip,
            pid: PID,
            tid: PID,
            time: 1000 + index as u64,
            branches,
            ..SampleFields::default()
        };
        let encoder = SampleEncoder::new(&events[0].attr);
        encoder.encode(&fields, &mut records).expect("short");
    }
    writer.write(&records).expect("written");
    let mut features = Features::default();
    features.hostname("here");
    features.arch("x86_64");
    features.event_descriptions(&events);
    let bytes = writer.finish(&features).expect("in memory");
    std::fs::write(&path, bytes.into_inner()).expect("the target folder is writable");
    path
}

pub(crate) fn opened(program: &Path) -> Arc<SymbolFile> {
    let path = program.to_str().expect("a plain name");
    Symbolizer::new(Sources::default())
        .open(&DsoRequest::for_file(path, None))
        .expect("just compiled")
}

/// Branch stacks of every kind that blocks are printed for.
pub(crate) fn samples(file: &SymbolFile) -> Vec<(u64, Vec<Taken>)> {
    let function = |name: &str| {
        let Svma(address) = file.address_of(name).expect("a function of the program");
        address
    };
    let (first, second, third) = (function("first"), function("second"), function("third"));
    // Offsets of instructions, as fixtures/programs/branches.c has them.
    let first_jump = first + 6;
    let (second_call, fourth, fourth_end) = (second + 8, second + 13, second + 19);
    let (third_middle, third_return) = (third + 1, third + 5);
    let jump = |flags| [first_jump, second, flags];
    let call = |flags| [second_call, third, flags];
    let back = |flags| [third_return, fourth, flags];
    let kernel = 0xffff_ffff_8100_0000;
    vec![
        // Whole, newest first, and the sample two instructions on.
        (
            fourth_end,
            vec![
                back(PREDICTED | cycles(3)),
                call(MISPREDICTED),
                jump(PREDICTED),
            ],
        ),
        // The sample is the branch.
        (third_return, vec![back(PREDICTED), call(cycles(7))]),
        // In a transaction that ended.
        (
            fourth,
            vec![back(IN_TRANSACTION | ABORT), call(IN_TRANSACTION)],
        ),
        // The branch before the sample is missing.
        (first, vec![call(PREDICTED), jump(PREDICTED)]),
        (fourth, vec![jump(PREDICTED)]),
        // The code does not lead from one branch to the next.
        (
            third_middle,
            vec![call(0), [second_call - 1, second, 0], jump(0)],
        ),
        // An interrupt, of whose entry there is no branch.
        (
            fourth,
            vec![back(0), call(0), [kernel + 16, second, 0], jump(0)],
        ),
        (fourth, vec![[kernel, kernel + 5, 0], jump(0), call(0)]),
        // Nothing is mapped there, blocks too long, addresses of nothing.
        (fourth, vec![back(0), [0x10, 0x20, 0]]),
        (fourth, vec![[fourth + 0x8000, second, 0], jump(0)]),
        (fourth, vec![[0, 0, 0], back(0)]),
        (fourth, Vec::new()),
    ]
}

#[test]
fn the_instructions_between_branches_equal_perfs() {
    let test = "the_instructions_between_branches_equal_perfs";
    let flags = ["-g", "-O1", "-no-pie"];
    let Some(program) = compiled(test, "branches.c", &flags) else {
        return;
    };
    if !have(test, "perf") {
        return;
    }
    let recording = write(
        &format!("{test}.data"),
        &program,
        &samples(&opened(&program)),
    );
    for fields in [
        "ip,brstackinsn",
        "comm,ip,sym,brstackinsn",
        "ip,brstackinsnlen",
        "ip,sym,insn,brstackinsn,srccode",
    ] {
        assert_same_text(&recording, &["-F", fields]);
    }
}

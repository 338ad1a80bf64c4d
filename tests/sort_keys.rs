//! `prof report` of what the records of samples tell, against `perf report`:
//! branches, memory accesses, weights, transactions.
//!
//! The recording is written here to the kernel's definition, since no machine
//! of a test has the hardware. What is not compared, by reason:
//!
//! - perf 7 words accesses in another way (see `data_source`), so that their
//!   columns are compared with perf 6.1 alone.
//! - The number of samples: of branches, perf 6.1 tells that of branches, perf
//!   7 and we that of samples, which a test of its own looks at.
//! - The column `IPC` that perf adds, empty, where the word `symbol` is among
//!   the keys.
//! - The column `Latency` that perf 7 adds where threads that run are counted.
//! - `mispredict` where a branch does not tell: perf repeats the row before.
//! - Lines of branches in code without lines: perf has `??:0` for those with a
//!   symbol, and joins them to one row.
//! - `-s sym` of branches that lead to code without a name: perf has their
//!   live address there, as nowhere else.

use crate::oracle::{compiled, have, perf_at, perfs, prof, scratch};
use prof_abi::{AttrFlags, BranchSampleType, CpuMode, EventAttr, Misc, SampleType};
use prof_perfdata::body::{Body, Comm, FileIdentity, Mmap2, Name};
use prof_perfdata::write::{
    EventDescription, Features, FileWriter, SampleEncoder, SampleFields, Trailer, append_short,
};
use prof_perfdata::{CpuPlace, CpuTopology, FeatureBit};
use prof_symbolize::{DsoRequest, Sources, Symbolizer};
use std::path::{Path, PathBuf};

/// Where the program is mapped: where it was linked to.
pub(crate) const BASE: u64 = 0x40_0000;
pub(crate) const PID: u32 = 4_000_001;

const OF_ALL: SampleType = SampleType(
    SampleType::IP.0
        | SampleType::TID.0
        | SampleType::TIME.0
        | SampleType::ADDR.0
        | SampleType::CPU.0
        | SampleType::PERIOD.0
        | SampleType::DATA_SRC.0
        | SampleType::TRANSACTION.0
        | SampleType::PHYS_ADDR.0
        | SampleType::CGROUP.0
        | SampleType::DATA_PAGE_SIZE.0
        | SampleType::CODE_PAGE_SIZE.0
        | SampleType::WEIGHT_STRUCT.0
        | SampleType::BRANCH_STACK.0,
);

pub(crate) fn attr() -> EventAttr {
    EventAttr {
        kind: 1,
        sample_period: 999,
        sample_type: OF_ALL,
        flags: AttrFlags::MMAP | AttrFlags::MMAP2 | AttrFlags::COMM | AttrFlags::SAMPLE_ID_ALL,
        branch_sample_type: BranchSampleType::USER | BranchSampleType::ANY,
        ..EventAttr::default()
    }
}

/// Functions or variables of a program, by address.
pub(crate) fn addresses<const N: usize>(program: &Path, names: [&str; N]) -> [u64; N] {
    let path = program.to_str().expect("a plain name");
    let file = Symbolizer::new(Sources::default())
        .open(&DsoRequest::for_file(path, None))
        .expect("just compiled");
    names.map(|name| file.address_of(name).expect("a symbol of it").0)
}

/// A sample: its branches, newest first, and its other fields.
pub(crate) type Taken = (Vec<[u64; 3]>, SampleFields<'static>);

/// Samples in which each field takes several values. The first is in a place
/// of its own, the second five times as frequent as it, and so on, so that
/// nearly no two rows of a table are equal.
fn samples(program: &Path) -> Vec<Taken> {
    let [first, second, third, variable] =
        addresses(program, ["first", "second", "third", "_IO_stdin_used"]);
    let (predicted, missed, in_tx, abort) = (2, 1, 4, 8);
    let cycles = |count: u64| count << 4;
    let rows = [
        (
            first,
            [first + 6, second, predicted | cycles(3)],
            0x6810_0142,
            0,
            40,
        ),
        (
            second,
            [second + 8, third, missed | cycles(7)],
            0x6a10_0141,
            0x6,
            300,
        ),
        (
            third,
            [third + 5, second + 13, in_tx | abort | predicted],
            0x1e_0508_0021,
            0x2a_0000_0003,
            7,
        ),
        (0x30_0000, [0x10, 0x20, predicted], 0x0508_0144, 0x9, 0),
    ];
    let mut samples = Vec::new();
    for (index, (ip, branch, data_src, transaction, weight)) in (0_u64..).zip(rows) {
        for time in 0..1 + 5 * index {
            let fields = SampleFields {
                cpu_mode: CpuMode::User,
                ip,
                pid: PID,
                tid: PID,
                time: 1000 * (1 + index) + time,
                period: 100 + 1000 * index,
                cpu: (index % 2) as u32,
                addr: [BASE + 0x8000, variable, BASE + 0x8010, 0x7777_0000][index as usize],
                data_src,
                transaction,
                phys_addr: 0x1_0000_0000 + 64 * index,
                cgroup: [0, 5, 6, 5][index as usize],
                data_page_size: [0, 4096, 1 << 21, 1 << 30][index as usize],
                code_page_size: [4096, 0, 4096, 1 << 21][index as usize],
                weight: weight | (10 + index) << 32 | (20 + index) << 48,
                ..SampleFields::default()
            };
            samples.push((vec![branch, [first + 6, second, predicted]], fields));
        }
    }
    samples
}

fn mapping(program: &Path) -> Mmap2<'_> {
    Mmap2 {
        pid: PID.cast_signed(),
        tid: PID.cast_signed(),
        start: BASE,
        len: 0x1_0000,
        file_offset: 0,
        file: FileIdentity::NONE,
        prot: 5,
        flags: 2,
        path: Name::new(program.as_os_str().as_encoded_bytes()),
    }
}

/// Two records as the kernel writes them: header, id, path.
fn cgroups(out: &mut Vec<u8>) {
    for (id, path) in [(5_u64, *b"/a.slice"), (6, *b"/b/inner")] {
        // CGROUP, no misc; body and trailer: pid, tid, time, cpu.
        out.extend(19_u32.to_le_bytes());
        out.extend([0, 0, 56, 0]);
        out.extend(id.to_le_bytes());
        out.extend(path);
        out.extend([0; 8]);
        out.extend(PID.to_le_bytes());
        out.extend(PID.to_le_bytes());
        out.extend(1_u64.to_le_bytes());
        out.extend([0; 8]);
    }
}

fn write(name: &str, program: &Path) -> PathBuf {
    write_samples(name, program, &samples(program))
}

/// A recording of branches of the program.
pub(crate) fn write_samples(name: &str, program: &Path, samples: &[Taken]) -> PathBuf {
    write_samples_of(name, program, (attr(), samples))
}

/// The same of an event of this kind.
pub(crate) fn write_samples_of(
    name: &str,
    program: &Path,
    (attr, samples): (EventAttr, &[Taken]),
) -> PathBuf {
    let events = [EventDescription {
        attr,
        ids: vec![1],
        name: "cpu-clock".into(),
    }];
    let path = scratch().join(name);
    let mut writer = FileWriter::new(std::io::Cursor::new(Vec::new()), &events).expect("in memory");
    let mut records = Vec::new();
    let trailer = Trailer::of(&events[0].attr);
    let comm = Body::Comm(Comm {
        pid: PID.cast_signed(),
        tid: PID.cast_signed(),
        name: Name::of_thread(b"branches"),
    });
    append_short(&comm, Misc::COMM_EXEC, &trailer, &mut records);
    let mapping = Body::Mmap2(mapping(program));
    let misc = Misc::of_mode(CpuMode::User);
    append_short(&mapping, misc, &trailer, &mut records);
    cgroups(&mut records);
    let encoder = SampleEncoder::new(&events[0].attr);
    for (branches, fields) in samples {
        let fields = SampleFields {
            branches,
            ..*fields
        };
        encoder.encode(&fields, &mut records).expect("short");
    }
    writer.write(&records).expect("written");
    let mut features = Features::default();
    features.hostname("here");
    features.arch("x86_64");
    features.cpu_counts(2, 2);
    features.set(FeatureBit::BRANCH_STACK, Vec::new());
    let core = |socket| CpuPlace {
        core: 0,
        socket,
        die: Some(0),
    };
    features.cpu_topology(&CpuTopology {
        cores: vec!["0".into(), "1".into()],
        threads: vec!["0".into(), "1".into()],
        dies: vec!["0".into(), "1".into()],
        cpus: vec![core(0), core(1)],
    });
    features.event_descriptions(&events);
    let bytes = writer.finish(&features).expect("in memory");
    std::fs::write(&path, bytes.into_inner()).expect("the target folder is writable");
    path
}

/// The table and what is told above it, from the count of lost samples on.
pub(crate) fn table(text: &str) -> Vec<String> {
    let lines = text.lines().map(|line| line.trim_end().to_owned());
    let from_counts = lines.skip_while(|line| !line.starts_with("# Total Lost"));
    from_counts
        .filter(|line| !line.starts_with("# (Tip") && line != "#" && !line.is_empty())
        .collect()
}

/// Which perfs a table is compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Perfs {
    All,
    Installed,
    Newest,
}

/// Fails unless these perfs show the same table as we.
fn compare(test: &str, recording: &Path, (options, which): (&str, Perfs)) {
    let input = [
        "report",
        "--stdio",
        "-i",
        recording.to_str().expect("a plain name"),
    ];
    let args: Vec<&str> = input
        .into_iter()
        .chain(options.split_whitespace())
        .collect();
    let ours = table(&prof(&args).succeeded(options).text());
    let perfs = perfs(test);
    let perfs = match which {
        Perfs::All => &perfs[..],
        Perfs::Installed => &perfs[..1],
        Perfs::Newest => &perfs[1..],
    };
    for perf in perfs {
        let theirs = table(&perf_at(perf, &args).succeeded(options).text());
        assert!(theirs.len() > 4, "{options}: {theirs:#?}");
        let is_told = |line: &&String| !line.starts_with("# Samples: ");
        let (theirs, ours): (Vec<_>, Vec<_>) = (
            theirs.iter().filter(is_told).collect(),
            ours.iter().filter(is_told).collect(),
        );
        assert_eq!(theirs, ours, "{} {options}", perf.display());
    }
}

#[test]
fn what_records_of_samples_tell_is_shown_as_perf_shows_it() {
    // covers fixture: MEM-16, ST-14, ST-17, ST-18, ST-19, ST-23
    let test = "what_records_of_samples_tell_is_shown_as_perf_shows_it";
    let Some(program) = compiled(test, "branches.c", &["-g", "-O1", "-no-pie"]) else {
        return;
    };
    if !have(test, "perf") {
        return;
    }
    let recording = write(&format!("{test}.data"), &program);
    for options in [
        "",
        "-b -s comm,dso_from,dso_to",
        "-F overhead,symbol_from,symbol_to,mispredict",
        "-s cycles,in_tx,abort -n",
        "-s addr_from,dso_to",
        "--no-branch-stack",
        "--no-branch-stack -s comm,local_weight,weight",
        "--no-branch-stack -s local_ins_lat,ins_lat,comm",
        "--no-branch-stack -s transaction,code_page_size",
        "--no-branch-stack -s cgroup,cgroup_id -n",
        "--no-branch-stack -s socket,cpu",
        "--no-branch-stack -s addr",
        "--no-branch-stack -s overhead,sample,weight -n",
        "--mem-mode --no-branch-stack -s phys_daddr,data_page_size,locked",
        "--mem-mode --no-branch-stack -s dso_daddr,comm -t ;",
        "--mem-mode --no-branch-stack -F overhead,sample,local_weight -s dso_daddr",
        "--hierarchy --no-branch-stack -s comm,local_weight,sym",
        "--hierarchy --no-branch-stack -s weight,dso,local_ins_lat -n",
        "--hierarchy --no-branch-stack -s transaction,code_page_size,cpu",
        "--hierarchy --no-branch-stack -s cgroup,cgroup_id",
        "--hierarchy -s comm,dso_from,cycles",
        "--hierarchy -s dso_to,in_tx,addr_from",
    ] {
        compare(test, &recording, (options, Perfs::All));
    }
    for options in [
        "--mem-mode --no-branch-stack",
        "--mem-mode --no-branch-stack -F overhead,local_weight,symbol_daddr,dso_daddr",
        "--mem-mode --no-branch-stack -s mem,snoop,tlb,locked,blocked",
    ] {
        compare(test, &recording, (options, Perfs::Installed));
    }
    // perf 6.1 crashes in a hierarchy with these keys or --mem-mode.
    for options in [
        "--hierarchy",
        "--hierarchy --mem-mode --no-branch-stack -s comm,phys_daddr,locked",
    ] {
        compare(test, &recording, (options, Perfs::Newest));
    }
}

#[test]
fn each_sort_key_of_perfs_is_known_or_refused_with_a_reason() {
    let test = "each_sort_key_of_perfs_is_known_or_refused_with_a_reason";
    if !have(test, "perf") {
        return;
    }
    let mut unknown = Vec::new();
    for perf in perfs(test) {
        let help = perf_at(&perf, &["report", "-h"]);
        let help = help.text() + &help.stderr;
        let keys = help
            .split("sort by key(s):")
            .nth(1)
            .expect("a list of keys");
        let end = keys
            .find("\n\n")
            .or_else(|| keys.find("    -"))
            .unwrap_or(keys.len());
        let keys: Vec<&str> = keys[..end].split_whitespace().collect();
        let keys: Vec<&str> = keys
            .into_iter()
            .take_while(|word| !word.starts_with('-'))
            .collect();
        assert!(keys.len() > 50, "{keys:?}");
        for key in keys {
            let told = prof(&["report", "-s", key, "--help"]).stderr;
            if told.contains("unknown field") {
                unknown.push(key.to_owned());
            }
        }
    }
    assert!(unknown.is_empty(), "not known: {}", unknown.join(", "));
}

#[test]
fn keys_of_what_is_not_counted_are_refused_with_the_option_that_counts_it() {
    let test = "keys_of_what_is_not_counted_are_refused_with_the_option_that_counts_it";
    let Some(program) = compiled(test, "branches.c", &["-g", "-O1", "-no-pie"]) else {
        return;
    };
    let recording = write(&format!("{test}.data"), &program);
    let input = recording.to_str().expect("a plain name");
    let refused = |options: &[&str]| {
        let args = [&["report", "--stdio", "-i", input], options].concat();
        let told = prof(&args);
        assert_eq!(told.code, 2, "{options:?}");
        told.stderr
    };
    let told = refused(&["-s", "mem"]);
    assert!(told.contains("memory accesses; add --mem-mode"), "{told}");
    let told = refused(&["--mem-mode", "-s", "cycles"]);
    assert!(told.contains("branches; add -b"), "{told}");
    let told = refused(&["--parallelism", "2"]);
    assert!(told.contains("--switch-events"), "{told}");
    let told = refused(&["-s", "typeoff"]);
    assert!(
        told.contains("prof does not have perf's \"typeoff\""),
        "{told}"
    );
}

//! User call chains that the kernel records after their samples (Linux 6.19),
//! joined to them, against perf 7, which is the first that knows them.
//!
//! The recording is written here to the kernel's definition: a sample's chain
//! ends with the marker `PERF_CONTEXT_USER_DEFERRED` and a cookie, and a
//! record CALLCHAIN_DEFERRED of the same thread has the cookie and the rest.

use crate::oracle::{Finished, perf_at, prof, scratch, skipped};
use prof_abi::{AttrFlags, CallchainContext, CpuMode, EventAttr, Misc, RecordType, SampleType};
use prof_perfdata::body::{Body, Comm, Mmap, Name};
use prof_perfdata::write::{
    EventDescription, Features, FileWriter, SampleEncoder, SampleFields, Trailer, append_short,
};
use std::path::PathBuf;

const KERNEL: u64 = 0xffff_ffff_8100_0000;
/// Mapped where it stands in its file, so that both perfs' addresses are one.
const BASE: u64 = 0x40_0000;
const COOKIE: u64 = 0xb_0000_0006;
/// Where a sample in user space was taken whose whole chain came later.
const LATER: u64 = BASE + 0x7000;

fn attr() -> EventAttr {
    EventAttr {
        kind: 1,
        sample_period: 1,
        sample_type: SampleType::IP
            | SampleType::TID
            | SampleType::TIME
            | SampleType::CALLCHAIN
            | SampleType::PERIOD,
        flags: AttrFlags::MMAP
            | AttrFlags::COMM
            | AttrFlags::SAMPLE_ID_ALL
            | AttrFlags::DEFER_CALLCHAIN,
        ..EventAttr::default()
    }
}

/// A sample in the kernel or in user space, whose user part may come later.
fn sample(tid: u32, time: u64, chain: &[u64], out: &mut Vec<u8>) {
    let is_kernel = chain.first() == Some(&CallchainContext::KERNEL.0);
    let is_all_later = chain.first() == Some(&CallchainContext::USER_DEFERRED.0);
    let fields = SampleFields {
        cpu_mode: if is_kernel {
            CpuMode::Kernel
        } else {
            CpuMode::User
        },
        ip: if is_all_later { LATER } else { chain[1] },
        pid: tid,
        tid,
        time,
        period: 1,
        callchain: chain,
        ..SampleFields::default()
    };
    let encoder = SampleEncoder::new(&attr());
    encoder.encode(&fields, out).expect("short");
}

/// `CALLCHAIN_DEFERRED`: header, cookie, count, chain; trailer: pid, tid, time.
fn deferred(tid: u32, time: u64, cookie: u64, chain: &[u64], out: &mut Vec<u8>) {
    let size = 8 + 16 + 8 * chain.len() + 16;
    out.extend(RecordType::CALLCHAIN_DEFERRED.0.to_le_bytes());
    out.extend(2_u16.to_le_bytes());
    out.extend(u16::try_from(size).expect("short").to_le_bytes());
    let count = chain.len() as u64;
    for word in [cookie, count].iter().chain(chain) {
        out.extend(word.to_le_bytes());
    }
    out.extend(tid.to_le_bytes());
    out.extend(tid.to_le_bytes());
    out.extend(time.to_le_bytes());
}

fn records() -> Vec<u8> {
    let mut out = Vec::new();
    let trailer = Trailer::of(&attr());
    for (tid, name) in [(100, b"first-app"), (200, b"other-app")] {
        let (pid, name) = (tid, Name::of_thread(name));
        let comm = Body::Comm(Comm { pid, tid, name });
        append_short(&comm, Misc::COMM_EXEC, &trailer, &mut out);
        let mapping = Body::Mmap(Mmap {
            pid,
            tid,
            start: BASE,
            len: 0x1_0000,
            file_offset: BASE,
            path: Name::new(b"/nowhere/app"),
        });
        let misc = Misc::of_mode(CpuMode::User);
        append_short(&mapping, misc, &trailer, &mut out);
    }
    let (kernel, user) = (CallchainContext::KERNEL.0, CallchainContext::USER.0);
    let marker = CallchainContext::USER_DEFERRED.0;
    let at = |offset| KERNEL + offset;
    sample(
        100,
        10,
        &[kernel, at(0x10), at(0x20), marker, COOKIE],
        &mut out,
    );
    sample(
        200,
        11,
        &[kernel, at(0x30), at(0x40), marker, COOKIE],
        &mut out,
    );
    sample(100, 12, &[kernel, at(0x50), marker, COOKIE], &mut out);
    sample(200, 13, &[user, BASE + 0x1000, BASE + 0x2000], &mut out);
    deferred(
        100,
        14,
        COOKIE,
        &[user, BASE + 0x3000, BASE + 0x4000],
        &mut out,
    );
    sample(100, 15, &[kernel, at(0x60), marker, COOKIE + 1], &mut out);
    deferred(200, 16, COOKIE, &[user, BASE + 0x5000], &mut out);
    // Of no sample; and below, samples without their chains.
    deferred(200, 17, COOKIE + 9, &[user, BASE + 0x6000], &mut out);
    sample(200, 18, &[kernel, at(0x70), marker, COOKIE + 2], &mut out);
    // Of a sample in user space Linux 7.2 has nothing before the marker, and of what
    // comes later it tells no mode.
    sample(100, 19, &[marker, COOKIE + 3], &mut out);
    deferred(100, 20, COOKIE + 3, &[LATER, BASE + 0x8000], &mut out);
    out
}

fn write(test: &str) -> PathBuf {
    let events = [EventDescription {
        attr: attr(),
        ids: vec![1],
        name: "cpu-clock".into(),
    }];
    let mut writer = FileWriter::new(std::io::Cursor::new(Vec::new()), &events).expect("in memory");
    writer.write(&records()).expect("written");
    let mut features = Features::default();
    features.hostname("here");
    features.arch("x86_64");
    features.cpu_counts(2, 2);
    features.event_descriptions(&events);
    let bytes = writer.finish(&features).expect("in memory");
    let path = scratch().join(format!("{test}.data"));
    std::fs::write(&path, bytes.into_inner()).expect("the target folder is writable");
    path
}

fn run(path: &std::path::Path, options: &[&str]) -> Finished {
    let input = ["-i", path.to_str().expect("a plain name")];
    prof(&[&options[..1], &input, &options[1..]].concat()).succeeded("prof")
}

#[test]
fn user_chains_that_came_later_are_printed_as_perf_prints_them() {
    let test = "user_chains_that_came_later_are_printed_as_perf_prints_them";
    let path = write(test);
    let Some(newest) = std::env::var_os("PROF_NEWEST_PERF").map(PathBuf::from) else {
        return skipped(test, "PROF_NEWEST_PERF names no second perf");
    };
    for options in [
        "-F ip",
        "-F comm,ip --merge-callchains",
        "-F ip --no-merge-callchains",
        "-F comm,ip --no-merge-callchains",
    ] {
        let options: Vec<&str> = ["script"].into_iter().chain(options.split(' ')).collect();
        let ours = run(&path, &options).text();
        let args = [
            &options[..1],
            &["-i", path.to_str().expect("plain")],
            &options[1..],
        ]
        .concat();
        let theirs = perf_at(&newest, &args).succeeded("perf").text();
        assert!(theirs.lines().count() > 10, "{theirs}");
        assert_eq!(theirs, ours, "{options:?}");
    }
}

#[test]
fn user_chains_that_came_later_are_in_all_views() {
    let path = write("user_chains_that_came_later_are_in_all_views");
    let script = run(&path, &["script", "-F", "ip,sym"]).text();
    assert_eq!(script.matches("(cookie)").count(), 2, "{script}");
    let apart = run(&path, &["script", "-F", "ip,sym", "--no-merge-callchains"]).text();
    assert_eq!(apart.matches("(cookie)").count(), 6, "{apart}");
    let cookie = format!("{:x}", COOKIE + 3);
    assert!(
        !script.contains(&cookie),
        "a cookie is no address: {script}"
    );
    let folded = run(&path, &["flamegraph", "--format", "folded", "-o", "-"]).text();
    let whole = |line: &&str| line.starts_with("first-app;") && line.matches(';').count() >= 3;
    assert_eq!(folded.lines().filter(whole).count(), 2, "{folded}");
    let report = run(
        &path,
        &["report", "--stdio", "--no-children", "-g", "caller"],
    )
    .text();
    for user in ["0x403000", "0x404000", "0x405000", "0x407000", "0x408000"] {
        assert!(report.contains(user), "{user}: {report}");
    }
    let told = "2 times: samples whose user call chain was not recorded before the end";
    assert!(report.contains(told), "{report}");
}

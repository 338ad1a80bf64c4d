//! Traces in recordings: what perf and we find in one that prof made of a PMU without
//! hardware (`benches/traces`), and what is refused where nothing traces.

use crate::oracle::{Finished, fixture, perf, perfs, prof, prof_command, scratch};
use std::fs;
use std::path::Path;

/// Branches in the fixture, of which perf leaves out the last of each of three pieces.
const BRANCHES: usize = 460;
const PIECES: usize = 3;

fn recording() -> String {
    fixture("traces/bts.data").display().to_string()
}

#[test]
fn perf_decodes_what_was_traced() {
    // covers fixture: AUX-12, REC-13
    for program in perfs("perf_decodes_what_was_traced") {
        let args = ["script", "--itrace=b", "-F", "ip,addr", "-i", &recording()];
        let told = crate::oracle::perf_at(&program, &args).succeeded("perf script");
        let text = told.text();
        let from: Vec<u64> = text
            .lines()
            .filter_map(|line| u64::from_str_radix(line.split_whitespace().next()?, 16).ok())
            .collect();
        assert_eq!(from.len(), BRANCHES - PIECES, "{}", program.display());
        let steps = from.windows(2).map(|pair| pair[1] - pair[0]);
        let cut = steps.clone().filter(|&step| step == 48).count();
        assert_eq!(cut, PIECES - 1, "{}", program.display());
        assert!(steps.clone().all(|step| step == 24 || step == 48));
        let header =
            crate::oracle::perf_at(&program, &["report", "--header-only", "-i", &recording()]);
        assert!(header.text().contains("contains AUX area data"));
    }
}

#[test]
fn traces_are_stepped_over_and_told() {
    // covers fixture: AUX-12
    let report = prof(&["report", "--stdio", "-i", &recording()]);
    let told = "no samples, but 11040 bytes of a trace";
    assert!(report.stderr.contains(told), "{}", report.stderr);
    let dump = prof(&["dump", "-i", &recording()])
        .succeeded("prof dump")
        .text();
    assert_eq!(dump.matches(" AUXTRACE size=48").count(), PIECES);
    assert_eq!(dump.matches(" ITRACE_START ").count(), 1);
    assert!(dump.ends_with("FINISHED_ROUND size=8 misc=0x0\n"), "{dump}");
    prof(&["script", "-i", &recording()]).succeeded("prof script");
    let theirs = perf(&["script", "-D", "--no-itrace", "-i", &recording()]);
    assert_eq!(
        theirs.text().matches("PERF_RECORD_AUX ").count(),
        dump.matches(" AUX size=").count()
    );
}

fn refused(args: &[&str], sysfs: Option<&Path>) -> Finished {
    let file = scratch().join("traces-refused.data");
    let mut command = prof_command();
    command.arg("record").arg("-o").arg(&file).args(args);
    if let Some(sysfs) = sysfs {
        command.env("SYSFS_PATH", sysfs);
    }
    let finished: Finished = command.output().expect("starts").into();
    assert_ne!(finished.code, 0, "{args:?}: {}", finished.stderr);
    assert!(!file.exists(), "{args:?}");
    finished
}

#[test]
fn snapshots_and_samples_need_what_traces() {
    for option in [
        "-S",
        "-S=e64K",
        "--snapshot=0x1000",
        "--aux-sample",
        "--aux-sample=512",
    ] {
        let told = refused(&[option, "-e", "cpu-clock", "true"], None).stderr;
        assert!(
            told.contains("no event traces\n  try: "),
            "{option}: {told}"
        );
    }
    for wrong in [
        "-S=many",
        "--snapshot=e0",
        "--aux-sample=5000000000",
        "-m=,",
        "-m=8,x",
    ] {
        assert_eq!(refused(&[wrong, "true"], None).code, 2, "{wrong}");
    }
}

#[test]
fn a_pmu_that_only_says_it_traces_is_refused() {
    // The software PMU, under a name that is none of its own.
    let sysfs = scratch().join("traces-sysfs");
    for (name, kind) in [("intel_bts", "1"), ("intel_pt", "1"), ("cs_etm", "1")] {
        let pmu = sysfs.join("bus/event_source/devices").join(name);
        fs::create_dir_all(pmu.join("format")).expect("made");
        fs::write(pmu.join("type"), kind).expect("written");
        fs::write(pmu.join("format/what"), "config:0-7").expect("written");
    }
    let refused = |args: &[&str]| refused(args, Some(&sysfs)).stderr;
    let told = refused(&["--per-thread", "-e", "intel_bts/what=1/u", "true"]);
    assert!(told.contains("cannot map the area for the trace"), "{told}");
    assert!(told.contains("EOPNOTSUPP"), "{told}");
    let told = refused(&["-e", "intel_bts/what=1/u", "true"]);
    assert!(told.contains("try: with --per-thread"), "{told}");
    let told = refused(&["-e", "cs_etm/what=1/u", "true"]);
    assert!(told.contains("try: perf record -e cs_etm//"), "{told}");
    let told = refused(&["-e", "intel_pt/what=1/u,intel_bts/what=1/u", "true"]);
    assert!(told.contains("only one trace"), "{told}");
}

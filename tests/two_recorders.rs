//! Recorders beside each other: what the kernel tells the one is not to spoil
//! the recording of the other.

use crate::oracle::{
    compiled, excerpt, may_record_all, perf_at, perfs, prof, prof_command, scratch,
};

/// The number behind `field` in a line of `dump`.
fn number(line: &str, field: &str) -> Option<u64> {
    let text = line.split(field).nth(1)?;
    let end = text.find(|c: char| !c.is_ascii_digit());
    text.get(..end.unwrap_or(text.len()))?.parse().ok()
}

#[test]
fn what_the_kernel_tells_two_recorders_is_right_in_both() {
    let test = "two recorders";
    if !may_record_all(test) {
        return;
    }
    let Some(program) = compiled(test, "loads-programs.c", &["-O1"]) else {
        return;
    };
    let path = |name: &str| scratch().join(name).to_str().expect("plain").to_owned();
    let (outer, inner) = (path("outer-recorder.data"), path("inner-recorder.data"));
    // The kernel tells the younger recorder first, and the older one what it
    // left behind.
    let recorded = prof_command()
        .args(["record", "-q", "-B", "-a", "-F", "999", "-o", &outer, "--"])
        .arg(env!("CARGO_BIN_EXE_prof"))
        .args(["record", "-q", "-a", "-F", "999", "-o", &inner, "--"])
        .arg(program)
        .output()
        .expect("prof starts");
    assert!(recorded.status.success(), "{}", excerpt(&recorded));
    for recording in [&outer, &inner] {
        let dumped = prof(&["dump", "-i", recording]).succeeded("dump");
        assert_eq!(dumped.stderr, "", "no damage");
        let text = dumped.text();
        let time = |line: &str| number(line, ",time=").or_else(|| number(line, " time="));
        let of = |kind: &str| -> Vec<u64> {
            let is_it = |line: &&str| line.split(' ').nth(1) == Some(kind);
            text.lines().filter(is_it).filter_map(time).collect()
        };
        let samples = of("SAMPLE");
        let (first, last) = (samples.iter().min(), samples.iter().max());
        let (first, last) = first.zip(last).expect("samples");
        for kind in ["KSYMBOL", "BPF_EVENT"] {
            let times = of(kind);
            let told: Vec<_> = times.iter().filter(|&&time| time != 0).collect();
            assert!(told.len() >= 10, "{kind}: 5 loaded, 5 unloaded: {told:?}");
            let (from, to) = (first.saturating_sub(1 << 30), last + (1 << 30));
            let is_then = |time: &&u64| (from..to).contains(*time);
            assert!(told.iter().all(is_then), "{kind}: {told:?}");
        }
        let report = prof(&["report", "--stdio", "-i", recording]).succeeded("report");
        let report = report.text();
        for wrong in ["damaged", "too late"] {
            assert!(!report.contains(wrong), "{}", excerpt(&report));
        }
        assert!(
            report.contains("works_between_loads"),
            "{}",
            excerpt(&report)
        );
        for perf in perfs(test) {
            let shown = perf_at(&perf, &["report", "--stdio", "-i", recording]);
            let shown = shown.succeeded("perf report").text();
            assert!(shown.contains("works_between_loads"), "{}", excerpt(&shown));
        }
    }
}

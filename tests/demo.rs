//! `prof demo`: the first thing a new user runs.

use crate::oracle::{Finished, prof_command};

#[test]
fn the_demo_reports_what_its_threads_do_and_leaves_two_files() {
    let directory = tempfile::tempdir().expect("temporary directory");
    let run: Finished = prof_command()
        .args(["demo", "--duration", "2"])
        .current_dir(&directory)
        .output()
        .expect("prof starts")
        .into();
    let run = run.succeeded("prof demo");
    let report = run.text();
    let threads = ["recursion", "inlining", "sorting", "hashing", "locking"];
    // A plain user does not see the kernel, in which locks are waited for.
    let seen = threads.len() - usize::from(!crate::oracle::is_root());
    for thread in &threads[..seen] {
        assert!(report.contains(thread), "no {thread} in\n{report}");
    }
    assert!(report.contains("steps_to_escape"), "{report}");
    assert!(
        report.lines().count() < 200,
        "one look is enough:\n{report}"
    );
    let file = |name: &str| std::fs::read(directory.path().join(name)).expect(name);
    assert_eq!(file("perf.data")[..8], *b"PERFILE2");
    let picture = String::from_utf8(file("flamegraph.svg")).expect("text");
    assert!(picture.contains("<svg") && picture.trim_end().ends_with("</svg>"));
    assert!(picture.contains("steps_to_escape"));
    let names = std::fs::read_dir(directory.path()).expect("readable");
    assert_eq!(names.count(), 2, "nothing else is left");
}

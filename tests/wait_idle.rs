//! Waits of pool threads for work: one frame, unless `--idle` shows them.

use crate::oracle::{compiled, may_record_all, prof_command, scratch};
use std::path::Path;

/// What `flamegraph --format folded` says: stacks with ns.
fn folded(file: &Path, options: &[&str]) -> Vec<(String, u64)> {
    let output = prof_command()
        .args(["flamegraph", "--format", "folded", "--states", "-i"])
        .arg(file)
        .args(options)
        .output()
        .expect("prof starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let stacks = text.lines().map(|line| {
        let (stack, ns) = line.rsplit_once(' ').expect("a stack and its weight");
        (stack.to_owned(), ns.parse().expect("a number"))
    });
    stacks.collect()
}

#[test]
fn idle_threads_of_a_pool_are_folded_and_their_locks_are_not() {
    const NAME: &str = "waits-idle";
    if !may_record_all(NAME) {
        return;
    }
    let Some(program) = compiled(NAME, "pool.cc", &["-O1", "-g", "-pthread"]) else {
        return;
    };
    let file = scratch().join("waits-idle.data");
    let status = prof_command()
        .args(["record", "-q", "--off-cpu=only", "-o"])
        .arg(&file)
        .arg(program)
        .status();
    assert!(status.expect("prof starts").success());
    let (some, all) = (folded(&file, &[]), folded(&file, &["--idle"]));
    let sum = |stacks: &[(String, u64)], parts: &[&str]| -> u64 {
        let has = |stack: &str| parts.iter().all(|part| stack.contains(part));
        let those = stacks.iter().filter(|(stack, _)| has(stack));
        those.map(|(_, ns)| ns).sum()
    };
    assert_eq!(sum(&some, &[]), sum(&all, &[]));
    assert_eq!(sum(&all, &["[idle: waits for work]"]), 0);
    let idle = sum(&some, &["[idle: waits for work]"]);
    // To take the lock of the queue again is a wait for a lock, and to have lost
    // a CPU there one for a CPU.
    let at_condition = ["worker", "pthread_cond_wait"];
    assert_eq!(idle + sum(&some, &at_condition), sum(&all, &at_condition));
    let blocked = |more: &[&str]| {
        sum(
            &all,
            &[&at_condition, &["blocked: futex"][..], more].concat(),
        )
    };
    assert_eq!(idle, blocked(&[]) - blocked(&["lll_lock_wait"]), "{all:?}");
    // What jobs wait for stays as it is.
    let of_jobs = ["worker", "work"].map(|name| format!(";{name};"));
    let of_jobs = of_jobs.each_ref().map(String::as_str);
    assert!(sum(&all, &of_jobs) > 0, "{all:?}");
    assert_eq!(sum(&some, &of_jobs), sum(&all, &of_jobs));
    let table = prof_command()
        .args(["report", "-f", "--stdio", "-i"])
        .arg(&file)
        .output()
        .expect("prof starts");
    let table = String::from_utf8_lossy(&table.stdout).into_owned();
    assert!(
        table.contains("threads of pools waited for work"),
        "{table}"
    );
}

//! Waits of pool threads for work: one frame, unless `--idle` shows them.

use crate::oracle::{compiled, excerpt, have, may_record_all, prof_command, scratch};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

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
    assert_eq!(
        idle,
        blocked(&[]) - blocked(&["lll_lock_wait"]),
        "{}",
        excerpt(&all)
    );
    // What jobs wait for stays as it is.
    let of_jobs = ["worker", "work"].map(|name| format!(";{name};"));
    let of_jobs = of_jobs.each_ref().map(String::as_str);
    assert!(sum(&all, &of_jobs) > 0, "{}", excerpt(&all));
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

/// ns of the stacks with all of these parts and none of those.
fn sum(stacks: &[(String, u64)], parts: &[&str], without: &[&str]) -> u64 {
    let has = |stack: &str| {
        parts.iter().all(|part| stack.contains(part))
            && !without.iter().any(|part| stack.contains(part))
    };
    let those = stacks.iter().filter(|(stack, _)| has(stack));
    those.map(|(_, ns)| ns).sum()
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures/programs")
        .join(name)
}

/// The stacks of a program's waits, folded and not.
fn recorded<P: AsRef<OsStr>>(name: &str, program: &[P]) -> [Vec<(String, u64)>; 2] {
    let file = scratch().join(format!("{name}.data"));
    let status = prof_command()
        .args(["record", "-q", "--off-cpu=only", "-o"])
        .arg(&file)
        .arg("--")
        .args(program)
        .status();
    assert!(status.expect("prof starts").success());
    [folded(&file, &[]), folded(&file, &["--idle"])]
}

const IDLE: &str = "[idle: waits for work]";
const BLOCKED: &str = "blocked: futex";

/// Functions that take locks: these waits are none for work.
const LOCKING: [&str; 9] = [
    "lll_lock_wait",
    "pthread_mutex_",
    "pthread_rwlock_",
    "AbstractQueuedSynchronizer.acquire",
    "ObjectMonitor::enter",
    "Mutex::lock",
    "take_gil",
    "drop_gil",
    "runtime.lock",
];

/// Checks that the futex waits below `queue`, without those that take a lock,
/// are folded, and that what is below `jobs` is not.
fn check_pool([some, all]: &[Vec<(String, u64)>; 2], queue: &str, jobs: &[&str]) {
    assert_eq!(sum(some, &[], &[]), sum(all, &[], &[]));
    let others = [&LOCKING, jobs].concat();
    let waited = sum(all, &[queue, BLOCKED], &others);
    assert!(waited > 0, "{all:#?}");
    assert_eq!(sum(some, &[queue, BLOCKED], &others), 0, "{some:#?}");
    assert!(sum(some, &[IDLE], &[]) >= waited, "{some:#?}");
    for job in jobs {
        let of_job = sum(all, &[job], &[]);
        assert!(of_job > 0, "{job} {all:#?}");
        assert_eq!(sum(some, &[job], &[]), of_job, "{job} {some:#?}");
    }
}

#[test]
fn idle_threads_of_a_java_pool_are_folded_and_their_jobs_are_not() {
    const NAME: &str = "waits-idle-java";
    if !may_record_all(NAME) || !have(NAME, "javac") || !have(NAME, "java") {
        return;
    }
    let folder = scratch().join(NAME);
    let compiled = Command::new("javac")
        .arg("-d")
        .args([&folder, &fixture("Pool.java")])
        .output()
        .expect("javac starts");
    assert!(compiled.status.success(), "{compiled:?}");
    let folder = folder.to_str().expect("UTF-8");
    let stacks = recorded(NAME, &["java", "-cp", folder, "Pool"]);
    check_pool(&stacks, "ThreadPoolExecutor.getTask", &["Pool.job"]);
}

#[test]
fn idle_threads_of_go_are_folded_and_their_system_calls_are_not() {
    const NAME: &str = "waits-idle-go";
    if !may_record_all(NAME) || !have(NAME, "go") {
        return;
    }
    let program = scratch().join(NAME);
    let built = Command::new("go")
        .args(["build", "-o"])
        .args([&program, &fixture("pool.go")])
        .env("GO111MODULE", "off")
        .status()
        .expect("go starts");
    assert!(built.success(), "it compiles");
    let stacks = recorded(NAME, &[&program]);
    check_pool(&stacks, "runtime.stopm", &["main.job"]);
}

#[test]
fn idle_threads_of_a_python_pool_are_folded_and_their_locks_are_not() {
    const NAME: &str = "waits-idle-python";
    if !may_record_all(NAME) || !have(NAME, "python3") {
        return;
    }
    let program = fixture("pool.py");
    let stacks = recorded(NAME, &[OsStr::new("python3"), program.as_os_str()]);
    let jobs = ["time_sleep", "lock_PyThread_acquire_lock"];
    check_pool(&stacks, "_queue_SimpleQueue_get", &jobs);
}

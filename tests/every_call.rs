//! Every system call that `prof record` and `prof stat` make, in each of their
//! threads, fails once: nothing hangs, the command is not harmed, what was
//! recorded can be read, and what was not done is told.
//!
//! `fixtures/programs/fail-one.c` traces the threads of `prof` and leaves the
//! command alone. The whole (`cargo test --test prof every_call -- --ignored`)
//! takes some ten minutes; a part of it is in the suite.

use crate::oracle::{Finished, compiled, have, perf, prof, skipped};
use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A system call: of which thread, its number, and how often that thread had
/// made it, this time included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Call {
    thread: u32,
    number: i64,
    count: u32,
}

impl fmt::Display for Call {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            thread,
            number,
            count,
        } = self;
        write!(out, "thread {thread}: system call {number}, time {count}")
    }
}

/// On Linux these do what they are to do or never return: `brk` gives the end that
/// holds, what is closed is closed whatever comes back, a wake of a futex has no
/// error, and memory that was mapped can be unmapped.
const CANNOT_FAIL: [i64; 9] = [
    libc::SYS_brk,
    libc::SYS_close,
    libc::SYS_futex,
    libc::SYS_munmap,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_rt_sigreturn,
    // With a number of a signal and a set of our own.
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
];

/// What others end the process for, by what they say.
const ABORTS: [(&str, &str); 5] = [
    (
        "std/src/sys/pal/unix/stack_overflow.rs",
        "Rust's library: a thread without a signal stack",
    ),
    (
        "std/src/sys/random/linux.rs",
        "Rust's library: no random keys for its tables",
    ),
    (
        "std/src/thread/",
        "Rust's library: a thread that cannot be made",
    ),
    ("rseq registration failed", "glibc: rseq(2) of a thread"),
    (
        "error while loading shared libraries",
        "glibc's loader: a library that cannot be mapped",
    ),
];

/// Calls of one number are tried the first few times, and rarer then.
const TIMES: [u32; 9] = [1, 2, 3, 5, 8, 13, 21, 34, 55];

/// The command: leaves a file, works for some ms and ends with 7.
const COMMAND: &str = "echo > \"$0\"; i=0; while [ $i -lt 9999 ]; do i=$((i+1)); done; exit 7";

/// What is recorded, and with which errno calls fail.
const WAYS: [(&[&str], i32); 12] = [
    (&["record", "-q", "-F", "999", "-g"], libc::ENOMEM),
    (&["record", "-q", "-F", "999", "-g"], libc::EINTR),
    (&["record", "-q", "-F", "999", "--off-cpu"], libc::ENOMEM),
    (&["record", "-q", "-F", "999", "-a", "-g"], libc::EAGAIN),
    (
        &["record", "-q", "-F", "999", "-g", "--follow", "cpus"],
        libc::ENOMEM,
    ),
    (
        &["record", "-q", "-m16K", "-c1", "-e", "faults/overwrite/"],
        libc::ENOMEM,
    ),
    (
        &["record", "-q", "-F", "5000", "--switch-output=20K"],
        libc::ENOSPC,
    ),
    (&["record", "-q", "-g", "--overwrite=1s"], libc::EIO),
    (&["record", "-q", "-F", "999", "-z"], libc::ENOMEM),
    (&["stat", "-e", "cs,task-clock"], libc::ENOMEM),
    (&["stat", "-r", "2", "-e", "cs"], libc::EAGAIN),
    (&["stat", "-I", "5", "-a", "-A", "-e", "cs"], libc::EINTR),
];

/// One way of recording, below the tracer.
struct Way {
    tracer: PathBuf,
    options: &'static [&'static str],
    errno: i32,
}

impl Way {
    /// Runs it in this folder; a call that is to fail, or none.
    fn run(&self, folder: &Path, fails: Option<Call>) -> Finished {
        let mut command = Command::new(&self.tracer);
        command.arg(folder.join("calls")).arg("60");
        if let Some(call) = fails {
            let words = [
                i64::from(call.thread),
                call.number,
                i64::from(call.count),
                i64::from(self.errno),
            ];
            command.args(words.map(|word| word.to_string()));
        }
        command.arg("--").arg(env!("CARGO_BIN_EXE_prof"));
        command.args(self.options).arg("-o").arg(folder.join("out"));
        command.args(["sh", "-c", COMMAND]).arg(folder.join("ran"));
        command
            .env("RUST_BACKTRACE", "0")
            .env("PROF_EMBED_MS", "600");
        Finished::from(command.output().expect("the tracer starts"))
    }

    /// The calls of a whole run that may fail, and how many of them are the
    /// loader's and the C library's, before Rust's library begins.
    fn calls(&self, folder: &Path) -> Vec<Call> {
        let text = std::fs::read_to_string(folder.join("calls")).expect("the tracer writes it");
        let calls = text.lines().filter_map(|line| {
            let mut words = line.split(' ');
            Some(Call {
                thread: words.next()?.parse().ok()?,
                number: words.next()?.parse().ok()?,
                count: words.next()?.parse().ok()?,
            })
        });
        let all: Vec<Call> = calls.collect();
        // With it Rust's library looks at the standard streams, and ends the process
        // without a word where that fails.
        let first_of_std = all.iter().position(|call| call.number == libc::SYS_poll);
        let ours = all
            .get(first_of_std.expect("it begins") + 1..)
            .unwrap_or_default();
        let tried = ours
            .iter()
            .copied()
            .filter(|call| !CANNOT_FAIL.contains(&call.number) && TIMES.contains(&call.count));
        tried.collect()
    }

    /// Makes a call fail and looks at what comes of it; what others ended the
    /// process for, if they did.
    fn survives(&self, call: Call) -> Option<&'static str> {
        let folder = tempfile::tempdir().expect("a folder");
        let ended = self.run(folder.path(), Some(call));
        let (code, said) = (ended.code, &ended.stderr);
        let what = format!(
            "{:?}, {call}, errno {}: exit {code}: {said}",
            self.options, self.errno
        );
        assert_ne!(code, 124, "it hangs: {what}");
        let by_others = ABORTS.iter().find(|(words, _)| said.contains(words));
        let ran = folder.path().join("ran").exists();
        match by_others {
            // Others' end of a helper thread is survived, too.
            Some(_) => assert!([0, 1, 7, 101, 134].contains(&code), "{what}"),
            None => {
                assert!(!said.contains("panicked"), "{what}");
                assert!(
                    if ran {
                        // The last where the second of two runs did not begin.
                        [1, 7].contains(&code) || code == 126 && said.contains("cannot run")
                    } else {
                        (1..128).contains(&code)
                    },
                    "{what}"
                );
                assert!(code == 7 || !said.trim().is_empty(), "nothing said: {what}");
            }
        }
        let beside = |entry: std::io::Result<std::fs::DirEntry>| {
            let name = entry.expect("an entry").file_name();
            name.to_string_lossy().starts_with(".out").then_some(name)
        };
        let hidden: Vec<_> = std::fs::read_dir(folder.path())
            .expect("ours")
            .filter_map(beside)
            .collect();
        // Who cannot remove a file says so.
        let is_told = said.contains("cannot remove") || by_others.is_some_and(|_| code == 134);
        assert!(hidden.is_empty() || is_told, "{hidden:?} stays: {what}");
        let files = std::fs::read_dir(folder.path())
            .expect("ours")
            .map(|it| it.expect("it").path());
        let is_out = |file: &PathBuf| {
            file.file_name()
                .is_some_and(|name| name.to_string_lossy().starts_with("out"))
        };
        for file in files.filter(is_out).filter(|_| self.options[0] == "record") {
            let file = file.to_str().expect("UTF-8");
            let read = prof(&["dump", "--stats", "-i", file]);
            assert!([0, 3].contains(&read.code), "{what}: {}", read.stderr);
            if code == 7 && have("every_call", "perf") {
                let theirs = perf(&["script", "-i", file]);
                assert_eq!(theirs.code, 0, "{what}: {}", theirs.stderr);
            }
        }
        by_others.map(|(_, who)| *who)
    }
}

/// Tries each `step`th call of these ways; how many, and who else ended the
/// process.
fn fail_each(test: &str, ways: &[(&'static [&'static str], i32)], step: usize) -> usize {
    let Some(tracer) = compiled(test, "fail-one.c", &["-O1"]) else {
        return 0;
    };
    let mut tried = 0;
    let mut others = BTreeSet::new();
    let wrong = AtomicUsize::new(0);
    for (place, &(options, errno)) in ways.iter().enumerate() {
        let way = Way {
            tracer: tracer.clone(),
            options,
            errno,
        };
        let folder = tempfile::tempdir().expect("a folder");
        let whole = way.run(folder.path(), None);
        if whole.code == 125 || whole.stderr.contains("EACCES") {
            skipped(test, &format!("{options:?}: {}", whole.stderr));
            continue;
        }
        assert_eq!(whole.code, 7, "{options:?}: {}", whole.stderr);
        let calls = way.calls(folder.path());
        let chosen: Vec<Call> = calls.into_iter().skip(place).step_by(step).collect();
        let next = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            let worker = || {
                let mut found = BTreeSet::new();
                // ORDERING: Relaxed; it only gives out numbers.
                while let Some(&call) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                    // All that is wrong is to be told, not the first only.
                    match std::panic::catch_unwind(|| way.survives(call)) {
                        Ok(by_others) => found.extend(by_others),
                        Err(_) => drop(wrong.fetch_add(1, Ordering::Relaxed)),
                    }
                }
                found
            };
            let workers: Vec<_> = (0..3).map(|_| scope.spawn(worker)).collect();
            for worker in workers {
                others.extend(
                    worker
                        .join()
                        .unwrap_or_else(|why| std::panic::resume_unwind(why)),
                );
            }
        });
        tried += chosen.len();
    }
    assert_eq!(wrong.into_inner(), 0, "of {tried} calls");
    eprintln!("{tried} calls failed; who else ended the process: {others:#?}");
    tried
}

#[test]
fn a_call_of_any_thread_that_fails_is_told_or_survived() {
    let test = "a_call_of_any_thread_that_fails_is_told_or_survived";
    if cfg!(target_arch = "x86_64") {
        let tried = fail_each(test, &WAYS, 211);
        assert!(tried == 0 || tried > 12, "{tried} calls");
    }
}

#[test]
#[ignore = "takes some ten minutes; run it with -- --ignored"]
fn each_call_of_each_thread_that_fails_is_told_or_survived() {
    let test = "each_call_of_each_thread_that_fails_is_told_or_survived";
    if cfg!(target_arch = "x86_64") {
        let tried = fail_each(test, &WAYS, 1);
        assert!(tried == 0 || tried > 1000, "{tried} calls");
    }
}

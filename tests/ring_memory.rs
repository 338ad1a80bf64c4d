//! Rings within what an ordinary user may lock.

use crate::oracle::{Finished, compiled, copy_program, have, prof_command, skipped};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// Ends with 4 after some CPU time.
const SOME_WORK: &str = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; exit 4";

/// A user of whom nobody else has recorders: what may be locked is shared by
/// all of one user's, and kernels since 6.15 lose some of it for good.
fn lonely_user() -> u32 {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    40_000 + (std::process::id().wrapping_mul(32) + count) % 20_000
}

/// Runs a script of bash as a user without privileges, of whom nobody else
/// has recorders, in an empty folder with a copy of `prof` in it. `None`, with
/// the reason printed, where that cannot be.
fn as_user(test: &str, files: &[&Path], script: &str) -> Option<Finished> {
    if !have(test, "setpriv") || !have(test, "bash") {
        return None;
    }
    let user = lonely_user();
    let folder = tempfile::tempdir().expect("a folder");
    let open = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(folder.path(), open).expect("ours");
    let program = Path::new(prof_command().get_program()).to_owned();
    for file in files.iter().copied().chain([program.as_path()]) {
        let name = file.file_name().expect("a file");
        copy_program(file, &folder.path().join(name));
    }
    let output = Command::new("setpriv")
        .args(["--clear-groups", &format!("--reuid={user}")])
        .arg(format!("--regid={user}"))
        .args(["bash", "-c", script])
        .current_dir(folder.path())
        .output();
    let finished: Finished = output.expect("setpriv starts").into();
    if finished.code == 127 && finished.stderr.contains("setpriv") {
        skipped(test, "only root can become another user");
        return None;
    }
    if finished.stderr.contains("(EACCES)") {
        skipped(test, &finished.stderr);
        return None;
    }
    Some(finished)
}

#[test]
fn a_user_records_whatever_may_be_locked() {
    // covers live: RING-16
    for limit in [0, 4, 16, 64, 256, 1024, 8192] {
        for stacks in ["", "-g", "--call-graph=dwarf"] {
            let script = format!(
                "ulimit -l {limit}; exec ./prof record {stacks} -o f.data sh -c '{SOME_WORK}'"
            );
            let Some(finished) = as_user("ring_memory_limits", &[], &script) else {
                return;
            };
            let said = &finished.stderr;
            assert_eq!(finished.code, 4, "{limit} {stacks}: {said}");
            assert!(said.contains(" samples, "), "{limit} {stacks}: {said}");
            assert!(!said.contains("prof: 0 samples"), "{limit}: {said}");
            assert!(said.contains("of a CPU, "), "{limit} {stacks}: {said}");
            assert!(said.contains(" of "), "{limit} {stacks}: {said}");
        }
    }
}

#[test]
fn two_recorders_of_a_user_work_side_by_side() {
    for limit in [0, 64, 8192] {
        // The inner one maps its rings while the outer one has its own.
        let script = format!(
            "ulimit -l {limit}; exec ./prof record -g -o outer.data \
             ./prof record -g -o inner.data sh -c '{SOME_WORK}'"
        );
        let Some(finished) = as_user("ring_memory_two", &[], &script) else {
            return;
        };
        let said = &finished.stderr;
        assert_eq!(finished.code, 4, "{limit}: {said}");
        assert_eq!(said.matches(" samples, ").count(), 2, "{limit}: {said}");
    }
}

#[test]
fn each_thread_of_a_process_gets_its_ring() {
    let test = "ring_memory_threads";
    let Some(threads) = compiled(test, "four-threads.c", &["-pthread"]) else {
        return;
    };
    let name = threads.file_name().expect("a file").to_string_lossy();
    for limit in [0, 64, 8192] {
        let script = format!(
            "ulimit -l {limit}; ./{name} & \
             until [ $(ls /proc/$!/task | wc -l) = 4 ]; do :; done; \
             ./prof record -g --per-thread -p $! --duration 0.1 -o f.data; \
             code=$?; kill $!; exit $code"
        );
        let Some(finished) = as_user(test, &[&threads], &script) else {
            return;
        };
        let said = &finished.stderr;
        assert_eq!(finished.code, 0, "{limit}: {said}");
        assert!(said.contains(", 4 rings of "), "{limit}: {said}");
    }
}

#[test]
fn a_size_that_was_asked_for_is_refused_with_limit_and_cure() {
    let script = "ulimit -l 0; exec ./prof record -m 64M -o f.data true";
    let Some(finished) = as_user("ring_memory_asked", &[], script) else {
        return;
    };
    assert_eq!(finished.code, 1, "{}", finished.stderr);
    for words in [
        "(EPERM)",
        "of 64 MiB",
        "each process 0 KiB more (ulimit -l)",
        "try: without -m",
        "sudo sysctl kernel.perf_event_mlock_kb=",
    ] {
        assert!(finished.stderr.contains(words), "{}", finished.stderr);
    }
}

/// A second mapping of a ring is counted to the user for good by kernels since
/// 6.15.
#[test]
fn no_ring_is_mapped_twice() {
    let test = "no_ring_is_mapped_twice";
    if !have(test, "strace") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("trace");
    let output = Command::new("strace")
        .args(["-f", "-qq", "-y", "-e", "trace=mmap,munmap", "-o"])
        .arg(&trace)
        .arg(prof_command().get_program())
        .args(["record", "-g", "-F", "999", "-o"])
        .arg(folder.path().join("f.data"))
        .arg("true")
        .output();
    let finished: Finished = output.expect("strace starts").into();
    if finished.stderr.contains("ptrace") || finished.stderr.contains("(EACCES)") {
        return skipped(test, &finished.stderr);
    }
    assert_eq!(finished.code, 0, "{}", finished.stderr);
    let traced = std::fs::read_to_string(&trace).expect("strace writes it");
    assert!(mapped_once(&traced) > 0, "{traced}");
}

/// How often a ring was mapped, by lines of strace such as
///
/// ```text
/// 12 mmap(NULL, 8192, PROT_READ|PROT_WRITE, MAP_SHARED, 7<anon_inode:[perf_event]>, 0) = 0x7f00
/// 12 munmap(0x7f00, 8192) = 0
/// ```
///
/// One that is unmapped may be mapped again: so it is where the kernel refuses
/// a later one because other recorders of this user hold the room.
fn mapped_once(traced: &str) -> usize {
    let mut held: Vec<(&str, &str)> = Vec::new();
    let mut mapped = 0;
    for line in traced.lines() {
        if let Some((before, after)) = line.split_once("<anon_inode:[perf_event]>")
            && let Some((_, address)) = after.split_once("= 0x")
        {
            let event = before.rsplit(' ').next().unwrap_or(before);
            let other = held.iter().find(|(other, _)| *other == event);
            assert_eq!(other, None, "{event} has two mappings: {traced}");
            held.push((event, address.trim_end()));
            mapped += 1;
        } else if let Some((_, after)) = line.split_once("munmap(0x") {
            let unmapped = after.split(',').next().unwrap_or(after);
            held.retain(|(_, address)| *address != unmapped);
        }
    }
    mapped
}

#[test]
fn a_second_mapping_is_seen() {
    let ring = |address: &str| {
        format!(
            "12 mmap(NULL, 8, PROT_READ, MAP_SHARED, 7<anon_inode:[perf_event]>, 0) = {address}\n"
        )
    };
    let refused =
        "12 mmap(NULL, 8, PROT_READ, MAP_SHARED, 9<anon_inode:[perf_event]>, 0) = -1 EPERM\n";
    let again = ring("0x7f00") + refused + "12 munmap(0x7f00, 8) = 0\n" + &ring("0x7f10");
    assert_eq!(mapped_once(&again), 2);
    let twice = ring("0x7f00") + &ring("0x7f10");
    assert!(std::panic::catch_unwind(|| mapped_once(&twice)).is_err());
}

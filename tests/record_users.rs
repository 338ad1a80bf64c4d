//! `prof record --user` and `-u`: as whom, and whose.

use crate::oracle::{Finished, have, prof_command, scratch, skipped};
use crate::patience::wait_until;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// A user without rights, of every Debian.
const NOBODY: u32 = 65534;

/// A recording's path in a folder that all may write to; `None` for a user who
/// cannot become another.
fn recording(test: &str, name: &str) -> Option<PathBuf> {
    let own = std::fs::metadata("/proc/self").expect("there").uid();
    let name_of = Command::new("id").args(["-un", "65534"]).output();
    if own != 0 || name_of.map(|it| it.stdout).ok().as_deref() != Some(b"nobody\n") {
        skipped(test, "needs root and a user nobody");
        return None;
    }
    let folder = scratch().join(format!("record-users-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("the target folder is writable");
    let open = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(&folder, open).expect("ours");
    Some(folder.join("perf.data"))
}

#[test]
fn the_program_runs_as_the_user_who_owns_the_file() {
    let test = "the_program_runs_as_the_user_who_owns_the_file";
    let Some(file) = recording(test, "runs") else {
        return;
    };
    for (user, caller) in [("nobody", "root"), ("65534", "root"), ("sudo", "nobody")] {
        let recorded = prof_command()
            .env("SUDO_USER", caller)
            .args(["record", "-g", "--user", user, "-o"])
            .arg(&file)
            .args([
                "sh",
                "-c",
                "grep -E '^(Uid|Gid|Groups|CapEff)' /proc/self/status; echo $USER",
            ])
            .output();
        let ended = Finished::from(recorded.expect("prof starts"));
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        let seen = ended.text();
        let all = "65534\t65534\t65534\t65534";
        assert!(
            seen.contains(&format!("Uid:\t{all}\nGid:\t{all}")),
            "{seen}"
        );
        assert!(seen.contains("CapEff:\t0000000000000000"), "{seen}");
        assert!(seen.contains("\nnobody\n"), "{seen}");
        let about = std::fs::metadata(&file).expect("there");
        assert_eq!((about.uid(), about.mode() & 0o777), (NOBODY, 0o600));
        assert!(!ended.stderr.contains("runs as root"), "{}", ended.stderr);
    }
}

/// Ids, groups and capabilities of each thread of a process.
fn threads_rights(pid: u32) -> Vec<String> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task"));
    let threads = threads.into_iter().flatten().flatten();
    let rights = threads.map(|thread| {
        let status = std::fs::read_to_string(thread.path().join("status"));
        let status = status.unwrap_or_default();
        let told = ["Uid:", "Gid:", "Groups:", "CapPrm:", "CapEff:"];
        let lines = status.lines();
        let lines = lines.filter(|line| told.iter().any(|it| line.starts_with(it)));
        let lines = lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
        lines.collect::<Vec<_>>().join("; ")
    });
    rights.filter(|rights| !rights.is_empty()).collect()
}

/// Root's rights are for opening: all threads of the recorder give them up while
/// the program runs, and everything that comes later works without.
#[test]
fn the_recorder_becomes_the_user_once_it_records() {
    let test = "the_recorder_becomes_the_user_once_it_records";
    let Some(file) = recording(test, "gives-up") else {
        return;
    };
    const NONE: &str = "CapPrm: 0000000000000000; CapEff: 0000000000000000";
    let given_up = format!(
        "Uid: 65534 65534 65534 65534; Gid: 65534 65534 65534 65534; Groups: 65534; {NONE}"
    );
    for mode in [&["-g", "--switch-output=100ms"][..], &["-g"]] {
        let mut command = prof_command();
        command
            .args(["record", "-e", "cpu-clock", "-F", "999", "--user", "nobody"])
            .args(mode)
            .arg("-o")
            .arg(&file)
            .env_remove("PROF_EMBED_MS")
            // However busy the machine is.
            .args(["--embed-time", "20000"])
            .args([
                "sh",
                "-c",
                "echo ready; dd if=/dev/zero of=/dev/null bs=1M count=6000 status=none; read line; exit 0",
            ]);
        let mut child = crate::waiting::with_pipes(&mut command);
        assert!(crate::waiting::is_ready(&mut child));
        let pid = child.id();
        wait_until("all threads to give their rights up", || {
            let rights = threads_rights(pid);
            // The writing, the draining and the main thread, and readers.
            rights.len() >= 3 && rights.iter().all(|rights| *rights == given_up)
        });
        let ended = crate::waiting::end(child);
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        assert!(!ended.stderr.contains("stays root"), "{}", ended.stderr);
        assert!(!ended.stderr.contains("no names"), "{}", ended.stderr);
    }
    let folder = file.parent().expect("a folder");
    let files = std::fs::read_dir(folder).expect("there").flatten();
    let files: Vec<PathBuf> = files.map(|entry| entry.path()).collect();
    assert!(files.len() > 2, "parts were written: {files:?}");
    for part in &files {
        let about = std::fs::metadata(part).expect("there");
        assert_eq!((about.uid(), about.mode() & 0o777), (NOBODY, 0o600));
    }
    // The kernel's names, which only root sees, are in the file all the same.
    let program = folder.join("prof");
    crate::oracle::copy_program(std::path::Path::new(env!("CARGO_BIN_EXE_prof")), &program);
    let mut shown = Command::new(&program);
    shown.uid(NOBODY).gid(NOBODY);
    let shown = shown
        .args(["report", "--stdio", "-s", "dso,sym", "-i"])
        .arg(&file)
        .output();
    let shown = Finished::from(shown.expect("prof starts"));
    assert!(
        shown.text().contains("[k] "),
        "{}{}",
        shown.text(),
        shown.stderr
    );
    let named = shown.text();
    let named = named.lines().filter(|line| line.contains("[k] "));
    let named = named.filter(|line| !line.contains("[k] 0x"));
    assert!(named.count() > 3, "{}", shown.text());
}

/// What needs them keeps them, and says so where that was not asked for.
#[test]
fn rights_stay_where_later_work_needs_them() {
    let test = "rights_stay_where_later_work_needs_them";
    let Some(file) = recording(test, "stays") else {
        return;
    };
    let folder = file.parent().expect("a folder");
    let closed = std::fs::Permissions::from_mode(0o755);
    let status = |args: &[&str]| {
        let recorded = prof_command()
            .args(["record", "--user", "nobody", "-o"])
            .arg(&file)
            .args(args)
            .args(["sh", "-c", "sleep 0.5; cat /proc/$PPID/status"])
            .output();
        let ended = Finished::from(recorded.expect("prof starts"));
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        let uid = ended.text();
        let uid = uid.lines().find(|line| line.starts_with("Uid:"));
        (uid.expect("a line").to_owned(), ended.stderr)
    };
    let (uid, told) = status(&["-a"]);
    assert!(uid.starts_with("Uid:\t0\t"), "{uid}");
    assert!(!told.contains("stays root"), "{told}");
    std::fs::set_permissions(folder, closed).expect("ours");
    let (uid, told) = status(&[]);
    assert!(uid.starts_with("Uid:\t0\t"), "{uid}");
    assert!(
        told.contains("the recorder stays root: nobody may not write in"),
        "{told}"
    );
    // The printed cure.
    let open = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(folder, open).expect("ours");
    let (uid, told) = status(&[]);
    assert!(uid.starts_with("Uid:\t65534\t"), "{uid} {told}");
}

#[test]
fn the_program_inherits_no_capabilities() {
    let test = "the_program_inherits_no_capabilities";
    let Some(file) = recording(test, "inherits") else {
        return;
    };
    if !have(test, "setpriv") {
        return;
    }
    let of_program = |user: &[&str]| {
        let recorded = Command::new("setpriv")
            .args(["--inh-caps=+net_raw,+perfmon", "--ambient-caps=+net_raw"])
            .arg(prof_command().get_program())
            .args(["record", "-q"])
            .args(user)
            .arg("-o")
            .arg(&file)
            .args(["grep", "-E", "^Cap(Inh|Amb|Prm)", "/proc/self/status"])
            .output();
        let ended = Finished::from(recorded.expect("setpriv starts"));
        assert_eq!(ended.code, 0, "{}", ended.stderr);
        let text = ended.text();
        let sets = text.lines().filter_map(|line| line.split('\t').nth(1));
        let sets = sets.map(|set| u64::from_str_radix(set, 16).expect("a set"));
        sets.collect::<Vec<u64>>()
    };
    const GIVEN: u64 = 1 << 13 | 1 << 38;
    let [inherited, permitted, ambient] = of_program(&[])[..] else {
        panic!("three sets");
    };
    assert_eq!((inherited, ambient), (GIVEN, 1 << 13), "as it was started");
    assert_ne!(permitted, 0);
    assert_eq!(of_program(&["--user", "nobody"]), [0, 0, 0]);
}

#[test]
fn under_sudo_a_line_says_that_the_program_runs_as_root() {
    let test = "under_sudo_a_line_says_that_the_program_runs_as_root";
    let Some(file) = recording(test, "told") else {
        return;
    };
    let recorded = |name: &str| {
        let mut command = prof_command();
        command.env("SUDO_USER", name).args(["record", "-o"]);
        let output = command.arg(&file).arg("true").output();
        Finished::from(output.expect("prof starts")).stderr
    };
    assert!(recorded("nobody").contains("--user sudo runs it as nobody"));
    assert!(!recorded("root").contains("runs as root"));
}

#[test]
fn a_plain_user_is_told_of_whom_and_where_nothing_can_be_recorded() {
    let test = "a_plain_user_is_told_of_whom_and_where_nothing_can_be_recorded";
    let Some(file) = recording(test, "plain") else {
        return;
    };
    let folder = file.parent().expect("a folder");
    let program = folder.join("prof");
    crate::oracle::copy_program(std::path::Path::new(env!("CARGO_BIN_EXE_prof")), &program);
    let closed = folder.join("closed");
    std::fs::create_dir_all(&closed).expect("ours");
    let nobody_may = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(&closed, nobody_may).expect("ours");
    let refused = |args: &[&str]| {
        let mut command = Command::new(&program);
        command.uid(NOBODY).gid(NOBODY).arg("record").args(args);
        let output = command.arg("true").output();
        Finished::from(output.expect("prof starts"))
    };
    let as_root = refused(&["--user", "root"]);
    assert_eq!(as_root.code, 2, "{}", as_root.stderr);
    assert!(
        as_root.stderr.contains("--user root takes root"),
        "{}",
        as_root.stderr
    );
    let inside = closed.join("perf.data");
    let there = refused(&["-o", inside.to_str().expect("UTF-8")]);
    assert_eq!(there.code, 1, "{}", there.stderr);
    for words in ["may not enter the folder", "try: -o /tmp/perf.data"] {
        assert!(there.stderr.contains(words), "{}", there.stderr);
    }
}

#[test]
fn a_user_that_is_not_there_is_refused() {
    for args in [["--user", "no-such-user-here"], ["-u", "no-such-user-here"]] {
        let refused = crate::oracle::prof(&[&["record"], &args[..], &["true"]].concat());
        assert_eq!(refused.code, 2, "{}", refused.stderr);
        assert!(
            refused.stderr.contains("no such user"),
            "{}",
            refused.stderr
        );
    }
    let mut alone = prof_command();
    alone
        .env_remove("SUDO_USER")
        .args(["record", "--user", "sudo", "true"]);
    let refused = Finished::from(alone.output().expect("prof starts"));
    assert!(
        refused.stderr.contains("SUDO_USER is not set"),
        "{}",
        refused.stderr
    );
}

#[test]
fn the_processes_of_a_user_are_recorded_and_no_others() {
    let test = "the_processes_of_a_user_are_recorded_and_no_others";
    let Some(file) = recording(test, "whose") else {
        return;
    };
    if !have(test, "perf") {
        return;
    }
    // A number that nobody else has.
    const USER: u32 = 64_123;
    let busy = "while :; do :; done";
    let mut theirs = Command::new("sh")
        .args(["-c", busy])
        .uid(USER)
        .spawn()
        .expect("starts");
    let mut other = Command::new("sh")
        .args(["-c", busy])
        .spawn()
        .expect("starts");
    let whose = format!("/proc/{}", theirs.id());
    wait_until("the user's process", || {
        std::fs::metadata(&whose).is_ok_and(|about| about.uid() == USER)
    });
    let recorded = prof_command()
        .args(["record", "-e", "cpu-clock", "-u", &USER.to_string(), "-o"])
        .arg(&file)
        .args(["sleep", "1"])
        .output();
    for child in [&mut theirs, &mut other] {
        child.kill().expect("ours");
        child.wait().expect("ours");
    }
    let ended = Finished::from(recorded.expect("prof starts"));
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let file = file.to_str().expect("a path of ours");
    let script = crate::oracle::perf(&["script", "-i", file, "-F", "pid"]);
    let text = script.succeeded("perf script").text();
    let pids: std::collections::BTreeSet<&str> = text.split_whitespace().collect();
    assert!(pids.iter().eq([&theirs.id().to_string()]), "{pids:?}");
}

#[test]
fn who_asks_for_himself_needs_no_rights() {
    let test = "who_asks_for_himself_needs_no_rights";
    let Some(file) = recording(test, "himself") else {
        return;
    };
    let program = file.parent().expect("a folder").join("prof");
    crate::oracle::copy_program(std::path::Path::new(env!("CARGO_BIN_EXE_prof")), &program);
    let words = ["record", "-e", "page-faults", "--user", "nobody", "-o"];
    let mut own = Command::new(&program);
    own.uid(NOBODY).gid(NOBODY).args(words).arg(&file);
    let own = Finished::from(own.args(["id", "-u"]).output().expect("prof starts"));
    assert_eq!(
        (own.code, own.text().trim()),
        (0, "65534"),
        "{}",
        own.stderr
    );
    // Root of a namespace, which may not change its groups, and knows one user.
    for (user, code, words) in [("root", 0, "samples"), ("nobody", 2, "no such user in")] {
        let mut inside = Command::new("unshare");
        inside.arg("-Ur").arg(&program);
        inside.args(["record", "-e", "page-faults", "--user", user, "-o"]);
        let run = inside.arg(&file).arg("true").output();
        let run = Finished::from(run.expect("unshare starts"));
        if run.stderr.contains("unshare:") {
            return skipped(test, &run.stderr);
        }
        assert_eq!(run.code, code, "{}", run.stderr);
        assert!(run.stderr.contains(words), "{}", run.stderr);
    }
}

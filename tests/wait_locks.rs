//! `prof report --locks`: which locks threads waited for, and who released them.
//!
//! The program (`fixtures/programs/locks.c`) tells where its locks are and how
//! long it waited for each.

use crate::oracle::{compiled, may_record_all, prof, prof_command, scratch};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What the program measured of one lock.
struct Truth {
    name: String,
    address: u64,
    ns: u64,
    count: u64,
}

fn truths(text: &str) -> Vec<Truth> {
    let lines = text.lines().map(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| fields[at].parse::<u64>().expect("a number");
        Truth {
            name: fields[1].to_owned(),
            address: number(2),
            ns: number(3),
            count: number(4),
        }
    });
    lines.collect()
}

fn program(name: &str) -> Option<PathBuf> {
    let flags = ["-O2", "-g", "-pthread", "-fno-optimize-sibling-calls"];
    compiled(name, "locks.c", &flags)
}

fn report(file: &Path, options: &[&str]) -> String {
    let output = prof_command()
        .args(["report", "-f", "-i"])
        .arg(file)
        .args(options)
        .output()
        .expect("prof starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn locks(file: &Path) -> Vec<Value> {
    let json: Value = serde_json::from_str(&report(file, &["--locks", "--json"])).expect("JSON");
    assert_eq!(json["schema"], "prof-locks-1");
    json["locks"].as_array().expect("locks").clone()
}

fn number(value: &Value) -> u64 {
    value.as_u64().expect("a number")
}

/// The functions of all that is listed there.
fn functions(list: &Value) -> Vec<&str> {
    let all = list.as_array().expect("a list").iter();
    let names = all.flat_map(|one| one["functions"].as_array().expect("functions"));
    names.filter_map(Value::as_str).collect()
}

#[test]
fn locks_have_their_variables_their_waiters_and_who_released_them() {
    const NAME: &str = "wait-locks";
    if !may_record_all(NAME) {
        return;
    }
    let Some(program) = program(NAME) else {
        return;
    };
    let file = scratch().join("wait-locks.data");
    let output = prof_command()
        .args(["record", "--off-cpu=only", "--wakers", "-o"])
        .arg(&file)
        .arg(&program)
        .output()
        .expect("prof starts");
    assert!(output.status.success(), "{output:?}");
    let locks = locks(&file);
    for truth in truths(&String::from_utf8_lossy(&output.stdout)) {
        let name = &truth.name;
        let lock = locks.iter().find(|lock| lock["address"] == truth.address);
        let lock = lock.expect("the lock that was waited for");
        // What it waits for a CPU after that is none of the lock's: on a busy
        // machine that is much.
        let seen = number(&lock["wait_ns"]);
        let most = truth.ns + truth.ns / 100 + truth.count * 20_000;
        assert!(seen <= most, "{name} told {}, seen {seen}", truth.ns);
        let is_whole = seen + woken(&file, name) + truth.count * 40_000 >= truth.ns * 99 / 100;
        assert!(is_whole, "{name} told {}, seen {seen}", truth.ns);
        assert!(number(&lock["waits"]) <= truth.count, "{lock}");
        assert_eq!(lock["threads"], 1);
        let (variable, offset, kind, place) = match name.as_str() {
            "shared_state" => (Some("shared_state"), Some(64), "mutex", "shared"),
            "heap" => (None, None, "mutex", "heap"),
            "long_lock" => (Some("long_lock"), Some(0), "mutex", "long"),
            _ => (Some("semaphore"), Some(0), "semaphore", "semaphore"),
        };
        assert_eq!(lock["variable"].as_str(), variable);
        assert_eq!(lock["offset"].as_u64(), offset);
        assert_eq!(lock["kind"], kind);
        assert!(functions(&lock["waiters"]).contains(&format!("want_{place}").as_str()));
        let released: u64 = lock["ended_by"]
            .as_array()
            .expect("a list")
            .iter()
            .filter(|by| by["comm"] == "holder")
            .map(|by| number(&by["wait_ns"]))
            .sum();
        assert!(released * 100 >= seen * 95, "{lock}");
        let by = match name.as_str() {
            "semaphore" => "post_late".to_owned(),
            _ => format!("hold_{place}"),
        };
        assert!(
            functions(&lock["ended_by"]).contains(&by.as_str()),
            "{lock}"
        );
        check_holders(lock, name);
    }
    check_filters(&file, &program);
    let text = report(&file, &["--locks"]);
    assert!(text.contains("mutex shared_state+0x40"), "{text}");
    let first = text.lines().next().unwrap_or_default();
    assert!(
        first.contains(" samples, ") && first.contains(" lost, "),
        "{text}"
    );
    assert!(text.contains("100.0 % held by holder ("), "{text}");
    assert!(text.contains("seen in 1 of 1 waits"), "{text}");
    assert!(
        text.lines().all(|line| line.chars().count() <= 240),
        "{text}"
    );
}

fn path_of(file: &Path) -> &str {
    file.to_str().expect("UTF-8")
}

/// What filters leave of waits is told, and no other.
fn check_filters(file: &Path, program: &Path) {
    // Of a name the kernel keeps 15 bytes.
    let name = program.file_name().expect("a file").to_string_lossy();
    let name = &name[..name.len().min(15)];
    let waited = |filter: &[&str]| -> u64 {
        let shown = report(file, &[&["--locks", "--json"], filter].concat());
        let json: Value = serde_json::from_str(&shown).expect("JSON");
        let locks = json["locks"].as_array().expect("locks").iter();
        locks.map(|lock| number(&lock["wait_ns"])).sum()
    };
    let [all, holder, other] = [&[][..], &["--comms", "holder"], &["--comms", name]].map(waited);
    assert_eq!(holder + other, all);
    assert!(other > holder, "{holder} {other}");
    let half = waited(&["--time", "0%-50%"]);
    assert!(half > 0 && half < all, "{half} of {all}");
    let chains = |filter: &[&str]| report(file, &[&["--wakers"], filter].concat());
    assert!(chains(&[]).contains("ended by holder"), "{}", chains(&[]));
    let of_holder = chains(&["--comms", "holder"]);
    assert!(!of_holder.contains(&format!(" {name}: ")), "{of_holder}");
    let path = |filter: &[&str]| -> u64 {
        let shown = report(file, &[&["--critical-path", "--json"], filter].concat());
        let json: Value = serde_json::from_str(&shown).expect("JSON");
        number(&json["elapsed_ns"])
    };
    let (whole, half) = (path(&[]), path(&["--time", "0%-50%"]));
    assert!(half < whole * 6 / 10, "{half} of {whole}");
    let refused = prof(&["report", "-f", "-i", path_of(file), "--locks", "-s", "comm"]);
    assert!(
        refused.code == 2 && refused.stderr.contains("--comms"),
        "{}",
        refused.stderr
    );
}

/// Checks who held a lock. The long one was looked at while it was waited for,
/// others may have been; a semaphore has no holder.
fn check_holders(lock: &Value, name: &str) {
    let holders = lock["held_by"].as_array().expect("a list");
    let expected = match name {
        "long_lock" => 1..=1,
        "semaphore" => 0..=0,
        _ => 0..=1,
    };
    assert!(expected.contains(&holders.len()), "{lock}");
    for holder in holders {
        assert_eq!(holder["comm"], "holder", "{lock}");
        assert!(number(&holder["waits"]) <= number(&lock["waits"]), "{lock}");
        assert!(number(&holder["wait_ns"]) <= number(&lock["wait_ns"]));
        // Who held it is who ended the waits for it.
        for releaser in lock["ended_by"].as_array().expect("a list") {
            assert_eq!(releaser["tid"], holder["tid"], "{lock}");
        }
    }
}

/// How long the thread that wants a lock waited for CPUs there, ns.
fn woken(file: &Path, lock: &str) -> u64 {
    let place = match lock {
        "shared_state" => "want_shared".to_owned(),
        "long_lock" => "want_long".to_owned(),
        other => format!("want_{other}"),
    };
    let text = report(
        file,
        &[
            "--stdio",
            "--clock",
            "off",
            "--no-children",
            "-g",
            "none",
            "-F",
            "period,wait",
            "-t",
            ",",
        ]
        .into_iter()
        .chain(["-p", &place, "-x"])
        .collect::<Vec<_>>(),
    );
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    let rows = rows.filter_map(|line| line.split_once(','));
    let rows = rows.filter(|(_, wait)| wait.trim() != "blocked: futex");
    rows.filter_map(|(period, _)| period.trim().parse::<u64>().ok())
        .sum()
}

#[test]
fn a_plain_user_sees_the_locks_of_waits_that_were_read() {
    const NAME: &str = "wait-locks-plain";
    if !may_record_all(NAME) || !crate::oracle::have(NAME, "setpriv") {
        return;
    }
    let Some(program) = program(NAME) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let everyone = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(folder.path(), everyone).expect("it is ours");
    let prof = Path::new(env!("CARGO_BIN_EXE_prof"));
    for (from, to) in [(prof, "prof"), (&program, "locks")] {
        crate::oracle::copy_program(from, &folder.path().join(to));
    }
    let file = folder.path().join("plain.data");
    let by_nobody = |options: &[&str]| {
        Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
            .arg(folder.path().join("prof"))
            .args(["record", "-o"])
            .arg(&file)
            .args(options)
            .arg(folder.path().join("locks"))
            .output()
            .expect("setpriv starts")
    };
    let refused = by_nobody(&["--off-cpu=only", "--wakers"]);
    let errors = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(2), "{errors}");
    assert!(errors.contains("--wakers"), "{errors}");
    assert!(errors.contains("root"), "{errors}");
    let output = by_nobody(&["--off-cpu=only"]);
    assert!(output.status.success(), "{output:?}");
    let locks = locks(&file);
    let truths = truths(&String::from_utf8_lossy(&output.stdout));
    // Those of 6 ms are long enough also on a busy machine.
    let truth = &truths[0];
    let lock = locks.iter().find(|lock| lock["address"] == truth.address);
    let lock = lock.expect("the lock that was waited for");
    assert_eq!(lock["variable"], "shared_state");
    assert!(
        functions(&lock["waiters"]).contains(&"want_shared"),
        "{lock}"
    );
    let seen = number(&lock["wait_ns"]);
    let most = truth.ns + truth.ns / 100 + truth.count * 20_000;
    assert!(seen <= most, "told {}, seen {seen}", truth.ns);
    assert_eq!(lock["ended_by"], serde_json::json!([]));
    for truth in &truths {
        if let Some(lock) = locks.iter().find(|lock| lock["address"] == truth.address) {
            check_holders(lock, &truth.name);
        }
    }
}

#[test]
fn locks_of_a_recording_without_waits_are_refused() {
    let file = crate::oracle::fixture("recordings/linux-perf-data/sleep.data");
    let output = prof_command()
        .args(["report", "--locks", "-i"])
        .arg(file)
        .output()
        .expect("prof starts");
    assert_eq!(output.status.code(), Some(2));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(errors.contains("record --off-cpu"), "{errors}");
}

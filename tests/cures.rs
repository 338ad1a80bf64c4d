//! What messages of `prof record` tell to try: each is tried, or at least is a
//! command line that `prof` takes. strace makes the kernel refuse.

use crate::oracle::{Finished, have, prof, prof_command, scratch, skipped};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a message tells to try, each without the remark behind it.
pub(crate) fn cures(stderr: &str) -> Vec<&str> {
    let lines = stderr.lines().map(str::trim_start);
    lines
        .filter_map(|line| {
            line.strip_prefix("try: ")
                .or_else(|| line.strip_prefix("or: "))
        })
        .map(|cure| cure.split("  ").next().unwrap_or(cure))
        .collect()
}

/// A shell's command that is the cure, for `true` instead of `./app`; `None`
/// for what is no command of ours.
fn command(cure: &str) -> Option<String> {
    let prof = env!("CARGO_BIN_EXE_prof");
    let record = format!("{prof} record -q -o /dev/null");
    let cure = cure.split([',', '(']).next().unwrap_or(cure).trim();
    if cure.starts_with('-') {
        Some(format!("{record} {cure} true"))
    } else if let Some(option) = cure.strip_prefix("without ") {
        // There is such an option.
        Some(format!("{record} {option} true"))
    } else if let Some(rest) = cure.strip_prefix("sudo prof record") {
        Some(format!("{record} {}", rest.replace("./app", "true")))
    } else if let Some(rest) = cure.strip_prefix("prof record") {
        Some(format!("{record} {}", rest.replace("./app", "true")))
    } else {
        let rest = cure.strip_prefix("prof ")?;
        Some(format!("{prof} {}", rest.replace("./app", "true")))
    }
}

/// Fails for a cure that is no command line of ours, or names a setting that
/// this kernel does not have.
fn check(cure: &str, message: &str) {
    if let Some((_, setting)) = cure.split_once("sysctl ") {
        let name = setting.split('=').next().expect("a name");
        // Only some processors have a watchdog.
        if name != "kernel.nmi_watchdog" {
            let path = format!("/proc/sys/{}", name.replace('.', "/"));
            assert!(Path::new(&path).exists(), "{cure}: {message}");
        }
        return;
    }
    let Some(line) = command(cure) else { return };
    let run: Finished = Command::new("sh")
        .args(["-c", &line])
        .output()
        .expect("sh starts")
        .into();
    assert_ne!(run.code, 2, "{line}: {}\n{message}", run.stderr);
    assert_ne!(run.code, 101, "{line}: {}\n{message}", run.stderr);
}

/// `prof record` with `options`, where perf_event_open(2) answers `errno`.
fn refused(errno: &str, options: &[&str]) -> Finished {
    let inject = format!("inject=perf_event_open:error={errno}");
    Command::new("strace")
        .args([
            "-f",
            "-qq",
            "-o",
            "/dev/null",
            "-e",
            "trace=perf_event_open",
            "-e",
        ])
        .arg(inject)
        .arg(env!("CARGO_BIN_EXE_prof"))
        .args(["record", "-q", "-o", "/dev/null"])
        .args(options)
        .arg("true")
        .output()
        .expect("strace starts")
        .into()
}

#[test]
fn every_refusal_tells_to_try_what_prof_takes() {
    // covers unit: ERR-07, ERR-10, ERR-13, ERR-14, BR-22
    let test = "every_refusal_tells_to_try_what_prof_takes";
    if !have(test, "strace") {
        return;
    }
    let watch = ["-e", "mem:0x1000/4:w"];
    for (errno, options, words) in [
        ("ENOSYS", &["-e", "cs"][..], "docker run"),
        ("EACCES", &["-e", "cpu-clock"], "security policy"),
        ("EACCES", &["-a"], "prof record ./app"),
        ("EACCES", &["--namespaces"], "without --namespaces"),
        ("EACCES", &["--phys-data"], "without --phys-data"),
        ("EPERM", &["-e", "cs"], "docker run --cap-add PERFMON"),
        (
            "EPERM",
            &["-e", "mem:0xffffffff81000000/4:w"],
            "CAP_SYS_ADMIN",
        ),
        ("ENOENT", &["-e", "cycles"], "-e cpu-clock"),
        ("ENOENT", &["-e", "cpu-clock"], "prof list"),
        ("ENODEV", &["-e", "cycles"], "-e cpu-clock"),
        (
            "EOPNOTSUPP",
            &["--call-graph", "lbr", "-e", "cpu-clock"],
            "--call-graph fp",
        ),
        ("EOPNOTSUPP", &["-b"], "without -b"),
        ("EOPNOTSUPP", &["-j", "any_call,u"], "without -b, -j"),
        ("EINVAL", &["-e", "cs/aux-action=pause/"], "tracing PMU"),
        ("EOPNOTSUPP", &["-e", "cs/aux-output/"], "tracing PMU"),
        ("EOPNOTSUPP", &["-e", "cycles:p"], "without :p"),
        ("EOPNOTSUPP", &["-e", "cycles"], "-e cpu-clock"),
        ("EINVAL", &watch, "no such breakpoint"),
        (
            "EINVAL",
            &["-e", "mem:0xffffffff81000000/4:w:u"],
            "without :u",
        ),
        (
            "EINVAL",
            &["-e", "mem:0xffffffff81000000:x"],
            "prof list tracepoint",
        ),
        ("EINVAL", &["-e", "cs"], "fewer of them"),
        (
            "EOVERFLOW",
            &["-g", "-e", "cs/max-stack=9999/"],
            "a smaller max-stack",
        ),
        ("EBUSY", &["-e", "cycles"], "nmi_watchdog"),
        ("ENOSPC", &watch, "x86 has 4"),
        ("ENOSPC", &["-e", "cs"], "fewer events"),
        ("EMFILE", &["-e", "cs"], "prlimit --pid $$ --nofile="),
        ("EMFILE", &["-a", "-e", "cs"], "fewer CPUs with -C"),
        ("ENFILE", &["-e", "cs"], "fs.file-max="),
        ("ENOMEM", &["-e", "cs"], "no memory"),
        ("E2BIG", &["-e", "cs"], "too old"),
    ] {
        let run = refused(errno, options);
        if run.stderr.contains("ptrace") {
            return skipped(test, &run.stderr);
        }
        let message = format!("{errno} {options:?}: {}", run.stderr);
        assert_eq!(run.code, 1, "{message}");
        assert!(run.stderr.contains(&format!("({errno})")), "{message}");
        assert!(run.stderr.contains(words), "{message}");
        for cure in cures(&run.stderr) {
            check(cure, &message);
        }
    }
}

/// `prof record` as a user without privileges.
fn as_nobody(file: &Path, options: &str) -> Option<Finished> {
    let line = format!(
        "exec {} record -o {} {options} true",
        env!("CARGO_BIN_EXE_prof"),
        file.display()
    );
    let mut command = Command::new("sh");
    command.args(["-c", &line]).env("LC_ALL", "C.UTF-8");
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    if status.contains("\nUid:\t0\t") {
        command.uid(65_534).gid(65_534);
    }
    let run: Finished = command.output().ok()?.into();
    // The binary or the folder may be out of this user's reach.
    let reached = run.code != 126 && run.code != 127 && !run.stderr.contains("cannot create");
    reached.then_some(run)
}

fn open_to_all(name: &str) -> PathBuf {
    let directory = std::env::temp_dir().join(format!("prof-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("made");
    std::fs::set_permissions(&directory, PermissionsExt::from_mode(0o777)).expect("changed");
    directory
}

#[test]
fn a_user_whom_the_kernel_is_hidden_from_gets_events_that_work() {
    let test = "a_user_whom_the_kernel_is_hidden_from_gets_events_that_work";
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    if paranoid.map_or(true, |level| level.trim() != "2") {
        return skipped(test, "kernel.perf_event_paranoid is not 2");
    }
    let directory = open_to_all("cures");
    let file = directory.join("perf.data");
    for (options, cure) in [
        ("-e cpu-clock:k", "-e 'cpu-clock:u'"),
        ("-e cpu-clock/freq=99/kp", "-e 'cpu-clock/freq=99/pu'"),
        ("-e mem:0x1000/4:w:k", "-e 'mem:0x1000/4:w:u'"),
        ("-e cs:k,cpu-clock", "-e 'cs:u'"),
        ("-e cs/name=ticks/k", "the same event with u"),
        ("--all-kernel", "without --all-kernel"),
        ("--all-kernel -e cs", "without --all-kernel"),
        ("--namespaces", "without --namespaces"),
        ("--phys-data", "without --phys-data"),
    ] {
        let Some(run) = as_nobody(&file, options) else {
            return skipped(
                test,
                "prof or the temporary folder is out of nobody's reach",
            );
        };
        assert_eq!(run.code, 1, "{options}: {}", run.stderr);
        let cures = cures(&run.stderr);
        let told = cures.iter().any(|told| told.starts_with(cure));
        assert!(told, "{options}: {}", run.stderr);
        let cured = match cure.strip_prefix("without ") {
            Some(option) => options.replace(option, ""),
            None if cure.starts_with("the same") => options.replace("/k", "/u"),
            None => cure.to_owned(),
        };
        let run = as_nobody(&file, &cured).expect("as before");
        assert_eq!(run.code, 0, "{cured}: {}", run.stderr);
    }
    // Nothing of the kernel is what this machine lacks.
    if !prof(&["list", "hw"])
        .text()
        .contains("cycles OR cpu-cycles                               [Hardware event]\n")
    {
        let run = as_nobody(&file, "-e cycles:k").expect("as before");
        assert!(run.stderr.contains("try: -e cpu-clock"), "{}", run.stderr);
    }
    let _ = std::fs::remove_dir_all(directory);
}

#[test]
fn root_is_not_told_to_use_sudo() {
    let test = "root_is_not_told_to_use_sudo";
    let file = scratch().join("cures-root.data");
    let prof = env!("CARGO_BIN_EXE_prof");
    for options in [
        "-e cpu-clock --namespaces",
        "--phys-data",
        "-a",
        "-e cpu-clock:k",
    ] {
        let run: Finished = Command::new("unshare")
            .args(["-Ur", "sh", "-c"])
            .arg(format!(
                "{prof} record -o {} {options} true",
                file.display()
            ))
            .output()
            .expect("unshare starts")
            .into();
        if run.stderr.contains("unshare:") || run.code == 0 {
            return skipped(test, &run.stderr);
        }
        assert_eq!(run.code, 1, "{options}: {}", run.stderr);
        assert!(
            run.stderr.contains("user namespace"),
            "{options}: {}",
            run.stderr
        );
        assert!(!run.stderr.contains("sudo"), "{options}: {}", run.stderr);
    }
}

#[test]
fn without_tracefs_the_list_says_so() {
    let test = "without_tracefs_the_list_says_so";
    let mut prof = prof_command();
    let prof = prof.args(["list", "tracepoint"]);
    let line = format!(
        "umount /sys/kernel/tracing /sys/kernel/debug/tracing 2>/dev/null; \
         ls /sys/kernel/tracing/events /sys/kernel/debug/tracing/events 2>/dev/null && exit 77; \
         exec {} list tracepoint",
        prof.get_program().display()
    );
    let run: Finished = Command::new("unshare")
        .args(["-m", "sh", "-c", &line])
        .output()
        .expect("unshare starts")
        .into();
    if run.stderr.contains("unshare:") || run.code == 77 {
        return skipped(test, "tracefs cannot be hidden here");
    }
    assert_eq!(run.code, 1, "{}", run.stderr);
    assert!(
        run.stderr.contains("tracefs is not mounted") && run.stderr.contains("prof doctor"),
        "{}",
        run.stderr
    );
}

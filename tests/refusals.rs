//! What `record`, `stat`, `list` and `doctor` say where the kernel, a container
//! or a limit refuses: the cause and a cure that was tried, never a crash, and
//! never a wrong number.

use crate::cures::cures;
use crate::oracle::{Finished, compiled, have, may_record_all, prof, scratch, skipped};
use std::process::Command;

const PROF: &str = env!("CARGO_BIN_EXE_prof");

/// `prof stat` with `options`, where perf_event_open(2) answers `errno`.
fn refused_stat(errno: &str, options: &[&str]) -> Finished {
    let inject = format!("inject=perf_event_open:error={errno}");
    let trace = [
        "-f",
        "-qq",
        "-o",
        "/dev/null",
        "-e",
        "trace=perf_event_open",
        "-e",
    ];
    Command::new("strace")
        .args(trace)
        .args([&inject, PROF, "stat"])
        .args(options)
        .arg("true")
        .output()
        .expect("strace starts")
        .into()
}

/// The commands of ours that a message tells to try.
fn commands(stderr: &str) -> Vec<String> {
    let commands = cures(stderr).into_iter().filter_map(|cure| {
        let cure = cure.split(" (").next().unwrap_or(cure).trim();
        if cure.starts_with("-e ") {
            return Some(format!("{PROF} stat {cure} true"));
        }
        let rest = cure.strip_prefix("prof ")?;
        Some(format!("{PROF} {}", rest.replace("./app", "true")))
    });
    commands.collect()
}

#[test]
fn stat_tells_causes_and_cures_of_the_same_table() {
    let test = "stat_tells_causes_and_cures_of_the_same_table";
    if !have(test, "strace") {
        return;
    }
    let grouped = ["-e", "{cs,faults}"];
    for (errno, options, words) in [
        ("ENOSYS", &["-e", "cs"][..], "docker run"),
        ("EACCES", &["-a", "-e", "cs"], "prof stat ./app"),
        ("EACCES", &["-e", "cs:u"], "security policy"),
        (
            "EACCES",
            &["-e", "mem:0xffffffff81000000/4:w"],
            "CAP_SYS_ADMIN",
        ),
        ("EPERM", &["-e", "cs"], "docker run --cap-add PERFMON"),
        ("EINVAL", &["-e", "mem:0x1000/4:w"], "no such breakpoint"),
        ("EINVAL", &["-e", "cs"], "without its modifiers"),
        ("EINVAL", &grouped, "without its modifiers"),
        ("EBUSY", &["-e", "cs"], "nmi_watchdog"),
        ("ENOSPC", &["-e", "mem:0x1000/4:w"], "x86 has 4"),
        ("ENOSPC", &["-e", "cs"], "fewer events"),
        ("EMFILE", &["-e", "cs"], "prlimit --pid $$ --nofile="),
        ("EMFILE", &["-a", "-e", "cs"], "fewer CPUs with -C"),
        ("ENFILE", &["-e", "cs"], "fs.file-max="),
        ("ENOMEM", &["-e", "cs"], "no memory"),
        ("E2BIG", &["-e", "cs"], "too old"),
    ] {
        let run = refused_stat(errno, options);
        if run.stderr.contains("ptrace") {
            return skipped(test, &run.stderr);
        }
        let message = format!("{errno} {options:?}: {}", run.stderr);
        assert_eq!(run.code, 1, "{message}");
        assert!(run.stderr.contains(&format!("({errno})")), "{message}");
        assert!(run.stderr.contains(words), "{message}");
        for command in commands(&run.stderr) {
            let tried: Finished = Command::new("sh")
                .args(["-c", &command])
                .output()
                .expect("sh starts")
                .into();
            assert!(
                ![2, 101].contains(&tried.code),
                "{command}: {}\n{message}",
                tried.stderr
            );
        }
    }
}

/// Situations: a name, and the command that makes it and runs `$0`.
const SITUATIONS: [(&str, &[&str]); 6] = [
    (
        "hidden /sys",
        &[
            "unshare",
            "-m",
            "sh",
            "-c",
            "mount -t tmpfs x /sys && exec sh -c \"$0\"",
        ],
    ),
    (
        "hidden /proc",
        &[
            "unshare",
            "-m",
            "sh",
            "-c",
            "mount -t tmpfs x /proc && exec sh -c \"$0\"",
        ],
    ),
    (
        "no tracefs",
        &[
            "unshare",
            "-m",
            "sh",
            "-c",
            "umount -l /sys/kernel/tracing && exec sh -c \"$0\"",
        ],
    ),
    (
        "user namespace",
        &["unshare", "-Ur", "sh", "-c", "exec sh -c \"$0\""],
    ),
    (
        "few descriptors",
        &["sh", "-c", "ulimit -n 10 && exec sh -c \"$0\""],
    ),
    (
        "uid 65534",
        &[
            "setpriv",
            "--reuid",
            "65534",
            "--regid",
            "65534",
            "--clear-groups",
            "sh",
            "-c",
            "ulimit -l 0 && exec sh -c \"$0\"",
        ],
    ),
];

/// What each command says in each situation: 0, or the code and words.
const SAID: [(&str, &str, i32, &str); 22] = [
    ("hidden /sys", "record -q -o /dev/null -e cs true", 0, ""),
    (
        "hidden /sys",
        "record -q -o /dev/null -e sched:sched_switch true",
        2,
        "try: prof doctor",
    ),
    (
        "hidden /sys",
        "stat -e uprobe:sh:main true",
        2,
        "hides /sys",
    ),
    (
        "hidden /sys",
        "list pmu",
        1,
        "events of PMUs are not listed",
    ),
    ("hidden /sys", "doctor", 0, ""),
    ("hidden /proc", "record -q -o /dev/null -e cs true", 0, ""),
    ("hidden /proc", "stat -e cs true", 0, ""),
    ("hidden /proc", "doctor", 0, ""),
    (
        "no tracefs",
        "record -q -o /dev/null -e sched:sched_switch true",
        2,
        "tracefs",
    ),
    (
        "no tracefs",
        "stat -e sched:sched_switch true",
        2,
        "tracefs",
    ),
    ("no tracefs", "list", 0, "tracepoints are not listed"),
    (
        "user namespace",
        "record -q -o /dev/null -a true",
        1,
        "outside of this container",
    ),
    (
        "user namespace",
        "stat -a -e cs true",
        1,
        "outside of this container",
    ),
    ("user namespace", "doctor", 0, ""),
    (
        "few descriptors",
        "record -q -o /dev/null -e cs true",
        1,
        "--nofile=64",
    ),
    ("few descriptors", "stat -e cs true", 0, ""),
    ("few descriptors", "list sw", 0, ""),
    (
        "uid 65534",
        "record -q -o /dev/null -a true",
        1,
        "prof record ./app",
    ),
    ("uid 65534", "stat -a -e cs true", 1, "prof stat ./app"),
    (
        "uid 65534",
        "stat -e sched:sched_switch true",
        2,
        "not readable for this user",
    ),
    ("uid 65534", "list", 0, "tracepoints are not listed"),
    ("uid 65534", "doctor", 0, ""),
];

#[test]
fn each_situation_is_told_with_what_helps() {
    let test = "each_situation_is_told_with_what_helps";
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    if paranoid.map_or(true, |level| level.trim() != "2") || !may_record_all(test) {
        return skipped(test, "it is about root and kernel.perf_event_paranoid=2");
    }
    let run_in = |situation: &[&str], line: &str| -> Finished {
        let mut words = situation.iter();
        let run = Command::new(words.next().expect("a program"))
            .args(words)
            .arg(line)
            .output();
        run.expect("it starts").into()
    };
    for (name, situation) in SITUATIONS {
        if run_in(situation, &format!("{PROF} --version")).code != 0 {
            skipped(
                test,
                &format!("{name} cannot be made here, or prof is out of its reach"),
            );
            continue;
        }
        for (_, command, code, words) in SAID.iter().filter(|(of, ..)| *of == name) {
            let run = run_in(situation, &format!("{PROF} {command}"));
            let said = format!("{name}, {command}: {}", run.stderr);
            assert_eq!(run.code, *code, "{said}");
            assert!(run.stderr.contains(words), "{said}");
            assert!(*code == 0 || run.stderr.contains("try: "), "{said}");
        }
    }
}

#[test]
fn all_cpus_are_counted_where_sys_is_hidden() {
    let test = "all_cpus_are_counted_where_sys_is_hidden";
    if !may_record_all(test) {
        return;
    }
    let line = format!(
        "mount -t tmpfs x /sys && exec {PROF} stat -x, -a -e cpu-clock,duration_time sleep 0.2"
    );
    let run: Finished = Command::new("unshare")
        .args(["-m", "sh", "-c", &line])
        .output()
        .expect("unshare starts")
        .into();
    if run.stderr.contains("unshare:") || run.stderr.contains("mount:") {
        return skipped(test, &run.stderr);
    }
    let run = run.succeeded("stat");
    let value = |name: &str| -> f64 {
        let line = run
            .stderr
            .lines()
            .find(|line| line.contains(name))
            .expect(name);
        line.split(',')
            .next()
            .and_then(|text| text.parse().ok())
            .expect(name)
    };
    let cpus = std::fs::read_to_string("/proc/stat").expect("it is there");
    let cpus = cpus.lines().filter(|line| line.starts_with("cpu")).count() - 1;
    // Each CPU's clock runs as long as counting does, but for its start.
    let counted = value("cpu-clock") * 1e6 / value("duration_time");
    let nearest = counted.round() as usize;
    assert_eq!(nearest, cpus, "{}", run.stderr);
}

/// A script that gives the kernel a scope of yama, and refuses what that refuses:
/// `$1`, unless it is empty.
const UNDER_YAMA: &str = r#"
if [ -n "$1" ]; then
  settings=$(mktemp -d) && cp /proc/sys/kernel/perf_event_* "$settings" &&
  mount -t tmpfs none /proc/sys/kernel && cp "$settings"/* /proc/sys/kernel &&
  rm -r "$settings" && mkdir /proc/sys/kernel/yama &&
  echo "$1" > /proc/sys/kernel/yama/ptrace_scope || exit 9
fi
shift
exec strace -f -qq -o /dev/null -e trace=process_vm_readv \
  -e inject=process_vm_readv:error=EPERM "$@"
"#;

#[test]
fn memory_that_may_not_be_read_is_told_with_why_and_what_helps() {
    // covers refusal: CALL-07
    let test = "memory_that_may_not_be_read_is_told_with_why_and_what_helps";
    let flags = ["-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls"];
    let Some(program) = compiled(test, "deep-recursion.c", &flags) else {
        return;
    };
    if !may_record_all(test) || !have(test, "strace") || !have(test, "unshare") {
        return;
    }
    let folder = tempfile::tempdir_in(scratch()).expect("a folder");
    let file = folder.path().join("perf.data");
    for (scope, why, cure) in [
        ("", "may not be traced", Some("try: ")),
        (
            "1",
            "ptrace_scope is 1 and this",
            Some("kernel.yama.ptrace_scope=0"),
        ),
        ("3", "ptrace_scope is 3: until the next boot", None),
    ] {
        let run: Finished = Command::new("unshare")
            .args(["-m", "sh", "-c", UNDER_YAMA, "sh", scope, PROF])
            .args(["record", "-g", "-e", "cpu-clock:u", "-F", "199", "-o"])
            .arg(&file)
            .arg(&program)
            .args(["stay", "0.3"])
            .output()
            .expect("unshare starts")
            .into();
        if run.code == 9 || run.stderr.contains("unshare:") {
            skipped(test, &run.stderr);
            continue;
        }
        // Samples are whole but for what lies deeper.
        assert_eq!(run.code, 0, "{scope}: {}", run.stderr);
        let told = "cannot read memory of processes: operation not permitted (EPERM)";
        for words in [told, why, cure.unwrap_or(why)] {
            assert!(run.stderr.contains(words), "{scope}: {}", run.stderr);
        }
        assert_eq!(
            run.stderr.contains("try: "),
            cure.is_some(),
            "{}",
            run.stderr
        );
    }
    // Where it may be read nothing is said.
    let run = Command::new(PROF)
        .args(["record", "-g", "-e", "cpu-clock:u", "-F", "199", "-o"])
        .arg(&file)
        .arg(&program)
        .args(["stay", "0.3"])
        .output();
    let run = Finished::from(run.expect("prof starts")).succeeded("prof record");
    assert!(!run.stderr.contains("cannot read memory"), "{}", run.stderr);
}

#[test]
fn options_about_sending_need_a_receiver() {
    // Beside -o, too, with which --push does not go.
    for option in [
        ["--every", "500ms"],
        ["--service", "app"],
        ["--label", "a=b"],
    ] {
        let more = ["--", "true"];
        let ended = prof(&[&["record", "-o", "unsent.data"][..], &option, &more].concat());
        assert_eq!(ended.code, 2, "{option:?}: {}", ended.stderr);
        let says = ended.stderr.contains("with --push URL");
        assert!(says, "{option:?}: {}", ended.stderr);
    }
}

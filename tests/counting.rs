//! `prof stat` against perf stat: fields, layout, counts, exit codes.

use crate::oracle::{
    Finished, copy_program, have, may_record_all, perf, prof, prof_command, skipped,
};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// The separated fields of each line, without those of the note behind them.
fn fields(run: &Finished) -> Vec<Vec<String>> {
    let lines = run.stderr.lines().filter(|line| line.contains(','));
    lines
        .map(|line| line.split(',').map(str::to_owned).collect())
        .collect()
}

#[test]
fn separated_fields_are_those_of_perf_stat() {
    let test = "separated_fields_are_those_of_perf_stat";
    if !have(test, "perf") {
        return;
    }
    let events = "page-faults:u,cycles:u,task-clock:u,page-faults:u";
    let args = ["stat", "-x,", "-e", events, "true"];
    let (ours, theirs) = (fields(&prof(&args)), fields(&perf(&args)));
    assert_eq!(ours.len(), 4, "{ours:?}");
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(ours.len(), theirs.len(), "{ours:?} {theirs:?}");
        assert_eq!(ours[1..3], theirs[1..3], "unit and name");
        assert_eq!(ours[6], theirs[6], "unit of the derived value");
        let name = &ours[2];
        match (ours[0].parse::<f64>(), theirs[0].parse::<f64>()) {
            // A time depends on what else runs.
            (Ok(_), Ok(_)) if name.starts_with("task-clock") => {}
            // Faults depend, by a few, on where the stack begins and on which
            // pages of libc are in memory.
            (Ok(ours), Ok(theirs)) => {
                let ratio = ours / theirs;
                assert!((0.8..1.25).contains(&ratio), "{ours} against {theirs}");
            }
            _ => assert_eq!(ours[0], theirs[0]),
        }
    }
}

/// Text with every number replaced and runs of spaces made one.
fn shape(text: &str) -> Vec<String> {
    let line_shape = |line: &str| {
        let words = line.split_ascii_whitespace().map(|word| {
            if word
                .bytes()
                .all(|byte| byte.is_ascii_digit() || byte == b'.')
            {
                "N"
            } else {
                word
            }
        });
        words.collect::<Vec<_>>().join(" ")
    };
    text.trim_end().lines().map(line_shape).collect()
}

#[test]
fn the_text_has_perf_stats_shape() {
    let test = "the_text_has_perf_stats_shape";
    if !have(test, "perf") {
        return;
    }
    for options in [
        &["stat", "-e", "task-clock:u,cycles:u"][..],
        &["stat", "-e", "page-faults:u,cycles:u"],
        &["stat", "-n"],
    ] {
        let args = [options, &["sleep", "0.01"]].concat();
        let (ours, theirs) = (prof(&args), perf(&args));
        assert_eq!(shape(&ours.stderr), shape(&theirs.stderr), "{args:?}");
    }
}

#[test]
fn the_exit_status_is_the_commands() {
    let status = |script: &str| prof(&["stat", "-e", "page-faults:u", "sh", "-c", script]).code;
    assert_eq!(status("exit 0"), 0);
    assert_eq!(status("exit 7"), 7);
    assert_eq!(status("kill -9 $$"), -1, "by the same signal");
    assert_eq!(prof(&["stat", "-n", "no-such-command"]).code, 127);
    assert_eq!(prof(&["stat", "-n", "/"]).code, 126);
}

#[test]
fn the_commands_output_is_its_own() {
    let run = prof(&["stat", "-e", "page-faults:u", "echo", "-x", "hello"]);
    assert_eq!(run.text(), "-x hello\n");
    assert!(run.stderr.contains("page-faults:u"), "{}", run.stderr);
    let file = crate::oracle::scratch().join("counts.csv");
    let path = file.to_str().expect("a plain name");
    let run = prof(&["stat", "-x;", "-o", path, "-e", "page-faults:u", "true"]);
    assert_eq!(run.stderr, "");
    let counts = std::fs::read_to_string(&file).expect("written");
    assert!(counts.contains(";;page-faults:u;"), "{counts}");
}

#[test]
fn what_makes_no_sense_is_refused_by_name() {
    for (args, named) in [
        (&["stat"][..], "nothing to count"),
        (&["stat", "-e", "cycels", "true"], "did you mean cycles"),
        (&["stat", "-p", "x", "true"], "-p: x"),
        (&["stat", "--topdown", "true"], "--topdown"),
        (&["stat", "-r", "x", "true"], "x"),
    ] {
        let refused = prof(args);
        assert_eq!(refused.code, 2, "{args:?}: {}", refused.stderr);
        assert!(
            refused.stderr.contains(named),
            "{args:?}: {}",
            refused.stderr
        );
    }
    let gone = prof(&["stat", "-p", "4194304", "--timeout", "100"]);
    assert_eq!(gone.code, 1);
    assert!(gone.stderr.contains("no such process"), "{}", gone.stderr);
}

#[test]
fn a_running_process_is_counted_until_the_time_is_over() {
    let mut busy = Command::new("sh")
        .args(["-c", "while :; do :; done"])
        .spawn()
        .expect("sh starts");
    let pid = busy.id().to_string();
    let run = prof(&[
        "stat",
        "-x,",
        "-e",
        "task-clock:u",
        "-p",
        &pid,
        "--timeout",
        "500",
    ]);
    busy.kill().expect("it runs");
    busy.wait().expect("it ends");
    let run = run.succeeded("prof stat -p");
    let milliseconds: f64 = fields(&run)[0][0].parse().expect("a count");
    // It shares the machine with other tests, but not its own time.
    assert!((1.0..=600.0).contains(&milliseconds), "{milliseconds}");
}

/// As perf's: that end was asked for. What the command makes of it is passed on.
#[test]
fn a_command_that_is_ended_since_time_is_over_is_no_failure() {
    let test = "a_command_that_is_ended_since_time_is_over_is_no_failure";
    let over: [&[&str]; 2] = [
        &["stat", "-e", "cs", "--timeout", "100"],
        &["stat", "-e", "cs", "-I", "50", "--interval-count", "2"],
    ];
    for options in over {
        let args = [options, &["sleep", "2"]].concat();
        let ours = prof(&args);
        assert_eq!(ours.code, 0, "{options:?}: {}", ours.stderr);
        if have(test, "perf") {
            assert_eq!(ours.code, perf(&args).code, "{options:?}");
        }
        let script = "trap 'exit 3' TERM; while :; do sleep 0.01; done";
        let answers = prof(&[options, &["sh", "-c", script]].concat());
        assert_eq!(answers.code, 3, "{options:?}: {}", answers.stderr);
    }
    let killed = prof(&["stat", "-e", "cs", "sh", "-c", "kill -TERM $$"]);
    assert_ne!(killed.code, 0, "{}", killed.stderr);
}

#[test]
fn intervals_add_up_to_the_whole() {
    let script = "i=0; while [ $i -lt 100 ]; do /bin/true; i=$((i+1)); done";
    let command = ["-e", "page-faults:u", "sh", "-c", script];
    let whole = prof(&[&["stat", "-x,"][..], &command].concat());
    let parts = prof(&[&["stat", "-x,", "-I", "20"][..], &command].concat());
    let whole: f64 = fields(&whole)[0][0].parse().expect("a count");
    let parts: Vec<f64> = fields(&parts)
        .iter()
        .filter_map(|fields| fields[1].parse().ok())
        .collect();
    assert!(parts.len() >= 2, "{parts:?}");
    let sum: f64 = parts.iter().sum();
    assert!((0.9..1.1).contains(&(sum / whole)), "{sum} of {whole}");
}

#[test]
fn runs_are_repeated_and_their_spread_is_shown() {
    let run = prof(&["stat", "-r", "3", "-e", "page-faults:u", "echo"]);
    assert_eq!(run.text(), "\n\n\n");
    assert!(run.stderr.contains("for 'echo' (3 runs)"), "{}", run.stderr);
    assert!(run.stderr.contains(" +- "), "{}", run.stderr);
}

#[test]
fn json_lines_have_perfs_keys() {
    let run = prof(&["stat", "-j", "-e", "page-faults:u,task-clock:u", "true"]);
    let lines: Vec<serde_json::Value> = run
        .stderr
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0]["event"], "page-faults:u");
    assert_eq!(lines[1]["unit"], "msec");
    assert_eq!(lines[1]["metric-unit"], "CPUs utilized");
}

/// What a plain user sees of these events.
fn stat_of_nobody(events: &str) -> Finished {
    // A copy where every user may execute it.
    let folder = tempfile::tempdir().expect("a folder");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), open).expect("ours");
    let copy = folder.path().join("prof");
    copy_program(Path::new(prof_command().get_program()), &copy);
    let run = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&copy)
        .args(["stat", "-x,", "-e", events, "true"])
        .current_dir("/")
        .output();
    run.expect("setpriv starts").into()
}

#[test]
fn a_tracepoint_without_the_kernel_is_no_false_zero() {
    // covers live: EV-14
    let test = "a_tracepoint_without_the_kernel_is_no_false_zero";
    if !may_record_all(test) {
        return;
    }
    if !Path::new("/sys/kernel/tracing/events/sched/sched_switch").is_dir() {
        return skipped(test, "tracefs is not mounted");
    }
    let events = "sched:sched_switch:u,raw_syscalls:sys_enter:u,syscalls:sys_enter_write:u";
    let run = prof(&["stat", "-x,", "-e", events, "sh", "-c", "echo >/dev/null"]);
    let lines = fields(&run);
    assert_eq!(lines[0][0], "<not counted>");
    assert_eq!(lines[1][0], "<not counted>");
    // That one has the caller's registers.
    assert_eq!(lines[2][0], "1");
    let told = "raw_syscalls:sys_enter are not counted: they occur in the kernel only";
    assert!(run.stderr.contains(told), "{}", run.stderr);
    assert!(run.stderr.contains("try: without :u"), "{}", run.stderr);

    // Root of a user namespace may read tracefs, yet not see the kernel.
    let run = Command::new("unshare")
        .args(["-Ur", prof_command().get_program().to_str().expect("UTF-8")])
        .args(["stat", "-x,", "-e", "sched:sched_switch", "true"])
        .output();
    let run: Finished = run.expect("unshare starts").into();
    if !run.stderr.contains("sched_switch:u") {
        return skipped(test, &format!("no user namespace: {}", run.stderr));
    }
    assert_eq!(fields(&run)[0][0], "<not counted>");
    let told = "sched:sched_switch:u is not counted: it occurs in the kernel only";
    assert!(run.stderr.contains(told), "{}", run.stderr);
    let cure = "outside of this container or user namespace: sysctl kernel.perf_event_paranoid=1";
    assert!(run.stderr.contains(cure), "{}", run.stderr);
}

#[test]
fn a_user_without_rights_sees_no_false_zero() {
    // covers live: EV-14
    let test = "a_user_without_rights_sees_no_false_zero";
    if !may_record_all(test) || !have(test, "setpriv") {
        return;
    }
    let run = stat_of_nobody("page-faults,context-switches");
    if !run.stderr.contains(":u") {
        skipped(
            test,
            "kernel.perf_event_paranoid lets everybody see the kernel",
        );
        return;
    }
    let lines = fields(&run);
    assert_eq!(lines[0][2], "page-faults:u");
    assert_eq!(lines[1][0], "<not counted>");
    assert!(
        run.stderr.contains("perf_event_paranoid=1"),
        "{}",
        run.stderr
    );
}

#[test]
fn tasks_override_cpus_with_perfs_warning() {
    let test = "tasks_override_cpus_with_perfs_warning";
    if !have(test, "perf") {
        return;
    }
    let own = std::process::id().to_string();
    for (options, warning) in [
        (["-p", &own, "-a", "true"].as_slice(), "SYSTEM"),
        (&["-p", &own, "-C", "0", "true"], "CPU"),
    ] {
        let count = ["stat", "-e", "task-clock:u"];
        let ours = prof(&[&count, options].concat());
        let theirs = perf(&[&count, options].concat());
        let warning = format!("PID/TID switch overriding {warning}");
        for run in [&ours, &theirs] {
            assert_eq!(run.code, 0, "{options:?}: {}", run.stderr);
            assert!(run.stderr.contains(&warning), "{}", run.stderr);
        }
    }
}

#[test]
fn refusals_have_causes_and_cures_and_invalid_is_not_unsupported() {
    let test = "refusals_have_causes_and_cures_and_invalid_is_not_unsupported";
    if !have(test, "strace") {
        return;
    }
    let refused = |errno: &str, event: &str| {
        let inject = format!("inject=perf_event_open:error={errno}");
        let prof = env!("CARGO_BIN_EXE_prof");
        let args = ["-qq", "-o", "/dev/null", "-e", &inject, prof, "stat"];
        let run = Command::new("strace")
            .args(args)
            .args(["-e", event, "true"])
            .output();
        Finished::from(run.expect("strace starts"))
    };
    let busy = refused("EBUSY", "cycles");
    if busy.stderr.contains("ptrace") {
        return skipped(test, &busy.stderr);
    }
    for (run, words) in [
        (busy, "cannot count cycles: device or resource busy (EBUSY)"),
        (refused("EBUSY", "cs"), "nmi_watchdog=0"),
        (refused("EINVAL", "cs"), "invalid argument (EINVAL)"),
        (refused("EINVAL", "cs"), "without its modifiers"),
        (refused("EINVAL", "mem:0x1000:w"), "no such breakpoint"),
        (refused("ENOSYS", "cs"), "docker run --cap-add PERFMON"),
    ] {
        assert_eq!(run.code, 1, "{}", run.stderr);
        assert!(run.stderr.contains(words), "{}", run.stderr);
        assert!(!run.stderr.contains("<not supported>"), "{}", run.stderr);
    }
    // The CPU has nothing of the kind, as perf takes it.
    let general = refused("EINVAL", "cycles");
    assert_eq!(general.code, 0, "{}", general.stderr);
    assert!(
        general.stderr.contains("<not supported>"),
        "{}",
        general.stderr
    );
    let prof = env!("CARGO_BIN_EXE_prof");
    let events = ["page-faults:u"; 60].join(",");
    let script = format!("ulimit -n 30; exec {prof} stat -e {events} true");
    let few = Command::new("bash").args(["-c", &script]).output();
    let few = Finished::from(few.expect("bash starts"));
    assert_eq!(few.code, 1, "{}", few.stderr);
    for words in ["60 descriptors", "prlimit --pid $$ --nofile=", "(EMFILE)"] {
        let words = words.replace("60", "92");
        assert!(few.stderr.contains(&words), "{}", few.stderr);
    }
}

#[test]
fn interrupts_climb_the_ladder_of_record() {
    let script = "trap 'echo int' INT; trap 'echo term' TERM; echo ready; while :; do :; done";
    let mut stat = Command::new("env")
        .arg("--default-signal")
        .arg(prof_command().get_program())
        .args(["stat", "-e", "task-clock:u", "sh", "-c", script])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("prof starts");
    let mut said = BufReader::new(stat.stdout.take().expect("piped"));
    let mut heard = Vec::new();
    for _ in ["ready", "int", "term"] {
        let mut line = String::new();
        said.read_line(&mut line).expect("readable");
        if line.is_empty() {
            break;
        }
        heard.push(line.trim_end().to_owned());
        let sent = Command::new("kill")
            .args(["-INT", &stat.id().to_string()])
            .status();
        assert!(sent.expect("kill starts").success());
    }
    let status = stat.wait().expect("ends");
    if heard.is_empty() {
        return skipped("ladder of stat", "counting was refused");
    }
    assert_eq!(heard, ["ready", "int", "term"]);
    let signal = std::os::unix::process::ExitStatusExt::signal(&status);
    assert_eq!(signal, Some(9), "{status:?}");
}

#[test]
fn what_cannot_leave_the_kernel_out_is_not_supported_for_a_plain_user() {
    let test = "what_cannot_leave_the_kernel_out_is_not_supported_for_a_plain_user";
    if !std::path::Path::new("/sys/bus/event_source/devices/msr/events/tsc").exists() {
        return skipped(test, "no PMU here counts msr/tsc/");
    }
    if !may_record_all(test) || !have(test, "setpriv") {
        return;
    }
    let counted = stat_of_nobody("msr/tsc/,page-faults");
    if !counted.stderr.contains("msr/tsc/u") {
        return skipped(
            test,
            "kernel.perf_event_paranoid lets everybody see the kernel",
        );
    }
    assert_eq!(counted.code, 0, "{}", counted.stderr);
    let fields = fields(&counted);
    assert_eq!(fields[0][0], "<not supported>");
    assert!(fields[1][0].parse::<u64>().is_ok(), "{fields:?}");
    for words in ["cannot leave out the kernel", "perf_event_paranoid=1"] {
        assert!(counted.stderr.contains(words), "{}", counted.stderr);
    }
    // What was asked for as it is is refused, with the cause.
    let refused = stat_of_nobody("msr/tsc/k");
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    assert!(
        refused.stderr.contains("hides the kernel"),
        "{}",
        refused.stderr
    );
}

#[test]
fn tasks_are_counted_on_the_cpu_that_is_named() {
    let test = "tasks_are_counted_on_the_cpu_that_is_named";
    if !have(test, "taskset") {
        return;
    }
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").unwrap_or_default();
    if online.trim() == "0" {
        return skipped(test, "this machine has one CPU");
    }
    let work = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
    let events = "task-clock/cpu=0/u,task-clock/cpu=1/u,task-clock:u";
    let run = prof(&[
        "stat", "-x,", "-e", events, "taskset", "-c", "1", "sh", "-c", work,
    ]);
    let counts: Vec<f64> = run
        .stderr
        .lines()
        .map(|line| {
            line.split(',')
                .next()
                .and_then(|count| count.parse().ok())
                .unwrap_or(0.0)
        })
        .collect();
    // taskset itself may begin elsewhere; that share of the time is told beside it.
    let ran: Vec<f64> = run
        .stderr
        .lines()
        .map(|line| {
            line.split(',')
                .nth(4)
                .and_then(|share| share.parse().ok())
                .unwrap_or(0.0)
        })
        .collect();
    assert!(counts.len() == 3 && counts[2] > 0.0, "{}", run.stderr);
    assert!(ran[1] > 50.0 && ran[0] < 50.0, "{}", run.stderr);
    for (events, words) in [
        ("cs/cpu=4000/", "is only on CPU 4000"),
        ("cs/cpu=1,cpu=1/", ""),
    ] {
        let run = prof(&["stat", "-e", events, "true"]);
        assert_eq!(run.code == 0, words.is_empty(), "{events}: {}", run.stderr);
        assert!(run.stderr.contains(words), "{events}: {}", run.stderr);
    }
}

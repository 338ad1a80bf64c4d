//! What `prof record` asks of the kernel and tells of it, beside perf.

use crate::oracle::{
    Finished, copy_program, have, perf, perf_at, prof, prof_command, scratch, skipped,
};
use crate::patience::{state, wait_until};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};

/// The fields of an attr that are set, each with its value.
type Fields = BTreeSet<String>;

/// The fields of the events asked for, as `-vv` shows them: sets of `name
/// value`. Not of the one that only carries records of tasks, nor of what was
/// refused and asked for again: perf shows a plain user both attempts.
fn attrs(stderr: &str) -> Vec<Fields> {
    let mut attrs = Vec::new();
    for block in stderr.split("perf_event_attr:\n").skip(1) {
        if block.contains("sys_perf_event_open failed") {
            continue;
        }
        let lines = block.lines().take_while(|line| line.starts_with("  "));
        let words = |line: &str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words.join(" ")
        };
        let fields: Fields = lines.map(words).collect();
        if !fields.contains("config 0x9") {
            attrs.push(fields);
        }
    }
    attrs
}

/// What `prof record -v` and `perf record -vv` ask for with these arguments.
fn asked(test: &str, args: &[&str]) -> Option<(Vec<Fields>, Vec<Fields>)> {
    if !have(test, "perf") {
        return None;
    }
    let record = ["record", "-o", "/dev/null"];
    let ours = prof(&[&record[..], &["-v"], args, &["true"]].concat());
    let theirs = perf(&[&record[..], &["-vv"], args, &["true"]].concat());
    if ours.stderr.contains("EACCES") {
        skipped(test, &ours.stderr);
        return None;
    }
    assert_eq!((ours.code, theirs.code), (0, 0), "{}", ours.stderr);
    Some((attrs(&ours.stderr), attrs(&theirs.stderr)))
}

fn value<'a>(attr: &'a Fields, field: &str) -> &'a str {
    let values = attr.iter().filter_map(|line| line.strip_prefix(field));
    values.map(str::trim).next().unwrap_or_default()
}

/// The bits of a field that perf has as well.
fn bits<'a>(attr: &'a Fields, field: &str) -> BTreeSet<&'a str> {
    value(attr, field).split('|').collect()
}

#[test]
fn v_shows_each_event_by_perfs_fields() {
    let events = ["-e", "cpu-clock:u,page-faults/period=3/"];
    let Some((ours, theirs)) = asked("v_shows_each_event_by_perfs_fields", &events) else {
        return;
    };
    assert_eq!((ours.len(), theirs.len()), (2, 2), "{ours:?} {theirs:?}");
    for (ours, theirs) in ours.iter().zip(&theirs) {
        for field in [
            "type",
            "config",
            "{ sample_period, sample_freq }",
            "disabled",
            "inherit",
            "freq",
            "exclude_kernel",
            "enable_on_exec",
        ] {
            assert_eq!(value(ours, field), value(theirs, field), "{field}");
        }
        for field in ["sample_type", "read_format"] {
            let theirs = bits(theirs, field);
            let ours = bits(ours, field);
            assert!(ours.is_superset(&theirs), "{field}: {ours:?} {theirs:?}");
        }
    }
}

#[test]
fn weights_and_thread_counts_are_asked_for_as_perf_does() {
    let args = ["-W", "-s", "-e", "cpu-clock"];
    let test = "weights_and_thread_counts_are_asked_for_as_perf_does";
    let Some((ours, theirs)) = asked(test, &args) else {
        return;
    };
    for attr in [&ours[0], &theirs[0]] {
        assert!(
            bits(attr, "sample_type").contains("WEIGHT_STRUCT"),
            "{attr:?}"
        );
        let times = ["TOTAL_TIME_ENABLED", "TOTAL_TIME_RUNNING"];
        let format = bits(attr, "read_format");
        assert!(times.iter().all(|time| format.contains(time)), "{attr:?}");
        assert_eq!(value(attr, "inherit_stat"), "1");
    }
    // With stacks unwound on the way, too.
    let file = scratch().join("record-told-weights.data");
    let file = file.to_str().expect("a path of ours");
    let work = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
    let recorded = prof(&[
        "record", "-q", "-g", "-W", "-s", "-F", "4999", "-o", file, "sh", "-c", work,
    ]);
    recorded.succeeded("prof record");
    for perf in crate::oracle::perfs(test) {
        let shown = perf_at(&perf, &["script", "-F", "weight,ip,sym", "-i", file]);
        let shown = shown.succeeded("perf script");
        assert!(shown.text().lines().count() > 10, "{}", shown.stderr);
    }
}

#[test]
fn bpf_output_has_its_payload_and_every_sample() {
    // covers live: EV-18
    let args = ["-e", "bpf-output/no-inherit,name=x/"];
    let Some((ours, theirs)) = asked("bpf_output_has_its_payload_and_every_sample", &args) else {
        return;
    };
    for attr in [&ours[0], &theirs[0]] {
        assert!(bits(attr, "sample_type").contains("RAW"), "{attr:?}");
        assert_eq!(value(attr, "{ sample_period, sample_freq }"), "1");
        assert_eq!(value(attr, "freq"), "");
    }
}

fn record(args: &[&str]) -> Finished {
    prof(&[&["record", "-o", "/dev/null"], args].concat())
}

#[test]
fn a_frequency_of_an_event_above_the_limit_is_told_or_refused() {
    // covers live: SYS-03, ATTR-16
    let limit = "/proc/sys/kernel/perf_event_max_sample_rate";
    let limit = std::fs::read_to_string(limit).expect("Linux");
    let above = 2 * limit.trim().parse::<u64>().expect("a number");
    let event = format!("cpu-clock/freq={above}/u");
    let lowered = record(&["-e", &event, "true"]);
    if lowered.stderr.contains("EACCES") {
        return skipped("frequency", &lowered.stderr);
    }
    assert_eq!(lowered.code, 0, "{}", lowered.stderr);
    let told = format!("since {above} Hz is above");
    assert!(lowered.stderr.contains(&told), "{}", lowered.stderr);
    let refused = record(&["--strict-freq", "-e", &event, "true"]);
    assert_eq!(refused.code, 1);
    let told = format!("{above} Hz is above");
    assert!(refused.stderr.contains(&told), "{}", refused.stderr);
}

#[test]
fn an_event_that_cannot_be_seen_is_told() {
    // covers live: EV-14
    let blind = record(&["-e", "cs:u", "true"]);
    if blind.stderr.contains("EACCES") {
        return skipped("blind", &blind.stderr);
    }
    let told = "cs:u is not sampled: it occurs in the kernel only";
    assert!(blind.stderr.contains(told), "{}", blind.stderr);
    let seen = record(&["-e", "page-faults:u", "true"]);
    assert!(!seen.stderr.contains("not sampled"), "{}", seen.stderr);
}

#[test]
fn an_idle_process_and_how_to_end_are_told() {
    let mut idle = Command::new("sleep").arg("1000").spawn().expect("starts");
    let pid = idle.id().to_string();
    let name = format!("/proc/{pid}/comm");
    wait_until("sleep to sleep", || {
        let is_started = std::fs::read_to_string(&name).is_ok_and(|name| name == "sleep\n");
        is_started && state(idle.id()) == 'S'
    });
    let timed = record(&["-p", &pid, "--duration", "0.2"]);
    let endless = Command::new("env")
        .arg("--default-signal")
        .arg(prof_command().get_program())
        .args(["record", "-o", "/dev/null", "-p", &pid])
        .stderr(Stdio::piped())
        .spawn()
        .expect("prof starts");
    idle.kill().expect("ours");
    idle.wait().expect("ours");
    let endless = Finished::from(endless.wait_with_output().expect("ends"));
    if timed.stderr.contains("EACCES") {
        return skipped("idle", &timed.stderr);
    }
    assert_eq!(timed.code, 0, "{}", timed.stderr);
    assert!(timed.stderr.contains("used no CPU"), "{}", timed.stderr);
    assert!(!timed.stderr.contains("Ctrl-C"), "{}", timed.stderr);
    // It may have been gone before we came.
    let told = ["Ctrl-C ends it", "there is no process"];
    let is_told = told.iter().any(|words| endless.stderr.contains(words));
    assert!(is_told, "{}", endless.stderr);
}

#[test]
fn a_program_that_gains_rights_is_told() {
    let test = "a_program_that_gains_rights_is_told";
    if !have(test, "setpriv") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mode = |path: &Path, mode: u32| {
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(path, permissions)
    };
    let (program, own) = (folder.path().join("setuid"), folder.path().join("prof"));
    copy_program(Path::new("/bin/true"), &program);
    copy_program(Path::new(prof_command().get_program()), &own);
    mode(folder.path(), 0o755).expect("ours");
    mode(&program, 0o4755).expect("ours");
    let run = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&own)
        .args([
            "record",
            "-o",
            "/dev/null",
            "-e",
            "page-faults:u",
            "-c",
            "1",
        ])
        .arg(&program)
        .current_dir("/")
        .output();
    let run = Finished::from(run.expect("setpriv starts"));
    if run.stderr.starts_with("setpriv: ") || run.stderr.contains("EACCES") {
        return skipped(test, &run.stderr);
    }
    assert_eq!(run.code, 0, "{}", run.stderr);
    if !run.stderr.contains(" 0 samples") {
        return skipped(test, "set-user-ID is not honoured here");
    }
    assert!(run.stderr.contains("is set-user-ID"), "{}", run.stderr);
    assert!(
        run.stderr.contains("try: sudo prof record -a"),
        "{}",
        run.stderr
    );
}

#[test]
fn events_that_were_never_on_are_told() {
    for (options, words) in [
        (&["-D", "60000"][..], "to be switched on after 60.0 s"),
        (&["-D", "60000-60010"], "to be switched on after 60.0 s"),
        (&["-D", "-1"], "nothing switched the events on"),
        // It has less of them.
        (&["-c", "1000000", "--max-size", "1"], "a larger --max-size"),
    ] {
        let first = ["record", "-e", "page-faults:u", "-o", "/dev/null"];
        let run = prof(&[&first[..], options, &["sleep", "0.5"]].concat());
        assert_eq!(run.code, 0, "{options:?}: {}", run.stderr);
        assert!(run.stderr.contains(words), "{options:?}: {}", run.stderr);
    }
}

/// How many records of a kind there are in what `options` record of `true`.
fn counted(options: &[&str]) -> impl Fn(&str) -> usize + use<> {
    let file = tempfile::NamedTempFile::new_in(scratch()).expect("a file");
    let path = file.path().to_str().expect("UTF-8").to_owned();
    let run = prof(&[&["record", "-q", "-o", &path], options, &["true"]].concat());
    run.succeeded("record");
    let text = perf(&["report", "-D", "-i", &path]).text();
    move |kind| text.matches(&format!("PERF_RECORD_{kind}")).count()
}

#[test]
fn what_ran_before_is_told_as_far_as_it_is_wanted() {
    let test = "what_ran_before_is_told_as_far_as_it_is_wanted";
    if !have(test, "perf") || !crate::oracle::may_record_all(test) {
        return;
    }
    let records = |synth| {
        let count = counted(&["-a", "-e", "dummy", "--synth", synth]);
        (count("COMM"), count("MMAP2"))
    };
    let (no, task) = (records("no"), records("task"));
    let (mmap, all) = (records("mmap"), records("all"));
    // Of the command and its exec there are some anyway.
    assert!(task.0 > no.0 + 3 && task.1 < no.1 + 20, "{no:?} {task:?}");
    assert!(mmap.0 > no.0 + 3 && mmap.1 > no.1 + 20, "{no:?} {mmap:?}");
    assert!(all.0 > no.0 + 3 && all.1 > no.1 + 20, "{no:?} {all:?}");
    let unwound = prof(&["record", "-a", "-g", "--synth=task", "true"]);
    assert_eq!(unwound.code, 2);
    assert!(
        unwound.stderr.contains("--call-graph fp"),
        "{}",
        unwound.stderr
    );
}

#[test]
fn without_samples_tasks_mappings_and_counts_are_recorded() {
    let test = "without_samples_tasks_mappings_and_counts_are_recorded";
    if !have(test, "perf") {
        return;
    }
    for options in [&["-n"][..], &["-n", "-g"], &["-n", "-e", "page-faults:u"]] {
        let count = counted(options);
        assert_eq!(count("SAMPLE"), 0, "{options:?}");
        assert!(count("COMM") > 0 && count("MMAP2") > 0, "{options:?}");
    }
    let with_children = [
        "-n",
        "-s",
        "-e",
        "page-faults:u",
        "sh",
        "-c",
        ":; /bin/true; :",
    ];
    let count = counted(&with_children);
    assert!(count("READ") > 0 && count("SAMPLE") == 0);
    let sampled = counted(&["-n", "-e", "page-faults/period=1/u"]);
    assert!(
        sampled("SAMPLE") > 0,
        "a rate of its own counts, as in perf"
    );
    let run = prof(&["record", "-n", "-o", "/dev/null", "true"]).succeeded("record");
    assert!(
        run.stderr.contains("no samples, as asked (-n)"),
        "{}",
        run.stderr
    );
}

/// The recording ends with the command, not with what it started: as perf's, which
/// says nothing of it.
#[test]
fn what_a_command_leaves_behind_is_told() {
    let test = "what_a_command_leaves_behind_is_told";
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("perf.data");
    let record = |script: &str| {
        let mut command = prof_command();
        command.args(["record", "-e", "cpu-clock", "-o"]).arg(&file);
        let output = command.args(["--", "sh", "-c", script]).output();
        Finished::from(output.expect("prof starts"))
    };
    let ended = record("sleep 100 </dev/null >/dev/null 2>&1 & echo $!");
    if ended.stderr.contains("EACCES") {
        return skipped(test, &ended.stderr);
    }
    let pid: u32 = ended.text().trim().parse().expect("a pid");
    prof_sys::signal::send(pid, libc::SIGKILL).expect("it runs");
    let told = format!(
        " (pid {pid}), which it started, still runs and is recorded no longer\n  \
         try: prof record -p {pid}"
    );
    assert!(ended.stderr.contains(&told), "{}", ended.stderr);
    let ended = record("sleep 0.01 & sleep 0.01; wait");
    assert!(!ended.stderr.contains("still run"), "{}", ended.stderr);
}

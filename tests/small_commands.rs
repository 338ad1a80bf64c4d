//! `prof evlist`, `prof buildid-list`, `prof inject`, against both perfs.

use crate::oracle::{Finished, corpus, have, may_record_all, perf, perf_at, perfs, prof, skipped};
use std::path::{Path, PathBuf};

/// The recordings of the corpus that are whole.
fn recordings(test: &str) -> Vec<PathBuf> {
    let Some(corpus) = corpus(test) else {
        return Vec::new();
    };
    let folders = [
        "autofdo",
        "hotspot",
        "linux-perf-data",
        "local",
        "perfparser",
        "simpleperf",
    ];
    let mut found = Vec::new();
    for folder in folders {
        let entries = std::fs::read_dir(corpus.join(folder))
            .into_iter()
            .flatten()
            .flatten();
        found.extend(entries.map(|entry| entry.path()));
    }
    found.retain(|path| path.is_file());
    found.sort();
    found
}

/// Lines of a list, without tips and what perf 7.2 explains in brackets.
fn listed(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let plain = lines.map(|line| {
        let mut text = line.to_owned();
        while let Some(begin) = text.find(" (PERF_") {
            let end = text[begin..]
                .find(')')
                .map_or(text.len(), |end| begin + end + 1);
            text.replace_range(begin..end, "");
        }
        text
    });
    plain.collect()
}

/// What is the same for perfs of which one knows more.
fn is_unreadable(run: &Finished) -> bool {
    run.code != 0 || run.stdout.is_empty()
}

#[test]
fn events_are_listed_as_both_perfs_list_them() {
    let test = "events_are_listed_as_both_perfs_list_them";
    if !have(test, "perf") {
        return;
    }
    let mut compared = 0;
    let mut different = Vec::new();
    for path in recordings(test) {
        let name = path.to_str().expect("a plain name");
        for options in [&[][..], &["-F"], &["-g"], &["-v"], &["--trace-fields"]] {
            let args = [&["evlist", "-f", "-i", name], options].concat();
            let theirs: Vec<Finished> = perfs(test)
                .iter()
                .map(|perf| perf_at(perf, &args))
                .collect();
            // perf does not turn the registers of the other byte order.
            let is_turned = name.contains("bigendian") && options == ["-v"];
            if theirs.iter().any(is_unreadable) || is_turned {
                continue;
            }
            let ours = listed(&prof(&args).text());
            // Where the perfs differ, either is right.
            let is_like = |run: &Finished| alike(&ours, &listed(&run.text()));
            if !theirs.iter().any(is_like) {
                different.push(format!(
                    "{name} {options:?}: {ours:?} {:?}",
                    listed(&theirs[0].text())
                ));
            }
            compared += 1;
        }
    }
    assert!(
        different.is_empty(),
        "{} of {compared}:\n{}",
        different.len(),
        different.join("\n")
    );
    if compared == 0 {
        skipped(test, "no recording was compared");
    }
}

/// Equal, but for names: prof has those that were recorded also where perf
/// does not look (streams, simpleperf) and makes its own of the attr.
fn alike(ours: &[String], theirs: &[String]) -> bool {
    fn apart(line: &str) -> (&str, &str) {
        line.split_once(": ").unwrap_or((line, ""))
    }
    let base = |name: &str| {
        name.split(':')
            .next()
            .unwrap_or_default()
            .replace("cpu-cycles", "cycles")
    };
    let is_same = |(ours, theirs): (&String, &String)| {
        let ((our_name, ours), (their_name, theirs)) = (apart(ours), apart(theirs));
        let unnamed = their_name.starts_with("unknown") || their_name.starts_with("raw ");
        ours == theirs && (unnamed || base(our_name) == base(their_name))
    };
    ours.len() == theirs.len() && ours.iter().zip(theirs).all(is_same)
}

/// Lines in an order of their own: the perfs have each another.
fn sorted(text: &str) -> Vec<String> {
    let mut lines: Vec<_> = text
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect();
    lines.sort();
    lines
}

#[test]
fn build_ids_are_listed_as_perf_lists_them() {
    let test = "build_ids_are_listed_as_perf_lists_them";
    if !have(test, "perf") {
        return;
    }
    let (mut compared, mut different) = (0, Vec::new());
    for path in recordings(test) {
        let name = path.to_str().expect("a plain name");
        let args = ["buildid-list", "-f", "-i", name];
        let all: Vec<Finished> = perfs(test)
            .iter()
            .map(|perf| perf_at(perf, &args))
            .collect();
        let header = prof(&["dump", "--header", "-f", "-i", name]).text();
        // perf lists the copy that it made of the vdso as another file.
        let has_copy = all.iter().any(|run| run.text().contains("perf-vdso.so"));
        if has_copy || !header.contains("BUILD_ID") || all.iter().any(is_unreadable) {
            continue;
        }
        let ours = sorted(&prof(&args).text());
        if !all.iter().any(|theirs| sorted(&theirs.text()) == ours) {
            different.push(format!("{name}: {ours:?} {:?}", sorted(&all[0].text())));
        }
        compared += 1;
    }
    assert!(
        different.is_empty(),
        "{} of {compared}:\n{}",
        different.len(),
        different.join("\n")
    );
    let own = ["buildid-list", "-i", "/bin/ls"];
    assert_eq!(prof(&own).stdout, perf(&own).stdout);
    if may_record_all(test) {
        let kernel = ["buildid-list", "-k"];
        assert_eq!(prof(&kernel).stdout, perf(&kernel).stdout);
    }
}

struct Made {
    _folder: tempfile::TempDir,
    from: String,
    to: String,
}

/// A recording by perf, and a name for another.
fn recorded(options: &[&str]) -> Option<Made> {
    let folder = tempfile::tempdir().expect("a folder");
    let name = |file: &str| {
        folder
            .path()
            .join(file)
            .to_str()
            .expect("a plain name")
            .to_owned()
    };
    let (from, to) = (name("from.data"), name("to.data"));
    let args = [&["record", "-o", &from], options].concat();
    // perf 6.1 cannot read a recording of its own beside which another test's recorder had
    // the kernel send build-ids, which it did not ask for.
    let is_read = || {
        let shown = perf(&["script", "-F", "comm", "-i", &from]);
        !shown.stderr.contains("build-id.c")
    };
    let is_made = (0..5).find_map(|_| {
        let run = perf(&args);
        match run.code {
            0 => is_read().then_some(true),
            _ if run.stderr.contains("build-id.c") => None,
            _ => Some(false),
        }
    });
    let is_made = is_made.expect("perf reads its own recording in one of five tries");
    (is_made && Path::new(&from).exists()).then_some(Made {
        _folder: folder,
        from,
        to,
    })
}

const WORK: &str = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";

#[test]
fn build_ids_are_put_in_and_nothing_else_changes() {
    let test = "build_ids_are_put_in_and_nothing_else_changes";
    if !have(test, "perf") {
        return;
    }
    let options = ["-B", "-N", "-e", "cpu-clock:u", "sh", "-c", WORK];
    let Some(made) = recorded(&options) else {
        return skipped(test, "perf cannot record here");
    };
    let before = perf(&["script", "-i", &made.from]);
    let before = before.succeeded("perf script").text();
    let run = prof(&["inject", "-b", "-i", &made.from, "-o", &made.to]);
    run.succeeded("prof inject -b");
    for perf in perfs(test) {
        let after = perf_at(&perf, &["script", "-i", &made.to]);
        assert_eq!(after.text().lines().count(), before.lines().count());
        let ids = perf_at(&perf, &["buildid-list", "-i", &made.to]).text();
        assert!(ids.contains("/"), "{}: {ids}", perf.display());
    }
    assert_eq!(perf(&["script", "-i", &made.to]).text(), before);
    let samples = |file: &str| prof(&["script", "-i", file]).text();
    assert_eq!(samples(&made.from), samples(&made.to));
    // Into a stream, which perf reads.
    let piped = prof(&["inject", "-b", "-i", &made.from]);
    assert!(piped.stdout.starts_with(b"PERFILE2"), "{}", piped.stderr);
    std::fs::write(&made.to, &piped.stdout).expect("written");
    let script = format!("perf script -i - < {}", made.to);
    let read = std::process::Command::new("sh")
        .args(["-c", &script])
        .output();
    let read = Finished::from(read.expect("sh starts"));
    assert_eq!(
        read.text().lines().count(),
        before.lines().count(),
        "{}",
        read.stderr
    );
}

/// A stream of perf's, which has two events (that of tasks is one of its own).
fn stream(test: &str, options: &[&str]) -> Option<Vec<u8>> {
    let all = [
        &["record", "-q", "-a", "-o", "-"],
        options,
        &["sleep", "0.2"],
    ]
    .concat();
    let made = perf(&all);
    if made.code != 0 || made.stdout.is_empty() {
        skipped(test, "perf cannot record a stream of all that runs here");
        return None;
    }
    Some(made.stdout)
}

#[test]
fn streams_keep_their_events_formats_and_headers() {
    let test = "streams_keep_their_events_formats_and_headers";
    if !have(test, "perf") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let [from, file, again] = ["from", "file", "again"].map(path);
    let mut events = vec!["cpu-clock"];
    if Path::new("/sys/kernel/tracing/events/sched").exists() {
        events.push("sched:sched_switch");
    }
    for event in events {
        let Some(bytes) = stream(test, &["-e", event]) else {
            return;
        };
        std::fs::write(&from, bytes).expect("written");
        // Without names: those of code of other tests' programs come from files that change.
        let trace = if event.contains(':') { ",trace" } else { "" };
        let fields = format!("comm,tid,cpu,time,period,event,ip{trace}");
        let theirs = |file: &str| {
            let script = perf(&["script", "-F", &fields, "-i", file]);
            script.succeeded("perf script").text()
        };
        let expected = theirs(&from);
        assert!(expected.lines().count() > 3, "{expected}");
        prof(&["inject", "-b", "-i", &from, "-o", &file]).succeeded("prof inject -b");
        let piped = prof(&["inject", "-b", "-i", &from, "-o", "-"]);
        std::fs::write(&again, piped.stdout).expect("written");
        for made in [&file, &again] {
            assert_eq!(theirs(made), expected, "{event}");
        }
        let header = prof(&["report", "--header-only", "-i", &file]).text();
        assert!(
            header.contains("# hostname : ") && header.contains("# cmdline : "),
            "{header}"
        );
        // Names go into what is no finished file, too.
        let packed = path("packed.zst");
        prof(&["archive", "-i", &from, "-o", &packed]).succeeded("prof archive");
        let script = |file: &str| {
            prof(&["script", "-i", file])
                .succeeded("prof script")
                .text()
        };
        assert_eq!(script(&packed), script(&from), "{event}");
        let refused = prof(&["archive", "--in-place", "-i", &from]);
        assert_eq!(refused.code, 1);
        assert!(
            refused.stderr.contains("prof archive -i"),
            "{}",
            refused.stderr
        );
    }
}

#[test]
fn streams_of_prof_keep_all_events() {
    let test = "streams_of_prof_keep_all_events";
    if !have(test, "perf") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("UTF-8").to_owned();
    let from = path("from");
    let run = ["-e", "cpu-clock,page-faults", "--", "sh", "-c", WORK];
    let run = prof(&[&["record", "-q", "-F", "999", "-o", "-"][..], &run].concat());
    if run.code != 0 || run.stdout.is_empty() {
        return skipped(test, "prof cannot record here");
    }
    std::fs::write(&from, run.stdout).expect("written");
    let script = |file: &str| {
        let lines = perf(&["script", "-F", "comm,tid,time,event,ip", "-i", file]);
        let lines = lines.succeeded("perf script").text();
        let mut lines: Vec<_> = lines.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        lines
    };
    let expected = script(&from);
    for event in ["cpu-clock", "page-faults"] {
        assert!(expected.iter().any(|line| line.contains(event)), "{event}");
    }
    for command in [&["inject", "-b"][..], &["archive"]] {
        let made = path(command[0]);
        prof(&[command, &["-i", &from, "-o", &made]].concat()).succeeded(command[0]);
        let events = prof(&["script", "-F", "event", "-i", &made]).text();
        for event in ["cpu-clock", "page-faults"] {
            let count = |line: &&str| line.contains(event);
            let theirs = expected.iter().map(String::as_str).filter(count).count();
            assert_eq!(events.lines().filter(count).count(), theirs, "{command:?}");
        }
        if command[0] == "inject" {
            assert_eq!(script(&made), expected);
        }
    }
    // What of it is not whole is not in the copy, which is said.
    let bytes = std::fs::read(&from).expect("read");
    std::fs::write(&from, &bytes[..bytes.len() - 10]).expect("written");
    for command in [&["inject", "-b"][..], &["archive"]] {
        let made = path("cut");
        let run = prof(&[command, &["-i", &from, "-o", &made]].concat());
        assert_eq!(run.code, 3, "{}", run.stderr);
        assert!(run.stderr.contains("damaged"), "{}", run.stderr);
    }
}

#[test]
fn stacks_become_chains_that_every_perf_shows() {
    let test = "stacks_become_chains_that_every_perf_shows";
    if !have(test, "perf") {
        return;
    }
    let options = [
        "--call-graph",
        "dwarf",
        "-e",
        "cpu-clock:u",
        "sh",
        "-c",
        WORK,
    ];
    let Some(made) = recorded(&options) else {
        return skipped(test, "perf cannot record here");
    };
    let run = prof(&[
        "inject",
        "--convert-callchain",
        "-i",
        &made.from,
        "-o",
        &made.to,
    ]);
    run.succeeded("prof inject --convert-callchain");
    let attrs = perf(&["evlist", "-v", "-i", &made.to]).text();
    assert!(attrs.contains("CALLCHAIN"), "{attrs}");
    assert!(!attrs.contains("STACK_USER"), "{attrs}");
    let frames = |file: &str| {
        let args = ["script", "-F", "sym", "--no-inline", "-i", file];
        prof(&args).text()
    };
    // What is unwound when it is read and what was converted are the same.
    assert_eq!(frames(&made.from), frames(&made.to));
    let size = |file: &str| std::fs::metadata(file).expect("there").len();
    assert!(size(&made.to) < size(&made.from) / 4);
    for perf in perfs(test) {
        let shown = perf_at(&perf, &["script", "-F", "ip,sym", "-i", &made.to]).text();
        assert!(
            shown.contains("main") || shown.contains("_start"),
            "{shown:.300}"
        );
    }
    let again = prof(&["inject", "--convert-callchain", "-i", &made.to]);
    assert_eq!(again.code, 1);
    assert!(
        again.stderr.contains("--call-graph dwarf"),
        "{}",
        again.stderr
    );
}

#[test]
fn sleeps_are_merged_as_perf_merges_them() {
    let test = "sleeps_are_merged_as_perf_merges_them";
    if !have(test, "perf") || !may_record_all(test) {
        return;
    }
    let script = "for i in 1 2 3 4 5; do sleep 0.002; done";
    let events = "sched:sched_stat_runtime,sched:sched_switch,sched:sched_process_exit";
    let Some(made) = recorded(&["-e", events, "sh", "-c", script]) else {
        return skipped(test, "perf cannot record these tracepoints");
    };
    prof(&["inject", "-s", "-i", &made.from, "-o", &made.to]).succeeded("prof inject -s");
    let theirs = format!("{}.perf", made.to);
    perf(&["inject", "-s", "-i", &made.from, "-o", &theirs]).succeeded("perf inject -s");
    let shown = |file: &str| {
        let fields = ["script", "-F", "comm,tid,time,period,event", "-i", file];
        perf(&fields).text()
    };
    let ours = shown(&made.to);
    assert_eq!(ours, shown(&theirs));
    assert!(ours.contains("sched_switch"), "{ours}");
    assert!(!ours.contains("sched_stat"), "{ours}");
}

#[test]
fn what_cannot_be_put_in_is_refused_and_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let to = folder.path().join("to.data");
    let name = to.to_str().expect("a plain name");
    let nothing = prof(&["inject", "-i", "/dev/null", "-o", name]);
    assert_eq!(nothing.code, 2, "{}", nothing.stderr);
    assert!(
        nothing.stderr.contains("--convert-callchain"),
        "{}",
        nothing.stderr
    );
    for (args, words) in [
        (&["mem", "record"][..], "--mem-mode"),
        (&["c2c", "report"], "--mem-mode"),
        (&["top"], "prof record -a -g"),
        (&["lock", "report"], "prof report --locks"),
        (&["inject", "--itrace"], "perf inject"),
        (&["evlist", "-g", "-v"], "without -g"),
    ] {
        let refused = prof(args);
        assert_eq!(refused.code, 2, "{args:?}: {}", refused.stderr);
        assert!(
            refused.stderr.contains(words),
            "{args:?}: {}",
            refused.stderr
        );
    }
    let Some(corpus) = corpus("what_cannot_be_put_in_is_refused_and_leaves_nothing") else {
        return;
    };
    let stackless = corpus.join("local/perf6.1-group.data");
    let from = stackless.to_str().expect("a plain name");
    let refused = prof(&[
        "inject",
        "-f",
        "--convert-callchain",
        "-i",
        from,
        "-o",
        name,
    ]);
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    assert_eq!(std::fs::read_dir(folder.path()).expect("ours").count(), 0);
    std::fs::copy(&stackless, &to).expect("copied");
    let same = prof(&["inject", "-b", "-i", name, "-o", name]);
    assert_eq!(same.code, 2, "{}", same.stderr);
    assert_eq!(
        std::fs::read(&to).expect("there"),
        std::fs::read(&stackless).expect("there")
    );
}

#[test]
fn a_device_or_a_link_is_not_replaced_by_a_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let link = folder.path().join("stdout");
    let name = link.to_str().expect("a plain name");
    std::os::unix::fs::symlink("/proc/self/fd/1", &link).expect("a link");
    let from = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/fixtures/recordings/local/perf6.1-cgroup.data"
    );
    for args in [
        &["archive"][..],
        &["archive", "--redact"],
        &["inject", "-b"],
    ] {
        let options = ["-f", "-i", from, "-o", name];
        let refused = prof(&[args, &options].concat());
        assert_eq!(refused.code, 2, "{args:?}: {}", refused.stderr);
        assert!(
            refused.stderr.contains("no regular file"),
            "{args:?}: {}",
            refused.stderr
        );
        assert!(link.is_symlink(), "{args:?}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).expect("ours").count(), 1);
}

#[test]
fn an_archive_goes_to_standard_output_and_to_no_terminal() {
    let from = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/fixtures/recordings/local/perf6.1-cgroup.data"
    );
    let folder = tempfile::tempdir().expect("a folder");
    let archive = folder.path().join("file.zst");
    let name = archive.to_str().expect("a plain name");
    prof(&["archive", "-f", "-i", from, "-o", name]).succeeded("archive -o FILE");
    let piped = prof(&["archive", "-f", "-i", from, "-o", "-"]).succeeded("archive -o -");
    assert_eq!(piped.stdout, std::fs::read(&archive).expect("there"));
    assert!(!std::path::Path::new("-").exists());
    for args in [&["archive", "-o", "-"][..], &["inject", "-b"]] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_prof"));
        command.args(args).args(["-f", "-i", from]);
        let (text, status) = crate::tui::terminal::written_at_end(command, 80);
        assert_eq!(status.code(), Some(2), "{args:?}: {text}");
        assert!(text.contains("is a terminal"), "{args:?}: {text}");
    }
}

#[test]
fn a_recording_that_is_not_there_is_named_once_by_push() {
    let folder = tempfile::tempdir().expect("a folder");
    let spool = folder.path().to_str().expect("a plain name");
    let url = "http://127.0.0.1:9/ingest";
    let refused = prof(&["push", "nosuch", "--url", url, "--spool", spool]);
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    assert_eq!(refused.stderr.matches("nosuch").count(), 1);
}

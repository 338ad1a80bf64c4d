//! `prof record --off-cpu`: when threads do not run, and where.
//!
//! The programs measure their own waits (`fixtures/programs/waits.c`); what was
//! recorded is compared with that, as stock perf reads it and as `prof` does.

mod plain_user;
mod truth;

use crate::oracle::{
    compiled, excerpt, have, may_record_all, perf_at, perfs, prof_command, scratch,
};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use truth::{FIELDS, Shown, differences, recorded, script, shown, shown_of, undisturbed};

#[test]
fn waits_are_as_long_as_the_program_measured_and_stand_where_it_waited() {
    const NAME: &str = "waits-all";
    if !may_record_all(NAME) || !have(NAME, "perf") {
        return;
    }
    let perfs = perfs(NAME).into_iter().chain(["perf".into()]);
    let perfs: BTreeSet<PathBuf> = perfs.collect();
    // No wait stands for others by chance.
    let all = ["--off-cpu=only", "--off-cpu-stacks", "all"];
    undisturbed(|| {
        let (file, truth) = recorded(NAME, &all, &["all"])?;
        let ours = prof_command().args(FIELDS).arg(&file).output();
        let ours = shown(&String::from_utf8_lossy(&ours.expect("prof starts").stdout));
        let theirs = perfs.iter().map(|perf| shown(&script(perf, &file)));
        let all = theirs.chain([ours]);
        Some(all.flat_map(|waits| differences(&truth, &waits)).collect())
    });
}

#[test]
fn threads_that_share_cpus_wait_for_them() {
    const NAME: &str = "waits-pool";
    if !may_record_all(NAME) {
        return;
    }
    // More than CPUs, beside samples of what runs.
    let options = ["--off-cpu", "-F", "99"];
    undisturbed(|| {
        let (file, truth) = recorded(NAME, &options, &["pool", "6", "60"])?;
        let ours = prof_command().args(FIELDS).arg(&file).output();
        let waits = shown(&String::from_utf8_lossy(&ours.expect("prof starts").stdout));
        let at_work = |wait: &&Shown| wait.stack.iter().any(|name| name == "contend");
        assert!(waits.iter().filter(at_work).count() > 6);
        Some(differences(&truth, &waits))
    });
}

/// How long a thread was off its CPU by the switch records in a file, ns; `None` if it
/// was when the recording began.
fn off_by_switches(file: &Path, tid: i32) -> Option<u64> {
    let fields = ["script", "-f", "--show-switch-events", "--ns", "-F"];
    let mut arguments: Vec<&std::ffi::OsStr> = fields.iter().map(|it| it.as_ref()).collect();
    arguments.extend(["tid,time,event,period", "-i"].map(std::ffi::OsStr::new));
    arguments.push(file.as_os_str());
    let text = perf_at(Path::new("perf"), &arguments).text();
    let (mut left, mut sum, mut is_first) = (None, 0, true);
    for line in text.lines().filter(|line| line.contains("RECORD_SWITCH")) {
        let mut words = line.split_whitespace();
        if words.next().and_then(|word| word.parse().ok()) != Some(tid) {
            continue;
        }
        let time = words.next().expect("a time").trim_end_matches(':');
        let time: u64 = time
            .replace('.', "")
            .parse()
            .expect("seconds with nine places");
        match (line.contains(" OUT"), left.take()) {
            (true, _) => left = Some(time),
            (false, Some(since)) => sum += time - since,
            (false, None) if is_first => return None,
            (false, None) => {}
        }
        is_first = false;
    }
    Some(sum)
}

/// The time of waits at a place of the program, ns.
fn at_site(waits: &[Shown], name: &str) -> u64 {
    let is_there = |wait: &&Shown| wait.stack.iter().any(|at| at == name);
    waits.iter().filter(is_there).map(|wait| wait.ns).sum()
}

#[test]
fn stacks_of_short_waits_that_are_chosen_stand_for_the_others() {
    const NAME: &str = "waits-chosen";
    if !may_record_all(NAME) || !have(NAME, "perf") {
        return;
    }
    // Every third at the second place, and longer; of some thousand a second
    // three hundred stacks stay.
    let arguments = ["turns", "9000", "3", "20", "120"];
    let few = [
        "--off-cpu=only",
        "--off-cpu-stacks",
        "300",
        "--switch-events",
    ];
    undisturbed(|| {
        let (file, truth) = recorded(NAME, &few, &arguments)?;
        let ours = prof_command().args(FIELDS).arg(&file).output();
        let ours = shown(&String::from_utf8_lossy(&ours.expect("prof starts").stdout));
        let theirs = shown(&script(Path::new("perf"), &file));
        let mut faults = Vec::new();
        let with_stack = ours.iter().filter(|wait| wait.stack.len() > 1).count();
        if with_stack * 3 > ours.len() || ours.len() < 6000 {
            faults.push(format!("{with_stack} stacks of {}", ours.len()));
        }
        for ((name, tid), told) in &truth.sites {
            let seen = at_site(&ours, name);
            assert_eq!(seen, at_site(&theirs, name), "{name} {tid}");
            // Hundreds of each were chosen: this is five deviations and more.
            if told.abs_diff(seen) > told / 2 {
                faults.push(format!("{name} told {told}, seen {seen}"));
            }
        }
        for &tid in truth.lives.keys() {
            let of_thread = ours.iter().filter(|wait| wait.tid == tid);
            let seen: u64 = of_thread.map(|wait| wait.ns).sum();
            // A nanosecond for each that stands for others.
            let told = off_by_switches(&file, tid);
            if told.is_none_or(|told| told.abs_diff(seen) > 20_000) {
                faults.push(format!("{tid}: {told:?}, seen {seen}"));
            }
        }
        Some(faults)
    });
}

/// Records a shell that starts 150 programs, with few stacks of short waits; the share
/// of the time waited that has no stack, %.
fn without_stack_in_a_shell() -> f64 {
    let file = scratch().join("waits-brief.data");
    let script = "for i in $(seq 150); do /bin/ls / > /dev/null; done";
    let few = ["record", "--off-cpu", "--off-cpu-stacks", "500", "-o"];
    let mut record = prof_command();
    record.args(few).arg(&file).args(["--", "sh", "-c", script]);
    assert!(record.output().expect("prof starts").status.success());
    let report = ["report", "-f", "--stdio", "-i"];
    let output = prof_command().args(report).arg(&file).output();
    let text = String::from_utf8_lossy(&output.expect("prof starts").stdout).into_owned();
    // Some were not taken.
    assert!(text.contains("others stand for it"), "{text}");
    // Of a program that exec was about to replace nothing is left to be read.
    let of_gone = text.contains("had changed when it was read ([unknown]");
    assert!(!of_gone, "{}", excerpt(&text));
    let mut lines = text.lines();
    let line = lines.find(|line| line.contains("a wait has no stack"));
    let shares = shares(line.unwrap_or_default());
    let (missing, causes) = shares.split_first().unwrap_or((&0.0, &[]));
    let told: f64 = causes.iter().sum();
    // Each is rounded, and left out if it is none so.
    assert!((missing - told).abs() < 0.5, "{line:?}");
    *missing
}

#[test]
fn programs_that_live_for_a_moment_have_stacks_where_they_wait() {
    if !may_record_all("waits-brief") {
        return;
    }
    // 0.1 % with nothing beside, up to 2.2 % beside ten busy loops: what the last of the
    // chosen waits do not make up for. Before short-lived threads were weighed together and
    // long waits that could not be read were, it was up to 19 there.
    let mut tries = Vec::new();
    while tries.len() < 3 && tries.last().is_none_or(|&share| share >= 4.0) {
        tries.push(without_stack_in_a_shell());
    }
    assert!(
        tries.last().is_some_and(|&share| share < 4.0),
        "{tries:?} %"
    );
}

/// The percentages in a line.
fn shares(line: &str) -> Vec<f64> {
    let parts = line
        .split(" %")
        .filter_map(|part| part.rsplit([' ', '(']).next());
    parts.filter_map(|number| number.parse().ok()).collect()
}

#[test]
fn long_waits_have_their_stacks_while_short_ones_are_chosen() {
    const NAME: &str = "waits-long";
    if !may_record_all(NAME) {
        return;
    }
    let arguments = ["turns", "6000", "300", "20", "50000"];
    let few = ["--off-cpu=only", "--off-cpu-stacks", "100"];
    undisturbed(|| {
        let (file, truth) = recorded(NAME, &few, &arguments)?;
        let ours = prof_command().args(FIELDS).arg(&file).output();
        let ours = shown(&String::from_utf8_lossy(&ours.expect("prof starts").stdout));
        let mut faults = Vec::new();
        for ((name, _), told) in &truth.sites {
            let seen = at_site(&ours, name);
            // Twenty long ones are no matter of chance; a busy machine may come too
            // late for one or two.
            if name == "wait_seldom" && told.abs_diff(seen) > told / 8 {
                faults.push(format!("{name} told {told}, seen {seen}"));
            }
        }
        Some(faults)
    });
}

#[test]
fn all_stacks_of_short_waits_are_taken_if_that_is_asked_for() {
    const NAME: &str = "waits-unthinned";
    if !may_record_all(NAME) {
        return;
    }
    let all = ["--off-cpu=only", "--off-cpu-stacks", "all"];
    let arguments = ["turns", "4000", "2", "20", "20"];
    let Some((file, _)) = recorded(NAME, &all, &arguments) else {
        return;
    };
    let ours = prof_command().args(FIELDS).arg(&file).output();
    let ours = shown(&String::from_utf8_lossy(&ours.expect("prof starts").stdout));
    let without = ours.iter().filter(|wait| wait.stack.len() < 2).count();
    // A sleep that is over before it began is no wait.
    assert!(ours.len() > 3000, "{}", ours.len());
    assert!(without <= 5, "{without} of {}", ours.len());
}

#[test]
fn a_thread_that_sleeps_all_the_time_has_its_stack() {
    const NAME: &str = "waits-asleep";
    let Some(program) = compiled(NAME, "waits.c", &["-O2", "-g", "-pthread"]) else {
        return;
    };
    let mut sleeper = Command::new(program)
        .args(["short", "1", "20000000"])
        .spawn()
        .expect("it starts");
    std::thread::sleep(std::time::Duration::from_millis(200));
    let file = scratch().join("waits-asleep.data");
    let status = prof_command()
        .args(["record", "--off-cpu=only", "--duration", "2", "-o"])
        .arg(&file)
        .args(["-p", &sleeper.id().to_string()])
        .status();
    sleeper.kill().expect("it is ours");
    sleeper.wait().expect("it is ours");
    assert!(status.expect("prof starts").success());
    let waits = shown_of(&file);
    assert_eq!(waits.len(), 1, "{}", excerpt(&waits));
    assert!(waits[0].ns > 450_000_000, "{}", excerpt(&waits));
    assert!(
        waits[0].stack.iter().any(|name| name == "wait_short"),
        "{}",
        excerpt(&waits)
    );
}

#[test]
fn what_slept_before_all_is_recorded_has_its_stack_once_it_runs() {
    const NAME: &str = "waits-everybody";
    if !may_record_all(NAME) {
        return;
    }
    let Some(program) = compiled(NAME, "waits.c", &["-O2", "-g", "-pthread"]) else {
        return;
    };
    let starts = |arguments: [&str; 3]| {
        let started = Command::new(&program).args(arguments).spawn();
        started.expect("it starts")
    };
    let mut sleeper = starts(["short", "1000", "1500000"]);
    let mut idle = starts(["short", "1", "1000000000"]);
    // Both sleep when the recording begins.
    std::thread::sleep(std::time::Duration::from_millis(200));
    let file = scratch().join("waits-everybody.data");
    let status = prof_command()
        .args(["record", "-a", "--off-cpu=only", "--duration", "4", "-o"])
        .arg(&file)
        .status();
    for program in [&mut sleeper, &mut idle] {
        program.kill().expect("it is ours");
        program.wait().expect("it is ours");
    }
    assert!(status.expect("prof starts").success());
    let waits = shown_of(&file);
    let of_it = |wait: &&Shown| wait.tid == sleeper.id() as i32 && wait.ns > 50_000_000;
    let of_it: Vec<&Shown> = waits.iter().filter(of_it).collect();
    assert!(of_it.len() >= 2, "{}", excerpt(&of_it));
    let has_place = |wait: &&Shown| wait.stack.iter().any(|name| name == "wait_short");
    assert!(of_it.iter().all(has_place), "{}", excerpt(&of_it));
    // Who only slept is not among them.
    let only_slept = |wait: &Shown| wait.tid == idle.id() as i32;
    assert!(!waits.iter().any(only_slept), "{}", excerpt(&waits));
}

#[test]
fn views_show_the_clock_that_is_asked_for() {
    const NAME: &str = "waits-clocks";
    if !may_record_all(NAME) {
        return;
    }
    let options = ["--off-cpu", "-F", "499"];
    let Some((file, truth)) = recorded(NAME, &options, &["pool", "3", "100"]) else {
        return;
    };
    let total = |clock: &str| -> (usize, u64) {
        let shown = prof_command()
            .args(["report", "--json", "--clock", clock, "-i"])
            .arg(&file)
            .output()
            .expect("prof starts");
        let json: serde_json::Value = serde_json::from_slice(&shown.stdout).expect("JSON");
        let events = json["events"].as_array().expect("events");
        let period = events[0]["period"].as_u64().expect("a period");
        (events.len(), period)
    };
    let (cpu, off, wall) = (total("cpu"), total("off"), total("wall"));
    assert_eq!((cpu.0, off.0, wall.0), (1, 1, 1));
    assert_eq!(wall.1, cpu.1 + off.1);
    let lived: u64 = truth.lives.values().map(|life| life.0).sum();
    // Sampled CPU time is exact to some samples a thread.
    assert!(wall.1.abs_diff(lived) < lived / 10, "{lived} {wall:?}");
}

/// ns in front of the instructions of a listing with `--show-total-period`.
fn on_instructions(listing: &str) -> Vec<u64> {
    let figures = listing.lines().filter_map(|line| {
        let (figure, rest) = line.split_once(" :   ")?;
        let (address, _) = rest.split_once(':')?;
        u64::from_str_radix(address, 16).ok()?;
        figure.trim().parse().ok()
    });
    figures.collect()
}

#[test]
fn lines_have_the_time_that_is_waited_in_what_they_call() {
    const NAME: &str = "waits-lines";
    if !may_record_all(NAME) {
        return;
    }
    let Some((file, _)) = recorded(NAME, &["--off-cpu"], &["all"]) else {
        return;
    };
    let file = file.to_str().expect("UTF-8");
    let ours = |arguments: &[&str]| {
        let arguments = [arguments, &["-f", "-i", file]].concat();
        let output = prof_command().args(arguments).output();
        let output = output.expect("prof starts");
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    for clock in ["off", "wall"] {
        let of_clock = ["--clock", clock, "--stdio"];
        let listing = ["annotate", "wait_sleep", "--show-total-period"];
        let listing = ours(&[&listing[..], &of_clock].concat());
        let figures = on_instructions(&listing);
        // It calls one function, which sleeps.
        let call = figures.iter().copied().max().unwrap_or(0);
        let json = ours(&["report", "--json", "-s", "sym", "--clock", clock]);
        let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
        let rows = json["events"][0]["rows"].as_array().expect("rows");
        let row = rows.iter().find(|row| row["symbol"] == "wait_sleep");
        let total = row.and_then(|row| row["total"]["period"].as_u64());
        let total = total.expect("a total");
        assert!(total > 5_000_000);
        assert!(
            call <= total && total - call < total / 20,
            "{call} of {total}: {listing}"
        );
        assert!(listing.contains("with what is called there"), "{listing}");
        // All that waits is listed, not what the kernel does to wait.
        let all = ours(&[&["annotate", "--percent-limit", "1"][..], &of_clock].concat());
        assert!(all.contains("<wait_sleep>:"), "{}", excerpt(&all));
    }
    let listing = ours(&["annotate", "--clock", "cpu", "--stdio"]);
    assert!(!listing.contains("with what is called there"), "{listing}");
    let left_out = ["annotate", "--dsos", "none", "wait_sleep"];
    let mut command = prof_command();
    command.args(left_out).args(["-f", "-i", file]);
    let said = command.output().expect("prof starts").stderr;
    let said = String::from_utf8_lossy(&said);
    let wanted = "wait_sleep has no samples among those that are shown";
    assert!(said.contains(wanted), "{said}");
}

#[test]
fn tables_and_differential_pictures_tell_what_was_waited_for() {
    const NAME: &str = "waits-told";
    if !may_record_all(NAME) {
        return;
    }
    let options = ["--off-cpu", "-e", "cpu-clock,page-faults"];
    let Some((file, _)) = recorded(NAME, &options, &["pool", "4", "30"]) else {
        return;
    };
    let file = file.to_str().expect("UTF-8");
    let ours = |arguments: &[&str]| {
        let output = prof_command().args(arguments).output();
        let output = output.expect("prof starts");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let csv = ours(&["report", "-f", "-i", file, "--csv", "-s", "event,wait"]);
    let has = |event: &str, wait: &str| {
        let of = |line: &&str| line.contains(event) && line.contains(wait);
        csv.lines().any(|line| of(&line))
    };
    assert!(has("cpu-clock", "running"), "{}", excerpt(&csv));
    assert!(has("offcpu-time", "for a CPU: "), "{}", excerpt(&csv));
    assert!(has("page-faults", "no wait"), "{}", excerpt(&csv));
    assert!(!has("page-faults", "running"), "{}", excerpt(&csv));
    let diff = ["flamegraph", "--clock", "off", "--diff", file, file];
    let picture = ours(&diff);
    let is_state = |title: &str| title.starts_with("for a CPU: preempted (");
    let titles: Vec<&str> = picture.split("<title>").collect();
    let is_told = titles.iter().any(|title| is_state(title));
    assert!(is_told, "{}", excerpt(&titles));
    // The two ways to the page lead to the same one, states of waits in it.
    let folder = tempfile::tempdir().expect("a folder");
    let [one, other] = ["report.html", "graph.html"].map(|name| folder.path().join(name));
    let [path, to] = [&one, &other].map(|path| path.to_str().expect("UTF-8"));
    ours(&[
        "report", "-f", "--clock", "wall", "-i", file, "--html", path,
    ]);
    ours(&["flamegraph", "-f", "--clock", "wall", "-i", file, "-o", to]);
    let read = |path| std::fs::read(path).expect("a page");
    assert!(read(&one) == read(&other), "pages differ");
    let head = ours(&["report", "-f", "-i", file, "--stdio"]);
    let first = head.lines().next().unwrap_or_default();
    assert!(first.contains(" of cpu-clock: asked "), "{first}");
    let head = ours(&["report", "-f", "--clock", "wall", "-i", file, "--stdio"]);
    let first = head.lines().next().unwrap_or_default();
    assert!(!first.contains("Hz"), "{first}");
}

/// ns by function, of the rows of a table: `  1234  [.] function`. Lines of call
/// graphs are none.
fn sums(text: &str) -> BTreeMap<String, u64> {
    let mut sums = BTreeMap::new();
    for line in text.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        if let [period, sign, name] = fields[..]
            && let Ok(period) = period.parse::<u64>()
            && sign.starts_with('[')
        {
            *sums.entry(name.to_owned()).or_insert(0) += period;
        }
    }
    sums
}

#[test]
fn sums_by_function_are_the_same_ns_in_perf() {
    const NAME: &str = "waits-sums";
    if !may_record_all(NAME) || !have(NAME, "perf") {
        return;
    }
    let Some((file, _)) = recorded(NAME, &["--off-cpu=only"], &["all"]) else {
        return;
    };
    let file = file.to_str().expect("UTF-8");
    // By the function that left the CPU; and by the one of the program's from
    // which it did.
    let places = "^wait_(mutex|cond|pipe|socket|poll|epoll|sleep|child|fsync)$";
    let table = [
        "report",
        "-f",
        "-i",
        file,
        "--stdio",
        "--no-children",
        "-F",
        "period,sym",
    ];
    for options in [
        &["-g", "none"][..],
        &["-g", "caller", "--ignore-callees", places],
    ] {
        let arguments = [&table[..], options].concat();
        let ours = prof_command()
            .args(&arguments)
            .output()
            .expect("prof starts");
        let ours = sums(&String::from_utf8_lossy(&ours.stdout));
        assert!(
            ours.values().sum::<u64>() > 100_000_000,
            "{}",
            excerpt(&ours)
        );
        assert!(options.len() == 2 || ours.len() > 9, "{}", excerpt(&ours));
        let readers = perfs(NAME).into_iter().chain(["perf".into()]);
        for perf in readers.collect::<BTreeSet<PathBuf>>() {
            let finished = perf_at(&perf, &arguments);
            assert_eq!(finished.stderr, "", "{}", perf.display());
            let theirs = sums(&finished.text());
            let names: BTreeSet<&String> = ours.keys().chain(theirs.keys()).collect();
            let different = names
                .into_iter()
                .map(|name| (name, ours.get(name), theirs.get(name)));
            let different: Vec<_> = different.filter(|(_, one, other)| one != other).collect();
            assert!(
                different.is_empty(),
                "{}: {}",
                perf.display(),
                excerpt(&different)
            );
        }
    }
}

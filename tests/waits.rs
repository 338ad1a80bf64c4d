//! `prof record --off-cpu`: when threads do not run, and where.
//!
//! The programs measure their own waits (`fixtures/programs/waits.c`); what was
//! recorded is compared with that, as stock perf reads it and as `prof` does.

use crate::oracle::{
    compiled, excerpt, have, may_record_all, perf_at, perfs, prof_command, scratch,
};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// What a program told of itself.
#[derive(Debug, Default)]
struct Truth {
    /// By name of the place and thread: ns that it did not run there.
    sites: BTreeMap<(String, i32), u64>,
    /// By thread: ns that it lived, and ns that it ran.
    lives: BTreeMap<i32, (u64, u64)>,
}

impl Truth {
    fn parse(text: &str) -> Self {
        let mut truth = Self::default();
        for line in text.lines() {
            let fields: Vec<&str> = line.split(' ').collect();
            let number = |at: usize| fields[at].parse::<u64>().expect("a number");
            match fields[0] {
                "site" => {
                    let key = (fields[1].to_owned(), number(2) as i32);
                    truth.sites.insert(key, number(3));
                }
                _ => _ = truth.lives.insert(number(1) as i32, (number(2), number(3))),
            }
        }
        assert!(!truth.lives.is_empty(), "{text}");
        truth
    }

    /// What a thread waited in the function that measures, but in no place that
    /// it measures, ns: nothing, where nobody else wants its CPU.
    fn between_clocks(&self, shown: &[Shown], tid: i32) -> u64 {
        let is_between = |wait: &&Shown| {
            let has = |name: &str| wait.stack.iter().any(|at| at == name);
            let is_site = self.sites.keys().any(|(name, _)| has(name));
            let is_around = has("measured") && !has("sleep_us") || has("delayed");
            wait.tid == tid && is_around && !is_site
        };
        shown.iter().filter(is_between).map(|wait| wait.ns).sum()
    }
}

/// A wait as a reader of the file shows it.
#[derive(Debug, PartialEq, Eq)]
struct Shown {
    tid: i32,
    ns: u64,
    /// Names of functions, innermost first.
    stack: Vec<String>,
}

impl Shown {
    fn is_rooted(&self) -> bool {
        let starts = ["_start", "clone", "clone3", "__clone3", "__clone"];
        let last = self.stack.last();
        let is_start = |name: &String| starts.contains(&name.trim_start_matches("__GI_"));
        last.is_some_and(is_start) || self.has_not_run_yet()
    }

    /// Whether it is for the thread's first CPU.
    fn has_not_run_yet(&self) -> bool {
        matches!(self.stack.as_slice(), [only] if only.starts_with("ret_from_fork"))
    }
}

/// The samples of waits in what `script -F tid,event,period,ip,sym` prints.
fn shown(text: &str) -> Vec<Shown> {
    let blocks = text
        .split("\n\n")
        .filter(|block| block.contains("offcpu-time:"));
    blocks
        .map(|block| {
            let mut lines = block.trim_start_matches('\n').lines();
            let mut head = lines.next().expect("a line").split_whitespace();
            let mut number = || head.next().and_then(|field| field.parse::<u64>().ok());
            let tid = number().expect("a thread") as i32;
            let ns = number().expect("a period");
            let name = |line: &str| line.split_whitespace().nth(1).unwrap_or("").to_owned();
            let stack = lines.map(name).collect();
            Shown { tid, ns, stack }
        })
        .collect()
}

const FIELDS: &[&str] = &["script", "-f", "-F", "tid,event,period,ip,sym", "-i"];

/// Records a program of `waits.c` with `options`.
fn recorded(name: &str, options: &[&str], arguments: &[&str]) -> Option<(PathBuf, Truth)> {
    let flags = ["-O2", "-g", "-pthread", "-fno-optimize-sibling-calls"];
    let program = compiled(name, "waits.c", &flags)?;
    let file = scratch().join(format!("waits-{name}.data"));
    let output = prof_command()
        .args(["record", "-o"])
        .arg(&file)
        .args(options)
        .arg(program)
        .args(arguments)
        .output()
        .expect("prof starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let truth = Truth::parse(&String::from_utf8_lossy(&output.stdout));
    Some((file, truth))
}

fn script(tool: &Path, file: &Path) -> String {
    let mut arguments: Vec<&std::ffi::OsStr> = FIELDS.iter().map(|it| it.as_ref()).collect();
    arguments.push(file.as_os_str());
    let finished = perf_at(tool, &arguments);
    assert_eq!(finished.stderr, "", "{}", tool.display());
    finished.text()
}

/// Whether two times agree within 1 % and what reading clocks takes.
fn agree(told: u64, seen: u64, readings: u64) -> bool {
    told.abs_diff(seen) <= told / 100 + readings * 20_000
}

/// Time that the host of a virtual machine has taken from its CPUs, ticks. A
/// thread that it takes the CPU from has no CPU time meanwhile, and does not
/// wait either: no record tells of that.
fn taken_by_host() -> u64 {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let field = text.split_whitespace().nth(8);
    field.and_then(|ticks| ticks.parse().ok()).unwrap_or(0)
}

/// Faults of one try that are shown.
const SHOWN: usize = 10;

/// Records and compares; anew a few times, if a host takes time that the
/// program then takes for waits. What we do wrong is wrong each time.
fn undisturbed(mut compared: impl FnMut() -> Option<Vec<String>>) {
    let tries = if taken_by_host() > 0 { 6 } else { 1 };
    let mut all = Vec::new();
    for _ in 0..tries {
        match compared() {
            Some(mut faults) if !faults.is_empty() => {
                faults.truncate(SHOWN);
                all.push(faults);
            }
            _ => return,
        }
    }
    panic!("each time: {all:#?}");
}

/// Where waits differ from what the program told.
fn differences(truth: &Truth, shown: &[Shown]) -> Vec<String> {
    let mut faults = Vec::new();
    for ((name, tid), told) in &truth.sites {
        let is_there = |wait: &&Shown| wait.tid == *tid && wait.stack.iter().any(|at| at == name);
        let seen: u64 = shown.iter().filter(is_there).map(|wait| wait.ns).sum();
        // A thread that shares its CPU may lose it just before or behind what it
        // is told of, once more for a slice of some ms.
        let slice = if name == "contend" { 4_000_000 } else { 0 };
        // One per cent holds for waits of a millisecond: these are shorter.
        let readings = if name == "wait_fsync" { 40 } else { 10 };
        // Or just behind the first and before the second: these waits are in
        // the function that reads the clocks.
        let between = truth.between_clocks(shown, *tid);
        let wanted = seen.clamp(told.saturating_sub(between), *told);
        let is_near = agree(wanted, seen, readings) || told.abs_diff(seen) <= slice;
        if !is_near {
            faults.push(format!(
                "{name} told {told}, seen {seen}, beside it {between}"
            ));
        }
    }
    for (tid, (elapsed, ran)) in &truth.lives {
        // What came before the thread could read a clock is not of the life it
        // tells: it has no stack, or is the program's start or end.
        let is_of_life = |wait: &&Shown| match wait.stack.last() {
            Some(root) if root == "_start" => wait.stack.iter().any(|name| name == "main"),
            root => root.is_some() && !wait.has_not_run_yet(),
        };
        let waits = shown.iter().filter(|wait| wait.tid == *tid);
        let waits = waits.filter(is_of_life);
        let seen: u64 = waits.map(|wait| wait.ns).sum::<u64>();
        if !agree(*elapsed, ran + seen, 50) {
            faults.push(format!("{tid}: {elapsed} {ran} {seen}"));
        }
    }
    let with_stack: Vec<&Shown> = shown.iter().filter(|wait| !wait.stack.is_empty()).collect();
    let rooted = with_stack.iter().filter(|wait| wait.is_rooted()).count();
    if rooted * 100 < with_stack.len() * 99 {
        faults.push(format!("{rooted} of {} whole", with_stack.len()));
    }
    faults
}

#[test]
fn waits_are_as_long_as_the_program_measured_and_stand_where_it_waited() {
    const NAME: &str = "waits-all";
    if !may_record_all(NAME) || !have(NAME, "perf") {
        return;
    }
    let perfs = perfs(NAME).into_iter().chain(["perf".into()]);
    let perfs: BTreeSet<PathBuf> = perfs.collect();
    undisturbed(|| {
        let (file, truth) = recorded(NAME, &["--off-cpu=only"], &["all"])?;
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

#[test]
fn programs_that_live_for_a_moment_have_stacks_where_they_wait() {
    const NAME: &str = "waits-brief";
    if !may_record_all(NAME) {
        return;
    }
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
    assert!(*missing < 5.0, "{line:?}");
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

/// Records a program of `waits.c` as a user without rights, into a folder that
/// lives as long as what comes back.
fn recorded_by_nobody(
    name: &str,
    flags: &[&str],
    arguments: &[&str],
) -> Option<(tempfile::TempDir, PathBuf, Truth)> {
    let usual = ["-O2", "-g", "-pthread", "-fno-optimize-sibling-calls"];
    let program = compiled(name, "waits.c", &[&usual, flags].concat())?;
    let folder = tempfile::tempdir().expect("a folder");
    let everyone = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(folder.path(), everyone).expect("it is ours");
    let prof = Path::new(env!("CARGO_BIN_EXE_prof"));
    for (from, to) in [(prof, "prof"), (&program, "waits")] {
        crate::oracle::copy_program(from, &folder.path().join(to));
    }
    let file = folder.path().join("plain.data");
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(folder.path().join("prof"))
        .args(["record", "--off-cpu=only", "-o"])
        .arg(&file)
        .arg(folder.path().join("waits"))
        .args(arguments)
        .output()
        .expect("setpriv starts");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    let truth = Truth::parse(&String::from_utf8_lossy(&output.stdout));
    Some((folder, file, truth))
}

/// Of 100 waits over 5 ms of a plain user's program so many have a stack.
const LEAST_READ: usize = 95;

/// Waits over 5 ms, and those of them with a stack; without those for a thread's
/// first CPU, where it has none yet.
fn long_and_read(waits: &[Shown]) -> (Vec<&Shown>, Vec<&Shown>) {
    let mut seen = BTreeSet::new();
    let is_later = |wait: &&Shown| !seen.insert(wait.tid);
    let long = waits.iter().filter(is_later);
    let long: Vec<&Shown> = long.filter(|wait| wait.ns > 5_000_000).collect();
    let read = long.iter().filter(|wait| wait.stack.len() > 1);
    (long.clone(), read.copied().collect())
}

fn shown_of(file: &Path) -> Vec<Shown> {
    let ours = prof_command().args(FIELDS).arg(file).output();
    shown(&String::from_utf8_lossy(&ours.expect("prof starts").stdout))
}

#[test]
fn a_plain_user_gets_the_times_of_waits_and_stacks_of_long_ones() {
    const NAME: &str = "waits-plain";
    if !may_record_all(NAME) || !have(NAME, "setpriv") {
        return;
    }
    let Some((_folder, file, truth)) = recorded_by_nobody(NAME, &[], &["all"]) else {
        return;
    };
    let waits = shown_of(&file);
    for (tid, (elapsed, ran)) in &truth.lives {
        let of_thread = waits.iter().filter(|wait| wait.tid == *tid);
        let seen: u64 = of_thread.map(|wait| wait.ns).sum();
        // With the wait for its first CPU, which it cannot measure itself.
        let (least, most) = (elapsed - elapsed / 100, elapsed + elapsed / 100);
        assert!(
            ran + seen + 1_000_000 >= least,
            "{tid}: {elapsed} {ran} {seen}"
        );
        assert!(
            ran + seen <= most + 60_000_000,
            "{tid}: {elapsed} {ran} {seen}"
        );
    }
    let (long, read) = long_and_read(&waits);
    let mut told = vec![(read.len(), long.len())];
    // On a busy machine some were woken too soon and wait for a CPU.
    while told
        .iter()
        .all(|(read, long)| read * 100 < long * LEAST_READ)
    {
        assert!(told.len() < 3, "{told:?}");
        let again = recorded_by_nobody(NAME, &[], &["all"]).expect("as before");
        let waits = shown_of(&again.1);
        let (long, read) = long_and_read(&waits);
        told.push((read.len(), long.len()));
    }
    let rooted = read.iter().filter(|wait| wait.is_rooted()).count();
    assert!(
        rooted * 100 >= read.len() * 99,
        "{rooted} of {}",
        read.len()
    );
    // What was read is of the place where the thread waited.
    for ((name, tid), told) in &truth.sites {
        let is_there = |wait: &&Shown| wait.tid == *tid && wait.stack.contains(name);
        let seen: u64 = waits.iter().filter(is_there).map(|wait| wait.ns).sum();
        assert!(
            seen <= told + told / 100 + 400_000,
            "{name} told {told}, seen {seen}"
        );
    }
    let kinds = prof_command()
        .args([
            "report",
            "-f",
            "--stdio",
            "--no-children",
            "-g",
            "none",
            "-s",
            "wait",
            "-i",
        ])
        .arg(&file)
        .output()
        .expect("prof starts");
    let kinds = String::from_utf8_lossy(&kinds.stdout).into_owned();
    for kind in ["sleep", "poll", "pipe", "socket", "futex", "child"] {
        assert!(
            kinds.contains(&format!("blocked: {kind}")),
            "{kind}: {kinds}"
        );
    }
}

/// What is said of waits without a stack in the recording of a user without rights.
fn told_of_nobody(name: &str, arguments: &[&str]) -> Option<String> {
    let (_folder, file, _) = recorded_by_nobody(name, &[], arguments)?;
    let report = ["report", "-f", "--stdio", "-i"];
    let output = prof_command().args(report).arg(&file).output();
    let text = String::from_utf8_lossy(&output.expect("prof starts").stdout).into_owned();
    let mut lines = text.lines();
    let line = lines.find(|line| line.contains("a wait has no stack"));
    Some(line.unwrap_or(&text).to_owned())
}

#[test]
fn a_plain_user_is_told_why_preempted_threads_and_short_waits_have_no_stack() {
    const NAME: &str = "waits-plain-told";
    if !may_record_all(NAME) || !have(NAME, "setpriv") {
        return;
    }
    let threads = std::thread::available_parallelism().map_or(4, |cpus| 3 * cpus.get());
    let Some(line) = told_of_nobody(NAME, &["pool", &threads.to_string(), "40"]) else {
        return;
    };
    assert!(
        line.contains("% of threads that were preempted: ") && line.contains("--off-cpu=only"),
        "{line}"
    );
    let line = told_of_nobody(NAME, &["short", "2000", "20"]).expect("as before");
    assert!(line.contains("% of waits below 5 ms: "), "{line}");
}

#[test]
fn a_plain_user_gets_whole_stacks_of_programs_with_frame_pointers() {
    const NAME: &str = "waits-plain-fp";
    if !may_record_all(NAME) || !have(NAME, "setpriv") {
        return;
    }
    // Where unwind information goes by the frame pointer, which is not told of a
    // thread that sleeps.
    let flags = ["-fno-omit-frame-pointer"];
    let Some((_folder, file, _)) = recorded_by_nobody(NAME, &flags, &["all"]) else {
        return;
    };
    let waits = shown_of(&file);
    let read: Vec<&Shown> = waits.iter().filter(|wait| wait.stack.len() > 1).collect();
    let rooted = read.iter().filter(|wait| wait.is_rooted()).count();
    assert!(read.len() > 20, "{} of {}", read.len(), waits.len());
    let cut: Vec<_> = read
        .iter()
        .filter(|wait| !wait.is_rooted())
        .take(SHOWN)
        .collect();
    assert!(
        rooted * 100 >= read.len() * 95,
        "{rooted} of {}: {}",
        read.len(),
        excerpt(&cut)
    );
    // Callers are the program's, none is passed over.
    let whole = |wait: &&&Shown| {
        let at = |name: &str| wait.stack.iter().position(|it| it == name);
        at("wait_sleep").is_some_and(|inner| at("measured") == Some(inner + 1))
    };
    let first = read.get(..SHOWN);
    assert!(read.iter().filter(whole).count() > 10, "{}", excerpt(first));
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

//! What the programs of `waits.c` tell of their waits, beside what was recorded.

use crate::oracle::{compiled, perf_at, prof_command, scratch, taken_by_host};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// What a program told of itself.
#[derive(Debug, Default)]
pub(super) struct Truth {
    /// By name of the place and thread: ns that it did not run there.
    pub(super) sites: BTreeMap<(String, i32), u64>,
    /// By thread: ns that it lived, and ns that it ran.
    pub(super) lives: BTreeMap<i32, (u64, u64)>,
    /// What the host took from all CPUs meanwhile, ns: it is of lives and places, and
    /// of no wait.
    pub(super) taken: u64,
}

impl Truth {
    pub(super) fn parse(text: &str) -> Self {
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
    pub(super) fn between_clocks(&self, shown: &[Shown], tid: i32) -> u64 {
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
pub(super) struct Shown {
    pub(super) tid: i32,
    pub(super) ns: u64,
    /// Names of functions, innermost first.
    pub(super) stack: Vec<String>,
}

impl Shown {
    pub(super) fn is_rooted(&self) -> bool {
        let starts = ["_start", "clone", "clone3", "__clone3", "__clone"];
        let last = self.stack.last();
        let is_start = |name: &String| starts.contains(&name.trim_start_matches("__GI_"));
        last.is_some_and(is_start) || self.has_not_run_yet()
    }

    /// Whether it is for the thread's first CPU.
    pub(super) fn has_not_run_yet(&self) -> bool {
        matches!(self.stack.as_slice(), [only] if only.starts_with("ret_from_fork"))
    }
}

/// The samples of waits in what `script -F tid,event,period,ip,sym` prints.
pub(super) fn shown(text: &str) -> Vec<Shown> {
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

pub(super) const FIELDS: &[&str] = &["script", "-f", "-F", "tid,event,period,ip,sym", "-i"];

/// Records a program of `waits.c` with `options`.
pub(super) fn recorded(
    name: &str,
    options: &[&str],
    arguments: &[&str],
) -> Option<(PathBuf, Truth)> {
    let flags = ["-O2", "-g", "-pthread", "-fno-optimize-sibling-calls"];
    let program = compiled(name, "waits.c", &flags)?;
    let file = scratch().join(format!("waits-{name}.data"));
    let before = taken_by_host();
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
    let mut truth = Truth::parse(&String::from_utf8_lossy(&output.stdout));
    truth.taken = taken_by_host() - before;
    Some((file, truth))
}

pub(super) fn script(tool: &Path, file: &Path) -> String {
    let mut arguments: Vec<&std::ffi::OsStr> = FIELDS.iter().map(|it| it.as_ref()).collect();
    arguments.push(file.as_os_str());
    let finished = perf_at(tool, &arguments);
    assert_eq!(finished.stderr, "", "{}", tool.display());
    finished.text()
}

/// Whether two times agree within 1 % and what reading clocks takes.
pub(super) fn agree(told: u64, seen: u64, readings: u64) -> bool {
    told.abs_diff(seen) <= told / 100 + readings * 20_000
}

/// Faults of one try that are shown.
pub(super) const SHOWN: usize = 10;

/// Records and compares; anew a few times, if a host takes time that the
/// program then takes for waits. What we do wrong is wrong each time.
pub(super) fn undisturbed(mut compared: impl FnMut() -> Option<Vec<String>>) {
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

/// Whether what is seen lacks no more than is left of what the host took, which is then
/// less by that.
fn is_taken(left: &mut u64, told: u64, seen: u64) -> bool {
    let rest = told
        .checked_sub(seen)
        .and_then(|lacks| left.checked_sub(lacks));
    *left = rest.unwrap_or(*left);
    rest.is_some()
}

/// Where waits differ from what the program told. They may lack, of all places and of all
/// lives together, as much as the host took, and may never be more.
pub(super) fn differences(truth: &Truth, shown: &[Shown]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut taken = truth.taken;
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
        if !is_near && !is_taken(&mut taken, *told, seen) {
            faults.push(format!(
                "{name} told {told}, seen {seen}, beside it {between}"
            ));
        }
    }
    taken = truth.taken;
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
        let is_near = agree(*elapsed, ran + seen, 50);
        if !is_near && !is_taken(&mut taken, *elapsed, ran + seen) {
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

pub(super) fn shown_of(file: &Path) -> Vec<Shown> {
    let ours = prof_command().args(FIELDS).arg(file).output();
    shown(&String::from_utf8_lossy(&ours.expect("prof starts").stdout))
}

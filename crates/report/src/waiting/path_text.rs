//! Chains of waiting, the critical path and estimates as text and as JSON.

use super::chains::{Chain, Ended, Link};
use super::critical::{Doing, Path, Step, Ways};
use super::kept::Kept;
use super::places::{line, own, shown, time};
use super::what_if::{self, Estimate};
use crate::asked::called;
use crate::trust::wrapped;
use crate::{escape, harmless_json};
use prof_profile::{FunctionId, Profile, StackId, WaitState};
use rustc_hash::{FxHashMap, FxHashSet};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::io;

/// Chains that are shown.
const MOST_CHAINS: usize = 20;
/// A second path that is shorter by less than this share of the elapsed time
/// is as good as the path.
const NEAR: f64 = 0.05;

/// Writes chains of waits as text, in lines of so many columns where names allow it.
///
/// # Errors
/// If `out` cannot be written to.
pub fn write_chains(chains: &[Chain], columns: usize, out: &mut dyn io::Write) -> io::Result<()> {
    let all = chains
        .iter()
        .fold(0_u64, |sum, chain| sum.saturating_add(chain.ns));
    writeln!(out, "# {} blocked, by who ended it", time(all))?;
    writeln!(
        out,
        "#\n#   Waited    Waits  Who waited for what, where, until whom"
    )?;
    for chain in chains.iter().take(MOST_CHAINS) {
        writeln!(out)?;
        for (depth, link) in chain.links.iter().enumerate() {
            let head = match depth {
                0 => format!("{:>10} {:>8}  ", time(chain.ns), chain.waits),
                _ => format!("{:20} which had waited: ", ""),
            };
            let who = format!("{head}{}: {} in ", escape::terminal(&link.comm), link.kind);
            let room = columns.saturating_sub(who.chars().count());
            writeln!(out, "{who}{}", line(&link.functions, room))?;
            match &link.ended {
                Ended::By { comm, functions } if functions.is_empty() => {
                    let comm = escape::terminal(comm);
                    writeln!(out, "{:20} ended by the end of {comm}", "")?;
                }
                Ended::By { comm, functions } => {
                    let by = format!("{:20} ended by {} in ", "", escape::terminal(comm));
                    let room = columns.saturating_sub(by.chars().count());
                    writeln!(out, "{by}{}", line(functions, room))?;
                }
                Ended::Interrupt => writeln!(out, "{:20} ended by a timer or a device", "")?,
                Ended::NotSeen => {}
            }
        }
    }
    if chains.len() > MOST_CHAINS {
        writeln!(out, "\n# {} more are in --json", chains.len() - MOST_CHAINS)?;
    }
    Ok(())
}

#[derive(Serialize)]
struct ToldChains<'a> {
    schema: &'a str,
    chains: Vec<ToldChain<'a>>,
}

#[derive(Serialize)]
struct ToldChain<'a> {
    wait_ns: u64,
    waits: u64,
    links: Vec<ToldLink<'a>>,
}

#[derive(Serialize)]
struct ToldLink<'a> {
    comm: &'a str,
    kind: &'a str,
    functions: &'a [String],
    /// `thread`, `interrupt` or `not seen`.
    ended_by: &'a str,
    waker: Option<&'a str>,
    waker_functions: &'a [String],
}

/// Writes them as one object, `prof-wakers-1`.
///
/// # Errors
/// If `out` cannot be written to.
pub fn write_chains_json(chains: &[Chain], mut out: &mut dyn io::Write) -> io::Result<()> {
    let told = chains.iter().map(|chain| ToldChain {
        wait_ns: chain.ns,
        waits: chain.waits,
        links: chain.links.iter().map(told_link).collect(),
    });
    let told = ToldChains {
        schema: "prof-wakers-1",
        chains: told.collect(),
    };
    harmless_json::write(&told, &mut out)?;
    out.write_all(b"\n")
}

fn told_link(link: &Link) -> ToldLink<'_> {
    let (ended_by, waker, waker_functions) = match &link.ended {
        Ended::By { comm, functions } => ("thread", Some(comm.as_str()), functions.as_slice()),
        Ended::Interrupt => ("interrupt", None, &[][..]),
        Ended::NotSeen => ("not seen", None, &[][..]),
    };
    ToldLink {
        comm: &link.comm,
        kind: link.kind,
        functions: &link.functions,
        ended_by,
        waker,
        waker_functions,
    }
}

/// A part of the critical path: all time that it spends in one thread and
/// function, or at one wait.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PathPart {
    /// Name of the thread.
    pub comm: String,
    /// The thread.
    pub tid: i32,
    /// `running`, `waiting for a CPU`, or `blocked: ` and what on.
    pub doing: String,
    /// The user function that it was in, and those that called it, as far out as they
    /// are the same in all of the part; empty where no sample tells.
    pub functions: Vec<String>,
    /// Further out the callers are not the same in all of it.
    pub callers_differ: bool,
    /// On the path, ns.
    pub ns: u64,
    /// When it is first on the path, ns from the beginning.
    pub first_ns: u64,
    /// When it is last on the path, likewise.
    pub last_ns: u64,
    /// The mean of the times when it is on the path, likewise.
    pub mean_ns: u64,
}

/// The critical path of a run, in parts.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Critical {
    schema: &'static str,
    /// How long the run was, ns.
    pub elapsed_ns: u64,
    /// Sum of the parts, ns.
    pub on_path_ns: u64,
    /// Parts by the mean time at which they are on the path.
    pub parts: Vec<PathPart>,
    /// Other paths that are nearly as long.
    pub near: Vec<Near>,
    /// The estimate asked for with `--what-if`.
    pub what_if: Option<WhatIf>,
}

/// A path that is nearly as long.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Near {
    /// The thread through which it goes, beside the path.
    pub comm: String,
    /// The thread.
    pub tid: i32,
    /// How much shorter it is, ns.
    pub shorter_ns: u64,
}

/// How long the run would take if a function took another time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WhatIf {
    /// The argument of `--what-if`.
    pub asked: String,
    /// The functions that are called so.
    pub functions: Vec<String>,
    /// How long the function ran in all threads, ns.
    pub function_ns: u64,
    /// Samples in it.
    pub samples: usize,
    /// How long threads were blocked in it, ns, which stays as it is.
    pub blocked_ns: u64,
    /// The estimated elapsed time, ns.
    pub estimate_ns: u64,
    /// Lower end of its 95 % interval, ns.
    pub low_ns: u64,
    /// Upper end of its 95 % interval, ns.
    pub high_ns: u64,
    /// The assumption that the estimate makes, in words.
    pub assumption: &'static str,
}

const ASSUMPTION: &str = "each thread does the same in the same order and is woken by the same \
thread at the same point; timers and devices take as long, and what looks every so often looks as \
often as it takes; a wait for a CPU is as long as what runs there; other programs take the CPU as \
often for the same CPU time";

/// A change to try: which functions, and the factor for their time.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// The argument of `--what-if`.
    pub text: String,
    /// The function, as [`called`] takes it.
    pub function: String,
    /// Its time after the change, divided by that before: 0.8 is 20 % less.
    pub factor: f64,
}

impl Change {
    /// The functions whose time changes.
    pub fn functions(&self, profile: &Profile) -> FxHashSet<FunctionId> {
        let named = profile.functions.iter().enumerate();
        let named = named.map(|(index, function)| {
            let id = FunctionId(u32::try_from(index).unwrap_or(u32::MAX));
            (profile.name(function.name), id)
        });
        called(&self.function, named).into_iter().collect()
    }
}

/// The critical path of a profile in which waits and wakes were recorded, up to the end
/// of what is kept; `None` if there is none.
pub fn critical(profile: &Profile, kept: &Kept, change: Option<&Change>) -> Option<Critical> {
    let ways = Ways::of(profile, kept)?;
    let path = ways.path();
    let parts = parts(&ways, &path);
    Some(Critical {
        schema: "prof-critical-path-1",
        elapsed_ns: path.elapsed(),
        on_path_ns: parts.iter().map(|part| part.ns).sum(),
        near: near(&ways, &path),
        parts,
        what_if: change.map(|change| told(&ways, change)),
    })
}

fn told(ways: &Ways<'_>, change: &Change) -> WhatIf {
    let profile = ways.profile;
    let functions = change.functions(profile);
    let mut known: FxHashMap<StackId, bool> = FxHashMap::default();
    let is_in = |stack: StackId| {
        let mut frames = profile.stacks.locations(stack);
        frames.any(|location| {
            let mut frames = profile.frames_at(location).iter();
            frames.any(|frame| functions.contains(&frame.function))
        })
    };
    for sample in profile.samples.iter() {
        known
            .entry(sample.stack)
            .or_insert_with(|| is_in(sample.stack));
    }
    let is_in = |stack: StackId| known.get(&stack).copied().unwrap_or(false);
    let blocked = profile.samples.iter().enumerate().filter(|(row, sample)| {
        let wait = profile.samples.wait_at(*row);
        wait.is_some_and(|wait| !wait.state.is_runnable()) && is_in(sample.stack)
    });
    let blocked_ns = blocked.map(|(_, sample)| sample.period).sum();
    let Estimate {
        estimate,
        margin,
        function_ns,
        samples,
        ..
    } = what_if::estimate(ways, &is_in, change.factor);
    let ns = |value: f64| value.max(0.0) as u64;
    let names = functions.iter();
    let names = names.map(|&function| profile.name(profile.function(function).name).to_owned());
    let names: BTreeSet<String> = names.collect();
    WhatIf {
        asked: change.text.clone(),
        functions: names.into_iter().collect(),
        function_ns: ns(function_ns),
        samples,
        estimate_ns: ns(estimate),
        low_ns: ns(estimate - margin),
        high_ns: ns(estimate + margin),
        blocked_ns,
        assumption: ASSUMPTION,
    }
}

/// What the path is made of.
fn parts(ways: &Ways<'_>, path: &Path) -> Vec<PathPart> {
    let profile = ways.profile;
    let mut parts = Parts {
        profile,
        begin: path.begin,
        list: Vec::new(),
        index: FxHashMap::default(),
        names: FxHashMap::default(),
    };
    let of_row = |row: usize| profile.samples.get(row).map(|sample| sample.stack);
    for step in &path.steps {
        let whole = step.to - step.from;
        match step.doing {
            Doing::Running => {
                let time = (step.from, step.to);
                ways.runs.stacks(step.tid, time, |stack, ns| {
                    let stack = (stack != StackId::EMPTY).then_some(stack);
                    parts.add(step, "running", stack, ns);
                });
            }
            Doing::Runnable(row) => match profile.samples.wait_at(row) {
                // It was in no function yet.
                Some(wait) if wait.state == WaitState::Started => {
                    parts.add(step, "waiting for a CPU, to begin", None, whole);
                }
                _ => parts.add(step, "waiting for a CPU", of_row(row), whole),
            },
            Doing::Blocked(row) => {
                let kind = profile.samples.wait_at(row).map(|wait| wait.kind.text());
                let doing = format!("blocked: {}", kind.unwrap_or("unknown"));
                parts.add(step, &doing, of_row(row), whole);
            }
        }
    }
    let mut parts = parts.list;
    parts.sort_by_key(|part| (part.mean_ns, part.tid));
    parts
}

/// What a thread did is told apart by so many functions, the innermost and those that
/// called it: by all of them a recursion would be a part for each depth.
const INNER: usize = 4;

/// Collects what a path is made of.
struct Parts<'a> {
    profile: &'a Profile,
    /// When the path begins, ns.
    begin: u64,
    list: Vec<PathPart>,
    /// By thread, what it did and in which functions, the inner ones.
    index: FxHashMap<(i32, String, Vec<String>), usize>,
    names: FxHashMap<StackId, Vec<String>>,
}

impl Parts<'_> {
    /// Adds so many ns of a step.
    fn add(&mut self, step: &Step, doing: &str, stack: Option<StackId>, ns: u64) {
        let functions = stack.map_or_else(Vec::new, |stack| self.functions(step, stack));
        let inner = functions.get(..INNER).unwrap_or(&functions).to_vec();
        let key = (step.tid, doing.to_owned(), inner);
        let place = *self.index.entry(key).or_insert_with(|| {
            self.list.push(PathPart {
                comm: comm(self.profile, step.tid),
                tid: step.tid,
                doing: doing.to_owned(),
                functions: functions.clone(),
                callers_differ: false,
                ns: 0,
                first_ns: step.from - self.begin,
                last_ns: 0,
                mean_ns: 0,
            });
            self.list.len() - 1
        });
        if let Some(part) = self.list.get_mut(place) {
            let both = part.functions.iter().zip(&functions);
            let common = both.take_while(|(one, other)| one == other).count();
            part.callers_differ |= common < part.functions.len().max(functions.len());
            part.functions.truncate(common);
            let middle = step.from.midpoint(step.to) - self.begin;
            let apart = middle as f64 - part.mean_ns as f64;
            part.ns = part.ns.saturating_add(ns);
            let moved = apart * ns as f64 / part.ns.max(1) as f64;
            part.mean_ns = part.mean_ns.saturating_add_signed(moved as i64);
            part.last_ns = step.to - self.begin;
        }
    }

    fn functions(&mut self, step: &Step, stack: StackId) -> Vec<String> {
        let profile = self.profile;
        let known = self.names.entry(stack);
        let names = || match step.doing {
            Doing::Blocked(_) => shown(profile, stack),
            Doing::Running | Doing::Runnable(_) => own(profile, stack),
        };
        known.or_insert_with(names).clone()
    }
}

fn comm(profile: &Profile, tid: i32) -> String {
    let comm = profile.thread(tid).map(|thread| thread.comm);
    let name = comm.map_or("", |comm| profile.name(comm));
    escape::terminal(name).into_owned()
}

/// Paths that are nearly as long: through threads that had waited only shortly
/// where the path came over from another, and had been busy for long before: they
/// ran or could have, so what they did did not depend on the path.
fn near(ways: &Ways<'_>, path: &Path) -> Vec<Near> {
    let profile = ways.profile;
    let limit = NEAR * path.elapsed() as f64;
    let mut by_thread: FxHashMap<i32, u64> = FxHashMap::default();
    for join in &path.joins {
        let mut is_found = false;
        // Threads that it had made and that ended just before were no wait.
        for (tid, _) in ways.lives.threads() {
            let is_other = tid != join.on && ways.parent(tid) == Some(join.waited);
            let Some((first, last)) = ways.runs.life(tid).filter(|_| is_other) else {
                continue;
            };
            let shorter = join.at.checked_sub(last);
            let is_long = ways.busy(tid, (first, last)) as f64 > 2.0 * limit;
            if let Some(shorter) = shorter.filter(|&it| is_long && (it as f64) < limit) {
                is_found = true;
                let known = by_thread.entry(tid).or_insert(u64::MAX);
                *known = (*known).min(shorter);
            }
        }
        // Before this it was not on the path for long.
        let since = path
            .steps
            .iter()
            .filter(|step| step.tid == join.waited && step.to <= join.at)
            .map(|step| step.to)
            .max();
        let times = (since.unwrap_or(path.begin), join.at);
        let busy = ways.busy(join.waited, times);
        if !is_found && busy as f64 > 2.0 * limit && (join.slack as f64) < limit {
            let known = by_thread.entry(join.waited).or_insert(u64::MAX);
            *known = (*known).min(join.slack);
        }
    }
    let mut list: Vec<Near> = by_thread
        .into_iter()
        .map(|(tid, shorter_ns)| Near {
            comm: comm(profile, tid),
            tid,
            shorter_ns,
        })
        .collect();
    list.sort_by_key(|near| (near.shorter_ns, near.tid));
    list
}

/// Writes the path as text, in lines of so many columns where names allow it.
///
/// # Errors
/// If `out` cannot be written to.
pub fn write_critical(
    critical: &Critical,
    columns: usize,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let elapsed = critical.elapsed_ns;
    let percent = |ns| share(ns, critical);
    writeln!(
        out,
        "# critical path: {} elapsed, {:.1} % of it is told below",
        time(elapsed),
        percent(critical.on_path_ns)
    )?;
    for near in &critical.near {
        writeln!(
            out,
            "# a tie: a path through {} ({}) is {} shorter ({:.1} %)",
            near.comm,
            near.tid,
            time(near.shorter_ns),
            percent(near.shorter_ns)
        )?;
    }
    write_parts(critical, columns, out)?;
    match &critical.what_if {
        Some(what_if) => write_what_if(critical, what_if, out),
        None => Ok(()),
    }
}

/// What the path consists of, in the order of time, but for its smallest parts.
fn write_parts(critical: &Critical, columns: usize, out: &mut dyn io::Write) -> io::Result<()> {
    let elapsed = critical.elapsed_ns;
    writeln!(
        out,
        "#\n#  Share      Time  Thread, and what it did, in the order of time"
    )?;
    let mut shown: Vec<&PathPart> = critical.parts.iter().collect();
    shown.sort_by_key(|part| Reverse(part.ns));
    let least = shown.get(30).map_or(0, |part| part.ns);
    let small = (elapsed / 1000).max(least);
    let percent = |ns| share(ns, critical);
    let mut left_out = 0;
    for part in &critical.parts {
        if part.ns < small {
            left_out += part.ns;
            continue;
        }
        let head = format!("{:>7.2}% {:>9}  ", percent(part.ns), time(part.ns));
        let head = format!("{head}{} ({}) {}", part.comm, part.tid, part.doing);
        match part.functions.is_empty() {
            true => writeln!(out, "{head}, not sampled")?,
            false => {
                let more = if part.callers_differ { " < …" } else { "" };
                let used = head.chars().count() + 4 + more.chars().count();
                let line = line(&part.functions, columns.saturating_sub(used));
                let more = if line.ends_with('…') { "" } else { more };
                writeln!(out, "{head} in {line}{more}")?;
            }
        }
    }
    if left_out > 0 {
        writeln!(
            out,
            "{:>7.2}% {:>9}  in smaller parts",
            percent(left_out),
            time(left_out)
        )?;
    }
    Ok(())
}

/// A part of the time that the critical path took, in percent.
fn share(ns: u64, critical: &Critical) -> f64 {
    100.0 * ns as f64 / critical.elapsed_ns.max(1) as f64
}

fn write_what_if(critical: &Critical, it: &WhatIf, out: &mut dyn io::Write) -> io::Result<()> {
    let margin = it.high_ns.saturating_sub(it.estimate_ns);
    let before = critical.elapsed_ns;
    let change = 100.0 * (it.estimate_ns as f64 - before as f64) / before.max(1) as f64;
    writeln!(
        out,
        "\n# what if {}: {} ± {} instead of {} ({change:+.1} %)\n# {} in it, {} samples",
        escape::terminal(&it.asked),
        time(it.estimate_ns),
        time(margin),
        time(before),
        time(it.function_ns),
        it.samples
    )?;
    if let [first, more @ ..] = it.functions.as_slice()
        && (!more.is_empty() || !it.asked.starts_with(first))
    {
        let more = match more.len() {
            0 => String::new(),
            count => format!(" and {count} more"),
        };
        writeln!(out, "# of {}{more}", escape::terminal(first))?;
    }
    if it.blocked_ns > it.function_ns / 10 {
        let blocked = time(it.blocked_ns);
        writeln!(
            out,
            "# threads were blocked in it for {blocked}, which stays as long"
        )?;
    }
    for line in wrapped(&format!("assumed: {}", it.assumption), WIDTH) {
        writeln!(out, "# {}", line.trim_start())?;
    }
    Ok(())
}

/// Columns of a line of words, behind its mark.
const WIDTH: usize = 77;

/// Writes the path as one object, `prof-critical-path-1`.
///
/// # Errors
/// If `out` cannot be written to.
pub fn write_critical_json(critical: &Critical, mut out: &mut dyn io::Write) -> io::Result<()> {
    harmless_json::write(critical, &mut out)?;
    out.write_all(b"\n")
}

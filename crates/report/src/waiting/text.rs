//! Locks as text and as JSON.

use super::locks::{Lock, Locks};
use super::places::{line, shown, time};
use crate::{escape, harmless_json};
use prof_profile::{Profile, TaskId, several};
use rustc_hash::FxHashMap;
use serde::Serialize;
use std::cmp::Reverse;
use std::io;

/// Columns of lines of text that nobody reads on a terminal: enough for stacks that
/// differ at their outer functions only.
pub const IN_A_FILE: usize = 240;
/// What stands before the name of a lock, in columns.
const HEAD: usize = 39;
/// The width of a share before a stack.
const WIDTH_OF_SHARES: usize = 12;
/// Stacks that are shown of a lock.
const MOST_STACKS: usize = 3;

/// Writes the locks as a table, each with where it was waited for, in lines of so
/// many columns where names allow it. Stacks that read the same within these are
/// one.
///
/// # Errors
/// If `out` cannot be written to.
pub fn write_locks(
    profile: &Profile,
    locks: &Locks,
    columns: usize,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    if locks.list.is_empty() && locks.unknown == 0 && locks.idle == 0 {
        writeln!(out, "# no thread waited for a futex, that is for a lock")?;
        return write_unseen(locks, out);
    }
    let about = if locks.is_estimated { "about " } else { "" };
    let sum = |of: fn(&Lock) -> u64| locks.list.iter().map(of).sum::<u64>();
    let (ns, waits) = (sum(|lock| lock.ns), sum(|lock| lock.waits));
    let count: usize = locks.list.iter().map(|lock| lock.futexes).sum();
    let futexes = if count == 1 { "futex" } else { "futexes" };
    writeln!(
        out,
        "# {} waited in {about}{} for {count} {futexes}",
        time(ns),
        several(waits, "wait")
    )?;
    if locks.unknown > 0 {
        let ns = time(locks.unknown_ns);
        writeln!(
            out,
            "# {ns} more in {about}{} for futexes that are not known",
            several(locks.unknown, "wait")
        )?;
    }
    if locks.idle > 0 {
        let ns = time(locks.idle_ns);
        writeln!(
            out,
            "# {ns} more in {about}{} of pool threads for work",
            several(locks.idle, "wait")
        )?;
    }
    write_unseen(locks, out)?;
    if locks.is_estimated {
        writeln!(
            out,
            "# numbers of waits are estimates: stacks were recorded of some, which stand for others \
             (record --off-cpu-stacks)"
        )?;
    }
    if !locks.has_wakes {
        writeln!(
            out,
            "# who ended the waits was not recorded (record --wakers)"
        )?;
    }
    writeln!(out, "#\n#   Waited    Waits  Longest  Threads  Lock")?;
    let sheet = Sheet { profile, columns };
    for lock in &locks.list {
        sheet.write_lock(lock, out)?;
    }
    Ok(())
}

/// Tells the time of waits of which it is not known what they were for.
fn write_unseen(locks: &Locks, out: &mut dyn io::Write) -> io::Result<()> {
    if locks.unseen_ns == 0 {
        return Ok(());
    }
    writeln!(
        out,
        "# {} more in waits whose stacks were not recorded: for what is not known (record \
         --off-cpu-stacks all)",
        time(locks.unseen_ns)
    )
}

/// What lines are written with.
struct Sheet<'p> {
    profile: &'p Profile,
    /// Columns that they should not go beyond.
    columns: usize,
}

impl Sheet<'_> {
    /// A lock, and below it who waited for it, held it and ended the waits.
    fn write_lock(&self, lock: &Lock, out: &mut dyn io::Write) -> io::Result<()> {
        writeln!(
            out,
            "\n{:>10} {:>8} {:>8} {:>8}  {}",
            time(lock.ns),
            lock.waits,
            time(lock.longest),
            lock.threads,
            escape::terminal(&name(self.profile, lock, self.columns)),
        )?;
        let waiters = lock.waiters.iter().map(|waiters| {
            let at = shown(self.profile, waiters.stack);
            (waiters.ns, "in ".to_owned(), Some(at))
        });
        self.write_parts((lock.ns, "in"), waiters, out)?;
        for holder in lock.holders.iter().take(MOST_STACKS) {
            let percent = share(holder.ns, lock.ns);
            let who = format!("{} ({})", comm(self.profile, holder.tid), holder.tid);
            let seen = format!("seen in {} of {} waits", holder.waits, lock.waits);
            writeln!(out, "{percent:>9} % held by {who}, {seen}")?;
        }
        let releasers = lock.releasers.iter().map(|releaser| match releaser.task {
            None => (releaser.ns, "ended by an interrupt".to_owned(), None),
            Some(task) => {
                let who = thread(self.profile, task);
                match releaser.functions.is_empty() {
                    true => (releaser.ns, format!("ended by {who} at its end"), None),
                    false => {
                        let at = shown(self.profile, releaser.stack);
                        (releaser.ns, format!("ended by {who} in "), Some(at))
                    }
                }
            }
        });
        self.write_parts((lock.ns, "ended by"), releasers, out)
    }

    /// Lines with the share of `all` that each part has, ns, of those that read the
    /// same together.
    fn write_parts(
        &self,
        (all, what): (u64, &str),
        parts: impl Iterator<Item = (u64, String, Option<Vec<String>>)>,
        out: &mut dyn io::Write,
    ) -> io::Result<()> {
        let mut lines: Vec<(String, u64)> = Vec::new();
        let mut known: FxHashMap<String, usize> = FxHashMap::default();
        for (ns, head, stack) in parts {
            let used = WIDTH_OF_SHARES + head.chars().count();
            let stack = stack.map(|names| line(&names, self.columns.saturating_sub(used)));
            let text = head + &stack.unwrap_or_default();
            let at = *known.entry(text).or_insert_with_key(|text| {
                lines.push((text.clone(), 0));
                lines.len() - 1
            });
            if let Some((_, sum)) = lines.get_mut(at) {
                *sum = sum.saturating_add(ns);
            }
        }
        lines.sort_by_key(|&(_, ns)| Reverse(ns));
        for (text, ns) in lines.iter().take(MOST_STACKS) {
            writeln!(out, "{:>9} % {text}", share(*ns, all))?;
        }
        let rest = lines.get(MOST_STACKS..).unwrap_or_default();
        let ns: u64 = rest.iter().map(|&(_, ns)| ns).sum();
        if ns > 0 {
            let others = several(rest.len() as u64, "other");
            writeln!(out, "{:>9} % {} {others}", share(ns, all), what)?;
        }
        Ok(())
    }
}

fn share(part: u64, all: u64) -> String {
    format!("{:.1}", 100.0 * part as f64 / all.max(1) as f64)
}

/// A thread by name and id.
pub(super) fn thread(profile: &Profile, task: TaskId) -> String {
    let task = profile.task(task);
    let name = escape::terminal(profile.name(task.comm)).into_owned();
    format!("{name} ({})", task.tid)
}

/// The name of a thread by its tid.
fn comm(profile: &Profile, tid: i32) -> String {
    let comm = profile.thread(tid).map(|thread| profile.name(thread.comm));
    escape::terminal(comm.unwrap_or("thread")).into_owned()
}

/// What a lock is called: its kind, and the variable that holds it, or its
/// address.
fn name(profile: &Profile, lock: &Lock, columns: usize) -> String {
    let kind = lock.kind.text();
    if let Some(place) = &lock.place {
        let several = match lock.futexes {
            1 => String::new(),
            count => format!(" ({count} futexes)"),
        };
        return format!("{kind} in {place}{several}");
    }
    let Some(futex) = profile.futexes.get(lock.futex.0 as usize) else {
        return kind.to_owned();
    };
    match futex.variable {
        Some(variable) => {
            let name = profile.name(variable.name);
            let dso = profile.name(profile.dso(variable.dso).short_name);
            let offset = match variable.offset {
                0 => String::new(),
                offset => format!("+{offset:#x}"),
            };
            let short = format!("{kind} {name}{offset}");
            let whole = format!("{short} in {dso}");
            match HEAD + whole.chars().count() > columns {
                true => short,
                false => whole,
            }
        }
        None => format!("{kind} at {:#x} (pid {})", futex.address.0, futex.pid),
    }
}

/// Writes them as one object, `prof-locks-1`.
///
/// # Errors
/// If `out` cannot be written to.
pub fn write_locks_json(
    profile: &Profile,
    locks: &Locks,
    out: &mut dyn io::Write,
) -> io::Result<()> {
    let told = Told {
        schema: "prof-locks-1",
        has_wakers: locks.has_wakes,
        waits_are_estimates: locks.is_estimated,
        unseen_wait_ns: locks.unseen_ns,
        unknown: Unknown {
            wait_ns: locks.unknown_ns,
            waits: locks.unknown,
        },
        locks: locks.list.iter().map(|lock| told(profile, lock)).collect(),
    };
    let mut out = out;
    harmless_json::write(&told, &mut out)?;
    out.write_all(b"\n")
}

#[derive(Serialize)]
struct Told<'a> {
    schema: &'a str,
    has_wakers: bool,
    waits_are_estimates: bool,
    unseen_wait_ns: u64,
    unknown: Unknown,
    locks: Vec<ToldLock<'a>>,
}

#[derive(Serialize)]
struct Unknown {
    wait_ns: u64,
    waits: u64,
}

#[derive(Serialize)]
struct ToldLock<'a> {
    kind: &'a str,
    /// Of Java's locks: the function that waits.
    place: Option<&'a str>,
    futexes: usize,
    pid: i32,
    address: u64,
    variable: Option<&'a str>,
    offset: Option<u64>,
    dso: Option<&'a str>,
    wait_ns: u64,
    waits: u64,
    longest_ns: u64,
    threads: usize,
    waiters: Vec<ToldStack<'a>>,
    ended_by: Vec<ToldReleaser<'a>>,
    held_by: Vec<ToldHolder<'a>>,
}

/// Who held a mutex when that was looked at, once a wait.
#[derive(Serialize)]
struct ToldHolder<'a> {
    tid: i32,
    comm: Option<&'a str>,
    wait_ns: u64,
    waits: u64,
}

#[derive(Serialize)]
struct ToldStack<'a> {
    wait_ns: u64,
    waits: u64,
    functions: &'a [String],
}

#[derive(Serialize)]
struct ToldReleaser<'a> {
    /// Null for an interrupt.
    tid: Option<i32>,
    comm: Option<&'a str>,
    #[serde(flatten)]
    stack: ToldStack<'a>,
}

fn told<'a>(profile: &'a Profile, lock: &'a Lock) -> ToldLock<'a> {
    let futex = profile.futexes.get(lock.futex.0 as usize);
    let variable = futex.and_then(|futex| futex.variable);
    let waiters = lock.waiters.iter().map(|waiters| ToldStack {
        wait_ns: waiters.ns,
        waits: waiters.waits,
        functions: &waiters.functions,
    });
    let releasers = lock.releasers.iter().map(|releaser| {
        let task = releaser.task.map(|task| profile.task(task));
        ToldReleaser {
            tid: task.map(|task| task.tid),
            comm: task.map(|task| profile.name(task.comm)),
            stack: ToldStack {
                wait_ns: releaser.ns,
                waits: releaser.waits,
                functions: &releaser.functions,
            },
        }
    });
    let holders = lock.holders.iter().map(|holder| ToldHolder {
        tid: holder.tid,
        comm: profile
            .thread(holder.tid)
            .map(|thread| profile.name(thread.comm)),
        wait_ns: holder.ns,
        waits: holder.waits,
    });
    ToldLock {
        kind: lock.kind.text(),
        place: lock.place.as_deref(),
        futexes: lock.futexes,
        pid: futex.map_or(-1, |futex| futex.pid),
        address: futex.map_or(0, |futex| futex.address.0),
        variable: variable.map(|variable| profile.name(variable.name)),
        offset: variable.map(|variable| variable.offset),
        dso: variable.map(|variable| profile.name(profile.dso(variable.dso).path)),
        wait_ns: lock.ns,
        waits: lock.waits,
        longest_ns: lock.longest,
        threads: lock.threads,
        waiters: waiters.collect(),
        ended_by: releasers.collect(),
        held_by: holders.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::{IN_A_FILE, write_locks};
    use crate::waiting::{Lock, LockKind, Locks, Waiters};
    use prof_profile::FutexId;
    use prof_sketch::Sketch;

    #[test]
    fn stacks_that_read_the_same_are_one_row() {
        let mut sketch = Sketch::new();
        // They differ where 80 columns have no room.
        let inner = "app:a_function_of_a_long_name;app:another_one_of_a_long_name;libc.so.6:wait";
        let mut waiters = |outer: &str, ns| Waiters {
            stack: sketch.stack(&format!("app:main;app:{outer};{inner}")),
            functions: Vec::new(),
            ns,
            waits: 1,
        };
        let waiters = vec![
            waiters("first_way_to_it", 600),
            waiters("second_way_to_it", 400),
        ];
        let lock = Lock {
            futex: FutexId(0),
            futexes: 1,
            place: None,
            kind: LockKind::Mutex,
            ns: 1000,
            waits: 2,
            longest: 600,
            threads: 1,
            waiters,
            releasers: Vec::new(),
            holders: Vec::new(),
        };
        let locks = Locks {
            list: vec![lock],
            has_wakes: true,
            ..Locks::default()
        };
        let rows = |columns: usize| {
            let mut text = Vec::new();
            write_locks(&sketch.profile, &locks, columns, &mut text).expect("memory");
            let text = String::from_utf8(text).expect("UTF-8");
            assert!(
                text.lines().all(|line| line.chars().count() <= columns),
                "{text}"
            );
            let rows = text.lines().filter(|line| line.contains(" % in "));
            rows.map(|row| row.trim().to_owned()).collect::<Vec<_>>()
        };
        let short = rows(80);
        assert!(
            short.len() == 1 && short[0].starts_with("100.0 % in wait < "),
            "{short:?}"
        );
        let whole = rows(IN_A_FILE);
        assert!(
            whole.len() == 2 && whole[0].contains("first_way_to_it"),
            "{whole:?}"
        );
        assert!(
            whole[0].starts_with("60.0 %") && whole[1].starts_with("40.0 %"),
            "{whole:?}"
        );
    }
}

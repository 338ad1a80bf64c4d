//! The times of tool events: since counting began, and CPU time as the kernel's
//! files tell it.

use crate::places::{CountedIn, Readings};
use crate::selection::Selection;
use anyhow::Context;
use prof_record::counting::{Counters, Reading};
use prof_record::events::Tool;
use prof_sys::process::children_cpu_time;
use std::fs;
use std::time::Duration;

/// A unit of the times in /proc, as the kernel shows them to programs
/// (`USER_HZ`, 100 on all machines that prof is for).
const TICK: Duration = Duration::from_millis(10);

/// User and system time.
type CpuTime = (Duration, Duration);

/// CPU time before counting began, of what is counted.
pub(crate) struct ToolTimes<'a> {
    selection: &'a Selection,
    launched: Option<u32>,
    before: CpuTime,
}

impl<'a> ToolTimes<'a> {
    /// Takes the times; `launched` is the command's process.
    pub(crate) fn begin(selection: &'a Selection, launched: Option<u32>) -> Self {
        let mut times = Self {
            selection,
            launched,
            before: CpuTime::default(),
        };
        times.before = times.now();
        times
    }

    /// The counts so far, `elapsed` after the start.
    pub(crate) fn readings(
        &self,
        counters: &Counters,
        places: &[CountedIn],
        elapsed: Duration,
    ) -> anyhow::Result<Readings> {
        let mut readings = counters.read_each().context("cannot read the counters")?;
        if counters.iter().all(|counter| counter.tool().is_none()) {
            return Ok(readings);
        }
        let now = self.now();
        for (counter, reading) in counters.iter().zip(&mut readings) {
            let time = match counter.tool() {
                None => continue,
                Some(Tool::Duration) => elapsed,
                Some(Tool::User) => now.0.saturating_sub(self.before.0),
                Some(Tool::System) => now.1.saturating_sub(self.before.1),
            };
            // Of all together: as perf, at the first CPU or thread.
            *reading = vec![None; places.len()];
            if let Some(first) = reading.first_mut() {
                *first = Some(Reading::of_time(ns(time), ns(elapsed)));
            }
        }
        Ok(readings)
    }

    fn now(&self) -> CpuTime {
        match self.selection {
            // Of a command that has ended the exact time is known.
            Selection::Command => {
                let ended = children_cpu_time();
                let living = self.launched.map(of_process).unwrap_or_default();
                (ended.0 + living.0, ended.1 + living.1)
            }
            Selection::Processes(ids) | Selection::Threads(ids) => {
                let each = ids.iter().map(|&id| of_process(id));
                each.fold(CpuTime::default(), |all, one| {
                    (all.0 + one.0, all.1 + one.1)
                })
            }
            Selection::System | Selection::AllThreads => of_cpus(None),
            Selection::Cpus(cpus) => of_cpus(Some(cpus)),
        }
    }
}

fn ns(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// CPU time of a process and its children that have ended; of one that waits
/// to be told of none, since it is among our own.
fn of_process(pid: u32) -> CpuTime {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // Its name may hold anything, but no more parentheses follow.
    let fields: Vec<&str> = text
        .rsplit(')')
        .next()
        .unwrap_or_default()
        .split_whitespace()
        .collect();
    if matches!(fields.first(), None | Some(&"Z" | &"X")) {
        return CpuTime::default();
    }
    let ticks = |at: usize| {
        fields
            .get(at)
            .and_then(|text| text.parse::<u32>().ok())
            .unwrap_or(0)
    };
    (
        TICK * (ticks(11) + ticks(13)),
        TICK * (ticks(12) + ticks(14)),
    )
}

/// CPU time of these CPUs, or of all.
fn of_cpus(cpus: Option<&[u32]>) -> CpuTime {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let mut all = CpuTime::default();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let name = words.next().and_then(|name| name.strip_prefix("cpu"));
        let Some(Ok(cpu)) = name.map(str::parse::<u32>) else {
            continue;
        };
        if cpus.is_some_and(|cpus| !cpus.contains(&cpu)) {
            continue;
        }
        // user nice system idle iowait irq softirq
        let times: Vec<u32> = words.filter_map(|word| word.parse().ok()).collect();
        let ticks = |at: usize| TICK * times.get(at).copied().unwrap_or(0);
        all.0 += ticks(0) + ticks(1);
        all.1 += ticks(2) + ticks(5) + ticks(6);
    }
    all
}

//! When threads ran, and in which functions: the samples of CPU time laid over
//! the time between waits.

use super::lives::Lives;
use super::off::Off;
use prof_profile::{Event, Profile, StackId};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// A time when a thread ran without a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Run {
    /// ns.
    pub(super) begin: u64,
    /// ns.
    pub(super) end: u64,
    /// Time that the thread had run before, ns.
    before: u64,
    /// The CPU, where it is known.
    pub(super) cpu: Option<u32>,
}

/// What is known of how a thread ran.
#[derive(Debug, Default)]
struct Thread {
    runs: Vec<Run>,
    /// Samples by the time that the thread had run, ns. Each stands for what is
    /// nearer to it than to the others.
    samples: Vec<(u64, StackId)>,
}

/// How all threads ran.
#[derive(Debug, Default)]
pub(super) struct Runs {
    threads: BTreeMap<i32, Thread>,
    /// By CPU: begin, end and thread, in order.
    cpus: FxHashMap<u32, Vec<(u64, u64, i32)>>,
}

/// A sample of CPU time.
type Sampled = (u64, StackId);

impl Runs {
    /// Of the threads of a profile, from `begin` to `end`, ns.
    pub(super) fn of(profile: &Profile, lives: &Lives, (begin, end): (u64, u64)) -> Self {
        let mut runs = Self::default();
        let (mut sampled, mut ends) = events(profile);
        for wake in profile.wakes.iter().filter(|wake| !wake.in_interrupt) {
            let tid = profile.task(wake.task).tid;
            let last = ends.entry(tid).or_default();
            *last = (*last).max(wake.time);
        }
        for (tid, offs) in lives.threads().filter(|&(tid, _)| tid > 0) {
            let last = ends.get(&tid).copied().unwrap_or(0).min(end);
            let list = between(profile, offs, begin, last);
            for run in &list {
                if let Some(cpu) = run.cpu {
                    let of_cpu = runs.cpus.entry(cpu).or_default();
                    of_cpu.push((run.begin, run.end, tid));
                }
            }
            let samples = sampled.remove(&tid).unwrap_or_default();
            let samples = by_time_run(&list, samples);
            let thread = Thread {
                runs: list,
                samples,
            };
            runs.threads.insert(tid, thread);
        }
        for of_cpu in runs.cpus.values_mut() {
            of_cpu.sort_unstable();
        }
        runs
    }

    /// When a thread ran first and last, ns.
    pub(super) fn life(&self, tid: i32) -> Option<(u64, u64)> {
        let runs = &self.threads.get(&tid)?.runs;
        Some((runs.first()?.begin, runs.last()?.end))
    }

    /// Where a thread ran from `from` to `to`, ns: stack and time, ns. Time
    /// without any sample of the thread has the empty stack.
    pub(super) fn stacks(
        &self,
        tid: i32,
        (from, to): (u64, u64),
        mut each: impl FnMut(StackId, u64),
    ) {
        let Some(thread) = self.threads.get(&tid) else {
            return;
        };
        let (from, to) = (thread.run_until(from), thread.run_until(to));
        if thread.samples.is_empty() && from < to {
            return each(StackId::EMPTY, to - from);
        }
        // The sample before may be nearer than the first behind.
        let first = thread.samples.partition_point(|&(ran, _)| ran < from);
        let samples = thread.samples.iter().enumerate();
        for (index, &(_, stack)) in samples.skip(first.saturating_sub(1)) {
            let (begin, end) = thread.cell(index);
            if begin >= to {
                return;
            }
            let part = end.min(to).saturating_sub(begin.max(from));
            if part > 0 {
                each(stack, part);
            }
        }
    }

    /// Who ran on a CPU from `from` to `to`: thread and times, ns.
    pub(super) fn on_cpu(
        &self,
        cpu: u32,
        (from, to): (u64, u64),
    ) -> impl Iterator<Item = (i32, (u64, u64))> {
        let list = self.cpus.get(&cpu).map_or(&[][..], Vec::as_slice);
        let first = list.partition_point(|&(_, end, _)| end <= from);
        let inside = list.iter().skip(first);
        inside
            .take_while(move |&&(begin, ..)| begin < to)
            .map(move |&(begin, end, tid)| (tid, (begin.max(from), end.min(to))))
    }
}

impl Thread {
    /// How long it had run until `time`, ns.
    fn run_until(&self, time: u64) -> u64 {
        let behind = self.runs.partition_point(|run| run.begin <= time);
        let run = behind.checked_sub(1).and_then(|at| self.runs.get(at));
        run.map_or(0, |run| run.before + (time.min(run.end) - run.begin))
    }

    /// The time run that sample `index` stands for.
    fn cell(&self, index: usize) -> (u64, u64) {
        let at = |index: usize| self.samples.get(index).map(|&(ran, _)| ran);
        let own = at(index).unwrap_or(0);
        let middle = |other: u64| own.midpoint(other);
        let begin = index.checked_sub(1).and_then(at).map_or(0, middle);
        let end = at(index + 1).map_or(u64::MAX, middle);
        (begin, end)
    }
}

/// The samples of the first event of CPU time by thread, and the last time
/// that each thread was seen to run.
fn events(profile: &Profile) -> (FxHashMap<i32, Vec<Sampled>>, FxHashMap<i32, u64>) {
    let is_cpu_time = |event: &Event| event.weight_is_ns && !event.is_off_cpu;
    let event = profile.events.iter().position(is_cpu_time);
    let mut sampled: FxHashMap<i32, Vec<Sampled>> = FxHashMap::default();
    let mut ends: FxHashMap<i32, u64> = FxHashMap::default();
    for (row, sample) in profile.samples.iter().enumerate() {
        let tid = profile.task(sample.task).tid;
        let last = ends.entry(tid).or_default();
        *last = (*last).max(sample.time);
        let is_own = Some(usize::from(sample.event.0)) == event;
        if is_own && profile.samples.wait_at(row).is_none() {
            sampled
                .entry(tid)
                .or_default()
                .push((sample.time, sample.stack));
        }
    }
    (sampled, ends)
}

/// The times between waits. A thread that was not seen to begin ran from
/// `begin` on.
fn between(profile: &Profile, offs: &[Off], begin: u64, last: u64) -> Vec<Run> {
    let mut list = Vec::new();
    let (mut at, mut before, mut cpu) = (None, 0, None);
    let mut add = |from: Option<u64>, to: u64, cpu: Option<u32>| {
        let from = from.unwrap_or(to);
        if from < to {
            list.push(Run {
                begin: from,
                end: to,
                before,
                cpu,
            });
            before += to - from;
        }
    };
    for off in offs {
        let starts = off.state == prof_profile::WaitState::Started;
        let from = at.or((!starts).then_some(begin));
        add(from, off.begin, cpu);
        at = Some(at.unwrap_or(0).max(off.end));
        cpu = profile.samples.get(off.row).and_then(|sample| sample.cpu);
    }
    add(at, last, cpu);
    list
}

/// The samples by the time that their thread had run.
fn by_time_run(runs: &[Run], samples: Vec<Sampled>) -> Vec<(u64, StackId)> {
    let thread = Thread {
        runs: runs.to_vec(),
        samples: Vec::new(),
    };
    let ran = |(time, stack): Sampled| (thread.run_until(time), stack);
    let mut list: Vec<(u64, StackId)> = samples.into_iter().map(ran).collect();
    list.sort_by_key(|&(ran, _)| ran);
    list
}

//! Lanes: what each thread did all its life, as spans of time in which it ran,
//! waited for a CPU or was blocked.
//!
//! Waits are recorded one by one, so a thread runs wherever it does not wait:
//! the spans of a lane follow each other without gaps, and their sum is the
//! thread's life. That goes from its making (or the beginning of the recording)
//! to its end (or that of the recording).

use super::lives::Lives;
use super::off::Off;
use crate::model::Scene;
use prof_profile::{Lifetime, Profile, TaskId, WaitKind, WaitState};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// The state of a thread at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Doing {
    /// It has a CPU.
    Running,
    /// It only needs a CPU.
    Runnable,
    /// It waits for something of this kind.
    Blocked(WaitKind),
    /// It does not run, and nothing tells why.
    Unknown,
}

impl Doing {
    /// In words: `running`, `for a CPU`, `futex`.
    pub fn text(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Runnable => "for a CPU",
            Self::Blocked(WaitKind::Unknown) => "blocked (cause not known)",
            Self::Blocked(kind) => kind.text(),
            Self::Unknown => "not known",
        }
    }

    fn of(state: WaitState, kind: WaitKind) -> Self {
        match state {
            state if state.is_runnable() => Self::Runnable,
            WaitState::Unknown => Self::Unknown,
            _ => Self::Blocked(kind),
        }
    }
}

/// A time during which a thread stayed in one state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// ns.
    pub begin: u64,
    /// ns.
    pub end: u64,
    /// What it did.
    pub doing: Doing,
    /// The row of the wait that it is; `None` of a time in which it ran.
    pub row: Option<usize>,
}

impl Span {
    /// ns.
    pub fn length(&self) -> u64 {
        self.end.saturating_sub(self.begin)
    }
}

/// The states of one thread over the recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lane {
    /// The thread, by its last name.
    pub task: TaskId,
    /// Its process id.
    pub pid: i32,
    /// Its thread id.
    pub tid: i32,
    /// Without gaps, in the order of time.
    pub spans: Vec<Span>,
}

impl Lane {
    /// From when to when it lived, as far as that was recorded, ns.
    pub fn life(&self) -> (u64, u64) {
        let begin = self.spans.first().map_or(0, |span| span.begin);
        (begin, self.spans.last().map_or(begin, |span| span.end))
    }

    /// How long it was in each state, ns, longest first; the sum is its life.
    pub fn sums(&self) -> Vec<(Doing, u64)> {
        let mut sums: FxHashMap<Doing, u64> = FxHashMap::default();
        for span in &self.spans {
            let sum = sums.entry(span.doing).or_default();
            *sum = sum.saturating_add(span.length());
        }
        let mut list: Vec<_> = sums.into_iter().collect();
        list.sort_by_key(|&(doing, ns)| (std::cmp::Reverse(ns), doing));
        list
    }

    /// The spans that have a part between `begin` and `end`, ns.
    pub fn between(&self, begin: u64, end: u64) -> &[Span] {
        let first = self.spans.partition_point(|span| span.end <= begin);
        let behind = self.spans.partition_point(|span| span.begin < end);
        self.spans.get(first..behind).unwrap_or_default()
    }
}

/// The lanes of a recording.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lanes {
    /// By when they begin, then by thread id.
    pub list: Vec<Lane>,
    /// From when to when was recorded, ns.
    pub time: (u64, u64),
    /// The minimum length of recorded waits, as the recorder was told. Shorter
    /// waits count as running.
    pub at_least: Option<String>,
}

impl Lanes {
    /// The lanes of all threads with waits or samples; empty if no waits were
    /// recorded.
    pub fn of(profile: &Profile) -> Self {
        if !profile.samples.has_waits() {
            return Self::default();
        }
        let lives = Lives::of(profile);
        let Some(time) = recorded(profile, &lives) else {
            return Self::default();
        };
        let tasks = profile.last_tasks();
        let tids: BTreeSet<i32> = tasks.keys().copied().filter(|&tid| tid > 0).collect();
        let lane = |tid: i32| {
            let &task = tasks.get(&tid)?;
            let spans = spans(profile, tid, lives.thread(tid), time);
            let pid = profile.task(task).pid;
            (!spans.is_empty()).then_some(Lane {
                task,
                pid,
                tid,
                spans,
            })
        };
        let mut list: Vec<Lane> = tids.into_iter().filter_map(lane).collect();
        list.sort_by_key(|lane| (lane.life().0, lane.tid));
        Self {
            list,
            time,
            at_least: shortest(&profile.origin.command_line),
        }
    }

    /// The lanes of the threads that a scene's filters keep; its time ranges do
    /// not apply.
    pub fn of_scene(scene: &Scene<'_>) -> Self {
        let profile = scene.profile();
        let mut lanes = Self::of(profile);
        let shown = scene.shown_cells();
        let kept = profile.samples.iter();
        let kept = kept.filter(|it| shown.contains(it.task, it.cpu, it.stack));
        let kept: BTreeSet<i32> = kept.map(|it| profile.task(it.task).tid).collect();
        lanes.list.retain(|lane| kept.contains(&lane.tid));
        lanes
    }
}

/// What a recorder's `--off-cpu-min` was.
fn shortest(command: &[String]) -> Option<String> {
    const OPTION: &str = "--off-cpu-min";
    let at = command.iter().position(|word| word.starts_with(OPTION))?;
    let word = command.get(at)?;
    match word.strip_prefix(OPTION)?.strip_prefix('=') {
        Some(value) => Some(value.to_owned()),
        None => command.get(at + 1).cloned(),
    }
}

/// From when to when anything was recorded, ns.
fn recorded(profile: &Profile, lives: &Lives) -> Option<(u64, u64)> {
    let times = || profile.samples.times().filter(|&time| time > 0);
    let begins = lives
        .threads()
        .filter_map(|(_, offs)| Some(offs.first()?.begin));
    let lifetimes = || profile.lifetimes.values();
    let first = times().chain(begins);
    let first = first
        .chain(lifetimes().filter_map(|life| life.began))
        .min()?;
    let last = times()
        .chain(lifetimes().filter_map(|life| life.ended))
        .max()?;
    Some((first, last))
}

/// The spans of a thread.
fn spans(profile: &Profile, tid: i32, offs: &[Off], (first, last): (u64, u64)) -> Vec<Span> {
    let life: Lifetime = profile.lifetimes.get(&tid).copied().unwrap_or_default();
    let mut at = life.began.unwrap_or(first);
    // A thread is made before it is told to be; its wait for a CPU begins then.
    at = offs.first().map_or(at, |off| at.min(off.begin));
    let mut spans: Vec<Span> = Vec::with_capacity(2 * offs.len() + 1);
    let mut push = |end: u64, (doing, row): (Doing, Option<usize>)| {
        if end > at {
            spans.push(Span {
                begin: at,
                end,
                doing,
                row,
            });
            at = end;
        }
    };
    for off in offs {
        push(off.begin, (Doing::Running, None));
        let kind = profile.samples.wait_at(off.row).map(|wait| wait.kind);
        let doing = Doing::of(off.state, kind.unwrap_or_default());
        push(off.end, (doing, Some(off.row)));
    }
    push(life.ended.unwrap_or(last), (Doing::Running, None));
    spans
}

#[cfg(test)]
mod tests {
    use super::{Doing, Lanes};
    use crate::waiting::tests::Run;
    use prof_profile::{Lifetime, WaitKind, WaitState};

    const MS: u64 = 1_000_000;

    #[test]
    fn a_thread_runs_where_it_does_not_wait_and_its_spans_are_its_life() {
        let mut run = Run::new(&[(1, "main"), (2, "worker")]);
        run.waits(1, WaitState::Blocked, WaitKind::Futex, (2, 8));
        run.waits(2, WaitState::Started, WaitKind::Cpu, (3, 4));
        run.waits(2, WaitState::Blocked, WaitKind::Futex, (5, 6));
        let mut profile = run.profile(10);
        profile.lifetimes.insert(
            2,
            Lifetime {
                began: Some(3 * MS),
                ended: Some(7 * MS),
            },
        );
        let lanes = Lanes::of(&profile);
        let lane = |tid: i32| lanes.list.iter().find(|lane| lane.tid == tid).expect("one");
        let worker = lane(2);
        assert_eq!(worker.life(), (3 * MS, 7 * MS));
        let doing: Vec<(Doing, u64)> = worker
            .spans
            .iter()
            .map(|it| (it.doing, it.length() / MS))
            .collect();
        let blocked = Doing::Blocked(WaitKind::Futex);
        assert_eq!(
            doing,
            [
                (Doing::Runnable, 1),
                (Doing::Running, 1),
                (blocked, 1),
                (Doing::Running, 1),
            ]
        );
        for lane in &lanes.list {
            let (begin, end) = lane.life();
            let sum: u64 = lane.sums().iter().map(|&(_, ns)| ns).sum();
            assert_eq!(sum, end - begin);
        }
        let inside = worker.between(4 * MS, 5 * MS + 1);
        assert_eq!(inside.len(), 2);
    }
}

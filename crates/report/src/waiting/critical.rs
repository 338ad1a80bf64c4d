//! The critical path: the chain of running and waiting that set the elapsed
//! time.
//!
//! It is followed backwards from the end. While the thread ran, that is the
//! path; where it had been woken, the path goes on in the thread that woke it,
//! at that time; where a time or a device ended its wait, the wait is the path:
//!
//! ```text
//!  A  ═══════╗ wait ╔═══► end        ═ the path
//!  B  ──wait─╨══════╝                  B was woken by A, A by B
//! ```

use super::kept::Kept;
use super::lives::Lives;
use super::off::Off;
use super::runs::Runs;
use prof_profile::{Profile, WaitState};
use rustc_hash::FxHashMap;

/// A thread that wakes others more than once in so many of its ticks does its work then.
const SERVES: usize = 3;
/// The last such part of the elapsed time is its end, or so long, ns.
const AT_THE_END: u64 = 200;
const MS: u64 = 1_000_000;

/// What a thread did on the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Doing {
    /// It ran.
    Running,
    /// It waited for a CPU: row of the sample.
    Runnable(usize),
    /// It waited for what no recorded thread did: row of the sample.
    Blocked(usize),
}

/// A piece of the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Step {
    /// The thread.
    pub(super) tid: i32,
    /// From when until when, ns.
    pub(super) from: u64,
    /// ns.
    pub(super) to: u64,
    /// What it did.
    pub(super) doing: Doing,
}

/// Where the path came from another thread, while this one had been waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Join {
    /// The thread that had waited.
    pub(super) waited: i32,
    /// Row of its wait.
    pub(super) row: usize,
    /// The thread that it waited for.
    pub(super) on: i32,
    /// How much later its own path would have had to be to be as long, ns: how
    /// long it waited.
    pub(super) slack: u64,
    /// When it went on, ns.
    pub(super) at: u64,
}

/// The path.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Path {
    /// First to last.
    pub(super) steps: Vec<Step>,
    /// Changes of thread, first to last.
    pub(super) joins: Vec<Join>,
    /// When the run began and ended, ns.
    pub(super) begin: u64,
    /// ns.
    pub(super) end: u64,
}

impl Path {
    /// How long the run was, ns.
    pub(super) fn elapsed(&self) -> u64 {
        self.end.saturating_sub(self.begin)
    }
}

/// A profile in which paths are followed.
pub(super) struct Ways<'p> {
    pub(super) profile: &'p Profile,
    pub(super) lives: Lives,
    pub(super) runs: Runs,
    pub(super) begin: u64,
    pub(super) end: u64,
    /// The thread that was the last one.
    last: i32,
    /// How often threads woke others that are known.
    wakes_by: FxHashMap<i32, usize>,
}

impl<'p> Ways<'p> {
    /// Of the time of what is kept, by its threads and all that they waited for; `None`
    /// if no thread was seen to wait or to be woken.
    pub(super) fn of(profile: &'p Profile, kept: &Kept) -> Option<Self> {
        let lives = Lives::of(profile);
        let (begin, end, last) = bounds(profile, &lives, kept)?;
        let mut wakes_by = FxHashMap::default();
        for wake in profile.wakes.iter().filter(|wake| !wake.in_interrupt) {
            if !lives.thread(wake.woken).is_empty() {
                *wakes_by.entry(profile.task(wake.task).tid).or_default() += 1;
            }
        }
        let mut ways = Self {
            wakes_by,
            profile,
            runs: Runs::of(profile, &lives, (begin, end)),
            lives,
            begin,
            end,
            last,
        };
        if ways.was_asleep_at_the_end(last) {
            ways.last = ways.last_awake().unwrap_or(last);
        }
        Some(ways)
    }

    /// Whether nothing is known of who ended the last wait of a thread, which was at
    /// the end: the end of its process did.
    fn was_asleep_at_the_end(&self, tid: i32) -> bool {
        let mut offs = self.lives.thread(tid).iter().rev();
        let blocked = offs.find(|off| off.state == WaitState::Blocked);
        blocked.is_some_and(|off| {
            off.end >= self.near_the_end() && self.thread_that_ended(tid, off).is_none()
        })
    }

    /// What comes later is part of the end.
    fn near_the_end(&self) -> u64 {
        let elapsed = self.end.saturating_sub(self.begin);
        self.end.saturating_sub((elapsed / AT_THE_END).max(MS))
    }

    /// The last thread that did something near the end of which it is known why.
    fn last_awake(&self) -> Option<i32> {
        let threads = self.lives.threads().filter(|&(tid, _)| tid > 0);
        let ends = threads.filter_map(|(tid, _)| Some((self.runs.life(tid)?.1, tid)));
        let near = ends.filter(|&(end, _)| end >= self.near_the_end());
        let awake = near.filter(|&(_, tid)| !self.was_asleep_at_the_end(tid));
        awake.max().map(|(_, tid)| tid)
    }

    /// Follows the path.
    pub(super) fn path(&self) -> Path {
        let (mut tid, mut at) = (self.last, self.end);
        let (mut steps, mut joins) = (Vec::new(), Vec::new());
        // Each step goes back in time or takes up another wait of that time.
        let mut left = self.profile.samples.len() + self.profile.wakes.len() + 2;
        while at > self.begin && left > 0 {
            left -= 1;
            let Some(off) = last_before(self.lives.thread(tid), at) else {
                push(&mut steps, tid, (self.begin, at), Doing::Running);
                break;
            };
            push(&mut steps, tid, (off.end.min(at), at), Doing::Running);
            at = at.min(off.end);
            let Some((next, when)) = self.before(tid, off, at, &mut steps) else {
                break;
            };
            if next != tid {
                joins.push(Join {
                    waited: tid,
                    row: off.row,
                    on: next,
                    slack: when.saturating_sub(off.begin),
                    at,
                });
            }
            (tid, at) = (next, when);
        }
        steps.reverse();
        joins.reverse();
        Path {
            steps,
            joins,
            begin: self.begin,
            end: self.end,
        }
    }

    /// What came before a wait that ended at `at`: thread and time.
    fn before(&self, tid: i32, off: &Off, at: u64, steps: &mut Vec<Step>) -> Option<(i32, u64)> {
        let step = (off.begin, at);
        match off.state {
            WaitState::Started => {
                push(steps, tid, step, Doing::Runnable(off.row));
                Some((self.parent(tid)?, off.begin))
            }
            state if state.is_runnable() => {
                push(steps, tid, step, Doing::Runnable(off.row));
                Some((tid, off.begin))
            }
            _ => match self.thread_that_ended(tid, off) {
                Some((waker, time)) => {
                    // Where the two were not told apart; or until it looked again.
                    let doing = match off.is_tick(self.profile) {
                        true => Doing::Blocked(off.row),
                        false => Doing::Runnable(off.row),
                    };
                    push(steps, tid, (time, at), doing);
                    Some((waker, time.min(at)))
                }
                None => {
                    push(steps, tid, step, Doing::Blocked(off.row));
                    Some((tid, off.begin))
                }
            },
        }
    }

    /// The thread that was the last to do something.
    pub(super) fn last_thread(&self) -> i32 {
        self.last
    }

    /// The thread that made another one.
    pub(super) fn parent(&self, tid: i32) -> Option<i32> {
        let parent = self.profile.thread(tid)?.parent;
        parent.filter(|&parent| parent > 0 && parent != tid)
    }

    /// How long a thread ran or could have in these times, ns: all of its life
    /// there but what it was blocked.
    pub(super) fn busy(&self, tid: i32, (from, to): (u64, u64)) -> u64 {
        let (first, last) = self.runs.life(tid).unwrap_or_default();
        let (from, to) = (from.max(first), to.min(last));
        let within = |off: &Off| off.end.min(to).saturating_sub(off.begin.max(from));
        let blocked = self.lives.thread(tid).iter();
        let blocked = blocked.filter(|off| !off.state.is_runnable()).map(within);
        to.saturating_sub(from).saturating_sub(blocked.sum::<u64>())
    }

    /// The recorded thread that ended a wait, and when: who woke it, or of those that
    /// a time ended, who it looked for.
    pub(super) fn thread_that_ended(&self, tid: i32, off: &Off) -> Option<(i32, u64)> {
        self.thread_that_woke(tid, off)
            .or_else(|| self.looked_for(tid, off))
    }

    /// The recorded thread that woke one, and when. Not one that only looked every so
    /// often whether it is to go on, if the wait began while it did for the last time:
    /// it was told by who waits for it.
    pub(super) fn thread_that_woke(&self, tid: i32, off: &Off) -> Option<(i32, u64)> {
        let wake = self.profile.wakes.get(off.wake?)?;
        let waker = self.profile.task(wake.task).tid;
        let is_known = !self.lives.thread(waker).is_empty();
        if wake.in_interrupt || waker == tid || !is_known {
            return None;
        }
        let tick = self.last_tick(waker, wake.time);
        let is_told = tick.is_some_and(|tick| tick.begin <= off.begin) && !self.serves(waker);
        (!is_told).then_some((waker, wake.time))
    }

    /// Whether a thread wakes others about as often as a time wakes it: it does something
    /// for them each time.
    fn serves(&self, tid: i32) -> bool {
        let waits = self.lives.thread(tid).iter();
        let ticks = waits.filter(|off| off.is_tick(self.profile)).count();
        let wakes = self.wakes_by.get(&tid).copied().unwrap_or(0);
        wakes * SERVES > ticks
    }

    /// The last time that a thread was blocked before `at`, if a time ended that as it
    /// had others before.
    pub(super) fn last_tick(&self, tid: i32, at: u64) -> Option<&Off> {
        let offs = self.lives.thread(tid);
        let before = offs.partition_point(|off| off.begin < at);
        let before = offs.get(..before)?.iter().rev();
        let blocked = { before }.find(|off| off.state == WaitState::Blocked)?;
        (blocked.end <= at && blocked.is_tick(self.profile)).then_some(blocked)
    }

    /// Of the last of several waits in a row that a time ended: the thread of its
    /// process that was the last to do something meanwhile, for good, and when.
    pub(super) fn looked_for(&self, tid: i32, off: &Off) -> Option<(i32, u64)> {
        let offs = self.lives.thread(tid);
        let behind = offs.partition_point(|other| other.begin <= off.begin);
        let mut next = offs.iter().skip(behind);
        let next = next.find(|other| other.state == WaitState::Blocked);
        let is_last = next.is_none_or(|next| next.since > off.begin);
        if !is_last || !off.is_tick(self.profile) {
            return None;
        }
        let process = self.profile.thread(tid)?.pid;
        let threads = self.lives.threads().map(|(other, _)| other);
        let ends = threads.filter_map(|other| {
            let is_near = other != tid && self.profile.thread(other)?.pid == process;
            let (_, end) = self.runs.life(other).filter(|_| is_near)?;
            (off.begin < end && end <= off.end).then_some((other, end))
        });
        ends.max_by_key(|&(_, end)| end)
    }
}

/// The last wait that began before `at`.
fn last_before(offs: &[Off], at: u64) -> Option<&Off> {
    let behind = offs.partition_point(|off| off.begin < at);
    offs.get(behind.checked_sub(1)?)
}

/// Adds a step that has a length; steps are added backwards.
fn push(steps: &mut Vec<Step>, tid: i32, (from, to): (u64, u64), doing: Doing) {
    if from < to {
        steps.push(Step {
            tid,
            from,
            to,
            doing,
        });
    }
}

/// When what is kept began and ended, and the thread of it that was the last to do
/// something.
fn bounds(profile: &Profile, lives: &Lives, kept: &Kept) -> Option<(u64, u64, i32)> {
    let threads = (!kept.is_all()).then(|| kept.threads(profile));
    let is_known = |tid: i32| {
        let is_kept = threads
            .as_ref()
            .is_none_or(|threads| threads.contains(&tid));
        is_kept && tid > 0 && !lives.thread(tid).is_empty()
    };
    let (mut begin, mut last) = (u64::MAX, (0, 0));
    if kept.is_all() {
        let firsts = lives.threads().filter_map(|(_, offs)| offs.first());
        begin = firsts.map(|off| off.begin).min()?;
    }
    for (row, sample) in profile.samples.iter().enumerate() {
        let tid = profile.task(sample.task).tid;
        let wait = profile.samples.wait_at(row);
        if !is_known(tid) || !kept.has(row) {
            continue;
        }
        let length = profile.samples.wait_length(row).unwrap_or(0);
        begin = begin.min(sample.time.saturating_sub(length));
        // One that is not over says nothing of the end.
        if wait.is_none_or(|wait| !wait.is_open) {
            last = last.max((sample.time, tid));
        }
    }
    for wake in profile.wakes.iter().filter(|wake| !wake.in_interrupt) {
        let tid = profile.task(wake.task).tid;
        if is_known(tid) && kept.holds_time(wake.time) {
            last = last.max((wake.time, tid));
            begin = begin.min(wake.time);
        }
    }
    (last.0 > begin).then_some((begin, last.0, last.1))
}

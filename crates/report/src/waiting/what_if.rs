//! What the elapsed time would be if a function took less: the run is played
//! again with shorter times where that function ran.
//!
//! Assumed: each thread does the same in the same order, is woken by the same
//! thread at the same point of its work, and goes on at once if what it waits for
//! is done before it gets there. Whoever made a thread that ended waits for its
//! end, also where it was over before that (`pthread_join` of a thread that has
//! ended is no wait). Times that no recorded thread ended (timers,
//! devices) stay as long, but that of several in a row at one place (a thread that
//! looks every 20 ms) there are as many as it takes. A wait for a CPU is as long as what ran there meanwhile;
//! where that was not recorded, other programs took the CPU, which they do as often
//! for the same CPU time of the thread: the shorter it runs, the shorter it waits.

use super::critical::Ways;
use super::off::Off;
use prof_profile::{StackId, WaitState};
use rustc_hash::FxHashMap;

/// An estimate of the elapsed time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Estimate {
    /// As it was, ns.
    pub(super) elapsed: u64,
    /// As it would be, ns.
    pub(super) estimate: f64,
    /// Half of the width of the 95 % interval, ns.
    pub(super) margin: f64,
    /// How long the function ran, in all threads, ns.
    pub(super) function_ns: f64,
    /// Samples in it.
    pub(super) samples: usize,
}

/// What differs from run to run and is not modelled, as a share of the elapsed
/// time.
const MODEL: f64 = 0.015;
/// How much other programs take differs from run to run: this share of what is
/// won by waiting for them less.
const OTHERS: f64 = 0.5;
/// And which of several branches is the longest: this share of the elapsed time,
/// where they had the CPUs all the time.
const BRANCHES: f64 = 0.07;
/// And which of the program's own threads has a CPU when: this share of the elapsed
/// time, if they waited for each other's all the time.
const TURNS: f64 = 0.2;
/// What is not in the function takes so much more or less in another run, which may
/// make another branch the longest.
const REST: f64 = 0.05;
/// The most that half of the interval is, as a share of the elapsed time: 5 %,
/// rounded to whole ns.
const MOST: f64 = 0.0499;

/// Time that a thread ran, ns: as it was, and as it would be.
#[derive(Debug, Clone, Copy, Default)]
struct Ran {
    was: f64,
    would: f64,
}

impl Ran {
    /// How much of what it was it would be.
    fn ratio(self) -> f64 {
        match self.was > 0.0 {
            true => self.would / self.was,
            false => 1.0,
        }
    }
}

/// How long waits for a CPU that other programs had are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Others {
    /// As they were.
    Stay,
    /// In proportion to what the thread ran before.
    Scale,
}

/// A moment of a thread: as it was, ns, and as it would be.
#[derive(Debug, Clone, Copy)]
struct At {
    was: u64,
    would: f64,
}

/// The run, played again.
struct Replay<'w, 'p> {
    ways: &'w Ways<'p>,
    /// Of each stack: how long it takes of what it took.
    scale: FxHashMap<StackId, f64>,
    factor: f64,
    /// And of what is not in the function.
    rest: f64,
    is_in: &'w dyn Fn(StackId) -> bool,
    others: Others,
    at: FxHashMap<i32, At>,
    /// What threads ran since they last lost their CPUs.
    ran: FxHashMap<i32, Ran>,
    /// When a wake would be, by its place in `Profile::wakes`.
    wakes: FxHashMap<usize, f64>,
    /// When a thread would be made, by its id.
    made: FxHashMap<i32, f64>,
    /// By who made them: threads that ended.
    ended: FxHashMap<i32, Vec<Ended>>,
    /// When threads would do something for the last time.
    ends: FxHashMap<i32, f64>,
    /// When a thread would begin to wait at a place where it waits again and again, by
    /// when it did, ns.
    arrived: FxHashMap<(i32, u64), f64>,
}

/// A thread that ended.
#[derive(Debug, Clone, Copy)]
struct Ended {
    at: At,
    /// What begins to wait from then on has told it to end, ns.
    told_from: u64,
}

/// Something that happens to a thread, in the order in which it is played.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Happens {
    /// It makes a thread.
    Makes(i32),
    /// It wakes one: place in `Profile::wakes`.
    Wakes(usize),
    /// It ends.
    Ends,
    /// A wait of it is over: place among its waits.
    GoesOn(usize),
}

/// The elapsed time if what the stacks of `is_in` took were `factor` of that.
pub(super) fn estimate(ways: &Ways<'_>, is_in: &dyn Fn(StackId) -> bool, factor: f64) -> Estimate {
    let played = |factor: f64, others: Others, rest: f64| {
        let mut replay = Replay {
            ways,
            scale: FxHashMap::default(),
            factor,
            rest,
            is_in,
            others,
            at: FxHashMap::default(),
            ran: FxHashMap::default(),
            wakes: FxHashMap::default(),
            made: FxHashMap::default(),
            ended: FxHashMap::default(),
            ends: FxHashMap::default(),
            arrived: FxHashMap::default(),
        };
        replay.play()
    };
    let elapsed = ways.end.saturating_sub(ways.begin);
    // What playing it unchanged differs by is no effect of the function.
    let effect = |others: Others, rest: f64| {
        let unchanged = played(1.0, Others::Stay, rest);
        played(factor, others, rest) - unchanged
    };
    let scaled = effect(Others::Scale, 1.0);
    let stayed = effect(Others::Stay, 1.0);
    let [less, more] = [1.0 - REST, 1.0 + REST].map(|rest| effect(Others::Stay, rest));
    let estimate = elapsed as f64 + scaled;
    let (function_ns, samples) = in_function(ways, is_in);
    let saved = (elapsed as f64 - estimate).abs();
    let relative = 1.96 / (samples.max(1) as f64).sqrt();
    let sampling = saved * relative.min(1.0);
    let waited = waited_for_cpus(ways);
    let share = MODEL
        .max(BRANCHES * waited.others)
        .hypot(TURNS * waited.own);
    let model = (share * elapsed as f64).hypot(OTHERS * (scaled - stayed));
    let branch = (stayed - less).abs().max((stayed - more).abs());
    let margin = sampling.hypot(model).hypot(branch);
    let margin = margin.min(MOST * elapsed as f64);
    Estimate {
        elapsed,
        estimate,
        margin,
        function_ns,
        samples,
    }
}

/// Shares of the time in which threads ran or could have.
#[derive(Debug, Clone, Copy, PartialEq)]
struct WaitedForCpus {
    /// In which other programs had the CPU.
    others: f64,
    /// In which threads of the program had it.
    own: f64,
}

fn waited_for_cpus(ways: &Ways<'_>) -> WaitedForCpus {
    let (mut by_others, mut by_own, mut ran) = (0_u64, 0_u64, 0_u64);
    for (tid, offs) in ways.lives.threads().filter(|&(tid, _)| tid > 0) {
        ways.runs.stacks(tid, (ways.begin, ways.end), |_, ns| {
            ran = ran.saturating_add(ns);
        });
        for off in offs.iter().filter(|off| off.state.is_runnable()) {
            let sample = ways.profile.samples.get(off.row);
            let cpu = sample.and_then(|sample| sample.cpu);
            let own: u64 = cpu.map_or(0, |cpu| {
                let there = ways.runs.on_cpu(cpu, (off.begin, off.end));
                there.fold(0, |sum, (_, (from, to))| {
                    sum.saturating_add(to.saturating_sub(from))
                })
            });
            let waited = off.end.saturating_sub(off.begin);
            by_own = by_own.saturating_add(own.min(waited));
            by_others = by_others.saturating_add(waited.saturating_sub(own));
        }
    }
    let all = by_others.saturating_add(by_own).saturating_add(ran).max(1) as f64;
    WaitedForCpus {
        others: by_others as f64 / all,
        own: by_own as f64 / all,
    }
}

/// How long such stacks ran, and how many samples that rests on.
fn in_function(ways: &Ways<'_>, is_in: &dyn Fn(StackId) -> bool) -> (f64, usize) {
    let (mut all, mut of_function, mut samples) = (0_u64, 0_u64, 0);
    for (tid, _) in ways.lives.threads() {
        let whole = (ways.begin, ways.end);
        ways.runs.stacks(tid, whole, |stack, ns| {
            all = all.saturating_add(ns);
            if is_in(stack) {
                of_function = of_function.saturating_add(ns);
                samples += 1;
            }
        });
    }
    (of_function.min(all) as f64, samples)
}

impl Replay<'_, '_> {
    /// When the last thread would be at the end, from the beginning, ns.
    fn play(&mut self) -> f64 {
        for (time, tid, happens) in self.happenings() {
            let offs = self.ways.lives.thread(tid);
            match happens {
                Happens::Makes(child) => {
                    let would = self.run_to(tid, time);
                    self.made.insert(child, would);
                }
                Happens::Wakes(index) => {
                    let would = self.run_to(tid, time);
                    self.wakes.insert(index, would);
                }
                Happens::Ends => {
                    let would = self.run_to(tid, time);
                    self.ends.insert(tid, would);
                    let tick = self.ways.last_tick(tid, time);
                    if let Some(parent) = self.ways.parent(tid) {
                        self.ended.entry(parent).or_default().push(Ended {
                            at: At { was: time, would },
                            told_from: tick.map_or(u64::MAX, |tick| tick.begin),
                        });
                    }
                }
                Happens::GoesOn(place) => {
                    if let Some(off) = offs.get(place) {
                        self.goes_on(tid, off);
                    }
                }
            }
        }
        let ways = self.ways;
        self.run_to(ways.last_thread(), ways.end) - ways.begin as f64
    }

    /// What happens, in the order of time; of equal times causes come first.
    fn happenings(&self) -> Vec<(u64, i32, Happens)> {
        let ways = self.ways;
        let mut list = Vec::new();
        for (tid, offs) in ways.lives.threads() {
            if let Some((_, end)) = ways.runs.life(tid).filter(|&(_, end)| end < ways.end) {
                list.push((end, tid, Happens::Ends));
            }
            for (place, off) in offs.iter().enumerate() {
                if off.end > ways.end {
                    continue;
                }
                list.push((off.end, tid, Happens::GoesOn(place)));
                if off.state == WaitState::Started
                    && let Some(parent) = ways.parent(tid)
                {
                    list.push((off.begin, parent, Happens::Makes(tid)));
                }
                if let Some((waker, time)) = ways.thread_that_woke(tid, off)
                    && let Some(index) = off.wake
                {
                    list.push((time, waker, Happens::Wakes(index)));
                }
            }
        }
        list.sort_by_key(|&(time, tid, happens)| (time, happens, tid));
        list
    }

    /// Has a thread run until `time`: when that would be.
    fn run_to(&mut self, tid: i32, time: u64) -> f64 {
        let begin = self.ways.begin;
        let at = *self.at.entry(tid).or_insert(At {
            was: begin,
            would: begin as f64,
        });
        if time <= at.was {
            return at.would;
        }
        let ran = self.ran(tid, (at.was, time));
        let since = self.ran.entry(tid).or_default();
        since.was += ran.was;
        since.would += ran.would;
        let would = at.would + ran.would;
        self.at.insert(tid, At { was: time, would });
        would
    }

    /// How long a thread ran in these times, and would run in what it did there.
    fn ran(&mut self, tid: i32, times: (u64, u64)) -> Ran {
        let (scale, is_in) = (&mut self.scale, self.is_in);
        let (factor, rest) = (self.factor, self.rest);
        let mut sum = Ran::default();
        self.ways.runs.stacks(tid, times, |stack, ns| {
            let of_stack = scale.entry(stack);
            let of_stack = of_stack.or_insert_with(|| if is_in(stack) { factor } else { rest });
            sum.was += ns as f64;
            sum.would += ns as f64 * *of_stack;
        });
        sum
    }

    /// A wait of a thread is over.
    fn goes_on(&mut self, tid: i32, off: &Off) {
        let would = match off.state {
            WaitState::Started => {
                let made = self.made.get(&tid).copied();
                made.unwrap_or(off.begin as f64) + self.for_cpu(off, 1.0)
            }
            WaitState::Preempted => {
                let arrived = self.run_to(tid, off.begin);
                let ran = self.ran.remove(&tid).unwrap_or_default();
                let ratio = match self.others {
                    Others::Scale => ran.ratio(),
                    Others::Stay => 1.0,
                };
                arrived + self.for_cpu(off, ratio)
            }
            state if state.is_runnable() => self.run_to(tid, off.begin) + self.for_cpu(off, 1.0),
            _ => self.unblocked(tid, off),
        };
        let was = off.end;
        self.at.insert(tid, At { was, would });
    }

    /// When a thread that was blocked would go on.
    fn unblocked(&mut self, tid: i32, off: &Off) -> f64 {
        let ways = self.ways;
        let length = off.end.saturating_sub(off.begin) as f64;
        let arrived = self.run_to(tid, off.begin);
        if off.ticks == 0 {
            self.arrived.insert((tid, off.begin), arrived);
        }
        // How often it waits until then follows from when that is.
        let first = self.arrived.get(&(tid, off.since)).copied();
        let first = first.unwrap_or(arrived);
        let woken = off.wake.and_then(|index| self.wakes.get(&index));
        let looked = ways.looked_for(tid, off).filter(|_| woken.is_none());
        let looked = looked.and_then(|(other, time)| Some((*self.ends.get(&other)?, time)));
        let would = match (woken, looked) {
            // What is left of the wait after the wake is for a CPU.
            (Some(&woken), _) => first.max(woken) + self.after_wake(off),
            (None, Some((ended, time))) => first.max(ended) + off.end.saturating_sub(time) as f64,
            (None, None) => arrived + length,
        };
        let ended = self.ended.get(&tid).into_iter().flatten();
        let waited_for = |it: &&Ended| it.at.was <= off.end && off.begin < it.told_from;
        let before = ended.filter(waited_for);
        before.fold(would, |would, it| would.max(it.at.would))
    }

    /// How long a wait went on after who waited was woken, ns.
    fn after_wake(&self, off: &Off) -> f64 {
        let wakes = &self.ways.profile.wakes;
        let wake = off.wake.and_then(|index| wakes.get(index));
        wake.map_or(0.0, |wake| off.end.saturating_sub(wake.time) as f64)
    }

    /// How long a wait for a CPU would be: as long as what ran there, and `others`
    /// times what was not recorded.
    fn for_cpu(&mut self, off: &Off, others: f64) -> f64 {
        let length = off.end.saturating_sub(off.begin) as f64;
        let cpu = self
            .ways
            .profile
            .samples
            .get(off.row)
            .and_then(|row| row.cpu);
        let Some(cpu) = cpu else {
            return length * others;
        };
        let on_cpu: Vec<_> = self.ways.runs.on_cpu(cpu, (off.begin, off.end)).collect();
        let (mut was, mut would) = (0.0, 0.0);
        for (tid, (from, to)) in on_cpu {
            was += to.saturating_sub(from) as f64;
            would += self.ran(tid, (from, to)).would;
        }
        (length - was).max(0.0) * others + would
    }
}

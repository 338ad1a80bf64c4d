//! What the elapsed time would be if a function took less: the run is played
//! again with shorter times where that function ran.
//!
//! Assumed: each thread does the same in the same order, is woken by the same
//! thread at the same point of its work, and goes on at once if what it waits for
//! is done before it gets there. Whoever made a thread that ended waits for its
//! end, also where it was over before that (`pthread_join` of a thread that has
//! ended is no wait). Times that no recorded thread ended (timers,
//! devices) stay as long. A wait for a CPU is as long as what ran there meanwhile.

use super::critical::Ways;
use super::lives::Off;
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
    is_in: &'w dyn Fn(StackId) -> bool,
    at: FxHashMap<i32, At>,
    /// When a wake would be, by its place in `Profile::wakes`.
    wakes: FxHashMap<usize, f64>,
    /// When a thread would be made, by its id.
    made: FxHashMap<i32, f64>,
    /// By who made them: when threads ended, ns, and would end.
    ended: FxHashMap<i32, Vec<(u64, f64)>>,
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
    let played = |factor: f64| {
        let mut replay = Replay {
            ways,
            scale: FxHashMap::default(),
            factor,
            is_in,
            at: FxHashMap::default(),
            wakes: FxHashMap::default(),
            made: FxHashMap::default(),
            ended: FxHashMap::default(),
        };
        replay.play()
    };
    let elapsed = ways.end - ways.begin;
    // What playing it unchanged differs by is no effect of the function.
    let estimate = elapsed as f64 + (played(factor) - played(1.0));
    let (function_ns, samples) = in_function(ways, is_in);
    let saved = (elapsed as f64 - estimate).abs();
    let relative = 1.96 / (samples.max(1) as f64).sqrt();
    let sampling = saved * relative.min(1.0);
    Estimate {
        elapsed,
        estimate,
        margin: sampling.hypot(MODEL * elapsed as f64),
        function_ns,
        samples,
    }
}

/// How long such stacks ran, and how many samples that rests on.
fn in_function(ways: &Ways<'_>, is_in: &dyn Fn(StackId) -> bool) -> (f64, usize) {
    let (mut all, mut of_function, mut samples) = (0_u64, 0_u64, 0);
    for (tid, _) in ways.lives.threads() {
        let whole = (ways.begin, ways.end);
        ways.runs.stacks(tid, whole, |stack, ns| {
            all += ns;
            if is_in(stack) {
                of_function += ns;
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
                    if let Some(parent) = self.ways.parent(tid) {
                        self.ended.entry(parent).or_default().push((time, would));
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
        let would = at.would + self.scaled(tid, (at.was, time));
        self.at.insert(tid, At { was: time, would });
        would
    }

    /// How long a thread would run in what it did in these times, ns.
    fn scaled(&mut self, tid: i32, times: (u64, u64)) -> f64 {
        let (scale, is_in, factor) = (&mut self.scale, self.is_in, self.factor);
        let mut sum = 0.0;
        self.ways.runs.stacks(tid, times, |stack, ns| {
            let of_stack = scale.entry(stack);
            let of_stack = of_stack.or_insert_with(|| if is_in(stack) { factor } else { 1.0 });
            sum += ns as f64 * *of_stack;
        });
        sum
    }

    /// A wait of a thread is over.
    fn goes_on(&mut self, tid: i32, off: &Off) {
        let length = (off.end - off.begin) as f64;
        let would = match off.state {
            WaitState::Started => {
                let made = self.made.get(&tid).copied();
                made.unwrap_or(off.begin as f64) + self.for_cpu(off)
            }
            state if state.is_runnable() => self.run_to(tid, off.begin) + self.for_cpu(off),
            _ => {
                let arrived = self.run_to(tid, off.begin);
                let woken = off.wake.and_then(|index| self.wakes.get(&index));
                let would = match woken {
                    // What is left of the wait after the wake is for a CPU.
                    Some(&woken) => arrived.max(woken) + self.after_wake(off),
                    None => arrived + length,
                };
                let ended = self.ended.get(&tid).into_iter().flatten();
                let before = ended.filter(|&&(time, _)| time <= off.end);
                before.fold(would, |would, &(_, ended)| would.max(ended))
            }
        };
        let was = off.end;
        self.at.insert(tid, At { was, would });
    }

    /// How long a wait went on after who waited was woken, ns.
    fn after_wake(&self, off: &Off) -> f64 {
        let wakes = &self.ways.profile.wakes;
        let wake = off.wake.and_then(|index| wakes.get(index));
        wake.map_or(0.0, |wake| off.end.saturating_sub(wake.time) as f64)
    }

    /// How long a wait for a CPU would be: as long as what ran there.
    fn for_cpu(&mut self, off: &Off) -> f64 {
        let length = (off.end - off.begin) as f64;
        let cpu = self
            .ways
            .profile
            .samples
            .get(off.row)
            .and_then(|row| row.cpu);
        let Some(cpu) = cpu else {
            return length;
        };
        let ran: Vec<_> = self.ways.runs.on_cpu(cpu, (off.begin, off.end)).collect();
        let (mut was, mut would) = (0.0, 0.0);
        for (tid, (from, to)) in ran {
            was += (to - from) as f64;
            would += self.scaled(tid, (from, to));
        }
        (length - was).max(0.0) + would
    }
}

//! One run: launch, count, wait, read.

use super::target::Selection;
use super::tool_times::ToolTimes;
use anyhow::Context;
use prof_record::counting::{Counters, Reading};
use prof_record::events::EventSpec;
use prof_sys::limits::{Limit, Resource};
use prof_sys::process::{Ended, PidFd, Wait, children_cpu_time};
use prof_sys::signal::{self, SignalFd, SignalSet};
use prof_sys::{ExecError, Launched, PollSet};
use std::ffi::OsString;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// The signals that end counting but not `prof stat` before it has told.
const STOPPING: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// What is to be done in every run.
#[derive(Debug)]
pub(crate) struct CountPlan {
    /// The events.
    pub(crate) events: Vec<EventSpec>,
    /// Whose.
    pub(crate) selection: Selection,
    /// What to run, empty for nothing.
    pub(crate) command: Vec<OsString>,
    /// Count children and new threads.
    pub(crate) inherit: bool,
    /// Report at this distance.
    pub(crate) interval: Option<Duration>,
    /// Stop after this time.
    pub(crate) timeout: Option<Duration>,
}

/// What a run gave.
#[derive(Debug)]
pub(crate) struct Run {
    /// Reading per event.
    pub(crate) readings: Vec<Reading>,
    /// From start to end.
    pub(crate) elapsed: Duration,
    /// CPU time of the command in user mode.
    pub(crate) user: Duration,
    /// The same in the kernel.
    pub(crate) system: Duration,
    /// How the command ended, if there was one.
    pub(crate) ended: Option<Ended>,
    /// The user wants to stop: no further runs.
    pub(crate) interrupted: bool,
}

/// Signals as something to read, for the whole of `prof stat`.
pub(crate) fn take_signals() -> anyhow::Result<SignalFd> {
    SignalFd::new(SignalSet::of(&STOPPING)).context("cannot take signals")
}

/// Counters that are open and a command that waits for its start.
#[derive(Debug)]
pub(crate) struct Opened<'a> {
    plan: &'a CountPlan,
    launched: Option<Launched>,
    counters: Counters,
}

impl CountPlan {
    /// Opens the counters, for the command before it begins.
    pub(crate) fn open(&self) -> anyhow::Result<Opened<'_>> {
        let launched = if self.command.is_empty() {
            None
        } else {
            Some(Launched::fork(&self.command, SignalSet::of(&STOPPING))?)
        };
        // The command has been forked and gets its own limit back.
        let _ = Limit::raise(Resource::OpenFiles);
        let scope = self.selection.scope(launched.as_ref().map(Launched::pid));
        let counters = Counters::open(&self.events, &scope, self.inherit)?;
        Ok(Opened {
            plan: self,
            launched,
            counters,
        })
    }
}

impl Opened<'_> {
    /// The counters, to look at.
    pub(crate) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Counts to the end. `at_interval` gets the readings at every interval
    /// with the time since the start.
    pub(crate) fn run(
        mut self,
        signals: &SignalFd,
        mut at_interval: impl FnMut(Duration, &[Reading]) -> anyhow::Result<()>,
    ) -> anyhow::Result<Run> {
        let before = children_cpu_time();
        let counters = &self.counters;
        let launched = self.launched.as_ref().map(Launched::pid);
        let times = ToolTimes::begin(&self.plan.selection, launched);
        // For a command alone the kernel begins at its exec.
        let by_us = self.plan.selection != Selection::Command;
        let start = Instant::now();
        if by_us {
            counters.enable().context("cannot enable the counters")?;
        }
        if let Some(launched) = &mut self.launched {
            launched.start()?;
        }
        let mut wait = Waiting {
            plan: self.plan,
            signals,
            launched: self.launched.as_ref(),
            start,
            interrupts: 0,
        };
        let ended =
            wait.until_end(|elapsed| at_interval(elapsed, &times.readings(counters, elapsed)?))?;
        let elapsed = start.elapsed();
        let interrupted = wait.interrupts > 0;
        if by_us {
            counters.disable().context("cannot disable the counters")?;
        }
        let after = children_cpu_time();
        Ok(Run {
            readings: times.readings(counters, elapsed)?,
            elapsed,
            user: after.0.saturating_sub(before.0),
            system: after.1.saturating_sub(before.1),
            ended,
            interrupted,
        })
    }
}

/// Waits for the end of the command, of the processes, of the time, or for a
/// signal.
struct Waiting<'a> {
    plan: &'a CountPlan,
    signals: &'a SignalFd,
    launched: Option<&'a Launched>,
    start: Instant,
    /// Signals that came; see [`Waiting::take_signals`].
    interrupts: u32,
}

impl Waiting<'_> {
    fn until_end(
        &mut self,
        mut at_interval: impl FnMut(Duration) -> anyhow::Result<()>,
    ) -> anyhow::Result<Option<Ended>> {
        // Without the handle (an old kernel) the end is looked for each tick.
        let handle = self.launched.and_then(|it| PidFd::open(it.pid()).ok());
        let mut set = PollSet::default();
        set.add(self.signals.as_fd());
        if let Some(handle) = &handle {
            set.add(handle.as_fd());
        }
        let mut next = self.plan.interval;
        let mut stopping = false;
        loop {
            if let Some(launched) = self.launched
                && let Some(ended) = launched
                    .ended(Wait::No)
                    .context("cannot wait for the command")?
            {
                return Ok(Some(ended));
            }
            let over = self
                .plan
                .timeout
                .is_some_and(|most| self.start.elapsed() >= most);
            if over && !stopping {
                stopping = true;
                self.end_command(libc::SIGTERM);
            }
            let nobody = !self.plan.selection.is_alive();
            if self.launched.is_none() && (over || nobody || self.interrupts > 0) {
                return Ok(None);
            }
            if let Some(due) = next
                && self.start.elapsed() >= due
            {
                at_interval(self.start.elapsed())?;
                next = self.plan.interval.map(|interval| due + interval);
                continue;
            }
            set.wait(self.until_next(next, handle.is_some(), stopping))
                .context("cannot wait for the command")?;
            self.take_signals();
        }
    }

    /// How long nothing can happen that no descriptor tells.
    fn until_next(
        &self,
        interval: Option<Duration>,
        end_is_told: bool,
        stopping: bool,
    ) -> Option<Duration> {
        const TICK: Duration = Duration::from_millis(100);
        let timeout = self.plan.timeout.filter(|_| !stopping);
        let due = [interval, timeout].into_iter().flatten().min();
        let due = due.map(|due| due.saturating_sub(self.start.elapsed()));
        let looks = if self.launched.is_some() {
            !end_is_told
        } else {
            !self.plan.selection.is_cpus()
        };
        let tick = looks.then_some(TICK);
        [due, tick].into_iter().flatten().min()
    }

    /// The ladder of `prof record`: the first is the command's own, the second
    /// sends it TERM, the third KILL.
    fn take_signals(&mut self) {
        while let Some(arrived) = self.signals.next() {
            self.interrupts += 1;
            match self.interrupts {
                // Ctrl-C reaches the command from the terminal as well; what
                // was sent to us alone is passed on.
                1 if arrived.from_kernel => {}
                1 => self.end_command(arrived.signal),
                2 => self.end_command(libc::SIGTERM),
                _ => self.end_command(libc::SIGKILL),
            }
        }
    }

    fn end_command(&self, signal: i32) {
        if let Some(launched) = self.launched {
            // It may have ended meanwhile.
            let _ = signal::send(launched.pid(), signal);
        }
    }
}

/// The exit code for a command that could not be launched, if that is why.
pub(crate) fn launch_failure(error: &anyhow::Error) -> Option<u8> {
    error.downcast_ref::<ExecError>().map(ExecError::exit_code)
}

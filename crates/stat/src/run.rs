//! One run: launch, count, wait, read.

use crate::options::{Delay, Options};
use crate::places::{CountedIn, Readings};
use crate::selection::{Selection, places};
use crate::tool_times::ToolTimes;
use crate::waiting::{Moment, STOPPING, Waiting};
use anyhow::Context;
use prof_abi::event_kind;
use prof_record::commands::Commands;
use prof_record::counting::{Counters, Counting};
use prof_sys::limits::{Limit, Resource};
use prof_sys::process::{Ended, children_cpu_time};
use prof_sys::signal::{SignalFd, SignalSet};
use prof_sys::{ExecError, Launched};
use std::time::{Duration, Instant};

/// What a run gave.
#[derive(Debug)]
pub(crate) struct Run {
    /// What was counted.
    pub(crate) readings: Readings,
    /// From the start of counting to the end.
    pub(crate) elapsed: Duration,
    /// CPU time of the command in user mode.
    pub(crate) user: Duration,
    /// The same in the kernel.
    pub(crate) system: Duration,
    /// How it ended.
    pub(crate) finished: Finished,
    /// See [`Counters::has_missed_tasks`].
    pub(crate) has_missed_tasks: bool,
}

/// How counting ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Finished {
    /// How the command ended, if there was one.
    pub ended: Option<Ended>,
    /// By a signal of the user.
    pub interrupted: bool,
    /// By counting, since time or intervals were over: the command got SIGTERM.
    pub stopped: bool,
}

/// Counters that are open and a command that waits for its start.
#[derive(Debug)]
pub(crate) struct Opened {
    launched: Option<Launched>,
    /// Whose the counts are.
    pub(crate) places: Vec<CountedIn>,
    /// The counters.
    pub(crate) counters: Counters,
}

/// Opens the counters, for the command before it begins.
pub(crate) fn open(options: &Options) -> anyhow::Result<Opened> {
    options.selection.check_cpus()?;
    let launched = if options.command.is_empty() {
        None
    } else {
        Some(Launched::fork(&options.command, SignalSet::of(&STOPPING))?)
    };
    // The command has been forked and gets its own limit back.
    let _ = Limit::raise(Resource::OpenFiles);
    let how = Counting {
        scope: options
            .selection
            .scope(launched.as_ref().map(Launched::pid)),
        inherit: options.inherit,
        by_hand: options.delay != Delay::None,
    };
    let counters = Counters::open(&options.events, &how)?;
    Ok(Opened {
        launched,
        places: places(&how.scope),
        counters,
    })
}

/// What happens while counting.
pub(crate) enum Happening {
    /// An interval is over, so long after the start, and this was counted since
    /// then.
    Interval(Duration, Readings),
    /// A line for the user.
    Said(String),
}

impl Opened {
    /// Counts to the end. `happens` gets what was counted at every interval,
    /// and lines for the user.
    pub(crate) fn run(
        mut self,
        options: &Options,
        signals: &SignalFd,
        mut happens: impl FnMut(Happening) -> anyhow::Result<()>,
    ) -> anyhow::Result<Run> {
        let commands = options.control.as_ref().map(Commands::open).transpose();
        let commands = commands.context("cannot take commands by --control")?;
        let before = children_cpu_time();
        let counters = &self.counters;
        let selection = options.selection.clone();
        let times = ToolTimes::begin(&selection, self.launched.as_ref().map(Launched::pid));
        // For a command alone the kernel begins at its exec.
        let by_exec = options.selection == Selection::Command && options.delay == Delay::None;
        if !by_exec && options.delay == Delay::None {
            counters.enable().context("cannot enable the counters")?;
        }
        let start = Instant::now();
        if let Some(launched) = &mut self.launched {
            launched.start()?;
        }
        let outside = (self.launched.as_ref(), commands);
        let mut wait = Waiting::new(options, signals, outside, counters);
        let ended = wait.until_end(|moment| match moment {
            Moment::Interval(elapsed) => {
                let readings = times.readings(counters, &self.places, elapsed)?;
                happens(Happening::Interval(elapsed, readings))
            }
            Moment::Said(line) => happens(Happening::Said(line)),
        })?;
        let elapsed = wait.counted_for(start);
        let mut events = options.events.iter();
        if events.any(|event| event.attr.kind == event_kind::BREAKPOINT)
            && let Some(line) = prof_record::trapped(ended)
        {
            happens(Happening::Said(line.to_owned()))?;
        }
        let interrupted = wait.interrupts > 0;
        let stopped = wait.has_stopped_it();
        if !by_exec {
            counters.disable().context("cannot disable the counters")?;
        }
        let after = children_cpu_time();
        Ok(Run {
            readings: times.readings(counters, &self.places, elapsed)?,
            elapsed,
            user: after.0.saturating_sub(before.0),
            system: after.1.saturating_sub(before.1),
            finished: Finished {
                ended,
                interrupted,
                stopped,
            },
            has_missed_tasks: counters.has_missed_tasks(),
        })
    }
}

/// The exit code for a command that could not be launched, if that is why.
pub fn launch_failure(error: &anyhow::Error) -> Option<u8> {
    error.downcast_ref::<ExecError>().map(ExecError::exit_code)
}

//! Waiting for the end of the command, of the processes, of the time, for a
//! signal or a word from outside.

use crate::options::{Delay, Options};
use anyhow::Context;
use prof_record::commands::{Commands, Order, event_switched, switched};
use prof_record::counting::Counters;
use prof_sys::process::{Ended, PidFd, Wait};
use prof_sys::signal::{self, SignalFd};
use prof_sys::{Launched, PollSet};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// The signals that end counting but not the process before it has told.
pub(crate) const STOPPING: [i32; 4] = [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT];

/// What happens before the end.
pub(crate) enum Moment {
    /// An interval is over, so long after the start.
    Interval(Duration),
    /// A line for the user.
    Said(String),
}

/// A run on its way.
pub(crate) struct Waiting<'a> {
    options: &'a Options,
    /// Where orders come from, while any may come.
    commands: Option<Commands>,
    signals: &'a SignalFd,
    launched: Option<&'a Launched>,
    counters: &'a Counters,
    start: Instant,
    /// When a delayed run began to count.
    began: Option<Instant>,
    /// Intervals so far.
    intervals: u64,
    /// When the next interval ends, since the start.
    due: Option<Duration>,
    /// The command was asked to end.
    stopping: bool,
    /// Somebody outside wants the end.
    told_to_stop: bool,
    /// Signals that came; see [`Waiting::take_signals`].
    pub(crate) interrupts: u32,
}

impl<'a> Waiting<'a> {
    /// Waits for what was launched, or for those who run; `commands` are orders
    /// from outside.
    pub(crate) fn new(
        options: &'a Options,
        signals: &'a SignalFd,
        (launched, commands): (Option<&'a Launched>, Option<Commands>),
        counters: &'a Counters,
    ) -> Self {
        Self {
            commands,
            due: options.interval,
            options,
            signals,
            launched,
            counters,
            start: Instant::now(),
            began: None,
            intervals: 0,
            stopping: false,
            told_to_stop: false,
            interrupts: 0,
        }
    }

    /// The time since counting began, which may be behind `start`.
    pub(crate) fn counted_for(&self, start: Instant) -> Duration {
        match (self.options.delay, self.began) {
            (Delay::For(_), Some(began)) => began.elapsed(),
            _ => start.elapsed(),
        }
    }

    /// Waits; `happens` is called with what happens meanwhile.
    pub(crate) fn until_end(
        &mut self,
        mut happens: impl FnMut(Moment) -> anyhow::Result<()>,
    ) -> anyhow::Result<Option<Ended>> {
        if self.options.delay != Delay::None {
            happens(Moment::Said(switched(false).to_owned()))?;
        }
        // Without the handle (an old kernel) the end is looked for each tick.
        let handle = self.launched.and_then(|it| PidFd::open(it.pid()).ok());
        loop {
            if let Some(ended) = self.ended()? {
                return Ok(Some(ended));
            }
            if self.begin_if_due()? {
                happens(Moment::Said(switched(true).to_owned()))?;
            }
            self.end_if_due();
            if self.is_over() {
                return Ok(None);
            }
            if let Some(due) = self.due
                && self.start.elapsed() >= due
            {
                happens(Moment::Interval(self.start.elapsed()))?;
                self.intervals += 1;
                self.due = self.options.interval.map(|interval| due + interval);
                continue;
            }
            self.sleep(handle.as_ref())?;
            self.take_signals();
            for line in self.take_commands()? {
                happens(Moment::Said(line))?;
            }
        }
    }

    fn ended(&self) -> anyhow::Result<Option<Ended>> {
        let ended = self.launched.map(|launched| launched.ended(Wait::No));
        let ended = ended.transpose().context("cannot wait for the command")?;
        Ok(ended.flatten())
    }

    /// Whether a delayed run began to count just now.
    fn begin_if_due(&mut self) -> anyhow::Result<bool> {
        let is_due = match (self.options.delay, self.began) {
            (Delay::For(delay), None) => self.start.elapsed() >= delay,
            _ => false,
        };
        if is_due {
            self.began = Some(Instant::now());
            self.counters
                .enable()
                .context("cannot enable the counters")?;
        }
        Ok(is_due)
    }

    /// Asks the command to end when the time or the intervals are over.
    fn end_if_due(&mut self) {
        let timeout = self.options.timeout;
        let late = timeout.is_some_and(|most| self.start.elapsed() >= most);
        let enough = self
            .options
            .interval_count
            .is_some_and(|most| self.intervals >= most);
        if (late || enough || self.told_to_stop) && !self.stopping {
            self.stopping = true;
            self.end_command(libc::SIGTERM);
        }
    }

    /// Whether counting ended the command, since time or intervals were over or
    /// it was told to.
    pub(crate) fn has_stopped_it(&self) -> bool {
        self.stopping && self.interrupts == 0
    }

    fn is_over(&self) -> bool {
        let nobody = !self.options.selection.is_alive();
        self.launched.is_none() && (self.stopping || nobody || self.interrupts > 0)
    }

    fn sleep(&self, handle: Option<&PidFd>) -> anyhow::Result<()> {
        let mut set = PollSet::default();
        set.add(self.signals.as_fd());
        if let Some(handle) = handle {
            set.add(handle.as_fd());
        }
        if let Some(commands) = &self.commands {
            set.add(commands.as_fd());
        }
        set.wait(self.until_next(handle.is_some()))
            .map(|_| ())
            .context("cannot wait for the command")
    }

    /// How long nothing can happen that no descriptor tells.
    fn until_next(&self, end_is_told: bool) -> Option<Duration> {
        const TICK: Duration = Duration::from_millis(100);
        let timeout = self.options.timeout.filter(|_| !self.stopping);
        let delay = match self.options.delay {
            Delay::For(delay) if self.began.is_none() => Some(delay),
            _ => None,
        };
        let due = [self.due, timeout, delay].into_iter().flatten().min();
        let due = due.map(|due| due.saturating_sub(self.start.elapsed()));
        let looks = if self.launched.is_some() {
            !end_is_told
        } else {
            !self.options.selection.is_cpus()
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

    /// Does what commands say; gives the lines for the user.
    fn take_commands(&mut self) -> anyhow::Result<Vec<String>> {
        let mut said = Vec::new();
        let Some(mut commands) = self.commands.take() else {
            return Ok(said);
        };
        let Some(orders) = commands.take() else {
            return Ok(said);
        };
        for order in orders {
            match order {
                Order::Switch(on, name) => {
                    let is_there = self.counters.switch(name.as_deref(), on);
                    let is_there = is_there.context("cannot enable or disable the counters")?;
                    said.push(match name {
                        Some(name) => event_switched(&name, on, is_there),
                        None => switched(on).to_owned(),
                    });
                }
                Order::Stop => self.told_to_stop = true,
                Order::Wrong => continue,
                Order::List(_) => {
                    let names = self.counters.iter().map(|it| it.name().to_owned());
                    said.extend(names);
                }
                Order::Ping | Order::Snapshot => {}
            }
            commands.answer();
        }
        self.commands = Some(commands);
        Ok(said)
    }

    fn end_command(&self, signal: i32) {
        if let Some(launched) = self.launched {
            // It may have ended meanwhile.
            let _ = signal::send(launched.pid(), signal);
        }
    }
}

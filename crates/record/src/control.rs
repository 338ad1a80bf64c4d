//! What ends a recording, and the signals meanwhile.
//!
//! ```text
//! Ctrl-C, Ctrl-\ (the terminal tells the command too)
//!   1st: wait for the command to end    2nd: TERM to it    3rd: KILL
//! a signal sent to us
//!   1st: finish the file, pass it on    2nd: KILL
//! ```

use crate::drain::{Shared, is_set};
use crate::open::OpenSet;
use crate::options::{Options, Start, Target};
use prof_sys::process::{Ended, Wait};
use prof_sys::signal::{self, Arrived, Disposition, SignalFd, SignalSet};
use prof_sys::{Inherited, Launched, PollSet};
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Signals that end a recording.
const STOPPING: [i32; 7] = [
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGPIPE,
    libc::SIGALRM,
    libc::SIGUSR1,
];
/// Those of them that end it even where they were ignored when we started: a
/// shell ignores the first two for what it runs in the background, and Rust
/// the third for everybody.
const ALWAYS_STOPPING: [i32; 3] = [libc::SIGINT, libc::SIGQUIT, libc::SIGPIPE];

/// What ended a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndedBy {
    /// The command ended.
    Command,
    /// All tasks that were attached to ended.
    Tasks,
    /// This signal.
    Signal(i32),
    /// The time was over.
    Duration,
    /// The file was as large as it may be, or could not be written.
    Writer,
}

/// The signals of a recording. Dropped, it leaves them as it found them.
#[derive(Debug)]
pub(crate) struct Control {
    signals: SignalFd,
    blocked_before: SignalSet,
    changed: SignalSet,
    command: Option<Ended>,
    interrupts: u32,
}

impl Control {
    pub(crate) fn new() -> io::Result<Self> {
        let ignored = Inherited::at_start().ignored;
        let stopping = STOPPING
            .into_iter()
            .filter(|&signal| ALWAYS_STOPPING.contains(&signal) || !ignored.has(signal));
        let stopping: Vec<i32> = stopping.chain([libc::SIGCHLD]).collect();
        let stopping = SignalSet::of(&stopping);
        let blocked_before = signal::blocked();
        let signals = SignalFd::new(stopping)?;
        for signal in stopping.iter() {
            // An ignored signal would never reach the descriptor.
            signal::set_disposition(signal, Disposition::Default)?;
        }
        // A file at its size limit is an error of write, not our end.
        signal::set_disposition(libc::SIGXFSZ, Disposition::Ignore)?;
        let file_size = SignalSet::of(&[libc::SIGXFSZ]);
        Ok(Self {
            signals,
            blocked_before,
            changed: SignalSet(stopping.0 | file_size.0),
            command: None,
            interrupts: 0,
        })
    }

    /// The signals whose dispositions are not as we were started with.
    pub(crate) fn changed(&self) -> SignalSet {
        self.changed
    }

    /// Waits for the end of the recording.
    pub(crate) fn wait(
        &mut self,
        options: &Options,
        set: &OpenSet,
        launched: Option<&Launched>,
        shared: &Shared,
    ) -> EndedBy {
        let began = Instant::now();
        let mut delay = match options.start {
            Start::AtOnce => None,
            Start::After(delay) => Some(delay),
        };
        let mut poll = PollSet::default();
        poll.add(self.signals.as_fd());
        poll.add(shared.main.as_fd());
        let attached = matches!(options.target, Target::Processes(_) | Target::Threads(_));
        loop {
            let elapsed = began.elapsed();
            if delay.is_some_and(|delay| elapsed >= delay) {
                set.enable(Some(crate::plan::Role::Samples));
                delay = None;
            }
            if options.duration.is_some_and(|duration| elapsed >= duration) {
                return EndedBy::Duration;
            }
            if is_set(&shared.writer_ended) {
                return EndedBy::Writer;
            }
            if attached && is_set(&shared.all_gone) {
                return EndedBy::Tasks;
            }
            let next = [delay, options.duration].into_iter().flatten().min();
            let left = next.map(|at| at.saturating_sub(elapsed));
            if poll.wait(left).is_err() {
                std::thread::sleep(Duration::from_millis(10));
            }
            shared.main.clear();
            while let Some(arrived) = self.signals.next() {
                if let Some(ended) = self.take(arrived, launched) {
                    return ended;
                }
            }
        }
    }

    /// One signal while recording: whether it ends the recording.
    fn take(&mut self, arrived: Arrived, launched: Option<&Launched>) -> Option<EndedBy> {
        if arrived.signal == libc::SIGCHLD {
            return self.reap(launched?, Wait::No).then_some(EndedBy::Command);
        }
        match launched {
            Some(launched) if is_from_terminal(arrived) => {
                self.interrupt(launched);
                None
            }
            _ => Some(EndedBy::Signal(arrived.signal)),
        }
    }

    /// Ctrl-C: the command got it from the terminal as well.
    fn interrupt(&mut self, launched: &Launched) {
        self.interrupts += 1;
        match self.interrupts {
            1 => {}
            2 => send(launched, libc::SIGTERM),
            _ => send(launched, libc::SIGKILL),
        }
    }

    fn reap(&mut self, launched: &Launched, wait: Wait) -> bool {
        if self.command.is_none() {
            // ECHILD: somebody else took its status, and it has ended.
            self.command = match launched.ended(wait) {
                Ok(ended) => ended,
                Err(_) => Some(Ended::Exited(0)),
            };
        }
        self.command.is_some()
    }

    /// After the recording: tells the command to end if that is what ended the
    /// recording, and waits until it has.
    pub(crate) fn wait_for_command(
        &mut self,
        launched: &Launched,
        ended_by: EndedBy,
    ) -> Option<Ended> {
        match ended_by {
            EndedBy::Signal(signal) => send(launched, passed_on(signal)),
            EndedBy::Duration => send(launched, libc::SIGTERM),
            EndedBy::Command | EndedBy::Tasks | EndedBy::Writer => {}
        }
        let mut poll = PollSet::default();
        poll.add(self.signals.as_fd());
        while !self.reap(launched, Wait::No) {
            // The time limit is for a SIGCHLD that came before we waited.
            let _ = poll.wait(Some(Duration::from_millis(100)));
            while let Some(arrived) = self.signals.next() {
                match arrived.signal {
                    libc::SIGCHLD => {}
                    _ if is_from_terminal(arrived) => self.interrupt(launched),
                    _ => send(launched, libc::SIGKILL),
                }
            }
        }
        self.command
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // What came late is not to end us when it is let through.
        while self.signals.next().is_some() {}
        let ignored = Inherited::at_start().ignored;
        for signal in self.changed.iter() {
            let rusts_own = signal == libc::SIGPIPE;
            let disposition = if rusts_own || ignored.has(signal) {
                Disposition::Ignore
            } else {
                Disposition::Default
            };
            // Cannot fail for signals that `new` could change.
            let _ = signal::set_disposition(signal, disposition);
        }
        signal::set_mask(self.blocked_before);
    }
}

fn is_from_terminal(arrived: Arrived) -> bool {
    arrived.from_kernel && matches!(arrived.signal, libc::SIGINT | libc::SIGQUIT)
}

/// What the command gets when we got `signal`: the same, if it means an end
/// and the command can hear it.
fn passed_on(signal: i32) -> i32 {
    let ends = matches!(
        signal,
        libc::SIGINT | libc::SIGHUP | libc::SIGQUIT | libc::SIGTERM
    );
    if ends && !Inherited::at_start().ignored.has(signal) {
        signal
    } else {
        libc::SIGTERM
    }
}

fn send(launched: &Launched, signal: i32) {
    // Fails only if it has ended, which is what is wanted.
    let _ = signal::send(launched.pid(), signal);
}

//! What ends a recording, and the signals meanwhile.
//!
//! One ladder, whether a terminal or kill(1) sends them:
//!
//! ```text
//! 1st  finish the file and wait for the command, which gets the signal too:
//!      by the terminal, or else from us
//! 2nd  TERM to the command
//! 3rd  KILL to it
//! ```

use crate::commands::{Commands, Details, Order, event_switched, switched};
use crate::drain::{Shared, is_set};
use crate::occasions::Occasions;
use crate::open::{OpenEvent, OpenSet};
use crate::options::{Options, Start, Target};
use crate::planned::Role;
use crate::rights::Rights;
use prof_sys::process::{Ended, PidFd, Usage, Wait};
use prof_sys::signal::{self, Arrived, Disposition, SignalFd, SignalSet};
use prof_sys::{Inherited, Launched, PollSet};
use std::io;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

/// Signals that end a recording.
const STOPPING: [i32; 8] = [
    libc::SIGINT,
    libc::SIGTERM,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGPIPE,
    libc::SIGALRM,
    libc::SIGUSR1,
    libc::SIGXCPU,
];
/// Signals that scripts written for perf send, or that the kernel does, and
/// that must not end us: perf dumps a part of its file on the first, a file at
/// its size limit is an error of write.
const IGNORED: [i32; 2] = [ANOTHER, libc::SIGXFSZ];
/// The signal that asks for another file where that is wanted.
const ANOTHER: i32 = libc::SIGUSR2;
/// How long a command may take to end before the user is told that we wait.
const SILENT_WAIT: Duration = Duration::from_secs(1);
/// Those of them that end it even where they were ignored when we started: a
/// shell ignores the first two for what it runs in the background, and Rust
/// the third for everybody.
const ALWAYS_STOPPING: [i32; 3] = [libc::SIGINT, libc::SIGQUIT, libc::SIGPIPE];

/// How long a wait is at most where what is waited for may have happened just
/// before.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// What ended a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EndedBy {
    /// The command ended.
    Command,
    /// All tasks that were attached to ended.
    Tasks,
    /// This signal.
    Signal(i32),
    /// The time was over, or the last of the times to record in.
    Duration,
    /// The command `stop`.
    Order,
    /// The file was as large as it may be, or could not be written.
    Writer,
}

/// What a launched command used.
#[derive(Debug, Clone, Copy, Default)]
pub struct CommandUsed {
    /// From its start to its end, as the recorder saw them; `None` if it never
    /// started or somebody else took its status.
    pub wall: Option<Duration>,
    /// CPU time, memory and page faults.
    pub usage: Usage,
    /// Most memory that the process had before it became the command, bytes: that of the
    /// recorder, which is counted as the command's.
    pub memory_before: u64,
}

/// The signals of a recording. Dropped, it leaves them as it found them.
#[derive(Debug)]
pub(crate) struct Control {
    signals: SignalFd,
    blocked_before: SignalSet,
    /// What signals did that do something else now.
    before: Vec<(i32, Disposition)>,
    command: Option<(Ended, CommandUsed)>,
    /// Why nobody knows how the command ended.
    unknown: Option<io::Error>,
    /// When the command was let go.
    started: Option<Instant>,
    interrupts: u32,
    commands: Option<Commands>,
    /// Events that ask for another file.
    occasions: Occasions,
    /// What is given up when the first records are written.
    rights: Option<Rights>,
}

/// What is waited for while recording, with its places in the set.
struct Watched {
    poll: PollSet,
    /// Whoever reads the stream.
    reader: Option<usize>,
    /// In a program with other threads one of these may get the SIGCHLD.
    _command: Option<PidFd>,
    ended: Option<usize>,
    /// Where commands come from.
    commands: Option<usize>,
}

impl Watched {
    /// Until something happens or `left` is over.
    fn wait(&mut self, left: Option<Duration>) {
        if self.poll.wait(left).is_err() {
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// The end that has come by itself.
    fn is_over(&self, options: &Options, shared: &Shared, elapsed: Duration) -> Option<EndedBy> {
        if options.duration.is_some_and(|duration| elapsed >= duration) {
            return Some(EndedBy::Duration);
        }
        // Without records nobody would write, and see that nobody reads.
        let is_unread = self.reader.is_some_and(|at| self.poll.is_hung_up(at));
        if is_unread || is_set(&shared.writer_ended) {
            return Some(EndedBy::Writer);
        }
        let attached = matches!(options.target, Target::Processes(_) | Target::Threads(_));
        (attached && is_set(&shared.all_gone)).then_some(EndedBy::Tasks)
    }

    /// The place of commands, if some came or nobody is left to send any.
    fn commanded(&self) -> Option<usize> {
        let poll = &self.poll;
        self.commands
            .filter(|&at| poll.is_readable(at) || poll.is_hung_up(at))
    }

    fn is_command_gone(&self) -> bool {
        self.ended.is_some_and(|at| self.poll.is_readable(at))
    }
}

impl Control {
    pub(crate) fn new(options: &Options) -> io::Result<Self> {
        let ignored = Inherited::at_start().ignored;
        let takes_another = options.takes_another_on_signal();
        let heard = takes_another.then_some(ANOTHER);
        let stopping = STOPPING
            .into_iter()
            .filter(|&signal| ALWAYS_STOPPING.contains(&signal) || !ignored.has(signal));
        let stopping: Vec<i32> = stopping.chain([libc::SIGCHLD]).chain(heard).collect();
        let stopping = SignalSet::of(&stopping);
        let blocked_before = signal::blocked();
        let signals = SignalFd::new(stopping)?;
        // An ignored signal would never reach the descriptor.
        let heard_of = stopping.iter().map(|signal| (signal, Disposition::Default));
        let ignored = IGNORED.into_iter().filter(|&it| heard != Some(it));
        let ignored = ignored.map(|signal| (signal, Disposition::Ignore));
        let mut before = Vec::new();
        for (signal, disposition) in heard_of.chain(ignored) {
            let found = signal::set_disposition(signal, disposition)?;
            before.push((signal, found.unwrap_or(Disposition::Default)));
        }
        Ok(Self {
            signals,
            blocked_before,
            before,
            command: None,
            unknown: None,
            started: None,
            interrupts: 0,
            commands: None,
            occasions: Occasions::default(),
            rights: None,
        })
    }

    /// Gives these up when the first records are written.
    pub(crate) fn gives_up(&mut self, rights: Rights) {
        self.rights = Some(rights);
    }

    /// Gives up rights that are not needed any more.
    pub(crate) fn give_up(&mut self, notices: &mut dyn FnMut(&str)) {
        if let Some(mut rights) = self.rights.take() {
            rights.give_up(notices);
        }
    }

    /// Takes these commands while a recording runs.
    pub(crate) fn listen_to(&mut self, commands: Option<Commands>) {
        self.commands = commands;
    }

    /// Takes another file when these events occur.
    pub(crate) fn watches(&mut self, occasions: Occasions) {
        self.occasions = occasions;
    }

    /// The command is let go now.
    pub(crate) fn starts(&mut self) {
        self.started = Some(Instant::now());
    }

    /// The signals whose dispositions are not as we were started with.
    pub(crate) fn changed(&self) -> SignalSet {
        let signals: Vec<i32> = self.before.iter().map(|&(signal, _)| signal).collect();
        SignalSet::of(&signals)
    }

    /// Waits for the end of the recording.
    pub(crate) fn wait(
        &mut self,
        options: &Options,
        set: &OpenSet,
        launched: Option<&Launched>,
        shared: &Shared,
        notices: &mut dyn FnMut(&str),
    ) -> EndedBy {
        let began = Instant::now();
        let mut changes = options.start.changes();
        if options.start != Start::AtOnce {
            notices(switched(false));
        }
        let mut watched = self.watched(shared, launched);
        self.occasions.begin(&mut watched.poll);
        loop {
            let elapsed = began.elapsed();
            while let Some(&(_, is_on)) = changes.front().filter(|(at, _)| elapsed >= *at) {
                changes.pop_front();
                switch(set, shared, is_on);
                notices(switched(is_on));
                if !is_on && changes.is_empty() {
                    return EndedBy::Duration;
                }
            }
            shared.told().iter().for_each(|line| notices(line));
            if is_set(&shared.begun) {
                self.give_up(notices);
            }
            if let Some(ended) = watched.is_over(options, shared, elapsed) {
                return ended;
            }
            let next = changes.front().map(|&(at, _)| at);
            let next = [next, options.duration].into_iter().flatten().min();
            let left = next.map(|at| at.saturating_sub(elapsed));
            let arrived = self.arrived(&mut watched, shared, left);
            if self.occasions.came(&mut watched.poll) {
                shared.want_another();
            }
            if let Some(ended) = self.take_all(arrived, shared, launched) {
                return ended;
            }
            if let Some(place) = watched.commanded()
                && self.obey(set, shared, notices, || watched.poll.replace(place, None))
            {
                return EndedBy::Order;
            }
            if let Some(launched) = launched
                && watched.is_command_gone()
                && self.reap(launched, Wait::No)
            {
                return EndedBy::Command;
            }
        }
    }

    /// Does what commands say, and calls `no_more` if none will come any more;
    /// whether one ends the recording.
    fn obey(
        &mut self,
        set: &OpenSet,
        shared: &Shared,
        notices: &mut dyn FnMut(&str),
        no_more: impl FnOnce(),
    ) -> bool {
        let Some(commands) = &mut self.commands else {
            return false;
        };
        let Some(orders) = commands.take() else {
            no_more();
            return false;
        };
        let mut is_end = false;
        for order in orders {
            match order {
                Order::Switch(is_on, None) => {
                    switch(set, shared, is_on);
                    notices(switched(is_on));
                }
                Order::Switch(is_on, Some(name)) => {
                    if set.traces(&name) {
                        shared.switch(is_on);
                    }
                    let is_there = set.switch_named(&name, is_on);
                    notices(&event_switched(&name, is_on, is_there));
                }
                Order::List(details) => {
                    let events = set.events.iter();
                    events.for_each(|event| notices(&listed(event, details)));
                }
                Order::Snapshot => shared.want_another(),
                Order::Stop => is_end = true,
                Order::Ping => {}
                Order::Wrong => notices("failed: wrong command"),
            }
            commands.answer();
        }
        is_end
    }

    /// The signal that arrived, if one did, before `left` was over or something else
    /// happened.
    fn arrived(
        &mut self,
        watched: &mut Watched,
        shared: &Shared,
        left: Option<Duration>,
    ) -> Option<Arrived> {
        let has_more = watched.reader.or(watched.commands).is_some();
        match has_more || !self.occasions.is_empty() {
            true => {
                watched.wait(left);
                shared.main.clear();
                None
            }
            // Readers of deep stacks get a signal for each sample: they
            // would wake us, too, if we waited for the descriptor.
            false => self.signals.wait(left),
        }
    }

    fn watched(&self, shared: &Shared, launched: Option<&Launched>) -> Watched {
        let mut poll = PollSet::default();
        poll.add(self.signals.as_fd());
        poll.add(shared.main.as_fd());
        let reader = shared.reader.as_ref();
        let reader = reader.map(|reader| poll.add_end(reader.descriptor.as_fd()));
        let command = launched.and_then(|launched| PidFd::open(launched.pid()).ok());
        let ended = command.as_ref().map(|command| poll.add(command.as_fd()));
        let commands = self.commands.as_ref().map(|it| poll.add(it.as_fd()));
        Watched {
            poll,
            reader,
            _command: command,
            ended,
            commands,
        }
    }

    /// All signals that have come: whether one of them ends the recording.
    fn take_all(
        &mut self,
        mut first: Option<Arrived>,
        shared: &Shared,
        launched: Option<&Launched>,
    ) -> Option<EndedBy> {
        while let Some(next) = first.take().or_else(|| self.signals.next()) {
            if next.signal == ANOTHER {
                shared.want_another();
                continue;
            }
            if let Some(ended) = self.take(next, launched) {
                return Some(ended);
            }
        }
        None
    }

    /// One signal while recording: whether it ends the recording.
    fn take(&mut self, arrived: Arrived, launched: Option<&Launched>) -> Option<EndedBy> {
        if arrived.signal == libc::SIGCHLD {
            return self.reap(launched?, Wait::No).then_some(EndedBy::Command);
        }
        if let Some(launched) = launched {
            self.interrupt(arrived, launched);
        }
        Some(EndedBy::Signal(arrived.signal))
    }

    /// The next step of the ladder for the command.
    fn interrupt(&mut self, arrived: Arrived, launched: &Launched) {
        self.interrupts += 1;
        match self.interrupts {
            1 if is_from_terminal(arrived) => {}
            1 => send(launched, passed_on(arrived.signal)),
            2 => send(launched, libc::SIGTERM),
            _ => send(launched, libc::SIGKILL),
        }
    }

    /// Waits until all is written, however slow the reader of a stream is; the
    /// next interrupt gives it up.
    pub(crate) fn wait_for_writer(&mut self, launched: Option<&Launched>, shared: &Shared) {
        let Some(reader) = &shared.reader else {
            return;
        };
        let mut poll = PollSet::default();
        poll.add(self.signals.as_fd());
        poll.add(shared.main.as_fd());
        while !is_set(&shared.written) {
            // The time limit is for a thread that ended otherwise.
            let _ = poll.wait(Some(LOOK_AGAIN));
            shared.main.clear();
            while let Some(arrived) = self.signals.next() {
                if matches!(arrived.signal, libc::SIGCHLD | ANOTHER) {
                    continue;
                }
                reader.give_up.now();
                if let Some(launched) = launched {
                    self.interrupt(arrived, launched);
                }
            }
        }
    }

    /// Whether nothing asks to end within `time`; if not, by which signal.
    pub(crate) fn quiet_for(&mut self, time: Duration) -> Result<(), i32> {
        let mut poll = PollSet::default();
        poll.add(self.signals.as_fd());
        if poll.wait(Some(time)).is_err() {
            std::thread::sleep(time);
        }
        while let Some(arrived) = self.signals.next() {
            if !matches!(arrived.signal, libc::SIGCHLD | ANOTHER) {
                return Err(arrived.signal);
            }
        }
        Ok(())
    }

    /// Why nobody knows how the command ended, if that is so.
    pub(crate) fn take_unknown(&mut self) -> Option<io::Error> {
        self.unknown.take()
    }

    fn reap(&mut self, launched: &Launched, wait: Wait) -> bool {
        if self.command.is_none() {
            let wall = self.started.map(|started| started.elapsed());
            self.command = match launched.ended_with_usage(wait) {
                Ok(ended) => ended.map(|(ended, usage)| {
                    let memory_before = launched.memory_before();
                    let used = CommandUsed {
                        wall,
                        usage,
                        memory_before,
                    };
                    (ended, used)
                }),
                // ECHILD: somebody else took its status, and it has ended.
                Err(error) => {
                    self.unknown = Some(error);
                    Some((Ended::Exited(1), CommandUsed::default()))
                }
            };
        }
        self.command.is_some()
    }

    /// After the recording: tells the command to end if it would outlive its
    /// purpose, and waits until it has. `notices` gets a line if that takes
    /// long.
    pub(crate) fn wait_for_command(
        &mut self,
        launched: &Launched,
        ended_by: EndedBy,
        notices: &mut dyn FnMut(&str),
    ) -> Option<(Ended, CommandUsed)> {
        match ended_by {
            EndedBy::Duration | EndedBy::Order => send(launched, libc::SIGTERM),
            EndedBy::Tasks => {
                notices("all tasks have ended before the command, which gets SIGTERM");
                send(launched, libc::SIGTERM);
            }
            EndedBy::Command | EndedBy::Signal(_) | EndedBy::Writer => {}
        }
        let mut poll = PollSet::default();
        poll.add(self.signals.as_fd());
        let mut silent_until = Some(Instant::now() + SILENT_WAIT);
        while !self.reap(launched, Wait::No) {
            if self.interrupts > 0
                && silent_until
                    .take_if(|until| Instant::now() >= *until)
                    .is_some()
            {
                notices(
                    "the recording is finished; waiting for the command to end \
                     (the next interrupt sends it SIGTERM, the one after SIGKILL)",
                );
            }
            // The time limit is for a SIGCHLD that came before we waited.
            let _ = poll.wait(Some(LOOK_AGAIN));
            while let Some(arrived) = self.signals.next() {
                match arrived.signal {
                    libc::SIGCHLD | ANOTHER => {}
                    _ => self.interrupt(arrived, launched),
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
        for &(signal, disposition) in &self.before {
            // Cannot fail for signals that `new` could change.
            let _ = signal::set_disposition(signal, disposition);
        }
        signal::set_mask(self.blocked_before);
    }
}

/// Starts or stops what is sampled; records of tasks and mappings go on.
fn switch(set: &OpenSet, shared: &Shared, is_on: bool) {
    shared.switch(is_on);
    if is_on {
        shared.parts.note(is_on);
        say_refused(set.enable(Some(Role::Samples)), shared);
    } else {
        say_refused(set.disable(Some(Role::Samples)), shared);
        shared.parts.note(is_on);
    }
}

/// Tells that events could not be started or stopped.
fn say_refused(switched: std::io::Result<()>, shared: &Shared) {
    if let Err(error) = switched {
        shared.tell(format!("cannot start or stop the events: {error}"));
    }
}

/// An event as `evlist` lists it.
fn listed(event: &OpenEvent, details: Details) -> String {
    let planned = &event.planned;
    let (name, attr) = (&planned.name, &planned.attr);
    match details {
        Details::Names | Details::Groups => name.clone(),
        Details::Rates if attr.is_freq() => format!("{name}: sample_freq={}", attr.sample_period),
        Details::Rates => format!("{name}: sample_period={}", attr.sample_period),
        Details::Attrs => {
            let fields = attr.set_fields().into_iter();
            let fields = fields.map(|(field, value)| format!("{field}: {value}"));
            format!("{name}: {}", fields.collect::<Vec<_>>().join(", "))
        }
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

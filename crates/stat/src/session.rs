//! Runs and intervals, and what is written about them.

use crate::aggregate::{Aggregation, Mode};
use crate::options::{Delay, Form, Options, Showing};
use crate::places::Readings;
use crate::places::{CountedIn, Topology};
use crate::run::{self, Finished, Happening, Opened, Run};
use crate::selection::Selection;
use crate::shown::figures::{CountRow, CountedEvent, EventFigures, Layout, Times};
use crate::shown::metrics_alone::{Before, Table};
use crate::shown::rows::rows;
use crate::shown::{machine_readable, text};
use crate::stored::Store;
use crate::units::unit_of;
use crate::waiting::STOPPING;
use anyhow::Context;
use prof_record::counting::{Counter, Counters, Reading};
use prof_record::events;
use prof_report::escape;
use prof_sys::signal::{SignalFd, SignalSet};
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Counts as asked, writes the counts to `out`, and hands messages for the
/// user to `say`. Takes the process's signals.
///
/// # Errors
/// When an event is refused, the command cannot be run
/// ([`crate::launch_failure`] tells), or writing fails.
pub fn count(
    options: &Options,
    out: &mut dyn Write,
    say: &mut dyn FnMut(&str),
) -> anyhow::Result<Finished> {
    let signals = SignalFd::new(SignalSet::of(&STOPPING)).context("cannot take signals")?;
    let mut session = Session::new(options, out, say);
    let mut finished = Finished::default();
    let mut runs = 0;
    while options.repeat == 0 || runs < options.repeat {
        runs += 1;
        finished = session.run_once(options, &signals)?;
        if options.repeat == 0 {
            if options.interval.is_none() {
                session.write_summary()?;
            }
            session.forget();
        }
        if finished.interrupted || session.failure.is_some() {
            break;
        }
    }
    if options.repeat > 0 && (options.interval.is_none() || options.showing.summary) {
        session.write_summary()?;
    }
    session.explain_blind();
    if options.delay == Delay::UntilTold && options.control.is_none() {
        let untold =
            "nothing switched the events on (-D -1)\n  try: --control, and its command enable";
        (session.say)(untold);
    }
    session.failure.take().map_or(Ok(finished), Err)
}

/// What is known over all runs.
struct Session<'a> {
    out: &'a mut dyn Write,
    say: &'a mut dyn FnMut(&str),
    showing: Showing,
    aggregation: Aggregation,
    title: String,
    only_command: bool,
    without_zeros: bool,
    /// More than one run is asked for.
    repeats: bool,
    has_intervals: bool,
    events: Vec<EventFigures>,
    blind: Vec<String>,
    /// Those that the user wants of user space only, where they do not occur.
    left_out: Vec<String>,
    forbidden: Vec<String>,
    /// Those that threads and children do not inherit.
    of_known_threads: Vec<String>,
    /// Such threads or children ran.
    has_missed_tasks: bool,
    times: Times,
    single_runs: Vec<f64>,
    runs: u64,
    intervals: u64,
    /// Of what is run behind the command (`--post`): its counts are told all the
    /// same.
    failure: Option<anyhow::Error>,
}

impl<'a> Session<'a> {
    fn new(options: &Options, out: &'a mut dyn Write, say: &'a mut dyn FnMut(&str)) -> Self {
        let words: Vec<_> = options
            .command
            .iter()
            .map(|word| word.to_string_lossy())
            .collect();
        Self {
            out,
            say,
            showing: options.showing.clone(),
            aggregation: Aggregation {
                mode: options.showing.mode,
                topology: if options.showing.mode.is_of_cpus() {
                    Topology::of_machine(Path::new("/sys"))
                } else {
                    Topology::default()
                },
                raw: options.showing.raw,
            },
            title: options.selection.title(&escape::terminal(&words.join(" "))),
            only_command: options.selection == Selection::Command,
            without_zeros: options.selection == Selection::AllThreads,
            repeats: options.repeat > 1,
            has_intervals: options.interval.is_some(),
            events: Vec::new(),
            blind: Vec::new(),
            left_out: Vec::new(),
            forbidden: Vec::new(),
            of_known_threads: Vec::new(),
            has_missed_tasks: false,
            times: Times::default(),
            single_runs: Vec::new(),
            runs: 0,
            intervals: 0,
            failure: None,
        }
    }

    fn run_once(&mut self, options: &Options, signals: &SignalFd) -> anyhow::Result<Finished> {
        if options.sync {
            rustix::fs::sync();
        }
        shell(options.around[0].as_deref())?;
        let opened = run::open(options)?;
        self.look_at(&opened, options);
        let mut store = Store::create(options, &opened)?;
        let mut before = Interval {
            events: self.without_counts(),
            places: opened.places.clone(),
            ..Interval::default()
        };
        let with_intervals = self.has_intervals;
        let earlier = self.intervals;
        let run = opened.run(options, signals, |happening| match happening {
            Happening::Interval(elapsed, readings) => {
                store.readings(elapsed, &readings)?;
                self.write_interval(&mut before, elapsed, &readings)
            }
            Happening::Said(line) => {
                (self.say)(&line);
                Ok(())
            }
        })?;
        store.finish(&run)?;
        self.has_missed_tasks |= run.has_missed_tasks;
        // perf writes what came behind the last interval if there is a summary
        // or the command ended before its count of intervals.
        let enough = options
            .interval_count
            .is_some_and(|most| self.intervals - earlier >= most);
        if with_intervals && !enough {
            self.write_interval(&mut before, run.elapsed, &run.readings)?;
        }
        self.add(&before.places, &run);
        self.failure = shell(options.around[1].as_deref()).err();
        Ok(run.finished)
    }

    /// What can be known once the events are open.
    fn look_at(&mut self, opened: &Opened, options: &Options) {
        if !self.events.is_empty() {
            return;
        }
        let counters = &opened.counters;
        self.events = figures(counters, options);
        // Of what cannot be counted more is said at the end.
        if self.showing.metric_only
            && Table::new(&self.events, &self.layout(1.0)).is_empty()
            && !counters.iter().any(Counter::is_blind)
        {
            (self.say)(
                "--metric-only: nothing follows from these events\n  \
                 try: with task-clock among them, or -M NAME --metrics-dir DIR",
            );
        }
        let blind = counters.iter().zip(&options.events);
        let blind = blind.filter(|(counter, _)| counter.is_blind());
        for (counter, spec) in blind {
            let names = match spec.modes.given {
                true => &mut self.left_out,
                false => &mut self.blind,
            };
            names.push(counter.name().to_owned());
        }
        self.forbidden = names_of(counters, Counter::is_forbidden);
        if options.inherit && !options.selection.is_cpus() {
            self.of_known_threads = names_of(counters, Counter::is_of_known_threads);
        }
        if options.showing.verbose {
            for name in names_of(counters, |counter| !counter.is_supported()) {
                (self.say)(&format!("{name} is not supported by the kernel"));
            }
        }
    }

    fn without_counts(&self) -> Vec<EventFigures> {
        let events = self.events.iter();
        events
            .map(|it| EventFigures::new(it.event.clone()))
            .collect()
    }

    fn add(&mut self, places: &[CountedIn], run: &Run) {
        for (figures, counts) in self.events.iter_mut().zip(&run.readings) {
            if self.showing.verbose {
                let mut sum = Reading::default();
                counts.iter().flatten().for_each(|count| sum.add(count));
                let Reading {
                    value,
                    enabled,
                    running,
                } = sum;
                let name = &figures.event.name;
                (self.say)(&format!("{name}: {value} {enabled} {running}"));
            }
            figures.push(self.aggregation.group(places, counts));
        }
        self.times.push(run.elapsed, run.user, run.system);
        self.single_runs.push(run.elapsed.as_nanos() as f64);
        self.runs += 1;
    }

    /// Makes the next run the first.
    fn forget(&mut self) {
        self.events = self.without_counts();
        self.times = Times::default();
        self.single_runs.clear();
        self.runs = 0;
    }

    /// Writes the lines of one interval, which ends `elapsed` after the start.
    fn write_interval(
        &mut self,
        before: &mut Interval,
        elapsed: Duration,
        readings: &Readings,
    ) -> anyhow::Result<()> {
        let mut events = before.events.clone();
        for (index, (figures, counts)) in events.iter_mut().zip(readings).enumerate() {
            let earlier = before.readings.get(index);
            let since = since(counts, earlier.map_or(&[], Vec::as_slice));
            figures.push(self.aggregation.group(&before.places, &since));
        }
        let length = elapsed.saturating_sub(before.end);
        before.end = elapsed;
        before.readings.clone_from(readings);
        const LINES_PER_HEADING: u64 = 25;
        let mut shown = String::new();
        if self.showing.clears {
            shown.push_str("\x1b[H\x1b[2J");
        }
        let is_text = matches!(self.showing.form, Form::Text { .. });
        let is_due = self.intervals.is_multiple_of(LINES_PER_HEADING) || self.showing.clears;
        let is_first = self.intervals == 0;
        self.intervals += 1;
        let length = length.as_nanos() as f64;
        if self.showing.metric_only {
            let table = Table::new(&events, &self.layout(length));
            let (form, before) = (&self.showing.form, Before::Time(elapsed));
            if is_first || is_text && is_due {
                shown.push_str(&table.heading(form, before));
            }
            shown.push_str(&table.lines(form, before));
        } else {
            let rows = rows(&events, &self.layout(length));
            if is_text && is_due {
                shown.push_str(&text::interval_heading(&rows));
            }
            shown.push_str(&self.lines(&rows, Some(elapsed)));
        }
        self.write(&shown)
    }

    fn layout(&self, elapsed: f64) -> Layout<'_> {
        Layout {
            elapsed,
            by_group: self.showing.mode.is_by_group(),
            without_zeros: self.without_zeros && self.showing.mode == Mode::Thread,
            metrics: &self.showing.metrics,
        }
    }

    fn lines(&self, rows: &[CountRow], time: Option<Duration>) -> String {
        let runs = if self.repeats { 2 } else { 1 };
        match &self.showing.form {
            form @ Form::Text { .. } => text::lines(rows, time, form.numbers()),
            Form::Json => machine_readable::json_lines(rows, time, runs),
            Form::Separated(separator) => {
                let mut before = Vec::from_iter(time.map(machine_readable::interval_field));
                if self.has_intervals && time.is_none() && self.showing.marks_summary {
                    before.push(format!("{:>16}", "summary"));
                }
                machine_readable::separated(rows, separator, &before, runs)
            }
        }
    }

    fn write_summary(&mut self) -> anyhow::Result<()> {
        let layout = self.layout(self.times.elapsed.mean());
        let mut shown = if self.showing.metric_only {
            self.metrics_of_all(&Table::new(&self.events, &layout))
        } else {
            self.lines(&rows(&self.events, &layout), None)
        };
        if matches!(self.showing.form, Form::Text { .. }) {
            let heading = text::heading(&self.title, self.runs);
            let gap = if shown.is_empty() { "" } else { "\n" };
            let table = self.showing.table.then_some(self.single_runs.as_slice());
            let footer = text::footer(&self.times, self.runs, self.only_command, table);
            shown = [&heading, &shown, gap, &footer].concat();
        }
        self.write(&shown)
    }

    fn metrics_of_all(&self, table: &Table) -> String {
        let form = &self.showing.form;
        let before = match (self.has_intervals, self.showing.marks_summary) {
            (true, true) => Before::Summary,
            _ => Before::Nothing,
        };
        let is_named = !self.has_intervals || matches!(form, Form::Text { .. });
        let heading = is_named.then(|| table.heading(form, before));
        heading.unwrap_or_default() + &table.lines(form, before)
    }

    fn write(&mut self, text: &str) -> anyhow::Result<()> {
        let written = self.out.write_all(text.as_bytes());
        written
            .and_then(|()| self.out.flush())
            .context("cannot write the counts")
    }

    /// A 0 that means "cannot see" is not shown as 0, and here is why.
    fn explain_blind(&mut self) {
        for (names, is_asked) in [(&self.left_out, true), (&self.blind, false)] {
            if !names.is_empty() {
                (self.say)(&events::of_the_kernel_only(names, "not counted", is_asked));
            }
        }
        if self.has_missed_tasks {
            for name in &self.of_known_threads {
                (self.say)(&events::missed_by_probe(name));
            }
        }
        if !self.forbidden.is_empty() {
            (self.say)(&format!(
                "not counted: {} cannot leave out the kernel, which this user may not watch\n  \
                 try: sudo sysctl kernel.perf_event_paranoid=1",
                self.forbidden.join(", ")
            ));
        }
    }
}

/// Where the interval before ended.
#[derive(Default)]
struct Interval {
    events: Vec<EventFigures>,
    places: Vec<CountedIn>,
    readings: Readings,
    end: Duration,
}

/// What each has counted since an earlier reading.
pub(crate) fn since(
    counts: &[Option<Reading>],
    earlier: &[Option<Reading>],
) -> Vec<Option<Reading>> {
    let none = Reading::default();
    let difference = |(place, count): (usize, &Option<Reading>)| {
        let before = earlier.get(place).copied().flatten().unwrap_or(none);
        count.map(|count| count.since(&before))
    };
    counts.iter().enumerate().map(difference).collect()
}

fn figures(counters: &Counters, options: &Options) -> Vec<EventFigures> {
    let counted = |(index, counter): (usize, &Counter)| {
        let attr = counter.attr();
        let mut event = CountedEvent::new(counter.name(), attr.kind, attr.config);
        event.supported = counter.is_supported();
        event.blind = counter.is_blind();
        if let Some((scale, unit)) = unit_of(counter) {
            (event.scale, event.unit) = (scale, unit);
        }
        event.cgroup = options
            .events
            .get(index)
            .and_then(|spec| spec.cgroup.clone());
        EventFigures::new(event)
    };
    counters.iter().enumerate().map(counted).collect()
}

fn names_of(counters: &Counters, are: fn(&Counter) -> bool) -> Vec<String> {
    let counters = counters.iter().filter(|counter| are(counter));
    counters.map(|counter| counter.name().to_owned()).collect()
}

/// Runs what the user wants to be run beside the command.
fn shell(line: Option<&std::ffi::OsStr>) -> anyhow::Result<()> {
    let Some(line) = line else {
        return Ok(());
    };
    let status = Command::new("/bin/sh").arg("-c").arg(line).status();
    let status = status.with_context(|| format!("cannot run {}", line.display()))?;
    anyhow::ensure!(status.success(), "{} failed: {status}", line.display());
    Ok(())
}

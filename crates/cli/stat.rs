//! `prof stat`: counts events instead of sampling them, with perf stat's
//! options and layout.

mod refused;
mod run;
mod target;
mod tool_times;

use crate::filters::Filters;
use crate::outcome::{Outcome, UsageError, say};
use crate::refused::Refused;
use crate::whose::{Given, Whose};
use anyhow::Context;
use prof_abi::EventAttr;
use prof_record::catalog;
use prof_record::cgroup;
use prof_record::counting::{Counter, Counters, Reading};
use prof_record::events::{self, EventSpec, Programs};
use prof_report::counts::{self, Count, CountedEvent, EventFigures, Times, rows};
use prof_report::escape;
use prof_sys::process::Ended;
use run::{CountPlan, Run};
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;
use target::Selection;

const EXAMPLES: &str = "\
Examples:
  prof stat ./app                        count the usual events
  prof stat -r 10 ./app                  ten runs, with their spread
  prof stat -e page-faults,context-switches -p 1234
  prof stat -a -I 1000                   the whole system, every second
  prof stat -x, -o counts.csv ./app      for a program to read

Counts go to stderr, as perf's, so that the command's own output stays apart.";

/// Count events of a command, of processes or of the whole system.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    // First: it looks at where the others are.
    #[command(flatten)]
    filters: Filters,
    /// Events, as prof list names them; may be given several times.
    #[arg(short, long = "event", value_name = "EVENTS")]
    event: Vec<String>,
    /// Count everything on all CPUs.
    #[arg(short, long)]
    all_cpus: bool,
    /// Count everything on these CPUs: 0,2-3.
    #[arg(short = 'C', long, value_name = "LIST")]
    cpu: Option<String>,
    /// Count the tasks of this cgroup, or of one for each event in order, which
    /// may be empty; with -a or -C.
    #[arg(short = 'G', long, value_name = "NAME,…")]
    cgroup: Option<String>,
    /// Count processes that run.
    #[arg(short, long, value_name = "PID,…")]
    pid: Option<String>,
    /// Count threads that run.
    #[arg(short, long, value_name = "TID,…")]
    tid: Option<String>,
    /// Run the command so many times; show means and their spread.
    #[arg(short, long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    repeat: u32,
    /// Show counts each time so many milliseconds have passed.
    #[arg(short = 'I', long, value_name = "MS", conflicts_with = "repeat",
          value_parser = clap::value_parser!(u64).range(1..=86_400_000))]
    interval_print: Option<u64>,
    /// Stop after so many milliseconds.
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    timeout: Option<u64>,
    /// Fields with this between them, for programs.
    #[arg(short = 'x', long, value_name = "TEXT")]
    field_separator: Option<String>,
    /// JSON, an object per line.
    #[arg(short, long, conflicts_with = "field_separator")]
    json: bool,
    /// Write the counts to this file instead of stderr.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Add to the file instead of replacing it.
    #[arg(long, requires = "output")]
    append: bool,
    /// Do not count children and new threads.
    #[arg(short = 'i', long)]
    no_inherit: bool,
    /// Count nothing, only take the time.
    #[arg(short, long, conflicts_with = "event")]
    null: bool,
    #[command(flatten)]
    refused: Refused<refused::OfStat>,
    /// The command and its arguments.
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Counts, shows, and passes on how the command ended.
pub(crate) fn run(args: Args) -> anyhow::Result<Outcome> {
    let args = &args;
    let plan = plan(args)?;
    let mut output = Output::open(args)?;
    let signals = run::take_signals()?;
    let mut session = Session::new(args, &plan);
    let mut last = None;
    for _ in 0..args.repeat {
        let result = session.run_once(&plan, &signals, &mut output);
        let one = match result {
            Ok(one) => one,
            Err(error) => return not_launched(&plan, error),
        };
        let stop = one.interrupted;
        last = Some(one);
        if stop {
            break;
        }
    }
    if args.interval_print.is_none() {
        output.write(&session.summary())?;
    }
    session.explain_blind();
    Ok(outcome(last.as_ref()))
}

fn plan(args: &Args) -> Result<CountPlan, UsageError> {
    let (pid, tid, cpu) = (
        args.pid.as_deref(),
        args.tid.as_deref(),
        args.cpu.as_deref(),
    );
    let given = Given {
        processes: pid.is_some(),
        threads: tid.is_some(),
        system: args.all_cpus,
        cpus: cpu.is_some(),
        per_thread: false,
    };
    given.left_out().for_each(say);
    let selection = match (given.whose(), pid, tid, cpu) {
        (Whose::Processes, Some(list), ..) => Selection::processes(list)?,
        (Whose::Threads, _, Some(list), _) => Selection::threads(list)?,
        (Whose::System, _, _, Some(list)) => Selection::cpus(list)?,
        (Whose::System, ..) => Selection::System,
        _ => Selection::Command,
    };
    if args.command.is_empty() {
        if selection == Selection::Command {
            let help = "nothing to count\n  try: prof stat ./app, prof stat -p PID or prof stat -a";
            return Err(UsageError(help.to_owned()));
        }
        if args.repeat > 1 {
            return Err(UsageError("-r needs a command to run".to_owned()));
        }
    }
    let milliseconds = |ms: Option<u64>| ms.map(Duration::from_millis);
    Ok(CountPlan {
        events: asked_events(args, &selection)?,
        selection,
        command: args.command.clone(),
        inherit: !args.no_inherit,
        interval: milliseconds(args.interval_print),
        timeout: milliseconds(args.timeout),
    })
}

fn asked_events(args: &Args, selection: &Selection) -> Result<Vec<EventSpec>, UsageError> {
    if args.null {
        return Ok(Vec::new());
    }
    if args.event.is_empty() {
        let mut specs = default_events(selection);
        set_cgroups(args, selection, &mut specs)?;
        return Ok(specs);
    }
    let command = args.command.first().map(OsString::as_os_str);
    let programs = Programs::new(command, selection.processes_counted());
    let mut specs: Vec<EventSpec> = Vec::new();
    args.filters.check()?;
    for (number, text) in args.event.iter().enumerate() {
        let groups = specs.len() as u32;
        let parsed = events::parse_for(text, groups, &programs);
        let mut parsed = parsed.map_err(|error| UsageError(error.to_string()))?;
        args.filters.apply(number + 1, &mut parsed)?;
        specs.extend(parsed);
    }
    let for_samples = |spec: &EventSpec| Some((spec.name.clone(), spec.sampling_term?));
    if let Some((event, term)) = specs.iter().find_map(for_samples) {
        let why = format!("event {event}: {term} is about samples, and prof stat takes none");
        return Err(UsageError(format!("{why}\n  try: prof record")));
    }
    set_cgroups(args, selection, &mut specs)?;
    Ok(specs)
}

fn set_cgroups(
    args: &Args,
    selection: &Selection,
    specs: &mut [EventSpec],
) -> Result<(), UsageError> {
    let Some(list) = &args.cgroup else {
        return Ok(());
    };
    if !selection.is_cpus() {
        let why = "-G counts a cgroup on all CPUs\n  try: with -a";
        return Err(UsageError(why.to_owned()));
    }
    match cgroup::assign(list, specs) {
        true => Ok(()),
        false => {
            let why = format!("-G {list}: there are more cgroups than events");
            Err(UsageError(why))
        }
    }
}

/// perf's choice: the clock, what the kernel counts, and the core events of a
/// PMU. Events of stalls only where the PMU has them.
fn default_events(selection: &Selection) -> Vec<EventSpec> {
    let clock = if selection.is_cpus() {
        "cpu-clock"
    } else {
        "task-clock"
    };
    let always = [
        clock,
        "context-switches",
        "cpu-migrations",
        "page-faults",
        "cycles",
    ];
    let stalls = ["stalled-cycles-frontend", "stalled-cycles-backend"];
    let has = |event: &&str| {
        let file = format!("/sys/bus/event_source/devices/cpu/events/{event}");
        std::path::Path::new(&file).exists()
    };
    let names = always.into_iter().chain(stalls.into_iter().filter(has));
    names
        .chain(["instructions", "branches", "branch-misses"])
        .filter_map(|name| {
            let (kind, config) = prof_abi::event_by_name(name)?;
            let attr = EventAttr {
                kind,
                config,
                ..EventAttr::default()
            };
            Some(EventSpec::new(name, attr))
        })
        .collect()
}

/// A command that does not exist ends with the shell's code; other errors are
/// ours.
fn not_launched(plan: &CountPlan, error: anyhow::Error) -> anyhow::Result<Outcome> {
    match run::launch_failure(&error) {
        Some(code) => {
            let command = plan.command.first().cloned().unwrap_or_default();
            say(&format!("cannot run {}: {error}", command.display()));
            Ok(Outcome::Code(code))
        }
        None => Err(error),
    }
}

fn outcome(last: Option<&Run>) -> Outcome {
    const INTERRUPTED: u8 = 130;
    match last.and_then(|run| run.ended) {
        Some(Ended::Exited(0)) => Outcome::Done,
        Some(Ended::Exited(code)) => Outcome::Code(code as u8),
        Some(Ended::Signaled(signal)) => Outcome::Signal(signal),
        // Ctrl-C is how counting without a command or time ends.
        None if last.is_some_and(|run| run.interrupted) => Outcome::Code(INTERRUPTED),
        None => Outcome::Done,
    }
}

/// How the counts are written.
enum Form {
    Text,
    Separated(String),
    Json,
}

/// What is known over all runs.
struct Session {
    form: Form,
    title: String,
    repeat: u32,
    only_command: bool,
    events: Vec<EventFigures>,
    blind: Vec<String>,
    forbidden: Vec<String>,
    times: Times,
    runs: u32,
    intervals: u64,
}

impl Session {
    fn new(args: &Args, plan: &CountPlan) -> Self {
        let words: Vec<_> = args
            .command
            .iter()
            .map(|word| word.to_string_lossy())
            .collect();
        let form = match (&args.field_separator, args.json) {
            (Some(separator), _) => Form::Separated(separator.clone()),
            (None, true) => Form::Json,
            (None, false) => Form::Text,
        };
        Self {
            form,
            title: plan.selection.title(&escape::terminal(&words.join(" "))),
            repeat: args.repeat,
            only_command: plan.selection == Selection::Command,
            events: Vec::new(),
            blind: Vec::new(),
            forbidden: Vec::new(),
            times: Times::default(),
            runs: 0,
            intervals: 0,
        }
    }

    fn run_once(
        &mut self,
        plan: &CountPlan,
        signals: &prof_sys::signal::SignalFd,
        output: &mut Output,
    ) -> anyhow::Result<Run> {
        let opened = plan.open()?;
        if self.events.is_empty() {
            self.events = new_figures(opened.counters());
            self.blind = names_of(opened.counters(), Counter::is_blind);
            self.forbidden = names_of(opened.counters(), Counter::is_forbidden);
            if plan.inherit && !plan.selection.is_cpus() {
                let probes = names_of(opened.counters(), Counter::is_of_known_threads);
                probes
                    .iter()
                    .for_each(|name| say(&events::of_known_threads(name)));
            }
        }
        let mut before = Interval {
            events: new_figures(opened.counters()),
            ..Interval::default()
        };
        let run = opened.run(signals, |elapsed, readings| {
            let text = self.interval(&mut before, elapsed, readings);
            output.write(&text)
        })?;
        if plan.interval.is_some() {
            let text = self.interval(&mut before, run.elapsed, &run.readings);
            output.write(&text)?;
        }
        for (figures, reading) in self.events.iter_mut().zip(&run.readings) {
            figures.push(count(reading));
        }
        self.times.push(run.elapsed, run.user, run.system);
        self.runs += 1;
        Ok(run)
    }

    /// The lines of one interval, which ends `elapsed` after the start.
    fn interval(
        &mut self,
        before: &mut Interval,
        elapsed: Duration,
        readings: &[Reading],
    ) -> String {
        let mut events = before.events.clone();
        let none = Reading::default();
        let earlier = before.readings.iter().chain(std::iter::repeat(&none));
        for ((figures, reading), earlier) in events.iter_mut().zip(readings).zip(earlier) {
            figures.push(count(&reading.since(earlier)));
        }
        let length = elapsed.saturating_sub(before.end);
        before.end = elapsed;
        before.readings = readings.to_vec();
        let rows = rows(&events, length.as_nanos() as f64);
        const LINES_PER_HEADING: u64 = 25;
        let mut text = String::new();
        if matches!(self.form, Form::Text) && self.intervals.is_multiple_of(LINES_PER_HEADING) {
            text.push_str(counts::INTERVAL_HEADING);
        }
        self.intervals += 1;
        text.push_str(&self.lines(&rows, Some(elapsed)));
        text
    }

    fn lines(&self, rows: &[counts::CountRow], time: Option<Duration>) -> String {
        match &self.form {
            Form::Text => counts::lines(rows, time),
            Form::Json => counts::json_lines(rows, time, self.repeat),
            Form::Separated(separator) => counts::separated(rows, separator, time, self.repeat),
        }
    }

    fn summary(&self) -> String {
        let rows = rows(&self.events, self.times.elapsed.mean());
        let lines = self.lines(&rows, None);
        match self.form {
            Form::Text => {
                let heading = counts::heading(&self.title, self.runs);
                let gap = if rows.is_empty() { "" } else { "\n" };
                let footer = counts::footer(&self.times, self.runs, self.only_command);
                [&heading, &lines, gap, &footer].concat()
            }
            Form::Json | Form::Separated(_) => lines,
        }
    }

    /// A 0 that means "cannot see" is not shown as 0, and here is why.
    fn explain_blind(&self) {
        for (names, why) in [
            (&self.blind, "occur in the kernel"),
            (&self.forbidden, "cannot leave out the kernel"),
        ] {
            if !names.is_empty() {
                say(&format!(
                    "not counted: {} {why}, which this user may not watch\n  \
                     try: sudo sysctl kernel.perf_event_paranoid=1",
                    names.join(", ")
                ));
            }
        }
    }
}

/// Where the interval before ended.
#[derive(Default)]
struct Interval {
    events: Vec<EventFigures>,
    readings: Vec<Reading>,
    end: Duration,
}

fn new_figures(counters: &Counters) -> Vec<EventFigures> {
    let counted = |counter: &Counter| CountedEvent {
        name: counter.name().to_owned(),
        kind: counter.attr().kind,
        config: counter.attr().config,
        supported: counter.is_supported(),
        blind: counter.is_blind(),
        scale: match counter.tool() {
            Some(_) => Some((1.0, "ns".to_owned())),
            None => catalog::unit_of(counter.name()),
        },
    };
    let events = counters.iter().map(counted);
    events.map(EventFigures::new).collect()
}

fn count(reading: &Reading) -> Count {
    Count {
        events: reading.scaled(),
        enabled: reading.enabled,
        running: reading.running,
    }
}

fn names_of(counters: &Counters, are: fn(&Counter) -> bool) -> Vec<String> {
    let counters = counters.iter().filter(|counter| are(counter));
    counters.map(|counter| counter.name().to_owned()).collect()
}

/// stderr or a file.
struct Output {
    to: Box<dyn Write>,
}

impl Output {
    fn open(args: &Args) -> anyhow::Result<Self> {
        let Some(path) = &args.output else {
            return Ok(Self {
                to: Box::new(io::stderr()),
            });
        };
        let mut options = OpenOptions::new();
        options.create(true);
        if args.append {
            options.append(true);
        } else {
            options.write(true).truncate(true);
        }
        let file = options
            .open(path)
            .with_context(|| format!("cannot write to {}", path.display()))?;
        Ok(Self { to: Box::new(file) })
    }

    fn write(&mut self, text: &str) -> anyhow::Result<()> {
        self.to
            .write_all(text.as_bytes())
            .and_then(|()| self.to.flush())
            .context("cannot write the counts")
    }
}

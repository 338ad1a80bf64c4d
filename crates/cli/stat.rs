//! `prof stat`: counts events instead of sampling them, with perf stat's
//! options and layout.

mod choice;
mod recorded;
mod refused;
mod together;

use crate::cgroups::Cgroups;
use crate::filters::Filters;
use crate::outcome::{Outcome, UsageError, say};
use crate::record::channel;
use crate::refused::Refused;
use anyhow::Context;
use clap::Parser;
use prof_record::commands::Channel;
use prof_stat::{Finished, count};
use prof_sys::clock::local_time;
use prof_sys::process::Ended;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, IsTerminal, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};
use together::Together;

const EXAMPLES: &str = "\
Examples:
  prof stat ./app                        count the usual events
  prof stat -r 10 ./app                  ten runs, with their spread
  prof stat -e page-faults,context-switches -p 1234
  prof stat -a -I 1000                   the whole system, every second
  prof stat -a -A -e context-switches sleep 1      each CPU
  prof stat -a --for-each-cgroup user.slice,system.slice sleep 1
  prof stat -a -A -I 1000 --metric-only  what follows from the counts of each CPU
  prof stat -x, -o counts.csv ./app      for a program to read
  prof stat record -o counts.data ./app  into a file, also for perf stat report
  prof stat report -i counts.data        from such a file, also of perf's

Counts go to stderr, as perf's, so that the command's own output stays apart.
Those of a file go to stdout.";

/// Count events of a command, of processes or of the whole system.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    // First: they look at where the others are.
    #[command(flatten)]
    filters: Filters,
    #[command(flatten)]
    cgroups: Cgroups,
    /// Events, as prof list names them; may be given several times.
    #[arg(short, long = "event", value_name = "EVENTS")]
    event: Vec<String>,
    /// Count everything on all CPUs.
    #[arg(short, long)]
    all_cpus: bool,
    /// Count everything on these CPUs: 0,2-3.
    #[arg(short = 'C', long, value_name = "LIST")]
    cpu: Option<String>,
    /// Count processes that run.
    #[arg(short, long, value_name = "PID,…")]
    pid: Option<String>,
    /// Count threads that run.
    #[arg(short, long, value_name = "TID,…")]
    tid: Option<String>,
    /// Count each event for each of these cgroups, or those that a pattern matches; with -a or -C.
    #[arg(long, value_name = "NAME,…", conflicts_with = "cgroup")]
    for_each_cgroup: Option<String>,
    /// Put all events into one group.
    #[arg(short, long)]
    group: bool,
    /// More of the usual events: caches; again for more.
    #[arg(short, long, action = clap::ArgAction::Count)]
    detailed: u8,
    /// Count only user space.
    #[arg(long, conflicts_with = "all_kernel")]
    all_user: bool,
    /// Count only the kernel.
    #[arg(long)]
    all_kernel: bool,
    /// Run the command so many times, 0 for until interrupted; show means and
    /// their spread.
    #[arg(short, long, value_name = "N", default_value_t = 1,
          value_parser = clap::value_parser!(u64).range(0..=1_000_000))]
    repeat: u64,
    /// Show the time of each run, with -r.
    #[arg(long)]
    table: bool,
    /// Show counts each time so many milliseconds have passed; 0: only at the
    /// end.
    #[arg(short = 'I', long, value_name = "MS",
          value_parser = clap::value_parser!(u64).range(0..=86_400_000))]
    interval_print: Option<u64>,
    /// Stop after so many intervals.
    #[arg(long, value_name = "N", requires = "interval_print",
          value_parser = clap::value_parser!(u64).range(1..))]
    interval_count: Option<u64>,
    /// Clear the screen before each interval.
    #[arg(long, requires = "interval_print")]
    interval_clear: bool,
    /// The whole behind the intervals.
    #[arg(long)]
    summary: bool,
    /// Separated lines of the summary without the word summary.
    #[arg(long)]
    no_csv_summary: bool,
    /// Stop after so many milliseconds.
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    timeout: Option<u64>,
    /// Count only from so many milliseconds after the start; -1: when --control
    /// says so.
    #[arg(short = 'D', long, value_name = "MS", allow_negative_numbers = true,
          value_parser = clap::value_parser!(i64).range(-1..=86_400_000))]
    delay: Option<i64>,
    /// Take enable, disable, ping and stop from a descriptor or a FIFO, a line
    /// each, and answer each with ack.
    #[arg(long, value_name = "fd:CTL[,ACK]|fifo:CTL[,ACK]", value_parser = channel)]
    control: Option<Channel>,
    #[command(flatten)]
    together: Together,
    /// Lines for each thread of -p, -t or of the system.
    #[arg(long)]
    per_thread: bool,
    /// Metrics or groups of them, by name, of the files of --metrics-dir.
    #[arg(short = 'M', long, value_name = "NAME,…")]
    metrics: Option<String>,
    /// A folder of perf's JSON files of metrics and events.
    #[arg(long, value_name = "DIR")]
    metrics_dir: Option<PathBuf>,
    /// Only what follows from the counts, a line of it.
    #[arg(long, conflicts_with = "per_thread")]
    metric_only: bool,
    /// Do not count the events of a metric as a group.
    #[arg(long)]
    metric_no_group: bool,
    /// Do not count the events of a metric in the group of another that has
    /// them all.
    #[arg(long)]
    metric_no_merge: bool,
    /// Count no events for thresholds of metrics, as is the case.
    #[arg(long)]
    metric_no_threshold: bool,
    /// Digits in groups of three.
    #[arg(short = 'B', long, overrides_with = "no_big_num")]
    big_num: bool,
    /// Digits as they are, as is the case without -B.
    #[arg(long)]
    no_big_num: bool,
    /// Scale counts of events that shared a counter, as is the case.
    #[arg(long, overrides_with = "no_scale")]
    scale: bool,
    /// Counts as they were read, not scaled.
    #[arg(long)]
    no_scale: bool,
    /// Fields with this between them, for programs; \t for tabs.
    #[arg(short = 'x', long, value_name = "TEXT")]
    field_separator: Option<String>,
    /// JSON, an object per line.
    #[arg(short, long, visible_alias = "json-output")]
    json: bool,
    /// Write the counts to this file instead of stderr; of stat record, the
    /// recording.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Add to the file instead of replacing it.
    #[arg(long)]
    append: bool,
    /// Write the counts to this descriptor instead of stderr.
    #[arg(long, value_name = "FD", conflicts_with = "output")]
    log_fd: Option<u32>,
    /// Write nothing.
    #[arg(long)]
    quiet: bool,
    /// Do not count children and new threads.
    #[arg(short = 'i', long)]
    no_inherit: bool,
    /// Count nothing but what -e and -M name, only take the time.
    #[arg(short, long)]
    null: bool,
    /// Nothing: counters are read where the kernel has them, as is the case.
    #[arg(long, hide = true, overrides_with = "no_affinity")]
    affinity: bool,
    /// The same.
    #[arg(long, hide = true)]
    no_affinity: bool,
    /// Have all that is in memory written to disk before each run.
    #[arg(short = 'S', long)]
    sync: bool,
    /// A shell command to run before each run.
    #[arg(long, value_name = "COMMAND")]
    pre: Option<OsString>,
    /// A shell command to run behind each run.
    #[arg(long, value_name = "COMMAND")]
    post: Option<OsString>,
    /// Tell each reading: events, ns enabled, ns counted.
    #[arg(short, long, action = clap::ArgAction::Count)]
    verbose: u8,
    #[command(flatten)]
    refused: Refused<refused::OfStat>,
    /// The command and its arguments; or record or report, for files.
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Counts, shows, and passes on how the command ended.
pub(crate) fn run(args: Args) -> anyhow::Result<Outcome> {
    match args.command.first().and_then(|word| word.to_str()) {
        Some("report") => recorded::report(&args),
        Some("record") => {
            let mut args = again(&args)?;
            let store = args.output.take().unwrap_or_else(|| "perf.data".into());
            run_counting(&args, Some(store))
        }
        _ => run_counting(&args, None),
    }
}

/// The options with those behind `record`, which is taken out.
fn again(args: &Args) -> Result<Args, UsageError> {
    #[derive(Debug, Parser)]
    #[command(
        name = "prof stat record",
        infer_long_args = true,
        args_override_self = true
    )]
    struct Recording {
        #[command(flatten)]
        args: Args,
    }
    let words: Vec<OsString> = std::env::args_os().collect();
    let word = words.len().saturating_sub(args.command.len());
    let program = words.iter().position(|it| it == "stat").unwrap_or(1);
    let before = words.get(program..word).unwrap_or_default();
    let behind = words.get(word + 1..).unwrap_or_default();
    let parsed = Recording::try_parse_from(before.iter().chain(behind));
    let args = parsed.unwrap_or_else(|error| error.exit()).args;
    if args.repeat != 1 {
        return Err(UsageError(
            "-r: a file holds one run\n  try: prof stat -r without record".to_owned(),
        ));
    }
    Ok(args)
}

fn run_counting(args: &Args, store: Option<PathBuf>) -> anyhow::Result<Outcome> {
    let own = || {
        std::env::args_os()
            .map(|word| word.as_bytes().to_vec())
            .collect()
    };
    let store = store.map(|path| (path, own()));
    let options = choice::options(args, store)?;
    let is_screen = args.output.is_none() && io::stderr().is_terminal();
    if args.interval_clear && !is_screen {
        let why = "--interval-clear clears a screen, and there is none here\n  try: without it";
        return Err(UsageError(why.to_owned()).into());
    }
    let mut output = output(args)?;
    let quiet = args.quiet;
    let mut tell = |message: &str| {
        if !quiet {
            say(message);
        }
    };
    let counted = count(&options, &mut output, &mut tell);
    match counted {
        Ok(finished) => {
            let ended = finished
                .ended
                .filter(|_| !finished.interrupted && !finished.stopped);
            if let Some(how) = ended.and_then(Ended::by_signal) {
                tell(&format!("the command was ended by {how}"));
            }
            Ok(outcome(finished))
        }
        Err(error) => not_launched(args, error),
    }
}

/// A command that does not exist ends with the shell's code; other errors are
/// ours.
fn not_launched(args: &Args, error: anyhow::Error) -> anyhow::Result<Outcome> {
    match prof_stat::launch_failure(&error) {
        Some(code) => {
            let command = args.command.first().cloned().unwrap_or_default();
            say(&format!("cannot run {}: {error}", command.display()));
            Ok(Outcome::Code(code))
        }
        None => Err(error),
    }
}

fn outcome(finished: Finished) -> Outcome {
    const INTERRUPTED: u8 = 130;
    match finished.ended {
        Some(Ended::Exited(0)) => Outcome::Done,
        Some(Ended::Exited(code)) => Outcome::Code(code as u8),
        // That end was asked for, as of a recording of some time.
        Some(Ended::Signaled(_)) if finished.stopped => Outcome::Done,
        Some(Ended::Signaled(signal)) => Outcome::Signal(signal),
        // Ctrl-C is how counting without a command or time ends.
        None if finished.interrupted => Outcome::Code(INTERRUPTED),
        None => Outcome::Done,
    }
}

/// stderr, a file or a descriptor.
fn output(args: &Args) -> anyhow::Result<Box<dyn Write>> {
    let path = match (&args.output, args.log_fd) {
        _ if args.quiet => return Ok(Box::new(io::sink())),
        (Some(path), _) => path.clone(),
        (None, Some(fd)) => PathBuf::from(format!("/proc/self/fd/{fd}")),
        (None, None) if args.append => {
            let missing = "--append adds to a file\n  try: with -o FILE";
            return Err(UsageError(missing.to_owned()).into());
        }
        (None, None) => return Ok(Box::new(io::stderr())),
    };
    let mut options = OpenOptions::new();
    options.create(true);
    if args.append || args.log_fd.is_some() {
        options.append(true);
    } else {
        options.write(true).truncate(true);
    }
    let cannot = || format!("cannot write to {}", path.display());
    let mut file = options.open(&path).with_context(cannot)?;
    // As perf: runs that are appended are told apart. A file of JSON has no remarks.
    if args.output.is_some() && !args.json {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |it| it.as_secs().cast_signed());
        let now = local_time(now).map_or_else(String::new, |it| it.as_ctime());
        write!(file, "# started on {now}\n\n").with_context(cannot)?;
    }
    Ok(Box::new(file))
}

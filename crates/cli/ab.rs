//! `prof ab`: two commands run in turns, recorded and compared.

mod order;
mod pairs;
mod telling;

use crate::outcome::{Outcome, UsageError, say};
use crate::pager::{fitted, text_columns};
use crate::runs::Compared;
use order::Order;
use pairs::{Ended, Pairs};
use prof_compare::{Comparison, Trial, trial_text};
use prof_sys::signal::{SignalFd, SignalSet};
use std::ffi::OsString;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::time::Duration;

/// Run two commands in turns, record each run, and say which is faster and where.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, after_long_help = ABOUT)]
pub(crate) struct Args {
    /// How often each command runs
    #[arg(short = 'n', long, value_name = "RUNS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(2..=10_000))]
    runs: u64,
    /// Go on until the total and each function above --min-share has a verdict
    #[arg(long, conflicts_with = "runs")]
    until_sure: bool,
    /// End after so many seconds with what is known then [default: 600 with --until-sure]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    time_limit: Option<Duration>,
    /// Run each command so often first, unmeasured
    #[arg(long, value_name = "N", default_value_t = 1)]
    warmup: u64,
    /// Set a variable to tell the sides apart: NAME=VALUE before, NAME=VALUE after
    #[arg(long, num_args = 2, value_names = ["BEFORE", "AFTER"])]
    env: Vec<OsString>,
    /// Run in these directories
    #[arg(long, num_args = 2, value_names = ["BEFORE", "AFTER"])]
    dir: Vec<PathBuf>,
    /// Samples a second (Hz)
    #[arg(short = 'F', long = "freq", value_name = "HZ", default_value = "999")]
    freq: String,
    /// The event to sample [default: as prof record]
    #[arg(short, long, value_name = "EVENT")]
    event: Option<String>,
    /// Compare the cost of functions, or the part that each has of its run
    #[arg(long, value_name = "WHAT", default_value = "cost")]
    by: Compared,
    /// Call it the same if it changed by less than this, percent of the total before
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0, value_parser = crate::share::percent)]
    bound: f64,
    /// Only functions of at least this part of the samples, percent
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0, value_parser = crate::share::percent)]
    min_share: f64,
    /// Keep the recordings in this directory: before-001.data, after-001.data, …
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Draw what changed, to this file (.svg or .html)
    #[arg(long, value_name = "FILE")]
    flamegraph: Option<PathBuf>,
    /// Go on where a command fails
    #[arg(short, long)]
    ignore_failure: bool,
    /// Show what the commands write
    #[arg(long)]
    show_output: bool,
    /// Repeat the order of the runs that this number gave
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,
    /// Write JSON
    #[arg(long)]
    json: bool,
    /// The command before, -- and the one after; or one for both sides
    #[arg(last = true, value_name = "COMMAND", required = true)]
    command: Vec<OsString>,
}

macro_rules! examples {
    () => {
        "\
Examples:
  prof ab -- ./old arg -- ./new arg            ten runs of each
  prof ab --until-sure -- ./old -- ./new       as many as it takes
  prof ab --env CACHE=0 CACHE=1 -- ./app       one program, two settings
  prof ab --flamegraph diff.svg -- ./old -- ./new
                                               what got slower, as a picture
  prof ab --keep runs -- ./old -- ./new        then prof report -i runs/after-001.data"
    };
}

const EXAMPLES: &str = examples!();

/// For `--help` and the manual.
const ABOUT: &str = concat!(
    examples!(),
    "

The commands run in pairs, in random order within each, so that what the machine
does meanwhile meets both sides. Changes are of the pairs: intervals and verdicts
say what other pairs would show. Wall time, CPU time, peak memory and page faults
are of the command and of what it waited for; what a run is compared by, then, are
its samples, function by function. 5 % of what is said to have changed may be
false, all lines of the result taken together.

Where whole runs are faster and slower, as on machines that others use, and have
thousands of samples, --by share shows smaller changes: it compares the part that each
function has of its run. A part falls, too, if another grows.

--until-sure looks after 4, 5, 7, 10, 14, 19, 27, 38, 53 and 75 pairs, each time
at an eleventh of that level (alpha-spending, Lan and DeMets 1983), so that whenever
it stops, it is wrong as rarely.

What the commands write is thrown away, and they read nothing, unless
--show-output is given. Peak memory begins with what prof itself has when it
starts the command; where that is not less, it is not told.

Exit code: 0 all runs were made (with --until-sure: and it is sure), 5 the limit
came before, 130 Ctrl-C (what is known by then is shown), 2 bad options, 1 any
other failure: a command that failed, too.

--json writes one object: schema \"prof-ab-1\", commands, pairs, decided, and
comparisons, one of each event, as prof diff --json has them, with measures
[ name, unit, before, after, change { percent, low, high }, verdict, needs ]."
);

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| *seconds > 0.0);
    let seconds = seconds.and_then(|seconds: f64| Duration::try_from_secs_f64(seconds).ok());
    seconds.ok_or_else(|| "a number of seconds above 0".into())
}

fn usage(message: impl Into<String>) -> anyhow::Error {
    anyhow::Error::new(UsageError(message.into()))
}

/// Runs both in turns and compares.
pub(crate) fn run(args: Args) -> anyhow::Result<Outcome> {
    let args = &args;
    let mut pairs = Pairs::new(args)?;
    // From here on a Ctrl-C ends the trial with what is known, also between two
    // recordings, which take it themselves.
    let signals = SignalSet::of(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP]);
    let signals = SignalFd::new(signals)?;
    let mut order = Order::new(args.seed);
    let ended = pairs.run(&mut order, &signals)?;
    let compared = pairs.compared()?;
    if compared.is_empty() {
        say("no pair of runs was finished: nothing is known");
        return Ok(Outcome::Code(130));
    }
    let trial = pairs.told(ended);
    let is_decided = compared.iter().all(Comparison::is_decided);
    write(args, (&trial, is_decided), &compared)?;
    if let Some(path) = &args.flamegraph {
        pairs.draw(path)?;
        say(&format!("wrote {}", path.display()));
    }
    if let Some(directory) = &args.keep {
        say(&format!("the recordings are in {}", directory.display()));
    }
    Ok(match ended {
        Ended::Interrupted => Outcome::Code(130),
        Ended::Limit if args.until_sure && !is_decided => Outcome::Code(5),
        Ended::Limit | Ended::Done => Outcome::Done,
    })
}

fn write(
    args: &Args,
    (trial, is_decided): (&Trial, bool),
    compared: &[Comparison],
) -> anyhow::Result<()> {
    let columns = text_columns().filter(|_| !args.json);
    let mut out = BufWriter::new(fitted(io::stdout().lock(), columns));
    if args.json {
        prof_compare::trial_json((trial, is_decided), compared, &mut out)?;
    } else {
        for (index, comparison) in compared.iter().enumerate() {
            if index > 0 {
                writeln!(out)?;
            }
            trial_text(trial, comparison, columns, &mut out)?;
        }
    }
    out.flush()?;
    Ok(())
}

//! `prof check`: budgets that a program keeps to, for CI.

mod config;

use crate::outcome::{Outcome, UsageError, say};
use crate::runs::{check_distinct, functions_of, input};
use anyhow::Context;
use prof_compare::{Budget, Checked, Judged, Kept, Run, judge, overall};
use prof_symbolize::{Sources, Symbolizer};
use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Check recordings against budgets; fails only on what is sure.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, after_long_help = ABOUT)]
pub(crate) struct Args {
    /// The recordings to check [default: perf.data]
    #[arg(value_name = "RECORDINGS")]
    files: Vec<PathBuf>,
    /// Recordings to compare with, several to know how much runs differ
    #[arg(long, value_name = "FILES", num_args = 1..)]
    baseline: Vec<PathBuf>,
    /// What may be: "parse* <= 12%", "parse* <= 1.1x", "total <= 1.05x", "new <= 1%"
    #[arg(short, long, value_name = "BUDGET")]
    budget: Vec<Budget>,
    /// The file of budgets [default: prof.toml, if it is there]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Read recordings that belong to another user
    #[arg(short = 'f', long)]
    force: bool,
    /// Write JSON
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// Write Markdown, for a pull request
    #[arg(long)]
    markdown: bool,
}

const EXAMPLES: &str = "\
Examples:
  prof check -b 'parse* <= 12%'                      of perf.data
  prof check --baseline a1 a2 a3 -b 'total <= 1.05x' -- b1 b2 b3
  prof check --markdown b1 b2 b3 >> summary.md       budgets of prof.toml";

/// For `--help` and the manual.
const ABOUT: &str = "\
Examples:
  prof check -b 'parse* <= 12%'                      of perf.data
  prof check --baseline a1 a2 a3 -b 'total <= 1.05x' -- b1 b2 b3
  prof check --markdown b1 b2 b3 >> summary.md       budgets of prof.toml

Budgets, each also with \"of EVENT\" behind it:
  NAME <= N%     own code of the functions with such a name (* and ? stand for
                 letters), percent of the samples
  NAME <= Nx     the same, in units of its cost in the baseline
  total <= Nx    all samples, in units of the baseline
  new <= N%      each function that the baseline has no sample of
A function that is recognised by another name, as prof diff does, counts under
both names and is not new; the output says so. Cost that only moved between a
function and its callers (inlined, or taken out) is neither new nor more: beside
\"Nx\" of a function stands what its code moved to or came from.

prof.toml, whose files are sought from where it lies:
  baseline = [\"main-1.data\", \"main-2.data\", \"main-3.data\"]
  budgets = [\"parse* <= 12%\", \"total <= 1.05x\", \"new <= 1%\"]

A budget fails if it is sure to be exceeded: of a hundred checks of programs that
keep all budgets exactly, one fails. It passes if it is sure to be kept (one of
twenty is not). Else it is undecided, with the samples or recordings that would
decide. With one recording a side, shares are of this recording, and what only
several recordings tell is undecided.

Exit code: 0 all pass, 4 one fails, 5 none fails and one is undecided, 2 bad
options, 1 any other failure.

--json writes one object: schema \"prof-check-1\", result, budgets [ budget, event,
verdict (passes, fails, undecided), found, low, high, unit (% or x), about,
needs_samples, needs_runs ]; what is not known is null.";

/// `prof.toml`.
#[derive(Debug, Default)]
struct Config {
    baseline: Vec<PathBuf>,
    budgets: Vec<String>,
}

const CONFIG: &str = "prof.toml";

fn usage(message: impl Into<String>) -> anyhow::Error {
    anyhow::Error::new(UsageError(message.into()))
}

impl Config {
    fn read(path: &Path) -> anyhow::Result<Self> {
        let name = path.display();
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {name}"))?;
        let lists = config::lists(&text).map_err(|error| usage(format!("{name}: {error}")))?;
        let folder = path.parent().unwrap_or(Path::new(""));
        let mut config = Self::default();
        for (key, list) in lists {
            match key.as_str() {
                "baseline" => config.baseline = list.iter().map(|file| folder.join(file)).collect(),
                "budgets" => config.budgets = list,
                _ => {
                    let known = "there are baseline and budgets";
                    return Err(usage(format!("{name}: {key} is not known; {known}")));
                }
            }
        }
        Ok(config)
    }

    fn budgets(&self) -> anyhow::Result<Vec<Budget>> {
        let parsed = self.budgets.iter().map(|text| text.parse().map_err(usage));
        parsed.collect()
    }
}

/// The budgets of the file and those that were given, each once.
fn all_budgets(args: &Args, config: &Config) -> anyhow::Result<Vec<Budget>> {
    let mut budgets = config.budgets()?;
    if args.config.is_none() && !budgets.is_empty() && !args.budget.is_empty() {
        say(&format!(
            "with the budgets of {CONFIG}, too (--config FILE names others)"
        ));
    }
    for budget in &args.budget {
        if !budgets.contains(budget) {
            budgets.push(budget.clone());
        }
    }
    Ok(budgets)
}

/// Checks.
pub(crate) fn run(args: Args) -> anyhow::Result<Outcome> {
    let config = match &args.config {
        Some(path) => Config::read(path)?,
        None if Path::new(CONFIG).is_file() => Config::read(Path::new(CONFIG))?,
        None => Config::default(),
    };
    let budgets = all_budgets(&args, &config)?;
    if budgets.is_empty() {
        return Err(usage(
            "there is no budget to check\n  try: prof check --budget 'parse* <= 12%'   or a file \
             prof.toml, as prof check --help shows it",
        ));
    }
    let baseline = match args.baseline.is_empty() {
        true => config.baseline,
        false => args.baseline.clone(),
    };
    if let Some(budget) = budgets.iter().find(|budget| budget.needs_baseline())
        && baseline.is_empty()
    {
        return Err(usage(format!(
            "\"{}\" is about a baseline\n  try: --baseline FILES, recordings of what to compare with",
            budget.text
        )));
    }
    let files = match args.files.is_empty() {
        true => vec![PathBuf::from("perf.data")],
        false => args.files.clone(),
    };
    let symbolizer = Symbolizer::new(Sources::default());
    let mut outcome = Outcome::Done;
    let mut load = |files: &[PathBuf]| -> anyhow::Result<Vec<Vec<Run>>> {
        let loaded = files.iter().map(|path| {
            let name = path.display().to_string();
            let (runs, how) = functions_of(&input(path, args.force), &name, &symbolizer)?;
            if how != Outcome::Done {
                outcome = how;
            }
            Ok(runs)
        });
        loaded.collect()
    };
    check_distinct(&baseline)?;
    check_distinct(&files)?;
    let (baseline, runs) = (load(&baseline)?, load(&files)?);
    let judged = judged(&budgets, &baseline, &runs)?;
    write(&args, &judged)?;
    Ok(match overall(&judged) {
        Kept::Fails => Outcome::Code(4),
        Kept::Undecided => Outcome::Code(5),
        Kept::Passes => outcome,
    })
}

/// Each budget by the first event that it is for and that all recordings have.
fn judged(
    budgets: &[Budget],
    baseline: &[Vec<Run>],
    runs: &[Vec<Run>],
) -> anyhow::Result<Vec<Judged>> {
    let of = |list: &[Vec<Run>], event: &str| -> Option<Vec<Run>> {
        let runs = list
            .iter()
            .map(|runs| runs.iter().find(|run| run.event == event).cloned());
        runs.collect()
    };
    let mut all = Vec::new();
    let events = runs.first().map_or(&[][..], Vec::as_slice);
    let mut left: Vec<Budget> = budgets.to_vec();
    for run in events {
        let sides = of(baseline, &run.event).zip(of(runs, &run.event));
        let Some((baseline, runs)) = sides else {
            continue;
        };
        let (own, others) = left
            .into_iter()
            .partition(|budget| budget.is_for(&run.event));
        left = others;
        let own: Vec<Budget> = own;
        let checked = Checked {
            baseline: &baseline,
            runs: &runs,
        };
        if !own.is_empty() {
            all.extend(judge(&own, &checked)?);
        }
    }
    match left.first() {
        Some(budget) => Err(no_event(budget, baseline, runs)),
        None => Ok(all),
    }
}

/// Of a budget whose event some recording has not.
fn no_event(budget: &Budget, baseline: &[Vec<Run>], runs: &[Vec<Run>]) -> anyhow::Error {
    let mut has: Vec<String> = Vec::new();
    for runs in runs.iter().chain(baseline) {
        let events: Vec<&str> = runs.iter().map(|run| run.event.as_str()).collect();
        let name = runs.first().map_or("one", |run| run.name.as_str());
        // Those that are like another one are not named.
        let events = events.join(", ");
        if !has
            .iter()
            .any(|other| other.ends_with(&format!(" has {events}")))
        {
            has.push(format!("{name} has {events}"));
        }
    }
    usage(format!(
        "no event that all recordings have is meant by \"{}\": {}\n  record all with the same -e, \
         such as -e cpu-clock",
        budget.text,
        has.join(", ")
    ))
}

fn write(args: &Args, judged: &[Judged]) -> anyhow::Result<()> {
    let mut out = BufWriter::new(io::stdout().lock());
    if args.json {
        prof_compare::check_json(judged, &mut out)?;
    } else if args.markdown {
        prof_compare::check_markdown(judged, &mut out)?;
    } else {
        prof_compare::check_text(judged, &mut out)?;
    }
    out.flush()?;
    if args.json || args.markdown {
        say(match overall(judged) {
            Kept::Passes => "all budgets are kept",
            Kept::Fails => "a budget is exceeded",
            Kept::Undecided => "not decided",
        });
    }
    Ok(())
}

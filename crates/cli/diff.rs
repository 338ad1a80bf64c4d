//! `prof diff`: recordings before and after a change, with verdicts.

mod refused;

use crate::input::NameOptions;
use crate::outcome::{Outcome, UsageError, say};
use crate::pager::{paged_within, text_columns};
use crate::recording::Input;
use crate::refused::Refused;
use crate::report::emptiness::say_if_nothing_passes;
use crate::runs::{Compared, check_distinct};
use prof_compare::{
    Comparison, ComparisonOptions, Computation, Incomparable, PerfOptions, Run, Side,
};
use prof_profile::{Counting, EventId, Profile};
use prof_report::keys::{DSO, Field, FieldList, SYMBOL, WAIT};
use prof_report::model::{Filter, Selection, SelfOf};
use prof_report::text::TextOptions;
use prof_statistics::Pairing;
use prof_symbolize::Detail;
use refused::OfDiff;
use std::io::{self, BufWriter, Write};
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};

/// Compare recordings before and after a change: what got slower or faster, and how sure that is.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, after_long_help = ABOUT)]
pub(crate) struct Args {
    /// The recording before and the one after [default: perf.data.old and perf.data]
    #[arg(value_name = "BEFORE AFTER", conflicts_with_all = ["before", "after"])]
    files: Vec<PathBuf>,
    /// Recordings before; several tell how much runs differ by themselves
    #[arg(long, value_name = "FILES", num_args = 1.., requires = "after")]
    before: Vec<PathBuf>,
    /// Recordings after
    #[arg(long, value_name = "FILES", num_args = 1.., requires = "before")]
    after: Vec<PathBuf>,
    /// Each recording before belongs to the one at its place after, as those made in turns: what
    /// slows both is no change
    #[arg(long, requires = "before")]
    paired: bool,
    /// Read recordings that belong to another user
    #[arg(short = 'f', long, overrides_with = "force")]
    force: bool,
    #[command(flatten)]
    names: NameOptions,
    /// Tell rows apart by these keys, as in prof report [default: dso,symbol; of waits, wait]
    #[arg(short, long, value_name = "KEYS")]
    sort: Option<FieldList>,
    /// Compare functions with what they call, not their own code alone; of waits, the
    /// functions that waited
    #[arg(long)]
    children: bool,
    /// Compare the cost of a run, or the part that each row has of its run
    #[arg(long, value_name = "WHAT", default_value = "cost")]
    by: Compared,
    /// Divide costs by work done: an event that was recorded beside, a count, or one for each
    /// side (1000,1200)
    #[arg(long, value_name = "EVENT|COUNTS")]
    per: Option<String>,
    /// Call a row the same if it changed by less than this, percent of the total before
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0, value_parser = crate::share::percent)]
    bound: f64,
    /// Hide rows whose part is smaller on both sides, unless they are sure to have changed; percent
    #[arg(long, value_name = "PERCENT", default_value_t = 0.1, value_parser = crate::share::percent)]
    percent_limit: f64,
    /// Print perf diff's table instead: delta, delta-abs, ratio or wdiff:BEFORE,AFTER
    #[arg(short, long, value_name = "HOW", conflicts_with_all = ["json", "csv", "children", "per"])]
    compute: Option<Computation>,
    /// With -c: only rows of both recordings, shares before of these alone
    #[arg(short, long, requires = "compute")]
    baseline_only: bool,
    /// Only samples taken in these dsos
    #[arg(short, long, value_name = "NAMES", value_delimiter = ',')]
    dsos: Vec<String>,
    /// Only threads of these names
    #[arg(short = 'C', long, value_name = "NAMES", value_delimiter = ',')]
    comms: Vec<String>,
    /// Only samples taken in these functions
    #[arg(short = 'S', long, value_name = "NAMES", value_delimiter = ',')]
    symbols: Vec<String>,
    /// Write JSON: sides, total, rows with intervals and verdicts
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Write the rows as comma-separated values
    #[arg(long)]
    csv: bool,
    #[command(flatten)]
    _refused: Refused<OfDiff>,
}

const EXAMPLES: &str = "\
Examples:
  prof diff old.data new.data                        between these two recordings
  prof diff --before a1 a2 a3 --after b1 b2 b3       what other runs would show
  prof diff --paired --before a1 a2 --after b1 b2    of runs made in turns
  prof diff --by share old.data new.data             if they did not do the same work
  prof diff -c ratio old.data new.data               perf diff's table";

/// For `--help` and the manual.
const ABOUT: &str = "\
Examples:
  prof diff old.data new.data                        between these two recordings
  prof diff --before a1 a2 a3 --after b1 b2 b3       what other runs would show
  prof diff --paired --before a1 a2 --after b1 b2    of runs made in turns
  prof diff --by share old.data new.data             if they did not do the same work
  prof diff -c ratio old.data new.data               perf diff's table

A change is in percent of the total before, with its 95 % interval. Verdicts:
  faster, slower   it changed; of all rows said so, in all comparisons together, 5 %
                   may be false (Bonferroni, or Benjamini and Hochberg at half of it)
  same within X %  if it changed, then by less than --bound
  moved into F     a function was inlined, or code taken out of one: what one side
                   lost the other got; the verdict is on the sum of all of them
  undecided        neither can be said; the number of runs a side, or how many
                   times the samples, that would decide in nine of ten cases if
                   the change is what it seems. What it seems is not sure: how many
                   runs find a change of a size that matters is told on top, for
                   --bound, and in JSON for each row
With several recordings a side, intervals tell what other runs would show. With
one a side they tell what sampling these two runs again would show. Runs made in
turns (a1 b1 a2 b2 …) share what else the machine did: --paired judges by how the
differences of pairs scatter. Where nothing is shared that is less sure, since it
knows half as many scattered figures; choose it before looking.

Functions are matched by name without what changes from build to build: hashes,
.constprop, .part, .isra, .cold, .llvm and their numbers, [clone .cold], numbers
of closures, lambdas (C++, Go, Java, Rust), anonymous and hidden classes and
OpenMP regions, versions of libraries. A program that has another name after is found by its
functions, or by being the only one of its side that was run. A function that only one side has is taken for one that only the
other has (record with -g) if the same functions call it, it calls the same ones,
its size is the same or nearly, and no other fits as well; its cost does not
choose. The row has the name after and (was NAME), and a note says so. Cost moved
if calls came or went (record with -g), or inline frames, and one is surely
cheaper, the other dearer; each move has a line with its sum.

--json writes one object; names stay, new ones may join; what is not known is
null: schema \"prof-diff-1\", events [ name, unit, kind, paired, by, bound_percent,
false_discoveries, detectable_percent, detectable_by_share_percent (what --by share
would show), needs_for_bound (runs a side, or times the
samples, that find a change by the bound in any row), before and after [ name, samples, total ],
notes, total { before, after, change, verdict, needs },
moves [ inlined, from, into, before, after, change, verdict, needs ], rows [ each sort key by its name, was { the same before, if the function was
recognised by another name }, before and after { cost, share, share_low,
share_high, samples }, change { percent, low, high }, verdict (of what moved:
moved), needs (of the sum), detectable_percent and needs_for_bound (of this row),
move { its place in moves } ] ].
--csv: the keys before are in columns of their own (was_dso, was_symbol), and so
are the other functions of a move and its sum (moved_into, sum_percent).";

fn usage(message: impl Into<String>) -> anyhow::Error {
    anyhow::Error::new(UsageError(message.into()))
}

/// What costs may be divided by, so that all that is made of them is a number.
const WORK: std::ops::RangeInclusive<f64> = 1e-9..=1e18;

/// The runs of one event.
type Sides = (Vec<Run>, Vec<Run>);
/// The recordings of a side, the events of each, and how reading them went.
type Loaded = anyhow::Result<(Vec<Vec<Run>>, Outcome)>;

/// Compares.
pub(crate) fn run(args: Args) -> anyhow::Result<Outcome> {
    if let Some(Err(error)) = args.sort.as_ref().map(FieldList::known) {
        return Err(usage(error.to_string()));
    }
    let (before, after) = args.paths()?;
    check_distinct(&before)?;
    check_distinct(&after)?;
    if args.compute.is_some() && before.len() + after.len() != 2 {
        return Err(usage(
            "-c compares two recordings as perf does; leave it out to compare several a side",
        ));
    }
    if args.paired && (before.len() != after.len() || before.len() < 2) {
        return Err(usage(format!(
            "--paired takes two or more pairs, and there are {} recordings before and {} after",
            before.len(),
            after.len()
        )));
    }
    let (before, after) = args.load_sides((&before, &after));
    let ((before, before_outcome), (after, after_outcome)) = (before?, after?);
    let outcome = match before_outcome {
        Outcome::Done => after_outcome,
        outcome => outcome,
    };
    let sides = by_event(before, after)?;
    if let Some(computation) = args.compute {
        return args.write_as_perf(&sides, computation).map(|()| outcome);
    }
    let options = ComparisonOptions {
        side: match args.children {
            true => Side::Total,
            false => Side::Own,
        },
        by: args.by.into(),
        bound: args.bound,
        pairing: match args.paired {
            true => Pairing::Paired,
            false => Pairing::Independent,
        },
        ..ComparisonOptions::default()
    };
    let compared = sides
        .iter()
        .map(|(before, after)| Comparison::new(before, after, &options));
    let compared: Vec<Comparison> = compared.collect::<Result<_, _>>()?;
    args.write(&compared)?;
    Ok(outcome)
}

/// The events that all recordings have.
fn by_event(before: Vec<Vec<Run>>, after: Vec<Vec<Run>>) -> anyhow::Result<Vec<Sides>> {
    let Some(first) = before.first() else {
        return Err(Incomparable::NoRun("before").into());
    };
    let of = |list: &[Vec<Run>], event: &str| -> Option<Vec<Run>> {
        let found = list
            .iter()
            .map(|runs| runs.iter().find(|run| run.event == event).cloned());
        found.collect()
    };
    let sides: Vec<Sides> = first
        .iter()
        .filter_map(|run| Some((of(&before, &run.event)?, of(&after, &run.event)?)))
        .collect();
    if !sides.is_empty() {
        return Ok(sides);
    }
    let names = |runs: &[Run]| -> String {
        let names: Vec<&str> = runs.iter().map(|run| run.event.as_str()).collect();
        if names.is_empty() {
            "none".into()
        } else {
            names.join(", ")
        }
    };
    let other = after
        .iter()
        .chain(&before)
        .find(|runs| names(runs) != names(first));
    let other = other.unwrap_or(first);
    let name = |runs: &[Run]| {
        runs.first()
            .map_or_else(|| "one".into(), |run| run.name.clone())
    };
    Err(Incomparable::Event {
        first: name(first),
        of_first: names(first),
        other: name(other),
        of_other: names(other),
    }
    .into())
}

/// What tells rows apart unless other keys are asked for.
const DEFAULT: [Field; 2] = [Field::Key(DSO), Field::Key(SYMBOL)];

impl Args {
    /// The recordings of both sides.
    fn paths(&self) -> anyhow::Result<(Vec<PathBuf>, Vec<PathBuf>)> {
        if !self.before.is_empty() {
            return Ok((self.before.clone(), self.after.clone()));
        }
        match self.files.as_slice() {
            [] => Ok((vec!["perf.data.old".into()], vec!["perf.data".into()])),
            [one] => Ok((vec![one.clone()], vec!["perf.data".into()])),
            [before, after] => Ok((vec![before.clone()], vec![after.clone()])),
            _ => Err(usage(
                "which recordings are of which side?\n  try: prof diff --before A1 A2 --after B1 B2",
            )),
        }
    }

    /// The recordings of both sides, read beside each other: reading one takes
    /// more than one CPU only in part.
    fn load_sides(&self, (before, after): (&[PathBuf], &[PathBuf])) -> (Loaded, Loaded) {
        std::thread::scope(|scope| {
            let after = scope.spawn(|| self.load_all(after, 1));
            let before = self.load_all(before, 0);
            let after = after.join();
            (before, after.unwrap_or_else(|panic| resume_unwind(panic)))
        })
    }

    /// The events of each recording of the side at `place`.
    fn load_all(&self, paths: &[PathBuf], place: usize) -> Loaded {
        let mut outcome = Outcome::Done;
        let mut all = Vec::new();
        for path in paths {
            let (runs, how) = self.load(path, place)?;
            if how != Outcome::Done {
                outcome = how;
            }
            all.push(runs);
        }
        Ok((all, outcome))
    }

    /// The events of a recording, of the side at `place`; what is damaged was
    /// said.
    fn load(&self, path: &Path, place: usize) -> anyhow::Result<(Vec<Run>, Outcome)> {
        let input = Input {
            path: path.to_owned(),
            force: self.force,
            shows_addresses: self.compute.is_some(),
            counting: Some(Counting::Samples),
            separate_callchains: false,
            branch_history: None,
            clock: None,
            folds_idle: false,
            max_stack: None,
            details: true,
            trace_fields: Vec::new(),
        };
        let symbolizer = self.names.symbolizer();
        let (profile, outcome) = input.load_with(self.detail(), &symbolizer)?;
        drop(symbolizer);
        let options = self.table(&DEFAULT);
        // No function of a program waits itself: what for tells more than in which of
        // the kernel's.
        let by_functions = self.sort.is_some() || self.children || self.compute.is_some();
        let of_waits = match by_functions {
            true => options.clone(),
            false => self.table(&[Field::Key(WAIT)]),
        };
        let table_of = |event: EventId| {
            let about = profile.events.get(usize::from(event.0));
            match about.is_some_and(|about| about.is_off_cpu) {
                true => &of_waits,
                false => &options,
            }
        };
        say_if_nothing_passes(&profile, &options.selection, path);
        let name = input.name();
        let mut runs: Vec<Run> = (0..profile.events.len())
            .map(|index| EventId(u16::try_from(index).unwrap_or(u16::MAX)))
            .filter(|&event| is_shown(&profile, event))
            .map(|event| Run::new(&name, &profile, table_of(event), event))
            .collect();
        self.divide(&mut runs, &profile, place)?;
        Ok((runs, outcome))
    }

    fn detail(&self) -> Detail {
        let mut keys = self.sort.iter().flat_map(|sort| &sort.fields);
        let by_line = |field: &Field| matches!(field, Field::Key(key) if key.needs_lines());
        match self.names.detail() {
            _ if keys.any(by_line) => Detail::Source,
            // What is inlined shows what moved between functions.
            Detail::Source | Detail::Inlines => Detail::Inlines,
            _ => Detail::Symbol,
        }
    }

    /// The table that is made of each recording, by these fields if none are asked for.
    fn table(&self, usual: &[Field]) -> TextOptions {
        let asked = self.sort.as_ref();
        let keys = asked.map_or(usual, |sort| &sort.fields).iter().copied();
        let mut sort: Vec<Field> = keys.filter(|field| !field.is_weight()).collect();
        if asked.is_some_and(|sort| sort.is_added) {
            sort.splice(0..0, DEFAULT);
        }
        let by_line = |field: &Field| matches!(field, Field::Key(key) if key.splits_by_line());
        TextOptions {
            selection: Selection {
                filter: Filter {
                    comms: self.comms.clone(),
                    dsos: self.dsos.clone(),
                    symbols: self.symbols.clone(),
                    ..Filter::default()
                },
                inlines: self.children && !self.names.no_inline,
                self_of: match sort.iter().any(by_line) {
                    true => SelfOf::HostAtLine,
                    false => SelfOf::Host,
                },
                ..Selection::default()
            },
            sort: Some(sort),
            children: self.children,
            ..TextOptions::default()
        }
    }

    /// Sets what costs are divided by, as `--per` says.
    fn divide(&self, runs: &mut Vec<Run>, profile: &Profile, place: usize) -> anyhow::Result<()> {
        let Some(per) = &self.per else {
            return Ok(());
        };
        let counts: Vec<Option<f64>> = per.split(',').map(|text| text.parse().ok()).collect();
        let work = match counts.as_slice() {
            [Some(count)] => *count,
            [Some(before), Some(after)] => [*before, *after][place.min(1)],
            [_, _, ..] => {
                return Err(usage(format!(
                    "--per {per}: not an event, a count, or one count for each side (1000,1200)"
                )));
            }
            _ => {
                let has =
                    |run: &&Run| run.event == *per || run.event.split(':').next() == Some(per);
                match runs.iter().find(has) {
                    Some(run) => {
                        if let Some(each) = run.is_better_counted_by() {
                            say(&format!(
                                "{}: {} was sampled at a rate, which counts it wrong; \
                                 try: prof record -e {each}",
                                run.name, run.event
                            ));
                        }
                        run.total()
                    }
                    None => return Err(no_work(runs, per, profile)),
                }
            }
        };
        if !WORK.contains(&work) {
            return Err(usage(
                "--per: costs are divided by a count above 0, of 1e-9 to 1e18",
            ));
        }
        for run in runs.iter_mut() {
            run.work = work;
        }
        runs.retain(|run| run.event != *per && run.event.split(':').next() != Some(per));
        Ok(())
    }

    fn write(&self, compared: &[Comparison]) -> anyhow::Result<()> {
        if self.json || self.csv {
            let mut out = BufWriter::new(io::stdout().lock());
            match self.json {
                true => prof_compare::json(compared, &mut out)?,
                false => prof_compare::csv(compared, &mut out)?,
            }
            out.flush()?;
            return Ok(());
        }
        let columns = text_columns();
        paged_within(columns, |out| {
            for (index, comparison) in compared.iter().enumerate() {
                if index > 0 {
                    writeln!(out)?;
                }
                prof_compare::text(comparison, self.percent_limit, columns, out)?;
            }
            Ok(())
        })?;
        Ok(())
    }

    fn write_as_perf(&self, sides: &[Sides], computation: Computation) -> anyhow::Result<()> {
        let options = PerfOptions {
            computation,
            baseline_only: self.baseline_only,
        };
        let columns = text_columns();
        paged_within(columns, |out| {
            for (index, (before, after)) in sides.iter().enumerate() {
                if index > 0 {
                    writeln!(out)?;
                }
                if let (Some(before), Some(after)) = (before.first(), after.first()) {
                    prof_compare::perf_text((before, after), options, columns, out)?;
                }
            }
            Ok(())
        })?;
        Ok(())
    }
}

fn is_shown(profile: &Profile, event: EventId) -> bool {
    let took = |event: &prof_profile::Event| event.samples > 0;
    let own = profile.events.get(usize::from(event.0));
    own.is_some_and(took) || !profile.events.iter().any(took)
}

fn no_work(runs: &[Run], per: &str, profile: &Profile) -> anyhow::Error {
    // What cannot be recorded is not to be recorded beside.
    if let Err(error) = prof_record::events::parse(per, 0) {
        return usage(format!("--per {per}: {error}"));
    }
    let beside = profile.events.first().map(|event| event.name.clone());
    Incomparable::NoWork {
        name: runs
            .first()
            .map_or_else(String::new, |run| run.name.clone()),
        event: per.to_owned(),
        beside: beside.unwrap_or_default(),
    }
    .into()
}

//! `prof annotate`: the source and instructions of functions with the weight
//! of each line.

mod refused;

use crate::chosen::ChosenSamples;
use crate::clock::ClockOption;
use crate::hottest::{by_weight, by_whole_weight, is_hot};
use crate::input::NameOptions;
use crate::near::near;
use crate::outcome::{Outcome, UsageError, say};
use crate::pager::{paged, text_columns};
use crate::recording::Input;
use crate::refused::Refused;
use crate::report::emptiness::no_samples;
use crate::tui::{Begin, can_draw};
use anyhow::{Context, bail};
use prof_listing::code_files::FileCode;
use prof_profile::{Clock, EventId, FunctionId, Profile};
use prof_report::annotate::{self, Counts, Figure};
use prof_report::asked::{called, likeness};
use prof_report::code::{Build, FunctionView, Syntax};
use prof_report::model::{Filter, Scene, Scope, Selection, any_sample_passes};
use prof_report::text::{Grouping, event_tables, events_title};
use refused::OfAnnotate;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

/// Show source and instructions of functions, with the weight of each line
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    clock: ClockOption,
    #[command(flatten)]
    names: NameOptions,
    /// The function; without one, all with at least --percent-limit of the
    /// weight. A recording is read, as -i FILE
    #[arg(value_name = "SYMBOL|FILE", num_args = 0..=2)]
    arguments: Vec<OsString>,
    /// The function, as for perf
    #[arg(short, long = "symbol", value_name = "SYMBOL")]
    symbol: Option<String>,
    /// Only functions of these dsos
    #[arg(
        short,
        long = "dsos",
        alias = "dso",
        value_name = "DSO,…",
        value_delimiter = ','
    )]
    dsos: Vec<String>,
    #[command(flatten)]
    chosen: ChosenSamples,
    /// Write text even on a terminal
    #[arg(long)]
    stdio: bool,
    #[command(flatten)]
    look: crate::tui::LookOptions,
    /// Leave out the source lines
    #[arg(long)]
    no_source: bool,
    /// Leave out instructions far from any with weight
    #[arg(long)]
    only_hot: bool,
    /// Without a symbol: leave out functions below this share of the weight
    #[arg(long, value_name = "PERCENT", default_value_t = 0.5, value_parser = crate::share::percent)]
    percent_limit: f64,
    #[command(flatten)]
    text: TextArgs,
    #[command(flatten)]
    refused: Refused<OfAnnotate>,
}

/// What the text shows.
#[derive(Debug, clap::Args)]
struct TextArgs {
    /// Show the events of the recording side by side; those recorded as a
    /// group always are
    #[arg(long)]
    group: bool,
    /// Shares of the function (local) or of everything (global), by period or
    /// by samples: local-period, local-hits, global-period, global-hits
    #[arg(long, value_name = "TYPE", default_value = "local-period", value_parser = percent_type)]
    percent_type: PercentType,
    /// Show numbers of samples instead of shares
    #[arg(short = 'n', long, conflicts_with = "show_total_period")]
    show_nr_samples: bool,
    /// Show sums of periods instead of shares
    #[arg(long)]
    show_total_period: bool,
    /// First list the source lines, heaviest first
    #[arg(short = 'l', long)]
    print_line: bool,
    /// Show whole paths of dsos and sources
    #[arg(short = 'P', long)]
    full_paths: bool,
    /// Show whole names of functions, also where the terminal has no room for them
    #[arg(long)]
    full_names: bool,
    /// Write instructions of x86 as Intel's manuals do (intel), or as the GNU assembler (att)
    #[arg(short = 'M', long, value_name = "SYNTAX", default_value = "att", value_parser = syntax)]
    disassembler_style: Syntax,
    /// Show the bytes of instructions
    #[arg(long)]
    asm_raw: bool,
    /// Leave out functions whose instructions cannot be read
    #[arg(long)]
    skip_missing: bool,
    /// Look for sources below this directory, by their recorded paths
    #[arg(long, value_name = "DIR")]
    prefix: Option<PathBuf>,
    /// With --prefix, without this many leading parts of those
    #[arg(long, value_name = "N", requires = "prefix", default_value_t = 0)]
    prefix_strip: usize,
    /// Say nothing on stderr of what is normal, as it is.
    #[arg(short, long, hide = true)]
    quiet: bool,
    /// More is said on stderr by perf; the text stays the same.
    #[arg(short, long, hide = true, action = clap::ArgAction::Count)]
    verbose: u8,
    /// Source lines between instructions, as they are.
    #[arg(long, hide = true)]
    source: bool,
    /// The terminal UI, as on a terminal.
    #[arg(long, hide = true)]
    tui: bool,
}

/// Names of objdump for the two ways.
fn syntax(text: &str) -> Result<Syntax, String> {
    match text {
        "intel" | "intel-mnemonic" => Ok(Syntax::Intel),
        "att" | "att-mnemonic" => Ok(Syntax::Att),
        _ => Err("instructions are written as intel or as att".into()),
    }
}

/// What shares are of, and what they are counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PercentType {
    is_global: bool,
    by_samples: bool,
}

fn percent_type(text: &str) -> Result<PercentType, String> {
    let (base, unit) = text.split_once('-').unwrap_or((text, ""));
    // perf takes the parts in either order.
    let (base, unit) = match base {
        "period" | "hits" => (unit, base),
        _ => (base, unit),
    };
    let is_global = match base {
        "local" => false,
        "global" => true,
        _ => return Err("it is local-period, local-hits, global-period or global-hits".into()),
    };
    let by_samples = match unit {
        "period" => false,
        "hits" => true,
        _ => return Err("it is local-period, local-hits, global-period or global-hits".into()),
    };
    Ok(PercentType {
        is_global,
        by_samples,
    })
}

impl TextArgs {
    fn by_samples(&self) -> bool {
        !self.show_total_period && (self.show_nr_samples || self.percent_type.by_samples)
    }

    fn figure(&self) -> Figure {
        match (self.show_nr_samples, self.show_total_period) {
            (true, _) => Figure::Samples,
            (_, true) => Figure::Period,
            _ if self.percent_type.is_global => Figure::Global,
            _ => Figure::Local,
        }
    }
}

const EXAMPLES: &str = "\
Examples:
  prof annotate leaf            the function `leaf` in the terminal UI
  prof annotate --stdio leaf    the same as text
  prof annotate 'operator[]'    by what people call it; or by a pattern: '*::add'
  prof annotate my.data leaf    of another recording
  prof annotate -l -n leaf      with its source lines by weight, and samples
  prof annotate > hot.txt       every hot function as text";

impl Args {
    /// Takes the arguments for what they are: a recording, a function.
    fn with_arguments(mut self) -> anyhow::Result<Self> {
        for argument in std::mem::take(&mut self.arguments) {
            let Some(text) = self.input.or_text(argument)? else {
                continue;
            };
            if let Some(known) = self.symbol.replace(text) {
                let message = format!("one function at a time; name one, {known} or the other");
                return Err(UsageError(message).into());
            }
        }
        Ok(self)
    }
}

/// Shows the functions.
pub(crate) fn run(args: Args) -> anyhow::Result<Outcome> {
    let args = &args.with_arguments()?;
    let symbol = args.symbol.as_deref();
    let can_draw = can_draw() && !args.stdio;
    if can_draw && args.dsos.is_empty() && args.chosen.are_all() {
        let symbol = Some(symbol.unwrap_or_default());
        let input = args.clock.of(&args.input);
        let begin = Begin {
            function: symbol,
            ..Begin::default()
        };
        return crate::tui::run(&input, &args.names, &args.look, begin);
    }
    let symbolizer = Arc::new(args.names.symbolizer());
    let (profile, outcome) = args.clock.of(&args.input).load(&args.names, &symbolizer)?;
    let (filter, scope) = args.chosen.seen(&profile)?;
    let source = FileCode::new(symbolizer)
        .with_sources_below(args.text.prefix.clone(), args.text.prefix_strip);
    let grouping = match args.text.group {
        true => Grouping::Together,
        false => Grouping::AsRecorded,
    };
    let listings = Listings {
        args,
        filter,
        scope,
        sources: RefCell::default(),
        symbol,
        profile: &profile,
        source: &source,
        columns: text_columns().filter(|_| !args.text.full_names),
    };
    let is_any = paged(|out| {
        let mut is_any = false;
        for events in event_tables(&profile, grouping) {
            is_any |= listings.write(&events, out)?;
        }
        Ok(is_any)
    })
    .context("cannot write to stdout")?;
    if !args.text.quiet {
        listings.sources.borrow().say();
    }
    if !is_any && !listings.has_samples() {
        bail!("no sample passes --pid, --tid, --comms, -C and --time\n  try: without some of them");
    }
    if !is_any {
        bail!("{}", nothing(&profile, symbol, args));
    }
    Ok(outcome)
}

/// What all listings share.
struct Listings<'a> {
    args: &'a Args,
    filter: Filter,
    scope: Scope,
    sources: RefCell<Sources>,
    symbol: Option<&'a str>,
    profile: &'a Profile,
    source: &'a FileCode,
    /// Columns of the terminal that names have to fit.
    columns: Option<usize>,
}

impl Listings<'_> {
    /// Writes the functions asked for with a column for each of these events;
    /// whether there is any.
    fn write(&self, events: &[EventId], out: &mut dyn Write) -> io::Result<bool> {
        let has_samples = |event: &&EventId| {
            let event = self.profile.events.get(usize::from(event.0));
            event.is_some_and(|event| event.samples > 0)
        };
        let Some(first) = events.iter().find(has_samples) else {
            return Ok(false);
        };
        let scenes: Vec<Scene<'_>> = events.iter().map(|&event| self.scene(event)).collect();
        let weights: Vec<Vec<u64>> = scenes.iter().map(|scene| self.weights(scene)).collect();
        let counts = self.counts(*first);
        let functions = chosen((self.args, counts), self.symbol, &self.scene(*first));
        let name_of = |id: FunctionId| self.profile.function(id).name;
        let title = events_title(self.profile, events);
        for &function in &functions {
            let views: Vec<FunctionView> = weights
                .iter()
                .map(|weights| self.view(weights, function))
                .collect();
            // A function inlined into itself stands in its own listing.
            let is_in_own =
                |host: FunctionId| functions.contains(&host) && name_of(host) == name_of(function);
            let is_left_out = views.first().is_some_and(|view| {
                view.host.is_some_and(is_in_own)
                    || (self.args.text.skip_missing && view.no_code.is_some())
            });
            if is_left_out {
                continue;
            }
            if !self.args.no_source {
                self.sources.borrow_mut().note(&views);
            }
            let text = annotate::text(self.profile, &views, &title, self.options(counts));
            writeln!(out, "{text}")?;
        }
        Ok(!functions.is_empty())
    }

    /// Which weight of an event's is shown: no line of a program has the time of
    /// waits itself.
    fn counts(&self, event: EventId) -> Counts {
        let event = self.profile.events.get(usize::from(event.0));
        let is_off_cpu = event.is_some_and(|event| event.is_off_cpu);
        match is_off_cpu || self.args.clock.clock == Some(Clock::Wall) {
            true => Counts::WithCallees,
            false => Counts::Own,
        }
    }

    /// Whether the filters, if there are any, leave a sample.
    fn has_samples(&self) -> bool {
        self.args.chosen.are_all() || any_sample_passes(self.profile, &self.selection(EventId(0)))
    }

    fn selection(&self, event: EventId) -> Selection {
        Selection {
            event,
            filter: self.filter.clone(),
            scope: self.scope.clone(),
            ..Selection::default()
        }
    }

    fn scene(&self, event: EventId) -> Scene<'_> {
        Scene::new(self.profile, self.selection(event))
    }

    fn weights(&self, scene: &Scene<'_>) -> Vec<u64> {
        if self.args.text.by_samples() {
            scene.samples_by_stack()
        } else {
            scene.weights_by_stack()
        }
    }

    fn view(&self, weights: &[u64], function: FunctionId) -> FunctionView {
        let build = Build {
            profile: self.profile,
            leaf_weights: weights,
            source: self.source,
            syntax: self.args.text.disassembler_style,
        };
        build.view(function)
    }

    fn options(&self, counts: Counts) -> annotate::Options {
        let text = &self.args.text;
        annotate::Options {
            with_source: !self.args.no_source,
            only_hot: self.args.only_hot,
            figure: text.figure(),
            counts,
            weights: if text.by_samples() { "hits" } else { "period" },
            full_paths: text.full_paths,
            raw_bytes: text.asm_raw,
            line_summary: text.print_line,
            columns: self.columns,
        }
    }
}

/// What is to be known of the sources of functions that were shown.
#[derive(Debug, Default)]
struct Sources {
    newer: BTreeSet<Arc<str>>,
    absent: BTreeSet<Arc<str>>,
}

impl Sources {
    fn note(&mut self, views: &[FunctionView]) {
        for file in views.iter().flat_map(|view| &view.files) {
            match (&file.text, file.is_newer) {
                (None, _) => self.absent.insert(Arc::clone(&file.path)),
                (Some(_), true) => self.newer.insert(Arc::clone(&file.path)),
                (Some(_), false) => false,
            };
        }
    }

    fn say(&self) {
        for (files, what) in [
            (
                &self.newer,
                "newer than the program: lines may be others than those that ran",
            ),
            (
                &self.absent,
                "not here, so that its lines have no text (try: --prefix DIR)",
            ),
        ] {
            let more = files.len().saturating_sub(1);
            match (files.first(), more) {
                (None, _) => {}
                (Some(file), 0) => say(&format!("{file} is {what}")),
                (Some(file), more) => say(&format!("{file} (and {more} more) is {what}")),
            }
        }
    }
}

/// The functions asked for, heaviest first.
fn chosen(
    (args, counts): (&Args, Counts),
    symbol: Option<&str>,
    scene: &Scene<'_>,
) -> Vec<FunctionId> {
    let profile = scene.profile();
    let total = scene.total().period;
    let is_chosen = |&(id, weight): &(FunctionId, u64)| {
        let function = profile.function(id);
        let dso = profile.dso(function.dso);
        let is_in = |dso_name: &String| {
            profile.name(dso.short_name) == dso_name || profile.name(dso.path) == dso_name
        };
        let is_asked = symbol.is_some()
            || function.unnamed.is_none() && is_hot(weight, total, args.percent_limit);
        is_asked && (args.dsos.is_empty() || args.dsos.iter().any(is_in))
    };
    let found = match counts {
        Counts::Own => by_weight(scene),
        Counts::WithCallees => by_whole_weight(scene),
    };
    let found = found.into_iter().filter(is_chosen).map(|(id, _)| id);
    let Some(symbol) = symbol else {
        return found.collect();
    };
    let name = |id: FunctionId| profile.name(profile.function(id).name);
    called(symbol, found.map(|id| (name(id), id)))
}

/// What to say when no function fits: which names come near.
fn nothing(profile: &Profile, symbol: Option<&str>, args: &Args) -> String {
    if profile.samples.is_empty() {
        return no_samples(profile);
    }
    let Some(symbol) = symbol else {
        return format!(
            "no function has {} % of the weight{}\n  try: a smaller --percent-limit",
            args.percent_limit,
            of_no_name(profile, &args.input)
        );
    };
    let functions = profile.functions.iter();
    let named = functions.filter(|function| function.unnamed.is_none());
    let names = named.map(|function| profile.name(function.name));
    if names.clone().any(|name| likeness(name, symbol).is_some()) {
        return format!(
            "{symbol} has no samples among those that are shown\n  try: another --clock, or without \
             --dsos, --pid, --tid, --comms, --cpu and --time"
        );
    }
    let near = near(symbol, names);
    if near.is_empty() {
        return format!(
            "no function with samples is called {symbol}{}\n  try: prof report --stdio{}   \
             (lists them)",
            of_no_name(profile, &args.input),
            args.input.option()
        );
    }
    format!(
        "no function with samples is called {symbol}\n  these come near:\n    {}",
        near.join("\n    ")
    )
}

/// Where much of what ran has no name, how much: its code cannot be asked for.
fn of_no_name(profile: &Profile, input: &Input) -> String {
    let (mut all, mut unnamed) = (0_u64, 0_u64);
    for sample in profile.samples.iter() {
        all = all.saturating_add(sample.period);
        let innermost = profile.stacks.locations(sample.stack).next();
        let frame = innermost.and_then(|location| profile.frames_at(location).first());
        if frame.is_some_and(|frame| profile.function(frame.function).unnamed.is_some()) {
            unnamed = unnamed.saturating_add(sample.period);
        }
    }
    let share = 100.0 * unnamed as f64 / all.max(1) as f64;
    match share >= 1.0 {
        true => format!(
            "\n  {share:.0} % of the weight is in code without a name: prof report --missing{} says \
             why",
            input.option()
        ),
        false => String::new(),
    }
}

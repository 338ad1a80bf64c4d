//! `prof script`: every sample as text, in perf script's format.

mod chosen;
mod dumps;
mod refused;
mod shown;

use crate::clock::ClockOption;
use crate::cpu_list::check_cpus;
use crate::input::NameOptions;
use crate::outcome::{Outcome, UsageError, say};
use crate::recording::Input;
use crate::refused::Refused;
use crate::report::emptiness::{is_of_counts, no_samples};
use crate::switching::SwitchArgs;
use clap::Parser;
use dumps::Dumps;
use prof_abi::SampleType;
use prof_listing::Switch;
use prof_listing::dump::HeaderDetail;
use prof_listing::script::{CHUNK, Choice, Form, Head, Printing, Shown, Wanted};
use prof_perfdata::Reader;
use prof_profile::Profile;
use prof_report::script::{Field, Selection, TimeOrigin};
use prof_symbolize::{Detail, Symbolizer};
use refused::OfScript;
use shown::ShownArgs;
use std::io::{self, BufWriter, Write};

/// Print every sample, in perf script's format
///
/// Tools that read perf script's text (FlameGraph, inferno, speedscope,
/// Firefox Profiler) read this unchanged.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    names: NameOptions,
    #[command(flatten)]
    clock: ClockOption,
    /// Fields to print: [KIND:]NAME,… replaces them, +NAME and -NAME change
    /// them. KIND is hw, sw, trace, raw or break
    #[arg(
        short = 'F',
        long = "fields",
        value_name = "LIST",
        allow_hyphen_values = true
    )]
    fields: Vec<String>,
    /// Print single addresses, not call chains
    #[arg(short = 'G', long)]
    hide_call_graph: bool,
    /// Print times to the nanosecond
    #[arg(long)]
    ns: bool,
    /// Print times since the line before
    #[arg(long, conflicts_with = "reltime")]
    deltatime: bool,
    /// Print times since the first line
    #[arg(long)]
    reltime: bool,
    /// Longest call chain to print
    #[arg(long, value_name = "N", default_value_t = 127)]
    max_stack: usize,
    /// Print header, events and feature sections before the samples
    #[arg(long)]
    header: bool,
    /// Print these, but no samples
    #[arg(long)]
    header_only: bool,
    /// With either, print also the tables of CPUs, memory and caches
    #[arg(short = 'I', long)]
    show_info: bool,
    /// End call chains at these functions
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    stop_bt: Vec<String>,
    /// Print source files with their directories
    #[arg(long)]
    full_source_path: bool,
    /// Print the files of the kernel and its modules, not their short names
    #[arg(long)]
    show_kernel_path: bool,
    /// Join user call chains that the kernel recorded later to their samples
    /// (the default); samples are then printed when their chains came
    #[arg(long, overrides_with = "no_merge_callchains")]
    merge_callchains: bool,
    /// Print them apart, as they were recorded
    #[arg(long)]
    no_merge_callchains: bool,
    /// Print the samples of each event into a file: perf.data.EVENT.dump
    #[arg(long)]
    per_event_dump: bool,
    /// Only calls below these functions, of hardware traces: samples are no
    /// calls, so none is printed, as by perf
    #[arg(
        long,
        value_name = "NAME,…",
        value_delimiter = ',',
        hide_short_help = true
    )]
    graph_function: Vec<String>,
    #[command(flatten)]
    switch: SwitchArgs,
    /// What perf takes and what changes nothing here.
    #[command(flatten)]
    accepted: AcceptedArgs,
    #[command(flatten)]
    refused: Refused<OfScript>,
    #[command(flatten)]
    choice: chosen::ChoiceArgs,
    #[command(flatten)]
    shown: ShownArgs,
}

/// Options of perf's that say what is done anyway.
#[derive(Debug, clap::Args)]
struct AcceptedArgs {
    /// For `perf script record`.
    #[arg(short = 'a', long, hide = true)]
    all_cpus: bool,
    /// More is said on stderr by perf; what is printed stays the same.
    #[arg(short = 'v', long, hide = true, action = clap::ArgAction::Count)]
    verbose: u8,
}

const EXAMPLES: &str = "\
Examples:
  prof script | inferno-collapse-perf     stacks for a flame graph
  prof script -F comm,tid,time,ip,sym     some fields only
  prof script -F +srcline --comms app     with source lines, one program only
  prof script --time 10%-20%              the second tenth of the recording
  prof script --stop-bt main              call chains up to main
  prof script --per-event-dump            a file for each event";

/// Reads the recording twice: once for processes, stacks and names, once for
/// what a profile does not keep of a sample.
pub(crate) fn run(args: Args) -> anyhow::Result<Outcome> {
    let args = &args;
    let spooled = crate::spool::twice_readable(&args.input)?;
    let input = spooled
        .as_ref()
        .map_or(&args.input, |spooled| &spooled.input);
    if args.header || args.header_only {
        let reader = write_header(args, input)?;
        if args.header_only {
            return Ok(input.say_damages(&reader));
        }
    }
    let selection = args.selection()?;
    if !args.graph_function.is_empty() {
        say(
            "--graph-function chooses among calls of hardware traces; samples are none\n  \
             try: --stop-bt, which ends call chains at a function",
        );
    }
    let symbolizer = args.names.symbolizer();
    let detail = if selection.of_any().has(Field::SrcLine) {
        Detail::Source
    } else {
        args.names.detail()
    };
    let input = &Input {
        separate_callchains: args.no_merge_callchains,
        ..input.clone()
    };
    let (profile, outcome) = input.load_with(detail, &symbolizer)?;
    if profile.samples.is_empty() && is_of_counts(&profile) {
        say(&no_samples(&profile));
    }
    let wanted = args.wanted(&profile)?;
    let head = Head::read(&mut input.open()?)?;
    let mut form = args.form(selection);
    form.fit(&head, &profile)
        .map_err(|error| usage(error.to_string()))?;
    let printing = Printing::new((&profile, &symbolizer), &head, &form, wanted);
    let reader = input.open()?;
    let mut stdout = BufWriter::with_capacity(CHUNK, io::stdout().lock());
    if args.per_event_dump {
        let mut dumps = Dumps::new(&args.input.path, head.events())?;
        printing.run(reader, Some(&mut dumps), &mut stdout)?;
        dumps.finish(&mut stdout)?;
    } else {
        printing.run::<anyhow::Error>(reader, None, &mut stdout)?;
    }
    stdout.flush()?;
    Ok(outcome)
}

/// Whether samples have addresses that are in no stack: of data, of branches,
/// in payloads.
pub(crate) fn asks_more(events: &prof_perfdata::Events) -> bool {
    let more = [SampleType::ADDR, SampleType::BRANCH_STACK, SampleType::RAW];
    let mut all = events.list().iter();
    all.any(|event| more.iter().any(|&bit| event.attr.sample_type.has(bit)))
}

/// Prints the samples to nobody, so that the symbolizer is asked for what
/// they have.
pub(crate) fn ask(input: &Input, profile: &Profile, symbolizer: &Symbolizer) -> anyhow::Result<()> {
    let args = ToAsk::try_parse_from(["prof"])?.args;
    let wanted = args.wanted(profile)?;
    let head = Head::read(&mut input.open()?)?;
    let mut form = args.form(args.selection()?);
    form.fit(&head, profile)?;
    let printing = Printing::new((profile, symbolizer), &head, &form, wanted);
    printing.run::<anyhow::Error>(input.open()?, None, &mut io::sink())
}

/// The options of a script without any.
#[derive(clap::Parser)]
struct ToAsk {
    #[command(flatten)]
    args: Args,
}

/// Writes what `--header` asks for.
fn write_header(args: &Args, input: &Input) -> anyhow::Result<Reader> {
    let mut out = BufWriter::new(io::stdout().lock());
    let mut reader = input.open()?;
    let detail = if args.show_info {
        HeaderDetail::Full
    } else {
        HeaderDetail::Brief
    };
    crate::dump::write_header(input, &mut reader, detail, &mut out)?;
    out.flush()?;
    Ok(reader)
}

/// A mistake in an option's value.
fn usage(message: impl Into<String>) -> anyhow::Error {
    UsageError(message.into()).into()
}

impl Args {
    fn selection(&self) -> anyhow::Result<Selection> {
        let mut selection = Selection::default();
        for list in &self.fields {
            selection
                .apply(list)
                .map_err(|error| usage(error.to_string()))?;
        }
        Ok(selection)
    }

    fn wanted(&self, profile: &Profile) -> anyhow::Result<Wanted> {
        let mut asked = self.choice.asked()?;
        if let Some(clock) = self.clock.clock {
            let events = profile.events_of_clock(clock);
            asked.events = events.map_err(|why| usage(format!("--clock: {why}")))?;
        }
        check_cpus(profile, asked.cpus.is_some())?;
        let choice =
            Choice::new(asked, profile).map_err(|error| usage(format!("--time: {error}")))?;
        let switch = Switch::new(&self.switch.events(), profile)
            .map_err(|error| usage(error.to_string()))?;
        Ok(Wanted {
            samples: Some(choice).filter(|_| self.graph_function.is_empty()),
            switch,
            records: Shown::new(self.shown.types()),
        })
    }

    fn form(&self, selection: Selection) -> Form {
        Form {
            selection,
            time_origin: match (self.reltime, self.deltatime) {
                (true, _) => TimeOrigin::First,
                (_, true) => TimeOrigin::Previous,
                _ => TimeOrigin::Clock,
            },
            nanoseconds: self.ns,
            call_chains: !self.hide_call_graph,
            separate_chains: self.no_merge_callchains,
            max_stack: self.max_stack,
            inlines: !self.names.no_inline,
            stop_at: self.stop_bt.clone(),
            full_source_path: self.full_source_path,
            kernel_path: self.show_kernel_path,
        }
    }
}

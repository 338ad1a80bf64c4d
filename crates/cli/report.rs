//! `prof report`: a recording as a table with call graphs.

mod counted;
mod drawn;
pub(crate) mod emptiness;
mod filters;
mod form;
mod history;
mod missing;
mod page;
mod refused;
mod tasks;
mod trace_fields;
mod waiting;
mod web;

use crate::clock::{ClockOption, IdleOption};
use crate::cpu_list::check_cpus;
use crate::input::NameOptions;
use crate::outcome::{Outcome, UsageError, say};
use crate::pager::{Pager, fitted, paged_within, text_columns};
use crate::progress::{ProgressLine, Stage};
use crate::recording::Input;
use crate::refused::Refused;
use crate::runs::{check_distinct, files, input};
use crate::switching::SwitchArgs;
use crate::tui::can_draw;
use filters::Filters;
use form::Form;
use prof_listing::Switch;
use prof_listing::code_files::FileCode;
use prof_listing::dump::{HeaderDetail, Stats};
use prof_perfdata::Reader;
use prof_profile::{Counting, Profile, Redaction};
use prof_report::Format;
use prof_report::keys::{CellLook, FieldList, PARENT, SortKey};
use prof_report::model::{Cut, ParentPattern, Scope, Selection, SelfOf, parse_time_ranges};
use prof_report::text::{self, CallGraph, ChainKey, ChainOrder, ChainStyle, Grouping, TextOptions};
use prof_symbolize::Detail;
use refused::OfReport;
use regex::Regex;
use std::ffi::OsString;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

/// Look at a recording: a terminal UI on a terminal, else text as perf's.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, after_long_help = FORMATS)]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    clock: ClockOption,
    #[command(flatten)]
    idle: IdleOption,
    #[command(flatten)]
    names: NameOptions,
    #[command(flatten)]
    form: Form,
    #[command(flatten)]
    columns: Columns,
    #[command(flatten)]
    filters: Filters,
    #[command(flatten)]
    switch: SwitchArgs,
    /// Draw call chains: graph, fractal, flat, folded or none
    ///
    /// Then, with commas between: threshold in percent, most branches, caller or callee first,
    /// function or address, percent, period or count.
    #[arg(short = 'g', long, value_name = "WORDS", num_args = 0..=1, default_missing_value = "", overrides_with = "no_call_graph")]
    call_graph: Option<CallGraph>,
    #[arg(long, hide = true, overrides_with = "call_graph")]
    no_call_graph: bool,
    /// A recording to read, as -i FILE; else, as for perf, only rows of functions with this in
    /// their name
    #[arg(value_name = "FILE|TEXT")]
    argument: Option<OsString>,
    /// Draw the call chains of all rows, also where they are much more text than the recording
    /// has bytes
    #[arg(long)]
    unlimited: bool,
    /// Draw chains from the callers
    #[arg(short = 'G', long)]
    inverted: bool,
    /// Count a function for what it calls, too (the default with call chains)
    #[arg(long, overrides_with = "no_children")]
    children: bool,
    /// Count a function for its own code only
    #[arg(long)]
    no_children: bool,
    /// Keep at most N frames of a chain, from its leaf
    #[arg(long, value_name = "N", value_parser = frames)]
    max_stack: Option<usize>,
    /// Begin chains anew at functions with matching names, whose samples they are then: without
    /// their callees, or, where callers come first (`-g caller`, --children), without their callers
    #[arg(long, value_name = "REGEX")]
    ignore_callees: Option<Regex>,
    /// Only what names and lines are missing, why, and what helps
    #[arg(long, conflicts_with_all = ["json", "csv", "html", "tui", "web", "firefox"])]
    missing: bool,
    /// Only the locks that threads waited for (of record --off-cpu)
    ///
    /// Each with where it is, for how long and how often, at which stacks, and who ended that (of
    /// record --wakers).
    #[arg(long, conflicts_with_all = ["missing", "csv", "html", "tui", "web", "firefox"])]
    locks: bool,
    #[command(flatten)]
    wakes: waiting::WakeArgs,
    #[command(flatten)]
    _refused: Refused<OfReport>,
}

/// What `-h` shows below the options, and `--help` before the rest.
macro_rules! examples {
    () => {
        "\
Examples:
  prof report                            look around in a terminal
  prof report --stdio | head -50         what costs most
  prof report --no-children -s sym       functions by their own cost
  prof report -s dso --percent-limit 1   dsos above 1 %
  prof report -s prev_comm,next_comm     by fields of tracepoints
  prof report --branch-history           how the code got there (record -b)
  prof report --diff old.data new.data   what changed, in a terminal
  prof report --json > report.json       for a program
  prof report --html report.html         a page to send"
    };
}

const EXAMPLES: &str = examples!();

/// What `--json` and `--csv` write, for `--help` and the manual.
const FORMATS: &str = concat!(
    examples!(),
    "

--json writes one object. Names stay as they are from version to version, new
ones may join; weights are integers, texts are as recorded:
  schema    \"prof-report-1\"
  origin    hostname, os_release, arch, cpu, tool_version, command_line,
            first_time_ns, last_time_ns
  trust     summary, samples, lost, lost_records_at_most, lost_side_band, throttled,
            due_for_cpu_time (samples due, where tasks were too short for some, else 0),
            due_has_kernel (whether that counts the kernel, which was not sampled),
            stacks { judged, complete, ends { reason: samples } },
            frames { total, unnamed }, caveats [ { what, cause, cure } ],
            damages [ { offset, what, bytes } ]
  events [  name, samples, period, lost, asked, asked_is_hz,
            total { period, samples },
    rows  [ each sort key by its name, then
            self { period, samples, percent, low, high }, total { the same } ]
    frames[ { function, dso, inlined, kernel, named } ]
    tree  [ { parent, frame, self { period, samples }, total { the same } } ] ]
tree is the call tree: parent is an index into tree that comes before, or null
for a thread's outermost function; frame is an index into frames.

--csv writes a line of names, then a line for each row, as RFC 4180: the
event, then the columns of the table by the names of -F, then overhead_low and
overhead_high. Shares are percent with two decimals and no sign. low and high
are the 95 % interval: where sampling the same run again would find the share.
Control characters in texts are visible escapes (\\x1b), and a text that a
spreadsheet would take for a formula begins with an apostrophe."
);

/// What the table shows.
#[derive(Debug, clap::Args)]
struct Columns {
    /// Write the rows as a tree with a level for each sort key
    #[arg(short = 'H', long, conflicts_with_all = ["fields", "json", "csv", "tui"])]
    hierarchy: bool,
    /// Tell rows apart by these keys: comm, pid, tid, dso, symbol, srcline, cpu, time …
    ///
    /// All keys: comm, comm_nodigit, pid, tid, tgid, dso, symbol, symbol_size, srcline, srcfile,
    /// cpu, time, event, parent; after a + these and the usual ones.
    ///
    /// What records of samples tell: socket, local_weight, weight, local_ins_lat, ins_lat,
    /// local_p_stage_cyc, p_stage_cyc, local_retire_lat, retire_lat, transaction, trace, cgroup,
    /// cgroup_id, code_page_size, addr, simd, parallelism. With -b: dso_from, dso_to, symbol_from,
    /// symbol_to, addr_from, addr_to, srcline_from, srcline_to, mispredict, in_tx, abort, cycles.
    /// With --branch-history: callchain_branch_predicted, callchain_branch_abort,
    /// callchain_branch_cycles.
    /// With --mem-mode: mem, symbol_daddr, dso_daddr, symbol_iaddr, snoop, tlb, locked, blocked,
    /// phys_daddr, data_page_size.
    ///
    /// Of tracepoints their fields: prev_comm of all that have it, sched_switch.prev_comm or
    /// %1.prev_comm (the first event) of one, sched_switch.* for all of its fields, trace_fields for
    /// those of all; with /raw behind, as the payload has them (prof evlist --trace-fields lists
    /// them)
    #[arg(short, long, value_name = "KEYS")]
    sort: Option<FieldList>,
    /// Show exactly these columns: sort keys, overhead, sample, period, interval …
    ///
    /// Columns beside the sort keys: overhead, overhead_children, overhead_sys, overhead_us, sample,
    /// period, interval (where sampling the same run again would find overhead, in 95 of 100
    /// cases); after a + these and the usual ones.
    #[arg(short = 'F', long, value_name = "FIELDS")]
    fields: Option<FieldList>,
    /// Tell rows apart by the first caller whose name matches, too (--sort parent)
    #[arg(short = 'p', long, value_name = "REGEX")]
    parent: Option<Regex>,
    /// Show only rows with such a caller
    #[arg(short = 'x', long)]
    exclude_other: bool,
    /// Put this between columns instead of spaces
    #[arg(short = 't', long, value_name = "TEXT")]
    field_separator: Option<String>,
    /// Widths of the columns; 0 for as wide as needed
    #[arg(short = 'w', long, value_name = "WIDTHS", value_delimiter = ',', value_parser = width)]
    column_widths: Vec<usize>,
    /// Show the number of samples
    #[arg(short = 'n', long)]
    show_nr_samples: bool,
    /// Show the sum of periods
    #[arg(long, alias = "total-period")]
    show_total_period: bool,
    /// Count taken branches instead of samples (the default for recordings of record -b)
    #[arg(
        short = 'b',
        long,
        overrides_with = "no_branch_stack",
        conflicts_with = "mem_mode"
    )]
    branch_stack: bool,
    /// Put the last branches into call chains, before the callers: where each went, where it came
    /// from and what is told of it; of loops one round, with the number of those left out
    #[arg(long, conflicts_with_all = ["total_cycles", "mem_mode", "hierarchy", "json", "csv", "tui", "html", "web", "firefox"])]
    branch_history: bool,
    /// Count samples, also where they have branch stacks
    #[arg(long)]
    no_branch_stack: bool,
    /// Show the blocks of code between branches by their cycles, instead of functions
    #[arg(long, conflicts_with_all = ["hierarchy", "mem_mode", "no_branch_stack", "json", "csv", "tui", "html", "web", "firefox"])]
    total_cycles: bool,
    /// Count memory accesses by their cost: each sample by its weight
    #[arg(long)]
    mem_mode: bool,
    /// Accepted for perf's sake: shares are of what is counted
    #[arg(long, hide = true, value_name = "TYPE", value_parser = PERCENT_TYPES)]
    percent_type: Option<String>,
    /// Accepted for perf's sake: the terminal UI keeps all samples
    #[arg(long, hide = true, value_name = "N")]
    samples: Option<i32>,
    /// Show the shares of kernel and user
    #[arg(long)]
    show_cpu_utilization: bool,
    /// Leave out rows and branches below this share, percent
    #[arg(long, value_name = "PERCENT", value_parser = crate::share::percent)]
    percent_limit: Option<f64>,
    /// What is 100 %: all samples (absolute), or those that filters let pass (relative)
    #[arg(long, value_name = "WHAT", default_value = "absolute")]
    percentage: Percentage,
    /// Length of a slice for --sort time: a number and s, ms, us or ns
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = quantum)]
    time_quantum: u64,
    /// Show the events of a group together (the default); without groups, all events
    #[arg(long, overrides_with = "no_group")]
    group: bool,
    /// Show each event of a group by itself
    #[arg(long)]
    no_group: bool,
    /// Show times in nanoseconds
    #[arg(long)]
    ns: bool,
    /// Show the whole path of source files
    #[arg(long)]
    full_source_path: bool,
    /// Show whole names of functions, also where the terminal has no room for them
    #[arg(long)]
    full_names: bool,
    /// Leave out events without samples (always done)
    #[arg(long, hide = true)]
    skip_empty: bool,
}

/// What perf's annotation, which its report opens on a terminal, can show.
const PERCENT_TYPES: [&str; 4] = ["local-period", "local-hits", "global-period", "global-hits"];

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Percentage {
    Absolute,
    Relative,
}

fn quantum(text: &str) -> Result<u64, String> {
    let units = [
        ("ns", 1),
        ("us", 1000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
    ];
    let found = units
        .into_iter()
        .find_map(|(unit, ns)| Some((text.strip_suffix(unit)?.parse::<u64>().ok()?, ns)));
    found
        .and_then(|(count, ns)| count.checked_mul(ns))
        .filter(|&ns| ns > 0)
        .ok_or_else(|| "write a number and s, ms, us or ns, such as 100ms".into())
}

/// A width in characters; no wider than is of use.
fn width(text: &str) -> Result<usize, String> {
    let parsed = text.parse::<u16>().map(usize::from);
    parsed.map_err(|_| "write numbers of characters with commas between, such as 8,20,30".into())
}

/// A number of frames.
fn frames(text: &str) -> Result<usize, String> {
    let parsed = text.parse();
    parsed.map_err(|_| "write a number of frames, such as 16".into())
}

impl Args {
    /// The recordings of a side of `--diff`.
    fn side(&self, list: &Path) -> anyhow::Result<Vec<Input>> {
        let files = files(list);
        check_distinct(&files)?;
        let input = |path: &PathBuf| self.clock.of(&input(path, self.input.force));
        Ok(files.iter().map(input).collect())
    }
}

/// Shows the recording.
pub(crate) fn run(args: Args) -> anyhow::Result<Outcome> {
    let args = args.with_argument()?.sorted_as_perf();
    let args = &args.with_trace_fields()?;
    if args.form.stats || args.form.tasks || args.form.mmaps || args.form.header_only {
        return show_records(args);
    }
    let is_terminal = io::stdout().is_terminal();
    let can_draw = can_draw();
    if let ([before, after], true) = (args.form.diff.as_slice(), can_draw || args.form.tui) {
        let sides = [args.side(before)?, args.side(after)?];
        return crate::tui::run_sides(sides, &args.names, &args.form.look);
    }
    args.check_drawn()?;
    if args.is_drawn() {
        return args.draw();
    }
    if !args.form.diff.is_empty() {
        return Err(usage(
            "--diff opens the terminal UI, and stdout is no terminal that can be drawn on\n  \
             try: prof diff BEFORE AFTER",
        ));
    }
    let started = Instant::now();
    let mut loaded = load(args, is_terminal)?;
    if args.form.redact {
        loaded.profile.redact(&Redaction::default());
    }
    let mut options = args.text_options(&loaded.profile)?;
    loaded
        .history
        .inspect(|history| history.apply(&mut options));
    options.columns = text_columns();
    let profile = &loaded.profile;
    // A page without samples is refused with the cause.
    if profile.samples.is_empty() && !args.form.is_page() {
        say(&emptiness::no_samples(profile));
    } else {
        emptiness::say_what_nothing_passes(profile, &args.filters, &options.selection);
    }
    if args.missing {
        paged_within(text_columns(), |out| {
            missing::write(profile, text_columns(), out)
        })?;
        return Ok(loaded.outcome);
    }
    if args.locks || args.wakes.is_given() {
        return waiting::run(args, (profile, &options.selection), loaded.outcome);
    }
    if args.form.is_page() {
        if !args.form.firefox {
            loaded.profile.show_wait_states();
        }
        let profile = &loaded.profile;
        page::show(&args.form, profile, &options.selection)?;
        return Ok(loaded.outcome);
    }
    show(args, &loaded, &options, started)?;
    Ok(loaded.outcome)
}

/// Shows tables, as text or in the format asked for, of what was loaded since
/// `started`.
fn show(args: &Args, loaded: &Loaded, options: &TextOptions, started: Instant) -> io::Result<()> {
    let fits = text_columns().filter(|_| !options.full_names);
    let format = args.form.format();
    if format == Format::Csv && !loaded.profile.samples.is_empty() {
        emptiness::say_unseen_time(&loaded.profile);
    }
    let progress = ProgressLine::of(Stage::Showing, started);
    let write = |mut out: &mut dyn Write| {
        if format == Format::Text {
            out.write_all(&loaded.header)?;
        }
        match &loaded.code {
            Some(code) => text::blocks(&loaded.profile, options, code, &mut out)?,
            None => format.write(&loaded.profile, options, out)?,
        }
        out.flush()
    };
    let is_paged = io::stdout().is_terminal() && format == Format::Text;
    print((is_paged, fits), progress, write)
}

/// Writes to stdout, or to a pager, whose lines fit so many columns.
fn print(
    (is_paged, fits): (bool, Option<usize>),
    progress: ProgressLine,
    write: impl Fn(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let written = if is_paged {
        let mut pager = Pager::start();
        let mut out = BufWriter::new(fitted(progress.until_output(pager.input()), fits));
        let written = write(&mut out);
        drop(out);
        pager.finish();
        written
    } else {
        let out = progress.until_output(io::stdout().lock());
        write(&mut BufWriter::with_capacity(1 << 16, out))
    };
    match written {
        // Whoever reads has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// What was read for a report.
struct Loaded {
    profile: Profile,
    history: Option<history::Recorded>,
    /// What `--header` asks for.
    header: Vec<u8>,
    /// For blocks of code: the files that tell their lines.
    code: Option<FileCode>,
    outcome: Outcome,
}

fn load(args: &Args, is_terminal: bool) -> anyhow::Result<Loaded> {
    let symbolizer = Arc::new(args.names.symbolizer());
    let progress = ProgressLine::start();
    let detail = args.detail();
    let is_of_each_wait = args.missing || args.wakes.is_given();
    let input = args.clock.of(&args.input);
    let input = match is_of_each_wait {
        true => input,
        false => args.idle.of(input),
    };
    let input = Input {
        shows_addresses: !is_terminal && args.form.format() == Format::Text && !args.form.is_page(),
        counting: args.counting(),
        details: args.uses_details(),
        trace_fields: args.trace_fields(),
        branch_history: args.branch_history(),
        max_stack: args.max_stack.filter(|_| args.columns.branch_history),
        ..input
    };
    let (mut profile, mut reader) = input.resolve(&symbolizer, detail, &progress)?;
    args.check_counting(&profile, &reader)?;
    let history = args.history_of(&reader)?;
    Switch::new(&args.switch.events(), &profile)
        .map_err(|error| usage(error.to_string()))?
        .apply(&mut profile);
    if let Some(most) = args.max_stack.filter(|_| !args.columns.branch_history) {
        profile.limit_stacks(most);
    }
    drop(progress);
    input.say_names_fault(&symbolizer);
    let outcome = args.input.say_damages(&reader);
    let header = match args.form.header {
        true => args.header(&mut reader)?,
        false => Vec::new(),
    };
    drop(reader);
    let code = FileCode::new(Arc::clone(&symbolizer));
    let code = args.columns.total_cycles.then_some(code);
    // All names are in the profile; the tables they came from are large, and
    // taking them down is nothing to wait for.
    let _ = thread::Builder::new().spawn(move || drop(symbolizer));
    Ok(Loaded {
        profile,
        history,
        header,
        code,
        outcome,
    })
}

/// What the records tell without any names of functions.
fn show_records(args: &Args) -> anyhow::Result<Outcome> {
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let reader = if args.form.stats {
        let mut reader = args.input.open()?;
        let stats = Stats::count(&mut reader)?;
        args.write_header(&mut reader, &mut out)?;
        stats.write_as_perf(&reader, &mut out)?;
        reader
    } else if args.form.header_only {
        let mut reader = args.input.open()?;
        out.write_all(&args.header(&mut reader)?)?;
        reader
    } else {
        let detail = if args.form.mmaps {
            tasks::Detail::Mappings
        } else {
            tasks::Detail::Tasks
        };
        let mut text = Vec::new();
        let mut reader = tasks::write(&args.input, detail, &mut text)?;
        args.write_header(&mut reader, &mut out)?;
        out.write_all(&text)?;
        reader
    };
    out.flush()?;
    Ok(args.input.say_damages(&reader))
}

impl Args {
    /// Takes the argument for what it is: a recording or a part of names.
    fn with_argument(mut self) -> anyhow::Result<Self> {
        if let Some(argument) = self.argument.take()
            && let Some(text) = self.input.or_text(argument)?
        {
            self.filters.symbol_filter.get_or_insert(text);
        }
        Ok(self)
    }

    /// Writes what `--header` asks for.
    fn write_header(&self, reader: &mut Reader, out: &mut impl Write) -> anyhow::Result<()> {
        if self.form.header {
            out.write_all(&self.header(reader)?)?;
        }
        Ok(())
    }

    /// What is known of the machine and the recording.
    fn header(&self, reader: &mut Reader) -> anyhow::Result<Vec<u8>> {
        let detail = if self.form.show_info {
            HeaderDetail::Full
        } else {
            HeaderDetail::Brief
        };
        let mut text = Vec::new();
        crate::dump::write_header(&self.input, reader, detail, &mut text)?;
        Ok(text)
    }

    fn text_options(&self, profile: &Profile) -> anyhow::Result<TextOptions> {
        let call_graph = self.drawn_chains()?;
        self.check_parent(profile)?;
        let columns = &self.columns;
        Ok(TextOptions {
            selection: self.selection(profile, call_graph)?,
            sort: self.sort(profile.counting),
            sort_text: self.sort_text(profile.counting),
            fields: columns.fields.clone(),
            children: !self.no_children && profile.counting == Counting::Samples,
            call_graph,
            show_samples: columns.show_nr_samples,
            show_period: columns.show_total_period,
            show_cpu_utilization: columns.show_cpu_utilization,
            separator: columns.field_separator.clone(),
            widths: columns.column_widths.clone(),
            percent_limit: columns.percent_limit.unwrap_or(0.0),
            relative: columns.percentage == Percentage::Relative,
            quantum: columns.time_quantum,
            threads: self.form.threads,
            quiet: self.form.quiet,
            time: self.filters.time.clone(),
            exclude_other: columns.exclude_other,
            symbol_filter: self.filters.symbol_filter.clone(),
            tells_branches: true,
            columns: None,
            full_names: columns.full_names,
            unlimited: self.unlimited,
            hierarchy: columns.hierarchy,
            grouping: match (columns.group, columns.no_group) {
                (true, _) => Grouping::Together,
                (false, true) => Grouping::Apart,
                (false, false) => Grouping::AsRecorded,
            },
            look: CellLook {
                verbose: self.form.verbose,
                nanoseconds: columns.ns,
                full_paths: columns.full_source_path,
            },
        })
    }

    /// How call chains are drawn.
    fn drawn_chains(&self) -> anyhow::Result<CallGraph> {
        let mut call_graph = match self.no_call_graph {
            true => "none".parse()?,
            false => self.call_graph.unwrap_or_default(),
        };
        if self.columns.branch_history {
            call_graph.key = ChainKey::Address;
            call_graph.order = Some(self.order_of_history());
        }
        if self.inverted {
            call_graph.order = Some(ChainOrder::Caller);
        }
        if let Some(limit) = self.columns.percent_limit {
            if !(0.0..=100.0).contains(&limit) {
                return Err(usage("--percent-limit is a share between 0 and 100"));
            }
            call_graph.threshold = limit;
        }
        Ok(call_graph)
    }

    /// Whether rows are told apart by a caller.
    fn is_by_parent(&self) -> bool {
        self.columns.parent.is_some() || self.uses(PARENT)
    }

    fn check_parent(&self, profile: &Profile) -> anyhow::Result<()> {
        let has_chains = profile.events.iter().any(|event| event.has_callchain);
        if self.is_by_parent() && !has_chains {
            return Err(usage(
                "--parent and --sort parent look for callers, but this was recorded without call \
                 chains; record with -g",
            ));
        }
        if self.columns.exclude_other && !self.is_by_parent() {
            return Err(usage(
                "-x shows rows with a certain caller; say which with -p REGEX",
            ));
        }
        Ok(())
    }

    /// Which samples count, and for what.
    fn selection(&self, profile: &Profile, call_graph: CallGraph) -> anyhow::Result<Selection> {
        // As in perf, callees are not ignored where nothing shows callers.
        let looks_at_callers = self.form.json
            || !self.no_children
            || self.is_by_parent()
            || call_graph.style != ChainStyle::None;
        Ok(Selection {
            scope: self.scope(profile)?,
            filter: self.filters.filter(),
            // Who was inlined is told by chains, and by rows for callers.
            inlines: !self.names.no_inline
                && (call_graph.style != ChainStyle::None || !self.no_children),
            // perf's Self is that of the function in the file; its lines
            // are those of the code itself.
            self_of: match self.splits_by_line() {
                true => SelfOf::HostAtLine,
                false => SelfOf::Host,
            },
            parent: self.parent(),
            cut: self.cut(call_graph).filter(|_| looks_at_callers),
            ..Selection::default()
        })
    }

    /// As perf, which forgets what it met of a chain before such a function.
    fn cut(&self, call_graph: CallGraph) -> Option<Cut> {
        let pattern = self.ignore_callees.clone()?;
        let keeps = call_graph.order(!self.no_children).last();
        Some(Cut { pattern, keeps })
    }

    /// How much of the debug information is needed.
    fn detail(&self) -> Detail {
        let by_line = self.given_keys().any(SortKey::needs_lines);
        let chains_by_line = self
            .call_graph
            .is_some_and(|graph| graph.key != ChainKey::Function);
        let by_branch = self.columns.total_cycles || self.columns.branch_history;
        if by_line || chains_by_line || by_branch || self.missing {
            return Detail::Source;
        }
        match self.names.detail() {
            Detail::Source => Detail::Inlines,
            detail => detail,
        }
    }

    fn parent(&self) -> ParentPattern {
        let mut parent = ParentPattern::default();
        if let Some(pattern) = &self.columns.parent {
            parent.pattern = pattern.clone();
        }
        parent
    }

    fn scope(&self, profile: &Profile) -> anyhow::Result<Scope> {
        let times = match &self.filters.time {
            Some(text) => parse_time_ranges(text, profile.time_span())
                .map_err(|error| usage(format!("--time: {error}")))?,
            None => Vec::new(),
        };
        check_cpus(profile, self.filters.cpu.is_some())?;
        Ok(Scope {
            cpus: self
                .filters
                .cpu
                .clone()
                .map_or_else(Vec::new, |list| list.0),
            times,
            named_only: self.filters.hide_unresolved,
        })
    }
}

fn usage(message: impl Into<String>) -> anyhow::Error {
    anyhow::Error::new(UsageError(message.into()))
}

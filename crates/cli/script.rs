//! `prof script`: every sample as text, in perf script's format.

mod choice;
mod dumps;
mod refused;
mod shown;
mod spool;

use crate::input::NameOptions;
use crate::outcome::{Outcome, UsageError, say};
use crate::recording::Input;
use crate::refused::Refused;
use crate::switching::{Switch, SwitchArgs};
use choice::Choice;
use dumps::Dumps;
use prof_abi::{CpuMode, RecordType};
use prof_listing::dump::HeaderDetail;
use prof_listing::script::{Layout, Rows, Shown, write_deferred, write_record};
use prof_live::Processes;
use prof_perfdata::{Body, Event, Features, Mode, Record, Shares, TimeOrder};
use prof_profile::Profile;
use prof_report::script::{
    EventKind, Field, Fields, Options, ScriptWriter, Selection, TimeOrigin, Times,
};
use prof_symbolize::{Detail, Symbolizer};
use refused::OfScript;
use shown::ShownArgs;
use std::collections::HashMap;
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
    choice: choice::ChoiceArgs,
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

/// Bytes collected before they are written.
const CHUNK: usize = 1 << 18;

/// Reads the recording twice: once for processes, stacks and names, once for
/// what a profile does not keep of a sample.
pub(crate) fn run(args: Args) -> anyhow::Result<Outcome> {
    let args = &args;
    let spooled = spool::twice_readable(&args.input)?;
    let input = spooled
        .as_ref()
        .map_or(&args.input, |spooled| &spooled.input);
    if args.header || args.header_only {
        let mut out = BufWriter::new(io::stdout().lock());
        let mut reader = input.open()?;
        let detail = if args.show_info {
            HeaderDetail::Full
        } else {
            HeaderDetail::Brief
        };
        crate::dump::write_header(input, &mut reader, detail, &mut out)?;
        if args.header_only {
            out.flush()?;
            return Ok(input.say_damages(&reader));
        }
        out.flush()?;
    }
    let mut selection = Selection::default();
    for list in &args.fields {
        selection
            .apply(list)
            .map_err(|error| usage(error.to_string()))?;
    }
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
    let choice = Choice::new(&args.choice, &profile)?;
    let mut printing = Printing {
        args,
        profile: &profile,
        choice,
        shown: Shown::new(args.shown.types()),
        chains: profile
            .events
            .iter()
            .map(|event| event.has_callchain && !args.hide_call_graph)
            .collect(),
        selection,
        text: Vec::with_capacity(CHUNK),
    };
    printing.all(input, &symbolizer)?;
    Ok(outcome)
}

/// A mistake in an option's value.
fn usage(message: impl Into<String>) -> anyhow::Error {
    UsageError(message.into()).into()
}

/// What is known of a recording before its first sample.
struct Head {
    mode: Mode,
    features: Features,
    events: Vec<Event>,
}

fn head(input: &Input) -> anyhow::Result<Head> {
    let mut reader = input.open()?;
    while let Some(record) = reader.next()? {
        if record.kind == RecordType::SAMPLE {
            break;
        }
    }
    Ok(Head {
        mode: reader.header().mode,
        features: reader.features().clone(),
        events: reader.events().list().to_vec(),
    })
}

/// What goes on between the first and the last line.
struct Printing<'a> {
    args: &'a Args,
    profile: &'a Profile,
    choice: Choice,
    shown: Shown,
    /// Of each event whether its samples are printed with call chains.
    chains: Vec<bool>,
    selection: Selection,
    text: Vec<u8>,
}

impl Printing<'_> {
    fn all(&mut self, input: &Input, symbolizer: &Symbolizer) -> anyhow::Result<()> {
        let Head {
            mode,
            features,
            events,
        } = head(input)?;
        let has_clock = self.profile.origin.wall_clock.is_some();
        check(&mut self.selection, &events, mode, has_clock, self.args)?;
        let mut writer = ScriptWriter::new(self.profile, self.options(&events));
        let mut processes = Processes::default();
        let mut rows = None;
        let mut order = Order::new(&self.shown);
        let merges = !self.args.no_merge_callchains && !self.args.per_event_dump;
        let mut late = LateChains::new(merges);
        let mut records = TimeOrder::new(input.open()?);
        let mut samples = self.profile.samples.iter();
        let (mut shares, mut parts) = (Shares::default(), Vec::new());
        let mut stdout = BufWriter::with_capacity(CHUNK, io::stdout().lock());
        let mut switch = Switch::new(&self.args.switch, self.profile)?;
        let mut dumps = dumps(self.args, &events)?;
        while let Some(record) = records.next()? {
            let body = record.decode();
            let Body::Sample(sample) = body else {
                processes.apply(&record, &body);
                if let Body::CallchainDeferred(chain) = &body {
                    if self.args.no_merge_callchains {
                        let rows = rows
                            .get_or_insert_with(|| Rows::new(&features, &processes, symbolizer));
                        self.deferred(&record, &body, (rows, &processes), writer.times());
                    }
                    late.came(tid_of(&record), chain.cookie, &mut self.text);
                }
                self.other(&record, &body, &processes, writer.times());
                if let Some(rows) = &mut rows {
                    Rows::learn(rows, &body);
                }
                order.printed(record.offset, &mut self.text);
                flush_full(&mut self.text, &mut stdout)?;
                continue;
            };
            // The profile has a row for each share of a sample, in order.
            parts.clear();
            if let Some(own) = record.event_index() {
                shares.of(record.events(), own, &sample, &mut parts);
            }
            if record.misc.cpu_mode() == CpuMode::User {
                processes.runs_user_code(sample.pid().unwrap_or(-1));
            }
            for kept in samples.by_ref().take(parts.len()) {
                let is_wanted = self.args.graph_function.is_empty()
                    && self.choice.takes(self.profile, &kept)
                    && !switch.leaves_out(kept.event);
                if !is_wanted {
                    continue;
                }
                let rows = rows.get_or_insert_with(|| Rows::new(&features, &processes, symbolizer));
                let event = kept.event;
                let text = dumps.as_mut().and_then(|dumps| dumps.text(event));
                let text = text.unwrap_or(&mut self.text);
                let start = text.len();
                rows.write(&record, &sample, kept, &processes, &mut writer, text);
                if let Some(cookie) = sample.deferred_cookie() {
                    late.wait((sample.tid().unwrap_or(-1), cookie), text, start);
                }
                if let Some(dumps) = &mut dumps {
                    dumps.flush_full(event)?;
                    continue;
                }
                order.printed(record.offset, &mut self.text);
                flush_full(&mut self.text, &mut stdout)?;
            }
        }
        late.finish(&mut self.text);
        order.finish(&mut self.text);
        if let Some(dumps) = dumps {
            dumps.finish(&mut self.text)?;
        }
        stdout.write_all(&self.text)?;
        stdout.flush()?;
        Ok(())
    }

    /// Prints a user call chain by itself.
    fn deferred(
        &mut self,
        record: &Record<'_>,
        body: &Body<'_>,
        (rows, processes): (&mut Rows<'_>, &Processes),
        times: &mut Times,
    ) {
        let Body::CallchainDeferred(chain) = body else {
            return;
        };
        let layout = Layout {
            selection: &self.selection,
            chains: &self.chains,
            times,
        };
        write_deferred(record, body, processes, layout, &mut self.text);
        let kind = record
            .event()
            .map_or(EventKind::Other, |event| EventKind::of(event.attr.kind));
        let fields = self.selection.of(kind);
        if fields.has(Field::Ip) {
            let pid = record.sample_id().pid.unwrap_or(-1);
            rows.push_chain((pid, chain.ips.iter()), processes, fields, &mut self.text);
        }
        self.text.push(b'\n');
    }

    fn other(
        &mut self,
        record: &Record<'_>,
        body: &Body<'_>,
        processes: &Processes,
        times: &mut Times,
    ) {
        if self.shown.wants(record.kind) {
            let layout = Layout {
                selection: &self.selection,
                chains: &self.chains,
                times,
            };
            write_record(record, body, processes, layout, &mut self.text);
        }
    }

    fn time_origin(&self) -> TimeOrigin {
        match (self.args.reltime, self.args.deltatime) {
            (true, _) => TimeOrigin::First,
            (_, true) => TimeOrigin::Previous,
            _ => TimeOrigin::Clock,
        }
    }

    fn options(&self, events: &[Event]) -> Options {
        let fields = |event: &Event| self.selection.of(EventKind::of(event.attr.kind));
        let wall_clock = self.profile.origin.wall_clock;
        Options {
            fields: events.iter().map(fields).collect(),
            name_width: events
                .iter()
                .map(|event| event.name().len())
                .max()
                .unwrap_or(0),
            times: Times::new(self.time_origin(), self.args.ns),
            call_chains: !self.args.hide_call_graph,
            max_stack: self.args.max_stack,
            inlines: !self.args.names.no_inline,
            stop_at: self.args.stop_bt.clone(),
            full_source_path: self.args.full_source_path,
            kernel_path: self.args.show_kernel_path,
            wall_clock: wall_clock.map(|(wall, clock)| i128::from(wall) - i128::from(clock)),
        }
    }
}

/// The files of `--per-event-dump`.
fn dumps(args: &Args, events: &[Event]) -> anyhow::Result<Option<Dumps>> {
    let asked = args.per_event_dump;
    asked
        .then(|| Dumps::new(&args.input.path, events))
        .transpose()
}

/// Samples whose chain comes later, by thread and cookie: of each its place
/// among all and its text.
type Waiting = HashMap<(i32, u64), Vec<(u64, Vec<u8>)>>;

/// The thread that a record is of.
fn tid_of(record: &Record<'_>) -> i32 {
    record.sample_id().tid.unwrap_or(-1)
}

/// What was printed of samples whose user call chains come later. As perf,
/// they come out when those do, so that what is before is whole.
struct LateChains {
    /// `None` if nothing waits.
    waiting: Option<Waiting>,
    count: u64,
}

impl LateChains {
    fn new(waits: bool) -> Self {
        Self {
            waiting: waits.then(HashMap::new),
            count: 0,
        }
    }

    /// Takes away what was printed of a sample.
    fn wait(&mut self, key: (i32, u64), text: &mut Vec<u8>, start: usize) {
        if let Some(waiting) = &mut self.waiting {
            let piece = text.split_off(start.min(text.len()));
            waiting.entry(key).or_default().push((self.count, piece));
            self.count += 1;
        }
    }

    /// Gives back what waited for a chain.
    fn came(&mut self, tid: i32, cookie: u64, text: &mut Vec<u8>) {
        let waiting = self.waiting.as_mut();
        let pieces = waiting.and_then(|waiting| waiting.remove(&(tid, cookie)));
        for (_, piece) in pieces.into_iter().flatten() {
            text.extend(piece);
        }
    }

    /// Gives back what waits still.
    fn finish(self, text: &mut Vec<u8>) {
        let left = self.waiting.into_iter().flatten();
        let mut left: Vec<_> = left.flat_map(|(_, pieces)| pieces).collect();
        left.sort_by_key(|&(place, _)| place);
        for (_, piece) in left {
            text.extend(piece);
        }
    }
}

/// In which order what is printed comes out.
enum Order {
    /// As it is printed: by time.
    Time,
    /// As it lies in the file: kept until the end, by offset.
    File(Vec<(u64, Vec<u8>)>),
}

impl Order {
    fn new(shown: &Shown) -> Self {
        if shown.in_file_order() {
            Self::File(Vec::new())
        } else {
            Self::Time
        }
    }

    /// `text` was printed of the record at `offset`.
    fn printed(&mut self, offset: u64, text: &mut Vec<u8>) {
        if let Self::File(kept) = self
            && !text.is_empty()
        {
            kept.push((offset, text.as_slice().into()));
            text.clear();
        }
    }

    /// Gives what was kept.
    fn finish(self, text: &mut Vec<u8>) {
        if let Self::File(mut kept) = self {
            kept.sort_by_key(|&(offset, _)| offset);
            for (_, piece) in kept {
                text.extend(piece);
            }
        }
    }
}

fn flush_full(text: &mut Vec<u8>, out: &mut impl Write) -> io::Result<()> {
    if text.len() >= CHUNK {
        out.write_all(text)?;
        text.clear();
    }
    Ok(())
}

/// What the samples of an event must carry for a field to be printed, and
/// what perf calls it.
fn carries(event: &Event, field: Field) -> Option<(bool, &'static str)> {
    use prof_abi::SampleType as Bit;
    let kind = event.attr.sample_type;
    Some(match field {
        Field::Ip => (kind.has(Bit::IP), "IP"),
        Field::Addr => (kind.has(Bit::ADDR), "ADDR"),
        Field::DataSrc => (kind.has(Bit::DATA_SRC), "DATA_SRC"),
        Field::Weight => (
            kind.has(Bit::WEIGHT) || kind.has(Bit::WEIGHT_STRUCT),
            "WEIGHT",
        ),
        Field::InsLat => (kind.has(Bit::WEIGHT_STRUCT), "WEIGHT_STRUCT"),
        Field::Pid | Field::Tid => (kind.has(Bit::TID), "TID"),
        Field::Time | Field::Tod => (kind.has(Bit::TIME), "TIME"),
        Field::Cpu => (kind.has(Bit::CPU), "CPU"),
        Field::BrStackInsn | Field::BrStackInsnLen => {
            (records_all_branches(event), "stack of all branches")
        }
        Field::Iregs => (kind.has(Bit::REGS_INTR), "IREGS"),
        Field::Uregs => (kind.has(Bit::REGS_USER), "UREGS"),
        Field::PhysAddr => (kind.has(Bit::PHYS_ADDR), "PHYS_ADDR"),
        Field::DataPageSize => (kind.has(Bit::DATA_PAGE_SIZE), "DATA_PAGE_SIZE"),
        Field::CodePageSize => (kind.has(Bit::CODE_PAGE_SIZE), "CODE_PAGE_SIZE"),
        Field::Cgroup => (kind.has(Bit::CGROUP), "CGROUP"),
        _ => return None,
    })
}

/// Refuses fields that say nothing without another one.
fn check_pairs(fields: Fields) -> anyhow::Result<()> {
    let pairs = [
        (Field::SymOff, Field::Sym, "the symbol it counts from"),
        (Field::SrcLine, Field::Ip, "the address it is of"),
        (Field::SrcCode, Field::Ip, "the address it is of"),
    ];
    for (field, needed, what) in pairs {
        if fields.has(field) && !fields.has(needed) {
            let (field, needed) = (field.name(), needed.name());
            return Err(usage(format!("-F {field} needs {needed}, {what}")));
        }
    }
    Ok(())
}

/// Whether samples have all branches, not only those of some kind.
fn records_all_branches(event: &Event) -> bool {
    use prof_abi::{BranchSampleType as Bit, SampleType};
    let attr = &event.attr;
    attr.sample_type.has(SampleType::BRANCH_STACK) && attr.branch_sample_type.has(Bit::ANY)
}

/// Drops default fields that an event lacks; refuses those asked for. Branches
/// are printed where there are any, as in perf.
fn check(
    selection: &mut Selection,
    events: &[Event],
    mode: Mode,
    has_clock: bool,
    args: &Args,
) -> anyhow::Result<()> {
    if !has_clock && selection.of_any().has(Field::Tod) {
        return Err(usage(
            "-F tod: the recording does not tell the time of day\n  \
             try: record with -k monotonic",
        ));
    }
    let mut seen = Vec::new();
    for event in events {
        let kind = EventKind::of(event.attr.kind);
        // As perf: the first event of a kind decides for all of them, and in a
        // file none that takes no samples.
        let is_dummy = event.attr.kind == 1 && event.attr.config == 9;
        if seen.contains(&kind) || (is_dummy && mode == Mode::File) {
            continue;
        }
        seen.push(kind);
        for &field in Field::ALL {
            let Some((false, bit)) = carries(event, field) else {
                continue;
            };
            if !selection.of(kind).has(field) {
                continue;
            }
            if selection.asked_for(kind, field) {
                let (name, field) = (event.name(), field.name());
                return Err(usage(format!(
                    "samples of {name} have no {bit}, so {field} cannot be printed"
                )));
            }
            selection.drop_field(kind, field);
        }
        check_pairs(selection.of(kind))?;
    }
    if !args.hide_call_graph && mode == Mode::Pipe {
        show_chains_of_pipe(selection, events);
        return Ok(());
    }
    let has_chain = |event: &Event| event.attr.sample_type.has(prof_abi::SampleType::CALLCHAIN);
    let is_tracepoint = |event: &Event| EventKind::of(event.attr.kind) == EventKind::Tracepoint;
    if !args.hide_call_graph
        && events
            .iter()
            .any(|event| is_tracepoint(event) && has_chain(event))
    {
        selection.show_tracepoint_chains(&[Field::Ip, Field::Sym, Field::SymOff, Field::Dso]);
    }
    Ok(())
}

/// As perf, which looks at each event of a pipe with those before it.
fn show_chains_of_pipe(selection: &mut Selection, events: &[Event]) {
    use prof_abi::SampleType as Bit;
    let mut combined = Bit(0);
    for event in events {
        combined = combined.with(event.attr.sample_type);
        let has_chains = combined.has(Bit::CALLCHAIN)
            || combined.has(Bit::BRANCH_STACK)
            || (combined.has(Bit::REGS_USER) && combined.has(Bit::STACK_USER));
        if has_chains {
            selection.show_chains_of_pipe(EventKind::of(event.attr.kind));
        }
    }
}

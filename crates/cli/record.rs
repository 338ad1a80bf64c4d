//! `prof record`: from flags to a recording, and its end to an exit code.

mod asked;
mod excluded;
mod refused;
mod taken;
mod values;

use crate::cgroups::Cgroups;
use crate::cpu_list::{CpuList, cpus};
use crate::embed::{self, Embedded, Texts, Wish};
use crate::filters::Filters;
use crate::outcome::{Outcome, UsageError, chain_of_causes, say};
use crate::push::{Delivery, Pusher};
use crate::recording::Input;
use crate::refused::Refused;
use anyhow::Context;
use asked::given;
pub(crate) use asked::options;
use excluded::Excluded;
use prof_abi::BranchSampleType;
use prof_record::commands::Channel;
use prof_record::options::{
    Affinity, Clock, Flight, Follow, Options, Sampling, Snapshots, Stacks, Start, Switching,
    Target, Told, TraceSamples,
};
use prof_record::{EndedBy, Finished, KeptFiles, RecordError, WaitOptions};
use prof_symbolize::FileAtHand;
use prof_sys::Identity;
use prof_sys::limits::address_space_left;
use prof_sys::process::Ended;
use refused::OfRecord;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use taken::Taken;
use values::RingSizes;
pub(crate) use values::channel;

/// Record where a program spends its time, into perf.data.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, after_long_help = ABOUT)]
pub(crate) struct Args {
    // First: they look at where the others are.
    #[command(flatten)]
    filters: Filters,
    #[command(flatten)]
    excluded: Excluded,
    #[command(flatten)]
    cgroups: Cgroups,
    /// Events, as prof list shows them [default: cycles, or cpu-clock].
    ///
    /// As perf writes them: cycles, cpu-clock:u, {a,b}:S, r1a8, sched:sched_switch,
    /// mem:0x1000/4:w, pmu/term=1/, uprobe:PATH:FUNCTION[/TERMS/], uretprobe:, kprobe:,
    /// usdt:PATH:NAME. By default cycles, or cpu-clock where there is no counter for cycles.
    ///
    /// Terms of one event stand between slashes: cpu-clock/freq=99,call-graph=fp/.
    /// Those of samples are freq=, period=, call-graph=, stack-size=, max-stack=,
    /// branch_type=, no-inherit, time=0 (no times in the samples of all events)
    /// and overwrite (the ring of this event holds its newest samples, -m says
    /// how many, and is read at the end and for each file of --switch-output);
    /// cpu=, percore and name= are of counts too.
    #[arg(short, long = "event", value_name = "EVENT", aliases = ["eve", "ev"])]
    event: Vec<String>,
    /// All events into one group, as -e '{a,b}' does.
    #[arg(long)]
    group: bool,
    /// Samples a second (Hz), or max [default: 4000, as perf].
    #[arg(short = 'F', long = "freq", value_name = "HZ", conflicts_with = "count", value_parser = values::frequency)]
    freq: Option<Sampling>,
    /// Sample every so many events.
    #[arg(short, long, value_name = "EVENTS", value_parser = values::period)]
    count: Option<Sampling>,
    /// No samples: only which tasks and mappings there are, and with -s the
    /// counts of threads. Events with a rate of their own (freq=, period=) do
    /// sample.
    #[arg(short, long, conflicts_with_all = ["off_cpu", "off_cpu_min", "off_cpu_stacks", "wakers"])]
    no_samples: bool,
    /// Call stacks: --call-graph auto.
    #[arg(short = 'g')]
    stacks: bool,
    /// How to get call stacks: auto[,BYTES] (unwound while recording, with so
    /// much of the stack copied with each sample), fp (frame pointers),
    /// dwarf[,BYTES] (stack dumps, unwound when read), lbr; fp,defer: followed on the way
    /// back to user space, where that may page in (Linux 6.19).
    #[arg(long, value_name = "MODE", value_parser = values::stacks)]
    call_graph: Option<Stacks>,
    /// The file, or - for a stream to standard output.
    ///
    /// What the command writes to standard output then goes to standard error.
    #[arg(
        short,
        long,
        value_name = "FILE",
        default_value = "perf.data",
        allow_hyphen_values = true
    )]
    output: PathBuf,
    /// Processes to attach to, with all their threads.
    #[arg(short, long, value_name = "PID,…", value_delimiter = ',', value_parser = values::task)]
    pid: Vec<u32>,
    /// Threads to attach to.
    #[arg(short, long, value_name = "TID,…", value_delimiter = ',', value_parser = values::task)]
    tid: Vec<u32>,
    /// The processes of a user that run now, by name or number, with what they
    /// start.
    #[arg(short = 'u', long, value_name = "USER", value_parser = values::user, conflicts_with_all = ["pid", "tid", "all_cpus"])]
    uid: Option<Identity>,
    /// Run the command as this user; root's rights are for opening only.
    ///
    /// The user owns the file, and the recorder becomes that user when events and
    /// file are open, but with -a, which reads the processes of all users, and
    /// where the user may not write in the file's folder. sudo means whoever
    /// called sudo.
    #[arg(long, value_name = "NAME|sudo", value_parser = values::runner, conflicts_with_all = ["pid", "tid", "uid"])]
    user: Option<Identity>,
    /// Everything that runs, until Ctrl-C or the end of the command.
    #[arg(short, long)]
    all_cpus: bool,
    /// Only these CPUs: 0-3,8.
    #[arg(short = 'C', long = "cpu", value_name = "LIST", value_parser = cpus)]
    cpu: Option<CpuList>,
    /// User space only.
    #[arg(long, conflicts_with = "all_kernel")]
    all_user: bool,
    /// The kernel only.
    #[arg(long)]
    all_kernel: bool,
    /// Only the user part of call stacks.
    #[arg(long, conflicts_with = "kernel_callchains")]
    user_callchains: bool,
    /// Only the kernel part of call stacks.
    #[arg(long)]
    kernel_callchains: bool,
    /// Begin so many ms after the start.
    ///
    /// Or record from when until when only (10-20,30-40): the last end is that of the recording, and
    /// a command that we launched gets SIGTERM. Or, with -1, when --control says so.
    #[arg(short = 'D', long, value_name = "MS|RANGES", allow_hyphen_values = true, value_parser = values::start)]
    delay: Option<Start>,
    /// Take commands while recording: enable, disable, evlist, snapshot, ping,
    /// stop; each is answered with ack.
    #[arg(long, value_name = "fd:CTL[,ACK]|fifo:CTL[,ACK]", value_parser = values::channel)]
    control: Option<Channel>,
    /// End after so many seconds, or a time such as 500ms or 2m; a command that we
    /// launched gets SIGTERM.
    #[arg(long, value_name = "TIME", value_parser = values::seconds)]
    duration: Option<Duration>,
    /// Size of each ring: pages, or bytes with B, K, M or G; behind a comma that of
    /// each area for a trace [default: 4M for root, 128K for others].
    #[arg(short, long, value_name = "[SIZE][,SIZE]", value_parser = values::rings)]
    mmap_pages: Option<RingSizes>,
    /// Of a trace (-e intel_pt//) keep only snapshots: one with each SIGUSR2 or
    /// `snapshot` of --control, and with e one at the end. BYTES are the most of
    /// each [default: the area's].
    #[arg(short = 'S', long, value_name = "[e][BYTES]", num_args = 0..=1, require_equals = true, default_missing_value = "", value_parser = values::snapshots)]
    snapshot: Option<Snapshots>,
    /// Of a trace keep only its newest bytes with each sample of the events that a
    /// tracing one leads: -e '{intel_pt//u,cycles:u}' [default: 4096].
    #[arg(long, value_name = "BYTES", num_args = 0..=1, require_equals = true, default_missing_value = "", value_parser = values::trace_samples)]
    aux_sample: Option<TraceSamples>,
    /// End when the records have this size: bytes, or with B, K, M or G. Names come on
    /// top, a tenth of it at most or 1 MB.
    #[arg(long, value_name = "SIZE", value_parser = values::size)]
    max_size: Option<u64>,
    /// Pack all records with zstd, from 1 (fast) to 22 (small) [default: 1].
    /// Without, those are packed whose call chains are so deep that a sample
    /// takes more than 4 KiB (500 frames). A perf without zstd leaves packed
    /// records out, and `perf inject` passes them on unread: use `prof inject`, or
    /// -z=0, which packs none.
    #[arg(short = 'z', long, value_name = "LEVEL", num_args = 0..=1, require_equals = true, default_missing_value = "1", value_parser = clap::value_parser!(u32).range(0..=22))]
    compression_level: Option<u32>,
    /// Pack no records, not even those with deep call chains.
    #[arg(long, conflicts_with = "compression_level")]
    no_compression_level: bool,
    /// Go on in another file when SIGUSR2 comes (signal), at a size (100M) or
    /// after a time (30s, 5m; also ms, h, d). Each file stands alone and is
    /// named FILE and the time.
    #[arg(long, value_name = "signal|SIZE|TIME", num_args = 0..=1, require_equals = true, default_missing_value = "signal", value_parser = values::switching)]
    switch_output: Option<Switching>,
    /// Go on in another file, or dump what --overwrite keeps, when one of these
    /// events occurs: a tracepoint, a probe, or page-faults/period=1000/; in all that
    /// runs, where you may watch that, or in what is recorded.
    #[arg(long, value_name = "EVENT", conflicts_with_all = ["push", "redact"])]
    switch_output_event: Vec<String>,
    /// Send what is recorded to a store of profiles, while recording and at the
    /// end: Pyroscope (http://HOST:4040/ingest), Parca or OpenTelemetry; see
    /// prof push. No file stays.
    #[arg(long, value_name = "URL", conflicts_with_all = ["output", "switch_output", "overwrite", "max_size", "timestamp_filename"])]
    push: Option<String>,
    /// With --push: so much is sent at a time [default: 10s].
    #[arg(long, value_name = "TIME", requires = "push", value_parser = values::every)]
    every: Option<Duration>,
    #[command(flatten)]
    delivery: Delivery,
    /// Keep only so many of the newest files.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    switch_max_files: Option<u32>,
    /// Keep only the newest records, of the last 30s or 64M.
    ///
    /// In memory: of a time (also ms, m, h), or so many bytes (100M). SIGUSR2 writes them
    /// to FILE and the time, the end of the recording to FILE. Without a time or size
    /// samples stay in the kernel's rings, as perf's, and cost the recorder nothing: what
    /// the rings hold (-m), and of that in each file what no earlier one had. With -g,
    /// --off-cpu and --switch-output=SIZE it is 64M.
    #[arg(long, value_name = "TIME|SIZE", num_args = 0..=1, require_equals = true, default_missing_value = "rings", value_parser = values::flight, conflicts_with = "max_size")]
    overwrite: Option<Flight>,
    /// Add the time of its end to the file's name.
    #[arg(long)]
    timestamp_filename: bool,
    /// Not the children of what is recorded.
    #[arg(short = 'i', long)]
    no_inherit: bool,
    /// How children and new threads are followed: `cpus` samples whole CPUs
    /// and keeps only what the recorded processes do, so that tasks shorter
    /// than a sampling period get their share and probes reach children;
    /// `tasks` has the kernel pass events on, as perf does. `auto` goes on with
    /// `cpus` when many samples are missing, where this user may and there are
    /// at most 32; not for probes.
    #[arg(long, value_name = "auto|cpus|tasks", default_value = "auto", value_parser = values::follow, hide_default_value = true, conflicts_with_all = ["per_thread", "no_inherit", "tid", "all_cpus", "cpu"])]
    follow: Follow,
    /// One ring per thread instead of one per CPU; no children.
    #[arg(long)]
    per_thread: bool,
    /// Data addresses and data mappings.
    #[arg(short, long)]
    data: bool,
    /// Data mappings, of which -d tells too.
    #[arg(long)]
    data_mmap: bool,
    /// Data sources (mem of a sample), of which -d tells too.
    #[arg(long)]
    sample_mem_info: bool,
    /// Physical data addresses.
    #[arg(long)]
    phys_data: bool,
    /// Page size of data addresses.
    #[arg(long)]
    data_page_size: bool,
    /// Page size of code addresses.
    #[arg(long)]
    code_page_size: bool,
    /// Weights of samples, where the event has them.
    #[arg(short = 'W', long)]
    weight: bool,
    /// Raw payloads of all events (tracepoints have theirs anyway).
    #[arg(short = 'R', long)]
    raw_samples: bool,
    /// Counts of each thread when it ends.
    #[arg(short, long)]
    stat: bool,
    /// Context switches.
    #[arg(long)]
    switch_events: bool,
    /// Context switches, for perf report --latency.
    #[arg(long, conflicts_with = "all_cpus")]
    latency: bool,
    /// How long events were there and counted, beside their counts (:S).
    #[arg(long)]
    running_time: bool,
    /// Nothing of BPF programs.
    #[arg(long)]
    no_bpf_event: bool,
    /// With -g: do not delay threads to read stacks deeper than a sample
    /// copies; of deep recursion fewer chains are then whole
    #[arg(long)]
    no_deep_stacks: bool,
    /// Most frames of a user stack with -g; of a longer one the middle is left
    /// out, and a frame says how many. By default, and at most, as many as a
    /// record holds (7801).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(4..=7801))]
    max_stack: Option<u16>,
    /// Namespaces of tasks.
    #[arg(long)]
    namespaces: bool,
    /// What is told of tasks that run before the recording: task (their names),
    /// mmap (their mappings too), cgroup, all or no [default: all]. Their functions
    /// have no names without mappings.
    #[arg(long, value_name = "no|all|task,…", value_parser = values::told)]
    synth: Option<Told>,
    /// Cgroups of samples.
    #[arg(long)]
    all_cgroups: bool,
    /// Branches before each sample, all kinds; of CPUs that record them.
    #[arg(short = 'b', long)]
    branch_any: bool,
    /// Only these branches: any, any_call, any_ret, ind_call, ind_jmp, call,
    /// cond, stack, abort_tx, in_tx, no_tx; of these modes: u, k, hv; with
    /// save_type, priv, counter, hw_index; without: no_flags, no_cycles.
    #[arg(short = 'j', long, value_name = "FILTER,…", value_parser = values::branches, conflicts_with = "branch_any")]
    branch_filter: Option<BranchSampleType>,
    /// Why transactions were given up.
    #[arg(long)]
    transaction: bool,
    /// Waits, too: when threads do not run, for how long and why.
    ///
    /// At which stack, and whether they were blocked or waited for a CPU; or, with only, nothing
    /// else. An event of its own, offcpu-time, in ns.
    #[arg(long, visible_alias = "wall", value_name = "only", num_args = 0..=1, require_equals = true, default_missing_value = "too", value_parser = values::off_cpu)]
    off_cpu: Option<WaitOptions>,
    /// Waits (--off-cpu), but not those shorter than this: 1ms, 50us.
    #[arg(long, value_name = "TIME", value_parser = values::length)]
    off_cpu_min: Option<Duration>,
    /// About how many stacks a second are taken of short waits (of root), by default 2000:
    /// beyond, which ones is a matter of chance, and they stand for the others. all: those
    /// of all waits.
    #[arg(long, value_name = "N", value_parser = values::stacks_of_waits)]
    off_cpu_stacks: Option<values::StacksOfWaits>,
    /// Waits (--off-cpu), and who ended each of them (for root).
    ///
    /// And at which stack (sched:sched_waking): what report --wakers and --critical-path are
    /// made of.
    #[arg(long)]
    wakers: bool,
    /// Registers at the interrupt: names, or all.
    #[arg(short = 'I', long, value_name = "REGS", num_args = 0..=1, require_equals = true, default_missing_value = "all", value_parser = values::registers)]
    intr_regs: Option<u64>,
    /// User registers: names, or all.
    #[arg(long, value_name = "REGS", num_args = 0..=1, require_equals = true, default_missing_value = "all", value_parser = values::registers)]
    user_regs: Option<u64>,
    /// Clock of times: monotonic, monotonic_raw, boottime, realtime, tai, or
    /// its number.
    #[arg(short = 'k', long, value_name = "CLOCK", value_parser = values::clock)]
    clockid: Option<Clock>,
    /// Real-time priority of the recorder, 1 to 99 (SCHED_FIFO): for machines
    /// so busy that samples get lost otherwise; it then takes CPU time from
    /// what is recorded.
    #[arg(short, long, value_name = "PRIO", value_parser = clap::value_parser!(u8).range(1..=99))]
    realtime: Option<u8>,
    /// Where the thread that empties the rings runs: on the CPU (cpu) or the
    /// NUMA node (node) of the ring that it empties, or anywhere (sys): then the thread
    /// that writes what comes out of them runs beside it, as long as it keeps up.
    #[arg(long, value_name = "node|cpu|sys", default_value = "sys", value_parser = values::affinity, hide_default_value = true)]
    affinity: Affinity,
    /// Look at the options only.
    #[arg(long)]
    dry_run: bool,
    /// Fail if the frequency is above the kernel's limit.
    #[arg(long)]
    strict_freq: bool,
    /// Event ids in every sample.
    #[arg(long)]
    sample_identifier: bool,
    /// No build-ids.
    ///
    /// For a perf record of 6.1 beside or around this one, which may abort by those of ours.
    #[arg(short = 'B', long)]
    no_buildid: bool,
    /// No names in the file: those of what was sampled are looked up when the
    /// program has ended, within a second, so that reports need no other file.
    #[arg(long)]
    no_embed: bool,
    /// With the names also the texts of the source files of the hottest
    /// functions: source.
    #[arg(long, value_name = "WHAT", require_equals = true, value_parser = crate::archive::texts, conflicts_with = "no_embed")]
    embed: Option<Texts>,
    /// When the program has ended, take folders of files, the recorder's
    /// arguments and the host's name out of the file. It is refused of what
    /// nobody can look through: pieces of stacks, fields of tracepoints.
    #[arg(long, conflicts_with_all = ["embed", "switch_output", "overwrite", "timestamp_filename", "push"])]
    redact: bool,
    /// How long names may be looked up, ms.
    #[arg(long, hide = true, value_name = "MS")]
    embed_time: Option<u64>,
    /// Only errors on stderr.
    #[arg(short, long)]
    quiet: bool,
    /// Say how each event was opened.
    #[arg(short, long)]
    verbose: bool,
    /// Times of samples, which they always have.
    #[arg(short = 'T', long, hide = true)]
    timestamp: bool,
    /// The period in each sample, also where it is fixed (-c).
    #[arg(short = 'P', long)]
    period: bool,
    /// CPUs of samples, which they always have.
    #[arg(long, hide = true)]
    sample_cpu: bool,
    /// Build-ids in mappings, where they are anyway.
    #[arg(long, hide = true)]
    buildid_mmap: bool,
    /// Build-ids of all files, which are there anyway.
    #[arg(long, hide = true)]
    buildid_all: bool,
    /// No copies of files in ~/.debug, as are made of those of containers.
    #[arg(short = 'N', long, hide = true)]
    no_buildid_cache: bool,
    /// Times of the first and last sample, which are always there.
    #[arg(long, hide = true)]
    timestamp_boundary: bool,
    #[command(flatten)]
    taken: Taken,
    #[command(flatten)]
    _refused: Refused<OfRecord>,
    /// What to run and record, with its arguments.
    ///
    /// With -a, -C, -p or -t its end ends the recording; with -p and -t it is not recorded itself.
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// What `-h` shows below the options, and `--help` before the rest.
macro_rules! examples {
    () => {
        "\
Examples:
  prof record -F 999 -g ./app args    a program, with call stacks
  prof record -g -p 1234              a running process, until Ctrl-C
  prof record -g -p 1234 sleep 10     a running process, for ten seconds
  prof record -a -g sleep 10          the whole machine for ten seconds
  prof record --off-cpu ./app         what it computes, and what it waits for
  prof record -e page-faults -d ./app where memory is touched first"
    };
}

const EXAMPLES: &str = examples!();

const ABOUT: &str = concat!(
    examples!(),
    "

Exit code: the command's own (128 + signal if a signal ended it); 127 command
not found, 126 not executable, 2 bad options, 1 any other failure, 130 Ctrl-C
where no command was launched.

The first Ctrl-C, or other signal that ends, finishes the file and waits for
the command; the second sends the command SIGTERM, the third SIGKILL."
);

/// Time that is sent at a time, where nobody says.
const EVERY: Duration = Duration::from_secs(10);

/// Records, and sends what is recorded if that is asked for.
pub(crate) fn run(args: Args) -> anyhow::Result<Outcome> {
    let mut args = args;
    let Some(url) = args.push.take() else {
        // A command line with -o conflicts with --push, and clap asks for none then.
        if args.every.is_some() || args.delivery.is_given() {
            let what = "--every, --service, --label, --header and --spool are about what is sent\n  \
                        try: with --push URL";
            return Err(UsageError(what.to_owned()).into());
        }
        return recorded(args, Kept::Files);
    };
    let pusher = Pusher::start(&url, &args.delivery, args.quiet)?;
    args.output = pusher.output();
    args.switch_output = Some(Switching {
        every: Some(args.every.unwrap_or(EVERY)),
        // They go when they are sent.
        is_silent: true,
        ..Switching::default()
    });
    let outcome = recorded(args, Kept::Sent);
    pusher.finish();
    outcome
}

/// What becomes of the files of a recording.
#[derive(Clone, Copy)]
enum Kept {
    /// They stay.
    Files,
    /// They are sent, and go.
    Sent,
}

/// Records, says what there is, and passes on how the command ended.
fn recorded(args: Args, kept: Kept) -> anyhow::Result<Outcome> {
    let args = &args;
    if args.redact && args.output == Path::new("-") {
        let what = "a stream cannot be redacted\n  try: -o FILE";
        return Err(UsageError(what.to_owned()).into());
    }
    let options = options(args)?;
    if args.dry_run {
        return Ok(Outcome::Done);
    }
    let quiet = args.quiet;
    let mut notices = |notice: &str| {
        if !quiet {
            say(notice);
        }
    };
    given(args).left_out().for_each(&mut notices);
    args.taken.notices().for_each(|notice| notices(&notice));
    if args.switch_max_files.is_some() && options.switching.is_none() {
        notices("--switch-max-files changes nothing without --switch-output");
    }
    if let Some(notice) = runs_as_root(&options) {
        notices(&notice);
    }
    let own_kallsyms = kernel_symbols(&options);
    match prof_record::record(&options, &mut notices) {
        Ok(mut finished) => {
            let has_names = finished.failure.is_none() && finished.why_empty.is_none();
            let names = (has_names && embeds(args)).then(|| Wish {
                texts: args.embed.unwrap_or_default(),
                own_kallsyms,
                at_hand: at_hand(&finished.summary.kept),
                ..Wish::default()
            });
            if names.is_none() {
                finished.summary.kept.close();
            }
            let changes_file = names.is_some() || args.redact;
            let named = name(args, names, &mut notices);
            if changes_file && let Ok(about) = args.output.metadata() {
                finished.summary.bytes = about.len();
            }
            let outcome = end(finished, kept, quiet);
            named.map(|()| outcome)
        }
        Err(error @ RecordError::Command { .. }) => {
            let meant = args.command.first().and_then(|word| meant_by(word));
            say(&format!("{error}{}", meant.unwrap_or_default()));
            Ok(Outcome::Code(error.exit_code()))
        }
        Err(error @ RecordError::Interrupted { .. }) => {
            say(&error.to_string());
            Ok(Outcome::Code(error.exit_code()))
        }
        Err(RecordError::Event(error)) => Err(UsageError(error.to_string()).into()),
        Err(error) => Err(error.into()),
    }
}

/// The kernel's symbols, opened while they may be seen: with `--user` root's
/// rights are gone when names are looked up.
fn kernel_symbols(options: &Options) -> Option<Arc<File>> {
    options.user.as_ref()?;
    File::open("/proc/kallsyms").ok().map(Arc::new)
}

/// What else a word may have been meant for that is no program.
fn meant_by(word: &OsStr) -> Option<String> {
    let word = word.to_str()?;
    let is_variable = |(name, _): &(&str, &str)| {
        !name.is_empty()
            && name
                .bytes()
                .all(|it| it == b'_' || it.is_ascii_alphanumeric())
    };
    match word {
        "auto" | "fp" | "lbr" | "dwarf" => Some(format!("\n  try: --call-graph {word} ./app")),
        _ if word.split_once('=').is_some_and(|both| is_variable(&both)) => {
            Some(format!("\n  try: env {word} ./app"))
        }
        _ => None,
    }
}

/// Files from which names can be taken only now.
fn at_hand(kept: &KeptFiles) -> Vec<FileAtHand> {
    let files = kept.open.iter();
    let files = files.map(|it| FileAtHand {
        path: it.path.clone(),
        inode: it.inode,
        file: Arc::clone(&it.file),
    });
    files.collect()
}

/// Whether names go into the file: there is one, and only one.
fn embeds(args: &Args) -> bool {
    let is_switched = args.switch_output.is_some() || !args.switch_output_event.is_empty();
    let has_parts = is_switched || args.overwrite.is_some();
    let is_one_file = !has_parts && !args.timestamp_filename;
    // Tests of other things shall not depend on how fast names are found.
    let is_off = std::env::var_os("PROF_EMBED_MS").is_some_and(|value| value == "0");
    let is_wanted = !args.no_embed && (args.embed_time.is_some() || !is_off);
    is_wanted && is_one_file && args.output.is_file()
}

/// Puts the names of what was sampled into the file, which is finished and
/// stays valid whatever happens, and takes out what is private, if that is
/// asked for.
///
/// # Errors
/// If it was to be redacted and is not.
fn name(args: &Args, wish: Option<Wish>, notices: &mut dyn FnMut(&str)) -> anyhow::Result<()> {
    let limit = match args.embed_time {
        Some(milliseconds) => Duration::from_millis(milliseconds),
        None => embed::WAIT,
    };
    let has_room = address_space_left().is_none_or(|left| left >= embed::ADDRESS_SPACE);
    if wish.is_some() && !has_room {
        notices(
            "no names are in the file: the address space is limited (ulimit -v)\n  \
             prof archive adds them",
        );
    }
    let wish = wish.filter(|_| has_room).map(|wish| Wish {
        limit: Some(limit),
        ..wish
    });
    let embedded = match (args.redact, wish) {
        (true, wish) => {
            let redacted = crate::archive::redact_in_place(&args.output, wish);
            Ok(redacted.with_context(|| {
                let name = args.output.display();
                format!("{name} is NOT redacted, and holds what is private")
            })?)
        }
        (false, Some(wish)) => {
            let input = Input::of_file(args.output.clone());
            embed::embed(&input, &args.output, wish)
        }
        (false, None) => return Ok(()),
    };
    match embedded {
        Ok(Embedded::All | Embedded::Parts(_)) => {}
        Ok(Embedded::InTime(reached)) => notices(&format!(
            "not all names and lines are in the file: after {:.1} s {}\n  prof archive adds the rest",
            limit.as_secs_f64(),
            reached.words()
        )),
        Ok(Embedded::Nothing) => notices(
            "no names are in the file: they take more than a tenth of it\n  \
             prof archive adds them",
        ),
        Err(error) => notices(&format!(
            "no names are in the file: {error:#}\n  prof archive adds them"
        )),
    }
    Ok(())
}

/// Under sudo, what was started for a user runs as root: few want that.
fn runs_as_root(options: &Options) -> Option<String> {
    let is_launched = matches!(options.target, Target::Command(_));
    if !is_launched || options.user.is_some() || prof_sys::process::effective_user() != 0 {
        return None;
    }
    let name = std::env::var("SUDO_USER")
        .ok()
        .filter(|name| name != "root")?;
    Some(format!(
        "the program runs as root; --user sudo runs it as {name}, who then owns the file"
    ))
}

/// Tells what was recorded; the exit code.
fn end(finished: Finished, kept: Kept, quiet: bool) -> Outcome {
    let trapped = finished.trapped_line();
    if !quiet {
        say(&match kept {
            Kept::Files => finished.summary.line(),
            Kept::Sent => finished.summary.line_of_sent(),
        });
        let waits = finished.summary.waits.map(|waits| waits.line());
        let side_band = finished.summary.side_band_line();
        let more = [waits, side_band, finished.why_empty, finished.left_behind];
        more.iter().flatten().for_each(|line| say(line));
    }
    let ended = finished
        .command
        .filter(|_| !quiet && trapped.is_none() && finished.ended_by == EndedBy::Command);
    if let Some(how) = ended.and_then(Ended::by_signal) {
        say(&format!("the command was ended by {how}"));
    }
    // Said with -q too: the program was harmed.
    if let Some(line) = trapped {
        say(line);
    }
    if let Some(error) = finished.unknown_end {
        say(&format!("how the command ended is not known: {error}"));
    }
    if let Some(error) = finished.failure {
        // Said with -q too: it is an error.
        let error = anyhow::Error::from(error);
        let why = chain_of_causes(&error);
        say(&format!("the recording ended early: {why}"));
        return Outcome::Code(1);
    }
    match (finished.command, finished.ended_by) {
        (Some(_), EndedBy::Duration | EndedBy::Tasks) => Outcome::Done,
        (Some(Ended::Exited(code)), _) => Outcome::Code(u8::try_from(code).unwrap_or(1)),
        (Some(Ended::Signaled(signal)), _) => Outcome::Signal(signal),
        (None, EndedBy::Signal(signal)) => Outcome::Code(u8::try_from(128 + signal).unwrap_or(1)),
        (None, _) => Outcome::Done,
    }
}

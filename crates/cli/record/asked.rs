//! What the arguments ask the recorder for.

use super::{Args, values};
use crate::outcome::UsageError;
use crate::whose::{Given, Whose};
use anyhow::Context;
use prof_abi::BranchSampleType;
use prof_perfdata::write::Packing;
use prof_record::events::{self, EventSpec, Programs};
use prof_record::options::{
    ChainFilter, Extras, Flight, ModeFilter, Options, Sampling, Stacks, Target, Told, Traces,
};
use prof_record::output::Destination;
use prof_record::{WAKING, WaitOptions};
use prof_sys::Identity;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

pub(crate) fn options(args: &Args) -> anyhow::Result<Options> {
    let destination = match args.output.as_os_str() {
        name if name == "-" => Destination::Stdout,
        _ => Destination::File(args.output.clone()),
    };
    let (target, beside) = target(args)?;
    let mut options = Options::new(target, destination);
    options.beside = beside;
    let command = args.command.first().map(OsString::as_os_str);
    let programs = Programs::new(command, &args.pid);
    options.events = events_of(args, &programs)?;
    for text in &args.switch_output_event {
        let specs = events::parse_for(text, 0, &programs);
        let specs = specs.map_err(|error| UsageError(error.to_string()));
        options
            .switch_events
            .extend(specs.context("--switch-output-event")?);
    }
    options.sampling = args.count.or(args.freq).unwrap_or(Sampling::DEFAULT);
    options.strict_frequency = args.strict_freq;
    options.no_samples = args.no_samples;
    set_waits(args, &mut options)?;
    options.stacks = match (args.call_graph, args.stacks || options.waits.is_some()) {
        (Some(values::AUTO), _) | (None, true) => Stacks::auto(options.sampling),
        (Some(stacks), _) => stacks,
        (None, false) => Stacks::None,
    };
    set_filters(args, &mut options);
    options.told = told(args, &options)?;
    options.cgroup = args.cgroups.list();
    if options.cgroup.is_some() && options.target != Target::System {
        return Err(
            UsageError("-G records a cgroup on all CPUs\n  try: with -a".to_owned()).into(),
        );
    }
    options.verbose = args.verbose;
    options.realtime = args.realtime;
    options.affinity = args.affinity;
    options.cpus = args.cpu.clone().map_or_else(Vec::new, |list| list.0);
    options.per_thread = args.per_thread && options.target != Target::System;
    options.inherit = !args.no_inherit;
    options.follow = args.follow;
    options.ring_bytes = args.mmap_pages.unwrap_or_default().ring;
    options.traces = traces(args);
    options.start = args.delay.clone().unwrap_or_default();
    options.commands.clone_from(&args.control);
    check_runner(&args.user)?;
    options.user.clone_from(&args.user);
    options.may_have_ended = args.uid.is_some();
    set_output(args, &mut options);
    options.clock = args.clockid;
    options.extras = extras(args);
    options.build_ids = !args.no_buildid;
    options.keeps_files = !args.no_buildid_cache;
    options.command_line = std::env::args_os()
        .map(|argument| argument.as_bytes().to_vec())
        .collect();
    options.version = env!("CARGO_PKG_VERSION").to_owned();
    Ok(options)
}

fn traces(args: &Args) -> Traces {
    Traces {
        area_bytes: args.mmap_pages.unwrap_or_default().area,
        snapshots: args.snapshot,
        samples: args.aux_sample,
    }
}

/// What is told of the time before: stacks that are unwound while recording
/// need mappings.
fn told(args: &Args, options: &Options) -> Result<Told, UsageError> {
    let told = args.synth.unwrap_or_default();
    let ran_before = !matches!(options.target, Target::Command(_));
    match options.stacks {
        Stacks::Unwound(_) if ran_before && !told.mappings => Err(UsageError(
            "--synth leaves out the mappings that -g unwinds stacks with\n  \
             try: --call-graph fp"
                .to_owned(),
        )),
        _ => Ok(told),
    }
}

/// Which part of what is sampled is wanted.
fn set_filters(args: &Args, options: &mut Options) {
    options.chains = match (args.user_callchains, args.kernel_callchains) {
        (true, _) => ChainFilter::User,
        (_, true) => ChainFilter::Kernel,
        _ => ChainFilter::Both,
    };
    options.modes = match (args.all_user, args.all_kernel) {
        (true, _) => ModeFilter::User,
        (_, true) => ModeFilter::Kernel,
        _ => ModeFilter::AsEvents,
    };
    let any_branch = args.branch_any.then_some(BranchSampleType::ANY);
    options.branches = args.branch_filter.or(any_branch);
}

/// When the recording ends, and what its files are like.
fn set_output(args: &Args, options: &mut Options) {
    options.duration = args.duration;
    options.max_size = args.max_size;
    options.switching = args.switch_output;
    options.flight = args.overwrite.map(|keep| kept_in_flight(options, keep));
    if !options.switch_events.is_empty() && options.flight.is_none() {
        // As perf: a signal does the same.
        options.switching.get_or_insert_default().on_signal = true;
    }
    if let Some(switching) = &mut options.switching {
        switching.most_files = args.switch_max_files.map(|most| most as usize);
    }
    options.packing = match (args.compression_level, args.no_compression_level) {
        (None, false) => Packing::DeepChains,
        (None | Some(0), _) => Packing::Never,
        (Some(level), _) => Packing::All(level),
    };
    options.timestamp_name = args.timestamp_filename;
}

/// What a flight recorder keeps: of records that are needed as they come, a size.
fn kept_in_flight(options: &Options, keep: Flight) -> Flight {
    let copies_stacks = matches!(options.stacks, Stacks::Unwound(_) | Stacks::Dump(_));
    let needs_records = copies_stacks
        || options.waits.is_some()
        || options.switching.is_some_and(|when| when.at_size.is_some());
    match keep {
        Flight::Rings if needs_records => Flight::Bytes(64 << 20),
        keep => keep,
    }
}

fn extras(args: &Args) -> Extras {
    Extras {
        data: args.data,
        data_mappings: args.data_mmap,
        data_sources: args.sample_mem_info,
        physical_addresses: args.phys_data,
        data_page_size: args.data_page_size,
        code_page_size: args.code_page_size,
        period: args.period,
        weight: args.weight,
        raw: args.raw_samples,
        thread_counts: args.stat,
        switches: args.switch_events || args.latency,
        running_times: args.running_time,
        no_bpf: args.no_bpf_event,
        deep_stacks: !args.no_deep_stacks,
        most_frames: args.max_stack,
        namespaces: args.namespaces,
        cgroups: args.all_cgroups,
        transactions: args.transaction,
        interrupt_registers: args.intr_regs.unwrap_or(0),
        user_registers: args.user_regs.unwrap_or(0),
        identifier: args.sample_identifier,
    }
}

/// Waits, and what else is then recorded: CPU time, in the same unit.
fn set_waits(args: &Args, options: &mut Options) -> anyhow::Result<()> {
    let asks_for_some = args.wakers || args.off_cpu_min.is_some() || args.off_cpu_stacks.is_some();
    let waits = args
        .off_cpu
        .or_else(|| asks_for_some.then(WaitOptions::default));
    let Some(waits) = waits else {
        return Ok(());
    };
    let is_alone = waits.only && !options.events.is_empty();
    if is_alone || args.per_thread {
        let why = match is_alone {
            true => "--off-cpu=only records nothing but waits, so no -e",
            false => "--off-cpu needs the records of all threads, so no --per-thread",
        };
        return Err(UsageError(format!("{why}\n  try: prof record --off-cpu ./app")).into());
    }
    options.waits = Some(WaitOptions {
        at_least: args.off_cpu_min.unwrap_or_default(),
        stacks: args.off_cpu_stacks.map_or(waits.stacks, |stacks| stacks.0),
        ..waits
    });
    if options.events.is_empty() && !waits.only {
        options.events =
            events::parse("cpu-clock", 0).map_err(|error| UsageError(error.to_string()))?;
    }
    if args.wakers {
        let parsed = events::parse(WAKING, 0);
        let told = |error| {
            UsageError(format!(
                "--wakers needs the tracepoint of waking, which is for root: {error}"
            ))
        };
        options.events.extend(parsed.map_err(told)?);
    }
    Ok(())
}

/// The options that say whose events are recorded. Unlike perf's, `-C` beside
/// `-p` and `-t` holds: only what the tasks do on these CPUs.
pub(super) fn given(args: &Args) -> Given {
    let processes = !args.pid.is_empty();
    let threads = !args.tid.is_empty();
    Given {
        processes,
        threads,
        system: args.all_cpus,
        cpus: args.cpu.is_some() && (!(processes || threads) || args.per_thread),
        per_thread: args.per_thread,
    }
}

/// What is recorded, and what is run beside it.
fn target(args: &Args) -> anyhow::Result<(Target, Option<Vec<OsString>>)> {
    let command = (!args.command.is_empty()).then(|| args.command.clone());
    // What clap does not know as an option it takes for the command.
    if let Some(option) = args.command.first()
        && option.as_bytes().starts_with(b"-")
    {
        let option = option.to_string_lossy();
        return Err(UsageError(format!(
            "prof record has no option {option}\n  try: prof record --help"
        ))
        .into());
    }
    if let Some(user) = &args.uid {
        return Ok((Target::Processes(processes_of(user)?), command));
    }
    Ok(match (given(args).whose(), command) {
        (Whose::Processes, command) => (Target::Processes(args.pid.clone()), command),
        (Whose::Threads, command) => (Target::Threads(args.tid.clone()), command),
        (Whose::System, command) => (Target::System, command),
        (Whose::Command, Some(command)) => (Target::Command(command), None),
        (Whose::Command, None) => {
            let nothing = "what shall be recorded? give a command, -p PID, -t TID or -a";
            return Err(UsageError(format!("{nothing}\n  try: prof record -g ./app")).into());
        }
    })
}

/// The processes of a user, ours left out.
fn processes_of(user: &Identity) -> anyhow::Result<Vec<u32>> {
    let own = std::process::id();
    let is_theirs = |&pid: &u32| {
        let about = std::fs::metadata(format!("/proc/{pid}"));
        pid != own && about.is_ok_and(|about| about.uid() == user.uid)
    };
    let mut processes = prof_record::synthesize::processes();
    processes.retain(is_theirs);
    match processes.is_empty() {
        true => anyhow::bail!("user {} has no processes", user.name.display()),
        false => Ok(processes),
    }
}

/// Another user's processes are for root to start.
fn check_runner(runner: &Option<Identity>) -> Result<(), UsageError> {
    let own = prof_sys::process::effective_user();
    match runner {
        Some(user) if own != 0 && user.uid != own => Err(UsageError(format!(
            "--user {0} takes root, to run the command as {0}\n  try: with sudo",
            user.name.display()
        ))),
        Some(user) if !prof_sys::namespaces::has_user(user.uid) => Err(UsageError(format!(
            "--user {}: there is no such user in this container or user namespace\n  \
             try: outside of it, or --user root",
            user.name.display()
        ))),
        _ => Ok(()),
    }
}

fn events_of(args: &Args, programs: &Programs) -> anyhow::Result<Vec<EventSpec>> {
    let mut specs: Vec<EventSpec> = Vec::new();
    args.filters.check()?;
    args.excluded.check()?;
    let mut named = vec![0];
    for (number, text) in args.event.iter().enumerate() {
        let next_group = specs
            .iter()
            .filter_map(|spec| spec.group)
            .max()
            .map_or(0, |group| group + 1);
        let more = events::parse_for(text, next_group, programs)
            .map_err(|error| UsageError(error.to_string()));
        let mut more = more.context("-e")?;
        args.filters.apply(number + 1, &mut more)?;
        args.excluded.apply(number + 1, &mut more)?;
        specs.extend(more);
        named.push(specs.len());
    }
    if !specs.is_empty() {
        args.cgroups.assign(&named, &mut specs)?;
    }
    if args.group {
        for spec in &mut specs {
            (spec.group, spec.group_name) = (Some(0), None);
        }
    }
    Ok(specs)
}

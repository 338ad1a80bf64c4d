//! What `prof stat` counts, from its options.

use super::Args;
use crate::outcome::{UsageError, say};
use crate::whose::{Given, Whose};
use prof_abi::AttrFlags;
use prof_record::cgroup;
use prof_record::events::{self, EventSpec, Programs};
use prof_stat::{
    Counted, Delay, Form, Grouping, Metrics, MetricsError, Mode, Options, Selection, Showing,
    default_events,
};
use regex::Regex;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// All that the options say. `store` is the file to write and our own command
/// line.
pub(super) fn options(
    args: &Args,
    store: Option<(PathBuf, Vec<Vec<u8>>)>,
) -> anyhow::Result<Options> {
    let selection = selection(args)?;
    something_to_count(args, &selection)?;
    let mode = mode(args)?;
    let wants_cpus =
        mode.is_of_cpus() || !args.cgroups.is_empty() || args.for_each_cgroup.is_some();
    if wants_cpus && !selection.is_cpus() {
        let missing = "CPUs and cgroups are told apart where CPUs are counted\n  \
            try: with -a, or -C LIST";
        return Err(UsageError(missing.to_owned()).into());
    }
    let mut events = asked_events(args, &selection)?;
    let mut metrics = metrics(args, &mut events, selection.is_cpus())?;
    metrics.repeat_each(events.len());
    cgroups(args, &mut events)?;
    modes_of_all(args, &mut events);
    let milliseconds = |ms: Option<u64>| ms.map(Duration::from_millis);
    Ok(Options {
        events,
        selection,
        command: args.command.clone(),
        inherit: !args.no_inherit,
        interval: milliseconds(args.interval_print.filter(|&ms| ms > 0)),
        interval_count: args.interval_count,
        timeout: milliseconds(args.timeout),
        delay: delay(args),
        control: args.control.clone(),
        repeat: args.repeat,
        around: [args.pre.clone(), args.post.clone()],
        sync: args.sync,
        store,
        showing: Showing {
            form: form(args),
            mode,
            raw: args.no_scale,
            summary: args.summary,
            marks_summary: !args.no_csv_summary,
            table: args.table,
            clears: args.interval_clear,
            metric_only: args.metric_only,
            metrics,
            verbose: args.verbose > 0,
        },
    })
}

fn form(args: &Args) -> Form {
    match (&args.field_separator, args.json) {
        // As perf: of both it is JSON.
        (_, true) => Form::Json,
        (Some(separator), false) => Form::Separated(separator_of(separator)),
        (None, false) => Form::Text {
            grouped: args.big_num && !args.no_big_num,
        },
    }
}

/// Shells make no tab of `\t`.
pub(super) fn separator_of(text: &str) -> String {
    match text {
        r"\t" => "\t".to_owned(),
        _ => text.to_owned(),
    }
}

fn delay(args: &Args) -> Delay {
    match args.delay {
        None | Some(0) => Delay::None,
        Some(ms) if ms > 0 => Delay::For(Duration::from_millis(ms.unsigned_abs())),
        Some(_) => Delay::UntilTold,
    }
}

fn selection(args: &Args) -> Result<Selection, UsageError> {
    let (pid, tid, cpu) = (
        args.pid.as_deref(),
        args.tid.as_deref(),
        args.cpu.as_deref(),
    );
    let given = Given {
        processes: pid.is_some(),
        threads: tid.is_some(),
        system: args.all_cpus,
        cpus: cpu.is_some(),
        per_thread: false,
    };
    given.left_out().for_each(say);
    let selected = match (given.whose(), pid, tid, cpu) {
        (Whose::Processes, Some(list), ..) => Selection::processes(list),
        (Whose::Threads, _, Some(list), _) => Selection::threads(list),
        (Whose::System, _, _, Some(list)) => Selection::cpus(list),
        (Whose::System, ..) if args.per_thread => Ok(Selection::AllThreads),
        (Whose::System, ..) => Ok(Selection::System),
        _ if args.per_thread && args.command.is_empty() => Ok(Selection::AllThreads),
        _ if args.per_thread => {
            let missing = "--per-thread counts threads that run\n  try: with -p, -t or -a";
            return Err(UsageError(missing.to_owned()));
        }
        _ => Ok(Selection::Command),
    };
    selected.map_err(|error| UsageError(error.to_string()))
}

fn something_to_count(args: &Args, selection: &Selection) -> Result<(), UsageError> {
    if args.command.is_empty() {
        if *selection == Selection::Command {
            let help = "nothing to count\n  try: prof stat ./app, prof stat -p PID or prof stat -a";
            return Err(UsageError(help.to_owned()));
        }
        if args.repeat != 1 {
            return Err(UsageError("-r needs a command to run".to_owned()));
        }
    }
    if args.metric_only && args.repeat != 1 {
        return Err(UsageError(
            "--metric-only shows one run\n  try: without -r".to_owned(),
        ));
    }
    if args.table && args.repeat < 2 {
        return Err(UsageError(
            "--table shows several runs\n  try: with -r 5".to_owned(),
        ));
    }
    Ok(())
}

fn mode(args: &Args) -> Result<Mode, UsageError> {
    let threads = args.per_thread.then_some(Mode::Thread);
    let mut modes = args.together.modes().chain(threads);
    let mode = modes.next().unwrap_or(Mode::Global);
    // perf takes the last of them; -A with another is the other.
    match (mode, modes.next()) {
        (_, None) => Ok(mode),
        (Mode::Cpu, Some(mode)) if modes.next().is_none() => Ok(mode),
        _ => Err(UsageError(
            "counts are put together in one way at a time\n  try: one --per-…".to_owned(),
        )),
    }
}

fn asked_events(args: &Args, selection: &Selection) -> Result<Vec<EventSpec>, UsageError> {
    args.filters.check()?;
    if args.null && args.event.is_empty() {
        return Ok(Vec::new());
    }
    if args.event.is_empty() && args.metrics.is_none() {
        return Ok(default_events(selection.is_cpus(), args.detailed));
    }
    let command = args.command.first().map(OsString::as_os_str);
    let programs = Programs::new(command, selection.processes_counted());
    let mut specs: Vec<EventSpec> = Vec::new();
    let mut named = vec![0];
    for (number, text) in args.event.iter().enumerate() {
        let groups = specs.len() as u32;
        let parsed = events::parse_for(text, groups, &programs);
        let mut parsed = parsed.map_err(|error| UsageError(error.to_string()))?;
        args.filters.apply(number + 1, &mut parsed)?;
        specs.extend(parsed);
        named.push(specs.len());
    }
    if !specs.is_empty() {
        args.cgroups.assign(&named, &mut specs)?;
    }
    let for_samples = |spec: &EventSpec| Some((spec.name.clone(), spec.sampling_term?));
    if let Some((event, term)) = specs.iter().find_map(for_samples) {
        let why = format!("event {event}: {term} is about samples, and prof stat takes none");
        return Err(UsageError(format!("{why}\n  try: prof record")));
    }
    if args.group {
        for spec in &mut specs {
            spec.group = Some(0);
        }
    }
    Ok(specs)
}

/// The metrics; their events come behind the others.
fn metrics(args: &Args, events: &mut Vec<EventSpec>, cpus: bool) -> anyhow::Result<Metrics> {
    let Some(asked) = &args.metrics else {
        return Ok(Metrics::default());
    };
    let directory = args.metrics_dir.as_deref();
    let directory = directory
        .ok_or_else(|| UsageError(MetricsError::NoDirectory(asked.clone()).to_string()))?;
    let counted = Counted {
        first: events.len(),
        grouping: Grouping {
            groups: !args.metric_no_group,
            merges: !args.metric_no_merge,
        },
        cpus,
    };
    let metrics = Metrics::read(directory, asked, &counted)?;
    let groups = events.len() as u32;
    for needed in metrics.events() {
        let parsed = events::parse(&needed.event, groups);
        let mut parsed = parsed.map_err(|error| UsageError(error.to_string()))?;
        if parsed.len() != 1 {
            return Err(UsageError(format!("{} is not one event", needed.event)).into());
        }
        for spec in &mut parsed {
            spec.group = needed.group.map(|group| groups + group);
            spec.weak = true;
        }
        events.append(&mut parsed);
    }
    Ok(metrics)
}

/// The cgroup of each event. For each of several all events are repeated.
fn cgroups(args: &Args, events: &mut Vec<EventSpec>) -> Result<(), UsageError> {
    if args.event.is_empty() && !events.is_empty() {
        let all = [events.len()];
        args.cgroups.assign(&all, events)?;
    }
    if let Some(list) = &args.for_each_cgroup {
        let asked = std::mem::take(events);
        let groups = 1 + asked
            .iter()
            .filter_map(|spec| spec.group)
            .max()
            .unwrap_or(0);
        for (round, name) in cgroups_named(list)?.into_iter().enumerate() {
            for spec in &asked {
                let mut spec = spec.clone();
                spec.group = spec.group.map(|group| group + round as u32 * groups);
                spec.cgroup = Some(name.clone());
                events.push(spec);
            }
        }
    }
    Ok(())
}

/// The names of a list, or those that match its patterns where it has any, as perf
/// tells the two apart.
fn cgroups_named(list: &str) -> Result<Vec<String>, UsageError> {
    let parts = list.split(',').filter(|part| !part.is_empty());
    if !list.contains(|letter| "{}[]()|*+?^$".contains(letter)) {
        return Ok(parts.map(str::to_owned).collect());
    }
    let all = cgroup::names();
    let mut named = Vec::new();
    for part in parts {
        let pattern = Regex::new(part).map_err(|error| {
            UsageError(format!("--for-each-cgroup: {part} is no pattern: {error}"))
        })?;
        let matches = all
            .iter()
            .filter(|name| !name.is_empty() && pattern.is_match(name));
        named.extend(matches.cloned());
    }
    if named.is_empty() {
        return Err(UsageError(format!(
            "--for-each-cgroup {list}: no cgroup is named so\n  \
             try: names below /sys/fs/cgroup, or a pattern that one of them matches"
        )));
    }
    Ok(named)
}

/// `--all-user` and `--all-kernel`.
fn modes_of_all(args: &Args, events: &mut [EventSpec]) {
    let (user, kernel) = (AttrFlags::EXCLUDE_USER, AttrFlags::EXCLUDE_KERNEL);
    let (excluded, counted) = match (args.all_user, args.all_kernel) {
        (true, _) => (kernel, user),
        (_, true) => (user, kernel),
        _ => return,
    };
    for spec in events {
        // Of an event of the other mode nothing would be left.
        spec.attr.flags = spec.attr.flags.without(counted).with(excluded);
        if !spec.modes.given && !spec.modes.guests {
            // As perf: modifiers leave guests in, these options do not.
            spec.attr.flags = spec.attr.flags.with(AttrFlags::EXCLUDE_GUEST);
        }
        spec.modes.given = true;
    }
}

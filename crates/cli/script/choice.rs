//! Which samples are printed.

use super::usage;
use prof_profile::{Profile, Sample};
use prof_report::model::{TimeRange, parse_time_ranges};

/// Filters by thread, CPU, time and symbol.
#[derive(Debug, clap::Args)]
pub(super) struct ChoiceArgs {
    /// Only these times: START,STOP in seconds, 10%/2, 0%-10%
    #[arg(long, value_name = "RANGES")]
    time: Option<String>,
    /// Only these processes
    #[arg(long, value_name = "PID,…", value_delimiter = ',')]
    pid: Vec<i32>,
    /// Only these threads
    #[arg(long, value_name = "TID,…", value_delimiter = ',')]
    tid: Vec<i32>,
    /// Only threads of these names
    #[arg(short = 'c', long, value_name = "NAME,…", value_delimiter = ',')]
    comms: Vec<String>,
    /// Only these CPUs: 0,2-3
    #[arg(short = 'C', long = "cpu", value_name = "LIST")]
    cpu: Option<String>,
    /// Only samples in these functions
    #[arg(
        short = 'S',
        long = "symbols",
        value_name = "NAME,…",
        value_delimiter = ','
    )]
    symbols: Vec<String>,
    /// Only samples in these files, by path or its last part
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    dsos: Vec<String>,
}

/// The samples asked for.
pub(super) struct Choice {
    times: Vec<TimeRange>,
    cpus: Option<Vec<(u32, u32)>>,
    /// By task of the profile.
    tasks: Vec<bool>,
    symbols: Vec<String>,
    dsos: Vec<String>,
}

impl Choice {
    pub(super) fn new(args: &ChoiceArgs, profile: &Profile) -> anyhow::Result<Self> {
        let time_of = |row: usize| Some(profile.samples.get(row)?.time);
        let last = profile.samples.len().saturating_sub(1);
        let span = time_of(0).zip(time_of(last));
        let span = profile.origin.time_range.or(span);
        let times = match &args.time {
            Some(text) => {
                parse_time_ranges(text, span).map_err(|error| usage(format!("--time: {error}")))?
            }
            None => Vec::new(),
        };
        let fits = |wanted: &[i32], id: i32| wanted.is_empty() || wanted.contains(&id);
        let takes = |task: &prof_profile::Task| {
            let comm = profile.name(task.comm);
            fits(&args.pid, task.pid)
                && fits(&args.tid, task.tid)
                && (args.comms.is_empty() || args.comms.iter().any(|wanted| wanted == comm))
        };
        Ok(Self {
            times,
            cpus: args.cpu.as_deref().map(cpu_ranges).transpose()?,
            tasks: profile.tasks.iter().map(takes).collect(),
            symbols: args.symbols.clone(),
            dsos: args.dsos.clone(),
        })
    }

    /// Whether this sample is among them.
    pub(super) fn takes(&self, profile: &Profile, sample: &Sample) -> bool {
        let in_cpus = |ranges: &Vec<(u32, u32)>| {
            let holds = |cpu| {
                ranges
                    .iter()
                    .any(|&(first, last)| first <= cpu && cpu <= last)
            };
            sample.cpu.is_some_and(holds)
        };
        let task = self.tasks.get(sample.task.0 as usize);
        task.copied().unwrap_or(true)
            && self.cpus.as_ref().is_none_or(in_cpus)
            && (self.times.is_empty() || self.times.iter().any(|range| range.holds(sample.time)))
            && (self.symbols.is_empty() || self.is_in_symbols(profile, sample))
            && (self.dsos.is_empty() || self.is_in_dsos(profile, sample))
    }

    fn is_in_dsos(&self, profile: &Profile, sample: &Sample) -> bool {
        let Some((_, location)) = profile.stacks.get(sample.stack) else {
            return false;
        };
        let dso = profile.dso(profile.location(location).dso);
        let names = [dso.path, dso.short_name].map(|name| profile.name(name));
        self.dsos.iter().any(|dso| names.contains(&dso.as_str()))
    }

    fn is_in_symbols(&self, profile: &Profile, sample: &Sample) -> bool {
        let Some((_, location)) = profile.stacks.get(sample.stack) else {
            return false;
        };
        let host = profile.frames_at(location).last();
        host.is_some_and(|frame| {
            let name = profile.name(profile.function(frame.function).name);
            self.symbols.iter().any(|wanted| wanted == name)
        })
    }
}

/// `0,2-3` as first and last of each range.
fn cpu_ranges(text: &str) -> anyhow::Result<Vec<(u32, u32)>> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let first: u32 = first.trim().parse().ok()?;
        let last: u32 = last.trim().parse().ok()?;
        (first <= last).then_some((first, last))
    };
    text.split(',')
        .map(|part| range(part).ok_or_else(|| usage(format!("-C {text}: not a list of CPUs"))))
        .collect()
}

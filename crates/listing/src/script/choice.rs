//! Which samples are printed.

use prof_profile::{Profile, Sample};
use prof_report::model::{TimeRange, TimeSpecError, parse_time_ranges};

/// Filters of samples; a sample must pass all of them. An empty filter passes
/// everything.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// Ranges of time, as [`parse_time_ranges`] has them.
    pub time: Option<String>,
    /// Processes.
    pub pids: Vec<i32>,
    /// Threads.
    pub tids: Vec<i32>,
    /// Names of threads.
    pub comms: Vec<String>,
    /// CPUs: the first and the last of each range.
    pub cpus: Option<Vec<(u32, u32)>>,
    /// Functions.
    pub symbols: Vec<String>,
    /// Files, by path or its last part.
    pub dsos: Vec<String>,
    /// By event of the profile; empty for all.
    pub events: Vec<bool>,
}

/// Filters of samples, prepared for one profile.
#[derive(Debug)]
pub struct Choice {
    times: Vec<TimeRange>,
    cpus: Option<Vec<(u32, u32)>>,
    /// By task of the profile.
    tasks: Vec<bool>,
    symbols: Vec<String>,
    dsos: Vec<String>,
    /// By event of the profile; empty for all.
    events: Vec<bool>,
}

impl Choice {
    /// Prepares filters for a profile.
    ///
    /// # Errors
    /// If the times are none.
    pub fn new(asked: Asked, profile: &Profile) -> Result<Self, TimeSpecError> {
        let span = profile.time_span();
        let times = match &asked.time {
            Some(text) => parse_time_ranges(text, span)?,
            None => Vec::new(),
        };
        let fits = |wanted: &[i32], id: i32| wanted.is_empty() || wanted.contains(&id);
        let takes = |task: &prof_profile::Task| {
            let comm = profile.name(task.comm);
            fits(&asked.pids, task.pid)
                && fits(&asked.tids, task.tid)
                && (asked.comms.is_empty() || asked.comms.iter().any(|wanted| wanted == comm))
        };
        Ok(Self {
            times,
            tasks: profile.tasks.iter().map(takes).collect(),
            cpus: asked.cpus,
            symbols: asked.symbols,
            dsos: asked.dsos,
            events: asked.events,
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
        let event = self.events.get(usize::from(sample.event.0));
        let task = self.tasks.get(sample.task.0 as usize);
        event.copied().unwrap_or(true)
            && task.copied().unwrap_or(true)
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

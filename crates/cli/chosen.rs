//! Which samples a picture or an export is of.

use crate::cpu_list::{CpuList, check_cpus, cpus};
use crate::outcome::UsageError;
use prof_profile::{EventId, Profile};
use prof_report::escape;
use prof_report::model::{Filter, Scope, TimeRange, parse_time_ranges};

/// Which samples are taken; each option that is not given takes all.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ChosenSamples {
    /// Only these processes
    #[arg(short, long, value_name = "PIDS", value_delimiter = ',')]
    pub(crate) pid: Vec<i32>,
    /// Only these threads
    #[arg(long, value_name = "TIDS", value_delimiter = ',')]
    pub(crate) tid: Vec<i32>,
    /// Only threads of these names
    #[arg(
        short,
        long,
        alias = "comm",
        value_name = "NAMES",
        value_delimiter = ','
    )]
    pub(crate) comms: Vec<String>,
    /// Only samples of these CPUs: 0,2-3
    #[arg(short = 'C', long, value_name = "CPUS", value_parser = cpus)]
    cpu: Option<CpuList>,
    /// Only this time: START,STOP in seconds, 10%/2 or 0%-10%
    #[arg(long, value_name = "RANGE")]
    time: Option<String>,
}

impl ChosenSamples {
    /// The times that were asked for, as they were written.
    pub(crate) fn time(&self) -> Option<&str> {
        self.time.as_deref()
    }

    /// The CPUs that were asked for; none for all.
    ///
    /// # Errors
    /// If the samples do not tell theirs.
    pub(crate) fn cpus(&self, profile: &Profile) -> anyhow::Result<Vec<u32>> {
        check_cpus(profile, self.cpu.is_some())?;
        let list = self.cpu.as_ref();
        Ok(list.map_or_else(Vec::new, |list| list.0.clone()))
    }

    /// Whether all samples are taken.
    pub(crate) fn are_all(&self) -> bool {
        self.pid.is_empty()
            && self.tid.is_empty()
            && self.comms.is_empty()
            && self.cpu.is_none()
            && self.time.is_none()
    }

    /// What a view shows of this choice.
    ///
    /// # Errors
    /// As [`ChosenSamples::times`] and [`ChosenSamples::cpus`].
    pub(crate) fn seen(&self, profile: &Profile) -> anyhow::Result<(Filter, Scope)> {
        let filter = Filter {
            comms: self.comms.clone(),
            pids: self.pid.clone(),
            tids: self.tid.clone(),
            ..Filter::default()
        };
        let scope = Scope {
            times: self.times(profile)?,
            cpus: self.cpus(profile)?,
            ..Scope::default()
        };
        Ok((filter, scope))
    }

    /// The times that were asked for; none for all.
    ///
    /// # Errors
    /// If they are no times.
    pub(crate) fn times(&self, profile: &Profile) -> anyhow::Result<Vec<TimeRange>> {
        let Some(text) = &self.time else {
            return Ok(Vec::new());
        };
        let times = parse_time_ranges(text, profile.time_span());
        Ok(times.map_err(|error| UsageError(format!("--time: {error}")))?)
    }
}

/// The event of a name; a modifier that the recorder added does not matter.
pub(crate) fn event_of(profile: &Profile, name: &str) -> anyhow::Result<EventId> {
    let index = profile.events.iter().position(|event| {
        let plain = event.name.split_once(':').map_or("", |(plain, _)| plain);
        event.name == *name || plain == name
    });
    let Some(index) = index else {
        let names: Vec<&str> = profile.events.iter().map(|event| &*event.name).collect();
        let names = escape::terminal(&names.join(", ")).into_owned();
        return Err(UsageError(format!("the recording has no such event; it has {names}")).into());
    };
    Ok(EventId(u16::try_from(index).unwrap_or(0)))
}

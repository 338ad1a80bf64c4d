//! Which samples a picture or an export is of.

use crate::outcome::UsageError;
use prof_profile::{EventId, Profile};
use prof_report::escape;
use prof_report::model::{TimeRange, parse_time_ranges};

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
    /// Only this time: START,STOP in seconds, 10%/2 or 0%-10%
    #[arg(long, value_name = "RANGE")]
    time: Option<String>,
}

impl ChosenSamples {
    /// The times that were asked for, as they were written.
    pub(crate) fn time(&self) -> Option<&str> {
        self.time.as_deref()
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

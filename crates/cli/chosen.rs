//! Which samples a picture or an export is of.

use crate::outcome::UsageError;
use prof_profile::Profile;
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
    /// The times that were asked for; none for all.
    ///
    /// # Errors
    /// If they are no times.
    pub(crate) fn times(&self, profile: &Profile) -> anyhow::Result<Vec<TimeRange>> {
        let Some(text) = &self.time else {
            return Ok(Vec::new());
        };
        let times = parse_time_ranges(text, profile.origin.time_range);
        Ok(times.map_err(|error| UsageError(format!("--time: {error}")))?)
    }
}

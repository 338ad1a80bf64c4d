//! Which samples of a recording count.

use crate::cpu_list::{CpuList, cpus};
use prof_report::model::Filter;

/// Which samples count.
#[derive(Debug, clap::Args)]
pub(super) struct Filters {
    /// Only threads of these names
    #[arg(short, long, value_name = "NAMES", value_delimiter = ',')]
    pub(super) comms: Vec<String>,
    /// Only samples taken in these dsos
    #[arg(short, long, value_name = "NAMES", value_delimiter = ',')]
    pub(super) dsos: Vec<String>,
    /// Only samples taken in these functions
    #[arg(short = 'S', long, value_name = "NAMES", value_delimiter = ',')]
    pub(super) symbols: Vec<String>,
    /// Only rows of functions with this in their name
    #[arg(long, value_name = "TEXT")]
    pub(super) symbol_filter: Option<String>,
    /// Only these processes
    #[arg(long, value_name = "PIDS", value_delimiter = ',')]
    pub(super) pid: Vec<i32>,
    /// Only these threads
    #[arg(long, value_name = "TIDS", value_delimiter = ',')]
    pub(super) tid: Vec<i32>,
    /// Only these CPUs: numbers and ranges, as 0-2,5
    #[arg(short = 'C', long, value_name = "CPUS", value_parser = cpus)]
    pub(super) cpu: Option<CpuList>,
    /// Only samples taken while so many threads ran: numbers and ranges, of record
    /// --switch-events
    #[arg(long, value_name = "NUMBERS", value_parser = cpus)]
    pub(super) parallelism: Option<CpuList>,
    /// Only this time: START,STOP in seconds, 10%/2 or 0%-10%
    #[arg(long, value_name = "RANGE")]
    pub(super) time: Option<String>,
    /// Only samples and frames that have a name
    #[arg(short = 'U', long)]
    pub(super) hide_unresolved: bool,
}

impl Filters {
    /// Whether they let everything pass.
    pub(super) fn is_empty(&self) -> bool {
        self.filter().is_empty()
            && self.cpu.is_none()
            && self.time.is_none()
            && !self.hide_unresolved
    }

    pub(super) fn filter(&self) -> Filter {
        Filter {
            comms: self.comms.clone(),
            dsos: self.dsos.clone(),
            symbols: self.symbols.clone(),
            pids: self.pid.clone(),
            tids: self.tid.clone(),
            parallelism: self
                .parallelism
                .as_ref()
                .map_or_else(Vec::new, |list| list.0.clone()),
            ..Filter::default()
        }
    }
}

//! Options of which samples are printed.

use super::usage;
use prof_listing::script::Asked;

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

impl ChoiceArgs {
    pub(super) fn asked(&self) -> anyhow::Result<Asked> {
        Ok(Asked {
            time: self.time.clone(),
            pids: self.pid.clone(),
            tids: self.tid.clone(),
            comms: self.comms.clone(),
            cpus: self.cpu.as_deref().map(cpu_ranges).transpose()?,
            symbols: self.symbols.clone(),
            dsos: self.dsos.clone(),
            events: Vec::new(),
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

//! A sample and its surroundings.

use prof_live::Processes;
use prof_perfdata::{Record, Sample as Recorded};
use prof_resolve::ProcessAddress;
use std::collections::HashMap;

/// A sample as it was recorded, and what is known of processes at its time.
#[derive(Clone, Copy)]
pub(super) struct Sampled<'a> {
    pub(super) record: &'a Record<'a>,
    pub(super) sample: &'a Recorded<'a>,
    pub(super) processes: &'a Processes,
    pub(super) cgroups: &'a Cgroups,
}

/// Paths of cgroups by their ids, as records told them so far.
pub(super) type Cgroups = HashMap<u64, String>;

impl Sampled<'_> {
    /// An address of its process.
    pub(super) fn at(&self, address: u64) -> ProcessAddress {
        ProcessAddress {
            pid: self.sample.pid().unwrap_or(-1),
            mode: self.record.misc.cpu_mode(),
            address,
        }
    }
}

//! One event that counts, in each of its threads or on each of its CPUs.

use super::reading::Reading;
use crate::events::{self, Tool};
use prof_abi::EventAttr;
use prof_sys::Event;
use std::ffi::CString;
use std::io;

/// One event, open or not supported here.
#[derive(Debug)]
pub struct Counter {
    pub(super) name: String,
    pub(super) attr: EventAttr,
    /// See [`EventSpec::in_kernel_only`].
    pub(super) in_kernel_only: bool,
    /// See [`EventSpec::probe`].
    pub(super) probe: Option<CString>,
    /// See [`events::is_beside_probe`].
    pub(super) is_beside_probe: bool,
    pub(super) tool: Option<Tool>,
    /// One per thread or CPU; `None` where the thread was gone.
    pub(super) members: Vec<Option<Event>>,
    pub(super) supported: bool,
    /// The place of its leader among the counters, if that is another.
    pub(super) leader: Option<usize>,
    /// Its group may be why it is not supported.
    pub(super) is_misgrouped: bool,
    /// This user may not watch the kernel, and it has nothing else.
    pub(super) is_forbidden: bool,
}

impl Counter {
    /// Its name, with `:u` where the kernel allows no more.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What is counted.
    pub fn attr(&self) -> &EventAttr {
        &self.attr
    }

    /// Whether this machine has it.
    pub fn is_supported(&self) -> bool {
        self.supported
    }

    /// Whether it always reads 0: its events occur only in the kernel, which is
    /// excluded.
    pub fn is_blind(&self) -> bool {
        events::is_blind(&self.attr, self.in_kernel_only)
    }

    /// Whether its PMU cannot exclude the kernel, which this user may not
    /// observe; the counter then counts as unsupported.
    pub fn is_forbidden(&self) -> bool {
        self.is_forbidden
    }

    /// Whether it covers only the threads that existed at the start, because
    /// the kernel cannot inherit this event or one of its group.
    pub fn is_of_known_threads(&self) -> bool {
        self.probe.is_some() || self.is_beside_probe
    }

    /// What `prof stat` must measure itself, because the kernel has no such
    /// event.
    pub fn tool(&self) -> Option<Tool> {
        self.tool
    }

    pub(super) fn leads(&self) -> bool {
        self.leader.is_none()
    }

    /// The id of the event of each thread or CPU, as READ records and perf's
    /// files name it.
    ///
    /// # Errors
    /// When the kernel does not tell it.
    pub fn ids(&self) -> io::Result<Vec<Option<u64>>> {
        let id = |event: &Option<Event>| event.as_ref().map(Event::id).transpose();
        self.members.iter().map(id).collect()
    }

    /// What a read of one of its events gives, of a leader with its members.
    pub(super) fn read_at(&self, place: usize) -> io::Result<Vec<Reading>> {
        let Some(event) = self.members.get(place).and_then(Option::as_ref) else {
            return Ok(Vec::new());
        };
        match event.read_counts(self.attr.read_format) {
            Ok(counts) => {
                let (enabled, running) = (counts.enabled, counts.running);
                let reading = |value| Reading {
                    value,
                    enabled: enabled.unwrap_or(0),
                    running: running.unwrap_or(0),
                };
                let values = counts.values.iter();
                Ok(values.map(|count| reading(count.value)).collect())
            }
            // A pinned event that never got its place: not counted.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Ok(vec![Reading::default()])
            }
            Err(error) => Err(error),
        }
    }
}

//! Which occurrences of an event are kept (`--filter`).

use super::pmu;
use super::spec::EventSpec;
use prof_abi::event_kind;
use std::ffi::CString;

/// An event of which nothing can be filtered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "--filter is for tracepoints and probes, and for PMUs that trace instructions, not for {event}\n  \
     try: --filter behind -e SUBSYSTEM:TRACEPOINT, or prof script with filters of its own"
)]
pub struct NoFilter {
    event: String,
}

impl EventSpec {
    /// Adds a filter to those it has, all of which hold. Fails where the event
    /// can have none.
    pub fn add_filter(&mut self, filter: &str) -> Result<(), NoFilter> {
        let is_tracing = self.attr.kind == event_kind::TRACEPOINT || self.probe.is_some();
        if !is_tracing && !pmu::filters_addresses(self.attr.kind) {
            return Err(NoFilter {
                event: self.name.clone(),
            });
        }
        let both = match self
            .filter
            .take()
            .and_then(|before| before.into_string().ok())
        {
            Some(before) if is_tracing => format!("({before}) && ({filter})"),
            Some(before) => format!("{before},{filter}"),
            None => filter.to_owned(),
        };
        // A NUL ends it for the kernel as well.
        self.filter = CString::new(both.split('\0').next().unwrap_or_default()).ok();
        Ok(())
    }
}

//! Which occurrences of an event are kept (`--filter`).

use super::pmu;
use super::spec::EventSpec;
use prof_abi::event_kind;
use std::ffi::CString;

/// An event of which nothing can be filtered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{option} is for tracepoints and probes{}, not for {event}\n  \
     try: {option} behind -e SUBSYSTEM:TRACEPOINT, or prof script with filters of its own",
    match *option {
        "--filter" => ", and for PMUs that trace instructions",
        _ => "",
    }
)]
pub struct NoFilter {
    option: &'static str,
    event: String,
}

impl EventSpec {
    /// Adds a filter to those it has, all of which hold. Fails where the event
    /// can have none.
    pub fn add_filter(&mut self, filter: &str) -> Result<(), NoFilter> {
        let is_tracing = self.filters_fields();
        if !is_tracing && !pmu::filters_addresses(self.attr.kind) {
            return Err(self.no_filter("--filter"));
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

    /// Leaves out what occurs in the recorder's threads. Fails where the kernel
    /// cannot tell them apart.
    pub fn exclude_recorder(&mut self) -> Result<(), NoFilter> {
        if !self.filters_fields() {
            return Err(self.no_filter("--exclude-perf"));
        }
        self.excludes_recorder = true;
        Ok(())
    }

    /// Whether filters are conditions of its fields.
    fn filters_fields(&self) -> bool {
        self.attr.kind == event_kind::TRACEPOINT || self.probe.is_some()
    }

    fn no_filter(&self, option: &'static str) -> NoFilter {
        NoFilter {
            option,
            event: self.name.clone(),
        }
    }
}

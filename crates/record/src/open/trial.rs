//! Opening one event, and what one that was refused could be instead.

use crate::events;
use crate::hints::Refusal;
use crate::kernel::{self, is_lacking};
use prof_abi::{AttrFlags, EventAttr};
use prof_sys::{Event, OpenError, Target};
use std::ffi::CStr;

/// perf_event_open(2) of an event, which may be a probe.
pub(crate) fn open_event(
    attr: &EventAttr,
    probe: Option<&CStr>,
    target: Target<'_>,
    group: Option<&Event>,
) -> Result<Event, OpenError> {
    match probe {
        Some(place) => Event::open_probe(attr, place, target, group),
        None => Event::open(attr, target, group),
    }
}

/// What an event that was refused could be instead: nothing is told to help
/// that was not tried.
pub(crate) struct Trial<'a> {
    pub(crate) name: &'a str,
    pub(crate) attr: &'a EventAttr,
    pub(crate) probe: Option<&'a CStr>,
    pub(crate) target: Target<'a>,
}

impl Trial<'_> {
    pub(crate) fn complete(&self, refusal: &mut Refusal) {
        if let (libc::EINVAL, Target::Cgroup { cpu, .. }) = (refusal.errno, self.target) {
            refusal.cgroup = Event::open(self.attr, Target::Cpu(cpu), None).is_ok();
        }
        match refusal.errno {
            libc::EACCES | libc::EPERM if refusal.kernel => match self.opens_for_user() {
                Ok(()) => {
                    let event = events::user_space(self.name);
                    let as_option = event.map(|event| format!("-e '{event}'"));
                    let other = || "the same event with u for its modes".to_owned();
                    refusal.narrowed = Some(as_option.unwrap_or_else(other));
                }
                // With every right it could not be opened either.
                Err(errno) if is_lacking(errno) => refusal.errno = errno,
                Err(_) => {}
            },
            libc::EINVAL | libc::E2BIG | libc::EOPNOTSUPP if !refusal.counting => {
                let opens = |attr: &EventAttr| Event::open(attr, self.target, None).is_ok();
                refusal.unknown = kernel::unknown_to(self.attr, opens);
                refusal.counts = self.counts();
            }
            _ => {}
        }
    }

    /// The event itself, nothing about its samples.
    fn bare(&self) -> EventAttr {
        let attr = self.attr;
        EventAttr {
            kind: attr.kind,
            config: attr.config,
            config1: attr.config1,
            config2: attr.config2,
            config3: attr.config3,
            bp_type: attr.bp_type,
            flags: AttrFlags::DISABLED,
            ..EventAttr::default()
        }
    }

    fn opens_for_user(&self) -> Result<(), i32> {
        let mut attr = self.bare();
        attr.sample_period = self.attr.sample_period;
        attr.flags.0 |= self.attr.flags.0 & AttrFlags::FREQ.0;
        attr.flags = attr
            .flags
            .with(AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV);
        match open_event(&attr, self.probe, self.target, None) {
            Ok(_) => Ok(()),
            Err(error) => Err(error.errno()),
        }
    }

    /// Whether it is an event of a PMU that is only for counting.
    fn counts(&self) -> bool {
        let mut attr = self.bare();
        let opens = |attr: &EventAttr| open_event(attr, self.probe, self.target, None).is_ok();
        let counts = opens(&attr);
        attr.sample_period = 1 << 20;
        counts && !opens(&attr)
    }
}

/// Whether the type is that of the PMU of probes.
pub(crate) fn is_probe(kind: u32) -> bool {
    ["kprobe", "uprobe"].iter().any(|pmu| {
        let text = std::fs::read_to_string(events::pmu::devices().join(pmu).join("type"));
        text.is_ok_and(|text| text.trim().parse() == Ok(kind))
    })
}

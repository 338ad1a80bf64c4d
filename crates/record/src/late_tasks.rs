//! Whether threads or children started while events were counted that the
//! kernel does not hand on to them.

use crate::events::EventSpec;
use prof_abi::{AttrFlags, EventAttr, ReadFormat, SampleType, Software, event_kind};
use prof_sys::{Event, Target};
use std::io;

/// For each task two events that count nothing: one of the task alone, and one
/// that is handed on. The kernel adds the time of tasks that inherited the
/// second to its own, and both have the clock of one task.
#[derive(Debug)]
pub(crate) struct LateTasks {
    pairs: Vec<[Event; 2]>,
}

impl LateTasks {
    /// Opens them beside events that begin as `flags` say (`DISABLED`,
    /// `ENABLE_ON_EXEC`); `None` where that is not possible, and nothing can be
    /// told.
    pub(crate) fn open(targets: &[Target<'_>], flags: AttrFlags) -> Option<Self> {
        let alone = EventAttr {
            kind: event_kind::SOFTWARE,
            config: Software::DUMMY.0,
            sample_type: SampleType::IDENTIFIER,
            read_format: ReadFormat::TOTAL_TIME_ENABLED,
            flags: flags.with(AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV),
            ..EventAttr::default()
        };
        let mut handed_on = alone.clone();
        handed_on.flags = alone.flags.with(AttrFlags::INHERIT);
        let pair = |&target: &Target<'_>| {
            let open = |attr| Event::open(attr, target, None).ok();
            Some([open(&alone)?, open(&handed_on)?])
        };
        let pairs = targets.iter().map(pair).collect::<Option<_>>()?;
        Some(Self { pairs })
    }

    /// Whether these events are of use: some event is wanted of tasks that start
    /// later, and stays with those that there are.
    pub(crate) fn are_missed(specs: &[EventSpec]) -> bool {
        let is_missed = |spec: &EventSpec| spec.inherit != Some(false) && !spec.may_be_inherited();
        specs.iter().any(is_missed)
    }

    /// All, each task's own before the other, so that it runs longer.
    pub(crate) fn events(&self) -> impl Iterator<Item = &Event> {
        self.pairs.iter().flatten()
    }

    /// Whether any task ran that was not there at the start.
    ///
    /// # Errors
    /// When reading fails.
    pub(crate) fn have_run(&self) -> io::Result<bool> {
        let enabled = |event: &Event| {
            let counts = event.read_counts(ReadFormat::TOTAL_TIME_ENABLED)?;
            io::Result::Ok(counts.enabled.unwrap_or(0))
        };
        for [alone, handed_on] in &self.pairs {
            // In this order, so that what passes between them is the task's own.
            let with_others = enabled(handed_on)?;
            if with_others > enabled(alone)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

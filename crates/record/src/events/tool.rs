//! Events that are no events of the kernel: times that `prof stat` takes itself.

use super::EventSpec;
use prof_abi::{AttrFlags, EventAttr, Software, event_kind};

/// What a tool event tells, all in ns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tool {
    /// Time since counting began.
    Duration,
    /// CPU time of what is counted, in user space.
    User,
    /// The same in the kernel.
    System,
}

const TOOLS: [(&str, Tool); 3] = [
    ("duration_time", Tool::Duration),
    ("user_time", Tool::User),
    ("system_time", Tool::System),
];

/// The tool event of this name. Its attr is that of an event that counts
/// nothing, as in perf.
pub(super) fn by_name(name: &str) -> Option<EventSpec> {
    let (_, tool) = TOOLS.iter().find(|(known, _)| *known == name)?;
    let attr = EventAttr {
        kind: event_kind::SOFTWARE,
        config: Software::DUMMY.0,
        flags: AttrFlags::default(),
        ..EventAttr::default()
    };
    let mut spec = EventSpec::new(name, attr);
    spec.tool = Some(*tool);
    Some(spec)
}

impl Tool {
    /// The names of all, as `-e` takes them.
    pub fn names() -> impl Iterator<Item = &'static str> {
        TOOLS.iter().map(|(name, _)| *name)
    }
}

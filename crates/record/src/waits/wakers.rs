//! The tracepoint that tells who wakes whom. It occurs where the waker runs,
//! with its stack, and the kernel gives it to the events of both threads.

use prof_abi::ByteOrder;
use prof_perfdata::tracepoint::{EventFormat, Field};
use prof_perfdata::write::EventDescription;
use std::fs;

/// Its name.
pub const WAKING: &str = "sched:sched_waking";
/// Where it is described, below where tracefs may be.
const FORMATS: [&str; 2] = [
    "/sys/kernel/tracing/events/sched/sched_waking/format",
    "/sys/kernel/debug/tracing/events/sched/sched_waking/format",
];

/// How to read its samples.
pub(super) struct Wakers {
    /// Place among the events.
    pub(super) event: usize,
    woken: Field,
}

impl Wakers {
    /// `None` if it is not among the events, or not described.
    pub(super) fn among(events: &[EventDescription]) -> Option<Self> {
        let event = events.iter().position(|event| event.name == WAKING)?;
        let text = FORMATS
            .iter()
            .find_map(|path| fs::read_to_string(path).ok())?;
        let format = EventFormat::parse("sched", &text)?;
        let woken = format.field("pid")?.clone();
        Some(Self { event, woken })
    }

    /// The thread that is woken, by the payload of a sample.
    pub(super) fn woken(&self, payload: &[u8]) -> i32 {
        self.woken.value(payload, ByteOrder::NATIVE) as i32
    }
}

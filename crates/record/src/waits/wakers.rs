//! The tracepoint that tells who wakes whom. It occurs where the waker runs,
//! with its stack, and the kernel gives it to the events of both threads.

use prof_abi::ByteOrder;
use prof_perfdata::tracepoint::{EventFormat, Field};
use prof_perfdata::write::EventDescription;
use std::collections::HashMap;
use std::fs;
use std::path::Path;

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
    /// By thread: whether it is one of the recorder's.
    own: HashMap<i32, bool>,
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
        let own = HashMap::new();
        Some(Self { event, woken, own })
    }

    /// The thread that is woken, by the payload of a sample.
    pub(super) fn woken(&self, payload: &[u8]) -> i32 {
        self.woken.value(payload, ByteOrder::NATIVE) as i32
    }

    /// Whether a thread is one of the recorder's, which what is recorded wakes
    /// when a ring fills.
    pub(super) fn is_own(&mut self, tid: i32) -> bool {
        let tasks = Path::new("/proc/self/task");
        let is_own = || tasks.join(tid.to_string()).exists();
        *self.own.entry(tid).or_insert_with(is_own)
    }
}

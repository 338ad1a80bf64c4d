//! Who ended waits: what the tracepoints of waking tell.

use prof_abi::{ByteOrder, event_kind};
use prof_perfdata::tracepoint::{EventFormat, TracingData};
use prof_perfdata::{Event, Features, Sample as RawSample};
use prof_profile::{StackId, TaskId, Wake};

/// The tracepoints, which occur where the waker runs.
const NAMES: [&str; 2] = ["sched:sched_waking", "sched:sched_wakeup"];
/// Bits of `common_flags` that are set in interrupts (`TRACE_FLAG_HARDIRQ`,
/// `TRACE_FLAG_SOFTIRQ`).
const IN_INTERRUPT: u64 = 0x08 | 0x10;
/// More bytes of a payload than these tracepoints have.
const LONGEST: usize = 256;

/// A sample of one of them, until its format is known.
struct Met {
    time: u64,
    task: TaskId,
    stack: StackId,
    /// Number of the event.
    event: u64,
    payload: Box<[u8]>,
}

/// Collects them.
#[derive(Default)]
pub(crate) struct Wakes {
    met: Vec<Met>,
    order: Option<ByteOrder>,
}

impl Wakes {
    /// Notes a sample, if it is of waking.
    pub(crate) fn note(&mut self, event: &Event, sample: &RawSample<'_>, of: (TaskId, StackId)) {
        let name = event.recorded_name.as_deref().unwrap_or_default();
        if event.attr.kind != event_kind::TRACEPOINT || !NAMES.contains(&name) {
            return;
        }
        let (Some(payload), Some(time)) = (sample.raw(), sample.time()) else {
            return;
        };
        self.order = Some(sample.order());
        self.met.push(Met {
            time,
            task: of.0,
            stack: of.1,
            event: event.attr.config,
            payload: payload.get(..LONGEST).unwrap_or(payload).into(),
        });
    }

    /// What they tell, in the order of time.
    pub(crate) fn finish(self, features: &Features) -> Vec<Wake> {
        let tracing = features.tracing_data();
        let tracing = tracing.and_then(|bytes| TracingData::parse(bytes).ok());
        let (Some(tracing), Some(order)) = (tracing, self.order) else {
            return Vec::new();
        };
        let told = |met: &Met| {
            let format = tracing.event(met.event)?;
            let value = |format: &EventFormat, name: &str| {
                Some(format.field(name)?.value(&met.payload, order))
            };
            let flags = value(format, "common_flags").unwrap_or(0);
            Some(Wake {
                time: met.time,
                woken: value(format, "pid")? as i32,
                task: met.task,
                stack: met.stack,
                in_interrupt: flags & IN_INTERRUPT != 0,
            })
        };
        let mut wakes: Vec<Wake> = self.met.iter().filter_map(told).collect();
        wakes.sort_by_key(|wake| wake.time);
        wakes
    }
}

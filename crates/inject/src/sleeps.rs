//! How long threads slept, at the place where they went to sleep.
//!
//! A thread's `sched_switch` has the call chain of its going to sleep but no
//! length; its `sched_stat_*`, sampled in whoever woke it, has the length. The
//! two become one, as perf inject -s does: the last `sched_switch` of the
//! thread with the time and period of the `sched_stat_*`, in whose place it is
//! written. Single `sched_switch` and `sched_process_exit` are left out.

use crate::InjectError;
use prof_abi::{ByteOrder, event_kind};
use prof_perfdata::tracepoint::TracingData;
use prof_perfdata::write::with_time_and_period;
use prof_perfdata::{Body, Events, Reader, Record};
use rustc_hash::FxHashMap;

/// What an event is to us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Switch,
    Exit,
    /// With the place of the thread in its payload.
    Sleep(usize),
    None,
}

pub(crate) struct Sleeps {
    /// Of each event.
    roles: Vec<Role>,
    events: Events,
    /// The last `sched_switch` of each thread.
    switches: FxHashMap<i32, Vec<u8>>,
}

impl Sleeps {
    pub(crate) fn new(reader: &Reader) -> Result<Self, InjectError> {
        let tracing = reader.features().tracing_data().map(TracingData::parse);
        let tracing = tracing.and_then(Result::ok).ok_or(InjectError::NoSleeps)?;
        let mut events = Events::new(ByteOrder::NATIVE);
        let mut roles = Vec::new();
        for event in reader.events().list() {
            let format = tracing.event(event.attr.config).filter(|format| {
                event.attr.kind == event_kind::TRACEPOINT && format.system == "sched"
            });
            roles.push(match format {
                Some(format) if format.name == "sched_switch" => Role::Switch,
                Some(format) if format.name == "sched_process_exit" => Role::Exit,
                Some(format) if format.name.starts_with("sched_stat_") => format
                    .field("pid")
                    .map_or(Role::None, |field| Role::Sleep(field.offset)),
                _ => Role::None,
            });
            events.push(event.clone());
        }
        let has_sleeps = roles.iter().any(|role| matches!(role, Role::Sleep(_)));
        if !has_sleeps || !roles.contains(&Role::Switch) {
            return Err(InjectError::NoSleeps);
        }
        Ok(Self {
            roles,
            events,
            switches: FxHashMap::default(),
        })
    }

    /// Takes a record, unless it is none of these; appends to `out` what
    /// becomes of it, if anything does.
    pub(crate) fn takes(&mut self, record: &Record<'_>, out: &mut Vec<u8>) -> bool {
        let Body::Sample(sample) = record.decode() else {
            return false;
        };
        let role = record.event_index().and_then(|index| self.roles.get(index));
        match role.copied().unwrap_or(Role::None) {
            Role::None => return false,
            Role::Switch => {
                let tid = sample.tid().unwrap_or(-1);
                self.switches.insert(tid, record.bytes.to_vec());
            }
            Role::Exit => {
                self.switches.remove(&sample.tid().unwrap_or(-1));
            }
            Role::Sleep(at) => {
                let tid = sample
                    .raw()
                    .and_then(|payload| ByteOrder::NATIVE.u32(payload, at));
                let switch = tid.and_then(|tid| self.switches.get(&tid.cast_signed()));
                if let (Some(switch), Some(time)) = (switch, sample.time()) {
                    let period = sample.period().unwrap_or(1);
                    let switch = Record::new(switch, 0, &self.events);
                    if let Some(Body::Sample(switch)) = switch.map(|switch| switch.decode()) {
                        with_time_and_period(&switch, time, period, out);
                    }
                }
            }
        }
        true
    }
}

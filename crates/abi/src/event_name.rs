//! Names of events, made from their attr where the recording gives none.

use crate::EventAttr;
use crate::event_names::{HARDWARE_EVENTS, NamedEvent, SOFTWARE_EVENTS, cache_events, event_kind};

/// The half of `config` that says which event; the other one says which PMU of
/// a hybrid machine.
const EVENT_HALF: u64 = 0xffff_ffff;

/// What perf would call this event, without modifiers: `cycles`, `cpu-clock`,
/// `L1-dcache-load-misses`, `raw 0x1a8`; for types not known here
/// `type 9 config 0x1`.
pub fn event_name(attr: &EventAttr) -> String {
    let config = attr.config;
    let generalized = |events: &[NamedEvent]| {
        let mut found = events
            .iter()
            .filter(|event| event.config == config & EVENT_HALF);
        found.next().map(|event| event.name.to_owned())
    };
    let known = match attr.kind {
        event_kind::HARDWARE => generalized(&HARDWARE_EVENTS),
        event_kind::SOFTWARE => generalized(&SOFTWARE_EVENTS),
        event_kind::TRACEPOINT => Some(format!("tracepoint {config}")),
        event_kind::CACHE => cache_events()
            .find(|&(_, number)| number == config & EVENT_HALF)
            .map(|(name, _)| name),
        event_kind::RAW => Some(format!("raw {config:#x}")),
        event_kind::BREAKPOINT => Some(format!("mem:{:#x}", attr.config1)),
        _ => None,
    };
    known.unwrap_or_else(|| format!("type {} config {config:#x}", attr.kind))
}

#[cfg(test)]
mod tests {
    use super::event_name;
    use crate::EventAttr;

    fn name(kind: u32, config: u64) -> String {
        event_name(&EventAttr {
            kind,
            config,
            ..EventAttr::default()
        })
    }

    #[test]
    fn events_without_a_recorded_name_get_perfs() {
        assert_eq!(name(0, 0), "cycles");
        assert_eq!(name(0, 4 << 32), "cycles", "the PMU is in the high half");
        assert_eq!(name(1, 9), "dummy");
        assert_eq!(name(3, 0x1_0000), "L1-dcache-load-misses");
        assert_eq!(name(3, 0x99), "type 3 config 0x99");
        assert_eq!(name(4, 0x1a8), "raw 0x1a8");
    }
}

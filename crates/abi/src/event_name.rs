//! Names of events, made from their attr where the recording gives none.

use crate::event_names::{HARDWARE_EVENTS, NamedEvent, SOFTWARE_EVENTS, cache_events, event_kind};
use crate::{AttrFlags, EventAttr};

/// The half of `config` that says which event; the other one says which PMU of
/// a hybrid machine.
const EVENT_HALF: u64 = 0xffff_ffff;

/// What perf would call this event, with its modifiers: `cycles`,
/// `cpu-clock:u`, `L1-dcache-load-misses`, `raw 0x1a8`; for types not known
/// here `type 9 config 0x1`.
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
    match known {
        Some(name) if attr.kind == event_kind::TRACEPOINT => name,
        Some(name) => name + &modifiers(attr),
        None => format!("type {} config {config:#x}", attr.kind),
    }
}

/// What follows the colon of a name: where the event counts, if that is not
/// everywhere on the host, and how exact its addresses are.
///
/// Source: `evsel__add_modifiers` of perf 6.1. An event asked for without
/// modifiers leaves guests out, one with any does not.
fn modifiers(attr: &EventAttr) -> String {
    let has = |bit| attr.flags.has(bit);
    let mut letters = String::new();
    let mut leaves_guests_out = true;
    let modes = [
        (AttrFlags::EXCLUDE_KERNEL, 'k'),
        (AttrFlags::EXCLUDE_USER, 'u'),
        (AttrFlags::EXCLUDE_HV, 'h'),
    ];
    if modes.iter().any(|&(bit, _)| has(bit)) {
        letters.extend(modes.iter().filter(|&&(bit, _)| !has(bit)).map(|it| it.1));
        leaves_guests_out = false;
    }
    let precise = attr.precise_ip();
    if precise > 0 {
        letters.extend((0..precise).map(|_| 'p'));
        leaves_guests_out = false;
    }
    if has(AttrFlags::EXCLUDE_HOST) || has(AttrFlags::EXCLUDE_GUEST) != leaves_guests_out {
        let machines = [
            (AttrFlags::EXCLUDE_HOST, 'H'),
            (AttrFlags::EXCLUDE_GUEST, 'G'),
        ];
        letters.extend(
            machines
                .iter()
                .filter(|&&(bit, _)| !has(bit))
                .map(|it| it.1),
        );
    }
    if letters.is_empty() {
        letters
    } else {
        format!(":{letters}")
    }
}

#[cfg(test)]
mod tests {
    use super::event_name;
    use crate::{AttrFlags, EventAttr};

    fn name_with(kind: u32, config: u64, flags: AttrFlags) -> String {
        event_name(&EventAttr {
            kind,
            config,
            flags,
            ..EventAttr::default()
        })
    }

    fn name(kind: u32, config: u64) -> String {
        name_with(kind, config, AttrFlags::EXCLUDE_GUEST)
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

    #[test]
    fn where_an_event_counts_is_in_its_name() {
        let user = AttrFlags::EXCLUDE_KERNEL | AttrFlags::EXCLUDE_HV;
        let precise = AttrFlags::PRECISE_LOW | AttrFlags::PRECISE_HIGH;
        let cases = [
            (AttrFlags::default(), "cycles:HG"),
            (user, "cycles:u"),
            (user | AttrFlags::EXCLUDE_GUEST, "cycles:uH"),
            (AttrFlags::EXCLUDE_USER, "cycles:kh"),
            (AttrFlags::EXCLUDE_HOST, "cycles:G"),
            (precise, "cycles:ppp"),
        ];
        for (flags, expected) in cases {
            assert_eq!(name_with(0, 0, flags), expected);
        }
        assert_eq!(name_with(9, 0, user), "type 9 config 0x0");
    }
}

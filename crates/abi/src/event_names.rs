//! The generalized events, by the names that perf gives them.

/// `perf_event_attr.type` of the events named here.
pub mod event_kind {
    /// Generalized hardware events.
    pub const HARDWARE: u32 = 0;
    /// Software events.
    pub const SOFTWARE: u32 = 1;
    /// Tracepoints; `config` is the tracepoint's id.
    pub const TRACEPOINT: u32 = 2;
    /// Hardware cache events.
    pub const CACHE: u32 = 3;
    /// Raw events of the CPU's PMU.
    pub const RAW: u32 = 4;
    /// Hardware breakpoints.
    pub const BREAKPOINT: u32 = 5;
}

/// A generalized hardware or software event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NamedEvent {
    /// As perf prints it.
    pub name: &'static str,
    /// Another name that perf accepts.
    pub alias: Option<&'static str>,
    /// `perf_event_attr.config`.
    pub config: u64,
}

const fn named(name: &'static str, alias: Option<&'static str>, config: u64) -> NamedEvent {
    NamedEvent {
        name,
        alias,
        config,
    }
}

/// Generalized hardware events, by `config`.
///
/// Source: `enum perf_hw_id`.
pub const HARDWARE_EVENTS: [NamedEvent; 10] = [
    named("cycles", Some("cpu-cycles"), 0),
    named("instructions", None, 1),
    named("cache-references", None, 2),
    named("cache-misses", None, 3),
    named("branches", Some("branch-instructions"), 4),
    named("branch-misses", None, 5),
    named("bus-cycles", None, 6),
    named("stalled-cycles-frontend", Some("idle-cycles-frontend"), 7),
    named("stalled-cycles-backend", Some("idle-cycles-backend"), 8),
    named("ref-cycles", None, 9),
];

/// Software events, by `config`.
///
/// Source: `enum perf_sw_ids`.
pub const SOFTWARE_EVENTS: [NamedEvent; 12] = [
    named("cpu-clock", None, 0),
    named("task-clock", None, 1),
    named("page-faults", Some("faults"), 2),
    named("context-switches", Some("cs"), 3),
    named("cpu-migrations", Some("migrations"), 4),
    named("minor-faults", None, 5),
    named("major-faults", None, 6),
    named("alignment-faults", None, 7),
    named("emulation-faults", None, 8),
    named("dummy", None, 9),
    named("bpf-output", None, 10),
    named("cgroup-switches", None, 11),
];

/// Caches by number, with the operations that make sense for them (bits: 0
/// load, 1 store, 2 prefetch).
///
/// Source: `enum perf_hw_cache_id`; the operations are those of perf's list.
const CACHES: [(&str, u8); 7] = [
    ("L1-dcache", 0b111),
    ("L1-icache", 0b101),
    ("LLC", 0b111),
    ("dTLB", 0b111),
    ("iTLB", 0b001),
    ("branch", 0b001),
    ("node", 0b111),
];

/// Operations by number: all accesses, misses only.
const CACHE_OPERATIONS: [[&str; 2]; 3] = [
    ["loads", "load-misses"],
    ["stores", "store-misses"],
    ["prefetches", "prefetch-misses"],
];

/// Every cache event with its `config`: cache, operation and result in the
/// lowest three bytes.
pub fn cache_events() -> impl Iterator<Item = (String, u64)> {
    let operations = |bits: u8| {
        CACHE_OPERATIONS
            .iter()
            .zip(0_u64..)
            .filter(move |&(_, number)| bits >> number & 1 == 1)
    };
    CACHES
        .iter()
        .zip(0_u64..)
        .flat_map(move |((cache, bits), id)| {
            operations(*bits).flat_map(move |(results, operation)| {
                results.iter().zip(0_u64..).map(move |(result, number)| {
                    let config = id | operation << 8 | number << 16;
                    (format!("{cache}-{result}"), config)
                })
            })
        })
}

/// Kind and `config` of a generalized event by any of its names.
pub fn event_by_name(name: &str) -> Option<(u32, u64)> {
    let is_it = |event: &&NamedEvent| event.name == name || event.alias == Some(name);
    let find = |events: &[NamedEvent]| events.iter().find(is_it).map(|event| event.config);
    if let Some(config) = find(&HARDWARE_EVENTS) {
        return Some((event_kind::HARDWARE, config));
    }
    if let Some(config) = find(&SOFTWARE_EVENTS) {
        return Some((event_kind::SOFTWARE, config));
    }
    cache_events()
        .find(|(cache_name, _)| cache_name == name)
        .map(|(_, config)| (event_kind::CACHE, config))
}

#[cfg(test)]
mod tests {
    use super::{HARDWARE_EVENTS, SOFTWARE_EVENTS, cache_events, event_by_name};

    #[test]
    fn tables_are_in_the_order_of_their_numbers() {
        // covers unit: EV-03, EV-04, EV-05, EV-06, EV-07, EV-08, EV-09, EV-11, EV-12, EV-13, EV-16, EV-17, EV-18, EV-19
        for events in [&HARDWARE_EVENTS[..], &SOFTWARE_EVENTS[..]] {
            for (event, number) in events.iter().zip(0..) {
                assert_eq!(event.config, number, "{}", event.name);
            }
        }
    }

    #[test]
    fn names_and_aliases_are_found() {
        assert_eq!(event_by_name("cpu-cycles"), Some((0, 0)));
        assert_eq!(event_by_name("faults"), Some((1, 2)));
        assert_eq!(event_by_name("LLC-store-misses"), Some((3, 0x1_0102)));
        assert_eq!(event_by_name("iTLB-stores"), None);
        assert_eq!(event_by_name(""), None);
    }

    #[test]
    fn perf_lists_32_cache_events() {
        // covers unit: EV-23
        let events: Vec<_> = cache_events().collect();
        assert_eq!(events.len(), 32);
        assert_eq!(events[0], ("L1-dcache-loads".to_owned(), 0));
    }
}

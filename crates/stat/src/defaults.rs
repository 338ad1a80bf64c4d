//! What is counted when nothing is asked for.

use prof_abi::EventAttr;
use prof_record::events::EventSpec;
use std::path::Path;

/// perf's default events: the clock, software events, and the core events of a
/// PMU. Events of stalls only where the PMU has them. `detail` (`-d`, up to
/// three times) adds events of caches, then of instruction caches and TLBs,
/// then of prefetching.
pub fn default_events(on_cpus: bool, detail: u8) -> Vec<EventSpec> {
    let clock = if on_cpus { "cpu-clock" } else { "task-clock" };
    let always = [
        clock,
        "context-switches",
        "cpu-migrations",
        "page-faults",
        "cycles",
    ];
    let stalls = ["stalled-cycles-frontend", "stalled-cycles-backend"];
    let has = |event: &&str| {
        let file = format!("/sys/bus/event_source/devices/cpu/events/{event}");
        Path::new(&file).exists()
    };
    let details: [&[&str]; 3] = [
        &[
            "L1-dcache-loads",
            "L1-dcache-load-misses",
            "LLC-loads",
            "LLC-load-misses",
        ],
        &[
            "L1-icache-loads",
            "L1-icache-load-misses",
            "dTLB-loads",
            "dTLB-load-misses",
            "iTLB-loads",
            "iTLB-load-misses",
        ],
        &["L1-dcache-prefetches", "L1-dcache-prefetch-misses"],
    ];
    let details = details.into_iter().take(detail.into()).flatten().copied();
    let names = always.into_iter().chain(stalls.into_iter().filter(has));
    names
        .chain(["instructions", "branches", "branch-misses"])
        .chain(details)
        .filter_map(|name| {
            let (kind, config) = prof_abi::event_by_name(name)?;
            let attr = EventAttr {
                kind,
                config,
                ..EventAttr::default()
            };
            Some(EventSpec::new(name, attr))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::default_events;

    #[test]
    fn each_detail_adds_events_that_have_names() {
        let count = |detail| default_events(false, detail).len();
        let details = [0, 1, 2, 3].map(|detail| count(detail) - count(0));
        assert_eq!(details, [0, 4, 10, 12]);
        assert_eq!(default_events(true, 0)[0].name, "cpu-clock");
    }
}

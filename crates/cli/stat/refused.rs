//! perf stat's options that prof does not have.

use crate::refused::{Refusal, Refuses, Value};

/// The options of `perf stat`.
#[derive(Debug, Clone, Copy)]
pub(super) struct OfStat;

const NO_METRICS: &str = "metrics are made of a PMU's own events, of which there are no tables here; name the events with -e";
const NO_TABLES: &str = "counts are sums over all CPUs; -C LIST counts some of them alone";
const NO_HYBRID: &str = "name the PMU with the event: -e cpu_core/cycles/";
const NO_TPEBS: &str = "hardware latencies are not read while counting";

#[rustfmt::skip] // a table
const OPTIONS: &[Refusal] = &[
    (None, "affinity", Value::None, "counters are read once, at the end"),
    (None, "all-kernel", Value::None, "add :k to the events"),
    (None, "all-user", Value::None, "add :u to the events"),
    (Some('B'), "big-num", Value::None, "use -x or --json, whose numbers programs read"),
    (None, "control", Value::Needed, "use --timeout, or -p once the program is where it is to be counted"),
    (None, "cputype", Value::Needed, NO_HYBRID),
    (Some('D'), "delay", Value::Needed, "use -p once the program is where it is to be counted"),
    (Some('d'), "detailed", Value::None, "name the events with -e; prof list shows them"),
    (None, "for-each-cgroup", Value::Needed, "use -G, with each event once for each"),
    (Some('g'), "group", Value::None, "use -e '{a,b}'"),
    (None, "hybrid-merge", Value::None, NO_HYBRID),
    (None, "interval-clear", Value::None, "use watch(1)"),
    (None, "interval-count", Value::Needed, "use --timeout: the count times -I"),
    (None, "iostat", Value::Optional, NO_METRICS),
    (None, "json-output", Value::None, "use --json"),
    (None, "log-fd", Value::Needed, "use -o /dev/fd/N"),
    (None, "metric-no-group", Value::None, NO_METRICS),
    (None, "metric-no-merge", Value::None, NO_METRICS),
    (None, "metric-no-threshold", Value::None, NO_METRICS),
    (None, "metric-only", Value::None, NO_METRICS),
    (Some('M'), "metrics", Value::Needed, NO_METRICS),
    (Some('A'), "no-aggr", Value::None, NO_TABLES),
    (None, "no-csv-summary", Value::None, "-I with -x prints no summary"),
    (None, "no-merge", Value::None, NO_TABLES),
    (None, "per-cache", Value::Optional, NO_TABLES),
    (None, "per-cluster", Value::None, NO_TABLES),
    (None, "per-core", Value::None, NO_TABLES),
    (None, "per-die", Value::None, NO_TABLES),
    (None, "per-node", Value::None, NO_TABLES),
    (None, "per-socket", Value::None, NO_TABLES),
    (None, "per-thread", Value::None, "use -t for each thread"),
    (None, "percore-show-thread", Value::None, NO_TABLES),
    (None, "pmu-filter", Value::Needed, NO_HYBRID),
    (None, "post", Value::Needed, "run it behind the command: sh -c '…; …'"),
    (None, "pre", Value::Needed, "run it before prof stat"),
    (None, "quiet", Value::None, "use -o /dev/null"),
    (None, "record-tpebs", Value::None, NO_TPEBS),
    (None, "scale", Value::None, "counts of events that shared a counter are always scaled, and say so"),
    (None, "smi-cost", Value::None, NO_METRICS),
    (None, "summary", Value::None, "run without -I for the whole"),
    (Some('S'), "sync", Value::None, "run sync(1) before"),
    (None, "table", Value::None, "use -x or --json for each of the runs"),
    (None, "td-level", Value::Needed, NO_METRICS),
    (None, "topdown", Value::None, NO_METRICS),
    (None, "tpebs-mode", Value::Needed, NO_TPEBS),
    (Some('T'), "transaction", Value::None, "name the events with -e: tx-start, tx-abort"),
    (Some('v'), "verbose", Value::None, "what cannot be opened is always told"),
];

impl Refuses for OfStat {
    const COMMAND: &'static str = "stat";
    const OPTIONS: &'static [Refusal] = OPTIONS;
}

//! perf stat's options that prof does not have.

use crate::refused::{Refusal, Refuses, Value};

/// The options of `perf stat`.
#[derive(Debug, Clone, Copy)]
pub(super) struct OfStat;

const NO_METRICS: &str = "the kernel publishes no metrics; use -M NAME --metrics-dir DIR with perf's JSON files, or name the events with -e";
const NO_BPF: &str = "the kernel's own counters are opened, for each recorder anew; leave it out";
const NO_HYBRID: &str = "name the PMU with the event: -e cpu_core/cycles/";
const NO_TPEBS: &str = "hardware latencies are not read while counting";

#[rustfmt::skip] // a table
const OPTIONS: &[Refusal] = &[
    (None, "bpf-attr-map", Value::Needed, NO_BPF),
    (None, "bpf-counters", Value::None, NO_BPF),
    (Some('b'), "bpf-prog", Value::Needed, "the runs of a BPF program are not counted here; bpftool prog profile counts them"),
    (None, "cputype", Value::Needed, NO_HYBRID),
    (None, "hybrid-merge", Value::None, NO_HYBRID),
    (None, "iostat", Value::Optional, NO_METRICS),
    (None, "percore-show-thread", Value::None, "use --per-core, or -A for each thread of a core"),
    (None, "pmu-filter", Value::Needed, NO_HYBRID),
    (None, "record-tpebs", Value::None, NO_TPEBS),
    (None, "smi-cost", Value::None, NO_METRICS),
    (None, "td-level", Value::Needed, NO_METRICS),
    (None, "topdown", Value::None, NO_METRICS),
    (None, "tpebs-mode", Value::Needed, NO_TPEBS),
    (Some('T'), "transaction", Value::None, "name the events with -e: tx-start, tx-abort"),
];

impl Refuses for OfStat {
    const COMMAND: &'static str = "stat";
    const OPTIONS: &'static [Refusal] = OPTIONS;
}

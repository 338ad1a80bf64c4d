//! perf record's options that prof does not have.

use crate::refused::{Refusal, Refuses, Value};

/// The options of `perf record`.
#[derive(Debug, Clone, Copy)]
pub(super) struct OfRecord;

impl Refuses for OfRecord {
    const COMMAND: &'static str = "record";
    const OPTIONS: &'static [Refusal] = &[
        (
            None,
            "aio",
            Value::Optional,
            "writing never holds up the rings: another thread does it",
        ),
        (
            None,
            "aux-sample",
            Value::Optional,
            "hardware traces are not recorded",
        ),
        (
            None,
            "clang-opt",
            Value::Needed,
            "BPF programs are not compiled here",
        ),
        (
            None,
            "clang-path",
            Value::Needed,
            "BPF programs are not compiled here",
        ),
        (None, "data-mmap", Value::None, "use -d, which includes it"),
        (
            None,
            "debuginfod",
            Value::Optional,
            "nothing is fetched while recording; prof report --debuginfod fetches, and so does prof archive",
        ),
        (
            None,
            "dry-run",
            Value::None,
            "use prof doctor and prof list",
        ),
        (
            None,
            "kcore",
            Value::None,
            "kernel code is read from the running kernel's own images",
        ),
        (None, "latency", Value::None, "use --switch-events"),
        (
            None,
            "mmap-flush",
            Value::Needed,
            "rings are drained by time and fill level",
        ),
        (
            None,
            "no-bpf-event",
            Value::None,
            "BPF programs are always told of",
        ),
        (
            None,
            "no-buffering",
            Value::None,
            "the file is at most a fifth of a second behind",
        ),
        (
            None,
            "num-thread-synthesize",
            Value::Needed,
            "one thread is fast enough",
        ),
        (
            None,
            "off-cpu-thresh",
            Value::Needed,
            "--off-cpu-min leaves short waits out",
        ),
        (
            None,
            "proc-map-timeout",
            Value::Needed,
            "mappings are read without a time limit",
        ),
        (None, "running-time", Value::None, "use prof stat"),
        (
            None,
            "sample-mem-info",
            Value::None,
            "use -d, which includes it",
        ),
        (
            None,
            "setup-filter",
            Value::Needed,
            "BPF filters are not supported",
        ),
        (
            Some('S'),
            "snapshot",
            Value::Optional,
            "hardware traces are not recorded",
        ),
        (
            None,
            "threads",
            Value::Optional,
            "it does not pay: one thread empties all rings, and perf's own threads saved no CPU time and no record (2 CPUs, 10 kHz); --affinity says where that thread runs",
        ),
        (
            None,
            "vmlinux",
            Value::Needed,
            "use --vmlinux of prof report",
        ),
    ];
}

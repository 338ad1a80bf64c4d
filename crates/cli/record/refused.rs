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
        (
            None,
            "debuginfod",
            Value::Optional,
            "nothing is fetched while recording; prof report --debuginfod fetches, and so does prof archive",
        ),
        (
            None,
            "kcore",
            Value::None,
            "kernel code is read from the running kernel's own images",
        ),
        (
            None,
            "setup-filter",
            Value::Needed,
            "BPF filters are not supported",
        ),
        (
            None,
            "vmlinux",
            Value::Needed,
            "use --vmlinux of prof report",
        ),
    ];
}

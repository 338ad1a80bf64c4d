//! perf list's options that prof does not have.

use crate::refused::{Refusal, Refuses, Value};

/// The options of `perf list`.
#[derive(Debug, Clone, Copy)]
pub(super) struct OfList;

const NO_TABLES: &str = "the list has the events that the kernel names; perf's others come from tables of its own for each CPU";

#[rustfmt::skip] // a table
const OPTIONS: &[Refusal] = &[
    (None, "cputype", Value::Needed, "name the PMU: prof list cpu_core"),
    (None, "debug", Value::None, "an event that cannot be used says why"),
    (None, "deprecated", Value::None, NO_TABLES),
    (None, "raw-dump", Value::None, "use --json, or prof generate for a shell's completions"),
];

impl Refuses for OfList {
    const COMMAND: &'static str = "list";
    const OPTIONS: &'static [Refusal] = OPTIONS;
}

//! perf diff's options that prof does not have.

use crate::refused::{Refusal, Refuses, Value};

/// The options of `perf diff`.
#[derive(Debug, Clone, Copy)]
pub(super) struct OfDiff;

#[rustfmt::skip] // a table
const OPTIONS: &[Refusal] = &[
    (None, "cycles-hist", Value::None, "cycles of basic blocks are not compared"),
    (Some('D'), "dump-raw-trace", Value::None, "use prof dump"),
    (Some('F'), "formula", Value::None, "--csv and --json have the figures that are computed with"),
    (Some('m'), "modules", Value::None, "symbols of kernel modules are always read"),
    (Some('o'), "order", Value::Needed, "rows are in the order of what is computed"),
    (Some('p'), "period", Value::None, "--csv and --json have the costs"),
    (None, "stream", Value::None, "functions are compared, not call chains of branches"),
    (Some('t'), "field-separator", Value::Needed, "use --csv"),
    (Some('v'), "verbose", Value::None, "--csv and --json have all figures"),
];

impl Refuses for OfDiff {
    const COMMAND: &'static str = "diff";
    const OPTIONS: &'static [Refusal] = OPTIONS;
}

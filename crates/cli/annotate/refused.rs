//! perf annotate's options that prof does not have.

use crate::refused::{Refusal, Refuses, Value};

/// The options of `perf annotate`.
#[derive(Debug, Clone, Copy)]
pub(super) struct OfAnnotate;

const NO_TYPES: &str = "types of data are not looked for";
const NO_HELPERS: &str = "code and lines are read without helper programs";

#[rustfmt::skip] // a table
const OPTIONS: &[Refusal] = &[
    (None, "addr2line", Value::Needed, NO_HELPERS),
    (None, "code-with-type", Value::None, NO_TYPES),
    (None, "data-type", Value::Optional, NO_TYPES),
    (None, "demangle-kernel", Value::None, "names of the kernel are those of its C sources"),
    (Some('D'), "dump-raw-trace", Value::None, "use prof dump"),
    (None, "insn-stat", Value::None, NO_TYPES),
    (None, "itrace", Value::Optional, "hardware traces are not decoded"),
    (Some('m'), "modules", Value::None, "symbols of kernel modules are always read"),
    (None, "objdump", Value::Needed, NO_HELPERS),
    (None, "skip-empty", Value::None, "events without samples are always left out"),
    (None, "stdio-color", Value::Needed, "text has no colours; the terminal UI has"),
    (None, "stdio2", Value::None, "use --stdio, or the terminal UI"),
    (None, "type-stat", Value::None, NO_TYPES),
];

impl Refuses for OfAnnotate {
    const COMMAND: &'static str = "annotate";
    const OPTIONS: &'static [Refusal] = OPTIONS;
}

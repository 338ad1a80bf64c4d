//! perf report's options that prof does not have.

use crate::refused::{Refusal, Refuses, Value};

/// The options of `perf report`.
#[derive(Debug, Clone, Copy)]
pub(super) struct OfReport;

const NO_TRACES: &str = "hardware traces are not decoded";
const NO_ADDR2LINE: &str = "lines are read without helper programs";
const CODE: &str = "prof annotate shows source and instructions, without objdump";

#[rustfmt::skip] // a table
const OPTIONS: &[Refusal] = &[
    (None, "addr2line", Value::Needed, NO_ADDR2LINE),
    (None, "addr2line-style", Value::Needed, NO_ADDR2LINE),
    (None, "asm-raw", Value::None, CODE),
    (None, "demangle-kernel", Value::None, "names of the kernel are those of its C sources"),
    (None, "disable-order", Value::None, "use prof dump: it shows records in the order of the file"),
    (Some('M'), "disassembler-style", Value::Needed, CODE),
    (Some('D'), "dump-raw-trace", Value::None, "use prof dump"),
    (None, "group-sort-idx", Value::Needed, "rows of a group are sorted by its first event; see one event alone with --no-group"),
    (None, "itrace", Value::Optional, NO_TRACES),
    (None, "latency", Value::None, "use record --switch-events, and the timeline of the terminal UI"),
    (Some('m'), "modules", Value::None, "symbols of kernel modules are always read"),
    (None, "objdump", Value::Needed, CODE),
    (None, "prefix", Value::Needed, "sources are looked for below --symfs"),
    (None, "prefix-strip", Value::Needed, "sources are looked for below --symfs"),
    (None, "pretty", Value::Needed, "-g none leaves out what it would"),
    (None, "raw-trace", Value::None, "tracepoints have no columns; prof script -F trace prints them"),
    (None, "show-ref-call-graph", Value::None, "record each event with its own call chains"),
    (None, "socket-filter", Value::Needed, "use -C with the socket's CPUs, which --header -I lists"),
    (None, "source", Value::None, CODE),
    (None, "stdio-color", Value::Needed, "text has no colours; the terminal UI has"),
    (None, "stitch-lbr", Value::None, "chains of --call-graph lbr are shown as recorded"),
    (None, "unwind-style", Value::Needed, "there is one unwinder, for all formats"),
];

impl Refuses for OfReport {
    const COMMAND: &'static str = "report";
    const OPTIONS: &'static [Refusal] = OPTIONS;
}

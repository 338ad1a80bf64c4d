//! perf script's options that prof does not have.

use crate::refused::{Refusal, Refuses, Value};

/// The options of `perf script`.
#[derive(Debug, Clone, Copy)]
pub(super) struct OfScript;

const NO_TRACES: &str = "hardware traces are not decoded";
const NO_FILTERS: &str = "no code is loaded; filter what prof script prints";
const NO_SCRIPTS: &str = "no interpreter is started; pipe what prof script prints into a program";
const NO_GUESTS: &str = "guests have no names of their own; record inside them";
const NO_ADDR2LINE: &str = "lines are read without helper programs";

#[rustfmt::skip] // a table
const OPTIONS: &[Refusal] = &[
    (None, "addr-range", Value::Needed, "use -S with the functions, or filter by address behind -F ip"),
    (None, "addr2line", Value::Needed, NO_ADDR2LINE),
    (None, "call-ret-trace", Value::Optional, NO_TRACES),
    (None, "call-trace", Value::Optional, NO_TRACES),
    (Some('d'), "debug-mode", Value::None, "prof dump --stats counts what is lost; damage is always told"),
    (None, "demangle-kernel", Value::None, "names of the kernel are those of its C sources"),
    (None, "dlarg", Value::Needed, NO_FILTERS),
    (None, "dlfilter", Value::Needed, NO_FILTERS),
    (Some('D'), "dump-raw-trace", Value::None, "use prof dump"),
    (None, "dump-unsorted-raw-trace", Value::None, "use prof dump: it shows records in the order of the file"),
    (Some('g'), "gen-script", Value::Needed, NO_SCRIPTS),
    (None, "guest-code", Value::None, NO_GUESTS),
    (None, "guestkallsyms", Value::Needed, NO_GUESTS),
    (None, "guestmodules", Value::Needed, NO_GUESTS),
    (None, "guestmount", Value::Needed, NO_GUESTS),
    (None, "guestvmlinux", Value::Needed, NO_GUESTS),
    (None, "insn-trace", Value::Optional, NO_TRACES),
    (None, "itrace", Value::Optional, NO_TRACES),
    (Some('L'), "Latency", Value::None, "record the tracepoints' own fields; -F trace prints them"),
    (Some('l'), "list", Value::None, NO_SCRIPTS),
    (None, "list-dlfilters", Value::None, NO_FILTERS),
    (None, "max-blocks", Value::Needed, "pipe -F brstackinsn through head(1)"),
    (Some('s'), "script", Value::Needed, NO_SCRIPTS),
    (None, "stitch-lbr", Value::None, "chains of --call-graph lbr are shown as recorded"),
    (None, "unwind-style", Value::Needed, "there is one unwinder, for all formats"),
    (None, "xed", Value::None, NO_TRACES),
];

impl Refuses for OfScript {
    const COMMAND: &'static str = "script";
    const OPTIONS: &'static [Refusal] = OPTIONS;
}

//! perf inject's options that prof does not have.

use crate::refused::{Refusal, Refuses, Value};

/// The options of `perf inject`.
#[derive(Debug, Clone, Copy)]
pub(super) struct OfInject;

const NO_TRACES: &str = "instruction traces are decoded by perf inject";
const NO_GUESTS: &str = "recordings of guests are merged by perf inject";
const KERNEL: &str =
    "the kernel's symbols are looked for when a recording is read: prof report has this option";

#[rustfmt::skip] // a table
const OPTIONS: &[Refusal] = &[
    (None, "aslr", Value::None, "use perf inject; or send prof flamegraph or prof export, which hold no addresses"),
    (None, "guest-data", Value::Optional, NO_GUESTS),
    (None, "guestmount", Value::Needed, NO_GUESTS),
    (None, "ignore-vmlinux", Value::None, KERNEL),
    (None, "itrace", Value::Optional, NO_TRACES),
    (None, "kallsyms", Value::Needed, KERNEL),
    (None, "known-build-ids", Value::Needed, "build-ids are read from the files"),
    (None, "mmap2-buildid-all", Value::None, "use --buildid-all, whose list every perf reads"),
    (Some('B'), "mmap2-buildids", Value::None, "use -b, whose list every perf reads"),
    (None, "strip", Value::None, NO_TRACES),
    (None, "unwind-style", Value::Needed, "stacks are unwound by prof itself"),
    (Some('k'), "vmlinux", Value::Needed, KERNEL),
    (None, "vm-time-correlation", Value::Optional, NO_TRACES),
];

impl Refuses for OfInject {
    const COMMAND: &'static str = "inject";
    const OPTIONS: &'static [Refusal] = OPTIONS;
}

//! perf's options that prof does not have: refused by name with the reason,
//! never ignored.

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command, Error, FromArgMatches};

/// Letter (or none), name, whether it takes a value, and what to do instead.
const OPTIONS: &[(Option<char>, &str, Value, &str)] = &[
    (
        None,
        "affinity",
        Value::Needed,
        "the recorder's threads run where the scheduler puts them",
    ),
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
        Some('b'),
        "branch-any",
        Value::None,
        "branch stacks are not recorded, other than by --call-graph lbr",
    ),
    (None, "control", Value::Needed, "use -D and --duration"),
    (None, "data-mmap", Value::None, "use -d, which includes it"),
    (
        None,
        "debuginfod",
        Value::Optional,
        "prof report asks debuginfod, when told to",
    ),
    (
        None,
        "dry-run",
        Value::None,
        "use prof doctor and prof list",
    ),
    (
        None,
        "exclude-perf",
        Value::None,
        "the recorder's own samples can be left out in the report",
    ),
    (None, "filter", Value::Needed, "filter when reading"),
    (
        Some('j'),
        "branch-filter",
        Value::Needed,
        "branch stacks are not recorded, other than by --call-graph lbr",
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
    (Some('n'), "no-samples", Value::None, "use prof stat"),
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
        "off-cpu",
        Value::None,
        "use -e sched:sched_switch -g, or --switch-events",
    ),
    (
        None,
        "off-cpu-thresh",
        Value::Needed,
        "use -e sched:sched_switch -g, or --switch-events",
    ),
    (
        None,
        "overwrite",
        Value::None,
        "use --max-size or --duration",
    ),
    (
        None,
        "proc-map-timeout",
        Value::Needed,
        "mappings are read without a time limit",
    ),
    (Some('r'), "realtime", Value::Needed, "use chrt(1) for prof"),
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
    (None, "switch-max-files", Value::Needed, "use --max-size"),
    (None, "switch-output", Value::Optional, "use --max-size"),
    (None, "switch-output-event", Value::Needed, "use --max-size"),
    (
        None,
        "synth",
        Value::Needed,
        "what ran before is always told of",
    ),
    (
        None,
        "tail-synthesize",
        Value::None,
        "what ran before is told of at the start",
    ),
    (
        None,
        "threads",
        Value::Optional,
        "one thread drains all rings and another writes",
    ),
    (
        None,
        "timestamp-filename",
        Value::None,
        "put the time into -o",
    ),
    (
        None,
        "transaction",
        Value::None,
        "transaction flags are not recorded",
    ),
    (
        Some('u'),
        "uid",
        Value::Needed,
        "use -a and look at one user's processes in the report",
    ),
    (None, "vmlinux", Value::Needed, "prof report takes it"),
    (
        Some('z'),
        "compression-level",
        Value::Optional,
        "the file can be compressed afterwards, with zstd(1)",
    ),
];

/// Whether an option takes a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Value {
    None,
    Optional,
    Needed,
}

/// No value: parsing fails if one of the options was given.
#[derive(Debug, Clone, Copy)]
pub(super) struct Refused;

impl FromArgMatches for Refused {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        for (letter, name, _, instead) in OPTIONS {
            if matches.value_source(name) == Some(clap::parser::ValueSource::CommandLine) {
                let letter = letter.map_or(String::new(), |letter| format!("-{letter}, "));
                let text =
                    format!("prof record does not have perf's {letter}--{name}\n  {instead}\n");
                return Err(Error::raw(ErrorKind::UnknownArgument, text));
            }
        }
        Ok(Self)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        Self::from_arg_matches(matches).map(|_| ())
    }
}

impl clap::Args for Refused {
    fn augment_args(command: Command) -> Command {
        OPTIONS
            .iter()
            .fold(command, |command, &(letter, name, value, _)| {
                let mut arg = Arg::new(name).long(name).hide(true);
                if let Some(letter) = letter {
                    arg = arg.short(letter);
                }
                command.arg(match value {
                    Value::None => arg.action(ArgAction::SetTrue),
                    Value::Optional => arg
                        .num_args(0..=1)
                        .require_equals(true)
                        .default_missing_value("")
                        .action(ArgAction::Append),
                    Value::Needed => arg
                        .num_args(1)
                        .allow_hyphen_values(true)
                        .action(ArgAction::Append),
                })
            })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

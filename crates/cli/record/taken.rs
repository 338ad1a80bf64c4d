//! perf record's options that say how it is to work: a script may give them, and
//! is told what is done in any case.

use crate::refused::{Refusal, Value, given, with_options};
use clap::{ArgMatches, Command, Error, FromArgMatches};

#[rustfmt::skip] // a table
const OPTIONS: &[Refusal] = &[
    (None, "aio", Value::Optional, "writing never holds up the rings: another thread does it"),
    (None, "mmap-flush", Value::Needed, "rings are drained by time and fill level"),
    (None, "no-buffering", Value::None, "the file is at most a fifth of a second behind"),
    (None, "no-timestamp", Value::None, "each sample has its time, by which records are put in order"),
    (None, "num-thread-synthesize", Value::Needed, "one thread tells of what ran before"),
    (None, "off-cpu-thresh", Value::Needed, "with --off-cpu each wait has a sample of its own; --off-cpu-min leaves short ones out"),
    (None, "proc-map-timeout", Value::Needed, "mappings are read without a time limit"),
    (None, "tail-synthesize", Value::None, "what ran before is told at the start, in each file, where readers find it as well"),
    (None, "threads", Value::Optional, "one thread empties all rings into one file; --affinity says where it runs"),
];

/// Those of the options that were given.
#[derive(Debug, Clone, Default)]
pub(super) struct Taken(Vec<&'static Refusal>);

impl Taken {
    /// What to say of them.
    pub(super) fn notices(&self) -> impl Iterator<Item = String> {
        let told =
            |(_, name, _, instead): &&Refusal| format!("--{name} changes nothing: {instead}");
        self.0.iter().map(told)
    }
}

impl FromArgMatches for Taken {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Ok(Self(given(matches, OPTIONS).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl clap::Args for Taken {
    fn augment_args(command: Command) -> Command {
        with_options(command, OPTIONS)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

//! `--exclude-perf`, which holds for the events of the `-e` before it.

use crate::filters::events_before;
use crate::outcome::UsageError;
use clap::{Arg, ArgAction, ArgMatches, Command, Error, FromArgMatches};
use prof_record::events::EventSpec;

/// The number of `-e` before each.
#[derive(Debug, Clone, Default)]
pub(super) struct Excluded(Vec<usize>);

impl Excluded {
    /// Leaves the recorder out of the events of the `number`th `-e`, from 1, if
    /// that is asked for.
    pub(super) fn apply(&self, number: usize, specs: &mut [EventSpec]) -> Result<(), UsageError> {
        if !self.0.contains(&number) {
            return Ok(());
        }
        let mut excluded = specs.iter_mut().map(EventSpec::exclude_recorder);
        excluded
            .find_map(Result::err)
            .map_or(Ok(()), |error| Err(UsageError(error.to_string())))
    }

    /// Before any event it has none.
    pub(super) fn check(&self) -> Result<(), UsageError> {
        match self.0.contains(&0) {
            true => Err(UsageError(
                "--exclude-perf should follow the -e that it is for\n  \
                 try: -e SUBSYSTEM:TRACEPOINT --exclude-perf"
                    .to_owned(),
            )),
            false => Ok(()),
        }
    }
}

impl FromArgMatches for Excluded {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Ok(Self(events_before(matches, "exclude-perf")))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl clap::Args for Excluded {
    fn augment_args(command: Command) -> Command {
        command.arg(
            Arg::new("exclude-perf")
                .long("exclude-perf")
                .num_args(0)
                .default_missing_value("")
                .action(ArgAction::Append)
                .help(
                    "Of the tracepoints of the -e before, not what the recorder's own \
                     threads do",
                ),
        )
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

//! `--filter`, which holds for the events of the `-e` before it.

use crate::outcome::UsageError;
use clap::{Arg, ArgAction, ArgMatches, Command, Error, FromArgMatches};
use prof_record::events::EventSpec;

/// Each filter with the number of `-e` before it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Filters(Vec<(usize, String)>);

impl Filters {
    /// Gives the events of the `number`th `-e`, from 1, their filters.
    pub(crate) fn apply(&self, number: usize, specs: &mut [EventSpec]) -> Result<(), UsageError> {
        for (_, filter) in self.0.iter().filter(|(before, _)| *before == number) {
            for spec in specs.iter_mut() {
                spec.add_filter(filter)
                    .map_err(|error| UsageError(error.to_string()))?;
            }
        }
        Ok(())
    }

    /// A filter before any event has none.
    pub(crate) fn check(&self) -> Result<(), UsageError> {
        match self.0.iter().any(|(before, _)| *before == 0) {
            true => Err(UsageError(
                "--filter should follow the -e that it is for\n  \
                 try: -e SUBSYSTEM:TRACEPOINT --filter 'FIELD == NUMBER'"
                    .to_owned(),
            )),
            false => Ok(()),
        }
    }
}

/// The values of an option, each with the number of `-e` before it.
pub(crate) fn after_events(matches: &ArgMatches, option: &str) -> Vec<(usize, String)> {
    let texts = matches.get_many::<String>(option).into_iter().flatten();
    let before = events_before(matches, option).into_iter();
    before.zip(texts.cloned()).collect()
}

/// The number of `-e` before each time that an option was given.
pub(crate) fn events_before(matches: &ArgMatches, option: &str) -> Vec<usize> {
    let places =
        |name: &str| -> Vec<usize> { matches.indices_of(name).into_iter().flatten().collect() };
    let events = places("event");
    let before = |at| events.iter().filter(|&&event| event < at).count();
    places(option).into_iter().map(before).collect()
}

impl FromArgMatches for Filters {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Ok(Self(after_events(matches, "filter")))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl clap::Args for Filters {
    fn augment_args(command: Command) -> Command {
        command.arg(
            Arg::new("filter")
                .long("filter")
                .value_name("CONDITION")
                .action(ArgAction::Append)
                .help(
                    "Only what this holds for, of the tracepoints of the -e before: \
                     'prev_pid == 0 && next_comm ~ \"k*\"'; several must all hold",
                ),
        )
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

//! perf's options that a command of ours does not have: refused by name with
//! the reason, never ignored.

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command, Error, FromArgMatches};
use std::marker::PhantomData;

/// Letter (or none), name, whether it takes a value, and what to do instead.
pub(crate) type Refusal = (Option<char>, &'static str, Value, &'static str);

/// Whether an option takes a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value {
    /// It never does.
    None,
    /// It may, behind an equals sign.
    Optional,
    /// It does.
    Needed,
}

/// A command and the options that it refuses.
pub(crate) trait Refuses {
    /// Its name.
    const COMMAND: &'static str;
    /// The options.
    const OPTIONS: &'static [Refusal];
}

/// No value: parsing fails if one of the options was given.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Refused<R>(PhantomData<R>);

/// Those of the options that were given.
pub(crate) fn given(
    matches: &ArgMatches,
    options: &'static [Refusal],
) -> impl Iterator<Item = &'static Refusal> {
    let on_line = Some(clap::parser::ValueSource::CommandLine);
    let is_given = move |(_, name, ..): &&Refusal| matches.value_source(name) == on_line;
    options.iter().filter(is_given)
}

/// The command with the options, which help does not show.
pub(crate) fn with_options(command: Command, options: &'static [Refusal]) -> Command {
    options
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

impl<R: Refuses> FromArgMatches for Refused<R> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let Some((letter, name, _, instead)) = given(matches, R::OPTIONS).next() else {
            return Ok(Self(PhantomData));
        };
        let letter = letter.map_or(String::new(), |letter| format!("-{letter}, "));
        let command = R::COMMAND;
        let text = format!("prof {command} does not have perf's {letter}--{name}\n  {instead}\n");
        Err(Error::raw(ErrorKind::UnknownArgument, text))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        Self::from_arg_matches(matches).map(|_| ())
    }
}

impl<R: Refuses> clap::Args for Refused<R> {
    fn augment_args(command: Command) -> Command {
        with_options(command, R::OPTIONS)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

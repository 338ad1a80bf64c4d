//! `prof`: a sampling profiler for Linux, built on perf_event_open(2).
//!
//! This crate is thin: flags become options of the library crates, their
//! results go to stdout, everything else to stderr, and errors become text and
//! an exit code. One file per command; nothing else prints or exits.
#![allow(
    rustdoc::broken_intra_doc_links,
    reason = "help texts of options show brackets as perf's do"
)]

mod ab;
mod annotate;
mod archive;
mod attached;
mod beside;
mod brief;
mod buildid_list;
mod cgroups;
mod check;
mod chosen;
mod clock;
mod cpu_list;
mod demo;
mod diff;
mod doctor;
mod dump;
mod embed;
mod evlist;
mod export;
mod fetching;
mod fifo;
mod filters;
mod flamegraph;
mod foreign;
mod generate;
mod hottest;
mod inject;
mod input;
mod list;
mod named;
mod near;
mod negated;
mod outcome;
mod pager;
mod percent;
mod progress;
mod push;
mod recognise;
mod record;
mod recording;
mod refused;
mod report;
mod runs;
mod script;
mod share;
mod spool;
mod stat;
mod switching;
mod to_type;
mod tui;
mod whose;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use outcome::Outcome;
use prof_sys::{out_of_memory, shrunk, signal, stack};
use std::ffi::{OsStr, OsString};
use std::panic::{self, AssertUnwindSafe};
use std::process::ExitCode;

/// A sampling profiler for Linux.
#[derive(Debug, Parser)]
#[command(name = "prof", version, max_term_width = 100)]
#[command(infer_long_args = true, args_override_self = true)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  prof record -F 999 -g ./app    record call stacks 999 times a second
  prof report                    look at perf.data
  prof flamegraph > out.svg      draw it
  prof flamegraph -- ./app       record and draw flamegraph.svg in one go";

/// The commands. A new one is a file with `Args` and `run`, and a line in the
/// list below.
macro_rules! commands {
    ($($(#[$about:meta])* $name:ident = $file:ident;)*) => {
        // Options of a command are made when it is named: with those of all
        // commands, half of the time of a short one would be theirs.
        #[derive(Debug, Subcommand)]
        #[command(defer = true)]
        enum Command {
            $($(#[$about])* $name(Box<$file::Args>),)*
        }

        /// What makes the options of each command, in the order of the list.
        const OPTIONS: &[fn(clap::Command) -> clap::Command] =
            &[$(<$file::Args as clap::Args>::augment_args,)*];

        impl Command {
            fn run(self) -> anyhow::Result<Outcome> {
                match self {
                    $(Self::$name(args) => $file::run(*args),)*
                }
            }
        }
    };
}

// In the order in which a newcomer needs them.
commands! {
    Record = record;
    Report = report;
    Flamegraph = flamegraph;
    Annotate = annotate;
    Script = script;
    Diff = diff;
    Ab = ab;
    Check = check;
    Stat = stat;
    List = list;
    Doctor = doctor;
    Demo = demo;
    Archive = archive;
    Export = export;
    Push = push;
    Inject = inject;
    Dump = dump;
    Evlist = evlist;
    #[command(name = "buildid-list")]
    BuildidList = buildid_list;
    Generate = generate;
}

/// The command line with the options of all commands.
pub(crate) fn whole() -> clap::Command {
    with_options(|_| true)
}

/// The command line as `words` are parsed: with the options of the command that is
/// named, or of all where none is.
fn parser(named: Option<&OsStr>, words: &[OsString]) -> clap::Command {
    let cli = with_options(|command| named.is_none_or(|name| name == command));
    let is_there = |name| {
        cli.get_subcommands()
            .any(|command| name == command.get_name())
    };
    if named.is_some_and(|name| !is_there(name)) {
        return parser(None, words);
    }
    let cli = negated::with_negations(brief::shortened(cli), words);
    brief::with_negative_numbers(cli)
}

/// The command line with the options of some commands.
fn with_options(is_wanted: impl Fn(&str) -> bool) -> clap::Command {
    let mut options = OPTIONS.iter();
    Cli::command().mut_subcommands(|command| match options.next() {
        // Nothing is left to be made later.
        Some(add) if is_wanted(command.get_name()) => add(command.defer(|made| made)),
        _ => command,
    })
}

fn main() -> ExitCode {
    stack::with_enough(whole_run)
}

fn whole_run() -> ExitCode {
    // Without these such faults still end the process, only without a word.
    let _ = out_of_memory::explain();
    let _ = shrunk::explain();
    let _ = signal::outlive_size_limits();
    // Usage errors exit 2; help and versions 0, where they could be written.
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let parser = parser(arguments.get(1).map(OsString::as_os_str), &arguments);
    let arguments = attached::with_signs(&parser, arguments);
    let matches = parser.try_get_matches_from(arguments);
    let cli = matches.and_then(|matches| Cli::from_arg_matches(&matches));
    let cli = cli.unwrap_or_else(|error| match to_type::instead(&error) {
        Some(message) => {
            outcome::say(&message);
            std::process::exit(2)
        }
        None => outcome::end_by(&error),
    });
    let command = AssertUnwindSafe(|| cli.command.run());
    match panic::catch_unwind(command) {
        Ok(Ok(outcome)) => outcome.exit_code(),
        Ok(Err(error)) => outcome::explain(&error),
        // Libraries panic where they get no memory.
        Err(_) if out_of_memory::is_near() => outcome::out_of_memory(),
        Err(fault) => panic::resume_unwind(fault),
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    /// The parser of a line with an option that no command has by that name, so that
    /// all has its negations.
    fn whole_parser(named: Option<&str>) -> clap::Command {
        super::parser(
            named.map(AsRef::as_ref),
            &[OsString::from("--no-such-option")],
        )
    }

    #[test]
    fn the_flags_of_all_commands_are_consistent() {
        whole_parser(None).debug_assert();
    }

    #[test]
    fn a_command_that_is_named_has_its_options_and_others_have_none() {
        let whole = whole_parser(None);
        for of_all in whole.get_subcommands() {
            let name = of_all.get_name();
            let cli = whole_parser(Some(name));
            for command in cli.get_subcommands() {
                let ids = |command: &clap::Command| -> Vec<String> {
                    command
                        .get_arguments()
                        .map(|arg| arg.get_id().to_string())
                        .collect()
                };
                let is_named = command.get_name() == name;
                let expected = if is_named { ids(of_all) } else { Vec::new() };
                assert_eq!(ids(command), expected, "{name}: {}", command.get_name());
            }
        }
        let unknown = whole_parser(Some("no-such-command"));
        let record = unknown.find_subcommand("record").expect("a command");
        assert!(record.get_arguments().count() > 20);
        // What stands at the options of a command is that of the command.
        let examples = whole
            .find_subcommand("generate")
            .and_then(clap::Command::get_after_help);
        assert!(examples.is_some());
    }
}

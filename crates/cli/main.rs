//! `prof`: a sampling profiler for Linux, built on perf_event_open(2).
//!
//! This crate is thin: flags become options of the library crates, their
//! results go to stdout, everything else to stderr, and errors become text and
//! an exit code. One file per command; nothing else prints or exits.
#![allow(
    rustdoc::broken_intra_doc_links,
    reason = "help texts of options show brackets as perf's do"
)]

mod annotate;
mod code_source;
mod demo;
mod doctor;
mod dump;
mod flamegraph;
mod generate;
mod input;
mod list;
mod outcome;
mod pager;
mod progress;
mod record;
mod recording;
mod refused;
mod report;
mod rust_source;
mod script;
mod stat;
mod tui;
mod whose;

use clap::{Parser, Subcommand};
use outcome::Outcome;
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
  prof flamegraph -- ./app       record and draw in one go";

/// The commands, each with its own file.
#[derive(Debug, Subcommand)]
enum Command {
    Annotate(annotate::Args),
    Demo(demo::Args),
    Doctor(doctor::Args),
    Dump(dump::Args),
    Flamegraph(Box<flamegraph::Args>),
    #[command(hide = true)]
    Generate(generate::Args),
    List(list::Args),
    Record(Box<record::Args>),
    Report(Box<report::Args>),
    Script(Box<script::Args>),
    Stat(Box<stat::Args>),
}

impl Command {
    fn run(self) -> anyhow::Result<Outcome> {
        match self {
            Self::Annotate(args) => annotate::run(&args),
            Self::Demo(args) => demo::run(&args),
            Self::Doctor(args) => doctor::run(&args),
            Self::Dump(args) => dump::run(&args),
            Self::Flamegraph(args) => flamegraph::run(&args),
            Self::Generate(args) => generate::run(&args),
            Self::List(args) => list::run(&args),
            Self::Record(args) => record::run(&args),
            Self::Script(args) => script::run(&args),
            Self::Report(args) => report::run(&args),
            Self::Stat(args) => stat::run(&args),
        }
    }
}

fn main() -> ExitCode {
    // Usage errors exit 2 and help exits 0, both by clap.
    let cli = Cli::parse();
    // Without it such a fault still ends the process, only without a word.
    let _ = prof_sys::shrunk::explain();
    match cli.command.run() {
        Ok(outcome) => outcome.exit_code(),
        Err(error) => outcome::explain(&error),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_flags_of_all_commands_are_consistent() {
        super::Cli::command().debug_assert();
    }
}

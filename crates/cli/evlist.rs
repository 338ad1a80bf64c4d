//! `prof evlist`: the events of a recording.

use crate::outcome::{Outcome, UsageError};
use crate::recording::Input;
use prof_listing::events::{EventDetail, has_tracepoints, list_events, list_groups};
use std::io::{self, Write};

const EXAMPLES: &str = "\
Examples:
  prof evlist                    the events of perf.data
  prof evlist -v -i old.data     with everything that was asked of the kernel
  prof evlist -g                 groups in braces";

/// List the events of a recording
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    /// The frequency or period of samples
    #[arg(short = 'F', long)]
    freq: bool,
    /// All that was asked of the kernel
    #[arg(short, long)]
    verbose: bool,
    /// Groups in braces
    #[arg(short, long)]
    group: bool,
    /// The fields of tracepoints
    #[arg(long)]
    trace_fields: bool,
}

/// Writes the list to stdout.
pub(crate) fn run(args: Args) -> anyhow::Result<Outcome> {
    if args.group && (args.freq || args.verbose) {
        let both = "-g lists groups, which have neither attrs nor a frequency\n  try: without -g";
        return Err(UsageError(both.to_owned()).into());
    }
    let mut reader = args.input.open()?;
    let mut text = if args.group {
        list_groups(&mut reader)?
    } else {
        let detail = EventDetail {
            attrs: args.verbose,
            frequency: args.freq,
            fields: args.trace_fields,
        };
        list_events(&mut reader, detail)?
    };
    if has_tracepoints(&reader) && !args.trace_fields {
        text.push_str(
            "# Tip: use 'prof evlist --trace-fields' to show fields for tracepoint events\n",
        );
    }
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    Ok(args.input.say_damages(&reader))
}

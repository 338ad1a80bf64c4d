//! `prof stat report`: what a file of counts holds.

use super::Args;
use super::choice::separator_of;
use super::together::Together;
use crate::outcome::{Outcome, say};
use crate::recording::Input;
use anyhow::Context;
use clap::Parser;
use prof_stat::{Form, Mode, ReportOptions};
use std::ffi::OsString;
use std::io::{self, Write};

/// Show the counts of a file that prof stat record or perf stat record wrote.
#[derive(Debug, Parser)]
#[command(
    name = "prof stat report",
    infer_long_args = true,
    args_override_self = true
)]
struct ReportArgs {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    together: Together,
    /// Lines for each thread.
    #[arg(long)]
    per_thread: bool,
    /// Digits in groups of three.
    #[arg(short = 'B', long)]
    big_num: bool,
    /// Fields with this between them, for programs.
    #[arg(short = 'x', long, value_name = "TEXT")]
    field_separator: Option<String>,
    /// JSON, an object per line.
    #[arg(short, long)]
    json: bool,
}

/// Writes the counts to stdout.
pub(super) fn report(outer: &Args) -> anyhow::Result<Outcome> {
    let words = outer.command.iter().skip(1);
    let name = OsString::from("prof stat report");
    let parsed = ReportArgs::try_parse_from(std::iter::once(&name).chain(words));
    let args = parsed.unwrap_or_else(|error| error.exit());
    let mut reader = args.input.open()?;
    let threads = args.per_thread.then_some(Mode::Thread);
    let options = ReportOptions {
        mode: threads.or(args.together.modes().last()),
        form: match (args.field_separator, args.json || outer.json) {
            (_, true) => Form::Json,
            (Some(separator), false) => Form::Separated(separator_of(&separator)),
            (None, false) => Form::Text {
                grouped: args.big_num,
            },
        },
    };
    let reported = prof_stat::report(&mut reader, &options).with_context(|| args.input.name())?;
    if reported.is_of_tasks {
        say("tasks were counted, not CPUs: all counts are put together");
    }
    if reported.has_no_threads && args.per_thread {
        say("threads were not counted apart: all counts are put together");
    }
    let mut stdout = io::stdout().lock();
    stdout
        .write_all(reported.text.as_bytes())
        .context("cannot write to stdout")?;
    Ok(args.input.say_damages(&reader))
}

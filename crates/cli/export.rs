//! `prof export`: a recording as a file of another tool.

mod branches;

use crate::beside::Beside;
use crate::chosen::{ChosenSamples, event_of};
use crate::clock::ClockOption;
use crate::input::NameOptions;
use crate::named::one_of;
use crate::outcome::{Outcome, UsageError, say};
use crate::recording::Input;
use crate::report::emptiness::check_cause;
use crate::report::emptiness::say_unseen_time;
use anyhow::Context;
use clap::builder::TypedValueParser;
use prof_export::{Choice, ExportError, ExportFormat, MadeOf, export};
use prof_profile::{Counting, Profile, Redaction};
use prof_symbolize::Detail;
use std::ffi::OsString;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

/// Write a recording as a file of another tool: pprof, speedscope, callgrind and more.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    clock: ClockOption,
    #[command(flatten)]
    names: NameOptions,
    /// What to write [default: as the name of FILE ends, else pprof]
    #[arg(long, value_name = "FORMAT", value_parser = formats())]
    format: Option<ExportFormat>,
    /// Where to write it [default: profile with the format's end on a terminal, else standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Only these events [default: all]
    #[arg(short, long, value_name = "EVENT", value_delimiter = ';')]
    event: Vec<String>,
    #[command(flatten)]
    chosen: ChosenSamples,
    /// Take out folders of files, the recorder's arguments and the host's name
    #[arg(long)]
    redact: bool,
    /// A recording to export, as -i FILE
    #[arg(value_name = "RECORDING")]
    words: Vec<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  prof export -o cpu.pb.gz                  for go tool pprof -http=: cpu.pb.gz
  prof export -o app.speedscope.json        for speedscope.app
  prof export -o callgrind.out.app          for kcachegrind, callgrind_annotate
  prof export --format folded | less        a line a stack
  prof export -o app.profgen                for llvm-profgen --perfscript=app.profgen
  prof export -o app.preagg                 for perf2bolt -pa -p app.preagg

What a format cannot hold is said on stderr; docs/exports.md has all of it.
Perfetto (ui.perfetto.dev) opens perf.data itself.";

/// Takes the name of a format.
fn formats() -> impl TypedValueParser<Value = ExportFormat> {
    one_of(ExportFormat::all().map(|format| (format, format.name(), format.about())))
}

/// Exports.
pub(crate) fn run(args: Args) -> anyhow::Result<Outcome> {
    let mut args = args;
    for word in std::mem::take(&mut args.words) {
        if let Some(text) = args.input.or_text(word)? {
            return Err(UsageError(no_recording(&text)).into());
        }
    }
    args.input = args.clock.of(&args.input);
    let format = args.chosen_format()?;
    let spooled = match format.made_of() {
        MadeOf::Samples => None,
        // What has branches is looked for first.
        MadeOf::Branches | MadeOf::Records => crate::spool::twice_readable(&args.input)?,
    };
    let mut input = spooled
        .as_ref()
        .map_or(&args.input, |spooled| &spooled.input)
        .clone();
    let symbolizer = args.names.symbolizer();
    let detail = match format.made_of() {
        MadeOf::Samples => args.names.detail(),
        // Addresses alone.
        MadeOf::Branches | MadeOf::Records => Detail::Symbol,
    };
    if format.made_of() != MadeOf::Samples {
        branches::check(&input, format)?;
    }
    if format.made_of() == MadeOf::Branches {
        input.counting = Some(Counting::Branches);
    }
    let (profile, outcome) = input.load_with(detail, &symbolizer)?;
    check_cause(&profile, &input.name())?;
    say_unseen_time(&profile);
    let told = match format.made_of() {
        MadeOf::Records => args.put(format, |out| {
            args.write_records(&input, (&profile, &symbolizer), out)
        })?,
        MadeOf::Samples | MadeOf::Branches => {
            // All names are in the profile; the tables they came from are large.
            drop(symbolizer);
            args.put_profile(format, profile)?
        }
    };
    say(&format!(
        "{} does not hold {}",
        format.name(),
        format.left_out()
    ));
    told.iter().for_each(|line| say(line));
    Ok(outcome)
}

/// Writes a file beside the target, which gets the name when it is whole.
fn write_file(
    path: &Path,
    write: impl FnOnce(&mut dyn Write) -> anyhow::Result<Vec<String>>,
) -> anyhow::Result<Vec<String>> {
    let cannot = || format!("cannot write {}", path.display());
    let beside = Beside::new(path).with_context(cannot)?;
    let mut out = BufWriter::with_capacity(1 << 16, &beside.file);
    let told = match write(&mut out) {
        Err(error) if error.is::<io::Error>() => return Err(error).with_context(cannot),
        other => other?,
    };
    out.flush().with_context(cannot)?;
    drop(out);
    beside.named().with_context(cannot)?;
    Ok(told)
}

/// That a word is no recording: a format, perhaps.
fn no_recording(text: &str) -> String {
    let mut names = ExportFormat::all().map(|format| format.name());
    let named = match text {
        "collapsed" => Some("folded"),
        text => names.find(|name| *name == text),
    };
    match named {
        Some(name) => format!("{text} is no recording\n  try: prof export --format {name}"),
        None => format!("{text} is no recording\n  try: prof export -i FILE"),
    }
}

fn explained(error: ExportError) -> anyhow::Error {
    match error {
        ExportError::Io(error) => error.into(),
        other => other.into(),
    }
}

impl Args {
    /// Writes to the file or standard output; what is to be told of it.
    fn put(
        &self,
        format: ExportFormat,
        write: impl FnOnce(&mut dyn Write) -> anyhow::Result<Vec<String>>,
    ) -> anyhow::Result<Vec<String>> {
        if let Some(path) = self.target(format) {
            let told = write_file(&path, write)?;
            say(&format!("wrote {}", path.display()));
            return Ok(told);
        }
        let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
        let told = write(&mut out)?;
        out.flush()?;
        Ok(told)
    }

    /// The same of what is made of a profile.
    fn put_profile(
        &self,
        format: ExportFormat,
        mut profile: Profile,
    ) -> anyhow::Result<Vec<String>> {
        if self.redact {
            profile.redact(&Redaction::default());
        }
        let mut choice = self.choice(&profile)?;
        // What is called JSON is read as such.
        let mut output = self.output.iter();
        choice.is_plain = output.any(|path| path.extension().is_some_and(|end| end == "json"));
        self.put(format, |out| {
            export(&profile, format, &choice, out).map_err(explained)
        })
    }
}

impl Args {
    fn chosen_format(&self) -> anyhow::Result<ExportFormat> {
        let named = self.output.as_deref().and_then(ExportFormat::of_name);
        match (self.format, named, &self.output) {
            (Some(asked), Some(named), Some(path)) if asked != named => {
                let (path, asked, named) = (path.display(), asked.name(), named.name());
                let message = format!(
                    "{path} is called as {named} is, but would hold {asked}\n  \
                     try: --format {named}, or another name"
                );
                Err(UsageError(message).into())
            }
            (None, None, Some(path)) if path != Path::new("-") && !path.starts_with("/dev") => {
                let names: Vec<&str> = ExportFormat::all().map(ExportFormat::name).collect();
                let message = format!(
                    "{} does not tell the format by its end\n  try: --format {}",
                    path.display(),
                    names.join(", or ")
                );
                Err(UsageError(message).into())
            }
            (asked, named, _) => Ok(asked.or(named).unwrap_or(ExportFormat::Pprof)),
        }
    }

    /// The file to write; `None` for standard output.
    fn target(&self, format: ExportFormat) -> Option<PathBuf> {
        match &self.output {
            Some(path) if path == Path::new("-") => None,
            Some(path) => Some(path.clone()),
            None if io::stdout().is_terminal() && !format.is_text() => {
                Some(format!("profile{}", format.end()).into())
            }
            None => None,
        }
    }

    fn choice(&self, profile: &Profile) -> anyhow::Result<Choice> {
        let mut choice = Choice {
            pids: self.chosen.pid.clone(),
            tids: self.chosen.tid.clone(),
            comms: self.chosen.comms.clone(),
            cpus: self.chosen.cpus(profile)?,
            times: self.chosen.times(profile)?,
            ..Choice::default()
        };
        for name in &self.event {
            choice.events.push(event_of(profile, name)?);
        }
        Ok(choice)
    }
}

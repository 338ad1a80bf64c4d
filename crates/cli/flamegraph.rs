//! `prof flamegraph`: a recording as a picture.

pub(crate) mod diff;

use crate::beside::replace;
use crate::chosen::{ChosenSamples, event_of};
use crate::clock::{ClockOption, IdleOption};
use crate::input::NameOptions;
use crate::named::one_of;
use crate::outcome::{Outcome, UsageError, say};
use crate::recognise::{is_profile, is_recording};
use crate::record;
use crate::recording::Input;
use crate::report::emptiness::check_cause;
use crate::report::emptiness::say_unseen_time;
use anyhow::Context;
use clap::Parser;
use clap::builder::TypedValueParser;
use prof_profile::{EventId, Profile, Redaction};
use prof_report::model::Selection;
use prof_report::picture::{PictureError, PictureFormat, PictureOptions, Roots, SVG, Scheme};
use std::ffi::OsString;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::{Path, PathBuf};

/// Draw a recording as a flame graph; or record a command and draw it in one go.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    input: Input,
    #[command(flatten)]
    clock: ClockOption,
    #[command(flatten)]
    idle: IdleOption,
    #[command(flatten)]
    names: NameOptions,
    /// Where to write it [default: flamegraph.svg with COMMAND, whose standard output is its own,
    /// and on a terminal; else standard output]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// What to write [default: as the name of FILE ends, else svg]
    #[arg(long, value_name = "FORMAT", value_parser = formats())]
    format: Option<PictureFormat>,
    /// Turn stacks around: functions first, then who called them
    #[arg(long)]
    reverse: bool,
    /// Draw callers on top (an icicle graph)
    #[arg(long)]
    inverted: bool,
    /// Title of the picture
    #[arg(long, value_name = "TEXT")]
    title: Option<String>,
    /// Width in pixels [default: as wide as the window]
    #[arg(long, value_name = "PIXELS", value_parser = clap::value_parser!(u32).range(100..=100_000))]
    width: Option<u32>,
    /// Do not draw frames of a smaller share, percent
    #[arg(long, value_name = "PERCENT", default_value_t = 0.01, value_parser = crate::share::percent)]
    min_width: f64,
    /// What colours tell: kind (user, inlined, run-time code, kernel, waiting), dso or hot (nothing)
    #[arg(long, value_name = "SCHEME", default_value = "kind")]
    colors: Scheme,
    /// In folded stacks, too, end those of waits with what was waited for, as pictures do
    /// (blocked: futex)
    #[arg(long, conflicts_with = "diff")]
    states: bool,
    /// What stacks stand on: names of threads (comm), process, thread, cpu, dso
    /// or none
    #[arg(long, value_name = "WHAT", default_value = "comm")]
    by: Roots,
    /// As --by thread
    #[arg(long, hide = true, conflicts_with_all = ["per_process", "by"])]
    per_thread: bool,
    /// As --by process
    #[arg(long, hide = true, conflicts_with = "by")]
    per_process: bool,
    /// As --by none
    #[arg(long, hide = true, conflicts_with_all = ["per_thread", "per_process", "by"])]
    no_comm: bool,
    /// The event to draw [default: the first with samples]
    #[arg(short, long, value_name = "EVENT")]
    event: Option<String>,
    #[command(flatten)]
    chosen: ChosenSamples,
    /// Take out folders of files, the recorder's arguments and the host's name
    #[arg(long)]
    redact: bool,
    /// Samples a second (Hz), or max, when recording COMMAND
    #[arg(
        short = 'F',
        long = "freq",
        value_name = "HZ",
        default_value = "999",
        requires = "command"
    )]
    freq: String,
    /// Draw what changed between two recordings: coloured by how much, grey what is not sure; several
    /// of a side, with commas between them, tell how much runs differ. A function of another name is
    /// recognised as by prof diff, and drawn as NEW (was OLD)
    #[arg(long, num_args = 2, value_names = ["BEFORE", "AFTER"], conflicts_with_all = ["words", "command", "reverse", "time", "comms", "cpu"])]
    diff: Vec<PathBuf>,
    /// A recording to draw, as -i FILE
    #[arg(value_name = "RECORDING")]
    words: Vec<OsString>,
    /// Record this with call stacks, write perf.data (or -i FILE), and draw it
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

const EXAMPLES: &str = "\
Examples:
  prof flamegraph > out.svg              draw perf.data
  prof flamegraph -- ./app arg           record ./app, draw it to flamegraph.svg
  prof flamegraph -o out.html            a page to send: graph, table, tree, filters
  prof flamegraph --format folded | …    stacks for another tool
  prof flamegraph --diff old.data new.data > diff.svg
                                         what got slower, and what is sure";

/// Takes the name of a format.
fn formats() -> impl TypedValueParser<Value = PictureFormat> {
    one_of(
        PictureFormat::ALL
            .into_iter()
            .map(|format| (format, format.end(), format.about())),
    )
}

/// `prof record` as it is called for a picture.
#[derive(Debug, clap::Parser)]
#[command(no_binary_name = true)]
struct Recorder {
    #[command(flatten)]
    args: record::Args,
}

/// Draws.
pub(crate) fn run(args: Args) -> anyhow::Result<Outcome> {
    let args = &args.with_words()?;
    let format = args.picture_format()?;
    if !args.diff.is_empty() {
        let (drawn, outcome) = diff::drawn(args, format)?;
        write(args, &drawn, None)?;
        return Ok(outcome);
    }
    let recorded = args.record()?;
    if let Some(Outcome::Code(126 | 127)) = recorded {
        return Ok(recorded.unwrap_or(Outcome::Done));
    }
    let symbolizer = args.names.symbolizer();
    let (mut profile, outcome) = args
        .idle
        .of(args.clock.of(&args.input))
        .load(&args.names, &symbolizer)?;
    check_cause(&profile, &args.input.name())?;
    // All names are in the profile; the tables they came from are large.
    drop(symbolizer);
    if args.redact {
        profile.redact(&Redaction::default());
    }
    let options = args.options(&profile)?;
    // Of waits, the innermost frame would be in none of the dsos.
    let may_have_states = options.roots != Roots::Dso;
    if args.states && !may_have_states {
        say("--by dso shows no states of waits (--states)");
    }
    if (args.states || !format.is_text()) && may_have_states {
        profile.show_wait_states();
    }
    if format.is_text() {
        say_unseen_time(&profile);
    }
    let drawn = format.draw(&profile, &options).map_err(explained)?;
    write(args, &drawn, recorded)?;
    Ok(match recorded {
        Some(ended) if outcome == Outcome::Done => ended,
        _ => outcome,
    })
}

/// Writes the picture to its file or to standard output.
fn write(args: &Args, drawn: &[u8], recorded: Option<Outcome>) -> anyhow::Result<()> {
    match &args.target(recorded.is_some()) {
        Some(path) => {
            replace(path, drawn).with_context(|| format!("cannot write {}", path.display()))?;
            say(&wrote(path, args));
        }
        None => {
            let mut out = BufWriter::new(io::stdout().lock());
            out.write_all(drawn).and_then(|()| out.flush())?;
        }
    }
    Ok(())
}

fn explained(error: PictureError) -> anyhow::Error {
    match error {
        PictureError::Io(error) => error.into(),
        other => other.into(),
    }
}

/// What a command has to stand behind to be recorded.
fn unrecorded(words: &[OsString]) -> anyhow::Error {
    let command: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    let command = command.join(" ");
    let message = format!(
        "{command} is no recording\n  try: prof flamegraph -- {command}   (records and draws it)"
    );
    UsageError(message).into()
}

/// Where the picture is. Whoever sent standard output to a file may look for
/// it there, where the command's output is.
fn wrote(path: &Path, args: &Args) -> String {
    let path = path.display();
    if args.command.is_empty() || args.output.is_some() || io::stdout().is_terminal() {
        return format!("wrote {path}");
    }
    format!("wrote {path}; standard output is the command's, -o FILE names another file")
}

impl Args {
    /// What is drawn: as asked for, else as the name of the file ends.
    fn picture_format(&self) -> anyhow::Result<PictureFormat> {
        let name = self.output.as_deref().unwrap_or(Path::new("-"));
        let named = PictureFormat::of_name(name, self.format)
            .map_err(|wrong| UsageError(wrong.to_string()))?;
        Ok(self.format.or(named).unwrap_or(SVG))
    }

    /// Takes an argument that is a recording for the one to draw.
    fn with_words(mut self) -> anyhow::Result<Self> {
        let words = std::mem::take(&mut self.words);
        match words.as_slice() {
            [] => {}
            [file]
                if self.command.is_empty()
                    && (is_recording(Path::new(file)) || is_profile(Path::new(file))) =>
            {
                self.input.or_text(file.clone())?;
            }
            _ => return Err(unrecorded(&words)),
        }
        Ok(self)
    }

    /// Records the command, if there is one.
    fn record(&self) -> anyhow::Result<Option<Outcome>> {
        if self.command.is_empty() {
            return Ok(None);
        }
        if self.output.as_deref() == Some(Path::new("-")) {
            let why = "-o - would mix the picture with what the command writes\n  \
                       try: -o flamegraph.svg";
            return Err(UsageError(why.into()).into());
        }
        let mut words: Vec<OsString> = ["-g", "-F"].map(OsString::from).to_vec();
        words.push(self.freq.clone().into());
        words.push("-o".into());
        words.push(self.input.path.clone().into());
        if let Some(event) = &self.event {
            words.extend(["-e".into(), event.into()]);
        }
        words.push("--".into());
        words.extend(self.command.iter().cloned());
        let recorder = Recorder::try_parse_from(words)
            .map_err(|error| UsageError(error.to_string().trim().to_owned()))?;
        record::run(recorder.args).map(Some)
    }

    /// The file to write; `None` for standard output. What a recorded
    /// command writes there must not be mixed with the picture.
    fn target(&self, has_recorded: bool) -> Option<PathBuf> {
        match &self.output {
            Some(path) if path == Path::new("-") => None,
            Some(path) => Some(path.clone()),
            None if has_recorded || io::stdout().is_terminal() => {
                let format = self.format.unwrap_or(SVG);
                if format.is_text() && !has_recorded {
                    return None;
                }
                let end = format.end();
                Some(format!("flamegraph.{end}").into())
            }
            None => None,
        }
    }

    fn options(&self, profile: &Profile) -> anyhow::Result<PictureOptions> {
        if !(0.0..=100.0).contains(&self.min_width) {
            return Err(UsageError("--min-width is a share between 0 and 100".into()).into());
        }
        let (filter, scope) = self.chosen.seen(profile)?;
        let selection = Selection {
            event: self.event(profile)?,
            filter,
            scope,
            inlines: !self.names.no_inline,
            ..Selection::default()
        };
        let roots = if self.per_thread {
            Roots::Thread
        } else if self.per_process {
            Roots::Process
        } else if self.no_comm {
            Roots::None
        } else {
            self.by
        };
        Ok(PictureOptions {
            selection,
            roots,
            title: self.title.clone(),
            width: self.width.map(|width| width as usize),
            min_width: self.min_width,
            is_inverted: self.inverted,
            is_reversed: self.reverse,
            scheme: self.colors,
        })
    }

    /// The event that was asked for, or the first with samples.
    fn event(&self, profile: &Profile) -> anyhow::Result<EventId> {
        if let Some(name) = &self.event {
            return event_of(profile, name);
        }
        let mut events = profile.events.iter();
        let index = events.position(|event| event.samples > 0).unwrap_or(0);
        Ok(EventId(u16::try_from(index).unwrap_or(0)))
    }
}

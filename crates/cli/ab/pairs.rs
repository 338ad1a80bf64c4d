//! The runs of a trial: made, recorded, read back.

use super::order::Order;
use super::telling::Telling;
use super::{Args, usage};
use crate::beside::replace;
use crate::flamegraph::diff::{Drawing, DrawnSide};
use crate::record;
use crate::runs::{functions_of, input, shown_events};
use anyhow::{Context, bail};
use clap::Parser;
use prof_compare::{Comparison, ComparisonOptions, Measure, MeasureUnit, Run, Trial};
use prof_profile::EventId;
use prof_record::options::Options;
use prof_record::{CommandUsed, EndedBy, RecordError};
use prof_report::picture::{FOLDED, PictureFormat, SVG};
use prof_statistics::{LOOKS, Pairing, is_look, level_of_a_look};
use prof_symbolize::{Detail, Sources, Symbolizer};
use prof_sys::Surroundings;
use prof_sys::process::Ended as CommandEnded;
use prof_sys::signal::SignalFd;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Why no more runs are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// All were made, or it is sure.
    Done,
    /// There was no more time, or no more looks.
    Limit,
    /// By the user.
    Interrupted,
}

const NAMES: [&str; 2] = ["before", "after"];
/// Where nobody said how long it may take.
const TIME_LIMIT: Duration = Duration::from_secs(600);

/// `prof record` as it is called for a run.
#[derive(Debug, clap::Parser)]
#[command(no_binary_name = true)]
struct Recorder {
    #[command(flatten)]
    args: record::Args,
}

/// One side: what runs, and what its runs showed.
struct Side {
    name: &'static str,
    command: Vec<OsString>,
    options: Options,
    used: Vec<CommandUsed>,
    /// By run: its events.
    read: Vec<Vec<Run>>,
    failures: u64,
}

/// The pairs of a trial.
pub(super) struct Pairs<'a> {
    args: &'a Args,
    sides: [Side; 2],
    folder: Folder,
    symbolizer: Symbolizer,
    began: Instant,
    /// That of the picture, if one is drawn.
    format: PictureFormat,
    /// Whether peak memory is that of the commands and not of us.
    tells_memory: bool,
}

/// Where recordings are; removed at the end if nobody wants them.
struct Folder {
    path: PathBuf,
    is_kept: bool,
}

impl Folder {
    fn new(keep: Option<&PathBuf>) -> anyhow::Result<Self> {
        if let Some(path) = keep {
            fs::create_dir_all(path).with_context(|| format!("cannot make {}", path.display()))?;
            // They would be mixed with those of this one by `before-*`.
            if let Some(name) = earlier(path) {
                return Err(usage(format!(
                    "--keep {}: it holds recordings of another trial ({name})\n  \
                     try: a folder that is not there yet",
                    path.display()
                )));
            }
            return Ok(Self {
                path: path.clone(),
                is_kept: true,
            });
        }
        let path = std::env::temp_dir().join(format!("prof-ab-{}", std::process::id()));
        // Not one that others prepared.
        let made = fs::DirBuilder::new().mode(0o700).create(&path);
        made.with_context(|| format!("cannot make {}; --keep DIR names another", path.display()))?;
        Ok(Self {
            path,
            is_kept: false,
        })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if !self.is_kept {
            // What is left there is told by its name.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// The format of the picture of what changed; an error where it cannot be drawn or
/// written.
fn format_of(path: &Path) -> anyhow::Result<Option<PictureFormat>> {
    let refused = |why: &str| {
        let instead = path.with_extension("svg");
        usage(format!(
            "--flamegraph {}: {why}\n  try: --flamegraph {}",
            path.display(),
            instead.display()
        ))
    };
    const DRAWN: &str = "what changed is drawn as .svg or .html";
    let format = PictureFormat::of_name(path, None)
        .map_err(|wrong| refused(&format!("{}; {DRAWN}", wrong.why)))?;
    if format == Some(FOLDED) {
        return Err(refused(DRAWN));
    }
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    match folder.filter(|folder| !folder.is_dir()) {
        Some(folder) => Err(usage(format!(
            "--flamegraph {}: there is no folder {}",
            path.display(),
            folder.display()
        ))),
        None => Ok(format),
    }
}

/// Recordings of an earlier trial in a folder: the first that is found.
fn earlier(folder: &Path) -> Option<String> {
    let mut names = fs::read_dir(folder).ok()?.flatten();
    names.find_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        let of_side = |side: &&str| name.starts_with(&format!("{side}-"));
        let is_one = name.ends_with(".data") && NAMES.iter().any(of_side);
        is_one.then_some(name)
    })
}

/// What becoming the command may take beside what the process had before, bytes: its
/// signals, limits and the search for the program, each of which maps 64 KiB of our code.
const TO_BECOME: u64 = 1 << 20;

impl<'a> Pairs<'a> {
    pub(super) fn new(args: &'a Args) -> anyhow::Result<Self> {
        let [before, after] = commands(args)?;
        // Before anything runs: the name may promise what is not drawn.
        let format = match &args.flamegraph {
            Some(path) => format_of(path)?,
            None => None,
        };
        let sides = [Side::new(args, 0, before)?, Side::new(args, 1, after)?];
        Ok(Self {
            args,
            sides,
            folder: Folder::new(args.keep.as_ref())?,
            symbolizer: Symbolizer::new(Sources::default()),
            began: Instant::now(),
            format: format.unwrap_or(SVG),
            tells_memory: true,
        })
    }

    /// Runs until it is sure, or there were enough, or a limit is reached.
    pub(super) fn run(&mut self, order: &mut Order, signals: &SignalFd) -> anyhow::Result<Ended> {
        let telling = Telling::new();
        if self.args.seed.is_none() && self.args.keep.is_some() {
            telling.stays(&format!(
                "--seed {} repeats the order of the runs",
                order.seed()
            ));
        }
        let limit = match (self.args.time_limit, self.args.until_sure) {
            (None, true) => Some(TIME_LIMIT),
            (limit, _) => limit,
        };
        for number in 1..=self.args.warmup {
            telling.line(&format!("warm-up {number} of {}", self.args.warmup));
            for side in order.pair() {
                if self.one(side, None)? || signals.next().is_some() {
                    return Ok(Ended::Interrupted);
                }
            }
        }
        let most = match self.args.until_sure {
            true => LOOKS[LOOKS.len() - 1],
            false => self.args.runs,
        };
        for pair in 1..=most {
            telling.line(&self.progress(pair, most));
            for side in order.pair() {
                if self.one(side, Some(pair))? || signals.next().is_some() {
                    return Ok(Ended::Interrupted);
                }
            }
            if self.args.until_sure && is_look(pair) {
                telling.line(&format!("looking at {pair} pairs"));
                let compared = self.compared()?;
                if compared.iter().all(Comparison::is_decided) {
                    return Ok(Ended::Done);
                }
                telling.stays(&known(pair, &compared));
            }
            if limit.is_some_and(|limit| self.began.elapsed() >= limit) && pair < most {
                return Ok(Ended::Limit);
            }
        }
        Ok(match self.args.until_sure {
            true => Ended::Limit,
            false => Ended::Done,
        })
    }

    /// One run of a side, recorded; of a warm-up nothing stays. Whether the
    /// user wants to end.
    fn one(&mut self, which: usize, number: Option<u64>) -> anyhow::Result<bool> {
        let file = match number {
            Some(number) => format!("{}-{number:03}.data", NAMES[which]),
            None => "warm-up.data".to_owned(),
        };
        let path = self.folder.path.join(file);
        let side = &mut self.sides[which];
        side.options.destination = prof_record::output::Destination::File(path.clone());
        let made = prof_record::record(&side.options, &mut |_| ());
        let finished = match made {
            Ok(finished) => finished,
            Err(RecordError::Interrupted { .. }) => return Ok(true),
            Err(error) => return Err(error.into()),
        };
        if matches!(finished.ended_by, EndedBy::Signal(_)) {
            return Ok(true);
        }
        if let Some(error) = finished.failure {
            return Err(anyhow::Error::from(error).context("the recording ended early"));
        }
        self.sides[which].check(self.args, finished.command, number)?;
        if number.is_none() {
            let _ = fs::remove_file(&path);
            return Ok(false);
        }
        let used = finished.used.unwrap_or_default();
        let own = used.memory_before.saturating_add(TO_BECOME);
        self.tells_memory &= used.usage.peak_memory > own;
        self.sides[which].used.push(used);
        Ok(false)
    }

    /// How many pairs are complete.
    fn complete(&self) -> usize {
        self.sides
            .iter()
            .map(|side| side.used.len())
            .min()
            .unwrap_or(0)
    }

    /// Reads what was recorded since the last time.
    fn read(&mut self) -> anyhow::Result<()> {
        for pair in 0..self.complete() {
            for side in &mut self.sides {
                if side.read.len() <= pair {
                    let file = format!("{}-{:03}.data", side.name, pair + 1);
                    let path = self.folder.path.join(&file);
                    let read = functions_of(&input(&path, false), &file, &self.symbolizer)?;
                    side.read.push(read.0);
                }
            }
        }
        Ok(())
    }

    /// What is known by now, of each event; nothing without a complete pair.
    pub(super) fn compared(&mut self) -> anyhow::Result<Vec<Comparison>> {
        self.read()?;
        let pairs = self.complete();
        let Some(first) = self.sides[0].read.first().filter(|_| pairs > 0) else {
            return Ok(Vec::new());
        };
        let options = ComparisonOptions {
            bound: self.args.bound,
            level: match self.args.until_sure {
                true => level_of_a_look(0.05),
                false => 0.05,
            },
            by: self.args.by.into(),
            pairing: Pairing::Paired,
            least_share: self.args.min_share,
            measures: self.measures(pairs),
            ..ComparisonOptions::default()
        };
        let of = |side: &Side, event: &str| -> Option<Vec<Run>> {
            let runs = side.read.iter().take(pairs);
            runs.map(|runs| runs.iter().find(|run| run.event == event).cloned())
                .collect()
        };
        let both = first.iter().filter_map(|run| {
            let [before, after] = &self.sides;
            Some((of(before, &run.event)?, of(after, &run.event)?))
        });
        let compared: Result<Vec<Comparison>, _> = both
            .map(|(before, after)| Comparison::new(&before, &after, &options))
            .collect();
        let compared = compared?;
        if compared.is_empty() {
            bail!("no event has samples in all runs; record longer runs or more often (-F)");
        }
        Ok(compared)
    }

    /// Draws what changed, of all pairs.
    pub(super) fn draw(&self, path: &Path) -> anyhow::Result<()> {
        let pairs = self.complete();
        let mut event = None;
        let mut side = |side: &Side| -> anyhow::Result<DrawnSide> {
            let mut drawn = DrawnSide::default();
            for pair in 1..=pairs {
                let file = self
                    .folder
                    .path
                    .join(format!("{}-{pair:03}.data", side.name));
                let (profile, _) =
                    input(&file, false).load_with(Detail::Source, &self.symbolizer)?;
                let name = event.get_or_insert_with(|| {
                    let shown = shown_events(&profile).next();
                    let shown = shown.and_then(|id| profile.events.get(usize::from(id.0)));
                    shown.map_or_else(String::new, |event| event.name.clone())
                });
                let found = profile.events.iter().position(|event| event.name == *name);
                let Some(id) = found.and_then(|at| u16::try_from(at).ok()) else {
                    bail!("{} has no {name}, which the first run has", file.display());
                };
                drawn.add(&profile, EventId(id));
            }
            Ok(drawn)
        };
        let sides = [side(&self.sides[0])?, side(&self.sides[1])?];
        let drawing = Drawing {
            title: None,
            width: None,
            min_width: 0.1,
            is_inverted: false,
            pairing: Pairing::Paired,
            format: self.format,
        };
        let drawn = drawing.draw(&sides)?;
        replace(path, &drawn).with_context(|| format!("cannot write {}", path.display()))
    }

    fn measures(&self, pairs: usize) -> Vec<Measure> {
        let measure = |name, unit, resolution, of: &dyn Fn(&CommandUsed) -> f64| {
            let figures = |side: &Side| side.used.iter().take(pairs).map(of).collect();
            Measure {
                name,
                unit,
                resolution,
                before: figures(&self.sides[0]),
                after: figures(&self.sides[1]),
            }
        };
        let wall = |used: &CommandUsed| used.wall.unwrap_or_default().as_secs_f64();
        let cpu = |used: &CommandUsed| (used.usage.user + used.usage.system).as_secs_f64();
        let memory = |used: &CommandUsed| used.usage.peak_memory as f64;
        let faults = |used: &CommandUsed| used.usage.page_faults as f64;
        let mut measures = vec![
            measure("wall time", MeasureUnit::Seconds, 1e-6, &wall),
            measure("CPU time", MeasureUnit::Seconds, 1e-6, &cpu),
        ];
        if self.tells_memory {
            measures.push(measure("peak memory", MeasureUnit::Bytes, 4096.0, &memory));
        }
        measures.push(measure("page faults", MeasureUnit::Count, 1.0, &faults));
        measures
    }

    /// What is to be told beside the figures.
    pub(super) fn told(&self, ended: Ended) -> Trial {
        let mut notes = Vec::new();
        match ended {
            Ended::Done => {}
            Ended::Limit => notes.push("the limit came before all was sure".into()),
            Ended::Interrupted => notes.push("ended by a signal: what is known by then".into()),
        }
        for side in &self.sides {
            if side.failures > 0 {
                notes.push(format!(
                    "the command {} failed {} times",
                    side.name, side.failures
                ));
            }
        }
        if !self.tells_memory {
            notes.push("peak memory is not known: the commands need less than prof itself".into());
        }
        Trial {
            commands: [0, 1].map(|which| self.sides[which].typed(self.args, which)),
            pairs: self.complete() as u64,
            warmups: self.args.warmup,
            looks: self.args.until_sure.then_some(LOOKS.len() + 1),
            notes,
        }
    }

    fn progress(&self, pair: u64, most: u64) -> String {
        let mut text = match self.args.until_sure {
            true => format!("pair {pair}"),
            false => format!("pair {pair} of {most}"),
        };
        let done = self.complete();
        if done == 0 {
            return text;
        }
        let mean = |side: &Side| {
            let walls = side.used.iter().take(done).filter_map(|used| used.wall);
            walls.sum::<Duration>().as_secs_f64() / done as f64
        };
        let (before, after) = (mean(&self.sides[0]), mean(&self.sides[1]));
        let change = 100.0 * (after / before.max(1e-9) - 1.0);
        text.push_str(&format!(": {before:.3} s -> {after:.3} s ({change:+.1} %)"));
        if !self.args.until_sure {
            let left = (before + after) * (most + 1 - pair) as f64;
            text.push_str(&format!(", {left:.0} s left"));
        }
        text
    }
}

/// What is known after a look, in a line.
fn known(pairs: u64, compared: &[Comparison]) -> String {
    let of = |comparison: &Comparison| {
        let open = comparison.undecided();
        let rows = comparison.rows.len();
        let change = comparison.total.change.value;
        let interval = comparison.total.interval;
        format!(
            "total {change:+.1} % [{:+.1}, {:+.1}], {} of {rows} functions decided",
            interval.low,
            interval.high,
            rows - open
        )
    };
    let all: Vec<String> = compared.iter().map(of).collect();
    format!("{pairs} pairs: {}", all.join("; "))
}

/// The commands of both sides.
fn commands(args: &Args) -> anyhow::Result<[Vec<OsString>; 2]> {
    let mut parts = args.command.split(|word| word == "--");
    let (before, after, more) = (parts.next(), parts.next(), parts.next());
    let given = |part: Option<&[OsString]>| {
        part.map(<[OsString]>::to_vec)
            .filter(|part| !part.is_empty())
    };
    let same =
        "both sides are one command\n  give another after --, or tell them apart by --env or --dir";
    match (given(before), given(after), more) {
        (Some(_), _, Some(_)) => Err(usage(
            "more than one -- stands between the commands\n  try: … -- sh -c 'OLD' -- sh -c 'NEW'",
        )),
        (Some(before), Some(after), None) => Ok([before, after]),
        (Some(_), None, None) if after.is_none() && args.env.is_empty() && args.dir.is_empty() => {
            Err(usage(same))
        }
        (Some(both), None, None) if after.is_none() => Ok([both.clone(), both]),
        _ => Err(usage(
            "a command is missing\n  try: prof ab -- ./old -- ./new",
        )),
    }
}

impl Side {
    fn new(args: &Args, which: usize, command: Vec<OsString>) -> anyhow::Result<Self> {
        let mut words: Vec<OsString> = ["-q", "-g", "-F"].map(OsString::from).to_vec();
        words.push(args.freq.clone().into());
        if let Some(event) = &args.event {
            words.extend(["-e".into(), event.into()]);
        }
        words.push("--".into());
        words.extend(command.iter().cloned());
        let recorder = Recorder::try_parse_from(words);
        let recorder = recorder.map_err(|error| usage(error.to_string().trim()))?;
        let mut options = record::options(&recorder.args)?;
        let directory = args.dir.get(which).cloned();
        if let Some(missing) = directory.as_ref().filter(|it| !it.is_dir()) {
            return Err(usage(format!(
                "--dir: there is no folder {}",
                missing.display()
            )));
        }
        options.around = Surroundings {
            directory,
            variables: variables(args, which)?,
            is_silent: !args.show_output,
            has_no_output: false,
        };
        Ok(Self {
            name: NAMES[which],
            command,
            options,
            used: Vec::new(),
            read: Vec::new(),
            failures: 0,
        })
    }

    /// Says where a command failed, and ends the trial unless that is wanted.
    fn check(
        &mut self,
        args: &Args,
        ended: Option<CommandEnded>,
        number: Option<u64>,
    ) -> anyhow::Result<()> {
        let how = match ended {
            None | Some(CommandEnded::Exited(0)) => return Ok(()),
            Some(CommandEnded::Exited(code)) => format!("exit code {code}"),
            Some(CommandEnded::Signaled(signal)) => format!("signal {signal}"),
        };
        self.failures += 1;
        if args.ignore_failure {
            return Ok(());
        }
        let when = match number {
            Some(number) => format!("in run {number}"),
            None => "in a warm-up".to_owned(),
        };
        bail!(
            "the command {} failed {when}: {how}\n  --show-output shows what it says, \
             --ignore-failure goes on",
            self.name
        )
    }

    /// The command as one would type it, with what tells it apart.
    fn typed(&self, args: &Args, which: usize) -> String {
        let words = self
            .command
            .iter()
            .map(|word| word.to_string_lossy().into_owned());
        let env = args.env.iter().skip(which).step_by(2);
        let env = env
            .map(|word| word.to_string_lossy().into_owned())
            .filter(|word| !word.is_empty());
        let mut text = env.chain(words).collect::<Vec<_>>().join(" ");
        if let Some(directory) = args.dir.get(which) {
            text.push_str(&format!(" (in {})", directory.display()));
        }
        text
    }
}

/// The variables of a side: every second of `--env`, empty ones left out.
fn variables(args: &Args, which: usize) -> anyhow::Result<Vec<(OsString, OsString)>> {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let words = args
        .env
        .iter()
        .skip(which)
        .step_by(2)
        .filter(|word| !word.is_empty());
    words
        .map(|word| {
            let bytes = word.as_bytes();
            let at = bytes
                .iter()
                .position(|byte| *byte == b'=')
                .filter(|at| *at > 0);
            let Some(at) = at else {
                let word = word.to_string_lossy();
                return Err(usage(format!("--env takes NAME=VALUE, not {word}")));
            };
            let (name, value) = bytes.split_at(at);
            let value = value.get(1..).unwrap_or_default();
            Ok((
                OsString::from_vec(name.to_vec()),
                OsString::from_vec(value.to_vec()),
            ))
        })
        .collect()
}

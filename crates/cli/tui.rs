//! The terminal UI on a recording.

use crate::input::NameOptions;
use crate::outcome::Outcome;
use crate::progress::{Stage, Teller};
use crate::recording::Input;
use anyhow::Context;
use prof_abi::SampleType;
use prof_listing::code_files::FileCode;
use prof_perfdata::Reader;
use prof_profile::Profile;
use prof_report::model::RunsOfSides;
use prof_resolve::Phase;
use prof_symbolize::{Detail, Symbolizer};
use prof_sys::terminal::FaultGuard;
use prof_tui::{Background, Colours, Look, Mouse, Options, Update};
use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// What the user says of the terminal's looks.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct LookOptions {
    /// Colours of the terminal UI that can be read on this background
    #[arg(long, value_enum, value_name = "BACKGROUND", default_value_t = Theme::Auto)]
    theme: Theme,
}

/// Which background the colours are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Theme {
    /// What the terminal says
    Auto,
    /// A dark one
    Dark,
    /// A light one
    Light,
}

impl LookOptions {
    /// What the terminal can show, as far as it is known, and whether its
    /// background has to be asked of it.
    fn look(&self) -> (Look, bool) {
        let mut look = Look::of_environment(|name| std::env::var(name).ok());
        let told = match self.theme {
            Theme::Auto => None,
            Theme::Dark => Some(Background::Dark),
            Theme::Light => Some(Background::Light),
        };
        look.background = told.unwrap_or(look.background);
        let is_told = std::env::var_os("COLORFGBG").is_some_and(|value| !value.is_empty());
        let term = std::env::var("TERM").unwrap_or_default();
        // The console of Linux has no sequences of this kind.
        let can_tell = look.colours != Colours::None && term != "linux";
        (look, told.is_none() && !is_told && can_tell)
    }
}

/// Whether stdout is a terminal that can be drawn on.
pub(crate) fn can_draw() -> bool {
    let term = std::env::var("TERM").unwrap_or_default();
    io::stdout().is_terminal() && !matches!(term.as_str(), "" | "dumb")
}

/// With what a session begins.
#[derive(Debug, Default)]
pub(crate) struct Begin<'a> {
    /// The function whose code is shown.
    pub(crate) function: Option<&'a str>,
    /// Filters, as they would be typed.
    pub(crate) filters: Vec<String>,
}

/// Runs a session on the recording, from the first names on.
///
/// # Errors
/// If the recording or the terminal cannot be used.
pub(crate) fn run(
    input: &Input,
    names: &NameOptions,
    look: &LookOptions,
    begin: Begin<'_>,
) -> anyhow::Result<Outcome> {
    // Mistakes are told before the screen changes.
    let code_names = names.symbolizer();
    let mut notice = None;
    if input.is_file() {
        let reader = input.open()?;
        prof_resolve::take_embedded(&reader, &code_names);
        notice = has_branches(&reader).then(|| OF_BRANCHES.to_owned());
    }
    let options = Options {
        function: begin.function.map(str::to_string),
        filters: begin.filters,
        notice,
        ..options(input.name(), look)
    };
    let (updates, updated) = mpsc::channel();
    let read = Arc::new(Mutex::new(None));
    let loader = Loader {
        input: input.clone(),
        detail: names.detail(),
        read: Arc::clone(&read),
        updates,
    };
    thread::Builder::new()
        .name("load".into())
        .spawn({
            let symbolizer = names.symbolizer();
            move || loader.run(symbolizer)
        })
        .context("cannot start a thread")?;
    // Without a guard a fault leaves the terminal in disorder: no reason not
    // to run.
    let guard = FaultGuard::install();
    // Code is looked at of few functions: their files are opened anew rather
    // than those of all kept.
    let code = FileCode::new(Arc::new(code_names));
    prof_tui::run(updated, Box::new(code), &options)?;
    drop(guard);
    // What is damaged is said when the screen is the user's again.
    let reader = read.lock().unwrap_or_else(PoisonError::into_inner).take();
    Ok(reader.map_or(Outcome::Done, |reader| input.say_damages(&reader)))
}

/// What is said of recordings of branches.
const OF_BRANCHES: &str = "these are samples; branches were recorded with them: prof report -b counts \
                           those, --branch-history puts them into call chains";

/// Whether samples come with the branches that were taken before.
fn has_branches(reader: &Reader) -> bool {
    let mut events = reader.events().list().iter();
    events.any(|event| event.attr.sample_type.has(SampleType::BRANCH_STACK))
}

/// How a session is that shows what `title` names.
fn options(title: String, look: &LookOptions) -> Options {
    let (look, asks_background) = look.look();
    Options {
        title,
        look,
        asks_background,
        mouse: Mouse::On,
        sides: None,
        editor: ["VISUAL", "EDITOR"]
            .iter()
            .find_map(|name| std::env::var(name).ok()),
        function: None,
        filters: Vec::new(),
        notice: None,
        home: std::env::var("HOME").ok(),
    }
}

/// The recordings before and after a change.
pub(crate) type InputsOfSides = [Vec<Input>; 2];

/// Runs a session on the recordings before and after a change.
///
/// # Errors
/// If a recording or the terminal cannot be used.
pub(crate) fn run_sides(
    inputs: InputsOfSides,
    names: &NameOptions,
    look: &LookOptions,
) -> anyhow::Result<Outcome> {
    // Mistakes are told before the screen changes.
    let code_names = names.symbolizer();
    for input in inputs.iter().flatten().rev() {
        let reader = input.open()?;
        prof_resolve::take_embedded(&reader, &code_names);
    }
    let [before, after] = inputs.each_ref().map(|side| called(side));
    let count = |side: &[Input]| u16::try_from(side.len()).unwrap_or(u16::MAX);
    let options = Options {
        sides: Some(RunsOfSides {
            before: count(&inputs[0]),
            after: count(&inputs[1]),
        }),
        ..options(format!("{before} and {after}"), look)
    };
    let (updates, updated) = mpsc::channel();
    let read = Arc::new(Mutex::new(Vec::new()));
    let loader = SidesLoader {
        inputs: inputs.clone(),
        detail: names.detail(),
        read: Arc::clone(&read),
        updates,
    };
    let symbolizers = [names.symbolizer(), names.symbolizer()];
    thread::Builder::new()
        .name("load".into())
        .spawn(move || loader.run(&symbolizers))
        .context("cannot start a thread")?;
    let guard = FaultGuard::install();
    let code = FileCode::new(Arc::new(code_names));
    prof_tui::run(updated, Box::new(code), &options)?;
    drop(guard);
    let readers = std::mem::take(&mut *read.lock().unwrap_or_else(PoisonError::into_inner));
    let said = inputs.iter().flatten().zip(&readers);
    let said: Vec<Outcome> = said
        .map(|(input, reader)| input.say_damages(reader))
        .collect();
    let is_damaged = |outcome: &Outcome| *outcome != Outcome::Done;
    Ok(said.into_iter().find(is_damaged).unwrap_or(Outcome::Done))
}

/// What a side is called.
fn called(side: &[Input]) -> String {
    match side {
        [one] => one.name(),
        several => {
            let first = several.first().map(Input::name).unwrap_or_default();
            format!("{first} … ({} recordings)", several.len())
        }
    }
}

/// Loads the recordings of both sides while the session runs.
struct SidesLoader {
    inputs: InputsOfSides,
    detail: Detail,
    /// The readers, when they have come to their ends.
    read: Arc<Mutex<Vec<Reader>>>,
    updates: Sender<Update>,
}

impl SidesLoader {
    fn run(&self, symbolizers: &[Symbolizer; 2]) {
        let update = match self.both(symbolizers) {
            Ok(profile) => Update::Profile(Arc::new(profile)),
            Err(error) => Update::Failed(format!("{error:#}")),
        };
        // A session that has ended needs no data.
        let _ = self.updates.send(update);
    }

    fn both(&self, symbolizers: &[Symbolizer; 2]) -> anyhow::Result<Profile> {
        let mut sides = [Vec::new(), Vec::new()];
        let parts = self.inputs.iter().zip(symbolizers).zip(&mut sides);
        for ((inputs, symbolizer), side) in parts {
            for input in inputs {
                let teller = teller(&self.updates, format!("{}: ", input.name()));
                let (profile, reader) = input.resolve(symbolizer, self.detail, &teller)?;
                let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
                read.push(reader);
                side.push((input.name(), profile));
            }
        }
        let [before, after] = sides.each_ref().map(|side| {
            let named = side.iter().map(|(name, profile)| (name.as_str(), profile));
            named.collect::<Vec<_>>()
        });
        Ok(prof_compare::both(&before, &after)?)
    }
}

/// Tells the session how far loading has come; `aim` is what for.
fn teller(updates: &Sender<Update>, aim: String) -> Teller {
    let updates = updates.clone();
    let mut told = String::new();
    let begin = Stage::Loading(Phase::Reading);
    Teller::start(begin, Duration::ZERO, move |account| {
        let words = format!("{aim}{}", account.words(Instant::now()));
        if words != told {
            // A session that has ended needs no news.
            let _ = updates.send(Update::Progress(words.clone()));
            told = words;
        }
    })
}

/// Recordings larger than this many bytes are glanced at first.
const LARGE: u64 = 16 << 20;
/// For so long.
const GLANCE: Duration = Duration::from_millis(150);

/// Loads the recording while the session runs.
struct Loader {
    input: Input,
    detail: Detail,
    /// The reader, when it has come to its end.
    read: Arc<Mutex<Option<Reader>>>,
    updates: Sender<Update>,
}

/// What the session shows before all is loaded.
enum Shown {
    Nothing,
    /// The beginning of the recording.
    Part,
    /// All of it without inlined functions and lines.
    Symbols,
    /// There is nothing more to come, or nobody who wants it.
    Unwanted,
}

impl Loader {
    /// Shows something at once, then all. Input that cannot be read twice is
    /// shown when all of it is there.
    fn run(&self, symbolizer: Symbolizer) {
        const LINES: &str = "inlined functions and lines: ";
        let size = std::fs::metadata(&self.input.path).map_or(0, |about| about.len());
        let shown = if !self.input.is_file() {
            Shown::Nothing
        } else if size < LARGE {
            self.load_symbols(&symbolizer)
        } else {
            // A second whole profile beside this one would take as much
            // memory again.
            match self.glance(&symbolizer) {
                Shown::Nothing => self.load_symbols(&symbolizer),
                shown => shown,
            }
        };
        let aim = match shown {
            Shown::Symbols => LINES,
            Shown::Part | Shown::Nothing => "",
            Shown::Unwanted => return,
        };
        let update = self.load(&symbolizer, self.detail, aim);
        // All names are in the profile; the tables they came from are
        // large.
        drop(symbolizer);
        self.send(update);
    }

    /// Symbols are there long before inlined functions and lines: shows all
    /// with them, if there is more to come.
    fn load_symbols(&self, symbolizer: &Symbolizer) -> Shown {
        if self.detail != Detail::Source {
            return Shown::Nothing;
        }
        let update = self.load(symbolizer, Detail::Symbol, "");
        let goes_on = matches!(update, Update::Profile(_));
        if self.send(update) && goes_on {
            Shown::Symbols
        } else {
            Shown::Unwanted
        }
    }

    /// Shows what can be read at once of a large recording. Without marks in
    /// the recording nothing is in order before its end.
    fn glance(&self, symbolizer: &Symbolizer) -> Shown {
        let teller = teller(&self.updates, String::new());
        let glanced = self
            .input
            .resolve_for(Some(GLANCE), symbolizer, Detail::Symbol, &teller);
        match glanced {
            Ok((profile, _)) if !profile.samples.is_empty() => {
                if self.send(Update::Profile(Arc::new(profile))) {
                    Shown::Part
                } else {
                    Shown::Unwanted
                }
            }
            // An error will be met again.
            _ => Shown::Nothing,
        }
    }

    /// Loads what is then to be passed on; `aim` is what for, if something
    /// else is shown already.
    fn load(&self, symbolizer: &Symbolizer, detail: Detail, aim: &'static str) -> Update {
        let teller = teller(&self.updates, aim.to_owned());
        match self.input.resolve(symbolizer, detail, &teller) {
            Ok((profile, reader)) => {
                *self.read.lock().unwrap_or_else(PoisonError::into_inner) = Some(reader);
                Update::Profile(Arc::new(profile))
            }
            Err(error) => Update::Failed(format!("{error:#}")),
        }
    }

    /// Whether the session still listens.
    fn send(&self, update: Update) -> bool {
        self.updates.send(update).is_ok()
    }
}

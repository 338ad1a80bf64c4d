//! The terminal UI on a recording.

use crate::code_source::FileCode;
use crate::input::NameOptions;
use crate::outcome::Outcome;
use crate::recording::Input;
use anyhow::Context;
use prof_perfdata::Reader;
use prof_report::tui::{self, Look, Mouse, Options, Update};
use prof_resolve::{Phase, Progress};
use prof_symbolize::{Detail, Symbolizer};
use prof_sys::terminal::FaultGuard;
use std::sync::Arc;
use std::sync::mpsc::{self, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Runs a session on the recording, from the first names on; at first it
/// shows the code of `function`, if one is named.
///
/// # Errors
/// If the recording or the terminal cannot be used.
pub(crate) fn run(
    input: &Input,
    names: &NameOptions,
    function: Option<&str>,
) -> anyhow::Result<Outcome> {
    // Mistakes are told before the screen changes.
    if input.is_file() {
        input.open()?;
    }
    let options = Options {
        title: input.name(),
        look: Look::of_environment(|name| std::env::var(name).ok()),
        mouse: Mouse::On,
        editor: ["VISUAL", "EDITOR"]
            .iter()
            .find_map(|name| std::env::var(name).ok()),
        function: function.map(str::to_string),
    };
    let (updates, updated) = mpsc::channel();
    let read = Arc::new(Mutex::new(None));
    let loader = Loader {
        input: input.clone(),
        detail: names.detail(),
        read: Arc::clone(&read),
        news: News::new(updates),
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
    let code = FileCode::new(Arc::new(names.symbolizer()));
    tui::run(updated, Box::new(code), &options)?;
    drop(guard);
    // What is damaged is said when the screen is the user's again.
    let reader = read.lock().unwrap_or_else(PoisonError::into_inner).take();
    Ok(reader.map_or(Outcome::Done, |reader| input.say_damages(&reader)))
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
    news: News,
}

/// What came of a glance.
enum Glance {
    Seen,
    /// Without marks in the recording nothing is in order before its end.
    Nothing,
    /// The session does not listen any more.
    Unwanted,
}

impl Loader {
    /// Shows something at once, then all. Input that cannot be read twice is
    /// shown when all of it is there.
    fn run(&self, symbolizer: Symbolizer) {
        let size = std::fs::metadata(&self.input.path).map_or(0, |about| about.len());
        let goes_on = if !self.input.is_file() {
            true
        } else if size < LARGE {
            self.load_symbols(&symbolizer)
        } else {
            // A second whole profile beside this one would take as much
            // memory again.
            match self.glance(&symbolizer) {
                Glance::Seen => true,
                Glance::Nothing => self.load_symbols(&symbolizer),
                Glance::Unwanted => false,
            }
        };
        if goes_on {
            let update = self.load(&symbolizer, self.detail);
            // All names are in the profile; the tables they came from are
            // large.
            drop(symbolizer);
            self.news.send(update);
        }
    }

    /// Symbols are there long before inlined functions and lines: shows all
    /// with them, if there is more to come; whether it is worth going on.
    fn load_symbols(&self, symbolizer: &Symbolizer) -> bool {
        if self.detail != Detail::Source {
            return true;
        }
        let update = self.load(symbolizer, Detail::Symbol);
        let goes_on = matches!(update, Update::Profile(_));
        self.news.send(update) && goes_on
    }

    /// Shows what can be read at once of a large recording.
    fn glance(&self, symbolizer: &Symbolizer) -> Glance {
        let glanced = self
            .input
            .resolve_for(Some(GLANCE), symbolizer, Detail::Symbol, &self.news);
        match glanced {
            Ok((profile, _)) if !profile.samples.is_empty() => {
                if self.news.send(Update::Profile(Arc::new(profile))) {
                    Glance::Seen
                } else {
                    Glance::Unwanted
                }
            }
            // An error will be met again.
            _ => Glance::Nothing,
        }
    }

    /// Loads what is then to be passed on.
    fn load(&self, symbolizer: &Symbolizer, detail: Detail) -> Update {
        match self.input.resolve(symbolizer, detail, &self.news) {
            Ok((profile, reader)) => {
                *self.read.lock().unwrap_or_else(PoisonError::into_inner) = Some(reader);
                Update::Profile(Arc::new(profile))
            }
            Err(error) => Update::Failed(format!("{error:#}")),
        }
    }
}

/// Tells the session how far loading has come, not too often.
struct News {
    updates: Sender<Update>,
    told: Mutex<Option<Instant>>,
}

/// Time between two news.
const PACE: Duration = Duration::from_millis(100);

impl News {
    fn new(updates: Sender<Update>) -> Self {
        Self {
            updates,
            told: Mutex::new(None),
        }
    }

    /// Whether the session still listens.
    fn send(&self, update: Update) -> bool {
        self.updates.send(update).is_ok()
    }
}

impl Progress for News {
    fn update(&self, phase: Phase, done: u64, total: Option<u64>) {
        {
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            if told.is_some_and(|last| last.elapsed() < PACE) {
                return;
            }
            *told = Some(Instant::now());
        }
        let what = match phase {
            Phase::Reading => "reading",
            Phase::Naming => "finding names",
        };
        let words = match total.filter(|&total| total > 0) {
            Some(total) => {
                let percent = u128::from(done) * 100 / u128::from(total);
                format!("{what}, {percent} %")
            }
            None => format!("{what}, {} MB", done >> 20),
        };
        // A session that has ended needs no news.
        self.send(Update::Progress(words));
    }
}

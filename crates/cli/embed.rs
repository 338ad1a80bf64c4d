//! Names, lines and code of what was sampled, put into the recording itself:
//! looked up when the recording is finished, and appended where every other
//! reader passes over it.

use crate::hottest::hottest;
use crate::recording::Input;
use anyhow::Context;
use prof_listing::code_files::FileCode;
use prof_perfdata::FeatureBit;
use prof_perfdata::write::append_section;
use prof_profile::{EventId, Profile, Redaction};
use prof_report::code::{Build, Syntax};
use prof_report::model::{Scene, Selection};
use prof_resolve::{Phase, Progress};
use prof_symbolize::{Detail, Extent, FetchFile, FileAtHand, Notes, Sources, Symbolizer};
use std::fs::{File, FileTimes};
use std::path::Path;
use std::sync::mpsc;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// What is embedded beside names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Texts {
    /// Instruction bytes of the hottest functions.
    #[default]
    Code,
    /// Also the texts of the source files they are from.
    Source,
}

/// After a recording nobody waits longer than this for its names, with what
/// writing them takes, however busy the machine is: what else ends a recording
/// has its time, too, and all of it is to be over within a second.
pub(crate) const WAIT: Duration = Duration::from_millis(800);
/// Of which records are read so long, ...
const READING_SHARE: f64 = 0.35;
/// ... and names are looked up; in what is left they are packed and written.
const ASKING_SHARE: f64 = 0.75;
/// Names take no more than this share of the recording, in percent, ...
const SHARE: u64 = 10;
/// ... or this many bytes, if that is more: names and code of a short recording
/// may be larger than it.
const LEAST: u64 = 1 << 20;
/// Where no more of the address space is left than this, in bytes, names are not
/// looked up unasked: without memory the process would end there and not tell
/// what it recorded.
pub(crate) const ADDRESS_SPACE: u64 = 1 << 30;
/// Functions of an event whose code is kept.
const HOTTEST: usize = 10;
/// And those with this share of the weight, percent.
const HOT: f64 = 0.5;

/// How names are looked up.
#[derive(Debug, Clone, Default)]
pub(crate) struct Wish {
    pub(crate) texts: Texts,
    /// What takes folders of files out of the names.
    pub(crate) redaction: Option<Arc<Redaction>>,
    /// Asked for files that are not here.
    pub(crate) fetch: Option<Arc<dyn FetchFile>>,
    /// `/proc/kallsyms`, if it was opened with rights that are gone.
    pub(crate) own_kallsyms: Option<Arc<File>>,
    /// Files that are held open, since their paths do not lead to them.
    pub(crate) at_hand: Vec<FileAtHand>,
    /// How long that may take; `None` for as long as it takes.
    pub(crate) limit: Option<Duration>,
}

/// What was embedded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Embedded {
    /// Everything.
    All,
    /// As much as could be looked up and packed in time.
    InTime(Reached),
    /// What the room allows.
    Parts(Extent),
    /// Nothing: not even names fit.
    Nothing,
}

/// How far looking names up came in its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reached {
    phase: Phase,
    /// In the phase's unit.
    done: u64,
    total: Option<u64>,
    /// Addresses that have a name.
    named: u64,
}

impl Reached {
    /// So far, where it was not asked how many addresses have a name.
    fn new(phase: Phase, done: u64, total: Option<u64>) -> Self {
        Self {
            phase,
            done,
            total,
            named: 0,
        }
    }

    /// In words.
    pub(crate) fn words(&self) -> String {
        let total = self.total.filter(|&total| self.done < total);
        match (self.phase, total) {
            (Phase::Reading, Some(total)) => {
                let percent = u128::from(self.done) * 100 / u128::from(total);
                format!("{percent} % of the records were read")
            }
            (Phase::Naming, Some(total)) => format!(
                "{} of {total} addresses have a name, {} lines and inlined functions",
                self.named.max(self.done).min(total),
                self.done
            ),
            (_, None) => "names were looked up, but not all code was read and packed".to_owned(),
        }
    }
}

/// Where looking names up is.
struct Whereabouts(Mutex<Reached>);

impl Whereabouts {
    fn new() -> Self {
        Self(Mutex::new(Reached::new(Phase::Reading, 0, None)))
    }

    fn reached(&self) -> Reached {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress for Whereabouts {
    fn update(&self, phase: Phase, done: u64, total: Option<u64>) {
        let reached = Reached::new(phase, done, total);
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = reached;
    }
}

/// Looks up the names of the recording `from` and appends them to the file
/// `to`, which is the same or a copy.
///
/// # Errors
/// If it cannot be read or written; it stays a valid recording.
pub(crate) fn embed(from: &Input, to: &Path, wish: Wish) -> anyhow::Result<Embedded> {
    let until = wish.limit.map(|limit| Instant::now() + limit);
    let (notes, left_out) = take_notes(from, &wish)?;
    let file = File::options().read(true).write(true).open(to);
    let file = file.with_context(|| format!("cannot open {}", to.display()))?;
    let about = file.metadata()?;
    let most = match wish.limit {
        Some(_) => (about.len() / 100 * SHARE).max(LEAST),
        None => u64::MAX,
    };
    let Some(packed) = notes.encode(most, until) else {
        return Ok(Embedded::Nothing);
    };
    let reader = prof_perfdata::Reader::open_file(file.try_clone()?)?;
    append_section(&file, &reader, (FeatureBit::PROF_SYMBOLS, &packed.bytes))
        .with_context(|| format!("cannot add names to {}", to.display()))?;
    // The time of the file says when the recording ended.
    if let Ok(modified) = about.modified() {
        let _ = file.set_times(FileTimes::new().set_modified(modified));
    }
    let unpacked = Reached::new(Phase::Naming, 0, None);
    let left_out = left_out.or((!packed.is_whole).then_some(unpacked));
    Ok(match (left_out, packed.extent) {
        (Some(reached), _) => Embedded::InTime(reached),
        (None, Extent::All) => Embedded::All,
        (None, extent) => Embedded::Parts(extent),
    })
}

/// Notes what is asked of a symbolizer where the recording is shown; and how far
/// that came, if not all of it was asked in time.
fn take_notes(input: &Input, wish: &Wish) -> anyhow::Result<(Arc<Notes>, Option<Reached>)> {
    let notes = match wish.texts {
        Texts::Code => Notes::default(),
        Texts::Source => Notes::with_sources(),
    };
    let notes = Arc::new(match &wish.redaction {
        Some(redaction) => notes.redacting(Arc::clone(redaction)),
        None => notes,
    });
    let (done, is_done) = mpsc::channel();
    let whereabouts = Arc::new(Whereabouts::new());
    let work = {
        let (input, notes) = (input.clone(), Arc::clone(&notes));
        let reading = wish.limit.map(|limit| limit.mul_f64(READING_SHARE));
        let whereabouts = Arc::clone(&whereabouts);
        let sources = Sources {
            fetch: wish.fetch.clone(),
            own_kallsyms: wish.own_kallsyms.clone(),
            at_hand: wish.at_hand.clone(),
            ..Sources::default()
        };
        move || {
            let symbolizer = Arc::new(Symbolizer::new(sources).noting(notes));
            let asked = ask(&input, reading, &symbolizer, &*whereabouts);
            // Nobody listens when the time is over.
            let _ = done.send(asked);
        }
    };
    let thread = thread::Builder::new().name("embed".into()).spawn(work);
    thread.context("cannot start a thread")?;
    let asked = match wish.limit {
        Some(limit) => is_done.recv_timeout(limit.mul_f64(ASKING_SHARE)),
        None => is_done.recv().map_err(Into::into),
    };
    match asked {
        Ok(asked) => asked.map(|left_out| (notes, left_out)),
        // The thread ends with the process.
        Err(mpsc::RecvTimeoutError::Timeout) => {
            let reached = Reached {
                named: notes.named() as u64,
                ..whereabouts.reached()
            };
            Ok((notes, Some(reached)))
        }
        Err(mpsc::RecvTimeoutError::Disconnected) => anyhow::bail!("looking names up failed"),
    }
}

/// Asks what reports, scripts and views of code will ask; how far records were
/// read, if not all of them were.
fn ask(
    input: &Input,
    reading: Option<Duration>,
    symbolizer: &Arc<Symbolizer>,
    progress: &dyn Progress,
) -> anyhow::Result<Option<Reached>> {
    let (profile, reader) = input.resolve_for(reading, symbolizer, Detail::Source, progress)?;
    let (at, all) = reader.progress();
    let is_whole = reading.is_none() || all.is_none_or(|all| at >= all);
    let source = FileCode::new(Arc::clone(symbolizer));
    for index in 0..profile.events.len() {
        let Ok(event) = u16::try_from(index).map(EventId) else {
            break;
        };
        ask_for_code(&profile, event, &source);
    }
    if is_whole && crate::script::asks_more(reader.events()) {
        crate::script::ask(input, &profile, symbolizer)?;
    }
    let reached = Reached::new(Phase::Reading, at, all);
    Ok((!is_whole).then_some(reached))
}

/// The code of the hottest functions of an event.
fn ask_for_code(profile: &Profile, event: EventId, source: &FileCode) {
    let has_samples = |event: &prof_profile::Event| event.samples > 0;
    if !profile
        .events
        .get(usize::from(event.0))
        .is_some_and(has_samples)
    {
        return;
    }
    let scene = Scene::new(
        profile,
        Selection {
            event,
            ..Selection::default()
        },
    );
    let weights = scene.weights_by_stack();
    let build = Build {
        profile,
        leaf_weights: &weights,
        source,
        syntax: Syntax::Att,
    };
    for function in hottest(&scene, HOT, HOTTEST) {
        build.view(function);
    }
}

#[cfg(test)]
mod tests {
    use super::{Phase, Reached};

    #[test]
    fn how_far_it_came_is_told_in_the_unit_of_the_work() {
        let words = |phase, done, total| {
            let reached = Reached {
                named: 8,
                ..Reached::new(phase, done, total)
            };
            reached.words()
        };
        let read = words(Phase::Reading, 41, Some(100));
        assert_eq!(read, "41 % of the records were read");
        let named = words(Phase::Naming, 7, Some(9));
        assert_eq!(
            named,
            "8 of 9 addresses have a name, 7 lines and inlined functions"
        );
        let rest = "names were looked up, but not all code was read and packed";
        assert_eq!(words(Phase::Naming, 9, Some(9)), rest);
        assert_eq!(words(Phase::Naming, 0, None), rest);
    }
}

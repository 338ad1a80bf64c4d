//! One recording as several files, one after another, each of which stands
//! alone: its events, what there was when it began, and the records until the
//! next begins.
//!
//! The files part at a time, not at a place in the stream, since rings are
//! drained one after another and unwinding holds samples back: what is
//! younger waits for the next file, and all that is older is in this one with
//! the mappings and names that it needs.
//!
//! ```text
//! cut(5)   records: 4 7 5 6 3 │ switch
//! this file: 4 5 3            │ next: state as of 5, then 7 6 …
//! ```

use crate::consumer::{Consumer, Parts, Switched};
use crate::output::Output;
use crate::output_error::OutputError;
use crate::rounds::{Times, each, is_overwritten};
use crate::stamp::stamped;
use crate::tally::{Counter, Tally};
use crate::task_state::{TaskState, is_state};
use prof_abi::RecordType;
use prof_perfdata::write::{EventDescription, Features, Kept, finished_init};
use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};

/// Records about tasks come so much later than younger ones at most, ns: rings
/// are drained some times a second.
const SETTLED_WITHIN: u64 = 2_000_000_000;

/// Writes them.
pub(crate) struct Series {
    output: Output,
    begun: Beginning,
    times: Times,
    fresh: Counter,
    /// Of the file that is being written.
    counter: Counter,
    cut: Option<Cut>,
    /// The youngest record, ns, and the youngest before the last mark.
    youngest: u64,
    marked: u64,
    /// There are no marks; records about tasks come in about their order all
    /// the same.
    is_unmarked: bool,
    /// Bytes of all files before.
    bytes_before: u64,
    files: Files,
}

/// Where this file ends.
#[derive(Debug)]
struct Cut {
    /// The youngest that belongs into it, ns.
    at: u64,
    /// What is younger.
    later: Vec<u8>,
}

/// What a file begins with.
#[derive(Debug)]
pub(crate) struct Beginning {
    /// Records about the recording itself, as they were first written.
    about: Vec<u8>,
    pub(crate) state: TaskState,
    is_over: bool,
}

impl Beginning {
    pub(crate) fn new(written: &[EventDescription]) -> Self {
        Self {
            about: Vec::new(),
            state: TaskState::new(written),
            is_over: false,
        }
    }

    /// Whether all that stands before the kernel's first record was seen.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over
    }

    /// Looks at a record of the first file's beginning.
    pub(crate) fn note(&mut self, kind: RecordType, record: &[u8]) {
        match kind {
            RecordType::FINISHED_INIT => {
                self.is_over = true;
                self.state.settle(0);
            }
            kind if is_state(kind) => self.state.note(0, record),
            _ => self.about.extend_from_slice(record),
        }
    }

    /// What the next file begins with.
    pub(crate) fn again(&self) -> Vec<u8> {
        let mut out = self.about.clone();
        self.state.append_to(&mut out);
        finished_init(&mut out);
        out
    }
}

/// The files that are finished.
#[derive(Debug, Default)]
pub(crate) struct Files {
    kept: VecDeque<PathBuf>,
    /// Only so many stay.
    most: Option<usize>,
}

impl Files {
    pub(crate) fn new(most: Option<usize>) -> Self {
        Self {
            most,
            ..Self::default()
        }
    }

    /// A file is finished: removes the oldest if there are too many.
    pub(crate) fn keep(&mut self, name: PathBuf) {
        self.kept.push_back(name);
        if self.most.is_some_and(|most| self.kept.len() > most)
            && let Some(oldest) = self.kept.pop_front()
        {
            // Somebody else may have taken it away.
            let _ = fs::remove_file(oldest);
        }
    }

    /// The file at `path` is finished and gets a name of its own.
    fn add(&mut self, path: &Path) -> Result<PathBuf, OutputError> {
        let name = stamped(path)?;
        fs::rename(path, &name).map_err(|source| OutputError::Io {
            doing: "name",
            path: name.clone(),
            source,
        })?;
        self.keep(name.clone());
        Ok(name)
    }
}

impl Series {
    /// Files after `output`, whose events are `written`; at most `most` stay.
    pub(crate) fn new(output: Output, written: &[EventDescription], most: Option<usize>) -> Self {
        let attr = written.first().map(|event| event.attr.clone());
        let attr = attr.unwrap_or_default();
        let counter = Counter::new(&attr);
        Self {
            output,
            begun: Beginning::new(written),
            times: Times::of(&attr),
            fresh: counter.clone(),
            counter,
            cut: None,
            youngest: 0,
            marked: 0,
            is_unmarked: is_overwritten(written),
            bytes_before: 0,
            files: Files::new(most),
        }
    }

    fn write(&mut self, records: &[u8]) -> Result<(), OutputError> {
        self.counter.count(records, &mut |_, _| {});
        self.output.records(records)
    }

    /// Keeps the state and gives back what belongs into this file; `None`
    /// means all of it.
    fn look_at(&mut self, records: &[u8]) -> Option<Vec<u8>> {
        let Self {
            begun, times, cut, ..
        } = self;
        let mut older = cut.is_some().then(Vec::new);
        let (mut youngest, mut marked) = (self.youngest, self.marked);
        each(records, |kind, record| {
            if !begun.is_over() {
                begun.note(kind, record);
                return;
            }
            let time = times.of_record(kind, record).unwrap_or(0);
            youngest = youngest.max(time);
            if is_state(kind) {
                begun.state.note(time, record);
            }
            if kind == RecordType::FINISHED_ROUND && cut.is_none() {
                begun.state.settle(marked);
                marked = youngest;
            }
            match (&mut *cut, &mut older) {
                (Some(cut), _) if time > cut.at => cut.later.extend_from_slice(record),
                (Some(_), Some(older)) => older.extend_from_slice(record),
                _ => {}
            }
        });
        let is_due = youngest.saturating_sub(marked) >= SETTLED_WITHIN;
        if self.is_unmarked && is_due && cut.is_none() {
            begun.state.settle(marked);
            marked = youngest;
        }
        (self.youngest, self.marked) = (youngest, marked);
        older
    }
}

impl Consumer for Series {
    fn records(&mut self, records: &[u8]) -> Result<(), OutputError> {
        match self.look_at(records) {
            Some(older) => self.write(&older),
            None => self.write(records),
        }
    }

    fn flush(&mut self) -> Result<(), OutputError> {
        self.output.flush()
    }

    fn size(&self) -> u64 {
        self.output.size()
    }

    fn salvage(&mut self) -> Option<Kept> {
        let _ = self.uncut();
        self.output.salvage()
    }

    fn finish(mut self: Box<Self>, late: Features) -> Result<(), OutputError> {
        self.end(late).map(drop)
    }
}

impl Parts for Series {
    fn cut(&mut self, at: u64) -> bool {
        let later = Vec::new();
        self.cut.get_or_insert(Cut { at, later });
        true
    }

    fn uncut(&mut self) -> Result<(), OutputError> {
        match self.cut.take() {
            Some(cut) => self.write(&cut.later),
            None => Ok(()),
        }
    }

    fn end(&mut self, late: Features) -> Result<PathBuf, OutputError> {
        self.uncut()?;
        self.output.end_file(late)?;
        self.files.add(self.output.path())
    }

    fn switch(&mut self, last: &[u8], late: Features) -> Result<Switched, OutputError> {
        let next = match self.output.prepare() {
            Ok(next) => next,
            Err(why) => {
                self.uncut()?;
                return Ok(Switched::Refused(why));
            }
        };
        let tally = self.counter.tally();
        self.write(last)?;
        let bytes = self.output.size();
        let path = self.output.path().to_owned();
        let name = self
            .output
            .end_file(late)
            .and_then(|()| self.files.add(&path));
        let name = match name {
            Ok(name) => name,
            Err(error) => {
                next.discard();
                return Err(error);
            }
        };
        self.bytes_before += bytes;
        self.output.begin_file(next)?;
        self.begin_next()?;
        Ok(Switched::To { name, tally, bytes })
    }

    fn tally(&self) -> Tally {
        self.counter.tally()
    }

    fn bytes(&self) -> u64 {
        self.bytes_before + self.output.size()
    }
}

impl Series {
    /// Writes what the new file begins with.
    fn begin_next(&mut self) -> Result<(), OutputError> {
        let cut = self.cut.take();
        let at = cut.as_ref().map_or(self.youngest, |cut| cut.at);
        self.begun.state.settle(at);
        self.marked = at;
        self.counter = self.fresh.clone();
        self.output.records(&self.begun.again())?;
        if let Some(cut) = cut {
            self.write(&cut.later)?;
        }
        self.output.flush()
    }
}

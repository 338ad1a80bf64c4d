//! Writing down what a symbolizer is asked and answers.

use super::part::{PartKey, Piece};
use crate::perf_map::{LineFault, RefusedLines};
use crate::{Detail, LineRow, Lookup, OpenError};
use prof_profile::{Avma, Redaction, Svma, UnnamedReason};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Bytes of source texts at most.
const SOURCES_MAX: usize = 64 << 20;

/// What one dso was asked.
#[derive(Debug, Default, Clone)]
pub(crate) struct Noted {
    pub(crate) refusal: Option<(UnnamedReason, String)>,
    pub(crate) from: Option<String>,
    pub(crate) is_64_bit: bool,
    pub(crate) has_lines: bool,
    pub(crate) pieces: Vec<Piece>,
    /// Answers with lines.
    pub(crate) answers: HashMap<u64, Lookup>,
    /// Answers where only the symbol was asked for.
    pub(crate) names: HashMap<u64, Lookup>,
    pub(crate) code: BTreeMap<u64, Vec<u8>>,
    pub(crate) rows: BTreeMap<(u64, u64), Vec<LineRow>>,
    pub(crate) refused: BTreeMap<LineFault, RefusedLines>,
}

/// Notes of one dso. Shared between threads.
#[derive(Debug, Default, Clone)]
pub(crate) struct PartNotes(Arc<Mutex<Noted>>);

impl PartNotes {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Noted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes answers of this detail.
    pub(crate) fn answers<'a>(
        &self,
        detail: Detail,
        found: impl IntoIterator<Item = (u64, &'a Lookup)>,
    ) {
        let mut noted = self.lock();
        for (address, lookup) in found {
            match detail {
                Detail::Source => noted.answers.insert(address, lookup.clone()),
                // Their lines may be asked for later.
                Detail::Symbol | Detail::Inlines => noted.names.insert(address, lookup.clone()),
            };
        }
    }

    pub(crate) fn code(&self, start: u64, bytes: Option<&[u8]>) {
        if let Some(bytes) = bytes {
            let mut noted = self.lock();
            let known = noted.code.entry(start).or_default();
            if known.len() < bytes.len() {
                *known = bytes.to_vec();
            }
        }
    }

    pub(crate) fn rows(&self, range: (Svma, Svma), rows: &[LineRow]) {
        let key = (range.0.0, range.1.0);
        self.lock().rows.insert(key, rows.to_vec());
    }

    pub(crate) fn refusal(&self, error: &OpenError) {
        self.lock().refusal = Some((error.reason, error.detail.clone()));
    }
}

/// The look-ups that a symbolizer was asked for, and its answers, to be
/// embedded in a recording. Shared between threads.
#[derive(Debug, Default)]
pub struct Notes {
    pub(super) parts: Mutex<BTreeMap<PartKey, PartNotes>>,
    pub(super) sources: Mutex<BTreeMap<String, String>>,
    with_sources: bool,
    pub(super) redaction: Option<Arc<Redaction>>,
}

/// How much of the notes is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// All that was noted.
    All,
    /// No instruction bytes, no source texts.
    WithoutCode,
    /// No inlined functions and source lines either.
    Names,
}

impl Notes {
    /// Notes that keep the texts of source files, too.
    pub fn with_sources() -> Self {
        Self {
            with_sources: true,
            ..Self::default()
        }
    }

    /// The same notes, packed without the folders of files.
    pub fn redacting(self, redaction: Arc<Redaction>) -> Self {
        Self {
            redaction: Some(redaction),
            ..self
        }
    }

    /// The notes on a dso, new ones if there are none.
    pub(crate) fn part(&self, key: PartKey) -> PartNotes {
        let mut parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        parts.entry(key).or_default().clone()
    }

    /// Notes the text of a source file, if these keep such.
    pub fn note_source(&self, path: &str, text: &str) {
        if !self.with_sources {
            return;
        }
        let mut sources = self.sources.lock().unwrap_or_else(PoisonError::into_inner);
        let there: usize = sources.values().map(String::len).sum();
        if there + text.len() <= SOURCES_MAX {
            sources.insert(path.to_owned(), text.to_owned());
        }
    }

    /// Records how reading the names of a process's run-time code went: the
    /// jitdump and the refused lines of the perf map, or why there are none.
    pub fn note_run_time_code(
        &self,
        pid: i32,
        opened: Result<(Option<&Path>, &BTreeMap<LineFault, RefusedLines>), UnnamedReason>,
    ) {
        let part = self.part(PartKey::RunTime(pid));
        let mut noted = part.lock();
        match opened {
            Ok((dump, refused)) => {
                noted.from = dump.map(|dump| dump.to_string_lossy().into_owned());
                noted.refused = refused.clone();
            }
            Err(reason) => noted.refusal = Some((reason, String::new())),
        }
    }

    /// Notes what stands at an address of such code.
    pub fn note_run_time_name(&self, pid: i32, at: Avma, found: &Lookup) {
        let part = self.part(PartKey::RunTime(pid));
        part.answers(Detail::Source, [(at.0, found)]);
    }

    /// Notes the instructions and lines of such code, which a jitdump has.
    pub fn note_jitdump_code(&self, dump: &str, (start, bytes): (Avma, &[u8]), rows: &[LineRow]) {
        let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let mut of_process = parts.iter().filter(|(key, part)| {
            matches!(key, PartKey::RunTime(_)) && part.lock().from.as_deref() == Some(dump)
        });
        if let Some((_, part)) = of_process.next() {
            let end = start.0.wrapping_add(bytes.len() as u64);
            part.code(start.0, Some(bytes));
            part.rows((Svma(start.0), Svma(end)), rows);
        }
    }

    /// Addresses that have been noted so far.
    pub fn addresses(&self) -> usize {
        let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let of_part = |part: &PartNotes| {
            let noted = part.lock();
            noted.answers.len() + noted.names.len()
        };
        parts.values().map(of_part).sum()
    }

    /// Addresses of which at least the name was looked up so far.
    pub fn named(&self) -> usize {
        let parts = self.parts.lock().unwrap_or_else(PoisonError::into_inner);
        let of_part = |part: &PartNotes| {
            let noted = part.lock();
            let names = noted.names.keys();
            let only = names.filter(|address| !noted.answers.contains_key(address));
            noted.answers.len() + only.count()
        };
        parts.values().map(of_part).sum()
    }
}

/// Notes as bytes.
#[derive(Debug)]
pub struct Packed {
    /// For [`super::Embedded::new`].
    pub bytes: Vec<u8>,
    /// What of them went in.
    pub extent: Extent,
    /// Whether nothing of that was left out because the time was over.
    pub is_whole: bool,
}

/// When work is to be over.
#[derive(Debug, Clone, Copy)]
pub(super) struct TimeLimit {
    until: Option<Instant>,
    is_over: bool,
    calls: u32,
}

impl TimeLimit {
    /// Calls from one look at the clock to the next.
    const LOOK_AFTER: u32 = 64;

    /// Half of the time that is left until then.
    pub(super) fn half_of(until: Option<Instant>) -> Self {
        let now = Instant::now();
        let half = |until: Instant| now + until.saturating_duration_since(now) / 2;
        Self {
            until: until.map(half),
            is_over: false,
            calls: 0,
        }
    }

    /// Whether there is one.
    pub(super) fn is_set(&self) -> bool {
        self.until.is_some()
    }

    /// Whether it is over; stays so.
    pub(super) fn is_over(&mut self) -> bool {
        if let Some(until) = self.until.filter(|_| !self.is_over) {
            if self.calls.is_multiple_of(Self::LOOK_AFTER) {
                self.is_over = Instant::now() >= until;
            }
            self.calls = self.calls.wrapping_add(1);
        }
        self.is_over
    }

    /// Whether it was found to be over.
    pub(super) fn was_over(&self) -> bool {
        self.is_over
    }
}

//! Names of addresses looked up while records are still being read.
//!
//! Reading is one thread's work for most of its time; looking names up is
//! what the other cores can do meanwhile. Which addresses are looked up early,
//! and in which order their answers are used, depends on the records alone, so
//! that the profile is the same for any number of threads.

use crate::dso_files::DsoFiles;
use crate::found::Found;
use crate::lookups::look_up_in_file;
use crate::raw_locations::RawLocation;
use crate::recorded::RecordedKernel;
use prof_live::{MappedDso, MappedDsoId, MappedDsos};
use prof_profile::DsoKind;
use prof_symbolize::{Detail, SymbolFile};
use std::sync::{Arc, Mutex, PoisonError};

/// Addresses of a dso that are looked up at once: enough of them that they
/// share what is read of the file.
const PART: usize = 2048;
/// The same where only symbols are, which share nothing.
const SMALL_PART: usize = 128;

/// Addresses looked up early at most: bounds the memory for their answers,
/// some 200 bytes each, which are held until all records are read.
const MOST: usize = 1 << 17;

/// Chooses what to look up early.
#[derive(Debug)]
pub(crate) struct EarlyChoice {
    /// Addresses of a dso that are looked up at once.
    part: usize,
    /// Locations seen so far.
    seen: usize,
    /// By `MappedDsoId`, those not looked up yet.
    waiting: Vec<Vec<u32>>,
    chosen: usize,
    parts: usize,
}

/// Addresses of one dso to look up.
#[derive(Debug)]
pub(crate) struct EarlyPart {
    /// Parts are numbered as they were chosen.
    number: usize,
    id: MappedDsoId,
    dso: MappedDso,
    /// Which locations these are.
    indices: Vec<u32>,
    locations: Vec<RawLocation>,
}

/// The answers for a part.
pub(crate) struct EarlyAnswer {
    number: usize,
    pub(crate) dso: MappedDsoId,
    /// The file they come from.
    pub(crate) file: Arc<SymbolFile>,
    pub(crate) indices: Vec<u32>,
    /// In the order of `indices`.
    pub(crate) found: Found,
}

/// What was looked up so far.
#[derive(Default)]
pub(crate) struct EarlyAnswers(Mutex<Vec<EarlyAnswer>>);

impl Default for EarlyChoice {
    fn default() -> Self {
        Self {
            part: PART,
            seen: 0,
            waiting: Vec::new(),
            chosen: 0,
            parts: 0,
        }
    }
}

impl EarlyChoice {
    /// Small parts, for symbols only.
    pub(crate) fn in_small_parts() -> Self {
        Self {
            part: SMALL_PART,
            ..Self::default()
        }
    }

    /// Parts that have become large enough with the locations of `raw` that
    /// are new since the last call.
    pub(crate) fn next(&mut self, dsos: &MappedDsos, raw: &[RawLocation]) -> Vec<EarlyPart> {
        let new = raw.get(self.seen..).unwrap_or_default();
        let mut parts = Vec::new();
        for (index, location) in (self.seen as u32..).zip(new) {
            if self.chosen >= MOST {
                break;
            }
            let Some(id) = location.dso else { continue };
            let at = id.0 as usize;
            if self.waiting.len() <= at {
                self.waiting.resize_with(at + 1, Vec::new);
            }
            let Some(waiting) = self.waiting.get_mut(at) else {
                continue;
            };
            waiting.push(index);
            if waiting.len() < self.part || dsos.get(id).kind != DsoKind::File {
                continue;
            }
            let indices = std::mem::take(waiting);
            let raw_of = |&index: &u32| raw.get(index as usize).copied();
            parts.push(EarlyPart {
                number: self.parts,
                id,
                dso: dsos.get(id).clone(),
                locations: indices.iter().filter_map(raw_of).collect(),
                indices,
            });
            self.parts += 1;
            self.chosen += self.part;
        }
        self.seen = raw.len();
        parts
    }
}

impl EarlyAnswers {
    /// Looks a part up; what has no file is left for later.
    pub(crate) fn look_up(
        &self,
        part: EarlyPart,
        files: &DsoFiles<'_>,
        kernel: &RecordedKernel,
        detail: Detail,
    ) {
        let Ok(file) = files.open(&part.dso, kernel) else {
            return;
        };
        let found = Found::of(look_up_in_file(
            (&file, files.machine),
            &part.locations,
            detail,
        ));
        file.release_pages();
        let answer = EarlyAnswer {
            number: part.number,
            dso: part.id,
            found,
            file,
            indices: part.indices,
        };
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        answers.push(answer);
    }

    /// How many addresses were looked up so far.
    pub(crate) fn count(&self) -> u64 {
        let answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        answers
            .iter()
            .map(|answer| answer.found.places.len() as u64)
            .sum()
    }

    /// All answers in the order in which their parts were chosen.
    pub(crate) fn into_ordered(self) -> Vec<EarlyAnswer> {
        let mut answers = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        answers.sort_unstable_by_key(|answer| answer.number);
        answers
    }
}

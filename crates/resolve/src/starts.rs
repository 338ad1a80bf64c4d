//! Which locations are where threads start: by the names of their functions, and where
//! they have none, as in stripped programs and libraries, by their code.

use crate::chain_ends::is_thread_start;
use crate::recorded_files::RecordedFiles;
use prof_abi::CpuMode;
use prof_live::{MappedDsoId, MappedDsos, OpenFile};
use prof_profile::{DsoId, DsoKind, LocationId, NameId, Profile};
use prof_unwind::{Machine, UnwindDso};
use rustc_hash::FxHashMap;

/// Most locations of which the code is looked at: as many as broken chains may begin with.
const MOST_LOOKED_AT: usize = 1 << 12;

/// Where the code of a recording's programs is.
pub(crate) struct StartCode<'a> {
    pub(crate) mapped: &'a MappedDsos,
    pub(crate) files: RecordedFiles,
    pub(crate) machine: Machine,
}

/// Which locations are a thread's start; each name is judged once.
pub(crate) struct Starts<'a> {
    by_name: FxHashMap<NameId, bool>,
    code: &'a StartCode<'a>,
    files: RecordedFiles,
    open: FxHashMap<DsoId, Option<UnwindDso>>,
    /// Locations whose code was looked at.
    looked_at: FxHashMap<LocationId, bool>,
}

impl<'a> Starts<'a> {
    pub(crate) fn new(code: &'a StartCode<'a>) -> Self {
        Self {
            by_name: FxHashMap::default(),
            code,
            files: code.files.clone(),
            open: FxHashMap::default(),
            looked_at: FxHashMap::default(),
        }
    }

    /// `None` if the location is not in user code.
    pub(crate) fn is_start(&mut self, profile: &Profile, location: LocationId) -> Option<bool> {
        if profile.location(location).mode != CpuMode::User {
            return None;
        }
        let frame = profile.frames_at(location).last()?;
        let function = profile.function(frame.function);
        if function.unnamed.is_some() {
            return Some(self.is_start_by_code(profile, location));
        }
        let judge = || is_thread_start(profile.name(function.name));
        Some(*self.by_name.entry(function.name).or_insert_with(judge))
    }

    /// Whether a thread begins with the call before a location, by the code around it.
    fn is_start_by_code(&mut self, profile: &Profile, id: LocationId) -> bool {
        if let Some(&known) = self.looked_at.get(&id) {
            return known;
        }
        let location = profile.location(id);
        let is_file = profile.dso(location.dso).kind == DsoKind::File;
        if !is_file || !location.is_return || self.looked_at.len() >= MOST_LOOKED_AT {
            return false;
        }
        let Self { code, files, .. } = self;
        let opened = self.open.entry(location.dso).or_insert_with(|| {
            // The profile has one dso for each that was mapped, in the same order.
            let mapped = code.mapped.get(MappedDsoId(location.dso.0));
            files.open(mapped, 0)
        });
        let starts = opened.as_mut();
        let starts = starts.is_some_and(|dso| dso.starts_thread(location.address, code.machine));
        self.looked_at.insert(id, starts);
        starts
    }
}

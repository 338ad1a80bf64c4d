//! Which parts of a profile the exported samples name.

use prof_profile::{DsoId, FunctionId, LocationId, NameId, Profile};
use rustc_hash::FxHashMap;

/// By `FunctionId`: the first function of this name in this dso. A function that
/// is inlined here and called there, or has a part that stands apart, is two
/// in a profile; readers that know functions by their names take them for one.
pub(crate) fn by_name(profile: &Profile) -> Vec<FunctionId> {
    let mut first: FxHashMap<(NameId, DsoId), FunctionId> = FxHashMap::default();
    let functions = profile.functions.iter().zip(0..);
    let same = functions.map(|(function, index)| {
        let key = (function.name, function.dso);
        *first.entry(key).or_insert(FunctionId(index))
    });
    same.collect()
}

/// Locations that were named, and through them functions and dsos.
#[derive(Debug, Default)]
pub(crate) struct Used {
    /// By `LocationId`.
    locations: Vec<bool>,
}

impl Used {
    pub(crate) fn new(profile: &Profile) -> Self {
        Self {
            locations: vec![false; profile.locations.len()],
        }
    }

    pub(crate) fn location(&mut self, id: LocationId) {
        if let Some(used) = self.locations.get_mut(id.0 as usize) {
            *used = true;
        }
    }

    /// All locations that were named.
    pub(crate) fn locations(&self) -> impl Iterator<Item = LocationId> + '_ {
        let named = self.locations.iter().zip(0..).filter(|(used, _)| **used);
        named.map(|(_, index)| LocationId(index))
    }

    /// The dsos that those are in, and past the last address in each.
    pub(crate) fn dsos(&self, profile: &Profile) -> Vec<(DsoId, u64)> {
        let mut ends = vec![None; profile.dsos.len()];
        for location in self.locations().map(|id| profile.location(id)) {
            if let Some(end) = ends.get_mut(location.dso.0 as usize) {
                *end = (*end).max(Some(location.address.0.saturating_add(1)));
            }
        }
        let named = ends.into_iter().zip(0..);
        named
            .filter_map(|(end, index)| Some((DsoId(index), end?)))
            .collect()
    }

    /// The functions that stand there, and the file of their lines.
    pub(crate) fn functions(&self, profile: &Profile) -> Vec<(FunctionId, Option<NameId>)> {
        let mut used: Vec<Option<Option<NameId>>> = vec![None; profile.functions.len()];
        for frame in self.locations().flat_map(|id| profile.frames_at(id)) {
            if let Some(used) = used.get_mut(frame.function.0 as usize) {
                let file = used.get_or_insert(None);
                *file = file.or(frame.file);
            }
        }
        let all = used.into_iter().zip(0..).filter_map(|(used, index)| {
            let id = FunctionId(index);
            let defined = profile.function(id).defined_at.map(|(file, _)| file);
            Some((id, used?.or(defined)))
        });
        all.collect()
    }
}

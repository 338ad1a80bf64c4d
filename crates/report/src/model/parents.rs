//! Callers by which samples are told apart.

use super::select::{ParentPattern, StackEnd};
use prof_profile::{NameId, Profile, StackId};

/// By `StackId`: the caller that a pattern finds.
pub(crate) struct Parents(Vec<Option<NameId>>);

impl Parents {
    pub(crate) fn new(profile: &Profile, wanted: &ParentPattern) -> Self {
        let matching: Vec<bool> = profile
            .functions
            .iter()
            .map(|function| {
                function.unnamed.is_none() && wanted.pattern.is_match(profile.name(function.name))
            })
            .collect();
        // As in perf, inlined functions are no callers.
        let found = |location| {
            let host = profile.frames_at(location).last()?;
            let is_it = matching.get(host.function.0 as usize) == Some(&true);
            is_it.then(|| profile.function(host.function).name)
        };
        let mut parents: Vec<Option<NameId>> = Vec::with_capacity(profile.stacks.len());
        // A stack's caller has a smaller id than the stack.
        for index in 0..profile.stacks.len() {
            let own = profile.stacks.get(StackId(index as u32));
            parents.push(own.and_then(|(caller, location)| {
                let outer = parents.get(caller.0 as usize).copied().flatten();
                match wanted.from {
                    StackEnd::Outermost => outer.or_else(|| found(location)),
                    StackEnd::Leaf => found(location).or(outer),
                }
            }));
        }
        Self(parents)
    }

    pub(crate) fn of(&self, stack: StackId) -> Option<NameId> {
        self.0.get(stack.0 as usize).copied().flatten()
    }
}

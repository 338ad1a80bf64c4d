//! Which files of different builds are the same.

use super::traits::Functions;
use rustc_hash::{FxHashMap, FxHashSet};

/// A file that only one side has is taken for one that only the other has if
/// most of its cost is in functions that the other has, too: `app-old` and
/// `app-new`. By name after.
pub(super) fn renamed_dsos(before: &Functions, after: &Functions) -> FxHashMap<String, String> {
    let (of_before, of_after) = (Files::of(before), Files::of(after));
    let alone = |files: &Files<'_>, others: &Files<'_>| -> Vec<String> {
        let names = files.0.keys().filter(|name| !others.0.contains_key(*name));
        let mut names: Vec<String> = names.map(|name| (*name).to_owned()).collect();
        names.sort();
        names
    };
    let candidates = alone(&of_before, &of_after);
    let mut renamed = FxHashMap::default();
    let mut taken = FxHashSet::default();
    for name in alone(&of_after, &of_before) {
        let found = candidates.iter().find(|candidate| {
            !taken.contains(*candidate) && of_after.is_mostly_in(&name, &of_before, candidate)
        });
        if let Some(found) = found {
            taken.insert(found.clone());
            renamed.insert(name, found.clone());
        }
    }
    renamed
}

/// By file: by function that was met in stacks, part of the whole that is its
/// own.
struct Files<'a>(FxHashMap<&'a str, FxHashMap<&'a str, f64>>);

impl<'a> Files<'a> {
    fn of(functions: &'a Functions) -> Self {
        let mut files: FxHashMap<&str, FxHashMap<&str, f64>> = FxHashMap::default();
        for ((file, symbol), traits) in functions.names.iter().zip(&functions.traits) {
            if traits.is_met() {
                let own = files.entry(file).or_default().entry(symbol).or_default();
                *own += traits.own;
            }
        }
        Self(files)
    }

    fn is_mostly_in(&self, name: &str, others: &Self, other: &str) -> bool {
        let Some((own, others)) = self.0.get(name).zip(others.0.get(other)) else {
            return false;
        };
        let shared = own.iter().filter(|(name, _)| others.contains_key(*name));
        let shared: f64 = shared.map(|(_, weight)| *weight).sum();
        let all: f64 = own.values().sum();
        all > 0.0 && shared > 0.5 * all
    }
}

//! Which files of different builds are the same.

use super::{place, plain_dso, plain_symbol};
use crate::Run;
use prof_report::keys::{DSO, SYMBOL, SortKey};
use rustc_hash::{FxHashMap, FxHashSet};

/// A file that only one side has is taken for one that only the other has if
/// most of its cost is in functions that the other has, too: `app-old` and
/// `app-new`. By name after.
pub(super) fn renamed_dsos(
    (before, after): (&[Run], &[Run]),
    keys: &[SortKey],
) -> FxHashMap<String, String> {
    let (Some(symbol), Some(dso)) = (place(keys, SYMBOL), place(keys, DSO)) else {
        return FxHashMap::default();
    };
    let (of_before, of_after) = (
        Files::of(before, symbol, dso),
        Files::of(after, symbol, dso),
    );
    let alone = |files: &Files, others: &Files| -> Vec<String> {
        let names = files.0.keys().filter(|name| !others.0.contains_key(*name));
        let mut names: Vec<String> = names.cloned().collect();
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

/// By file: by function, its weight.
struct Files(FxHashMap<String, FxHashMap<String, u64>>);

impl Files {
    fn of(runs: &[Run], symbol: usize, dso: usize) -> Self {
        let mut files: FxHashMap<String, FxHashMap<String, u64>> = FxHashMap::default();
        for row in runs.iter().flat_map(|run| &run.measured.rows) {
            if let Some((symbol, dso)) = row.names.get(symbol).zip(row.names.get(dso)) {
                let functions = files.entry(plain_dso(dso).to_owned()).or_default();
                let weight = functions
                    .entry(plain_symbol(symbol).into_owned())
                    .or_default();
                *weight = weight.saturating_add(row.own.period);
            }
        }
        Self(files)
    }

    fn is_mostly_in(&self, name: &str, others: &Self, other: &str) -> bool {
        let Some((own, others)) = self.0.get(name).zip(others.0.get(other)) else {
            return false;
        };
        let sum = |weights: &mut dyn Iterator<Item = u64>| weights.fold(0, u64::saturating_add);
        let all = sum(&mut own.values().copied());
        let shared = own.iter().filter(|(name, _)| others.contains_key(*name));
        let shared = sum(&mut shared.map(|(_, weight)| *weight));
        all > 0 && shared as f64 > 0.5 * all as f64
    }
}

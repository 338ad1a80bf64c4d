//! Which files of different builds are the same.

use super::traits::Functions;
use rustc_hash::{FxHashMap, FxHashSet};

/// Why a file is taken for one of another name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// Most of its cost is in functions that the other file has too.
    Functions,
    /// Both are executables, and each is the only one of its side without a
    /// counterpart.
    Programs,
}

/// A file that only one side has is taken for one that only the other has if
/// most of its cost is in functions that the other has, too, or if both are the
/// program of their side: `app-old` and `app-new`. By name after.
pub(super) fn renamed_dsos(
    before: &Functions,
    after: &Functions,
) -> FxHashMap<String, (String, Why)> {
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
            renamed.insert(name, (found.clone(), Why::Functions));
        }
    }
    let program = |side: &Functions, names: Vec<String>| -> Option<String> {
        let mut left = names
            .into_iter()
            .filter(|name| side.programs.contains(name));
        // Of several none is known to be the other's.
        left.next().filter(|_| left.next().is_none())
    };
    let mut old = candidates;
    old.retain(|name| !taken.contains(name));
    let mut new = alone(&of_after, &of_before);
    new.retain(|name| !renamed.contains_key(name));
    if let (Some(old), Some(new)) = (program(before, old), program(after, new)) {
        renamed.insert(new, (old, Why::Programs));
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

#[cfg(test)]
mod tests {
    use crate::comparison::tests::run_as;
    use crate::{Comparison, ComparisonOptions};

    #[test]
    fn programs_with_few_common_functions_are_paired_by_having_been_run() {
        let before = [run_as(
            "app-old",
            &[("app-old:main", 400), ("app-old:main;app-old:solve", 600)],
        )];
        let compared = |after: &str| {
            let parts = [
                (format!("{after}:main"), 400),
                (format!("{after}:main;{after}:plan"), 600),
                ("helper:run".to_owned(), 10),
            ];
            let parts = parts
                .each_ref()
                .map(|(stack, count)| (stack.as_str(), *count));
            let after = [run_as("app-new", &parts)];
            Comparison::new(&before, &after, &ComparisonOptions::default()).unwrap()
        };
        let paired = compared("app-new");
        let note = "app-new is compared with app-old: the programs that were run";
        assert_eq!(paired.notes[0], note);
        let rows = |comparison: &Comparison| -> usize { comparison.rows.len() };
        assert_eq!(rows(&paired), 4, "main of both is one row");
        // What no process was named for is another file.
        let apart = compared("library");
        assert!(
            apart
                .notes
                .iter()
                .all(|note| !note.contains("is compared with"))
        );
        assert_eq!(rows(&apart), 5);
    }
}

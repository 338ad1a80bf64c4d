//! Cost that moved between functions, as budgets see it: what was inlined or
//! taken out is neither saved nor spent.

use crate::comparison::{Comparison, ComparisonOptions};
use crate::matching::Matched;
use crate::moved::Moved;
use crate::{Incomparable, Run};
use prof_statistics::Verdict;
use rustc_hash::FxHashMap;

/// Rows between which cost moved, by their place.
#[derive(Debug, Default)]
struct One {
    from: Vec<usize>,
    into: Vec<usize>,
    /// All of them together are surely dearer.
    is_dearer: bool,
}

/// All of a comparison.
#[derive(Debug, Default)]
pub(crate) struct MovedCost {
    all: Vec<One>,
}

impl MovedCost {
    /// Between these rows, of these runs; none without a baseline.
    pub(crate) fn of(
        rows: &[Matched],
        baseline: &[Run],
        runs: &[Run],
    ) -> Result<Self, Incomparable> {
        if baseline.is_empty() {
            return Ok(Self::default());
        }
        let compared = Comparison::new(baseline, runs, &ComparisonOptions::default())?;
        let mut all: Vec<One> = compared
            .moves
            .iter()
            .map(|it| One {
                is_dearer: it.verdict == Verdict::Slower,
                ..One::default()
            })
            .collect();
        let names = rows.iter().enumerate().map(|(at, row)| (&row.names, at));
        let places: FxHashMap<&Vec<String>, usize> = names.collect();
        for row in &compared.rows {
            let at = places.get(&row.names).copied();
            let Some((moved, at)) = row.moved.zip(at) else {
                continue;
            };
            if let Some(one) = all.get_mut(moved.place()) {
                match moved {
                    Moved::Into(_) => one.from.push(at),
                    Moved::From(_) => one.into.push(at),
                }
            }
        }
        Ok(Self { all })
    }

    /// Where the code of a row was before, if it only moved there and all
    /// together are not dearer.
    pub(crate) fn origin(&self, row: usize) -> Option<&[usize]> {
        let of = |one: &&One| one.into.contains(&row) && !one.is_dearer;
        self.all.iter().find(of).map(|one| one.from.as_slice())
    }

    /// Rows beside these that cost moved to or from: it is theirs, too.
    pub(crate) fn others(&self, rows: &[usize]) -> Vec<usize> {
        let both = |one: &One| -> Vec<usize> { [one.from.clone(), one.into.clone()].concat() };
        let all = self.all.iter().map(both);
        let touched = all.filter(|all| all.iter().any(|at| rows.contains(at)));
        touched.flatten().filter(|at| !rows.contains(at)).collect()
    }
}

//! Rows of several recordings, those of the same function as one.

use super::{Others, place, plain_dso, plain_symbol};
use crate::{Run, Side};
use prof_report::escape;
use prof_report::keys::{DSO, SYMBOL, SortKey};
use prof_report::measured::MeasuredRow;
use prof_statistics::Figure;
use rustc_hash::FxHashMap;

/// What a row of one run shows.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Found {
    /// Weight, in the event's unit.
    pub(crate) weight: f64,
    /// Share of the run's total and its variance.
    pub(crate) share: Figure,
    pub(crate) samples: u64,
}

/// A row of all runs.
#[derive(Debug, Clone)]
pub(crate) struct Matched {
    pub(crate) names: Vec<String>,
    pub(crate) shown: Vec<String>,
    /// What the keys told before, if the function was recognised by another
    /// name.
    pub(crate) was: Option<Vec<String>>,
    /// By run.
    pub(crate) before: Vec<Found>,
    pub(crate) after: Vec<Found>,
}

/// All rows of all runs, in the order in which they are first met; and which
/// files and functions were taken for one another.
pub(crate) fn matched(
    (before, after): (&[Run], &[Run]),
    keys: &[SortKey],
    side: Side,
) -> (Vec<Matched>, Vec<String>) {
    let others = Others::of((before, after), keys);
    let mut rows: Vec<Matched> = Vec::new();
    let mut index: FxHashMap<Vec<String>, usize> = FxHashMap::default();
    let none = |runs: &[Run]| -> Vec<Found> {
        let of = |run: &Run| Found {
            share: run.measured.nothing.figure(),
            ..Found::default()
        };
        runs.iter().map(of).collect()
    };
    let nothing = (none(before), none(after));
    let of_before = before.iter().enumerate().map(|at| (at, false));
    let of_after = after.iter().enumerate().map(|at| (at, true));
    for ((at, run), is_after) in of_before.chain(of_after) {
        for row in &run.measured.rows {
            let (key, is_recognised) = identity(row, keys, is_after.then_some(&others));
            let place = *index.entry(key).or_insert_with(|| {
                rows.push(Matched {
                    names: row.names.clone(),
                    shown: row.shown.clone(),
                    was: None,
                    before: nothing.0.clone(),
                    after: nothing.1.clone(),
                });
                rows.len() - 1
            });
            let Some(row_of_all) = rows.get_mut(place) else {
                continue;
            };
            if is_recognised {
                row_of_all.rename(row, keys);
            }
            let list = match is_after {
                true => &mut row_of_all.after,
                false => &mut row_of_all.before,
            };
            if let Some(found) = list.get_mut(at) {
                found.add(row, run, side);
            }
        }
    }
    (rows, others.notes())
}

impl Matched {
    /// Gives a row of before its names after.
    fn rename(&mut self, after: &MeasuredRow, keys: &[SortKey]) {
        if self.was.is_some() {
            return;
        }
        let was = std::mem::replace(&mut self.names, after.names.clone());
        self.shown.clone_from(&after.shown);
        let old = |key| place(keys, key).and_then(|at| was.get(at));
        let new = |key| place(keys, key).and_then(|at| self.names.get(at));
        let changed = [SYMBOL, DSO]
            .into_iter()
            .find(|&key| old(key).is_some() && old(key) != new(key));
        let old = changed.and_then(old).map(|name| name.trim().to_owned());
        let cell = place(keys, SYMBOL).and_then(|at| self.shown.get_mut(at));
        if let (Some(old), Some(cell)) = (old, cell) {
            *cell = format!("{} (was {})", cell.trim_end(), escape::terminal(&old));
        }
        self.was = Some(was);
    }
}

impl Found {
    /// Rows of one run that are the same to others are added up.
    fn add(&mut self, row: &MeasuredRow, run: &Run, side: Side) {
        let (share, weight) = match side {
            Side::Own => (row.sure.own, row.own),
            Side::Total => (row.sure.total, row.total),
        };
        let figure = share.figure();
        let is_first = self.samples == 0;
        self.weight += weight.period as f64;
        self.samples += weight.samples;
        self.share = Figure {
            value: self.weight / run.total().max(1.0),
            // Of two parts of a whole it is less.
            variance: match is_first {
                true => figure.variance,
                false => self.share.variance + figure.variance,
            },
        };
    }
}

/// What tells rows apart in all builds, and whether that is by another name;
/// `others` of a row after.
fn identity(row: &MeasuredRow, keys: &[SortKey], others: Option<&Others>) -> (Vec<String>, bool) {
    let (symbol, dso) = (place(keys, SYMBOL), place(keys, DSO));
    let names = row.names.iter().enumerate();
    let mut names: Vec<String> = names
        .map(|(at, name)| match at {
            _ if Some(at) == symbol => plain_symbol(name).into_owned(),
            _ if Some(at) == dso => match others {
                Some(others) => others.dso(name),
                None => plain_dso(name).to_owned(),
            },
            _ => name.clone(),
        })
        .collect();
    let name_at = |at: Option<usize>| at.and_then(|at| names.get(at).cloned());
    let own = (
        name_at(dso).unwrap_or_default(),
        name_at(symbol).unwrap_or_default(),
    );
    let Some((old_dso, old_symbol)) = others.and_then(|others| others.functions.get(&own)) else {
        return (names, false);
    };
    for (at, old) in [(dso, old_dso), (symbol, old_symbol)] {
        if let Some(name) = at.and_then(|at| names.get_mut(at)) {
            name.clone_from(old);
        }
    }
    (names, true)
}

//! Rows of several recordings, those of the same function as one.

use super::{Counterparts, Known, place};
use crate::Run;
use prof_report::escape;
use prof_report::keys::{DSO, SYMBOL, SortKey};
use prof_report::measured::MeasuredRow;
use prof_statistics::Figure;
use rustc_hash::FxHashMap;

/// Which weight of a function is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Side {
    /// Its own code.
    #[default]
    Own,
    /// What it calls, too.
    Total,
}

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
    /// The function as both sides know it.
    pub(crate) key: (String, String),
    pub(crate) names: Vec<String>,
    pub(crate) shown: Vec<String>,
    /// What the keys told before, if the function was recognised by another
    /// name.
    pub(crate) was: Option<Vec<String>>,
    /// By run.
    pub(crate) before: Vec<Found>,
    pub(crate) after: Vec<Found>,
}

/// All rows of all runs, in the order in which they are first met; and by what
/// they were matched.
pub(crate) fn matched(
    (before, after): (&[Run], &[Run]),
    keys: &[SortKey],
    side: Side,
) -> (Vec<Matched>, Counterparts) {
    let counterparts = Counterparts::of_runs(before, after, keys);
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
            let (key, known) = identity(row, keys, (&counterparts, is_after));
            let place = *index.entry(key).or_insert_with(|| {
                rows.push(Matched {
                    key: known.name.clone(),
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
            if known.was.is_some() {
                row_of_all.rename(row, keys, &known);
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
    (rows, counterparts)
}

impl Matched {
    /// Gives a row of before its names after.
    fn rename(&mut self, after: &MeasuredRow, keys: &[SortKey], known: &Known) {
        if self.was.is_some() {
            return;
        }
        let was = std::mem::replace(&mut self.names, after.names.clone());
        self.shown.clone_from(&after.shown);
        let cell = place(keys, SYMBOL).and_then(|at| self.shown.get_mut(at));
        if let Some(cell) = cell
            && let Some(renamed) = known.renamed(cell)
        {
            *cell = escape::terminal(&renamed).into_owned();
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

/// What tells rows apart in all builds, and the function as both sides know it.
fn identity(
    row: &MeasuredRow,
    keys: &[SortKey],
    (counterparts, is_after): (&Counterparts, bool),
) -> (Vec<String>, Known) {
    let places = [place(keys, DSO), place(keys, SYMBOL)];
    let name_at = |at: Option<usize>| at.and_then(|at| row.names.get(at));
    let [dso, symbol] = places.map(|at| name_at(at).map_or("", String::as_str));
    let known = match is_after {
        true => counterparts.known_after(dso, symbol),
        false => counterparts.known_before(dso, symbol),
    };
    let mut names = row.names.clone();
    for (at, name) in places.into_iter().zip([&known.name.0, &known.name.1]) {
        if let Some(own) = at.and_then(|at| names.get_mut(at)) {
            own.clone_from(name);
        }
    }
    (names, known)
}

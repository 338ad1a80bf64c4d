//! Which rows of different builds are the same.

mod files;
mod names;

pub(crate) use names::plain_dso;
pub use names::plain_symbol;

use crate::{Run, Side};
use files::renamed_dsos;
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
    /// By run.
    pub(crate) before: Vec<Found>,
    pub(crate) after: Vec<Found>,
}

/// All rows of all runs, in the order in which they are first met; and which
/// files were taken for one another.
pub(crate) fn matched(
    (before, after): (&[Run], &[Run]),
    keys: &[SortKey],
    side: Side,
) -> (Vec<Matched>, Vec<String>) {
    let others = renamed_dsos((before, after), keys);
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
            let key = identity(row, keys, is_after.then_some(&others));
            let place = *index.entry(key).or_insert_with(|| {
                rows.push(Matched {
                    names: row.names.clone(),
                    shown: row.shown.clone(),
                    before: nothing.0.clone(),
                    after: nothing.1.clone(),
                });
                rows.len() - 1
            });
            let Some(row_of_all) = rows.get_mut(place) else {
                continue;
            };
            let list = match is_after {
                true => &mut row_of_all.after,
                false => &mut row_of_all.before,
            };
            if let Some(found) = list.get_mut(at) {
                found.add(row, run, side);
            }
        }
    }
    let said = |(after, before): (&String, &String)| format!("{after} is compared with {before}");
    let mut notes: Vec<String> = others.iter().map(said).collect();
    notes.sort();
    (rows, notes)
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

/// Where in a row a key is.
pub(crate) fn place(keys: &[SortKey], wanted: SortKey) -> Option<usize> {
    keys.iter().position(|key| *key == wanted)
}

/// What tells rows apart in all builds.
fn identity(
    row: &MeasuredRow,
    keys: &[SortKey],
    other_dsos: Option<&FxHashMap<String, String>>,
) -> Vec<String> {
    let (symbol, dso) = (place(keys, SYMBOL), place(keys, DSO));
    let names = row.names.iter().enumerate();
    names
        .map(|(at, name)| match at {
            _ if Some(at) == symbol => plain_symbol(name).into_owned(),
            _ if Some(at) == dso => {
                let plain = plain_dso(name);
                let other = other_dsos.and_then(|others| others.get(plain));
                other.map_or(plain, String::as_str).to_owned()
            }
            _ => name.clone(),
        })
        .collect()
}

//! Which rows of different builds are the same.

mod files;
mod names;
mod recognise;
mod traits;

pub(crate) use names::plain_dso;
pub use names::plain_symbol;
pub(crate) use traits::Functions;

use crate::{Run, Side};
use files::renamed_dsos;
use prof_report::escape;
use prof_report::keys::{DSO, SYMBOL, SortKey};
use prof_report::measured::MeasuredRow;
use prof_statistics::Figure;
use recognise::{is_same_but_for_module, recognised};
use rustc_hash::FxHashMap;
use traits::Name;

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

/// What has another name after.
struct Others {
    /// By file after: the file before.
    dsos: FxHashMap<String, String>,
    /// By function after: the function before.
    functions: FxHashMap<Name, Name>,
    /// Whether rows tell files apart.
    by_dso: bool,
}

impl Others {
    fn of((before, after): (&[Run], &[Run]), keys: &[SortKey]) -> Self {
        let mut others = Self {
            dsos: renamed_dsos((before, after), keys),
            functions: FxHashMap::default(),
            by_dso: place(keys, DSO).is_some(),
        };
        if place(keys, SYMBOL).is_some() {
            let old = others.functions_of(before, |dso| dso.to_owned());
            let new = others.functions_of(after, |dso| others.dso(dso));
            let samples = |runs: &[Run]| runs.iter().map(Run::samples).sum::<u64>();
            let least = samples(before).min(samples(after));
            let pairs = recognised(&old, &new, least).into_iter();
            let name = |side: &Functions, at: usize| side.names.get(at).cloned();
            let named = pairs.filter_map(|(at, was)| Some((name(&new, at)?, name(&old, was)?)));
            others.functions = named.collect();
        }
        others
    }

    /// The functions of a side, as mean cost of its runs.
    fn functions_of(&self, runs: &[Run], dso: impl Fn(&str) -> String) -> Functions {
        let cost = |run: &Run| run.total() / run.work;
        let whole = runs.iter().map(cost).sum::<f64>().max(f64::MIN_POSITIVE);
        let mut all = Functions::default();
        for run in runs {
            all.add(
                &run.functions,
                cost(run) / whole,
                |(file, symbol)| match self.by_dso {
                    true => (dso(file), symbol.clone()),
                    false => (String::new(), symbol.clone()),
                },
            );
        }
        all
    }

    /// The file before of one after, without its version.
    fn dso(&self, after: &str) -> String {
        let plain = plain_dso(after);
        self.dsos
            .get(plain)
            .map_or(plain, String::as_str)
            .to_owned()
    }

    /// What they are, as sentences.
    fn notes(&self) -> Vec<String> {
        let files = self.dsos.iter();
        let mut files: Vec<String> = files
            .map(|(after, before)| format!("{after} is compared with {before}"))
            .collect();
        let functions = self.functions.iter();
        let mut functions: Vec<String> = functions.map(told).collect();
        files.sort();
        functions.sort();
        let hidden = functions.len().saturating_sub(MOST_TOLD);
        if hidden > 0 {
            functions.truncate(MOST_TOLD);
            functions.push(format!(
                "{hidden} more functions were recognised by another name"
            ));
        }
        files.into_iter().chain(functions).collect()
    }
}

/// So many functions that were recognised are told one by one.
const MOST_TOLD: usize = 20;

/// What is said of a function after that is taken for one before.
fn told(((dso, symbol), (old_dso, old_symbol)): (&Name, &Name)) -> String {
    if symbol == old_symbol {
        return format!("{symbol} moved from {old_dso} to {dso}");
    }
    let how = match is_same_but_for_module([old_symbol, symbol]) {
        true => "moved",
        false => "renamed",
    };
    format!(
        "{symbol} is compared with {old_symbol}: {how}, by who calls it, what it calls, its size and name"
    )
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

//! Which rows of different builds are the same.

mod files;
mod names;
mod recognise;
mod rows;
mod traits;

pub(crate) use names::plain_dso;
pub use names::plain_symbol;
pub(crate) use rows::{Found, Matched, matched};
pub(crate) use traits::Functions;

use crate::Run;
use files::renamed_dsos;
use prof_report::keys::{DSO, SYMBOL, SortKey};
use recognise::{is_same_but_for_module, recognised};
use rustc_hash::FxHashMap;
use traits::Name;

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

/// Where in a row a key is.
pub(crate) fn place(keys: &[SortKey], wanted: SortKey) -> Option<usize> {
    keys.iter().position(|key| *key == wanted)
}

//! Which rows of different builds are the same.

mod files;
mod names;
mod recognise;
mod rows;
mod traits;

pub(crate) use names::plain_dso;
pub(crate) use names::plain_symbol;
pub use rows::Side;
pub(crate) use rows::{Found, Matched, matched};
pub use traits::Functions;
pub(crate) use traits::{Parts, SAMPLES_OF_CALLS, Traits};

use crate::Run;
use files::{Why, renamed_dsos};
use prof_report::keys::{DSO, SYMBOL, SortKey};
use recognise::{is_same_but_for_module, recognised};
use rustc_hash::FxHashMap;
use traits::Name;

/// Which files and functions of the recordings after correspond to which ones
/// before, though their names changed.
#[derive(Debug, Clone, Default)]
pub struct Counterparts {
    /// By file after: the file before, and why.
    dsos: FxHashMap<String, (String, Why)>,
    /// By function after, in the file before: the function before.
    functions: FxHashMap<Name, Name>,
}

/// The identity of a function on both sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// File and name before, without the parts that change with each build.
    pub name: (String, String),
    /// The name before, if it was another one: of the function, or of the file
    /// if only that changed.
    pub was: Option<String>,
}

impl Known {
    /// `NEW (was OLD)` for a function whose name changed; `NEW` is given.
    pub fn renamed(&self, name: &str) -> Option<String> {
        let was = self.was.as_deref()?;
        Some(format!("{} (was {})", name.trim_end(), was.trim()))
    }
}

/// Functions of a recording, and what it cost: only its part of the costs of
/// the side matters.
type Weighed<'a> = (&'a Functions, f64);

impl Counterparts {
    /// Matches the functions of recordings before and after.
    pub fn of(before: &[Functions], after: &[Functions]) -> Self {
        let sides = [before, after].map(|side| {
            let weighed = side.iter().map(|it| (it, it.whole()));
            weighed.collect::<Vec<Weighed<'_>>>()
        });
        Self::of_weighed(&sides, &[DSO, SYMBOL])
    }

    /// Those of runs whose rows are told apart by `keys`.
    fn of_runs(before: &[Run], after: &[Run], keys: &[SortKey]) -> Self {
        Self::of_weighed(&[before, after].map(weighed), keys)
    }

    /// The functions of both sides under the names that both know.
    pub(crate) fn functions_of(
        &self,
        (before, after): (&[Run], &[Run]),
        keys: &[SortKey],
    ) -> [Functions; 2] {
        let named = named_by(keys);
        let before = summed(&weighed(before), &named);
        let after = summed(&weighed(after), |name| {
            let (file, symbol) = named(name);
            let own = (self.dso(&file).to_owned(), symbol);
            self.functions.get(&own).cloned().unwrap_or(own)
        });
        [before, after]
    }

    fn of_weighed(sides: &[Vec<Weighed<'_>>; 2], keys: &[SortKey]) -> Self {
        let mut found = Self::default();
        let [old, new] = sides.each_ref().map(|side| summed(side, named_by(keys)));
        found.dsos = renamed_dsos(&old, &new);
        if place(keys, SYMBOL).is_none() {
            return found;
        }
        let mut there = Functions::default();
        there.add(&new, 1.0, |(file, symbol)| {
            (found.dso(file).to_owned(), symbol.clone())
        });
        let samples = old.samples().min(new.samples());
        let pairs = recognised(&old, &there, samples).into_iter();
        let name = |side: &Functions, at: usize| side.names.get(at).cloned();
        let named = pairs.filter_map(|(at, was)| Some((name(&there, at)?, name(&old, was)?)));
        found.functions = named.collect();
        found
    }

    /// The identity of a function of the recordings before.
    pub fn known_before(&self, dso: &str, symbol: &str) -> Known {
        Known {
            name: (plain_dso(dso).to_owned(), plain_symbol(symbol).into_owned()),
            was: None,
        }
    }

    /// The identity of a function of the recordings after.
    pub fn known_after(&self, dso: &str, symbol: &str) -> Known {
        let file = self.file_before(dso).to_owned();
        let own = (file, plain_symbol(symbol).into_owned());
        match self.functions.get(&own) {
            Some(before) => Known {
                name: before.clone(),
                was: Some(match before.1 == own.1 {
                    true => before.0.clone(),
                    false => before.1.clone(),
                }),
            },
            None => Known {
                name: own,
                was: None,
            },
        }
    }

    /// The file before of one after, without its version.
    pub(crate) fn file_before<'a>(&'a self, after: &'a str) -> &'a str {
        self.dso(plain_dso(after))
    }

    /// The same of one without its version.
    fn dso<'a>(&'a self, after: &'a str) -> &'a str {
        self.dsos.get(after).map_or(after, |(file, _)| file)
    }

    /// What they are, as sentences.
    pub(crate) fn notes(&self) -> Vec<String> {
        let files = self.dsos.iter();
        let mut files: Vec<String> = files
            .map(|(after, (before, why))| match why {
                Why::Functions => format!("{after} is compared with {before}"),
                Why::Programs => {
                    format!("{after} is compared with {before}: the programs that were run")
                }
            })
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

/// The functions of runs and what a unit of their work cost.
fn weighed(runs: &[Run]) -> Vec<Weighed<'_>> {
    let weighed = runs.iter().map(|run| {
        let functions = &run.functions;
        (functions, functions.whole() / run.work)
    });
    weighed.collect()
}

/// Names as rows by `keys` tell them apart: without files, if they do not.
fn named_by(keys: &[SortKey]) -> impl Fn(&Name) -> Name + use<> {
    let by_dso = place(keys, DSO).is_some();
    move |(file, symbol): &Name| match by_dso {
        true => (file.clone(), symbol.clone()),
        false => (String::new(), symbol.clone()),
    }
}

/// The functions of a side, as mean cost of its runs.
fn summed(side: &[Weighed<'_>], name: impl Fn(&Name) -> Name) -> Functions {
    let costs = side.iter().map(|(_, cost)| cost);
    let whole = costs.sum::<f64>().max(f64::MIN_POSITIVE);
    let mut all = Functions::default();
    for (functions, cost) in side {
        all.add(functions, cost / whole, &name);
    }
    all
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

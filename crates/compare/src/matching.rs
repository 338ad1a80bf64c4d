//! Which rows of different builds are the same.

use crate::{Run, Side};
use prof_report::keys::{DSO, SYMBOL, SortKey};
use prof_report::measured::MeasuredRow;
use prof_statistics::Figure;
use rustc_hash::{FxHashMap, FxHashSet};
use std::borrow::Cow;

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

/// Endings that compilers give to parts and copies of a function; a number may
/// follow.
const ENDINGS: [&str; 9] = [
    ".constprop",
    ".part",
    ".isra",
    ".cold",
    ".llvm",
    ".lto_priv",
    ".localalias",
    ".warm",
    ".specialized",
];

/// A function's name without what changes from build to build: the hash of
/// Rust's mangling, endings that compilers add, numbers of closures, lambdas and
/// anonymous places.
pub fn plain_symbol(name: &str) -> Cow<'_, str> {
    let mut plain = without_endings(name);
    if let Some((before, hash)) = plain.rsplit_once("::h")
        && hash.len() == 16
        && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
    {
        plain = before;
    }
    if !plain.contains('#') && !plain.contains(".L") {
        return Cow::Borrowed(plain);
    }
    // `{closure#3}` of Rust, `{lambda(int)#2}` of C++.
    let mut text = String::with_capacity(plain.len());
    let mut letters = plain.chars().peekable();
    while let Some(letter) = letters.next() {
        text.push(letter);
        if letter == '#' {
            while letters.next_if(char::is_ascii_digit).is_some() {}
        }
    }
    Cow::Owned(text)
}

fn without_endings(name: &str) -> &str {
    let mut name = name;
    loop {
        let digits = name.trim_end_matches(|letter: char| letter.is_ascii_digit());
        let before_number = digits.strip_suffix('.').unwrap_or(name);
        let shorter = ENDINGS.iter().find_map(|ending| {
            let of_numbered = before_number.strip_suffix(ending);
            of_numbered.or_else(|| name.strip_suffix(ending))
        });
        match shorter {
            Some(shorter) if !shorter.is_empty() => name = shorter,
            _ => return name,
        }
    }
}

/// `libc.so.6` and `libssl.so.1.1` without their versions.
pub(crate) fn plain_dso(name: &str) -> &str {
    match name.find(".so.") {
        Some(at) => name.get(..at + ".so".len()).unwrap_or(name),
        None => name,
    }
}

/// A file that only one side has is taken for one that only the other has if
/// most of its cost is in functions that the other has, too: `app-old` and
/// `app-new`. By name after.
fn renamed_dsos((before, after): (&[Run], &[Run]), keys: &[SortKey]) -> FxHashMap<String, String> {
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

#[cfg(test)]
mod tests {
    use super::{plain_dso, plain_symbol};

    #[test]
    fn what_changes_from_build_to_build_is_left_out() {
        for (name, plain) in [
            ("core::fmt::write::h0123456789abcdef", "core::fmt::write"),
            ("alloc::vec::h01", "alloc::vec::h01"),
            ("parse.constprop.0", "parse"),
            ("parse.isra.0.cold", "parse"),
            ("parse.part.12.isra.3", "parse"),
            ("inner.llvm.1234567890", "inner"),
            (
                "app::main::{closure#3}::{closure#0}",
                "app::main::{closure#}::{closure#}",
            ),
            (
                "sort(int)::{lambda(int)#12}::operator()",
                "sort(int)::{lambda(int)#}::operator()",
            ),
            (".cold", ".cold"),
            ("main", "main"),
            ("x.1", "x.1"),
        ] {
            assert_eq!(plain_symbol(name), plain);
        }
        assert_eq!(plain_dso("libc.so.6"), "libc.so");
        assert_eq!(plain_dso("app"), "app");
    }
}

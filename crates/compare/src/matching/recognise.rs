//! Functions that have another name after, recognised by who calls them, what
//! they call and how long they are.
//!
//! A false join is worse than a missed one: the missed one shows a function
//! that went and one that came, both true. So a pair must hold in each respect,
//! not on average:
//!
//! - Callers agree, and callees if there are any (unless the size is the same to
//!   the byte and the name alike): of the calls' weight, at
//!   least [`AROUND`] is in the same functions on both sides. Functions that
//!   were not matched yet count as different. 0.8 leaves room for scatter at
//!   [`SAMPLES`] samples (two standard errors of a share of a half are 0.16).
//! - Sizes, if known, differ by at most a tenth. Of all pairs of the 1660
//!   functions of 32 bytes and more that a libc.so.6 exports, 7.5 % do by chance,
//!   so that is not enough: one of these must join it: the same size to the byte (0.9 %
//!   by chance), weight in the same callees, the same name but for its module,
//!   or an alike name.
//! - No other pair of either function comes nearer than [`MARGIN`].
//! - Cost never chooses between functions: it is what is asked. If two
//!   functions cannot be told apart but by cost, none is recognised. What is
//!   more than [`COST`] times as large a part of its run is not said to be the
//!   same function.

use super::traits::{Functions, Parts, Traits, sum};
use rustc_hash::{FxHashMap, FxHashSet};

/// So many samples, in the mean, each must have on both sides.
const SAMPLES: f64 = 40.0;
/// And this part of all: of less, no verdict matters.
const LEAST: f64 = 0.005;
/// So many of each side, the dearest, are looked at.
const MOST: usize = 200;
/// What part of the weight of calls is in the same functions.
const AROUND: f64 = 0.8;
/// What calls less than this part of its weight calls nothing.
const LITTLE: f64 = 0.05;
/// The shorter code, by the longer.
const SIZE: f64 = 0.9;
/// Shorter code has often the same size by chance, bytes.
const LEAST_SIZE: u64 = 32;
/// Names that are alike, of 1.
const NAMES: f64 = 0.6;
/// The dearer one, by the other.
const COST: f64 = 2.0;
/// What the next best pair must stay behind.
const MARGIN: f64 = 0.1;

/// By place after: the place before of the same function.
pub(crate) type Same = FxHashMap<usize, usize>;

/// A pair that may be one function: how alike, its places before and after.
type Candidate = (f64, usize, usize);

/// The functions that only one side has by name and that are the same by what
/// else is known of them; the smaller side has so many `samples`. Callers and
/// callees that were recognised tell more of others, so it is asked again until
/// nothing is new.
pub(crate) fn recognised(before: &Functions, after: &Functions, samples: u64) -> Same {
    let least = LEAST.max(SAMPLES / samples.max(1) as f64);
    let mut same = by_name(before, after);
    let known: FxHashSet<usize> = same.values().copied().collect();
    let mut old = alone(before, |at| known.contains(&at));
    let mut new = alone(after, |at| same.contains_key(&at));
    let mut found = Same::default();
    loop {
        let mut pairs: Vec<Candidate> = Vec::new();
        for &one in &old {
            for &other in &new {
                let pair = Pair::new((before, one), (after, other), &same);
                let score = pair.and_then(|pair| pair.score());
                pairs.extend(score.map(|score| (score, one, other)));
            }
        }
        let is_enough = |&&(_, one, other): &&Candidate| {
            let costs = [(before, one), (after, other)].map(|(side, at)| cost(side, at));
            let [least_cost, most] = [costs[0].min(costs[1]), costs[0].max(costs[1])];
            least_cost >= least && most <= COST * least_cost
        };
        let clear = pairs.iter().filter(|pair| is_clear(pair, &pairs));
        let clear: Vec<Candidate> = clear.filter(is_enough).copied().collect();
        if clear.is_empty() {
            return found;
        }
        for (_, one, other) in clear {
            old.retain(|at| *at != one);
            new.retain(|at| *at != other);
            same.insert(other, one);
            found.insert(other, one);
        }
    }
}

/// Whether no other pair of either function is nearly as alike.
fn is_clear(&&(score, one, other): &&Candidate, pairs: &[Candidate]) -> bool {
    let rivals = pairs.iter().filter(|it| (it.1 == one) != (it.2 == other));
    rivals.into_iter().all(|rival| rival.0 <= score - MARGIN)
}

/// Those that both sides have.
fn by_name(before: &Functions, after: &Functions) -> Same {
    let met = |side: &Functions, at: usize| side.traits.get(at).is_some_and(Traits::is_met);
    let names = after.names.iter().enumerate();
    let known = names.filter_map(|(at, name)| Some((at, before.find(name)?)));
    known
        .filter(|&(at, known)| met(before, known) && met(after, at))
        .collect()
}

/// The dearest functions of a side that the other has not.
fn alone(side: &Functions, is_known: impl Fn(usize) -> bool) -> Vec<usize> {
    let mut list: Vec<usize> = (0..side.names.len())
        .filter(|at| !is_known(*at) && cost(side, *at) > 0.0)
        .collect();
    list.sort_by(|a, b| cost(side, *b).total_cmp(&cost(side, *a)).then(a.cmp(b)));
    list.truncate(MOST);
    list
}

fn cost(side: &Functions, at: usize) -> f64 {
    side.traits.get(at).map_or(0.0, Traits::total)
}

/// Two functions that may be one.
struct Pair<'a> {
    names: [&'a str; 2],
    traits: [&'a Traits; 2],
    same: &'a Same,
}

impl<'a> Pair<'a> {
    fn new(
        (before, one): (&'a Functions, usize),
        (after, other): (&'a Functions, usize),
        same: &'a Same,
    ) -> Option<Self> {
        Some(Self {
            names: [&before.names.get(one)?.1, &after.names.get(other)?.1],
            traits: [before.traits.get(one)?, after.traits.get(other)?],
            same,
        })
    }

    /// How alike they are, from 0 to 1; `None` if they may not be one.
    fn score(&self) -> Option<f64> {
        let [one, other] = self.traits;
        let callers = self.agreement(&one.callers, &other.callers);
        if callers < AROUND {
            return None;
        }
        let is_equal = one.size == other.size && one.size >= LEAST_SIZE;
        let size = match (one.size.min(other.size), one.size.max(other.size)) {
            (0, _) => None,
            (_, _) if is_equal => Some(1.0),
            // Nearly the same is much less than the same.
            (least, most) => Some(least as f64 / most as f64 - 0.5),
        };
        if size.is_some_and(|size| size < SIZE - 0.5) {
            return None;
        }
        let name = match is_same_but_for_module(self.names) {
            true => 1.0,
            false => alike_names(self.names),
        };
        let calls = self
            .traits
            .map(|it| sum(&it.callees) >= LITTLE * it.total());
        let callees = self.agreement(&one.callees, &other.callees);
        let is_leaf = calls == [false, false];
        // Where what it calls was renamed, too, size and name must stand for it.
        let has_size = one.size == other.size && one.size > 0;
        let is_told_by_itself = has_size && name >= NAMES && calls[0] == calls[1];
        let is_told_by_callees = !is_leaf && callees >= AROUND;
        if !(is_leaf || is_told_by_callees || is_told_by_itself) {
            return None;
        }
        if !(is_equal || is_told_by_callees || name >= NAMES) {
            return None;
        }
        let around = match is_told_by_callees {
            true => callers.min(callees),
            false => callers,
        };
        Some((around + size.unwrap_or(0.0) + name) / 3.0)
    }

    /// The part of the calls' weight that is in the same functions on both
    /// sides.
    fn agreement(&self, one: &Parts, other: &Parts) -> f64 {
        let [whole, other_whole] = [one, other].map(|it| sum(it).max(f64::MIN_POSITIVE));
        let both = other.iter().filter_map(|(at, part)| {
            let old = one.get(self.same.get(at)?)?;
            Some((part / other_whole).min(old / whole))
        });
        both.sum()
    }
}

/// The last part of a path of modules or classes.
fn last_part(name: &str) -> &str {
    // What stands in the brackets of a template is no module.
    let end = name.find(['<', '(']).filter(|at| *at > 0);
    let path = name.get(..end.unwrap_or(name.len())).unwrap_or(name);
    let start = path.rfind("::").map_or(0, |at| at + "::".len());
    name.get(start..).unwrap_or(name)
}

/// Whether one was moved to another file or module.
pub(crate) fn is_same_but_for_module(names: [&str; 2]) -> bool {
    let [one, other] = names.map(last_part);
    one == other && !one.starts_with('{')
}

/// Of the pairs of letters that follow each other, the part that both have
/// (Dice's coefficient).
fn alike_names(names: [&str; 2]) -> f64 {
    let pairs = |name: &str| -> FxHashSet<(u8, u8)> {
        let bytes = name.as_bytes().iter().copied();
        bytes.clone().zip(bytes.skip(1)).collect()
    };
    let [one, other] = names.map(pairs);
    let both = one.intersection(&other).count();
    2.0 * both as f64 / (one.len() + other.len()).max(1) as f64
}

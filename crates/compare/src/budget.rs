//! Budgets: what a program may cost, and whether it is sure that it keeps to
//! them.

use crate::comparison::ComparisonOptions;
use crate::matching::Side;
use crate::matching::{Found, Matched, matched, place, plain_symbol};
use crate::moved_cost::MovedCost;
use crate::{Incomparable, Run, comparable};
use prof_profile::several;
use prof_report::asked::matches;
use prof_report::keys::SYMBOL;
use prof_statistics::{Change, Figure, Interval, Kind, Pairing, Sides, runs_needed};
use std::str::FromStr;

/// Of a hundred times that all budgets are kept exactly, check fails once.
const LEVEL_OF_FAILING: f64 = 0.01;
/// Of twenty times that a budget is just not kept, it passes once.
const LEVEL_OF_PASSING: f64 = 0.05;

/// What a budget is for.
#[derive(Debug, Clone, PartialEq)]
enum Limit {
    /// Functions whose names match, percent of the samples.
    Share(String, f64),
    /// Functions whose names match, in units of what they cost in the
    /// baseline.
    Cost(String, f64),
    /// All of the program, in units of the baseline.
    Total(f64),
    /// Each function that the baseline has not, percent of the samples.
    New(f64),
}

/// What something may cost at most.
#[derive(Debug, Clone, PartialEq)]
pub struct Budget {
    /// As it was written.
    pub text: String,
    limit: Limit,
    /// The event that it is about; `None` for any.
    event: Option<String>,
}

impl FromStr for Budget {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{text} is no budget\n  try: \"parse* <= 12%\"   (of the samples)\n   or: \
                 \"parse* <= 1.1x\", \"total <= 1.05x\"   (of the baseline)\n   or: \"new <= 1%\"   \
                 (functions that the baseline has not)"
            )
        };
        let (what, most) = text
            .split_once("<=")
            .or_else(|| text.split_once('≤'))
            .ok_or_else(wrong)?;
        let (what, most) = (what.trim(), most.trim());
        let (most, event) = match most.split_once(" of ") {
            Some((most, "baseline")) => (most, None),
            Some((most, event)) => (most, Some(event.trim().to_owned())),
            None => (most, None),
        };
        let most = most.trim_end_matches("baseline").trim();
        let number = |unit: &[char]| -> Option<f64> {
            let number = most.strip_suffix(unit)?.trim().parse().ok()?;
            (0.0..=1e6).contains(&number).then_some(number)
        };
        let (percent, times) = (number(&['%']), number(&['x', '×']));
        let limit = match (what, percent, times) {
            ("total", None, Some(times)) => Limit::Total(times),
            ("new", Some(percent), None) => Limit::New(percent),
            ("" | "total" | "new", ..) => return Err(wrong()),
            (name, Some(percent), None) => Limit::Share(name.to_owned(), percent),
            (name, None, Some(times)) => Limit::Cost(name.to_owned(), times),
            _ => return Err(wrong()),
        };
        Ok(Self {
            text: text.trim().to_owned(),
            limit,
            event,
        })
    }
}

impl Budget {
    /// Whether it can only be judged beside a baseline.
    pub fn needs_baseline(&self) -> bool {
        !matches!(self.limit, Limit::Share(..))
    }

    /// Whether it is about this event.
    pub fn is_for(&self, event: &str) -> bool {
        let plain = event.split(':').next();
        let own = self.event.as_deref();
        own.is_none_or(|own| own == event || Some(own) == plain)
    }
}

/// Whether a budget is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// It is kept, with confidence.
    Passes,
    /// It is exceeded, with confidence.
    Fails,
    /// The data cannot tell.
    Undecided,
}

/// How much more data would decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum More {
    /// A recording with so many samples.
    Samples(u64),
    /// So many recordings of each side.
    Runs(u64),
}

/// A budget and the verdict on it.
#[derive(Debug, Clone)]
pub struct Judged {
    /// The budget, as it was written.
    pub budget: String,
    /// The event it was judged by.
    pub event: String,
    /// The verdict.
    pub kept: Kept,
    /// The measured value: percent of the samples, or relative to the baseline.
    pub found: f64,
    /// Its 95 % interval.
    pub interval: Interval,
    /// `%` or `x`.
    pub unit: &'static str,
    /// Which function it is about, or how many functions.
    pub about: String,
    /// How much more data would decide it.
    pub needs: Option<More>,
    /// It is undecided, but all of the interval is above what is allowed: failing takes
    /// more, as all budgets together fail wrongly in one check of a hundred.
    pub is_nearly_sure: bool,
}

/// The recordings to be checked and those to compare with.
#[derive(Debug, Clone, Copy)]
pub struct Checked<'a> {
    /// What they are compared with; may be empty.
    pub baseline: &'a [Run],
    /// What is checked.
    pub runs: &'a [Run],
}

/// Judges budgets by runs of one event. The failures hold jointly: if all
/// budgets are kept exactly, one check in a hundred reports a failure.
///
/// # Errors
/// If nothing true can be said of the recordings.
pub fn judge(budgets: &[Budget], checked: &Checked<'_>) -> Result<Vec<Judged>, Incomparable> {
    let before = match checked.baseline {
        [] => checked.runs,
        baseline => baseline,
    };
    comparable::check(before, checked.runs, false)?;
    let keys = checked.runs.first().map_or(&[][..], Run::keys).to_vec();
    let side = ComparisonOptions::default().side;
    let (rows, _) = matched((before, checked.runs), &keys, side);
    debug_assert_eq!(side, Side::Own);
    let moved = MovedCost::of(&rows, checked.baseline, checked.runs)?;
    let judging = Judging {
        symbol: place(&keys, SYMBOL),
        rows: &rows,
        moved: &moved,
        checked,
        level: LEVEL_OF_FAILING / budgets.len().max(1) as f64,
    };
    Ok(budgets
        .iter()
        .map(|budget| judging.judged(budget))
        .collect())
}

struct Judging<'a> {
    symbol: Option<usize>,
    rows: &'a [Matched],
    moved: &'a MovedCost,
    checked: &'a Checked<'a>,
    level: f64,
}

/// A difference from a limit, and how it is shown.
struct Measured {
    /// Found less allowed.
    over: Change,
    found: f64,
    /// Of `found`, by that of `over`.
    scale: f64,
    unit: &'static str,
    about: String,
}

impl Measured {
    /// Of a cost in units of another run's: how much two runs differ decides, and
    /// with one a side that is not known.
    fn unless_of_one_run(mut self) -> Self {
        if self.over.kind == Kind::TheseRuns {
            self.over.error = f64::INFINITY;
            self.over.deviation = f64::NAN;
        }
        self
    }
}

impl Judging<'_> {
    fn judged(&self, budget: &Budget) -> Judged {
        let measured = match &budget.limit {
            // No part of a whole is more.
            Limit::Share(pattern, most) if *most >= 100.0 => {
                let judged = self.said(budget, self.share(&self.named(pattern), *most));
                return Judged {
                    kept: Kept::Passes,
                    needs: None,
                    ..judged
                };
            }
            Limit::Share(pattern, most) => self.share(&self.named(pattern), *most),
            Limit::Cost(pattern, most) => self.cost(&self.named(pattern), *most),
            Limit::Total(most) => self.total(*most),
            Limit::New(most) => return self.new_ones(budget, *most),
        };
        self.said(budget, measured)
    }

    /// The rows at these places.
    fn at(&self, places: &[usize]) -> Vec<&Matched> {
        places.iter().filter_map(|&at| self.rows.get(at)).collect()
    }

    /// What the rows at these places are called, the first three of them.
    fn names(&self, places: &[usize]) -> String {
        let name = |row: &&Matched| Some(row.shown.get(self.symbol?)?.trim().to_owned());
        let rows = self.at(places);
        let names: Vec<String> = rows.iter().take(3).filter_map(name).collect();
        match rows.len() - names.len() {
            0 => names.join(", "),
            more => format!("{} and {more} more", names.join(", ")),
        }
    }

    /// The rows whose function has such a name, before or after.
    fn named(&self, pattern: &str) -> Vec<usize> {
        let fits = |name: &String| matches(pattern, name) || matches(pattern, &plain_symbol(name));
        let is_one = |row: &Matched| {
            let names = [Some(&row.names), row.was.as_ref()];
            let mut own = names
                .into_iter()
                .flatten()
                .filter_map(|it| it.get(self.symbol?));
            own.any(fits)
        };
        let rows = self.rows.iter().enumerate();
        rows.filter(|(_, row)| is_one(row)).map(|it| it.0).collect()
    }

    /// A part of a whole is as sure as what is left of it: the surer figure of both.
    fn share(&self, places: &[usize], most: f64) -> Measured {
        let left = (0..self.rows.len()).filter(|at| places.binary_search(at).is_err());
        let rest = self.shares(&self.at(&left.collect::<Vec<_>>()));
        let rows = self.at(places);
        let both = self.shares(&rows).into_iter().zip(rest);
        let surer = both.map(|(figure, rest)| Figure {
            variance: figure.variance.min(rest.variance),
            ..figure
        });
        share_over(surer, rows.len(), most)
    }

    /// Percent of all, by run.
    fn shares(&self, rows: &[&Matched]) -> Vec<Figure> {
        summed(self.checked.runs, rows, |row| &row.after, |_| 100.0)
    }

    /// Of functions, with the change of what their code went into or came from:
    /// that is theirs.
    fn cost(&self, places: &[usize], most: f64) -> Measured {
        let cost = |run: &Run| run.total() / run.work;
        let others = self.moved.others(places);
        let mut about = functions(places.len());
        if !others.is_empty() {
            about = format!("{about}; code moved: with {}", self.names(&others));
        }
        let (runs, baseline) = (self.checked.runs, self.checked.baseline);
        let (own, others) = (self.at(places), self.at(&others));
        let all = [own.as_slice(), others.as_slice()].concat();
        let after = summed(runs, &all, |row| &row.after, cost);
        let before = summed(baseline, &own, |row| &row.before, cost);
        if others.is_empty() {
            return over(&before, &after, most, about).unless_of_one_run();
        }
        let beside = summed(baseline, &others, |row| &row.before, cost);
        over_beside((&before, &beside), &after, most, about).unless_of_one_run()
    }

    fn total(&self, most: f64) -> Measured {
        let figures = |runs: &[Run]| -> Vec<Figure> {
            let figure = |run: &Run| {
                let value = run.total() / run.work;
                Figure {
                    value,
                    variance: (value / run.samples().max(1) as f64).powi(2),
                }
            };
            runs.iter().map(figure).collect()
        };
        let (before, after) = (figures(self.checked.baseline), figures(self.checked.runs));
        over(&before, &after, most, "all samples".to_owned()).unless_of_one_run()
    }

    /// Functions that the baseline has not: the worst of them decides.
    fn new_ones(&self, budget: &Budget, most: f64) -> Judged {
        let is_new = |row: &Matched| {
            let samples: u64 = row.before.iter().map(|run| run.samples).sum();
            samples == 0 && row.after.iter().any(|run| run.samples > 0)
        };
        let rows = self.rows.iter().enumerate();
        let (moved, candidates): (Vec<_>, Vec<_>) = rows
            .filter(|(_, row)| is_new(row))
            .partition(|&(at, _)| self.moved.origin(at).is_some());
        let strict = Self {
            level: self.level / candidates.len().max(1) as f64,
            ..*self
        };
        let judged = candidates.into_iter().map(|(_, row)| {
            let mut measured = share_over(self.shares(&[row]), 1, most);
            let name = self.symbol.and_then(|at| row.shown.get(at));
            measured.about = name.map_or_else(String::new, |name| name.trim().to_owned());
            if self.checked.baseline.len() + self.checked.runs.len() < 3 {
                measured.over.error = f64::INFINITY;
            }
            strict.said(budget, measured)
        });
        let worst = judged.max_by(|a, b| {
            let rank = |kept: Kept| match kept {
                Kept::Fails => 2,
                Kept::Undecided => 1,
                Kept::Passes => 0,
            };
            rank(a.kept)
                .cmp(&rank(b.kept))
                .then(a.found.total_cmp(&b.found))
        });
        let mut worst = worst.unwrap_or_else(|| Judged {
            about: "no new function".to_owned(),
            ..self.said(budget, self.share(&[], most))
        });
        worst.about.push_str(&self.recognised_above(most));
        for (at, _) in moved.iter().take(3) {
            let origin = self.moved.origin(*at).unwrap_or_default();
            let (name, from) = (self.names(&[*at]), self.names(origin));
            worst
                .about
                .push_str(&format!("; not new: {name}, from {from}"));
        }
        worst
    }

    /// The functions above a limit, percent, that would be new by their name.
    fn recognised_above(&self, most: f64) -> String {
        let is_one = |row: &Matched| {
            row.was.is_some() && share_over(self.shares(&[row]), 1, most).over.value > 0.0
        };
        let rows = self.rows.iter().enumerate();
        let places: Vec<usize> = rows.filter(|(_, row)| is_one(row)).map(|it| it.0).collect();
        match places.is_empty() {
            true => String::new(),
            false => format!("; not new: {}", self.names(&places)),
        }
    }

    fn said(&self, budget: &Budget, measured: Measured) -> Judged {
        let Measured {
            over,
            found,
            scale,
            unit,
            about,
        } = measured;
        let kept = if over.p_of_at_most(0.0) <= self.level {
            Kept::Fails
        } else if over.p_of_at_least(0.0) <= LEVEL_OF_PASSING {
            Kept::Passes
        } else {
            Kept::Undecided
        };
        let of_over = over.interval(0.95);
        let half = of_over.half_width() * scale;
        let of_one = self.checked.runs.len() < 2 && !budget.needs_baseline();
        // Of all that there is no function has more.
        let most = if unit == "%" {
            100.0_f64.max(found)
        } else {
            f64::INFINITY
        };
        Judged {
            budget: budget.text.clone(),
            event: self
                .checked
                .runs
                .first()
                .map_or_else(String::new, |run| run.event.clone()),
            kept,
            found,
            interval: Interval {
                low: (found - half).max(0.0),
                high: (found + half).min(most),
            },
            unit,
            about,
            needs: (kept == Kept::Undecided)
                .then(|| self.needs(&over, of_one))
                .flatten(),
            is_nearly_sure: kept == Kept::Undecided && of_over.low > 0.0,
        }
    }

    /// What would decide in nine of ten cases, if all is as it seems.
    fn needs(&self, over: &Change, of_one: bool) -> Option<More> {
        let level = if over.value > 0.0 {
            2.0 * self.level
        } else {
            2.0 * LEVEL_OF_PASSING
        };
        if !over.error.is_finite() {
            return Some(More::Runs(3));
        }
        let units = runs_needed(over.scatter(), over.value, level)?;
        // The formula is for the difference of two sides.
        match of_one {
            true => {
                let samples: u64 = self.checked.runs.iter().map(Run::samples).sum();
                Some(More::Samples(
                    samples.saturating_mul(units.div_ceil(2).max(2)),
                ))
            }
            false => Some(More::Runs(units.max(self.checked.runs.len() as u64 + 1))),
        }
    }
}

/// By how much the share of so many rows lies over `most`, percent.
fn share_over(shares: impl IntoIterator<Item = Figure>, rows: usize, most: f64) -> Measured {
    let over = shares.into_iter().map(|figure| Figure {
        value: figure.value - most,
        ..figure
    });
    let over = change(&[], &over.collect::<Vec<_>>());
    Measured {
        found: over.value + most,
        over,
        scale: 1.0,
        unit: "%",
        about: functions(rows),
    }
}

fn functions(count: usize) -> String {
    match count {
        0 => "no function of this name has samples of its own".to_owned(),
        count => several(count as u64, "function"),
    }
}

/// By how much what is found lies over `most` times the baseline.
fn over(before: &[Figure], after: &[Figure], most: f64, about: String) -> Measured {
    let nothing = vec![Figure::default(); before.len()];
    over_beside((before, &nothing), after, most, about)
}

/// The same, where what is found has in it what the baseline has `beside`: that
/// may be there as it was.
fn over_beside(
    (before, beside): (&[Figure], &[Figure]),
    after: &[Figure],
    most: f64,
    about: String,
) -> Measured {
    let allowed: Vec<Figure> = before
        .iter()
        .zip(beside)
        .map(|(own, beside)| Figure {
            value: own.value * most + beside.value,
            variance: own.variance * most * most + beside.variance,
        })
        .collect();
    let mean = |side: &[Figure]| {
        let sum: f64 = side.iter().map(|figure| figure.value).sum();
        sum / side.len().max(1) as f64
    };
    let whole = mean(before).max(f64::MIN_POSITIVE);
    let found = (mean(after) - mean(beside)) / whole;
    Measured {
        over: change(&allowed, after),
        found: if mean(before) > 0.0 { found } else { f64::NAN },
        scale: 1.0 / whole,
        unit: "x",
        about,
    }
}

fn change(before: &[Figure], after: &[Figure]) -> Change {
    let sides = Sides {
        before,
        after,
        pairing: Pairing::Independent,
    };
    sides.change(None)
}

/// What rows show together, by run, in the unit that `of` gives a whole run.
fn summed<'m>(
    runs: &[Run],
    rows: &[&'m Matched],
    side: impl Fn(&'m Matched) -> &'m Vec<Found>,
    of: impl Fn(&Run) -> f64,
) -> Vec<Figure> {
    let one = |(at, run): (usize, &Run)| {
        let factor = of(run);
        let nothing = run.measured.nothing.figure();
        let start = Figure {
            value: 0.0,
            variance: if rows.is_empty() {
                nothing.variance
            } else {
                0.0
            },
        };
        let sum = rows
            .iter()
            .filter_map(|row| side(row).get(at))
            .fold(start, |sum, found| Figure {
                value: sum.value + found.share.value,
                // Of two parts of a whole it is less.
                variance: sum.variance + found.share.variance,
            });
        Figure {
            value: sum.value * factor,
            variance: sum.variance * factor * factor,
        }
    };
    runs.iter().enumerate().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::{Budget, Checked, Judged, Kept, More, judge};
    use crate::Run;
    use crate::comparison::tests::{run, sides, sized_run};

    fn judged(text: &str, checked: &Checked<'_>) -> Judged {
        let budgets: Vec<Budget> = vec![text.parse().unwrap()];
        judge(&budgets, checked).unwrap().remove(0)
    }

    #[test]
    fn budgets_are_written_as_one_says_them() {
        for right in [
            "parse* <= 12%",
            "a::b ≤ 0.5 %",
            "f<int> <= 1.1x",
            "total <= 1.05 × baseline",
            "new <= 1% of cpu-clock",
        ] {
            assert!(right.parse::<Budget>().is_ok(), "{right}");
        }
        for wrong in [
            "",
            "parse",
            "f <= 3",
            "total <= 5%",
            "new <= 2x",
            "<= 3%",
            "f <= -1%",
            "f <= NaN%",
        ] {
            let said = wrong.parse::<Budget>().unwrap_err();
            assert!(said.contains("is no budget"), "{said}");
        }
        let budget: Budget = "f <= 3% of cpu-clock".parse().unwrap();
        assert!(budget.is_for("cpu-clock:u") && !budget.is_for("cycles"));
    }

    #[test]
    fn shares_of_one_recording_pass_fail_or_need_more() {
        let runs = [run("a", &[("app:f", 400), ("app:g", 100)])];
        let checked = Checked {
            baseline: &[],
            runs: &runs,
        };
        assert_eq!(judged("f <= 95%", &checked).kept, Kept::Passes);
        assert_eq!(judged("f <= 40%", &checked).kept, Kept::Fails);
        let whole = judged("? <= 100%", &checked);
        let told = (whole.found, whole.kept, whole.needs);
        assert_eq!(told, (100.0, Kept::Passes, None));
        // What is left of it is nothing, which is sure.
        assert_eq!(judged("? <= 98%", &checked).kept, Kept::Fails);
        let none = judged("nothing <= 1%", &checked);
        assert_eq!(
            (none.kept, none.about.as_str()),
            (
                Kept::Passes,
                "no function of this name has samples of its own"
            )
        );
        // By chance here and there: not sure.
        let parts: Vec<(&str, u64)> = (0..40)
            .map(|at| {
                if at % 3 == 0 {
                    ("app:f", 1)
                } else {
                    ("app:g", 1)
                }
            })
            .collect();
        let few = [run("a", &parts)];
        let checked = Checked {
            baseline: &[],
            runs: &few,
        };
        let open = judged("f <= 33%", &checked);
        assert!(open.kept == Kept::Undecided, "{open:?}");
    }

    #[test]
    fn a_baseline_of_several_runs_decides_and_of_one_does_not() {
        let (before, after) = sides(130);
        let checked = Checked {
            baseline: &before,
            runs: &after,
        };
        assert_eq!(judged("total <= 1.05x", &checked).kept, Kept::Fails);
        assert_eq!(judged("total <= 1.3x", &checked).kept, Kept::Passes);
        assert_eq!(judged("g <= 1.1x", &checked).kept, Kept::Fails);
        assert_eq!(judged("f <= 1.1x", &checked).kept, Kept::Passes);
        assert_eq!(judged("new <= 1%", &checked).kept, Kept::Passes);
        let checked = Checked {
            baseline: &before[..1],
            runs: &after[..1],
        };
        for budget in ["total <= 1.05x", "g <= 0.1x", "g <= 9x"] {
            let open = judged(budget, &checked);
            let said = (open.kept, open.needs);
            assert_eq!(said, (Kept::Undecided, Some(More::Runs(3))), "{budget}");
        }
    }

    #[test]
    fn a_new_function_is_named() {
        let (before, _) = sides(100);
        let after: Vec<_> = [5, 7, 6]
            .iter()
            .map(|more| {
                run(
                    "n",
                    &[
                        ("app:f", 500 + more),
                        ("app:g", 300),
                        ("app:added", 90 + more),
                    ],
                )
            })
            .collect();
        let checked = Checked {
            baseline: &before,
            runs: &after,
        };
        let found = judged("new <= 1%", &checked);
        assert!(
            found.kept == Kept::Fails && found.about.contains("added"),
            "{found:?}"
        );
    }

    #[test]
    fn a_renamed_function_is_under_both_names_and_not_new_which_is_said() {
        let of = |name: &str, count| {
            let parts = [
                (format!("app:main;app:{name}"), count),
                ("app:main".into(), 900),
            ];
            let parts = parts
                .each_ref()
                .map(|(stack, count)| (stack.as_str(), *count));
            sized_run("r", &parts, &[(name, 400)])
        };
        let baseline = [0, 2, 4].map(|more| of("parse", 600 + more));
        let runs = [1, 3, 2].map(|more| of("read_header", 780 + more));
        let checked = Checked {
            baseline: &baseline,
            runs: &runs,
        };
        let new = judged("new <= 1%", &checked);
        assert_eq!(new.kept, Kept::Passes);
        assert!(new.about.contains("not new: ") && new.about.contains("read_header (was parse)"));
        for pattern in ["parse <= 1.1x", "read_* <= 1.1x"] {
            let dearer = judged(pattern, &checked);
            assert_eq!(dearer.kept, Kept::Fails, "{dearer:?}");
            assert!((dearer.found - 1.3).abs() < 0.01, "{dearer:?}");
        }
    }

    #[test]
    fn cost_that_moved_is_neither_new_nor_more() {
        let several = |parts: &[(&str, u64)]| -> Vec<Run> {
            let one = |name| run(name, parts);
            vec![one("a"), one("b"), one("c")]
        };
        let whole = several(&[("app:main", 600), ("app:main;app:other", 400)]);
        let apart = [
            ("app:main", 200),
            ("app:main;app:part", 400),
            ("app:main;app:other", 400),
        ];
        let apart = several(&apart);
        let said = |text: &str, baseline: &[Run], runs: &[Run]| {
            let one = judged(text, &Checked { baseline, runs });
            (one.kept, (100.0 * one.found).round(), one.about)
        };
        // Taken out of main, and inlined into it.
        let (kept, _, about) = said("new <= 1%", &whole, &apart);
        assert_eq!(kept, Kept::Passes);
        assert_eq!(about, "no new function; not new: [.] part, from [.] main");
        let (kept, found, about) = said("main <= 1.05x", &apart, &whole);
        assert_eq!((kept, found), (Kept::Passes, 100.0));
        assert_eq!(about, "1 function; code moved: with [.] part");
        // What is gone is not saved: its caller has it.
        let dearer = several(&[("app:main", 700), ("app:main;app:other", 400)]);
        let (kept, found, _) = said("part <= 1.1x", &apart, &dearer);
        assert_eq!((kept, found), (Kept::Fails, 125.0));
        // New code behind a move is.
        let more = [
            ("app:main", 200),
            ("app:main;app:part", 900),
            ("app:main;app:other", 400),
        ];
        let (kept, ..) = said("new <= 1%", &whole, &several(&more));
        assert_eq!(kept, Kept::Fails);
    }
}

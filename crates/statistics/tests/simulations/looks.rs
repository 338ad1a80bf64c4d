//! Trials that end as soon as they are sure, under a load that comes and goes.

use crate::decisions::normal;
use crate::simulated::Random;
use crate::{assert_between, seed};
use prof_statistics::{
    Control, Figure, LOOKS, Pairing, Prior, Question, Sides, Verdict, discovered_by_e_values,
    e_value, level_of_a_look, verdicts,
};

/// Shares of the rows, percent; the total stands behind them.
const COSTS: [f64; 12] = [
    30.0, 20.0, 12.0, 9.0, 7.0, 5.0, 4.0, 3.0, 3.0, 2.5, 2.0, 2.0,
];
/// By how much of itself a row's cost scatters from run to run.
const SCATTER: f64 = 0.03;

/// Figures by row, of as many pairs as were run.
struct Trial {
    before: Vec<Vec<Figure>>,
    after: Vec<Vec<Figure>>,
}

impl Trial {
    fn new() -> Self {
        let rows = || vec![Vec::new(); COSTS.len() + 1];
        Self {
            before: rows(),
            after: rows(),
        }
    }

    /// A pair of runs; the first row costs `factor` as much after. A load makes
    /// everything a quarter dearer in half of the pairs, ten at a time.
    fn pair(&mut self, factor: f64, random: &mut Random) {
        let count = self.before.first().map_or(0, Vec::len);
        let load = [1.25, 1.0][count / 10 % 2];
        for (side, factor) in [(&mut self.before, 1.0), (&mut self.after, factor)] {
            let mut total = 0.0;
            for (row, cost) in COSTS.iter().enumerate() {
                let factor = if row == 0 { factor } else { 1.0 };
                let value = load * cost * factor * (1.0 + SCATTER * normal(random));
                total += value;
                side[row].push(Figure {
                    value,
                    variance: cost / 20.0,
                });
            }
            side[COSTS.len()].push(Figure {
                value: total,
                variance: 1e-6,
            });
        }
    }

    fn judged(&self) -> Vec<Verdict> {
        let both = self.before.iter().zip(&self.after);
        let sides = both.map(|(before, after)| Sides {
            before,
            after,
            pairing: Pairing::Paired,
        });
        let prior = Prior::of(sides.clone().take(COSTS.len()));
        let changes: Vec<_> = sides
            .enumerate()
            .map(|(row, sides)| sides.change(prior.filter(|_| row < COSTS.len())))
            .collect();
        let question = Question {
            bound: 2.0,
            level: level_of_a_look(0.05),
            control: Control::Usual,
        };
        verdicts(&changes, &question)
    }

    /// What e-values say of the first row and the total.
    fn judged_by_e_values(&self) -> Vec<bool> {
        let both = self.before.iter().zip(&self.after);
        let e_values: Vec<f64> = both
            .map(|(before, after)| {
                let pairs = before.iter().zip(after);
                let differences: Vec<f64> = pairs
                    .map(|(before, after)| after.value - before.value)
                    .collect();
                e_value(&differences)
            })
            .collect();
        discovered_by_e_values(&e_values, 0.05)
    }
}

fn changed(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Faster | Verdict::Slower)
}

/// Whether anything was said to have changed at any look.
fn is_wrong_at_any_look(random: &mut Random) -> bool {
    let mut trial = Trial::new();
    (1..=LOOKS[9]).any(|pair| {
        trial.pair(1.0, random);
        LOOKS.contains(&pair) && trial.judged().into_iter().any(changed)
    })
}

#[test]
fn equal_programs_are_told_apart_in_a_twentieth_at_most_whenever_one_stops() {
    let mut random = Random::new(seed("looks, A/A"));
    let tries = 1000;
    let wrong = (0..tries)
        .filter(|_| is_wrong_at_any_look(&mut random))
        .count();
    assert_between(wrong, tries, (0.0, 0.05), "A/A with ten looks");
}

/// A trial of equal programs that a limit of time ends after so many pairs, with
/// a last look then: whether anything was said to have changed, and whether all
/// was decided before.
fn ended_by(limit: u64, random: &mut Random) -> (bool, bool) {
    let mut trial = Trial::new();
    let mut is_wrong = false;
    for pair in 1..=limit {
        trial.pair(1.0, random);
        if !LOOKS.contains(&pair) && pair != limit {
            continue;
        }
        let said = trial.judged();
        is_wrong |= said.iter().copied().any(changed);
        if !said
            .iter()
            .any(|it| matches!(it, Verdict::Undecided { .. }))
        {
            return (is_wrong, true);
        }
    }
    (is_wrong, false)
}

#[test]
#[ignore = "a bench"]
#[allow(clippy::print_stderr)]
fn equal_programs_with_a_limit_of_time_are_told_apart_in_a_twentieth_at_most() {
    let mut random = Random::new(seed("looks, limit"));
    let tries = 300;
    let ended: Vec<_> = (0..tries)
        .map(|at| ended_by(2 + at * 73 / tries, &mut random))
        .collect();
    let wrong = ended.iter().filter(|it| it.0).count();
    let undecided = ended.iter().filter(|it| !it.1).count();
    eprintln!("{tries} tries with a limit: {wrong} wrong, {undecided} ended undecided");
    assert_between(wrong, ended.len(), (0.0, 0.05), "A/A with a limit");
}

/// After how many pairs a row of 30 % that got a tenth dearer is named, by
/// looks and by e-values.
fn pairs_until_found(random: &mut Random) -> (Option<u64>, Option<u64>) {
    let mut trial = Trial::new();
    let (mut by_looks, mut by_e_values) = (None, None);
    for pair in 1..=LOOKS[9] {
        trial.pair(1.1, random);
        if by_looks.is_none() && LOOKS.contains(&pair) && changed(trial.judged()[0]) {
            by_looks = Some(pair);
        }
        if by_e_values.is_none() && trial.judged_by_e_values()[0] {
            by_e_values = Some(pair);
        }
    }
    (by_looks, by_e_values)
}

#[test]
#[allow(clippy::print_stderr)]
fn a_tenth_more_is_found_by_looks_in_no_more_pairs_than_by_e_values() {
    let mut random = Random::new(seed("looks, planted"));
    let tries = 200;
    let found: Vec<_> = (0..tries).map(|_| pairs_until_found(&mut random)).collect();
    let mean = |all: &mut dyn Iterator<Item = Option<u64>>| {
        let all = all.map(|pairs| pairs.unwrap_or(LOOKS[9]));
        all.sum::<u64>() as f64 / f64::from(tries)
    };
    let looks = mean(&mut found.iter().map(|pair| pair.0));
    let e_values = mean(&mut found.iter().map(|pair| pair.1));
    eprintln!("pairs until found: {looks:.1} by looks, {e_values:.1} by e-values");
    let hits = found.iter().filter(|pair| pair.0.is_some()).count();
    assert_between(hits, found.len(), (0.95, 1.0), "found by looks");
    assert!(looks <= e_values, "{looks} and {e_values}");
}

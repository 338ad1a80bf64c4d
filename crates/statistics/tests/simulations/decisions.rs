//! Verdicts are wrong as rarely as they say, and found when they say.

use crate::simulated::Random;
use crate::{assert_between, seed};
use prof_statistics::{
    Control, Figure, Pairing, Prior, Question, Scatter, Sides, Verdict, discovered_by_e_values,
    e_value, half_width, runs_needed, verdicts,
};

/// Sum of twelve uniform ones less six: near enough to normal.
pub(crate) fn normal(random: &mut Random) -> f64 {
    (0..12).map(|_| random.uniform()).sum::<f64>() - 6.0
}

/// Rows of a program: cost, and how much runs scatter beyond sampling.
const ROWS: usize = 60;

fn figures(row: usize, runs: usize, factor: f64, random: &mut Random) -> Vec<Figure> {
    // From 30 % down; some rows scatter thrice as much as their samples.
    let cost = 30.0 * 0.9_f64.powi(row as i32);
    let variance = cost / 2000.0 * 100.0;
    let beyond = [0.0, 1.0, 0.3, 8.0][row % 4];
    let deviation = (variance * (1.0 + beyond)).sqrt();
    (0..runs)
        .map(|_| Figure {
            value: cost * factor + deviation * normal(random),
            variance,
        })
        .collect()
}

fn judged(runs: usize, factor: impl Fn(usize) -> f64, random: &mut Random) -> Vec<Verdict> {
    let rows: Vec<_> = (0..ROWS)
        .map(|row| {
            let before = figures(row, runs, 1.0, random);
            (before, figures(row, runs, factor(row), random))
        })
        .collect();
    let sides = rows.iter().map(|(before, after)| Sides {
        before,
        after,
        pairing: Pairing::Independent,
    });
    let prior = Prior::of(sides.clone());
    let changes: Vec<_> = sides.map(|sides| sides.change(prior)).collect();
    let question = Question {
        bound: 2.0,
        level: 0.05,
        control: Control::Usual,
    };
    verdicts(&changes, &question)
}

fn says_changed(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Faster | Verdict::Slower)
}

#[test]
fn two_sides_of_the_same_program_show_a_change_in_a_twentieth_at_most() {
    let mut random = Random::new(seed("A/A"));
    for runs in [2, 3, 5] {
        let tries = 600;
        let wrong = (0..tries)
            .filter(|_| judged(runs, |_| 1.0, &mut random).iter().any(says_changed))
            .count();
        assert_between(wrong, tries, (0.0, 0.05), &format!("A/A of {runs} runs"));
    }
}

#[test]
fn a_planted_change_is_found_and_little_else() {
    let mut random = Random::new(seed("planted"));
    let planted = |row| if row == 0 { 1.5 } else { 1.0 };
    let (mut found, mut said, mut wrong) = (0, 0, 0);
    let tries = 300;
    for _ in 0..tries {
        let judged = judged(5, planted, &mut random);
        found += usize::from(judged[0] == Verdict::Slower);
        said += judged.iter().filter(|one| says_changed(one)).count();
        wrong += judged[1..].iter().filter(|one| says_changed(one)).count();
    }
    assert_between(found, tries, (0.9, 1.0), "found");
    // Not quite a binomial count, as rows of one try share their threshold.
    assert_between(wrong, said, (0.0, 0.05), "wrong of what is said");
}

#[test]
fn the_runs_that_are_named_are_enough() {
    let mut random = Random::new(seed("needed"));
    for (deviation, difference) in [(1.0, 1.0), (1.0, 2.0), (0.3, 1.0)] {
        let known = Scatter {
            deviation,
            df: f64::INFINITY,
        };
        let runs = runs_needed(known, difference, 0.05).expect("a number") as usize;
        let tries = 1000;
        let found = (0..tries)
            .filter(|_| {
                let mut side = |mean: f64| -> Vec<Figure> {
                    (0..runs)
                        .map(|_| Figure {
                            value: mean + deviation * normal(&mut random),
                            variance: 0.0,
                        })
                        .collect()
                };
                let (before, after) = (side(0.0), side(difference));
                let sides = Sides {
                    before: &before,
                    after: &after,
                    pairing: Pairing::Independent,
                };
                sides.change(None).p_value() <= 0.05
            })
            .count();
        assert_between(found, tries, (0.9, 1.0), &format!("{runs} runs"));
    }
}

#[test]
fn looking_after_each_pair_of_runs_raises_no_errors() {
    let mut random = Random::new(seed("looks"));
    let tries = 1000;
    let (mut wrong, mut outside, mut of_many) = (0, 0, 0);
    for _ in 0..tries {
        let mut rows: [Vec<f64>; 5] = Default::default();
        let (mut is_wrong, mut is_outside, mut is_any) = (false, false, false);
        for _ in 0..60 {
            for row in &mut rows {
                row.push(normal(&mut random));
            }
            is_wrong |= e_value(&rows[0]) >= 20.0;
            let mean = rows[0].iter().sum::<f64>() / rows[0].len() as f64;
            is_outside |= mean.abs() > half_width(&rows[0], 0.05);
            let e_values = rows.each_ref().map(|row| e_value(row));
            is_any |= discovered_by_e_values(&e_values, 0.05).contains(&true);
        }
        wrong += usize::from(is_wrong);
        outside += usize::from(is_outside);
        of_many += usize::from(is_any);
    }
    assert_between(wrong, tries, (0.0, 0.05), "evidence against nothing");
    assert_between(outside, tries, (0.0, 0.05), "left the interval");
    assert_between(of_many, tries, (0.0, 0.05), "any of five rows");
}

#[test]
fn a_difference_of_a_deviation_is_found_by_looking() {
    let mut random = Random::new(seed("looks, planted"));
    let tries = 500;
    let found = (0..tries)
        .filter(|_| {
            let mut pairs = Vec::new();
            (0..60).any(|_| {
                pairs.push(1.0 + normal(&mut random));
                e_value(&pairs) >= 20.0
            })
        })
        .count();
    assert_between(found, tries, (0.95, 1.0), "found within 60 pairs");
}

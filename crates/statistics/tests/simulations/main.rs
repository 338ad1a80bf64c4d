//! Intervals and verdicts hold for simulated programs whose truth is known.
//!
//! Each run of the tests takes new seeds and prints them; `PROF_SEED=N` repeats
//! one. So that luck fails no run, a test fails only where the count it found
//! has a probability of at most [`LUCK`] even at the edge of what is allowed
//! (exact binomial tail); with the hundred comparisons here together that is
//! rarer than once in 100 000 runs.
#![allow(missing_docs)]

mod coverage;
mod decisions;
mod looks;
mod planted;
mod simulated;

use std::time::{SystemTime, UNIX_EPOCH};

/// See above.
const LUCK: f64 = 1e-7;

/// The seed of this run.
#[allow(clippy::print_stderr)]
fn seed(of: &str) -> u64 {
    let given = std::env::var("PROF_SEED").ok();
    let seed = given.and_then(|text| text.parse().ok()).unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        now.map_or(1, |now| now.as_nanos() as u64)
    });
    eprintln!("{of}: PROF_SEED={seed}");
    seed
}

/// The probability of at most `count` of `tries` where each has `probability`.
fn at_most(count: usize, tries: usize, probability: f64) -> f64 {
    let (success, failure) = (probability.ln(), (1.0 - probability).ln());
    let mut choose = 0.0_f64;
    let mut sum = 0.0;
    for hits in 0..=count.min(tries) {
        if hits > 0 {
            choose += ((tries - hits + 1) as f64).ln() - (hits as f64).ln();
        }
        sum += (choose + hits as f64 * success + (tries - hits) as f64 * failure).exp();
    }
    sum.min(1.0)
}

/// Fails unless `count` of `tries` is what a probability in `range` gives.
#[track_caller]
fn assert_between(count: usize, tries: usize, range: (f64, f64), what: &str) {
    let too_few = at_most(count, tries, range.0);
    let too_many = at_most(tries - count, tries, 1.0 - range.1);
    assert!(
        too_few > LUCK && too_many > LUCK,
        "{what}: {count} of {tries} is not {range:?}"
    );
}

#[test]
fn the_bound_is_the_binomial_one() {
    assert!((at_most(1, 3, 0.5) - 0.5).abs() < 1e-12);
    assert!((at_most(16, 200, 0.05) - 0.976_2).abs() < 1e-3);
    assert!(at_most(890, 1000, 0.93) > LUCK && at_most(880, 1000, 0.93) < LUCK);
}

//! How much has to be measured.

use crate::distribution::t_quantile;

/// With this probability a difference is to be found.
const POWER: f64 = 0.9;

/// The difference of two means that would be found in nine of ten tries at the
/// two-sided `level`, given the standard error of the difference.
pub fn detectable(standard_error: f64, df: f64, level: f64) -> f64 {
    standard_error * (t_quantile(1.0 - level / 2.0, df) + t_quantile(POWER, df))
}

/// How many times the samples two recordings must have so that a true difference of
/// `difference` between just these is found in nine of ten tries at the two-sided
/// `level`, where its standard error by sampling is `standard_error` now (same unit);
/// `None` above a million times or if there is nothing to find. That error is known and
/// falls with the root of the samples.
pub fn samples_needed(standard_error: f64, difference: f64, level: f64) -> Option<u64> {
    if !(difference.abs() > 0.0 && standard_error.is_finite() && standard_error >= 0.0) {
        return None;
    }
    let least = detectable(standard_error, f64::INFINITY, level);
    let times = (least / difference.abs()).powi(2).ceil().max(1.0);
    (times <= MOST_RUNS).then_some(times as u64)
}

/// How single runs scatter, as some showed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scatter {
    /// Their standard deviation.
    pub deviation: f64,
    /// The degrees of freedom that it was found with; infinite if it is known.
    pub df: f64,
}

/// How many runs each side needs so that a true difference of `difference` is
/// found in nine of ten tries at the two-sided `level`, where single runs
/// scatter like that (same unit); at least 2, `None` above a million or if there
/// is nothing to find.
///
/// `n = 2 (t(1 - level/2) + t(0.9))² (deviation / difference)²` with `2 n - 2`
/// degrees of freedom (Julious 2004, "Sample sizes for clinical trials with
/// Normal data"). A deviation that few runs showed is too small as often as too
/// large, and nine of ten tries are asked of all such together: in place of the sum
/// stands the quantile of the noncentral t of `df` degrees (Julious and Owen 2006, "Sample size calculations for clinical studies allowing for
/// uncertainty about the variance"), but at most 1.5 times the runs.
pub fn runs_needed(scatter: Scatter, difference: f64, level: f64) -> Option<u64> {
    let Scatter { deviation, df } = scatter;
    if !(difference.abs() > 0.0 && deviation.is_finite() && deviation >= 0.0 && df > 0.0) {
        return None;
    }
    let ratio = deviation / difference.abs();
    let runs = |own_df: f64| {
        let to_differ = t_quantile(1.0 - level / 2.0, own_df);
        let to_find = t_quantile(POWER, own_df);
        let known = (to_differ + to_find).powi(2);
        let unsure = noncentral_quantile(to_differ, to_find, df).powi(2);
        2.0 * unsure.min(MOST_MORE * known) * ratio * ratio
    };
    // The more runs, the fewer are asked for, since their scatter is known better. With
    // two or three a small level asks for hundreds: so the least number that is as many
    // as it asks for is looked for, first upwards, then between.
    let is_enough = |count: f64| runs(2.0 * count - 2.0).ceil() <= count;
    let mut count = runs(f64::INFINITY).ceil().max(2.0);
    let (mut too_few, mut step) = (count - 1.0, 1.0);
    while count <= MOST_RUNS && !is_enough(count) {
        (too_few, step) = (count, 2.0 * step);
        count += step;
    }
    // Between numbers of runs that large there may be no other.
    if too_few >= MOST_RUNS {
        return None;
    }
    while count - too_few > 1.0 {
        let middle = ((too_few + count) / 2.0).floor();
        match is_enough(middle) {
            true => count = middle,
            false => too_few = middle,
        }
    }
    (count <= MOST_RUNS).then_some(count as u64)
}

/// Above this nobody measures.
const MOST_RUNS: f64 = 1e6;

/// Few runs ask for no more than so many times the runs that the textbook gives.
const MOST_MORE: f64 = 1.5;

/// The quantile, at the probability whose normal quantile is `quantile`, of the
/// noncentral t of `df` degrees around `limit`: the larger root of the usual normal
/// approximation (Johnson and Welch 1940), `k (1 - 1/(4 df)) - limit = quantile
/// sqrt(1 + k²/(2 df))`. Infinite where there are too few degrees for it.
fn noncentral_quantile(limit: f64, quantile: f64, df: f64) -> f64 {
    let (mean, spread) = (1.0 - 1.0 / (4.0 * df), 1.0 / (2.0 * df));
    let square = mean * mean - quantile * quantile * spread;
    let rest = limit * limit - quantile * quantile;
    if square <= 0.0 {
        return f64::INFINITY;
    }
    let root = (mean * mean * limit * limit - square * rest)
        .max(0.0)
        .sqrt();
    (mean * limit + root) / square
}

#[cfg(test)]
mod tests {
    use super::{MOST_MORE, Scatter, detectable, noncentral_quantile, runs_needed, samples_needed};

    #[test]
    fn so_many_times_the_samples_find_what_is_asked_for() {
        let error = 0.783;
        let found = detectable(error, f64::INFINITY, 0.05);
        assert!((found - 2.54).abs() < 0.01, "{found}");
        assert_eq!(samples_needed(error, 2.0, 0.05), Some(2));
        assert_eq!(samples_needed(error, found / 2.0, 0.05), Some(4));
        assert_eq!(samples_needed(error, 2.0 * found, 0.05), Some(1));
        assert_eq!(samples_needed(error, 0.0, 0.05), None);
        assert_eq!(samples_needed(error, 1e-9, 0.05), None);
    }

    /// Limit, degrees, quantile.
    const NCT: [(f64, f64, f64); 3] = [
        (2.228, 10.0, 4.033),
        (2.9, 9.3, 4.9495),
        (1.96, 8.0, 3.8234),
    ];

    fn known(deviation: f64) -> Scatter {
        Scatter {
            deviation,
            df: f64::INFINITY,
        }
    }

    #[test]
    fn the_textbook_s_figures_come_out() {
        // Julious 2004: standardised difference 1, 0.5 and 0.1 at 90 %.
        assert_eq!(runs_needed(known(1.0), 1.0, 0.05), Some(23));
        assert_eq!(runs_needed(known(1.0), 0.5, 0.05), Some(86));
        assert_eq!(runs_needed(known(1.0), 0.1, 0.05), Some(2103));
    }

    #[test]
    fn a_scatter_that_few_runs_showed_asks_for_more_but_not_half_as_much_again() {
        for (df, level) in [(4.0, 0.05), (8.0, 0.05), (8.0, 0.05 / 12.0)] {
            let few = Scatter { deviation: 1.0, df };
            let few = runs_needed(few, 0.2, level).unwrap() as f64;
            let textbook = runs_needed(known(1.0), 0.2, level).unwrap() as f64;
            assert!((1.2..1.51).contains(&(few / textbook)), "{few} {textbook}");
        }
        assert!((1.4..=1.5).contains(&MOST_MORE));
    }

    #[test]
    fn the_noncentral_t_s_table_comes_out() {
        // Known scatter: the sum of the quantiles.
        assert!((noncentral_quantile(1.96, 1.2816, f64::INFINITY) - 3.2416).abs() < 1e-9);
        // At 0.9, by numerical integration (scipy.stats.nct.ppf).
        for (limit, df, quantile) in NCT {
            let found = noncentral_quantile(limit, 1.2816, df);
            assert!((found / quantile - 1.0).abs() < 0.011, "{found} {quantile}");
        }
        assert!(noncentral_quantile(2.0, 1.2816, 0.5).is_infinite());
    }

    #[test]
    fn a_larger_difference_never_asks_for_more_runs() {
        // Of hundreds of rows each has a small level.
        for (df, level) in [(8.0, 0.05), (8.0, 0.05 / 300.0), (f64::INFINITY, 1e-5)] {
            let scatter = Scatter { deviation: 1.0, df };
            let needed = |tenths: u32| runs_needed(scatter, f64::from(tenths) / 10.0, level);
            let needed: Vec<u64> = (1..=80).map(|tenths| needed(tenths).unwrap()).collect();
            assert!(needed.is_sorted_by(|less, more| less >= more), "{needed:?}");
            assert!(needed[79] <= 6, "{needed:?}");
        }
    }

    #[test]
    fn what_cannot_be_found_has_no_number() {
        assert_eq!(runs_needed(known(1.0), 0.0, 0.05), None);
        assert_eq!(runs_needed(known(f64::NAN), 1.0, 0.05), None);
        assert_eq!(runs_needed(known(1.0), 1e-6, 0.05), None);
        assert_eq!(runs_needed(known(0.0), 1.0, 0.05), Some(2));
        // From where one run more is no other number.
        for part in 0..400 {
            let difference = 1e-4 * 0.9_f64.powi(part);
            assert_eq!(runs_needed(known(1.0), difference, 0.05), None);
        }
        let none = Scatter {
            deviation: 1.0,
            df: 0.0,
        };
        assert_eq!(runs_needed(none, 1.0, 0.05), None);
    }

    #[test]
    fn what_is_detectable_is_what_the_runs_are_for() {
        let found_by = |runs: f64| detectable((2.0 / runs).sqrt(), 2.0 * runs - 2.0, 0.05);
        assert!(found_by(23.0) <= 1.0 && found_by(22.0) > 1.0);
    }
}

//! How much has to be measured.

use crate::distribution::t_quantile;

/// With this probability a difference is to be found.
const POWER: f64 = 0.9;

/// The difference of two means that would be found in nine of ten tries at a
/// level of 5 %, given the standard error of the difference.
pub fn detectable(standard_error: f64, df: f64) -> f64 {
    standard_error * (t_quantile(0.975, df) + t_quantile(POWER, df))
}

/// How many runs each side needs so that a true difference of `difference` is
/// found in nine of ten tries at the two-sided `level`, where single runs
/// scatter with `deviation` (same unit); at least 2, `None` above a million or
/// if there is nothing to find.
///
/// `n = 2 (t(1 - level/2) + t(0.9))² (deviation / difference)²` with `2 n - 2`
/// degrees of freedom (Julious 2004, "Sample sizes for clinical trials with
/// Normal data").
pub fn runs_needed(deviation: f64, difference: f64, level: f64) -> Option<u64> {
    if !(difference.abs() > 0.0 && deviation.is_finite() && deviation >= 0.0) {
        return None;
    }
    let ratio = deviation / difference.abs();
    let runs = |df: f64| {
        let quantiles = t_quantile(1.0 - level / 2.0, df) + t_quantile(POWER, df);
        2.0 * quantiles * quantiles * ratio * ratio
    };
    // With few degrees of freedom the formula asks for too many, from above
    // it comes down to the answer.
    let mut count = runs(f64::INFINITY).ceil().max(2.0);
    for _ in 0..20 {
        let next = runs(2.0 * count - 2.0).ceil().max(2.0);
        if next <= count {
            break;
        }
        count += ((next - count) / 2.0).ceil();
    }
    (count <= 1e6).then_some(count as u64)
}

#[cfg(test)]
mod tests {
    use super::{detectable, runs_needed};

    #[test]
    fn the_textbook_s_figures_come_out() {
        // Julious 2004: standardised difference 1, 0.5 and 0.1 at 90 %.
        assert_eq!(runs_needed(1.0, 1.0, 0.05), Some(23));
        assert_eq!(runs_needed(1.0, 0.5, 0.05), Some(86));
        assert_eq!(runs_needed(1.0, 0.1, 0.05), Some(2103));
    }

    #[test]
    fn what_cannot_be_found_has_no_number() {
        assert_eq!(runs_needed(1.0, 0.0, 0.05), None);
        assert_eq!(runs_needed(f64::NAN, 1.0, 0.05), None);
        assert_eq!(runs_needed(1.0, 1e-6, 0.05), None);
        assert_eq!(runs_needed(0.0, 1.0, 0.05), Some(2));
    }

    #[test]
    fn what_is_detectable_is_what_the_runs_are_for() {
        let found_by = |runs: f64| detectable((2.0 / runs).sqrt(), 2.0 * runs - 2.0);
        assert!(found_by(23.0) <= 1.0 && found_by(22.0) > 1.0);
    }
}

//! Quantiles and tails of the normal and Student's t distribution.

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

/// The normal quantile of `probability`, which is in (0, 1).
pub(crate) fn normal_quantile(probability: f64) -> f64 {
    Normal::standard().inverse_cdf(probability)
}

/// The t quantile of `probability` in (0, 1); normal where `df` is infinite.
pub(crate) fn t_quantile(probability: f64, df: f64) -> f64 {
    match StudentsT::new(0.0, 1.0, df) {
        Ok(t) if df < 1e6 => t.inverse_cdf(probability),
        _ => normal_quantile(probability),
    }
}

/// The probability of more than `t`; normal where `df` is infinite.
pub(crate) fn t_tail(t: f64, df: f64) -> f64 {
    match StudentsT::new(0.0, 1.0, df) {
        Ok(distribution) if df < 1e6 => distribution.sf(t),
        _ => Normal::standard().sf(t),
    }
}

#[cfg(test)]
mod tests {
    use super::{normal_quantile, t_quantile, t_tail};

    #[test]
    fn quantiles_are_those_of_the_tables() {
        assert!((normal_quantile(0.975) - 1.959_964).abs() < 1e-5);
        assert!((t_quantile(0.975, 4.0) - 2.776_445).abs() < 1e-5);
        assert!((t_quantile(0.975, 1.0) - 12.706_205).abs() < 1e-4);
        assert!((t_quantile(0.975, f64::INFINITY) - 1.959_964).abs() < 1e-5);
        assert!((t_tail(2.776_445, 4.0) - 0.025).abs() < 1e-6);
        assert!((t_tail(-2.0, f64::INFINITY) - 0.977_250).abs() < 1e-5);
    }
}

//! Looking again after each run, without more errors.
//!
//! For paired differences of unknown scatter, a mixture over effect sizes (in
//! standard deviations, normal around 0) under the right Haar prior of the
//! scatter is a test martingale: whoever stops whenever it reaches `1 / alpha`
//! is wrong with a probability of at most `alpha` (Lai 1976; Wang and Ramdas
//! 2023, "Anytime-valid t-tests and confidence sequences for Gaussian means
//! with unknown variance"). Runs of both sides are paired, and each pair runs
//! in random order.

/// Variance of the effect size in the mixture.
const EFFECT: f64 = 1.0;

/// The e-value of paired differences: evidence against "no difference on
/// average"; 1 is none. Needs at least two.
pub fn e_value(differences: &[f64]) -> f64 {
    let Some((mean, deviation)) = mean_and_deviation(differences) else {
        return 1.0;
    };
    let count = differences.len() as f64;
    let df = count - 1.0;
    let spread = 1.0 + count * EFFECT;
    if deviation <= 0.0 {
        return 1.0;
    }
    let t = mean / (deviation / count.sqrt());
    let logarithm = f64::midpoint(df, 1.0)
        * ((t * t / df).ln_1p() - (t * t / (df * spread)).ln_1p())
        - 0.5 * spread.ln();
    logarithm.min(700.0).exp()
}

/// Half the width of a confidence sequence for the mean of `differences`: the
/// intervals of all looks contain the true mean together with probability 1 -
/// `alpha`. Infinite for too few differences.
pub fn half_width(differences: &[f64], alpha: f64) -> f64 {
    let Some((_, deviation)) = mean_and_deviation(differences) else {
        return f64::INFINITY;
    };
    let count = differences.len() as f64;
    let df = count - 1.0;
    let spread = 1.0 + count * EFFECT;
    let ratio = (spread.sqrt() / alpha).powf(2.0 / (df + 1.0));
    if ratio >= spread {
        return f64::INFINITY;
    }
    let t = (df * (ratio - 1.0) / (1.0 - ratio / spread)).sqrt();
    t * deviation / count.sqrt()
}

/// Mean and standard deviation of at least two figures.
fn mean_and_deviation(figures: &[f64]) -> Option<(f64, f64)> {
    if figures.len() < 2 || figures.iter().any(|figure| !figure.is_finite()) {
        return None;
    }
    let count = figures.len() as f64;
    let mean = figures.iter().sum::<f64>() / count;
    let squares: f64 = figures.iter().map(|figure| (figure - mean).powi(2)).sum();
    Some((mean, (squares / (count - 1.0)).sqrt()))
}

#[cfg(test)]
mod tests {
    use super::{e_value, half_width};

    #[test]
    fn the_interval_ends_where_the_evidence_is_enough() {
        let differences = [1.0, 2.5, 0.5, 3.0, 2.0, 1.5, 2.2, 0.9];
        let half = half_width(&differences, 0.05);
        let mean = differences.iter().sum::<f64>() / 8.0;
        let shifted: Vec<f64> = differences.iter().map(|d| d - mean + half).collect();
        assert!((e_value(&shifted) - 20.0).abs() < 1e-6);
    }

    #[test]
    fn too_little_is_no_evidence() {
        assert_eq!(e_value(&[]), 1.0);
        assert_eq!(e_value(&[3.0]), 1.0);
        assert_eq!(e_value(&[3.0, 3.0]), 1.0);
        assert_eq!(e_value(&[f64::NAN, 3.0]), 1.0);
        assert!(half_width(&[1.0, 2.0], 0.05).is_infinite());
    }
}

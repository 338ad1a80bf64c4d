//! Two sides of one or several runs, row by row.

use crate::distribution::{t_quantile, t_tail};
use crate::{Interval, Scatter};

/// The figure of one run for a row: a cost or a share, in any unit.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Figure {
    /// The measured value.
    pub value: f64,
    /// Its variance when the same run is sampled again.
    pub variance: f64,
}

/// What a comparison generalizes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// These very runs only: the variance between runs is unknown.
    TheseRuns,
    /// Other runs of the same programs.
    AnotherRun,
}

/// Whether the runs of both sides form pairs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Pairing {
    /// Not at all.
    #[default]
    Independent,
    /// Run n before forms a pair with run n after, which ran next to it, in
    /// random order: effects of the machine on both cancel.
    Paired,
}

/// The figures of one row, those of each side.
#[derive(Debug, Clone, Copy)]
pub struct Sides<'a> {
    /// By run before.
    pub before: &'a [Figure],
    /// By run after.
    pub after: &'a [Figure],
    /// How they belong together.
    pub pairing: Pairing,
}

/// The ratio of the variance between runs to that by sampling, estimated from
/// all rows together; see [`Prior::of`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Prior {
    /// Variance of runs in units of the variance by sampling.
    ratio: f64,
    /// For how many degrees of freedom it stands.
    df: f64,
}

/// The difference of the means, after minus before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// After minus before.
    pub value: f64,
    /// Its standard error.
    pub error: f64,
    /// Degrees of freedom of the standard error; infinite if it is known
    /// exactly.
    pub df: f64,
    /// Standard deviation of a single run.
    pub deviation: f64,
    /// What it generalizes to.
    pub kind: Kind,
}

impl Change {
    /// The confidence interval of the true change.
    pub fn interval(&self, confidence: f64) -> Interval {
        let quantile = t_quantile(f64::midpoint(1.0, confidence), self.df);
        Interval::around(self.value, quantile * self.error)
    }

    /// How single runs scatter.
    pub fn scatter(&self) -> Scatter {
        Scatter {
            deviation: self.deviation,
            df: self.df,
        }
    }

    /// Two-sided p-value against no change.
    pub fn p_value(&self) -> f64 {
        if self.error > 0.0 {
            (2.0 * t_tail(self.value.abs() / self.error, self.df)).min(1.0)
        } else {
            self.p_without_error(self.value != 0.0)
        }
    }

    /// The p-value where nothing scatters. Of these runs themselves that is so of what
    /// all samples belong to: how large it is is known. Of other runs nothing is known.
    fn p_without_error(&self, is_so: bool) -> f64 {
        match self.kind {
            Kind::TheseRuns if is_so && self.value.is_finite() => 0.0,
            Kind::TheseRuns | Kind::AnotherRun => 1.0,
        }
    }

    /// One-sided p-value against a true change of `limit` or less.
    pub fn p_of_at_most(&self, limit: f64) -> f64 {
        self.p_above(self.value - limit)
    }

    /// One-sided p-value against a true change of `limit` or more.
    pub fn p_of_at_least(&self, limit: f64) -> f64 {
        self.p_above(limit - self.value)
    }

    fn p_above(&self, distance: f64) -> f64 {
        if self.error > 0.0 && distance.is_finite() {
            t_tail(distance / self.error, self.df)
        } else {
            self.p_without_error(distance.is_finite() && distance > 0.0)
        }
    }

    /// How probable what was found is if the change is `bound` or more, in
    /// either direction (two one-sided tests, Schuirmann 1987).
    pub(crate) fn p_of_as_large_as(&self, bound: f64) -> f64 {
        if self.error > 0.0 {
            t_tail((bound - self.value.abs()) / self.error, self.df)
        } else {
            self.p_without_error(self.value.abs() < bound)
        }
    }
}

fn mean(figures: &[Figure], of: impl Fn(&Figure) -> f64) -> f64 {
    if figures.is_empty() {
        return 0.0;
    }
    figures.iter().map(of).sum::<f64>() / figures.len() as f64
}

/// Squared deviations from the mean, summed.
fn squares(figures: &[Figure]) -> f64 {
    let middle = mean(figures, |figure| figure.value);
    let deviations = figures.iter().map(|figure| figure.value - middle);
    deviations.map(|deviation| deviation * deviation).sum()
}

impl Sides<'_> {
    /// What is known of how single runs scatter: the variance of all runs
    /// around the mean of their side, and its degrees of freedom. Of pairs,
    /// half the variance of their differences.
    fn scatter(&self) -> Option<(f64, f64)> {
        if self.pairing == Pairing::Paired && self.before.len() == self.after.len() {
            let pairs = self.before.iter().zip(self.after);
            let differences: Vec<Figure> = pairs
                .map(|(before, after)| Figure {
                    value: after.value - before.value,
                    variance: 0.0,
                })
                .collect();
            let df = differences.len().saturating_sub(1) as f64;
            return (df > 0.0).then(|| (squares(&differences) / (2.0 * df), df));
        }
        let more = |side: &[Figure]| side.len().saturating_sub(1);
        let df = more(self.before) + more(self.after);
        let squares = squares(self.before) + squares(self.after);
        (df > 0).then(|| (squares / df as f64, df as f64))
    }

    /// Variance of a single run that sampling alone makes.
    fn sampling(&self) -> f64 {
        let sum = |side: &[Figure]| side.iter().map(|figure| figure.variance).sum::<f64>();
        let runs = (self.before.len() + self.after.len()).max(1) as f64;
        (sum(self.before) + sum(self.after)) / runs
    }

    /// The change. A side without a run counts as nothing found.
    ///
    /// With several runs, a run's variance is what the runs of both sides show,
    /// moderated by `prior`, and not much less than what sampling alone makes.
    /// With one a side it is the latter.
    pub fn change(&self, prior: Option<Prior>) -> Change {
        let value =
            mean(self.after, |figure| figure.value) - mean(self.before, |figure| figure.value);
        let of_mean = |side: &[Figure]| match side.len() {
            0 => 0.0,
            runs => 1.0 / runs as f64,
        };
        let sampling = self.sampling();
        let Some((scatter, df)) = self.scatter() else {
            let own = |side: &[Figure]| mean(side, |figure| figure.variance) * of_mean(side);
            return Change {
                value,
                error: (own(self.before) + own(self.after)).sqrt(),
                df: f64::INFINITY,
                deviation: sampling.sqrt(),
                // Without any run nothing is known, of these neither.
                kind: match self.before.is_empty() && self.after.is_empty() {
                    true => Kind::AnotherRun,
                    false => Kind::TheseRuns,
                },
            };
        };
        let (variance, all_df, df) = match prior {
            Some(prior) if sampling > 0.0 => (
                (prior.df * prior.ratio * sampling + df * scatter) / (prior.df + df),
                prior.df + df,
                prior.df * BELIEVED + df,
            ),
            _ => (scatter, df, df),
        };
        let variance = variance.max(sampling * least_ratio(all_df));
        Change {
            value,
            error: (variance * (of_mean(self.before) + of_mean(self.after))).sqrt(),
            df,
            deviation: variance.sqrt(),
            kind: Kind::AnotherRun,
        }
    }
}

/// Below this part of the true variance, that of a few runs is found once in
/// twenty times: the chi-squared quantile by Wilson and Hilferty 1931. Runs
/// that are equal by accident, as those with two samples of a row each, are
/// not surer than that.
fn least_ratio(df: f64) -> f64 {
    let part = 2.0 / (9.0 * df);
    (1.0 - part - 1.645 * part.sqrt())
        .max(0.0)
        .powi(3)
        .max(LEAST_RATIO)
}

/// With two runs of one side and one of the other it would be nothing, and a
/// row with one sample in a single run would be sure to have changed.
const LEAST_RATIO: f64 = 0.1;

/// Where the mean of other runs is, with this confidence (0.95); of one run,
/// where sampling the same run again would find it. Of figures that are not
/// negative: the interval is made of their square roots, since what is rare
/// comes in bursts, and few of them are skewed as counts are.
pub fn mean_interval(runs: &[Figure], confidence: f64) -> Interval {
    let sides = Sides {
        before: &[],
        after: runs,
        pairing: Pairing::Independent,
    };
    let change = sides.change(None);
    let plain = change.interval(confidence);
    if change.value <= 0.0 {
        return plain;
    }
    let shift = plain.half_width().powi(2) / (4.0 * change.value);
    Interval {
        // A half-width of more than twice the mean is no root's.
        low: (plain.low + shift).min(change.value),
        high: plain.high + shift,
    }
}

/// The part of a prior's degrees of freedom by which a change is surer. Smyth
/// counts all of them, which is right if rows scatter each for itself. Rows of one
/// program do not: a slow run is slow in all of them, so runs that are alike by
/// chance are so in all rows, and the prior says so once more. And few rows say
/// little of how unlike they are. With all of the degrees 4 to 7.9 % of the pairs
/// of equal sides of 3 runs show a change in simulated programs of 8 to 60 rows
/// whose runs share a factor, with this part 1 to 5 %
/// (`tests/simulations/decisions.rs`); a planted change of five runs is found as
/// often but for one in a hundred.
const BELIEVED: f64 = 1.0 / 3.0;

/// Fewest rows that say something of each other.
const LEAST_ROWS: usize = 8;
/// A prior stands for at most so many degrees of freedom, and for half of those
/// that fit best: with rows of which a quarter scatters nine times as much as
/// the others, the whole of them let 13 % of the pairs of sides of two equal
/// runs show a change; these let 2 % (`tests/simulations/decisions.rs`).
const MOST_DF: f64 = 4.0;

impl Prior {
    /// What rows have in common, so that the few runs of each say more: the
    /// scatter between runs in units of that by sampling is taken for
    /// scaled F distributed over rows (Smyth 2004, section 6.2). `None` with too few
    /// rows, or where they have nothing in common.
    pub fn of<'a>(rows: impl Iterator<Item = Sides<'a>>) -> Option<Self> {
        let mut df = 0.0;
        let logarithms: Vec<f64> = rows
            .filter_map(|row| {
                let (scatter, own_df) = row.scatter()?;
                df = own_df;
                let ratio = scatter / row.sampling();
                (ratio.is_finite() && ratio > 0.0).then(|| ratio.ln())
            })
            .collect();
        if logarithms.len() < LEAST_ROWS {
            return None;
        }
        let count = logarithms.len() as f64;
        let shift = digamma(df / 2.0) - (df / 2.0).ln();
        let middle = logarithms.iter().sum::<f64>() / count - shift;
        let spread: f64 = logarithms
            .iter()
            .map(|one| (one - shift - middle).powi(2))
            .sum::<f64>()
            / (count - 1.0);
        let left = spread - trigamma(df / 2.0);
        let prior_df = if left > 0.0 {
            inverse_trigamma(left).min(MOST_DF)
        } else {
            MOST_DF
        };
        let ratio = (middle + digamma(prior_df / 2.0) - (prior_df / 2.0).ln()).exp();
        Some(Self {
            ratio,
            df: prior_df,
        })
    }
}

/// The derivative of ln Γ, for positive `x`: recurrence, then the asymptotic
/// series.
fn digamma(x: f64) -> f64 {
    statrs::function::gamma::digamma(x)
}

/// The derivative of [`digamma`], for positive `x`: recurrence, then the
/// asymptotic series (Abramowitz and Stegun 6.4.6, 6.4.12).
fn trigamma(mut x: f64) -> f64 {
    let mut sum = 0.0;
    while x < 10.0 {
        sum += 1.0 / (x * x);
        x += 1.0;
    }
    let square = 1.0 / (x * x);
    sum + 1.0 / x + square / 2.0 + square / x * (1.0 / 6.0 - square * (1.0 / 30.0 - square / 42.0))
}

/// Where [`trigamma`] is `y`, a positive number: Newton's method as in Smyth
/// 2004, appendix.
fn inverse_trigamma(y: f64) -> f64 {
    if y > 1e7 {
        return 1.0 / y.sqrt();
    }
    if y < 1e-6 {
        return 1.0 / y;
    }
    let mut x = 0.5 + 1.0 / y;
    for _ in 0..50 {
        let value = trigamma(x);
        let slope = (trigamma(x * (1.0 + 1e-5)) - value) / (x * 1e-5);
        let step = value * (1.0 - value / y) / slope;
        x += step;
        if (step / x).abs() < 1e-8 {
            break;
        }
    }
    x
}

#[cfg(test)]
mod tests {
    use super::{Figure, Kind, Pairing, Prior, Sides, inverse_trigamma, trigamma};

    fn runs(values: &[f64], variance: f64) -> Vec<Figure> {
        values
            .iter()
            .map(|&value| Figure { value, variance })
            .collect()
    }

    #[test]
    fn several_runs_give_student_s_test() {
        let (before, after) = (runs(&[1.0, 2.0, 3.0], 0.0), runs(&[3.0, 4.0, 5.0], 0.0));
        let sides = Sides {
            before: &before,
            after: &after,
            pairing: Pairing::Independent,
        };
        let change = sides.change(None);
        assert_eq!((change.value, change.df), (2.0, 4.0));
        assert_eq!(change.kind, Kind::AnotherRun);
        // t = 2 / sqrt(2/3) = 2.449, two-sided with 4 degrees of freedom.
        assert!((change.p_value() - 0.070_5).abs() < 1e-4);
        let interval = change.interval(0.95);
        assert!((interval.low + 0.267).abs() < 1e-3 && (interval.high - 4.267).abs() < 1e-3);
    }

    #[test]
    fn what_the_machine_does_to_both_of_a_pair_cancels() {
        let before = runs(&[1.0, 5.0, 2.0, 9.0], 0.0);
        let after = runs(&[1.5, 5.6, 2.4, 9.5], 0.0);
        let change = |pairing| {
            let sides = Sides {
                before: &before,
                after: &after,
                pairing,
            };
            sides.change(None)
        };
        let paired = change(Pairing::Paired);
        // d = 0.5, 0.6, 0.4, 0.5: t = 0.5 / (0.0816 / 2), three degrees of freedom.
        assert!((paired.error - 0.081_65 / 2.0).abs() < 1e-4 && paired.df == 3.0);
        assert!(paired.p_value() < 0.002 && change(Pairing::Independent).p_value() > 0.5);
    }

    #[test]
    fn one_a_side_speaks_of_these_two() {
        let (before, after) = (runs(&[1.0], 0.01), runs(&[2.0], 0.03));
        let sides = Sides {
            before: &before,
            after: &after,
            pairing: Pairing::Independent,
        };
        let change = sides.change(None);
        assert_eq!(change.kind, Kind::TheseRuns);
        assert!((change.error - 0.2).abs() < 1e-12);
        assert!(change.df.is_infinite());
    }

    #[test]
    fn runs_that_are_equal_by_accident_are_not_sure() {
        let (before, after) = (runs(&[1.0, 1.0], 0.02), runs(&[1.1, 1.1], 0.02));
        let sides = Sides {
            before: &before,
            after: &after,
            pairing: Pairing::Independent,
        };
        // The least part of the variance by sampling, and t with two degrees.
        let least = (0.02 * super::LEAST_RATIO).sqrt();
        assert!((sides.change(None).error - least).abs() < 1e-12);
        assert!(sides.change(None).p_value() > 0.05);
    }

    #[test]
    fn a_sample_in_one_run_of_three_is_no_change() {
        // Two runs without a sample, one with one: variances as of one sample.
        let (before, after) = (runs(&[0.0, 0.0], 1.0), runs(&[1.0], 1.0));
        let sides = Sides {
            before: &before,
            after: &after,
            pairing: Pairing::Independent,
        };
        assert!(sides.change(None).p_value() > 0.1);
    }

    #[test]
    fn what_all_samples_belong_to_is_known_of_these_runs_and_of_no_others() {
        let change = |before: &[f64], after: &[f64]| {
            let sides = Sides {
                before: &runs(before, 0.0),
                after: &runs(after, 0.0),
                pairing: Pairing::Independent,
            };
            sides.change(None)
        };
        let more = change(&[100.0], &[110.9]);
        assert_eq!((more.p_value(), more.p_of_at_most(2.0)), (0.0, 0.0));
        assert_eq!(
            (more.p_of_at_most(11.0), more.p_of_as_large_as(2.0)),
            (1.0, 1.0)
        );
        let same = change(&[100.0], &[100.0]);
        assert_eq!((same.p_value(), same.p_of_as_large_as(2.0)), (1.0, 0.0));
        // Two that are equal by chance.
        let others = change(&[100.0, 100.0], &[110.9, 110.9]);
        assert_eq!(others.p_value(), 1.0);
    }

    #[test]
    fn nothing_known_is_no_p_value_below_one_and_no_nan() {
        let sides = Sides {
            before: &[],
            after: &[],
            pairing: Pairing::Independent,
        };
        let change = sides.change(None);
        assert_eq!((change.value, change.p_value()), (0.0, 1.0));
        assert_eq!(change.p_of_as_large_as(1.0), 1.0);
        assert_eq!(Prior::of(std::iter::empty()), None);
    }

    #[test]
    fn trigamma_is_inverted() {
        assert!((trigamma(1.0) - std::f64::consts::PI.powi(2) / 6.0).abs() < 1e-9);
        for x in [0.3, 1.0, 4.5, 80.0] {
            assert!((inverse_trigamma(trigamma(x)) / x - 1.0).abs() < 1e-6);
        }
    }
}

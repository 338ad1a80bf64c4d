//! What is measured of a whole run, beside its samples.

use crate::unit::{Step, four_digits};
use prof_statistics::{Change, Figure, Interval, Kind, Pairing, Sides, Verdict};

/// What a measure is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeasureUnit {
    /// Seconds: less is faster.
    Seconds,
    /// Bytes.
    Bytes,
    /// A number.
    Count,
}

impl MeasureUnit {
    /// For JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Seconds => "s",
            Self::Bytes => "bytes",
            Self::Count => "count",
        }
    }

    /// With four digits and the unit.
    pub(crate) fn text(self, value: f64) -> String {
        let steps: &[Step] = match self {
            Self::Seconds => &[(1.0, " s"), (1e-3, " ms"), (1e-6, " us")],
            Self::Bytes => &[(1e9, " GB"), (1e6, " MB"), (1e3, " kB"), (1.0, " B")],
            Self::Count => &[(1e9, " G"), (1e6, " M"), (1e3, " k"), (1.0, "")],
        };
        four_digits(value, steps)
    }
}

/// Another measurement of each run, such as wall time.
#[derive(Debug, Clone)]
pub struct Measure {
    /// What it is: `wall time`.
    pub name: &'static str,
    /// In what.
    pub unit: MeasureUnit,
    /// The smallest difference that it can show.
    pub resolution: f64,
    /// By run before.
    pub before: Vec<f64>,
    /// By run after.
    pub after: Vec<f64>,
}

/// A measure compared.
#[derive(Debug, Clone)]
pub struct MeasureRow {
    /// What it is.
    pub name: &'static str,
    /// In what.
    pub unit: MeasureUnit,
    /// Mean of the runs before.
    pub before: f64,
    /// And after.
    pub after: f64,
    /// After minus before, percent of before.
    pub change: Change,
    /// The interval of the change.
    pub interval: Interval,
    /// Whether the change is significant.
    pub verdict: Verdict,
}

fn mean(figures: &[f64]) -> f64 {
    figures.iter().sum::<f64>() / figures.len().max(1) as f64
}

impl Measure {
    /// The change of the mean, percent of the mean before.
    pub(crate) fn change(&self, pairing: Pairing) -> Change {
        let whole = mean(&self.before).max(self.resolution);
        let figures = |side: &[f64]| -> Vec<Figure> {
            let figure = |value: &f64| Figure {
                value: 100.0 * value / whole,
                // Of what is rounded.
                variance: (100.0 * self.resolution / whole).powi(2) / 12.0,
            };
            side.iter().map(figure).collect()
        };
        let (before, after) = (figures(&self.before), figures(&self.after));
        let sides = Sides {
            before: &before,
            after: &after,
            pairing,
        };
        let change = sides.change(None);
        match change.kind {
            Kind::AnotherRun => change,
            // Of one run a side nothing is known but the figures.
            Kind::TheseRuns => Change {
                error: f64::INFINITY,
                deviation: f64::NAN,
                ..change
            },
        }
    }

    pub(crate) fn row(&self, change: Change, confidence: f64, verdict: Verdict) -> MeasureRow {
        MeasureRow {
            name: self.name,
            unit: self.unit,
            before: mean(&self.before),
            after: mean(&self.after),
            interval: change.interval(confidence),
            change,
            verdict,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Measure, MeasureUnit};
    use prof_statistics::Pairing;

    fn faults(before: &[f64], after: &[f64]) -> prof_statistics::Change {
        let measure = Measure {
            name: "page faults",
            unit: MeasureUnit::Count,
            resolution: 1.0,
            before: before.to_vec(),
            after: after.to_vec(),
        };
        measure.change(Pairing::Paired)
    }

    #[test]
    fn figures_that_never_scatter_are_sure_all_the_same() {
        let same = faults(&[100.0; 5], &[100.0; 5]);
        assert!(same.value == 0.0 && same.error > 0.0 && same.interval(0.95).high < 1.5);
        let more = faults(&[100.0; 5], &[130.0; 5]);
        assert!(more.p_value() < 0.001, "{more:?}");
        let one_pair = faults(&[100.0], &[300.0]);
        assert!(one_pair.p_value() == 1.0 && one_pair.interval(0.95).high.is_infinite());
        let none = faults(&[0.0; 3], &[0.0; 3]);
        assert!(none.value == 0.0 && none.p_value() == 1.0);
    }

    #[test]
    fn units_have_four_digits() {
        assert_eq!(MeasureUnit::Seconds.text(0.012_34), "12.34 ms");
        assert_eq!(MeasureUnit::Bytes.text(3_456_000.0), "3.456 MB");
        assert_eq!(MeasureUnit::Count.text(0.0), "0");
    }
}

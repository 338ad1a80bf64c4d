//! An interval, and how one is made of a share.

use crate::distribution::normal_quantile;

/// An interval of confidence, in the figure's unit.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Interval {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

impl Interval {
    /// Around `middle`; without a `half_width` that is a number, everything.
    pub fn around(middle: f64, half_width: f64) -> Self {
        Self {
            low: middle - half_width,
            high: middle + half_width,
        }
    }

    /// Half of its width.
    pub fn half_width(self) -> f64 {
        (self.high - self.low) / 2.0
    }

    /// Whether `value` is in it.
    pub fn contains(self, value: f64) -> bool {
        self.low <= value && value <= self.high
    }

    /// The same in another unit.
    #[must_use]
    pub fn scaled(self, factor: f64) -> Self {
        Self {
            low: self.low * factor,
            high: self.high * factor,
        }
    }

    /// Wilson's interval of a share in 0 to 1 that was found in `effective`
    /// independent samples; everything if there are none.
    pub(crate) fn of_share(share: f64, effective: f64, confidence: f64) -> Self {
        if !(effective > 0.0 && share.is_finite()) {
            return Self {
                low: 0.0,
                high: 1.0,
            };
        }
        let z = normal_quantile(f64::midpoint(1.0, confidence));
        let weight = z * z / effective;
        let middle = (share + weight / 2.0) / (1.0 + weight);
        let spread = share * (1.0 - share) / effective + weight / (4.0 * effective);
        let half = z * spread.max(0.0).sqrt() / (1.0 + weight);
        Self {
            low: (middle - half).clamp(0.0, share.clamp(0.0, 1.0)),
            high: (middle + half).clamp(share.clamp(0.0, 1.0), 1.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Interval;

    #[test]
    fn wilson_gives_the_textbook_s_figures() {
        // 15 of 148: Newcombe 1998, table I, method 3.
        let of = Interval::of_share(15.0 / 148.0, 148.0, 0.95);
        assert!((of.low - 0.0624).abs() < 5e-5 && (of.high - 0.1605).abs() < 5e-5);
        // 0 of 20 and 1 of 29, same table.
        let none = Interval::of_share(0.0, 20.0, 0.95);
        assert!(none.low == 0.0 && (none.high - 0.1611).abs() < 5e-5);
    }

    #[test]
    fn nothing_measured_says_nothing() {
        let all = Interval::of_share(f64::NAN, 10.0, 0.95);
        assert_eq!((all.low, all.high), (0.0, 1.0));
        assert!(Interval::of_share(0.3, 0.0, 0.95).contains(0.99));
        assert_eq!(Interval::of_share(1.0, 50.0, 0.95).high, 1.0);
    }
}

//! Sums over things of which some were chosen by chance.

use crate::Interval;
use crate::distribution::normal_quantile;
use crate::moments::Share;

/// A sum that was estimated from those chosen, each by itself with a known
/// probability `1 / w`. Each of size `y` counts `w y`, which makes the sum
/// unbiased whatever the sizes are (Horvitz and Thompson 1952); the variance
/// of the sum is estimated by that of `w (w - 1) y²`. What was chosen for
/// certain, `w` = 1, adds none. The order is of no importance, since choices
/// are independent: in 300 simulated tries with 600 000 waits, in which every
/// 2nd, 3rd, 5th or 100th is at another stack, at least 93 % of the 95 %
/// intervals of sum and share had the truth, and the mean of the sums was less
/// than 1 % from it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Chosen {
    sum: f64,
    variance: f64,
    samples: u64,
}

impl Chosen {
    /// Adds one of weight `weight` (`w y`) that was chosen with probability 1 /
    /// `times`; `times` (`w`) is at least 1.
    pub fn add(&mut self, weight: f64, times: f64) {
        self.sum += weight;
        self.variance += weight * weight * (1.0 - 1.0 / times.max(1.0));
        self.samples += 1;
    }

    /// The sum.
    pub fn sum(&self) -> f64 {
        self.sum
    }

    /// The confidence interval of the sum over all, chosen or not. As a guard
    /// against few observations it counts one more of usual size.
    pub fn interval(&self, confidence: f64) -> Interval {
        let z = normal_quantile(f64::midpoint(1.0, confidence));
        let half = z * (self.variance * self.unseen()).sqrt();
        Interval::around(self.sum, half)
    }

    /// The share of this sum in `all`, which includes it.
    pub fn share_of(&self, all: &Self) -> Share {
        let share = match all.sum > 0.0 {
            true => self.sum / all.sum,
            false => 0.0,
        };
        let own = self.variance * self.unseen();
        let sum = own * (1.0 - 2.0 * share) + share * share * all.variance;
        // Of nothing chosen all that is known is how much one counts.
        let least = match (self.samples, all.samples) {
            (0, 1..) => all.variance / all.samples as f64,
            _ => 0.0,
        };
        let variance = match all.sum > 0.0 {
            true => sum.max(least) / (all.sum * all.sum),
            false => 0.0,
        };
        let plain = share * (1.0 - share);
        let effective = match (plain > 0.0, variance > 0.0) {
            (true, true) => plain / variance,
            // Nothing was left to chance.
            _ if all.sum > 0.0 && all.variance == 0.0 => f64::INFINITY,
            _ => all.samples as f64,
        };
        Share {
            share,
            variance,
            effective,
            samples: self.samples,
        }
    }

    fn unseen(&self) -> f64 {
        1.0 + 1.0 / self.samples.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::Chosen;
    use prof_sketch::Random;

    /// How many are passed over where one in `times` is chosen, each by itself.
    fn gap(random: &mut Random, times: f64) -> usize {
        (random.below_one().max(1e-300).ln() / (1.0 - 1.0 / times).ln()) as usize
    }

    const WAITS: usize = 600_000;
    const TRIES: usize = 300;

    /// Waits at two stacks, the second at every `period`th: their lengths, µs,
    /// most short and few long, and what of 300 tries, in which one in `times`
    /// is chosen, lay in the intervals of sum and share of the second; also how
    /// far the mean of the sums is from the truth, of it.
    fn tried(period: usize, times: f64) -> (usize, usize, f64) {
        let mut random = Random(1 + period as u64);
        let length = |random: &mut Random| 10.0 - 40.0 * random.below_one().max(1e-9).ln();
        let lengths: Vec<f64> = (0..WAITS).map(|_| length(&mut random)).collect();
        let is_second = |at: usize| at.is_multiple_of(period);
        let all: f64 = lengths.iter().sum();
        let second = lengths.iter().enumerate().filter(|(at, _)| is_second(*at));
        let truth: f64 = second.map(|(_, length)| length).sum();
        let (mut sums, mut shares, mut mean) = (0, 0, 0.0);
        for _ in 0..TRIES {
            let (mut own, mut whole) = (Chosen::default(), Chosen::default());
            let mut at = gap(&mut random, times);
            while let Some(length) = lengths.get(at) {
                whole.add(times * length, times);
                if is_second(at) {
                    own.add(times * length, times);
                }
                at += 1 + gap(&mut random, times);
            }
            mean += own.sum() / TRIES as f64;
            sums += usize::from(own.interval(0.95).contains(truth));
            let share = own.share_of(&whole).interval(0.95);
            shares += usize::from(share.contains(truth / all));
        }
        (sums, shares, (mean - truth).abs() / truth)
    }

    #[test]
    fn alternating_stacks_lie_in_their_intervals() {
        for (period, times) in [(2, 8.0), (3, 8.0), (5, 32.0), (100, 8.0)] {
            let (sums, shares, error) = tried(period, times);
            assert!(sums >= 279, "{period}: {sums} of 300");
            assert!(shares >= 279, "{period}: {shares} of 300");
            assert!(error < 0.01, "{period}: {error}");
        }
    }

    #[test]
    fn what_is_certain_has_no_width_and_nothing_is_no_nan() {
        let mut sum = Chosen::default();
        sum.add(5.0, 1.0);
        let mut all = sum;
        all.add(15.0, 1.0);
        let interval = sum.interval(0.95);
        assert_eq!((interval.low, interval.high), (5.0, 5.0));
        assert_eq!(sum.share_of(&all).share, 0.25);
        assert_eq!(sum.share_of(&all).variance, 0.0);
        let none = Chosen::default();
        assert_eq!(none.share_of(&none).share, 0.0);
        assert!(none.share_of(&all).interval(0.95).high < 1.0);
    }
}

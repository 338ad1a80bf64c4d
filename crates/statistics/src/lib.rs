//! How sure the figures of a sampled program are, and whether two of them
//! differ.
//!
//! You give samples as (thread, weight, rows), or figures of several runs; you
//! get intervals, tests, verdicts and how much more would have to be measured.
//! No I/O, no clock, no randomness.
//!
//! # Two kinds of interval
//!
//! - [`SamplingOrder`] and [`Moments`]: *within one recording*, what sampling
//!   this same run again would show. What the run itself did, its phases and
//!   bursts, is no noise.
//! - [`Sides`]: *between recordings*, what another run would show. It needs
//!   several runs, and says so by [`Kind`] where it has them not.
//!
//! # Which method, and why
//!
//! | question | method | source |
//! |---|---|---|
//! | scatter of a share within a recording | successive differences of the weighted residuals, thread by thread, extrapolated to no distance (see [`Moments::share`]) | Wolter, *Introduction to Variance Estimation*, 2nd ed. (2007), ch. 8; the difference of lags as in a variogram with nugget (Cressie 1993) |
//! | interval of a share | Wilson's with the effective number of samples | Wilson 1927; Korn and Graubard 1998 for the effective number |
//! | another run | t with the variance of all runs of both sides, moderated over rows; a third of the degrees of freedom that this adds is believed, since rows of one run have much in common | Smyth 2004 |
//! | the same within a bound | two one-sided tests | Schuirmann 1987 |
//! | many rows | Benjamini and Hochberg; Yekutieli where asked for; of changes that are named, a rule by which the wrong ones of many comparisons together are as few (see [`adjusted_together`]) | 1995, 2001; Genovese and Wasserman 2002 |
//! | another run, drift of the machine cancelled | the same with differences of pairs | Student 1908 |
//! | looks while runs come in | alpha-spending in equal parts over eleven looks | Lan and DeMets 1983 |
//! | looks after each run | right-Haar t mixture: e-values and confidence sequences; e-BH over rows | Lai 1976; Wang and Ramdas 2022, 2023 |
//! | how many runs | the textbook's two-sample formula with t quantiles, at the level that the other rows leave, more for a scatter that few runs showed | Julious 2004; Julious and Owen 2006 |
//!
//! Three ways to estimate the scatter within a recording were tried on the
//! simulated programs of `tests/simulations`, sampling redrawn: see the table
//! at [`Moments::share`]. For a function with half of the samples in bursts
//! denser than those of the tests, intervals are too wide: 97.2 to 97.5 % of
//! them contained the truth.
//!
//! ```
//! use prof_statistics::{Loss, Moments, SamplingOrder};
//!
//! // Samples of one thread, equally heavy; a function has every fifth of them.
//! let samples: Vec<(u32, u64)> = vec![(0, 1); 1000];
//! let order = SamplingOrder::new(&samples);
//! let mut of_function = Moments::default();
//! for sample in order.samples() {
//!     if sample % 5 == 0 {
//!         of_function.add(&order, sample);
//!     }
//! }
//! let share = of_function.share(&order, Loss::default());
//! assert!((share.share - 0.2).abs() < 1e-9);
//! assert!(share.interval(0.95).contains(0.2));
//! ```
#![forbid(unsafe_code)]

mod chosen;
mod discoveries;
mod distribution;
mod interval;
mod looks;
mod moments;
mod needed;
mod sequential;
mod sides;
mod verdict;

pub use chosen::Chosen;
pub use discoveries::{
    Adjusting, Control, adjusted, adjusted_together, discovered_by_e_values, level_of_one_more,
};
pub use interval::Interval;
pub use looks::{LOOKS, is_look, level_of_a_look};
pub use moments::{Loss, Moments, SamplingOrder, Share, Weights};
pub use needed::{Scatter, detectable, runs_needed, samples_needed};
pub use sequential::{e_value, half_width};
pub use sides::{Change, Figure, Kind, Pairing, Prior, Sides, mean_interval};
pub use verdict::{Question, Reach, Verdict, verdicts};

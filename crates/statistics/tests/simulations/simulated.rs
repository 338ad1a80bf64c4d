//! Programs whose shares are known, and recordings of them.
//!
//! A program is, thread by thread, a path: for each tick of the sampling timer
//! the probability that the function is running then. Sampling draws from the
//! path; another run draws another path.

use prof_statistics::{Figure, Loss, Moments, SamplingOrder, Share, mean_interval};

/// xorshift64* (Vigna 2016), seeded through a multiplication so that
/// neighbouring seeds have nothing in common.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self((seed ^ 0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9) | 1)
    }

    pub(crate) fn bits(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// In [0, 1).
    pub(crate) fn uniform(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Geometric with this mean, at least 1: what is left of it has the same
    /// distribution, so a path may begin in the middle.
    pub(crate) fn length(&mut self, mean: f64) -> usize {
        let logarithm = (1.0 - self.uniform()).ln();
        1 + (logarithm / (-1.0 / mean).ln_1p()) as usize
    }
}

/// How a simulated program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// One thread that always does the same.
    Steady,
    /// Eight threads of different length, the function in half of them.
    Threads,
    /// Phases of 200 ticks on average, with and without the function.
    Phases,
    /// The function runs in bursts of ten ticks on average.
    Bursts,
    /// Phases, two threads, and a tenth of the samples lost, in pieces of
    /// four.
    Lossy,
    /// The rate was asked for, so that periods follow what happens: a factor of
    /// four between phases.
    Periods,
}

/// The shares of the function.
pub(crate) const SHARES: [f64; 3] = [0.005, 0.05, 0.5];

pub(crate) const SHAPES: [Shape; 6] = [
    Shape::Steady,
    Shape::Threads,
    Shape::Phases,
    Shape::Bursts,
    Shape::Lossy,
    Shape::Periods,
];

/// A tick of a thread's timer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tick {
    thread: u32,
    /// Events since the tick before.
    weight: u64,
    /// How probable the function is at a random instant of it.
    inside: f64,
}

/// A run of a program: what it did, tick by tick.
pub(crate) struct Path {
    pub(crate) ticks: Vec<Tick>,
    shape: Shape,
}

/// A simulated program, and how long it runs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Program {
    pub(crate) shape: Shape,
    /// Of the function.
    pub(crate) share: f64,
    /// Of the sampling timer, all threads together.
    pub(crate) ticks: usize,
}

/// Of a usual run.
pub(crate) const TICKS: usize = 4000;
const WEIGHT: u64 = 1_000_000;

impl Path {
    pub(crate) fn new(program: Program, random: &mut Random) -> Self {
        let Program { shape, share, .. } = program;
        let mut ticks = Vec::with_capacity(program.ticks);
        let threads = match shape {
            Shape::Threads => 8,
            Shape::Lossy => 2,
            _ => 1,
        };
        for thread in 0..threads {
            let count = match shape {
                // Together about as many: 1 to 15 sixteenths of 500 each.
                Shape::Threads => program.ticks * (2 * thread as usize + 1) / 64,
                _ => program.ticks / threads as usize,
            };
            thread_path(&mut ticks, (shape, share), (thread, count), random);
        }
        Self { ticks, shape }
    }

    /// The share that sampling would find on average.
    pub(crate) fn truth(&self) -> f64 {
        let all: f64 = self.ticks.iter().map(|tick| tick.weight as f64).sum();
        let inside = self
            .ticks
            .iter()
            .map(|tick| tick.weight as f64 * tick.inside);
        inside.sum::<f64>() / all
    }

    /// One recording of it: the samples, which of them are in the function, and
    /// what was lost.
    fn recorded(&self, random: &mut Random) -> Recorded {
        let mut recorded = Recorded::default();
        let mut losing = 0;
        for tick in &self.ticks {
            if self.shape == Shape::Lossy && losing == 0 && random.uniform() < 0.1 / 3.7 {
                losing = 4;
                recorded.loss.pieces += 1;
            }
            if losing > 0 {
                losing -= 1;
                recorded.loss.samples += 1;
                continue;
            }
            recorded.samples.push((tick.thread, tick.weight));
            recorded.is_in.push(random.uniform() < tick.inside);
        }
        recorded
    }
}

/// A recording, as far as one function goes.
#[derive(Default)]
struct Recorded {
    samples: Vec<(u32, u64)>,
    is_in: Vec<bool>,
    loss: Loss,
}

/// How the scatter of a share is estimated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    /// As the crate does it.
    Ours,
    /// As if samples were independent; Kish's number for uneven weights.
    Independent,
    /// Forty blocks of time of each thread as clusters: what a block bootstrap
    /// converges to.
    Blocks,
    /// Successive differences as they are.
    Differences,
}

impl Recorded {
    fn share(&self, method: Method) -> Share {
        let order = SamplingOrder::new(&self.samples);
        let mut moments = Moments::default();
        for sample in order.samples() {
            if self.is_in[sample as usize] {
                moments.add(&order, sample);
            }
        }
        let mut found = moments.share(&order, self.loss);
        let plain = found.share * (1.0 - found.share);
        let squared = |sum: f64| plain / (sum / order.total().powi(2)).max(1e-12);
        found.effective = match method {
            Method::Ours => found.effective,
            Method::Independent => order.effective(),
            Method::Blocks => squared(self.sum_of_blocks(found.share)),
            Method::Differences => squared(self.sum_of_differences(found.share)),
        };
        found
    }

    /// By sample, threads together: its thread and its residual.
    fn residuals(&self, share: f64) -> Vec<(u32, f64)> {
        let rows = self.samples.iter().zip(&self.is_in);
        let residual = |&is_in: &bool| f64::from(u8::from(is_in)) - share;
        rows.map(|(&(thread, weight), is_in)| (thread, weight as f64 * residual(is_in)))
            .collect()
    }

    fn sum_of_blocks(&self, share: f64) -> f64 {
        let residuals = self.residuals(share);
        let threads = residuals.chunk_by(|a, b| a.0 == b.0);
        threads
            .flat_map(|thread| thread.chunks(thread.len().div_ceil(40)))
            .map(|block| block.iter().map(|(_, e)| e).sum::<f64>().powi(2))
            .sum()
    }

    fn sum_of_differences(&self, share: f64) -> f64 {
        let residuals = self.residuals(share);
        let pairs = residuals.windows(2);
        pairs
            .map(|pair| (pair[1].1 - pair[0].1).powi(2))
            .sum::<f64>()
            / 2.0
    }
}

fn thread_path(
    ticks: &mut Vec<Tick>,
    (shape, share): (Shape, f64),
    (thread, count): (u32, usize),
    random: &mut Random,
) {
    // High and low of equal length, the mean in the middle; bursts are dense.
    let (high, low, of_high, of_low) = match shape {
        Shape::Steady => (share, share, 50.0, 50.0),
        Shape::Threads if thread % 2 == 0 => (share * 0.2, share * 0.2, 50.0, 50.0),
        Shape::Threads => (share * 1.6, share * 1.6, 50.0, 50.0),
        Shape::Phases | Shape::Lossy | Shape::Periods => (share * 1.8, share * 0.2, 200.0, 200.0),
        Shape::Bursts => {
            let dense = (share * 4.0).clamp(0.6, 0.75);
            (
                dense,
                share * 0.1,
                10.0,
                10.0 * (dense - share) / (share * 0.9),
            )
        }
    };
    let mut is_high = random.uniform() < of_high / (of_high + of_low);
    let mut left = random.length(if is_high { of_high } else { of_low });
    for _ in 0..count {
        if left == 0 {
            is_high = !is_high;
            left = random.length(if is_high { of_high } else { of_low });
        }
        left -= 1;
        let weight = match shape {
            Shape::Periods => {
                let usual = if is_high { WEIGHT / 2 } else { WEIGHT * 2 };
                (usual as f64 * (0.75 + 0.5 * random.uniform())) as u64
            }
            _ => WEIGHT,
        };
        ticks.push(Tick {
            thread,
            weight,
            inside: if is_high { high } else { low },
        });
    }
}

/// What of `tries` intervals contain the truth; and the mean width against that
/// of one who knows the scatter.
pub(crate) struct Coverage {
    pub(crate) inside: usize,
    pub(crate) tries: usize,
    pub(crate) hits: f64,
    pub(crate) width_to_oracle: f64,
}

impl Coverage {
    fn new(tries: usize) -> Self {
        Self {
            inside: 0,
            tries,
            hits: 0.0,
            width_to_oracle: 0.0,
        }
    }

    /// Percent.
    pub(crate) fn percent(&self) -> f64 {
        100.0 * self.inside as f64 / self.tries as f64
    }
}

/// A program's path stays, sampling is redrawn; a new program in each try.
pub(crate) fn path_fixed(program: Program, method: Method, tries: usize, seed: u64) -> Coverage {
    let mut random = Random::new(seed);
    let mut coverage = Coverage::new(tries);
    let (mut width, mut squares) = (0.0, 0.0);
    for _ in 0..tries {
        let path = Path::new(program, &mut random);
        let found = path.recorded(&mut random).share(method);
        let interval = found.interval(0.95);
        let truth = path.truth();
        coverage.inside += usize::from(interval.contains(truth));
        coverage.hits += found.samples as f64 / tries as f64;
        width += interval.half_width();
        squares += (found.share - truth).powi(2);
    }
    coverage.width_to_oracle = width / (1.96 * (squares * tries as f64).sqrt());
    coverage
}

/// The path is redrawn in each of `runs` runs of one side.
pub(crate) fn path_redrawn(program: Program, runs: usize, tries: usize, seed: u64) -> Coverage {
    let mut random = Random::new(seed);
    let truth = expected(program, &mut random);
    let mut coverage = Coverage::new(tries);
    let (mut width, mut squares) = (0.0, 0.0);
    for _ in 0..tries {
        let figures: Vec<Figure> = (0..runs)
            .map(|_| {
                let path = Path::new(program, &mut random);
                let found = path.recorded(&mut random).share(Method::Ours);
                coverage.hits += found.samples as f64 / tries as f64;
                found.figure()
            })
            .collect();
        let interval = mean_interval(&figures, 0.95);
        coverage.inside += usize::from(interval.contains(truth));
        width += interval.half_width();
        squares += (figures.iter().map(|f| f.value).sum::<f64>() / runs as f64 - truth).powi(2);
    }
    coverage.width_to_oracle = width / (1.96 * (squares * tries as f64).sqrt());
    coverage
}

/// The share of an average run.
fn expected(program: Program, random: &mut Random) -> f64 {
    match program.shape {
        // Weights follow phases: the mean of a ratio.
        Shape::Periods => {
            let mean = |_| Path::new(program, random).truth() / 3000.0;
            (0..3000).map(mean).sum()
        }
        Shape::Threads => Path::new(program, random).truth(),
        _ => program.share,
    }
}

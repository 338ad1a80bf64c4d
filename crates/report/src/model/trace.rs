//! The samples of a scene in the order in which they were taken, and from that how
//! shares of them scatter.

use super::cut::CutStacks;
use super::tally::{Cell, Split, Tally, each_in_scope};
use super::{GroupId, NodeId, Scene, Selection};
use prof_profile::{Event, Profile, Sample, StackId, Wait};
use prof_statistics::{Chosen, Loss, Moments, SamplingOrder, Share, Weights};

/// The samples of a scene in the order in which each thread's were taken.
#[derive(Debug)]
pub(super) struct Trace {
    order: SamplingOrder,
    /// By sample: index of its cell, `u32::MAX` for hidden ones; or number of its path.
    cells: Vec<u32>,
    loss: Loss,
    /// By sample its period and for how many waits it stands, of waits, and where some
    /// were chosen by chance to stand for others; else empty.
    chosen: Vec<(f64, f64)>,
}

/// What is told of a cell of a trace.
#[derive(Debug, Clone, Copy)]
pub(super) struct TracedCell {
    pub(super) group: GroupId,
    pub(super) stack: StackId,
}

/// A trace of cells, and these.
#[derive(Debug)]
pub(super) struct Traced {
    pub(super) trace: Trace,
    pub(super) cells: Vec<TracedCell>,
}

impl Traced {
    /// Counts what is selected, as [`Tally::new`] does, and keeps which sample is in
    /// which cell. With `relative`, hidden samples are left out of the trace.
    pub(super) fn tally(
        of: (&Profile, &Selection),
        cut: Option<&CutStacks>,
        split: &Split,
        relative: bool,
    ) -> (Tally, Self) {
        let mut taken = Taken::of(of);
        let tally = Tally::observed(of, cut, split, |sample, cell| {
            if cell.is_some() || !relative {
                taken.push(sample, cell.unwrap_or(u32::MAX));
            }
        });
        let cell = |&Cell { group, stack, .. }: &Cell| TracedCell { group, stack };
        let cells = tally.cells.iter().map(cell).collect();
        let trace = taken.in_order();
        (tally, Self { trace, cells })
    }
}

/// Samples as they come.
struct Taken<'p> {
    profile: &'p Profile,
    event: Option<&'p Event>,
    threads: Vec<u32>,
    cells: Vec<u32>,
    weights: Weights,
    chosen: Vec<(f64, f64)>,
    are_chosen: bool,
}

impl<'p> Taken<'p> {
    fn of((profile, selection): (&'p Profile, &Selection)) -> Self {
        // There are millions: doubling would hold them up to three times.
        let most = profile.samples.len();
        let event = profile.events.get(usize::from(selection.event.0));
        Self {
            profile,
            event,
            threads: Vec::with_capacity(most),
            cells: Vec::with_capacity(most),
            weights: Weights::default(),
            chosen: Vec::new(),
            // Each wait is known, and its length: nothing was left to chance but which
            // stand for others.
            are_chosen: event.is_some_and(|event| event.is_off_cpu && event.lost == 0),
        }
    }

    fn push(&mut self, sample: &Sample, cell: u32) {
        let samples = &self.profile.samples;
        let wait = sample.wait.and_then(|id| samples.wait(id));
        let times = wait.map_or(u64::from(Wait::ITSELF), Wait::times);
        if times != u64::from(Wait::ITSELF) && !self.are_chosen {
            let before = self.weights.iter().map(|weight| (weight, 1.0));
            self.chosen.extend(before);
            self.are_chosen = true;
        }
        if self.are_chosen {
            let times = times as f64 / f64::from(Wait::ITSELF);
            self.chosen.push((sample.period as f64, times));
        }
        self.threads.push(sample.task.0);
        self.weights.push(sample.period);
        self.cells.push(cell);
    }

    fn in_order(self) -> Trace {
        Trace {
            chosen: self.chosen,
            order: SamplingOrder::of(self.threads, &self.weights),
            cells: self.cells,
            loss: Loss {
                samples: self.event.map_or(0, |event| event.lost),
                pieces: 0,
            },
        }
    }
}

impl Trace {
    /// Of what is shown; its cells are paths.
    pub(super) fn of_paths(scene: &Scene<'_>) -> Self {
        let of = (scene.profile(), scene.selection());
        let mut taken = Taken::of(of);
        each_in_scope(of, scene.cut(), |_, sample, left| {
            if let Some(stack) = left {
                let path = scene.path_of(stack).unwrap_or(NodeId::ROOT);
                taken.push(sample, path.0);
            }
        });
        taken.in_order()
    }

    /// Sum of the periods of all samples.
    pub(super) fn total(&self) -> f64 {
        self.order.total()
    }

    /// The share of something without a sample.
    pub(super) fn of_nothing(&self) -> Share {
        Moments::default().share(&self.order, self.loss)
    }

    /// By row; `of` tells the rows that the samples of a cell are in.
    pub(super) fn shares<R: IntoIterator<Item = u32>>(
        &self,
        rows: usize,
        of: impl Fn(u32) -> R,
    ) -> Vec<Share> {
        if !self.chosen.is_empty() {
            return self.shares_of_chosen(rows, of);
        }
        let mut moments = vec![Moments::default(); rows];
        for sample in self.order.samples() {
            let cell = self.cells.get(sample as usize).copied();
            for row in of(cell.unwrap_or(u32::MAX)) {
                if let Some(moments) = moments.get_mut(row as usize) {
                    moments.add(&self.order, sample);
                }
            }
        }
        let share = |moments: Moments| moments.share(&self.order, self.loss);
        moments.into_iter().map(share).collect()
    }

    /// By row, of waits of which some were chosen by chance.
    fn shares_of_chosen<R: IntoIterator<Item = u32>>(
        &self,
        rows: usize,
        of: impl Fn(u32) -> R,
    ) -> Vec<Share> {
        let mut sums = vec![Chosen::default(); rows];
        let mut all = Chosen::default();
        let all_waits = self.chosen.iter().zip(&self.cells);
        // What others count was not chosen.
        for (&(period, times), &cell) in all_waits.filter(|((period, _), _)| *period > 0.0) {
            all.add(period, times);
            for row in of(cell) {
                if let Some(sum) = sums.get_mut(row as usize) {
                    sum.add(period, times);
                }
            }
        }
        sums.iter().map(|sum| sum.share_of(&all)).collect()
    }
}

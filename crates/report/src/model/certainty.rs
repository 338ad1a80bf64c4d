//! How sure the rows of a table are: what sampling the same run again would
//! show.

use super::first_places::frames;
use super::tally::{Cell, Split, Tally};
use super::{GroupId, NodeId, RowKey, Rows, RowsOptions, Scene};
use prof_profile::Wait;
use prof_statistics::{Chosen, Loss, Moments, SamplingOrder, Share, Weights};
use rayon::prelude::*;
use rustc_hash::FxHashMap;

/// Confidence in the two shares of a row.
#[derive(Debug, Clone, Copy)]
pub struct Sure {
    /// Samples taken in it.
    pub own: Share,
    /// Samples with it in the stack; a copy of `own` if totals were not asked
    /// for.
    pub total: Share,
}

/// Confidence in the shares of all rows of a table.
#[derive(Debug)]
pub struct Certainty {
    of_row: FxHashMap<RowKey, Sure>,
    none: Share,
}

/// The samples of a scene in the order in which each thread's were taken.
struct Trace {
    order: SamplingOrder,
    /// By sample: index of its cell, `u32::MAX` for hidden ones.
    cells: Vec<u32>,
    loss: Loss,
    /// By sample its period and for how many waits it stands, where some were
    /// chosen by chance to stand for others; else empty.
    chosen: Vec<(f64, f64)>,
}

impl Certainty {
    /// For the rows of a table made with `options`. With `relative`, shares are
    /// of the samples that filters keep, else of the whole scope. `totals` also
    /// covers shares with callees, which takes time in proportion to the
    /// samples times the depth of their stacks; without it, to the samples.
    pub fn new(
        scene: &Scene<'_>,
        (rows, options): (&Rows, &RowsOptions),
        relative: bool,
        totals: bool,
    ) -> Self {
        let split = Split::of(&options.aparts, options.quantum);
        let (trace, cells) = Trace::new(scene, &split, relative);
        let mut index = FxHashMap::default();
        let members: Vec<Members> = cells
            .iter()
            .map(|cell| Members::of(scene, rows, cell, &mut index))
            .collect();
        let count = index.len();
        let own = || trace.shares(count, &members, |of| of.own.as_slice());
        let total = || trace.shares(count, &members, |of| of.total.as_slice());
        let (own, total) = if totals {
            rayon::join(own, total)
        } else {
            let own = own();
            (own.clone(), own)
        };
        let sure = |at: u32| {
            let (&own, &total) = own.get(at as usize).zip(total.get(at as usize))?;
            Some(Sure { own, total })
        };
        Self {
            of_row: index
                .iter()
                .filter_map(|(&key, &at)| Some((key, sure(at)?)))
                .collect(),
            none: Moments::default().share(&trace.order, trace.loss),
        }
    }

    /// The confidence in a row; for a row without samples, that in a share of
    /// 0.
    pub fn of(&self, key: RowKey) -> Sure {
        let none = Sure {
            own: self.none,
            total: self.none,
        };
        self.of_row.get(&key).copied().unwrap_or(none)
    }

    /// The smallest change of a row's own share, in percent of the total, that
    /// two recordings like this one would show in nine of ten cases; computed
    /// for the row with the largest variance, at the level that testing so many
    /// rows leaves for one.
    pub fn detectable(&self) -> f64 {
        let rows = self.of_row.values().filter(|sure| sure.own.samples > 0);
        let count = rows.clone().count().max(1);
        let variances = rows.map(|sure| sure.own.variance);
        let most = variances.fold(self.none.variance, f64::max);
        let level = 0.05 / count as f64;
        100.0 * prof_statistics::detectable((2.0 * most).sqrt(), f64::INFINITY, level).min(1.0)
    }

    /// The share of something without a sample.
    pub(crate) fn of_nothing(&self) -> Share {
        self.none
    }
}

/// Which rows the samples of a cell are in.
#[derive(Default)]
struct Members {
    /// None or one.
    own: Vec<u32>,
    /// Each once.
    total: Vec<u32>,
}

impl Members {
    fn of(scene: &Scene<'_>, rows: &Rows, cell: &Cell, index: &mut FxHashMap<RowKey, u32>) -> Self {
        // What a transform took out is in no row.
        let Some(path) = scene.path_of(cell.stack) else {
            return Self::default();
        };
        let frames = match path {
            NodeId::ROOT => Vec::new(),
            _ => frames(scene, cell.stack),
        };
        let mut row = |frame: u32| -> u32 {
            let group: GroupId = cell.group;
            let next = index.len() as u32;
            *index.entry(RowKey { group, frame }).or_insert(next)
        };
        let key = |site: super::SiteId| rows.keys_of_sites().get(site.0 as usize).copied();
        let own = scene.self_site(frames.iter().copied());
        let own = row(own.and_then(key).unwrap_or(u32::MAX));
        let mut total: Vec<u32> = frames.into_iter().filter_map(key).map(row).collect();
        total.push(own);
        total.sort_unstable();
        total.dedup();
        Self {
            own: vec![own],
            total,
        }
    }
}

/// How sure the share of each path of a scene is, by [`NodeId`]: of the samples
/// through it. Also the weight of all. Takes time in proportion to the samples
/// and the depth of their stacks.
pub(crate) fn shares_of_paths(scene: &Scene<'_>) -> (Vec<Share>, f64) {
    let (trace, cells) = Trace::new(scene, &Split::of(&[], 1), true);
    let members = |cell: &Cell| Members {
        own: Vec::new(),
        total: paths_through(scene, cell),
    };
    let members: Vec<Members> = cells.iter().map(members).collect();
    let parents = &scene.paths().parents;
    let shares = trace.shares(parents.len(), &members, |of| of.total.as_slice());
    (shares, trace.order.total())
}

/// How sure the shares of `count` groups of frames are, of all that is shown.
/// `groups` has by site the number of its group, or a larger one for none.
/// Takes time in proportion to the samples and the depth of their stacks.
pub(crate) fn shares_of_groups(scene: &Scene<'_>, groups: &[u32], count: usize) -> Vec<Sure> {
    let (trace, cells) = Trace::new(scene, &Split::of(&[], 1), true);
    let sites = &scene.paths().sites;
    let group = |path: &u32| -> Option<u32> {
        let site = sites.get(*path as usize)?;
        let group = groups.get(site.0 as usize).copied()?;
        ((group as usize) < count).then_some(group)
    };
    let members = |cell: &Cell| {
        let paths = paths_through(scene, cell);
        let mut total: Vec<u32> = paths.iter().filter_map(group).collect();
        total.sort_unstable();
        total.dedup();
        Members {
            own: paths.first().and_then(group).into_iter().collect(),
            total,
        }
    };
    let members: Vec<Members> = cells.par_iter().map(members).collect();
    let (own, total) = rayon::join(
        || trace.shares(count, &members, |of| of.own.as_slice()),
        || trace.shares(count, &members, |of| of.total.as_slice()),
    );
    let both = own.into_iter().zip(total);
    both.map(|(own, total)| Sure { own, total }).collect()
}

/// The paths that the stack of a cell goes through, innermost first.
fn paths_through(scene: &Scene<'_>, cell: &Cell) -> Vec<u32> {
    let parents = &scene.paths().parents;
    let mut paths = Vec::new();
    let mut next = scene.path_of(cell.stack);
    while let Some(path) = next.filter(|path| *path != NodeId::ROOT) {
        paths.push(path.0);
        next = parents.get(path.0 as usize).copied();
        // Hostile or not, a path is no longer than there are paths.
        if paths.len() > parents.len() {
            break;
        }
    }
    paths
}

impl Trace {
    fn new(scene: &Scene<'_>, split: &Split, relative: bool) -> (Self, Vec<Cell>) {
        // There are millions: doubling would hold them up to three times.
        let most = scene.profile().samples.len();
        let mut threads = Vec::with_capacity(most);
        let mut cells = Vec::with_capacity(most);
        let (mut weights, mut chosen) = (Weights::default(), Vec::new());
        let mut are_chosen = false;
        let of = (scene.profile(), scene.selection());
        let tally = Tally::observed(of, scene.cut(), split, |sample, cell| {
            if cell.is_some() || !relative {
                let wait = sample.wait.and_then(|id| scene.profile().samples.wait(id));
                let times = wait.map_or(u64::from(Wait::ITSELF), Wait::times);
                if times != u64::from(Wait::ITSELF) && !are_chosen {
                    chosen.extend(weights.iter().map(|weight| (weight, 1.0)));
                    are_chosen = true;
                }
                if are_chosen {
                    let times = times as f64 / f64::from(Wait::ITSELF);
                    chosen.push((sample.period as f64, times));
                }
                threads.push(sample.task.0);
                weights.push(sample.period);
                cells.push(cell.unwrap_or(u32::MAX));
            }
        });
        let trace = Self {
            chosen,
            order: SamplingOrder::of(threads, &weights),
            cells,
            loss: Loss {
                samples: scene.event().map_or(0, |event| event.lost),
                pieces: 0,
            },
        };
        (trace, tally.cells)
    }

    /// By row.
    fn shares<'m>(
        &self,
        rows: usize,
        members: &'m [Members],
        of: impl Fn(&'m Members) -> &'m [u32],
    ) -> Vec<Share> {
        if !self.chosen.is_empty() {
            return self.shares_of_chosen(rows, members, of);
        }
        let mut moments = vec![Moments::default(); rows];
        for sample in self.order.samples() {
            let cell = self.cells.get(sample as usize).copied();
            let in_rows = cell.and_then(|cell| members.get(cell as usize));
            for &row in in_rows.map_or([].as_slice(), &of) {
                if let Some(moments) = moments.get_mut(row as usize) {
                    moments.add(&self.order, sample);
                }
            }
        }
        let share = |moments: Moments| moments.share(&self.order, self.loss);
        moments.into_iter().map(share).collect()
    }

    /// By row, of waits of which some were chosen by chance.
    fn shares_of_chosen<'m>(
        &self,
        rows: usize,
        members: &'m [Members],
        of: impl Fn(&'m Members) -> &'m [u32],
    ) -> Vec<Share> {
        let mut sums = vec![Chosen::default(); rows];
        let mut all = Chosen::default();
        let all_waits = self.chosen.iter().zip(&self.cells);
        // What others count was not chosen.
        for (&(period, times), &cell) in all_waits.filter(|((period, _), _)| *period > 0.0) {
            all.add(period, times);
            for &row in members.get(cell as usize).map_or([].as_slice(), &of) {
                if let Some(sum) = sums.get_mut(row as usize) {
                    sum.add(period, times);
                }
            }
        }
        sums.iter().map(|sum| sum.share_of(&all)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Certainty;
    use crate::keys::{COMM, DSO, SYMBOL, SortKey};
    use crate::model::{Rows, RowsOptions, Scene, Selection};
    use prof_profile::{Counted, Wait};
    use prof_sketch::Sketch;

    #[test]
    fn each_row_s_share_is_that_of_the_table_and_lies_in_its_interval() {
        let mut sketch = Sketch::new();
        let tasks = [sketch.task(1, 1, "a"), sketch.task(1, 2, "b")];
        for at in 0..400_u64 {
            let stack = match at % 7 {
                0 | 3 => "app:main;app:f",
                1 => "app:main;app:f;app:main;app:g",
                _ => "app:main",
            };
            sketch.sample(tasks[(at % 3 % 2) as usize], stack, at, 10 + at % 5);
        }
        let scene = Scene::new(&sketch.profile, Selection::default());
        let options = RowsOptions::by([COMM, DSO, SYMBOL].map(SortKey::apart).to_vec());
        let rows = Rows::new(&scene, &options);
        let certainty = Certainty::new(&scene, (&rows, &options), false, true);
        let whole = rows.scope_total().period as f64;
        assert_eq!(rows.list().len(), 6);
        for row in rows.list() {
            let sure = certainty.of(row.key);
            for (found, weight) in [(sure.own, row.own), (sure.total, row.total)] {
                assert!((found.share - weight.period as f64 / whole).abs() < 1e-12);
                assert_eq!(found.samples, weight.samples);
                assert!(found.interval(0.95).contains(found.share));
            }
        }
    }

    #[test]
    fn waits_that_stand_for_others_are_as_unsure_as_their_choice() {
        let mut sketch = Sketch::new();
        let task = sketch.task(1, 1, "a");
        let times = |times: u32| Wait {
            stands_for: times * Wait::ITSELF,
            ..Wait::default()
        };
        for at in 0..100 {
            sketch.sample(task, "app:main;app:f", at, 80);
            sketch.profile.samples.set_wait(at as usize, times(8));
        }
        sketch.sample(task, "app:main;app:g", 100, 8000);
        sketch.profile.samples.set_wait(100, times(1));
        // What was not chosen says nothing.
        for at in 101..200 {
            sketch.sample(task, "app:main", at, 0);
            let wait = Wait {
                counted: Counted::ByOthers,
                ..Wait::default()
            };
            sketch.profile.samples.set_wait(at as usize, wait);
        }
        let scene = Scene::new(&sketch.profile, Selection::default());
        let options = RowsOptions::by([COMM, DSO, SYMBOL].map(SortKey::apart).to_vec());
        let rows = Rows::new(&scene, &options);
        let certainty = Certainty::new(&scene, (&rows, &options), false, true);
        // Each of 100 adds 80² (1 - 1/8); half of it is in the share of either.
        let variance = 100.0 * 80.0 * 80.0 * 7.0 / 8.0 / 4.0 / (16_000.0 * 16_000.0);
        for row in rows.list() {
            let own = certainty.of(row.key).own;
            if row.own.period > 0 {
                assert_eq!(own.share, 0.5);
                assert!((own.variance - variance).abs() < 1e-12, "{own:?}");
            }
        }
    }

    #[test]
    fn no_samples_are_unsure_and_no_nan() {
        let sketch = Sketch::new();
        let scene = Scene::new(&sketch.profile, Selection::default());
        let options = RowsOptions::by([COMM, DSO, SYMBOL].map(SortKey::apart).to_vec());
        let rows = Rows::new(&scene, &options);
        let certainty = Certainty::new(&scene, (&rows, &options), true, true);
        let interval = certainty.of_nothing().interval(0.95);
        assert_eq!((interval.low, interval.high), (0.0, 1.0));
    }
}

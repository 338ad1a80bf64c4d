//! How sure the rows of a table are: what sampling the same run again would
//! show.

use super::first_places::frames;
use super::tally::Split;
use super::trace::{Trace, TracedCell};
use super::{NodeId, RowKey, Rows, RowsOptions, Scene};
use prof_statistics::Share;
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
        let traced = scene.traced(&split, relative);
        let (trace, cells) = (&traced.trace, &traced.cells);
        let mut index = FxHashMap::default();
        let members = Members::of((scene, rows), cells, totals, &mut index);
        let count = index.len();
        let own = || trace.shares(count, |cell| members.own.get(cell as usize).copied());
        let total = || trace.shares(count, |cell| members.total_of(cell).iter().copied());
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
            none: trace.of_nothing(),
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

/// Which rows the samples of cells are in, by cell: indices of rows, `u32::MAX` for
/// none.
struct Members {
    own: Vec<u32>,
    /// Each once, cell by cell; none where these are not asked for.
    total: Vec<u32>,
    /// By cell: where its part of `total` ends.
    ends: Vec<u32>,
}

impl Members {
    fn of(
        (scene, rows): (&Scene<'_>, &Rows),
        cells: &[TracedCell],
        totals: bool,
        index: &mut FxHashMap<RowKey, u32>,
    ) -> Self {
        let mut row = |cell: &TracedCell, frame: u32| -> u32 {
            let next = index.len() as u32;
            let key = RowKey {
                group: cell.group,
                frame,
            };
            *index.entry(key).or_insert(next)
        };
        let key = |site: super::SiteId| rows.keys_of_sites().get(site.0 as usize).copied();
        // What a transform took out is in no row.
        let is_there = |cell: &TracedCell| scene.path_of(cell.stack).is_some();
        let own_frame = |cell: &TracedCell| {
            let own = scene.self_site(frames(scene, cell.stack));
            is_there(cell).then(|| own.and_then(key).unwrap_or(u32::MAX))
        };
        let own_frames: Vec<Option<u32>> = cells.par_iter().map(own_frame).collect();
        let own = cells.iter().zip(own_frames);
        let own = own.map(|(cell, frame)| frame.map_or(u32::MAX, |frame| row(cell, frame)));
        let mut members = Self {
            own: own.collect(),
            total: Vec::new(),
            ends: Vec::new(),
        };
        let mut met = Vec::new();
        for (cell, &own) in cells.iter().zip(&members.own).filter(|_| totals) {
            if own != u32::MAX {
                let around = frames(scene, cell.stack).filter_map(key);
                met.extend(around.map(|frame| row(cell, frame)));
                met.push(own);
                met.sort_unstable();
                met.dedup();
                members.total.append(&mut met);
            }
            members.ends.push(members.total.len() as u32);
        }
        members
    }

    fn total_of(&self, cell: u32) -> &[u32] {
        let end = |cell: u32| self.ends.get(cell as usize).copied();
        let begin = cell.checked_sub(1).map_or(Some(0), end);
        let range = begin.zip(end(cell));
        let own = range.and_then(|(begin, end)| self.total.get(begin as usize..end as usize));
        own.unwrap_or_default()
    }
}

/// How sure the share of each path of a scene is, by [`NodeId`]: of the samples
/// through it. Also the weight of all. Takes time in proportion to the samples
/// and the depth of their stacks.
pub(crate) fn shares_of_paths(scene: &Scene<'_>) -> (Vec<Share>, f64) {
    let trace = Trace::of_paths(scene);
    let parents = &scene.paths().parents;
    let above = |path: NodeId| parents.get(path.index()).copied();
    let shares = trace.shares(parents.len(), |path| {
        chain(Some(NodeId(path)), above).map(|path| path.0)
    });
    (shares, trace.total())
}

/// How sure the shares of `count` groups of frames are, of all that is shown.
/// `groups` has by site the number of its group, or a larger one for none.
/// Takes time in proportion to the samples and the depth of their stacks.
pub(crate) fn shares_of_groups(scene: &Scene<'_>, groups: &[u32], count: usize) -> Vec<Sure> {
    let trace = Trace::of_paths(scene);
    let (parents, sites) = (&scene.paths().parents, &scene.paths().sites);
    let group = |path: NodeId| -> Option<u32> {
        let site = sites.get(path.index())?;
        let group = groups.get(site.0 as usize).copied()?;
        ((group as usize) < count).then_some(group)
    };
    let own = || {
        let frame = |path| Some(path).filter(|path| *path != NodeId::ROOT);
        trace.shares(count, |path| frame(NodeId(path)).and_then(group))
    };
    let total = || {
        let firsts = first_of_groups(scene, group, count);
        let first = |path: NodeId| firsts.get(path.index()).copied();
        let above = |path: NodeId| first(parents.get(path.index()).copied()?);
        trace.shares(count, |path| {
            chain(first(NodeId(path)), above).filter_map(group)
        })
    };
    let (own, total) = rayon::join(own, total);
    let both = own.into_iter().zip(total);
    both.map(|(own, total)| Sure { own, total }).collect()
}

/// By path: the nearest one outwards, itself included, whose frame is of a group
/// that is not farther out, too; the root for none. So each group of a stack is
/// met once from there to there, without a list of them for each stack.
fn first_of_groups(
    scene: &Scene<'_>,
    group: impl Fn(NodeId) -> Option<u32>,
    count: usize,
) -> Vec<NodeId> {
    let tree = scene.tree();
    let mut firsts = vec![NodeId::ROOT; tree.len()];
    let mut is_around = vec![false; count];
    // Paths to enter, and the groups to leave behind what they call.
    let mut open: Vec<Result<NodeId, u32>> = vec![Ok(NodeId::ROOT)];
    while let Some(next) = open.pop() {
        let path = match next {
            Ok(path) => path,
            Err(group) => {
                if let Some(around) = is_around.get_mut(group as usize) {
                    *around = false;
                }
                continue;
            }
        };
        let own = group(path).filter(|_| path != NodeId::ROOT);
        let around = own.and_then(|group| is_around.get_mut(group as usize));
        let nearest = match (own, around) {
            (Some(group), Some(around)) if !*around => {
                *around = true;
                open.push(Err(group));
                path
            }
            _ => {
                let above = tree.parent(path).unwrap_or(NodeId::ROOT);
                firsts.get(above.index()).copied().unwrap_or(NodeId::ROOT)
            }
        };
        if let Some(slot) = firsts.get_mut(path.index()) {
            *slot = nearest;
        }
        open.extend(tree.children(path).iter().copied().map(Ok));
    }
    firsts
}

/// Paths outwards, without the root. Each has a smaller number than the one before.
fn chain(
    innermost: Option<NodeId>,
    above: impl Fn(NodeId) -> Option<NodeId>,
) -> impl Iterator<Item = NodeId> {
    let is_frame = |path: &NodeId| *path != NodeId::ROOT;
    std::iter::successors(innermost.filter(is_frame), move |&path| {
        above(path).filter(|next| is_frame(next) && *next < path)
    })
}

#[cfg(test)]
mod tests {
    use super::{Certainty, shares_of_groups};
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
    fn a_group_that_is_on_a_stack_twice_counts_once_there() {
        let mut sketch = Sketch::new();
        let task = sketch.task(1, 1, "a");
        let stacks = [
            (5, "app:main;app:f;app:g;app:f;app:f"),
            (3, "app:main;app:f"),
            (2, "app:main;app:g;app:h"),
        ];
        for (count, stack) in stacks {
            for at in 0..count {
                sketch.sample(task, stack, at, 10);
            }
        }
        let scene = Scene::new(&sketch.profile, Selection::default());
        let group = |name: &str| ["main", "f", "g"].iter().position(|it| *it == name);
        let names = scene.sites().iter().map(|site| site.name(&sketch.profile));
        let groups = names.map(|name| group(name).map_or(u32::MAX, |it| it as u32));
        let groups: Vec<u32> = groups.collect();
        let sure = shares_of_groups(&scene, &groups, 3);
        let samples = sure.iter().map(|it| (it.own.samples, it.total.samples));
        assert_eq!(samples.collect::<Vec<_>>(), [(0, 10), (8, 8), (0, 7)]);
        let shares = sure.iter().map(|it| it.total.share);
        assert_eq!(shares.collect::<Vec<_>>(), [1.0, 0.8, 0.7]);
    }

    #[test]
    fn waits_that_are_all_known_are_sure() {
        let mut sketch = Sketch::new();
        let task = sketch.task(1, 1, "a");
        for at in 0..40_u64 {
            let stack = ["app:f", "app:g"][usize::from(at == 7)];
            sketch.sample(task, stack, at, 10 + at);
        }
        let interval = |sketch: &Sketch| {
            let scene = Scene::new(&sketch.profile, Selection::default());
            let options = RowsOptions::by(vec![SYMBOL.apart()]);
            let rows = Rows::new(&scene, &options);
            let certainty = Certainty::new(&scene, (&rows, &options), false, false);
            let of_g = rows.list().last().expect("two rows");
            certainty.of(of_g.key).own.interval(0.95)
        };
        let sampled = interval(&sketch);
        assert!(sampled.high - sampled.low > 0.01, "{sampled:?}");
        sketch.profile.events[0].is_off_cpu = true;
        let known = interval(&sketch);
        let share = 17.0 / f64::from((0..40).map(|at| 10 + at).sum::<i32>());
        assert!((known.low - share).abs() < 1e-9 && (known.high - share).abs() < 1e-9);
        // What was lost may have been anything.
        sketch.profile.events[0].lost = 1;
        assert!(interval(&sketch).high > known.high);
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

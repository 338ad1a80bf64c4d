//! Tables: rows told apart by sort keys.

use super::apart::{Apart, By, FrameLook, Frames, Identity, InlineRows};
use super::{GroupId, NodeId, Part, Parts, Scene, Site, SiteId, SiteKind, Weight};
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// How a table is made.
#[derive(Debug, Clone)]
pub struct RowsOptions {
    /// The properties by which rows are told apart.
    pub aparts: Vec<Apart>,
    /// Which properties of frames are told apart.
    pub frames: FrameLook,
    /// Length of a time slice, ns, for rows told apart by time.
    pub quantum: u64,
}

impl RowsOptions {
    /// Default options, with rows told apart by these properties.
    pub fn by(aparts: Vec<Apart>) -> Self {
        Self {
            aparts,
            frames: FrameLook::default(),
            quantum: 100_000_000,
        }
    }
}

/// Identity of a row, comparable within one table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct RowKey {
    /// The number of its group in the table.
    pub group: GroupId,
    /// Its frame's number in `Rows::keys_of_sites`; `u32::MAX` for samples
    /// without a frame.
    pub frame: u32,
}

/// A row of a table.
#[derive(Debug, Clone, Copy, Default)]
pub struct Row {
    /// Its identity.
    pub key: RowKey,
    /// A frame of the row; `None` for samples without a stack.
    pub site: Option<SiteId>,
    /// Weight of samples taken in it.
    pub own: Weight,
    /// The kernel's part of `own`.
    pub own_kernel: Weight,
    /// Weight of samples with it in the stack, each counted once.
    pub total: Weight,
    /// Largest number of frames from the row's frame to the outermost one, both
    /// included.
    pub depth: u32,
    /// Frames of the longest stack among its own samples.
    pub own_depth: u32,
    /// Largest number of frames from its outermost occurrence to the innermost
    /// frame, both included.
    pub height: u32,
    /// Index of the first sample that is in it.
    pub first: u32,
}

impl Row {
    /// A row that nothing was counted for yet.
    pub(crate) fn without_weight(key: RowKey, site: Option<SiteId>, first: u32) -> Self {
        Self {
            key,
            site,
            own: Weight::ZERO,
            own_kernel: Weight::ZERO,
            total: Weight::ZERO,
            depth: 0,
            own_depth: 0,
            height: 0,
            first,
        }
    }
}

/// A table, heaviest total first; equal ones by self, then first seen.
#[derive(Debug)]
pub struct Rows {
    list: Vec<Row>,
    parts: Parts,
    keys_of_sites: Vec<u32>,
}

impl Rows {
    /// The table of a scene. Groups are counted in parallel.
    pub fn new(scene: &Scene<'_>, options: &RowsOptions) -> Self {
        let mut rows = Self::unsorted(scene, options);
        rows.list
            .sort_by_key(|row| (Reverse((row.total, row.own)), row.first, row.key));
        rows
    }

    /// The table with its rows in the order of their keys.
    pub(crate) fn unsorted(scene: &Scene<'_>, options: &RowsOptions) -> Self {
        let parts = Parts::new(scene, &options.aparts, options.quantum);
        let (keys_of_sites, count) = frame_keys(scene, options);
        let groups: Vec<(GroupId, &Part)> = parts.iter().collect();
        let lists: Vec<Vec<Row>> = groups
            .into_par_iter()
            .map_init(
                || Scratch::new(count),
                |scratch, (id, part)| RowSum::new(scene, &keys_of_sites, scratch, id, part).run(),
            )
            .collect();
        Self {
            list: lists.concat(),
            parts,
            keys_of_sites,
        }
    }

    /// The rows.
    pub fn list(&self) -> &[Row] {
        &self.list
    }

    /// What tells the row's group from the others, part by part.
    pub(crate) fn told(&self, row: &Row) -> &[Identity] {
        self.parts.told(row.key.group)
    }

    /// One part of it, if groups are told apart by that.
    pub(crate) fn told_by(&self, row: &Row, apart: Apart) -> Option<Identity> {
        self.parts.told_by(row.key.group, apart)
    }

    /// The group that is told apart by this; made, without samples, if it is
    /// not there. `first` is a sample that would be in it.
    pub(crate) fn group_id(&mut self, told: &[Identity], first: u32) -> GroupId {
        self.parts.find_or_add(told, first)
    }

    /// Adds a row at the end.
    pub(crate) fn push(&mut self, row: Row) {
        self.list.push(row);
    }

    /// The samples of a group as a tree, for callers and callees (see
    /// [`super::Growth`], with `Rows::keys_of_sites`).
    pub(crate) fn part(&self, group: GroupId) -> Option<&Part> {
        self.parts.part(group)
    }

    /// By `SiteId`: which row of a group the frame is in.
    pub(crate) fn keys_of_sites(&self) -> &[u32] {
        &self.keys_of_sites
    }

    /// Weight of the scope: also what filters hide.
    pub(crate) fn scope_total(&self) -> Weight {
        self.parts.scope_total()
    }

    /// Weight of what is shown: the sum of all self weights.
    pub fn total(&self) -> Weight {
        self.list.iter().map(|row| row.own).sum()
    }
}

/// By `SiteId`: a number for each distinct frame; and how many there are.
fn frame_keys(scene: &Scene<'_>, options: &RowsOptions) -> (Vec<u32>, usize) {
    let mut frames = Frames::new(scene.profile(), options.frames);
    let mut index: FxHashMap<Box<[Identity]>, u32> = FxHashMap::default();
    let mut count = 0_u32;
    // A called function is one site, so it needs no look-up: recordings with
    // broken stacks have hundreds of thousands.
    let mut aparts = options.aparts.iter();
    let by_function = aparts.any(|apart| matches!(apart.by, By::Function(_)))
        && options.frames.inline_rows == InlineRows::ByHost;
    let mut next = || {
        count += 1;
        count - 1
    };
    let mut told = Vec::new();
    let keys = scene
        .sites()
        .iter()
        .map(|site| {
            let is_whole = site.line.is_none() && site.address.is_none();
            if by_function && is_whole && site.kind == SiteKind::Function {
                return next();
            }
            tell(&mut frames, &options.aparts, site, &mut told);
            if let Some(&known) = index.get(told.as_slice()) {
                return known;
            }
            let new = next();
            index.insert(told.as_slice().into(), new);
            new
        })
        .collect();
    (keys, count as usize)
}

/// What tells a frame from others.
fn tell(frames: &mut Frames<'_>, aparts: &[Apart], site: &Site, told: &mut Vec<Identity>) {
    told.clear();
    told.extend(aparts.iter().filter_map(|apart| match apart.by {
        By::Frame(of) | By::Function(of) => Some(of(frames, site)),
        _ => None,
    }));
}

/// By frame key, reused from group to group: a table as large as all keys
/// would be cleared for each otherwise.
struct Scratch {
    /// Calls of the key that the walk is inside of.
    open_calls: Vec<u32>,
    /// Index of the key's row, `u32::MAX` for none.
    row: Vec<u32>,
}

impl Scratch {
    fn new(keys: usize) -> Self {
        Self {
            open_calls: vec![0; keys],
            row: vec![u32::MAX; keys],
        }
    }
}

/// A step of the walk over a tree.
enum Step {
    Enter(NodeId),
    Leave(u32),
}

/// Sums one group's tree into rows.
struct RowSum<'a> {
    scene: &'a Scene<'a>,
    keys: &'a [u32],
    scratch: &'a mut Scratch,
    id: GroupId,
    part: &'a Part,
    depths: Vec<u32>,
    heights: Vec<u32>,
    list: Vec<Row>,
    /// The row of samples without a frame.
    frameless: Option<usize>,
}

impl<'a> RowSum<'a> {
    fn new(
        scene: &'a Scene<'a>,
        keys: &'a [u32],
        scratch: &'a mut Scratch,
        id: GroupId,
        part: &'a Part,
    ) -> Self {
        Self {
            scene,
            keys,
            scratch,
            id,
            part,
            depths: part.depths(),
            heights: part.heights(),
            list: Vec::new(),
            frameless: None,
        }
    }

    fn run(mut self) -> Vec<Row> {
        let part = self.part;
        let mut steps = vec![Step::Enter(NodeId::ROOT)];
        while let Some(step) = steps.pop() {
            match step {
                Step::Leave(key) => {
                    if let Some(calls) = self.scratch.open_calls.get_mut(key as usize) {
                        *calls -= 1;
                    }
                }
                Step::Enter(node) => {
                    if let Some((key, site)) = self.frame(part.tree.site(node)) {
                        self.enter(node, key, site);
                        steps.push(Step::Leave(key));
                    }
                    if !part.tree.own(node).is_zero() {
                        self.add_own(node);
                    }
                    steps.extend(part.tree.children(node).iter().map(|&at| Step::Enter(at)));
                }
            }
        }
        for row in &self.list {
            if let Some(slot) = self.scratch.row.get_mut(row.key.frame as usize) {
                *slot = u32::MAX;
            }
        }
        self.list
    }

    fn frame(&self, site: Option<SiteId>) -> Option<(u32, SiteId)> {
        let site = site?;
        Some((self.keys.get(site.0 as usize).copied()?, site))
    }

    /// Counts what passes a node, unless the walk is inside a call of the
    /// same row already.
    fn enter(&mut self, node: NodeId, key: u32, site: SiteId) {
        let first = self.part.first(node);
        let total = self.part.tree.total(node);
        let depth = self.depths.get(node.index()).copied().unwrap_or(0);
        let height = self.heights.get(node.index()).copied().unwrap_or(0);
        let outermost = self.scratch.open_calls.get(key as usize) == Some(&0);
        if let Some(calls) = self.scratch.open_calls.get_mut(key as usize) {
            *calls += 1;
        }
        let row = self.row(key, Some(site), first);
        row.depth = row.depth.max(depth);
        if outermost {
            row.total += total;
            row.height = row.height.max(height);
        }
    }

    fn add_own(&mut self, node: NodeId) {
        let own = self.part.tree.own(node);
        let sites = self.scene.sites();
        let at = self.scene.self_site_at(&self.part.tree, node);
        let (key, site) = self.frame(at).unzip();
        let open_calls = key.and_then(|key| self.scratch.open_calls.get(key as usize));
        let is_called = open_calls.is_some_and(|&calls| calls > 0);
        let in_kernel = site.is_some_and(|site| sites.get(site).is_kernel(self.scene.profile()));
        let first = self.part.first(node);
        let depth = self.depths.get(node.index()).copied().unwrap_or(0);
        let row = self.row(key.unwrap_or(u32::MAX), site, first);
        row.own += own;
        row.own_depth = row.own_depth.max(depth);
        if in_kernel {
            row.own_kernel += own;
        }
        // Nothing, or a function at the line of code that is inlined into it.
        if !is_called {
            row.total += own;
        }
    }

    fn row(&mut self, frame: u32, site: Option<SiteId>, first: u32) -> &mut Row {
        let known = match self.scratch.row.get(frame as usize) {
            Some(&index) => Some(index as usize).filter(|_| index != u32::MAX),
            None => self.frameless,
        };
        let index = known.unwrap_or_else(|| self.add_row(frame, site, first));
        let row = self.list.get_mut(index).expect("just found or made");
        row.first = row.first.min(first);
        row
    }

    fn add_row(&mut self, frame: u32, site: Option<SiteId>, first: u32) -> usize {
        let index = self.list.len();
        match self.scratch.row.get_mut(frame as usize) {
            Some(slot) => *slot = index as u32,
            None => self.frameless = Some(index),
        }
        let key = RowKey {
            group: self.id,
            frame,
        };
        self.list.push(Row::without_weight(key, site, first));
        index
    }
}

#[cfg(test)]
mod tests {
    use super::{InlineRows, Row, Rows, RowsOptions};
    use crate::keys::{COMM, DSO, SYMBOL, SortKey};
    use crate::model::{FrameLook, Scene, Selection};
    use prof_sketch::Sketch;

    /// A scene of all samples, and its table by these keys.
    fn table<'p>(sketch: &'p Sketch, keys: &[SortKey], look: FrameLook) -> (Scene<'p>, Rows) {
        let scene = Scene::new(&sketch.profile, Selection::default());
        let options = RowsOptions {
            frames: look,
            ..RowsOptions::by(keys.iter().map(|key| key.apart()).collect())
        };
        let rows = Rows::new(&scene, &options);
        (scene, rows)
    }

    fn name<'p>(scene: &Scene<'p>, row: &Row) -> &'p str {
        let site = row.site.map(|site| scene.sites().get(site));
        site.map_or("none", |site| site.name(scene.profile()))
    }

    /// Of each row what `of` takes, in the table's order.
    fn each<T>(scene: &Scene<'_>, rows: &Rows, of: impl Fn(&Row) -> T) -> Vec<(String, T)> {
        let rows = rows.list().iter();
        rows.map(|row| (name(scene, row).to_owned(), of(row)))
            .collect()
    }

    fn named<T: Copy>(expected: &[(&str, T)]) -> Vec<(String, T)> {
        let owned = |&(name, value): &(&str, T)| (name.to_owned(), value);
        expected.iter().map(owned).collect()
    }

    #[test]
    fn rows_are_ordered_by_total_then_self_then_who_came_first() {
        let mut sketch = Sketch::new();
        let task = sketch.task(1, 1, "app");
        sketch.sample(task, "late", 1, 5);
        sketch.sample(task, "early", 2, 5);
        sketch.sample(task, "main;f", 3, 7);
        let (scene, rows) = table(&sketch, &[SYMBOL], FrameLook::default());
        let found = each(&scene, &rows, |row| (row.total.period, row.own.period));
        let expected = [
            ("f", (7, 7)),
            ("main", (7, 0)),
            ("late", (5, 5)),
            ("early", (5, 5)),
        ];
        assert_eq!(found, named(&expected));
        assert_eq!(rows.total().period, 17);
    }

    #[test]
    fn depth_counts_outwards_and_height_inwards_from_the_outermost_call() {
        let mut sketch = Sketch::new();
        let task = sketch.task(1, 1, "app");
        sketch.sample(task, "main;f;g;f", 1, 10);
        sketch.sample(task, "main;f", 2, 1);
        let (scene, rows) = table(&sketch, &[SYMBOL], FrameLook::default());
        let found = each(&scene, &rows, |row| (row.depth, row.own_depth, row.height));
        let expected = [("f", (4, 4, 3)), ("main", (1, 0, 4)), ("g", (3, 0, 2))];
        assert_eq!(found, named(&expected));
    }

    #[test]
    fn groups_are_counted_apart_though_they_share_their_frames() {
        let mut sketch = Sketch::new();
        let [one, other] = [sketch.task(1, 1, "one"), sketch.task(2, 2, "other")];
        sketch.sample(one, "main;f;f", 1, 10);
        sketch.sample(other, "f;main", 2, 3);
        sketch.sample(one, "main", 3, 1);
        let (scene, rows) = table(&sketch, &[COMM, SYMBOL], FrameLook::default());
        let found = each(&scene, &rows, |row| {
            (row.key.group.0, row.total.period, row.own.period)
        });
        let expected = [
            ("main", (0, 11, 1)),
            ("f", (0, 10, 10)),
            ("main", (1, 3, 3)),
            ("f", (1, 3, 0)),
        ];
        assert_eq!(found, named(&expected));
    }

    #[test]
    fn samples_without_a_stack_have_one_row_without_a_frame() {
        let mut sketch = Sketch::new();
        let task = sketch.task(1, 1, "app");
        sketch.sample(task, "", 1, 4);
        sketch.sample(task, "main", 2, 5);
        sketch.sample(task, "", 3, 2);
        let (scene, rows) = table(&sketch, &[DSO, SYMBOL], FrameLook::default());
        let found = each(&scene, &rows, |row| {
            (row.own.period, row.total.period, row.first)
        });
        assert_eq!(found, named(&[("none", (6, 6, 0)), ("main", (5, 5, 1))]));
        assert_eq!(rows.list()[0].key.frame, u32::MAX);
    }

    #[test]
    fn the_kernels_part_of_a_row_is_of_samples_taken_in_kernel_code() {
        let mut sketch = Sketch::new();
        let task = sketch.task(1, 1, "app");
        sketch.sample(task, "main;[kernel.kallsyms]:read", 1, 8);
        sketch.sample(task, "main", 2, 1);
        let (scene, rows) = table(&sketch, &[COMM], FrameLook::default());
        let found = each(&scene, &rows, |row| {
            (row.own.period, row.own_kernel.period, row.total.period)
        });
        let all: Vec<_> = found.into_iter().map(|(_, weights)| weights).collect();
        assert_eq!(all, [(9, 8, 9)]);
    }

    #[test]
    fn an_inlined_function_is_one_row_or_one_for_each_host() {
        let mut sketch = Sketch::new();
        let task = sketch.task(1, 1, "app");
        sketch.sample(task, "f>small", 1, 4);
        sketch.sample(task, "g>small", 2, 2);
        sketch.sample(task, "small", 3, 1);
        let of_small = |inline_rows| {
            let look = FrameLook {
                inline_rows,
                ..FrameLook::default()
            };
            let (scene, rows) = table(&sketch, &[SYMBOL], look);
            let found = each(&scene, &rows, |row| row.own.period);
            let small = found.into_iter().filter(|(name, _)| name == "small");
            small.map(|(_, own)| own).collect::<Vec<_>>()
        };
        assert_eq!(of_small(InlineRows::Merged), [7]);
        assert_eq!(of_small(InlineRows::ByHost), [4, 2, 1]);
    }
}

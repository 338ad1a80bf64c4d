//! The call chains of a row, merged into a tree and cut at a threshold.

mod walk;

pub(super) use walk::Walk;

use super::branch_notes::BranchesHere;
use super::{CallGraph, ChainKey, ChainOrder, ChainStyle};
use crate::model::{CallTree, GroupId, NodeId, Row, Rows, Scene, SiteId, SiteKind, Weight};
use prof_profile::BranchFrame;
use rayon::prelude::*;
use rustc_hash::FxHashMap;

/// How deep branches are followed. Drawn deeper, a line would begin beyond
/// column 2800; and a recording must not choose how much stack we need.
const DEEPEST_BRANCH: usize = 256;

/// A run of frames without a branch, and what branches off at its end.
#[derive(Debug)]
pub(crate) struct Chain {
    /// The frames in drawing order; never empty.
    pub(crate) run: Vec<SiteId>,
    /// What branches tell of each of them; empty where there are no branches
    /// in chains.
    pub(crate) branches_in_run: Vec<BranchesHere>,
    /// Weight of the chains that end with the run.
    pub(crate) own: Weight,
    /// With those that go on, also below the threshold.
    pub(crate) total: Weight,
    /// The heavy enough branches, heaviest first.
    pub(crate) branches: Vec<Chain>,
}

/// By `SiteId`: which frames are one in a chain.
pub(crate) fn chain_keys(scene: &Scene<'_>, key: ChainKey) -> Vec<u32> {
    let profile = scene.profile();
    let mut index = FxHashMap::default();
    scene
        .sites()
        .iter()
        .map(|site| {
            let next = index.len() as u32;
            // Inlined functions have no start of their own, so they are told
            // apart by name.
            let function = match site.kind {
                SiteKind::Inline => (1, site.function(profile).name.0),
                SiteKind::Function => (0, site.function.0),
                SiteKind::Dso => (2, site.dso.0),
            };
            let place = match key {
                ChainKey::Function => (None, None),
                ChainKey::Address => (None, site.address),
                ChainKey::Srcline => (site.line, None),
            };
            let place = match (key, site.line) {
                (ChainKey::Srcline, None) => (None, site.address),
                _ => place,
            };
            *index.entry((function, place)).or_insert(next)
        })
        .collect()
}

/// Part of the samples that pass a node of the call tree.
#[derive(Debug, Clone, Copy)]
pub(super) enum Flow {
    /// Towards the callees: those not taken in the row's own frame. What
    /// their branches tell is noted or not.
    Others(NodeId, bool),
    /// Towards the callees: those taken in the row's own frame.
    Selves(NodeId),
    /// Towards the callers, with this weight; noted or not.
    Outwards(NodeId, Weight, bool),
}

impl Flow {
    fn node(self) -> NodeId {
        match self {
            Self::Others(node, _) | Self::Selves(node) | Self::Outwards(node, ..) => node,
        }
    }
}

/// The chains of one row.
#[derive(Debug, Default)]
pub(crate) struct RowChains {
    /// Heaviest first.
    pub(crate) chains: Vec<Chain>,
    /// Whether they end before their end, since `most` frames were made.
    pub(crate) is_cut: bool,
    /// Frames that were made.
    pub(crate) frames: usize,
}

/// Makes the chains of rows of one scene.
pub(crate) struct Chains<'a> {
    scene: &'a Scene<'a>,
    graph: CallGraph,
    order: ChainOrder,
    children: bool,
    /// See [`chain_keys`].
    keys: Vec<u32>,
    row_keys: &'a [u32],
    /// Weight of 100 %.
    whole: u64,
    rows: &'a Rows,
    /// Whether chains have branches in them.
    has_branches: bool,
    /// See [`ChainPlan::by_line`].
    by_line: bool,
    /// Where the frames are of rows that are heavy enough to have chains.
    places: FxHashMap<GroupId, FxHashMap<u32, Places>>,
}

/// Which chains are made of a scene.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ChainPlan {
    pub(crate) graph: CallGraph,
    pub(crate) order: ChainOrder,
    pub(crate) children: bool,
    /// 100 %.
    pub(crate) whole: Weight,
    /// Whether rows are told apart by source line. Then perf has a chain for
    /// each address of the line, and forgets what branches tell in all of
    /// them but that of the first address.
    pub(crate) by_line: bool,
}

impl<'a> Chains<'a> {
    /// What is needed to make the chains of those rows of `list` that are
    /// heavy enough to have any.
    pub(crate) fn new(
        scene: &'a Scene<'a>,
        plan: ChainPlan,
        rows: &'a Rows,
        list: &[&Row],
    ) -> Self {
        let mut chains = Self {
            scene,
            graph: plan.graph,
            order: plan.order,
            children: plan.children,
            keys: chain_keys(scene, plan.graph.key),
            row_keys: rows.keys_of_sites(),
            whole: plan.whole.period,
            rows,
            has_branches: !scene.profile().branch_frames.is_empty(),
            by_line: plan.by_line,
            places: FxHashMap::default(),
        };
        let mut wanted: FxHashMap<GroupId, FxHashMap<u32, Places>> = FxHashMap::default();
        for row in list.iter().filter(|row| chains.least(row).is_some()) {
            let frames = wanted.entry(row.key.group).or_default();
            frames.entry(row.key.frame).or_default();
        }
        wanted.par_iter_mut().for_each(|(group, frames)| {
            if let Some(part) = rows.part(*group) {
                chains.find_places(&part.tree, frames);
            }
        });
        chains.places = wanted;
        chains
    }

    /// The least weight of a branch of a row, `None` if the row is too light
    /// to have any.
    fn least(&self, row: &Row) -> Option<u64> {
        let weight = if self.children { row.total } else { row.own };
        let share = self.graph.threshold / 100.0;
        match self.graph.style {
            ChainStyle::None => None,
            ChainStyle::Fractal => Some((weight.period as f64 * share) as u64),
            ChainStyle::Graph | ChainStyle::Flat | ChainStyle::Folded => {
                let least = (self.whole as f64 * share) as u64;
                (weight.period >= least).then_some(least)
            }
        }
    }

    /// Whether the row is heavy enough to have chains.
    pub(crate) fn has(&self, row: &Row) -> bool {
        self.least(row).is_some()
    }

    /// The chains of a row, of at most so many frames; none of a row too
    /// light to have any.
    pub(crate) fn of_row(&self, row: &Row, most: usize) -> Option<RowChains> {
        let least = self.least(row)?;
        let (tree, places) = self.tree_and_places(row)?;
        Some(self.of(tree, places, row, (least, most)))
    }

    /// The tree of a row's group, and where the row is in it.
    pub(super) fn tree_and_places(&self, row: &Row) -> Option<(&CallTree, &Places)> {
        let places = self.places.get(&row.key.group)?.get(&row.key.frame)?;
        let part = self.rows.part(row.key.group)?;
        Some((&part.tree, places))
    }

    pub(super) fn scene(&self) -> &Scene<'_> {
        self.scene
    }

    /// Whether a node is where a sample was taken, beside its chain.
    fn is_beside(&self, tree: &CallTree, node: NodeId) -> bool {
        self.has_branches
            && tree.site(node).and_then(|site| self.branch_of(site)) == Some(BranchFrame::Sampled)
    }

    /// About how many frames the chains of rows have: those of the call tree
    /// that they are made of. In time linear in the tree.
    pub(crate) fn frames_of<'r>(&self, rows: impl Iterator<Item = &'r Row>) -> u64 {
        let mut sizes: FxHashMap<GroupId, Vec<u32>> = FxHashMap::default();
        let frames = rows.filter_map(|row| {
            let places = self.places.get(&row.key.group)?.get(&row.key.frame)?;
            let part = self.rows.part(row.key.group)?;
            let sizes = sizes
                .entry(row.key.group)
                .or_insert_with(|| frames_by_node(&part.tree, self.order));
            let nodes = match self.order {
                ChainOrder::Caller => &places.outermost,
                ChainOrder::Callee => &places.calls,
            };
            let size = |node: &NodeId| sizes.get(node.index()).copied().unwrap_or(0);
            Some(nodes.iter().map(size).map(u64::from).sum::<u64>())
        });
        frames.fold(0, u64::saturating_add)
    }

    fn row_frame(&self, tree: &CallTree, node: NodeId) -> Option<u32> {
        self.row_of(tree.site(node)?)
    }

    fn row_of(&self, site: SiteId) -> Option<u32> {
        self.row_keys.get(site.0 as usize).copied()
    }

    /// The row that the samples taken exactly at `node` are the own ones of.
    fn self_frame(&self, tree: &CallTree, node: NodeId) -> Option<u32> {
        self.row_of(self.scene.self_site_at(tree, node)?)
    }

    /// Fills in where the frames of `places` are, in time linear in the tree.
    fn find_places(&self, tree: &CallTree, places: &mut FxHashMap<u32, Places>) {
        let nested = self.nested(tree, places);
        for index in 1..tree.len() {
            let node = NodeId(index as u32);
            if !tree.own(node).is_zero()
                && let Some(frame) = self.self_frame(tree, node)
                && let Some(places) = places.get_mut(&frame)
            {
                places.leaves.push(node);
            }
            if let Some(frame) = self.row_frame(tree, node)
                && let Some(places) = places.get_mut(&frame)
            {
                places.calls.push(node);
                if nested.get(index) != Some(&true) {
                    places.outermost.push(node);
                }
            }
        }
    }

    /// By node: whether it is inside another call of its frame, where `places`
    /// has the frame.
    fn nested(&self, tree: &CallTree, places: &FxHashMap<u32, Places>) -> Vec<bool> {
        enum Step {
            Enter(NodeId),
            Leave(u32),
        }
        let mut nested = vec![false; tree.len()];
        let mut open_calls: FxHashMap<u32, u32> = FxHashMap::default();
        let mut steps = vec![Step::Enter(NodeId::ROOT)];
        while let Some(step) = steps.pop() {
            match step {
                Step::Leave(frame) => {
                    if let Some(calls) = open_calls.get_mut(&frame) {
                        *calls -= 1;
                    }
                }
                Step::Enter(node) => {
                    let frame = self.row_frame(tree, node);
                    if let Some(frame) = frame.filter(|frame| places.contains_key(frame)) {
                        let calls = open_calls.entry(frame).or_default();
                        if let Some(slot) = nested.get_mut(node.index()) {
                            *slot = *calls > 0;
                        }
                        *calls += 1;
                        steps.push(Step::Leave(frame));
                    }
                    steps.extend(tree.children(node).iter().map(|&at| Step::Enter(at)));
                }
            }
        }
        nested
    }

    /// The chains of a row; branches lighter than `least` are left out.
    fn of(
        &self,
        tree: &CallTree,
        places: &Places,
        row: &Row,
        (least, most): (u64, usize),
    ) -> RowChains {
        let walk = Walk::new(self, tree, places, row);
        walk.left.set(most);
        let starts = walk.starts();
        let chains = match self.graph.style {
            ChainStyle::Flat | ChainStyle::Folded => walk.flat(starts, least),
            _ => walk.branches(&starts, least, 0),
        };
        RowChains {
            chains,
            is_cut: walk.left.get() == 0,
            frames: most - walk.left.get(),
        }
    }
}

/// By node: the frames of the chains that begin there; in and below it, or
/// from it to the thread's start.
fn frames_by_node(tree: &CallTree, order: ChainOrder) -> Vec<u32> {
    let mut frames = vec![1_u32; tree.len()];
    let parent = |index: usize| tree.parent(NodeId(index as u32)).map(NodeId::index);
    // A node's parent has a smaller id.
    match order {
        ChainOrder::Caller => {
            for index in (1..frames.len()).rev() {
                let below = frames.get(index).copied().unwrap_or(0);
                if let Some(above) = parent(index).and_then(|at| frames.get_mut(at)) {
                    *above = above.saturating_add(below);
                }
            }
        }
        ChainOrder::Callee => {
            for index in 1..frames.len() {
                let outer = parent(index).filter(|&at| at > 0);
                let above = outer.and_then(|at| frames.get(at)).copied().unwrap_or(0);
                if let Some(here) = frames.get_mut(index) {
                    *here = above.saturating_add(1);
                }
            }
        }
    }
    frames
}

/// Where the frames of a row are in its group's tree, by ascending id.
#[derive(Debug, Default)]
pub(crate) struct Places {
    /// Calls not inside another one.
    outermost: Vec<NodeId>,
    /// All calls.
    calls: Vec<NodeId>,
    /// Nodes whose own samples are the row's own.
    pub(super) leaves: Vec<NodeId>,
}

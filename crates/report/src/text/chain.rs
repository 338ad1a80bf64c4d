//! The call chains of a row, merged into a tree and cut at a threshold.

use super::branches::BranchesHere;
use super::{CallGraph, ChainKey, ChainOrder, ChainStyle};
use crate::model::{CallTree, GroupId, NodeId, Row, Rows, Scene, SiteId, SiteKind, Weight};
use prof_profile::{BranchFrame, Svma};
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::cell::Cell;
use std::cmp::Reverse;

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
    /// them but that of the last address.
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
        let self_of = self.scene.selection().self_of;
        self.row_of(tree.self_site(self.scene.sites(), node, self_of)?)
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

/// A walk over the call tree from the places of one row.
pub(super) struct Walk<'a> {
    chains: &'a Chains<'a>,
    pub(super) tree: &'a CallTree,
    pub(super) places: &'a Places,
    frame: u32,
    /// Frames that may still be made.
    left: Cell<usize>,
    /// For callees: weight of the row's own samples in and under a node.
    selves: FxHashMap<NodeId, Weight>,
    /// Of them, those whose branches are noted.
    noted_selves: FxHashMap<NodeId, u64>,
    /// The one address that branches are noted of.
    noted_at: Option<Svma>,
}

/// Frames that are one, and all that flows through them.
struct Bundle {
    site: SiteId,
    own: Weight,
    total: Weight,
    flows: Vec<Flow>,
    branches: BranchesHere,
}

impl<'a> Walk<'a> {
    pub(super) fn new(
        chains: &'a Chains<'a>,
        tree: &'a CallTree,
        places: &'a Places,
        row: &Row,
    ) -> Self {
        Self {
            chains,
            tree,
            places,
            frame: row.key.frame,
            left: Cell::new(usize::MAX),
            selves: FxHashMap::default(),
            noted_selves: FxHashMap::default(),
            noted_at: None,
        }
        .with_noted()
        .with_selves()
    }

    fn with_noted(mut self) -> Self {
        if self.chains.by_line && self.chains.has_branches {
            let calls = self.places.calls.iter().filter(|_| self.chains.children);
            let places = self.places.leaves.iter().chain(calls);
            self.noted_at = places.filter_map(|&node| self.address(node)).max();
        }
        self
    }

    fn address(&self, node: NodeId) -> Option<Svma> {
        let site = self.tree.site(node)?;
        self.chains.scene.sites().get(site).address
    }

    /// Whether what branches tell is noted of chains with this frame of the
    /// row.
    pub(super) fn is_noted(&self, node: NodeId) -> bool {
        self.noted_at.is_none() || self.noted_at == self.address(node)
    }

    /// Samples of a flow whose branches are noted.
    pub(super) fn noted(&self, flow: Flow) -> u64 {
        match flow {
            Flow::Outwards(_, weight, true) => weight.samples,
            Flow::Others(_, true) => self.weigh(flow).0.samples,
            Flow::Selves(node) => self.noted_selves.get(&node).copied().unwrap_or(0),
            Flow::Outwards(..) | Flow::Others(..) => 0,
        }
    }

    /// Whether chains are drawn from the callers.
    pub(super) fn is_inwards(&self) -> bool {
        self.chains.order == ChainOrder::Caller
    }

    /// Counts frames that are made; whether there may be more after them.
    fn may_go_on(&self, frames: usize) -> bool {
        self.left.set(self.left.get().saturating_sub(frames));
        self.left.get() > 0
    }

    fn is_self(&self, node: NodeId) -> bool {
        self.chains.self_frame(self.tree, node) == Some(self.frame)
    }

    fn with_selves(mut self) -> Self {
        if self.chains.order == ChainOrder::Callee {
            return self;
        }
        for &node in &self.places.leaves {
            let own = self.tree.own(node);
            for at in self.tree.outwards(node) {
                *self.selves.entry(at).or_default() += own;
            }
            if self.chains.has_branches && self.is_noted(node) {
                for at in self.tree.outwards(node) {
                    *self.noted_selves.entry(at).or_default() += own.samples;
                }
            }
        }
        self
    }

    /// Where the row's chains begin.
    pub(super) fn starts(&self) -> Vec<Flow> {
        match self.chains.order {
            ChainOrder::Caller => self.starts_inwards(),
            ChainOrder::Callee => self.starts_outwards(),
        }
    }

    /// Callers first: the row's own samples begin at the thread's start, the
    /// others at the outermost call of the row's frame.
    fn starts_inwards(&self) -> Vec<Flow> {
        let own = self
            .tree
            .children(NodeId::ROOT)
            .iter()
            .filter(|node| self.selves.contains_key(node))
            .filter(|&&node| !self.is_beside(node))
            .map(|&node| Flow::Selves(node));
        let called = self
            .places
            .outermost
            .iter()
            .filter(|&&node| self.chains.children && !self.is_beside(node));
        let called = called.map(|&node| Flow::Others(node, self.is_noted(node)));
        own.chain(called).collect()
    }

    /// Callees first: the row's own samples begin at their leaf, the others
    /// at the innermost call of the row's frame.
    fn starts_outwards(&self) -> Vec<Flow> {
        // By call: what passes it but began further in.
        let mut counted: FxHashMap<NodeId, Weight> = FxHashMap::default();
        let mut starts = Vec::new();
        for &node in &self.places.leaves {
            let own = self.tree.own(node);
            let is_noted = self.is_noted(node);
            let from = match self.is_beside(node) {
                true => self.tree.parent(node).filter(|&at| at != NodeId::ROOT),
                false => Some(node),
            };
            starts.extend(from.map(|from| Flow::Outwards(from, own, is_noted)));
            if let Some(call) = self.call_around(node) {
                *counted.entry(call).or_default() += own;
            }
        }
        if !self.chains.children {
            return starts;
        }
        for &node in self.places.calls.iter().rev() {
            let total = self.tree.total(node);
            let rest = total.without(counted.remove(&node).unwrap_or_default());
            if !rest.is_zero() {
                starts.push(Flow::Outwards(node, rest, self.is_noted(node)));
            }
            // Most calls are in no other one, which needs no walk to the root.
            let is_outermost = self.places.outermost.binary_search(&node).is_ok();
            let parent = self.tree.parent(node).filter(|_| !is_outermost);
            if let Some(outer) = parent.and_then(|at| self.call_around(at)) {
                *counted.entry(outer).or_default() += total;
            }
        }
        starts
    }

    /// The innermost call of the row's frame at `node` or around it.
    fn call_around(&self, node: NodeId) -> Option<NodeId> {
        self.tree
            .outwards(node)
            .find(|&at| self.chains.row_frame(self.tree, at) == Some(self.frame))
    }

    /// What flows through, and what of it ends here.
    fn weigh(&self, flow: Flow) -> (Weight, Weight) {
        let selves = |node| self.selves.get(&node).copied().unwrap_or_default();
        match flow {
            Flow::Outwards(node, weight, _) => {
                let ends = self.tree.parent(node) == Some(NodeId::ROOT);
                (weight, if ends { weight } else { Weight::ZERO })
            }
            Flow::Selves(node) => (selves(node), self.own(node, true)),
            Flow::Others(node, _) => {
                let total = self.tree.total(node).without(selves(node));
                (total, self.own(node, false))
            }
        }
    }

    /// What ends at a node, of the row's own samples or of the others: those
    /// taken there, or beside a chain that ends there.
    fn own(&self, node: NodeId, of_row: bool) -> Weight {
        let taken_at = |node| match self.is_self(node) == of_row {
            true => self.tree.own(node),
            false => Weight::ZERO,
        };
        if !self.chains.has_branches {
            return taken_at(node);
        }
        let beside = self.tree.children(node).iter();
        let beside = beside.filter(|&&at| self.is_beside(at));
        beside.map(|&at| taken_at(at)).sum()
    }

    fn is_beside(&self, node: NodeId) -> bool {
        self.chains.is_beside(self.tree, node)
    }

    /// Where a flow goes on to.
    fn next(&self, flow: Flow, out: &mut Vec<Flow>) {
        match flow {
            Flow::Outwards(node, weight, is_noted) => {
                let parent = self.tree.parent(node).filter(|&at| at != NodeId::ROOT);
                out.extend(parent.map(|at| Flow::Outwards(at, weight, is_noted)));
            }
            Flow::Selves(node) => {
                let inner = self.tree.children(node).iter();
                let inner = inner.filter(|&&at| !self.is_beside(at));
                out.extend(
                    inner
                        .filter(|at| self.selves.contains_key(at))
                        .map(|&at| Flow::Selves(at)),
                );
            }
            Flow::Others(node, is_noted) => {
                let inner = self.tree.children(node).iter();
                let inner = inner.filter(|&&at| !self.is_beside(at));
                out.extend(inner.map(|&at| Flow::Others(at, is_noted)));
            }
        }
    }

    /// One flow as a bundle, if anything flows.
    fn bundle(&self, flow: Flow) -> Option<Bundle> {
        let (total, own) = self.weigh(flow);
        let mut branches = BranchesHere::default();
        self.note(flow, &mut branches);
        Some(Bundle {
            branches,
            site: self.tree.site(flow.node())?,
            own,
            total,
            flows: vec![flow],
        })
        .filter(|_| !total.is_zero())
    }

    /// Flows by frame, in the order of the first one.
    fn bundles(&self, flows: &[Flow]) -> Vec<Bundle> {
        // Most chains are one flow for most of their way.
        if let [flow] = flows {
            return self.bundle(*flow).into_iter().collect();
        }
        let mut bundles: Vec<Bundle> = Vec::new();
        let mut index: FxHashMap<u32, usize> = FxHashMap::default();
        for &flow in flows {
            let Some(site) = self.tree.site(flow.node()) else {
                continue;
            };
            let (total, own) = self.weigh(flow);
            if total.is_zero() {
                continue;
            }
            let key = self.chains.keys.get(site.0 as usize).copied().unwrap_or(0);
            let at = *index.entry(key).or_insert_with(|| {
                bundles.push(Bundle {
                    site,
                    own: Weight::ZERO,
                    total: Weight::ZERO,
                    flows: Vec::new(),
                    branches: BranchesHere::default(),
                });
                bundles.len() - 1
            });
            if let Some(bundle) = bundles.get_mut(at) {
                bundle.own += own;
                bundle.total += total;
                bundle.flows.push(flow);
                self.note(flow, &mut bundle.branches);
            }
        }
        bundles
    }

    /// Adds what the branches of a flow tell at its frame.
    fn note(&self, flow: Flow, branches: &mut BranchesHere) {
        if !self.chains.has_branches {
            return;
        }
        let site = self.tree.site(flow.node());
        if let Some(frame) = site.and_then(|site| self.chains.branch_of(site)) {
            branches.add(frame, self.noted(flow));
        }
    }

    fn step(&self, flows: &[Flow]) -> Vec<Flow> {
        let mut next = Vec::new();
        for &flow in flows {
            self.next(flow, &mut next);
        }
        next
    }

    /// The chains that begin with `flows`, without those lighter than
    /// `least`.
    fn branches(&self, flows: &[Flow], least: u64, depth: usize) -> Vec<Chain> {
        if depth > DEEPEST_BRANCH {
            return Vec::new();
        }
        let bundles = self.bundles(flows);
        let least = match self.chains.graph.style {
            ChainStyle::Fractal => {
                let here: Weight = bundles.iter().map(|bundle| bundle.total).sum();
                (here.period as f64 * (self.chains.graph.threshold / 100.0)).ceil() as u64
            }
            _ => least,
        };
        let mut chains: Vec<Chain> = bundles
            .into_iter()
            .filter(|bundle| bundle.total.period >= least)
            .map_while(|bundle| {
                let is_left = self.left.get() > 0;
                is_left.then(|| self.chain(bundle, least, depth))
            })
            .collect();
        self.sort(&mut chains);
        chains
    }

    /// The run that begins with a bundle.
    fn chain(&self, bundle: Bundle, least: u64, depth: usize) -> Chain {
        let mut run = vec![bundle.site];
        let mut branches_in_run = self.kept(bundle.branches).collect::<Vec<_>>();
        let (mut own, total, mut flows) = (bundle.own, bundle.total, bundle.flows);
        // A frame that every chain goes on to from here joins the run.
        while own.is_zero() && self.may_go_on(1) {
            flows = self.step(&flows);
            let mut next = self.bundles(&flows);
            if next.len() != 1 {
                return Chain {
                    run,
                    branches_in_run,
                    own,
                    total,
                    branches: self.branches(&flows, least, depth + 1),
                };
            }
            if let Some(only) = next.pop() {
                run.push(only.site);
                branches_in_run.extend(self.kept(only.branches));
                own = only.own;
                flows = only.flows;
            }
        }
        let flows = self.step(&flows);
        let branches = if self.may_go_on(1) {
            self.branches(&flows, least, depth + 1)
        } else {
            Vec::new()
        };
        Chain {
            run,
            branches_in_run,
            own,
            total,
            branches,
        }
    }

    /// What branches tell, where chains have some.
    fn kept(&self, branches: BranchesHere) -> impl Iterator<Item = BranchesHere> + use<> {
        self.chains.has_branches.then_some(branches).into_iter()
    }

    /// Heaviest first; equal ones by dso and address, the last first where
    /// chains are of addresses.
    fn sort(&self, chains: &mut [Chain]) {
        let place = |chain: &Chain| {
            let site = chain
                .run
                .first()
                .map(|&site| self.chains.scene.sites().get(site));
            site.map(|site| {
                let profile = self.chains.scene.profile();
                (
                    site.dso,
                    site.address.unwrap_or(site.function(profile).start),
                )
            })
        };
        match self.chains.graph.key {
            ChainKey::Address => {
                chains.sort_by_key(|chain| Reverse((chain.total.period, place(chain))));
            }
            ChainKey::Function | ChainKey::Srcline => {
                chains.sort_by_key(|chain| (Reverse(chain.total.period), place(chain)));
            }
        }
    }

    /// Every chain that ends somewhere and is heavy enough, as one run,
    /// heaviest first.
    fn flat(&self, starts: Vec<Flow>, least: u64) -> Vec<Chain> {
        let heavy = |flows: &[Flow], depth: usize| {
            let bundles = self.bundles(flows).into_iter().rev();
            bundles
                .filter(|bundle| bundle.total.period >= least)
                .map(move |bundle| (depth, bundle))
                .collect::<Vec<_>>()
        };
        let mut flat = Vec::new();
        let mut path = Vec::new();
        let mut branches = Vec::new();
        let mut open = heavy(&starts, 0);
        while let Some((depth, bundle)) = open.pop() {
            path.truncate(depth);
            path.push(bundle.site);
            branches.truncate(depth);
            branches.extend(self.kept(bundle.branches));
            if bundle.own.period > 0 && bundle.own.period >= least {
                if !self.may_go_on(path.len()) {
                    break;
                }
                flat.push(Chain {
                    run: path.clone(),
                    branches_in_run: branches.clone(),
                    own: bundle.own,
                    total: bundle.total,
                    branches: Vec::new(),
                });
            }
            open.extend(heavy(&self.step(&bundle.flows), depth + 1));
        }
        flat.sort_by_key(|chain| Reverse(chain.own.period));
        flat
    }
}

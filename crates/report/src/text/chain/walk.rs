//! The walk that makes the chains of one row.

use super::{Chain, Chains, DEEPEST_BRANCH, Flow, Places};
use crate::model::{CallTree, NodeId, Row, SiteId, SiteKind, Weight};
use crate::text::branch_notes::BranchesHere;
use crate::text::{ChainOrder, ChainStyle};
use prof_profile::{DsoId, Svma};
use rustc_hash::FxHashMap;
use std::cell::Cell;
use std::cmp::Reverse;

/// A walk over the call tree from the places of one row.
pub(in crate::text) struct Walk<'a> {
    chains: &'a Chains<'a>,
    pub(in crate::text) tree: &'a CallTree,
    pub(in crate::text) places: &'a Places,
    frame: u32,
    /// Frames that may still be made.
    pub(super) left: Cell<usize>,
    /// For callees: weight of the row's own samples in and under a node.
    selves: FxHashMap<NodeId, Weight>,
    /// Of them, those whose branches are noted.
    noted_selves: FxHashMap<NodeId, u64>,
    /// The one address that branches are noted of.
    noted_at: Option<Svma>,
}

/// See [`Walk::place`].
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum FrameIdentity<'a> {
    At(DsoId, Svma),
    Inlined(&'a str),
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
    pub(in crate::text) fn new(
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
            self.noted_at = places.filter_map(|&node| self.address(node)).min();
        }
        self
    }

    fn address(&self, node: NodeId) -> Option<Svma> {
        let site = self.tree.site(node)?;
        self.chains.scene.sites().get(site).address
    }

    /// Whether what branches tell is noted of chains with this frame of the
    /// row.
    pub(in crate::text) fn is_noted(&self, node: NodeId) -> bool {
        self.noted_at.is_none() || self.noted_at == self.address(node)
    }

    /// Samples of a flow whose branches are noted.
    pub(in crate::text) fn noted(&self, flow: Flow) -> u64 {
        match flow {
            Flow::Outwards(_, weight, true) => weight.samples,
            Flow::Others(_, true) => self.weigh(flow).0.samples,
            Flow::Selves(node) => self.noted_selves.get(&node).copied().unwrap_or(0),
            Flow::Outwards(..) | Flow::Others(..) => 0,
        }
    }

    /// Whether chains are drawn from the callers.
    pub(in crate::text) fn is_inwards(&self) -> bool {
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
    pub(in crate::text) fn starts(&self) -> Vec<Flow> {
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
    pub(super) fn branches(&self, flows: &[Flow], least: u64, depth: usize) -> Vec<Chain> {
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

    /// Heaviest first; equal ones as perf has them, whose children are in the
    /// order of their addresses, the last first.
    fn sort(&self, chains: &mut [Chain]) {
        let first = |chain: &Chain| chain.run.first().copied();
        chains.sort_by_key(|chain| {
            let place = first(chain).map(|site| self.place(site));
            Reverse((chain.total.period, place))
        });
    }

    /// What orders siblings: inlined functions by name, since they have no
    /// start of their own, others by dso and address.
    fn place(&self, site: SiteId) -> FrameIdentity<'a> {
        let profile = self.chains.scene.profile();
        let site = self.chains.scene.sites().get(site);
        let start = site.address.unwrap_or(site.function(profile).start);
        match site.kind {
            SiteKind::Inline => FrameIdentity::Inlined(site.name(profile)),
            SiteKind::Function | SiteKind::Dso => FrameIdentity::At(site.dso, start),
        }
    }

    /// Every chain that ends somewhere and is heavy enough, as one run,
    /// heaviest first; of equal ones those that go further.
    pub(super) fn flat(&self, starts: Vec<Flow>, least: u64) -> Vec<Chain> {
        let heavy = |flows: &[Flow], depth: usize| {
            let mut bundles = self.bundles(flows);
            bundles.retain(|bundle| bundle.total.period >= least);
            bundles.sort_by_key(|bundle| Reverse(self.place(bundle.site)));
            bundles.into_iter().map(move |bundle| (depth, bundle))
        };
        let mut flat = Vec::new();
        let mut path = Vec::new();
        let mut branches = Vec::new();
        let mut open: Vec<_> = heavy(&starts, 0).collect();
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
        // Now the first sibling is last, and what goes further comes first.
        flat.reverse();
        flat.sort_by_key(|chain| Reverse(chain.own.period));
        flat
    }
}

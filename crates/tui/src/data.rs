//! What the views show. Made by the worker, one set for each selection.

use super::outline::Forest;
use super::writing::{Write, Wrote};
use prof_profile::{FunctionId, Profile};
use prof_report::code::FunctionView;
use prof_report::model::{
    CallTree, Changes, GrowId, Growth, Heat, HeatRows, NodeId, RunsOfSides, Selection, Site,
    SiteId, Sites, Sure, Weight,
};
use prof_report::waiting::LaneMap;
use regex::Regex;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// A tree that grows when looked at, by function.
pub(super) type GrownTree = Growth<Arc<CallTree>, Arc<[u32]>>;

/// A row of the hotspots.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hot {
    pub(super) site: SiteId,
    pub(super) own: Weight,
    pub(super) total: Weight,
}

/// A profile seen through the selection in force.
#[derive(Clone)]
pub(super) struct Seen {
    pub(super) profile: Arc<Profile>,
    pub(super) tree: Arc<CallTree>,
    pub(super) sites: Arc<Sites>,
    /// By `SiteId`: the function's number, inlined or not.
    pub(super) keys: Arc<[u32]>,
    pub(super) hot: Arc<[Hot]>,
    /// Weight of what is shown.
    pub(super) shown: Weight,
    /// Weight with what filters hide.
    pub(super) scope: Weight,
}

impl Seen {
    pub(super) fn site(&self, id: SiteId) -> &Site {
        self.sites.get(id)
    }

    pub(super) fn key(&self, site: SiteId) -> Option<u32> {
        self.keys.get(site.0 as usize).copied()
    }

    /// The frame of a node of the call tree.
    pub(super) fn site_at(&self, node: NodeId) -> Option<SiteId> {
        self.tree.site(node)
    }

    /// The nodes from a root to `node`.
    pub(super) fn path(&self, node: NodeId) -> Vec<NodeId> {
        let mut path: Vec<NodeId> = self.tree.outwards(node).collect();
        path.reverse();
        path
    }
}

/// A question to the worker about the selection in force.
#[derive(Debug, Clone)]
pub(super) enum Ask {
    /// Callers and callees of a function, by its key.
    Around(u32),
    /// Samples over time.
    Heat(HeatRows, usize),
    /// What each thread did, in so many slices.
    Lanes(usize),
    /// Which frames match, and what they cover.
    Search(Regex),
    /// A function's code.
    Code(FunctionId),
    /// How sure shares are: of what is shown, or of all.
    Sure(bool),
    /// What changed between the recordings before and after.
    Changes(RunsOfSides),
    /// The locks that threads waited for.
    Locks,
    /// A file to be written: what the user asked for, so that a newer
    /// selection does not make it void.
    Write(Write),
}

/// What the session sends.
pub(super) enum Order {
    /// From now on, this selection.
    Select {
        generation: u64,
        profile: Arc<Profile>,
        selection: Box<Selection>,
    },
    /// A question about the selection in force.
    Ask(Ask),
}

/// Callers and callees of one function.
pub(super) struct Around {
    pub(super) key: u32,
    pub(super) callers: GrownTree,
    pub(super) callees: GrownTree,
}

/// What a search found.
#[derive(Debug, Clone)]
pub(super) struct Found {
    pub(super) pattern: Regex,
    /// By `SiteId`.
    pub(super) sites: Arc<[bool]>,
    /// By `NodeId`: whether the frame matches or calls one that does.
    pub(super) leads: Arc<[bool]>,
    /// Functions that match.
    pub(super) functions: usize,
    /// Weight of the samples with a match in their stack.
    pub(super) covered: Weight,
}

impl Found {
    pub(super) fn holds(&self, site: SiteId) -> bool {
        self.sites.get(site.0 as usize).copied().unwrap_or(false)
    }

    /// Whether there is a match in or below a node.
    pub(super) fn leads(&self, node: NodeId) -> bool {
        self.leads.get(node.index()).copied().unwrap_or(false)
    }

    /// The heaviest match in or below some nodes.
    pub(super) fn heaviest(&self, tree: &CallTree, nodes: &[NodeId]) -> Option<NodeId> {
        let weight = |node: NodeId| tree.total(node).period;
        let mut best: Option<NodeId> = None;
        let mut left = nodes.to_vec();
        while let Some(node) = left.pop() {
            let is_heavier = best.is_none_or(|best| weight(node) > weight(best));
            if !is_heavier || !self.leads(node) {
                continue;
            }
            if tree.site(node).is_some_and(|site| self.holds(site)) {
                best = Some(node);
            } else {
                // The hottest is looked at first.
                left.extend(tree.children(node).iter().rev());
            }
        }
        best
    }
}

/// How sure the shares of functions are, by their number.
pub(super) type Certainties = FxHashMap<u32, Sure>;

/// What the worker says.
pub(super) enum Answer {
    /// A new selection's data, with its tree from the callees up.
    Seen(Box<Seen>, GrownTree),
    Around(Box<Around>),
    /// By these rows, in so many slices.
    Heat(HeatRows, usize, Heat),
    /// In so many slices.
    Lanes(usize, Box<LaneMap>),
    Found(Found),
    Code(Box<FunctionView>),
    Sure(Arc<Certainties>),
    Changes(Arc<Changes>),
    /// As text.
    Locks(Vec<String>),
    /// A file was written, or why not. It holds for any selection.
    Wrote(Wrote),
}

/// The call tree from the roots down.
#[derive(Clone)]
pub(super) struct TopDown {
    pub(super) tree: Arc<CallTree>,
    /// Nodes below this weight are not shown.
    pub(super) least: u64,
}

fn ids(nodes: &[NodeId], tree: &CallTree, least: u64) -> Vec<u32> {
    let kept = nodes
        .iter()
        .filter(|&&node| tree.total(node).period >= least);
    kept.map(|node| node.0).collect()
}

impl Forest for TopDown {
    fn roots(&self) -> Vec<u32> {
        ids(self.tree.children(NodeId::ROOT), &self.tree, self.least)
    }

    fn children(&mut self, node: u32) -> Vec<u32> {
        ids(self.tree.children(NodeId(node)), &self.tree, self.least)
    }

    fn has_children(&self, node: u32) -> bool {
        let hottest = self.tree.children(NodeId(node)).first();
        hottest.is_some_and(|&child| self.tree.total(child).period >= self.least)
    }

    fn total(&self, node: u32) -> u64 {
        self.tree.total(NodeId(node)).period
    }
}

/// A tree of callers or callees with its limit.
pub(super) struct Grown {
    pub(super) growth: GrownTree,
    /// Nodes below this weight are not shown.
    pub(super) least: u64,
}

impl Grown {
    /// The frame of a node.
    pub(super) fn site(&self, seen: &Seen, node: u32) -> Option<SiteId> {
        seen.site_at(self.growth.example(GrowId(node))?)
    }

    fn kept(&self, nodes: &[GrowId]) -> Vec<u32> {
        let kept = nodes
            .iter()
            .filter(|&&node| self.growth.total(node).period >= self.least);
        kept.map(|node| node.0).collect()
    }
}

impl Forest for Grown {
    fn roots(&self) -> Vec<u32> {
        self.kept(self.growth.roots())
    }

    fn children(&mut self, node: u32) -> Vec<u32> {
        let children = self.growth.children(GrowId(node));
        self.kept(&children)
    }

    fn has_children(&self, node: u32) -> bool {
        self.growth.has_children(GrowId(node))
    }

    fn total(&self, node: u32) -> u64 {
        self.growth.total(GrowId(node)).period
    }
}

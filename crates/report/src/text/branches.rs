//! What is told of the branches in call chains, as `perf report
//! --branch-history` tells it.

use super::chain::{Chains, Flow, Places, Walk};
use crate::branch_sums::BranchSums;
use crate::model::{CallTree, NodeId, Row, SiteId};
use prof_profile::BranchFrame;

/// By node of a call tree: sums of the branches around it, and in it.
struct TreeSums {
    /// Of the frames from the outermost one to the node, once.
    path: Vec<BranchSums>,
    /// Of the chains of all samples in and under the node.
    inside: Vec<BranchSums>,
}

impl Chains<'_> {
    /// The end of a branch that a frame is.
    pub(super) fn branch_of(&self, site: SiteId) -> Option<BranchFrame> {
        let id = self.scene().sites().get(site).branch?;
        let frames = &self.scene().profile().branch_frames;
        frames.get(id.0 as usize).copied()
    }

    /// Sums over the chains of rows that places are known of.
    pub(crate) fn sums<'r>(
        &'r self,
        rows: impl Iterator<Item = &'r Row>,
    ) -> impl Iterator<Item = (&'r Row, BranchSums)> {
        let mut of_groups = rustc_hash::FxHashMap::default();
        rows.filter_map(move |row| {
            let (tree, places) = self.tree_and_places(row)?;
            let sums = of_groups
                .entry(row.key.group)
                .or_insert_with(|| self.tree_sums(tree));
            Some((row, Walk::new(self, tree, places, row).sums(sums)))
        })
    }

    fn tree_sums(&self, tree: &CallTree) -> TreeSums {
        let mut path = vec![BranchSums::default(); tree.len()];
        let mut inside = path.clone();
        // A node's parent has a smaller id.
        for index in 1..tree.len() {
            let node = NodeId(index as u32);
            let end = tree.site(node).and_then(|site| self.branch_of(site));
            let own = end.map(BranchSums::of).unwrap_or_default();
            let parent = tree.parent(node).unwrap_or(NodeId::ROOT);
            let sum = path.get(parent.index()).copied().unwrap_or_default();
            let sum = sum.plus(own);
            if let (Some(path), Some(inside)) = (path.get_mut(index), inside.get_mut(index)) {
                *path = sum;
                *inside = sum.times(tree.own(node).samples);
            }
        }
        for index in (1..tree.len()).rev() {
            let below = inside.get(index).copied().unwrap_or_default();
            let parent = tree.parent(NodeId(index as u32)).unwrap_or(NodeId::ROOT);
            if let Some(above) = inside.get_mut(parent.index()) {
                *above = above.plus(below);
            }
        }
        TreeSums { path, inside }
    }
}

impl TreeSums {
    fn path(&self, node: NodeId) -> BranchSums {
        self.path.get(node.index()).copied().unwrap_or_default()
    }

    fn inside(&self, node: NodeId) -> BranchSums {
        self.inside.get(node.index()).copied().unwrap_or_default()
    }
}

impl Walk<'_> {
    /// Sums over all chains of the row.
    fn sums(&self, sums: &TreeSums) -> BranchSums {
        let mut all = BranchSums::default();
        for flow in self.starts() {
            let samples = self.noted(flow);
            all = all.plus(match flow {
                _ if samples == 0 => continue,
                Flow::Outwards(node, ..) => sums.path(node).times(samples),
                // Theirs are added below.
                Flow::Selves(_) => continue,
                Flow::Others(node, _) => {
                    let parent = self.tree.parent(node).unwrap_or(NodeId::ROOT);
                    let of_own =
                        self.own_sums(sums, |leaf| self.tree.outwards(leaf).any(|at| at == node));
                    let around = sums.path(parent).times(samples);
                    sums.inside(node).minus(of_own).minus(around)
                }
            });
        }
        if self.is_inwards() {
            all = all.plus(self.own_sums(sums, |leaf| self.is_noted(leaf)));
        }
        all
    }

    /// Sums over the chains of the row's own samples at these leaves.
    fn own_sums(&self, sums: &TreeSums, takes: impl Fn(NodeId) -> bool) -> BranchSums {
        let Places { leaves, .. } = self.places;
        let own = leaves.iter().filter(|&&leaf| takes(leaf));
        let own = own.map(|&leaf| sums.path(leaf).times(self.tree.own(leaf).samples));
        own.fold(BranchSums::default(), BranchSums::plus)
    }
}

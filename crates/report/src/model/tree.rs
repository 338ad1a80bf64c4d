//! The call tree: paths with weights.

use super::paths::ScenePaths;
use super::tally::Cell;
use super::{NodeId, SiteId, Weight};
use std::sync::Arc;

/// A top-down call tree. Nodes are the paths of a scene; those without weight
/// are in no list of children. A node's parent has a smaller id.
#[derive(Debug, Default)]
pub struct CallTree {
    /// Parents and sites may be those of the scene's paths.
    parents: Arc<[NodeId]>,
    sites: Arc<[SiteId]>,
    own: Vec<Weight>,
    total: Vec<Weight>,
    /// Where each node's children start in `children`; one more at the end.
    starts: Vec<u32>,
    children: Vec<NodeId>,
}

/// New ids for some of a scene's paths. As large as all of them, so it is
/// used for one group after the other.
pub(crate) struct NewIds(Vec<u32>);

impl NewIds {
    const NONE: u32 = u32::MAX;

    pub(crate) fn new(paths: &ScenePaths) -> Self {
        Self(vec![Self::NONE; paths.parents.len()])
    }

    /// Whether `node` had no id; it is then among `touched`.
    fn insert(&mut self, node: NodeId, touched: &mut Vec<NodeId>) -> bool {
        let slot = self.0.get_mut(node.index());
        let Some(slot) = slot.filter(|slot| **slot == Self::NONE) else {
            return false;
        };
        *slot = 0;
        touched.push(node);
        true
    }

    /// Numbers the nodes in this order.
    fn number(&mut self, touched: &[NodeId]) {
        for (id, node) in (0_u32..).zip(touched) {
            if let Some(slot) = self.0.get_mut(node.index()) {
                *slot = id;
            }
        }
    }

    fn get(&self, node: NodeId) -> NodeId {
        NodeId(self.0.get(node.index()).copied().unwrap_or(0))
    }

    fn forget(&mut self, touched: &[NodeId]) {
        for node in touched {
            if let Some(slot) = self.0.get_mut(node.index()) {
                *slot = Self::NONE;
            }
        }
    }
}

impl CallTree {
    pub(crate) fn new(paths: &ScenePaths, cells: Vec<Cell>) -> Self {
        let (parents, sites) = (&paths.parents, &paths.sites);
        let mut own = vec![Weight::ZERO; parents.len()];
        for cell in &cells {
            let node = paths.of_stack(cell.stack);
            if let Some(slot) = node.and_then(|node| own.get_mut(node.index())) {
                *slot += cell.weight;
            }
        }
        // They take as much memory as the sums that follow.
        drop(cells);
        Self::weigh(Arc::clone(parents), Arc::clone(sites), own)
    }

    /// The tree of only those paths that `cells` touch, with new ids, and for
    /// each node the index of the first sample in or under it.
    pub(crate) fn of_cells(
        paths: &ScenePaths,
        cells: &[Cell],
        new_ids: &mut NewIds,
    ) -> (Self, Vec<u32>) {
        let (all_parents, all_sites) = (&paths.parents, &paths.sites);
        let parent_of = |node: NodeId| all_parents.get(node.index()).copied();
        let parent_of = |node| parent_of(node).unwrap_or(NodeId::ROOT);
        let mut touched: Vec<NodeId> = Vec::new();
        new_ids.insert(NodeId::ROOT, &mut touched);
        for cell in cells {
            let mut at = paths.of_stack(cell.stack).unwrap_or(NodeId::ROOT);
            while new_ids.insert(at, &mut touched) {
                at = parent_of(at);
            }
        }
        touched.sort_unstable();
        new_ids.number(&touched);
        let renamed = |node: NodeId| new_ids.get(node);
        let parents: Arc<[NodeId]> = touched
            .iter()
            .map(|&node| renamed(parent_of(node)))
            .collect();
        let sites = touched
            .iter()
            .filter_map(|node| all_sites.get(node.index()).copied())
            .collect();
        let mut own = vec![Weight::ZERO; touched.len()];
        let mut first = vec![u32::MAX; touched.len()];
        for cell in cells {
            let Some(node) = paths.of_stack(cell.stack).map(renamed) else {
                continue;
            };
            if let (Some(own), Some(first)) =
                (own.get_mut(node.index()), first.get_mut(node.index()))
            {
                *own += cell.weight;
                *first = (*first).min(cell.first);
            }
        }
        for index in (1..parents.len()).rev() {
            let seen = first.get(index).copied().unwrap_or(u32::MAX);
            let parent = parents.get(index).copied().unwrap_or(NodeId::ROOT);
            if let Some(slot) = first.get_mut(parent.index()) {
                *slot = (*slot).min(seen);
            }
        }
        new_ids.forget(&touched);
        (Self::weigh(parents, sites, own), first)
    }

    /// The same tree with only those samples whose innermost frame `keeps`
    /// takes; nodes keep their ids.
    pub(crate) fn only(&self, keeps: impl Fn(SiteId) -> bool) -> Self {
        let own = self.own.iter().zip(self.sites.iter()).enumerate();
        let own = own.map(|(index, (&own, &site))| match index {
            0 => Weight::ZERO,
            _ if keeps(site) => own,
            _ => Weight::ZERO,
        });
        let own = own.collect();
        Self::weigh(Arc::clone(&self.parents), Arc::clone(&self.sites), own)
    }

    /// Sums weights up and sorts children by weight.
    fn weigh(parents: Arc<[NodeId]>, sites: Arc<[SiteId]>, own: Vec<Weight>) -> Self {
        let mut total = own.clone();
        for index in (1..parents.len()).rev() {
            let weight = total.get(index).copied().unwrap_or_default();
            let parent = parents.get(index).copied().unwrap_or(NodeId::ROOT);
            if let Some(slot) = total.get_mut(parent.index()) {
                *slot += weight;
            }
        }
        let mut tree = Self {
            parents,
            sites,
            own,
            total,
            starts: Vec::new(),
            children: Vec::new(),
        };
        tree.link_children();
        tree
    }

    fn link_children(&mut self) {
        let count = self.parents.len();
        let mut starts = vec![0_u32; count + 1];
        for (index, parent) in self.parents.iter().enumerate().skip(1) {
            if self
                .total
                .get(index)
                .is_some_and(|weight| !weight.is_zero())
                && let Some(slot) = starts.get_mut(parent.index() + 1)
            {
                *slot += 1;
            }
        }
        let mut sum = 0;
        for slot in &mut starts {
            sum += *slot;
            *slot = sum;
        }
        let mut next = starts.clone();
        let mut children = vec![NodeId::ROOT; sum as usize];
        for (index, parent) in self.parents.iter().enumerate().skip(1) {
            if self.total.get(index).is_none_or(|weight| weight.is_zero()) {
                continue;
            }
            if let Some(slot) = next.get_mut(parent.index()) {
                if let Some(child) = children.get_mut(*slot as usize) {
                    *child = NodeId(index as u32);
                }
                *slot += 1;
            }
        }
        let total = &self.total;
        let weight = |node: &NodeId| total.get(node.index()).copied().unwrap_or_default();
        for pair in starts.windows(2) {
            if let [start, end] = *pair
                && end - start > 1
                && let Some(family) = children.get_mut(start as usize..end as usize)
            {
                // Stable: equal weights stay in the order they were first seen.
                family.sort_by_key(|node| std::cmp::Reverse(weight(node)));
            }
        }
        self.starts = starts;
        self.children = children;
    }

    /// How many nodes there are, the root and those without weight included;
    /// ids are below it.
    pub fn len(&self) -> usize {
        self.parents.len()
    }

    /// Whether there is only the root.
    pub fn is_empty(&self) -> bool {
        self.parents.len() <= 1
    }

    /// The caller's node; `None` for the root.
    #[inline]
    pub fn parent(&self, node: NodeId) -> Option<NodeId> {
        if node == NodeId::ROOT {
            return None;
        }
        self.parents.get(node.index()).copied()
    }

    /// The frame of a node; `None` for the root.
    #[inline]
    pub fn site(&self, node: NodeId) -> Option<SiteId> {
        if node == NodeId::ROOT {
            return None;
        }
        self.sites.get(node.index()).copied()
    }

    /// Weight of the samples taken exactly here.
    #[inline]
    pub fn own(&self, node: NodeId) -> Weight {
        self.own.get(node.index()).copied().unwrap_or_default()
    }

    /// Weight of the samples taken here and in what it calls.
    #[inline]
    pub fn total(&self, node: NodeId) -> Weight {
        self.total.get(node.index()).copied().unwrap_or_default()
    }

    /// What it calls, heaviest first.
    pub fn children(&self, node: NodeId) -> &[NodeId] {
        let start = self.starts.get(node.index()).copied().unwrap_or(0);
        let end = self.starts.get(node.index() + 1).copied().unwrap_or(start);
        self.children
            .get(start as usize..end as usize)
            .unwrap_or_default()
    }

    /// The nodes from `node` outwards, without the root.
    pub fn outwards(&self, node: NodeId) -> impl Iterator<Item = NodeId> + '_ {
        let mut at = node;
        std::iter::from_fn(move || {
            let parent = self.parent(at)?;
            Some(std::mem::replace(&mut at, parent))
        })
    }

    /// Calls `visit` for each node with weight, callers first, heaviest
    /// first among siblings.
    pub fn walk(&self, mut visit: impl FnMut(NodeId)) {
        let mut open = vec![NodeId::ROOT];
        while let Some(node) = open.pop() {
            if node != NodeId::ROOT {
                visit(node);
            }
            open.extend(self.children(node).iter().rev());
        }
    }
}

//! Trees that grow when looked at: callers, callees, bottom-up.

use super::{CallTree, NodeId, Weight};
use rustc_hash::FxHashMap;
use std::borrow::Borrow;

/// A handle to a node of a [`Growth`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GrowId(pub u32);

/// Where a tree grows to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// To callers: bottom-up.
    Callers,
    /// To callees: top-down.
    Callees,
}

/// A place in the call tree from which to grow, with the weight that flows
/// through it.
#[derive(Debug, Clone, Copy)]
pub struct Seed {
    /// Where.
    pub node: NodeId,
    /// For callers: the weight to carry outwards. Not used for callees,
    /// where the tree has the weights.
    pub weight: Weight,
}

#[derive(Debug)]
struct Grown {
    key: u32,
    parent: Option<GrowId>,
    depth: u32,
    own: Weight,
    total: Weight,
    seeds: Vec<Seed>,
    children: Option<Vec<GrowId>>,
}

/// A tree of merged frames whose children are computed when first asked for,
/// so that a tree over a million nodes answers at once.
///
/// `keys` says which sites are the same: one number for each site.
///
/// Tree and keys are borrowed (`&CallTree`, `&[u32]`) or shared
/// (`Arc<CallTree>`, `Arc<[u32]>`), the latter to send the growth to another
/// thread.
pub struct Growth<T, K> {
    tree: T,
    keys: K,
    direction: Direction,
    nodes: Vec<Grown>,
    roots: Vec<GrowId>,
}

impl<T: Borrow<CallTree>, K: AsRef<[u32]>> Growth<T, K> {
    /// A tree whose roots are `seeds`, merged by key.
    pub fn new(
        tree: T,
        keys: K,
        direction: Direction,
        seeds: impl IntoIterator<Item = Seed>,
    ) -> Self {
        let mut growth = Self {
            tree,
            keys,
            direction,
            nodes: Vec::new(),
            roots: Vec::new(),
        };
        growth.roots = growth.merge(None, seeds);
        growth
    }

    /// The bottom-up tree of a scene: roots are the functions samples were
    /// taken in.
    pub fn bottom_up(tree: T, keys: K) -> Self {
        let nodes: &CallTree = tree.borrow();
        let leaves: Vec<Seed> = (1..nodes.len())
            .map(|index| NodeId(index as u32))
            .filter(|&node| !nodes.own(node).is_zero())
            .map(|node| Seed {
                node,
                weight: nodes.own(node),
            })
            .collect();
        Self::new(tree, keys, Direction::Callers, leaves)
    }

    /// The callers of all frames with `key`. In recursion each sample counts
    /// once, at its innermost call.
    pub fn callers(tree: T, keys: K, key: u32) -> Self {
        let nodes: &CallTree = tree.borrow();
        let is_it = |node| key_of(nodes, keys.as_ref(), node) == Some(key);
        let mut inner: FxHashMap<NodeId, Weight> = FxHashMap::default();
        let mut seeds = Vec::new();
        for index in (1..nodes.len()).rev() {
            let node = NodeId(index as u32);
            if nodes.total(node).is_zero() || !is_it(node) {
                continue;
            }
            let outer = nodes.outwards(node).skip(1).find(|&at| is_it(at));
            if let Some(outer) = outer {
                *inner.entry(outer).or_default() += nodes.total(node);
            }
            let counted = inner.get(&node).copied().unwrap_or_default();
            seeds.push(Seed {
                node,
                weight: nodes.total(node).without(counted),
            });
        }
        seeds.retain(|seed| !seed.weight.is_zero());
        seeds.reverse();
        Self::new(tree, keys, Direction::Callers, seeds)
    }

    /// The callees of all frames with `key`. In recursion each sample counts
    /// once, at its outermost call.
    pub fn callees(tree: T, keys: K, key: u32) -> Self {
        let nodes: &CallTree = tree.borrow();
        let is_it = |node| key_of(nodes, keys.as_ref(), node) == Some(key);
        let seeds: Vec<Seed> = (1..nodes.len())
            .map(|index| NodeId(index as u32))
            .filter(|&node| {
                !nodes.total(node).is_zero()
                    && is_it(node)
                    && !nodes.outwards(node).skip(1).any(is_it)
            })
            .map(|node| Seed {
                node,
                weight: nodes.total(node),
            })
            .collect();
        Self::new(tree, keys, Direction::Callees, seeds)
    }

    /// Merges seeds by key into new nodes, heaviest first.
    fn merge(
        &mut self,
        parent: Option<GrowId>,
        seeds: impl IntoIterator<Item = Seed>,
    ) -> Vec<GrowId> {
        let depth = parent.map_or(0, |id| self.node(id).depth + 1);
        let mut by_key: FxHashMap<u32, GrowId> = FxHashMap::default();
        let mut made = Vec::new();
        for seed in seeds {
            let Some(key) = key_of(self.tree.borrow(), self.keys.as_ref(), seed.node) else {
                continue;
            };
            let id = *by_key.entry(key).or_insert_with(|| {
                let id = GrowId(self.nodes.len() as u32);
                self.nodes.push(Grown {
                    key,
                    parent,
                    depth,
                    own: Weight::ZERO,
                    total: Weight::ZERO,
                    seeds: Vec::new(),
                    children: None,
                });
                made.push(id);
                id
            });
            let own = match self.direction {
                Direction::Callees => self.tree.borrow().own(seed.node),
                Direction::Callers => {
                    let outermost = self.tree.borrow().parent(seed.node) == Some(NodeId::ROOT);
                    if outermost { seed.weight } else { Weight::ZERO }
                }
            };
            if let Some(node) = self.nodes.get_mut(id.0 as usize) {
                node.own += own;
                node.total += seed.weight;
                node.seeds.push(seed);
            }
        }
        made.sort_by_key(|&id| std::cmp::Reverse(self.node(id).total));
        made
    }

    fn node(&self, id: GrowId) -> &Grown {
        self.nodes
            .get(id.0 as usize)
            .expect("a node of this growth")
    }

    /// The outermost nodes, heaviest first.
    pub fn roots(&self) -> &[GrowId] {
        &self.roots
    }

    /// The node's key, as in `keys`.
    pub fn key(&self, id: GrowId) -> u32 {
        self.node(id).key
    }

    /// The node it grew from.
    pub fn parent(&self, id: GrowId) -> Option<GrowId> {
        self.node(id).parent
    }

    /// Weight of the samples whose stack ends at this node.
    pub fn own(&self, id: GrowId) -> Weight {
        self.node(id).own
    }

    /// Weight of the samples that go through it.
    pub fn total(&self, id: GrowId) -> Weight {
        self.node(id).total
    }

    /// One of the call-tree nodes merged into it: its frame stands for all of
    /// them.
    pub fn example(&self, id: GrowId) -> Option<NodeId> {
        self.node(id).seeds.first().map(|seed| seed.node)
    }

    /// Whether it has children; does not compute them.
    pub fn has_children(&self, id: GrowId) -> bool {
        let node = self.node(id);
        node.own.samples < node.total.samples
    }

    /// Its children, heaviest first; computed when first asked for.
    pub fn children(&mut self, id: GrowId) -> Vec<GrowId> {
        if let Some(children) = &self.node(id).children {
            return children.clone();
        }
        let tree: &CallTree = self.tree.borrow();
        let seeds: Vec<Seed> = match self.direction {
            Direction::Callers => self
                .node(id)
                .seeds
                .iter()
                .filter_map(|seed| {
                    let node = tree.parent(seed.node)?;
                    (node != NodeId::ROOT).then_some(Seed {
                        node,
                        weight: seed.weight,
                    })
                })
                .collect(),
            Direction::Callees => self
                .node(id)
                .seeds
                .iter()
                .flat_map(|seed| tree.children(seed.node))
                .map(|&node| Seed {
                    node,
                    weight: tree.total(node),
                })
                .collect(),
        };
        let children = self.merge(Some(id), seeds);
        if let Some(node) = self.nodes.get_mut(id.0 as usize) {
            node.children = Some(children.clone());
        }
        children
    }
}

#[inline]
fn key_of(tree: &CallTree, keys: &[u32], node: NodeId) -> Option<u32> {
    let site = tree.site(node)?;
    keys.get(site.0 as usize).copied()
}

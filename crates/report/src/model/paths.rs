//! Paths: the stacks of a profile as a tree of sites.

use super::site::SiteMaker;
use super::{SiteId, Sites};
use hashbrown::HashTable;
use prof_profile::{LocationId, Profile, StackId};
use rustc_hash::FxBuildHasher;
use std::hash::BuildHasher;
use std::sync::Arc;

/// A handle to a node of the tree of paths and of the call trees made from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub u32);

impl NodeId {
    /// The root: no frame.
    pub const ROOT: Self = Self(0);
    /// Not a node: a stack that a transform took out.
    pub(crate) const NONE: Self = Self(u32::MAX);

    /// As an index.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Node {
    parent: NodeId,
    site: SiteId,
}

/// A tree of sites from the outermost inwards; a node is a path. A parent's
/// id is smaller than its children's.
#[derive(Debug)]
pub(crate) struct Paths {
    nodes: Vec<Node>,
    index: HashTable<u32>,
}

impl Paths {
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        let mut nodes = Vec::with_capacity(capacity.saturating_add(1));
        nodes.push(Node {
            parent: NodeId::ROOT,
            site: SiteId(u32::MAX),
        });
        Self {
            nodes,
            index: HashTable::with_capacity(capacity),
        }
    }

    /// The path of `parent` with `site` inside.
    pub(crate) fn push(&mut self, parent: NodeId, site: SiteId) -> NodeId {
        let node = Node { parent, site };
        let hash = FxBuildHasher.hash_one(node);
        let nodes = &self.nodes;
        let found = self
            .index
            .find(hash, |&id| nodes.get(id as usize) == Some(&node));
        if let Some(&id) = found {
            return NodeId(id);
        }
        let id = u32::try_from(self.nodes.len()).expect("fewer than 2^32 paths");
        self.nodes.push(node);
        let nodes = &self.nodes;
        self.index.insert_unique(hash, id, |&id| {
            nodes
                .get(id as usize)
                .map_or(0, |node| FxBuildHasher.hash_one(node))
        });
        NodeId(id)
    }

    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The parent of a node and its site; `None` for the root.
    #[inline]
    pub(crate) fn get(&self, id: NodeId) -> Option<(NodeId, SiteId)> {
        if id == NodeId::ROOT {
            return None;
        }
        self.nodes
            .get(id.index())
            .map(|node| (node.parent, node.site))
    }

    /// Parents and sites of all nodes as columns, the root first.
    fn into_columns(self) -> (Vec<NodeId>, Vec<SiteId>) {
        self.nodes
            .into_iter()
            .map(|node| (node.parent, node.site))
            .unzip()
    }
}

/// The paths of all stacks, and which stack is which path.
pub(crate) struct StackPaths {
    pub(crate) paths: Paths,
    pub(crate) sites: Sites,
    /// By `StackId`.
    pub(crate) of_stack: Vec<NodeId>,
}

impl StackPaths {
    /// The paths of all stacks; at a location that `begins_at` takes, a path
    /// begins anew.
    pub(crate) fn new(
        profile: &Profile,
        mut maker: SiteMaker<'_>,
        begins_at: impl Fn(LocationId) -> bool,
    ) -> Self {
        let stacks = &profile.stacks;
        let mut paths = Paths::with_capacity(stacks.len());
        let mut of_stack = vec![NodeId::ROOT; stacks.len()];
        // A caller's id is smaller than its callees', so its path is there.
        for index in 1..stacks.len() {
            let id = StackId(index as u32);
            let Some((caller, location)) = stacks.get(id) else {
                continue;
            };
            let mut node = of_stack
                .get(caller.0 as usize)
                .copied()
                .filter(|_| !begins_at(location))
                .unwrap_or(NodeId::ROOT);
            for &site in maker.of(location) {
                node = paths.push(node, site);
            }
            if let Some(slot) = of_stack.get_mut(index) {
                *slot = node;
            }
        }
        Self {
            paths,
            sites: maker.sites,
            of_stack,
        }
    }

    /// The paths as they stay, and the frames they are made of.
    pub(crate) fn finished(self) -> (ScenePaths, Sites) {
        let (parents, sites) = self.paths.into_columns();
        let paths = ScenePaths {
            parents: parents.into(),
            sites: sites.into(),
            of_stack: self.of_stack,
        };
        (paths, self.sites)
    }
}

/// The paths of a scene, which never change, and which stack is which path.
pub(crate) struct ScenePaths {
    /// By path: its caller's and its own frame, the root first; shared with the
    /// call tree.
    pub(crate) parents: Arc<[NodeId]>,
    pub(crate) sites: Arc<[SiteId]>,
    /// By `StackId`; `NONE` for stacks a transform took out.
    of_stack: Vec<NodeId>,
}

impl ScenePaths {
    /// The path of a stack, `None` if a transform took it out.
    pub(crate) fn of_stack(&self, stack: StackId) -> Option<NodeId> {
        self.of_stack
            .get(stack.0 as usize)
            .copied()
            .filter(|&node| node != NodeId::NONE)
    }

    /// How many stacks there are.
    pub(crate) fn stacks(&self) -> usize {
        self.of_stack.len()
    }
}

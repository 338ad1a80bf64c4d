//! Interned stacks: a tree in which each node is one stack.

use crate::LocationId;
use hashbrown::HashTable;
use rustc_hash::FxBuildHasher;
use std::hash::BuildHasher;

/// A handle to a stack; [`StackId::EMPTY`] has no frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StackId(pub u32);

impl StackId {
    /// The stack without frames, root of the tree.
    pub const EMPTY: Self = Self(0);
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Node {
    parent: StackId,
    location: LocationId,
}

/// Where the callees of a node are found while the tree grows: the first one
/// here, the others by a hash.
///
/// Most nodes have one callee or none. Stacks that were walked along broken
/// frame pointers are long and never seen again: they grow the tree at its
/// end, without a look-up and without touching other memory. A list of more
/// callees waits for memory at each of them, twice. Where the first one is
/// stands beside its id, so that a step to it waits once.
#[derive(Debug, Clone, Copy)]
struct Callees {
    /// The id of the first one, 0 for none; and [`Callees::MORE`].
    first: u32,
    /// The location of the first one.
    location: LocationId,
}

impl Callees {
    const NONE: Self = Self {
        first: 0,
        location: LocationId(u32::MAX),
    };
    /// Set where there is more than the first one.
    const MORE: u32 = 1 << 31;

    /// The id of the first one, 0 for none.
    fn first(self) -> u32 {
        self.first & !Self::MORE
    }

    fn has_more(self) -> bool {
        self.first & Self::MORE != 0
    }
}

/// A node, and where it is: what is looked for is in the index itself, since
/// memory elsewhere would be waited for.
#[derive(Debug, Clone, Copy)]
struct Indexed {
    node: Node,
    id: u32,
}

/// All stacks of a profile. A node's parent is its caller, so its path to the
/// root is the stack from the leaf outwards, and a parent's id is always
/// smaller than its children's.
#[derive(Debug, Clone)]
pub struct StackTree {
    nodes: Vec<Node>,
    callees: Vec<Callees>,
    /// Callees that are not the first of their caller.
    index: HashTable<Indexed>,
}

impl Default for StackTree {
    fn default() -> Self {
        let root = Node {
            parent: StackId::EMPTY,
            location: LocationId(u32::MAX),
        };
        Self {
            nodes: vec![root],
            callees: vec![Callees::NONE],
            index: HashTable::new(),
        }
    }
}

impl StackTree {
    /// The stack of `caller` with `location` called from it.
    ///
    /// # Panics
    /// If `caller` is of another tree, or this one is frozen.
    pub fn push(&mut self, caller: StackId, location: LocationId) -> StackId {
        let node = Node {
            parent: caller,
            location,
        };
        match self.find(node) {
            Some(id) => StackId(id),
            None => self.add(node),
        }
    }

    /// The same of a frozen tree, without a look-up: a stack of its own even if
    /// there is an equal one.
    pub(crate) fn append(&mut self, caller: StackId, location: LocationId) -> StackId {
        let id = u32::try_from(self.nodes.len()).expect("fewer than 2^32 stacks");
        self.nodes.push(Node {
            parent: caller,
            location,
        });
        StackId(id)
    }

    /// Whether [`StackTree::push`] is over.
    pub(crate) fn is_frozen(&self) -> bool {
        self.callees.is_empty()
    }

    fn find(&self, node: Node) -> Option<u32> {
        let callees = *self.callees.get(node.parent.0 as usize)?;
        let first = callees.first();
        if first != 0 && callees.location == node.location {
            return Some(first);
        }
        if !callees.has_more() {
            return None;
        }
        let same = |known: &Indexed| known.node == node;
        let found = self.index.find(FxBuildHasher.hash_one(node), same);
        found.map(|known| known.id)
    }

    fn add(&mut self, node: Node) -> StackId {
        let id = u32::try_from(self.nodes.len()).ok();
        let id = id.filter(|id| id & Callees::MORE == 0);
        let id = id.expect("fewer than 2^31 stacks");
        let callees = self.callees.get_mut(node.parent.0 as usize);
        let callees = callees.expect("the caller is a stack of this growing tree");
        if callees.first() == 0 {
            *callees = Callees {
                first: id,
                location: node.location,
            };
        } else {
            callees.first |= Callees::MORE;
            let hash = FxBuildHasher.hash_one(node);
            let hash_of = |known: &Indexed| FxBuildHasher.hash_one(known.node);
            self.index
                .insert_unique(hash, Indexed { node, id }, hash_of);
        }
        self.nodes.push(node);
        self.callees.push(Callees::NONE);
        StackId(id)
    }

    /// The stack's innermost location and its caller; `None` for the empty
    /// stack.
    #[inline]
    pub fn get(&self, id: StackId) -> Option<(StackId, LocationId)> {
        if id == StackId::EMPTY {
            return None;
        }
        self.nodes
            .get(id.0 as usize)
            .map(|node| (node.parent, node.location))
    }

    /// The locations of a stack, leaf first.
    pub fn locations(&self, id: StackId) -> impl Iterator<Item = LocationId> + '_ {
        let mut at = id;
        std::iter::from_fn(move || {
            let (parent, location) = self.get(at)?;
            at = parent;
            Some(location)
        })
    }

    /// How many stacks there are, the empty one included: ids are below it.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether only the empty stack is there.
    pub fn is_empty(&self) -> bool {
        self.nodes.len() == 1
    }

    /// A tree of the innermost `most` locations of each stack, frozen; and by
    /// `StackId` of this tree, the stack in the other.
    pub(crate) fn limited(&self, most: usize) -> (Self, Vec<StackId>) {
        let mut limited = Self::default();
        // By `StackId`: the stack in the other tree, and its depth here.
        let mut made: Vec<(StackId, usize)> = vec![(StackId::EMPTY, 0)];
        let mut kept = Vec::new();
        // A caller's id is smaller than its callees', so it is made already.
        for id in (1..self.nodes.len() as u32).map(StackId) {
            let own = self.get(id);
            let (caller, location) = own.unwrap_or((StackId::EMPTY, LocationId(u32::MAX)));
            let above = made.get(caller.0 as usize).copied();
            let (above, depth) = above.unwrap_or((StackId::EMPTY, 0));
            let stack = if depth < most {
                limited.push(above, location)
            } else {
                kept.clear();
                kept.extend(self.locations(id).take(most));
                let outermost_first = kept.iter().rev();
                outermost_first.fold(StackId::EMPTY, |caller, &it| limited.push(caller, it))
            };
            made.push((stack, depth + 1));
        }
        limited.freeze();
        (limited, made.into_iter().map(|(stack, _)| stack).collect())
    }

    /// Drops the index that [`StackTree::push`] needs, some 20 bytes a stack;
    /// reading still works.
    pub fn freeze(&mut self) {
        self.index = HashTable::new();
        self.callees = Vec::new();
        self.nodes.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::{StackId, StackTree};
    use crate::LocationId;

    #[test]
    fn equal_stacks_are_one_and_read_leaf_first() {
        let mut stacks = StackTree::default();
        let main = stacks.push(StackId::EMPTY, LocationId(7));
        let leaf = stacks.push(main, LocationId(9));
        assert_eq!(stacks.push(main, LocationId(9)), leaf);
        let seen: Vec<_> = stacks.locations(leaf).collect();
        assert_eq!(seen, [LocationId(9), LocationId(7)]);
        assert_eq!(stacks.get(StackId::EMPTY), None);
        assert_eq!(stacks.len(), 3);
    }

    #[test]
    fn a_limit_keeps_the_innermost_locations() {
        let mut stacks = StackTree::default();
        let ids = [7, 8, 9, 8, 9]
            .iter()
            .scan(StackId::EMPTY, |at, &location| {
                *at = stacks.push(*at, LocationId(location));
                Some(*at)
            });
        let ids: Vec<StackId> = ids.collect();
        let (limited, of) = stacks.limited(2);
        let locations = |id: StackId| -> Vec<u32> {
            let id = of[id.0 as usize];
            limited.locations(id).map(|location| location.0).collect()
        };
        assert_eq!(of[0], StackId::EMPTY);
        assert_eq!(locations(ids[0]), [7]);
        assert_eq!(locations(ids[2]), [9, 8]);
        assert_eq!(locations(ids[3]), [8, 9]);
        assert_eq!(of[ids[2].0 as usize], of[ids[4].0 as usize]);
    }

    #[test]
    fn wide_nodes_find_all_their_callees() {
        let mut stacks = StackTree::default();
        let main = stacks.push(StackId::EMPTY, LocationId(0));
        let ids: Vec<_> = (0..100)
            .map(|callee| stacks.push(main, LocationId(callee)))
            .collect();
        let again: Vec<_> = (0..100)
            .map(|callee| stacks.push(main, LocationId(callee)))
            .collect();
        assert_eq!(ids, again);
        assert_eq!(stacks.len(), 102);
        stacks.freeze();
        assert_eq!(stacks.get(ids[99]), Some((main, LocationId(99))));
    }
}

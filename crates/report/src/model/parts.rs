//! The samples of each group as a call tree of its own.

use super::tally::{Cell, Split};
use super::tree::NewIds;
use super::{CallTree, Group, GroupId, NodeId, Scene, Weight};
use crate::keys::SortKey;
use rayon::prelude::*;

/// The samples of one group as a tree of their own.
#[derive(Debug)]
pub struct Part {
    /// Its call tree.
    pub tree: CallTree,
    /// By node: index of the first sample in or under it.
    first: Vec<u32>,
}

impl Part {
    /// The index of the first sample in or under a node.
    pub fn first(&self, node: NodeId) -> u32 {
        self.first.get(node.index()).copied().unwrap_or(u32::MAX)
    }

    /// By node: frames outwards, itself included.
    pub(crate) fn depths(&self) -> Vec<u32> {
        let mut depths = vec![0; self.tree.len()];
        for index in 1..self.tree.len() {
            let above = self.parent_of(index);
            let above: u32 = depths.get(above).copied().unwrap_or(0);
            if let Some(slot) = depths.get_mut(index) {
                *slot = above + 1;
            }
        }
        depths
    }

    /// By node: most frames inwards, itself included.
    pub(crate) fn heights(&self) -> Vec<u32> {
        let mut heights = vec![1; self.tree.len()];
        for index in (1..self.tree.len()).rev() {
            let below: u32 = heights.get(index).copied().unwrap_or(0);
            if let Some(slot) = heights.get_mut(self.parent_of(index)) {
                *slot = (*slot).max(below + 1);
            }
        }
        heights
    }

    fn parent_of(&self, index: usize) -> usize {
        self.tree
            .parent(NodeId(index as u32))
            .unwrap_or(NodeId::ROOT)
            .index()
    }
}

/// The shown samples of a scene, split into groups.
#[derive(Debug)]
pub struct Parts {
    groups: Vec<Group>,
    parts: Vec<Part>,
    scope_total: Weight,
}

impl Parts {
    /// Splits by those of `keys` that are of the whole sample (thread name,
    /// pid, CPU, time slice of `quantum` ns); trees are made in parallel.
    pub fn new(scene: &Scene<'_>, keys: &[SortKey], quantum: u64) -> Self {
        let tally = scene.tally(Split::of(keys, quantum));
        let mut by_group: Vec<Vec<Cell>> = vec![Vec::new(); tally.groups.len()];
        for cell in tally.cells {
            if let Some(cells) = by_group.get_mut(cell.group.0 as usize) {
                cells.push(cell);
            }
        }
        let parts = by_group
            .into_par_iter()
            .map_init(
                || NewIds::new(scene),
                |new_ids, cells| {
                    let (tree, first) = CallTree::of_cells(scene, &cells, new_ids);
                    Part { tree, first }
                },
            )
            .collect();
        Self {
            groups: tally.groups,
            parts,
            scope_total: tally.scope_total,
        }
    }

    /// The groups in the order their first samples were seen.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (GroupId, &Group, &Part)> {
        let both = self.groups.iter().zip(&self.parts).enumerate();
        both.map(|(index, (group, part))| (GroupId(index as u32), group, part))
    }

    /// The group of a handle.
    pub fn group(&self, id: GroupId) -> Option<&Group> {
        self.groups.get(id.0 as usize)
    }

    /// The handle of a group; of a new one without samples, if there is none.
    pub(crate) fn find_or_add(&mut self, group: Group) -> GroupId {
        let known = self.groups.iter().position(|other| *other == group);
        let index = known.unwrap_or_else(|| {
            self.groups.push(group);
            self.groups.len() - 1
        });
        GroupId(index as u32)
    }

    /// The samples of a group.
    pub fn part(&self, id: GroupId) -> Option<&Part> {
        self.parts.get(id.0 as usize)
    }

    /// Weight of the scope: also what filters hide.
    pub fn scope_total(&self) -> Weight {
        self.scope_total
    }
}

//! The samples of each group as a call tree of its own.

use super::apart::{Apart, Identity};
use super::tally::{Cell, Group, Split, Tally};
use super::tree::NewIds;
use super::{CallTree, GroupId, NodeId, Scene, Weight};
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
    /// The index of the first sample in a node or below it.
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
    split: Split,
    groups: Vec<Group>,
    parts: Vec<Part>,
    scope_total: Weight,
}

impl Parts {
    /// Splits by those of `aparts` that are of the whole sample (thread name,
    /// pid, CPU, time slice of `quantum` ns); trees are made in parallel.
    pub(crate) fn new(scene: &Scene<'_>, aparts: &[Apart], quantum: u64) -> Self {
        let split = Split::of(aparts, quantum);
        let Tally {
            groups,
            mut cells,
            scope_total,
        } = scene.tally(&split);
        // In their place: there can be millions. Trees do not depend on their order.
        cells.sort_unstable_by_key(|cell| cell.group);
        let mut by_group: Vec<&[Cell]> = Vec::with_capacity(groups.len());
        let mut rest = cells.as_slice();
        for (group, _) in (0..).zip(&groups) {
            let count = rest.partition_point(|cell| cell.group <= GroupId(group));
            let (own, others) = rest.split_at_checked(count).unwrap_or_default();
            by_group.push(own);
            rest = others;
        }
        let parts = by_group
            .into_par_iter()
            .map_init(
                || NewIds::new(scene.paths()),
                |new_ids, cells| {
                    let (tree, first) = CallTree::of_cells(scene.paths(), cells, new_ids);
                    Part { tree, first }
                },
            )
            .collect();
        Self {
            split,
            groups,
            parts,
            scope_total,
        }
    }

    /// The groups in the order their first samples were seen.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = (GroupId, &Part)> {
        let parts = self.parts.iter().enumerate();
        parts.map(|(index, part)| (GroupId(index as u32), part))
    }

    /// Index of the first sample of a group.
    pub(crate) fn first(&self, id: GroupId) -> u32 {
        let group = self.groups.get(id.0 as usize);
        group.map_or(u32::MAX, |group| group.first)
    }

    /// What tells a group from the others, part by part.
    pub(crate) fn told(&self, id: GroupId) -> &[Identity] {
        let group = self.groups.get(id.0 as usize);
        group.map_or(&[], |group| &group.told)
    }

    /// One part of it, if samples are split by that.
    pub(crate) fn told_by(&self, id: GroupId, apart: Apart) -> Option<Identity> {
        let place = self.split.place(apart)?;
        self.told(id).get(place).copied()
    }

    /// The handle of a group that is told apart by this; of a new one
    /// without samples, if there is none.
    pub(crate) fn find_or_add(&mut self, told: &[Identity], first: u32) -> GroupId {
        let known = self.groups.iter().position(|group| *group.told == *told);
        let index = known.unwrap_or_else(|| {
            let told = told.into();
            self.groups.push(Group { told, first });
            self.groups.len() - 1
        });
        GroupId(index as u32)
    }

    /// The samples of a group.
    pub(crate) fn part(&self, id: GroupId) -> Option<&Part> {
        self.parts.get(id.0 as usize)
    }

    /// Weight of the scope: also what filters hide.
    pub(crate) fn scope_total(&self) -> Weight {
        self.scope_total
    }
}

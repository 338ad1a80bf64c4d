//! Weights, and samples counted by who ran and where.

use super::Selection;
use super::apart::{Apart, By, Identity, Samples};
use super::cut::CutStacks;
use super::judge::{Fate, Sieve};
use hashbrown::HashTable;
use prof_profile::{Profile, Sample, StackId};
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::hash::BuildHasher;
use std::iter::Sum;
use std::ops::{Add, AddAssign};

/// A share in percent; 0 of nothing.
#[expect(clippy::cast_precision_loss, reason = "a few decimals are shown")]
pub fn percent_of(part: u64, whole: u64) -> f64 {
    if whole == 0 {
        0.0
    } else {
        100.0 * part as f64 / whole as f64
    }
}

/// A sum of samples: their number and their periods. Saturates instead of
/// overflowing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, PartialOrd, Ord)]
pub struct Weight {
    /// Sum of the periods, events.
    pub period: u64,
    /// How many samples.
    pub samples: u64,
}

impl Weight {
    /// Nothing.
    pub const ZERO: Self = Self {
        period: 0,
        samples: 0,
    };

    /// Whether no sample is in it.
    pub fn is_zero(self) -> bool {
        self.samples == 0
    }

    /// Share of `whole` by period, percent; 0 of nothing.
    pub fn percent_of(self, whole: Self) -> f64 {
        percent_of(self.period, whole.period)
    }

    /// What is left without `part`, at least nothing.
    #[must_use]
    pub(crate) fn without(self, part: Self) -> Self {
        Self {
            period: self.period.saturating_sub(part.period),
            samples: self.samples.saturating_sub(part.samples),
        }
    }
}

impl Add for Weight {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self {
            period: self.period.saturating_add(other.period),
            samples: self.samples.saturating_add(other.samples),
        }
    }
}

impl AddAssign for Weight {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl Sum for Weight {
    fn sum<I: Iterator<Item = Self>>(weights: I) -> Self {
        weights.fold(Self::ZERO, |sum, weight| sum + weight)
    }
}

/// A handle to a `Group`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct GroupId(pub u32);

/// Samples that are the same but for their frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    /// What [`Split`] tells of them, part by part.
    pub(crate) told: Box<[Identity]>,
    /// Index of the first of them.
    pub(crate) first: u32,
}

/// Samples of one group with one stack.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cell {
    pub(crate) group: GroupId,
    pub(crate) stack: StackId,
    pub(crate) weight: Weight,
    /// Index of the first of these samples.
    pub(crate) first: u32,
}

/// Samples counted by group and stack.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) groups: Vec<Group>,
    pub(crate) cells: Vec<Cell>,
    /// All samples in the scope, hidden ones included.
    pub(crate) scope_total: Weight,
}

/// How samples are split into groups.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Split {
    /// What tells them apart; nothing of frames.
    aparts: Vec<Apart>,
    /// Length of a time slice, ns.
    quantum: u64,
}

impl Split {
    /// Those of `aparts` that are of the whole sample.
    pub(crate) fn of(aparts: &[Apart], quantum: u64) -> Self {
        let of_sample = |apart: &&Apart| !apart.by.is_of_frame();
        Self {
            aparts: aparts.iter().filter(of_sample).copied().collect(),
            quantum,
        }
    }

    /// Where in [`Group::told`] this part is.
    pub(crate) fn place(&self, apart: Apart) -> Option<usize> {
        self.aparts.iter().position(|known| *known == apart)
    }

    /// Whether the task decides alone.
    fn is_by_task(&self) -> bool {
        let of_task = |apart: &Apart| matches!(apart.by, By::Task(_) | By::Table);
        self.aparts.iter().all(of_task)
    }
}

/// The groups of samples, in the order in which they are first asked for.
struct Groups<'a> {
    split: &'a Split,
    samples: Samples<'a>,
    list: Vec<Group>,
    index: FxHashMap<Box<[Identity]>, GroupId>,
    /// By `TaskId`, where nothing but the task decides.
    of_task: Vec<Option<GroupId>>,
    is_by_task: bool,
    /// Of the sample at hand.
    told: Vec<Identity>,
}

impl<'a> Groups<'a> {
    fn new(split: &'a Split, samples: Samples<'a>) -> Self {
        Self {
            split,
            list: Vec::new(),
            index: FxHashMap::default(),
            of_task: vec![None; samples.profile.tasks.len()],
            is_by_task: split.is_by_task(),
            told: Vec::new(),
            samples,
        }
    }

    fn of(&mut self, row: usize, sample: &Sample) -> GroupId {
        let task = sample.task.0 as usize;
        if self.is_by_task
            && let Some(known) = self.of_task.get(task).copied().flatten()
        {
            return known;
        }
        let samples = &self.samples;
        let told = |apart: &Apart| samples.told(apart.by, sample, row);
        self.told.clear();
        self.told.extend(self.split.aparts.iter().map(told));
        let known = self.index.get(self.told.as_slice()).copied();
        let id = known.unwrap_or_else(|| self.add(row));
        if let Some(slot) = self.of_task.get_mut(task) {
            *slot = Some(id);
        }
        id
    }

    fn add(&mut self, row: usize) -> GroupId {
        let id = GroupId(self.list.len() as u32);
        let told: Box<[Identity]> = self.told.as_slice().into();
        self.index.insert(told.clone(), id);
        let first = row as u32;
        self.list.push(Group { told, first });
        id
    }
}

/// Cells by group and stack. Nearly every stack is of one group only, so the
/// first cell of a stack is found by its number, and others by hash.
struct Cells {
    list: Vec<Cell>,
    /// By `StackId`; `u32::MAX` for none.
    first_of_stack: Vec<u32>,
    others: HashTable<u32>,
}

impl Cells {
    fn new(profile: &Profile) -> Self {
        Self {
            list: Vec::new(),
            first_of_stack: vec![u32::MAX; profile.stacks.len()],
            others: HashTable::new(),
        }
    }

    /// The index of the cell that the sample is counted in.
    fn add(&mut self, group: GroupId, row: usize, sample: &Sample) -> u32 {
        let weight = Weight {
            period: sample.period,
            samples: 1,
        };
        let index = self.index_of(group, sample.stack);
        if let Some(cell) = self.list.get_mut(index as usize) {
            cell.weight += weight;
            return index;
        }
        self.list.push(Cell {
            group,
            stack: sample.stack,
            weight,
            first: row as u32,
        });
        index
    }

    /// The index of the cell, which is to be pushed if there is none yet.
    fn index_of(&mut self, group: GroupId, stack: StackId) -> u32 {
        let new = self.list.len() as u32;
        let Some(first) = self.first_of_stack.get_mut(stack.0 as usize) else {
            return new;
        };
        let list = &self.list;
        let Some(known) = list.get(*first as usize) else {
            *first = new;
            return new;
        };
        if known.group == group {
            return *first;
        }
        let same = |&index: &u32| {
            let cell = list.get(index as usize);
            cell.is_some_and(|cell| cell.group == group && cell.stack == stack)
        };
        let hash = |group: GroupId, stack: StackId| FxBuildHasher.hash_one((group, stack));
        if let Some(&index) = self.others.find(hash(group, stack), same) {
            return index;
        }
        self.others
            .insert_unique(hash(group, stack), new, |&index| {
                list.get(index as usize)
                    .map_or(0, |cell| hash(cell.group, cell.stack))
            });
        new
    }
}

/// The rows of the samples of an event that are in the scope, those
/// included that filters hide.
pub(crate) fn rows_in_scope<'a>(
    profile: &'a Profile,
    selection: &'a Selection,
) -> impl Iterator<Item = usize> + 'a {
    let mut sieve = Sieve::new(profile, selection, None);
    let rows = profile.samples.iter().enumerate();
    let of_event = rows.filter(|(_, sample)| sample.event == selection.event);
    of_event.filter_map(move |(row, sample)| (sieve.fate(&sample) != Fate::Outside).then_some(row))
}

/// Tells each sample in the scope, by row, and if it is shown what `cut` leaves of
/// its stack.
pub(crate) fn each_in_scope(
    (profile, selection): (&Profile, &Selection),
    cut: Option<&CutStacks>,
    mut tell: impl FnMut(usize, &Sample, Option<StackId>),
) {
    let mut sieve = Sieve::new(profile, selection, cut);
    for (row, sample) in profile.samples.iter().enumerate() {
        if sample.event != selection.event {
            continue;
        }
        let fate = sieve.fate(&sample);
        if fate == Fate::Outside {
            continue;
        }
        let detail = profile.samples.detail(row);
        let is_shown = fate == Fate::Shown && selection.filter.takes(detail);
        let left = || cut.map_or(sample.stack, |cut| cut.left_of(sample.stack));
        tell(row, &sample, is_shown.then(left));
    }
}

impl Tally {
    /// Counts what is selected; of stacks, what `cut` leaves.
    pub(crate) fn new(of: (&Profile, &Selection), cut: Option<&CutStacks>, split: &Split) -> Self {
        Self::observed(of, cut, split, |_, _| {})
    }

    /// The same; tells each sample in the scope, and the index of its cell if it
    /// is shown.
    pub(crate) fn observed(
        (profile, selection): (&Profile, &Selection),
        cut: Option<&CutStacks>,
        split: &Split,
        mut observe: impl FnMut(&Sample, Option<u32>),
    ) -> Self {
        let samples = Samples::new(profile, split.quantum, &selection.parent);
        let mut groups = Groups::new(split, samples);
        let mut cells = Cells::new(profile);
        let mut scope_total = Weight::ZERO;
        each_in_scope((profile, selection), cut, |row, recorded, left| {
            scope_total += Weight {
                period: recorded.period,
                samples: 1,
            };
            let cell = left.map(|stack| {
                // As in perf, callees that are ignored still are looked at.
                let group = groups.of(row, recorded);
                let sample = Sample { stack, ..*recorded };
                cells.add(group, row, &sample)
            });
            observe(recorded, cell);
        });
        Self {
            groups: groups.list,
            cells: cells.list,
            scope_total,
        }
    }
}

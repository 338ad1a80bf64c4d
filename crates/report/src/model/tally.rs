//! Weights, and samples counted by who ran and where.

use super::Selection;
use super::judge::{Fate, Sieve};
use super::select::{ParentPattern, StackEnd};
use crate::keys::{DetailKey, SortKey, without_digits};
use hashbrown::HashTable;
use prof_profile::{Detail, NameId, Profile, Sample, StackId, TaskId};
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher};
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

/// What samples sum up to. Sums stay at the largest value.
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
    pub fn without(self, part: Self) -> Self {
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

/// A handle to a [`Group`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct GroupId(pub u32);

/// What the rows of a table are split by beside the frame: those parts that
/// the sort keys name, `None` for the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Group {
    /// Thread name.
    pub comm: Option<NameId>,
    /// Of the thread names that differ in their digits alone, the first.
    pub comm_nodigit: Option<NameId>,
    /// Thread-group id.
    pub pid: Option<i32>,
    /// Thread id.
    pub tid: Option<i32>,
    /// CPU; `Some(None)` where it was not recorded.
    pub cpu: Option<Option<u32>>,
    /// Start of the time slice, ns.
    pub time: Option<u64>,
    /// The caller that the pattern for parents finds; `Some(None)` where it
    /// finds none.
    pub parent: Option<Option<NameId>>,
    /// Hash of what the record tells, as far as keys name it.
    pub detail: Option<u64>,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Split {
    pub(crate) comm: bool,
    pub(crate) comm_nodigit: bool,
    pub(crate) pid: bool,
    pub(crate) tid: bool,
    pub(crate) cpu: bool,
    pub(crate) parent: bool,
    /// Length of a time slice, ns.
    pub(crate) time: Option<u64>,
    /// Keys that the record tells, each by its bit.
    pub(crate) details: u64,
}

impl Split {
    pub(crate) fn of(keys: &[SortKey], quantum: u64) -> Self {
        Self {
            comm: keys.contains(&SortKey::Comm),
            comm_nodigit: keys.contains(&SortKey::CommNodigit),
            pid: keys.contains(&SortKey::Tgid),
            tid: keys.contains(&SortKey::Pid) || keys.contains(&SortKey::Tid),
            cpu: keys.contains(&SortKey::Cpu),
            parent: keys.contains(&SortKey::Parent),
            time: keys.contains(&SortKey::Time).then_some(quantum.max(1)),
            details: keys.iter().fold(0, |all, key| match key {
                SortKey::Detail(key) => all | key.bit(),
                _ => all,
            }),
        }
    }

    /// What tells samples apart by their records.
    fn of_detail(self, profile: &Profile, detail: &Detail) -> Option<u64> {
        if self.details == 0 {
            return None;
        }
        let mut hasher = DefaultHasher::new();
        for key in DetailKey::all().filter(|key| self.details & key.bit() != 0) {
            key.identity(profile, detail).hash(&mut hasher);
        }
        Some(hasher.finish())
    }

    fn group(self, profile: &Profile, task: TaskId, cpu: Option<u32>, slice: u64) -> Group {
        let task = profile.task(task);
        Group {
            comm: self.comm.then_some(task.comm),
            comm_nodigit: None,
            pid: self.pid.then_some(task.pid),
            tid: self.tid.then_some(task.tid),
            cpu: self.cpu.then_some(cpu),
            time: self.time.map(|_| slice),
            parent: None,
            detail: None,
        }
    }
}

/// The groups of samples, in the order in which they are first asked for.
struct Groups<'a> {
    split: Split,
    parents: Option<&'a Parents>,
    /// By name of a thread; see [`Group::comm_nodigit`].
    first_comms: FxHashMap<NameId, NameId>,
    list: Vec<Group>,
    index: FxHashMap<Group, GroupId>,
    /// By `TaskId`, where nothing but the task decides.
    of_task: Vec<Option<GroupId>>,
}

impl<'a> Groups<'a> {
    fn new(profile: &Profile, split: Split, parents: Option<&'a Parents>) -> Self {
        Self {
            split,
            parents,
            first_comms: match split.comm_nodigit {
                true => first_comms(profile),
                false => FxHashMap::default(),
            },
            list: Vec::new(),
            index: FxHashMap::default(),
            of_task: vec![None; profile.tasks.len()],
        }
    }

    fn of(&mut self, profile: &Profile, row: usize, sample: &Sample) -> GroupId {
        let task = sample.task.0 as usize;
        let by_task = !self.split.cpu
            && self.split.time.is_none()
            && self.parents.is_none()
            && self.split.details == 0;
        if by_task && let Some(known) = self.of_task.get(task).copied().flatten() {
            return known;
        }
        let slice = self
            .split
            .time
            .map_or(0, |quantum| sample.time / quantum * quantum);
        let mut group = self.split.group(profile, sample.task, sample.cpu, slice);
        let comm = profile.task(sample.task).comm;
        group.comm_nodigit = self.first_comms.get(&comm).copied();
        group.parent = self.parents.map(|parents| parents.of(sample.stack));
        let detail = profile.samples.detail(row);
        group.detail = detail.and_then(|detail| self.split.of_detail(profile, detail));
        let list = &mut self.list;
        let id = *self.index.entry(group).or_insert_with(|| {
            list.push(group);
            GroupId(list.len() as u32 - 1)
        });
        if let Some(slot) = self.of_task.get_mut(task) {
            *slot = Some(id);
        }
        id
    }
}

/// By name of a thread: the first one that differs from it in digits alone.
fn first_comms(profile: &Profile) -> FxHashMap<NameId, NameId> {
    let mut firsts: FxHashMap<String, NameId> = FxHashMap::default();
    let comms = profile.tasks.iter().map(|task| task.comm);
    comms
        .map(|comm| {
            let key = without_digits(profile.name(comm)).collect();
            (comm, *firsts.entry(key).or_insert(comm))
        })
        .collect()
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

    fn add(&mut self, group: GroupId, row: usize, sample: &Sample) {
        let weight = Weight {
            period: sample.period,
            samples: 1,
        };
        let index = self.index_of(group, sample.stack);
        if let Some(cell) = self.list.get_mut(index as usize) {
            cell.weight += weight;
            return;
        }
        self.list.push(Cell {
            group,
            stack: sample.stack,
            weight,
            first: row as u32,
        });
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

/// By `StackId`: the caller that a pattern finds.
pub(crate) struct Parents(Vec<Option<NameId>>);

impl Parents {
    pub(crate) fn new(profile: &Profile, wanted: &ParentPattern) -> Self {
        let matching: Vec<bool> = profile
            .functions
            .iter()
            .map(|function| {
                function.unnamed.is_none() && wanted.pattern.is_match(profile.name(function.name))
            })
            .collect();
        // As in perf, inlined functions are no callers.
        let found = |location| {
            let host = profile.frames_at(location).last()?;
            let is_it = matching.get(host.function.0 as usize) == Some(&true);
            is_it.then(|| profile.function(host.function).name)
        };
        let mut parents: Vec<Option<NameId>> = Vec::with_capacity(profile.stacks.len());
        // A stack's caller has a smaller id than the stack.
        for index in 0..profile.stacks.len() {
            let own = profile.stacks.get(StackId(index as u32));
            parents.push(own.and_then(|(caller, location)| {
                let outer = parents.get(caller.0 as usize).copied().flatten();
                match wanted.from {
                    StackEnd::Outermost => outer.or_else(|| found(location)),
                    StackEnd::Leaf => found(location).or(outer),
                }
            }));
        }
        Self(parents)
    }

    fn of(&self, stack: StackId) -> Option<NameId> {
        self.0.get(stack.0 as usize).copied().flatten()
    }
}

impl Tally {
    /// Counts what is selected; of stacks, what is kept of them (see
    /// [`super::Scene::kept`]).
    pub(crate) fn new(
        profile: &Profile,
        selection: &Selection,
        kept: Option<&[StackId]>,
        split: Split,
    ) -> Self {
        let parents = split
            .parent
            .then(|| Parents::new(profile, &selection.parent));
        let mut sieve = Sieve::new(profile, selection, kept);
        let mut groups = Groups::new(profile, split, parents.as_ref());
        let mut cells = Cells::new(profile);
        let mut scope_total = Weight::ZERO;
        for (row, mut sample) in profile.samples.iter().enumerate() {
            if sample.event != selection.event {
                continue;
            }
            let recorded = sample;
            sample.stack = sieve.kept(sample.stack);
            let fate = sieve.fate(&sample);
            if fate == Fate::Outside {
                continue;
            }
            scope_total += Weight {
                period: sample.period,
                samples: 1,
            };
            let detail = profile.samples.detail(row);
            if fate == Fate::Shown && selection.filter.takes(detail) {
                // As in perf, callees that are ignored still are looked at.
                let group = groups.of(profile, row, &recorded);
                cells.add(group, row, &sample);
            }
        }
        Self {
            groups: groups.list,
            cells: cells.list,
            scope_total,
        }
    }
}

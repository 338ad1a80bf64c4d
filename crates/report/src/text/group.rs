//! Events of a group in one table: the rows are the first event's, with the
//! weights of the others beside them.

use super::compare::Comparer;
use super::{Grouping, TextOptions};
use crate::keys::{Cells, Field};
use crate::model::{GroupId, Identity, Row, RowKey, Rows, Scene, Weight};
use prof_profile::{EventId, Profile};
use rustc_hash::FxHashMap;
use std::cmp::Ordering;

/// The events of each table, in order; the first one leads.
pub fn tables(profile: &Profile, grouping: Grouping) -> Vec<Vec<EventId>> {
    let all = 0..profile.events.len() as u16;
    if grouping == Grouping::Together && profile.groups.is_empty() {
        return vec![all.map(EventId).collect()];
    }
    let mut tables: Vec<Vec<EventId>> = Vec::new();
    let mut left = 0;
    for event in all {
        if left > 0
            && let Some(last) = tables.last_mut()
        {
            left -= 1;
            last.push(EventId(event));
            continue;
        }
        let mut groups = profile.groups.iter();
        if grouping != Grouping::Apart
            && let Some(group) = groups.find(|group| group.leader == EventId(event))
        {
            left = group.members.saturating_sub(1);
        }
        tables.push(vec![EventId(event)]);
    }
    tables
}

/// How perf names the events of a table: alone, as a group that was
/// recorded, or as one that was asked for.
pub fn title(profile: &Profile, events: &[EventId]) -> String {
    let name = |event: &EventId| {
        let event = profile.events.get(usize::from(event.0));
        event.map_or("", |event| event.name.as_str())
    };
    let names: Vec<&str> = events.iter().map(name).collect();
    let names = names.join(", ");
    let mut groups = profile.groups.iter();
    let group = groups.find(|group| Some(&group.leader) == events.first());
    match group.filter(|_| events.len() > 1) {
        Some(group) => {
            let own = group.name.as_deref().unwrap_or("anon group");
            format!("{own} {{ {names} }}")
        }
        None => names,
    }
}

/// What is 100 %: all in scope, or what filters let pass.
pub(super) fn whole_of(scene: &Scene<'_>, rows: &Rows, options: &TextOptions) -> Weight {
    match (options.relative, options.symbol_filter.as_deref()) {
        (false, _) => rows.scope_total(),
        (true, None) => rows.total(),
        (true, part) => {
            let names = Cells::new(scene, rows).with(options.look);
            let named = rows.list().iter().filter(|row| names.is_named(row, part));
            let named: Weight = named.map(|row| row.own).sum();
            // perf counts those samples that other filters let pass.
            Weight {
                samples: rows.total().samples,
                ..named
            }
        }
    }
}

/// What the other events of a table counted.
#[derive(Default)]
pub(super) struct Others {
    /// By row: a row of each other event.
    rows: FxHashMap<RowKey, Vec<Row>>,
    /// 100 % of each.
    wholes: Vec<Weight>,
}

impl Others {
    /// Takes the rows of the other events; those that the first one does not
    /// have are added to its own, without weight.
    ///
    /// Scenes of one profile that differ in their event alone have the same
    /// frames under the same numbers.
    pub(super) fn join(
        rows: &mut Rows,
        scenes: &[Scene<'_>],
        others: &[Rows],
        options: &TextOptions,
    ) -> Self {
        let mut all = Self::default();
        if others.is_empty() {
            return all;
        }
        let place = |row: &Row| ((rows.told(row).into(), row.key.frame), row.key);
        let mut places: FxHashMap<(Box<[Identity]>, u32), RowKey> =
            rows.list().iter().map(place).collect();
        let without_weight = vec![Row::default(); scenes.len()];
        for (index, (scene, other)) in scenes.iter().zip(others).enumerate() {
            all.wholes.push(whole_of(scene, other, options));
            for row in other.list() {
                let told = other.told(row);
                let key = *places
                    .entry((told.into(), row.key.frame))
                    .or_insert_with(|| rows.add_without_weight(told, row));
                let beside = all
                    .rows
                    .entry(key)
                    .or_insert_with(|| without_weight.clone());
                if let Some(slot) = beside.get_mut(index) {
                    *slot = *row;
                }
            }
        }
        all
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.wholes.len()
    }

    /// The row as each of the others counted it, with their 100 %.
    pub(super) fn of(&self, key: RowKey) -> impl Iterator<Item = (Row, Weight)> + '_ {
        let rows = self.rows.get(&key);
        self.wholes.iter().enumerate().map(move |(index, &whole)| {
            let row = rows.and_then(|rows| rows.get(index)).copied();
            (row.unwrap_or_default(), whole)
        })
    }

    /// Whether one of them took samples in the row itself.
    pub(super) fn has_own(&self, key: RowKey) -> bool {
        self.of(key).any(|(row, _)| !row.own.is_zero())
    }

    /// Compares by the fields, weights event by event.
    pub(super) fn compare(&self, comparer: &Comparer<'_>, a: &Row, b: &Row) -> Ordering {
        let by_field = |&field: &Field| {
            // perf orders callers by the first event alone.
            let has_others = field != Field::Children;
            let others = || {
                let pairs = self.of(a.key).zip(self.of(b.key));
                pairs
                    .filter(|_| has_others)
                    .map(|((a, _), (b, _))| comparer.by_weight(field, &a, &b))
                    .fold(Ordering::Equal, Ordering::then)
            };
            comparer
                .by_weight(field, a, b)
                .then_with(others)
                .then_with(|| comparer.by_field(field, a, b))
        };
        let fields = comparer.fields.iter().map(by_field);
        fields
            .fold(Ordering::Equal, Ordering::then)
            .then_with(|| comparer.compare(a, b))
    }
}

impl Rows {
    /// Adds a row of another table of the same frames, without its weight.
    fn add_without_weight(&mut self, told: &[Identity], row: &Row) -> RowKey {
        let group: GroupId = self.group_id(told, row.first);
        let key = RowKey {
            group,
            frame: row.key.frame,
        };
        // Nor chains: those are the first event's.
        self.push(Row::without_weight(key, row.site, row.first));
        key
    }
}

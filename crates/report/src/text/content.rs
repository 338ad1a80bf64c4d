//! What a table shows: its rows, counted and in order.

use super::chain::{ChainPlan, Chains};
use super::compare::{Comparer, Packed};
use super::group::{self, Others, whole_of};
use super::{CallGraph, ChainKey, ChainOrder, ChainStyle, Grouping, TextOptions};
use crate::branch_sums::BranchSums;
use crate::keys::{Cells, Field, Ranks, SYMBOL, SortKey};
use crate::model::{
    Apart, Certainty, FrameLook, InlineRows, Row, RowKey, Rows, RowsOptions, Scene, Selection,
    Weight, first_places, rows_in_scope,
};
use prof_profile::{Counting, EventId, FileOffset};
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::cmp::Ordering;

/// The rows of a table, and what they are counted and compared by.
pub(super) struct Content<'a> {
    pub(super) scene: &'a Scene<'a>,
    pub(super) options: &'a TextOptions,
    /// What columns there are.
    pub(super) fields: Vec<Field>,
    pub(super) rows: Rows,
    /// Indices of the rows, in order.
    pub(super) order_of_rows: Vec<u32>,
    /// Weight of 100 %.
    pub(super) whole: Weight,
    pub(super) children: bool,
    pub(super) graph: CallGraph,
    pub(super) order: ChainOrder,
    /// The other events of its group.
    pub(super) others: Others,
    /// What is above it.
    pub(super) heading: Heading,
    /// Where each row was first seen, if that is shown.
    places: FxHashMap<RowKey, FileOffset>,
    /// What branches in chains tell of each row, if there are any.
    branches: FxHashMap<RowKey, BranchSums>,
    /// How sure the rows are, if that is shown.
    certainty: Option<Certainty>,
}

/// What a table is of.
pub(super) struct Heading {
    pub(super) events: String,
    pub(super) is_plural: bool,
    pub(super) counted: Weight,
    /// Of branches, that of those that they were sampled with.
    pub(super) samples: u64,
}

impl<'a> Content<'a> {
    /// What tables of these scenes show: the rows and chains are those of the
    /// first one. `has_chains` if its event was sampled with call chains.
    pub(super) fn new(
        scene: &'a Scene<'a>,
        others: &[Scene<'a>],
        options: &'a TextOptions,
        has_chains: bool,
    ) -> Self {
        let children = options.children && has_chains;
        let mut graph = options.call_graph;
        if !has_chains {
            graph.style = ChainStyle::None;
        }
        let order = options.order(has_chains);
        let (fields, sort) = options.plan(children);
        let how = rows_options(options, &sort);
        let mut rows = Rows::unsorted(scene, &how);
        let tables: Vec<Rows> = others
            .iter()
            .map(|scene| Rows::unsorted(scene, &how))
            .collect();
        let heading = Heading::of(scene, (&rows, others, &tables), options);
        let whole = whole_of(scene, &rows, options);
        let others = Others::join(&mut rows, others, &tables, options);
        let has_places = options.look.verbose && sort.contains(&Field::Key(SYMBOL));
        let places = has_places.then(|| first_places(scene, &rows, &how, children));
        let keys: Vec<SortKey> = keys(&sort).collect();
        let comparer = Comparer {
            ranks: &Ranks::new((scene, &rows), &keys, options.look),
            fields: &sort,
            order: (graph.style != ChainStyle::None).then_some(order),
            children,
        };
        let is_sure = fields.contains(&Field::Interval);
        let (order_of_rows, certainty) = rayon::join(
            || in_order((scene, options), &comparer, &rows, &others),
            || is_sure.then(|| Certainty::new(scene, (&rows, &how), options.relative, false)),
        );
        let by_line = is_by_line(&fields);
        let branches = branches_of(scene, &rows, (order, children, by_line));
        Self {
            certainty,
            branches,
            scene,
            options,
            fields,
            rows,
            order_of_rows,
            whole,
            children,
            graph,
            order,
            others,
            heading,
            places: places.unwrap_or_default(),
        }
    }

    /// All rows, in no particular order: of each other's neighbourhood, if
    /// that can be had.
    pub(super) fn all(&self) -> impl ParallelIterator<Item = &Row> {
        let list = self.rows.list();
        let are_all = self.order_of_rows.len() == list.len();
        let (whole, some) = if are_all {
            (list, [].as_slice())
        } else {
            ([].as_slice(), self.order_of_rows.as_slice())
        };
        let some = some.par_iter();
        whole
            .par_iter()
            .chain(some.filter_map(|&index| list.get(index as usize)))
    }

    /// Rows in order, without those below the limit.
    pub(super) fn rows(&self) -> impl Iterator<Item = &Row> {
        let list = self.rows.list();
        self.order_of_rows
            .iter()
            .filter_map(|&index| list.get(index as usize))
            .filter(|row| self.share(row) >= self.options.percent_limit)
    }

    /// How sure the rows are.
    pub(super) fn certainty(&self) -> Certainty {
        let (_, sort) = self.options.plan(self.children);
        let how = rows_options(self.options, &sort);
        let made = (&self.rows, &how);
        Certainty::new(self.scene, made, self.options.relative, self.children)
    }

    /// The line that says what intervals are of and what they can show.
    pub(super) fn about_intervals(&self) -> Option<String> {
        let certainty = self.certainty.as_ref()?;
        let least = certainty.detectable();
        Some(format!(
            "Intervals: where sampling this same run again would find {}, in 95 of 100 cases. \
             Between two such recordings, a change of {least:.1} % of the total is found in 9 of 10.",
            if self.children { "Self" } else { "Overhead" },
        ))
    }

    pub(super) fn share(&self, row: &Row) -> f64 {
        self.weight(row).percent_of(self.whole)
    }

    /// What the numbers and names of cells are looked up in.
    pub(super) fn cells(&self) -> Cells<'_> {
        Cells::new(self.scene, &self.rows)
            .with(self.options.look)
            .at(&self.places)
            .sure(self.certainty.as_ref())
            .counting(&self.branches)
    }

    /// Whether rows are told apart by source line.
    pub(super) fn is_by_line(&self) -> bool {
        is_by_line(&self.fields)
    }

    /// The weight that its share in the first column is of.
    pub(super) fn weight(&self, row: &Row) -> Weight {
        if self.children { row.total } else { row.own }
    }
}

fn is_by_line(fields: &[Field]) -> bool {
    keys(fields).any(SortKey::splits_by_line)
}

/// What branches in chains tell of each row.
fn branches_of(
    scene: &Scene<'_>,
    rows: &Rows,
    (order, children, by_line): (ChainOrder, bool, bool),
) -> FxHashMap<RowKey, BranchSums> {
    if scene.profile().branch_frames.is_empty() {
        return FxHashMap::default();
    }
    let plan = ChainPlan {
        graph: CallGraph {
            threshold: 0.0,
            key: ChainKey::Address,
            ..CallGraph::default()
        },
        order,
        children,
        whole: rows.total(),
        by_line,
    };
    let list: Vec<&Row> = rows.list().iter().collect();
    let chains = Chains::new(scene, plan, rows, &list);
    let sums = chains.sums(list.iter().copied());
    sums.map(|(row, sums)| (row.key, sums)).collect()
}

/// How rows are counted that are compared by these fields.
fn rows_options(options: &TextOptions, sort: &[Field]) -> RowsOptions {
    RowsOptions {
        aparts: aparts(sort),
        frames: FrameLook {
            inline_rows: InlineRows::ByHost,
            full_paths: options.look.full_paths,
            full_dso_paths: options.look.verbose,
        },
        quantum: options.quantum,
    }
}

/// The keys among the fields by which rows are in order.
pub(super) fn keys(order: &[Field]) -> impl Iterator<Item = SortKey> {
    order.iter().filter_map(|field| match field {
        Field::Key(key) => Some(*key),
        _ => None,
    })
}

/// What tells these rows apart.
pub(super) fn aparts(order: &[Field]) -> Vec<Apart> {
    keys(order).map(SortKey::apart).collect()
}

impl Heading {
    fn of(
        scene: &Scene<'_>,
        (rows, others, tables): (&Rows, &[Scene<'_>], &[Rows]),
        options: &TextOptions,
    ) -> Self {
        let profile = scene.profile();
        let scenes = std::iter::once(scene).chain(others);
        let events: Vec<EventId> = scenes.map(|scene| scene.selection().event).collect();
        let leads = profile
            .groups
            .iter()
            .any(|group| Some(&group.leader) == events.first());
        // Told to show none together, perf makes a group of all first.
        let leads_in_perf = options.grouping == Grouping::Apart
            && profile.groups.is_empty()
            && profile.events.len() > 1
            && events.first() == Some(&EventId(0));
        let all_scenes = std::iter::once(scene).chain(others);
        let counted = all_scenes.zip(std::iter::once(rows).chain(tables));
        let counted = counted.map(|(scene, rows)| whole_of(scene, rows, options));
        let counted: Weight = counted.sum();
        let sampled = |selection: &Selection| {
            let rows = rows_in_scope(profile, selection);
            rows.filter(|&row| profile.samples.begins_sample(row))
                .count() as u64
        };
        let all = std::iter::once(scene).chain(others);
        Self {
            samples: match profile.counting {
                Counting::Branches => all.map(|scene| sampled(scene.selection())).sum(),
                Counting::Samples | Counting::Memory => counted.samples,
            },
            counted,
            is_plural: leads || events.len() > 1 || leads_in_perf,
            events: group::title(profile, &events),
        }
    }
}

/// Indices of the rows that are shown, in order.
fn in_order(
    (scene, options): (&Scene<'_>, &TextOptions),
    comparer: &Comparer<'_>,
    rows: &Rows,
    others: &Others,
) -> Vec<u32> {
    let names = Cells::new(scene, rows).with(options.look);
    let names_symbols = comparer.fields.contains(&Field::Key(SYMBOL));
    let named_only = scene.selection().scope.named_only && names_symbols;
    let shown = rows
        .list()
        .par_iter()
        .enumerate()
        .filter(|(_, row)| comparer.children || !row.own.is_zero() || others.has_own(row.key))
        .filter(|(_, row)| !named_only || !names.is_unnamed(row))
        .filter(|(_, row)| !options.exclude_other || names.has_parent(row))
        .filter(|(_, row)| names.is_named(row, options.symbol_filter.as_deref()));
    let mut order = sorted(comparer, rows.list(), shown.map(|(index, _)| index));
    if others.len() > 0 {
        let row = |&index: &u32| rows.list().get(index as usize);
        order.sort_by(|a, b| match (row(a), row(b)) {
            (Some(a), Some(b)) => others.compare(comparer, a, b),
            _ => Ordering::Equal,
        });
    }
    order
}

/// Indices of rows in order. What decides nearly always is kept beside the
/// index: most comparisons need no more.
fn sorted(
    comparer: &Comparer<'_>,
    rows: &[Row],
    shown: impl ParallelIterator<Item = usize>,
) -> Vec<u32> {
    let row = |index: u32| rows.get(index as usize);
    let packed = |row: &Row| comparer.packed(row);
    let mut order: Vec<(Packed, u32)> = shown
        .map(|index| {
            let packed = rows.get(index).map(packed);
            (packed.unwrap_or_default(), index as u32)
        })
        .collect();
    order.par_sort_unstable_by(|a, b| {
        a.0.cmp(&b.0).then_with(|| match (row(a.1), row(b.1)) {
            (Some(a), Some(b)) => comparer.compare(a, b),
            _ => Ordering::Equal,
        })
    });
    order.into_iter().map(|(_, index)| index).collect()
}

#[cfg(test)]
mod tests {
    use crate::text::{TextOptions, report};
    use prof_sketch::Sketch;

    #[test]
    fn intervals_are_a_column_that_is_asked_for_and_its_meaning_is_told() {
        let mut sketch = Sketch::new();
        let task = sketch.task(1, 1, "app");
        for at in 0..100 {
            let stack = if at % 4 == 0 { "app:f" } else { "app:g" };
            sketch.sample(task, stack, at, 10);
        }
        let written = |fields: &str| {
            let options = TextOptions {
                fields: fields.parse().ok(),
                ..TextOptions::default()
            };
            let mut out = Vec::new();
            report(&sketch.profile, &options, &mut out).expect("memory takes it");
            String::from_utf8(out).expect("text")
        };
        let with = written("+interval");
        let row = with.lines().find(|line| line.contains("[.] g"));
        let row = row.unwrap_or_default();
        assert!(row.contains("75.00%    [64.14, 83.42]"), "{with}");
        assert!(
            with.contains("95% interval") && with.contains("9 of 10"),
            "{with}"
        );
        assert!(!written("+period").contains("nterval"));
    }
}

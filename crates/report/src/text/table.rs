//! A table laid out: comment lines, headings, rows, chains.

use super::allowance::{Allowance, CellAllowance, Drawing};
use super::chain::{ChainPlan, Chains};
use super::column::{Column, fit, fit_levels, pad};
use super::compare::{Comparer, Packed};
use super::graph::Pen;
use super::group::{self, Others};
use super::hierarchy;
use super::threads::threads;
use super::{CallGraph, ChainOrder, ChainStyle, Grouping, TextOptions};
use crate::escape;
use crate::keys::{Cells, Field, Ranks, SYMBOL, SortKey, char_count};
use crate::model::{
    Apart, EventsInScope, Filter, FrameLook, Granularity, InlineRows, Row, RowKey, Rows,
    RowsOptions, Scene, Selection, StackEnd, Weight, first_places, rows_in_scope,
};
use crate::trust;
use prof_profile::{Counting, EventId, FileOffset, Profile};
use rayon::prelude::*;
use rustc_hash::FxHashMap;
use std::cmp::Ordering;
use std::fmt::Write;
use std::io;

/// Writes the report of all events that were sampled.
///
/// # Errors
/// If `out` cannot be written to.
pub fn report(
    profile: &Profile,
    options: &TextOptions,
    out: &mut impl io::Write,
) -> io::Result<()> {
    let preamble = match options.quiet {
        false => preamble(profile, options),
        true => elided_names(options, ""),
    };
    out.write_all(preamble.as_bytes())?;
    let mut allowance = Allowance::of(profile, options);
    let in_scope = EventsInScope::new(profile, &options.selection);
    for events in group::tables(profile, options.grouping) {
        let leader = events.first().copied().unwrap_or(EventId(0));
        if !is_silent(profile, leader) && in_scope.shows(leader) {
            write_events(profile, options, (&events, &mut allowance), out)?;
        }
    }
    if options.threads {
        out.write_all(threads(profile).as_bytes())?;
    }
    Ok(())
}

/// A single name that all rows share is told above the tables, not in them.
fn elided(filter: &Filter, field: Field) -> Option<(&'static str, &str)> {
    match field {
        Field::Key(key) => key.told_above(filter),
        _ => None,
    }
}

/// The comment lines above all events.
pub(super) fn preamble(profile: &Profile, options: &TextOptions) -> String {
    let mut out = String::new();
    let lines = match options.columns {
        Some(columns) => trust::lines_within(profile, columns.saturating_sub("# ".len())),
        None => trust::lines(profile),
    };
    for line in lines {
        let _ = writeln!(out, "# {line}");
    }
    out.push_str(&elided_names(options, "#\n"));
    let _ = writeln!(
        out,
        "#\n# Total Lost Samples: {}\n#",
        profile.trust.most_lost()
    );
    out
}

/// The lines that tell names which all rows share, each after `before`.
fn elided_names(options: &TextOptions, before: &str) -> String {
    let (columns, order) = options.plan(false);
    let has_column = |field| columns.contains(&field) || order.contains(&field);
    let shown = SortKey::all().map(Field::Key).filter(|&it| has_column(it));
    let mut out = String::new();
    for (what, name) in shown.filter_map(|field| elided(&options.selection.filter, field)) {
        let _ = writeln!(out, "{before}# {what}: {}", escape::terminal(name));
    }
    out
}

fn write_events(
    profile: &Profile,
    options: &TextOptions,
    (events, allowance): (&[EventId], &mut Allowance),
    out: &mut impl io::Write,
) -> io::Result<()> {
    let mut scenes = events
        .iter()
        .map(|&event| scene_of(profile, options, event));
    let Some((scene, has_chains)) = scenes.next() else {
        return Ok(());
    };
    let others: Vec<Scene<'_>> = scenes.map(|(scene, _)| scene).collect();
    if options.hierarchy {
        let all = (&scene, others.as_slice());
        return hierarchy::write(all, options, (has_chains, allowance), out);
    }
    let (mut table, fields) = Table::unlaid(&scene, &others, options, has_chains);
    table.layout = table.laid_out(&fields);
    let chains = table.chains(&table.rows().collect::<Vec<_>>());
    if !options.quiet {
        let mut head = String::new();
        table.head(&mut head);
        out.write_all(head.as_bytes())?;
    }
    table.body(&chains, allowance, out)
}

/// An event that took no samples (perf's dummy) has nothing to say, unless
/// there is no other.
pub(crate) fn is_silent(profile: &Profile, event: EventId) -> bool {
    let took = |event: &prof_profile::Event| event.samples > 0;
    let own = profile.events.get(usize::from(event.0));
    own.is_some_and(|event| !took(event)) && profile.events.iter().any(took)
}

/// The scene of an event, and whether it was sampled with call chains.
pub(crate) fn scene_of<'p>(
    profile: &'p Profile,
    options: &TextOptions,
    event: EventId,
) -> (Scene<'p>, bool) {
    let has_chains = profile
        .events
        .get(usize::from(event.0))
        .is_some_and(|event| event.has_callchain);
    let (_, order) = options.plan(has_chains && options.children);
    let selection = selection(options, event, has_chains);
    let scene = Scene::for_table(profile, selection, &aparts(&order), options.quantum);
    (scene, has_chains)
}

/// The keys among the fields by which rows are in order.
fn keys(order: &[Field]) -> impl Iterator<Item = SortKey> {
    order.iter().filter_map(|field| match field {
        Field::Key(key) => Some(*key),
        _ => None,
    })
}

/// What tells these rows apart.
fn aparts(order: &[Field]) -> Vec<Apart> {
    keys(order).map(SortKey::apart).collect()
}

/// The selection, with frames as fine as the columns need.
fn selection(options: &TextOptions, event: EventId, has_chains: bool) -> Selection {
    let mut selection = options.selection.clone();
    selection.event = event;
    selection.parent.from = match options.order(has_chains) {
        ChainOrder::Caller => StackEnd::Outermost,
        ChainOrder::Callee => StackEnd::Leaf,
    };
    let (columns, order) = options.plan(has_chains && options.children);
    let mut keys = keys(&columns).chain(keys(&order));
    let by_chain = match options.call_graph.key {
        super::ChainKey::Function => Granularity::Function,
        super::ChainKey::Srcline => Granularity::Line,
        super::ChainKey::Address => Granularity::Address,
    };
    let by_column = if keys.any(SortKey::splits_by_line) {
        Granularity::Line
    } else {
        Granularity::Function
    };
    selection.granularity = selection.granularity.max(by_chain).max(by_column);
    selection
}

/// A table of one event: what it shows, and how wide.
pub struct Table<'a> {
    scene: &'a Scene<'a>,
    options: &'a TextOptions,
    layout: Layout,
    pub(super) rows: Rows,
    /// Indices of the rows, in order.
    pub(super) order_of_rows: Vec<u32>,
    /// Weight of 100 %.
    whole: Weight,
    children: bool,
    graph: CallGraph,
    order: ChainOrder,
    /// The other events of its group.
    others: Others,
    /// What is above it.
    heading: Heading,
    /// Where each row was first seen, if that is shown.
    places: FxHashMap<RowKey, FileOffset>,
}

/// Columns as they are laid out.
#[derive(Default)]
struct Layout {
    columns: Vec<Column>,
    /// Whether a column that is not shown would be the last; perf fills the
    /// one before it.
    ends_elided: bool,
}

/// What a table is of.
struct Heading {
    events: String,
    is_plural: bool,
    counted: Weight,
    /// Of branches, that of those that they were sampled with.
    samples: u64,
}

impl<'a> Table<'a> {
    /// The table of a scene; `has_chains` if its event was sampled with call
    /// chains.
    pub fn new(scene: &'a Scene<'a>, options: &'a TextOptions, has_chains: bool) -> Self {
        Self::of_group(scene, &[], options, has_chains)
    }

    /// The table of several events: rows and chains are those of `scene`.
    pub(super) fn of_group(
        scene: &'a Scene<'a>,
        others: &[Scene<'a>],
        options: &'a TextOptions,
        has_chains: bool,
    ) -> Self {
        let (mut table, fields) = Self::unlaid(scene, others, options, has_chains);
        table.layout = table.laid_out(&fields);
        table
    }

    /// The same before its columns have a width, and their fields.
    fn unlaid(
        scene: &'a Scene<'a>,
        others: &[Scene<'a>],
        options: &'a TextOptions,
        has_chains: bool,
    ) -> (Self, Vec<Field>) {
        let children = options.children && has_chains;
        let mut graph = options.call_graph;
        if !has_chains {
            graph.style = ChainStyle::None;
        }
        let order = options.order(has_chains);
        let (columns, sort) = options.plan(children);
        let names_symbols = sort.contains(&Field::Key(SYMBOL));
        let how = RowsOptions {
            aparts: aparts(&sort),
            frames: FrameLook {
                inline_rows: InlineRows::ByHost,
                full_paths: options.look.full_paths,
                full_dso_paths: options.look.verbose,
            },
            quantum: options.quantum,
        };
        let mut rows = Rows::unsorted(scene, &how);
        let tables: Vec<Rows> = others
            .iter()
            .map(|scene| Rows::unsorted(scene, &how))
            .collect();
        let heading = Heading::of(scene, &rows, others, &tables, options);
        let whole = if options.relative {
            rows.total()
        } else {
            rows.scope_total()
        };
        let others = Others::join(&mut rows, others, &tables, options);
        let sort_keys: Vec<SortKey> = keys(&sort).collect();
        let comparer = Comparer {
            ranks: &Ranks::new((scene, &rows), &sort_keys, options.look),
            fields: &sort,
            order: (graph.style != ChainStyle::None).then_some(order),
            children,
        };
        let places = if options.look.verbose && names_symbols {
            first_places(scene, &rows, &how, children)
        } else {
            FxHashMap::default()
        };
        let names = Cells::new(scene, &rows).with(options.look);
        let named_only = scene.selection().scope.named_only && names_symbols;
        let shown = rows
            .list()
            .par_iter()
            .enumerate()
            .filter(|(_, row)| children || !row.own.is_zero() || others.has_own(row.key))
            .filter(|(_, row)| !named_only || !names.is_unnamed(row))
            .filter(|(_, row)| !options.exclude_other || names.has_parent(row))
            .filter(|(_, row)| names.is_named(row, options.symbol_filter.as_deref()));
        let mut order_of_rows = sorted(&comparer, rows.list(), shown.map(|(index, _)| index));
        if others.len() > 0 {
            let row = |&index: &u32| rows.list().get(index as usize);
            order_of_rows.sort_by(|a, b| match (row(a), row(b)) {
                (Some(a), Some(b)) => others.compare(&comparer, a, b),
                _ => Ordering::Equal,
            });
        }
        let table = Self {
            scene,
            options,
            layout: Layout::default(),
            rows,
            order_of_rows,
            whole,
            children,
            graph,
            order,
            others,
            heading,
            places,
        };
        (table, columns)
    }

    /// All rows, in no particular order: of each other's neighbourhood, if
    /// that can be had.
    fn all(&self) -> impl ParallelIterator<Item = &Row> {
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
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        let list = self.rows.list();
        self.order_of_rows
            .iter()
            .filter_map(|&index| list.get(index as usize))
            .filter(|row| self.share(row) >= self.options.percent_limit)
    }

    /// All rows, as counted.
    pub(crate) fn all_rows(&self) -> &Rows {
        &self.rows
    }

    pub(super) fn columns(&self) -> &[Column] {
        &self.layout.columns
    }

    /// The columns' fields.
    pub(crate) fn fields(&self) -> impl Iterator<Item = Field> {
        self.columns().iter().map(|column| column.field)
    }

    /// Weight of 100 %.
    pub(crate) fn whole(&self) -> Weight {
        self.whole
    }

    pub(super) fn share(&self, row: &Row) -> f64 {
        self.weight(row).percent_of(self.whole)
    }

    /// Columns of these fields, as wide as the rows need them.
    fn laid_out(&self, fields: &[Field]) -> Layout {
        let keys = fields.iter().filter(|field| !field.is_weight());
        // A tree has all its levels.
        let all_elided = self.options.hierarchy
            || keys
                .clone()
                .all(|&field| elided(&self.scene.selection().filter, field).is_some());
        // Widths are given for all, those included that are not shown.
        let shown = fields.iter().copied().enumerate().filter(|&(_, field)| {
            all_elided || elided(&self.scene.selection().filter, field).is_none()
        });
        let beside_children = fields.contains(&Field::Children) && !self.options.has_own_columns();
        let mut columns: Vec<Column> = shown
            .map(|(index, field)| self.column(index, field, beside_children))
            .collect();
        match self.options.columns_of_names() {
            Some(terminal) if self.options.hierarchy => fit_levels(&mut columns, terminal),
            Some(terminal) => fit(&mut columns, terminal),
            None => {}
        }
        self.limit_names(&mut columns);
        let last = columns.last().map(|column| column.field);
        Layout {
            ends_elided: last != fields.last().copied(),
            columns,
        }
    }

    /// Limits names that are too long to stand in each row.
    fn limit_names(&self, columns: &mut [Column]) {
        let texts = columns.iter().filter(|column| !column.field.is_weight());
        let rows = self.rows.list().len();
        let (profile, options) = (self.scene.profile(), self.options);
        let allowed = CellAllowance::of(profile, options, texts.count(), rows);
        let last = columns.len().saturating_sub(1);
        for (at, column) in columns.iter_mut().enumerate() {
            let Field::Key(key) = column.field else {
                continue;
            };
            // The last column is not padded.
            let is_ragged = at == last && !column.pads_itself();
            if column.width > allowed.cell
                && (!is_ragged || self.length(key) > allowed.column as u64)
            {
                column.limit(allowed.cell, false);
            }
        }
    }

    /// Characters of all cells.
    fn length(&self, key: SortKey) -> u64 {
        let cells = self.cells();
        self.all().map(|row| cells.width(key, row) as u64).sum()
    }

    /// Characters that a text may have, if some have more than can stand in
    /// each row.
    pub(crate) fn most_characters(&self, field: Field) -> Option<usize> {
        if self.options.columns.is_some() {
            return None;
        }
        let mut columns = self.columns().iter();
        let column = columns.find(|column| column.field == field)?;
        column.is_fitted.then_some(column.width)
    }

    fn column(&self, index: usize, field: Field, beside_children: bool) -> Column {
        let given = self
            .options
            .widths
            .get(index)
            .copied()
            .filter(|&width| width > 0);
        let look = self.options.look;
        let needed = || match field {
            Field::Key(key) => {
                let cells = self.cells();
                let longest = self.longest(key, &cells);
                let least = self.width_beside_addresses(key, &cells);
                longest.max(key.least_width(look)).max(least)
            }
            _ => field.least_width(look),
        };
        let fixed = match field {
            Field::Key(key) => key.fit().digits(),
            _ => None,
        };
        let width = given.or(fixed).unwrap_or_else(needed);
        let heading = field.heading(beside_children);
        let least = if field.is_weight() {
            let events = field.least_width(look) * (self.others.len() + 1);
            let events = if self.others.len() > 0 { events } else { 0 };
            heading.chars().count().max(events)
        } else {
            0
        };
        Column {
            field,
            heading,
            width: width.max(least),
            number_width: width,
            is_given: given.is_some(),
            name_room: None,
            is_fitted: false,
            is_not_counted: field == Field::Children && !self.children,
        }
    }

    /// Characters of the longest cell.
    fn longest(&self, key: SortKey, cells: &Cells<'_>) -> usize {
        let width = |row: &Row| cells.width(key, row);
        let shares = |row: &Row| cells.shared(key, row).is_some();
        if self.options.columns.is_some() {
            return self.rows().map(width).max().unwrap_or(0);
        }
        let longest = if self.rows.list().first().is_some_and(shares) {
            // Of the rows that share a cell, one.
            let distinct = self.all().fold(FxHashMap::default, |mut met, row| {
                met.entry(cells.shared(key, row)).or_insert(row);
                met
            });
            distinct
                .filter_map(|met| met.into_values().map(width).max())
                .max()
        } else {
            self.all().map(width).max()
        };
        longest.unwrap_or(0)
    }

    /// perf makes the column of modules as wide as an address where there are
    /// rows without a name, unless it was told about widths or modules.
    fn width_beside_addresses(&self, key: SortKey, cells: &Cells<'_>) -> usize {
        const DIGITS: usize = 16;
        let is_told = !self.options.widths.is_empty()
            || self.options.separator.is_some()
            || !self.scene.selection().filter.dsos.is_empty();
        let applies = key.widens_beside_addresses() && !is_told;
        if applies && self.all().any(|row| cells.is_unnamed(row)) {
            DIGITS
        } else {
            0
        }
    }

    /// The comment lines: counts and headings.
    fn head(&self, out: &mut String) {
        self.counts(out);
        let cut = self.columns().iter().filter(|column| column.is_fitted);
        let widest = cut.map(|column| column.width).max();
        if let (Some(widest), None) = (widest, self.options.columns) {
            let _ = writeln!(
                out,
                "# Names of more than {widest} letters are cut (~). --unlimited shows them whole.\n#"
            );
        }
        let separator = self.options.separator.as_deref();
        let headings: Vec<String> = self.columns().iter().map(Column::heading_cell).collect();
        let _ = writeln!(out, "# {}", headings.join(separator.unwrap_or("  ")));
        if separator.is_none() {
            let dots: Vec<String> = self
                .columns()
                .iter()
                .map(|column| ".".repeat(column.width))
                .collect();
            let _ = writeln!(out, "# {}\n#", dots.join("  "));
        }
    }

    /// The comment lines with the counts.
    pub(super) fn counts(&self, out: &mut String) {
        let Heading {
            events,
            is_plural,
            counted,
            samples,
        } = &self.heading;
        let _ = writeln!(
            out,
            "# Samples: {} of event{} '{}'{}",
            short_count(*samples),
            if *is_plural { "s" } else { "" },
            escape::terminal(events),
            self.options.time.as_ref().map_or_else(String::new, |time| {
                format!(" (time slices: {})", escape::terminal(time))
            })
        );
        let _ = match self.scene.profile().counting {
            Counting::Memory => writeln!(
                out,
                "# Total weight : {}\n# Sort order   : {}\n#",
                counted.period,
                escape::terminal(&self.options.sort_text)
            ),
            _ => writeln!(out, "# Event count (approx.): {}\n#", counted.period),
        };
    }

    /// Writes the rows with their chains. Lines are made in parallel and
    /// written as they come, so that millions take no memory.
    fn body(
        &self,
        chains: &Chains<'_>,
        allowance: &mut Allowance,
        out: &mut impl io::Write,
    ) -> io::Result<()> {
        let shown: Vec<&Row> = self.rows().collect();
        let cells = self.cells();
        let last = shown.iter().rposition(|row| chains.has(row));
        let (heavy, light) = shown.split_at(last.map_or(0, |last| last + 1));
        let drawing = Drawing {
            chains,
            pen: self.pen(),
        };
        drawing.rows(
            heavy,
            allowance,
            (&|row, text| self.row(&cells, row, text), &|row| {
                self.weight(row)
            }),
            &mut |text| out.write_all(text.as_bytes()),
        )?;
        for several in light.chunks(ROWS_AT_ONCE) {
            let texts: Vec<String> = several
                .par_chunks(ROWS_AT_ONCE / 16)
                .map(|few| {
                    let mut text = String::with_capacity(few.len() * LINE);
                    for row in few {
                        self.row(&cells, row, &mut text);
                    }
                    text
                })
                .collect();
            for text in texts {
                out.write_all(text.as_bytes())?;
            }
        }
        out.write_all(b"\n\n")?;
        allowance.tell(out)
    }

    /// What makes the chains of rows.
    pub(super) fn chains(&self, shown: &[&Row]) -> Chains<'_> {
        let plan = ChainPlan {
            graph: self.graph,
            order: self.order,
            children: self.children,
            whole: self.whole,
        };
        Chains::new(self.scene, plan, &self.rows, shown)
    }

    /// What draws them.
    pub(super) fn pen(&self) -> Pen<'_> {
        Pen {
            scene: self.scene,
            graph: self.graph,
            whole: self.whole,
            skip_first: self.options.begins_with_symbol(),
            full_paths: self.options.look.full_paths,
            columns: match self.graph.style {
                // For programs.
                ChainStyle::Folded => None,
                _ => self.options.columns_of_names(),
            },
            separator: self.options.separator.as_deref().unwrap_or(";"),
        }
    }

    fn row(&self, cells: &Cells<'_>, row: &Row, out: &mut String) {
        let separator = self.options.separator.as_deref();
        for (at, column) in self.columns().iter().enumerate() {
            match separator {
                None => out.push_str("  "),
                Some(separator) if at > 0 => out.push_str(separator),
                Some(_) => {}
            }
            let is_last = at + 1 == self.columns().len() && !self.layout.ends_elided;
            self.cell(column, is_last, cells, row, out);
        }
        out.push('\n');
    }

    /// Writes the cell of a row in a column.
    pub(super) fn cell(
        &self,
        column: &Column,
        is_last: bool,
        cells: &Cells<'_>,
        row: &Row,
        out: &mut String,
    ) {
        let separator = self.options.separator.as_deref();
        let start = out.len();
        column.write(cells, row, self.whole, separator, out);
        for (row, whole) in self.others.of(row.key) {
            column.write_weight(&row, whole, separator, out);
        }
        if !is_last || column.pads_itself() {
            let written = out.get(start..).map_or(0, char_count);
            pad(out, column.width.saturating_sub(written));
        }
    }

    /// What the numbers and names of cells are looked up in.
    pub(super) fn cells(&self) -> Cells<'_> {
        Cells::new(self.scene, &self.rows)
            .with(self.options.look)
            .at(&self.places)
    }

    /// The weight that its share in the first column is of.
    pub(super) fn weight(&self, row: &Row) -> Weight {
        if self.children { row.total } else { row.own }
    }
}

impl Heading {
    fn of(
        scene: &Scene<'_>,
        rows: &Rows,
        others: &[Scene<'_>],
        tables: &[Rows],
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
        let counted = std::iter::once(rows).chain(tables).map(|rows| {
            if options.relative {
                rows.total()
            } else {
                rows.scope_total()
            }
        });
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

/// Bytes of most lines, at most.
const LINE: usize = 160;
/// Rows whose lines are held in memory at a time.
const ROWS_AT_ONCE: usize = 1 << 14;

/// As perf shortens counts: `428 `, `12K`, `3M`.
fn short_count(count: u64) -> String {
    let mut count = count;
    let mut unit = ' ';
    for next in ['K', 'M', 'G'] {
        if count < 1000 {
            break;
        }
        count /= 1000;
        unit = next;
    }
    format!("{count}{unit}")
}

#[cfg(test)]
mod tests {
    use super::short_count;

    #[test]
    fn counts_are_shortened_as_perf_does() {
        assert_eq!(short_count(428), "428 ");
        assert_eq!(short_count(4999), "4K");
        assert_eq!(short_count(3_000_000), "3M");
    }
}

//! How wide the columns of a table are.

use super::allowance::CellAllowance;
use super::column::{Column, fit, fit_levels};
use super::content::Content;
use crate::keys::{Cells, Field, SortKey};
use crate::model::{Filter, Row};
use rayon::prelude::*;
use rustc_hash::FxHashMap;

/// Columns as they are laid out.
pub(super) struct Layout {
    pub(super) columns: Vec<Column>,
    /// Whether a column that is not shown would be the last; perf fills the
    /// one before it.
    pub(super) ends_elided: bool,
}

impl Layout {
    /// Columns as wide as the rows need them.
    pub(super) fn of(content: &Content<'_>) -> Self {
        content.laid_out()
    }
}

impl Content<'_> {
    fn laid_out(&self) -> Layout {
        let fields = &self.fields;
        let keys = fields.iter().filter(|field| !field.is_weight());
        // A tree has all its levels.
        let all_elided = self.options.hierarchy
            || keys
                .clone()
                .all(|&field| elided(&self.scene.selection().filter, field).is_some());
        // Widths are given for all, those included that are not shown.
        let shown = fields.iter().copied().enumerate().filter(|&(_, field)| {
            // As perf: fields of other tracepoints are no columns here.
            field.is_of(self.scene.event())
                && (all_elided || elided(&self.scene.selection().filter, field).is_none())
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
                column.limit(allowed.cell);
            }
        }
    }

    /// Characters of all cells.
    fn length(&self, key: SortKey) -> u64 {
        let cells = self.cells();
        self.all().map(|row| cells.width(key, row) as u64).sum()
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

    /// perf makes the column of dsos as wide as an address where there are
    /// rows without a name, unless it was told about widths or dsos.
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
}

/// A single name that all rows share is told above the tables, not in them.
pub(super) fn elided(filter: &Filter, field: Field) -> Option<(&'static str, &str)> {
    match field {
        Field::Key(key) => key.told_above(filter),
        _ => None,
    }
}

//! What the cells of key columns show. Text, CSV and JSON take them from here.

use super::moment::PARENT;
use super::recorded::Recorded;
use super::room::char_count;
use super::{Measure, SortKey, Text};
use crate::branch_sums::BranchSums;
use crate::escape;
use crate::model::{Certainty, Row, RowKey, Rows, Scene, Site, SiteKind};

use prof_profile::{FileOffset, Profile, Task};
use prof_statistics::Interval;
use rustc_hash::FxHashMap;

/// How much detail cells show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CellLook {
    /// Times to the nanosecond, else to the microsecond.
    pub nanoseconds: bool,
    /// Source files with their paths, else only their names.
    pub full_paths: bool,
    /// Paths of dsos instead of short names; before a symbol, the address at
    /// which it was first seen and a letter for where its name is from.
    pub verbose: bool,
}

/// Cells of the key columns.
pub struct Cells<'a> {
    pub(super) scene: &'a Scene<'a>,
    pub(super) rows: &'a Rows,
    pub(super) look: CellLook,
    pub(super) places: Option<&'a FxHashMap<RowKey, FileOffset>>,
    certainty: Option<&'a Certainty>,
    branches: Option<&'a FxHashMap<RowKey, BranchSums>>,
}

impl<'a> Cells<'a> {
    /// Cells of tables of this scene.
    pub fn new(scene: &'a Scene<'a>, rows: &'a Rows) -> Self {
        Self {
            scene,
            rows,
            look: CellLook::default(),
            places: None,
            certainty: None,
            branches: None,
        }
    }

    /// The same cells with another amount of detail.
    #[must_use]
    pub fn with(self, look: CellLook) -> Self {
        Self { look, ..self }
    }

    /// The same with the places where rows were first seen.
    pub(crate) fn at(self, places: &'a FxHashMap<RowKey, FileOffset>) -> Self {
        Self {
            places: Some(places),
            ..self
        }
    }

    /// The same with how sure rows are.
    pub(crate) fn sure(self, certainty: Option<&'a Certainty>) -> Self {
        Self { certainty, ..self }
    }

    /// The same with what the branches in chains tell of rows.
    pub(crate) fn counting(self, branches: &'a FxHashMap<RowKey, BranchSums>) -> Self {
        Self {
            branches: Some(branches),
            ..self
        }
    }

    /// What the branches in the chains of a row tell.
    pub(super) fn branches(&self, row: &Row) -> BranchSums {
        let known = self.branches.and_then(|branches| branches.get(&row.key));
        known.copied().unwrap_or_default()
    }

    /// The 95 % interval of a row's own share, percent, where that is known.
    pub(crate) fn interval(&self, row: &Row) -> Option<Interval> {
        let sure = self.certainty?.of(row.key);
        Some(sure.own.interval(0.95).scaled(100.0))
    }

    /// What a key column shows for a row, safe for a terminal.
    pub fn text(&self, key: SortKey, row: &Row) -> String {
        let mut text = String::new();
        self.write(key, row, &mut text);
        text
    }

    /// Writes what [`Cells::text`] gives.
    pub(crate) fn write(&self, key: SortKey, row: &Row, out: &mut String) {
        match key.0.text {
            Text::OfRow(write) => write(self, row, out),
            Text::OfRecord(write) => {
                let Some(recorded) = self.recorded(key, row) else {
                    return;
                };
                let mut text = String::new();
                write(&recorded, &mut text);
                out.push_str(&escape::terminal(&text));
            }
        }
    }

    /// The same for a program: not escaped, without the letter of the mode.
    pub(crate) fn plain(&self, key: SortKey, row: &Row) -> String {
        let plain = key.0.plain.and_then(|plain| plain(self, row));
        plain.unwrap_or_else(|| self.text(key, row).trim().to_owned())
    }

    /// Its width in characters.
    pub(crate) fn width(&self, key: SortKey, row: &Row) -> usize {
        let text = || char_count(&self.text(key, row));
        match key.0.measure {
            Measure::Text => text(),
            Measure::OfRow(measure) => measure(self, row),
            Measure::OfRecord(measure) => {
                let recorded = self.recorded(key, row);
                let width = recorded.and_then(|recorded| measure(&recorded));
                width.unwrap_or_else(text)
            }
        }
    }

    /// Rows with the same number here have the same cell, where many rows
    /// share few cells.
    pub(crate) fn shared(&self, key: SortKey, row: &Row) -> Option<u32> {
        Some(key.0.shared?(self, row))
    }

    pub(super) fn profile(&self) -> &'a Profile {
        self.scene.profile()
    }

    /// The frame of a row.
    pub(super) fn site(&self, row: &Row) -> Option<&Site> {
        row.site.map(|site| self.scene.sites().get(site))
    }

    /// The task of the row's first sample.
    pub(super) fn task(&self, row: &Row) -> Option<&'a Task> {
        let profile = self.profile();
        let first = profile.samples.get(row.first as usize)?;
        Some(profile.task(first.task))
    }

    /// What the record of the row's first sample tells.
    fn recorded(&self, key: SortKey, row: &Row) -> Option<Recorded<'_>> {
        Recorded::of(self.profile(), key, row, self.look.full_paths)
    }

    /// Whether the row's symbol is only an address.
    pub(crate) fn is_unnamed(&self, row: &Row) -> bool {
        self.site(row).is_none_or(|site| {
            let function = site.function(self.profile());
            function.unnamed.is_some() && site.kind != SiteKind::Dso
        })
    }

    /// Whether an address stands for the row's symbol: not where the function
    /// is known that has no name.
    pub(crate) fn is_address(&self, row: &Row) -> bool {
        let site = self.site(row);
        site.is_none_or(|site| site.is_bare(self.profile()))
    }

    /// Whether a caller of the row's samples matches the pattern for parents.
    pub(crate) fn has_parent(&self, row: &Row) -> bool {
        let told = self.rows.told_by(row, PARENT.apart());
        told.is_some_and(|told| super::moment::name_told(told).is_some())
    }

    /// Whether the row's symbol has `part` in its name; without one, always.
    pub(crate) fn is_named(&self, row: &Row, part: Option<&str>) -> bool {
        let Some(part) = part else {
            return true;
        };
        let named = |site: &Site| site.name(self.profile()).contains(part);
        !self.is_unnamed(row) && self.site(row).is_some_and(named)
    }
}

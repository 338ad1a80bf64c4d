//! Columns of a table as they are laid out, and what is written in them.

use super::field::{Cells, Field};
use super::percent;
use crate::model::{Row, SortKey, Weight};
use std::fmt::Write;

/// A column, as wide as its cells need it.
pub(super) struct Column {
    pub(super) field: Field,
    pub(super) heading: &'static str,
    pub(super) width: usize,
    /// Numbers are flushed right in so many characters; the column is at
    /// least as wide as its heading.
    pub(super) number_width: usize,
    /// Whether the width was given, so that longer text is cut.
    pub(super) is_given: bool,
    /// Whether it has no numbers: the weight of callees without call chains.
    pub(super) is_not_counted: bool,
}

pub(super) fn pad(out: &mut String, spaces: usize) {
    out.extend(std::iter::repeat_n(' ', spaces));
}

impl Column {
    pub(super) fn heading_cell(&self) -> String {
        let width = self.width;
        let heading: String = self.heading.chars().take(width).collect();
        if self.field.is_weight() {
            format!("{heading:>width$}")
        } else {
            format!("{heading:<width$}")
        }
    }

    /// Whether perf fills the column even where it is the last.
    pub(super) fn pads_itself(&self) -> bool {
        matches!(
            self.field,
            Field::Key(
                SortKey::Comm
                    | SortKey::Dso
                    | SortKey::Pid
                    | SortKey::Tid
                    | SortKey::Tgid
                    | SortKey::Parent
                    | SortKey::Event
            )
        )
    }

    /// Writes the cell of a row; a separator inside of it becomes a dot, as
    /// in perf.
    pub(super) fn write(
        &self,
        cells: &Cells<'_>,
        row: &Row,
        whole: Weight,
        separator: Option<&str>,
        out: &mut String,
    ) {
        match self.field {
            Field::Key(key) => {
                let start = out.len();
                cells.write(key, row, out);
                match key {
                    SortKey::Cpu if self.is_given => zeros(out, start, self.width),
                    SortKey::Pid | SortKey::Tid | SortKey::Tgid if self.is_given => {
                        out.truncate(out.trim_end_matches(' ').len());
                    }
                    _ => {}
                }
                if self.is_given && self.may_cut(key, cells, row) {
                    let mark = cells.mark(key, row);
                    out.truncate(out.len() - mark.len());
                    cut(out, start, self.width);
                    out.push_str(mark);
                }
                if let Some(separator) = separator.filter(|separator| !separator.is_empty())
                    && out
                        .get(start..)
                        .is_some_and(|cell| cell.contains(separator))
                {
                    let cell = out.split_off(start);
                    out.push_str(&cell.replace(separator, "."));
                }
            }
            _ => self.write_weight(row, whole, separator, out),
        }
    }

    /// Whether perf cuts a cell that is longer than the column: no addresses,
    /// and no threads where only their numbers have space.
    fn may_cut(&self, key: SortKey, cells: &Cells<'_>, row: &Row) -> bool {
        match key {
            SortKey::Symbol => !cells.is_unnamed(row),
            SortKey::Pid | SortKey::Tid | SortKey::Tgid => self.width >= "1234567:".len(),
            key => key != SortKey::Cpu,
        }
    }

    /// Writes the weight of a row; nothing in a column of keys.
    pub(super) fn write_weight(
        &self,
        row: &Row,
        whole: Weight,
        separator: Option<&str>,
        out: &mut String,
    ) {
        // With a separator, numbers are not flushed right.
        let width = separator.map_or(self.number_width.saturating_sub(1), |_| 0);
        match self.field {
            _ if self.is_not_counted => {
                let width = self.number_width.saturating_sub(1);
                let _ = write!(out, " {:>width$}", "N/A");
            }
            Field::Samples => {
                let _ = write!(out, " {:>width$}", row.own.samples);
            }
            Field::Period => {
                let _ = write!(out, " {:>width$}", row.own.period);
            }
            Field::Children | Field::Overhead | Field::OverheadSys | Field::OverheadUs => {
                let weight = self.field.weight(row).unwrap_or_default();
                out.push(' ');
                percent::push(weight.percent_of(whole), width, out);
            }
            Field::Key(_) => {}
        }
    }
}

/// Fills the number from byte `start` on with zeros up to `width` digits.
fn zeros(out: &mut String, start: usize, width: usize) {
    let number = out.split_off(start);
    let (sign, digits) = match number.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", number.as_str()),
    };
    let digits = digits.trim_start_matches('0');
    let _ = write!(out, "{sign}{digits:0>width$}");
}

/// Leaves `width` characters after byte `start`.
fn cut(out: &mut String, start: usize, width: usize) {
    let end = out
        .get(start..)
        .and_then(|cell| cell.char_indices().nth(width))
        .map(|(at, _)| start + at);
    if let Some(end) = end {
        out.truncate(end);
    }
}

//! Columns of a table as they are laid out, and what is written in them.

use super::fitted::CUT;
use super::padding::{pad, push_right};
use super::percent;
use crate::keys::{Cells, Field, Fit, SortKey, char_count};
use crate::model::{Row, Weight};
use std::iter::repeat_n;

/// Columns that a level is further to the right than the one above.
pub(super) const INDENT: usize = 3;

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
    /// Characters that the terminal has for a cell with a function's name, if
    /// that is less than some need.
    pub(super) name_room: Option<usize>,
    /// Whether the terminal has no room for longer text, so that it is cut.
    pub(super) is_fitted: bool,
    /// Whether it has no numbers: the weight of callees without call chains.
    pub(super) is_not_counted: bool,
}

/// What a column writes a cell of.
#[derive(Clone, Copy)]
pub(super) struct CellOf<'a> {
    pub(super) cells: &'a Cells<'a>,
    pub(super) row: &'a Row,
    /// Weight of 100 %.
    pub(super) whole: Weight,
    /// What stands between columns, if that was given.
    pub(super) separator: Option<&'a str>,
}

impl Column {
    pub(super) fn heading_cell(&self) -> String {
        let width = self.width;
        let heading: String = self.heading.chars().take(width).collect();
        let mut cell = String::new();
        if self.field.is_weight() || self.is_flushed_right() {
            push_right(&heading, width, &mut cell);
        } else {
            cell.push_str(&heading);
            pad(&mut cell, width.saturating_sub(char_count(&heading)));
        }
        cell
    }

    fn is_flushed_right(&self) -> bool {
        matches!(self.field, Field::Key(key) if key.fit() == Fit::Right)
    }

    fn has_functions(&self) -> bool {
        matches!(self.field, Field::Key(key) if key.fit() == Fit::Function)
    }

    /// Makes a column of texts at most so wide, if no width was given.
    pub(super) fn limit(&mut self, most: usize) {
        if self.field.is_weight() || self.is_given {
            return;
        }
        let most = most.max(char_count(self.heading));
        if self.width > most {
            self.is_fitted = true;
            self.name_room = self.has_functions().then_some(most);
            self.width = most;
        }
    }

    /// Whether [`Column::limit`] can make it narrower.
    fn may_shrink(&self) -> bool {
        !self.field.is_weight() && !self.is_given && self.width > char_count(self.heading)
    }

    /// Whether perf fills the column even where it is the last.
    pub(super) fn pads_itself(&self) -> bool {
        matches!(self.field, Field::Key(key) if key.pads_itself())
    }

    /// Fills the cell that begins at byte `start` with spaces.
    pub(super) fn fill(&self, start: usize, out: &mut String) {
        let written = out.get(start..).map_or(0, char_count);
        let spaces = self.width.saturating_sub(written);
        match self.is_flushed_right() {
            true => out.insert_str(start, &" ".repeat(spaces)),
            false => pad(out, spaces),
        }
    }

    /// Writes the cell of a row; a separator inside of it becomes a dot, as
    /// in perf.
    pub(super) fn write(&self, of: CellOf<'_>, out: &mut String) {
        let Field::Key(key) = self.field else {
            return self.write_weight(of, out);
        };
        let start = out.len();
        match self.name_room {
            Some(room) => of.cells.write_symbol(of.row, room, out),
            None => of.cells.write(key, of.row, out),
        }
        match key.fit() {
            Fit::Digits(_) if self.is_given => zeros(out, start, self.width),
            Fit::Thread if self.is_given => {
                out.truncate(out.trim_end_matches(' ').len());
            }
            _ => {}
        }
        if (self.is_given || self.is_fitted) && self.may_cut(key, of) {
            let mark = match key.fit() {
                Fit::Function => of.cells.mark(of.row),
                _ => "",
            };
            self.cut(mark, start, out);
        }
        let separator = of.separator.filter(|separator| !separator.is_empty());
        if let Some(separator) = separator
            && let Some(cell) = out.get(start..)
            && cell.contains(separator)
        {
            let cell = cell.replace(separator, ".");
            out.truncate(start);
            out.push_str(&cell);
        }
    }

    /// Cuts the cell that begins at byte `start`, but not the mark at its end.
    fn cut(&self, mark: &str, start: usize, out: &mut String) {
        out.truncate(out.len() - mark.len());
        let width = match self.is_given {
            true => self.width,
            false => self.width.saturating_sub(mark.len()).max(1),
        };
        if cut(out, start, width) && !self.is_given {
            out.pop();
            out.push(CUT);
        }
        out.push_str(mark);
    }

    /// Whether perf cuts a cell that is longer than the column: no addresses,
    /// and no threads where only their numbers have space.
    fn may_cut(&self, key: SortKey, of: CellOf<'_>) -> bool {
        match key.fit() {
            Fit::Function => !of.cells.is_address(of.row),
            Fit::Thread => self.width >= "1234567:".len(),
            Fit::Digits(_) => false,
            Fit::Cut | Fit::Right => true,
        }
    }

    /// Writes the weight of a row; nothing in a column of keys.
    pub(super) fn write_weight(&self, of: CellOf<'_>, out: &mut String) {
        let row = of.row;
        // With a separator, numbers are not flushed right.
        let width = of
            .separator
            .map_or(self.number_width.saturating_sub(1), |_| 0);
        match self.field {
            _ if self.is_not_counted => {
                out.push(' ');
                push_right("N/A", self.number_width.saturating_sub(1), out);
            }
            Field::Samples => {
                out.push(' ');
                push_right(&row.own.samples.to_string(), width, out);
            }
            Field::Period => {
                out.push(' ');
                push_right(&row.own.period.to_string(), width, out);
            }
            Field::Children | Field::Overhead | Field::OverheadSys | Field::OverheadUs => {
                let weight = self.field.weight(row).unwrap_or_default();
                out.push(' ');
                percent::push(weight.percent_of(of.whole), width, out);
            }
            Field::Interval => {
                let interval = of.cells.interval(row).unwrap_or_default();
                let cell = format!("[{:.2}, {:.2}]", interval.low, interval.high);
                out.push(' ');
                push_right(&cell, width, out);
            }
            Field::Key(_) => {}
        }
    }
}

/// Makes columns of texts fit a terminal of so many columns. The one with the
/// functions, else the last, gets what is left by the others, which get a third
/// at most, and less where it would have less than two fifths.
pub(super) fn fit(columns: &mut [Column], terminal: usize) {
    let last = columns.len().saturating_sub(1);
    let symbol = columns.iter().position(Column::has_functions);
    let elastic = symbol.unwrap_or(last);
    // Each has two spaces before it.
    let mut left = terminal.saturating_sub(2 * columns.len());
    for (at, column) in columns.iter_mut().enumerate() {
        if at != elastic {
            column.limit(terminal / 3);
            left = left.saturating_sub(column.width);
        }
    }
    let wanted = columns.get(elastic).map_or(0, |column| column.width);
    let wanted = wanted.min(terminal * 2 / 5);
    while left < wanted {
        let others = columns.iter_mut().enumerate();
        let others = others.filter(|(at, column)| *at != elastic && column.may_shrink());
        let Some((_, widest)) = others.max_by_key(|(_, column)| column.width) else {
            break;
        };
        widest.limit(widest.width - 1);
        left += 1;
    }
    if let Some(column) = columns.get_mut(elastic) {
        column.limit(left);
    }
}

/// The same for columns whose texts stand below each other, as levels.
pub(super) fn fit_levels(columns: &mut [Column], terminal: usize) {
    let (weights, keys): (Vec<_>, Vec<_>) = columns
        .iter_mut()
        .partition(|column| column.field.is_weight());
    let numbers: usize = weights.iter().map(|column| column.width + 2).sum();
    // The deepest level is as far from its numbers as those from the left.
    let indent = 2 * INDENT * keys.len().saturating_sub(1);
    let left = terminal.saturating_sub(numbers + indent + 2);
    for column in keys {
        column.limit(left);
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
    out.push_str(sign);
    out.extend(repeat_n('0', width.saturating_sub(digits.len())));
    out.push_str(digits);
}

/// Leaves `width` characters after byte `start`; whether there were more.
fn cut(out: &mut String, start: usize, width: usize) -> bool {
    let end = out
        .get(start..)
        .and_then(|cell| cell.char_indices().nth(width))
        .map(|(at, _)| start + at);
    if let Some(end) = end {
        out.truncate(end);
    }
    end.is_some()
}

#[cfg(test)]
mod tests {
    use super::{Column, fit, push_right, zeros};
    use crate::keys::{COMM, DSO, Field, SYMBOL};

    fn column(field: Field, width: usize) -> Column {
        Column {
            field,
            heading: "Heading",
            width,
            number_width: width,
            is_given: false,
            name_room: None,
            is_fitted: false,
            is_not_counted: false,
        }
    }

    #[test]
    fn no_width_of_input_is_too_large() {
        let wide = 1 << 20;
        for field in [Field::Period, Field::Key(COMM)] {
            assert_eq!(column(field, wide).heading_cell().len(), wide);
        }
        let mut cell = String::new();
        push_right("7", wide, &mut cell);
        assert_eq!(cell.len(), wide);
        cell = "-7".into();
        zeros(&mut cell, 0, wide);
        assert_eq!(cell.len(), wide + 1);
    }

    #[test]
    fn on_a_terminal_long_names_leave_room_for_the_columns_after_them() {
        let key = |key, width| column(Field::Key(key), width);
        let mut columns = [
            column(Field::Overhead, 8),
            key(COMM, 5),
            key(DSO, 4096),
            key(SYMBOL, 10_193),
        ];
        fit(&mut columns, 80);
        let widths = columns.each_ref().map(|column| column.width);
        assert_eq!(widths, [8, 5, 26, 33]);
        let total = widths.iter().map(|width| width + 2).sum::<usize>();
        assert_eq!(total, 80);
        let cut = columns.each_ref().map(|column| column.is_fitted);
        assert_eq!(cut, [false, false, true, true]);
        // A function's name has two fifths, whatever stands before it.
        let mut crowded = [
            column(Field::Children, 9),
            column(Field::Overhead, 8),
            key(COMM, 15),
            key(DSO, 34),
            key(SYMBOL, 100),
        ];
        fit(&mut crowded, 80);
        assert_eq!(crowded.map(|column| column.width), [9, 8, 11, 10, 32]);
        // What fits is as wide as it was.
        let mut narrow = [key(COMM, 9), key(SYMBOL, 30)];
        fit(&mut narrow, 80);
        assert_eq!(narrow.map(|column| column.width), [9, 30]);
    }
}

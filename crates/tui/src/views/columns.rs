//! Columns of a table on the screen. Headings, the places of cells and what a
//! click on a heading orders by all follow from one list.

use crate::paint::Pen;
use crate::theme::Theme;
use ratatui::style::Style;

/// On which side the text of a column stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Left,
    Right,
    /// On the left, in all that is left of the row.
    Rest,
}

/// A column; `C` tells the columns of a table apart.
#[derive(Debug, Clone)]
pub(super) struct Column<C> {
    /// Which column it is.
    pub(super) id: C,
    /// The column that a click on its heading orders by.
    orders_by: C,
    heading: String,
    is_legend: bool,
    side: Side,
    /// Characters, without the gap.
    pub(super) width: usize,
    /// Spaces behind it.
    pub(super) gap: usize,
}

impl<C: Copy + PartialEq> Column<C> {
    /// A column of numbers, `width` characters and the gap behind it wide.
    pub(super) fn right(id: C, heading: &str, width: usize) -> Self {
        Self {
            id,
            orders_by: id,
            heading: heading.to_owned(),
            is_legend: false,
            side: Side::Right,
            width: width.saturating_sub(1),
            gap: 1,
        }
    }

    /// The same for texts.
    pub(super) fn left(id: C, heading: &str, width: usize) -> Self {
        Self {
            side: Side::Left,
            ..Self::right(id, heading, width)
        }
    }

    /// The last column, which takes what is left of the row.
    pub(super) fn rest(id: C, heading: &str) -> Self {
        Self {
            side: Side::Rest,
            gap: 0,
            ..Self::right(id, heading, 0)
        }
    }

    /// The same column with a wider gap behind it.
    pub(super) fn gap(self, gap: usize) -> Self {
        Self { gap, ..self }
    }

    /// The same column, where a click on its heading orders by another one.
    pub(super) fn ordering(self, by: C) -> Self {
        Self {
            orders_by: by,
            ..self
        }
    }

    /// Whether its heading explains cells, and is drawn faintly.
    pub(super) fn legend(self) -> Self {
        Self {
            is_legend: true,
            ..self
        }
    }

    /// Characters up to the next column.
    fn step(&self) -> usize {
        self.width + self.gap
    }

    /// Draws a cell and the gap behind it.
    pub(super) fn put(&self, words: &str, style: Style, pen: &mut Pen<'_>) {
        match self.side {
            Side::Right => pen.right(words, self.width, style),
            Side::Left => pen.cell(words, self.width, style),
            Side::Rest => pen.put(words, style),
        };
        pen.gap(self.gap);
    }
}

/// The columns of a table, from left to right; the last takes what is left.
#[derive(Debug, Clone)]
pub(super) struct Columns<C>(pub(super) Vec<Column<C>>);

impl<C: Copy + PartialEq> Columns<C> {
    /// Characters before the last column.
    pub(super) fn before_last(&self) -> usize {
        let before = self.0.split_last().map_or(&[][..], |(_, before)| before);
        before.iter().map(Column::step).sum()
    }

    /// What a click at `x` of the headings orders by.
    pub(super) fn order_at(&self, x: u16) -> Option<C> {
        let mut end = 0;
        let (last, before) = self.0.split_last()?;
        let clicked = before.iter().find(|column| {
            end += column.step();
            usize::from(x) < end
        });
        Some(clicked.unwrap_or(last).orders_by)
    }

    /// Draws the headings; the column that orders the rows is marked, upwards
    /// if they are reversed.
    pub(super) fn draw_headings(&self, order: Option<(C, bool)>, theme: &Theme, mut pen: Pen<'_>) {
        for column in &self.0 {
            let mark = match order {
                Some((by, true)) if by == column.id => theme.glyphs.up,
                Some((by, false)) if by == column.id => theme.glyphs.down,
                _ => "",
            };
            let style = match column.is_legend {
                true => theme.dim(),
                false => theme.heading(),
            };
            column.put(&format!("{}{mark}", column.heading), style, &mut pen);
        }
    }
}

/// The order after this one, around the end.
pub(super) fn next<C: Copy + PartialEq>(orders: &[C], order: C) -> C {
    let at = orders.iter().position(|&one| one == order);
    let next = at.and_then(|at| orders.get((at + 1) % orders.len()));
    next.copied().unwrap_or(order)
}

#[cfg(test)]
mod tests {
    use super::{Column, Columns};

    #[test]
    fn a_click_orders_by_the_column_whose_heading_is_there() {
        let columns = Columns(vec![
            Column::right('a', "A", 8),
            Column::left('b', "B", 5).gap(2).ordering('a'),
            Column::rest('c', "C"),
        ]);
        assert_eq!(columns.before_last(), 14);
        let ordered: String = (0..16).filter_map(|x| columns.order_at(x)).collect();
        assert_eq!(ordered, "aaaaaaaaaaaaaacc");
        assert_eq!(Columns::<char>(Vec::new()).order_at(0), None);
    }
}

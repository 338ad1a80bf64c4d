//! The report as a tree of its sort keys, as `perf report --hierarchy`.
//!
//! Each key is a level: below a thread's name its dsos, below a dso its
//! functions. The rows of a level are those of a table with the keys up to
//! there, so weights and order are those of tables; what is drawn of them is
//! perf's layout:
//!
//! ```text
//! #       Overhead  Command / Shared Object / Symbol
//! # ..............  ................................
//! #
//!    100.00%        app
//!        71.68%        libc.so.6
//!           42.77%        [.] sort
//! ```

use super::allowance::{Allowance, Cut, Drawing, How};
use super::column::{Column, INDENT};
use super::padding::pad;
use super::table::Table;
use super::{ChainStyle, TextOptions};
use crate::keys::{Cells, Field};
use crate::model::{GroupId, Identity, Row, RowKey, Rows, Scene};
use rustc_hash::FxHashMap;
use std::fmt::Write;
use std::io;

/// perf has no longer line of dots below the headings.
const MOST_DOTS: usize = 207;

/// Writes the tree of an event, or of several beside each other.
pub(super) fn write(
    (scene, others): (&Scene<'_>, &[Scene<'_>]),
    options: &TextOptions,
    (has_chains, allowance): (bool, &mut Allowance),
    out: &mut impl io::Write,
) -> io::Result<()> {
    let by_level = options_by_level(options, has_chains);
    let levels: Vec<Table<'_>> = by_level
        .iter()
        .map(|options| Table::of_group(scene, others, options, has_chains))
        .collect();
    let Some(tree) = Tree::new(&levels, options.separator.as_deref(), options.percent_limit) else {
        return Ok(());
    };
    let mut text = String::new();
    if !options.quiet {
        tree.head(&mut text);
    }
    out.write_all(text.as_bytes())?;
    tree.body(allowance, out)?;
    allowance.tell(out)
}

/// The options of a table for each level: with the keys up to there.
fn options_by_level(options: &TextOptions, has_chains: bool) -> Vec<TextOptions> {
    let (_, order) = options.plan(false);
    let is_key = |field: &&Field| !field.is_weight();
    let keys: Vec<Field> = order.iter().filter(is_key).copied().collect();
    let mut leaf = options.clone();
    // As perf, which takes widths for columns that a tree does not have.
    leaf.widths.clear();
    // Chains stay in the order that they have with the callers' columns.
    leaf.call_graph.order = Some(options.order(has_chains));
    leaf.children = false;
    (1..=keys.len())
        .map(|count| {
            let mut level = leaf.clone();
            level.sort = keys.get(..count).map(<[Field]>::to_vec);
            if count < keys.len() {
                level.call_graph.style = ChainStyle::None;
            }
            level
        })
        .collect()
}

/// The tables of all levels and how their rows hang together.
struct Tree<'a> {
    levels: &'a [Table<'a>],
    leaf: &'a Table<'a>,
    /// By level and row: the rows below it, in order.
    below: Vec<FxHashMap<RowKey, Vec<u32>>>,
    separator: Option<&'a str>,
    limit: f64,
}

impl<'a> Tree<'a> {
    fn new(levels: &'a [Table<'a>], separator: Option<&'a str>, limit: f64) -> Option<Self> {
        let pairs = levels.iter().zip(levels.iter().skip(1));
        Some(Self {
            levels,
            leaf: levels.last()?,
            below: pairs.map(|(upper, lower)| below(upper, lower)).collect(),
            separator,
            limit,
        })
    }

    fn weights(&self) -> impl Iterator<Item = &Column> {
        let columns = self.leaf.columns().iter();
        columns.filter(|column| column.field.is_weight())
    }

    fn keys(&self) -> impl Iterator<Item = &Column> {
        let columns = self.leaf.columns().iter();
        columns.filter(|column| !column.field.is_weight())
    }

    /// Spaces, or what stands for them, that the deepest level is indented.
    fn indent(&self) -> usize {
        match self.separator {
            Some(_) => 0,
            None => (self.levels.len() - 1) * INDENT,
        }
    }

    fn head(&self, out: &mut String) {
        self.leaf.counts(out);
        let between = self.separator.unwrap_or("  ");
        out.push_str("# ");
        pad(out, self.indent());
        for column in self.weights() {
            let _ = write!(out, "{}{between}", column.heading_cell());
        }
        let headings: Vec<String> = self
            .keys()
            .map(|column| column.heading_cell().trim().to_owned())
            .collect();
        let headings = headings.join(" / ");
        let wide = self.keys().enumerate();
        let wide = wide.map(|(level, column)| level * INDENT + column.width);
        let wide = wide.max().unwrap_or(0).max(headings.chars().count());
        let dots: Vec<String> = self
            .weights()
            .map(|column| ".".repeat(column.width))
            .collect();
        let _ = writeln!(
            out,
            "{headings}\n# {}{}{between}{}\n#",
            ".".repeat(self.indent()),
            dots.join(self.separator.unwrap_or("..")),
            ".".repeat(wide.min(MOST_DOTS))
        );
    }

    fn body(&self, allowance: &mut Allowance, out: &mut impl io::Write) -> io::Result<()> {
        let rows: Vec<&Row> = self.leaf.rows().collect();
        let mut drawing = Drawing {
            chains: &self.leaf.chains(&rows),
            pen: self.leaf.pen(),
            allowance,
        };
        let mut cut = Cut::default();
        let mut text = String::new();
        let level = |(number, table)| Level {
            number,
            table,
            cells: Table::cells(table),
        };
        let levels: Vec<Level<'_>> = self.levels.iter().enumerate().map(level).collect();
        let mut open: Vec<(usize, u32)> = Vec::new();
        if let Some(first) = self.levels.first() {
            open.extend(
                first
                    .content
                    .order_of_rows
                    .iter()
                    .rev()
                    .map(|&row| (0, row)),
            );
        }
        while let Some((number, index)) = open.pop() {
            let Some(level) = levels.get(number) else {
                continue;
            };
            let table = level.table;
            let Some(row) = table.content.rows.list().get(index as usize) else {
                continue;
            };
            if table.content.share(row) < self.limit {
                continue;
            }
            let is_leaf = number + 1 == self.levels.len();
            let below = self.below.get(number).and_then(|below| below.get(&row.key));
            let below = below.map_or(&[][..], Vec::as_slice);
            if !is_leaf && below.is_empty() {
                continue;
            }
            text.clear();
            if is_leaf {
                let line = |row: &Row, out: &mut String| self.row(level, row, out);
                let how: How<'_> = (&line, &|row| table.content.weight(row));
                text = drawing.row(row, how, &mut cut);
            } else {
                self.row(level, row, &mut text);
                if !self.has_entry(number + 1, below) {
                    self.no_entry(number, &mut text);
                }
            }
            out.write_all(text.as_bytes())?;
            open.extend(below.iter().rev().map(|&row| (number + 1, row)));
        }
        drawing.count(&cut);
        out.write_all(b"\n\n")
    }

    /// Whether any of these rows is above the limit.
    fn has_entry(&self, level: usize, rows: &[u32]) -> bool {
        let Some(table) = self.levels.get(level) else {
            return false;
        };
        let rows = rows
            .iter()
            .filter_map(|&row| table.content.rows.list().get(row as usize));
        rows.into_iter()
            .any(|row| table.content.share(row) >= self.limit)
    }

    fn no_entry(&self, level: usize, out: &mut String) {
        let widths = self.weights().map(|column| column.width);
        let overhead: usize = widths.map(|width| width + 2).sum();
        if self.separator.is_none() {
            pad(out, (self.levels.len() + level) * INDENT);
        }
        pad(out, overhead + 2);
        let _ = writeln!(out, "no entry >= {:.2}%", self.limit);
    }

    fn row(&self, level: &Level<'_>, row: &Row, out: &mut String) {
        let (number, table) = (level.number, level.table);
        let of = table.cells_of(&level.cells, row);
        pad(out, number * INDENT);
        for (at, column) in self.weights().enumerate() {
            match self.separator {
                None => out.push_str("  "),
                Some(separator) if at > 0 => out.push_str(separator),
                Some(_) => {}
            }
            let start = out.len();
            table.cell(column, of, out);
            column.fill(start, out);
        }
        pad(out, self.indent());
        if let Some(column) = self.keys().nth(number) {
            let mut cell = String::new();
            table.cell(column, of, &mut cell);
            if column.pads_itself() {
                column.fill(0, &mut cell);
            }
            out.push_str(self.separator.unwrap_or("  "));
            out.push_str(cell.trim_start_matches(' '));
        }
        out.push('\n');
    }
}

/// A level of the tree, and what the cells of its rows are looked up in.
struct Level<'a> {
    /// From 0, the outermost.
    number: usize,
    table: &'a Table<'a>,
    cells: Cells<'a>,
}

/// By row of the upper table: the rows of the lower one that are part of it,
/// in order.
fn below(upper: &Table<'_>, lower: &Table<'_>) -> FxHashMap<RowKey, Vec<u32>> {
    let mut groups: FxHashMap<&[Identity], GroupId> = FxHashMap::default();
    for row in upper.content.rows.list() {
        groups.insert(upper.content.rows.told(row), row.key.group);
    }
    // The lower table has the keys of the upper one, and then its own.
    let parts = groups.keys().next().map_or(0, |told| told.len());
    let mut below: FxHashMap<RowKey, Vec<u32>> = FxHashMap::default();
    for &index in &lower.content.order_of_rows {
        let Some(row) = lower.content.rows.list().get(index as usize) else {
            continue;
        };
        let told = lower
            .content
            .rows
            .told(row)
            .get(..parts)
            .unwrap_or_default();
        let Some(&group) = groups.get(told) else {
            continue;
        };
        let frame = frame_in(&upper.content.rows, row);
        below
            .entry(RowKey { group, frame })
            .or_default()
            .push(index);
    }
    below
}

/// The number that a row's frame has in another table.
fn frame_in(rows: &Rows, row: &Row) -> u32 {
    let site = row.site.map(|site| site.0 as usize);
    let frame = site.and_then(|site| rows.keys_of_sites().get(site));
    frame.copied().unwrap_or(u32::MAX)
}

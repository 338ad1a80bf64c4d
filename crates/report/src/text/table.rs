//! A table laid out: comment lines, headings, rows, chains.

use super::allowance::{Allowance, Drawing};
use super::chain::{ChainPlan, Chains};
use super::column::{CellOf, Column};
use super::comment::comment;
use super::content::{Content, Heading, aparts, keys};
use super::graph::Pen;
use super::layout::Layout;
use super::{ChainStyle, TextOptions};
use crate::escape;
use crate::keys::{Cells, Field, SortKey};
use crate::model::{Certainty, Granularity, Row, Rows, Scene, Selection, Weight};
use prof_profile::{Counting, EventId, Profile};
use rayon::prelude::*;
use std::fmt::Write;
use std::io;

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
    let (fields, order) = options.plan(has_chains && options.children);
    let selection = selection(options, event, has_chains);
    let has_intervals = fields.contains(&Field::Interval);
    let intervals = has_intervals.then_some(options.relative);
    let scene = Scene::for_table(
        profile,
        selection,
        (&aparts(&order), options.quantum),
        intervals,
    );
    (scene, has_chains)
}

/// The selection, with frames as fine as the columns need.
fn selection(options: &TextOptions, event: EventId, has_chains: bool) -> Selection {
    let mut selection = options.selection.clone();
    selection.event = event;
    selection.parent.from = options.order(has_chains).first();
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
    pub(super) content: Content<'a>,
    layout: Layout,
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
        let content = Content::new(scene, others, options, has_chains);
        let layout = Layout::of(&content);
        Self { content, layout }
    }

    /// Rows in order, without those below the limit.
    pub fn rows(&self) -> impl Iterator<Item = &Row> {
        self.content.rows()
    }

    /// What the numbers and names of cells are looked up in.
    pub(super) fn cells(&self) -> Cells<'_> {
        self.content.cells()
    }

    /// Characters that a text may have, if some have more than can stand in
    /// each row.
    pub(crate) fn most_characters(&self, field: Field) -> Option<usize> {
        if self.content.options.columns.is_some() {
            return None;
        }
        let mut columns = self.columns().iter();
        let column = columns.find(|column| column.field == field)?;
        column.is_fitted.then_some(column.width)
    }

    /// How sure its rows are.
    pub(crate) fn certainty(&self) -> Certainty {
        self.content.certainty()
    }

    /// All rows, as counted.
    pub(crate) fn all_rows(&self) -> &Rows {
        &self.content.rows
    }

    pub(super) fn columns(&self) -> &[Column] {
        &self.layout.columns
    }

    /// The columns' fields, with those that only rows of other events have.
    pub(crate) fn fields(&self) -> impl Iterator<Item = Field> {
        let fields = self.content.fields.iter().copied();
        fields.filter(|&field| {
            let mut columns = self.columns().iter();
            columns.any(|column| column.field == field) || !field.is_of(self.content.scene.event())
        })
    }

    /// Weight of 100 %.
    pub(crate) fn whole(&self) -> Weight {
        self.content.whole
    }

    /// The comment lines: counts and headings.
    pub(super) fn head(&self, out: &mut String) {
        self.counts(out);
        let cut = self.columns().iter().filter(|column| column.is_fitted);
        let widest = cut.map(|column| column.width).max();
        if let (Some(widest), None) = (widest, self.content.options.columns) {
            let _ = writeln!(
                out,
                "# Names of more than {widest} letters are cut (~). --unlimited shows them whole.\n#"
            );
        }
        if let Some(line) = self.content.about_intervals() {
            comment(&line, self.content.options.columns, out);
            out.push_str("#\n");
        }
        let separator = self.content.options.separator.as_deref();
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
        } = &self.content.heading;
        let _ = writeln!(
            out,
            "# Samples: {} of event{} '{}'{}",
            short_count(*samples),
            if *is_plural { "s" } else { "" },
            escape::terminal(events),
            self.content
                .options
                .time
                .as_ref()
                .map_or_else(String::new, |time| {
                    format!(" (time slices: {})", escape::terminal(time))
                })
        );
        let _ = match self.content.scene.profile().counting {
            Counting::Memory => writeln!(
                out,
                "# Total weight : {}\n# Sort order   : {}\n#",
                counted.period,
                escape::terminal(&self.content.options.sort_text)
            ),
            _ => writeln!(out, "# Event count (approx.): {}\n#", counted.period),
        };
    }

    /// Writes the rows with their chains. Lines are made in parallel and
    /// written as they come, so that millions take no memory.
    pub(super) fn body(
        &self,
        chains: &Chains<'_>,
        allowance: &mut Allowance,
        out: &mut impl io::Write,
    ) -> io::Result<()> {
        let shown: Vec<&Row> = self.rows().collect();
        let cells = self.cells();
        let last = shown.iter().rposition(|row| chains.has(row));
        let (heavy, light) = shown.split_at(last.map_or(0, |last| last + 1));
        let mut drawing = Drawing {
            chains,
            pen: self.pen(),
            allowance,
        };
        drawing.rows(
            heavy,
            (&|row, text| self.row(&cells, row, text), &|row| {
                self.content.weight(row)
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
            graph: self.content.graph,
            order: self.content.order,
            children: self.content.children,
            whole: self.content.whole,
            by_line: self.content.is_by_line(),
        };
        Chains::new(self.content.scene, plan, &self.content.rows, shown)
    }

    /// What draws them.
    pub(super) fn pen(&self) -> Pen<'_> {
        Pen {
            scene: self.content.scene,
            graph: self.content.graph,
            whole: self.content.whole,
            skip_first: self.content.options.begins_with_symbol(),
            full_paths: self.content.options.look.full_paths,
            columns: match self.content.graph.style {
                // For programs.
                ChainStyle::Folded => None,
                _ => self.content.options.columns_of_names(),
            },
            separator: self.content.options.separator.as_deref().unwrap_or(";"),
            tells_branches: self.content.options.tells_branches,
        }
    }

    fn row(&self, cells: &Cells<'_>, row: &Row, out: &mut String) {
        let separator = self.content.options.separator.as_deref();
        for (at, column) in self.columns().iter().enumerate() {
            match separator {
                None => out.push_str("  "),
                Some(separator) if at > 0 => out.push_str(separator),
                Some(_) => {}
            }
            let start = out.len();
            self.cell(column, self.cells_of(cells, row), out);
            let is_last = at + 1 == self.columns().len() && !self.layout.ends_elided;
            if !is_last || column.pads_itself() {
                column.fill(start, out);
            }
        }
        out.push('\n');
    }

    /// What columns write cells of for a row.
    pub(super) fn cells_of<'c>(&'c self, cells: &'c Cells<'c>, row: &'c Row) -> CellOf<'c> {
        CellOf {
            cells,
            row,
            whole: self.content.whole,
            separator: self.content.options.separator.as_deref(),
        }
    }

    /// Writes the cell of a row in a column, without what fills it.
    pub(super) fn cell(&self, column: &Column, of: CellOf<'_>, out: &mut String) {
        column.write(of, out);
        // How sure they are is told of the first event's rows alone.
        if column.field == Field::Interval {
            return;
        }
        for (row, whole) in self.content.others.of(of.row.key) {
            let row = &row;
            column.write_weight(CellOf { row, whole, ..of }, out);
        }
    }
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

//! Figures without the counts that they follow from (`--metric-only`): a column
//! each, a line for each whose counts are shown.
//!
//! As perf 7.2 writes them. perf 6.1 has the same columns, but no names where
//! all counts are put together, and no JSON that can be read; its names of
//! fields are kept.

use super::derived::Related;
use super::figures::{EventFigures, Layout};
use super::label::Label;
use super::machine_readable::{bare, interval_field, quoted, write_object};
use super::text::timestamp;
use crate::metric::Metric;
use crate::options::Form;
use prof_report::escape;
use std::fmt::Write as _;
use std::time::Duration;

/// The least width of a column of text.
const WIDTH: usize = 20;

/// A figure that all lines have a place for.
struct Column {
    /// The place of its event among those of a cgroup.
    event: usize,
    name: String,
}

/// The figures of those counted together.
struct Line {
    label: Label,
    cgroup: Option<String>,
    cells: Vec<Option<Metric>>,
}

/// Figures, a line for each whose counts are shown.
pub(crate) struct Table {
    columns: Vec<Column>,
    lines: Vec<Line>,
}

/// What stands before the figures of a line.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Before {
    /// Nothing: there are no intervals.
    Nothing,
    /// The end of an interval.
    Time(Duration),
    /// They are of the whole, behind intervals.
    Summary,
}

impl Table {
    /// Of all events. The columns are the same whatever was counted.
    pub(crate) fn new(events: &[EventFigures], layout: &Layout<'_>) -> Self {
        let mut cgroups: Vec<_> = events.iter().map(|it| &it.event.cgroup).collect();
        cgroups.dedup();
        let all_of = |cgroup: &Option<String>| {
            let places = (0..events.len()).filter(|&place| events[place].event.cgroup == *cgroup);
            places.collect::<Vec<_>>()
        };
        let first = cgroups.first().map(|cgroup| all_of(cgroup));
        let columns = columns(events, &first.unwrap_or_default(), layout);
        let mut lines = Vec::new();
        for cgroup in cgroups {
            let places = all_of(cgroup);
            let mut labels: Vec<Label> = Vec::new();
            for (id, group) in places.iter().flat_map(|&place| &events[place].groups) {
                if labels.iter().all(|label| label.id != *id) {
                    labels.push(group.label(id));
                }
            }
            labels.sort_by(|a, b| a.id.cmp(&b.id));
            for label in labels {
                let cells = columns.iter().map(|column| {
                    let related = Related {
                        events,
                        index: *places.get(column.event)?,
                        id: &label.id,
                        layout,
                    };
                    related.column(&column.name)
                });
                lines.push(Line {
                    cells: cells.collect(),
                    cgroup: cgroup.clone(),
                    label,
                });
            }
        }
        Self { columns, lines }
    }

    /// Whether no figure follows from the events.
    pub(crate) fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// The names of the columns.
    pub(crate) fn heading(&self, form: &Form, before: Before) -> String {
        let label = self.lines.first().map(|line| &line.label);
        match form {
            Form::Json => String::new(),
            Form::Separated(separator) => {
                let time = (!matches!(before, Before::Nothing)).then_some("time");
                let labels = label.map_or(&[][..], Label::field_names);
                let cgroup = self.has_cgroups().then_some("cgroup");
                let fields = time.into_iter().chain(labels.iter().copied()).chain(cgroup);
                let names = self.columns.iter().map(|column| column.name.as_str());
                ended_each(fields.chain(names), separator)
            }
            Form::Text { .. } => {
                let mut text = match before {
                    Before::Time(_) => {
                        let heading = label.map_or("time", Label::heading);
                        format!("#           {heading} ")
                    }
                    Before::Summary | Before::Nothing => " ".repeat(self.indent(label)),
                };
                if self.has_cgroups() {
                    let _ = write!(text, "{:1$} ", "cgroup", self.cgroup_width());
                }
                let names = self.columns.iter();
                let names = names.map(|it| escape::terminal(&it.name).into_owned());
                text_line(text, &self.widths(), names)
            }
        }
    }

    /// The lines of figures.
    pub(crate) fn lines(&self, form: &Form, before: Before) -> String {
        let line = |line: &Line| match form {
            Form::Json => self.object(line, before),
            Form::Separated(separator) => self.separated(line, separator, before),
            Form::Text { .. } => self.text(line, before),
        };
        self.lines.iter().map(line).collect()
    }

    fn text(&self, line: &Line, before: Before) -> String {
        let mut text = match before {
            Before::Time(time) => format!("{} {}", timestamp(time), line.label.text()),
            Before::Summary | Before::Nothing => {
                format!("{:1$}", line.label.text(), self.indent(Some(&line.label)))
            }
        };
        if self.has_cgroups() {
            let cgroup = escape::terminal(line.cgroup.as_deref().unwrap_or_default());
            let _ = write!(text, "{cgroup:0$} ", self.cgroup_width());
        }
        let cells = line.cells.iter().map(|cell| match cell {
            Some(metric) => metric.number().trim().to_owned(),
            None => "nan".to_owned(),
        });
        text_line(text, &self.widths(), cells)
    }

    fn separated(&self, line: &Line, separator: &str, before: Before) -> String {
        let first = match before {
            Before::Time(time) => Some(interval_field(time)),
            Before::Summary => Some(format!("{:>16}", "summary")),
            Before::Nothing => None,
        };
        let cgroup = self.has_cgroups();
        let cgroup = cgroup.then(|| line.cgroup.clone().unwrap_or_default());
        let cells = line
            .cells
            .iter()
            .map(|cell| value(cell).unwrap_or_default());
        let labels = line.label.fields();
        let fields = first.into_iter().chain(labels).chain(cgroup).chain(cells);
        ended_each(fields, separator)
    }

    /// As perf's, numbers are strings: some are not a number.
    fn object(&self, line: &Line, before: Before) -> String {
        let mut object: Vec<(&str, String)> = Vec::new();
        if let Before::Time(time) = before {
            object.push(("interval", timestamp(time).trim().to_owned()));
        }
        object.extend(line.label.members_of_object());
        if let Some(cgroup) = &line.cgroup {
            object.push(("cgroup", quoted(cgroup)));
        }
        for (column, cell) in self.columns.iter().zip(&line.cells) {
            let value = value(cell).unwrap_or_else(|| "none".to_owned());
            object.push((&column.name, quoted(&value)));
        }
        let mut text = String::new();
        write_object(&object, &mut text);
        text
    }

    fn has_cgroups(&self) -> bool {
        self.lines.iter().any(|line| line.cgroup.is_some())
    }

    fn cgroup_width(&self) -> usize {
        let cgroups = self.lines.iter().filter_map(|line| line.cgroup.as_deref());
        let widths = cgroups.map(|name| escape::terminal(name).chars().count());
        widths.max().unwrap_or(0).max("cgroup".len())
    }

    fn indent(&self, label: Option<&Label>) -> usize {
        label.map_or(0, |label| label.text().chars().count()).max(1)
    }

    fn widths(&self) -> Vec<usize> {
        let names = self.columns.iter().map(|it| it.name.chars().count());
        names.map(|length| length.max(WIDTH)).collect()
    }
}

fn columns(events: &[EventFigures], places: &[usize], layout: &Layout<'_>) -> Vec<Column> {
    let layout = &Layout {
        elapsed: 1.0,
        ..*layout
    };
    let counted: Vec<_> = events.iter().map(EventFigures::as_if_counted).collect();
    let mut columns = Vec::new();
    for (event, &place) in places.iter().enumerate() {
        let related = Related {
            events: &counted,
            index: place,
            id: &crate::aggregate::Id::All,
            layout,
        };
        let names = related.column_names().into_iter();
        columns.extend(names.map(|name| Column { event, name }));
    }
    columns
}

/// A figure without spaces and percent sign, if it is a number.
fn value(cell: &Option<Metric>) -> Option<String> {
    let metric = cell.as_ref().filter(|metric| !metric.value.is_nan())?;
    Some(bare(&metric.number()))
}

/// Fields with the separator behind each, as perf's.
fn ended_each(fields: impl Iterator<Item = impl AsRef<str>>, separator: &str) -> String {
    let mut text = String::new();
    for field in fields {
        text.push_str(field.as_ref());
        text.push_str(separator);
    }
    text.push('\n');
    text
}

fn text_line(mut text: String, widths: &[usize], cells: impl Iterator<Item = String>) -> String {
    for (cell, width) in cells.zip(widths) {
        let _ = write!(text, "{cell:>width$} ");
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

//! Two commands, run in pairs, as text.

use crate::comparison::Comparison;
use crate::measure::MeasureRow;
use crate::text::{comment, needed_of_cost, rows_text};
use prof_report::escape;
use prof_statistics::Verdict;
use std::io::{self, Write};

/// What a report of a trial (`prof ab`) says besides the comparison of its
/// recordings.
#[derive(Debug, Clone, Default)]
pub struct Trial {
    /// The command of each side, as one would type it.
    pub commands: [String; 2],
    /// How often both ran.
    pub pairs: u64,
    /// How many unmeasured runs came before.
    pub warmups: u64,
    /// How many interim looks at the data are allowed; `None` for one at the
    /// end.
    pub looks: Option<usize>,
    /// Limitations that the reader should know.
    pub notes: Vec<String>,
}

/// Writes what was measured of whole runs, then the total and the functions, for
/// a terminal of so many `columns`.
///
/// # Errors
/// If `out` cannot be written to.
pub fn trial_text(
    trial: &Trial,
    comparison: &Comparison,
    columns: Option<usize>,
    out: &mut dyn Write,
) -> io::Result<()> {
    for (name, command) in ["Before", "After"].iter().zip(&trial.commands) {
        comment(&format!("{name}: {command}"), columns, out)?;
    }
    let plural = |count: u64, word: &str| match count {
        1 => format!("1 {word}"),
        count => format!("{count} {word}s"),
    };
    writeln!(
        out,
        "# {} of runs, each in random order, after {}",
        plural(trial.pairs, "pair"),
        plural(trial.warmups, "warm-up"),
    )?;
    if let Some(looks) = trial.looks {
        let how = format!(
            "Looked until it was sure: of {looks} looks at most, each is so strict that all \
             together are wrong in 5 %"
        );
        comment(&how, columns, out)?;
    }
    for note in &trial.notes {
        comment(&format!("Note: {note}"), columns, out)?;
    }
    writeln!(out, "#")?;
    measures_text(comparison, columns, out)?;
    writeln!(out)?;
    rows_text(comparison, columns, out)
}

/// Words of a verdict that tables on narrow terminals leave out, by what they
/// begin with.
const MORE: [&str; 2] = [":", " within"];

fn measures_text(
    comparison: &Comparison,
    columns: Option<usize>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let total = &comparison.total;
    let mut lines =
        vec![["", "Before", "After", "Change", "95 % interval", "Verdict"].map(str::to_owned)];
    let percent = |value: f64| format!("{value:+.2}%");
    for row in &comparison.measures {
        lines.push([
            row.name.to_owned(),
            row.unit.text(row.before),
            row.unit.text(row.after),
            percent(row.change.value),
            interval(row.interval),
            said_of(row, comparison),
        ]);
    }
    let of_total = match total.verdict {
        Some(Verdict::Faster) => "less".to_owned(),
        Some(Verdict::Slower) => "more".to_owned(),
        Some(verdict) => needed_of_cost(verdict, comparison),
        None => "of one pair: not known".to_owned(),
    };
    lines.push([
        format!("samples of {}", escape::terminal(&comparison.event)),
        comparison.unit.text(total.before),
        comparison.unit.text(total.after),
        percent(total.change.value),
        interval(total.interval),
        of_total,
    ]);
    let widths = |lines: &[[String; 6]]| -> [usize; 6] {
        let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max();
        std::array::from_fn(|column| width(column).unwrap_or(0))
    };
    let all = widths(&lines).iter().sum::<usize>() + 2 * lines[0].len();
    if columns.is_some_and(|columns| all > columns) {
        for [.., verdict] in lines.iter_mut().skip(1) {
            let ends = MORE.iter().filter_map(|more| verdict.find(more));
            verdict.truncate(ends.min().unwrap_or(verdict.len()));
        }
    }
    let widths = widths(&lines);
    for (index, line) in lines.iter().enumerate() {
        let mark = if index == 0 { "# " } else { "  " };
        let cells =
            line.iter()
                .zip(widths)
                .enumerate()
                .map(|(column, (cell, width))| match column {
                    0 | 5 => format!("{cell:<width$}"),
                    _ => format!("{cell:>width$}"),
                });
        let text = cells.collect::<Vec<_>>().join("  ");
        writeln!(out, "{mark}{}", text.trim_end())?;
    }
    Ok(())
}

fn interval(interval: prof_statistics::Interval) -> String {
    match interval.low.is_finite() && interval.high.is_finite() {
        true => format!("[{:+.2}, {:+.2}]", interval.low, interval.high),
        false => "not known".to_owned(),
    }
}

/// What may be said of a measure: less time is faster, of the rest there is
/// more or less.
fn said_of(row: &MeasureRow, comparison: &Comparison) -> String {
    let is_time = row.unit == crate::MeasureUnit::Seconds && row.name == "wall time";
    match row.verdict {
        Verdict::Faster if !is_time => "less".to_owned(),
        Verdict::Slower if !is_time => "more".to_owned(),
        verdict => needed_of_cost(verdict, comparison),
    }
}

impl Comparison {
    /// Whether the total and each row have a verdict.
    pub fn is_decided(&self) -> bool {
        let rows = self.rows.iter().map(|row| Some(row.verdict));
        let mut all = rows.chain([self.total.verdict]);
        all.all(|verdict| !matches!(verdict, None | Some(Verdict::Undecided { .. })))
    }

    /// How many rows have no verdict yet.
    pub fn undecided(&self) -> usize {
        let is_open = |row: &&crate::ComparedRow| matches!(row.verdict, Verdict::Undecided { .. });
        self.rows.iter().filter(is_open).count()
    }
}

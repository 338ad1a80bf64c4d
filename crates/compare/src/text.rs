//! A comparison as text.

use crate::comparison::{By, Comparison, Origin, Row, Side};
use prof_report::escape;
use prof_statistics::{Kind, Pairing, Verdict};
use std::io::{self, Write};

/// Writes the comparison: lines that tell what is compared, then a table. Rows
/// whose share is below `least` percent on both sides are counted, not
/// shown, unless they are sure to have changed.
///
/// # Errors
/// If `out` cannot be written to.
pub fn text(comparison: &Comparison, least: f64, out: &mut dyn Write) -> io::Result<()> {
    for line in preamble(comparison) {
        writeln!(out, "# {}", escape::terminal(&line))?;
    }
    writeln!(out, "#")?;
    let matters = |row: &&Row| {
        let is_sure = matches!(row.verdict, Verdict::Faster | Verdict::Slower);
        is_sure || row.before.share >= least || row.after.share >= least
    };
    let shown: Vec<&Row> = comparison.rows.iter().filter(matters).collect();
    write_table(comparison, &shown, out)?;
    let hidden = comparison.rows.len() - shown.len();
    if hidden > 0 {
        writeln!(out, "# {hidden} rows below {least} % are not shown")?;
    }
    Ok(())
}

/// Writes the table of a trial, whose small rows were left out before.
pub(crate) fn rows_text(comparison: &Comparison, out: &mut dyn Write) -> io::Result<()> {
    let least = comparison.options.least_share;
    writeln!(
        out,
        "# Functions above {least} % of the samples; changes in percent of the total before"
    )?;
    for note in &comparison.notes {
        writeln!(out, "# Note: {}", escape::terminal(note))?;
    }
    let rows: Vec<&Row> = comparison.rows.iter().collect();
    write_table(comparison, &rows, out)
}

fn preamble(comparison: &Comparison) -> Vec<String> {
    let mut lines = vec![format!("Event: {}", comparison.event)];
    for (name, side) in [("Before", &comparison.before), ("After", &comparison.after)] {
        lines.push(format!("{name}: {}", origins(comparison, side)));
    }
    lines.push(total(comparison));
    lines.push(match comparison.kind {
        Kind::AnotherRun => "Verdicts and intervals: what other runs would show, by the scatter \
                             between these; 5 % of the changes named may be false"
            .to_owned(),
        Kind::TheseRuns => "Verdicts and intervals: between these two recordings; how much two \
                            runs of one program differ is not known, give several a side"
            .to_owned(),
    });
    lines.push(format!(
        "A row that changes by {} of the total or more is found in nine of ten cases",
        percent(comparison.detectable)
    ));
    lines.extend(comparison.notes.iter().map(|note| format!("Note: {note}")));
    lines
}

/// A percentage with two digits that count.
fn percent(value: f64) -> String {
    let decimals = if value >= 10.0 { 0 } else { 1 };
    format!("{:.*} %", decimals, value.max(0.1))
}

fn origins(comparison: &Comparison, side: &[Origin]) -> String {
    let names: Vec<&str> = side.iter().map(|origin| origin.name.as_str()).collect();
    let samples: u64 = side.iter().map(|origin| origin.samples).sum();
    let mean = side.iter().map(|origin| origin.total).sum::<f64>() / side.len().max(1) as f64;
    let each = if side.len() > 1 { " each" } else { "" };
    format!(
        "{}: {samples} samples, {}{each}",
        names.join(" "),
        comparison.unit.text(mean)
    )
}

fn total(comparison: &Comparison) -> String {
    let total = &comparison.total;
    let per = if comparison.is_per_work {
        " a unit of work"
    } else {
        ""
    };
    let mut line = format!(
        "Total: {} -> {}{per}, {:+.2} %",
        comparison.unit.text(total.before),
        comparison.unit.text(total.after),
        total.change.value
    );
    if let Some(verdict) = total.verdict {
        let interval = total.interval;
        line.push_str(&format!(
            " [{:+.2}, {:+.2}], {}",
            interval.low,
            interval.high,
            needed(verdict, comparison)
        ));
    }
    line
}

/// A verdict as text.
pub(crate) fn needed(verdict: Verdict, comparison: &Comparison) -> String {
    let bound = comparison.options.bound;
    match verdict {
        Verdict::Faster if comparison.options.by == By::Share => "smaller part".to_owned(),
        Verdict::Slower if comparison.options.by == By::Share => "larger part".to_owned(),
        Verdict::Faster => "faster".to_owned(),
        Verdict::Slower => "slower".to_owned(),
        Verdict::Same => format!("same within {bound} %"),
        Verdict::Undecided { needs: None } => "undecided".to_owned(),
        Verdict::Undecided { needs: Some(needs) } => match comparison.kind {
            Kind::AnotherRun if comparison.options.pairing == Pairing::Paired => {
                format!("undecided: {needs} pairs")
            }
            Kind::AnotherRun => format!("undecided: {needs} runs a side"),
            Kind::TheseRuns => format!("undecided: {needs} x samples"),
        },
    }
}

fn write_table(comparison: &Comparison, rows: &[&Row], out: &mut dyn Write) -> io::Result<()> {
    let (before, after) = match comparison.options.side {
        Side::Own => ("Before", "After"),
        Side::Total => ("Before+called", "After+called"),
    };
    let headings = [
        before,
        "cost",
        after,
        "cost",
        "Change",
        "95 % interval",
        "Verdict",
    ];
    let mut headings: Vec<String> = headings.map(str::to_owned).to_vec();
    headings.extend(
        comparison
            .keys
            .iter()
            .map(|key| key.heading().trim().to_owned()),
    );
    let cells: Vec<Vec<String>> = rows.iter().map(|row| cells(comparison, row)).collect();
    let width = |column: usize| {
        let all = cells.iter().chain([&headings]);
        let of = |line: &Vec<String>| line.get(column).map_or(0, |cell| cell.chars().count());
        all.map(of).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..headings.len()).map(width).collect();
    writeln!(out, "# {}", line(&headings, &widths))?;
    let dots: Vec<String> = widths.iter().map(|&width| ".".repeat(width)).collect();
    writeln!(out, "# {}\n#", dots.join("  "))?;
    for cells in &cells {
        writeln!(out, "  {}", line(cells, &widths))?;
    }
    Ok(())
}

fn cells(comparison: &Comparison, row: &Row) -> Vec<String> {
    let cost = |cost: f64| comparison.unit.text(cost);
    let interval = row.interval;
    let mut cells = vec![
        format!("{:.2}%", row.before.share),
        cost(row.before.cost),
        format!("{:.2}%", row.after.share),
        cost(row.after.cost),
        format!("{:+.2}%", row.change.value),
        format!("[{:+.2}, {:+.2}]", interval.low, interval.high),
        needed(row.verdict, comparison),
    ];
    cells.extend(row.shown.iter().map(|name| name.trim_end().to_owned()));
    cells
}

/// Numbers to the right, texts to the left; the last cell is not padded.
fn line(cells: &[String], widths: &[usize]) -> String {
    const NUMBERS: usize = 6;
    let mut line = String::new();
    for (column, (cell, &width)) in cells.iter().zip(widths).enumerate() {
        if column > 0 {
            line.push_str("  ");
        }
        match column {
            0..NUMBERS => line.push_str(&format!("{cell:>width$}")),
            _ => line.push_str(&format!("{cell:<width$}")),
        }
    }
    line.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::text;
    use crate::comparison::tests::{run, sides};
    use crate::{Comparison, ComparisonOptions};

    #[test]
    fn the_table_says_what_changed_and_how_sure_it_is() {
        let (before, after) = sides(130);
        let comparison = Comparison::new(&before, &after, &ComparisonOptions::default()).unwrap();
        let mut out = Vec::new();
        text(&comparison, 0.1, &mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        assert!(out.contains("what other runs would show"), "{out}");
        let row = out.lines().find(|line| line.ends_with("] g")).unwrap();
        assert!(row.contains("slower") && row.contains("+11.16%"), "{out}");
        assert!(out.contains("same within 2 %"));
    }

    #[test]
    fn names_act_on_no_terminal_and_nothing_is_no_number() {
        let before = [run("a\x1b[2J", &[("app:f\x1b[31m", 1)])];
        let after = [run("b", &[("app:g", 1)])];
        let comparison = Comparison::new(&before, &after, &ComparisonOptions::default()).unwrap();
        let mut out = Vec::new();
        text(&comparison, 0.0, &mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        assert!(
            !out.contains('\x1b') && !out.contains("NaN") && !out.contains("inf"),
            "{out}"
        );
        assert!(out.contains("between these two recordings"));
    }
}

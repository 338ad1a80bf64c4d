//! A comparison as text.

use crate::comparison::{By, ComparedRow, Comparison, Origin};
use crate::matching::Side;
use crate::moved::{Move, Moved};
use prof_profile::several;
use prof_report::escape;
use prof_report::short::shortened;
use prof_report::text::CUT;
use prof_report::trust::wrapped;
use prof_statistics::{Interval, Kind, Pairing, Verdict};
use std::io::{self, Write};

/// Writes the comparison: lines that tell what is compared, then a table. Rows
/// whose share is below `least` percent on both sides are counted, not
/// shown, unless they are sure to have changed. On a terminal of so many
/// `columns`, lines are no wider: names are shortened, and columns left out, if
/// they must be.
///
/// # Errors
/// If `out` cannot be written to.
pub fn text(
    comparison: &Comparison,
    least: f64,
    columns: Option<usize>,
    out: &mut dyn Write,
) -> io::Result<()> {
    for line in preamble(comparison) {
        comment(&line, columns, out)?;
    }
    writeln!(out, "#")?;
    let matters = |row: &&ComparedRow| {
        let is_sure = matches!(row.verdict, Verdict::Faster | Verdict::Slower);
        is_sure || row.moved.is_some() || row.before.share >= least || row.after.share >= least
    };
    let shown: Vec<&ComparedRow> = comparison.rows.iter().filter(matters).collect();
    write_table(comparison, &shown, columns, out)?;
    let hidden = comparison.rows.len() - shown.len();
    if hidden > 0 {
        let rows = if hidden == 1 { "row" } else { "rows" };
        let are = if hidden == 1 { "is" } else { "are" };
        writeln!(out, "# {hidden} {rows} below {least} % {are} not shown")?;
    }
    Ok(())
}

/// Writes the table of a trial, whose small rows were left out before.
pub(crate) fn rows_text(
    comparison: &Comparison,
    columns: Option<usize>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let least = comparison.options.least_share;
    let what =
        format!("Functions above {least} % of the samples; changes in percent of the total before");
    comment(&what, columns, out)?;
    if comparison.undecided() > 0
        && let Some(line) = by_share(comparison)
    {
        comment(&line, columns, out)?;
    }
    for note in &comparison.notes {
        comment(&format!("Note: {note}"), columns, out)?;
    }
    for it in &comparison.moves {
        comment(&move_text(comparison, it), columns, out)?;
    }
    let rows: Vec<&ComparedRow> = comparison.rows.iter().collect();
    write_table(comparison, &rows, columns, out)
}

/// Writes a comment, in several lines where a terminal needs it.
pub(crate) fn comment(line: &str, columns: Option<usize>, out: &mut dyn Write) -> io::Result<()> {
    let line = escape::terminal(line);
    let lines = match columns {
        Some(columns) => wrapped(&line, columns.saturating_sub("# ".len())),
        None => vec![line.into_owned()],
    };
    lines.iter().try_for_each(|line| writeln!(out, "# {line}"))
}

fn preamble(comparison: &Comparison) -> Vec<String> {
    let mut lines = vec![format!("Event: {}", comparison.event)];
    for (name, side) in [("Before", &comparison.before), ("After", &comparison.after)] {
        lines.push(format!("{name}: {}", origins(comparison, side)));
    }
    lines.push(total(comparison));
    lines.push(match comparison.kind {
        Kind::AnotherRun if comparison.options.pairing == Pairing::Paired => {
            "Verdicts and intervals: what other pairs of runs would show, by how the differences \
             of these scatter; 5 % of the changes named may be false"
                .to_owned()
        }
        Kind::AnotherRun => "Verdicts and intervals: what other runs would show, by the scatter \
                             between these; 5 % of the changes named may be false"
            .to_owned(),
        Kind::TheseRuns => "Verdicts and intervals: between these two recordings; how much two \
                            runs of one program differ is not known, give several a side"
            .to_owned(),
    });
    lines.push(detectable(comparison));
    lines.extend(by_share(comparison));
    lines.extend(comparison.notes.iter().map(|note| format!("Note: {note}")));
    lines.extend(comparison.moves.iter().map(|it| move_text(comparison, it)));
    lines
}

/// What these recordings can show, and what more of them could.
fn detectable(comparison: &Comparison) -> String {
    let bound = comparison.options.bound;
    let found = format!(
        "A row that changes by {} of the total or more is found in nine of ten cases",
        percent(comparison.detectable)
    );
    let times = match comparison.kind {
        Kind::AnotherRun if comparison.options.pairing == Pairing::Paired => "pairs",
        Kind::AnotherRun => "runs a side",
        Kind::TheseRuns => "x samples",
    };
    match comparison.needs_for_bound {
        Some(needs) if comparison.detectable > bound => {
            format!("{found}, by {bound} % with {needs} {times}")
        }
        _ => found,
    }
}

/// If runs are slow and fast as wholes, how much more their parts can show.
fn by_share(comparison: &Comparison) -> Option<String> {
    let least = comparison.detectable_by_share?;
    let is_worth_it = comparison.detectable > comparison.options.bound
        && least <= WORTH_SHARES * comparison.detectable;
    is_worth_it.then(|| {
        format!(
            "Most of the scatter is that whole runs are faster and slower: --by share, which \
             compares parts of the total, finds changes by {} of it",
            percent(least)
        )
    })
}

/// Parts of the total are told of if they show changes of at most this part of those
/// that costs show.
const WORTH_SHARES: f64 = 0.5;

/// Names in a list; more than this are counted.
const MOST_NAMES: usize = 4;
/// Characters of a function's name in a verdict.
const NAME_IN_VERDICT: usize = 24;

/// What moved where, and what the sum is.
fn move_text(comparison: &Comparison, it: &Move) -> String {
    let [before, after] = it.costs.map(|cost| comparison.unit.text(cost));
    let Interval { low, high } = it.interval;
    format!(
        "Moved: {} -> {}, {}; together {before} -> {after}, {:+.2} % [{low:+.2}, {high:+.2}] of \
         the total before, {}",
        listed(&it.from, str::to_owned),
        listed(&it.into, str::to_owned),
        match it.is_inlined {
            true => "inlined",
            false => "taken out",
        },
        it.change.value,
        needed(it.verdict, comparison)
    )
}

/// Names with commas between them.
fn listed(names: &[String], shown: impl Fn(&str) -> String) -> String {
    let mut list: Vec<String> = names.iter().take(MOST_NAMES).map(|it| shown(it)).collect();
    let hidden = names.len().saturating_sub(MOST_NAMES);
    if hidden > 0 {
        list.push(format!("{hidden} more"));
    }
    list.join(", ")
}

/// The verdict of a row: that of a move, if its cost moved.
fn verdict_text(comparison: &Comparison, row: &ComparedRow) -> String {
    let said = needed(row.verdict, comparison);
    let short = |name: &str| {
        let name = escape::terminal(name);
        cell_within(&name, NAME_IN_VERDICT)
    };
    let of = |moved: Moved| Some((moved, comparison.moves.get(moved.place())?));
    match row.moved.and_then(of) {
        None => said,
        Some((Moved::Into(_), it)) => format!("moved into {}, sum {said}", one_of(&it.into, short)),
        Some((Moved::From(_), it)) => format!("moved from {}, sum {said}", one_of(&it.from, short)),
    }
}

/// The first, and how many more.
fn one_of(names: &[String], shown: impl Fn(&str) -> String) -> String {
    let first = names.first().map_or_else(String::new, |name| shown(name));
    match names.len() {
        0 | 1 => first,
        count => format!("{first} and {} more", count - 1),
    }
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
        "{}: {}, {}{each}",
        names.join(" "),
        several(samples, "sample"),
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
            needed_of_cost(verdict, comparison)
        ));
    }
    line
}

/// A verdict on what is compared, as text.
pub(crate) fn needed(verdict: Verdict, comparison: &Comparison) -> String {
    match verdict {
        Verdict::Faster if comparison.options.by == By::Share => "smaller part".to_owned(),
        Verdict::Slower if comparison.options.by == By::Share => "larger part".to_owned(),
        _ => needed_of_cost(verdict, comparison),
    }
}

/// A verdict on a cost, as text: also the total's where parts of it are compared.
pub(crate) fn needed_of_cost(verdict: Verdict, comparison: &Comparison) -> String {
    let bound = comparison.options.bound;
    match verdict {
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

fn write_table(
    comparison: &Comparison,
    rows: &[&ComparedRow],
    columns: Option<usize>,
    out: &mut dyn Write,
) -> io::Result<()> {
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
    let mut table = Cells {
        lines: std::iter::once(headings).chain(cells).collect(),
        numbers: NUMBERS,
    };
    let left_out = columns.map_or_else(Vec::new, |columns| table.fit(columns));
    if !left_out.is_empty() {
        let what = format!(
            "This terminal has no room for: {}. Piped, the table is whole.",
            left_out.join(", ")
        );
        comment(&what, columns, out)?;
    }
    let widths = table.widths();
    let mut lines = table.lines.iter();
    if let Some(headings) = lines.next() {
        writeln!(out, "# {}", line(headings, &widths, table.numbers))?;
    }
    let dots: Vec<String> = widths.iter().map(|&width| ".".repeat(width)).collect();
    writeln!(out, "# {}\n#", dots.join("  "))?;
    for cells in lines {
        writeln!(out, "  {}", line(cells, &widths, table.numbers))?;
    }
    Ok(())
}

/// Columns of numbers, which come first.
const NUMBERS: usize = 6;
/// The columns of costs, of the verdict, and of the first key.
const COSTS: [usize; 2] = [3, 1];
const VERDICT: usize = 6;
const FIRST_KEY: usize = 7;
/// What the last column, that of functions, should have on a terminal.
const NAMES: usize = 24;

/// A table on its way to text: headings and rows.
struct Cells {
    lines: Vec<Vec<String>>,
    /// Columns that are flushed right.
    numbers: usize,
}

impl Cells {
    fn widths(&self) -> Vec<usize> {
        let columns = self.lines.first().map_or(0, Vec::len);
        let width = |column: usize| {
            let of = |line: &Vec<String>| line.get(column).map_or(0, |cell| cell.chars().count());
            self.lines.iter().map(of).max().unwrap_or(0)
        };
        (0..columns).map(width).collect()
    }

    /// Columns left for the last cell in a line.
    fn room(&self, terminal: usize) -> usize {
        let widths = self.widths();
        let before = widths.split_last().map_or(&[][..], |(_, before)| before);
        let taken: usize = before.iter().map(|width| width + 2).sum();
        terminal.saturating_sub("# ".len() + taken)
    }

    /// Makes it fit a terminal; what had to be left out. Names are shortened
    /// after all that matters less has gone.
    fn fit(&mut self, terminal: usize) -> Vec<&'static str> {
        let mut left_out = Vec::new();
        let names = self.widths().last().copied().unwrap_or(0).min(NAMES);
        if self.room(terminal) < names {
            for cost in COSTS {
                self.remove(cost);
            }
            self.numbers -= COSTS.len();
            left_out.push("costs");
        }
        let verdict = VERDICT - COSTS.len();
        if self.room(terminal) < names {
            let cells = self.lines.iter_mut().skip(1);
            for cell in cells.filter_map(|line| line.get_mut(verdict)) {
                let end = cell.find(':').unwrap_or(cell.len());
                cell.truncate(end);
            }
            left_out.push("what would decide");
        }
        let first = FIRST_KEY - COSTS.len();
        let has_several_keys = self
            .lines
            .first()
            .is_some_and(|line| line.len() > first + 1);
        if self.room(terminal) < names && has_several_keys {
            while self
                .lines
                .first()
                .is_some_and(|line| line.len() > first + 1)
            {
                self.remove(first);
            }
            left_out.push("where functions are");
        }
        let room = self.room(terminal);
        for cell in self.lines.iter_mut().filter_map(|line| line.last_mut()) {
            *cell = cell_within(cell, room);
        }
        left_out
    }

    fn remove(&mut self, column: usize) {
        for line in &mut self.lines {
            if column < line.len() {
                line.remove(column);
            }
        }
    }
}

/// A cell of the last column in so many columns: a function's name behind its
/// letter is shortened, and cut if that does not do.
pub(crate) fn cell_within(cell: &str, room: usize) -> String {
    let start = match cell.get(..4) {
        Some(letter) if letter.starts_with('[') && letter.ends_with("] ") => letter.len(),
        _ => 0,
    };
    let (letter, name) = cell.split_at(start);
    let fits = |name: &str| start + name.chars().count() <= room;
    let cell = format!("{letter}{}", shortened(name, fits));
    match cell.chars().count() > room {
        true => cell
            .chars()
            .take(room.saturating_sub(1))
            .chain([CUT])
            .collect(),
        false => cell,
    }
}

fn cells(comparison: &Comparison, row: &ComparedRow) -> Vec<String> {
    let cost = |cost: f64| comparison.unit.text(cost);
    let interval = row.interval;
    let mut cells = vec![
        format!("{:.2}%", row.before.share),
        cost(row.before.cost),
        format!("{:.2}%", row.after.share),
        cost(row.after.cost),
        format!("{:+.2}%", row.change.value),
        format!("[{:+.2}, {:+.2}]", interval.low, interval.high),
        verdict_text(comparison, row),
    ];
    cells.extend(row.shown.iter().map(|name| name.trim_end().to_owned()));
    cells
}

/// Numbers to the right, texts to the left; the last cell is not padded.
fn line(cells: &[String], widths: &[usize], numbers: usize) -> String {
    let mut line = String::new();
    for (column, (cell, &width)) in cells.iter().zip(widths).enumerate() {
        if column > 0 {
            line.push_str("  ");
        }
        match column < numbers {
            true => line.push_str(&format!("{cell:>width$}")),
            false => line.push_str(&format!("{cell:<width$}")),
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
        text(&comparison, 0.1, None, &mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        assert!(out.contains("what other runs would show"), "{out}");
        let row = out.lines().find(|line| line.ends_with("] g")).unwrap();
        assert!(row.contains("slower") && row.contains("+11.16%"), "{out}");
        assert!(out.contains("same within 2 %"));
    }

    #[test]
    fn cost_that_moved_is_told_with_its_sum() {
        let before = [run(
            "a",
            &[("app:main", 100), ("app:main;app:f\x1b[2J", 300)],
        )];
        let after = [run("b", &[("app:main", 401)])];
        let comparison = Comparison::new(&before, &after, &ComparisonOptions::default()).unwrap();
        let mut out = Vec::new();
        text(&comparison, 0.1, None, &mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        let sum = "# Moved: f\\x1b[2J -> main, inlined; together 400.0 ms -> 401.0 ms";
        assert!(out.contains(sum), "{out}");
        assert!(
            out.contains("moved into main, sum same within 2 %"),
            "{out}"
        );
        assert!(
            out.contains("moved from f\\x1b[2J, sum same within 2 %"),
            "{out}"
        );
    }

    #[test]
    fn names_act_on_no_terminal_and_nothing_is_no_number() {
        let before = [run("a\x1b[2J", &[("app:f\x1b[31m", 1)])];
        let after = [run("b", &[("app:g", 1)])];
        let comparison = Comparison::new(&before, &after, &ComparisonOptions::default()).unwrap();
        let mut out = Vec::new();
        text(&comparison, 0.0, None, &mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        assert!(
            !out.contains('\x1b') && !out.contains("NaN") && !out.contains("inf"),
            "{out}"
        );
        assert!(out.contains("between these two recordings"));
    }

    #[test]
    fn it_says_what_it_can_show_and_what_more_would() {
        let text_of = |bound| {
            let (before, after) = sides(130);
            let options = ComparisonOptions {
                bound,
                ..ComparisonOptions::default()
            };
            let comparison = Comparison::new(&before, &after, &options).unwrap();
            let mut out = Vec::new();
            text(&comparison, 0.1, None, &mut out).unwrap();
            let out = String::from_utf8(out).unwrap();
            let line = out.lines().find(|line| line.contains("nine of ten"));
            line.unwrap().to_owned()
        };
        let small = text_of(0.1);
        assert!(
            small.contains("nine of ten cases, by 0.1 % with "),
            "{small}"
        );
        assert!(small.ends_with(" runs a side"), "{small}");
        // What is found with these needs no more.
        assert!(text_of(50.0).ends_with("nine of ten cases"));
    }
}

//! Differences as perf diff computes and prints them.

use crate::Run;
use crate::matching::{Found, Matched};
use crate::text::cell_within;
use rustc_hash::FxHashMap;
use std::cmp::Ordering;
use std::io::{self, Write};
use std::str::FromStr;

/// perf's `-c`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Computation {
    /// New share less old share, largest first.
    Delta,
    /// The same, largest change first.
    DeltaAbs,
    /// New period by old period.
    Ratio,
    /// New period times the second weight less old period times the first.
    WeightedDiff(i64, i64),
}

impl FromStr for Computation {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "delta" => Ok(Self::Delta),
            "delta-abs" => Ok(Self::DeltaAbs),
            "ratio" => Ok(Self::Ratio),
            "cycles" => Err("cycles of basic blocks are not compared; delta is".into()),
            _ => {
                let weights = text.strip_prefix("wdiff:").and_then(|weights| {
                    let (before, after) = weights.split_once(',')?;
                    Some((before.trim().parse().ok()?, after.trim().parse().ok()?))
                });
                let (before, after) = weights.ok_or(
                    "known are delta, delta-abs, ratio and wdiff:BEFORE,AFTER with two integers",
                )?;
                Ok(Self::WeightedDiff(before, after))
            }
        }
    }
}

/// What perf's table shows besides.
#[derive(Debug, Clone, Copy)]
pub struct PerfOptions {
    /// How rows are compared.
    pub computation: Computation,
    /// `-b`: rows of both recordings only.
    pub baseline_only: bool,
}

/// A row with perf's figures.
struct Line {
    shown: Vec<String>,
    /// Share before, percent; `None` if it was not there.
    before: Option<f64>,
    /// Whether it is there after.
    is_after: bool,
    /// What was computed; `None` if it is not there any more, or if perf says
    /// N/A.
    value: Option<f64>,
    cell: String,
}

/// Writes perf diff's table of two recordings, named by the event as perf
/// does. Names are compared as they are, not as those of different builds, and
/// shortened on a terminal of so many `columns`.
///
/// # Errors
/// If `out` cannot be written to.
pub fn perf_text(
    (before, after): (&Run, &Run),
    options: PerfOptions,
    columns: Option<usize>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut lines: Vec<Line> = paired(before, after)
        .iter()
        .map(|row| Line::new(row, (before, after), options.computation))
        .collect();
    if options.baseline_only {
        keep_matched(&mut lines);
    }
    lines.sort_by(|a, b| compare(a, b, options.computation));
    let (heading, width) = match options.computation {
        Computation::Delta => ("Delta", 7),
        Computation::DeltaAbs => ("Delta Abs", 9),
        Computation::Ratio => ("Ratio", 14),
        Computation::WeightedDiff(..) => ("Weighted diff", 14),
    };
    let headings: Vec<&str> = before.keys().iter().map(|key| key.heading()).collect();
    let column = |at: usize| {
        let of = |line: &Line| line.shown.get(at).map_or(0, |cell| cell.chars().count());
        let heading = headings.get(at).map_or(0, |heading| heading.len());
        lines.iter().map(of).max().unwrap_or(0).max(heading)
    };
    let widths: Vec<usize> = (0..headings.len()).map(column).collect();
    let widths = fit(widths, &mut lines, columns.map(|all| (all, width)));
    writeln!(out, "# Event '{}'\n#", before.event)?;
    write!(out, "# Baseline  {heading:>width$}")?;
    for (heading, width) in headings.iter().zip(&widths) {
        write!(out, "  {heading:<width$}")?;
    }
    write!(out, "\n# ........  {}", ".".repeat(width))?;
    for width in &widths {
        write!(out, "  {}", ".".repeat(*width))?;
    }
    writeln!(out, "\n#")?;
    for line in &lines {
        let before = line
            .before
            .map_or_else(String::new, |share| format!("{share:.2}%"));
        let mut text = format!("  {before:>8}  {:>width$}", line.cell);
        let last = line.shown.len().saturating_sub(1);
        for (at, (cell, width)) in line.shown.iter().zip(&widths).enumerate() {
            let width = if at == last { 0 } else { *width };
            text.push_str(&format!("  {cell:<width$}"));
        }
        writeln!(out, "{text}")?;
    }
    Ok(())
}

/// The widths of columns on a terminal: the last one has what those before it
/// leave, and its names are shortened for it. `terminal` is how wide that is,
/// and the column before the keys.
fn fit(mut widths: Vec<usize>, lines: &mut [Line], terminal: Option<(usize, usize)>) -> Vec<usize> {
    const BASELINE: usize = 10;
    let Some((terminal, computed)) = terminal else {
        return widths;
    };
    let last = widths.pop().unwrap_or(0);
    let taken: usize = widths.iter().map(|width| width + 2).sum();
    let room = terminal.saturating_sub(BASELINE + 2 + computed + taken + 2);
    for cell in lines.iter_mut().filter_map(|line| line.shown.last_mut()) {
        *cell = cell_within(cell, room);
    }
    widths.push(last.min(room));
    widths
}

/// perf's `-b`: rows of both recordings, whose old shares are of these rows
/// alone; what is computed stays.
fn keep_matched(lines: &mut Vec<Line>) {
    lines.retain(|line| line.before.is_some() && line.is_after);
    let whole: f64 = lines.iter().filter_map(|line| line.before).sum();
    for line in lines {
        line.before = line.before.map(|share| match whole {
            whole if whole > 0.0 => 100.0 * share / whole,
            _ => 0.0,
        });
    }
}

/// The rows of both, those of the old one first.
fn paired(before: &Run, after: &Run) -> Vec<Matched> {
    let mut rows: Vec<Matched> = Vec::new();
    let mut index: FxHashMap<&[String], usize> = FxHashMap::default();
    let of_before = before.measured.rows.iter().map(|row| (row, false));
    let of_after = after.measured.rows.iter().map(|row| (row, true));
    for (row, is_after) in of_before.chain(of_after) {
        let place = *index.entry(row.shown.as_slice()).or_insert_with(|| {
            rows.push(Matched {
                key: Default::default(),
                names: Vec::new(),
                shown: row.shown.clone(),
                was: None,
                before: vec![Found::default()],
                after: vec![Found::default()],
            });
            rows.len() - 1
        });
        let found = rows.get_mut(place).and_then(|row| match is_after {
            true => row.after.first_mut(),
            false => row.before.first_mut(),
        });
        if let Some(found) = found {
            found.weight += row.own.period as f64;
            found.samples += row.own.samples;
        }
    }
    rows
}

impl Line {
    fn new(row: &Matched, (before, after): (&Run, &Run), computation: Computation) -> Self {
        let found = |list: &[Found]| list.first().copied().unwrap_or_default();
        let (old, new) = (found(&row.before), found(&row.after));
        let share = |found: Found, run: &Run| match run.total() {
            total if total > 0.0 => 100.0 * found.weight / total,
            _ => 0.0,
        };
        let (is_old, is_new) = (old.samples > 0, new.samples > 0);
        let delta = share(new, after) - share(old, before);
        let value = match computation {
            _ if !is_new => None,
            Computation::Delta | Computation::DeltaAbs => Some(delta),
            _ if !is_old => None,
            Computation::Ratio => (old.weight > 0.0).then(|| new.weight / old.weight),
            Computation::WeightedDiff(first, second) => {
                Some(new.weight * second as f64 - old.weight * first as f64)
            }
        };
        let cell = match (computation, value) {
            (_, None) if is_new => "N/A".to_owned(),
            (_, None) => String::new(),
            (Computation::Ratio, Some(value)) => format!("{value:.6}"),
            (Computation::WeightedDiff(..), Some(value)) => format!("{value:.0}"),
            (_, Some(value)) => format!("{value:+.2}%"),
        };
        Self {
            shown: row.shown.clone(),
            before: is_old.then(|| share(old, before)),
            is_after: is_new,
            value,
            cell,
        }
    }
}

/// perf's order: by what was computed, then by the old share.
fn compare(a: &Line, b: &Line, computation: Computation) -> Ordering {
    let of = |line: &Line| match (computation, line.value) {
        (Computation::DeltaAbs, Some(value)) => value.abs(),
        (_, Some(value)) => value,
        (_, None) => f64::NEG_INFINITY,
    };
    of(b)
        .total_cmp(&of(a))
        .then_with(|| {
            b.before
                .unwrap_or(-1.0)
                .total_cmp(&a.before.unwrap_or(-1.0))
        })
        .then_with(|| a.shown.cmp(&b.shown))
}

#[cfg(test)]
mod tests {
    use super::{Computation, PerfOptions, perf_text};
    use crate::comparison::tests::run;

    fn written(computation: &str) -> String {
        let old = run("old", &[("app:f", 3), ("app:g", 1)]);
        let new = run("new", &[("app:f", 2), ("app:h", 2)]);
        let options = PerfOptions {
            computation: computation.parse().unwrap(),
            baseline_only: false,
        };
        let mut out = Vec::new();
        perf_text((&old, &new), options, None, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn figures_are_perf_s() {
        let delta = written("delta");
        let rows: Vec<&str> = delta
            .lines()
            .filter(|line| !line.starts_with('#'))
            .collect();
        assert!(
            rows[0].contains("+50.00%") && rows[0].ends_with("h"),
            "{delta}"
        );
        assert!(rows[1].contains("75.00%  -25.00%"), "{delta}");
        assert!(rows[2].starts_with("    25.00%           "), "{delta}");
        assert!(written("ratio").contains("0.666667"));
        assert!(written("wdiff:1,2").contains(" 1000000 "));
        assert!(written("ratio").contains("N/A"));
    }

    #[test]
    fn what_is_no_computation_is_refused() {
        for wrong in ["", "wdiff", "wdiff:1", "wdiff:a,b", "cycles", "deltas"] {
            assert!(wrong.parse::<Computation>().is_err(), "{wrong}");
        }
    }
}

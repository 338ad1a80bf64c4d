//! Counts as text, in perf stat's layout.

use super::figures::{Amount, CountRow, Series, Times};
use crate::aggregate::Id;
use prof_report::escape;
use std::fmt::Write as _;
use std::time::Duration;

/// What stands above the counts: ` Performance counter stats for 'true':`.
pub(crate) fn heading(of: &str, runs: u64) -> String {
    let runs = if runs > 1 {
        format!(" ({runs} runs)")
    } else {
        String::new()
    };
    format!("\n Performance counter stats for {of}{runs}:\n\n")
}

/// What stands above the lines of intervals.
pub(crate) fn interval_heading(rows: &[CountRow]) -> String {
    let label = rows.first().map_or("time", |row| row.label.heading());
    let unit_width = unit_width(rows);
    format!(
        "#           {label} {:>18} {:>unit_width$} events\n",
        "counts", "unit"
    )
}

fn unit_width(rows: &[CountRow]) -> usize {
    const LEAST: usize = 4;
    let units = rows.iter().map(|row| row.unit.len());
    units.max().unwrap_or(0).max(LEAST)
}

/// How numbers are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Numbers {
    /// As digits.
    #[default]
    Plain,
    /// In groups of three (`-B`).
    Grouped,
}

/// The lines of all events, each behind the time of its interval.
pub(crate) fn lines(rows: &[CountRow], time: Option<Duration>, numbers: Numbers) -> String {
    let unit_width = unit_width(rows);
    let prefix = time
        .map(|time| format!("{} ", timestamp(time)))
        .unwrap_or_default();
    let has_cgroups = rows.iter().any(|row| row.cgroup.is_some());
    let mut text = String::new();
    for row in rows {
        let mut line = format!("{prefix}{}", row.label.text());
        let amount = amount(row.amount, numbers);
        let name = escape::terminal(&row.name);
        // Writing to a String does not fail.
        let _ = write!(line, "{amount:>18} {:unit_width$} {name:<32}", row.unit);
        if has_cgroups {
            let cgroup = escape::terminal(row.cgroup.as_deref().unwrap_or_default()).into_owned();
            let _ = write!(line, " {cgroup}");
        }
        for (place, metric) in row.metrics.iter().enumerate() {
            if place > 0 {
                text.push_str(line.trim_end());
                let indent = if matches!(row.label.id, Id::Cpu(_)) {
                    57
                } else {
                    49
                };
                line = format!("\n{prefix}{}{:indent$}", row.label.text(), "");
            }
            let metric = format!(" # {} {}", metric.number(), metric.unit);
            let _ = write!(line, "{metric:<35}");
        }
        if row.metrics.is_empty() {
            let _ = write!(line, "{:<35}", "");
        }
        shares(row, &mut line);
        text.push_str(line.trim_end_matches(' '));
        text.push('\n');
    }
    text
}

/// The spread over runs, and the share of the time that it was counted.
fn shares(row: &CountRow, line: &mut String) {
    if row.noise > 0.0 {
        let _ = write!(line, "  ( +-{:6.2}% )", row.noise);
    }
    if row.running_percent < 100.0 {
        let _ = write!(line, "  ({:.2}%)", row.running_percent);
    }
}

fn amount(amount: Amount, numbers: Numbers) -> String {
    let number = match amount {
        Amount::Exact(count) => count.to_string(),
        Amount::Number(value, decimals) => format!("{value:.decimals$}"),
        Amount::NotCounted => return "<not counted>".to_owned(),
        Amount::NotSupported => return "<not supported>".to_owned(),
    };
    match numbers {
        Numbers::Plain => number,
        Numbers::Grouped => grouped(&number),
    }
}

/// `1234567.89` as `1,234,567.89`.
fn grouped(number: &str) -> String {
    let whole = number.find('.').unwrap_or(number.len());
    let mut text = String::new();
    for (place, character) in number.char_indices() {
        if place > 0 && place < whole && (whole - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(character);
    }
    text
}

/// Seconds and nanoseconds since the start, as wide as perf's.
pub(super) fn timestamp(time: Duration) -> String {
    format!("{:6}.{:09}", time.as_secs(), time.subsec_nanos())
}

/// The times below the counts; CPU times where only a command was counted.
/// `table` has the times of single runs below it, in ns, if they are wanted.
pub(crate) fn footer(
    times: &Times,
    runs: u64,
    only_command: bool,
    table: Option<&[f64]>,
) -> String {
    const NS: f64 = 1e9;
    if runs > 1 {
        return repeated_footer(&times.elapsed, table);
    }
    let mut text = format!(" {:17.9} seconds time elapsed\n", times.elapsed.mean() / NS);
    if only_command {
        let (user, system) = (times.user.mean() / NS, times.system.mean() / NS);
        let _ = write!(
            text,
            "\n {user:17.9} seconds user\n {system:17.9} seconds sys\n"
        );
    }
    text.push('\n');
    text
}

/// With as many decimals as the spread makes sensible.
fn repeated_footer(elapsed: &Series, table: Option<&[f64]>) -> String {
    let (mean, error) = (elapsed.mean() / 1e9, elapsed.error() / 1e9);
    let decimals = if error <= 0.0 {
        9
    } else if error > 1.0 {
        2
    } else {
        (-error.log10()).ceil() as usize + 2
    };
    let shown = format!(" {mean:17.decimals$}");
    let mut text = String::new();
    if let Some(runs) = table {
        let indent = shown.len() - shown.trim_start().len();
        let _ = writeln!(text, "{:indent$}# Table of individual measurements:", "");
        for run in runs.iter().map(|ns| ns / 1e9) {
            let away = run - mean;
            let bar = "#".repeat(1 + (100.0 * away / run).abs() as usize / 5);
            let _ = writeln!(text, " {run:17.decimals$} ({away:+.decimals$}) {bar}");
        }
        let _ = writeln!(text, "\n{:indent$}# Final result:", "");
    }
    let _ = write!(text, "{shown} +- {error:.decimals$} seconds time elapsed");
    if error > 0.0 {
        let _ = write!(text, "  ( +-{:6.2}% )", elapsed.error_percent());
    }
    text.push_str("\n\n");
    text
}

#[cfg(test)]
mod tests {
    use super::{Numbers, footer, grouped, heading, lines};
    use crate::shown::figures::Times;
    use crate::shown::figures::tests::{figures, rows};
    use std::time::Duration;

    #[test]
    fn one_run_looks_like_perfs() {
        let events = [
            figures("task-clock", 1, 1, &[720_000]),
            figures("context-switches", 1, 3, &[1]),
            figures("cycles", 0, 0, &[]),
        ];
        let mut times = Times::default();
        let ms = Duration::from_millis;
        times.push(Duration::from_nanos(1_311_804), ms(1), ms(0));
        let text = [
            heading("'true'", 1),
            lines(&rows(&events, times.elapsed.mean()), None, Numbers::Plain),
            "\n".to_owned(),
            footer(&times, 1, true, None),
        ];
        let expected = "
 Performance counter stats for 'true':

              0.72 msec task-clock                       #    0.549 CPUs utilized
                 1      context-switches                 #    1.389 K/sec
   <not supported>      cycles

       0.001311804 seconds time elapsed

       0.001000000 seconds user
       0.000000000 seconds sys

";
        assert_eq!(text.concat(), expected);
    }

    #[test]
    fn several_runs_show_their_spread() {
        let events = [figures("page-faults", 1, 2, &[48, 52])];
        let mut times = Times::default();
        for elapsed in [1_000_000, 1_100_000] {
            times.push(
                Duration::from_nanos(elapsed),
                Duration::ZERO,
                Duration::ZERO,
            );
        }
        let text = [
            heading("'true'", 2),
            lines(&rows(&events, times.elapsed.mean()), None, Numbers::Plain),
            "\n".to_owned(),
            footer(&times, 2, true, None),
        ];
        let expected = "
 Performance counter stats for 'true' (2 runs):

                50      page-faults                                                          ( +-  4.00% )

         0.0010500 +- 0.0000500 seconds time elapsed  ( +-  4.76% )

";
        assert_eq!(text.concat(), expected);
    }

    #[test]
    fn an_interval_begins_with_its_time() {
        let events = [figures("page-faults", 1, 2, &[1])];
        let time = Some(Duration::from_nanos(2_002_669_879));
        let text = lines(&rows(&events, 1.0), time, Numbers::Plain);
        assert_eq!(
            text,
            "     2.002669879                  1      page-faults\n"
        );
    }

    #[test]
    fn a_shared_counter_says_how_long_it_was_on() {
        let mut row = rows(&[figures("cycles", 0, 0, &[7])], 1.0).remove(0);
        row.running_percent = 33.333;
        let text = lines(&[row], None, Numbers::Plain);
        assert!(text.ends_with("  (33.33%)\n"));
    }

    #[test]
    fn large_numbers_are_grouped_when_asked_for() {
        for (number, shown) in [
            ("1", "1"),
            ("123", "123"),
            ("1234", "1,234"),
            ("1234567.89", "1,234,567.89"),
        ] {
            assert_eq!(grouped(number), shown);
        }
    }

    #[test]
    fn single_runs_are_shown_with_their_distance_from_the_mean() {
        let mut times = Times::default();
        let runs = [100_000_000.0, 110_000_000.0];
        for ns in runs {
            let elapsed = Duration::from_nanos(ns as u64);
            times.push(elapsed, Duration::ZERO, Duration::ZERO);
        }
        let expected = "           # Table of individual measurements:
           0.10000 (-0.00500) #
           0.11000 (+0.00500) #

           # Final result:
           0.10500 +- 0.00500 seconds time elapsed  ( +-  4.76% )

";
        assert_eq!(footer(&times, 2, true, Some(&runs)), expected);
    }
}

//! Counts as text, in perf stat's layout.

use super::figures::{Amount, CountRow, Metric, MetricStyle, Series, Times};
use crate::escape;
use std::fmt::Write as _;
use std::time::Duration;

/// What stands above the counts: ` Performance counter stats for 'true':`.
pub fn heading(of: &str, runs: u32) -> String {
    let runs = if runs > 1 {
        format!(" ({runs} runs)")
    } else {
        String::new()
    };
    format!("\n Performance counter stats for {of}{runs}:\n\n")
}

/// What stands above the lines of intervals.
pub const INTERVAL_HEADING: &str = "#           time             counts unit events\n";

/// The lines of all events, each behind the time of its interval.
pub fn lines(rows: &[CountRow], time: Option<Duration>) -> String {
    const LEAST_UNIT: usize = 4;
    let units = rows.iter().map(|row| row.unit.len());
    let unit_width = units.max().unwrap_or(0).max(LEAST_UNIT);
    let mut text = String::new();
    for row in rows {
        let before = text.len();
        if let Some(time) = time {
            // Writing to a String does not fail.
            let _ = write!(text, "{} ", timestamp(time));
        }
        line(row, unit_width, &mut text);
        text.truncate(before + text.get(before..).unwrap_or_default().trim_end().len());
        text.push('\n');
    }
    text
}

/// Seconds and nanoseconds since the start, as wide as perf's.
pub(super) fn timestamp(time: Duration) -> String {
    format!("{:6}.{:09}", time.as_secs(), time.subsec_nanos())
}

/// `              0.72 msec task-clock                       #    0.553 CPUs utilized`
fn line(row: &CountRow, unit_width: usize, text: &mut String) {
    let amount = match row.amount {
        Amount::Exact(count) => count.to_string(),
        Amount::Number(value, decimals) => format!("{value:.decimals$}"),
        Amount::NotCounted => "<not counted>".to_owned(),
        Amount::NotSupported => "<not supported>".to_owned(),
    };
    let metric = row.metric.as_ref().map(metric_text).unwrap_or_default();
    let name = escape::terminal(&row.name);
    let _ = write!(
        text,
        "{amount:>18} {:unit_width$} {name:<32}{metric:<35}",
        row.unit
    );
    if row.noise > 0.0 {
        let _ = write!(text, "  ( +-{:6.2}% )", row.noise);
    }
    let is_counted = matches!(row.amount, Amount::Exact(_) | Amount::Number(..));
    if is_counted && row.running_percent < 100.0 {
        let _ = write!(text, "  ({:.2}%)", row.running_percent);
    }
}

fn metric_text(metric: &Metric) -> String {
    let Metric { value, unit, style } = metric;
    match style {
        MetricStyle::Plain => format!(" # {value:8.3} {unit}"),
        MetricStyle::Ratio => format!(" # {value:7.2}  {unit}"),
        MetricStyle::Percent => format!(" # {value:7.2}% {unit}"),
    }
}

/// The times below the counts; CPU times where only a command was counted.
pub fn footer(times: &Times, runs: u32, only_command: bool) -> String {
    const NS: f64 = 1e9;
    if runs > 1 {
        return repeated_footer(&times.elapsed);
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
fn repeated_footer(elapsed: &Series) -> String {
    let (mean, error) = (elapsed.mean() / 1e9, elapsed.error() / 1e9);
    let decimals = if error <= 0.0 {
        9
    } else if error > 1.0 {
        2
    } else {
        (-error.log10()).ceil() as usize + 2
    };
    let mut text = format!(" {mean:17.decimals$} +- {error:.decimals$} seconds time elapsed");
    if error > 0.0 {
        let _ = write!(text, "  ( +-{:6.2}% )", elapsed.error_percent());
    }
    text.push_str("\n\n");
    text
}

#[cfg(test)]
mod tests {
    use super::{footer, heading, lines};
    use crate::counts::figures::tests::figures;
    use crate::counts::figures::{Times, rows};
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
            lines(&rows(&events, times.elapsed.mean()), None),
            "\n".to_owned(),
            footer(&times, 1, true),
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
            lines(&rows(&events, times.elapsed.mean()), None),
            "\n".to_owned(),
            footer(&times, 2, true),
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
        let text = lines(&rows(&events, 1.0), time);
        assert_eq!(
            text,
            "     2.002669879                  1      page-faults\n"
        );
    }

    #[test]
    fn a_shared_counter_says_how_long_it_was_on() {
        let mut row = rows(&[figures("cycles", 0, 0, &[7])], 1.0).remove(0);
        row.running_percent = 33.333;
        assert!(lines(&[row], None).ends_with("  (33.33%)\n"));
    }
}

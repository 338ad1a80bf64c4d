//! Counts for programs, as perf 6.1 writes them: `-x` as separated fields, `-j`
//! as a JSON object a line.

use super::figures::{Amount, CountRow};
use super::text::timestamp;
use serde_json::Value;
use std::fmt::Write as _;
use std::time::Duration;

/// A line per event: whose, value, unit, event, cgroup, spread if there are
/// several runs, ns counted, percent of the time, derived value, its unit.
/// `before` is what all lines begin with.
pub(crate) fn separated(
    rows: &[CountRow],
    separator: &str,
    before: &[String],
    runs: u64,
) -> String {
    let mut text = String::new();
    let has_cgroups = rows.iter().any(|row| row.cgroup.is_some());
    for row in rows {
        let mut fields = before.to_vec();
        fields.extend(row.label.fields());
        fields.push(amount(row.amount));
        fields.push(row.unit.clone());
        fields.push(row.name.clone());
        if has_cgroups {
            fields.push(row.cgroup.clone().unwrap_or_default());
        }
        if runs > 1 {
            fields.push(format!("{:.2}%", row.noise));
        }
        fields.push(row.running.to_string());
        fields.push(format!("{:.2}", row.running_percent));
        let mut metrics = row.metrics.iter();
        match metrics.next() {
            Some(metric) => fields.extend([bare(&metric.number()), metric.unit.clone()]),
            None => fields.extend([String::new(), String::new()]),
        }
        let _ = writeln!(text, "{}", fields.join(separator));
        for metric in metrics {
            let mut fields = before.to_vec();
            fields.extend(row.label.fields());
            let empty = 5 + usize::from(has_cgroups) + usize::from(runs > 1);
            fields.extend(std::iter::repeat_n(String::new(), empty));
            fields.extend([bare(&metric.number()), metric.unit.clone()]);
            let _ = writeln!(text, "{}", fields.join(separator));
        }
    }
    text
}

/// A number without its spaces and percent sign.
pub(super) fn bare(number: &str) -> String {
    number.trim().trim_end_matches('%').to_owned()
}

/// What separated lines of an interval begin with.
pub(crate) fn interval_field(time: Duration) -> String {
    timestamp(time)
}

fn amount(amount: Amount) -> String {
    match amount {
        Amount::Exact(count) => count.to_string(),
        Amount::Number(value, decimals) => format!("{value:.decimals$}"),
        Amount::NotCounted => "<not counted>".to_owned(),
        Amount::NotSupported => "<not supported>".to_owned(),
    }
}

/// A JSON object per event and line. Counts are strings, as perf's, because
/// they may pass what a JSON number holds.
pub(crate) fn json_lines(rows: &[CountRow], time: Option<Duration>, runs: u64) -> String {
    let mut text = String::new();
    let has_cgroups = rows.iter().any(|row| row.cgroup.is_some());
    for row in rows {
        let mut object: Vec<(&str, String)> = Vec::new();
        object.extend(time.map(|time| ("interval", timestamp(time).trim().to_owned())));
        object.extend(row.label.members_of_object());
        let count = match row.amount {
            Amount::Exact(count) => format!("{count}.000000"),
            Amount::Number(value, _) => format!("{value:.6}"),
            other => amount(other),
        };
        object.push(("counter-value", quoted(&count)));
        object.push(("unit", quoted(&row.unit)));
        object.push(("event", quoted(&row.name)));
        if has_cgroups {
            object.push(("cgroup", quoted(row.cgroup.as_deref().unwrap_or_default())));
        }
        if runs > 1 {
            object.push(("variance", format!("{:.2}", row.noise)));
        }
        object.push(("event-runtime", row.running.to_string()));
        object.push(("pcnt-running", format!("{:.2}", row.running_percent)));
        let (value, unit) = row
            .metrics
            .first()
            .map_or((0.0, ""), |metric| (metric.value, metric.unit.as_str()));
        object.push(("metric-value", number(value)));
        object.push(("metric-unit", quoted(unit)));
        write_object(&object, &mut text);
        for metric in row.metrics.iter().skip(1) {
            let mut object: Vec<(&str, String)> = Vec::new();
            object.extend(time.map(|time| ("interval", timestamp(time).trim().to_owned())));
            object.extend(row.label.members_of_object());
            object.push(("metric-value", number(metric.value)));
            object.push(("metric-unit", quoted(&metric.unit)));
            write_object(&object, &mut text);
        }
    }
    text
}

/// Writes an object; its values are JSON already.
pub(super) fn write_object(object: &[(&str, String)], text: &mut String) {
    let members = object
        .iter()
        .map(|(key, value)| format!("\"{key}\" : {value}"));
    let _ = writeln!(text, "{{{}}}", members.collect::<Vec<_>>().join(", "));
}

/// A text as JSON.
pub(super) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

/// JSON has no word for what is not a number.
fn number(value: f64) -> String {
    if value.is_finite() {
        format!("{value:.6}")
    } else {
        "null".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::{interval_field, json_lines, separated};
    use crate::shown::figures::tests::{figures, rows};
    use std::time::Duration;

    #[test]
    fn separated_fields_are_perfs() {
        let events = [
            figures("task-clock", 1, 1, &[680_000]),
            figures("page-faults", 1, 2, &[51]),
            figures("cycles", 0, 0, &[]),
        ];
        let expected = "0.68,msec,task-clock,1000,100.00,0.680,CPUs utilized\n\
            51,,page-faults,1000,100.00,75.000,K/sec\n\
            <not supported>,,cycles,0,100.00,,\n";
        assert_eq!(separated(&rows(&events, 1e6), ",", &[], 1), expected);
    }

    #[test]
    fn runs_add_their_spread_and_intervals_their_time() {
        let events = [figures("page-faults", 1, 2, &[48, 52])];
        let time = interval_field(Duration::from_secs(1));
        let text = separated(&rows(&events, 1.0), ";", &[time], 2);
        assert_eq!(
            text,
            "     1.000000000;50;;page-faults;4.00%;1000;100.00;;\n"
        );
    }

    #[test]
    fn every_line_is_json_whatever_the_name() {
        let events = [figures("a\"b\n", 1, 2, &[7])];
        let text = json_lines(&rows(&events, 1.0), Some(Duration::from_millis(1500)), 2);
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!(value["event"], "a\"b\n");
        assert_eq!(value["counter-value"], "7.000000");
        assert_eq!(value["interval"], 1.5);
        assert_eq!(value["variance"], 0.0);
        assert_eq!(text.lines().count(), 1);
    }
}

//! Counts for programs: `-x` as perf's separated fields, `-j` as JSON lines
//! with perf's keys.

use super::figures::{Amount, CountRow, MetricStyle};
use super::text::timestamp;
use serde_json::{Map, Value};
use std::fmt::Write as _;
use std::time::Duration;

/// A line per event: value, unit, event, spread if there are several runs, ns
/// counted, percent of the time, derived value, its unit.
pub fn separated(rows: &[CountRow], separator: &str, time: Option<Duration>, runs: u32) -> String {
    let mut text = String::new();
    for row in rows {
        let mut fields: Vec<String> = Vec::new();
        fields.extend(time.map(timestamp));
        fields.push(amount(row.amount));
        fields.push(row.unit.clone());
        fields.push(row.name.clone());
        if runs > 1 {
            fields.push(format!("{:.2}%", row.noise));
        }
        fields.push(row.running.to_string());
        fields.push(format!("{:.2}", row.running_percent));
        match &row.metric {
            Some(metric) => {
                fields.push(match metric.style {
                    MetricStyle::Plain => format!("{:.3}", metric.value),
                    MetricStyle::Ratio | MetricStyle::Percent => format!("{:.2}", metric.value),
                });
                fields.push(metric.unit.clone());
            }
            None => fields.extend([String::new(), String::new()]),
        }
        // Writing to a String does not fail.
        let _ = writeln!(text, "{}", fields.join(separator));
    }
    text
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
pub fn json_lines(rows: &[CountRow], time: Option<Duration>, runs: u32) -> String {
    let mut text = String::new();
    for row in rows {
        let mut object = Map::new();
        if let Some(time) = time {
            object.insert("interval".into(), time.as_secs_f64().into());
        }
        let count = match row.amount {
            Amount::Exact(count) => format!("{count}.000000"),
            Amount::Number(value, _) => format!("{value:.6}"),
            other => amount(other),
        };
        object.insert("counter-value".into(), count.into());
        object.insert("unit".into(), row.unit.as_str().into());
        object.insert("event".into(), row.name.as_str().into());
        if runs > 1 {
            object.insert("variance".into(), rounded(row.noise, 2));
        }
        object.insert("event-runtime".into(), row.running.into());
        object.insert("pcnt-running".into(), rounded(row.running_percent, 2));
        if let Some(metric) = &row.metric {
            object.insert("metric-value".into(), rounded(metric.value, 6));
            object.insert("metric-unit".into(), metric.unit.as_str().into());
        }
        let _ = writeln!(text, "{}", Value::Object(object));
    }
    text
}

fn rounded(value: f64, decimals: i32) -> Value {
    let factor = 10_f64.powi(decimals);
    ((value * factor).round() / factor).into()
}

#[cfg(test)]
mod tests {
    use super::{json_lines, separated};
    use crate::counts::figures::rows;
    use crate::counts::figures::tests::figures;
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
        assert_eq!(separated(&rows(&events, 1e6), ",", None, 1), expected);
    }

    #[test]
    fn runs_add_their_spread_and_intervals_their_time() {
        let events = [figures("page-faults", 1, 2, &[48, 52])];
        let text = separated(&rows(&events, 1.0), ";", Some(Duration::from_secs(1)), 2);
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

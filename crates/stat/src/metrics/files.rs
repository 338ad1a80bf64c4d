//! perf's JSON files of metrics and events
//! (`tools/perf/pmu-events/arch/ARCH/MODEL/*.json`).

use super::MetricsError;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// A metric, as a file defines it.
#[derive(Debug, Clone)]
pub(super) struct Definition {
    /// `MetricName`.
    pub(super) name: String,
    /// `MetricExpr`.
    pub(super) formula: String,
    /// `ScaleUnit`, as `100%` or `1e-9GB/s`.
    pub(super) scale_unit: String,
    /// `MetricGroup`, names between semicolons.
    groups: String,
}

/// All metrics and events of a folder.
#[derive(Debug, Default)]
pub(super) struct Tables {
    metrics: Vec<Definition>,
    /// `EventName` in lower case, and what `-e` takes for it.
    events: BTreeMap<String, String>,
}

impl Tables {
    /// The metric of this name, or those of the group.
    pub(super) fn find(&self, name: &str) -> Vec<&Definition> {
        let same = |other: &str| other.eq_ignore_ascii_case(name);
        if let Some(metric) = self.metrics.iter().find(|metric| same(&metric.name)) {
            return vec![metric];
        }
        let of_group = |metric: &&Definition| metric.groups.split(';').any(|it| same(it.trim()));
        self.metrics.iter().filter(of_group).collect()
    }

    /// The formula of the metric of this name.
    pub(super) fn formula(&self, name: &str) -> Option<&str> {
        let metric = self.metrics.iter().find(|metric| metric.name == name)?;
        Some(&metric.formula)
    }

    /// What `-e` takes for the name of an event in a formula.
    pub(super) fn event(&self, name: &str) -> String {
        let known = self.events.get(&name.to_ascii_lowercase());
        known.cloned().unwrap_or_else(|| name.to_owned())
    }

    pub(super) fn some_names(&self) -> String {
        let names = self.metrics.iter().map(|metric| metric.name.as_str());
        names.take(8).collect::<Vec<_>>().join(", ")
    }
}

/// Reads every `.json` of a folder.
pub(super) fn read(directory: &Path) -> Result<Tables, MetricsError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        |why| MetricsError::Read { path, why }
    };
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed(directory))? {
        files.push(entry.map_err(failed(directory))?.path());
    }
    files.retain(|file| file.extension().is_some_and(|it| it == "json"));
    files.sort();
    let mut tables = Tables::default();
    for file in files {
        let text = fs::read_to_string(&file).map_err(failed(&file))?;
        let entries: Vec<Value> =
            serde_json::from_str(&text).map_err(|why| MetricsError::Json {
                path: file.clone(),
                why,
            })?;
        entries.iter().for_each(|entry| tables.add(entry));
    }
    Ok(tables)
}

impl Tables {
    fn add(&mut self, entry: &Value) {
        let text = |key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
        if !text("MetricName").is_empty() && !text("MetricExpr").is_empty() {
            self.metrics.push(Definition {
                name: text("MetricName").to_owned(),
                formula: text("MetricExpr").to_owned(),
                scale_unit: text("ScaleUnit").to_owned(),
                groups: text("MetricGroup").to_owned(),
            });
        }
        if !text("EventName").is_empty() && text("Unit").is_empty() {
            let name = text("EventName").to_ascii_lowercase();
            self.events.insert(name, event_terms(&text));
        }
    }
}

/// The terms of the CPU's PMU for an event's fields.
fn event_terms<'a>(text: &impl Fn(&str) -> &'a str) -> String {
    const FIELDS: [(&str, &str); 6] = [
        ("EventCode", "event"),
        ("UMask", "umask"),
        ("CounterMask", "cmask"),
        ("Invert", "inv"),
        ("EdgeDetect", "edge"),
        ("AnyThread", "any"),
    ];
    let value = |key| {
        // Of several codes the first is the one to program.
        let first = text(key).split(',').next().unwrap_or_default().trim();
        let is_zero = matches!(first, "" | "0" | "0x0" | "0x00");
        (!is_zero || key == "EventCode").then_some(first)
    };
    let terms = FIELDS
        .into_iter()
        .filter_map(|(key, term)| value(key).map(|value| format!("{term}={value}")));
    format!("cpu/{}/", terms.collect::<Vec<_>>().join(","))
}

/// `100%` as the factor and the unit.
pub(super) fn scale_and_unit(text: &str) -> (f64, String) {
    let is_exponent = |at: usize| {
        let rest = text.get(at + 1..).unwrap_or_default();
        rest.trim_start_matches(['-', '+'])
            .starts_with(|it: char| it.is_ascii_digit())
    };
    let end = text
        .char_indices()
        .find(|&(at, character)| match character {
            '0'..='9' | '.' | '-' | '+' => false,
            'e' | 'E' => !(at > 0 && is_exponent(at)),
            _ => true,
        })
        .map_or(text.len(), |(at, _)| at);
    let (number, unit) = text.split_at(end);
    (number.parse().unwrap_or(1.0), unit.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::scale_and_unit;

    #[test]
    fn a_scale_stands_before_its_unit() {
        for (text, scale, unit) in [
            ("100%", 100.0, "%"),
            ("1e-9GB/s", 1e-9, "GB/s"),
            ("6.1e-5MiB", 6.1e-5, "MiB"),
            ("1events", 1.0, "events"),
            ("1per_branch", 1.0, "per_branch"),
            ("", 1.0, ""),
        ] {
            assert_eq!(scale_and_unit(text), (scale, unit.to_owned()), "{text}");
        }
    }
}

//! `prof list`: the events of this machine.

mod refused;

use crate::outcome::{Outcome, say};
use crate::refused::Refused;
use anyhow::Context;
use prof_record::catalog::{ListedEvent, events, hidden, why_none};
use serde_json::json;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;

/// List the events that this machine has, and why it lacks others.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only these: hw, sw, cache, tool, pmu, tracepoint, a part of a name, or a
    /// pattern with * and ?.
    filter: Vec<String>,
    /// Write JSON.
    #[arg(short, long)]
    json: bool,
    /// Write to this file instead of stdout.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Only events of this PMU.
    #[arg(long, value_name = "PMU")]
    unit: Option<String>,
    /// Say what each event counts.
    #[arg(short, long)]
    desc: bool,
    /// The same: there are no longer ones.
    #[arg(short = 'v', long, hide = true)]
    long_desc: bool,
    /// Names without descriptions, as without -d.
    #[arg(long, hide = true, conflicts_with_all = ["desc", "long_desc"])]
    no_desc: bool,
    /// Show each event by its numbers too, as -e takes it.
    #[arg(long)]
    details: bool,
    #[command(flatten)]
    refused: Refused<refused::OfList>,
}

/// Writes the list to stdout.
pub(crate) fn run(args: Args) -> anyhow::Result<Outcome> {
    let args = &args;
    let mut events = events(&args.filter);
    if let Some(unit) = &args.unit {
        let of_unit = format!("{unit}/");
        events.retain(|event| {
            event.name.starts_with(&of_unit) || event.category.pmu() == Some(unit.as_str())
        });
    }
    let text = if args.json {
        as_json(&events)
    } else {
        let shown = Shown {
            descriptions: args.desc || args.long_desc,
            encodings: args.details,
        };
        as_text(&events, shown)
    };
    match &args.output {
        Some(path) => {
            fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?
        }
        None => io::stdout()
            .lock()
            .write_all(text.as_bytes())
            .context("cannot write to stdout")?,
    }
    if let (true, Some(unit)) = (events.is_empty(), &args.unit) {
        anyhow::bail!("no event of a PMU called {unit}\n  try: prof list pmu");
    }
    let of_metrics = |word: &String| matches!(word.as_str(), "metric" | "metrics" | "metricgroup");
    if events.is_empty() && args.filter.iter().any(of_metrics) {
        anyhow::bail!(
            "the kernel publishes no metrics\n  try: prof stat -M NAME --metrics-dir DIR, with perf's \
             JSON files"
        );
    }
    if events.is_empty() {
        if let Some(why) = why_none(&args.filter) {
            anyhow::bail!("{why}\n  try: prof doctor");
        }
        if let Some(why) = hidden(&args.filter).first() {
            anyhow::bail!("{why}\n  try: prof doctor");
        }
        let filter = args.filter.join(" ");
        anyhow::bail!("no event is called {filter}\n  try: prof list");
    }
    for why in hidden(&args.filter) {
        say(&format!("{why}\n  try: prof doctor"));
    }
    Ok(Outcome::Done)
}

/// What is shown of each event but its name.
#[derive(Clone, Copy, Default)]
struct Shown {
    descriptions: bool,
    encodings: bool,
}

/// A line per event in perf's layout; a blank line between kinds.
fn as_text(events: &[ListedEvent], shown: Shown) -> String {
    let mut text = String::new();
    let mut before = None;
    for event in events {
        if before.is_some_and(|category| category != event.category) {
            text.push('\n');
        }
        before = Some(event.category);
        let name = match event.alias {
            Some(alias) => format!("{} OR {alias}", event.name),
            None => event.name.clone(),
        };
        let title = event.category.title();
        // Writing to a String does not fail.
        let _ = match &event.lacking {
            None => writeln!(text, "  {name:<50} [{title}]"),
            Some(why) => writeln!(text, "  {name:<50} [{title}, not available: {why}]"),
        };
        if shown.descriptions
            && let Some(description) = described(event)
        {
            let _ = writeln!(text, "       [{description}]");
        }
        if shown.encodings
            && let Some(encoding) = &event.encoding
        {
            let _ = writeln!(text, "        {encoding}");
        }
    }
    text
}

/// What it counts, and in which unit.
fn described(event: &ListedEvent) -> Option<String> {
    let unit = event.scale.as_ref().map(|(_, unit)| format!("in {unit}"));
    let parts = [event.description.map(str::to_owned), unit];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn as_json(events: &[ListedEvent]) -> String {
    let events: Vec<_> = events
        .iter()
        .map(|event| {
            json!({
                "name": event.name,
                "alias": event.alias,
                "kind": event.category.word(),
                "available": event.lacking.is_none(),
                "reason": event.lacking,
                "description": event.description,
                "encoding": event.encoding,
                "scale": event.scale.as_ref().map(|(factor, _)| factor),
                "unit": event.scale.as_ref().map(|(_, unit)| unit),
            })
        })
        .collect();
    format!("{:#}\n", serde_json::Value::Array(events))
}

#[cfg(test)]
mod tests {
    use super::{Shown, as_json, as_text};
    use prof_record::catalog::{Category, ListedEvent};

    #[test]
    fn an_event_that_is_lacking_says_why() {
        let events = [
            ListedEvent {
                alias: Some("cpu-cycles"),
                lacking: Some("this machine has no PMU".into()),
                ..ListedEvent::new("cycles", Category::Hardware)
            },
            ListedEvent::new("cpu-clock", Category::Software),
        ];
        let expected = "  cycles OR cpu-cycles                               \
            [Hardware event, not available: this machine has no PMU]\n\n  \
            cpu-clock                                          [Software event]\n";
        assert_eq!(as_text(&events, Shown::default()), expected);
        let json: serde_json::Value = serde_json::from_str(&as_json(&events)).expect("JSON");
        assert_eq!(json[0]["available"], false);
        assert_eq!(json[1]["reason"], serde_json::Value::Null);
    }

    #[test]
    fn descriptions_units_and_numbers_are_shown_where_asked_for() {
        let energy = ListedEvent {
            description: Some("Energy of the package"),
            encoding: Some("power/event=0x02/".into()),
            scale: Some((2.5e-10, "Joules".into())),
            ..ListedEvent::new("power/energy-pkg/", Category::Pmu)
        };
        let shown = Shown {
            descriptions: true,
            encodings: true,
        };
        let text = as_text(std::slice::from_ref(&energy), shown);
        let more = "\n       [Energy of the package, in Joules]\n        power/event=0x02/\n";
        assert!(text.ends_with(more), "{text}");
        let json: serde_json::Value = serde_json::from_str(&as_json(&[energy])).expect("JSON");
        assert_eq!(
            (&json[0]["unit"], &json[0]["scale"]),
            (&"Joules".into(), &2.5e-10.into())
        );
    }
}

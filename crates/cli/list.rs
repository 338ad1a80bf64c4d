//! `prof list`: the events of this machine.

mod refused;

use crate::outcome::Outcome;
use crate::refused::Refused;
use anyhow::Context;
use prof_record::catalog::{ListedEvent, events, why_none};
use serde_json::json;
use std::fmt::Write as _;
use std::fs;
use std::io::{self, Write as _};
use std::path::PathBuf;

/// List the events that this machine has, and why it lacks others.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Only these: hw, sw, cache, pmu, tracepoint, a part of a name, or a
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
    /// Names without descriptions, as they always are.
    #[arg(long, hide = true)]
    no_desc: bool,
    #[command(flatten)]
    refused: Refused<refused::OfList>,
}

/// Writes the list to stdout.
pub(crate) fn run(args: Args) -> anyhow::Result<Outcome> {
    let args = &args;
    let mut events = events(&args.filter);
    if let Some(unit) = &args.unit {
        let of_unit = format!("{unit}/");
        events.retain(|event| event.name.starts_with(&of_unit));
    }
    let text = if args.json {
        as_json(&events)
    } else {
        as_text(&events)
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
    if events.is_empty() {
        if let Some(why) = why_none(&args.filter) {
            anyhow::bail!("{why}\n  try: prof doctor, which has the command that helps");
        }
        let filter = args.filter.join(" ");
        anyhow::bail!("no event is called {filter}\n  try: prof list");
    }
    Ok(Outcome::Done)
}

/// A line per event in perf's layout; a blank line between kinds.
fn as_text(events: &[ListedEvent]) -> String {
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
    }
    text
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
            })
        })
        .collect();
    format!("{:#}\n", serde_json::Value::Array(events))
}

#[cfg(test)]
mod tests {
    use super::{as_json, as_text};
    use prof_record::catalog::{Category, ListedEvent};

    #[test]
    fn an_event_that_is_lacking_says_why() {
        let events = [
            ListedEvent {
                name: "cycles".into(),
                alias: Some("cpu-cycles"),
                category: Category::Hardware,
                lacking: Some("this machine has no PMU".into()),
            },
            ListedEvent {
                name: "cpu-clock".into(),
                alias: None,
                category: Category::Software,
                lacking: None,
            },
        ];
        let expected = "  cycles OR cpu-cycles                               \
            [Hardware event, not available: this machine has no PMU]\n\n  \
            cpu-clock                                          [Software event]\n";
        assert_eq!(as_text(&events), expected);
        let json: serde_json::Value = serde_json::from_str(&as_json(&events)).expect("JSON");
        assert_eq!(json[0]["available"], false);
        assert_eq!(json[1]["reason"], serde_json::Value::Null);
    }
}

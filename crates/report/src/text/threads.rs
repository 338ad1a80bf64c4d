//! What each event counted in each thread (`record -s`).

use super::padding::push_right;
use crate::escape;
use prof_profile::{EventId, Profile};
use std::collections::BTreeMap;
use std::fmt::Write;

/// A line for each thread that ended, a column for each event.
pub(crate) fn threads(profile: &Profile) -> String {
    let mut events: Vec<EventId> = Vec::new();
    let mut index = BTreeMap::new();
    let mut lines: Vec<(i32, i32, BTreeMap<EventId, u64>)> = Vec::new();
    for count in &profile.thread_counts {
        if !events.contains(&count.event) {
            events.push(count.event);
        }
        let at = *index.entry((count.pid, count.tid)).or_insert(lines.len());
        if at == lines.len() {
            lines.push((count.pid, count.tid, BTreeMap::new()));
        }
        if let Some((.., values)) = lines.get_mut(at) {
            values.insert(count.event, count.value);
        }
    }
    let value_of = |values: &BTreeMap<EventId, u64>, event| values.get(event).copied().unwrap_or(0);
    let widest = |heading: &str, cells: &mut dyn Iterator<Item = String>| {
        let cells = cells.map(|cell| cell.len()).max();
        cells.unwrap_or(0).max(heading.chars().count())
    };
    let pid_width = widest("PID", &mut lines.iter().map(|(pid, ..)| pid.to_string()));
    let tid_width = widest("TID", &mut lines.iter().map(|(_, tid, _)| tid.to_string()));
    let mut out = format!("# {:>pid_width$}  {:>tid_width$}", "PID", "TID");
    let mut widths = Vec::new();
    for event in &events {
        let name = profile.events.get(usize::from(event.0));
        let name = escape::terminal(name.map_or("unknown", |event| event.name.as_str()));
        let mut cells = lines
            .iter()
            .map(|(.., values)| value_of(values, event).to_string());
        let width = widest(&name, &mut cells);
        out.push_str("  ");
        push_right(&name, width, &mut out);
        widths.push(width);
    }
    out.push('\n');
    for (pid, tid, values) in &lines {
        let _ = write!(out, "  {pid:>pid_width$}  {tid:>tid_width$}");
        for (event, width) in events.iter().zip(&widths) {
            out.push_str("  ");
            push_right(&value_of(values, event).to_string(), *width, &mut out);
        }
        out.push('\n');
    }
    out
}

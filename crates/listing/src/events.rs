//! The events of a recording, as `perf evlist` lists them.

use prof_perfdata::tracepoint::TracingData;
use prof_perfdata::{Event, Reader};
use prof_report::escape;
use std::fmt::Write as _;

/// What is listed of each event besides its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EventDetail {
    /// All fields of the attr that are set.
    pub attrs: bool,
    /// The frequency or period of samples.
    pub frequency: bool,
    /// The fields of tracepoints.
    pub fields: bool,
}

/// A line per event.
///
/// Events of a pipe have their names in records, so the reader is read to the
/// end first.
///
/// # Errors
/// When reading fails.
pub fn list_events(reader: &mut Reader, detail: EventDetail) -> Result<String, super::Error> {
    while reader.advance()? {}
    let tracing = reader.features().tracing_data().map(TracingData::parse);
    let tracing = tracing.and_then(Result::ok);
    let mut text = String::new();
    for event in reader.events().list() {
        let mut parts: Vec<String> = Vec::new();
        if detail.attrs {
            let fields = event.attr.set_fields().into_iter();
            parts.extend(fields.map(|(name, value)| format!("{name}: {value}")));
        } else if detail.frequency {
            let what = if event.attr.is_freq() {
                "freq"
            } else {
                "period"
            };
            parts.push(format!("sample_{what}={}", event.attr.sample_period));
        }
        if detail.fields {
            parts.push(tracepoint_fields(event, tracing.as_ref()));
        }
        text.push_str(&escape::terminal(&event.name()));
        if !parts.is_empty() {
            // Writing to a String does not fail.
            let _ = write!(text, ": {}", parts.join(", "));
        }
        text.push('\n');
    }
    Ok(text)
}

/// A line per group, the names of its members in braces.
///
/// # Errors
/// When reading fails.
pub fn list_groups(reader: &mut Reader) -> Result<String, super::Error> {
    while reader.advance()? {}
    let events = reader.events().list();
    let name = |event: &Event| escape::terminal(&event.name()).into_owned();
    let groups = reader.features().groups().unwrap_or_default();
    let mut text = String::new();
    let mut index = 0;
    while let Some(event) = events.get(index) {
        let leads = |leader: u32| usize::try_from(leader) == Ok(index);
        let group = groups
            .iter()
            .find(|group| leads(group.leader) && group.members > 1);
        let members = group.map_or(1, |group| group.members as usize);
        let members = events.get(index..).unwrap_or_default().iter().take(members);
        index += members.len();
        match group {
            Some(group) => {
                let names: Vec<_> = members.map(name).collect();
                let own = group.name.to_string_lossy();
                let own = if own == "{anon_group}" {
                    "".into()
                } else {
                    own
                };
                let _ = writeln!(text, "{}{{{}}}", escape::terminal(&own), names.join(","));
            }
            None => {
                let _ = writeln!(text, "{}", name(event));
            }
        }
    }
    Ok(text)
}

/// Whether an event is a tracepoint, whose fields can be listed.
pub fn has_tracepoints(reader: &Reader) -> bool {
    let mut events = reader.events().list().iter();
    events.any(|event| event.tracepoint().is_some())
}

fn tracepoint_fields(event: &Event, tracing: Option<&TracingData>) -> String {
    let Some(number) = event.tracepoint() else {
        return "(not a tracepoint)".to_owned();
    };
    let format = tracing.and_then(|tracing| tracing.event(number));
    let Some(format) = format else {
        return "(no trace field)".to_owned();
    };
    let own = format.fields.iter().filter(|field| !field.is_common());
    let names: Vec<_> = own.map(|field| escape::terminal(&field.name)).collect();
    format!("trace_fields: {}", names.join(","))
}

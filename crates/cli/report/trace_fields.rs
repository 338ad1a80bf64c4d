//! Columns that are fields of a recording's tracepoints.

use super::{Args, usage};
use prof_perfdata::tracepoint::{EventFormat, FieldStorage, TracingData};
use prof_perfdata::{Event, Reader};
use prof_profile::TraceField;
use prof_report::escape;
use prof_report::keys::{FieldRoom, SortKey};
use std::borrow::Cow;

impl Args {
    /// With the fields of tracepoints that are asked for by name, as perf: `FIELD` of all
    /// tracepoints that have it, `EVENT.FIELD`, `EVENT.*` and `trace_fields`, with `/raw`
    /// behind.
    pub(super) fn with_trace_fields(mut self) -> anyhow::Result<Self> {
        let lists = [&self.columns.sort, &self.columns.fields];
        let lists = lists.map(|list| list.as_ref()?.known().err());
        let Some(error) = lists.into_iter().flatten().next() else {
            return Ok(self);
        };
        if !self.input.is_file() {
            return Err(usage(format!(
                "{error} (these are looked up before a recording is read, which a pipe does not \
                 allow: write it to a file)"
            )));
        }
        let reader = self.input.open()?;
        let tracing = reader.features().tracing_data();
        let tracing = tracing.and_then(|section| TracingData::parse(section).ok());
        let known = Tracepoints::of(&reader, tracing.as_ref());
        for list in [&mut self.columns.sort, &mut self.columns.fields] {
            if let Some(given) = list.take() {
                let found = given.with_trace_fields(|word| known.keys(word));
                *list = Some(found.map_err(|error| usage(error.to_string()))?);
            }
        }
        Ok(self)
    }

    /// The fields of tracepoints among the columns.
    pub(super) fn trace_fields(&self) -> Vec<TraceField> {
        let keys = self.given_keys().filter_map(SortKey::trace_field);
        keys.cloned().collect()
    }
}

/// A tracepoint of the recording: its event, and what its payloads have.
struct Tracepoint<'a> {
    name: Cow<'a, str>,
    number: u64,
    format: &'a EventFormat,
}

impl Tracepoint<'_> {
    /// That it has no such field, and which it has.
    fn has_no(&self, field: &str) -> String {
        let own = self.format.fields.iter().filter(|field| !field.is_common());
        let names: Vec<_> = own.map(|field| escape::terminal(&field.name)).collect();
        let event = escape::terminal(&self.name);
        format!(
            "{event} has no field {field:?}; it has {}",
            names.join(", ")
        )
    }
}

/// The events of a recording.
struct Tracepoints<'a> {
    /// By the place among all events.
    list: Vec<Option<Tracepoint<'a>>>,
}

impl<'a> Tracepoints<'a> {
    fn of(reader: &'a Reader, tracing: Option<&'a TracingData>) -> Self {
        let tracepoint = |event: &'a Event| {
            let number = event.tracepoint()?;
            Some(Tracepoint {
                name: event.name(),
                number,
                format: tracing?.event(number)?,
            })
        };
        Self {
            list: reader.events().list().iter().map(tracepoint).collect(),
        }
    }

    /// The keys that a word names; none if it is no field.
    fn keys(&self, word: &str) -> Result<Vec<SortKey>, String> {
        let (word, is_raw) = match word.strip_suffix("/raw") {
            Some(word) => (word, true),
            None => (word, false),
        };
        let (chosen, field) = match word.split_once('.') {
            Some((event, field)) => (vec![self.event(event)?], field),
            None => (self.list.iter().flatten().collect(), word),
        };
        if !matches!(field, "*" | "trace_fields") {
            let found = key(&chosen, field, is_raw);
            return match (chosen.as_slice(), &found) {
                ([only], None) if word.contains('.') => Err(only.has_no(field)),
                _ => Ok(found.into_iter().collect()),
            };
        }
        let mut names: Vec<&str> = Vec::new();
        for tracepoint in &chosen {
            let own = tracepoint.format.fields.iter();
            let own = own.filter(|field| !field.is_common());
            for field in own.map(|field| field.name.as_str()) {
                if !names.contains(&field) {
                    names.push(field);
                }
            }
        }
        let keys = names.into_iter();
        Ok(keys.filter_map(|name| key(&chosen, name, is_raw)).collect())
    }

    /// The one that a text means, as in perf: its place (`%1`), its whole name, or any part
    /// of its name that no other has.
    fn event(&self, text: &str) -> Result<&Tracepoint<'a>, String> {
        if let Some(place) = text.strip_prefix('%') {
            let place = place.parse::<usize>().ok();
            let at = place.and_then(|place| self.list.get(place.checked_sub(1)?));
            return at.and_then(Option::as_ref).ok_or_else(|| {
                format!("{text} is no tracepoint; prof evlist lists the events, the first is %1")
            });
        }
        let is_meant = |it: &&Tracepoint<'_>| match text.contains(':') {
            true => it.name == text,
            false => it.name.contains(text),
        };
        let mut meant = self.list.iter().flatten().filter(is_meant);
        match (meant.next(), meant.next()) {
            (Some(only), None) => Ok(only),
            (Some(one), Some(other)) => Err(format!(
                "{text:?} is a part of {} and {}: write one of these names",
                one.name, other.name
            )),
            (None, _) => {
                let names: Vec<&str> = self.list.iter().flatten().map(|it| &*it.name).collect();
                Err(match names.as_slice() {
                    [] => format!("{text:?}: no tracepoint was recorded"),
                    names => format!(
                        "no tracepoint {text:?} was recorded; there are {}",
                        names.join(", ")
                    ),
                })
            }
        }
    }
}

/// The key of a field of those tracepoints that have it.
fn key(tracepoints: &[&Tracepoint<'_>], name: &str, is_raw: bool) -> Option<SortKey> {
    let having = tracepoints.iter();
    let having: Vec<_> = having
        .filter_map(|it| Some((it.number, it.format.field(name)?)))
        .collect();
    let (_, first) = having.first()?;
    let size = having.iter().map(|(_, field)| field.size).max();
    let size = size.unwrap_or(0);
    let room = match first.storage {
        _ if !first.is_text() => FieldRoom::Number(size),
        FieldStorage::Inline => FieldRoom::Text(size),
        FieldStorage::DataLoc | FieldStorage::RelLoc => FieldRoom::LongText,
    };
    let field = TraceField {
        events: having.iter().map(|&(number, _)| number).collect(),
        name: name.to_owned(),
        is_raw,
    };
    Some(SortKey::of_trace_field(field, room))
}

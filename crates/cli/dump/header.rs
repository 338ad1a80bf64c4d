//! The file header, the events and the feature sections: what
//! `perf report --header-only -I` tells, in its words.

use super::attr;
use super::features;
use super::values::{json_fields, visible, write_value};
use prof_abi::{ByteOrder, RecordType};
use prof_perfdata::{Event, FeatureBit, Mode, Reader, Value};
use serde_json::json;
use std::borrow::Cow;
use std::io::{self, Write};

type Fields<'a> = Vec<(&'static str, Value<'a>)>;

/// Writes header, events and features.
pub(super) fn write(reader: &mut Reader, json: bool, out: &mut impl Write) -> anyhow::Result<()> {
    if reader.header().mode == Mode::Pipe {
        // In a stream all this comes as records before the first sample.
        while let Some(record) = reader.next()? {
            if record.kind == RecordType::SAMPLE {
                break;
            }
        }
    }
    if json {
        write_json(reader, out)?;
    } else {
        write_text(reader, out)?;
    }
    Ok(())
}

fn header_fields(reader: &Reader) -> Fields<'static> {
    let header = reader.header();
    let mut fields = vec![
        ("header version", Value::Number(header.version.into())),
        (
            "mode",
            Value::Word(match header.mode {
                Mode::File => "file",
                Mode::Pipe => "pipe",
            }),
        ),
        (
            "byte order",
            Value::Word(match header.order {
                ByteOrder::Little => "little-endian",
                ByteOrder::Big => "big-endian",
            }),
        ),
    ];
    if header.mode == Mode::File {
        fields.push(("data offset", Value::Number(header.data.offset)));
        fields.push(("data size", Value::Number(header.data.size)));
        fields.push(("feat offset", Value::Number(header.data.end())));
    }
    fields
}

/// What describes an event: its name and ids, then its attr.
fn event_fields(event: &Event) -> Fields<'_> {
    let name = match event.name() {
        Cow::Borrowed(name) => Cow::Borrowed(name.as_bytes()),
        Cow::Owned(name) => Cow::Owned(name.into_bytes()),
    };
    let ids = event.ids.iter().map(|&id| Value::Number(id)).collect();
    let mut fields = vec![("name", Value::Text(name)), ("id", Value::List(ids))];
    if let Some(unit) = &event.unit {
        fields.push(("unit", Value::Text(Cow::Borrowed(unit.as_bytes()))));
    }
    if let Some(scale) = event.scale {
        fields.push(("scale", Value::Float(scale)));
    }
    fields.extend(attr::fields(&event.attr));
    fields
}

fn write_text(reader: &Reader, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "# ========")?;
    for (name, value) in header_fields(reader) {
        write!(out, "# {name:<14} : ")?;
        write_value(&value, out)?;
        writeln!(out)?;
    }
    for section in reader.features().sections() {
        features::write_text(section, out)?;
    }
    for event in reader.events().list() {
        write!(out, "# event : ")?;
        for (index, (name, value)) in event_fields(event).iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(out, "{separator}{name} = ")?;
            match value {
                Value::Text(text) => out.write_all(visible(text).as_bytes())?,
                value => write_value(value, out)?,
            }
        }
        writeln!(out)?;
    }
    let missing: Vec<&str> = missing_features(reader).collect();
    writeln!(out, "# missing features: {}", missing.join(" "))?;
    writeln!(out, "# ========")
}

/// Features of perf (up to its newest known here) that are not there.
fn missing_features(reader: &Reader) -> impl Iterator<Item = &'static str> + '_ {
    let known = FeatureBit::TRACING_DATA.0..=FeatureBit::CLN_SIZE.0;
    let missing = known
        .map(FeatureBit)
        .filter(|&bit| !reader.features().has(bit));
    missing.filter_map(FeatureBit::name)
}

fn write_json(reader: &Reader, out: &mut impl Write) -> io::Result<()> {
    let events = reader.events().list().iter();
    let events: Vec<_> = events
        .map(|event| json_fields(event_fields(event)))
        .collect();
    let sections = reader.features().sections().iter();
    let features: Vec<_> = sections.map(features::json).collect();
    let object = json!({
        "header": json_fields(header_fields(reader)),
        "events": events,
        "features": features,
        "missing_features": missing_features(reader).collect::<Vec<_>>(),
    });
    writeln!(out, "{object}")
}

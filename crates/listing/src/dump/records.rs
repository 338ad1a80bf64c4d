//! Every record with all of its fields.

use super::values::{json_fields, visible, write_fields};
use crate::Error;
use prof_perfdata::{Body, Reader, Record, SampleId, Value};
use prof_report::harmless_json;
use serde_json::{Map, Value as Json};
use std::io::{self, Write};

/// Writes the records in file order, each as a line of text or of JSON.
///
/// # Errors
/// If the recording cannot be read or `out` refuses.
pub fn write(reader: &mut Reader, json: bool, out: &mut impl Write) -> Result<(), Error> {
    while let Some(record) = reader.next()? {
        if json {
            write_json(&record, out)?;
        } else {
            write_text(&record, out)?;
        }
    }
    Ok(())
}

fn type_name(record: &Record<'_>) -> String {
    let name = record.kind.name();
    name.map_or_else(|| format!("type{}", record.kind.0), str::to_owned)
}

fn write_text(record: &Record<'_>, out: &mut impl Write) -> io::Result<()> {
    let (name, size) = (type_name(record), record.bytes.len());
    write!(
        out,
        "{:#x} {name} size={size} misc={:#x}",
        record.offset, record.misc.0
    )?;
    if let Some(event) = event_of(record) {
        write!(out, " event=\"{}\"", visible(event.name().as_bytes()))?;
    }
    write_fields(&record.decode().fields(), out)?;
    let trailer = trailer(record);
    if !trailer.is_empty() {
        write_fields(&[("sample_id", Value::Map(trailer))], out)?;
    }
    writeln!(out)
}

fn write_json(record: &Record<'_>, out: &mut impl Write) -> io::Result<()> {
    let mut object = Map::new();
    object.insert("offset".to_owned(), record.offset.into());
    object.insert("type".to_owned(), type_name(record).into());
    object.insert("size".to_owned(), record.bytes.len().into());
    object.insert("misc".to_owned(), record.misc.0.into());
    if let Some(event) = event_of(record) {
        object.insert("event".to_owned(), event.name().into());
    }
    object.insert(
        "fields".to_owned(),
        json_fields(record.decode().fields()).into(),
    );
    let trailer = trailer(record);
    if !trailer.is_empty() {
        object.insert("sample_id".to_owned(), json_fields(trailer).into());
    }
    harmless_json::write(&Json::Object(object), out)?;
    writeln!(out)
}

/// The event of a sample; the other records are rarely about one.
fn event_of<'a>(record: &Record<'a>) -> Option<&'a prof_perfdata::Event> {
    let is_sample = matches!(record.decode(), Body::Sample(_));
    record.event().filter(|_| is_sample)
}

/// The fields of the sample_id trailer; a sample has them in its body.
fn trailer(record: &Record<'_>) -> Vec<(&'static str, Value<'static>)> {
    if matches!(record.decode(), Body::Sample(_)) {
        return Vec::new();
    }
    let SampleId {
        pid,
        tid,
        time,
        id,
        stream_id,
        cpu,
    } = record.sample_id();
    let signed = |name, value: Option<i32>| value.map(|value| (name, Value::Signed(value.into())));
    let number = |name, value: Option<u64>| value.map(|value| (name, Value::Number(value)));
    [
        signed("pid", pid),
        signed("tid", tid),
        number("time", time),
        number("id", id),
        number("stream_id", stream_id),
        number("cpu", cpu.map(u64::from)),
    ]
    .into_iter()
    .flatten()
    .collect()
}

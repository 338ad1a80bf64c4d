//! The file header, the events and the feature sections: what
//! `perf report --header-only -I` tells, in its words.

use super::attr;
use super::features;
use super::values::json_fields;
use crate::Error;
use prof_abi::{ByteOrder, EventAttr, RecordType};
use prof_perfdata::{
    Event, Feature, FeatureBit, FeatureSection, GroupDescription, Mode, Reader, Section, Value,
};
use prof_report::{escape, harmless_json};
use prof_sys::clock::local_time;
use serde_json::json;
use std::borrow::Cow;
use std::io::{self, Write};

type Fields<'a> = Vec<(&'static str, Value<'a>)>;

/// How much of a header is written as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HeaderDetail {
    /// Without the tables of CPUs, memory and caches, as perf by default.
    Brief,
    /// With them, as perf with `-I`.
    Full,
    /// With what perf leaves out, too.
    All,
}

/// Writes header, events and features as text, in perf's words and order.
/// `written_at` is when the file was last written to, seconds since 1970.
///
/// # Errors
/// If the recording cannot be read or `out` refuses.
pub fn write_text(
    reader: &mut Reader,
    detail: HeaderDetail,
    written_at: Option<i64>,
    out: &mut impl Write,
) -> Result<(), Error> {
    read_ahead(reader)?;
    let text = Text {
        reader,
        detail,
        written_at,
    };
    text.write(out)?;
    Ok(())
}

/// Writes the same as an object.
///
/// # Errors
/// If the recording cannot be read or `out` refuses.
pub fn write_json(reader: &mut Reader, out: &mut impl Write) -> Result<(), Error> {
    read_ahead(reader)?;
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
    harmless_json::write(&object, out)?;
    writeln!(out)?;
    Ok(())
}

/// In a stream all this comes as records before the first sample.
fn read_ahead(reader: &mut Reader) -> Result<(), Error> {
    if reader.header().mode == Mode::Pipe {
        while let Some(record) = reader.next()? {
            if record.kind == RecordType::SAMPLE {
                break;
            }
        }
    }
    Ok(())
}

fn header_fields(reader: &Reader) -> Fields<'static> {
    let header = reader.header();
    let mut fields = vec![
        ("header version", Value::Number(header.version.into())),
        ("mode", Value::Word(mode_name(header.mode))),
        ("byte order", Value::Word(order_name(header.order))),
    ];
    if header.mode == Mode::File {
        fields.push(("data offset", Value::Number(header.data.offset)));
        fields.push(("data size", Value::Number(header.data.size)));
        fields.push(("feat offset", Value::Number(header.data.end())));
    }
    fields
}

fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::File => "file",
        Mode::Pipe => "pipe",
    }
}

fn order_name(order: ByteOrder) -> &'static str {
    match order {
        ByteOrder::Little => "little-endian",
        ByteOrder::Big => "big-endian",
    }
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

/// What is written as text, and from where.
struct Text<'a> {
    reader: &'a Reader,
    detail: HeaderDetail,
    written_at: Option<i64>,
}

const RULE: &str = "# ========";

impl Text<'_> {
    fn write(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "{RULE}")?;
        self.places(out)?;
        // perf meets the features of a stream only after it wrote this.
        let is_stream = self.reader.header().mode == Mode::Pipe;
        if is_stream {
            writeln!(out, "{RULE}\n#")?;
        }
        for section in self.reader.features().sections() {
            self.section(section, out)?;
        }
        if !self.reader.features().has(FeatureBit::EVENT_DESC) {
            for event in self.reader.events().list() {
                event_line(&event.name(), &event.ids, Some(&event.attr), out)?;
            }
        }
        if !is_stream {
            write!(out, "# missing features: ")?;
            for name in missing_features(self.reader) {
                write!(out, "{name} ")?;
            }
            writeln!(out, "\n{RULE}\n#")?;
        }
        Ok(())
    }

    /// When and how the file was written, and where its parts are.
    fn places(&self, out: &mut impl Write) -> io::Result<()> {
        let header = self.reader.header();
        if let Some(time) = self.written_at.and_then(local_time) {
            writeln!(out, "# captured on    : {}", time.as_ctime())?;
        }
        // perf counts versions of the header from 0.
        let version = header.version.saturating_sub(1);
        writeln!(out, "# header version : {version}")?;
        let (data, end) = match header.mode {
            Mode::File => (header.data, header.data.end()),
            Mode::Pipe => (Section::default(), 0),
        };
        writeln!(out, "# data offset    : {}", data.offset)?;
        writeln!(out, "# data size      : {}", data.size)?;
        writeln!(out, "# feat offset    : {end}")?;
        if self.detail == HeaderDetail::All {
            writeln!(out, "# mode           : {}", mode_name(header.mode))?;
            writeln!(out, "# byte order     : {}", order_name(header.order))?;
        }
        Ok(())
    }

    fn section(&self, section: &FeatureSection, out: &mut impl Write) -> io::Result<()> {
        if features::is_perfs_secret(section) && self.detail < HeaderDetail::All {
            return Ok(());
        }
        if features::is_long(section) && self.detail == HeaderDetail::Brief {
            let name = features::name(section);
            return writeln!(out, "# {name} info available, use -I to display");
        }
        match &section.content {
            Some(Feature::EventDesc(events)) => {
                for event in events {
                    let name = features::text(&event.name);
                    event_line(&name, &event.ids, event.attr.as_ref(), out)?;
                }
                Ok(())
            }
            Some(Feature::Groups(groups)) => self.groups(groups, out),
            _ => features::write_text(section, out),
        }
    }

    /// The names of events that are counted together.
    fn groups(&self, groups: &[GroupDescription], out: &mut impl Write) -> io::Result<()> {
        let events = self.reader.events().list();
        for group in groups {
            let members = events.iter().skip(group.leader as usize);
            let names: Vec<String> = members
                .take(group.members as usize)
                .map(|event| escape::terminal(&event.name()).into_owned())
                .collect();
            // A group without a name of its own.
            let name = features::text(&group.name);
            let name = name.strip_prefix("{anon_group}").unwrap_or(&name);
            writeln!(out, "# group: {name}{{{}}}", names.join(","))?;
        }
        Ok(())
    }
}

fn event_line(
    name: &str,
    ids: &[u64],
    attr: Option<&EventAttr>,
    out: &mut impl Write,
) -> io::Result<()> {
    write!(out, "# event : name = {}, ", escape::terminal(name))?;
    if !ids.is_empty() {
        let ids: Vec<String> = ids.iter().map(u64::to_string).collect();
        write!(out, ", id = {{ {} }}", ids.join(", "))?;
    }
    writeln!(out, "{}", attr.map_or_else(String::new, attr::text))
}

/// Features of perf (up to its newest known here) that are not there.
fn missing_features(reader: &Reader) -> impl Iterator<Item = &'static str> + '_ {
    let known = FeatureBit::TRACING_DATA.0..=FeatureBit::CLN_SIZE.0;
    let missing = known
        .map(FeatureBit)
        .filter(|&bit| !reader.features().has(bit));
    missing.filter_map(FeatureBit::name)
}

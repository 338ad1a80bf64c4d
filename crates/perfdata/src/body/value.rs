//! What fields of records hold, for listing.

use crate::read_values::ReadValues;
use crate::sample::Words;
use std::borrow::Cow;

/// A field's value, for listing.
#[derive(Debug, Clone, PartialEq)]
pub enum Value<'a> {
    /// A count, id or size.
    Number(u64),
    /// A number that may be negative (-1 for "any").
    Signed(i64),
    /// An address, mask or flag word.
    Hex(u64),
    /// A scale.
    Float(f64),
    /// A name of ours.
    Word(&'static str),
    /// Bytes that are text by intent, as found.
    Text(Cow<'a, [u8]>),
    /// A build-id.
    BuildId(prof_abi::BuildId),
    /// Opaque bytes.
    Bytes(&'a [u8]),
    /// Several of a kind.
    List(Vec<Value<'a>>),
    /// Named parts.
    Map(Vec<(&'static str, Value<'a>)>),
}

/// How the table shows an integer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Hex,
}

/// Counter values as named parts.
pub(crate) fn read_value(read: &ReadValues<'_>) -> Value<'static> {
    let mut parts = Vec::new();
    let times = [
        ("enabled", read.time_enabled()),
        ("running", read.time_running()),
    ];
    for (name, time) in times {
        parts.extend(time.map(|time| (name, Value::Number(time))));
    }
    let each = read.values().map(|counter| {
        let mut parts = vec![("value", Value::Number(counter.value))];
        parts.extend(counter.id.map(|id| ("id", Value::Number(id))));
        parts.extend(counter.lost.map(|lost| ("lost", Value::Number(lost))));
        Value::Map(parts)
    });
    parts.push(("counters", Value::List(each.collect())));
    Value::Map(parts)
}

/// `words` as a list.
pub(crate) fn list_of(words: Words<'_>, style: Style) -> Value<'static> {
    Value::List(
        words
            .map(|word| match style {
                Style::Hex => Value::Hex(word),
                Style::Plain => Value::Number(word),
            })
            .collect(),
    )
}

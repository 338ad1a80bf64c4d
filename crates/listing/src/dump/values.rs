//! A field's value as text and as JSON.

use prof_perfdata::Value;
use serde_json::{Map, Value as Json};
use std::io::{self, Write};

/// As many opaque bytes are written in a line of text; JSON has all.
const BYTES_SHOWN: usize = 64;

/// Text of a file made harmless: control characters, quotes, backslashes and
/// what is not UTF-8 become escapes.
pub(super) fn visible(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            let hidden = character.is_control()
                || matches!(character, '\u{2028}' | '\u{2029}' | '\u{200e}' | '\u{200f}')
                || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
            if hidden || matches!(character, '"' | '\\') {
                text.extend(character.escape_default());
            } else {
                text.push(character);
            }
        }
        for byte in chunk.invalid() {
            text.push_str(&format!("\\x{byte:02x}"));
        }
    }
    text
}

/// Writes ` name=value` for each field.
pub(super) fn write_fields(
    fields: &[(&'static str, Value<'_>)],
    out: &mut impl Write,
) -> io::Result<()> {
    for (name, value) in fields {
        write!(out, " {name}=")?;
        write_value(value, out)?;
    }
    Ok(())
}

pub(super) fn write_value(value: &Value<'_>, out: &mut impl Write) -> io::Result<()> {
    match value {
        Value::Number(number) => write!(out, "{number}"),
        Value::Signed(number) => write!(out, "{number}"),
        Value::Hex(number) => write!(out, "{number:#x}"),
        Value::Float(number) => write!(out, "{number}"),
        Value::Word(word) => out.write_all(word.as_bytes()),
        Value::Text(text) => write!(out, "\"{}\"", visible(text)),
        Value::BuildId(build_id) => write!(out, "{build_id}"),
        Value::Bytes(bytes) => write_bytes(bytes, out),
        Value::List(list) => {
            out.write_all(b"[")?;
            for (index, item) in list.iter().enumerate() {
                if index > 0 {
                    out.write_all(b",")?;
                }
                write_value(item, out)?;
            }
            out.write_all(b"]")
        }
        Value::Map(parts) => {
            out.write_all(b"{")?;
            for (index, (name, item)) in parts.iter().enumerate() {
                if index > 0 {
                    out.write_all(b",")?;
                }
                write!(out, "{name}=")?;
                write_value(item, out)?;
            }
            out.write_all(b"}")
        }
    }
}

/// `(8192)0011…`: the length, then the first bytes in hex.
fn write_bytes(bytes: &[u8], out: &mut impl Write) -> io::Result<()> {
    write!(out, "({})", bytes.len())?;
    for byte in bytes.iter().take(BYTES_SHOWN) {
        write!(out, "{byte:02x}")?;
    }
    if bytes.len() > BYTES_SHOWN {
        out.write_all("…".as_bytes())?;
    }
    Ok(())
}

/// The fields as an object.
pub(super) fn json_fields(fields: Vec<(&'static str, Value<'_>)>) -> Map<String, Json> {
    let json = |(name, value): (&str, Value<'_>)| (name.to_owned(), json_value(value));
    fields.into_iter().map(json).collect()
}

/// Addresses and masks are strings in hex, since JSON's numbers lose the low
/// bits of large ones in many readers.
fn json_value(value: Value<'_>) -> Json {
    match value {
        Value::Number(number) => number.into(),
        Value::Signed(number) => number.into(),
        Value::Hex(number) => format!("{number:#x}").into(),
        Value::Float(number) => number.into(),
        Value::Word(word) => word.into(),
        Value::Text(text) => String::from_utf8_lossy(&text).into(),
        Value::BuildId(build_id) => build_id.to_string().into(),
        Value::Bytes(bytes) => hex(bytes).into(),
        Value::List(list) => list.into_iter().map(json_value).collect(),
        Value::Map(parts) => Json::Object(json_fields(parts)),
    }
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        for nibble in [byte >> 4, byte & 15] {
            text.push(char::from(DIGITS[usize::from(nibble)]));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{visible, write_value};
    use prof_perfdata::Value;

    #[test]
    fn names_cannot_forge_lines_or_reach_the_terminal() {
        assert_eq!(visible(b"a\n0x10 SAMPLE"), "a\\n0x10 SAMPLE");
        assert_eq!(visible(b"\x1b[31m\xff\"\\"), "\\u{1b}[31m\\xff\\\"\\\\");
        assert_eq!(visible("\u{202e}é".as_bytes()), "\\u{202e}é");
    }

    #[test]
    fn parts_nest_and_long_bytes_are_cut() {
        let mut out = Vec::new();
        let value = Value::Map(vec![
            ("ids", Value::List(vec![Value::Hex(16), Value::Signed(-1)])),
            ("raw", Value::Bytes(&[0xab; 65])),
        ]);
        write_value(&value, &mut out).expect("memory");
        let expected = format!("{{ids=[0x10,-1],raw=(65){}…}}", "ab".repeat(64));
        assert_eq!(String::from_utf8_lossy(&out), expected);
    }
}

//! JSON that a terminal may be shown: what `serde_json` leaves as it is and a
//! terminal obeys (DEL, and the C1 controls, which are escape sequences of one
//! character) or turns the text around with is written as `\u…`. The strings
//! are the same.

use crate::escape;
use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};
use std::io::{self, Write};

/// Writes `value` as one line of JSON, without the newline.
///
/// # Errors
/// If `out` cannot be written to.
pub fn write<T: Serialize + ?Sized>(value: &T, out: &mut impl Write) -> io::Result<()> {
    let mut serializer = Serializer::with_formatter(out, Harmless);
    value.serialize(&mut serializer).map_err(io::Error::from)
}

struct Harmless;

impl Formatter for Harmless {
    fn write_string_fragment<W>(&mut self, out: &mut W, fragment: &str) -> io::Result<()>
    where
        W: ?Sized + Write,
    {
        let mut done = 0;
        for (at, letter) in fragment.char_indices() {
            if !escape::is_hidden(letter) {
                continue;
            }
            let before = fragment.get(done..at).unwrap_or_default();
            out.write_all(before.as_bytes())?;
            for unit in letter.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}")?;
            }
            done = at + letter.len_utf8();
        }
        let rest = fragment.get(done..).unwrap_or_default();
        out.write_all(rest.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::write;

    #[test]
    fn strings_stay_the_same_and_terminals_alone() {
        let text = "a\u{9b}31m\u{7f}\x1b\u{202e}\u{e0001}ü\n\"";
        let mut out = Vec::new();
        write(&[text], &mut out).expect("memory");
        let written = String::from_utf8(out).expect("UTF-8");
        assert_eq!(
            written,
            r#"["a\u009b31m\u007f\u001b\u202e\udb40\udc01ü\n\""]"#
        );
        let read: Vec<String> = serde_json::from_str(&written).expect("JSON");
        assert_eq!(read, [text]);
    }
}

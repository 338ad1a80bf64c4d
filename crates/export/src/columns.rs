//! Columns of a table as JSON: many numbers, written without the machinery of
//! formatting.

use std::io::{self, Write};

/// What stands in a column.
pub(crate) trait Cell {
    /// Adds it as JSON.
    fn put(&self, out: &mut Vec<u8>);
}

/// Numbers are their digits.
macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Cell for $number {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(itoa::Buffer::new().format(*self).as_bytes());
            }
        }
    )*};
}

numbers!(u32, u64, usize, i64);

impl<T: Cell> Cell for &T {
    fn put(&self, out: &mut Vec<u8>) {
        (*self).put(out);
    }
}

/// JSON itself.
impl Cell for &str {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }
}

/// JSON itself.
impl Cell for String {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.as_bytes());
    }
}

impl Cell for bool {
    fn put(&self, out: &mut Vec<u8>) {
        (if *self { "true" } else { "false" }).put(out);
    }
}

/// An index or nothing.
pub(crate) struct Index(pub(crate) Option<u32>);

impl Cell for Index {
    fn put(&self, out: &mut Vec<u8>) {
        match self.0 {
            Some(index) => index.put(out),
            None => "null".put(out),
        }
    }
}

/// Nanoseconds as milliseconds, exact.
pub(crate) struct Millis(pub(crate) u64);

impl Cell for Millis {
    fn put(&self, out: &mut Vec<u8>) {
        (self.0 / 1_000_000).put(out);
        out.push(b'.');
        // A digit more, for the zeros in front, which then makes way.
        let at = out.len();
        (1_000_000 + self.0 % 1_000_000).put(out);
        out.remove(at);
    }
}

/// Bytes that are gathered before they are written.
const PORTION: usize = 32 << 10;

/// Writes `"name":[…]`.
///
/// # Errors
/// If `out` cannot be written to.
pub(crate) fn list<T: Cell>(
    out: &mut dyn Write,
    name: &str,
    values: impl Iterator<Item = T>,
) -> io::Result<()> {
    let mut bytes = Vec::with_capacity(PORTION + 64);
    write!(bytes, "\"{name}\":[")?;
    let mut is_first = true;
    for value in values {
        if !std::mem::take(&mut is_first) {
            bytes.push(b',');
        }
        value.put(&mut bytes);
        if bytes.len() >= PORTION {
            out.write_all(&bytes)?;
            bytes.clear();
        }
    }
    bytes.push(b']');
    out.write_all(&bytes)
}

/// The same behind a comma.
///
/// # Errors
/// As [`list`].
pub(crate) fn comma_list<T: Cell>(
    out: &mut dyn Write,
    name: &str,
    values: impl Iterator<Item = T>,
) -> io::Result<()> {
    out.write_all(b",")?;
    list(out, name, values)
}

#[cfg(test)]
mod tests {
    use super::{Index, Millis, comma_list};
    use serde_json::Value;

    #[test]
    fn columns_are_json_of_any_length() {
        let times = [0, 1, 999_999, 1_000_000, 1_000_001, u64::MAX];
        let mut out = Vec::new();
        comma_list(&mut out, "time", times.into_iter().map(Millis)).expect("written");
        let text = String::from_utf8(out).expect("text");
        let expected = "0.000000,0.000001,0.999999,1.000000,1.000001,18446744073709.551615";
        assert_eq!(text, format!(",\"time\":[{expected}]"));
        let mut out = b"{\"none\":[]".to_vec();
        comma_list(
            &mut out,
            "stack",
            (0..50_000).map(|at| Index(Some(at).filter(|it| it % 7 > 0))),
        )
        .expect("written");
        out.push(b'}');
        let json: Value = serde_json::from_slice(&out).expect("JSON");
        let list = json["stack"].as_array().expect("a list");
        assert_eq!(
            (list.len(), &list[7], &list[8]),
            (50_000, &Value::Null, &Value::from(8))
        );
    }
}

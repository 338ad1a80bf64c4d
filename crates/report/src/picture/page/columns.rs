//! Columns of numbers as the page's script reads them: see `format.md`.

use flate2::Compression;
use flate2::write::ZlibEncoder;
use serde::Serialize;
use std::io::{self, Write};

/// How a column is told in the header.
#[derive(Debug, Serialize)]
pub(super) struct Column {
    name: &'static str,
    bytes: usize,
}

/// Columns one behind the other.
#[derive(Debug, Default)]
pub(super) struct Columns {
    bytes: Vec<u8>,
    list: Vec<Column>,
}

impl Columns {
    /// Adds a column that is text.
    pub(super) fn text(&mut self, name: &'static str, text: &[u8]) {
        self.bytes.extend_from_slice(text);
        self.end(name, text.len());
    }

    /// Adds a column of numbers.
    pub(super) fn numbers(&mut self, name: &'static str, numbers: impl Iterator<Item = u64>) {
        let start = self.bytes.len();
        for number in numbers {
            push_number(number, &mut self.bytes);
        }
        self.end(name, self.bytes.len() - start);
    }

    fn end(&mut self, name: &'static str, bytes: usize) {
        self.list.push(Column { name, bytes });
    }

    /// What the header says of the columns.
    pub(super) fn list(&self) -> &[Column] {
        &self.list
    }

    /// Header and columns, deflated.
    pub(super) fn packed(&self, header: &[u8]) -> io::Result<Vec<u8>> {
        let length = u32::try_from(header.len()).map_err(io::Error::other)?;
        let mut packer = ZlibEncoder::new(Vec::new(), Compression::default());
        packer.write_all(&length.to_le_bytes())?;
        packer.write_all(header)?;
        packer.write_all(&self.bytes)?;
        packer.finish()
    }
}

/// LEB128: seven bits a byte, lowest first.
fn push_number(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Bytes as text, RFC 4648.
pub(super) fn base64(bytes: &[u8]) -> String {
    const SIGNS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for three in bytes.chunks(3) {
        let byte = |index: usize| u32::from(three.get(index).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..4 {
            let sign = SIGNS.get((bits >> (18 - 6 * place) & 63) as usize);
            let sign = sign.copied().filter(|_| place <= three.len());
            text.push(char::from(sign.unwrap_or(b'=')));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{base64, push_number};

    #[test]
    fn bytes_become_text_as_the_standard_says() {
        let cases = [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
        ];
        for (bytes, text) in cases {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        assert_eq!(base64(&[0xfb, 0xff, 0xbf]), "+/+/");
    }

    #[test]
    fn numbers_take_as_many_bytes_as_they_need() {
        let mut out = Vec::new();
        for number in [0, 127, 128, 300, u64::MAX] {
            push_number(number, &mut out);
        }
        assert_eq!(&out[..6], [0, 127, 0x80, 1, 0xac, 2]);
        assert_eq!(out.len(), 6 + 10);
    }
}

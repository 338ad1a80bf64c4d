//! Thrift's "compact protocol", as far as the headers of Parquet need it.

/// A structure as it is written.
#[derive(Default)]
pub(super) struct Compact {
    pub(super) bytes: Vec<u8>,
    /// The number of the last field of the structure that is open.
    last: u8,
}

/// Types of fields.
pub(super) const I32: u8 = 5;
const I64: u8 = 6;
pub(super) const BINARY: u8 = 8;
pub(super) const LIST: u8 = 9;
const STRUCT: u8 = 12;

impl Compact {
    pub(super) fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.bytes.push(value as u8);
    }

    pub(super) fn zigzag(&mut self, value: i64) {
        self.varint((value << 1 ^ value >> 63) as u64);
    }

    /// The head of a field; fields come in the order of their numbers.
    pub(super) fn field(&mut self, number: u8, kind: u8) {
        self.bytes.push((number - self.last) << 4 | kind);
        self.last = number;
    }

    pub(super) fn int(&mut self, number: u8, value: i64) {
        self.field(number, I32);
        self.zigzag(value);
    }

    pub(super) fn long(&mut self, number: u8, value: i64) {
        self.field(number, I64);
        self.zigzag(value);
    }

    pub(super) fn plain_text(&mut self, text: &str) {
        self.varint(text.len() as u64);
        self.bytes.extend_from_slice(text.as_bytes());
    }

    pub(super) fn text(&mut self, number: u8, text: &str) {
        self.field(number, BINARY);
        self.plain_text(text);
    }

    pub(super) fn end(&mut self) {
        self.bytes.push(0);
        self.last = 0;
    }

    pub(super) fn structure(&mut self, number: u8, fill: impl FnOnce(&mut Self)) {
        self.field(number, STRUCT);
        self.last = 0;
        fill(self);
        self.end();
        self.last = number;
    }

    /// A list of structures, each of which `fill` ends.
    pub(super) fn list(&mut self, number: u8, length: usize, fill: impl FnOnce(&mut Self)) {
        self.field(number, LIST);
        self.list_head(length, STRUCT);
        self.last = 0;
        fill(self);
        self.last = number;
    }

    pub(super) fn list_head(&mut self, length: usize, kind: u8) {
        if length < 15 {
            self.bytes.push((length as u8) << 4 | kind);
        } else {
            self.bytes.push(0xf0 | kind);
            self.varint(length as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Compact;

    #[test]
    fn fields_are_laid_out_as_thrift_does() {
        let mut message = Compact::default();
        message.int(1, -2);
        message.structure(4, |inner| inner.long(1, 300));
        message.text(6, "ab");
        message.end();
        assert_eq!(message.bytes, b"\x15\x03\x3c\x16\xd8\x04\x00\x28\x02ab\x00");
    }
}
